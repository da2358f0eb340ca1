"""The options that say which documents are near each other by their signatures, and how commands tell the kind."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fpstore.cli.subcommand import OF_BITS, OF_SIGNATURES, refuse_unused

if TYPE_CHECKING:
    from fpstore.text import Recipe

_Command = TypeVar("_Command", bound=Callable[..., Any])

bands_option = click.option(
    "--bands",
    metavar="N",
    type=click.IntRange(1),
    help="By a recipe of sketch minhash: how many bands a signature is cut into; documents are near that share one.  "
    "[default: 16]",
)
rows_option = click.option(
    "--rows-per-band",
    metavar="N",
    type=click.IntRange(1),
    help="How many values of a signature a band has.  [default: 8]",
)


def similarity_option(text: str) -> Callable[[_Command], _Command]:
    """--min-similarity of a command."""
    return click.option("--min-similarity", metavar="X", type=click.FloatRange(0, 1), help=text)


def near_options(command: _Command) -> _Command:
    """What is near by signatures, for a job."""
    least = "By a recipe of sketch minhash: the estimated similarity from which documents are near, 0 to 1."
    for option in (similarity_option(least), rows_option, bands_option):
        command = option(command)
    return command


def refuse_other_kind(recipe: "Recipe | None") -> None:
    """UsageError for an option that says nothing about what this recipe makes; None: that of fingerprints."""
    signs = recipe is not None and recipe.sketch == "minhash"
    refuse_unused(OF_BITS if signs else OF_SIGNATURES)
