"""From signatures to the keys of their bands: equal where the values of a band are, and in no two bands the same.

The one table of a store has all bands: those of band 0 lie first, then those of band 1, as each has its own range of
keys. What is computed here is part of the format: it never changes for a store that is there.
"""

import functools
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fpstore._similar import band_hashes, band_keys
from fpstore.checks import expect, expect_integer
from fpstore.format import MAX_KEY_BITS, MIN_KEY_BITS
from fpstore.types import Array, Counts, Ids, Keys

MAX_BANDS = 1024
MAX_VALUES = 4096
# How many documents a signature may meet by chance: where each comes with its similarity, which shows it; where that is
# not known; and where nothing but a band is, so that none can be told, in how many bands it may seem to be there.
CHANCES_ESTIMATED, CHANCES_ALONE, CHANCES_OF_A_BAND = 0.25, 0.01, 1e-5


class Signed(NamedTuple):
    """Signatures as they are compared: the keys of their bands, uint64[n, bands], and their sketches, if kept."""

    keys: Keys
    sketches: Keys | None

    @property
    def size(self) -> int:
        """How many."""
        return len(self.keys)

    def part(self, which: slice | Array) -> "Signed":
        """Some of them."""
        return Signed(self.keys[which], None if self.sketches is None else self.sketches[which])


class Banding(NamedTuple):
    """How signatures are cut: the first bands * rows_per_band of their values, which become keys of so many bits."""

    bands: int
    rows_per_band: int
    bits: int = 64

    def expect_sound(self, values: int) -> None:
        """ValueError for what cannot be, of signatures of so many values."""
        expect_integer("values", values, 1, MAX_VALUES)
        expect_integer("bands", self.bands, 1, MAX_BANDS)
        expect_integer("rows_per_band", self.rows_per_band, 1, MAX_VALUES)
        taken = self.bands * self.rows_per_band
        most = (
            f"at most {values}, the values of a signature: bands (--bands) and rows_per_band (--rows-per-band) say so"
        )
        expect("bands * rows_per_band", taken, taken <= values, most)
        expect("bands", self.bands, self.bands <= 1 << self.bits, f"at most 2^{self.bits}, the keys that there are")

    def keys(self, signatures: Array) -> Keys:
        """The keys of each signature: uint64[n, bands], of integers[n, values]."""
        return self.keys_of(self.hashes(signatures))

    def hashes(self, signatures: Array) -> Keys:
        """The hash of each band of each signature, of which its key is made: uint64[n, bands]."""
        return band_hashes(signatures, self.bands, self.rows_per_band)

    def keys_of(self, hashes: Keys) -> Keys:
        """The keys that come of hashes, uint64[n, bands] both."""
        return band_keys(hashes, *_ranges(self.bands, self.bits))

    def of(self, keys: Keys) -> Counts:
        """The band of each key: int64[n]."""
        bases, _ = _ranges(self.bands, self.bits)
        return bases.searchsorted(keys, side="right") - 1

    def by_chance(self, documents: float) -> float:
        """How many of so many documents that share no band with a signature have a key of its."""
        return self.bands * self.bands * documents / (1 << self.bits)

    def first_key(self, band: int) -> int:
        """The least key that a band has; of the one after the last, the number of keys."""
        return -(-(band << self.bits) // self.bands)


def key_bits_for(documents: int, bands: int, *, estimated: bool, with_ids: bool) -> int:
    """The bits of a key with which so many documents are met by chance seldom enough: 16 to 64.

    estimated: each candidate comes with its similarity. with_ids: else a key is all that is known.
    """
    most = (CHANCES_ESTIMATED if estimated else CHANCES_ALONE) if with_ids else CHANCES_OF_A_BAND * bands
    for bits in range(MIN_KEY_BITS, MAX_KEY_BITS):
        banding = Banding(bands, 1, bits)
        if banding.by_chance(documents) <= most and bands <= 1 << bits:
            return bits
    return MAX_KEY_BITS


def rows_of(keys: Keys, ids: Ids | None) -> tuple[Keys, Ids | None]:
    """The rows of documents, of each as many as it has bands: their keys, and its id beside each of them."""
    return np.ascontiguousarray(keys).ravel(), None if ids is None else np.repeat(ids, keys.shape[1])


def documents_of(keys: Keys, ids: Ids | None, banding: Banding) -> tuple[Keys, Ids | None]:
    """Documents that have these rows and no others: uint64[n, bands], and the id of each.

    Of each id there is a row in each band. Where there are several, some come twice.
    """
    bands = banding.bands
    own = np.zeros(len(keys), dtype=np.uint64) if ids is None else ids
    order = np.lexsort([keys, own])
    keys, own = keys[order], own[order]
    distinct, counts = np.unique(own, return_counts=True)
    if (counts == bands).all():
        return keys.reshape(-1, bands), None if ids is None else distinct
    made: list[Keys] = []
    of: list[int] = []
    for number, group in zip(distinct.tolist(), np.split(keys, np.cumsum(counts)[:-1]), strict=True):
        each = [group[banding.of(group) == band] for band in range(bands)]
        most = max(map(len, each))
        made.append(np.stack([np.resize(column, most) for column in each], axis=1))
        of += [number] * most
    return np.concatenate(made), None if ids is None else np.array(of, dtype=np.uint64)


@functools.cache
def _ranges(bands: int, bits: int) -> tuple[Keys, Keys]:
    """The least key of each band, and how many keys it may have: uint64[bands] both."""
    banding = Banding(bands, 1, bits)
    bounds = [banding.first_key(band) for band in range(bands + 1)]
    sizes = [end - first for first, end in pairwise(bounds)]
    if bands == 1 and bits == 64:  # which is all of them: one less, as 2^64 is no number of 64 bits
        sizes = [(1 << 64) - 1]
    return np.array(bounds[:-1], dtype=np.uint64), np.array(sizes, dtype=np.uint64)
