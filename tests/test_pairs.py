"""All pairs within a distance: each once, none missed, in a stated budget."""

# mypy: disable-error-code="attr-defined"

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import (
    KINDS,
    LAST,
    distinct,
    fingerprint_array,
    product_plans,
    scattered_choose,
    scattered_flips,
    segment_of,
    uniform,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore import StoreClosed
from fpstore._merge import AnyOrder
from fpstore._pairs import Windows
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.query import pairs
from fpstore.store import Store
from fpstore.types import Keys

SPLIT_BUDGET = 1 << 16


def brute_force_pairs(fingerprints: Keys, k: int) -> list[tuple[int, int, int]]:
    """Every (smaller, larger, distance) within k, sorted."""
    stored = distinct(fingerprints)
    distances = np.bitwise_count(stored[:, None] ^ stored[None, :])
    first, second = np.nonzero(np.triu(distances <= k, 1))
    found = (stored[first].tolist(), stored[second].tolist(), distances[first, second].tolist())
    return list(zip(*found, strict=True))


def found_pairs(store: Store, k: int | None = None, **options: Any) -> list[tuple[int, int, int]]:
    return sorted(pair for pairs in store.pairs(max_distance=k, **options) for pair in pairs)


def built(folder: Path, fingerprints: Keys | list[int], plan: Plan | str = "paper-4", **options: Any) -> Store:
    return fpstore.build(folder / "s", fingerprints, ids=None, plan=plan, **options)


# --- Against brute force ---


@pytest.mark.slow
@pytest.mark.parametrize("plan", product_plans(), ids=lambda plan: f"{plan.name}-k{plan.max_distance}")
def test_every_plan_finds_each_pair_once(tmp_path: Path, plan: Any) -> None:
    fingerprints = KINDS["clustered"](600, np.random.default_rng(plan.max_distance))
    with built(tmp_path, fingerprints, plan, max_distance=plan.max_distance) as store:
        expected = brute_force_pairs(fingerprints, plan.max_distance)
        assert found_pairs(store) == expected
        assert store.count_pairs() == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", ["paper-4", "paper-10", "flips-2:1,1", "flips-3:1,0,0", "flips-1:3"])
def test_every_kind_of_set_gives_each_pair_once(tmp_path: Path, kind: Any, plan: Any) -> None:
    fingerprints = KINDS[kind](1200, np.random.default_rng(8))
    with built(tmp_path, fingerprints, plan) as store:
        for k in (3, 2, 0):
            expected = brute_force_pairs(fingerprints, k)
            assert found_pairs(store, k) == expected
            assert store.count_pairs(max_distance=k) == len(expected)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(st.integers(0, LAST) | st.integers(0, 300) | st.integers(0, 64).map(lambda bit: (1 << bit) - 1)),
    st.integers(0, 1 << 32),
    st.sampled_from([(2, 3), (1, 2), (3, 5), (2, 5), (1, 4)]),
    st.sampled_from(["flips", "choose"]),
)
def test_any_set_under_any_plan_gives_each_pair_once(
    tmp_path_factory: pytest.TempPathFactory,
    fingerprints: list[int],
    seed: int,
    bands_and_k: tuple[int, int],
    kind: str,
) -> None:
    rng = np.random.default_rng(seed)
    bands, k = bands_and_k
    plan = scattered_flips(bands, k, rng) if kind == "flips" else scattered_choose(k + 2, k, rng)
    with built(tmp_path_factory.mktemp("any"), fingerprints, plan, max_distance=k) as store:
        for smaller in (k, k - 1):
            assert found_pairs(store, smaller) == brute_force_pairs(fingerprint_array(fingerprints), smaller)


@pytest.mark.parametrize("fingerprints", [[], [5], [5, 5], [0, 7], [0, 15], [0, LAST], [LAST, LAST - 7]])
def test_tiny_sets_give_each_pair_once(tmp_path: Path, fingerprints: list[int]) -> None:
    with built(tmp_path, fingerprints, "flips-2:1,1") as store:
        assert found_pairs(store) == brute_force_pairs(fingerprint_array(fingerprints), 3)


def test_pairs_come_as_columns_of_their_own(tmp_path: Path) -> None:
    with built(tmp_path, [0, 1, LAST]) as store:
        (pairs,) = store.pairs()
    assert [column.dtype for column in (pairs.first, pairs.second, pairs.distance)] == [np.uint64, np.uint64, np.uint16]
    assert all(column.flags.c_contiguous for column in (pairs.first, pairs.second))
    assert (len(pairs), list(pairs)) == (1, [(0, 1, 1)])
    assert all(type(value) is int for value in next(iter(pairs)))


def test_a_dense_cluster_gives_more_pairs_than_one_batch_holds(tmp_path: Path) -> None:
    fingerprints = fingerprint_array(range(1 << 10)) << np.uint64(20)
    with built(tmp_path, fingerprints, "flips-2:1,1") as store:
        # Of 10 bits, those that differ in 1, 2 or 3; each pair has two ends.
        expected = (1 << 10) * (10 + 45 + 120) // 2
        assert store.count_pairs() == expected
        batches = list(store.pairs())
        assert len(batches) > 1
        rows = np.concatenate([np.column_stack([pairs.first, pairs.second]) for pairs in batches])
        assert len(np.unique(rows, axis=0)) == len(rows) == expected
        assert (rows[:, 0] < rows[:, 1]).all()


def test_fingerprints_that_share_all_ids_or_none_count_the_same(tmp_path: Path) -> None:
    fingerprints = KINDS["clustered"](500, np.random.default_rng(9))
    with fpstore.build(tmp_path / "s", np.tile(fingerprints, 3)) as store:
        assert found_pairs(store) == brute_force_pairs(fingerprints, 3)


@pytest.mark.parametrize("part_count", [1, 2, 3, 7, 30, 60])
def test_the_parts_of_a_table_are_cut_anew_between_windows(part_count: int) -> None:
    # Windows of 1, 40, 3 and 16 keys: some go on over several parts.
    keys = fingerprint_array([window << 60 | low for window, size in enumerate((1, 40, 3, 16)) for low in range(size)])
    with segment_of(keys, plans.paper("paper-4")) as segment:
        cut = iter(np.array_split(keys, part_count))
        # Their room is used again.
        parts = [part.copy() for part in pairs._whole_windows(segment, 0, cut, 4, 3, 1 << 20, AnyOrder(0))]
    assert np.concatenate(parts).tolist() == keys.tolist()
    windows = [set((part >> np.uint64(60)).tolist()) for part in parts]
    assert sum(map(len, windows)) == len(set().union(*windows)) == 4


@pytest.mark.parametrize("part_count", [1, 2, 3, 7, 30, 60])
@pytest.mark.parametrize("chunks", [1, 2])
def test_held_keys_are_joined_by_whole_windows(part_count: int, chunks: int) -> None:
    """Of a chunk of two as of one: windows of 1, 40, 3 and 16 keys, of which some go on over several parts."""
    windows = Windows(4, chunks - 1, 120)
    first = 8 * (chunks - 1)
    sizes = enumerate((1, 40, 3, 16), first)
    keys = fingerprint_array([window << 60 | low for window, size in sizes for low in range(size)])
    windows.begin(chunks - 1)
    assert len(windows.whole(0)) == 0
    parts: list[np.ndarray] = []
    for part in np.array_split(keys, part_count):
        windows.append(part)
        parts.append(windows.whole(sum(map(len, parts))).copy())
    parts.append(windows.whole(sum(map(len, parts)), ended=True))
    assert np.concatenate(parts).tolist() == keys.tolist()
    found = [set((part >> np.uint64(60)).tolist()) for part in parts]
    assert sum(map(len, found)) == len(set().union(*found)) == 4


# --- In a stated budget ---


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["paper-4", "flips-2:1,1", "flips-2:2,0", "flips-1:3", "choose-5"])
@pytest.mark.parametrize("kind", ["uniform", "clustered"])
def test_a_small_budget_works_chunk_by_chunk_and_finds_the_same(tmp_path: Path, plan: Any, kind: Any) -> None:
    rng = np.random.default_rng(10)
    fingerprints = np.concatenate([KINDS[kind](3000, rng), uniform(17_000, rng)])
    with built(tmp_path, fingerprints, plan) as store:
        whole = found_pairs(store)
        for memory in (SPLIT_BUDGET, 4 * SPLIT_BUDGET):
            shares = []
            found = found_pairs(store, memory=memory, progress=lambda step: shares.append(step.done))  # noqa: B023
            assert found == whole
            assert store.count_pairs(memory=memory) == len(whole)
            # Only flips need chunks.
            assert len(set(shares)) >= sum(2 if table.flips else 1 for table in store.plan.tables)
        assert brute_force_pairs(fingerprints[:2000], 3) == [
            pair for pair in whole if {pair[0], pair[1]} <= set(fingerprints[:2000].tolist())
        ]


def test_the_keys_held_fit_the_budget(tmp_path: Path) -> None:
    fingerprints = uniform(400_000, np.random.default_rng(11))
    with built(tmp_path, fingerprints, "flips-2:1,1") as store:
        budget = 1 << 20
        tracemalloc.start()
        store.count_pairs(memory=budget)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # Beside the chunks, a cursor reads 2^17 keys at a time: these, the next, and a part cut anew, with its folds.
    assert peak < budget + 4 * (8 << 17)


@pytest.mark.parametrize("kind", ["one_prefix", "consecutive"])
def test_a_prefix_that_does_not_fit_is_refused_with_the_budget_that_it_needs(tmp_path: Path, kind: str) -> None:
    fingerprints = KINDS[kind](20_000, np.random.default_rng(12))
    with built(tmp_path, fingerprints) as store:
        message = (
            r"^00000001\.fpseg, table 0: \d+ keys share \d+ bits; finding their pairs needs a memory budget of (\d+)"
        )
        with pytest.raises(ValueError, match=message) as error:
            list(store.pairs(memory=SPLIT_BUDGET))
        needed = int(str(error.value).rpartition("budget of ")[2].split()[0])
        assert str(error.value).endswith(f" bytes, not {SPLIT_BUDGET}")
        with pytest.raises(ValueError, match="needs a memory budget"):
            store.count_pairs(memory=needed - 100)
        assert store.count_pairs(memory=needed) == store.count_pairs()


@pytest.mark.parametrize("memory", [0, -1, "much", True])
def test_a_budget_that_is_none_is_refused_at_the_call(tmp_path: Path, memory: Any) -> None:
    with built(tmp_path, [1, 2]) as store:
        for ask in (store.pairs, store.count_pairs):
            with pytest.raises(ValueError, match="expected a number of bytes above 0"):
                ask(memory=memory)


# --- Of a store that lives ---


def test_progress_goes_up_to_a_thousand(tmp_path: Path) -> None:
    steps: list[fpstore.Progress] = []
    with built(tmp_path, uniform(5000, np.random.default_rng(13)), "flips-2:1,1") as store:
        store.count_pairs(progress=steps.append)
    assert {(phase, total, unit) for phase, _, total, unit in steps} == {("pairs", 1000, "thousandths")}
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[0].done == 0
    assert steps[-1].done < 1000


def test_closing_the_store_in_the_middle_is_an_error_and_not_an_end(tmp_path: Path) -> None:
    fingerprints = fingerprint_array(range(1 << 10)) << np.uint64(20)
    with built(tmp_path, fingerprints) as store:
        pairs = store.pairs()
        assert len(next(pairs)) > 0
    with pytest.raises(StoreClosed):
        next(pairs)
    assert list(pairs) == []


def test_pairs_that_nobody_asks_for_cost_nothing_and_can_be_left(tmp_path: Path) -> None:
    with built(tmp_path, uniform(1000, np.random.default_rng(14))) as store:
        store.pairs()
        pairs = store.pairs()
        next(pairs, None)
        pairs.close()
        assert store.plan == plans.paper("paper-4")
