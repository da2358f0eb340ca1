"""Owns what a service does for each request: from the bytes of its body to those of its answer.

Bodies are JSON or Arrow, in the same words: `fingerprints` or `texts`, and `ids`, lists in JSON and columns in Arrow.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from fpstore import Additions, ReadOnly, RecipeError, Store, TooManyMatches
from fpstore.inputs import BadInput
from fpstore.minhash import MinHashStore, SimilarAdditions
from fpstore.serve import arrow, forms
from fpstore.serve.failures import Refused
from fpstore.serve.held import Held
from fpstore.serve.kinds import AnyStore, is_list, kind_of, reach_of, stores_of
from fpstore.serve.limits import COMPARED_AT_ONCE, HELD_AT_ONCE, LEAST_QUERIES, Limits
from fpstore.serve.writing import Change, Writing
from fpstore.text import Recipe
from fpstore.types import Ids, Keys

if TYPE_CHECKING:
    from fpstore.cluster import Shards

JSON_TYPE = "application/json"
ROW_FIELDS = ("fingerprints", "texts")
# Changes after which all rows that were asked for are there; of a removal nobody has counted what was.
ADDING = ("add", "add_if_new", "upsert")


@dataclass(frozen=True)
class Asked:
    """What a body says. fingerprints, ids: None where there are none."""

    fingerprints: Keys | None
    ids: Ids | None

    @property
    def rows(self) -> int:
        """How many."""
        return max(len(column) for column in (self.fingerprints, self.ids) if column is not None)


@dataclass(frozen=True)
class Answer:
    """The bytes of an answer, and what they are."""

    body: bytes
    media_type: str = JSON_TYPE


class Service:
    """A store that is asked by many at once: one Store answers, another one is written to, if any. Thread-safe.

    reader: also a list of stores, which is only read.
    recipe: that of texts, with its model; None where the store has none.
    """

    def __init__(
        self, reader: "AnyStore | Shards", writing: Writing | None, recipe: Recipe | None, limits: Limits
    ) -> None:
        self.limits = limits
        self._reader = Held(reader)
        self._id_type = reader.id_type
        self.kind = kind_of(reader)
        self._origin, self._bits = reader._origin, reader._settings.bits
        self._writing, self._is_list = writing, is_list(reader)
        self._recipe = recipe
        reader.max_matches = limits.matches
        if isinstance(reader, Store):
            reader.max_name_bytes = limits.answer_bytes

    def close(self) -> None:
        """Close the store that answers; who has the writer closes that."""
        self._reader.close()

    # --- What is asked ---

    def read(self, body: bytes, media_type: str, fields: tuple[str, ...]) -> Asked:
        """What a body says in these fields. BadInput, Refused for too many rows, RecipeError for texts."""
        expected = [name for name in fields if name != "fingerprints" or self.kind.digits]
        columns = self._arrow(body, fields) if media_type == arrow.MEDIA_TYPE else self._json(body, fields)
        named = [name for name in ROW_FIELDS if name in columns]
        if len(named) > 1:
            raise BadInput("body: found fingerprints and texts, expected one of them")
        if not columns or not (named or "ids" in columns):
            raise BadInput(f"body: found no rows, expected {' or '.join(expected)}")
        counts = {len(column) for column in columns.values()}
        if max(counts) > self.limits.queries:
            most = self.limits.queries
            raise Refused(413, "TooManyQueries", f"body: found {max(counts)} rows, expected at most {most}")
        if len(counts) > 1:
            found = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
            raise BadInput(f"body: found {found}, expected one for each")
        return self._asked(columns)

    def _json(self, body: bytes, fields: tuple[str, ...]) -> dict[str, Any]:
        record = forms.object_of(body, "body", fields)
        return {name: forms.items_of(record, name) for name in record}

    def _arrow(self, body: bytes, fields: tuple[str, ...]) -> dict[str, Any]:
        return {**arrow.columns_of(body, fields, self.limits.queries, self._origin, self._bits)}

    def _asked(self, columns: Mapping[str, Any]) -> Asked:
        fingerprints, texts, ids = (columns.get(name) for name in ("fingerprints", "texts", "ids"))
        if texts is not None:
            if self._recipe is None:
                raise RecipeError("found no recipe for texts in it, expected fingerprints", path=self._reader.path)
            # One thread here and below: each request has one of the server's.
            fingerprints = self.kind.sketches(self._recipe, forms.texts_of(texts))
        elif fingerprints is not None:
            fingerprints = self.kind.fingerprints(fingerprints)
        if ids is not None:
            ids = forms.ids_of(ids, self._id_type)
        return Asked(fingerprints, ids)

    # --- What is answered ---

    def probe(self, asked: Asked, nearness: float | None, media_type: str) -> Answer:
        """All that is near each of them. TooManyMatches."""
        assert asked.fingerprints is not None
        keys = asked.fingerprints
        asked_for = {self.kind.parameter: nearness}

        def ask(store: Any) -> Any:
            self.kind.expect_bounded(store, nearness)
            if not isinstance(store, MinHashStore):
                self._expect_few(store, len(keys), store.max_distance if nearness is None else nearness)
            return store.probe_many(keys, threads=1, **asked_for)

        return self._matches(self._reader.ask(ask), asked, media_type)

    def nearest(self, asked: Asked, count: int, max_distance: float | None, media_type: str) -> Answer:
        """The `count` rows that are nearest to each of them. TooManyMatches."""
        assert asked.fingerprints is not None
        keys = asked.fingerprints
        if count > (most := self.limits.matches // max(1, len(keys))):
            of = f"of {len(keys)} fingerprints, as an answer has at most {self.limits.matches} matches"
            raise TooManyMatches(f"count: found {count}, expected at most {most} {of}")
        if count > (most := max(1, isqrt(HELD_AT_ONCE // max(1, len(keys))))):
            of = f"of {len(keys)} fingerprints, as so many rows of so many fingerprints may be held for each"
            raise TooManyMatches(f"count: found {count}, expected at most {most} {of}")

        def ask(store: Any) -> Any:
            self._expect_few(store, len(keys), store.bits if max_distance is None else max_distance)
            return store.nearest_many(keys, count, max_distance=max_distance, threads=1)

        return self._matches(self._reader.ask(ask), asked, media_type)

    def _expect_few(self, store: "Store | Shards", query_count: int, max_distance: float, added: int = 0) -> None:
        """Refused for so many queries that reading all that is stored for each of them would take long.

        added: so many rows more that are stored meanwhile.
        """
        if query_count <= LEAST_QUERIES:
            return

        def read_within(distance: int) -> int:
            return sum(each._read_for_each(query_count, distance, added) for each in stores_of(store))

        distance, near = int(max_distance), reach_of(store)
        read = read_within(distance)
        if query_count * read > COMPARED_AT_ONCE:
            most = max(LEAST_QUERIES, COMPARED_AT_ONCE // read)
            told = f"each takes as long as {read} words of 64 bits that are read"
            if distance > near and read_within(near) < read:
                told += f"; fewer with max_distance={near} or less"
            raise Refused(413, "TooManyQueries", f"body: found {query_count} rows, expected at most {most}: {told}")

    def expect_few_additions(self, asked: Asked, nearness: float | None) -> Asked:
        """The same; Refused, as of probe, for rows to add if they are new, each of which is one for those behind it."""
        keys = asked.fingerprints

        def look(store: Any) -> None:
            assert keys is not None
            distance = store.max_distance if nearness is None else nearness
            if distance <= store.plan.max_distance:  # the writer refuses what is beyond
                self._expect_few(store, len(keys), distance, len(keys) // 2)

        if keys is not None and self._writing is not None and self.kind.digits:
            self._reader.ask(look)
        return asked

    def _matches(self, found: Any, asked: Asked, media_type: str) -> Answer:
        most = self.limits.answer_bytes
        if media_type == arrow.MEDIA_TYPE:
            return Answer(arrow.bytes_of(found, most), media_type)
        rows = self.kind.matches(found, with_query=True)
        return _listed("matches", f'"query_count": {asked.rows}, "matches"', rows, most)

    def lookup(self, asked: Asked, media_type: str) -> Answer:
        """All rows of each id. TooManyMatches."""
        found = self._reader.ask(lambda store: store.lookup(asked.ids))
        most = self.limits.answer_bytes
        if media_type == arrow.MEDIA_TYPE:
            return Answer(arrow.bytes_of(found, most), media_type)
        return _listed("rows", '"rows"', self.kind.rows(found), most)

    def change(self, kind: str, asked: Asked, nearness: float | None) -> "Future[Any]":
        """Have the writer change the store; done when that is durable. ReadOnly where there is none."""
        if self._is_list:
            told = "found a list of stores, which is only asked, expected one store; serve the store that is to change"
            raise ReadOnly(told, path=self._reader.path)
        if self._writing is None:
            raise ReadOnly("found it served for reading, expected a service that writes", path=self._reader.path)
        if kind in ADDING:
            if asked.fingerprints is None:
                raise BadInput("body: found ids alone, expected fingerprints or texts, too")
            if asked.ids is None and self._id_type is not None:
                raise BadInput("ids: found none, expected one for each row")
        elif asked.fingerprints is not None and not self.kind.digits:
            raise BadInput("body: found texts, expected ids: signatures are removed by these")
        return self._writing.submit(Change(kind, asked.fingerprints, asked.ids, nearness))

    def changed(self, kind: str, result: Any, asked: Asked, media_type: str) -> Answer:
        """What is said of a change that was made, given what the store said. TooManyMatches where that is too much."""
        if not isinstance(result, Additions | SimilarAdditions):
            told = ("changed", "row_count") if kind in ADDING else ("removed", "asked_count")
            # Of an id that comes again the last row is there.
            count = len(set(asked.ids.tolist())) if kind == "upsert" and asked.ids is not None else asked.rows
            return Answer(_document(told[0], f'"{told[1]}": {count}'))
        most = self.limits.answer_bytes
        try:
            if media_type == arrow.MEDIA_TYPE:
                return Answer(arrow.bytes_of(result, most), media_type)
            rows = (f"{{{fields}}}" for fields in self.kind.additions(result))
            stored = int(np.count_nonzero(result.stored))
            return _listed("additions", f'"stored_count": {stored}, "additions"', rows, most)
        except TooManyMatches as error:
            raise TooManyMatches(f"{error}; the rows were added") from None

    def stats(self) -> Answer:
        """What the store holds, or each of a list."""
        if self._is_list:
            every = self._reader.ask(lambda stores: stores.stats())
            return Answer(_document("list-stats", f'"stores": {json.dumps([each.to_json() for each in every])}'))
        return Answer(
            json.dumps(
                {"format": "fpstore.stats/1", **self._reader.ask(lambda store: store.stats()).to_json()}
            ).encode()
        )

    def health(self) -> Answer:
        """That it answers; what stands in its way is raised."""
        self._reader.ask(self.kind.expect_answers)
        return Answer(_document("health", '"status": "ok"'))


def _listed(kind: str, fields: str, items: Iterable[str], most: int) -> Answer:
    """A document that ends with a list; fields: what comes before it, its name at the end."""
    return Answer(_document(kind, f"{fields}: [{forms.SEPARATOR.join(forms.bounded(items, most))}]"))


def _document(kind: str, fields: str) -> bytes:
    return f'{{"format": "fpstore.{kind}/1", {fields}}}'.encode()
