"""What every answer is: columns of equal length, and records when it is walked.

Owns what a table does whichever it is: rows, slices, equality, pickling, how it is shown, and what Arrow, pandas and
polars get of it. A kind of table says its columns and its record; its types are the same for every answer of a store,
those without rows included.
"""

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import repeat
from operator import index
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np

from fpstore._answers import Columns
from fpstore.origin import Made
from fpstore.types import Array

Record = TypeVar("Record")

# Of a table that is shown.
ROWS_SHOWN = 10


class Table(Columns, ABC, Generic[Record]):
    """A table of columns, each an array that cannot be written to, or None where the store has no such thing.

    Iterating and [i] give records, [a:b] the same kind of table. Tables are equal where kind and columns are, types
    included. Anything that reads Arrow takes one as it is (`__arrow_c_stream__`).
    """

    __slots__ = ()

    NAMES: ClassVar[tuple[str, ...]]
    # Those of its columns that hold fingerprints, which are shown in hexadecimal.
    FINGERPRINTS: ClassVar[tuple[str, ...]]

    _columns: tuple[Any, ...]
    # What there is to say of its fingerprints; None where nobody said.
    _recipe: Made | None

    @abstractmethod
    def _records(self, columns: Sequence[Any]) -> Iterator[Record]:
        """The rows of columns, lists of plain values."""

    def _rest(self, rows: slice) -> tuple[Any, ...]:
        """What else makes a table of these rows, after its columns."""
        return ()

    def _nulls(self, name: str) -> Array | None:
        """In which rows a column has no value: bool[n], or None for none."""
        return None

    # --- Rows ---

    def __iter__(self) -> Iterator[Record]:
        return self._records([repeat(None) if column is None else _plain(column) for column in self._columns])

    @overload
    def __getitem__(self, rows: int) -> Record: ...
    @overload
    def __getitem__(self, rows: slice) -> Self: ...
    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            return self._taken(rows)
        try:
            row = index(rows)
        except TypeError:
            found = f"{self._name}: found a {type(rows).__name__}"
            raise TypeError(f"{found}, expected the number of a row, or a slice; columns take arrays") from None
        if not -len(self) <= row < len(self):
            raise IndexError(f"{self._name}: found row {row}, expected one of {len(self)}")
        row %= len(self)
        return next(iter(self._taken(slice(row, row + 1))))

    def _taken(self, rows: slice) -> Self:
        return self._made([None if column is None else column[rows] for column in self._columns], rows)

    def _made(self, columns: Sequence[Array | None], rows: slice = slice(None)) -> Self:
        return type(self)(*columns, *self._rest(rows))._of_store(self._made_by)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            one is another is None or (one is not None and another is not None and _same(one, another))
            for one, another in zip(self._columns, other._columns, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        state = None if self._made_by is None else (None, {"_recipe": self._made_by})
        return type(self), (*self._columns, *self._rest(slice(None))), state

    def signed(self) -> Self:
        """The same bits as int64, in every column of uint64."""
        return self._made(
            [
                column.view(np.int64) if column is not None and column.dtype == np.uint64 else column
                for column in self._columns
            ]
        )

    @property
    def _made_by(self) -> Made | None:
        return self._recipe

    def _of_store(self, made_by: Made | None, signed: bool = False) -> Self:
        """This table, of whose fingerprints this is to be said; signed: that of signed()."""
        table = self.signed() if signed else self
        if made_by is not None:
            table._recipe = made_by
        return table

    # --- Shown ---

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _told(self) -> str:
        """What is said of the whole table."""
        return f"{len(self)} rows"

    def __repr__(self) -> str:
        lines = [f"<{self._name}: {self._told()}>"]
        if len(self):
            cells = self._cells()
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += ["  ".join(map(str.rjust, row, widths)) for row in cells]
        return "\n".join([*lines, *self._left()])

    def _repr_html_(self) -> str:
        head, *rows = ([html.escape(cell) for cell in row] for row in self._cells())
        told = html.escape(", ".join([f"{self._name}: {self._told()}", *self._left()]))
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        titles = "".join(f"<th>{name}</th>" for name in head)
        return f"<table><caption>{told}</caption><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"

    def _left(self) -> list[str]:
        return [f"... and {len(self) - ROWS_SHOWN} more"] if len(self) > ROWS_SHOWN else []

    def _cells(self) -> list[tuple[str, ...]]:
        """The names of the columns, and the first rows, as text."""
        shown = []
        for name, column in self._present():
            first, nulls = column[:ROWS_SHOWN], self._nulls(name)
            digits = 16 * (column.shape[1] if is_wide(column) else 1)
            cell = f"0x{{:0{digits}x}}" if name in self.FINGERPRINTS and column.dtype == np.uint64 else "{}"
            empty = [False] * len(first) if nulls is None else nulls[:ROWS_SHOWN].tolist()
            values = zip(_plain(first), empty, strict=True)
            shown.append([name, *("" if none else cell.format(value) for value, none in values)])
        return list(zip(*shown, strict=True))

    def _present(self) -> list[tuple[str, Array]]:
        """The columns that there are, with their names."""
        pairs = zip(self.NAMES, self._columns, strict=True)
        return [(name, column) for name, column in pairs if column is not None]

    # --- For others ---

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """TypeError: one array of all columns would be of float64, which rounds fingerprints and ids."""
        raise TypeError(
            f"{self._name}: found one array asked for, expected a column, such as .{self.NAMES[0]}, or to_pandas(),"
            " to_polars() or to_arrow()"
        )

    @property
    def schema(self) -> Any:
        """The pyarrow.Schema, the same for every answer of a store. Needs the extra fpstore[arrow].

        The recipe of the store, if it has one, and its bits, if not 64, are in the metadata of the fields of
        fingerprints (fpstore.origin).
        """
        pyarrow = _package("pyarrow", "Arrow needs pyarrow: pip install 'fpstore[arrow]'")
        says = None if self._made_by is None else self._made_by.metadata
        return pyarrow.schema(
            pyarrow.field(name, _arrow_type(pyarrow, column), metadata=says if name in self.FINGERPRINTS else None)
            for name, column in self._present()
        )

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """A pyarrow.Table of the columns, with nulls where a row has no value. Needs the extra fpstore[arrow]."""
        schema = self.schema
        pyarrow = import_module("pyarrow")
        arrays = [
            pyarrow.array(_for_others(column), schema.field(name).type, mask=self._nulls(name))
            for name, column in self._present()
        ]
        return pyarrow.Table.from_arrays(arrays, schema=schema)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of the columns; pandas' own integers with nulls where a row has no value."""
        pandas = _package("pandas", "to_pandas needs pandas: pip install pandas")
        columns = {}
        for name, column in self._present():
            nulls, values = self._nulls(name), _for_others(column)
            if values.dtype == object:
                columns[name] = values if nulls is None else np.where(nulls, np.array(None, dtype=object), values)
            else:
                columns[name] = values if nulls is None else pandas.arrays.IntegerArray(values.copy(), nulls.copy())
        return pandas.DataFrame(columns)

    def to_polars(self) -> Any:
        """A polars.DataFrame of the columns, with nulls where a row has no value."""
        polars = _package("polars", "to_polars needs polars: pip install polars")
        columns = []
        for name, column in self._present():
            values, nulls = _for_others(column), self._nulls(name)
            names = polars.Binary if is_bytes(column) or is_wide(column) else polars.String
            own = values.dtype == object
            series = polars.Series(name, values.tolist(), dtype=names) if own else polars.Series(name, values)
            columns.append(series if nulls is None else series.set(polars.Series(nulls), None))
        return polars.DataFrame(columns)


class Row(NamedTuple):
    """A stored fingerprint, and one of its ids; None in a store without ids."""

    fingerprint: int
    id: int | None


class Rows(Table[Row]):
    """What is stored, as columns: fingerprint uint64[m], id uint64[m], None in a store without ids."""

    __slots__ = ()

    NAMES = ("fingerprint", "id")
    FINGERPRINTS = ("fingerprint",)

    _columns: tuple[Array, Array | None]

    def __init__(self, fingerprint: Array, id: Array | None) -> None:
        self._columns = read_only(fingerprint, id)

    @property
    def fingerprint(self) -> Array:
        """uint64[m]: one for each id."""
        return self._columns[0]

    @property
    def id(self) -> Array | None:
        """uint64[m], or None."""
        return self._columns[1]

    def _records(self, columns: Sequence[Any]) -> Iterator[Row]:
        return map(Row._make, zip(*columns, strict=False))


def read_only(*columns: Any) -> Any:
    """Views of the columns that nobody can write through; the arrays themselves stay as their owner has them."""
    return sealed(*(None if column is None else column.view() for column in columns))


def sealed(*columns: Any) -> Any:
    """The columns, which nobody can write to any more: arrays that were made for a table. Every probe makes some."""
    for column in columns:
        if column is not None:
            column.setflags(False)
    return columns


def is_bytes(column: Array) -> bool:
    """Whether it is a column of names that are bytes; those that are strings have a type of numpy's own."""
    return column.dtype == object


def is_wide(column: Array) -> bool:
    """Whether it is a column of wide fingerprints, each a row of words, the most significant first."""
    return column.ndim == 2


def _bytes_each(column: Array) -> list[bytes]:
    """The bytes of each of a column of wide fingerprints, the highest first."""
    stored, size = column.view(np.uint64).astype(">u8").tobytes(), 8 * column.shape[1]
    return [stored[first : first + size] for first in range(0, len(stored), size)]


def _plain(column: Array) -> list[Any]:
    """The values as Python's own; wide fingerprints as integers."""
    if is_wide(column):
        return [int.from_bytes(value, "big") for value in _bytes_each(column)]
    values: list[Any] = column.tolist()
    return values


def _for_others(column: Array) -> Array:
    """The column as all take it: names that are strings as Python's own, wide fingerprints as bytes."""
    if is_wide(column):
        values = np.empty(len(column), dtype=object)
        values[:] = _bytes_each(column)
        return values
    return column.astype(object) if column.dtype.kind == "T" else column


def _arrow_type(pyarrow: Any, column: Array) -> Any:
    if is_wide(column):
        return pyarrow.binary(8 * column.shape[1])
    if is_bytes(column):
        return pyarrow.binary()
    return pyarrow.string() if column.dtype.kind == "T" else pyarrow.from_numpy_dtype(column.dtype)


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _package(name: str, lacking: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(lacking) from error
