"""Owns the recipes that have a name, and the one that is used if none is asked for.

What each is good for, measured: docs/choosing-a-recipe.md.
"""

from fpstore.text.recipe import Recipe

DEFAULT_RECIPE = Recipe("web-en", shingle=2)

_PRESETS = {
    preset.name: preset
    for preset in (
        DEFAULT_RECIPE,
        Recipe("zh", tokens="chinese", shingle=2),
        Recipe("multilingual", tokens="characters", shingle=5, weights="log"),
        Recipe("code", normalisation="nfkc", shingle=3, weights="capped"),
        # For those who would rather miss a near-duplicate than take another document for one.
        Recipe("words-4"),
        # For short texts: every character counts; or nothing but equal texts.
        Recipe("characters-3", tokens="characters", shingle=3),
        Recipe("exact", tokens="whole", shingle=1),
        # What the package `simhash` of PyPI makes of a text.
        Recipe("pypi-simhash", normalisation="lower", tokens="letters", hash="md5"),
    )
}


def recipes() -> dict[str, Recipe]:
    """Every recipe that has a name, by it; a dictionary of the caller's own."""
    return dict(_PRESETS)


def expect_recipe(recipe: object) -> Recipe:
    """The recipe. TypeError for anything else, a name too."""
    if not isinstance(recipe, Recipe):
        hint = f": fpstore.text.recipes()[{recipe!r}]" if isinstance(recipe, str) and recipe in _PRESETS else ""
        raise TypeError(f"recipe: found {recipe!r:.40}, a {type(recipe).__name__}, expected a Recipe{hint}")
    return recipe
