"""Ids that rise, as the log keeps them: what is read back is what was written, and nothing else reads as it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.living import steps
from fpstore.types import Ids

TOP = 2**64 - 1


def rising(first: int, gaps: list[int]) -> Ids:
    """The first, and one after each gap, which is how many ids are missing."""
    ids = [first]
    for gap in gaps:
        ids.append(ids[-1] + gap + 1)
    return np.array(ids, dtype=np.uint64)


def plain(words: list[int], count: int) -> list[int]:
    """The slow twin: the steps are bits of one number."""
    first, bits = words[:2]
    all_bits = sum(word << 64 * index for index, word in enumerate(words[2:]))
    ids = [first]
    for index in range(count - 1):
        ids.append(ids[-1] + 1 + (all_bits >> index * bits & ((1 << bits) - 1)))
    return ids


@pytest.mark.parametrize(
    ("most", "bits"),
    [(0, 0), (1, 1), (2, 2), (3, 2), (4, 4), (15, 4), (16, 8), (255, 8), (256, 16), (65535, 16)],
)
def test_steps_have_as_many_bits_as_the_largest_needs(most: int, bits: int) -> None:
    ids = rising(7, [0] * 100 + [most] + [0] * 30)
    words = steps.packed(ids)
    assert words is not None
    assert words[:2].tolist() == [7, bits]
    assert len(words) == 2 + -(-131 * bits // 64)
    assert steps.unpacked(words, 132).tolist() == plain(words.tolist(), 132) == ids.tolist()


@given(st.integers(0, TOP - (1 << 25)), st.sampled_from(steps.STEP_BITS), st.integers(64, 300), st.integers(0, 1 << 32))
def test_ids_read_back_are_those_written(first: int, bits: int, count: int, seed: int) -> None:
    ids = rising(first, np.random.default_rng(seed).integers(0, 1 << bits, count - 1).tolist())
    words = steps.packed(ids)
    assert words is not None
    assert len(words) <= 2 + -(-(count - 1) * bits // 64)
    assert steps.unpacked(words, count).tolist() == plain(words.tolist(), count) == ids.tolist()


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [5],
        [*range(63)],
        [0, *range(99)],
        [*range(50), *range(10, 60)],
        [*range(99), 98],
        [*range(99, -1, -1)],
        [5] * 70,
        [*range(99), 98 + 65537],
        [TOP, *range(99)],
        [0, TOP, *range(2, 100)],
        [*range(0, 100 << 40, 1 << 40)],
    ],
    ids=len,
)
def test_ids_that_do_not_rise_or_are_few_or_far_apart_are_not_kept_so(ids: list[int]) -> None:
    assert steps.packed(np.array(ids, dtype=np.uint64)) is None


def test_the_largest_ids_can_be_kept() -> None:
    ids = np.arange(TOP - 99, TOP + 1, dtype=np.uint64)
    words = steps.packed(ids)
    assert words is not None
    assert steps.unpacked(words, 100).tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("words", "count", "found"),
    [
        ([], 1, "0 words, -1 bits each"),
        ([5], 1, "1 words, -1 bits each"),
        ([5, 0], 0, "2 words, 0 bits each"),
        ([5, 3, 0], 5, "3 words, 3 bits each"),
        ([5, 32, 0], 3, "3 words, 32 bits each"),
        ([5, 0, 0], 5, "3 words, 0 bits each"),
        ([5, 1], 5, "2 words, 1 bits each"),
        ([5, 1, 0], 66, "3 words, 1 bits each"),
        ([TOP - 3, 0], 5, "ids up to 0, from 18446744073709551612 on"),
        ([TOP - 3, 1, 4], 4, "ids up to 0, from 18446744073709551612 on"),
    ],
)
def test_words_that_are_no_ids_are_refused(words: list[int], count: int, found: str) -> None:
    with pytest.raises(ValueError, match=f"{count} rising ids: found {found}"):
        steps.unpacked(np.array(words, dtype=np.uint64), count)
