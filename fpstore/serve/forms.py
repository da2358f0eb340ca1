"""Owns how rows, answers and errors are written in JSON, for programs in any language.

A fingerprint is a string of hexadecimal digits, and an id is a string whatever its type, as jq and JavaScript round
numbers above 2^53. Whole numbers up to that are taken as ids, too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from fpstore import Additions, Error, Matches, Rows, TooManyMatches
from fpstore.fingerprints import as_numbers
from fpstore.inputs import BadInput
from fpstore.inputs.cells import (
    ALONE,
    EXPECTED_ID,
    Column,
    FingerprintColumn,
    parse_ids,
    parse_names,
    written_otherwise,
)
from fpstore.inputs.errors import shown
from fpstore.text.loading import each_name_once
from fpstore.types import Array, IdType, Keys

# The largest whole number that every language reads as it is written.
MAX_EXACT = 1 << 53

NO_ID = "null"
# Between the items of a list.
SEPARATOR = ", "
# DIGITS: how many a fingerprint has.
_MATCH = '{{"fingerprint": "{:0DIGITSx}", "distance": {}, "id": {}}}'
_QUERY_MATCH = '{{"query": {}, "fingerprint": "{:0DIGITSx}", "distance": {}, "id": {}}}'
_ROW = '{{"fingerprint": "{:0DIGITSx}", "id": {}}}'
_STORED = '"stored": true, "match_fingerprint": null, "match_distance": null, "match_id": null'
_KNOWN = '"stored": false, "match_fingerprint": "{:0DIGITSx}", "match_distance": {}, "match_id": {}'


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


def fingerprints_of(values: Column, bits: int, what: str = "fingerprints") -> Keys:
    """Fingerprints of so many bits as programs write them. Of Arrow integers and bytes, too. BadInput."""
    column = FingerprintColumn.of_programs(bits)
    if not isinstance(values, np.ndarray):
        _expect(values, what, str | bytes, column.width.expected["typed"])
    found, bad = column.parse(values)
    _expect_none_bad(values, what, bad)
    return found


def ids_of(values: Column, id_type: IdType | None, what: str = "ids") -> Array:
    """Ids as programs write them, as the store has them. BadInput for what is none of this store's."""
    if id_type is None:
        raise BadInput(f"{what}: found some, expected none: the store has no ids")
    _expect_exact(values, what)
    if id_type != "uint64":
        names, bad = parse_names(values, id_type == "string")
        _expect_none_bad(values, what, bad)
        return names
    if not isinstance(values, np.ndarray):
        _expect(values, what, str | int, EXPECTED_ID)
    found, bad = parse_ids(values)
    _expect_none_bad(values, what, bad)
    for index, value in enumerate(values) if written_otherwise(values) else ():
        if isinstance(value, str) and not ALONE.fullmatch(value):  # who sends 007 may mean another row than 7
            raise BadInput(f"{_item(what, index)}: found {shown(value)}, expected {int(value)}: ids are numbers")
    return found


def texts_of(values: Column, what: str = "texts") -> list[str]:
    """Texts as programs write them. BadInput for what is none."""
    _expect(values, what, str, "a text, as a string")
    return [*values]


def _expect_exact(values: Column, what: str) -> None:
    """BadInput for a number that other programs may have rounded, whatever ids are: it would be another id."""
    if isinstance(values, np.ndarray):  # of Arrow, where numbers are as they were
        return
    for index, value in enumerate(values):
        if type(value) is int and abs(value) > MAX_EXACT:
            expected = "a string, as many programs round numbers above 2^53"
            raise BadInput(f"{_item(what, index)}: found the number {shown(value)}, expected {expected}")


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


def digits_of(fingerprint: int, bits: int) -> str:
    """A fingerprint of so many bits as JSON has it, without quotes."""
    return f"{fingerprint:0{bits // 4}x}"


def _with_digits(form: str, bits: int) -> str:
    return form.replace("DIGITS", str(bits // 4))


def matches_of(matches: Matches, bits: int, *, with_query: bool) -> Iterator[str]:
    """Each match as an object; bits: of a fingerprint; with_query: the number of its query in it."""
    columns: list[Iterable[Any]] = [
        as_numbers(matches.fingerprint),
        matches.distance.tolist(),
        cells_of(matches.id, len(matches)),
    ]
    if with_query:
        columns.insert(0, matches.query.tolist())
    return map(_with_digits(_QUERY_MATCH if with_query else _MATCH, bits).format, *columns)


def additions_of(found: Additions, bits: int) -> Iterator[str]:
    """What became of each row, as the fields of an object, without its brackets."""
    ids, known = cells_of(found.match_id, len(found)), _with_digits(_KNOWN, bits)
    near = as_numbers(found.match_fingerprint)
    rows = zip(found.stored.tolist(), near, found.match_distance.tolist(), ids, strict=True)
    return (_STORED if stored else known.format(*match) for stored, *match in rows)


def rows_of(rows: Rows, bits: int) -> Iterator[str]:
    """Each row as an object."""
    return map(_with_digits(_ROW, bits).format, as_numbers(rows.fingerprint), cells_of(rows.id, len(rows)))


def cells_of(ids: Array | None, count: int) -> Iterable[str]:
    """Ids as JSON has them: strings, null in a store without ids. Of bytes as surrogateescape has them."""
    if ids is None:
        return [NO_ID] * count
    if ids.dtype.kind in "ui":
        return map('"{}"'.format, ids.tolist())
    return (json.dumps(each if isinstance(each, str) else each.decode("utf-8", "surrogateescape")) for each in ids)


def bounded(parts: Iterable[str], most: int) -> list[str]:
    """What an answer consists of. TooManyMatches, before more is made, where it is more than most characters."""
    found: list[str] = []
    left = most
    for part in parts:
        left -= len(part) + len(SEPARATOR)
        if left < 0:
            raise too_long(most)
        found.append(part)
    return found


def too_long(most: int) -> TooManyMatches:
    """The error of an answer of more than so many bytes."""
    return TooManyMatches(f"answer: found more than {most} bytes, expected at most {most}; ask for less at once")


def error_of(error: Exception) -> dict[str, str]:
    """What an error is, for programs (type) and for people (message)."""
    return {"type": type(error).__name__, "message": str(error)}


def is_of_the_request(error: Exception) -> bool:
    """Whether an error is about what was asked, so that another question may go well."""
    if isinstance(error, BadInput | TooManyMatches):
        return True
    return isinstance(error, ValueError | TypeError) and not isinstance(error, Error)
