"""What is left of a damaged segment: its fingerprints, from whichever tables have them, their ids, and what is gone.

Every table holds every fingerprint, so one is lost only where the slots that hold it are damaged in all tables. Its
ids hang on its rank, its place in table 0; where a slot of that lacks a fingerprint, nobody can tell whose are whose.
"""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fpstore import format as layout
from fpstore.forks import cached_property
from fpstore.format import CODECS, LISTED_BYTES, Region
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import TablePlan
from fpstore.segment.entry import segment_name
from fpstore.segment.fields import read_bits, read_packed, read_records, slots_of
from fpstore.segment.reader import Segment
from fpstore.segment.wreck import AnyWreck, Wreck
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Array, Counts, Ids, Keys

PIECE_BITS = 1 << 20  # of the id groups: whole samples
PIECE_IDS = 1 << 17
UNKNOWN = -1
NO_KEYS: Keys = np.empty(0, dtype=np.uint64)


@dataclass
class Salvaged:
    """What came of a segment, once all its rows have been taken.

    without_ids: fingerprints of which no id is left; partial: those that have lost some ids, or may have.
    """

    fingerprints: int = 0
    ids: int = 0
    fingerprints_lost: int = 0
    ids_lost: int = 0
    without_ids: list[Keys] = field(default_factory=list)
    partial: list[Keys] = field(default_factory=list)

    def end(self, wreck: AnyWreck) -> None:
        """All rows of the segment have been taken."""
        self.ids_lost = wreck.record.id_count - self.ids
        if not self.ids_lost:
            self.without_ids.clear()  # then they had none


def salvage(wreck: Wreck, scratch: Path, salvaged: Salvaged) -> Iterator[tuple[Keys, Ids | None]]:
    """The rows of a segment that are left, in the order of table 0: fingerprints, one for each id, and ids.

    scratch: a folder for a segment made again. Takes some 8 bytes for each fingerprint that table 0 does not give.
    Raises CorruptStore, before the first row, where the records are not what was written.
    """
    first = Permutation(wreck.tables[0].prefix_mask, wreck.record.key_bits)
    keys = _Keys(wreck, first)
    if keys.missing or not wreck.is_certain:
        keys.try_guesses(scratch)
    wreck.expect_certain()
    salvaged.fingerprints_lost = keys.missing
    ids = LeftIds(wreck) if wreck.record.id_kind != layout.ID_KIND_NONE else None
    units = keys.units(with_ranks=ids is not None)
    for rank, chunk in units:
        salvaged.fingerprints += len(chunk)
        fingerprints = first.invert(chunk)
        if ids is None:
            yield fingerprints, None
            continue
        if rank == UNKNOWN:
            salvaged.without_ids.append(fingerprints)
            continue
        yield ids.rows(rank, fingerprints, salvaged)
    salvaged.end(wreck)


# --- Fingerprints ---


class _Keys:
    """The keys of table 0, from all tables. missing: how many of them are in none."""

    def __init__(self, wreck: Wreck, first: Permutation) -> None:
        self._wreck = wreck
        self._first = first
        self._slot_bits = wreck.tables[0].slot_bits
        self._found = NO_KEYS  # keys in slots that are gone, sorted
        self._look_at_first()
        for table in range(1, len(wreck.tables)):
            if self.missing:
                self._take(self._in_table(table))

    def _look_at_first(self) -> None:
        """Which slots of table 0 are gone, int64[n, 2], and how many keys the others have."""
        gone: list[tuple[int, int]] = []
        self._sound_count = 0
        for start, end, keys in self._wreck.runs(0):
            self._sound_count += len(keys) if keys is not None else 0
            if keys is None:
                gone.append((start, end))
        self._gone = np.array(gone, dtype=np.int64).reshape(-1, 2)

    @property
    def missing(self) -> int:
        return self._wreck.record.key_count - self._sound_count - len(self._found)

    def _take(self, keys: Keys) -> None:
        self._found = np.union1d(self._found, keys)

    def _in_table(self, table: int) -> Keys:
        """Keys of table 0 in slots that are gone there, as another table has them."""
        runs = self._wreck.runs(table)
        return np.concatenate([NO_KEYS, *(self._wanted(table, keys) for _, _, keys in runs if keys is not None)])

    def _wanted(self, table: int, keys: Keys) -> Keys:
        keys0 = keys
        if table:
            fingerprints = Permutation(self._wreck.tables[table].prefix_mask, self._wreck.record.key_bits).invert(keys)
            keys0 = self._first.apply(fingerprints)
        slots = slots_of(keys0, self._wreck.tables[0])
        at = np.searchsorted(self._gone[:, 0], slots, side="right") - 1
        return keys0[(at >= 0) & (slots < self._gone[np.maximum(at, 0), 1])] if len(self._gone) else NO_KEYS

    # A page that holds the end of one region and the start of another is damaged as a whole. What it holds may still
    # be right: if all tables made from it have the checksums that were written, it is.

    def try_guesses(self, scratch: Path) -> None:
        """Take what damaged pages say if it is proven by what is sound."""
        wreck = self._wreck
        guesses = []
        for table in range(len(wreck.tables)):
            gone = [(start, end) for start, end, keys in wreck.runs(table) if keys is None]
            with wreck.believed():
                runs = [run for start, end in gone for run in wreck.runs(table, start, end)]
            wanted = [self._wanted(table, keys) for _, _, keys in runs if keys is not None]
            guesses.append(np.concatenate([NO_KEYS, *wanted]))
        for guess in (NO_KEYS, *guesses, np.concatenate(guesses)):
            whole = np.union1d(self._found, guess)
            if self._sound_count + len(whole) == wreck.record.key_count and self._prove(whole, scratch):
                self._look_at_first()  # which may have been mended
                self._found = self._wanted(0, whole)
                return

    def _prove(self, found: Keys, scratch: Path) -> bool:
        """Whether the tables of these keys are those that were written; damaged pages of them are mended then."""
        wreck = self._wreck
        given = [keys for _, _, keys in wreck.runs(0) if keys is not None]
        keys0 = np.sort(np.concatenate([*given, found]))
        path = scratch / segment_name(1)
        fingerprints = self._first.invert(keys0)
        try:
            first = wreck.tables[0]
            with SegmentWriter(
                path, CODECS[first.codec], self._slot_bits, wreck.record.key_bits, first.block_bytes
            ) as writer:
                for index, table in enumerate(wreck.tables):
                    keys = (
                        np.sort(Permutation(table.prefix_mask, table.key_bits).apply(fingerprints)) if index else keys0
                    )
                    writer.add_table(
                        TablePlan(table.prefix_mask, table.flips),
                        _InMemory(keys),
                        with_ranks=index == 0 and wreck.record.id_kind != layout.ID_KIND_NONE,
                    )
                if wreck.record.id_kind != layout.ID_KIND_NONE:  # for the ranks, which come first
                    ones, none = np.ones(len(keys0), dtype=np.uint64), np.zeros(len(keys0), dtype=np.uint64)
                    writer.add_ids(len(keys0), 0, 0, lambda: iter([ones]), lambda: iter([none]))
                writer.finish()
            with contextlib.closing(Segment(path)) as made:
                if made.tables != wreck.tables:
                    return False
                ends = [r.offset + r.bytes for r in made.regions() if r.table is not None or r.name == "ranks"]
                same = wreck.mend(made.read(0, max(ends)))
        finally:
            path.unlink(missing_ok=True)
        return any(_has_all(same, wreck.regions(), table) for table in range(len(wreck.tables)))

    # --- In order ---

    def units(self, *, with_ranks: bool) -> Iterator[tuple[int, Keys]]:
        """All keys that were found, in order, in chunks: the rank of the first, or UNKNOWN, and the keys.

        Their ranks are known where no key is missing between them and a slot whose rank is known.
        """
        ranks = iter(self._ranks() if with_ranks else ())
        for _, _, keys in self._slots():
            rank = next(ranks, 0)
            if len(keys):
                yield rank, keys

    def _slots(self) -> Iterator[tuple[int, int, Keys]]:
        """Runs of slots in order: those that table 0 gives, and the others one by one."""
        done = 0
        for start, end, keys in self._wreck.runs(0):
            if keys is not None and not self._is_gone(start):
                yield start, end, keys
                continue
            for slot in range(start, end):
                last = (slot + 1 << self._wreck.tables[0].slot_shift) - 1
                upto = int(np.searchsorted(self._found, np.uint64(last), side="right"))
                yield slot, slot + 1, self._found[done:upto]
                done = upto

    def _is_gone(self, slot: int) -> bool:
        at = int(np.searchsorted(self._gone[:, 0], slot, side="right")) - 1
        return at >= 0 and slot < self._gone[at, 1]

    def _ranks(self) -> list[int]:
        """Of each run of _slots, the rank of its first key, or UNKNOWN where its ids cannot be told."""
        in_blocks = self._wreck.tables[0].block_bytes > 0
        runs, by_blocks = [], []
        for start, end, keys in self._slots():
            runs.append((start, end, len(keys), not self._is_gone(start)))
            if in_blocks:
                by_blocks.append(self._rank_by_block(keys) if runs[-1][-1] else UNKNOWN)
        bounds = [start for start, *_ in runs] + [runs[-1][1]]
        known = [*by_blocks, UNKNOWN] if in_blocks else self._known_ranks(np.array(bounds, dtype=np.int64))
        if in_blocks:
            known[0], known[-1] = 0, self._wreck.record.key_count
        whole = [is_whole for *_, is_whole in runs]
        counts = [count for _, _, count, _ in runs]
        for i in range(len(runs)):
            if whole[i] and known[i] != UNKNOWN and known[i + 1] == UNKNOWN:
                known[i + 1] = known[i] + counts[i]
        for i in reversed(range(len(runs))):
            if whole[i] and known[i] == UNKNOWN and known[i + 1] != UNKNOWN:
                known[i] = known[i + 1] - counts[i]
        # Between two known bounds either nothing is missing, or nobody can tell whose ids are whose.
        places = [i for i, rank in enumerate(known) if rank != UNKNOWN]
        ranks = [UNKNOWN] * len(runs)
        for here, there in itertools.pairwise(places):
            if sum(counts[here:there]) == known[there] - known[here]:
                rank = known[here]
                for i in range(here, there):
                    ranks[i], rank = rank, rank + counts[i]
        return ranks

    @cached_property
    def _block_ends(self) -> tuple[Keys, Counts]:
        """Of blocks of table 0 the last keys and the ranks behind them, of those of which both lie in sound pages."""
        wreck, table = self._wreck, self._wreck.tables[0]
        width, count = wreck.record.rank_width, table.fence_count
        if not count:
            return NO_KEYS, np.empty(0, dtype=np.int64)
        blocks = np.arange(count, dtype=np.int64)
        at, bits = table.fences_offset + blocks * layout.FENCE_BYTES, (blocks + 1) * width
        sound = wreck.are_sound(at, at + layout.FENCE_BYTES)
        offset = wreck.record.ranks_offset
        sound &= wreck.are_sound(offset + bits // 8, offset + (bits + width + 7) // 8)
        last_keys = read_records(wreck, layout.FENCE, table.fences_offset, 0, count)["last_key"]
        ranks = read_packed(wreck, offset, width, 1, count).astype(np.int64)
        return last_keys[sound], ranks[sound]

    def _rank_by_block(self, keys: Keys) -> int:
        """The rank of the first of these keys, all that table 0 has of a run, where a block ends among them."""
        last_keys, ranks = self._block_ends
        at = int(np.searchsorted(last_keys, keys[0])) if len(keys) else len(last_keys)
        if at == len(last_keys) or last_keys[at] > keys[-1]:
            return UNKNOWN
        return int(ranks[at]) - int(np.searchsorted(keys, last_keys[at])) - 1

    def _known_ranks(self, slots: Counts) -> list[int]:
        """How many keys lie before each of these slots, where that is known of itself."""
        wreck, width = self._wreck, self._wreck.record.rank_width
        known = np.full(len(slots), UNKNOWN, dtype=np.int64)
        offset = wreck.record.ranks_offset
        sound = wreck.are_sound(offset + slots * width // 8, offset + ((slots + 1) * width + 7) // 8)
        for start in range(0, len(slots), PIECE_IDS):
            here = slots[start : start + PIECE_IDS]
            values = read_packed(wreck, offset, width, int(here[0]), int(here[-1] - here[0]) + 1)
            known[start : start + len(here)] = values[here - here[0]].astype(np.int64)
        known[~sound] = UNKNOWN
        known[slots == 0] = 0
        known[slots == 1 << self._slot_bits] = wreck.record.key_count
        return [int(rank) for rank in known]


@dataclass(frozen=True)
class _InMemory:
    """Sorted keys, as the writer of segments takes them."""

    keys: Keys

    @property
    def count(self) -> int:
        return len(self.keys)

    def chunks(self) -> Iterator[Keys]:
        yield self.keys


def _has_all(same: Array, regions: tuple[Region, ...], table: int) -> bool:
    """Whether all pages of a table are among those that are the same."""
    own = [region for region in regions if region.table == table]
    pages = [same[r.offset // layout.PAGE_BYTES : -(-(r.offset + r.bytes) // layout.PAGE_BYTES)] for r in own]
    return all(bool(each.all()) for each in pages)


# --- Ids ---


class LeftIds:
    """The ids of ranks, taken in order."""

    def __init__(self, wreck: AnyWreck) -> None:
        self._wreck = wreck
        self._many = wreck.record.id_kind == layout.ID_KIND_MANY
        self._pieces = _grouped(wreck) if self._many else _single(wreck)
        self._ranks = np.empty(0, dtype=np.int64)
        self._values = NO_KEYS
        self._short = np.empty(0, dtype=np.int64)
        self._ended = False

    def of(self, first: int, end: int) -> tuple[Array, Ids, Array]:
        """Of ranks [first, end), which lie behind those asked for before: the place of each id, counted from first,
        the ids, and the places of those that lack ids, or may."""
        while not self._ended and (not len(self._ranks) or self._ranks[-1] < end):
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
                break
            ranks, values, short = piece
            self._ranks = np.concatenate([self._ranks, ranks])
            self._values = np.concatenate([self._values, values])
            self._short = np.concatenate([self._short, short])
            behind = self._ranks >= first
            self._ranks, self._values = self._ranks[behind], self._values[behind]
        inside = slice(*np.searchsorted(self._ranks, [first, end]).tolist())
        short = self._short[(self._short >= first) & (self._short < end)]
        found = self._ranks[inside] - first, self._values[inside], short - first
        self._ranks, self._values = self._ranks[inside.stop :], self._values[inside.stop :]
        self._short = self._short[self._short >= end]
        return found

    def rows(self, rank: int, fingerprints: Keys, salvaged: Salvaged, sound: Array | None = None) -> tuple[Keys, Ids]:
        """The rows of fingerprints of the ranks from this one on, which lie behind those asked for before.

        sound: which of the fingerprints can be read, bool[n]; None for all.
        """
        at, values, short = self.of(rank, rank + len(fingerprints))
        has_ids, is_short = np.zeros((2, len(fingerprints)), dtype=bool)
        has_ids[at] = True
        is_short[short] = True
        bare, partial = ~has_ids, has_ids & is_short
        if sound is not None:
            bare, partial = bare & sound, partial & sound
            at, values = at[sound[at]], values[sound[at]]
        salvaged.without_ids.append(fingerprints[bare])
        salvaged.partial.append(fingerprints[partial])
        salvaged.ids += len(values)
        return fingerprints[at], values


_Piece = tuple[Array, Ids, Array]  # ranks and ids that are sound; ranks that lack some


def _values(wreck: AnyWreck, indexes: Array) -> tuple[Ids, Array]:
    """The ids of these indexes, which increase, and which of them lie in sound pages."""
    record = wreck.record
    if not len(indexes):
        return NO_KEYS, np.empty(0, dtype=bool)
    first = int(indexes[0])
    packed = read_packed(wreck, record.values_offset, record.id_width, first, int(indexes[-1]) - first + 1)
    values = packed[indexes - first]
    if not record.id_width:
        return _listed(wreck, values, np.ones(len(indexes), dtype=bool))
    starts = record.values_offset + indexes * record.id_width // 8
    ends = record.values_offset + ((indexes + 1) * record.id_width + 7) // 8
    return _listed(wreck, values, wreck.are_sound(starts, ends))


def _listed(wreck: AnyWreck, values: Keys, sound: Array) -> tuple[Ids, Array]:
    """The ids that values stand for, and which are sound, those that are listed also by the list's pages."""
    record = wreck.record
    if not record.list_count:
        return values + np.uint64(record.id_base), sound
    sound = sound & (values < record.list_count)
    places = np.where(sound, values, np.uint64(0)).astype(np.int64)
    offsets = record.list_offset + LISTED_BYTES * places
    return wreck.listed[places], sound & wreck.are_sound(offsets, offsets + LISTED_BYTES)


def _single(wreck: AnyWreck) -> Iterator[_Piece]:
    """Where every fingerprint has one id."""
    count = wreck.record.key_count
    for first in range(0, count, PIECE_IDS):
        ranks = np.arange(first, min(first + PIECE_IDS, count), dtype=np.int64)
        values, sound = _values(wreck, ranks)
        yield ranks[sound], values[sound], ranks[~sound]


def _grouped(wreck: AnyWreck) -> Iterator[_Piece]:
    """Where they have any number: the bits that begin groups, 512 at a time, each with its sample."""
    record = wreck.record
    bit_count = record.key_count + record.id_count
    ones_before = 0  # of the block to come; UNKNOWN where a damaged one lies before it
    open_from = UNKNOWN  # the first rank that may have ids in damaged blocks which have no end yet
    for first in range(0, bit_count, PIECE_BITS):
        count = min(PIECE_BITS, bit_count - first)
        blocks = -(-count // layout.SAMPLE_BITS)
        ones = np.zeros((blocks, layout.SAMPLE_BITS), dtype=bool)
        ones.ravel()[:count] = read_bits(wreck, record.groups_offset, first, count)
        starts = record.groups_offset + first // 8 + np.arange(blocks, dtype=np.int64) * (layout.SAMPLE_BITS // 8)
        sound = wreck.are_sound(starts, starts + 1)
        known = _ones_before(wreck, first // layout.SAMPLE_BITS, ones.sum(axis=1, dtype=np.int64), sound, ones_before)
        usable = sound & (known[:-1] != UNKNOWN)
        short: list[Array] = []
        for block in np.flatnonzero(~usable).tolist():
            if open_from == UNKNOWN:
                open_from = max(0, int(known[block]) - 1) if known[block] != UNKNOWN else 0
            if known[block + 1] != UNKNOWN:
                short.append(np.arange(open_from, known[block + 1], dtype=np.int64))
                open_from = UNKNOWN
        if first + count == bit_count and open_from != UNKNOWN:
            short.append(np.arange(open_from, record.key_count, dtype=np.int64))
        ones_before = int(known[-1])
        within = np.cumsum(ones, axis=1) + known[:-1, np.newaxis]
        places = np.arange(first, first + ones.size, dtype=np.int64).reshape(blocks, -1)
        taken = usable[:, np.newaxis] & ~ones & (places < bit_count)
        values, held = _values(wreck, places[taken] - within[taken])
        ranks = within[taken] - 1
        yield ranks[held], values[held], np.unique(np.concatenate([*short, ranks[~held]]))


def _ones_before(wreck: AnyWreck, first: int, ones: Counts, sound: Array, before: int) -> Counts:
    """How many ones lie before each of these blocks, and before the one after them: from the samples, or by counting.

    before: those before the first, or UNKNOWN. ones, sound: of each block how many it has, and whether that is so.
    """
    count = len(ones) + 1
    offset = wreck.record.samples_offset + first * layout.SAMPLE_BYTES
    samples = np.frombuffer(wreck.read(offset, count * layout.SAMPLE_BYTES), dtype="<i8")
    starts = offset + np.arange(count, dtype=np.int64) * layout.SAMPLE_BYTES
    known: Counts = np.where(wreck.are_sound(starts, starts + layout.SAMPLE_BYTES), samples, UNKNOWN)
    if before != UNKNOWN:
        known[0] = before
    for block in np.flatnonzero(known == UNKNOWN).tolist():
        if block and sound[block - 1] and known[block - 1] != UNKNOWN:
            known[block] = known[block - 1] + ones[block - 1]
    for block in np.flatnonzero(known == UNKNOWN).tolist()[::-1]:
        if block < len(ones) and sound[block] and known[block + 1] != UNKNOWN:
            known[block] = known[block + 1] - ones[block]
    return known
