"""How commands print what stores of signatures answer, and what they ask them in place of fingerprints."""

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fpstore import OnProgress, Progress
from fpstore.cli.columns import written_ids
from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.rows import read_for, recipe_of
from fpstore.cli.shared import PRINTED_ROWS
from fpstore.cli.subcommand import OF_BITS, refuse_unused
from fpstore.cli.texts import tell_short
from fpstore.cli.values import tell_skipped

if TYPE_CHECKING:
    from fpstore.minhash import MinHashStore, SimilarPairs
    from fpstore.text import Recipe
    from fpstore.types import Array

HEADERS = {
    "probe": "query\tid\tsimilarity\tshared_bands\n",
    "add": "id\tmatch_id\tmatch_similarity\tmatch_shared_bands\n",
    "pairs": "first_id\tsecond_id\tsimilarity\tshared_bands\n",
    "lookup": "id\tsketch\n",
}
LINE = "{}\t{}\t{}\t{}\n"
_JSON = '{{"format": "fpstore.%s/1", %s}}\n'
JSON_LINES = {
    "probe": _JSON % ("probe", '"query": {}, "id": {}, "similarity": {}, "shared_bands": {}'),
    "add": _JSON % ("add", '"id": {}, "match_id": {}, "match_similarity": {}, "match_shared_bands": {}'),
    "pairs": _JSON % ("pairs", '"first_id": {}, "second_id": {}, "similarity": {}, "shared_bands": {}'),
    "lookup": _JSON % ("lookup", '"id": {}, "sketch": "{}"'),
}
NO_ID, JSON_NO_ID = "-", "null"
# Fewer texts than are read at a time: a query can have many matches, and all of a batch are held.
BATCH_QUERIES = 1 << 14


def expect_no_fingerprints(store: "MinHashStore", given: Iterable[str]) -> None:
    """UsageError for a FINGERPRINT, or an option of one, of a store of signatures."""
    if [*given]:
        told = "found a FINGERPRINT, expected --text or --input with texts: the store has signatures"
        raise click.UsageError(f"{store.path}: {told}")
    refuse_unused(OF_BITS)


def written_similarity(similarity: "Array") -> list[str]:
    """Estimates with four digits; of none nothing that is a number."""
    nothing = JSON_NO_ID if common().as_json else NO_ID
    return [nothing if math.isnan(each) else f"{each:.4f}" for each in similarity.tolist()]


def ids_or_none(ids: Any, count: int, signed: bool) -> list[str]:
    """Ids as lines have them, of a store without ids what stands in their place."""
    as_json = common().as_json
    return [JSON_NO_ID if as_json else NO_ID] * count if ids is None else written_ids(ids, signed, as_json)


def print_lines(name: str, *columns: Iterable[object]) -> None:
    """Print the lines of a command."""
    line = JSON_LINES[name] if common().as_json else LINE if name != "lookup" else "{}\t{}\n"
    sys.stdout.write("".join(map(line.format, *columns)))


# --- Probe ---


def print_found(
    store: "MinHashStore",
    idf_path: str | None,
    text: str | None,
    input_path: str | None,
    *,
    min_similarity: float | None,
    html: bool,
    header: bool,
    input_header: bool | None,
    signed: bool,
    **options: Any,
) -> None:
    """Ask the store for a text and for those of a file, and print what is found."""
    asked = 0

    def ask(signatures: "Array") -> None:
        nonlocal asked
        found = store.probe_many(signatures, min_similarity=min_similarity, threads=common().threads)
        ids = ids_or_none(found.id, len(found), signed)
        queries, shared = (found.query + asked).tolist(), found.shared_bands.tolist()
        print_lines("probe", queries, ids, written_similarity(found.similarity), shared)
        asked += len(signatures)

    if header:
        sys.stdout.write(HEADERS["probe"])
    if text is not None:
        from fpstore.text.short import short_below

        recipe = recipe_of(store, idf_path)
        signatures, (tokens,) = recipe.sign_counted([shown_text(recipe, text, html=html)])
        if not tokens:
            say(f"fpstore: warning: --text has no token for recipe {recipe.name}: it is near its equals only")
        elif tokens < (enough := short_below(recipe, cut=(store.bands, store.rows_per_band))):
            say(
                f"fpstore: warning: --text has fewer than {enough} tokens, too few for recipe {recipe.name} and"
                f" {store.bands} bands of {store.rows_per_band} values: one changed token takes it out of reach as"
                " often as not"
            )
        ask(signatures)
    if input_path is None:
        return
    reader = read_for(
        store,
        [input_path],
        idf_path,
        has_text=text is not None,
        ids=None,
        header=input_header,
        html=html,
        threads=common().threads,
        batch=BATCH_QUERIES,
        **options,
    )
    with closing(reader), progress_bar(results_follow=False) as bar:
        for batch in reader:
            ask(batch.fingerprints)
            if bar is not None:
                bar(Progress("probing", asked, None, "queries"))
    tell_skipped(reader.skipped, reader.notes)
    tell_short(reader.lengths)
    if not reader.seen.rows:
        say(f"{input_path}: holds nothing, so nothing was asked for")


def shown_text(recipe: "Recipe", text: str, *, html: bool) -> str:
    """What --text has to say, of HTML what is visible; says so where it looks like tags."""
    from fpstore.inputs.errors import WITH_TAGS
    from fpstore.text.cleaning import has_tags, stand_in

    if html:
        visible = recipe.text_of(text)
        text = visible if visible.strip() else stand_in(text)
    elif has_tags(text):
        tell_skipped({}, {WITH_TAGS: 1})
    return text


# --- Add ---


def add_new(store: "MinHashStore", batch: Any, min_similarity: float | None, signed: bool) -> tuple[int, str]:
    """Store what is new of a batch; how many rows were stored, and the lines of the rest."""
    found = store.add_if_new(batch.fingerprints, ids=batch.ids, min_similarity=min_similarity)
    known = ~found.stored
    count = int(known.sum())
    ids, match_ids = (
        ids_or_none(None if column is None else column[known], count, signed) for column in (batch.ids, found.match_id)
    )
    shared = found.match_shared_bands[known].tolist()
    line = JSON_LINES["add"] if common().as_json else LINE
    rows = map(line.format, ids, match_ids, written_similarity(found.match_similarity[known]), shared)
    return len(known) - count, "".join(rows)


# --- Pairs, look-ups, removals ---


def print_pairs(
    store: "MinHashStore", min_similarity: float | None, memory: str, *, count_only: bool, header: bool, signed: bool
) -> None:
    """Every two ids that share a band, or how many there are."""
    with progress_bar(results_follow=count_only) as bar:
        if count_only:
            count = store.count_pairs(min_similarity=min_similarity, memory=memory, progress=bar)
            if common().as_json:
                print_document("pairs-count", {"pair_count": count})
            else:
                click.echo(str(count))
            return
        every = store.pairs(min_similarity=min_similarity, memory=memory, progress=bar)
        _print_similar(every, header=header, signed=signed)


def print_shared(
    store: "MinHashStore",
    asked: dict[str, Any],
    min_similarity: float | None,
    memory: str,
    *,
    header: bool,
    signed: bool,
) -> None:
    """The pairs as those who do tasks find them, in order."""
    from fpstore.cluster import similar_pairs

    how = {"min_similarity": min_similarity, "memory": memory, **asked}
    with progress_bar(results_follow=False) as bar, similar_pairs(store.path, progress=bar, **how) as every:
        few = (some[first : first + PRINTED_ROWS] for some in every for first in range(0, len(some), PRINTED_ROWS))
        _print_similar(few, header=header, signed=signed)


def _print_similar(every: "Iterable[SimilarPairs]", *, header: bool, signed: bool) -> None:
    if header:
        sys.stdout.write(HEADERS["pairs"])
    for found in every:
        both = (written_ids(ids, signed, common().as_json) for ids in (found.first_id, found.second_id))
        print_lines("pairs", *both, written_similarity(found.similarity), found.shared_bands.tolist())


def print_documents(store: "MinHashStore", ids: Any, signed: bool) -> None:
    """What is kept of the signatures of ids."""
    found = store.lookup(ids)
    assert found.sketch is not None
    sketches = [each.hex() for each in found.sketch.tolist()]
    print_lines("lookup", written_ids(found.id, signed, common().as_json), sketches)


def expect_ids_to_remove(store: "MinHashStore", *, by_fingerprint: bool) -> None:
    """UsageError where documents cannot be removed, or are asked for by what removes fingerprints."""
    from fpstore.minhash.store import KEPT_ONCE

    if not store._settings.ids:
        told = "expected a store with ids, which are what is removed; create --no-keep-signatures makes the smallest"
        raise click.UsageError(f"{store.path}: {KEPT_ONCE}: {told}")
    refuse_unused(OF_BITS)
    if by_fingerprint:
        told = "found a FINGERPRINT or --input, expected --id or --id-input: the store has signatures"
        raise click.UsageError(f"{store.path}: {told}")


def remove_ids(store: "MinHashStore", batches: Iterator[Any], bar: OnProgress | None) -> tuple[int, int]:
    """Remove the documents of ids; how many were asked for, and how many documents there were.

    Where no signatures are kept that is how many fewer there are then, for which all rows are read twice.
    """
    looks_up = store._settings.kept is not None
    done, removed = 0, 0 if looks_up else store.count()
    for batch in batches:
        ids = batch.fingerprints
        if looks_up:
            removed += len(store.lookup(ids))
        store.remove(ids=ids)
        done += len(ids)
    return done, removed if looks_up else removed - store.count()
