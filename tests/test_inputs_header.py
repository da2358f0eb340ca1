"""Whether the first row of a table is a header: told by the row where it can mean one thing only, else asked."""

# mypy: disable-error-code="union-attr"

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpstore.inputs import BadInput, compressed, documents, read, read_ids
from fpstore.jobs import Inputs, dedup

HEX = "deadbeefdeadbeef"
ROW = f"1,{HEX},text\n"

FINGERPRINTS = [
    # The first row, options, and whether it is a header; None where nobody can tell.
    ("id,simhash,text", {"fingerprint_column": "simhash"}, True),
    ("id,simhash,text", {"fingerprint_column": 1}, True),
    ("n,Hash,x", {"fingerprint_column": 1}, True),
    ("n,my_hash,x", {"fingerprint_column": "my_hash"}, True),
    ("n,my_hash,x", {"fingerprint_column": 1, "id_column": "n"}, True),
    ("id,my_hash,x", {"fingerprint_column": 1}, True),
    ("id,my_hash,x", {"fingerprint_column": 1, "ids": "column"}, True),
    ("n,my_hash,x", {"fingerprint_column": 1}, None),
    ("n,_hash,x", {"fingerprint_column": 1}, None),
    ("n,error,x", {"fingerprint_column": 1}, None),
    ("n,,x", {"fingerprint_column": 1}, None),
    ("n,1.5,x", {"fingerprint_column": 1}, None),
    ("n,0xg,x", {"fingerprint_column": 1}, None),
    ("0,1,2", {"fingerprint_column": 1}, None),
    (",0,1", {"fingerprint_column": 1}, None),
    ("x,7,y", {"fingerprint_column": 1}, None),
    ("x,2019,y", {"fingerprint_column": 1}, None),
    ("x,added,y", {"fingerprint_column": 1, "fingerprint_format": "hex"}, None),
    (f"id,{HEX},x", {"fingerprint_column": 1}, None),
    (f"7,{HEX},x", {"fingerprint_column": 1}, False),
    (f"7,{HEX},x", {"fingerprint_column": 1, "id_column": 0}, False),
    (f"7,{HEX},x", {"fingerprint_column": 1, "id_column": 0, "ids": "column"}, False),
    ("7,0x5,x", {"fingerprint_column": 1}, False),
    ("7,-5,x", {"fingerprint_column": 1}, False),
    ("7,18446744073709551615,x", {"fingerprint_column": 1}, False),
    ("7,1234567890,x", {"fingerprint_column": 1}, False),
]


def seen(path: Path, reader: Any) -> list[int]:
    return [value for batch in reader for value in batch.fingerprints.tolist()]


@pytest.mark.parametrize(("first", "options", "header"), FINGERPRINTS)
def test_a_header_is_told_by_the_row_or_asked_for(tmp_path: Path, first: str, options: Any, header: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n" + (ROW.replace(HEX, "-6") if "1234567890" in first or "1844" in first else ROW))
    if first == "7,-5,x":
        path.write_text(f"{first}\n1,-6,x\n")
    for skip_bad in (False, True):
        if header is None:
            with pytest.raises(BadInput, match=r"line 1: found .*, expected header \(--input-header or --no-input-hea"):
                seen(path, read([path], skip_bad=skip_bad, **options))
        else:
            found = seen(path, read([path], skip_bad=skip_bad, **options))
            assert len(found) == (1 if header else 2)


@pytest.mark.parametrize(("first", "header"), [("id", True), ("ID", True), ("doc", None), ("", None), ("0", None)])
def test_a_column_of_ids_alone_has_a_header_by_the_same_rule(tmp_path: Path, first: str, header: Any) -> None:
    (tmp_path / "a.csv").write_text(f'"{first}"\n17\n')
    if header is None:
        with pytest.raises(BadInput, match=r"line 1: found .*, expected header"):
            list(read_ids([tmp_path / "a.csv"]))
    else:
        assert seen(tmp_path, read_ids([tmp_path / "a.csv"])) == [17]
    assert seen(tmp_path, read_ids([tmp_path / "a.csv"], header=True)) == [17]


def test_ids_alone_need_no_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("16\n17\n")
    assert seen(tmp_path, read_ids([tmp_path / "a.csv"])) == [16, 17]
    (tmp_path / "a.csv").write_text("0\n17\n")
    assert seen(tmp_path, read_ids([tmp_path / "a.csv"], header=False)) == [0, 17]


TEXTS = ["id,body", "0,1", "7,a text of its own", ",x"]


@pytest.mark.parametrize("first", TEXTS)
def test_of_a_column_of_texts_by_its_number_the_header_is_always_asked_for(tmp_path: Path, first: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n8,another text\n")
    with pytest.raises(BadInput, match=r"a\.csv, line 1: found .*, expected header \(--input-header or --no-input-h"):
        list(documents([path], text_column=1))
    text = first.partition(",")[2]
    assert [found for _, found in documents([path], text_column=1, header=True)] == ["another text"]
    assert [found for _, found in documents([path], text_column=1, header=False)] == [text, "another text"]
    with pytest.raises(BadInput, match=r"line 1: found .*, expected header"):
        list(read([path], text_column=1, id_column=0))
    named = path.read_text().replace(first, "key,body")
    path.write_text(named)
    assert len(seen(path, read([path], text_column=1, id_column="key"))) == 1


@pytest.mark.parametrize("first", ["my_hash", "0", "5", "error", HEX])
def test_what_is_said_of_the_header_holds_whatever_the_row(tmp_path: Path, first: str) -> None:
    (tmp_path / "a.csv").write_text(f"{first}\n{HEX}\n")
    assert seen(tmp_path, read([tmp_path / "a.csv"], header=True)) == [int(HEX, 16)]
    reader = read([tmp_path / "a.csv"], header=False, fingerprint_format="hex", skip_bad=True)
    values = seen(tmp_path, reader)
    if first in ("my_hash", "error"):
        assert (values, dict(reader.skipped)) == ([int(HEX, 16)], {"bad line": 1})
    else:
        assert values == [int(first, 16), int(HEX, 16)]


def test_without_a_header_no_column_is_found_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"id,{HEX}\n8,{HEX}\n")
    batches = list(read([path], header=False, fingerprint_column=1))
    assert [batch.ids.tolist() for batch in batches] == [[0, 1]]
    message = "line 1: found columns 0, 1; expected one called fingerprint.*; a number, from 0, names a column too$"
    with pytest.raises(BadInput, match=message):
        list(read([path], header=False))
    with pytest.raises(BadInput, match="line 1: found columns 0, 1; expected one called id"):
        list(read([path], header=False, fingerprint_column=1, ids="column"))


@pytest.mark.parametrize("name", ["fingerprint_column", "text_column", "id_column"])
def test_a_name_goes_with_a_header_only(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("a\n")
    with pytest.raises(ValueError, match=rf"^{name}: found a name, expected a number, as header \(--input-header or"):
        read([tmp_path / "a.csv"], header=False, **{name: "a"})  # type: ignore[arg-type]


def test_a_header_is_true_or_false(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n")
    for wrong in ("yes", 1, 0):
        with pytest.raises(TypeError, match=r"^header: found ('yes'|1|0), a (str|int), expected True or False$"):
            read([tmp_path / "a.csv"], header=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("header", [True, False])
def test_a_header_goes_with_csv_and_tsv_only(tmp_path: Path, header: bool) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    np.save(tmp_path / "a.npy", np.zeros(1, dtype=np.uint64))
    for name in ("jsonl", "npy"):
        with pytest.raises(ValueError, match=rf"found it with format {name}, expected csv or tsv"):
            read([tmp_path / f"a.{name}"], header=header)
    (tmp_path / "a.csv").write_text("0,x y\n")
    given = Inputs([tmp_path / "a.jsonl", tmp_path / "a.csv"], text_column=1, header=header)
    with pytest.raises(ValueError, match="expected the name of a field"):
        dedup(given, tmp_path / "k.jsonl")
    (tmp_path / "b.txt").write_text("a text")
    given = Inputs([tmp_path / "b.txt", tmp_path / "a.csv"], text_column=1, header=header)
    assert dedup(given, tmp_path / "k.jsonl").documents == (1 if header else 2)


def test_each_file_has_a_header_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,body\n1,one\n")
    (tmp_path / "b.csv").write_text("2,two\n")
    with pytest.raises(BadInput, match=r"b\.csv, line 1: found columns 2, two; expected one named body"):
        list(documents([tmp_path / "a.csv", tmp_path / "b.csv"], text_column="body"))


@pytest.mark.parametrize("first", ['1,"never closed', "x" * 2000])
def test_a_header_that_cannot_be_read_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 1000)
    (tmp_path / "a.csv").write_text(f"{first}\n1,one\n2,two\n")
    with pytest.raises(BadInput, match=r"a\.csv, line 1: found (a broken record|more than)"):
        list(documents([tmp_path / "a.csv"], text_column=1, header=True, skip_bad=True))
    found = documents([tmp_path / "a.csv"], text_column=1, header=False, skip_bad=True)
    assert [text for _, text in found] == ["one", "two"]
