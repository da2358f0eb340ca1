"""Documents in memory by the keys of their bands, against a plain loop over all of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_bands import differing

from fpstore import _band_index
from fpstore._band_index import BandIndex
from fpstore.sketches.kept import WIDTHS
from fpstore.types import Array

# Near one another by chance where low bits, or high ones, decided about slots.
VALUES = [0, 1, 2, 5, 2**22, 2**40, 2**63, 2**64 - 1]
WORDS = [0, 1, 3, 2**63, 2**64 - 1, 0x0F0F]


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[Array, Array]]:
    """Some documents at a time, of few keys, which lie apart from band to band."""
    bands, words = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    found = []
    for count in draw(st.lists(st.integers(0, 30), min_size=1, max_size=4)):
        keys = draw(st.lists(st.sampled_from(VALUES), min_size=count * bands, max_size=count * bands))
        sketches = draw(st.lists(st.sampled_from(WORDS), min_size=count * words, max_size=count * words))
        found.append(
            (np.array(keys, np.uint64).reshape(count, bands), np.array(sketches, np.uint64).reshape(count, words))
        )
    return found


@given(batches(), st.sampled_from(WIDTHS), st.integers(1, 70), st.integers(0, 70), st.integers(0, 5), st.integers(0, 9))
def test_what_is_near_is_what_a_plain_loop_finds(
    given_batches: list[tuple[Array, Array]], width: int, far: int, most: int, limit: int, most_rows: int
) -> None:
    index = BandIndex(given_batches[0][0].shape[1], given_batches[0][1].shape[1], width, far)
    held: list[tuple[list[int], list[int]]] = []
    for keys, sketches in given_batches:
        answered, queries, rows, apart_in = index.near(keys, sketches, limit, most, most_rows)
        found = list(zip(queries.tolist(), rows.tolist(), apart_in.tolist(), strict=True))
        expected: list[tuple[int, int, int]] = []
        own = list(zip(keys.tolist(), sketches.tolist(), strict=True))
        for query, (one, sketch) in enumerate(own[:answered]):
            near = sorted(
                (differing(sketch, other_sketch, width, far), row)
                for row, (other, other_sketch) in enumerate(held)
                if any(a == b for a, b in zip(one, other, strict=True))
            )
            near = [each for each in near if each[0] <= most]
            expected += [(query, row, apart) for at, (apart, row) in enumerate(near) if at < limit or apart == 0]
        assert found == expected
        assert answered == len(own) or (answered >= 1 and len(found) <= max(most_rows, len(held)))
        if answered < len(own):
            assert len(index.near(keys[: answered + 1], sketches[: answered + 1], limit, most, 1 << 40)[1]) > most_rows
        index.add(keys, sketches)
        held += own
        assert len(index) == len(held)


def test_tables_grow_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 1 << 63, (5000, 3), dtype=np.uint64)
    keys[1::2, 0] = keys[::2, 0]  # each shares a band with one other
    sketches = np.arange(5000, dtype=np.uint64)[:, None]
    index = BandIndex(3, 1, 1, 64)
    for at in range(0, 5000, 1700):  # more than are looked up together
        index.add(keys[at : at + 1700], sketches[at : at + 1700])
    answered, query, row, _ = index.near(keys, sketches, 9, 64, 1 << 40)
    assert answered == 5000
    pairs = {*zip(query.tolist(), row.tolist(), strict=True)}
    assert pairs == {(i, j) for i in range(5000) for j in (i, i ^ 1)}


def test_a_row_takes_what_is_said() -> None:
    """With 16 bands and 32 bytes of a sketch, of keys that are all different."""
    rng = np.random.default_rng(4)
    index = BandIndex(16, 4, 2, 96)
    for _ in range(20):
        keys = rng.integers(0, 1 << 63, (1000, 16), dtype=np.uint64)
        index.add(keys, np.zeros((1000, 4), dtype=np.uint64))
    assert index.nbytes <= 310 * len(index)


def test_many_of_one_bucket_come_from_the_first_on() -> None:
    keys = np.zeros((1000, 2), dtype=np.uint64)
    sketches = np.full((1000, 1), 1, dtype=np.uint64)
    sketches[[3, 900]] = 0
    index = BandIndex(2, 1, 1, 64)
    index.add(keys, sketches)
    _, _, row, apart = index.near(keys[:1], np.zeros((1, 1), dtype=np.uint64), 5, 64, 1)
    assert (row.tolist(), apart.tolist()) == ([3, 900, 0, 1, 2], [0, 0, 1, 1, 1])
    _, _, row, _ = index.near(keys[:1], np.zeros((1, 1), dtype=np.uint64), 1, 64, 1)
    assert row.tolist() == [3, 900]


def test_more_rows_than_a_slot_can_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _band_index.MOST_ROWS == 2**22 - 1
    index = BandIndex(1, 1, 1, 1)
    rows = np.zeros((2**22 - 2, 1), dtype=np.uint64)
    index.add(rows, rows)
    with pytest.raises(ValueError, match="found 4194302 and 2 rows, expected at most 4194303"):
        index.add(rows[:2], rows[:2])
    index.add(rows[:1], rows[:1])
    assert len(index) == 2**22 - 1


REFUSED: dict[str, tuple[tuple[int, int, int, int], str]] = {
    "no band": ((0, 1, 1, 1), "found 0 bands and 1 words, expected 1 or more"),
    "no word": ((1, 0, 1, 1), "found 1 bands and 0 words, expected 1 or more"),
    "width": ((1, 1, 3, 1), "width: found 3 bits of a value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    given_shape, told = REFUSED[name]
    with pytest.raises(ValueError, match=told):
        BandIndex(*given_shape)


def test_arrays_that_do_not_fit_are_refused() -> None:
    index, keys, sketches = BandIndex(2, 1, 1, 64), np.zeros((3, 2), np.uint64), np.zeros((3, 1), np.uint64)
    calls: list[Any] = [index.add, lambda one, other: index.near(one, other, 1, 1, 1)]
    for call in calls:
        for wrong in ((keys[:2], sketches), (keys[:, :1].copy(), sketches), (keys, np.zeros((3, 2), np.uint64))):
            with pytest.raises(ValueError, match="expected as many, of 2 keys and 1 words"):
                call(*wrong)
    with pytest.raises(ValueError, match="at most -1 values and 1 rows"):
        index.near(keys, sketches, 1, -1, 1)
