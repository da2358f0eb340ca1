"""`fpstore lookup`: what is stored with an id, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome import Command, Outcome

import fpstore
from fpstore.cli import lookup

ROWS = [(5, 1), (5, 2), (255, 2), (2**64 - 1, 2**64 - 1)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.fpstore"
    keys, ids = (np.array(column, dtype=np.uint64) for column in zip(*ROWS, strict=True))
    fpstore.build(path, keys, ids=ids).close()
    return path


def test_the_rows_of_an_id_are_lines_in_order(command: Command, store: Path) -> None:
    lines = "1\t0000000000000005\n2\t0000000000000005\n2\t00000000000000ff\n"
    assert command("lookup", store, "2", "77", "1", "2") == Outcome(0, lines, "")
    assert command("lookup", store, "77") == Outcome(0, "", "")
    assert command("lookup", store, "--header", "--signed", "--", "-1") == Outcome(0, "id\tfingerprint\n-1\t-1\n", "")


def test_json_has_ids_as_strings(command: Command, store: Path) -> None:
    outcome = command("lookup", store, "2", str(2**64 - 1), "--json")
    assert [json.loads(line) for line in outcome.lines] == [
        {"format": "fpstore.lookup/1", "id": str(id), "fingerprint": f"{key:016x}"} for key, id in ROWS[1:]
    ]


def test_every_id_of_a_file_is_looked_up_beside_those_typed(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "BATCH_IDS", 2)
    wanted = tmp_path / "wanted.csv"
    wanted.write_text("doc,name\n2,a\n1,b\nx,c\n2,d\n")
    outcome = command("lookup", store, "1", "--input", wanted, "--id-column", "doc", "--skip-bad")
    assert outcome.err == "fpstore: passed over: 1 bad line\n"
    assert [line.split("\t")[0] for line in outcome.lines] == ["1", "1", "2", "2", "2", "2"]
    wanted.write_text("")
    outcome = command("lookup", store, "--input", wanted)
    assert outcome == Outcome(0, "", f"{wanted}: holds nothing, so nothing was looked up\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to look up: expected an ID or --input"),
        (["0x5"], "id: found '0x5', expected a decimal number"),
        (["5", "--id-column", "x"], "--id-column goes with --input"),
        (["5", "--format", "csv"], "--format goes with --input"),
        (["5", "--skip-bad"], "--skip-bad goes with --input"),
        (["5", "--json", "--header"], "--header goes without --json"),
        (["5", "--json", "--signed"], "--signed goes without --json"),
    ],
)
def test_a_command_line_that_cannot_be_looks_nothing_up(
    command: Command, store: Path, arguments: list[str], said: str
) -> None:
    outcome = command("lookup", store, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_a_store_without_ids_is_refused(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "bare", [1], ids=None).close()
    outcome = command("lookup", tmp_path / "bare", "1")
    assert (outcome.status, outcome.out) == (2, "")
    assert "the store has no ids, expected one with ids to look up" in outcome.err
