"""verify passes what a writer writes, and names the place of every kind of damage, also where all checksums hold."""

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import helpers
import numpy as np
import pytest

from fpstore import format as layout
from fpstore.errors import CorruptStore
from fpstore.format import Footer, Region, SegmentRecord, TableRecord
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan, TablePlan
from fpstore.segment.reader import Segment
from fpstore.segment.verify import verify_segment
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Keys

PLAN = plans.flips(2, (1, 1), 3)
ONE_TABLE = Plan("one", 0, ((1 << 64) - 1,), (TablePlan((1 << 64) - 1),))
IDS = ("none", "one each", "many")
RNG = np.random.default_rng(20)
UNIFORM = helpers.distinct(helpers.uniform(3000, RNG))

Edit = Callable[[bytearray, Segment], object]


def pairs_of(fingerprints: Keys, ids: str) -> tuple[Keys, Keys] | None:
    """The ids of a segment of these fingerprints: fingerprints[::3] have none where there are many."""
    rng = np.random.default_rng(21)
    if ids == "none":
        return None
    if ids == "one each":
        return fingerprints, rng.permutation(len(fingerprints)).astype(np.uint64) + np.uint64(1000)
    some = np.concatenate([fingerprints[1::3], fingerprints[2::3]])
    chosen = np.concatenate([some, rng.choice(some, len(some))]) if len(some) else some
    return chosen, rng.permutation(len(chosen)).astype(np.uint64) * np.uint64(3)


@contextmanager
def damaged(
    tmp_path: Path,
    edit: Edit,
    fingerprints: Keys = UNIFORM,
    plan: Plan = PLAN,
    *,
    codec: str = "gap",
    slot_bits: int | None = None,
    ids: str = "none",
    seal: bool = True,
) -> Iterator[Segment]:
    """A segment whose bytes went through `edit`, its checksums repaired, or left as they were."""
    path = tmp_path / "x.fpseg"
    pairs = pairs_of(helpers.distinct(fingerprints), ids)
    helpers.write_segment(path, fingerprints, plan, codec=codec, slot_bits=slot_bits, pairs=pairs)
    data = bytearray(path.read_bytes())
    whole = Segment(path)
    edit(data, whole)
    whole.close()
    path.write_bytes(helpers.resealed(data) if seal else data)
    segment = Segment(path)
    try:
        yield segment
    finally:
        segment.close()


def refused(segment: Segment, message: str, plan: Plan = PLAN) -> None:
    """verify raises one line that starts with the file and matches the message."""
    with pytest.raises(CorruptStore, match=message) as caught:
        verify_segment(segment, plan)
    assert str(caught.value).startswith(f"{segment.path}: ")
    assert "\n" not in str(caught.value)


def region(segment: Segment, name: str, table: int | None = None) -> Region:
    return next(region for region in segment.regions() if (region.name, region.table) == (name, table))


def flip(data: bytearray, offset: int, mask: int = 1) -> None:
    data[offset] ^= mask


def add64(data: bytearray, offset: int, value: int) -> None:
    struct.pack_into("<Q", data, offset, (struct.unpack_from("<Q", data, offset)[0] + value) % (1 << 64))


def add16(data: bytearray, offset: int, value: int) -> None:
    struct.pack_into("<H", data, offset, (struct.unpack_from("<H", data, offset)[0] + value) % (1 << 16))


def line_offset(segment: Segment, line: int, table: int = 0) -> int:
    return segment.tables[table].directory_offset + 32 * line


def fence_offset(segment: Segment, fence: int, table: int = 0) -> int:
    return segment.tables[table].fences_offset + 16 * fence


def set_field(data: bytearray, segment: Segment, record: int, bits: int, width: int, value: int) -> None:
    """Write field of `width` bits at bit `bits` of the region at byte `record`."""
    size = (bits + width + 7) // 8
    number = int.from_bytes(data[record : record + size], "little")
    number = number & ~(((1 << width) - 1) << bits) | value << bits
    data[record : record + size] = number.to_bytes(size, "little")


def set_table(data: bytearray, segment: Segment, table: int, record: TableRecord) -> None:
    offset = segment.footer.summary_offset + layout.SEGMENT_RECORD_BYTES + table * layout.TABLE_RECORD_BYTES
    data[offset : offset + layout.TABLE_RECORD_BYTES] = record.pack()


def set_record(data: bytearray, segment: Segment, record: SegmentRecord) -> None:
    offset = segment.footer.summary_offset
    data[offset : offset + layout.SEGMENT_RECORD_BYTES] = record.pack()


def crowded(large: int, count: int = 1000, slot: int = 7) -> Keys:
    """`large` keys in slot 7 of the 16 that the top 4 bits of table 0 make, `count` uniform ones elsewhere."""
    rng = np.random.default_rng(22)
    inside = np.uint64(slot << 60) | rng.integers(0, 1 << 60, large, dtype=np.uint64)
    others = helpers.uniform(count, rng)
    return np.concatenate([inside, others[others >> np.uint64(60) != slot]])


# What has to pass.


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("codec", layout.CODECS)
@pytest.mark.parametrize("kind", helpers.KINDS)
def test_every_kind_of_segment_passes(kind: str, codec: str, ids: str) -> None:
    fingerprints = helpers.distinct(helpers.KINDS[kind](2000, np.random.default_rng(23)))
    with helpers.segment_of(fingerprints, PLAN, codec=codec, pairs=pairs_of(fingerprints, ids)) as segment:
        verify_segment(segment, PLAN)


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("slot_bits", [0, 1, 4, 13])
@pytest.mark.parametrize("count", [0, 1, 2, 127, 128, 129, 257])
def test_few_keys_pass_in_any_number_of_slots(count: int, slot_bits: int, ids: str) -> None:
    fingerprints = UNIFORM[:count]
    pairs = pairs_of(fingerprints, ids)
    with helpers.segment_of(fingerprints, PLAN, slot_bits=slot_bits, pairs=pairs) as segment:
        verify_segment(segment, PLAN)


@pytest.mark.parametrize("name", plans.PAPER_NAMES)
def test_segments_of_many_tables_pass(name: str) -> None:
    with helpers.segment_of(UNIFORM, plans.paper(name)) as segment:
        verify_segment(segment, plans.paper(name))


def test_tables_of_several_pieces_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small pieces, so that runs of lines, of fences, of bits and of ids end inside slots, groups and blocks.
    for name, value in {"LINES": 2, "FENCES": 3, "BITS": 512, "IDS": 100, "KEYS": 300}.items():
        room = "fences" if name == "FENCES" else "verify"
        monkeypatch.setattr(f"fpstore.segment.{room}.PIECE_{name}", value)
    monkeypatch.setattr("fpstore.segment.verify.MIX_KEYS", 100)
    fingerprints = helpers.distinct(crowded(5000, 4000))
    for ids in IDS:
        pairs = pairs_of(fingerprints, ids)
        with helpers.segment_of(fingerprints, PLAN, slot_bits=6, pairs=pairs) as segment:
            verify_segment(segment, PLAN)


def test_a_slot_longer_than_one_read_of_the_decoder_passes() -> None:
    # 300,000 keys: two chunks, the second of which starts inside the slot.
    fingerprints = np.arange(300_000, dtype=np.uint64) * np.uint64(5)
    with helpers.segment_of(fingerprints, ONE_TABLE, slot_bits=3) as segment:
        verify_segment(segment, ONE_TABLE)


def test_progress_moves_to_the_end_of_every_phase() -> None:
    calls: list[tuple[str, int, int | None]] = []
    with helpers.segment_of(UNIFORM, PLAN, pairs=pairs_of(UNIFORM, "many")) as segment:
        verify_segment(segment, PLAN, lambda phase, done, total: calls.append((phase, done, total)))
        ids = segment.record.id_count
        ends = {phase: (done, total) for phase, done, total in calls}
        assert ends == {
            "verify checksums": (segment.footer.checksums_offset, segment.footer.checksums_offset),
            "verify tables": (6000, 6000),
            "verify ids": (ids, ids),
        }


def test_an_interrupt_in_progress_comes_through() -> None:
    def interrupt(phase: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with helpers.segment_of(UNIFORM, PLAN) as segment, pytest.raises(KeyboardInterrupt):
        verify_segment(segment, PLAN, interrupt)


# Bytes that changed under their checksums.


@pytest.mark.parametrize("step", range(0, 40_000, 1111))
def test_a_flipped_byte_is_found_in_a_segment_that_opened_before(tmp_path: Path, step: int) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN, pairs=pairs_of(UNIFORM, "many"))
    segment = Segment(path)
    try:
        assert sum(map(len, segment.keys(0))) == 3000  # its pages have been seen, and were sound
        with path.open("r+b") as file:
            offset = min(step, segment.file_bytes - 1)
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 0x40]))
        with pytest.raises(CorruptStore, match=r"x\.fpseg: .*expected"):
            verify_segment(segment, PLAN)
    finally:
        segment.close()


def test_a_bad_page_is_named_with_its_region(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: flip(data, 5000), seal=False) as segment:
        refused(segment, r"table 0 payload, page at byte 4096, checksum: found 0x\w{8}, expected 0x\w{8}$")


def test_a_bad_page_of_checksums_is_named(tmp_path: Path) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN)
    segment = Segment(path)
    with path.open("r+b") as file:
        file.seek(segment.footer.checksums_offset + 4)
        file.write(b"\0\1\2\3")
    refused(segment, r"checksums, page at byte \d+, checksum: found 0x\w{8}, expected 0x\w{8}$")
    with path.open("r+b") as file:
        file.seek(segment.footer.roots_offset)
        file.write(b"\0\1\2\3")
    refused(segment, r"roots, checksum: found 0x\w{8}, expected 0x\w{8}$")
    segment.close()


def test_a_file_changed_since_it_was_opened_is_refused(tmp_path: Path) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN)
    segment = Segment(path)
    data = bytearray(path.read_bytes())
    flip(data, 100)
    path.write_bytes(helpers.resealed(data))
    refused(segment, "file: found another end of the file, expected the one that it had when it was opened")
    with path.open("ab") as file:
        file.write(b"more")
    refused(segment, rf"file: found {len(data) + 4} bytes, expected {len(data)} as when it was opened$")
    segment.close()


def damage_of(segment: Segment) -> list[str]:
    with pytest.raises(CorruptStore) as caught:
        verify_segment(segment, PLAN)
    assert {each.segment for each in caught.value.damage} == {str(segment.path)}
    assert str(caught.value).startswith(str(caught.value.damage[0]))
    return [each.region for each in caught.value.damage]


@pytest.mark.parametrize("ids", IDS)
def test_every_damaged_page_is_told_and_runs_of_them_as_one(tmp_path: Path, ids: str) -> None:
    pages = (1, 2, 4, 8)

    def edit(data: bytearray, segment: Segment) -> None:
        for page in pages:
            flip(data, page * layout.PAGE_BYTES + 100)

    with damaged(tmp_path, edit, seal=False, ids=ids) as segment:
        found = damage_of(segment)
        ends = {f"table {each.table} {each.name}": each.offset for each in segment.regions()}
        assert ends["table 0 payload"] < 4096
        assert found[0].startswith("table 0 payload, 2 pages from byte 4096, checksum")
        assert [re.findall(r"byte (\d+)", each) for each in found] == [["4096"], ["16384"], ["32768"]]
        # Every region that a damaged page has bytes of is named with it.
        for each, page in zip(found[1:], pages[2:], strict=True):
            start, end = page * layout.PAGE_BYTES, (page + 1) * layout.PAGE_BYTES
            inside = [r for r in segment.regions() if r.offset < end and start < r.offset + r.bytes]
            assert all(r.name in each for r in inside if r.name != "padding")


def test_each_part_that_is_wrong_under_checksums_that_hold_is_told(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        for table in (0, 1):
            data[line_offset(segment, 1, table) + 7] |= 0x20
        data[region(segment, "padding").offset] = 1
        add64(data, segment.record.samples_offset, 1)

    with damaged(tmp_path, edit, ids="many") as segment:
        found = damage_of(segment)
        assert [each.split(",")[0] for each in found] == ["padding", "table 0", "table 1", "group samples"]


def test_what_lies_in_damaged_pages_is_told_once_and_the_rest_is_checked(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        data[line_offset(segment, 1, 1) + 7] |= 0x20
        data[:] = helpers.resealed(data)
        flip(data, 5000)

    with damaged(tmp_path, edit, seal=False) as segment:
        found = damage_of(segment)
        assert found[0].startswith("table 0 payload, page at byte 4096")
        assert found[1:] == ["table 1, directory line 1, top bits"]


# Plans.


def test_another_number_of_tables_than_the_plan_has_is_refused() -> None:
    with helpers.segment_of(UNIFORM, PLAN) as segment:
        refused(segment, "summary: found 2 tables, expected 4 of plan paper-4$", plans.paper("paper-4"))


@pytest.mark.parametrize(
    ("flips", "message"),
    [
        ((1, 2), "table 1: found prefix mask 00000000ffffffff, 1 flips, expected prefix mask 00000000ffffffff, 2 "),
        ((0, 2), "table 0: found prefix mask ffffffff00000000, 1 flips, expected prefix mask ffffffff00000000, 0 "),
    ],
)
def test_other_flips_than_the_plans_are_refused(flips: tuple[int, int], message: str) -> None:
    with helpers.segment_of(UNIFORM, PLAN) as segment:
        refused(segment, message, plans.flips(2, flips, 3))


def test_another_prefix_than_the_plans_is_refused() -> None:
    bands = (0xFFFF_FFFF_8000_0000, 0x0000_0000_7FFF_FFFF)
    with helpers.segment_of(UNIFORM, PLAN) as segment:
        refused(segment, "table 0: .*, expected prefix mask ffffffff80000000, 1 flips", plans.flips(bands, (1, 1), 3))


# What lies between the regions and after the bits.


def test_padding_that_is_not_zero_is_refused(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        between = region(segment, "padding")
        data[between.offset + between.bytes - 1] = 0x80

    with damaged(tmp_path, edit) as segment:
        refused(segment, r"padding, byte \d+: found 0x80, expected 0$")


@pytest.mark.parametrize(
    ("name", "ids"),
    [("table 0 payload", "none"), ("ranks", "one each"), ("id groups", "many"), ("id values", "one each")],
)
def test_bits_after_the_last_are_refused(tmp_path: Path, name: str, ids: str) -> None:
    # 33 ranks of 10 bits, 1,021 ids of 10 bits, or 1,021 + 1,360 bits of groups: none fills its last byte.
    fingerprints = UNIFORM[:1021]

    def edit(data: bytearray, segment: Segment) -> None:
        found = region(segment, "payload", 0) if name == "table 0 payload" else region(segment, name)
        flip(data, found.offset + found.bytes - 1, 0x80)

    with damaged(tmp_path, edit, fingerprints, slot_bits=5, ids=ids) as segment:
        refused(segment, rf"{name}, bits after the last: found 0x\w+, expected 0$")


# The directory.


def test_the_unused_bits_of_a_directory_line_are_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: flip(data, line_offset(s, 1) + 7, 0x20), slot_bits=6) as segment:
        refused(segment, "table 0, directory line 1, top bits: found 0x2, expected 0$")


def test_ends_that_run_backwards_are_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: add16(data, line_offset(s, 0) + 8 + 2 * 3, -4000), slot_bits=6) as segment:
        refused(segment, r"table 0, slot 3: found inline block of -\d+ bits, expected 0..5461$")


def test_an_inline_block_over_the_bits_of_one_is_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: add16(data, line_offset(s, 0) + 8, 6000), slot_bits=6) as segment:
        refused(segment, r"table 0, slot 0: found inline block of \d+ bits, expected 0..5461$")


def test_an_inline_block_past_the_last_slot_is_refused(tmp_path: Path) -> None:
    # 64 slots: the sixth line has 4, of 12.
    with damaged(tmp_path, lambda data, s: add16(data, line_offset(s, 5) + 8 + 2 * 11, 1), slot_bits=6) as segment:
        refused(segment, "table 0, slot 71: found inline block of 1 bits, expected 0..0$")


def test_a_large_slot_past_the_last_is_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: flip(data, line_offset(s, 5) + 6, 0x10), slot_bits=6) as segment:
        refused(segment, "table 0, slot 64: found large, expected 64 slots$")


def test_a_large_slot_with_an_inline_block_is_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: flip(data, line_offset(s, 0) + 6, 0x01), slot_bits=6) as segment:
        refused(segment, r"table 0, slot 0: found inline block of \d+ bits, expected 0..0$")


def test_a_large_slot_without_a_fence_is_refused(tmp_path: Path) -> None:
    # Table 0 in 16 slots holds nothing but slot 7; slot 2 is empty.
    edit: Edit = lambda data, s: flip(data, line_offset(s, 0) + 6, 0x04)  # noqa: E731
    with damaged(tmp_path, edit, crowded(300, 0), slot_bits=4) as segment:
        refused(segment, "table 0, slot 2: found large without a fence, expected one for each block$")


@pytest.mark.parametrize("shift", [-1, 1, 64])
def test_a_gap_or_an_overlap_between_the_blocks_of_two_lines_is_refused(tmp_path: Path, shift: int) -> None:
    with damaged(tmp_path, lambda data, s: add64(data, line_offset(s, 2), shift), slot_bits=6) as segment:
        refused(segment, r"table 0, directory line 2, base: found bit \d+, expected \d+, where the blocks before end$")


def test_a_first_block_that_leaves_a_gap_is_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: add64(data, line_offset(s, 0), 1), slot_bits=6) as segment:
        refused(segment, "table 0, directory line 0, base: found bit 1, expected 0, where the blocks before end$")


def test_payload_behind_the_last_block_is_refused(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        record = segment.tables[0]
        set_table(data, segment, 0, replace(record, payload_bits=record.payload_bits + 1))

    with damaged(tmp_path, edit, slot_bits=6) as segment:
        refused(segment, r"table 0, directory, end of the last block: found bit (\d+), expected \d+$")


def test_a_line_that_takes_bits_from_the_next_slots_block_is_refused(tmp_path: Path) -> None:
    # The chain still covers the payload, so that only the decoder can say.
    with damaged(tmp_path, lambda data, s: add16(data, line_offset(s, 1) + 8, -1), slot_bits=6) as segment:
        refused(segment, r"table 0, slot \d+: found a block that does not decode")


# Fences.


def test_fences_out_of_order_are_refused(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        first, second = fence_offset(segment, 1), fence_offset(segment, 2)
        data[first : first + 8], data[second : second + 8] = data[second : second + 8], data[first : first + 8]

    with damaged(tmp_path, edit, crowded(600), slot_bits=4) as segment:
        refused(segment, r"table 0, fence 2, last key: found 7\w{15}, expected above 7\w{15}$")


def test_fences_out_of_order_are_refused_where_a_piece_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.segment.fences.PIECE_FENCES", 2)
    edit: Edit = lambda data, s: add64(data, fence_offset(s, 1), 1 << 59)  # noqa: E731
    with damaged(tmp_path, edit, crowded(600), slot_bits=4) as segment:
        refused(segment, r"table 0, fence 2, last key: found 7\w{15}, expected above 7\w{15}$")


@pytest.mark.parametrize("slot", [0, 9, 15])
def test_a_fence_in_a_slot_that_is_not_large_is_refused(tmp_path: Path, slot: int) -> None:
    # One of 5 fences moves to another slot; the first or the last, so that the order holds.
    def edit(data: bytearray, segment: Segment) -> None:
        moved = 0 if slot < 7 else segment.tables[0].fence_count - 1
        struct.pack_into("<Q", data, fence_offset(segment, moved), slot << 60 | 1)

    with damaged(tmp_path, edit, crowded(600), slot_bits=4) as segment:
        refused(segment, rf"table 0, fence \d: found in slot {slot}, expected a large slot$")


@pytest.mark.parametrize("fence", [0, 2])
def test_a_fenced_block_that_does_not_follow_the_one_before_is_refused(tmp_path: Path, fence: int) -> None:
    edit: Edit = lambda data, s: add64(data, fence_offset(s, fence) + 8, 1)  # noqa: E731
    with damaged(tmp_path, edit, crowded(600), slot_bits=4) as segment:
        refused(segment, rf"table 0, fence {fence}, start of its block: found bit \d+, expected \d+, where ")


def test_a_last_fenced_block_that_is_too_long_is_refused(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        add64(data, fence_offset(segment, segment.tables[0].fence_count - 1) + 8, 1 << 48)

    with damaged(tmp_path, edit, crowded(600), slot_bits=4) as segment:
        refused(segment, r"table 0, directory line 0, base: found bit \d+, expected \d+, where the blocks before end$")


def test_a_fence_that_names_another_last_key_is_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: add64(data, fence_offset(s, 1), 1), crowded(600), slot_bits=4) as segment:
        refused(segment, "table 0, slot 7: found a block that does not decode")


# Blocks that decode, and are not those that a writer makes: the payload is written again by hand.


def raw_table(slot_sizes: dict[int, list[int]], slot_bits: int = 4) -> tuple[Keys, bytearray, bytearray, bytearray]:
    """Keys, payload, directory and fences of a raw table of 12 slots or fewer with keys.

    slot_sizes: for each slot the keys of its blocks; a list of one in brackets is inline unless the number is
    negative, which makes a large slot of one block.
    """
    keys: list[int] = []
    fenced, inline, ends, flags = bytearray(), bytearray(), [], 0
    fences = bytearray()
    for slot in range(12):
        sizes = slot_sizes.get(slot, [])
        first = slot << (64 - slot_bits)
        large = len(sizes) > 1 or min(sizes, default=0) < 0
        for size in map(abs, sizes):
            block = [first + 3 * (i + 1) for i in range(size)]
            first = block[-1]
            keys += block
            if large:
                fences += struct.pack("<QQ", block[-1], len(fenced) * 8 | 64 * size << 48)
                fenced += struct.pack(f"<{size}Q", *block)
            else:
                inline += struct.pack(f"<{size}Q", *block)
        flags |= large << slot
        ends.append(len(inline) * 8)
    directory = struct.pack("<Q12H", len(fenced) * 8 | flags << 48, *ends)
    second = struct.pack("<Q12H", (len(fenced) + len(inline)) * 8, *[0] * 12)
    return helpers.fingerprint_array(keys), fenced + inline, bytearray(directory + second), fences


@contextmanager
def segment_of_blocks(path: Path, slot_sizes: dict[int, list[int]]) -> Iterator[Segment]:
    """A segment of one raw table with these blocks, whatever a writer would have made of the keys."""
    keys, payload, directory, fences = raw_table(slot_sizes)
    data = bytearray(layout.Header().pack())
    offsets = []
    for part in (payload, directory, fences):
        offsets.append(len(data) if part or part is payload else 0)
        data += part + bytes(layout.align64(len(part)) - len(part))
    record = TableRecord(
        ONE_TABLE.tables[0].prefix_mask,
        layout.CODEC_RAW,
        4,
        0,
        0,
        offsets[0],
        len(payload) * 8,
        offsets[1],
        offsets[2],
        len(fences) // 16,
        (0,) * 65,
    )
    summary = layout.Summary(SegmentRecord(1, len(keys), 0, 0, 0, 0, 0, 0, 0, 0, 0), (record,))
    footer = Footer.locate(len(data), 1, 0)
    data += summary.pack() + bytes(footer.checksums_offset - len(data) - len(summary.pack()))
    data += bytes(footer.footer_offset - footer.checksums_offset) + footer.pack()
    path.write_bytes(helpers.resealed(data))
    segment = Segment(path)
    try:
        yield segment
    finally:
        segment.close()


@pytest.mark.parametrize("blocks", [{0: [80], 5: [85]}, {3: [128, 128, 1], 4: [20]}, {2: [-86], 11: [128, 2]}, {7: []}])
def test_blocks_laid_as_a_writer_lays_them_pass(tmp_path: Path, blocks: dict[int, list[int]]) -> None:
    # So that the tests below fail for the reason they name. 85 raw keys are the most that fit 5,461 bits.
    with segment_of_blocks(tmp_path / "x.fpseg", blocks) as segment:
        verify_segment(segment, ONE_TABLE)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({3: [127, 2]}, "fence 0: found block of 127 keys, expected 128 before the slot's last$"),
        ({1: [128, 5], 3: [128, 1, 1]}, "fence 3: found block of 1 keys, expected 128 before the slot's last$"),
        ({3: [129, 2]}, "slot 3: found a block that does not decode"),
        ({3: [128, 200]}, "slot 3: found a block that does not decode"),
        ({1: [-90], 3: [-129]}, "slot 3: found a block that does not decode"),
        ({3: [-85]}, "slot 3: found large with one block of 5440 bits, expected above 5461, or inline$"),
        ({1: [128, 1], 3: [-1]}, "slot 3: found large with one block of 64 bits, expected above 5461, or inline$"),
        ({3: [86]}, "slot 3: found inline block of 5504 bits, expected 0..5461$"),
    ],
)
def test_blocks_cut_in_another_way_are_refused(tmp_path: Path, blocks: dict[int, list[int]], message: str) -> None:
    with segment_of_blocks(tmp_path / "x.fpseg", blocks) as segment:
        refused(segment, f"table 0, {message}", ONE_TABLE)


def test_a_short_block_is_refused_also_where_a_piece_of_fences_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.segment.fences.PIECE_FENCES", 1)
    with segment_of_blocks(tmp_path / "x.fpseg", {2: [128, 128, 100, 128]}) as segment:
        refused(segment, "table 0, fence 2: found block of 100 keys, expected 128 before the slot's last$", ONE_TABLE)


def test_an_inline_block_of_more_than_128_keys_is_refused(tmp_path: Path) -> None:
    # 200 consecutive keys at slot 7's start take 3 bits each or less; as large they would be two blocks. The writer's
    # two fenced blocks lie where an inline one would, so unmarking the slot gives one block of 200 keys.
    keys = np.uint64(7 << 60) + np.arange(200, dtype=np.uint64)

    def edit(data: bytearray, segment: Segment) -> None:
        line = line_offset(segment, 0)
        bits = segment.tables[0].payload_bits
        struct.pack_into("<Q12H", data, line, 0, *[0] * 7, *[bits] * 5)
        struct.pack_into("<Q12H", data, line + 32, bits, *[0] * 12)
        offset = segment.tables[0].fences_offset
        data[offset : offset + 32] = bytes(32)
        set_table(data, segment, 0, replace(segment.tables[0], fences_offset=0, fence_count=0))

    with damaged(tmp_path, edit, keys, ONE_TABLE, slot_bits=4) as segment:
        refused(segment, r"table 0, slot \d+: found a block that does not decode", ONE_TABLE)


def test_another_number_of_keys_than_recorded_is_refused(tmp_path: Path) -> None:
    edit: Edit = lambda data, s: set_record(data, s, replace(s.record, key_count=2999))  # noqa: E731
    with damaged(tmp_path, edit) as segment:
        refused(segment, r"table 0: found 3000 keys, expected 2999 \(and 1 more\)$")


def test_tables_of_different_sets_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "00000001.fpseg"
    others = UNIFORM.copy()
    others[1234] ^= np.uint64(1)  # as many, and all but one the same
    with SegmentWriter(path, "gap", planner.slot_bits(3000, 24)) as writer:
        for table, fingerprints in zip(PLAN.tables, (UNIFORM, others), strict=True):
            keys = np.sort(Permutation(table.prefix_mask).apply(fingerprints))
            writer.add_table(table, helpers.ArrayKeys(keys))
        writer.finish()
    segment = Segment(path)
    refused(segment, "table 1: found another set of fingerprints, expected that of table 0$")
    segment.close()


def test_tables_that_swap_a_bit_between_two_fingerprints_are_refused(tmp_path: Path) -> None:
    # The plain sum and the xor of the two sets agree.
    path = tmp_path / "00000001.fpseg"
    one, other = UNIFORM.copy(), UNIFORM.copy()
    one[0], one[1], other[0], other[1] = 0b01, 0b10, 0b00, 0b11
    with SegmentWriter(path, "gap", 5) as writer:
        for table, fingerprints in zip(PLAN.tables, (one, other), strict=True):
            keys = np.sort(Permutation(table.prefix_mask).apply(fingerprints))
            writer.add_table(table, helpers.ArrayKeys(keys))
        writer.finish()
    segment = Segment(path)
    refused(segment, "table 1: found another set of fingerprints, expected that of table 0$")
    segment.close()


# Ids.


@pytest.mark.parametrize("slot", [0, 17, 64])
def test_a_wrong_rank_is_refused(tmp_path: Path, slot: int) -> None:
    # 3,000 keys: ranks of 12 bits, 0 at slot 0 and 3,000 at slot 64.
    edit: Edit = lambda data, s: set_field(data, s, s.record.ranks_offset, 12 * slot, 12, 4000)  # noqa: E731
    with damaged(tmp_path, edit, slot_bits=6, ids="one each") as segment:
        refused(segment, rf"ranks, slot {slot}: found 4000, expected \d+$")


def test_groups_that_start_without_a_fingerprint_are_refused(tmp_path: Path) -> None:
    with damaged(tmp_path, lambda data, s: flip(data, s.record.groups_offset), ids="many") as segment:
        refused(segment, "id groups, the first bit: found 0, expected 1$")


def test_another_number_of_ones_is_refused(tmp_path: Path) -> None:
    # In the last byte, where no id changes groups so that it would show first; the last sample follows.
    def edit(data: bytearray, segment: Segment) -> None:
        at = segment.record.groups_offset + (segment.record.key_count + segment.record.id_count) // 8 - 1
        before = data[at].bit_count()
        data[at] = 0xFF
        samples = region(segment, "group samples")
        add64(data, samples.offset + samples.bytes - 8, 8 - before)

    with damaged(tmp_path, edit, ids="many") as segment:
        refused(segment, r"id groups: found another number of ones, expected 3000 in \d+ bits$")


def test_too_few_ones_are_refused_before_values_past_the_end_are_read(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        groups, samples = region(segment, "id groups"), region(segment, "group samples")
        data[groups.offset : groups.offset + groups.bytes] = b"\1" + bytes(groups.bytes - 1)
        struct.pack_into(f"<{samples.bytes // 8}Q", data, samples.offset, 0, *[1] * (samples.bytes // 8 - 1))

    with damaged(tmp_path, edit, ids="many") as segment:
        refused(segment, r"id groups: found another number of ones, expected 3000 in \d+ bits$")


@pytest.mark.parametrize("sample", [0, 5, -1])
def test_a_wrong_sample_is_refused(tmp_path: Path, sample: int) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        samples = region(segment, "group samples")
        add64(data, samples.offset + sample % (samples.bytes // 8) * 8, 3)

    with damaged(tmp_path, edit, ids="many") as segment:
        refused(segment, r"group samples, sample \d+: found \d+, expected \d+$")


def test_ids_that_do_not_increase_within_a_group_are_refused(tmp_path: Path) -> None:
    """Two ids of one fingerprint change places, or are the same."""
    fingerprints = UNIFORM[:10]
    pairs = np.repeat(fingerprints, 2), np.arange(20, dtype=np.uint64)
    path = helpers.write_segment(tmp_path / "x.fpseg", fingerprints, PLAN, pairs=pairs)
    whole = path.read_bytes()
    values = Segment(path)
    offset = values.record.values_offset
    values.close()
    for first, second in ((1, 0), (1, 1)):
        # ids 0 and 1 of the first fingerprint, 5 bits each
        data = bytearray(whole)
        set_field(data, values, offset, 0, 10, first | second << 5)
        path.write_bytes(helpers.resealed(data))
        segment = Segment(path)
        refused(segment, f"id values, value 1: found {second}, expected above {first}$")
        segment.close()


@pytest.mark.parametrize("ids", ["one each", "many"])
def test_an_id_base_below_the_smallest_id_is_refused(tmp_path: Path, ids: str) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        values = region(segment, "id values")
        # Every value but 0 stays; the fields are 12 or 14 bits wide.
        width, count = segment.record.id_width, segment.record.id_count
        number = int.from_bytes(data[values.offset : values.offset + values.bytes], "little")
        for index in range(count):
            if not number >> width * index & ((1 << width) - 1):
                number |= 1 << width * index
        data[values.offset : values.offset + values.bytes] = number.to_bytes(values.bytes, "little")

    with damaged(tmp_path, edit, ids=ids) as segment:
        refused(segment, r"id values, the smallest: found id_base \+ 1, expected id_base$")


def test_ids_wider_than_they_need_are_refused(tmp_path: Path) -> None:
    # All 3,000 values 0: 12 bits recorded, none needed.
    def edit(data: bytearray, segment: Segment) -> None:
        values = region(segment, "id values")
        data[values.offset : values.offset + values.bytes] = bytes(values.bytes)

    with damaged(tmp_path, edit, ids="one each") as segment:
        refused(segment, "id values, id_width: found 12, expected 0 for 0$")


def test_an_id_past_64_bits_is_refused(tmp_path: Path) -> None:
    # Values of 12 bits up to 2,999; the record allows a base up to 2^64 - 1 - 2^11, for 2^11 takes 12 bits too.
    base = (1 << 64) - 1 - (1 << 11)
    edit: Edit = lambda data, s: set_record(data, s, replace(s.record, id_base=base))  # noqa: E731
    with damaged(tmp_path, edit, ids="one each") as segment:
        refused(segment, f"id values, the largest: found {base + 2999}, expected below 2\\^64$")


# Tables of blocks.

BLOCKS = replace(PLAN, block_bytes=200)


def refused_in_blocks(folder: Path, edit: Edit, message: str, codec: str = "gap", ids: str = "none") -> None:
    with damaged(folder, edit, codec=codec, ids=ids, plan=BLOCKS) as segment:
        refused(segment, message, BLOCKS)


@pytest.mark.parametrize("codec", layout.CODECS)
def test_tables_of_blocks_of_every_codec_and_width_pass(tmp_path: Path, codec: str) -> None:
    for bits in (16, 40, 64):
        plan = replace(plans.flips(2, (1, 1), 3, bits), block_bytes=100)
        keys = helpers.uniform(4000, np.random.default_rng(bits)) >> np.uint64(64 - bits)
        with damaged(tmp_path, lambda data, segment: None, keys, codec=codec, ids="one each", plan=plan) as segment:
            verify_segment(segment, plan)
        (tmp_path / "x.fpseg").unlink()


def test_a_table_of_blocks_of_several_pieces_of_fences_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.segment.fences.PIECE_FENCES", 3)
    with damaged(tmp_path, lambda data, segment: None, ids="one each", plan=BLOCKS) as segment:
        verify_segment(segment, BLOCKS)


def test_a_block_that_does_not_follow_the_one_before_is_refused(tmp_path: Path) -> None:
    # The first one begins a bit later, and is a bit shorter: its first key is another one.
    edit: Edit = lambda data, s: add64(data, fence_offset(s, 0) + 8, 1 - (1 << 48))  # noqa: E731
    refused_in_blocks(tmp_path, edit, r"table 0, (fence 0, start of its block: found bit 1|slot \d+: found a block)")


def test_a_block_with_room_for_the_next_key_is_refused(tmp_path: Path) -> None:
    # Another 64 bytes would have taken the next key.
    def edit(data: bytearray, segment: Segment) -> None:
        for index, table in enumerate(segment.tables):
            set_table(data, segment, index, replace(table, block_bytes=264))

    with damaged(tmp_path, edit, plan=BLOCKS) as segment:
        wider = replace(BLOCKS, block_bytes=264)
        message = r"table 0, fence 0: found block with \d+ bits left, expected fewer than the next key's code has"
        refused(segment, message, wider)
        refused(segment, "table 0, block_bytes: found 264, expected 200 of plan flips", BLOCKS)


@pytest.mark.parametrize("block", [0, 1, 40])
def test_a_wrong_rank_of_a_block_is_refused(tmp_path: Path, block: int) -> None:
    edit: Edit = lambda data, s: set_field(data, s, s.record.ranks_offset, 12 * block, 12, 4000)  # noqa: E731
    refused_in_blocks(tmp_path, edit, rf"ranks, block {block}: found 4000, expected \d+$", ids="one each")


def test_a_payload_beyond_the_last_block_is_refused(tmp_path: Path) -> None:
    def edit(data: bytearray, segment: Segment) -> None:
        table = segment.tables[0]
        set_table(data, segment, 0, replace(table, payload_bits=table.payload_bits + 1))

    refused_in_blocks(tmp_path, edit, r"table 0, directory, end of the last block: found bit \d+, expected \d+$")


def test_a_block_that_does_not_end_with_its_fence_is_refused(tmp_path: Path) -> None:
    edit: Edit = lambda data, s: add64(data, fence_offset(s, 3), 1)  # noqa: E731
    refused_in_blocks(tmp_path, edit, r"table 0, slot \d+: found a block that does not decode")


def test_tables_of_two_layouts_are_refused(tmp_path: Path) -> None:
    edit: Edit = lambda data, s: set_table(data, s, 1, replace(s.tables[1], block_bytes=300))  # noqa: E731
    with pytest.raises(CorruptStore, match="table 1, block_bytes: found 300, expected 200 as in table 0"):
        refused_in_blocks(tmp_path, edit, "")
