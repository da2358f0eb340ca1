"""The store: what users hold. Open it, probe it, add to it, ask about it.

Arranges the parts: the catalog says what the store is now, a snapshot answers for one state of it, and the writer,
where the store was opened for writing, makes the next one.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, overload

import numpy as np

from fpstore._front import nearest
from fpstore._pairs import Join
from fpstore.arrays import as_count, as_integer, as_keys, parse_memory
from fpstore.base import Reading, _BaseStore
from fpstore.errors import PlanError, RecipeError, TooManyMatches
from fpstore.fingerprints import as_fingerprint, as_fingerprints, as_numbers, as_pairs, as_rows, single_of
from fpstore.living import changes
from fpstore.living.named import named_first, named_lookup, named_matches, named_pairs, named_rows, names_in
from fpstore.living.radius import Team, beyond, nearest_rows, read_for_each, tell_of_reach
from fpstore.living.snapshot import Snapshot
from fpstore.names.column import Names, as_named_rows, as_names
from fpstore.plans.plan import Plan
from fpstore.progress import OnProgress, Tell, told
from fpstore.query.additions import Additions
from fpstore.query.id_pairs import IdPairs
from fpstore.query.matches import MAX_MATCHES, Matches, Room, concatenate
from fpstore.query.pairs import Pairs
from fpstore.query.tables import Rows
from fpstore.threads import slices, thread_count
from fpstore.types import Array, Bytes, Counted, Counts, Ids, Keys, Paired

SLICE_MATCHES = 1 << 20  # rows that queries of one call may have where ids are names; with more they go in halves
ROWS_AT_ONCE = 1 << 16  # rows of a batch of rows()
_OF_NEAREST = {"fingerprint": int | bytes, "count": int, "max_distance": int | None, "return": Matches}  # for tools


class Store(_BaseStore):
    """An open store. Safe to use from several threads; a context manager; pickles as its path, opened for reading.

    Each call answers from the state of its beginning, which is the newest; an iterator keeps its state to its end.
    max_matches: how many rows an answer of probe_many may have; for tests and tools. max_name_bytes: how many bytes the
    names in an answer may have, for services; None for any.
    """

    max_matches = MAX_MATCHES
    max_name_bytes: int | None = None
    # Whether matches and rows have the handles of names in place of the names, for jobs, which hold many of them.
    _gives_handles = False

    # --- What it is ---

    @property
    def kind(self) -> Literal["hamming"]:
        """What is kept of a document: "hamming", a fingerprint, near others by the number of bits that differ."""
        return "hamming"

    @property
    def bits(self) -> int:
        """How many bits a fingerprint has."""
        return self._settings.bits

    @property
    def max_distance(self) -> int:
        """The largest distance that it was made for."""
        return self._settings.max_distance

    @property
    def plan(self) -> Plan:
        """Its tables."""
        return self._latest.plan

    def _searched(self) -> str:
        return f"max_distance {self.max_distance}, plan {self.plan.name}"

    # --- Texts ---

    def fingerprint(self, text: str | bytes) -> int:
        """The fingerprint of a text by the store's own recipe. RecipeError in a store that has none."""
        return as_numbers(self.fingerprint_many([text], threads=1))[0]

    def fingerprint_many(self, texts: Iterable[str | bytes], *, threads: int | None = None) -> Array:
        """The fingerprints of texts, in their order, by the store's own recipe: uint64[n], or rows of words.

        threads: how many at once, all processors by default. RecipeError in a store that has no recipe.
        """
        recipe = self.recipe
        if recipe is None:
            raise RecipeError("found no recipe for texts in it, expected a store made with one", path=self.path)
        found = recipe.fingerprint_many(texts, threads=threads)
        return found.view(np.int64) if self._signed else found

    def probe_text(self, text: str | bytes, *, max_distance: int | None = None) -> Matches:
        """As probe, for the fingerprint of a text by the store's own recipe."""
        return self.probe(self.fingerprint(text), max_distance=max_distance)

    def add_texts(self, texts: Iterable[str | bytes], *, ids: object = None) -> None:
        """As add, for the fingerprints of texts by the store's own recipe."""
        self.add(self.fingerprint_many(texts), ids=ids)

    def add_texts_if_new(
        self, texts: Iterable[str | bytes], *, ids: object = None, max_distance: int | None = None
    ) -> Additions:
        """As add_if_new, for the fingerprints of texts by the store's own recipe."""
        return self.add_if_new(self.fingerprint_many(texts), ids=ids, max_distance=max_distance)

    # --- Searching ---

    def probe(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> Matches:
        """Every stored fingerprint within max_distance of this one, nearest first.

        max_distance: that of the store by default, the paper's k. Beyond that of its plan all fingerprints may be read
        for it, which .method of the answer says, and a warning, once a process.
        """
        snapshot = self._newest.snapshot
        found = snapshot.single.probe(self._watch, fingerprint, max_distance, self._signed)
        if found is None:
            return self._probe(self._key(fingerprint), self._reach(max_distance))
        return found if snapshot.pending_names is None else self._matches(snapshot, found)

    def _probe(self, query: Keys, distance: int) -> Matches:
        """As probe, of an array of one: what is known is not sure to be the newest, or the answer out of the common."""
        with Reading(self) as snapshot:
            # Whatever was committed since it was looked at: who waits for a moment without commits waits long.
            found: Matches | None = snapshot.single.probe(None, single_of(query), distance, self._signed)
            if found is not None and snapshot.pending_names is None:
                return found
            if found is None:
                run = self._team(thread_count(None)).map
                found = snapshot.search_whole(query, distance, run)
            return self._matches(snapshot, found)

    def probe_many(
        self, fingerprints: object, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """Every stored fingerprint within max_distance of each of fingerprints (uint64[m]).

        .query of the answer is the index of the query, .method says how it was found. threads: how many at once, all
        processors by default. TooManyMatches, before they are made, for more than 2^26 rows.
        """
        queries = self._keys(fingerprints)
        return self._probe_many(queries, self._reach(max_distance), thread_count(threads), self.max_matches)

    def _probe_many(self, queries: Keys, distance: int, count: int, most: int) -> Matches:
        room = Room(len(queries), most)
        with Reading(self) as snapshot:
            try:
                if snapshot.is_whole(len(queries), distance):
                    run = self._team(count).map if count > 1 else map
                    found = snapshot.search_whole(queries, distance, run, room)
                    return self._matches(snapshot, found)

                def search(own: slice) -> Matches:
                    self._expect_usable()
                    return snapshot.search(queries[own], distance, own.start, room)

                pieces = slices(len(queries), count, snapshot.slice_queries, snapshot.min_slice)
                parts = self._team(count).map(search, pieces)
            except TooManyMatches as error:  # which may be about some of the queries only
                raise error.of_all(len(queries), most) from None
            found = parts[0] if len(parts) == 1 else concatenate(parts, snapshot.settings.ids)
            return self._matches(snapshot, found)

    nearest = nearest
    nearest.__annotations__ = _OF_NEAREST

    def _nearest_again(self, found: Any, fingerprint: int | bytes, count: int, most: int | None) -> Matches:
        """As nearest, of which one call of C has said that it found this, or nothing, or how to go on."""
        if found is True:
            with Reading(self) as snapshot:
                found = snapshot.single.first(None, fingerprint, count, most, self._signed)
        if isinstance(found, Matches):
            return found
        return self._nearest(self._key(fingerprint), count, most, None, found)

    def nearest_many(
        self, fingerprints: object, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """The count rows that are nearest to each of fingerprints (uint64[m]), as nearest has them of one.

        What lies within the plan's distance, or a little beyond, is looked up; all is read for what is further. Takes
        memory for these rows. Where ids are names and count is above 1, also for all rows of their fingerprints, and
        TooManyMatches where those of one query alone are more than 2^26. threads: as for probe_many.
        """
        return self._nearest(self._keys(fingerprints), count, max_distance, threads)

    def _nearest(
        self, queries: Keys, count: int, max_distance: int | None, threads: int | None, said: object = None
    ) -> Matches:
        # said: what `single.first` has said of the one query.
        most, thread_total = as_count(count, "count"), thread_count(threads)
        distance = self.bits if max_distance is None else self._any_distance(max_distance)
        with Reading(self) as snapshot:
            team = Team(thread_total, self._team(thread_total), self._expect_usable)
            found = nearest_rows(snapshot, queries, distance, most, team, said is False)
            return self._out(self._named_first(snapshot, found, most))

    def _named_first(self, snapshot: Snapshot, found: Matches, most: int) -> Matches:
        """The rows with their names; some queries at once where all have too many."""
        if snapshot.names is None or self._gives_handles or most == 1:
            return self._named(snapshot, found)
        alone = not len(found) or found.query[0] == found.query[-1]
        rows = self.max_matches if alone else min(self.max_matches, SLICE_MATCHES)
        try:
            return named_first(snapshot, found, most, rows, self.max_name_bytes)
        except TooManyMatches:
            if alone:
                raise
        half = np.searchsorted(found.query, (int(found.query[0]) + int(found.query[-1])) // 2, side="right")
        parts = [self._named_first(snapshot, own, most) for own in (found[:half], found[half:])]
        return concatenate(parts, snapshot.settings.ids)

    def _matches(self, snapshot: Snapshot, found: Matches) -> Matches:
        return self._out(self._named(snapshot, found))

    def _named(self, snapshot: Snapshot, found: Matches) -> Matches:
        if snapshot.names is None or self._gives_handles:
            return found
        return named_matches(snapshot, found, self.max_name_bytes)

    def _names_of(self, handles: Ids) -> list[str | bytes]:
        """The names that handles stand for, which matches had."""
        with Reading(self) as snapshot:
            return [*names_in(snapshot, handles).tolist()]

    def _handles_of(self, data: Bytes, ends: Counts, rows: Array) -> tuple[Ids, Array]:
        """The handle of each name of these indexes, uint64[n], and whether it has one; name i ends at data[ends[i]]."""
        with Reading(self) as snapshot:
            assert snapshot.names is not None
            return snapshot.names.handles(Names(data, ends).take(rows))

    def _stand_for(self, handles: Ids, data: Bytes, ends: Counts, rows: Array) -> bool:
        """Whether handles stand for just the names of these indexes, one for one; name i ends at data[ends[i]]."""
        with Reading(self) as snapshot:
            assert snapshot.names is not None
            own, given = snapshot.names.of(handles), Names(data, ends).take(rows)
            return np.array_equal(own.ends, given.ends) and np.array_equal(own.data, given.data)

    def contains_near(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> bool:
        """Whether a stored fingerprint is within max_distance of this one; stops at the first."""
        found: bool | None = self._newest.snapshot.single.contains(self._watch, fingerprint, max_distance)
        if found is not None:
            return found
        query, distance = self._key(fingerprint), self._reach(max_distance)
        with Reading(self) as snapshot:
            found = snapshot.single.contains(None, single_of(query), distance)
            return snapshot.contains(query, distance) if found is None else found

    @overload
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["fingerprints"] = "fingerprints",
        memory: str | int = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[Pairs]: ...
    @overload
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["ids"],
        memory: str | int = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[IdPairs]: ...
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Paired = "fingerprints",
        memory: str | int = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[Pairs] | Iterator[IdPairs]:
        """Every pair of distinct stored fingerprints within max_distance, once, in no order, a batch at a time.

        of: "ids", in a store that has them, for every two rows of different ids instead, of which the fingerprints are
        equal or near. memory: the budget for keys held at once; ValueError where a single prefix needs more. threads:
        how many search for wide fingerprints at once, all processors by default; one joins the tables of narrower ones.
        """
        distance, how = self._distance(max_distance), (parse_memory(memory), thread_count(threads), told(progress))
        self._expect_paired(of)
        with Reading(self) as snapshot:
            if of == "ids":
                return self._id_pairs(snapshot, distance, *how)
            return self._pairs(self._joins(snapshot, distance, *how))

    def _pairs(self, joins: Iterator[Join]) -> Iterator[Pairs]:
        for join in joins:
            while not join.done:
                found = Pairs(*join.next())
                if len(found):
                    yield self._out(found)
                self._expect_usable()

    def _id_pairs(
        self, snapshot: Snapshot, distance: int, memory_bytes: int, threads: int, tell: Tell | None
    ) -> Iterator[IdPairs]:
        with Reading(self, snapshot):
            for found, share in snapshot.id_pairs(distance, memory_bytes, work=self._team(threads)):
                if tell:
                    tell("pairs", int(1000 * share), 1000)
                if len(found):
                    yield self._out(found if snapshot.names is None else named_pairs(snapshot, found))
                self._expect_usable()

    def count_pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Paired = "fingerprints",
        memory: str | int = "1GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
    ) -> int:
        """How many pairs `pairs` would yield, without holding or returning them."""
        total, distance, budget = 0, self._distance(max_distance), parse_memory(memory)
        count, tell = thread_count(threads), told(progress)
        self._expect_paired(of)
        if of == "ids":
            with Reading(self) as snapshot:
                for found, share in snapshot.id_pair_counts(distance, budget, self._team(count)):
                    self._expect_usable()
                    if tell:
                        tell("pairs", int(1000 * share), 1000)
                    total += found
            return total
        with Reading(self) as snapshot:
            joins = self._joins(snapshot, distance, budget, count, tell)
        for join in joins:
            while not join.done:
                total += join.count()
        return total

    def _expect_paired(self, of: object) -> None:
        if of not in get_args(Paired):
            raise ValueError(f"of: found {of!r:.40}, expected {' or '.join(get_args(Paired))}")
        if of == "ids" and not self._settings.ids:
            raise ValueError(f"{self.path}: the store has no ids; ask for pairs of fingerprints")

    def _joins(
        self, snapshot: Snapshot, distance: int, memory_bytes: int, threads: int, tell: Tell | None
    ) -> Iterator[Join]:
        with Reading(self, snapshot):
            for join, share in snapshot.joins(distance, memory_bytes, work=self._team(threads)):
                if tell:
                    tell("pairs", int(1000 * share), 1000)
                yield join

    def count(self, of: Counted = "fingerprints") -> int:
        """How many distinct fingerprints there are, or how many rows: one for each id of a fingerprint.

        of: "fingerprints" or "rows". Reads all of them, unless they are in one segment and none was removed (compact).
        """
        if of not in get_args(Counted):
            raise ValueError(f"of: found {of!r:.40}, expected {' or '.join(get_args(Counted))}")
        with Reading(self) as snapshot:
            return snapshot.key_count if of == "fingerprints" else snapshot.row_count

    def rows(self, *, batch: int = ROWS_AT_ONCE) -> Iterator[Rows]:
        """All that is stored, at most `batch` rows at a time: each fingerprint once for each id.

        In the order of table 0 (by default that of the fingerprints), then of the ids. What damaged pages lack is read
        from other tables, with a warning; where these lack it too CorruptStore comes before the first row.
        """
        with Reading(self) as snapshot:
            return self._rows(snapshot, as_count(batch, "batch"))

    def _rows(self, snapshot: Snapshot, most: int) -> Iterator[Rows]:
        with Reading(self, snapshot):
            chunks = snapshot.rows()
            bare = snapshot.names is None or self._gives_handles
            tables = (Rows(*chunk) for chunk in chunks) if bare else named_rows(snapshot, chunks)
            for table in tables:
                rows = self._out(table)
                for first in range(0, len(rows), most):
                    self._expect_usable()
                    yield rows[first : first + most]

    def lookup(self, ids: object) -> Rows:
        """All rows of these ids (uint64[n]), each once, by (id, fingerprint); ids that are not there have none.

        There is no index of ids, which would take bytes: all ids of the segments that may hold one of these are read
        and compared, some 2 ns each (0.2 s for 10^8 that are in memory), whether one is asked for or thousands; a row
        that is found takes half a microsecond. So ask for many at once. Ids that rise with time are read only where
        they lie. Beside the answer it takes bounded memory. TooManyMatches for more than 2^26 rows; ValueError in a
        store without ids.
        """
        given = self._given_ids(ids)
        if not self._settings.ids:
            raise ValueError(f"{self.path}: the store has no ids, expected one with ids to look up")
        with Reading(self) as snapshot:
            if isinstance(given, Names):
                most = self.max_matches, self.max_name_bytes
                return self._out(named_lookup(snapshot, given, *most, self._expect_usable))
            return self._out(Rows(*snapshot.lookup(np.unique(given), self.max_matches, self._expect_usable)))

    # --- Changing ---

    def add(self, fingerprints: object, *, ids: object = None) -> None:
        """Store fingerprints (uint64[n]), each with its id (uint64[n]) in a store with ids; see open about durability.

        All of them are stored, or none. Found by the next probe of any process. Where a fingerprint has that id
        already nothing changes. Ids that are names are a list, an array of numpy or anything that speaks Arrow; numpy's
        own str (dtype U) has lost the NULs that end an item, and its bytes (dtype S), which are refused, the zeros.
        """
        if self._singly is None or not self._singly.add(fingerprints, ids):
            self._expect_writer().add(*self._given(fingerprints, ids))

    def _key(self, fingerprint: object) -> Keys:
        return as_fingerprint(fingerprint, "fingerprint", self.bits)

    def _keys(self, fingerprints: object) -> Keys:
        return as_fingerprints(fingerprints, "fingerprints", self._origin, self.bits)

    def _given(self, fingerprints: object, ids: object) -> tuple[Keys, Ids | Names | None]:
        settings = self._settings
        if settings.named:
            text = settings.id_type == "string"
            return as_named_rows(fingerprints, ids, text, self.path, self._origin, settings.bits)
        return as_rows(fingerprints, ids, settings.ids, self.path, self._origin, settings.bits)

    def _given_pairs(self, fingerprints: object, ids: object) -> tuple[Keys, Any]:
        if self._settings.named:
            return self._given(fingerprints, ids)
        return as_pairs(fingerprints, ids, self._origin, self.bits)

    def _given_ids(self, ids: object) -> Ids | Names:
        settings = self._settings
        return as_names(ids, settings.id_type == "string", "ids") if settings.named else as_keys(ids, "ids")

    def add_if_new(self, fingerprints: object, *, ids: object = None, max_distance: int | None = None) -> Additions:
        """Store those of fingerprints (uint64[n], up to 2^20) that are near none stored before, nor one among them.

        Near: within max_distance, the store's by default. Tells for each the nearest match, or that it was stored. One
        step: no other addition comes in between.
        """
        if (one := self._added_singly(fingerprints, ids, max_distance)) is not None:
            return one
        rows = self._given(fingerprints, ids)
        return self._out(self._expect_writer().add_if_new(*rows, self._distance(max_distance), self.max_name_bytes))

    def upsert(self, fingerprints: object, *, ids: object) -> None:
        """Store fingerprints (uint64[n], up to 2^20), each with its id, in place of every row that has this id.

        One step, durable when it returns: what ends it leaves all the old rows or all the new ones. An id that is not
        there is added. Of an id that comes twice the last row counts, as if each had come in a call of its own, so that
        it does not matter how rows are cut into calls. ValueError in a store without ids.
        """
        writer = self._expect_writer()
        if not self._settings.ids:
            raise ValueError(f"{self.path}: the store has no ids, expected one with ids, whose rows can be replaced")
        writer.upsert(*self._given_pairs(fingerprints, ids))

    def remove(self, *, ids: object = None, fingerprints: object = None) -> None:
        """Remove all rows of ids (uint64[n]), all of fingerprints (uint64[n]), or, given both, just these pairs.

        Of both as many: fingerprints[i] loses ids[i], and keeps its other ids. Durable, all of it or nothing, when it
        returns. What is not there is no error. A fingerprint goes with its last id. All may come again.
        """
        writer = self._expect_writer()
        if ids is None and fingerprints is None:
            raise TypeError("remove takes ids, fingerprints, or both")
        if ids is None:
            writer.remove(changes.FINGERPRINTS_REMOVED, self._keys(fingerprints))
        elif not self._settings.ids:
            raise ValueError(f"{self.path}: the store has no ids, expected fingerprints alone")
        elif fingerprints is None:
            writer.remove(changes.IDS_REMOVED, self._given_ids(ids))
        else:
            writer.remove(changes.ROWS_REMOVED, *self._given_pairs(fingerprints, ids))

    def _read_for_each(self, query_count: int, distance: int, added: int = 0) -> int:
        with Reading(self) as snapshot:
            return read_for_each(snapshot, distance, query_count, added)

    def _any_distance(self, max_distance: int | None) -> int:
        """What is asked for, which all fingerprints may have to be read for."""
        if max_distance is None:
            return self._latest.state.settings.max_distance
        distance = as_integer(max_distance)
        if distance is None or not 0 <= distance <= self.bits:
            raise ValueError(f"max_distance: found {max_distance!r}, expected an integer from 0 to {self.bits}")
        return distance

    def _reach(self, max_distance: int | None) -> int:
        """What is asked for by the caller of who calls this; which is told, once a process, what it costs."""
        distance = self._any_distance(max_distance)
        tell_of_reach([self._latest], distance)
        return distance

    def _distance(self, max_distance: int | None) -> int:
        """What is asked for, where the tables of the plan have to answer it."""
        distance, plan = self._any_distance(max_distance), self.plan
        if distance > plan.max_distance:
            raise PlanError(beyond(plan, distance))
        return distance
