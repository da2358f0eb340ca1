"""Joins of sorted keys: what they find and refuse, that they go on where they stopped."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from helpers import distinct, fingerprint_array, segment_of

from fpstore._pairs import Flips, Join, Neighbours, Queries, Windows
from fpstore._view import SegmentView
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.types import Keys

KEYS = fingerprint_array([*range(300), 1 << 63, (1 << 63) + 1])
TOP = 1 << 63
JOIN_ROOM = 128  # the least that a join takes, and what it leaves when it stops
ROOMS = [JOIN_ROOM, 1000, 1 << 16]

Rows = list[tuple[int, int, int]]


@pytest.fixture
def view() -> Iterator[SegmentView]:
    # Its one table catches all that differ in up to three bits, and its keys are the fingerprints.
    with segment_of(KEYS, plans.flips(1, (3,), 3)) as segment:
        yield segment.view


def found_by(join: Join, room: int = 1 << 16) -> Rows:
    found = []
    while not join.done:
        columns = join.next(room)
        assert [column.dtype for column in columns] == [np.uint64, np.uint64, np.uint8]
        assert len(columns[0]) <= room
        found += list(zip(*(column.tolist() for column in columns), strict=True))
    return found


def near_pairs(keys: Keys, distance: int) -> Rows:
    differences = np.bitwise_count(keys[:, None] ^ keys[None, :])
    first, second = np.nonzero(np.triu(differences <= distance, 1))
    return list(zip(keys[first].tolist(), keys[second].tolist(), differences[first, second].tolist(), strict=True))


def windows_of(keys: Keys, window_bits: int, split_bits: int = 0, chunks: tuple[int, ...] = (0,)) -> Windows:
    windows = Windows(window_bits, split_bits, len(keys), both=len(chunks) > 1)
    for place, chunk in enumerate(chunks):
        windows.begin(chunk, second=place == 1)
        own = keys[keys >> np.uint64(64 - split_bits) == chunk] if split_bits else keys
        for part in np.array_split(own, 3):
            windows.append(part)
    return windows


def crowded_keys(window_bits: int, rng: np.random.Generator) -> Keys:
    """Some windows and their partners with one key each, some with many, most of them near each other."""
    bases = rng.integers(0, 1 << 64, 40, dtype=np.uint64)
    one_bit = np.uint64(1) << np.arange(64, dtype=np.uint64)
    near = [bases]
    for base in bases:
        for _ in range(12):
            mask = np.bitwise_or.reduce(rng.choice(one_bit[64 - window_bits :], rng.integers(0, 3)), initial=0)
            low = rng.choice(one_bit[: 64 - window_bits], rng.choice([0, 1, 2, 5, 30]))
            near.append(np.append(low, 0).astype(np.uint64) ^ (base ^ np.uint64(mask)))
    return distinct(np.concatenate(near))


# --- What they find ---


@pytest.mark.parametrize("window_bits", [0, 1, 56, 64])
@pytest.mark.parametrize("room", ROOMS)
def test_neighbours_come_once_however_little_room_there_is(view: SegmentView, window_bits: int, room: int) -> None:
    found = found_by(Neighbours(view, 0, KEYS, 3, window_bits), room)
    shift = 64 - window_bits
    assert sorted(found) == [row for row in near_pairs(KEYS, 3) if row[0] >> shift == row[1] >> shift]


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 24, 25, 40, 47, 48, 49, 50, 56, 57, 63, 64, 65, 81])
def test_neighbours_of_every_number_of_keys(view: SegmentView, count: int) -> None:
    assert sorted(found_by(Neighbours(view, 0, KEYS[:count], 2, 0))) == near_pairs(KEYS[:count], 2)


@pytest.mark.parametrize("distance", [0, 3, 16, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("count", [2, 16, 17, 18, 32, 33, 34, 48, 79, 153])
def test_neighbours_come_once_at_every_distance(count: int, distance: int) -> None:
    """Folds have 32 bits, so at larger distances all of them are near, also those that were compared before."""
    keys = distinct(np.random.default_rng(count).integers(0, 1 << 64, count, dtype=np.uint64))
    with segment_of(keys, plans.scan(distance)) as segment:
        found = found_by(Neighbours(segment.view, 0, keys, distance, 0))
    assert sorted(found) == near_pairs(keys, distance)


@pytest.mark.parametrize("distance", [0, 3, 31, 32, 33, 64])
@pytest.mark.parametrize("window_bits", [0, 3, 60])
@pytest.mark.parametrize("copies", [0, 1, 200])
@pytest.mark.parametrize("room", ROOMS)
def test_neighbours_may_be_in_any_order_and_come_again(distance: int, window_bits: int, copies: int, room: int) -> None:
    """Where they do, or have more pairs than there is room for, their windows are put in order."""
    rng = np.random.default_rng(copies)
    keys = distinct(np.concatenate([rng.integers(0, 1 << 64, 120, dtype=np.uint64), clusters(rng)[:80]]))
    shuffled = rng.permutation(np.concatenate([keys, rng.choice(keys, copies)]))
    shift = 64 - window_bits
    windows = shuffled >> np.uint64(shift) if window_bits else np.zeros(len(shuffled))
    found_keys = shuffled[np.argsort(windows, kind="stable")]
    expected = [row for row in near_pairs(keys, distance) if row[0] >> shift == row[1] >> shift]
    with segment_of(keys, plans.scan(distance)) as segment:
        join = Neighbours(segment.view, 0, found_keys.copy(), distance, window_bits, any_order=True)
        assert not join.in_order
        assert sorted(found_by(join, room)) == expected
        assert join.in_order or copies == 0
        assert not join.in_order or copies > 0 or len(expected) > room - JOIN_ROOM
        counted = Neighbours(segment.view, 0, found_keys.copy(), distance, window_bits, any_order=True)
        assert (counted.count(), counted.done, counted.in_order) == (len(expected), True, copies > 0)


@pytest.mark.parametrize("copies", [0, 1])
def test_neighbours_of_more_than_one_stretch_of_work_are_put_in_order(view: SegmentView, copies: int) -> None:
    """What has been returned is right, also where a key comes again only then."""
    keys = np.arange(1 << 14, dtype=np.uint64) << np.uint64(13)
    join = Neighbours(view, 0, np.concatenate([keys, keys[-2 : copies - 2]]), 3, 0, any_order=True)
    counts = []
    while not join.done:
        counts.append(join.count())
    assert len(counts) > 1
    assert join.in_order
    # Numbers of 14 bits, which differ in 1, 2 or 3; each pair has two ends.
    assert sum(counts) == (1 << 14) * (14 + 91 + 364) // 2


@pytest.mark.parametrize("room", ROOMS)
def test_queries_are_compared_with_every_key_however_little_room_there_is(view: SegmentView, room: int) -> None:
    queries = fingerprint_array([0, 3, 77, (1 << 63) + 5])
    found = found_by(Queries(view, 0, queries, windows_of(KEYS, 0), 2, 0), room)
    near = ((q, key, (q ^ key).bit_count()) for q in queries.tolist() for key in KEYS.tolist())
    assert sorted(found) == sorted(row for row in near if row[2] <= 2)


def test_queries_meet_the_windows_that_differ_by_the_flips(view: SegmentView) -> None:
    windows = windows_of(KEYS[300:], 2, 1, (1,))
    assert found_by(Queries(view, 0, KEYS[:2], windows, 1, TOP)) == [(0, TOP, 1), (1, TOP + 1, 1)]
    assert found_by(Queries(view, 0, KEYS[:2], windows, 3, TOP | TOP >> 1)) == []


# Windows in one row of a tile and fewer, in one tile, in tiles of two kinds and of three; flips within a vector of
# lanes, a row, a tile, and of two bits in different places.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("window_bits", "flips"),
    [
        (1, [1]),
        (3, [1, 2, 3, 4, 7]),
        (6, [1 << bit for bit in range(6)]),
        (14, [*(1 << bit for bit in range(14)), 3, 1 << 6 | 1, 1 << 13 | 1 << 2]),
        (17, [*(1 << bit for bit in range(17)), 1 << 16 | 1, 1 << 16 | 1 << 6, 1 << 15 | 1 << 14, 1 << 14 | 1 << 13]),
        (
            23,
            [*(1 << bit for bit in range(23)), 1 << 22 | 1 << 21, 1 << 22 | 1 << 8, 1 << 22 | 1 << 3, 1 << 20 | 1 << 7],
        ),
    ],
)
@pytest.mark.parametrize("room", ROOMS)
def test_flips_join_windows_with_their_partners(
    view: SegmentView, window_bits: int, flips: list[int], room: int
) -> None:
    keys = crowded_keys(window_bits, np.random.default_rng(window_bits))
    near = near_pairs(keys, 3)
    expected = [row for row in near if (row[0] ^ row[1]) >> (64 - window_bits) in flips]
    assert len(expected) > 1000
    found = found_by(Flips(view, 0, windows_of(keys, window_bits), 3, flips), room)
    assert sorted(found) == expected


@pytest.mark.parametrize("window_bits", [3, 9, 18])
def test_windows_of_two_chunks_are_numbered_on(view: SegmentView, window_bits: int) -> None:
    keys = crowded_keys(window_bits, np.random.default_rng(window_bits))
    chunk_bits = window_bits - 2
    flips = [1 << chunk_bits, 1 << chunk_bits | 1]
    # From the first chunk to the fourth, and the other way about.
    expected = [
        row
        for row in near_pairs(keys, 3)
        if {row[0] >> 62, row[1] >> 62} == {0, 3}
        and (row[0] ^ row[1]) >> (64 - window_bits) & ((1 << chunk_bits) - 1) in (0, 1)
    ]
    for chunks in ((0, 3), (3, 0)):
        assert sorted(found_by(Flips(view, 0, windows_of(keys, window_bits, 2, chunks), 3, flips))) == expected


def test_windows_are_filled_again_with_other_chunks(view: SegmentView) -> None:
    keys = fingerprint_array([0, 1, 1 << 61, 1 << 62, 1 << 63, (1 << 63) + (1 << 61), (1 << 63) + (1 << 62)])
    windows = Windows(3, 1, len(keys), both=True)
    windows.begin(0)
    windows.append(keys[:4])
    for _ in range(2):
        windows.begin(1, second=True)
        windows.append(keys[4:])
        across = found_by(Flips(view, 0, windows, 1, [4]))
        assert sorted((first, second) for first, second, _ in across) == [
            (0, TOP),
            (1 << 61, TOP + (1 << 61)),
            (1 << 62, TOP + (1 << 62)),
        ]
    windows.begin(1)
    windows.append(keys[4:])
    within = [(TOP, TOP + (1 << 61), 1), (TOP, TOP + (1 << 62), 1)]
    assert sorted(found_by(Flips(view, 0, windows, 3, [1, 2]))) == within


@pytest.mark.parametrize("keys", [KEYS[:0], KEYS[:1]])
def test_one_key_or_none_has_no_pairs(view: SegmentView, keys: Keys) -> None:
    windows = windows_of(keys, 1)
    assert found_by(Flips(view, 0, windows, 3, [1])) == []
    assert found_by(Flips(view, 0, windows, 3, [])) == []
    assert found_by(Queries(view, 0, keys[:0], windows, 3, 0)) == []


def test_counting_counts_what_next_returns(view: SegmentView) -> None:
    total = 0
    for join in (Neighbours(view, 0, KEYS, 3, 1), Flips(view, 0, windows_of(KEYS, 1), 3, [1])):
        while not join.done:
            total += join.count()
    assert total == len(near_pairs(KEYS, 3))


# --- Several tables, keys of all bits ---


def clusters(rng: np.random.Generator) -> Keys:
    """Keys within a few bits of one of some bases: more than two vectors of lanes in one window, garbage in no bit."""
    bases = np.repeat(rng.integers(0, 1 << 64, 6, dtype=np.uint64), 100)
    bits = np.uint64(1) << rng.integers(0, 64, (3, len(bases)), dtype=np.uint64)
    return distinct(bases ^ np.bitwise_xor.reduce(bits * rng.integers(0, 2, bits.shape, dtype=np.uint64)))


def few_bits(bits: int, most: int) -> list[int]:
    """Every number of so many bits with at most `most` ones."""
    return [sum(1 << bit for bit in chosen) for ones in range(most + 1) for chosen in combinations(range(bits), ones)]


MANY_TABLES = [plans.flips(2, (1, 1), 3), plans.flips(3, (1, 0, 0), 3), plans.choose(5, 3), plans.paper("paper-4")]


@pytest.mark.parametrize("window_bits", [0, 1, 4])
@pytest.mark.parametrize("plan", MANY_TABLES, ids=lambda plan: plan.name)
def test_queries_meet_each_near_key_in_one_table_of_several(plan: Plan, window_bits: int) -> None:
    rng = np.random.default_rng(20)
    keys = clusters(rng)
    queries = distinct(np.concatenate([keys[::3], keys[1::5] ^ np.uint64(1 << 40)]))
    differences = np.bitwise_count(queries[:, None] ^ keys[None, :])
    first, second = np.nonzero(differences <= 3)
    near = (queries[first].tolist(), keys[second].tolist(), differences[first, second].tolist())
    found = []
    with segment_of(keys, plan) as segment:
        for index, table in enumerate(plan.tables):
            permutation = Permutation(table.prefix_mask)
            windows = windows_of(np.sort(permutation.apply(keys)), window_bits)
            for flips in few_bits(window_bits, table.flips):
                mask = flips << (64 - window_bits)
                own = np.sort(permutation.apply(queries))
                found += found_by(Queries(segment.view, index, own, windows, 3, mask))
    assert sorted(found) == sorted(zip(*near, strict=True))


@pytest.mark.parametrize("window_bits", [1, 4])
@pytest.mark.parametrize("plan", MANY_TABLES, ids=lambda plan: plan.name)
def test_keys_meet_each_near_one_in_one_table_of_several(plan: Plan, window_bits: int) -> None:
    keys = clusters(np.random.default_rng(21))
    found = []
    with segment_of(keys, plan) as segment:
        for index, table in enumerate(plan.tables):
            own = np.sort(Permutation(table.prefix_mask).apply(keys))
            flips = few_bits(window_bits, table.flips)[1:]
            found += found_by(Neighbours(segment.view, index, own, 3, window_bits))
            found += found_by(Flips(segment.view, index, windows_of(own, window_bits), 3, flips))
    assert sorted(found) == near_pairs(keys, 3)


@pytest.mark.parametrize("window_bits", [1, 4])
@pytest.mark.parametrize("plan", MANY_TABLES, ids=lambda plan: plan.name)
def test_a_key_that_comes_again_is_noticed_in_every_table(plan: Plan, window_bits: int) -> None:
    """Also where an earlier table is the first to catch it with itself."""
    keys = clusters(np.random.default_rng(22))
    with segment_of(keys, plan) as segment:
        for index, table in enumerate(plan.tables):
            own = np.sort(Permutation(table.prefix_mask).apply(keys))
            expected = sorted(found_by(Neighbours(segment.view, index, own, 3, window_bits)))
            again = np.sort(np.concatenate([own, own[7:8]]))
            join = Neighbours(segment.view, index, again, 3, window_bits, any_order=True)
            assert sorted(found_by(join)) == expected
            assert join.in_order


def test_keys_that_lie_already_where_they_are_appended_stay_there() -> None:
    """Others before them and behind them are copied; a second chunk's come behind the first one's."""
    windows = Windows(3, 1, 9, both=True)
    windows.begin(0)
    assert len(windows.rest()) == 9
    windows.append(np.array([1, 2], dtype=np.uint64))
    windows.rest()[:2] = [5, 1 << 62]
    windows.append(windows.rest()[:2])
    windows.append(np.array([1 << 62 | 7], dtype=np.uint64))
    assert windows.whole(0, ended=True).tolist() == [1, 2, 5, 1 << 62, 1 << 62 | 7]
    windows.begin(1, second=True)
    windows.rest()[0] = 1 << 63
    windows.append(windows.rest()[:1])
    assert len(windows.rest()) == 3
    assert windows.whole(0, ended=True).tolist() == [1, 2, 5, 1 << 62, 1 << 62 | 7, 1 << 63]
    windows.append(np.array([1 << 63 | 1, 1 << 63 | 2, 1 << 63 | 3], dtype=np.uint64))
    assert len(windows.rest()) == 0
    windows.append(windows.rest())


# --- What they refuse ---


@pytest.mark.parametrize(("window_bits", "split_bits", "capacity"), [(41, 0, 1), (2, 3, 1), (2, 0, 1 << 32)])
def test_windows_that_cannot_be(window_bits: int, split_bits: int, capacity: int) -> None:
    with pytest.raises(ValueError, match=f"^{capacity} keys in windows of {window_bits} bits, {split_bits} of them"):
        Windows(window_bits, split_bits, capacity)


def test_chunks_that_cannot_be() -> None:
    windows = Windows(2, 1, 1 << 10)
    with pytest.raises(ValueError, match=r"^chunk 2: there are 2$"):
        windows.begin(2)
    with pytest.raises(ValueError, match="a second chunk has no room, or no first one"):
        Windows(2, 1, 1, both=True).begin(1, second=True)
    windows = Windows(10, 1, 1)
    windows.begin(0)
    with pytest.raises(ValueError, match="a second chunk has no room, or no first one"):
        windows.begin(1, second=True)


def test_keys_without_room_or_of_another_chunk_are_refused() -> None:
    windows = Windows(2, 1, 300)
    with pytest.raises(ValueError, match="no room for 2 keys"):
        windows.append(KEYS[:2])
    windows.begin(0)
    with pytest.raises(ValueError, match="no room for 301 keys"):
        windows.append(KEYS[:301])
    for keys in (KEYS[299:301], KEYS[300:]):
        with pytest.raises(ValueError, match="keys of another chunk"):
            windows.append(keys)
    windows.begin(1)
    with pytest.raises(ValueError, match="keys of another chunk"):
        windows.append(KEYS[:2])


def test_what_no_join_can_be_is_refused(view: SegmentView) -> None:
    both, high, two = windows_of(KEYS, 1), windows_of(KEYS, 1, 1, (1,)), windows_of(KEYS, 1, 1, (0, 1))
    with pytest.raises(ValueError, match="table 1: the segment has 1"):
        Neighbours(view, 1, KEYS, 3, 0)
    with pytest.raises(ValueError, match="windows of 65 bits"):
        Neighbours(view, 0, KEYS, 3, 65)
    with pytest.raises(ValueError, match="flips 0x1: expected bits among the top 1"):
        Queries(view, 0, KEYS, both, 3, 1)
    with pytest.raises(ValueError, match="flips 0x1: expected bits among the top 0"):
        Queries(view, 0, KEYS, windows_of(KEYS, 0), 3, 1)
    with pytest.raises(ValueError, match="queries, flipped, leave the windows"):
        Queries(view, 0, KEYS[:10], high, 3, 0)
    with pytest.raises(ValueError, match="the windows are not of one chunk"):
        Queries(view, 0, KEYS[:10], two, 3, 0)
    for mask in (0, 2):
        with pytest.raises(ValueError, match=rf"flips \[1, {mask}\]: expected from 1 to 1"):
            Flips(view, 0, both, 3, [1, mask])
    with pytest.raises(ValueError, match="room for 127 pairs: expected 128 or more"):
        Neighbours(view, 0, KEYS, 3, 0).next(127)
