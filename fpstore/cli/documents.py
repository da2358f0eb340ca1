"""Owns the JSON that commands print: each line and each document says by its `format` what it is.

docs/json.md lists them all.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.common import common
from fpstore.cli.failures import say

if TYPE_CHECKING:
    from fpstore.text.short import Lengths


def format_of(name: str) -> str:
    """What JSON of that name says of itself."""
    return f"fpstore.{name}/1"


def print_document(name: str, record: Mapping[str, object]) -> None:
    """Print the one JSON document of that name."""
    click.echo(json.dumps({"format": format_of(name), **record}, indent=2))


def print_line(name: str, record: Mapping[str, object]) -> None:
    """Print a line of JSON of that name."""
    click.echo(json.dumps({"format": format_of(name), **record}))


def tell_done(name: str, record: Mapping[str, object], *sentences: str) -> None:
    """Say what was done: on standard error in sentences, or by --json as a document on standard output."""
    if common().as_json:
        print_document(name, record)
        return
    for sentence in sentences:
        say(sentence)


def passed_over(reader: Any, lengths: "Lengths | None" = None) -> dict[str, object]:
    """What a document says of inputs beside what they held: what was passed over, by reason, and what is odd of them.

    reader: a fpstore.inputs.Reader or Documents, None where nothing was read.
    """
    skipped, notes = ({}, {}) if reader is None else (dict(reader.skipped), dict(reader.notes))
    return {"skipped": skipped, "notes": notes, **({} if lengths is None else {"warning": lengths.warning})}
