"""Owns what of texts is shared out to processes: reading HTML, and steps of a recipe that packages do.

What it gives is what this process alone would give, whoever makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from fpstore.nursery import Ready
from fpstore.text.cleaning import characters, stand_in, visible
from fpstore.text.held import KeptHashes, Sets
from fpstore.text.packed import Offsets, Packed, Passed, text_sizes
from fpstore.text.recipe import Measured, Recipe
from fpstore.types import Array
from fpstore.workers import Workers

_Value = TypeVar("_Value")

# What a worker is given at once has about so many characters or bytes of pages, or of texts.
PAGES_AT_ONCE, TEXTS_AT_ONCE = 1 << 18, 1 << 17


# What is to be said of a page, beside its text: as of fpstore.text.cleaning; nothing is visible, so that its text is a
# stand-in; it was read in spite of characters that are none; it is no page, and its text says why.
FRAME, EMPTY, DAMAGED, NO_PAGE = 1, 2, 4, 8

# The markup of a page, and the charset that its server named.
Page = tuple[str | bytes, str | None]


class Pages(Packed[Page]):
    """Pages of characters, packed as UTF-8, of which no server named a charset."""

    __slots__ = ()

    def value_of(self, data: bytes) -> Page:
        """A page."""
        return data.decode(), None


@dataclass(frozen=True, slots=True)
class Shown:
    """What pages show: the text of each, and flags, uint8[n], which say what it is."""

    texts: Packed[str]
    flags: Array

    def __len__(self) -> int:
        return len(self.flags)

    @classmethod
    def join(cls, parts: Sequence[Shown]) -> Shown:
        """Those of all parts, one after the other."""
        flags = np.concatenate([np.empty(0, dtype=np.uint8), *(part.flags for part in parts)])
        return cls(Passed.join([part.texts for part in parts]), flags)


# Of pages, in their order, what they show; waited for when that is called, once.
Show = Callable[[Sequence[Page]], Callable[[], Shown]]


def ready_for(recipe: Recipe, *, html: bool) -> Ready:
    """What brings the packages by which a recipe is measured, and with html pages are read, and their dictionaries."""
    return partial(_bring, recipe.html if html else None, recipe.to_json() if is_for_workers(recipe) else None)


def _bring(what: str | None, record: dict[str, Any] | None) -> None:
    if what is not None:
        _page_shown(("<p>some words</p>", None), what)
    if record is not None:
        _measured_here(Recipe.from_json(record), ["some words"], 1)


def shown_of(pages: Sequence[Page], what: str, workers: Workers) -> Callable[[], Shown]:
    """What pages show, by the step `html` of a recipe; begun at once by workers."""
    sizes = pages.sizes if isinstance(pages, Packed) else np.array([len(page[0]) for page in pages], dtype=np.int64)
    parts = _parts(pages, sizes, PAGES_AT_ONCE) if len(pages) else []
    begun = workers.begin(_shown, [(part, what) for part in parts], ready=partial(_bring, what, None))
    return lambda: Shown.join(begun.results())


def measure_many(recipe: Recipe, texts: Sequence[str], threads: int | None, workers: Workers) -> Measured:
    """As recipe.measure_many; what packages do is done by workers.

    By a recipe of sketch minhash the fingerprints are signatures, integers[n, values], and of what else is measured
    there are the counts of tokens alone.
    """
    return begin_to_measure(recipe, texts, threads, workers)()


def begin_to_measure(
    recipe: Recipe, texts: Sequence[str], threads: int | None, workers: Workers
) -> Callable[[], Measured]:
    """The same, of which workers do what they do before it is called, once."""
    if not is_for_workers(recipe):
        return partial(_measured_here, recipe, texts, threads)
    record = recipe.to_json()
    items = [(record, part) for part in _parts_of_texts(texts)]
    begun = workers.begin(_measured, items, ready=ready_for(recipe, html=False))
    return lambda: _joined(begun.results())


def begin_to_measure_and_keep(
    recipe: Recipe, texts: Sequence[str], threads: int | None, workers: Workers
) -> Callable[[], tuple[Measured, KeptHashes]]:
    """The same for recipe.measure_and_keep. Of sketch minhash as of measure_many."""
    if not is_for_workers(recipe):
        return partial(_kept_here, recipe, texts, threads)
    record = recipe.to_json()
    items = [(record, part) for part in _parts_of_texts(texts)]
    begun = workers.begin(_measured_and_kept, items, ready=ready_for(recipe, html=False))
    return lambda: _joined_and_kept(begun.results())


def is_for_workers(recipe: Recipe) -> bool:
    """Whether workers have a part in measuring by a recipe."""
    return recipe.is_prepared and recipe.model is None


def _joined_and_kept(found: Sequence[tuple[Measured, KeptHashes]]) -> tuple[Measured, KeptHashes]:
    parts, kept = zip(*found, strict=True)
    return _joined(parts), KeptHashes.together(kept)


def _joined(parts: Sequence[Measured]) -> Measured:
    return Measured(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def features_many(recipe: Recipe, texts: Sequence[str], threads: int | None, workers: Workers) -> Sets:
    """As recipe.features_many; what packages do is done by workers."""
    if not is_for_workers(recipe):
        return recipe.features_many(texts, threads=threads)
    record = recipe.to_json()
    items = [(record, part) for part in _parts_of_texts(texts)]
    parts = workers.map(_features, items, ready=ready_for(recipe, html=False))
    return Sets.join([(part.hashes, part.weights, np.cumsum(part.counts)) for part in parts])


def _parts_of_texts(texts: Sequence[str]) -> list[Sequence[str]]:
    return _parts(texts, text_sizes(texts), TEXTS_AT_ONCE)


def _parts(values: Sequence[_Value], sizes: Offsets, at_once: int) -> list[Sequence[_Value]]:
    """Values of these sizes, some at a time; of none one part without any."""
    number = np.cumsum(sizes) // at_once
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(values)]
    parts = [values[start:end] for start, end in pairwise(starts)]
    # Of bytes that many share, each takes its own along.
    return [part.take(np.arange(len(part))) if isinstance(part, Packed) else part for part in parts]


def _shown(given: tuple[Sequence[Page], str]) -> Shown:
    pages, what = given
    found = [_page_shown(page, what) for page in pages]
    texts = Passed.pack(text.encode("utf-8", "surrogatepass") for text, _ in found)
    return Shown(texts, np.array([flags for _, flags in found], dtype=np.uint8))


def _page_shown(page: Page, what: str) -> tuple[str, int]:
    """The text of a page, and its flags."""
    markup, charset = page
    try:
        text, damaged = (markup, 0) if isinstance(markup, str) else characters(markup, charset)
        text, is_frame = visible(text, what)
    except ValueError as error:
        return str(error), NO_PAGE
    is_empty = not text.strip()
    flags = FRAME * is_frame | EMPTY * is_empty | DAMAGED * (damaged > 0)
    return stand_in(markup) if is_empty else text, flags


def _measured(given: tuple[dict[str, Any], Sequence[str]]) -> Measured:
    record, texts = given
    return _measured_here(Recipe.from_json(record), texts, 1)


def _measured_here(recipe: Recipe, texts: Sequence[str], threads: int | None) -> Measured:
    if recipe.sketch != "minhash":
        return recipe.measure_many(texts, threads=threads)
    return _of_signatures(*recipe.sign_counted(texts, threads=threads))


def _kept_here(recipe: Recipe, texts: Sequence[str], threads: int | None) -> tuple[Measured, KeptHashes]:
    if recipe.sketch != "minhash":
        return recipe.measure_and_keep(texts, threads=threads)
    signatures, counts, kept = recipe.sign_and_keep(texts, threads=threads)
    return _of_signatures(signatures, counts), kept


def _of_signatures(signatures: Any, counts: Array) -> Measured:
    nothing = np.zeros(len(counts))
    return Measured(signatures, counts, nothing.astype(bool), counts, nothing)


def _measured_and_kept(given: tuple[dict[str, Any], Sequence[str]]) -> tuple[Measured, KeptHashes]:
    record, texts = given
    return _kept_here(Recipe.from_json(record), texts, 1)


def _features(given: tuple[dict[str, Any], Sequence[str]]) -> Sets:
    record, texts = given
    return Recipe.from_json(record).features_many(texts, threads=1)
