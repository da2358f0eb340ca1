"""Reads a damaged segment all the same, where its tables have what it lacks: it is made again, for the time being.

The same fingerprints give the same bytes, so what is made is the segment as it was. Whoever reads everything asks for
sound segments first; where one has lost something that no table has, the error comes before the first row.
"""

import contextlib
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

from fpstore.building.rows import write_stream
from fpstore.codes.reader import CodesSegment, open_segment
from fpstore.codes.rows import write_of
from fpstore.codes.salvage import CodesWreck, salvage_codes
from fpstore.disk import Folder, Place
from fpstore.errors import CorruptStore, StoreWarning
from fpstore.format import CODECS
from fpstore.living.live import Live
from fpstore.plans.plan import Plan
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.pages import check_ahead
from fpstore.segment.reader import Segment
from fpstore.segment.salvage import Salvaged, salvage
from fpstore.segment.wreck import Wreck
from fpstore.types import Ids, Keys

_told: WeakSet[Segment] = WeakSet()


@contextlib.contextmanager
def sound_parts(parts: Sequence[Live], plan: Plan, table_count: int | None = None) -> Iterator[tuple[Live, ...]]:
    """The parts, for a context; one with a damaged page among those that are to be read is made again.

    table_count: so many tables are to be read, all by default. Reads these pages, so that nothing is found damaged
    later. A segment that is made again lies in the system's folder for temporary files. Warns of damage, once for each
    open segment; raises CorruptStore where something of a segment is in none of its tables.
    """
    with contextlib.ExitStack() as stack:
        sound = []
        for part in parts:
            tables = range(len(part.segment.tables) if table_count is None else table_count)
            try:
                check_ahead(part.segment, tables)
            except CorruptStore as error:
                path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fpstore-")))
                at = Place(stack.enter_context(Folder.open(path)), part.segment.path.name)
                make_again(part.segment, at, plan, error)
                segment = open_segment(at)
                stack.callback(segment.close)
                sound.append(replace(part, segment=segment))
            else:
                sound.append(part)
        yield tuple(sound)


def make_again(segment: Segment, at: Place, plan: Plan, error: CorruptStore) -> None:
    """Write the segment, in which error was found, there, as it was before the damage. Raises CorruptStore."""
    salvaged = Salvaged()
    # What lies under its name now may be another one.
    counts = segment.key_count, segment.record.id_count
    entry = SegmentEntry(segment.path.name, segment.file_bytes, *counts, segment.footer_crc)
    try:
        with _scratch(at.folder) as scratch, _salvaging(segment, entry, plan, scratch, salvaged) as (rows, codec):
            write_stream(at, scratch, rows, plan, codec, segment.ids is not None, write=write_of(plan.bits))
    except (CorruptStore, FileNotFoundError):
        raise error from None
    lost = [f"{salvaged.fingerprints_lost} fingerprints"] * (salvaged.fingerprints_lost > 0)
    lost += [f"{salvaged.ids_lost} ids"] * (salvaged.ids_lost > 0)
    if lost:
        at.folder.unlink(at.name)
        note = f"{' and '.join(lost)} are lost, fpstore recover makes a store of the rest"
        raise CorruptStore(error.where, error.found, error.expected, path=segment.path, note=note)
    if segment not in _told:
        _told.add(segment)
        warnings.warn(f"{error}; read from its other tables", StoreWarning, stacklevel=2)


@contextlib.contextmanager
def _salvaging(
    segment: Segment, entry: SegmentEntry, plan: Plan, scratch: Path, salvaged: Salvaged
) -> Iterator[tuple[Iterator[tuple[Keys, Ids | None]], str]]:
    """The rows that are left of a segment, and its codec."""
    if isinstance(segment, CodesSegment):
        with CodesWreck.opened(segment.path, entry, scratch) as codes:
            yield salvage_codes(codes, plan, scratch, salvaged), CODECS[codes.tables[0].codec]
    else:
        with Wreck.opened(segment.path, entry, scratch) as wreck:
            yield salvage(wreck, scratch, salvaged), CODECS[wreck.tables[0].codec]


@contextlib.contextmanager
def _scratch(folder: Folder) -> Iterator[Path]:
    """A folder in this one, gone at the end."""
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=folder.reach) as scratch:
        yield Path(scratch)
