"""`fpstore fingerprint`: texts, or features that come ready-made, to fingerprints, one line each."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import click

from fpstore import Progress
from fpstore.cli.common import common
from fpstore.cli.documents import format_of
from fpstore.cli.failures import say
from fpstore.cli.progress import progress_bar
from fpstore.cli.shared import WHO, given_of, measure_rank, measuring_options, rank_of
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import (
    idf_option,
    recipe_asked,
    recipe_option,
    text_options,
)
from fpstore.cli.values import FILE_PATH, HASHES, format_option, skip_bad_option, tell_skipped

EPILOG = """\b
Examples:
  fpstore fingerprint draft.txt
  fpstore fingerprint documents/ --format text > fingerprints.tsv
  fpstore fingerprint crawl.warc.gz --recipe text-1 --threads 4
  fpstore fingerprint crawl.jsonl.gz --text-column body | cut -f 1 | fpstore build web.fpstore - --format hex
  fpstore fingerprint 'crawl/*.jsonl.gz' --html --text-column page --workers 8 > fingerprints.tsv
  fpstore fingerprint tokens.jsonl --features tokens --hash fnv1 --tie set
"""


@subcommand("fingerprint", short_help="Print the fingerprints of texts.", epilog=EPILOG)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=FILE_PATH)
@format_option
@text_options
@recipe_option
@idf_option
@skip_bad_option
@click.option(
    "--features",
    metavar="FIELD",
    help="This field of JSON lines holds features: a list of tokens or of pairs [token, weight], or an object of tokens"
    " and their weights. They are hashed as they stand, by no recipe.",
)
@click.option("--hash", type=click.Choice(HASHES), help="The hash of --features.  [default: xxh3]")
@click.option("--seed", type=int, help="The seed of --hash, for xxh3, xxh64 and murmur3.  [default: 0]")
@click.option(
    "--tie", type=click.Choice(["clear", "set"]), help="What a bit of --features is that weighs 0.  [default: clear]"
)
@click.option(
    "--bits", type=int, metavar="BITS", help="How many bits of --features: 64, 128, 192 or 256.  [default: 64]"
)
@measuring_options
def command(
    inputs: tuple[str, ...],
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    recipe_name: str | None,
    idf_path: str | None,
    skip_bad: bool,
    features: str | None,
    hash: str | None,
    seed: int | None,
    tie: str | None,
    bits: int | None,
    **tasks: Any,
) -> None:
    """Print the fingerprint of every text of every INPUT, a tab, and its name.

    The name is the path of the file, path:line, or path:record:URI; control characters and backslashes in it are
    escaped by a backslash. The lines come in the order in which build
    numbers rows. A text without a token has the hash of its bytes as its fingerprint; only simhashes by the hashes of
    other tools, such as pypi-simhash, have one fingerprint for all of them.

    With --workers other processes read and measure portions of every INPUT, and with --engine those of a cluster; the
    lines are the same. What they have done stays in --folder, from which an interrupted command goes on. Where
    something else starts processes, such as Slurm, each of W of them does its tasks with --rank, --world-size and
    --folder; then the same command without --rank prints the lines.

    With --features the lines of JSON hold tokens instead of texts, with weights or without; they are hashed as they
    stand. A weight below 0 counts for the other side.
    """
    own = {"hash": hash, "seed": seed, "tie": tie, "bits": bits}
    given = {name: value for name, value in own.items() if value is not None}
    if features is not None:
        _print_features(inputs, features, skip_bad, given | {"format": format})
        return
    from fpstore.cluster import fingerprint
    from fpstore.fingerprints import as_numbers
    from fpstore.jobs import Inputs

    recipe = recipe_asked(recipe_name, idf_path)
    sources = Inputs(inputs, format, text_column, html, skip_bad, input_header)
    if asked := rank_of(tasks):
        measure_rank(sources, asked, job="fingerprint", recipe=recipe, confirm=None)
        return
    asked = given_of(tasks, WHO) or {"workers": 1}
    line_of = _line_of(recipe.bits)
    with (
        progress_bar(results_follow=False) as bar,
        fingerprint(sources, recipe=recipe, threads=common().threads, progress=bar, **asked) as found,
    ):
        for names, fingerprints in found:
            sys.stdout.write("".join(map(line_of, as_numbers(fingerprints), names)))
    tell_skipped(found.skipped, found.notes)
    if found.warning is not None:
        say(f"fpstore: warning: {found.warning}")


def _print_features(inputs: tuple[str, ...], column: str, skip_bad: bool, given: dict[str, Any]) -> None:
    from fpstore.inputs.errors import Faults
    from fpstore.inputs.features import fingerprints_of_features

    faults, line_of = Faults(skip_bad), _line_of(given.get("bits", 64))
    found = fingerprints_of_features(inputs, column, faults=faults, **given)
    with closing(found) as lines, progress_bar(results_follow=False) as bar:
        for done, (name, fingerprint) in enumerate(lines, start=1):
            sys.stdout.write(line_of(fingerprint, name))
            if bar is not None:
                bar(Progress("reading", done, None, "documents"))
    tell_skipped(faults.counts, faults.notes)


def _line_of(bits: int) -> Callable[[int, str], str]:
    """What makes a line of a fingerprint and a name; by --json one of JSON."""
    from fpstore.inputs.escapes import escaped

    digits = bits // 4
    if common().as_json:
        start = json.dumps({"format": format_of("fingerprint")}).removesuffix("}")
        return lambda fingerprint, name: (
            f'{start}, "fingerprint": "{fingerprint:0{digits}x}", "name": {json.dumps(name)}}}\n'
        )
    return lambda fingerprint, name: f"{fingerprint:0{digits}x}\t{escaped(name)}\n"
