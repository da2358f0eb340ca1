"""The list of a segment's ids, where each has rows with many fingerprints: rows have its index in place of the id."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fpstore._merge import merge_keys
from fpstore._probe import places_of
from fpstore.format import LISTED_BYTES
from fpstore.types import Counts, Ids, Keys

# Ids that wait to join the list: as many as this, or a part of the list where that is more.
WAITING = 1 << 17
PART = 4
# A list is made in memory, with as much again while it grows.
MOST_LISTED = 1 << 26


class Listing(NamedTuple):
    """Where ids come again with many fingerprints. sketched: each is written beside the rows too, if not listed."""

    sketched: bool


def width_for(span: int) -> int:
    """The bytes of each id in a column of them beside the rows where they are so far apart, not one after the other."""
    return 4 if span < 1 << 32 else 8


def listed_ids(chunks: Iterator[Ids], id_count: int, width: int, listing: Listing) -> Keys | None:
    """The distinct ids of all rows, uint64[n], increasing; None where rows of `width` bits each take no more bytes.

    chunks: the ids of id_count rows, in any order. Looks up each in the list, some 40 ns; None also for more than
    MOST_LISTED.
    """
    beside = width_for((1 << width) - 1) if listing.sketched else 0
    cost = 8 * (LISTED_BYTES - beside)
    most = min(id_count * width // cost if cost else id_count, MOST_LISTED)
    listed = np.empty(0, dtype=np.uint64)
    waiting: list[Keys] = []
    count = 0
    for ids in chunks:
        new = ids[places_of(listed, ids) < 0]
        if not len(new):
            continue
        waiting.append(np.unique(new))
        count += len(waiting[-1])
        if count >= max(WAITING, len(listed) // PART):
            listed, waiting, count = _joined(listed, waiting), [], 0
            if len(listed) > most:
                return None
    listed = _joined(listed, waiting)
    saved = id_count * (width - max(len(listed) - 1, 0).bit_length())
    # Of ids one after the other nothing is saved, as rows have no wider ones then.
    return listed if len(listed) <= most and saved > cost * len(listed) else None


def places_in(listed: Keys, ids: Ids) -> Ids:
    """The indexes of ids, all of which are in the list: uint64[n]."""
    places: Counts = places_of(listed, ids)
    return places.view(np.uint64)


def _joined(listed: Keys, waiting: list[Keys]) -> Keys:
    return merge_keys(listed, np.unique(np.concatenate(waiting))) if waiting else listed
