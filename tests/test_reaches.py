"""Radii that the nearest are looked for within: which of them is by what was found lately, and answers never are."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from living import writer_of
from test_wide import many, near

import fpstore
from fpstore._reaches import MOST_RADII, Reaches
from fpstore.fingerprints import as_numbers
from fpstore.living import radius
from fpstore.living.radius import ALONE_GROWTH, ALONE_SHARE, FEW_QUERIES, GROWTH, LOOK_NS, LOOK_TIMES, SAMPLED, SHARE
from fpstore.plans.reach import reading_nanoseconds
from fpstore.segment.reader import Segment
from fpstore.text import recipes

DISTANCES = {16: 2, 32: 3, 64: 3, 128: 9, 256: 31}
COUNT = 30_000


def chosen(reaches: Reaches) -> list[int]:
    """The radii that a query is looked for within that none of them finds."""
    found, at = [], reaches.following(0)
    while at < len(reaches.radii):
        found.append(reaches.radii[at])
        at = reaches.following(at + 1)
    return found


@settings(deadline=None, max_examples=200)
@given(
    shares=st.lists(st.floats(0.001, 1), min_size=1, max_size=5),
    told=st.lists(st.integers(0, 12), max_size=31),
    whole=st.booleans(),
)
def test_those_radii_are_looked_within_that_take_least_where_all_goes_on_as_before(
    shares: list[float], told: list[int], whole: bool
) -> None:
    radii = [2 * index + 1 for index in range(len(shares))]
    reaches = Reaches(radii, shares, whole)
    weights = np.ones(len(radii) + 1)
    for distance in told:
        reaches.tell(distance)
        weights[next((i for i, most in enumerate(radii) if distance <= most), len(radii))] += 64

    def cost(which: tuple[int, ...]) -> float:
        """What queries take that were as those, each within these radii, then by the rest."""
        total, left = 0.0, weights.sum()
        for index in which:
            total, left = total + left * shares[index], weights[index + 1 :].sum()
        return total + (0.0 if whole else left)

    every = [each for size in range(len(radii) + 1) for each in combinations(range(len(radii)), size)]
    least = min(cost(each) for each in every if not whole or each[-1:] == (len(radii) - 1,))
    assert cost(tuple(radii.index(each) for each in chosen(reaches))) == pytest.approx(least)


def test_what_came_lately_counts_most() -> None:
    reaches = Reaches([3, 8, 11], [0.001, 0.01, 0.05], False)
    first = chosen(reaches)
    assert first[-1] == 11
    for _ in range(100):
        reaches.tell(14)
    assert 11 not in chosen(reaches)
    for _ in range(20):
        reaches.tell(11)
    assert chosen(reaches)[-1] == 11
    # However long they were far before.
    reaches.tell(14, 100_000)
    for _ in range(40):
        reaches.tell(11)
    assert chosen(reaches)[-1] == 11


@given(told=st.lists(st.tuples(st.sampled_from([2, 5, 8, 11, 14]), st.integers(1, 80)), max_size=8))
@example(told=[(8, 80), (8, 80), (14, 8)])
@settings(deadline=None, max_examples=200)
def test_the_choice_is_the_same_whether_it_was_made_after_each_query_or_once(told: list[tuple[int, int]]) -> None:
    """Of runs of queries that are alike, after which nothing may have to be chosen."""
    shares = [0.01, 0.02, 0.05, 0.2]
    radii = [2, 5, 8, 11]
    reaches, counts = Reaches(radii, shares, False), [1] * 5
    for distance in (distance for distance, times in told for _ in range(times)):
        reaches.tell(distance)
        counts[next((i for i, most in enumerate(radii) if distance <= most), 4)] += 64
        while sum(counts) > 32 * 64:
            counts = [(count + 1) // 2 for count in counts]

    def cost(which: tuple[int, ...]) -> float:
        total, left = 0.0, sum(counts)
        for index in which:
            total, left = total + left * shares[index], sum(counts[index + 1 :])
        return total + left

    every = [each for size in range(5) for each in combinations(range(4), size)]
    assert cost(tuple(radii.index(each) for each in chosen(reaches))) == pytest.approx(min(map(cost, every)))


def test_radii_are_as_many_as_their_shares_and_no_more_than_there_is_room_for() -> None:
    for radii, shares, whole in (([1], [], False), ([], [], True), (range(MOST_RADII + 1), [1.0] * 17, False)):
        with pytest.raises(ValueError, match=f"expected as many, at most {MOST_RADII}"):
            Reaches(list(radii), shares, whole)
    reaches = Reaches([], [], False)
    assert reaches.following(0) == 0
    for at in (-1, 1):
        with pytest.raises(ValueError, match=f"radius {at} of 0"):
            reaches.following(at)


@pytest.mark.parametrize("count", [1, 2])
def test_a_radius_is_worth_looking_within_where_it_costs_little_of_the_rest(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fpstore.build(tmp_path / "s", [1], plan="flips-2:1,1", ids=None) as store:
        snapshot = store._latest
        monkeypatch.setattr(Segment, "key_count", 10**7)
        radii, shares, whole = radius._radii(snapshot, 64, count)
        share, growth, more, times = (
            (ALONE_SHARE, ALONE_GROWTH, LOOK_NS, LOOK_TIMES) if count == 1 else (SHARE, GROWTH, 0, 1)
        )
        assert radii == sorted(set(radii))
        assert not whole
        assert len(radii) > 2
        assert max(shares) <= share
        scan = reading_nanoseconds(snapshot.plan, 10**7, count)
        costs = [more + times * radius._cost(snapshot, each, count) for each in range(radii[-1] + 2)]
        assert shares == [costs[each] / scan for each in radii]
        assert costs[-1] > share * scan
        for before, after in pairwise(radii):
            assert costs[after] <= max(growth * costs[before], costs[before + 1])
        # Within a distance that is looked up, the last is that.
        radii, shares, whole = radius._radii(snapshot, 3, count)
        assert (radii[-1], shares[-1], whole) == (3, 1.0, True)
        radii, shares, whole = radius._radii(snapshot, 6, count)
        assert (radii[-1], shares[-1], whole) == (6, 1.0, True)
        # Of many together a scan costs little, so that no radius is worth it.
        monkeypatch.setattr(Segment, "key_count", 1000)
        assert radius._radii(snapshot, 64, 1000) == ([], [], False)
    with fpstore.create(tmp_path / "empty") as store:
        assert radius._radii(store._latest, 64, 1) == ([], [], False)


@pytest.fixture(scope="module", params=sorted(DISTANCES))
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ...]]:
    """A store of clusters and their ids, two of each third fingerprint, and the fingerprints as bytes in order."""
    bits = request.param
    source = np.random.default_rng(bits)
    if bits > 64:
        keys = many(bits, COUNT, "clusters")
    else:
        keys = source.integers(0, 1 << bits, COUNT // 20, dtype=np.uint64)[source.integers(0, COUNT // 20, COUNT)]
        for _ in range(3):
            keys ^= np.uint64(1) << source.integers(0, bits, COUNT).astype(np.uint64)
    keys = np.concatenate([keys, keys[::3]])
    ids = source.permutation(len(keys)).astype(np.uint64)
    path = tmp_path_factory.mktemp("reaches") / "s"
    with fpstore.build(path, keys, ids=ids, bits=bits, max_distance=DISTANCES[bits]) as store:
        order = np.lexsort((ids, *reversed(np.atleast_2d(keys.T)))) if bits > 64 else np.lexsort((ids, keys))
        yield store, keys[order], ids[order]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_the_nearest_are_those_of_brute_force_whatever_was_asked_before(
    stored: tuple[Any, ...], data: st.DataObject
) -> None:
    """One by one, of one thread and of several, and together; remembered radii go on from example to example."""
    store, keys, ids = stored
    bits = store.bits
    numbers = as_numbers(keys[data.draw(st.lists(st.integers(0, len(keys) - 1), min_size=1, max_size=6))])
    wrong = st.lists(st.integers(0, bits - 1), max_size=data.draw(st.sampled_from([0, 3, 8, bits // 2])))
    queries = [number ^ sum(1 << bit for bit in set(data.draw(wrong))) for number in numbers]
    count = data.draw(st.sampled_from([1, 2, 5, 30, 70]))
    most = data.draw(st.sampled_from([None, 0, 2, 5, 9, 40, bits]))
    distance = min(bits, most if most is not None else bits)
    words = words_of(queries, bits)
    expected = []
    for number, row in enumerate(words):
        at, apart = nearest_of(keys, row, count, distance)
        expected += list(zip([number] * len(at), as_numbers(keys[at]), apart, ids[at].tolist(), strict=True))
    asked = {"max_distance": None if most is None else distance}
    for threads in (1, 2):
        found = store.nearest_many(words, count, threads=threads, **asked)
        assert rows_of(found) == expected
        one = store.nearest_many(words[:1], count, threads=threads, **asked)
        assert rows_of(one) == [row for row in expected if row[0] == 0]
    for number, query in enumerate(queries):
        found = store.nearest(query, count, **asked)
        assert [(number, *row[1:]) for row in rows_of(found)] == [row for row in expected if row[0] == number]


def nearest_of(keys: Any, query: Any, count: int, distance: int) -> tuple[Any, list[int]]:
    """Of keys in order, the first so many that are within the distance: their indexes, and how far they are."""
    apart = np.bitwise_count(keys ^ query)
    apart = (apart.sum(axis=1) if keys.ndim > 1 else apart).astype(np.int64)
    at = np.argsort(apart, kind="stable")[:count]
    at = at[apart[at] <= distance]
    return at, apart[at].tolist()


def words_of(queries: list[int], bits: int) -> Any:
    """The numbers as an array of fingerprints."""
    if bits <= 64:
        return np.array(queries, dtype=np.uint64)
    return np.array([[query >> at & (1 << 64) - 1 for at in range(bits - 64, -1, -64)] for query in queries], np.uint64)


def rows_of(found: fpstore.Matches) -> list[tuple[int, ...]]:
    assert found.id is not None
    columns = found.query.tolist(), as_numbers(found.fingerprint), found.distance.tolist(), found.id.tolist()
    return list(zip(*columns, strict=True))


def in_order(bits: int) -> Any:
    """Fingerprints so many that tables are worth looking up."""
    keys = many(256, 100_000, "random")[:, : bits // 64]
    return np.sort(keys[:, 0]) if bits == 64 else keys[np.lexsort(keys.T[::-1])]


@pytest.mark.parametrize("bits", [64, 256])
@pytest.mark.parametrize("batch", [FEW_QUERIES, FEW_QUERIES + 1, 10 * SAMPLED])
def test_of_many_queries_some_are_near_and_some_far(bits: int, batch: int, tmp_path: Path) -> None:
    keys = in_order(bits)
    with fpstore.build(tmp_path / "s", keys, ids=None, bits=bits, max_distance=DISTANCES[bits]) as store:
        numbers = as_numbers(keys[:batch])
        queries = words_of([numbers[i] ^ (0b10101 if i % 3 else (1 << bits) - 1) for i in range(batch)], bits)
        for count in (1, 2):
            found = store.nearest_many(queries, count, max_distance=40, threads=1)
            assert found.query.tolist() == sorted(found.query.tolist())
            for i in range(0, batch, 5):
                at, apart = nearest_of(keys, queries[i], count, 40)
                own = found.query == i
                assert found.distance[own].tolist() == apart
                assert np.array_equal(found.fingerprint[own], keys[at])
        near_ones = store.nearest_many(queries[np.arange(batch) % 3 > 0])
        assert set(near_ones.distance.tolist()) == {3}
        assert near_ones.method == "probe"  # 106 of 160 take 185 us so, and 1,001 by a scan (64 bits)


@pytest.mark.parametrize("bits", [64, 256])
def test_far_queries_are_looked_for_within_no_radius_after_a_while(bits: int, tmp_path: Path) -> None:
    keys = in_order(bits)
    with fpstore.build(tmp_path / "s", keys, ids=None, bits=bits, max_distance=DISTANCES[bits]) as store:
        query = int.from_bytes(b"\x5a" * (bits // 8), "big")
        store.nearest(query)
        reaches = store._latest.single.reaches[bits, 1]
        before = chosen(Reaches(*radius._radii(store._latest, bits, 1)))
        assert before
        for _ in range(300):
            assert store.nearest(query).method == "scan"
        assert len(chosen(reaches)) < len(before)
        near = as_numbers(keys[:1])[0] ^ 1
        assert [store.nearest(near).distance.tolist() for _ in range(9)] == [[1]] * 9
        assert store.nearest(near).method == "probe"


@pytest.mark.parametrize("bits", [64, 256])
def test_what_waits_and_what_was_removed_are_no_exception(bits: int, tmp_path: Path) -> None:
    """Several segments, rows that wait, and rows that are gone; each query often enough that one call answers it."""
    codes = many(256, 8_000, "clusters")[:, : bits // 64]
    codes = codes[:, 0] if bits == 64 else codes
    numbers = as_numbers(codes)
    fpstore.create(tmp_path / "s", bits=bits, max_distance=DISTANCES[bits]).close()
    rows: set[tuple[int, int]] = set()

    def look(store: fpstore.Store) -> None:
        for query in (numbers[0], numbers[7] ^ 0b111, (1 << bits) - 1 ^ numbers[9]):
            for count, most in ((1, bits), (3, bits), (3, 5)):
                expected = near(sorted(rows), query, most)[:count]
                for _ in range(3):
                    found = store.nearest(query, count, max_distance=most)
                    assert [(m.distance, m.fingerprint, m.id) for m in found] == expected

    with writer_of(tmp_path / "s", growth=0) as store:
        for first in (0, 4_000):
            store.add(codes[first : first + 4_000], ids=np.arange(first, first + 4_000))
            rows |= {(numbers[i], i) for i in range(first, first + 4_000)}
            store._flush()
        assert len(store._segments) == 2
        look(store)
        store.add(codes[:3], ids=[70_000, 5, 70_001])
        rows |= {(numbers[0], 70_000), (numbers[1], 5), (numbers[2], 70_001)}
        look(store)
        store.remove(ids=[0, 70_000, 7])
        rows = {row for row in rows if row[1] not in (0, 70_000, 7)}
        look(store)
        store._flush()
        look(store)


def test_of_wide_fingerprints_with_names_the_least_name_is_the_first(tmp_path: Path) -> None:
    recipe = replace(recipes()["text-1"], name="wide", bits=128)
    text = "hello world of wide things"
    for id_type, ids, first in (("string", ["b", "c", "a"], "a"), ("uint64", [2, 3, 1], 1)):
        fpstore.create(tmp_path / id_type, recipe=recipe, id_type=id_type).close()  # type: ignore[arg-type]
        with writer_of(tmp_path / id_type, growth=0) as store:
            for id in ids:
                store.add_texts([text], ids=[id])
                store._flush()
            for _ in range(3):
                for found in (store.nearest(store.fingerprint(text)), store.nearest(store.fingerprint(text), 2)[:1]):
                    assert [match.id for match in found] == [first]
                    # What asks for more of these knows what they were made by.
                    assert found._made_by == store.probe_text(text)._made_by is not None


@pytest.mark.parametrize("bits", [64, 256])
def test_equally_near_rows_of_several_segments_are_all_among_the_nearest(bits: int, tmp_path: Path) -> None:
    """Each segment has a row one bit away, the first ones the larger fingerprints."""
    base = int.from_bytes(bytes(range(1, bits // 8 + 1)), "big") & ~0xFF
    fpstore.create(tmp_path / "s", bits=bits, max_distance=DISTANCES[bits]).close()
    with writer_of(tmp_path / "s", growth=0) as store:
        for place in (2, 1, 0):
            store.add([base ^ 1 << place, base ^ 0xFF00], ids=[place, 9])
            store._flush()
        asked = None, base if bits == 64 else words_of([base], bits)[0]
        single = store._latest.single
        for count, most in ((1, bits), (2, bits), (3, 1)):
            flips = [(None,) * 3] if bits == 64 else None
            looked = Reaches([1], [0.1], False, flips)
            found = single.first(*asked, count, most, False, looked)
            assert found.id.tolist() == [0, 1, 2][:count]
            scanned = Reaches([], [], False, [] if bits == 64 else None, 100)
            scanned.read = True
            found = single.first(*asked, count, most, False, scanned)
            assert found.id.tolist() == [0, 1, 2][:count]
            assert found.method == "scan"
