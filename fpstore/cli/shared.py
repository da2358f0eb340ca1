"""What workers share, by the tasks of `fpstore.cluster`: all queries of an input, all pairs, or a corpus to measure."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.documents import tell_done
from fpstore.cli.values import counted

if TYPE_CHECKING:
    from fpstore import Matches, OnProgress, Store
    from fpstore.jobs import Inputs
    from fpstore.types import Keys

# What prints matches of queries, and what answers batches of queries together, by printing, and tells of progress.
Write = Callable[["Store", "Keys", "Matches"], None]
Share = Callable[["Store", "Iterator[Keys]", Write, "OnProgress | None"], None]

# As fpstore.cluster.engines has them, which is imported for a search only.
ENGINES = ("local", "ray", "spark")
# Rows that are printed at a time: what Python makes of each takes half a kilobyte.
PRINTED_ROWS = 1 << 16


def workers_option(told: str) -> Callable[[Any], Any]:
    """--workers, with its help."""
    return click.option("--workers", type=click.IntRange(min=1), metavar="N", help=told)


MEASURING = (
    "How many processes read and measure the inputs, portion by portion; this one does the rest.  "
    "[default: none; --threads says how many help to read HTML and cut Chinese]"
)
_ENGINE = (
    click.option("--engine", type=click.Choice(ENGINES), help="What does the tasks.  [default: local]"),
    click.option("--address", metavar="A", help="Of Ray, or Spark's master.  [default: one that is started here]"),
)


def engine_options(command: Any) -> Any:
    """Who does the tasks, and where these leave their parts."""
    told = "Where tasks leave their parts, to go on with later; all workers share it."
    return _with(command, (*_ENGINE, click.option("--folder", metavar="FOLDER", help=told)))


def measuring_options(command: Any) -> Any:
    """Who reads and measures the inputs of a job, as its arguments of these names, and which of that by --rank."""
    return engine_options(rank_options(workers_option(MEASURING)(command)))


# The options of those who do tasks, as arguments of what shares them out, and of one of several processes.
WHO = ("workers", "engine", "address", "folder")
WHO_OR_RANKS = (*WHO, "world_size")
OF_A_RANK = ("rank", "world_size", "folder")


def rank_options(command: Any) -> Any:
    """Which tasks of a job that others do too."""
    options = (
        click.option(
            "--rank", type=click.IntRange(min=0), metavar="R", help="Do the tasks of one of W processes only."
        ),
        click.option(
            "--world-size", type=click.IntRange(min=1), metavar="W", help="How many processes do tasks by --rank."
        ),
    )
    return _with(command, options)


def _with(command: Any, options: tuple[Callable[[Any], Any], ...]) -> Any:
    for option in reversed(options):
        command = option(command)
    return command


def given_of(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The options of these names that were given and are not --workers 1 alone, taken out: who is to do tasks."""
    asked = {name: value for name in names if (value := given.pop(name)) is not None}
    return {} if asked == {"workers": 1} else asked


def who_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of those who measure, as arguments of a job."""
    return {name: given[name] for name in WHO}


def rank_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of one of several processes, where it is to do its tasks only; --rank and --world-size go."""
    asked = {name: given[name] for name in OF_A_RANK}
    return {} if given.pop("rank") is None else asked


def measure_rank(sources: "Inputs", asked: dict[str, Any], **how: Any) -> None:
    """Measure what of the inputs of a job is for this process, and say how much that was; how: as for the job."""
    from fpstore import jobs

    tell_rank(jobs.measure_rank(sources, **asked, **how), asked)


def shards_rank(sources: "Inputs", asked: dict[str, Any], output: str, **how: Any) -> None:
    """The same of shards in output, which it writes once the job has left them."""
    from fpstore import jobs
    from fpstore.jobs.ranks import are_left

    made = f"which wrote shards in {output}" if are_left(Path(output)) else None
    count = jobs.measure_rank(sources, **asked, **how, shards=True, output=output)
    if made is None and not count:
        made = f"as all is measured and {output} has no shards to write: the job has yet to decide, or is done"
    tell_rank(count, asked, made)


def pairs_rank(store: str, asked: dict[str, Any], **how: Any) -> None:
    """Find what of the pairs of a store is for this process, and say how much that was; how: as of `cluster.pairs`."""
    from fpstore import cluster

    tell_rank(cluster.pairs_rank(store, **asked, **how), asked)


def similar_pairs_rank(store: str, asked: dict[str, Any], **how: Any) -> None:
    """The same of a store of signatures; how: as of `cluster.similar_pairs`."""
    from fpstore import cluster

    tell_rank(cluster.similar_pairs_rank(store, **asked, **how), asked)


def tell_rank(count: int, asked: dict[str, Any], made: str | None = None) -> None:
    """Say how many tasks one of several processes did; by --json as a document, as nothing else is printed.

    made: what became of them, where it is no parts for the job.
    """
    made = made or f"whose parts are in {asked['folder']}"
    told = f"rank {asked['rank']} of {asked['world_size']}: did {counted(count, 'task')}, {made}"
    tell_done("rank", {**asked, "task_count": count}, told)


def share_of(given: dict[str, Any], max_distance: int | None) -> Share | None:
    """What answers all queries together, by the options above and --workers, which are taken out; None for none."""
    asked = given_of(given, (*WHO, "rank", "world_size"))
    return partial(_ask_shared, asked=asked, max_distance=max_distance) if asked else None


def _ask_shared(
    store: "Store",
    batches: "Iterable[Keys]",
    write: Write,
    bar: "OnProgress | None",
    *,
    asked: dict[str, Any],
    max_distance: int | None,
) -> None:
    """Ask for all queries together, and have what is found written, in the order of queries."""
    import numpy as np

    from fpstore.cluster import probe, probe_rank
    from fpstore.fingerprints import no_fingerprints

    queries = np.concatenate([no_fingerprints(store.bits), *batches])
    if "rank" in asked:
        tell_rank(probe_rank(store.path, queries, max_distance=max_distance, **asked), asked)
        return
    with probe(store.path, queries, max_distance=max_distance, progress=bar, **asked) as answer:
        for matches in answer:
            for first in range(0, len(matches), PRINTED_ROWS):
                write(store, queries, matches[first : first + PRINTED_ROWS])
