"""Streaming a segment past sorted queries gives what probing gives."""

from contextlib import closing
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from helpers import KINDS, brute_force, difference_count, distinct, product_plans, queries_near, segment_of, uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies._internal.core import DataObject

from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.query import batch, ways
from fpstore.query.pairs import window_shape
from fpstore.segment.reader import Segment
from fpstore.threads import Threads

PLANS = product_plans()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    plan=st.sampled_from(PLANS),
    kind=st.sampled_from(sorted(KINDS)),
    count=st.sampled_from([0, 1, 2, 50, 700]),
    slot_bits=st.integers(0, 6),
    seed=st.integers(0, 1 << 30),
    data=st.data(),
)
def test_streaming_is_exact(plan: Plan, kind: str, count: int, slot_bits: int, seed: int, data: DataObject) -> None:
    if planner.predict(plan, 700).probes > 20_000:  # more joins than a quick test has time for
        plan = plans.paper("paper-4")
    k = data.draw(st.integers(0, plan.max_distance))
    rng = np.random.default_rng(seed)
    stored = distinct(KINDS[kind](count, rng))
    queries = queries_near(stored, k, 60, rng)
    with segment_of(stored, plan, slot_bits=slot_bits) as segment:
        assert difference_count(batch.stream(segment, queries, k), brute_force(stored, queries, k)) == 0


def test_a_query_asked_twice_is_answered_twice() -> None:
    rng = np.random.default_rng(5)
    stored = distinct(KINDS["clustered"](2000, rng))
    queries = queries_near(stored, 3, 40, rng)
    queries = np.repeat(queries, rng.integers(1, 4, len(queries)))
    rng.shuffle(queries)
    with segment_of(stored, plans.named("flips-3:1,0,0", 3)) as segment:
        assert difference_count(batch.stream(segment, queries, 3), brute_force(stored, queries, 3)) == 0


def test_queries_at_the_ends_of_chunks_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "CHUNK_KEYS", 500)
    ends = (np.arange(64, dtype=np.uint64) << np.uint64(58)) + np.uint64((1 << 58) - 1)
    stored = distinct(np.concatenate([ends, ends - np.uint64((1 << 58) - 1), uniform(6000, np.random.default_rng(8))]))
    queries = np.concatenate([ends, ends - np.uint64((1 << 58) - 1)])
    with segment_of(stored, plans.flips(1, (0,), 0)) as segment:
        assert difference_count(batch.stream(segment, queries, 0), brute_force(stored, queries, 0)) == 0


def test_no_queries_have_no_matches() -> None:
    with segment_of(KINDS["uniform"](100, np.random.default_rng(1)), plans.paper("paper-4")) as segment:
        assert [len(column) for column in batch.stream(segment, np.empty(0, dtype=np.uint64), 3)] == [0, 0, 0]


@pytest.mark.parametrize("name", ["flips-2:1,1", "flips-3:1,0,0", "paper-10"])
def test_many_chunks_in_several_threads_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "CHUNK_KEYS", 500)
    rng = np.random.default_rng(7)
    stored = distinct(KINDS["clustered"](20_000, rng))
    queries = queries_near(stored, 3, 2000, rng)
    with segment_of(stored, plans.named(name, 3)) as segment, closing(Threads(3)) as threads:
        assert difference_count(batch.stream(segment, queries, 3, threads.map), brute_force(stored, queries, 3)) == 0


def shaped(plan: Plan, n: int) -> Segment:
    """What is asked of a segment of so many keys by who says what it takes."""
    tables = [
        SimpleNamespace(
            prefix_mask=table.prefix_mask, flips=table.flips, slot_bits=planner.slot_bits(n, plan.slot_keys)
        )
        for table in plan.tables
    ]
    return cast(Segment, SimpleNamespace(key_count=n, tables=tables, view=SimpleNamespace(bits=plan.bits)))


@pytest.mark.parametrize("aim", planner.AIMS)
@pytest.mark.parametrize("k", [0, 1, 3, 5, 8, 10])
@pytest.mark.parametrize("n", [1, 10**5, 10**6, 10**7, 10**9])
def test_more_queries_take_more_together_and_less_each_and_what_is_streamed_stays_so(n: int, k: int, aim: str) -> None:
    plan = planner.choose(n, k, aim)
    segment = shaped(plan, n)
    counts = [ways.MIN_STREAMED * 5**power // 4**power for power in range(60)]
    taken = [batch.streaming_nanoseconds(segment, count, k) for count in counts]
    methods = [ways.way_to_all(segment, plan, k, count).method for count in counts]
    for index, (count, more) in enumerate(pairwise(counts)):
        assert taken[index] < taken[index + 1]
        assert taken[index] / count > taken[index + 1] / more
        assert methods[index] != "stream" or methods[index + 1] == "stream"


@pytest.mark.parametrize("n", [10**5, 10**7])
def test_what_pieces_take_is_what_a_stream_takes(n: int) -> None:
    segment = shaped(planner.choose(n, 8, "balanced"), n)
    each = batch.piece_nanoseconds(segment, 10**4, 8)
    assert len(each) == len(batch.pieces(segment, 8))
    assert sum(each) == pytest.approx(batch.streaming_nanoseconds(segment, 10**4, 8))


def test_a_stream_takes_its_keys_its_flips_its_queries_and_what_these_meet() -> None:
    n, k, count = 10**5, 3, 20_000  # all windows are in a second-level cache
    plan = plans.flips(2, (2, 0), k)
    windows, patterns = 1 << 16, 1 + 16 + 16 * 15 // 2
    met = sum(5.0 + 0.5 * n / windows for _ in range(patterns + 1))
    expected = 2 * 8.0 * n + 11000.0 * (patterns + 1) + (2 * 20.0 + met) * count
    assert batch.streaming_nanoseconds(shaped(plan, n), count, k) == pytest.approx(expected)


def test_windows_out_of_the_caches_take_longer_the_fewer_queries_come_to_them() -> None:
    n, plan = 10**7, plans.flips(1, (3,), 3)

    def joined(count: int) -> float:
        """What a query takes of the joins alone."""
        taken = [batch.streaming_nanoseconds(shaped(plan, n), each, 3) for each in (0, count)]
        return (taken[1] - taken[0]) / count

    patterns = planner.pattern_count(*window_shape(shaped(plan, n), 0, 3))
    near, far = joined(10**10) / patterns, joined(10) / patterns
    assert far - near == pytest.approx(16.0 * (1 - (2 << 20) / (8 * n / 8)), rel=0.01)


def test_streaming_costs_less_than_probing_only_for_large_batches() -> None:
    plan = planner.choose(10**6, 3, "balanced")
    with segment_of(KINDS["uniform"](50_000, np.random.default_rng(1)), plan) as segment:
        probing = planner.predict(plan, 50_000).nanoseconds
        assert batch.streaming_nanoseconds(segment, 10, 3) > 10 * probing
        assert batch.streaming_nanoseconds(segment, 10**6, 3) < 10**6 * probing
