"""`fpstore verify`: reads everything in stores and checks it."""

import dataclasses
from time import perf_counter
from typing import TYPE_CHECKING

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_line
from fpstore.cli.failures import AT_FAULT_STORE, DONE, failure_of, say
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import opened_store, stores_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, counted, decimal_size, rows_or_documents

if TYPE_CHECKING:
    from fpstore import Verified


@subcommand(
    "verify",
    short_help="Read everything in stores and check it.",
    epilog="\b\nExample:\n  fpstore verify web.fpstore && rsync -a web.fpstore backup:\n",
)
@click.argument("stores", metavar="STORE...", type=FILE_PATH, nargs=-1, required=True)
def command(stores: tuple[str, ...]) -> None:
    """Read everything in each STORE and check it: exit status 3, and a line for each damaged place.

    Checked are the catalog, the checksum of every page, the order of the keys within and across blocks, every
    directory, that every table holds the same fingerprints, that the plan misses none, that ids are in step,
    and what jobs keep. A fingerprint that is in several segments is counted in each, and what is in none yet as
    pending rows, apart. Of a list of stores, NAME.shards.json, each that is listed is checked. With --json: an object
    for each store.
    """
    import fpstore

    statuses: list[int] = []
    for path in stores:
        try:
            places, _ = stores_of(path)
        except (fpstore.Error, OSError) as error:
            statuses.append(_failed(path, error))
        else:
            statuses += map(_verify, places)
    if any(statuses):
        raise click.exceptions.Exit(AT_FAULT_STORE if AT_FAULT_STORE in statuses else max(statuses))


def _verify(store: str) -> int:
    """Verify one; the exit status that it asks for."""
    import fpstore
    from fpstore.types import KEY_NOUNS

    start = perf_counter()
    try:
        with opened_store(store) as opened, progress_bar() as bar:
            found, noun = opened.verify(progress=bar), KEY_NOUNS[opened.kind]
            bands = getattr(opened, "bands", None)
    except (fpstore.Error, OSError) as error:
        return _failed(store, error)
    seconds = perf_counter() - start
    if common().as_json:
        print_line("verify", {"path": store, "sound": True, **found.to_json(), "damage": []})
        return DONE
    say(
        f"{store}: sound; checked {_checked(found, noun, bands)}:"
        f" {decimal_size(found.size_bytes)} in {seconds:.2f} s, {found.size_bytes / 1e6 / seconds:.0f} MB/s",
        err=False,
    )
    return DONE


def _failed(path: str, error: Exception) -> int:
    """Tell what is wrong with one, or with a list; the exit status that it asks for."""
    import fpstore

    damage = error.damage if isinstance(error, fpstore.CorruptStore) else ()
    failure = failure_of(error)
    message = failure.message
    if common().as_json:
        found_wrong = [dataclasses.asdict(each) for each in damage]
        print_line("verify", {"path": path, "sound": False, "error": message, "damage": found_wrong})
    # As the line of a sound store, each begins with what it is about.
    named = getattr(error, "path", None) or getattr(error, "filename", None)
    for line in [str(each) for each in damage] or [message if named else f"{path}: {message}"]:
        say(line)
    return failure.status


def _checked(found: "Verified", noun: str, bands: int | None) -> str:
    """What was read: of the segments, and of what is in none of them yet. noun: what a key is called.

    bands: of a document of signatures, which has an id with each.
    """
    keys = f"{counted(found.fingerprint_count, noun)} in {counted(found.table_count, 'table')}"
    ids = (
        f" and {counted(*rows_or_documents(found.id_count, bands, 'row' if bands else 'id'))}" if found.id_count else ""
    )
    parts = [f"{keys} of {counted(found.segment_count, 'segment')}{ids}"]
    if found.pending_count:
        ids = f" with {counted(found.pending_id_count, 'id')}" if found.pending_id_count and not bands else ""
        pending = f"{counted(*rows_or_documents(found.pending_count, bands, 'pending row'))}{ids}"
        parts = [*parts, pending] if found.segment_count else [f"{pending} (there is no segment yet)"]
    parts += [counted(found.removal_count, "removal")] if found.removal_count else []
    return ", ".join(parts)
