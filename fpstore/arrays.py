"""What callers pass as fingerprints, queries, ids and sizes, turned into uint64 arrays and integers or refused."""

import re
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from fpstore.types import Array, Ids, Keys

_EXPECTED = "expected unsigned 64-bit integers"
_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("IB", 1024), ("B", 1000))
}


def as_keys(values: object, what: str) -> Keys:
    """values as a contiguous uint64[n], without a copy where it is one already.

    Takes numpy arrays, anything numpy can view (the buffer protocol, `__array__`), anything with the Arrow protocol,
    and sequences of Python integers. TypeError for anything but integers, ValueError for negative ones, for
    more than one dimension and for nulls. `what` names the values in the error.
    """
    array = _as_array(values, what)
    if array.ndim != 1:
        raise ValueError(f"{what}: found {array.ndim} dimensions, expected 1")
    if array.dtype == np.uint64:
        return np.ascontiguousarray(array)
    if array.size == 0:
        return np.empty(0, dtype=np.uint64)
    if array.dtype.kind not in "ui":
        raise TypeError(f"{what}: found dtype {array.dtype}, {_EXPECTED}")
    if array.dtype.kind == "i" and int(array.min()) < 0:
        first = int(np.argmax(array < 0))
        raise ValueError(f"{what}, item {first}: found {array[first]}, {_EXPECTED}")
    return array.astype(np.uint64)


def as_key(value: object, what: str) -> int:
    """value as an integer of 64 bits. TypeError for anything but an integer, ValueError out of range."""
    key = as_integer(value)
    if key is None:
        raise TypeError(f"{what}: found {value!r:.40}, a {type(value).__name__}, expected an integer")
    if not 0 <= key < 1 << 64:
        raise ValueError(f"{what}: found {key}, {_EXPECTED}")
    return key


def as_integer(value: Any) -> int | None:
    """value as an int where it is an integer of any kind, numpy's too; None for a bool and for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None


def parse_memory(text: str | int) -> int:
    """Bytes, from a number of them or from text such as "2GiB", "512 MiB", "1.5gb"; else ValueError."""
    size: int | None = 0
    if isinstance(text, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
        if match and match[2].upper() in _UNITS:
            size = int(float(match[1]) * _UNITS[match[2].upper()])
    else:
        size = as_integer(text)
    if size is None or size < 1:
        raise ValueError(f"memory: found {text!r}, expected a number of bytes above 0, or text such as 512MiB")
    return size


def as_rows(fingerprints: object, ids: object, with_ids: bool, path: Path) -> tuple[Keys, Ids | None]:
    """What a caller gives to a store at path, with ids or without: uint64[n], and as many ids or None. ValueError."""
    keys = as_keys(fingerprints, "fingerprints")
    if not with_ids:
        if ids is not None:
            raise ValueError(f"{path}: the store has no ids, expected none to be given")
        return keys, None
    if ids is None:
        raise ValueError(f"{path}: the store has ids, expected one for each fingerprint")
    numbers = as_keys(ids, "ids")
    if len(numbers) != len(keys):
        raise ValueError(f"{len(numbers)} ids for {len(keys)} fingerprints: expected one for each")
    return keys, numbers


def as_mode(mode: object) -> int | None:
    """The mode of a store's files, None where none was asked for. ValueError for what its owner could not work with."""
    if mode is None:
        return None
    bits = as_integer(mode)
    if bits is None or not 0 <= bits <= 0o777 or bits & 0o600 != 0o600:
        found = f"{bits:#o}" if bits is not None and 0 <= bits < 1 << 32 else f"{mode!r:.40}"
        raise ValueError(f"mode: found {found}, expected bits such as 0o640, with which its owner may read and write")
    return bits


def _as_array(values: object, what: str) -> Array:
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "__array__") or _has_buffer(values):
        return np.asarray(values)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return _from_arrow(values, what)
    if isinstance(values, list | tuple):
        # One by one: numpy would turn a mixture of large and small integers into floats.
        return np.array([as_key(value, f"{what}, item {i}") for i, value in enumerate(values)], dtype=np.uint64)
    raise TypeError(f"{what}: found a {type(values).__name__}, expected an array of unsigned 64-bit integers")


def _has_buffer(values: object) -> bool:
    if isinstance(values, bytes | bytearray | str):
        return False
    try:
        memoryview(values)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _from_arrow(values: Any, what: str) -> Array:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{what}: Arrow data needs pyarrow: pip install 'fpstore[arrow]'") from error
    column = pyarrow.chunked_array(values)
    if column.null_count:
        raise ValueError(f"{what}: found {column.null_count} nulls, {_EXPECTED}")
    return np.asarray(column)
