"""Keys of an index are bytes of a store and come back as equal ones; nobody's pickle is read unasked."""

import enum
import pickle
from collections import namedtuple
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.adapters.keys import AnyKeys, NumberKeys, StringKeys

Point = namedtuple("Point", "x y")


class Colour(enum.StrEnum):
    RED = "red"


class Caseless(str):
    """A string that is equal to others than strings are."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower() + "!")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.binary(),
    lambda parts: st.lists(parts, max_size=3).map(tuple) | st.frozensets(parts, max_size=3),
    max_leaves=6,
)


def encoded(key: Hashable, pickled: bool = False) -> bytes:
    made: Any = AnyKeys(pickled).ids([key])
    return bytes(made[0])


@given(PLAIN, PLAIN)
def test_keys_come_back_equal_and_their_bytes_are_equal_just_where_they_are(one: Hashable, other: Hashable) -> None:
    (back,) = AnyKeys(False).keys(np.array([encoded(one)], dtype=object))
    assert back == one
    assert hash(back) == hash(one)
    assert (encoded(one) == encoded(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (1, True),
        (1, 1.0),
        (0, -0.0),
        (2**70, float(2**70)),
        (7, np.int64(7)),
        (1, np.True_),
        (0.5, np.float32(0.5)),
        ("red", Colour.RED),
        ("a", np.str_("a")),
        ((1, 2), Point(1, 2)),
        (frozenset({1, "a"}), frozenset({"a", True})),
    ],
)
def test_what_python_takes_for_one_key_is_one(one: Hashable, same: Hashable) -> None:
    assert one == same
    assert encoded(one) == encoded(same)


@pytest.mark.parametrize("key", [Decimal(1), Fraction(1, 3), 1j, ("a", Decimal(2)), Caseless("Red"), int])
def test_what_has_no_form_of_its_own_is_pickled_where_that_is_asked_for(key: Hashable) -> None:
    with pytest.raises(TypeError, match=r"key: found a .*, expected a string, .* with prepickle=True it is pickled"):
        encoded(key)
    assert AnyKeys(True).keys(np.array([encoded(key, True)], dtype=object)) == [key]


def test_a_pickle_is_not_read_unasked() -> None:
    stored = np.array([b"p" + pickle.dumps(Decimal(1))], dtype=object)
    with pytest.raises(ValueError, match="found a pickle, expected prepickle=True"):
        AnyKeys(False).keys(stored)


def test_a_key_that_python_does_not_write_out_is_refused_by_what_it_is() -> None:
    huge = 10**5000
    for keys, key, told in (
        (NumberKeys(), huge, "key: found an integer of 16610 bits, expected an integer"),
        (StringKeys(), huge, "key: found an integer of 16610 bits, expected a string"),
        (StringKeys(), (huge,), "key: found a tuple that cannot be written out, expected a string"),
        (AnyKeys(False), 1j, "key: found a complex, expected a string, bytes, a whole or real number, None"),
    ):
        with pytest.raises(TypeError, match=told):
            keys.ids([key])
    assert AnyKeys(False).keys(np.array(AnyKeys(False).ids([huge]), dtype=object)) == [huge]


@pytest.mark.parametrize("key", [[1], {1}, {"a": 1}, bytearray(b"a"), ([1],)])
def test_what_cannot_be_hashed_is_no_key(key: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        encoded(key, True)


def test_nan_is_no_key() -> None:
    with pytest.raises(ValueError, match="key: found nan, expected one that is equal to itself"):
        encoded(float("nan"))


@pytest.mark.parametrize(
    "data", [b"", b"x", b"n1", b"i", b"f123", b"s\xff", b"t\0\0", b"t\0\0\0\x05ab", b"z\0\0\0\x01q", b"t\0\0\0\x02n1"]
)
def test_bytes_that_no_key_has_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="key: found "):
        AnyKeys(False).keys(np.array([data], dtype=object))


@given(st.binary(max_size=30))
def test_any_bytes_are_a_key_or_refused(data: bytes) -> None:
    try:
        (key,) = AnyKeys(False).keys(np.array([data], dtype=object))
    except ValueError:
        return
    hash(key)


def test_keys_of_a_long_nest_are_refused_as_others() -> None:
    data = b"n"
    for _ in range(3000):
        data = b"t" + len(data).to_bytes(4, "big") + data
    with pytest.raises(ValueError, match="key: found "):
        AnyKeys(False).keys(np.array([data], dtype=object))


def test_numbers_and_strings_are_ids_as_they_are() -> None:
    assert np.array_equal(NumberKeys().ids([0, np.int8(3), 2**64 - 1]), np.array([0, 3, 2**64 - 1], dtype=np.uint64))  # type: ignore[arg-type]
    assert NumberKeys().keys(np.array([5], dtype=np.uint64)) == [5]
    assert StringKeys().ids(["a", Colour.RED]) == ["a", "red"]
    assert StringKeys().keys(np.array(["x"], dtype=np.dtypes.StringDType())) == ["x"]


@pytest.mark.parametrize("key", [-1, 1 << 64, 1.0, "1", True, None])
def test_other_keys_than_numbers_are_refused(key: Hashable) -> None:
    with pytest.raises(TypeError, match=r"expected an integer from 0 to 2\^64 - 1"):
        NumberKeys().ids([key])


@pytest.mark.parametrize("key", [1, b"a", None, ("a",)])
def test_other_keys_than_strings_are_refused(key: Hashable) -> None:
    with pytest.raises(TypeError, match="expected a string, as the ids are"):
        StringKeys().ids([key])
