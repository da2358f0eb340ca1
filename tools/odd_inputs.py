"""A hundred odd inputs through the command line: what is done with each, what is said, with which status.

    python tools/odd_inputs.py [--match REGEX]

Folders of every kind, columns of every type, every suffix of a result, empty files and files of one row, broken and
foreign bytes. Prints a table. Each case says what must come of it: a status, and a word that must be said where it is
refused or where something was passed over. Exit status 1 if one came otherwise. No case may end in an internal error.
"""

import argparse
import contextlib
import gzip
import importlib
import json
import lzma
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from arguments import parse_pattern

import fpstore
from fpstore.cli import main as main_of_fpstore

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "omicron",
    "pi",
    "rho",
    "sigma",
    "tau",
]
TEXTS = [" ".join(f"{word}{number}{part}" for part in "abcdefghi" for word in WORDS) for number in (1, 2)]
NEAR = TEXTS[0] + " end"
HEX = ["00000000000000ff", "ffffffffffffff00", "123456789abcdef0"]
NUMBERS = [int(digits, 16) for digits in HEX]
MOST_SAID = 110
SECONDS = 120  # after which a case is ended


@dataclass(frozen=True)
class Case:
    """What is made, what is asked, and what must come of it."""

    name: str
    make: Callable[[Path], object]
    command: str
    status: int
    said: str = ""


def lines(name: str, rows: list[str]) -> Callable[[Path], object]:
    """A file of lines."""
    return lambda folder: (folder / name).write_text("".join(f"{row}\n" for row in rows))


def raw(name: str, data: bytes) -> Callable[[Path], object]:
    """A file of bytes."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return make


def both(*makers: Callable[[Path], object]) -> Callable[[Path], object]:
    """Several of them."""
    return lambda folder: [make(folder) for make in makers]


def jsonl(name: str, texts: list[str], **more: object) -> Callable[[Path], object]:
    """JSON lines with a text each."""
    return raw(name, "".join(json.dumps({"text": text, **more}) + "\n" for text in texts).encode())


def array(name: str, values: object) -> Callable[[Path], object]:
    """A .npy file."""
    return lambda folder: np.save(folder / name, np.asarray(values))


def parquet(name: str, **columns: object) -> Callable[[Path], object]:
    """A Parquet file."""

    def make(folder: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table(columns), folder / name)

    return make


def arrow(values: object, kind: str) -> object:
    """An Arrow array of this type."""
    import pyarrow

    kinds = {
        "decimal": pyarrow.decimal128(20, 0),
        "binary8": pyarrow.binary(8),
        "binary": pyarrow.binary(),
        "list": pyarrow.list_(pyarrow.string()),
        "int8": pyarrow.int8(),
        "int32": pyarrow.int32(),
        "uint8": pyarrow.uint8(),
        "large_string": pyarrow.large_string(),
        "string_view": pyarrow.string_view(),
        "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
        "decimal256": pyarrow.decimal256(40, 0),
        "decimal 20, 2": pyarrow.decimal128(20, 2),
        "timestamp": pyarrow.timestamp("us"),
        "float": pyarrow.float64(),
        "null": pyarrow.null(),
        "bool": pyarrow.bool_(),
        "struct": pyarrow.struct([("a", pyarrow.int64())]),
    }
    return pyarrow.array(values, type=kinds[kind])


def typed(name: str, values: object, kind: str) -> Callable[[Path], object]:
    """in.parquet, with one column of this name and type of Arrow."""
    return lambda folder: parquet("in.parquet", **{name: arrow(values, kind)})(folder)


def nothing(folder: Path) -> None:
    """Nothing."""


STORE = "build s.fpstore in.hex; "
HEXES = lines("in.hex", HEX)
DOCS = jsonl("in.jsonl", [*TEXTS, NEAR])
BIG = [np.uint64(number).tobytes()[::-1] for number in NUMBERS]
CSV_ID = lines("in.csv", ["doc_id,simhash", *(f"{100 + i},{digits}" for i, digits in enumerate(HEX))])

CASES = [
    # --- Folders ---
    Case("a folder of JSON lines", both(jsonl("d/a.jsonl", TEXTS), jsonl("d/b.jsonl", [NEAR])), "dedup d -o k.jsonl", 0, "3 documents, kept 2"),
    Case("a folder of packed JSON lines", both(raw("d/a.jsonl.gz", gzip.compress(json.dumps({"text": TEXTS[0]}).encode()))), "dedup d -o k.jsonl", 0, "1 document"),
    Case("a folder of Parquet parts, as Spark writes", both(parquet("d/part-0.parquet", text=TEXTS), raw("d/_SUCCESS", b"")), "dedup d -o k.jsonl --text-column text", 0, "2 documents"),
    Case("a folder of .npy", both(nothing, lambda f: (f / "d").mkdir(), array("d/a.npy", np.array(NUMBERS, np.uint64)), array("d/b.npy", np.array([5], np.uint64))), "build s.fpstore d", 0, "4"),
    Case("a folder of pages", raw("d/a.html", f"<html><body><p>{TEXTS[0]}</p></body></html>".encode()), "build s.fpstore d", 0),
    Case("a folder of .txt", both(raw("d/a.txt", TEXTS[0].encode()), raw("d/b/c.txt", TEXTS[1].encode())), "build s.fpstore d", 0, "2"),
    Case("a folder of sources, not said to be texts", raw("d/a.py", b"import os"), "build s.fpstore d", 2, "--format text"),
    Case("a folder of sources, said to be texts", raw("d/a.py", TEXTS[0].encode()), "build s.fpstore d --format text", 0),
    Case("texts beside fingerprints in a folder", both(raw("d/a.txt", b"a text"), raw("d/b.hex", b"00000000000000ff\n")), "build s.fpstore d", 2, "expected"),
    Case("a data file among texts by --format text", both(raw("d/a.txt", TEXTS[0].encode()), lambda f: np.save(f / "d/b.npy", np.zeros(3))), "build s.fpstore d --format text", 1, "b.npy"),
    Case("the same with --skip-bad", both(raw("d/a.txt", TEXTS[0].encode()), lambda f: np.save(f / "d/b.npy", np.zeros(3))), "build s.fpstore d --format text --skip-bad", 0, "passed over"),
    Case("an empty folder", lambda f: (f / "d").mkdir(), "dedup d -o k.jsonl", 0, "0 documents"),
    Case("hidden files in a folder", both(raw("d/a.txt", TEXTS[0].encode()), raw("d/.b.txt", b"hidden")), "build s.fpstore d", 0, "hidden"),
    Case("a link to a folder in a folder", both(raw("d/a.txt", TEXTS[0].encode()), lambda f: (f / "d/loop").symlink_to(f / "d")), "build s.fpstore d", 0, "link"),
    Case("a pattern in quotation marks", both(jsonl("p-1.jsonl", [TEXTS[0]]), jsonl("p-2.jsonl", [TEXTS[1]])), "dedup p-*.jsonl -o k.jsonl", 0, "2 documents"),
    Case("a pattern without a match", nothing, "dedup none-*.jsonl -o k.jsonl", 1, "none-"),
    Case("a folder beside CSV", both(raw("d/a.txt", TEXTS[0].encode()), lines("t.csv", ["id,body", f"1,{TEXTS[1]}"])), "dedup d t.csv -o k.jsonl --text-column body", 0, "2 documents"),
    # --- Which column ---
    Case("ids, and the fingerprints' column not said", lines("in.csv", ["doc_id,value", f"7,{HEX[0]}"]), "build s.fpstore in.csv --id-column doc_id", 1, "--fingerprint-column"),
    Case("a column called simhash", CSV_ID, "build s.fpstore in.csv --id-column doc_id", 0, "3"),
    Case("times before hashes in a TSV", lines("in.tsv", ["unixtime\thash", f"1700000000\t{HEX[0]}"]), "build s.fpstore in.tsv", 0),
    Case("two columns without a name", lines("in.csv", [f"7,{HEX[0]}", f"8,{HEX[1]}"]), "build s.fpstore in.csv", 1, "--fingerprint-column"),
    Case("one column without a name", lines("in.csv", HEX), "build s.fpstore in.csv", 0, "3"),
    Case("a column that is both", CSV_ID, "build s.fpstore in.csv --id-column simhash --fingerprint-column simhash", 1, "expected two columns"),
    Case("a column that is not there", CSV_ID, "build s.fpstore in.csv --fingerprint-column hashes", 1, "hashes"),
    Case("probe of a table whose column is not said", both(HEXES, lines("q.csv", ["a,b", f"1,{HEX[0]}"])), STORE + "probe s.fpstore --input q.csv", 1, "--fingerprint-column"),
    Case("a column called row", lines("in.csv", ["row,simhash", f"7,{HEX[0]}"]), "build s.fpstore in.csv --ids row", 0),
    Case("export, then build of it", HEXES, STORE + "export s.fpstore out.csv; build t.fpstore out.csv", 0, "3"),
    # --- Hexadecimal or decimal ---
    Case("sixteen decimal digits on the command line", HEXES, STORE + "probe s.fpstore 1234567890123456", 0),
    Case("a decimal, said", HEXES, STORE + "probe s.fpstore --decimal 255", 0),
    Case("a decimal that is none", HEXES, STORE + "probe s.fpstore --decimal ff", 2, "ff"),
    Case("17 hexadecimal digits", HEXES, STORE + "probe s.fpstore 1ffffffffffffffff", 2, "expected"),
    Case("32 hexadecimal digits in a file", lines("in.hex", ["0" * 32]), "build s.fpstore in.hex", 1, "64"),
    Case("hexadecimal and decimal in one column", lines("in.csv", ["hash", HEX[2], "18446744073709551615"]), "build s.fpstore in.csv", 1, "expected"),
    Case("decimals below zero in CSV", lines("in.csv", ["hash", "-1", "-256", "7"]), "build s.fpstore in.csv", 0, "3"),
    Case("a decimal of 21 digits", lines("in.csv", ["hash", "184467440737095516150"]), "build s.fpstore in.csv", 1, "expected"),
    Case("a float in CSV", lines("in.csv", ["hash", "1.5"]), "build s.fpstore in.csv", 1, "1.5"),
    # --- Types of columns ---
    Case("int64 .npy, below zero", array("in.npy", np.array([-1, 5], np.int64)), "build s.fpstore in.npy", 0, "2"),
    Case("float .npy", array("in.npy", np.zeros(3)), "build s.fpstore in.npy", 1, "float64"),
    Case(".npy of two dimensions", array("in.npy", np.zeros((2, 2), np.uint64)), "build s.fpstore in.npy", 1, "expected"),
    Case(".npy of objects", lambda f: np.save(f / "in.npy", np.array([{}], dtype=object), allow_pickle=True), "build s.fpstore in.npy", 1, "expected"),
    Case("a .npy cut short", both(array("in.npy", np.arange(100, dtype=np.uint64)), lambda f: (f / "in.npy").write_bytes((f / "in.npy").read_bytes()[:200])), "build s.fpstore in.npy", 1, "expected"),
    Case("u64 with 7 bytes at the end", raw("in.u64", b"x" * 15), "build s.fpstore in.u64", 1, "expected"),
    Case("Parquet of int64", parquet("in.parquet", simhash=np.array([-1, 2], np.int64)), "build s.fpstore in.parquet", 0, "2"),
    Case("Parquet of hexadecimal strings", parquet("in.parquet", simhash=HEX), "build s.fpstore in.parquet", 0, "3"),
    Case("Parquet of decimal(20, 0)", lambda f: parquet("in.parquet", simhash=arrow(NUMBERS, "decimal"))(f), "build s.fpstore in.parquet", 0, "3"),
    Case("Parquet of 8-byte binary", lambda f: parquet("in.parquet", simhash=arrow(BIG, "binary8"))(f), "build s.fpstore in.parquet", 0, "3"),
    Case("Parquet of binary of 5 bytes", lambda f: parquet("in.parquet", simhash=arrow([b"12345"], "binary"))(f), "build s.fpstore in.parquet", 1, "expected"),
    Case("Parquet of floats", parquet("in.parquet", simhash=[1.5]), "build s.fpstore in.parquet", 1, "expected"),
    Case("Parquet with a null", parquet("in.parquet", simhash=[5, None]), "build s.fpstore in.parquet", 1, "None"),
    Case("Parquet of lists of texts", lambda f: parquet("in.parquet", text=arrow([["a"]], "list"))(f), "dedup in.parquet -o k.jsonl --text-column text", 1, "expected"),
    Case("JSON lines of fingerprints", lines("in.jsonl", [json.dumps({"simhash": digits}) for digits in HEX]), "build s.fpstore in.jsonl --fingerprint-column simhash", 0, "3"),
    Case("a JSON number of 20 digits", lines("in.jsonl", ['{"simhash": 18446744073709551615}']), "build s.fpstore in.jsonl --fingerprint-column simhash", 0),
    Case("a text that is a number", lines("in.jsonl", ['{"text": 5}']), "dedup in.jsonl -o k.jsonl", 1, "expected a text"),
    # --- Widths, headers, and what is said twice ---
    Case("int32 below zero, no nulls", lambda f: parquet("in.parquet", simhash=np.array([-1, 5], np.int32))(f), "build s.fpstore in.parquet", 1, "of 64 bits"),
    Case("int32 below zero, with a null", lambda f: parquet("in.parquet", simhash=arrow([-1, None], "int32"))(f), "build s.fpstore in.parquet", 1, "of 64 bits"),
    Case("ids of int8 below zero, with a null, in remove", both(HEXES, lambda f: parquet("gone.parquet", id=arrow([-1, None], "int8"))(f)), STORE + "remove s.fpstore --id-input gone.parquet", 1, "of 64 bits"),
    Case("int16 .npy below zero", array("in.npy", np.array([-1], np.int16)), "build s.fpstore in.npy", 1, "of 64 bits"),
    Case("uint8 and a null", lambda f: parquet("in.parquet", simhash=arrow([255, None], "uint8"))(f), "build s.fpstore in.parquet --skip-bad", 0, "1"),
    Case("a comma in a text without quotation marks", lines("a.csv", ["id,body", "1,hello, world"]), "dedup a.csv -o k.jsonl --text-column body", 1, "found 3 cells, expected 2"),
    Case("a row that lacks a cell", lines("a.csv", ["id,body,n", "1,hello"]), "dedup a.csv -o k.jsonl --text-column body", 1, "found 2 cells, expected 3"),
    Case("the same with --skip-bad", lines("a.csv", ["id,body,n", "1,hello", "2,x,3"]), "dedup a.csv -o k.jsonl --text-column body --skip-bad", 0, "1 bad line"),
    Case("a tab in a text of TSV", lines("a.tsv", ["id\tbody", "1\ta\tb"]), "dedup a.tsv -o k.jsonl --text-column body", 1, "found 3 cells"),
    Case("a comma at the end of each line", lines("a.csv", ["id,body,", f"1,{TEXTS[0]},"]), "dedup a.csv -o k.jsonl --text-column body", 0, "1 document"),
    Case("texts by number, header not said", lines("a.csv", ["id,body", f"1,{TEXTS[0]}"]), "dedup a.csv -o k.jsonl --text-column 1", 1, "--input-header or --no-input-header"),
    Case("texts by number, with a header", lines("a.csv", ["id,body", f"1,{TEXTS[0]}"]), "dedup a.csv -o k.jsonl --text-column 1 --input-header", 0, "1 document"),
    Case("texts by number, without a header", lines("a.csv", ["1,x", f"2,{TEXTS[0]}"]), "dedup a.csv -o k.jsonl --text-column 1 --no-input-header", 0, "2 documents"),
    Case("a header of numbers, as pandas writes", lines("a.csv", ["0,1", f"5,{NUMBERS[1]}"]), "build s.fpstore a.csv --fingerprint-column 1", 1, "--input-header"),
    Case("one column of pandas, called 0", lines("a.csv", ["0", str(NUMBERS[1])]), "build s.fpstore a.csv", 1, "--input-header"),
    Case("a bad first row of a table without a header", lines("a.csv", ["error", *HEX]), "build s.fpstore a.csv --skip-bad", 1, "--input-header"),
    Case("the same, said to have none", lines("a.csv", ["error", *HEX]), "build s.fpstore a.csv --skip-bad --no-input-header", 0, "1 bad line"),
    Case("a header of Parquet", parquet("a.parquet", simhash=HEX), "build s.fpstore a.parquet --input-header", 2, "expected csv or tsv"),
    Case("a header that is cut, with --skip-bad", lines("a.csv", ['"id', *HEX]), "build s.fpstore a.csv --input-header --skip-bad", 1, "line 1"),
    Case("a damaged first value and --skip-bad", lines("a.csv", ["hash", "5", *HEX]), "build s.fpstore a.csv --skip-bad", 1, "--fingerprint-format"),
    Case("70,000 numbers that could be either", lines("a.csv", ["hash", *["1234567890123456"] * 70_000]), "build s.fpstore a.csv", 1, "of the first"),
    Case("a field of JSON twice", lines("a.jsonl", ['{"text": "a", "text": "b"}']), "dedup a.jsonl -o k.jsonl", 1, "field text twice"),
    Case("a field twice, once by numbers of letters", lines("a.jsonl", ['{"text": "a", "\\u0074ext": "b"}']), "dedup a.jsonl -o k.jsonl", 1, "field text twice"),
    Case("a name that is a field and a path", lines("a.jsonl", ['{"a.b": "x", "a": {"b": "y"}}']), "dedup a.jsonl -o k.jsonl --text-column a.b", 1, "one of the two"),
    Case("a file twice", DOCS, "dedup in.jsonl in.jsonl -o k.jsonl", 2, "expected it once"),
    Case("a file and its folder", jsonl("d/a.jsonl", TEXTS), "dedup d d/a.jsonl -o k.jsonl", 2, "expected it once"),
    Case("a hexadecimal value of 10 digits", lines("in.csv", ["hash", HEX[1], "deadbeef12"]), "build s.fpstore in.csv", 1, "--fingerprint-format"),
    Case("15 digits in line 16 of .hex", lines("in.hex", [*[HEX[1]] * 15, "f" * 15]), "build s.fpstore in.hex", 1, "--fingerprint-format"),
    Case("Parquet without a suffix in a folder", both(parquet("d/part-0", text=TEXTS)), "build s.fpstore d", 2, "--format parquet"),
    Case("junk beside .npy in a folder", both(raw("d/x.idx", b"\0\1\2"), array("d/a.npy", np.array(NUMBERS, np.uint64))), "build s.fpstore d", 2, "*.npy"),
    Case("a NaN kept in JSON", lambda f: parquet("in.parquet", text=TEXTS, score=[0.5, float("nan")])(f), "dedup in.parquet -o k.jsonl --text-column text", 0, "kept 2"),
    # --- More types of Arrow ---
    *(Case(f"texts of Arrow's {kind}", typed("text", TEXTS, kind), "dedup in.parquet -o k.jsonl --text-column text", 0, "2 documents") for kind in ("large_string", "string_view", "dictionary")),
    *(Case(f"fingerprints of Arrow's {kind}", typed("simhash", values, kind), "build s.fpstore in.parquet", status, said) for kind, values, status, said in (("decimal256", NUMBERS, 0, "3"), ("decimal 20, 2", [1, 2], 1, "expected"), ("timestamp", [1, 2], 1, "expected"), ("float", [1.0, 2.0], 1, "expected"), ("null", [None], 1, "expected"), ("bool", [True], 1, "expected"), ("struct", [{"a": 1}], 1, "expected"))),
    # --- Dialects of CSV ---
    Case("CSV with semicolons", lines("a.csv", ["id;hash", f"1;{HEX[0]}"]), "build s.fpstore a.csv", 1, "expected"),
    Case("CSV with CRLF", raw("a.csv", f"hash\r\n{HEX[0]}\r\n".encode()), "build s.fpstore a.csv", 0, "1"),
    Case("CSV with a byte order mark", raw("a.csv", f"hash\r\n{HEX[0]}\r\n".encode("utf-8-sig")), "build s.fpstore a.csv", 0, "1"),
    Case("CSV in UTF-16", raw("a.csv", f"hash\n{HEX[0]}\n".encode("utf-16")), "build s.fpstore a.csv", 0, "1"),
    Case("CSV with bare carriage returns", raw("a.csv", f"hash\r{HEX[0]}\r{HEX[1]}\r".encode()), "build s.fpstore a.csv", 1, "a.csv"),
    Case("CSV with a NUL", raw("a.csv", b"id,body\n1,a\0b\n"), "dedup a.csv -o k.jsonl --text-column body", 1, "a.csv"),
    Case("a comment above the header", lines("a.csv", ["# made by x", "id,hash", f"1,{HEX[0]}"]), "build s.fpstore a.csv", 1, "a.csv, line 1"),
    Case("two headers, of files put together", lines("a.csv", ["hash", HEX[1], "hash", HEX[2]]), "build s.fpstore a.csv", 1, "line 3"),
    # --- Bytes that are no text, and texts in other encodings ---
    Case("UTF-16 with a mark", raw("a.txt", TEXTS[0].encode("utf-16")), "build s.fpstore a.txt", 0),
    Case("UTF-16 without a mark", raw("a.txt", TEXTS[0].encode("utf-16-le")), "build s.fpstore a.txt", 1, "expected"),
    Case("Latin-1", raw("a.txt", "déjà vu".encode("latin-1")), "build s.fpstore a.txt", 1, "UTF-8"),
    Case("a program", raw("a.txt", b"\x7fELF" + bytes(200)), "build s.fpstore a.txt", 1, "expected"),
    Case("JSON lines with a byte order mark", raw("a.jsonl", b"\xef\xbb\xbf" + json.dumps({"text": TEXTS[0]}).encode()), "dedup a.jsonl -o k.jsonl", 0, "1 document"),
    Case("a name that is no UTF-8", raw("bad\udcff.txt", TEXTS[0].encode()), "build s.fpstore bad\udcff.txt", 0),
    # --- Broken files ---
    Case("CSV with an unclosed quotation mark", lines("a.csv", ["id,body", '1,"open', *(f"{i},{TEXTS[0]} w{i}" for i in range(2, 500))]), "dedup a.csv -o k.jsonl --text-column body --skip-bad", 0, "498 documents"),
    Case("the same without --skip-bad", lines("a.csv", ["id,body", '1,"open', *(f"{i},{TEXTS[0]} w{i}" for i in range(2, 500))]), "dedup a.csv -o k.jsonl --text-column body", 1, "line 2"),
    Case("a bad JSON line", lines("a.jsonl", [json.dumps({"text": TEXTS[0]}), "{", json.dumps({"text": TEXTS[1]})]), "dedup a.jsonl -o k.jsonl", 1, "line 2"),
    Case("the same with --skip-bad", lines("a.jsonl", [json.dumps({"text": TEXTS[0]}), "{", json.dumps({"text": TEXTS[1]})]), "dedup a.jsonl -o k.jsonl --skip-bad", 0, "1 bad line"),
    Case("a JSON line without the field", lines("a.jsonl", ['{"body": "x"}']), "dedup a.jsonl -o k.jsonl", 1, "text"),
    Case("a gzip cut short", raw("a.jsonl.gz", gzip.compress(b'{"text": "abc"}\n' * 5000)[:-20]), "dedup a.jsonl.gz -o k.jsonl", 1, "a.jsonl.gz"),
    Case("a .gz that is none", raw("a.jsonl.gz", b"plain"), "dedup a.jsonl.gz -o k.jsonl", 1, "a.jsonl.gz"),
    Case("a .zst that is none", raw("a.jsonl.zst", b"plain"), "dedup a.jsonl.zst -o k.jsonl", 1, "a.jsonl.zst"),
    Case("a .parquet that is none", raw("a.parquet", b"plain"), "dedup a.parquet -o k.jsonl --text-column text", 1, "a.parquet"),
    Case("a .warc.gz that is none", raw("a.warc.gz", gzip.compress(b"plain")), "dedup a.warc.gz -o k.jsonl", 1, "a.warc.gz"),
    Case("bz2 and xz", both(raw("a.jsonl.xz", lzma.compress(json.dumps({"text": TEXTS[0]}).encode()))), "dedup a.jsonl.xz -o k.jsonl", 0, "1 document"),
    Case("one JSON array", raw("a.json", json.dumps([{"text": text} for text in TEXTS]).encode()), "dedup a.json -o k.jsonl", 0, "2 documents"),
    # --- Empty and tiny ---
    *(Case(f"an empty {suffix}", raw(f"a.{suffix}", b""), f"build s.fpstore a.{suffix}", status, said) for suffix, status, said in (("hex", 0, "0"), ("csv", 0, "0"), ("u64", 0, "0"), ("npy", 1, "expected"), ("jsonl", 0, "0"), ("txt", 0, ""), ("parquet", 1, "parquet"))),
    Case("a header and no row", lines("a.csv", ["id,simhash"]), "build s.fpstore a.csv", 0, "0"),
    Case("one row", lines("a.csv", ["simhash", HEX[0]]), "build s.fpstore a.csv", 0, "1"),
    Case("a text of nothing but spaces", raw("a.txt", b"   \n"), "build s.fpstore a.txt", 0),
    # --- Results ---
    *(Case(f"a result .{suffix}", DOCS, f"dedup in.jsonl -o k.{suffix}", 0, "kept 2") for suffix in ("jsonl", "ndjson", "jsonl.gz", "jsonl.zst", "csv", "parquet")),
    Case("a result .tsv.gz of JSON lines", DOCS, "dedup in.jsonl -o k.tsv.gz", 2, "inputs that are TSV"),
    Case("a result .xlsx", DOCS, "dedup in.jsonl -o k.xlsx", 2, ".xlsx"),
    Case("a result on standard output", DOCS, "dedup in.jsonl -o -", 0, "kept 2"),
    Case("a result that is the input", DOCS, "dedup in.jsonl -o in.jsonl --force", 2, "in.jsonl"),
    Case("a result that is there", both(DOCS, raw("k.jsonl", b"mine")), "dedup in.jsonl -o k.jsonl", 2, "--force"),
    Case("two results in one file", DOCS, "dedup in.jsonl -o k.jsonl --dropped k.jsonl", 2, "k.jsonl"),
    Case("a result in a folder that is not there", DOCS, "dedup in.jsonl -o none/k.jsonl", 1, "none"),
    Case("a result that is a folder", both(DOCS, lambda f: (f / "k.jsonl").mkdir()), "dedup in.jsonl -o k.jsonl --force", 2, "k.jsonl"),
    # --- Stores ---
    Case("a store that is not there", nothing, "probe none.fpstore ff", 1, "none.fpstore"),
    Case("a file as a store", HEXES, "probe in.hex ff", 3, "in.hex"),
    Case("an empty folder as a store", lambda f: (f / "d").mkdir(), "verify d", 3, "d"),
    Case("a catalog of junk", both(HEXES), STORE + "!echo junk > s.fpstore/catalog.mdb; stats s.fpstore", 3, "catalog.mdb"),
    Case("a store that is there", HEXES, STORE + "build s.fpstore in.hex", 2, "--force"),
    Case("texts to a store of fingerprints", both(HEXES, raw("a.txt", b"a text")), STORE + "add s.fpstore a.txt --ids from:100", 2, "recipe"),
    Case("a distance that the plan is not for", HEXES, STORE + "probe s.fpstore ff -k 9", 0, "is above the 3"),
    Case("an option that does nothing", HEXES, STORE + "remove s.fpstore --id 1 --html", 2, "--html"),
    Case("an unknown recipe", raw("a.txt", b"a text"), "build s.fpstore a.txt --recipe nope.json", 2, "nope.json"),
    Case("a plan that is a number", HEXES, "build s.fpstore in.hex --plan 12", 2, "12"),
    Case("threads 0", HEXES, "build s.fpstore in.hex --threads 0", 2, "0"),
]  # fmt: skip


def run(case: Case) -> tuple[int, str]:
    """The status of the last command of a case, and the last line that was said, or printed."""
    with tempfile.TemporaryDirectory(prefix="fpstore-odd-") as name:
        folder = Path(name)
        case.make(folder)
        said, status = "", 0
        for command in case.command.split("; "):
            if command.startswith("!"):
                subprocess.run(command[1:], shell=True, cwd=folder, check=True)
                continue
            status, printed, told = typed_in(folder, command.split(" "))
            said = told.strip() or printed.strip()
        return status, said.replace(f"{folder}/", "")


def typed_in(folder: Path, words: list[str]) -> tuple[int, str, str]:
    """The status of `fpstore` with these words in a folder, and what it wrote to its two streams.

    It is a fork of this process, where all is imported already: a new one spends most of its time on that.
    """
    with open(os.devnull) as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as told:
        if not (child := os.fork()):
            status = 70
            try:
                signal.alarm(SECONDS)
                os.chdir(folder)
                for number, file in enumerate((given, printed, told)):
                    os.dup2(file.fileno(), number)
                status = main_of_fpstore(words)
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(OSError):
                    sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        streams = []
        for file in (printed, told):
            file.seek(0)
            streams.append(file.read().decode("utf-8", "surrogateescape"))
        return status, streams[0], streams[1]


def main() -> int:
    """Run the cases; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--match", type=parse_pattern, default="", help="only the cases whose names match this regular expression"
    )
    arguments = parser.parse_args()
    cases = [case for case in CASES if re.search(arguments.match, case.name)]
    for module in pkgutil.walk_packages(fpstore.__path__, "fpstore."):
        if not module.name.startswith("fpstore.adapters") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    wrong = 0
    print(f"| case | command | status | what was said |{chr(10)}|---|---|---|---|")
    for case in cases:
        status, said = run(case)
        ok = status == case.status and case.said in said and "internal error" not in said and "Traceback" not in said
        wrong += not ok
        last = " / ".join(said.splitlines())
        shown = last if len(last) <= MOST_SAID else last[:MOST_SAID] + "..."
        mark = "" if ok else f" **expected {case.status} and {case.said!r}**"
        row = f"| {case.name} | `{case.command}` | {status}{mark} | {shown} |"
        print(row.encode("utf-8", "replace").decode(), flush=True)
    print(f"{len(cases)} cases, {wrong} otherwise than expected")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
