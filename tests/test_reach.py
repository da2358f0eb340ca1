"""Beyond a plan's distance: more flips, the cheapest way, a radius that grows, and what is said of the cost."""

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from helpers import KINDS, ask_by, brute_force, distinct, segment_of
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome import Command

import fpstore
from fpstore.errors import PlanError, StoreWarning, TooManyMatches
from fpstore.format import CODECS
from fpstore.living import radius
from fpstore.living.radius import SHARE
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.plans.reach import lookup_nanoseconds, reaching
from fpstore.query import ways
from fpstore.query.ways import Lookup, Scan, way_of, way_to_all
from fpstore.threads import Threads
from fpstore.types import Keys

SOME_PLANS = ["flips-1:2", "flips-2:1,0", "flips-3:1,0,0", "flips-4:1,1,1,0"]
SOME_PLANS += ["paper-4", "choose-5", "parts-2:2", "paper-16"]


def u64(values: Any) -> Keys:
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize("name", SOME_PLANS)
def test_more_flips_are_exact_and_no_more_than_a_scan_costs(name: str) -> None:
    distance = 2 if name in ("flips-1:2", "flips-2:1,0") else 3
    plan = Plan.named(name, max_distance=distance)
    assert reaching(plan, distance, 10**6) is plan
    reached = distance
    for wider in (reaching(plan, each, 10**7) for each in range(distance + 1, 12)):
        if wider is None:
            break
        reached += 1
        wider.prove()
        assert wider.max_distance == reached
        assert [table.prefix_mask for table in wider.tables] == [table.prefix_mask for table in plan.tables]
        assert planner.predict(wider, 10**7).nanoseconds <= planner.scan_nanoseconds(10**7)
    assert reached >= 5
    assert reaching(plan, 64, 10**7) is None
    assert lookup_nanoseconds(plan, 64, 10**7) == float("inf")


def test_a_plan_too_tangled_to_prove_is_not_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Plan) -> int | None:
        raise PlanError("too tangled")

    plan = plans.flips(2, (2, 1), 4)
    monkeypatch.setattr(Plan, "missed", refuse)
    assert reaching(plan, 5, 10**6 + 7) is None


def test_the_way_is_the_one_that_costs_least(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", np.arange(1000) << 40, max_distance=3) as store:
        (segment,) = store._segments
        for distance, count in itertools.product((0, 3, 4, 9, 64), (1, 100, 10**5)):
            way = way_of(segment, store.plan, distance, count)
            looked_up = lookup_nanoseconds(store.plan, distance, 1000)
            scanned = planner.scan_nanoseconds(1000, count)
            assert way.nanoseconds == min(looked_up, scanned)
            assert way.method == ("probe" if looked_up <= scanned else "scan")


def brute(rows: list[tuple[int, Any]], query: int, count: int, most: int) -> list[tuple[int, int, Any]]:
    near = sorted(((query ^ key).bit_count(), key, id) for key, id in rows)
    return [row for row in near if row[0] <= most][:count]


@pytest.mark.slow
@settings(max_examples=15)
@given(
    codec=st.sampled_from(CODECS),
    data=st.data(),
    name=st.sampled_from(SOME_PLANS[1:]),
    id_type=st.sampled_from(["uint64", "string", None]),
    share=st.sampled_from([0.0, SHARE, float("inf")]),
)
def test_the_nearest_are_those_of_brute_force_however_far(
    codec: Any, data: st.DataObject, name: str, id_type: Any, share: float
) -> None:
    """Two segments, pending rows and removed ones; radii that never grow, grow as they do, and as they can."""
    source = np.random.default_rng(data.draw(st.integers(0, 999)))
    base = int(source.integers(0, 1 << 63))
    kinds: list[Callable[[], int]] = [
        lambda: int(source.integers(0, 1 << 63)),
        lambda: base ^ (1 << int(source.integers(64))) ^ (1 << int(source.integers(64))),
        lambda: int(source.integers(0, 64)),
    ]
    keys = [kinds[int(source.integers(3))]() for _ in range(data.draw(st.integers(0, 90)))]
    distance = 2 if name == "flips-2:1,0" else 3
    ids: list[Any] = [None] * len(keys)
    if id_type is not None:
        ids = [number if id_type == "uint64" else f"{number * 7919 % 997}" for number in range(len(keys))]
    rows = list(zip(keys, ids, strict=True))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(radius, "SHARE", share)
        path = Path(folder) / "s"
        with fpstore.create(path, id_type=id_type, plan=name, max_distance=distance, codec=codec) as store:
            for part in range(3):
                own = rows[part::3]
                if own:
                    store.add(u64([key for key, _ in own]), ids=None if id_type is None else [id for _, id in own])
                if part < 2:
                    store._flush()
            gone = rows[::5]
            if gone and id_type is not None:
                store.remove(ids=[id for _, id in gone])
            elif gone:
                store.remove(fingerprints=u64([key for key, _ in gone]))
            dead = {key for key, _ in gone}
            live = [row for row in rows if row not in gone] if id_type else [(k, None) for k in set(keys) - dead]
            queries = [base, *keys[:3], int(source.integers(0, 1 << 63))]
            for count, most in ((1, None), (3, None), (200, None), (2, 6), (1, 40)):
                found = store.nearest_many(u64(queries), count, max_distance=most)
                expected = [
                    (index, *row)
                    for index, query in enumerate(queries)
                    for row in brute(live, query, count, most or 64)
                ]
                assert [(row.query, row.distance, row.fingerprint, row.id) for row in found] == expected
                one = store.nearest(base, count, max_distance=most)
                assert list(one) == [row for row in found if row.query == 0]


def test_what_is_pending_is_found_beyond_the_plans_distance(tmp_path: Path) -> None:
    keys = np.random.default_rng(4).integers(0, 1 << 63, 20_000, dtype=np.uint64)
    with fpstore.create(tmp_path / "s", id_type=None) as store:
        store.add(keys)
        for distance in (3, 4, 20):
            found = store.probe(int(keys[0]) ^ 0xF0000F, max_distance=distance)
            near = np.bitwise_count(keys ^ keys[0] ^ np.uint64(0xF0000F)) <= distance
            assert sorted(found.fingerprint.tolist()) == sorted(keys[near].tolist())


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("max_distance", [0, 3])
def test_the_nearest_of_one_query_are_found_among_what_is_pending_within_any_radius(
    tmp_path: Path, max_distance: int, indexed: bool
) -> None:
    rng = np.random.default_rng(6)
    keys = rng.integers(0, 1 << 63, 30_000, dtype=np.uint64)
    with fpstore.create(tmp_path / "s", id_type=None, max_distance=max_distance) as store:
        store.add(keys[:20_000])
        store._flush()
        store.add(keys[20_000:])
        if indexed:
            store.probe_many(keys[:100])
        for row in range(20_000, 30_000, 500):
            for far in range(8):
                query = int(keys[row]) ^ sum(1 << 9 * bit for bit in range(far))
                found = store.nearest(query)
                assert (found.fingerprint.tolist(), found.distance.tolist()) == ([int(keys[row])], [far])
                few = store.nearest(query, max_distance=far)
                assert few.fingerprint.tolist() == [int(keys[row])]


def test_what_a_distance_beyond_the_plan_costs_is_said_once_with_what_would_cost_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.random.default_rng(1).integers(0, 1 << 63, 300_000, dtype=np.uint64)
    with fpstore.build(tmp_path / "s", keys, ids=None) as store:
        monkeypatch.setattr(radius, "_told", False)
        with pytest.warns(StoreWarning, match=r"^max_distance: 7 is above the 3 that plan .* is for: .*") as told:
            _ = store.probe_many([5], max_distance=7), store.probe(5, max_distance=8)
        assert len(told) == 1
        assert told[0].filename == __file__
        said = str(told[0].message)
        assert "a store built with max_distance=7 and plan 'speed' would take" in said
        # Which it does.
        with fpstore.build(tmp_path / "t", keys, ids=None, max_distance=7, plan="speed") as better:
            assert better.probe(int(keys[0])).method == "probe"
            (segment,), (other,) = store._segments, better._segments
            assert way_of(other, better.plan, 7, 1).nanoseconds < way_of(segment, store.plan, 7, 1).nanoseconds
        monkeypatch.setattr(radius, "_told", False)
        with pytest.warns(StoreWarning, match="no plan would take much less"):
            store.contains_near(5, max_distance=40)
        monkeypatch.setattr(radius, "_told", False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.probe(5, max_distance=3)
            store.nearest(5)


def test_the_command_line_says_it_in_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpstore.build(tmp_path / "s.fpstore", [0b111111, 1 << 40]).close()
    monkeypatch.setattr(radius, "_told", False)
    found = command("probe", tmp_path / "s.fpstore", "0", "-k", "6")
    assert found.lines == [f"{0:016x}\t{0b111111:016x}\t6\t0", f"{0:016x}\t{1 << 40:016x}\t1\t1"][::-1]
    assert found.err.count("\n") == 1
    assert "max_distance: 6 is above the 3" in found.err


def test_what_needs_the_tables_says_what_to_build_and_that_does_it(tmp_path: Path) -> None:
    keys = u64([0, (1 << 9) - 1, 1 << 60])
    with fpstore.build(tmp_path / "s", keys) as store:
        with pytest.raises(PlanError, match="build the store with max_distance=9"):
            list(store.pairs(max_distance=9))
        with pytest.raises(PlanError, match="build the store with max_distance=9"):
            store.count_pairs(max_distance=9)
        with pytest.raises(PlanError, match="build the store with max_distance=64"):
            store.count_pairs(max_distance=64)
    with pytest.raises(ValueError, match="expected an integer from 0 to 64"):
        fpstore.build(tmp_path / "none", keys, max_distance=65)
    with (
        fpstore.open(tmp_path / "s", "w") as store,
        pytest.raises(PlanError, match="build the store with max_distance=9"),
    ):
        store.add_if_new([5], ids=[7], max_distance=9)
    with fpstore.build(tmp_path / "t", keys, max_distance=9) as store:
        assert store.count_pairs() == 2
    with fpstore.build(tmp_path / "u", keys, max_distance=64) as store:
        assert store.count_pairs() == 3


@pytest.mark.parametrize("kind", ["lookup", "scan"])
def test_each_way_answers_each_question_as_brute_force_does(kind: str) -> None:
    """Of many queries, shared out and numbered, beyond the plan's distance; after what was found; limited; of any."""
    stored = distinct(KINDS["clustered"](3000, np.random.default_rng(9)))
    queries = np.concatenate([np.resize(stored, 2500) ^ np.uint64(0x8400_0000_0421_0001), ~stored[:50]])
    distance, flips, team = 8, (2, 2, 2), Threads(2)
    with segment_of(stored, plans.flips(3, (1, 0, 0), 3)) as segment:
        way = Lookup(segment, distance, flips, team.map) if kind == "lookup" else Scan(segment, distance, team.map)
        query, key, bits = brute_force(stored, queries, distance)
        for found, expected in zip(way.all(queries), (query, key, bits), strict=True):
            assert np.array_equal(found, expected)
        first = np.flatnonzero(np.diff(query, prepend=-1))
        for found, expected in zip(way.nearest(queries), (query[first], key[first], bits[first]), strict=True):
            assert np.array_equal(found, expected)
        asked = queries[query[first]]
        rest = np.setdiff1d(np.arange(len(query)), first)
        after = way.nearest(asked, 1 << 14, bits[first].astype(np.uint16), key[first])
        assert np.array_equal(after[1], key[rest])
        assert np.array_equal(query[first][after[0]], query[rest])
        assert bits.max() == distance
        with pytest.raises(TooManyMatches):
            way.all(queries, len(query) - 1)
        assert len(way.all(queries, len(query))[0]) == len(query)
        for index in range(0, len(queries), 25):
            assert way.any(queries[index : index + 1]) == (index in query)
    team.close()


def test_what_is_streamed_is_within_the_plans_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_by(monkeypatch, "stream")
    plan = plans.flips(3, (1, 0, 0), 3)
    with segment_of(distinct(KINDS["uniform"](300, np.random.default_rng(10))), plan) as segment:
        for distance, expected in ((3, "stream"), (4, "probe")):
            assert way_to_all(segment, plan, distance, 100_000).method == expected


def test_look_ups_of_a_large_batch_are_priced_as_begun_together(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans.flips(3, (1, 0, 0), 3)
    with segment_of(distinct(KINDS["uniform"](300_000, np.random.default_rng(10))), plan) as segment:
        price = lookup_nanoseconds(plan, 3, segment.key_count) - planner.begun_nanoseconds(plan)
        for each, expected in ((price - 1, "stream"), (price + 1, "probe")):
            monkeypatch.setattr(ways, "streaming_nanoseconds", lambda _, count, distance, each=each: each * count)
            assert way_to_all(segment, plan, 3, 100_000).method == expected
