"""Owns which documents of a corpus are near which, all of them being known: their near pairs and their components."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fpstore
from fpstore import _names, minhash
from fpstore.fingerprints import as_strings, distinct
from fpstore.jobs.settings import Settings
from fpstore.minhash.making import kept_of
from fpstore.progress import OnProgress
from fpstore.query.pairs import Pairs
from fpstore.types import Array, Counts, Keys

_AT_ONCE = 1 << 14
# The first of two, the second, and how near they are.
Near = tuple[Counts, Counts, Array]


class _Graph(ABC):
    """Documents in an order. place: of each the number of what it equals; distinct_count: how many such there are.

    of_equals: how near two are that are equal.
    """

    place: Counts
    distinct_count: int
    of_equals: float

    def __len__(self) -> int:
        return len(self.place)

    def components(
        self, settings: Settings, memory: str | int, threads: int | None, progress: OnProgress | None
    ) -> tuple[Counts, Array, int]:
        """Of each document the number of its component, and how near it is to its first; how many components there are.

        They are numbered in the order of their first ones.
        """
        labels = components_of(self.distinct_count, self.near(settings, memory, threads, progress))[self.place]
        rows = np.arange(len(labels))
        first = np.empty(self.distinct_count, dtype=np.int64)
        first[labels[::-1]] = rows[::-1]  # of several rows with one label the last that is assigned stays, the first
        leaders = first[labels]
        is_leader = leaders == rows
        numbers = (np.cumsum(is_leader) - 1)[leaders]
        return numbers, self._nearness(leaders), int(np.count_nonzero(is_leader))

    @abstractmethod
    def near(
        self, settings: Settings, memory: str | int, threads: int | None, progress: OnProgress | None
    ) -> Iterator[Near]:
        """The near pairs of what is distinct: numbers of the two, smaller first, and how near they are."""

    @abstractmethod
    def _nearness(self, others: Counts) -> Array:
        """How near each document is to another one."""


def ranked(fingerprints: Keys, every: Iterable[Pairs]) -> Iterator[Near]:
    """Pairs of fingerprints, which are sorted and without repetitions, as pairs of places among them."""
    in_order = as_strings(fingerprints)
    for found in every:
        one, other = (np.searchsorted(in_order, as_strings(keys)) for keys in (found.first, found.second))
        yield one, other, found.distance


class Graph(_Graph):
    """By fingerprints; also sorted and without repetitions. In memory are 24 bytes for each, and two fingerprints."""

    of_equals = 0

    def __init__(self, fingerprints: Keys, folder: Path, bits: int) -> None:
        """folder: for a store that is needed meanwhile."""
        self.fingerprints = fingerprints
        self._folder, self._bits = folder, bits
        self.distinct, self.place = distinct(fingerprints)
        self.distinct_count = len(self.distinct)

    def near(
        self, settings: Settings, memory: str | int, threads: int | None, progress: OnProgress | None
    ) -> Iterator[Near]:
        """Within the distance of the settings."""
        path, distance = self._folder / "store", settings.max_distance
        shutil.rmtree(path, ignore_errors=True)
        how: dict[str, Any] = {"max_distance": distance, "memory": memory, "threads": threads, "progress": progress}
        with fpstore.build(path, self.distinct, ids=None, bits=self._bits, **how) as store:
            yield from ranked(self.distinct, store.pairs(**how))
        shutil.rmtree(path)

    def _nearness(self, others: Counts) -> Array:
        distances: Array = np.bitwise_count(self.fingerprints ^ self.fingerprints[others])
        return distances if distances.ndim == 1 else distances.sum(axis=1, dtype=np.uint16)


class SignedGraph(_Graph):
    """By signatures, integers[n, values], which may lie in a file. In memory are 40 bytes for each."""

    of_equals = 1.0

    def __init__(self, signatures: Array, folder: Path) -> None:
        """folder: as for Graph."""
        self._signatures, self._folder = signatures, folder
        hashes = np.empty(len(signatures), dtype=np.uint64)
        for at in range(0, len(signatures), _AT_ONCE):
            rows = np.ascontiguousarray(signatures[at : at + _AT_ONCE])
            ends = np.arange(1, len(rows) + 1) * (rows.shape[1] * rows.itemsize)
            hashes[at : at + len(rows)] = _names.hashes(rows.reshape(-1).view(np.uint8), ends)
        _, self._first, self.place = np.unique(hashes, return_index=True, return_inverse=True)
        if not all((own == self._signatures[self._first[place]]).all() for own, place in self._pieces()):
            # Two signatures have one hash by chance, so they are compared whole.
            _, self._first, self.place = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
        self.distinct_count = len(self._first)

    def near(
        self, settings: Settings, memory: str | int, threads: int | None, progress: OnProgress | None
    ) -> Iterator[Near]:
        """Which share a band, and are as similar as the settings say."""
        path = self._folder / "store"
        shutil.rmtree(path, ignore_errors=True)
        firsts = (self._first[at : at + _AT_ONCE] for at in range(0, len(self._first), _AT_ONCE))
        with minhash.build(
            path,
            (self._signatures[own] for own in firsts),
            bands=settings.bands,
            rows_per_band=settings.rows_per_band,
            recipe=settings.recipe,
            memory=memory,
            progress=progress,
        ) as store:
            for found in store.pairs(min_similarity=settings.min_similarity, memory=memory, progress=progress):
                yield found.first_id.astype(np.int64), found.second_id.astype(np.int64), found.similarity
        shutil.rmtree(path)

    def _nearness(self, others: Counts) -> Array:
        kept = kept_of(self._signatures.shape[1])
        found = np.empty(len(others), dtype=np.float32)
        for at in range(0, len(others), _AT_ONCE):
            own = slice(at, at + _AT_ONCE)
            one, other = (kept.sketches(rows) for rows in (self._signatures[own], self._signatures[others[own]]))
            found[own] = kept.similarity(one, other)
        return found

    def _pieces(self) -> Iterator[tuple[Any, Counts]]:
        for at in range(0, len(self.place), _AT_ONCE):
            own = slice(at, at + _AT_ONCE)
            yield self._signatures[own], self.place[own]


def components_of(count: int, edges: Iterator[Near]) -> Counts:
    """The least number of each one's component, of so many that edges join: int64[count]."""
    parent = np.arange(count)
    for first, second, _ in edges:
        one, other = first, second
        while len(one):
            one, other = _roots(parent, one), _roots(parent, other)
            low, high = np.minimum(one, other), np.maximum(one, other)
            apart = low < high
            low, high = low[apart], high[apart]
            # Of several edges at one root the least wins; the others are looked at again.
            np.minimum.at(parent, high, low)
            one, other = low, high
    return _roots(parent, np.arange(count))


def _roots(parent: Counts, numbers: Counts) -> Counts:
    """The roots of numbers; the paths to them become shorter."""
    roots = parent[numbers]
    while True:
        above = parent[roots]
        if np.array_equal(above, roots):
            break
        roots = above
    parent[numbers] = np.minimum(parent[numbers], roots)
    return roots
