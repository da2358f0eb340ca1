"""Owns how it is told that a file of this machine has other bytes by now where some of it were read.

Who cuts a file and writes it anew while it is read would leave rows of both. What is written behind the bytes that were
read is no fault, and neither is a new time: where a file looks other than when it was opened, the bytes decide.

Who puts another in its place, as a log is rotated, changes no byte of what is open: that is read whole, as it was.
Where a file is opened once for each stretch of it, what its path leads to has to have the same bytes there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fpstore._codec import crc32c
from fpstore.inputs.errors import BadInput

_AGAIN_BYTES = 1 << 20

# What a file looks like from outside: which it is, how large, when its bytes, and when it changed in any way, as by a
# new link. The last tells of bytes, too, of which somebody gave it the time before.
Look = tuple[int, ...]
_OF_WHICH, _OF_CONTENT = 2, 4

# What the system says of a path that leads nowhere any more, or by a folder that nobody lets this process into by now.
_GONE = (FileNotFoundError, NotADirectoryError, PermissionError)


def look_of(status: os.stat_result) -> Look:
    """Of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def changed(name: str) -> BadInput:
    """The error that says so of an input."""
    found = "found other bytes than those that were read of it, expected the same"
    return BadInput(f"{name}: {found}: it has changed while it was read", "file that changed")


@contextmanager
def unchanged(path: str) -> Iterator[None]:
    """A context in which a package reads a file, nobody knows which bytes: BadInput where it looks other afterwards.

    The package opens it in the context, at once.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # of what is open, whatever its path leads to in the end
    try:
        before = look_of(os.fstat(fd))
        yield
        if look_of(os.fstat(fd))[:_OF_CONTENT] != before[:_OF_CONTENT]:
            raise changed(path)
    finally:
        os.close(fd)


class BytesRead:
    """How many bytes were read of a file that is open, from a place on, and their checksum."""

    def __init__(self, name: str, path: str | None, fd: int, start: int) -> None:
        """name: for messages. path: by which other stretches of the file are read, None where what is open is all.

        fd: somebody else closes it.
        """
        self._name, self._path, self._fd, self._start = name, path, fd, start
        self._look = look_of(os.fstat(fd))
        self._count = self._crc = 0

    def add(self, data: Any) -> None:
        """The next that were read."""
        self._count += len(data)
        self._crc = crc32c(data, self._crc)

    def expect_same(self) -> None:
        """BadInput where they are others now, in the file or in what its path leads to; one that is gone is neither."""
        own = look_of(os.fstat(self._fd))
        if own != self._look:
            self._expect_in(self._fd)
        if self._path is None:
            return
        try:
            there = os.stat(self._path)
        except _GONE:
            return
        if look_of(there)[:_OF_WHICH] == self._look[:_OF_WHICH]:
            return
        if not stat.S_ISREG(there.st_mode):
            raise changed(self._name)
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)  # as it may be a pipe by now, which nobody writes to
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            self._expect_in(fd)
        finally:
            os.close(fd)

    def _expect_in(self, fd: int) -> None:
        crc, at, end = 0, self._start, self._start + self._count
        while at < end and (data := os.pread(fd, min(_AGAIN_BYTES, end - at), at)):
            crc, at = crc32c(data, crc), at + len(data)
        if (at, crc) != (end, self._crc):
            raise changed(self._name)
