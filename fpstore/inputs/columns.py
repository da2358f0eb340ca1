"""Owns which column of a table, or field of JSON objects, holds what: never a guess among several.

A column is the one that was asked for, by its name or by its number from 0. Where none was, fingerprints are in the
one column whose name is one of FINGERPRINT_NAMES, or in the only column; ids are in the one called `id`. Names that
were not asked for are compared without regard to case. What is left open is refused, with the columns that there are
and the option that decides. So is a table with a column called `text` of which nobody said what is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fpstore.inputs.errors import BadInput, cut
from fpstore.types import expect_flags

FINGERPRINT_NAMES = ("fingerprint", "simhash", "hash", "fp")
ID_NAME = "id"
TEXT_NAME = "text"
IDS = ("auto", "column", "row")  # or None

ASK_FINGERPRINT = "fingerprint_column (--fingerprint-column)"
ASK_TEXT = "text_column (--text-column)"
ASK_ID = "id_column (--id-column)"
ASK_IDS = "ids (--ids)"
NUMBERED = "; a number, from 0, names a column too"
ASK_HEADER = "header (--input-header or --no-input-header)"

Column = str | int


@dataclass(slots=True)
class Decided:
    """What was found out of the first file that all later ones must agree with. ids: whether it has them."""

    ids: bool | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller said of columns.

    ids: one of IDS or None; of_ids: the values that are asked for are ids. header: whether the first row of CSV and TSV
    names the columns, None where nobody said. rows_serve: whether row numbers could be the ids, for advice.
    """

    fingerprint: Column | None = None
    text: Column | None = None
    id: Column | None = None
    ids: str | None = None
    of_ids: bool = False
    header: bool | None = None
    rows_serve: bool = True

    def check(self) -> None:
        """ValueError for what no source could give, TypeError for a header that is neither True, False nor None."""
        if self.fingerprint is not None and self.text is not None:
            raise ValueError("fingerprint_column and text_column: found both, expected one: fingerprints or texts")
        columns = {"fingerprint_column": self.fingerprint, "text_column": self.text, "id_column": self.id}
        for name, value in columns.items():
            if isinstance(value, int) and value < 0:
                raise ValueError(f"{name}: found {value}, expected a name or a number from 0")
        if self.ids not in (*IDS, None):
            raise ValueError(
                f"ids: found {self.ids!r}, expected one of {', '.join(IDS)} or None; a column is id_column"
            )
        if self.id is not None and self.ids not in ("auto", "column") and not self.of_ids:
            raise ValueError(f"id_column: found it with ids {self.ids!r}, expected ids 'column'")
        if self.header is not None:
            expect_flags(header=self.header)
        for name, value in columns.items():
            if self.header is False and isinstance(value, str):
                raise ValueError(f"{name}: found a name, expected a number, as {ASK_HEADER} says that none is named")


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of the columns of values and of ids, None without ids."""

    value: int
    id: int | None


def columns_of(names: Sequence[str], where: str, asked: Asked) -> Found:
    """The columns among those that are called names, in their order; of a table without names these are its cells.

    Raises BadInput where it cannot be told, or where one column is asked for twice.
    """
    if asked.of_ids:
        return Found(_only(names, where, asked.id, (ID_NAME,), ASK_ID), None)
    if asked.text is not None:
        value = _index(asked.text, names, where)
    else:
        if asked.fingerprint is None and _called(names, (TEXT_NAME,)):
            told = f"{ASK_FINGERPRINT} or {ASK_TEXT} to say what is meant"
            raise BadInput(f"{where}: found {_listed(names)}, texts among them; expected {told}")
        value = _only(names, where, asked.fingerprint, FINGERPRINT_NAMES, ASK_FINGERPRINT)
    found = _id_column(names, where, asked)
    if found == value:
        raise BadInput(
            f"{where}: found column {cut(names[value])} as {'text' if asked.text is not None else 'fingerprint'} and as"
            f" id, expected two columns; {ASK_FINGERPRINT}, {ASK_TEXT}, {ASK_ID} say which"
        )
    return Found(value, found)


def with_ids(asked: Asked, decided: Decided, has_column: bool, where: str) -> bool:
    """Whether the ids of a file are those that it holds; has_column: whether it has a column called `id`.

    Where nobody said, the first file decides. Raises BadInput for a later one that is otherwise, and where ids are
    asked for and there are none.
    """
    if asked.ids == "auto" and asked.id is None:
        if decided.ids is None:
            decided.ids = has_column
        if decided.ids != has_column:
            found, before = ("a column", "none") if has_column else ("no column", "one")
            ask = f"{ASK_IDS} to say whether ids are a column or row numbers" if asked.rows_serve else "all or none"
            raise BadInput(f"{where}: found {found} called {ID_NAME}, and {before} in the files before; expected {ask}")
        return has_column
    return asked.ids == "column" or asked.id is not None


def id_field(names: Sequence[str], where: str, asked: Asked, decided: Decided) -> str | None:
    """The field of the ids of JSON objects, of which the first has these; None where they have none."""
    if asked.id is not None:
        return str(asked.id)
    fields = _called(names, (ID_NAME,))
    if not with_ids(asked, decided, bool(fields), where):
        return None
    return names[_one_called_id(names, fields, where, asked)]


def _id_column(names: Sequence[str], where: str, asked: Asked) -> int | None:
    """The number of the column."""
    if asked.id is not None:
        return _index(asked.id, names, where)
    if asked.ids not in ("auto", "column"):
        return None
    called = _called(names, (ID_NAME,))
    if not called and asked.ids == "auto":
        return None
    return _one_called_id(names, called, where, asked)


def _one_called_id(names: Sequence[str], called: list[int], where: str, asked: Asked) -> int:
    if len(called) != 1:
        rows = f", or {ASK_IDS} for row numbers" if asked.rows_serve else ""
        raise BadInput(f"{where}: found {_listed(names)}; expected one called {ID_NAME}, or {ASK_ID}{rows}{NUMBERED}")
    return called[0]


def _only(names: Sequence[str], where: str, wanted: Column | None, known: tuple[str, ...], ask: str) -> int:
    """The column that is wanted, or the one that is called by one of the known names, or the only one there is."""
    if wanted is not None:
        return _index(wanted, names, where)
    called = _called(names, known)
    if len(called) == 1:
        return called[0]
    if not called and len(names) == 1:
        return 0
    raise BadInput(f"{where}: found {_listed(names)}; expected one called {' or '.join(known)}, or {ask}{NUMBERED}")


def _called(names: Sequence[str], known: tuple[str, ...]) -> list[int]:
    return [index for index, name in enumerate(names) if name.lower() in known]


def _index(wanted: Column, names: Sequence[str], where: str) -> int:
    if isinstance(wanted, int):
        if wanted >= len(names):
            raise BadInput(f"{where}: found {_count(len(names))}, expected at least {wanted + 1}")
        return wanted
    if names.count(wanted) != 1:
        raise BadInput(f"{where}: found {_listed(names)}; expected one named {wanted}")
    return names.index(wanted)


def _count(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _listed(names: Sequence[str]) -> str:
    return f"columns {cut(', '.join(names))}"
