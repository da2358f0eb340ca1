"""Copying a store while its writer goes on: the files of one snapshot, and what is not in them yet."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from fpstore.builder import no_store_at, scratch_store
from fpstore.errors import CorruptStore
from fpstore.living import changes
from fpstore.living.catalog import Log, create_catalog
from fpstore.living.snapshot import Snapshot
from fpstore.segment.files import check_file, sync_folder, write_all
from fpstore.segment.reader import Segment
from fpstore.types import Progress

PIECE_BYTES = 4 << 20


def copy_store(snapshot: Snapshot, path: Path, progress: Progress | None = None) -> None:
    """Write what the snapshot holds as a store at path: whole and durable, or not there at all.

    Raises FileExistsError where something is at path, CorruptStore where a page does not match its checksum.
    """
    no_store_at(path)
    total = sum(part.segment.file_bytes for part in snapshot.parts)
    done = 0
    with scratch_store(path) as folder:
        for part in snapshot.parts:
            copied = folder / "segments" / part.segment.path.name
            for count in _copied(part.segment, copied):
                done += count
                if progress:
                    progress("copying", done, total)
            try:
                check_file(copied)
            except CorruptStore as error:
                raise CorruptStore(f"{part.segment.path}: its copy is damaged, so it may be too: {error}") from None
        sync_folder(folder / "segments")
        create_catalog(folder, snapshot.settings, snapshot.state.segments, _log(snapshot))
        os.rename(folder, path)
        sync_folder(path.parent)


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


def _log(snapshot: Snapshot) -> Log:
    """What is pending as changes after all others, so that no removal masks it; all removals are older than the log."""
    first = snapshot.state.next_change
    keys, ids = snapshot.pending_rows()
    records = tuple(changes.split(changes.ADDED, (keys,) if ids is None else (keys, ids), first))
    state = dataclasses.replace(snapshot.state, first_change=first, next_change=first + len(records))
    return Log(state, records, tuple(snapshot.removals.records_before(first)))
