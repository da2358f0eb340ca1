"""Damaged stores of wide fingerprints: recovered but for what lay in damaged pages, which is told; and mended."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import writer_of
from test_wide import WIDTHS, many, numbers_of

import fpstore
from fpstore.errors import CorruptStore, StoreWarning
from fpstore.format import PAGE_BYTES

Rows = set[tuple[int, Any]]
BOTH = pytest.mark.parametrize("bits", sorted(WIDTHS))
ID_TYPES = [None, "uint64", "string"]


def built(folder: Path, bits: int, id_type: str | None) -> Rows:
    codes = many(bits, 900, "clusters")
    codes[::3] = codes[1]  # a code with many ids
    names = [f"photo {i}" for i in range(len(codes))]
    ids: dict[str | None, Any] = {None: None, "uint64": "row", "string": names}
    more: dict[str, Any] = {} if id_type is None else {"id_type": id_type}
    fpstore.build(folder, codes, ids=ids[id_type], bits=bits, max_distance=WIDTHS[bits], **more).close()
    return rows_of(folder)


def rows_of(folder: Path) -> Rows:
    found: Rows = set()
    with fpstore.open(folder) as store:
        store.verify()
        for rows in store.rows():
            ids = [None] * len(rows) if rows.id is None else rows.id.tolist()
            found |= set(zip(numbers_of(rows.fingerprint), ids, strict=True))
    return found


def overwrite(path: Path, start: int, end: int, seed: int = 2) -> None:
    data = bytearray(path.read_bytes())
    end = min(end, len(data))
    data[start:end] = np.random.default_rng(seed).integers(0, 256, end - start, dtype=np.uint8).tobytes()
    path.write_bytes(data)


def recovered(folder: Path, truth: Rows) -> tuple[fpstore.Recovered, Rows]:
    """What recover says, held against what is there and what is true."""
    new = folder.with_name("new")
    shutil.rmtree(new, ignore_errors=True)
    found = fpstore.recover(folder, new)
    rows = rows_of(new)
    assert rows <= truth
    keys, all_keys = {key for key, _ in rows}, {key for key, _ in truth}
    assert (found.rows, found.fingerprints) == (len(rows), len(keys))
    assert found.fingerprints_lost == len(all_keys - keys)
    assert found.ids_lost == (0 if next(iter(truth))[1] is None else len(truth - rows))
    assert found.complete == (rows == truth)
    assert set(found.without_ids) <= all_keys - keys
    assert {key for key, _ in truth - rows} & keys <= set(found.partial) <= keys
    assert [*folder.parent.glob(".*")] == []
    return found, rows


@BOTH
@pytest.mark.parametrize("id_type", ID_TYPES)
def test_with_any_page_overwritten_what_is_lost_is_what_is_told(bits: int, id_type: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    truth = built(folder, bits, id_type)
    whole_stores = 0
    for path in sorted((folder / "segments").iterdir()):
        data = path.read_bytes()
        for start in range(0, len(data), PAGE_BYTES):
            overwrite(path, start, start + PAGE_BYTES)
            found, rows = recovered(folder, truth)
            whole_stores += rows == truth
            assert found.damage[0].segment == str(path)
            path.write_bytes(data)
    assert whole_stores  # where tables lay


@BOTH
def test_any_region_but_those_of_codes_and_ids_overwritten_loses_nothing(bits: int, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    truth = built(folder, bits, "uint64")
    with fpstore.open(folder) as store:
        (segment,) = store._segments
        regions, path = segment.regions(), segment.path
    data, tried = path.read_bytes(), set()
    for region in regions:
        if region.table is not None or region.name in ("header", "footer", "roots"):
            overwrite(path, region.offset, region.offset + region.bytes)
            found, rows = recovered(folder, truth)
            assert (rows == truth, found.complete) == (True, True), region
            assert found.damage
            path.write_bytes(data)
            tried.add(region.name)
    assert tried == {"header", "starts", "entries", "roots", "footer"}


@BOTH
def test_a_page_of_codes_costs_just_these_codes_and_they_are_counted(bits: int, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    truth = built(folder, bits, None)
    with fpstore.open(folder) as store:
        path = store._segments[0].path
    overwrite(path, PAGE_BYTES, PAGE_BYTES + 1)
    found, rows = recovered(folder, truth)
    assert found.fingerprints_lost == PAGE_BYTES // (bits // 8) == len(truth - rows)
    assert "codes, 1 page from byte 4096, checksum" in str(found.damage[0])


@BOTH
@pytest.mark.parametrize("id_type", [None, "uint64"])
def test_without_a_catalog_the_segment_tells_what_the_store_was(bits: int, id_type: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    truth = built(folder, bits, id_type)
    with fpstore.open(folder) as store:
        plan = store.plan
    (folder / "catalog.mdb").unlink()
    found = fpstore.recover(folder, tmp_path / "new")
    assert "the catalog is gone" in found.unknown[0]
    assert rows_of(tmp_path / "new") == truth
    with fpstore.open(tmp_path / "new") as store:
        assert (store.plan.tables, store.plan.slot_keys, store.bits) == (plan.tables, plan.slot_keys, bits)
        assert store.max_distance >= WIDTHS[bits]


@BOTH
def test_what_waits_and_what_was_removed_is_recovered_as_it_was(bits: int, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    built(folder, bits, "uint64")
    codes = many(bits, 60, "random", 7)
    with writer_of(folder, flush_rows=25) as store:
        for start in range(0, 60, 20):
            store.add(codes[start : start + 20], ids=np.arange(start + 5000, start + 5020))
        store.remove(fingerprints=codes[:3])
        store.remove(ids=[5010, 5050, 4])
    truth = rows_of(folder)
    found, rows = recovered(folder, truth)
    assert (rows, found.complete, found.damage) == (truth, True, ())


@BOTH
def test_a_compaction_makes_a_damaged_table_again_and_refuses_where_codes_are_lost(bits: int, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    truth = built(folder, bits, "uint64")
    with fpstore.open(folder) as store:
        (segment,) = store._segments
        path = segment.path
        entries = next(each for each in segment.regions() if each.name == "entries")
    data = path.read_bytes()
    overwrite(path, entries.offset, entries.offset + 9)
    with writer_of(folder) as store:
        store.remove(ids=[7])
        with pytest.warns(StoreWarning, match="read from its other tables"):
            store.compact()
    assert rows_of(folder) == {row for row in truth if row[1] != 7}
    with fpstore.open(folder) as store:
        path = store._segments[0].path
    assert path.read_bytes() != data
    overwrite(path, PAGE_BYTES, PAGE_BYTES + 1)
    with writer_of(folder) as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        store.remove(ids=[8])
        with pytest.raises(CorruptStore, match=r"codes.*fingerprints and \d+ ids are lost, fpstore recover makes"):
            store.compact()
    fpstore.recover(folder, tmp_path / "rest")
    rows = rows_of(tmp_path / "rest")
    assert rows < truth
    assert rows
