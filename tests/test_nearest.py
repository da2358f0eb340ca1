"""The nearest match of each query: that of brute force, however many were removed, in memory of the queries alone."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from living import ids_from, run_python, writer_of

import fpstore
from fpstore._probe import nearest as nearest_in
from fpstore.living import radius, snapshot
from fpstore.query import nearest as rounds
from fpstore.query.matches import Matches
from fpstore.query.nearest import Nearest, first_live, least_live, nearest_of
from fpstore.types import Array, Ids

K = 3
Row = tuple[int, int | None]

keys = st.builds(lambda far, bits: far << 40 | bits, st.integers(0, 1), st.integers(0, 31))
added = st.tuples(st.just("add"), st.lists(st.tuples(keys, st.integers(0, 9)), max_size=12))
removed = st.tuples(st.sampled_from(["remove fingerprints", "remove ids"]), st.lists(keys, max_size=8))
unpaired = st.tuples(st.just("remove pairs"), st.lists(st.tuples(keys, st.integers(0, 9)), max_size=8))
flushed = st.tuples(st.just("flush"), st.none())
histories = st.lists(st.one_of(added, added, removed, unpaired, flushed), max_size=8)


def u64(values: object) -> Array:
    return np.array(values, dtype=np.uint64)


@contextmanager
def small_rounds(queries: int = 2, kept: int = 2, ids: int = 3) -> Iterator[None]:
    """So that a few removed fingerprints and ids take many rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "QUERIES_AT_ONCE", queries)
        patch.setattr(rounds, "KEPT_OF_EACH", kept)
        patch.setattr(rounds, "IDS_AT_ONCE", ids)
        patch.setattr("fpstore.living.snapshot.IDS_AT_ONCE", ids)
        yield


def play(store: fpstore.Store, history: Sequence[tuple[str, object]], with_ids: bool) -> set[Row]:
    """What the store holds at the end."""
    held: set[Row] = set()
    for name, value in history:
        if name == "flush":
            store._flush()
            continue
        assert isinstance(value, list)
        if name == "add":
            rows = [(key, number if with_ids else None) for key, number in value]
            held |= set(rows)
            store.add(u64([key for key, _ in rows]), ids=u64([number for _, number in rows]) if with_ids else None)
        elif name == "remove pairs":
            if with_ids:
                store.remove(fingerprints=u64([key for key, _ in value]), ids=u64([number for _, number in value]))
                held -= set(value)
        elif name == "remove ids" and with_ids:
            numbers = {key % 10 for key in value}
            store.remove(ids=u64(sorted(numbers)))
            held = {row for row in held if row[1] not in numbers}
        else:
            store.remove(fingerprints=u64(value))
            held = {row for row in held if row[0] not in value}
    return held


def by_brute_force(held: set[Row], queries: Sequence[int], k: int) -> list[tuple[int, int, int, int | None]]:
    found = []
    for index, query in enumerate(queries):
        near = [((query ^ key).bit_count(), key, number or 0, number) for key, number in held]
        near = [row for row in near if row[0] <= k]
        if near:
            distance, key, _, number = min(near, key=lambda row: row[:3])
            found.append((index, key, distance, number))
    return found


@pytest.mark.slow
@given(histories, st.lists(keys, min_size=1, max_size=12), st.integers(0, K), st.booleans())
def test_the_nearest_is_that_of_brute_force_whatever_was_removed(
    history: list[tuple[str, object]], queries: list[int], k: int, with_ids: bool
) -> None:
    with TemporaryDirectory() as folder, small_rounds():
        path = Path(folder) / "s"
        fpstore.create(path, id_type="uint64" if with_ids else None, plan="paper-4").close()
        with writer_of(path, growth=0) as store:
            held = play(store, history, with_ids)
            expected = by_brute_force(held, queries, k)
            assert list(store.nearest_many(u64(queries), max_distance=k)) == expected
            for index, query in enumerate(queries):
                assert store.contains_near(query, max_distance=k) is (index in {row[0] for row in expected})


@pytest.mark.parametrize("flushed", [True, False])
def test_rows_that_were_removed_as_pairs_are_among_no_nearest_few(tmp_path: Path, flushed: bool) -> None:
    fpstore.create(tmp_path / "s", plan="paper-4").close()
    with writer_of(tmp_path / "s", growth=0) as store:
        store.add([5, 5, 5, 4], ids=[1, 2, 3, 1])
        if flushed:
            store._flush()
        store.remove(fingerprints=[5, 4], ids=[1, 7])
        for count, ids in ((1, [2]), (2, [2, 3]), (3, [2, 3, 1]), (5, [2, 3, 1])):
            assert [row.id for row in store.nearest(5, count)] == ids
        assert [row.id for row in store.nearest_many([5], 2)] == [2, 3]


@pytest.mark.parametrize("flushed", [True, False])
def test_of_one_fingerprint_the_least_ids_are_the_first_few(tmp_path: Path, flushed: bool) -> None:
    fpstore.create(tmp_path / "s", plan="paper-4").close()
    numbers = np.random.default_rng(3).permutation(10_000).astype(np.uint64)
    with writer_of(tmp_path / "s", growth=0) as store:
        store.add(np.full(10_000, 7, dtype=np.uint64), ids=numbers)
        store.add([7, 6], ids=[5, 20_000])
        if flushed:
            store._flush()
        store.remove(ids=[0, 2])
        expected = [(0, 6, 0, 20_000)] + [(0, 7, 1, number) for number in (1, 3, 4)]
        assert list(store.nearest_many([6], 4)) == expected
        assert list(store.nearest_many([63 << 40], 4, max_distance=3)) == list(store.nearest_many([], 4)) == []
        assert len(store.nearest_many([7], 20_000)) == 9999


@pytest.mark.slow
@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("with_ids", [True, False])
def test_where_most_of_what_is_near_was_removed_the_rest_is_found(
    tmp_path: Path, flushed: bool, with_ids: bool
) -> None:
    near = u64(sorted(1 << a | 1 << b | 1 << c for a in range(40) for b in range(a) for c in range(b)))  # 9,880 of them
    fpstore.create(tmp_path / "s", id_type="uint64" if with_ids else None, plan="paper-4").close()
    queries = u64([0, 0, 1 << 50])
    with small_rounds(queries=1, kept=1000), writer_of(tmp_path / "s", growth=0) as store:
        store.add(near, ids=ids_from(0, len(near)) if with_ids else None)
        if flushed:
            store._flush()
        for left in (5, 1, 0):
            store.remove(fingerprints=near[: len(near) - left])
            expected = [(query, int(near[-left]), 3, len(near) - left) for query in (0, 1)] if left else []
            found = [(*row[:3], row[3] or expected[0][3]) for row in store.nearest_many(queries, max_distance=3)]
            assert found == expected
            assert store.contains_near(0) is (left > 0)


@pytest.mark.parametrize("flushed", [True, False])
def test_the_least_id_that_was_not_removed_is_found_among_many(tmp_path: Path, flushed: bool) -> None:
    fpstore.create(tmp_path / "s", plan="paper-4").close()
    numbers = np.random.default_rng(3).permutation(5000).astype(np.uint64)
    with small_rounds(ids=100), writer_of(tmp_path / "s", growth=0) as store:
        store.add(np.full(5000, 7, dtype=np.uint64), ids=numbers)
        if flushed:
            store._flush()
        store.remove(ids=ids_from(0, 4990))
        assert list(store.nearest_many([6, 7])) == [(0, 7, 1, 4990), (1, 7, 0, 4990)]
        store.remove(ids=ids_from(4990, 10))
        assert list(store.nearest_many([6, 7])) == []
        store.add([7], ids=[3])
        assert list(store.add_if_new([7, 6, 1 << 40], ids=[8, 9, 10])) == [
            (False, (0, 7, 0, 3)),
            (False, (1, 7, 1, 3)),
            (True, None),
        ]


def test_a_pending_row_added_after_the_snapshot_takes_no_place(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", plan="paper-4") as store:
        store.add([0b111], ids=[1])
        before = store._latest
        store.add([0b011, 0b111], ids=[2, 0])
        assert list(before.nearest(u64([0b001]), K)) == [(0, 0b111, 2, 1)]
        # Of several in another way.
        assert list(before.nearest(u64([0b001, 0b101]), K)) == [(0, 0b111, 2, 1), (1, 0b111, 1, 1)]
        assert list(store.nearest_many([0b001])) == [(0, 0b011, 1, 2)]
        assert list(store.nearest_many([0b111])) == [(0, 0b111, 0, 0)]


# --- The parts of it ---


def test_of_several_sources_the_least_distance_then_fingerprint_then_id_is_the_nearest() -> None:
    one: Nearest = (np.array([0, 2]), u64([7, 9]), np.array([1, 2], dtype=np.uint16), u64([4, 4]))
    other: Nearest = (np.array([0, 1, 2]), u64([7, 3, 8]), np.array([1, 0, 2], dtype=np.uint16), u64([2, 9, 6]))
    columns = nearest_of([one, other])
    assert [column.tolist() for column in columns if column is not None] == [[0, 1, 2], [7, 3, 8], [1, 0, 2], [2, 9, 6]]
    assert nearest_of([one]) is one
    assert nearest_of([(*one[:3], None), (*other[:3], None)])[3] is None


def test_ids_are_read_in_pieces_until_one_lives() -> None:
    ids: Ids = ids_from(0, 1000)
    read: list[int] = []

    def values(firsts: Array, counts: Array) -> Ids:
        read.append(int(counts.sum()))
        return np.concatenate([ids[first : first + count] for first, count in zip(firsts, counts, strict=True)])

    with small_rounds(ids=64):
        found, least = least_live(u64([0, 500, 0]), u64([500, 500, 0]), values, lambda some, _: some > 700)
    assert (found.tolist(), least.tolist()) == ([False, True, False], [0, 701, 0])
    assert max(read) == 64


@pytest.mark.parametrize("flushed", [True, False])
def test_a_search_goes_on_after_a_distance_and_a_fingerprint(tmp_path: Path, flushed: bool) -> None:
    stored, query = u64([0b0001, 0b0010, 0b0100, 0b0011, 0b0111]), u64([0, 0b0111])
    with fpstore.create(tmp_path / "s", id_type=None, plan="paper-4") as store:
        store.add(stored)
        if flushed:
            store._flush()

        def after(bits: list[int], keys: list[int], keep: int) -> list[tuple[int, int]]:
            least = np.array(bits, dtype=np.uint16)
            if flushed:
                found = nearest_in(store._segments[0].view, query, K, keep, least, u64(keys))
            else:
                found = store._latest.pending.nearest(query, K, len(stored), keep, least, u64(keys))[:3]
            return list(zip(found[0].tolist(), found[1].tolist(), strict=True))

        assert after([1, 0], [1, 7], 2) == [(0, 2), (0, 4), (1, 3), (1, 1)]
        assert after([1, 1], [4, 3], 1) == [(0, 3), (1, 1)]
        assert after([3, 2], [7, 4], 9) == []


def test_arguments_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    one, two = u64([5]), u64([5, 6])
    with fpstore.create(tmp_path / "s", plan="paper-4") as writer:
        writer.add(two, ids=two)
        writer._flush()
        writer.add([9], ids=[9])
    with fpstore.open(tmp_path / "s") as store:
        (segment,) = store._segments
        pending = store._latest.pending
        assert segment.ids is not None
        with pytest.raises(ValueError, match="1 distances and 2 fingerprints for 2 queries"):
            nearest_in(segment.view, two, 1, 1, np.zeros(1, dtype=np.uint16), two)
        with pytest.raises(ValueError, match="2 distances and 1 fingerprints for 2 queries"):
            pending.nearest(two, 1, 1, 1, np.zeros(2, dtype=np.uint16), one)
        with pytest.raises(ValueError, match="1 starts and 2 counts of ids"):
            segment.ids.values(one, two)
        with pytest.raises(ValueError, match="ids 1 and 2 on: the segment has 2"):
            segment.ids.values(u64([1]), u64([2]))
        for use in (pending.nearest, lambda keys, k, end: pending.least_ids(keys.astype(np.uint32), end)):
            with pytest.raises(ValueError, match="rows up to 2: there are 1"):
                use(one, 1, 2)
        with pytest.raises(ValueError, match="rows up to 2: there are 1"):
            list(pending.walk(one.astype(np.uint32), 2, 10))
    with (
        fpstore.create(tmp_path / "without", id_type=None) as store,
        pytest.raises(ValueError, match="without ids"),
    ):
        store._latest.pending.least_ids(np.empty(0, dtype=np.uint32), 0)


# --- Memory ---

MEASURED = """
import fpstore, numpy as np, re, sys
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
def at_first():
    open("/proc/self/clear_refs", "w").write("5")
    return peak()
path, count, flushed = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "flushed"
page = np.uint64(0x123456789ABCDEF0)
with fpstore.create(path, plan="paper-4") as store:
    for first in range(0, count, 50_000):
        store.add(np.full(50_000, page), ids=np.arange(first, first + 50_000, dtype=np.uint64))
    if flushed:
        store._flush()
    store.remove(ids=[0, 2])
    store.contains_near(5)
    queries = page ^ (np.uint64(1) << np.arange(256, dtype=np.uint64) % np.uint64(64))
    before = at_first()
    found = store.add_if_new(queries, ids=np.arange(256, dtype=np.uint64) + np.uint64(1 << 40))
    assert not found.stored.any() and (found.match_id == 1).all() and (found.match_fingerprint == page).all()
    assert store.contains_near(int(page))
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("flushed", ["flushed", "pending"])
def test_a_fingerprint_with_a_hundred_thousand_ids_takes_no_room_for_them(tmp_path: Path, flushed: str) -> None:
    # A row for each query and id would be 256 * 10^5 * 26 bytes, 635 MiB.
    done = run_python(MEASURED, tmp_path / "s", 100_000, flushed)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20 << 20


# --- The nearest few ---


def rows_near(held: set[Row], query: int, k: int, count: int) -> list[tuple[int, int, int | None]]:
    near = [((query ^ key).bit_count(), key, number) for key, number in held if (query ^ key).bit_count() <= k]
    return [(key, distance, number) for distance, key, number in sorted(near, key=lambda row: (*row[:2], row[2] or 0))][
        :count
    ]


@pytest.mark.slow
@given(
    histories,
    st.lists(keys, min_size=1, max_size=12),
    st.integers(0, K),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([1, 2, 3, 1000]),
)
def test_the_nearest_few_are_those_of_brute_force_whatever_is_held_at_once(
    history: list[tuple[str, object]], queries: list[int], k: int, count: int, with_ids: bool, held_at_once: int
) -> None:
    with TemporaryDirectory() as folder, small_rounds(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.living.radius.FIRST_QUERIES", held_at_once)
        patch.setattr("fpstore.living.snapshot.Snapshot.min_slice", 1)
        patch.setattr(snapshot, "FIRST_IDS_AT_ONCE", 2 * held_at_once)
        path = Path(folder) / "s"
        fpstore.create(path, id_type="uint64" if with_ids else None, plan="paper-4").close()
        with writer_of(path, growth=0) as store:
            held = play(store, history, with_ids)
            expected = [
                (index, *row) for index, query in enumerate(queries) for row in rows_near(held, query, k, count)
            ]
            assert list(store.nearest_many(u64(queries), count, max_distance=k)) == expected
            one = store.nearest(queries[0], count, max_distance=k)
            assert [tuple(row) for row in one] == [row for row in expected if row[0] == 0]


def first_rows_of(matches: fpstore.Matches, count: int) -> list[Any]:
    seen: dict[int, int] = {}
    rows = []
    for row in matches:
        seen[row.query] = seen.get(row.query, 0) + 1
        rows += [row] * (seen[row.query] <= count)
    return rows


def test_the_nearest_few_of_many_queries_are_numbered_through(tmp_path: Path) -> None:
    stored = np.arange(4000, dtype=np.uint64) << np.uint64(20)
    with fpstore.build(tmp_path / "s", stored) as store:
        for count in (1, 2):
            found = store.nearest_many(stored, count, max_distance=1, threads=2)
            whole = store.probe_many(stored, max_distance=1)
            assert list(found) == first_rows_of(whole, count)
            assert found.query[::count].tolist() == list(range(4000))
        assert store.nearest_many([], 3) == store.probe_many([])


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_a_number_of_nearest_that_is_none_is_refused(tmp_path: Path, count: Any) -> None:
    with fpstore.build(tmp_path / "s", [5]) as store:
        for ask in (partial(store.nearest, 5), partial(store.nearest_many, [5])):
            with pytest.raises((TypeError, ValueError), match="count: found"):
                ask(count)


def test_faiss_and_others_say_k_which_is_no_number_of_neighbours_here(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [5]) as store, pytest.raises(TypeError, match="k"):
        store.nearest(5, k=10)  # type: ignore[call-arg]


NAMED = [f"{number:03}" for number in range(20)]


def test_of_names_one_query_with_too_many_rows_says_so_where_more_than_the_nearest_is_asked(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [5] * 20 + [6], ids=[*NAMED, "x"], id_type="string") as store:
        store.max_matches = 10
        assert len(store.nearest(5)) == 1
        with pytest.raises(fpstore.TooManyMatches):
            store.nearest(5, 2)
    with fpstore.build(tmp_path / "numbers", [5] * 20 + [6]) as store:
        store.max_matches = 10
        assert len(store.nearest(5, 2)) == 2  # numbers are in order, so no more rows than these are held


@pytest.mark.parametrize("held_at_once", [1, 21, 1000])
def test_of_names_the_nearest_few_are_those_of_a_probe_however_few_are_asked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_at_once: int
) -> None:
    monkeypatch.setattr("fpstore.store.SLICE_MATCHES", held_at_once)
    with fpstore.build(tmp_path / "s", [5] * 20 + [6], ids=[*reversed(NAMED), "x"], id_type="string") as store:
        queries = [4, 5, 1 << 40, 7]
        for count in (2, 20, 30):
            found = store.nearest_many(queries, count, max_distance=2)
            assert list(found) == first_rows_of(store.probe_many(queries, max_distance=2), count)


@pytest.mark.parametrize("where", ["pending", "segment", "both"])
@pytest.mark.parametrize("count", [1, 2, 65])
def test_of_many_times_more_than_are_kept_the_first_are_those_of_brute_force(
    tmp_path: Path, where: str, count: int
) -> None:
    """So many that what is behind the last that is kept is left out as it is met, in any order."""
    source = np.random.default_rng(count)
    rows = np.unique(source.integers(0, 1 << 16, 9000)).astype(np.uint64)
    rows = source.permutation(rows)
    queries = u64([0, 5, 0xFFFF, 0x0F0F, 1 << 60])
    with fpstore.create(tmp_path / "s.fpstore", max_distance=8) as store:
        half = len(rows) // 2 if where == "both" else len(rows)
        store.add(rows[:half], ids=np.arange(half, dtype=np.uint64))
        if where != "pending":
            store._flush()
        store.add(rows[half:], ids=np.arange(half, len(rows), dtype=np.uint64))
        found = store.nearest_many(queries, count, max_distance=8)
    expected = []
    for index, query in enumerate(queries.tolist()):
        near = sorted(((query ^ key).bit_count(), key, place) for place, key in enumerate(rows.tolist()))
        expected += [(index, key, bits, place) for bits, key, place in near if bits <= 8][:count]
    assert [tuple(row) for row in found] == expected


@pytest.mark.parametrize("most", [1, 3, 20])
@pytest.mark.parametrize("at_once", [1, 8, 1000])
def test_few_ids_are_read_at_a_time_for_the_first_that_live(
    monkeypatch: pytest.MonkeyPatch, most: int, at_once: int
) -> None:
    monkeypatch.setattr(rounds, "IDS_AT_ONCE", at_once)
    counts = [0, 1, 5, 100, 40]
    firsts = np.cumsum([0, *counts[:-1]]).astype(np.uint64)
    read: list[int] = []

    def values(starts: Array, some: Array) -> Ids:
        groups = [np.arange(int(start), int(start) + int(count)) for start, count in zip(starts, some, strict=True)]
        read.append(sum(map(len, groups)))
        assert read[-1] <= max(at_once, most * len(groups))
        return np.concatenate(groups).astype(np.uint64)

    groups, ids = first_live(firsts, u64(counts), most, values, lambda ids, _: ids % np.uint64(7) == 3)
    for group, (first, count) in enumerate(zip(firsts.tolist(), counts, strict=True)):
        alive = [id for id in range(first, first + count) if id % 7 == 3]
        own = sorted(ids[groups == group].tolist())
        assert own[:most] == alive[:most]
        assert own == alive[: len(own)]  # those of the last round are not cut
    # No more than is needed where that is few: of groups that have enough nothing is read any more.
    assert len(read) == 1 or sum(read[:-1]) < sum(counts)


def test_tools_see_the_compiled_call_as_a_method_with_its_types() -> None:
    call = fpstore.Store.nearest
    assert call.__qualname__ == "Store.nearest"
    assert (call.__doc__ or "").startswith("The count rows that are nearest")
    own = {"fingerprint": int | bytes, "count": int, "max_distance": int | None, "return": Matches}
    assert get_type_hints(call) == own
    signature = "(self, fingerprint: int | bytes, count: int = 1, *, max_distance: int | None = None)"
    assert str(inspect.signature(call)).startswith(signature)


def test_of_many_queries_some_teach_the_others_how_near_is_near_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 12 bits the first ones find what lies within 1, so that the others are not looked for so far."""
    keys = np.arange(1000, dtype=np.uint64) << np.uint64(40)
    asked: list[tuple[int, int]] = []
    within = radius._within

    def counted(snapshot: Any, queries: Any, distance: int, count: int, team: Any) -> Any:
        asked.append((len(queries), distance))
        return within(snapshot, queries, distance, count, team)

    monkeypatch.setattr(radius, "_within", counted)
    monkeypatch.setattr(radius, "_radii", lambda snapshot, distance, count: ([2, 12], [0.1, 0.11], False))
    with fpstore.build(tmp_path / "s", keys, ids=None, max_distance=3) as store:
        found = store.nearest_many(keys ^ np.uint64(1), max_distance=64)
    assert (found.fingerprint == keys).all()
    assert asked == [(33, 12), (967, 2)]  # one of 31, as 32 are enough
