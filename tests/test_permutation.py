"""A permutation moves the bits that docs/format.md says, and back."""

import numpy as np
import plain_codec
import pytest
from helpers import LAST, fingerprint_array
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore._codec import BitPermutation
from fpstore.plans.permutation import Permutation

KEY = st.integers(0, LAST)
MASK = st.one_of(
    KEY,
    st.sampled_from([0, LAST, 1, 1 << 63, LAST >> 1, LAST - 1, 0xFFFF_0000_FFFF_0000]),
    st.integers(0, 64).map(lambda bits: LAST & ~(LAST >> bits)),
)


@settings(max_examples=300, deadline=None)
@given(MASK, st.lists(KEY, max_size=8))
def test_keys_are_those_of_the_plain_twin(mask: int, fingerprints: list[int]) -> None:
    permutation = Permutation(mask)
    expected = [plain_codec.permute(fingerprint, mask) for fingerprint in fingerprints]
    assert permutation.apply(fingerprint_array(fingerprints)).tolist() == expected
    assert permutation.invert(fingerprint_array(expected)).tolist() == fingerprints


@settings(max_examples=100, deadline=None)
@given(MASK, st.integers(0, 2**32 - 1))
def test_invert_undoes_apply_and_apply_undoes_invert(mask: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1 << 64, 100, dtype=np.uint64)
    permutation = Permutation(mask)
    assert np.array_equal(permutation.invert(permutation.apply(values)), values)
    assert np.array_equal(permutation.apply(permutation.invert(values)), values)


def test_an_array_may_be_permuted_in_place() -> None:
    permutation = Permutation(0xFF)
    values = fingerprint_array([0x0123_4567_89AB_CDEF, LAST])
    assert permutation.apply(values, out=values) is values
    assert values.tolist() == [0xEF01_2345_6789_ABCD, LAST]
    assert permutation.invert(values, out=values) is values
    assert values.tolist() == [0x0123_4567_89AB_CDEF, LAST]


def test_no_fingerprints_have_no_keys() -> None:
    empty = fingerprint_array([])
    assert len(Permutation(3).apply(empty)) == len(Permutation(3).invert(empty)) == 0


@pytest.mark.parametrize("mask", [-1, 1 << 64])
def test_a_mask_of_more_than_64_bits_is_refused(mask: int) -> None:
    with pytest.raises(ValueError, match=r"prefix mask: found -?0x[0-9a-f]+, expected 64 bits"):
        Permutation(mask)


@pytest.mark.parametrize("method", ["apply", "invert"])
def test_arrays_of_two_lengths_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match=r"2 (fingerprints|keys), room for 3 (keys|fingerprints)"):
        getattr(BitPermutation(1), method)(fingerprint_array([1, 2]), fingerprint_array([1, 2, 3]))


@pytest.mark.parametrize(
    ("mask", "is_identity"),
    [(0, True), (LAST, True), (1 << 63, True), (0xFFFF << 48, True), (1, False), (0xFFFF << 47, False)],
)
def test_a_permutation_is_the_identity_when_its_bits_are_on_top_already(mask: int, is_identity: bool) -> None:
    permutation = Permutation(mask)
    assert permutation.is_identity == is_identity
    assert permutation.prefix_bits == bin(mask).count("1")
    moved = [1 << bit for bit in range(64) if plain_codec.permute(1 << bit, mask) != 1 << bit]
    assert (not moved) == is_identity
