"""Checks of values that others wrote: each is what it must be, or one line says where and what was found."""

import dataclasses
import json
from typing import Any, TypeVar

from fpstore.errors import CorruptStore, Wrong

T = TypeVar("T")

# A stranger's integer may have a million digits, and Python refuses to print more than 4,300.
MAX_SHOWN_BITS = 256
MAX_SHOWN = 60


def wrong(where: str, found: str, expected: object) -> str:
    """The one form of such a line."""
    return str(Wrong(where, found, expected))


def shown(value: object) -> str:
    """A value as a message shows it, cut where it is long."""
    if isinstance(value, int) and value.bit_length() > MAX_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # an integer of so many digits somewhere in it
        text = f"a {type(value).__name__} that cannot be written out"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def hexadecimal(value: int, bits: int) -> str:
    """A number of so many bits as people write it: every digit, the highest first."""
    return f"{value:0{-(-bits // 4)}x}"


def id_in_json(value: int | str | bytes | None) -> str | None:
    """An id in a document: numbers in decimal, names as they are, bytes as Python decodes those of files' names."""
    if value is None:
        return None
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def shown_id(value: int | str | bytes | None) -> str:
    """An id in a line for people, in which it ends where the line goes on."""
    told = id_in_json(value)
    return "-" if told is None else told if told.isascii() and told.isprintable() else ascii(told)


def expect(where: str, found: object, holds: bool, expected: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise Wrong(where, shown(found), expected)


def expect_integer(where: str, found: object, least: int, most: int) -> None:
    """ValueError unless found is an integer from least to most."""
    whole = isinstance(found, int) and not isinstance(found, bool) and least <= found <= most
    expect(where, found, whole, f"{least}" if least == most else f"an integer from {least} to {most}")


def typed(where: str, value: object, kind: type[T]) -> T:
    """The value, which is of that kind. ValueError; a bool is an int to Python, not to a reader of JSON."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Wrong(where, type(value).__name__, kind.__name__)
    return value


def named_fields(where: str, value: object, names: set[str]) -> dict[str, Any]:
    """The fields of a JSON object that has these and no others. ValueError."""
    fields: dict[str, Any] = typed(where, value, dict)
    if set(fields) != names:
        found = ", ".join(sorted(map(shown, fields))[:10])
        raise Wrong(where, f"the fields {found or 'none'}", ", ".join(sorted(names)))
    return fields


def limited_list(where: str, value: object, most: int) -> list[object]:
    """The items of a JSON list of at most so many. ValueError."""
    items: list[object] = typed(where, value, list)
    if len(items) > most:
        raise Wrong(where, f"{len(items)} items", f"at most {most}")
    return items


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, as they are."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def record_of(kind: type[T], value: object) -> T:
    """The dataclass of these fields. ValueError unless they are its fields, and what it checks."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**named_fields(kind.__name__, value, names))


def canonical_json(value: object) -> str:
    """The one way to write a value as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def expect_equal(where: str, name: str, found: int | str, expected: int | str) -> None:
    """CorruptStore unless what was stored is this."""
    if found != expected:
        raise CorruptStore(f"{where}, {name}", found, expected)


def expect_multiple(where: str, name: str, found: int, step: int) -> None:
    """CorruptStore unless a number that was stored is a multiple of step."""
    if found % step:
        raise CorruptStore(f"{where}, {name}", found, f"a multiple of {step}")


def expect_within(where: str, name: str, found: int, least: int, most: int) -> None:
    """CorruptStore unless a number that was stored is from least to most."""
    if not least <= found <= most:
        expected = str(least) if least == most else f"{least}..{most}"
        raise CorruptStore(f"{where}, {name}", found, expected)


def expect_zeros(where: str, data: bytes, start: int, stop: int) -> None:
    """CorruptStore unless bytes [start, stop) of data are zeros."""
    if any(data[start:stop]):
        raise CorruptStore(f"{where}, bytes {start}..{stop - 1}", data[start:stop].hex(), "zeros")
