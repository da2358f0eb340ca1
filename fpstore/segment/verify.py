"""Reads everything of one segment and names what is wrong in it: every damaged page, and the first fault of each part.

What passes is exactly what a writer that follows docs/format.md would have written. The checksums hold, every table
decodes to the same set of fingerprints, every bit of a payload belongs to one block, and the ids agree with table 0.
Works in pieces: the memory it takes does not grow with the segment.
"""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fpstore import format as layout
from fpstore.checks import hexadecimal
from fpstore.errors import CorruptStore, Damage, corrupt
from fpstore.format import LINE, PAYLOAD_OFFSET_MASK, Region, TableRecord
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.fences import Fences, code_bits, first_of
from fpstore.segment.fields import line_flags, line_widths, read_bits, read_packed, read_records, slots_of
from fpstore.segment.pages import STEP_BYTES, PageDamage, check_pages, fault, near
from fpstore.segment.reader import Segment
from fpstore.types import Array, Counts, Keys

# A piece of a table: a call or two of the decoder, few enough bytes for the second-level cache.
PIECE_KEYS = 1 << 17
PIECE_LINES = 1 << 12
PIECE_BITS = 1 << 20  # of the id groups: whole samples
PIECE_IDS = 1 << 17
MIX_KEYS = 1 << 14
ID_REGIONS = ("ranks", "id groups", "group samples", "id values")


def verify_segment(segment: Segment, plan: Plan, progress: Tell | None = None) -> None:
    """Read the whole segment; raise CorruptStore, with file, place, found and expected, where anything is wrong.

    The error's damage lists every damaged page, runs of them as one, and of what lies in no damaged page the first
    fault of each table, of the padding and of the ids. plan: what the tables must be. Pages are read again, also those
    that a probe has checked before. progress gets the phases "verify checksums" (bytes), "verify tables" (keys, every
    table counted) and "verify ids" (ids).
    """
    advance = progress or (lambda phase, done, total: None)
    damage = FoundDamage()
    known: list[PageDamage] = []
    if damage.passes(lambda: known.append(check_pages(segment, advance))):
        pages = known[0]
        damage.found += pages.damage
        if damage.passes(lambda: check_plan(segment, plan)):
            damage.passes(lambda: _check_zeros(segment, pages))
            _check_tables(segment, pages, damage, advance)
            if segment.ids is not None and are_spared(segment, pages, ID_REGIONS):
                damage.passes(lambda: check_ids(segment, advance))
    if damage.found:
        raise corrupt([replace(each, segment=str(segment.path)) for each in damage.found])


class FoundDamage:
    """What was found so far."""

    def __init__(self) -> None:
        self.found: list[Damage] = []

    def passes(self, check: Callable[[], object]) -> bool:
        """Whether a check raises nothing; what it raises is noted."""
        try:
            check()
        except CorruptStore as error:
            found = error.damage or (Damage("", *error.args),)  # what the decoder refuses may be told of many places
            self.found += [each for each in found if each not in self.found]
            return False
        return True


def are_spared(segment: Segment, pages: PageDamage, names: tuple[str, ...], table: int | None = None) -> bool:
    """Whether no byte of these regions, of a table or of none, lies in a damaged page."""
    regions = (region for region in segment.regions() if region.name in names and region.table == table)
    return all(pages.spares(region) for region in regions)


def check_plan(segment: Segment, plan: Plan) -> None:
    """The tables are those of the plan."""
    if segment.bits != plan.bits:
        raise fault("summary", f"fingerprints of {segment.bits} bits", f"{plan.bits} of plan {plan.name}")
    for index, record in enumerate(segment.tables):
        if record.block_bytes != plan.block_bytes:
            expected = f"{plan.block_bytes} of plan {plan.name}"
            raise fault(f"table {index}, block_bytes", record.block_bytes, expected)
    if len(segment.tables) != len(plan.tables):
        raise fault("summary", f"{len(segment.tables)} tables", f"{len(plan.tables)} of plan {plan.name}")
    for index, (record, table) in enumerate(zip(segment.tables, plan.tables, strict=True)):
        found = f"prefix mask {hexadecimal(record.prefix_mask, plan.bits)}, {record.flips} flips"
        expected = f"prefix mask {hexadecimal(table.prefix_mask, plan.bits)}, {table.flips} flips"
        if found != expected:
            raise fault(f"table {index}", found, f"{expected} of plan {plan.name}")


def check_padding(segment: Segment, pages: PageDamage) -> None:
    """Between the regions there are zeros only."""
    for region in segment.regions():
        if region.name != "padding" or not pages.spares(region):
            continue
        for offset in range(region.offset, region.offset + region.bytes, STEP_BYTES):
            length = min(STEP_BYTES, region.offset + region.bytes - offset)
            found = np.frombuffer(segment.read(offset, length), dtype=np.uint8)
            if (index := first_of(found != 0)) is not None:
                raise fault(f"padding, byte {offset + index}", f"{found[index]:#04x}", 0)


def _check_zeros(segment: Segment, pages: PageDamage) -> None:
    """Between the regions, and after the last bit of a bit stream in its last byte, there are zeros only."""
    check_padding(segment, pages)
    record, rank_count = segment.record, segment.tables[0].rank_count
    bit_streams = [(f"table {i} payload", t.payload_offset, t.payload_bits) for i, t in enumerate(segment.tables)]
    if record.id_kind != layout.ID_KIND_NONE:
        bit_streams.append(("ranks", record.ranks_offset, rank_count * record.rank_width))
    check_last_bits(segment, pages, [*bit_streams, *id_streams(segment.record)])


def id_streams(record: Any) -> list[tuple[str, int, int]]:
    """The bit streams of ids that a record has: name, offset, bits."""
    streams = []
    if record.id_kind != layout.ID_KIND_NONE:
        streams.append(("id values", record.values_offset, record.id_count * record.id_width))
    if record.id_kind == layout.ID_KIND_MANY:
        streams.append(("id groups", record.groups_offset, record.key_count + record.id_count))
    return streams


def check_last_bits(segment: Segment, pages: PageDamage, streams: list[tuple[str, int, int]]) -> None:
    """After the last bit of a bit stream there are zeros in its last byte."""
    for name, offset, bits in streams:
        byte = Region(name, None, offset + bits // 8, 1)
        last = segment.read(byte.offset, 1)[0] >> bits % 8 if bits % 8 and pages.spares(byte) else 0
        if last:
            raise fault(f"{name}, bits after the last", f"{last:#x}", 0)


def _check_tables(segment: Segment, pages: PageDamage, damage: FoundDamage, advance: Tell) -> None:
    """Every table by itself, and that all hold the same fingerprints; those in damaged pages are left out."""
    seeds = secrets.randbits(64), secrets.randbits(64)
    total = segment.key_count * len(segment.tables)
    expected, first = None, 0
    for index in range(len(segment.tables)):
        if not are_spared(segment, pages, ("payload", "directory", "fences"), index):
            continue
        ranked = index == 0 and segment.ids is not None and are_spared(segment, pages, ("ranks",))
        kind = _BlockCheck if segment.tables[index].block_bytes else _KeyCheck
        table = kind(segment, index, seeds, ranked)

        def check(index: int = index, table: _BlockCheck | _KeyCheck = table) -> None:
            if isinstance(table, _KeyCheck):
                _DirectoryCheck(segment, index).run()
            for done in table.run():
                advance("verify tables", index * segment.key_count + done, total)

        if not damage.passes(check):
            continue
        if expected is None:
            expected, first = table.sums.values, index
        elif table.sums.values != expected:
            damage.found.append(Damage("", f"table {index}", "another set of fingerprints", f"that of table {first}"))


class _Table:
    """One table, cut into runs of directory lines."""

    def __init__(self, segment: Segment, index: int) -> None:
        self.segment = segment
        self.index = index
        self.record: TableRecord = segment.tables[index]
        self.slots = 1 << self.record.slot_bits
        self.fences = Fences(segment, index)

    def lines(self) -> Iterator[tuple[int, Array]]:
        """(first slot, directory lines) of each piece; a piece has about PIECE_KEYS keys unless slots are large."""
        line_count = layout.directory_bytes(self.record.slot_bits) // LINE.itemsize
        step = max(1, min(PIECE_LINES, PIECE_KEYS * line_count // (self.segment.key_count + 1)))
        for first in range(0, line_count, step):
            lines = read_records(self.segment, LINE, self.record.directory_offset, first, min(step, line_count - first))
            yield first * layout.GROUP_SLOTS, lines

    def fault(self, where: str, found: object, expected: object) -> CorruptStore:
        """The error to raise."""
        return fault(f"table {self.index}, {where}", found, expected)


class _DirectoryCheck(_Table):
    """Directory and fences: each line as the format says, and together they cover the payload exactly once."""

    def run(self) -> None:
        """Raise CorruptStore at the first thing wrong."""
        end_bit = 0  # of what is covered so far
        for first_slot, lines in self.lines():
            self._check_lines(first_slot, lines)
            end_bit = self._check_chain(first_slot, lines, end_bit)
        if end_bit != self.record.payload_bits:
            raise self.fault("directory, end of the last block", f"bit {end_bit}", self.record.payload_bits)

    def _check_lines(self, first_slot: int, lines: Array) -> None:
        unused_bits = lines["word"] >> np.uint64(layout.PAYLOAD_OFFSET_BITS + layout.GROUP_SLOTS)
        if (line := first_of(unused_bits != 0)) is not None:
            where = f"directory line {first_slot // layout.GROUP_SLOTS + line}"
            raise self.fault(f"{where}, top bits", f"{unused_bits[line]:#x}", 0)
        widths, large = line_widths(lines), line_flags(lines)
        most = np.where(large, 0, layout.MAX_BLOCK_BITS)
        past_last = self.slots - first_slot
        most[past_last:] = 0
        if (slot := first_of((widths < 0) | (widths > most))) is not None:
            raise self.fault(f"slot {first_slot + slot}", f"inline block of {widths[slot]} bits", f"0..{most[slot]}")
        if (slot := first_of(large[past_last:])) is not None:
            raise self.fault(f"slot {self.slots + slot}", "large", f"{self.slots} slots")

    def _check_chain(self, first_slot: int, lines: Array, end_bit: int) -> int:
        """The blocks of these lines follow each other from end_bit on; where they end."""
        bases, large = (lines["word"] & PAYLOAD_OFFSET_MASK).astype(np.int64), line_flags(lines)
        ends = bases + lines["ends"][:, -1]
        reached = np.concatenate([[end_bit], ends[:-1]])  # for each line: where its fenced blocks have come to
        blocks, block_bits = np.zeros((2, len(large)), dtype=np.int64)
        end_slot = min(self.slots, first_slot + len(large))
        last_key = (end_slot << self.record.slot_shift) - 1
        for first, fences in self.fences.through(last_key):
            slots = slots_of(fences["last_key"], self.record) - first_slot
            if (fence := first_of(~large[slots])) is not None:
                raise self.fault(f"fence {first + fence}", f"in slot {first_slot + slots[fence]}", "a large slot")
            bits = (fences["word"] >> np.uint64(layout.PAYLOAD_OFFSET_BITS)).astype(np.int64)
            self._check_fences(first, fences, bits, slots // layout.GROUP_SLOTS, reached)
            np.add.at(blocks, slots, 1)
            np.add.at(block_bits, slots, bits)
        if (slot := first_of(large & (blocks == 0))) is not None:
            raise self.fault(f"slot {first_slot + slot}", "large without a fence", "one for each block")
        if (line := first_of(bases != reached)) is not None:
            where = f"directory line {first_slot // layout.GROUP_SLOTS + line}"
            raise self.fault(f"{where}, base", f"bit {bases[line]}", f"{reached[line]}, where the blocks before end")
        if (slot := first_of((blocks == 1) & (block_bits <= layout.MAX_BLOCK_BITS))) is not None:
            found = f"large with one block of {block_bits[slot]} bits"
            raise self.fault(f"slot {first_slot + slot}", found, f"above {layout.MAX_BLOCK_BITS}, or inline")
        return int(ends[-1])

    def _check_fences(self, first: int, fences: Array, bits: Counts, lines: Counts, reached: Counts) -> None:
        """Each block starts where the one before it in its line ends. Moves reached on."""
        starts = (fences["word"] & PAYLOAD_OFFSET_MASK).astype(np.int64)
        follows = lines[1:] == lines[:-1]
        expected = reached[lines]
        expected[1:][follows] = (starts + bits)[:-1][follows]
        if (fence := first_of(starts != expected)) is not None:
            found = f"bit {starts[fence]}"
            raise self.fault(
                f"fence {first + fence}, start of its block", found, f"{expected[fence]}, where the one before ends"
            )
        last_of_line = np.append(~follows, True)
        reached[lines[last_of_line]] = (starts + bits)[last_of_line]


class _SetSum:
    """A fingerprint of a set of 64-bit numbers, whatever their order: two sums of hashes, modulo 2^64.

    Were the hashes random functions, the sums over two different sets would differ by a uniform number each, so both
    would agree with probability 2^-128. They are bijections that mix well, under seeds that no file can know.
    """

    def __init__(self, seeds: tuple[int, int]) -> None:
        self._seeds = np.uint64(seeds[0]), np.uint64(seeds[1])
        self.values = (0, 0)
        self._numbers, self._scratch = np.empty((2, MIX_KEYS), dtype=np.uint64)

    def add(self, keys: Keys, permutation: Permutation) -> None:
        """Add the fingerprints of these keys."""
        for start in range(0, len(keys), MIX_KEYS):
            piece = keys[start : start + MIX_KEYS]
            numbers, scratch = self._numbers[: len(piece)], self._scratch[: len(piece)]
            permutation.invert(piece, out=numbers)
            # The finalizers of SplitMix64 (Stafford's variant 13) and MurmurHash3, the second over the first.
            first = _mix(numbers, scratch, self._seeds[0], (30, 27, 31), (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
            second = _mix(numbers, scratch, self._seeds[1], (33, 33, 33), (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))
            self.values = (self.values[0] + first) % (1 << 64), (self.values[1] + second) % (1 << 64)


def _mix(numbers: Keys, scratch: Keys, seed: np.uint64, shifts: tuple[int, ...], factors: tuple[int, ...]) -> int:
    """Hash numbers in place; their sum."""
    np.bitwise_xor(numbers, seed, out=numbers)
    for step, shift in enumerate(shifts):
        np.right_shift(numbers, np.uint64(shift), out=scratch)
        np.bitwise_xor(numbers, scratch, out=numbers)
        if step < len(factors):
            np.multiply(numbers, np.uint64(factors[step]), out=numbers)
    return int(numbers.sum())


class _KeyCheck(_Table):
    """The keys of a table whose directory has been checked, and their number in each slot."""

    def __init__(self, segment: Segment, index: int, seeds: tuple[int, int], ranked: bool) -> None:
        """ranked: the ranks are held against its keys."""
        super().__init__(segment, index)
        self._ranked = ranked
        self.sums = _SetSum(seeds)
        self._key_count = 0
        self._permutation = Permutation(self.record.prefix_mask, self.record.key_bits)
        # The block of the last fence: its slot, its keys, and how many keys of the table end with it.
        self._block_slot, self._block_keys, self._block_end = -1, 0, 0

    def run(self) -> Iterator[int]:
        """Raise CorruptStore at the first thing wrong; yields the number of keys done."""
        for first_slot, lines in self.lines():
            keys_before = self._key_count
            with near(self.segment, *self._payload_of(lines)):
                counts = self._count_keys(first_slot, min(self.slots - first_slot, len(lines) * layout.GROUP_SLOTS))
            if self._ranked:
                self._check_ranks(first_slot, keys_before + np.concatenate([[0], np.cumsum(counts)]))
            yield self._key_count
        if self._key_count != self.segment.key_count:
            raise fault(f"table {self.index}", f"{self._key_count} keys", self.segment.key_count)

    def _payload_of(self, lines: Array) -> tuple[int, int]:
        """The bytes [start, end) of the file that hold the blocks of these lines, less the first line's fenced ones."""
        first, last = int(lines["word"][0] & PAYLOAD_OFFSET_MASK), int(lines["word"][-1] & PAYLOAD_OFFSET_MASK)
        offset = self.record.payload_offset
        return offset + first // 8, offset + (last + int(lines["ends"][-1, -1]) + 7) // 8

    def _count_keys(self, first_slot: int, slot_count: int) -> Counts:
        """How many keys each of these slots has; they pass into the sums, and fences are held against them."""
        counts = np.zeros(slot_count, dtype=np.int64)
        for keys in self.segment.keys(self.index, first_slot, first_slot + slot_count):
            counts += np.bincount(slots_of(keys, self.record) - first_slot, minlength=slot_count)
            for first, fences in self.fences.through(int(keys[-1])):
                self._check_block_sizes(first, fences, keys)
            self.sums.add(keys, self._permutation)
            self._key_count += len(keys)
        return counts

    def _check_block_sizes(self, first: int, fences: Array, keys: Keys) -> None:
        """A fenced block has 128 keys, or fewer where it ends its slot.

        The decoder has found each fence's last key, and refuses any block, fenced or inline, of more than 128 keys.
        """
        slots = slots_of(fences["last_key"], self.record)
        ends = self._key_count + 1 + np.searchsorted(keys, fences["last_key"])
        follows = slots == np.concatenate([[self._block_slot], slots[:-1]])
        # A chunk holds whole blocks, so a slot whose first fence is here starts here.
        first_keys = slots.astype(np.uint64) << np.uint64(self.record.slot_shift & 63)
        starts = self._key_count + np.searchsorted(keys, first_keys)
        sizes = ends - np.where(follows, np.concatenate([[self._block_end], ends[:-1]]), starts)
        sizes_before = np.concatenate([[self._block_keys], sizes[:-1]])
        if (fence := first_of(follows & (sizes_before != layout.MAX_BLOCK_KEYS))) is not None:
            found, expected = (
                f"block of {sizes_before[fence]} keys",
                f"{layout.MAX_BLOCK_KEYS} before the slot's last",
            )
            raise self.fault(f"fence {first + fence - 1}", found, expected)
        self._block_slot, self._block_keys, self._block_end = int(slots[-1]), int(sizes[-1]), int(ends[-1])

    def _check_ranks(self, first_slot: int, expected: Counts) -> None:
        record = self.segment.record
        found = read_packed(self.segment, record.ranks_offset, record.rank_width, first_slot, len(expected))
        if (slot := first_of(found != expected.astype(np.uint64))) is not None:
            raise fault(f"ranks, slot {first_slot + slot}", found[slot], expected[slot])


class _BlockCheck(_Table):
    """A table of blocks: its directory and keys together, each block as full as it can be, and its ranks."""

    def __init__(self, segment: Segment, index: int, seeds: tuple[int, int], ranked: bool) -> None:
        """ranked: as of _KeyCheck."""
        super().__init__(segment, index)
        self._ranked = ranked
        self.sums = _SetSum(seeds)
        self._permutation = Permutation(self.record.prefix_mask, self.record.key_bits)
        # What the blocks so far come to: keys, bits of the payload, and of the last one the last key, and room left.
        self._key_count, self._end_bit, self._last_key, self._room = 0, 0, np.uint64(0), 0

    def run(self) -> Iterator[int]:
        """Raise CorruptStore at the first thing wrong; yields the number of keys done."""
        if self._ranked:
            self._check_ranks(0, np.zeros(1, dtype=np.int64))
        for keys in self.segment.keys(self.index):
            for first, fences in self.fences.through(int(keys[-1])):
                self._check_blocks(first, fences, keys)
            self.sums.add(keys, self._permutation)
            self._key_count += len(keys)
            yield self._key_count
        if self._end_bit != self.record.payload_bits:
            raise self.fault("directory, end of the last block", f"bit {self._end_bit}", self.record.payload_bits)

    def _check_blocks(self, first: int, fences: Array, keys: Keys) -> None:
        """Blocks follow each other; a chunk has whole ones. The decoder has found the last key of each."""
        starts = (fences["word"] & PAYLOAD_OFFSET_MASK).astype(np.int64)
        bits = (fences["word"] >> np.uint64(layout.PAYLOAD_OFFSET_BITS)).astype(np.int64)
        expected = self._end_bit + np.cumsum(bits) - bits
        if (fence := first_of(starts != expected)) is not None:
            found, wanted = f"bit {starts[fence]}", f"{expected[fence]}, where the one before ends"
            raise self.fault(f"fence {first + fence}, start of its block", found, wanted)
        ends = np.searchsorted(keys, fences["last_key"]) + 1
        begin = int(np.searchsorted(keys, self._last_key, side="right")) if first else 0
        firsts = keys[np.concatenate([[begin], ends[:-1]])]
        before = np.concatenate([[self._last_key], fences["last_key"][:-1]])
        room = np.concatenate([[self._room], 8 * self.record.block_bytes - bits])
        fits = code_bits(self.record, firsts, before) <= room[:-1]
        fits[0] &= first > 0
        if (fence := first_of(fits)) is not None:
            found = f"block with {room[fence]} bits left"
            raise self.fault(f"fence {first + fence - 1}", found, "fewer than the next key's code has")
        self._end_bit, self._last_key, self._room = int(expected[-1] + bits[-1]), fences["last_key"][-1], int(room[-1])
        if self._ranked:
            self._check_ranks(first + 1, self._key_count + ends)

    def _check_ranks(self, first: int, expected: Counts) -> None:
        record = self.segment.record
        found = read_packed(self.segment, record.ranks_offset, record.rank_width, first, len(expected))
        if (block := first_of(found != expected.astype(np.uint64))) is not None:
            raise fault(f"ranks, block {first + block}", found[block], expected[block])


def check_ids(segment: Segment, advance: Tell) -> None:
    """The groups have their shape, ids of a group increase, and base and width are the narrowest for all of them."""
    record = segment.record
    least, most, done = (1 << 64) - 1, 0, 0
    used = np.zeros(record.list_count, dtype=bool)
    packed = record.values_offset, record.id_width
    firsts = range(0, record.id_count, PIECE_IDS)
    singles = (read_packed(segment, *packed, first, min(PIECE_IDS, record.id_count - first)) for first in firsts)
    for values in _grouped_ids(segment) if record.id_kind == layout.ID_KIND_MANY else singles:
        least, most, done = min(least, int(values.min())), max(most, int(values.max())), done + len(values)
        if record.list_count:
            if most >= record.list_count:
                raise fault("id values, the largest", most, f"below {record.list_count}, the ids listed")
            used[values] = True
        advance("verify ids", done, record.id_count)
    if not record.id_count:
        return
    if least != 0:
        raise fault("id values, the smallest", f"id_base + {least}", "id_base")
    if most.bit_length() != record.id_width:
        raise fault("id values, id_width", record.id_width, f"{most.bit_length()} for {most}")
    if record.id_base + most > (1 << 64) - 1:
        raise fault("id values, the largest", record.id_base + most, "below 2^64")
    if not used.all():
        raise fault("id list", f"id {int(np.argmin(used))} without a row", "one or more of each")
    _check_list(segment)


def _check_list(segment: Segment) -> None:
    """The listed ids increase."""
    record, last = segment.record, -1
    for first in range(0, record.list_count, PIECE_IDS):
        count = min(PIECE_IDS, record.list_count - first)
        size = layout.LISTED_BYTES
        listed = np.frombuffer(segment.read(record.list_offset + size * first, size * count), dtype="<u8")
        if int(listed[0]) <= last or (listed[1:] <= listed[:-1]).any():
            raise fault("id list", f"some out of order from id {first} on", "them increasing")
        last = int(listed[-1])


def _grouped_ids(segment: Segment) -> Iterator[Keys]:
    """The values, in step with the bits that say where groups begin; pieces without a value are left out."""
    record = segment.record
    bit_count = record.key_count + record.id_count
    ones, zeros, last_zero, last_value = 0, 0, -2, np.uint64(0)
    for first in range(0, bit_count, PIECE_BITS):
        count = min(PIECE_BITS, bit_count - first)
        bits = read_bits(segment, record.groups_offset, first, count)
        if first == 0 and not bits[0]:
            raise fault("id groups, the first bit", 0, 1)
        ones_here = np.append(bits, np.zeros(-count % layout.SAMPLE_BITS, dtype=np.uint8))
        ones_here = ones_here.reshape(-1, layout.SAMPLE_BITS).sum(axis=1, dtype=np.int64)
        _check_samples(segment, first // layout.SAMPLE_BITS, ones + np.cumsum(ones_here) - ones_here)
        at = np.flatnonzero(bits == 0)
        ones += count - len(at)
        if zeros + len(at) > record.id_count:
            break  # there are too few ones then
        if not len(at):
            continue
        values = read_packed(segment, record.values_offset, record.id_width, zeros, len(at))
        before = np.concatenate([[last_value], values[:-1]])
        same_group = np.diff(first + at, prepend=last_zero) == 1
        if (index := first_of(same_group & (values <= before))) is not None:
            raise fault(f"id values, value {zeros + index}", values[index], f"above {before[index]}")
        zeros, last_zero, last_value = zeros + len(at), first + int(at[-1]), values[-1]
        yield values
    if ones != record.key_count:
        raise fault("id groups", "another number of ones", f"{record.key_count} in {bit_count} bits")
    _check_samples(segment, -(-bit_count // layout.SAMPLE_BITS), np.array([ones]))


def _check_samples(segment: Segment, first: int, expected: Counts) -> None:
    offset = segment.record.samples_offset + first * layout.SAMPLE_BYTES
    found = np.frombuffer(segment.read(offset, len(expected) * layout.SAMPLE_BYTES), dtype="<u8")
    if (index := first_of(found != expected.astype(np.uint64))) is not None:
        raise fault(f"group samples, sample {first + index}", found[index], expected[index])
