"""Ids of every type for models that know numbers alone: what a store is given for a number, and the way back.

So of wide fingerprints, for which models know keys of 64 bits.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol, get_args

import numpy as np

from fpstore.fingerprints import as_numbers
from fpstore.types import IdType

# What --id-type calls stores of signatures (tools/crash_signed.py); their ids are numbers.
SIGNED: Any = "minhash"
# What it calls stores of wide fingerprints, of so many bits, whose ids are numbers.
WIDE: Any = "wide"
WIDE_BITS = 256
# What stands before the digits of a name: some names begin with others. As bytes it is no UTF-8, and has a zero.
_WORDS: dict[IdType, str] = {"string": "name", "bytes": "\xff\0e"}
ID_TYPES: tuple[IdType, ...] = get_args(IdType)


class Table(Protocol):
    """What rows and matches are of it."""

    @property
    def fingerprint(self) -> Any: ...

    @property
    def id(self) -> Any: ...


def ids_of(id_type: IdType | None, numbers: Sequence[int]) -> Any:
    """The ids of these numbers, as a store with such ids takes them: the name of 0 is empty. None without ids."""
    if id_type is None:
        return None
    if id_type in ("uint64", SIGNED, WIDE):
        return np.array(numbers, dtype=np.uint64)
    names = [_WORDS[id_type] * (number % 7) + str(number) if number else "" for number in numbers]
    return names if id_type == "string" else [name.encode("latin-1") for name in names]


def numbers_of(id_type: IdType, ids: Any) -> list[Any]:
    """Which numbers stand for ids of a store; of a name that ids_of does not make, the name as text."""
    if id_type == "uint64":
        return [int(number) for number in ids]
    names = [name if isinstance(name, str) else name.decode("latin-1") for name in ids]
    return [_number(_WORDS[id_type], name) for name in names]


def numbered(id_type: IdType | None, table: Table) -> list[tuple[int, Any]]:
    """Rows, or matches, as fingerprints and numbers; None for the numbers of a store without ids."""
    keys = keys_again(table.fingerprint)
    ids = [None] * len(keys) if id_type is None else numbers_of(id_type, table.id.tolist())
    return list(zip(keys, ids, strict=True))


def apart(key: int, bits: int = WIDE_BITS) -> int:
    """A key as a wide fingerprint: its halves at both ends, so that order and distances are the same."""
    return key >> 32 << bits - 32 | key & 2**32 - 1


def fingerprints_of(is_wide: bool, keys: Sequence[int]) -> Any:
    """The fingerprints of these keys, as a store takes them."""
    return [apart(int(key)) for key in keys] if is_wide else np.array(keys, dtype=np.uint64)


def keys_again(fingerprints: Any) -> list[int]:
    """The keys of fingerprints that a store gave; of a wide one that fingerprints_of does not make, all of it."""
    if fingerprints.ndim == 1:
        return [int(key) for key in fingerprints]
    keys = [number >> WIDE_BITS - 32 << 32 | number & 2**32 - 1 for number in as_numbers(fingerprints)]
    numbers = as_numbers(fingerprints)
    return [key if apart(key) == number else number for key, number in zip(keys, numbers, strict=True)]


def _number(word: str, name: str) -> int | str:
    found = re.fullmatch(f"((?:{word})*)([1-9][0-9]*)", name)
    if found and len(found[1]) == len(word) * (int(found[2]) % 7):
        return int(found[2])
    return name or 0
