"""A slot read by hand: the keys of the decoder, the codes of the plain twin, whatever the codec; and damage is told."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_codec
import pytest
from helpers import KINDS, distinct, segment_of, write_segment
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore import format as layout
from fpstore.errors import CorruptStore
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.segment.reader import Segment
from fpstore.segment.slots import SlotBlocks, used_slots

PLAN = plans.flips(2, (1, 1), 3)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(layout.CODECS),
    st.integers(0, 6),
    st.integers(0, 500),
    st.integers(0, 1 << 32),
)
def test_every_slot_has_the_keys_of_the_decoder_and_the_codes_of_the_twin(
    kind: str, codec: str, slot_bits: int, count: int, seed: int
) -> None:
    fingerprints = distinct(KINDS[kind](count, np.random.default_rng(seed)))
    with segment_of(fingerprints, PLAN, codec=codec, slot_bits=slot_bits) as segment:
        for table, record in enumerate(segment.tables):
            coder = plain_codec.Coder(codec, record.code_lengths, record.rice_bits)
            used = {}
            for slot in range(1 << slot_bits):
                blocks = SlotBlocks(segment, table, slot)
                found = [each for index in range(len(blocks)) for each in blocks.keys(index)]
                keys = [key for chunk in segment.keys(table, slot, slot + 1) for key in chunk.tolist()]
                assert [each.key for each in found] == keys
                assert [each.delta for each in found] == plain_codec.slot_deltas(slot, codec, slot_bits, keys)
                assert [each.code for each in found] == [coder.encode(each.delta).to01() for each in found]
                for index in range(len(blocks)):
                    assert blocks[index].last_key in (None, list(blocks.keys(index))[-1].key)
                if keys:
                    used[slot] = (sum(map(len, (each.code for each in found))), blocks.is_large)
            seen = list(used_slots(segment, table))
            assert [slot for slot, _, _ in seen] == list(used)
            assert all(large or bits == used[slot][0] for slot, bits, large in seen)
            assert [large for _, _, large in seen] == [large for _, large in used.values()]


def test_a_slot_that_is_not_there_is_refused() -> None:
    with segment_of(np.arange(10, dtype=np.uint64), PLAN, slot_bits=2) as segment:
        for slot in (-1, 4):
            with pytest.raises(ValueError, match=f"slot: found {slot}, expected 0..3"):
                SlotBlocks(segment, 0, slot)
        with pytest.raises(IndexError):
            SlotBlocks(segment, 0, 0)[5]


def test_bits_that_are_no_code_and_blocks_that_leave_the_payload_are_told(tmp_path: Path) -> None:
    fingerprints = distinct(KINDS["uniform"](300, np.random.default_rng(5)))
    told = set()
    path = write_segment(tmp_path / "x.fpseg", fingerprints, PLAN, slot_bits=2)
    data = path.read_bytes()
    with_record = Segment(path)
    record = with_record.tables[0]
    with_record.close()

    class Changed:
        """The segment with some bytes changed, which nobody checked."""

        tables: tuple[layout.TableRecord, ...] = (record,)

        def __init__(self, offset: int, new: bytes) -> None:
            self._data = data[:offset] + new + data[offset + len(new) :]

        def read(self, offset: int, length: int) -> bytes:
            return self._data[offset : offset + length]

    rng = np.random.default_rng(6)
    regions = {
        "directory": (record.directory_offset, layout.directory_bytes(2)),
        "payload": (record.payload_offset, record.payload_bits // 8),
        "fences": (record.fences_offset, record.fence_count * layout.FENCE_BYTES),
    }
    for name, (offset, size) in regions.items():
        for _ in range(200 if size else 0):
            changed = Changed(offset + int(rng.integers(size)), rng.bytes(2))
            for slot in range(4):
                try:
                    blocks = SlotBlocks(changed, 0, slot)
                    for index in range(min(len(blocks), 10)):
                        assert len(list(blocks.keys(index))) <= record.payload_bits
                except CorruptStore as error:
                    told.add((name, "expected a code" in str(error)))
    assert told >= {("directory", False), ("payload", True)}


def test_keys_are_those_of_the_fingerprints() -> None:
    fingerprints = distinct(KINDS["uniform"](50, np.random.default_rng(7)))
    with segment_of(fingerprints, PLAN, slot_bits=0) as segment:
        blocks = SlotBlocks(segment, 1, 0)
        keys = np.array([each.key for each in blocks.keys(0)], dtype=np.uint64)
        found = Permutation(segment.tables[1].prefix_mask).invert(keys)
        assert np.array_equal(np.sort(found), np.sort(fingerprints))


@pytest.mark.parametrize("codec", layout.CODECS)
def test_a_table_of_blocks_is_looked_at_block_by_block(codec: str) -> None:
    fingerprints = distinct(KINDS["uniform"](500, np.random.default_rng(4)))
    with segment_of(fingerprints, replace(PLAN, block_bytes=128), codec=codec) as segment:
        for table, record in enumerate(segment.tables):
            coder = plain_codec.Coder(codec, record.code_lengths, record.rice_bits)
            keys: list[int] = []
            for block, bits, is_large in used_slots(segment, table):
                found = [*SlotBlocks(segment, table, block).keys(0)]
                first = plain_codec.field(found[0].key, 64).to01()
                assert [each.code for each in found] == [
                    first,
                    *(coder.encode(each.delta).to01() for each in found[1:]),
                ]
                assert SlotBlocks(segment, table, block)[0].last_key == found[-1].key
                keys += [each.key for each in found]
                assert (bits, is_large) == (0, True)
            assert keys == [key for chunk in segment.keys(table) for key in chunk.tolist()]
