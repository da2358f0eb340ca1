"""Sorted runs of more items than memory holds, read back in order piece by piece.

Keys are packed as steps from one to the next. They lie in memory for as long as there is room for them, and in a file
without a name from then on: whatever ends the process, a Ctrl-C or a kill, leaves nothing behind.
"""

import errno
import os
import weakref
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from fpstore._merge import PACKED_GROUP, PACKED_SLACK, pack_sorted, packed_most, unpack_sorted
from fpstore._sort import GrowingKeys
from fpstore.closing import close_all
from fpstore.disk import naming, unnamed, write_all
from fpstore.merging import Columns, Source
from fpstore.types import Bytes, Keys

KEY_BYTES = 8
# So many keys are a group, which is read whole: a piece that is half empty has room for it.
GROUP_KEYS = PACKED_GROUP
# So many keys are packed at a time, into what the second-level cache holds; or as many as a small budget has room for.
PACKED_KEYS = 1 << 16
# What is in memory is written in so large pieces: each is a call that Ctrl-C waits for.
WRITE_BYTES = 8 << 20


class Bound(NamedTuple):
    """Where a run begins or ends: so many items, and bytes of the first column, are before it."""

    items: int
    bytes: int


BEGIN = Bound(0, 0)


class Spill:
    """Runs of items in columns: the first packed, the others raw; appended one behind the other, read back in order.

    count: how many items there are. What is held lies at the front of a room for keys, which is its maker's.
    """

    def __init__(self, directory: Path, column_count: int, packed_keys: int = PACKED_KEYS) -> None:
        self.count = self._bytes = 0
        self.column_count = column_count
        self._directory = directory
        self._packed_keys = packed_keys
        self._written = 0  # bytes of the first column that are in its file; what is behind them is held
        self._room: GrowingKeys | None = None
        self._files: list[IO[bytes]] = []
        # Closing is what frees the disk; the finalizer does it where an exception skips close().
        self._close_files = weakref.finalize(self, _close_files_of, self._files)

    @property
    def end(self) -> Bound:
        """Of what is there."""
        return Bound(self.count, self._bytes)

    @property
    def held_keys(self) -> int:
        """How much of its maker's room is taken, in places for keys."""
        return -(-(self._bytes - self._written) // KEY_BYTES)

    def close(self) -> None:
        """Free the memory and the disk."""
        self._room = None
        self._close_files()

    def append(self, columns: Columns) -> None:
        """Write the items of columns (of equal length) behind those already there, which are not above them."""
        first, *others = columns
        self.write_held()
        for packed in self._packed(first):
            self._write_packed(packed)
        for number, column in enumerate(others, 1):
            self._write(number, column.view(np.uint8), self.count * KEY_BYTES)
        self.count += len(first)

    def hold(self, room: GrowingKeys, first: int, count: int) -> None:
        """Append keys of room from the place `first` on, which is not before held_keys, packed and moved to the front.

        room: the same each time. What lies in it behind held_keys is of no meaning afterwards.
        """
        self._room = room
        keys, stop = np.asarray(room), first + count
        done, size = self._pack_down(keys, first, stop, self._bytes - self._written)
        self._bytes += size
        if done < stop:
            self.write_held()
            for packed in self._packed(keys[done:stop]):
                self._write_packed(packed)
        self.count += count

    def _pack_down(self, keys: Keys, first: int, stop: int, at: int) -> tuple[int, int]:
        """Pack keys from first on to where byte `at` is; up to which key it came, and to how many bytes.

        Few keys, far from each other, may take more than they did: then there is no room before those to come.
        """
        data, begin = keys.view(np.uint8), at
        for done in range(first, stop, self._packed_keys):
            some = keys[done : min(done + self._packed_keys, stop)]
            room = data[at : at + packed_most(len(some), GROUP_KEYS)]
            if at + len(room) <= KEY_BYTES * done:  # no need of a place that is in nobody's way
                at += pack_sorted(some, GROUP_KEYS, room)
                continue
            (packed,) = self._packed(some)
            if at + len(packed) > KEY_BYTES * (done + len(some)):
                return done, at - begin
            data[at : at + len(packed)] = packed
            at += len(packed)
        return stop, at - begin

    def write_held(self) -> None:
        """Bring what is held to the file."""
        if self._room is None:
            return
        held = np.asarray(self._room).view(np.uint8)[: self._bytes - self._written]
        for at in range(0, len(held), WRITE_BYTES):
            piece = held[at : at + WRITE_BYTES]
            self._write(0, piece, self._written + at)
        self._written = self._bytes
        self._room = None

    def _packed(self, keys: Keys) -> Iterator[Bytes]:
        """Keys as bytes, so many at a time, in a room that is used again."""
        room = np.empty(packed_most(min(len(keys), self._packed_keys), GROUP_KEYS), dtype=np.uint8)
        for start in range(0, len(keys), self._packed_keys):
            yield room[: pack_sorted(keys[start : start + self._packed_keys], GROUP_KEYS, room)]

    def _write_packed(self, packed: Bytes) -> None:
        self._write(0, packed, self._bytes)
        self._bytes += len(packed)
        self._written = self._bytes

    def _write(self, number: int, data: Bytes, offset: int) -> None:
        while len(self._files) < self.column_count:
            self._files.append(unnamed(self._directory, buffering=0))
        with naming(self._directory):
            write_all(self._files[number].fileno(), data.data, offset)

    def packed(self, offset: int, size: int, room: Bytes) -> Bytes:
        """So many bytes of the first column from offset on, with slack: those that are held, or read into room."""
        if offset >= self._written:
            start = offset - self._written
            return np.asarray(self._room).view(np.uint8)[start : start + size + PACKED_SLACK]
        self._read(0, room[:size], offset)
        return room[: size + PACKED_SLACK]

    def read_others(self, columns: list[Keys], index: int) -> None:
        """Fill the other columns with the items from index on."""
        for number, column in enumerate(columns, 1):
            self._read(number, column.view(np.uint8), index * KEY_BYTES)

    def _read(self, number: int, room: Bytes, offset: int) -> None:
        rest = room.data
        with naming(self._directory):
            while rest:
                got = os.preadv(self._files[number].fileno(), [rest], offset)
                if got == 0:
                    raise OSError(errno.EIO, f"a spill file ends at byte {offset}, {len(rest)} bytes early")
                rest = rest[got:]
                offset += got


def _close_files_of(files: list[IO[bytes]]) -> None:
    close_all(*(file.close for file in files))


class _Run:
    """A sorted run as a source for merging: it holds a piece, filled up when half of it is gone.

    So a merge consumes about half a piece of a run each round. room: an array for each column, a piece long. packed:
    where keys are read to, for all runs of a merge.
    """

    def __init__(self, spill: Spill, first: Bound, stop: Bound, room: list[Keys], packed: Bytes) -> None:
        self.held: Columns = [column[:0] for column in room]
        self.ended = first.items == stop.items
        self._spill = spill
        self._next, self._stop = first, stop
        self._room, self._packed = room, packed

    def refill(self) -> None:
        """Read on where there is more and less than half a piece is held."""
        kept, piece = len(self.held[0]), len(self._room[0])
        if self.ended or kept >= (piece + 1) // 2:
            return
        for room, column in zip(self._room, self.held, strict=True):
            room[:kept] = column
        at, stop = self._next, self._stop
        left, left_bytes = stop.items - at.items, stop.bytes - at.bytes
        # As many bytes as fill the piece, if what is left is alike, and one group that is not; none of the next run.
        size = left_bytes * min(piece - kept, left) // left + packed_most(GROUP_KEYS, GROUP_KEYS)
        size = min(size, left_bytes, len(self._packed) - PACKED_SLACK)
        packed = self._spill.packed(at.bytes, size, self._packed)
        fresh, used = unpack_sorted(packed, size, self._room[0][kept:])
        if not fresh:
            raise OSError(errno.EIO, f"a spill file has changed at byte {at.bytes}")
        self._spill.read_others([room[kept : kept + fresh] for room in self._room[1:]], at.items)
        self._next = Bound(at.items + fresh, at.bytes + used)
        self.held = [room[: kept + fresh] for room in self._room]
        self.ended = self._next.items == stop.items


def runs_of(spill: Spill, bounds: list[Bound], items: int) -> list[Source]:
    """Sources of the runs of spill that lie between successive bounds, which take room for so many items together."""
    piece = max(2 * GROUP_KEYS, items // len(bounds))
    packed = np.empty(packed_most(piece, GROUP_KEYS), dtype=np.uint8)
    rooms = [[np.empty(piece, np.uint64) for _ in range(spill.column_count)] for _ in bounds[1:]]
    return [_Run(spill, *ends, room, packed) for ends, room in zip(pairwise(bounds), rooms, strict=True)]
