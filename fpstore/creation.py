"""How a store comes to be, built from rows, made empty or copied: whole and durable under its name, or not there.

A new store is made in a folder beside its place and renamed; one that is replaced changes in a single commit of its
catalog. Whatever interrupts either leaves what was there before.
"""

import dataclasses
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fpstore import notes
from fpstore.arrays import parse_memory
from fpstore.building.rows import Build, Written
from fpstore.closing import close_all
from fpstore.codes.reader import CodesSegment
from fpstore.codes.rows import write_of
from fpstore.codes.sorting import Spool
from fpstore.disk import CATALOG_NAME, Folder, Place, expect_outside_stores, naming, write_all
from fpstore.errors import CorruptStore, JobError, no_folder
from fpstore.fingerprints import columns_of, words_of
from fpstore.format import WIDE_BITS
from fpstore.living import changes
from fpstore.living.catalog import SEGMENTS, Catalog, create_catalog
from fpstore.living.documents import columns_of as document_columns
from fpstore.living.documents import pending_documents
from fpstore.living.mending import make_again
from fpstore.living.modes import change_mode
from fpstore.living.opening import open_snapshot
from fpstore.living.records import Log
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import NAMED, Settings, new_identity
from fpstore.living.sweep import (
    expect_sweepable,
    name_segment,
    remove_replaced,
    remove_unpublished,
    sweep_segments,
    unpublished_place,
)
from fpstore.names.reader import NamesReader
from fpstore.names.rows import NamedRows
from fpstore.origin import Origin
from fpstore.plans.choice import EXPECTED_KEYS, PlanChoice
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.entry import NamesEntry, SegmentEntry, names_name, segment_name
from fpstore.segment.files import check_file
from fpstore.segment.reader import Segment
from fpstore.sketches.reader import SketchesReader
from fpstore.types import Codec

PIECE_BYTES = 4 << 20
# Of the budget of a build, one part in so many sorts names.
NAMES_SHARE = 4
# The least that a build takes.
LEAST_MEMORY = 64 << 20
# Texts are private, unless whoever makes a store says otherwise.
PRIVATE = 0o600
# Where none is asked for. Wide codes are kept as they are.
DEFAULT_CODEC: Codec = "gap"
WIDE_CODEC: Codec = "raw"


def build_store(
    path: Path,
    fingerprints: object,
    ids: object,
    *,
    max_distance: int,
    bits: int,
    plan: str | float | Plan,
    codec: Codec | None,
    memory: str | int,
    threads: int,
    progress: Tell | None,
    origin: Origin,
    force: bool,
    shuffle: int | None,
    mode: int | None,
    id_type: str = "uint64",
    block_bytes: int = 0,
) -> None:
    """Write the store at path; the arguments are those of fpstore.build. origin: the recipe, once all was read.

    Raises FileExistsError where path exists, unless force and it is a store, which is then replaced.
    """
    with_ids = id_type in NAMED or ids is not None
    named = None
    coded = codec_of(codec, bits)
    if id_type in NAMED:
        budget = parse_memory(memory)
        named = NamedRows(fingerprints, ids, id_type == "string", budget // NAMES_SHARE, origin, bits)
        memory, ids = max(budget - budget // NAMES_SHARE, min(budget, LEAST_MEMORY)), "row"
    build = _NamedBuild(
        named,
        Build(
            iter(()) if named else fingerprints,
            ids,
            max_distance=max_distance,
            bits=bits,
            plan=plan,
            codec=coded,
            memory=memory,
            threads=threads,
            shuffle=shuffle,
            origin=origin,
            block_bytes=block_bytes,
            write=write_of(bits),
        ),
        bits,
    )
    report = progress or (lambda phase, done, total: None)

    def settings(chosen: Plan) -> Settings:
        record = None if origin.record is None else dict(origin.record)
        ids_are = id_type if with_ids else None
        return Settings(build.max_distance, chosen.to_json(), coded, ids_are, record, chosen.bits)

    def write(place: Place, scratch: Path, position: int) -> Content:
        written = build.write(place, scratch, report, position)
        return Content(settings(written.plan), written.entry, written.max_id)

    make_store(path, write, mode, force=force)


def codec_of(codec: Codec | None, bits: int) -> Codec:
    """The codec of fingerprints of so many bits, where this one is asked for, or None.

    ValueError for another than the only one of wide ones.
    """
    if bits not in WIDE_BITS:
        return DEFAULT_CODEC if codec is None else codec
    if codec not in (WIDE_CODEC, None):
        expected = f"expected {WIDE_CODEC!r}, or none: fingerprints of {bits} bits are kept as they are"
        raise ValueError(f"codec: found {codec!r:.40}, {expected}")
    return WIDE_CODEC


class Content(NamedTuple):
    """What a store becomes: its settings, and its one segment with the largest id in it; an empty store has none."""

    settings: Settings
    entry: SegmentEntry | None = None
    max_id: int | None = None


# Writes the segment at a place, with spill files in a folder, as one of a position.
Write = Callable[[Place, Path, int], Content]


def make_store(path: Path, write: Write, mode: int | None, *, force: bool) -> None:
    """The store of what `write` writes, whole and durable at path; mode: as of fpstore.build.

    Raises FileExistsError where path exists, unless force and it is a store, which is then replaced; ValueError where
    that holds something and nothing would take its place, as inputs may be empty by mistake.
    """
    if expect_replaceable(path, force=force):
        _replace(path, write, mode)
        return
    with _new_store(path, mode) as (folder, segments):
        settings, entry, max_id = write(Place(segments, segment_name(1)), folder.reach, 1)
        create_catalog(folder, settings, () if entry is None else (entry,), max_id=max_id)


def expect_replaceable(path: Path, *, force: bool) -> bool:
    """Whether something is at path. FileExistsError unless it may be replaced."""
    is_there = path.is_symlink() or path.exists()
    if is_there and not force:
        is_store = (path / CATALOG_NAME).exists()
        advice = "--force (force=True) replaces a store" if is_store else "and no store, expected nothing"
        raise FileExistsError(errno.EEXIST, f"already there; {advice}", str(path))
    return is_there


class _NamedBuild:
    """A build, and where its ids are names what gives it handles for them."""

    def __init__(self, named: NamedRows | None, build: Build, bits: int) -> None:
        self._named, self._build, self._bits = named, build, bits
        self.max_distance = build.max_distance

    def write(self, at: Place, scratch: Path, progress: Tell, position: int = 1) -> Written:
        """As that of Build; writes the file of names beside the segment."""
        if self._named is None:
            return self._build.write(at, scratch, progress, position)
        try:
            with Spool(scratch, words_of(self._bits)) if self._bits in WIDE_BITS else nullcontext() as held:
                self._build.read_from(self._named.with_handles(Place(at.folder, names_name(at.name)), held))
                written = self._build.write(at, scratch, progress, position)
            file = self._named.file
            assert file is not None
        except BaseException:
            at.folder.unlink(names_name(at.name), missing_ok=True)
            raise
        names = NamesEntry(written.entry.number, file.file_bytes, file.crc)
        entry = dataclasses.replace(written.entry, names=(names,))
        return written._replace(entry=entry)


def create_store(
    path: Path,
    *,
    choice: PlanChoice,
    id_type: str | None,
    codec: str,
    recipe: dict[str, object] | None,
    mode: int | None,
    force: bool,
) -> None:
    """Make an empty store at path; the arguments are those of fpstore.create.

    Raises FileExistsError where something is there, unless force and it is a store, which is then replaced.
    """
    chosen = choice.for_count(EXPECTED_KEYS)
    settings = Settings(choice.max_distance, chosen.to_json(), codec, id_type, recipe, choice.bits)
    create_empty(path, settings, mode=mode, force=force)


def create_empty(path: Path, settings: Settings, *, mode: int | None, force: bool) -> None:
    """Make an empty store with these settings at path; all else as of create_store."""
    if force and (path.is_symlink() or path.exists()):
        _replace(path, lambda place, scratch, position: Content(settings), mode, by_nothing=True)
        return
    _expect_nothing(path)
    with _new_store(path, mode) as (folder, _):
        create_catalog(folder, settings)


def copy_store(
    snapshot: Snapshot, home: Folder, path: Path, progress: Tell | None = None, mode: int | None = None
) -> None:
    """Write what the snapshot holds as a store at path: whole and durable, or not there at all. mode: as for a build.

    home: the store's folder, from which what jobs go on with comes along.

    Raises FileExistsError where something is at path, CorruptStore where a segment has lost what no table of it has.
    """
    _expect_nothing(path)
    total = sum(part.segment.file_bytes for part in snapshot.parts)
    total += sum(file.file_bytes for part in snapshot.parts for file in part.beside)
    done = 0
    with _new_store(path, mode) as (folder, segments):
        for part in snapshot.parts:
            copied = Place(segments, part.segment.path.name)
            for count in _copied(part.segment, copied):
                done += count
                if progress:
                    progress("copying", done, total)
            try:
                check_file(copied)
            except CorruptStore as error:
                _copy_again(part.segment, copied, snapshot.plan, error)
            for file in part.beside:
                beside = Place(segments, file.path.name)
                for count in _copied(file, beside):
                    done += count
                    if progress:
                        progress("copying", done, total)
                check_file(beside)
        segments.sync()
        identity = create_catalog(folder, snapshot.settings, snapshot.state.segments, _log(snapshot))
        notes.copy_record(home, folder, identity)
        folder.sync()


def rebuild_store(
    path: Path,
    rows: Callable[[Path], Iterator[object]],
    settings: Settings,
    plan: Plan,
    report: Tell,
    home: Folder,
    finish: Callable[[Place, SegmentEntry], SegmentEntry],
) -> tuple[SegmentEntry, str | None]:
    """Write the store of these rows at path: whole and durable, or not there at all. What the catalog says of it.

    rows: what yields them, as fpstore.build takes a stream, given a folder for its own files, which goes at the end.
    finish: writes what lies beside the segment, and says what the catalog is to say then.
    home: the folder of the store that they are from, for what jobs go on with; where that is damaged it stays behind,
    and what was wrong with it is told.
    """
    _expect_nothing(path)
    with _new_store(path, None) as (folder, segments):
        with TemporaryDirectory(prefix=".scratch-", dir=folder.reach) as scratch:
            source, ids = rows(Path(scratch)), "row" if settings.ids else None
            build = Build(
                source,
                ids,
                write=write_of(plan.bits),
                max_distance=plan.max_distance,
                bits=plan.bits,
                plan=plan,
                codec=settings.codec,
                memory="1GiB",
                threads=1,
                shuffle=None,
            )
            place = Place(segments, segment_name(1))
            _, entry, max_id = build.write(place, folder.reach, report)
            entry = finish(place, entry)
        entries: tuple[SegmentEntry, ...] = (entry,)
        if settings.kept is not None and not entry.key_count:  # which has no sketches, so no file of them
            entries = ()
            for name in entry.made:
                segments.unlink(name)
        identity = create_catalog(folder, settings, entries, max_id=max_id)
        lost = None
        try:
            notes.copy_record(home, folder, identity)
        except (CorruptStore, JobError) as error:
            lost = str(error)
            shutil.rmtree(notes.JOBS, ignore_errors=True, dir_fd=folder.fd)
        folder.sync()
        return entry, lost


def _expect_nothing(path: Path) -> None:
    if path.is_symlink() or path.exists():
        raise FileExistsError(errno.EEXIST, "already there", str(path))


def _replace(path: Path, write: Write, mode: int | None, *, by_nothing: bool = False) -> None:
    """Have what is written in place of all that the store holds; by_nothing: also where that is nothing."""
    with Catalog.open(path, writable=True) as catalog, ExitStack() as undo:
        state = catalog.state()
        try:
            change_mode(catalog, mode, undo)  # first: what is written may be for nobody else either
            expect_sweepable(catalog)
            remove_unpublished(catalog, state)  # not the strays: where this fails, another catalog may be put back
            place = unpublished_place(catalog, state.next_segment, state.identity)
            settings, entry, max_id = write(place, catalog.folder.reach, state.next_change)
            if not by_nothing and (entry is None or not entry.key_count) and _may_hold_rows(catalog):
                expected = "some; create with --force (force=True) makes an empty one of it"
                raise ValueError(f"{path}: found nothing to replace what the store holds, expected {expected}")
            published = catalog.publish(
                settings=settings,
                segments=() if entry is None else (entry,),
                first_change=state.next_change,
                removed=(),
                strays=None if entry is None else name_segment(catalog, place, entry, catalog.announce(entry)),
                identity=new_identity(),
                max_id=max_id,
            )
            undo.pop_all()
            catalog.repeat(published)
        except BaseException:
            if catalog.has_changed:
                undo.pop_all()  # what lies there by now is another store's
            else:
                now = catalog.state()
                if now.identity != state.identity:
                    undo.pop_all()  # interrupted behind what is durable: the new store is there, and of the new mode
                if catalog.folder.identity_of(SEGMENTS) is not None:  # else nothing was begun
                    remove_unpublished(catalog, now)
                    own = tuple(entry for entry in now.strays if entry not in state.strays)
                    remove_replaced(catalog, dataclasses.replace(now, strays=own))
            raise
        notes.forget(catalog.folder)
        sweep_segments(catalog)


def _may_hold_rows(catalog: Catalog) -> bool:
    """Whether a row lives in the store, or it is too damaged to tell."""
    try:
        snapshot = open_snapshot(catalog)
        try:
            return snapshot.has_rows
        finally:
            close_all(*(part.close for part in snapshot.parts))
    except CorruptStore:
        return True


@contextmanager
def _new_store(path: Path, mode: int | None) -> Iterator[tuple[Folder, Folder]]:
    """A folder for a store in the making, and that of its segments; it becomes path unless something is raised."""
    with scratch_store(path, PRIVATE if mode is None else mode) as (parent, folder, segments):
        yield folder, segments
        try:
            parent.rename(folder.path.name, path.name)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise FileExistsError(errno.EEXIST, "appeared while a store was made for this place", str(path)) from None
        parent.sync()


@contextmanager
def scratch_store(path: Path, mode: int = PRIVATE) -> Iterator[tuple[Folder, Folder, Folder]]:
    """The parent of path, a folder in it for a store in the making, and that of its segments.

    It is gone at the end unless it was renamed. It is locked while its builder lives; those of dead ones are swept. A
    process number would not do: in containers the next builder may have the dead one's.
    """
    path = path.absolute()
    expect_outside_stores(path)
    if not path.parent.is_dir():
        raise no_folder("the store's folder would lie in one", path.parent)
    prefix = f".{path.name}.building-"
    with ExitStack() as held:
        parent = held.enter_context(Folder.open(path.parent))
        with _locked(parent):  # so that nobody sweeps a folder between its making and its lock
            for stale in parent.names():
                if stale.startswith(prefix):
                    _sweep_folder(parent, stale)
            name = f"{prefix}{secrets.token_hex(4)}"
            with naming(path):  # nobody knows the hidden name
                os.mkdir(name, 0o700, dir_fd=parent.fd)
            os.chmod(name, 0o700, dir_fd=parent.fd)  # a umask may have left nothing of that
            held.callback(shutil.rmtree, name, ignore_errors=True, dir_fd=parent.fd)
            folder = held.enter_context(parent.inside(name))
            folder.set_mode(mode)
            _try_lock(folder)
        yield parent, folder, held.enter_context(folder.create(SEGMENTS))


@contextmanager
def _locked(folder: Folder) -> Iterator[None]:
    with suppress(OSError):  # a file system without locks: then nothing is swept either
        fcntl.flock(folder.fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        # Whoever was interrupted on the way in has closed the folder, and with it let go of the lock.
        with suppress(OSError):
            if folder.fd >= 0:
                fcntl.flock(folder.fd, fcntl.LOCK_UN)


def _try_lock(folder: Folder) -> bool:
    try:
        fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep_folder(parent: Folder, name: str) -> None:
    """Remove a folder of a store in the making, unless its builder lives."""
    try:
        folder = parent.inside(name)
    except (OSError, CorruptStore):
        return  # gone meanwhile, or no such folder
    with folder:
        if _try_lock(folder):
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent.fd)


def _copied(segment: Segment | NamesReader | SketchesReader, at: Place) -> Iterator[int]:
    """Write the bytes of a file to a new one, durably; yields how many, piece by piece."""
    fd = at.folder.open_file(at.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with naming(at.path):
            for offset in range(0, segment.file_bytes, PIECE_BYTES):
                piece = segment.read(offset, min(PIECE_BYTES, segment.file_bytes - offset))
                write_all(fd, memoryview(piece))
                yield len(piece)
            os.fsync(fd)
    finally:
        os.close(fd)


def _copy_again(segment: Segment, copied: Place, plan: Plan, error: CorruptStore) -> None:
    """Put the segment as it was before the damage in the place of a damaged copy. Raises CorruptStore."""
    if isinstance(segment, CodesSegment):  # of which nothing is there twice
        raise CorruptStore(error.where, error.found, error.expected, path=segment.path)
    copied.folder.unlink(copied.name)
    note = "its copy is damaged, so it may be too"
    damage = CorruptStore(error.where, error.found, error.expected, path=segment.path, note=note)
    make_again(segment, copied, plan, damage)
    with closing(Segment(copied)) as made:
        if made.footer_crc != segment.footer_crc:
            raise damage


def _log(snapshot: Snapshot) -> Log:
    """What is pending as changes after all others, so that no removal masks it; all removals are older than the log."""
    first, settings = snapshot.state.next_change, snapshot.settings
    if settings.minhash is None:
        keys, ids = snapshot.pending_rows()
        columns = columns_of(keys) if ids is None else (*columns_of(keys), ids)
    else:
        signed, ids = pending_documents(snapshot)
        columns = document_columns(signed, ids)
    names = None if snapshot.names is None or ids is None else snapshot.names.of(ids)
    form = settings.bands, settings.words, settings.width
    records = tuple(changes.split(changes.ADDED, columns, first, names, *form))
    state = dataclasses.replace(snapshot.state, first_change=first, next_change=first + len(records))
    return Log(state, records, tuple(snapshot.removals.records_before(first)))
