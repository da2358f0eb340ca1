"""Lines of kept documents that are read again of the inputs: no result is another for it, whatever becomes of these."""

import gc
import gzip
import io
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import write_jsonl

from fpstore.inputs import blocks
from fpstore.inputs.blocks import Lines
from fpstore.inputs.compressed import open_stream
from fpstore.inputs.errors import BadInput
from fpstore.inputs.held_file import HeldFile
from fpstore.inputs.unchanged import BytesRead
from fpstore.jobs import corpus, dedup, placed, reread
from fpstore.jobs.files import AppendFile
from fpstore.jobs.placed import Placed
from fpstore.jobs.spool import Spool
from fpstore.text.confirm import Rooms
from fpstore.text.held import Room
from fpstore.text.packed import Encoded
from fpstore.types import Counts

NEAR: dict[str, Any] = {"max_distance": 11, "confirm": "jaccard>=0.5"}


def some_texts(seed: int) -> list[str]:
    """Of 1,200 bytes each; every third is near one that may be far before it."""
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(3000)]
    texts: list[str] = []
    for i in range(600):
        if i % 3 and len(texts) > 2:
            texts.append(" ".join(rng.choices(words, k=250)))
        else:
            own = rng.choice(texts or ["a"]).split()
            own[rng.randrange(len(own))] = "other"
            texts.append(" ".join(own))
    return texts


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that each is a batch, and texts of those before it are needed, which lie in them or were copied."""
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(8), Room(8)))
    monkeypatch.setattr(blocks, "LONG_BYTES", 1)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 17)
    monkeypatch.setattr(corpus, "_ENOUGH_BYTES", 8)


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    paths = [write_jsonl(tmp_path / f"{seed}.jsonl", some_texts(seed)) for seed in range(3)]
    again = some_texts(0)[100:400] + some_texts(1)[:60] + some_texts(1)[200:300]
    random.Random(9).shuffle(again)  # so that those of a batch lie in several files, and in none
    paths.append(write_jsonl(tmp_path / "3.jsonl", again))
    for path in paths:
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
    return paths


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """The files that were to have lines, and of how many documents."""
    found: list[tuple[Any, int]] = []
    parts = Placed.parts

    def noted(own: Placed, rows: Counts) -> Any:
        told = parts(own, rows)
        found.extend((file, len(which)) for which, file, _ in told)
        return told

    monkeypatch.setattr(Placed, "parts", noted)
    return found


def job(folder: Path, name: str, sources: list[Path], **more: Any) -> list[bytes]:
    dedup(sources, folder / name, dropped=folder / f"{name}.tsv", **NEAR | more)
    return [(folder / name).read_bytes(), (folder / f"{name}.tsv").read_bytes()]


def copied(folder: Path, patch: pytest.MonkeyPatch, sources: list[Path]) -> list[bytes]:
    """What a job gives that copies the texts."""
    with patch.context() as own:
        own.setattr(reread, "_line_texts", lambda _: None)
        return job(folder, "copied", sources)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("part", [1, 8])
def test_lines_of_inputs_make_no_other_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: list[Path],
    asked: list[tuple[Any, int]],
    threads: int,
    part: int,
) -> None:
    monkeypatch.setattr(blocks, "FIRST_PART", part)
    expected = copied(tmp_path, monkeypatch, sources)
    assert not asked
    assert job(tmp_path, "again", sources, threads=threads) == expected
    files = {file for file, _ in asked} - {None}
    assert len(files) == 3, "of the fourth none is read again"
    assert sum(count for file, count in asked if file is not None) > 300
    assert any(file is None for file, _ in asked) == (part == 8), "the first blocks are so short that they are copied"


def test_lines_of_several_files_come_in_the_order_of_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Path]
) -> None:
    real, several = Spool._placed_lines, list[bool]()

    def noted(spool: Spool, rows: Counts, fields: Any) -> Any:
        several.append(len(spool._placed.parts(rows)) > 1)
        behind = rows[::-1].copy()
        assert [*real(spool, behind, fields)] == [*spool._lines_of_result(behind, fields)]
        return real(spool, rows, fields)

    monkeypatch.setattr(Spool, "_placed_lines", noted)
    job(tmp_path, "out", sources)
    assert any(several)


def test_a_result_goes_past_the_cache_where_the_inputs_have_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Path], asked: list[tuple[Any, int]]
) -> None:
    monkeypatch.setattr(blocks, "FIRST_PART", 1)
    written, found = AppendFile.append_lines, list[bool]()

    def noted(file: AppendFile, *given: Any) -> None:
        found.append(file.is_read)
        written(file, *given)

    monkeypatch.setattr(AppendFile, "append_lines", noted)
    job(tmp_path, "out", sources[:1])
    assert asked
    assert not any(found)


@pytest.mark.parametrize("size", [None, 0])
def test_inputs_that_change_when_they_were_read_make_no_other_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Path], size: int | None
) -> None:
    """As of what changes behind the end of the input, where nobody looks at it any more."""
    monkeypatch.setattr(blocks, "FIRST_PART", 1)
    monkeypatch.setattr(BytesRead, "expect_same", lambda own: None)
    expected = copied(tmp_path, monkeypatch, sources[:1])
    parts, of_result = Placed.parts, Spool._lines_of_result
    changed, fetched = list[int](), list[int]()

    def change(own: Placed, rows: Counts) -> Any:
        told = parts(own, rows)
        for _, file, begins in told:
            if file is not None:
                with sources[0].open("r+b") as held:
                    held.seek(int(begins[0]) + 40)
                    held.write(b"zzz")
                    changed.append(held.truncate(size) if size is not None and len(changed) > 2 else 0)
        return told

    def noted(spool: Spool, rows: Counts, fields: Any) -> Any:
        fetched.append(len(rows))
        return of_result(spool, rows, fields)

    monkeypatch.setattr(Placed, "parts", change)
    monkeypatch.setattr(Spool, "_lines_of_result", noted)
    if size is None:
        assert job(tmp_path, "again", sources[:1]) == expected
    else:
        kept = job(tmp_path, "again", sources[:1])[0]
        assert expected[0].startswith(kept), "what was read before is decided as if nothing had happened"
    assert changed
    assert fetched


@pytest.mark.parametrize("threads", [1, 2])
def test_no_input_stays_open_behind_a_job_and_for_who_holds_its_error_only_what_was_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Path], threads: int
) -> None:
    """Nor until the next collection: a file that was removed would go on to take its room on the disk."""
    monkeypatch.setattr(blocks, "FIRST_PART", 1)

    def still_open() -> list[str]:
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        found = [os.readlink(link) for link in links if os.path.lexists(link)]
        return [to for to in found if to.startswith(str(tmp_path))]

    gc.collect()
    gc.disable()
    try:
        job(tmp_path, "done", sources, threads=threads)
        assert still_open() == []
        with sources[-1].open("ab") as last:
            last.write(b"\nno JSON\n")
        with pytest.raises(BadInput) as error:
            job(tmp_path, "failed", sources, threads=threads)
        assert error.value.__traceback__ is not None
        assert {*still_open()} <= {str(sources[-1])}
    finally:
        gc.enable()


def of_lines(count: int, file: HeldFile | None, begin: int) -> Lines:
    own = Encoded.pack([b"line\n"] * count)
    return Lines(own.data, own.offsets, file, begin)


def told(found: list[tuple[Counts, HeldFile | None, Counts]]) -> dict[int, tuple[HeldFile | None, int]]:
    every = [(which.tolist(), file, begins.tolist()) for which, file, begins in found]
    return {row: (file, begin) for rows, file, begins in every for row, begin in zip(rows, begins, strict=True)}


def test_documents_are_found_in_the_file_that_each_lies_in() -> None:
    files = [HeldFile(os.open("/dev/null", os.O_RDONLY)) for _ in range(2)]
    own = Placed()
    assert told(own.parts(np.array([3]))) == {0: (None, -1)}
    own.add(10, of_lines(4, files[0], 100), np.array([1, 3]))
    own.add(12, Encoded.pack([b"line\n"]), np.array([0]))
    own.add(13, of_lines(2, files[1], 0), np.array([0, 1]))
    found = told(own.parts(np.array([14, 9, 11, 10, 12, 15, 13])))
    nowhere = (None, -1)
    assert [found[at] for at in (1, 5)] == [nowhere] * 2
    assert [found[at] for at in (3, 2, 6, 0)] == [(files[0], 105), (files[0], 115), (files[1], 0), (files[1], 5)]
    assert found[4][0] is None
    own.forget()
    assert set(told(own.parts(np.arange(9, 16))).values()) == {nowhere}
    own.add(15, of_lines(1, files[0], 7), np.array([0]))
    assert told(own.parts(np.array([14, 15]))) == {0: nowhere, 1: (files[0], 7)}
    own.add(20, of_lines(1, files[0], 8), np.array([0]))  # as if those between had gone
    assert told(own.parts(np.array([15, 20]))) == {0: nowhere, 1: (files[0], 8)}


def test_a_line_without_an_end_is_nowhere_as_it_is_kept() -> None:
    file, own = HeldFile(os.open("/dev/null", os.O_RDONLY)), Placed()
    lines = Encoded.pack([b"line\n", b"last"])
    own.add(0, Lines(lines.data, lines.offsets, file, 3), np.array([0, 1]))
    assert told(own.parts(np.array([0, 1]))) == {0: (file, 3), 1: (None, -1)}


def test_the_last_documents_and_files_are_known_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "_MOST", 100)
    monkeypatch.setattr(placed, "_MOST_FILES", 3)
    file, own = HeldFile(os.open("/dev/null", os.O_RDONLY)), Placed()
    for row in range(0, 990, 10):
        own.add(row, of_lines(10, file, 5 * row), np.arange(10))
        found = told(own.parts(np.arange(row + 10)))
        known = [at for at, (held, _) in found.items() if held is file]
        assert 50 <= len(known) <= 100 or row < 100
        assert known == [*range(row + 10 - len(known), row + 10)]
        assert all(found[at][1] == 5 * at for at in known)
    for row in range(990, 1000):
        own.add(row, of_lines(1, HeldFile(os.dup(file.fileno())), row), np.array([0]))
    found = told(own.parts(np.arange(980, 1000)))
    assert [at for at, (held, _) in found.items() if held is not None] == [17, 18, 19]
    assert [found[at][1] for at in (17, 18, 19)] == [997, 998, 999]


def test_a_file_is_held_open_for_as_long_as_somebody_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"bytes")
    with (tmp_path / "f").open("rb") as opened:
        held = HeldFile.of(opened.fileno())
    (tmp_path / "f").unlink()
    assert held is not None
    fd = held.fileno()
    assert os.pread(fd, 9, 0) == b"bytes"
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert HeldFile.of(fd) is None  # as where the process may open no more


def test_only_a_plain_file_that_is_read_as_it_is_has_the_bytes_of_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, packed, wide = tmp_path / "f.jsonl", tmp_path / "f.jsonl.gz", tmp_path / "w.jsonl"
    plain.write_bytes(b"\xef\xbb\xbfbytes")
    packed.write_bytes(gzip.compress(b"bytes"))
    wide.write_bytes("bytes".encode("utf-16"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(plain.open("rb")))
    ways: list[tuple[Path | str, dict[str, Any], bool]] = [
        (plain, {}, True),
        (plain, {"within": (3, 5)}, False),
        (packed, {}, False),
        (wide, {}, False),
        ("-", {}, False),
        ("/dev/null", {}, False),
    ]
    for path, options, expected in ways:
        with open_stream(str(path), None, is_text=True, **options) as stream:
            assert (stream.file is not None) == expected, (path, options)
            assert stream.file is None or os.pread(stream.file, 9, 0) == plain.read_bytes()
    sys.stdin.close()


def test_the_last_line_of_the_only_file_is_in_none_where_it_has_no_newline() -> None:
    file: Any = object()
    lines = Lines(np.frombuffer(b"one\ntwo\nlast", dtype=np.uint8), np.array([0, 4, 8, 12]), file, 100)
    where = Placed()
    where.add(0, lines, np.arange(3))
    ((which, found, begins),) = where.parts(np.array([1, 0, 1]))
    assert (which.tolist(), found, begins.tolist()) == ([0, 1, 2], file, [104, 100, 104])
    told = {found: (which.tolist(), begins.tolist()) for which, found, begins in where.parts(np.array([1, 2, 0]))}
    assert told == {file: ([0, 2], [104, 100]), None: ([1], [-1])}
    places = {found: which.tolist() for which, found, _ in where.parts(np.array([0, 3]))}
    assert places == {file: [0], None: [1]}, "of one that is not there nothing is known"
