"""Random small corpora of every format, with all that a result has to have of them, for tools/check_documents.py."""

import gzip
import json
import random
import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from documents_reference import Document

from fpstore.text import Recipe

WORDS = ("a", "b", "c", "dd", "eee", "fox", "dog", "gnu", "\u00e9t\u00e9", "!", "?!")
WHOLE = ("text", "html", "wet")
DAYS = ("2020-01-02", "2020-01-10", "2019-12-31")
MOST_DOCUMENTS = 25


@dataclass
class Input:
    """What lies in a file or folder. rows: of each document all its columns; lines: those it was read from.

    columns: their names, of what is no JSON.
    """

    path: Path
    format: str
    documents: list[Document] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    header: bytes = b""
    schema: Any = None
    bad: int = 0


def text_of(rng: random.Random, texts: list[str], joints: tuple[str, ...]) -> str:
    """A text; often an earlier one, or near one."""
    if texts and rng.random() < 0.5:
        words = rng.choice(texts).split()
        if words and rng.random() < 0.7:
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        return rng.choice(joints).join(words)
    return rng.choice(joints).join(rng.choices(WORDS, k=rng.randrange(8)))


def make_input(rng: random.Random, path: Path, format: str, texts: list[str], recipe: Recipe) -> Input:
    """A corpus of that format at path, which gets a suffix."""
    joints: tuple[str, ...] = (" ",) if format in ("tsv", "html") else (" ", ", ", "\n", '" ', "  ")
    new = [text_of(rng, texts, joints) for _ in range(rng.randrange(MOST_DOCUMENTS))]
    if format in ("html", "wet"):  # a page without a text is no document
        new = [text for text in new if text]
    texts += new
    if format in WHOLE:
        return _make_whole(path, format, new, recipe)
    made = {"jsonl": _make_jsonl, "csv": _make_delimited, "tsv": _make_delimited, "parquet": _make_parquet}
    return made[format](rng, path, format, new)


def _make_jsonl(rng: random.Random, path: Path, format: str, texts: list[str]) -> Input:
    packing = rng.choice(("", ".gz", ".zst"))
    made = Input(path.with_suffix(f".jsonl{packing}"), format)
    lines = []
    for index, text in enumerate(texts):
        while rng.random() < 0.1:
            lines.append(rng.choice((b"\n", b"{\n", b"[]\n", b'{"id": 1}\n', b"\xff\n")))
            # Blank lines before the first other one are nothing; those after it are counted.
            made.bad += any(each != b"\n" for each in lines)
        row = {"id": index, "text": text, **_drawn_values(rng)}
        row |= {"tags": rng.choices(range(9), k=2)} if rng.random() < 0.5 else {}
        line = json.dumps(row, ensure_ascii=rng.random() < 0.5, separators=rng.choice(((",", ":"), (", ", " : "))))
        made.rows.append(row)
        made.lines.append(line.encode() + b"\n")
        lines.append(made.lines[-1])
        made.documents.append(Document(f"{made.path}:{len(lines)}", text))
    data = b"".join(lines)
    if packing == ".gz":
        data = gzip.compress(data)
    made.path.write_bytes(zstandard.compress(data) if packing == ".zst" else data)
    return made


def _make_delimited(rng: random.Random, path: Path, format: str, texts: list[str]) -> Input:
    made = Input(path.with_suffix(f".{format}"), format)
    end = rng.choice(("\n", "\r\n"))
    made.columns = ["id", "text", "score", "day", "note"]
    made.header = (("," if format == "csv" else "\t").join(made.columns) + end).encode()
    number, written = 2, list[bytes]()
    for index, text in enumerate(texts):
        drawn = {"score": "", "day": "", **_drawn_values(rng)}
        row = {"id": str(index), "text": text} | {name: cell_of(value) for name, value in drawn.items()}
        row["note"] = rng.choice(('x"', "y, z", ""))
        # A record over several lines that lacks cells is taken for one with a quotation mark too many.
        is_bad = "\n" not in text and rng.random() < 0.2
        if is_bad and rng.random() < 0.5:
            row["more"] = rng.choice(("", "x"))
        elif is_bad:
            del row["note"]
        if format == "tsv":
            line = "\t".join(row.values()) + end
        else:
            cells = [
                '"' + cell.replace('"', '""') + '"' if rng.random() < 0.3 or re.search('[",\n]', cell) else cell
                for cell in row.values()
            ]
            line = ",".join(cells) + end
        if is_bad:
            made.bad += 1
            written.append(line.encode())
            number += 1
            continue
        made.documents.append(Document(f"{made.path}:{number}", text))
        made.rows.append(row)
        made.lines.append(line.encode())
        written.append(made.lines[-1])
        number += line.count("\n")
    made.path.write_bytes(made.header + b"".join(written))
    return made


def _make_parquet(rng: random.Random, path: Path, format: str, texts: list[str]) -> Input:
    made = Input(path.with_suffix(".parquet"), format)
    made.schema = pa.schema(
        [
            ("id", pa.uint64()),
            ("text", pa.string()),
            ("score", pa.float64()),
            ("tags", pa.list_(pa.int16())),
            ("day", pa.date32()),
        ]
    )
    made.rows = [
        {
            "id": rng.getrandbits(64),
            "text": text,
            "score": rng.choice((None, 2.5, 10.0, -1.0, 9.0)),
            "tags": rng.choice((None, [], [1, 2])),
            "day": rng.choice((None, date(2020, 1, 1) + timedelta(rng.randrange(99)))),
        }
        for text in texts
    ]
    made.columns = made.schema.names
    made.documents = [Document(f"{made.path}:{index}", text) for index, text in enumerate(texts)]
    pq.write_table(pa.Table.from_pylist(made.rows, made.schema), made.path, row_group_size=rng.choice((3, 100)))
    return made


def _drawn_values(rng: random.Random) -> dict[str, Any]:
    """Of the fields by which documents are put in order, as JSON has them; they may be missing."""
    drawn: dict[str, Any] = {"score": rng.choice((None, 2.5, 10, -1, 9, 9.0)), "day": rng.choice((None, *DAYS))}
    return {name: value for name, value in drawn.items() if rng.random() < 0.8}


def _make_whole(path: Path, format: str, texts: list[str], recipe: Recipe) -> Input:
    if format == "wet":
        made = Input(path.with_suffix(".wet"), format)
        head = "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://x/{}\r\nContent-Length: {}\r\n\r\n"
        records = [(head.format(i, len(text.encode())) + text + "\r\n\r\n").encode() for i, text in enumerate(texts)]
        made.path.write_bytes(b"".join(records))
        made.documents = [Document(f"{made.path}:{i + 1}:http://x/{i}", text) for i, text in enumerate(texts)]
    else:
        made = Input(path, format)
        path.mkdir()
        for index, text in enumerate(texts):
            file = path / f"{index:03}.{'html' if format == 'html' else 'txt'}"
            page = f"<html><body><p>{text}</p></body></html>"
            file.write_bytes((page if format == "html" else text).encode())
            # How HTML becomes text is a recipe's, and not what is compared here.
            made.documents.append(Document(str(file), recipe.text_of(page.encode()) if format == "html" else text))
    made.columns = ["name", "text"]
    made.rows = [{"name": document.name, "text": document.text} for document in made.documents]
    return made


def cell_of(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
