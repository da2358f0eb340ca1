"""The sizes by which a living store decides: when rows become a segment, which segments are merged, who has to wait."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from fpstore.checks import expect, expect_integer


@dataclass(frozen=True)
class LivingSizes:
    """What a Writer goes by; the defaults are those of every store. ValueError for what cannot be.

    flush_rows: pending rows that are worth a segment, few enough that any process indexes them in some milliseconds.
    named_flush_rows: the same in a store with names, which are looked for in the files of all segments, and in one of
    signatures, which have many rows each.
    max_pending_rows: those at which additions wait for it.
    batch_rows: the most that are tested and added at once.
    small_rows, small_segments: segments with fewer keys are small; they are merged, all at once, when they are so many
    or have small_rows together, or where the writer waits for all that is due. Until then it has their rows in memory
    as well, up to held_rows.
    traced_bytes: what a writer that tests batches holds of the traces of segments, at most.
    deferred_rows: what additions with deferred durability hold back at most.
    flush_name_bytes, max_name_bytes: the same of the bytes of names, in a store with names.
    piece_rows: a batch is tested and added in pieces of so many: a search of many has less to it for each, but the
    pairs of a piece grow with its square.
    growth, growth_over: a segment that is not small is merged with all smaller ones as soon as these together, growth
    times, are larger than it growth_over times. So there are few, and a fingerprint is written again only when its
    segment has grown to more than twice as much. growth 0: never.
    names_growth: so many files of names of one size are merged, with all smaller ones, when their segments are: so a
    name is written again only when its file grows so many times. 2 or more.
    keys_per_removal: everything is merged when there is a removal for so many fingerprints, but not for fewer than
    min_removals, and always for max_removals: every process holds them in memory.
    """

    flush_rows: int = 1 << 17
    named_flush_rows: int = 1 << 20
    max_pending_rows: int = 1 << 18
    batch_rows: int = 1 << 20
    small_rows: int = 1 << 20
    small_segments: int = 8
    held_rows: int = 1 << 21
    traced_bytes: int = 64 << 20
    flush_name_bytes: int = 12 << 20
    max_name_bytes: int = 24 << 20
    deferred_rows: int = 1 << 16
    piece_rows: int = 1 << 10
    growth: int = 2
    growth_over: int = 3
    names_growth: int = 64
    keys_per_removal: int = 8
    min_removals: int = 1 << 16
    max_removals: int = 1 << 22

    def __post_init__(self) -> None:
        for field in fields(self):
            least = {"growth": 0, "min_removals": 0, "names_growth": 2, "traced_bytes": 0}.get(field.name, 1)
            expect_integer(field.name, getattr(self, field.name), least, 2**31 - 1)
        waits = self.max_pending_rows
        expect("max_pending_rows", waits, waits >= self.flush_rows, f"flush_rows, {self.flush_rows}, or more")

    def of(self, flushes_late: bool) -> "LivingSizes":
        """Those of a store that flushes late, or does not."""
        if not flushes_late:
            return self
        waits = max(self.max_pending_rows, 4 * self.named_flush_rows)
        return replace(self, flush_rows=self.named_flush_rows, max_pending_rows=waits)

    def first_due(self, key_counts: Sequence[int]) -> int:
        """Of segments from the largest on: the first to be merged with all smaller ones; their number for none."""
        count = len(key_counts)
        large = sum(keys >= self.small_rows for keys in key_counts)
        some = count - large >= self.small_segments or sum(key_counts[large:]) >= self.small_rows
        counted = count if some else large
        for index in range(large):
            if self.growth_over * key_counts[index] < self.growth * sum(key_counts[index + 1 : counted]):
                return index
        return large if some and self.growth and large < count - 1 else count

    def due_names(self, name_counts: Sequence[int]) -> list[int]:
        """Of files of names of a segment, each with so many: the indexes of those to be merged into one.

        Files are of one size whose numbers of names have as many digits to the base names_growth.
        """
        sizes = [_digits(count, self.names_growth) for count in name_counts]
        due = max((size for size in sizes if sizes.count(size) >= self.names_growth), default=-1)
        return [index for index, size in enumerate(sizes) if size <= due]

    def is_full(self, rows: int, name_bytes: int) -> bool:
        """Whether additions wait while so many rows, with so many bytes of names, are pending."""
        return rows >= self.max_pending_rows or name_bytes >= self.max_name_bytes

    def removal_limit(self, key_count: int) -> int:
        """More removals than that are worth a merge of all segments, with so many keys."""
        return min(max(self.min_removals, key_count // self.keys_per_removal), self.max_removals)


def _digits(number: int, base: int) -> int:
    digits = 0
    while number:
        number //= base
        digits += 1
    return digits
