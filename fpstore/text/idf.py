"""Learns a model from documents: in how many of them each shingle is.

Memory is bounded by MAX_SHINGLES, about 0.5 GiB, however large the corpus. Up to that many different shingles the
counts are exact. With more, all counts are lowered by the count of the first one too many, and those that reach zero
are forgotten (Misra and Gries, 1982; Agarwal and others, 2012, for batches). `uncounted` says by how much in all, and
is added again: a count is then at most that much too large. A shingle that the model does not name weighs as if one
document more than `uncounted` had it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fpstore.text.model import UNIT, Hashes, IdfModel, Weights
from fpstore.text.presets import expect_recipe
from fpstore.text.recipe import Recipe
from fpstore.text.several import expect_several
from fpstore.text.shared import features_many
from fpstore.workers import Workers

MAX_SHINGLES = 1 << 23
_BATCH_HASHES = 1 << 22  # are held before they are counted


def learn_idf(texts: Iterable[str | bytes], recipe: Recipe) -> IdfModel:
    """The model of texts, for the shingles of recipe: recipe.with_model(model) weighs by it.

    A file of model.to_bytes() is what load_recipe(name, idf=FILE) reads. ValueError where there are no texts.
    """
    expect_several(texts)
    learner = Learner(expect_recipe(recipe))
    for text in texts:
        learner.see(text)
    return learner.model()


class Learner:
    """Counts in how many documents each shingle is, in the bounded memory that the module states."""

    def __init__(self, recipe: Recipe, most: int = MAX_SHINGLES) -> None:
        self._recipe = replace(recipe, weights="presence", idf="", model=None)
        self._most = most
        self._documents = 0
        self._uncounted = 0
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.uint32)
        self._held: list[Hashes] = []
        self._held_count = 0

    def see(self, text: str | bytes) -> None:
        """Count the shingles of one document."""
        self._hold(self._recipe.features(text).hashes)

    def see_many(self, texts: Sequence[str], threads: int | None, workers: Workers) -> None:
        """Count those of several, which threads, and workers for what packages do, make."""
        for features in features_many(self._recipe, texts, threads, workers):
            self._hold(features.hashes)

    def _hold(self, hashes: Hashes) -> None:
        self._documents += 1
        self._held.append(hashes)
        self._held_count += len(hashes)
        if self._held_count >= min(_BATCH_HASHES, self._most):
            self._count_held()

    def model(self) -> IdfModel:
        """What was learned so far. Raises ValueError if that is nothing."""
        if self._documents == 0:
            raise ValueError("idf model: found no documents to learn from, expected at least one")
        self._count_held()
        counts = np.minimum(self._counts + np.uint32(self._uncounted), np.uint32(self._documents))
        common = self._counts > 1
        weight_of = np.zeros(self._documents + 1, dtype=np.uint32)
        for count in np.flatnonzero(np.bincount(counts[common])):
            # By math.log1p, for each count that there is: numpy's is not the same on every machine.
            weight_of[count] = self._weight(int(count))
        steps = self._recipe.steps()
        unseen = self._weight(min(self._uncounted + 1, self._documents))
        return IdfModel(
            steps, self._documents, self._uncounted, unseen, self._hashes[common], weight_of[counts[common]]
        )

    def _weight(self, count: int) -> int:
        return round(UNIT * math.log1p(self._documents / count))

    def _count_held(self) -> None:
        """Bring what is held into the counts, and the counts within bounds."""
        hashes, counts = _distinct(np.concatenate([np.empty(0, dtype=np.uint64), *self._held]))
        self._held, self._held_count = [], 0
        places = np.searchsorted(self._hashes, hashes)
        known = np.zeros(len(hashes), dtype=bool)
        inside = places < len(self._hashes)
        known[inside] = self._hashes[places[inside]] == hashes[inside]
        self._counts[places[known]] += counts[known]
        self._hashes = np.insert(self._hashes, places[~known], hashes[~known])
        self._counts = np.insert(self._counts, places[~known], counts[~known])
        surplus = len(self._hashes) - self._most
        if surplus > 0:
            lowered = np.partition(self._counts, surplus - 1)[surplus - 1]
            kept = self._counts > lowered
            self._hashes, self._counts = self._hashes[kept], self._counts[kept] - lowered
            self._uncounted += int(lowered)


def _distinct(hashes: Hashes) -> tuple[Hashes, Weights]:
    """The distinct hashes, increasing, and how often each occurs."""
    hashes.sort()
    first = np.ones(len(hashes), dtype=bool)
    first[1:] = hashes[1:] != hashes[:-1]
    starts = np.flatnonzero(first)
    return hashes[starts], np.diff(starts, append=len(hashes)).astype(np.uint32)
