"""Checks of what was read back as JSON: each field is what it must be, or one line says what was found."""

import dataclasses
import json
from typing import Any, TypeVar

T = TypeVar("T")


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, as they are."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def record_of(kind: type[T], fields: Any) -> T:
    """The dataclass with these fields. ValueError for other fields, and for what it refuses itself."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    found = set(fields) if isinstance(fields, dict) else None
    expect(kind.__name__, fields, found == names, f"the fields {', '.join(sorted(names))}")
    return kind(**fields)


def canonical_json(value: object) -> str:
    """The one way to write a value as JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def expect(what: str, found: object, holds: bool, expected: str) -> None:
    """Raise ValueError, in one line, unless it holds."""
    if not holds:
        raise ValueError(f"{what} is {found!r:.80}, expected {expected}")


def expect_integer(what: str, found: object, least: int, most: int) -> None:
    """Raise ValueError unless found is an integer from least to most."""
    whole = isinstance(found, int) and not isinstance(found, bool) and least <= found <= most
    expect(what, found, whole, f"{least}" if least == most else f"an integer from {least} to {most}")
