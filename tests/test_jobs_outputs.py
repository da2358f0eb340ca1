"""What jobs write: in the form that the name of the result asks for, and with all columns of what they read."""

import csv
import datetime
import gzip
import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from jobs_model import interrupt, lines_of, write_jsonl
from outcome import Command

from fpstore.inputs import BadInput
from fpstore.jobs import Inputs, cluster, components, corpus, dedup, document_pairs, packing, runs

SUFFIXES = ("jsonl", "ndjson", "csv", "tsv", "parquet")
TEXTS = ["a b c", "d, e\nf", "a b c", "", 'g "h"']
KEPT = [0, 1, 3, 4]


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
    return data


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a result by their columns, whatever its form."""
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    text = unpacked(path).decode()
    suffix = path.suffixes[0]
    if suffix in (".jsonl", ".ndjson"):
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="," if suffix == ".csv" else "\t"))


@pytest.fixture
def table() -> pa.Table:
    columns = {
        "id": pa.array(range(5), pa.uint64()),
        "text": pa.array(TEXTS),
        "date": pa.array([datetime.date(2020, 1, 1)] * 5),
        "price": pa.array([Decimal("1.50")] * 5),
        "list": pa.array([[1], None, [], [2, None], [3]], pa.list_(pa.int16())),
        "inner": pa.array([{"a": "x"}, None, {"a": None}, {"a": "y"}, {"a": "z"}]),
        "kind": pa.array(["p", "q", "p", None, "q"]).dictionary_encode(),
        "bytes": pa.array([b"\xff", None, b"", b"1", b"2"]),
    }
    return pa.table(columns, metadata={"made by": "somebody"})


def groups_of(path: Path) -> list[int]:
    """How many rows each row group of a Parquet file has."""
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 2)


# --- Kept documents ---


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("group_rows", [1, 3, 1 << 16])
def test_parquet_stays_the_same_parquet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: pa.Table, group_rows: int
) -> None:
    monkeypatch.setattr(packing, "GROUP_ROWS", group_rows)
    pq.write_table(table, tmp_path / "in.parquet")
    dedup(Inputs([tmp_path / "in.parquet"], text_column="text"), tmp_path / "kept.parquet")
    found = pq.read_table(tmp_path / "kept.parquet")
    assert found.schema.equals(table.schema)
    assert found.schema.metadata[b"made by"] == b"somebody"
    assert found.to_pylist() == table.take(KEPT).to_pylist()
    *full, last = groups_of(tmp_path / "kept.parquet")
    assert all(group_rows <= rows < group_rows + 2 for rows in full)  # whole batches, of two documents at most
    assert last < group_rows + 2


def test_parquet_without_rows_keeps_its_schema(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table.slice(0, 0), tmp_path / "in.parquet")
    assert dedup(Inputs([tmp_path / "in.parquet"], text_column="text"), tmp_path / "kept.parquet").documents == 0
    found = pq.read_table(tmp_path / "kept.parquet")
    assert (found.schema.equals(table.schema), found.num_rows) == (True, 0)


def test_parquet_becomes_objects_with_all_its_columns(tmp_path: Path, table: pa.Table) -> None:
    numbers = pa.array([1.5, float("nan"), 2.0, float("inf"), None])
    pq.write_table(table.drop_columns(["bytes"]).append_column("number", numbers), tmp_path / "in.parquet")
    given = Inputs([tmp_path / "in.parquet"], text_column="text")
    dedup(given, tmp_path / "kept.jsonl")
    first = {"id": 0, "text": "a b c", "date": "2020-01-01", "price": "1.50", "list": [1], "inner": {"a": "x"}}
    found = rows_of(tmp_path / "kept.jsonl")
    assert found[0] == first | {"kind": "p", "number": 1.5}
    assert [row["number"] for row in found] == [1.5, None, None, None]
    assert [row["id"] for row in found] == KEPT
    dedup(given, tmp_path / "kept.csv")
    cells = rows_of(tmp_path / "kept.csv")
    assert cells[0] == {
        "id": "0",
        "text": "a b c",
        "date": "2020-01-01",
        "price": "1.50",
        "list": "[1]",
        "inner": '{"a": "x"}',
        "kind": "p",
        "number": "1.5",
    }
    assert [row["text"] for row in cells] == [TEXTS[i] for i in KEPT]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zst"])
def test_csv_stays_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    header, rows = "id, text ,\u00e9\r\n", ['1,"a b c",x\r\n', '2,"d, e\nf", y\n', '1,"a b c",x\n', '3,"g ""h""",z']
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbf" + (header + "".join(rows)).encode())
    dedup(Inputs([tmp_path / "in.csv"], text_column="text"), tmp_path / f"kept.{suffix}")
    assert unpacked(tmp_path / f"kept.{suffix}") == (header + rows[0] + rows[1] + rows[3] + "\n").encode()


def test_tsv_stays_byte_for_byte(tmp_path: Path) -> None:
    lines = ["id\ttext\n", '1\ta "b\n', "2\tc d\n", '3\ta "b\n']
    (tmp_path / "in.tsv").write_text("".join(lines))
    dedup(Inputs([tmp_path / "in.tsv"], text_column="text"), tmp_path / "kept.tsv")
    assert (tmp_path / "kept.tsv").read_text() == "".join(lines[:3])


def test_tsv_with_quotation_marks_stays_so_and_is_read_by_them(tmp_path: Path) -> None:
    text = 'id\t"the ""text"""\n1\t"a b\tc"\n2\t"d ""e\nf"""\n3\tg h\n'
    (tmp_path / "in.tsv").write_text(text)
    given = Inputs([tmp_path / "in.tsv"], "tsv-quoted", text_column=1, header=True)
    dedup(given, tmp_path / "kept.tsv")
    assert (tmp_path / "kept.tsv").read_text() == text
    expected = [("1", "a b\tc"), ("2", 'd "e\nf"'), ("3", "g h")]
    for suffix in ("csv", "jsonl"):
        dedup(given, tmp_path / f"kept.{suffix}")
    assert [tuple(row.values()) for row in rows_of(tmp_path / "kept.csv")] == expected
    found = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [(row["id"], row['the "text"']) for row in found] == expected


def test_cells_that_are_added_to_tsv_with_quotation_marks_have_them_too(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text('id\ttext\n"1\t"\t"a b c"\n"2"\t"a b c"\n')
    given = Inputs([tmp_path / "in.tsv"], "tsv-quoted", text_column="text", id_column="id")
    dedup(given, tmp_path / "tagged.tsv", tag=True)
    assert (tmp_path / "tagged.tsv").read_text() == (
        "id\ttext\tkept\tduplicate_of\tdistance\tmeasure\n"
        '"1\t"\t"a b c"\ttrue\t\t\t\n"2"\t"a b c"\tfalse\t"1\t"\t0\t1.0\n'
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_blank_line_of_a_single_column_is_a_document_without_text_in_each_result(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"in.{suffix}").write_text("text\none two\n\nthree four\n")
    for result in (suffix, "jsonl", "parquet"):
        dedup(Inputs([tmp_path / f"in.{suffix}"], text_column="text"), tmp_path / f"kept.{result}")
    assert (tmp_path / f"kept.{suffix}").read_text() == "text\none two\n\nthree four\n"
    texts = ["one two", "", "three four"]
    assert [json.loads(line)["text"] for line in (tmp_path / "kept.jsonl").read_text().splitlines()] == texts
    assert pq.read_table(tmp_path / "kept.parquet")["text"].to_pylist() == texts


def test_a_table_without_a_header_stays_without_one_and_its_fields_have_numbers(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("7,a b c,\n8,d e f,more\n")
    given = Inputs([tmp_path / "in.csv"], text_column=1, header=False)
    dedup(given, tmp_path / "kept.csv")
    assert (tmp_path / "kept.csv").read_bytes() == (tmp_path / "in.csv").read_bytes()
    dedup(given, tmp_path / "kept.jsonl")
    expected = [{"0": "7", "1": "a b c", "2": ""}, {"0": "8", "1": "d e f", "2": "more"}]
    assert rows_of(tmp_path / "kept.jsonl") == expected


def test_csv_becomes_objects_and_parquet_of_texts(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,text,n\n1,"a, b",x\n2,"c\nd",y\n3,"a, b",z\n4,short,\n')
    given = Inputs([tmp_path / "in.csv"], text_column="text")
    kept = [("1", "a, b", "x"), ("2", "c\nd", "y"), ("4", "short", "")]
    rows = [dict(zip(("id", "text", "n"), row, strict=True)) for row in kept]
    dedup(given, tmp_path / "kept.jsonl")
    assert rows_of(tmp_path / "kept.jsonl") == rows
    dedup(given, tmp_path / "kept.parquet")
    assert rows_of(tmp_path / "kept.parquet") == rows
    assert set(map(str, pq.read_schema(tmp_path / "kept.parquet").types)) == {"string"}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("group_rows", [1, 2, 1 << 16])
def test_json_lines_become_tables_with_the_fields_that_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group_rows: int
) -> None:
    monkeypatch.setattr(packing, "GROUP_ROWS", group_rows)
    records: list[dict[str, Any]] = [
        {"text": "a b c", "n": 1, "deep": {"x": 1}},
        {"text": "d, e\nf", "more": [1]},
        {"n": 2.5, "text": "h", "deep": {"y": "z"}},
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in [*records, records[0]]))
    dedup([source], tmp_path / "kept.parquet")
    found = pq.read_table(tmp_path / "kept.parquet")
    assert found.column_names == ["text", "n", "deep", "more"]
    assert groups_of(tmp_path / "kept.parquet") == {1: [1, 1, 1], 2: [2, 1], 1 << 16: [3]}[group_rows]
    assert found.column("n").to_pylist() == [1.0, None, 2.5]
    assert found.column("deep").to_pylist() == [{"x": 1, "y": None}, None, {"x": None, "y": "z"}]
    dedup([source], tmp_path / "kept.csv")
    assert rows_of(tmp_path / "kept.csv")[1] == {"text": "d, e\nf", "n": "", "deep": "", "more": "[1]"}


def test_few_rows_and_bytes_of_json_lines_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "GROUP_ROWS", 3)
    monkeypatch.setattr(packing, "GROUP_BYTES", 100)
    short, long = b'{"a": 1}\n', b'{"a": "' + b"x" * 100 + b'"}\n'
    assert [len(group) for group in packing._groups(io.BytesIO(short * 7 + long * 2 + short))] == [3, 3, 2, 1, 1]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_files_have_a_name_and_a_text(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in (("a", "one, two\n"), ("b", "three"), ("c", "three")):
        (tmp_path / "docs" / f"{name}.txt").write_text(text)
    dedup([tmp_path / "docs"], tmp_path / f"kept.{suffix}")
    names = [str(tmp_path / "docs" / f"{name}.txt") for name in "ab"]
    expected = [{"name": names[0], "text": "one, two\n"}, {"name": names[1], "text": "three"}]
    assert rows_of(tmp_path / f"kept.{suffix}") == expected


def test_inputs_of_several_kinds_become_objects_each_with_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a b c\n")
    (tmp_path / "b.jsonl").write_text('{"text":"d e f" }\n')
    dedup(Inputs([tmp_path / "a.csv", tmp_path / "b.jsonl"], text_column="text"), tmp_path / "kept.jsonl.gz")
    assert unpacked(tmp_path / "kept.jsonl.gz") == b'{"id": "1", "text": "a b c"}\n{"text":"d e f" }\n'


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_of_every_kind_of_arrow_are_kept(tmp_path: Path, kind: Any, suffix: str) -> None:
    table = pa.table({"text": pa.array(["a b c", "a b c", "d e f"], kind), "n": [1, 2, 3]})
    pq.write_table(table, tmp_path / "in.parquet")
    dedup(Inputs([tmp_path / "in.parquet"], text_column="text"), tmp_path / f"kept.{suffix}")
    assert [row["text"] for row in rows_of(tmp_path / f"kept.{suffix}")] == ["a b c", "d e f"]
    if suffix == "parquet":
        assert pq.read_table(tmp_path / "kept.parquet").schema.equals(table.schema)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_no_documents_are_a_result_without_rows(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "in.csv").write_text("id,text\n")
    dedup(Inputs([tmp_path / "in.csv"], text_column="text"), tmp_path / f"kept.{suffix}")
    assert rows_of(tmp_path / f"kept.{suffix}") == []
    if suffix == "csv":
        assert (tmp_path / "kept.csv").read_text() == "id,text\n"
    if suffix == "parquet":
        assert pq.read_schema(tmp_path / "kept.parquet").names == ["id", "text"]
    (tmp_path / "empty.jsonl").write_text("")
    dedup([tmp_path / "empty.jsonl"], tmp_path / f"none.{suffix}")
    assert rows_of(tmp_path / f"none.{suffix}") == []


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_folder_without_files_is_a_result_without_rows(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "docs").mkdir()
    assert dedup([tmp_path / "docs"], tmp_path / f"kept.{suffix}").documents == 0
    assert rows_of(tmp_path / f"kept.{suffix}") == []
    if suffix == "parquet":
        assert pq.read_schema(tmp_path / "kept.parquet").names == ["name", "text"]


def test_tables_from_standard_input_keep_their_header(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for suffix in ("csv", "parquet"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"id,text\n1,a b c\n2,a b c\n")))
        dedup(Inputs(["-"], format="csv", text_column="text"), tmp_path / f"kept.{suffix}")
        assert rows_of(tmp_path / f"kept.{suffix}") == [{"id": "1", "text": "a b c"}]


# --- What a form cannot hold ---


def refused_inputs(folder: Path) -> dict[str, list[Path]]:
    (folder / "a.csv").write_text("id,text\n1,a\n")
    (folder / "b.csv").write_text("text,id\nb,1\n")
    (folder / "a.tsv").write_text("id\ttext\n1\ta\n")
    (folder / "twice.csv").write_text("id,id,text\n1,2,a\n")
    pq.write_table(pa.table({"text": ["a"], "n": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"text": ["a"], "n": ["1"]}), folder / "b.parquet")
    pq.write_table(pa.table({"text": ["a"], "n": [[b"1"]]}), folder / "bytes.parquet")
    (folder / "types.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "b", "n": "x"}\n')
    (folder / "inner.jsonl").write_text('{"text": "a", "n": [1]}\n{"text": "b", "n": ["x"]}\n')
    (folder / "large.jsonl").write_text(f'{{"text": "a", "n": {2**70}}}\n')
    (folder / "exact.jsonl").write_text(f'{{"text": "a", "n": {2**53 + 1}}}\n{{"text": "b", "n": 0.5}}\n')
    (folder / "half.jsonl").write_text('{"text": "a \\ud800"}\n')
    (folder / "nothing.jsonl").write_text('{"text": "a", "n": {}}\n')
    names = (
        "a.csv",
        "b.csv",
        "a.tsv",
        "twice.csv",
        "a.parquet",
        "b.parquet",
        "bytes.parquet",
        "types.jsonl",
    )
    more = ("inner.jsonl", "large.jsonl", "exact.jsonl", "half.jsonl", "nothing.jsonl")
    return {name: [folder / name] for name in (*names, *more)}


@pytest.mark.parametrize(
    ("names", "result", "message"),
    [
        ("a.csv b.csv", "kept.csv", r"found text, id in .*b\.csv, expected the columns of .*a\.csv"),
        ("a.csv b.csv", "kept.parquet", r"found text, id in .*b\.csv, expected the columns of .*a\.csv"),
        ("a.parquet b.parquet", "kept.parquet", r"found column n: string in .*b\.parquet, expected the columns of"),
        ("a.csv a.parquet", "kept.parquet", r"found csv \(.*a\.csv\) and parquet \(.*\), expected inputs of one kind"),
        ("a.csv types.jsonl", "kept.csv", "expected inputs of one kind; -o NAME.jsonl can hold any"),
        ("a.csv", "kept.tsv", "expected inputs that are TSV"),
        ("types.jsonl", "kept.tsv.gz", "expected inputs that are TSV"),
        ("twice.csv", "kept.jsonl", r"twice\.csv: found two columns id, expected names that differ"),
        ("twice.csv", "kept.parquet", "found two columns id, expected names that differ"),
        ("bytes.parquet", "kept.jsonl", r"column n: found list<.*binary>, expected text; or -o NAME.parquet"),
        ("bytes.parquet", "kept.csv", r"column n: found list<.*binary>, expected text"),
        (
            "types.jsonl",
            "kept.parquet",
            r"types\.jsonl:2, field n: found a text, and a number before it, expected values",
        ),
        (
            "large.jsonl",
            "kept.parquet",
            r"large\.jsonl:1, field n: found an integer beyond 64 bits, expected one of 64",
        ),
        (
            "exact.jsonl",
            "kept.parquet",
            r"exact\.jsonl:2, field n: found a number with a point .*, and an integer beyond",
        ),
        (
            "inner.jsonl",
            "kept.parquet",
            r"inner\.jsonl:2, field n\[\]: found .*, expected values of one type; write",
        ),
        ("half.jsonl", "kept.parquet", "half.jsonl:1: found half of a surrogate pair, expected text for kept.parquet"),
        ("half.jsonl", "kept.csv", "half.jsonl:1: found half of a surrogate pair, expected text for kept.csv"),
        ("nothing.jsonl", "kept.parquet", r"found what Parquet cannot hold \(.*\), expected other values"),
        ("a.csv", "kept.json", r"kept\.json: found suffix \.json, expected \.jsonl: a result has an object a line"),
        ("a.csv", "kept.JSON.zst", r"found suffix \.json, expected \.jsonl"),
        ("a.csv", "kept.txt", r"found suffix \.txt, expected one of \.jsonl"),
        ("a.csv", "kept.parquet.gz", r"found suffix \.parquet\.gz, expected one of"),
        ("a.csv", "kept.jsonl.bz2", r"found suffix \.bz2, expected one of"),
        ("a.csv", "-", "found the sign of standard output, expected the name of a file"),
    ],
)
def test_what_a_result_cannot_hold_is_refused(tmp_path: Path, names: str, result: str, message: str) -> None:
    inputs = refused_inputs(tmp_path)
    given = Inputs([path for name in names.split() for path in inputs[name]], text_column="text")
    with pytest.raises(ValueError, match=message):
        dedup(given, tmp_path / result)
    assert not (tmp_path / result).exists()


def test_columns_that_only_reading_tells_are_compared_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text,other\nb,2\n")))
    given = Inputs([tmp_path / "a.csv", "-"], format="csv", text_column="text")
    with pytest.raises(ValueError, match=r"found text, other in standard input, expected the columns of .*a\.csv"):
        dedup(given, tmp_path / "kept.csv")


# Values of one field, one after the other, of which the last has no place beside the others in a column.
APART: dict[str, list[object]] = {
    "text, number": ["x", 1],
    "number, text": [1, None, "x"],
    "list, text": [[1], "x"],
    "object, list": [{"a": 1}, [1]],
    "below 0, large": [1, -1, 2**63],
    "large, below 0": [2**63, 2**64 - 1, -1],
    "wide, fraction": [2**53 + 1, 0.5],
    "fraction, wide": [0.5, 1, -(2**53) - 1],
    "fraction, large": [0.5, 2**63],
    "true, number": [True, 1],
    "fraction, true": [0.5, True],  # Arrow would write 1.0
    "text, true": ["x", None, False],
    "true, list": [True, [1]],
    "list of numbers, list of texts": [[1], [], ["x"]],
    "object of number, object of true": [{"a": 1}, {"b": 1}, {"a": False}],
    "list of small, list of wide and fraction": [[[0.5]], [[1, 2, -(2**53) - 1, 3]]],
}
# Values of which the last has no place in a column at all.
TOO_LARGE: dict[str, list[object]] = {
    "beyond": [1, 2**64],
    "far beyond": [2**70],
    "below": [-(2**63) - 1],
    "beyond, in a list": [[1], [1, 2**64, 2]],
    "large, in an object": [{"a": [1]}, {"a": [2**63]}],
}
TOGETHER: dict[str, list[object]] = {
    "whole numbers": [1, None, -1, 2**63 - 1],
    "numbers": [1, 0.5, 2**53, -(2**53)],
    "texts": ["x", None, ""],
    "lists": [[1], [], None],
    "true": [True, None, False],
    "large": [2**63, 2**64 - 1],
    "small, then large": [1, None, 2**63],
    "64 bits": [-1, 2**63 - 1, -(2**63)],
    "lists of lists": [[[1], []], None, [[2**63 - 1, -1], None]],
    "lists of numbers": [[1, 2], [0.5]],
}


def values_of_n(path: Path, values: list[object]) -> Path:
    path.write_text("".join(json.dumps({"text": f"word{i} w{i}", "n": value}) + "\n" for i, value in enumerate(values)))
    return path


@pytest.mark.parametrize("values", APART.values(), ids=APART)
@pytest.mark.parametrize("group_rows", [1, 1000])
def test_the_first_row_that_parquet_cannot_hold_is_named_when_it_comes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: list[object], group_rows: int
) -> None:
    monkeypatch.setattr(packing, "GROUP_ROWS", group_rows)
    source = values_of_n(tmp_path / "in.jsonl", values)
    with pytest.raises(
        BadInput, match=rf"in\.jsonl:{len(values)}, field n[][.a]*: found .* before it, expected values of one"
    ):
        dedup([source], tmp_path / "kept.parquet", max_distance=0)
    with pytest.raises(BadInput), (tmp_path / "part").open("wb") as out, source.open("rb") as part:
        packing.parquet_of_json(None)(part, out)  # nor would it be held in the end
    dedup([source], tmp_path / "kept.jsonl", max_distance=0)


@pytest.mark.parametrize("values", TOO_LARGE.values(), ids=TOO_LARGE)
def test_an_integer_that_no_column_of_parquet_holds_is_named_when_it_comes(
    tmp_path: Path, values: list[object]
) -> None:
    source = values_of_n(tmp_path / "in.jsonl", values)
    with pytest.raises(BadInput, match=rf"in\.jsonl:{len(values)}, field n[][.a]*: found an integer .*, expected one"):
        dedup([source], tmp_path / "kept.parquet", max_distance=0)
    dedup([source], tmp_path / "kept.jsonl", max_distance=0)


@pytest.mark.parametrize("values", TOGETHER.values(), ids=TOGETHER)
@pytest.mark.parametrize("group_rows", [1, 1000])
def test_what_a_column_can_hold_together_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: list[object], group_rows: int
) -> None:
    monkeypatch.setattr(packing, "GROUP_ROWS", group_rows)
    dedup([values_of_n(tmp_path / "in.jsonl", values)], tmp_path / "kept.parquet", max_distance=0)
    assert [row["n"] for row in rows_of(tmp_path / "kept.parquet")] == values


def test_a_late_refusal_is_bad_input(tmp_path: Path) -> None:
    source = refused_inputs(tmp_path)["nothing.jsonl"]
    for _ in range(2):  # and the same again when the job goes on
        with pytest.raises(packing.NoColumn, match=r"kept\.parquet: found what Parquet cannot hold"):
            dedup(source, tmp_path / "kept.parquet")


NO_UTF8 = b"text,note\na b,fine\nc d,caf\xe9\ne f,fine\n"


@pytest.mark.parametrize("keep", ["first", "longest"])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_other_columns_are_never_decoded_by_guess(tmp_path: Path, name: str, suffix: str, keep: str) -> None:
    source, kept = tmp_path / name, tmp_path / f"kept.{suffix}"
    source.write_bytes(NO_UTF8.replace(b",", b"\t") if name == "in.tsv" else NO_UTF8)
    told = rf"{name}:3: found byte 0xe9 in a row that is no UTF-8, expected text; or -o NAME\.{name[3:]}"
    with pytest.raises(BadInput, match=told):
        dedup(Inputs([source], text_column="text"), kept, keep=keep)
    found = dedup(Inputs([source], text_column="text", skip_bad=True), kept, keep=keep)
    assert (found.documents, found.results, found.skipped) == (2, 2, {"bad row": 1})
    assert rows_of(kept) == [{"text": "a b", "note": "fine"}, {"text": "e f", "note": "fine"}]


def test_rows_that_were_passed_over_are_counted_once_whatever_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 1)
    source, kept = tmp_path / "in.csv", tmp_path / "kept.jsonl"
    source.write_bytes(NO_UTF8)
    given = Inputs([source], text_column="text", skip_bad=True)
    interrupt(monkeypatch, lambda: dedup(given, kept), 2)
    found = dedup(given, kept)
    assert (found.documents, found.skipped) == (2, {"bad row": 1})


def test_bytes_that_are_no_text_stay_in_the_format_they_came_in(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(NO_UTF8)
    dedup(Inputs([tmp_path / "in.csv"], text_column="text"), tmp_path / "kept.csv")
    assert (tmp_path / "kept.csv").read_bytes() == NO_UTF8


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_cell_more_takes_the_place_of_no_column(tmp_path: Path, suffix: str) -> None:
    source, kept = tmp_path / "in.csv", tmp_path / f"kept.{suffix}"
    source.write_bytes(b"2,text\n1,a,9\n3,b\n")
    with pytest.raises(BadInput, match="line 2: found 3 cells"):
        dedup(Inputs([source], text_column="text"), kept)
    assert dedup(Inputs([source], text_column="text", skip_bad=True), kept, force=True).documents == 1


# --- Other results ---


@pytest.mark.parametrize("suffix", [*SUFFIXES, "csv.gz", "jsonl.zst", "tsv.gz"])
@pytest.mark.parametrize("name", ["dropped", "confirmed", "cluster", "components", "pairs"])
def test_lines_go_by_the_suffix(tmp_path: Path, name: str, suffix: str) -> None:
    source = write_jsonl(tmp_path / 'a,"b.jsonl', ["a b c", "x y z", "a b c"])
    first, third = f"{source}:1", f"{source}:3"
    out = tmp_path / f"out.{suffix}"
    if name in ("dropped", "confirmed"):
        confirm = "jaccard>=0.5" if name == "confirmed" else None
        dedup([source], tmp_path / "kept", dropped=out, confirm=confirm)
        expected = [{"name": third, "kept": first, "distance": 0} | ({"measure": 1.0} if confirm else {})]
    elif name == "pairs":
        document_pairs([source], out)
        expected = [{"first": first, "second": third, "distance": 0}]
    else:
        cluster([source], out) if name == "cluster" else components([source], out)
        numbered = [(0, first), (1, f"{source}:2"), (0, third)]
        expected = [{"cluster": number, "name": each, "distance": 0} for number, each in numbered]
    if suffix.startswith("tsv"):
        told = [
            [f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()] for row in expected
        ]
        assert [line.split("\t") for line in unpacked(out).decode().splitlines()] == told
    elif suffix.startswith("csv"):
        told_rows = [{k: f"{v:.4f}" if isinstance(v, float) else str(v) for k, v in row.items()} for row in expected]
        assert rows_of(out) == told_rows
    else:
        kind = {"confirmed": "dropped", "components": "cluster", "pairs": "document-pairs"}.get(name, name)
        says = {} if suffix == "parquet" else {"format": f"fpstore.{kind}/1"}
        assert rows_of(out) == [{**says, **row} for row in expected]


def test_names_that_are_no_utf8_are_written_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    Path(f"{folder}/\udcff.txt").write_text("a b c")
    cluster([folder], tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == b"cluster,name,distance\n0," + bytes(folder) + b"/\xff.txt,0\n"


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "tsv.gz"])
def test_results_of_empty_inputs_have_no_rows(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "in.jsonl").write_text("")
    for name, work in (("cluster", cluster), ("components", components), ("pairs", document_pairs)):
        work([tmp_path / "in.jsonl"], tmp_path / f"{name}.{suffix}")
        assert rows_of(tmp_path / f"{name}.{suffix}") == []


# --- Interruptions ---


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["jsonl.gz", "jsonl.zst", "csv", "csv.zst", "parquet"])
@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_an_interrupted_job_writes_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format: str, suffix: str, after: int
) -> None:
    source = tmp_path / f"in.{format}"
    if format == "jsonl":
        write_jsonl(source, TEXTS)
    elif format == "csv":
        with source.open("w", newline="") as out:
            csv.writer(out).writerows([["id", "text"], *enumerate(TEXTS)])
    else:
        pq.write_table(pa.table({"id": range(5), "text": TEXTS}), source)
    given = Inputs([source], text_column="text")

    def work(name: str) -> Any:
        return dedup(given, tmp_path / f"{name}.{suffix}", dropped=tmp_path / f"{name}-dropped.{suffix}")

    work("whole")
    interrupt(monkeypatch, lambda: work("out"), after)
    work("out")
    for part in ("", "-dropped"):
        found, expected = (tmp_path / f"{name}{part}.{suffix}" for name in ("out", "whole"))
        if part:
            assert len(rows_of(found)) == 1
        else:
            assert found.read_bytes() == expected.read_bytes()


# --- The command line ---


def test_standard_output_gets_the_kept_documents(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fpstore.cli import main

    source = write_jsonl(tmp_path / "in.jsonl", ["a b c", "d e f", "a b c"])
    monkeypatch.chdir(tmp_path)
    for arguments, count in (
        (["dedup", "-o", "-"], 2),
        (["cluster", "-o", "-"], 3),
        (["document-pairs", "-o", "-"], 1),
    ):
        assert main([*arguments, str(source)]) == 0
        printed = capfdbinary.readouterr()
        assert len(printed.out.splitlines()) == count
        assert b"fpstore: 3 documents, " in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "-", "--store", "s.fpstore"), "found both, expected a file"),
        (("-o", "kept.jsonl", "--dropped", "-"), "expected a file; only KEPT can be standard output"),
    ],
)
def test_what_has_to_go_on_is_no_standard_output(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c"])
    outcome = command("dedup", source, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert message in outcome.err


def test_a_suffix_that_is_not_known_is_the_command_lines_fault(command: Command, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c"])
    for arguments in (["dedup", "-o"], ["cluster", "-o"], ["document-pairs", "-o"]):
        outcome = command(*arguments, tmp_path / "out.txt", source)
        assert outcome.status == 2
        assert "found suffix .txt, expected one of .jsonl, .ndjson, .csv, .tsv, .parquet" in outcome.err
    assert command("dedup", source, "-o", tmp_path / "kept", "--dropped", tmp_path / "x.xml").status == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_empty_inputs_are_said_to_be(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("")
    outcome = command("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "kept.jsonl")
    assert (
        outcome.err == f"{tmp_path / 'kept.jsonl'}: 0 documents, kept 0, dropped 0, refused matches 0, passed over 0\n"
    )
    outcome = command("cluster", tmp_path / "in.jsonl", "-o", tmp_path / "out.tsv")
    assert outcome.err == f"{tmp_path / 'out.tsv'}: 0 documents, clusters 0, refused matches 0, passed over 0\n"
    assert lines_of(tmp_path / "kept.jsonl") == []


def test_a_folder_of_texts_beside_a_table_whose_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one text of its own")
    (tmp_path / "t.csv").write_text("id,body\n1,another text\n2,one text of its own\n")
    sources = Inputs([tmp_path / "texts", tmp_path / "t.csv"], text_column="body")
    found = dedup(sources, tmp_path / "k.jsonl", max_distance=0)
    assert (found.documents, found.results) == (3, 2)
    assert [row.get("id", row.get("name")) for row in rows_of(tmp_path / "k.jsonl")] == [
        str(tmp_path / "texts" / "a.txt"),
        "1",
    ]
