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

from fpstore.disk import expect_outside_stores
from fpstore.inputs import Documents, documents
from fpstore.jobs.claims import folder_of
from fpstore.text import Recipe
from fpstore.text.short import Lengths
from fpstore.types import Keys

# A batch is full with this many documents, or this many bytes of text. It is what is held, and what an interruption
# costs.
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


@dataclass(frozen=True)
class Sources:
    """Where documents are read from, and how: the arguments of fpstore.inputs.documents."""

    paths: Sequence[str | Path]
    format: str = "auto"
    text_column: str | int | None = None
    html: bool = False
    skip_bad: bool = False


class Corpus:
    """The documents of several sources, one after the other, and their fingerprints.

    bytes_read: of the sources, in the pass under way. text_bytes: of the texts that became fingerprints.
    """

    def __init__(
        self, sources: Sources | Sequence[str | Path], recipe: Recipe, max_distance: int, threads: int | None
    ) -> None:
        """threads: that make fingerprints; all processors where None. max_distance: for the warning.

        Raises what fpstore.inputs.documents does.
        """
        if not isinstance(sources, Sources):
            sources = Sources(sources)
        self.sources = [os.fspath(path) for path in sources.paths]
        self.bytes_read = self.text_bytes = 0
        self._options: dict[str, Any] = {
            "format": sources.format,
            "text_column": sources.text_column,
            "html": sources.html,
            "skip_bad": sources.skip_bad,
        }
        self._recipe = recipe
        self._threads = threads or len(os.sched_getaffinity(0))
        self._lengths = Lengths(recipe, max_distance)
        with closing(self._documents(self.sources)) as found:
            self.total_bytes = found.total_bytes

    def _documents(self, sources: list[str]) -> Documents:
        return documents(sources, recipe=self._recipe, on_bytes=self._count, **self._options)

    @property
    def identity(self) -> dict[str, Any]:
        """All that the documents and their fingerprints follow from, but for what the sources hold."""
        return {"inputs": self.sources, **self._options, "recipe": self._recipe.to_json()}

    @property
    def warning(self) -> str | None:
        """What to say where most of the texts that became fingerprints are short."""
        return self._lengths.warning

    def fingerprints(self, batch: "Batch") -> Keys:
        """Of a batch, by the recipe: uint64[n]; of a text without tokens, a hash of it as it stands.

        So that texts without tokens, about which a simhash says nothing, are near each other only if they are equal.
        """
        self.text_bytes += batch.text_bytes
        fingerprints, token_counts = self._recipe.measure_many(batch.texts, self._threads)
        self._lengths.see(token_counts)
        for index in np.flatnonzero(token_counts == 0).tolist():
            fingerprints[index] = hash_of(batch.texts[index])
        return fingerprints

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
            with closing(self._documents([self.sources[number]])) as found:
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


def hash_of(text: str) -> int:
    """The stand-in for the fingerprint of a text without tokens: 64 bits of BLAKE2b of its UTF-8."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def expect_other_files(results: Sequence[Path], corpus: Corpus, store: Path | None = None) -> None:
    """Raise ValueError where what a job writes is an input, in the folder of one, or something else that it writes."""
    written = [_settled(path) for result in results for path in (result, folder_of(result))]
    if store is not None:
        written.append(store.resolve())
    for path in written:
        if sum(path == other or path.is_relative_to(other) for other in written) > 1:
            told = "found a result at, or in, another place that the job writes to (a result, its .job, the store)"
            raise ValueError(f"{path}: {told}; expected places of their own")
    for result in results:
        expect_outside_stores(result)
    inputs = [Path(source).resolve() for source in corpus.files]
    for path in written:
        for source in inputs:
            if path.is_relative_to(source):
                raise ValueError(f"{path}: found a result that is also an input, or in one; expected another place")


def _settled(path: Path) -> Path:
    """The path with the links on the way to it followed, but not itself."""
    return path.parent.resolve() / path.name


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
