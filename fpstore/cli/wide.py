"""Wide fingerprints, of 128 or 256 bits, on the command line: what is not there yet is refused, option by option."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from fpstore import Progress
from fpstore.cli.documents import tell_done
from fpstore.cli.progress import progress_bar
from fpstore.cli.stores import size_of
from fpstore.cli.values import counted, decimal_size

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.cli.columns import IdSource
    from fpstore.types import Keys

# What build, probe and export take of them; any other option of input and output is refused where it is given.
SERVED = {
    "build": {"store", "inputs", "format", "ids", "bits", "max_distance", "plan", "max_bytes", "codec", "shuffle"}
    | {"memory", "force", "mode", "id_type"},
    "probe": {"store", "fingerprints", "input_path", "format", "max_distance", "header"},
    "nearest": {"store", "fingerprints", "count", "max_distance"},
    "export": {"store", "output", "format", "no_ids", "force"},
}
COMMON = {"as_json", "threads", "progress", "help"}


def is_wide(bits: int) -> bool:
    """Whether fingerprints of so many bits are wide."""
    from fpstore.inputs.wide import WIDE_BITS

    return bits in WIDE_BITS


def refuse_more(bits: int) -> None:
    """UsageError for an option of the subcommand under way that was given and does nothing to wide fingerprints yet."""
    context = click.get_current_context()
    for option in context.command.params:
        default = context.get_parameter_source(option.name or "") in (None, click.core.ParameterSource.DEFAULT)
        if not default and option.name not in SERVED[str(context.command.name)] | COMMON:
            raise click.UsageError(f"{max(option.opts, key=len)}: {not_yet(bits)}", context)


def not_yet(bits: int) -> str:
    """What is said of what is not there yet."""
    return f"not there yet for fingerprints of {bits} bits"


def build_wide(
    store: str, inputs: tuple[str, ...], bits: int, *, format: str, asked: "IdSource", **options: Any
) -> None:
    """Build a store of wide fingerprints, and say so; options: of fpstore.build."""
    import fpstore
    from fpstore.inputs.wide import WideReader

    refuse_more(bits)
    done, ids = 0, asked.ids

    def count_bytes(count: int) -> None:
        nonlocal done
        done += count

    reader = WideReader(inputs, bits, format=format, ids=ids, first_id=asked.first, on_bytes=count_bytes)
    pieces: Iterator[Any] = iter(reader) if ids is not None else (codes for codes, _ in reader)
    with progress_bar() as bar:

        def show(progress: Progress) -> None:
            if bar is not None and progress.phase == "reading":
                bar(Progress("reading", done, reader.total_bytes, "bytes"))
            elif bar is not None:
                bar(progress)

        row_ids = None if ids is None else "row"
        with fpstore.build(store, pieces, ids=row_ids, bits=bits, progress=show, **options) as built:
            count, size = built.count(), size_of(built)
    held = f"{counted(count, 'fingerprint')}, {decimal_size(size)}" if count else "nothing, as the input is empty"
    tell_done(
        "build",
        {
            "path": store,
            "fingerprint_count": count,
            "segments_bytes": size,
            "row_count": reader.rows,
            "file_count": reader.files,
        },
        f"{store}: read {counted(reader.rows, 'row')} of {counted(reader.files, 'file')}; holds {held}",
    )


def ask_wide(
    store: "Store",
    print_matches: "Callable[[Store, Keys], None]",
    fingerprints: Iterable[str],
    input_path: str | None,
    format: str,
) -> None:
    """Ask for what was typed, and for every fingerprint of a file."""
    from fpstore.inputs import BadInput
    from fpstore.inputs.wide import WideReader, codes_of, parse_wide

    refuse_more(store.bits)
    try:
        typed = [parse_wide(value, store.bits) for value in fingerprints]
    except BadInput as error:
        raise click.UsageError(str(error)) from None
    if typed:
        print_matches(store, codes_of(typed, store.bits))
    if input_path is not None:
        for codes, _ in WideReader([input_path], store.bits, format=format, ids=None):
            print_matches(store, codes)
