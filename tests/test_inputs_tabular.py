"""The formats that hold a table: csv, tsv, parquet."""

# mypy: disable-error-code="union-attr"

import csv
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from fpstore.inputs import BadInput, documents, read, read_ids
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


@pytest.mark.parametrize("name", ["fingerprint", "simhash", "hash", "fp", "SimHash", " FP "])
def test_a_column_with_a_known_name_is_found_wherever_it_stands(table: Callable[..., Any], name: str) -> None:
    assert rows(table(["time", name], *(["5", value] for value in HEX))) == (VALUES, [0, 1, 2], 0)
    assert rows(table([name, "time"], *([value, "5"] for value in HEX))) == (VALUES, [0, 1, 2], 0)


def test_the_only_column_is_that_of_the_fingerprints(table: Callable[..., Any]) -> None:
    for header in ([], [["FP"]]):
        assert rows(table(*header, *([value] for value in HEX))) == (VALUES, [0, 1, 2], 0)
    assert rows(table(["whatever"], *([value] for value in HEX)), header=True) == (VALUES, [0, 1, 2], 0)


@pytest.mark.parametrize(
    "names",
    [["unixtime", "value"], ["1700000000", HEX[1]], ["doc_id", "body"], ["hash", "simhash"], ["fp", "FP"], ["id", "x"]],
)
def test_among_several_columns_none_is_guessed(table: Callable[..., Any], names: list[str]) -> None:
    message = rf"line 1: found columns {', '.join(names)}; expected one called fingerprint or .* or fingerprint_column"
    for options in ({}, {"id_column": names[0]}, {"ids": "row"}, {"skip_bad": True}):
        with pytest.raises(BadInput, match=message):
            rows(table(names, ["5", HEX[0]]), **options)
    pq.write_table(pa.table([pa.array([5]), pa.array([6])], names=names), path := table(["x"]).with_suffix(".parquet"))
    with pytest.raises(BadInput, match=message.removeprefix("line 1: ")):
        rows(path)


@pytest.mark.parametrize(
    "options", [{"fingerprint_column": "id"}, {"fingerprint_column": "hash", "id_column": "hash"}, {"id_column": 1}]
)
def test_a_column_of_fingerprints_and_of_ids_is_refused(table: Callable[..., Any], options: Any) -> None:
    with pytest.raises(BadInput, match=r"found column (id|hash) as fingerprint and as id, expected two columns"):
        rows(table(["id", "hash"], ["5", HEX[0]]), **options)
    pq.write_table(pa.table({"id": [5], "hash": [6]}), path := table(["x"]).with_suffix(".parquet"))
    with pytest.raises(BadInput, match=r"found column (id|hash) as fingerprint and as id, expected two columns"):
        rows(path, **options)
    with pytest.raises(BadInput, match="found column id as text and as id"):
        rows(table(["id", "hash"], ["5", HEX[0]]), text_column="id")


IDS = [({}, [7, 8]), ({"ids": "column"}, [7, 8]), ({"ids": "row"}, [0, 1]), ({"id_column": "row"}, [5, 6])]


@pytest.mark.parametrize(("options", "expected"), [*IDS, ({"ids": "row", "first_id": 10}, [10, 11])])
def test_ids_are_those_of_the_column_called_id_unless_something_is_said(
    table: Callable[..., Any], options: Any, expected: list[int]
) -> None:
    path = table(["ID", "row", "hash"], ["7", "5", HEX[0]], ["8", "6", HEX[1]])
    assert rows(path, **options) == (VALUES[:2], expected, 0)
    assert [batch.ids for batch in read([path], ids=None)] == [None]
    pq.write_table(pa.table({"id": [7, 8], "row": [5, 6], "hash": HEX[:2]}), path.with_suffix(".parquet"))
    assert rows(path.with_suffix(".parquet"), **options) == (VALUES[:2], expected, 0)


def test_a_column_of_ids_that_is_not_there_is_asked_for(table: Callable[..., Any]) -> None:
    for names in (["doc_id", "hash"], ["id", "ID", "hash"]):
        with pytest.raises(BadInput, match=r"found columns .*; expected one called id, or id_column .*, or ids"):
            rows(table(names, ["5"] * (len(names) - 1) + [HEX[0]]), ids="column")
    with pytest.raises(BadInput, match=r"found columns id, ID, hash; expected one called id"):
        rows(table(["id", "ID", "hash"], ["5", "5", HEX[0]]))


def test_files_with_ids_and_files_without_are_not_mixed_silently(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"id,hash\n5,{HEX[0]}\n")
    (tmp_path / "b.csv").write_text(f"hash\n{HEX[1]}\n")
    np.save(tmp_path / "c.npy", np.array([7]))
    (tmp_path / "d.csv").touch()
    message = r"found (no|a) column called id, and (one|none) in the files before; expected ids"
    for names in ("ab", "ba", "ac", "ca", "adb"):
        paths = [next(tmp_path.glob(f"{name}.*")) for name in names]
        with pytest.raises(BadInput, match=message):
            rows(*paths)
        assert rows(*paths, ids="row")[1] == [0, 1]


SIXTEEN = "1234567890123456"


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_a_column_is_read_in_one_way_whatever_the_batches(table: Callable[..., Any], batch: int) -> None:
    lines = [["hash", "id"], [SIXTEEN, "1"], [SIXTEEN, "2"], ["-5", "3"], [SIXTEEN, "4"]]
    expected = [int(SIXTEEN), int(SIXTEEN), 2**64 - 5, int(SIXTEEN)]
    assert rows(table(*lines), batch=batch) == (expected, [1, 2, 3, 4], 0)
    lines[3] = [HEX[1], "3"]
    expected = [int(SIXTEEN, 16), int(SIXTEEN, 16), VALUES[1], int(SIXTEEN, 16)]
    assert rows(table(*lines), batch=batch) == (expected, [1, 2, 3, 4], 0)


def test_a_column_that_could_be_either_is_refused_until_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"hash\n{SIXTEEN}\nwrong\n{SIXTEEN}\n")
    message = (
        rf"line 2: found '{SIXTEEN}', expected fingerprint_format .* hex or decimal, as no value in the column tells"
    )
    for batch in (1, 1000):
        with pytest.raises(BadInput, match=message):
            rows(tmp_path / "a.csv", skip_bad=True, batch=batch)
    for way, base in (("hex", 16), ("decimal", 10)):
        found = rows(tmp_path / "a.csv", skip_bad=True, fingerprint_format=way)
        assert found == ([int(SIXTEEN, base)] * 2, [0, 2], 1)
    (tmp_path / "a.csv").write_text(f"{SIXTEEN}\n" * 70_000 + "5\n")
    with pytest.raises(BadInput, match=r"line 1: found .*, as no value in the column, of the first 66000, tells"):
        rows(tmp_path / "a.csv", batch=1000)


@pytest.mark.parametrize(
    "options", [{"fingerprint_column": "hash", "id_column": "key"}, {"fingerprint_column": 1, "id_column": 0}]
)
def test_columns_are_found_by_name_and_by_number(table: Callable[..., Any], options: dict[str, Any]) -> None:
    path = table(["key", "hash"], ["7", HEX[0]], ["8", HEX[1]])
    assert rows(path, **options) == (VALUES[:2], [7, 8], 0)


def test_columns_by_number_need_no_header(table: Callable[..., Any]) -> None:
    assert rows(table(["7", HEX[0]], ["8", HEX[1]]), fingerprint_column=1, id_column=0) == (VALUES[:2], [7, 8], 0)


def test_cells_lose_the_spaces_around_them(table: Callable[..., Any]) -> None:
    assert rows(table([" key ", " hash"], [" 7 ", f" {HEX[1]} "]), fingerprint_column="hash", id_column="key")[:2] == (
        [VALUES[1]],
        [7],
    )


def test_a_bad_first_id_is_no_header(table: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match=r"line 1: found id '5\.0', expected a decimal number"):
        rows(table([HEX[0], "5.0"]), fingerprint_column=0, id_column=1)


def test_a_name_that_no_column_has_is_refused_with_the_names_there_are(table: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match="line 1: found columns a, b; expected one named hash"):
        rows(table(["a", "b"]), fingerprint_column="hash")


def test_a_name_that_two_columns_have_is_refused(table: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match="line 1: found columns hash, hash; expected one named hash"):
        rows(table(["hash", "hash"]), fingerprint_column="hash")


def test_a_row_with_too_few_cells_is_named_or_counted(table: Callable[..., Any]) -> None:
    path = table(["1", HEX[0]], ["2"], ["3", HEX[1]])
    with pytest.raises(BadInput, match="line 2: found 1 cells, expected 2, as line 1 has"):
        rows(path, fingerprint_column=1)
    assert rows(path, fingerprint_column=1, skip_bad=True) == (VALUES[:2], [0, 2], 1)


def test_bad_cells_are_named_by_line_or_counted_once_for_each_row(table: Callable[..., Any]) -> None:
    lines = [["hash", "key"], [HEX[0], "1"], ["wrong", "wrong"], ["wrong", "3"], [HEX[1], "wrong"], [HEX[2], "5"]]
    path = table(*lines)
    with pytest.raises(BadInput, match="line 3: found 'wrong', expected 16 hexadecimal"):
        rows(path, fingerprint_column="hash", id_column="key")
    assert rows(path, fingerprint_column="hash", id_column="key", skip_bad=True) == ([VALUES[0], VALUES[2]], [1, 5], 3)
    assert rows(path, fingerprint_column="hash", skip_bad=True) == ([VALUES[0], VALUES[1], VALUES[2]], [0, 3, 4], 2)


def test_blank_lines_in_front_of_the_first_row_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"\n\r\n{HEX[0]}\n{HEX[1]}\n")
    assert rows(tmp_path / "a.csv") == (VALUES[:2], [0, 1], 0)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_blank_line_in_a_table_of_one_column_is_a_row_without_a_value(tmp_path: Path, suffix: str) -> None:
    """pyarrow, polars and DuckDB write a null so; left out, it gave every row behind it the number of another."""
    path = tmp_path / f"a.{suffix}"
    path.write_text(f"hash\n{HEX[0]}\n\n\r\n{HEX[1]}\n\nwrong\n{HEX[2]}\n\n\n")
    with pytest.raises(BadInput, match=rf"a\.{suffix}, line 3: found '', expected"):
        rows(path)
    found = read([path], skip_bad=True)
    batches = [(batch.fingerprints.tolist(), batch.ids.tolist()) for batch in found if batch.ids is not None]
    assert batches == [(VALUES[:3], [0, 3, 6])]
    assert found.skipped == {"bad line": 4, "blank line": 2}
    assert found.seen.rows == 7
    texts = documents([path], text_column="hash")
    assert [text for _, text in texts] == [HEX[0], "", "", HEX[1], "", "wrong", HEX[2]]


def test_a_null_is_a_row_whoever_writes_the_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    pacsv.write_csv(pa.table({"hash": pa.array([5, None, 7], pa.uint64())}), path)
    assert rows(path, skip_bad=True) == ([5, 7], [0, 2], 1)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfhash\n" + HEX[1].encode())
    assert rows(tmp_path / "a.csv", fingerprint_column="hash")[0] == [VALUES[1]]


def test_quoted_csv_fields_may_hold_lines_and_errors_name_where_the_row_starts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'note,hash\n"two\nlines, ""here""",{HEX[1]}\n"x\ny",wrong\n')
    with pytest.raises(BadInput, match="line 4: found 'wrong'"):
        rows(tmp_path / "a.csv", fingerprint_column="hash")
    assert rows(tmp_path / "a.csv", fingerprint_column="hash", skip_bad=True)[0] == [VALUES[1]]
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


def test_a_quotation_mark_within_a_cell_is_nothing_special_in_tsv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\none "two"\n5" disk\n')
    for format in ("tsv", "tsv-plain", "tsv-quoted"):
        texts = documents([tmp_path / "a.tsv"], text_column="text", format=format)
        assert [text for _, text in texts] == ['one "two"', '5" disk']


# Tables of TSV with a cell that begins with a quotation mark: of two columns, id and text.
MARKED = {
    "a text": 'id\ttext\n1\tplain\n2\t"a ""b"" c"\n',
    "another column": 'id\ttext\tmore\n1\tplain\t5\n2\tplain\t"x"\n',
    "the header": '"id"\t"text"\n1\tplain\n',
    "a tab in a text": 'id\ttext\n1\t"a\tb"\n',
    "a line end in a text": 'id\ttext\n1\t"a\nb"\n',
    "no end": 'id\ttext\n1\t"a b c\n2\tplain\n',
}


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
def test_a_cell_of_tsv_that_begins_with_a_quotation_mark_is_refused_until_the_format_says_what_it_is(
    tmp_path: Path, text: str, skip_bad: bool
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"a\.tsv, line \d: found a cell that begins .*tsv-quoted.*tsv-plain"):
        list(documents([path], text_column="text", skip_bad=skip_bad))


def test_tsv_is_read_by_the_format_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('id\ttext\n1\t"a ""b"" c"\n2\t"d\te\nf"\n')
    assert [text for _, text in documents([path], text_column="text", format="tsv-quoted")] == ['a "b" c', "d\te\nf"]
    path.write_text('id\ttext\n1\t"a ""b"" c"\n2\t"d\n')
    assert [text for _, text in documents([path], text_column="text", format="tsv-plain")] == ['"a ""b"" c"', '"d']


def test_what_pandas_writes_with_tabs_is_read_as_it_was(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas, of the extra test-clients, is not installed")
    texts = ['says "yes"', "tab\tin it", "two\nlines", "plain", '"']
    pandas.DataFrame({"text": texts}).to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    with pytest.raises(BadInput, match="tsv-quoted"):
        list(documents([tmp_path / "a.tsv"], text_column="text"))
    found = documents([tmp_path / "a.tsv"], text_column="text", format="tsv-quoted")
    assert [text for _, text in found] == texts


# The first line of a file, its suffix, and what is said of it.
OTHER_MARKS = [
    (
        "id;text",
        "csv",
        "semicolons in it, expected commas between cells, or tabs .format tsv.: no format has semicolons",
    ),
    ("id\ttext", "csv", r"tabs in it, expected commas between cells; or format \(--format\) tsv"),
    ("id|text", "csv", "bars in it, expected commas between cells, or tabs .format tsv.: no format has bars"),
    ("id,text", "tsv", r"commas in it, expected tabs between cells; or format \(--format\) csv"),
    ("1;some text", "csv", "semicolons in it"),
    ("sep=;", "csv", "semicolons in it"),
]
ASKED: list[dict[str, Any]] = [{"text_column": "text"}, {"text_column": 0, "header": True}, {"text_column": 0}, {}]


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize(("first", "suffix", "message"), OTHER_MARKS)
def test_a_table_of_other_marks_between_its_cells_is_refused_as_such(
    tmp_path: Path, first: str, suffix: str, message: str, asked: dict[str, Any]
) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text(f"{first}\n7;one, two | three\n")
    with pytest.raises(BadInput, match=rf"a\.{suffix}, line 1: found one cell, with {message}"):
        list(read([path], **asked))


def test_a_single_column_of_texts_may_have_such_marks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("one; two\nthree | four\n")
    found = documents([tmp_path / "a.csv"], text_column=0, header=False)
    assert [text for _, text in found] == ["one; two", "three | four"]
    (tmp_path / "a.csv").write_text("this; that\none\n")
    assert [text for _, text in documents([tmp_path / "a.csv"], text_column="this; that")] == ["one"]


def test_a_text_column_becomes_fingerprints_by_the_recipe(table: Callable[..., Any]) -> None:
    path = table(["key", "body"], ["7", "the quick brown fox"], ["8", ""])
    recipe = Recipe("words", shingle=1)
    reader = read([path], text_column="body", id_column="key", recipe=recipe)
    assert reader.recipe == recipe
    (batch,) = reader
    assert batch.fingerprints.tolist() == recipe.fingerprint_many(["the quick brown fox", ""]).tolist()
    assert batch.ids.tolist() == [7, 8]


def test_a_text_longer_than_the_csv_module_allows_by_default_is_read(tmp_path: Path) -> None:
    text = "word " * 100_000
    assert len(text) > 131_072
    (tmp_path / "a.csv").write_text(text + "\n")
    assert [found for _, found in documents([tmp_path / "a.csv"], text_column=0, header=False)] == [text]
    assert csv.field_size_limit() >= len(text)


def test_a_large_table_is_read_in_groups_with_the_right_rows(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 2**64, 3000, dtype=np.uint64, endpoint=False).tolist()
    lines = [f"{row},{value:016x}" for row, value in enumerate(values)]
    (tmp_path / "a.csv").write_text("id,fingerprint\n" + "\n".join(lines))
    for ids in ("row", "column"):
        assert rows(tmp_path / "a.csv", ids=ids, batch=7) == (values, list(range(3000)), 0)


INTEGERS = [0, 5, 2**31]
SIGNED = [value - 2**64 if value >> 63 else value for value in VALUES]
BITS = [value.to_bytes(8, "big") for value in VALUES]
TYPES: list[tuple[Any, list[Any], list[int]]] = [
    (pa.uint64(), VALUES, VALUES),
    (pa.int64(), SIGNED, VALUES),
    (pa.uint32(), INTEGERS, INTEGERS),
    (pa.decimal128(20, 0), list(map(Decimal, VALUES)), VALUES),
    (pa.decimal128(38, 0), list(map(Decimal, SIGNED)), VALUES),
    (pa.string(), HEX, VALUES),
    (pa.large_string(), HEX, VALUES),
    (pa.string(), list(map(str, VALUES)), VALUES),
    (pa.string(), list(map(str, SIGNED)), VALUES),
    (pa.dictionary(pa.int8(), pa.string()), HEX, VALUES),
    (pa.dictionary(pa.int8(), pa.uint64()), VALUES, VALUES),
    (pa.binary(8), BITS, VALUES),
    (pa.binary(), BITS, VALUES),
    (pa.large_binary(), BITS, VALUES),
]


@pytest.mark.parametrize(("kind", "cells", "values"), TYPES, ids=str)
def test_parquet_columns_of_all_that_has_64_bits_are_read(
    tmp_path: Path, kind: Any, cells: list[Any], values: list[int]
) -> None:
    column = pa.array(cells, type=kind.value_type).dictionary_encode() if "dictionary" in str(kind) else None
    column = pa.array(cells, type=kind) if column is None else column
    ids = pa.array([7, 8, 9], type=pa.int16())
    pq.write_table(pa.table({"id": ids, "fingerprint": column}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet") == (values, [7, 8, 9], 0)
    assert rows(tmp_path / "a.parquet", ids="row") == (values, [0, 1, 2], 0)
    assert rows(tmp_path / "a.parquet", fingerprint_column=1, id_column=0, batch=2) == (values, [7, 8, 9], 0)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        (pa.float64(), [1.0]),
        (pa.float32(), [1.0]),
        (pa.bool_(), [True]),
        (pa.decimal128(20, 1), [Decimal(1)]),
        (pa.binary(16), [bytes(16)]),
        (pa.timestamp("s"), [5]),
        (pa.list_(pa.int64()), [[1]]),
    ],
    ids=str,
)
def test_a_parquet_column_of_another_type_is_refused_with_the_width_that_there_is(
    tmp_path: Path, kind: Any, cells: list[Any]
) -> None:
    pq.write_table(pa.table({"fingerprint": pa.array(cells, type=kind)}), tmp_path / "a.parquet")
    message = rf"column fingerprint: found {str(kind)[:4]}.*, expected fingerprints of 64 bits: integers"
    with pytest.raises(BadInput, match=message):
        rows(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.binary(2), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary(2))],
    ids=str,
)
def test_names_of_bytes_in_parquet_are_read_whatever_holds_them(tmp_path: Path, kind: Any) -> None:
    names = [b"\xff\0", b"ab", b"\0\0"]
    if pa.types.is_dictionary(kind):
        ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(names, pa.binary(2)))
    else:
        ids = pa.array(names, kind)
    pq.write_table(pa.table({"fingerprint": np.arange(3, dtype=np.uint64), "id": ids}), tmp_path / "a.parquet")
    found: list[Any] = list(rows(tmp_path / "a.parquet", id_type="bytes")[1])
    assert found == names
    with pytest.raises(BadInput, match=r"column id: found .*, expected integers or strings$"):
        rows(tmp_path / "a.parquet")
    pq.write_table(pa.table({"fingerprint": [1], "id": [1.5]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"column id: found double, expected integers, strings or bytes$"):
        rows(tmp_path / "a.parquet", id_type="bytes")


def test_ids_alone_are_read_from_a_column_or_from_all_there_is(tmp_path: Path) -> None:
    values = [7, 2**64 - 1]
    np.save(tmp_path / "a.npy", np.array(values, dtype=np.uint64))
    (tmp_path / "b.csv").write_text("hash,id\nx,7\ny,18446744073709551615\n")
    (tmp_path / "c.csv").write_text("7\n18446744073709551615\n")
    (tmp_path / "d.jsonl").write_text('{"id": 7}\n{"id": "18446744073709551615"}\n')
    pq.write_table(pa.table({"id": np.array(values, dtype=np.uint64), "x": ["a", "b"]}), tmp_path / "e.parquet")
    for path in sorted(tmp_path.iterdir()):
        assert [each for batch in read_ids([path]) for each in batch.fingerprints.tolist()] == values, path
    (tmp_path / "b.csv").write_text("hash,doc_id\nx,7\ny,z\n")
    with pytest.raises(BadInput, match=r"found columns hash, doc_id; expected one called id, or id_column"):
        next(read_ids([tmp_path / "b.csv"]))
    with pytest.raises(BadInput, match=r"line 3: found id 'z', expected a decimal number"):
        next(read_ids([tmp_path / "b.csv"], id_column="doc_id"))
    reader = read_ids([tmp_path / "b.csv"], id_column=1, header=True, skip_bad=True)
    assert (next(reader).fingerprints.tolist(), dict(reader.skipped)) == ([7], {"bad line": 1})
    (tmp_path / "f.hex").touch()
    with pytest.raises(ValueError, match=r"found format hex, expected one that can hold nothing but ids, or a table"):
        read_ids([tmp_path / "f.hex"])


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
    [([1, None, 3], "None"), (["0x1", "zz", "0x3"], "'zz'"), (["0x1", None, "0x3"], "None")],
)
def test_a_bad_parquet_row_is_named_or_counted(tmp_path: Path, cells: Any, found: str) -> None:
    pq.write_table(pa.table({"x": cells}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=rf"a\.parquet, row 1: found {found}, expected "):
        rows(tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", skip_bad=True) == ([1, 3], [0, 2], 1)


def test_a_bad_parquet_id_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "id": ["3", "x"]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a\.parquet, row 1: found id 'x', expected a decimal number"):
        rows(tmp_path / "a.parquet", fingerprint_column="x")


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ([1], {"text_column": "x"}, "column x: found int64, expected strings"),
        ([1], {"fingerprint_column": "y"}, "found columns x; expected one named y"),
        ([1], {"id_column": "y"}, "found columns x; expected one named y"),
        ([1], {"fingerprint_column": 1}, "found 1 column, expected at least 2"),
    ],
)
def test_a_parquet_column_that_will_not_do_is_refused(tmp_path: Path, cells: Any, options: Any, message: str) -> None:
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


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())], ids=str)
def test_texts_that_parquet_holds_as_bytes_are_decoded_as_files_are(tmp_path: Path, kind: Any) -> None:
    whole = ["Größe und Straße", "a second text"]
    cells = [whole[0].encode(), b"\xff\xfe" + whole[1].encode("utf-16-le"), b"\xc3", b"a\0b", None]
    column = pa.array(cells, pa.binary()).cast(kind)
    pq.write_table(pa.table({"body": column}), tmp_path / "a.parquet")
    named = documents([tmp_path / "a.parquet"], text_column="body", skip_bad=True)
    assert [text for _, text in named] == whole
    assert named.skipped == {"bad row": 3}
    with pytest.raises(BadInput, match=r"row 2: found bytes that are no UTF-8 \(at offset 0\), expected a text"):
        rows(tmp_path / "a.parquet", text_column="body")
    pages = pa.table({"body": pa.array([b"<p>one", b"<meta charset=latin-1><p>\xe9t\xe9"], pa.binary())})
    pq.write_table(pages, tmp_path / "b.parquet")
    cleaned = documents([tmp_path / "b.parquet"], text_column="body", html=True)
    assert [text for _, text in cleaned] == ["one", "été"]


def test_texts_within_structs_of_parquet_are_found_by_their_path(tmp_path: Path) -> None:
    pages = [{"meta": {"body": "one two three"}, "tags": ["a"]}, {"meta": None, "tags": []}, None]
    pq.write_table(pa.table({"page": pages, "page.flat": ["x", "y", "z"]}), tmp_path / "a.parquet")
    named = documents([tmp_path / "a.parquet"], text_column="page.meta.body", skip_bad=True)
    assert [text for _, text in named] == ["one two three"]
    assert sum(named.skipped.values()) == 2
    assert [text for _, text in documents([tmp_path / "a.parquet"], text_column="page.flat")] == ["x", "y", "z"]
    for column, message in (
        ("page.none", r"column page: found struct<.*, expected a struct with one field none"),
        ("page.tags", r"column page: found list<.*, expected strings"),
        ("page.tags.a", r"column page\.tags: found list<.*, expected a struct with one field a"),
        ("page.meta", r"column page: found struct<.*, expected strings"),
        ("none.body", r"found columns page, page\.flat; expected one named none"),
    ):
        with pytest.raises(BadInput, match=message):
            list(documents([tmp_path / "a.parquet"], text_column=column))


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


NARROW = [pa.int8(), pa.int16(), pa.int32(), pa.dictionary(pa.int8(), pa.int32())]


@pytest.mark.parametrize("kind", NARROW, ids=str)
@pytest.mark.parametrize("beside", [[], [None]], ids=["alone", "with a null"])
def test_a_narrow_integer_below_0_is_bad_beside_a_null_too(tmp_path: Path, kind: Any, beside: list[None]) -> None:
    column = pa.array([5, -1, *beside], pa.int32())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    pq.write_table(pa.table({"hash": column}), tmp_path / "a.parquet")
    message = "row 1: found {}-1, expected integers of 64 bits where some are below 0"
    with pytest.raises(BadInput, match=message.format("")):
        rows(tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", skip_bad=True) == ([5], [0], 1 + len(beside))
    ids = read_ids([tmp_path / "a.parquet"], id_column="hash", skip_bad=True)
    assert [batch.fingerprints.tolist() for batch in ids] == [[5]]
    with pytest.raises(BadInput, match=message.format("id ")):
        list(read_ids([tmp_path / "a.parquet"], id_column="hash"))


WIDE = [pa.int64(), pa.decimal128(20, 0), pa.decimal128(3, 0), pa.decimal256(40, 0)]


@pytest.mark.parametrize("kind", WIDE, ids=str)
@pytest.mark.parametrize("beside", [[], [None]], ids=["alone", "with a null"])
def test_an_integer_below_0_of_64_bits_or_of_no_width_is_its_bits_beside_a_null_too(
    tmp_path: Path, kind: Any, beside: list[None]
) -> None:
    pq.write_table(pa.table({"hash": pa.array([5, -1, *beside], kind)}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", skip_bad=True) == ([5, 2**64 - 1], [0, 1], len(beside))


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int32()], ids=str)
def test_an_integer_from_0_on_is_taken_beside_a_null_too(tmp_path: Path, kind: Any) -> None:
    values = [5, 200 if pa.types.is_unsigned_integer(kind) else 127]
    pq.write_table(pa.table({"hash": pa.array([*values, None], kind)}), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", skip_bad=True)[0] == values
