"""Ids that are written in another way than the number alone, which is all that a store of numbers keeps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from outcome import Command

import fpstore
from fpstore.inputs import BadInput, read, read_ids
from fpstore.inputs.cells import written_otherwise
from fpstore.inputs.errors import NOT_ALONE
from fpstore.serve.forms import ids_of


@pytest.mark.parametrize(
    ("column", "count"),
    [
        (["007", "7", "0", "00", "0", "0", "70"], 2),
        (["007", "7", "0", "00", "0", "-7", "-07", "+7", "-0", "+0", " 7", "7 ", "\t7", "70"], 9),
        ([7, "007", None, b"007", 0], 1),
        (["0", "0", "0"], 0),
        (np.array([0, 7]), 0),
        ([], 0),
    ],
)
def test_ids_with_written_otherwise_them_are_counted(column: Any, count: int) -> None:
    assert written_otherwise(column) == count


@pytest.mark.parametrize("suffix", ["csv", "tsv", "hex", "jsonl", "parquet"])
def test_an_id_whose_zeros_are_dropped_is_noted(suffix: str, tmp_path: Path) -> None:
    """Two documents, 007 and 7, have one id in a store of numbers, and who looks 007 up in a table finds no 7."""
    path, rows = tmp_path / f"a.{suffix}", [("00000000000000ff", "007"), ("00000000000000fe", "7"), ("0" * 16, "0")]
    if suffix == "parquet":
        columns = [list(column) for column in zip(*rows, strict=True)]
        pyarrow.parquet.write_table(pyarrow.table(columns, ["fp", "id"]), path)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps({"fingerprint": one, "id": two}) + "\n" for one, two in rows))
    else:
        lines = rows if suffix == "hex" else [("fp", "id"), *rows]
        path.write_text("".join(("," if suffix == "csv" else "\t").join(line) + "\n" for line in lines))
    reader = read([path])
    assert [batch.ids.tolist() for batch in reader if batch.ids is not None] == [[7, 7, 0]]
    assert dict(reader.notes) == {NOT_ALONE: 1}
    if suffix != "hex":
        named = read([path], id_type="string")
        assert [batch.ids.tolist() for batch in named if batch.ids is not None] == [["007", "7", "0"]]
        assert not named.notes


OTHERWISE = ("007", "+7", "+07", " 7", "7 ", "  07", "-0", "00")


@pytest.mark.parametrize("written", OTHERWISE)
@pytest.mark.parametrize("suffix", ["csv", "tsv", "hex", "jsonl", "parquet"])
def test_each_way_to_write_a_number_is_noted_or_refused(suffix: str, written: str, tmp_path: Path) -> None:
    path, number = tmp_path / f"a.{suffix}", int(written)
    rows = [("00000000000000ff", written), ("00000000000000fe", str(number))]
    if suffix == "parquet":
        pyarrow.parquet.write_table(pyarrow.table([list(each) for each in zip(*rows, strict=True)], ["fp", "id"]), path)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps({"fp": one, "id": two}) + "\n" for one, two in rows))
    else:
        lines = rows if suffix == "hex" else [("fp", "id"), *rows]
        path.write_text("".join(("," if suffix == "csv" else "\t").join(line) + "\n" for line in lines))
    reader = read([path])
    assert [batch.ids.tolist() for batch in reader if batch.ids is not None] == [[number, number]]
    assert dict(reader.notes) == {NOT_ALONE: 1}
    if suffix != "hex":
        ids = read_ids([path], id_column="id")
        assert [batch.fingerprints.tolist() for batch in ids] == [[number, number]]
        assert dict(ids.notes) == {NOT_ALONE: 1}


@pytest.mark.parametrize("written", OTHERWISE)
def test_a_typed_id_and_one_that_a_program_sends_are_refused(written: str, command: Command, tmp_path: Path) -> None:
    """Of these nobody reads a note: lookup would answer of another row, and remove take it."""
    store = tmp_path / "s"
    with fpstore.create(store) as opened:
        opened.add([1, 2], ids=[7, 0])
    for arguments in (("lookup", store, "--", written), ("remove", store, f"--id={written}")):
        outcome = command(*arguments)
        assert (outcome.status, outcome.out) == (2, "")
        assert f"id: found {written}, expected {int(written)}" in outcome.err or f"found {written!r}" in outcome.err
    with pytest.raises(BadInput, match=r"^ids, item 1: found "):
        ids_of(["7", written], "uint64")
    assert ids_of(["7", "0", "-1"], "uint64").tolist() == [7, 0, (1 << 64) - 1]


def test_the_commands_say_so(tmp_path: Path, command: Command) -> None:
    path, store, named = tmp_path / "a.csv", tmp_path / "s", tmp_path / "n"
    path.write_text("id,fp\n007,00000000000000ff\n008,00000000000000fe\n9,00000000000000fd\n")
    told = f"read all the same: 2 {NOT_ALONE.replace('id', 'ids', 1)}"
    assert told in command("build", store, path).err
    assert told in command("add", store, path, "--upsert").err
    assert told in command("remove", store, "--id-input", path, "--id-column", "id").err
    assert "read all the same" not in command("build", named, path, "--id-type", "string").err
    assert command("lookup", named, "007").out == "007\t00000000000000ff\n"
