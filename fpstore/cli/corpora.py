"""The options of the subcommands that work through a corpus and go on after an interruption, and what they say."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fpstore.cli.common import common
from fpstore.cli.documents import format_of, print_document
from fpstore.cli.failures import say
from fpstore.cli.files import new_file
from fpstore.cli.rows import recipe_of
from fpstore.cli.similar import near_options, refuse_other_kind
from fpstore.cli.stores import opened_store
from fpstore.cli.streams import expect_output
from fpstore.cli.subcommand import STANDARD_OUTPUT
from fpstore.cli.texts import idf_option, recipe_of_any_kind, recipe_option, text_options
from fpstore.cli.values import RESULT_PATH, column, counted, format_option, skip_bad_option, tell_skipped
from fpstore.errors import no_folder

if TYPE_CHECKING:
    from fpstore.jobs import Summary
    from fpstore.text import Recipe

_Command = TypeVar("_Command", bound=Callable[..., Any])


def corpus_options(command: _Command) -> _Command:
    """Inputs and how they are read, the recipe, what is near by signatures, and --force."""
    options = (
        near_options,
        format_option,
        text_options,
        click.option(
            "--id-column",
            metavar="COLUMN",
            type=column,
            help="The column or JSON field that names the documents in results.  [default: the place of each, as in "
            "crawl.jsonl:7]",
        ),
        recipe_option,
        idf_option,
        skip_bad_option,
        click.option(
            "--summary",
            "summary_path",
            metavar="FILE",
            type=RESULT_PATH,
            help="Write to FILE what was done, as a JSON object: counts, bytes, seconds. A summary there is replaced.",
        ),
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
    type=RESULT_PATH,
    help=f"Write to FILE, and go on there after an interruption. Its suffix says how: {FORMS}; none is .tsv.  "
    "[default: standard output, which - is too]",
)
SUMMARY = "summary"
_MOST_SUMMARY_BYTES = 1 << 20


def confirm_option(does: str) -> Callable[[_Command], _Command]:
    """--confirm of a command, which does something with what is alike."""
    return click.option(
        "--confirm",
        metavar="MEASURE>=X",
        default="default",
        help=f"{does} only what is so much alike: jaccard>=0.8, of shingles, or cosine>=0.9, of shingles with their"
        " weights. none: all that is near.  [default: jaccard>=0.82; none for a STORE without the texts of what it"
        " holds]",
    )


def tell_confirmed(summary: "Summary", recipe: "Recipe", confirm: str, store: str | None) -> str:
    """Say what --confirm did not look at; the number of matches that it refused, to be said with the others."""
    from fpstore.jobs.kept import MOST_LOOKED_AT

    if summary.cut_short:
        near = f"{counted(summary.cut_short, 'document')} near more than {MOST_LOOKED_AT} others that were kept"
        told = f"only the nearest {MOST_LOOKED_AT} were looked at, none of them alike, so they were kept apart"
        fewer = "larger --min-similarity" if recipe.sketch == "minhash" else "smaller --k"
        say(f"fpstore: warning: --confirm: {near}: {told}; a {fewer} finds fewer")
    if confirm == "default" and summary.confirm is None and store is not None:
        say(f"fpstore: {store} lacks the texts of documents, so all that is near one was taken for alike")
    return f", refused matches {summary.refused}" if summary.confirm else ""


def expect_lasting_output(output: str | None, store: str | None) -> None:
    """UsageError where a job that adds to a store would have to go on in what is gone when it ends."""
    if output in (None, STANDARD_OUTPUT) and store is not None:
        what = "-o -" if output else "standard output"
        told = f"{what} and --store: found both, expected a file (-o): what adds to a store has to go on there"
        raise click.UsageError(told)


def recipe_of_job(store: str | None, name: str | None, idf_path: str | None) -> "Recipe":
    """That of a store which is there, unless another is asked for. UsageError for an option of the other kind."""
    if store is None or name is not None or not Path(store).exists():
        recipe = recipe_of_any_kind(name, idf_path)
    else:
        with opened_store(store) as opened:
            recipe = recipe_of(opened, idf_path)
    refuse_other_kind(recipe)
    return recipe


@contextmanager
def output_file(output: str | None, marker: Path | None = None) -> Iterator[Path]:
    """The file that a job writes; where none is asked for, one that is copied to standard output in the end.

    marker: of a folder of shards what tells that they are whole. By --json that has lines of JSON.
    """
    if _is_file(output):
        path = Path(str(output))
        with _telling_what_stays(marker or path):
            yield path
        return
    expect_output()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("lines.jsonl" if common().as_json else "lines")
        yield path
        sys.stdout.flush()
        with path.open("rb") as lines:
            shutil.copyfileobj(lines, sys.stdout.buffer)


def expect_summary(path: str | None, output: str | None, *others: str | None) -> None:
    """Refuse a place for the summary that holds something else, or is another result: before the work begins."""
    if path is None:
        return
    places = [Path(each).absolute() for each in (output, *others) if each not in (None, STANDARD_OUTPUT)]
    if Path(path).absolute() in places:
        raise click.UsageError(f"--summary {path}: found another result of that name, expected a file of its own")
    if not Path(path).absolute().parent.is_dir():
        raise no_folder("the file would lie in a folder", path)
    if os.path.lexists(path) and not _is_summary(Path(path)):
        raise click.UsageError(f"--summary {path}: found something else than a summary, expected one or nothing")


def _is_summary(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(_MOST_SUMMARY_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and record.get("format") == format_of(SUMMARY)


def write_summary(path: str | None, summary: "Summary") -> None:
    """Write the summary of a job to a file, as a whole."""
    if path is None:
        return
    record = {"format": format_of(SUMMARY), **summary.to_json()}
    with new_file(Path(path), force=True) as file:
        file.write(json.dumps(record, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


@contextmanager
def _telling_what_stays(result: Path) -> Iterator[None]:
    """Where a job ends before its end, say what it leaves, if it leaves anything."""
    from fpstore.inputs import BadInput
    from fpstore.jobs.keep import NoOrder
    from fpstore.jobs.packing import NoColumn

    try:
        yield
    except (BadInput, OSError, MemoryError, KeyboardInterrupt) as error:
        work = result.with_name(f"{result.name}.job")
        if work.is_dir():
            goes_on = "the same command goes on with it, or remove it"
            if isinstance(error, NoColumn | NoOrder):
                goes_on = "remove it, as the same command would meet the same values"
            say(f"{work}: has what was done; {goes_on}")
        raise


def _is_file(output: str | None) -> bool:
    return output not in (None, STANDARD_OUTPUT)


def tell(
    output: str | None, summary: "Summary", results: str, noun: str = "document", more: Iterable[str] = ()
) -> None:
    """Say what a job has done; results: what became of its documents, or rows; more: further sentences.

    By --json it is the summary as a document, where standard output has no results.
    """
    tell_skipped(summary.skipped, summary.notes)
    if summary.warning is not None:
        say(f"fpstore: warning: {summary.warning}")
    if summary.repeated_names:
        told = f"found {counted(summary.repeated_names, 'document')} with the name of an earlier one"
        say(f"fpstore: warning: --id-column: {told}, expected names that differ: results do not tell these apart")
    if common().as_json and _is_file(output):
        print_document(SUMMARY, summary.to_json())
        return
    rate = f" ({summary.rate / 1e6:.1f} MB/s)" if summary.read_bytes else ""
    rate = " (an earlier run had done it; nothing was changed)" if summary.was_done else rate
    what = output if _is_file(output) else "fpstore"
    passed_over = sum(summary.skipped.values())
    say(f"{what}: {counted(summary.documents, noun)}, {results}, passed over {passed_over}{rate}")
    for sentence in more:
        say(sentence)
