"""`fpstore create`: an empty store, to add to."""

from typing import TYPE_CHECKING, cast

import click

from fpstore.cli.documents import tell_done
from fpstore.cli.signed_stores import create_of_signatures
from fpstore.cli.similar import cut_of, refuse_other_kind, signature_options
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option, recipe_of_any_kind, recipe_option
from fpstore.cli.values import (
    bits_option,
    block_bytes_option,
    codec_option,
    k_option,
    layout_option,
    max_bytes_option,
    mode_option,
    plan_option,
    shuffle_option,
    store_argument,
)

if TYPE_CHECKING:
    from fpstore.types import Codec, IdType, Layout

EPILOG = """\b
Examples:
  fpstore create web.fpstore
  fpstore create urls.fpstore --id-type string            (ids are names)
  fpstore create bare.fpstore --id-type none -k 2
  fpstore create docs.fpstore --recipe text-1             (for texts)
  fpstore create news.fpstore --recipe minhash-128        (for texts, by signatures)
"""


@subcommand("create", short_help="Make an empty store, to add to.", epilog=EPILOG)
@store_argument
@bits_option
@k_option
@plan_option
@max_bytes_option
@codec_option
@layout_option
@block_bytes_option
@shuffle_option
@click.option(
    "--id-type",
    type=click.Choice(("uint64", "string", "bytes", "none")),
    default="uint64",
    show_default=True,
    help="What the ids of fingerprints are: numbers, text, such as URLs, or bytes; none: they have none.",
)
@recipe_option
@idf_option
@signature_options
@mode_option
@click.option(
    "--exist-ok",
    is_flag=True,
    help="Take a store that is there, if it is what this command would make; it keeps its rows.",
)
@click.option("--force", is_flag=True, help="Replace a store that is there, with all its rows.")
def command(
    store: str,
    bits: int | None,
    max_distance: int | None,
    plan: str,
    max_bytes: float | None,
    codec: "Codec | None",
    layout: "Layout",
    block_bytes: int | None,
    shuffle: int | None,
    id_type: str,
    recipe_name: str | None,
    idf_path: str | None,
    bands: int | None,
    rows_per_band: int | None,
    min_similarity: float | None,
    keep_signatures: bool,
    mode: int | None,
    exist_ok: bool,
    force: bool,
) -> None:
    """Make STORE, with nothing in it yet.

    Without --recipe it takes no texts. The plans size, balanced and speed are those of 10 million fingerprints, as
    nobody knows yet how many there will be.

    By a recipe of sketch minhash it is a store of signatures: documents are near that share one of --bands.
    """
    import fpstore

    recipe = None if recipe_name is None else recipe_of_any_kind(recipe_name, idf_path)
    refuse_other_kind(recipe)
    if recipe is not None and recipe.sketch == "minhash":
        create_of_signatures(
            store,
            recipe,
            cut_of(bands, rows_per_band, min_similarity, bits),
            id_type=id_type,
            keep_signatures=keep_signatures,
            mode=mode,
            exist_ok=exist_ok,
            force=force,
        )
        return
    with fpstore.create(
        store,
        bits=bits,
        max_distance=max_distance,
        id_type=None if id_type == "none" else cast("IdType", id_type),
        plan=plan,
        max_bytes=max_bytes,
        codec=codec,
        layout=layout,
        block_bytes=block_bytes,
        recipe=recipe,
        shuffle=shuffle,
        mode=mode,
        exist_ok=exist_ok,
        force=force,
    ) as made:
        ids = {"uint64": "with ids", "none": "without ids"}.get(id_type, "with names as ids")
        is_empty = not made._holds_any()
        settings = {
            "id_type": made.id_type,
            "bits": made.bits,
            "max_distance": made.max_distance,
            "plan": made.plan.to_json(),
        }
        tell_done(
            "create",
            {"path": store, "is_empty": is_empty, **settings},
            f"{store}: {'empty' if is_empty else 'there already'}, {ids}, plan {made.plan.name}",
        )
