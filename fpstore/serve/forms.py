"""Owns how rows, answers and errors are written in JSON, for programs in any language.

A fingerprint is a string of hexadecimal digits, and an id is a string whatever its type, as jq and JavaScript round
numbers above 2^53. Whole numbers up to that are taken as ids, too.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from fpstore import Additions, Error, Matches, Rows, TooManyMatches
from fpstore.inputs import BadInput
from fpstore.inputs.cells import EXPECTED_ID, EXPECTED_SAID_HEX, Column, FingerprintColumn, parse_ids, parse_names
from fpstore.inputs.errors import shown
from fpstore.text.loading import each_name_once
from fpstore.types import Array, IdType, Keys

# The largest whole number that every language reads as it is written.
MAX_EXACT = 1 << 53

NO_ID = "null"
_MATCH = '{{"fingerprint": "{:016x}", "distance": {}, "id": {}}}'
_QUERY_MATCH = '{{"query": {}, "fingerprint": "{:016x}", "distance": {}, "id": {}}}'
_ROW = '{{"fingerprint": "{:016x}", "id": {}}}'
_STORED = '"stored": true, "match_fingerprint": null, "match_distance": null, "match_id": null'
_KNOWN = '"stored": false, "match_fingerprint": "{:016x}", "match_distance": {}, "match_id": {}'


# --- What is asked ---


def object_of(data: bytes, what: str, fields: Sequence[str]) -> dict[str, Any]:
    """The JSON object in data, with some of these fields and no others. BadInput for anything else."""
    try:
        text = data.decode("utf-8")
        record = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=each_name_once)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what}: found no JSON ({error}), expected an object") from None
    if not isinstance(record, dict):
        raise BadInput(f"{what}: found {shown(record)}, expected an object with {', '.join(fields)}")
    unknown = next((name for name in record if name not in fields), None)
    if unknown is not None:
        raise BadInput(f"{what}: found a field {shown(unknown)}, expected {', '.join(fields)}")
    return record


def items_of(record: Mapping[str, Any], name: str) -> list[Any]:
    """The list in a field. BadInput for anything else."""
    values = record[name]
    if not isinstance(values, list):
        raise BadInput(f"{name}: found {shown(values)}, expected a list")
    return values


def fingerprints_of(values: Column, what: str = "fingerprints") -> Keys:
    """Fingerprints as programs write them: uint64[n]. Of Arrow integers and 8 bytes, too. BadInput."""
    if not isinstance(values, np.ndarray):
        _expect(values, what, str | bytes, EXPECTED_SAID_HEX)
    found, bad = FingerprintColumn("hex").parse(values)
    _expect_none_bad(values, what, bad)
    return found


def ids_of(values: Column, id_type: IdType | None, what: str = "ids") -> Array:
    """Ids as programs write them, as the store has them. BadInput for what is none of this store's."""
    if id_type is None:
        raise BadInput(f"{what}: found some, expected none: the store has no ids")
    if id_type != "uint64":
        names, bad = parse_names(values, id_type == "string")
        _expect_none_bad(values, what, bad)
        return names
    if not isinstance(values, np.ndarray):
        for index, value in enumerate(values):
            if type(value) is int and abs(value) > MAX_EXACT:
                expected = "a string, as many programs round numbers above 2^53"
                raise BadInput(f"{_item(what, index)}: found the number {shown(value)}, expected {expected}")
        _expect(values, what, str | int, EXPECTED_ID)
    found, bad = parse_ids(values)
    _expect_none_bad(values, what, bad)
    return found


def texts_of(values: Column, what: str = "texts") -> list[str]:
    """Texts as programs write them. BadInput for what is none."""
    _expect(values, what, str, "a text, as a string")
    return [*values]


def _expect(values: Column, what: str, kind: Any, expected: str) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, kind) or isinstance(value, bool):
            raise BadInput(f"{_item(what, index)}: found {shown(value)}, expected {expected}")


def _expect_none_bad(values: Column, what: str, bad: Mapping[int, str]) -> None:
    for index, expected in bad.items():
        found = values[index].item() if isinstance(values, np.ndarray) else values[index]
        raise BadInput(f"{_item(what, index)}: found {shown(found)}, expected {expected}")


def _item(what: str, index: int) -> str:
    """what: the name of a column, or of one value."""
    return f"{what}, item {index}" if what.endswith("s") else what


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# --- What is answered ---


def matches_of(matches: Matches, *, with_query: bool) -> list[str]:
    """Each match as an object; with_query: the number of its query in it."""
    columns: list[Iterable[Any]] = [
        matches.fingerprint.tolist(),
        matches.distance.tolist(),
        cells_of(matches.id, len(matches)),
    ]
    if with_query:
        columns.insert(0, matches.query.tolist())
    return list(map((_QUERY_MATCH if with_query else _MATCH).format, *columns))


def additions_of(found: Additions) -> list[str]:
    """What became of each row, as the fields of an object, without its brackets."""
    ids = cells_of(found.match_id, len(found))
    rows = zip(found.stored.tolist(), found.match_fingerprint.tolist(), found.match_distance.tolist(), ids, strict=True)
    return [_STORED if stored else _KNOWN.format(*match) for stored, *match in rows]


def rows_of(rows: Rows) -> list[str]:
    """Each row as an object."""
    return list(map(_ROW.format, rows.fingerprint.tolist(), cells_of(rows.id, len(rows))))


def cells_of(ids: Array | None, count: int) -> list[str]:
    """Ids as JSON has them: strings, null in a store without ids. Of bytes as surrogateescape has them."""
    if ids is None:
        return [NO_ID] * count
    if ids.dtype.kind in "ui":
        return list(map('"{}"'.format, ids.tolist()))
    return [json.dumps(each if isinstance(each, str) else each.decode("utf-8", "surrogateescape")) for each in ids]


def error_of(error: Exception) -> dict[str, str]:
    """What an error is, for programs (type) and for people (message)."""
    return {"type": type(error).__name__, "message": str(error)}


def is_of_the_request(error: Exception) -> bool:
    """Whether an error is about what was asked, so that another question may go well."""
    if isinstance(error, BadInput | TooManyMatches):
        return True
    return isinstance(error, ValueError | TypeError) and not isinstance(error, Error)
