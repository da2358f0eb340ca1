"""A file that gets other bytes while it is read is an error where some of them were read, and else as it is now."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from outcome import Command

import fpstore
from fpstore import JobError
from fpstore.cluster import fingerprint
from fpstore.inputs import BadInput, compressed, documents, read, text
from fpstore.inputs.compressed import open_stream
from fpstore.jobs import Inputs, cluster, dedup

CHANGED = "found other bytes than those that were read of it, expected the same: it has changed while it was read"
SIZE = 500  # of a line
COUNT = 10_000
READ = 5 << 19  # so many bytes are read before a file changes, in which those are that only tell of fields


def lines(which: str, count: int = COUNT) -> bytes:
    """JSON with a text, the fingerprint of which depends on which."""
    made = (f'{{"text": "{f" {which}{number}" * 60}'.ljust(SIZE)[: SIZE - 3] + '"}\n' for number in range(count))
    return "".join(made).encode()


OLD, NEW = lines("old"), lines("new")


def cut_and_grown(path: Path, keep: int, size: int) -> None:
    os.truncate(path, keep)
    with path.open("ab") as file:
        file.write(NEW[keep:size] if size <= len(NEW) else NEW[keep:] + lines("more", (size - len(NEW)) // SIZE))


def rewritten(path: Path, keep: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(keep)
        file.write(NEW[keep:size])


def with_its_time(path: Path, keep: int, size: int) -> None:
    time = path.stat().st_mtime_ns
    rewritten(path, keep, size)
    os.utime(path, ns=(time, time))


def replaced(path: Path, keep: int, size: int) -> None:
    other = path.with_name("other")
    other.write_bytes(OLD[:keep] + NEW[keep:size])
    other.replace(path)


CHANGES: dict[str, tuple[Callable[[Path, int, int], None], int]] = {
    "cut and grown to its size": (cut_and_grown, len(OLD)),
    "cut and grown larger": (cut_and_grown, len(OLD) + 50 * SIZE),
    "replaced": (replaced, len(OLD)),
    "written over": (rewritten, len(OLD)),
    "written over, and given its time": (with_its_time, len(OLD)),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a file change when so many bytes were read, from the byte keep on."""

    def later(path: Path, keep: int) -> None:
        done, size = CHANGES[request.param]
        when_read(monkeypatch, lambda: done(path, keep, size))

    return later


def when_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], least: int = READ) -> None:
    """Act once, behind the read by which least bytes were read."""
    fill, read = compressed._Raw._fill, [0]

    def filled(raw: Any, room: Any) -> int:
        count = fill(raw, room)
        before, read[0] = read[0], read[0] + count
        if before < least <= read[0]:
            act()
        return count

    monkeypatch.setattr(compressed._Raw, "_fill", filled)


def run_dedup(path: Path, out: Path) -> None:
    dedup(Inputs([path]), out, threads=1)


def run_dedup_by_two(path: Path, out: Path) -> None:
    dedup(Inputs([path]), out, threads=2)


def run_longest(path: Path, out: Path) -> None:
    dedup(Inputs([path]), out, keep="longest")


def run_cluster(path: Path, out: Path) -> None:
    cluster(Inputs([path]), out)


def run_fingerprint(path: Path, out: Path) -> None:
    with fingerprint(Inputs([path])) as found:
        told = [f"{key:016x} {name}\n" for names, keys in found for key, name in zip(keys.tolist(), names, strict=True)]
    out.write_text("".join(told))


JOBS = [run_dedup, run_dedup_by_two, run_longest, run_cluster, run_fingerprint]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a.jsonl"
    found.write_bytes(OLD)
    os.utime(found, ns=(0, 0))  # so that each change gives it another time, however soon it comes
    return found


@pytest.mark.parametrize("job", JOBS)
def test_a_job_says_that_what_it_has_read_has_changed_and_leaves_no_result(
    path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    change: Callable[..., None],
    job: Callable[[Path, Path], None],
) -> None:
    """What is put in a file's place is none of it: what was open is read to its end."""
    change(path, 40 * SIZE)
    if request.node.callspec.params["change"] == "replaced":
        expect_what_was_open(path, tmp_path, job)
        return
    with pytest.raises(BadInput) as caught:
        job(path, tmp_path / "out")
    assert str(caught.value) == f"{path}: {CHANGED}"
    assert not (tmp_path / "out").exists()
    if job is run_fingerprint:
        return
    with pytest.raises(JobError, match=r"a\.jsonl: has changed before the place where the interrupted job goes on"):
        job(path, tmp_path / "out")


def expect_what_was_open(path: Path, tmp_path: Path, job: Callable[[Path, Path], None]) -> None:
    """The result is that of the bytes which the file had; what reads twice finds others by the path, and has none."""
    if job is run_longest:
        with pytest.raises(JobError, match=rf"the inputs have changed since they were measured: {path}:\d+ is another"):
            job(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return
    job(path, tmp_path / "out")
    assert path.read_bytes() != OLD
    path.write_bytes(OLD)
    job(path, tmp_path / "again")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize("job", JOBS)
def test_what_changes_before_it_is_read_is_read_as_it_is(
    path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    change: Callable[..., None],
    job: Callable[[Path, Path], None],
) -> None:
    change(path, len(OLD) - 40 * SIZE)
    if request.node.callspec.params["change"] == "replaced":  # what is open has kept what it had
        expect_what_was_open(path, tmp_path, job)
        return
    job(path, tmp_path / "out")
    job(path, tmp_path / "again")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()
    assert len((tmp_path / "out").read_bytes().splitlines()) == path.stat().st_size // SIZE


def test_add_says_that_what_it_has_read_has_changed_and_what_is_stored(
    path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    change: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    assert command("create", tmp_path / "s", "--recipe", "text-1").status == 0
    monkeypatch.setattr("fpstore.cli.add.BATCH_ROWS", 1000)
    change(path, 40 * SIZE)
    outcome = command("add", tmp_path / "s", path, "--ids", "from:0")
    if request.node.callspec.params["change"] == "replaced":
        assert outcome.status == 0
        with fpstore.open(tmp_path / "s") as store:
            added = {fingerprint for rows in store.rows() for fingerprint in rows.fingerprint.tolist()}
        path.write_bytes(OLD)
        assert added == {fingerprint for batch in read([path]) for fingerprint in batch.fingerprints.tolist()}
        return
    assert outcome.status == 1
    assert f"{path}: {CHANGED}" in outcome.err
    with fpstore.open(tmp_path / "s") as store:
        count = sum(len(rows.fingerprint) for rows in store.rows())
    assert f"wrote {count} rows" in outcome.err
    assert count in range(1000, COUNT + 1, 1000)


@pytest.mark.parametrize("skip_bad", [False, True], ids=["strict", "skip-bad"])
def test_it_is_told_though_bad_lines_are_passed_over(
    path: Path, request: pytest.FixtureRequest, change: Callable[..., None], skip_bad: bool
) -> None:
    change(path, 40 * SIZE)
    if request.node.callspec.params["change"] == "replaced":
        assert list(documents([str(path)], skip_bad=skip_bad))[-1][1].split()[0] == f"old{COUNT - 1}"
        return
    with pytest.raises(BadInput, match=CHANGED):
        for _ in documents([str(path)], skip_bad=skip_bad):
            pass


RECORD = b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: u\r\nContent-Length: 6\r\n\r\na line\r\n\r\n"
# Of each format a file that is read in parts, and where it changes.
FILES = {
    "csv": (b"text\n" + b"a line of text\n" * 200_000, 6),
    "json": (b"[" + b'{"text": "a line"},\n' * 150_000 + b'{"text": "a line"}]\n', 12),
    "text": (b"a line of text\n" * 200_000, 6),
    "warc": (RECORD * 60_000, RECORD.index(b"a line")),
    "hex": (b"%016x\n" % (1 << 63) * 200_000, 5),
    "u64": (b"\xff\x00345678" * 400_000, 5),
}


@pytest.mark.parametrize("format", FILES)
def test_every_reader_tells_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    path = tmp_path / "a"
    data, at = FILES[format]
    path.write_bytes(data)
    os.utime(path, ns=(0, 0))
    monkeypatch.setattr(text, "plain_file", lambda path, limit: None)
    when_read(monkeypatch, lambda: _written_at(path, at, b"7"))
    options: dict[str, Any] = {"text_column": "text"} if format == "csv" else {}
    made: Any = read if format in ("hex", "u64") else documents
    with pytest.raises(BadInput, match=CHANGED):
        for _ in made([str(path)], format=format, **options):
            pass


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_a_packed_file_is_looked_at_as_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_ahead: bool
) -> None:
    path, packed = tmp_path / "a.zst", zstandard.compress(os.urandom(1 << 22))
    path.write_bytes(packed)
    os.utime(path, ns=(0, 0))
    when_read(monkeypatch, lambda: _written_at(path, 100, bytes([packed[100] ^ 1])))
    with pytest.raises(BadInput, match=CHANGED), open_stream(str(path), None, reads_ahead=reads_ahead) as stream:
        stream.whole(1 << 30)


def _written_at(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_stretch_is_compared_with_its_own_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    for at, is_told in ((500, False), (1000, True), (1999, True), (2000, False)):
        os.utime(path, ns=(0, 0))

        def read_some(at: int = at) -> None:
            with open_stream(str(path), None, within=(1000, 2000)) as stream:
                stream.whole(1 << 20)
                _written_at(path, at, b"%d" % (at // 500))

        if is_told:
            with pytest.raises(BadInput, match=CHANGED):
                read_some()
        else:
            read_some()


def test_standard_input_that_is_a_file_is_compared_from_where_it_stands_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, is_told in ((10, False), (SIZE, True), (len(OLD) - 20, True)):
        path.write_bytes(OLD)
        os.utime(path, ns=(0, 0))
        with path.open("rb") as file:
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
            file.readline()

            def read_rest(at: int = at) -> None:
                with open_stream("-", None) as stream:
                    assert len(stream.whole(1 << 30)) == len(OLD) - SIZE
                    _written_at(path, at, b"#")

            if is_told:
                with pytest.raises(BadInput, match=f"standard input: {CHANGED}"):
                    read_rest()
            else:
                read_rest()


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(NEW)


def deleted_and_grown(path: Path) -> None:
    grown(path)
    path.unlink()


def copied(path: Path) -> None:
    replaced(path, len(OLD), len(OLD))


def mode_changed(path: Path) -> None:
    path.chmod(0o600)


def behind_a_file(path: Path) -> None:
    """A file is where the folder was."""
    path.parent.rename(path.parent.with_name("away"))
    path.parent.write_bytes(b"")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A file in a folder of its own."""
    (tmp_path / "folder").mkdir()
    found = tmp_path / "folder" / "a.jsonl"
    found.write_bytes(OLD)
    return found


def test_a_path_that_leads_nowhere_any_more_is_as_a_file_that_is_gone(inside: Path) -> None:
    assert read_some_and(inside, len(OLD), lambda: behind_a_file(inside), within=(0, len(OLD))) == OLD


def test_a_path_that_nobody_may_follow_any_more_is_as_a_file_that_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*asked: Any) -> Any:
        raise PermissionError(13, "Permission denied", *asked)

    with monkeypatch.context() as later:
        assert read_some_and(path, len(OLD), lambda: later.setattr(os, "stat", closed), within=(0, len(OLD))) == OLD


@pytest.mark.parametrize("error", [FileNotFoundError, NotADirectoryError])
def test_what_goes_between_a_look_and_its_opening_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def gone(*asked: Any) -> Any:
        raise error

    def act() -> None:
        copied(path)
        later.setattr(os, "open", gone)

    with monkeypatch.context() as later:
        assert read_some_and(path, len(OLD), act, within=(0, len(OLD))) == OLD


def read_some_and(path: Path, count: int, act: Callable[[], object], within: tuple[int, int] | None = None) -> bytes:
    with open_stream(str(path), None, within=within) as stream:
        data = stream.reader.read(count)
        act()
    return data


@pytest.mark.parametrize("within", [None, (0, len(OLD))])
@pytest.mark.parametrize("act", [grown, Path.unlink, deleted_and_grown, copied, os.utime, mode_changed])
def test_what_leaves_the_bytes_that_were_read_is_no_fault(
    path: Path, act: Callable[[Path], object], within: tuple[int, int] | None
) -> None:
    assert read_some_and(path, len(OLD), lambda: act(path), within) == OLD


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def shorter(path: Path) -> None:
    path.unlink()
    path.write_bytes(OLD[:-1])


def rotated(path: Path) -> None:
    """As logrotate does: who writes goes on in the file that he has open, and others find a new one."""
    path.rename(path.with_name("a.jsonl.1"))
    path.write_bytes(NEW)


@pytest.mark.parametrize("act", [rotated, pipe, shorter])
def test_what_is_in_its_place_is_told_where_a_file_is_opened_for_each_stretch_and_else_is_none_of_it(
    path: Path, act: Callable[[Path], object]
) -> None:
    assert read_some_and(path, len(OLD), lambda: act(path)) == OLD
    path.unlink()
    path.write_bytes(OLD)
    with pytest.raises(BadInput, match=CHANGED):
        read_some_and(path, len(OLD), lambda: act(path), within=(0, len(OLD)))


def test_a_log_that_is_rotated_before_its_end_is_read_to_the_end_that_it_has_then(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act() -> None:
        path.rename(path.with_name("a.jsonl.1"))
        with path.with_name("a.jsonl.1").open("ab") as file:
            file.write(lines("more", 3))
        path.write_bytes(NEW)

    when_read(monkeypatch, act)
    assert [found.split()[0] for _, found in documents([str(path)])][-4:] == [
        f"old{COUNT - 1}",
        "more0",
        "more1",
        "more2",
    ]


def test_of_a_file_that_was_begun_only_that_is_compared(path: Path) -> None:
    assert read_some_and(path, 10, lambda: _written_at(path, 3 << 20, b"#")) == OLD[:10]
    os.utime(path, ns=(0, 0))
    with pytest.raises(BadInput, match=CHANGED):
        read_some_and(path, 10, lambda: _written_at(path, 3, b"#"))


def test_an_error_in_what_was_read_comes_first(path: Path) -> None:
    def act() -> None:
        _written_at(path, 3, b"#")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read_some_and(path, 10, act)


def test_a_small_text_that_changes_as_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("the old text")
    os.utime(path, ns=(0, 0))
    real = os.read

    def then_written(fd: int, count: int) -> bytes:
        data = real(fd, count)
        monkeypatch.setattr(os, "read", real)
        path.write_text("the new text")
        return data

    monkeypatch.setattr(os, "read", then_written)
    assert [found for _, found in documents([str(path)])] == ["the new text"]


def test_parquet_that_looks_other_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"text {number}" for number in range(20_000)]})
    for act in (os.utime, Path.unlink, mode_changed, rotated):
        pq.write_table(table, path)
        os.utime(path, ns=(0, 0))

        def read_all(act: Any = act) -> int:
            every: Iterator[Any] = iter(documents([str(path)], text_column="text"))
            next(every)
            act(path)
            return 1 + sum(1 for _ in every)

        if act is os.utime:
            with pytest.raises(BadInput, match=f"^{path}: {CHANGED}"):
                read_all()
        else:
            assert read_all() == 20_000
