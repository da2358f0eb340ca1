"""`fpstore cluster`: the number of the cluster that each document is in, or each fingerprint of a store."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.common import common
from fpstore.cli.corpora import (
    confirm_option,
    corpus_options,
    expect_lasting_output,
    expect_summary,
    output_file,
    output_option,
    recipe_of_job,
    tell,
    tell_confirmed,
    write_summary,
)
from fpstore.cli.progress import progress_bar
from fpstore.cli.shared import (
    MEASURING,
    WHO_OR_RANKS,
    engine_options,
    given_of,
    measure_rank,
    pairs_rank,
    rank_of,
    rank_options,
    similar_pairs_rank,
    who_of,
    workers_option,
)
from fpstore.cli.stores import is_listing, opened_store
from fpstore.cli.subcommand import (
    OF_BITS,
    OF_SIGNATURES,
    OF_TEXTS,
    STANDARD_OUTPUT,
    refuse_unused,
    subcommand,
)
from fpstore.cli.values import FILE_PATH, RESULT_PATH, counted, distance_option

if TYPE_CHECKING:
    from fpstore.jobs import ClusterSummary

EPILOG = """\b
Examples:
  fpstore cluster crawl.jsonl.zst -o clusters.tsv
  fpstore cluster documents/ --format text --recipe code | sort -n | cut -f 1,2
  fpstore cluster crawl.jsonl.zst -o components.tsv --components -k 2
  fpstore cluster pages.parquet -o labelled.parquet --text-column body --annotate --topics topics.tsv
  fpstore cluster web.fpstore -o clusters.parquet --components
  fpstore cluster web.fpstore -o clusters.parquet --components --workers 8    (by eight processes: the same lines)
  fpstore cluster monday.jsonl -o monday.tsv --store clusters.fpstore
  fpstore cluster tuesday.jsonl -o tuesday.tsv --store clusters.fpstore    (joins Monday's clusters, or begins new ones)
"""


@subcommand("cluster", short_help="Group near-duplicate documents.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT... | STORE", nargs=-1, required=True, type=FILE_PATH)
@output_option
@distance_option(
    "The largest Hamming distance between near-duplicates.  [default: 6, or that of STORE; 3 where nothing is confirmed"
    " for --update-center or --components]"
)
@confirm_option("Join")
@click.option(
    "--update-center",
    is_flag=True,
    help="Compare with the bits that most members of a cluster have, in place of its first document.",
)
@click.option("--components", is_flag=True, help="Connect all that are near each other, also by way of others.")
@click.option(
    "--annotate",
    is_flag=True,
    help="Write the documents themselves, with all their columns and two more: cluster and cluster_distance.",
)
@click.option(
    "--topics",
    metavar="FILE",
    type=RESULT_PATH,
    help="Write to FILE, for each of the 100 largest clusters, its size and the words that tell it from the rest.",
)
@click.option(
    "--store",
    metavar="STORE",
    type=FILE_PATH,
    help="Go on with the clusters of earlier jobs, which are in STORE; it is made where there is none.",
)
@workers_option(f"{MEASURING} Of a STORE, with --components: how many find its pairs.")
@engine_options
@rank_options
@corpus_options
def command(
    inputs: tuple[str, ...],
    output: str | None,
    max_distance: int | None,
    confirm: str,
    update_center: bool,
    components: bool,
    annotate: bool,
    topics: str | None,
    store: str | None,
    bands: int | None,
    rows_per_band: int | None,
    min_similarity: float | None,
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    id_column: str | int | None,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
    summary_path: str | None,
    force: bool,
    **tasks: Any,
) -> None:
    """Print a line for each document of every INPUT, in their order: number of its cluster, name, distance.

    Of a STORE a line for each row, in the order of the ids: number of its cluster, id, fingerprint, distance. The
    store stays as it is; of the options of texts none goes with it. Of a STORE of signatures a line for each id: number
    of its cluster, id, and, without --components, its similarity to the leader. Two are near that `pairs` with the same
    --min-similarity finds; an id joins the most similar leader, of several the oldest.

    A document joins the cluster of the nearest leader within distance k that is enough alike (--confirm), of several
    at one distance that with the least fingerprint, then the oldest, or becomes the leader of the next. The distance
    is that to the leader. So members of a cluster are within 2k of each other; leaders are further than k apart, or
    not alike. They are what dedup keeps.

    With --update-center the leader is replaced by a center that moves with each member: a bit of it is what most
    members have, or what the first has where as many have it as not. The distance is that to the center as it was when
    the document came; in the end it can be more than k, and two centers can be nearer than that.

    With --components, documents are in one cluster if a chain of documents, each within k of the next, joins them.
    The distance is that to the first document of the cluster, and can be more than k. This holds 40 bytes for each
    document, and finds the pairs in files.

    With --store the documents join the clusters of earlier jobs with STORE, as if all documents came in one job: the
    numbers go on. STORE has a row for each cluster: the fingerprint of its first document, with the number as its id,
    or, in one made with --id-type string, with its name, and the texts of first documents beside it. With
    --update-center STORE also keeps the bit counts of each cluster, 264 bytes for each 64 bits; all jobs with one
    STORE are with --update-center, or all without. Until the job is done nobody else may write to STORE.

    With --annotate FILE has the documents in place of these lines, as dedup writes kept ones: JSON lines, CSV and TSV
    stand as they were before the new fields. At the end the number of clusters of each size is said.

    --topics has cluster, size, words: the words with the largest tf-idf of its documents, at most ten. A word is a run
    of letters and digits. At most 200,000 words are counted, 2,000 of each cluster; of more the rarest are forgotten.

    FILE has these columns by name in .csv (with a header), .jsonl and .parquet. With -o, what is interrupted goes on
    when the same command is given again; until it is done, all of it is in the folder FILE.job. When it is done
    .FILE.done remains: the same command again does nothing.
    """
    from fpstore import jobs

    if update_center and components:
        raise click.UsageError("--update-center and --components: expected one of the two")
    of_store = _store_among(inputs)
    if of_store is not None:
        one_of, shared = rank_of(tasks), given_of(tasks, WHO_OR_RANKS)
        with opened_store(of_store) as opened:
            signs = opened.kind == "minhash"
        if (one_of or shared) and not components:
            told = "found no --components, expected it: clusters are begun one after the other, by one process"
            raise click.UsageError(f"--{next(iter(one_of or shared)).replace('_', '-')}: {told}")
        refuse_unused(OF_TEXTS, OF_BITS if signs else OF_SIGNATURES)
        expect_summary(summary_path, output)
        if one_of:
            if signs:
                similar_pairs_rank(of_store, one_of, min_similarity=min_similarity)
            else:
                pairs_rank(of_store, one_of, max_distance=max_distance)
            return
        with output_file(output) as path, progress_bar() as bar:
            if shared:
                from fpstore import cluster

                of_rows: dict[str, Any] = {"max_distance": max_distance, "min_similarity": min_similarity}
                summary = cluster.components(of_store, path, **of_rows, force=force, progress=bar, **shared)
            else:
                summary = jobs.cluster_store(
                    of_store,
                    path,
                    max_distance=max_distance,
                    min_similarity=min_similarity,
                    update_center=update_center,
                    components=components,
                    threads=common().threads,
                    force=force,
                    progress=bar,
                )
        write_summary(summary_path, summary)
        noun = "document" if signs else "row"
        tell(output, summary, f"clusters {summary.results}", noun, _sizes(summary, noun))
        return
    if store is not None and components:
        raise click.UsageError("--store and --components: found both, expected one: a new document joins components")
    expect_lasting_output(output, store)
    recipe = recipe_of_job(store, recipe_name, idf_path)
    if topics == STANDARD_OUTPUT:
        raise click.UsageError("--topics -: found standard output, expected a file")
    expect_summary(summary_path, output, topics)
    sources = jobs.Inputs(inputs, format, text_column, html, skip_bad, input_header, id_column)
    if asked := rank_of(tasks):
        alike = None if components or update_center or confirm == "none" else confirm
        kind = "components" if components else "cluster"
        near = {
            "max_distance": max_distance,
            "bands": bands,
            "rows_per_band": rows_per_band,
            "min_similarity": min_similarity,
        }
        about: dict[str, Any] = {"job": kind, "recipe": recipe, "store": store, "update_center": update_center, **near}
        measure_rank(sources, asked, confirm=alike, **about)
        return
    with output_file(output) as path, progress_bar() as bar:
        if components:
            summary = jobs.components(
                sources,
                path,
                max_distance=max_distance,
                bands=bands,
                rows_per_band=rows_per_band,
                min_similarity=min_similarity,
                annotate=annotate,
                topics=topics,
                recipe=recipe,
                force=force,
                threads=common().threads,
                **who_of(tasks),
                progress=bar,
            )
        else:
            summary = jobs.cluster(
                sources,
                path,
                store=store,
                max_distance=max_distance,
                bands=bands,
                rows_per_band=rows_per_band,
                min_similarity=min_similarity,
                confirm=None if confirm == "none" else confirm,
                update_center=update_center,
                annotate=annotate,
                topics=topics,
                recipe=recipe,
                force=force,
                threads=common().threads,
                **who_of(tasks),
                progress=bar,
            )
    new = f", new {summary.new}" if store is not None else ""
    refused = tell_confirmed(summary, recipe, confirm, None if update_center else store)
    write_summary(summary_path, summary)
    tell(output, summary, f"clusters {summary.results}{new}{refused}", more=_sizes(summary))


def _store_among(inputs: tuple[str, ...]) -> str | None:
    """The one input that is a store, None where none is. UsageError for a store beside others."""
    from fpstore.jobs.stored import is_store

    stores = [each for each in inputs if is_store(each) or is_listing(each)]  # who opens a list refuses it
    if stores and len(inputs) > 1:
        raise click.UsageError(f"{stores[0]}: found a store among {len(inputs)} inputs, expected it alone")
    return stores[0] if stores else None


def _sizes(summary: "ClusterSummary", noun: str = "document") -> Iterator[str]:
    """How many clusters of which size there are, and which are the largest."""
    sizes = summary.detail.get("sizes", [])
    for row in sizes:
        bounds = f"{row['least']}-{row['most']} {noun}s" if row["least"] < row["most"] else counted(row["most"], noun)
        yield f"fpstore: {counted(row['clusters'], 'cluster')} of {bounds}"
    largest = [f"{row['cluster']} ({row['documents']})" for row in summary.detail.get("largest", [])]
    if largest:
        yield f"fpstore: the largest clusters ({noun}s): {', '.join(largest)}"
