"""The types that signatures name, and what tells True and False; it imports nothing else of fpstore."""

from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
Distances = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Buffer = bytes | bytearray | memoryview

# What settings are called, where there are few of them.
Mode = Literal["r", "w"]
Durability = Literal["commit", "batch"]
Codec = Literal["gap", "xor", "rice", "raw"]
Layout = Literal["slots", "blocks"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
ByteOrder = Literal["big", "little"]
BYTE_ORDERS: tuple[ByteOrder, ...] = get_args(ByteOrder)
IdType = Literal["uint64", "string", "bytes"]
Counted = Literal["fingerprints", "rows"]
Kind = Literal["hamming", "minhash"]
Paired = Literal["fingerprints", "ids"]

# What the keys of a store of each kind are called, one of them.
KEY_NOUNS: dict[Kind, str] = {"hamming": "fingerprint", "minhash": "band key"}


def expect_flags(**flags: object) -> None:
    """TypeError for what is neither True nor False: "no" would mean yes."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name}: found {flag!r:.40}, a {type(flag).__name__}, expected True or False")


class SortedKeys(Protocol):
    """Distinct keys in order, that can be read more than once."""

    @property
    def count(self) -> int:
        """How many."""

    def chunks(self) -> Iterator[Keys]:
        """The keys, strictly increasing within and across chunks."""
