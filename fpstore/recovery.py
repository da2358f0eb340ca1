"""Makes a store of whatever is sound in a damaged one, which is only read, and says exactly what was lost.

Fingerprints come from whichever tables have them, ids by their ranks, recent rows and removals from the log. All of it
becomes one segment of the new store. What cannot be counted of the loss is said in words.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from fpstore._probe import search
from fpstore.checks import hexadecimal
from fpstore.codes.reader import CodesSegment, open_segment
from fpstore.codes.salvage import CodesWreck, salvage_codes
from fpstore.creation import rebuild_store
from fpstore.disk import CATALOG_NAME, Folder, Place, expect_outside_stores
from fpstore.errors import CorruptStore, Damage, NotAStore, PathLike
from fpstore.fingerprints import as_numbers, distinct, no_fingerprints
from fpstore.format import CODECS, ID_KIND_NONE, TableRecord
from fpstore.living import changes
from fpstore.living.catalog import SEGMENTS
from fpstore.living.live import alive
from fpstore.living.locks import no_writer
from fpstore.living.lost import Documents, documents_lost, listed_ids, row_ids
from fpstore.living.naming import keep_names
from fpstore.living.remains import Remains, read_remains
from fpstore.living.removals import Removals
from fpstore.living.sketched import keep_sketches
from fpstore.living.state import Settings
from fpstore.names.column import to_column
from fpstore.names.merging import NameSorter, once
from fpstore.names.reader import NamesReader
from fpstore.names.salvage import salvaged_names
from fpstore.names.writer import NamesWriter
from fpstore.plans.families import of_tables
from fpstore.plans.plan import Plan, TablePlan
from fpstore.plans.wide import SLOT_CODES
from fpstore.progress import OnProgress, Tell, told
from fpstore.recovered import Recovered
from fpstore.segment.entry import SegmentEntry, is_segment_name, names_name, segment_name, segment_of, sketches_name
from fpstore.segment.files import read_readable
from fpstore.segment.salvage import Salvaged, salvage
from fpstore.segment.wreck import AnyWreck, Wreck
from fpstore.sketches.kept import Kept
from fpstore.sketches.reader import SketchesReader
from fpstore.sketches.salvage import NONE_LISTED, salvaged_sketches
from fpstore.sketches.spool import Spool
from fpstore.sketches.writer import SketchesWriter
from fpstore.types import Array, Ids, Keys

# For sorting the names that are left.
NAMES_MEMORY = 64 << 20
T = TypeVar("T")
NO_KEYS: Keys = np.empty(0, dtype=np.uint64)


def recover(path: PathLike, new: PathLike, *, progress: OnProgress | None = None) -> Recovered:
    """Make a store at new, where nothing may be, of what is sound in the store at path, which is never changed.

    Raises FileNotFoundError; NotAStore where path is no store; FileExistsError; StoreLocked while the store has a
    writer; CorruptStore where neither its catalog nor any segment tells what it was, or the segments' folder is a link.
    """
    target = Path(new)
    if target.is_symlink() or target.exists():
        raise FileExistsError(errno.EEXIST, "already there", str(target))
    expect_outside_stores(target)
    with _opened(Path(path)) as folder, no_writer(folder), _segments_of(folder) as segments:
        return _Recovery(folder, segments, told(progress) or (lambda phase, done, total: None)).run(target)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Folder]:
    try:
        folder = Folder.open(path)
    except NotADirectoryError:
        raise NotAStore.a_file(path) from None
    with folder:
        if not {CATALOG_NAME, SEGMENTS} & {*folder.names()}:
            raise NotAStore(f"found neither {CATALOG_NAME} nor {SEGMENTS}, expected the folder of a store", path=path)
        yield folder


@contextlib.contextmanager
def _segments_of(folder: Folder) -> Iterator[Folder | None]:
    """The folder of the segments, None where there is none. CorruptStore for a link, as nowhere in a store."""
    try:
        segments = folder.inside(SEGMENTS)
    except FileNotFoundError:
        yield None
        return
    with segments:
        yield segments


@dataclass(frozen=True)
class _Part:
    """A segment: its file's name, what the catalog says of it, and the change up to which it is resolved."""

    name: str
    entry: SegmentEntry | None
    position: int


@dataclass
class _Losses:
    """What was found so far."""

    fingerprints: int = 0
    ids: int = 0
    segments: int = 0
    bare: list[Keys] = field(default_factory=list)
    partial: list[Keys] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    lost_ids: list[Ids] = field(default_factory=list)
    documents: Documents = field(default_factory=lambda: Documents((), ()))


class _Recovery:
    """One store on its way to another."""

    def __init__(self, folder: Folder, segments: Folder | None, progress: Tell) -> None:
        self._folder = folder
        self._segments = segments
        self._progress = progress
        self._losses = _Losses()
        self._remains = self._read_catalog()
        self._removals = _removals_of(self._remains)
        self._parts = self._find_parts()
        self._plan, self._settings = self._find_settings()
        self._none = no_fingerprints(self._settings.bits)
        self._names: NamesReader | None = None
        self._sketches: SketchesReader | None = None
        entries = [part.entry for part in self._parts if part.entry is not None]
        self._expected = {name: (size, crc) for entry in entries for name, size, crc in entry.files}

    def run(self, new: Path) -> Recovered:
        """Make the new store."""
        entry, lost = rebuild_store(
            new, self._rows, self._settings, self._plan, self._progress, self._folder, self._finish
        )
        if lost is not None:
            self._losses.unknown.append(f"texts or clusters of jobs are lost: {lost}")
        losses, remains = self._losses, self._remains
        if losses.segments:
            self._tell_of_others()
        bare, _ = distinct(np.concatenate([self._none, *losses.bare]))
        stored = _stored(new / SEGMENTS, entry.name, bare)
        short, _ = distinct(np.concatenate([bare[stored], *losses.partial]))
        named = self._settings.minhash is None  # else they are keys of bands, which tell nobody anything
        return Recovered(
            fingerprints=entry.key_count,
            rows=entry.id_count if self._settings.ids else entry.key_count,
            fingerprints_lost=losses.fingerprints + int(np.count_nonzero(~stored)),
            ids_lost=losses.ids,
            segments_lost=losses.segments,
            log_records_lost=remains.changes_lost,
            removals_lost=remains.removals_lost,
            without_ids=tuple(as_numbers(bare[~stored])) if named else (),
            partial=tuple(as_numbers(short)) if named else (),
            unknown=tuple(losses.unknown),
            damage=tuple(losses.damage),
            bits=self._settings.bits,
            kind=self._settings.kind,
            lost_ids=losses.documents.lost,
            partial_ids=losses.documents.partial,
        )

    # --- What the store was ---

    def _read_catalog(self) -> Remains:
        path = str(self._folder.path / CATALOG_NAME)
        try:
            fd = self._folder.open_file(CATALOG_NAME)
        except (FileNotFoundError, CorruptStore):
            self._losses.damage.append(Damage(path, "catalog", "none", "a file"))
            return Remains(None, False)
        try:
            remains = read_remains(read_readable(fd, 0, os.fstat(fd).st_size, []))
        finally:
            os.close(fd)
        if remains.state is None:
            self._losses.damage.append(Damage(path, "catalog", "no state of the store", "one"))
        for name, found, lost in (
            ("log", len(remains.changes), remains.changes_lost),
            ("older removals", len(remains.removed), remains.removals_lost),
        ):
            if lost:
                self._losses.damage.append(Damage(path, name, f"{found} sound records", str(found + lost)))
        return remains

    def _find_parts(self) -> list[_Part]:
        state = self._remains.state
        named = {} if state is None else {entry.name: entry for entry in state.segments}
        parts = [_Part(name, entry, entry.position) for name, entry in named.items()]
        if self._remains.is_newest and state is not None:
            return parts
        # Segments that nobody names may be later ones, or such as were replaced.
        if self._segments is not None:
            position = 1 if state is None else state.next_change
            parts += [_Part(name, None, position) for name in _segments_but(self._segments, named)]
        if state is None:
            self._losses.unknown.append(
                "the catalog is gone: rows that were in no segment yet are lost; what was removed may be back, also "
                "from segments that were replaced; max_distance is the largest that the tables answer, and the "
                "recipe is not known"
            )
        else:
            self._losses.unknown.append(
                "the catalog's last state is gone and an earlier one was taken: what was added since may be lost, and "
                "what was removed since may be back"
            )
        return parts

    def _find_settings(self) -> tuple[Plan, Settings]:
        state = self._remains.state
        if state is not None:
            return Plan.from_json(state.settings.plan), state.settings
        for part in self._parts:
            for kind in (Wreck, CodesWreck):
                with contextlib.suppress(CorruptStore, OSError), self._wreck(part, None, kind) as wreck:
                    wreck.expect_certain()
                    return self._settings_of(wreck)
        raise CorruptStore(
            "store", "neither a catalog nor a segment that tells what it was", "one of them", path=self._folder.path
        )

    def _settings_of(self, wreck: AnyWreck) -> tuple[Plan, Settings]:
        """What a store was by one of its segments."""
        tables = [TablePlan(table.prefix_mask, table.flips) for table in wreck.tables]
        plan = replace(of_tables(tables, wreck.record.key_bits), block_bytes=wreck.tables[0].block_bytes)
        if isinstance(wreck, CodesWreck):
            plan = replace(plan, slot_keys=SLOT_CODES)
        codec, with_ids = CODECS[wreck.tables[0].codec], wreck.record.id_kind != ID_KIND_NONE
        id_type = self._id_type_beside() if with_ids else None
        return plan, Settings(plan.max_distance, plan.to_json(), codec, id_type, bits=plan.bits)

    def _id_type_beside(self) -> str:
        """What the ids of segments are, by what lies beside them: where all names are text they are taken for that."""
        assert self._segments is not None
        files = _names_files(self._segments)
        if not files:
            return "uint64"
        try:
            for name in files:
                for chunk in salvaged_names(Place(self._segments, name), []):
                    to_column(chunk.names, True)
        except CorruptStore:
            return "bytes"
        return "string"

    # --- What it held ---

    def _rows(self, scratch: Path) -> Iterator[object]:
        """All rows that are left and live, as a build takes them."""
        if self._settings.named:
            self._gather_names(scratch)
        if self._settings.kept is not None:
            self._gather_sketches(scratch, self._settings.kept)
        for index, part in enumerate(self._parts):
            self._progress("reading segments", index, len(self._parts))
            try:
                for keys, ids in self._rows_of(part, scratch):
                    yield from self._alive(keys, ids, part.position)
            except (CorruptStore, FileNotFoundError) as error:
                self._lose(part, error)
        for change in self._remains.changes:
            if change.kind == changes.ADDED:
                yield from self._alive(change.fingerprints, change.ids, change.number)

    def _rows_of(self, part: _Part, scratch: Path) -> Iterator[tuple[Keys, Ids | None]]:
        losses, salvaged = self._losses, Salvaged()
        with self._wreck(part, scratch) as wreck:
            losses.damage += wreck.damage(self._path_of(part))
            found = _shown(wreck.record.key_bits, wreck.tables)
            expected = _shown(self._plan.bits, self._plan.tables)
            if found != expected:
                raise CorruptStore("tables", found, f"{expected}, those of the store")
            if (wreck.record.id_kind != ID_KIND_NONE) != self._settings.ids:
                own, other = ("none", "some") if self._settings.ids else ("some", "none")
                raise CorruptStore("ids", own, f"{other}, as in the store")
            if isinstance(wreck, CodesWreck):
                yield from salvage_codes(wreck, self._plan, scratch, salvaged)
            else:
                assert isinstance(wreck, Wreck)
                yield from salvage(wreck, scratch, salvaged)
        losses.fingerprints += salvaged.fingerprints_lost
        losses.ids += salvaged.ids_lost
        for names, keys in ((losses.bare, salvaged.without_ids), (losses.partial, salvaged.partial)):
            names += [each[~self._removals.fingerprints_masked(each, part.position)] for each in keys]

    def _wreck(
        self, part: _Part, scratch: Path | None, kind: type[AnyWreck] | None = None
    ) -> contextlib.AbstractContextManager[AnyWreck]:
        """The wreck of a segment, of this kind, or by what holds for the store."""
        if self._segments is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path_of(part))
        kind = kind or (CodesWreck if self._settings.is_wide else Wreck)
        return kind.opened(Place(self._segments, part.name), part.entry, scratch)

    def _path_of(self, part: _Part) -> str:
        return str(self._folder.path / SEGMENTS / part.name)

    def _tell_of_others(self) -> None:
        """Where a segment is lost, one that the catalog does not name may be what it became, or was made from."""
        for name in (
            [] if self._segments is None else _segments_but(self._segments, {part.name for part in self._parts})
        ):
            told = "the catalog does not name it, so it was left out; if it is of another moment of this store"
            self._losses.unknown.append(f"{SEGMENTS}/{name}: {told}, put the catalog of that moment back")

    def _gather_names(self, scratch: Path) -> None:
        """All names that are left, in a file of their own, which rows are looked up in."""
        sorter = NameSorter(scratch, NAMES_MEMORY)
        files = {file.name for part in self._parts if part.entry is not None for file in part.entry.names}
        if self._segments is not None:
            # Which files are those of a segment that no catalog names, nothing tells.
            if any(part.entry is None for part in self._parts):
                files |= {*_names_files(self._segments)}
            for name in sorted(files):
                at = Place(self._segments, name)
                for chunk in salvaged_names(at, self._losses.damage, self._expected.get(name), scratch):
                    sorter.add(*chunk)
        for change in self._remains.changes:
            if change.names is not None and change.own_ids is not None:
                sorter.add(change.names, change.own_ids)
        path = scratch / names_name(segment_name(1))
        with NamesWriter(path, scratch) as writer:
            for chunk in once(sorter.chunks()):
                writer.add(chunk)
            writer.finish()
        sorter.close()
        self._names = NamesReader(path)

    def _gather_sketches(self, scratch: Path, kept: Kept) -> None:
        """All sketches that are left, in a file of their own: an id without one has no row in the new store."""
        with Spool(scratch, 0, kept.words, NAMES_MEMORY) as spool:
            for ids, sketches, position in self._all_sketches(kept, scratch):
                masked = self._removals.ids_masked(ids, position)
                spool.add(np.empty((int(np.count_nonzero(~masked)), 0), dtype=np.uint64), sketches[~masked])
                spool.add_handles(ids[~masked])
            if not spool.count:
                return
            path = scratch / sketches_name(segment_name(1))
            with SketchesWriter(path, scratch, kept) as writer:
                for ids, sketches in spool.whole_handles():
                    writer.add(ids, sketches)
                writer.finish()
        self._sketches = SketchesReader(path)

    def _all_sketches(self, kept: Kept, scratch: Path) -> Iterator[tuple[Ids, Keys, int]]:
        for part in self._parts:
            if self._segments is not None:
                at = Place(self._segments, sketches_name(part.name))
                rows = partial(self._told_by, part, scratch, row_ids, NO_KEYS)
                listed = partial(self._told_by, part, scratch, listed_ids, NONE_LISTED)
                expected = self._expected.get(at.name)
                damage = self._losses.damage
                for ids, sketches in salvaged_sketches(at, kept, damage, expected, scratch, rows, listed):
                    yield ids, sketches, part.position
        for change in self._remains.changes:
            if change.own_ids is not None and change.sketches is not None:
                yield change.own_ids, change.sketches, change.number

    def _told_by(self, part: _Part, scratch: Path, ask: Callable[[Wreck, Path], T], nothing: T) -> T:
        """What a segment tells of itself, if anything of it can be read."""
        try:
            with self._wreck(part, scratch, Wreck) as wreck:
                assert isinstance(wreck, Wreck)
                return ask(wreck, scratch)
        except (CorruptStore, FileNotFoundError):
            return nothing

    def _finish(self, at: Place, entry: SegmentEntry) -> SegmentEntry:
        """Write the names of the rows that are there, where ids are names, and their sketches."""
        losses, settings = self._losses, self._settings
        if settings.minhash is not None and settings.ids and (losses.ids or losses.fingerprints):
            losses.documents = documents_lost(
                at, entry, settings, np.concatenate([NO_KEYS, *losses.lost_ids]), self._names
            )
        if self._names is not None:
            with contextlib.closing(self._names):
                entry = keep_names(at, entry, self._names)
        if self._sketches is not None and self._settings.kept is not None and entry.key_count:
            with contextlib.closing(self._sketches):
                entry = keep_sketches(at, entry, self._sketches, self._settings.kept)
        return entry

    def _alive(self, keys: Keys, ids: Ids | None, position: int) -> Iterator[object]:
        kept = alive(self._removals, keys, ids, position)
        if kept is not None:
            keys, ids = keys[kept], None if ids is None else ids[kept]
        if self._names is not None and ids is not None:
            named = self._names.ranks(ids) >= 0
            self._losses.ids += int(np.count_nonzero(~named))
            self._losses.bare.append(keys[~named])
            keys, ids = keys[named], ids[named]
        if self._settings.kept is not None and ids is not None:
            kept_ids = np.zeros(len(ids), dtype=bool) if self._sketches is None else self._sketches.places(ids) >= 0
            self._losses.ids += int(np.count_nonzero(~kept_ids))
            self._losses.bare.append(keys[~kept_ids])
            self._losses.lost_ids.append(np.unique(ids[~kept_ids]))
            keys, ids = keys[kept_ids], ids[kept_ids]
        if len(keys):
            yield keys if ids is None else (keys, ids)

    def _lose(self, part: _Part, error: CorruptStore | FileNotFoundError) -> None:
        """Nothing of a segment can be read."""
        path = self._path_of(part)
        missing = Damage(path, "segment", "none", "the file that the catalog names")
        self._losses.segments += 1
        self._losses.damage.append(error.in_file(path) if isinstance(error, CorruptStore) else missing)
        if part.entry is not None:
            self._losses.fingerprints += part.entry.key_count
            self._losses.ids += part.entry.id_count
        else:
            self._losses.unknown.append(f"{part.name}: nothing of it could be read, nor how much it held")


def _segments_but(segments: Folder, named: Container[str]) -> list[str]:
    """The names of the segments in their folder, but for those."""
    return [name for name in segments.names() if name.endswith(".fpseg") and name not in named]


def _names_files(segments: Folder) -> list[str]:
    """The files of names in the folder of the segments."""
    names = ((name, segment_of(name)) for name in segments.names())
    return [name for name, segment in names if is_segment_name(segment) and name == names_name(segment)]


def _removals_of(remains: Remains) -> Removals:
    removals = Removals.of(remains.removed)
    for change in remains.changes:
        if change.kind != changes.ADDED:
            removals = removals.with_change(change)
    return removals


def _stored(segments: Path, name: str, fingerprints: Keys) -> Array:
    """Which of these are in the segment of that name there: bool[n]."""
    stored = np.zeros(len(fingerprints), dtype=bool)
    if len(fingerprints) and (segments / name).exists():
        with Folder.open(segments) as folder, contextlib.closing(open_segment(Place(folder, name))) as segment:
            if isinstance(segment, CodesSegment):
                stored[segment.codes.search(fingerprints, 0)[0]] = True
            else:
                stored[search(segment.view, fingerprints, 0)[0]] = True
    return stored


def _shown(bits: int, tables: Sequence[TableRecord | TablePlan]) -> str:
    masks = ((hexadecimal(table.prefix_mask, bits), table.flips) for table in tables)
    return ", ".join(f"prefix mask {mask} with {flips} flips" for mask, flips in masks)
