"""`fpstore create` and `fpstore add`: rows from everywhere into a store that is there."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from outcome import Command, Outcome, running

import fpstore
from fpstore import text
from fpstore.cli import add
from fpstore.cli.values import HASHES, RECIPES
from fpstore.text import fingerprint

BASE = 0x9F3A5C0012AB44DE


def rows_of(path: Path) -> set[tuple[int, int | None]]:
    with fpstore.open(path) as store:
        return {
            row
            for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
            for row in zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True)
        }


NOTHING_CHANGED = "; where one was there already, nothing changed"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """BASE with the ids 10 and 11."""
    path = tmp_path / "s.fpstore"
    fpstore.build(path, np.array([BASE, BASE], dtype=np.uint64), ids=[10, 11]).close()
    return path


@pytest.fixture
def bare(command: Command, tmp_path: Path) -> Path:
    outcome = command("create", tmp_path / "bare.fpstore", "--id-type", "none")
    assert outcome == Outcome(0, "", f"{tmp_path / 'bare.fpstore'}: empty, without ids, plan flips-3:1,0,0\n")
    return tmp_path / "bare.fpstore"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text(f"doc,hash\n20,{BASE ^ 1:016x}\n21,0x5\n22,0x7\n")
    return path


# --- create ---


def test_a_store_that_is_there_is_taken_where_it_is_what_was_asked_for(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "s.fpstore"
    assert command("create", path, "--exist-ok").err == f"{path}: empty, with ids, plan flips-3:1,0,0\n"
    with fpstore.open(path, "w") as opened:
        opened.add([5], ids=[7])
    assert command("create", path, "--exist-ok").err == f"{path}: there already, with ids, plan flips-3:1,0,0\n"
    assert rows_of(path) == {(5, 7)}
    outcome = command("create", path, "--exist-ok", "-k", "2", "--id-type", "none")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"{path}: id_type: found 'uint64', expected None; max_distance: found 3, expected 2" in outcome.err
    assert command("create", path).status == 2


def test_an_empty_store_has_what_was_asked_for(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "s.fpstore"
    arguments = ("--k", "2", "--plan", "flips-2:1,0", "--codec", "rice", "--id-type", "none", "--recipe", "text-1")
    assert command("create", path, *arguments) == Outcome(0, "", f"{path}: empty, without ids, plan flips-2:1,0\n")
    with fpstore.open(path) as store:
        assert (store.count(), store.max_distance, store.plan.name, store.codec) == (0, 2, "flips-2:1,0", "rice")
        assert not store._settings.ids
        assert store.recipe == text.DEFAULT_RECIPE


def test_an_empty_store_has_ids_and_no_recipe_by_default(command: Command, tmp_path: Path) -> None:
    assert command("create", tmp_path / "s.fpstore").status == 0
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert store._settings.ids
        assert store.recipe is None


def test_the_recipes_offered_are_those_there_are() -> None:
    assert list(RECIPES) == list(text.recipes())
    assert text.fields.CHOICES["hash"] == HASHES


@pytest.mark.parametrize(
    "arguments", [["--k", "99"], ["--plan", "none-5"], ["--recipe", "words-5"], ["--id-type", "x"]]
)
def test_a_store_that_cannot_be_is_not_made(command: Command, tmp_path: Path, arguments: list[str]) -> None:
    outcome = command("create", tmp_path / "s.fpstore", *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert os.listdir(tmp_path) == []


def test_a_store_is_not_made_over_another(command: Command, store: Path) -> None:
    outcome = command("create", store)
    assert outcome == Outcome(2, "", f"fpstore: {store}: already there\n")
    assert len(rows_of(store)) == 2


# --- add ---


def test_rows_with_ids_of_a_column_are_added(command: Command, store: Path, table: Path) -> None:
    outcome = command("add", store, table, "--fingerprint-column", "hash", "--id-column", "doc")
    assert outcome == Outcome(0, "", f"{store}: wrote 3 rows{NOTHING_CHANGED}\n")
    assert rows_of(store) == {(BASE, 10), (BASE, 11), (BASE ^ 1, 20), (5, 21), (7, 22)}


def test_several_inputs_are_added_to_a_store_without_ids(command: Command, bare: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2], dtype=np.uint64))
    (tmp_path / "b.hex").write_text("00000000000000ff\n")
    assert (
        command("add", bare, tmp_path / "a.npy", tmp_path / "b.hex").err == f"{bare}: wrote 3 rows{NOTHING_CHANGED}\n"
    )
    assert command("add", bare, tmp_path / "a.npy", "--ids", "none").err == f"{bare}: wrote 2 rows{NOTHING_CHANGED}\n"
    assert rows_of(bare) == {(1, None), (2, None), (255, None)}


def test_rows_are_numbered_from_the_first_id_over_inputs_and_batches(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add, "BATCH_ROWS", 2)
    np.save(tmp_path / "a.npy", np.array([1, 1 << 20, 1 << 40], dtype=np.uint64))
    (tmp_path / "b.hex").write_text("00000000ffff0000\n0000000000000003\n")
    outcome = command("add", store, tmp_path / "a.npy", tmp_path / "b.hex", "--ids", f"from:{12}")
    assert outcome == Outcome(0, "", f"{store}: wrote 5 rows{NOTHING_CHANGED}\n")
    new = {(1, 12), (1 << 20, 13), (1 << 40, 14), (0xFFFF0000, 15), (3, 16)}
    assert rows_of(store) == {(BASE, 10), (BASE, 11)} | new
    outcome = command("add", store, tmp_path / "b.hex", "--ids", f"from:{2**64 - 2}", "--if-new")
    assert [line.split("\t")[0] for line in outcome.lines] == [str(2**64 - 2), str(2**64 - 1)]


def test_rows_are_numbered_in_a_store_with_ids_and_to_the_last_id_only(
    command: Command, store: Path, bare: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2], dtype=np.uint64))
    for path, arguments, message in (
        (store, ["--ids", "from:5", "--id-column", "doc"], "id_column: found it with ids 'row'"),
        (store, ["--ids", "from:-1"], "found 'from:-1', expected column, row, none or from:N"),
        (store, ["--ids", f"from:{2**64 - 1}"], "found id 18446744073709551616 for a row, expected at most 2**64 - 1"),
        (bare, ["--ids", "from:5"], "the store has no ids, expected no --ids and no --id-column"),
        (store, [], "found ids of a column, expected ids (--ids) row, none or from:N for format npy"),
    ):
        outcome = command("add", path, tmp_path / "a.npy", *arguments)
        assert (outcome.status, outcome.out) == (2, "")
        assert message in outcome.err
    assert rows_of(store) == {(BASE, 10), (BASE, 11)}
    assert rows_of(bare) == set()


def test_the_column_called_id_holds_the_ids_and_row_is_never_a_column(
    command: Command, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("row,id,hash\n50,60,0x1\n51,61,0x2\n")
    assert command("add", store, tmp_path / "new.csv").status == 0
    assert command("add", store, tmp_path / "new.csv", "--ids", "from:20").status == 0
    assert rows_of(store) == {(BASE, 10), (BASE, 11), (1, 60), (2, 61), (1, 20), (2, 21)}
    (tmp_path / "new.csv").write_text("doc_id,hash\n50,0x1\n")
    outcome = command("add", store, tmp_path / "new.csv")
    assert outcome.status == 1
    assert "found columns doc_id, hash; expected one called id, or id_column (--id-column)" in outcome.err


@pytest.mark.parametrize("ids", ["row", "from:0"])
def test_row_numbers_are_no_ids_where_there_are_rows(command: Command, store: Path, tmp_path: Path, ids: str) -> None:
    (tmp_path / "new.csv").write_text("hash\n0x1\n0x2\n")
    outcome = command("add", store, tmp_path / "new.csv", "--ids", ids)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "expected --ids column, or from:N with an N above every id that is there" in outcome.err
    assert rows_of(store) == {(BASE, 10), (BASE, 11)}
    command("create", tmp_path / "empty.fpstore")
    assert command("add", tmp_path / "empty.fpstore", tmp_path / "new.csv", "--ids", ids).status == 0
    assert rows_of(tmp_path / "empty.fpstore") == {(1, 0), (2, 1)}


def test_what_is_known_is_written_signed_and_below_a_header_where_that_is_asked_for(
    command: Command, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text(f"id,hash\n18446744073709551615,{BASE ^ 1:016x}\n")
    outcome = command("add", store, tmp_path / "new.csv", "--if-new", "--signed", "--header")
    assert outcome.lines == [
        "id\tfingerprint\tmatch_fingerprint\tmatch_distance\tmatch_id",
        f"-1\t{(BASE ^ 1) - 2**64}\t{BASE - 2**64}\t1\t10",
    ]


def test_only_what_is_new_is_added_and_the_rest_printed(command: Command, store: Path, table: Path) -> None:
    outcome = command("add", store, table, "--fingerprint-column", "hash", "--id-column", "doc", "--if-new")
    assert outcome.status == 0
    assert outcome.lines == [
        f"20\t{BASE ^ 1:016x}\t{BASE:016x}\t1\t10",
        f"22\t{7:016x}\t{5:016x}\t1\t21",
    ]
    assert outcome.err == f"{store}: added 1 of 3 rows\n"
    assert rows_of(store) == {(BASE, 10), (BASE, 11), (5, 21)}


def test_a_smaller_k_finds_more_new(command: Command, store: Path, table: Path) -> None:
    outcome = command("add", store, table, "--fingerprint-column", "hash", "--id-column", "doc", "--if-new", "--k", "0")
    assert outcome == Outcome(0, "", f"{store}: added 3 of 3 rows\n")


def test_json_says_what_is_known_as_an_object_a_line(command: Command, store: Path, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text(f"{BASE ^ 2:016x}\t30\n")
    outcome = command(
        "add", store, tmp_path / "new.tsv", "--fingerprint-column", "0", "--id-column", "1", "--if-new", "--json"
    )
    expected = {
        "format": "fpstore.add/1",
        "fingerprint": f"{BASE ^ 2:016x}",
        "match_fingerprint": f"{BASE:016x}",
        "match_distance": 1,
    }
    assert [json.loads(line) for line in outcome.lines] == [expected | {"id": "30", "match_id": "10"}]
    (tmp_path / "new.hex").write_text(f"{BASE:016x}\n{BASE ^ 2:016x}\n")
    outcome = command("add", bare, tmp_path / "new.hex", "--if-new", "--json")
    assert [json.loads(line) for line in outcome.lines] == [expected | {"id": None, "match_id": None}]


def test_the_ids_of_a_store_without_ids_are_dashes(command: Command, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "new.hex").write_text(f"{5:016x}\n{4:016x}\n")
    assert command("add", bare, tmp_path / "new.hex", "--if-new").out == f"-\t{4:016x}\t{5:016x}\t1\t-\n"


def test_texts_are_added_by_the_recipe_of_the_store(command: Command, tmp_path: Path) -> None:
    path, lines = tmp_path / "docs.fpstore", tmp_path / "new.jsonl"
    lines.write_text('{"doc": 5, "body": "four words or more"}\n{"doc": 6, "body": "Four words, or MORE"}\n')
    assert command("create", path, "--recipe", "text-1").status == 0
    outcome = command("add", path, lines, "--text-column", "body", "--id-column", "doc", "--if-new")
    known = f"{fingerprint('four words or more'):016x}"
    assert outcome.lines == [f"6\t{known}\t{known}\t0\t5"]


def test_texts_for_a_store_without_a_recipe_are_refused(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text('{"text": "four words or more", "id": 1}\n')
    outcome = command("add", store, tmp_path / "new.jsonl", "--id-column", "id")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "found no recipe for texts in the store, expected one built from texts, or inputs of" in outcome.err
    assert len(rows_of(store)) == 2


def test_the_advice_for_a_list_of_fingerprints_that_looks_like_a_text_works(
    command: Command, store: Path, tmp_path: Path
) -> None:
    hashes = tmp_path / "hashes.txt"
    hashes.write_text("0123456789abcdef\t77\n")
    for words in (("add", store, hashes), ("probe", store, "--input", hashes), ("nearest", store, "--input", hashes)):
        ids = ("--ids", "from:1000") if words[0] == "add" else ()
        refused = command(*words, *ids)
        assert (refused.status, refused.err.count("\n")) == (2, 1)
        assert "or inputs of fingerprints (--format hex, --fingerprint-column)" in refused.err
        assert command(*words, "--format", "hex").status == 0
    assert len(rows_of(store)) == 3


def test_rows_of_several_batches_are_all_added(
    command: Command, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add, "BATCH_ROWS", 100)
    fingerprints = np.random.default_rng(1).integers(0, 1 << 64, 950, dtype=np.uint64)
    np.save(tmp_path / "a.npy", fingerprints)
    assert command("add", bare, tmp_path / "a.npy").err == f"{bare}: wrote 950 rows{NOTHING_CHANGED}\n"
    assert {key for key, _ in rows_of(bare)} == set(fingerprints.tolist())
    assert len(command("add", bare, tmp_path / "a.npy", "--if-new").lines) == 950


def test_an_input_without_rows_adds_none(command: Command, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "new.hex").write_text("")
    assert command("add", bare, tmp_path / "new.hex") == Outcome(0, "", f"{bare}: wrote 0 rows\n")


def test_skip_bad_says_how_many_lines_it_passed_over(command: Command, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "new.hex").write_text("00000000000000ff\nnone\n")
    outcome = command("add", bare, tmp_path / "new.hex", "--skip-bad")
    assert outcome == Outcome(0, "", f"fpstore: passed over: 1 bad line\n{bare}: wrote 1 row{NOTHING_CHANGED}\n")


def test_a_bad_line_ends_it_and_says_how_much_was_added_before(
    command: Command, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "new.csv"
    lines.write_text("fingerprint\n" + "0x1\n0x2\n" * 2000 + "none\n")
    monkeypatch.setattr(add, "BATCH_ROWS", 1000)
    outcome = command("add", bare, lines)
    assert outcome.status == 1
    first, second = outcome.err.splitlines()
    assert first == f"{bare}: wrote 4000 rows{NOTHING_CHANGED}"
    assert second.startswith(f"fpstore: {lines}, line 4002: found 'none', expected ")
    assert rows_of(bare) == {(1, None), (2, None)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id-column", "hash"], "found column hash as fingerprint and as id"),
        (["--ids", "doc"], "found 'doc', expected column, row, none or from:N"),
        (["--ids", "row", "--id-column", "doc"], "id_column: found it with ids 'row', expected ids 'column'"),
        (["--ids", f"from:{2**64}"], "found 'from:18446744073709551616', expected column, row, none or from:N"),
        (["--id-column", "doc", "--header"], "--header goes with --if-new"),
        (["--id-column", "doc", "--if-new", "--json", "--header"], "--header goes without --json"),
        (["--id-column", "doc", "--if-new", "--json", "--signed"], "--signed goes without --json"),
        (["--id-column", "doc", "--idf", "none"], "--idf goes with texts: found fingerprints"),
        (["--ids", "none"], "the store has ids, expected --ids"),
        (["--id-column", "doc", "--k", "2"], "--max-distance goes with --if-new"),
        (["--id-column", "doc", "--if-new", "--k", "9"], "max_distance: found 9"),
    ],
)
def test_a_command_line_that_cannot_be_adds_nothing(
    command: Command, store: Path, table: Path, arguments: list[str], said: str
) -> None:
    outcome = command("add", store, table, "--fingerprint-column", "hash", *arguments)
    status = 1 if "and as id" in said else 2
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (status, "", 1)
    assert said in outcome.err
    assert len(rows_of(store)) == 2


def test_ids_for_a_store_without_ids_are_refused(command: Command, bare: Path, table: Path) -> None:
    outcome = command("add", bare, table, "--fingerprint-column", "hash", "--id-column", "doc")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "the store has no ids, expected no --ids" in outcome.err


def test_what_is_not_there_is_named(command: Command, store: Path, table: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "none.fpstore", table), (store, tmp_path / "none.csv")):
        outcome = command("add", *arguments, "--id-column", "doc")
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert f"{tmp_path / 'none'}" in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add", "remove", "compact"])
def test_a_store_that_another_process_writes_to_is_a_line_that_names_it(
    command: Command, store: Path, table: Path, name: str
) -> None:
    code = "import sys, fpstore; s = fpstore.open(sys.argv[1], 'w'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        more: dict[str, list[object]] = {"add": [table, "--id-column", "doc"], "remove": ["5"], "compact": []}
        outcome = command(name, store, *more[name])
        process.communicate()
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (4, "", 1)
    assert outcome.err.startswith(f"fpstore: {store}: process {process.pid} is writing to this store")


@pytest.mark.slow
def test_an_interrupted_addition_keeps_the_batches_before(store: Path, bare: Path) -> None:
    command = (sys.executable, "-m", "fpstore", "add", bare, "-", "--format", "u64")
    with running(*command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # One batch and half of the next, and no end.
        process.stdin.write(np.arange(3 * add.BATCH_ROWS // 2, dtype="<u8").tobytes())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not rows_of(bare) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        told = f"{bare}: wrote {add.BATCH_ROWS} rows{NOTHING_CHANGED}\nfpstore: interrupted\n"
        assert process.stderr.read().decode() == told
    assert len(rows_of(bare)) == add.BATCH_ROWS
    with fpstore.open(bare, "w") as opened:
        opened.verify()
        opened.compact()


# --- add --upsert ---


def test_an_upsert_takes_the_place_of_all_that_has_its_id(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add, "BATCH_ROWS", 2)
    recrawled = tmp_path / "recrawled.csv"
    recrawled.write_text("doc,hash\n10,0x5\n20,0x6\n20,0x7\n30,0x8\n20,0x9\n")
    arguments = ("--fingerprint-column", "hash", "--id-column", "doc", "--upsert")
    assert command("add", store, recrawled, *arguments) == Outcome(
        0, "", f"{store}: read 5 rows, each put in place of all that had its id, those before it too\n"
    )
    expected = {(5, 10), (BASE, 11), (9, 20), (8, 30)}
    assert rows_of(store) == expected
    assert command("add", store, recrawled, *arguments).status == 0
    assert rows_of(store) == expected
    np.save(tmp_path / "new.npy", np.array([1, 2], dtype=np.uint64))
    assert command("add", store, tmp_path / "new.npy", "--ids", "from:10", "--upsert").status == 0
    assert rows_of(store) == {(1, 10), (2, 11), (9, 20), (8, 30)}
    assert command("add", store, tmp_path / "new.npy", "--ids", "row", "--upsert").status == 0
    assert rows_of(store) == {(1, 10), (2, 11), (9, 20), (8, 30), (1, 0), (2, 1)}


def test_an_upsert_that_cannot_be_is_refused(command: Command, store: Path, bare: Path, table: Path) -> None:
    for path, more, said in (
        (store, ("--if-new",), "--upsert goes without --if-new: expected one of the two"),
        (bare, ("--fingerprint-column", "hash"), "--upsert goes with a store that has ids: found one without"),
    ):
        outcome = command("add", path, table, "--upsert", *more)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert said in outcome.err


@pytest.mark.parametrize(("first", "is_told"), [(1, True), (5, True), (6, False), (2**64 - 2, False)])
def test_row_numbers_that_may_be_ids_of_others_are_warned_of(
    command: Command, tmp_path: Path, first: int, is_told: bool
) -> None:
    """from:0 is refused; from:5 of a store with an id 5 is no less wrong, but may be a command that goes on."""
    store, path = tmp_path / "s", tmp_path / "a.csv"
    path.write_text("doc_id,fp\n9,00000000000000ff\n8,00000000000000fe\n")
    with fpstore.create(store) as made:
        made.add([1, 2], ids=[2, 5])
    outcome = command("add", store, path, "--ids", f"from:{first}")
    assert outcome.status == 0
    told = f"ids up to 5 were stored, and --ids from:{first} gives them to other rows"
    assert (told in outcome.err, "from:6 does not" in outcome.err) == (is_told, is_told)
    with fpstore.open(store) as opened:
        assert [match.id for match in opened.probe(0xFF, max_distance=0)] == [first]
    again = command("add", store, path, "--ids", f"from:{first}", "--upsert")
    assert (again.status, "ids up to" in again.err) == (0, False)
