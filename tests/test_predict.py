"""What plans would cost, and plans by their names, as Python has them: the command prints the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.plans import planner


@pytest.mark.parametrize(("n", "k"), [(0, 3), (1000, 1), (10**6, 3), (8 * 10**9, 6)])
def test_the_command_prints_what_predict_returns(command: Command, n: int, k: int) -> None:
    record = json.loads(command("plan", "--n", n, "-k", k, "--json").out)
    found = fpstore.predict(n=n, max_distance=k)
    assert record["choices"] == [each.to_json() for each in found]
    assert (record["n"], record["max_distance"]) == (n, k)


@pytest.mark.parametrize("n", [0, 1000, 10**7])
def test_a_prediction_says_which_aims_pick_it(n: int) -> None:
    found = fpstore.predict(n=n)
    assert {aim: each.plan for each in found for aim in each.picked_by} == {
        aim: planner.choose(n, 3, aim) for aim in planner.AIMS
    }
    assert [each.file_bytes for each in found] == sorted(each.file_bytes for each in found)
    assert len({each.plan for each in found}) == len(found)


def test_a_store_says_how_many_and_how_far_and_what_its_code_takes(tmp_path: Path) -> None:
    keys = np.arange(5000, dtype=np.uint64)
    fpstore.build(tmp_path / "s", keys, ids=None, max_distance=2, codec="raw").close()
    like = fpstore.predict(like=tmp_path / "s")
    assert {(each.n, each.plan.max_distance) for each in like} == {(5000, 2)}
    uniform = fpstore.predict(n=5000, max_distance=2)
    assert [each.plan for each in like] == [each.plan for each in uniform]
    assert all(one.file_bytes > other.file_bytes for one, other in zip(like, uniform, strict=True))
    other = fpstore.predict(n=10**6, max_distance=1, like=tmp_path / "s")
    assert {(each.n, each.plan.max_distance) for each in other} == {(10**6, 1)}


def test_what_is_pending_counts_in_a_store_that_others_are_like(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add([1, 2, 3], ids=[1, 2, 3])
    assert fpstore.predict(like=tmp_path / "s")[0].n == 3


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, TypeError, "n: found None, expected how many fingerprints there will be, or a store"),
        ({"n": 1.5}, ValueError, "n: found 1.5, expected an integer"),
        ({"n": -1}, ValueError, "found -1"),
        ({"n": 10, "max_distance": "3"}, ValueError, "max_distance: found '3', expected an integer"),
        ({"n": 10, "max_distance": 99}, ValueError, "99"),
        ({"n": 10, "bits": 192}, ValueError, "bits: found 192, expected a multiple of 8 from 16 to 64, or 128 or 256"),
        ({"n": 10, "like": "none.fpstore"}, FileNotFoundError, "none.fpstore"),
    ],
)
def test_what_cannot_be_predicted_is_refused(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        fpstore.predict(**given)


@pytest.mark.parametrize(
    ("name", "bits", "tables"),
    [
        ("paper-4", 64, 4),
        ("choose-6", 64, 20),
        ("choose-5", 128, 10),
        ("flips-2:1,1", 64, 2),
        ("flips-2:1,1", 256, 2),
        ("general-1000000:6", 128, None),
    ],
)
def test_a_plan_is_had_by_its_name(name: str, bits: int, tables: int | None) -> None:
    plan = fpstore.Plan.named(name, bits=bits)
    assert (plan.max_distance, plan.bits, plan.missed()) == (3, bits, None)
    assert tables is None or len(plan.tables) == tables
    assert fpstore.Plan.from_json(plan.to_json()) == plan


def test_a_named_plan_is_that_of_a_store_built_by_the_name(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [1, 2], max_distance=2, plan="choose-4") as store:
        assert store.plan == fpstore.Plan.named("choose-4", max_distance=2)
    with fpstore.build(tmp_path / "t", [1, 2], max_distance=2, plan=store.plan) as again:
        assert again.plan == store.plan


@pytest.mark.parametrize(
    ("name", "given", "error", "said"),
    [
        ("balanced", {}, fpstore.PlanError, "plan: found 'balanced', expected one of paper-4, "),
        ("paper-4", {"bits": 128}, fpstore.PlanError, "plan paper-4, bits: found 128, expected 64 to 64"),
        ("paper-4", {"max_distance": 4}, fpstore.PlanError, "would miss matches at distance 4"),
        ("flips-2:1,0", {}, fpstore.PlanError, "would miss"),
        ("choose-4", {"bits": 257}, fpstore.PlanError, "bits: found 257, expected 1 to 256"),
        ("choose-4", {"max_distance": -1}, fpstore.PlanError, "max_distance: found -1, expected 0 to 64"),
        ("choose-4", {"max_distance": 1.5}, TypeError, "plan, max_distance: found 1.5, expected an integer"),
        ("choose-4", {"bits": "64"}, TypeError, "plan, bits: found '64', expected an integer"),
        (4, {}, TypeError, "plan: found a int, expected a name"),
    ],
)
def test_a_plan_that_there_is_not_is_refused(
    name: Any, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        fpstore.Plan.named(name, **given)
