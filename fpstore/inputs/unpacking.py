"""Owns the decompressors: what makes the bytes of compressed ones, frame after frame, in memory of bounded size.

Data that is damaged, or cut short anywhere, is an error, never a shorter input.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from fpstore.inputs.errors import cut
from fpstore.text.packages import need

# What is decompressed at a time has no more room than this.
ROOM_BYTES = 1 << 20
# Of compressed input at a time. Some of xz stand for more than a thousand times as many.
_STEP_BYTES = 1 << 10
_GZIP_STEP_BYTES = 1 << 15  # what is behind the end of a member is copied
# Public dumps are packed with `zstd --long=31`. Of the window only what is used takes memory.
_MAX_WINDOW_BYTES = 1 << 31
_WHOLE_GZIP = "expected a whole gzip file"
_GZIP = 16 + zlib.MAX_WBITS  # what zlib calls the format
# Of Zstandard (RFC 8878). A block stands for 128 KiB at most, so what so many of them do has room.
_BLOCKS = ROOM_BYTES >> 17
ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_HEADER_BYTES, _CHECKSUM_BYTES = 3, 4
_HAS_CHECKSUM = 4
_RUN = 1  # the type of a block that is one byte, again and again
_DICTIONARY_BYTES = 0, 1, 2, 4
_SIZE_BYTES = 0, 2, 4, 8

# Puts the next bytes into a view of ROOM_BYTES at least, and says how many they are; 0 at the end.
Fill = Callable[[memoryview], int]


class DamagedError(Exception):
    """Compressed data is damaged or cut short; becomes BadInput where the name of the input is known."""


class Chunks:
    """Fills views with bytes that come in chunks of any size."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = filter(None, chunks)
        self._chunk = memoryview(b"")

    def fill(self, view: memoryview) -> int:
        """As Fill says."""
        if not self._chunk:
            self._chunk = memoryview(next(self._chunks, b""))
        count = min(len(view), len(self._chunk))
        view[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        return count


class _EndError(Exception):
    """The compressed bytes have ended inside of a frame."""


class _ZstdFrames:
    """What the package's stream reader reads: Zstandard frames, so many blocks at a time.

    It takes a frame that is cut short for the end of the data. So frames are followed here, by the sizes of their
    blocks alone. is_inside: whether all that there was ends inside of one.
    """

    def __init__(self, packed: io.BufferedReader) -> None:
        self._packed = packed
        self._step: list[bytes] = []
        self._blocks = 0  # in that step
        self._steps = self._walk()
        self.is_inside = False

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, which stand for ROOM_BYTES at most, however many are wanted; none at the end."""
        return next(self._steps, b"")

    def _walk(self) -> Iterator[bytes]:
        with suppress(_EndError):
            while magic := self._packed.read(len(ZSTD_FRAME)):
                if magic != ZSTD_FRAME and self._step:  # what may be refused takes nothing with it
                    yield self._taken()
                self._step.append(magic)
                self.is_inside = True
                yield from self._walk_blocks() if magic == ZSTD_FRAME else self._walk_data(magic)
                self.is_inside = False
        if self._step:
            yield self._taken()

    def _walk_blocks(self) -> Iterator[bytes]:
        """Those of a frame, behind its first bytes."""
        (told,) = self._take(1)
        is_single = told >> 5 & 1  # and has a size in place of a window
        size_bytes = _SIZE_BYTES[told >> 6] or is_single
        header = self._take(1 - is_single + _DICTIONARY_BYTES[told & 3] + size_bytes + _HEADER_BYTES)[-_HEADER_BYTES:]
        is_last = False
        while not is_last:
            block = int.from_bytes(header, "little")
            is_last = bool(block & 1)
            size = 1 if block >> 1 & 3 == _RUN else block >> 3
            header = self._take(size if is_last else size + _HEADER_BYTES)[-_HEADER_BYTES:]
            self._blocks += 1
            if self._blocks == _BLOCKS:
                yield self._taken()
        if told & _HAS_CHECKSUM:
            self._take(_CHECKSUM_BYTES)

    def _walk_data(self, magic: bytes) -> Iterator[bytes]:
        """Those of a frame without blocks; of what is no frame all that is left, for the package to refuse."""
        left = int.from_bytes(self._take(4), "little") if is_skippable(magic) else None
        while left is None or left:
            step = _STEP_BYTES if left is None else min(left, _STEP_BYTES)
            self._take(step)
            left = None if left is None else left - step
            yield self._taken()

    def _take(self, count: int) -> bytes:
        """So many bytes more."""
        data = self._packed.read(count)
        self._step.append(data)
        if len(data) < count:
            raise _EndError
        return data

    def _taken(self) -> bytes:
        step = b"".join(self._step)
        self._step.clear()
        self._blocks = 0
        return step


def is_skippable(head: bytes) -> bool:
    """Whether a Zstandard frame begins so that has something for other programs."""
    return head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5


def _unpack_zstd(packed: io.BufferedReader) -> Fill:
    zstandard = need("zstandard", "zstd", "reading .zst")
    frames = _ZstdFrames(packed)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    reader = decompressor.stream_reader(frames, read_across_frames=True, closefd=False)

    def fill(view: memoryview) -> int:
        try:
            count: int = reader.readinto1(view)
        except zstandard.ZstdError as error:
            raise _damaged("zstd", error) from error
        if not count and frames.is_inside:
            raise _cut_short("zstd")
        return count

    return fill


def _unpack_gzip(packed: io.BufferedReader) -> Fill:
    return Chunks(_members(packed)).fill


def _members(packed: io.BufferedReader) -> Iterator[bytes]:
    """What the members of a gzip file hold, one after the other; zlib checks their checksums and sizes."""
    member = None
    while step := packed.read1(_GZIP_STEP_BYTES):
        while step:
            if member is None:
                step = step.lstrip(b"\0")  # with which a file may be filled up
                if not step:
                    break
                member = zlib.decompressobj(_GZIP)
            try:
                chunk = member.decompress(step, ROOM_BYTES)
            except zlib.error as error:
                raise DamagedError(f"found damaged gzip data ({cut(error)}), {_WHOLE_GZIP}") from error
            step = member.unconsumed_tail
            if member.eof:
                step, member = member.unused_data, None
            yield chunk
    if member is not None:
        raise DamagedError(f"found damaged gzip data (the file ends inside of it), {_WHOLE_GZIP}")


def _unpack_bzip2(packed: io.BufferedReader) -> Fill:
    return Chunks(_frames(packed, "bzip2", bz2.BZ2Decompressor, OSError)).fill


def _unpack_xz(packed: io.BufferedReader) -> Fill:
    def make() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_WINDOW_BYTES)

    # Between streams there may be zeros, in fours.
    return Chunks(_frames(packed, "xz", make, lzma.LZMAError, padding=b"\0")).fill


def _frames(
    packed: io.BufferedReader, kind: str, make: Callable[[], Any], failure: type[Exception], padding: bytes = b""
) -> Iterator[bytes]:
    """What several frames hold, one after the other; make: what decompresses one, and raises failure for damage."""
    frame = None
    while step := packed.read(_STEP_BYTES):
        while step:
            if frame is None:
                step = step.lstrip(padding) if padding else step
                if not step:
                    break
                frame = make()
            try:
                chunk = frame.decompress(step)
            except failure as error:
                raise _damaged(kind, error) from error
            step = b""
            if frame.eof:
                step, frame = frame.unused_data, None
            yield chunk
    if frame is not None:
        raise _cut_short(kind)


def _damaged(kind: str, error: Exception) -> DamagedError:
    return DamagedError(f"found damaged {kind} data ({cut(error)}), expected whole {kind} frames")


def _cut_short(kind: str) -> DamagedError:
    return DamagedError(f"found the end of the file inside a {kind} frame, expected whole {kind} frames")


UNPACK: dict[str, Callable[[io.BufferedReader], Fill]] = {
    "gzip": _unpack_gzip,
    "zstd": _unpack_zstd,
    "bzip2": _unpack_bzip2,
    "xz": _unpack_xz,
}
