"""Compares dedup, cluster and document-pairs with plain Python, on random small corpora of every format.

    python tools/check_documents.py [--rounds 1000] [--seed 0]

A round makes a corpus in one format, or in two, and has the real command work on it: dedup that keeps the first or the
longest, with --confirm or without, twice into one store or into none; cluster by leaders, centers or components; pairs.
The results are written in a form that is drawn too, read with other packages than ours, and compared with what
tools/documents_reference.py decides: every kept document with all its columns, every reason, every cluster, every
number that the command says. Prints how many decisions were compared, and each difference. Exit status 1 for any.
"""

import argparse
import contextlib
import csv
import gzip
import io
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import documents_reference as plain
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from documents_reference import Document, Dropped, Seen

from fpstore.cli import main as fpstore
from fpstore.jobs import corpus as corpora
from fpstore.jobs import packing, runs
from fpstore.text import PRESETS, Recipe

WORDS = ("a", "b", "c", "dd", "eee", "fox", "dog", "gnu", "\u00e9t\u00e9", "!", "?!")
WHOLE = ("text", "html", "wet")
FORMATS = ("jsonl", "csv", "tsv", "parquet", *WHOLE)
MOST_DOCUMENTS = 25
MOST_SHOWN = 20
MEMORY = Path("/dev/shm")
RECIPES = (Recipe("words-1", shingle=1), PRESETS["words-4"], PRESETS["multilingual"])


@dataclass
class Input:
    """What lies in a file or folder. rows: of each document all its columns; lines: those it was read from."""

    path: Path
    format: str
    documents: list[Document] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    header: bytes = b""
    schema: Any = None
    bad: int = 0


class Differs(Exception):
    """A command did, or said, something else than the reference."""


# --- Corpora ---


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
            made.bad += lines[-1] != b"\n"
        row = {"id": index, "text": text} | ({"tags": rng.choices(range(9), k=2)} if rng.random() < 0.5 else {})
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
    made.header = (("id,text,note" if format == "csv" else "id\ttext\tnote") + end).encode()
    number, written = 2, list[bytes]()
    for index, text in enumerate(texts):
        row = {"id": str(index), "text": text, "note": rng.choice(('x"', "y, z", ""))}
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
        [("id", pa.uint64()), ("text", pa.string()), ("tags", pa.list_(pa.int16())), ("day", pa.date32())]
    )
    made.rows = [
        {
            "id": rng.getrandbits(64),
            "text": text,
            "tags": rng.choice((None, [], [1, 2])),
            "day": rng.choice((None, date(2020, 1, 1) + timedelta(rng.randrange(99)))),
        }
        for text in texts
    ]
    made.documents = [Document(f"{made.path}:{index}", text) for index, text in enumerate(texts)]
    pq.write_table(pa.Table.from_pylist(made.rows, made.schema), made.path, row_group_size=rng.choice((3, 100)))
    return made


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
    made.rows = [{"name": document.name, "text": document.text} for document in made.documents]
    return made


# --- Results ---


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read() if path.suffix == ".zst" else data


def rows_in(path: Path, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of a result with these columns, whatever its form, as texts."""
    if path.suffix == ".parquet":
        records = pq.read_table(path).to_pylist()
    else:
        text, kind = unpacked(path).decode(), path.suffixes[0] if path.suffixes else ".tsv"
        if kind == ".tsv":
            return [tuple(line.split("\t")) for line in text.splitlines()]
        records = (
            list(map(json.loads, text.splitlines())) if kind == ".jsonl" else list(csv.DictReader(io.StringIO(text)))
        )
    told = [tuple(record[name] for name in columns) for record in records]
    return [tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in told]


def expect_kept(path: Path, inputs: list[Input], kept: list[list[int]]) -> None:
    """The kept documents of each input are in the result, with all their columns."""
    if path.suffix == ".parquet":
        _expect_parquet(path, inputs[0], kept[0], inputs, kept)
        return
    data, kind = unpacked(path), path.suffixes[0] if path.suffixes else ".jsonl"
    if kind == ".jsonl":
        found = data.splitlines(keepends=True)
        expected = [(source, index) for source, own in zip(inputs, kept, strict=True) for index in own]
        equal("kept documents", len(found), len(expected))
        for line, (source, index) in zip(found, expected, strict=True):
            if source.format == "jsonl":
                equal("a kept line", line, source.lines[index])
            else:
                equal("a kept document", json.loads(line), _in_json(source.rows[index]))
        return
    if f".{inputs[0].format}" == kind:
        lines = [source.lines[index] for source, own in zip(inputs, kept, strict=True) for index in own]
        equal("kept lines", data, inputs[0].header + b"".join(lines))
        return
    records = [_in_json(source.rows[index]) for source, own in zip(inputs, kept, strict=True) for index in own]
    if inputs[0].format == "jsonl":
        names = list(dict.fromkeys(name for record in records for name in record))
    else:
        names = _columns(inputs[0])
    table = list(csv.reader(io.StringIO(data.decode(), newline="")))
    equal(
        "kept cells", table, [names] * bool(names) + [[_cell(record.get(name)) for name in names] for record in records]
    )


def _expect_parquet(path: Path, first: Input, _: list[int], inputs: list[Input], kept: list[list[int]]) -> None:
    table = pq.read_table(path)
    records = [source.rows[index] for source, own in zip(inputs, kept, strict=True) for index in own]
    names = _columns(first) or list(dict.fromkeys(name for record in records for name in record))
    equal("columns", table.column_names, names)
    equal("kept rows", table.to_pylist(), [{name: record.get(name) for name in names} for record in records])
    if first.format == "parquet":
        equal("the schema", table.schema, first.schema)
    elif first.format != "jsonl":
        equal("types", {str(kind) for kind in table.schema.types}, {"string"})


def _columns(source: Input) -> list[str]:
    if source.format == "jsonl":
        return []
    if source.format in WHOLE:
        return ["name", "text"]
    return source.schema.names if source.format == "parquet" else ["id", "text", "note"]


def _in_json(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()}


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Differs(f"{what}: found {found!r:.400}, expected {expected!r:.400}")


# --- Rounds ---


class Round:
    """One corpus, or two, and all that is done with it; decisions: how many documents and pairs were compared."""

    def __init__(self, seed: str, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.recipe = self.rng.choice(RECIPES)
        self.distance = self.rng.choice((0, 1, 3, 6, 10, 16))
        self.texts: list[str] = []
        self.decisions = 0
        self.drawn: Counter[str] = Counter()
        (folder / "recipe.json").write_text(json.dumps(dict(self.recipe.to_json())))

    def inputs(self, name: str) -> list[Input]:
        """One or two inputs, mostly of one format."""
        formats = self.rng.choices(FORMATS, k=1)
        if self.rng.random() < 0.5:
            formats.append(formats[0] if self.rng.random() < 0.6 else self.rng.choice(FORMATS))
        made = [
            make_input(self.rng, self.folder / f"{name}{i}", format, self.texts, self.recipe)
            for i, format in enumerate(formats)
        ]
        # Whole documents have no column, and do not go with --text-column; folders of pages are told by --format.
        kinds = {"html" if source.format == "html" else source.format in WHOLE for source in made}
        return made if len(kinds) == 1 else made[:1]

    def suffix(self, inputs: list[Input] | None = None) -> str:
        """Of a result; of kept documents one that can hold these inputs."""
        kinds = ["", ".jsonl", ".csv", ".tsv", ".parquet"]
        if inputs is not None:
            formats = {"whole" if source.format in WHOLE else source.format for source in inputs}
            if formats != {"tsv"}:
                kinds.remove(".tsv")
            if len(formats) > 1:
                kinds = ["", ".jsonl"]
        kind = self.rng.choice(kinds)
        return kind + (self.rng.choice(("", ".gz", ".zst")) if kind not in ("", ".parquet") else "")

    def run(self, *arguments: object) -> str:
        """What the command says; it ends well."""
        said = io.StringIO()
        with (
            contextlib.redirect_stderr(said),
            patch.object(corpora, "BATCH_DOCUMENTS", self.rng.choice((1, 3, 7, 8192))),
        ):
            status = fpstore([str(each) for each in arguments])
        if status:
            raise Differs(f"status {status}: {said.getvalue()}")
        return said.getvalue().splitlines()[-1]

    def options(self, inputs: list[Input]) -> list[object]:
        named = {source.format for source in inputs} - set(WHOLE)
        options: list[object] = ["--recipe", self.folder / "recipe.json", "--k", self.distance, "--skip-bad"]
        options += ["--text-column", "text"] if named else []
        formats = {source.format for source in inputs}
        options += ["--format", "html"] if formats == {"html"} else []
        return [source.path for source in inputs] + options

    def all_of_it(self) -> None:
        self.check_dedup()
        self.check_clusters()

    def check_dedup(self) -> None:
        into_store = self.rng.random() < 0.4
        longest = self.rng.random() < 0.4
        confirm = self.rng.choice((None, None, "jaccard", "cosine"))
        least = self.rng.choice((0.2, 0.5, 0.8))

        def alike(one: str, other: str) -> tuple[float, bool]:
            found = plain.measure(str(confirm), self.recipe, one, other)
            return found, found >= least

        seen = Seen()
        for turn in range(1 + into_store):
            inputs = self.inputs(f"d{turn}")
            documents = [document for source in inputs for document in source.documents]
            kept = self.folder / f"kept{turn}{self.suffix(inputs)}"
            dropped = self.folder / f"dropped{turn}{self.suffix()}"
            self._draw(
                inputs, kept, "longest" if longest else "first", str(confirm), "store" if into_store else "alone"
            )
            arguments: list[object] = ["dedup", *self.options(inputs), "-o", kept, "--dropped", dropped]
            arguments += ["--keep", "longest"] if longest else []
            arguments += ["--confirm", f"{confirm}>={least}" if confirm else "none"]
            arguments += ["--store", self.folder / "s.fpstore"] if into_store else []
            said = self.run(*arguments)
            refused_before = seen.refused
            verdicts = plain.dedup(
                documents, self.distance, self.recipe, seen, longest=longest, alike=alike if confirm else None
            )
            self.decisions += len(verdicts)
            by_input: list[list[int]] = []
            start = 0
            for source in inputs:
                own = verdicts[start : start + len(source.documents)]
                by_input.append([index for index, verdict in enumerate(own) if verdict is None])
                start += len(own)
            expect_kept(kept, inputs, by_input)
            columns = ("name", "kept", "distance") + (("measure",) if confirm else ())
            told = [
                _told(document.name, verdict) for document, verdict in zip(documents, verdicts, strict=True) if verdict
            ]
            equal("dropped documents", rows_in(dropped, columns), told)
            counts = f"{len(documents)} document{'s' * (len(documents) != 1)}, kept {len(documents) - len(told)}, "
            counts += f"dropped {len(told)}" + f", refused matches {seen.refused - refused_before}" * bool(confirm)
            counts += f", passed over {sum(source.bad for source in inputs)}"
            equal("what is said", said.splitlines()[-1].partition(" (")[0], f"{kept}: {counts}")

    def check_clusters(self) -> None:
        inputs = self.inputs("c")
        documents = [document for source in inputs for document in source.documents]
        keys = [plain.fingerprint(self.recipe, document.text) for document in documents]
        for method, decide in (
            ("", plain.leaders),
            ("--update-center", plain.centers),
            ("--components", plain.components),
        ):
            out = self.folder / f"clusters{method}{self.suffix()}"
            self._draw(inputs, out, f"cluster {method}")
            self.run("cluster", *self.options(inputs), "-o", out, *[method] * bool(method))
            expected = decide(keys, self.distance)
            told = [(str(cluster), d.name, str(apart)) for d, (cluster, apart) in zip(documents, expected, strict=True)]
            equal(f"cluster {method}", rows_in(out, ("cluster", "name", "distance")), told)
            self.decisions += len(keys)
        out = self.folder / f"pairs{self.suffix()}"
        self._draw(inputs, out, "pairs")
        self.run("document-pairs", *self.options(inputs), "-o", out)
        expected_pairs = plain.pairs(documents, keys, self.distance)
        found = rows_in(out, ("first", "second", "distance"))
        equal("pairs", sorted(found), sorted((one, other, str(apart)) for one, other, apart in expected_pairs))
        self.decisions += len(expected_pairs)

    def _draw(self, inputs: list[Input], result: Path, *others: str) -> None:
        self.drawn.update({source.format for source in inputs})
        self.drawn.update(["".join(result.suffixes) or "no suffix", *others])


def _told(name: str, verdict: Dropped) -> tuple[str, ...]:
    measured = () if verdict.measure is None else (f"{verdict.measure:.4f}",)
    return (name, verdict.kept, str(verdict.distance), *measured)


def rounds(count: int, seed: int) -> Iterator[tuple[Round, str | None]]:
    """So many rounds, and what differed in each."""
    for number in range(count):
        # In memory where there is such a place: nothing here is about what a disk keeps.
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            done = Round(f"{seed}/{number}", Path(folder))
            found = None
            try:
                done.all_of_it()
            except Differs as error:
                found = f"round {seed}/{number}: {error}"
            yield done, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    decisions, differences, drawn = 0, 0, Counter[str]()
    with patch.object(packing, "GROUP_ROWS", 4), patch.object(runs, "BATCH_DOCUMENTS", 5):
        for done, found in rounds(arguments.rounds, arguments.seed):
            decisions += done.decisions
            drawn += done.drawn
            if found is not None:
                differences += 1
                if differences <= MOST_SHOWN:
                    print(found)
    print("drawn:", ", ".join(f"{name.strip()} {count}" for name, count in sorted(drawn.items())))
    print(f"{arguments.rounds} rounds, {decisions} decisions, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
