"""Owns the record of the kept documents: the name of each, and its text where asked for, by id, on the disk.

Three files in a folder: names and texts, one after the other, and an index of three u64 a document: its id, and where
its name and its text end. Ids increase.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from struct import Struct

from fpstore.jobs.journal import AppendFile, JobError, write_durably

_ENTRY = Struct("<QQQ")
_SETTINGS = "settings.json"
_VERSION = 1


class Spool:
    """The documents in a folder. Read and appended to by one process."""

    def __init__(self, folder: Path, *, texts: bool, count: int | None = None) -> None:
        """Open the one in folder; where there is none make it, with texts or without.

        count: how many of its documents are good, all where None; what comes after them is cut off.
        Raises JobError where it is of a later version, and where its files hold less.
        """
        self.folder = folder
        folder.mkdir(exist_ok=True)
        settings_path = folder / _SETTINGS
        if not settings_path.exists():
            write_durably(settings_path, json.dumps({"version": _VERSION, "texts": texts}))
        settings = json.loads(settings_path.read_bytes())
        if settings["version"] != _VERSION:
            raise JobError(f"{folder}: found version {settings['version']}, expected {_VERSION}")
        self.has_texts: bool = settings["texts"]
        index = folder / "index"
        if count is None:
            count = index.stat().st_size // _ENTRY.size if index.exists() else 0
        self.count = count
        self._index = AppendFile(index, count * _ENTRY.size)
        _, name_end, text_end = self._entry(count - 1)
        self._names = AppendFile(folder / "names", name_end)
        self._texts = AppendFile(folder / "texts", text_end)

    def close(self) -> None:
        """Close its files."""
        for file in (self._index, self._names, self._texts):
            file.close()

    @property
    def last_id(self) -> int | None:
        """The largest id, None where there is no document."""
        return self._entry(self.count - 1)[0] if self.count else None

    def append(self, ids: Sequence[int], names: Sequence[str], texts: Sequence[str]) -> None:
        """More documents, with ids larger than those before."""
        name_end, text_end = self._names.length, self._texts.length
        entries, encoded_names, encoded_texts = [], [], []
        for document_id, name, text in zip(ids, names, texts, strict=True):
            encoded = _encoded(name)
            encoded_names.append(encoded)
            name_end += len(encoded)
            if self.has_texts:
                encoded = _encoded(text)
                encoded_texts.append(encoded)
                text_end += len(encoded)
            entries.append(_ENTRY.pack(document_id, name_end, text_end))
        self._names.write(b"".join(encoded_names))
        self._texts.write(b"".join(encoded_texts))
        self._index.write(b"".join(entries))
        self.count += len(entries)

    def name(self, document_id: int) -> str | None:
        """The name of a document, None where it is not here."""
        index = self._find(document_id)
        return None if index is None else _decoded(self._names.read(self._entry(index - 1)[1], self._entry(index)[1]))

    def names(self, start: int, end: int) -> list[str]:
        """The names of the documents from number start to end, counted from 0 in the order of their ids."""
        if start >= end:
            return []
        entries = list(_ENTRY.iter_unpack(self._index.read(start * _ENTRY.size, end * _ENTRY.size)))
        ends = [self._entry(start - 1)[1], *(name_end for _, name_end, _ in entries)]
        data = self._names.read(ends[0], ends[-1])
        return [_decoded(data[one - ends[0] : other - ends[0]]) for one, other in pairwise(ends)]

    def text(self, document_id: int) -> str | None:
        """The text of a document, None where it is not here."""
        index = self._find(document_id)
        return None if index is None else _decoded(self._texts.read(self._entry(index - 1)[2], self._entry(index)[2]))

    def holds(self, document_id: int) -> bool:
        """Whether the document is here."""
        return self._find(document_id) is not None

    def sync(self) -> None:
        """What was appended is on the disk when this returns: the index last, so that what it tells of is there."""
        for file in (self._names, self._texts, self._index):
            file.sync()

    def _entry(self, index: int) -> tuple[int, int, int]:
        if index < 0:
            return 0, 0, 0
        entry: tuple[int, int, int] = _ENTRY.unpack(self._index.read(index * _ENTRY.size, (index + 1) * _ENTRY.size))
        return entry

    def _find(self, document_id: int) -> int | None:
        """The index of a document. Ids mostly follow one another, so it mostly stands where its id says."""
        if not self.count:
            return None
        guess = document_id - self._entry(0)[0]
        if 0 <= guess < self.count and self._entry(guess)[0] == document_id:
            return guess
        index = bisect_left(range(self.count), document_id, key=lambda index: self._entry(index)[0])
        return index if index < self.count and self._entry(index)[0] == document_id else None


def _encoded(text: str) -> bytes:
    # A name can hold bytes that are no UTF-8, and a JSON text half of a surrogate pair.
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
