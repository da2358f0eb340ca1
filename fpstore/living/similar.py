"""Which documents of one state of a store share a band with signatures, and how similar they are by their sketches.

An id whose signatures are several is one document: it shares the bands that any of them shares, and its similarity is
the largest of theirs. So what is answered does not depend on which segments its rows lie in.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fpstore.errors import CorruptStore, Naming
from fpstore.living.named import names_in
from fpstore.living.naming import StoreNames
from fpstore.living.sketched import similar_in, sketches_of
from fpstore.living.snapshot import Snapshot
from fpstore.query.matches import Room
from fpstore.query.similar import SimilarMatches
from fpstore.sketches.bands import Signed
from fpstore.types import Array, Counts, Ids, Keys


class Similar(NamedTuple):
    """Candidates, in the order of an answer: query int64[m], id uint64[m] or None, float32[m], uint16[m]."""

    query: Counts
    ids: Ids | None
    similarity: Array
    shared_bands: Array

    def take(self, which: Array) -> "Similar":
        """Some of them."""
        return Similar(*(None if column is None else column[which] for column in self))  # type: ignore[arg-type]


def candidates(
    snapshot: Snapshot, signed: Signed, least: float | None = None, first_query: int = 0, room: Room | None = None
) -> Similar:
    """The documents that share a band with each signature, and are as similar as `least`, in the order of an answer.

    By query, the most similar first, then by id, which is a handle where ids are names.

    TooManyMatches where there are more rows than room for.
    """
    with Naming(snapshot.folder):
        return Similar(*similar_in(snapshot).find(signed.keys, signed.sketches, least, first_query, room))


def sketch_counts(snapshot: Snapshot, distinct: Ids, of: Counts) -> Counts:
    """How many sketches each id has. CorruptStore where one has none."""
    counts = np.bincount(of, minlength=len(distinct))
    if not counts.all():
        lacking = distinct[int(np.argmin(counts))]
        raise CorruptStore("sketches", f"none of id {lacking}", "one, as it has rows", path=snapshot.folder)
    return counts


def _most(snapshot: Snapshot, sketches: Keys, query: Counts, place: Counts, own: Keys, counts: Counts) -> Array:
    """The largest similarity of each query with the sketches of an id; own has counts[i] of id i, in order."""
    kept = snapshot.settings.kept
    assert kept is not None
    if len(own) == len(counts):
        return kept.similarity(sketches[query], own[place])
    starts = np.cumsum(counts) - counts
    each = counts[place]
    ends = np.cumsum(each)
    rows = np.repeat(starts[place] - (ends - each), each) + np.arange(int(ends[-1]))
    most: Array = np.maximum.reduceat(kept.similarity(sketches[np.repeat(query, each)], own[rows]), ends - each)
    return most


def id_similarities(snapshot: Snapshot, first: Ids, second: Ids) -> Array:
    """How similar each two ids are: float32[m], the largest of any two of their signatures."""
    distinct, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    of, sketches = sketches_of(snapshot, distinct)
    counts = sketch_counts(snapshot, distinct, of)
    starts = np.cumsum(counts) - counts
    one, other = place[: len(first)], place[len(first) :]
    # Each signature of the first, then as a query would be with each of the second.
    each = counts[one]
    ends = np.cumsum(each)
    rows = np.repeat(starts[one] - (ends - each), each) + np.arange(int(each.sum()))
    found = _most(snapshot, sketches[rows], np.arange(len(rows)), np.repeat(other, each), sketches, counts)
    most: Array = np.maximum.reduceat(found, ends - each) if len(found) else found
    return most


def ordered(found: Similar, names: StoreNames | None = None) -> Similar:
    """Candidates in the order of an answer whose ids are these names: of those as similar, by the bytes of the name."""
    if names is None or found.ids is None:
        return found
    return found.take(np.lexsort([names.of(found.ids).ranks(), -found.similarity, found.query]))


def answer(snapshot: Snapshot, found: Similar) -> SimilarMatches:
    """As what a store answers: in order, with names where ids are that."""
    query, ids, similarity, shared = ordered(found, snapshot.names)
    own: Array | None = ids
    if ids is not None and snapshot.names is not None:
        own = names_in(snapshot, ids)
    return SimilarMatches(query, own, similarity, shared)


def joined(parts: Sequence[Similar]) -> Similar:
    """Those of several batches one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True)
    return Similar(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]
