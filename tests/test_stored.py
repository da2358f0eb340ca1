"""A table that is read back while its segment is still being written: its keys, or an error that names the page."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import KINDS, ArrayKeys, Passed, distinct

from fpstore._merge import READ_KEYS
from fpstore.disk import UNCACHED, write_all
from fpstore.errors import CorruptStore
from fpstore.plans import families as plans
from fpstore.segment import files, stored
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Keys

PLAN = plans.paper("paper-4")
SLOT_BITS = 9


def keys_of(count: int, kind: str = "clustered") -> Keys:
    return distinct(KINDS[kind](count, np.random.default_rng(8)))


def read(chunks: Callable[[], object]) -> Keys:
    return np.concatenate([np.empty(0, np.uint64), *(chunk.copy() for chunk in chunks())])  # type: ignore[attr-defined]


@pytest.mark.parametrize("uncached", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 1000, 700_000])
@pytest.mark.parametrize("codec", ["gap", "xor", "rice", "raw"])
def test_a_table_is_read_back_before_the_next_is_written_and_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, count: int, threads: int, uncached: bool
) -> None:
    monkeypatch.setattr(stored, "MAPPED_CHUNKS", 2)
    keys = keys_of(count)
    for name in ("00000001.fpseg", "00000002.fpseg"):
        with SegmentWriter(tmp_path / name, codec, SLOT_BITS, threads=threads, uncached=uncached) as writer:
            writer.add_table(PLAN.tables[0], ArrayKeys(keys))
            if name == "00000002.fpseg":
                back = writer.stored(0)
                assert back.count == len(keys)
                for _ in range(2):
                    np.testing.assert_array_equal(read(back.chunks), keys)
            writer.add_table(PLAN.tables[0], ArrayKeys(keys))
            if name == "00000002.fpseg":
                np.testing.assert_array_equal(read(writer.stored(1).chunks), keys)
            writer.finish()
    assert (tmp_path / "00000002.fpseg").read_bytes() == (tmp_path / "00000001.fpseg").read_bytes()


def test_tables_of_blocks_are_read_back_too(tmp_path: Path) -> None:
    keys = keys_of(50_000)
    with SegmentWriter(tmp_path / "s", "gap", 0, block_bytes=256) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys))
        np.testing.assert_array_equal(read(writer.stored(0).chunks), keys)


def test_a_chunk_is_good_until_the_one_after_the_next_is_asked_for(tmp_path: Path) -> None:
    keys = keys_of(500_000, "uniform")
    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys))
        before: Keys | None = None
        done = 0
        for chunk in writer.stored(0).chunks():
            if before is not None:
                np.testing.assert_array_equal(before, keys[done - len(before) : done])
            before, done = chunk, done + len(chunk)
        assert done == len(keys)


def test_the_piece_where_a_table_ends_is_written_before_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = keys_of(200_000, "uniform")
    with SegmentWriter(tmp_path / "s", "raw", SLOT_BITS, threads=2) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys))
        back = writer.stored(0)
        may_write, has_written = threading.Event(), threading.Event()

        def late(fd: int, data: memoryview, **_: bool) -> None:
            may_write.wait(0.5)
            write_all(fd, data)
            has_written.set()

        monkeypatch.setattr(files, "write_all", late)
        assert back.written.end < files.WRITE_BYTES
        # Another thread has that piece, and no other comes behind it.
        writer.add_table(PLAN.tables[0], ArrayKeys(keys))
        assert not has_written.is_set()
        chunks = back.chunks()
        first = next(iter(chunks)).copy()
        may_write.set()
        assert has_written.wait(10)
        np.testing.assert_array_equal(np.concatenate([first, *(chunk.copy() for chunk in chunks)]), keys)


@pytest.mark.skipif(not UNCACHED, reason="no Linux of 6.16 or later")
@pytest.mark.parametrize("kind", ["uniform", "clustered"])
def test_what_is_not_in_the_cache_is_asked_for_ahead_and_let_go_of_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(stored, "MAPPED_CHUNKS", 1)
    monkeypatch.setattr(stored, "Passage", Passed)
    Passed.made = []
    keys = keys_of(700_000, kind)
    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS, uncached=True) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys))
        back = writer.stored(0)
        for _ in back.chunks():
            pass
        # Each region, from its begin to its end.
        table = back.table
        begins = sorted({table.payload_offset, table.directory_offset, table.fences_offset} - {0})
        assert [passed.told[0] for passed in Passed.made] == begins
        assert [passed.end for passed in Passed.made] == [*begins[1:], back.written.end]
        for passed in Passed.made:
            assert passed.told == sorted(passed.told)
            assert len(passed.told) > len(keys) // READ_KEYS
            assert passed.told[-1] == passed.end
    assert len(begins) == 3


@pytest.mark.parametrize("uncached", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("page", [1, 30, -1])
def test_a_page_that_reads_back_otherwise_is_an_error(tmp_path: Path, page: int, threads: int, uncached: bool) -> None:
    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS, threads=threads, uncached=uncached) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys_of(700_000, "uniform")))
        back = writer.stored(0)
        at = (back.table.payload_offset + back.table.payload_bits // 8) // 4096 if page < 0 else page
        with open(tmp_path / "s", "r+b") as file:
            file.seek(4096 * at)
            byte = file.read(1)
            file.seek(4096 * at)
            file.write(bytes([byte[0] ^ 1]))
        with pytest.raises(CorruptStore, match=f"page at byte {4096 * at}") as caught:
            read(back.chunks)
        assert caught.value.path == tmp_path / "s"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys_of(100_000)))
        back = writer.stored(0)
        os.truncate(tmp_path / "s", 8192)
        with pytest.raises(CorruptStore, match="fewer bytes") as caught:
            read(back.chunks)
        assert caught.value.path == tmp_path / "s"


def test_another_number_of_keys_is_an_error(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys_of(1000)))
        back = writer.stored(0)
        other = stored.StoredTable(back.written, back.table, back.count + 1, back.settle)
        with pytest.raises(CorruptStore, match=f"{back.count} keys"):
            read(other.chunks)


def test_a_disk_that_is_full_where_a_table_is_to_be_read_back_is_an_error_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys_of(1000)))
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left") as caught:
            writer.stored(0)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "s"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_in_several_pieces_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, keys = os.pwrite, keys_of(1000)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:777], at))
    with SegmentWriter(tmp_path / "s", "gap", SLOT_BITS) as writer:
        writer.add_table(PLAN.tables[0], ArrayKeys(keys))
        np.testing.assert_array_equal(read(writer.stored(0).chunks), keys)
