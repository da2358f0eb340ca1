"""Where all of an input is bad and passed over, each command that reads says so, with status 1, and leaves nothing."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore import jobs
from fpstore.inputs import BadInput, documents, read, read_ids
from fpstore.text import DEFAULT_RECIPE

NOTHING = "read 0 of 2, as all that was found is bad (2 bad lines), expected one that can be read"
COMMANDS = {
    "build": "build new.fpstore bad.jsonl",
    "build of fingerprints": "build new.fpstore bad.hex",
    "build of a table": "build new.fpstore bad.csv --no-input-header",
    "build with names": "build new.fpstore bad.jsonl --id-type string --id-column id",
    "add": "add s.fpstore bad.jsonl --ids from:5",
    "add --if-new": "add s.fpstore bad.jsonl --ids from:5 --if-new",
    "remove": "remove s.fpstore --input bad.hex",
    "remove of ids": "remove s.fpstore --id-input bad.csv --no-input-header",
    "probe": "probe s.fpstore --input bad.hex",
    "nearest": "nearest s.fpstore --input bad.jsonl",
    "lookup": "lookup s.fpstore --input bad.csv --no-input-header",
    "fingerprint": "fingerprint bad.jsonl",
    "fingerprint of features": "fingerprint bad.jsonl --features tokens",
    "learn-idf": "learn-idf bad.jsonl -o new.idf",
    "dedup": "dedup bad.jsonl -o new.jsonl --dropped new.tsv --summary new.json",
    "dedup --keep": "dedup bad.jsonl -o new.jsonl --keep longest",
    "dedup --store": "dedup bad.jsonl -o new.jsonl --store new.fpstore",
    "dedup to standard output": "dedup bad.jsonl -o -",
    "dedup of files": "dedup one.txt other.txt -o new.jsonl",
    "cluster": "cluster bad.jsonl -o new.tsv",
    "cluster --components": "cluster bad.jsonl -o new.tsv --components",
    "cluster --store": "cluster bad.jsonl -o new.tsv --store new.fpstore",
    "document-pairs": "document-pairs bad.jsonl -o new.tsv",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store and bad inputs, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    fpstore.build("s.fpstore", np.arange(3, dtype=np.uint64), recipe=DEFAULT_RECIPE).close()
    for suffix in ("jsonl", "hex", "csv"):
        Path(f"bad.{suffix}").write_text("none of it\nneither this\n")
    Path("one.txt").write_bytes(b"\0\1")
    Path("other.txt").write_bytes(b"\0\2")
    return tmp_path


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_an_input_of_which_all_is_bad_ends_with_status_1_and_leaves_nothing(
    command: Any, place: Path, line: str
) -> None:
    before = sorted(os.listdir(place))
    outcome = command(*line.split(), "--skip-bad")
    assert outcome.status == 1
    assert outcome.out == ""
    *_, last = outcome.err.splitlines()
    what = NOTHING.replace("bad lines", "files without text") if "txt" in line else NOTHING
    assert last == f"fpstore: inputs: {what}"
    assert sorted(os.listdir(place)) == before
    with fpstore.open("s.fpstore") as store:
        assert store.count("rows") == 3


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("name", "suffix"), [("dedup", "jsonl"), ("cluster", "tsv")])
def test_a_store_that_was_there_stays_where_all_is_bad(name: str, suffix: str) -> None:
    work: Callable[..., Any] = getattr(jobs, name)
    fpstore.create("old.fpstore", recipe=DEFAULT_RECIPE).close()
    with pytest.raises(BadInput, match="read 0 of 2"):
        work(jobs.Inputs(["bad.jsonl"], skip_bad=True), f"new.{suffix}", store="old.fpstore")
    with fpstore.open("old.fpstore") as store:
        assert store.count() == 0


@pytest.mark.usefixtures("place")
def test_one_good_row_is_enough_whatever_stands_around_it() -> None:
    Path("good.hex").write_text("wrong\n00000000000000ff\nwrong\n")
    assert [batch.fingerprints.tolist() for batch in read(["bad.hex", "good.hex"], skip_bad=True)] == [[255]]
    Path("good.jsonl").write_text('{"text": "one"}\n')
    assert [text for _, text in documents(["good.jsonl", "bad.jsonl"], skip_bad=True)] == ["one"]
    for order in (["good.jsonl", "bad.jsonl"], ["bad.jsonl", "good.jsonl"]):
        summary = jobs.dedup(jobs.Inputs(order, skip_bad=True), "kept.jsonl", force=True)
        assert (summary.documents, summary.results) == (1, 1)


@pytest.mark.usefixtures("place")
def test_nothing_at_all_is_not_bad() -> None:
    Path("empty.hex").touch()
    Path("empty.jsonl").touch()
    assert list(read(["empty.hex"], skip_bad=True)) == []
    assert list(documents(["empty.jsonl"], skip_bad=True)) == []
    assert jobs.dedup(jobs.Inputs(["empty.jsonl"], skip_bad=True), "kept.jsonl").documents == 0


@pytest.mark.usefixtures("place")
def test_the_library_raises_at_the_end_of_what_is_all_bad() -> None:
    for found in (
        read(["bad.hex"], skip_bad=True),
        read_ids(["bad.csv"], skip_bad=True, header=False),
        documents(["bad.jsonl"], skip_bad=True),
    ):
        with pytest.raises(BadInput, match="read 0 of 2"):
            list(found)
    with pytest.raises(BadInput, match="read 0 of 1"):
        jobs.dedup(jobs.Inputs([[{"text": 5}]], skip_bad=True), "kept.jsonl")


@pytest.mark.usefixtures("place")
def test_a_job_that_has_documents_goes_on_over_bad_lines_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left when it goes on is all bad, but not all that there was."""
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_DOCUMENTS", 2)
    good = "".join(json.dumps({"text": text}) + "\n" for text in ("one two", "three four"))
    Path("in.jsonl").write_text(good + "wrong\n")
    with pytest.raises(BadInput, match="line 3"):
        jobs.dedup(["in.jsonl"], "kept.jsonl")
    summary = jobs.dedup(jobs.Inputs(["in.jsonl"], skip_bad=True), "kept.jsonl")
    assert (summary.documents, dict(summary.skipped)) == (2, {"bad line": 1})
