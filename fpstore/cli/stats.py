"""`fpstore stats`: what stores hold and how, without reading all of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_line
from fpstore.cli.failures import AT_FAULT_STORE, DONE, failure_of, one_line, say
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import opened_store, stores_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import FILE_PATH, decimal_size, rows_or_documents

if TYPE_CHECKING:
    from fpstore import Stats

LARGEST_SLOTS = 3

EPILOG = """\b
Examples:
  fpstore stats web.fpstore
  fpstore stats web.fpstore --spikes 20               (which fingerprints the most documents share)
  fpstore stats stores/*.fpstore --json | jq '[.path, .total_bytes, .writer_pid]'
"""


@subcommand("stats", short_help="Print what stores hold.", epilog=EPILOG)
@click.argument("stores", metavar="STORE...", type=FILE_PATH, nargs=-1, required=True)
@click.option(
    "--spikes",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Name the N fingerprints that the most rows have, such as those of empty and error pages, and count the rows"
    " that share one. This reads all rows.",
)
def command(stores: tuple[str, ...], spikes: int) -> None:
    """Print what each STORE holds, how, and in how many bytes, without reading all of it.

    Pending is what was added and is in no segment yet; removals mask what is in segments until these are merged. How
    many distinct fingerprints there are is known once all are in one segment (see fpstore compact). The largest slots
    of a table show how skewed the fingerprints are: a probe that meets one decodes all of it. The writer is who has
    the store open for writing just now, by the process number of its own container.

    Of a list of stores, NAME.shards.json, it tells of each that is listed; a fingerprint that several have is counted
    in each. With --json: an object a line for each store.
    """
    import fpstore

    statuses: list[int] = []
    for path in stores:
        try:
            places, total = stores_of(path)
        except (fpstore.Error, OSError) as error:
            statuses.append(_failed(error))
            continue
        if total is not None and not common().as_json:
            say(f"{path}: {_counted(len(places), 'store')}, {total:,} fingerprints in all", err=False)
        for place in places:
            statuses.append(_tell(place, spikes, len(statuses)))
    if any(statuses):
        raise click.exceptions.Exit(AT_FAULT_STORE if AT_FAULT_STORE in statuses else max(statuses))


def _failed(error: Exception) -> int:
    """Tell why one, or a list, cannot be told of; the exit status that it asks for."""
    failure = failure_of(error)
    click.echo(f"fpstore: {one_line(failure.message)}", err=True)
    return failure.status


def _tell(store: str, spikes: int, index: int) -> int:
    """Print those of one; the exit status that it asks for."""
    import fpstore

    try:
        with opened_store(store) as opened, progress_bar(results_follow=not index) as bar:
            stats = opened.stats(largest_slots=LARGEST_SLOTS, spikes=spikes, progress=bar)
    except (fpstore.Error, OSError) as error:
        return _failed(error)
    if common().as_json:
        print_line("stats", stats.to_json())
        return DONE
    if index:
        click.echo()
    for line in [stats.path, *_store_lines(stats), *_spike_lines(stats, spikes), *_segment_lines(stats)]:
        say(line, err=False)
    return DONE


def _store_lines(stats: "Stats") -> Iterator[str]:
    from fpstore.types import KEY_NOUNS

    noun = KEY_NOUNS[stats.kind]
    kinds = ("segments", "catalog", "names", "sketches", "jobs", "aside", "other")
    sizes = {kind: getattr(stats, f"{kind}_bytes") for kind in kinds}
    fields = {
        f"{noun}s": f"{stats.fingerprint_count:,}" if stats.fingerprint_count is not None else _at_most(stats),
        "pending": _counted(*rows_or_documents(stats.pending_count, _bands(stats)))
        + " in no segment yet" * bool(stats.pending_count),
        "removals": f"{stats.removal_count:,}",
        "segments": f"{stats.segment_count:,}",
        "ids": stats.id_type or "none",
        **({"signatures": _signatures(stats.minhash)} if stats.minhash is not None else {}),
        "distance": f"up to {stats.max_distance} of {stats.bits} bits",
        "plan": f"{stats.plan.name}, {_counted(len(stats.plan.tables), 'table')}",
        "codec": stats.codec,
        "recipe": _recipe(stats.recipe),
        "identity": stats.identity,
        "last write": stats.written_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "writer": _writer(stats),
        "size": f"{decimal_size(stats.total_bytes)} ({stats.total_bytes:,} bytes)",
        **{f"  in {kind}": decimal_size(size) for kind, size in sizes.items() if size or kind in kinds[:2]},
    }
    for name, value in fields.items():
        yield f"  {name:<14}{value}"


def _spike_lines(stats: "Stats", asked: int) -> Iterator[str]:
    from fpstore.types import KEY_NOUNS

    if stats.spikes is not None:
        yield from (f"  {line}" for line in stats.spikes.to_text())
    elif asked:
        yield f"  spikes        none: without ids a {KEY_NOUNS[stats.kind]} is stored once, whoever has it"


def _segment_lines(stats: "Stats") -> Iterator[str]:
    from fpstore.types import KEY_NOUNS

    for segment in stats.segments:
        each = "" if segment.bits_per_fingerprint is None else f", {segment.bits_per_fingerprint:.1f} bits each"
        yield f"  segment {segment.name}: {_counted(segment.fingerprint_count, KEY_NOUNS[stats.kind])}{each}"
        ids = "    "
        if stats.id_type:
            held = _counted(*rows_or_documents(segment.id_count, _bands(stats), "row" if stats.minhash else "id"))
            ids += f"{held}{', ids' * bool(stats.minhash)} of {segment.id_bits} bits, "
        yield f"{ids}{decimal_size(segment.total_bytes)} (ids {decimal_size(segment.ids_bytes)})"
        for table in segment.tables:
            yield f"    table {table['table']}: {_table(table)}"
            for slot in table.get("largest_slots", ()):
                yield f"      {slot['key_count']:,} with x & {slot['mask']} == {slot['value']}"
        yield from (f"    warning: {warning}" for warning in segment.warnings)


def _table(table: dict[str, Any]) -> str:
    flips = f" and {_counted(table['flips'], 'flip')}" if table["flips"] else ""
    return f"{table['prefix_bits']} bits{flips}, 2^{table['slot_bits']} slots, {decimal_size(table['total_bytes'])}"


def _signatures(minhash: dict[str, Any]) -> str:
    kept = f"{_counted(minhash['sketch_bits'], 'bit')} of each kept" if minhash["sketch_bits"] else "none kept"
    cut = f"{_counted(minhash['bands'], 'band')} of {minhash['rows_per_band']}, a key for each"
    chance = f"{minhash['by_chance']:.2g} documents met by chance"
    return f"{_counted(minhash['values'], 'value')}, {cut}; {kept}; {chance}"


def _bands(stats: "Stats") -> int | None:
    return None if stats.minhash is None else int(stats.minhash["bands"])


def _at_most(stats: "Stats") -> str:
    most = stats.pending_count + sum(segment.fingerprint_count for segment in stats.segments)
    return f"at most {most:,}"


def _writer(stats: "Stats") -> str:
    if not stats.has_writer:
        return "none"
    return "one that gave no number" if stats.writer_pid is None else f"process {stats.writer_pid}"


def _recipe(recipe: dict[str, Any] | None) -> str:
    if recipe is None:
        return "none"
    # It may be a stranger's, and say anything.
    name, shingle, tokens, weights, hash = (
        f"{recipe.get(step)!s:.40}" for step in ("name", "shingle", "tokens", "weights", "hash")
    )
    return f"{name} (shingles of {shingle} {tokens}, {weights}, {hash})"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
