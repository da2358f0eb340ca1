"""Checks a match on the documents themselves: how alike are they, by a measure, and is that enough?

What the measures are: fpstore/text/measures.py.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fpstore.text._sums import xxh3
from fpstore.text.held import Counts, Features, Held, HeldHashes, KeptHashes, Room, Sets
from fpstore.text.measures import MEASURES, Measure
from fpstore.text.packed import Packed
from fpstore.text.passages import Replaced, replaced, tells_apart
from fpstore.text.recipe import Recipe, bytes_hash

# With a distance of 6 it drops at most one document in 1,000 wrongly of each corpus that docs/jobs.md names, and finds
# more than a distance of 3 alone. With 0.8 titles that differ in a year are dropped; with 0.85 it finds less.
DEFAULT_CONFIRM = "jaccard>=0.82"
CONFIRMED_DISTANCE = 6  # this and the next of 64 bits; of more as many more (Recipe.distance)
# Where nothing can be confirmed.
UNCONFIRMED_DISTANCE = 3


class Rooms(NamedTuple):
    """How much is held: for the features of kept documents, as they are looked at again and again, and for the hashes
    of those that came last, of which features are made in less time than of texts.
    """

    # With 16 MiB for features jobs take 14 to 27 MB more, and as long. With 16 for hashes those over long texts, of
    # which a third are near any earlier one, took 1.05 to 1.15 times the processor's time before passages told of them.
    # No more is taken than held.
    features: Room = Room(2 << 20)
    hashes: Room = Room(64 << 20)


_ROOMS = Rooms()

# So many kept documents are looked at together, but for the nearest, which as a rule is enough.
_AT_ONCE = 8
# Of kept documents: so many texts are read at first, more where those before were short, then as many as have about so
# many characters. Of those that are looked at ahead, until they have so many.
_TEXTS_AT_ONCE, _SHORT_TEXTS_AT_ONCE, _CHARACTERS_AT_ONCE, _AHEAD_CHARACTERS = 64, 1 << 9, 1 << 20, 4 << 20
# So many characters of a text take as much to be held as a hash.
_CHARACTERS_OF_A_HASH = 4
Ids = npt.NDArray[np.uint64]

# With larger ones the product with a count could be more than 128 bits have.
_MOST_SHARE = (1 << 63) - 1

_TYPED = re.compile(r"\s*([a-z]+)\s*>=\s*([0-9.]+)\s*")


@dataclass(frozen=True)
class Confirm:
    """What makes a match a duplicate: a measure, and the least that it has to be, 0 to 1."""

    measure: str
    least: float

    @classmethod
    def parse(cls, typed: str) -> "Confirm":
        """From "jaccard>=0.8" or "cosine>=0.9". Raises ValueError for anything else, TypeError for no text."""
        if not isinstance(typed, str):
            raise TypeError(f"confirm: found {typed!r:.40}, a {type(typed).__name__}, expected jaccard>=0.8 as a str")
        found = _TYPED.fullmatch(typed)
        try:
            measure, least = (found[1], float(found[2])) if found else ("", 0.0)
        except ValueError:
            measure, least = "", 0.0
        if measure not in MEASURES or not 0 <= least <= 1:
            # The word of the command line for it.
            nothing = ", or None" if typed == "none" else ""
            raise ValueError(
                f"confirm: found {typed!r:.40}, expected jaccard>=0.8 or cosine>=0.9, a number from 0 to 1{nothing}"
            )
        return cls(measure, least)

    @classmethod
    def settle(cls, typed: str | None, *, has_texts: bool) -> "Confirm | None":
        """What a job confirms by, None for nothing; "default" is DEFAULT_CONFIRM where all texts are there."""
        if typed == "default":
            typed = DEFAULT_CONFIRM if has_texts else None
        return None if typed is None else cls.parse(typed)

    def __str__(self) -> str:
        return f"{self.measure}>={self.least}"


class Laid(Protocol):
    """What holds the hashes of the shingles of kept documents, as HeldHashes does, where there is more room."""

    are_features: bool

    def add(self, first_id: int, kept: KeptHashes, indexes: Counts) -> None:
        """As HeldHashes."""

    def have(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """As HeldHashes."""

    def places(self, ids: Ids) -> tuple[Ids, Counts, Counts]:
        """As HeldHashes."""


# What is told of the texts of kept documents, given their places among those asked for: which are done with, bool[n].
Tell = Callable[[Counts, Packed[str]], npt.NDArray[np.bool_]]
# The features of kept documents at some of the places that were asked for, None for none, and about how many characters
# all had.
_Made = tuple[Counts, Sets | None, int]


class Found(NamedTuple):
    """Which of the kept documents is alike, as a place among those that were asked for, and how alike; None for none.

    refused: how many were looked at and are not.
    """

    place: int | None
    measure: float
    refused: int


class Checker:
    """Measures documents against kept ones, whose features it holds on to for a while."""

    def __init__(
        self,
        confirm: Confirm,
        recipe: Recipe,
        kept_texts: Callable[[list[int]], Sequence[str]],
        threads: int = 1,
        rooms: Rooms = _ROOMS,
        older: Laid | None = None,
    ) -> None:
        """kept_texts: the texts of kept documents. threads: that make features of several texts. older: what holds the
        hashes of all kept documents, where that is worth it.
        """
        # The decimal number that was typed, not the binary one next to it.
        self._least = Fraction(repr(confirm.least))
        self._measure = Measure(confirm.measure, recipe)
        self._recipe = recipe
        self._kept_texts, self._threads = kept_texts, threads
        # By the distinct shingles alone, which C finds among hashes as they come, in whatever order.
        self._counts = self.share is not None
        self._tells_apart = self._counts and tells_apart(recipe)
        self._held = Held(rooms.features, weighs=not self._counts and recipe.weights != "presence")
        self._hashes = HeldHashes(rooms.hashes)
        self._hashes.stays = self._tells_apart  # as long as nothing else is known
        self._told = self._whole = 0  # of texts that were read again: by passages, and hashed as a whole
        self._older = older
        self._kept = 0
        self._at_first = _TEXTS_AT_ONCE

    @property
    def share(self) -> tuple[int, int] | None:
        """Of the shingles that either of two documents has, the share that both have where they are alike enough.

        As two numbers below 2^63. None for another measure, of which first_like tells.
        """
        least = self._least.numerator, self._least.denominator
        return least if self._measure.counts and max(least) <= _MOST_SHARE else None

    def sets_of(self, texts: Sequence[str]) -> Sets:
        """The features of texts. Work for all threads."""
        return self._recipe.features_many(texts, threads=self._threads)

    def sets_of_hashes(self, kept: KeptHashes, indexes: Counts) -> Sets:
        """The same of texts with these indexes, by the hashes that were kept of all; listed, where that is enough."""
        own = kept.sets(indexes)
        return own if self._counts else self._in_order(own)

    def features_in(self, sets: Sets, index: int) -> Features:
        """Those of one document of some, in order."""
        alone = slice(index, index + 1)
        return self._in_order(replace(sets, starts=sets.starts[alone], counts=sets.counts[alone]))[0]

    def _in_order(self, sets: Sets) -> Sets:
        """The same, of which none is listed."""
        if not sets.are_listed:
            return sets
        return self._recipe.features_of(sets.hashes, sets.starts, sets.counts, threads=self._threads)

    def hold(self, kept_ids: Ids, sets: Sets) -> None:
        """Documents that were just kept have these features, so that their texts need not be read for them."""
        if len(kept_ids):
            self._held.add(kept_ids, sets)

    def hold_hashes(self, first_id: int, kept: KeptHashes, indexes: Counts) -> None:
        """The same of texts with these indexes, in order, as of sets_of_hashes; their ids go on from first_id."""
        self._hashes.add(first_id, kept, indexes)
        if self._older is not None:
            self._older.add(first_id, kept, indexes)
        self._kept += len(indexes)
        self._held.see(self._kept)

    def sets_of_kept(
        self, kept_ids: Ids, *, ahead: bool = False, tell: Tell | None = None
    ) -> Iterator[tuple[Counts, Sets]]:
        """The features of kept documents, uint64[n], all different, in parts: the places among them, and the features.

        ahead: of those that are not held, no more than a bounded number of characters at a time. What is given is good
        until more is held; some may be listed. tell: what is told of the texts that are read; it says of which of them
        no features are asked for any more.
        """
        places = np.arange(len(kept_ids))
        slots = self._held.slots(kept_ids)
        is_held = slots >= 0
        if is_held.any():
            yield places[is_held], self._held.sets(slots[is_held])
            places = places[~is_held]
        last = self._hashes.have(kept_ids[places])
        if last.any():
            hashes, starts, counts = self._hashes.places(kept_ids[places[last]])
            made = Sets(hashes, None, starts, counts, not self._hashes.are_features)
            if self._hashes.has_dropped and self._held.has_room(made):
                # It may be asked for again when these hashes are no longer held.
                self._held.add(kept_ids[places[last]], made.together())
            yield places[last], made
            places = places[~last]
        if self._older is not None:
            laid = self._older.have(kept_ids[places])
            yield from self._made(kept_ids, places[laid], self._of_older, ahead=ahead)
            places = places[~laid]
        yield from self._made(kept_ids, places, partial(self._of_texts, tell), ahead=ahead)

    def _made(
        self, kept_ids: Ids, places: Counts, make: Callable[[Ids, Counts], _Made], *, ahead: bool
    ) -> Iterator[tuple[Counts, Sets]]:
        """The features that are not held, some at a time; make: those of ids at some places, as far as asked for."""
        size, count, asked = 0, self._at_first, 0
        while len(places) and not (ahead and size >= _AHEAD_CHARACTERS):
            some, places = places[:count], places[count:]
            asked += len(some)
            some, made, characters = make(kept_ids, some)
            size += characters
            count = max(1, _CHARACTERS_AT_ONCE * asked // (size + 1))
            self._at_first = min(max(count, _TEXTS_AT_ONCE), _SHORT_TEXTS_AT_ONCE)
            if made is not None:
                self._held.add(kept_ids[some], made)
                yield some, made

    def _of_older(self, kept_ids: Ids, places: Counts) -> _Made:
        assert self._older is not None
        column, starts, counts = self._older.places(kept_ids[places])
        made = Sets(column, None, starts, counts, not self._older.are_features)
        return places, made, _CHARACTERS_OF_A_HASH * len(column)

    def _of_texts(self, tell: Tell | None, kept_ids: Ids, places: Counts) -> _Made:
        texts = self._kept_texts(kept_ids[places].tolist())
        asked = len(places)
        if not isinstance(texts, Packed):
            characters = sum(map(len, texts))
        else:
            characters = int(texts.sizes.sum())
            if tell is not None:
                left = (~tell(places, texts)).nonzero()[0]
                places, texts = places[left], texts if len(left) == asked else texts.take(left)
        made = self._recipe.features_many(texts, threads=self._threads) if len(places) else None
        self._told += asked - len(places)
        self._whole += len(places)
        # Where most are told so, hashes at hand spare little, and to hold those of each document takes longer.
        self._hashes.stays = self._told > self._whole
        return places, made, characters

    def replaced(self, texts: Packed[str], indexes: Counts, others: Packed[str], which: Counts) -> Replaced | None:
        """What other texts have in place of hashes that were kept of texts, pair by pair: fpstore.text.passages."""
        if not self._tells_apart:
            return None
        return replaced(self._recipe, texts, indexes, others, which)

    def say_nothing(self, sets: Sets) -> npt.NDArray[np.bool_]:
        """Which documents have features that tell nothing about them: bool[n]. Of a measure with a share."""
        return self._measure.say_nothing(sets)

    def first_alike(self, text: str, kept_ids: Sequence[int]) -> Found:
        """The first of kept documents that is enough like a text; one with the same bytes anyhow."""
        return self.first_like(self._recipe.features(text), lambda: text, kept_ids)

    def first_like(self, features: Features, text: Callable[[], str], kept_ids: Sequence[int]) -> Found:
        """The same of a text whose features are known; text: gives it, where its bytes are asked for."""
        if self._measure.says_nothing(features):
            return self._first_equal(text(), kept_ids)
        start, end = 0, 1
        while start < len(kept_ids):
            kept = self._of_kept(kept_ids[start:end])
            for place, share in enumerate(self._measure.shares(features, kept), start):
                if share.reaches(self._least) and not self._measure.says_nothing(kept[place - start]):
                    return Found(place, float(share), place)
            start, end = end, end + _AT_ONCE
        return Found(None, math.nan, len(kept_ids))

    def _first_equal(self, text: str, kept_ids: Sequence[int]) -> Found:
        for place, kept_id in enumerate(kept_ids):
            if [*self._kept_texts([kept_id])] == [text]:
                return Found(place, 1.0, place)
        return Found(None, math.nan, len(kept_ids))

    def mark(self, features: Features, text: Callable[[], str]) -> int:
        """A number of 64 bits that is the same for texts which are wholly alike: with the same features, or bytes."""
        return bytes_hash(text()) if self._measure.says_nothing(features) else _digest(features)

    def marks_of(self, kept_ids: Sequence[int]) -> list[int]:
        """The same of kept documents, whose texts are held together."""
        texts = self._kept_texts(list(kept_ids))
        made = self._recipe.features_many(texts, threads=self._threads)
        return [
            bytes_hash(text) if self._measure.says_nothing(features) else _digest(features)
            for features, text in zip(made, texts, strict=True)
        ]

    def _of_kept(self, kept_ids: Sequence[int]) -> list[Features]:
        distinct = list(dict.fromkeys(kept_ids))
        found: dict[int, Features] = {}
        for places, sets in self.sets_of_kept(np.array(distinct, dtype=np.uint64)):
            in_order = self._in_order(sets)
            found |= {distinct[place]: features for place, features in zip(places.tolist(), in_order, strict=True)}
        return [found[kept_id] for kept_id in kept_ids]


def _digest(features: Features) -> int:
    return xxh3(features.hashes.tobytes() + features.weights.tobytes())
