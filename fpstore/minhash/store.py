"""The store of MinHash signatures: what users hold. Every document that shares a band is found, with an estimate."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import numpy as np

from fpstore.arrays import as_count, as_keys, as_signatures, as_similarity, parse_memory
from fpstore.base import Reading, _BaseStore
from fpstore.errors import RecipeError, TooManyMatches
from fpstore.living import changes
from fpstore.living.crowd import is_similar
from fpstore.living.documents import DocumentWriter
from fpstore.living.named import in_handles, names_in
from fpstore.living.similar import Similar, answer, candidates, joined
from fpstore.living.similar_pairs import named_similar_pairs, similar_pairs
from fpstore.living.sketched import all_sketches, distinct_ids, sketches_of
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Minhash
from fpstore.minhash.signing import sign
from fpstore.names.column import Names, as_names
from fpstore.progress import OnProgress, Tell, told
from fpstore.query.matches import MAX_MATCHES, Room
from fpstore.query.similar import Documents, SimilarAdditions, SimilarMatches, SimilarPairs
from fpstore.sketches.bands import Signed
from fpstore.sketches.pending import in_order
from fpstore.threads import slices, thread_count
from fpstore.types import Array, Ids, Keys

# Signatures of one call without the lock.
SLICE_QUERIES = 256
MIN_SLICE = 32
# Where more rows share a band with a signature, it is looked for one that is similar, and not for all.
CROWD_ROWS = 1 << 12
# Why nothing is removed from a store without ids.
KEPT_ONCE = "found no ids, so a key that several documents share is there once, and to remove one would hide the others"
# Documents of a batch of rows().
DOCUMENTS_AT_ONCE = 1 << 16


class MinHashStore(_BaseStore):
    """An open store of MinHash signatures. Safe to use from several threads; pickles as its path, opened for reading.

    Every document that shares a band with a signature is found: a band is rows_per_band values, all equal. Similarity
    is an estimate of Jaccard's, from some bits of each value. Each call answers from the state of its beginning.
    """

    max_matches = MAX_MATCHES
    # Whether answers have what stands for names in place of them; for jobs, which ask for many more than they tell.
    _gives_handles = False
    _writer = DocumentWriter
    _living: DocumentWriter

    # --- What it is ---

    @property
    def kind(self) -> Literal["minhash"]:
        """What is kept of a document: "minhash", a signature, like others by how many of their values are equal."""
        return "minhash"

    @property
    def bands(self) -> int:
        """In how many bands a signature is cut."""
        return self._minhash.bands

    @property
    def rows_per_band(self) -> int:
        """How many values a band has."""
        return self._minhash.rows_per_band

    @property
    def values(self) -> int:
        """How many values a signature has."""
        return self._minhash.values

    @property
    def _minhash(self) -> Minhash:
        minhash = self._settings.minhash
        assert minhash is not None
        return minhash

    def _searched(self) -> str:
        return f"{self.bands} bands of {self.rows_per_band} values"

    # --- Texts ---

    def signature(self, text: str | bytes) -> Array:
        """The signature of a text by the store's own recipe: uint32[values], or uint64. RecipeError without one."""
        found: Array = self.signature_many([text], threads=1)[0]
        return found

    def signature_many(self, texts: Iterable[str | bytes], *, threads: int | None = None) -> Array:
        """The signatures of texts, in their order, by the store's own recipe: integers[n, values].

        threads: how many at once, all processors by default. RecipeError in a store that has no recipe.
        """
        recipe = self.recipe
        if recipe is None:
            raise RecipeError("found no recipe for texts in it, expected a store made with one", path=self.path)
        return sign(texts, recipe, threads=threads)

    def probe_text(self, text: str | bytes, *, min_similarity: float | None = None) -> SimilarMatches:
        """As probe, for the signature of a text by the store's own recipe."""
        return self.probe(self.signature(text), min_similarity=min_similarity)

    def add_texts(self, texts: Iterable[str | bytes], *, ids: object = None) -> None:
        """As add, for the signatures of texts by the store's own recipe."""
        self.add(self.signature_many(texts), ids=ids)

    def add_texts_if_new(
        self, texts: Iterable[str | bytes], *, ids: object = None, min_similarity: float | None = None
    ) -> SimilarAdditions:
        """As add_if_new, for the signatures of texts by the store's own recipe."""
        return self.add_if_new(self.signature_many(texts), ids=ids, min_similarity=min_similarity)

    # --- Searching ---

    def probe(self, signature: object, *, min_similarity: float | None = None) -> SimilarMatches:
        """Every stored document that shares a band with this signature (integers[values]), the most similar first.

        min_similarity: only those whose estimated similarity is that or more.
        """
        queries = self._in_bands(_one(signature))
        least = self._least(min_similarity)
        with Reading(self) as snapshot:
            found = candidates(snapshot, queries, least, room=Room(1, self.max_matches))
            return self._out(answer(snapshot, found))

    def probe_many(
        self, signatures: object, *, min_similarity: float | None = None, threads: int | None = None
    ) -> SimilarMatches:
        """Every stored document that shares a band with each of signatures (integers[n, values]).

        .query of the answer is the index of the signature. threads: how many at once, all processors by default.
        TooManyMatches for more than 2^26 rows, or for that many rows of documents that share a band, of some hundred.
        """
        given, least = self._array(signatures), self._least(min_similarity)
        return self._answer(len(given), lambda own: self._cut(given[own]), least, thread_count(threads))

    def _answer(
        self, size: int, cut: Callable[[slice], Signed], least: float | None, threads: int, most: int | None = None
    ) -> SimilarMatches:
        """As probe_many of so many signatures. cut: gives some of them as they are compared.

        most: TooManyMatches where more rows have to be looked at for it.
        """
        room = Room(size, self.max_matches) if most is None else Room(size, min(most, self.max_matches), most)
        with Reading(self) as snapshot:

            def search(own: slice) -> Similar:
                self._expect_usable()
                return candidates(snapshot, cut(own), least, own.start, room)

            try:
                parts = self._team(threads).map(search, slices(size, threads, SLICE_QUERIES, MIN_SLICE))
            except TooManyMatches as error:  # which may be about some of the queries only
                raise error.of_all(size, self.max_matches) from None
            found = joined(parts or [search(slice(0, 0))])
            return self._out(SimilarMatches(*found) if self._gives_handles else answer(snapshot, found))

    def contains_near(self, signature: object, *, min_similarity: float | None = None) -> bool:
        """Whether a stored document shares a band with this signature, and has that estimated similarity or more."""
        queries, least = self._in_bands(_one(signature)), self._least(min_similarity)
        with Reading(self) as snapshot:
            # Without ids a key has a row in each segment, and all else is in memory.
            room = Room(1, self.max_matches, CROWD_ROWS) if self._settings.ids else None
            try:
                return len(candidates(snapshot, queries, least, room=room).query) > 0
            except TooManyMatches:
                return is_similar(snapshot, queries, least)

    def pairs(
        self, *, min_similarity: float | None = None, memory: str | int = "1GiB", progress: OnProgress | None = None
    ) -> Iterator[SimilarPairs]:
        """Every two ids that share a band, each pair once, in no order, a batch at a time.

        min_similarity: only those whose estimated similarity is that or more. memory: the budget for sorting; the keys
        of documents that share any lie in files without a name in the system's folder for such. ValueError without ids.
        """
        least, budget = self._least(min_similarity), parse_memory(memory)
        self._expect_ids("which pairs are of")
        with Reading(self) as snapshot:
            return self._pairs(snapshot, least, budget, told(progress))

    def _pairs(
        self, snapshot: Snapshot, least: float | None, memory_bytes: int, tell: Tell | None
    ) -> Iterator[SimilarPairs]:
        with Reading(self, snapshot):
            for found, share in similar_pairs(snapshot, memory_bytes, least):
                if tell:
                    tell("pairs", int(1000 * share), 1000)
                if len(found):
                    bare = snapshot.names is None or self._gives_handles
                    yield self._out(found if bare else named_similar_pairs(snapshot, found))
                self._expect_usable()

    def _graph(
        self, min_similarity: float | None, memory: str | int, progress: OnProgress | None
    ) -> tuple[Ids, Array, Iterator[SimilarPairs]]:
        """Of one state the ids of all documents, each once, in order, of names what stands for them; these as answers
        have them; and the pairs, by the first.
        """
        least, budget = self._least(min_similarity), parse_memory(memory)
        self._expect_ids("which pairs are of")
        self._gives_handles = True
        with Reading(self) as snapshot:
            if snapshot.settings.kept is None:
                chunks = (own for _, own in snapshot.rows() if own is not None)
            else:
                chunks = (own for own, _ in all_sketches(snapshot))
            ids = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *map(np.unique, chunks)]))
            told_as: Array = ids if snapshot.names is None else names_in(snapshot, ids)
            return ids, told_as, self._pairs(snapshot, least, budget, told(progress))

    def count_pairs(
        self, *, min_similarity: float | None = None, memory: str | int = "1GiB", progress: OnProgress | None = None
    ) -> int:
        """How many pairs `pairs` would yield, without returning them."""
        least, budget = self._least(min_similarity), parse_memory(memory)
        self._expect_ids("which pairs are of")
        total, tell = 0, told(progress)
        with Reading(self) as snapshot:
            for found, share in similar_pairs(snapshot, budget, least, estimated=least is not None):
                self._expect_usable()
                if tell:
                    tell("pairs", int(1000 * share), 1000)
                total += len(found)
        return total

    def count(self) -> int:
        """How many documents there are: distinct ids, or signatures that differ in their first band without ids.

        Reads the sketches of all; all rows of a store that keeps none, or the first band where there are no ids.
        """
        with Reading(self) as snapshot:
            if not snapshot.settings.ids:
                return sum(len(keys) for keys, _ in self._first_band(snapshot))
            if snapshot.settings.kept is None:
                # Of each band, as one that was recovered may lack some rows of any.
                return distinct_ids(ids for _, ids in snapshot.rows() if ids is not None)
            count, last = 0, None
            for ids, _ in all_sketches(snapshot):
                count += int(np.count_nonzero(ids[1:] != ids[:-1])) + (last is None or int(ids[0]) != last)
                last = int(ids[-1])
            return count

    def _first_band(self, snapshot: Snapshot) -> Iterator[tuple[Keys, Ids | None]]:
        """The keys of band 0, each once, with their ids."""
        end = np.uint64(self._minhash.banding(snapshot.settings.bits).first_key(1) - 1)
        for keys, ids in snapshot.rows():
            own = int(keys.searchsorted(end, side="right"))
            yield keys[:own], None if ids is None else ids[:own]
            if own < len(keys):
                return

    def rows(self, *, batch: int = DOCUMENTS_AT_ONCE) -> Iterator[Documents]:
        """All that is stored, at most `batch` documents at a time, by id; those of names in the order of their coming.

        A document for each signature of an id. ValueError in a store that keeps no signatures.
        """
        most = as_count(batch, "batch")
        self._expect_kept("rows")
        with Reading(self) as snapshot:
            return self._rows(snapshot, most)

    def _rows(self, snapshot: Snapshot, most: int) -> Iterator[Documents]:
        with Reading(self, snapshot):
            for ids, sketches in all_sketches(snapshot):
                for start in range(0, len(ids), most):
                    self._expect_usable()
                    yield self._documents(snapshot, ids[start : start + most], sketches[start : start + most])

    def lookup(self, ids: object) -> Documents:
        """The documents of these ids, in their order, each once; ids that are not there have none."""
        given = self._given_ids(ids)
        self._expect_kept("lookup")
        with Reading(self) as snapshot:
            (asked,) = in_handles(snapshot, (given,))
            _, first = np.unique(asked, return_index=True)
            asked = asked[np.sort(first)]
            of, sketches = sketches_of(snapshot, asked)
            places, sketches = in_order(of.view(np.uint64), sketches)  # several segments may have one
            return self._documents(snapshot, asked[places.view(np.int64)], sketches)

    def _documents(self, snapshot: Snapshot, ids: Ids, sketches: Keys) -> Documents:
        column = np.empty(len(ids), dtype=object)
        data = sketches.astype("<u8").tobytes()
        size = 8 * sketches.shape[1]
        column[:] = [data[start : start + size] for start in range(0, len(data), size)]
        own: Array = ids if snapshot.names is None else names_in(snapshot, ids)
        return self._out(Documents(own, column))

    # --- Changing ---

    def add(self, signatures: object, *, ids: object = None) -> None:
        """Store signatures (integers[n, values]), each with its id in a store with ids; see open about durability.

        All of them are stored, or none. Found by the next probe of any process. An id may have several signatures.
        """
        self._expect_documents().add_documents(*self._given(signatures, ids))

    def add_if_new(
        self, signatures: object, *, ids: object = None, min_similarity: float | None = None
    ) -> SimilarAdditions:
        """Store those of signatures that are like none stored before, nor like one among them; up to 2^20.

        Like: they share a band, and have that estimated similarity or more. Tells for each the most similar match, or
        that it was stored. One step: no other addition comes in between.
        """
        writer, least = self._expect_documents(), self._least(min_similarity)
        return self._out(writer.add_new(*self._given(signatures, ids), least))

    def upsert(self, signatures: object, *, ids: object) -> None:
        """Store signatures, each with its id, in place of every one that has this id; up to 2^20.

        One step, durable when it returns. An id that is not there is added. Of an id that comes twice the last counts.
        ValueError in a store without ids.
        """
        writer = self._expect_documents()
        self._expect_ids("whose documents can be replaced")
        signed, given = self._given(signatures, ids)
        assert given is not None
        writer.upsert_documents(signed, given)

    def remove(self, *, ids: object) -> None:
        """Remove the documents of ids. Durable, all of it or nothing, when it returns. All may come again.

        What is not there is no error. ValueError in a store without ids: a key that several documents share is there
        once, so to remove one of them would hide the others.
        """
        writer = self._expect_documents()
        if not self._settings.ids:
            told = "expected a store with ids, which are what is removed; keep_signatures=False makes the smallest"
            raise ValueError(f"{self.path}: {KEPT_ONCE}: {told}")
        writer.remove(changes.IDS_REMOVED, self._given_ids(ids))

    # --- What is given ---

    def _array(self, signatures: object) -> Array:
        return as_signatures(signatures, "signatures", self.values)

    def _in_bands(self, signatures: object) -> Signed:
        return self._cut(self._array(signatures))

    def _cut(self, signatures: Array) -> Signed:
        minhash = self._minhash
        kept = minhash.kept if self._settings.ids else None
        sketches = None if kept is None else kept.sketches(signatures)
        return Signed(minhash.banding(self._settings.bits).keys(signatures), sketches)

    def _given(self, signatures: object, ids: object) -> tuple[Signed, Ids | Names | None]:
        signed = self._in_bands(signatures)
        if not self._settings.ids:
            if ids is not None:
                raise ValueError(f"{self.path}: the store has no ids, expected signatures alone")
            return signed, None
        if ids is None:
            raise ValueError(f"{self.path}: the store has ids, expected one for each signature")
        given = self._given_ids(ids)
        count = given.size
        if count != signed.size:
            raise ValueError(f"{count} ids for {signed.size} signatures: expected one for each")
        return signed, given

    def _given_ids(self, ids: object) -> Ids | Names:
        settings = self._settings
        return as_names(ids, settings.id_type == "string", "ids") if settings.named else as_keys(ids, "ids")

    def _least(self, min_similarity: float | None) -> float | None:
        if min_similarity is None:
            return None
        least = as_similarity(min_similarity, "min_similarity")
        self._expect_kept("min_similarity")
        return least

    def _expect_kept(self, what: str) -> None:
        if self._settings.kept is None or not self._settings.ids:
            raise ValueError(f"{self.path}: {what}: found a store that keeps no signatures, expected one that does")

    def _expect_ids(self, what: str) -> None:
        if not self._settings.ids:
            raise ValueError(f"{self.path}: the store has no ids, expected one with ids, {what}")

    def _expect_documents(self) -> DocumentWriter:
        writer = self._expect_writer()
        assert isinstance(writer, DocumentWriter)
        return writer


def _one(signature: object) -> Array:
    if isinstance(signature, str):
        raise TypeError(
            "signature: found a str, expected a signature, as signature(text) makes it, or probe_text(text)"
        )
    array = np.asarray(signature)
    if array.ndim != 1:
        raise ValueError(f"signature: found {array.ndim} dimensions, expected 1")
    return array[None, :]
