"""Owns the features of a document, of several together, and which of kept documents are held: those that came last.

A document that is held takes 16 bytes for each shingle, in two columns that all share; 8 in one where each weighs 1.
One of which only the hashes are held, as they were kept when it was measured, takes 8 for each.
"""

from __future__ import annotations

from bisect import bisect_left
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
# Texts of so many shingles in the mean are long: where they are compared by their texts that takes little longer than
# by hashes, and to hold the hashes of each takes half as long.
_LONG = 1 << 8
# So many bytes of such are held then. With 64 MiB jobs take as long by processors alone, 40 MB more, and up to a third
# longer where memory that was free has to come from the host of the machine.
_OF_LONG = 16 << 20

Counts = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.float64]
# Of some texts that follow one another: the hashes of their shingles, of one more than there are, and where those of
# each end.
HashesPart = tuple[Hashes, npt.NDArray[np.uint64]]


class Features(NamedTuple):
    """The distinct shingles of a document: hashes (uint64[m], increasing) and the weight of each (float64[m])."""

    hashes: Hashes
    weights: Weights


@dataclass(frozen=True, slots=True)
class Sets:
    """The features of documents: those of document i are counts[i] of two columns, from starts[i] on.

    hashes: uint64[m], weights: float64[m], of one more than there are at least, so that each begins at one of them,
    also one without any; weights is None where each is 1. starts, counts: int64[n]. are_listed: hashes are as they
    come in the documents, in any order, and may be there more than once; who counts the distinct ones makes no others.
    """

    hashes: Hashes
    weights: Weights | None
    starts: Counts
    counts: Counts
    are_listed: bool = False

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

    def together(self) -> Sets:
        """The same features, one after the other in columns of their own, from their beginnings on."""
        ends = np.cumsum(self.counts)
        places = np.repeat(self.starts - ends + self.counts, self.counts) + np.arange(ends[-1] if len(ends) else 0)
        weights = None if self.weights is None else self.weights[places]
        return Sets(self.hashes[places], weights, ends - self.counts, self.counts, self.are_listed)

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
        return Sets(hashes, weights, np.cumsum(counts) - counts, counts, self.are_listed)

    def __iter__(self) -> Iterator[Features]:
        return (self[index] for index in range(len(self)))

    @classmethod
    def join(cls, parts: Sequence[tuple[Hashes, Weights | None, Counts]]) -> Sets:
        """Those of all parts: hashes and weights of one more than there are, and where those of each document end.

        Where those of a part are None, each weighs 1.
        """
        if len(parts) == 1:
            hashes, weights, ends = parts[0]
            counts = _counts_of(ends)
        else:
            counts = np.concatenate([np.empty(0, dtype=np.int64), *(_counts_of(part[2]) for part in parts)])
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


@dataclass(frozen=True, slots=True)
class KeptHashes:
    """The hashes of the shingles of texts that were measured: those of text i are hashes[offsets[i] : offsets[i + 1]].

    hashes: uint64[m], of one more than there are. offsets: int64[n + 1], increasing. are_features: those of a text are
    all different and increase; else they are as they come.
    """

    hashes: Hashes
    offsets: Counts
    are_features: bool

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def join(cls, parts: Sequence[HashesPart], *, are_features: bool) -> KeptHashes:
        """Those of all parts, one after the other."""
        if len(parts) == 1:
            offsets = np.zeros(len(parts[0][1]) + 1, dtype=np.int64)
            offsets[1:] = parts[0][1]
            return cls(parts[0][0], offsets, are_features)
        counts = np.concatenate([np.empty(0, dtype=np.int64), *(_counts_of(ends) for _, ends in parts)])
        hashes: list[Hashes] = [part[0][:-1] for part in parts]
        hashes.append(np.zeros(1, dtype=np.uint64))
        return cls(np.concatenate(hashes), offsets_of(counts), are_features)

    @classmethod
    def together(cls, every: Sequence[KeptHashes]) -> KeptHashes:
        """The same of several, at least one."""
        parts = [(each.hashes, each.offsets[1:].astype(np.uint64)) for each in every]
        return cls.join(parts, are_features=every[0].are_features)

    def sets(self, indexes: Counts) -> Sets:
        """The features of texts with these indexes, or what they are made of."""
        starts = self.offsets[indexes]
        return Sets(self.hashes, None, starts, self.offsets[indexes + 1] - starts, not self.are_features)


class Room(NamedTuple):
    """How many bytes may be held: least, or of each document that was kept bytes_each, up to most."""

    least: int
    bytes_each: int = 0
    most: int = 0

    def after(self, documents: int) -> int:
        """How many after so many documents."""
        return max(self.least, min(self.most, documents * self.bytes_each))


class Held:
    """Features of kept documents, by their ids, which forgets the older ones where they would take more than it may.

    Of ids that are equal modulo the size of a table, a power of two, the last is held; of those that follow one another
    none are. What it gives stays as it is when they are forgotten.
    """

    def __init__(self, room: Room, *, weighs: bool = True) -> None:
        """weighs: whether shingles have weights of their own; where not, each is 1."""
        self._are_listed = False  # whether some may be
        self._room, self._bytes = room, _BYTES_OF_BOTH if weighs else _BYTES_OF_HASH
        self._most = room.least // self._bytes
        self._count = 0  # of slots
        self._ids, self._slots = np.zeros(_FIRST_ROOM, dtype=np.uint64), _empty(_FIRST_ROOM)  # by slot; by id
        self._ends = np.zeros(_FIRST_ROOM + 1, dtype=np.int64)  # of slot i: ends[i] to ends[i + 1]
        self._hashes = np.empty(_FIRST_ROOM, dtype=np.uint64)
        self._weights = np.empty(_FIRST_ROOM, dtype=np.float64) if weighs else None

    def see(self, documents: int) -> None:
        """So many were kept by now."""
        self._most = self._room.after(documents) // self._bytes

    def has_room(self, sets: Sets) -> bool:
        """Whether nothing is forgotten where these are added."""
        return int(self._ends[self._count]) + int(sets.counts.sum()) <= self._most

    def slots(self, ids: npt.ArrayLike) -> Counts:
        """Where documents are held, for sets: int64[n], -1 for one that is not."""
        asked = np.asarray(ids, dtype=np.uint64)
        if not self._count:
            return np.full(len(asked), -1, dtype=np.int64)
        slots = self._slots[self._places(asked)]
        return np.where((slots >= 0) & (self._ids[slots] == asked), slots, -1).astype(np.int64)

    def _places(self, ids: npt.NDArray[np.uint64]) -> Counts:
        return (ids & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def sets(self, slots: Counts) -> Sets:
        """The features of documents that are held there."""
        starts = self._ends[slots]
        return Sets(self._hashes, self._weights, starts, self._ends[slots + 1] - starts, self._are_listed)

    def add(self, ids: npt.ArrayLike, sets: Sets) -> None:
        """Hold the features of more documents, one after the other in their columns; at least one."""
        own = np.asarray(ids, dtype=np.uint64)
        self._are_listed |= sets.are_listed
        used, more = int(self._ends[self._count]), int(sets.counts.sum())
        if used + more > self._most and self._count:
            used = self._forget(used + more - self._most)
        slots, start = self._count, int(sets.starts[0])
        self._make_room(used + more, slots + len(own))
        self._hashes[used : used + more] = sets.hashes[start : start + more]
        if self._weights is not None:
            self._weights[used : used + more] = 1 if sets.weights is None else sets.weights[start : start + more]
        self._count += len(own)
        self._ends[slots + 1 : self._count + 1] = used + np.cumsum(sets.counts)
        self._ids[slots : self._count] = own
        self._slots[self._places(own)] = np.arange(slots, self._count)

    def _forget(self, count: int) -> int:
        """Let go of so many shingles, of half of all at least; how many are left."""
        ends = self._ends[: self._count + 1]
        first = min(self._count, int(np.searchsorted(ends, max(count, int(ends[-1]) // 2))))
        start, left = int(ends[first]), int(ends[-1] - ends[first])
        self._ids = self._ids[first:].copy()
        self._count -= first
        self._place_all(len(self._slots))
        # Columns of their own, as somebody may still look at these.
        self._hashes = self._hashes[start : start + left].copy()
        self._weights = None if self._weights is None else self._weights[start : start + left].copy()
        self._ends = self._ends[first:] - start
        return left

    def _make_room(self, shingles: int, slots: int) -> None:
        if shingles >= len(self._hashes):  # one more than there are, at which the last may begin that has none
            # All at once: what is not written to takes no memory, and growing step by step copies it again and again.
            most = max(self._room.least, self._room.most) // self._bytes
            used, room = int(self._ends[self._count]), max(shingles, most) + 1
            self._hashes = _with_room(self._hashes[:used], room)
            self._weights = None if self._weights is None else _with_room(self._weights[:used], room)
        if slots > len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros(2 * slots - len(self._ids), dtype=np.uint64)])
            self._ends = np.concatenate([self._ends, np.zeros(2 * slots + 1 - len(self._ends), dtype=np.int64)])
        if 2 * slots > len(self._slots):
            self._place_all(1 << (4 * slots).bit_length())

    def _place_all(self, room: int) -> None:
        """Have so many places for slots by ids."""
        self._slots = _empty(room)
        self._slots[self._places(self._ids[: self._count])] = np.arange(self._count)


def _counts_of(ends: npt.ArrayLike) -> Counts:
    """How many there are of each, given where each ends: int64[n]; numpy.diff takes five times as long for a few."""
    counts = np.array(ends, dtype=np.int64)
    counts[1:] -= counts[:-1].copy()
    return counts


def _empty(count: int) -> npt.NDArray[np.int32]:
    return np.full(count, -1, dtype=np.int32)


def _with_room(column: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The same values at the start of so many."""
    wider = np.empty(room, dtype=column.dtype)
    wider[: len(column)] = column
    return wider


class HeldHashes:
    """The hashes of the shingles of kept documents whose ids follow one another: of the last of them, in one ring.

    What it gives is good until more are added.
    """

    def __init__(self, room: Room) -> None:
        """room: of which each document takes 8 bytes beside its hashes."""
        # Whether no more of long texts are held where there are _OF_LONG bytes, or it is full, and those that are stay.
        self.stays = self._is_full = False
        self._allowed, self._most = room, max(1, max(room.least, room.most) // _BYTES_OF_HASH)
        # So many places of the ring are in use; more when it comes to its end, and so much room is there by then.
        self._room = max(1, room.least // _BYTES_OF_HASH)
        # No memory is taken before it is written to.
        self._ring = np.empty(0, dtype=np.uint64)
        # Of each document, from the first that is held on: where its hashes begin in all that was ever written, where
        # in the ring, and how many they are.
        self._begins, self._places, self._counts = _Column(), _Column(), _Column()
        self._first = self._end = self._written = self._place = self._seen = 0
        self.are_features = False
        self.has_dropped = False  # any so far

    def add(self, first_id: int, kept: KeptHashes, indexes: Counts) -> None:
        """Hold those of the texts with these indexes, under the ids from first_id on."""
        if not self.stays:
            self._is_full = False
        elif self._is_left(kept.offsets[indexes + 1] - kept.offsets[indexes]):
            return
        if first_id != self._end or kept.are_features is not self.are_features:
            self._drop(self._end - self._first)
            self._place = 0  # all of it is free; else it would count as full for what follows
            self._first, self.are_features = first_id, kept.are_features
        self._end = first_id + len(indexes)
        self._seen += len(indexes)
        counts = kept.offsets[indexes + 1] - kept.offsets[indexes]
        # Each document takes a place more, so that empty ones do not go on for ever.
        taken = np.cumsum((counts + 1)[::-1])[::-1]
        skipped = int(np.count_nonzero(taken > self._room))
        if skipped:
            self._drop(self._end - len(indexes) - self._first)
            self._first += skipped
            indexes, counts = indexes[skipped:], counts[skipped:]
        size = int(counts.sum())
        if not len(self._ring):
            self._ring = np.empty(self._most + 1, dtype=np.uint64)
        self._make_room(size)
        place = self._ring[self._place : self._place + size]
        gather(kept.hashes.view(np.uint8), kept.offsets * _BYTES_OF_HASH, indexes, place.view(np.uint8))
        before = np.cumsum(counts) - counts
        self._begins.append(self._written + before)
        self._places.append(self._place + before)
        self._counts.append(counts)
        self._written += size
        self._place += size
        begins, held = self._begins.values, self._end - self._first
        self._drop(
            bisect_left(range(held), True, key=lambda at: self._written - int(begins[at]) + held - at <= self._room)
        )

    def _is_left(self, counts: Counts) -> bool:
        """Whether all stays as it is, as the ring has enough and these are of long texts."""
        size = int(counts.sum())
        room = min(max(self._room, self._allowed.after(self._seen) // _BYTES_OF_HASH), _OF_LONG // _BYTES_OF_HASH)
        are_long = size >= _LONG * len(counts)
        if size > room and are_long:
            return True  # these alone: what comes behind them may well have room
        self._is_full |= self._place + size > room
        self._is_full &= are_long
        return self._is_full

    def _make_room(self, size: int) -> None:
        """Where the ring comes to its end it becomes larger, if so much may be held by now, else it begins again."""
        used = self._place + size + self._end - self._first
        room = self._allowed.after(self._seen) // _BYTES_OF_HASH
        if self._room < used <= room:
            # What is left of the turn before lies where the ring goes on.
            self._drop(bisect_left(self._begins.values, self._written - self._place))
            self._room = room
        elif self._place + size > self._room:  # those of one call lie side by side
            self._written += self._room - self._place
            self._place = 0

    def _drop(self, count: int) -> None:
        """Let go of the first so many."""
        self.has_dropped |= count > 0
        for column in (self._begins, self._places, self._counts):
            column.drop(count)
        self._first += count

    def have(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Of which documents those are held: bool[n]."""
        held: npt.NDArray[np.bool_] = ids - np.uint64(self._first) < np.uint64(self._end - self._first)
        return held

    def places(self, ids: npt.NDArray[np.uint64]) -> tuple[Hashes, Counts, Counts]:
        """The hashes of documents that are held: a column, where those of each begin in it, and how many they are."""
        own = (ids - np.uint64(self._first)).astype(np.int64)
        return self._ring, self._places.values[own], self._counts.values[own]


class _Column:
    """Numbers that are appended, and dropped from the first on."""

    def __init__(self) -> None:
        self._held = np.empty(_FIRST_ROOM, dtype=np.int64)
        self._first = self._end = 0

    @property
    def values(self) -> Counts:
        return self._held[self._first : self._end]

    def append(self, values: Counts) -> None:
        if self._end + len(values) > len(self._held):
            own = self.values
            room = max(len(self._held), 2 * (len(own) + len(values)))
            held = np.empty(room, dtype=np.int64)
            held[: len(own)] = own
            self._held, self._first, self._end = held, 0, len(own)
        self._held[self._end : self._end + len(values)] = values
        self._end += len(values)

    def drop(self, count: int) -> None:
        self._first += count
