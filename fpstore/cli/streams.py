"""Owns the standard streams: a closed one is told of where it is needed, and no other file gets its number.

All that is written to standard output arrives, or whoever wrote it is told. What is said on standard error is for
people: where it cannot be written it goes nowhere, and the status is still that of the work.
"""

import errno
import io
import os
import sys
from typing import Any, NoReturn

_CLOSED = "closed, expected an open one"


class _Closed(io.RawIOBase):
    """A stream that is closed: whoever reads or writes is told which."""

    def __init__(self, name: str, *, writes: bool) -> None:
        self._name, self._writes = name, writes

    def readable(self) -> bool:
        return not self._writes

    def writable(self) -> bool:
        return self._writes

    def _fail(self, *arguments: object) -> NoReturn:
        raise OSError(errno.EBADF, _CLOSED, self._name)

    readinto = write = _fail


class _Output(io.FileIO):
    """Standard output: an error of it has its name."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


class _Words(io.FileIO):
    """Standard error: what cannot be written, as where a disk is full or nobody reads, is dropped."""

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return len(data) if written is None else written


def mend_standard_streams() -> None:
    """Put something in the place of standard streams that are closed, as after `>&-` in a shell.

    What is written to standard error then goes nowhere. Reading standard input, and writing to standard output, is an
    OSError with its name. Their numbers are taken, as a store's file with the number of an output would be written to.

    An output without a buffer, as of python -u, gets one: a file of its kind may take less than it was given, without
    an error. Each line still goes out at once. One that somebody else put there stays. What a standard error that is
    open cannot take is dropped too.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the least number that is free: this one
    out = sys.stdout
    if out is sys.__stdout__ and isinstance(out, io.TextIOWrapper):
        by_line = isinstance(out.buffer, io.FileIO) or out.isatty()
        whole = io.BufferedWriter(_Output(out.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(whole, out.encoding, out.errors, newline="", line_buffering=by_line)
    err = sys.stderr
    if err is sys.__stderr__ and isinstance(err, io.TextIOWrapper):
        words = io.BufferedWriter(_Words(err.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(words, err.encoding, err.errors, newline="", line_buffering=True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(_Closed("standard input", writes=False))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed("standard output", writes=True), write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends


def expect_output() -> None:
    """Raise OSError where standard output is closed: before the work whose results go there."""
    if isinstance(getattr(sys.stdout, "buffer", None), _Closed):
        raise OSError(errno.EBADF, _CLOSED, "standard output")
