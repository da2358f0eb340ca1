"""Signatures for tests, and a plain model of a store of them: a dict of ids and their signatures."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fpstore.types import Array

BANDS, ROWS, VALUES = 4, 3, 16
# What a store keeps of so many values: the most of 1, 2, 4, ... bits of each that come to 288 bits at most.
KEPT_BITS = 16


def signatures(seed: int, count: int, *, values: int = VALUES, kinds: int = 8) -> Array:
    """Signatures of which many share bands, and some are equal: their values are few, in runs."""
    rng = np.random.default_rng(seed)
    parents = rng.integers(0, 1 << 32, size=(max(1, count // kinds), values), dtype=np.uint32)
    made = parents[rng.integers(0, len(parents), size=count)]
    changed = rng.random(made.shape) < rng.choice([0.0, 0.1, 0.3, 0.6], size=(count, 1))
    made[changed] = rng.integers(0, 1 << 32, size=int(changed.sum()), dtype=np.uint32)
    return made


def shared(one: Sequence[int], other: Sequence[int], bands: int = BANDS, rows: int = ROWS) -> set[int]:
    """The bands in which two signatures are equal."""
    cut = [slice(band * rows, (band + 1) * rows) for band in range(bands)]
    return {band for band, own in enumerate(cut) if list(one[own]) == list(other[own])}


def estimate(one: Sequence[int], other: Sequence[int], bits: int = KEPT_BITS) -> float:
    """The similarity of what is kept of two signatures, one value at a time."""

    def kept(value: int) -> int:
        return (int(value) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> (64 - bits)

    agreeing = sum(kept(a) == kept(b) for a, b in zip(one, other, strict=True))
    return max(0.0, (agreeing / len(one) - 2.0**-bits) / (1 - 2.0**-bits))


class Model:
    """What a store of signatures holds, plainly."""

    def __init__(self, bands: int = BANDS, rows: int = ROWS, bits: int = KEPT_BITS) -> None:
        self.bands, self.rows, self.bits = bands, rows, bits
        self.held: dict[Any, list[tuple[int, ...]]] = defaultdict(list)

    def add(self, given: Iterable[Sequence[int]], ids: Iterable[Any]) -> None:
        for own, name in zip(given, ids, strict=True):
            self.held[name].append(tuple(map(int, own)))

    def remove(self, ids: Iterable[Any]) -> None:
        for name in ids:
            self.held.pop(name, None)

    def upsert(self, given: Iterable[Sequence[int]], ids: Iterable[Any]) -> None:
        for own, name in zip(given, ids, strict=True):
            self.held[name] = [tuple(map(int, own))]

    def similar(self, query: Sequence[int], least: float | None = None) -> list[tuple[Any, float, int]]:
        """Id, similarity and shared bands of each that shares a band, in the order of an answer."""
        found = []
        for name, own in self.held.items():
            bands = set().union(*(shared(query, each, self.bands, self.rows) for each in own))
            similarity = float(np.float32(max(estimate(query, each, self.bits) for each in own)))
            if bands and (least is None or similarity >= least):
                found.append((name, similarity, len(bands)))
        return sorted(found, key=lambda row: (-row[1], row[0]))

    def add_if_new(
        self, given: Iterable[Sequence[int]], ids: Iterable[Any], least: float | None = None
    ) -> list[tuple[Any, float, int] | None]:
        """Of each the match that kept it out, None where it was stored."""
        became: list[tuple[Any, float, int] | None] = []
        for own, name in zip(given, ids, strict=True):
            found = self.similar(own, least)
            became.append(found[0] if found else None)
            if not found:
                self.add([own], [name])
        return became

    def pairs(self, least: float | None = None) -> dict[tuple[Any, Any], tuple[float, int]]:
        """Each two ids that share a band: similarity and shared bands."""
        names = sorted(self.held)
        found = {}
        for place, one in enumerate(names):
            for other in names[place + 1 :]:
                both = [(a, b) for a in self.held[one] for b in self.held[other]]
                cut = range(self.bands)
                bands = {band for a, b in both for band in shared(a, b, self.bands, self.rows)} & {*cut}
                similarity = float(np.float32(max(estimate(a, b, self.bits) for a, b in both)))
                if bands and (least is None or similarity >= least):
                    found[one, other] = similarity, len(bands)
        return found
