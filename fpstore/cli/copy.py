"""`fpstore copy`: a copy of a store as it is now."""

import click

from fpstore.cli.documents import tell_done
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import opened_store, size_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, counted, decimal_size, mode_option, rows_or_documents, store_argument


@subcommand(
    "copy",
    short_help="Copy a store as it is now.",
    epilog="\b\nExample:\n  fpstore copy web.fpstore /backup/web-monday.fpstore\n",
)
@store_argument
@click.argument("destination", metavar="DEST", type=FILE_PATH)
@mode_option
def command(store: str, destination: str, mode: int | None) -> None:
    """Copy STORE as it is now to DEST, where nothing may be; a writer may go on meanwhile.

    Every page is checked on its way. An interrupted copy leaves nothing behind.
    """
    with opened_store(store) as opened, progress_bar() as bar:
        opened.copy(destination, progress=bar, mode=mode)
    with opened_store(destination) as made:
        stats = made.stats()
        rows = sum(segment.id_count or segment.fingerprint_count for segment in stats.segments) + stats.pending_count
        size, whole = sum(segment.file_bytes for segment in made._segments), size_of(made)
    told = rows_or_documents(rows, None if stats.minhash is None else int(stats.minhash["bands"]))
    # A row can be in several segments and in what is pending, and what was removed is still in them.
    parts = len(stats.segments) + bool(stats.pending_count)
    is_exact = not stats.removal_count and parts <= 1
    tell_done(
        "copy",
        {"path": destination, "row_count": told[0], "is_exact": is_exact, "segments_bytes": size},
        f"{destination}: {'' if is_exact else 'at most '}{counted(*told)}, {decimal_size(whole)}",
    )
