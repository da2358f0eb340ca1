"""Owns whether the first row of CSV or TSV names its columns: as the caller said, or as the row itself tells.

A first row is a header where a column is asked for by its name, and where the column of the values is called by a name
that is known. It is a row of values where the cell of that column is a fingerprint of at least ten digits, or an id,
and no cell is called `id`. Any other can be meant in two ways: a text, a short number, the numbers that pandas gives
columns, a bad value. It is refused until the caller says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fpstore.inputs.columns import ASK_HEADER, FINGERPRINT_NAMES, ID_NAME, Asked, Found, columns_of
from fpstore.inputs.errors import BadInput, cut

# Nobody calls a column so. A bad value may look like it too: it is told as a bad value.
_FINGERPRINT = re.compile(r"[-+][0-9]+|0[xX][0-9a-fA-F]+|[0-9a-fA-F]{10,}")
_ID = re.compile(r"[-+]?[0-9]+")


def columns_and_header(cells: Sequence[str], where: str, asked: Asked) -> tuple[Found, bool]:
    """The columns of a table with this first row, and whether that is a header.

    Raises BadInput where one of the two cannot be told.
    """
    names = [cell.strip() for cell in cells]
    if asked.header is False:
        return columns_of(list(map(str, range(len(names)))), where, asked), False
    found = columns_of(names, where, asked)
    if asked.header or _asks_a_name(asked):
        return found, True
    tells = None if asked.text is not None else _is_header(names, found, asked)
    if tells is None:
        expected = f"{ASK_HEADER} to say whether this is a header or a row of values"
        raise BadInput(f"{where}: found {cut(', '.join(names))}, expected {expected}")
    return found, tells


def _asks_a_name(asked: Asked) -> bool:
    """Whether a column was asked for by its name, which only a header has."""
    names_an_id = asked.ids == "column" and asked.id is None
    return names_an_id or any(isinstance(each, str) for each in (asked.fingerprint, asked.text, asked.id))


def _is_header(names: list[str], found: Found, asked: Asked) -> bool | None:
    """Whether the row is one, told by the column of the values; None where it does not tell."""
    value = names[found.value]
    if value.lower() in ((ID_NAME,) if asked.of_ids else FINGERPRINT_NAMES):
        return True
    names_an_id = found.id is not None and names[found.id].lower() == ID_NAME
    if (_ID if asked.of_ids else _FINGERPRINT).fullmatch(value) is None:
        return True if names_an_id else None
    return None if names_an_id or _numbers_columns(names) else False


def _numbers_columns(names: list[str]) -> bool:
    """Whether these are the numbers of columns from 0, as pandas writes them; behind an empty one for its index."""
    named = names[1:] if not names[0] else names
    return named == list(map(str, range(len(named))))
