"""`fpstore build`: what becomes of options and inputs, and what is refused."""

# mypy: disable-error-code="union-attr"

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from outcome import Command, Outcome, running

import fpstore
from fpstore import format as layout
from fpstore import inputs
from fpstore.cli import columns
from fpstore.cli.values import CODECS, FORMATS
from fpstore.inputs import cells

FINGERPRINTS = np.array([0, 7, 1 << 63, 2**64 - 1, 7], dtype=np.uint64)


@pytest.fixture
def npy(tmp_path: Path) -> Path:
    path = tmp_path / "some.npy"
    np.save(path, FINGERPRINTS)
    return path


def test_a_store_of_an_npy_file_holds_its_fingerprints_and_row_numbers(
    command: Command, npy: Path, tmp_path: Path
) -> None:
    outcome = command("build", tmp_path / "s.fpstore", npy)
    assert (outcome.status, outcome.out) == (0, "")
    told = f"{tmp_path / 's.fpstore'}: read 5 rows of 1 file; holds 4 fingerprints with 5 ids, "
    assert outcome.err.startswith(told)
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.count() == 4
        assert store.probe(7, max_distance=0).id.tolist() == [1, 4]


def test_several_inputs_are_numbered_as_one(command: Command, npy: Path, tmp_path: Path) -> None:
    shutil.copy(npy, tmp_path / "more.npy")
    assert command("build", tmp_path / "s.fpstore", npy, tmp_path / "more.npy").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.probe(0, max_distance=0).id.tolist() == [0, 5]


def test_ids_come_from_the_column_that_is_named(command: Command, tmp_path: Path) -> None:
    table = tmp_path / "some.csv"
    table.write_text("doc,hash\n90,00000000000000ff\n18446744073709551615,0x1\n")
    assert (
        command("build", tmp_path / "s.fpstore", table, "--fingerprint-column", "hash", "--id-column", "doc").status
        == 0
    )
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.probe(255, max_distance=0).id.tolist() == [90]
        assert store.probe(1, max_distance=0).id.tolist() == [2**64 - 1]


def test_a_column_can_be_named_by_its_number(command: Command, tmp_path: Path) -> None:
    table = tmp_path / "some.tsv"
    table.write_text("00000000000000ff\t5\n")
    assert command("build", tmp_path / "s.fpstore", table, "--fingerprint-column", "0", "--id-column", "1").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.probe(255, max_distance=0).id.tolist() == [5]


def test_ids_none_builds_a_store_without_ids(command: Command, npy: Path, tmp_path: Path) -> None:
    assert command("build", tmp_path / "s.fpstore", npy, "--ids", "none").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert not store._settings.ids
        assert store.probe(7, max_distance=0).id is None


@pytest.mark.parametrize("codec", CODECS)
def test_the_codec_is_the_one_asked_for(command: Command, npy: Path, tmp_path: Path, codec: str) -> None:
    assert command("build", tmp_path / "s.fpstore", npy, "--codec", codec).status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.codec == codec


@pytest.mark.parametrize("plan", ["paper-4", "paper-16", "flips-2:1,1", "choose-5"])
def test_a_plan_can_be_named(command: Command, npy: Path, tmp_path: Path, plan: str) -> None:
    assert command("build", tmp_path / "s.fpstore", npy, "--plan", plan).status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.plan.name == plan


def test_the_most_bytes_choose_the_plan(command: Command, npy: Path, tmp_path: Path) -> None:
    assert command("build", tmp_path / "s.fpstore", npy, "--max-bytes", "0.001").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        # So few keys are within any limit, and the fastest plan then wins.
        assert store.plan.max_distance == 3


def test_k_is_the_distance_that_the_store_answers(command: Command, npy: Path, tmp_path: Path) -> None:
    assert command("build", tmp_path / "s.fpstore", npy, "--k", "6").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.max_distance == 6
        assert store.probe(63).fingerprint.tolist() == [7, 7, 0]


def test_texts_record_the_recipe_and_fingerprints_do_not(command: Command, npy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.txt").write_text("four words or more")
    assert command("build", tmp_path / "t.fpstore", folder).status == 0
    assert command("build", tmp_path / "n.fpstore", npy).status == 0
    with fpstore.open(tmp_path / "t.fpstore") as store:
        assert store.recipe is not None
        assert store.recipe.name == "text-1"
    with fpstore.open(tmp_path / "n.fpstore") as store:
        assert store.recipe is None


def test_json_lines_give_texts_and_ids(command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "some.jsonl.gz"
    records = [{"doc": 17, "body": "four words or more"}, {"doc": 4, "body": "something else"}]
    lines.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    assert command("build", tmp_path / "s.fpstore", lines, "--text-column", "body", "--id-column", "doc").status == 0
    found = command("probe", tmp_path / "s.fpstore", "--text", "Four words, or MORE")
    assert found.lines[0].split("\t")[2:] == ["0", "17"]


@pytest.mark.slow
def test_standard_input_is_read_for_a_dash(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "fpstore", "build", tmp_path / "s.fpstore", "-", "--format", "hex"],
        input=b"00000000000000ff\n",
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, b"")
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.probe(255, max_distance=0).id.tolist() == [0]


def test_skip_bad_says_how_many_lines_it_passed_over(command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "some.hex"
    lines.write_text("00000000000000ff\nnone\n12 34\n00000000000000fe\n")
    outcome = command("build", tmp_path / "s.fpstore", lines, "--skip-bad")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.splitlines()[0] == "fpstore: passed over: 2 bad lines"
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.probe(254, max_distance=0).id.tolist() == [3]


def test_force_replaces_a_store(command: Command, npy: Path, tmp_path: Path) -> None:
    lines = tmp_path / "one.hex"
    lines.write_text("00000000000000ff\n")
    assert command("build", tmp_path / "s.fpstore", npy).status == 0
    assert command("build", tmp_path / "s.fpstore", lines, "--force").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.count() == 1


def test_a_store_that_is_there_stays_without_force(command: Command, npy: Path, tmp_path: Path) -> None:
    assert command("build", tmp_path / "s.fpstore", npy).status == 0
    outcome = command("build", tmp_path / "s.fpstore", npy)
    assert outcome.status == 2
    assert "--force" in outcome.err
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store.count() == 4


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--plan", "paper-5"], 2, "paper-5"),
        (["--plan", "12"], 2, "plan: found '12'"),
        (["--plan", "size", "--max-bytes", "12"], 2, "plan"),
        (["--plan", "paper-4", "--k", "4"], 2, "paper-4"),
        (["--codec", "zip"], 2, "zip"),
        (["--k", "-1"], 2, "-1"),
        (["--k", "three"], 2, "three"),
        (["--k", "65"], 2, "65"),
        (["--memory", "2 pounds"], 2, "2 pounds"),
        (["--memory", "1KiB"], 2, "1024"),
        (["--format", "xml"], 2, "xml"),
        (["--id-column", "doc"], 2, "doc"),
        (["--fingerprint-column", "hash"], 2, "hash"),
        (["--format", "hex"], 1, "line 1"),
        (["--format", "text", "--fingerprint-column", "hash"], 2, "hash"),
    ],
)
def test_what_the_command_line_gets_wrong_is_told_apart_from_bad_data(
    command: Command, npy: Path, tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    outcome = command("build", tmp_path / "s.fpstore", npy, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (status, "", 1)
    assert outcome.err.startswith("fpstore: ")
    assert said in outcome.err
    assert os.listdir(tmp_path) == [npy.name]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([1.0, np.nan]), "float64"),
        (np.array([5, -1], dtype=np.int32), "-1"),
        (np.array([[1, 2]], dtype=np.uint64), "uint64[1, 2]"),
        (np.array(["a"]), "<U1"),
    ],
    ids=["floats", "negative", "two-dimensional", "strings"],
)
def test_an_array_that_holds_no_fingerprints_is_bad_data(
    command: Command, tmp_path: Path, array: np.ndarray, said: str
) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, array)
    outcome = command("build", tmp_path / "s.fpstore", path)
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert outcome.err.startswith(f"fpstore: {path}")
    assert said in outcome.err
    assert os.listdir(tmp_path) == ["bad.npy"]


def test_a_bad_line_is_named_by_file_and_number(command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "some.hex"
    lines.write_text("00000000000000ff\nnot hex\n")
    outcome = command("build", tmp_path / "s.fpstore", lines)
    assert outcome.status == 1
    assert outcome.err.startswith(f"fpstore: {lines}, line 2: found 'not hex', expected ")
    assert os.listdir(tmp_path) == ["some.hex"]


def test_an_input_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    outcome = command("build", tmp_path / "s.fpstore", tmp_path / "none.npy")
    assert outcome == Outcome(1, "", f"fpstore: {tmp_path / 'none.npy'}: No such file or directory\n")


def test_a_parent_folder_that_is_not_there_is_named(command: Command, npy: Path, tmp_path: Path) -> None:
    outcome = command("build", tmp_path / "none" / "s.fpstore", npy)
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert str(tmp_path / "none") in outcome.err


def test_the_formats_and_codecs_offered_are_those_there_are() -> None:
    assert FORMATS == inputs.FORMATS
    assert (columns.WAYS, columns.MAX_ID) == (cells.WAYS, cells.MAX_VALUE)
    widths = (layout.MIN_KEY_BITS, layout.MAX_KEY_BITS, layout.BITS_STEP)
    assert widths == (cells.MIN_BITS, cells.BITS, cells.BITS_STEP)
    assert sorted(CODECS) == sorted(layout.CODECS)


@pytest.mark.slow
def test_an_interrupted_build_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "fpstore", "build", tmp_path / "s.fpstore", "-", "--format", "u64")
    with running(*command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # More than one batch, and no end: the build goes on waiting for the rest.
        process.stdin.write(bytes(8 << 20))
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not os.listdir(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert os.listdir(tmp_path)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"fpstore: interrupted\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("seed", ["5", "random"])
def test_a_seed_shuffles_the_plan(command: Command, npy: Path, tmp_path: Path, seed: str) -> None:
    assert command("build", tmp_path / "s.fpstore", npy, "--shuffle", seed, "--plan", "paper-4").status == 0
    assert command("create", tmp_path / "t.fpstore", "--shuffle", seed, "--plan", "paper-4").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as built, fpstore.open(tmp_path / "t.fpstore") as created:
        assert built.plan.name == created.plan.name == "paper-4 shuffled"
        assert (built.plan == created.plan) == (seed == "5")


def test_a_seed_that_is_no_number_is_refused(command: Command, npy: Path, tmp_path: Path) -> None:
    outcome = command("build", tmp_path / "s.fpstore", npy, "--shuffle", "x")
    assert outcome.status == 2
    assert "found 'x', expected a whole number or random" in outcome.err


def test_an_empty_input_is_said_to_be_empty(command: Command, tmp_path: Path) -> None:
    for name in ("a.hex", "a.csv", "a.jsonl"):
        (tmp_path / name).touch()
        outcome = command("build", tmp_path / "s.fpstore", tmp_path / name, "--force")
        told = f"{tmp_path / 's.fpstore'}: read 0 rows of 1 file; holds nothing, as the input is empty\n"
        assert outcome == Outcome(0, "", told)


def test_times_are_never_stored_for_hashes(command: Command, tmp_path: Path) -> None:
    table = tmp_path / "x.tsv"
    for header in ("", "unixtime\tvalue\n"):
        table.write_text(header + "1700000000\t00000000000000ff\n1700000001\t00000000000000fe\n")
        outcome = command("build", tmp_path / "s.fpstore", table)
        assert (outcome.status, outcome.out) == (1, "")
        assert "--fingerprint-column" in outcome.err
        assert not (tmp_path / "s.fpstore").exists()
    table.write_text("unixtime\thash\n1700000000\t00000000000000ff\n")
    assert command("build", tmp_path / "s.fpstore", table).status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert [rows.fingerprint.tolist() for rows in store.rows()] == [[255]]
    outcome = command("probe", tmp_path / "s.fpstore", "--input", table, "--fingerprint-column", "unixtime")
    assert (outcome.status, outcome.out) == (0, "")
    table.write_text("unixtime\tvalue\n1700000000\t00000000000000ff\n")
    for name in ("probe", "remove"):
        outcome = command(name, tmp_path / "s.fpstore", "--input", table)
        assert (outcome.status, outcome.out) == (1, "")
        assert "found columns unixtime, value; expected one called fingerprint" in outcome.err


def test_the_help_says_what_memory_is_for(command: Command) -> None:
    told = " ".join(command("build", "--help").out.split())
    assert "--memory SIZE What sorting may take;" in told
    assert "Reading CSV or Parquet takes some 100 MB besides." in told


def test_an_input_of_bad_lines_only_is_not_said_to_be_empty(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in.hex").write_text("none\nneither\n")
    outcome = command("build", tmp_path / "s.fpstore", tmp_path / "in.hex", "--skip-bad")
    assert outcome.status == 1
    assert outcome.err == (
        "fpstore: inputs: read 0 of 2, as all that was found is bad (2 bad lines), expected one that can be read\n"
    )
    assert not (tmp_path / "s.fpstore").exists()


@pytest.mark.parametrize(
    ("name", "data", "more", "by_row"),
    [
        ("a.csv", "doc_id,fp\n9,00000000000000ff\n8,00000000000000fe\n", [], True),
        ("a.csv", "doc_id,fp\n9,00000000000000ff\n8,00000000000000fe\n", ["--workers", "2"], True),
        ("a.csv", "doc_id,fp\n9,00000000000000ff\n8,00000000000000fe\n", ["--ids", "from:5"], True),
        ("a.csv", "doc_id,fp\n9,00000000000000ff\n8,00000000000000fe\n", ["--id-column", "doc_id"], False),
        ("a.csv", "id,fp\n9,00000000000000ff\n8,00000000000000fe\n", [], False),
        ("a.csv", "id,fp\n9,00000000000000ff\n8,00000000000000fe\n", ["--workers", "2"], False),
        ("a.csv", "id,fp\n9,00000000000000ff\n8,00000000000000fe\n", ["--ids", "row"], True),
        ("a.jsonl", '{"url": "a", "fp": "00000000000000ff"}\n{"url": "b", "fp": "00000000000000fe"}\n', [], True),
        ("a.jsonl", '{"url": "a", "text": "one"}\n{"url": "b", "text": "two"}\n', ["--id-type", "string"], False),
        ("a.hex", "00000000000000ff\n00000000000000fe\n", [], True),
    ],
)
def test_ids_that_are_row_numbers_are_said_to_be(
    command: Command, tmp_path: Path, name: str, data: str, more: list[str], by_row: bool
) -> None:
    """A table that calls its ids doc_id, or has urls, loses them here; the counts alone read as if these were kept."""
    (tmp_path / name).write_text(data)
    outcome = command("build", tmp_path / "s", tmp_path / name, *more)
    assert (outcome.status, "with 2 ids" in outcome.err) == (0, True), outcome.err
    assert ("with 2 ids, the numbers of the rows, " in outcome.err) == by_row


def test_a_list_in_a_file_of_texts_is_told_its_format_by_a_store_of_fingerprints(
    command: Command, npy: Path, tmp_path: Path
) -> None:
    store, path = tmp_path / "s", tmp_path / "a.txt"
    path.write_text("00000000000000ff\n00000000000000fe\n")
    assert command("build", store, npy, "--ids", "none").status == 0
    for line in (("add", store, path), ("probe", store, "--input", path), ("remove", store, "--input", path)):
        refused = command(*line)
        assert (refused.status, "or inputs of fingerprints (--format hex, --fingerprint-column)" in refused.err) == (
            2,
            True,
        )
        assert command(*line, "--format", "hex").status == 0
