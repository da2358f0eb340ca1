"""Owns the record of the kept documents: the name of each, and its text where asked for, by id, on the disk.

Three files in a folder: names and texts, one after the other, and an index of three u64 a document: its id, and where
its name and its text end. Ids increase.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

import numpy as np

from fpstore.disk import sync_folder
from fpstore.jobs.journal import AppendFile, JobError, write_durably
from fpstore.types import Array, Counts, Ids

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
            sync_folder(folder.parent)
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
        _, name_end, text_end = self._entries()[-1].tolist() if count else (0, 0, 0)
        self._names = AppendFile(folder / "names", name_end)
        self._texts = AppendFile(folder / "texts", text_end)

    def close(self) -> None:
        """Close its files."""
        for file in (self._index, self._names, self._texts):
            file.close()

    @property
    def last_id(self) -> int | None:
        """The largest id, None where there is no document."""
        return int(self._entries()[-1, 0]) if self.count else None

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

    def names(self, ids: Ids) -> list[str | None]:
        """The names of documents, ids uint64[n]; None for one that is not here."""
        return self._values(self._names, 1, ids)

    def texts(self, ids: Ids) -> list[str | None]:
        """The texts of documents, ids uint64[n]; None for one that is not here."""
        return self._values(self._texts, 2, ids)

    def holds(self, ids: Ids) -> Array:
        """Which of ids (uint64[n]) are those of documents that are here: bool[n]."""
        return self._rows(ids) >= 0

    def sync(self) -> None:
        """What was appended is on the disk when this returns: the index last, so that what it tells of is there."""
        for file in (self._names, self._texts, self._index):
            file.sync()

    def _entries(self) -> Array:
        """The index: uint64[count, 3]."""
        return np.frombuffer(self._index.view(), dtype="<u8").reshape(-1, 3)

    def _rows(self, ids: Ids) -> Counts:
        """Where ids stand in the index: int64[n], -1 for one that does not."""
        if not self.count:
            return np.full(len(ids), -1, dtype=np.int64)
        known = self._entries()[:, 0]
        if int(known[-1]) - int(known[0]) == self.count - 1:  # as a rule: they follow one another
            rows = ids - known[0]
            here = (ids >= known[0]) & (ids <= known[-1])
        else:
            rows = np.minimum(np.searchsorted(known, ids), self.count - 1)
            here = known[rows] == ids
        found: Counts = np.where(here, rows, np.uint64(0)).astype(np.int64) - ~here
        return found

    def _values(self, file: AppendFile, column: int, ids: Ids) -> list[str | None]:
        rows = self._rows(ids)
        if not self.count:
            return [None] * len(rows)
        entries, data = self._entries(), file.view()
        ends = entries[rows, column].tolist()
        starts = np.where(rows > 0, entries[np.maximum(rows - 1, 0), column], np.uint64(0)).tolist()
        found = zip(rows.tolist(), starts, ends, strict=True)
        return [str(data[start:end], "utf-8", "surrogatepass") if row >= 0 else None for row, start, end in found]


def _encoded(text: str) -> bytes:
    # A name can hold bytes that are no UTF-8, and a JSON text half of a surrogate pair.
    return text.encode("utf-8", "surrogatepass")
