"""`fpstore inspect`: what lies in a store, as far in as one wants: records, segments, tables, slots, codes."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.failures import AT_FAULT_STORE, say
from fpstore.cli.progress import progress_bar
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import store_argument

if TYPE_CHECKING:
    from fpstore.inspection import Inspection

EPILOG = """\b
Examples:
  fpstore inspect web.fpstore                     (the catalog, the segments, the log, the files)
  fpstore inspect web.fpstore 1                   (segment 00000001.fpseg: records, regions, checksums)
  fpstore inspect web.fpstore 1 0                 (its table 0: permutation, code words, slots)
  fpstore inspect web.fpstore 1 0 5 --all         (slot 5 of that: keys, gaps, codes as bits, ids)
  fpstore inspect web.fpstore 1 --json | jq '.regions[] | select(.sound | not)'
"""


# What a stranger's store says may be long, or lie deep.
SHOWN_CHARACTERS = 300
MAX_INDENT = 12


@subcommand("inspect", short_help="Show what lies in a store.", epilog=EPILOG)
@store_argument
@click.argument("segment", metavar="[SEGMENT", required=False)
@click.argument("table", metavar="[TABLE", required=False, type=click.IntRange(0))
@click.argument("slot", metavar="[SLOT]]]", required=False, type=click.IntRange(0))
@click.option(
    "--count",
    "most",
    metavar="N",
    type=click.IntRange(0, 2**63 - 1),
    default=20,
    show_default=True,
    help="How many rows of each list to show.",
)
@click.option("--all", "shows_all", is_flag=True, help="Show all rows of each list.")
def command(
    store: str,
    segment: str | None,
    table: int | None,
    slot: int | None,
    most: int,
    shows_all: bool,
) -> None:
    """Show what lies in STORE, and no more than is asked for.

    Of the store: the catalog's record, the segments, the log, and every file in its folder. Of a SEGMENT, by name or
    number: its header, its records, and its regions with place, length and checksum. Of a TABLE, by its number from 0:
    its permutation, its code words, its slots. Of a SLOT: its blocks and keys, each with the gap to the one before,
    the bits that code it, its fingerprint and its ids. What each means: docs/format.md.

    Nothing is changed, and a writer goes on meanwhile. What is damaged is told, with exit status 3, and the rest shown
    where it can be.
    """
    from fpstore import inspection

    limit = None if shows_all else most
    if segment is None:
        seen = inspection.inspect_store(store, limit)
    elif table is None:
        with progress_bar() as bar:
            seen = inspection.inspect_segment(store, segment, limit, bar)
    elif slot is None:
        seen = inspection.inspect_table(store, segment, table, limit)
    else:
        seen = inspection.inspect_slot(store, segment, table, slot, limit)
    _print(seen)
    for line in seen.damage if limit is None else seen.damage[: max(1, limit)]:
        say(line)
    if limit is not None and len(seen.damage) > max(1, limit):
        say(f"{store}: and {len(seen.damage) - max(1, limit):,} more damaged places (--count N, --all)")
    if seen.damage:
        raise click.exceptions.Exit(AT_FAULT_STORE)


def _print(seen: "Inspection") -> None:
    if common().as_json:
        print_document("inspect", seen.to_json())
        return
    for line in _lines(seen.fields, ""):
        say(line, err=False)


def _lines(fields: dict[str, Any], indent: str) -> Iterator[str]:
    """Single values first, then what has fields or rows of its own."""
    if len(indent) > MAX_INDENT:
        yield indent + _cut(json.dumps(fields))
        return
    plain = {name: value for name, value in fields.items() if not _has_rows(value)}
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        yield f"{indent}{name:<{width}}  {_shown(value)}"
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{name}"
            yield from _lines(value, indent + "  ")
        elif _has_rows(value):
            count = fields.get(f"{name.removesuffix('s')}_count", len(value))
            yield f"{indent}{name}"
            yield from _rows(value, indent + "  ")
            if len(value) < count:
                yield f"{indent}  and {count - len(value):,} more (--count N, --all)"


def _rows(rows: Sequence[dict[str, Any]], indent: str) -> Iterator[str]:
    """A table: the names of the fields, and a line for each row; numbers to the right."""
    cells = [[_shown(value) for value in row.values()] for row in rows]
    names = list(rows[0])
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    is_number = [all(isinstance(value, int | None) for value in column) for column in _columns(rows)]
    for row in [names, *cells]:
        padded = (
            f"{cell:>{width}}" if right else f"{cell:<{width}}"
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        yield (indent + "  ".join(padded)).rstrip()


def _columns(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*(row.values() for row in rows), strict=True)


def _has_rows(value: object) -> bool:
    """Whether it is fields, or a list of records with the same fields, and has something in it."""
    if isinstance(value, dict):
        return bool(value)
    names = [list(each) if isinstance(each, dict) else [] for each in value] if isinstance(value, list) else []
    return bool(names) and all(each and each == names[0] for each in names)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):
        from fpstore.inputs.escapes import escaped

        return _cut(", ".join(escaped(str(each)) for each in value))
    return f"{value:,}" if isinstance(value, int) else _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... (all of it with --json)"
