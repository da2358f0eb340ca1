"""Streaming a segment past sorted queries gives what probing gives."""

from contextlib import closing

import numpy as np
import pytest
from helpers import KINDS, brute_force, difference_count, distinct, product_plans, queries_near, segment_of, uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies._internal.core import DataObject

from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.query import batch
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


def test_streaming_costs_less_than_probing_only_for_large_batches() -> None:
    plan = planner.choose(10**6, 3, "balanced")
    with segment_of(KINDS["uniform"](50_000, np.random.default_rng(1)), plan) as segment:
        probing = planner.predict(plan, 50_000).nanoseconds
        assert batch.streaming_nanoseconds(segment, 10, 3) > 10 * probing
        assert batch.streaming_nanoseconds(segment, 10**6, 3) < 10**6 * probing
