"""`fpstore plan`: the plans for a number of fingerprints, and what each would cost."""

from typing import TYPE_CHECKING

import click

from fpstore.cli.failures import say
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, decimal_size, distance_option, json_option, key_count, print_document

if TYPE_CHECKING:
    from fpstore.plans.planner import Prediction

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
    "picked by --plan",
)
LEFT_ALIGNED = (HEADINGS[0], HEADINGS[-1])


@subcommand("plan", short_help="Compare plans: bytes, probes and time.", epilog=EPILOG)
@click.option("--n", metavar="N", type=key_count, help="How many distinct fingerprints: 50000000, 8e9.")
@distance_option("The largest Hamming distance to answer.  [default: 3]")
@click.option(
    "--like",
    metavar="STORE",
    type=FILE_PATH,
    help="A store with fingerprints as skewed as these: its n and k unless given, and the bits that its code takes.",
)
@json_option
def command(n: int | None, max_distance: int | None, like: str | None, as_json: bool) -> None:
    """Print the plans for N fingerprints and distance K, and which of them --plan of build picks.

    The smallest comes first. bytes/key and total are the store's, without ids, on uniform fingerprints; skewed ones
    take less, and --like says how much. The other numbers are for one query: prefixes looked for, blocks decoded for
    them, stored keys that share such a prefix, and the time on one thread with everything in memory, by a model.
    What K means for texts by the default recipe is said below.
    """
    from fpstore.plans import planner

    saved = 0.0
    if like is not None:
        count, distance, saved = _measured(like)
        n, max_distance = count if n is None else n, distance if max_distance is None else max_distance
    if n is None:
        raise click.UsageError("Missing option '--n' or '--like'.")
    max_distance = 3 if max_distance is None else max_distance
    predictions = {
        each.plan: planner.predict(each.plan, n, saved) for each in planner.table_of_choices(n, max_distance)
    }
    picked_by: dict[object, list[str]] = {}
    for aim in planner.AIMS:
        plan = planner.choose(n, max_distance, aim)
        predictions.setdefault(plan, planner.predict(plan, n, saved))
        picked_by.setdefault(plan, []).append(aim)
    choices = [
        (prediction, picked_by.get(prediction.plan, []))
        for prediction in sorted(predictions.values(), key=lambda each: each.file_bytes)
    ]
    if as_json:
        record = {"n": n, "max_distance": max_distance, "text_jaccard": _jaccard_of_texts(max_distance)}
        print_document("plan", record | {"choices": [_json_choice(*choice) for choice in choices]})
    else:
        _print_table([HEADINGS, *(_row(*choice) for choice in choices)])
        told = f"k = {max_distance} is a Jaccard similarity of {_jaccard_of_texts(max_distance):.2f} in the mean"
        say(f"fpstore: of texts by recipe text-1, {told}")


def _jaccard_of_texts(max_distance: int) -> float:
    """The similarity at which fingerprints of the default recipe are so far apart in the mean."""
    from fpstore.text import DEFAULT
    from fpstore.text.short import jaccard_at

    found = jaccard_at(DEFAULT, max_distance)
    assert found is not None  # the default is 1-bit MinHash
    return found


def _measured(path: str) -> tuple[int, int, float]:
    """A store's number of fingerprints, its k, and the bits that its code saves of what uniform fingerprints take."""
    import fpstore
    from fpstore.plans import planner

    with fpstore.open(path) as store:
        stats = store.stats()
    segments = [segment for segment in stats.segments if segment.fingerprint_count]
    saved = 0.0
    for segment in segments:
        count = segment.fingerprint_count
        code_bits = 8 * (segment.payload_bytes + segment.fences_bytes) / (count * len(segment.tables))
        saved += planner.saving(count, code_bits) * count
    total = sum(segment.fingerprint_count for segment in segments)
    count = total + stats.pending_count if stats.fingerprint_count is None else stats.fingerprint_count
    return count, stats.max_distance, saved / max(1, total)


def _json_choice(prediction: "Prediction", picked_by: list[str]) -> dict[str, object]:
    return {
        "plan": prediction.plan.name,
        "picked_by": picked_by,
        "tables": len(prediction.plan.tables),
        "slot_keys": prediction.plan.slot_keys,
        "file_bytes": prediction.file_bytes,
        "bytes_per_key": prediction.bytes_per_key,
        "probes": prediction.probes,
        "block_decodes": prediction.block_decodes,
        "keys_decoded": prediction.keys_decoded,
        "candidates": prediction.candidates,
        "nanoseconds": prediction.nanoseconds,
    }


def _row(prediction: "Prediction", picked_by: list[str]) -> tuple[str, ...]:
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
        ", ".join(picked_by),
    )


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if heading in LEFT_ALIGNED else cell.rjust(width)
            for cell, width, heading in zip(row, widths, HEADINGS, strict=True)
        )
        click.echo("  ".join(cells).rstrip())
