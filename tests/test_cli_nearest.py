"""`fpstore nearest`: the first lines of what `fpstore probe` prints."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore

BASE = 0x9F3A5C0012AB44DE


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.fpstore"
    fingerprints = np.array([BASE, BASE ^ 0b11, BASE ^ 0b1000, BASE ^ 0b11, 5], dtype=np.uint64)
    fpstore.build(path, fingerprints, ids=[10, 9, 8, 7, 6]).close()
    return path


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_the_nearest_are_the_first_lines_of_a_probe(command: Command, store: Path, count: int) -> None:
    probed = command("probe", store, hex(BASE), "6")
    found = command("nearest", store, hex(BASE), "6", "--count", count, "-k", 3)
    of_base, of_other = probed.lines[:4], probed.lines[4:]
    assert (len(of_base), len(of_other)) == (4, 1)
    assert (found.status, found.lines, found.err) == (0, of_base[:count] + of_other, "")


def test_one_is_the_default_and_the_distance_can_be_less(command: Command, store: Path) -> None:
    assert command("nearest", store, hex(BASE ^ 0b1)).lines == [f"{BASE ^ 0b1:016x}\t{BASE ^ 0b11:016x}\t1\t7"]
    assert command("nearest", store, hex(BASE ^ 0b1), "-k", "0").lines == []


def test_without_a_distance_the_nearest_are_found_however_far_they_are(command: Command, store: Path) -> None:
    found = command("nearest", store, hex(BASE), "--count", 9)
    assert [line.split("\t")[3] for line in found.lines] == ["10", "8", "7", "9", "6"]
    assert command("nearest", store, f"{~BASE & (1 << 64) - 1:x}").lines[0].split("\t")[2:] == ["35", "6"]


def test_lines_of_a_file_are_asked_for_and_are_json(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "q.hex").write_text(f"{BASE:016x}\n{5:016x}\n")
    lines = command("nearest", store, "--input", tmp_path / "q.hex", "--json", "--count", "2", "-k", "3").lines
    rows = [json.loads(line) for line in lines]
    assert [(row["query"], row["id"]) for row in rows] == [(0, "10"), (0, "8"), (1, "6")]
    assert {row["format"] for row in rows} == {"fpstore.nearest/1"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["5", "--count", "0"], "--count"),
        (["5", "--count", str(10**20)], f"count: found {10**20}, expected at most"),
        (["5", "-k", "65"], "max_distance"),
        ([], "nothing to ask"),
    ],
)
def test_what_cannot_be_is_the_command_lines_fault(command: Command, store: Path, line: list[str], said: str) -> None:
    outcome = command("nearest", store, *line)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err
