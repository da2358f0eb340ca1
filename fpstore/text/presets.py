"""Owns the recipes that have a name, and the one that is used if none is asked for.

What each is good for, measured: docs/choosing-a-recipe.md.
"""

from dataclasses import replace

from fpstore.text.recipe import Recipe

DEFAULT_RECIPE = Recipe(
    "text-1",
    html="main-or-all",
    tokens="mixed",
    shingle=2,
    dense_shingle=4,
    weights="presence",
    sketch="minhash-1bit",
)

_PRESETS = {
    preset.name: preset
    for preset in (
        DEFAULT_RECIPE,
        # For those who would rather miss a near-duplicate than take another document for one.
        replace(DEFAULT_RECIPE, name="words-4", shingle=4, dense_shingle=6),
        # For texts of mistyped or joined words: every five characters in a row.
        replace(DEFAULT_RECIPE, name="multilingual", tokens="characters", shingle=5, dense_shingle=0),
        replace(DEFAULT_RECIPE, name="zh", tokens="chinese", dense_shingle=0),
        replace(DEFAULT_RECIPE, name="code", normalisation="nfkc", shingle=3),
        # For those who want nothing but equal texts.
        Recipe("exact", tokens="whole", shingle=1),
        # A simhash, the way of the paper, by weights that no single shingle can decide.
        replace(DEFAULT_RECIPE, name="simhash-1", weights="log", sketch="simhash"),
        # What was the default, for stores that have it: a word that is repeated often enough decides alone.
        Recipe("web-en", shingle=2),
        # What the package `simhash` of PyPI makes of a text, for fingerprints that it made.
        Recipe("pypi-simhash", normalisation="lower", tokens="letters", hash="md5"),
        # Signatures, for who asks for a Jaccard similarity: the field's 128 values, of three words.
        replace(DEFAULT_RECIPE, name="minhash-128", shingle=3, dense_shingle=5, sketch="minhash"),
    )
}

# For fingerprints that are there already: by these, one shingle that is repeated often enough decides alone.
FOR_STORED = ("web-en", "pypi-simhash")


def recipes() -> dict[str, Recipe]:
    """Every recipe that has a name, by it; a dictionary of the caller's own."""
    return dict(_PRESETS)


def expect_recipe(recipe: object) -> Recipe:
    """The recipe. TypeError for anything else, a name too."""
    if not isinstance(recipe, Recipe):
        hint = f": fpstore.text.recipes()[{recipe!r}]" if isinstance(recipe, str) and recipe in _PRESETS else ""
        raise TypeError(f"recipe: found {recipe!r:.40}, a {type(recipe).__name__}, expected a Recipe{hint}")
    return recipe
