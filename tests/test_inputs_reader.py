"""The one door to all formats: which format a source has, rows across sources, and what is refused at once."""

# mypy: disable-error-code="union-attr"

import gzip
import io
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpstore.inputs import BadInput, documents, format_of, read
from fpstore.inputs.errors import shown
from fpstore.inputs.reader import Reader
from fpstore.text import DEFAULT_RECIPE, Recipe, cleaning, fingerprint, recipes
from fpstore.text.short import Lengths


def hex_file(path: Path, *values: object) -> Path:
    path.write_text("".join(f"{value:016x}\n" for value in values))
    return path


def flat(reader: Reader) -> tuple[list[int], list[int]]:
    batches = list(reader)
    return (
        [int(value) for batch in batches for value in batch.fingerprints],
        [int(value) for batch in batches for value in batch.ids],
    )


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.npy", "npy"),
        ("a.u64", "u64"),
        ("a.HEX", "hex"),
        ("a.csv.gz", "csv"),
        ("a.tsv.ZST", "tsv"),
        ("a.parquet", "parquet"),
        ("a.jsonl.zst", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.b.txt", "text"),
    ],
)
def test_the_suffix_before_gz_and_zst_tells_the_format(name: str, format: str) -> None:
    assert format_of(name) == format
    assert format_of(Path("some.npy") / name) == format


@pytest.mark.parametrize(("name", "found"), [("a", "none"), ("a.gz", "none"), ("a.bin", ".bin"), (".npy", "none")])
def test_an_unknown_suffix_is_refused_with_those_that_are_known(tmp_path: Path, name: str, found: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(
        ValueError, match=rf"{name}: found suffix {found}, expected \.npy, \.u64, .*\.txt, .*\.wet or a format"
    ):
        read([tmp_path / name])


def test_standard_input_needs_a_format() -> None:
    with pytest.raises(ValueError, match="standard input: found no suffix to tell its format, expected one of npy,"):
        read(["-"])


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("format", ["npy", "u64", "hex", "csv", "tsv", "jsonl", "text"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_read_in_every_format_that_can_be_streamed(
    monkeypatch: pytest.MonkeyPatch, format: str, pack: Callable[..., Any] | type[bytes]
) -> None:
    npy = io.BytesIO()
    np.save(npy, np.array([5], dtype=np.uint64))
    data = {
        "npy": npy.getvalue(),
        "u64": (5).to_bytes(8, "little"),
        "hex": b"0x5",
        "csv": b"0x5",
        "tsv": b"0x5",
        "jsonl": b'{"text": "one"}',
        "text": b"one",
        "html": b"<p>one",
        "warc": b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 3\r\n\r\none\r\n\r\n",
    }[format]
    if format == "u64":
        pack = bytes  # of raw bytes only a suffix can say that they are compressed
    standard_input(monkeypatch, pack(data))
    assert flat(read(["-"], format=format))[0] == [
        fingerprint("one") if format in ("jsonl", "text", "html", "warc") else 5
    ]


def test_errors_in_standard_input_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b"0x5\nwrong\n")
    with pytest.raises(BadInput, match=r"^standard input, line 2: found 'wrong'"):
        list(read(["-"], format="hex"))


def test_rows_are_numbered_across_sources_bad_ones_included(tmp_path: Path) -> None:
    first = tmp_path / "a.hex"
    first.write_text("0x1\nwrong\n0x3\nwrong\n")
    second = tmp_path / "b.npy"
    np.save(second, np.array([4, -5, 6, -7], dtype=np.int32))
    third = tmp_path / "c.csv"
    third.write_text("0x7\n")
    reader = read([first, second, third], skip_bad=True)
    assert flat(reader) == ([1, 3, 4, 6, 7], [0, 2, 4, 6, 8])
    assert sum(reader.skipped.values()) == 4
    reader = read([first, second, third], skip_bad=True, ids="row", first_id=2**64 - 9)
    assert flat(reader)[1] == [2**64 - 9 + row for row in (0, 2, 4, 6, 8)]
    with pytest.raises(ValueError, match=r"first_id: found id 18446744073709551616 for a row, expected at most"):
        list(read([first, second, third], skip_bad=True, ids="row", first_id=2**64 - 8))


def test_batches_are_filled_across_sources(tmp_path: Path) -> None:
    paths = [hex_file(tmp_path / f"{name}.hex", *range(name, name + 5)) for name in range(0, 50, 5)]
    sizes = [len(batch.fingerprints) for batch in read(paths, batch=16)]
    assert sizes == [16, 16, 16, 2]
    assert flat(read(paths, batch=16)) == (list(range(50)), list(range(50)))


def test_no_sources_give_no_batches() -> None:
    reader = read([])
    assert list(reader) == []
    assert reader.total_bytes == 0


def test_a_reader_tells_its_size_its_recipe_and_the_bytes_it_read(tmp_path: Path) -> None:
    numbers = hex_file(tmp_path / "a.hex", 1, 2)
    text = tmp_path / "b.txt"
    text.write_text("one")
    told: list[Any] = []
    more = hex_file(tmp_path / "c.hex", 3, 4)
    reader = read([numbers, more], on_bytes=told.append)
    assert reader.total_bytes == 34 + 34
    list(reader)
    assert sum(told) == 68
    more.unlink()
    assert read([text]).recipe == DEFAULT_RECIPE
    assert read([numbers], recipe=Recipe("mine")).recipe is None
    assert read([text], recipe=Recipe("mine")).recipe == Recipe("mine")
    assert read([tmp_path], format="text").total_bytes == 34 + 3
    assert documents([text]).total_bytes == 3


def test_texts_and_fingerprints_in_one_input_are_refused_with_the_names_of_both(tmp_path: Path) -> None:
    numbers = hex_file(tmp_path / "a.hex", 1)
    text, lines = tmp_path / "b.txt", tmp_path / "c.jsonl"
    text.write_text("one")
    lines.write_text('{"text": "one", "simhash": "00000000000000ff"}')
    with pytest.raises(BadInput, match=r"found fields text, simhash; expected fingerprint_column .* or text_column"):
        read([lines])
    assert len(list(read([lines], text_column="text"))) == 1
    assert len(list(read([lines], fingerprint_column="simhash"))) == 1
    lines.write_text('{"text": "one"}')
    for texts in (text, lines):
        for sources in ([numbers, texts], [texts, numbers]):
            with pytest.raises(ValueError, match="expected only one of the two") as caught:
                read(sources)
            assert str(caught.value).startswith(f"{texts}: found texts")
            assert f"fingerprints in {numbers} (format hex)" in str(caught.value)
    assert len(list(read([text, lines]))) == 1


def test_the_standard_input_has_no_size() -> None:
    assert read(["-"], format="hex").total_bytes is None


def test_a_reader_that_is_closed_early_closes_its_file(tmp_path: Path) -> None:
    path = hex_file(tmp_path / "a.hex", *range(10_000))
    before = set(os.listdir("/proc/self/fd"))
    reader = read([path], batch=1)
    next(reader)
    assert set(os.listdir("/proc/self/fd")) != before
    reader.close()
    assert set(os.listdir("/proc/self/fd")) == before
    for name in ("b.txt", "c.txt"):
        (tmp_path / name).write_text("one")
    named = documents([tmp_path / "b.txt", tmp_path / "c.txt"])
    next(named)
    named.close()
    assert list(named) == []


def test_documents_count_what_they_skip(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\nwrong\n{"text": 5}\n')
    named = documents([tmp_path / "a.jsonl"], skip_bad=True)
    assert [text for _, text in named] == ["one"]
    assert sum(named.skipped.values()) == 2


def test_a_missing_last_source_is_known_before_the_first_is_read(tmp_path: Path) -> None:
    path = hex_file(tmp_path / "a.hex", 1)
    with pytest.raises(FileNotFoundError):
        read([path, tmp_path / "missing.hex"])


def test_a_source_that_may_not_be_read_is_the_systems_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = hex_file(tmp_path / "a.hex", 1)

    def refuse(*_: object, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError):
        next(read([path]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"format": "xml"},
            "format: found 'xml', expected one of auto, npy, u64, hex, csv, tsv, tsv-quoted, tsv-plain",
        ),
        ({"batch": 0}, "batch: found 0, expected at least 1"),
        ({"fingerprint_column": 0, "text_column": 1}, "fingerprint_column and text_column: found both"),
        ({"fingerprint_column": -1}, "fingerprint_column: found -1, expected a name or a number from 0"),
        ({"text_column": -1}, "text_column: found -1, expected a name or a number from 0"),
        ({"id_column": -1}, "id_column: found -1, expected a name or a number from 0"),
        ({"ids": "id"}, r"ids: found 'id', expected one of auto, column, row or None; a column is id_column"),
        ({"ids": "row", "id_column": "id"}, "id_column: found it with ids 'row', expected ids 'column'"),
        ({"ids": None, "id_column": "id"}, "id_column: found it with ids None, expected ids 'column'"),
        ({"fingerprint_format": "octal"}, "fingerprint_format: found 'octal', expected auto, hex, decimal"),
        ({"fingerprint_format": "hex", "format": "u64"}, r"fingerprint_format .*, expected none for format u64"),
        (
            {"fingerprint_format": "hex", "format": "text"},
            r"fingerprint_format .*, expected none for format text",
        ),
        ({"first_id": 5}, "first_id: found 5 with ids 'auto', expected ids 'row'"),
        ({"first_id": 2**64, "ids": "row"}, r"first_id: found 18446744073709551616, expected 0 to 2\*\*64 - 1"),
        ({"id_column": 2}, r"a\.hex: found id_column 2, expected none for format hex"),
        ({"id_column": "id"}, r"a\.hex: found id_column 'id', expected none for format hex"),
        ({"ids": "column", "format": "u64"}, r"a\.hex: found ids of a column, expected .* for format u64"),
        ({"ids": "column", "format": "npy"}, r"a\.hex: found ids of a column, expected .* for format npy"),
        ({"id_column": "id", "format": "text"}, r"a\.hex: found ids of a column, expected .* for format text"),
        ({"fingerprint_column": 0}, r"a\.hex: found column 0, expected none for format hex"),
        ({"text_column": "t"}, r"a\.hex: found column 't', expected none for format hex"),
        ({"fingerprint_column": 0, "format": "text"}, r"a\.hex: found column 0, expected none for format text"),
        ({"fingerprint_column": 0, "format": "jsonl"}, r"a\.hex: found a column number, expected the name of a field"),
        ({"html": True}, r"a\.hex: found html for fingerprints of format hex, expected texts"),
        ({"id_column": 0, "format": "jsonl"}, r"a\.hex: found a column number, expected the name of a field"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(tmp_path: Path, options: Any, message: str) -> None:
    path = hex_file(tmp_path / "a.hex", 1)
    with pytest.raises(ValueError, match=message) as caught:
        read([path], **options)
    assert not isinstance(caught.value, BadInput)


@pytest.mark.parametrize(("format", "name"), [("html", "a.html"), ("text", "a.txt")])
def test_pages_of_files_and_trees_become_their_text(tmp_path: Path, format: str, name: str) -> None:
    page = "<nav>menu</nav><p>caf\xe9 one".encode("latin1") + b"<meta charset=latin1>"
    recipe = recipes()["web-en"]  # the main text, be it ever so short
    (tmp_path / name).write_bytes(page)
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"<p>two"))
    found = documents([tmp_path], format=format, html=True, recipe=recipe)
    assert list(found) == [(str(tmp_path / name), "caf\xe9 one"), (str(tmp_path / "b.gz"), "two")]
    expected = [recipe.fingerprint("caf\xe9 one"), recipe.fingerprint("two")]
    assert flat(read([tmp_path], format=format, html=True, recipe=recipe))[0] == expected
    assert flat(read([tmp_path / name, tmp_path / "b.gz"], format="html", recipe=recipe))[0] == expected


@pytest.mark.parametrize("suffix", ["html", "htm", "xhtml", "HTML.gz"])
def test_a_page_is_known_by_its_suffix(suffix: str) -> None:
    assert format_of(f"a.{suffix}") == "html"


def test_pages_in_columns_become_their_text(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("id,page\n1,<nav>menu</nav><p>one\n2,<p>two\n")
    found = documents([table], text_column="page", html=True, recipe=recipes()["web-en"])
    assert [text for _, text in found] == ["one", "two"]
    recipe = Recipe("all", html="all")
    assert next(documents([table], text_column="page", html=True, recipe=recipe))[1].split() == ["menu", "one"]
    reader = read([table], text_column="page", html=True, recipe=recipe, id_column="id")
    assert flat(reader) == ([recipe.fingerprint("menu one"), recipe.fingerprint("two")], [1, 2])


def test_a_page_that_is_too_large_is_named_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MAX_HTML_BYTES", 10)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "<p>one"}\n{"text": "<p>one two three"}\n')
    with pytest.raises(BadInput, match=r"a\.jsonl, line 2: html: found 16 bytes, expected at most 10"):
        list(read([path], html=True))
    reader = read([path], html=True, skip_bad=True)
    assert flat(reader) == ([fingerprint("one")], [0])
    assert sum(reader.skipped.values()) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_no_fingerprint(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "some words and {number} more of them"}}\n' for number in range(5000)))
    expected = [fingerprint(f"some words and {number} more of them") for number in range(5000)]
    assert flat(read([path], threads=threads))[0] == expected


def test_a_reader_knows_how_long_its_texts_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one two"}\n' * 3 + '{"text": "%s"}\n' % ("word " * 500))
    reader = read([path])
    list(reader)
    assert (reader.lengths.texts, reader.lengths.short) == (4, 3)
    assert reader.lengths.warning is not None
    assert "3 of 4 texts have fewer than 35 tokens, too few for recipe text-1 and k = 3" in reader.lengths.warning
    assert read([path]).lengths.warning is None


@pytest.mark.parametrize(
    ("name", "k", "said"),
    [
        ("web-en", 3, "; recipe text-1 finds more of such texts"),
        ("text-1", 3, "; k = 6 finds more of such texts"),
        ("text-1", 6, " as often as not"),
        ("exact", 3, " as often as not"),
    ],
)
def test_what_finds_more_is_advised_for_short_texts_but_never_the_recipe_in_use(name: str, k: int, said: str) -> None:
    lengths = Lengths(recipes()[name], k)
    lengths.see(["word"], recipes()[name].measure_many(["word"] if name != "exact" else [""]))
    assert lengths.warning is not None
    assert lengths.warning.partition(". ")[0].endswith(said)
    assert f"recipe {name} finds" not in lengths.warning


def test_standard_input_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="standard input: found it more than once"):
        read(["-", "-"], format="hex")


def test_parquet_from_a_stream_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet.gz").touch()
    for source in ("-", tmp_path / "a.parquet.gz"):
        with pytest.raises(ValueError, match="found a stream, expected a plain file for format parquet"):
            read([source], format="parquet")


@pytest.mark.parametrize("sources", ["a.hex", Path("a.hex")])
def test_one_path_in_place_of_a_list_is_a_type_error(sources: Any) -> None:
    with pytest.raises(TypeError, match=r"sources: found one .*, expected a list of paths"):
        read(sources)


def test_documents_of_a_source_without_texts_are_refused(tmp_path: Path) -> None:
    path = hex_file(tmp_path / "a.hex", 1)
    with pytest.raises(ValueError, match=r"a\.hex: found fingerprints by format hex, expected texts"):
        documents([path])


def test_what_was_found_is_shown_on_one_short_line() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 10**6)) < 60
    assert len(shown(b"\xff" * 10**6)) < 60
    assert len(shown({"a": "x" * 1000})) < 60
    assert shown("x" * 40) == repr("x" * 40)


def test_importing_the_inputs_imports_no_optional_package() -> None:
    script = (
        "import sys, fpstore.inputs, fpstore.text;"
        "print(*({'pyarrow', 'msgspec', 'zstandard', 'tqdm'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
