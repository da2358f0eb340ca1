"""Owns how a recipe is asked for: by the name of one, or by a JSON file such as `fpstore recipe NAME` prints."""

import json
import os
from pathlib import Path
from typing import Any

from fpstore.errors import Error, PathLike, RecipeError, UnsupportedVersion
from fpstore.text.model import read_model
from fpstore.text.presets import recipes
from fpstore.text.recipe import Recipe

# What a file may say of itself, as those do that `fpstore recipe NAME` prints.
FORMAT = "fpstore.recipe/1"


def load_recipe(name_or_file: PathLike, *, idf: PathLike | None = None) -> Recipe:
    """The recipe of that name, or in that file, weighing by the model in the file idf where one is given.

    Raises RecipeError where there is none, or weights idf have no model or another than the recipe pins;
    UnsupportedVersion, CorruptStore for a file of another version or a damaged model; the operating system's errors.
    """
    name = os.fspath(name_or_file)
    return weighed(recipes().get(name) or _recipe_in(Path(name)), idf)


def weighed(recipe: Recipe, idf: PathLike | None) -> Recipe:
    """The recipe, weighing by the model in the file idf where one is given; raises as load_recipe does."""
    if idf is not None:
        model = read_model(os.fspath(idf))
        try:
            return recipe.with_model(model)
        except ValueError as error:
            raise RecipeError(str(error), path=idf) from None
    if recipe.weights == "idf":
        expected = f"--idf and the model of checksum {recipe.idf}" if recipe.idf else "--idf and a model"
        raise RecipeError(f"recipe {recipe.name}: its weights are idf, expected {expected} (idf=)")
    return recipe


def _recipe_in(path: Path) -> Recipe:
    if not path.is_file():
        raise RecipeError(f"recipe: found {str(path)!r:.200}, expected one of {', '.join(recipes())} or a JSON file")
    try:
        record = json.loads(path.read_bytes(), object_pairs_hook=each_name_once)
    except ValueError as error:
        raise RecipeError(f"found no JSON ({error}), expected a recipe", path=path) from None
    if isinstance(record, dict) and record.pop("format", FORMAT) != FORMAT:
        raise RecipeError(f"recipe: found a file of another format, expected {FORMAT}", path=path)
    try:
        return Recipe.from_json(record)
    except Error as error:
        if isinstance(error, UnsupportedVersion):
            error.path = path
        raise
    except ValueError as error:
        raise RecipeError(str(error), path=path) from None


def each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for json.loads, which of a name that is there twice takes the last: ValueError for such."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"found {twice!r:.60} twice in an object, expected it once")
    return record
