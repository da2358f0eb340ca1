"""The nearest live match of each query, or its first few, in memory that grows with the queries alone.

A source says which of its fingerprints are the nearest, and of these which live; where none does the next are asked
for. So neither the fingerprints within the distance nor the ids of one are ever held together.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fpstore.merging import begins, each_once, first_few
from fpstore.types import Array, Counts, Ids, Keys

# Where the nearest fingerprint of a query does not live, so many queries are asked about at a time, and for so many of
# the next fingerprints of each. Within 3 bits of one there are at most 43,745.
QUERIES_AT_ONCE = 8
KEPT_OF_EACH = 1 << 14
# Ids looked at together where some of them may not live.
IDS_AT_ONCE = 1 << 16

# query int64[r], fingerprint uint64[r], distance uint16[r], and anything that the source wants to know of them
Found = tuple[Array, ...]
# query, fingerprint, distance, id
Nearest = tuple[Counts, Keys, Array, Ids | None]
# Given queries, for each a distance and a fingerprint that what is found comes after, or None, and how many to keep.
Find = Callable[[Keys, Array | None, Keys | None, int], Found]
# Of what was found, the first rows of each fingerprint, at most so many: which of found int64[n], uint64[n] or None.
FirstRows = Callable[[Found, int], tuple[Counts, Ids | None]]
# Which of what was found live, bool[r] or None for all, and the least id of each that does, uint64[r] or None.
Resolve = Callable[[Found], tuple[Array | None, Ids | None]]


def nearest(queries: Keys, find: Find, resolve: Resolve) -> Nearest:
    """Of one source, the nearest live fingerprint of each query that has any, and its least live id."""
    found = find(queries, None, None, 1)
    lives, ids = resolve(found)
    if lives is None:
        return found[0], found[1], found[2], ids
    parts = [_some(found, ids, lives)]
    dead = tuple(column[~lives] for column in found[:3])
    for start in range(0, len(dead[0]), QUERIES_AT_ONCE):
        query, fingerprint, bits = (column[start : start + QUERIES_AT_ONCE] for column in dead)
        while len(query):
            found = find(queries[query], bits, fingerprint, KEPT_OF_EACH)
            lives, ids = resolve(found)
            own = found[0]
            at = np.arange(len(own)) if lives is None else np.flatnonzero(lives)
            at = at[begins(own[at])]
            parts.append(_some((query[own], *found[1:]), ids, at))
            counts = np.bincount(own, minlength=len(query))
            left = counts == KEPT_OF_EACH
            left[own[at]] = False
            last = (np.cumsum(counts) - 1)[left]
            query, fingerprint, bits = query[left], found[1][last], found[2][last]
    return nearest_of(parts)


def nearest_of(parts: Sequence[Nearest]) -> Nearest:
    """Of the nearest of several sources, the nearest of each query; parts: at least one, and all with ids, or none."""
    if len(parts) == 1:
        return parts[0]
    ids = [part[3] for part in parts if part[3] is not None]
    query, fingerprint, bits = (np.concatenate([part[i] for part in parts]) for i in range(3))
    columns = [query, bits, fingerprint] + ([np.concatenate(ids)] if ids else [])
    ordered = each_once(columns)
    query, bits, fingerprint, *all_ids = (column[begins(ordered[0])] for column in ordered)
    return query, fingerprint, bits, all_ids[0] if all_ids else None


def first_rows(queries: Keys, count: int, find: Find, rows: FirstRows) -> Nearest:
    """Of one source, the first live rows of each query, `count` or more where it has so many; in no order.

    At most `count` fingerprints of each query are looked at together, and `count` rows of each.
    """
    which, bits, fingerprints = np.arange(len(queries)), None, None
    parts: list[Nearest] = []
    have = np.zeros(len(queries), dtype=np.int64)
    while not parts or len(which):
        found = find(queries[which], bits, fingerprints, count)
        at, ids = rows(found, count)
        own = which[found[0]]
        parts.append((own[at], found[1][at], found[2][at], ids))
        have += np.bincount(own[at], minlength=len(have))
        counts = np.bincount(found[0], minlength=len(which))
        left = (counts == count) & (have[which] < count)
        last = (np.cumsum(counts) - 1)[left]
        which, fingerprints, bits = which[left], found[1][last], found[2][last]
    return _concatenated(parts)


def first_of(parts: Sequence[Nearest], count: int) -> Nearest:
    """Of what first_rows found in several sources, the first `count` rows of each query, in order, each once."""
    query, fingerprint, bits, ids = _concatenated(parts)
    query, bits, fingerprint, *all_ids = each_once([query, bits, fingerprint] + ([] if ids is None else [ids]))
    kept = first_few(query, count)
    return query[kept], fingerprint[kept], bits[kept], all_ids[0][kept] if all_ids else None


def first_live(
    firsts: Array, counts: Array, most: int, values: Callable[[Array, Array], Ids], lives: Callable[[Ids, Array], Array]
) -> tuple[Counts, Ids]:
    """The first ids that live of each of several groups, `most` of each: their groups, int64[n], and they, uint64[n].

    The arguments are those of least_live. At most IDS_AT_ONCE ids are read at a time, or `most` of each group.
    """
    firsts, ends = firsts.copy(), firsts + counts
    waiting, have = np.flatnonzero(counts), np.zeros(len(firsts), dtype=np.int64)
    groups, ids = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint64)]
    while len(waiting):
        step = max(most, IDS_AT_ONCE // len(waiting))
        here = np.minimum(ends[waiting] - firsts[waiting], np.uint64(step))
        read = values(firsts[waiting], here)
        group = np.repeat(waiting, here.astype(np.int64))
        kept = lives(read, group)
        group, read = group[kept], read[kept]
        kept = first_few(group, most)
        groups.append(group[kept])
        ids.append(read[kept])
        have += np.bincount(groups[-1], minlength=len(have))
        firsts[waiting] = firsts[waiting] + here
        waiting = waiting[(have[waiting] < most) & (firsts[waiting] < ends[waiting])]
    return np.concatenate(groups), np.concatenate(ids)


def spread(groups: Counts, ids: Ids, place: Counts) -> tuple[Counts, Ids]:
    """Rows of groups as rows of what has these groups: which of place int64[n], with ids uint64[n].

    groups: int64[m], of which each row is. place: int64[r], the group of each of what was found.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(int(place.max(initial=-1)) + 2))
    counts = (starts[1:] - starts[:-1])[place]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.arange(len(place)), counts), ids[order][np.repeat(starts[place], counts) + within]


def least_of_each(groups: Sequence[Counts], ids: Sequence[Ids], most: int) -> tuple[Counts, Ids]:
    """The least `most` ids of each group among several columns of both: sorted by group, then id, each once."""
    group, id = each_once([np.concatenate(groups), np.concatenate(ids)])
    kept = first_few(group, most)
    return group[kept], id[kept]


def _concatenated(parts: Sequence[Nearest]) -> Nearest:
    """The rows of at least one part."""
    query, fingerprint, bits = (np.concatenate([part[i] for part in parts]) for i in range(3))
    ids = [part[3] for part in parts if part[3] is not None]
    return query, fingerprint, bits, np.concatenate(ids) if ids else None


def least_live(
    firsts: Array, counts: Array, values: Callable[[Array, Array], Ids], lives: Callable[[Ids, Array], Array]
) -> tuple[Array, Ids]:
    """The first id that lives of each of several groups: whether there is one, bool[n], and which, uint64[n].

    firsts, counts: uint64[n], the increasing ids of each group; values: reads such ranges, one after the other. lives:
    which of ids do, given the group of each. At most IDS_AT_ONCE ids are read at a time, or one of each group.
    """
    found, ids, step = np.zeros(len(firsts), dtype=bool), np.zeros(len(firsts), dtype=np.uint64), 1
    firsts, ends = firsts.copy(), firsts + counts
    waiting = np.flatnonzero(counts)
    while len(waiting):
        step = min(16 * step, max(1, IDS_AT_ONCE // len(waiting)))
        here = np.minimum(ends[waiting] - firsts[waiting], np.uint64(step))
        read = values(firsts[waiting], here)
        group = np.repeat(waiting, here.astype(np.int64))
        at = np.flatnonzero(lives(read, group))
        at = at[begins(group[at])]
        found[group[at]], ids[group[at]] = True, read[at]
        firsts[waiting] += here
        waiting = waiting[~found[waiting] & (firsts[waiting] < ends[waiting])]
    return found, ids


def _some(found: Found, ids: Ids | None, which: Array) -> Nearest:
    return found[0][which], found[1][which], found[2][which], None if ids is None else ids[which]
