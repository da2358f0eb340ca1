"""The rows that are read for a store which is there already: its recipe makes fingerprints of texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Reader
    from fpstore.text import Recipe


def recipe_of(store: "Store") -> "Recipe":
    """The recipe of a store built from texts. UsageError where it has none."""
    from fpstore.text import Recipe

    if store.recipe is None:
        raise click.UsageError(f"{store.path}: found no recipe for texts in the store, expected one built from texts")
    return Recipe.from_json(store.recipe)


def read_for(store: "Store", inputs: list[str | Path], **options: Any) -> "Reader":
    """What fpstore.inputs.read reads of inputs, given its options. UsageError for texts where there is no recipe."""
    from fpstore.inputs import read

    reader = read(inputs, recipe=None if store.recipe is None else recipe_of(store), **options)
    if reader.recipe is not None:
        recipe_of(store)
    return reader
