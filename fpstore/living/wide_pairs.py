"""The pairs of wide codes: many searches by some threads, in a stated budget, and what is made of each.

Codes are searched for some at a time, as many as what is near them leaves room for: what all threads find together is
held until it was taken. It is given in the order of the codes, whoever searched.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

from fpstore.errors import TooManyMatches
from fpstore.fingerprints import as_hexadecimal, as_strings, repeats
from fpstore.living.together import HeldIds
from fpstore.query.id_pairs import Groups
from fpstore.query.matches import Matches
from fpstore.threads import Threads
from fpstore.types import Array, Keys

# Codes whose pairs are looked for at once, where what is near them fits the budget.
PAIRED_CODES = 128
# What a row takes that is near one of them, as it is found, put in order and made a pair: of each code in it so many
# copies, and so much else.
PAIRED_COPIES, PAIRED_BYTES = 14, 64
# Lots that each thread has to do before all of them are given: some take longer than others.
LOTS_A_THREAD = 4
MOST_LOTS = 256  # of however many threads, or there would be no room for what each finds

Made = TypeVar("Made")


class TooManyNear(Exception):
    """More is near one code than there is room for. query: it, uint64[1, words]."""

    def __init__(self, query: Keys) -> None:
        super().__init__("found too many near one")
        self.query = query


class Searches(Generic[Made]):
    """Searches for many codes, in the order of these, however many threads there are.

    search: makes of some codes what is near them, of so many rows at most; TooManyMatches where there are more.
    """

    def __init__(self, search: Callable[[Keys, int], Made], most: int, work: Threads | None) -> None:
        """most: rows that all threads hold together. work: those threads, by default the caller's."""
        self._search, self._most = search, most
        threads = 1 if work is None else work.count
        self._run = map if work is None or threads == 1 else work.map
        self._all_lots = 1 if threads == 1 else max(1, min(LOTS_A_THREAD * threads, MOST_LOTS, most // PAIRED_CODES))
        # As many codes and lots as went well lately.
        self._codes, self._lots = PAIRED_CODES, self._all_lots

    def each(self, queries: Keys) -> Iterator[tuple[Made, int]]:
        """What is made of these codes, some at a time, and how many come before them. TooManyNear for one of them."""
        at = 0
        while at < len(queries):
            stop = min(at + self._codes * self._lots, len(queries))
            lots = [queries[first : min(first + self._codes, stop)] for first in range(at, stop, self._codes)]
            found = list(self._run(self._made, lots))
            found.reverse()
            while found and (own := found.pop()) is not None:
                yield own[0], at
                at += own[1]
                del own
            if at < stop:
                del found  # what comes after the one that had no room is found again, by fewer at once
                self._take_less(queries[at : at + 1])
            else:
                self._take_more()

    def _made(self, queries: Keys) -> tuple[Made, int] | None:
        try:
            return self._search(queries, self._most // self._lots), len(queries)
        except TooManyMatches:
            return None

    def _take_less(self, query: Keys) -> None:
        if self._codes > 1:
            self._codes //= 2
        elif self._lots > 1:
            self._lots //= 2
        else:
            raise TooManyNear(query)

    def _take_more(self) -> None:
        if self._lots < self._all_lots:
            self._lots = min(2 * self._lots, self._all_lots)
        else:
            self._codes = min(2 * self._codes, PAIRED_CODES)


def too_many_near(query: Keys, most: int, distance: int, memory_bytes: int) -> ValueError:
    """What to say of one fingerprint, uint64[1] or uint64[1, words], near which more rows are than a budget holds."""
    told = f"{as_hexadecimal(query.reshape(1, -1))[0]}: more than {most} rows are within {distance} bits of it"
    return ValueError(f"{told}; finding its pairs needs a memory budget of more than {memory_bytes} bytes")


class HeldPairs:
    """Pairs that were found, as a Join hands them on. first, second: uint64[n, words]; bits: uint16[n]."""

    def __init__(self, first: Keys, second: Keys, bits: Array) -> None:
        self._columns, self.done = (first, second, bits), False

    def next(self) -> tuple[Keys, Keys, Array]:
        """All of them; there are no more."""
        self.done = True
        return self._columns

    def count(self) -> int:
        """How many there are; there are no more."""
        return len(self.next()[2])


def held_pairs(queries: Keys, found: Matches) -> HeldPairs:
    """The pairs of queries and what is near them and comes after them."""
    above = as_strings(found.fingerprint) > as_strings(queries)[found.query]
    above &= ~_follows(found)
    return HeldPairs(queries[found.query[above]], found.fingerprint[above], found.distance[above])


def groups_of(queries: Keys, found: Matches) -> tuple[Groups, Groups]:
    """The ids of queries, each with each, and with the ids of what is near and comes after; queries are stored."""
    assert found.id is not None
    firsts = np.flatnonzero(~_follows(found))
    counts = np.diff(firsts, append=len(found)).astype(np.uint64)
    query, strings = found.query[firsts], as_strings(found.fingerprint[firsts])
    asked = as_strings(queries)[query]
    own, above, starts = np.flatnonzero(strings == asked), strings > asked, firsts.astype(np.uint64)
    of, ids = own[query[above]], HeldIds(found.id)  # each query is stored, so it finds itself
    none = np.zeros(len(own), dtype=np.uint16)
    alone = Groups(starts[own], counts[own], starts[own], counts[own], none, True, ids)
    others = found.distance[firsts][above]
    both = Groups(starts[of], counts[of], starts[above], counts[above], others, False, ids)
    return alone.take(alone.counts > 1), both


def _follows(found: Matches) -> Array:
    """Which rows are of the query and the code of the row before: bool[n]."""
    same = repeats(found.fingerprint)
    same[1:] &= found.query[1:] == found.query[:-1]
    return same
