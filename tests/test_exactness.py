"""Every plan and every codec answers exactly as brute force does, on fingerprints of every kind."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from helpers import (
    CODECS,
    KINDS,
    LAST,
    Matches,
    brute_force,
    difference_count,
    distinct,
    fingerprint_array,
    flipped,
    key_sets,
    product_plans,
    queries_near,
    scattered_choose,
    scattered_flips,
    search_differences,
    segment_of,
    uniform,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fpstore._probe import search
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.types import Keys

PLANS = product_plans()
SEED = st.integers(0, 2**32 - 1)


def within(matches: Matches, k: int) -> Matches:
    """Those of a larger distance's answer, in the same order."""
    keep = matches[2] <= k
    return matches[0][keep], matches[1][keep], matches[2][keep]


def kinds_for(plan_index: int) -> list[str]:
    """Every kind for some plan, and for each plan most kinds: the whole product would take minutes."""
    names = list(KINDS)
    return [names[(plan_index + step) % len(names)] for step in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("plan_index", range(len(PLANS)), ids=[f"{plan.name}-k{plan.max_distance}" for plan in PLANS])
def test_a_plan_finds_what_brute_force_finds(plan_index: int) -> None:
    plan = PLANS[plan_index]
    plan.prove()
    rng = np.random.default_rng(plan_index)
    for turn, kind in enumerate(kinds_for(plan_index)):
        stored = distinct(KINDS[kind](900, rng))
        queries = queries_near(stored, plan.max_distance, 60, rng)
        expected = brute_force(stored, queries, plan.max_distance)
        layouts = ((None, 0), (0, 0), (3, 100), (9, 0))
        for codec, (slot_bits, block_bytes) in zip(np.roll(CODECS, turn), layouts, strict=True):
            laid = replace(plan, block_bytes=block_bytes)
            with segment_of(stored, laid, codec=str(codec), slot_bits=slot_bits) as segment:
                for k in {0, plan.max_distance // 2, max(0, plan.max_distance - 1), plan.max_distance}:
                    found = search(segment.view, queries, k)
                    assert difference_count(found, within(expected, k)) == 0, (kind, codec, slot_bits, laid.layout, k)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("block_bytes", [0, 1024])
def test_every_kind_with_every_codec_and_every_distance(kind: str, codec: str, block_bytes: int) -> None:
    rng = np.random.default_rng(7)
    stored = distinct(KINDS[kind](4000, rng))
    for plan in (plans.paper("paper-10"), plans.flips(2, (1, 1), 3), plans.flips(1, (4,), 4)):
        queries = queries_near(stored, plan.max_distance, 120, rng)
        expected = brute_force(stored, queries, plan.max_distance)
        with segment_of(stored, replace(plan, block_bytes=block_bytes), codec=codec) as segment:
            for k in range(plan.max_distance + 1):
                assert difference_count(search(segment.view, queries, k), within(expected, k)) == 0, (plan.name, k)


@st.composite
def scattered_plans(draw: st.DrawFn) -> Plan:
    """Tables over bands of any bits, table 0 no identity."""
    rng = np.random.default_rng(draw(SEED))
    k = draw(st.integers(0, 4))
    if draw(st.booleans()):
        return scattered_flips(draw(st.integers(1, k + 1)), k, rng)
    return scattered_choose(draw(st.integers(k + 1, k + 2)), k, rng)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.sampled_from([plan for plan in PLANS if len(plan.tables) <= 20]), scattered_plans()),
    key_sets(),
    st.sampled_from(CODECS),
    st.sampled_from([0, 1, 2, 5, 8]),
    st.sampled_from([0, 64, 300]),
    SEED,
)
@example(plans.flips(1, (0,), 0), [0, LAST], "gap", 0, 0, 0)
@example(plans.flips(1, (0,), 0), [0, LAST], "gap", 0, 64, 0)
@example(plans.flips(2, (1, 1), 3), [0], "rice", 8, 0, 0)
@example(plans.flips(2, (1, 1), 3), [0], "rice", 8, 64, 0)
@example(plans.paper("paper-20"), [], "xor", 2, 0, 0)
@example(plans.paper("paper-20"), [], "xor", 2, 64, 0)
def test_any_set_under_any_plan_is_searched_exactly(
    plan: Plan, keys: list[int], codec: str, slot_bits: int, block_bytes: int, seed: int
) -> None:
    stored = fingerprint_array(keys)
    queries = queries_near(stored, plan.max_distance, 40, np.random.default_rng(seed))
    with segment_of(stored, replace(plan, block_bytes=block_bytes), codec=codec, slot_bits=slot_bits) as segment:
        assert search_differences(segment, stored, queries, plan.max_distance) == 0


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("plan", [plans.paper("paper-4"), plans.flips(3, (1, 0, 0), 3), plans.flips(1, (2,), 2)])
def test_tiny_sets_are_searched_exactly(count: int, plan: Plan) -> None:
    ends = [0, LAST, 1, 1 << 63]
    for keys, codec, block_bytes in itertools.product(itertools.combinations(ends, count), CODECS, (0, 64)):
        stored = distinct(fingerprint_array(list(keys)))
        near = [key ^ 1 << bit for key in ends for bit in range(64)]
        with segment_of(stored, replace(plan, block_bytes=block_bytes), codec=codec) as segment:
            assert search_differences(segment, stored, fingerprint_array(ends + near), plan.max_distance) == 0


def test_every_error_pattern_of_a_plan_is_found_around_one_fingerprint() -> None:
    # All 43,745 neighbours within 3 of one fingerprint among strangers: no band is special.
    rng = np.random.default_rng(8)
    centre = int(uniform(1, rng)[0])
    patterns = [sum(1 << bit for bit in bits) for size in range(4) for bits in itertools.combinations(range(64), size)]
    assert len(patterns) == 1 + 64 + 2016 + 41664
    stored = distinct(np.concatenate([uniform(2000, rng), fingerprint_array([centre])]))
    queries = fingerprint_array([centre ^ pattern for pattern in patterns])
    of_paper = (plans.paper("paper-4"), plans.paper("paper-16"))
    for plan in (*of_paper, plans.flips(2, (1, 1), 3), scattered_flips(3, 3, rng)):
        with segment_of(stored, plan) as segment:
            query, fingerprint, distance = search(segment.view, queries, 3)
        assert query.tolist() == list(range(len(queries)))
        assert set(fingerprint.tolist()) == {centre}
        assert distance.tolist() == [pattern.bit_count() for pattern in patterns]


def test_every_neighbour_is_found_from_the_fingerprint_they_surround() -> None:
    rng = np.random.default_rng(9)
    centre = int(uniform(1, rng)[0])
    sizes = range(4)
    near = [centre ^ sum(1 << bit for bit in bits) for n in sizes for bits in itertools.combinations(range(64), n)]
    stored = distinct(fingerprint_array(near))
    for plan, codec in zip((plans.paper("paper-10"), plans.flips(3, (1, 0, 0), 3)), ("gap", "rice"), strict=True):
        with segment_of(stored, plan, codec=codec) as segment:
            query, fingerprint, distance = search(segment.view, fingerprint_array([centre]), 3)
            assert len(query) == len(stored)
            assert np.array_equal(np.sort(fingerprint), stored)
            assert np.bincount(distance).tolist() == [1, 64, 2016, 41664]


# Crowded slots, whose blocks are passed over where their bounds tell that no key of them is near.


@pytest.mark.parametrize(
    "plan",
    ["flips-2:1,1", "flips-3:1,0,0", "flips-3:0,1,0", "parts-2:2", "parts-3:2", *plans.PAPER_NAMES],
    ids=lambda name: name,
)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_crowded_keys_are_searched_exactly(plan: str, seed: int | None) -> None:
    rng = np.random.default_rng(11)
    stored = distinct(uniform(1, rng) >> np.uint64(31) << np.uint64(31) | uniform(100_000, rng) >> np.uint64(33))
    # Errors anywhere, and errors in the bits that the keys do not share only: those have more matches.
    queries = np.concatenate([queries_near(stored, 3, 30, rng), rng.choice(stored, 30)])
    queries[-30:] ^= flipped(np.zeros(30, dtype=np.uint64), rng.integers(0, 5, 30), rng) & np.uint64((1 << 31) - 1)
    expected = brute_force(stored, queries, 3)
    chosen = plans.named(plan, 3)
    with segment_of(stored, chosen if seed is None else chosen.shuffled(seed)) as segment:
        assert max(table.fence_count for table in segment.tables) > 700
        for k in range(4):
            assert difference_count(search(segment.view, queries, k), within(expected, k)) == 0, k


@st.composite
def crowds(draw: st.DrawFn) -> Keys:
    """Keys that share all bits but some drawn ones: many blocks of one slot, some of them ending at a power of two."""
    rng = np.random.default_rng(draw(SEED))
    free = np.uint64(draw(st.integers(0, LAST)) & draw(st.integers(0, LAST)))
    drawn = uniform(draw(st.integers(129, 3000)), rng) & free
    if draw(st.booleans()):
        drawn = np.concatenate([drawn, np.arange(400, dtype=np.uint64) << np.uint64(draw(st.integers(0, 55)))])
    return distinct(drawn ^ (uniform(1, rng) & ~free))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.sampled_from([plan for plan in PLANS if len(plan.tables) <= 20]), scattered_plans()),
    crowds(),
    st.sampled_from(CODECS),
    st.sampled_from([0, 1, 3]),
    SEED,
)
def test_any_crowd_under_any_plan_is_searched_exactly(
    plan: Plan, stored: Keys, codec: str, slot_bits: int, seed: int
) -> None:
    queries = queries_near(stored, plan.max_distance, 40, np.random.default_rng(seed))
    expected = brute_force(stored, queries, plan.max_distance)
    with segment_of(stored, plan.shuffled(seed) if seed % 2 else plan, codec=codec, slot_bits=slot_bits) as segment:
        for k in range(plan.max_distance + 1):
            assert difference_count(search(segment.view, queries, k), within(expected, k)) == 0, k
