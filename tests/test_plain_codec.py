"""The plain twin writes the bytes that docs/format.md says, worked out here by hand, and reads them back."""

import struct

import pytest
import xxhash
from bitarray import bitarray
from hypothesis import given
from hypothesis import strategies as st
from plain_codec import (
    PlainTable,
    choose_rice_bits,
    crc32c,
    decode_table,
    encode_table,
    packed,
    permute,
    unpacked,
    unpermute,
)

CODECS = ["gap", "xor", "rice", "raw"]
LAST = (1 << 64) - 1
KEY = st.integers(0, LAST)


@st.composite
def key_sets(draw: st.DrawFn) -> list[int]:
    """Sorted distinct keys: anywhere, in a few clusters, in runs, and at both ends."""
    anywhere = st.sets(KEY, max_size=20)
    clusters = st.tuples(KEY, st.sets(st.integers(0, 4000), max_size=20)).map(
        lambda pair: {min(pair[0] + step, LAST) for step in pair[1]}
    )
    runs = st.tuples(KEY, st.integers(1, 200)).map(lambda pair: set(range(pair[0], min(sum(pair), LAST))))
    ends = st.sets(st.sampled_from([0, 1, LAST - 1, LAST, 1 << 63, (1 << 63) - 1]))
    parts = draw(st.lists(st.one_of(anywhere, clusters, runs, ends), max_size=4))
    return sorted(set().union(*parts))


def bits(text: str) -> bitarray:
    """The bits written in text, first bit of the stream first."""
    return bitarray(text.replace(" ", ""), endian="little")


def directory_line(base: int, ends: list[int], large: int = 0) -> bytes:
    """A directory line by section 2, `large` with bit i for slot i."""
    return struct.pack("<Q12H", base | large << 48, *ends)


def random_keys(count: int, seed: int = 0) -> list[int]:
    """That many distinct keys or a few fewer, the same on every machine."""
    return sorted({xxhash.xxh64_intdigest(index.to_bytes(8, "little"), seed) for index in range(count)})


def test_four_gaps_are_coded_as_by_hand() -> None:
    # Two slots. Deltas 5 and 1 in slot 0, 0 and 6 in slot 1; symbols 3 1 0 3. Counts 1, 1, 2 for 0, 1, 3:
    # lengths 2, 2, 1; code words 3 -> 0, 0 -> 10, 1 -> 11. Bits below the leading one, lowest first:
    # 5 = 101 -> 10, 6 = 110 -> 01.
    table = encode_table([5, 6, 1 << 63, (1 << 63) + 6], "gap", 1)
    assert table.code_lengths == (2, 2, 0, 1) + (0,) * 61
    assert table.payload == bits("0 10  11   10  0 01")
    assert table.payload.tobytes() == bytes([0b00111010, 0b10])
    assert table.directory == directory_line(0, [5] + [10] * 11)
    assert table.fences == b""


def test_the_same_four_keys_have_other_xor_deltas() -> None:
    # 5, 5 ^ 6 = 3, 0, 6: symbols 3 2 0 3, so 3 -> 0, 0 -> 10, 2 -> 11. Below the leading one, lowest first:
    # 5 = 101 -> 10, 3 = 11 -> 1, 6 = 110 -> 01.
    table = encode_table([5, 6, 1 << 63, (1 << 63) + 6], "xor", 1)
    assert table.payload == bits("0 10  11 1   10  0 01")
    assert table.directory == directory_line(0, [6] + [11] * 11)


def test_three_keys_in_rice_are_coded_as_by_hand() -> None:
    # Deltas 9, 7, 200: mean 72, and 72 * ln 2 = 49.9, so r = 5.
    # Quotients 0, 0, 6; low bits 01001, 00111, 01000.
    table = encode_table([9, 16, 216], "rice", 0)
    assert table.rice_bits == 5
    assert table.payload == bits("1 10010  1 11100  0000001 00010")
    assert table.directory == directory_line(0, [24] * 12)
    assert table.code_lengths == (0,) * 65


def test_a_rice_quotient_of_23_is_written_out_and_one_of_24_is_not() -> None:
    # 70 deltas of 1 and one of 23 or 24: their mean is 1, so r = 0.
    run = list(range(1, 71))
    written = encode_table([*run, 93], "rice", 0)
    assert written.rice_bits == 0
    assert written.payload == bits("01" * 70 + "0" * 23 + "1")
    whole = encode_table([*run, 94], "rice", 0)
    assert whole.payload == bits("01" * 70 + "0" * 24 + "00011" + "0" * 59)


def test_raw_is_the_keys_themselves() -> None:
    table = encode_table([1, LAST], "raw", 0)
    assert table.payload.tobytes() == b"\x01" + b"\x00" * 7 + b"\xff" * 8
    assert table.directory == directory_line(0, [128] * 12)


@pytest.mark.parametrize("codec", CODECS)
def test_no_key_is_no_bit(codec: str) -> None:
    table = encode_table([], codec, 4)
    assert table == PlainTable(codec, 4, bits(""), directory_line(0, [0] * 12) * 2, b"", (0,) * 65, 0)


@pytest.mark.parametrize("codec", ["gap", "xor"])
def test_one_key_has_the_code_word_0_and_the_bits_below_its_leading_one(codec: str) -> None:
    assert encode_table([LAST], codec, 0).payload == bits("0" + "1" * 63)
    assert encode_table([0], codec, 0).payload == bits("0")
    # In the last of 2 slots the delta is 2**63 - 1: symbol 63.
    assert encode_table([LAST], codec, 1).payload == bits("0" + "1" * 62)


def test_consecutive_keys_take_one_bit_each_and_a_slot_of_129_has_two_fences() -> None:
    # Every delta is 1: a lone symbol, and nothing below its leading one.
    table = encode_table(range(1, 130), "gap", 0)
    assert table.payload == bits("0" * 129)
    assert table.directory == directory_line(129, [0] * 12, large=1)
    fence = (128).to_bytes(8, "little") + bytes([0, 0, 0, 0, 0, 0, 128, 0])
    assert table.fences == fence + (129).to_bytes(8, "little") + bytes([128, 0, 0, 0, 0, 0, 1, 0])


def test_a_slot_of_128_keys_has_no_fence() -> None:
    table = encode_table(range(1, 129), "gap", 0)
    assert table.fences == b""
    assert table.directory == directory_line(0, [128] * 12)


def test_a_slot_of_85_raw_keys_is_a_block_and_of_86_is_large() -> None:
    # 85 * 64 = 5,440 bits and 86 * 64 = 5,504, on both sides of 5,461.
    assert encode_table(range(85), "raw", 0).directory == directory_line(0, [5440] * 12)
    table = encode_table(range(86), "raw", 0)
    assert table.directory == directory_line(5504, [0] * 12, large=1)
    assert table.fences == (85).to_bytes(8, "little") + (5504 << 48).to_bytes(8, "little")


def test_a_group_has_its_large_blocks_first_and_a_line_ends_with_its_last_slot() -> None:
    # 16 slots of raw keys: slot 0 has 1, slot 1 has 86 (large), slot 13 has 2.
    slot_1, slot_13 = 1 << 60, 13 << 60
    keys = [7, *range(slot_1, slot_1 + 86), slot_13, slot_13 + 1]
    table = encode_table(keys, "raw", 4)
    assert unpacked(64, 89, table.payload.tobytes()) == [*keys[1:87], 7, *keys[87:]]
    second = directory_line(87 * 64, [0] + [128] * 11)
    assert table.directory == directory_line(86 * 64, [64] * 12, large=2) + second
    assert table.fences == (slot_1 + 85).to_bytes(8, "little") + (5504 << 48).to_bytes(8, "little")


@pytest.mark.parametrize("codec", ["gap", "xor", "rice"])
def test_a_slot_of_100_keys_of_some_58_bits_has_one_fence(codec: str) -> None:
    keys = random_keys(100)
    table = encode_table(keys, codec, 0)
    assert len(table.payload) > 5461
    assert table.fences == keys[-1].to_bytes(8, "little") + (len(table.payload) << 48).to_bytes(8, "little")
    assert decode_table(table) == keys


@given(key_sets(), st.sampled_from(CODECS), st.integers(0, 7))
def test_a_table_decodes_to_the_keys_it_was_made_of(keys: list[int], codec: str, slot_bits: int) -> None:
    assert decode_table(encode_table(keys, codec, slot_bits)) == keys


@pytest.mark.parametrize("codec", CODECS)
def test_a_thousand_keys_in_one_slot_come_back_from_their_eight_blocks(codec: str) -> None:
    keys = random_keys(1000)
    table = encode_table(keys, codec, 0)
    assert len(table.fences) == 8 * 16
    assert decode_table(table) == keys


def test_rice_bits_are_the_logarithm_of_the_mean_times_ln_2_rounded_down() -> None:
    # ln 2 times 1, 3, 5, 6 and 2**64 - 1 is 0.69, 2.08, 3.47, 4.16 and 1.39 * 2**63; 9, 7, 2 have mean 6.
    assert [choose_rice_bits([mean]) for mean in (0, 1, 3, 5, 6, LAST)] == [0, 0, 1, 1, 2, 63]
    assert choose_rice_bits([9, 7, 2]) == 2
    assert choose_rice_bits([]) == 0


def test_packed_fields_are_lowest_bit_first() -> None:
    # 5, 1, 7, 0 in 3 bits: 101 001 111 000 from the low end is 000 111 001 101 = 0x1cd.
    assert packed(3, [5, 1, 7, 0]) == bytes([0xCD, 0x01])
    assert packed(0, [0, 0, 0]) == b""


@given(st.integers(0, 64), st.data())
def test_unpacked_returns_what_was_packed(width: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, (1 << width) - 1), max_size=20))
    assert unpacked(width, len(values), packed(width, values)) == values


def test_a_permutation_moves_its_prefix_to_the_top() -> None:
    assert permute(0x0123456789ABCDEF, 0x000000000000FFFF) == 0xCDEF0123456789AB
    assert permute(0x0123456789ABCDEF, 0xF0000000F0000000) == 0x0812345679ABCDEF
    assert permute(LAST >> 1, 1 << 63) == LAST >> 1
    assert permute(0x0123456789ABCDEF, 0) == permute(0x0123456789ABCDEF, LAST) == 0x0123456789ABCDEF


@given(KEY, KEY)
def test_unpermute_undoes_permute(fingerprint: int, prefix_mask: int) -> None:
    assert unpermute(permute(fingerprint, prefix_mask), prefix_mask) == fingerprint


def test_crc32c_has_the_published_check_values() -> None:
    # RFC 3720, B.4, and the check value of the CRC catalogues.
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"") == 0


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_crc32c_goes_on_from_the_value_so_far(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
