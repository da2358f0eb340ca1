"""The tables of a plan from table 0's keys: whatever the way they take, they are the keys permuted and sorted."""

# mypy: disable-error-code="arg-type, attr-defined"

import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import KINDS, ArrayKeys, distinct, uniform

from fpstore._sort import PermutedParts
from fpstore.building import permuted, spill
from fpstore.building.permuted import permuted_tables, sorted_permuted
from fpstore.building.spill import SortedKeys
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import TablePlan
from fpstore.types import Keys

PLAN = plans.paper("paper-10")
PLENTY = 64 << 20


def some(count: int = 3000, kind: str = "clustered") -> Keys:
    return distinct(KINDS[kind](count, np.random.default_rng(3)))


def expected(keys0: Keys, tables: tuple[TablePlan, ...] | tuple[TablePlan]) -> list[list[Any]] | list[list[int]]:
    fingerprints = Permutation(tables[0].prefix_mask).invert(keys0)
    return [np.sort(Permutation(table.prefix_mask).apply(fingerprints)).tolist() for table in tables]


def contents(tables: Iterator[Any] | list[SortedKeys]) -> list[list[Any]] | list[list[int]]:
    return [np.concatenate([np.empty(0, np.uint64), *table.chunks()]).tolist() for table in tables]


def make_budgets_small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spill, "MIN_MEMORY_BYTES", 1)
    patch.setattr(spill, "RESERVE_BYTES", 0)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("quick_items", [0, 1 << 22])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_tables_are_the_keys_permuted_and_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, quick_items: int, size: int
) -> None:
    # Room for no table, one, two, plenty.
    monkeypatch.setattr(spill, "QUICK_ITEMS", quick_items)
    make_budgets_small(monkeypatch)
    keys = some()
    memory = (keys.nbytes - 8, keys.nbytes, 2 * keys.nbytes, PLENTY)[size]
    found = permuted_tables(ArrayKeys(keys), keys, PLAN.tables, tmp_path, memory, threads)
    assert contents(found) == expected(keys, PLAN.tables)


@pytest.mark.parametrize(("spare", "held"), [(0, True), (-1, False)])
def test_a_table_that_the_budget_has_no_room_for_goes_through_a_sorter(tmp_path: Path, spare: int, held: bool) -> None:
    keys = distinct(uniform(200_000, np.random.default_rng(1)))
    memory = keys.nbytes + spare
    tracemalloc.start()
    for table in permuted_tables(ArrayKeys(keys, 1000), keys, PLAN.tables[:3], tmp_path, memory, 1):
        assert table.count == len(keys)
        assert isinstance(table, ArrayKeys) or (table.in_memory is not None) == held
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.1 * memory


@pytest.mark.parametrize("threads", [1, 2])
def test_keys_that_are_not_in_memory_go_through_a_sorter(tmp_path: Path, threads: int) -> None:
    keys = some()
    found = permuted_tables(ArrayKeys(keys, 100), None, PLAN.tables, tmp_path, PLENTY, threads)
    assert contents(found) == expected(keys, PLAN.tables)


def test_table_0_may_be_permuted_too(tmp_path: Path) -> None:
    keys = some(kind="uniform")
    tables = PLAN.tables[3:] + PLAN.tables[:3]
    found = permuted_tables(ArrayKeys(keys), keys, tables, tmp_path, PLENTY, 2)
    assert contents(found) == expected(keys, tables)


@pytest.mark.parametrize("threads", [1, 2])
def test_equal_keys_in_memory_count_once(tmp_path: Path, threads: int) -> None:
    keys = some()
    repeated = np.repeat(keys, 3)
    found = permuted_tables(ArrayKeys(keys), repeated, PLAN.tables, tmp_path, PLENTY, threads)
    assert contents(found) == expected(keys, PLAN.tables)


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("tables", [PLAN.tables[:1], PLAN.tables])
def test_few_keys_and_a_single_table_are_no_special_case(
    tmp_path: Path, count: int, tables: tuple[TablePlan, ...] | tuple[TablePlan]
) -> None:
    keys = some()[:count]
    found = permuted_tables(ArrayKeys(keys), keys, tables, tmp_path, PLENTY, 2)
    assert contents(found) == expected(keys, tables)


@pytest.mark.parametrize(("threads", "spare", "most"), [(1, 1, 1), (2, 0, 2), (8, 1, 2), (2, -1, 1)])
def test_at_most_one_other_table_is_held_and_two_with_threads_and_room_for_them(
    tmp_path: Path, threads: int, spare: int, most: int
) -> None:
    keys = distinct(uniform(200_000, np.random.default_rng(1)))
    tracemalloc.start()
    for table in permuted_tables(ArrayKeys(keys), keys, PLAN.tables, tmp_path, 2 * keys.nbytes + spare, threads):
        assert table.count == len(keys)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most * keys.nbytes <= peak <= 1.1 * most * keys.nbytes


def test_the_next_table_is_sorted_while_the_caller_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = some()
    sorters, begun = [], threading.Event()

    def sort(*arguments: object) -> int:
        sorters.append(threading.get_ident())
        begun.set()
        return original(*arguments)

    original = permuted.sort_permuted
    monkeypatch.setattr(permuted, "sort_permuted", sort)
    found = permuted_tables(ArrayKeys(keys), keys, PLAN.tables, tmp_path, PLENTY, 2)
    next(found)
    assert begun.wait(60)
    assert threading.get_ident() not in sorters
    found.close()
    assert len(sorters) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_while_sorting_passes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    def fail(*_arguments: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(permuted, "sort_permuted", fail)
    keys = some()
    found = permuted_tables(ArrayKeys(keys), keys, PLAN.tables, tmp_path, PLENTY, threads)
    assert next(found).count == len(keys)
    with pytest.raises(MemoryError, match="no room"):
        next(found)


def test_fingerprints_in_any_order_become_sorted_keys() -> None:
    fingerprints = KINDS["duplicate_heavy"](3000, np.random.default_rng(2))
    for table in PLAN.tables:
        permutation = Permutation(table.prefix_mask)
        found = sorted_permuted(fingerprints, permutation)
        assert contents([found]) == [distinct(permutation.apply(fingerprints)).tolist()]
        assert found.memory_bytes == 8 * found.count


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_sorts_what_one_does(monkeypatch: pytest.MonkeyPatch, kind: str, parts: int) -> None:
    monkeypatch.setattr(permuted, "MIN_KEYS_OF_A_THREAD", 1)
    rng = np.random.default_rng(4)
    for count in (parts - 1, parts, 8, 3000):
        fingerprints = KINDS[kind](count, rng)
        for table in PLAN.tables[:3]:
            permutation = Permutation(table.prefix_mask)
            found = sorted_permuted(fingerprints, permutation, parts)
            assert contents([found]) == [distinct(permutation.apply(fingerprints)).tolist()]


@pytest.mark.parametrize("bits", [16, 33])
@pytest.mark.parametrize("wrong", [None, 0, 1, 2999])
def test_threads_sort_narrow_keys_and_refuse_wide_ones(
    monkeypatch: pytest.MonkeyPatch, bits: int, wrong: int | None
) -> None:
    monkeypatch.setattr(permuted, "MIN_KEYS_OF_A_THREAD", 1)
    fingerprints = uniform(3000, np.random.default_rng(4)) >> np.uint64(64 - bits)
    permutation = Permutation(0b1010_0000_1111, bits)
    if wrong is None:
        found = sorted_permuted(fingerprints, permutation, 2)
        assert contents([found]) == [distinct(permutation.apply(fingerprints)).tolist()]
        return
    fingerprints[wrong] |= np.uint64(1 << bits)
    with pytest.raises(ValueError, match=f"^a fingerprint has more than {bits} bits$"):
        sorted_permuted(fingerprints, permutation, 2)


def test_what_is_no_sort_in_parts_is_refused() -> None:
    keys = uniform(10, np.random.default_rng(4))
    with pytest.raises(ValueError, match=r"^10 fingerprints, room for 9 keys$"):
        PermutedParts(0, keys, keys[:9].copy(), 64, 2)
    with pytest.raises(ValueError, match=r"^prefix mask 0x10000 of 16 bits$"):
        PermutedParts(1 << 16, keys, keys.copy(), 16, 2)
    with pytest.raises(ValueError, match=r"^parts: found 0, expected one at least$"):
        PermutedParts(0, keys, keys.copy(), 64, 0)
    work = PermutedParts(0, keys, keys.copy(), 64, 2)
    for step in (work.tally, work.deal, work.settle):
        with pytest.raises(IndexError):
            step(2)


@pytest.mark.parametrize(("threads", "ahead", "own"), [(1, False, 1), (2, False, 2), (2, True, 1), (4, True, 3)])
def test_who_has_a_table_is_one_of_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, ahead: bool, own: int
) -> None:
    asked = []

    def noted(permutation: Permutation, fingerprints: Keys, threads: int) -> Any:
        asked.append(threads)
        return original(permutation, fingerprints, threads)

    original = permuted._sorting
    monkeypatch.setattr(permuted, "_sorting", noted)
    keys = some()
    found = permuted_tables(ArrayKeys(keys), keys, PLAN.tables, tmp_path, (1 + ahead) * keys.nbytes, threads)
    assert contents(found) == expected(keys, PLAN.tables)
    assert asked == [own] * (len(PLAN.tables) - 1)
