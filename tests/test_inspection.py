"""What inspect shows is what the store says of itself; it changes nothing, and of a damaged store shows what it can."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import edited, edited_and_repaired, make_sample
from helpers import one_prefix, segment_of, uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from living import MORE, SOME, ids_from, store_of_some, writer_of
from outcome import Command

import fpstore
from fpstore import CorruptStore, NotAStore, StoreChanged, inspection
from fpstore import format as layout
from fpstore._codec import crc32c
from fpstore.inspection import inspect_segment, inspect_slot, inspect_store, inspect_table
from fpstore.living.catalog import Catalog
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.segment.pages import region_name
from fpstore.segment.reader import Segment
from fpstore.segment.showing import Inspection, show_segment, show_slot, show_table
from fpstore.types import Codec, IdType

PLAN = plans.flips(2, (1, 1), 3)
NO_TELL = lambda phase, done, total: None  # noqa: E731


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of SOME in two segments, with a log."""
    path = store_of_some(tmp_path / "s")
    with writer_of(path, growth=0) as store:
        store.add(MORE, ids=ids_from(1000, 300))
        store._flush()
        store.add([1, 2, 3], ids=[5000, 5001, 5002])
        store.remove(ids=[7, 8])
        store.remove(fingerprints=[2])
    return path


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def looks(folder: Path, most: int | None = 5) -> list[Callable[[], Inspection]]:
    """Every level, of the first segment."""
    return [
        lambda: inspect_store(folder, most),
        lambda: inspect_segment(folder, "1", most),
        lambda: inspect_table(folder, "1", 0, most),
        lambda: inspect_table(folder, "00000001.fpseg", 3, most),
        lambda: inspect_slot(folder, "1", 1, 2, most),
    ]


# --- What is shown ---


def test_a_store_is_shown_as_its_catalog_and_its_folder_have_it(folder: Path) -> None:
    before = bytes_of(folder)
    seen = inspect_store(folder)
    assert (seen.of, seen.damage) == ("store", [])
    with Catalog.open(folder) as catalog:
        state = catalog.state()
    names = ("identity", "origin", "generation", "transaction", "next_segment", "first_change", "next_change", "moving")
    assert {name: seen.fields["catalog"][name] for name in names} == {name: getattr(state, name) for name in names}
    assert seen.fields["settings"]["plan"] == state.settings.plan
    assert [row["name"] for row in seen.fields["segments"]] == [entry.name for entry in state.segments]
    assert all(row["opens"] for row in seen.fields["segments"])
    assert [(row["kind"], row["value_count"]) for row in seen.fields["changes"]] == [
        ("added", 3),
        ("ids removed", 2),
        ("fingerprints removed", 1),
    ]
    assert seen.fields["log"] == {"added_row_count": 3, "removal_count": 3, "older_removal_count": 0}
    assert {row["path"] for row in seen.fields["files"]} == {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    }
    assert (seen.fields["has_writer"], seen.fields["writer_pid"]) == (False, None)
    for look in looks(folder):
        assert look().damage == []
    assert bytes_of(folder) == before


def test_removals_older_than_the_log_are_shown(folder: Path) -> None:
    with writer_of(folder, growth=0) as store:
        store._flush()
    seen = inspect_store(folder)
    assert seen.fields["change_count"] == 0
    assert seen.fields["log"]["older_removal_count"] == sum(row["value_count"] for row in seen.fields["removal_blocks"])
    assert {row["kind"] for row in seen.fields["removal_blocks"]} == {"ids removed", "fingerprints removed"}


def test_regions_of_a_segment_have_their_place_length_and_checksum(folder: Path) -> None:
    seen = inspect_segment(folder, "2", None)
    data = (folder / "segments" / "00000002.fpseg").read_bytes()
    end = 0
    for row in seen.fields["regions"]:
        assert (row["offset"], row["sound"]) == (end, True)
        end += row["size_bytes"]
        assert int(row["crc32c"], 16) == crc32c(data[row["offset"] : end])
        assert row["pages"] == f"{row['offset'] // 4096}..{(end - 1) // 4096}"
    assert end == len(data)
    with closing(Segment(folder / "segments" / "00000002.fpseg")) as segment:
        assert [row["region"] for row in seen.fields["regions"]] == [region_name(each) for each in segment.regions()]
        assert seen.fields["table_count"] == len(segment.tables)
        assert [row["prefix_mask"] for row in seen.fields["tables"]] == [
            f"{t.prefix_mask:016x}" for t in segment.tables
        ]
    assert seen.fields["header"] == {"magic": "FPSTORE", "version": layout.VERSION, "kind": 1}
    assert seen.fields["record"]["id_kind"] == "one for each key"


def test_a_table_and_its_slots_add_up(folder: Path) -> None:
    seen = inspect_table(folder, "1", 2, None)
    slots = seen.fields["used_slots"]
    assert sum(row["key_count"] for row in slots) == seen.fields["key_count"] == 300
    assert sum(row["bits"] for row in slots) == seen.fields["payload_bits"]
    assert sum(row["block_count"] for row in slots) == seen.fields["block_count"]
    assert seen.fields["used_slot_count"] == len(slots)
    shown = {key for row in slots for key in inspect_slot(folder, "1", 2, row["slot"], None).fields["keys"][0]}
    assert shown == {"block", "key", "fingerprint", "delta", "code", "id_count", "ids"}


@pytest.mark.parametrize("codec", layout.CODECS)
def test_the_keys_of_all_slots_are_those_that_are_stored_with_their_ids(tmp_path: Path, codec: Codec) -> None:
    keys = np.concatenate([uniform(200, np.random.default_rng(3)), one_prefix(300, np.random.default_rng(4))])
    keys = np.concatenate([keys, keys[:40]])
    fpstore.build(tmp_path / "s", keys, codec=codec, plan=PLAN).close()
    for table in (0, 1):
        found = []
        for slot in range(1 << inspect_table(tmp_path / "s", "1", table).fields["slot_bits"]):
            seen = inspect_slot(tmp_path / "s", "1", table, slot, None)
            assert seen.fields["key_count"] == len(seen.fields["keys"])
            assert sum(len(row["code"]) for row in seen.fields["keys"]) == sum(
                row["bits"] for row in seen.fields["blocks"]
            )
            found += [(int(row["fingerprint"], 16), int(each)) for row in seen.fields["keys"] for each in row["ids"]]
        assert sorted(found) == sorted(zip(keys.tolist(), range(len(keys)), strict=True))


@pytest.mark.parametrize("with_catalog", [True, False])
@pytest.mark.parametrize("id_type", ["string", "bytes"])
def test_ids_that_are_names_are_shown_as_names(
    command: Command, tmp_path: Path, id_type: IdType, with_catalog: bool
) -> None:
    names = [f"n{number}\u202e" for number in range(len(SOME))]
    ids: list[Any] = names if id_type == "string" else [name.encode() + b"\xff" for name in names]
    fpstore.build(tmp_path / "s", SOME, ids=ids, id_type=id_type, plan="paper-4").close()
    expected = {
        int(key): [each if isinstance(each, str) else each.decode("utf-8", "surrogateescape")]
        for key, each in zip(SOME, ids, strict=True)
    }
    if not with_catalog:
        (tmp_path / "s" / "catalog.mdb").unlink()
    slots = inspect_table(tmp_path / "s", "1", 0, None).fields["used_slots"]
    found = {}
    for slot in slots:
        for key in inspect_slot(tmp_path / "s", "1", 0, slot["slot"], None).fields["keys"]:
            found[int(key["fingerprint"], 16)] = key["ids"]
            assert [each.isdigit() for each in key["handles"]] == [True]
    assert found == expected
    shown = command("inspect", tmp_path / "s", 1, 0, slots[0]["slot"], "--all").out
    assert ("\\u202e" in shown, "\u202e" in shown, "\\xff" in shown) == (True, False, id_type == "bytes")


def test_names_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", SOME, ids=[str(key) for key in SOME], id_type="string").close()
    fpstore.build(tmp_path / "t", SOME[:1], ids=["one"], id_type="string").close()
    slot = inspect_table(tmp_path / "s", "1", 0, None).fields["used_slots"][-1]["slot"]
    names = tmp_path / "s" / "segments" / "00000001.fpnames"
    names.write_bytes((tmp_path / "t" / "segments" / names.name).read_bytes())
    (tmp_path / "s" / "catalog.mdb").unlink()
    seen = inspect_slot(tmp_path / "s", "1", 0, slot)
    assert any("names of fingerprint" in each and "found none for handle" in each for each in seen.damage)
    assert {key["ids"] for key in seen.fields["keys"] if key["handles"] != ["0"]} == {None}


def test_the_bits_of_a_key_are_those_of_its_fingerprint(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [0], plan="paper-20").close()
    for table, each in enumerate(plans.paper("paper-20").tables):
        runs = inspect_table(tmp_path / "s", "1", table).fields["key_is_bits"].split()
        bits = [bit for run in runs for bit in range(int(run.split("-")[0]), int(run.split("-")[-1]) - 1, -1)]
        assert sorted(bits) == list(range(64))
        one = np.array([1 << bits[5]], dtype=np.uint64)
        assert int(Permutation(each.prefix_mask).apply(one)[0]) == 1 << (63 - 5)


def test_lists_are_cut_and_say_how_long_they_are(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", np.append(uniform(500, np.random.default_rng(1)), [5] * 50).astype(np.uint64)).close()
    assert (
        inspect_segment(tmp_path / "s", "1", 3).fields["region_count"]
        > 3
        == len(inspect_segment(tmp_path / "s", "1", 3).fields["regions"])
    )
    table = inspect_table(tmp_path / "s", "1", 0, 0)
    assert (table.fields["used_slots"], table.fields["used_slot_count"] > 0) == ([], True)
    seen = inspect_slot(tmp_path / "s", "1", 0, 0, 3)
    (spike,) = [row for row in seen.fields["keys"] if row["fingerprint"] == f"{5:016x}"]
    assert (spike["id_count"], spike["ids"]) == (50, ["500", "501", "502"])
    assert len(inspect_store(tmp_path / "s", 1).fields["files"]) == 1


@pytest.mark.parametrize("ids", ["row", None])
def test_stores_with_little_in_them_are_shown(tmp_path: Path, ids: str | None) -> None:
    fpstore.create(tmp_path / "empty", id_type="uint64" if ids else None).close()
    assert inspect_store(tmp_path / "empty").fields["segment_count"] == 0
    with pytest.raises(ValueError, match="found segment '1', expected one of none, as there are none"):
        inspect_segment(tmp_path / "empty", "1")
    for name, keys in (("nothing", []), ("one", [7])):
        fpstore.build(tmp_path / name, np.array(keys, dtype=np.uint64), ids=ids, plan="paper-4").close()
        for look in looks(tmp_path / name)[:3]:
            assert look().damage == []
        found = inspect_slot(tmp_path / name, "1", 0, 0, None).fields["keys"]
        assert [row["fingerprint"] for row in found] == [f"{key:016x}" for key in keys]
        assert all(("ids" in row) == (ids is not None) for row in found)
    with fpstore.open(tmp_path / "empty", "w") as store:
        store.remove(fingerprints=[1, 2])
    assert inspect_store(tmp_path / "empty").fields["log"]["removal_count"] == 2


# --- What is not there ---


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, error, message in (
        (tmp_path, NotAStore, "found neither catalog.mdb nor segments"),
        (tmp_path / "file", NotAStore, "found a file, expected the folder of a store"),
        (tmp_path / "none", FileNotFoundError, "No such file"),
    ):
        with pytest.raises(error, match=message):
            inspect_store(path)


def test_a_segment_a_table_and_a_slot_that_are_not_there_are_refused(folder: Path) -> None:
    for name in ("3", "0", "00000009.fpseg", "../catalog.mdb", "catalog.mdb", "-1", "²", "1" * 30):
        with pytest.raises(ValueError, match=r"expected one of 00000001\.fpseg, 00000002\.fpseg"):
            inspect_segment(folder, name)
    with pytest.raises(ValueError, match=r"table: found 4, expected 0\.\.3"):
        inspect_table(folder, "1", 4)
    with pytest.raises(ValueError, match="slot: found 100000, expected 0"):
        inspect_slot(folder, "1", 0, 100_000)


# --- Damage ---


def regions_of(path: Path) -> Iterator[tuple[str, int, int]]:
    with closing(Segment(path)) as segment:
        yield from [(region_name(each), each.offset, each.bytes) for each in segment.regions()]


def test_damage_to_any_region_is_named_and_the_rest_shown(folder: Path) -> None:
    path = folder / "segments" / "00000001.fpseg"
    data = path.read_bytes()
    with fpstore.open(folder) as store:
        assert store.count() > 0
    for name, offset, size in regions_of(path):
        changed = bytearray(data)
        changed[offset + size // 2] ^= 4
        path.write_bytes(changed)
        seen = inspect_segment(folder, "1", None)
        # A page holds bytes of several regions; the ends of a file have checksums of their own.
        assert any(str(path) in line for line in seen.damage), name
        assert any(name.split()[-1] in line or "checksum" in line for line in seen.damage), name
        assert seen.fields["header"]["version"] == layout.VERSION
        if name == "summary":  # without which nobody knows where anything lies
            assert any("no more of it can be shown" in line for line in seen.damage)
            assert seen.fields["footer"]["file_bytes"] == len(data)
            path.write_bytes(data)
            continue
        assert seen.fields["region_count"] == len(seen.fields["regions"])
        sound = {row["region"]: row["sound"] for row in seen.fields["regions"] if row["region"] != "padding"}
        assert set(sound.values()) == {True, False} or name in ("checksums", "roots", "footer", "header", "summary")
        assert sound.get(name) is not True or name in ("checksums", "roots", "footer", "header"), name
        for look in looks(folder):
            look()
        path.write_bytes(data)
    assert inspect_segment(folder, "1").damage == []


def test_a_segment_that_is_gone_or_cut_short_is_told(folder: Path) -> None:
    path = folder / "segments" / "00000001.fpseg"
    data = path.read_bytes()
    path.write_bytes(data[:100])
    for look in looks(folder):
        assert any(str(path) in line for line in look().damage)
    assert any("no more of it can be shown" in line for line in inspect_segment(folder, "1").damage)
    path.unlink()
    for look in looks(folder):
        assert any(str(path) in line for line in look().damage)
    assert [row["opens"] for row in inspect_store(folder).fields["segments"]] == [False, True]
    assert inspect_segment(folder, "1").damage == [
        f"{path}: segment: found none, expected the file that the catalog names"
    ]
    shutil.rmtree(folder / "segments")
    assert len(inspect_store(folder).damage) >= 2
    assert (
        inspect_segment(folder, "2")
        .damage[-1]
        .endswith("segment: found none, expected the file that the catalog names")
    )


@pytest.mark.slow
def test_of_a_damaged_catalog_what_is_left_is_shown(folder: Path) -> None:
    path = folder / "catalog.mdb"
    data = path.read_bytes()
    whole = inspect_store(folder, None)
    shown = 0
    for page in range(len(data) // 4096):
        changed = bytearray(data)
        changed[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
        path.write_bytes(changed)
        seen = inspect_store(folder, None)
        assert seen.fields["file_count"] == whole.fields["file_count"]
        if seen.damage:
            assert any(str(path) in line for line in seen.damage)
            if "catalog" in seen.fields and "may not be the last one" not in "".join(seen.damage):
                shown += seen.fields["segments"] == whole.fields["segments"]
        else:
            assert seen == whole
        assert inspect_segment(folder, "1").fields["table_count"] == 4
    assert shown
    for content in (b"", b"\0" * 300_000):
        path.write_bytes(content)
        seen = inspect_store(folder)
        assert "catalog" not in seen.fields
        assert f"{path}: no record of the state is left" in seen.damage
        assert seen.fields["files"][0]["path"] == "catalog.mdb"
        assert inspect_slot(folder, "1", 0, 0).fields["entry"] is None
    path.unlink()
    assert inspect_store(folder).damage
    assert inspect_table(folder, "2", 0).fields["key_count"] == 300


def test_records_of_the_log_that_are_lost_are_counted(folder: Path) -> None:
    path = folder / "catalog.mdb"
    data = path.read_bytes()
    told = set()
    with Catalog.open(folder) as catalog:
        records = [each.columns[0].tobytes() for each in catalog.read().changes]
    for record in records:
        path.write_bytes(data.replace(record, bytes(len(record))))
        told |= {line.split(": ", 1)[1] for line in inspect_store(folder).damage}
    assert "1 records of the log are lost" in told


def test_another_version_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.living.state.RECORD_VERSION", 99)
    seen = inspect_store(folder)
    assert any("the version of the state" in line for line in seen.damage)
    assert seen.fields["file_count"] == 4
    assert inspect_segment(folder, "1").fields["table_count"] == 4


def test_an_error_of_the_machine_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_catalog, asked = Catalog.open, []

    def refuse_once(path: Path) -> Catalog:
        asked.append(path)
        if len(asked) == 1:
            raise PermissionError(13, "Permission denied", str(path))
        return open_catalog(path)

    monkeypatch.setattr(Catalog, "open", refuse_once)
    with pytest.raises(PermissionError):
        inspect_store(folder)
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("codec", layout.CODECS)
def test_hostile_segments_are_shown_or_refused(tmp_path: Path, codec: str, with_ids: bool) -> None:
    sample = make_sample(tmp_path, codec, with_ids)
    rng = np.random.default_rng(77)
    path = tmp_path / "00000001.fpseg"
    shown = 0
    for round_number in range(150):
        data = edited_and_repaired(sample, rng) if round_number % 2 else edited(sample.data, rng)
        path.write_bytes(data)
        try:
            segment = Segment(path)
        except (CorruptStore, fpstore.UnsupportedVersion):
            continue
        with closing(segment):
            seen = Inspection("segment", {})
            show_segment(seen, segment, 10, NO_TELL)
            for table in range(min(2, len(segment.tables))):
                show_table(seen, segment, table, 40)
                for slot in range(1 << min(5, segment.tables[table].slot_bits)):
                    show_slot(seen, segment, table, slot, 10)
                    shown += 1
    assert shown


# --- Beside a writer ---


def test_a_segment_that_went_since_the_catalog_was_read_is_looked_for_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "segments" / "00000001.fpseg"
    data = path.read_bytes()
    whole = [look() for look in looks(folder)]

    def changed(home: object) -> bool:
        path.write_bytes(data)
        return False

    monkeypatch.setattr(inspection._Home, "is_newest", changed)
    for look, expected in zip(looks(folder), whole, strict=True):
        path.unlink()
        assert look() == expected
    path.unlink()
    monkeypatch.setattr(inspection._Home, "is_newest", lambda home: False)
    with pytest.raises(StoreChanged, match=f"^{folder}: segment 1 came and went 8 times; look again$"):
        inspect_segment(folder, "1")


@pytest.mark.slow
def test_a_look_beside_a_writer_that_merges_finds_no_damage(tmp_path: Path) -> None:
    path = store_of_some(tmp_path / "s")
    stop, damage, looked = threading.Event(), [], 0

    def look() -> None:
        nonlocal looked
        while not stop.is_set():
            seen = inspect_store(path)
            damage.extend(seen.damage)
            try:
                last = seen.fields["segments"][-1]["name"]
                damage.extend(inspect_segment(path, last, 5).damage)
            except (ValueError, IndexError):
                pass  # merged away meanwhile, which is said
            looked += 1

    thread = threading.Thread(target=look)
    with writer_of(path, flush_rows=50, growth=3) as store:
        thread.start()
        for start in range(0, 2000, 25):
            store.add(uniform(25, np.random.default_rng(start)), ids=ids_from(10_000 + start, 25))
            if start % 400 == 0:
                store.compact()
        stop.set()
        thread.join()
        assert inspect_store(path).fields["has_writer"]
    assert damage == []
    assert looked


@settings(max_examples=10)
@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=300), st.integers(0, 4))
def test_slots_of_any_keys_are_counted(keys: list[int], slot_bits: int) -> None:
    fingerprints = np.array(keys, dtype=np.uint64)
    with segment_of(fingerprints, PLAN, slot_bits=slot_bits) as segment:
        seen = Inspection("table", {})
        show_table(seen, segment, 0, None)
        assert sum(row["key_count"] for row in seen.fields["used_slots"]) == len(set(keys))
        assert seen.damage == []
    assert len(SOME)
