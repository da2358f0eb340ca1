"""The array types that signatures name; it imports nothing else of fpstore."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Buffer = bytes | bytearray | memoryview

# Called with (what is being done, how much is done, how much there is or None).
Progress = Callable[[str, int, int | None], None]


class SortedKeys(Protocol):
    """Distinct keys in order, that can be read more than once."""

    @property
    def count(self) -> int:
        """How many."""

    def chunks(self) -> Iterator[Keys]:
        """The keys, strictly increasing within and across chunks."""
