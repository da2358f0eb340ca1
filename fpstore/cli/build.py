"""`fpstore build`: a store from files of fingerprints or of texts."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fpstore import OnProgress, Progress
from fpstore.cli.columns import IdSource, fingerprint_options, id_options, id_type_option
from fpstore.cli.common import common
from fpstore.cli.documents import passed_over, tell_done
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.shared import WHO_OR_RANKS, engine_options, given_of, rank_of, rank_options, tell_rank, workers_option
from fpstore.cli.signed_stores import build_of_signatures
from fpstore.cli.similar import cut_of, refuse_other_kind, settled_cut, signature_options
from fpstore.cli.stores import size_of
from fpstore.cli.subcommand import OF_TEXTS, refuse_unused, subcommand
from fpstore.cli.texts import idf_option, recipe_of_any_kind, recipe_option, tell_short, text_options
from fpstore.cli.values import (
    FILE_PATH,
    bits_option,
    block_bytes_option,
    codec_option,
    counted,
    decimal_size,
    format_option,
    k_option,
    layout_option,
    max_bytes_option,
    mode_option,
    plan_option,
    shuffle_option,
    skip_bad_option,
    store_argument,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.inputs import Reader
    from fpstore.text import Recipe
    from fpstore.types import ByteOrder, Codec, Ids, IdType, Keys, Layout

EPILOG = """\b
Examples:
  fpstore build web.fpstore fingerprints.npy
  fpstore build web.fpstore part-*.csv.gz --fingerprint-column simhash --id-column doc_id
  zcat hashes.txt.gz | fpstore build web.fpstore - --format hex --plan size
  fpstore build docs.fpstore documents/ --format text     (a text each, by the recipe text-1)
  fpstore build docs.fpstore documents/ --format text --id-type string     (each text's path is its id)
  fpstore build docs.fpstore crawl/ 'more/part-*.jsonl'    (every file by its own suffix)
  fpstore build web.fpstore crawl.warc.gz --recipe multilingual
  fpstore build docs.fpstore crawl.jsonl.zst --text-column body --memory 8GiB
  fpstore build web.fpstore parts/ --workers 8 --memory 16GiB    (by eight threads or processes)
  fpstore build web.fpstore parts/ --folder /shared/job --world-size 8 --rank 3    (one of eight, started elsewhere)
"""


@subcommand("build", short_help="Build a store from fingerprints or texts.", epilog=EPILOG)
@store_argument
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@format_option
@fingerprint_options
@id_options("column where there is one, else row; with --id-type the path of a text, or path:line")
@text_options
@recipe_option
@idf_option
@bits_option
@k_option
@plan_option
@max_bytes_option
@codec_option
@layout_option
@block_bytes_option
@shuffle_option
@click.option(
    "--memory",
    default="2GiB",
    show_default=True,
    metavar="SIZE",
    help="What sorting may take; more keys than it holds are sorted through files beside the store. Reading CSV or "
    "Parquet takes some 100 MB besides.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace a store that is there; it stays until the new one is complete, and where the inputs hold nothing.",
)
@mode_option
@skip_bad_option
@id_type_option
@signature_options
@workers_option(
    "How many threads or processes sort, and make tables; of texts, names, signatures and standard input how many "
    "threads.  [default: --threads]"
)
@engine_options
@rank_options
def command(
    store: str,
    inputs: tuple[str, ...],
    format: str,
    fingerprint_column: str | int | None,
    fingerprint_format: str,
    byte_order: "ByteOrder",
    id_column: str | int | None,
    ids: IdSource | None,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    recipe_name: str | None,
    idf_path: str | None,
    bits: int | None,
    max_distance: int | None,
    plan: str,
    max_bytes: float | None,
    codec: "Codec | None",
    layout: "Layout",
    block_bytes: int | None,
    shuffle: int | None,
    memory: str,
    force: bool,
    mode: int | None,
    skip_bad: bool,
    id_type: "IdType",
    bands: int | None,
    rows_per_band: int | None,
    min_similarity: float | None,
    keep_signatures: bool,
    **tasks: Any,
) -> None:
    """Build STORE from every INPUT, one after the other.

    An INPUT is a file, a folder or a pattern, of which every file is read by its own suffix, or - for standard input;
    .gz, .zst, .bz2 and .xz are read as they are.
    Texts become fingerprints by a recipe, which the store records; of fingerprints that come ready, --recipe says
    how they were made; a Parquet file that export wrote says it by itself, and two that say different things are
    refused. An interrupted build leaves nothing behind.

    With --workers, files of fingerprints are sorted and their tables made by so many threads, or by tasks that
    processes do: with --folder, by --engine on other machines, and where several files take long to read, such as
    CSV. The store is the same, byte for byte, and --memory is for all processes together. An interrupted call with
    --folder goes on where it was. Where something else starts processes, such as Slurm, each of W
    of them sorts its share with --rank, --world-size and --folder, and, called once more when all have ended, makes its
    tables; --memory is of each. Then the same command without --rank does what nobody has done, and makes the store.

    By a recipe of sketch minhash it is a store of signatures, of texts: documents are near that share one of --bands.
    """
    from fpstore.errors import RecipeError
    from fpstore.inputs import read
    from fpstore.inputs.sources import is_stream

    recipe = recipe_of_any_kind(recipe_name, idf_path)
    refuse_other_kind(recipe)
    signs = recipe.sketch == "minhash"
    told = recipe_name is not None or idf_path is not None
    asked = IdSource("auto") if ids is None else ids
    if id_type != "uint64" and asked.ids not in ("auto", "column"):
        expected = "--ids column, or for texts without one no --ids: they are called by their paths and lines"
        raise click.UsageError(f"--id-type {id_type}: found ids that are numbers or none, expected {expected}")
    one_of, shared = rank_of(tasks), given_of(tasks, WHO_OR_RANKS)
    # Of this process where nothing asks for tasks, which take files of fingerprints and numbers alone.
    are_threads = list(shared) == ["workers"]
    threads = shared["workers"] if are_threads else common().threads
    if shared and not are_threads and (signs or id_type != "uint64"):
        option, what = "--" + next(iter(shared)), "signatures" if signs else f"ids of --id-type {id_type}"
        raise click.UsageError(f"{option}: found {what}, expected none of it: such a store is built by one process")
    bytes_read = 0

    def count_bytes(count: int) -> None:
        nonlocal bytes_read
        bytes_read += count

    with progress_bar() as bar:
        reader = read(
            inputs,
            format=format,
            fingerprint_column=fingerprint_column,
            fingerprint_format=fingerprint_format,
            byte_order=byte_order,
            bits=recipe.bits if signs or bits is None else bits,
            id_column=id_column,
            ids=asked.ids,
            first_id=asked.first,
            id_type=id_type,
            text_column=text_column,
            header=input_header,
            html=html,
            recipe=recipe if told else None,
            max_distance=max_distance,
            cut=settled_cut(recipe, bands, rows_per_band, min_similarity),
            threads=threads,
            skip_bad=skip_bad,
            on_bytes=count_bytes,
        )

        if reader.recipe is None and not reader.tells_nothing:
            refuse_unused(OF_TEXTS)
        if are_threads and (id_type != "uint64" or reader.recipe is not None or any(map(is_stream, inputs))):
            shared = {}
        reader.settle_origin()
        is_said = not told and reader.origin.record is not None
        if not told and reader.recipe is not None and not signs and bits not in (None, recipe.bits):
            by = f"recipe {recipe.name}, which makes fingerprints of {recipe.bits} bits"
            way = f"a recipe of {bits} (--recipe), or fingerprints (--format hex, --fingerprint-column)"
            raise RecipeError(f"found inputs that are read as texts, by {by}, expected {way}")

        def show(progress: Progress) -> None:
            # The build knows how many rows it has seen; only the bytes tell how many are left.
            if bar is not None and progress.phase == "reading":
                bar(Progress("reading", bytes_read, reader.total_bytes, "bytes"))
            elif bar is not None:
                bar(progress)

        rows = (batch.fingerprints for batch in reader) if asked.ids is None else _with_ids(reader)
        if signs:
            with closing(reader):
                count, size, whole = build_of_signatures(
                    store,
                    rows,
                    recipe,
                    cut_of(bands, rows_per_band, min_similarity, bits),
                    ids=None if asked.ids is None else "row",
                    id_type=None if asked.ids is None else id_type,
                    keep_signatures=keep_signatures,
                    memory=memory,
                    progress=show,
                    force=force,
                    mode=mode,
                    threads=threads,
                )
            _tell(store, reader, count, size, whole, "document")
            return
        plain: dict[str, Any] = {
            "bits": bits,
            "max_distance": max_distance,
            "plan": plan,
            "max_bytes": max_bytes,
            "codec": codec,
            "layout": layout,
            "block_bytes": block_bytes,
            "memory": memory,
            "recipe": _recorded(reader)
            if is_said
            else recipe
            if told or reader.recipe is not None or reader.tells_nothing
            else None,
            "force": force,
            "shuffle": shuffle,
            "mode": mode,
        }
        if one_of:
            from fpstore.cluster.building import rank_of as do_own

            with closing(reader):
                told_of: dict[str, Any] = {
                    "first_id": asked.first,
                    "skip_bad": skip_bad,
                    "with_ids": asked.ids is not None,
                }
                tell_rank(do_own(reader, store, **told_of, **plain, **one_of), one_of)
            return
        with (
            closing(reader),
            _built(store, reader, rows, plain, asked, id_type, show, threads, shared, skip_bad) as built,
        ):
            stats = built.stats()
            count, held_ids = stats.fingerprint_count or 0, sum(each.id_count for each in stats.segments)
            size, whole = stats.segments_bytes, size_of(built)
    by = f", by recipe {_recorded(reader).name}, as {reader.origin.said_by} says" if is_said else ""
    if is_said and reader.silent[0]:
        of_files, first = counted(reader.silent[0], "file"), reader.silent[1]
        taken = f"the fingerprints of {of_files} that say no recipe, such as {first}, are taken for those by"
        say(f"fpstore: warning: {store}: {taken} {_recorded(reader).name}; --recipe says by which they all are")
    _tell(store, reader, count, size, whole, "fingerprint", by, held_ids)


def _built(
    store: str,
    reader: "Reader",
    rows: "Iterator[Any]",
    plain: dict[str, Any],
    asked: IdSource,
    id_type: "IdType",
    show: OnProgress,
    threads: int | None,
    shared: dict[str, Any],
    skip_bad: bool,
) -> "Store":
    """The store, built by this process of the rows, or by those that the options say of what the reader is for."""
    import fpstore

    if not shared:
        ids = None if asked.ids is None else "row"
        return fpstore.build(store, rows, ids=ids, id_type=id_type, progress=show, threads=threads, **plain)
    from fpstore.cluster.building import build_of

    with_ids = asked.ids is not None
    about: dict[str, Any] = {"first_id": asked.first, "skip_bad": skip_bad, "progress": show}
    return build_of(reader, store, with_ids=with_ids, **about, **plain, **shared)


def _tell(
    store: str, reader: "Reader", count: int, size: int, whole: int, noun: str, by: str = "", ids: int = 0
) -> None:
    """Say what was built; size: of its segments; whole: of all its files; noun: of what there are so many.

    ids: how many rows of fingerprint and id it holds.
    """
    tell_skipped(reader.skipped, reader.notes)
    tell_short(reader.lengths)
    rows, files = reader.seen.rows, reader.seen.files
    read_in = {"row_count": rows, "file_count": files, **passed_over(reader, reader.lengths)}
    by_row = ", the numbers of the rows" if reader.numbers_rows else ""
    with_ids = f" with {counted(ids, 'id')}{by_row}" if ids else ""
    held = f"{counted(count, noun)}{with_ids}, {decimal_size(whole)}"
    if not count:
        held = "nothing" if rows else "nothing, as the input is empty"
    tell_done(
        "build",
        {"path": store, f"{noun}_count": count, "segments_bytes": size, **read_in},
        f"{store}: read {counted(rows, 'row')} of {counted(files, 'file')}; holds {held}{by}",
    )


def _recorded(reader: "Reader") -> "Recipe":
    """The recipe that the inputs say their fingerprints are by."""
    from fpstore.text import Recipe

    assert reader.origin.record is not None
    return Recipe.from_json(reader.origin.record)


def _with_ids(reader: "Reader") -> "Iterator[tuple[Keys, Ids]]":
    for batch in reader:
        if batch.ids is not None:
            yield batch.fingerprints, batch.ids
