"""`fpstore recover`: a store made of what is sound in a damaged one."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.failures import AT_FAULT_STORE, say
from fpstore.cli.progress import progress_bar
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, counted, store_argument

if TYPE_CHECKING:
    from fpstore import Recovered


@subcommand(
    "recover",
    short_help="Make a store of what is sound in a damaged one.",
    epilog="\b\nExample:\n  fpstore recover web.fpstore mended.fpstore\n",
)
@store_argument
@click.argument("new", metavar="NEW", type=FILE_PATH)
def command(store: str, new: str) -> None:
    """Make the store NEW, where nothing may be, of what is sound in STORE, which is never changed.

    Every table holds every fingerprint, so one is lost only where all tables are damaged. Exit status 3 if anything is
    lost. Standard output then has a line for each fingerprint that has lost all its ids, with "lost", or may have lost
    some, with "partial". Those that a damaged table no longer names are only counted. Of a store of signatures there
    are ids in place of fingerprints: of documents whose signature is lost, and of those that are there and are not
    found by all of their bands. Standard error says what was damaged, how much is there and how much is lost.
    """
    import fpstore
    from fpstore.inputs.escapes import escaped
    from fpstore.types import KEY_NOUNS

    with progress_bar() as bar:
        found = fpstore.recover(store, new, progress=bar)
    if common().as_json:
        print_document("recover", {"path": new, **_record(found)})
        if not found.complete:
            raise click.exceptions.Exit(AT_FAULT_STORE)
        return
    told = found.to_json()
    for word, fingerprints in (("lost", told["without_ids"]), ("partial", told["partial"])):
        for fingerprint in fingerprints:
            click.echo(f"{fingerprint}\t{word}")
    for word, ids in (("lost", found.lost_ids), ("partial", found.partial_ids)):
        for each in ids:
            click.echo(f"{each if isinstance(each, int) else escaped(each)}\t{word}")
    for damage in found.damage:
        say(str(damage))
    for sentence in found.unknown:
        say(f"{store}: not known: {sentence}")
    noun = KEY_NOUNS[found.kind]
    say(f"{new}: {counted(found.fingerprints, noun)} in {counted(found.rows, 'row')}")
    if found.complete:
        say(f"{new}: nothing is lost")
        return
    lost = [
        counted(found.fingerprints_lost, noun),
        counted(found.ids_lost, "id"),
        counted(found.log_records_lost, "record") + " of the log",
        counted(found.removals_lost, "record") + " of older removals",
        counted(found.segments_lost, "segment") + " as a whole",
    ]
    say(f"{new}: lost: {', '.join(each for each in lost if not each.startswith('0 ')) or 'what is not known'}")
    raise click.exceptions.Exit(AT_FAULT_STORE)


def _record(found: "Recovered") -> dict[str, object]:
    """What a document says of it."""
    told = found.to_json()
    return {
        "complete": found.complete,
        "fingerprint_count": found.fingerprints,
        "row_count": found.rows,
        "lost_fingerprint_count": found.fingerprints_lost,
        "lost_id_count": found.ids_lost,
        "lost_log_record_count": found.log_records_lost,
        "lost_removal_count": found.removals_lost,
        "lost_segment_count": found.segments_lost,
        "lost": told["without_ids"],
        **{name: told[name] for name in ("partial", "lost_ids", "partial_ids")},
        "unknown": list(found.unknown),
        "damage": [asdict(each) for each in found.damage],
    }
