"""Each message of searches, plans and adapters that says what to do is known here, with the test that does it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.adapters.keys import keys_for

ROOT = Path(__file__).parents[1]
PLACES_OF_SEARCHES = ("plans/*", "query/*", "codes/*", "adapters/*", "fingerprints", "cli/nearest", "cli/plan")
PLACES = (*PLACES_OF_SEARCHES, "cli/probe", "living/radius", "living/wide", "living/wide_pairs")
# Words by which a message says what to do.
ADVISING = re.compile(r"; |--[a-z]|=True|such as|pip install|would take|memory budget|\b(?:build|use|give|try|take)\b")
RAISING = ("refusal", "UsageError", "BadParameter", "_package", "warn")
HEADINGS = {"picked by --plan"}

# A part of each of them, and the test that does what it says: of this module, or of another.
TRIED = {
    "columns take arrays": "test_rows_are_taken_by_number_and_columns_by_arrays",
    "expected a column, such as": "test_a_column_or_a_frame_is_to_be_had_where_one_array_is_not",
    "pip install": "test_what_is_to_be_installed_is_an_extra_that_brings_it",
    "finding their pairs needs a memory budget of": (
        "test_pairs.py::test_a_prefix_that_does_not_fit_is_refused_with_the_budget_that_it_needs"
    ),
    "finding its pairs needs a memory budget of more than": (
        "test_wide_pairs.py::test_more_near_one_than_fit_the_budget_are_refused_and_more_is_enough"
    ),
    "a list is asked by --input without it": "test_cluster_shards.py::test_commands_answer_of_a_list_as_of_one_store",
    "expected prepickle=True": "test_a_key_that_is_no_text_is_taken_where_it_is_pickled",
    "with prepickle=True it is pickled": "test_a_key_that_is_no_text_is_taken_where_it_is_pickled",
    "Missing option '--n' or '--like'.": "test_a_plan_is_shown_of_a_number_or_of_a_store",
    "nothing to ask for": "test_a_probe_asks_for_a_fingerprint_a_text_or_a_file",
    "is above the": "test_reach.py::test_what_a_distance_beyond_the_plan_costs_is_said_once_with_what_would_cost_less",
    "would take": "test_reach.py::test_what_a_distance_beyond_the_plan_costs_is_said_once_with_what_would_cost_less",
    "as it reads them all": "test_any_distance.py::test_a_store_that_outgrew_its_scan_says_so_once_and_in_its_stats",
    "max_distance: found": "test_reach.py::test_what_needs_the_tables_says_what_to_build_and_that_does_it",
    "build the store with": "test_reach.py::test_what_needs_the_tables_says_what_to_build_and_that_does_it",
}


def texts(node: ast.AST) -> Iterator[str]:
    """The text of each literal in it, `{}` for what is put in."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def advice_of(path: Path) -> set[str]:
    """What a module says of what to do: in what it raises or warns of, or puts together for that."""
    told: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        named = isinstance(node, ast.Assign | ast.Return | ast.Raise)
        called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in RAISING
        if named or called:
            told |= {text for text in texts(node) if len(text.split()) > 2 and ADVISING.search(text)}
    return {text for text in told if "Examples:" not in text and text not in HEADINGS}


def test_every_message_that_advises_is_tried() -> None:
    found = {text for place in PLACES for path in (ROOT / "fpstore").glob(f"{place}.py") for text in advice_of(path)}
    untried = {text for text in found if not any(part in text for part in TRIED)}
    assert untried == set()
    assert {part for part in TRIED if not any(part in text for text in found)} == set()
    for test in TRIED.values():
        file, _, name = test.rpartition("::")
        assert f"def {name}(" in (Path(__file__).with_name(file) if file else Path(__file__)).read_text()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[fpstore.Store]:
    with fpstore.build(tmp_path / "s.fpstore", [1, 3, 1 << 60]) as made:
        yield made


def test_rows_are_taken_by_number_and_columns_by_arrays(store: fpstore.Store) -> None:
    found = store.probe(1)
    with pytest.raises(TypeError, match="expected the number of a row, or a slice; columns take arrays"):
        found[np.array([0])]  # type: ignore[call-overload]
    assert (found[0].fingerprint, len(found[:1]), found.fingerprint[np.array([0])].tolist()) == (1, 1, [1])


def test_a_column_or_a_frame_is_to_be_had_where_one_array_is_not(store: fpstore.Store) -> None:
    found = store.probe(1)
    with pytest.raises(TypeError, match=r"such as \.query, or to_pandas\(\), to_polars\(\) or to_arrow\(\)"):
        np.asarray(found)
    assert np.asarray(found.query).tolist() == [0, 0, 0]
    frames = {"pandas": found.to_pandas, "polars": found.to_polars, "pyarrow": found.to_arrow}
    assert {len(made()) for package, made in frames.items() if find_spec(package)} == {3}


def test_what_is_to_be_installed_is_an_extra_that_brings_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = {text for place in PLACES for path in (ROOT / "fpstore").glob(f"{place}.py") for text in advice_of(path)}
    installing = [text for text in told if "pip install" in text]
    assert len(installing) >= 3
    for text in installing:
        if asked := re.search(r"needs (\w+): pip install 'fpstore\[(\w+)\]'", text):
            assert any(asked[1] in each for each in extras[asked[2]]), text
        else:
            assert re.search(r"needs (\w+): pip install \1$", text), text


def test_a_key_that_is_no_text_is_taken_where_it_is_pickled() -> None:
    plain, pickled = (keys_for("bytes", prepickle) for prepickle in (False, True))
    with pytest.raises(TypeError, match="with prepickle=True it is pickled"):
        plain.ids([1j])
    ids: Any = np.array(pickled.ids([1j]), dtype=object)
    with pytest.raises(ValueError, match="found a pickle, expected prepickle=True"):
        plain.keys(ids)
    assert pickled.keys(ids) == [1j]


def test_a_plan_is_shown_of_a_number_or_of_a_store(command: Command, store: fpstore.Store) -> None:
    assert "Missing option '--n' or '--like'" in command("plan").err
    assert command("plan", "--n", "1e6").status == 0
    assert command("plan", "--like", store.path).status == 0


def test_a_probe_asks_for_a_fingerprint_a_text_or_a_file(command: Command, tmp_path: Path) -> None:
    path, queries = tmp_path / "t.fpstore", tmp_path / "q.hex"
    fpstore.build(path, [1], recipe=fpstore.text.DEFAULT_RECIPE).close()
    queries.write_text(f"{1:016x}\n")
    assert "nothing to ask for: expected a FINGERPRINT, --text or --input" in command("probe", path).err
    for asked in ([f"{1:016x}"], ["--text", "words and more of them"], ["--input", queries]):
        assert command("probe", path, *asked).status == 0
