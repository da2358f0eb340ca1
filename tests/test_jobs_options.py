"""What documents are called, which of a group is kept, what is added to each, and what is said at the end."""

import json
import re
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs_model import interrupt, lines_of
from outcome import Command

import fpstore
from fpstore.inputs import BadInput, documents
from fpstore.jobs import Inputs, cluster, corpus, dedup, document_pairs, runs
from fpstore.jobs.keep import NONE, NUMBER, RANK, TEXT, Keep, _parts, value_of

SAME = "one two three four five six seven"
OTHER = "another text that has nothing in common with these"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as JSON lines, CSV or Parquet, as the suffix says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        names = list(rows[0])
        cells = [[("" if row.get(name) is None else str(row[name])) for name in names] for row in rows]
        path.write_text("".join(",".join(line) + "\n" for line in [names, *cells]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def kept_of(source: Path, keep: str) -> list[str]:
    """The ids of what is kept."""
    out = source.with_name("kept.jsonl")
    dedup(Inputs([source], text_column="text"), out, keep=keep, force=True)
    return [str(json.loads(line)["id"]) for line in lines_of(out)]


# --- Which is kept ---


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([1, 3, 2], "1", "0"),
        ([9, 10, -1], "1", "2"),
        ([2.5, 2.5, 2.5], "0", "0"),
        ([None, 5, None], "1", "1"),
        ([None, None, None], "0", "0"),
        ([2**53, 2**53 + 1, 2**53 + 1], "1", "0"),
        ([2**63 - 2, 2**63 - 1, 2**63 - 3], "1", "2"),
        (["2024-05-31", "2024-10-01", "2023-12-31"], "1", "2"),
        (["b", "a", "a"], "0", "1"),
        (["\u00e9", "z", "a"], "0", "2"),
    ],
)
def test_of_equal_documents_that_with_the_largest_or_smallest_value_is_kept(
    tmp_path: Path, suffix: str, values: list[Any], largest: str, smallest: str
) -> None:
    rows = [{"id": number, "text": SAME, "value": value} for number, value in enumerate(values)]
    source = write_rows(tmp_path / f"in{suffix}", rows)
    assert kept_of(source, "max:value") == [largest]
    assert kept_of(source, "min:value") == [smallest]
    assert kept_of(source, "first") == ["0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime(2024, 5, 31, 10), datetime(2024, 5, 31, 10, 0, 0, 5), datetime(2023, 1, 1)]),
        pa.array([date(2024, 5, 30), date(2024, 5, 31), None]),
        pa.array([Decimal("1.10"), Decimal("1.2"), Decimal("0.3")]),
        pa.array([float("nan"), 0.5, None]),
        pa.array([float("inf"), 0.5, float("-inf")]).take(pa.array([1, 0, 2])),
    ],
)
def test_values_of_parquet_are_numbers_or_texts_in_order(tmp_path: Path, column: pa.Array) -> None:
    table = pa.table({"id": ["0", "1", "2"], "text": [SAME] * 3, "value": column})
    pq.write_table(table, tmp_path / "in.parquet")
    assert kept_of(tmp_path / "in.parquet", "max:value") == ["1"]


@pytest.mark.slow
def test_a_field_may_be_a_path_and_a_column_a_number(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "text": SAME, "page": {"rank": rank}} for n, rank in enumerate((1, 7, 3))]
    for suffix in (".jsonl", ".parquet"):
        assert kept_of(write_rows(tmp_path / f"path{suffix}", rows), "max:page.rank") == ["1"]
    rows = [{"id": n, "text": SAME, "rank": rank} for n, rank in enumerate((1, 7, 3))]
    for suffix in (".csv", ".parquet"):
        assert kept_of(write_rows(tmp_path / f"number{suffix}", rows), "max:2") == ["1"]


@pytest.mark.parametrize(
    ("value", "of_table", "expected"),
    [
        ("10", True, Decimal(10)),
        (" -1.5e3 ", True, Decimal(-1500)),
        (".5", True, Decimal("0.5")),
        ("1e99999", True, "1e99999"),
        ("0x10", True, "0x10"),
        ("", True, None),
        (" ", True, None),
        ("NaN", True, None),
        ("10", False, "10"),
        ("", False, ""),
        (True, False, None),
        (None, False, None),
        ([1], False, None),
        ({}, False, None),
        (b"x", False, None),
        (float("nan"), False, None),
        (Decimal("NaN"), False, None),
        (2, False, 2),
        (date(2024, 5, 31), False, "2024-05-31"),
    ],
)
def test_what_is_a_value(value: object, of_table: bool, expected: object) -> None:
    found = value_of(value, of_table=of_table)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.none(), st.integers(2**60, 2**60 + 9), st.integers(), st.floats(-1e300, 1e300)), max_size=9)
)
def test_numbers_are_put_in_order_as_python_compares_them(values: list[Any]) -> None:
    rows = [(NONE, 0.0, 0.0, 0) if value is None else (NUMBER, *_parts(value), 0) for value in values]
    ranks = np.array(rows, dtype=RANK)
    for by in ("max", "min"):
        found = Keep(by, "f").order(ranks, memoryview(b"")).tolist()
        having = [i for i, value in enumerate(values) if value is not None]
        expected = sorted(having, key=lambda i: values[i], reverse=by == "max")
        assert found == expected + [i for i, value in enumerate(values) if value is None]


def test_a_number_beyond_all_floats_is_the_largest() -> None:
    assert _parts(10**400) == (float("inf"), 0.0)
    assert _parts(-(10**400)) == (float("-inf"), 0.0)


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=9))
def test_texts_are_put_in_order_by_their_characters(values: list[str | None]) -> None:
    held, rows = b"", list[tuple[int, float, float, int]]()
    for value in values:
        held += (value or "").encode("utf-8", "surrogatepass")
        rows.append((NONE if value is None else TEXT, 0.0, 0.0, len(held)))
    for by in ("max", "min"):
        found = Keep(by, "f").order(np.array(rows, dtype=RANK), memoryview(held)).tolist()
        if not any(value is not None for value in values):
            assert found == list(range(len(values)))
            continue
        having = [i for i, value in enumerate(values) if value is not None]
        expected = sorted(having, key=lambda i: values[i] or "", reverse=by == "max")
        assert found == expected + [i for i, value in enumerate(values) if value is None]


@pytest.mark.parametrize("typed", ["last", "", "max", "max:", "first:x", "longest:", ":x", None, 3])
def test_what_says_nothing_of_which_is_kept_is_refused(tmp_path: Path, typed: Any) -> None:
    with pytest.raises(ValueError, match=r"^keep: found .*, expected first, longest, max:FIELD or min:FIELD"):
        dedup([tmp_path], tmp_path / "kept", keep=typed)


@pytest.mark.parametrize(("first", "second", "found"), [(1, "x", "a text"), ("x", 1.5, "a number")])
def test_numbers_and_texts_are_not_compared(tmp_path: Path, first: Any, second: Any, found: str) -> None:
    rows = [{"id": n, "text": SAME, "v": v} for n, v in enumerate((None, first, first, None, second))]
    source = write_rows(tmp_path / "in.jsonl", rows)
    other = "a number" if found == "a text" else "a text"
    with pytest.raises(BadInput, match=f"in.jsonl:5: found {found} in v, after {other} in the documents before"):
        dedup([source], tmp_path / "kept", keep="max:v")


def test_a_table_without_the_column_and_a_whole_file_are_refused(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.csv", [{"id": 1, "text": SAME}])
    with pytest.raises(BadInput, match=r"in.csv:2: found columns id, text; expected one column v \(--keep\)"):
        dedup(Inputs([source], text_column="text"), tmp_path / "kept", keep="max:v")
    (tmp_path / "in.txt").write_text(SAME)
    with pytest.raises(BadInput, match=r"in.txt: found a document that is a whole file or page, expected one column v"):
        dedup([tmp_path / "in.txt"], tmp_path / "kept2", keep="min:v")
    with pytest.raises(ValueError, match="standard input: found keep max:v, which reads the inputs twice"):
        dedup(Inputs(["-"], format="jsonl"), tmp_path / "kept3", keep="max:v")


def test_a_field_of_json_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    for line, found in (
        (f'{{"text": "{SAME}", "v": 1, "v": 2}}', "field v twice, expected it once"),
        (f'{{"text": "{SAME}", "a.b": 1, "a": {{"b": 2}}}}', "a.b as a field, and as a path to one, expected one"),
    ):
        source.write_text(line)
        with pytest.raises(BadInput, match=f"in.jsonl:1: found {found}"):
            dedup([source], tmp_path / "kept", keep=f"max:{'v' if 'twice' in found else 'a.b'}")


def test_documents_without_a_value_are_counted_and_said(command: Command, tmp_path: Path) -> None:
    rows = [{"text": f"{n} {OTHER * n}", "v": v} for n, v in enumerate((None, 1, None))]
    source = write_rows(tmp_path / "in.jsonl", rows)
    outcome = command("dedup", source, "-o", tmp_path / "kept", "--keep", "max:v", "--summary", tmp_path / "s.json")
    assert "fpstore: 2 documents without a value for --keep max:v: they come last" in outcome.err
    assert json.loads((tmp_path / "s.json").read_text())["without_value"] == 2


def test_a_field_that_no_document_has_is_refused(command: Command, tmp_path: Path) -> None:
    rows = [{"text": f"{n} {OTHER * n}", "value": n, "page": {"date": n}} for n in range(3)]
    source, kept = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "kept"
    for field in ("v", "page.v", "value.v"):
        told = f"found no field {field} in any of 3 documents, expected one at least that has it (--keep)"
        for _ in range(2):  # as the job that it leaves says again
            outcome = command("dedup", source, "-o", kept, "--keep", f"max:{field}")
            assert outcome.status == 1
            assert told in outcome.err
            assert not kept.exists()
        with pytest.raises(BadInput, match=f"no field {field} in any of 3 documents"):
            dedup([source], kept, keep=f"min:{field}", force=True, workers=2)
        shutil.rmtree(tmp_path / "kept.job")
    assert "kept 3" in command("dedup", source, "-o", kept, "--keep", "max:page.date").err
    # One that has it will do, with no value too; where there are no documents nobody has mistyped anything.
    write_rows(source, [*rows, {"text": OTHER, "v": None}])
    assert dedup([source], kept, keep="max:v", force=True).without_value == 4
    source.write_text("")
    assert dedup([source], kept, keep="max:v", force=True).results == 0


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_texts_that_read_as_numbers_in_another_order_are_refused(command: Command, tmp_path: Path, suffix: str) -> None:
    def written(*values: str | None) -> Path:
        rows = [{"id": n, "text": SAME, "v": value} for n, value in enumerate(values)]
        return write_rows(tmp_path / f"in{suffix}", rows)

    more = ["--text-column", "text"] if suffix == ".parquet" else []
    of_two_orders: list[tuple[str | None, ...]] = [("1000", "999"), ("0.9", "-1.5", ".95", "1e-3", None), (" 10", "9 ")]
    for values in of_two_orders:
        told = f'found texts that all read as numbers in v, such as "{values[0]}", "{values[1]}"'
        for keep in ("max:v", "min:v"):
            for _ in range(2):  # as the job that it leaves says again
                outcome = command("dedup", written(*values), "-o", tmp_path / "kept", "--keep", keep, *more)
                assert outcome.status == 1
                assert told in outcome.err
                assert "which have two orders; expected numbers" in outcome.err
                assert "remove it, as the same command would meet the same values" in outcome.err
                assert not (tmp_path / "kept").exists()
            shutil.rmtree(tmp_path / "kept.job")
    # One text that is no number makes texts of all, and with one order of both there is nothing to ask.
    assert kept_of(written("1000", "999", "n/a"), "max:v") == ["2"]
    assert kept_of(written("0999", "1000"), "max:v") == ["1"]
    assert kept_of(written("20240101", "20231231"), "max:v") == ["0"]


def test_a_field_of_a_struct_that_no_document_has_is_refused(tmp_path: Path) -> None:
    inputs = Inputs([tmp_path / "in.parquet"], text_column="text")
    dates = pa.struct([("date", pa.int64())])
    for pages, without in (([{"date": 1}, None], 1), ([None, None], 2)):
        pages = pa.array(pages, type=pa.struct([("of", dates), *dates]))
        pq.write_table(pa.table({"text": [OTHER, SAME], "page": pages}), tmp_path / "in.parquet")
        for field in ("page.dates", "page.of.dates", "page.date.of", "text.of"):
            told = rf"in.parquet:0: found columns text, page; expected one column {field} \(--keep\)"
            with pytest.raises(BadInput, match=told):
                dedup(inputs, tmp_path / "kept.jsonl", keep=f"max:{field}", force=True)
        assert dedup(inputs, tmp_path / "kept.jsonl", keep="max:page.date", force=True).without_value == without


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["max:v", "min:t"])
@pytest.mark.parametrize("after", range(1, 9))
def test_a_job_that_keeps_by_a_field_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep: str, after: int
) -> None:
    rows = [{"text": [SAME, OTHER][n % 2], "v": 7 * n % 5 or None, "t": "cab"[n % 3]} for n in range(11)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    arguments: dict[str, Any] = {"keep": keep, "tag": True}
    dedup([source], tmp_path / "expected.jsonl", **arguments)
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "kept.jsonl", **arguments), after)
    found = dedup([source], tmp_path / "kept.jsonl", **arguments)
    assert (tmp_path / "kept.jsonl").read_bytes() == (tmp_path / "expected.jsonl").read_bytes()
    assert found.without_value == (3 if keep == "max:v" else 0)


# --- What is added ---


def test_tags_say_what_became_of_each_document(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    lines = [f'{{"text": "{SAME}", "n": 1.50}}', f'{{ "text":"{OTHER}" }} ', f'{{"text": "{SAME}"}}']
    source.write_text("\n".join(lines))
    dedup([source], tmp_path / "out.jsonl", tag=True, confirm=None)
    assert lines_of(tmp_path / "out.jsonl") == [
        f'{{"text": "{SAME}", "n": 1.50, "kept": true, "duplicate_of": null, "distance": null}}',
        f'{{ "text":"{OTHER}", "kept": true, "duplicate_of": null, "distance": null}}',
        f'{{"text": "{SAME}", "kept": false, "duplicate_of": "{source}:1", "distance": 0}}',
    ]


def test_tags_of_csv_stand_behind_lines_that_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(f'"text",b\r\n"{SAME}","x,\r\ny"\r\n{SAME},\r\n"{OTHER}",z'.encode())
    sources = Inputs([tmp_path / "in.csv"], text_column="text")
    dedup(sources, tmp_path / "out.csv", tag=True, confirm=None)
    assert (tmp_path / "out.csv").read_bytes() == (
        f'"text",b,kept,duplicate_of,distance\r\n"{SAME}","x,\r\ny",true,,\r\n'
        f'{SAME},,false,{tmp_path / "in.csv"}:2,0\r\n"{OTHER}",z,true,,\n'
    ).encode()
    (tmp_path / "bare.csv").write_text(f"{SAME},1\n{SAME},2\n")
    dedup(
        Inputs([tmp_path / "bare.csv"], text_column=0, header=False), tmp_path / "bare-out.csv", tag=True, confirm=None
    )
    assert lines_of(tmp_path / "bare-out.csv")[1] == f"{SAME},2,false,{tmp_path / 'bare.csv'}:1,0"


def test_tags_of_parquet_are_columns_behind_its_schema(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.string()), ("raw", pa.binary()), ("kind", pa.dictionary(pa.int8(), pa.string()))])
    rows = [{"text": [SAME, OTHER][n % 2], "raw": b"\xff", "kind": "xy"[n % 2]} for n in range(8)]
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "in.parquet", row_group_size=3)
    options: dict[str, Any] = {"tag": True, "confirm": "jaccard>=0.5"}
    dedup(Inputs([tmp_path / "in.parquet"], text_column="text"), tmp_path / "out.parquet", **options)
    table = pq.read_table(tmp_path / "out.parquet")
    added = [("kept", pa.bool_()), ("duplicate_of", pa.string()), ("distance", pa.uint16()), ("measure", pa.float64())]
    assert table.schema == pa.schema([*schema, *(pa.field(*each) for each in added)])
    assert table.select(["text", "raw", "kind"]).to_pylist() == rows
    assert table["kept"].to_pylist() == [True] * 2 + [False] * 6
    assert table["measure"].to_pylist() == [None] * 2 + [1.0] * 6


def test_what_has_a_field_of_that_name_is_refused(tmp_path: Path) -> None:
    for number, name in enumerate(("kept", "k\\u0065pt")):
        source = tmp_path / f"in{number}.jsonl"
        source.write_text(f'{{"text": "kept"}}\n{{"text": "{SAME}", "{name}": 1}}\n')
        with pytest.raises(BadInput, match=f"{source.name}:2: found a field kept, expected none of that name"):
            dedup([source], tmp_path / f"out{number}.jsonl", tag=True)
    source = write_rows(tmp_path / "in.csv", [{"text": SAME, "distance": 1}])
    with pytest.raises(ValueError, match=r"in.csv: found a column distance, expected none of that name"):
        dedup(Inputs([source], text_column="text"), tmp_path / "out.csv", tag=True)


def test_empty_objects_and_tables_take_tags(tmp_path: Path) -> None:
    from fpstore.jobs.adding import json_with

    assert json_with("here", b"{ }\n", {"kept": True}) == b'{"kept": true}\n'
    (tmp_path / "in.csv").write_text("text,b\n")
    dedup(Inputs([tmp_path / "in.csv"], text_column="text"), tmp_path / "out.csv", tag=True, confirm=None)
    assert lines_of(tmp_path / "out.csv") == ["text,b,kept,duplicate_of,distance"]


# --- What documents are called ---


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_column_names_the_documents_in_every_result(tmp_path: Path, suffix: str) -> None:
    rows = [{"url": f"http://x/{n}", "text": text} for n, text in enumerate((SAME, OTHER, SAME))]
    source = write_rows(tmp_path / f"in{suffix}", rows)
    sources = Inputs([source], text_column="text", id_column="url")
    dedup(sources, tmp_path / "kept", dropped=tmp_path / "dropped", store=tmp_path / "s.fpstore")
    assert lines_of(tmp_path / "dropped") == ["http://x/2\thttp://x/0\t0\t1.0000"]
    cluster(sources, tmp_path / "clusters")
    assert [line.split("\t")[1] for line in lines_of(tmp_path / "clusters")] == [row["url"] for row in rows]
    document_pairs(sources, tmp_path / "pairs")
    assert lines_of(tmp_path / "pairs") == ["http://x/0\thttp://x/2\t0"]
    again = write_rows(tmp_path / "tomorrow.jsonl", [{"url": "http://y", "text": SAME}])
    sources = Inputs([again], id_column="url")
    dedup(sources, tmp_path / "kept2", dropped=tmp_path / "dropped2", store=tmp_path / "s.fpstore")
    assert lines_of(tmp_path / "dropped2") == ["http://y\thttp://x/0\t0\t1.0000"]


def test_a_whole_number_is_a_name_and_a_field_may_be_a_path(tmp_path: Path) -> None:
    rows = [{"meta": {"id": 2**64 - 1 - n}, "text": SAME} for n in range(2)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    found = [name for name, _ in documents([source], id_column="meta.id")]
    assert found == [str(2**64 - 1), str(2**64 - 2)]


@pytest.mark.parametrize("value", [None, "", True, 1.5, [], {}, "x" * 10_001])
def test_what_is_no_name_is_a_bad_row(command: Command, tmp_path: Path, value: Any) -> None:
    rows = [{"url": "a", "text": SAME}, {"url": value, "text": SAME}, {"text": SAME}, {"url": "b", "text": SAME}]
    source = write_rows(tmp_path / "in.jsonl", rows)
    with pytest.raises(BadInput, match=r"in.jsonl, line 2: found (no )?id.* in url \(--id-column\)"):
        dedup(Inputs([source], id_column="url"), tmp_path / "kept")
    arguments = ("-o", tmp_path / "kept", "--dropped", tmp_path / "dropped", "--id-column", "url", "--skip-bad")
    outcome = command("dedup", source, *arguments)
    assert "fpstore: passed over: 2 bad lines" in outcome.err
    assert [line.split("\t")[:2] for line in lines_of(tmp_path / "dropped")] == [["b", "a"]]


def test_a_column_of_names_that_no_input_can_have_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text(OTHER)
    with pytest.raises(ValueError, match=r"folder.*: found id_column 'url' \(--id-column\), expected none for format"):
        dedup(Inputs([folder], id_column="url"), tmp_path / "kept")
    source = write_rows(tmp_path / "in.jsonl", [{"url": "u", "text": SAME}])
    with pytest.raises(ValueError, match="found a column number as id_column, expected the name of a field"):
        dedup(Inputs([source], id_column=1), tmp_path / "kept")
    with pytest.raises(ValueError, match="id_column: found -1, expected a name or a number from 0"):
        dedup(Inputs([source], id_column=-1), tmp_path / "kept")
    table = write_rows(tmp_path / "in.csv", [{"text": SAME}])
    with pytest.raises(BadInput, match="found columns text; expected one column url"):
        dedup(Inputs([table], text_column="text", id_column="url"), tmp_path / "kept")
    # Whole files beside tables keep their names.
    sources = Inputs([source, folder], id_column="url", text_column="text")
    cluster(sources, tmp_path / "clusters")
    assert [line.split("\t")[1] for line in lines_of(tmp_path / "clusters")] == ["u", str(folder / "a.txt")]


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_job_with_names_of_a_column_goes_on_behind_bad_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: int
) -> None:
    rows = [{"url": None if n % 4 == 1 else f"u{n}", "text": f"{SAME} {n % 3}" * 3} for n in range(14)]
    source = write_rows(tmp_path / "in.jsonl", rows)
    sources = Inputs([source], id_column="url", skip_bad=True)
    expected = cluster(sources, tmp_path / "expected")
    interrupt(monkeypatch, lambda: cluster(sources, tmp_path / "out"), after)
    found = cluster(sources, tmp_path / "out")
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "expected")
    assert found.skipped == expected.skipped == {"bad line": 4}
    interrupt(monkeypatch, lambda: cluster(sources, tmp_path / "out2"), 1)
    with pytest.raises(ValueError, match="found id_column None, that job has 'url'"):
        cluster(Inputs([source], skip_bad=True), tmp_path / "out2")


# --- What is said at the end ---


def test_a_summary_has_all_counts(command: Command, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"text": SAME}, {"text": OTHER}, {"text": SAME}, {"no": 1}])
    path = tmp_path / "summary.json"
    outcome = command("dedup", source, "-o", tmp_path / "kept", "--skip-bad", "--summary", path)
    assert outcome.status == 0
    record = json.loads(path.read_text())
    seconds = record.pop("seconds")
    # However long it took, which to three digits may be 0 MB.
    assert record.pop("read_mb_per_second") == pytest.approx(source.stat().st_size / 1e6 / seconds, abs=0.01)
    warning = record.pop("warning")
    assert warning in outcome.err
    assert record == {
        "format": "fpstore.summary/1",
        "job": "dedup",
        "documents": 3,
        "kept": 2,
        "dropped": 1,
        "refused_matches": 0,
        "cut_short": 0,
        "without_value": 0,
        "repeated_names": 0,
        "skipped": {"bad line": 1},
        "notes": {},
        "read_bytes": source.stat().st_size,
        "text_bytes": 2 * len(SAME) + len(OTHER),
        "was_done": False,
    }
    assert command("dedup", source, "-o", tmp_path / "kept", "--skip-bad", "--summary", path).status == 0
    record = json.loads(path.read_text())
    assert (record["kept"], record["was_done"], record["read_bytes"]) == (2, True, 0)


@pytest.mark.parametrize(
    ("arguments", "counts"),
    [
        (("cluster",), {"job": "cluster", "clusters": 2, "new_clusters": 2}),
        (("cluster", "--components"), {"job": "cluster", "clusters": 2, "new_clusters": 2}),
        (("cluster", "--store"), {"job": "cluster", "clusters": 2, "new_clusters": 2}),
        (("document-pairs",), {"job": "document-pairs", "pairs": 1}),
    ],
)
def test_the_summaries_of_the_other_jobs_have_theirs(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], counts: dict[str, object]
) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"text": SAME}, {"text": OTHER}, {"text": SAME}])
    store = [tmp_path / "s.fpstore"] if arguments[-1] == "--store" else []
    outcome = command(*arguments, *store, source, "-o", tmp_path / "out", "--summary", tmp_path / "s.json")
    assert outcome.status == 0
    record = json.loads((tmp_path / "s.json").read_text())
    assert {name: record[name] for name in counts} == counts


@pytest.mark.parametrize("name", ["kept", "dropped", "in.jsonl", "mine", "no/such", "folder"])
def test_a_summary_takes_no_place_of_something_else(command: Command, tmp_path: Path, name: str) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"text": SAME}])
    (tmp_path / "mine").write_text('{"format": "another"}')
    (tmp_path / "folder").mkdir()
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    arguments = ("-o", tmp_path / "kept", "--dropped", tmp_path / "dropped", "--summary", tmp_path / name)
    outcome = command("dedup", source, *arguments)
    assert (outcome.status in (1, 2), outcome.err.count("\n")) == (True, 1)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_what_was_read_is_bytes_of_the_files_as_they_are(tmp_path: Path) -> None:
    import gzip

    data = json.dumps({"text": SAME * 100}).encode()
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(data))
    found = dedup([tmp_path / "in.jsonl.gz"], tmp_path / "kept")
    assert found.read_bytes == (tmp_path / "in.jsonl.gz").stat().st_size < found.text_bytes == len(SAME) * 100
    assert (found.kept, found.dropped, found.job) == (1, 0, "dedup")
    assert found.rate == found.read_bytes / found.seconds
    assert cluster([tmp_path / "in.jsonl.gz"], tmp_path / "c").clusters == 1
    assert document_pairs([tmp_path / "in.jsonl.gz"], tmp_path / "p").pairs == 0
    assert isinstance(found, fpstore.jobs.Summary)


@pytest.mark.parametrize("id_column", [None, "id"])
@pytest.mark.parametrize(
    ("values", "suffix", "told"),
    [
        ([{"id": ["0"], "b": [b"x"]}], "jsonl", "1.parquet, column b: found binary, expected text"),
        ([{"id": ["0"], "b": [b"x"]}], "csv", "1.parquet, column b: found binary, expected text"),
        ([{"id": ["0"]}, {"id": ["1"], "b": [b"x"]}], "jsonl", "2.parquet, column b: found binary, expected text"),
        ([{"id": ["0"]}, {"id": ["1"], "b": ["x"]}], "parquet", "in {folder}/2.parquet, expected the columns of"),
    ],
)
def test_a_column_that_cannot_be_written_is_told_by_its_file(
    tmp_path: Path, values: list[dict[str, list[Any]]], suffix: str, told: str, id_column: str | None
) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(1, len(values) + 1)]
    for path, columns in zip(paths, values, strict=True):
        pq.write_table(pa.table({"text": [SAME if path is paths[0] else OTHER], **columns}), path)
    with pytest.raises(ValueError, match=re.escape(told.format(folder=tmp_path))):
        dedup(Inputs(paths, text_column="text", id_column=id_column), tmp_path / f"kept.{suffix}")


def test_a_binary_column_of_ids_is_told_by_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["one of them"], "id": [b"0"]}), path)
    with pytest.raises(BadInput, match=r"in.parquet, row 0: found id b'0', expected a text"):
        dedup(Inputs([path], text_column="text", id_column="id"), tmp_path / "kept.parquet")
