"""What only later rows tell, and texts beside fingerprints: refused or counted, never lost."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fpstore
from fpstore.inputs import BadInput, documents, parse_fingerprint, read, records


@pytest.mark.parametrize("name", ["id", "ID", "Id"])
def test_an_id_that_only_later_objects_have_is_never_lost(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "one"}}\n{{"{name}": 777, "text": "two"}}\n')
    with pytest.raises(BadInput, match=r"line 2: found a field called id, expected none, as in the object before; ids"):
        list(read([path]))
    assert [batch.ids.tolist() for batch in read([path], ids="row") if batch.ids is not None] == [[0, 1]]
    reader = read([path], skip_bad=True)
    assert [len(batch.fingerprints) for batch in reader] == [1]
    assert dict(reader.skipped) == {"bad line": 1}


@pytest.mark.parametrize("header", ["id,text,hash", "text", "TEXT,fingerprint"])
def test_a_table_with_a_text_is_refused_until_it_is_said_what_is_meant(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n" + ",".join("00000000deadbeef" for _ in header.split(",")) + "\n")
    expected = r"texts among them; expected fingerprint_column \(--fingerprint-column\) or text_column"
    with pytest.raises(BadInput, match=expected):
        list(read([path]))
    with pytest.raises(ValueError, match=r"expected texts, and text_column \(--text-column\) to name their column"):
        documents([path])
    column = header.split(",")[-1]
    batches = read([path], fingerprint_column=column, ids="row")
    assert [batch.fingerprints.tolist() for batch in batches] == [[0xDEADBEEF]]


def test_a_field_of_texts_that_is_missing_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "one"}\n')
    with pytest.raises(BadInput, match=r"found fields body, expected one named text, or text_column \(--text-column\)"):
        list(documents([path]))


HEX = [f"{value:016x}" for value in np.random.default_rng(4).integers(1 << 62, 1 << 63, 40)]
DECIMAL = [str(int(value, 16)) for value in HEX]
EITHER = "1234567890123456"


def values_of(path: Path, cells: list[str], **options: Any) -> tuple[list[int], dict[str, int]]:
    path.write_text("".join(f"{cell}\n" for cell in ["hash", *cells]))
    reader = read([path], skip_bad=True, **options)
    return [value for batch in reader for value in batch.fingerprints.tolist()], dict(reader.skipped)


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize(("cells", "damage"), [(HEX, "5"), (HEX, "-7"), (DECIMAL, "0x5"), (DECIMAL, HEX[0])])
@pytest.mark.parametrize("place", [0, 1, 15, 16, 17, 39])
def test_under_skip_bad_no_damaged_value_decides_how_the_others_are_read(
    tmp_path: Path, cells: list[str], damage: str, place: int, batch: int
) -> None:
    with_either = [EITHER, *cells[:place], damage, *cells[place:], EITHER]
    base = 16 if cells is HEX else 10
    if place < 16:
        line = place + 3 if place else 4  # of the second kind
        told = (
            rf"line {line}: found .*, expected fingerprint_format .* to say which is meant, as the column begins with"
        )
        with pytest.raises(BadInput, match=told):
            values_of(tmp_path / "a.csv", with_either, batch=batch)
        way = "hex" if cells is HEX else "decimal"
        values, _ = values_of(tmp_path / "a.csv", with_either, batch=batch, fingerprint_format=way)
        assert set(values) >= {int(cell, base) for cell in [EITHER, *cells]}
    else:
        values, skipped = values_of(tmp_path / "a.csv", with_either, batch=batch)
        assert values == [int(cell, base) for cell in [EITHER, *cells, EITHER]]
        assert skipped == {"bad line": 1}


@pytest.mark.parametrize("cells", [HEX[:3], DECIMAL[:3], [EITHER, HEX[0]], ["wrong", EITHER, DECIMAL[0], "bad"]])
def test_a_short_column_is_told_by_what_there_is(tmp_path: Path, cells: list[str]) -> None:
    values, skipped = values_of(tmp_path / "a.csv", cells, batch=1)
    good = [cell for cell in cells if cell not in ("wrong", "bad")]
    assert values == [int(cell, 10 if DECIMAL[0] in cells else 16) for cell in good]
    assert sum(skipped.values()) == len(cells) - len(good)


def test_a_column_that_nothing_makes_sure_is_not_held_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_MOST_UNDECIDED", 10)
    (tmp_path / "a.csv").write_text("hash\n5\n" + "wrong\n" * 20 + f"{HEX[0]}\n")
    reader = read([tmp_path / "a.csv"], skip_bad=True, batch=1)
    assert next(reader).fingerprints.tolist() == [5]
    with pytest.raises(BadInput, match=r"line 23: found .*, expected fingerprint_format"):
        next(reader)
    assert reader.skipped == {"bad line": 19}  # one more is held


PLACES = [
    # What a file holds, what is asked of it, and the number of the line.
    ("a.csv", b"hash\n0x5\nwrong\n", {}, 3),
    ("a.csv", b"hash\n0x5,1\n", {}, 2),
    ("a.csv", b"a,b\n", {}, 1),
    ("a.csv", b"a\n1\n", {"text_column": 0}, 1),
    ("a.csv", b'id,text\n1,"a\n', {"text_column": "text"}, 2),
    ("a.csv", b"text\n\xff\n", {"text_column": "text"}, 2),
    ("a.csv", b"hash,id\n0x5,x\n", {}, 2),
    ("a.csv", b"hash\n1234567890123456\n", {}, 2),
    ("a.hex", b"00000000000000ff\nwrong\n", {}, 2),
    ("a.hex", b"00000000000000ff\t1\n00000000000000ff\n", {}, 2),
    ("a.jsonl", b'{"text": "a"}\n{\n', {}, 2),
    ("a.jsonl", b'{"text": "a"}\n{"text": 5}\n', {}, 2),
    ("a.jsonl", b'{"text": "a"}\n{"body": "b"}\n', {}, 2),
    ("a.jsonl", b'{"text": "a"}\n', {"ids": "column"}, 1),
    ("a.json", b'[{"text": "a"}, 5]', {}, 2),
    ("a.json", b'[{"text": "a"} x]', {}, 1),
    ("a.txt", b"\0", {}, None),
    ("a.txt.gz", b"plain", {}, None),
    ("a.u64", b"1234567", {}, None),
    ("a.npy", b"junk", {}, None),
    ("a.parquet", b"junk", {"text_column": "text"}, None),
    ("a.warc", b"junk", {}, None),
]


@pytest.mark.parametrize(("name", "data", "options", "line"), PLACES)
def test_an_error_says_in_attributes_of_which_file_and_line_it_is(
    tmp_path: Path, name: str, data: bytes, options: Any, line: int | None
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(fpstore.BadInput) as caught:
        list(read([tmp_path / name], **options))
    error = caught.value
    assert isinstance(error, fpstore.Error)
    assert isinstance(error, ValueError)
    assert (error.source, error.line) == (str(tmp_path / name), line)
    assert str(error).startswith(str(tmp_path / name))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.source, again.line, again.reason) == (str(error), error.source, line, error.reason)


def test_a_value_alone_has_neither() -> None:
    with pytest.raises(fpstore.BadInput) as caught:
        parse_fingerprint("wrong")
    assert (caught.value.source, caught.value.line, caught.value.path) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("a.hex", [*HEX[:15], "fffffffffffffff"]),
        ("a.hex", ["1234567890"]),
        ("a.csv", ["0x5", "deadbeef12"]),
        ("a.csv", ["5", "deadbeef12"]),
        ("a.csv", ["0x5", "1234567890"]),
        ("a.csv", ["-5", HEX[0]]),
        ("a.csv", [EITHER]),
        ("a.csv", ["deadbeef12"]),
    ],
)
def test_the_option_is_named_wherever_it_would_read_the_value(tmp_path: Path, name: str, cells: list[str]) -> None:
    header = ["hash"] if name == "a.csv" else []
    (tmp_path / name).write_text("".join(f"{cell}\n" for cell in [*header, *cells]))
    with pytest.raises(BadInput, match=r"fingerprint_format \(--fingerprint-format\)") as caught:
        list(read([tmp_path / name]))
    assert caught.value.line == len(header) + len(cells)


def test_a_parquet_column_by_its_number_can_have_the_name_of_another(tmp_path: Path) -> None:
    columns = [pa.array([5, 6]), pa.array(["a", "b"]), pa.array([7, 8])]
    pq.write_table(pa.table(columns, names=["x", "x", "x"]), tmp_path / "a.parquet")
    (batch,) = read([tmp_path / "a.parquet"], fingerprint_column=2, id_column=0, ids="column")
    assert batch.ids is not None
    assert (batch.fingerprints.tolist(), batch.ids.tolist()) == ([7, 8], [5, 6])
    assert [text for _, text in documents([tmp_path / "a.parquet"], text_column=1)] == ["a", "b"]
