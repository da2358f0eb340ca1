"""The options of the subcommands that read documents, and what they say of a recipe and of short texts."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fpstore.cli.columns import input_header_option
from fpstore.cli.common import common
from fpstore.cli.failures import AT_FAULT_DATA, Failure
from fpstore.cli.values import FILE_PATH, column

if TYPE_CHECKING:
    from fpstore.text import Recipe
    from fpstore.text.short import Lengths
    from fpstore.workers import Workers

# About this many characters of texts are read together.
BATCH_CHARACTERS = 1 << 22

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


def recipe_asked(name: str | None, idf_path: str | None) -> "Recipe":
    """The recipe that --recipe and --idf name, the default where there is none.

    UsageError for one that is unknown, or makes no fingerprints.
    """
    from fpstore.text.recipe import expect_fingerprints

    found = recipe_of_any_kind(name, idf_path)
    with _faults():
        return expect_fingerprints(found)


def recipe_of_any_kind(name: str | None, idf_path: str | None) -> "Recipe":
    """The same, also one that makes signatures."""
    from fpstore.text import DEFAULT_RECIPE, load_recipe

    with _faults():
        return load_recipe(DEFAULT_RECIPE.name if name is None else name, idf=idf_path)


def with_model_at(recipe: "Recipe", idf_path: str | None) -> "Recipe":
    """The recipe with the model of --idf. UsageError where it has weights idf and there is none."""
    from fpstore.text.loading import weighed

    with _faults():
        return weighed(recipe, idf_path)


@contextmanager
def _faults() -> Iterator[None]:
    """No store is at fault: a recipe that is asked for is the command line's, a file that is none is the data's."""
    from fpstore.errors import Error, RecipeError

    try:
        yield
    except RecipeError as error:
        raise click.UsageError(str(error)) from error
    except Error as error:
        raise Failure(str(error), AT_FAULT_DATA) from error


def workers_asked() -> "Workers":
    """The processes that --threads allows for HTML and what packages do of a recipe; the command's own to close."""
    from fpstore.threads import thread_count
    from fpstore.workers import Workers

    return Workers(thread_count(common().threads))


def text_batches(named_texts: Iterable[tuple[str, str]]) -> Iterator[tuple[list[str], list[str]]]:
    """The names and the texts of several documents at a time."""
    names: list[str] = []
    texts: list[str] = []
    size = 0
    for name, text in named_texts:
        names.append(name)
        texts.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield names, texts
            names, texts, size = [], [], 0
    yield names, texts


def tell_short(lengths: "Lengths") -> None:
    """Warn on standard error where most texts are short for their recipe."""
    if lengths.warning is not None:
        click.echo(f"fpstore: warning: {lengths.warning}", err=True)
