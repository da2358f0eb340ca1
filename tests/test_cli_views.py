"""`fpstore verify`, `stats`, `report`: what they print of a store; and `fingerprint`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.text import fingerprint

COUNT = 5000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.fpstore"
    fingerprints = np.random.default_rng(1).integers(0, 1 << 64, COUNT, dtype=np.uint64)
    fpstore.build(path, fingerprints, plan="paper-4").close()
    return path


def segment_file(store: Path) -> Path:
    (path,) = (store / "segments").iterdir()
    return path


def test_verify_says_how_much_it_checked(command: Command, store: Path) -> None:
    outcome = command("verify", store)
    assert (outcome.status, outcome.err) == (0, "")
    (line,) = outcome.lines
    assert line.startswith(f"{store}: sound; checked {COUNT} fingerprints in 4 tables of 1 segment and {COUNT} ids: ")
    assert line.endswith(" MB/s")


def test_verify_names_the_file_of_the_first_fault(command: Command, store: Path) -> None:
    path = segment_file(store)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    outcome = command("verify", store)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (3, "", 1)
    assert outcome.err.startswith(f"{path}: ")


def test_verify_lists_every_damaged_region_of_every_store(command: Command, store: Path, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "sound.fpstore", [1, 2, 3], plan="paper-4").close()
    path = segment_file(store)
    with fpstore.open(store) as opened:
        payloads = [table.payload_offset + 5000 for table in opened._segments[0].tables]
    data = bytearray(path.read_bytes())
    for offset in payloads:
        data[offset] ^= 1
    path.write_bytes(data)
    outcome = command("verify", store, tmp_path / "none.fpstore", tmp_path / "sound.fpstore")
    assert outcome.status == 3
    assert [line.partition(": sound;")[0] for line in outcome.lines] == [str(tmp_path / "sound.fpstore")]
    lines = outcome.err.splitlines()
    assert len(lines) == len(payloads) + 1 == 5
    for table, line in enumerate(lines[:-1]):
        assert line.startswith(f"{path}: table {table} payload, page at byte ")
    assert lines[-1] == f"{tmp_path / 'none.fpstore'}: No such file or directory"

    outcome = command("verify", store, tmp_path / "sound.fpstore", "--json")
    damaged, sound = map(json.loads, outcome.lines)
    assert (outcome.status, damaged["sound"], sound["sound"]) == (3, False, True)
    assert [each["region"].split(",")[0] for each in damaged["damage"]] == [f"table {i} payload" for i in range(4)]
    assert {each["segment"] for each in damaged["damage"]} == {str(path)}
    assert [sound[f"{name}_count"] for name in ("segment", "table", "fingerprint", "id")] == [1, 4, 3, 3]
    assert sound["format"] == damaged["format"] == "fpstore.verify/1"


def test_a_segment_that_is_gone_is_a_fault_of_the_store(command: Command, store: Path) -> None:
    path = segment_file(store)
    path.unlink()
    for name in ("verify", "stats", "report"):
        outcome = command(name, store)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (3, "", 1)
        assert str(path) in outcome.err


@pytest.mark.parametrize("name", ["verify", "stats", "report"])
def test_a_folder_that_is_no_store_is_named(command: Command, tmp_path: Path, name: str) -> None:
    for path in (tmp_path, tmp_path / "none"):
        outcome = command(name, path)
        status = 3 if path.exists() else 1
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (status, "", 1)
        assert str(path) in outcome.err


def fields_of(lines: list[str]) -> dict[str, str]:
    """What stands behind each name."""
    return {line[2:16].strip(): line[16:] for line in lines if line.startswith("  ") and line[15:16] == " "}


def test_stats_has_the_settings_and_the_counts(command: Command, store: Path) -> None:
    outcome = command("stats", store)
    fields = fields_of(outcome.lines)
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    with fpstore.open(store) as opened:
        expected = {
            "fingerprints": "5,000",
            "pending": "0 rows",
            "removals": "0",
            "segments": "1",
            "in segments": f"{segment_file(store).stat().st_size / 1000:.1f} kB",
            "in catalog": "262.1 kB",
            "ids": "uint64",
            "distance": "up to 3 of 64 bits",
            "plan": "paper-4, 4 tables",
            "codec": "gap",
            "recipe": "none",
            "identity": opened.identity,
            "writer": "none",
        }
        written = opened.stats().written_at
    assert {name: fields[name] for name in expected} == expected
    assert fields["size"].endswith(f" ({size:,} bytes)")
    assert fields["last write"] == written.strftime("%Y-%m-%d %H:%M:%S UTC")
    assert abs(written.timestamp() - (store / "catalog.mdb").stat().st_mtime) < 0.001


def test_stats_of_a_store_that_is_written_to_name_the_writer(command: Command, store: Path) -> None:
    with fpstore.open(store, "w") as writer:
        writer.add([1, 2], ids=[COUNT, COUNT + 1])
        writer.remove(ids=[7])
        fields = fields_of(command("stats", store).lines)
        assert fields["writer"] == f"process {os.getpid()}"
        assert fields["pending"] == "2 rows in no segment yet"
        assert (fields["fingerprints"], fields["removals"]) == (f"at most {COUNT + 2:,}", "1")
        (store / "writer.lock").write_text("")
        assert fields_of(command("stats", store).lines)["writer"] == "one that gave no number"
    assert fields_of(command("stats", store).lines)["writer"] == "none"


def test_stats_as_json_is_what_the_library_says(command: Command, store: Path, tmp_path: Path) -> None:
    fpstore.create(tmp_path / "empty.fpstore", id_type=None, recipe="zh").close()
    outcome = command("stats", store, tmp_path / "empty.fpstore", "--json", "--spikes", "2")
    assert (outcome.status, len(outcome.lines)) == (0, 2)
    for line, path in zip(outcome.lines, (store, tmp_path / "empty.fpstore"), strict=True):
        with fpstore.open(path) as opened:
            expected = json.loads(json.dumps(opened.stats(largest_slots=3, spikes=2).to_json()))
        assert json.loads(line) == {"format": "fpstore.stats/1", **expected}


def test_stats_of_several_stores_go_on_where_one_is_none(command: Command, store: Path, tmp_path: Path) -> None:
    fpstore.create(tmp_path / "empty.fpstore", recipe="zh").close()
    (tmp_path / "folder").mkdir()
    outcome = command("stats", tmp_path / "none", store, tmp_path / "folder", tmp_path / "empty.fpstore")
    assert (outcome.status, outcome.err.count("\n")) == (3, 2)
    paths = [line for line in outcome.lines if line and not line.startswith(" ")]
    assert paths == [str(store), str(tmp_path / "empty.fpstore")]
    assert fields_of(outcome.lines)["recipe"] == "zh (shingles of 2 chinese, presence, xxh3)"
    assert command("stats", tmp_path / "none", store).status == 1


def test_stats_name_the_spikes_where_they_are_asked_for(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5] * 9 + [6, 7, 7]).close()
    fpstore.build(tmp_path / "t", [5] * 9, ids=None).close()
    lines = command("stats", tmp_path / "s", "--spikes", "1").lines
    assert "    0000000000000005  9 rows" in lines
    assert not any("0000000000000007" in line for line in lines)
    assert not any("rows of one" in line for line in command("stats", tmp_path / "s").lines)
    assert any("none: without ids" in line for line in command("stats", tmp_path / "t", "--spikes", "1").lines)
    assert "  0000000000000007  2 rows" in command("report", tmp_path / "s").lines
    assert "rows of one" not in command("report", tmp_path / "t").out
    record = json.loads(command("report", tmp_path / "s", "--json").out)
    assert (record["format"], record["spikes"]["shared_row_count"]) == ("fpstore.report/1", 11)


def test_a_number_has_one_name_in_stats_report_and_verify(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2, 2, 3], ids=[1, 2, 3, 4]).close()
    stats, report, verified = (
        json.loads(command(name, tmp_path / "s", "--json").out) for name in ("stats", "report", "verify")
    )
    (of_stats,), (of_report,) = stats["segments"], report["segments"]
    for name, value in {"fingerprint_count": 3, "id_count": 4}.items():
        assert of_stats[name] == of_report[name] == report[name] == verified[name] == value
    assert stats["fingerprint_count"] == 3
    for table, reported in zip(of_stats["tables"], of_report["tables"], strict=True):
        same = {*table} - {"total_bytes", "largest_slots"}
        assert {name: table[name] for name in same} == {name: reported[name] for name in same}
        assert (table["fence_count"], reported["key_count"]) == (0, 3)
    # A bare noun is a part of the file, of which there are bytes and bits; how many there are of something says so.
    records = (stats, report, of_stats, of_report, *of_stats["tables"], *of_report["tables"])
    bare = {"fingerprints", "ids", "keys", "fences", "rows", "count"}
    assert {name for record in records for name in record} & bare == set()


def test_stats_names_the_largest_slots_of_each_table(command: Command, tmp_path: Path) -> None:
    crowd = np.arange(5000, dtype=np.uint64) + np.uint64(0xABCD << 48)
    others = np.random.default_rng(1).integers(0, 1 << 64, COUNT, dtype=np.uint64)
    fpstore.build(tmp_path / "s.fpstore", np.concatenate([crowd, others]), plan="paper-4").close()
    slots = [
        line.split(" with x & ") for line in command("stats", tmp_path / "s.fpstore").lines if " with x & " in line
    ]
    assert len(slots) == 4 * 3
    keys, found = slots[0]
    mask, value = (int(part, 16) for part in found.split(" == "))
    assert 5000 <= int(keys.replace(",", "")) < 5100
    assert (0xABCD << 48) & mask == value


def test_the_report_as_json_accounts_for_every_byte(command: Command, store: Path) -> None:
    outcome = command("report", store, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert json.loads(outcome.out)["bytes"]["total"] == os.path.getsize(segment_file(store))


def test_the_report_as_text_names_every_codec(command: Command, store: Path) -> None:
    outcome = command("report", store)
    assert (outcome.status, outcome.err) == (0, "")
    for codec in ("gap", "xor", "rice", "raw"):
        assert codec in outcome.out


def test_fingerprint_prints_hex_and_name_in_the_order_of_the_rows(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    texts = {"b.txt": "the second text of these", "a.txt": "the first text of these", "c": ""}
    for name, text in texts.items():
        (folder / name).write_text(text)
    outcome = command("fingerprint", folder, "--format", "text")
    assert outcome.lines == [f"{fingerprint(texts[name]):016x}\t{folder / name}" for name in sorted(texts)]
    assert not outcome.lines[2].startswith("0" * 16)


def test_fingerprint_of_json_lines_names_the_line(command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "some.jsonl"
    lines.write_text('{"text": "one"}\n{"body": "two"}\n{"text": "three"}\n')
    outcome = command("fingerprint", lines, "--skip-bad")
    assert [line.split("\t")[1] for line in outcome.lines] == [f"{lines}:1", f"{lines}:3"]
    assert outcome.err.startswith("fpstore: passed over: 1 bad line\n")
    assert command("fingerprint", lines).status == 1


def test_fingerprint_refuses_an_input_that_holds_no_texts(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "some.npy", np.zeros(1, dtype=np.uint64))
    outcome = command("fingerprint", tmp_path / "some.npy")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)


@pytest.mark.slow
def test_fingerprint_escapes_names_that_are_no_utf8(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(name)).write_text("some text")
    run = subprocess.run([sys.executable, "-m", "fpstore", "fingerprint", name], capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (
        0,
        b"%016x\t%s\n" % (fingerprint("some text"), name.replace(b"\xff", rb"\xff")),
    )
