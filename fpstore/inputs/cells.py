"""Owns what a fingerprint and an id look like when written as text, and turns columns of them into arrays.

A written fingerprint is one of

- `0x` and 1 to 16 hexadecimal digits;
- exactly 16 hexadecimal digits, as fpstore prints them;
- otherwise decimal digits, up to 2**64 - 1.

Sixteen decimal digits can be read in two ways. One alone is hexadecimal. In a file, the others decide: where they are
decimal numbers it is decimal, where they are hexadecimal it is hexadecimal, and where the file mixes both it is
refused. (One uniform decimal fingerprint in 2,000 has 16 digits: read as hexadecimal they would be wrong, and nobody
would be told.)
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.inputs.errors import BadInput, shown

MAX_VALUE = 2**64 - 1
EXPECTED_FINGERPRINT = "16 hexadecimal digits, 0x and up to 16, or a decimal number up to 2**64 - 1"
EXPECTED_CLEAR = "0x before it: among hexadecimal and decimal numbers, 16 decimal digits could be either"
EXPECTED_ID = "a decimal number up to 2**64 - 1"

# The named group that matches is the kind; `either` is also hexadecimal, so it stands before `hex`.
_WRITTEN = re.compile(
    r"(?P<prefixed>0[xX][0-9a-fA-F]{1,16})|(?P<either>[0-9]{16})|(?P<hex>[0-9a-fA-F]{16})|(?P<decimal>[0-9]{1,20})"
)
_DECIMAL = re.compile(r"[0-9]{1,20}")

# A column as the format readers hold it: Python objects, or integers straight from Parquet.
Column = Sequence[object] | npt.NDArray[Any]
Parsed = tuple[npt.NDArray[np.uint64], dict[int, str]]


def parse_fingerprint(text: str) -> int:
    """The fingerprint (0..2**64 - 1) that text writes by the rule of the module; outer spaces are dropped.

    Raises BadInput (a ValueError) for anything else.
    """
    kind, value = _read(text.strip())
    if kind == "either":
        return int(text, 16)
    if value is None:
        raise BadInput(f"fingerprint: found {shown(text)}, expected {EXPECTED_FINGERPRINT}")
    return value


class FingerprintColumn:
    """Reads the fingerprints of one file, piece by piece, and remembers which way the file writes them."""

    def __init__(self) -> None:
        self._hex_seen = False
        self._decimal_seen = False

    def parse_digits(self, digits: bytes) -> npt.NDArray[np.uint64] | None:
        """Fingerprints (uint64[n]) of 16 n bytes that are 16 hexadecimal digits each, at full speed.

        None where they are not, or could be decimal numbers: then parse decides.
        """
        if self._decimal_seen:
            return None
        try:
            packed = binascii.unhexlify(digits)
        except binascii.Error:
            return None
        if not self._hex_seen:
            self._hex_seen = not digits.isdigit()
        return np.frombuffer(packed, dtype=">u8").astype(np.uint64)

    def parse(self, column: Column) -> Parsed:
        """Fingerprints of a column, and for each bad one its index and what was expected there.

        The fingerprint at a bad index is 0.
        """
        if isinstance(column, np.ndarray):
            return _parse_integers(column, EXPECTED_FINGERPRINT)
        if set(map(type, column)) == {str} and set(map(len, column)) == {16}:  # type: ignore[arg-type]
            digits = "".join(column)  # type: ignore[arg-type]
            fingerprints = self.parse_digits(digits.encode("ascii", "replace"))
            if fingerprints is not None:
                return fingerprints, {}
        read = [_read(value) for value in column]
        kinds = {kind for kind, _ in read}
        self._hex_seen |= "hex" in kinds
        self._decimal_seen |= "decimal" in kinds
        values = np.zeros(len(read), dtype=np.uint64)
        bad: dict[int, str] = {}
        for index, (kind, value) in enumerate(read):
            if value is None:
                bad[index] = EXPECTED_FINGERPRINT
            elif kind != "either" or (self._decimal_seen and not self._hex_seen):
                values[index] = value
            elif self._decimal_seen:
                bad[index] = EXPECTED_CLEAR
            else:
                values[index] = int(str(column[index]), 16)
        return values, bad


def parse_ids(column: Column) -> Parsed:
    """Ids of a column (integers, or decimal digits), and for each bad one its index and what was expected.

    The id at a bad index is 0.
    """
    if isinstance(column, np.ndarray):
        return _parse_integers(column, EXPECTED_ID)
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
        number = int(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else value
        if type(number) is int and 0 <= number <= MAX_VALUE:
            values[index] = number
        else:
            bad[index] = EXPECTED_ID
    return values, bad


def _read(value: object) -> tuple[str, int | None]:
    """The kind of a written fingerprint and its value: None for a bad one, as decimal for `either`."""
    if type(value) is int:
        return "integer", value if 0 <= value <= MAX_VALUE else None
    match = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "bad", None
    kind = str(match.lastgroup)
    number = int(match[0], 16 if kind in ("prefixed", "hex") else 10)
    return kind, number if number <= MAX_VALUE else None


def _parse_integers(column: npt.NDArray[Any], expected: str) -> Parsed:
    bad = np.flatnonzero(column < 0) if column.dtype.kind == "i" else np.empty(0, dtype=np.int64)
    values = column.astype(np.uint64)
    values[bad] = 0
    return values, {int(index): expected for index in bad}
