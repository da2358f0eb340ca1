"""Owns the way from a path to its bytes: standard input, gzip and Zstandard, lines of bounded length.

Everything is streamed, and a stream that is cut short is an error, never a shorter input.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from fpstore.inputs.errors import BadInput
from fpstore.text import need

STANDARD_INPUT = "-"
SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
MAX_LINE_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 20
# Of compressed input at a time. A Zstandard block of 4 bytes can stand for 128 KiB, so this for 32 MiB.
_ZSTD_STEP_BYTES = 1 << 10

OnBytes = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Stream:
    """The bytes of one input, decompressed.

    name: for messages. plain_bytes: how many bytes there are, None where only reading tells.
    """

    name: str
    reader: io.BufferedReader
    plain_bytes: int | None

    def line(self, number: int) -> bytes:
        """The next line, with its end; empty at the end of the input. number: its own, for messages.

        Raises BadInput for one longer than MAX_LINE_BYTES.
        """
        line = self.reader.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            where = f"{self.name}, line {number}"
            raise BadInput(f"{where}: found more than {MAX_LINE_BYTES} bytes, expected the end of the line")
        return line

    def whole(self, limit: int) -> bytes:
        """All the bytes that are left. Raises BadInput for more than limit."""
        data = bytearray()
        while chunk := self.reader.read(_BUFFER_BYTES):
            data += chunk
            if len(data) > limit:
                raise BadInput(f"{self.name}: found more than {limit} bytes, expected a smaller document")
        return bytes(data)


class Lines:
    """The lines of a stream that are left, counted from 1; a byte order mark before the first is dropped."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.number = 0
        self.bytes_read = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> bytes:
        line = self._stream.line(self.number + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.bytes_read += len(line)
        return line.removeprefix(codecs.BOM_UTF8) if self.number == 1 else line


def display_name(path: str) -> str:
    """What messages call the input at path."""
    return "standard input" if path == STANDARD_INPUT else path


@contextlib.contextmanager
def open_stream(path: str, on_bytes: OnBytes | None, by_magic: bool = True) -> Iterator[Stream]:
    """The decompressed bytes of the file at path, or of standard input for `-`.

    on_bytes: called with the count of bytes as they are read, still compressed. by_magic: whether the first
    bytes tell that it is compressed, else only the suffix does. Raises BadInput where the first bytes
    contradict the suffix and, while reading, for damaged or cut compressed data.
    """
    name = display_name(path)
    with contextlib.ExitStack() as stack:
        if path == STANDARD_INPUT:
            file: BinaryIO = sys.stdin.buffer
        else:
            file = stack.enter_context(open(path, "rb", buffering=0))
        raw = _Raw(file, on_bytes)
        head = raw.peek_head()
        said = SUFFIXES.get(os.path.splitext(path)[1].lower())
        found = _kind(head)
        if said is not None and said != found:
            raise BadInput(f"{name}: found first bytes {head.hex(' ') or 'none'}, expected {said} data")
        kind = found if by_magic else said
        if kind is None:
            status = None if path == STANDARD_INPUT else os.fstat(file.fileno())
            size = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None
            yield Stream(name, io.BufferedReader(raw, _BUFFER_BYTES), size)
        else:
            unpacked = _Unpacked(name, _UNPACK[kind](raw))
            yield Stream(name, io.BufferedReader(unpacked, _BUFFER_BYTES), None)


def _kind(head: bytes) -> str | None:
    """Which compression the first four bytes are the mark of."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    # A Zstandard frame, or one of the skippable frames that parallel compressors write first.
    if head == b"\x28\xb5\x2f\xfd" or (head[1:] == b"\x2a\x4d\x18" and head[0] >> 4 == 5):
        return "zstd"
    return None


class _Raw(io.RawIOBase):
    """Bytes as they are stored: shows the first four ahead, and counts them. It does not own the file."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes | None) -> None:
        # readinto1 asks a buffered file (standard input) for what is there, instead of waiting for all.
        self._fill: Callable[[Any], int | None] = getattr(file, "readinto1", None) or file.readinto  # type: ignore[attr-defined]
        self._on_bytes = on_bytes
        self._head = b""

    def readable(self) -> bool:
        return True

    def peek_head(self) -> bytes:
        """The first four bytes, fewer where there are no more; read gives them again."""
        head = bytearray()
        while len(head) < 4:
            rest = bytearray(4 - len(head))
            count = self._fill(rest)
            if not count:
                break
            head += rest[:count]
        self._head = bytes(head)
        return self._head

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
        else:
            count = self._fill(view) or 0
        if self._on_bytes is not None and count:
            self._on_bytes(count)
        return count


class _Unpacked(io.RawIOBase):
    """Decompressed bytes; whatever the decompressor calls a fault is BadInput with the name of the input."""

    def __init__(self, name: str, chunks: Iterator[bytes]) -> None:
        self._name = name
        self._chunks = chunks
        self._chunk = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._chunk:
            try:
                self._chunk = memoryview(next(self._chunks))
            except StopIteration:
                return 0
            except _DamagedError as error:
                raise BadInput(f"{self._name}: {error}") from error
        count = min(len(view), len(self._chunk))
        view[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        return count


class _DamagedError(Exception):
    """Compressed data is damaged or cut short; becomes BadInput where the name of the input is known."""


def _unpack_gzip(raw: _Raw) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BufferedReader(raw, _BUFFER_BYTES), mode="rb") as file:
        while True:
            try:
                chunk = file.read(_BUFFER_BYTES)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise _DamagedError(f"found damaged gzip data ({error}), expected a whole gzip file") from error
            if not chunk:
                return
            yield chunk


def _unpack_zstd(raw: _Raw) -> Iterator[bytes]:
    zstandard = need("zstandard", "zstd", "reading .zst")
    # Frame by frame: the package's own stream reader takes a frame that is cut short for the end of the data.
    decompressor = zstandard.ZstdDecompressor()
    packed = io.BufferedReader(raw, _BUFFER_BYTES)
    frame = None
    while step := packed.read(_ZSTD_STEP_BYTES):
        while step:
            frame = frame or decompressor.decompressobj()
            try:
                chunk = frame.decompress(step)
            except zstandard.ZstdError as error:
                raise _DamagedError(f"found damaged zstd data ({error}), expected whole zstd frames") from error
            step = b""
            if frame.eof:
                step, frame = frame.unused_data, None
            yield chunk
    if frame is not None:
        raise _DamagedError("found the end of the file inside a zstd frame, expected whole zstd frames")


_UNPACK: dict[str, Callable[[_Raw], Iterator[bytes]]] = {"gzip": _unpack_gzip, "zstd": _unpack_zstd}
