"""Answers about MinHash signatures: documents that share a band, with the similarity that is estimated."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fpstore.query.tables import Table, read_only
from fpstore.types import Array, Counts


class SimilarMatch(NamedTuple):
    """A stored document that shares a band with a query."""

    query: int
    id: Any
    similarity: float
    shared_bands: int


class SimilarMatches(Table[SimilarMatch]):
    """Documents that share a band with queries, ordered by (query, -similarity, id): one row for each id.

    Of an id with several signatures, similarity is the largest, and a band is shared that any of them shares. Without
    signatures to estimate by, similarity is NaN; in a store without ids there is one row for a query, and no id.
    """

    __slots__ = ()

    NAMES = ("query", "id", "similarity", "shared_bands")
    FINGERPRINTS = ()

    _columns: tuple[Counts, Array | None, Array, Array]

    def __init__(self, query: Array, id: Array | None, similarity: Array, shared_bands: Array) -> None:
        self._columns = read_only(query, id, similarity, shared_bands)

    @property
    def query(self) -> Counts:
        """int64[m]: the index of the query."""
        return self._columns[0]

    @property
    def id(self) -> Array | None:
        """uint64[m], or names; None in a store without ids."""
        return self._columns[1]

    @property
    def similarity(self) -> Array:
        """float32[m]: the estimated Jaccard similarity."""
        return self._columns[2]

    @property
    def shared_bands(self) -> Array:
        """uint16[m]: in how many bands the two agree."""
        return self._columns[3]

    def _records(self, columns: Sequence[Any]) -> Iterator[SimilarMatch]:
        return map(SimilarMatch._make, zip(*columns, strict=False))

    def _told(self) -> str:
        return f"{len(self)} rows, {np.count_nonzero(np.diff(self.query, prepend=-1))} queries with a match"


class SimilarPair(NamedTuple):
    """The ids of two documents that share a band; first_id < second_id, names by their bytes."""

    first_id: Any
    second_id: Any
    similarity: float
    shared_bands: int


class SimilarPairs(Table[SimilarPair]):
    """Pairs of ids that share a band, each once, in no particular order."""

    __slots__ = ()

    NAMES = ("first_id", "second_id", "similarity", "shared_bands")
    FINGERPRINTS = ()

    _columns: tuple[Array, Array, Array, Array]

    def __init__(self, first_id: Array, second_id: Array, similarity: Array, shared_bands: Array) -> None:
        self._columns = read_only(first_id, second_id, similarity, shared_bands)

    @property
    def first_id(self) -> Array:
        """uint64[m], or names: the smaller of the two ids, as a number without a sign, or by its bytes."""
        return self._columns[0]

    @property
    def second_id(self) -> Array:
        """As first_id: the larger."""
        return self._columns[1]

    @property
    def similarity(self) -> Array:
        """float32[m]: the estimated Jaccard similarity; NaN where no signatures are kept."""
        return self._columns[2]

    @property
    def shared_bands(self) -> Array:
        """uint16[m]: in how many bands the two agree."""
        return self._columns[3]

    def _records(self, columns: Sequence[Any]) -> Iterator[SimilarPair]:
        return map(SimilarPair._make, zip(*columns, strict=True))


class SimilarAddition(NamedTuple):
    """What became of a signature: whether it was stored, and, where it was not, its most similar match."""

    stored: bool
    match: SimilarMatch | None


class SimilarAdditions(Table[SimilarAddition]):
    """What became of each signature of a batch, as columns; of those that were stored the others hold 0, or a null.

    places: the index of each in the batch, which is the query of its match.
    """

    __slots__ = ("_places",)

    NAMES = ("stored", "match_id", "match_similarity", "match_shared_bands")
    FINGERPRINTS = ()

    _columns: tuple[Array, Array | None, Array, Array]

    def __init__(
        self,
        stored: Array,
        match_id: Array | None,
        match_similarity: Array,
        match_shared_bands: Array,
        places: range | None = None,
    ) -> None:
        self._columns = read_only(stored, match_id, match_similarity, match_shared_bands)
        self._places = range(len(stored)) if places is None else places

    @property
    def stored(self) -> Array:
        """bool[n]: whether it was like none that came before."""
        return self._columns[0]

    @property
    def match_id(self) -> Array | None:
        """uint64[n], or names: of the most similar match; None in a store without ids."""
        return self._columns[1]

    @property
    def match_similarity(self) -> Array:
        """float32[n]: that match's estimated similarity."""
        return self._columns[2]

    @property
    def match_shared_bands(self) -> Array:
        """uint16[n]: in how many bands it agrees."""
        return self._columns[3]

    def _records(self, columns: Sequence[Any]) -> Iterator[SimilarAddition]:
        for place, (stored, *match) in zip(self._places, zip(*columns, strict=False), strict=True):
            yield SimilarAddition(stored, None if stored else SimilarMatch(place, *match))

    def _rest(self, rows: slice) -> tuple[range]:
        return (self._places[rows],)

    def _nulls(self, name: str) -> Array | None:
        return None if name == "stored" else self.stored

    def _told(self) -> str:
        return f"{np.count_nonzero(self.stored)} of {len(self)} stored"


class Document(NamedTuple):
    """An id, and what is kept of a signature of it, as bytes; None where nothing is."""

    id: Any
    sketch: bytes | None


class Documents(Table[Document]):
    """What is stored, as columns: an id for each of its signatures, and what is kept of that."""

    __slots__ = ()

    NAMES = ("id", "sketch")
    FINGERPRINTS = ()

    _columns: tuple[Array, Array | None]

    def __init__(self, id: Array, sketch: Array | None) -> None:
        self._columns = read_only(id, sketch)

    @property
    def id(self) -> Array:
        """uint64[m], or names."""
        return self._columns[0]

    @property
    def sketch(self) -> Array | None:
        """Bytes, object[m]: some bits of each value; None in a store that keeps none."""
        return self._columns[1]

    def _records(self, columns: Sequence[Any]) -> Iterator[Document]:
        return map(Document._make, zip(*columns, strict=False))
