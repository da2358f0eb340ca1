"""Writes the ids of a segment behind what it holds of fingerprints: which belong to which, and the ids themselves."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fpstore import format as layout
from fpstore._codec import PackedWriter
from fpstore.segment.files import FileWriter
from fpstore.segment.listing import Listing, listed_ids, places_in
from fpstore.types import Array, Ids, Keys


class IdFields(NamedTuple):
    """What a record is to say of ids; the names are those of format.SegmentRecord."""

    id_count: int = 0
    id_kind: int = layout.ID_KIND_NONE
    id_width: int = 0
    id_base: int = 0
    groups_offset: int = 0
    samples_offset: int = 0
    values_offset: int = 0
    list_offset: int = 0
    list_count: int = 0


class IdsWriter(FileWriter):
    """A file with ids in it, whatever else it holds."""

    def _write_ids(
        self,
        key_count: int,
        id_count: int,
        id_least: int,
        id_most: int,
        counts: Callable[[], Iterator[Keys]],
        ids: Callable[[], Iterator[Ids]],
        *,
        listing: Listing | None,
        before: Callable[[], None] = lambda: None,
    ) -> IdFields:
        """Append the ids; the arguments are those of SegmentWriter.add_ids. before: writes what lies before them."""
        one_each = id_count == key_count and all(bool((chunk == 1).all()) for chunk in counts())
        before()
        groups_offset = samples_offset = 0
        if not one_each:
            groups_offset = self._file.align()
            samples = self._write_groups(counts())
            samples_offset = self._file.align()
            self._file.write(samples.view(np.uint8))
        base = id_least if id_count else 0
        width = (id_most - base).bit_length() if id_count else 0
        listed = None if listing is None else listed_ids(ids(), id_count, width, listing)
        if listed is None:
            values_offset, list_offset = self._pack(width, (chunk - np.uint64(base) for chunk in ids())), 0
        else:
            base, width = 0, (len(listed) - 1).bit_length()
            values_offset = self._pack(width, (places_in(listed, chunk) for chunk in ids()))
            list_offset = self._file.align()
            self._file.write(listed.astype("<u8", copy=False).view(np.uint8))
        kind = layout.ID_KIND_ONE if one_each else layout.ID_KIND_MANY
        count = 0 if listed is None else len(listed)
        offsets = (groups_offset, samples_offset, values_offset, list_offset)
        return IdFields(id_count, kind, width, base, *offsets, count)

    def _pack(self, width: int, arrays: Iterator[Keys]) -> int:
        offset = self._file.align()
        packed = PackedWriter(width)
        for values in arrays:
            self._file.write(packed.push(values))
        self._file.write(packed.finish())
        return offset

    def _write_groups(self, all_counts: Iterator[Keys]) -> Keys:
        """Write a 1 for each fingerprint and a 0 for each of its ids; return the samples of these bits, uint64."""
        pending = np.empty(0, dtype=np.uint8)
        samples: list[Array] = []
        ones_before = 0
        for chunk in all_counts:
            counts = chunk.astype(np.int64)
            bits = np.zeros(len(counts) + int(counts.sum()), dtype=np.uint8)
            bits[np.cumsum(counts + 1) - (counts + 1)] = 1
            bits = np.concatenate([pending, bits])
            whole = len(bits) // layout.SAMPLE_BITS * layout.SAMPLE_BITS
            ones = bits[:whole].reshape(-1, layout.SAMPLE_BITS).sum(axis=1, dtype=np.uint64)
            samples.append(ones_before + np.cumsum(ones) - ones)
            ones_before += int(ones.sum())
            self._file.write(np.packbits(bits[:whole], bitorder="little"))
            pending = bits[whole:]
        if len(pending):
            samples.append(np.array([ones_before], dtype=np.uint64))
            self._file.write(np.packbits(pending, bitorder="little"))
        samples.append(np.array([ones_before + int(pending.sum())], dtype=np.uint64))
        return np.concatenate(samples).astype("<u8")
