"""The living store under kills, failing calls and power cuts; tools/check_crash.py is this at full length."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import check_crash
import crash_child
from crash_model import Broken, Passage, fixed_operations, judge, random_operations
from crash_replay import Disk, Event, Naming, Write, by_chance, digest, losses, write_tree
from helpers import in_memory
from id_types import ID_TYPES, SIGNED, WIDE

SECONDS = 600


def run_check(*arguments: object) -> tuple[dict[str, int], list[dict[str, object]]]:
    """The counts and the findings, none unless a mistake was planted, then some."""
    command: list[str | Path] = [sys.executable, check_crash.TOOLS / "check_crash.py", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=in_memory())
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert bool(said["findings"]) == ("--plant" in arguments)
    return said["counts"], said["findings"]


def problems(findings: list[dict[str, object]]) -> str:
    return "\n".join(str(finding["problem"]) for finding in findings)


# --- Nothing is lost ---


# Some of them in blocks: how tables are cut and what ids are have nothing to do with each other.
IN_BLOCKS = {"kill": "bytes", "faults": "string", "power": "string"}
EACH = pytest.mark.parametrize("id_type", [*ID_TYPES, SIGNED, WIDE])
# What is written for ids that are bytes is what is written for strings; by the tool they are tried apart. The script of
# stores with names has every call that the others have; of those each is struck at every third, from another one on.
PARTS = {"string": (0, 1), "uint64": (0, 3), SIGNED: (1, 3), WIDE: (2, 3)}
EACH_WRITTEN = pytest.mark.parametrize("id_type", PARTS)


def of_stores(way: str, id_type: str) -> tuple[str, ...]:
    return "--id-type", id_type, "--layout", "blocks" if IN_BLOCKS[way] == id_type else "slots"


def of_calls(id_type: str) -> tuple[str, str]:
    return "--part", "{}/{}".format(*PARTS[id_type])


@pytest.mark.slow
@EACH
def test_nothing_acknowledged_is_lost_when_writers_are_killed(id_type: str) -> None:
    counts, _ = run_check("--kill", 10, *of_stores("kill", id_type))
    assert counts["kill: rounds"] == 10
    assert counts["kill: operations acknowledged"] > 10
    assert counts["kill: in the middle of an operation"] > 1


@pytest.mark.slow
@EACH_WRITTEN
def test_a_fault_at_any_call_is_an_error_and_changes_nothing_else(id_type: str) -> None:
    counts, _ = run_check("--faults", "--short", *of_stores("faults", id_type), *of_calls(id_type))
    tried = sum(counts[f"faults: {action}"] for action in ("fail", "late", "short", "kill-before", "kill-after"))
    first, step = PARTS[id_type]
    assert counts["faults: calls of the script"] > 100
    assert tried == len(range(first, counts["faults: calls of the script"], step))
    assert counts["faults: errors raised"] > tried // 2


@pytest.mark.slow
@pytest.mark.parametrize("id_type", ["string"])  # numbers and bytes by the tool
def test_a_writer_killed_before_or_after_any_call_leaves_each_row_old_or_new(id_type: str) -> None:
    operations = fixed_operations(short=True)
    assert {"upsert", "remove_rows"} <= {operation["kind"] for operation in operations}
    counts, _ = run_check("--faults", "--short", "--way", "kill-before", "--id-type", id_type)
    calls = counts["faults: calls of the script"]
    assert counts["faults: kill-before"] == calls > 100
    # Who dies before a call leaves what the call before it has left: behind the last one there is nothing else to try.
    counts, _ = run_check("--faults", "--short", "--call", calls, "--way", "kill-after", "--id-type", id_type)
    assert counts["faults: kill-after"] == 1


@pytest.mark.slow
@EACH_WRITTEN
def test_nothing_acknowledged_is_lost_in_a_power_cut_at_any_call(id_type: str) -> None:
    counts, _ = run_check("--power", 1, "--short", *of_stores("power", id_type), *of_calls(id_type))
    first, step = PARTS[id_type]
    assert counts["power: calls recorded"] > 100
    assert counts["power: calls cut at"] == len(range(first, counts["power: calls recorded"] + 1, step))
    # At least: nothing is lost, all, the names, the contents, two kinds of pieces, one change, that change alone.
    assert counts["power: states"] > 8 * counts["power: calls cut at"]
    assert counts["power: different stores looked at"] > counts["power: calls cut at"]


# --- What is planted is found ---


@pytest.mark.slow
def test_an_acknowledgement_before_the_commit_is_found_by_kills() -> None:
    assert "rows lost" in problems(run_check("--kill", 15, "--plant", "early")[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        ("no-segment-sync", "what is no part of the store, or is missing: ['aside']"),
        ("no-uncached-sync", "what is no part of the store, or is missing: ['aside']"),
        ("no-folder-sync", "segment: found none, expected the file that the catalog names"),
        ("no-rename-sync", "against the first, a: not there"),
        ("no-copy-sync", "segment: found none, expected the file that the catalog names"),
        ("no-name-sync", "segment: found none, expected the file that the catalog names"),
        ("no-announcement", "what is no part of the store, or is missing: ['aside']"),
        ("name-before-announcement", "what is no part of the store, or is missing: ['aside']"),
        ("no-catalog-sync", "catalog.mdb"),
        ("no-lmdb-sync", "catalog.mdb"),
    ],
)
def test_a_sync_that_is_missing_is_found_by_power_cuts(plant: str, problem: str) -> None:
    # What is found ends the search: until then the power is cut at every fourth call.
    assert problem in problems(run_check("--power", 1, "--short", "--part", "0/4", "--plant", plant)[1])


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["write-once", "ignored-errors"])
def test_an_error_that_is_not_handled_is_found_by_faults(plant: str) -> None:
    run_check("--faults", "--short", "--plant", plant)


def test_every_mistake_can_be_chosen_and_no_other() -> None:
    done = subprocess.run(
        [sys.executable, check_crash.TOOLS / "check_crash.py", "--help"], capture_output=True, text=True, check=True
    )
    assert all(plant in done.stdout for plant in crash_child.PLANTS)
    with pytest.raises(SystemExit):
        check_crash.main(["--kill", "1", "--plant", "none"])
    with pytest.raises(SystemExit):
        check_crash.main([])


# --- The harness itself ---


@pytest.mark.slow
def test_a_child_that_fails_is_a_finding_with_what_it_said(tmp_path: Path) -> None:
    shim = check_crash.build_shim(tmp_path)
    with check_crash.Children(tmp_path, shim, None) as children:
        with pytest.raises(Broken, match=r"(?s)ended with status 1: .*has no attribute 'explode'"):
            children.run(Passage([{"kind": "create", "store": "a"}, {"kind": "explode", "store": "a"}]))
        (children.folder / "b").mkdir()
        with pytest.raises(Broken, match=r"NotAStore: .*found no catalog"):
            children.check(children.folder, [{"b": frozenset()}])


def test_only_the_states_of_a_journal_are_allowed() -> None:
    passage = Passage(fixed_operations(short=True))
    begun, done = (json.dumps({word: 1}).encode() + b"\n" for word in ("begin", "done"))
    created = b'{"begin": 0}\n{"done": 0}\n'
    assert passage.allowed(created) == [passage.states[1]]
    assert passage.allowed(created + begun) == passage.states[1:3]
    assert passage.allowed(created + begun + done[:-1]) == passage.states[1:3]
    assert passage.allowed(created + begun + done) == [passage.states[2]]
    for wrong, said in ((passage.states[0], "a: not there"), (passage.states[2], "0 rows lost")):
        with pytest.raises(Broken, match=said):
            judge({"a": wrong.get("a")}, passage.allowed(created))


def test_with_durability_batch_all_states_since_the_last_durable_one_are_allowed() -> None:
    operations = random_operations(1, 0, "a") + [
        {"kind": "add", "store": "a", "keys": [i], "ids": [i]} for i in range(3)
    ]
    passage = Passage([*operations, {"kind": "sync", "store": "a"}], durability="batch")
    lines = [json.dumps({word: i}).encode() + b"\n" for i in range(5) for word in ("begin", "done")]
    assert passage.allowed(b"".join(lines[:7])) == passage.states[1:5]
    assert passage.allowed(b"".join(lines)) == [passage.states[5]]


@pytest.mark.parametrize(
    ("note", "problem"),
    [
        ({"done": 1, "stored": [True]}, "stored"),
        ({"failed": 1, "seen": [[1, 1]]}, "the writer sees a with"),
        ({"failed": 1, "seen": None}, "the writer sees a with None"),
    ],
)
def test_what_a_writer_says_against_the_model_is_a_finding(note: dict[str, object], problem: str) -> None:
    add = {"kind": "add_if_new", "store": "a", "keys": [5, 5], "ids": [1, 2]}
    passage = Passage([{"kind": "create", "store": "a"}, add])
    with pytest.raises(Broken, match=problem):
        passage.allowed(json.dumps(note).encode() + b"\n")


def after_cut(tmp_path: Path, events: list[Event], chance: float) -> dict[str, bytes]:
    target = tmp_path / str(len(list(tmp_path.iterdir())))
    write_tree(disk_after(events).cut(by_chance(chance, random.Random(5))), target)
    return {path.name: path.read_bytes() for path in target.iterdir()}


def disk_after(events: list[Event]) -> Disk:
    disk = Disk(1)
    for event in events:
        disk.begin(event)
        disk.finish(event)
    return disk


def event(kind: str, inode: int, a: int = 0, b: int = 0, names: str = "", data: bytes = b"") -> Event:
    return Event(1, kind, inode, a, b, names, data)


def test_the_disk_keeps_what_was_synced_and_may_lose_the_rest(tmp_path: Path) -> None:
    named = [event("C", 2, 1, 0, "x"), event("S", 1)]
    assert after_cut(tmp_path, named[:1], 0) == {}
    assert after_cut(tmp_path, named, 0) == {"x": b""}
    written = [*named, event("W", 2, 0, 0, "", b"abc")]
    assert after_cut(tmp_path, written, 0) == {"x": b""}
    assert after_cut(tmp_path, written, 1) == {"x": b"abc"}
    assert after_cut(tmp_path, [*written, event("S", 2)], 0) == {"x": b"abc"}
    # Through a descriptor with O_DSYNC only its own bytes are.
    assert after_cut(tmp_path, [*written, event("W", 2, 4, 1, "", b"e")], 0) == {"x": b"\0\0\0\0e"}
    cut = [*written, event("S", 2), event("T", 2, 1)]
    assert after_cut(tmp_path, cut, 0) == {"x": b"abc"}
    assert after_cut(tmp_path, cut, 1) == {"x": b"a"}
    renamed = [*written, event("S", 2), event("R", 2, 1, 1, "x/y")]
    assert after_cut(tmp_path, renamed, 0) == {"x": b"abc"}
    assert after_cut(tmp_path, renamed, 1) == {"y": b"abc"}
    assert after_cut(tmp_path, [*renamed, event("S", 1)], 0) == {"y": b"abc"}
    assert after_cut(tmp_path, [*written, event("U", 0, 1, 0, "x"), event("S", 1)], 0) == {}


def test_the_disk_tears_what_was_not_synced_at_sectors(tmp_path: Path) -> None:
    events = [event("C", 2, 1, 0, "x"), event("S", 1), event("W", 2, 100, 0, "", b"z" * 20_000)]
    left = after_cut(tmp_path, events, 0.5)["x"]
    sectors = [left[start : start + 512] for start in range(512, len(left) - 512, 512)]
    assert {b"z" * 512, bytes(512)} == set(sectors)


def test_each_change_that_waits_is_lost_alone_and_kept_alone() -> None:
    disk = disk_after([event("C", 2, 1, 0, "x"), event("W", 2, 0, 0, "", b"a" * 600), event("R", 2, 1, 1, "x/y")])
    left = {which: disk.cut(keeps) for which, keeps in losses(disk, random.Random(1))}
    whole, end_lost, start_lost = b"a" * 600, b"a" * 512, bytes(512) + b"a" * 88
    assert left.pop("pieces are lost by chance").keys() <= {"x", "y"}
    assert left == {
        "nothing is lost": {"y": whole},
        "all is lost": {},
        "names are lost": {},
        "contents are lost": {"y": b""},
        "every other piece is lost": {"y": start_lost},
        "change 0 of 3 is lost": {"y": whole},
        "change 0 of 3 alone is kept": {"x": b""},
        "change 1 of 3 is lost": {"x": whole},
        "change 1 of 3 alone is kept": {"y": b""},
        "change 2 of 3 is lost": {"y": b""},
        "change 2 of 3 alone is kept": {},
        "change 2 of 3 loses its start": {"y": start_lost},
        "change 2 of 3 loses its end": {"y": end_lost},
    }
    assert [type(change) for change in disk.waiting()] == [Naming, Naming, Write]


def test_nothing_can_be_lost_of_what_was_synced_nor_of_what_has_no_name() -> None:
    synced = [event("C", 2, 1, 0, "x"), event("W", 2, 0, 0, "", b"abc"), event("S", 2), event("S", 1)]
    nameless = [event("C", 3, 1), event("W", 3, 0, 0, "", b"spill")]
    disk = disk_after([*synced, *nameless])
    assert [which for which, _ in losses(disk, random.Random(1))] == ["nothing is lost"]
    assert digest(disk.cut(by_chance(0, random.Random(1)))) == digest({"x": b"abc"}) != digest({"x": {}})
