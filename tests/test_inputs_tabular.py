"""The formats that hold a table: csv, tsv, parquet."""

# mypy: disable-error-code="union-attr"

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.lib import DataType, DictionaryType

from fpstore.inputs import BadInput, documents, read
from fpstore.text import Recipe, fingerprint

VALUES = [0, 0xDEADBEEFDEADBEEF, 2**64 - 1]
HEX = [f"{value:016x}" for value in VALUES]


def rows(*sources: str | Path, **options: Any) -> tuple[list[int], list[int], int]:
    """Fingerprints and ids of all batches as lists, and how many rows were skipped."""
    reader = read(list(sources), **options)
    fingerprints, ids = [], []
    for batch in reader:
        fingerprints += batch.fingerprints.tolist()
        ids += batch.ids.tolist()
    return fingerprints, ids, sum(reader.skipped.values())


@pytest.fixture(params=["csv", "tsv"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Writes rows of cells as a file of either format, and gives its path."""

    def write(*lines: list[str]) -> Path:
        path = tmp_path / f"a.{request.param}"
        path.write_text("".join(("," if request.param == "csv" else "\t").join(line) + "\n" for line in lines))
        return path

    return write


def test_a_table_without_a_header_is_read_from_its_first_column(table: Callable[..., Any]) -> None:
    assert rows(table(*([value, "x"] for value in HEX))) == (VALUES, [0, 1, 2], 0)


def test_a_column_named_fingerprint_is_found_wherever_it_stands(table: Callable[..., Any]) -> None:
    assert rows(table(["id", "fingerprint"], *(["5", value] for value in HEX))) == (VALUES, [0, 1, 2], 0)


@pytest.mark.parametrize("options", [{"column": "hash", "ids": "key"}, {"column": 1, "ids": 0}])
def test_columns_are_found_by_name_and_by_number(
    table: Callable[..., Any], options: dict[str, int] | dict[str, str]
) -> None:
    path = table(["key", "hash"], ["7", HEX[0]], ["8", HEX[1]])
    assert rows(path, **options) == (VALUES[:2], [7, 8], 0)


def test_columns_by_number_need_no_header(table: Callable[..., Any]) -> None:
    assert rows(table(["7", HEX[0]], ["8", HEX[1]]), column=1, ids=0) == (VALUES[:2], [7, 8], 0)


def test_cells_lose_the_spaces_around_them(table: Callable[..., Any]) -> None:
    assert rows(table([" key ", " hash"], [" 7 ", f" {HEX[1]} "]), column="hash", ids="key")[:2] == ([VALUES[1]], [7])


@pytest.mark.parametrize("name", ["simhash", "fp", "_hash", "x64"])
def test_a_first_row_that_reads_like_a_name_is_a_header(table: Callable[..., Any], name: str) -> None:
    assert rows(table([name], [HEX[1]]), column=0)[0] == [VALUES[1]]


@pytest.mark.parametrize("cell", ["deadbeefdeadbee", "-5", "1.5", "", "0xg"])
def test_a_bad_first_value_is_no_header(table: Callable[..., Any], cell: str) -> None:
    with pytest.raises(BadInput, match=f"line 1: found '{cell}', expected 16 hexadecimal"):
        rows(table([cell, "x"], [HEX[1], "x"]))


def test_a_bad_first_id_is_no_header(table: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match="line 1: found id '-5', expected a decimal number"):
        rows(table([HEX[0], "-5"]), ids=1)


def test_a_name_that_no_column_has_is_refused_with_the_names_there_are(table: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match="line 1: found columns a, b; expected one named hash"):
        rows(table(["a", "b"]), column="hash")


def test_a_name_that_two_columns_have_is_refused(table: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match="line 1: found columns hash, hash; expected one named hash"):
        rows(table(["hash", "hash"]), column="hash")


def test_a_row_with_too_few_columns_is_named_or_counted(table: Callable[..., Any]) -> None:
    path = table(["1", HEX[0]], ["2"], ["3", HEX[1]])
    with pytest.raises(BadInput, match="line 2: found 1 columns, expected at least 2"):
        rows(path, column=1)
    assert rows(path, column=1, skip_bad=True) == (VALUES[:2], [0, 2], 1)


def test_bad_cells_are_named_by_line_or_counted_once_for_each_row(table: Callable[..., Any]) -> None:
    lines = [["hash", "key"], [HEX[0], "1"], ["wrong", "wrong"], ["wrong", "3"], [HEX[1], "wrong"], [HEX[2], "5"]]
    path = table(*lines)
    with pytest.raises(BadInput, match="line 3: found 'wrong', expected 16 hexadecimal"):
        rows(path, column="hash", ids="key")
    assert rows(path, column="hash", ids="key", skip_bad=True) == ([VALUES[0], VALUES[2]], [1, 5], 3)
    assert rows(path, column="hash", skip_bad=True) == ([VALUES[0], VALUES[1], VALUES[2]], [0, 3, 4], 2)


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"\n{HEX[0]}\n\n\r\n{HEX[1]}\n")
    assert rows(tmp_path / "a.csv") == (VALUES[:2], [0, 1], 0)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfhash\n" + HEX[1].encode())
    assert rows(tmp_path / "a.csv", column="hash")[0] == [VALUES[1]]


def test_quoted_csv_fields_may_hold_lines_and_errors_name_where_the_row_starts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'note,hash\n"two\nlines, ""here""",{HEX[1]}\n"x\ny",wrong\n')
    with pytest.raises(BadInput, match="line 4: found 'wrong'"):
        rows(tmp_path / "a.csv", column="hash")
    assert rows(tmp_path / "a.csv", column="hash", skip_bad=True)[0] == [VALUES[1]]
    assert next(documents([tmp_path / "a.csv"], text_column="note")) == (
        f"{tmp_path / 'a.csv'}:2",
        'two\nlines, "here"',
    )


@pytest.mark.parametrize("bad", ['"abc"def', '"never closed'])
def test_a_broken_csv_record_is_named_or_counted(tmp_path: Path, bad: str) -> None:
    (tmp_path / "a.csv").write_text(f"{HEX[0]}\n{bad}\n")
    with pytest.raises(BadInput, match=r"line 2: found a broken record \(.*\), expected fields separated by ','"):
        rows(tmp_path / "a.csv")
    assert rows(tmp_path / "a.csv", skip_bad=True) == (VALUES[:1], [0], 1)


def test_a_quotation_mark_is_nothing_special_in_tsv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\n"one\ntwo"\n')
    assert [text for _, text in documents([tmp_path / "a.tsv"], text_column="text")] == ['"one', 'two"']


def test_a_text_column_becomes_fingerprints_by_the_recipe(table: Callable[..., Any]) -> None:
    path = table(["key", "body"], ["7", "the quick brown fox"], ["8", ""])
    recipe = Recipe("words", shingle=1)
    reader = read([path], text_column="body", ids="key", recipe=recipe)
    assert reader.recipe == recipe
    (batch,) = reader
    assert batch.fingerprints.tolist() == [recipe.fingerprint("the quick brown fox"), 0]
    assert batch.ids.tolist() == [7, 8]


def test_a_text_longer_than_the_csv_module_allows_by_default_is_read(tmp_path: Path) -> None:
    text = "word " * 100_000
    assert len(text) > 131_072
    (tmp_path / "a.csv").write_text(text + "\n")
    assert [found for _, found in documents([tmp_path / "a.csv"], text_column=0)] == [text]
    assert csv.field_size_limit() >= len(text)


def test_a_large_table_is_read_in_groups_with_the_right_rows(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 2**64, 3000, dtype=np.uint64, endpoint=False).tolist()
    lines = [f"{row},{value:016x}" for row, value in enumerate(values)]
    (tmp_path / "a.csv").write_text("id,fingerprint\n" + "\n".join(lines))
    for ids in ("row", "id"):
        assert rows(tmp_path / "a.csv", ids=ids, batch=7) == (values, list(range(3000)), 0)


TYPES = [pa.uint64(), pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_parquet_columns_of_integers_and_strings_are_read(tmp_path: Path, kind: DataType | DictionaryType) -> None:
    cells = pa.array(VALUES, type=kind) if kind == pa.uint64() else pa.array(HEX).cast(kind)
    ids = pa.array([7, 8, 9], type=pa.int16())
    pq.write_table(pa.table({"id": ids, "fingerprint": cells}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet") == (VALUES, [0, 1, 2], 0)
    assert rows(tmp_path / "a.parquet", ids="id") == (VALUES, [7, 8, 9], 0)
    assert rows(tmp_path / "a.parquet", column=1, ids=0, batch=2) == (VALUES, [7, 8, 9], 0)


def test_one_parquet_column_can_be_fingerprint_and_id(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array(VALUES, type=pa.uint64())}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", ids="x") == (VALUES, VALUES, 0)


def test_parquet_of_many_row_groups_is_read_in_order(tmp_path: Path) -> None:
    values = np.random.default_rng(5).integers(0, 2**64, 30_000, dtype=np.uint64, endpoint=False)
    pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet", row_group_size=999)
    told: list[Any] = []
    fingerprints, ids, _ = rows(tmp_path / "a.parquet", on_bytes=told.append)
    assert fingerprints == values.tolist()
    assert ids == list(range(30_000))
    assert sum(told) == os.path.getsize(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("cells", "found"),
    [([1, -5, 3], "-5"), ([1, None, 3], "None"), (["0x1", "-5", "0x3"], "'-5'"), (["0x1", None, "0x3"], "None")],
)
def test_a_bad_parquet_row_is_named_or_counted(tmp_path: Path, cells: Any, found: str) -> None:
    pq.write_table(pa.table({"x": cells}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=rf"a\.parquet, row 1: found {found}, expected 16 hexadecimal"):
        rows(tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", skip_bad=True) == ([1, 3], [0, 2], 1)


def test_a_bad_parquet_id_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "id": [3, -4]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a\.parquet, row 1: found id -4, expected a decimal number"):
        rows(tmp_path / "a.parquet", ids="id")


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ([1.5], {}, "column x: found double, expected integers or strings"),
        ([[1]], {}, r"column x: found list<.*>, expected integers or strings"),
        ([1], {"text_column": "x"}, "column x: found int64, expected strings"),
        ([1], {"column": "y"}, "found columns x; expected one named y"),
        ([1], {"ids": "y"}, "found columns x; expected one named y"),
        ([1], {"column": 1}, "found 1 columns, expected at least 2"),
    ],
)
def test_a_parquet_column_that_will_not_do_is_refused(
    tmp_path: Path, cells: Any, options: dict[str, int] | dict[str, str], message: str
) -> None:
    pq.write_table(pa.table({"x": cells}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=rf"a\.parquet.*{message}"):
        rows(tmp_path / "a.parquet", **options)


def test_parquet_texts_become_fingerprints(tmp_path: Path) -> None:
    pq.write_table(pa.table({"body": ["one two three four five", None]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="row 1: found None, expected a text"):
        rows(tmp_path / "a.parquet", text_column="body")
    found = rows(tmp_path / "a.parquet", text_column="body", skip_bad=True)
    assert found == ([fingerprint("one two three four five")], [0], 1)
    names = list(documents([tmp_path / "a.parquet"], text_column="body", skip_bad=True))
    assert names == [(f"{tmp_path / 'a.parquet'}:0", "one two three four five")]


@pytest.mark.slow
def test_every_truncation_of_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": VALUES_ARRAY}), tmp_path / "whole.parquet")
    data = (tmp_path / "whole.parquet").read_bytes()
    for size in range(len(data)):
        (tmp_path / "a.parquet").write_bytes(data[:size])
        with pytest.raises(BadInput, match=r"a\.parquet: found a damaged file \(.*\), expected Parquet"):
            rows(tmp_path / "a.parquet")


VALUES_ARRAY = pa.array(VALUES, type=pa.uint64())


def test_damaged_parquet_pages_are_bad_input(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": VALUES_ARRAY}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:40] = bytes(36)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(BadInput, match=r"a\.parquet: found a damaged file"):
        rows(tmp_path / "a.parquet")


def test_a_parquet_file_that_cannot_be_opened_is_the_systems_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": VALUES_ARRAY}), tmp_path / "a.parquet")
    reader = read([tmp_path / "a.parquet"])
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        next(reader)


def test_a_systems_error_while_parquet_is_read_passes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"x": VALUES_ARRAY}), tmp_path / "a.parquet")

    def fail(*_: object, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pq, "ParquetFile", fail)
    with pytest.raises(PermissionError):
        rows(tmp_path / "a.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"reading Parquet needs pyarrow: pip install 'fpstore\[arrow\]'"):
        rows(tmp_path / "a.parquet")
