"""The options of the subcommands that read documents, and what they say of a recipe and of short texts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fpstore.cli.columns import input_header_option
from fpstore.cli.failures import AT_FAULT_DATA, Failure
from fpstore.cli.values import FILE_PATH, RECIPES, column

if TYPE_CHECKING:
    from fpstore.text import Recipe
    from fpstore.text.short import Lengths

_Command = TypeVar("_Command", bound=Callable[..., Any])

recipe_option = click.option(
    "--recipe",
    "recipe_name",
    metavar="NAME|FILE",
    help="How texts become fingerprints: a name that fpstore recipe lists, or a JSON file such as it prints.",
)
idf_option = click.option(
    "--idf",
    "idf_path",
    metavar="MODEL",
    type=FILE_PATH,
    help="Weigh shingles by this model, made by fpstore learn-idf.",
)


def text_options(command: _Command) -> _Command:
    """What says which texts an input holds."""
    command = input_header_option(command)
    command = click.option(
        "--html", is_flag=True, help="The texts are HTML. Those of .html files and archives are anyhow."
    )(command)
    return click.option(
        "--text-column",
        metavar="COLUMN",
        type=column,
        help="The column or JSON field that holds texts; a field may be a path, as in page.body.  "
        "[default of jsonl: text]",
    )(command)


def reading_options(command: _Command) -> _Command:
    """As text_options, and what is needed to make fingerprints of the texts."""
    threads = click.option(
        "--threads", type=click.IntRange(1), default=1, show_default=True, help="How many make fingerprints of texts."
    )
    return text_options(threads(command))


def recipe_asked(name: str | None, idf_path: str | None) -> "Recipe":
    """The recipe that --recipe and --idf name, the default where there is none. UsageError for one unknown."""
    from fpstore.text import DEFAULT, PRESETS

    if name is None:
        recipe = DEFAULT
    elif name in PRESETS:
        recipe = PRESETS[name]
    else:
        recipe = _recipe_in(name)
    return with_model_at(recipe, idf_path)


def with_model_at(recipe: "Recipe", idf_path: str | None) -> "Recipe":
    """The recipe with the model of --idf. UsageError where it has weights idf and there is none."""
    from fpstore.errors import Error
    from fpstore.text.model import read_model

    if idf_path is not None:
        try:
            model = read_model(idf_path)
        except Error as error:  # of a file that is no store
            raise Failure(str(error), AT_FAULT_DATA) from error
        return recipe.with_model(model)
    if recipe.weights == "idf":
        expected = f"--idf and the model of checksum {recipe.idf}" if recipe.idf else "--idf and a model"
        raise click.UsageError(f"recipe {recipe.name}: its weights are idf, expected {expected}")
    return recipe


def tell_short(lengths: "Lengths") -> None:
    """Warn on standard error where most texts are short for their recipe."""
    if lengths.warning is not None:
        click.echo(f"fpstore: warning: {lengths.warning}", err=True)


def _recipe_in(path: str) -> "Recipe":
    from fpstore.errors import UnsupportedVersion
    from fpstore.text import Recipe

    if not Path(path).is_file():
        raise click.UsageError(f"recipe: found {path!r}, expected one of {', '.join(RECIPES)} or a JSON file")
    try:
        record = json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise click.UsageError(f"{path}: found no JSON ({error}), expected a recipe") from error
    try:
        return Recipe.from_json(record)
    except UnsupportedVersion as error:
        raise Failure(f"{path}: {error}", AT_FAULT_DATA) from error
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from error
