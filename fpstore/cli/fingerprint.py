"""`fpstore fingerprint`: texts to fingerprints, one line each."""

import sys
from contextlib import closing

import click

from fpstore.cli.progress import progress_bar
from fpstore.cli.values import format_option, skip_bad_option, tell_skipped, text_column_option

EPILOG = """\b
Examples:
  fpstore fingerprint draft.txt
  fpstore fingerprint documents/ > fingerprints.tsv
  fpstore fingerprint crawl.jsonl.gz --text-column body | cut -f 1 | fpstore build web.fps - --format hex
"""


@click.command(short_help="Print the fingerprints of texts.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@format_option
@text_column_option
@skip_bad_option
def command(inputs: tuple[str, ...], format: str, text_column: str | int | None, skip_bad: bool) -> None:
    """Print the fingerprint of every text of every INPUT, a tab, and its name.

    The name is the path of the file, or path:line. The lines come in the order in which build numbers rows, by
    the recipe that build uses (words-4): a text without words has the fingerprint 0000000000000000.
    """
    from fpstore.inputs import documents
    from fpstore.text import DEFAULT

    bytes_read = 0

    def count_bytes(count: int) -> None:
        nonlocal bytes_read
        bytes_read += count

    # A file's name can hold bytes that are no UTF-8; they go out as they came in.
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    named_texts = documents(inputs, format=format, text_column=text_column, skip_bad=skip_bad, on_bytes=count_bytes)
    with closing(named_texts), progress_bar(results_follow=False) as bar:
        for name, text in named_texts:
            sys.stdout.write(f"{DEFAULT.fingerprint(text):016x}\t{name}\n")
            if bar is not None:
                bar("reading (bytes)", bytes_read, named_texts.total_bytes)
    tell_skipped(named_texts.skipped)
