"""What a store holds and how, as its records and its folder say it: nothing is decoded."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fpstore.checks import fields_of, hexadecimal, shown_id
from fpstore.disk import CATALOG_NAME, Folder, naming
from fpstore.living.census import bytes_by_kind
from fpstore.living.locks import find_writer
from fpstore.living.named import names_in
from fpstore.living.radius import outgrown
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Minhash
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment import report as reports
from fpstore.segment.buckets import CROWDED_IDS, largest_buckets
from fpstore.segment.layouts import layout_costs
from fpstore.segment.reader import Segment
from fpstore.segment.report import Report
from fpstore.segment.spikes import NAMED, Spikes, count_spikes
from fpstore.segment.stats import SegmentStats, stats
from fpstore.types import Keys, Kind

# A file may have any time; of the years 1 and 9999, the first and the last second.
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True)
class Stats:
    """What a store holds and how.

    minhash: of a store of signatures, how they are cut, how many bits of each value are kept, and by_chance: how many
    of its documents have a key of a signature with which they share no band. Its fingerprints are the keys of bands.
    fingerprint_count: None where they are not in one segment, as only count, which reads them, would tell.
    pending_count: what was added and is in no segment yet. removal_count: removals that mask what is in segments.
    spikes: where they were asked for, of a store with ids. has_writer: whether one has it open just now; writer_pid:
    the process number that it gave, None where it gave none. written_at: when the catalog's file was last written.
    total_bytes: of all files in the folder: live segments, their files of names and of sketches, the catalog, what jobs
    keep, what was set aside, and other_bytes: locks, what is being made or removed, and what is none of fpstore's.
    """

    path: str
    identity: str
    kind: Kind
    max_distance: int
    bits: int
    plan: Plan
    codec: str
    id_type: str | None
    recipe: dict[str, Any] | None
    minhash: dict[str, float] | None
    fingerprint_count: int | None
    pending_count: int
    removal_count: int
    segment_count: int
    spikes: Spikes | None
    has_writer: bool
    writer_pid: int | None
    written_at: datetime
    total_bytes: int
    segments_bytes: int
    catalog_bytes: int
    names_bytes: int
    sketches_bytes: int
    jobs_bytes: int
    aside_bytes: int
    other_bytes: int
    segments: tuple[SegmentStats, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name; the plan as Plan.from_json reads it, the time in UTC."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "plan": self.plan.to_json(),
            "spikes": None if self.spikes is None else self.spikes.to_json(),
            "written_at": self.written_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "segments": [asdict(segment) for segment in self.segments],
        }


def stats_of(
    snapshot: Snapshot, home: Folder, path: str, largest_slots: int, spikes: int, tell: Tell | None = None
) -> Stats:
    """Of a store at path, whose folder home is. largest_slots, spikes: as in Store.stats."""
    settings = snapshot.settings
    sizes = bytes_by_kind(home, snapshot.state)
    writer = find_writer(home)
    with naming(home.path / CATALOG_NAME):
        written = os.stat(CATALOG_NAME, dir_fd=home.fd, follow_symlinks=False).st_mtime
    is_new = not snapshot.parts and not snapshot.pending_end
    return Stats(
        path=path,
        identity=snapshot.state.identity,
        kind=settings.kind,
        max_distance=settings.max_distance,
        bits=settings.bits,
        plan=snapshot.plan,
        codec=settings.codec,
        id_type=settings.id_type,
        recipe=settings.recipe,
        minhash=None if settings.minhash is None else _signatures(snapshot, settings.minhash),
        fingerprint_count=snapshot.key_count if snapshot.is_plain or is_new else None,
        pending_count=snapshot.pending_count,
        removal_count=len(snapshot.removals),
        segment_count=len(snapshot.parts),
        spikes=spikes_of(snapshot, spikes, tell) if spikes else None,
        has_writer=writer is not None,
        writer_pid=None if writer is None else writer.pid,
        written_at=moment_of(written),
        total_bytes=sum(sizes.values()),
        # The slots of wide codes are not looked through yet.
        segments=tuple(
            _segment_stats(snapshot, part.segment, largest_slots * (not settings.is_wide)) for part in snapshot.parts
        ),
        **{f"{kind}_bytes": size for kind, size in sizes.items()},
    )


def _signatures(snapshot: Snapshot, minhash: Minhash) -> dict[str, float]:
    rows = snapshot.pending_count
    for part in snapshot.parts:
        record = part.segment.record
        rows += record.id_count if snapshot.settings.ids else record.key_count
    chance = minhash.banding(snapshot.settings.bits).by_chance(rows / minhash.bands)
    return {**fields_of(minhash), "by_chance": chance}


def moment_of(seconds: float) -> datetime:
    """That time since 1970, in UTC; of one that no calendar has, the last or the first that there is."""
    return datetime.fromtimestamp(min(max(seconds, FIRST_SECOND), LAST_SECOND), UTC)


def spikes_of(snapshot: Snapshot, named: int, tell: Tell | None = None) -> Spikes | None:
    """How the live rows share fingerprints; None in a store without ids, which keeps each fingerprint once.

    Reads all of table 0 and the ids. named: how many of the most shared ones are named; ValueError below 0.
    """
    if named < 0:
        raise ValueError(f"spikes: found {named}, expected 0 or more")
    if not snapshot.settings.ids:
        return None
    total = sum(part.segment.record.id_count for part in snapshot.parts) + snapshot.pending_count
    done = 0

    def keys() -> Iterator[Keys]:
        nonlocal done
        for some, _ in snapshot.rows():
            done += len(some)
            if tell:
                tell("spikes", done, total)
            yield some

    found = count_spikes(keys(), named, snapshot.settings.bits)
    return found if snapshot.settings.minhash is None else _of_bands(snapshot, snapshot.settings.minhash, found)


def _of_bands(snapshot: Snapshot, minhash: Minhash, found: Spikes) -> Spikes:
    """Those of the keys of bands: of each named one its band, and an id that has it."""
    keys = np.array([spike.fingerprint for spike in found.largest], dtype=np.uint64)
    bands = minhash.banding(snapshot.settings.bits).of(keys).tolist()
    matches = snapshot.nearest(keys, 0)
    assert matches.id is not None
    examples: list[Any] = (matches.id if snapshot.names is None else names_in(snapshot, matches.id)).tolist()
    told = dict(zip(matches.query.tolist(), examples, strict=True))
    largest = (
        replace(spike, band=band, example_id=told[index])
        for index, (spike, band) in enumerate(zip(found.largest, bands, strict=True))
    )
    return replace(found, largest=tuple(largest), kind=snapshot.settings.kind)


def bucket_warnings(snapshot: Snapshot, segment: Segment) -> tuple[str, ...]:
    """A sentence for each of the NAMED keys of bands that the most documents of a segment have, where that is many."""
    minhash = snapshot.settings.minhash
    if minhash is None:
        return ()
    buckets, more = largest_buckets(segment, NAMED)
    warnings = []
    for bucket in buckets:
        key = np.array([bucket.key], dtype=np.uint64)
        handle = np.array([bucket.least_id], dtype=np.uint64)
        (band,) = minhash.banding(snapshot.settings.bits).of(key).tolist()
        example = shown_id((handle if snapshot.names is None else names_in(snapshot, handle)).tolist()[0])
        share = f"band {band}: {bucket.id_count:,} documents share key {hexadecimal(bucket.key, segment.bits)}"
        warnings.append(f"{share}, such as id {example}; a probe that has it reads them all")
    return (*warnings, *([f"and {more:,} more keys of {CROWDED_IDS // 2} documents or more"] if more else []))


def _segment_stats(snapshot: Snapshot, segment: Segment, largest_slots: int) -> SegmentStats:
    found = stats(segment, largest_slots)
    buckets = bucket_warnings(snapshot, segment) if largest_slots else ()
    return replace(found, warnings=found.warnings + buckets + _plan_warnings(snapshot, segment))


def _plan_warnings(snapshot: Snapshot, segment: Segment) -> tuple[str, ...]:
    settings = snapshot.settings
    if settings.kind != "hamming" or settings.is_wide:
        return ()
    told = outgrown(snapshot.plan, settings.max_distance, segment.key_count)
    return () if told is None else (told,)


def report_of(snapshot: Snapshot, tell: Tell | None = None) -> Report:
    """Of the segments, each read a few times over, and how the rows share fingerprints."""
    segments = []
    for part in snapshot.parts:
        if snapshot.settings.is_wide:
            segments.append(reports.report_codes(part.segment))
            continue
        found = reports.report_segment(part.segment, tell)
        layouts = layout_costs(part.segment, snapshot.plan, tell) if snapshot.settings.kind == "hamming" else ()
        more = bucket_warnings(snapshot, part.segment) + _plan_warnings(snapshot, part.segment)
        segments.append(replace(found, layouts=layouts, warnings=found.warnings + more))
    settings = snapshot.settings
    return reports.combine(segments, spikes_of(snapshot, NAMED, tell), settings.bits, settings.kind)
