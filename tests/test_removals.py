"""Removals against a plain dictionary of the last position at which each value was removed."""

# mypy: disable-error-code="arg-type"

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.living.removals import RUN_RATIO, Removals

LAST = (1 << 64) - 1
VALUES = st.one_of(st.integers(0, LAST), st.sampled_from([0, 1, 2, 3, 1 << 63, LAST - 1, LAST]))
# What is removed, which, and how many positions later than the removal before. Of rows the ids are those of other_of.
KINDS = ("fingerprints", "ids", "rows")
HISTORIES = st.lists(st.tuples(st.sampled_from(KINDS), st.lists(VALUES, max_size=20), st.integers(1, 3)), max_size=12)


def u64(values: object) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@dataclass
class Model:
    fingerprints: dict[int, int] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    @property
    def of_all(self) -> tuple[dict[int, int], ...]:
        return self.fingerprints, self.ids, self.rows


def pairs_of(values: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """A pair for each value, another for another; many have the same fingerprint."""
    return u64([value >> 62 for value in values]), u64([value % (1 << 62) * 3 for value in values])


def ways_to_ask(removals: Removals) -> tuple[Any, ...]:
    """The masks of fingerprints, of ids and of rows, each given a list of values."""
    return (
        lambda values, positions: removals.fingerprints_masked(u64(values), positions),
        lambda values, positions: removals.ids_masked(u64(values), positions),
        lambda values, positions: removals.rows_masked(*pairs_of(values), positions),
    )


def replay(history: list[tuple[str, list[int], int]]) -> tuple[Removals, Model, int]:
    removals, model, position = Removals.none(), Model(), 0
    for kind, values, steps in history:
        position += steps
        columns = pairs_of(values) if kind == "rows" else (u64(values),)
        removals = getattr(removals, f"with_{kind}")(*columns, position)
        getattr(model, kind).update(dict.fromkeys(values, position))
    return removals, model, position


@pytest.mark.slow
@given(HISTORIES, st.lists(VALUES, max_size=10), st.integers(0, 40))
def test_what_is_masked_is_what_was_removed_then_or_later(
    history: list[tuple[str, list[int], int]], strangers: list[int], position: int
) -> None:
    removals, model, _ = replay(history)
    for removed, masked in zip(model.of_all, ways_to_ask(removals), strict=True):
        asked = [*strangers, *removed, *removed]
        found = masked(asked, position)
        assert found.dtype == np.bool_
        assert found.tolist() == [removed.get(value, -1) >= position for value in asked]
        positions = [removed.get(value, 7) + i % 3 - 1 for i, value in enumerate(asked)]
        expected = [removed.get(value, -1) >= least for value, least in zip(asked, positions, strict=True)]
        assert masked(asked, u64(positions)).tolist() == expected


@given(HISTORIES, st.integers(0, 40))
def test_what_was_removed_since_comes_sorted_and_once(history: list[tuple[str, list[int], int]], position: int) -> None:
    removals, model, last = replay(history)
    for removed, since in ((model.fingerprints, removals.fingerprints_since), (model.ids, removals.ids_since)):
        assert since(position).dtype == np.uint64
        assert since(position).tolist() == sorted(value for value, at in removed.items() if at >= position)
    touched = {value >> 62 for value, at in model.rows.items() if at >= position}
    assert removals.row_fingerprints_since(position).tolist() == sorted(touched)
    assert len(removals) == sum(map(len, model.of_all))
    assert (bool(removals), removals.has_rows) == (any(model.of_all), bool(model.rows))
    assert removals.last_position == max([0, *(at for each in model.of_all for at in each.values())]) <= last


@given(HISTORIES)
def test_without_those_before_a_position_the_rest_is_as_it_was(history: list[tuple[str, list[int], int]]) -> None:
    removals, model, last = replay(history)
    for position in range(last + 2):
        later = removals.since(position)
        for removed, masked in zip(model.of_all, ways_to_ask(later), strict=True):
            assert masked(list(removed), 0).tolist() == [at >= position for at in removed.values()]
        assert len(later) == sum(at >= position for each in model.of_all for at in each.values())


@given(HISTORIES)
def test_removals_that_leave_the_log_read_back_as_they_were(history: list[tuple[str, list[int], int]]) -> None:
    removals, model, last = replay(history)
    for position in range(last + 2):
        again = Removals.of(removals.records_before(position))
        for removed, masked in zip(model.of_all, ways_to_ask(again), strict=True):
            values = [value for value, at in removed.items() if at < position]
            assert masked(list(removed), 0).tolist() == [at < position for at in removed.values()]
            assert masked(values, u64([removed[value] for value in values])).all()
            assert not masked(values, u64([removed[value] + 1 for value in values])).any()


def test_adding_leaves_the_old_removals_as_they_were() -> None:
    old = Removals.none().with_fingerprints(u64([5]), 1).with_ids(u64([6]), 2)
    new = old.with_fingerprints(u64([7, 5]), 3).with_ids(u64([8]), 4)
    assert (len(old), len(new)) == (2, 4)
    assert old.fingerprints_masked(u64([5, 7]), [1, 1]).tolist() == [True, False]
    assert old.fingerprints_masked(u64([5, 7]), 2).tolist() == [False, False]
    assert new.fingerprints_masked(u64([5, 7]), 3).tolist() == [True, True]
    assert (old.last_position, new.last_position) == (2, 4)


@given(st.lists(st.tuples(VALUES, st.integers(1, 9))), st.lists(st.tuples(VALUES, st.integers(1, 9))))
def test_values_removed_at_positions_of_their_own_keep_the_last(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    removals, last = Removals.none(), dict[int, int]()
    for removed in (first, second):
        removals = removals.with_ids(u64([value for value, _ in removed]), u64([at for _, at in removed]))
        last |= {value: max(last.get(value, 0), *(at for one, at in removed if one == value)) for value, _ in removed}
    for position in range(11):
        assert removals.ids_since(position).tolist() == sorted(value for value, at in last.items() if at >= position)
    assert len(removals) == len(last)


def test_removing_nothing_changes_nothing() -> None:
    removals = Removals.none().with_ids(u64([]), 9)
    assert not removals
    assert removals.last_position == 0
    assert removals.ids_masked(u64([1, 2]), 0).tolist() == [False, False]
    assert removals.ids_masked(u64([]), 0).tolist() == []


@pytest.mark.parametrize("kind", KINDS)
def test_one_removal_at_a_time_keeps_the_runs_few_and_the_answers_right(kind: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 64, 20_000, dtype=np.uint64)
    columns = (values % np.uint64(7), values) if kind == "rows" else (values,)
    removals = Removals.none()
    for position in range(0, len(values), 10):
        removals = getattr(removals, f"with_{kind}")(
            *(each[position : position + 10] for each in columns), position + 1
        )
    runs = getattr(removals, f"_{kind}").runs
    assert len(runs) <= 1 + np.log(len(values)) / np.log(RUN_RATIO)
    masked = getattr(removals, f"{kind}_masked")
    assert masked(*columns, np.arange(len(values), dtype=np.uint64) // 10 * 10 + 1).all()
    assert not masked(*columns, np.arange(len(values), dtype=np.uint64) // 10 * 10 + 2).any()
    others = (getattr(removals, f"{other}_masked") for other in KINDS[:2] if other != kind)
    assert not any(other(values, 0).any() for other in others)


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(ValueError, match="mismatch"):
        Removals.none().with_ids(np.array([1, 2]), 1).with_ids(u64([3]), 2)
