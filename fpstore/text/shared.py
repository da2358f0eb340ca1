"""Owns what of texts is shared out to processes: reading HTML, and steps of a recipe that packages do.

What it gives is what this process alone would give, whoever makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fpstore.text.cleaning import characters, stand_in, visible
from fpstore.text.held import KeptHashes, Sets
from fpstore.text.packed import Packed, text_sizes
from fpstore.text.recipe import Measured, Recipe
from fpstore.types import Array
from fpstore.workers import Begun, Workers

# What a worker is given at once has about so many characters or bytes of pages, or of texts.
PAGES_AT_ONCE, TEXTS_AT_ONCE = 1 << 18, 1 << 17


class Shown(NamedTuple):
    """The text of a page. is_frame: as of fpstore.text.cleaning. is_empty: nothing is visible, so it is a stand-in.

    is_damaged: it was read in spite of characters that are none.
    """

    text: str
    is_frame: bool
    is_empty: bool
    is_damaged: bool


# The markup of a page, and the charset that its server named.
Page = tuple[str | bytes, str | None]
# Of pages, in their order, what each shows or what is wrong with it; asked for when they are read.
Show = Callable[[Sequence[Page]], Iterator[Shown | ValueError]]


def shown_of(pages: Sequence[Page], what: str, workers: Workers) -> Iterator[Shown | ValueError]:
    """What each page shows, by the step `html` of a recipe, or what is wrong with it.

    Begun at once by workers, and waited for when the first is asked for.
    """
    return _shown_by(workers.begin(_shown, [(group, what) for group in _groups(pages)]))


def _shown_by(begun: Begun[list[Shown | ValueError]]) -> Iterator[Shown | ValueError]:
    for part in begun.results():
        yield from part


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
    if not _is_for_workers(recipe):
        return partial(_measured_here, recipe, texts, threads)
    record = recipe.to_json()
    begun = workers.begin(_measured, [(record, part) for part in _parts(texts)])
    return lambda: _joined(begun.results())


def begin_to_measure_and_keep(
    recipe: Recipe, texts: Sequence[str], threads: int | None, workers: Workers
) -> Callable[[], tuple[Measured, KeptHashes]]:
    """The same for recipe.measure_and_keep. Of sketch minhash as of measure_many."""
    if not _is_for_workers(recipe):
        return partial(_kept_here, recipe, texts, threads)
    record = recipe.to_json()
    begun = workers.begin(_measured_and_kept, [(record, part) for part in _parts(texts)])
    return lambda: _joined_and_kept(begun.results())


def _is_for_workers(recipe: Recipe) -> bool:
    return recipe.is_prepared and recipe.model is None


def _joined_and_kept(found: Sequence[tuple[Measured, KeptHashes]]) -> tuple[Measured, KeptHashes]:
    parts, kept = zip(*found, strict=True)
    return _joined(parts), KeptHashes.together(kept)


def _joined(parts: Sequence[Measured]) -> Measured:
    return Measured(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def features_many(recipe: Recipe, texts: Sequence[str], threads: int | None, workers: Workers) -> Sets:
    """As recipe.features_many; what packages do is done by workers."""
    if not _is_for_workers(recipe):
        return recipe.features_many(texts, threads=threads)
    record = recipe.to_json()
    parts = workers.map(_features, [(record, part) for part in _parts(texts)])
    return Sets.join([(part.hashes, part.weights, np.cumsum(part.counts)) for part in parts])


def _groups(pages: Sequence[Page]) -> list[list[Page]]:
    groups: list[list[Page]] = []
    room = 0
    for page in pages:
        if room <= 0:
            groups.append([])
            room = PAGES_AT_ONCE
        groups[-1].append(page)
        room -= len(page[0])
    return groups


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    """The texts, some at a time; of none one part without any."""
    number = np.cumsum(text_sizes(texts)) // TEXTS_AT_ONCE
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(texts)]
    parts = [texts[start:end] for start, end in pairwise(starts)]
    # Of bytes that many share, each takes its own along.
    return [part.take(np.arange(len(part))) if isinstance(part, Packed) else part for part in parts]


def _shown(given: tuple[Sequence[Page], str]) -> list[Shown | ValueError]:
    pages, what = given
    return [_page_shown(page, what) for page in pages]


def _page_shown(page: Page, what: str) -> Shown | ValueError:
    markup, charset = page
    try:
        text, damaged = (markup, 0) if isinstance(markup, str) else characters(markup, charset)
        text, is_frame = visible(text, what)
    except ValueError as error:
        return ValueError(str(error))
    is_empty = not text.strip()
    return Shown(stand_in(markup) if is_empty else text, is_frame, is_empty, damaged > 0)


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
