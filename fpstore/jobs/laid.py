"""Owns the hashes of the shingles of kept documents on the disk, where to cut a text again would take much longer.

They are a help that nobody misses: in files without names, which end with the process. A job that goes on begins anew,
and what is not here is made of the text. Where the disk has no room for them the job goes on without, as they may take
more than all that it has to write.
"""

import errno
import os
from typing import IO

import numpy as np

from fpstore.closing import close_all
from fpstore.disk import Folder, naming, unnamed, write_all
from fpstore.text._packed import gather, ranges
from fpstore.text.held import KeptHashes
from fpstore.types import Array, Bytes, Counts, Ids, Keys

_WORD = 8
# What is known of a document: where its hashes begin, and how many they are.
_ENTRY = np.dtype([("start", "<i8"), ("count", "<i8")])
# Of a disk, of a quota, and of how large a file may be.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LaidHashes:
    """Those of documents whose ids follow one another; as fpstore.text.held.HeldHashes, of all of them."""

    def __init__(self, folder: Folder) -> None:
        """folder: where they take room."""
        self._path = folder.path
        with naming(folder.path):
            self._hashes = unnamed(folder.reach, buffering=0)
            try:
                self._entries = unnamed(folder.reach, buffering=0)
            except BaseException:
                self._hashes.close()
                raise
        self._first = self._count = self._written = 0
        self.are_features = self._is_full = False

    def close(self) -> None:
        """They take no room any more."""
        close_all(self._hashes.close, self._entries.close)

    def add(self, first_id: int, kept: KeptHashes, indexes: Counts) -> None:
        """Lay down those of the texts with these indexes, under the ids from first_id on.

        Where there is no room for them, or less is left than they take, as the job itself has to write too, nothing is
        here from then on, and what took room is given back.
        """
        if self._is_full:
            return
        if first_id != self._first + self._count or kept.are_features is not self.are_features:
            self._begin_at(first_id)
            self.are_features = kept.are_features
        offsets = kept.offsets * _WORD
        hashes = gather(kept.hashes.view(np.uint8), offsets, indexes)
        entries = np.empty(len(indexes), dtype=_ENTRY)
        entries["count"] = kept.offsets[indexes + 1] - kept.offsets[indexes]
        entries["start"] = self._written + np.cumsum(entries["count"]) - entries["count"]
        try:
            self._append(self._hashes, hashes)
            self._append(self._entries, entries.view(np.uint8))
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._let_go()
            return
        self._written += len(hashes) // _WORD
        self._count += len(indexes)
        room = os.fstatvfs(self._hashes.fileno())
        if room.f_bavail * room.f_frsize < self._written * _WORD:
            self._let_go()

    def _let_go(self) -> None:
        """Of all that is here; no more is laid."""
        self._is_full = True
        self._begin_at(0)

    def _begin_at(self, first_id: int) -> None:
        for file in (self._hashes, self._entries):
            with naming(self._path):
                os.ftruncate(file.fileno(), 0)
                os.lseek(file.fileno(), 0, os.SEEK_SET)
        self._first, self._count, self._written = first_id, 0, 0

    def _append(self, file: IO[bytes], data: Bytes) -> None:
        with naming(self._path):
            write_all(file.fileno(), data.data)

    def have(self, ids: Ids) -> Array:
        """Which documents are here: bool[n]."""
        here: Array = ids - np.uint64(self._first) < np.uint64(self._count)
        return here

    def places(self, ids: Ids) -> tuple[Keys, Counts, Counts]:
        """The hashes of documents that are here: a column, where those of each begin in it, and how many they are."""
        starts = (ids - np.uint64(self._first)).astype(np.int64) * _ENTRY.itemsize
        entries = self._read(self._entries, self._count * _ENTRY.itemsize, starts, starts + _ENTRY.itemsize)[0]
        own = entries.view(_ENTRY)
        first = own["start"] * _WORD
        data, offsets = self._read(self._hashes, self._written * _WORD, first, first + own["count"] * _WORD)
        column = np.zeros(len(data) // _WORD + 1, dtype=np.uint64)  # of one more, as others are
        column[:-1] = data.view(np.uint64)
        return column, offsets[:-1] // _WORD, own["count"].astype(np.int64)

    def _read(self, file: IO[bytes], size: int, starts: Counts, ends: Counts) -> tuple[Bytes, Counts]:
        with naming(self._path):
            return ranges(file.fileno(), size, starts, ends)
