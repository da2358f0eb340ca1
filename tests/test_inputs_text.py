"""The formats that hold documents: jsonl, and text files and trees."""

# mypy: disable-error-code="union-attr"

import gzip
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, documents, read
from fpstore.inputs import text as inputs_text
from fpstore.inputs.text import _load_json, json_loader
from fpstore.text import fingerprint


def rows(*sources: str | Path, **options: Any) -> tuple[list[Any], list[Any], int] | tuple[list[int], list[int], int]:
    """Fingerprints and ids of all batches as lists, and how many rows were skipped."""
    reader = read(list(sources), **options)
    fingerprints, ids = [], []
    for batch in reader:
        fingerprints += batch.fingerprints.tolist()
        ids += batch.ids.tolist()
    return fingerprints, ids, sum(reader.skipped.values())


@pytest.fixture(params=["msgspec", "json"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with msgspec, and as if it were not installed."""
    if request.param == "json":
        monkeypatch.setitem(sys.modules, "msgspec", None)


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


TEXTS = ["the quick brown fox jumps", "日本語 の テキスト です ね", ""]


@pytest.mark.usefixtures("loader")
def test_jsonl_is_read_from_its_field_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *({"id": 7 + row, "text": text} for row, text in enumerate(TEXTS)))
    expected = [fingerprint(text) for text in TEXTS]
    assert rows(path, ids="row") == (expected, [0, 1, 2], 0)
    for options in ({}, {"id_column": "id"}, {"ids": "column"}):
        assert rows(path, **options) == (expected, [7, 8, 9], 0)
    assert list(documents([path])) == [(f"{path}:{line}", text) for line, text in enumerate(TEXTS, start=1)]


@pytest.mark.usefixtures("loader")
def test_jsonl_of_another_text_field_and_of_fingerprints(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"body": TEXTS[0], "fp": 5}, {"body": TEXTS[1], "fp": "255"})
    assert rows(path, text_column="body")[0] == [fingerprint(TEXTS[0]), fingerprint(TEXTS[1])]
    reader = read([path], fingerprint_column="fp")
    assert reader.recipe is None
    assert next(reader).fingerprints.tolist() == [5, 255]
    assert next(read([path])).fingerprints.tolist() == [5, 255]


@pytest.mark.usefixtures("loader")
def test_a_field_can_be_a_path_or_have_a_name_with_the_dots(tmp_path: Path) -> None:
    records = (
        {"page": {"body": "nested", "meta": {"id": 7}}},
        {"page": {"meta": {"id": 8}}, "page.body": "flat"},
    )
    path = write(tmp_path / "a.jsonl", *records)
    assert rows(path, text_column="page.body", id_column="page.meta.id")[:2] == (
        [fingerprint("nested"), fingerprint("flat")],
        [7, 8],
    )


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("record", [{}, {"page": None}, {"page": "body"}, {"page": ["body"]}, {"page": {"text": "x"}}])
def test_a_path_that_leads_nowhere_is_a_bad_line(tmp_path: Path, record: Any) -> None:
    path = write(tmp_path / "a.jsonl", record, {"page": {"body": "one"}})
    with pytest.raises(BadInput, match=r"line 1: found fields (none|page), expected one named page\.body"):
        rows(path, text_column="page.body")
    assert rows(path, text_column="page.body", skip_bad=True) == ([fingerprint("one")], [1], 1)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"line 2: found '\{' \(.*\), expected a JSON object"),
        ("[1]", r"line 2: found '\[1\]', expected a JSON object"),
        ('{"text": NaN}', r"line 2: found .* \(NaN is no JSON number\), expected a JSON object"),
        ('{"id": 5}', "line 2: found fields id, expected one named text"),
        ("{}", "line 2: found fields none, expected one named text"),
        ('{"id": 5, "text": 5}', "line 2: found 5, expected a text"),
        ('{"id": 5, "text": null}', "line 2: found None, expected a text"),
        ('{"id": "x", "text": "x"}', "line 2: found id 'x', expected a decimal number"),
        ('{"id": 5.0, "text": "x"}', r"line 2: found id 5\.0, expected a decimal number"),
        ('{"id": true, "text": "x"}', "line 2: found id True, expected a decimal number"),
        ("[" * 100_000, r"line 2: found '\[.*expected a JSON object"),
        ('{"a":' * 100_000, r"line 2: found .*expected a JSON object"),
        ("1" * 10_000, r"line 2: found .*expected a JSON object"),
    ],
)
def test_a_bad_line_of_json_is_named_or_counted(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"id": 1, "text": "one"}}\n{line}\n\n{{"id": 3, "text": "three"}}\n')
    with pytest.raises(BadInput, match=message) as caught:
        rows(path, id_column="id")
    assert len(str(caught.value)) < 500
    # And the blank line behind it.
    assert rows(path, id_column="id", skip_bad=True) == ([fingerprint("one"), fingerprint("three")], [1, 3], 1 + 1)


@pytest.mark.parametrize("data", ['[{"text": "one"}, {"text": "two"}]\n', '[\n{"text": "one"},\n{"text": "two"}\n]\n'])
@pytest.mark.usefixtures("loader")
def test_a_list_in_json_lines_is_refused_with_the_format_that_reads_it(tmp_path: Path, data: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(data)
    with pytest.raises(BadInput, match=r"line 1: found .*, expected a JSON object; a list of them is of --format json"):
        rows(path)
    assert rows(path, format="json")[0] == [fingerprint("one"), fingerprint("two")]
    path.write_text('{"text": "one"}\n' + data)
    with pytest.raises(BadInput, match=r"line 2: found .*, expected a JSON object$"):
        rows(path)
    path.write_text('["one"]\n')
    with pytest.raises(BadInput, match=r"line 1: found .*, expected a JSON object$"):
        rows(path)


@pytest.mark.usefixtures("loader")
def test_json_that_is_not_utf8_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(BadInput, match=r"line 1: found .* expected a JSON object"):
        rows(tmp_path / "a.jsonl")


@pytest.mark.usefixtures("loader")
def test_half_a_surrogate_pair_is_read_and_belongs_to_no_word(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one \\ud800 two"}\n')
    assert rows(tmp_path / "a.jsonl")[0] == [fingerprint("one two")]


@pytest.mark.usefixtures("loader")
def test_a_byte_order_mark_before_json_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}')
    assert rows(tmp_path / "a.jsonl")[0] == [fingerprint("one")]
    (tmp_path / "b.jsonl").write_bytes(b"\xef\xbb\xbf")
    assert rows(tmp_path / "b.jsonl")[0] == []


def outcome(load: Callable[..., Any], line: bytes) -> str:
    try:
        return repr(load(line))
    except (ValueError, RecursionError):
        return "refused"


@given(st.binary(max_size=30) | st.text(alphabet='{}[]",:\\u0d8 1e9.-+truefalsn\t\x01é', max_size=30).map(str.encode))
def test_json_is_read_alike_with_and_without_msgspec(line: bytes) -> None:
    assert outcome(json_loader(), line) == outcome(_load_json, line)


def test_json_is_read_alike_with_and_without_msgspec_after_small_changes() -> None:
    source = random.Random(4)
    whole = '{"text": "a\\u00e9\\n\\ud83d\\ude00\\/ é", "id": [1, -2.5e3, true, null, 18446744073709551616]}'.encode()
    for _ in range(3000):
        line = bytearray(whole)
        for _ in range(source.randrange(1, 3)):
            line[source.randrange(len(line))] = source.choice(whole + b"\x00\x1f\xff\t")
        assert outcome(json_loader(), bytes(line)) == outcome(_load_json, bytes(line)), bytes(line)


def test_a_file_is_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\nthree four")
    assert rows(tmp_path / "a.txt") == ([fingerprint("one two three four")], [0], 0)
    assert list(documents([tmp_path / "a.txt"])) == [(str(tmp_path / "a.txt"), "one two\nthree four")]


def tree(root: Path) -> list[str]:
    for name in ("b/two.py", "b/a/one", "a.txt", "b.txt", "c/empty", "B/upper.md"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "c/empty" else f"text of {name}")
    (root / "none").mkdir()
    return ["B/upper.md", "a.txt", "b/a/one", "b/two.py", "b.txt", "c/empty"]


def test_a_directory_is_walked_in_sorted_order(tmp_path: Path) -> None:
    names = tree(tmp_path)
    found = list(documents([tmp_path], format="text"))
    assert [os.path.relpath(name, tmp_path) for name, _ in found] == names
    assert [text for _, text in found] == [f"text of {name}" for name in names[:-1]] + [""]
    assert rows(tmp_path, format="text") == ([fingerprint(text) for _, text in found], list(range(6)), 0)


def test_links_and_pipes_in_a_directory_are_passed_over(tmp_path: Path) -> None:
    names = tree(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    found = documents([tmp_path], format="text")
    assert len(list(found)) == len(names)
    assert found.skipped == {"link": 3, "special file": 1}


def test_an_empty_directory_has_no_rows(tmp_path: Path) -> None:
    assert rows(tmp_path) == ([], [], 0)


def test_a_directory_that_cannot_be_listed_is_the_systems_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refuse(path: str) -> Any:
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    with monkeypatch.context() as patch:  # as what removes tmp_path lists it, too
        patch.setattr(os, "scandir", refuse)
        with pytest.raises(PermissionError):
            list(documents([tmp_path]))


def test_compressed_documents_of_a_directory_are_read_and_damaged_ones_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one"))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"two")[:-3])
    (tmp_path / "c.txt").write_text("three")
    with pytest.raises(BadInput, match=r"b\.txt\.gz: found damaged gzip data"):
        rows(tmp_path)
    found = rows(tmp_path, skip_bad=True)
    assert found == ([fingerprint("one"), fingerprint("three")], [0, 2], 1)


def test_a_document_over_the_limit_is_named_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_text, "MAX_DOCUMENT_BYTES", 1000)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    (tmp_path / "b.txt").write_bytes(b"x" * 1000)
    with pytest.raises(BadInput, match=r"a\.txt\.gz: found more than 1000 bytes, expected a smaller document"):
        rows(tmp_path)
    assert rows(tmp_path, skip_bad=True) == ([fingerprint("x" * 1000)], [1], 1)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_many_documents_keep_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr("fpstore.inputs.records.GROUP_BYTES", 50)
    texts = [f"document number {row} is here" for row in range(40)]
    path = write(tmp_path / "a.jsonl", *({"text": text} for text in texts))
    assert rows(path, batch=batch) == ([fingerprint(text) for text in texts], list(range(40)), 0)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"text": "a", "text": "b", "id": 1}', "field text twice"),
        ('{"te\\u0078t": "a", "text": "b", "id": 1}', "field text twice"),
        ('{"text": "a", "te\\u0078t" : "b", "id": 1}', "field text twice"),
        ('{"id": 1, "text": "a", "id": 2}', "field id twice"),
        ('{"id": 1, "text": "a", "more": {"text": "b", "text": "c"}}', "field text twice"),
    ],
)
def test_an_object_that_names_a_field_twice_is_a_bad_line(tmp_path: Path, line: str, found: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "first", "id": 0}\n' + line + "\n")
    with pytest.raises(BadInput, match=rf"a\.jsonl, line 2: found {found}, expected it once"):
        rows(tmp_path / "a.jsonl", text_column="text")
    assert rows(tmp_path / "a.jsonl", text_column="text", skip_bad=True)[1:] == ([0], 1)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1, "text": "the \\"text\\": of it", "kind": "text", "more": {"text": "x"}}',
        '{"id": 1, "text": "\\u0041 \\u00e9\\"", "te\\u0079t": "x"}',
        '{"id": 1, "text": "x", "other": 1, "other": 2}',
    ],
)
def test_a_field_that_is_named_once_is_read_whatever_else_is_there(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line + "\n")
    assert rows(tmp_path / "a.jsonl", text_column="text")[1] == [1]


@pytest.mark.usefixtures("loader")
def test_a_name_that_is_a_field_and_a_path_is_a_bad_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"page.body": "flat", "page": {"body": "nested"}}, {"page.body": "flat"})
    with pytest.raises(
        BadInput, match=r"line 1: found page\.body as a field, and as a path to one, expected one of the"
    ):
        rows(path, text_column="page.body")
    assert rows(path, text_column="page.body", skip_bad=True)[2] == 1
    table = pa.table({"page.body": ["flat"], "page": [{"body": "nested"}]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a\.parquet: found page\.body as a column, and as a path to one, expected one"):
        rows(tmp_path / "a.parquet", text_column="page.body")
    pq.write_table(table.select(["page.body"]), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", text_column="page.body")[0] == [fingerprint("flat")]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_bad_last_line_without_an_end_is_told_as_the_end_of_a_file_that_may_be_cut(tmp_path: Path, end: str) -> None:
    """As who copied a part of it leaves it: of a line with its end nothing is missing."""
    whole = '{"text": "one"}\n{"text": "two"}'
    for cut in range(whole.index("\n") + 2, len(whole)):
        path = tmp_path / "a.jsonl"
        path.write_bytes(f"{whole[:cut]}{end}".encode())
        told = r"expected a JSON object" + ("" if end else "; the file ends in this line, and may be cut")
        with pytest.raises(BadInput, match=f"line 2: found .*, {told}$"):
            list(documents([path]))


OBJECT = '{"text": "caf\u00e9 \\u00e9\\n", "a": [1, -2.5e-3, true, false, null, {}], "b": {"c": ""} }'


@pytest.mark.parametrize("wrong", ["", "!", "\x01", "]"])
def test_a_last_line_may_be_cut_where_it_begins_an_object_and_nowhere_else(tmp_path: Path, wrong: str) -> None:
    """Within a text only what no text has is wrong."""
    path, data = tmp_path / "a.jsonl", OBJECT.encode()
    for count in range(1, len(data)):
        begun = data[:count]
        is_text = begun.replace(b"\\n", b"").count(b'"') % 2 == 1
        if wrong == "]" and not is_text and begun.count(b"[") > begun.count(b"]"):
            continue
        path.write_bytes(b'{"text": "one"}\n' + begun + wrong.encode())
        with pytest.raises(BadInput, match="line 2: found ") as raised:
            list(documents([path]))
        is_escape = is_text and b"\\" in begun[-6:]
        if wrong in ("!", "]") and is_text and not is_escape and not begun.endswith(b"\xc3"):
            continue
        if wrong and is_escape:
            continue
        assert str(raised.value).endswith(", and may be cut") == (not wrong), (begun, wrong)


@pytest.mark.parametrize("last", ["word", "[1, 2", '{"a": 1}}', '{"a": 01', '{"a": .', '{"a" e', '{"a": "\\u00g', "12"])
def test_what_begins_no_object_was_not_cut(tmp_path: Path, last: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' + last)
    with pytest.raises(BadInput, match="line 2: found ") as raised:
        list(documents([tmp_path / "a.jsonl"]))
    assert "may be cut" not in str(raised.value)
