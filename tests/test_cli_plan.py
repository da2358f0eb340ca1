"""`fpstore plan`: the choices and what each costs."""

import json

import pytest
from outcome import Command

from fpstore import planner


def test_the_table_has_a_line_for_each_choice_and_marks_those_picked(command: Command) -> None:
    outcome = command("plan", "--n", "8e9", "--k", "3")
    assert (outcome.status, outcome.err) == (0, "")
    heading, *rows = outcome.lines
    assert heading.split()[:2] == ["plan", "tables"]
    for aim in planner.AIMS:
        picked = [row.split()[0] for row in rows if aim in row]
        assert picked == [planner.choose(8 * 10**9, 3, aim).name]
    for name in ("paper-4", "paper-10", "paper-16", "paper-20"):
        assert any(row.startswith(f"{name} ") for row in rows)


def test_json_gives_the_predictions_of_the_planner(command: Command) -> None:
    outcome = command("plan", "--n", "1000000", "--k", "2", "--json")
    record = json.loads(outcome.out)
    assert (record["n"], record["k"]) == (10**6, 2)
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


def test_n_has_no_default(command: Command) -> None:
    assert command("plan").status == 2


@pytest.mark.parametrize("n", ["0", "1", "999", "10000", "1e7", "1e12"])
@pytest.mark.parametrize("k", range(9))
def test_every_aim_picks_one_of_the_choices_shown(command: Command, n: str, k: int) -> None:
    choices = json.loads(command("plan", "--n", n, "--k", k, "--json").out)["choices"]
    assert sum(len(choice["picked_by"]) for choice in choices) == len(planner.AIMS)
