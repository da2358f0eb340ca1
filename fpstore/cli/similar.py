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


def signature_options(command: _Command) -> _Command:
    """How signatures are cut, and whether they are kept, of a store that is made."""
    for option in (
        click.option(
            "--keep-signatures/--no-keep-signatures",
            default=True,
            help="Keep some bits of each value, so that answers have an estimated similarity.  [default: keep]",
        ),
        similarity_option(
            "In place of --bands and --rows-per-band: from which similarity on documents are to be found."
        ),
        rows_option,
        bands_option,
    ):
        command = option(command)
    return command


def cut_of(
    bands: int | None, rows_per_band: int | None, min_similarity: float | None, bits: int | None
) -> dict[str, Any]:
    """What was asked for of how signatures are cut, as arguments of fpstore.minhash. UsageError for both ways."""
    if min_similarity is not None and (bands, rows_per_band) != (None, None):
        raise click.UsageError("--min-similarity: found --bands or --rows-per-band too, expected one of the two ways")
    asked = {"bands": bands, "rows_per_band": rows_per_band, "min_similarity": min_similarity}
    return {name: value for name, value in (asked | {"bits": bits}).items() if value is not None}


def settled_cut(recipe: "Recipe", bands: int | None, rows: int | None, least: float | None) -> tuple[int, int] | None:
    """The bands that signatures are cut into where this is asked for, and the values of each; None by fingerprints."""
    from fpstore.minhash.making import bands_for
    from fpstore.text.asked import Asked

    if recipe.sketch != "minhash":
        return None
    return Asked(bands=bands, rows_per_band=rows).cut if least is None else bands_for(recipe.values, least)


def refuse_other_kind(recipe: "Recipe | None") -> None:
    """UsageError for an option that says nothing about what this recipe makes; None: that of fingerprints."""
    signs = recipe is not None and recipe.sketch == "minhash"
    refuse_unused(OF_BITS if signs else OF_SIGNATURES)
