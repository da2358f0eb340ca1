"""`fpstore pairs`."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.cluster import engines


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
    assert {"format": "fpstore.pairs/1", "first": f"{4:016x}", "second": f"{5:016x}", "distance": 1} in rows
    assert len(rows) == 3


def test_the_count_alone_is_one_number(command: Command, store: Path) -> None:
    assert command("pairs", store, "--count").lines == ["3"]
    assert json.loads(command("pairs", store, "--count", "--json").out) == {
        "format": "fpstore.pairs-count/1",
        "pair_count": 3,
    }


@pytest.mark.parametrize("arguments", [("--k", "9"), ("--memory", "much")])
def test_what_cannot_be_is_the_command_lines_fault(command: Command, store: Path, arguments: tuple[str, str]) -> None:
    outcome = command("pairs", store, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)


def test_pairs_are_signed_and_have_a_header_where_that_is_asked_for(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "t.fpstore", np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64)).close()
    outcome = command("pairs", tmp_path / "t.fpstore", "--signed", "--header")
    assert outcome.out == "first\tsecond\tdistance\n-2\t-1\t1\n"


@pytest.mark.parametrize("option", ["--signed", "--header"])
@pytest.mark.parametrize("other", ["--count", "--json"])
def test_options_that_would_do_nothing_are_refused(command: Command, store: Path, option: str, other: str) -> None:
    outcome = command("pairs", store, option, other)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"{option} goes without {other}" in outcome.err


def test_pairs_of_ids_are_those_of_all_rows_that_are_near_or_equal(command: Command, store: Path) -> None:
    outcome = command("pairs", store, "--of", "ids", "--header")
    head, *lines = outcome.lines
    assert (outcome.status, head) == (0, "first_id\tsecond_id\tdistance")
    assert sorted(lines) == ["0\t1\t1", "0\t2\t1", "0\t3\t0", "1\t2\t2", "1\t3\t1", "2\t3\t1"]
    assert command("pairs", store, "--of", "ids", "--count").lines == ["6"]
    assert command("pairs", store, "--of", "ids", "--count", "-k", "0").lines == ["1"]
    rows = [json.loads(line) for line in command("pairs", store, "--of", "ids", "--json", "-k", "0").lines]
    assert rows == [{"format": "fpstore.pairs/1", "first_id": "0", "second_id": "3", "distance": 0}]


def test_pairs_of_ids_need_ids_and_are_signed_where_that_is_asked_for(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "bare", [1, 2], ids=None).close()
    outcome = command("pairs", tmp_path / "bare", "--of", "ids")
    assert (outcome.status, outcome.out) == (2, "")
    assert "has no ids" in outcome.err
    fpstore.build(tmp_path / "s", [1, 2], ids=[-1, -2]).close()
    assert command("pairs", tmp_path / "s", "--of", "ids", "--signed").out == "-2\t-1\t2\n"


@pytest.mark.slow
@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("options", [[], ["--json"], ["--signed"], ["--of", "ids"], ["--of", "ids", "--json"]])
def test_workers_print_the_same_pairs_in_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool, options: list[str]
) -> None:
    monkeypatch.setattr("fpstore.cli.pairs.PRINTED_ROWS", 100)
    if not here:
        monkeypatch.setattr("fpstore.cluster.work.START_AFTER_SECONDS", 0)
        monkeypatch.setattr("fpstore.cluster.local.START_AFTER_SECONDS", 0)
    fpstore.build(tmp_path / "s", np.arange(60, dtype=np.uint64).repeat(2), ids="row").close()
    asked = ("pairs", tmp_path / "s", *options)
    expected = command(*asked)
    assert len(expected.lines) > 300
    found = command(*asked, "--workers", "2")
    assert (found.status, found.err) == (0, "")
    assert sorted(found.lines) == sorted(expected.lines)
    if not options:
        assert found.lines == sorted(found.lines)
    titled = command(*asked, "--workers", "2", "--header") if "--json" not in options else found
    assert titled.lines[-len(found.lines) :] == found.lines


def test_an_engine_and_a_folder_print_the_same_pairs_in_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpstore.build(tmp_path / "s", np.arange(60, dtype=np.uint64), ids="row").close()
    asked = ("pairs", tmp_path / "s", "--of", "ids")
    expected = sorted(tuple(map(int, line.split("\t"))) for line in command(*asked).lines)
    in_folder = ("--folder", tmp_path / "f")
    for options in (("--engine", "local"), in_folder, (*in_folder, "--workers", "1")):
        found = command(*asked, *options)
        assert (found.status, found.err) == (0, "")
        assert [tuple(map(int, line.split("\t"))) for line in found.lines] == expected
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == ["00000.part", "job"]
    seen: list[object] = []

    def named(*asked: object) -> engines.Engine:
        seen.append(asked)
        return engines.engine_named("local", None, 1)

    monkeypatch.setattr("fpstore.cluster.work.engine_named", named)
    found = command(*asked, "--engine", "ray", "--address", "a", "--workers", "2")
    assert [tuple(map(int, line.split("\t"))) for line in found.lines] == expected
    assert seen == [("ray", "a", 2)]


def test_workers_count_no_pairs(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5, 6]).close()
    for asked, told in (
        (("s", "--workers", "2", "--count"), "--workers goes without --count"),
        (("s", "--folder", "f", "--count"), "--folder goes without --count"),
        (("s", "--address", "a"), "--address goes with --engine ray or spark"),
    ):
        outcome = command("pairs", tmp_path / asked[0], *asked[1:])
        assert (outcome.status, told in outcome.err) == (2, True)
