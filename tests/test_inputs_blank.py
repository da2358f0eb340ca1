"""Blank lines, in each format that has lines and at each place: no row behind one gets the number of another.

The rule, for a blank line: before the first row it is nothing. Between two rows of one value each it is a row without a
value, which is bad. Anywhere else it is passed over, and counted.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore.inputs import BadInput, documents, numeric, read, read_ids

VALUES = np.random.default_rng(5).integers(2**60, 2**64, 40, dtype=np.uint64, endpoint=False).tolist()
# Of every kind of file of lines: its suffix, what stands before the rows, how a row is written, how it is read.
OF_VALUES: dict[str, tuple[str, str, Callable[[int], str], dict[str, Any]]] = {
    "hexadecimal lines": ("hex", "", "{:016x}".format, {}),
    "lines with 0x": ("hex", "", "0x{:016x}".format, {}),
    "decimal lines": ("hex", "", str, {"fingerprint_format": "decimal"}),
    "lines with ids, which are not asked for": ("hex", "", "{0:016x}\t{0}".format, {"ids": "row"}),
    "CSV of one column": ("csv", "hash\n", "{:016x}".format, {}),
    "CSV of one column without a header": ("csv", "", "{:016x}".format, {}),
    "TSV of one column": ("tsv", "hash\n", "{:016x}".format, {}),
}
OF_MORE: dict[str, tuple[str, str, Callable[[int], str], dict[str, Any]]] = {
    "CSV of two columns": ("csv", "time,hash\n", "5,{:016x}".format, {}),
    "JSON lines": ("jsonl", "", lambda value: json.dumps({"hash": f"{value:016x}"}), {"fingerprint_column": "hash"}),
    "JSON in lines": ("json", "", lambda value: json.dumps({"hash": f"{value:016x}"}), {"fingerprint_column": "hash"}),
}
# How many blank lines stand before which rows; 40 is the end.
PLACES: dict[str, dict[int, int]] = {
    "none": {},
    "first": {0: 2},
    "middle": {20: 1},
    "several": {7: 3, 8: 1, 30: 2},
    "last": {40: 1},
    "several at the end": {40: 3},
    "everywhere": {0: 1, 1: 1, 15: 4, 39: 1, 40: 2},
    "a whole block": {10: 40},
}


def lines_with(places: dict[int, int], row: Callable[[int], str], blank: str) -> str:
    """The rows of VALUES, and blank lines before some."""
    lines = []
    for index, value in enumerate(VALUES):
        lines += [blank] * places.get(index, 0)
        lines.append(row(value) + "\n")
    return "".join([*lines, *[blank] * places.get(len(VALUES), 0)])


def rows_of(places: dict[int, int], *, are_rows: bool) -> tuple[list[int], int]:
    """The number of each value by the rule, and how many blank lines are counted."""
    numbers, row, counted = [], 0, 0
    for index in range(len(VALUES)):
        if index:
            counted += places.get(index, 0)
            row += places.get(index, 0) if are_rows else 0
        numbers.append(row)
        row += 1
    return numbers, counted + places.get(len(VALUES), 0)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank lines come to lie at the borders of blocks of hexadecimal lines, and fill some."""
    monkeypatch.setattr(numeric, "_MIN_BLOCK_BYTES", 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("blank", ["\n", " \t\r\n"])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("kind", [*OF_VALUES, *OF_MORE])
def test_a_blank_line_never_gives_a_row_the_number_of_another(
    tmp_path: Path, kind: str, where: str, blank: str, batch: int
) -> None:
    suffix, head, row, how = (OF_VALUES | OF_MORE)[kind]
    if suffix not in ("hex", "jsonl", "json"):
        blank = blank.replace(" \t", "")  # in a table these are a cell
    places = PLACES[where]
    path = tmp_path / f"a.{suffix}"
    path.write_text(head + lines_with(places, row, blank), newline="")
    if head and 0 in places:
        places = {index: count for index, count in places.items() if index}
        path.write_text(blank + head + lines_with(places, row, blank), newline="")
    numbers, counted = rows_of(places, are_rows=kind in OF_VALUES)
    how = {"ids": "row"} | how
    reader = read([path], skip_bad=True, batch=batch, **how)
    found: list[tuple[int, int]] = []
    for each in reader:
        assert each.ids is not None
        found += zip(each.fingerprints.tolist(), each.ids.tolist(), strict=True)
    assert found == list(zip(VALUES, numbers, strict=True))
    assert sum(reader.skipped.values()) == counted
    inner = sum(count for index, count in places.items() if 0 < index < len(VALUES))
    if kind in OF_VALUES and inner:
        assert reader.skipped["bad line"] == inner
        with pytest.raises(BadInput, match=rf"a\.{suffix}, line \d+: found '', expected"):
            list(read([path], batch=batch, **how))
    else:
        assert [value for each in read([path], batch=batch, **how) for value in each.fingerprints.tolist()] == VALUES


@pytest.mark.parametrize("where", PLACES)
def test_a_blank_line_in_a_list_of_ids_is_a_row_without_an_id(tmp_path: Path, where: str) -> None:
    places, path = PLACES[where], tmp_path / "ids.csv"
    path.write_text(lines_with(places, str, "\n"))
    reader = read_ids([path], skip_bad=True)
    assert [value for each in reader for value in each.fingerprints.tolist()] == VALUES
    numbers, counted = rows_of(places, are_rows=True)
    assert sum(reader.skipped.values()) == counted
    assert reader.seen.rows == numbers[-1] + 1


def test_a_file_of_blank_lines_has_no_rows(tmp_path: Path) -> None:
    for suffix in ("hex", "csv", "tsv", "jsonl", "json"):
        path = tmp_path / f"a.{suffix}"
        path.write_text("\n \n\n" if suffix not in ("csv", "tsv") else "\n\n")
        reader = read([path], fingerprint_column=None if suffix == "hex" else "hash")
        assert list(reader) == []
        assert reader.seen.rows == 0


def test_the_line_of_a_document_stays_its_own_beside_blank_ones(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\n{"text": "one"}\n\n\n{"text": "two"}\n\n')
    found = documents([tmp_path / "a.jsonl"])
    assert [name.rpartition(":")[2] for name, _ in found] == ["2", "5"]
    assert found.skipped == {"blank line": 3}


def test_a_blank_line_in_front_of_many_says_the_line_of_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text("\n" * 100_000 + "wrong\n")
    with pytest.raises(BadInput, match=r"a\.hex, line 100001: found 'wrong'"):
        list(read([tmp_path / "a.hex"]))
    (tmp_path / "a.hex").write_text("\n" * 100_000 + "0x5\t7\n")
    (batch,) = read([tmp_path / "a.hex"])
    assert batch.ids is not None
    assert (batch.fingerprints.tolist(), batch.ids.tolist()) == ([5], [7])


def test_a_query_keeps_its_number_beside_blank_lines_of_an_input(command: Any, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s.fpstore", VALUES, max_distance=0).close()
    (tmp_path / "q.hex").write_text(f"{VALUES[0]:016x}\n\n{VALUES[1]:016x}\n")
    outcome = command("probe", tmp_path / "s.fpstore", "--input", tmp_path / "q.hex")
    assert outcome.status == 1
    assert "line 2: found ''" in outcome.err
    outcome = command("probe", tmp_path / "s.fpstore", "--input", tmp_path / "q.hex", "--skip-bad")
    assert [line.split("\t")[0] for line in outcome.out.splitlines()] == [f"{value:016x}" for value in VALUES[:2]]
    assert "passed over: 1 bad line" in outcome.err


@pytest.mark.parametrize("where", PLACES)
def test_the_coprocess_answers_a_blank_line_too(command: Any, tmp_path: Path, where: str) -> None:
    """One answer for each line, whatever stands there: who asks counts them."""
    fpstore.build(tmp_path / "s.fpstore", VALUES, max_distance=0).close()
    text = lines_with(PLACES[where], "{:016x}".format, "\n")
    (tmp_path / "asked").write_text(text)
    outcome = command("probe", tmp_path / "s.fpstore", "--input", tmp_path / "asked", "--unbuffered")
    answers = [json.loads(line) for line in outcome.out.splitlines()]
    assert [answer["line"] for answer in answers] == list(range(text.count("\n")))
    assert ["error" in answer for answer in answers] == [not line for line in text.splitlines()]
