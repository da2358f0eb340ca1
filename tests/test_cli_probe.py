"""`fpstore probe`: queries from everywhere, matches as lines."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from outcome import Command, Outcome

import fpstore
from fpstore import minhash
from fpstore.text import fingerprint
from fpstore.text.short import short_below

BASE = 0x9F3A5C0012AB44DE
TEXT = "a text of more than four words, for a store with a recipe"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.fpstore"
    fingerprints = np.array([BASE, BASE ^ 0b11, BASE ^ 0b1000, BASE ^ 0b11, 5], dtype=np.uint64)
    fpstore.build(path, fingerprints, ids=np.array([10, 9, 8, 7, 2**64 - 1], dtype=np.uint64)).close()
    return path


@pytest.fixture
def bare_store(tmp_path: Path) -> Path:
    path = tmp_path / "bare.fpstore"
    fpstore.build(path, np.array([BASE], dtype=np.uint64), ids=None).close()
    return path


@pytest.fixture
def text_store(command: Command, tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(TEXT)
    assert command("build", tmp_path / "text.fpstore", tmp_path / "a.txt").status == 0
    return tmp_path / "text.fpstore"


def test_matches_are_lines_of_query_fingerprint_distance_and_id(command: Command, store: Path) -> None:
    outcome = command("probe", store, "9f3a5c0012ab44de")
    assert outcome == Outcome(
        0,
        "9f3a5c0012ab44de\t9f3a5c0012ab44de\t0\t10\n"
        "9f3a5c0012ab44de\t9f3a5c0012ab44d6\t1\t8\n"
        "9f3a5c0012ab44de\t9f3a5c0012ab44dd\t2\t7\n"
        "9f3a5c0012ab44de\t9f3a5c0012ab44dd\t2\t9\n",
        "",
    )


@pytest.mark.parametrize("written", ["0000000000000005", "0x5", "5"])
def test_fingerprints_are_read_as_hex_with_a_prefix_or_without(command: Command, store: Path, written: str) -> None:
    outcome = command("probe", store, written, "--k", "0")
    assert outcome.out == "0000000000000005\t0000000000000005\t0\t18446744073709551615\n"


def test_queries_are_answered_in_the_order_they_are_typed(command: Command, store: Path) -> None:
    outcome = command("probe", store, "5", hex(BASE), "--k", "0")
    assert [line.split("\t")[3] for line in outcome.lines] == [str(2**64 - 1), "10"]


def test_no_match_is_no_error(command: Command, store: Path) -> None:
    assert command("probe", store, "0x00ff00ff00ff00ff") == Outcome(0, "", "")


def test_the_id_of_a_store_without_ids_is_a_dash(command: Command, bare_store: Path) -> None:
    assert command("probe", bare_store, hex(BASE)).out == f"{BASE:016x}\t{BASE:016x}\t0\t-\n"


def test_json_gives_an_object_a_line(command: Command, store: Path, bare_store: Path) -> None:
    outcome = command("probe", store, "5", "--k", "0", "--json")
    expected = {
        "format": "fpstore.probe/1",
        "query": 0,
        "query_fingerprint": f"{5:016x}",
        "fingerprint": f"{5:016x}",
        "distance": 0,
        "id": str(2**64 - 1),
    }
    assert [json.loads(line) for line in outcome.lines] == [expected]
    outcome = command("probe", bare_store, hex(BASE), "--json")
    assert [json.loads(line)["id"] for line in outcome.lines] == [None]


def test_k_narrows_the_answer(command: Command, store: Path) -> None:
    assert [line.split("\t")[3] for line in command("probe", store, hex(BASE), "--k", "1").lines] == ["10", "8"]


def test_every_row_of_an_input_is_a_query(command: Command, store: Path, tmp_path: Path) -> None:
    table = tmp_path / "new.csv"
    table.write_text(f"doc,hash\n1,{BASE:016x}\n2,0x5\n")
    outcome = command("probe", store, "--input", table, "--fingerprint-column", "hash", "--k", "0")
    assert [line.split("\t")[0] for line in outcome.lines] == [f"{BASE:016x}", f"{5:016x}"]


def test_an_input_of_several_batches_loses_no_query(command: Command, store: Path, tmp_path: Path) -> None:
    queries = np.full(40_000, 1 << 62, dtype=np.uint64)
    queries[[0, 16_383, 16_384, 39_999]] = 5
    np.save(tmp_path / "q.npy", queries)
    outcome = command("probe", store, "--input", tmp_path / "q.npy", "--k", "0")
    assert len(outcome.lines) == 4


def test_typed_fingerprints_are_answered_before_those_of_an_input(
    command: Command, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "q.hex").write_text(f"{BASE:016x}\n")
    outcome = command("probe", store, "5", "--input", tmp_path / "q.hex", "--k", "0")
    assert [line.split("\t")[0] for line in outcome.lines] == [f"{5:016x}", f"{BASE:016x}"]


@pytest.mark.slow
def test_queries_can_come_from_standard_input(store: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "fpstore", "probe", store, "--input", "-", "--format", "hex"],
        input=b"0x5\n",
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.split(b"\t")[0] == b"0000000000000005"


def test_a_bad_line_of_an_input_is_bad_data(command: Command, store: Path, tmp_path: Path) -> None:
    lines = tmp_path / "q.hex"
    lines.write_text("0x5\nfive\n")
    outcome = command("probe", store, "--input", lines)
    assert outcome.status == 1
    assert outcome.err.startswith(f"fpstore: {lines}, line 2: ")
    outcome = command("probe", store, "--input", lines, "--skip-bad")
    assert (outcome.status, len(outcome.lines)) == (0, 1)
    assert outcome.err == "fpstore: passed over: 1 bad line\n"


def test_a_text_is_probed_by_the_recipe_of_the_store(command: Command, text_store: Path) -> None:
    outcome = command("probe", text_store, "--text", TEXT.upper())
    assert outcome.out == f"{fingerprint(TEXT):016x}\t{fingerprint(TEXT):016x}\t0\t0\n"


def test_texts_of_an_input_are_probed_by_the_recipe_of_the_store(
    command: Command, text_store: Path, tmp_path: Path
) -> None:
    (tmp_path / "q.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    assert len(command("probe", text_store, "--input", tmp_path / "q.jsonl").lines) == 1


def test_a_store_without_a_recipe_takes_no_texts(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(TEXT)
    for arguments in (["--text", TEXT], ["--input", tmp_path / "q.txt"]):
        outcome = command("probe", store, *arguments)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert "recipe" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to ask for"),
        (["xyz"], "'xyz'"),
        (["18446744073709551616"], "18446744073709551616"),
        (["5", "--k", "65"], "max_distance"),
        (["5", "--k", "-1"], "-1"),
        (["--input", "q", "--format", "xml"], "xml"),
    ],
)
def test_a_wrong_command_line_is_status_2(command: Command, store: Path, arguments: list[str], said: str) -> None:
    outcome = command("probe", store, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("fpstore: ")
    assert said in outcome.err


def test_a_store_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    outcome = command("probe", tmp_path / "none.fpstore", "5")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert str(tmp_path / "none.fpstore") in outcome.err


@pytest.mark.slow
def test_a_reader_of_the_output_that_leaves_ends_the_probe_quietly(store: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.full(100_000, 5, dtype=np.uint64))
    with subprocess.Popen(
        [sys.executable, "-m", "fpstore", "probe", store, "--input", tmp_path / "q.npy"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"0000000000000005\t")
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize("text", ["", " ", "!?"])
def test_a_text_without_a_token_is_said_to_be_one(command: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text("some words of a text")
    assert command("build", tmp_path / "s.fpstore", tmp_path / "a.txt").status == 0
    outcome = command("probe", tmp_path / "s.fpstore", "--text", text)
    told = "fpstore: warning: --text has no token for recipe text-1: it is near its equals only\n"
    assert outcome == (0, "", told)
    assert command("probe", tmp_path / "s.fpstore", "--text", "words", "-k", "0").err == ""
    assert command("nearest", tmp_path / "s.fpstore", "--text", "words").err == ""
    assert command("build", tmp_path / "w.fpstore", tmp_path / "a.txt", "--recipe", "pypi-simhash").status == 0
    outcome = command("probe", tmp_path / "w.fpstore", "--text", text)
    told = "fpstore: warning: --text has no token for recipe pypi-simhash: no two such texts can be told apart\n"
    assert outcome == (0, "", told)


def test_a_typed_text_that_is_too_short_for_its_recipe_is_said_to_be_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some words of a text")
    assert command("build", tmp_path / "s.fpstore", tmp_path / "a.txt").status == 0
    told = "fpstore: warning: 1 of 1 texts have fewer than 35 tokens, too few for recipe text-1 and k = 3: "
    assert command("probe", tmp_path / "s.fpstore", "--text", "some words").err.startswith(told)
    assert command("probe", tmp_path / "s.fpstore", "--text", " ".join(map(str, range(35)))).err == ""
    assert command("build", tmp_path / "m.fpstore", tmp_path / "a.txt", "--recipe", "minhash-128").status == 0
    outcome = command("probe", tmp_path / "m.fpstore", "--text", "some words")
    told = "fpstore: warning: --text has fewer than {} tokens, too few for recipe minhash-128 and "
    with minhash.open(tmp_path / "m.fpstore") as store:
        assert store.recipe is not None
        enough = short_below(store.recipe, cut=(store.bands, store.rows_per_band))
    assert outcome.err.startswith(told.format(enough))
    assert command("probe", tmp_path / "m.fpstore", "--text", " ".join(map(str, range(enough)))).err == ""


@pytest.mark.slow
@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("options", [[], ["--json"], ["--signed", "--header"], ["5"]])
def test_workers_print_what_one_process_prints(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool, options: list[str]
) -> None:
    monkeypatch.setattr("fpstore.cli.shared.PRINTED_ROWS", 1000)
    if not here:
        monkeypatch.setattr("fpstore.cluster.work.START_AFTER_SECONDS", 0)
        monkeypatch.setattr("fpstore.cluster.local.START_AFTER_SECONDS", 0)
    queries = np.full(20_000, 1 << 62, dtype=np.uint64)
    queries[::9] = BASE
    queries[16_383] = 5
    np.save(tmp_path / "q.npy", queries)
    asked = ("probe", store, *options, "--input", tmp_path / "q.npy")
    expected = command(*asked)
    assert len(expected.lines) > 8000
    assert command(*asked, "--workers", "1") == command(*asked, "--workers", "2") == expected


def test_workers_need_an_input_of_fingerprints(command: Command, store: Path, tmp_path: Path) -> None:
    assert "--workers goes with --input" in command("probe", store, "5", "--workers", "2").err
    outcome = command("probe", store, "--input", "-", "--unbuffered", "--workers", "2")
    assert (outcome.status, "--workers goes without --unbuffered" in outcome.err) == (2, True)
    assert command("create", tmp_path / "m", "--recipe", "minhash-128").status == 0
    outcome = command("probe", tmp_path / "m", "--input", tmp_path / "none.txt", "--workers", "2")
    assert (outcome.status, "--workers goes with fingerprints: found signatures" in outcome.err) == (2, True)
