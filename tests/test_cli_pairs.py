"""`fpstore pairs`."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.fpstore"
    # 5, 7 and 4 are 1 or 2 apart, the last is near nothing.
    fpstore.build(path, np.array([5, 7, 4, 5, (1 << 64) - 1], dtype=np.uint64)).close()
    return path


def test_pairs_are_printed_once_the_smaller_first(command: Command, store: Path) -> None:
    outcome = command("pairs", store)
    assert (outcome.status, outcome.err) == (0, "")
    assert sorted(outcome.lines) == [
        "0000000000000004\t0000000000000005\t1",
        "0000000000000004\t0000000000000007\t2",
        "0000000000000005\t0000000000000007\t1",
    ]


def test_a_smaller_k_prints_fewer(command: Command, store: Path) -> None:
    assert len(command("pairs", store, "--k", "1").lines) == 2


def test_json_pairs_are_an_object_a_line(command: Command, store: Path) -> None:
    rows = [json.loads(line) for line in command("pairs", store, "--json").lines]
    assert {"first": "0000000000000004", "second": "0000000000000005", "distance": 1} in rows
    assert len(rows) == 3


def test_the_count_alone_is_one_number(command: Command, store: Path) -> None:
    assert command("pairs", store, "--count").lines == ["3"]
    assert json.loads(command("pairs", store, "--count", "--json").out) == {"pairs": 3}


@pytest.mark.parametrize("arguments", [("--k", "9"), ("--memory", "much")])
def test_what_cannot_be_is_the_command_lines_fault(command: Command, store: Path, arguments: tuple[str, str]) -> None:
    outcome = command("pairs", store, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
