"""Rows with names, as callers give and get them, from rows with handles and back; names are in their order."""

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np

from fpstore._names import MAX_NAME_BYTES
from fpstore.errors import TooManyMatches
from fpstore.fingerprints import as_strings, distinct, repeats
from fpstore.living.snapshot import Snapshot
from fpstore.merging import first_few
from fpstore.names.column import Names, joined, to_column
from fpstore.query.additions import Additions
from fpstore.query.id_pairs import IdPairs
from fpstore.query.matches import Matches, Room, made
from fpstore.query.tables import Rows
from fpstore.types import Array, Ids, Keys

# Of an answer that is bounded: names that are read at once, 16 MiB of them at most.
NAMES_AT_ONCE = 256


def in_handles(snapshot: Snapshot, columns: tuple[Keys | Names, ...]) -> tuple[Keys, ...]:
    """Columns of which the last may be names, in handles then, without rows of names that have none."""
    *others, last = columns
    if not isinstance(last, Names):
        return cast(tuple[Keys, ...], columns)
    assert snapshot.names is not None
    handles, known = snapshot.names.handles(last)
    return (*(cast(Keys, column)[known] for column in others), handles[known])


def named_lookup(
    snapshot: Snapshot, asked: Names, most: int, name_bytes: int | None, go_on: Callable[[], None]
) -> Rows:
    """All rows of these names, by (name, fingerprint).

    TooManyMatches for more than most, or more than name_bytes of names; go_on: as of lookup.
    """
    (handles,) = in_handles(snapshot, (asked,))
    keys, ids = snapshot.lookup(np.unique(handles), most, go_on)
    names = _names(snapshot, ids, name_bytes)
    order = np.lexsort([as_strings(keys), names.ranks()])
    return Rows(keys[order], to_column(names.take(order), _text(snapshot)))


def named_pairs(snapshot: Snapshot, found: IdPairs) -> IdPairs:
    """Pairs of names for pairs of handles, the smaller name first."""
    first, second = (
        to_column(_names(snapshot, handles), _text(snapshot)) for handles in (found.first_id, found.second_id)
    )
    swapped = (second < first).astype(bool)
    return IdPairs(np.where(swapped, second, first), np.where(swapped, first, second), found.distance)


def names_in(snapshot: Snapshot, handles: Ids) -> Array:
    """The names of handles, as a column of an answer."""
    return to_column(_names(snapshot, handles), _text(snapshot))


def _text(snapshot: Snapshot) -> bool:
    return snapshot.settings.id_type == "string"


def _names(snapshot: Snapshot, handles: Ids | None, most: int | None = None) -> Names:
    """The names of handles. TooManyMatches, before more are held, where they have more than most bytes."""
    names = snapshot.names
    assert names is not None
    handles = np.empty(0, dtype=np.uint64) if handles is None else handles
    if most is None or len(handles) * MAX_NAME_BYTES <= most:
        return names.of(handles)
    distinct, back, counts = np.unique(handles, return_inverse=True, return_counts=True)
    parts, total = [], 0
    for start in range(0, len(distinct), NAMES_AT_ONCE):
        own = slice(start, start + NAMES_AT_ONCE)
        parts.append(names.of(distinct[own]))
        total += int(counts[own] @ parts[-1].sizes())
        if total > most:
            raise TooManyMatches.of_names(most)
    return joined(parts).take(back)


def expect_room(
    snapshot: Snapshot, names: Names | None, handles: Ids | None, found: Additions, most: int | None
) -> None:
    """TooManyMatches where the names of what rows are near have more than most bytes together.

    names, handles: of the rows, which may be near one another; all other names are in the snapshot.
    """
    if names is None or handles is None or most is None or not len(handles) or found.match_id is None:
        return
    near = found.match_id[~found.stored]
    given, first = np.unique(handles, return_index=True)
    at = np.minimum(given.searchsorted(near), len(given) - 1)
    own = given[at] == near
    left = most - int(names.sizes()[first[at[own]]].sum())
    if left < 0:
        raise TooManyMatches.of_names(most)
    try:
        _names(snapshot, near[~own], left)
    except TooManyMatches:
        raise TooManyMatches.of_names(most) from None


def _in_order(names: Names, same: Array) -> Names:
    """Names, the least first of those that belong together; same: bool[n], which belong with the row before."""
    return names.take(np.lexsort([names.ranks(), np.cumsum(~same)])) if same.any() else names


def named_matches(snapshot: Snapshot, found: Matches, most: int | None) -> Matches:
    """Matches with names for handles, ordered by (query, distance, fingerprint, name).

    TooManyMatches where the names have more than most bytes.
    """
    same = repeats(found.fingerprint)
    same[1:] &= found.query[1:] == found.query[:-1]
    names = _in_order(_names(snapshot, found.id, most), same)
    # Rows that belong together differ in nothing else.
    return made(found.query, found.fingerprint, found.distance, to_column(names, _text(snapshot)), found.method)


def named_first(snapshot: Snapshot, found: Matches, count: int, rows: int, most: int | None) -> Matches:
    """The first `count` rows of each query with names, of `found`, which has the first by handle.

    Names are not in the order of what stands for them, so all of a fingerprint are needed to know the first.
    TooManyMatches where these have more than so many rows, or, as for named_matches, bytes.
    """
    fingerprints, place = distinct(found.fingerprint)
    every = named_matches(snapshot, snapshot.search(fingerprints, 0, 0, Room(1, rows)), most)
    first = ~repeats(found.fingerprint)
    first[1:] |= found.query[1:] != found.query[:-1]
    groups = np.flatnonzero(first)
    starts = np.searchsorted(every.query, np.arange(len(fingerprints) + 1))
    counts = np.minimum(np.diff(starts), count)[place[groups]]
    at = np.repeat(groups, counts)
    own = np.repeat(starts[place[groups]] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    kept = first_few(found.query[at], count)
    at, own = at[kept], own[kept]
    assert every.id is not None
    return made(found.query[at], found.fingerprint[at], found.distance[at], every.id[own], found.method)


def named_additions(snapshot: Snapshot, found: Additions) -> Additions:
    """In a store with names additions with names for handles; where a row was stored it is the empty one."""
    if snapshot.names is None:
        return found
    assert found.match_id is not None
    matched = np.flatnonzero(~found.stored)
    column = to_column(Names(np.empty(0, dtype=np.uint8), np.zeros(len(found), dtype=np.int64)), _text(snapshot))
    column[matched] = to_column(_names(snapshot, found.match_id[matched]), _text(snapshot))
    return Additions(found.stored, found.match_fingerprint, found.match_distance, column)


def named_rows(snapshot: Snapshot, chunks: Iterator[tuple[Keys, Ids | None]]) -> Iterator[Rows]:
    """Rows with names for handles, those of a fingerprint in the order of the names."""
    held: Keys | None = None
    held_names = joined([])
    for keys, ids in chunks:
        keys = keys if held is None else np.concatenate([held, keys])
        names = joined([held_names, _names(snapshot, ids)])
        # The last fingerprint may go on in the next chunk.
        end = int(np.flatnonzero(~repeats(keys))[-1]) if len(keys) else 0
        held, held_names = keys[end:], names.part(end, names.size)
        if end:
            yield _rows(snapshot, keys[:end], names.part(0, end))
    if held is not None and len(held):
        yield _rows(snapshot, held, held_names)


def _rows(snapshot: Snapshot, keys: Keys, names: Names) -> Rows:
    return Rows(keys, to_column(_in_order(names, repeats(keys)), _text(snapshot)))
