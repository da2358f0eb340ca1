"""Sketches that are in the log, in memory: they only grow, and each has the number of the change that it came with."""

from collections.abc import Iterator

import numpy as np

from fpstore.sketches.reader import Found
from fpstore.types import Array, Ids, Keys

MIN_ROOM = 64


class PendingSketches:
    """Sketches of handles, in the order in which they came. One thread adds; any may look for those before a change."""

    def __init__(self, words: int) -> None:
        self.words = words
        self._count = 0
        self._handles = np.empty(MIN_ROOM, dtype=np.uint64)
        self._numbers = np.empty(MIN_ROOM, dtype=np.uint64)
        self._sketches = np.empty((MIN_ROOM, words), dtype=np.uint64)
        self._places: dict[int, list[int]] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def add(self, handles: Ids, sketches: Keys, number: int | Array) -> None:
        """Append those of a change, or each with the number of its own."""
        first, end = self._count, self._count + len(handles)
        if end > len(self._handles):
            room = max(2 * len(self._handles), end)
            self._handles, self._numbers = (_grown(column, room) for column in (self._handles, self._numbers))
            self._sketches = _grown(self._sketches, room)
        self._handles[first:end], self._numbers[first:end], self._sketches[first:end] = handles, number, sketches
        for place, handle in enumerate(handles.tolist(), first):
            self._places.setdefault(handle, []).append(place)
        self._count = end

    def find(self, handles: Ids, before: int) -> tuple[Found, Keys]:
        """Those of handles (uint64[n], distinct) that came before a change, and the number of the change of each."""
        of: list[int] = []
        at: list[int] = []
        for index, handle in enumerate(handles.tolist()):
            for place in self._places.get(handle, ()):
                of.append(index)
                at.append(place)
        rows = np.array(at, dtype=np.int64)
        numbers, sketches = self._numbers[rows], self._sketches[rows]
        known = numbers < np.uint64(before)
        return Found(np.array(of, dtype=np.int64)[known], sketches[known]), numbers[known]

    def all(self, before: int) -> tuple[Ids, Keys, Keys]:
        """Handles, sketches and numbers of all that came before a change, in the order in which they came."""
        end = int(self._numbers[: self._count].searchsorted(np.uint64(before)))
        return self._handles[:end], self._sketches[:end], self._numbers[:end]

    def since(self, first: int) -> "PendingSketches":
        """Those of the changes from this one on, in an index of their own."""
        start = int(self._numbers[: self._count].searchsorted(np.uint64(first)))
        following = PendingSketches(self.words)
        own = slice(start, self._count)
        following.add(self._handles[own], self._sketches[own], self._numbers[own])
        return following


def in_order(handles: Ids, sketches: Keys) -> tuple[Ids, Keys]:
    """By handle, then sketch, each once."""
    order = np.lexsort([*sketches.T[::-1], handles])
    handles, sketches = handles[order], sketches[order]
    fresh = np.ones(len(handles), dtype=bool)
    fresh[1:] = (handles[1:] != handles[:-1]) | (sketches[1:] != sketches[:-1]).any(axis=1)
    return handles[fresh], sketches[fresh]


def merged_sketches(sources: list[Iterator[tuple[Ids, Keys]]]) -> Iterator[tuple[Ids, Keys]]:
    """Sources, each by handle, then sketch, as one: in order, each once. Holds a piece of each."""
    held = [next(source, None) for source in sources]
    while True:
        left = [index for index, piece in enumerate(held) if piece is not None]
        if not left:
            return
        # Up to the least last handle all are there; of that handle itself there may be more behind the piece.
        cut = min(held[index][0][-1] for index in left)  # type: ignore[index]
        taken: list[tuple[Ids, Keys]] = []
        for index in left:
            piece = held[index]
            while piece is not None and piece[0][0] <= cut:
                end = int(piece[0].searchsorted(cut, side="right"))
                taken.append((piece[0][:end], piece[1][:end]))
                piece = (piece[0][end:], piece[1][end:]) if end < len(piece[0]) else next(sources[index], None)
            held[index] = piece
        if len(taken) == 1:
            yield taken[0]
        else:
            yield in_order(np.concatenate([piece[0] for piece in taken]), np.concatenate([piece[1] for piece in taken]))


def _grown(column: Array, room: int) -> Array:
    grown = np.empty((room, *column.shape[1:]), dtype=column.dtype)
    grown[: len(column)] = column
    return grown
