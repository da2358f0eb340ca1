"""`fpstore compare`: how alike two texts are, and which shingles only one of them has."""

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fpstore.cli.common import common
from fpstore.cli.documents import print_document
from fpstore.cli.failures import say
from fpstore.cli.similar import near_options, refuse_other_kind
from fpstore.cli.subcommand import subcommand
from fpstore.cli.texts import idf_option, recipe_of_any_kind, recipe_option, tell_short, text_options
from fpstore.cli.values import (
    FILE_PATH,
    counted,
    distance_option,
    format_option,
    tell_skipped,
)

if TYPE_CHECKING:
    from fpstore.text import Comparison, Recipe, Shingle

EPILOG = """\b
Examples:
  fpstore compare draft.txt published.html
  fpstore compare --text "one two three four" --text "one two three five" --recipe words-4
  fpstore compare a.txt b.txt --recipe multilingual --count 100
  fpstore compare page.html - --format html < other.html
  fpstore compare a.txt b.txt --json | jq .jaccard
"""

TWO = 2


@subcommand("compare", short_help="Say how alike two texts are.", epilog=EPILOG)
@click.argument("files", metavar="[FILE] [FILE]", nargs=-1, type=FILE_PATH)
@click.option("--text", "texts", metavar="STRING", multiple=True, help="This text, in place of a file, or after it.")
@format_option
@text_options
@recipe_option
@idf_option
@distance_option("The Hamming distance up to which they count as near.  [default: 3]")
@near_options
@click.option(
    "--count",
    "shown",
    metavar="N",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many of the shingles to name that only the one text has, those that weigh most.",
)
def command(
    files: tuple[str, ...],
    texts: tuple[str, ...],
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    recipe_name: str | None,
    idf_path: str | None,
    max_distance: int | None,
    bands: int | None,
    rows_per_band: int | None,
    min_similarity: float | None,
    shown: int,
) -> None:
    """Say how alike two texts are: those of two FILEs, or of --text.

    A shingle is some words or characters in a row, as the recipe cuts them. Jaccard is the share of all their
    shingles that both have, cosine that of the angle between them, by weight: both are exact. The distance is that of
    the fingerprints, in bits: probe, dedup and the rest go by it. By recipes of 1-bit MinHash, as the default, it
    estimates the Jaccard, by simhashes the cosine. Near is what a store of distance K calls so. By recipes of sketch
    minhash there is the estimated similarity in place of a distance, and near is what shares a band. dedup takes
    another distance by default, and confirms what it finds: what it makes of the two stands in a line of its own.

    A FILE holds one document. Its format goes by its suffix, and what has none of those that fingerprint knows is a
    text; - is standard input.
    """
    from fpstore.text import compare

    if len(files) + len(texts) != TWO:
        found = f"{counted(len(files), 'FILE')} and {len(texts)} of --text"
        raise click.UsageError(f"found {found}, expected two texts in all")
    recipe = recipe_of_any_kind(recipe_name, idf_path)
    refuse_other_kind(recipe)
    named = _read(files, format, text_column, input_header, html, recipe)
    # A text that is typed may be of a page, too.
    named += [("--text", recipe.text_of(text) if html else text) for text in texts]
    (first, one), (second, other) = named
    cut = {"bands": bands, "rows_per_band": rows_per_band, "min_similarity": min_similarity}
    comparison = compare(one, other, recipe, max_distance=max_distance, shown=shown, **cut)  # type: ignore[arg-type]
    if common().as_json:
        print_document("compare", {"first_name": first, "second_name": second, **comparison.to_json()})
    else:
        _print(comparison, first, second, equal=one == other, dedup=_by_dedup(one, other, recipe))
    _tell(comparison, recipe, [one, other])


def _read(
    files: tuple[str, ...],
    format: str,
    text_column: str | int | None,
    input_header: bool | None,
    html: bool,
    recipe: "Recipe",
) -> list[tuple[str, str]]:
    """The name and the text of the one document of each file."""
    from fpstore.inputs import documents, has_columns
    from fpstore.inputs.sources import expand, inputs_of

    # Told before anything is read. One file may be compared with itself.
    if expand(files).count("-") > 1:
        raise click.UsageError("standard input: found it more than once, expected it once")
    for file in files:
        inputs_of([file], "text")
    formats = [_format(file, format) for file in files]
    columned = [has_columns(file, own) for file, own in zip(files, formats, strict=True)]
    named = []
    for file, own, has in zip(files, formats, columned, strict=True):
        # A text beside a table has no columns.
        asked: dict[str, Any] = {"text_column": text_column, "header": input_header} if has or not any(columned) else {}
        with closing(documents([file], format=own, html=html, recipe=recipe, **asked)) as found:
            some = [each for each, _ in zip(found, range(TWO), strict=False)]
        tell_skipped(found.skipped, found.notes)
        if len(some) != 1:
            what = "more than one document" if some else "no document"
            raise click.UsageError(f"{file}: found {what}, expected one; fpstore document-pairs compares many")
        named += some
    return named


def _format(file: str, format: str) -> str:
    """The format that was asked for; else that of the suffix, and of any other suffix a text."""
    from fpstore.inputs import format_of

    if format != "auto":
        return format
    try:
        return format_of(file)
    except ValueError:
        return "text"


def _print(found: "Comparison", first: str, second: str, *, equal: bool, dedup: str) -> None:
    by_bits = found.max_distance is not None
    for name, sketch, distinct, tokens in (
        (first, found.first, found.first_count, found.first_tokens),
        (second, found.second, found.second_count, found.second_tokens),
    ):
        told = f"{counted(distinct, 'distinct shingle')} of {counted(tokens, 'token')}"
        say(f"{found.recipe.hexadecimal(sketch)}  {name}: {told}" if by_bits else f"{name}: {told}", err=False)
    if by_bits:
        near = f"near: at most {found.max_distance}" if found.near else f"not near: more than {found.max_distance}"
        say(f"distance  {found.distance}  ({near})", err=False)
    else:
        say(f"estimate  {found.similarity:.4f}  ({_near_by_bands(found)})", err=False)
    say(f"jaccard   {found.jaccard:.4f}  ({counted(found.common_count, 'shingle')} in both)", err=False)
    say(f"cosine    {found.cosine:.4f}", err=False)
    say(f"dedup     {dedup}", err=False)
    if equal:
        say("the texts are equal", err=False)
    elif not found.only_first_count and not found.only_second_count and found.first_count:
        say("the texts differ, but not in their shingles", err=False)
    for which, name, shingles, count in (
        ("first", first, found.only_first, found.only_first_count),
        ("second", second, found.only_second, found.only_second_count),
    ):
        if count:
            _print_only(f"only in {name}" if first != second else f"only in the {which}", shingles, count)


def _near_by_bands(found: "Comparison") -> str:
    told = f"{found.shared_bands} of {found.bands} bands of {found.rows_per_band} values shared"
    if found.shared_bands and not found.near:
        told = f"{told}, less than {found.min_similarity}"
    return f"{'near' if found.near else 'not near'}: {told}"


def _by_dedup(one: str, other: str, recipe: "Recipe") -> str:
    """What dedup makes of two texts by default."""
    from fpstore.text import dedup
    from fpstore.text.asked import BANDS, ROWS_PER_BAND
    from fpstore.text.confirm import CONFIRMED_DISTANCE, DEFAULT_CONFIRM

    near = f"at most {recipe.distance(CONFIRMED_DISTANCE)}"
    if recipe.sketch == "minhash":
        near = f"one of {BANDS} bands of {ROWS_PER_BAND}"
    told = "keeps both" if len(dedup([one, other], recipe=recipe).kept) == TWO else "drops the second"
    return f"{told}  (by default: {near}, and {DEFAULT_CONFIRM})"


def _print_only(where: str, shingles: tuple["Shingle", ...], count: int) -> None:
    more = f"; {len(shingles)} of them, by weight (--count)" if len(shingles) < count else ""
    say(f"{where}: {counted(count, 'shingle')}{more}", err=False)
    width = max((len(f"{each.weight:.2f}") for each in shingles), default=0)
    for each in shingles:
        text = f"(not looked for so far behind; hash {each.hash:016x})" if each.text is None else each.text
        say(f"  {each.weight:{width}.2f}  {text}", err=False)


def _tell(found: "Comparison", recipe: "Recipe", texts: list[str]) -> None:
    """What makes a comparison say little, on standard error."""
    from fpstore.text.shared import measure_many
    from fpstore.text.short import Lengths
    from fpstore.workers import Workers

    empty = (found.first_tokens == 0) + (found.second_tokens == 0)
    if empty:
        which = "neither text has" if empty == TWO else "one of the texts has not"
        say(f"fpstore: warning: {which} a single token by recipe {recipe.name}, so there is nothing to compare")
        return
    cut = None if found.bands is None or found.rows_per_band is None else (found.bands, found.rows_per_band)
    lengths = Lengths(recipe, 0 if found.max_distance is None else found.max_distance, cut=cut)
    lengths.see(texts, measure_many(recipe, texts, 1, Workers(1)))
    tell_short(lengths)
