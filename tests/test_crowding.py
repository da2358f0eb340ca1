"""Crowded slots and prefixes: the largest are found, with what they hold, and warned of only where they cost time."""

from pathlib import Path

import helpers
import numpy as np
import pytest

from fpstore import format as layout
from fpstore.errors import CorruptStore
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import TablePlan
from fpstore.segment import crowding
from fpstore.segment.reader import Segment
from fpstore.types import Keys

PLAN = plans.flips(2, (1, 1), 3)
UNIFORM = helpers.distinct(helpers.uniform(4000, np.random.default_rng(30)))
CLUSTERED = helpers.distinct(helpers.clustered(4000, np.random.default_rng(31)))


def brute_slots(fingerprints: Keys, table: TablePlan, slot_bits: int) -> dict[int, int]:
    """How many keys each slot of a table has."""
    keys = Permutation(table.prefix_mask).apply(fingerprints).tolist()
    slots = [key >> (64 - slot_bits) for key in keys]
    return {slot: slots.count(slot) for slot in set(slots)}


@pytest.mark.parametrize("codec", layout.CODECS)
@pytest.mark.parametrize("slot_bits", [0, 2, 5])
@pytest.mark.parametrize("table", [0, 1])
def test_the_largest_slots_have_as_many_keys_as_they_say(table: int, slot_bits: int, codec: str) -> None:
    counts = brute_slots(CLUSTERED, PLAN.tables[table], slot_bits)
    with helpers.segment_of(CLUSTERED, PLAN, codec=codec, slot_bits=slot_bits) as segment:
        found = crowding.largest_slots(segment, table, 3)
        assert len(found) == min(3, len(counts))
        assert [slot.keys for slot in found] == [counts[slot.slot] for slot in found]
        assert [slot.keys for slot in found] == sorted((slot.keys for slot in found), reverse=True)
        for slot in found:
            inside = CLUSTERED & np.uint64(slot.mask) == slot.value
            assert int(inside.sum()) == slot.keys


def test_a_crowded_prefix_is_found_first_over_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowding, "PIECE_RECORDS", 2)
    rng = np.random.default_rng(33)
    crowds = [
        np.uint64(slot << 58) | rng.integers(0, 1 << 58, size, dtype=np.uint64)
        for slot, size in ((5, 2000), (40, 900), (63, 1500))
    ]
    fingerprints = helpers.distinct(np.concatenate([*crowds, helpers.uniform(2000, rng)]))
    counts = brute_slots(fingerprints, PLAN.tables[0], 6)
    with helpers.segment_of(fingerprints, PLAN, slot_bits=6) as segment:
        found = crowding.largest_slots(segment, 0, 3)
    assert [(slot.slot, slot.keys) for slot in found] == [(slot, counts[slot]) for slot in (5, 63, 40)]


def test_inline_slots_come_by_their_size_in_raw_code() -> None:
    # Every key takes 64 bits, so that the order by code is the order by keys, ties by slot.
    counts = brute_slots(UNIFORM, PLAN.tables[0], 7)
    assert max(counts.values()) <= 85
    ranked = sorted(counts, key=lambda slot: (-counts[slot], slot))
    with helpers.segment_of(UNIFORM, PLAN, codec="raw", slot_bits=7) as segment:
        assert [slot.slot for slot in crowding.largest_slots(segment, 0, 10)] == ranked[:10]
        assert [slot.slot for slot in crowding.largest_slots(segment, 0, 1000)] == ranked
        assert crowding.largest_slots(segment, 0, 0) == ()


def test_no_keys_have_no_largest_slot() -> None:
    with helpers.segment_of(UNIFORM[:0], PLAN) as segment:
        assert crowding.largest_slots(segment, 1, 5) == ()


def test_a_negative_number_of_slots_is_refused() -> None:
    with (
        helpers.segment_of(UNIFORM, PLAN) as segment,
        pytest.raises(ValueError, match="count: found -1, expected 0 or more"),
    ):
        crowding.largest_slots(segment, 0, -1)


def test_a_damaged_directory_is_an_error_and_no_ranking(tmp_path: Path) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN)
    data = bytearray(path.read_bytes())
    segment = Segment(path)
    data[segment.tables[0].directory_offset + 9] ^= 1
    segment.close()
    path.write_bytes(data)
    segment = Segment(path)
    with pytest.raises(CorruptStore, match=r"x\.fpseg: table 0 directory, page at byte \d+: "):
        crowding.largest_slots(segment, 0, 5)
    segment.close()


def test_a_block_past_the_last_slot_is_no_slot(tmp_path: Path) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN, slot_bits=4)
    data = bytearray(path.read_bytes())
    segment = Segment(path)
    data[segment.tables[0].directory_offset + 32 + 8 + 2 * 11 + 1] ^= 0x40  # the end of slot 23, of 16
    segment.close()
    path.write_bytes(helpers.resealed(data))
    segment = Segment(path)
    assert all(slot.slot < 16 for slot in crowding.largest_slots(segment, 0, 100))
    segment.close()


# --- Prefixes that many share ---


@pytest.mark.parametrize("keys", [crowding.CROWDED_KEYS, crowding.CROWDED_KEYS + 1])
def test_more_keys_with_one_prefix_than_are_read_quickly_are_warned_of_with_their_share(keys: int) -> None:
    aimed = np.arange(keys, dtype=np.uint64) + np.uint64(0xABCD << 48)
    stored = np.unique(np.concatenate([aimed, UNIFORM]))
    mask = PLAN.tables[0].prefix_mask
    with helpers.segment_of(stored, PLAN) as segment:
        assert crowding.fullest_prefix(segment, 0) == ((0xABCD << 48) & mask, keys)
        warnings = crowding.crowding_warnings(segment)
    if keys == crowding.CROWDED_KEYS:
        assert warnings == ()
    else:
        share = f"{keys:,} of {len(stored):,} fingerprints ({keys / len(stored):.0%})"
        condition = f"x & {mask:016x} == {(0xABCD << 48) & mask:016x}"
        assert warnings == (f"table 0: {share} have {condition}; a probe near them may have to read them all",)


def test_keys_of_a_prefix_are_counted_over_blocks_and_slots_end_them() -> None:
    # 300 keys of one prefix take several blocks; the two before and after are of other prefixes in the same slot.
    prefix = 0x12345678
    keys = [(prefix - 1) << 32, *((prefix << 32) + 5 * number for number in range(300)), (prefix + 1) << 32]
    with helpers.segment_of(helpers.fingerprint_array(keys), PLAN, slot_bits=4) as segment:
        assert segment.tables[0].fence_count > 2
        assert crowding.fullest_prefix(segment, 0) == (prefix << 32, 300)


def test_keys_of_a_prefix_are_counted_over_what_is_read_at_once() -> None:
    keys = np.arange(150_000, dtype=np.uint64) + np.uint64(0xABCD << 48)
    with helpers.segment_of(keys, PLAN, slot_bits=4) as segment:
        assert max(map(len, segment.keys(0))) < len(keys)
        assert crowding.fullest_prefix(segment, 0) == (0xABCD << 48, len(keys))


def test_the_fullest_prefix_need_not_be_in_the_largest_slot() -> None:
    # Three slots of 900 keys, each of a prefix of its own, and one of 700 that share theirs.
    apart = [(slot << 60) + (number << 40) for slot in (1, 2, 3) for number in range(900)]
    together = [(9 << 60) + 5 * number for number in range(700)]
    with helpers.segment_of(helpers.fingerprint_array(apart + together), PLAN, codec="raw", slot_bits=4) as segment:
        assert [slot.slot for slot in crowding.largest_slots(segment, 0, 4)] == [1, 2, 3, 9]
        assert crowding.fullest_prefix(segment, 0) == (9 << 60, 700)


def test_the_fullest_prefix_of_no_keys_has_none() -> None:
    with helpers.segment_of(UNIFORM[:0], PLAN) as segment:
        assert crowding.fullest_prefix(segment, 0) == (0, 0)


@pytest.mark.parametrize("table", range(len(PLAN.tables)))
def test_the_fullest_prefix_is_the_one_that_brute_force_finds(table: int) -> None:
    mask = PLAN.tables[table].prefix_mask
    values, counts = np.unique(CLUSTERED & np.uint64(mask), return_counts=True)
    with helpers.segment_of(CLUSTERED, PLAN, slot_bits=2) as segment:
        value, keys = crowding.fullest_prefix(segment, table)
    assert keys == counts.max()
    assert value in values[counts == keys].tolist()


def test_an_even_table_gives_no_warning() -> None:
    with helpers.segment_of(UNIFORM, PLAN) as segment:
        assert crowding.crowding_warnings(segment) == ()


def test_a_slot_as_plain_values_has_its_bits_as_hex_digits() -> None:
    slot = crowding.CrowdedSlot(slot=5, mask=0xFF << 56, value=0xAB, keys=7)
    assert slot.to_json() == {"slot": 5, "mask": "ff00000000000000", "value": "00000000000000ab", "key_count": 7}


def test_slots_with_as_many_keys_come_by_their_numbers() -> None:
    keys = [slot << 60 | number for slot in (9, 2, 14) for number in range(3)]
    with helpers.segment_of(np.sort(helpers.fingerprint_array(keys)), PLAN, codec="raw", slot_bits=4) as segment:
        assert [slot.slot for slot in crowding.largest_slots(segment, 0, 3)] == [2, 9, 14]
        assert [slot.slot for slot in crowding.largest_slots(segment, 0, 2)] == [2, 9]
