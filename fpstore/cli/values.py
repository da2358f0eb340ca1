"""How values are typed on the command line, and the options that several subcommands share."""

import os
import secrets
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, TypeVar

import click

from fpstore.errors import folder_in

# Those of fpstore.inputs, fpstore.format and fpstore.text, written again because importing these takes longer than
# --help may; a test holds them equal.
FORMATS = (
    "auto",
    "npy",
    "u64",
    "hex",
    "csv",
    "tsv",
    "tsv-quoted",
    "tsv-plain",
    "tsv-escaped",
    "parquet",
    "jsonl",
    "json",
    "text",
    "html",
    "warc",
)
CODECS = ("gap", "xor", "rice", "raw")
LAYOUTS = ("slots", "blocks")
RECIPES = (
    "text-1",
    "words-4",
    "multilingual",
    "zh",
    "code",
    "exact",
    "simhash-1",
    "web-en",
    "pypi-simhash",
    "minhash-128",
)
HASHES = ("xxh3", "xxh64", "md5", "sha1", "sha256", "md5-first", "blake2b", "fnv1", "fnv1a", "murmur3", "fxhash")

DEFAULT_K = 3

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

# Whether it is there and may be read is for who opens it: then the machine is at fault, not the command line.
FILE_PATH = click.Path(readable=False)


class ResultPath(click.Path):
    """The path of a file to be written. folder_option: the flag by which it is a folder, which is looked at first."""

    def __init__(self, folder_option: str | None = None) -> None:
        super().__init__(readable=False)
        self.folder_option = folder_option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as it was typed. UsageError for one that only a folder has."""
        typed = os.fsdecode(super().convert(value, param, ctx))
        other = self.folder_option
        if typed == "-" or (other is not None and ctx is not None and ctx.params.get(other)):
            return typed  # standard output, whatever is called that here; or a folder
        if found := folder_in(typed):
            option = f"{param.opts[0]} " if isinstance(param, click.Option) else ""
            advice = f"; with --{other} it is a folder" if other else ""
            raise click.UsageError(f"{option}{typed}: found {found}, expected the path of a file{advice}")
        return typed


RESULT_PATH = ResultPath()

_Command = TypeVar("_Command", bound=Callable[..., Any])


def id_number(typed: str) -> int:
    """An id: a decimal number of 64 bits, signed or not."""
    digits = typed.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 20
    if not (is_number and -(1 << 63) <= int(typed) < 1 << 64):
        raise click.BadParameter(f"id: found {typed!r:.40}, expected a decimal number from -2**63 to 2**64 - 1")
    if typed != str(int(typed)):
        raise click.BadParameter(f"id: found {typed}, expected {int(typed)}: the ids of the store are numbers")
    return int(typed) % (1 << 64)


def key_count(typed: str) -> int:
    """How many fingerprints: 8000000000, 8_000_000_000 or 8e9."""
    try:
        count = Decimal(typed)
    except InvalidOperation:
        count = Decimal("NaN")
    # The exponent is checked first: the integer of 1e999999999 would fill the memory.
    if not (count.is_finite() and count.adjusted() < 20 and count == count.to_integral_value()):
        raise click.BadParameter(f"found {typed!r:.40}, expected a whole number such as 1000000 or 8e9")
    return int(count)


def column(typed: str) -> str | int:
    """A column by its name, or by its number from 0."""
    return int(typed) if typed.isascii() and typed.isdigit() else typed


def shuffle_number(typed: str) -> int:
    """A whole number, or a new one that nobody knows."""
    if typed == "random":
        return secrets.randbits(128)
    try:
        return int(typed)
    except ValueError:
        raise click.BadParameter(f"found {typed!r:.40}, expected a whole number or random") from None


def file_mode(typed: str) -> int:
    """The mode of files, in octal, as chmod takes it."""
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 4 and set(typed) <= set("01234567")):
        raise click.BadParameter(f"mode: found {typed!r:.40}, expected octal digits such as 0640 or 0750")
    return int(typed, 8)


store_argument = click.argument("store", type=FILE_PATH)
format_option = click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="What each file holds, in a folder too. auto goes by its suffix, before .gz, .zst, .bz2 or .xz; a folder "
    "with other suffixes takes --format text: each of its files is a text. Where cells of TSV begin with a quotation "
    "mark, tsv-quoted takes it for one around the cell, as pandas writes it, tsv-plain for a part of it. tsv-escaped "
    "is what fpstore prints: names with \\t, \\n, \\\\ and the like in them.",
)
skip_bad_option = click.option(
    "--skip-bad",
    is_flag=True,
    help="Pass over bad lines, rows and texts, and say how many, instead of stopping at the first.",
)
plan_option = click.option(
    "--plan",
    metavar="PLAN",
    default="balanced",
    show_default=True,
    help="size, balanced or speed, or a plan's name (see fpstore plan).",
)
max_bytes_option = click.option(
    "--max-bytes",
    metavar="BYTES",
    type=float,
    help="The most bytes per fingerprint: the fastest plan that takes no more, in place of --plan.",
)
codec_option = click.option(
    "--codec",
    type=click.Choice(CODECS),
    help="How keys are coded; gap is nearly always the smallest. 128 and 256 bits are kept as they are: raw.  "
    "[default: gap]",
)
layout_option = click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    default="slots",
    show_default=True,
    help="How tables are cut: slots, by the top bits of keys; blocks, by bytes, as in the paper.",
)
block_bytes_option = click.option(
    "--block-bytes",
    metavar="BYTES",
    type=int,
    help="Of layout blocks, the most bytes of a block.  [default: 1024]",
)
shuffle_option = click.option(
    "--shuffle",
    metavar="NUMBER",
    type=shuffle_number,
    help="Shuffle the plan's bits by this secret number, or a random one (random), so that nobody can aim at a prefix.",
)
bits_option = click.option(
    "--bits",
    metavar="BITS",
    type=int,
    help="How many bits a fingerprint has: a multiple of 8 from 16 to 64, or 128 or 256.  [default: those of the"
    " recipe, or 64]",
)
mode_option = click.option(
    "--mode",
    metavar="MODE",
    type=file_mode,
    help="Whom the store's files are for, such as 0640 or 0750, whatever the umask.  [default: 0600, its owner]",
)


def distance_option(text: str, default: int | None = None) -> Callable[[_Command], _Command]:
    """The distance, which the paper calls k."""
    return click.option(
        "-k",
        "--k",
        "--max-distance",
        "max_distance",
        metavar="K",
        type=int,
        default=default,
        show_default=default is not None,
        help=text,
    )


k_option = distance_option(
    "The largest Hamming distance that the store must answer.  [default: 3 for each 64 bits of the recipe, or 3]"
)


def tell_skipped(skipped: Mapping[str, int], notes: Mapping[str, int] = MappingProxyType({})) -> None:
    """Say on standard error what was passed over, if anything was, and what was read in spite of some damage."""
    from fpstore.inputs.errors import told

    if skipped:
        click.echo(f"fpstore: passed over: {told(skipped)}", err=True)
    if notes:
        click.echo(f"fpstore: read all the same: {told(notes)}", err=True)


def rows_or_documents(rows: int, bands: int | None, noun: str = "row") -> tuple[int, str]:
    """How many rows, and what they are called; of signatures, with one for each of so many bands, the documents."""
    return (rows, noun) if bands is None else (-(-rows // bands), noun.replace("row", "document"))


def counted(count: int, noun: str) -> str:
    """The count and the noun, in the plural unless it is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def decimal_size(size_bytes: int) -> str:
    """Bytes in decimal units, to a tenth."""
    size, unit = float(size_bytes), 0
    while size >= 999.95 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{size_bytes} B"
