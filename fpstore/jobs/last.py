"""Owns the last bytes of a file that a job appends to, in memory, as what it reads again it wrote not long before."""

import numpy as np

from fpstore.types import Bytes

# From which place of a file on bytes are in memory, and these, which stay as they are.
Last = tuple[int, Bytes]

# So much room is there for what is in it when it is taken anew: memory that is new costs as much as what it spares.
_TIMES = 4


class LastBytes:
    """The last of what was appended since this is there, as it was written: so many bytes at most.

    Half of them go when it is full.
    """

    def __init__(self, begin: int, most: int) -> None:
        """begin: how long the file is."""
        self._begin, self._size, self._most = begin, 0, most
        self._room: Bytes = np.empty(0, dtype=np.uint8)

    def add(self, data: Bytes) -> None:
        """These are appended."""
        size = self._size + len(data)
        if size > len(self._room):
            gone = 0 if size <= self._most else size - self._most // 2
            own, data = self._room[gone : self._size], data[max(0, gone - self._size) :]
            # Room of its own, as somebody may still look at the other.
            room = np.empty(min(_TIMES * (size - gone), self._most), dtype=np.uint8)
            room[: len(own)] = own
            self._room, self._size, self._begin = room, len(own), self._begin + gone
        self._room[self._size : self._size + len(data)] = data
        self._size += len(data)

    @property
    def told(self) -> Last:
        """What is there by now."""
        return self._begin, self._room[: self._size]
