"""`fpstore remove`: by fingerprint and by id, typed and from files."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from outcome import Command, Outcome

import fpstore
from fpstore.cli import remove

ROWS = {(5, 1), (5, 2), (255, 3), (2**64 - 1, 2**64 - 1)}


def rows_of(path: Path) -> set[tuple[int, int | None]]:
    with fpstore.open(path) as store:
        return {
            row
            for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
            for row in zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True)
        }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of ROWS."""
    path = tmp_path / "s.fpstore"
    keys, ids = (np.array(column, dtype=np.uint64) for column in zip(*sorted(ROWS), strict=True))
    fpstore.build(path, keys, ids=ids).close()
    return path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "bare.fpstore", np.array([5, 255], dtype=np.uint64), ids=None).close()
    return tmp_path / "bare.fpstore"


def test_a_fingerprint_goes_with_all_its_ids(command: Command, store: Path) -> None:
    outcome = command("remove", store, "0000000000000005", "0xff", "1234")
    assert outcome == Outcome(0, "", f"{store}: removed 3 rows, for 3 fingerprints\n")
    assert rows_of(store) == {(2**64 - 1, 2**64 - 1)}


def test_an_id_goes_wherever_it_is(command: Command, store: Path) -> None:
    outcome = command("remove", store, "--id", "1", "--id", "3", "--id", "-1", "--id", "77")
    assert outcome == Outcome(0, "", f"{store}: removed 3 rows, for 4 ids\n")
    assert rows_of(store) == {(5, 2)}


def test_sixteen_decimal_digits_are_hexadecimal_unless_they_are_said_to_be_decimal(
    command: Command, tmp_path: Path
) -> None:
    number = 1234567890123456
    path = tmp_path / "s.fpstore"
    fpstore.build(path, np.array([number, int(str(number), 16), 2**64 - 5], dtype=np.uint64)).close()
    assert command("remove", path, "--decimal", "--", str(number), "-5", "9").err == (
        f"{path}: removed 2 rows, for 3 fingerprints\n"
    )
    assert rows_of(path) == {(int(str(number), 16), 1)}
    assert command("remove", path, str(number)).err == f"{path}: removed 1 row, for 1 fingerprint\n"
    assert command("remove", path, str(number)).err == f"{path}: removed 0 rows, for 1 fingerprint\n"


def test_fingerprints_of_a_store_without_ids_are_removed(command: Command, bare: Path) -> None:
    assert command("remove", bare, "5").status == 0
    assert rows_of(bare) == {(255, None)}


def test_every_fingerprint_of_a_file_goes_beside_those_typed(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove, "BATCH_VALUES", 1)
    gone = tmp_path / "gone.csv"
    gone.write_text("doc,hash\n7,0x5\n8,0x6\n")
    outcome = command("remove", store, "ff", "--input", gone, "--fingerprint-column", "hash")
    assert outcome.err == f"{store}: removed 3 rows, for 3 fingerprints\n"
    assert rows_of(store) == {(2**64 - 1, 2**64 - 1)}


@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("gone.csv", "doc,hash\n1,0x7\n3,0x7\n", ["--id-column", "doc"]),
        ("gone.tsv", "1\n3\n", []),
        ("gone.txt", "1\n3\n", ["--id-column", "0", "--format", "csv"]),
        ("gone.jsonl", '{"doc": 1}\n{"doc": "3"}\n', ["--id-column", "doc"]),
        ("gone.u64", np.array([1, 3], dtype="<u8").tobytes().decode(), []),
    ],
)
def test_every_id_of_a_file_goes(
    command: Command, store: Path, tmp_path: Path, name: str, content: str, arguments: list[str]
) -> None:
    gone = tmp_path / name
    gone.write_text(content)
    outcome = command("remove", store, "--id-input", gone, *arguments)
    assert outcome == Outcome(0, "", f"{store}: removed 2 rows, for 2 ids\n")
    assert rows_of(store) == {(5, 2), (2**64 - 1, 2**64 - 1)}


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (None, ["5", "ff", "ffffffffffffffff", "--id", "1", "--id", "9", "--id", "-1", "--pairs"]),
        ("doc,hash\n1,0x5\n9,0xff\n-1,0xffffffffffffffff\n", ["--fingerprint-column", "hash", "--id-column", "doc"]),
        ("id,fingerprint\n1,0x5\n9,0xff\n-1,0xffffffffffffffff\n", []),
        ("id,fingerprint\n9,0xff\n-1,0xffffffffffffffff\n", ["5", "--id", "1"]),
    ],
)
def test_pairs_go_and_other_ids_stay(
    command: Command,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    arguments: list[str],
) -> None:
    monkeypatch.setattr(remove, "BATCH_VALUES", 2)
    if content is not None:
        (tmp_path / "gone.csv").write_text(content)
        arguments = ["--pairs", "--input", str(tmp_path / "gone.csv"), *arguments]
    outcome = command("remove", store, *arguments)
    assert outcome == Outcome(0, "", f"{store}: removed 2 rows, for 3 pairs\n")
    assert rows_of(store) == {(5, 2), (255, 3)}


def test_an_id_of_16_digits_is_decimal(command: Command, tmp_path: Path) -> None:
    number = 1234567890123456
    fpstore.build(tmp_path / "s.fpstore", np.array([5, 6], dtype=np.uint64), ids=[number, int(str(number), 16)]).close()
    (tmp_path / "gone.csv").write_text(f"id\n{number}\n")
    assert command("remove", tmp_path / "s.fpstore", "--id-input", tmp_path / "gone.csv").status == 0
    assert rows_of(tmp_path / "s.fpstore") == {(6, int(str(number), 16))}


def test_texts_take_their_fingerprints_out(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a").write_text("four words or more")
    (folder / "b").write_text("and something else here")
    assert command("build", tmp_path / "s.fpstore", folder, "--format", "text").status == 0
    assert command("remove", tmp_path / "s.fpstore", "--input", folder / "a", "--format", "text").status == 0
    assert {number for _, number in rows_of(tmp_path / "s.fpstore")} == {1}


@pytest.mark.slow
def test_standard_input_is_read_for_a_dash(store: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "fpstore", "remove", store, "--input", "-", "--format", "hex"],
        input=b"0000000000000005\n",
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, b"")
    assert rows_of(store) == {row for row in ROWS if row[0] != 5}


def test_skip_bad_passes_over_what_is_no_id(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "gone.csv").write_text("doc\n1\n0x3\nnone\n")
    arguments = ("--id-input", tmp_path / "gone.csv", "--id-column", "doc")
    outcome = command("remove", store, *arguments)
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert outcome.err.startswith(f"fpstore: {tmp_path / 'gone.csv'}, line 3: ")
    assert rows_of(store) == ROWS
    outcome = command("remove", store, *arguments, "--skip-bad")
    assert outcome.err.splitlines()[0] == "fpstore: passed over: 2 bad lines"
    assert rows_of(store) == {row for row in ROWS if row[1] != 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected FINGERPRINTs or --input, or --id or --id-input; or --pairs, to remove of each"),
        (["5", "--id", "5"], "expected FINGERPRINTs or --input, or --id or --id-input; or --pairs, to remove of each"),
        (["5", "--pairs"], "--pairs: expected as many FINGERPRINTs as --id, or --input, and no --id-input"),
        (["--pairs"], "--pairs: expected as many FINGERPRINTs as --id, or --input"),
        (["5", "--id", "5", "--id", "6", "--pairs"], "--pairs: expected as many FINGERPRINTs as --id"),
        (["5", "--id", "5", "--id-input", "gone.csv", "--pairs"], "--pairs: expected as many FINGERPRINTs as --id"),
        (["5", "--id", "5", "--pairs", "--id-column", "x"], "--id-column goes with --id-input, or with --input and"),
        (["--input", "gone.csv", "--id-column", "x"], "--id-column goes with --id-input, or with --input and --pairs"),
        (["x"], "fingerprint: found 'x'"),
        (["12345678901234567"], "expected 1 to 16 hexadecimal digits (64 bits); or --decimal"),
        (["--decimal", "ff"], "fingerprint: found 'ff', expected a decimal number of 64 bits"),
        (["--id", "0x5"], "id: found '0x5', expected a decimal number from -2**63 to 2**64 - 1"),
        (["--id", str(2**64)], "id: found '18446744073709551616'"),
        (["--id", "9" * 10_000], "id: found '9999"),
        (["--id-input", "gone.hex"], "found format hex, expected one that can hold nothing but ids, or a table"),
        (["--id-input", "gone.npy", "--id-column", "x"], "expected none for format npy"),
        (["--id-input", "gone.csv", "--text-column", "x"], "--text-column goes with --input"),
        (["--id-input", "gone.csv", "--html"], "--html goes with --input"),
        (["--id-input", "gone.csv", "--fingerprint-column", "x"], "--fingerprint-column goes with --input"),
        (["--id", "5", "--html"], "--html goes with --input"),
        (["--id", "5", "--decimal"], "--decimal goes with a FINGERPRINT"),
        (["5", "--skip-bad"], "--skip-bad goes with --input"),
        (["5", "--format", "csv"], "--format goes with --input"),
        (["5", "--id-column", "x"], "--id-column goes with --id-input"),
        (["--input", "gone.npy", "--idf", "x"], "--idf goes with texts: found fingerprints"),
        (["--input", "gone.odd"], "found suffix .odd"),
    ],
)
def test_a_command_line_that_cannot_be_removes_nothing(
    command: Command,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gone.hex", "gone.csv", "gone.odd", "gone.npy"):
        Path(name).write_text("")
    outcome = command("remove", store, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err
    assert rows_of(store) == ROWS


def test_ids_of_a_store_without_ids_are_refused(command: Command, bare: Path) -> None:
    for arguments in (["--id", "5"], ["5", "--id", "5", "--pairs"], ["--input", "none.csv", "--pairs"]):
        outcome = command("remove", bare, *arguments)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert "the store has no ids, expected fingerprints" in outcome.err
    assert len(rows_of(bare)) == 2


def test_a_store_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    outcome = command("remove", tmp_path / "none.fpstore", "5")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert str(tmp_path / "none.fpstore") in outcome.err
