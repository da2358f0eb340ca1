"""The way through a piece in C does what a plain loop does, whatever it is told and whenever."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import fingerprint_array as u64
from hypothesis import given
from hypothesis import strategies as st

from fpstore._turns import ASK, DONE, NEED, NEW, Earlier, Turns
from fpstore.query import leaders
from fpstore.query.additions import distances_to, in_turn
from fpstore.query.key_memory import KeyMemory
from fpstore.query.leaders import Leaders
from fpstore.text import DEFAULT_RECIPE, recipes
from fpstore.text.confirm import Checker, Confirm
from fpstore.text.held import Features, HashesPart, Held, HeldHashes, KeptHashes, Room, Sets

BITS = 5  # so few that many are near each other


class Piece(NamedTuple):
    """Rows that came before, and keys; the second tie of both; which rows each key is near of the former."""

    before: list[int]
    keys: list[int]
    ids: list[int]
    distance: int

    def bits(self, key: int, row: int) -> int:
        return ((self.before + self.keys)[row] ^ self.keys[key]).bit_count()

    def nearest_first(self, key: int, rows: Sequence[int]) -> list[int]:
        every = self.before + self.keys
        near = [row for row in rows if self.bits(key, row) <= self.distance]
        return sorted(near, key=lambda row: (self.bits(key, row), every[row], self.ids[row], row))

    @property
    def found(self) -> list[tuple[int, int]]:
        """The matches of the keys among the rows before: the key and the row."""
        every = range(len(self.before))
        return [(key, row) for key in range(len(self.keys)) for row in self.nearest_first(key, every)]

    def turns(self, *, asks: bool = False) -> Turns:
        rows = [row for _, row in self.found]
        bits = np.array([self.bits(*each) for each in self.found], dtype=np.uint16)
        fingerprints = u64([self.before[row] for row in rows] + self.keys)
        ids = u64([self.ids[row] for row in rows] + self.ids[len(self.before) :])
        query = np.array([key for key, _ in self.found], dtype=np.int64)
        return Turns(u64(self.keys), self.distance, query, bits, [fingerprints, ids], asks)

    def plain_row(self, row: int) -> int:
        """The row of this piece that a row of its Turns is."""
        return self.found[row][1] if row < len(self.found) else row - len(self.found) + len(self.before)


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    some = st.lists(st.integers(0, 2**BITS - 1), max_size=24)
    before, keys = draw(some), draw(some)
    ids = st.integers(0, 2)
    many = len(before) + len(keys)
    return Piece(before, keys, draw(st.lists(ids, min_size=many, max_size=many)), draw(st.integers(0, 3)))


@given(pieces())
def test_each_goes_to_the_nearest_that_is_near_nothing(piece: Piece) -> None:
    turns, expected, leaders = piece.turns(), list[int](), list(range(len(piece.before)))
    for key in range(len(piece.keys)):
        near = piece.nearest_first(key, leaders)
        expected.append(near[0] if near else NEW)
        if not near:
            leaders.append(len(piece.before) + key)
    assert turns.run() == DONE
    assert [row if row == NEW else piece.plain_row(row) for row in turns.rows.tolist()] == expected


@given(pieces(), st.data())
def test_who_is_asked_is_given_all_near_ones_in_their_order(piece: Piece, data: st.DataObject) -> None:
    turns, leaders = piece.turns(asks=True), list(range(len(piece.before)))
    asked: dict[int, int] = {}
    while turns.run() == ASK:
        key, near = turns.at, turns.near
        for other in range(key):
            if other not in asked:
                assert piece.nearest_first(other, leaders) == []
                leaders.append(len(piece.before) + other)
                asked[other] = NEW
        assert [piece.plain_row(row) for row in near] == piece.nearest_first(key, leaders)
        assert [turns.nearest(count) for count in range(4)] == [near[:count] for count in range(4)]
        asked[key] = data.draw(st.sampled_from([NEW, *near]))
        if asked[key] == NEW:
            leaders.append(len(piece.before) + key)
        turns.answer(asked[key])
    assert {key: turns.rows[key] for key in asked} == asked


@given(pieces(), st.data())
def test_the_first_that_is_alike_is_taken_as_a_plain_loop_takes_it(piece: Piece, data: st.DataObject) -> None:
    """Features of some rows are told at once, of others when they are asked for; some say nothing, some are listed."""
    many = len(piece.before) + len(piece.keys)
    some = st.sets(st.integers(0, 6), max_size=5)
    features = data.draw(st.lists(some, min_size=many, max_size=many))
    silent = [not each or data.draw(st.integers(0, 3)) == 0 for each in features]
    most = data.draw(st.integers(1, 4))
    part, whole = data.draw(st.sampled_from([(0, 1), (1, 3), (1, 2), (2, 3), (1, 1)]))
    turns, found = piece.turns(), piece.found
    turns.compare(most, part, whole)

    def give(rows: Sequence[int]) -> None:
        own = [sorted(features[piece.plain_row(row)]) for row in rows]
        listed = data.draw(st.booleans())
        if listed:
            own = [data.draw(st.permutations(each + each[: data.draw(st.integers(0, 2))])) for each in own]
        counts = np.array([len(each) for each in own], dtype=np.int64)
        hashes = u64([*chain(*own), 0])
        marks = np.array([silent[piece.plain_row(row)] for row in rows], dtype=np.uint8)
        turns.give(np.array(rows, dtype=np.int64), np.cumsum(counts) - counts, counts, hashes, marks, listed)

    give(list(range(len(found), len(found) + len(piece.keys))))
    give([row for row in range(len(found)) if data.draw(st.booleans())])
    if data.draw(st.booleans()):
        foreseen = turns.foresee()
        assert not turns.knows(foreseen).any()
        give(foreseen.tolist())
    leaders, refused, cut_short = list(range(len(piece.before))), 0, 0
    expected: list[tuple[int, float]] = []

    def decide(key: int) -> tuple[int, float] | None:
        """What becomes of a key; None where more has to be known."""
        nonlocal refused, cut_short
        own, near = len(piece.before) + key, piece.nearest_first(key, leaders)
        if not near:
            return NEW, np.nan
        if silent[own] or (len(near) > most and piece.bits(key, near[most]) == 0):
            return None
        for place, row in enumerate(near[:most]):
            common, both = len(features[own] & features[row]), len(features[own] | features[row])
            if common * whole >= part * both and not silent[row]:
                refused += place
                return row, common / both
        refused += min(most, len(near))
        cut_short += len(near) > most
        return NEW, np.nan

    def follow(end: int) -> None:
        while len(expected) < end:
            verdict = decide(len(expected))
            assert verdict is not None
            if verdict[0] == NEW:
                leaders.append(len(piece.before) + len(expected))
            expected.append(verdict)

    while (stop := turns.run()) != DONE:
        if stop == NEED:
            rows = np.array(turns.needed, dtype=np.int64)
            unknown = rows[~turns.knows(rows)]
            assert len(unknown) > 0
            give(unknown.tolist())
            continue
        follow(turns.at)
        assert decide(turns.at) is None
        answer = data.draw(st.sampled_from([NEW, turns.near[0]]))
        if answer == NEW:
            leaders.append(len(piece.before) + turns.at)
        expected.append((answer if answer == NEW else piece.plain_row(answer), np.nan))
        turns.answer(answer)
    follow(len(piece.keys))
    found_rows = [row if row == NEW else piece.plain_row(row) for row in turns.rows.tolist()]
    measures = map(repr, turns.measures.tolist())
    assert list(zip(found_rows, measures, strict=True)) == [(row, repr(how)) for row, how in expected]
    assert (turns.refused, turns.cut_short) == (refused, cut_short)


def _features(hashes: set[int]) -> Features:
    return Features(u64(sorted(hashes)), np.ones(len(hashes)))


def _sets_of(every: Sequence[set[int]], *, weighs: bool = True) -> Sets:
    sets = Sets.of([_features(each) for each in every])
    return sets if weighs else replace(sets, weights=None)


def test_those_behind_the_nearest_are_foreseen_where_that_is_not_alike() -> None:
    keys, rows = u64([0, 0]), u64([1, 2, 3, 4, 5, 6])
    query = np.array([0, 0, 0, 1, 1, 1], dtype=np.int64)
    turns = Turns(keys, 3, query, np.ones(6, dtype=np.uint16), [np.concatenate([rows, keys])])
    turns.compare(64, 1, 2)
    told = np.array([0, 1, 3, 6, 7], dtype=np.int64)  # of both keys, of the nearest of both, and of one more
    sets = Sets.of([_features(each) for each in ({1, 2}, {7}, {3, 4}, {1, 2}, {3, 4})])
    turns.give(told, sets.starts, sets.counts, sets.hashes, np.zeros(5, dtype=np.uint8))
    assert turns.foresee().tolist() == []  # the nearest of both are alike
    turns = Turns(keys, 3, query, np.ones(6, dtype=np.uint16), [np.concatenate([rows, keys])])
    turns.compare(2, 1, 2)
    turns.give(told[[0, 2, 3, 4]], sets.starts[1:], sets.counts[1:], sets.hashes, np.zeros(4, dtype=np.uint8))
    assert turns.foresee().tolist() == [1]


def test_pieces_that_are_longer_than_a_register_are_compared_whole() -> None:
    keys = np.random.default_rng(1).integers(0, 1 << 12, 700).astype(np.uint64)
    none, no_bits = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)
    rows, distances = in_turn(keys, 2, none, no_bits, [keys])
    leaders: list[int] = []
    for i, key in enumerate(keys.tolist()):
        near = [(apart, keys[j], j) for j in leaders if (apart := (key ^ int(keys[j])).bit_count()) <= 2]
        assert (rows[i], distances[i]) == ((min(near)[2], min(near)[0]) if near else (NEW, 0))
        if not near:
            leaders.append(i)
    turns = Turns(keys, 2, none, no_bits, [])
    apart = np.bitwise_count(keys[:, None] ^ keys[None, :]) <= 2
    assert turns.is_near.tolist() == (apart.sum(axis=1) > 1).tolist()


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("looks", [True, False])
def test_keys_that_were_compared_before_are_decided_as_others_are(words: int, looks: bool) -> None:
    rng = np.random.default_rng(words)
    keys = rng.integers(0, 1 << (14 if words == 1 else 7), (300, words)).astype(np.uint64)
    given = keys[:, 0].copy() if words == 1 else keys
    query, bits = np.array([3, 3, 299]), np.array([0, 1, 2], dtype=np.uint16)
    ties = [np.concatenate([np.zeros(3, dtype=np.uint64), keys[:, 0]])]
    earlier = Earlier(given, 2)
    if looks:
        earlier.look()
    turns, plain = (Turns(each, 2, query, bits, ties) for each in (earlier, given))
    assert turns.run() == plain.run() == DONE
    assert turns.rows.tolist() == plain.rows.tolist()
    assert turns.is_near.tolist() == plain.is_near.tolist()
    assert turns.is_near[3]
    assert turns.is_near[299]
    assert not turns.is_near.all()


def test_keys_that_were_compared_by_another_distance_are_refused() -> None:
    none, no_bits = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)
    with pytest.raises(ValueError, match="distance: found 3, expected 2, by which the keys were compared"):
        Turns(Earlier(u64([1, 2]), 2), 3, none, no_bits, [])
    empty = Earlier(u64([]), 2)
    empty.look()
    assert Turns(empty, 2, none, no_bits, []).run() == DONE


def leaders_by(threads: int, held: Any = None) -> Leaders:
    return Leaders(KeyMemory(3, 0, threads) if held is None else held, 3, 0, threads)


def test_threads_that_share_a_piece_decide_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "APART_ROWS", 64)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 100)
    keys = np.random.default_rng(3).integers(0, 1 << 14, 1000).astype(np.uint64)
    found = [leaders_by(threads).decide(keys) for threads in (1, 2, 3)]
    assert 0 < np.count_nonzero(found[0]["leads"]) < 1000
    for each in found[1:]:
        assert each.tobytes() == found[0].tobytes()


def test_a_search_that_fails_leaves_nobody_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "APART_ROWS", 1)
    looked: list[int] = []

    class Slow(Earlier):
        def look(self) -> None:
            time.sleep(0.05)
            super().look()
            looked.append(1)

    class Failing(KeyMemory):
        def nearest_many(self, *given: Any, **more: Any) -> Any:
            raise MemoryError

    monkeypatch.setattr(leaders, "Earlier", Slow)
    with pytest.raises(MemoryError):
        leaders_by(2, Failing(3)).decide(u64([1, 2]))
    assert looked == [1]


# Every number of keys around those that are compared at a time, all of them alike or few; each key is to go to the row
# that a plain loop finds, by every set of instructions.
LONG = """
import numpy as np
from fpstore._turns import NEW, Turns
rng = np.random.default_rng(9)
none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)
for count in (*range(1, 140), 700):
    for distance in (0, 3, 9, 64):
        centers = rng.integers(0, 1 << 64, 1 + count // int(rng.integers(1, 9)), dtype=np.uint64)
        keys = centers[rng.integers(0, len(centers), count)]
        for _ in range(int(rng.integers(0, 5))):
            keys = keys ^ (np.uint64(1) << rng.integers(0, 64, count, dtype=np.uint64))
        turns = Turns(keys, distance, *none, [], False)
        turns.run()
        leaders, rows = [], []
        for i in range(count):
            apart = np.bitwise_count(keys[leaders] ^ keys[i]) if leaders else np.empty(0)
            is_near = bool(len(apart)) and int(apart.min()) <= distance
            rows.append(leaders[int(apart.argmin())] if is_near else NEW)
            if not is_near:
                leaders.append(i)
        assert turns.rows.tolist() == rows, (count, distance)
"""


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE", "NONE"])
def test_pieces_of_any_length_are_decided_alike_by_every_set_of_instructions(setting: str) -> None:
    subprocess.run([sys.executable, "-c", LONG], check=True, env=os.environ | {setting: "1"})


def test_what_does_not_go_together_is_refused() -> None:
    keys, query, bits = u64([1, 2]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint16)
    with pytest.raises(ValueError, match=r"found 1 distances and ties of \[2\], expected 1 and 3"):
        Turns(keys, 3, query, bits, [keys])
    with pytest.raises(ValueError, match="found 2 distances and ties of "):
        Turns(keys, 3, query, np.zeros(2, dtype=np.uint16), [])
    for bad in ([2], [-1]):
        with pytest.raises(ValueError, match=f"match 0: found query {bad[0]}, expected one of 2"):
            Turns(keys, 3, np.array(bad, dtype=np.int64), bits, [])
    with pytest.raises(ValueError, match="match 1: found query 0"):
        Turns(keys, 3, np.array([1, 0], dtype=np.int64), np.zeros(2, dtype=np.uint16), [])
    turns = Turns(keys, 3, query, bits, [])
    one, hashes, mark = np.zeros(1, dtype=np.int64), u64([7]), np.zeros(1, dtype=np.uint8)
    for row in (3, -1):
        with pytest.raises(ValueError, match=f"row: found {row}, expected one of 3"):
            turns.give(one + row, one, one, hashes, mark)
    for start, count in ((1, 0), (-1, 1), (0, 2), (0, -1)):
        with pytest.raises(ValueError, match=f"row 0: found {count} features at {start}, expected some of 1"):
            turns.give(one, one + start, one + count, hashes, mark)
    with pytest.raises(ValueError, match="found 1 starts, 1 counts and 2 marks, expected those of 1 rows"):
        turns.give(one, one, one, hashes, np.zeros(2, dtype=np.uint8))
    with pytest.raises(ValueError, match="row: found 3, expected one of 3"):
        turns.knows(one + 3)
    assert turns.run() == DONE
    with pytest.raises(ValueError, match="found no document that is under way"):
        turns.answer(NEW)


def test_distances_are_those_of_the_rows() -> None:
    rows, keys = np.array([NEW, 0, 1], dtype=np.int64), u64([0b111, 0b1, 0b110])
    assert distances_to(rows, keys, np.array([5], dtype=np.uint16)).tolist() == [0, 5, 1]


# --- Features that are held ---


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=40), st.integers(0, 400), st.booleans())
def test_what_is_held_is_what_was_made_and_stays_as_it_is(
    added: list[tuple[int, int]], most: int, weighs: bool
) -> None:
    held, given = Held(Room(most), weighs=weighs), list[tuple[Sets, list[list[int]]]]()
    made: dict[int, list[int]] = {}
    for number, (document, count) in enumerate(added):
        if held.slots([document])[0] < 0:
            made[document] = [1000 * number + i for i in range(count)]
            held.add([document], _sets_of([set(made[document])], weighs=weighs))
            assert held.slots([document])[0] >= 0
        known = [each for each, slot in zip(made, held.slots([*made]).tolist(), strict=True) if slot >= 0]
        given.append((held.sets(held.slots(known)), [made[each] for each in known]))
        assert sum(len(made[each]) for each in known) <= max(most // (16 if weighs else 8), len(made[document]))
    for sets, expected in given:
        assert (sets.weights is not None) == weighs
        assert all(sets.starts < len(sets.hashes))  # also of those without any, of which there is nothing to read
        assert [features.hashes.tolist() for features in sets] == expected
        assert [features.weights.tolist() for features in sets] == [[1.0] * len(each) for each in expected]


def test_of_ids_of_one_place_the_last_is_held() -> None:
    held = Held(Room(1 << 20))
    for places in (1 << 40, 3):  # these follow one another
        first, count = 1 << 62, 3000
        ids = [first + places * at for at in range(count)]
        for at in range(0, count, 100):
            held.add(ids[at : at + 100], Sets.of([_features({each & 0xFFFF, at + 1}) for each in ids[at : at + 100]]))
        slots = held.slots(ids)
        assert int((slots >= 0).sum()) == (count if places == 3 else 1)
        known = np.flatnonzero(slots >= 0)
        found = held.sets(slots[known])
        assert [own.hashes.tolist() for own in found] == [
            sorted({ids[at] & 0xFFFF, at // 100 * 100 + 1}) for at in known.tolist()
        ]


def test_of_documents_whose_shingles_all_weigh_one_both_kinds_are_held() -> None:
    held = Held(Room(1 << 10))
    held.add([3], _sets_of([{5, 6}], weighs=False))
    held.add([4], _sets_of([{7}]))
    assert [features.weights.tolist() for features in held.sets(held.slots([3, 4]))] == [[1.0, 1.0], [1.0]]


@pytest.mark.parametrize("weighs", [True, False])
def test_some_of_features_are_those_of_these_documents(weighs: bool) -> None:
    sets = _sets_of([{5}, set(), {7, 8, 9}, {1, 2}], weighs=weighs)
    for places in ([], [1], [2, 0], [3, 1, 2]):
        found = sets.take(np.array(places, dtype=np.int64))
        assert (found.weights is not None) == weighs
        assert [features.hashes.tolist() for features in found] == [sets[place].hashes.tolist() for place in places]
        assert [features.weights.tolist() for features in found] == [sets[place].weights.tolist() for place in places]


def test_the_texts_of_documents_whose_features_are_told_are_not_read() -> None:
    asked: list[int] = []

    def texts(ids: list[int]) -> list[str]:
        asked.extend(ids)
        return ["x y z"] * len(ids)

    checker = Checker(Confirm.parse("jaccard>=0.8"), DEFAULT_RECIPE, texts)
    checker.hold(u64([]), Sets.of([]))
    checker.hold(u64([4, 6]), Sets.of([_features({1}), _features({2, 3})]))
    found = {
        [4, 5, 6][place]: own
        for places, sets in checker.sets_of_kept(u64([4, 5, 6]))
        for place, own in zip(places, sets, strict=True)
    }
    assert asked == [5]
    assert [found[each].hashes.tolist() for each in (4, 6)] == [[1], [2, 3]]


def test_those_are_forgotten_first_that_came_first() -> None:
    held = Held(Room(16 * 10))
    for document in range(4):
        held.add([document], Sets.of([_features({document, 50, 51})]))
    assert (held.slots(range(4)) >= 0).tolist() == [False, False, True, True]
    held.add([7, 8], Sets.of([_features(set(range(9))), _features({1, 2, 3})]))  # more than it may: these alone
    assert (held.slots([2, 3, 7, 8]) >= 0).tolist() == [False, False, True, True]
    assert [len(features.hashes) for features in held.sets(held.slots([8, 7]))] == [3, 9]


@given(
    st.lists(
        st.tuples(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5), st.booleans(), st.booleans()),
        max_size=8,
    ),
    st.builds(Room, st.integers(0, 400), st.integers(0, 60), st.integers(0, 800)),
    st.sampled_from([0, 1 << 63]),
    st.randoms(use_true_random=False),
)
def test_the_hashes_that_are_held_are_those_of_the_last_documents(
    batches: list[tuple[list[list[int]], bool, bool]], room: Room, first_id: int, chance: Random
) -> None:
    held, expected, next_id, before = HeldHashes(room), dict[int, list[int]](), first_id, False
    seen = 0
    for texts, skips, are_features in batches:
        cut = chance.randint(0, len(texts))
        parts = [_kept_hashes(texts[:cut]), _kept_hashes(texts[cut:])]
        kept = KeptHashes.join(parts, are_features=are_features)
        assert len(kept) == len(texts)
        chosen = [at for at in range(len(texts)) if chance.random() < 0.7]
        if skips or are_features is not before:  # others between, of which nothing is told; or hashes of another kind
            expected.clear()
            next_id += 3
        before = are_features
        held.add(next_id, kept, np.array(chosen, dtype=np.int64))
        expected |= {next_id + place: texts[at] for place, at in enumerate(chosen)}
        next_id += len(chosen)
        seen += len(chosen)
        most = max(room.least, min(room.most, room.bytes_each * seen))
        asked = u64([each for each in range(first_id - 1, next_id + 2) if each >= 0])
        ids = asked[held.have(asked)].tolist()
        assert ids == list(expected)[len(expected) - len(ids) :]
        assert held.are_features is are_features
        hashes, starts, counts = held.places(u64(ids))
        found = [hashes[start:][:count].tolist() for start, count in zip(starts.tolist(), counts.tolist(), strict=True)]
        assert found == [expected[each] for each in ids]
        assert all(0 <= start < len(hashes) for start in starts.tolist())  # of an empty one too
        assert sum(8 * (1 + len(expected[each])) for each in ids) <= max(8, most)
        everything = sum(8 * (1 + len(each)) for each in expected.values())
        if everything <= room.least - room.least % 8 and len(expected) == next_id - first_id:
            assert len(ids) == len(expected)


def _kept_hashes(texts: list[list[int]]) -> HashesPart:
    hashes = np.array([each for own in texts for each in own] + [0], dtype=np.uint64)
    return hashes, np.cumsum([len(own) for own in texts], dtype=np.uint64)


def test_numbers_that_are_dropped_make_room_for_others() -> None:
    """Of many more documents than are held at a time, the last are."""
    held, next_id = HeldHashes(Room(8 * 5000)), 0
    for size in [1, 700] * 40:
        texts = [[next_id + at] for at in range(size)]
        held.add(next_id, KeptHashes.join([_kept_hashes(texts)], are_features=True), np.arange(size))
        next_id += size
    ids = np.arange(next_id - 2000, next_id).astype(np.uint64)
    assert held.have(ids).all()
    hashes, starts, counts = held.places(ids)
    assert hashes[starts].tolist() == ids.tolist()
    assert counts.tolist() == [1] * 2000


@pytest.mark.parametrize("seed", range(20))
def test_hashes_that_were_overwritten_are_not_held(seed: int) -> None:
    """Of longer and shorter documents in turns, so that the ring becomes larger in the middle of a turn."""
    chance = Random(seed)
    held = HeldHashes(Room(8 * 60, 8 * 6, 8 * 1500))
    sizes: list[int] = []
    for _ in range(60):
        most = chance.choice([0, 2, 5, 20])
        more = [chance.randint(0, most) for _ in range(chance.randint(0, 12))]
        texts = [[len(sizes) + at] * size for at, size in enumerate(more)]
        held.add(len(sizes), KeptHashes.join([_kept_hashes(texts)], are_features=True), np.arange(len(more)))
        sizes += more
        ids = np.arange(len(sizes)).astype(np.uint64)
        ids = ids[held.have(ids)]
        hashes, starts, counts = held.places(ids)
        assert counts.tolist() == [sizes[each] for each in ids.tolist()]
        for each, start, count in zip(ids.tolist(), starts.tolist(), counts.tolist(), strict=True):
            assert hashes[start:][:count].tolist() == [each] * count


def test_where_a_full_ring_stays_long_texts_are_not_held_any_more_and_short_ones_are() -> None:
    def kept(count: int, each: int, first: int) -> KeptHashes:
        hashes = np.arange(first, first + count * each + 1, dtype=np.uint64)
        return KeptHashes(hashes, np.arange(count + 1, dtype=np.int64) * each, False)

    held, every = HeldHashes(Room(8 * 2000)), dict[int, int]()
    held.stays = True
    ids = np.arange(12, dtype=np.uint64)
    for first in range(0, 12, 3):  # of 256 shingles each
        every |= {first + at: 1000 * (first + at) for at in range(3)}
        own = KeptHashes(
            np.repeat(u64([1000 * each for each in range(first, first + 3)] + [0]), 256), np.arange(4) * 256, False
        )
        held.add(first, own, np.arange(3))
    assert held.have(ids).tolist() == [True] * 6 + [False] * 6
    assert not held.has_dropped
    hashes, places, counts = held.places(ids[:6])
    assert counts.tolist() == [256] * 6
    assert hashes[places].tolist() == hashes[places + 255].tolist() == [every[at] for at in range(6)]
    held.add(12, kept(1, 256, 0), np.arange(1))  # for which there would be room
    assert held.have(ids).tolist() == [True] * 6 + [False] * 6
    held.add(13, kept(3, 255, 0), np.arange(3))
    assert held.have(u64([0, 5, 12, 13, 15])).tolist() == [False] * 3 + [True] * 2
    assert held.has_dropped
    held.add(16, kept(3, 256, 0), np.arange(3))
    assert held.have(u64([13, 16, 18, 19])).tolist() == [True] * 3 + [False]


def test_a_ring_that_let_go_of_all_is_filled_again_by_long_texts() -> None:
    def kept(count: int, each: int) -> KeptHashes:
        return KeptHashes(np.zeros(count * each + 1, dtype=np.uint64), np.arange(count + 1) * each, False)

    held = HeldHashes(Room(8 * 2000))
    held.stays = True
    for first in (0, 3, 6):
        held.add(first, kept(3, 256), np.arange(3))
    held.add(9, kept(1, 255), np.arange(1))  # which fits behind what was held
    held.add(10, kept(3, 256), np.arange(3))
    assert held.have(u64([0, 5, 8, 9, 10, 12])).tolist() == [False] * 3 + [True] * 3
    # So is one that went on for a while as if it did not stay, after it was full.
    for first in (13, 16, 19, 22):
        held.add(first, kept(3, 256), np.arange(3))
    assert not held.have(u64([22])).any()
    held.stays = False
    held.add(25, kept(3, 256), np.arange(3))
    held.stays = True
    held.add(28, kept(3, 256), np.arange(3))
    assert held.have(u64([25, 28, 30])).all()


def test_room_for_hashes_grows_with_the_documents() -> None:
    """Of documents that take less than their share all are held, up to the most; of others the last."""
    for size, least in ((5, 440), (9, 260)):
        held = HeldHashes(Room(8 * 100, 8 * 7, 8 * 2800))
        for at in range(0, 1000, 10):
            texts = [[document] * size for document in range(at, at + 10)]
            held.add(at, KeptHashes.join([_kept_hashes(texts)], are_features=True), np.arange(10))
            ids = np.arange(at + 10).astype(np.uint64)
            count = int(held.have(ids).sum())
            assert size > 5 or at + 10 > 2800 // 6 or count == at + 10
            assert count * (size + 1) <= min(2800, max(100, 7 * (at + 10)))
            hashes, starts, _ = held.places(ids[len(ids) - count :])
            assert hashes[starts].tolist() == ids[len(ids) - count :].tolist()
        assert count >= least


@pytest.mark.parametrize("signs", [False, True])
def test_the_texts_of_documents_whose_hashes_are_held_are_not_read(signs: bool) -> None:
    asked: list[int] = []
    texts = ["a b c d e", "", "b a b a b a", "f g", "g"]

    def read(ids: list[int]) -> list[str]:
        asked.extend(ids)
        return ["x y z"] * len(ids)

    recipe = recipes()["minhash-128" if signs else "text-1"]
    checker = Checker(Confirm.parse("jaccard>=0.8"), recipe, read)
    checker.hold(u64([7]), Sets.of([_features({1})]))
    kept = recipe.sign_and_keep(texts)[2] if signs else recipe.measure_and_keep(texts)[1]
    assert kept.are_features is signs
    checker.hold_hashes(8, kept, np.array([0, 2, 3], dtype=np.int64))
    for _ in range(2):  # made, and then held
        found = {
            [5, 7, 8, 9, 10][place]: checker.features_in(sets, at).hashes.tolist()
            for places, sets in checker.sets_of_kept(u64([5, 7, 8, 9, 10]))
            for at, place in enumerate(places.tolist())
        }
        assert found.pop(7) == [1]
        assert found == {
            number: recipe.features(text).hashes.tolist()
            for number, text in ((5, "x y z"), (8, texts[0]), (9, texts[2]), (10, texts[3]))
        }
    assert asked == [5]
