"""The rows that are read for a store which is there already: its recipe makes fingerprints of texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.subcommand import ANY_TEXT, OF_TEXTS, refuse_unused
from fpstore.cli.texts import with_model_at

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Reader
    from fpstore.minhash import MinHashStore
    from fpstore.text import Recipe


def recipe_of(store: "Store | MinHashStore", idf_path: str | None) -> "Recipe":
    """The recipe of a store built from texts, with the model of --idf. UsageError where it has none, or needs one."""
    if store.recipe is None:
        raise click.UsageError(f"{store.path}: found no recipe for texts in the store, expected one built from texts")
    return with_model_at(store.recipe, idf_path)


def read_for(
    store: "Store | MinHashStore",
    inputs: list[str | Path],
    idf_path: str | None,
    *,
    has_text: bool = False,
    **options: Any,
) -> "Reader":
    """What fpstore.inputs.read reads of inputs, given its options, by the recipe of the store.

    UsageError for texts where there is none, or where it needs the model of --idf; and for an option of texts where
    there are none. RecipeError, before anything is read, for fingerprints that are known to be by another recipe. Of
    inputs in which there is nothing neither is known. has_text: whether there is one besides.
    """
    from fpstore.inputs import read

    if store.kind == "minhash":
        return read(inputs, recipe=recipe_of(store, idf_path), cut=(store.bands, store.rows_per_band), **options)
    options["bits"] = store.bits
    reader = read(inputs, **options)
    if reader.tells_nothing:
        return reader
    if reader.recipe is None:
        reader.settle_origin(store._settings.recipe, store.path)
        refuse_unused(OF_TEXTS, *(() if has_text else (ANY_TEXT,)))
        return reader
    # They are texts, so a recipe is asked for; nothing was read so far.
    if store.recipe is None:
        found = f"{store.path}: found no recipe for texts in the store, expected one built from texts"
        told = "inputs, which are read as texts here, or fingerprints (--format hex, --fingerprint-column)"
        raise click.UsageError(f"{found} for {told}")
    return read(inputs, recipe=recipe_of(store, idf_path), max_distance=store.max_distance, **options)
