"""One text of each group of near-duplicates, of texts that are all in memory: decided as the job `dedup` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fpstore.text.asked import Asked
from fpstore.text.confirm import CONFIRMED_DISTANCE, DEFAULT_CONFIRM, Checker, Confirm
from fpstore.text.held import KeptHashes, Sets
from fpstore.text.presets import DEFAULT_RECIPE, expect_recipe
from fpstore.text.recipe import Measured, Recipe
from fpstore.text.several import expect_several
from fpstore.text.shared import begin_to_measure, begin_to_measure_and_keep
from fpstore.threads import thread_count
from fpstore.workers import Workers

Kept = Literal["first", "longest"]

# So many are decided together, or fewer of one text: their shingles take up to 16 times as many bytes.
_PIECE_CHARACTERS = 16 << 20


@dataclass(frozen=True, eq=False)
class Deduplicated:
    """Which texts are kept, and of each of the others for which one it is a duplicate.

    kept: int64[m], the places of those that are kept, increasing. duplicate_of: int64[n], the place of the kept text
    that each text is a duplicate of, its own where it is kept. distance: uint16[n], to that; of signatures the number
    of values that differ. similarity: float32[n], that of these, as it is estimated; None by fingerprints.
    """

    kept: npt.NDArray[np.int64]
    duplicate_of: npt.NDArray[np.int64]
    distance: npt.NDArray[np.uint16]
    similarity: npt.NDArray[np.float32] | None = None


def dedup(
    texts: Iterable[str | bytes],
    *,
    recipe: Recipe = DEFAULT_RECIPE,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    keep: Kept = "first",
    confirm: str | None = "default",
    threads: int | None = None,
) -> Deduplicated:
    """Keep one of each group of near-duplicates among texts, which are held in memory; bytes are UTF-8.

    A text that is near none that was kept before is kept; one that is near some is a duplicate of the nearest that is
    enough alike. These are the decisions of fpstore.jobs.dedup about the same documents in the same order. Near are
    fingerprints within max_distance, 6 by default for each 64 bits; by a recipe of sketch minhash signatures that share
    one of `bands` bands of so many values, by default 16 and 8, and have an estimated similarity of min_similarity, if
    given. keep: "first", or "longest", decided as if longer texts came first. confirm: what makes a near text a
    duplicate, such as "jaccard>=0.82", which is meant by "default"; None: that it is near. threads: for fingerprints;
    all processors by default. Time grows with the square of the texts where the recipe makes more than 64 bits. Raises
    ValueError for a value that is none of these, or says nothing about what the recipe makes, and TypeError for what is
    no text.
    """
    expect_several(texts)
    if keep not in get_args(Kept):
        raise ValueError(f"keep: found {keep!r:.40}, expected {' or '.join(get_args(Kept))}")
    asked = DEFAULT_CONFIRM if confirm == "default" else confirm
    check = None if asked is None else Confirm.parse(asked)
    held = [_text(text, place) for place, text in enumerate(texts)]
    order = np.arange(len(held))
    if keep == "longest":
        order = np.argsort([-len(text) for text in held], kind="stable")
    ordered = [held[place] for place in order.tolist()]
    count = thread_count(threads)
    near = Asked(max_distance, bands, rows_per_band, min_similarity)
    near.expect_of(expect_recipe(recipe))
    leaders = _leaders(recipe, near, check, ordered, count)
    found = leaders.decide(measured_apart(recipe, ordered, count).fingerprints)
    # The kept ones have the ids 0, 1, ... in the order in which they were decided.
    kept = order[np.flatnonzero(found["leads"])]
    duplicate_of, distance = np.empty(len(held), dtype=np.int64), np.empty(len(held), dtype=np.uint16)
    duplicate_of[order], distance[order] = kept[found["id"].astype(np.int64)], found["distance"]
    if recipe.sketch != "minhash":
        return Deduplicated(np.sort(kept), duplicate_of, distance)
    return Deduplicated(np.sort(kept), duplicate_of, distance, leaders.similarity(distance))


def measured_apart(recipe: Recipe, texts: Sequence[str], threads: int, workers: Workers | None = None) -> Measured:
    """As recipe.measure_many, with workers for what holds the interpreter's lock; but a text without tokens has in any
    case a hash of it as it stands for its fingerprint.

    So that texts without tokens, about which a sketch says nothing, are near each other only if they are equal.
    """
    return begin_to_measure_apart(recipe, texts, threads, workers or Workers(1), keeps=False)()[0]


def begin_to_measure_apart(
    recipe: Recipe, texts: Sequence[str], threads: int, workers: Workers, *, keeps: bool
) -> Callable[[], tuple[Measured, KeptHashes | None]]:
    """The same, of which workers do what they do before it is called; keeps: and the hashes of the shingles, for
    recipe.features_of; None where they are not wanted, or would take too much.
    """
    if keeps and recipe.keeps_hashes:
        begun = begin_to_measure_and_keep(recipe, texts, threads, workers)

        def with_hashes() -> tuple[Measured, KeptHashes | None]:
            measured, kept = begun()
            return _apart(recipe, texts, measured), kept

        return with_hashes
    alone = begin_to_measure(recipe, texts, threads, workers)
    return lambda: (_apart(recipe, texts, alone()), None)


def _apart(recipe: Recipe, texts: Sequence[str], measured: Measured) -> Measured:
    if not recipe.parts_empty:
        for index in np.flatnonzero(measured.token_counts == 0).tolist():
            measured.fingerprints[index] = recipe.without_tokens(texts[index])
    return measured


def _text(text: Any, place: int) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise TypeError(f"texts, item {place}: found a {type(text).__name__}, expected a text")
    return text


def _leaders(recipe: Recipe, near: Asked, check: Confirm | None, texts: Sequence[str], threads: int) -> Any:
    """The kept ones of texts, which come in this order: Leaders."""
    # What is searched in memory is the engine's, which is there when texts are deduplicated, and not when one is read.
    from fpstore.living.memory import as_least, key_memory, sketch_memory
    from fpstore.query.leaders import Leaders
    from fpstore.query.similar_leaders import SimilarLeaders

    class Told(Leaders):
        looks_on = check is not None

        def begin(self) -> None:
            self._places: list[int] = []  # of the kept ones, by id
            self._ahead = Sets.of([])
            self._ahead_places: dict[int, int] = {}

        def _number(self, indexes: list[int]) -> None:
            self._places += indexes

        def _end_of_piece(self, start: int, end: int) -> int:
            most = (ends[start - 1] if start else 0) + _PIECE_CHARACTERS
            return min(end, max(start + 1, int(np.searchsorted(ends, most, "right"))))

        def _look_ahead(self, indexes: npt.NDArray[np.int64]) -> Sets | None:
            if checker is None:
                return None
            self._ahead = checker.sets_of([texts[index] for index in indexes.tolist()])
            self._ahead_places = {index: place for place, index in enumerate(indexes.tolist())}
            return self._ahead

        def _sets_of(
            self, ids: npt.NDArray[np.uint64], *, ahead: bool, tell: Any = None
        ) -> Iterator[tuple[npt.NDArray[np.int64], Sets]]:
            assert checker is not None
            return checker.sets_of_kept(ids, ahead=ahead)

        def _say_nothing(self, sets: Sets) -> npt.NDArray[np.bool_]:
            assert checker is not None
            return checker.say_nothing(sets)

        def _first_alike(self, index: int, ids: list[int]) -> tuple[int | None, float]:
            assert checker is not None
            return checker.first_like(self._ahead[self._ahead_places[index]], lambda: texts[index], ids)[:2]

        def _mark(self, index: int) -> int:
            assert checker is not None
            return checker.mark(self._ahead[self._ahead_places[index]], lambda: texts[index])

        def _marks_of(self, ids: Sequence[int]) -> list[int]:
            assert checker is not None
            return checker.marks_of(ids)

        def texts_of(self, ids: list[int]) -> list[str]:
            return [texts[self._places[each]] for each in ids]

    class Kept(Told):
        def __init__(self) -> None:
            most = recipe.distance(CONFIRMED_DISTANCE) if near.max_distance is None else near.max_distance
            super().__init__(key_memory(most, len(texts), recipe.bits, threads), most, 0)

    class SimilarKept(Told, SimilarLeaders):
        def __init__(self) -> None:
            held = sketch_memory(recipe.values, *near.cut)
            SimilarLeaders.__init__(self, held, as_least(near.min_similarity), 0)

        def similarity(self, distances: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
            found: npt.NDArray[np.float32] = self._kept.estimates[distances]
            return found

    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    kept = SimilarKept() if recipe.sketch == "minhash" else Kept()
    kept.begin()
    checker = None if check is None else Checker(check, recipe, kept.texts_of, threads)
    kept.share = None if checker is None else checker.share
    return kept
