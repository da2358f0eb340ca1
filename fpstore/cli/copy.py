"""`fpstore copy`: a copy of a store as it is now."""

import click

from fpstore.cli.progress import progress_bar
from fpstore.cli.values import FILE_PATH, mode_option, store_argument


@click.command(
    short_help="Copy a store as it is now.",
    epilog="\b\nExample:\n  fpstore copy web.fps /backup/web-monday.fps\n",
)
@store_argument
@click.argument("destination", metavar="DEST", type=FILE_PATH)
@mode_option
def command(store: str, destination: str, mode: int | None) -> None:
    """Copy STORE as it is now to DEST, where nothing may be; a writer may go on meanwhile.

    Every page is checked on its way. An interrupted copy leaves nothing behind.
    """
    import fpstore

    with fpstore.open(store) as opened, progress_bar() as bar:
        opened.copy(destination, progress=bar, mode=mode)
