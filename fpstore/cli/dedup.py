"""`fpstore dedup`: one document of each group of near-duplicates."""

import click

from fpstore.cli.progress import progress_bar
from fpstore.cli.values import counted, format_option, skip_bad_option, tell_skipped, text_column_option

EPILOG = """\b
Examples:
  fpstore dedup crawl.jsonl.zst -o kept.jsonl --dropped dropped.tsv
  fpstore dedup documents/ --format text -o kept.jsonl
  fpstore dedup monday.jsonl -o monday-new.jsonl --store seen.fps
  fpstore dedup tuesday.jsonl -o tuesday-new.jsonl --store seen.fps      (new on Tuesday, not on Monday)
"""


@click.command(short_help="Keep one of each group of near-duplicate documents.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o", "--output", "kept", metavar="KEPT", required=True, type=click.Path(), help="The kept documents, JSON lines."
)
@click.option(
    "--dropped",
    metavar="FILE",
    type=click.Path(),
    help="The dropped ones, and for which kept one: lines of tabs, or of JSON if FILE ends in .jsonl.",
)
@click.option(
    "--keep",
    type=click.Choice(("first", "longest")),
    default="first",
    show_default=True,
    help="Which one of a group. longest reads the inputs twice, and holds 50 bytes for each document.",
)
@click.option(
    "--confirm",
    metavar="MEASURE>=X",
    help="Drop only what is that alike: jaccard>=0.8 (shared shingles) or cosine>=0.9 (of their weights).",
)
@click.option(
    "--store",
    metavar="STORE",
    type=click.Path(),
    help="Compare with what is in STORE too, and add what is kept; it is made where there is none.",
)
@click.option(
    "--k",
    type=int,
    help="The largest Hamming distance between near-duplicates.  [default: 3, or that of STORE]",
)
@format_option
@text_column_option
@skip_bad_option
@click.option("--threads", type=click.IntRange(1), help="How many threads make fingerprints.  [default: processors]")
@click.option("--force", is_flag=True, help="Replace what is there, and begin an interrupted job again.")
def command(
    inputs: tuple[str, ...],
    kept: str,
    dropped: str | None,
    keep: str,
    confirm: str | None,
    store: str | None,
    k: int | None,
    format: str,
    text_column: str | int | None,
    skip_bad: bool,
    threads: int | None,
    force: bool,
) -> None:
    """Write to KEPT the documents of every INPUT that are near none kept before them.

    A document is dropped if its fingerprint is within distance k of that of a kept one. KEPT has a JSON line for each
    kept document, in the order of the input: the line it was read from, as it stands, or else an object with "name"
    and "text". The name is the path of the file, or path:line. --dropped has a line for each of the others: its
    name, the name of the nearest kept document, and the distance.

    A document without a single token is a duplicate of equal ones only.

    What is interrupted, by Ctrl-C, kill -9 or a power cut, goes on when the same command is given again, and the
    results are the same as without; until then they are in KEPT.part, and the folder KEPT.job says how far it got.

    With --store the kept documents are numbered on from the largest id in STORE; their names are beside it, in
    STORE.documents, for later jobs to name them. The same INPUT a second time is dropped as a whole.
    """
    from fpstore import jobs

    with progress_bar() as bar:
        summary = jobs.dedup(
            inputs,
            kept,
            dropped=dropped,
            keep=keep,
            confirm=confirm,
            store=store,
            k=k,
            format=format,
            text_column=text_column,
            skip_bad=skip_bad,
            force=force,
            threads=threads,
            progress=bar,
        )
    tell_skipped(summary.bad)
    rate = summary.run_bytes / max(summary.seconds, 1e-9) / 1e6
    documents = counted(summary.documents, "document")
    refused = f", refused matches {summary.refused}" if confirm else ""
    done = f"kept {summary.kept}, dropped {summary.dropped}{refused} ({rate:.1f} MB/s)"
    click.echo(f"{kept}: {documents}, {done}", err=True)
