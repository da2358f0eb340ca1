"""Ids that are written with zeros before the number, which a store of numbers does not keep."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from outcome import Command

from fpstore.inputs import read
from fpstore.inputs.cells import zeros_before
from fpstore.inputs.errors import WITH_ZEROS


@pytest.mark.parametrize(
    ("column", "count"),
    [
        (["007", "7", "0", "00", "0", "0", "70", "-07"], 2),
        ([7, "007", None, b"007", 0], 1),
        (["0", "0", "0"], 0),
        (np.array([0, 7]), 0),
        ([], 0),
    ],
)
def test_ids_with_zeros_before_them_are_counted(column: Any, count: int) -> None:
    assert zeros_before(column) == count


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
    assert dict(reader.notes) == {WITH_ZEROS: 1}
    if suffix != "hex":
        named = read([path], id_type="string")
        assert [batch.ids.tolist() for batch in named if batch.ids is not None] == [["007", "7", "0"]]
        assert not named.notes


def test_the_commands_say_so(tmp_path: Path, command: Command) -> None:
    path, store, named = tmp_path / "a.csv", tmp_path / "s", tmp_path / "n"
    path.write_text("id,fp\n007,00000000000000ff\n008,00000000000000fe\n9,00000000000000fd\n")
    told = f"read all the same: 2 {WITH_ZEROS.replace('id', 'ids', 1)}"
    assert told in command("build", store, path).err
    assert told in command("add", store, path, "--upsert").err
    assert told in command("remove", store, "--id-input", path, "--id-column", "id").err
    assert "read all the same" not in command("build", named, path, "--id-type", "string").err
    assert command("lookup", named, "007").out == "007\t00000000000000ff\n"
