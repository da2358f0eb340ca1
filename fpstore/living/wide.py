"""One state of a store of wide codes, and what lives of its segments: as Snapshot and Live, which these are.

A code is a row of words where a key is a number. The tables of a segment tell ranks, so nothing of it is in another
order than that of the codes; what waits for a segment is compared with every query.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fpstore._reaches import Reaches
from fpstore._single_codes import SingleCodes
from fpstore.codes.pending import PendingCodes
from fpstore.codes.reader import CodesSegment, Matched
from fpstore.fingerprints import as_strings, no_fingerprints, of_strings, repeats, words_of
from fpstore.forks import cached_property
from fpstore.living.live import Advance, Columns, Live, alive, matched_alive
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import State
from fpstore.living.wide_pairs import (
    PAIRED_BYTES,
    PAIRED_CODES,
    PAIRED_COPIES,
    Searches,
    TooManyNear,
    groups_of,
    held_pairs,
    too_many_near,
)
from fpstore.merging import Chunks, each_once, merged
from fpstore.plans.plan import Plan
from fpstore.plans.reach import lookup_nanoseconds, reading_nanoseconds
from fpstore.query.id_pairs import Groups
from fpstore.query.matches import Matches, Room, made
from fpstore.query.nearest import Found, Nearest, first_of, nearest_of
from fpstore.query.pairs import Only, Stretch
from fpstore.query.ways import Run
from fpstore.threads import Threads
from fpstore.types import Array, Counts, Ids, Keys

_Made = TypeVar("_Made")


class _RankWay:
    """How the nearest codes of a segment are found: by their ranks, which are in the order of codes.

    scanned: whether all codes were read for some query.
    """

    def __init__(self, segment: CodesSegment, distance: int, scans: bool) -> None:
        self._segment, self._distance, self._scans = segment, distance, scans
        self.scanned = False

    def nearest(
        self, queries: Keys, keep: int = 1, bits: Array | None = None, fingerprints: Keys | None = None
    ) -> tuple[Counts, Keys, Array]:
        """As that of Way, of ranks."""
        after = None if bits is None or fingerprints is None else (bits, fingerprints)
        index = self._segment.codes
        if self._scans:
            self._segment.ask_codes()
        query, rank, found, scanned = index.search(queries, self._distance, scan=self._scans, keep=keep, after=after)
        self.scanned |= scanned
        return query, rank, found


@dataclass(frozen=True, eq=False)
class LiveCodes(Live):
    """A segment of wide codes and its position."""

    @property
    def codes(self) -> CodesSegment:
        """The segment."""
        assert isinstance(self.segment, CodesSegment)
        return self.segment

    def matched(self, queries: Keys, distance: int, scans: bool, room: Room | None) -> tuple[Matched, bool]:
        """What lives within distance of each query, a row for each id; and whether all codes were read for some."""
        found, scanned = self.codes.search(queries, distance, scans, room)
        return matched_alive(self.removals, found, self.position), scanned

    def search_nanoseconds(self, plan: Plan, distance: int) -> float:
        """What a search for one code of as many as there are takes, by the planner's model."""
        n = self.segment.key_count
        return min(lookup_nanoseconds(plan, distance, n), reading_nanoseconds(plan, n, n))

    def nearest_codes(self, queries: Keys, distance: int, scans: bool) -> tuple[Nearest, bool]:
        """What lives nearest to each query, with its least id, codes as strings; and whether all codes were read."""
        way = _RankWay(self.codes, distance, scans)
        return self._as_strings(self.nearest(queries, way)), way.scanned

    def first_codes(self, queries: Keys, distance: int, scans: bool, count: int) -> tuple[Nearest, bool]:
        """Of what lives within distance of each query the first `count` rows, and maybe more; as nearest_codes."""
        way = _RankWay(self.codes, distance, scans)
        return self._as_strings(self.first(queries, way, count)), way.scanned

    def _as_strings(self, found: Nearest) -> Nearest:
        query, ranks, bits, ids = found
        with self.segment.naming:
            return query, as_strings(self.codes.codes.gather(ranks)), bits, ids

    def _least_live_ids(self, found: Found) -> tuple[Array | None, Ids | None]:
        return self._least_of_each(found)

    def _distinct(self, found: Keys) -> tuple[Keys, Array, Array, Array]:
        """As that of Live, of ranks: their codes."""
        ranks, place = np.unique(found, return_inverse=True)
        none = np.empty(0, dtype=np.uint64)
        firsts, counts = (none, none) if self.segment.ids is None else self.segment.ids.rank_ranges(ranks)
        return self.codes.codes.gather(ranks), place, firsts, counts

    def lookup(self, ids: Ids) -> Iterator[tuple[Keys, Ids]]:
        """What lives with one of these ids (uint64[n], strictly increasing), in chunks: codes and ids."""
        for codes, own in self.codes.lookup(ids):
            kept = alive(self.removals, codes, own, self.position)
            yield (codes, own) if kept is None else (codes[kept], own[kept])

    def rows(self, advance: Advance, dead: list[Keys] | None = None) -> Iterator[Columns]:
        """What lives, in order, in chunks: codes and ids, or codes alone. advance is told how many rows were read."""
        assert dead is None, "no other pass asks which codes are gone"
        for codes, ids in self.codes.rows():
            kept = alive(self.removals, codes, ids, self.position)
            advance(len(codes))
            if kept is not None:
                codes, ids = codes[kept], None if ids is None else ids[kept]
            if len(codes):
                yield (codes,) if ids is None else (codes, ids)


class _NoSingle:
    """Stands for what answers single queries; it answers none."""

    def __init__(self) -> None:
        self.reaches: dict[tuple[int, ...], Reaches] = {}

    def first(self, *asked: Any) -> None:
        """Nothing."""

    def probe(self, *asked: Any) -> None:
        """Nothing."""

    def contains(self, *asked: Any) -> None:
        """Nothing."""


@dataclass(frozen=True, eq=False)
class WideSnapshot(Snapshot):
    """A state of a store of wide codes."""

    pending: PendingCodes  # type: ignore[assignment]
    parts: tuple[LiveCodes, ...]

    slice_queries, min_slice = 128, 16

    @cached_property
    def single(self) -> Any:
        """What answers single queries where nothing waits for a segment, and nothing was removed; else none."""
        if self.pending_count or self.removals:
            return _NoSingle()
        parts = [(part.codes.codes, part.codes.ids) for part in self.searched]
        distances = self.settings.max_distance, self.plan.max_distance
        answers = self._answers(words_of(self.settings.bits))
        return SingleCodes(parts, self.settings.bits, *distances, answers)

    @property
    def searched(self) -> tuple[LiveCodes, ...]:
        """All segments: of none the rows are held."""
        return self.parts

    # --- Searching ---

    def is_whole(self, query_count: int, distance: int) -> bool:
        """Whether a batch is better asked as one: never."""
        return False

    def search(self, queries: Keys, distance: int, first_query: int = 0, room: Room | None = None) -> Matches:
        """As that of Snapshot."""
        scans, scanned = distance > self.plan.max_distance, False
        found: list[Matched] = []
        for part in self.searched:
            own, read_all = part.matched(queries, distance, scans, room)
            found.append(own)
            scanned |= read_all
        if self.pending_count:
            found.append(self.search_pending(queries, distance, room))
        found = [columns for columns in found if len(columns[0])]
        if len(found) != 1 or self.pending_count:
            found = [self._in_order(found)]
        query, codes, bits, ids = found[0]
        return made(query + first_query, codes, bits, ids, "scan" if scanned else "probe")

    def search_whole(self, queries: Keys, distance: int, run: Run, room: Room | None = None) -> Matches:
        """As search."""
        return self.search(queries, distance, 0, room)

    def search_pending(self, queries: Keys, distance: int, room: Room | None) -> Matched:
        """What is pending and lives; in no order, and some maybe twice."""
        most = room.left if room else 0
        query, codes, bits, ids, positions = self.pending.search(
            queries, distance, self.pending_start, self.pending_end, most
        )
        if room:
            room.take(len(query))
        return matched_alive(self.removals, (query, codes, bits, ids), positions)

    def _in_order(self, found: Sequence[Matched]) -> Matched:
        """Rows of several sources as those of one: in order, each once."""
        none = np.empty(0, dtype=np.int64), no_fingerprints(self.settings.bits), np.empty(0, dtype=np.uint16)
        query, codes, bits = (np.concatenate([none[i], *(columns[i] for columns in found)]) for i in range(3))
        ids = [column for *_, column in found if column is not None]
        if not self.settings.ids:
            query, bits, strings = each_once([query, bits, as_strings(codes)])
            return query, of_strings(strings), bits, None
        every = np.concatenate([np.empty(0, dtype=np.uint64), *ids])
        query, bits, strings, every = each_once([query, bits, as_strings(codes), every])
        return query, of_strings(strings), bits, every

    def nearest(self, queries: Keys, distance: int, first_query: int = 0, run: Run = map) -> Matches:
        """As that of Snapshot."""
        found, method = self._of_parts(LiveCodes.nearest_codes, queries, distance)
        if self.pending_count:
            found.append(self._first_waiting(queries, distance, 1))
        query, strings, bits, ids = nearest_of(found) if found else self._nothing()
        codes = of_strings(strings)
        if self.names is not None and len(query):
            ids = self._least_names(codes)
        return made(query + first_query, codes, bits, ids, method)

    def first(self, queries: Keys, distance: int, count: int, first_query: int = 0, run: Run = map) -> Matches:
        """As that of Snapshot."""
        found, method = self._of_parts(partial(LiveCodes.first_codes, count=count), queries, distance)
        if self.pending_count:
            found.append(self._first_waiting(queries, distance, count))
        query, strings, bits, ids = first_of(found, count) if found else self._nothing()
        return made(query + first_query, of_strings(strings), bits, ids, method)

    def _of_parts(
        self, ask: Callable[[LiveCodes, Keys, int, bool], tuple[Nearest, bool]], queries: Keys, distance: int
    ) -> tuple[list[Nearest], str]:
        """What each segment answers, and how it was found."""
        scans = distance > self.plan.max_distance
        answers = [ask(part, queries, distance, scans) for part in self.searched]
        scanned = any(read_all for _, read_all in answers)
        return [found for found, _ in answers], "scan" if scanned else "probe"

    def _first_waiting(self, queries: Keys, distance: int, count: int) -> Nearest:
        """Of what is pending and lives, the first `count` rows of each query, each once, in order."""
        left, after, more = np.arange(len(queries)), None, count
        parts = [self._nothing()]
        while len(left):
            asked, at, bits = self.pending.first(
                queries[left], distance, self.pending_start, self.pending_end, more, after
            )
            codes, ids, positions = self.pending.rows_at(at, self.pending_start)
            query, own, apart, own_ids = matched_alive(self.removals, (left[asked], codes, bits, ids), positions)
            parts = [first_of([*parts, (query, as_strings(own), apart, own_ids)], count)]
            counts = np.bincount(asked, minlength=len(left))
            full = counts == more
            last = (np.cumsum(counts) - 1)[full]
            short = np.bincount(parts[0][0], minlength=len(queries))[left[full]] < count
            left, after, more = left[full][short], (bits[last][short], at[last][short]), more * 4
        return parts[0]

    def _nothing(self) -> Nearest:
        none = np.empty(0, dtype=np.uint64)
        strings = as_strings(no_fingerprints(self.settings.bits))
        return np.empty(0, np.int64), strings, np.empty(0, np.uint16), none if self.settings.ids else None

    def contains(self, query: Keys, distance: int) -> bool:
        """Whether a live code is within distance of the one query, uint64[1, words]."""
        if self.removals:
            return len(self.nearest(query, distance)) > 0
        scans = distance > self.plan.max_distance
        if any(part.codes.has_any(query, distance, scans) for part in self.searched):
            return True
        return self.pending_count > 0 and len(self._first_waiting(query, distance, 1)[0]) > 0

    # --- Everything ---

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """Every live code once for each id, in order: uint64[m, words], and uint64[m] or None."""
        sources = [Chunks(_as_columns(each) for each in part.rows(_nothing)) for part in self.parts]
        if self.pending_count:
            codes, ids = self.pending_rows()
            waiting = each_once([as_strings(codes)] if ids is None else [as_strings(codes), ids])
            sources.append(Chunks(iter([waiting])))
        for strings, *columns in merged(sources, _union):
            yield of_strings(strings), columns[0] if columns else None

    def _by_id(self, parts: Sequence[tuple[Keys, Ids]]) -> tuple[Keys, Ids]:
        none = no_fingerprints(self.settings.bits), np.empty(0, dtype=np.uint64)
        codes, ids = (np.concatenate([each[i] for each in (none, *parts)]) for i in (0, 1))
        ids, strings = each_once([ids, as_strings(codes)])
        return of_strings(strings), ids

    def _distinct_count(self) -> int:
        count, last = 0, None
        for codes, _ in self.rows():
            count += len(codes) - int(np.count_nonzero(repeats(codes)))
            count -= last is not None and bool((codes[0] == last).all())
            last = codes[-1]
        return count

    def joins(
        self, distance: int, memory_bytes: int, only: Only = None, work: Threads | None = None
    ) -> Iterator[tuple[Any, float]]:
        """What finds every pair of live codes within distance once, by a search for each of them.

        only: of the first of each pair; see stretches. work: those that search. By however many, pairs come in one
        order. ValueError where what is near one of them needs more memory.
        """
        return self._near_each(held_pairs, distance, memory_bytes, only, work)

    def stretches(self, distance: int, count: int, flipped: int | None = None) -> list[tuple[Stretch, float]]:
        """What the search of joins can be cut into, for so many to do: live codes, by their number among all of them.

        There may be fewer than the last of these says.
        """
        total = sum(part.segment.key_count for part in self.parts) + self.pending_count
        each = sum(part.search_nanoseconds(self.plan, distance) for part in self.parts)
        each += reading_nanoseconds(self.plan, self.pending_count, total)
        at_once = max(1, min(PAIRED_CODES, -(-total // count)))
        cuts = ((first, min(first + at_once, total)) for first in range(0, total, at_once))
        return [(Stretch(0, self.settings.bits, first, end), each * (end - first)) for first, end in cuts]

    def _near_groups(
        self, distance: int, memory_bytes: int, only: Only, work: Threads | None
    ) -> Iterator[tuple[Groups, float]]:
        for both, share in self._near_each(groups_of, distance, memory_bytes, only, work):
            for groups in both:
                yield groups, share

    def _near_each(
        self,
        make: Callable[[Keys, Matches], _Made],
        distance: int,
        memory_bytes: int,
        only: Only,
        work: Threads | None,
    ) -> Iterator[tuple[_Made, float]]:
        """What is made of the live codes, each once, few at a time, and of what is near them; the share of work before.

        only: of those in these stretches.
        """
        most = memory_bytes // (PAIRED_COPIES * self.settings.bits // 8 + PAIRED_BYTES)

        def search(queries: Keys, most: int) -> _Made:
            return make(queries, self.search(queries, distance, room=Room(len(queries), most)))

        searches = Searches(search, max(1, most), work)
        total = max(1, sum(part.segment.key_count for part in self.parts) + self.pending_count)
        done, last = 0, None
        try:
            for codes, _ in self.rows():
                fresh = ~repeats(codes)
                fresh[0] = last is None or bool((codes[0] != last).any())
                last, own = codes[-1], codes[fresh]
                for first, end in _within(only, done, done + len(own)):
                    for found, before in searches.each(own[first - done : end - done]):
                        yield found, min(1.0, (first + before) / total)
                done += len(own)
        except TooManyNear as error:
            raise too_many_near(error.query, most, distance, memory_bytes) from None

    # --- Moving on ---

    def with_rows(self, pending: PendingCodes, state: State) -> "Snapshot":  # type: ignore[override]
        """This one in that state, which has all rows of pending, and the same but for these."""
        return dataclasses.replace(self, state=state, pending=pending, pending_end=pending.count)


def _within(only: Only, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """What of the numbers from start up to stop lies in one of the stretches."""
    for each in [Stretch(0, 0, start, stop)] if only is None else only:
        first, last = max(each.first, start), min(each.end, stop)
        if first < last:
            yield first, last


def _nothing(count: int) -> None:
    pass


def _as_columns(columns: Columns) -> Columns:
    return (as_strings(columns[0]), *columns[1:])


def _union(pieces: Sequence[Sequence[Keys]]) -> Sequence[Keys]:
    """The items of sorted pieces, each once, in order."""
    if len(pieces) == 1:
        return pieces[0]
    return each_once([np.concatenate([piece[i] for piece in pieces]) for i in range(len(pieces[0]))])
