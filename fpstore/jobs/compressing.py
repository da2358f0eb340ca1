"""Owns how a result is compressed while it grows, by a thread of its own: to the bytes that it would be in the end."""

from functools import partial
from queue import SimpleQueue
from typing import BinaryIO

from fpstore.jobs.claims import Claim
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import Compress
from fpstore.threads import Background


class _UnwantedError(Exception):
    """Nobody wants what is compressed any more."""


class _Growing:
    """A part as who compresses it reads it: it waits for what is still to come."""

    def __init__(self, file: AppendFile) -> None:
        """file: which it is appended to."""
        self._file = file
        self._read = 0
        self._told = SimpleQueue[None]()  # each time that it has changed; made in C, as `fpstore/awaited.py` says why
        self._is_whole = self._is_unwanted = False
        self.part: BinaryIO | None = None

    def tell(self, *, is_whole: bool = False, is_unwanted: bool = False) -> None:
        """More of it was written; is_whole: all. is_unwanted: nobody wants what is made of it."""
        self._is_whole |= is_whole
        self._is_unwanted |= is_unwanted
        self._told.put(None)

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end alone: what is made of them may follow from how they come."""
        assert self.part is not None
        while True:
            if self._is_unwanted:
                raise _UnwantedError
            is_whole = self._is_whole  # first, as it grows until then
            left = self._file.length - self._read
            if left >= size or is_whole:
                break
            self._told.get()
        data = self.part.read(min(size, left))
        self._read += len(data)
        return data


class Compressing:
    """A result on its way to being compressed. Where the system has no thread to give, that is done in the end."""

    def __init__(self, claim: Claim, compress: Compress, file: AppendFile) -> None:
        """file: the part, to which is appended until finish."""
        self._growing = _Growing(file)

        def work(part: BinaryIO, out: BinaryIO) -> None:
            self._growing.part = part
            compress(self._growing, out)  # type: ignore[arg-type]  # which reads it from front to end

        self._beside, self._in_the_end = partial(claim.pack, work), partial(claim.pack, compress)
        self._work: Background[AppendFile] | None = None
        self.is_closed = False  # by close, which is to be called again where it was interrupted before

    def begin(self) -> None:
        """From now on."""
        self._work = Background(self._beside)

    def go_on(self) -> None:
        """More was appended to the part."""
        self._growing.tell()

    def finish(self) -> AppendFile:
        """All was appended: the compressed result. Raises what went wrong, as Claim.pack does.

        What the system could not do beside is done again, as it may have had no room, or no thread, for a moment.
        """
        self._growing.tell(is_whole=True)
        try:
            return self._in_the_end() if self._work is None else self._work.result()
        except (MemoryError, OSError):  # also where the system had no thread to give
            return self._in_the_end()

    def close(self) -> None:
        """Nobody wants it, unless it is finished; however often this is interrupted nobody is at it any more then."""
        interrupted: KeyboardInterrupt | None = None
        is_over = False
        while not is_over:
            try:
                self._growing.tell(is_unwanted=True)
                if self._work is not None:
                    self._work.wait()
                is_over = True
            except KeyboardInterrupt as error:
                interrupted = error
        if self._work is not None and self._work.went_well:
            self._work.result().close()
        self.is_closed = True
        if interrupted is not None:
            raise interrupted
