"""The compiled codec writes and reads the very bits of the plain twin, and refuses everything else."""

# mypy: disable-error-code="arg-type, assignment, call-arg"

import itertools
import struct
from itertools import chain, product

import crc32c as crc32c_package
import numpy as np
import plain_codec
import pytest
from helpers import (
    CODECS,
    KINDS,
    LAST,
    CodedTable,
    coded_table,
    distinct,
    fingerprint_array,
    iter_until_empty,
    key_sets,
    keys_of,
    uniform,
    view_of_image,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fpstore import format as fmt
from fpstore._codec import (
    CODECS as CODEC_NAMES,
)
from fpstore._codec import (
    LAYOUT,
    Histogram,
    PackedWriter,
    RiceCost,
    TableEncoder,
    crc32c,
    crc32c_many,
    page_checksums,
)
from fpstore._view import DecodeRoom, SegmentView, TableCursor
from fpstore.errors import CorruptStore, StoreClosed
from fpstore.segment.table import rice_bits_for

SLOT_BITS = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 12])
NO_LENGTHS = np.zeros(65, dtype=np.uint8)
NO_WORDS = np.zeros(65, dtype=np.uint16)
RAW = CODECS.index("raw")
RUN = list(range(1000, 1300))  # a large slot of three blocks wherever it lies in one


OUTSIDE = (
    "table 0, slot 0: found a directory entry or an id that points outside its region or runs backwards, expected each"
    " inside it, in order"
)


def sorted_uniform(count: int, seed: int = 0) -> list[int]:
    return sorted(set(uniform(count, np.random.default_rng(seed)).tolist()))


def assert_equals_twin(coded: CodedTable, keys: list[int], codec: str, slot_bits: int, block_bytes: int = 0) -> None:
    plain = plain_codec.encode_table(keys, codec, slot_bits, block_bytes=block_bytes)
    assert coded.table.payload_bits == len(plain.payload)
    assert coded.payload == plain.payload.tobytes()
    assert coded.table.directory.tobytes() == plain.directory
    assert coded.table.fences.tobytes() == plain.fences
    assert coded.table.code_lengths == plain.code_lengths
    assert coded.table.rice_bits == plain.rice_bits
    assert coded.table.key_count == len(keys)


def test_the_kernels_have_the_numbers_of_the_format() -> None:
    assert {
        "CODEC_GAP": fmt.CODEC_GAP,
        "CODEC_XOR": fmt.CODEC_XOR,
        "CODEC_RICE": fmt.CODEC_RICE,
        "CODEC_RAW": fmt.CODEC_RAW,
        "IDS_NONE": fmt.ID_KIND_NONE,
        "IDS_ONE": fmt.ID_KIND_ONE,
        "IDS_MANY": fmt.ID_KIND_MANY,
        "SYMBOLS": fmt.SYMBOL_COUNT,
        "MAX_CODE_BITS": fmt.MAX_CODE_BITS,
        "RICE_ESCAPE": fmt.MAX_RICE_QUOTIENT,
        "GROUP_SLOTS": fmt.GROUP_SLOTS,
        "LINE_BYTES": fmt.DIRECTORY_LINE_BYTES,
        "FENCE_BYTES": fmt.FENCE_BYTES,
        "OFFSET_BITS": fmt.PAYLOAD_OFFSET_BITS,
        "MAX_BLOCK_KEYS": fmt.MAX_BLOCK_KEYS,
        "MAX_BLOCK_BITS": fmt.MAX_BLOCK_BITS,
        "MIN_BLOCK_BYTES": fmt.MIN_BLOCK_BYTES,
        "MAX_BLOCK_BYTES": fmt.MAX_BLOCK_BYTES,
        "PAGE_BYTES": fmt.PAGE_BYTES,
        "CRC_BYTES": fmt.CRC_BYTES,
        "FOOTER_BYTES": fmt.FOOTER_BYTES,
        "MIN_KEY_BITS": fmt.MIN_KEY_BITS,
        "MAX_KEY_BITS": fmt.MAX_KEY_BITS,
        "MAX_SLOT_BITS": fmt.MAX_SLOT_BITS,
        "MAX_RICE_BITS": fmt.MAX_RICE_BITS,
        "SAMPLE_BITS": fmt.SAMPLE_BITS,
        "SAMPLE_BYTES": fmt.SAMPLE_BYTES,
        "MAX_CODE_BYTES_PER_KEY": max(
            fmt.max_key_code_bits(codec, fmt.MAX_KEY_BITS) for codec in range(len(fmt.CODECS))
        )
        // 8,
    } == LAYOUT
    assert CODEC_NAMES == fmt.CODECS


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(key_sets(), st.sampled_from(CODECS), SLOT_BITS, st.sampled_from([0, 0, 64, 1024]))
@example([], "gap", 0, 0)
@example([], "gap", 0, 64)
@example([0], "gap", 0, 0)
@example([0], "gap", 12, 64)
@example([LAST], "xor", 0, 0)
@example([0, LAST], "gap", 0, 0)
@example([0, LAST], "rice", 1, 64)
@example([1 << 63, LAST], "xor", 2, 0)
@example(RUN, "rice", 0, 0)
@example(RUN, "rice", 3, 64)
@example(list(range(128)), "gap", 0, 0)
@example(list(range(129)), "gap", 0, 0)
@example(list(range(449)), "gap", 0, 64)  # a block's 512 bits: 64 of the first key, and one of each other
@example(list(range(450)), "gap", 4, 64)
@example(list(range(86)), "raw", 0, 0)
def test_a_table_has_the_bits_of_the_plain_twin(keys: list[int], codec: str, slot_bits: int, block_bytes: int) -> None:
    coded = coded_table(keys, codec, slot_bits, block_bytes=block_bytes)
    assert_equals_twin(coded, keys, codec, slot_bits, block_bytes)
    assert keys_of(coded.view(), slot_bits).tolist() == keys


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("keys", "slot_bits"),
    [
        (sorted_uniform(3000), 12),
        (sorted_uniform(3000), 5),
        (sorted_uniform(3000), 0),
        (list(range(5000)), 3),
        (sorted({LAST - i * i for i in range(2000)}), 8),
        (sorted({(i % 40) << 58 | i for i in range(4000)}), 6),
        (sorted({1 << bit for bit in range(64)} | {0, LAST}), 10),
        (sorted({key >> key % 61 for key in sorted_uniform(5000)} | set(sorted_uniform(2000, 1))), 7),
        (sorted({key >> 1 << 1 | odd for key in sorted_uniform(600) for odd in (0, 1)}), 4),
        (sorted({key & ~(3 << 60) for key in sorted_uniform(2000)}), 6),
    ],
    ids=[
        "uniform-12",
        "uniform-5",
        "uniform-0",
        "consecutive",
        "high-end",
        "some-large-slots",
        "powers",
        "all-lengths",
        "next-to-each-other",
        "empty-slots",
    ],
)
def test_a_larger_table_has_the_bits_of_the_plain_twin(keys: list[int], slot_bits: int, codec: str) -> None:
    coded = coded_table(keys, codec, slot_bits)
    assert_equals_twin(coded, keys, codec, slot_bits)
    assert keys_of(coded.view(), slot_bits).tolist() == keys


@pytest.mark.parametrize(("count", "fence_count"), [(128, 0), (129, 2), (256, 2), (257, 3)])
def test_a_slot_is_large_from_129_keys_on(count: int, fence_count: int) -> None:
    coded = coded_table(range(count), "gap", 0)
    assert len(coded.table.fences) == fence_count * fmt.FENCE_BYTES
    assert_equals_twin(coded, list(range(count)), "gap", 0)


@pytest.mark.parametrize(("count", "fence_count"), [(85, 0), (86, 1)])
def test_a_slot_is_large_from_5462_bits_on(count: int, fence_count: int) -> None:
    # 85 raw keys are 5,440 bits, 86 are 5,504; the limit is 5,461.
    keys = sorted_uniform(count)
    coded = coded_table(keys, "raw", 0)
    assert len(coded.table.fences) == fence_count * fmt.FENCE_BYTES
    assert_equals_twin(coded, keys, "raw", 0)


def test_a_slot_of_exactly_5461_bits_is_one_block() -> None:
    # Rice with r = 41: 42 bits for a delta below 2^41, and one more for each 2^41 in it. 128 keys take
    # 128 * 42 = 5,376 bits, and 85 (or 86) of them one bit more: 5,461 (or 5,462).
    for longer, fence_count in ((85, 0), (86, 1)):
        deltas = [(1 << 41) + 1] * longer + [1] * (128 - longer)
        encoder = TableEncoder(fmt.CODEC_RICE, 0, 41, NO_LENGTHS, NO_WORDS, with_ranks=False)
        encoder.push(np.cumsum(fingerprint_array(deltas)))
        encoder.finish()
        assert encoder.payload_bits == 5376 + longer
        assert encoder.fence_count == fence_count


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(key_sets(), st.sampled_from(CODECS), SLOT_BITS, st.integers(1, 300))
def test_keys_pushed_in_chunks_give_the_bits_of_one_push(
    keys: list[int], codec: str, slot_bits: int, chunk_keys: int
) -> None:
    whole = coded_table(keys, codec, slot_bits, 1 << 20)
    chunked = coded_table(keys, codec, slot_bits, chunk_keys)
    assert chunked.payload == whole.payload
    assert chunked.table.directory.tobytes() == whole.table.directory.tobytes()
    assert chunked.table.fences.tobytes() == whole.table.fences.tobytes()


@settings(max_examples=60, deadline=None)
@given(key_sets(), SLOT_BITS)
def test_ranks_count_the_keys_in_the_slots_before(keys: list[int], slot_bits: int) -> None:
    ranks = coded_table(keys, "gap", slot_bits, with_ranks=True).table.ranks
    starts = [slot << 64 - slot_bits for slot in range(1 << slot_bits)]
    assert ranks is not None
    assert ranks.tolist() == [sum(key < start for key in keys) for start in starts] + [len(keys)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(key_sets(), SLOT_BITS, st.integers(1, 300))
def test_the_histogram_counts_the_twins_symbols(keys: list[int], slot_bits: int, chunk_keys: int) -> None:
    histogram = Histogram(slot_bits)
    for start in range(0, len(keys), chunk_keys):
        histogram.add(fingerprint_array(keys[start : start + chunk_keys]))
    slots = plain_codec.split_slots(keys, slot_bits)
    gaps = [plain_codec.slot_deltas(slot, "gap", slot_bits, slot_keys) for slot, slot_keys in enumerate(slots)]
    xors = [plain_codec.slot_deltas(slot, "xor", slot_bits, slot_keys) for slot, slot_keys in enumerate(slots)]
    assert histogram.gap == plain_codec.symbol_counts(gaps)
    assert histogram.xor == plain_codec.symbol_counts(xors)
    assert histogram.gap_sum == sum(map(sum, gaps))
    assert histogram.count == len(keys)


@settings(max_examples=60, deadline=None)
@given(key_sets(), SLOT_BITS, st.integers(1, 300))
def test_the_rice_cost_is_the_payload_of_the_rice_codec(keys: list[int], slot_bits: int, chunk_keys: int) -> None:
    coded = coded_table(keys, "rice", slot_bits)
    cost = RiceCost(slot_bits, coded.table.rice_bits)
    for start in range(0, len(keys), chunk_keys):
        cost.add(fingerprint_array(keys[start : start + chunk_keys]))
    assert cost.bits == coded.table.payload_bits


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(key_sets(), st.sampled_from(CODECS), st.sampled_from([1, 3, 6, 10]), st.booleans(), st.data())
def test_a_cursor_reads_the_keys_of_its_slots(
    keys: list[int], codec: str, slot_bits: int, alone: bool, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, 1 << slot_bits))
    end = data.draw(st.integers(first, 1 << slot_bits))
    cursor = TableCursor(coded_table(keys, codec, slot_bits).view(), 0, first, end, alone=alone)
    expected = [key for key in keys if first <= plain_codec.slot_of(key, slot_bits) < end]
    assert cursor.read().tolist() == expected
    assert len(cursor.read()) == 0


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["uniform", "clustered", "extreme", "one_prefix"])
def test_a_large_table_reads_the_same_alone_and_side_by_side(kind: str, codec: str, alone: bool) -> None:
    keys = distinct(KINDS[kind](60_000, np.random.default_rng(3)))
    for slot_bits in (8, 11):
        cursor = TableCursor(coded_table(keys, codec, slot_bits).view(), 0, 0, 1 << slot_bits, alone=alone)
        assert np.array_equal(np.concatenate(list(iter_until_empty(cursor.read))), keys)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_groups_with_large_slots_are_read_in_the_order_of_their_keys(codec: str, alone: bool) -> None:
    # 2^10 slots of about 30 keys, every ninth with 100 to 5,000 more, some with their lowest key, one fills chunks.
    rng = np.random.default_rng(4)
    slots = np.arange(1, 1 << 10, 9, dtype=np.uint64)
    parts = [uniform(30_000, rng), slots[::3] << np.uint64(54)]
    for slot, count in zip(slots, [60_000, *rng.integers(100, 5000, len(slots) - 1)], strict=True):
        parts.append((slot << np.uint64(54)) + (uniform(int(count), rng) >> np.uint64(rng.integers(10, 50))))
    keys = distinct(np.concatenate(parts))
    for first, end in ((0, 1 << 10), (7, 1001)):
        cursor = TableCursor(coded_table(keys, codec, 10).view(), 0, first, end, alone=alone)
        slot = keys >> np.uint64(54)
        assert np.array_equal(np.concatenate(list(iter_until_empty(cursor.read))), keys[(slot >= first) & (slot < end)])


@pytest.mark.parametrize("alone", [True, False])
def test_streams_of_very_unequal_blocks_are_read(alone: bool) -> None:
    # 200 slots of one key, of few bits, then some of many: nearly all bits in few blocks.
    keys = sorted({slot << 56 | 1 for slot in range(250)} | {250 << 56 | i**6 for i in range(1, 120)})
    cursor = TableCursor(coded_table(keys, "gap", 8).view(), 0, 0, 256, alone=alone)
    assert cursor.read().tolist() == keys


def test_cursors_of_one_room_read_in_turns() -> None:
    rng = np.random.default_rng(5)
    tables = [(distinct(KINDS[kind](90_000, rng)), codec) for kind, codec in product(("uniform", "clustered"), CODECS)]
    room = DecodeRoom()
    cursors = [TableCursor(coded_table(keys, codec, 11).view(), 0, 0, 1 << 11, room=room) for keys, codec in tables]
    found: list[list[np.ndarray]] = [[] for _ in cursors]
    going_on = True
    while going_on:
        going_on = False
        for cursor, parts in zip(cursors, found, strict=True):
            if len(keys := cursor.read(into=room.keys)):
                parts.append(keys.copy())
                going_on = True
    for (keys, _), parts in zip(tables, found, strict=True):
        assert len(parts) > 1
        assert np.array_equal(np.concatenate(parts), keys)


def test_a_cursor_hands_out_more_keys_than_its_room_in_parts() -> None:
    keys = list(range(200_000))
    cursor = TableCursor(coded_table(keys, "gap", 0).view(), 0, 0, 1)
    parts = [cursor.read(65664).tolist() for _ in range(2000)]
    assert list(chain.from_iterable(parts)) == keys
    assert max(map(len, parts)) <= 65664


def test_a_cursor_fills_the_room_that_it_is_given() -> None:
    keys, room = list(range(100_000)), np.empty(70_000, dtype=np.uint64)
    cursor = TableCursor(coded_table(keys, "gap", 0).view(), 0, 0, 1)
    found: list[int] = []
    while len(part := cursor.read(into=room)):
        assert np.shares_memory(part, room)
        found += part.tolist()
    assert found == keys
    with pytest.raises(ValueError, match="room for 9 keys"):
        cursor.read(into=room[:9])


# Checksums.


@pytest.mark.parametrize("running", [False, True])
def test_crc32c_of_many_is_that_of_each(running: bool) -> None:
    data = np.arange(60, dtype=np.uint8)
    offsets = np.array([3, 3, 10, 60], dtype=np.int64)
    expected, before = [], 7
    for start, end in itertools.pairwise(offsets.tolist()):
        expected.append(crc32c(data[start:end], before))
        before = expected[-1] if running else before
    assert crc32c_many(data, offsets, 7, running=running).tolist() == expected
    assert crc32c_many(data[:0], np.zeros(3, dtype=np.int64), 7, running=running).tolist() == [7, 7]
    assert crc32c_many(data, offsets[:1], 7, running=running).tolist() == []
    for bad in ([-1, 2], [0, 61], [4, 3]):
        with pytest.raises(ValueError, match="expected those of values in 60 bytes"):
            crc32c_many(data, np.array(bad, dtype=np.int64), 0, running=running)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_crc32c_is_that_of_the_package_and_goes_on_from_a_value(first: bytes, second: bytes) -> None:
    assert crc32c(first) == crc32c_package.crc32c(first)
    assert crc32c(second, crc32c(first)) == crc32c_package.crc32c(first + second)


def test_crc32c_of_stretches_that_are_read_side_by_side_is_that_of_the_package() -> None:
    data = np.random.default_rng(5).integers(0, 256, 4000, dtype=np.uint8).tobytes()
    for size in [*range(760, 776), *range(1528, 1544), 2304, 3999]:
        for start in (0, 1):
            found = crc32c(data[start : start + size], size)
            assert found == crc32c_package.crc32c(data[start : start + size], size), (start, size)


def test_crc32c_has_the_published_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    assert crc32c(memoryview(bytearray(32))) == 0x8A9136AA


@pytest.mark.parametrize("size", [0, 1, 8, 4095, 4096, 4097, 3 * 4096 - 1, 3 * 4096, 7 * 4096 + 5, 12 * 4096])
@pytest.mark.parametrize("start", [0, 1, 7])
def test_page_checksums_are_the_crc_of_each_page(size: int, start: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + start, dtype=np.uint8)[start:].tobytes()
    pages = [data[at : at + 4096] for at in range(0, size, 4096)]
    assert page_checksums(data).tolist() == [crc32c_package.crc32c(page) for page in pages]


# Packed fields.


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 64), st.integers(0, 2**32 - 1), st.lists(st.integers(0, 70), max_size=4))
def test_packed_fields_are_those_of_the_plain_twin(width: int, seed: int, chunk_sizes: list[int]) -> None:
    values = uniform(sum(chunk_sizes), np.random.default_rng(seed))
    values = values >> np.uint64(64 - width) if width else np.zeros_like(values)
    writer, packed, start = PackedWriter(width), b"", 0
    for size in chunk_sizes:
        packed += writer.push(values[start : start + size]).tobytes()
        start += size
    packed += writer.finish().tobytes()
    assert packed == plain_codec.packed(width, values.tolist())


@pytest.mark.parametrize(("width", "value"), [(0, 1), (1, 2), (63, 1 << 63), (20, LAST)])
def test_a_value_wider_than_the_field_is_refused(width: int, value: int) -> None:
    with pytest.raises(ValueError, match=f"a value does not fit {width} bits"):
        PackedWriter(width).push(fingerprint_array([0, value]))


def test_a_field_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"width: found 65, expected 0\.\.64"):
        PackedWriter(65)


# What the encoder refuses.


@pytest.mark.parametrize("keys", [[5, 4], [5, 5], [0, 0], [LAST, 0]])
def test_keys_out_of_order_are_refused(keys: list[int]) -> None:
    encoder = TableEncoder(RAW, 1, 0, NO_LENGTHS, NO_WORDS, with_ranks=False)
    with pytest.raises(ValueError, match="table: keys must be strictly increasing"):
        encoder.push(fingerprint_array(keys))
    encoder = TableEncoder(RAW, 1, 0, NO_LENGTHS, NO_WORDS, with_ranks=False)
    encoder.push(fingerprint_array(keys[:1]))
    with pytest.raises(ValueError, match="table: keys must be strictly increasing"):
        encoder.push(fingerprint_array(keys[1:]))
    histogram = Histogram(1)
    with pytest.raises(ValueError, match="histogram: keys must be strictly increasing"):
        histogram.add(fingerprint_array(keys))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [1, 2, 7, 8, 9, 17, 299])
def test_keys_out_of_order_among_many_are_refused(codec: str, at: int) -> None:
    keys = fingerprint_array(sorted_uniform(2000))
    lengths, words = np.full(65, 7, dtype=np.uint8), np.arange(65, dtype=np.uint16)
    for bad in (keys[at - 1], np.uint64(0), keys[at - 1] - np.uint64(1)):
        broken = keys.copy()
        broken[at] = bad
        encoder = TableEncoder(CODECS.index(codec), 6, 1, lengths, words, with_ranks=False)
        with pytest.raises(ValueError, match="table: keys must be strictly increasing"):
            encoder.push(broken)
        for counted in (-1, CODECS.index(codec)):
            with pytest.raises(ValueError, match="histogram: keys must be strictly increasing"):
                Histogram(6, counted).add(broken)


def test_a_histogram_of_one_codec_counts_what_its_code_is_chosen_from() -> None:
    keys = fingerprint_array(sorted_uniform(2000))
    whole = Histogram(6)
    whole.add(keys)
    gap, xor, rice = (Histogram(6, CODECS.index(codec)) for codec in ("gap", "xor", "rice"))
    for histogram in (gap, xor, rice):
        histogram.add(keys)
    assert (gap.gap, xor.xor, rice.gap_sum) == (whole.gap, whole.xor, whole.gap_sum)
    assert gap.count == xor.count == rice.count == len(keys)


def test_a_finished_table_takes_no_more_keys() -> None:
    encoder = TableEncoder(RAW, 0, 0, NO_LENGTHS, NO_WORDS, with_ranks=False)
    encoder.finish()
    with pytest.raises(ValueError, match="the table is finished: no more keys"):
        encoder.push(fingerprint_array([1]))
    with pytest.raises(ValueError, match="the table is finished already"):
        encoder.finish()


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (4, 0, 0), (0, 41, 0), (2, 0, 64)])
def test_numbers_that_no_table_has_are_refused(numbers: tuple[int, int, int]) -> None:
    codec, slot_bits, rice_bits = numbers
    message = f"codec {codec}, slot_bits {slot_bits}, rice_bits {rice_bits}: expected"
    with pytest.raises(ValueError, match=message):
        TableEncoder(*numbers, NO_LENGTHS, NO_WORDS, with_ranks=False)


def test_a_code_for_another_number_of_symbols_is_refused() -> None:
    with pytest.raises(ValueError, match="64 code lengths, 65 words: expected 65 of each"):
        TableEncoder(0, 0, 0, NO_LENGTHS[:64], NO_WORDS, with_ranks=False)
    with pytest.raises(ValueError, match="65 code lengths, 66 words: expected 65 of each"):
        TableEncoder(0, 0, 0, NO_LENGTHS, np.zeros(66, dtype=np.uint16), with_ranks=False)


# What the decoder refuses. Every checksum holds in these: the bytes themselves are wrong.


def decode_error(coded: CodedTable, offset: int, replacement: bytes) -> str:
    """What reading the table says once the bytes at offset of its image are replaced; "" if nothing."""
    record, data = coded.image()
    data[offset : offset + len(replacement)] = replacement
    try:
        keys_of(view_of_image(record, data), record.slot_bits)
    except CorruptStore as error:
        return str(error)
    return ""


def test_a_payload_bit_changed_under_a_good_checksum_is_refused_or_gives_other_sorted_keys() -> None:
    keys = sorted_uniform(40)
    for codec in CODECS:
        coded = coded_table(keys, codec, 1)
        refused = 0
        for bit in range(coded.table.payload_bits):
            record, data = coded.image()
            data[record.payload_offset + bit // 8] ^= 1 << bit % 8
            try:
                found = keys_of(view_of_image(record, data), 1)
            except CorruptStore:
                refused += 1
                continue
            assert found.tolist() != keys
            assert bool((found[1:] > found[:-1]).all())
        assert refused > 0


def test_a_block_that_leaves_the_payload_is_refused() -> None:
    coded = coded_table(sorted_uniform(40), "gap", 1)
    line = coded.image()[0].directory_offset
    points_outside = OUTSIDE
    assert decode_error(coded, line, struct.pack("<Q", coded.table.payload_bits + 1)) == points_outside
    assert decode_error(coded, line, struct.pack("<Q", (1 << 48) - 1)) == points_outside
    assert decode_error(coded, line, struct.pack("<Q", 1)).startswith(
        "table 0, slot 0: found a block that does not decode"
    )
    assert decode_error(coded, line + 8, struct.pack("<HH", 5, 4)).startswith("table 0, slot")


def test_a_block_that_ends_inside_a_key_is_refused() -> None:
    coded = coded_table([1, 2], "raw", 0)
    line = coded.image()[0].directory_offset
    broken = "table 0, slot 0: found a block that does not decode, expected increasing keys that end where it ends"
    assert decode_error(coded, line + 8, struct.pack("<H", 127)) == broken
    assert decode_error(coded, line + 8, struct.pack("<H", 64)) == ""


def test_keys_that_leave_their_slot_or_do_not_increase_are_refused() -> None:
    coded = coded_table([1, 2, 1 << 63], "raw", 1)
    payload = coded.image()[0].payload_offset
    broken = "table 0, slot {}: found a block that does not decode, expected increasing keys that end where it ends"
    assert decode_error(coded, payload + 8, struct.pack("<Q", 1 << 63)) == broken.format(0)
    assert decode_error(coded, payload + 8, struct.pack("<Q", 1)) == broken.format(0)
    assert decode_error(coded, payload + 8, struct.pack("<Q", 0)) == broken.format(0)
    assert decode_error(coded, payload + 16, struct.pack("<Q", 5)) == broken.format(1)


def test_an_unknown_code_word_is_refused() -> None:
    # A lone symbol has the code word 0, so a 1 bit says nothing.
    coded = coded_table([1], "gap", 0)
    assert (coded.table.payload_bits, coded.payload) == (1, b"\0")
    assert decode_error(coded, 64, b"\1") == (
        "table 0, slot 0: found a block that does not decode, expected increasing keys that end where it ends"
    )


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("groups", [1, 8, 32])
@pytest.mark.parametrize("hostile_slots", [1, 12 * 32])
def test_blocks_of_5461_bits_and_as_many_keys_are_refused(hostile_slots: int, groups: int, alone: bool) -> None:
    # A code of one bit, which stands for a delta of 1: each bit of an empty payload is a key. The blocks before the
    # last ones have the 128 keys that a block may have, so that what decodes them is as full as it can be.
    slots = groups * fmt.GROUP_SLOTS
    slot_bits = slots.bit_length()
    hostile = min(hostile_slots, slots)
    bits = [128] * (slots - hostile) + [fmt.MAX_BLOCK_BITS] * hostile + [0] * ((1 << slot_bits) + 12 - slots)
    lines = b""
    for first in range(0, 1 << slot_bits, fmt.GROUP_SLOTS):
        ends = np.cumsum(bits[first : first + fmt.GROUP_SLOTS]).tolist()
        lines += struct.pack("<Q12H", sum(bits[:first]), *ends)
    payload_bytes = -(-sum(bits) // 512) * 64
    data = bytearray(64 + payload_bytes) + lines
    data += bytes(-len(data) % 64)
    lengths = (0, 1) + (0,) * 63
    record = fmt.TableRecord(0, 0, slot_bits, 0, 0, 64, sum(bits), 64 + payload_bytes, 0, 0, lengths)
    cursor = TableCursor(view_of_image(record, data), 0, 0, slots, alone=alone)
    with pytest.raises(CorruptStore, match="found a block that does not decode, expected increasing keys"):
        list(iter_until_empty(cursor.read))


def test_a_wrong_fence_is_refused() -> None:
    coded = coded_table(RUN, "gap", 1)  # blocks of 128, 128 and 44 keys in slot 0, slot 1 empty
    fences = coded.image()[0].fences_offset
    (first_block,) = struct.unpack_from("<Q", coded.table.fences, 8)
    outside = OUTSIDE
    broken = "table 0, slot 0: found a block that does not decode, expected increasing keys that end where it ends"
    assert decode_error(coded, fences, struct.pack("<Q", 1126)) == broken  # the block's last key is 1127
    assert decode_error(coded, fences, struct.pack("<Q", 1128)) == broken
    assert decode_error(coded, fences + 16, struct.pack("<Q", 1127)) == outside  # as the first fence
    assert decode_error(coded, fences + 8, struct.pack("<Q", first_block & (1 << 48) - 1)) == outside  # 0 bits
    assert decode_error(coded, fences + 8, struct.pack("<Q", first_block + (1 << 48))) == broken
    assert decode_error(coded, fences + 8, struct.pack("<Q", first_block | (1 << 48) - 1)) == outside


def test_a_large_slot_without_fences_or_with_an_inline_block_is_refused() -> None:
    coded = coded_table([1, 2], "gap", 0)
    line = coded.image()[0].directory_offset
    outside = OUTSIDE
    assert decode_error(coded, line + 6, struct.pack("<H", 1)) == outside
    assert decode_error(coded, line + 6, struct.pack("<HH", 1, 0)) == outside


# Views.


def test_a_page_is_checked_before_its_first_use_and_the_error_names_it() -> None:
    keys = sorted_uniform(3000)
    coded = coded_table(keys, "raw", 4)
    record, data = coded.image()
    view = view_of_image(record, data)
    assert len(keys_of(view, 4)) == len(keys)
    sums = page_checksums(data).astype("<u4").tobytes()
    roots = page_checksums(sums).astype("<u4").tobytes()
    data[9000] ^= 1
    ends = [len(data), len(data) + len(sums), len(data) + len(sums) + len(roots)]
    damaged = SegmentView(data + sums + roots + bytes(64), *ends, (record,))
    bad = "page at byte 8192: found bytes of another checksum, expected those of the checksum recorded for it"
    with pytest.raises(CorruptStore, match=f"^table 0, slot 5, {bad}$"):
        keys_of(damaged, 4)
    with pytest.raises(CorruptStore, match=f"^here, {bad}$"):
        damaged.check(0, len(data), "here")
    damaged.check(0, 8192, "before it")
    damaged.check(9, 9, "nothing")
    data[9000] ^= 1
    broken_sums = bytearray(sums)
    broken_sums[2] ^= 1
    damaged = SegmentView(data + broken_sums + roots + bytes(64), *ends, (record,))
    with pytest.raises(CorruptStore, match=f"^sums, page at byte {len(data)}: found bytes of another"):
        damaged.check(0, 1, "sums")


def test_a_view_checks_no_byte_that_has_no_checksum() -> None:
    view = coded_table([1], "gap", 0).view()
    with pytest.raises(ValueError, match=r"^x: byte 100000 lies beyond the \d+ that have checksums$"):
        view.check(0, 100_000, "x")


@pytest.mark.parametrize("ends", [(65, 64, 64), (0, 10, 9), (0, 0, 65), (0, 200, 200)])
def test_checksums_outside_the_file_are_refused(ends: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="the checksums do not lie inside the file"):
        SegmentView(bytes(128), *ends, ())


def test_a_closed_view_reads_no_more() -> None:
    view = coded_table([1], "gap", 0).view()
    cursor = TableCursor(view, 0, 0, 1)
    view.close()
    view.close()
    with pytest.raises(StoreClosed, match="the store is closed"):
        cursor.read()
    with pytest.raises(StoreClosed, match="the store is closed"):
        view.check(0, 1, "x")


def test_a_cursor_refuses_tables_slots_and_room_that_there_are_not() -> None:
    view = coded_table([1], "gap", 2).view()
    for table in (-1, 1):
        with pytest.raises(ValueError, match=f"table {table}: the segment has 1"):
            TableCursor(view, table, 0, 1)
    for first, end in ((2, 1), (0, 5)):
        with pytest.raises(ValueError, match=f"slots {first} to {end}: table 0 has 4"):
            TableCursor(view, 0, first, end)
    with pytest.raises(ValueError, match="room for 65663 keys: expected 65664 or more"):
        TableCursor(view, 0, 0, 1).read(65663)


def test_the_rice_parameter_is_that_of_the_plain_twin() -> None:
    for mean in [0, 1, 2, 3, 5, 6, 1 << 20, (1 << 63) - 1, LAST]:
        assert rice_bits_for(mean, 1) == plain_codec.choose_rice_bits([mean])
    assert rice_bits_for(0, 0) == 0
