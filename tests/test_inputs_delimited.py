"""CSV and TSV with damage: what is lost is the damaged line, and nothing after it."""

# mypy: disable-error-code="union-attr"

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, compressed, delimited, documents, read

GOOD = [
    "{n},plain text of it",
    '{n},"quoted text of it"',
    '{n},"with a "" in it, and a comma"',
    '{n},""',
    '"{n}","all quoted"',
    "{n},",
]


def found(data: bytes, folder: Path, **options: Any) -> tuple[list[int], dict[str, int]]:
    """The ids of the rows that are read, and what was passed over."""
    path = folder / "a.csv"
    path.write_bytes(b"id,text\n" + data)
    reader = read([path], text_column="text", id_column="id", skip_bad=True, **options)
    ids = [int(value) for batch in reader if batch.ids is not None for value in batch.ids]
    return ids, dict(reader.skipped)


def test_an_unclosed_quote_costs_its_line_only(tmp_path: Path) -> None:
    lines = [f"{number},some text" for number in range(10_000)]
    lines[17] = '17,"never closed'
    ids, skipped = found("\n".join(lines).encode(), tmp_path)
    assert ids == [number for number in range(10_000) if number != 17]
    assert skipped == {"bad line": 1}
    with pytest.raises(BadInput, match=r"a\.csv, line 19: found a broken record \(unexpected end of data\), expected"):
        list(documents([tmp_path / "a.csv"], text_column="text"))


def test_a_record_that_does_not_end_within_the_limit_ends_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD_BYTES", 1000)
    lines = [f"{number},some text" for number in range(500)]
    lines[17] = '17,"never closed'
    assert found("\n".join(lines).encode(), tmp_path)[0] == [number for number in range(500) if number != 17]
    with pytest.raises(BadInput, match=r"line 19: found a broken record \(no end within 1000 bytes\), expected fields"):
        list(documents([tmp_path / "a.csv"], text_column="text"))


def test_a_line_over_the_limit_inside_a_record_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 1000)
    ids, skipped = found(b'1,"open\n2,good\n' + b"x" * 5000 + b"\n4,good\n", tmp_path)
    assert ids == [2, 4]
    assert skipped == {"bad line": 1, "line over the limit": 1}
    with pytest.raises(BadInput, match=r"line 2: found a broken record \(a line in it that is over the limit\)"):
        list(documents([tmp_path / "a.csv"], text_column="text"))


def test_a_quote_that_pairs_with_one_of_a_later_record_is_told_by_the_number_of_fields(tmp_path: Path) -> None:
    data = b'1,"open\n2,good\n3,"text, with\ncommas, and an end"\n4,good\n'
    assert {2, 4} <= set(found(data, tmp_path)[0])
    data = b'1,"open\n2,good\n3,x",z\n4,good\n'
    assert found(data, tmp_path) == ([2, 4], {"bad line": 2})
    told = r"line 2: found a broken record \(3 fields over 3 lines, 2 in the first record\), expected fields separated"
    with pytest.raises(BadInput, match=told):
        list(documents([tmp_path / "a.csv"], text_column="text"))


@pytest.mark.slow
@given(
    forms=st.lists(st.sampled_from(GOOD), min_size=2, max_size=30),
    place=st.integers(0, 1000),
    damage=st.one_of(
        st.sampled_from(['"', '"x', 'x,"', 'x,"y', '"x"y', 'x,"y"z', '"""', 'x,"""', 'x,y,"', ',,,"']).map(str.encode),
        st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")),
    ),
)
def test_damage_to_a_line_never_costs_another_line(
    forms: list[str], place: int, damage: bytes, tmp_path_factory: Any
) -> None:
    lines = [form.format(n=number + 10**6).encode() for number, form in enumerate(forms)]
    bad = place % len(lines)
    lines[bad] = damage
    ids, _ = found(b"\n".join(lines) + b"\n", tmp_path_factory.mktemp("csv"))
    expected = {number + 10**6 for number in range(len(forms)) if number != bad}
    assert expected <= set(ids)


def test_many_damaged_lines_cost_no_more_than_themselves(tmp_path: Path) -> None:
    source = random.Random(5)
    lines, bad = [], set(source.sample(range(3000), 40))
    for number in range(3000):
        form = source.choice(['{n},"open', '{n}"x,y,"', '"{n}",x"y,"z']) if number in bad else source.choice(GOOD)
        lines.append(form.format(n=number))
    ids, skipped = found("\n".join(lines).encode(), tmp_path)
    assert set(range(3000)) - bad <= set(ids)
    assert sum(skipped.values()) == 3000 - len(ids)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_cell_that_is_no_utf_8_is_a_bad_line_only_where_it_is_read(tmp_path: Path, suffix: str) -> None:
    mark = "," if suffix == "csv" else "\t"
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(f"hash{mark}name\n0x5{mark}caf".encode() + f"\xe9\n0x6{mark}good\n".encode("latin1"))
    assert [int(each) for batch in read([path], fingerprint_column="hash") for each in batch.fingerprints] == [5, 6]
    with pytest.raises(
        BadInput, match=rf"a\.{suffix}, line 2: found bytes that are no UTF-8, expected a text in UTF-8"
    ):
        list(documents([path], text_column="name"))
    named = documents([path], text_column="name", skip_bad=True)
    assert [text for _, text in named] == ["good"]
    assert named.skipped == {"bad line": 1}


@pytest.mark.parametrize("codec", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_table_is_decoded_by_its_mark(tmp_path: Path, codec: str) -> None:
    (tmp_path / "a.csv").write_bytes('id,text\n1,"日本\nénd"\n'.encode(codec))
    assert [text for _, text in documents([tmp_path / "a.csv"], text_column="text")] == ["日本\nénd"]


# Rows of a table of two columns, each with the cells that it has.
WIDTHS = [
    (b"1,hello, world\n", 3),
    (b"1,hello,\n", 3),
    (b"1\n", 1),
    (b'"1,hello"\n', 1),
    (b",,,\n", 4),
    (b"1;hello\n", 1),
]


@pytest.mark.parametrize(("line", "cells"), WIDTHS)
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_row_of_another_width_is_a_bad_line_that_says_what_was_found(
    tmp_path: Path, line: bytes, cells: int, suffix: str
) -> None:
    path, mark = tmp_path / f"a.{suffix}", b"," if suffix == "csv" else b"\t"
    line = line if suffix == "csv" else line.replace(b'"1,', b'"1').replace(b",", mark)
    path.write_bytes(b"id,text\n0,good\n".replace(b",", mark) + line + b"2,good\n".replace(b",", mark))
    how: dict[str, Any] = {"text_column": "text", "format": "csv" if suffix == "csv" else "tsv-plain"}
    with pytest.raises(BadInput, match=rf"a\.{suffix}, line 3: found {cells} cells, expected 2, as line 1 has"):
        list(documents([path], **how))
    reader = documents([path], skip_bad=True, **how)
    assert [name.rpartition(":")[2] for name, _ in reader] == ["2", "4"]
    assert reader.skipped == {"bad line": 1}
    ids = [each for batch in read([path], skip_bad=True, **how) for each in batch.ids.tolist()]
    assert ids == [0, 2]


def test_a_cell_that_a_writer_puts_behind_every_line_is_a_column_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,\n1,one two,\n2,three,\n")
    assert [text for _, text in documents([tmp_path / "a.csv"], text_column="text")] == ["one two", "three"]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_text_with_a_nul_is_a_bad_line_as_it_is_a_bad_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"text\na\0b\ngood\n")
    with pytest.raises(BadInput, match=rf"a\.{suffix}, line 2: found a NUL character, expected a text in UTF-8"):
        list(documents([path], text_column="text"))
    assert [text for _, text in documents([path], text_column="text", skip_bad=True)] == ["good"]
    path.write_bytes("text\nwithout a mark\n".encode("utf-16-le"))
    with pytest.raises(BadInput, match=r"line 2: found (a NUL|bytes)"):
        list(documents([path], text_column=0, header=True))


CUT = "; the file ends in this line, and may be cut"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize(
    ("name", "before", "last", "found", "may_be"),
    [
        ("a.csv", "id,text\n5,one two\n", "7", "1 cells", True),
        ("a.csv", "id,text,more\n5,one,two\n", "7,one", "2 cells", True),
        ("a.csv", "id,text\n5,one two\n", "7,a,b", "3 cells", False),
        ("a.csv", "id,text\n5,one two\n", '7,"one', "a broken record", True),
        ("a.csv", "id,text\n5,one two\n", '7,"one"x', "a broken record", False),
        ("a.tsv", "id\ttext\n5\tone two\n", "7", "1 cells", True),
        ("a.hex", "0123456789abcdef\t5\n1123456789abcdef\t6\n", "212345", "'212345'", True),
        ("a.hex", "0123456789abcdef\t5\n1123456789abcdef\t6\n", "2123456789abcdef\t", "'2123456789abcdef'", True),
        ("a.hex", "0123456789abcdef\t5\n1123456789abcdef\t6\n", "212345\t", "'212345'", False),
    ],
)
def test_a_last_line_without_an_end_that_lacks_something_is_told_as_one_that_may_be_cut(
    tmp_path: Path, name: str, before: str, last: str, found: str, may_be: bool, end: str
) -> None:
    """Of a line with its end nothing is missing, and what has too much was not cut."""
    (tmp_path / name).write_bytes(f"{before}{last}{end}".encode())
    source = [tmp_path / name]
    with pytest.raises(BadInput, match=f"line 3: found {re.escape(found)}") as raised:
        list(read(source) if name == "a.hex" else documents(source, text_column="text"))
    assert str(raised.value).endswith(CUT) == (may_be and not end)


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize(
    ("name", "before", "last", "found", "may_be"),
    [
        ("a.hex", "0123456789abcdef\n1123456789abcdef\n", "21234", "'21234'", True),
        ("a.hex", "0123456789abcdef\t5\n1123456789abcdef\t6\n", "21234\t7", "'21234'", False),
        ("a.hex", "0123456789abcdef\t5\n1123456789abcdef\t6\n", "2123456789abcdef\t-", "id '-'", True),
        ("a.hex", "0123456789abcdef\t5\n1123456789abcdef\t6\n", "2123456789abcdef\tx", "id 'x'", False),
        ("a.csv", "id,fingerprint\n5,0123456789abcdef\n", "6,01234", "'01234'", True),
        ("a.tsv", "id\tfingerprint\n5\t0123456789abcdef\n", "6\t01234", "'01234'", True),
        ("a.csv", "id,fingerprint\n5,0123456789abcdef\n", "x,2123456789abcdef", "id 'x'", False),
        ("a.csv", "fingerprint,id\n0123456789abcdef,5\n", "01234,6", "'01234'", False),
        ("a.csv", "fingerprint,id\n0123456789abcdef,5\n", "2123456789abcdef,", "id ''", True),
        ("a.csv", "fingerprint,id\n0123456789abcdef,5\n", "2123456789abcdef,x", "id 'x'", False),
        ("a.csv", "fingerprint,more\n0123456789abcdef,5\n", "01234,6", "'01234'", False),
        ("a.csv", "id,text\n5,one\n", "6,caf\xc3", "bytes that are no UTF-8", True),
    ],
)
def test_a_bad_value_at_the_end_of_a_line_without_an_end_may_be_cut(
    tmp_path: Path, name: str, before: str, last: str, found: str, may_be: bool, end: str
) -> None:
    """What another cell stands behind is whole, and so is each value of a line before the last."""
    for behind in ("", before.splitlines(keepends=True)[1]):
        if behind and not end:
            continue
        (tmp_path / name).write_bytes(f"{before}{last}{end}{behind}".encode("latin-1"))
        source: Any = [tmp_path / name]
        with pytest.raises(BadInput, match=f"line 3: found {re.escape(found)}") as raised:
            list(documents(source, text_column="text") if "text" in before else read(source))
        assert str(raised.value).endswith(CUT) == (may_be and not end)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_only_the_last_value_of_all_may_be_cut(tmp_path: Path, batch: int) -> None:
    good, bad = "0123456789abcdef", "01234"
    for name, head in (("a.hex", []), ("a.csv", ["fingerprint"])):
        for lines, may_be in (([good, bad, good], False), ([good, good, bad], True)):
            (tmp_path / name).write_text("\n".join(head + lines))
            with pytest.raises(BadInput, match="found '01234'") as raised:
                list(read([tmp_path / name], batch=batch))
            assert str(raised.value).endswith(CUT) == may_be


def test_a_blank_behind_a_bad_line_is_the_last_line(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_bytes(b"0123456789abcdef\t5\n212345\n  ")
    with pytest.raises(BadInput, match=r"line 2: found '212345', expected a fingerprint, a tab and an id$"):
        list(read([tmp_path / "a.hex"]))


# By what a column is: how values in it are written.
WRITTEN: list[tuple[dict[str, Any], str]] = [
    ({}, "0x2123456789abcdef"),
    ({}, "f123456789abcdef"),
    ({"bits": 128}, "0123456789abcdef0123456789abcdef"),
    ({"bits": 128}, "01234567-89ab-cdef-0123-456789abcdef"),
    ({"bits": 32}, "0123abcd"),
    ({"fingerprint_format": "base64"}, "q83vASNFZ4k="),
    ({"fingerprint_format": "hex"}, "0x0123"),
    ({"fingerprint_format": "hex", "byte_order": "little"}, "f123456789abcdef"),
    ({"fingerprint_format": "decimal"}, "-23"),
]


@pytest.mark.parametrize("name", ["a.hex", "a.csv", "a.tsv"])
@pytest.mark.parametrize(("how", "value"), WRITTEN)
def test_a_last_value_may_be_cut_where_it_begins_a_right_one_and_nowhere_else(
    tmp_path: Path, name: str, how: dict[str, Any], value: str
) -> None:
    """Each beginning that is no fingerprint is told; with a wrong character, or another behind a whole one, none is."""
    head = "" if name == "a.hex" else "fingerprint\n"

    def told(last: str) -> bool | None:
        (tmp_path / name).write_text(f"{head}{value}\n{last}")
        try:
            list(read([tmp_path / name], **how))
        except BadInput as error:
            return str(error).endswith(CUT)
        return None

    for count in range(1, len(value)):
        begun = value[:count]
        assert told(begun) in (None, True), begun
        assert told(f"{begun}!") is False, begun
        assert told(f"{begun} ") in (None, False), begun
        assert told(f"{begun}\r") in (None, False), begun
        if name == "a.csv":
            assert told(f'"{begun}') is True, begun
            assert told(f'"{begun}"') in (None, False), begun
    assert told(value * 3) is False


@pytest.mark.parametrize(
    ("last", "may_be"),
    [
        (b"2123456789abcdef", True),
        (b"212345", True),
        (b"2123456789abcdef\t ", True),
        (b"2123456789abcdef \t", True),
        (b"2123456789abcdef ", True),
        (b"21234 ", False),
        (b"212345\t", False),
        (b"2123456789abcdef5", False),
        (b"gone", False),
        (b"212345\r", False),
    ],
)
def test_a_last_line_of_hex_that_lacks_an_id_may_be_cut_where_it_begins_a_row(
    tmp_path: Path, last: bytes, may_be: bool
) -> None:
    (tmp_path / "a.hex").write_bytes(b"0123456789abcdef\t5\n" + last)
    with pytest.raises(BadInput, match=r"line 2: found .*, expected a fingerprint, a tab and an id") as raised:
        list(read([tmp_path / "a.hex"]))
    assert str(raised.value).endswith(CUT) == may_be


@pytest.mark.parametrize(
    ("last", "may_be"),
    [
        (b"6,caf\xe6\x97", True),
        (b"6,caf\xe6x", False),
        (b"6,\xffcaf", False),
        (b'6,"caf\xe6\x97', True),
        (b'6,"caf\xe6\x97"', False),
        (b"6,caf\xe6\x97\r", False),
    ],
)
def test_bytes_that_are_no_utf8_may_be_cut_where_they_begin_a_last_character(
    tmp_path: Path, last: bytes, may_be: bool
) -> None:
    for head, how in ((b"id,text\n", {"text_column": "text"}), (b"fingerprint,id\n", {"id_type": "string"})):
        row = last if b"text" in head else last.replace(b"6,", b"0123456789abcdef,")
        (tmp_path / "a.csv").write_bytes(head + row)
        with pytest.raises(BadInput, match="line 2: found ") as raised:
            list(read([tmp_path / "a.csv"], **how))  # type: ignore[arg-type]
        assert str(raised.value).endswith(CUT) == may_be


RECORD = CUT.replace("line", "record")


@pytest.mark.parametrize(
    ("last", "may_be"),
    [
        ('7,"one\ntwo', True),
        ('7,"one\ntwo\nthree', True),
        ('7,"one\ntwo"', True),
        ('7,"one\ntwo",', False),
        ('7,"one\ntwo",x,y', False),
        ('7,"one\ntwo\n', False),
        ('7,"one\ntwo"x', False),
    ],
)
def test_a_record_over_several_lines_that_ends_within_them_may_be_cut(tmp_path: Path, last: str, may_be: bool) -> None:
    """Where the file ends a line a quotation mark is rather missing in that, or too many in another."""
    (tmp_path / "a.csv").write_text(f"id,text,more\n5,one,two\n{last}")
    if last.endswith(","):
        assert [text for _, text in documents([tmp_path / "a.csv"], text_column="text")] == ["one", "one\ntwo"]
        return
    with pytest.raises(BadInput, match="line 3: found a broken record") as raised:
        list(documents([tmp_path / "a.csv"], text_column="text"))
    assert str(raised.value).endswith(RECORD) == may_be


def test_a_last_escape_may_be_cut_where_it_is_only_begun(tmp_path: Path) -> None:
    def told(last: str) -> bool | None:
        (tmp_path / "a.tsv").write_text(f"fingerprint\tid\n0123456789abcdef\t{last}", newline="")
        try:
            list(read([tmp_path / "a.tsv"], format="tsv-escaped", id_type="string"))
        except BadInput as error:
            return str(error).endswith(CUT)
        return None

    for escape in ("\\n", "\\x0a", "\\u65e5", "\\U0001F600"):
        for count in range(1, len(escape)):
            assert told(f"a{escape[:count]}") is True
            assert told(f"a{escape[:count]}!") is False
        assert told(f"a{escape}") is None
    assert told("a\\U99") is False
