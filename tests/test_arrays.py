"""What may be passed as fingerprints and ids, and what is refused in one line that says where and why."""

# mypy: disable-error-code="comparison-overlap"

import array
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from helpers import LAST, fingerprint_array
from hypothesis import given
from hypothesis import strategies as st

import fpstore
from fpstore.arrays import as_count, as_integer, as_key, as_keys, as_plain
from fpstore.fingerprints import as_code
from fpstore.types import Array

EXTREMES = [0, 1, 1 << 63, LAST - 1, LAST]


class WithArray:
    """Something of another library that numpy can turn into an array, such as a pandas column."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.values if dtype is None else self.values.astype(dtype)


class WithArrow:
    """Something of another library that speaks Arrow and nothing else."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pyarrow.chunked_array([self.column]).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        fingerprint_array,
        list,
        tuple,
        lambda values: [np.uint64(value) for value in values],
        lambda values: array.array("Q", values),
        lambda values: memoryview(array.array("Q", values)),
        lambda values: np.array(values, dtype=">u8"),
        lambda values: np.repeat(fingerprint_array(values), 3)[::3],
        lambda values: WithArray(fingerprint_array(values)),
        lambda values: pyarrow.array(values, pyarrow.uint64()),
        lambda values: pyarrow.chunked_array([values[:2], values[2:]], pyarrow.uint64()),
        lambda values: WithArrow(pyarrow.array(values, pyarrow.uint64())),
    ],
)
def test_whatever_holds_integers_of_64_bits_becomes_a_contiguous_array_of_them(make: Any) -> None:
    keys = as_keys(make(EXTREMES), "fingerprints")
    assert keys.dtype == np.uint64
    assert keys.flags.c_contiguous
    assert keys.tolist() == EXTREMES


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int8, np.int64])
def test_narrower_and_signed_integers_are_taken(dtype: Any) -> None:
    keys = as_keys(np.array([0, 5, 127], dtype=dtype), "fingerprints")
    assert (keys.dtype, keys.tolist()) == (np.uint64, [0, 5, 127])


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_signed_integers_are_the_same_bits_whatever_holds_them(values: list[int]) -> None:
    expected = [value % (1 << 64) for value in values]
    signed = np.array(values, dtype=np.int64)
    forms: list[Any] = [
        signed,
        values,
        iter(values),
        list(signed),
        pyarrow.array(signed),
        pyarrow.chunked_array([signed[:2], signed[2:]]),
        pyarrow.table({"one": signed}),
        pyarrow.table({"one": signed}).to_reader(),
        pyarrow.record_batch({"one": signed}),
        pyarrow.array([value.to_bytes(8, "big") for value in expected], pyarrow.binary(8)),
        pyarrow.array([b"8 octets", *(value.to_bytes(8, "big") for value in expected)], pyarrow.binary(8))[1:],
        pyarrow.array([Decimal(value) for value in values], pyarrow.decimal128(20, 0)),
        pyarrow.array([Decimal(value) for value in expected], pyarrow.decimal128(20, 0)),
        [value.to_bytes(8, "big") for value in expected],
    ]
    for form in forms:
        assert as_keys(form, "fingerprints").tolist() == expected, form
    assert as_keys(signed, "fingerprints").view(np.int64).tolist() == values
    assert [as_key(value, "fingerprint") for value in signed] == expected


NARROW = np.array([3, -1], dtype=np.int32)


@pytest.mark.parametrize(
    "values",
    [
        NARROW,
        NARROW.astype(np.int8),
        NARROW.astype(">i2"),
        list(NARROW),
        iter(NARROW),
        array.array("i", [3, -1]),
        memoryview(array.array("i", [3, -1])),
        WithArray(NARROW),
        pyarrow.array(NARROW),
        pyarrow.chunked_array([NARROW[:1], NARROW[1:]]),
        pyarrow.table({"one": NARROW}),
        WithArrow(pyarrow.array(NARROW)),
        [3, np.array(-1, dtype=np.int16)],
    ],
)
def test_an_integer_below_0_of_fewer_bits_is_refused_whatever_holds_it(values: Any) -> None:
    message = r"^ids, item 1: found -1 of \S+, expected integers of 64 bits where some are below 0$"
    with pytest.raises(ValueError, match=message):
        as_keys(values, "ids")


def test_a_key_below_0_of_fewer_bits_is_refused() -> None:
    assert as_key(np.int64(-1), "fingerprint") == as_key(-1, "fingerprint") == LAST
    with pytest.raises(ValueError, match=r"^fingerprint: found -1 of int32, expected integers of 64 bits where some"):
        as_key(np.int32(-1), "fingerprint")


class Tagged(pyarrow.ExtensionType):  # type: ignore[misc]
    """Integers that mean something else."""

    def __init__(self) -> None:
        super().__init__(pyarrow.uint64(), "tests.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


NUMBERS = pyarrow.array([5, 6, 5], pyarrow.uint64())
OCTETS = pyarrow.array([bytes(7) + b"\5", bytes(7) + b"\6", bytes(7) + b"\5"], pyarrow.binary(8))
ENCODED: dict[str, Any] = {
    "dictionary": NUMBERS.dictionary_encode(),
    "dictionary in chunks": pyarrow.chunked_array([NUMBERS[:1].dictionary_encode(), NUMBERS[1:].dictionary_encode()]),
    "dictionary of 8 bytes": OCTETS.dictionary_encode(),
    "runs": pyarrow.RunEndEncodedArray.from_arrays([1, 2, 3], NUMBERS),
    "wide decimals": pyarrow.array([Decimal(5), Decimal(6), Decimal(5)], pyarrow.decimal256(70, 0)),
    "empty chunks": pyarrow.chunked_array([OCTETS[:0], OCTETS, OCTETS[:0]]),
    "rows of one column": [{"a": 5}, {"a": 6}, {"a": np.uint64(5)}],
}


@pytest.mark.parametrize("column", ENCODED.values(), ids=ENCODED)
def test_integers_are_read_however_arrow_holds_them(column: Any) -> None:
    assert as_keys(column, "fingerprints").tolist() == [5, 6, 5]


# In words that some packages have for it, what cannot be meant: each is refused with its type.
OTHERS: dict[str, tuple[Any, str]] = {
    "extension": (pyarrow.ExtensionArray.from_storage(Tagged(), NUMBERS), r"found type extension<tests\.tagged"),
    "dictionary of texts": (pyarrow.array(["a"]).dictionary_encode(), "found type dictionary<values=string"),
    "dictionary of views": (
        pyarrow.DictionaryArray.from_arrays(pyarrow.array([0]), pyarrow.array(["a"], pyarrow.string_view())),
        "found type dictionary<values=string_view",
    ),
    "a null in a dictionary": (
        pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1]), pyarrow.array([5, None], pyarrow.uint64())),
        "found 1 nulls",
    ),
    "nothing but nulls": (pyarrow.chunked_array([pyarrow.nulls(2), pyarrow.nulls(1)]), "found 3 nulls"),
    "decimals of another scale": (pyarrow.array([Decimal(500)], pyarrow.decimal128(20, -2)), "found type decimal128"),
    "decimals of more bits": (pyarrow.array([Decimal(2**70)], pyarrow.decimal128(38, 0)), "item 0: found 11805916"),
    "rows of two columns": ([{"a": 5, "b": 6}], "item 0: found a row of columns a, b, expected one column"),
    "rows of other columns": ([{"a": 5}, {"b": 6}], "item 1: found a row of columns b, expected one column"),
    "rows of no column": ([{}], "item 0: found a row of columns none, expected one column"),
    "rows of texts": ([{"a": "x"}], "item 0: found 'x', a str, expected an integer"),
}


@pytest.mark.parametrize(("column", "message"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_integer_in_arrow_is_refused_in_our_words(column: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^ids, ?.*{message}|^ids: {message}") as caught:
        as_keys(column, "ids")
    assert type(caught.value) in (TypeError, ValueError)


class Foreign:
    """A column of a type that Arrow does not have, as those of some packages."""

    dtype = "Int128"

    def __init__(self, *values: object, shape: tuple[int, ...] = (0,)) -> None:
        self.values, self.shape = values, shape

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise ValueError("unsupported format string")

    def __iter__(self) -> Any:
        return iter(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise OSError("cannot convert")


class Sparse(Foreign):
    """One that numpy can hold."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.array(self.values)


class Frame(Foreign):
    """Two of them."""

    columns = ("a", "b")
    dtypes = ("Sparse[int64, 0]", "int64")


def test_a_column_that_arrow_cannot_hold_is_read_by_numpy_or_one_by_one() -> None:
    assert as_keys(Foreign(5, 2**63), "ids").tolist() == [5, 2**63]
    assert as_keys(Sparse(5, -1), "ids").tolist() == [5, 2**64 - 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (Foreign(5, 2**100), "^ids, item 1: found 1267650600228229401496703205376, expected integers of 64 bits$"),
        (Sparse(1.5), "^ids: found type Int128, expected integers of 64 bits$"),
        (Frame(shape=(3, 2)), r"^ids: found a table with columns a: Sparse\[int64, 0\], b: int64, expected integers"),
    ],
)
def test_what_arrow_cannot_hold_is_refused_by_its_columns_and_types(values: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        as_keys(values, "ids")
    with pytest.raises(TypeError, match=r"^ids: found .*, expected strings$"):
        as_plain(values, "ids")


@pytest.mark.parametrize("columns", [{}, {"a": [1], "b": [2]}])
def test_a_table_of_other_than_one_column_is_refused(columns: Any) -> None:
    named = ", ".join(columns) or "none"
    with pytest.raises(ValueError, match=f"^ids: found a table with columns {named}, expected one column$"):
        as_keys(pyarrow.table(columns), "ids")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pyarrow.array([1.5]), "double"),
        (pyarrow.array([True]), "bool"),
        (pyarrow.array(["12"]), "string"),
        (pyarrow.array([bytes(16)], pyarrow.binary(16)), r"fixed_size_binary\[16\]"),
        (pyarrow.array([Decimal("1.5")]), r"decimal128\(2, 1\)"),
    ],
)
def test_a_column_of_anything_but_integers_is_a_type_error_that_names_the_type(column: Any, kind: str) -> None:
    for form in (column, pyarrow.table({"one": column}), WithArrow(column)):
        with pytest.raises(TypeError, match=f"^ids: found type {kind}, expected integers of 64 bits$"):
            as_keys(form, "ids")


def test_decimals_that_are_too_large_are_refused_with_their_place() -> None:
    column = pyarrow.array([Decimal(5), Decimal(1 << 64)], pyarrow.decimal128(20, 0))
    with pytest.raises(ValueError, match=r"^ids, item 1: found 18446744073709551616, expected integers of 64 bits$"):
        as_keys(column, "ids")


def test_what_has_an_array_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pyarrow.array([1, 2], pyarrow.uint64())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert as_keys(column, "fingerprints").tolist() == [1, 2]


def test_an_array_that_is_right_already_is_not_copied() -> None:
    keys = np.arange(5, dtype=np.uint64)
    assert as_keys(keys, "fingerprints") is keys


@pytest.mark.parametrize(
    "empty", [[], (), np.empty(0), np.empty(0, dtype=np.int64), pyarrow.array([], pyarrow.uint64())]
)
def test_nothing_is_an_empty_array_whatever_its_type(empty: Any) -> None:
    keys = as_keys(empty, "fingerprints")
    assert (keys.dtype, keys.shape) == (np.uint64, (0,))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1.0, np.nan]), "float64"),
        (np.array([1, 2], dtype=np.float32), "float32"),
        (np.array([True]), "bool"),
        (np.array(["1"]), "<U1"),
        (np.array([1], dtype="datetime64[s]"), r"datetime64\[s\]"),
        (array.array("d", [1.0]), "float64"),
    ],
)
def test_anything_but_integers_is_a_type_error_that_names_the_dtype(values: Any, dtype: str) -> None:
    with pytest.raises(TypeError, match=f"^fingerprints: found dtype {dtype}, expected integers of 64 bits$"):
        as_keys(values, "fingerprints")


@pytest.mark.parametrize(
    ("values", "kind"),
    [("12", "str"), (b"12345678", "bytes"), (bytearray(8), "bytearray"), (7, "int"), ({1, 2}, "set")],
)
def test_what_is_no_array_is_a_type_error_that_names_the_type(values: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"^ids: found a {kind}, expected an array of integers of 64 bits$"):
        as_keys(values, "ids")


LARGE = (1 << 64) - 1
SAME: dict[str, Any] = {
    "integers": [5, LARGE],
    "decimals": [Decimal(5), Decimal(LARGE)],
    "both": [5, Decimal(LARGE)],
    "a tuple": (Decimal(5), LARGE),
    "a stream": lambda: iter([Decimal(5), LARGE]),
    "objects": np.array([Decimal(5), LARGE], dtype=object),
    "integers as objects": np.array([5, LARGE], dtype=object),
    "arrays without dimensions": [np.array(5), np.array(LARGE, dtype=np.uint64)],
    "numpy's own": [np.uint8(5), np.uint64(LARGE)],
    "arrow": pyarrow.array([Decimal(5), Decimal(LARGE)], pyarrow.decimal128(20, 0)),
    "below 0": [5, Decimal(-1)],
}


@pytest.mark.parametrize("form", SAME)
def test_an_integer_is_taken_whatever_number_it_is(form: str) -> None:
    given = SAME[form]() if callable(SAME[form]) else SAME[form]
    assert as_keys(given, "ids").tolist() == [5, LARGE]


def test_a_single_decimal_is_asked_for_as_an_integer_is(tmp_path: Path) -> None:
    seven: Any
    large: Any
    seven, large = Decimal(7), Decimal(1 << 127)
    with fpstore.create(tmp_path / "s") as store, fpstore.create(tmp_path / "w", bits=128, max_distance=9) as wide:
        store.add([Decimal(7)], ids=[Decimal(LARGE)])
        wide.add([Decimal(1 << 127)], ids=[1])
        assert [row.id for row in store.probe(seven)] == [LARGE]
        assert [row.fingerprint for row in store.lookup([Decimal(LARGE)])] == [7]
        assert len(wide.probe(large, max_distance=0)) == 1


@pytest.mark.parametrize(
    "value",
    [True, np.True_, np.array(True), 5.0, np.float64(5), 5j, Fraction(5), Fraction(1, 2), "5", None, np.array(5.0)]
    + [Decimal(each) for each in ("5.5", "5.0", "5E+1", "1E+999999", "NaN", "sNaN", "Infinity", "-Infinity")],
    ids=repr,
)
def test_what_is_no_integer_is_refused_wherever_it_is(value: Any) -> None:
    kind = type(value).__name__
    objects = np.array([5, None], dtype=object)
    objects[1] = value
    for values in ([5, value], (5, value), iter([5, value]), objects):
        with pytest.raises(TypeError, match=rf"^fingerprints, item 1: found .*, a {kind}, expected an integer$"):
            as_keys(values, "fingerprints")
    with pytest.raises(TypeError, match=rf"^fingerprint: found .*, a {kind}, expected an integer$"):
        as_key(value, "fingerprint")
    with pytest.raises(TypeError, match=rf"^fingerprint: found .*, a {kind}, expected fingerprints of 128 bits"):
        as_code(value, "fingerprint", 128)


def test_a_number_of_more_than_64_bits_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=rf"^ids, item 1: found {1 << 64}, expected integers of 64 bits$"):
        as_keys(np.array([1, 1 << 64], dtype=object), "ids")
    with pytest.raises(ValueError, match=rf"^ids, item 1: found {1 << 64}, expected integers of 64 bits$"):
        as_keys([1, Decimal(1 << 64)], "ids")
    for number in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(ValueError, match=rf"^ids, item 1: found {number}, expected integers of 64 bits$"):
            as_keys([5, number], "ids")


@pytest.mark.parametrize("octets", [b"", b"1234567", b"123456789"])
def test_other_than_8_bytes_are_no_fingerprint(octets: bytes) -> None:
    with pytest.raises(ValueError, match=f"^fingerprint: found {len(octets)} bytes, expected 8$"):
        as_key(octets, "fingerprint")


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_a_count_is_an_integer_above_0(value: Any, error: type[Exception]) -> None:
    assert as_count(np.int32(5), "batch") == 5
    with pytest.raises(error, match=r"^batch: found (0, expected 1|-1, expected 1|1\.0, a float|True, a bool)"):
        as_count(value, "batch")


def test_a_count_is_one_that_numpy_can_tell_an_index_by() -> None:
    assert as_count(2**63 - 1, "count") == 2**63 - 1
    for value in (2**63, 10**20):
        with pytest.raises(ValueError, match=f"^count: found {value}, expected at most 2\\*\\*63 - 1$"):
            as_count(value, "count")


@pytest.mark.parametrize("values", [np.zeros((2, 2), dtype=np.uint64), np.uint64(1), np.zeros((0, 3))])
def test_other_than_one_dimension_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match=r"^fingerprints: found [02] dimensions, expected 1$"):
        as_keys(np.asarray(values), "fingerprints")


def test_nulls_are_refused_with_their_number() -> None:
    with pytest.raises(ValueError, match=r"^fingerprints: found 2 nulls, expected integers of 64 bits$"):
        as_keys(WithArrow(pyarrow.array([None, 1, None], pyarrow.uint64())), "fingerprints")


def test_what_numpy_masks_is_a_null() -> None:
    with pytest.raises(ValueError, match=r"^ids: found 1 nulls, expected integers of 64 bits$"):
        as_keys(np.ma.array([1, 7], mask=[False, True]), "ids")
    assert as_keys(np.ma.array([1, 7]), "ids").tolist() == [1, 7]


def test_arrow_data_without_pyarrow_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    values = WithArrow(pyarrow.array([1], pyarrow.uint64()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^fingerprints: Arrow data needs pyarrow: pip install 'fpstore\[arrow\]'$"):
        as_keys(values, "fingerprints")


@pytest.mark.parametrize("value", [0, LAST, np.uint64(LAST), np.int32(5)])
def test_an_integer_of_64_bits_is_a_key(value: Any) -> None:
    key = as_key(value, "fingerprint")
    assert (type(key), key) == (int, int(value))


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_an_integer_of_any_kind_is_one(value: Any) -> None:
    found = as_integer(value)
    assert (type(found), found) == (int, 3)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float64(3), "3", None, np.array([1, 2])])
def test_anything_else_is_none(value: Any) -> None:
    assert as_integer(value) is None


@pytest.mark.parametrize(("value", "kind"), [(1.0, "float"), ("1", "str"), (None, "NoneType"), (True, "bool")])
def test_a_key_that_is_no_integer_is_a_type_error(value: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"^fingerprint: found .*, a {kind}, expected an integer$"):
        as_key(value, "fingerprint")
    with pytest.raises(TypeError, match=f"^fingerprints, item 1: found .*, a {kind}, expected an integer$"):
        as_keys([3, value], "fingerprints")


@pytest.mark.parametrize("value", [-1 - (1 << 63), 1 << 64])
def test_a_key_out_of_range_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=rf"^fingerprint: found {value}, expected integers of 64 bits$"):
        as_key(value, "fingerprint")


def test_a_name_among_ids_that_are_numbers_names_the_stores_that_take_it() -> None:
    with pytest.raises(
        TypeError, match=r"^ids, item 0: found 'x', a str, expected an integer, or names in a store made"
    ):
        as_key("x", "ids, item 0")
    with pytest.raises(TypeError, match=r"^ids, item 0: found 1\.5, a float, expected an integer$"):
        as_key(1.5, "ids, item 0")
