"""How a name stands in a line: every command writes it in one way, and what is written can be asked for."""

# mypy: disable-error-code="union-attr"

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from outcome import Command

import fpstore
from fpstore.inputs.escapes import _ODD, cells_read, escaped, json_of, unescaped

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
# What ends a line, moves a cursor, or turns the order of characters around.
ODD = ["\t", "\n", "\r", "\0", "\x1b[31m", "\x7f", "\x85", "\x9b31m", "\u2028", "\u2029", "\u202e", "\u2066", "\ufeff"]
NAMES = [
    *(f"a{each}b" for each in ODD),
    "\\",
    "\\n",
    "C:\\temp",
    '"',
    'a"b',
    "'",
    "é",
    "\U0001f600",
    "-",
    " a ",
    "good",
]
BYTES = [*(name.encode() for name in NAMES), b"caf\xe9", b"caf\\xe9", b"\x9b", b"\xc2\x9b", b"\xff\0", b"\xed\xa0\x80"]
IDS: dict[str, list[Any]] = {"string": NAMES, "bytes": BYTES, "uint64": [0, 7, 2**63, 2**64 - 1]}


@given(TEXTS)
@example("\\\t\n\r\0\x85\u202e\U0001f600")
def test_a_name_of_text_is_written_so_that_it_can_be_read(name: str) -> None:
    written = escaped(name)
    assert unescaped(written).decode() == name
    assert len(written.splitlines()) <= 1
    assert not {*map(ord, written)} & {*_ODD}


@given(st.binary())
@example(b"caf\xe9")
@example(b"caf\\xe9")
@example(b"\x9b\xc2\x9b\\u009b")
def test_a_name_of_bytes_is_written_so_that_it_can_be_read(name: bytes) -> None:
    written = escaped(name)
    assert unescaped(written) == name
    assert written.encode().isascii() or written.encode().decode() == written
    assert not {*map(ord, written)} & {*_ODD}


@given(st.text())
def test_a_name_in_json_is_read_as_it_was_and_speaks_to_no_terminal(name: str) -> None:
    written = json_of({"id": name})
    assert json.loads(written) == {"id": name}
    assert not {*map(ord, written)} & {*_ODD}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("\t\n\r\\", r"\t\n\r\\"),
        ("\x1b\x7f\x85", r"\x1b\x7f\u0085"),
        ("\u202eé", r"\u202eé"),
        (b"caf\xe9", r"caf\xe9"),
        (b"caf\\xe9", r"caf\\xe9"),
        (b"caf\xc3\xa9", "café"),
        ("\udcff", r"\xff"),
        ("\ud800", r"\ud800"),
    ],
)
def test_a_name_is_written_as_the_page_says(name: str | bytes, written: str) -> None:
    assert escaped(name) == written


@pytest.mark.parametrize("written", ["\\", "a\\q", "\\x1", "\\xgg", "\\u12", "\\ud800", "\\U00110000", "\\U0000dc80"])
def test_a_backslash_that_begins_nothing_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"found \\[^,]*, expected \\\\ for a backslash, or \\t, "):
        unescaped(written)


def test_capitals_and_long_forms_are_read_too() -> None:
    assert cells_read(["\\xE9", "\\U0001F600", "a"]) == ["\udce9", "\U0001f600", "a"]


def store_of(path: Path, id_type: Any) -> Path:
    """Each id with a fingerprint of its own, all of them near each other."""
    ids = IDS[id_type]
    column = np.array(ids, dtype=np.uint64) if id_type == "uint64" else ids
    fpstore.build(path, np.zeros(len(ids), dtype=np.uint64), ids=column, id_type=id_type).close()
    return path


def by_text(cell: str, id_type: str) -> Any:
    if id_type == "uint64":
        return int(cell) % 2**64
    return unescaped(cell).decode() if id_type == "string" else unescaped(cell)


def by_json(value: str, id_type: str) -> Any:
    if id_type == "uint64":
        return int(value) % 2**64
    return value if id_type == "string" else value.encode("utf-8", "surrogateescape")


# What each command prints of ids: its arguments, the places of ids in a line, and their names in JSON.
PRINTED: dict[str, tuple[Callable[[Path, Path], list[object]], list[int], list[str]]] = {
    "probe": (lambda store, new: ["probe", store, "0"], [3], ["id"]),
    "nearest": (lambda store, new: ["nearest", store, "0", "--count", 999], [3], ["id"]),
    "pairs": (lambda store, new: ["pairs", store, "--of", "ids"], [0, 1], ["first_id", "second_id"]),
    "add": (lambda store, new: ["add", store, new, "--if-new"], [0], ["id"]),
}


@pytest.mark.parametrize("way", ["text", "json", "signed"])
@pytest.mark.parametrize("id_type", IDS)
@pytest.mark.parametrize("name", PRINTED)
def test_every_command_writes_ids_in_one_way(
    command: Command, tmp_path: Path, name: str, id_type: str, way: str
) -> None:
    store, new = store_of(tmp_path / "s", id_type), tmp_path / "new.parquet"
    assert command("export", store, new).status == 0
    arguments, places, fields = PRINTED[name]
    done = command(*arguments(store, new), *({"text": [], "json": ["--json"], "signed": ["--signed"]}[way]))
    if (name, way) == ("pairs", "signed") and id_type != "uint64":  # no number is written
        assert (done.status, done.out) == (2, "")
        return
    assert done.status == 0, done.err
    assert not {*map(ord, done.out)} & {*_ODD} - {9, 10}
    lines = done.out.removesuffix("\n").split("\n")
    found = [
        {field: by_json(json.loads(line)[field], id_type) for field in fields}
        if way == "json"
        else {field: by_text(line.split("\t")[place], id_type) for field, place in zip(fields, places, strict=True)}
        for line in lines
    ]
    expected = sorted(IDS[id_type])
    if name == "pairs":
        assert sorted((pair["first_id"], pair["second_id"]) for pair in found) == [
            (first, second) for index, first in enumerate(expected) for second in expected[index + 1 :]
        ]
    else:
        assert sorted(row["id"] for row in found) == expected


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
@pytest.mark.parametrize("id_type", IDS)
def test_clusters_of_a_store_are_told_in_that_way_too(
    command: Command, tmp_path: Path, id_type: str, suffix: str
) -> None:
    store, out = store_of(tmp_path / "s", id_type), tmp_path / f"o.{suffix}"
    assert command("cluster", store, "-o", out).status == 0
    text = out.read_bytes().decode()
    assert not {*map(ord, text)} & {*_ODD} - {9, 10}
    lines = text.removesuffix("\n").split("\n")
    if suffix == "jsonl":
        found = [by_json(str(json.loads(line)["id"]), id_type) for line in lines]
    else:
        found = [by_text(line.split("\t")[1], id_type) for line in lines]
    assert sorted(found) == sorted(IDS[id_type])


@pytest.mark.parametrize("id_type", IDS)
def test_what_is_printed_can_be_asked_for(command: Command, tmp_path: Path, id_type: str) -> None:
    store = store_of(tmp_path / "s", id_type)
    printed = [line.split("\t")[3] for line in command("probe", store, "0").out.splitlines()]
    done = command("lookup", store, "--", *printed)
    assert sorted(line.split("\t")[0] for line in done.out.splitlines()) == sorted(printed)
    assert len(printed) == len(IDS[id_type])
    for each in printed:
        assert "removed 1 row" in command("remove", store, f"--id={each}").err


@pytest.mark.parametrize("typed", ["C:\\temp\\q", "\\"])
@pytest.mark.parametrize("id_type", ["string", "bytes"])
def test_an_argument_with_another_backslash_is_refused(
    command: Command, tmp_path: Path, id_type: str, typed: str
) -> None:
    done = command("lookup", store_of(tmp_path / "s", id_type), typed)
    assert done.status == 2
    assert "id: found \\" in done.err
    assert "for a backslash" in done.err


def test_an_argument_that_is_no_text_is_refused_where_ids_are_text(command: Command, tmp_path: Path) -> None:
    done = command("lookup", store_of(tmp_path / "s", "string"), "caf\\xe9")
    assert (done.status, done.out) == (2, "")
    assert "expected text, in UTF-8" in done.err


@pytest.mark.parametrize("id_type", ["string", "bytes"])
def test_lines_that_are_kept_are_read_by_their_format(command: Command, tmp_path: Path, id_type: str) -> None:
    store, lines = store_of(tmp_path / "s", id_type), tmp_path / "lines.tsv"
    printed = command("probe", store, "0", "--header").out
    lines.write_text(printed)
    rows = sorted(line.split("\t")[3] for line in printed.splitlines()[1:])
    done = command("lookup", store, "--input", lines, "--id-column", "id", "--format", "tsv-escaped")
    assert sorted(line.split("\t")[0] for line in done.out.splitlines()) == rows
    for format, found in (("tsv-escaped", ["a\\b", "a\tb"]), ("tsv-plain", ["a\\\\b", "a\\tb"])):
        new = tmp_path / format
        lines.write_text("fingerprint\tid\n0000000000000001\ta\\\\b\n0000000000000002\ta\\tb\n")
        done = command("build", new, lines, "--id-type", id_type, "--format", format)
        assert done.status == 0, done.err
        with fpstore.open(new) as opened:
            ids = [row.id for each in opened.rows() for row in each]
        names = [each if isinstance(each, str) else each.decode() for each in ids]
        assert names == found


@pytest.mark.parametrize("skip_bad", [[], ["--skip-bad"]])
def test_a_name_with_a_backslash_in_tsv_is_asked_about(command: Command, tmp_path: Path, skip_bad: list[str]) -> None:
    lines = tmp_path / "lines.tsv"
    lines.write_text("fingerprint\tid\tother\n0000000000000001\ta\tx\\\n0000000000000002\tC:\\new\tx\n")
    done = command("build", tmp_path / "s", lines, "--id-type", "string", *skip_bad)
    assert done.status == 1
    assert "lines.tsv, line 3: found a name with a backslash, expected format (--format) tsv-escaped" in done.err
    assert not (tmp_path / "s").exists()
    lines.write_text("id\nC:\\new\n")
    done = command("lookup", store_of(tmp_path / "t", "string"), "--input", lines, *skip_bad)
    assert (done.status, "found a name with a backslash" in done.err) == (1, True)


def test_an_escape_that_is_none_is_a_bad_line(command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "lines.tsv"
    lines.write_text("fingerprint\tid\n0000000000000001\ta\\q\n0000000000000002\tb\n")
    how = ["build", tmp_path / "s", lines, "--id-type", "string", "--format", "tsv-escaped"]
    done = command(*how)
    assert (done.status, "line 2: found \\q, expected" in done.err) == (1, True)
    done = command(*how, "--skip-bad")
    assert (done.status, "passed over: 1 bad line" in done.err) == (0, True)
