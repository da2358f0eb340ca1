"""A file that its suffix calls a text, and that may be meant for rows, is refused with the option that decides."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome import Command

import fpstore
from fpstore.inputs import BadInput, documents, read
from fpstore.inputs.meant import _LONGEST_OBJECT
from fpstore.text import recipes

_DRAWN = random.Random(7)
HEX = [f"{_DRAWN.getrandbits(64):016x}" for _ in range(50)]
DECIMAL = [str(_DRAWN.getrandbits(64)) for _ in range(50)]
WIDE = [f"{_DRAWN.getrandbits(256):064x}" for _ in range(3)]
OBJECTS = '{"text": "one two"}\n{"text": "three"}\n'

LONG = [str(_DRAWN.getrandbits(63) | 1 << 62) for _ in range(50)]
IN_MOST, TABLE = "fingerprints of 64 bits in most lines", "csv or tsv, as a table, or hex, where a line is one"

FINGERPRINTS = {
    "hexadecimal": ("\n".join(HEX), "nothing but hexadecimal fingerprints of 64 bits", "hex"),
    "one": (HEX[0], "nothing but hexadecimal fingerprints of 64 bits", "hex"),
    "blank lines and a mark": ("\ufeff\n\n" + "\r\n".join(HEX) + "\r\n\r\n", "hexadecimal", "hex"),
    "with 0x": ("\n".join(f"0x{value}" for value in HEX), "hexadecimal", "hex"),
    "all digits are decimal": ("1234567890123456\n2234567890123456\n", "hexadecimal", "hex"),
    "with ids": ("\n".join(f"{value}\t{n}" for n, value in enumerate(HEX)), "hexadecimal", "hex"),
    "with names": (
        "\n".join(f"{value}\tdocument {n}" for n, value in enumerate(HEX)),
        "hexadecimal fingerprints of 64 bits and names",
        "tsv with --fingerprint-column 0, --id-column 1 and --id-type string",
    ),
    "as %x writes them": (
        "\n".join(["cafe", "12345678901234", "0", *(f"{int(value, 16):x}" for value in HEX)]),
        "nothing but shortened hexadecimal fingerprints of 64 bits",
        "hex with .* hex",
    ),
    "and a total": ("\n".join([*HEX, "total: 50"]), IN_MOST, TABLE),
    "of which one is cut": ("\n".join([*HEX[:-1], "-" + HEX[-1][:7]]), IN_MOST, TABLE),
    "under a name": ("\n".join(["simhash", *HEX]), IN_MOST, TABLE),
    "under a comment": ("\n".join(["# of images", "", *HEX]), IN_MOST, TABLE),
    "behind ids": ("\n".join(f"{n}\t{value}" for n, value in enumerate(HEX)), IN_MOST, TABLE),
    "before names": ("\n".join(f"{value}  img/{n}.jpg" for n, value in enumerate(HEX)), IN_MOST, TABLE),
    "in quotation marks": ("\n".join(f'"{value}"' for value in HEX), IN_MOST, TABLE),
    "decimal, behind names": ("\n".join(f"{n},{value}" for n, value in enumerate(LONG)), IN_MOST, TABLE),
    "hexadecimal and decimal": (f"{HEX[0]}\n{2**63}\n", IN_MOST, TABLE),
    "of 256 bits, behind names": (
        "\n".join(f"a.png,{value}" for value in WIDE),
        "of 256 bits in most lines",
        "csv or tsv with --bits 256",
    ),
    "decimal": ("\n".join(DECIMAL), "nothing but decimal fingerprints of 64 bits", "hex with .* decimal"),
    "of 256 bits": ("\n".join(WIDE), "hexadecimal fingerprints of 256 bits", "hex with --bits 256"),
}
ROWS = {
    "JSON lines": (OBJECTS, "JSON objects, one a line", "jsonl"),
    "one object": ('\n{"text": "one"}', "JSON objects, one a line", "jsonl"),
    "long objects": (
        json.dumps({"text": "a" * _LONGEST_OBJECT}) + "\n" + OBJECTS,
        "JSON objects, one a line",
        "jsonl",
    ),
    "an array": (json.dumps([{"text": "one"}, {"text": "two"}], indent=1), "an array of JSON objects", "json"),
    "a table": ("url,text\na,one two\nb,three\n", "a table with columns url,text", "csv"),
    "a table of tabs": ("ID\tURL\n1\ta\n", "a table with columns ID\tURL", "tsv"),
    "an archive": ("WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\n", "an archive of pages", "warc"),
}
TEXTS = {
    "words": "one two three\nfour",
    "nothing": "",
    "blank lines": " \n\n",
    "years": "1999\n2001\n",
    "telephones": "4915112345678\n4915112345679\n",
    "hexadecimal among words": "\n".join([*HEX[:3], "one", "two", "three"]),
    "words and then hexadecimal": "\n".join(["one", "two", "three", "four", *HEX]),
    "one line of hexadecimal and words": f"{HEX[0]} is one",
    "cards": "1234567890123456 Ann\n1234567890123457 Bob\n",
    "addresses": "at 0x7fff12345678 in main\nat 0x7fff12345679 in start\n",
    "a first line with commas": "text,id\nand so on\n",
    "words with commas": "this,that\none, two\n",
    "a list of objects and words": '[{"a": 1}] and so on',
    "short hexadecimal": "cafe\nbabe\n",
    "a printed object": json.dumps({"text": "one"}, indent=2),
    "an object and words": '{"a": 1}\nand so on',
    "a list": "[1, 2]\n[3]",
    "a brace": "{ one",
    "a long brace": "{" + "a" * _LONGEST_OBJECT + "\n",
    "a deep list": '{"a":' + "[" * 100_000 + "\n",
    "words about WARC/1.0": "words about WARC/1.0",
}


@pytest.mark.parametrize(("text", "found", "meant"), (FINGERPRINTS | ROWS).values(), ids=FINGERPRINTS | ROWS)
def test_a_text_that_may_be_rows_is_refused_and_said_to_be_a_text_it_is_one(
    text: str, found: str, meant: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    for skips in (False, True):
        told = rf"a\.txt: found .*{found}.*; expected .*--format\) {meant}.*, or text"
        with pytest.raises(BadInput, match=told) as met:
            list(read([path], skip_bad=skips))
        assert met.value.source == str(path)
    reader = read([path], format="text")
    assert [len(batch.fingerprints) for batch in reader] == [1]
    assert not reader.notes


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_a_text_is_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    reader = read([path])
    assert sum(len(batch.fingerprints) for batch in reader) == 1
    assert not reader.notes


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=5), st.booleans())
def test_whatever_the_hex_reader_takes_is_refused_as_a_text(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], prefixed: bool
) -> None:
    """Whoever writes a list of fingerprints as format hex has it can call it .txt, and is told."""
    path = tmp_path_factory.mktemp("meant") / "a.txt"
    path.write_text("".join(f"{'0x' if prefixed else ''}{value:016x}\n" for value in values))
    assert [value for batch in read([path], format="hex") for value in batch.fingerprints.tolist()] == values
    with pytest.raises(BadInput, match="hexadecimal fingerprints"):
        list(read([path]))


def test_fingerprints_of_the_width_that_is_asked_for_are_known(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("beef\ncafe\n")
    with pytest.raises(BadInput, match=r"hexadecimal fingerprints of 16 bits.*--format\) hex, or text"):
        list(read([path], bits=16))


@pytest.mark.parametrize(("text", "found", "meant"), ROWS.values(), ids=ROWS)
def test_a_job_refuses_what_may_be_many_texts(text: str, found: str, meant: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(BadInput, match=rf"found {found}.*{meant}, or text"):
        list(documents([path]))
    assert len(list(documents([path], format="text"))) == 1


def test_where_only_texts_can_be_meant_a_list_of_fingerprints_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(HEX))
    table = tmp_path / "b.csv"
    table.write_text("text\none two\n")
    assert len(list(documents([path]))) == 1
    assert sum(len(batch.fingerprints) for batch in read([path], recipe=recipes()["minhash-128"])) == 1
    assert sum(len(batch.fingerprints) for batch in read([path, table], text_column="text")) == 2


def test_the_first_of_a_folder_decides_and_of_the_others_it_is_noted(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.txt").write_text("\n".join(HEX))
    (folder / "c.txt").write_text(OBJECTS)
    with pytest.raises(BadInput, match=r"b\.txt: found nothing but hexadecimal"):
        list(read([folder]))
    (folder / "a.txt").write_text("one two three")
    reader = read([folder])
    assert sum(len(batch.fingerprints) for batch in reader) == 3
    assert reader.notes == {
        "text of nothing but hexadecimal fingerprints of 64 bits, read as one": 1,
        "text of JSON objects, one a line, read as one": 1,
    }
    with pytest.raises(BadInput, match=r"c\.txt: found JSON objects"):
        list(read([folder / "a.txt", folder / "c.txt"]))


@pytest.mark.parametrize(
    ("text", "more", "base"),
    [
        ("\n".join(HEX), ["--format", "hex"], 16),
        ("\n".join(HEX) + "\n", ["--format", "hex"], 16),
        ("\n".join(DECIMAL), ["--format", "hex", "--fingerprint-format", "decimal"], 10),
        ("\n".join(f"{int(value, 16):x}" for value in HEX), ["--format", "hex", "--fingerprint-format", "hex"], 16),
        (
            "\n".join(f"{value}\tdocument {n}" for n, value in enumerate(HEX)),
            ["--format", "tsv", "--fingerprint-column", "0", "--id-column", "1", "--id-type", "string"],
            16,
        ),
        ("\n".join(["simhash", *HEX]), ["--format", "csv"], 16),
        ("\n".join(["url,simhash", *(f"a,{value}" for value in HEX)]), ["--format", "csv"], 16),
        (
            "\n".join(f"{n}\t{value}" for n, value in enumerate(HEX)),
            ["--format", "tsv", "--fingerprint-column", "1", "--id-column", "0"],
            16,
        ),
    ],
    ids=["hexadecimal", "ended", "decimal", "shortened", "with names", "under a name", "a table", "behind ids"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_the_advice_of_a_build_works(
    text: str, more: list[str], base: int, encoding: str, tmp_path: Path, command: Command
) -> None:
    """Of Windows too, where PowerShell writes UTF-16."""
    path, store = tmp_path / "a.txt", tmp_path / "s"
    path.write_bytes((("\ufeff" if encoding == "utf-16-be" else "") + text).encode(encoding))
    outcome = command("build", store, path)
    assert outcome.status == 1
    for option in more[1::2]:
        assert option in outcome.err or option.isdecimal()
    assert not store.exists()
    assert command("build", store, path, *more).status == 0
    written = [cell for cell in text.replace(",", "\t").replace("\t", "\n").split("\n") if len(cell) > 13]
    expected: list[Any] = sorted(int(value, base) for value in written)
    assert len(expected) == len(HEX)
    with fpstore.open(store) as opened:
        assert [row.fingerprint for rows in opened.rows() for row in rows] == expected
