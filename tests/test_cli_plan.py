"""`fpstore plan`: the choices and what each costs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import KINDS
from outcome import Command

import fpstore
from fpstore.plans import planner
from fpstore.text import PRESETS
from fpstore.text.short import jaccard_at


def test_the_table_has_a_line_for_each_choice_and_marks_those_picked(command: Command) -> None:
    outcome = command("plan", "--n", "8e9", "--k", "3")
    assert outcome.status == 0
    heading, *rows = outcome.lines
    assert heading.split()[:2] == ["plan", "tables"]
    for aim in planner.AIMS:
        picked = [row.split()[0] for row in rows if aim in row]
        assert picked == [planner.choose(8 * 10**9, 3, aim).name]
    for name in ("paper-4", "paper-10", "paper-16", "paper-20"):
        assert any(row.startswith(f"{name} ") for row in rows)


@pytest.mark.parametrize(("k", "jaccard"), [(0, 1.0), (3, 0.90625), (6, 0.8125)])
def test_what_k_means_for_texts_is_said(command: Command, k: int, jaccard: float) -> None:
    asked = ("plan", "--n", "1000", "-k", str(k))
    told = f"fpstore: of texts by recipe text-1, k = {k} is a Jaccard similarity of {jaccard:.2f} in the mean\n"
    assert command(*asked).err == told
    assert json.loads(command(*asked, "--json").out)["text_jaccard"] == jaccard
    assert jaccard_at(PRESETS["simhash-1"], k) is None


def test_json_gives_the_predictions_of_the_planner(command: Command) -> None:
    outcome = command("plan", "--n", "1000000", "--k", "2", "--json")
    record = json.loads(outcome.out)
    assert (record["n"], record["max_distance"]) == (10**6, 2)
    sizes = [choice["file_bytes"] for choice in record["choices"]]
    assert sizes == sorted(sizes)
    by_plan = {(each.plan.name, each.plan.slot_keys): each for each in planner.table_of_choices(10**6, 2)}
    for choice in record["choices"]:
        prediction = by_plan.get((choice["plan"], choice["slot_keys"]))
        if prediction is not None:
            assert choice["file_bytes"] == prediction.file_bytes
            assert choice["probes"] == prediction.probes
            assert choice["nanoseconds"] == prediction.nanoseconds
    assert sorted(aim for choice in record["choices"] for aim in choice["picked_by"]) == sorted(planner.AIMS)


@pytest.mark.parametrize(
    ("typed", "n"), [("8e9", 8 * 10**9), ("1_000_000", 10**6), ("1000000.0", 10**6), ("0", 0), ("1.5E3", 1500)]
)
def test_n_can_be_written_with_an_exponent(command: Command, typed: str, n: int) -> None:
    assert json.loads(command("plan", "--n", typed, "--json").out)["n"] == n


@pytest.mark.parametrize("typed", ["1.5", "many", "1e999999999", "nan", "inf", "", "-1", "1e15"])
def test_an_n_that_is_no_count_is_refused(command: Command, typed: str) -> None:
    outcome = command("plan", "--n", typed)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("k", ["-1", "65", "x"])
def test_a_k_that_no_plan_answers_is_refused(command: Command, k: str) -> None:
    outcome = command("plan", "--n", "10", "--k", k)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert k in outcome.err


def test_n_or_a_store_is_needed(command: Command) -> None:
    outcome = command("plan")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "--n" in outcome.err


def choices_of(record: dict[str, Any]) -> dict[str, float]:
    return {aim: choice["file_bytes"] for choice in record["choices"] for aim in choice["picked_by"]}


@pytest.mark.parametrize("kind", ["uniform", "clustered"])
def test_bytes_like_a_store_are_those_of_its_fingerprints_under_other_plans(
    command: Command, tmp_path: Path, kind: str
) -> None:
    fingerprints = KINDS[kind](200_000, np.random.default_rng(1))
    found = {}
    for plan in planner.AIMS:
        with fpstore.build(tmp_path / plan, fingerprints, ids=None, max_distance=2, plan=plan) as store:
            found[plan], n = store._segments[0].file_bytes, store.count()
    record = json.loads(command("plan", "--like", tmp_path / "balanced", "--json").out)
    assert (record["n"], record["max_distance"]) == (n, 2)
    assert choices_of(record) == pytest.approx(found, rel=0.02)


def test_n_and_k_may_differ_from_those_of_the_store(command: Command, tmp_path: Path) -> None:
    # Raw keys take more than uniform ones in gap code.
    fpstore.build(tmp_path / "s", np.arange(5000, dtype=np.uint64), ids=None, codec="raw").close()
    record = json.loads(command("plan", "--like", tmp_path / "s", "--n", "10_000", "--k", "1", "--json").out)
    uniform = json.loads(command("plan", "--n", "10_000", "--k", "1", "--json").out)
    assert (record["n"], record["max_distance"]) == (10_000, 1)
    assert [choice["plan"] for choice in record["choices"]] == [choice["plan"] for choice in uniform["choices"]]
    assert all(
        choice["file_bytes"] > other["file_bytes"]
        for choice, other in zip(record["choices"], uniform["choices"], strict=True)
    )


def test_an_empty_store_is_like_any(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", np.empty(0, dtype=np.uint64)).close()
    like, without = command("plan", "--like", tmp_path / "s", "--n", "1e6"), command("plan", "--n", "1e6")
    assert (like.status, like.out) == (0, without.out)


def test_a_store_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    outcome = command("plan", "--like", tmp_path / "none")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "none" in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("n", ["0", "1", "999", "10000", "1e7", "1e12"])
@pytest.mark.parametrize("k", range(9))
def test_every_aim_picks_one_of_the_choices_shown(command: Command, n: str, k: int) -> None:
    choices = json.loads(command("plan", "--n", n, "--k", k, "--json").out)["choices"]
    assert sum(len(choice["picked_by"]) for choice in choices) == len(planner.AIMS)
