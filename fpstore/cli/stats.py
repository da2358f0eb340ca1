"""`fpstore stats`: what a store holds and how, without reading all of it."""

from typing import Any

import click

from fpstore.cli.failures import say
from fpstore.cli.subcommand import subcommand
from fpstore.cli.values import json_option, print_document, store_argument

LARGEST_SLOTS = 3


@subcommand("stats", short_help="Print what a store holds.", epilog="\b\nExample:\n  fpstore stats web.fpstore\n")
@store_argument
@json_option
def command(store: str, as_json: bool) -> None:
    """Print what STORE holds, its settings and its segments, without reading all of it.

    The largest slots of a table show how skewed the fingerprints are: a probe that meets one decodes all of it.
    Pending is what was added and is in no segment yet. How many distinct fingerprints there are is known once all are
    in one segment (see fpstore compact).
    """
    import fpstore

    with fpstore.open(store) as opened:
        stats = opened.stats(largest_slots=LARGEST_SLOTS).to_json()
    if as_json:
        print_document("stats", stats)
        return
    stats["plan"] = stats["plan"]["name"]
    if stats["fingerprint_count"] is None:
        most = stats["pending_count"] + sum(segment["fingerprint_count"] for segment in stats["segments"])
        stats["fingerprint_count"] = f"at most {most:,}"
    _print_fields(stats, "")


def _print_fields(record: dict[str, Any], indent: str) -> None:
    """A line for each field; a record inside the record, or a list of them, indented below its name."""
    width = max(map(len, record), default=0)
    for name, value in record.items():
        if name == "largest_slots":
            click.echo(f"{indent}{name}")
            for slot in value:
                click.echo(f"{indent}  {slot['key_count']:,} with x & {slot['mask']} == {slot['value']}")
            continue
        inner = value if isinstance(value, list | tuple) and value and isinstance(value[0], dict) else None
        if isinstance(value, dict):
            inner = [value]
        if inner is None:
            say(f"{indent}{name.ljust(width)}  {_shown(value)}", err=False)
            continue
        for index, each in enumerate(inner):
            click.echo(f"{indent}{name}" if isinstance(value, dict) else f"{indent}{name} {index}")
            _print_fields(each, indent + "  ")


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
