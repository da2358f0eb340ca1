"""Files of segments: a new one with a checksum for each page, an old one's footer and mapping, one read back whole."""

import contextlib
import errno
import mmap
import os
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from fpstore import format as layout
from fpstore._codec import begin_to_sync, crc32c, page_checksums
from fpstore.disk import UNCACHED, Passage, Place, naming, placed, write_all
from fpstore.errors import CorruptStore, Naming, UnsupportedVersion
from fpstore.format import Footer
from fpstore.threads import Line, Piece, Threads
from fpstore.types import Array, Buffer, Bytes

# A file is written in pieces of so many bytes, at multiples of that. Linux keeps each in a page of that size where the
# file system can (ext4 since 6.16), and maps it whole: a search has fewer addresses to translate (docs/design.md).
WRITE_BYTES = 1 << 21
READ_BACK_BYTES = 1 << 18  # stays in the second-level cache between the copy and the checksums
MIN_STRETCH_PIECES = 32  # of less, a thread has read its own before another has begun


class WrittenBytes(NamedTuple):
    """What a file has so far: its first `end` bytes, with a checksum for each page, and some that are of no meaning."""

    path: Path
    fd: int
    end: int
    mapped_bytes: int
    checksums: Bytes
    uncached: bool


class ChecksummedFile:
    """A new file written from front to back, with the CRC-32C of each of its pages."""

    def __init__(self, at: Place, threads: int = 1, *, uncached: bool = False) -> None:
        """Create it; FileExistsError if it is there.

        threads: beyond one, a piece is written while the next is filled. So an error of the disk is raised by a later
        call, at the latest by the one for the checksums. uncached: as of disk.write_all.
        """
        self._path, self._uncached = at.path, uncached
        # Before there is a file, which would be left where there is no memory.
        self._buffer = np.empty(WRITE_BYTES, dtype=np.uint8).data
        self._spare = np.empty(WRITE_BYTES, dtype=np.uint8).data if threads > 1 else None
        self._line, self._hints = Line(), Line()
        self._under_way: Piece | None = None
        self._filled = 0
        self._checksums: list[Array] = []
        self.offset = self._flushed = 0
        self._fd = at.folder.open_file(at.name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def write(self, data: Buffer | Bytes) -> None:
        """Append bytes."""
        view = _bytes_of(data)
        self.offset += len(view)
        room = len(self._buffer)
        while len(view):
            if self._filled == 0 and len(view) >= room:
                self.finish_piece()
                self._flush(view[:room])
                view = view[room:]
                continue
            taken = min(room - self._filled, len(view))
            self._buffer[self._filled : self._filled + taken] = view[:taken]
            self._filled += taken
            view = view[taken:]
            if self._filled == room:
                self._flush_buffer()

    def align(self) -> int:
        """Pad with zeros to where a region may start, and return that offset."""
        self.write(bytes(layout.align64(self.offset) - self.offset))
        return self.offset

    def checksums(self) -> Array:
        """CRC-32C of every page so far, uint32[pages]; what follows is not covered by them."""
        self._flush_buffer()
        self.finish_piece()
        return np.concatenate(self._checksums)

    def so_far(self) -> WrittenBytes:
        """What was written, readable from the file, until more is."""
        self.finish_piece()
        held = self._buffer[: self._filled]
        # The next piece takes its place, and that of the zeros, where a reader of whole words goes on.
        tail = memoryview(bytes(held) + bytes(layout.FOOTER_BYTES))
        with naming(self._path):
            write_all(self._fd, tail, self.offset - self._filled)
        sums = np.concatenate([*self._checksums, page_checksums(held)]).astype("<u4").view(np.uint8)
        mapped_bytes = self.offset + layout.FOOTER_BYTES
        return WrittenBytes(self._path, self._fd, self.offset, mapped_bytes, sums, self._uncached)

    def finish_piece(self) -> None:
        """Until the piece before is written; what that has raised."""
        if self._under_way is not None:
            self._under_way.finish()
            # Not before: what failed is told again, and who closes the file waits where this was interrupted.
            self._under_way = None

    def write_uncovered(self, data: bytes) -> None:
        """Append bytes after checksums() has been called."""
        self._write(memoryview(data))
        self.offset += len(data)

    def sync(self) -> None:
        """Make what was written durable."""
        with naming(self._path):
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file, once nobody writes to it any more."""
        try:
            self._wait()
        finally:
            # A Ctrl-C may end the waiting before it begins; and the next file has the number of one that is closed.
            self._wait()
            fd, self._fd = self._fd, -1  # also where closing fails: no longer ours
            if fd >= 0:
                os.close(fd)

    def _wait(self) -> None:
        """Until nobody is at the file."""
        try:
            self._line.wait()
        finally:
            self._hints.wait()

    def _flush_buffer(self) -> None:
        data, self._filled = self._buffer[: self._filled], 0
        self.finish_piece()
        if self._spare is None:
            self._flush(data)
            return
        self._buffer, self._spare = self._spare, self._buffer
        self._under_way = self._line.give(partial(self._flush, data))

    def _flush(self, data: memoryview) -> None:
        self._checksums.append(page_checksums(data))
        self._write(data)
        if len(data) >= WRITE_BYTES and self._spare is not None:
            # At the end there is less to wait for. A line of its own: a disk that is busy has it wait.
            self._hints.give(partial(begin_to_sync, self._fd, self._flushed, len(data)))
        self._flushed += len(data)

    def _write(self, data: memoryview) -> None:
        with naming(self._path):
            write_all(self._fd, data, uncached=self._uncached)


def check_file(at: Path | Place, threads: int = 1, *, uncached: bool = False) -> None:
    """Read a segment file from front to back and compare every page with its checksum. CorruptStore if one differs.

    Reads, rather than maps, so that the memory it takes stays small. threads: that share it, a stretch each. uncached:
    the system's cache does not hold the file, and is not to.
    """
    with placed(at) as place, open(place.folder.open_file(place.name), "rb") as file, Naming(place.path):
        size = os.fstat(file.fileno()).st_size
        footer_offset = max(0, size - layout.FOOTER_BYTES)
        footer = Footer.unpack(_read_at(file.fileno(), footer_offset, layout.FOOTER_BYTES), size)
        sums = _read_at(file.fileno(), footer.checksums_offset, footer.footer_offset - footer.checksums_offset)
        checksums_bytes = footer.roots_offset - footer.checksums_offset
        expected = np.frombuffer(sums[:checksums_bytes], dtype="<u4")
        roots = sums[checksums_bytes:]
        _expect_roots(roots, footer)
        if page_checksums(sums[:checksums_bytes]).astype("<u4").tobytes() != roots:
            raise CorruptStore("checksums", "a page of another checksum", "that of its root")
        stretches = _stretches(footer.checksums_offset, threads)
        with closing(Threads(len(stretches))) as all_threads:
            work = partial(_error_of, file.fileno(), expected, uncached)
            errors = all_threads.map(work, stretches)
        # The first one, whoever was the first to find one.
        for error in errors:
            if error is not None:
                raise error


def _stretches(size: int, threads: int) -> list[range]:
    """Where the pieces begin that are read back: one range of them for each thread, in order."""
    count = max(1, min(threads, size // (MIN_STRETCH_PIECES * READ_BACK_BYTES)))
    ends = [size * number // count // READ_BACK_BYTES * READ_BACK_BYTES for number in range(count)] + [size]
    return [range(first, end, READ_BACK_BYTES) for first, end in pairwise(ends)]


def _error_of(fd: int, expected: Array, uncached: bool, stretch: range) -> CorruptStore | None:
    try:
        _check_stretch(fd, expected, uncached, stretch)
    except CorruptStore as error:
        return error
    return None


def _check_stretch(fd: int, expected: Array, uncached: bool, stretch: range) -> None:
    passage = Passage(fd, stretch.start, stretch.stop) if uncached else None
    for offset in stretch:
        if passage:
            passage.come_to(offset)
        length = min(READ_BACK_BYTES, stretch.stop - offset)
        found = page_checksums(_read_at(fd, offset, length))
        first = offset // layout.PAGE_BYTES
        different = np.nonzero(found != expected[first : first + len(found)])[0]
        if len(different):
            page = int(different[0])
            where = f"page at byte {(first + page) * layout.PAGE_BYTES}, checksum"
            raise CorruptStore(where, f"{found[page]:#010x}", f"{expected[first + page]:#010x}")


class FileWriter:
    """Writes a file of pages with checksums. Use as a context: leaving it before _seal() removes the file."""

    def __init__(self, at: Path | Place, threads: int = 1, *, uncached: bool = False) -> None:
        """Create the file; FileExistsError if it is there. threads: that write it, and read it back.

        uncached: it is written and read back past the system's cache, where the system can do that.
        """
        self._held = contextlib.ExitStack()
        self._at = self._held.enter_context(placed(at))
        self._finished, self._threads = False, threads
        # Or what the cache holds already would be let go of.
        self._uncached = uncached and UNCACHED > 0
        try:
            self._file = ChecksummedFile(self._at, threads, uncached=self._uncached)
        except BaseException:
            self._held.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            try:
                self._file.close()
            finally:
                if not self._finished:
                    self._at.folder.unlink(self._at.name, missing_ok=True)

    def _seal(self, summary: bytes, table_count: int) -> int:
        """Write the end of the file, make it durable, read it back and check it; the checksum of its footer.

        CorruptStore where the file does not read back as it was written.
        """
        summary_offset = self._file.align()
        self._file.write(summary)
        self._file.align()
        checksums = self._file.checksums().astype("<u4").tobytes()
        roots = page_checksums(checksums).astype("<u4").tobytes()
        footer = Footer.locate(summary_offset, table_count, crc32c(roots)).pack()
        self._file.write_uncovered(checksums + roots + footer)
        self._file.sync()
        self._file.close()
        self._at.folder.sync()
        check_file(self._at, self._threads, uncached=self._uncached)
        self._finished = True
        return int.from_bytes(footer[-layout.CRC_BYTES :], "little")


def footer_crc(fd: int) -> tuple[int, int | None]:
    """The size of a file, and the checksum that its last bytes would be if it is a segment; None where it is none."""
    size = os.fstat(fd).st_size
    try:
        footer = Footer.unpack(_read_at(fd, max(0, size - layout.FOOTER_BYTES), layout.FOOTER_BYTES), size)
    except (CorruptStore, UnsupportedVersion):
        return size, None
    return size, int.from_bytes(footer.pack()[-layout.CRC_BYTES :], "little")


def read_footer(fd: int, file_bytes: int) -> Footer:
    """The footer, and the roots checked against it."""
    if file_bytes < layout.HEADER_BYTES + layout.FOOTER_BYTES:
        raise CorruptStore("file", f"{file_bytes} bytes", f"{layout.HEADER_BYTES + layout.FOOTER_BYTES} or more")
    footer = Footer.unpack(_read_at(fd, file_bytes - layout.FOOTER_BYTES, layout.FOOTER_BYTES), file_bytes)
    roots = _read_at(fd, footer.roots_offset, footer.footer_offset - footer.roots_offset)
    _expect_roots(roots, footer)
    return footer


def _expect_roots(roots: bytes, footer: Footer) -> None:
    if crc32c(roots) != footer.roots_crc:
        raise CorruptStore("roots, checksum", f"{crc32c(roots):#010x}", f"{footer.roots_crc:#010x}")


def let_go(mapping: mmap.mmap) -> None:
    """Unmap what an interrupted call may look at still: then it goes when that call is forgotten."""
    with contextlib.suppress(BufferError):
        mapping.close()


def map_file(fd: int, file_bytes: int) -> mmap.mmap:
    """The whole file, mapped for reading here and there."""
    try:
        mapped = mmap.mmap(fd, file_bytes, access=mmap.ACCESS_READ)
    except ValueError:
        raise CorruptStore("file", "fewer bytes", f"the {file_bytes} that it had when it was opened") from None
    mapped.madvise(mmap.MADV_RANDOM)
    return mapped


def read_readable(fd: int, offset: int, length: int, unread: list[int]) -> bytes:
    """Bytes of a file, zeros for the pages that its disk does not give back; their numbers are added to unread."""
    try:
        data = os.pread(fd, length, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        if length > layout.PAGE_BYTES:
            starts = range(offset, offset + length, layout.PAGE_BYTES)
            pieces = (read_readable(fd, at, min(layout.PAGE_BYTES, offset + length - at), unread) for at in starts)
            return b"".join(pieces)
        unread.append(offset // layout.PAGE_BYTES)
        data = b""
    return data + bytes(length - len(data))


def _read_at(fd: int, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    if len(data) != length:
        raise CorruptStore(f"byte {offset}", f"{len(data)} bytes", f"{length} from there on")
    return data


def _bytes_of(data: Buffer | Bytes) -> memoryview:
    return data.data.cast("B") if isinstance(data, np.ndarray) else memoryview(data)
