"""The options of the subcommands that work through a corpus and go on after an interruption, and what they say."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fpstore.cli.failures import say
from fpstore.cli.streams import expect_output
from fpstore.cli.subcommand import STANDARD_OUTPUT
from fpstore.cli.texts import idf_option, reading_options, recipe_option
from fpstore.cli.values import FILE_PATH, counted, format_option, skip_bad_option, tell_skipped

if TYPE_CHECKING:
    from fpstore.jobs import Summary

_Command = TypeVar("_Command", bound=Callable[..., Any])


def corpus_options(command: _Command) -> _Command:
    """Inputs and how they are read, the recipe, and --force."""
    options = (
        format_option,
        reading_options,
        recipe_option,
        idf_option,
        skip_bad_option,
        click.option("--force", is_flag=True, help="Replace what is there, and begin an interrupted job again."),
    )
    for option in reversed(options):
        command = option(command)
    return command


FORMS = ".jsonl, .csv or .tsv, each also before .gz or .zst, or .parquet"

output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE_PATH,
    help=f"Write to FILE, and go on there after an interruption. Its suffix says how: {FORMS}; none is .tsv.  "
    "[default: standard output, which - is too]",
)


@contextmanager
def output_file(output: str | None) -> Iterator[Path]:
    """The file that a job writes; where none is asked for, one that is copied to standard output in the end."""
    if output not in (None, STANDARD_OUTPUT):
        path = Path(str(output))
        with _telling_what_stays(path):
            yield path
        return
    expect_output()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        yield path
        sys.stdout.flush()
        with path.open("rb") as lines:
            shutil.copyfileobj(lines, sys.stdout.buffer)


@contextmanager
def _telling_what_stays(result: Path) -> Iterator[None]:
    """Where a job ends before its end, say what it leaves, if it leaves anything."""
    from fpstore.inputs import BadInput

    try:
        yield
    except (BadInput, KeyboardInterrupt):
        work = result.with_name(f"{result.name}.job")
        if work.is_dir():
            say(f"{work}: has what was done; the same command goes on with it, or remove it")
        raise


def tell(output: str | None, summary: "Summary", results: str) -> None:
    """Say on standard error what a job has done; results: what became of its documents."""
    tell_skipped(summary.skipped, summary.notes)
    if summary.warning is not None:
        say(f"fpstore: warning: {summary.warning}")
    rate = f" ({summary.rate / 1e6:.1f} MB/s)" if summary.run_bytes else ""
    rate = " (an earlier run had done it; nothing was changed)" if summary.was_done else rate
    what = "fpstore" if output in (None, STANDARD_OUTPUT) else output
    passed_over = sum(summary.skipped.values())
    say(f"{what}: {counted(summary.documents, 'document')}, {results}, passed over {passed_over}{rate}")
