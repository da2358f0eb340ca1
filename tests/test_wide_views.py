"""What inspect and report tell of wide fingerprints is what the file holds."""

import json
from pathlib import Path

import pytest
from outcome import Command
from test_wide import WIDTHS, many, numbers_of
from test_wide_recovery import overwrite

import fpstore
from fpstore.codes.layout import top_of
from fpstore.codes.reader import CodesSegment
from fpstore.format import PAGE_BYTES
from fpstore.inspection import inspect_segment, inspect_slot, inspect_store, inspect_table

BOTH = pytest.mark.parametrize("bits", sorted(WIDTHS))


def built(folder: Path, bits: int, count: int = 500) -> dict[int, set[str]]:
    """A store with some codes that have several ids; which these are."""
    codes = many(bits, count, "repeats")
    fpstore.build(folder, codes, ids="row", bits=bits, max_distance=WIDTHS[bits]).close()
    ids: dict[int, set[str]] = {}
    for row, number in enumerate(numbers_of(codes)):
        ids.setdefault(number, set()).add(str(row))
    return ids


def key_of(code: int, mask: int) -> int:
    """The bits of mask, from the highest on, as one number."""
    bits = [bit for bit in reversed(range(256)) if mask >> bit & 1]
    return int("".join(str(code >> bit & 1) for bit in bits), 2)


@BOTH
def test_each_table_shows_every_code_in_its_slot_with_its_tag_and_its_ids(bits: int, tmp_path: Path) -> None:
    ids = built(tmp_path / "s", bits)
    with fpstore.open(tmp_path / "s") as store:
        (segment,) = store._segments
        assert isinstance(segment, CodesSegment)
        tables = segment.tables
    ranks = {code: rank for rank, code in enumerate(sorted(ids))}
    assert any(table.in_order for table in tables)
    assert not all(table.in_order for table in tables)
    for index, table in enumerate(tables):
        seen = inspect_table(tmp_path / "s", "1", index, None)
        assert (seen.damage, seen.fields["key_count"], seen.fields["flips"]) == ([], len(ids), table.flips)
        assert int(seen.fields["prefix_mask"], 16) == table.prefix_mask
        found, entry = {}, 0
        for row in seen.fields["used_slots"]:
            slot = inspect_slot(tmp_path / "s", "1", index, row["slot"], None)
            assert (slot.damage, slot.fields["key_count"], row["first_entry"]) == ([], row["entry_count"], entry)
            mask = top_of(table.prefix_mask, table.slot_bits + table.tag_bits)
            for key in slot.fields["keys"]:
                code = int(key["fingerprint"], 16)
                own = key_of(code, mask)
                assert (key["entry"], key["rank"]) == (entry, ranks[code])
                assert (own >> table.tag_bits, own & (1 << table.tag_bits) - 1) == (row["slot"], int(key["tag"], 16))
                assert (key["id_count"], set(key["ids"])) == (len(ids[code]), ids[code])
                found[code], entry = True, entry + 1
        assert (len(found), entry) == (len(ids), len(ids))
        assert seen.fields["entries_most"] == max(row["entry_count"] for row in seen.fields["used_slots"])


@BOTH
def test_a_segment_is_shown_to_the_last_byte_and_lists_are_cut(bits: int, tmp_path: Path) -> None:
    built(tmp_path / "s", bits)
    assert inspect_store(tmp_path / "s").damage == []
    seen = inspect_segment(tmp_path / "s", "1", None)
    size = sum(row["size_bytes"] for row in seen.fields["regions"])
    assert (seen.damage, size) == ([], (tmp_path / "s" / "segments" / "00000001.fpseg").stat().st_size)
    assert all(row["sound"] for row in seen.fields["regions"])
    cut = inspect_table(tmp_path / "s", "1", 1, 2).fields
    assert (len(cut["used_slots"]), cut["used_slot_count"] > 2) == (2, True)
    slot = inspect_slot(tmp_path / "s", "1", 1, cut["used_slots"][0]["slot"], 1).fields
    assert (len(slot["keys"]), slot["key_count"]) == (1, cut["used_slots"][0]["entry_count"])
    with pytest.raises(ValueError, match=r"table: found \d+, expected 0\.\."):
        inspect_table(tmp_path / "s", "1", 99)
    with pytest.raises(ValueError, match=r"slot: found 99999999, expected 0\.\."):
        inspect_slot(tmp_path / "s", "1", 0, 99999999)


@BOTH
@pytest.mark.parametrize("catalog", ["sound", "gone"])
def test_of_damaged_codes_and_tables_what_can_be_is_shown_and_the_rest_is_named(
    bits: int, catalog: str, tmp_path: Path
) -> None:
    built(tmp_path / "s", bits, 2000)
    path = tmp_path / "s" / "segments" / "00000001.fpseg"
    if catalog == "gone":
        (tmp_path / "s" / "catalog.mdb").unlink()
    whole = path.read_bytes()
    for start in range(0, len(whole), PAGE_BYTES):
        overwrite(path, start, start + PAGE_BYTES)
        assert inspect_segment(tmp_path / "s", "1", 3).damage, start
        inspect_table(tmp_path / "s", "1", 1, 3)
        inspect_slot(tmp_path / "s", "1", 1, 0, 3)
        path.write_bytes(whole)


@BOTH
def test_a_report_has_every_byte_and_the_codes_once(bits: int, tmp_path: Path, command: Command) -> None:
    ids = built(tmp_path / "s", bits)
    with fpstore.open(tmp_path / "s") as store:
        report, plan = store.report(), store.plan
    found = report.to_json()
    path = tmp_path / "s" / "segments" / "00000001.fpseg"
    assert found["bytes"]["total"] == path.stat().st_size
    assert (found["fingerprint_count"], found["id_count"]) == (len(ids), 500)
    tables = found["segments"][0]["tables"]
    assert [table["flips"] for table in tables] == [table.flips for table in plan.tables]
    in_tables = sum(table["bytes"]["total"] for table in tables)
    assert found["bytes"]["payload"] + found["bytes"]["directory"] == len(ids) * bits // 8 + in_tables
    assert found["ratio_to_raw"] > 1
    assert found["ratio_to_bound"] > 1
    assert found["spikes"]["largest"][0]["row_count"] == max(map(len, ids.values()))
    assert {table["ratio_to_bound"] for table in tables} == {None}
    text = report.to_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "entropy bound: one copy of" in text
    assert command("report", tmp_path / "s").out == text + "\n"
    assert json.loads(command("report", tmp_path / "s", "--json").out)["bytes"] == found["bytes"]
    assert command("inspect", tmp_path / "s", "1", "0", "0").status == 0


def test_an_empty_store_has_a_report(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [], ids=None, bits=256, max_distance=31).close()
    with fpstore.open(tmp_path / "s") as store:
        assert store.report().to_json()["fingerprint_count"] == 0
        assert "entropy bound: one copy of 0.000 bits a key" in store.report().to_text()
    assert inspect_slot(tmp_path / "s", "1", 0, 0).fields["keys"] == []
