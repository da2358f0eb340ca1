"""What is left of a damaged segment is exactly what the damage spares, and nothing else is made of it."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import distinct, one_prefix, resealed, uniform, write_segment

from fpstore import format as layout
from fpstore.errors import CorruptStore
from fpstore.format import PAGE_BYTES, Region
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.segment import salvage as rooms
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.segment.salvage import Salvaged, salvage
from fpstore.segment.wreck import Run, Wreck
from fpstore.types import Keys

PLAN = plans.flips(2, (1, 1), 3)
IDS = ("none", "one", "many")
LAYOUTS = {"slots": PLAN, "blocks": replace(PLAN, block_bytes=300)}


class Sample:
    """A segment file, and what is in it. Fingerprints have an id each, or one to four."""

    def __init__(self, folder: Path, fingerprints: Keys, ids: str, plan: Plan = PLAN, codec: str = "gap") -> None:
        rng = np.random.default_rng(5)
        self.fingerprints = distinct(fingerprints)
        count = len(self.fingerprints)
        counts = np.ones(count, dtype=np.int64) if ids == "one" else rng.integers(1, 5, count)
        keys = np.repeat(self.fingerprints, counts)
        values = rng.permutation(len(keys)).astype(np.uint64) + np.uint64(500)
        self.rows = set(zip(keys.tolist(), values.tolist(), strict=True)) if ids != "none" else set()
        self.path = folder / "00000001.fpseg"
        write_segment(self.path, self.fingerprints, plan, codec=codec, pairs=None if ids == "none" else (keys, values))
        self.data = self.path.read_bytes()
        with closing(Segment(self.path)) as segment:
            self.regions, record = segment.regions(), segment.record
            counts_and_crc = record.key_count, record.id_count, segment.footer_crc
        self.entry = SegmentEntry(self.path.name, len(self.data), *counts_and_crc)
        self.scratch = folder / "scratch"
        self.scratch.mkdir()

    def damaged(self, start: int, end: int, seed: int = 1) -> bytes:
        noise = np.random.default_rng(seed).integers(0, 256, min(end, len(self.data)) - start, dtype=np.uint8)
        return self.data[:start] + noise.tobytes() + self.data[min(end, len(self.data)) :]

    def check(self, data: bytes, *, entry: bool = True) -> Salvaged:
        """Salvage damaged bytes: what comes of it is true, and what does not is counted and named."""
        self.path.write_bytes(data)
        found: set[int] = set()
        rows: set[tuple[int, int]] = set()
        salvaged = Salvaged()
        with Wreck.opened(self.path, self.entry if entry else None, self.scratch) as wreck:
            self.damage = [each.region for each in wreck.damage("")]
            for keys, ids in salvage(wreck, self.scratch, salvaged):
                found.update(keys.tolist())
                rows.update(zip(keys.tolist(), [] if ids is None else ids.tolist(), strict=False))
        assert list(self.scratch.iterdir()) == []
        assert self.path.read_bytes() == data
        bare = {int(key) for keys in salvaged.without_ids for key in keys}
        partial = {int(key) for keys in salvaged.partial for key in keys}
        truth = set(self.fingerprints.tolist())
        assert found | bare <= truth
        assert not found & bare
        assert salvaged.fingerprints == len(found | bare)
        assert salvaged.fingerprints_lost == len(truth - found - bare)
        assert rows <= self.rows
        assert salvaged.ids == len(rows)
        assert salvaged.ids_lost == len(self.rows - rows)
        short = {key for key, _ in self.rows - rows}
        assert partial <= found
        assert short & found <= partial
        return salvaged


def sample_of(folder: Path, ids: str, count: int = 3000, layout: str = "slots") -> Sample:
    return Sample(folder, uniform(count, np.random.default_rng(6)), ids, LAYOUTS[layout])


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sound_segment_is_salvaged_whole(tmp_path: Path, ids: str, layout: str) -> None:
    sample = sample_of(tmp_path, ids, layout=layout)
    for entry in (True, False):
        salvaged = sample.check(sample.data, entry=entry)
        assert salvaged.fingerprints == 3000
        assert (salvaged.fingerprints_lost, salvaged.ids_lost, salvaged.ids) == (0, 0, len(sample.rows))


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize(("kind", "laid"), [("uniform", "slots"), ("crowded", "slots"), ("crowded", "blocks")])
def test_with_each_page_overwritten_what_is_lost_is_what_is_told(
    tmp_path: Path, ids: str, kind: str, laid: str
) -> None:
    rng = np.random.default_rng(7)
    keys = uniform(3000, rng)
    if kind == "crowded":
        keys = np.concatenate([keys, one_prefix(1500, rng)])
    sample = Sample(tmp_path, keys, ids, LAYOUTS[laid])
    summary = next(region for region in sample.regions if region.name == "summary")
    losses = 0
    for start in range(0, len(sample.data), PAGE_BYTES):
        data = sample.damaged(start, start + PAGE_BYTES)
        if start < summary.offset + summary.bytes and summary.offset < start + PAGE_BYTES:
            with pytest.raises(CorruptStore, match=r"^(summary|footer): "):
                sample.check(data)
            continue
        salvaged = sample.check(data)
        losses += salvaged.fingerprints_lost + salvaged.ids_lost
    assert losses > 0 or ids == "none"


@pytest.mark.slow
@pytest.mark.parametrize("ids", IDS)
def test_with_one_region_of_a_table_overwritten_nothing_is_lost(tmp_path: Path, ids: str) -> None:
    # Enough that no page has parts of two regions of each of two tables.
    rng = np.random.default_rng(8)
    sample = Sample(tmp_path, np.concatenate([uniform(40_000, rng), one_prefix(10_000, rng)]), ids)
    names = []
    for region in sample.regions:
        if region.table is not None:
            salvaged = sample.check(sample.damaged(region.offset, region.offset + region.bytes))
            assert (salvaged.fingerprints_lost, salvaged.ids_lost) == (0, 0), region
            assert not salvaged.without_ids or not np.concatenate(salvaged.without_ids).size
            names.append(region.name)
    assert sorted(set(names)) == ["directory", "fences", "payload"]


def test_the_end_of_a_file_follows_from_the_catalog(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, "many")
    regions = {region.name: region for region in sample.regions}
    end = len(sample.data)
    for name, told in (
        ("footer", ["footer"]),
        ("roots", ["roots", "footer"]),
        ("checksums", [f"checksums, page at byte {regions['checksums'].offset}", "roots", "footer"]),
    ):
        assert sample.check(sample.damaged(regions[name].offset, end)).fingerprints_lost == 0
        assert sample.damage == told
    damaged = sample.damaged(regions["footer"].offset, end)
    with pytest.raises(CorruptStore, match=r"^footer, magic: "):
        sample.check(damaged, entry=False)
    # Neither can be told from the other where both are damaged.
    both = sample.damaged(5000, 5001)[: regions["checksums"].offset] + damaged[regions["checksums"].offset :]
    assert sample.check(both).fingerprints_lost == 0
    with pytest.raises(CorruptStore, match=r"^footer: found damage, expected a sound one, or one that follows"):
        sample.check(both[: regions["checksums"].offset] + sample.damaged(regions["checksums"].offset, end)[-1000:])


def test_a_page_of_checksums_that_is_damaged_alone_loses_nothing(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, "one")
    sums: Region = next(region for region in sample.regions if region.name == "checksums")
    salvaged = sample.check(sample.damaged(sums.offset, sums.offset + sums.bytes), entry=False)
    assert (salvaged.fingerprints_lost, salvaged.ids_lost) == (0, 0)
    # With a page that it covers: each of the others is told to be sound by its own checksum.
    data = bytearray(sample.damaged(sums.offset, sums.offset + 4))
    data[PAGE_BYTES * 3] ^= 1
    sample.check(bytes(data), entry=False)


def test_another_segment_than_the_catalog_names_is_refused(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, "one")
    data = bytearray(sample.data)
    data[100] ^= 1
    with pytest.raises(CorruptStore, match=r"^segment: found .*, which the catalog names$"):
        sample.check(resealed(data))
    with pytest.raises(CorruptStore, match=rf"^file, cut short: found {len(data) - 5000} bytes, expected {len(data)}$"):
        sample.check(sample.data[:-5000])
    with pytest.raises(CorruptStore, match=r"^file: found 100 bytes, expected 128 or more$"):
        sample.check(sample.data[:100], entry=False)
    assert sample.check(sample.data + b"more").fingerprints_lost == 0


def test_what_is_cut_off_the_end_follows_from_the_rest(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, "many")
    size, sums = len(sample.data), next(region for region in sample.regions if region.name == "checksums")
    for missing in (1, 64, size - sums.offset):
        assert sample.check(sample.data[: size - missing]).fingerprints_lost == 0
        assert sample.damage[0] == "file"
    # Of a size that a catalog makes up nothing is made.
    sample.entry = replace(sample.entry, file_bytes=1 << 60)
    with pytest.raises(CorruptStore, match=rf"^file, cut short: found {size} bytes, expected {1 << 60}$"):
        sample.check(sample.data)


def test_records_that_cannot_be_under_checksums_that_hold_are_refused(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, "one")
    summary = next(region for region in sample.regions if region.name == "summary")
    data = bytearray(sample.data)
    data[summary.offset] ^= 1
    with pytest.raises(CorruptStore, match=r"^segment record, key_bits: found 65, expected 16..64$"):
        sample.check(resealed(data), entry=False)


def test_what_damaged_pages_say_is_taken_only_when_it_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = sample_of(tmp_path, "one")
    runs = Wreck.runs

    def others(self: Wreck, table: int, first: int = 0, end: int | None = None) -> Iterator[Run]:
        for start, stop, keys in runs(self, table, first, end):
            yield start, stop, keys ^ np.uint64(1) if self._lenient and keys is not None else keys

    first, second = (next(r for r in sample.regions if (r.table, r.name) == (t, "payload")) for t in (0, 1))
    data = sample.damaged(first.offset, second.offset)
    assert second.offset % PAGE_BYTES
    assert sample.check(data).fingerprints_lost == 0
    monkeypatch.setattr(Wreck, "runs", others)
    assert sample.check(data).fingerprints_lost > 0


def test_a_page_is_mended_only_where_all_of_it_is_right(tmp_path: Path) -> None:
    # Table 0 is gone, and the directory of table 1 shares a page with the ranks and the ids.
    sample = sample_of(tmp_path, "one", 2800)
    regions = {(region.name, region.table): region for region in sample.regions}
    payload, directory = regions["payload", 0], regions["directory", 1]
    ranks, values = regions["ranks", None], regions["id values", None]
    assert directory.offset // PAGE_BYTES == values.offset // PAGE_BYTES
    data = bytearray(sample.damaged(payload.offset, payload.offset + payload.bytes))
    data[ranks.offset] ^= 1
    assert sample.check(bytes(data)).ids_lost == 0
    data[values.offset] ^= 1
    salvaged = sample.check(bytes(data))
    assert (salvaged.fingerprints_lost, salvaged.ids_lost > 0) == (0, True)


def test_pages_that_the_disk_does_not_give_back_are_damaged_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = sample_of(tmp_path, "many")
    read = os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset <= 3 * PAGE_BYTES < offset + length:
            raise OSError(errno.EIO, "Input/output error")
        return read(fd, length, offset)

    monkeypatch.setattr(os, "pread", failing)
    assert sample.check(sample.data).fingerprints_lost == 0

    def refused(fd: int, length: int, offset: int) -> bytes:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "pread", refused)
    with pytest.raises(PermissionError):
        sample.check(sample.data)


def test_ids_in_pieces_are_those_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = sample_of(tmp_path, "many")
    groups = [region for region in sample.regions if region.name in ("id groups", "id values", "group samples")]
    expected = [sample.check(sample.damaged(each.offset, each.offset + each.bytes // 2)) for each in groups]
    monkeypatch.setattr(rooms, "PIECE_BITS", layout.SAMPLE_BITS)
    monkeypatch.setattr(rooms, "PIECE_IDS", 100)
    monkeypatch.setattr("fpstore.segment.wreck.PIECE_KEYS", 100)
    for region, before in zip(groups, expected, strict=True):
        found = sample.check(sample.damaged(region.offset, region.offset + region.bytes // 2))
        assert (found.ids, found.ids_lost) == (before.ids, before.ids_lost)
