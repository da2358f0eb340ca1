"""Owns the way from a path to its bytes: standard input, what is compressed, UTF-16, lines of bounded length.

Everything is streamed, and a stream that is cut short is an error, never a shorter input.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from fpstore.closing import close_all
from fpstore.inputs import remote
from fpstore.inputs.decoding import MARK_BYTES, marked
from fpstore.inputs.errors import BadInput
from fpstore.inputs.unchanged import BytesRead, look_of
from fpstore.inputs.unpacking import ROOM_BYTES, UNPACK, ZSTD_FRAME, Chunks, DamagedError, Fill, is_skippable
from fpstore.threads import ahead

STANDARD_INPUT = "-"
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}
MAX_LINE_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 20
# Of what another thread decompresses at a time; a block of lines is taken of it together, which is half as much again.
_AHEAD_BYTES = 1 << 21
_HEAD_BYTES = 10  # bzip2 is told by its first ten: four are letters and a digit, which a text can begin with

OnBytes = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Stream:
    """The bytes of one input, decompressed.

    name: for messages. plain_bytes: how many bytes there are, None where only reading tells. file: the descriptor of a
    file of this machine that has just these bytes, from its beginning on; None where there is none.
    """

    name: str
    reader: io.BufferedReader
    plain_bytes: int | None
    file: int | None = None

    def line(self, number: int) -> bytes:
        """The next line, with its end; empty at the end of the input. number: its own, for messages.

        Raises LongLine for one that is longer than MAX_LINE_BYTES with its end.
        """
        line = self.reader.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            where = f"{self.name}, line {number}"
            found = f"more than {MAX_LINE_BYTES} bytes"
            told = f"{where}: found {found}, expected the end of the line"
            raise LongLine(told, self.name, number, is_ended=line.endswith(b"\n"))
        return line

    def whole(self, limit: int) -> bytes:
        """All the bytes that are left. Raises BadInput for more than limit."""
        data = bytearray()
        while chunk := self.reader.read(_BUFFER_BYTES):
            data += chunk
            if len(data) > limit:
                found = f"more than {limit} bytes"
                raise BadInput(f"{self.name}: found {found}, expected a smaller document", "file over the limit")
        return bytes(data)


class LongLine(BadInput):
    """A line of more than MAX_LINE_BYTES, its end counted; the one after it can be read.

    is_ended: whether its end is among the bytes that were read, so that the next are of the line after it.
    """

    def __init__(self, message: str, source: str, line: int, *, is_ended: bool) -> None:
        super().__init__(message, "line over the limit", source=source, line=line)
        self.is_ended = is_ended


class Lines:
    """The lines of a stream that are left, counted from 1; a byte order mark before the first is dropped.

    Raises LongLine for one that is too long, and gives the one after it when asked again.
    """

    def __init__(self, stream: Stream, first: bytes = b"", number: int = 0) -> None:
        """first: a line that was read already; number: how many lines there were before it."""
        self._stream = stream
        self._first = first
        self._is_inside = False
        self.number = number

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> bytes:
        if self._is_inside:
            self._leave()
        if self._first:
            line, self._first = self._first, b""
        else:
            try:
                line = self._stream.line(self.number + 1)
            except LongLine as error:
                self._is_inside = not error.is_ended
                self.number += 1
                raise
            if not line:
                raise StopIteration
        self.number += 1
        return line.removeprefix(codecs.BOM_UTF8) if self.number == 1 else line

    def _leave(self) -> None:
        """Pass what is left of a line that is too long."""
        while self._is_inside:
            rest = self._stream.reader.readline(_BUFFER_BYTES)
            self._is_inside = bool(rest) and not rest.endswith(b"\n")


def display_name(path: str) -> str:
    """What messages call the input at path."""
    return "standard input" if path == STANDARD_INPUT else path


@contextlib.contextmanager
def open_stream(
    path: str,
    on_bytes: OnBytes | None,
    by_magic: bool = True,
    is_text: bool = False,
    within: tuple[int, int] | None = None,
    reads_ahead: bool = False,
) -> Iterator[Stream]:
    """The decompressed bytes of the file at path, or of standard input for `-`.

    on_bytes: called with the count of bytes as they are read, still compressed. by_magic: whether the first
    bytes tell that it is compressed, else only the suffix does. is_text: by a byte order mark UTF-16 and UTF-32
    become UTF-8. within: of a plain file, the bytes from which to which alone. reads_ahead: whether another thread
    decompresses while what it has made is worked with, up to twice _AHEAD_BYTES; leaving the context ends that. Raises
    BadInput where the first bytes contradict the suffix and, while reading, for damaged or cut compressed data and
    where a file ends before all that it had when it was opened: who cuts it meanwhile would leave a shorter input.
    Leaving the context raises it, too, where a file of this machine has other bytes by then than were read of it.
    """
    name = display_name(path)
    with contextlib.ExitStack() as stack:
        elsewhere = remote.is_remote(path)
        if path == STANDARD_INPUT:
            file: BinaryIO = sys.stdin.buffer
        elif elsewhere:
            file = stack.enter_context(remote.opened(path))
        else:
            file = stack.enter_context(open(path, "rb", buffering=0))
        length = None if elsewhere else _length_of(file)
        was_read: BytesRead | None = None
        if length is not None:
            start = file.tell() if within is None else within[0]
            was_read = BytesRead(name, None if within is None else path, file.fileno(), start)
        if within is None:
            raw = _Raw(name, file, length, on_bytes, was_read)
        else:
            raw = _Raw(name, _Bounded(file, *within), within[1] - within[0], on_bytes, was_read)
        head = raw.peek(_HEAD_BYTES)
        said = SUFFIXES.get(os.path.splitext(remote.naming_part(path))[1].lower())
        found = packing_of(head)
        if said is not None and said != found:
            raise BadInput(f"{name}: found first bytes {head[:4].hex(' ') or 'none'}, expected {said} data")
        kind = found if by_magic else said
        bare: _Raw | _Unpacked = raw
        size = None
        if kind is not None:
            bare = _Unpacked(name, UNPACK[kind](io.BufferedReader(raw, _BUFFER_BYTES)))
        elif elsewhere:
            size = remote.size(path)
        elif path != STANDARD_INPUT:
            size = length
        codec = marked(bare.peek(MARK_BYTES)) if is_text else None
        if codec is not None and codec != "utf-8-sig":
            bare, size = _Unpacked(name, Chunks(_as_utf8(bare, codec)).fill), None
        read: _Raw | _Unpacked | _Ahead = bare
        is_whole = size is not None and not elsewhere and within is None
        with contextlib.ExitStack() as reading:
            if reads_ahead and bare is not raw:
                read = reading.enter_context(contextlib.closing(_Ahead(bare)))
            yield Stream(name, io.BufferedReader(read, _BUFFER_BYTES), size, file.fileno() if is_whole else None)
        if was_read is not None:
            was_read.expect_same()


def plain_file(path: str, limit: int) -> bytes | None:
    """All bytes of a file of this machine that is not packed; None where open_stream has more to do, or to say.

    A stream of a file of 4 KiB takes 30 us of a processor more.
    """
    if path == STANDARD_INPUT or remote.is_remote(path) or os.path.splitext(path)[1].lower() in SUFFIXES:
        return None
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        return None
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # as it may be a pipe by now, which nobody writes to
    try:
        before = os.fstat(file)
        if not stat.S_ISREG(before.st_mode):
            return None
        with _named(display_name(path)):
            data = os.read(file, status.st_size + 1)
        if look_of(os.fstat(file)) != look_of(before):
            return None
    finally:
        os.close(file)
    # Of another size it has changed meanwhile, or tells none.
    return data if len(data) == status.st_size and packing_of(data[:_HEAD_BYTES]) is None else None


def packing_of(head: bytes) -> str | None:
    """Which compression the first bytes are the mark of."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    # A Zstandard frame, or one of the skippable frames that parallel compressors write first.
    if head.startswith(ZSTD_FRAME) or is_skippable(head):
        return "zstd"
    # Behind the digit comes the mark of a block, or of the end where there is none.
    if head.startswith(b"BZh") and head[4:] in (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"):
        return "bzip2"
    return "xz" if head.startswith(b"\xfd7zXZ\x00") else None


def _length_of(file: BinaryIO) -> int | None:
    """How many bytes a file of this machine has from where it stands on; None of what is no file, such as a pipe.

    A program may have put anything in the place of standard input: what unpacks a file has its descriptor too. What
    takes no room on a disk, as a file of /sys, has another size than it tells, or as many zeros.
    """
    bare = file.raw if isinstance(file, io.BufferedReader | io.BufferedRandom) else file
    if not isinstance(bare, io.FileIO):
        return None
    status = os.fstat(bare.fileno())
    return status.st_size - file.tell() if stat.S_ISREG(status.st_mode) and status.st_blocks else None


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """The system's errors name the file that is read."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, name) from None


class _Bounded(io.RawIOBase):
    """The bytes of a file from one place to another. It does not own the file."""

    def __init__(self, file: Any, start: int, end: int) -> None:
        file.seek(start)
        self._file, self._left = file, end - start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")[: self._left]
        count: int = self._file.readinto(view) or 0
        self._left -= count
        return count


class _Raw(io.RawIOBase):
    """Bytes as they are stored: shows the first ahead, and counts them. It does not own the file.

    name: in the system's errors, which know none of an open file. least: how many there are at least, as far as that is
    known. was_read: told of what is read, where there is one.
    """

    def __init__(
        self, name: str, file: Any, least: int | None, on_bytes: OnBytes | None, was_read: BytesRead | None
    ) -> None:
        # readinto1 asks a buffered file (standard input) for what is there, instead of waiting for all.
        self._given: Callable[[Any], int | None] = getattr(file, "readinto1", None) or file.readinto
        self._name = name
        self._least, self._count = least or 0, 0
        self._on_bytes, self._was_read = on_bytes, was_read
        self._head = b""

    def readable(self) -> bool:
        return True

    def _fill(self, room: Any) -> int:
        with _named(self._name):
            count = self._given(room) or 0
        self._count += count
        if not count and len(room) and self._count < self._least:
            found = f"its end after {self._count} bytes"
            expected = f"{self._least}, as there were when it was opened: it was cut while it was read"
            raise BadInput(f"{self._name}: found {found}, expected {expected}", "file that was cut")
        if self._was_read is not None:
            self._was_read.add(memoryview(room)[:count])
        return count

    def peek(self, count: int) -> bytes:
        """The first bytes, fewer where there are no more; read gives them again."""
        head = bytearray(self._head)
        while len(head) < count:
            rest = bytearray(count - len(head))
            size = self._fill(rest)
            if not size:
                break
            head += rest[:size]
        self._head = bytes(head)
        return self._head[:count]

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
        else:
            count = self._fill(view)
        if self._on_bytes is not None and count:
            self._on_bytes(count)
        return count


class _Unpacked(io.RawIOBase):
    """Decompressed bytes; whatever the decompressor calls a fault is BadInput with the name of the input."""

    def __init__(self, name: str, fill: Fill) -> None:
        self._name = name
        self._fill = fill
        self._held = memoryview(b"")  # of what was decompressed, which room was too small for

    def readable(self) -> bool:
        return True

    def peek(self, count: int) -> bytes:
        """The first bytes, fewer where there are no more; read gives them again."""
        head = bytearray()
        while len(head) < count and (chunk := self._next()):
            head += chunk
        self._held = memoryview(bytes(head))
        return bytes(head[:count])

    def _next(self) -> memoryview:
        """The next bytes; none at the end."""
        room = memoryview(bytearray(ROOM_BYTES))
        return room[: self._filled(room)]

    def _filled(self, room: memoryview) -> int:
        try:
            return self._fill(room)
        except DamagedError as error:
            raise BadInput(f"{self._name}: {error}", "damaged file") from error

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        if not self._held:
            if len(view) >= ROOM_BYTES:
                return self._filled(view)
            self._held = self._next()
        count = min(len(view), len(self._held))
        view[:count] = self._held[:count]
        self._held = self._held[count:]
        return count


class _Ahead(io.RawIOBase):
    """What another stream has, read in a thread of its own while its user works with what came before.

    Closing it waits for what is under way there.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        self._every = ahead(_held(raw))
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        if not self._held:
            self._held = next(self._every, self._held)
        count = min(len(view), len(self._held))
        view[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        """Nothing more is read."""
        close_all(*([] if self.closed else [self._every.close]), super().close)


def _held(raw: io.RawIOBase) -> Generator[memoryview]:
    """The bytes of a stream, many at a time, in two places by turns; an error when all before it were given."""
    rooms = [bytearray(_AHEAD_BYTES + ROOM_BYTES) for _ in range(2)]
    count: int | None = 1
    while count:
        rooms.reverse()
        room, end = memoryview(rooms[0]), 0
        failure: Exception | None = None
        while count and end < _AHEAD_BYTES:
            try:
                count = raw.readinto(room[end:])
            except Exception as error:
                failure, count = error, None
            end += count or 0
        if end:
            yield room[:end]
        if failure is not None:
            raise failure


def _as_utf8(raw: io.RawIOBase, codec: str) -> Iterator[bytes]:
    """The bytes of raw, a text in codec, as UTF-8."""
    decoder = codecs.getincrementaldecoder(codec)()
    chunk: bytes | None = b"-"
    while chunk:
        chunk = raw.read(_BUFFER_BYTES)
        try:
            yield decoder.decode(chunk or b"", not chunk).encode()
        except UnicodeDecodeError as error:
            name = codec.upper()
            raise DamagedError(f"found bytes that are no {name}, expected {name}, as the first of them say") from error
