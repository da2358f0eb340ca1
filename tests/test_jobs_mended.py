"""A job that stopped at a bad line goes on behind it: with --skip-bad, or when it was mended; never on other inputs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jobs_model import interrupt, lines_of, write_jsonl
from outcome import Command

from fpstore.inputs import BadInput
from fpstore.jobs import Inputs, JobError, cluster, components, corpus, dedup, document_pairs, places, runs
from fpstore.jobs.journal import Job
from fpstore.jobs.parts import DIGEST_BYTES, Part

TEXTS = [f"{word} {word}x {word}y" for word in "abcdefghijkl"] + ["a ax ay"]
BAD = '{"text": "the end of this'

Work = Callable[..., Any]
JOBS: dict[str, Work] = {
    "first": dedup,
    "longest": lambda sources, out: dedup(sources, out, keep="longest"),
    "store": lambda sources, out: dedup(sources, out, store=f"{out}.fpstore"),
    "cluster": cluster,
    "components": components,
    "pairs": document_pairs,
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)
    # So that what is before a bad line is read before that is.
    monkeypatch.setattr("fpstore.inputs.records.GROUP_BYTES", 1)


def with_bad_line(path: Path, at: int = 10) -> list[str]:
    """A file of JSON lines of which one is bad, and these lines."""
    lines = lines_of(write_jsonl(path, TEXTS))
    lines[at] = BAD
    path.write_text("\n".join(lines) + "\n")
    return lines


@pytest.mark.parametrize("name", JOBS)
def test_a_job_goes_on_behind_a_bad_line_once_bad_lines_are_passed_over(tmp_path: Path, name: str) -> None:
    work, source, out = JOBS[name], tmp_path / "in.jsonl", tmp_path / "out"
    with_bad_line(source)
    expected = work(Inputs([source], skip_bad=True), tmp_path / "whole")
    with pytest.raises(BadInput, match="line 11"):
        work([source], out)
    done = json.loads((tmp_path / "out.job" / "journal.json").read_bytes())["state"]["place"][1]
    assert done == 9  # of ten documents before the line, three batches
    found = work(Inputs([source], skip_bad=True), out)
    assert (found.documents, found.results, found.skipped) == (12, expected.results, {"bad line": 1})
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    assert found.text_bytes < expected.text_bytes or name == "longest"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_goes_on_when_the_bad_line_is_mended(tmp_path: Path, name: str) -> None:
    work, source, out = JOBS[name], tmp_path / "in.jsonl", tmp_path / "out"
    with_bad_line(source)
    with pytest.raises(BadInput, match="line 11"):
        work([source], out)
    write_jsonl(source, TEXTS)
    found = work([source], out)
    expected = work([source], tmp_path / "whole")
    assert (found.documents, found.results, found.skipped) == (13, expected.results, {})
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("change", ["text", "other field", "a line more", "fewer"])
def test_a_job_does_not_go_on_where_what_it_read_has_changed(tmp_path: Path, name: str, change: str) -> None:
    work, source, out = JOBS[name], tmp_path / "in.jsonl", tmp_path / "out"
    lines = with_bad_line(source)
    with pytest.raises(BadInput, match="line 11"):
        work([source], out)
    if change == "fewer":
        lines = lines[:5]
    elif change == "a line more":
        lines.insert(2, "")
    else:
        lines[4] = lines[4].replace("e ex", "e xx") if change == "text" else lines[4].replace('"id": 4', '"id": 7')
    source.write_text("\n".join(lines) + "\n")
    before = (tmp_path / "out.job" / "journal.json").read_bytes()
    with pytest.raises(JobError, match=r"in\.jsonl: has changed before the place where the interrupted job goes on"):
        work(Inputs([source], skip_bad=True), out)
    assert (tmp_path / "out.job" / "journal.json").read_bytes() == before


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_job_does_not_go_on_where_another_column_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    source, out = tmp_path / f"in.{kind}", tmp_path / "out"
    rows = [{"text": text, "id": f"n{i}"} for i, text in enumerate(TEXTS)]
    lines = ["text,id", *(",".join(row.values()) for row in rows), ""]
    whole = json.dumps(rows) if kind == "json" else "\n".join(lines)
    inputs = Inputs([source], text_column="text")
    source.write_text(whole)
    interrupt(monkeypatch, lambda: dedup(inputs, out), 2)
    source.write_text(whole.replace("n4", "n7"))
    with pytest.raises(JobError, match=r"has changed before the place where the interrupted job goes on"):
        dedup(inputs, out)
    source.write_text(whole)
    assert dedup(inputs, out).documents == len(TEXTS)


@pytest.mark.parametrize("change", ["text", "a document more"])
def test_a_finished_input_that_has_changed_is_refused_and_one_not_begun_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    sources = [write_jsonl(tmp_path / f"{name}.jsonl", [f"{name} {i}" for i in range(4)]) for name in "abc"]
    out = tmp_path / "out"
    interrupt(monkeypatch, lambda: dedup(sources, out), 2)  # six documents: half of the second
    write_jsonl(sources[2], ["something else"])
    os.utime(sources[0])  # the same documents
    interrupt(monkeypatch, lambda: dedup(sources, out), 1)
    text = sources[0].read_text()
    sources[0].write_text(text.replace("a 1", "a 9") if change == "text" else text + '{"text": "more"}\n')
    with pytest.raises(JobError, match=r"a\.jsonl: has changed before the place"):
        dedup(sources, out)
    sources[0].write_text(text)
    assert dedup(sources, out).documents == 9
    assert len(lines_of(out)) == 9


def test_the_current_input_is_compared_though_its_size_and_time_are_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "out"), 2)
    time = source.stat().st_mtime_ns
    source.write_text(source.read_text().replace("b bx", "b xb"))
    os.utime(source, ns=(time, time))
    with pytest.raises(JobError, match="has changed before the place"):
        dedup([source], tmp_path / "out")


def test_another_column_of_parquet_is_part_of_what_was_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    numbers = list(range(len(TEXTS)))
    pq.write_table(pa.table({"n": numbers, "text": TEXTS}), source)
    given = Inputs([source], text_column="text")
    interrupt(monkeypatch, lambda: dedup(given, tmp_path / "out.parquet"), 2)
    pq.write_table(pa.table({"n": [*numbers[:-1], 99], "text": TEXTS}), source)
    interrupt(monkeypatch, lambda: dedup(given, tmp_path / "out.parquet"), 1)  # the last row was not read
    pq.write_table(pa.table({"n": [7, *numbers[1:]], "text": TEXTS}), source)
    with pytest.raises(JobError, match="has changed before the place"):
        dedup(given, tmp_path / "out.parquet")


def test_what_was_to_be_passed_over_once_is_so_to_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    with_bad_line(source, at=1)
    interrupt(monkeypatch, lambda: dedup(Inputs([source], skip_bad=True), out), 2)
    found = dedup([source], out)
    assert (found.documents, found.skipped) == (12, {"bad line": 1})


def test_all_inputs_of_the_longest_stay_as_they_were_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source, out = write_jsonl(tmp_path / "in.jsonl", TEXTS), tmp_path / "out"
    interrupt(monkeypatch, lambda: dedup([source], out, keep="longest"), 7)  # of five batches to measure, and of two
    state = json.loads((tmp_path / "out.job" / "journal.json").read_bytes())["state"]
    assert state["pass"] != "measure"
    source.write_text(source.read_text().replace("l lx", "l xl"))
    with pytest.raises(JobError, match="has changed before the place"):
        dedup([source], out, keep="longest")


def test_the_command_goes_on_with_skip_bad(command: Command, tmp_path: Path) -> None:
    source, kept = tmp_path / "in.jsonl", tmp_path / "kept.jsonl"
    with_bad_line(source)
    assert command("dedup", source, "-o", kept).status == 1
    outcome = command("dedup", source, "-o", kept, "--skip-bad")
    assert (outcome.status, outcome.out) == (0, "")
    assert f"{kept}: 12 documents, kept 11, dropped 1, refused matches 0, passed over 1 (" in outcome.err


def test_a_job_that_cannot_compare_its_inputs_does_not_go_on_with_other_looks(tmp_path: Path) -> None:
    with Job([tmp_path / "out"], {"job": "x"}, [["in", 1, 2]], force=False) as job:
        job.commit({})
    with pytest.raises(JobError, match="a job was interrupted, and in has changed; --force begins again"):
        Job([tmp_path / "out"], {"job": "x"}, [["in", 1, 3]], force=False)


def csv_of(header: str, delimiter: str = ",") -> bytes:
    rows = [f"{text}{delimiter}{text} other" for text in TEXTS]
    return "\n".join([header.replace(",", delimiter), *rows, ""]).encode()


def parquet_of(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": TEXTS, **columns}), sink)
    return bytes(sink.getvalue())


NUMBERS = range(len(TEXTS))
# A file as it was read at first, and with the same cells in other columns.
HEADERS: dict[str, tuple[str, bytes, bytes]] = {
    "columns swapped": ("in.csv", csv_of("text,other"), csv_of("other,text")),
    "a column renamed": ("in.csv", csv_of("text,other"), csv_of("text,further")),
    "a header in quotation marks": ("in.csv", csv_of("text,other"), csv_of('text,"other"')),
    "columns swapped in TSV": ("in.tsv", csv_of("text,other", "\t"), csv_of("other,text", "\t")),
    "another type": (
        "in.parquet",
        parquet_of(n=pa.array(NUMBERS, pa.int32())),
        parquet_of(n=pa.array(NUMBERS, pa.int64())),
    ),
    "another unit": (
        "in.parquet",
        parquet_of(n=pa.array([0] * len(TEXTS), pa.timestamp("ms"))),
        parquet_of(n=pa.array([0] * len(TEXTS), pa.timestamp("us"))),
    ),
}


@pytest.mark.parametrize("keep", ["first", "longest"])
@pytest.mark.parametrize(("name", "before", "after"), HEADERS.values(), ids=HEADERS)
def test_what_the_columns_are_is_part_of_what_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, before: bytes, after: bytes, keep: str
) -> None:
    source, out = tmp_path / name, tmp_path / "out.jsonl"
    source.write_bytes(before)
    given = Inputs([source], text_column="text")
    interrupt(monkeypatch, lambda: dedup(given, out, keep=keep), 2)
    source.write_bytes(after)
    with pytest.raises(JobError, match="has changed before the place"):
        dedup(given, out, keep=keep)
    source.write_bytes(before)
    assert dedup(given, out, keep=keep).documents == len(TEXTS)


def test_what_the_columns_are_stays_between_the_two_readings_of_the_longest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where size and time of the file tell nothing, only the digest of each document does."""
    source, out = tmp_path / "in.csv", tmp_path / "out.jsonl"
    source.write_bytes(csv_of("text,other"))
    given, look = Inputs([source], text_column="text"), places.look_at(str(source))
    monkeypatch.setattr(corpus, "look_at", lambda path: look)
    decide = runs.RankedRun._decide_in

    def edit_then_decide(run: runs.RankedRun, *arguments: Any) -> None:
        source.write_bytes(csv_of("text,xther"))
        decide(run, *arguments)

    monkeypatch.setattr(runs.RankedRun, "_decide_in", edit_then_decide)
    with pytest.raises(JobError, match=r"inputs have changed since they were measured: .*:2 is another document"):
        dedup(given, out, keep="longest")


@pytest.mark.parametrize("name", JOBS)
def test_short_texts_are_counted_in_all_runs_of_a_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    interrupt(monkeypatch, lambda: JOBS[name]([source], tmp_path / "out"), 2)
    warning = JOBS[name]([source], tmp_path / "out").warning
    assert warning is not None
    assert warning.startswith(f"{len(TEXTS)} of {len(TEXTS)} texts have fewer than")


def test_what_a_job_leaves_is_said_where_it_ends_early(command: Command, tmp_path: Path) -> None:
    with_bad_line(tmp_path / "in.jsonl")
    outcome = command("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl")
    told = f"{tmp_path / 'kept.jsonl.job'}: has what was done; the same command goes on with it, or remove it\n"
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith(told)
    (tmp_path / "in.jsonl").write_text(f"{BAD}\n")
    outcome = command("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "other.jsonl")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)  # nothing was done, so nothing is there


def test_two_columns_of_one_name_are_both_part_of_what_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    numbers = list(range(len(TEXTS)))

    def write(first: list[int]) -> None:
        pq.write_table(
            pa.table([pa.array(TEXTS), pa.array(first), pa.array(numbers)], names=["text", "n", "n"]), source
        )

    write(numbers)
    given = Inputs([source], text_column="text")
    interrupt(monkeypatch, lambda: dedup(given, out), 2)
    write([7, *numbers[1:]])
    with pytest.raises(JobError, match="has changed before the place"):
        dedup(given, out)
    write(numbers)
    dedup(given, out)
    assert pq.ParquetFile(out).schema_arrow.names == ["text", "n", "n"]


def test_so_many_documents_fit_and_one_at_least() -> None:
    sizes = np.array([5, 5, 0, 5])
    part = Part(["a"] * 4, ["x"] * 4, [], sizes, np.zeros((4, DIGEST_BYTES), np.uint8))
    assert [part.fitting(9, size) for size in (1, 5, 6, 10, 11, 15, 99)] == [1, 1, 2, 2, 4, 4, 4]
    assert [part.fitting(count, 99) for count in (1, 3, 4, 5)] == [1, 3, 4, 4]
