"""The options that say what the columns of inputs hold, and how fingerprints are written, in inputs and in results."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from fpstore.cli.subcommand import SIGNED_NUMBERS, refuse_unused
from fpstore.cli.values import column, id_number

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.minhash import MinHashStore
    from fpstore.types import Array, ByteOrder, Keys

MAX_ID = 2**64 - 1
MAX_DIGITS = len(str(MAX_ID))
WAYS = ("auto", "hex", "decimal", "base64")
ORDERS = ("big", "little")  # as fpstore.types has them, which imports numpy

_Command = TypeVar("_Command", bound=Callable[..., Any])


class IdSource(NamedTuple):
    """Where ids come from: a column, the row numbers, from first on, or nowhere (None)."""

    ids: str | None
    first: int = 0


def id_source(typed: str) -> IdSource:
    """What --ids takes."""
    if typed in ("column", "row"):
        return IdSource(typed)
    if typed == "none":
        return IdSource(None)
    first = typed.removeprefix("from:")
    if first == typed or not (first.isascii() and first.isdigit() and len(first) <= 20 and int(first) <= MAX_ID):
        raise click.BadParameter(
            f"found {typed!r:.40}, expected column, row, none or from:N with N up to 2**64 - 1; a column is --id-column"
        )
    return IdSource("row", int(first))


def fingerprint_options(command: _Command) -> _Command:
    """The column of the fingerprints, the way in which they are written there, and the order of their bytes."""
    command = click.option(
        "--byte-order",
        type=click.Choice(ORDERS),
        default="big",
        show_default=True,
        help="Which byte of a fingerprint comes first in hexadecimal, base64 or bytes; little: the lowest, and"
        " hexadecimal has all its digits. Numbers have no order of bytes. What is printed is big.",
    )(command)
    command = click.option(
        "--fingerprint-format",
        type=click.Choice(WAYS),
        default="auto",
        show_default=True,
        help="How a column writes fingerprints. auto: hex or decimal, as the first value that can be only one of both.",
    )(command)
    return click.option(
        "--fingerprint-column",
        metavar="COLUMN",
        type=column,
        help="The column (its name, or its number from 0) or JSON field that holds fingerprints.  [default: the one "
        "called fingerprint, simhash, hash or fp, or the only one]",
    )(command)


def id_options(default: str) -> Callable[[_Command], _Command]:
    """The column of the ids, and where else they come from; default: as help says it."""

    def decorate(command: _Command) -> _Command:
        command = click.option(
            "--ids",
            metavar="SOURCE",
            type=id_source,
            help="Where ids come from. column: --id-column, or the one called id; row: the row's number, from 0 over"
            f" all inputs; from:N: the same from N; none: no ids.  [default: {default}]",
        )(command)
        return click.option(
            "--id-column", metavar="COLUMN", type=column, help="The column or JSON field that holds the ids."
        )(command)

    return decorate


input_header_option = click.option(
    "--input-header/--no-input-header",
    default=None,
    help="Whether the first row of CSV and TSV names the columns.  [default: as the row tells, else it is refused]",
)
decimal_option = click.option(
    "--decimal",
    is_flag=True,
    help="FINGERPRINTs are decimal, of 64 bits from -2**63 to 2**64 - 1; put -- before those below 0.",
)
id_type_option = click.option(
    "--id-type",
    type=click.Choice(("uint64", "string", "bytes")),
    default="uint64",
    show_default=True,
    help="What the ids of a column are: numbers, text, such as URLs, or bytes.",
)

signed_option = click.option(
    "--signed",
    is_flag=True,
    help="Write fingerprints and ids as signed decimal numbers, the same 64 bits; wide ones stay hexadecimal.",
)
header_option = click.option("--header", is_flag=True, help="Begin with a line that names the columns.")


def typed_fingerprints(
    values: Iterable[str], decimal: bool, bits: int, byte_order: "ByteOrder", *, text_option: str = ""
) -> "Keys":
    """FINGERPRINTs of so many bits as they were typed: an array. UsageError for what is none.

    byte_order: as of parse_fingerprint. text_option: what takes a text in their place.
    """
    from fpstore.inputs import BadInput, parse_fingerprint
    from fpstore.inputs.cells import width

    found = []
    for value in values:
        try:
            found.append(parse_fingerprint(value, decimal=decimal, bits=bits, byte_order=byte_order))
        except BadInput as error:
            hint = _hint(value, decimal or byte_order == "little", bits, text_option)
            raise click.UsageError(f"{error}{hint}") from None
    return width(bits).array(found)


def _hint(value: str, settled: bool, bits: int, text_option: str) -> str:
    """What may have been meant by what is no fingerprint. settled: whether --decimal is said, or cannot be."""
    typed = value.strip().lower()
    digits = typed.removeprefix("0x")
    if digits == typed and set(digits) <= set("0123456789-") and len(digits) <= MAX_DIGITS:
        return "" if settled else "; or --decimal"
    if 4 * len(digits) > bits and set(digits) <= set("0123456789abcdef"):
        return f"; it has {4 * len(digits)} bits, and the store's fingerprints have {bits}"
    return f"; or {text_option} for a text" if text_option else ""


def typed_ids(store: "Store", ids: Sequence[str]) -> "Array":
    """Ids of the command line, as those of the store are. UsageError for what is no number, where they are that."""
    import numpy as np

    if not store._settings.named:
        return np.array([id_number(each) for each in ids], dtype=np.uint64)
    names = np.empty(len(ids), dtype=object)
    names[:] = [_typed_name(each, store.id_type == "string") for each in ids]
    return names


def _typed_name(typed: str, text: bool) -> str | bytes:
    """A name as lines have it: what a command prints can be asked for."""
    from fpstore.inputs.escapes import unescaped

    try:
        name = unescaped(typed)
    except ValueError as error:
        raise click.BadParameter(f"id: {error}") from None
    try:
        return name.decode() if text else name
    except UnicodeDecodeError:
        raise click.BadParameter(f"id: found {typed!a:.40}, expected text, in UTF-8") from None


def refuse_signed(store: "Store | MinHashStore", *, fingerprints: bool = True, ids: bool = True) -> None:
    """UsageError for --signed where nothing that is written is a number of 64 bits; fingerprints, ids: what is."""
    narrow = fingerprints and store.kind == "hamming" and store.bits <= 64
    if not narrow and not (ids and store.id_type == "uint64"):
        refuse_unused(SIGNED_NUMBERS)


def written_ids(ids: Any, signed: bool, as_json: bool) -> list[str]:
    """Ids as lines have them, or, with their quotes, as JSON has them; ids: uint64[n], or names.

    In lines names are as fpstore.inputs.escapes has them. Bytes that are no UTF-8 are, in JSON, halves of surrogate
    pairs, as Python's surrogateescape has them.
    """
    if ids.dtype.kind in "ui":
        numbers = written(ids, signed)
        return [f'"{number}"' for number in numbers] if as_json else numbers
    from fpstore.inputs.escapes import escaped

    names = ids.tolist()
    if not as_json:
        return list(map(escaped, names))
    return [json.dumps(each if isinstance(each, str) else each.decode("utf-8", "surrogateescape")) for each in names]


def written(values: Any, signed: bool, bits: int | None = None) -> list[str]:
    """Ids (uint64[n]) as lines have them, or fingerprints of so many bits."""
    if values.ndim == 2:  # wide fingerprints, by words
        return [row.tobytes().hex() for row in values.view("uint64").astype(">u8")]
    if signed:
        return list(map(str, values.view("int64").tolist()))
    return list(map(str if bits is None else f"{{:0{bits // 4}x}}".format, values.tolist()))


def quoted(names: list[str]) -> list[str]:
    """Names as CSV has them: in quotation marks where they have some, or a comma, or a line break, or are empty."""
    doubled = (name.replace('"', '""') for name in names)
    return [f'"{name}"' if not name or set(name) & {*'",\r\n'} else name for name in doubled]
