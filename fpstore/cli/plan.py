"""`fpstore plan`: the plans for a number of fingerprints, and what each would cost."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.failures import say
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, decimal_size, distance_option, key_count

if TYPE_CHECKING:
    from fpstore import Prediction

EPILOG = """\b
Examples:
  fpstore plan --n 8e9 -k 3
  fpstore plan --n 1000000 -k 6 --json
  fpstore plan --like web.fpstore
"""

HEADINGS = (
    "plan",
    "tables",
    "keys/block",
    "bytes/key",
    "total",
    "probes",
    "blocks",
    "candidates",
    "us/query",
    "bytes in blocks",
    "us in blocks",
    "picked by --plan",
)
LEFT_ALIGNED = (HEADINGS[0], HEADINGS[-1])
WIDEST_IN_BLOCKS = 64


@subcommand("plan", short_help="Compare plans: bytes, probes and time.", epilog=EPILOG)
@click.option("--n", metavar="N", type=key_count, help="How many distinct fingerprints: 50000000, 8e9.")
@distance_option("The largest Hamming distance to answer.  [default: 3]")
@click.option("--bits", metavar="BITS", type=int, help="How many bits a fingerprint has.  [default: 64]")
@click.option(
    "--like",
    metavar="STORE",
    type=FILE_PATH,
    help="A store with fingerprints as skewed as these: its n, k and bits unless given, and what its code takes.",
)
def command(n: int | None, max_distance: int | None, bits: int | None, like: str | None) -> None:
    """Print the plans for N fingerprints and distance K, and which of them --plan of build picks.

    The smallest comes first. bytes/key and total are the store's, without ids, on uniform fingerprints; skewed ones
    take less, and --like says how much. The other numbers are for one query: prefixes looked for, blocks decoded for
    them, stored keys that share such a prefix, and the time on one thread with everything in memory, by a model of
    queries that were not asked before.
    "in blocks" are bytes/key and us/query with --layout blocks of build, on the same plan; fingerprints of 128 and 256
    bits are not laid out so.
    What K means for texts by the default recipe is said below.
    """
    import fpstore

    if n is None and like is None:
        raise click.UsageError("Missing option '--n' or '--like'.")
    choices = fpstore.predict(n=n, max_distance=max_distance, bits=bits, like=like)
    has_blocks = choices[0].plan.bits <= WIDEST_IN_BLOCKS
    in_blocks = []
    if has_blocks:
        in_blocks = fpstore.predict(n=n, max_distance=max_distance, bits=bits, like=like, layout="blocks")
    max_distance = choices[0].plan.max_distance
    jaccard = _jaccard_of_texts(max_distance, choices[0].plan.bits)
    if common().as_json:
        asked = {"n": choices[0].n, "max_distance": max_distance, "text_jaccard": jaccard}
        layouts = {"choices": choices, "in_blocks": in_blocks}
        print_document("plan", asked | {name: [each.to_json() for each in rows] for name, rows in layouts.items()})
    else:
        _print_table([HEADINGS, *map(_row, choices, in_blocks if has_blocks else [None] * len(choices))])
        if jaccard is not None:
            told = f"k = {max_distance} is a Jaccard similarity of {jaccard:.2f} in the mean"
            say(f"fpstore: of texts by recipe text-1, {told}")


def _jaccard_of_texts(max_distance: int, bits: int) -> float | None:
    """The similarity at which fingerprints of the default recipe, of so many bits, are so far apart in the mean.

    None where no recipe makes so many.
    """
    from fpstore.text import DEFAULT_RECIPE
    from fpstore.text.fields import CHOICES
    from fpstore.text.short import jaccard_at

    return jaccard_at(replace(DEFAULT_RECIPE, bits=bits), max_distance) if bits in CHOICES["bits"] else None


def _row(prediction: "Prediction", in_blocks: "Prediction | None") -> tuple[str, ...]:
    return (
        prediction.plan.name,
        str(len(prediction.plan.tables)),
        str(prediction.plan.slot_keys),
        f"{prediction.bytes_per_key:.2f}",
        decimal_size(prediction.file_bytes),
        f"{prediction.probes:,}",
        f"{prediction.block_decodes:,}",
        f"{prediction.candidates:,.1f}",
        f"{prediction.nanoseconds / 1000:,.1f}",
        "-" if in_blocks is None else f"{in_blocks.bytes_per_key:.2f}",
        "-" if in_blocks is None else f"{in_blocks.nanoseconds / 1000:,.1f}",
        ", ".join(prediction.picked_by),
    )


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if heading in LEFT_ALIGNED else cell.rjust(width)
            for cell, width, heading in zip(row, widths, HEADINGS, strict=True)
        )
        click.echo("  ".join(cells).rstrip())
