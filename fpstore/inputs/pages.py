"""Owns what HTML documents are in inputs, how they are shown, and what is noted of those that were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fpstore.inputs.errors import DAMAGED, IN_FRAME, WITHOUT_TEXT
from fpstore.text import shared
from fpstore.text.shared import Show, Shown, shown_of
from fpstore.workers import Workers

# What is noted of pages by their flags.
_NOTES = {DAMAGED: shared.DAMAGED, IN_FRAME: shared.FRAME, WITHOUT_TEXT: shared.EMPTY}


class Page(NamedTuple):
    """An HTML document as an input holds it; charset: the one that its server named."""

    markup: str | bytes
    charset: str | None


def page_of(value: object, *, html: bool) -> Page | None:
    """A value as a page, None where it is none. html: whether texts are pages."""
    if isinstance(value, Page):
        return value
    return Page(value, None) if html and isinstance(value, str | bytes) else None


def begin_to_show(pages: Sequence[shared.Page], what: str, show: Show | None, workers: Workers) -> Callable[[], Shown]:
    """What pages show, by the step `html` of a recipe; show: what tells it, where it is known already."""
    return shown_of(pages, what, workers) if show is None else show(pages)


def note_pages(shown: Shown, notes: Counter[str]) -> None:
    """Note what is to be said of pages that were read."""
    for note, flag in _NOTES.items():
        count = int(np.count_nonzero(shown.flags & flag))
        if count:
            notes[note] += count
