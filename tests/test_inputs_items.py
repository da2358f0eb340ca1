"""The format json: an array of objects, objects on lines, one object; and what is none of these."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, compressed, documents, items, read
from fpstore.text import fingerprint

RECORDS = [
    {"id": 7, "text": 'one "two" [3] {4}, \\ \u00e9'},
    {"id": 8, "text": "", "more": [1, {"a": ["b"]}]},
    {"id": 9, "text": "x"},
]
TEXTS = [record["text"] for record in RECORDS]

WRITTEN = {
    "an array on one line": json.dumps(RECORDS),
    "an array over lines": json.dumps(RECORDS, indent=2),
    "an array after a mark and lines": "\ufeff\n \n" + json.dumps(RECORDS) + "\n\n",
    "objects on lines": "".join(json.dumps(record) + "\n" for record in RECORDS),
    "objects on lines after blank ones": "\n\n" + "\n\n".join(map(json.dumps, RECORDS)),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_json_is_read_in_each_of_its_forms(tmp_path: Path, written: str, codec: str) -> None:
    (tmp_path / "a.json").write_bytes(written.encode(codec))
    assert [text for _, text in documents([tmp_path / "a.json"])] == TEXTS
    batch = next(read([tmp_path / "a.json"], id_column="id"))
    assert batch.ids is not None
    assert (batch.fingerprints.tolist(), batch.ids.tolist()) == (list(map(fingerprint, map(str, TEXTS))), [7, 8, 9])
    lines = [row.data for _, _, row in documents([tmp_path / "a.json"]).with_rows()]
    assert [json.loads(line) for line in lines if isinstance(line, bytes)] == RECORDS
    assert not any(b"\n" in line.rstrip() for line in lines if isinstance(line, bytes))


@pytest.mark.parametrize("indent", [None, 2])
def test_one_object_is_one_document(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "a.json").write_text(json.dumps(RECORDS[0], indent=indent))
    unit = ":1"
    assert list(documents([tmp_path / "a.json"])) == [(f"{tmp_path}/a.json{unit}", TEXTS[0])]


@pytest.mark.parametrize("written", ["", " \n\n", "[]", " [ ]\n"])
def test_json_without_anything_has_no_documents(tmp_path: Path, written: str) -> None:
    (tmp_path / "a.json").write_text(written)
    assert list(documents([tmp_path / "a.json"])) == []


def test_items_are_named_by_their_number_and_bad_ones_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"text": "one"}, 5, {"text": NaN}, {"body": "x"},, {"text": 7}, {"text": "three"}]')
    with pytest.raises(BadInput, match=r"a\.json, item 2: found '5', expected a JSON object"):
        list(documents([path]))
    found = documents([path], skip_bad=True)
    assert list(found) == [(f"{path}:1", "one"), (f"{path}:7", "three")]
    assert found.skipped == {"bad item": 5}


def test_a_bad_first_line_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('\n{"text": \n{"text": "two"}\n{"text": "three"}\n')
    with pytest.raises(BadInput, match=r"a\.json, line 2: found '\{\"text\":' \(.*\), expected a JSON object"):
        list(documents([path]))
    assert list(documents([path], skip_bad=True)) == [(f"{path}:3", "two"), (f"{path}:4", "three")]


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_fingerprints_that_reading_finds_in_place_of_texts_are_refused_and_never_passed_over(
    tmp_path: Path, suffix: str, skip_bad: bool
) -> None:
    lines = '{"hash": 1}\n{"hash": 2}\n'
    stream = tmp_path / "stream"
    os.mkfifo(stream)
    writer = threading.Thread(target=stream.write_text, args=(lines,))
    writer.start()
    told = "line 1: found fields hash, expected one named text, or fingerprint_column (--fingerprint-column) or text_"
    with pytest.raises(BadInput, match=re.escape(told)):
        list(read([stream], format=suffix, skip_bad=skip_bad))
    writer.join()
    broken = tmp_path / f"a.{suffix}"
    broken.write_text(
        "{\n" * skip_bad + lines if suffix == "jsonl" else f"[{'5,' * skip_bad}{lines.replace('}', '},', 1)}]"
    )
    if skip_bad:
        with pytest.raises(BadInput, match="2: found fields hash, expected one named text, or fingerprint_column"):
            list(read([broken], skip_bad=True))
    whole = read([broken], fingerprint_column="hash", skip_bad=skip_bad)
    assert np.concatenate([batch.fingerprints for batch in whole]).tolist() == [1, 2]


def test_one_text_that_is_missing_behind_others_is_one_bad_item(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{"hash": 2}\n{"text": "three"}\n')
    found = read([path], skip_bad=True)
    assert sum(len(batch.fingerprints) for batch in found) == 2
    assert found.skipped == {"bad line": 1}


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_two_fields_called_id_are_refused_in_json_as_in_csv(tmp_path: Path, suffix: str, skip_bad: bool) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text('{"ID": 1, "id": 2, "hash": 3}\n' if suffix == "jsonl" else "ID,id,hash\n1,2,0x3\n")
    with pytest.raises(BadInput, match=r"line 1: found columns ID, id, hash; expected one called id, or id_column"):
        list(read([path], skip_bad=skip_bad))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (b'[{"text": "one"}', "item 1: found the end of the file, expected the end of the array"),
        (b'[{"text": "one"},', "item 2: found the end of the file, expected the end of the array"),
        (b'[{"text": "one', "item 1: found the end of the file, expected the end of the array"),
        (b'[{"text": "one"}] x', "item 1: found more behind the array, expected the end of the file"),
        (b'[{"text": "one"}}', "item 1: found b'}' behind an item, expected a comma or ]"),
        (b"\xef\xbb[", "found bytes that are no UTF-8, expected JSON"),
    ],
)
def test_what_is_no_whole_array_is_an_error_even_where_faults_are_passed_over(
    tmp_path: Path, written: bytes, found: str
) -> None:
    (tmp_path / "a.json").write_bytes(written)
    with pytest.raises(BadInput) as caught:
        list(documents([tmp_path / "a.json"], skip_bad=True))
    assert found in str(caught.value)


def test_an_item_over_the_limit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MAX_LINE_BYTES", 1000)
    (tmp_path / "a.json").write_text('["' + "x" * 1_000_000)
    with pytest.raises(BadInput, match=r"item 1: found more than 1000 bytes, expected the end of the item"):
        list(documents([tmp_path / "a.json"]))


def test_a_column_is_asked_for_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"h": 5}]')
    assert next(read([tmp_path / "a.json"], fingerprint_column="h")).fingerprints.tolist() == [5]
    with pytest.raises(ValueError, match="found a column number, expected the name of a field for format json"):
        read([tmp_path / "a.json"], fingerprint_column=0)


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda deeper: st.lists(deeper) | st.dictionaries(st.text(), deeper),
    max_leaves=8,
)


@pytest.mark.slow
@given(values=st.lists(JSON, max_size=8), indent=st.sampled_from([None, 0, 3]), step=st.integers(1, 40))
def test_any_array_is_split_into_its_items(
    values: list[Any], indent: int | None, step: int, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("json") / "a"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=False))
    with pytest.MonkeyPatch.context() as patch, compressed.open_stream(str(path), None) as stream:
        patch.setattr(items, "_STEP_BYTES", step)
        first, _ = items.first_of(stream)
        assert [json.loads(item) for item in items.items_of(stream, first)] == values
