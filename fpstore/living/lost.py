"""Of a store of signatures that is made of the remains of another: which documents are lost, and which lack bands."""

import contextlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore.building.spill import PairSorter
from fpstore.disk import Place
from fpstore.format import LISTED_BYTES
from fpstore.living.live import Live
from fpstore.living.removals import Removals
from fpstore.living.state import Settings
from fpstore.names.column import to_column
from fpstore.names.reader import NamesReader
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.segment.salvage import Salvaged, salvage
from fpstore.segment.wreck import Wreck
from fpstore.sketches.salvage import Listed
from fpstore.types import Ids

# Ids of rows that wait to be made distinct, and the memory for sorting rows by id.
IDS_AT_ONCE = 1 << 20
MEMORY_BYTES = 64 << 20
NO_IDS: Ids = np.empty(0, dtype=np.uint64)


class Documents(NamedTuple):
    """Ids of documents that are lost, and of those that are there in part."""

    lost: tuple[int | str | bytes, ...]
    partial: tuple[int | str | bytes, ...]


def row_ids(wreck: Wreck, scratch: Path) -> Ids:
    """The ids of all rows that are left of a segment, whether they live or not: uint64[n], increasing."""
    held, chunks = NO_IDS, [NO_IDS]
    for _, ids in salvage(wreck, scratch, Salvaged()):
        if ids is not None:
            chunks.append(np.unique(ids))
        if sum(map(len, chunks)) > IDS_AT_ONCE + len(held):
            held, chunks = np.unique(np.concatenate([held, *chunks])), []
    found: Ids = np.unique(np.concatenate([held, *chunks]))
    return found


def listed_ids(wreck: Wreck, scratch: Path) -> Listed:
    """The ids that a segment lists, and which of them can be read. CorruptStore where nobody can tell."""
    if not wreck.is_certain:
        row_ids(wreck, scratch)  # which mends the records where that can be
        wreck.expect_certain()
    starts = wreck.record.list_offset + LISTED_BYTES * np.arange(wreck.record.list_count)
    return Listed(wreck.listed.copy(), wreck.are_sound(starts, starts + LISTED_BYTES))


def documents_lost(
    at: Place, entry: SegmentEntry, settings: Settings, lost: Ids, names: NamesReader | None
) -> Documents:
    """Those that are lost, named, and those of the segment of entry, which lies there, that have no row in some band.

    names: of the ids, where these are names; those that are lost are left out.
    """
    short = [NO_IDS, *(_lacking(at, settings) if entry.key_count else ())]
    return Documents(*(_named(np.unique(ids), settings, names) for ids in (lost, np.concatenate(short))))


def _lacking(at: Place, settings: Settings) -> list[Ids]:
    assert settings.minhash is not None
    banding = settings.minhash.banding(settings.bits)
    sorter = PairSorter(Path(at.folder.reach), MEMORY_BYTES)
    with contextlib.closing(Segment(at)) as segment:
        for keys, ids in Live(segment, 1, Removals.none()).rows(lambda keys: None):
            assert ids is not None
            sorter.add(ids, banding.of(keys).astype(np.uint64))
    with contextlib.closing(sorter.finish()) as pairs:
        return [ids[counts < np.uint64(banding.bands)] for ids, counts in pairs.groups()]


def _named(ids: Ids, settings: Settings, names: NamesReader | None) -> tuple[int | str | bytes, ...]:
    if names is None:
        return tuple(ids.tolist())
    ranks = names.ranks(ids)
    return tuple(to_column(names.names(ranks[ranks >= 0]), settings.id_type == "string").tolist())
