"""`fpstore verify`: reads everything in a store and checks it."""

from time import perf_counter

import click

from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.values import counted, decimal_size, store_argument


@click.command(
    short_help="Read everything in a store and check it.",
    epilog="\b\nExample:\n  fpstore verify web.fps && rsync -a web.fps backup:\n",
)
@store_argument
def command(store: str) -> None:
    """Read everything in STORE and check it: exit status 1 and a line that says where for the first fault.

    Checked are the catalog, the checksum of every page, the order of the keys within and across blocks, every
    directory, that every table holds the same fingerprints, that the plan misses none, and that ids are in step. A
    fingerprint that is in several segments is counted in each.
    """
    import fpstore

    start = perf_counter()
    with fpstore.open(store) as opened:
        with progress_bar() as bar:
            opened.verify(bar)
        seconds = perf_counter() - start
        keys = sum(segment.key_count for segment in opened.segments)
        tables = sum(len(segment.tables) for segment in opened.segments)
        ids = sum(segment.record.id_count for segment in opened.segments)
        size_bytes = sum(segment.file_bytes for segment in opened.segments)
        stats = opened.stats()
        rest = [counted(stats["pending"], "pending row")] if stats["pending"] else []
        rest += [counted(stats["removals"], "removal")] if stats["removals"] else []
        say(
            f"{store}: sound; checked {counted(keys, 'fingerprint')} in {counted(tables, 'table')}"
            f" of {counted(len(opened.segments), 'segment')} and {counted(ids, 'id')}{', '.join(['', *rest])}:"
            f" {decimal_size(size_bytes)} in {seconds:.2f} s, {size_bytes / 1e6 / seconds:.0f} MB/s",
            err=False,
        )
