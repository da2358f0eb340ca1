"""Owns what a fingerprint and an id look like when written as text, and turns columns of them into arrays.

A written fingerprint is hexadecimal or decimal, and one column holds one of the two:

- only hexadecimal can be: `0x` and 1 to 16 digits; 16 digits with a letter among them, or with a 0 in front;
- only decimal can be: a sign, or decimal digits that are not 16, from -2**63 to 2**64 - 1; with a 0 in front more than
  16, as fewer are what fingerprints of fewer bits are in hexadecimal, so that way is to be said;
- 16 decimal digits without a 0 in front could be either.

Of fingerprints of h bits, 16 is h / 4, and numbers are those below 2**h. Of 128 bits a UUID is hexadecimal. What writes
bytes in base64 is read so where the caller says it.

The first value of a column that can be only one of the two says what the column is, and all that could be either are
read so, those before it too. A value that can be only the other is bad. Where bad values are passed over, the first
SURE that tell have to agree, so that a damaged one does not decide for all others. A column in which each could be
either is refused until the caller says which it is: one uniform decimal fingerprint in 2,000 has 16 digits, and read as
hexadecimal it would be wrong, and nobody would be told. Integers are decimal. Bytes are the 64 bits, big-endian.

Where the caller says byte order little, hexadecimal, base64 and bytes are the bytes of a fingerprint with the lowest
first, a UUID all its 16. Numbers have no order of bytes, so a column that nothing else is said of is hexadecimal, and
with all its digits: fewer would not tell which bytes are left out.

An integer below 0 is the same 64 bits as unsigned where it is of 64 bits, or of no width: written, or a decimal or JSON
number. In a column of narrower integers it is bad, as it does not say which 64 bits are meant. fpstore.arrays keeps
the same rule.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.inputs.endings import goes_on, is_begun_text
from fpstore.inputs.errors import BadInput, shown
from fpstore.types import BYTE_ORDERS, ByteOrder

MAX_VALUE = 2**64 - 1  # of an id
# Those of a fingerprint, as fpstore.format has them; a test holds them equal.
MIN_BITS, BITS_STEP, WIDE_BITS = 16, 8, (128, 256)
BITS = 64  # of an id, and of a fingerprint where nothing else is said; of a word of a wide one
WAYS = ("auto", "hex", "decimal", "base64")
SURE = 16  # values that tell
ASK_WAY = "fingerprint_format (--fingerprint-format)"
ASK_ORDER = "byte_order (--byte-order)"
EXPECTED_BYTES = f"hexadecimal, base64 or bytes with {ASK_ORDER} little: numbers have no order of bytes"
EXPECTED_SAME = {
    "hex": f"hexadecimal, as the values before it; or {ASK_WAY}",
    "decimal": f"a decimal number, as the values before it; or {ASK_WAY}",
    "base64": "base64, as was said",
}
EXPECTED_ONE_WAY = f"{ASK_WAY} to say which is meant, as the column begins with hexadecimal and decimal values"
EXPECTED_WIDE_ENOUGH = "integers of 64 bits where some are below 0"
# What ids are: numbers, or names.
ID_TYPES = ("uint64", "string", "bytes")
MAX_NAME_BYTES = 1 << 16
EXPECTED_NAME = f"text of at most {MAX_NAME_BYTES} bytes, or a whole number"
EXPECTED_ID = "a decimal number from -2**63 to 2**64 - 1"

# A number in decimal, alone: how an id is written that is kept as one.
ALONE = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,20}")

# A column as the format readers hold it: Python objects, or integers straight from Parquet.
Column = Sequence[object] | npt.NDArray[Any]
# Digits of the widths that hashes mostly have.
_WHOLE = (16, 32, 64)
_NARROW = (4, 8)
_NO_UUID = "00000000-0000-0000-0000-000000000000"
Parsed = tuple[npt.NDArray[np.uint64], dict[int, str]]


class Width:
    """How fingerprints of so many bits are written, and what is expected where one is not."""

    def __init__(self, bits: int) -> None:
        self.bits, self.digits, self.size = bits, bits // 4, bits // 8
        digit, digits = "[0-9a-fA-F]", self.digits
        self.words = bits // BITS if bits in WIDE_BITS else 0  # of a row of an array; 0: each is a number
        uuid = "|" + "-".join(f"{digit}{{{count}}}" for count in (8, 4, 4, 4, 12)) if bits == 128 else ""
        most = max(20, len(str((1 << bits) - 1)))  # decimal digits
        # The named group that matches says which of the two a value can be.
        self.written = re.compile(
            rf"(?P<either>[1-9][0-9]{{{digits - 1}}})|(?P<hex>0[xX]{digit}{{1,{digits}}}|{digit}{{{digits}}}{uuid})"
            rf"|(?P<decimal>[-+][0-9]{{1,{most}}}|0|[1-9][0-9]{{0,{most - 1}}}|0[0-9]{{{digits},{most - 1}}})"
        )
        self.said = {
            "hex": re.compile(rf"(?P<hex>(?:0[xX])?{digit}{{1,{digits}}}{uuid})"),
            "little": re.compile(rf"(?:0[xX])?{digit}{{{digits}}}{uuid}"),
            # Of wide ones fewer digits are more likely cut, or of another width, than those without zeros before them.
            "typed": re.compile(rf"0[xX]{digit}{{1,{digits}}}|{digit}{{{digits if self.words else 1},{digits}}}{uuid}"),
            "decimal": re.compile(rf"(?P<decimal>[-+]?[0-9]{{1,{most}}})"),
            "base64": re.compile(r"[0-9a-zA-Z+/]+={0,2}"),
        }
        numbers = f"from {'-2**63' if bits == BITS else 0} to 2**{bits} - 1"
        all_digits = f"{digits} hexadecimal digits ({bits} bits), or 0x and up to {digits}"
        up_to_all = f"1 to {digits} hexadecimal digits ({bits} bits)"
        self.expected = {
            "hex": all_digits,
            "said hex": up_to_all,
            "little": f"{digits} hexadecimal digits ({bits} bits), after 0x or not, with {ASK_ORDER} little",
            "typed": all_digits if self.words else up_to_all,
            "decimal": f"a decimal number of {bits} bits, {numbers}",
            "base64": f"{self.size} bytes ({bits} bits) in base64",
            "any": f"{digits} hexadecimal digits ({bits} bits), 0x and up to {digits}, or a decimal number {numbers}",
            "bytes": f"{self.size} bytes ({bits} bits)",
            "number": EXPECTED_WIDE_ENOUGH if bits == BITS else f"a fingerprint of {bits} bits",
        }

    def in_range(self, value: int) -> int | None:
        """The bits of a number, None where it has more; of 64 bits they stand for a number below 0, too."""
        least = -(1 << BITS - 1) if self.bits == BITS else 0
        return value & (1 << self.bits) - 1 if least <= value < 1 << self.bits else None

    def number(self, written: str, way: str, order: ByteOrder = "big") -> int | None:
        """What was written in one of WAYS but auto, or typed; None for what is none. order: of its bytes."""
        is_turned = order == "little" and way in ("hex", "typed")
        if self.said["little" if is_turned else way].fullmatch(written) is None:
            return None
        if way == "base64":
            try:
                packed = binascii.a2b_base64(written, strict_mode=True)
            except binascii.Error:
                return None
            return int.from_bytes(packed, order) if len(packed) == self.size else None
        if way == "decimal":
            return self.in_range(int(written))
        value = int(written.replace("-", ""), 16)
        return int.from_bytes(value.to_bytes(self.size, "little"), "big") if is_turned else value

    def array(self, numbers: Sequence[int]) -> npt.NDArray[np.uint64]:
        """Fingerprints as batches have them: uint64[n], of wide ones uint64[n, words], the most significant first."""
        if not self.words:
            return np.array(numbers, dtype=np.uint64)
        packed = b"".join(number.to_bytes(self.size, "big") for number in numbers)
        return self.of_bytes(np.frombuffer(packed, dtype=np.uint8))

    def of_bytes(self, packed: npt.NDArray[np.uint8], order: ByteOrder = "big") -> npt.NDArray[np.uint64]:
        """Fingerprints of their bytes, in this order in each, which follow one another."""
        if order == "little":
            packed = np.ascontiguousarray(packed.reshape(-1, self.size)[:, ::-1])
        if self.size % 8 == 0:
            numbers = packed.reshape(-1).view(">u8").astype(np.uint64)
        else:
            padded = np.zeros((packed.size // self.size, 8), dtype=np.uint8)
            padded[:, -self.size :] = packed.reshape(-1, self.size)
            numbers = padded.reshape(-1).view(">u8").astype(np.uint64)
        return numbers.reshape(-1, self.words) if self.words else numbers

    def rests(self, count: int) -> list[str]:
        """What may stand behind so many characters of a written one, of which some make each that is begun whole."""
        full = ["0" * self.digits, "0" * (self.digits + 2), "A" * (-(-self.size // 3) * 4)]
        if self.size % 3:
            full[-1] = full[-1][: -(3 - self.size % 3)] + "=" * (3 - self.size % 3)
        if self.bits == 128:
            full.append(_NO_UUID)
        return ["0", "x0", *(each[count:] for each in full if len(each) > count)]

    def integer(self, value: object) -> int | None:
        """The bits of a whole number, None for anything else."""
        if type(value) is int:
            return self.in_range(value)
        if isinstance(value, np.integer):  # of a column that has nulls too
            return None if value < 0 and value.itemsize * 8 < BITS else self.in_range(int(value))
        if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
            return self.in_range(int(value))
        return None

    def integers(self, column: npt.NDArray[Any], order: ByteOrder = "big") -> Parsed:
        """Integers of 64 bits are their bits; a narrower one below 0 does not say which bits are meant.

        order: that of rows of bytes.
        """
        if column.ndim == 2:  # the words, or the bytes, of wide ones
            own = np.ascontiguousarray(column)
            return self.of_bytes(own, order) if own.dtype == np.uint8 else own.astype(np.uint64), {}
        values = column.astype(np.uint64)
        is_bad = column < 0 if column.dtype.kind == "i" and column.dtype.itemsize * 8 < BITS else None
        if self.bits < BITS:
            is_bad = values >> np.uint64(self.bits) != 0
        bad = np.empty(0, dtype=np.int64) if is_bad is None else np.flatnonzero(is_bad)
        values[bad] = 0
        if self.words:
            bad = np.flatnonzero(column < 0)
            values = self.array([max(0, value) for value in column.tolist()])
        return values, {int(index): self.expected["number"] for index in bad}

    def kind(self, value: object) -> str:
        """Which way a cell is written: `hex`, `decimal`, `either`; `bits` for bytes, `bad` for what no rule reads."""
        if isinstance(value, str):
            match = self.written.fullmatch(value)
            if match is None or (match.lastgroup == "decimal" and self.in_range(int(value)) is None):
                return "bad"
            return str(match.lastgroup)
        if isinstance(value, bytes):
            return "bits"
        return "bad" if self.integer(value) is None else "decimal"


@cache
def width(bits: int) -> Width:
    """That of so many bits. ValueError for what no fingerprint has."""
    if bits not in WIDE_BITS and (not MIN_BITS <= bits <= BITS or bits % BITS_STEP):
        expected = f"a multiple of {BITS_STEP} from {MIN_BITS} to {BITS}, or 128 or 256"
        for wider in WIDE_BITS:
            if BITS < bits < wider:  # as the core says it, which is asked later
                expected += f"; {bits} bits are kept as {wider}, with zeros below them"
                break
        raise ValueError(f"bits: found {bits}, expected {expected}")
    return Width(bits)


_ID = width(BITS)


def expect_byte_order(order: str, way: str) -> None:
    """ValueError for what is no order of bytes, and for little of decimal numbers, which have none."""
    if order not in BYTE_ORDERS:
        raise ValueError(f"{ASK_ORDER}: found {order!r:.40}, expected {' or '.join(BYTE_ORDERS)}")
    if order == "little" and way == "decimal":
        raise ValueError(f"{ASK_ORDER}: found little with decimal numbers, expected {EXPECTED_BYTES}")


def parse_fingerprint(text: str, *, decimal: bool = False, bits: int = BITS, byte_order: ByteOrder = "big") -> int:
    """The fingerprint of so many bits that text writes: bits / 4 hexadecimal digits or fewer, after `0x` or not.

    Of 128 and 256 bits fewer digits are taken after `0x` alone: a hash that was cut would be another fingerprint.

    decimal: it is a decimal number instead, of 64 bits from -2**63 to 2**64 - 1. byte_order: "little" for all digits,
    the lowest byte first. Outer spaces are dropped.

    Raises TypeError for what is no text, ValueError for a wrong byte_order, BadInput (one, too) for anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f"fingerprint: found {shown(text)}, a {type(text).__name__}, expected a str")
    of = width(bits)
    way = "decimal" if decimal else "typed"
    expect_byte_order(byte_order, way)
    value = of.number(text.strip(), way, byte_order)
    if value is None:
        expected = of.expected["little" if byte_order == "little" else way]
        raise BadInput(f"fingerprint: found {shown(text)}, expected {expected}")
    return value


class FingerprintColumn:
    """Reads the fingerprints of one column, piece by piece, all in one way.

    way: one of WAYS, what the caller said of the column. bits: of a fingerprint. order: of its bytes.
    """

    def __init__(self, way: str = "auto", bits: int = BITS, order: ByteOrder = "big") -> None:
        self.width, self._order = width(bits), order
        unsaid = None if order == "big" else "hex"
        self._said = way if way != "auto" else unsaid
        self.way = self._said
        self._of_lines = False
        self._told = 0  # how many values said so, no more than SURE

    @classmethod
    def of_programs(cls, bits: int = BITS) -> FingerprintColumn:
        """That of what programs send, one by one: as parse_fingerprint reads what people type."""
        column = cls("typed", bits)
        column.way = "hex"
        return column

    @classmethod
    def of_hex_lines(cls, bits: int = BITS, order: ByteOrder = "big") -> FingerprintColumn:
        """That of a file which is hexadecimal by its format: all digits, or `0x` and up to as many."""
        column = cls(bits=bits, order=order)
        column.way, column._of_lines = "hex", True
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
        for index, kind in enumerate(map(self.width.kind, column)):
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
            kinds = map(self.width.kind, column)
            self.way = next((kind for kind in kinds if kind in ("hex", "decimal")), None)
        return self.way is not None or isinstance(column, np.ndarray) or "either" not in map(self.width.kind, column)

    def parse_digits(self, digits: bytes) -> npt.NDArray[np.uint64] | None:
        """Fingerprints (uint64[n]) of n times so many hexadecimal digits as each has, at full speed.

        None where they are not, or are not known to be hexadecimal: then parse decides.
        """
        if self.way != "hex":
            return None
        try:
            packed = binascii.unhexlify(digits)
        except binascii.Error:
            return None
        return self.width.of_bytes(np.frombuffer(packed, dtype=np.uint8), self._order)

    def parse(self, column: Column) -> Parsed:
        """Fingerprints of a column, and for each bad one its index and what was expected there.

        The fingerprint at a bad index is 0. Where decide has said False, what could be either is bad.
        """
        if isinstance(column, np.ndarray):
            return self.width.integers(column, self._order)
        self.decide(column)
        if set(map(type, column)) == {str} and set(map(len, column)) == {self.width.digits}:  # type: ignore[arg-type]
            digits = "".join(column)  # type: ignore[arg-type]
            fingerprints = self.parse_digits(digits.encode("ascii", "replace"))
            if fingerprints is not None:
                return fingerprints, {}
        values = [0] * len(column)
        bad: dict[int, str] = {}
        for index, each in enumerate(column):
            value, expected = self._read(each)
            if value is None:
                bad[index] = expected
            else:
                values[index] = value
        return self.width.array(values), bad

    def is_begun(self, value: object) -> bool:
        """Whether a bad value would be right with more behind it."""

        def is_right(longer: str) -> bool:
            return self.width.kind(longer) != "bad" if self.way is None else self._read(longer)[0] is not None

        return isinstance(value, str) and goes_on(value, self.width.rests(len(value)), is_right)

    def _read(self, value: object) -> tuple[int | None, str]:
        """The fingerprint that a cell holds, or None and what was expected."""
        of = self.width
        if isinstance(value, bytes):
            return (int.from_bytes(value, self._order), "") if len(value) == of.size else (None, of.expected["bytes"])
        if not isinstance(value, str):
            if self._order == "little":
                return None, EXPECTED_BYTES
            number = of.integer(value)
            if number is not None and self.way in ("hex", "base64"):
                return None, EXPECTED_SAME[self.way]
            return number, of.expected["number" if isinstance(value, np.integer) else "decimal"]
        if self._order == "little":
            found = of.number(value, str(self.way), "little")
            if found is not None or self.way == "base64":
                return found, of.expected["base64"]
            return None, f"{of.expected['little']}{_hint(value, of, 'little')}"
        kind = of.kind(value)
        if self._said is not None:
            return of.number(value, self._said), of.expected["said hex" if self._said == "hex" else self._said]
        if kind == "bad":
            return None, f"{of.expected[self.way or 'any']}{_hint(value, of)}"
        if kind not in ("either", self.way) or self.way is None:
            if self._of_lines:
                fewer = " hex, for fewer digits, or" if of.number(value, "hex") is not None else ""
                return None, f"hexadecimal, as format hex has it; or {ASK_WAY}{fewer} decimal, where all are that"
            return None, EXPECTED_SAME.get(self.way or "", ASK_WAY)
        return of.number(value, self.way), of.expected["decimal"]


def _hint(value: str, of: Width, order: ByteOrder = "big") -> str:
    """What a value may be that is no fingerprint of this width as columns have them."""
    if len(value) in _WHOLE and re.fullmatch(r"[0-9a-fA-F]+", value) is not None:
        return f"; it has {4 * len(value)} bits"
    if order == "big" and of.said["hex"].fullmatch(value) is not None:
        narrow = f"; it has {4 * len(value)} bits" if len(value) in _NARROW and value.isalnum() else ""
        return f"{narrow}; or {ASK_WAY} {'hex or decimal' if value.isdecimal() else 'hex'}, for fewer digits"
    return f"; or {ASK_WAY} base64" if of.number(value, "base64") is not None else ""


def parse_ids(column: Column) -> Parsed:
    """Ids of a column (integers, or decimal digits), and for each bad one its index and what was expected.

    The id at a bad index is 0.
    """
    if isinstance(column, np.ndarray):
        return _ID.integers(column)
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
        number = _ID.in_range(int(str(value))) if written else _ID.integer(value)
        if number is None:
            bad[index] = EXPECTED_WIDE_ENOUGH if isinstance(value, np.integer) else EXPECTED_ID
        else:
            values[index] = number
    return values, bad


def is_begun_id(value: object, id_type: str) -> bool:
    """Whether a bad id would be right with more behind it."""
    if not isinstance(value, str):
        return False
    if id_type == "uint64":
        return goes_on(value.lstrip(), ["0"], lambda longer: not parse_ids([longer])[1])
    return len(value) <= MAX_NAME_BYTES and is_begun_text(value)


def written_otherwise(column: Column) -> int:
    """How many ids of a column, numbers, are written in another way than the number alone."""
    if isinstance(column, np.ndarray):
        return 0
    texts = [value for value in column if isinstance(value, str)]
    digits = "".join(texts)
    if digits.isascii() and digits.isdigit():  # nearly all: there can be zeros before them, and nothing else
        marked = "\n\n".join(["", *texts, ""])
        return marked.count("\n0") - marked.count("\n0\n")
    return sum(ALONE.fullmatch(text) is None for text in texts)


def parse_names(column: Column, text: bool) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """As parse_ids, ids that are names: strings, or bytes; whole numbers are the digits that write them."""
    values = np.empty(len(column), dtype=object)
    bad: dict[int, str] = {}
    for index, value in enumerate(column.tolist() if isinstance(column, np.ndarray) else column):
        number = None if isinstance(value, str | bytes | bool) else _ID.integer(value)
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
