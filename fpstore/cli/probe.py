"""`fpstore probe`: every stored fingerprint near each of the queries, as lines."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from fpstore import Progress
from fpstore.cli.columns import (
    decimal_option,
    fingerprint_options,
    header_option,
    signed_option,
    typed_fingerprints,
    written,
    written_ids,
)
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for, recipe_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option, reading_options, tell_short
from fpstore.cli.unbuffered import answer_input, unbuffered_option
from fpstore.cli.values import (
    distance_option,
    format_option,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Reader
    from fpstore.text import Recipe
    from fpstore.types import Keys

EPILOG = """\b
Examples:
  fpstore probe web.fpstore 9f3a5c0012ab44de 0x12ff
  fpstore probe web.fpstore --decimal 1234567 -- -42
  fpstore probe web.fpstore --input new.csv --fingerprint-column simhash -k 2 > matches.tsv
  cut -f 1 hashes.tsv | fpstore probe web.fpstore --input - --format hex
  fpstore probe docs.fpstore --text "four words or more of it" --json
  coproc fpstore probe web.fpstore --input - --unbuffered    (a line asked, a line of JSON answered)
"""

# Fewer than build reads at a time: a query can have many matches, and all of a batch are held.
BATCH_QUERIES = 1 << 14

HEADER = "query_fingerprint\tfingerprint\tdistance\tid\n"
LINE = "{1}\t{2}\t{3}\t{4}\n"
JSON_LINE = (
    '{{"format": "fpstore.probe/1", "query": {}, "query_fingerprint": "{}", "fingerprint": "{}", "distance": {},'
    ' "id": {}}}\n'
)
NO_ID = "-"
JSON_NO_ID = "null"


@subcommand("probe", short_help="Find what is near a fingerprint or a text.", epilog=EPILOG)
@store_argument
@click.argument("fingerprints", metavar="[FINGERPRINT]...", nargs=-1)
@click.option(
    "--input", "input_path", metavar="FILE", help="Probe every fingerprint or text of FILE; - is standard input."
)
@format_option
@fingerprint_options
@reading_options
@idf_option
@skip_bad_option
@click.option("--text", metavar="STRING", help="Probe the fingerprint of this text, by the recipe of the store.")
@distance_option("The largest Hamming distance, up to that of the store's plan.  [default: the store's]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
@decimal_option
@header_option
@signed_option
@unbuffered_option
def command(
    store: str,
    fingerprints: tuple[str, ...],
    input_path: str | None,
    format: str,
    fingerprint_column: str | int | None,
    fingerprint_format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    threads: int,
    idf_path: str | None,
    skip_bad: bool,
    text: str | None,
    max_distance: int | None,
    as_json: bool,
    decimal: bool,
    header: bool,
    signed: bool,
    unbuffered: bool,
) -> None:
    """Print every fingerprint in STORE that is near a query, and its id.

    A FINGERPRINT is 1 to 16 hexadecimal digits, with 0x before them or without; with --decimal a decimal number. Each
    match is a line of query, fingerprint, distance and id, separated by tabs, the nearest first; a fingerprint with
    several ids has a line for each, and the id of a store without ids is "-" (in JSON, null). No match is no error.

    With --unbuffered another program asks, for as long as it likes: each line of --input is answered at once by one
    line of JSON with a list of matches, a bad line by one with an error.
    """
    import numpy as np

    import fpstore

    if not fingerprints and text is None and input_path is None:
        raise click.UsageError("nothing to probe: expected a FINGERPRINT, --text or --input")
    if unbuffered and input_path is not None:
        from fpstore.serve.lines import probing

        with fpstore.open(store) as opened:
            answer_input(opened, input_path, idf_path, probing(opened, max_distance))
        return
    print_matches = _Printer(max_distance, as_json, signed)
    with fpstore.open(store) as opened:
        typed = typed_fingerprints(fingerprints, decimal, text_option="--text")
        if text is not None:
            typed.append(_fingerprint(recipe_of(opened, idf_path), text, html=html))
        if header:
            sys.stdout.write(HEADER)
        if typed:
            print_matches(opened, np.array(typed, dtype=np.uint64))
        if input_path is None:
            return
        reader = read_for(
            opened,
            [input_path],
            idf_path,
            has_text=text is not None,
            format=format,
            ids=None,
            fingerprint_column=fingerprint_column,
            fingerprint_format=fingerprint_format,
            text_column=text_column,
            header=input_header,
            html=html,
            threads=threads,
            skip_bad=skip_bad,
            batch=BATCH_QUERIES,
        )
        with closing(reader), _counted(reader) as batches:
            for queries in batches:
                print_matches(opened, queries)
        tell_skipped(reader.skipped, reader.notes)
        tell_short(reader.lengths)
        if not reader.seen.rows:
            say(f"{input_path}: holds nothing, so nothing was probed")


def _fingerprint(recipe: "Recipe", text: str, *, html: bool) -> int:
    """That of --text, by the recipe of the store."""
    from fpstore.inputs.errors import WITH_TAGS
    from fpstore.text.cleaning import has_tags, stand_in

    if html:
        visible = recipe.text_of(text)
        text = visible if visible.strip() else stand_in(text)
    elif has_tags(text):
        tell_skipped({}, {WITH_TAGS: 1})
    (fingerprint,), (tokens,), _ = recipe.measure_many([text])
    if not tokens:
        what = "it is near its equals only" if recipe.parts_empty else "no two such texts can be told apart"
        say(f"fpstore: warning: --text has no token for recipe {recipe.name}: {what}")
    return int(fingerprint)


@contextmanager
def _counted(reader: "Reader") -> "Iterator[Iterator[Keys]]":
    """The queries of a reader, with a bar that counts them."""
    with progress_bar(results_follow=False) as bar:

        def batches() -> "Iterator[Keys]":
            done = 0
            for batch in reader:
                yield batch.fingerprints
                done += len(batch.fingerprints)
                if bar is not None:
                    bar(Progress("probing", done, None, "queries"))

        yield batches()


class _Printer:
    """Prints the matches of queries, which it numbers; queries: how many there were."""

    def __init__(self, max_distance: int | None, as_json: bool, signed: bool) -> None:
        self._max_distance, self._signed = max_distance, signed
        self._as_json = as_json
        self._line, self._no_id = (JSON_LINE, JSON_NO_ID) if as_json else (LINE, NO_ID)
        self.queries = 0

    def __call__(self, store: "Store", queries: "Keys") -> None:
        matches = store.probe_many(queries, max_distance=self._max_distance)
        ids: Iterable[str] = [self._no_id] * len(matches)
        if matches.id is not None:
            ids = written_ids(matches.id, self._signed, self._as_json)
        columns = (
            (matches.query + self.queries).tolist(),
            written(queries[matches.query], self._signed, True),
            written(matches.fingerprint, self._signed, True),
            matches.distance.tolist(),
            ids,
        )
        sys.stdout.write("".join(map(self._line.format, *columns)))
        self.queries += len(queries)
