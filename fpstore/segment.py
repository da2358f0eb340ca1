"""A segment: one immutable file with every table of one set of fingerprints, and their ids.

The writer appends in order and puts the footer last; the file opens only once that has been synced and read back.
The reader maps the file and checks the footer and the records; pages are checked when they are first used.
"""

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from fpstore import format as layout
from fpstore._codec import PackedWriter, crc32c, page_checksums
from fpstore._probe import IdColumn
from fpstore._view import SegmentView, TableCursor
from fpstore.errors import CorruptStore, UnsupportedVersion
from fpstore.format import Footer, Header, Region, SegmentRecord, Summary, TableRecord
from fpstore.plan import TablePlan
from fpstore.table import encode_table
from fpstore.types import Array, Buffer, Bytes, Ids, Keys, SortedKeys

READ_BACK_BYTES = 1 << 18  # stays in the second-level cache between the copy and the checksums


class ChecksummedFile:
    """A new file written from front to back, with the CRC-32C of each of its pages."""

    def __init__(self, path: Path) -> None:
        """Create path; FileExistsError if it is there."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._pending = bytearray()
        self._checksums: list[Array] = []
        self.offset = 0

    def write(self, data: Buffer | Bytes) -> None:
        """Append bytes."""
        view = _bytes_of(data)
        self.offset += len(view)
        if len(self._pending) + len(view) < layout.PAGE_BYTES:
            self._pending += view
            return
        if self._pending:
            missing = layout.PAGE_BYTES - len(self._pending)
            self._pending += view[:missing]
            view = view[missing:]
            self._flush(self._pending)
            self._pending = bytearray()
        whole = len(view) // layout.PAGE_BYTES * layout.PAGE_BYTES
        if whole:
            self._flush(view[:whole])
        self._pending += view[whole:]

    def align(self) -> int:
        """Pad with zeros to where a region may start, and return that offset."""
        self.write(bytes(layout.align64(self.offset) - self.offset))
        return self.offset

    def checksums(self) -> Array:
        """CRC-32C of every page so far, uint32[pages]; what follows is not covered by them."""
        self._flush(self._pending)
        self._pending = bytearray()
        return np.concatenate(self._checksums)

    def write_uncovered(self, data: bytes) -> None:
        """Append bytes after checksums() has been called."""
        write_all(self._fd, memoryview(data))
        self.offset += len(data)

    def sync(self) -> None:
        """Make what was written durable."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _flush(self, data: Buffer) -> None:
        self._checksums.append(page_checksums(data))
        write_all(self._fd, memoryview(data))


class SegmentWriter:
    """Writes a segment table by table. Use as a context: leaving it before finish() removes the file."""

    def __init__(self, path: Path, codec: str, slot_bits: int) -> None:
        """Create path; FileExistsError if it is there."""
        self.path = path
        self._codec = codec
        self._slot_bits = slot_bits
        self._file = ChecksummedFile(path)
        self._tables: list[TableRecord] = []
        self._key_count = 0
        self._ranks: Keys | None = None
        self._ids = SegmentRecord(0, 0, 0, layout.ID_KIND_NONE, 0, 0, 0, 0, 0, 0, 0)
        self._finished = False
        self._file.write(Header().pack())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if not self._finished:
            self.path.unlink(missing_ok=True)

    def add_table(
        self,
        table: TablePlan,
        keys: SortedKeys,
        *,
        with_ranks: bool = False,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        """Append the table of these keys: distinct fingerprints under the table's permutation, sorted."""
        payload_offset = self._file.align()
        encoded = encode_table(
            keys, self._codec, self._slot_bits, self._file.write, with_ranks=with_ranks, advance=advance
        )
        if self._tables and encoded.key_count != self._key_count:
            raise ValueError(f"table {len(self._tables)}: {encoded.key_count} keys, table 0 has {self._key_count}")
        self._key_count = encoded.key_count
        self._ranks = encoded.ranks if with_ranks else self._ranks
        directory_offset = self._file.align()
        self._file.write(encoded.directory)
        fence_count = len(encoded.fences) // layout.FENCE_BYTES
        fences_offset = self._file.align() if fence_count else 0
        self._file.write(encoded.fences)
        self._tables.append(
            TableRecord(
                table.prefix_mask,
                encoded.codec,
                encoded.slot_bits,
                encoded.rice_bits,
                table.flips,
                payload_offset,
                encoded.payload_bits,
                directory_offset,
                fences_offset,
                fence_count,
                encoded.code_lengths,
            )
        )

    def add_ids(
        self,
        id_count: int,
        id_least: int,
        id_most: int,
        counts: Callable[[], Iterator[Keys]],
        ids: Callable[[], Iterator[Ids]],
    ) -> None:
        """Append the ids, in table 0's order; table 0 was added with_ranks.

        Called for each pass: counts yields how many ids each fingerprint has (uint64), ids the ids themselves, the
        group of a fingerprint increasing; their chunks need not match. id_least, id_most: the smallest and the largest.
        """
        if self._ranks is None:
            raise ValueError("ids need table 0 added with_ranks")
        one_each = id_count == self._key_count and all(bool((chunk == 1).all()) for chunk in counts())
        rank_width = self._key_count.bit_length()
        ranks_offset = self._pack(rank_width, iter([self._ranks]))
        groups_offset = samples_offset = 0
        if not one_each:
            groups_offset = self._file.align()
            samples = self._write_groups(counts())
            samples_offset = self._file.align()
            self._file.write(samples.view(np.uint8))
        base = id_least if id_count else 0
        width = (id_most - base).bit_length() if id_count else 0
        values_offset = self._pack(width, (chunk - np.uint64(base) for chunk in ids()))
        kind = layout.ID_KIND_ONE if one_each else layout.ID_KIND_MANY
        offsets = (ranks_offset, groups_offset, samples_offset, values_offset)
        self._ids = SegmentRecord(0, 0, id_count, kind, width, rank_width, base, *offsets)

    def finish(self) -> int:
        """Write the footer, make the file durable, read it back and check it. Returns the footer's CRC-32C."""
        summary_offset = self._file.align()
        fields = {name: getattr(self._ids, name) for name in SegmentRecord.__slots__}
        fields |= {"table_count": len(self._tables), "key_count": self._key_count}
        self._file.write(Summary(SegmentRecord(**fields), tuple(self._tables)).pack())
        self._file.align()
        checksums = self._file.checksums().astype("<u4").tobytes()
        roots = page_checksums(checksums).astype("<u4").tobytes()
        footer = Footer.locate(summary_offset, len(self._tables), crc32c(roots)).pack()
        self._file.write_uncovered(checksums + roots + footer)
        self._file.sync()
        self._file.close()
        sync_folder(self.path.parent)
        check_file(self.path)
        self._finished = True
        return int.from_bytes(footer[-4:], "little")

    def _pack(self, width: int, arrays: Iterator[Keys]) -> int:
        offset = self._file.align()
        packed = PackedWriter(width)
        for values in arrays:
            self._file.write(packed.push(values))
        self._file.write(packed.finish())
        return offset

    def _write_groups(self, all_counts: Iterator[Keys]) -> Keys:
        """Write a 1 for each fingerprint and a 0 for each of its ids; return the ones before every 512 bits."""
        pending = np.empty(0, dtype=np.uint8)
        samples: list[Array] = []
        ones_before = 0
        for chunk in all_counts:
            counts = chunk.astype(np.int64)
            bits = np.zeros(len(counts) + int(counts.sum()), dtype=np.uint8)
            bits[np.cumsum(counts + 1) - (counts + 1)] = 1
            bits = np.concatenate([pending, bits])
            whole = len(bits) // layout.SAMPLE_BITS * layout.SAMPLE_BITS
            ones = bits[:whole].reshape(-1, layout.SAMPLE_BITS).sum(axis=1, dtype=np.uint64)
            samples.append(ones_before + np.cumsum(ones) - ones)
            ones_before += int(ones.sum())
            self._file.write(np.packbits(bits[:whole], bitorder="little"))
            pending = bits[whole:]
        if len(pending):
            samples.append(np.array([ones_before], dtype=np.uint64))
            self._file.write(np.packbits(pending, bitorder="little"))
        samples.append(np.array([ones_before + int(pending.sum())], dtype=np.uint64))
        return np.concatenate(samples).astype("<u8")


class Segment:
    """A segment open for reading. Opening reads the footer and the records, whatever the file's size."""

    def __init__(self, path: Path) -> None:
        """Map path. Raises CorruptStore, UnsupportedVersion, or the operating system's errors."""
        self.path = path
        try:
            with open(path, "rb") as file:
                self.file_bytes = os.fstat(file.fileno()).st_size
                self.footer = _read_footer(file.fileno(), self.file_bytes)
                self._map = _map_file(file.fileno(), self.file_bytes)
            try:
                self.summary = self._read_summary()
                self.record = self.summary.segment
                self.tables = self.summary.tables
                self.view = self._make_view(self.tables)
            except BaseException:
                self._map.close()
                raise
        except (CorruptStore, UnsupportedVersion) as error:
            raise type(error)(f"{path}: {error}") from None
        self.ids = IdColumn(self.view, self.record) if self.record.id_kind != layout.ID_KIND_NONE else None

    @property
    def key_count(self) -> int:
        """Distinct fingerprints."""
        return self.record.key_count

    @property
    def footer_crc(self) -> int:
        """The CRC-32C at the end of the file: it stands for all its bytes."""
        return int.from_bytes(self.footer.pack()[-4:], "little")

    def regions(self) -> tuple[Region, ...]:
        """Every byte of the file, in order."""
        return self.summary.regions(self.footer)

    def keys(self, table: int, first_slot: int = 0, end_slot: int | None = None) -> Iterator[Keys]:
        """The keys of a table, or of some of its slots, in order, in chunks; every check of the decoder on."""
        slots = 1 << self.tables[table].slot_bits
        cursor = TableCursor(self.view, table, first_slot, slots if end_slot is None else end_slot)
        count = 0
        while count <= self.key_count and len(chunk := cursor.read()):
            count += len(chunk)
            if count <= self.key_count:
                yield chunk
        if count > self.key_count or (first_slot == 0 and end_slot is None and count != self.key_count):
            raise CorruptStore(f"{self.path}: table {table}: {count} keys, expected {self.key_count}")

    def read(self, offset: int, length: int) -> bytes:
        """A copy of bytes of the file, which the caller knows to lie inside; their pages need not have been checked.

        CorruptStore where they are gone.
        """
        return self.view.read(offset, length)

    def size_now(self) -> int:
        """The size of the file as it is now; another than file_bytes is damage."""
        return self._map.size()

    def read_ahead(self, start: int, end: int) -> None:
        """Bytes [start, end), page-aligned, are about to be read in order."""
        with suppress(OSError):  # a hint; reading says what is wrong
            self._map.madvise(mmap.MADV_WILLNEED, start, end - start)

    def forget(self, start: int, end: int) -> None:
        """Bytes [start, end), page-aligned, will not be needed soon: they need not count as this process's memory."""
        self._map.madvise(mmap.MADV_DONTNEED, start, end - start)

    def close(self) -> None:
        """Unmap; calls under way in other threads finish first."""
        self.view.close()
        while self.view.users:
            time.sleep(0.001)
        self._map.close()

    def _read_summary(self) -> Summary:
        """The records, from pages whose checksums hold; the roots were checked with the footer."""
        view, footer = self._make_view(()), self.footer
        try:
            view.check(0, layout.HEADER_BYTES, "header")
            view.check(footer.summary_offset, footer.checksums_offset, "summary")
            Header.unpack(view.read(0, layout.HEADER_BYTES))
            return Summary.unpack(view.read(footer.summary_offset, footer.summary_bytes), footer)
        finally:
            view.close()

    def _make_view(self, tables: tuple[TableRecord, ...]) -> SegmentView:
        for index, table in enumerate(tables):
            if table.codec != tables[0].codec:
                raise CorruptStore(f"table {index}: codec is {table.codec}, expected {tables[0].codec} as in table 0")
        footer = self.footer
        view = SegmentView(self._map, footer.checksums_offset, footer.roots_offset, footer.footer_offset, tables)
        # From here on the view notices when the file's end changes; until here the footer was what it is.
        try:
            if view.read(footer.footer_offset, layout.FOOTER_BYTES) != footer.pack():
                raise CorruptStore("footer: changed while the file was opened")
        except BaseException:
            view.close()
            raise
        return view


def check_file(path: Path) -> None:
    """Read a segment file from front to back and compare every page with its checksum. CorruptStore if one differs.

    Reads, rather than maps, so that the memory it takes stays small.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            footer_offset = max(0, size - layout.FOOTER_BYTES)
            footer = Footer.unpack(_read_at(file.fileno(), footer_offset, layout.FOOTER_BYTES), size)
            sums = _read_at(file.fileno(), footer.checksums_offset, footer.footer_offset - footer.checksums_offset)
            checksums_bytes = footer.roots_offset - footer.checksums_offset
            expected = np.frombuffer(sums[:checksums_bytes], dtype="<u4")
            roots = sums[checksums_bytes:]
            if crc32c(roots) != footer.roots_crc:
                raise CorruptStore("roots: their checksum differs from the footer's")
            if page_checksums(sums[:checksums_bytes]).astype("<u4").tobytes() != roots:
                raise CorruptStore("checksums: a page of them differs from its root")
            for offset in range(0, footer.checksums_offset, READ_BACK_BYTES):
                length = min(READ_BACK_BYTES, footer.checksums_offset - offset)
                found = page_checksums(_read_at(file.fileno(), offset, length))
                first = offset // layout.PAGE_BYTES
                different = np.nonzero(found != expected[first : first + len(found)])[0]
                if len(different):
                    at = (first + int(different[0])) * layout.PAGE_BYTES
                    raise CorruptStore(f"the page at byte {at} does not have the checksum recorded for it")
        except (CorruptStore, UnsupportedVersion) as error:
            raise type(error)(f"{path}: {error}") from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_footer(fd: int, file_bytes: int) -> Footer:
    """The footer, and the roots checked against it."""
    if file_bytes < layout.HEADER_BYTES + layout.FOOTER_BYTES:
        raise CorruptStore(f"{file_bytes} bytes, too short for a segment")
    footer = Footer.unpack(_read_at(fd, file_bytes - layout.FOOTER_BYTES, layout.FOOTER_BYTES), file_bytes)
    roots = _read_at(fd, footer.roots_offset, footer.footer_offset - footer.roots_offset)
    if crc32c(roots) != footer.roots_crc:
        raise CorruptStore(f"roots: checksum is {crc32c(roots):#010x}, expected {footer.roots_crc:#010x}")
    return footer


def _map_file(fd: int, file_bytes: int) -> mmap.mmap:
    """The whole file, mapped for reading here and there."""
    try:
        mapped = mmap.mmap(fd, file_bytes, access=mmap.ACCESS_READ)
    except ValueError:
        raise CorruptStore(f"shorter than the {file_bytes} bytes that it had when it was opened") from None
    mapped.madvise(mmap.MADV_RANDOM)
    return mapped


def _read_at(fd: int, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    if len(data) != length:
        raise CorruptStore(f"{len(data)} bytes at byte {offset}, expected {length}")
    return data


def _bytes_of(data: Buffer | Bytes) -> memoryview:
    return data.data.cast("B") if isinstance(data, np.ndarray) else memoryview(data)


def write_all(fd: int, data: memoryview) -> None:
    """Write all of data, however many calls that takes."""
    while len(data):
        data = data[os.write(fd, data) :]
