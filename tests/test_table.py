"""A table is encoded with the code that its keys call for, and says what the other codes would cost."""

import numpy as np
import plain_codec
import pytest
from helpers import CODECS, LAST, ArrayKeys, coded_table, fingerprint_array, key_sets
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore.segment.table import CodecCost, codec_costs, encode_table, leading_bit_histogram, rice_bits_for


def keys_from(values: list[int], chunk_keys: int = 100) -> ArrayKeys:
    return ArrayKeys(fingerprint_array(values), chunk_keys)


def payload_bits(keys: list[int], codec: str, slot_bits: int) -> int:
    return coded_table(keys, codec, slot_bits).table.payload_bits


@settings(max_examples=80, deadline=None)
@given(key_sets(), st.sampled_from([0, 3, 9]))
def test_the_costs_are_the_payload_bits_that_each_codec_takes(keys: list[int], slot_bits: int) -> None:
    expected = [CodecCost(codec, payload_bits(keys, codec, slot_bits)) for codec in CODECS]
    assert list(codec_costs(keys_from(keys), slot_bits)) == expected


def test_the_costs_of_no_keys_are_zero() -> None:
    assert [cost.bits for cost in codec_costs(keys_from([]))] == [0, 0, 0, 0]


@settings(max_examples=50, deadline=None)
@given(key_sets(), st.sampled_from(["gap", "xor"]), st.sampled_from([0, 3, 9]))
def test_the_histogram_counts_the_bit_lengths_of_the_deltas(keys: list[int], codec: str, slot_bits: int) -> None:
    slots = enumerate(plain_codec.split_slots(keys, slot_bits))
    deltas = [plain_codec.slot_deltas(slot, codec, slot_bits, slot_keys) for slot, slot_keys in slots]
    histogram = leading_bit_histogram(keys_from(keys), codec, slot_bits)
    assert histogram.dtype == np.int64
    assert histogram.tolist() == plain_codec.symbol_counts(deltas)


def test_the_histogram_of_rice_and_raw_is_that_of_gaps() -> None:
    keys = keys_from([3, 10, LAST])
    for codec in ("rice", "raw"):
        assert leading_bit_histogram(keys, codec, 0).tolist() == leading_bit_histogram(keys, "gap", 0).tolist()


def test_the_rice_parameter_is_the_logarithm_of_the_mean_gap_times_ln_2() -> None:
    # 10 gaps of 100: 69.3, so 6. 10 gaps of 1: 0.69, so 0. No gap: 0.
    assert rice_bits_for(1000, 10) == 6
    assert rice_bits_for(10, 10) == 0
    assert rice_bits_for(0, 0) == 0
    assert rice_bits_for(LAST, 1) == 63


@pytest.mark.parametrize("codec", CODECS)
def test_only_huffman_codecs_have_code_lengths_and_only_rice_a_parameter(codec: str) -> None:
    table = coded_table([1000 * i for i in range(1, 50)], codec, 0).table
    assert table.codec == CODECS.index(codec)
    assert any(table.code_lengths) == (codec in ("gap", "xor"))
    assert (table.rice_bits > 0) == (codec == "rice")


def test_progress_comes_to_twice_the_keys() -> None:
    done: list[int] = []
    encode_table(keys_from(list(range(250))), "gap", 2, lambda data: None, advance=done.append)
    assert done == [100, 100, 50, 100, 100, 50]


def test_ranks_are_made_on_request_only() -> None:
    assert coded_table([1, 2], "gap", 1).table.ranks is None
    ranks = coded_table([1, 2, LAST], "gap", 1, with_ranks=True).table.ranks
    assert ranks is not None
    assert ranks.tolist() == [0, 2, 3]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keys", [[2, 1], [7, 7], [*range(100), 99]])
def test_keys_that_do_not_increase_are_refused(codec: str, keys: list[int]) -> None:
    with pytest.raises(ValueError, match="keys must be strictly increasing"):
        encode_table(keys_from(keys), codec, 0, lambda data: None)
    if codec == "gap":
        with pytest.raises(ValueError, match="keys must be strictly increasing"):
            codec_costs(keys_from(keys))


@pytest.mark.parametrize("codec", CODECS)
def test_the_same_keys_give_the_same_bytes(codec: str) -> None:
    keys = np.sort(np.random.default_rng(5).integers(0, 1 << 64, 2000, dtype=np.uint64))
    first, second = coded_table(keys, codec, 6), coded_table(keys.copy(), codec, 6, 77)
    assert first.payload == second.payload
    assert first.table.directory.tobytes() == second.table.directory.tobytes()


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="codec: found 'zip', expected one of gap, xor, rice, raw"):
        encode_table(ArrayKeys(np.empty(0, dtype=np.uint64)), "zip", 0, lambda data: None)
