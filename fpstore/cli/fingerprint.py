"""`fpstore fingerprint`: texts to fingerprints, one line each."""

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import click

from fpstore.cli.progress import progress_bar
from fpstore.cli.texts import idf_option, reading_options, recipe_asked, recipe_option, tell_short
from fpstore.cli.values import FILE_PATH, format_option, skip_bad_option, tell_skipped

if TYPE_CHECKING:
    from fpstore.inputs import Documents

EPILOG = """\b
Examples:
  fpstore fingerprint draft.txt
  fpstore fingerprint documents/ --format text > fingerprints.tsv
  fpstore fingerprint crawl.warc.gz --recipe web-en --threads 4
  fpstore fingerprint crawl.jsonl.gz --text-column body | cut -f 1 | fpstore build web.fpstore - --format hex
"""

# About this many characters of texts are turned into fingerprints together.
BATCH_CHARACTERS = 1 << 22


@click.command(short_help="Print the fingerprints of texts.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@format_option
@reading_options
@recipe_option
@idf_option
@skip_bad_option
def command(
    inputs: tuple[str, ...],
    format: str,
    text_column: str | int | None,
    html: bool,
    threads: int,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
) -> None:
    """Print the fingerprint of every text of every INPUT, a tab, and its name.

    The name is the path of the file, path:line, or path:record:URI; control characters and backslashes in it are
    escaped by a backslash. The lines come in the order in which build
    numbers rows. A text without words has the fingerprint 0000000000000000.
    """
    from fpstore.inputs import documents
    from fpstore.jobs.rows import field
    from fpstore.text.short import Lengths

    bytes_read = 0

    def count_bytes(count: int) -> None:
        nonlocal bytes_read
        bytes_read += count

    recipe = recipe_asked(recipe_name, idf_path)
    lengths = Lengths(recipe)
    # A file's name can hold bytes that are no UTF-8; they go out as they came in.
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    named_texts = documents(
        inputs,
        format=format,
        text_column=text_column,
        html=html,
        recipe=recipe,
        skip_bad=skip_bad,
        on_bytes=count_bytes,
    )
    with closing(named_texts), progress_bar(results_follow=False) as bar:
        for names, texts in _batches(named_texts):
            fingerprints, counts = recipe.measure_many(texts, threads)
            lengths.see(counts)
            sys.stdout.write("".join(map("{:016x}\t{}\n".format, fingerprints.tolist(), map(field, names))))
            if bar is not None:
                bar("reading (bytes)", bytes_read, named_texts.total_bytes)
    tell_skipped(named_texts.skipped, named_texts.notes)
    tell_short(lengths)


def _batches(named_texts: "Documents") -> Iterator[tuple[list[str], list[str]]]:
    """The names and the texts of several documents at a time."""
    names: list[str] = []
    texts: list[str] = []
    size = 0
    for name, text in named_texts:
        names.append(name)
        texts.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield names, texts
            names, texts, size = [], [], 0
    yield names, texts
