"""Owns the three options that every subcommand has, --json, --threads and --progress, and what they asked for."""

from typing import Any, NamedTuple

import click

from fpstore.platforms import processor_count


class Common(NamedTuple):
    """What was asked for. threads: None for all; progress: None where standard error decides."""

    as_json: bool = False
    threads: int | None = None
    progress: bool | None = None


def common_options() -> list[click.Option]:
    """New ones, for one subcommand."""
    return [
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            help="Print JSON: a line for each result, or one document that says what was done.",
        ),
        click.Option(
            ["--threads"],
            type=click.IntRange(1),
            metavar="N",
            help="How many threads work, where work can be shared; the results are the same.  "
            f"[default: all, one for each processor that this process may use: {processor_count()} here]",
        ),
        click.Option(
            ["--progress/--no-progress"],
            default=None,
            help="Whether to show progress on standard error.  [default: where that is a terminal]",
        ),
    ]


def take_common(context: click.Context) -> None:
    """Keep what they asked for with the command under way, in place of its parameters."""
    asked: dict[str, Any] = {name: context.params.pop(name) for name in Common._fields}
    context.meta[__name__] = Common(**asked)


def common() -> Common:
    """What they asked for of the command under way; the defaults where there is none."""
    context = click.get_current_context(silent=True)
    found: Common = Common() if context is None else context.meta.get(__name__, Common())
    return found
