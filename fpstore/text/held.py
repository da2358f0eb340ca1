"""Owns the features of a document, of several together, and which of kept documents are held: those that came last.

A document that is held takes 16 bytes for each shingle, in two columns that all share; 8 in one where each weighs 1.
One of which only the hashes are held, as they came when it was measured, takes 8 for each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fpstore.text._packed import gather
from fpstore.text.packed import offsets_of

# Of a shingle: its hash, and its weight where it has one of its own.
_BYTES_OF_HASH, _BYTES_OF_BOTH = 8, 16
_FIRST_ROOM = 1 << 12

Counts = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.float64]
# Of some texts that follow one another: the hashes of their shingles, as they come, and where those of each end.
KeptHashes = tuple[Hashes, npt.NDArray[np.uint64]]


class Features(NamedTuple):
    """The distinct shingles of a document: hashes (uint64[m], increasing) and the weight of each (float64[m])."""

    hashes: Hashes
    weights: Weights


@dataclass(frozen=True, slots=True)
class Sets:
    """The features of documents: those of document i are counts[i] of two columns, from starts[i] on.

    hashes: uint64[m], weights: float64[m], of at least one; weights is None where each is 1. starts, counts: int64[n].
    """

    hashes: Hashes
    weights: Weights | None
    starts: Counts
    counts: Counts

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: int) -> Features:
        start, count = int(self.starts[index]), int(self.counts[index])
        own = slice(start, start + count)
        return Features(self.hashes[own], np.ones(count) if self.weights is None else self.weights[own])

    def are(self, hashes: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which documents have these hashes and no others, at most one: bool[n]."""
        same: npt.NDArray[np.bool_] = self.counts == len(hashes)
        if hashes:
            same &= self.hashes[self.starts] == np.uint64(hashes[0])
        return same

    def take(self, places: Counts) -> Sets:
        """The features of some of documents whose features follow one another in the columns, likewise.

        The columns may be empty then.
        """
        offsets = offsets_of(self.counts) * self.hashes.itemsize
        hashes = gather(self.hashes.view(np.uint8), offsets, places).view(np.uint64)
        weights = None
        if self.weights is not None:
            weights = gather(self.weights.view(np.uint8), offsets, places).view(np.float64)
        counts = self.counts[places]
        return Sets(hashes, weights, np.cumsum(counts) - counts, counts)

    def __iter__(self) -> Iterator[Features]:
        return (self[index] for index in range(len(self)))

    @classmethod
    def join(cls, parts: Sequence[tuple[Hashes, Weights | None, Counts]]) -> Sets:
        """Those of all parts: hashes and weights of one more than there are, and where those of each document end.

        Where those of a part are None, each weighs 1.
        """
        if len(parts) == 1:
            hashes, weights, ends = parts[0]
            counts = np.diff(ends, prepend=0)
        else:
            counts = np.concatenate([np.empty(0, dtype=np.int64), *(np.diff(part[2], prepend=0) for part in parts)])
            hashes = np.concatenate([*(part[0][:-1] for part in parts), np.zeros(1, dtype=np.uint64)])
            own = [part[1][:-1] for part in parts if part[1] is not None]
            weights = np.concatenate([*own, np.zeros(1)]) if len(own) == len(parts) else None
        return cls(hashes, weights, np.cumsum(counts) - counts, counts)

    @classmethod
    def of(cls, every: Sequence[Features]) -> Sets:
        """Those of documents that were made one by one, with weights."""
        counts = np.array([len(each.hashes) for each in every], dtype=np.int64)
        hashes = np.concatenate([*(each.hashes for each in every), np.zeros(1, dtype=np.uint64)])
        weights = np.concatenate([*(each.weights for each in every), np.zeros(1)])
        return cls(hashes, weights, np.cumsum(counts) - counts, counts)


class Held:
    """Features of kept documents, by their ids, which forgets the older ones where they would take more than it may.

    What it gives stays as it is when they are forgotten.
    """

    def __init__(self, most_bytes: int, *, weighs: bool = True) -> None:
        """weighs: whether shingles have weights of their own; where not, each is 1."""
        self._most = most_bytes // (_BYTES_OF_BOTH if weighs else _BYTES_OF_HASH)
        self._slots: dict[int, int] = {}
        self._ids: list[int] = []  # by slot
        self._ends = np.zeros(_FIRST_ROOM, dtype=np.int64)  # of slot i: ends[i] to ends[i + 1]
        self._hashes = np.empty(_FIRST_ROOM, dtype=np.uint64)
        self._weights = np.empty(_FIRST_ROOM, dtype=np.float64) if weighs else None

    def __contains__(self, document_id: int) -> bool:
        return document_id in self._slots

    def sets(self, ids: Sequence[int]) -> Sets:
        """The features of documents that are held."""
        slots = np.array([self._slots[each] for each in ids], dtype=np.int64)
        starts = self._ends[slots]
        return Sets(self._hashes, self._weights, starts, self._ends[slots + 1] - starts)

    def add(self, ids: Sequence[int], sets: Sets) -> None:
        """Hold the features of more documents, one after the other in their columns; at least one."""
        used, more = int(self._ends[len(self._ids)]), int(sets.counts.sum())
        if used + more > self._most and self._ids:
            used = self._forget(used + more - self._most)
        slots, start = len(self._ids), int(sets.starts[0])
        self._make_room(used + more, slots + len(ids) + 1)
        self._hashes[used : used + more] = sets.hashes[start : start + more]
        if self._weights is not None:
            self._weights[used : used + more] = 1 if sets.weights is None else sets.weights[start : start + more]
        self._ends[slots + 1 : slots + 1 + len(ids)] = used + np.cumsum(sets.counts)
        self._slots.update(zip(ids, range(slots, slots + len(ids)), strict=True))
        self._ids += ids

    def _forget(self, count: int) -> int:
        """Let go of so many shingles, of half of all at least; how many are left."""
        ends = self._ends[: len(self._ids) + 1]
        first = min(len(self._ids), int(np.searchsorted(ends, max(count, int(ends[-1]) // 2))))
        start, left = int(ends[first]), int(ends[-1] - ends[first])
        self._ids = self._ids[first:]
        self._slots = {document_id: slot for slot, document_id in enumerate(self._ids)}
        # Columns of their own, as somebody may still look at these.
        self._hashes = self._hashes[start:].copy()
        self._weights = None if self._weights is None else self._weights[start:].copy()
        self._ends = self._ends[first:] - start
        return left

    def _make_room(self, shingles: int, slots: int) -> None:
        if shingles > len(self._hashes):
            # All at once: what is not written to takes no memory, and growing step by step copies it again and again.
            used, room = int(self._ends[len(self._ids)]), max(shingles, self._most)
            self._hashes = _with_room(self._hashes[:used], room)
            self._weights = None if self._weights is None else _with_room(self._weights[:used], room)
        if slots > len(self._ends):
            self._ends = np.concatenate([self._ends, np.zeros(2 * slots - len(self._ends), dtype=np.int64)])


def _with_room(column: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The same values at the start of so many."""
    wider = np.empty(room, dtype=column.dtype)
    wider[: len(column)] = column
    return wider


class HeldHashes:
    """The hashes of the shingles of kept documents whose ids follow one another: of the last of them."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._parts: deque[KeptHashes] = deque()
        # Those that are held have the ids from first to end.
        self._first = self._end = 0

    def add(self, first_id: int, kept: Sequence[KeptHashes], indexes: Counts) -> None:
        """Hold those of the texts with these indexes, increasing, under the ids from first_id on."""
        if first_id != self._end:
            self._parts.clear()
            self._first, self._bytes = first_id, 0
        self._end = first_id + len(indexes)
        start = 0
        for hashes, ends in kept:
            first, end = np.searchsorted(indexes, [start, start + len(ends)])
            offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends.astype(np.int64)]) * hashes.itemsize
            own = indexes[first:end] - start
            start += len(ends)
            if len(own):
                taken = gather(hashes.view(np.uint8), offsets, own).view(np.uint64)
                counts = np.diff(offsets)[own] // hashes.itemsize
                self._parts.append((taken, np.cumsum(counts).astype(np.uint64)))
                self._bytes += _bytes_of(self._parts[-1])
        while self._bytes > self._most:
            oldest = self._parts.popleft()
            self._first += len(oldest[1])
            self._bytes -= _bytes_of(oldest)

    def has(self, document_id: int) -> bool:
        """Whether those of a document are held."""
        return self._first <= document_id < self._end

    def parts_of(self, ids: Sequence[int]) -> tuple[list[KeptHashes], Counts]:
        """The hashes of documents that are held, maybe among others, and the index of each there."""
        return [*self._parts], np.array([each - self._first for each in ids], dtype=np.int64)


def _bytes_of(part: KeptHashes) -> int:
    return part[0].nbytes + part[1].nbytes
