"""Owns which document of a group is kept: the first, the longest, or that with the largest or the smallest of a field.

The values of a field are all numbers, or all texts, which are compared by their code points: dates as ISO 8601 writes
them come in the order of time. Dates and times of Parquet are such texts, and cells of CSV and TSV that read as decimal
numbers are numbers. What has no value (no such field, null, NaN, an empty cell, true, a list) comes after all that have
one. Of equal values the first comes first. A field that no document has is refused: it was mistyped, most likely. So
are texts that all read as numbers, where these have another order.
"""

import json
import math
import re
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np

from fpstore.inputs import MISSING, BadInput, Field
from fpstore.jobs.batches import Batch
from fpstore.types import Array, Counts

_KINDS = ("first", "longest", "max", "min")
EXPECTED = "first, longest, max:FIELD or min:FIELD"

# By what a document is put in order. A number is the sum of high and low, exact to 30 digits; a text ends at text_end
# of a file of them.
RANK = np.dtype([("kind", "u1"), ("high", "<f8"), ("low", "<f8"), ("text_end", "<u8")])
NONE, NUMBER, TEXT, ABSENT = range(4)
_NAMES = ("no value", "a number", "a text")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)


class NoOrder(BadInput):
    """Documents cannot be put in order by the field to keep by: the same job would meet the same values."""


@dataclass(frozen=True)
class Keep:
    """How the one that is kept is chosen; field: of max and min."""

    by: str
    field: str | None = None

    @classmethod
    def parse(cls, typed: object) -> "Keep":
        """From "first", "longest", "max:FIELD" or "min:FIELD". Raises ValueError for anything else."""
        by, colon, field = typed.partition(":") if isinstance(typed, str) else ("", "", "")
        if by not in _KINDS or bool(field) is not (by in ("max", "min")) or bool(colon) is not bool(field):
            raise ValueError(f"keep: found {typed!r:.40}, expected {EXPECTED}")
        return cls(by, field or None)

    def __str__(self) -> str:
        return self.by if self.field is None else f"{self.by}:{self.field}"

    @property
    def is_first(self) -> bool:
        """Whether documents are decided in the order in which they come."""
        return self.by == "first"

    def order(self, ranks: Array, texts: memoryview) -> Counts:
        """The numbers of documents, in the order in which they are decided: int64[n].

        Raises NoOrder where texts all read as numbers, and come in another order as numbers.
        """
        largest = self.by != "min"
        if (ranks["kind"] == TEXT).any():
            having = np.flatnonzero(ranks["kind"] == TEXT)
            ends = ranks["text_end"][having].tolist()
            starts = np.where(having > 0, ranks["text_end"][np.maximum(having - 1, 0)], np.uint64(0)).tolist()
            values = [bytes(texts[start:end]) for start, end in zip(starts, ends, strict=True)]
            # Stable, with reverse too: of equal ones the first comes first.
            ranked = sorted(range(len(values)), key=values.__getitem__, reverse=largest)
            self._expect_one_order(values, ranked)
            having = having[np.array(ranked, dtype=np.intp)]
        else:
            having = np.flatnonzero(ranks["kind"] == NUMBER)
            sign = -1.0 if largest else 1.0
            having = having[np.lexsort((sign * ranks["low"][having], sign * ranks["high"][having]))]
        return np.concatenate([having, np.flatnonzero(is_without(ranks))])

    def expect_field(self, ranks: Array) -> None:
        """Raises NoOrder where none of the documents, of which there are some, has the field."""
        if len(ranks) and (ranks["kind"] == ABSENT).all():
            found = f"no field {self.field} in any of {len(ranks)} documents"
            raise NoOrder(f"found {found}, expected one at least that has it (--keep)")

    def _expect_one_order(self, values: list[bytes], ranked: list[int]) -> None:
        """Raises NoOrder where texts, ranked as such, have another order as numbers, which all of them read as."""
        numbers = []
        for value in values:
            if not _DECIMAL.fullmatch(value.decode("utf-8", "surrogatepass").strip()):
                return
            numbers.append(Decimal(value.decode()))
        if ranked != sorted(range(len(values)), key=numbers.__getitem__, reverse=self.by != "min"):
            shown = ", ".join(json.dumps(value.decode()) for value in values[:3])
            found = f"texts that all read as numbers in {self.field}, such as {shown}, which have two orders"
            raise NoOrder(f"found {found}; expected numbers, which stand without quotation marks (--keep)")


def is_without(ranks: Array) -> Array:
    """Which documents have no value: bool[n]."""
    kinds = ranks["kind"]
    return np.isin(kinds, (NONE, ABSENT))


class Ranker:
    """Makes the ranks of documents, as they are read."""

    def __init__(self, keep: Keep, known: Array, text_end: int) -> None:
        """known: the ranks of those that were read before, whose texts end at text_end."""
        self._field = None if keep.field is None else Field(column_of(keep.field), "--keep")
        self._name = keep.field
        known = known[~is_without(known)]
        self._kind = int(known["kind"][0]) if len(known) else NONE
        self._text_end = text_end

    def rank(self, batch: Batch) -> tuple[Array, bytes]:
        """RANK[n] of the documents of a batch, and their texts one after the other.

        Raises BadInput where the values are neither all numbers nor all texts, and where there is no such column.
        """
        ranks = np.zeros(len(batch.names), dtype=RANK)
        if self._field is None:
            ranks["kind"], ranks["high"] = NUMBER, [len(text) for text in batch.texts]
            return ranks, b""
        texts: list[bytes] = []
        for index, (name, row) in enumerate(zip(batch.names, batch.rows, strict=True)):
            found = self._field.of(row, name)
            if found is MISSING:
                ranks[index] = (ABSENT, 0.0, 0.0, self._text_end)
                continue
            value = value_of(found, of_table=row.layout.kind in ("csv", "tsv"))
            kind = NONE if value is None else TEXT if isinstance(value, str) else NUMBER
            if NONE != kind != self._kind != NONE:
                told = f"{_NAMES[kind]} in {self._name}, after {_NAMES[self._kind]} in the documents before"
                raise BadInput(f"{name}: found {told}, expected numbers only, or texts only, for --keep")
            self._kind = max(self._kind, kind)
            high, low = (0.0, 0.0) if value is None or isinstance(value, str) else _parts(value)
            if isinstance(value, str):
                texts.append(value.encode("utf-8", "surrogatepass"))
                self._text_end += len(texts[-1])
            ranks[index] = (kind, high, low, self._text_end)
        return ranks, b"".join(texts)


def column_of(name: str) -> str | int:
    """A column by its name, or by its number from 0 where it is typed as one."""
    return int(name) if name.isascii() and name.isdigit() else name


def value_of(value: object, *, of_table: bool) -> str | int | float | Decimal | None:
    """A number or a text, None where a value is neither; of_table: a cell, whose text may be a number."""
    if isinstance(value, str) and of_table:
        cell = value.strip()
        if not cell or cell.lower() == "nan":
            return None
        return Decimal(cell) if _DECIMAL.fullmatch(cell) else cell
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return value if isinstance(value, str | int) else None


def _parts(number: float | Decimal) -> tuple[float, float]:
    """A number as the sum of the float that is nearest and what is left."""
    try:
        high = float(number)
    except OverflowError:
        high = math.inf if number > 0 else -math.inf
    if isinstance(number, float) or math.isinf(high):
        return high, 0.0
    return high, float(number - (Decimal(high) if isinstance(number, Decimal) else int(high)))
