"""`fpstore export`: what it writes, build reads back to an equal store."""

import errno
import json
import os
import signal
import sys
import time
from itertools import starmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import distinct, uniform
from outcome import Command, Outcome, running

import fpstore
from fpstore.cli import export
from fpstore.cli.files import new_file
from fpstore.cli.values import decimal_size

PLAIN = uniform(2000, np.random.default_rng(1))
# Some fingerprints with several ids, and some whose digits are all decimal.
KEYS = np.concatenate([PLAIN, PLAIN[:500], np.array([0x1234567890123456, 0, 1 << 63], dtype=np.uint64)])
IDS = np.random.default_rng(2).permutation(len(KEYS)).astype(np.uint64) << np.uint64(50)
WITH_IDS = ("hex", "csv", "jsonl", "parquet")
FORMATS = ("npy", "u64", *WITH_IDS)


def rows_of(path: Path) -> list[tuple[int, int | None]]:
    with fpstore.open(path) as store:
        return [
            row
            for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
            for row in zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True)
        ]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """KEYS with IDS: in a segment, pending, and one that was removed."""
    path = tmp_path / "s.fpstore"
    fpstore.build(path, KEYS[:1000], ids=IDS[:1000], plan="general-1000:3").close()
    with fpstore.open(path, "w") as opened:
        opened.add([77], ids=[77])
        opened.remove(fingerprints=[77])
        opened._flush()
        opened.add(KEYS[1000:], ids=IDS[1000:])
    return path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "bare.fpstore", KEYS, ids=None).close()
    return tmp_path / "bare.fpstore"


@pytest.mark.parametrize("format", WITH_IDS)
def test_build_makes_an_equal_store_of_what_was_exported(
    command: Command, store: Path, tmp_path: Path, format: str
) -> None:
    out = tmp_path / f"out.{format}"
    outcome = command("export", store, out)
    assert outcome == Outcome(0, "", f"{out}: {len(KEYS)} rows, {decimal_size(out.stat().st_size)}\n")
    assert command("build", tmp_path / "t.fpstore", out).status == 0
    expected = sorted(zip(KEYS.tolist(), IDS.tolist(), strict=True))
    assert sorted(rows_of(store)) == sorted(rows_of(tmp_path / "t.fpstore")) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store", "bare"])
@pytest.mark.parametrize("format", FORMATS)
def test_without_ids_each_fingerprint_is_written_once(
    command: Command, request: pytest.FixtureRequest, tmp_path: Path, format: str, name: str
) -> None:
    out = tmp_path / f"out.{format}"
    arguments = ["--no-ids"] if name == "store" else []
    assert command("export", request.getfixturevalue(name), out, *arguments).status == 0
    assert command("build", tmp_path / "t.fpstore", out, "--ids", "none").status == 0
    assert rows_of(tmp_path / "t.fpstore") == [(key, None) for key in distinct(KEYS).tolist()]
    if format == "npy":
        assert len(np.load(out)) == len(distinct(KEYS))
    if format == "u64":
        assert out.stat().st_size == 8 * len(distinct(KEYS))


def test_a_fingerprint_whose_ids_come_in_two_batches_is_written_once(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [([3, 5], [1, 1]), ([5, 5], [2, 3]), ([5, 8, 8], [4, 1, 2])]
    arrays = [tuple(np.array(column, dtype=np.uint64) for column in batch) for batch in batches]
    monkeypatch.setattr(fpstore.Store, "rows", lambda _: starmap(fpstore.Rows, arrays))
    assert command("export", store, tmp_path / "out.npy", "--no-ids").status == 0
    assert np.load(tmp_path / "out.npy").tolist() == [3, 5, 8]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("id_type", ["uint64", "none"])
def test_an_empty_store_is_exported_and_built_again(
    command: Command, tmp_path: Path, format: str, id_type: str
) -> None:
    if id_type == "uint64" and format not in WITH_IDS:
        return
    command("create", tmp_path / "s.fpstore", "--id-type", id_type)
    assert command("export", tmp_path / "s.fpstore", tmp_path / f"out.{format}").status == 0
    ids = [] if id_type == "uint64" else ["--ids", "none"]
    assert command("build", tmp_path / "t.fpstore", tmp_path / f"out.{format}", *ids).status == 0
    assert rows_of(tmp_path / "t.fpstore") == []


@pytest.mark.parametrize("format", ["csv", "jsonl", "hex"])
@pytest.mark.parametrize("keys", [[0x1234567890123456], [0x1234567890123456, 0x9234567890123456], [0], [5]])
def test_fingerprints_of_decimal_digits_alone_are_exported_and_built_again(
    command: Command, tmp_path: Path, format: str, keys: list[int]
) -> None:
    fpstore.build(tmp_path / "s.fpstore", np.array(keys, dtype=np.uint64)).close()
    assert command("export", tmp_path / "s.fpstore", tmp_path / f"out.{format}").status == 0
    assert command("build", tmp_path / "t.fpstore", tmp_path / f"out.{format}").status == 0
    assert rows_of(tmp_path / "t.fpstore") == list(zip(keys, range(len(keys)), strict=True))


@pytest.mark.parametrize("format", ["npy", "csv", "parquet"])
def test_signed_is_the_same_bits(command: Command, store: Path, tmp_path: Path, format: str) -> None:
    out = tmp_path / f"out.{format}"
    no_ids = ["--no-ids"] if format == "npy" else []
    assert command("export", store, out, "--signed", *no_ids).status == 0
    if format == "csv":
        assert "-" in out.read_text()
    elif format == "npy":
        assert np.load(out).dtype == np.int64
    else:
        assert {str(field.type) for field in pq.read_schema(out)} == {"int64"}
    ids = ["--ids", "none"] if no_ids else []
    assert command("build", tmp_path / "t.fpstore", out, *ids).status == 0
    expected = [(key, None) for key in distinct(KEYS).tolist()] if no_ids else sorted(rows_of(store))
    assert sorted(rows_of(tmp_path / "t.fpstore")) == expected


def test_the_lines_are_those_that_are_described(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s.fpstore", np.array([255, 5, 255], dtype=np.uint64), ids=[7, 9, 8]).close()
    hex_lines = f"{5:016x}\t9\n{255:016x}\t7\n{255:016x}\t8\n"
    assert command("export", tmp_path / "s.fpstore", "-", "--format", "hex").out == hex_lines
    csv_lines = "fingerprint,id\n" + hex_lines.replace("\t", ",")
    assert command("export", tmp_path / "s.fpstore", "-", "--format", "csv").out == csv_lines
    lines = command("export", tmp_path / "s.fpstore", "-", "--format", "jsonl").lines
    assert json.loads(lines[0]) == {"fingerprint": f"{5:016x}", "id": "9"}
    assert command("export", tmp_path / "s.fpstore", tmp_path / "out.parquet").status == 0
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.to_pydict() == {"fingerprint": [5, 255, 255], "id": [9, 7, 8]}
    assert [str(field.type) for field in table.schema] == ["uint64", "uint64"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["out.npy"], "format npy holds no ids: expected another one, or --no-ids"),
        (["out.u64"], "format u64 holds no ids: expected another one, or --no-ids"),
        (["out.odd"], "found suffix .odd, expected .npy, .u64, .hex, .csv, .jsonl, .parquet or --format"),
        (["out"], "found suffix none"),
        (["-"], "found suffix none"),
        (["-", "--format", "npy", "--no-ids"], "standard output: found format npy, expected hex, csv, jsonl"),
        (["-", "--format", "parquet"], "standard output: found format parquet, expected hex, csv, jsonl"),
        (["-", "--format", "csv", "--force"], "--force goes with a file: found standard output"),
        (["out.hex", "--signed"], "--signed goes with npy, csv and parquet"),
        (["out.u64", "--no-ids", "--signed"], "--signed goes with npy, csv and parquet"),
        (
            ["out.csv", "--format", "jsonl"],
            "out.csv: found --format jsonl, expected csv, as its suffix says, or another",
        ),
        (["out.NPY", "--format", "hex"], "out.NPY: found --format hex, expected npy, as its suffix says"),
        (["there.csv"], "already there; --force replaces it"),
        (["folder.csv", "--force"], "folder.csv: found a folder, expected the path of a file"),
        (["pipe.csv", "--force"], "found something else than a file, expected a file or nothing"),
    ],
)
def test_a_command_line_that_cannot_be_writes_nothing(
    command: Command,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("something")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    outcome = command("export", store, *arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "pipe.csv", "s.fpstore", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "something"


def test_force_replaces_a_file_when_the_new_one_is_complete(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    out.write_text("something")
    with monkeypatch.context() as failing:
        failing.setattr(export._Rows, "batches", lambda *_: iter([None]))
        assert command("export", store, out, "--force").status == 1
    assert out.read_text() == "something"
    assert command("export", store, out, "--force").status == 0
    assert len(out.read_text().splitlines()) == len(KEYS) + 1
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "s.fpstore"]


def test_parquet_without_pyarrow_says_what_to_install(
    command: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    outcome = command("export", store, tmp_path / "out.parquet")
    assert outcome == Outcome(1, "", "fpstore: writing Parquet needs pyarrow: pip install 'fpstore[arrow]'\n")
    assert os.listdir(tmp_path) == ["s.fpstore"]


def test_ids_that_are_not_there_are_not_left_out(command: Command, bare: Path, tmp_path: Path) -> None:
    outcome = command("export", bare, tmp_path / "out.csv", "--no-ids")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--no-ids goes with a store that has ids" in outcome.err


def test_what_is_not_there_is_named(command: Command, store: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "none", tmp_path / "out.csv"), (store, tmp_path / "none" / "out.csv")):
        outcome = command("export", *arguments)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert str(tmp_path / "none") in outcome.err


@pytest.mark.parametrize("hidden", [False, True])
def test_an_error_of_the_system_names_the_file_that_was_asked_for(tmp_path: Path, hidden: bool) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught, new_file(tmp_path / "out", False) as file:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name if hidden else None)
    assert caught.value.filename == str(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, new_file(tmp_path / "out", False):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")


def test_damage_leaves_no_file(command: Command, store: Path, tmp_path: Path) -> None:
    (segment,) = (store / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[100] ^= 1  # in table 0, which is what is read
    segment.write_bytes(data)
    outcome = command("export", store, tmp_path / "out.csv")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (3, "", 1)
    assert str(segment) in outcome.err
    assert os.listdir(tmp_path) == ["s.fpstore"]


@pytest.mark.slow
def test_an_interrupted_export_says_so_and_leaves_nothing(store: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time, fpstore; from fpstore.cli import main\n"
        "def slow(self): yield next(rows(self)); time.sleep(60)\n"
        "rows = fpstore.Store.rows; fpstore.Store.rows = slow; sys.exit(main(['export', *sys.argv[1:]]))"
    )
    with running(sys.executable, "-c", code, store, tmp_path / "out.csv") as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 60
        while len(os.listdir(tmp_path)) == 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"fpstore: interrupted\n"
    assert os.listdir(tmp_path) == ["s.fpstore"]


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_parquet_says_of_how_many_bits_its_fingerprints_are(command: Command, tmp_path: Path, bits: int) -> None:
    """Numbers of 32 bits are fingerprints of 64 bits too, of which half are 0."""
    store, hashes, out = tmp_path / "s", tmp_path / "a.hex", tmp_path / "a.parquet"
    hashes.write_text(f"{'9f' * (bits // 8)}\n")
    assert command("build", store, hashes, "--bits", bits).status == 0
    assert command("export", store, out).status == 0
    told = f"column fingerprint: found fingerprints of {bits} bits, as it says, expected 64 (--bits)"
    for other in (32, 64):
        refused = command("build", tmp_path / f"of {other}", out, "--bits", other)
        if other != bits:
            assert (refused.status, refused.err.count("\n")) == (1, 1)
            assert told in refused.err or bits > 32  # which do not fit
    assert command("build", tmp_path / "t", out, "--bits", bits).status == 0
    with fpstore.open(store) as one, fpstore.open(tmp_path / "t") as two:
        assert (one.bits, [*one.rows()]) == (two.bits, [*two.rows()])


def test_what_a_file_says_of_its_bits_is_shown_as_it_is(command: Command, tmp_path: Path) -> None:
    field = pa.field("fingerprint", pa.uint64(), metadata={b"fpstore.bits": b"\xff\n" * 100})
    pq.write_table(pa.table([pa.array([1], pa.uint64())], schema=pa.schema([field])), tmp_path / "a.parquet")
    refused = command("build", tmp_path / "s", tmp_path / "a.parquet")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert r"found fingerprints of \xff" in refused.err
