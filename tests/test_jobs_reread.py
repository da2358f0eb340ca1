"""Texts of kept documents that a job reads again of the lines that it has kept, in place of a copy of them."""

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import interrupt, write_jsonl

from fpstore.errors import CorruptStore, JobError
from fpstore.inputs import BadInput, documents
from fpstore.inputs.blocks import LineTexts
from fpstore.jobs import Inputs, corpus, dedup, reread
from fpstore.jobs.files import AppendFile
from fpstore.jobs.runs import FirstRun
from fpstore.jobs.spool import Spool
from fpstore.ledger import TEXT_BYTES
from fpstore.query import leaders
from fpstore.text.confirm import Rooms
from fpstore.text.held import Room
from fpstore.text.packed import Encoded
from fpstore.text.recipe import Recipe

NEAR: dict[str, Any] = {"max_distance": 11, "confirm": "jaccard>=0.4"}
TEXTS = [f"{i % 9} {i % 4} {i // 12} {i // 9} x{i // 9} a b c d é" for i in range(60)]
TEXTS += ["half \ud800 of a pair a b c", "half \ud800 of a pair a b d", 'with "quotes"\n\tand\\ more', "", "!!!", "!!!"]
TEXTS += [f"document number {i} of this file" for i in range(40)] + TEXTS[:30] + ["half \ud800 of a pair a b e"]


def lines_of_all(texts: list[str]) -> bytes:
    """Each in a line, written in one of several ways; the last has no end."""
    ways: list[Callable[[str], str]] = [
        lambda text: json.dumps({"text": text}),
        lambda text: json.dumps({"id": 7, "text": text, "more": [1, {"text": "no"}]}, ensure_ascii=False) + "\r",
        lambda text: " " + json.dumps({"te" + "xt": text}).replace('"text"', '"\\u0074ext"', 1),
    ]
    lines = [ways[i % 3](text) for i, text in enumerate(texts)]
    return "\n".join(lines).encode("utf-8", "surrogatepass").replace(b"\xed\xa0\x80", b"\\ud800")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + lines_of_all(TEXTS))
    return path


@pytest.fixture(autouse=True)
def little_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that texts are needed, of the batch before too."""
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(8), Room(8)))
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 21)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 3)


def copied(patch: pytest.MonkeyPatch) -> None:
    """As where no result has the lines."""
    patch.setattr(reread, "_line_texts", lambda _: None)


@pytest.fixture
def rereads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts were read again of lines, each time."""
    found: list[int] = []
    of = LineTexts.of

    def counted(texts: LineTexts, data: Any, offsets: Any) -> Any:
        read = of(texts, data, offsets)
        found.append(len(read))
        return read

    monkeypatch.setattr(LineTexts, "of", counted)
    return found


def results(folder: Path, name: str) -> list[bytes]:
    return [(folder / name).read_bytes(), (folder / f"{name}.tsv").read_bytes()]


def reader(path: Path) -> LineTexts:
    with closing(documents([path])) as found:
        return LineTexts(found.request)


def test_the_text_of_each_line_is_what_reading_gave(source: Path) -> None:
    lines = Encoded.pack(line + b"\n" for line in lines_of_all(TEXTS).split(b"\n"))
    assert [*reader(source).of(lines.data, lines.offsets)] == TEXTS
    some = lines.take(np.array([3, 61, 5]))
    assert [*reader(source).of(some.data, some.offsets)] == [TEXTS[3], TEXTS[61], TEXTS[5]]
    assert len(reader(source).of(some.data[:0], some.offsets[:1])) == 0


@pytest.mark.parametrize("bad", [b"\n", b'{"text": "a"\n', b'{"id": 1}\n', b'{"text": "a", "text": "b"}\n'])
def test_a_line_without_a_text_is_an_error(source: Path, bad: bytes) -> None:
    lines = Encoded.pack([b'{"text": "a"}\n', bad])
    with pytest.raises(BadInput):
        reader(source).of(lines.data, lines.offsets)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_is_kept_is_what_a_copy_of_the_texts_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, rereads: list[int], threads: int, suffix: str
) -> None:
    def job(name: str) -> None:
        dropped = tmp_path / f"{name}.tsv"
        dedup([source], tmp_path / f"{name}.jsonl{suffix}", dropped=dropped, threads=threads, **NEAR)

    with monkeypatch.context() as patch:
        copied(patch)
        job("copied")
    assert not rereads
    job("again")
    assert sum(rereads) > 10
    for name in (f"{{}}.jsonl{suffix}", "{}.tsv"):
        assert (tmp_path / name.format("again")).read_bytes() == (tmp_path / name.format("copied")).read_bytes()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_go_past_the_cache_until_the_job_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, rereads: list[int], threads: int, suffix: str
) -> None:
    written, found = AppendFile.append_lines, list[bool]()

    def noted(file: AppendFile, *given: Any) -> None:
        found.append(file.is_read)
        written(file, *given)

    monkeypatch.setattr(AppendFile, "append_lines", noted)
    dedup([source], tmp_path / f"kept.jsonl{suffix}", threads=threads, **NEAR)
    assert rereads
    assert sorted(found) == found
    assert found[-1]
    assert found[0] == bool(suffix), "what is packed in the end is read then"


def test_a_line_is_read_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, rereads: list[int]
) -> None:
    told = FirstRun._told

    def later(run: FirstRun, *given: Any) -> Callable[[], None]:
        write = told(run, *given)

        def written() -> None:
            time.sleep(0.05)
            write()

        return written

    dedup([source], tmp_path / "soon", dropped=tmp_path / "soon.tsv", threads=2, **NEAR)
    monkeypatch.setattr(FirstRun, "_told", later)
    dedup([source], tmp_path / "late", dropped=tmp_path / "late.tsv", threads=2, **NEAR)
    assert results(tmp_path, "late") == results(tmp_path, "soon")


def test_a_job_goes_on_with_the_lines_that_it_has_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, rereads: list[int]
) -> None:
    def job(name: str) -> Any:
        return dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", **NEAR)

    job("whole")
    interrupt(monkeypatch, lambda: job("cut"), 3)
    assert not (tmp_path / "cut.job" / "work" / "documents" / TEXT_BYTES).exists()
    rereads.clear()
    job("cut")
    assert rereads
    assert results(tmp_path, "cut") == results(tmp_path, "whole")


def test_a_job_goes_on_with_the_texts_that_it_has_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, rereads: list[int]
) -> None:
    def job(name: str) -> Any:
        return dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", **NEAR)

    with monkeypatch.context() as patch:
        copied(patch)
        job("whole")
        interrupt(patch, lambda: job("cut"), 3)
    job("cut")
    assert not rereads
    assert results(tmp_path, "cut") == results(tmp_path, "whole")


def test_a_job_that_cannot_read_its_lines_any_more_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path
) -> None:
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "out", **NEAR), 3)
    copied(monkeypatch)
    with pytest.raises(JobError, match=r"found texts that are lines of a result, .*; --force begins again"):
        dedup([source], tmp_path / "out", **NEAR)


def test_lines_that_have_changed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "out", **NEAR), 3)
    part = tmp_path / "out.job" / "part"
    part.write_bytes(part.read_bytes().replace(b"a b c", b"a b d"))
    with pytest.raises(CorruptStore, match=r"line of document \d+, checksum"):
        dedup([source], tmp_path / "out", **NEAR)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_result_that_is_cut_short_while_the_job_runs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, threads: int
) -> None:
    of, part = LineTexts.of, tmp_path / "out.job" / "part"

    def cut(texts: LineTexts, data: Any, offsets: Any) -> Any:
        os.truncate(part, 0)  # what is written behind that leaves zeros before it
        return of(texts, data, offsets)

    monkeypatch.setattr(LineTexts, "of", cut)
    refused = r"found less than the \d+ bytes that were written; --force begins again|line of document \d+, checksum"
    with pytest.raises((JobError, CorruptStore), match=refused):
        dedup([source], tmp_path / "out", threads=threads, **NEAR)
    assert not (tmp_path / "out").exists()


def spools(patch: pytest.MonkeyPatch) -> list[Spool]:
    found: list[Spool] = []
    begin = Spool.__init__

    def noted(spool: Spool, *given: Any, **more: Any) -> None:
        begin(spool, *given, **more)
        found.append(spool)

    patch.setattr(Spool, "__init__", noted)
    return found


def test_texts_are_copied_where_no_result_has_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path
) -> None:
    table, page = tmp_path / "in.csv", write_jsonl(tmp_path / "page.jsonl", ["<p>a b c", "<p>a b d"])
    table.write_text("text\na b c\na b d\n")
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "lines": ([source], {}),
        "lines of a field": (Inputs([source], text_column="text", id_column=None), {}),
        "a table": (Inputs([table], text_column="text"), {}),
        "a table beside lines": (Inputs([source, table], text_column="text"), {}),
        "rows": ([[{"text": "a b c"}, {"text": "a b d"}]], {}),
        "lines and rows": ([source, [{"text": "a b c"}, {"text": "a b d"}]], {}),
        "pages": (Inputs([page], html=True), {}),
        "columns that are added": ([source], {"tag": True}),
        "another order": ([source], {"keep": "longest"}),
        "shards": ([source], {"shards": True}),
        "a store": ([source], {"store": tmp_path / "s.fpstore"}),
        "no texts": ([source], {"confirm": None}),
        "a field by a path": (Inputs([write_jsonl(tmp_path / "p.jsonl", ["a b"])], text_column="text.x"), {}),
    }
    found: dict[str, bool] = {}
    for number, (way, (inputs, options)) in enumerate(ways.items()):
        with monkeypatch.context() as patch:
            made = spools(patch)
            try:
                dedup(inputs, tmp_path / f"out-{number}", **NEAR | options)
            except BadInput:
                assert way == "a field by a path"  # no line has it
            found[way] = made[-1].has_lines
    assert [way for way, has_lines in found.items() if has_lines] == ["lines", "lines of a field"]


def test_texts_are_copied_where_sources_have_them_in_other_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path
) -> None:
    made = spools(monkeypatch)
    fields = iter(("text", "body"))
    begin = LineTexts.__init__

    def other(texts: LineTexts, request: Any) -> None:
        begin(texts, request)
        texts.field = next(fields)

    monkeypatch.setattr(LineTexts, "__init__", other)
    dedup([source, write_jsonl(tmp_path / "b.jsonl", TEXTS[:3])], tmp_path / "out", **NEAR)
    assert not made[-1].has_lines


@pytest.mark.parametrize("bits", [64, 128])
def test_signatures_and_wide_fingerprints_are_confirmed_by_lines_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, rereads: list[int], bits: int
) -> None:
    recipe = (
        Recipe(name="wide", bits=128) if bits == 128 else Recipe(name="signs", sketch="minhash", weights="presence")
    )
    monkeypatch.setattr("fpstore.jobs.kept.ROOMS", Rooms(Room(8), Room(8)))
    near = {"confirm": "jaccard>=0.4"} | ({"max_distance": 12} if bits == 128 else {"bands": 32, "rows_per_band": 4})

    def job(name: str) -> None:
        dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", recipe=recipe, **near)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        copied(patch)
        job("copied")
    job("again")
    assert rereads
    assert results(tmp_path, "again") == results(tmp_path, "copied")
