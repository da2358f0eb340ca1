"""`fpstore compact`; and what verify, stats, report and plan say of a store that is not compacted."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform
from outcome import Command, Outcome, running

import fpstore
from fpstore.living.writer import Writer

SOME = uniform(3000, np.random.default_rng(1))
IDLE = "nothing to merge, and nothing was read"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SOME: 1,000 in each of two segments, 1,000 pending, 10 of the first removed; nothing is merged meanwhile."""
    path = tmp_path / "s.fpstore"
    fpstore.build(path, SOME[:1000], plan="paper-4").close()
    with monkeypatch.context() as unmerged, fpstore.open(path, "w") as opened:
        unmerged.setattr(Writer, "_start_merge", lambda *_: None)
        opened.add(SOME[1000:2000], ids=np.arange(1000, 2000, dtype=np.uint64))
        opened._flush()
        opened.add(SOME[2000:], ids=np.arange(2000, 3000, dtype=np.uint64))
        opened.remove(fingerprints=SOME[:10])
    return path


def file_bytes(store: Path) -> list[int]:
    return [path.stat().st_size for path in (store / "segments").iterdir()]


def all_bytes(store: Path) -> int:
    """Of all files of the store, the catalog among them."""
    return sum(path.stat().st_size for path in store.rglob("*") if path.is_file())


def test_all_becomes_one_segment_and_the_sizes_are_told(command: Command, store: Path) -> None:
    before = all_bytes(store)
    outcome = command("compact", store)
    after = all_bytes(store)
    assert outcome == Outcome(
        0,
        "",
        f"{store}: 2 segments, 1000 pending rows, 10 removals, {before / 1000:.1f} kB;"
        f" now 1 segment, {after / 1000:.1f} kB\n",
    )
    with fpstore.open(store) as opened:
        opened.verify()
        assert opened.count() == 2990
        assert opened.stats().removal_count == 0


def test_a_compacted_store_stays_as_it_is(command: Command, store: Path) -> None:
    command("compact", store)
    (before,) = (store / "segments").iterdir()
    outcome = command("compact", store)
    assert outcome == Outcome(0, "", f"{store}: 1 segment, {all_bytes(store) / 1000:.1f} kB; {IDLE}\n")
    assert list((store / "segments").iterdir()) == [before]


def test_a_damaged_store_of_one_segment_is_not_said_to_have_been_read(command: Command, store: Path) -> None:
    command("compact", store)
    (path,) = (store / "segments").iterdir()
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    outcome = command("compact", store)
    assert (outcome.status, outcome.err.endswith(f"; {IDLE}\n")) == (0, True)


def test_a_damaged_segment_is_merged_from_its_other_tables_and_the_store_is_sound(
    command: Command, store: Path
) -> None:
    path = store / "segments" / "00000001.fpseg"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    outcome = command("compact", store)
    assert outcome.status == 0
    line, done = outcome.err.splitlines()
    assert done.startswith(f"{store}: 2 segments, ")
    assert line.startswith(f"fpstore: warning: {path}: table 0 payload, page at byte 4096: found bytes of another")
    assert line.endswith("; read from its other tables")
    with fpstore.open(store) as opened:
        opened.verify()
        assert opened.count() == 2990


def test_an_empty_store_can_be_compacted_and_looked_at(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "s.fpstore"
    command("create", path)
    assert command("compact", path) == Outcome(0, "", f"{path}: 0 segments, {all_bytes(path) / 1000:.1f} kB; {IDLE}\n")
    for name in ("verify", "stats", "report"):
        assert command(name, path).status == 0
    assert ["segments", "0"] in [line.split() for line in command("stats", path).lines]
    assert command("verify", path).out.startswith(
        f"{path}: sound; checked 0 fingerprints in 0 tables of 0 segments: 0 B"
    )


def test_a_store_that_is_not_there_is_named(command: Command, tmp_path: Path) -> None:
    outcome = command("compact", tmp_path / "none.fpstore")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert str(tmp_path / "none.fpstore") in outcome.err


def test_verify_counts_what_it_checked_in_every_segment(command: Command, store: Path) -> None:
    (line,) = command("verify", store).lines
    assert line.startswith(
        f"{store}: sound; checked 2000 fingerprints in 8 tables of 2 segments and 2000 ids,"
        f" 1000 pending rows with 1000 ids, 10 removals: {sum(file_bytes(store)) / 1000:.1f} kB"
    )


@pytest.mark.parametrize(
    ("id_type", "ids", "told", "id_count"),
    [
        ("uint64", [7, 7, 8], "3 pending rows with 3 ids", 3),
        ("string", ["a", "a", "b"], "3 pending rows with 3 ids", 3),
        ("bytes", [b"a", b"a", b"\xff"], "3 pending rows with 3 ids", 3),
        (None, None, "3 pending rows", 0),
    ],
)
def test_verify_tells_of_pending_rows_and_their_ids_where_there_is_no_segment(
    command: Command, tmp_path: Path, id_type: Any, ids: Any, told: str, id_count: int
) -> None:
    path = tmp_path / "s.fpstore"
    with fpstore.create(path, id_type=id_type) as store:
        store.add([1, 2, 3], ids=ids)
    (line,) = command("verify", path).lines
    assert line.startswith(f"{path}: sound; checked {told} (there is no segment yet): 0 B in ")
    found = json.loads(command("verify", path, "--json").out)
    counts = [found[name] for name in ("fingerprint_count", "id_count", "pending_count", "pending_id_count")]
    assert counts == [0, 0, 3, id_count]
    with fpstore.open(path, "w") as store:
        store.compact()
    (line,) = command("verify", path).lines
    in_segment = "1 segment and 3 ids: " if id_count else "1 segment: "
    assert f"checked 3 fingerprints in 3 tables of {in_segment}" in line
    found = json.loads(command("verify", path, "--json").out)
    counts = [found[name] for name in ("fingerprint_count", "id_count", "pending_count", "pending_id_count")]
    assert counts == [3, id_count, 0, 0]


def test_stats_tell_what_is_pending_and_how_many_fingerprints_there_may_be(command: Command, store: Path) -> None:
    fields = dict(line.split(None, 1) for line in command("stats", store).lines[1:8])
    assert fields["fingerprints"] == "at most 3,000"
    assert fields["pending"] == "1,000 rows in no segment yet"
    assert fields["removals"] == "10"
    assert fields["segments"] == "2"
    assert json.loads(command("stats", store, "--json").out)["fingerprint_count"] is None
    assert sum(line.startswith("  segment 0000") for line in command("stats", store).lines) == 2


def test_a_plan_like_a_store_of_several_segments_is_for_all_of_them(command: Command, store: Path) -> None:
    outcome = command("plan", "--like", store, "--json")
    assert (outcome.status, json.loads(outcome.out)["n"]) == (0, 3000)


@pytest.mark.slow
def test_an_interrupted_compaction_says_so_and_leaves_the_store_sound(command: Command, store: Path) -> None:
    code = (
        "import sys, time; from fpstore.living import renewal; from fpstore.cli import main\n"
        "def endless(*_, advance, **__):\n"
        "    print('merging', flush=True)\n"
        "    while True: advance(0); time.sleep(0.01)\n"
        "renewal.merge_segments = endless; sys.exit(main(['compact', sys.argv[1]]))"
    )
    with running(sys.executable, "-c", code, store) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"merging\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"fpstore: interrupted\n"
    assert command("verify", store).status == 0
    with fpstore.open(store) as opened:
        assert opened.count() == 2990
    assert command("compact", store).status == 0
    assert len(file_bytes(store)) == 1
