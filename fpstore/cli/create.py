"""`fpstore create`: an empty store, to add to."""

from typing import TYPE_CHECKING

import click

from fpstore.cli.texts import idf_option, recipe_asked, recipe_option
from fpstore.cli.values import (
    codec_option,
    k_option,
    max_bytes_option,
    mode_option,
    plan_option,
    shuffle_option,
    store_argument,
)

if TYPE_CHECKING:
    from fpstore.types import Codec

EPILOG = """\b
Examples:
  fpstore create web.fpstore
  fpstore create bare.fpstore --no-ids -k 2
  fpstore create docs.fpstore --recipe web-en             (for texts)
"""


@click.command(short_help="Make an empty store, to add to.", epilog=EPILOG)
@store_argument
@k_option
@plan_option
@max_bytes_option
@codec_option
@shuffle_option
@click.option("--ids/--no-ids", default=True, show_default=True, help="Whether fingerprints have ids.")
@recipe_option
@idf_option
@mode_option
def command(
    store: str,
    max_distance: int,
    plan: str,
    max_bytes: float | None,
    codec: "Codec",
    shuffle: int | None,
    ids: bool,
    recipe_name: str | None,
    idf_path: str | None,
    mode: int | None,
) -> None:
    """Make STORE, with nothing in it yet.

    Without --recipe it takes no texts. The plans size, balanced and speed are those of 10 million fingerprints, as
    nobody knows yet how many there will be.
    """
    import fpstore

    if recipe_name is None and idf_path is not None:
        raise click.UsageError("--idf goes with --recipe")
    recipe = None if recipe_name is None else recipe_asked(recipe_name, idf_path)
    fpstore.create(
        store,
        max_distance=max_distance,
        id_type="uint64" if ids else None,
        plan=plan,
        max_bytes=max_bytes,
        codec=codec,
        recipe=recipe,
        shuffle=shuffle,
        mode=mode,
    ).close()
