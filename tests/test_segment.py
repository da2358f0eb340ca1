"""A segment file has the bytes of docs/format.md, gives back what was written, and refuses what is not whole."""

# mypy: disable-error-code="attr-defined"

import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import crc32c as crc32c_package
import numpy as np
import pytest
from helpers import (
    CODECS,
    ArrayKeys,
    Passed,
    distinct,
    fingerprint_array,
    resealed,
    segment_of,
    uniform,
    write_segment,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore import threads as line_threads
from fpstore._codec import begin_to_sync
from fpstore._merge import AnyOrder, MergedKeys
from fpstore.disk import UNCACHED, Folder, Place
from fpstore.errors import CorruptStore, StoreClosed, UnsupportedVersion
from fpstore.format import (
    FOOTER_BYTES,
    PAGE_BYTES,
    SEGMENT_RECORD_BYTES,
    Footer,
    Header,
    SegmentRecord,
    Summary,
    TableRecord,
)
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.segment import files as segment_files
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.files import ChecksummedFile, FileWriter, check_file
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter

HALVES = plans.flips(2, (1, 1), 3)
STORED = distinct(uniform(700, np.random.default_rng(0)))


def crc(data: bytes) -> bytes:
    return struct.pack("<I", crc32c_package.crc32c(data))


def lengths_of(code: dict[int, int]) -> bytes:
    return bytes(code.get(symbol, 0) for symbol in range(65))


def table_record(offsets: tuple[int, int], mask: int, payload_bits: int, code: dict[int, int]) -> bytes:
    """Codec gap, one slot, one flip, no fences."""
    payload_offset, directory_offset = offsets
    numbers = struct.pack("<QBBBxI5Q", mask, 0, 0, 0, 1, payload_offset, payload_bits, directory_offset, 0, 0)
    return numbers + lengths_of(code) + bytes(71)


def test_a_small_file_has_the_bytes_worked_through_in_the_format(tmp_path: Path) -> None:
    # Fingerprints 5, 6, 7 and 2^32; 5 has the ids 100 and 103, the others 101, 102 and 104.
    fingerprints = fingerprint_array([5, 6, 7, 1 << 32, 5])
    ids = fingerprint_array([100, 101, 102, 104, 103])
    path = write_segment(tmp_path / "x", fingerprints, HALVES, pairs=(fingerprints, ids))

    header = b"FPSTORE\n" + struct.pack("<II", 3, 1) + bytes(48)
    # Table 0, upper half on top: 5, 6, 7, 2^32. Deltas 5, 1, 1, 2^32 - 7; symbols 3, 1, 1, 32; code words
    # 1 -> 0, 3 -> 10, 32 -> 11. 5 is 101: 10 below the leading one, lowest first. 2^32 - 7 is 1, 29 ones, 001... :
    # below the leading one, lowest first, 1 0 0 and 28 ones.
    payload_0 = bits("10 10   0   0   11 100" + "1" * 28)
    directory_0 = struct.pack("<Q12H", 0, *[39] * 12)
    # Table 1, lower half on top: 1, 5 * 2^32, 6 * 2^32, 7 * 2^32. Deltas 1, 5 * 2^32 - 1, 2^32, 2^32; symbols
    # 1, 35, 33, 33; code words 33 -> 0, 1 -> 10, 35 -> 11. Below the leading one of 5 * 2^32 - 1 = 0x4_FFFF_FFFF:
    # 32 ones and two zeros.
    payload_1 = bits("10   11" + "1" * 32 + "00" + ("0" + "0" * 32) * 2)
    directory_1 = struct.pack("<Q12H", 0, *[104] * 12)
    ranks = bytes([0 | 4 << 3])  # 0 and 4 in 3 bits
    groups = bits("100 10 10 10")
    samples = struct.pack("<2Q", 0, 4)  # ones before bit 0 and at the end
    values = struct.pack("<H", 0 | 3 << 3 | 1 << 6 | 2 << 9 | 4 << 12)  # less 100, in 3 bits
    regions = [header, payload_0, directory_0, payload_1, directory_1, ranks, groups, samples, values]
    assert all(len(region) <= 64 for region in regions)  # so region i starts at 64 * i
    record = struct.pack("<IIQQIII4xQ4Q48x", 64, 2, 4, 5, 2, 3, 3, 100, 320, 384, 448, 512)
    table_0 = table_record((64, 128), 0xFFFFFFFF << 32, 39, {1: 1, 3: 2, 32: 2})
    table_1 = table_record((192, 256), 0xFFFFFFFF, 104, {33: 1, 1: 2, 35: 2})
    covered = b"".join(region.ljust(64, b"\0") for region in regions) + record + table_0 + table_1
    assert len(covered) == 576 + 512 == 1088  # a multiple of 64, and less than a page
    checksums = crc(covered)
    roots = crc(checksums)
    footer = struct.pack("<4Q", 1160, 576, 1088, 1092) + crc(roots) + struct.pack("<I12x", 3) + b"FPSTEND\n"
    assert path.read_bytes() == covered + checksums + roots + footer + crc(footer)
    assert path.stat().st_size == 1088 + 4 + 4 + 64 == 1160


def bits(text: str) -> bytes:
    """The bits written in text, first bit of the stream first, with zeros up to a whole byte."""
    digits = text.replace(" ", "")
    return int(digits[::-1], 2).to_bytes(-(-len(digits) // 8), "little")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("slot_bits", [0, 4, 9])
def test_a_segment_gives_back_the_keys_of_every_table(codec: str, slot_bits: int) -> None:
    plan = plans.paper("paper-10")
    with segment_of(STORED, plan, codec=codec, slot_bits=slot_bits) as segment:
        assert segment.key_count == len(STORED)
        assert len(segment.tables) == 10
        for index, table in enumerate(plan.tables):
            permutation = Permutation(table.prefix_mask)
            keys = np.concatenate(list(segment.keys(index)))
            assert np.array_equal(np.sort(permutation.invert(keys)), STORED)
            assert np.array_equal(keys, np.sort(keys))
            assert (segment.tables[index].prefix_mask, segment.tables[index].flips) == (table.prefix_mask, table.flips)
            half = 1 << slot_bits >> 1
            parts = [*segment.keys(index, 0, half), *segment.keys(index, half)]
            assert np.array_equal(np.concatenate(parts), keys)


def test_a_segment_of_no_fingerprints_opens() -> None:
    none = fingerprint_array([])
    for pairs in (None, (none, none)):
        with segment_of(none, HALVES, pairs=pairs) as segment:
            assert segment.key_count == 0
            assert list(segment.keys(0)) == []
            if segment.ids is not None:
                assert [column.tolist() for column in segment.ids.read(0, 0)] == [[], []]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["gap", "raw"]), st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 3, 300, 1500]))
def test_the_regions_cover_the_file_without_a_gap(codec: str, seed: int, count: int) -> None:
    stored = distinct(uniform(count, np.random.default_rng(seed)))
    with segment_of(stored, HALVES, codec=codec, pairs=(stored, stored)) as segment:
        regions = segment.regions()
        assert regions[0].offset == 0
        assert all(left.offset + left.bytes == right.offset for left, right in pairwise(regions))
        assert regions[-1].offset + regions[-1].bytes == segment.file_bytes
        assert segment.file_bytes == segment.path.stat().st_size


def test_the_same_fingerprints_give_the_same_file(tmp_path: Path) -> None:
    pairs = (STORED, STORED ^ np.uint64(1))
    shuffled = np.random.default_rng(1).permutation(len(STORED))
    first = write_segment(tmp_path / "a", STORED, HALVES, pairs=pairs)
    second = write_segment(tmp_path / "b", STORED[shuffled], HALVES, pairs=(pairs[0][shuffled], pairs[1][shuffled]))
    assert first.read_bytes() == second.read_bytes()


# The writer.


def writer_with_one_table(path: Path, *, with_ranks: bool = False) -> SegmentWriter:
    writer = SegmentWriter(path, "gap", 2)
    writer.add_table(HALVES.tables[0], ArrayKeys(STORED), with_ranks=with_ranks)
    return writer


@pytest.mark.parametrize("keys", [[3, 2], [3, 3]])
def test_keys_out_of_order_are_refused_and_leave_no_file(tmp_path: Path, keys: list[int]) -> None:
    with pytest.raises(ValueError, match="strictly increasing"), SegmentWriter(tmp_path / "x", "gap", 0) as writer:
        writer.add_table(HALVES.tables[0], ArrayKeys(fingerprint_array(keys)))
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_another_number_of_keys_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="table 1: 699 keys, table 0 has 700"),
        writer_with_one_table(tmp_path / "x") as writer,
    ):
        writer.add_table(HALVES.tables[1], ArrayKeys(STORED[1:]))
    assert list(tmp_path.iterdir()) == []


def test_ids_before_ranks_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="ids need table 0 added with_ranks"),
        writer_with_one_table(tmp_path / "x") as writer,
    ):
        writer.add_ids(0, 0, 0, lambda: iter([]), lambda: iter([]))
    assert list(tmp_path.iterdir()) == []


def test_a_writer_left_before_its_end_leaves_no_file(tmp_path: Path) -> None:
    with writer_with_one_table(tmp_path / "x"):
        assert (tmp_path / "x").exists()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), writer_with_one_table(tmp_path / "x"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_writer_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        SegmentWriter(tmp_path / "x", "gap", 0)
    assert (tmp_path / "x").read_bytes() == b"mine"


@pytest.mark.parametrize("uncached", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_is_written_in_pieces_that_huge_pages_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, uncached: bool
) -> None:
    pieces, begun = [], []

    def write_all(fd: int, data: memoryview, **how: bool) -> None:
        pieces.append((len(data), how))
        os.write(fd, data)

    def begin(fd: int, start: int, size: int) -> None:
        begun.append((start, size))
        begin_to_sync(fd, start, size)

    monkeypatch.setattr(segment_files, "write_all", write_all)
    monkeypatch.setattr(segment_files, "begin_to_sync", begin)
    data = np.random.default_rng(5).bytes((9 << 20) + 7)
    with Folder.open(tmp_path) as folder:
        file = ChecksummedFile(Place(folder, "file"), threads, uncached=uncached)
        # What is less than a page, less than a piece, several pieces from within one, and from the begin of one.
        at = 0
        for end in (100, 5000, 1 << 20, (5 << 20) + 3, 6 << 20, (9 << 20) + 7):
            file.write(data[at:end])
            at = end
        checksums = file.checksums()
        file.close()
    assert pieces == [(size, {"uncached": uncached}) for size in [2 << 20] * 4 + [(1 << 20) + 7]]
    # With a thread for it, a whole piece begins to go to the disk as soon as it is written.
    assert begun == ([(at << 21, 2 << 20) for at in range(4)] if threads > 1 else [])
    assert (tmp_path / "file").read_bytes() == data
    pages = [data[first : first + PAGE_BYTES] for first in range(0, len(data), PAGE_BYTES)]
    assert checksums.tolist() == [crc32c_package.crc32c(page) for page in pages]


def test_a_piece_that_the_disk_refuses_behind_its_writer_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: memoryview, **_: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(segment_files, "WRITE_BYTES", PAGE_BYTES)
    with SegmentWriter(tmp_path / "x", "gap", 2, threads=2) as writer:
        writer.add_table(HALVES.tables[0], ArrayKeys(STORED[:1]))
        monkeypatch.setattr(segment_files, "write_all", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*/x'"):
            writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_closed_when_nobody_writes_to_it_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, written, go_on = threading.Event(), [], threading.Event()

    def slow(fd: int, data: memoryview, **_: bool) -> None:
        begun.set()
        assert go_on.wait(60)
        written.append(os.write(fd, data))  # which fails once it is closed

    monkeypatch.setattr(segment_files, "write_all", slow)
    monkeypatch.setattr(segment_files, "WRITE_BYTES", PAGE_BYTES)
    with Folder.open(tmp_path) as folder:
        file = ChecksummedFile(Place(folder, "file"), 2)
        file.write(bytes(100))
        file.write(bytes(PAGE_BYTES))
        assert begun.wait(60)
        threading.Timer(0.05, go_on.set).start()
        file.close()
    assert written == [PAGE_BYTES]


class Interrupting:
    """A trace of this thread that raises a KeyboardInterrupt at the line of that number of some files, once."""

    def __init__(self, line: int, *files: str) -> None:
        self.left, self.files = line, files

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self


def test_a_ctrl_c_at_any_line_leaves_no_file_and_closes_none_that_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, closed_under_way = threading.Event(), []

    def slow(fd: int, data: memoryview, **_: bool) -> None:
        at_work.set()
        time.sleep(0.002)
        try:
            write_all(fd, data)
        finally:
            at_work.clear()

    def close(fd: int) -> None:
        closed_under_way.append(at_work.is_set())
        os_close(fd)

    write_all, os_close = segment_files.write_all, os.close
    monkeypatch.setattr(segment_files, "write_all", slow)
    monkeypatch.setattr(segment_files, "WRITE_BYTES", PAGE_BYTES)
    monkeypatch.setattr(segment_files.os, "close", close)
    files = (segment_files.__file__, line_threads.__file__)
    interrupted, line = True, 0
    while interrupted:
        line += 1
        with Folder.open(tmp_path) as folder:
            file, interrupting = ChecksummedFile(Place(folder, "file"), 2), Interrupting(line, *files)
            before = sys.gettrace()
            try:
                sys.settrace(interrupting)
                for _ in range(3):
                    file.write(bytes(PAGE_BYTES - 1))
                file.checksums()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
                file.close()
            interrupted = interrupting.left <= 0
            folder.unlink("file")
    assert line > 30
    assert not any(closed_under_way)


def test_a_ctrl_c_while_a_file_is_closed_waits_for_who_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def slow(fd: int, data: memoryview, **_: bool) -> None:
        time.sleep(0.05)
        written.append(os.write(fd, data))

    monkeypatch.setattr(segment_files, "write_all", slow)
    monkeypatch.setattr(segment_files, "WRITE_BYTES", PAGE_BYTES)
    for line in range(1, 9):
        written.clear()
        writer = FileWriter(tmp_path / "x", 2)
        before = sys.gettrace()
        writer._file.write(bytes(100))
        writer._file.write(bytes(PAGE_BYTES))
        try:
            sys.settrace(Interrupting(line, line_threads.__file__))
            with pytest.raises(KeyboardInterrupt):
                writer.__exit__(None, None, None)
        finally:
            sys.settrace(before)
        assert written == [PAGE_BYTES]
        assert list(tmp_path.iterdir()) == []


def test_a_file_whose_closing_fails_is_not_closed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    def failing(fd: int) -> None:
        closed.append(fd)
        close(fd)
        raise OSError(errno.EIO, "Input/output error")

    close = os.close
    writer = FileWriter(tmp_path / "x", 2)
    with monkeypatch.context() as patch:
        patch.setattr(segment_files.os, "close", failing)
        with pytest.raises(OSError, match="Input/output error"):
            writer._file.close()
    writer.__exit__(None, None, None)
    assert len(closed) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refused_a_piece_refuses_all_that_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [OSError(errno.EIO, "Input/output error")]

    def failing_once(fd: int, data: memoryview, **_: bool) -> None:
        if failures:
            raise failures.pop()
        os.write(fd, data)

    monkeypatch.setattr(segment_files, "write_all", failing_once)
    monkeypatch.setattr(segment_files, "WRITE_BYTES", PAGE_BYTES)
    with Folder.open(tmp_path) as folder:
        file = ChecksummedFile(Place(folder, "file"), 2)
        file.write(bytes(100))
        file.write(bytes(PAGE_BYTES))
        for _ in range(3):
            with pytest.raises(OSError, match="Input/output error"):
                file.checksums()
        file.close()


@pytest.mark.parametrize("uncached", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_read_a_file_back_from_front_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, uncached: bool
) -> None:
    monkeypatch.setattr(segment_files, "READ_BACK_BYTES", PAGE_BYTES)
    monkeypatch.setattr(segment_files, "MIN_STRETCH_PIECES", 1)

    class Backwards(line_threads.Threads):
        """Of which those that have the last items are the first to be done."""

        def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            return [work(item) for item in reversed(items)][::-1]

    path = write_segment(tmp_path / "y", STORED, HALVES)
    whole = path.read_bytes()
    check_file(path, threads, uncached=uncached)
    with closing(Segment(path)) as segment:
        covered = segment.footer.checksums_offset
    assert covered > 2 * PAGE_BYTES
    for offset in range(PAGE_BYTES // 2, covered, PAGE_BYTES):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 8]) + whole[offset + 1 :])
        page = offset // PAGE_BYTES * PAGE_BYTES
        with pytest.raises(CorruptStore, match=f"page at byte {page}, checksum"):
            check_file(path, threads, uncached=uncached)
        later = bytearray(path.read_bytes())
        later[covered - 1] ^= 8
        for end in range(page + PAGE_BYTES, covered, PAGE_BYTES):  # which is found sooner, by who begins there
            later[end] ^= 8
        path.write_bytes(later)
        with monkeypatch.context() as patch:
            patch.setattr(segment_files, "Threads", Backwards)
            with pytest.raises(CorruptStore, match=f"page at byte {page}, checksum"):
                check_file(path, threads, uncached=uncached)


def test_a_file_that_does_not_read_back_is_refused_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all = segment_files.write_all

    def forgetful(fd: int, data: memoryview, **_: bool) -> None:
        damaged = bytearray(data)
        damaged[len(damaged) // 2] ^= 1
        write_all(fd, memoryview(damaged))

    with writer_with_one_table(tmp_path / "x") as writer:
        writer.add_table(HALVES.tables[1], ArrayKeys(STORED))
        monkeypatch.setattr(segment_files, "write_all", forgetful)
        with pytest.raises(CorruptStore, match="checksum"):
            writer.finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", [0, UNCACHED])
def test_what_is_written_past_the_cache_is_read_back_past_it_where_the_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    monkeypatch.setattr(segment_files, "READ_BACK_BYTES", PAGE_BYTES)
    monkeypatch.setattr(segment_files, "UNCACHED", flag)
    monkeypatch.setattr(segment_files, "Passage", Passed)
    for uncached in (False, True):
        Passed.made, path = [], tmp_path / f"{int(uncached):08}.fpseg"
        with SegmentWriter(path, "gap", 2, uncached=uncached) as writer:
            writer.add_table(HALVES.tables[0], ArrayKeys(STORED))
            writer.finish()
        with closing(Segment(path)) as segment:
            end = segment.footer.checksums_offset
        if uncached and flag:
            (passed,) = Passed.made
            assert (passed.told, passed.end) == ([0, *range(0, end, PAGE_BYTES)], end)
        else:
            assert not Passed.made
    first, second = (path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert first == second


@pytest.mark.parametrize("uncached", [False, True])
def test_all_of_a_file_and_its_name_are_made_durable_before_it_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncached: bool
) -> None:
    steps: list[object] = []
    monkeypatch.setattr(segment_files, "UNCACHED", 0x80)  # that of the disk says how it is written
    monkeypatch.setattr(segment_files, "check_file", lambda *_, uncached: steps.append(("read back", uncached)))
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append((os.fstat(fd).st_ino, os.fstat(fd).st_size)))
    path = tmp_path / "00000007.fpseg"
    with SegmentWriter(path, "gap", 2, uncached=uncached) as writer:
        writer.add_table(HALVES.tables[0], ArrayKeys(STORED))
        writer.finish()
    file, folder = ((each.stat().st_ino, each.stat().st_size) for each in (path, tmp_path))
    assert steps == [file, folder, ("read back", uncached)]


def test_finish_returns_what_the_catalog_is_to_say_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "00000007.fpseg"
    with writer_with_one_table(path) as writer:
        entry = writer.finish(position=5)
    segment = Segment(path)
    crc = int.from_bytes(path.read_bytes()[-4:], "little")
    assert entry == SegmentEntry(path.name, path.stat().st_size, segment.key_count, 0, crc, 5)
    assert segment.footer_crc == crc
    segment.close()
    assert path.stat().st_mode & 0o777 == 0o600


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 100), st.integers(4000, 4200), st.integers(8000, 20000)), max_size=8))
def test_a_checksummed_file_has_what_was_written_and_the_crc_of_each_page(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    path = tmp_path_factory.mktemp("file") / "x"
    parts = [np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8) for size in [1, *sizes]]
    folder = Folder.open(path.parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_files, "WRITE_BYTES", 2 * PAGE_BYTES)
        file = ChecksummedFile(Place(folder, path.name))
        for part in parts:
            file.write(part)
    data = b"".join(part.tobytes() for part in parts)
    assert file.offset == len(data)
    assert file.align() == -(-len(data) // 64) * 64
    data = data.ljust(file.offset, b"\0")
    pages = [data[at : at + PAGE_BYTES] for at in range(0, len(data), PAGE_BYTES)]
    assert file.checksums().tolist() == [crc32c_package.crc32c(page) for page in pages]
    file.write_uncovered(b"the end")
    file.sync()
    file.close()
    file.close()
    folder.close()
    assert path.read_bytes() == data + b"the end"


# The reader.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_segment(tmp_path / "x", STORED, HALVES, slot_bits=4, pairs=(STORED, STORED))


@pytest.mark.slow
def test_check_file_finds_every_flipped_byte_and_every_truncation(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "y", STORED[:30], plans.flips(1, (1,), 1))
    whole = path.read_bytes()
    check_file(path)
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ (1 << offset % 8)]) + whole[offset + 1 :])
        with pytest.raises(CorruptStore):
            check_file(path)
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptStore):
            check_file(path)


def test_check_file_names_the_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[PAGE_BYTES + 5] ^= 4
    path.write_bytes(data)
    with pytest.raises(CorruptStore, match=rf"^{path}: page at byte 4096, checksum: found 0x"):
        check_file(path)


def test_check_file_names_the_checksums_and_the_roots(path: Path) -> None:
    whole = path.read_bytes()
    footer = Footer.unpack(whole[-FOOTER_BYTES:], len(whole))
    for offset, what in ((footer.checksums_offset, "checksums"), (footer.roots_offset, "roots")):
        data = bytearray(whole)
        data[offset] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptStore, match=f"^{path}: {what}[:,] "):
            check_file(path)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 127])
def test_a_file_shorter_than_its_ends_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(length))
    with pytest.raises(CorruptStore, match=f"{path}: file: found {length} bytes, expected 128 or more"):
        Segment(path)
    with pytest.raises(CorruptStore):
        check_file(path)


def test_a_file_that_is_no_segment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a line of text\n" * 100)
    with pytest.raises(CorruptStore, match=rf"^{path}: footer, magic: found b'.*', expected b'FPSTEND\\n'$"):
        Segment(path)


def test_a_missing_file_is_the_operating_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Segment(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        check_file(tmp_path / "x")


def test_a_truncated_file_has_no_footer(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(CorruptStore, match=f"^{path}: footer, magic: found"):
        Segment(path)


def resealed_footer(whole: bytes, change: Callable[[bytearray], None]) -> bytes:
    footer = bytearray(whole[-FOOTER_BYTES:-4])
    change(footer)
    return whole[:-FOOTER_BYTES] + footer + crc(bytes(footer))


def test_a_newer_version_is_unsupported_not_corrupt(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(resealed_footer(whole, lambda footer: footer.__setitem__(36, 4)))
    with pytest.raises(UnsupportedVersion, match=f"^{path}: footer, version: found 4, expected 3; made by a newer"):
        Segment(path)
    with pytest.raises(UnsupportedVersion, match=f"^{path}: footer, version: found 4, expected 3; made by a newer"):
        check_file(path)
    path.write_bytes(resealed(whole[:8] + struct.pack("<I", 4) + whole[12:]))
    with pytest.raises(UnsupportedVersion, match=f"^{path}: header, version: found 4, expected 3; made by a newer"):
        Segment(path)


def test_damage_to_the_version_is_corruption(path: Path) -> None:
    whole = path.read_bytes()
    for offset in (8, len(whole) - FOOTER_BYTES + 36):
        path.write_bytes(whole[:offset] + b"\4" + whole[offset + 1 :])
        with pytest.raises(CorruptStore):
            Segment(path)


def test_another_kind_of_file_is_refused(path: Path) -> None:
    path.write_bytes(resealed(Header(kind=9).pack() + path.read_bytes()[64:]))
    with pytest.raises(CorruptStore, match=f"^{path}: header, kind: found 9, expected 1$"):
        Segment(path)


def test_damage_to_a_region_that_opening_reads_is_named(path: Path) -> None:
    whole = path.read_bytes()
    footer = Footer.unpack(whole[-FOOTER_BYTES:], len(whole))
    for offset, what in ((0, "header"), (footer.summary_offset, "summary"), (footer.roots_offset, "roots")):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        with pytest.raises(CorruptStore, match=f"^{path}: {what}[:,] "):
            Segment(path)


def test_damage_elsewhere_is_found_when_it_is_read(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    opened = Segment(path)
    directory = next(region for region in opened.regions() if (region.name, region.table) == ("directory", 0))
    opened.close()
    whole[directory.offset] ^= 1
    path.write_bytes(whole)
    damaged = Segment(path)
    page = directory.offset // PAGE_BYTES * PAGE_BYTES
    with pytest.raises(CorruptStore, match=f"table 0, slot 0, page at byte {page}: found bytes of another checksum"):
        list(damaged.keys(0))
    damaged.close()


def resealed_summary(whole: bytes, change: Callable[[Summary], Summary]) -> bytes:
    footer = Footer.unpack(whole[-FOOTER_BYTES:], len(whole))
    summary = Summary.unpack(whole[footer.summary_offset : footer.checksums_offset], footer)
    packed = change(summary).pack()
    end = footer.summary_offset + len(packed)
    return resealed(whole[: footer.summary_offset] + packed + whole[end:])


def test_tables_of_two_codecs_are_refused(path: Path) -> None:
    def mix(summary: Summary) -> Summary:
        return replace(summary, tables=(summary.tables[0], replace(summary.tables[1], codec=1)))

    path.write_bytes(resealed_summary(path.read_bytes(), mix))
    with pytest.raises(CorruptStore, match=f"^{path}: table 1, codec: found 1, expected 0 as in table 0$"):
        Segment(path)


def test_records_that_contradict_the_file_are_refused(path: Path) -> None:
    def beyond(summary: Summary) -> Summary:
        return replace(summary, tables=(summary.tables[0], replace(summary.tables[1], slot_bits=30)))

    path.write_bytes(resealed_summary(path.read_bytes(), beyond))
    with pytest.raises(CorruptStore, match=f"^{path}: table 1: directory: "):
        Segment(path)


def test_a_segment_that_failed_to_open_leaves_no_map_behind(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(CorruptStore):
            Segment(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_segment_answers_no_more(path: Path) -> None:
    segment = Segment(path)
    ids = segment.ids
    assert ids is not None
    segment.close()
    segment.close()
    for use in (lambda: list(segment.keys(0)), lambda: ids.read(0, 1), lambda: ids.lookup(STORED[:1])):
        with pytest.raises(StoreClosed, match="the store is closed"):
            use()


@pytest.mark.parametrize("recorded", [-1, 1])
def test_a_table_with_another_number_of_keys_than_recorded_is_refused(path: Path, recorded: int) -> None:
    segment = Segment(path)
    data = bytearray(path.read_bytes())
    offset, count = segment.footer.summary_offset, segment.key_count
    bare = replace(
        segment.record, key_count=count + recorded, id_kind=0, id_count=0, id_width=0, rank_width=0, id_base=0
    )
    bare = replace(bare, ranks_offset=0, groups_offset=0, samples_offset=0, values_offset=0)
    segment.close()
    data[offset : offset + 128] = bare.pack()
    path.write_bytes(resealed(data))
    segment = Segment(path)
    # Also where they are merged as they are decoded; nothing comes after the error.
    for keys in (segment.keys(1), MergedKeys([segment.keys(1), iter([np.array([3], dtype=np.uint64)])], 1)):
        with pytest.raises(CorruptStore, match=f"table 1: found {count} keys, expected {count + recorded}$") as caught:
            list(keys)
        assert caught.value.path == path
        assert list(keys) == []
    segment.close()


def test_keys_are_in_order_whatever_leave_there_is(path: Path) -> None:
    """Which is ended, so that who takes them knows."""
    order = AnyOrder(60)
    segment = Segment(path)
    keys = np.concatenate(list(segment.keys(1, order=order)))
    segment.close()
    assert (keys[1:] > keys[:-1]).all()
    assert order.width == 0


def test_the_records_say_what_was_written(path: Path) -> None:
    segment = Segment(path)
    assert isinstance(segment.record, SegmentRecord)
    assert isinstance(segment.tables[0], TableRecord)
    assert segment.footer.summary_bytes >= SEGMENT_RECORD_BYTES
    assert [table.slot_bits for table in segment.tables] == [4, 4]
    assert [table.prefix_mask for table in segment.tables] == [table.prefix_mask for table in HALVES.tables]
    assert segment.record.key_count == len(STORED)
    segment.close()
