"""`fpstore inspect`: as lines and as JSON, with damage as lines of their own and status 3."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore import inspection
from fpstore.living.catalog import create_catalog
from fpstore.living.state import Settings
from fpstore.plans import families as plans
from fpstore.segment.entry import SegmentEntry

COUNT = 3000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.fpstore"
    keys = np.random.default_rng(1).integers(0, 1 << 64, COUNT, dtype=np.uint64)
    fpstore.build(path, keys, plan="paper-4", recipe="web-en").close()
    return path


@pytest.mark.parametrize("where", [(), ("1",), ("00000001.fpseg", "2"), ("1", "2", "3")])
def test_as_json_it_is_what_was_seen(command: Command, store: Path, where: tuple[str, ...]) -> None:
    def see(most: int | None) -> inspection.Inspection:
        if len(where) == 3:
            return inspection.inspect_slot(store, "1", 2, 3, most)
        if len(where) == 2:
            return inspection.inspect_table(store, "1", 2, most)
        return inspection.inspect_segment(store, "1", most) if where else inspection.inspect_store(store, most)

    for options, most in (((), 20), (("--count", "2"), 2), (("--all",), None)):
        outcome = command("inspect", store, *where, "--json", *options)
        assert (outcome.status, outcome.err) == (0, "")
        record = json.loads(outcome.out)
        assert record == {"format": "fpstore.inspect/1", **see(most).to_json()}
        assert record["damage"] == []


def test_lines_have_every_value_and_say_how_many_more_there_are(command: Command, store: Path) -> None:
    with fpstore.open(store) as opened:
        identity = opened.identity
    lines = command("inspect", store).lines
    assert f"  identity         {identity}" in lines
    size = (store / "segments" / "00000001.fpseg").stat().st_size
    assert any(line.split()[:4] == ["00000001.fpseg", f"{size:,}", "3,000", "3,000"] for line in lines)
    lines = command("inspect", store, "1", "--count", "3").lines
    regions = lines[lines.index("regions") + 1 :]
    assert [line.split()[0] for line in regions[:4]] == ["region", "header", "table", "padding"]
    count = len(inspection.inspect_segment(store, "1", None).fields["regions"])
    assert regions[4:] == [f"  and {count - 3} more (--count N, --all)"]
    assert not any(" more (" in line for line in command("inspect", store, "1", "--all").lines)
    slot = command("inspect", store, "1", "0", "0", "--all").lines
    seen = inspection.inspect_slot(store, "1", 0, 0, None).fields["keys"]
    assert [line.split()[4] for line in slot[slot.index("keys") + 2 :]] == [row["code"] for row in seen]
    # A table of no rows is a word, and numbers stand to the right.
    assert "removal_blocks       -" in command("inspect", store).lines


def test_a_count_that_none_can_be_is_the_command_lines_fault(command: Command, store: Path) -> None:
    outcome = command("inspect", store, "1", "0", "0", "--count", str(10**20))
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "--count" in outcome.err


def test_damage_is_told_with_status_3_and_the_rest_shown(command: Command, store: Path) -> None:
    path = store / "segments" / "00000001.fpseg"
    data = bytearray(path.read_bytes())
    with fpstore.open(store) as opened:
        data[opened._segments[0].tables[1].payload_offset + 5000] ^= 1
    path.write_bytes(data)
    outcome = command("inspect", store, "1")
    assert outcome.status == 3
    assert outcome.err.startswith(f"{path}: table 1 payload, page at byte ")
    assert any(line.split()[:3] == ["table", "1", "payload"] and line.endswith("no") for line in outcome.lines)
    assert any(line.split()[:3] == ["table", "3", "payload"] and line.endswith("yes") for line in outcome.lines)
    assert command("inspect", store).status == 0  # its records are sound
    assert command("inspect", store, "1", "1").status == 3
    assert command("inspect", store, "1", "0").status == 0
    record = json.loads(command("inspect", store, "1", "--json").out)
    assert len(record["damage"]) == 1
    (store / "catalog.mdb").write_bytes(b"")
    outcome = command("inspect", store)
    assert (outcome.status, "segments/00000001.fpseg" in outcome.out) == (3, True)


def test_many_damaged_places_are_cut_too(command: Command, store: Path) -> None:
    path = store / "segments" / "00000001.fpseg"
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096 - 1, 2):
        data[page * 4096 + 5] ^= 1
    path.write_bytes(data)
    damage = json.loads(command("inspect", store, "1", "--json").out)["damage"]
    assert len(damage) > 5
    for options, shown in ((("--count", "3"), 3), (("--count", "0"), 1), (("--all",), len(damage))):
        outcome = command("inspect", store, "1", *options)
        more = [f"{store}: and {len(damage) - shown} more damaged places (--count N, --all)"]
        assert outcome.err.splitlines() == damage[:shown] + more * (shown < len(damage))


def test_what_is_not_there_is_a_line(command: Command, store: Path, tmp_path: Path) -> None:
    for arguments, status, told in (
        ((tmp_path / "none",), 1, "No such file"),
        ((tmp_path,), 3, "found neither catalog.mdb nor segments"),
        ((store, "9"), 2, "found segment '9', expected one of 00000001.fpseg"),
        ((store, "1", "9"), 2, "table: found 9, expected 0..3"),
        ((store, "1", "0", "99999"), 2, "slot: found 99999, expected 0.."),
        ((store, "1", "x"), 2, "'x' is not a valid integer"),
        ((store, "1", "-1"), 2, ""),
    ):
        outcome = command("inspect", *arguments)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (status, "", 1), arguments
        assert told in outcome.err


def test_a_store_that_is_written_to_is_shown_with_its_writer(command: Command, store: Path) -> None:
    with fpstore.open(store, "w") as writer:
        writer.add([1], ids=[COUNT])
        lines = [line.split() for line in command("inspect", store).lines]
    assert ["writer_pid", f"{os.getpid():,}"] in lines
    assert ["added_row_count", "1"] in lines


def test_names_in_a_store_cannot_start_a_line(command: Command, store: Path) -> None:
    (store / "a\nb\x1b[31m").touch()
    outcome = command("inspect", store)
    assert outcome.status == 0
    assert "\x1b" not in outcome.out
    assert "a\\nb" in outcome.out


def test_what_a_stranger_wrote_into_a_record_is_cut(command: Command, tmp_path: Path) -> None:
    deep: dict[str, object] = {"long": "x" * 10_000, "many": list(range(10_000)), "mixed": [{"a": 1}, 2]}
    for _ in range(300):
        deep = {"deeper": deep}
    (tmp_path / "segments").mkdir()
    plan = plans.paper("paper-4").to_json()
    create_catalog(tmp_path, Settings(3, plan, "gap", None, recipe=deep | {"long": "x" * 10_000}), ())
    outcome = command("inspect", tmp_path)
    assert (outcome.status, outcome.err) == (0, "")
    assert max(map(len, outcome.lines)) < 400
    assert "... (all of it with --json)" in outcome.out
    record = json.loads(command("inspect", tmp_path, "--json").out)
    assert record["settings"]["recipe"]["long"] == "x" * 10_000


@pytest.mark.parametrize("rows", [[{"a": 1}, 2], [{"a": 1}, {"b": 2, "c": 3}], [{}], [{"a": {"b": [1]}}]])
def test_lists_of_any_kind_are_shown(command: Command, tmp_path: Path, rows: list[object]) -> None:
    (tmp_path / "segments").mkdir()
    plan = plans.paper("paper-4").to_json()
    create_catalog(tmp_path, Settings(3, plan, "gap", None, recipe={"rows": rows}), ())
    outcome = command("inspect", tmp_path)
    assert (outcome.status, outcome.err) == (0, "")


def test_a_plan_that_is_none_is_damage_and_the_record_shown(command: Command, tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    segments = (SegmentEntry("00000001.fpseg", 1000, 1, 0, 0),)
    create_catalog(tmp_path, Settings(3, {"name": 7}, "gap", None), segments)
    outcome = command("inspect", tmp_path)
    assert outcome.status == 3
    assert any(line.split() == ["name", "7"] for line in outcome.lines)
    assert command("inspect", tmp_path, "1").status == 3


def test_the_files_of_names_of_a_segment_are_shown(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5, 6], ids=["a", "b"], id_type="string").close()
    size = (tmp_path / "s" / "segments" / "00000001.fpnames").stat().st_size
    whole = json.loads(command("inspect", tmp_path / "s", "--json").out)
    entry = json.loads(command("inspect", tmp_path / "s", "1", "--json").out)["entry"]
    assert whole["segments"][0]["names"] == ["00000001.fpnames"]
    assert [(file["number"], file["file_bytes"], len(file["crc"])) for file in entry["names"]] == [(1, size, 8)]
    assert "  00000001.fpnames  " in command("inspect", tmp_path / "s").out
