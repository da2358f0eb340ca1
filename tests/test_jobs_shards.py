"""Kept documents in shards: those of one file of results, of each input in a file of its own, whoever writes them."""

import csv
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import always_tasks, interrupt, texts, write_jsonl
from outcome import Command

import fpstore
from fpstore._codec import crc32c
from fpstore.cluster import local, parts
from fpstore.cluster.made import marks_of
from fpstore.cluster.measuring import MeasureTask
from fpstore.cluster.parts import write_footer
from fpstore.cluster.work import do_left
from fpstore.errors import JobError
from fpstore.inputs import BadInput
from fpstore.inputs.remote import stamp_of
from fpstore.jobs import Inputs, corpus, dedup, each, measure_rank, runs, shards, sharing
from fpstore.jobs.claims import Claim
from fpstore.jobs.each import MARKER
from fpstore.text import load_recipe
from fpstore.text.packed import packed as packed_texts

ONE = "<html><body><p>a b c d {}</p></body></html>"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and tasks of a few documents."""
    monkeypatch.setattr(sharing, "TASK_SECONDS", 120 / 100e6)
    always_tasks(monkeypatch)
    monkeypatch.setattr(shards, "TASK_BYTES", 100)
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 5)


def files_in(folder: Path) -> dict[str, bytes]:
    """All that lies in a folder of shards, but for the record of the job, in which there are times."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".")}


def some_files(folder: Path) -> Path:
    """A folder of two files and one in another folder, of documents that are near each other, across files too."""
    (folder / "in" / "more").mkdir(parents=True)
    for number, name in enumerate(["a.jsonl", "more/a.jsonl", "z.jsonl"]):
        write_jsonl(folder / "in" / name, [f"a b c d {(7 * number + at) % 23}" for at in range(20)])
    return folder / "in"


def lines_of(folder: Path) -> list[bytes]:
    return [line for name in sorted(files_in(folder)) if name != MARKER for line in files_in(folder)[name].splitlines()]


# --- The documents of one result ---

lines = st.lists(st.one_of(texts.map(lambda text: json.dumps({"text": text})), st.sampled_from(["{", ""])), max_size=12)


@settings(max_examples=25)
@given(
    st.lists(lines, min_size=1, max_size=5),
    st.sampled_from(["first", "longest"]),
    st.sampled_from(["default", None]),
    st.booleans(),
)
def test_shards_have_the_lines_of_one_result_whoever_writes_them(
    tmp_path_factory: pytest.TempPathFactory, own: list[list[str]], keep: str, confirm: str | None, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    (folder / "in").mkdir()
    for number, of_file in enumerate(own):
        written = "".join(f"{line}\n" for line in of_file).encode()
        name = f"{number}.jsonl{'.gz' if packed else ''}"
        (folder / "in" / name).write_bytes(gzip.compress(written) if packed else written)
    if not any(line.startswith('{"') for of_file in own for line in of_file):
        return
    how: dict[str, Any] = {"keep": keep, "confirm": confirm}
    inputs = Inputs([folder / "in"], skip_bad=True)
    one = dedup(inputs, folder / "one.jsonl", **how, dropped=folder / "one.tsv")
    for workers in (None, 2):
        out = folder / f"by {workers}"
        found = dedup(inputs, out, **how, dropped=folder / "d.tsv", workers=workers, shards=True, force=True)
        assert (found.documents, found.results, found.skipped) == (one.documents, one.results, one.skipped)
        assert (folder / "d.tsv").read_bytes() == (folder / "one.tsv").read_bytes()
        data = files_in(out)
        told = [json.loads(line) for line in data.pop(MARKER).splitlines()]
        assert [(each["shard"], each["bytes"]) for each in told] == [(name, len(data[name])) for name in sorted(data)]
        assert sum(each["kept"] for each in told) == one.results
        assert sum(each["documents"] for each in told) == one.documents
        found_lines = [gzip.decompress(data[name]) if packed else data[name] for name in sorted(data)]
        assert b"".join(found_lines) == (folder / "one.jsonl").read_bytes()
        assert sorted(data) == sorted(os.listdir(folder / "in"))
    assert files_in(folder / "by None") == files_in(folder / "by 2")


def table_of(kind: str, rows: list[dict[str, str]], path: Path) -> None:
    if kind == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
        return
    out = io.StringIO()
    if kind in ("csv", "tsv"):
        writer = csv.DictWriter(out, ["id", "page"], delimiter="," if kind == "csv" else "\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    data = out.getvalue().encode()
    if path.suffix == ".zst":
        import zstandard

        data = zstandard.compress(data)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def rows_of(kind: str, path: Path) -> list[dict[str, str]]:
    if kind == "parquet":
        from pyarrow import parquet

        return list(parquet.read_table(path).to_pylist())
    data = path.read_bytes()
    if path.suffix == ".zst":
        import zstandard

        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    if kind in ("csv", "tsv"):
        return list(csv.DictReader(io.StringIO(text), delimiter="," if kind == "csv" else "\t"))
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("html", [False, True])
def test_each_shard_has_the_format_of_its_file(tmp_path: Path, html: bool) -> None:
    forms = ("a.csv", "b.tsv.gz", "c.parquet", "d.jsonl.zst", "e.ndjson", "f.csv.gz", "none.parquet", "none.csv")
    rows = {}
    (tmp_path / "in").mkdir()
    for number, name in enumerate(forms):
        first = 40 if name.startswith("none") else number * 5
        page = ONE if html else "a b c d {}"
        rows[name] = [{"id": f"{name}-{at}", "page": page.format(at)} for at in range(first % 35, first % 35 + 12)]
        table_of(name.split(".")[1].replace("ndjson", "jsonl"), rows[name], tmp_path / "in" / name)
    inputs = Inputs([tmp_path / "in"], html=html, text_column="page", id_column="id")
    dedup(inputs, tmp_path / "kept", shards=True, workers=2, dropped=tmp_path / "d.tsv", confirm=None, max_distance=0)
    dropped = {line.split("\t")[0] for line in (tmp_path / "d.tsv").read_text().splitlines()}
    assert len(dropped) > 20
    assert {f"none.csv-{at}" for at in range(5, 17)} <= dropped
    for name in forms:
        expected = [row for row in rows[name] if row["id"] not in dropped]
        assert rows_of(name.split(".")[1].replace("ndjson", "jsonl"), tmp_path / "kept" / name) == expected


def test_a_shard_is_called_json_where_it_is_said_that_its_file_has_lines(tmp_path: Path) -> None:
    lines = '{"text":"a b c"}\n{"text": "d e f"}\n'
    (tmp_path / "a.json").write_text(lines)
    with pytest.raises(ValueError, match=r"found json, expected JSON lines, .*, and a name that says so, for a shard"):
        dedup([tmp_path / "a.json"], tmp_path / "kept", shards=True)
    dedup(Inputs([tmp_path / "a.json"], format="jsonl"), tmp_path / "kept", shards=True)
    assert (tmp_path / "kept" / "a.json").read_text() == lines


def test_a_standing_store_of_names_passes_over_in_shards_what_it_does_elsewhere(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", id_type="string", recipe=load_recipe("text-1")).close()
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", ["a b c", "d e f"])
    write_jsonl(tmp_path / "in" / os.fsdecode(b"b\xff.jsonl"), ["g h i"])  # no name in a store
    write_jsonl(tmp_path / "in" / "c.jsonl", ["j k l", "a b c"])
    found = dedup(Inputs([tmp_path / "in"], skip_bad=True), tmp_path / "kept", shards=True, store=tmp_path / "s")
    assert (found.documents, sum(found.skipped.values())) == (4, 1)
    told = [json.loads(line) for line in (tmp_path / "kept" / MARKER).read_bytes().splitlines()]
    assert [(each["documents"], each["kept"], each["bytes"] > 0) for each in told] == [(2, 2, 1), (0, 0, 0), (2, 1, 1)]


def test_what_folders_pass_over_is_counted(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    (source / ".hidden.jsonl").touch()
    (source / "_SUCCESS").touch()
    assert dedup([source], tmp_path / "kept", shards=True).skipped == {"hidden file": 1, "marker of Spark": 1}
    assert sorted(files_in(tmp_path / "kept")) == ["_SUCCESS", "a.jsonl", "more/a.jsonl", "z.jsonl"]


# --- The bytes ---


def test_success_has_the_bytes_that_the_format_says(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / os.fsdecode(b"\xff.jsonl"), ["g h i"])
    write_jsonl(tmp_path / "in" / "a.jsonl", ["a b c", "a b c", "d e f"])
    (tmp_path / "in" / "b\n.jsonl").touch()
    dedup([tmp_path / "in"], tmp_path / "kept", shards=True)
    kept = os.fsencode(tmp_path / "kept")
    first, last = (Path(os.fsdecode(kept + name)).read_bytes() for name in (b"/a.jsonl", b"/\xff.jsonl"))
    assert (tmp_path / "kept" / MARKER).read_bytes() == (
        b'{"format": "fpstore.shard/1", "shard": "a.jsonl", "documents": 3, "kept": 2, "bytes": %d, "crc32c": "%08x"}\n'
        b'{"format": "fpstore.shard/1", "shard": "b\\n.jsonl", "documents": 0, "kept": 0, "bytes": 0,'
        b' "crc32c": "00000000"}\n'
        b'{"format": "fpstore.shard/1", "shard": "\\udcff.jsonl", "documents": 1, "kept": 1, "bytes": %d,'
        b' "crc32c": "%08x"}\n'
    ) % (len(first), crc32c(first), len(last), crc32c(last))


def test_what_is_kept_has_the_bytes_that_the_format_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "a b"}\n{\n{"text": "a b"}\n')
    write_jsonl(tmp_path / "in" / "b.jsonl", ["c d", "e f", "c d"])
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "b.jsonl").write_text("mine")

    def interrupted(_: shards.ShardTask) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(shards.ShardTask, "do", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dedup(Inputs([tmp_path / "in"], skip_bad=True), tmp_path / "kept", shards=True, force=True)

    def record(number: int, read: int, good: int, bits: int, kept: list[str]) -> bytes:
        marks = marks_of(packed_texts(kept)).astype("<u8").tobytes()
        mark = hashlib.blake2b(marks, digest_size=8).digest()
        told = struct.pack("<III", number, read, good) + mark + bytes([bits])
        return told + struct.pack("<I", crc32c(told))

    expected = [record(0, 2, 2, 0b10000000, ["a b"]), record(1, 3, 3, 0b11000000, ["c d", "e f"])]
    folder = tmp_path / "kept" / f"{MARKER}.job"
    assert (folder / "part").read_bytes() == b"".join(expected)
    found = os.stat(tmp_path / "kept" / "b.jsonl")
    assert json.loads((folder / "work" / "there.json").read_text()) == {"b.jsonl": [4, found.st_mtime_ns]}
    assert (folder / "work" / "shards").is_dir()


# --- Interrupted ---


@pytest.mark.parametrize("keep", ["first", "longest"])
@pytest.mark.parametrize("after", [1, 4, 9, 14])
def test_an_interrupted_job_goes_on_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str, after: int
) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True, keep=keep)
    with suppress(AssertionError):
        interrupt(monkeypatch, lambda: dedup([source], tmp_path / "two", shards=True, keep=keep, workers=2), after)
    dedup([source], tmp_path / "two", shards=True, keep=keep, workers=3)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")
    assert not (tmp_path / "two" / f"{MARKER}.job").exists()


class Stopping(shards.ShardTask):
    """Of which the second ends in the middle, and leaves half of a shard."""

    def do(self) -> int:
        if self.maker.task == 1 and not (self.output.parent / "go").exists():
            (self.output / f"{self.shards[0].name}.0123456789abcdef.new").write_text("half")
            raise KeyboardInterrupt
        return super().do()


def stopped_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inputs. Their shards are whole in `one`; in `two` a task was interrupted, and goes on once `go` is there."""
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    monkeypatch.setattr(shards, "ShardTask", Stopping)
    with pytest.raises(KeyboardInterrupt):
        dedup([source], tmp_path / "two", shards=True)
    return source


def test_written_shards_are_not_written_again_and_halves_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stopped_half_way(tmp_path, monkeypatch)
    first = tmp_path / "two" / "a.jsonl"
    assert not (tmp_path / "two" / MARKER).exists()
    before = os.stat(first).st_mtime_ns
    (tmp_path / "go").touch()
    dedup([source], tmp_path / "two", shards=True)
    assert os.stat(first).st_mtime_ns == before
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_a_shard_that_went_before_the_job_goes_on_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stopped_half_way(tmp_path, monkeypatch)
    (tmp_path / "two" / "a.jsonl").unlink()
    (tmp_path / "go").touch()
    dedup([source], tmp_path / "two", shards=True)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_a_shard_that_was_changed_before_the_job_goes_on_is_written_again_whatever_its_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stopped_half_way(tmp_path, monkeypatch)
    first = tmp_path / "two" / "a.jsonl"
    times = os.stat(first)
    first.write_bytes(first.read_bytes()[:-2] + b"?\n")
    os.utime(first, ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "go").touch()
    dedup([source], tmp_path / "two", shards=True)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_an_fpstore_that_comes_midway_says_which_one_began_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stopped_half_way(tmp_path, monkeypatch)
    (tmp_path / "go").touch()
    began = fpstore.__version__
    monkeypatch.setattr(fpstore, "__version__", "99.9")
    told = (
        f"shards: found a job that fpstore {began} began, expected one of this fpstore, 99.9: go on with that one, or "
    )
    with pytest.raises(JobError, match=f"{re.escape(told)}--force begins again$"):
        dedup([source], tmp_path / "two", shards=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fpstore, "__version__", began)
        dedup([source], tmp_path / "two", shards=True)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")
    dedup([source], tmp_path / "two", shards=True, force=True)  # and so does what begins again
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_the_marker_comes_when_all_else_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, publish = some_files(tmp_path), Claim.publish
    order = []

    def publishing(claim: Claim, *of: Any, **how: Any) -> None:
        order.append(claim.result.name)
        if claim.result.name == MARKER:
            raise KeyboardInterrupt
        publish(claim, *of, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Claim, "publish", publishing)
        with pytest.raises(KeyboardInterrupt):
            dedup([source], tmp_path / "kept", dropped=tmp_path / "d.tsv", shards=True)
    assert order == ["d.tsv", MARKER]
    assert (tmp_path / "d.tsv").exists()
    assert not (tmp_path / "kept" / MARKER).exists()
    dedup([source], tmp_path / "kept", dropped=tmp_path / "d.tsv", shards=True)
    assert (tmp_path / "kept" / MARKER).exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_power_cut_loses_no_folder_of_shards_nor_what_tells_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Without the folder in which tasks tell of shards these would be somebody's, and the job refused to go on."""
    source, out = some_files(tmp_path), tmp_path / "kept"
    if is_there:  # by a run that was killed, or by somebody
        out.mkdir()
    fsync = os.fsync
    durable: dict[int, set[str]] = {}

    def noted(fd: int) -> None:
        fsync(fd)
        if stat.S_ISDIR((status := os.fstat(fd)).st_mode):
            durable[status.st_ino] = set(os.listdir(fd))

    def expect(path: Path) -> None:
        assert path.name in durable.get(path.parent.stat().st_ino, set()), path

    def do(*of: Any, **how: Any) -> None:
        expect(out / f"{MARKER}.job" / "work" / "shards")
        expect(out)
        do_left(*of, **how)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(shards, "do_left", do)
    dedup([source], out, shards=True)
    expect(out / MARKER)


@pytest.mark.parametrize("damage", ["bytes", "size", "nothing"])
@pytest.mark.parametrize("is_named", [False, True])
def test_nothing_tells_of_a_shard_that_changed_before_the_last_step_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool, damage: str
) -> None:
    """All is decided and written, and the job is killed before the marker comes, or just after."""
    source, kept, publish = some_files(tmp_path), tmp_path / "kept", Claim.publish

    def killed(claim: Claim, *of: Any, **how: Any) -> None:
        if is_named:
            publish(claim, *of, **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Claim, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            dedup([source], kept, shards=True)
    shard = kept / "a.jsonl"
    before, times = shard.read_bytes(), os.stat(shard)
    if damage == "nothing":
        shard.unlink()
    else:
        shard.write_bytes(before[:-2] + (b"?\n" if damage == "bytes" else b""))
        os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    told = {"bytes": "other bytes", "size": f"{len(before) - 2} bytes", "nothing": "nothing"}[damage]
    for _ in range(2):
        with pytest.raises(JobError, match=rf"a\.jsonl: found {told}, expected .*; --force begins again$"):
            dedup([source], kept, shards=True)
        assert (kept / MARKER).exists() == is_named
    shard.write_bytes(before)
    dedup([source], kept, shards=True)
    dedup([source], tmp_path / "one", shards=True)
    assert files_in(kept) == files_in(tmp_path / "one")


class Twice(shards.ShardTask):
    """That is done twice."""

    def do(self) -> int:
        assert super().do() == super().do()
        return 0


def test_a_task_that_is_done_twice_leaves_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    monkeypatch.setattr(shards, "ShardTask", Twice)
    dedup([source], tmp_path / "two", shards=True)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


@pytest.mark.slow
def test_a_writer_that_is_killed_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine_tasks import DEATHS, DyingShard

    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    (tmp_path / DEATHS).write_text("2")
    monkeypatch.setenv(DEATHS, str(tmp_path / DEATHS))
    monkeypatch.setattr(shards, "ShardTask", DyingShard)
    monkeypatch.setattr(shards, "PLAIN_RATE", 100.0)  # so that processes are begun
    dedup([source], tmp_path / "two", shards=True, workers=2)
    assert (tmp_path / DEATHS).read_text() == "0"
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_ranks_measure_what_a_job_then_writes_in_shards(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    for rank in range(2):
        assert measure_rank([source], folder=tmp_path / "f", rank=rank, world_size=2, shards=True) > 0
    assert measure_rank([source], folder=tmp_path / "f", rank=0, world_size=1, shards=True) == 0
    dedup([source], tmp_path / "two", shards=True, folder=tmp_path / "f", workers=1)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


# --- Ranks that write ---


def by_ranks(tmp_path: Path, out: str, world_size: int, **how: Any) -> list[int]:
    """The shards of the files in `in`, which ranks write; how many tasks each has done."""
    source = tmp_path / "in"
    shared: dict[str, Any] = {"folder": tmp_path / f"{out}.f", "world_size": world_size}
    own: dict[str, Any] = {name: how[name] for name in ("keep", "confirm", "store") if name in how}

    def ranks() -> list[int]:
        given: dict[str, Any] = {**own, **shared, "shards": True, "output": tmp_path / out}
        return [measure_rank([source], rank=rank, **given) for rank in reversed(range(world_size))]

    assert sum(ranks()) > 0
    told = dedup([source], tmp_path / out, shards=True, workers=1, **shared, **how)
    assert not (tmp_path / out / MARKER).exists()
    done = ranks()
    assert told.detail == {"tasks_left": sum(done)}
    assert ranks() == [0] * world_size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards.ShardTask, "_write", None)
        patch.setattr(MeasureTask, "_write", None)
        last = dedup([source], tmp_path / out, shards=True, workers=1, **shared, **how)
    assert (last.documents, last.results, last.detail) == (told.documents, told.results, {})
    assert ranks() == [0] * world_size
    return done


@pytest.mark.parametrize("world_size", [1, 2, 5])
@pytest.mark.parametrize("how", [{}, {"keep": "longest"}, {"confirm": None}])
def test_ranks_write_the_shards_of_one_process_however_many_they_are(
    tmp_path: Path, world_size: int, how: dict[str, Any]
) -> None:
    source = some_files(tmp_path)
    one = dedup([source], tmp_path / "one", shards=True, dropped=tmp_path / "one.tsv", **how)
    done = by_ranks(tmp_path, "two", world_size, dropped=tmp_path / "two.tsv", **how)
    assert max(done) - min(done) < 2
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")
    assert (tmp_path / "two.tsv").read_bytes() == (tmp_path / "one.tsv").read_bytes()
    assert one.results > 5
    assert not (tmp_path / "two" / f"{MARKER}.job").exists()


def test_ranks_write_what_is_new_to_a_standing_store(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    for name in ("one", "two"):
        dedup([source / "a.jsonl"], tmp_path / f"{name}-first.jsonl", store=tmp_path / f"{name}.fpstore")
    dedup([source], tmp_path / "one", shards=True, store=tmp_path / "one.fpstore")
    by_ranks(tmp_path, "two", 2, store=tmp_path / "two.fpstore")
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")
    with fpstore.open(tmp_path / "one.fpstore") as one, fpstore.open(tmp_path / "two.fpstore") as two:
        assert one.stats().fingerprint_count == two.stats().fingerprint_count


def decided(tmp_path: Path, out: str = "two") -> dict[str, Any]:
    """What a rank is called with, of a job that has decided."""
    given: dict[str, Any] = {"folder": tmp_path / "f", "world_size": 2}
    dedup([tmp_path / "in"], tmp_path / out, shards=True, **given)
    return {**given, "shards": True, "output": tmp_path / out}


class Killed(shards.ShardTask):
    """Whose process ends in the middle of the second."""

    def do(self) -> int:
        if self.maker.task == 2:
            (self.output / f"{self.shards[0].name}.0123456789abcdef.new").write_text("half")
            raise KeyboardInterrupt
        return super().do()


def test_a_rank_that_was_killed_does_what_is_left(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    given = decided(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "ShardTask", Killed)
        with pytest.raises(KeyboardInterrupt):
            measure_rank([source], rank=0, **given)  # the first and the third of three
    first = tmp_path / "two" / "a.jsonl"
    before = os.stat(first).st_mtime_ns
    assert measure_rank([source], rank=0, **given) == 1
    first.write_bytes(b"of nobody")
    assert measure_rank([source], rank=0, **given) == 1
    assert os.stat(first).st_mtime_ns != before
    dedup([source], tmp_path / "two", shards=True, folder=tmp_path / "f")  # and what no rank has done
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


def test_ranks_of_something_else_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    given = decided(tmp_path)
    told = (
        'found a job, of dedup of these inputs, that has confirm "jaccard>=0.82", expected none, as is asked for here'
    )
    with pytest.raises(JobError, match=told):
        measure_rank([source], rank=0, **given, confirm=None)
    other = r"_SUCCESS\.job: found a job that has decided by \w{32}, expected one by \w{32}: of these inputs and opt"
    with pytest.raises(JobError, match=other):
        measure_rank([source], rank=0, **given | {"folder": tmp_path / "g"}, confirm=None)
    with pytest.raises(JobError, match=other):
        measure_rank([source], rank=0, **given | {"folder": tmp_path / "h"}, max_distance=2)
    with pytest.raises(ValueError, match=r"^rank: found 2, expected 0 to 1, as world_size is 2$"):
        measure_rank([source], rank=2, **given)
    with pytest.raises(ValueError, match=r"^output: expected it with shards alone"):
        measure_rank([source], rank=0, **given | {"shards": False})
    with pytest.raises(ValueError, match=r"^folder: found none, expected one that all processes of world_size share$"):
        dedup([source], tmp_path / "three", shards=True, world_size=2)
    with pytest.raises(ValueError, match=r"^world_size: found 0"):
        dedup([source], tmp_path / "three", shards=True, world_size=0, folder=tmp_path / "g")
    with pytest.raises(ValueError, match=r"^world_size: expected it with shards alone, which ranks write"):
        dedup([source], tmp_path / "three", world_size=2, folder=tmp_path / "g")
    began = fpstore.__version__
    monkeypatch.setattr(fpstore, "__version__", "99.9")
    with pytest.raises(JobError, match=f"found a job that fpstore {re.escape(began)} began"):
        measure_rank([source], rank=0, **given)
    monkeypatch.setattr(fpstore, "__version__", began)
    left = tmp_path / "two" / f"{MARKER}.job" / "work" / "left.json"
    left.write_text('{"job": 5}')
    with pytest.raises(JobError, match="found no record of what is left to ranks, expected one; --force begins again"):
        measure_rank([source], rank=0, **given)
    assert measure_rank([source], rank=0, **given | {"output": tmp_path / "elsewhere"}) == 0


def test_an_input_that_changes_before_ranks_write_is_one_error(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    given = decided(tmp_path)
    data = (source / "a.jsonl").read_bytes()
    (source / "a.jsonl").write_bytes(data.replace(b"a b", b"a c"))
    with pytest.raises(JobError, match="expected an empty folder, or parts of job"):
        measure_rank([source], rank=0, **given)
    with pytest.raises(JobError, match="has changed"):
        dedup([source], tmp_path / "two", shards=True, folder=tmp_path / "f")


def test_a_rank_that_comes_when_the_job_has_ended_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    given = decided(tmp_path)
    found = shards.Sharding.unwritten

    def late(*of: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shards.Sharding, "unwritten", found)
            dedup([source], tmp_path / "two", shards=True, folder=tmp_path / "f")
        return found(*of)

    monkeypatch.setattr(shards.Sharding, "unwritten", late)
    assert measure_rank([source], rank=0, **given) == 0
    assert (tmp_path / "two" / MARKER).exists()


def test_the_command_leaves_shards_to_ranks_and_ends_the_job(tmp_path: Path, command: Command) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    asked = ("dedup", source, "-o", tmp_path / "two", "--shards", "--folder", tmp_path / "f", "--world-size", "2")
    did = []
    for _ in range(2):
        ranks = [command(*asked, "--rank", rank) for rank in ("0", "1")]
        assert [outcome.status for outcome in ranks] == [0, 0]
        did.append(sum(int(outcome.err.split("did ")[1].split()[0]) for outcome in ranks))
        for outcome in ranks:
            made = f"whose parts are in {tmp_path / 'f'}\n" if len(did) == 1 else f"which wrote shards in {asked[3]}\n"
            assert outcome.err.endswith(made)
        again = (
            f"did 0 tasks, as all is measured and {asked[3]} has no shards to write: the job has yet to decide, or is"
        )
        assert (again in command(*asked, "--rank", "0").err) == (len(did) == 1)
        job = command(*asked)
        assert job.status == 0, job.err
        left = f"{tmp_path / 'two'}: decided, not done: leaves 3 tasks of shards for --rank 0 to 1, called again; when"
        assert (left in job.err) == (len(did) == 1)
        assert (tmp_path / "two" / MARKER).exists() == (len(did) == 2)
    assert did[1] == 3
    assert again in command(*asked, "--rank", "0").err
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


# --- What is there already ---


def test_what_is_done_is_not_done_again_unless_a_shard_went(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "kept", shards=True)
    expected = files_in(tmp_path / "kept")
    assert dedup([source], tmp_path / "kept", shards=True).was_done
    (tmp_path / "kept" / "z.jsonl").write_text("other")
    with pytest.raises(JobError, match=r"z\.jsonl: found 5 bytes, expected \d+ bytes, as the job left it"):
        dedup([source], tmp_path / "kept", shards=True)
    (tmp_path / "kept" / "more" / "a.jsonl").unlink()
    with pytest.raises(JobError, match=r"more/a\.jsonl: found nothing, expected \d+ bytes"):
        dedup([source], tmp_path / "kept", shards=True)
    dedup([source], tmp_path / "kept", shards=True, force=True)
    assert files_in(tmp_path / "kept") == expected
    # As a task may that is done again, late: the same bytes.
    first = tmp_path / "kept" / "a.jsonl"
    first.write_bytes(first.read_bytes())
    assert dedup([source], tmp_path / "kept", shards=True).was_done
    first.write_bytes(first.read_bytes()[:-2] + b"?\n")
    with pytest.raises(JobError, match=r"a\.jsonl: found other bytes, expected those that the job left that is done"):
        dedup([source], tmp_path / "kept", shards=True)


def test_a_list_of_shards_that_was_written_over_is_one_error(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "kept", shards=True)
    marker = tmp_path / "kept" / MARKER
    times = os.stat(marker)
    for data in (b"x" * times.st_size, b"[]" + b"\n" * (times.st_size - 2)):
        marker.write_bytes(data)
        os.utime(marker, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(JobError, match=r"_SUCCESS: found no list of shards with their checksums"):
            dedup([source], tmp_path / "kept", shards=True)


def test_the_marker_goes_before_a_shard_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "kept", shards=True)
    monkeypatch.setattr(shards, "ShardTask", Stopping)
    with pytest.raises(KeyboardInterrupt):
        dedup([source], tmp_path / "kept", shards=True, force=True)
    assert not (tmp_path / "kept" / MARKER).exists()
    (tmp_path / "go").touch()
    dedup([source], tmp_path / "kept", shards=True)
    assert (tmp_path / "kept" / MARKER).exists()


def test_nothing_that_is_no_shard_of_the_job_is_replaced(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "a.jsonl").write_text("mine")
    with pytest.raises(FileExistsError, match="already there; --force replaces shards"):
        dedup([source], kept, shards=True)
    (kept / "b.jsonl").write_text("mine")
    for force in (True, False):  # what --force does not replace is said at once, whatever is found first
        told = "already there; it is no shard of this job, expected nothing; move it away, or name another folder"
        with pytest.raises(FileExistsError, match=told):
            dedup([source], kept, shards=True, force=force)
    assert files_in(kept) == {"a.jsonl": b"mine", "b.jsonl": b"mine"}
    (kept / "b.jsonl").unlink()
    (kept / "a.jsonl.0123456789abcdef.new").write_text("half")
    dedup([source], kept, shards=True, force=True)
    dedup([source], tmp_path / "one", shards=True)
    assert files_in(kept) == files_in(tmp_path / "one")


@pytest.mark.parametrize("damage", [{"beside": 5}, {"beside": {}}, {"tally": None}, {"tally": 5}])
def test_a_record_of_a_job_that_is_none_is_not_believed(tmp_path: Path, damage: dict[str, Any]) -> None:
    source, kept = some_files(tmp_path), tmp_path / "kept"
    dedup([source], kept, shards=True)
    record = kept / f".{MARKER}.done"
    record.write_text(json.dumps(json.loads(record.read_text()) | damage))
    with pytest.raises(FileExistsError, match="already there; --force replaces"):
        dedup([source], kept, shards=True)
    dedup([source], kept, shards=True, force=True)


def test_no_link_in_the_folder_leads_a_shard_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, kept = some_files(tmp_path), tmp_path / "kept"
    before = files_in(source)
    kept.mkdir()
    for link, told in (("more", "it is no folder of this job"), ("a.jsonl", "it is no shard of this job")):
        (kept / link).symlink_to(source / link)
        with pytest.raises(FileExistsError, match=rf"already there; {told}, expected nothing.*{link}"):
            dedup([source], kept, shards=True, force=True)
        (kept / link).unlink()
    (kept / "z.jsonl").mkdir()
    with pytest.raises(FileExistsError, match=r"it is no folder of this job, expected nothing.*z\.jsonl"):
        dedup([source], kept, shards=True, force=True)
    (kept / "z.jsonl").rmdir()
    made = shards._found

    def linking(*of: Any) -> Any:
        (kept / "more").symlink_to(tmp_path / "empty")
        return made(*of)

    (tmp_path / "empty").mkdir()

    monkeypatch.setattr(shards, "_found", linking)
    with pytest.raises(FileExistsError, match=r"it is a link, expected a folder.*more"):
        dedup([source], kept, shards=True)
    assert (files_in(source), files_in(tmp_path / "empty")) == (before, {})


def test_a_folder_that_cannot_be_looked_into_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, own, listing = some_files(tmp_path), tmp_path / "kept" / "more", os.scandir
    own.mkdir(parents=True)

    def scandir(path: Any) -> Any:
        if path == str(own):
            raise PermissionError(13, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="more"):
        dedup([source], tmp_path / "kept", shards=True)


@pytest.mark.parametrize("force", [False, True])
def test_what_comes_while_the_job_decides_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    source, mine = some_files(tmp_path), tmp_path / "kept" / "more" / "a.jsonl"
    dedup([source], tmp_path / "one", shards=True)
    if force:
        shutil.copytree(tmp_path / "one", tmp_path / "kept")
    with suppress(AssertionError):
        interrupt(monkeypatch, lambda: dedup([source], tmp_path / "kept", shards=True, force=force), 4)
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(FileExistsError, match=r"has come, or has changed, while the job was at work; move it away"):
        dedup([source], tmp_path / "kept", shards=True)
    assert mine.read_text() == "mine"
    assert (tmp_path / "kept" / MARKER).exists() is force
    mine.unlink()
    dedup([source], tmp_path / "kept", shards=True)
    assert files_in(tmp_path / "kept") == files_in(tmp_path / "one")


# --- Refused ---


def refused(message: str, source: Any, out: Path, kind: type[Exception] = ValueError, **how: Any) -> None:
    with pytest.raises(kind, match=message):
        dedup(source, out, shards=True, **how)
    assert not out.is_dir() or not os.listdir(out)


def test_what_has_no_shard_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    source, out = some_files(tmp_path), tmp_path / "kept"
    refused(r"rows of Python, a list, expected files alone", [[{"text": "a"}]], out)
    refused(r"found no file in the inputs", [], out)
    for name in ("a.txt", "a.html", "a.json"):
        (tmp_path / name).write_text("a b")
        refused(rf"{name}: found .*, expected JSON lines, CSV, TSV or Parquet", [tmp_path / name], out)
    shutil.copy(source / "a.jsonl", tmp_path / "a.csv")
    refused(r"a\.csv: found jsonl, expected .*name that says so", Inputs([tmp_path / "a.csv"], format="jsonl"), out)
    os.mkfifo(tmp_path / "pipe.jsonl")
    refused(r"pipe\.jsonl: found a stream", [tmp_path / "pipe.jsonl"], out)
    refused(r"found another input a\.jsonl", [source / "a.jsonl", source / "more"], out)
    (source / "more" / "_SUCCESS.job").mkdir()
    write_jsonl(source / "more" / "_SUCCESS.job" / "x.jsonl", ["a"])
    refused(r"x\.jsonl: found a name that something else has", [source / "more"], out)
    refused(r"tag, shards: found both", [source / "a.jsonl"], out, tag=True)


@pytest.mark.parametrize("name", ["in//", "./in/", "in///", "up/../in"])
def test_shards_lie_below_the_output_however_the_input_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    some_files(tmp_path)
    (tmp_path / "up").mkdir()
    monkeypatch.chdir(tmp_path)
    dedup([name], "kept", shards=True)
    assert sorted(files_in(tmp_path / "kept")) == ["_SUCCESS", "a.jsonl", "more/a.jsonl", "z.jsonl"]


@pytest.mark.parametrize("form", ["memory://{}in", "memory:///{}in/", "zip://in::file://{}/in.zip"])
def test_shards_of_files_elsewhere_are_called_as_these_are(tmp_path: Path, form: str) -> None:
    fsspec, source, own = pytest.importorskip("fsspec"), some_files(tmp_path), f"{tmp_path.name}-"
    dedup([source], tmp_path / "one", shards=True)
    if form.startswith("zip"):
        shutil.make_archive(str(tmp_path / "in"), "zip", tmp_path, "in")
        own = str(tmp_path)
    else:
        fsspec.filesystem("memory").put(str(source), f"/{own}in", recursive=True)
    found = dedup([form.format(own)], tmp_path / "two", shards=True)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")
    assert found.was_done is False
    assert dedup([form.format(own)], tmp_path / "two", shards=True).was_done


def test_a_name_that_is_no_place_below_the_output_is_refused(tmp_path: Path) -> None:
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.pipe(f"/{tmp_path.name}/a//b.jsonl", b'{"text": "a"}\n')
    refused("found name 'a//b.jsonl', expected one that leads", [f"memory://{tmp_path.name}"], tmp_path / "kept")
    for name in ("../b.jsonl", "a/../../b.jsonl", "/b.jsonl", "./b.jsonl", "a/./b.jsonl"):
        with pytest.raises(ValueError, match="expected one that leads to one place in a folder"):
            each.expect_below("in", name)


def test_a_name_as_of_what_is_half_written_is_refused(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    (source / "more").rename(source / "more.0123456789abcdef.new")
    refused(r"a\.jsonl: found name 'more\.0123456789abcdef\.new/a\.jsonl', which", [source], tmp_path / "kept")


def test_shards_lie_apart_from_all_else(tmp_path: Path) -> None:
    source, out = some_files(tmp_path), tmp_path / "kept"
    refused(r"found a place in input .*in, expected one beside", [source], source / "kept")
    with pytest.raises(ValueError, match=r"a\.jsonl in it, expected a folder for shards alone"):
        dedup([source / "a.jsonl"], source, shards=True)
    refused(r"d\.tsv in it, expected a folder for shards alone", [source], out, dropped=out / "d.tsv")
    refused(r"s in it, expected a folder for shards alone", [source], out, store=out / "s")
    refused("the shards would lie in a folder that is not there", [source], out / "x", FileNotFoundError)
    out.write_text("")
    refused("found a file, expected a folder for shards", [source], out, NotADirectoryError)


@pytest.mark.parametrize(
    ("change", "touch"),
    [
        (lambda text: text.replace("a b c d 1", "a b c e 1"), True),
        (lambda text: text.replace("a b c d 1", "a b c e 1"), False),
        (lambda text: text + '{"id": 1, "text": "one more"}\n', False),
        (lambda text: "".join(text.splitlines(keepends=True)[:-3]), False),
    ],
)
def test_an_input_that_changes_meanwhile_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str], touch: bool
) -> None:
    source = some_files(tmp_path)
    file = source / "a.jsonl"
    before = {str(path): stamp_of(str(path)) for path in source.rglob("*.jsonl")}

    class Changing(local.Local):
        def __call__(self, tasks: Any, seconds: float, done: Any = None, leash: Any = None) -> None:
            file.write_text(change(file.read_text()))
            if not touch:  # as if nobody could see it from outside
                monkeypatch.setattr(shards, "stamp_of", before.__getitem__)
            super().__call__(tasks, seconds, done, leash)

    monkeypatch.setattr(sharing, "Local", Changing)
    with pytest.raises(JobError, match=r"a\.jsonl: found other documents than those that were decided about"):
        dedup([source], tmp_path / "kept", shards=True)
    assert not (tmp_path / "kept" / MARKER).exists()


def test_a_damaged_list_of_what_is_kept_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    monkeypatch.setattr(shards, "ShardTask", Stopping)
    with pytest.raises(KeyboardInterrupt):
        dedup([source], tmp_path / "kept", shards=True)
    (tmp_path / "go").touch()
    (tmp_path / "kept" / "a.jsonl").unlink()
    part = tmp_path / "kept" / f"{MARKER}.job" / "part"
    data = part.read_bytes()
    for at in range(40):
        part.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
        with pytest.raises(JobError, match=r"part, byte \d+: found no record of what is kept, expected one"):
            dedup([source], tmp_path / "kept", shards=True)
    part.write_bytes(data)
    dedup([source], tmp_path / "kept", shards=True)


def test_what_a_task_tells_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    monkeypatch.setattr(shards, "ShardTask", Stopping)
    with pytest.raises(KeyboardInterrupt):
        dedup([source], tmp_path / "kept", shards=True)
    (part,) = (tmp_path / "kept" / f"{MARKER}.job" / "work" / "shards").glob("*.part")
    footer = json.loads(part.read_bytes()[: -parts._TAIL.size])
    forged: tuple[Any, ...] = (None, [{}], [{"shard": "b", "documents": 1, "kept": 1, "bytes": 1}], {"shard": 1})
    for told in forged:
        with part.open("wb") as file:
            write_footer(file, footer | {"told": told}, parts.MAGIC)
        with pytest.raises(JobError, match=r"\.part: told: found .*, expected what the task has met"):
            dedup([source], tmp_path / "kept", shards=True)


def test_a_task_of_another_version_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_files(tmp_path)
    made = shards.ShardTask
    monkeypatch.setattr(shards, "ShardTask", lambda *of: replace(made(*of), version="0.0.1"))
    with pytest.raises(JobError, match=r"task 0, shard a\.jsonl.*: found fpstore .*, expected 0\.0\.1"):
        dedup([source], tmp_path / "kept", shards=True)


def test_a_shard_that_goes_as_soon_as_it_is_written_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = some_files(tmp_path)

    class Removing(shards.ShardTask):
        def do(self) -> int:
            count = super().do()
            (self.output / self.shards[0].name).unlink()
            return count

    monkeypatch.setattr(shards, "ShardTask", Removing)
    with pytest.raises(JobError, match=r"task 0, shard a\.jsonl.*: found other shards than it wrote; run it again"):
        dedup([source], tmp_path / "kept", shards=True)


def test_a_bad_line_is_told_of_and_passed_over_later(tmp_path: Path) -> None:
    source = some_files(tmp_path)
    with (source / "more" / "a.jsonl").open("a") as file:
        file.write("{\n")
    with pytest.raises(BadInput, match=r"more/a\.jsonl, line 21"):
        dedup([source], tmp_path / "two", shards=True)
    for name, workers in (("one", None), ("two", 2)):
        dedup(Inputs([source], skip_bad=True), tmp_path / name, shards=True, workers=workers)
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")


# --- The command ---


def test_the_command_writes_shards_and_says_what_stays(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = some_files(tmp_path)
    dedup([source], tmp_path / "one", shards=True)
    told = command("dedup", str(source), "-o", f"{tmp_path}/two", "--shards", "--workers", "2")
    assert told.status == 0, told.err
    assert files_in(tmp_path / "two") == files_in(tmp_path / "one")
    for options, message in (
        (["-o", "-"], "--shards: found -o -, standard output, expected a folder"),
        (["-o", f"{tmp_path}/x", "--tag"], "--shards and --tag: expected one of the two"),
    ):
        told = command("dedup", str(source), *options, "--shards")
        assert (told.status, message in told.err) == (2, True)
    with (source / "a.jsonl").open("a") as file:
        file.write("{\n")
    told = command("dedup", str(source), "-o", f"{tmp_path}/three", "--shards")
    assert told.status == 1
    assert f"{tmp_path}/three/_SUCCESS.job: has what was done" in told.err
    told = command("dedup", str(source), "-o", f"{tmp_path}/three", "--shards", "--skip-bad")
    assert told.status == 0
