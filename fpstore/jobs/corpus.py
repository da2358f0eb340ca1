"""Owns the documents that a job reads: in batches, from any place between two of them, with their fingerprints."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fpstore.inputs import documents
from fpstore.text import Recipe
from fpstore.types import Keys

# A batch is full with so many documents, or so many bytes of text. It is what an interruption costs, and what is held.
BATCH_DOCUMENTS = 8192
BATCH_BYTES = 16 << 20

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Place:
    """Between two documents: how many sources are done, how many documents of the next; bad: those in the former."""

    source: int = 0
    document: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that follow each other, as columns; lines: the JSON lines they were read from, or None.

    end: the place behind them. bad: how many bad lines and rows there were so far, from the first source on.
    """

    names: list[str]
    texts: list[str]
    lines: list[bytes | None]
    text_bytes: int
    end: Place
    bad: int


class Corpus:
    """The documents of several sources, one after the other."""

    def __init__(
        self,
        sources: Sequence[str | Path],
        *,
        format: str = "auto",
        text_column: str | int | None = None,
        skip_bad: bool = False,
    ) -> None:
        """As for fpstore.inputs.documents, which raises what is wrong."""
        self.sources = [os.fspath(source) for source in sources]
        self.bytes_read = 0
        self._options: dict[str, Any] = {"format": format, "text_column": text_column, "skip_bad": skip_bad}
        with closing(documents(self.sources, **self._options)) as found:
            self.total_bytes = found.total_bytes

    @property
    def identity(self) -> dict[str, Any]:
        """All that the documents follow from, but for what the sources hold."""
        return {"inputs": self.sources, **self._options}

    @property
    def files(self) -> list[str]:
        """The sources that can be read again: all but standard input."""
        return [source for source in self.sources if source != STANDARD_INPUT]

    def look(self) -> list[list[Any]]:
        """What each source looks like from outside; changes with its content."""
        return [[source, *_look(source)] for source in self.sources]

    def batches(self, start: Place = Place()) -> Iterator[Batch]:
        """The documents from a place on; the last batch may be empty.

        The source that the place is in is read from its beginning.
        """
        names: list[str] = []
        texts: list[str] = []
        lines: list[bytes | None] = []
        size, bad = 0, start.bad
        self.bytes_read = 0
        for number in range(start.source, len(self.sources)):
            finished_bad = bad
            with closing(documents([self.sources[number]], on_bytes=self._count, **self._options)) as found:
                skipped = start.document if number == start.source else 0
                for index, (name, text, line) in enumerate(found.with_lines()):
                    if index < skipped:
                        continue
                    names.append(name)
                    texts.append(text)
                    lines.append(line)
                    size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                    if len(names) == BATCH_DOCUMENTS or size >= BATCH_BYTES:
                        end = Place(number, index + 1, finished_bad)
                        yield Batch(names, texts, lines, size, end, finished_bad + found.skipped)
                        names, texts, lines, size = [], [], [], 0
                bad = finished_bad + found.skipped
        yield Batch(names, texts, lines, size, Place(len(self.sources), 0, bad), bad)

    def _count(self, count: int) -> None:
        self.bytes_read += count


def fingerprints_of(texts: Sequence[str], recipe: Recipe, threads: int) -> Keys:
    """The fingerprints of texts by recipe: uint64[n]; of a text without tokens, a hash of it as it stands.

    So that texts without tokens, about which a simhash says nothing, are near each other only if they are equal.
    """
    fingerprints, token_counts = recipe.measure_many(texts, threads)
    for index in np.flatnonzero(token_counts == 0).tolist():
        digest = hashlib.blake2b(texts[index].encode("utf-8", "surrogatepass"), digest_size=8).digest()
        fingerprints[index] = int.from_bytes(digest, "little")
    return fingerprints


def expect_other_files(results: Sequence[Path], corpus: Corpus) -> None:
    """Raise ValueError where a result is an input, or another result."""
    if len(set(results)) < len(results):
        raise ValueError(f"{results[0]}: found one file for two results, expected two")
    for path in results:
        if path.exists() and any(os.path.samefile(path, source) for source in corpus.files):
            raise ValueError(f"{path}: found a result that is also an input, expected another file")


def processors() -> int:
    """How many there are for this process."""
    return len(os.sched_getaffinity(0))


def document_line(name: str, text: str, line: bytes | None) -> bytes:
    """A document as a JSON line: its own where it has one, else an object with name and text."""
    if line is not None:
        return line if line.endswith(b"\n") else line + b"\n"
    return json_line({"name": name, "text": text})


def json_line(record: dict[str, Any]) -> bytes:
    """A record as a line of JSON in UTF-8."""
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, or a file's name that is no UTF-8
        return json.dumps(record).encode() + b"\n"


def _look(source: str) -> tuple[Any, ...]:
    if source == STANDARD_INPUT:
        return (None,)
    if not os.path.isdir(source):
        status = os.stat(source)
        return status.st_size, status.st_mtime_ns
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    for parent, children, files in os.walk(source):
        children.sort()
        for name in sorted(files):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            count += 1
            digest.update(os.fsencode(path) + f"\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return count, digest.hexdigest()
