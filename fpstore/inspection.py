"""What lies in a store, for people who look: its catalog's record, its files, a segment, a table, a slot.

Reads only, and opens no writer; goes beside one. What is damaged is named, and the rest shown where it can be: of a
catalog what is left of its records, of a segment what its sound pages tell. Lists are cut, and say how long they are.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np

from fpstore import format as layout
from fpstore.checks import fields_of
from fpstore.codes.reader import CodesSegment, is_of_codes, open_segment
from fpstore.codes.salvage import CodesWreck
from fpstore.codes.showing import show_codes_slot, show_codes_table
from fpstore.disk import CATALOG_NAME, Folder, Place
from fpstore.errors import (
    CorruptStore,
    NotAStore,
    PathLike,
    PlanError,
    StoreChanged,
    UnsupportedVersion,
)
from fpstore.living import changes
from fpstore.living.catalog import SEGMENTS, Catalog
from fpstore.living.census import census
from fpstore.living.locks import find_writer
from fpstore.living.opening import open_part
from fpstore.living.records import Log
from fpstore.living.remains import read_remains
from fpstore.living.removals import Removals
from fpstore.living.state import RECORD_VERSION, State
from fpstore.names.reader import NamesReader
from fpstore.plans.plan import Plan
from fpstore.progress import OnProgress, told
from fpstore.segment.entry import (
    MAX_SEGMENT,
    SegmentEntry,
    is_segment_name,
    names_name,
    segment_name,
    segment_of,
    sketches_name,
)
from fpstore.segment.files import read_readable
from fpstore.segment.reader import Segment
from fpstore.segment.showing import (
    DAMAGE,
    Fields,
    footer_fields,
    header_fields,
    plain_fields,
    show_segment,
    show_slot,
    show_table,
    told_damage,
)
from fpstore.segment.showing import Inspection as Inspection
from fpstore.segment.wreck import Wreck
from fpstore.sketches.bands import Banding

# A segment to look at, or what can be read of it.
Seen = Segment | Wreck | CodesWreck
# So many rows of a list are shown where nobody says how many.
SHOWN = 20
# A writer that goes on may take away what a look at its store has just read of.
MAX_LOOKS = 8
KINDS = {
    changes.ADDED: "added",
    changes.FINGERPRINTS_REMOVED: "fingerprints removed",
    changes.IDS_REMOVED: "ids removed",
    changes.ROWS_REMOVED: "rows removed",
}


def inspect_store(path: PathLike, most: int | None = SHOWN) -> Inspection:
    """The catalog's record, the segments, the log and the files of a store. most: rows of each list, None for all.

    Raises FileNotFoundError, NotAStore.
    """
    for _ in range(MAX_LOOKS):
        seen = Inspection("store", {"path": os.fspath(Path(path).absolute())})
        with _Home(Path(path), seen) as home:
            _show_store(seen, home, most)
            if not seen.damage or home.is_newest():
                break
    return seen


def inspect_segment(
    path: PathLike, segment: str, most: int | None = SHOWN, progress: OnProgress | None = None
) -> Inspection:
    """The header, the records and the regions of a segment, by its name or its number; reads all of its pages.

    Raises as inspect_store; ValueError where there is no such segment.
    """
    with _opened("segment", path, segment) as (seen, found):
        if found is not None:
            show_segment(seen, found, most, told(progress) or (lambda phase, done, total: None))
    return seen


def inspect_table(path: PathLike, segment: str, table: int, most: int | None = SHOWN) -> Inspection:
    """A table of a segment: its permutation, its code, its regions and its slots; reads all of it.

    Raises as inspect_segment; ValueError for a table that is not there.
    """
    with _opened("table", path, segment) as (seen, found):
        if isinstance(found, CodesSegment | CodesWreck):
            show_codes_table(seen, found, table, most)
        elif found is not None:
            show_table(seen, found, table, most)
    return seen


def inspect_slot(path: PathLike, segment: str, table: int, slot: int, most: int | None = SHOWN) -> Inspection:
    """The keys of a slot of a table: each with its code as bits, what was coded, its fingerprint and its ids.

    Where ids are names, the handles that stand for them are told, too.

    Raises as inspect_table; ValueError for a slot that is not there.
    """
    with _opened("slot", path, segment) as (seen, found):
        if isinstance(found, CodesSegment | CodesWreck):
            show_codes_slot(seen, found, table, slot, most)
        elif found is not None:
            show_slot(seen, found, table, slot, most)
        if isinstance(found, Segment):
            _put_names(seen, found)
    return seen


def _put_names(seen: Inspection, found: Segment) -> None:
    """Where ids are names, say what they are beside the handles that the segment has for them.

    Bytes that are no UTF-8 are halves of surrogate pairs.
    """
    entry, folder = seen.fields["entry"], found.path.parent
    if entry is None:  # nobody says which of the files are its own
        files = [path for path in sorted(folder.iterdir()) if path.name == names_name(segment_of(path.name))]
        files = [path for path in files if is_segment_name(segment_of(path.name))]
    else:
        files = [folder / names_name(segment_name(file["number"])) for file in entry["names"]]
    keys = [key for key in seen.fields["keys"] if "ids" in key]
    if not files or not keys:
        return
    for key in keys:
        key |= {"handles": key["ids"], "ids": None}
    with seen.noting(), ExitStack() as stack:
        readers = [stack.enter_context(closing(NamesReader(path))) for path in files]
        for key in keys:
            handles = [int(each) for each in key["handles"] or ()]
            key["ids"] = [_name_of(handle, readers, key["fingerprint"]) for handle in handles]


def _name_of(handle: int, readers: Sequence[NamesReader], fingerprint: str) -> str:
    """The name of a handle, by the first of the files that has it. CorruptStore where none does."""
    for reader in readers:
        ranks = reader.ranks(np.array([handle], dtype=np.uint64))
        if ranks[0] >= 0:
            return reader.names(ranks).at(0).decode("utf-8", "surrogateescape")
    where = f"names of fingerprint {fingerprint}"
    raise CorruptStore(where, f"none for handle {handle}", "one", path=readers[0].path)


class _Home:
    """The folder of a store and what its catalog says, as far as that can be read; damage goes to seen."""

    def __init__(self, path: Path, seen: Inspection) -> None:
        self.log: Log | None = None
        self._stack = ExitStack()
        with ExitStack() as undo:
            try:
                self.folder = undo.enter_context(Folder.open(path))
            except NotADirectoryError:
                raise NotAStore.a_file(path) from None
            if not {CATALOG_NAME, SEGMENTS} & {*self.folder.names()}:
                raise NotAStore(f"found neither {CATALOG_NAME} nor {SEGMENTS}, expected a store", path=path)
            with seen.noting():
                try:
                    with Catalog.open(path) as catalog:
                        self.log = catalog.read()
                except (CorruptStore, NotAStore) as error:
                    seen.damage.append(told_damage(error))
                    self.log = self._remains(seen)
            with seen.noting():
                self.segments: Folder | None = None
                try:
                    self.segments = undo.enter_context(self.folder.inside(SEGMENTS))
                except FileNotFoundError:
                    if self.log is not None and self.log.state.segments:
                        raise
            self._stack = undo.pop_all()

    @property
    def state(self) -> State | None:
        """What the catalog says, if anything."""
        return None if self.log is None else self.log.state

    def is_newest(self) -> bool:
        """Whether the segments are still those of the state that was read; True where no state can be read."""
        try:
            with Catalog.open(self.folder.path) as catalog:
                return self.state is None or catalog.state().segments == self.state.segments
        except DAMAGE:
            return True

    def __enter__(self) -> "_Home":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _remains(self, seen: Inspection) -> Log | None:
        """What is left of a damaged catalog."""
        try:
            fd = self.folder.open_file(CATALOG_NAME)
        except (FileNotFoundError, CorruptStore):
            return None
        try:
            remains = read_remains(read_readable(fd, 0, os.fstat(fd).st_size, []))
        finally:
            os.close(fd)
        where = self.folder.path / CATALOG_NAME
        if remains.state is None:
            seen.damage.append(f"{where}: no record of the state is left")
            return None
        if not remains.is_newest:
            seen.damage.append(f"{where}: the state that is shown may not be the last one")
        for name, lost in (("the log", remains.changes_lost), ("older removals", remains.removals_lost)):
            if lost:
                seen.damage.append(f"{where}: {lost} records of {name} are lost")
        return Log(remains.state, remains.changes, remains.removed)


@contextmanager
def _opened(of: str, path: PathLike, name: str) -> Iterator[tuple[Inspection, Seen | None]]:
    """A segment to look at: sound, or what can be read of it, or None where that is nothing."""
    for _ in range(MAX_LOOKS):
        seen = Inspection(of, {"path": os.fspath(Path(path).absolute())})
        with ExitStack() as stack:
            home = stack.enter_context(_Home(Path(path), seen))
            there = [] if home.segments is None else [each for each in home.segments.names() if is_segment_name(each)]
            entries = {} if home.state is None else {entry.name: entry for entry in home.state.segments}
            wanted = _named(path, name, sorted({*there, *entries}))
            entry = entries.get(wanted)
            seen.fields |= {"segment": wanted, "entry": None if entry is None else plain_fields(entry)}
            try:
                if home.segments is None:
                    raise FileNotFoundError(errno.ENOENT, "no folder of segments", wanted)
                found = _readable(seen, home, Place(home.segments, wanted), entry, stack)
            except FileNotFoundError:
                # A writer may have merged it away since the catalog was read.
                if entry is None or not home.is_newest():
                    continue
                found = None
                where = home.folder.path / SEGMENTS / wanted
                seen.damage.append(f"{where}: segment: found none, expected the file that the catalog names")
            yield seen, found
            if home.state is not None and home.state.settings.minhash is not None:
                banding = home.state.settings.minhash.banding(home.state.settings.bits)
                seen.fields |= {name: _in_bands(rows, banding) for name, rows in seen.fields.items() if name == "keys"}
            return
    raise StoreChanged(f"segment {name} came and went {MAX_LOOKS} times; look again", path=path)


def _in_bands(keys: Sequence[Fields], banding: Banding) -> list[Fields]:
    """Keys of bands: of each its band in place of a fingerprint, which it is itself."""
    bands = banding.of(np.array([int(key["key"], 16) for key in keys], dtype=np.uint64)).tolist()
    told = []
    for key, band in zip(keys, bands, strict=True):
        rest = {name: value for name, value in key.items() if name not in ("block", "key", "fingerprint")}
        told.append({"block": key["block"], "key": key["key"], "band": band, **rest})
    return told


def _named(path: PathLike, name: str, known: Sequence[str]) -> str:
    """The segment that is called so, or has that number, among those known."""
    number = int(name) if name.isascii() and name.isdigit() and len(name) <= 8 else 0
    wanted = segment_name(number) if 1 <= number <= MAX_SEGMENT else name
    if wanted not in known:
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        expected = (", ".join(known[:SHOWN]) or "none, as there are none") + more
        raise ValueError(f"{os.fspath(path)}: found segment {name!r:.40}, expected one of {expected}")
    return wanted


def _readable(
    seen: Inspection, home: "_Home", place: Place, entry: SegmentEntry | None, stack: ExitStack
) -> Seen | None:
    """The segment at place, or what can be read of it, for as long as the stack lasts."""
    try:
        return stack.enter_context(closing(_sound(place, entry, home)))
    except (CorruptStore, UnsupportedVersion) as error:
        seen.damage.append(told_damage(error))
    with seen.noting():
        try:
            wreck = _wreck_of(home, place, entry, stack)
        except (CorruptStore, UnsupportedVersion) as error:
            _show_ends(seen, place)
            if isinstance(error, CorruptStore):
                error.note = "no more of it can be shown"
            raise
        seen.damage += [str(each) for each in wreck.damage(os.fspath(place.path))]
        return wreck
    return None


def _wreck_of(home: "_Home", place: Place, entry: SegmentEntry | None, stack: ExitStack) -> Wreck | CodesWreck:
    """What is left of a segment, whose kind is as the catalog says, or else its header."""
    is_wide = is_of_codes(place) if home.state is None else home.state.settings.is_wide
    if is_wide:
        return stack.enter_context(CodesWreck.opened(place, entry, None))
    return stack.enter_context(Wreck.opened(place, entry, None))


def _show_ends(seen: Inspection, place: Place) -> None:
    """The header and the footer of a file as far as they are there."""
    fd = place.folder.open_file(place.name)
    try:
        size = os.fstat(fd).st_size
        head = os.pread(fd, layout.HEADER_BYTES, 0)
        tail = os.pread(fd, layout.FOOTER_BYTES, max(0, size - layout.FOOTER_BYTES))
    finally:
        os.close(fd)
    seen.fields |= {"file_bytes": size, "header": header_fields(head)}
    with seen.noting():
        seen.fields["footer"] = footer_fields(layout.Footer.unpack(tail, size))


def _sound(place: Place, entry: SegmentEntry | None, home: _Home) -> Segment:
    if entry is None or home.state is None:
        return open_segment(place)
    settings = home.state.settings
    try:
        plan = Plan.from_json(settings.plan)
    except PlanError as error:
        raise CorruptStore.by(error, "plan", path=home.folder.path / CATALOG_NAME) from None
    return open_part(place.folder, entry, plan, settings, Removals.of(())).segment


def _show_store(seen: Inspection, home: "_Home", most: int | None) -> None:
    writer = find_writer(home.folder)
    seen.fields |= {"has_writer": writer is not None, "writer_pid": None if writer is None else writer.pid}
    if home.log is not None:
        _put_log(seen, home.log, most)
        # Each of them is looked at, shown or not.
        rows = [_segment_row(home, entry, seen) for entry in home.log.state.segments]
        seen.put("segments", rows, len(rows), most)
    files = list(census(home.folder, home.state))
    seen.put("files", (each._asdict() for each in files), len(files), most)


def _put_log(seen: Inspection, log: Log, most: int | None) -> None:
    state, settings = log.state, log.state.settings
    seen.fields["catalog"] = {
        "identity": state.identity,
        "origin": state.origin,
        "record_version": RECORD_VERSION,
        "segment_version": layout.VERSION,
        "generation": state.generation,
        "transaction": state.transaction,
        "next_segment": state.next_segment,
        "first_change": state.first_change,
        "next_change": state.next_change,
        "removal_records": state.removal_records,
        "max_id": state.max_id,
        "strays": [entry.name for entry in state.strays],
        "moving": state.moving,
    }
    names = ("max_distance", "bits", "codec", "id_type", "plan", "recipe")
    seen.fields["settings"] = {name: getattr(settings, name) for name in names}
    seen.fields["settings"]["minhash"] = None if settings.minhash is None else fields_of(settings.minhash)
    added = [change for change in log.changes if change.kind == changes.ADDED]
    removed = [change for change in log.changes if change.kind != changes.ADDED]
    older = log.removed or ()
    seen.fields["log"] = {
        "added_row_count": sum(change.row_count for change in added),
        "removal_count": sum(len(change.columns[0]) for change in removed),
        "older_removal_count": sum(len(block.numbers) for block in older),
    }
    rows = (
        {"number": each.number, "kind": KINDS[each.kind], "value_count": len(each.columns[0])} for each in log.changes
    )
    seen.put("changes", rows, len(log.changes), most)
    blocks = (
        {"index": index, "kind": KINDS[each.kind], "value_count": len(each.numbers)} for index, each in enumerate(older)
    )
    seen.put("removal_blocks", blocks, len(older), most)


def _segment_row(home: _Home, entry: SegmentEntry, seen: Inspection) -> Fields:
    before = len(seen.damage)
    with seen.noting():
        if home.segments is None:
            path = home.folder.path / SEGMENTS / entry.name
            raise CorruptStore("segment", "none", "the file that the catalog names", path=path)
        _sound(Place(home.segments, entry.name), entry, home).close()
    names = [file.name for file in entry.names]
    sketches = None if entry.sketches is None else sketches_name(entry.name)
    return {**plain_fields(entry), "names": names, "sketches": sketches, "opens": len(seen.damage) == before}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "none") + more
