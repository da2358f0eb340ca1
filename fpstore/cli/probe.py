"""`fpstore probe`: every stored fingerprint near each of the queries, as lines; and what `nearest` shares with it."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from fpstore import OnProgress, Progress
from fpstore.cli import signed as signatures
from fpstore.cli.columns import (
    decimal_option,
    fingerprint_options,
    header_option,
    refuse_signed,
    signed_option,
    typed_fingerprints,
    written,
    written_ids,
)
from fpstore.cli.common import common
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for, recipe_of
from fpstore.cli.shared import Share, engine_options, rank_options, share_of, workers_option
from fpstore.cli.similar import refuse_other_kind, similarity_option
from fpstore.cli.stores import is_listing, opened_to_ask
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option, tell_short, text_options
from fpstore.cli.unbuffered import answer_input, unbuffered_option
from fpstore.cli.values import (
    distance_option,
    format_option,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Matches, Store
    from fpstore.inputs import Reader
    from fpstore.minhash import MinHashStore
    from fpstore.types import ByteOrder, Keys

EPILOG = """\b
Examples:
  fpstore probe web.fpstore 9f3a5c0012ab44de 0x12ff
  fpstore probe web.fpstore --decimal 1234567 -- -42
  fpstore probe web.fpstore --input new.csv --fingerprint-column simhash -k 2 > matches.tsv
  cut -f 1 hashes.tsv | fpstore probe web.fpstore --input - --format hex
  fpstore probe web.shards.json --input new.npy --workers 8    (many stores, in many places, as one)
  fpstore probe docs.fpstore --text "four words or more of it" --json
  coproc fpstore probe web.fpstore --input - --unbuffered    (a line asked, a line of JSON answered)
"""

# Fewer than build reads at a time: a query can have many matches, and all of a batch are held.
BATCH_QUERIES = 1 << 14

HEADER = "query_fingerprint\tfingerprint\tdistance\tid\n"
LINE = "{1}\t{2}\t{3}\t{4}\n"
JSON_LINE = (
    '{{"format": "fpstore.%s/1", "query": {}, "query_fingerprint": "{}", "fingerprint": "{}", "distance": {},'
    ' "id": {}}}\n'
)
NO_ID = "-"
JSON_NO_ID = "null"


# What is asked, and how it is printed; those of a command, from the first to the last.
QUERY_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    store_argument,
    click.argument("fingerprints", metavar="[FINGERPRINT]...", nargs=-1),
    click.option(
        "--input", "input_path", metavar="FILE", help="Ask for every fingerprint or text of FILE; - is standard input."
    ),
    format_option,
    fingerprint_options,
    text_options,
    idf_option,
    skip_bad_option,
    click.option("--text", metavar="STRING", help="Ask for the fingerprint of this text, by the recipe of the store."),
    distance_option("The largest Hamming distance; beyond that of the store's plan all may be read."),
    decimal_option,
    header_option,
    signed_option,
)


def query_options(command: Any) -> Any:
    """The command with QUERY_OPTIONS."""
    return reduce(lambda made, option: option(made), reversed(QUERY_OPTIONS), command)


@subcommand("probe", short_help="Find what is near a fingerprint or a text.", epilog=EPILOG)
@query_options
@similarity_option(
    "Of a store of signatures: the least estimated similarity, 0 to 1.  [default: all that share a band]"
)
@unbuffered_option
@workers_option("With --input: how many processes share its queries, or the store, whichever costs less.  [default: 1]")
@engine_options
@rank_options
def command(unbuffered: bool, **given: Any) -> None:
    """Print every fingerprint in STORE that is near a query, and its id.

    A FINGERPRINT is 1 to 16 hexadecimal digits, fewer where those of the store have fewer bits, with 0x before them or
    without. Of 128 and 256 bits it is all 32 or 64 digits; fewer take 0x, as they may have been cut. With --decimal it
    is a decimal number. Each match is a line of query,
    fingerprint, distance and id, separated by tabs, the nearest first; a fingerprint with several ids has a line for
    each, and the id of a store without ids is "-" (in JSON, null). No match is no error. Without -k they
    are near within the distance that the store was made for.

    Of a store of signatures a query is a text. A line is the number of the query, id, estimated similarity and how many
    bands are shared, the most similar first.

    STORE may be a list of stores, NAME.shards.json, which fpstore.cluster.Shards writes: what is printed are the
    matches of all of them, each once.

    With --workers the whole of --input is one question, which is held in memory and cut into tasks for processes. What
    is printed is the same; there may be any number of matches. --engine ray and --engine spark have the processes of a
    cluster do the tasks. Where something else starts processes, such as Slurm, each of W of them does its tasks with
    --rank, --world-size and --folder; then the same command without --rank prints what all have found.

    With --unbuffered another program asks, for as long as it likes: each line of --input is answered at once by one
    line of JSON with a list of matches, a bad line by one with an error.
    """
    max_distance, min_similarity = given.pop("max_distance"), given.pop("min_similarity")
    share = share_of(given, max_distance)
    expect_something(given)
    if unbuffered and is_listing(given["store"]):
        told = "found a list of stores, expected one store; a list is asked by --input without it"
        raise click.UsageError(f"--unbuffered: {told}")
    with opened_to_ask(given["store"]) as opened:
        if opened.kind == "minhash":
            signatures.expect_no_fingerprints(opened, given["fingerprints"])
        else:
            refuse_other_kind(None)
        refuse_signed(opened)
        if unbuffered and given["input_path"] is not None:
            from fpstore.serve import lines

            asked = min_similarity if opened.kind == "minhash" else max_distance
            answer_input(opened, given["input_path"], given["idf_path"], lines.probing(opened, asked))
        elif opened.kind == "minhash":
            _ask_of_signatures(opened, min_similarity, given)
        else:
            reach = opened.max_distance if max_distance is None else max_distance
            print_found("probe", _probing(max_distance), opened, share, reach=reach, **_without_store(given))


def _without_store(given: "Mapping[str, Any]") -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "store"}


def _ask_of_signatures(store: "MinHashStore", min_similarity: float | None, given: dict[str, Any]) -> None:
    signatures.print_found(
        store,
        given["idf_path"],
        given["text"],
        given["input_path"],
        min_similarity=min_similarity,
        html=given["html"],
        header=given["header"],
        signed=given["signed"],
        format=given["format"],
        text_column=given["text_column"],
        input_header=given["input_header"],
        skip_bad=given["skip_bad"],
    )


def _probing(max_distance: int | None) -> "Callable[[Store, Keys], Matches]":
    threads = common().threads
    return lambda store, queries: store.probe_many(queries, max_distance=max_distance, threads=threads)


def expect_something(given: "Mapping[str, Any]") -> None:
    """UsageError where there is nothing to ask for."""
    if not given["fingerprints"] and given["text"] is None and given["input_path"] is None:
        raise click.UsageError("nothing to ask for: expected a FINGERPRINT, --text or --input")


def print_found(
    name: str,
    ask: "Callable[[Store, Keys], Matches]",
    opened: "Store",
    share: Share | None = None,
    *,
    reach: int,
    fingerprints: tuple[str, ...],
    input_path: str | None,
    format: str,
    fingerprint_column: str | int | None,
    fingerprint_format: str,
    byte_order: "ByteOrder",
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    idf_path: str | None,
    skip_bad: bool,
    text: str | None,
    decimal: bool,
    header: bool,
    signed: bool,
) -> None:
    """Ask the store for what the options say, and print what is found; name: of the subcommand.

    share: what answers all queries of an input together. reach: up to which distance a text is looked for, 0 if it is
    found however far it is.
    """
    import numpy as np

    print_matches = _Printer(name, ask, signed)
    typed = typed_fingerprints(fingerprints, decimal, opened.bits, byte_order, text_option="--text")
    if text is not None:
        typed = np.concatenate([typed, _fingerprint(opened, idf_path, text, reach, html=html)])
    if header:
        sys.stdout.write(HEADER)
    if len(typed):
        print_matches(opened, typed)
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
        byte_order=byte_order,
        text_column=text_column,
        header=input_header,
        html=html,
        threads=common().threads,
        skip_bad=skip_bad,
        batch=BATCH_QUERIES,
    )
    with closing(reader), progress_bar(results_follow=False) as bar:
        batches = _counted(reader, "probing" if share is None else "reading", bar)
        if share is not None:
            share(opened, batches, print_matches.write, bar)
        else:
            for queries in batches:
                print_matches(opened, queries)
    tell_skipped(reader.skipped, reader.notes)
    tell_short(reader.lengths)
    if not reader.seen.rows:
        say(f"{input_path}: holds nothing, so nothing was asked for")


def _fingerprint(opened: "Store", idf_path: str | None, text: str, reach: int, *, html: bool) -> "Keys":
    """That of --text, as an array of one, by the recipe of the store; what makes it say little is told."""
    from fpstore.text.short import Lengths

    recipe = recipe_of(opened, idf_path)
    text = signatures.shown_text(recipe, text, html=html)
    measured = recipe.measure_many([text])
    lengths = Lengths(recipe, reach)
    lengths.see([text], measured)
    if not measured.token_counts[0]:
        what = "it is near its equals only" if recipe.parts_empty else "no two such texts can be told apart"
        say(f"fpstore: warning: --text has no token for recipe {recipe.name}: {what}")
    else:
        tell_short(lengths)
    return measured.fingerprints


def _counted(reader: "Reader", phase: str, bar: OnProgress | None) -> "Iterator[Keys]":
    """The queries of a reader, which a bar counts."""
    done = 0
    for batch in reader:
        yield batch.fingerprints
        done += len(batch.fingerprints)
        if bar is not None:
            bar(Progress(phase, done, None, "queries"))


class _Printer:
    """Prints the matches of queries, which it numbers; queries: how many there were."""

    def __init__(self, name: str, ask: "Callable[[Store, Keys], Matches]", signed: bool) -> None:
        self._ask, self._signed, self._as_json = ask, signed, common().as_json
        self._line, self._no_id = (JSON_LINE % name, JSON_NO_ID) if self._as_json else (LINE, NO_ID)
        self.queries = 0

    def __call__(self, store: "Store", queries: "Keys") -> None:
        self.write(store, queries, self._ask(store, queries))
        self.queries += len(queries)

    def write(self, store: "Store", queries: "Keys", matches: "Matches") -> None:
        """Print matches of these queries, the first of which is the next that is not numbered yet."""
        ids: Iterable[str] = [self._no_id] * len(matches)
        if matches.id is not None:
            ids = written_ids(matches.id, self._signed, self._as_json)
        columns = (
            (matches.query + self.queries).tolist(),
            written(queries[matches.query], self._signed, store.bits),
            written(matches.fingerprint, self._signed, store.bits),
            matches.distance.tolist(),
            ids,
        )
        sys.stdout.write("".join(map(self._line.format, *columns)))
