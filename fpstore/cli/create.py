"""`fpstore create`: an empty store, to add to."""

import click

from fpstore.cli.texts import idf_option, recipe_asked, recipe_option
from fpstore.cli.values import codec_option, k_option, mode_option, plan_option, seed_option, store_argument

EPILOG = """\b
Examples:
  fpstore create web.fpstore
  fpstore create bare.fpstore --no-ids --k 2
  fpstore create docs.fpstore --recipe web-en             (for texts)
"""


@click.command(short_help="Make an empty store, to add to.", epilog=EPILOG)
@store_argument
@k_option
@plan_option
@codec_option
@seed_option
@click.option("--ids/--no-ids", default=True, show_default=True, help="Whether fingerprints have ids.")
@recipe_option
@idf_option
@mode_option
def command(
    store: str,
    k: int,
    plan: str | float,
    codec: str,
    seed: int | None,
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
    record: dict[str, object] | None = None
    if recipe_name is not None:
        record = dict(recipe_asked(recipe_name, idf_path).to_json())
    fpstore.create(store, k=k, ids=ids, plan=plan, codec=codec, recipe=record, seed=seed, mode=mode).close()
