"""Documents of a piece that share bands, decided in turn, against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_bands import differing

from fpstore._turns import ASK, DONE, NEW, Bands, Turns
from fpstore.sketches.kept import WIDTHS, Kept
from fpstore.types import Array

NONE, NO_BITS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)


@st.composite
def documents(draw: st.DrawFn) -> tuple[Array, Array]:
    """Keys of few values, and sketches of which many are equal."""
    count, bands, words = draw(st.integers(0, 20)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    keys = draw(st.lists(st.integers(0, 5), min_size=count * bands, max_size=count * bands))
    some = st.sampled_from([0, 1, 3, 2**63, 2**64 - 1, 0x0F0F])
    sketches = draw(st.lists(some, min_size=count * words, max_size=count * words))
    own = np.array(keys, dtype=np.uint64).reshape(count, bands) + np.arange(bands, dtype=np.uint64) * np.uint64(10)
    return own, np.array(sketches, dtype=np.uint64).reshape(count, words)


@given(documents(), st.sampled_from(WIDTHS), st.integers(1, 70), st.integers(0, 70), st.booleans())
def test_each_goes_to_the_leader_that_shares_a_band_and_differs_least(
    given_documents: tuple[Array, Array], width: int, far: int, most: int, asks: bool
) -> None:
    keys, sketches = given_documents
    count, plain_keys, plain = len(keys), keys.tolist(), sketches.tolist()
    bands = Bands(keys, sketches, width, far, most)
    turns = Turns(bands, 0, NONE, NO_BITS, [], asks)
    assert len(bands) == count
    near_any = [any({*a} & {*b} for j, b in enumerate(plain_keys) if i != j) for i, a in enumerate(plain_keys)]
    assert turns.is_near.tolist() == near_any
    leaders: list[int] = []
    while (stop := turns.run()) == ASK:
        assert len({*turns.near}) == len(turns.near)
        turns.answer(turns.near[-1] if turns.at % 3 else NEW)
    assert stop == DONE
    for i in range(count):
        apart = [(differing(plain[i], plain[j], width, far), j) for j in leaders if {*plain_keys[i]} & {*plain_keys[j]}]
        near = sorted(each for each in apart if each[0] <= most)
        expected = NEW if not near or (asks and not i % 3) else near[-1 if asks else 0][1]
        assert turns.rows[i] == expected
        if expected == NEW:
            leaders.append(i)
    every = np.arange(count)
    found = bands.distances(every, every[::-1].copy()).tolist()
    assert found == [differing(one, other, width, far) for one, other in zip(plain, plain[::-1], strict=True)]


def test_rows_that_were_found_before_come_in_between() -> None:
    """By how many values differ, then by the tie."""
    keys, sketches = np.array([[1], [1]], dtype=np.uint64), np.array([[0b111], [0b000]], dtype=np.uint64)
    query, bits = np.array([1, 1], dtype=np.int64), np.array([1, 3], dtype=np.uint16)
    ids = np.array([7, 9, 8, 8], dtype=np.uint64)
    turns = Turns(Bands(keys, sketches, 1, 64, 64), 0, query, bits, [ids], True)
    assert turns.run() == ASK
    assert (turns.at, turns.near) == (1, [0, 2, 1])


@pytest.mark.parametrize("width", WIDTHS)
def test_an_estimate_says_how_many_values_differ(width: int) -> None:
    kept = Kept(70, width)
    rng = np.random.default_rng(width)
    signatures = rng.integers(0, 1 << 32, (40, 70), dtype=np.uint32)
    signatures[rng.random(signatures.shape) < 0.7] = 5
    sketches = kept.sketches(signatures)
    one, other = np.indices((40, 40)).reshape(2, -1)
    keys = np.zeros((40, 1), dtype=np.uint64)
    counted = Bands(keys, sketches, width, kept.farthest, 70).distances(one, other)
    similarity = kept.similarity(sketches[one], sketches[other])
    assert kept.differing(similarity).tolist() == counted.tolist()
    assert (kept.estimates[counted] == similarity).all()
    for least in (0.0, 0.3, 0.5, 1.0, None):
        near = counted <= kept.most_differing(least)
        assert (near == (similarity >= (0.0 if least is None else least))).all()


def test_what_does_not_go_together_is_refused() -> None:
    keys, sketches = np.zeros((3, 2), dtype=np.uint64), np.zeros((3, 1), dtype=np.uint64)
    for wrong in ((keys[:2], sketches), (keys[:, :0].copy(), sketches), (keys, sketches[:, :0].copy())):
        with pytest.raises(ValueError, match=r"sketches of . words for . documents in . bands, expected one of each"):
            Bands(wrong[0], wrong[1], 1, 64, 64)
    with pytest.raises(ValueError, match="width: found 3 bits of a value, expected 1, 2, 4, 8, 16 or 32"):
        Bands(keys, sketches, 3, 64, 64)
    with pytest.raises(ValueError, match="found 6 keys, and -1 values that may differ"):
        Bands(keys, sketches, 1, 64, -1)
    bands, row = Bands(keys, sketches, 1, 64, 64), np.zeros(1, dtype=np.int64)
    for one, other in ((3, 0), (0, 3), (-1, 0), (0, -1)):
        with pytest.raises(ValueError, match=f"found documents {one} and {other}, expected some of 3"):
            bands.distances(row + one, row + other)
