"""Owns which leaders equal a document, where more of them have its fingerprint than are looked at.

What is equal has one mark, a hash of what documents are compared by; who asks measures what is found. Marks are held of
the leaders of crowded fingerprints alone, each from the time on when that is asked about: 16 bytes of each, and up to a
fifth of them, or 4,096, in a dictionary.
"""

from collections.abc import Hashable

import numpy as np

from fpstore.types import Array, Ids

_MIN_RECENT = 4096
# The share of those that are sorted which may come before all are sorted again.
_RECENT_SHARE = 4


class Equals:
    """The leaders of some fingerprints, by their marks."""

    def __init__(self) -> None:
        self._signs: set[Hashable] = set()
        self._marks: Array = np.empty(0, dtype=np.uint64)
        self._ids: Ids = np.empty(0, dtype=np.uint64)
        self._recent: dict[int, list[int]] = {}
        self._recent_count = 0

    def knows(self, sign: Hashable) -> bool:
        """Whether the leaders of a fingerprint, or of what else stands for one, are here."""
        return sign in self._signs

    def learn(self, sign: Hashable) -> None:
        """All leaders of it are here now."""
        self._signs.add(sign)

    def add(self, mark: int, leader: int) -> None:
        """One more leader, of a fingerprint that is or soon will be here; of one fingerprint ids increase."""
        self._recent.setdefault(mark, []).append(leader)
        self._recent_count += 1
        if self._recent_count >= max(_MIN_RECENT, len(self._ids) // _RECENT_SHARE):
            self._sort()

    def find(self, mark: int) -> list[int]:
        """The ids of those with this mark; of one fingerprint they increase."""
        recent = self._recent.get(mark, [])
        first = int(self._marks.searchsorted(np.uint64(mark)))
        if first == len(self._marks) or self._marks[first] != mark:
            return recent[:]
        end = int(self._marks.searchsorted(np.uint64(mark), "right"))
        return [*self._ids[first:end].tolist(), *recent]

    def _sort(self) -> None:
        own = [(mark, leader) for mark, leaders in self._recent.items() for leader in leaders]
        recent = np.array(own, dtype=np.uint64)
        marks, ids = np.concatenate([self._marks, recent[:, 0]]), np.concatenate([self._ids, recent[:, 1]])
        order = marks.argsort(kind="stable")
        self._marks, self._ids = marks[order], ids[order]
        self._recent, self._recent_count = {}, 0
