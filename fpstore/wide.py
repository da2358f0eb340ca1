"""A store of wide fingerprints, of 128 or 256 bits: a Store, of which some is not there yet.

What it answers is exact and whole, as that of any store. What is not there yet raises WrongKind, or
ReadOnly where it is opened for writing, which says so.
"""

from typing import Any, NoReturn, Self

from fpstore.base import Reading
from fpstore.codes.given import as_code, as_codes, not_yet
from fpstore.codes.reader import CodesSegment
from fpstore.errors import TooManyMatches, WrongKind
from fpstore.living.snapshot import Snapshot
from fpstore.living.stats import Stats
from fpstore.living.wide import WideSnapshot
from fpstore.progress import OnProgress
from fpstore.query.matches import Matches, Room, concatenate
from fpstore.store import Store
from fpstore.threads import slices, thread_count

# Queries of one call without the lock, of some 0.1 ms each.
SLICE_QUERIES = 128
MIN_SLICE = 16


class WideStore(Store):
    """An open store of wide fingerprints, for reading."""

    @classmethod
    def of(cls, store: Store) -> Self:
        """The store, which was opened as any; the other object is closed, and this one has what it had open."""
        wide = cls.__new__(cls)
        wide.__dict__.update(store.__dict__)
        store._closed = True
        return wide

    def probe(self, fingerprint: Any, *, max_distance: int | None = None) -> Matches:
        """As that of Store; fingerprint: an integer, bytes with the highest one first, or words."""
        code, distance = as_code(fingerprint, "fingerprint", self.bits), self._distance(max_distance)
        with Reading(self) as snapshot:
            return self._out(_codes(snapshot).search(code, distance, 0, Room(1, self.max_matches)))

    def probe_many(
        self, fingerprints: object, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """As that of Store; fingerprints: uint64[m, words], bytes of each, or what else build takes."""
        queries = as_codes(fingerprints, "fingerprints", self.bits)
        distance, count = self._distance(max_distance), thread_count(threads)
        room = Room(len(queries), self.max_matches)
        with Reading(self) as snapshot:
            codes = _codes(snapshot)

            def search(own: slice) -> Matches:
                self._expect_usable()
                return codes.search(queries[own], distance, own.start, room)

            try:
                parts = self._team(count).map(search, slices(len(queries), count, SLICE_QUERIES, MIN_SLICE))
            except TooManyMatches as error:  # which may be about some of the queries only
                raise error.of_all(len(queries), self.max_matches) from None
            found = parts[0] if len(parts) == 1 else concatenate(parts, snapshot.settings.ids)
            found.method = "scan" if any(part.method == "scan" for part in parts) else "probe"
            return self._out(found)

    def contains_near(self, fingerprint: Any, *, max_distance: int | None = None) -> bool:
        """As that of Store; fingerprint: as for probe."""
        code, distance = as_code(fingerprint, "fingerprint", self.bits), self._distance(max_distance)
        with Reading(self) as snapshot:
            return _codes(snapshot).has_any(code, distance)

    # --- What is not there yet ---

    def _refuse(self, what: str) -> NoReturn:
        raise WrongKind(not_yet(what, self.bits), path=self.path)

    def nearest(self, *args: Any, **named: Any) -> NoReturn:
        """Not there yet."""
        self._refuse("nearest")

    def nearest_many(self, *args: Any, **named: Any) -> NoReturn:
        """Not there yet."""
        self._refuse("nearest_many")

    def pairs(self, *args: Any, **named: Any) -> NoReturn:
        """Not there yet."""
        self._refuse("pairs")

    def count_pairs(self, *args: Any, **named: Any) -> NoReturn:
        """Not there yet."""
        self._refuse("count_pairs")

    def report(self, *args: Any, **named: Any) -> NoReturn:
        """Not there yet."""
        self._refuse("report")

    def stats(self, *, largest_slots: int = 0, spikes: int = 0, progress: OnProgress | None = None) -> Stats:
        """As that of Store, without spikes, which are not there yet."""
        if spikes:
            self._refuse("spikes")
        return super().stats(largest_slots=largest_slots, progress=progress)

    def _expect_narrow(self, what: str) -> None:
        self._refuse(what)


def _codes(snapshot: Snapshot) -> CodesSegment:
    assert isinstance(snapshot, WideSnapshot)
    return snapshot.codes
