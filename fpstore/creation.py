"""How a store comes to be, built from rows, made empty or copied: whole and durable under its name, or not there.

A new store is made in a folder beside its place and renamed; one that is replaced changes in a single commit of its
catalog. Whatever interrupts either leaves what was there before.
"""

import dataclasses
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from fpstore.building.rows import Build
from fpstore.disk import sync_folder, write_all
from fpstore.errors import CorruptStore
from fpstore.living import changes
from fpstore.living.catalog import Catalog, Log, create_catalog
from fpstore.living.mending import make_again
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings
from fpstore.living.sweep import sweep_segments
from fpstore.plans.choice import EXPECTED_KEYS, PlanChoice
from fpstore.plans.plan import Plan
from fpstore.segment.entry import SegmentEntry, segment_name
from fpstore.segment.files import check_file
from fpstore.segment.reader import Segment
from fpstore.types import Progress

PIECE_BYTES = 4 << 20


def build_store(
    path: Path,
    fingerprints: object,
    ids: object,
    *,
    k: int,
    plan: str | float | Plan,
    codec: str,
    memory: str | int,
    threads: int,
    progress: Progress | None,
    recipe: dict[str, object] | None,
    force: bool,
    seed: int | None,
) -> None:
    """Write the store at path; the arguments are those of fpstore.build.

    Raises FileExistsError where path exists, unless force and it is a store, which is then replaced.
    """
    build = Build(fingerprints, ids, k=k, plan=plan, codec=codec, memory=memory, threads=threads, seed=seed)
    report = progress or (lambda phase, done, total: None)

    def settings(chosen: Plan) -> Settings:
        return Settings(k=build.k, plan=chosen.to_json(), codec=codec, ids=ids is not None, recipe=recipe)

    if path.is_symlink() or path.exists():
        if not force:
            raise FileExistsError(errno.EEXIST, "already there; --force (force=True) replaces a store", str(path))
        _replace(path, build, settings, report)
        return
    with _new_store(path) as folder:
        chosen, entry = build.write(folder / "segments" / segment_name(1), folder, report)
        create_catalog(folder, settings(chosen), (entry,))


def create_store(
    path: Path,
    *,
    k: int,
    ids: bool,
    plan: str | float | Plan,
    codec: str,
    recipe: dict[str, object] | None,
    seed: int | None,
) -> None:
    """Make an empty store at path; the arguments are those of fpstore.create.

    Raises FileExistsError where something is there.
    """
    choice = PlanChoice(k, plan).shuffled(seed)
    chosen = choice.for_count(EXPECTED_KEYS)
    settings = Settings(k=choice.k, plan=chosen.to_json(), codec=codec, ids=ids, recipe=recipe)
    _expect_nothing(path)
    with _new_store(path) as folder:
        create_catalog(folder, settings)


def copy_store(snapshot: Snapshot, path: Path, progress: Progress | None = None) -> None:
    """Write what the snapshot holds as a store at path: whole and durable, or not there at all.

    Raises FileExistsError where something is at path, CorruptStore where a segment has lost what no table of it has.
    """
    _expect_nothing(path)
    total = sum(part.segment.file_bytes for part in snapshot.parts)
    done = 0
    with _new_store(path) as folder:
        for part in snapshot.parts:
            copied = folder / "segments" / part.segment.path.name
            for count in _copied(part.segment, copied):
                done += count
                if progress:
                    progress("copying", done, total)
            try:
                check_file(copied)
            except CorruptStore as error:
                _copy_again(part.segment, copied, snapshot.plan, error)
        sync_folder(folder / "segments")
        create_catalog(folder, snapshot.settings, snapshot.state.segments, _log(snapshot))


def rebuild_store(
    path: Path,
    rows: Callable[[Path], Iterator[object]],
    settings: Settings,
    plan: Plan,
    report: Progress,
) -> SegmentEntry:
    """Write the store of these rows at path: whole and durable, or not there at all. What the catalog says of it.

    rows: what yields them, as fpstore.build takes a stream, given a folder for its own files, which goes at the end.
    """
    _expect_nothing(path)
    with _new_store(path) as folder:
        scratch = folder / "scratch"
        scratch.mkdir(mode=0o700)
        source, ids = rows(scratch), "pairs" if settings.ids else None
        build = Build(source, ids, k=plan.k, plan=plan, codec=settings.codec, memory="1GiB", threads=1, seed=None)
        _, entry = build.write(folder / "segments" / segment_name(1), folder, report)
        shutil.rmtree(scratch)
        create_catalog(folder, settings, (entry,))
        return entry


def _expect_nothing(path: Path) -> None:
    if path.is_symlink() or path.exists():
        raise FileExistsError(errno.EEXIST, "already there", str(path))


def _replace(path: Path, build: Build, settings: Callable[[Plan], Settings], report: Progress) -> None:
    with Catalog.open(path, writable=True) as catalog:
        sweep_segments(path, catalog)
        state = catalog.state()
        try:
            target = path / "segments" / segment_name(state.next_segment)
            plan, entry = build.write(target, path, report, state.next_change)
            catalog.publish(settings=settings(plan), segments=(entry,), first_change=state.next_change, removed=())
        finally:
            sweep_segments(path, catalog)


@contextmanager
def _new_store(path: Path) -> Iterator[Path]:
    """A folder for a store in the making, which becomes path at the end unless something is raised."""
    with scratch_store(path) as folder:
        yield folder
        os.rename(folder, path)
        sync_folder(path.parent)


@contextmanager
def scratch_store(path: Path) -> Iterator[Path]:
    """A folder beside path for a store in the making, gone at the end unless it was renamed.

    It is locked while its builder lives; those of dead ones are swept. A process number would not do: in
    containers the next builder may have the dead one's.
    """
    parent = path.parent
    if not parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the store's folder would lie in one that is not there", str(parent))
    prefix = f".{path.name}.building-"
    with _locked(parent):  # so that nobody sweeps a folder between its making and its lock
        for stale in parent.iterdir():
            if stale.name.startswith(prefix):
                _sweep_folder(stale)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _try_lock(lock)
    try:
        (folder / "segments").mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: then nothing is swept either
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep_folder(folder: Path) -> None:
    """Remove a folder of a store in the making, unless its builder lives."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone meanwhile, or no such folder
    try:
        if _try_lock(fd):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


def _copied(segment: Segment, path: Path) -> Iterator[int]:
    """Write a segment's bytes to path, durably; yields how many, piece by piece."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for offset in range(0, segment.file_bytes, PIECE_BYTES):
            piece = segment.read(offset, min(PIECE_BYTES, segment.file_bytes - offset))
            write_all(fd, memoryview(piece))
            yield len(piece)
        os.fsync(fd)
    finally:
        os.close(fd)


def _copy_again(segment: Segment, copied: Path, plan: Plan, error: CorruptStore) -> None:
    """Put the segment as it was before the damage in the place of a damaged copy. Raises CorruptStore."""
    copied.unlink()
    damage = CorruptStore(f"its copy is damaged, so it may be too: {error.args[0]}", path=segment.path)
    make_again(segment, copied, plan, damage)
    with closing(Segment(copied)) as made:
        if made.footer_crc != segment.footer_crc:
            raise damage


def _log(snapshot: Snapshot) -> Log:
    """What is pending as changes after all others, so that no removal masks it; all removals are older than the log."""
    first = snapshot.state.next_change
    keys, ids = snapshot.pending_rows()
    records = tuple(changes.split(changes.ADDED, (keys,) if ids is None else (keys, ids), first))
    state = dataclasses.replace(snapshot.state, first_change=first, next_change=first + len(records))
    return Log(state, records, tuple(snapshot.removals.records_before(first)))
