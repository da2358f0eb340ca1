"""Fingerprints of any width: what callers pass as such, and how wide ones are compared, sorted and written.

Up to 64 bits they are keys, uint64[n]. Wide ones, of 128 or 256 bits, are codes: uint64[n, words], word 0 the most
significant. As one column, which numpy sorts and looks in, a code is the string of its bytes, the highest first.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fpstore.arrays import arrow_bytes, as_key, as_keys, as_number, expect_no_nulls
from fpstore.format import KEY_BITS, WIDE_BITS, WORD_BITS
from fpstore.origin import Origin
from fpstore.types import Array, Counts, Ids, Keys

_NO_VALUES = (str, bytes, bytearray, set, frozenset, dict)


def as_fingerprints(values: object, what: str, origin: Origin | None = None, bits: int = KEY_BITS) -> Keys:
    """values as fingerprints of so many bits: as as_keys says, or, where these are wide, as as_codes does."""
    return as_codes(values, what, bits, origin) if bits in WIDE_BITS else as_keys(values, what, origin, bits)


def as_fingerprint(value: Any, what: str, bits: int = KEY_BITS) -> Keys:
    """One fingerprint of so many bits as an array of one, as as_key or as_code says."""
    return as_code(value, what, bits) if bits in WIDE_BITS else np.array([as_key(value, what, bits)], dtype=np.uint64)


def as_rows(
    fingerprints: object, ids: object, with_ids: bool, path: Path, origin: Origin | None = None, bits: int = KEY_BITS
) -> tuple[Keys, Ids | None]:
    """What a caller gives to a store at path, with ids or without: fingerprints, as many ids or None. ValueError."""
    keys = as_fingerprints(fingerprints, "fingerprints", origin, bits)
    if not with_ids:
        if ids is not None:
            raise ValueError(f"{path}: the store has no ids, expected none to be given")
        return keys, None
    if ids is None:
        raise ValueError(f"{path}: the store has ids, expected one for each fingerprint")
    return keys, _one_for_each(keys, ids)


def as_pairs(fingerprints: object, ids: object, origin: Origin | None = None, bits: int = KEY_BITS) -> tuple[Keys, Ids]:
    """Fingerprints, and for each its id, uint64[n], in a store with ids. ValueError for another number of them."""
    keys = as_fingerprints(fingerprints, "fingerprints", origin, bits)
    return keys, _one_for_each(keys, ids)


def _one_for_each(keys: Keys, ids: object) -> Ids:
    numbers = as_keys(ids, "ids")
    if len(numbers) != len(keys):
        raise ValueError(f"{len(numbers)} ids for {len(keys)} fingerprints: expected one for each")
    return numbers


def columns_of(keys: Keys) -> tuple[Keys, ...]:
    """Fingerprints as columns, uint64[n] each: one, or one for each word of codes."""
    return (keys,) if keys.ndim == 1 else tuple(np.ascontiguousarray(keys.T))


def of_columns(columns: tuple[Keys, ...]) -> Keys:
    """Fingerprints of their columns."""
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def as_strings(codes: Keys) -> Array:
    """Codes, uint64[n, words], as one column in their order: S[8 * words]. Keys, which are one, as they are.

    Of strings numpy drops the zeros that end one where it shows it, but not where it sorts and compares columns.
    """
    if codes.ndim == 1:
        return codes
    return as_bytes(codes).view(f"S{8 * codes.shape[1]}").ravel()


def of_strings(strings: Array) -> Keys:
    """Codes of their strings; keys as they are."""
    if strings.dtype.kind != "S":
        return strings
    words = strings.dtype.itemsize // 8
    return np.ascontiguousarray(strings).view(">u8").astype(np.uint64).reshape(-1, words)


def no_fingerprints(bits: int) -> Keys:
    """None of so many bits."""
    return np.empty((0, words_of(bits)) if bits in WIDE_BITS else 0, dtype=np.uint64)


def as_numbers(keys: Keys) -> list[int]:
    """Fingerprints as Python's integers."""
    if keys.ndim == 1:
        numbers: list[int] = keys.tolist()
        return numbers
    return [int.from_bytes(row.tobytes(), "big") for row in as_bytes(keys)]


def single_of(keys: Keys) -> Any:
    """The one fingerprint as what answers single queries takes it: an integer, or the words of a code."""
    return keys.item(0) if keys.ndim == 1 else keys[0]


def repeats(keys: Keys) -> Array:
    """Which fingerprints are the one before them: bool[n]."""
    same = np.zeros(len(keys), dtype=bool)
    same[1:] = keys[1:] == keys[:-1] if keys.ndim == 1 else (keys[1:] == keys[:-1]).all(axis=1)
    return same


def distinct(keys: Keys) -> tuple[Keys, Counts]:
    """The distinct ones of fingerprints, in order, and for each of all which of these it is, int64[n]."""
    found, place = np.unique(as_strings(keys), return_inverse=True)
    return of_strings(found), place


def words_of(bits: int) -> int:
    """How many words a fingerprint of so many bits has."""
    return -(-bits // WORD_BITS)


def as_codes(values: Any, what: str, bits: int, origin: Origin | None = None) -> Keys:
    """values, each of so many bits, as uint64[n, words], contiguous, without a copy where they are that already.

    Takes uint64[n, words] and int64 of the same bits, uint8[n, bits / 8] and numpy's V type of as many bytes, Arrow's
    fixed_size_binary, and what yields bytes or integers from 0 on. Bytes have the highest one first, as hexadecimal
    digits do. TypeError for anything else, ValueError for other shapes and lengths, and for nulls.
    origin: as of as_keys.
    """
    words, width = words_of(bits), bits // 8
    expect_no_nulls(values, what)
    if not isinstance(values, np.ndarray):
        stored = arrow_bytes(values, what, width, expected(bits), origin)
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
        number = as_number(value)
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
