"""Keys of an index, any that can be hashed, as the ids of a store, and back.

Ids that are bytes hold any key: a letter for its type, then its value, so that keys are equal just where their bytes
are. A key comes back as one that is equal to it: 1 for True and 1.0, a tuple for a named one. What has no such form is
pickled, where the caller allows it: whoever wrote the store chooses what is called when it is read.
"""

import math
import pickle
import struct
from collections.abc import Hashable, Iterable
from typing import Protocol

import numpy as np

from fpstore.checks import shown
from fpstore.types import Array, IdType

PICKLE_PROTOCOL = 5
PLAIN = "a string, bytes, a whole or real number, None, or a tuple or frozenset of such"


class Keys(Protocol):
    """What the keys of an index are as ids."""

    def ids(self, keys: list[Hashable]) -> object:
        """As a store takes them. TypeError, ValueError for what is no key."""

    def keys(self, ids: Array) -> list[Hashable]:
        """What ids of a store stand for. ValueError for those that stand for none."""


class NumberKeys:
    """Keys that are integers from 0 on, up to 64 bits."""

    def ids(self, keys: list[Hashable]) -> object:
        """As of Keys."""
        for key in keys:
            if isinstance(key, bool) or not isinstance(key, int | np.integer) or not 0 <= int(key) < 1 << 64:
                raise TypeError(f"key: found {shown(key)}, expected an integer from 0 to 2^64 - 1, as the ids are")
        return np.array([int(key) for key in keys], dtype=np.uint64)  # type: ignore[call-overload]

    def keys(self, ids: Array) -> list[Hashable]:
        """As of Keys."""
        return [*ids.tolist()]


class StringKeys:
    """Keys that are strings."""

    def ids(self, keys: list[Hashable]) -> object:
        """As of Keys."""
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"key: found {shown(key)}, expected a string, as the ids are")
        return [str.__str__(key) for key in keys]

    def keys(self, ids: Array) -> list[Hashable]:
        """As of Keys."""
        return [*map(str, ids)]


class AnyKeys:
    """Keys of any type; pickled: also those that have no form but a pickle."""

    def __init__(self, pickled: bool) -> None:
        self._pickled = pickled

    def ids(self, keys: list[Hashable]) -> object:
        """As of Keys."""
        return [self._encoded(key) for key in keys]

    def keys(self, ids: Array) -> list[Hashable]:
        """As of Keys."""
        return [self._decoded(each) for each in ids]

    def _encoded(self, key: Hashable) -> bytes:
        hash(key)
        plain = _plain(key)
        if plain is not None:
            return plain
        if not self._pickled:
            raise TypeError(f"key: found a {type(key).__name__}, expected {PLAIN}; with prepickle=True it is pickled")
        return b"p" + pickle.dumps(key, protocol=PICKLE_PROTOCOL)

    def _decoded(self, data: bytes) -> Hashable:
        if data[:1] != b"p":
            return _of_plain(data)
        if not self._pickled:
            raise ValueError("key: found a pickle, expected prepickle=True, for stores whose writers you trust")
        key: Hashable = pickle.loads(data[1:])
        return key


def keys_for(id_type: IdType, pickled: bool = False) -> Keys:
    """What the keys of an index are in a store with ids of this type; pickled: as of AnyKeys."""
    kinds: dict[IdType, Keys] = {"uint64": NumberKeys(), "string": StringKeys(), "bytes": AnyKeys(pickled)}
    return kinds[id_type]


def _plain(key: Hashable) -> bytes | None:
    """The bytes of a key of these types; None for another, also one that is not equal to what would come back."""
    made: Hashable
    if key is None:
        return b"n"
    if isinstance(key, str):
        made = str.__str__(key)  # of an enumeration str() gives its name
        data = b"s" + made.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        made, data = bytes(key), b"b" + key
    elif isinstance(key, int | np.integer | np.bool_):
        made = int(key)
        data = _of_integer(made)
    elif isinstance(key, float | np.floating):
        made = float(key)
        if math.isnan(made):
            raise ValueError("key: found nan, expected one that is equal to itself")
        data = _of_integer(int(made)) if made.is_integer() else b"f" + struct.pack(">d", made)
    elif isinstance(key, tuple | frozenset):
        parts = [_plain(each) for each in key]
        whole = [each for each in parts if each is not None]
        if len(whole) < len(parts):
            return None
        if isinstance(key, tuple):
            made, data = tuple(key), b"t" + _in_a_row(whole)
        else:
            made, data = frozenset(key), b"z" + _in_a_row(sorted(whole))
    else:
        return None
    return data if made == key and hash(made) == hash(key) else None


def _of_integer(value: int) -> bytes:
    return b"i" + value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _in_a_row(parts: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def _of_plain(data: bytes) -> Hashable:
    """The key of these bytes. ValueError for bytes that are those of no key."""
    kind, rest = data[:1], data[1:]
    try:
        match kind:
            case b"n" if not rest:
                return None
            case b"s":
                return rest.decode("utf-8", "surrogatepass")
            case b"b":
                return rest
            case b"i" if rest:
                return int.from_bytes(rest, "big", signed=True)
            case b"f":
                number: float = struct.unpack(">d", rest)[0]
                return number
            case b"t":
                return tuple(_parts(rest))
            case b"z":
                return frozenset(_parts(rest))
    except (UnicodeDecodeError, struct.error, RecursionError) as error:
        raise ValueError(f"key: found {data!r:.60}, expected one that an index stored: {error}") from None
    raise ValueError(f"key: found {data!r:.60}, expected one that an index stored")


def _parts(data: bytes) -> Iterable[Hashable]:
    while data:
        (size,) = struct.unpack(">I", data[:4])
        if size > len(data) - 4:
            raise ValueError(f"key: found {len(data) - 4} bytes of a part, expected {size}")
        yield _of_plain(data[4 : 4 + size])
        data = data[4 + size :]
