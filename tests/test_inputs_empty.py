"""Files of JSON without anything in them are neither texts nor fingerprints, beside others and alone."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.inputs import read
from fpstore.text import DEFAULT_RECIPE

HEX = "123456789abcdef0"
EMPTY = {"nothing": b"", "a line end": b"\n", "spaces": b" \n\n", "a mark": b"\xef\xbb\xbf"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with fingerprints of each kind, and stores with and without a recipe."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(f"hash\n{HEX}\n")
    Path("a.hex").write_text(f"{HEX}\n")
    Path("a.jsonl").write_text(json.dumps({"hash": HEX}) + "\n")
    Path("texts.jsonl").write_text('{"text": "one two"}\n')
    np.save("a.npy", np.array([int(HEX, 16)], dtype=np.uint64))
    fpstore.build("bare", [int(HEX, 16)], ids=None).close()
    fpstore.build("texts", [int(HEX, 16)], ids=None, recipe=DEFAULT_RECIPE).close()
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("data", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("name", ["empty.jsonl", "empty.json", "empty.jsonl.gz"])
@pytest.mark.parametrize("beside", ["a.csv", "a.hex", "a.npy", "a.jsonl"])
def test_an_empty_file_beside_fingerprints_is_no_text(name: str, data: bytes, beside: str) -> None:
    Path(name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    for order in ([name, beside], [beside, name]):
        reader = read(order)
        assert reader.recipe is None
        assert [batch.fingerprints.tolist() for batch in reader] == [[int(HEX, 16)]]
        assert (reader.seen.files, reader.seen.rows) == (2, 1)


@pytest.mark.usefixtures("place")
def test_an_empty_file_beside_texts_is_no_fingerprint() -> None:
    Path("empty.jsonl").touch()
    for order in (["empty.jsonl", "texts.jsonl"], ["texts.jsonl", "empty.jsonl"]):
        reader = read(order)
        assert reader.recipe == DEFAULT_RECIPE
        assert sum(len(batch.fingerprints) for batch in reader) == 1


@pytest.mark.usefixtures("place")
def test_the_first_file_of_a_folder_in_which_there_is_something_says_what_it_holds() -> None:
    """Spark writes parts without rows."""
    Path("in").mkdir()
    for number, data in enumerate(["", "", json.dumps({"hash": HEX}) + "\n"]):
        Path("in", f"part-{number}.jsonl").write_text(data)
    reader = read(["in"])
    assert reader.recipe is None
    assert [batch.fingerprints.tolist() for batch in reader] == [[int(HEX, 16)]]


ALONE = {
    "build": ("build new empty.jsonl", "new: read 0 rows of 1 file; holds nothing, as the input is empty"),
    "build with threads": ("build new empty.jsonl --threads 2", "read 0 rows of 1 file"),
    "add": ("add bare empty.jsonl", "bare: wrote 0 rows"),
    "add --if-new": ("add bare empty.jsonl --if-new", "bare: added 0 of 0 rows"),
    "add to texts": ("add texts empty.jsonl", "texts: wrote 0 rows"),
    "remove": ("remove bare --input empty.jsonl", "bare: removed 0 rows, for 0 fingerprints"),
    "probe": ("probe bare --input empty.jsonl", "holds nothing, so nothing was asked for"),
    "nearest": ("nearest texts --input empty.jsonl", "holds nothing, so nothing was asked for"),
    "dedup": ("dedup empty.jsonl -o k.jsonl", "k.jsonl: 0 documents, kept 0, dropped 0"),
    "dedup of a csv": ("dedup empty.csv -o k.csv --text-column text", "k.csv: 0 documents, kept 0, dropped 0"),
    "cluster": ("cluster empty.jsonl -o k.tsv", "k.tsv: 0 documents, clusters 0"),
    "document-pairs": ("document-pairs empty.jsonl -o k.tsv", "k.tsv: 0 documents, pairs 0"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("line", "said"), ALONE.values(), ids=ALONE)
def test_of_an_empty_input_all_counts_are_0_and_said(command: Command, line: str, said: str) -> None:
    Path("empty.jsonl").touch()
    Path("empty.csv").touch()
    outcome: Any = command(*line.split())
    assert (outcome.status, outcome.out) == (0, "")
    assert said in outcome.err


@pytest.mark.usefixtures("place")
def test_a_store_that_began_empty_takes_texts_and_fingerprints(command: Command) -> None:
    Path("empty.jsonl").touch()
    assert command("build", "new", "empty.jsonl").status == 0
    assert command("add", "new", "texts.jsonl", "--ids", "from:0").status == 0
    assert command("add", "new", "a.hex", "--ids", "from:1").status == 0
    with fpstore.open("new") as store:
        assert store.count("rows") == 2
