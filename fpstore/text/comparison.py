"""Compares two texts as a recipe sees them: what it makes of them, Jaccard, cosine, and the shingles of one alone.

What the two measures are, and what they are of texts without shingles: fpstore/text/measures.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fpstore.fingerprints import as_numbers
from fpstore.text.asked import Asked
from fpstore.text.held import Features
from fpstore.text.measures import MEASURES, Measure
from fpstore.text.presets import DEFAULT_RECIPE, expect_recipe
from fpstore.text.recipe import Recipe, utf8

# A store's, unless it was made with another.
DEFAULT_DISTANCE = 3
# So many shingles of each text are named by default, and so much of each is shown.
SHOWN = 20
SHOWN_CHARACTERS = 200
# Shingles are looked for in so much of a text: as strings, its tokens take some hundred times as many bytes.
SEARCHED = 1 << 22


class Shingle(NamedTuple):
    """One feature of a text: its hash, its weight, and what it says.

    text: None of a shingle that lies behind the first 2^22 characters; "..." at the end of one that was cut.
    """

    text: str | None
    hash: int
    weight: float


@dataclass(frozen=True)
class Comparison:
    """How alike two texts are.

    first, second: their fingerprints; by a recipe of sketch minhash their signatures, as tuples of numbers. Then there
    is no max_distance, and bands, rows_per_band and min_similarity say what is near; similarity is estimated by what
    stores keep of a signature, and shared_bands in how many bands the two agree. first_count, second_count,
    common_count: distinct shingles, of each and in both. first_tokens, second_tokens: how many tokens each has.
    only_first, only_second: the shingles that weigh most of those that only the one has, of one weight in the order of
    the text; so many as were asked for.
    """

    recipe: Recipe
    first: Any
    second: Any
    max_distance: int | None
    jaccard: float
    cosine: float
    first_tokens: int
    second_tokens: int
    first_count: int
    second_count: int
    common_count: int
    only_first: tuple[Shingle, ...]
    only_second: tuple[Shingle, ...]
    bands: int | None = None
    rows_per_band: int | None = None
    min_similarity: float | None = None
    similarity: float | None = None
    shared_bands: int | None = None

    @property
    def distance(self) -> Any:
        """In how many bits the fingerprints differ; None of signatures."""
        return None if self.max_distance is None else int((self.first ^ self.second).bit_count())

    @property
    def near(self) -> bool:
        """Whether a store that goes by this takes the one for a near-duplicate of the other."""
        if self.max_distance is not None:
            return bool(self.distance <= self.max_distance)
        assert self.similarity is not None
        return bool(self.shared_bands) and self.similarity >= (self.min_similarity or 0)

    @property
    def only_first_count(self) -> int:
        """How many shingles only the first text has."""
        return self.first_count - self.common_count

    @property
    def only_second_count(self) -> int:
        """How many shingles only the second text has."""
        return self.second_count - self.common_count

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name; fingerprints and hashes as hex digits."""
        only = {
            f"only_{which}": [each._asdict() | {"hash": f"{each.hash:016x}"} for each in shingles]
            for which, shingles in (("first", self.only_first), ("second", self.only_second))
        }
        return {
            "recipe": self.recipe.to_json(),
            **self._sketches(),
            "near": self.near,
            "jaccard": self.jaccard,
            "cosine": self.cosine,
            "first_token_count": self.first_tokens,
            "second_token_count": self.second_tokens,
            "first_shingle_count": self.first_count,
            "second_shingle_count": self.second_count,
            "common_shingle_count": self.common_count,
            "only_first_count": self.only_first_count,
            "only_second_count": self.only_second_count,
            **only,
        }

    def _sketches(self) -> dict[str, Any]:
        if self.max_distance is None:
            names = ("similarity", "shared_bands", "bands", "rows_per_band", "min_similarity")
            return {name: getattr(self, name) for name in names}
        return {
            "first_fingerprint": self.recipe.hexadecimal(self.first),
            "second_fingerprint": self.recipe.hexadecimal(self.second),
            "distance": self.distance,
            "max_distance": self.max_distance,
        }


def compare(
    a: str | bytes,
    b: str | bytes,
    recipe: Recipe = DEFAULT_RECIPE,
    *,
    max_distance: int | None = None,
    bands: int | None = None,
    rows_per_band: int | None = None,
    min_similarity: float | None = None,
    shown: int = SHOWN,
) -> Comparison:
    """How alike two texts are by recipe; bytes are UTF-8.

    max_distance: what is called near, 3 by default for each 64 bits; by a recipe of sketch minhash what shares one of
    `bands` bands of so many values, 16 and 8 by default, and has an estimated similarity of min_similarity, if given.
    shown: how many of the shingles that only one has are named, of each text. Raises ValueError for one of these below
    0, a distance over the bits, bands that a signature does not have, and what says nothing about what the recipe
    makes.
    """
    near = Asked(max_distance, bands, rows_per_band, min_similarity)
    near.expect_of(expect_recipe(recipe))
    if not 0 <= (max_distance or 0) <= recipe.bits:
        raise ValueError(f"max_distance: found {max_distance}, expected 0..{recipe.bits}")
    if shown < 0:
        raise ValueError(f"shown: found {shown}, expected 0 or more")
    sketches, (first_tokens, second_tokens) = _sketched(recipe, [a, b], near)
    one, other = recipe.features(a), recipe.features(b)
    common = np.intersect1d(one.hashes, other.hashes, assume_unique=True)
    same_bytes = utf8(a) == utf8(b)
    jaccard, cosine = (Measure(name, recipe).between(one, other, same_bytes=same_bytes) for name in MEASURES)
    return Comparison(
        recipe=recipe,
        **sketches,
        jaccard=jaccard,
        cosine=cosine,
        first_tokens=first_tokens,
        second_tokens=second_tokens,
        first_count=len(one.hashes),
        second_count=len(other.hashes),
        common_count=len(common),
        only_first=tuple(_heaviest(recipe, a, one, common, shown)),
        only_second=tuple(_heaviest(recipe, b, other, common, shown)),
    )


def _sketched(recipe: Recipe, texts: list[str | bytes], near: Asked) -> tuple[dict[str, Any], list[int]]:
    """What a recipe makes of two texts, and what is called near, by the names of a Comparison; their tokens."""
    if recipe.sketch != "minhash":
        measured = recipe.measure_many(texts)
        first, second = as_numbers(measured.fingerprints)
        most = recipe.distance(DEFAULT_DISTANCE) if near.max_distance is None else near.max_distance
        return {"first": first, "second": second, "max_distance": most}, measured.token_counts.tolist()
    # As jobs and stores compare them, which is the engine's.
    from fpstore.living.memory import as_least, sketch_memory

    bands, rows = near.cut
    memory = sketch_memory(recipe.values, bands, rows)
    signatures, tokens = recipe.sign_counted(texts)
    cut = memory.cut(signatures)
    assert cut.sketches is not None
    found: dict[str, Any] = dict(zip(("first", "second"), map(tuple, signatures.tolist()), strict=True))
    found |= {"max_distance": None, "bands": bands, "rows_per_band": rows}
    found["min_similarity"] = as_least(near.min_similarity)
    found["similarity"] = float(memory.kept.similarity(cut.sketches[:1], cut.sketches[1:])[0])
    found["shared_bands"] = int(np.count_nonzero(cut.keys[0] == cut.keys[1]))
    return found, tokens.tolist()


def _heaviest(
    recipe: Recipe, text: str | bytes, features: Features, common: npt.NDArray[np.uint64], count: int
) -> Iterator[Shingle]:
    """The shingles that weigh most of those that are not in common, of one weight in the order of the text."""
    own = np.flatnonzero(~np.isin(features.hashes, common, assume_unique=True))
    count = min(count, len(own))
    if not count:
        return
    weights = features.weights[own]
    least = np.partition(weights, len(own) - count)[len(own) - count]
    weight_of = dict(zip(features.hashes[own].tolist(), weights.tolist(), strict=True))
    heavier = {each: weight for each, weight in weight_of.items() if weight > least}
    found: dict[int, str | None] = {}
    missing = count - len(heavier)  # of those that weigh just as much as the last one shown
    unseen = set(heavier)
    for each, shingle in recipe.shingles(text[:SEARCHED]):
        if each in unseen:
            unseen.remove(each)
        elif missing and weight_of.get(each) == least and each not in found:
            missing -= 1
        else:
            continue
        found[each] = shingle if len(shingle) <= SHOWN_CHARACTERS else shingle[: SHOWN_CHARACTERS - 3] + "..."
        if not unseen and not missing:
            break
    later = sorted(each for each, weight in weight_of.items() if weight == least and each not in found)
    found |= dict.fromkeys([*sorted(unseen), *later[:missing]])
    order = sorted(found, key=lambda each: -weight_of[each])
    yield from (Shingle(found[each], each, weight_of[each]) for each in order)
