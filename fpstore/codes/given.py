"""What callers pass as wide fingerprints, turned into codes: uint64[n, words], word 0 the most significant."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fpstore.arrays import arrow_bytes, as_integer, as_keys, expect_no_nulls
from fpstore.format import WORD_BITS
from fpstore.types import Array, Ids, Keys

# Codes, and an id for each where there are any.
CodeSource = Iterable[tuple[Keys, Ids | None]]

CHUNK_CODES = 1 << 18
_NO_VALUES = (str, bytes, bytearray, set, frozenset, dict)


def words_of(bits: int) -> int:
    """How many words a code of so many bits has."""
    return bits // WORD_BITS


def as_codes(values: Any, what: str, bits: int) -> Keys:
    """values, each of so many bits, as uint64[n, words], contiguous, without a copy where they are that already.

    Takes uint64[n, words] and int64 of the same bits, uint8[n, bits / 8] and numpy's V type of as many bytes, Arrow's
    fixed_size_binary, and what yields bytes or integers from 0 on. Bytes have the highest one first, as hexadecimal
    digits do. TypeError for anything else, ValueError for other shapes and lengths, and for nulls.
    """
    words, width = words_of(bits), bits // 8
    expect_no_nulls(values, what)
    if not isinstance(values, np.ndarray):
        stored = arrow_bytes(values, what, width, expected(bits))
        if stored is not None:
            return _of_bytes(stored, words)
        if hasattr(values, "__array__"):
            values = np.asarray(values)
    if isinstance(values, np.ndarray):
        return _of_array(values, what, bits)
    if isinstance(values, Iterable) and not isinstance(values, _NO_VALUES):
        codes = [as_code(value, f"{what}, item {i}", bits) for i, value in enumerate(values)]
        return np.concatenate(codes) if codes else np.empty((0, words), dtype=np.uint64)
    raise TypeError(f"{what}: found a {type(values).__name__}, {expected(bits)}")


def as_code(value: Any, what: str, bits: int) -> Keys:
    """One fingerprint, bytes, an integer or words, as uint64[1, words]. TypeError, ValueError as for as_codes."""
    width = bits // 8
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return _of_array(value[np.newaxis], what, bits)
    if isinstance(value, np.void):
        value = value.tobytes()
    if not isinstance(value, bytes | bytearray):
        number = as_integer(value)
        if number is None:
            raise TypeError(f"{what}: found {value!r:.40}, a {type(value).__name__}, {expected(bits)}")
        if not 0 <= number < 1 << bits:
            raise ValueError(f"{what}: found an integer below 0 or of more bits, expected one of {bits} bits")
        value = number.to_bytes(width, "big")
    if len(value) != width:
        raise ValueError(f"{what}: found {len(value)} bytes, expected {width}")
    return _of_bytes(np.frombuffer(value, dtype=np.uint8), words_of(bits))


def as_hexadecimal(codes: Keys) -> list[str]:
    """Every digit of each of codes (uint64[n, words]), the highest first."""
    return [row.tobytes().hex() for row in as_bytes(codes)]


def as_bytes(codes: Keys) -> Array:
    """The bytes of each of codes (uint64[n, words]), the highest first: uint8[n, 8 * words]."""
    return np.ascontiguousarray(codes.astype(">u8")).view(np.uint8).reshape(len(codes), 8 * codes.shape[1])


def expected(bits: int) -> str:
    """What a message says of fingerprints of so many bits."""
    return f"expected fingerprints of {bits} bits: uint64[n, {words_of(bits)}], or {bits // 8} bytes each"


def code_source(fingerprints: object, ids: object, bits: int) -> CodeSource:
    """What build is given, as a stream of pieces. TypeError, ValueError where the two do not go together."""
    if isinstance(ids, str) and ids != "row":
        raise ValueError(f'ids: found {ids!r:.40}, expected an array, "row" or None')
    if isinstance(fingerprints, Iterator):
        if ids is not None and not isinstance(ids, str):
            raise TypeError(f'ids of a stream: found a {type(ids).__name__}, expected "row" or None, or pairs in it')
        return _stream(fingerprints, ids, bits)
    return _pieces(*_paired(fingerprints, ids, bits))


def _stream(items: Iterator[object], ids: object, bits: int) -> CodeSource:
    row, paired = 0, None
    for item in items:
        paired = isinstance(item, tuple) if paired is None else paired
        if isinstance(item, tuple) != paired or (isinstance(item, tuple) and (len(item) != 2 or item[1] is None)):
            kind = "pairs of arrays: (fingerprints, ids)" if paired else "arrays of fingerprints"
            raise TypeError(f"the stream yields {item!r:.60}, expected {kind}")
        if isinstance(item, tuple):
            if ids is None:
                raise TypeError("the stream yields pairs of fingerprints and ids, expected no ids: those of ids=None")
            yield from _pieces(*_paired(item[0], item[1], bits))
            continue
        codes = as_codes(item, "fingerprints", bits)
        yield codes, np.arange(row, row + len(codes), dtype=np.uint64) if ids == "row" else None
        row += len(codes)


def _paired(fingerprints: object, ids: object, bits: int) -> tuple[Keys, Ids | None]:
    codes = as_codes(fingerprints, "fingerprints", bits)
    if ids is None:
        return codes, None
    if isinstance(ids, str):
        return codes, np.arange(len(codes), dtype=np.uint64)
    numbers = as_keys(ids, "ids")
    if len(numbers) != len(codes):
        raise ValueError(f"{len(numbers)} ids for {len(codes)} fingerprints: expected one for each")
    return codes, numbers


def _pieces(codes: Keys, ids: Ids | None) -> CodeSource:
    for first in range(0, len(codes), CHUNK_CODES):
        own = slice(first, first + CHUNK_CODES)
        yield codes[own], None if ids is None else ids[own]


def _of_array(array: Array, what: str, bits: int) -> Keys:
    words, width = words_of(bits), bits // 8
    if array.dtype.kind == "V" and array.dtype.names is None and array.ndim == 1:
        if array.dtype.itemsize != width:
            raise ValueError(f"{what}: found {array.dtype.itemsize} bytes each, expected {width}")
        return _of_bytes(np.ascontiguousarray(array).view(np.uint8), words)
    if array.dtype.kind == "O" and array.ndim == 1:
        return as_codes(array.tolist(), what, bits)
    if array.size == 0 and array.ndim in (1, 2) and array.dtype.kind in "iuf":
        return np.empty((0, words), dtype=np.uint64)
    columns = {np.dtype(np.uint64): words, np.dtype(np.int64): words, np.dtype(np.uint8): width}.get(array.dtype)
    if columns is None:
        raise TypeError(f"{what}: found dtype {array.dtype}, {expected(bits)}")
    if array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(f"{what}: found {array.dtype} of shape {array.shape}, {expected(bits)}")
    array = np.ascontiguousarray(array)
    return _of_bytes(array, words) if array.dtype == np.uint8 else array.view(np.uint64)


def _of_bytes(stored: Array, words: int) -> Keys:
    """Codes whose bytes are these, the highest of each first: uint8, of any shape."""
    return np.ascontiguousarray(stored).reshape(-1).view(">u8").astype(np.uint64).reshape(-1, words)


def not_yet(what: str, bits: int) -> str:
    """What a message says of what stores of wide fingerprints do not have yet."""
    return f"{what}: not there yet for fingerprints of {bits} bits, of which a store is built once and read"
