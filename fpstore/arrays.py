"""What callers pass as fingerprints, queries, ids and sizes, turned into uint64 arrays and integers or refused."""

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from decimal import Decimal
from operator import index
from typing import Any

import numpy as np

from fpstore.origin import Origin, expect_bits_said
from fpstore.types import Array, Keys

_EXPECTED = "expected integers of 64 bits"
_EXPECTED_WIDE = f"{_EXPECTED} where some are below 0"
_BITS = (1 << 64) - 1
MAX_COUNT = (1 << 63) - 1  # that numpy can tell an index by
# The texts and other things that Python can walk, which hold no fingerprints.
_PLAIN, _INTEGERS = (list, tuple), frozenset({int})
_NO_VALUES = (str, bytes, bytearray, Set, Mapping)
_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("IB", 1024), ("B", 1000))
}


def as_keys(values: object, what: str, origin: Origin | None = None, bits: int = 64) -> Keys:
    """values, all of so many bits, as a contiguous uint64[n], without a copy where it is one already, or int64[n].

    Takes numpy arrays, anything numpy can view (the buffer protocol, `__array__`), anything with the Arrow protocol, a
    table of one column too, and what yields integers. Numbers below 0 stand for the same 64 bits without a sign where
    their type is of 64 bits, or of no width, as int and decimals. A narrower integer (int32) is taken from 0 on: one
    below 0 does not say which 64 bits are meant. Files are read by the same rule (fpstore.inputs.cells).
    So is a fingerprint of fewer than 64 bits.
    TypeError for anything but integers, ValueError for such as have more bits, for a narrower one below 0, for more
    than one dimension or column and for nulls. `what` names the values in the error. origin: by which recipe they are
    expected to be, for a column of Arrow's that says by which it is; RecipeError for another.
    """
    plain = _of_plain(values)
    return expect_bits(_as_keys(values, what, origin, bits) if plain is None else plain, what, bits)


def expect_bits(keys: Keys, what: str, bits: int) -> Keys:
    """keys, uint64[n]. ValueError where one has more than so many bits, which names the first."""
    if bits < 64 and len(wide := np.flatnonzero(keys >> np.uint64(bits))):
        raise ValueError(f"{what}, item {wide[0]}: found {keys[wide[0]]}, {_expected(bits)}")
    return keys


def _as_keys(values: object, what: str, origin: Origin | None, bits: int) -> Keys:
    array = _as_array(values, what, origin, bits)
    if array.ndim != 1:
        raise ValueError(f"{what}: found {array.ndim} dimensions, expected 1")
    if array.dtype == np.uint64:
        return np.ascontiguousarray(array)
    if array.size == 0:
        return np.empty(0, dtype=np.uint64)
    if array.dtype.kind == "i":
        if array.dtype.itemsize < 8 and (below := np.flatnonzero(array < 0)).size:
            raise ValueError(_narrow(array[below[0]], f"{what}, item {below[0]}"))
        if bits < 64 and (below := np.flatnonzero(array < 0)).size:  # told as the number that was given
            raise ValueError(f"{what}, item {below[0]}: found {array[below[0]]}, {_expected(bits)}")
        return np.ascontiguousarray(array, dtype=np.int64).view(np.uint64)
    if array.dtype.kind != "u":
        raise TypeError(f"{what}: found dtype {array.dtype}, {_EXPECTED}")
    return array.astype(np.uint64)


def as_key(value: object, what: str, bits: int = 64) -> int:
    """value as an integer of so many bits without a sign. TypeError for anything else, ValueError out of range.

    One of 64 bits below 0 stands for the same bits, as int64 has them, unless its type is narrower (ValueError, as in
    as_keys); so do as many bytes, the first of them the highest.
    """
    if isinstance(value, bytes):
        if len(value) != bits // 8:
            raise ValueError(f"{what}: found {len(value)} bytes, expected {bits // 8}")
        return int.from_bytes(value, "big")
    key = value if type(value) is int else as_number(value)
    if key is None:
        is_name = isinstance(value, str) and what.startswith("ids")
        names = ", or names in a store made with id_type 'string'" if is_name else ""
        raise TypeError(f"{what}: found {value!r:.40}, a {type(value).__name__}, expected an integer{names}")
    if 0 <= key < 1 << bits:
        return key
    if bits < 64:
        raise ValueError(f"{what}: found {key}, {_expected(bits)}")
    if not -(1 << 63) <= key <= _BITS:
        raise ValueError(f"{what}: found {key}, {_EXPECTED}")
    if isinstance(dtype := getattr(value, "dtype", None), np.dtype) and dtype.itemsize < 8:
        raise ValueError(_narrow(value, what))
    return key & _BITS


def as_signatures(values: Any, what: str, count: int | None = None) -> Array:
    """values as integers[n, count] without a sign, of 64 bits or fewer; what is of 64 bits keeps its bits.

    TypeError for anything but integers, ValueError for other shapes, and for narrower integers below 0.
    """
    expect_no_nulls(values, what)
    array = np.asarray(values)
    if array.ndim in (1, 2) and not len(array):
        array = np.empty((0, (array.shape[1] if array.ndim == 2 else 0) or count or 0), dtype=np.uint64)
    wanted = "signatures of some values each" if count is None else f"signatures of {count} values each"
    if array.ndim != 2 or (count is not None and array.shape[1] != count) or (not array.shape[1] and len(array)):
        raise ValueError(f"{what}: found an array of shape {array.shape}, expected {wanted}: [n, {count or 'values'}]")
    if array.dtype.kind == "i":
        if array.dtype.itemsize < 8 and (array < 0).any():
            raise ValueError(_narrow(array[array < 0][0], what))
        return array.astype(np.int64).view(np.uint64)
    if array.dtype.kind != "u":
        raise TypeError(f"{what}: found dtype {array.dtype}, {_EXPECTED}")
    return array


def expect_no_nulls(values: object, what: str) -> None:
    """ValueError for an array of numpy's with masked values."""
    if isinstance(values, np.ma.MaskedArray) and (nulls := np.count_nonzero(values.mask)):
        raise ValueError(f"{what}: found {nulls} nulls, {_EXPECTED}")


def as_similarity(value: object, what: str) -> float:
    """value as a number from 0 to 1. TypeError for anything but a number, ValueError out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{what}: found {value!r:.40}, expected a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ValueError(f"{what}: found {value!r:.40}, expected a number from 0 to 1")
    return float(value)


def as_count(value: object, what: str) -> int:
    """value as an integer above 0. TypeError for anything but an integer, ValueError out of range."""
    count = as_integer(value)
    if count is None:
        raise TypeError(f"{what}: found {value!r:.40}, a {type(value).__name__}, expected an integer")
    if count < 1:
        raise ValueError(f"{what}: found {count}, expected 1 or more")
    if count > MAX_COUNT:
        raise ValueError(f"{what}: found {count!r:.40}, expected at most 2**63 - 1")
    return count


def as_integer(value: Any) -> int | None:
    """value as an int where it is an integer of any kind, numpy's too; None for a bool and for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None


def as_number(value: Any) -> int | None:
    """As as_integer; also of a decimal without a fraction, as databases give integers of 64 bits without a sign.

    One with a point is none, nor one with an exponent, as no column of Arrow's of scale 0 has such.
    """
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else None
    return as_integer(value)


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


def as_plain(values: object, what: str) -> list[Any] | tuple[Any, ...]:
    """values that are strings, or bytes, as Python's own: of a list, an array of numpy, what speaks Arrow.

    TypeError for what cannot be walked, or has no order, and for numpy's bytes, of which the items lose the zeros that
    they end with; ValueError for nulls and for a table of several columns.
    """
    if isinstance(values, list | tuple):
        return values
    if isinstance(values, np.ndarray):
        return _items(values, what)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        pyarrow = _pyarrow()
        if pyarrow is not None:
            try:
                return list(_arrow_column(values, what, pyarrow, "expected strings").to_pylist())
            except _UnreadableError:
                raise TypeError(f"{what}: found {_described(values)}, expected strings") from None
    if hasattr(values, "__array__"):
        return _items(np.asarray(values), what)
    if isinstance(values, Iterable) and not isinstance(values, _NO_VALUES):
        return list(values)
    raise TypeError(f"{what}: found a {type(values).__name__}, expected several strings")


def _items(array: Array, what: str) -> list[Any]:
    if array.dtype.kind == "S":
        width = array.dtype.itemsize
        expected = f"a list of bytes, an array of objects, or .view('V{width}') where each has {width} bytes"
        raise TypeError(f"{what}: found dtype {array.dtype}, which drops zeros that end an item, expected {expected}")
    return list(array.tolist())


def as_mode(mode: object) -> int | None:
    """The mode of a store's files, None where none was asked for. ValueError for what its owner could not work with."""
    if mode is None:
        return None
    bits = as_integer(mode)
    if bits is None or not 0 <= bits <= 0o777 or bits & 0o600 != 0o600:
        found = f"{bits:#o}" if bits is not None and 0 <= bits < 1 << 32 else f"{mode!r:.40}"
        raise ValueError(f"mode: found {found}, expected bits such as 0o640, with which its owner may read and write")
    return bits


def _expected(bits: int) -> str:
    return f"expected a fingerprint of {bits} bits"


def _narrow(value: Any, where: str) -> str:
    """What is wrong with an integer below 0 of fewer than 64 bits."""
    return f"{where}: found {int(value)} of {value.dtype}, {_EXPECTED_WIDE}"


def _as_array(values: object, what: str, origin: Origin | None = None, bits: int = 64) -> Array:
    expect_no_nulls(values, what)
    if isinstance(values, np.ndarray) and (values.dtype != object or values.ndim != 1):
        return values
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        pyarrow = _pyarrow()
        if pyarrow is not None:
            try:
                return _from_arrow(values, what, pyarrow, origin, bits)
            except OverflowError:  # Python's own integers, which Arrow takes for signed ones
                return _of_objects(values, what, bits)
        elif not hasattr(values, "__array__"):
            raise ImportError(f"{what}: Arrow data needs pyarrow: pip install 'fpstore[arrow]'")
    if hasattr(values, "__array__") or _has_buffer(values):
        array = np.asarray(values)
        # Python's own integers, as in a column of pandas before its version 3, which does not speak Arrow.
        return _of_objects(array, what, bits) if array.dtype == object and array.ndim == 1 else array
    if isinstance(values, Iterable) and not isinstance(values, _NO_VALUES):
        return _of_objects(values, what, bits)
    raise TypeError(f"{what}: found a {type(values).__name__}, expected an array of integers of 64 bits")


def _of_plain(values: object) -> Keys | None:
    """A list of Python's integers from 0 on, in a tenth of the time; None for all else."""
    if isinstance(values, _PLAIN) and {*map(type, values)} == _INTEGERS:
        try:
            return np.array(values, dtype=np.uint64)
        except OverflowError:  # of which some have a sign, or are no integers of 64 bits
            return None
    return None


def _of_objects(values: Any, what: str, bits: int) -> Array:
    """One by one: numpy would turn a mixture of large and small integers into floats."""
    keys = (as_key(value, f"{what}, item {i}", bits) for i, value in enumerate(_values_of_rows(values, what)))
    return np.fromiter(keys, dtype=np.uint64)


def _values_of_rows(values: Iterable[Any], what: str) -> Iterator[Any]:
    """Values as they are, and of rows that are mappings, as a data set of Hugging Face gives them, their one column."""
    name = None
    for number, value in enumerate(values):
        if not isinstance(value, Mapping):
            yield value
            continue
        name = next(iter(value), None) if name is None else name
        if list(value) != [name]:
            found = ", ".join(map(str, value)) or "none"
            raise ValueError(f"{what}, item {number}: found a row of columns {found:.200}, expected one column")
        yield value[name]


def _has_buffer(values: object) -> bool:
    if isinstance(values, bytes | bytearray | str):
        return False
    try:
        memoryview(values)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _pyarrow() -> Any:
    """The package, None where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _from_arrow(values: Any, what: str, pyarrow: Any, origin: Origin | None, bits: int) -> Array:
    """What speaks Arrow, as an array of integers."""
    try:
        column = _arrow_column(values, what, pyarrow, _EXPECTED, origin, bits)
    except _UnreadableError:
        return _without_arrow(values, what, bits)
    kind = column.type
    if pyarrow.types.is_fixed_size_binary(kind) and type(values).__module__.startswith("polars"):
        # It has no such type: these are the addresses of Python's objects.
        raise TypeError(f"{what}: found {_described(values)}, {_EXPECTED}")
    if pyarrow.types.is_decimal(kind) and kind.scale == 0:
        return _as_array(map(int, column.to_pylist()), what, bits=bits)
    if pyarrow.types.is_fixed_size_binary(kind) and kind.byte_width == bits // 8:
        # The highest byte first, as the hexadecimal digits are written.
        chunks = (_of_bytes(chunk, bits // 8) for chunk in column.chunks if len(chunk))
        return np.concatenate([np.empty(0, dtype=">u8"), *chunks])
    if not pyarrow.types.is_integer(kind) and len(column):
        raise TypeError(f"{what}: found type {kind}, {_EXPECTED}")
    return np.asarray(column)


def _arrow_column(
    values: Any, what: str, pyarrow: Any, expected: str, origin: Origin | None = None, bits: int | None = None
) -> Any:
    """What speaks Arrow: a column, or a table of one, in one piece or in several, without nulls.

    bits: those of fingerprints.
    """
    try:
        if hasattr(values, "__arrow_c_stream__"):
            column = pyarrow.chunked_array(values)
        else:
            column = pyarrow.chunked_array([pyarrow.array(values)])
    except (pyarrow.ArrowException, TypeError, ValueError) as error:  # a type that Arrow does not have
        raise _UnreadableError from error
    if pyarrow.types.is_struct(column.type):
        names = [field.name for field in column.type]
        if len(names) != 1:
            raise ValueError(f"{what}: found a table with columns {', '.join(names) or 'none'}, expected one column")
        if bits is not None:
            expect_bits_said(column.type.field(0), bits, what)
        if origin is not None:
            origin.meet(column.type.field(0), what)
        column = column.flatten()[0] if hasattr(column, "flatten") else column
        what = f"{what}, column {names[0]}"
    types = pyarrow.types
    if types.is_dictionary(column.type) and not _is_text(column.type.value_type, types):
        column = pyarrow.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
    if types.is_run_end_encoded(column.type):
        decode = importlib.import_module("pyarrow.compute").run_end_decode
        column = pyarrow.chunked_array([decode(chunk) for chunk in column.chunks], column.type.value_type)
    if column.null_count:
        raise ValueError(f"{what}: found {column.null_count} nulls, {expected}")
    return column


def _is_text(kind: Any, types: Any) -> bool:
    """Whether it is a type of texts, of which not all can be decoded."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


class _UnreadableError(Exception):
    """What speaks Arrow has a type that Arrow does not have."""


def _without_arrow(values: Any, what: str, bits: int) -> Array:
    """What speaks Arrow, and cannot say this in it: by numpy where that is one column of integers, or one by one.

    TypeError for what has no integers, with its columns and types.
    """
    if len(getattr(values, "shape", (0,))) == 1:
        try:
            array = np.asarray(values)
        except Exception:  # of whatever package it is, with errors of its own
            array = np.empty(0, dtype=object)
        if array.dtype.kind in "iu":
            return array
        if array.dtype.kind == "O" and isinstance(values, Iterable):
            return _of_objects(values, what, bits)
    raise TypeError(f"{what}: found {_described(values)}, {_EXPECTED}")


def arrow_bytes(values: object, what: str, width: int, expected: str, origin: Origin | None = None) -> Array | None:
    """What speaks Arrow, values of `width` bytes each, as uint8 one after the other; None for what does not speak it.

    TypeError for another type, ValueError for nulls and for a table of several columns.
    """
    if not hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__arrow_c_array__"):
        return None
    pyarrow = _pyarrow()
    if pyarrow is None:
        raise ImportError(f"{what}: Arrow data needs pyarrow: pip install 'fpstore[arrow]'")
    try:
        column = _arrow_column(values, what, pyarrow, expected, origin, 8 * width)
    except _UnreadableError:
        raise TypeError(f"{what}: found {_described(values)}, {expected}") from None
    if pyarrow.types.is_binary(column.type) or pyarrow.types.is_large_binary(column.type):
        stored = column.to_pylist()
        wrong = next((i for i, value in enumerate(stored) if len(value) != width), None)
        if wrong is not None:
            raise ValueError(f"{what}, item {wrong}: found {len(stored[wrong])} bytes, expected {width}")
        return np.frombuffer(b"".join(stored), dtype=np.uint8)
    if not pyarrow.types.is_fixed_size_binary(column.type) or column.type.byte_width != width:
        raise TypeError(f"{what}: found type {column.type}, {expected}")
    parts = (
        np.frombuffer(chunk.buffers()[1], np.uint8, count=width * len(chunk), offset=width * chunk.offset)
        for chunk in column.chunks
        if len(chunk)
    )
    return np.concatenate([np.empty(0, dtype=np.uint8), *parts])


def _described(values: Any) -> str:
    """The columns of a frame and their types, or the type of a column, as its package calls them."""
    names, types = getattr(values, "columns", None), getattr(values, "dtypes", None)
    if names is not None and types is not None:
        told = ", ".join(f"{name}: {kind}" for name, kind in zip(names, list(types), strict=True))
        return f"a table with columns {told:.200}"
    return f"type {getattr(values, 'dtype', type(values).__name__)}"


def _of_bytes(chunk: Any, size: int) -> Array:
    """Values of so many bytes, the highest first."""
    stored = np.frombuffer(chunk.buffers()[1], np.uint8, count=size * len(chunk), offset=size * chunk.offset)
    if size == 8:
        return stored.view(">u8")
    words = np.zeros((len(chunk), 8), dtype=np.uint8)
    words[:, 8 - size :] = stored.reshape(-1, size)
    return words.reshape(-1).view(">u8")
