"""The list of mistakes that tests catch: it goes with the tree, and some of them are planted to show that it works."""

import json
import re
import sys
from dataclasses import replace

import pytest
from pages import ROOT
from test_docs import names_in

sys.path.insert(0, str(ROOT / "tools"))

import check_mutants
from check_mutants import OutOfDateError, failed_tests, place_of, planted
from mutants import MUTANTS
from mutants.record import Mutant

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
# Rooms and wings; of what lies beside them, some.
FOLDERS = {"plans", "segment", "building", "query", "living", "text", "inputs", "jobs", "cli", "native"}
FILES = {"creation.py", "store.py", "merging.py", "threads.py"}


def test_the_list_goes_with_the_tree() -> None:
    for mutant in MUTANTS:
        text = planted((ROOT / mutant.file).read_text(), mutant)
        assert text != (ROOT / mutant.file).read_text(), mutant.name
        if mutant.file.endswith(".py"):
            compile(text, mutant.file, "exec")


def test_every_test_that_the_list_names_is_there() -> None:
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, name, *_ = re.split(r"::|\[", test)
            assert name in names_in(file), f"{mutant.name}: {test}"


def test_the_list_has_mistakes_of_every_room_each_by_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(MUTANTS) >= 40
    places = {mutant.file.split("/")[1] for mutant in MUTANTS}
    assert places >= FOLDERS | FILES
    page = " ".join((ROOT / "docs/reliability.md").read_text().split())
    assert f"plants {len(MUTANTS)} mistakes" in page


def test_a_place_is_found_whatever_white_space_it_is_written_with() -> None:
    text = "if (a <\n        b) return c;"
    start, end = place_of(text, "(a<b) return c;")
    assert text[start:end] == text[3:]
    assert place_of(text, "a < b") == (4, 17)


@pytest.mark.parametrize("old", ["x = 1", "y", " \n", ""])
def test_a_place_that_is_not_there_or_more_than_once_makes_the_list_out_of_date(old: str) -> None:
    mutant = Mutant("some mistake", "a.py", old, "x = 2", "", ())
    with pytest.raises(OutOfDateError, match=r"the list is out of date: some mistake, a\.py: (2|0|no) places with "):
        planted("x = 1\nx  =  1\n", mutant)


def test_tests_that_failed_are_told_from_those_that_had_an_error() -> None:
    output = "\n".join(
        (
            "FAILED tests/test_a.py::test_one[a - b] - AssertionError",
            "FAILED tests/test_a.py::test_one[c]",
            "ERROR tests/test_a.py::test_two - NameError",
            "FAILED tests/test_b.py::TestThree::runTest - assert 1 == 2",
        )
    )
    assert failed_tests(output) == ("tests/test_a.py::test_one", "tests/test_b.py::TestThree::runTest")


CHEAP = (
    "a plan of the caller's is not proven",
    "what is no flag is taken for one",
)


@pytest.mark.slow
def test_mistakes_are_caught_and_what_is_none_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [BY_NAME[name] for name in CHEAP]
    harmless = replace(chosen[0], name="nothing", new=f"{chosen[0].old}  # as before")
    monkeypatch.setattr(check_mutants, "MUTANTS", (*chosen, harmless))
    assert check_mutants.main(["--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [outcome["mutant"]["name"] for outcome in found] == [*CHEAP, "nothing"]
    assert [set(outcome["caught_by"]) for outcome in found] == [*({*mutant.tests} for mutant in chosen), set()]
    assert "no failure, the tests ended with status 0" in found[-1]["note"]


def test_a_list_that_is_out_of_date_is_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = replace(BY_NAME[CHEAP[0]], old="what nobody wrote")
    monkeypatch.setattr(check_mutants, "MUTANTS", (stale,))
    assert check_mutants.main([]) == 1
    assert "the list is out of date" in capsys.readouterr().err


def test_a_name_that_no_mistake_has_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check_mutants.main(["-k", "what nobody did"])
    assert "no mistake has what nobody did in its name or file" in capsys.readouterr().err


@pytest.mark.slow
def test_a_named_test_that_fails_without_a_mistake_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nameless = replace(BY_NAME[CHEAP[0]], tests=("tests/test_plan.py::test_that_is_not_there",))
    monkeypatch.setattr(check_mutants, "MUTANTS", (nameless,))
    assert check_mutants.main([]) == 1
    assert "without a mistake the named tests end with status 4" in capsys.readouterr().err
