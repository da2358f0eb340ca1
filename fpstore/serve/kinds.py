"""Owns what differs between services of fingerprints and of signatures: what is asked, and how answers are written."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fpstore import PlanError, Store
from fpstore.fingerprints import as_numbers
from fpstore.inputs import BadInput
from fpstore.minhash import MinHashStore
from fpstore.serve import forms
from fpstore.text import Recipe
from fpstore.types import Array

if TYPE_CHECKING:
    from fpstore.cluster import Shards

AnyStore = Store | MinHashStore

_SIMILAR = '{{"id": {}, "similarity": {}, "shared_bands": {}}}'
_QUERY_SIMILAR = '{{"query": {}, "id": {}, "similarity": {}, "shared_bands": {}}}'
_DOCUMENT = '{{"id": {}, "sketch": "{}"}}'
_STORED = '"stored": true, "match_id": null, "match_similarity": null, "match_shared_bands": null'
_KNOWN = '"stored": false, "match_id": {}, "match_similarity": {}, "match_shared_bands": {}'


class Kind(ABC):
    """parameter: what of probe and add_if_new says how near is near. digits: of a fingerprint, 0 without."""

    parameter: str
    digits: int = 0

    @abstractmethod
    def sketches(self, recipe: Recipe, texts: Sequence[str]) -> Array:
        """What the recipe makes of texts."""

    @abstractmethod
    def fingerprints(self, values: Any, what: str = "fingerprints") -> Array:
        """What programs write of what a store is asked for. BadInput."""

    @abstractmethod
    def told(self, sketch: Any) -> str:
        """What an answer to a line says of what was asked for, before its matches."""

    @abstractmethod
    def matches(self, found: Any, *, with_query: bool) -> Iterator[str]:
        """Each match as an object; with_query: the number of its query in it."""

    @abstractmethod
    def additions(self, found: Any) -> Iterator[str]:
        """What became of each row, as the fields of an object, without its brackets."""

    @abstractmethod
    def rows(self, found: Any) -> Iterator[str]:
        """Each row of a look-up as an object."""

    @abstractmethod
    def expect_takes(self, store: Any, nearness: float | None) -> None:
        """Raises what is wrong with the parameter."""

    def expect_bounded(self, store: Any, nearness: float | None) -> None:
        """Raises what is wrong with a nearness for which everything that the store holds would be read."""
        del store, nearness  # none is

    @abstractmethod
    def expect_nearest(self) -> None:
        """BadInput where a store of this kind has no nearest rows, however far they are."""

    @abstractmethod
    def expect_answers(self, store: Any) -> None:
        """Ask the store for nothing in particular. Raises what is wrong with it."""


class _OfFingerprints(Kind):
    """Fingerprints of so many bits."""

    parameter = "max_distance"

    def __init__(self, bits: int) -> None:
        self._bits, self.digits = bits, bits // 4

    def sketches(self, recipe: Recipe, texts: Sequence[str]) -> Array:
        return recipe.fingerprint_many(texts, threads=1)

    def fingerprints(self, values: Any, what: str = "fingerprints") -> Array:
        return forms.fingerprints_of(values, self._bits, what)

    def told(self, sketch: Any) -> str:
        return f'"{{}}fingerprint": "{forms.digits_of(as_numbers(np.asarray(sketch)[np.newaxis])[0], self._bits)}"'

    def matches(self, found: Any, *, with_query: bool) -> Iterator[str]:
        return forms.matches_of(found, self._bits, with_query=with_query)

    def additions(self, found: Any) -> Iterator[str]:
        return forms.additions_of(found, self._bits)

    def rows(self, found: Any) -> Iterator[str]:
        return forms.rows_of(found, self._bits)

    def expect_takes(self, store: Any, nearness: float | None) -> None:
        store.probe_many(np.empty(0, dtype=np.uint64), max_distance=nearness)

    def expect_bounded(self, store: Any, nearness: float | None) -> None:
        most = reach_of(store)
        if nearness is not None and nearness > most:
            raise PlanError(f"max_distance: found {nearness}, expected at most {most}, that of the store's plan")

    def expect_nearest(self) -> None:
        pass  # it has

    def expect_answers(self, store: Any) -> None:
        for each in stores_of(store):
            each.contains_near(0)


class _OfSignatures(Kind):
    """Signatures of so many values, which are asked for by texts."""

    parameter = "min_similarity"

    def __init__(self, values: int) -> None:
        self._values = values

    def sketches(self, recipe: Recipe, texts: Sequence[str]) -> Array:
        return recipe.sign_many(texts, threads=1)

    def fingerprints(self, values: Any, what: str = "fingerprints") -> Array:
        raise BadInput(f"{what}: found some, expected texts: the store has signatures")

    def expect_nearest(self) -> None:
        told = "found a store of signatures, expected fingerprints; /probe finds what is similar to texts"
        raise BadInput(f"nearest: {told}")

    def told(self, sketch: Any) -> str:
        return ""

    def matches(self, found: Any, *, with_query: bool) -> Iterator[str]:
        columns: list[Iterable[Any]] = [
            forms.cells_of(found.id, len(found)),
            map(_number, found.similarity.tolist()),
            found.shared_bands.tolist(),
        ]
        if with_query:
            columns.insert(0, found.query.tolist())
        return map((_QUERY_SIMILAR if with_query else _SIMILAR).format, *columns)

    def additions(self, found: Any) -> Iterator[str]:
        ids = forms.cells_of(found.match_id, len(found))
        similarity = map(_number, found.match_similarity.tolist())
        rows = zip(found.stored.tolist(), ids, similarity, found.match_shared_bands.tolist(), strict=True)
        return (_STORED if stored else _KNOWN.format(*match) for stored, *match in rows)

    def rows(self, found: Any) -> Iterator[str]:
        sketches = (each.hex() for each in found.sketch.tolist())
        return map(_DOCUMENT.format, forms.cells_of(found.id, len(found)), sketches)

    def expect_takes(self, store: Any, nearness: float | None) -> None:
        store.probe_many(np.empty((0, self._values), dtype=np.uint64), min_similarity=nearness)

    def expect_answers(self, store: Any) -> None:
        store.contains_near(np.zeros(self._values, dtype=np.uint64))


def is_list(store: object) -> bool:
    """Whether it is a list of stores, whose code nobody else has loaded."""
    return hasattr(store, "stores")


def stores_of(store: "Store | Shards") -> "tuple[Store, ...]":
    """It, or those of a list."""
    return (store,) if isinstance(store, Store) else store.stores


def reach_of(store: "Store | Shards") -> int:
    """The largest distance that the tables answer, of a list those of all its stores."""
    return min(each.plan.max_distance for each in stores_of(store))


def kind_of(store: "AnyStore | Shards") -> Kind:
    """That of a store, or of those of a list."""
    return _OfSignatures(store.values) if isinstance(store, MinHashStore) else _OfFingerprints(store.bits)


def of_fingerprints(bits: int) -> Kind:
    """That of any store of fingerprints of so many bits."""
    return _OfFingerprints(bits)


def _number(similarity: float) -> str:
    return forms.NO_ID if math.isnan(similarity) else json.dumps(round(similarity, 4))
