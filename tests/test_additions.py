"""Whether a fingerprint is near one that came before it: the rule, its ties, and pieces of a batch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from living import writer_of

import fpstore
from fpstore.query.additions import NEW, Additions, concatenate, decide, in_turn
from fpstore.query.matches import Matches
from fpstore.types import Array, Counts, Ids, Keys

K = 3
Row = tuple[int, int | None]
# Of a fingerprint and an id: the distance to it, the fingerprint and the id; None where it was stored.
Found = tuple[int, int, int | None] | None


def u64(values: object) -> Keys:
    return np.array(values, dtype=np.uint64)


def matches_of(keys: Sequence[int], known: Sequence[Row], k: int = K) -> Matches:
    """What a probe finds among known for each of keys."""
    rows = [
        (query, (key ^ other).bit_count(), other, number)
        for query, key in enumerate(keys)
        for other, number in sorted(known, key=lambda row: (row[0], row[1] or 0))
        if (key ^ other).bit_count() <= k
    ]
    rows.sort(key=lambda row: row[:3])  # and ids in their order, as sorting is stable
    query: Counts = np.array([row[0] for row in rows], dtype=np.int64)
    ids = None if any(number is None for _, number in known) else u64([row[3] for row in rows])
    return Matches(query, u64([row[2] for row in rows]), np.array([row[1] for row in rows], dtype=np.uint16), ids)


def rows_of(found: Additions) -> list[Found]:
    matches = [addition.match for addition in found]
    return [None if match is None else (match.distance, match.fingerprint, match.id) for match in matches]


def by_the_rule(rows: Sequence[Row], known: Sequence[Row], k: int = K) -> list[Found]:
    """One after the other: the least of distance, fingerprint and id among those stored before."""
    stored, found = list(known), []
    for key, number in rows:
        near = [((key ^ other).bit_count(), other, other_number) for other, other_number in stored]
        best = min((one for one in near if one[0] <= k), key=lambda one: (*one[:2], one[2] or 0), default=None)
        if best is None:
            stored.append((key, number))
        found.append(best)
    return found


def decided(rows: Sequence[Row], known: Sequence[Row] = (), k: int = K) -> list[Found]:
    keys = [key for key, _ in rows]
    ids = None if any(number is None for _, number in rows) else u64([number for _, number in rows])
    matches = matches_of(keys, known, k)
    if ids is None:
        matches = Matches(matches.query, matches.fingerprint, matches.distance, None)
    return rows_of(decide(u64(keys), ids, matches, k))


few = st.builds(lambda far, bits: far << 40 | bits, st.integers(0, 1), st.integers(0, 31))
rows_with_ids = st.lists(st.tuples(few, st.integers(0, 5)), max_size=14)


@pytest.mark.slow
@given(rows_with_ids, rows_with_ids, st.integers(0, 3))
def test_a_piece_is_decided_by_the_rule(rows: list[Row], known: list[Row], k: int) -> None:
    assert decided(rows, sorted(set(known)), k) == by_the_rule(rows, known, k)


@given(st.lists(few, max_size=14), st.sets(few, max_size=8))
def test_without_ids_the_rule_is_the_same(keys: list[int], known: set[int]) -> None:
    rows, stored = [(key, None) for key in keys], [(key, None) for key in known]
    assert decided(rows, stored) == by_the_rule(rows, stored)


# --- Ties: 1 and 2 are as far from 3, 1 << 10 and so on are far apart where k is 1 ---


def test_of_several_at_one_distance_the_least_fingerprint_is_the_match() -> None:
    assert decided([(3, 9)], [(2, 1), (1, 8)], k=1) == [(1, 1, 8)]
    assert decided([(2, 1), (1, 8), (3, 9)], k=1) == [None, None, (1, 1, 8)]
    assert decided([(2, 1), (3, 9)], [(1, 8)], k=1) == [None, (1, 1, 8)]
    assert decided([(1, 8), (3, 9)], [(2, 1)], k=1) == [None, (1, 1, 8)]


def test_of_several_ids_of_one_fingerprint_the_least_is_the_match() -> None:
    assert decided([(1, 9)], [(1, 7), (1, 4)]) == [(0, 1, 4)]
    assert decided([(1, 4), (1, 9)], [(1, 7)], k=0) == [(0, 1, 7), (0, 1, 7)]
    # One that was not stored has an id that is less, and is not there.
    assert decided([(5, 7), (5, 1), (5, 9)], k=0) == [None, (0, 5, 7), (0, 5, 7)]


def test_a_nearer_one_is_the_match_wherever_it_stands() -> None:
    assert decided([(7, 1), (6, 2)], [(4, 9)], k=1) == [None, (1, 4, 9)]
    assert decided([(0b1111, 1), (0b0011, 2), (0b0111, 3)], k=1) == [None, None, (1, 0b0011, 2)]
    assert decided([(0b111, 1), (0b011, 3)], [(0b1000, 5)]) == [None, (1, 0b111, 1)]


def test_one_that_was_not_stored_is_nothing_to_be_near() -> None:
    # Each is within 3 of the one before, and the third is 4 from the first.
    chain = [(0b0, 1), (0b11, 2), (0b1111, 3), (0b111111, 4), (0b11111111, 5)]
    assert decided(chain) == [None, (2, 0, 1), None, (2, 0b1111, 3), None]
    # Nor where it was turned away because of what was there before the piece.
    assert decided([(0b11, 2), (0b11111, 3)], [(0, 1)]) == [(2, 0, 1), None]


@pytest.mark.parametrize("count", [0, 1])
def test_none_and_one_are_pieces_too(count: int) -> None:
    keys = u64([5] * count)
    nothing = Matches(np.empty(0, dtype=np.int64), u64([]), np.empty(0, dtype=np.uint16), u64([]))
    found = decide(keys, keys, nothing, K)
    assert found.stored.tolist() == [True] * count
    assert found.match_id is not None
    columns: list[Array] = [found.match_fingerprint, found.match_distance, found.match_id]
    assert [len(column) for column in columns] == [count] * 3
    assert decide(keys, None, nothing, K).match_id is None


# --- The rows that are handed to the caller ---


def test_candidates_come_from_the_nearest_on_and_ties_in_the_order_that_was_given() -> None:
    asked: list[tuple[int, list[int]]] = []

    def choose(index: int, near: Sequence[int]) -> int:
        asked.append((index, list(near)))
        return near[-1] if near else NEW

    query, bits = np.array([2, 2], dtype=np.int64), np.array([1, 1], dtype=np.uint16)
    # Rows 0 and 1 came before; 2, 3 and 4 are the keys.
    rows, distances = in_turn(u64([0b01, 0b10, 0b11]), 1, query, bits, [u64([7, 9, 8, 6, 0])], choose)
    assert asked == [(2, [3, 0, 2, 1])]
    assert (rows.tolist(), distances.tolist()) == ([NEW, NEW, 1], [0, 0, 1])
    rows, _ = in_turn(u64([0b01, 0b10, 0b11]), 1, query, bits, [u64([7, 9, 8, 6, 0])])
    assert rows.tolist() == [NEW, NEW, 3]


def test_where_the_ties_are_equal_the_earlier_is_nearer() -> None:
    query, bits = np.array([2], dtype=np.int64), np.array([1], dtype=np.uint16)
    for ties in ([], [u64([5, 5, 5, 5])]):
        rows, _ = in_turn(u64([0b10, 0b01, 0b11]), 1, query, bits, ties)
        assert rows.tolist() == [NEW, NEW, 0]
        rows, _ = in_turn(u64([0b10, 0b01, 0b11]), 1, query[:0], bits[:0], [tie[1:] for tie in ties])
        assert rows.tolist() == [NEW, NEW, 0]


def test_who_refuses_every_candidate_is_there_for_those_after_it() -> None:
    asked: list[list[int]] = []

    def refuse(index: int, near: Sequence[int]) -> int:
        asked.append(list(near))
        return NEW

    no_query, no_bits = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)
    rows, _ = in_turn(u64([5, 5, 5]), 0, no_query, no_bits, [], refuse)
    assert (rows.tolist(), asked) == ([NEW] * 3, [[0], [0, 1]])


# --- Batches of several pieces, in a store ---


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_batch_over_several_pieces_is_decided_as_one(tmp_path: Path, with_ids: bool) -> None:
    rng = np.random.default_rng(1)
    centers = rng.integers(0, 1 << 63, 60, dtype=np.uint64)
    keys = centers[rng.integers(0, 60, 700)]
    for _ in range(3):
        keys = keys ^ (np.uint64(1) << rng.integers(0, 64, 700, dtype=np.uint64))
    ids: Ids = rng.permutation(700).astype(np.uint64)
    known: list[Row] = [(int(key), 10_000 + i if with_ids else None) for i, key in enumerate(centers[:20].tolist())]
    rows = list(zip(keys.tolist(), ids.tolist() if with_ids else [None] * 700, strict=True))
    fpstore.create(tmp_path / "s", id_type="uint64" if with_ids else None, plan="paper-4").close()
    with writer_of(tmp_path / "s", piece_rows=256) as store:
        store.add(centers[:20], ids=u64([number for _, number in known]) if with_ids else None)
        found = store.add_if_new(keys, ids=ids if with_ids else None)
    assert rows_of(found) == by_the_rule(rows, known)


def test_a_chain_across_pieces_is_not_shadowed_by_what_was_not_stored(tmp_path: Path) -> None:
    # Row 255 is near row 0, so it is not stored, and row 256, near row 255 only, is.
    filler = [(1 << 20 | i) << 24 for i in range(0, 254 << 8, 1 << 8)]
    far = [int(key) for key in np.random.default_rng(2).integers(1 << 40, 1 << 63, len(filler), dtype=np.uint64)]
    keys = [0b0, *far, 0b111, 0b111111]
    fpstore.create(tmp_path / "s", id_type=None, plan="paper-4").close()
    with writer_of(tmp_path / "s", piece_rows=256) as store:
        found = store.add_if_new(keys)
    assert len(keys) == 257
    assert list(found)[-2:] == [(False, (255, 0, 3, None)), (True, None)]


def test_parts_of_a_batch_follow_one_another() -> None:
    one = Additions(np.array([True]), u64([0]), np.zeros(1, dtype=np.uint16), u64([0]))
    other = Additions(np.array([False]), u64([7]), np.ones(1, dtype=np.uint16), u64([9]))
    assert concatenate([one], True) is one
    both = concatenate([one, other], True)
    assert list(both) == [(True, None), (False, (1, 7, 1, 9))]
    empty: Array = concatenate([], True).stored
    assert (len(empty), concatenate([], False).match_id) == (0, None)
