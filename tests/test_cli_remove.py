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
    assert outcome == Outcome(0, "", f"{store}: removed 3 fingerprints, as far as they were there\n")
    assert rows_of(store) == {(2**64 - 1, 2**64 - 1)}


def test_an_id_goes_wherever_it_is(command: Command, store: Path) -> None:
    outcome = command("remove", store, "--by-id", "1", "3", str(2**64 - 1))
    assert outcome == Outcome(0, "", f"{store}: removed 3 ids, as far as they were there\n")
    assert rows_of(store) == {(5, 2)}


def test_fingerprints_of_a_store_without_ids_are_removed(command: Command, bare: Path) -> None:
    assert command("remove", bare, "5").status == 0
    assert rows_of(bare) == {(255, None)}


def test_every_fingerprint_of_a_file_goes_beside_those_typed(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove, "BATCH_VALUES", 1)
    gone = tmp_path / "gone.csv"
    gone.write_text("doc,hash\n7,0x5\n8,0x6\n")
    outcome = command("remove", store, "255", "--input", gone, "--column", "hash")
    assert outcome.err == f"{store}: removed 3 fingerprints, as far as they were there\n"
    assert rows_of(store) == {(2**64 - 1, 2**64 - 1)}


@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("gone.csv", "doc,hash\n1,0x7\n3,0x7\n", ["--column", "doc"]),
        ("gone.tsv", "1\n3\n", ["--column", "0"]),
        ("gone.txt", "1\n3\n", ["--column", "0", "--format", "csv"]),
        ("gone.jsonl", '{"doc": 1}\n{"doc": "3"}\n', ["--column", "doc"]),
        ("gone.u64", np.array([1, 3], dtype="<u8").tobytes().decode(), []),
    ],
)
def test_every_id_of_a_file_goes(
    command: Command, store: Path, tmp_path: Path, name: str, content: str, arguments: list[str]
) -> None:
    gone = tmp_path / name
    gone.write_text(content)
    outcome = command("remove", store, "--by-id", "--input", gone, *arguments)
    assert outcome == Outcome(0, "", f"{store}: removed 2 ids, as far as they were there\n")
    assert rows_of(store) == {(5, 2), (2**64 - 1, 2**64 - 1)}


def test_an_id_of_16_digits_is_decimal(command: Command, tmp_path: Path) -> None:
    number = 1234567890123456
    fpstore.build(tmp_path / "s.fpstore", np.array([5, 6], dtype=np.uint64), ids=[number, int(str(number), 16)]).close()
    (tmp_path / "gone.csv").write_text(f"doc\n{number}\n")
    assert (
        command("remove", tmp_path / "s.fpstore", "--by-id", "--input", tmp_path / "gone.csv", "--column", "doc").out
        == ""
    )
    assert rows_of(tmp_path / "s.fpstore") == {(6, int(str(number), 16))}


def test_texts_take_their_fingerprints_out(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a").write_text("four words or more")
    (folder / "b").write_text("and something else here")
    assert command("build", tmp_path / "s.fpstore", folder, "--format", "text").status == 0
    assert command("remove", tmp_path / "s.fpstore", "--input", folder / "a", "--format", "text").status == 0
    assert {number for _, number in rows_of(tmp_path / "s.fpstore")} == {1}


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
    arguments = ("--by-id", "--input", tmp_path / "gone.csv", "--column", "doc")
    outcome = command("remove", store, *arguments)
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert outcome.err.startswith(f"fpstore: {tmp_path / 'gone.csv'}, line 4: ")
    assert rows_of(store) == ROWS
    outcome = command("remove", store, *arguments, "--skip-bad")
    assert outcome.err.splitlines()[0] == "fpstore: passed over: 2 bad lines"
    assert rows_of(store) == {row for row in ROWS if row[1] != 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to remove: expected a VALUE or --input"),
        (["--by-id"], "nothing to remove: expected a VALUE or --input"),
        (["x"], "fingerprint: found 'x'"),
        (["--by-id", "0x5"], "id: found '0x5', expected a decimal number up to 2**64 - 1"),
        (["--by-id", str(2**64)], "id: found '18446744073709551616'"),
        (["--by-id", "9" * 10_000], "id: found '9999"),
        (["--by-id", "--", "-1"], "id: found '-1'"),
        (["--by-id", "--input", "gone.hex"], "found format hex, expected one with a column of ids"),
        (["--by-id", "--input", "gone.csv"], "expected --column and the column or field that holds the ids"),
        (["--by-id", "--input", "gone.csv", "--text-column", "x"], "expected --column with --by-id"),
        (["--by-id", "--input", "gone.npy", "--column", "x"], "expected none for format npy"),
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
    outcome = command("remove", bare, "--by-id", "5")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "the store has no ids, expected fingerprints without --by-id" in outcome.err
    assert len(rows_of(bare)) == 2


def test_a_store_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    outcome = command("remove", tmp_path / "none.fpstore", "5")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert str(tmp_path / "none.fpstore") in outcome.err
