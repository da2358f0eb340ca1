"""How files of segments come and go: a new one gets its name, what nobody needs is removed, what is not ours set aside.

The catalog says which files are this store's before they have the name of a segment, and until they are gone. So a file
that it never named is somebody's, and is moved, never removed.
"""

import os
import warnings
from collections.abc import Collection, Sequence

from fpstore.disk import Folder, Place
from fpstore.errors import CorruptStore, StoreWarning
from fpstore.living.catalog import Catalog
from fpstore.living.environment import remove_unfinished
from fpstore.living.state import State, expect_left
from fpstore.segment.entry import (
    MAX_SEGMENT,
    SegmentEntry,
    is_segment_name,
    is_unpublished_name,
    names_made,
    segment_name,
    segment_of,
    unpublished_name,
)
from fpstore.segment.files import footer_crc

# Where what is not this store's goes.
ASIDE = "aside"


def unpublished_place(catalog: Catalog, number: int, identity: str) -> Place:
    """Where the segment of this number is written, until name_segment gives it its name. Error for one too many."""
    name = segment_name(expect_left("segments", number, MAX_SEGMENT))
    return Place(catalog.segments, unpublished_name(name, identity))


def name_segment(catalog: Catalog, place: Place, entry: SegmentEntry, announced: State) -> list[SegmentEntry]:
    """Give the file at place, which lies in the folder of the segments, its entry's name, durably.

    announced: of the catalog, which says by then that it is this store's. Returns those of its strays which are not
    gone for good. Raises OSError.
    """
    for name in entry.made:
        if place.folder.identity_of(name) is not None:
            _set_aside(catalog, [name])
    for unpublished, name in reversed([*zip(names_made(place.name), names_made(entry.name), strict=True)]):
        if name in entry.made:
            place.folder.rename(unpublished, name)
    left = [stray for stray in announced.strays if _is_left(place.folder, stray)]
    place.folder.sync()  # of those that were removed before, too
    return left


def sweep_segments(catalog: Catalog, kept: Collection[str] = ()) -> None:
    """Remove the segments that the catalog says are to go, and what writers left that died; not those in kept.

    Segments that it never named are moved to the folder aside, with a warning. The caller knows that the state of the
    catalog opens as a whole. Raises StoreChanged where the store is no longer there, and does nothing then.
    """
    catalog.expect_here()
    state = catalog.state()
    remove_unfinished(catalog.folder)
    remove_unpublished(catalog, state, kept)
    remove_replaced(catalog, state, kept)
    known = {*kept, *(name for entry in state.segments for name, *_ in entry.files)}
    unknown = [name for name in catalog.segments.names() if is_segment_name(segment_of(name)) and name not in known]
    if unknown:
        _set_aside(catalog, unknown)


def expect_sweepable(catalog: Catalog) -> None:
    """CorruptStore or OSError where a sweep could not do its work later: before something that cannot be undone."""
    remove_unfinished(catalog.folder)
    if catalog.folder.identity_of(ASIDE) is not None:
        catalog.folder.inside(ASIDE).close()


def remove_unpublished(catalog: Catalog, state: State, kept: Collection[str] = ()) -> None:
    """Remove this store's files that have no name yet, but for those in kept."""
    segments = catalog.segments
    for name in segments.names():
        if is_unpublished_name(name, state.identity) and name not in kept:
            segments.unlink(name, missing_ok=True)


def remove_replaced(catalog: Catalog, state: State, kept: Collection[str] = ()) -> None:
    """Remove the strays of this state of the catalog, but for the files in kept."""
    folder = catalog.segments
    for stray in state.strays:
        for name, file_bytes, crc in stray.files:
            if name not in kept and _is_there(folder, name, file_bytes, crc):
                folder.unlink(name, missing_ok=True)


def _is_left(segments: Folder, stray: SegmentEntry) -> bool:
    """Whether there is any file of that name."""
    return any(segments.identity_of(name) is not None for name, *_ in stray.files)


def _is_there(segments: Folder, name: str, file_bytes: int, crc: int) -> bool:
    """Whether the file of that name is the one that the catalog means."""
    try:
        fd = segments.open_file(name)
    except (FileNotFoundError, CorruptStore):
        return False
    try:
        return footer_crc(fd) == (file_bytes, crc)
    finally:
        os.close(fd)


def _set_aside(catalog: Catalog, names: Sequence[str]) -> None:
    folder, segments = catalog.folder, catalog.segments
    with folder.create(ASIDE) if folder.identity_of(ASIDE) is None else folder.inside(ASIDE) as aside:
        for name in names:
            taken, free = 0, name
            while aside.identity_of(free) is not None:
                taken += 1
                free = f"{name}.{taken}"
            segments.rename(name, free, aside)
        aside.sync()
        segments.sync()
        warnings.warn(
            f"{folder.path}: found segments that its catalog never named, {', '.join(names)}; moved to {aside.path}",
            StoreWarning,
            stacklevel=2,
        )
