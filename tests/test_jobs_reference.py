"""tools/check_documents.py, reduced: the jobs do what plain Python decides, and a difference is told."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import check_documents
import documents_reference as plain

from fpstore._turns import DONE, NEW, Turns
from fpstore.query import leaders
from fpstore.text import recipes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_jobs_decide_as_plain_python_does(seed: int) -> None:
    done = list(check_documents.rounds(10, seed))
    assert [found for _, found in done if found] == []
    assert sum(each.decisions for each, _ in done) > 100


@pytest.mark.slow
def test_a_wrong_decision_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Keeping(Turns):
        def run(self) -> int:
            self.rows[:] = NEW
            return DONE

    monkeypatch.setattr(leaders, "Turns", Keeping)  # all are kept
    monkeypatch.setattr(sys, "argv", ["check_documents.py", "--rounds", "10"])
    assert check_documents.main() == 1
    last = capsys.readouterr().out.splitlines()
    assert last[0].startswith("round 0/")
    assert last[-1].startswith("10 rounds, ")
    assert not last[-1].endswith(", 0 differences")


@pytest.mark.slow
def test_a_command_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_documents, "fpstore", lambda arguments: 1)
    found = [told for _, told in check_documents.rounds(2, 0)]
    assert found == ["round 0/0: status 1: ", "round 0/1: status 1: "]


def test_the_reference_takes_the_nearest_then_the_least_fingerprint_then_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = recipes()["exact"]
    seen = plain.Seen(
        [(key, plain.Document(name, "")) for key, name in ((7, "far"), (2, "more"), (1, "least"), (1, "x"))]
    )
    documents = [plain.Document("new", "any text")]
    monkeypatch.setattr(plain, "fingerprint", lambda recipe, text: 0)
    (found,) = plain.dedup(documents, 3, recipe, seen, order=[0], alike=None)
    assert found == plain.Dropped("least", 1)


def test_the_reference_orders_by_values_and_puts_those_without_one_last() -> None:
    assert plain.ordered([2, None, 3, 2, None, 1], largest=True) == [2, 0, 3, 5, 1, 4]
    assert plain.ordered(["b", None, "a", "b"], largest=False) == [2, 0, 3, 1]


def test_the_reference_measures_by_shingles() -> None:
    recipe = check_documents.RECIPES[0]
    assert plain.measure("jaccard", recipe, "a b c", "b c d") == 0.5
    assert plain.measure("cosine", recipe, "a", "b") == 0.0
    assert plain.measure("cosine", recipe, "a b", "b a") == pytest.approx(1)
    for name in ("jaccard", "cosine"):
        found = [plain.measure(name, recipe, one, "!") for one in ("", "!", "a")]
        assert found == [0, 1, 0]
