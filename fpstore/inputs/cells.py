"""Owns what a fingerprint and an id look like when written as text, and turns columns of them into arrays.

A written fingerprint is hexadecimal or decimal, and one column holds one of the two:

- only hexadecimal can be: `0x` and 1 to 16 digits; 16 digits with a letter among them, or with a 0 in front;
- only decimal can be: a sign, or decimal digits that are not 16, from -2**63 to 2**64 - 1;
- 16 decimal digits without a 0 in front could be either.

The first value of a column that can be only one of the two says what the column is, and all that could be either are
read so, those before it too. A value that can be only the other is bad. Where bad values are passed over, the first
SURE that tell have to agree, so that a damaged one does not decide for all others. A column in which each could be
either is refused until the caller says which it is: one uniform decimal fingerprint in 2,000 has 16 digits, and read as
hexadecimal it would be wrong, and nobody would be told. Integers are decimal. Bytes are the 64 bits, big-endian.

An integer below 0 is the same 64 bits as unsigned where it is of 64 bits, or of no width: written, or a decimal or JSON
number. In a column of narrower integers it is bad, as it does not say which 64 bits are meant. fpstore.arrays keeps
the same rule.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.inputs.errors import BadInput, shown

MIN_SIGNED = -(2**63)
MAX_VALUE = 2**64 - 1
VALUE_BYTES = 8
WAYS = ("auto", "hex", "decimal")
SURE = 16  # values that tell
ASK_WAY = "fingerprint_format (--fingerprint-format)"
EXPECTED_HEX = "16 hexadecimal digits (64 bits), or 0x and up to 16"
EXPECTED_SAID_HEX = "1 to 16 hexadecimal digits (64 bits)"
EXPECTED_DECIMAL = "a decimal number of 64 bits, from -2**63 to 2**64 - 1"
EXPECTED_FINGERPRINT = "16 hexadecimal digits (64 bits), 0x and up to 16, or a decimal number from -2**63 to 2**64 - 1"
EXPECTED_SAME = {
    "hex": f"hexadecimal, as the values before it; or {ASK_WAY}",
    "decimal": f"a decimal number, as the values before it; or {ASK_WAY}",
}
EXPECTED_ONE_WAY = f"{ASK_WAY} to say which is meant, as the column begins with hexadecimal and decimal values"
EXPECTED_BYTES = f"{VALUE_BYTES} bytes (64 bits)"
EXPECTED_WIDE_ENOUGH = "integers of 64 bits where some are below 0"
# What ids are: numbers, or names.
ID_TYPES = ("uint64", "string", "bytes")
MAX_NAME_BYTES = 1 << 16
EXPECTED_NAME = f"text of at most {MAX_NAME_BYTES} bytes, or a whole number"
EXPECTED_ID = "a decimal number from -2**63 to 2**64 - 1"

# The named group that matches says which of the two a value can be.
_WRITTEN = re.compile(
    r"(?P<either>[1-9][0-9]{15})|(?P<hex>0[xX][0-9a-fA-F]{1,16}|[0-9a-fA-F]{16})|(?P<decimal>[-+]?[0-9]{1,20})"
)
_SAID = {
    "hex": re.compile(r"(?P<hex>(?:0[xX])?[0-9a-fA-F]{1,16})"),
    "decimal": re.compile(r"(?P<decimal>[-+]?[0-9]{1,20})"),
}
_DECIMAL = re.compile(r"[-+]?[0-9]{1,20}")

# A column as the format readers hold it: Python objects, or integers straight from Parquet.
Column = Sequence[object] | npt.NDArray[Any]
Parsed = tuple[npt.NDArray[np.uint64], dict[int, str]]


def parse_fingerprint(text: str, *, decimal: bool = False) -> int:
    """The fingerprint (0..2**64 - 1) that text writes: 1 to 16 hexadecimal digits, with or without `0x`.

    decimal: it is a decimal number instead, from -2**63 to 2**64 - 1. Outer spaces are dropped.

    Raises TypeError for what is no text, BadInput (a ValueError) for anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f"fingerprint: found {shown(text)}, a {type(text).__name__}, expected a str")
    way = "decimal" if decimal else "hex"
    match = _SAID[way].fullmatch(text.strip())
    value = None if match is None else _in_range(int(match[0], 10 if decimal else 16))
    if value is None:
        expected = EXPECTED_DECIMAL if decimal else EXPECTED_SAID_HEX
        raise BadInput(f"fingerprint: found {shown(text)}, expected {expected}")
    return value


class FingerprintColumn:
    """Reads the fingerprints of one column, piece by piece, all in one way.

    way: one of WAYS, what the caller said of the column.
    """

    def __init__(self, way: str = "auto") -> None:
        self._said = way if way != "auto" else None
        self.way = self._said
        self._told = 0  # how many values said so, no more than SURE

    @classmethod
    def of_hex_lines(cls) -> FingerprintColumn:
        """That of a file which is hexadecimal by its format: 16 digits, or `0x` and up to 16."""
        column = cls()
        column.way = "hex"
        return column

    @property
    def is_unsure(self) -> bool:
        """Whether some values have told, but fewer than first_other looks for."""
        return 0 < self._told < SURE

    def first_other(self, column: Column) -> int | None:
        """The index of the first value that can only be read in another way than one before it, or None.

        Among the first SURE values that tell, of all the columns that it was asked of.
        """
        if self._said is not None or isinstance(column, np.ndarray) or self._told == SURE:
            return None
        for index, kind in enumerate(map(_kind, column)):
            if kind in ("hex", "decimal"):
                self.way = self.way or kind
                if kind != self.way:
                    return index
                self._told += 1
                if self._told == SURE:
                    break
        return None

    def decide(self, column: Column) -> bool:
        """Look for what tells which way the column is written; whether that is known now, or nothing here asks."""
        if self.way is None and not isinstance(column, np.ndarray):
            kinds = (_kind(value) for value in column)
            self.way = next((kind for kind in kinds if kind in ("hex", "decimal")), None)
        return self.way is not None or isinstance(column, np.ndarray) or "either" not in map(_kind, column)

    def parse_digits(self, digits: bytes) -> npt.NDArray[np.uint64] | None:
        """Fingerprints (uint64[n]) of 16 n bytes that are 16 hexadecimal digits each, at full speed.

        None where they are not, or are not known to be hexadecimal: then parse decides.
        """
        if self.way != "hex":
            return None
        try:
            packed = binascii.unhexlify(digits)
        except binascii.Error:
            return None
        return np.frombuffer(packed, dtype=">u8").astype(np.uint64)

    def parse(self, column: Column) -> Parsed:
        """Fingerprints of a column, and for each bad one its index and what was expected there.

        The fingerprint at a bad index is 0. Where decide has said False, what could be either is bad.
        """
        if isinstance(column, np.ndarray):
            return _parse_integers(column)
        self.decide(column)
        if set(map(type, column)) == {str} and set(map(len, column)) == {16}:  # type: ignore[arg-type]
            digits = "".join(column)  # type: ignore[arg-type]
            fingerprints = self.parse_digits(digits.encode("ascii", "replace"))
            if fingerprints is not None:
                return fingerprints, {}
        values = np.zeros(len(column), dtype=np.uint64)
        bad: dict[int, str] = {}
        for index, each in enumerate(column):
            value, expected = self._read(each)
            if value is None:
                bad[index] = expected
            else:
                values[index] = value
        return values, bad

    def _read(self, value: object) -> tuple[int | None, str]:
        """The fingerprint that a cell holds, or None and what was expected."""
        if isinstance(value, bytes):
            return (int.from_bytes(value, "big"), "") if len(value) == VALUE_BYTES else (None, EXPECTED_BYTES)
        if not isinstance(value, str):
            number = _integer(value)
            if number is not None and self.way == "hex":
                return None, EXPECTED_SAME["hex"]
            return number, EXPECTED_WIDE_ENOUGH if isinstance(value, np.integer) else EXPECTED_DECIMAL
        kind = _kind(value)
        if self._said is not None:
            match = _SAID[self._said].fullmatch(value)
            number = None if match is None else _in_range(int(value, 16 if self._said == "hex" else 10))
            return number, EXPECTED_SAID_HEX if self._said == "hex" else EXPECTED_DECIMAL
        if kind == "bad":
            expected = {"hex": EXPECTED_HEX, "decimal": EXPECTED_DECIMAL}.get(self.way or "", EXPECTED_FINGERPRINT)
            is_short = _SAID["hex"].fullmatch(value) is not None
            return None, f"{expected}; or {ASK_WAY} hex, for fewer digits" if is_short else expected
        if kind not in ("either", self.way) or self.way is None:
            return None, EXPECTED_SAME.get(self.way or "", ASK_WAY)
        return _in_range(int(value, 16 if self.way == "hex" else 10)), EXPECTED_DECIMAL


def parse_ids(column: Column) -> Parsed:
    """Ids of a column (integers, or decimal digits), and for each bad one its index and what was expected.

    The id at a bad index is 0.
    """
    if isinstance(column, np.ndarray):
        return _parse_integers(column)
    if set(map(type, column)) == {str} and max(map(len, column)) <= 20 and all(column):  # type: ignore[arg-type]
        digits = "".join(column)  # type: ignore[arg-type]
        if digits.isascii() and digits.isdigit():
            try:
                return np.array(list(map(int, column)), dtype=np.uint64), {}  # type: ignore[arg-type]
            except OverflowError:
                pass  # the loop below says which one
    values = np.zeros(len(column), dtype=np.uint64)
    bad: dict[int, str] = {}
    for index, value in enumerate(column):
        written = isinstance(value, str) and _DECIMAL.fullmatch(value)
        number = _in_range(int(str(value))) if written else _integer(value)
        if number is None:
            bad[index] = EXPECTED_WIDE_ENOUGH if isinstance(value, np.integer) else EXPECTED_ID
        else:
            values[index] = number
    return values, bad


def parse_names(column: Column, text: bool) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """As parse_ids, ids that are names: strings, or bytes; whole numbers are the digits that write them."""
    values = np.empty(len(column), dtype=object)
    bad: dict[int, str] = {}
    for index, value in enumerate(column.tolist() if isinstance(column, np.ndarray) else column):
        number = None if isinstance(value, str | bytes | bool) else _integer(value)
        name = value if number is None else str(value)
        try:
            if isinstance(name, str) and not text:
                name = name.encode("utf-8", "surrogateescape")
            right = isinstance(name, str if text else bytes)
            size = len(name.encode() if isinstance(name, str) else name) if right else 0
        except UnicodeEncodeError:
            right, size = False, 0
        if not right or size > MAX_NAME_BYTES:
            bad[index] = EXPECTED_NAME
            name = "" if text else b""
        values[index] = name
    return values, bad


def can_be_either(value: object) -> bool:
    """Whether a cell could be hexadecimal or decimal."""
    return _kind(value) == "either"


def _kind(value: object) -> str:
    """Which way a cell is written: `hex`, `decimal`, `either`; `bits` for bytes, `bad` for what no rule reads."""
    if isinstance(value, str):
        match = _WRITTEN.fullmatch(value)
        if match is None or (match.lastgroup == "decimal" and _in_range(int(value)) is None):
            return "bad"
        return str(match.lastgroup)
    if isinstance(value, bytes):
        return "bits"
    return "bad" if _integer(value) is None else "decimal"


def _integer(value: object) -> int | None:
    """The 64 bits of a whole number, None for anything else."""
    if type(value) is int:
        return _in_range(value)
    if isinstance(value, np.integer):  # of a column that has nulls too
        return None if value < 0 and value.itemsize < VALUE_BYTES else _in_range(int(value))
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return _in_range(int(value))
    return None


def _in_range(value: int) -> int | None:
    """The 64 bits of a number, None where it has more."""
    return value & MAX_VALUE if MIN_SIGNED <= value <= MAX_VALUE else None


def _parse_integers(column: npt.NDArray[Any]) -> Parsed:
    """64-bit integers are their bits; a narrower one below 0 does not say which bits are meant."""
    narrow = column.dtype.kind == "i" and column.dtype.itemsize < VALUE_BYTES
    bad = np.flatnonzero(column < 0) if narrow else np.empty(0, dtype=np.int64)
    values = column.astype(np.uint64)
    values[bad] = 0
    return values, {int(index): EXPECTED_WIDE_ENOUGH for index in bad}
