"""Owns the record of the kept documents: the name of each, and its text where asked for, by its number, on the disk.

Three files in a folder: names and texts, one after the other, and an index (fpstore.ledger.entry_of) of the number and
the fingerprint of each, and where its name and its text end. Numbers increase; where ids are numbers they are the ids.
Where a result of the job has the line of each document, that is in place of the texts, which are read again of it.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fpstore import _names
from fpstore.closing import close_all
from fpstore.disk import Folder, replace_whole
from fpstore.errors import CorruptStore, JobError
from fpstore.fingerprints import single_of
from fpstore.inputs.held_file import HeldFile
from fpstore.jobs._appending import OF_INDEX, append_documents, read_values
from fpstore.jobs.files import AppendFile, files_of_jobs
from fpstore.jobs.laid import LaidHashes
from fpstore.jobs.last import Last, LastBytes
from fpstore.jobs.placed import Placed
from fpstore.ledger import (
    AFTER_ONE,
    INDEX,
    NAME_BYTES,
    SETTINGS,
    TEXT_BYTES,
    entry_of,
    entry_type,
    expect_crc,
    expect_index,
    expect_value,
    fields_of,
    read_settings,
    sealed,
)
from fpstore.notes import MAX_ID, cut_back, document_count
from fpstore.text._packed import digests
from fpstore.text.packed import Encoded, Packed, Passed, packed, taken
from fpstore.types import Array, Bytes, Counts, Ids, Keys

_VERSION = 4
_TEXTS_AT_ONCE = 1 << 10
# So much of the index and of the names that were appended is in memory: of some 170,000 documents. Else each that is
# near a kept one takes three more calls of the system, to read what the process has just written.
_ENTRIES_HELD, _NAMES_HELD = 8 << 20, 4 << 20
# What an entry of the index has of its name and its text, which goes on from the entry before it.
_RUNNING = "name_end", "text_end", "name_crc", "text_crc"
# What stands for the file of what others write.
_NO_FILE = -1, Path()
_NOWHERE = np.uint64((1 << 64) - 1)  # -1 as a signed number


@dataclass(frozen=True)
class KeptLines:
    """A file that has the line of each document, one after the other, and nothing else; others write it.

    texts_of: the texts of lines, packed as these are. wait: returns when all is written that is to be written behind.
    """

    file: AppendFile
    texts_of: Callable[[Bytes, Counts], Passed]
    wait: Callable[[], None]


class Spool:
    """The documents in a folder, which it closes. Read and appended to by one process, made durable by any thread."""

    def __init__(
        self,
        folder: Folder,
        *,
        texts: bool,
        count: int | None = None,
        store: str | None = None,
        clusters: str | None = None,
        words: int = 1,
        lines: KeptLines | None = None,
    ) -> None:
        """Open the one in folder; where there is none make it, with texts or without, for the store of this identity.

        clusters: which kind of clusters a new job's documents are the first of, if they are. words: of a fingerprint.
        count: how many of its documents are good; what comes after them is cut off. None: all, if it has texts; one
        without is of a job that has ended, and begins anew. lines: what has the texts of a new one.
        Raises JobError where it is of another version, and where its files hold less; CorruptStore for a changed index.
        """
        self.folder = folder
        self._files: list[AppendFile] = []
        self._laid: LaidHashes | None = None
        self._placed = Placed()
        self._settings: AppendFile | None = None  # not durable yet
        try:
            settings: dict[str, Any] | None
            with files_of_jobs():
                settings = read_settings(folder)
            if settings is None:
                settings = {"version": _VERSION, "texts": texts, "store": store}
                settings |= {"lines": True} if texts and lines is not None else {}
                settings |= ({"clusters": clusters} if clusters else {}) | ({"words": words} if words > 1 else {})
                if store is None:  # nobody looks for it before a journal that comes behind sync
                    self._settings = self._open(SETTINGS, 0)
                    self._settings.write(sealed(settings))
                else:
                    _write_settings(folder, settings)
                count = count or 0
            if settings.get("version") != _VERSION:
                raise JobError(f"found version {settings.get('version')}, expected {_VERSION}", path=folder.path)
            self._entry = entry_type(folder)
            if self._entry != entry_of(words):
                told = f"found fingerprints of {settings.get('words', 1)} words, expected {words}"
                raise JobError(told, path=folder.path / SETTINGS)
            self._appended_fields = fields_of(self._entry, *_RUNNING, "crc")
            self._name_fields = fields_of(self._entry, "name_end", "name_crc")
            self._text_fields = fields_of(self._entry, "text_end", "text_crc")
            if count is None and settings.get("clusters") != clusters:
                settings["clusters"] = clusters
                _write_settings(folder, settings)
            if count is None and texts and not settings.get("texts"):  # of a job that has ended: it has no documents
                settings["texts"] = True
                _write_settings(folder, settings)
                cut_back(folder, 0)
            self._next_id = settings.get("next_id", 0)
            if not isinstance(self._next_id, int) or not 0 <= self._next_id <= MAX_ID + 1:
                raise JobError(f"found next_id {self._next_id!r:.40}, expected a number", path=folder.path / SETTINGS)
            self.has_texts = bool(settings.get("texts"))
            with files_of_jobs():
                self.count = (document_count(folder) if self.has_texts else 0) if count is None else count
            self._lines = lines if settings.get("lines") else None
            if settings.get("lines") and lines is None:
                told = "found texts that are lines of a result, expected one that has them; --force begins again"
                raise JobError(told, path=folder.path / SETTINGS)
            self._index = self._open(INDEX, self.count * self._entry.itemsize)
            entries = self._entries()
            expect_index(entries, self._index.path)
            self._last = entries[-1].copy() if self.count else None
            self._first_id = int(entries["id"][0]) if self.count else 0
            name_end, text_end = (0, 0) if self._last is None else self._last[["name_end", "text_end"]].tolist()
            self._names = self._open(NAME_BYTES, name_end)
            self._texts = None if self._lines is not None else self._open(TEXT_BYTES, text_end)
            self._last_entries = LastBytes(self._index.length, _ENTRIES_HELD)
            self._last_names = LastBytes(name_end, _NAMES_HELD)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str, length: int) -> AppendFile:
        file = AppendFile(self.folder, name, length)
        self._files.append(file)
        return file

    @property
    def has_lines(self) -> bool:
        """Whether the texts are lines of a result, which is given those of a batch when all of it is decided."""
        return self._lines is not None

    def lay_hashes(self) -> LaidHashes:
        """A place beside it for the hashes of its documents, which goes when this is closed."""
        self._laid = LaidHashes(self.folder)
        return self._laid

    def close(self) -> None:
        """Close its files, and let go of those of the inputs, whoever holds an error of the job."""
        self._placed.forget()
        laid = [] if self._laid is None else [self._laid.close]
        close_all(*(file.close for file in self._files), *laid, self.folder.close)

    @property
    def next_id(self) -> int:
        """The number after the largest that a job gave."""
        return int(self._entries()["id"][-1]) + 1 if self.count else self._next_id

    def last(self) -> tuple[int, Any, str]:
        """Number, fingerprint, as what probes take it, and name of the last document."""
        last = self._entries()[-1:]
        (name,) = self.names(last["id"].astype(np.uint64))
        return int(last["id"][0]), single_of(last["fingerprint"].astype(np.uint64)), name or ""

    def rows(self) -> tuple[Ids, Keys]:
        """Number and fingerprint of each document, as the file has them."""
        entries = self._entries()
        return entries["id"], entries["fingerprint"]

    def pieces(self, end: int, count: int, most_bytes: int) -> Iterator[Ids]:
        """The numbers of the documents below end, in order: so many at a time, or fewer where their texts are longer.

        most_bytes: what the texts of several have at most.
        """
        entries = self._entries()
        ends, last, start = entries["text_end"], int(entries["id"].searchsorted(np.uint64(end))), 0
        while start < last:
            most = (int(ends[start - 1]) if start else 0) + most_bytes
            stop = max(start + 1, min(start + count, last, int(ends.searchsorted(np.uint64(most), side="right"))))
            yield entries["id"][start:stop].astype(np.uint64)
            start = stop

    def append(
        self,
        ids: Sequence[int] | Ids,
        fingerprints: Keys,
        names: Sequence[str],
        texts: Sequence[str],
        known: Array | None = None,
        indexes: Counts | None = None,
    ) -> None:
        """More documents, with numbers larger than those before; known: bool[n], whose row the store has already.

        texts: where a result has the lines of documents, these. indexes: of names and texts those with these, in order;
        all without.
        """
        if not len(ids):
            return
        own_names, own_texts, which = _chosen(names, texts if self.has_texts else None, indexes)
        entries = np.empty(len(ids), dtype=self._entry)
        entries["id"], entries["fingerprint"] = ids, fingerprints
        entries["known"] = 0 if known is None else known
        before = (0, 0, 0, 0) if self._last is None else self._last[list(_RUNNING)].tolist()
        self._names.length, text_end = append_documents(
            entries.view(np.uint8),
            self._appended_fields,
            [(file.fileno(), file.path) if file else _NO_FILE for file in (self._names, self._texts, self._index)],
            (own_names.data, own_names.offsets),
            (own_texts.data, own_texts.offsets),
            which,
            before,
            AFTER_ONE,
            self._last is None,
            [file.room if file else self._names.room for file in (self._names, self._texts)],
        )
        if self._texts is not None:
            self._texts.length = text_end
        if self._lines is not None and isinstance(texts, Packed):
            self._placed.add(self.count, texts, which)
        self._index.length += entries.nbytes
        self._last_entries.add(entries.view(np.uint8))
        self._last_names.add(own_names.together(which))
        self._last = entries[-1].copy()
        if not self.count:
            self._first_id = int(entries["id"][0])
        self.count += len(entries)

    def names(self, ids: Ids) -> list[str | None]:
        """The names of documents, ids uint64[n]; None for one that is not here."""
        return self._values(self._names, "name", ids)

    def all_names(self) -> tuple[Bytes, Counts]:
        """The names of all documents, one after the other, as the file has them: uint8[bytes]; and where each ends.

        CorruptStore where they have changed.
        """
        data = self._names.view()
        if self._last is not None:
            expect_value(f"names of {self.count} documents", data, 0, int(self._last["name_crc"]), self._names.path)
        return np.frombuffer(data, dtype=np.uint8), self._entries()["name_end"].astype(np.int64)

    def texts(self, ids: Ids) -> list[str | None]:
        """The texts of documents, ids uint64[n]; None for one that is not here."""
        rows = self._rows(ids)
        here = (rows >= 0).nonzero()[0]
        return _at(here, len(rows), self._packed_texts(rows[here]) if len(here) else None)

    def came_again(self, end: int | None = None) -> Array:
        """Which documents, of those below end, have the name and the text of a later one of these: bool[n].

        Their rows had gone before, as an equal one is not kept. Reads the texts of names that are there twice.
        """
        ids, key = self._entries()["id"], secrets.randbits(64)
        count = self.count if end is None else int(ids.searchsorted(np.uint64(end)))
        data, ends = self.all_names()
        names = _names.hashes(data[: ends[count - 1] if count else 0], ends[:count], key)
        _, group, sizes = np.unique(names, return_inverse=True, return_counts=True)
        again = np.zeros(count, dtype=bool)
        several = np.flatnonzero(sizes[group] > 1)
        hashes = [np.empty(0, dtype=np.uint64)]
        for at in range(0, len(several), _TEXTS_AT_ONCE):
            texts = self.packed_texts(ids[several[at : at + _TEXTS_AT_ONCE]].copy())
            assert texts is not None
            # Not as names, which are shorter than texts may be.
            unnamed = np.empty(0, dtype=np.uint8), np.zeros(len(texts) + 1, dtype=np.int64)
            found = digests(*unnamed, texts.data, texts.offsets, key)
            hashes.append(found[:, :8].copy().view(np.uint64)[:, 0])
        # The last of each name and text is the first from behind.
        equal = np.column_stack([group[several].astype(np.uint64), np.concatenate(hashes)])[::-1]
        _, last = np.unique(equal, axis=0, return_index=True)
        again[several] = True
        again[several[len(several) - 1 - last]] = False
        return again

    def holds(self, ids: Ids) -> Array:
        """Which of ids (uint64[n]) are those of documents that are here: bool[n]."""
        return self._rows(ids) >= 0

    def sync(self) -> None:
        """What was appended is on the disk when this returns: the index last, so that what it tells of is there."""
        for file in (self._settings, self._names, self._texts, self._index):
            if file is not None:
                file.sync()
        self._settings = None

    def _entries(self) -> Array:
        """The index: of this type."""
        return np.frombuffer(self._index.view(), dtype=self._entry)

    def _rows(self, ids: Ids) -> Counts:
        """Where ids stand in the index: int64[n], -1 for one that does not."""
        if self._last is None:
            return np.full(len(ids), -1, dtype=np.int64)
        first, last = np.uint64(self._first_id), np.uint64(self._last["id"])
        if int(last) - int(first) == self.count - 1:  # as a rule: they follow one another
            rows = ids - first  # those below the first come round to far above the last
            return np.where(rows <= last - first, rows, _NOWHERE).astype(np.int64)
        known = self._entries()["id"]
        rows = np.minimum(np.searchsorted(known, ids), self.count - 1)
        found: Counts = np.where(known[rows] == ids, rows, -1)
        return found

    def packed_names(self, ids: Ids) -> Passed | None:
        """The names of documents, packed; None where one is not here."""
        return self._packed(self._names, "name", self._rows(ids))

    def packed_texts(self, ids: Ids) -> Passed | None:
        """The texts of documents, packed; None where one is not here."""
        return self._packed_texts(self._rows(ids))

    def _packed_texts(self, rows: Counts) -> Passed | None:
        if self._texts is not None:
            return self._packed(self._texts, "text", rows)
        if self._lines is None or not len(rows):
            return self._packed(self._names, "name", rows)  # which is of none
        if rows.min() < 0:
            return None
        held = self._placed_lines(rows, self._text_fields)
        return self._lines.texts_of(held.data, held.offsets)

    def _placed_lines(self, rows: Counts, fields: tuple[int, ...]) -> Packed[Any]:
        """The lines of documents in rows: of the inputs where these have them, else of the result."""
        parts = self._placed.parts(rows)
        found = [self._lines_of(file, rows[which], begins, fields) for which, file, begins in parts]
        if len(found) == 1:
            return found[0]
        return Passed.join(found).take(np.argsort(np.concatenate([which for which, _, _ in parts])))

    def _lines_of(self, file: HeldFile | None, rows: Counts, begins: Counts, fields: tuple[int, ...]) -> Passed:
        if file is not None and self._last is not None:
            index, most = self._index.fileno(), int(self._last["text_end"])
            own = fields, rows, file.fileno(), most, begins
            data, offsets, wrong = read_values(index, self.count, *own, self._last_entries.told)
            if wrong is None:
                return Passed(data, offsets)
            self._placed.forget()
        return self._lines_of_result(rows, fields)

    def _lines_of_result(self, rows: Counts, fields: tuple[int, ...]) -> Passed:
        assert self._lines is not None
        end = int(self._entries()["text_end"][rows.max()])
        if end > self._lines.file.length:
            self._lines.wait()
        self._lines.file.begin_to_read()
        return _read(self._index, self.count, fields, "line", rows, self._lines.file, end)

    def _values(self, file: AppendFile, column: str, ids: Ids) -> list[str | None]:
        rows = self._rows(ids)
        here = np.flatnonzero(rows >= 0)
        return _at(here, len(rows), self._packed(file, column, rows[here]))

    def names_later(self, ids: Ids) -> Callable[[], Passed] | None:
        """What reads the names of documents, at any time and by any thread; None where one is not here.

        Of memory, where they are still there as they were written.
        """
        return self._reading(self._names, "name", self._rows(ids), self._last_entries.told, self._last_names.told)

    def _packed(self, file: AppendFile, column: str, rows: Counts) -> Passed | None:
        """What documents in rows have in a file, None where a row is -1. CorruptStore for what has changed."""
        read = self._reading(file, column, rows)
        return None if read is None else read()

    def _reading(self, file: AppendFile, column: str, rows: Counts, *last: Last) -> Callable[[], Passed] | None:
        """What reads that, of all that is here now. last: of the index and of the file, as of read_values."""
        if len(rows) and rows.min() < 0:
            return None
        fields = self._name_fields if column == "name" else self._text_fields
        return partial(_read, self._index, self.count, fields, column, rows, file, file.length, *last)


def _at(places: Counts, count: int, found: Sequence[str] | None) -> list[str | None]:
    """So many values: these at their places, and None at all others."""
    values: list[str | None] = [None] * count
    for at, value in zip(places.tolist(), found or (), strict=True):
        values[at] = value
    return values


def _read(
    index: AppendFile,
    entries: int,
    fields: tuple[int, ...],
    column: str,
    rows: Counts,
    file: AppendFile,
    length: int,
    *last: Last,
) -> Passed:
    data, offsets, wrong = read_values(index.fileno(), entries, fields, rows, file.fileno(), length, None, *last)
    if wrong is not None:
        _refuse(index, file, column, rows, wrong)
    return Passed(data, offsets)


def _chosen(
    names: Sequence[str], texts: Sequence[str] | None, indexes: Counts | None
) -> tuple[Packed[Any], Packed[Any], Counts]:
    """Names and texts, packed, and which of them are meant; texts are empty where they are None."""
    if indexes is not None and not (isinstance(names, Packed) and isinstance(texts, Packed | None)):
        names, texts, indexes = taken(names, indexes), None if texts is None else taken(texts, indexes), None
    own = packed(names)
    no_texts = Encoded(np.empty(0, dtype=np.uint8), np.zeros(len(own) + 1, dtype=np.int64))
    return own, no_texts if texts is None else packed(texts), np.arange(len(own)) if indexes is None else indexes


def _refuse(index: AppendFile, file: AppendFile, column: str, rows: Counts, wrong: tuple[int, ...]) -> None:
    """Raise what is wrong with documents in rows, as _appending.read_values tells it."""
    if len(wrong) == 3:
        place, found, expected = wrong
        expect_crc(f"{column} of document {rows[place]}", found, expected, file.path)
        return
    if len(wrong) == 1:
        where, told = f"document {rows[wrong[0]]}, where its {column} lies", "a place before others or behind all"
        raise CorruptStore(where, told, f"one behind those before it, in {file.length} bytes", path=index.path)
    which, failed = wrong
    read = index if which == OF_INDEX else file
    if failed:
        raise OSError(failed, os.strerror(failed), str(read.path))
    told = f"found less than the {read.length} bytes that were written; --force begins again"
    raise JobError(told, path=read.path)


def _write_settings(folder: Folder, settings: dict[str, Any]) -> None:
    with files_of_jobs():
        replace_whole(folder, SETTINGS, sealed(settings))
