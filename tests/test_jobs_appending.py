"""What jobs append to their files, and read of their record, in one call each."""

import errno
import os
import random
import signal
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import write_jsonl
from record_model import sealed

from fpstore import CorruptStore, JobError, disk
from fpstore._codec import begin_to_sync
from fpstore.disk import Folder
from fpstore.jobs import corpus, dedup, files
from fpstore.jobs._appending import (
    OF_INDEX,
    OF_VALUES,
    append_bytes,
    append_documents,
    append_lines,
    read_values,
)
from fpstore.jobs.files import AppendFile
from fpstore.jobs.spool import Spool
from fpstore.ledger import AFTER_ONE, INDEX, NAME_BYTES, TEXT_BYTES, entry_of, fields_of
from fpstore.text.packed import Encoded, Texts

ROOMS = [1, 7, 1 << 10]
# A way to write that no system knows, and so refuses.
UNKNOWN = 1 << 30
# One that pwritev2 has since Linux 6.9: where the file is at, though it is open for appending (RWF_NOAPPEND).
NOT_BEHIND = 0x20
RUNNING = "name_end", "text_end", "name_crc", "text_crc"


def knows(flags: int) -> bool:
    """Whether the system has this way to write."""
    with tempfile.TemporaryFile() as file:
        try:
            return os.pwritev(file.fileno(), [b"1"], 0, flags) == 1
        except OSError:
            return False


def room(size: int) -> Any:
    return np.empty(size, dtype=np.uint8)


def some_values(rng: random.Random, count: int) -> list[bytes]:
    return [rng.randbytes(rng.choice([0, 0, 1, 5, 40, 900])) for _ in range(count)]


def indexes_of(values: Sequence[int]) -> Any:
    return np.array(values, dtype=np.int64)


# Lines.


@pytest.mark.parametrize("count", [1, 80, 1500, 2048, 2049, 5000])
def test_lines_are_appended_in_the_order_of_their_indexes_each_with_its_end(tmp_path: Path, count: int) -> None:
    """So many that some go out by one call, and some by several; those that lie side by side are one stretch."""
    rng = random.Random(count)
    values = [value + rng.choice([b"", b"\n", b"\n"]) for value in some_values(rng, 60)]
    chosen = [rng.randrange(60) for _ in range(count)]
    chosen += [at for first in chosen for at in range(first, min(first + 3, 60))]
    lines = Encoded.pack([b"before", *values])[1:]
    with (tmp_path / "f").open("wb") as file:
        count = append_lines(file.fileno(), tmp_path / "f", lines.data, lines.offsets, indexes_of(chosen))
    expected = b"".join(values[at] if values[at].endswith(b"\n") else values[at] + b"\n" for at in chosen)
    assert (tmp_path / "f").read_bytes() == expected
    assert count == len(expected)


@pytest.mark.parametrize("flags", [UNKNOWN, disk.UNCACHED])
@pytest.mark.parametrize("count", [1, 40, 1500])
def test_lines_that_go_past_the_cache_are_all_there(tmp_path: Path, count: int, flags: int) -> None:
    """Where the system cannot do that, they go as others do."""
    rng = random.Random(count)
    values = [value + rng.choice([b"", b"\n"]) for value in some_values(rng, 60)]
    lines, expected = Encoded.pack(values), b""
    with (tmp_path / "f").open("wb", buffering=0) as file:
        for _ in range(20):
            chosen = [rng.randrange(60) for _ in range(rng.randrange(count + 1))]
            given = lines.data, lines.offsets, indexes_of(chosen)
            wrote = append_lines(file.fileno(), tmp_path / "f", *given, len(expected), flags)
            own = b"".join(values[at] if values[at].endswith(b"\n") else values[at] + b"\n" for at in chosen)
            assert wrote == len(own)
            expected += own
    assert (tmp_path / "f").read_bytes() == expected


@pytest.mark.skipif(not knows(NOT_BEHIND), reason="no Linux of 6.9 or later, which can tell the one from the other")
@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 1_000_000])
@pytest.mark.parametrize("sizes", [[1], [4095], [1, 4094], [4096], [3000, 3000, 3000], [9000, 1], [5] * 3000])
def test_what_goes_past_the_cache_ends_with_a_page(tmp_path: Path, length: int, sizes: list[int]) -> None:
    """Else what goes on with that page has to read it again. Only what is not to go past it is put behind all here."""
    whole = b"".join(b"%04d" % (at % 7919) for at in range(sum(sizes)))[: sum(sizes)]
    ends = np.cumsum([0, *sizes])
    lines = Encoded(np.frombuffer(whole, dtype=np.uint8), ends.astype(np.int64))
    with_ends = b"".join(whole[a:b] + b"\n" for a, b in pairwise(ends))
    before = b"x" * (2 * len(with_ends))

    def appended(append: Callable[..., Any], *given: Any) -> bytes:
        (tmp_path / "f").write_bytes(before)
        fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_APPEND)
        assert append(fd, tmp_path / "f", *given, length, NOT_BEHIND) in (len(with_ends), None)
        os.close(fd)
        return (tmp_path / "f").read_bytes()

    past = max(0, (length + len(with_ends)) // 4096 * 4096 - length)
    assert appended(append_bytes, with_ends) == with_ends[:past] + before[past:] + with_ends[past:]
    found = appended(append_lines, lines.data, lines.offsets, indexes_of(range(len(sizes))))
    assert len(found) < len(before) + 4096 * (1 + len(sizes) // 511)
    if len(sizes) < 512:  # one call
        assert found == with_ends[:past] + before[past:] + with_ends[past:]


def test_an_error_of_the_disk_is_not_taken_for_what_it_cannot(tmp_path: Path) -> None:
    lines = Encoded.pack([b"x" * 5000])
    given = lines.data, lines.offsets, indexes_of([0])
    with Path("/dev/full").open("wb") as file, pytest.raises(OSError, match="No space") as raised:
        append_lines(file.fileno(), tmp_path / "f", *given, 0, disk.UNCACHED)
    assert raised.value.errno == errno.ENOSPC
    with Path("/dev/full").open("wb") as file, pytest.raises(OSError, match="No space") as raised:
        append_bytes(file.fileno(), tmp_path / "f", b"1")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "f"))


def test_a_result_goes_past_the_cache_but_for_its_beginning_unless_the_job_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def noted(name: str) -> None:
        real = getattr(files, name)

        def append(*given: Any) -> Any:
            told.append(given[-2:])
            return real(*given)

        monkeypatch.setattr(files, name, append)

    noted("append_lines")
    noted("append_bytes")
    monkeypatch.setattr(disk, "UNCACHED", UNKNOWN)
    lines, big = Encoded.pack([b"a\n"]), b"y" * files._CACHED_BYTES
    for is_read in (False, True):
        path, expected = tmp_path / f"read {is_read}", b""
        with Folder.open(tmp_path) as folder, closing(AppendFile(folder, path.name, 0, is_read=is_read)) as file:
            for reads in (False, True):
                if reads:
                    file.begin_to_read()
                file.append_lines(lines, indexes_of([0]))
                file.write(big)
                file.append_lines(lines, indexes_of([0]))
                file.write(b"z" * 5000)
                expected += b"a\n" + big + b"a\n" + b"z" * 5000
        assert path.read_bytes() == expected
        first, size, past = told[: len(told) // 2], len(big), 0 if is_read else UNKNOWN
        assert first == [(0, 0), (2, 0), (size + 2, past), (size + 4, past)]
        assert not any(flags for _, flags in told[len(first) :]), "the job reads it by then"
        told.clear()


@pytest.mark.parametrize("size", [0, 1, 3_999_999, 4_000_000, 9_000_000])
def test_what_went_past_the_cache_last_is_asked_for_in_pieces_that_the_system_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(files, "_FETCHED_BYTES", 3_000_000)
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, at, length, how: asked.append((at, at + length)))
    (tmp_path / "f").write_bytes(bytes(size))
    with Folder.open(tmp_path) as folder, closing(AppendFile(folder, "f", size, is_read=False)) as file:
        for _ in range(2):
            file.begin_to_read()
    assert all(0 < end - begin <= disk.ADVISED_BYTES for begin, end in asked)
    first = max(files._CACHED_BYTES, size - 3_000_000)
    bounds = [first, *(end for _, end in asked)]
    assert [begin for begin, _ in asked] == bounds[:-1]
    assert bounds[-1] == max(first, size)


def test_a_file_that_lines_are_appended_to_is_that_much_longer(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        file = AppendFile(folder, "f", 0)
    file.write(b"first\n")
    file.append_lines(Encoded.pack([b"a\n", b"b", b"c\n"]), indexes_of([1, 2]))
    assert bytes(file.view()) == b"first\nb\nc\n"
    file.append_lines(Encoded.pack([]), indexes_of([]))
    assert file.length == 10
    file.close()


@pytest.mark.parametrize(
    ("offsets", "indexes", "told"),
    [
        ([0, 2, 1], [0], "offsets: found some that do not increase to at most 3"),
        ([-1, 2], [0], "offsets: found some that do not increase"),
        ([0, 4], [0], "offsets: found some that do not increase to at most 3"),
        ([], [], "offsets: found some that do not increase"),
        ([0, 1, 3], [2], "index: found 2, expected one of 2 values"),
        ([0, 1, 3], [0, -1], "index: found -1, expected one of 2 values"),
    ],
)
def test_lines_that_are_not_there_are_refused_and_nothing_is_written(
    tmp_path: Path, offsets: list[int], indexes: list[int], told: str
) -> None:
    data = np.frombuffer(b"abc", dtype=np.uint8)
    with (tmp_path / "f").open("wb") as file, pytest.raises(ValueError, match=told):
        append_lines(file.fileno(), tmp_path / "f", data, indexes_of(offsets), indexes_of(indexes))
    assert (tmp_path / "f").read_bytes() == b""


def test_what_the_system_says_of_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    lines = Encoded.pack([b"abc"])
    with (tmp_path / "f").open("rb") as file, pytest.raises(OSError, match=r"f'$") as raised:
        append_lines(file.fileno(), tmp_path / "f", lines.data, lines.offsets, indexes_of([0]))
    assert raised.value.errno == errno.EBADF


@pytest.mark.parametrize("flags", [0, UNKNOWN])
def test_lines_of_which_the_system_takes_a_part_go_on_where_that_ends(tmp_path: Path, flags: int) -> None:
    """Who reads the pipe is slow, and signals end each call that waits for it, with what was written by then."""
    rng = random.Random(5)
    lines = Encoded.pack([rng.randbytes(rng.choice([1, 700, 9000])) + b"\n" for _ in range(400)])
    chosen = [at for at in range(400) if at % 3]
    read, write = os.pipe()
    found: list[bytes] = []

    def take() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        while data := os.read(read, 20_001):
            found.append(data)
            time.sleep(0.0005)

    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
    reader = threading.Thread(target=take)
    reader.start()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        count = append_lines(write, tmp_path / "f", lines.data, lines.offsets, indexes_of(chosen), 1, flags)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(write)
        reader.join()
        os.close(read)
    assert b"".join(found) == b"".join(lines[at] for at in chosen)
    assert count == sum(map(len, found))
    assert came


# Documents.


class Record:
    """Three files of a record, which documents are appended to."""

    def __init__(self, folder: Path, words: int, size: int = 64) -> None:
        self.entry, self.rooms = entry_of(words), [room(size) for _ in range(3)]
        self.paths = [folder / name for name in (NAME_BYTES, TEXT_BYTES, INDEX)]
        self.fields = fields_of(self.entry, *RUNNING, "crc")
        self.last: Any = None
        for path in self.paths:
            path.write_bytes(b"")

    def append(self, names: list[bytes], texts: list[bytes], indexes: list[int], entries: Any) -> tuple[int, int]:
        before = (0, 0, 0, 0) if self.last is None else self.last[list(RUNNING)].tolist()
        own_names, own_texts = Encoded.pack(names), Encoded.pack(texts)
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("ab", buffering=0)) for path in self.paths]
            found = append_documents(
                entries.view(np.uint8),
                self.fields,
                [(file.fileno(), path) for file, path in zip(files, self.paths, strict=True)],
                (own_names.data, own_names.offsets),
                (own_texts.data, own_texts.offsets),
                indexes_of(indexes),
                before,
                AFTER_ONE,
                self.last is None,
                self.rooms,
            )
        self.last = entries[-1].copy() if len(entries) else self.last
        return found

    def read(self, column: str, rows: list[int]) -> tuple[Any, Any, Any]:
        path = self.paths[column == "text"]
        index, values = (os.open(each, os.O_RDONLY) for each in (self.paths[2], path))
        try:
            fields = fields_of(self.entry, f"{column}_end", f"{column}_crc")
            length = int(self.last[f"{column}_end"])
            return read_values(index, self.count, fields, indexes_of(rows), values, length)
        finally:
            os.close(index)
            os.close(values)

    @property
    def count(self) -> int:
        return self.paths[2].stat().st_size // int(self.entry.itemsize)


def filled(words: int, first: int, count: int) -> Any:
    entries = np.zeros(count, dtype=entry_of(words))
    entries["id"] = np.arange(first, first + count)
    entries["fingerprint"] = 7
    entries["known"] = 1
    return entries


def made(folder: Path, words: int, size: int) -> tuple[Record, list[bytes], list[bytes]]:
    """A record of three calls, and the names and texts that it has."""
    rng = random.Random(words)
    record, all_names, all_texts = Record(folder, words, size), list[bytes](), list[bytes]()
    for number in (20, 0, 13):
        names, texts = some_values(rng, 30), some_values(rng, 30)
        indexes = sorted(rng.sample(range(30), number))
        all_names += [names[at] for at in indexes]
        all_texts += [texts[at] for at in indexes]
        ends = record.append(names, texts, indexes, filled(words, 5 * len(all_names), number))
        assert ends == (sum(map(len, all_names)), sum(map(len, all_texts)))
    return record, all_names, all_texts


@pytest.mark.parametrize("words", [1, 4])
@pytest.mark.parametrize("size", ROOMS)
def test_documents_are_appended_with_the_ends_and_checksums_of_all_before_them(
    tmp_path: Path, words: int, size: int
) -> None:
    record, names, texts = made(tmp_path, words, size)
    assert record.paths[0].read_bytes() == b"".join(names)
    assert record.paths[1].read_bytes() == b"".join(texts)
    found = np.fromfile(record.paths[2], dtype=record.entry)
    assert found.tobytes() == sealed(found.copy(), names, texts).tobytes()
    assert found["known"].tolist() == [1] * 33


@pytest.mark.parametrize("column", ["name", "text"])
def test_values_are_read_in_the_order_of_their_rows(tmp_path: Path, column: str) -> None:
    record, names, texts = made(tmp_path, 1, 64)
    values = names if column == "name" else texts
    for rows in ([0], [32], [], list(range(33)), [5, 6, 7, 3, 3, 0, 1, 32, 31, 2], [0, 0, 1]):
        data, offsets, wrong = record.read(column, rows)
        assert wrong is None
        assert [*Encoded(data, offsets)] == [values[row] for row in rows]


def test_values_are_read_of_where_another_file_has_them(tmp_path: Path) -> None:
    record, _, texts = made(tmp_path, 1, 64)
    rows = [5, 6, 7, 3, 3, 0, 1, 32, 31, 2]
    other, begins = b"..", list[int]()
    for row in rows:
        begins.append(len(other))
        other += texts[row] + b"."
    (tmp_path / "other").write_bytes(other)
    index, values = (os.open(path, os.O_RDONLY) for path in (record.paths[2], tmp_path / "other"))
    own = index, 33, fields_of(record.entry, "text_end", "text_crc"), indexes_of(rows), values, sum(map(len, texts))
    data, offsets, wrong = read_values(*own, indexes_of(begins))
    assert wrong is None
    assert [*Encoded(data, offsets)] == [texts[row] for row in rows]
    last = next(at for at in reversed(range(10)) if texts[rows[at]])
    for begin, told in ((begins[last] - 1, 3), (len(other), 2), (-1, 2)):
        assert len(read_values(*own, indexes_of([*begins[:last], begin, *begins[last + 1 :]]))[2] or ()) == told
    with pytest.raises(ValueError, match="begins: found 9 of them, expected one of each of 10 values"):
        read_values(*own, indexes_of(begins[1:]))
    os.close(index)
    os.close(values)


def test_each_changed_byte_of_a_value_and_of_what_the_index_says_of_it_is_told(tmp_path: Path) -> None:
    record, names, _ = made(tmp_path, 1, 64)
    rows = list(range(33))
    for number, places in ((0, range(len(b"".join(names)))), (2, range(33 * record.entry.itemsize))):
        whole = record.paths[number].read_bytes()
        fields = dict(record.entry.fields)
        told = [fields[name][1] + byte for name, size in (("name_end", 8), ("name_crc", 4)) for byte in range(size)]
        for place in places:
            if number == 2 and place % record.entry.itemsize not in told:
                continue
            record.paths[number].write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert record.read("name", rows)[2] is not None, (number, place)
        record.paths[number].write_bytes(whole)
    assert record.read("name", rows)[2] is None


def test_files_that_are_shorter_than_they_were_are_told_apart(tmp_path: Path) -> None:
    record, names, _ = made(tmp_path, 1, 64)
    last = max(at for at in range(33) if names[at])
    os.truncate(record.paths[0], sum(map(len, names)) - 1)
    assert record.read("name", [last])[2] == (OF_VALUES, 0)
    index, values = (os.open(path, os.O_RDONLY) for path in (record.paths[2], record.paths[0]))
    fields = fields_of(record.entry, "name_end", "name_crc")
    assert read_values(index, 34, fields, indexes_of([33]), values, 1 << 20)[2] == (OF_INDEX, 0)
    with pytest.raises(ValueError, match="index: found 33, expected one of 33 values"):
        read_values(index, 33, fields, indexes_of([33]), values, 1 << 20)
    with pytest.raises(ValueError, match="fields: found some at 50 and 8"):
        read_values(index, 33, (48, 50, 8), indexes_of([0]), values, 1 << 20)
    os.close(values)
    assert read_values(index, 33, fields, indexes_of([last]), values, 1 << 20)[2] == (OF_VALUES, errno.EBADF)
    os.close(index)


def test_values_that_an_index_lays_over_each_other_are_refused_before_there_is_room_for_them(tmp_path: Path) -> None:
    record, size = Record(tmp_path, 1), 1 << 20
    values = [b"", bytes(size)] * 500
    record.append(values[:2] + [b""] * 998, [b""] * 1000, list(range(1000)), filled(1, 0, 1000))
    entries = np.fromfile(record.paths[2], dtype=record.entry)
    entries["name_end"] = [0, size] * 500  # of 500 documents that each has all of the file
    record.paths[2].write_bytes(entries.tobytes())
    rows = list(range(1, 1000, 2))
    tracemalloc.start()
    try:
        found = record.read("name", rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == (None, None, (1,))
    assert peak < size
    assert record.read("name", list(range(1000)))[2] == (2,)  # which ends before it begins
    # So does one that ends behind the file, and one before another that the caller asked for first is as good as any.
    entries["name_end"] = [*range(999), size + 1]
    record.paths[2].write_bytes(entries.tobytes())
    record.last["name_end"] = size
    assert record.read("name", [999])[2] == (0,)
    assert record.read("name", [5, 999])[2] == (1,)
    assert record.read("name", [6, 5, 7, 6, 7])[2] is not None  # another checksum, and not another place
    assert len(record.read("name", [6, 5, 7, 6, 7])[2]) == 3


@pytest.mark.parametrize("broken", range(3))
def test_the_index_does_not_tell_of_what_could_not_be_written(tmp_path: Path, broken: int) -> None:
    record = Record(tmp_path, 1)
    entries, values = filled(1, 0, 1), Encoded.pack([b"abc"])
    files = [os.open(path, os.O_RDONLY if at == broken else os.O_WRONLY) for at, path in enumerate(record.paths)]
    packed = values.data, values.offsets
    both = list(zip(files, record.paths, strict=True))
    with pytest.raises(OSError, match=f"{record.paths[broken].name}'$"):
        append_documents(
            entries.view(np.uint8),
            record.fields,
            both,
            packed,
            packed,
            indexes_of([0]),
            (0,) * 4,
            0,
            True,
            record.rooms,
        )
    for file in files:
        os.close(file)
    assert record.paths[2].read_bytes() == b""


def test_lines_that_others_write_are_told_of_as_they_are_written(tmp_path: Path) -> None:
    lines, indexes = (
        Encoded.pack([b"a\n", b"", b"long enough to be more than the room that there is", b"b\n"]),
        [0, 1, 2],
    )
    told, written = Record(tmp_path, 1), tmp_path / "written"
    with written.open("wb", buffering=0) as file:
        append_lines(file.fileno(), written, lines.data, lines.offsets, indexes_of(indexes))
    with ExitStack() as stack:
        files = [stack.enter_context(told.paths[at].open("ab", buffering=0)) for at in (0, 2)]
        entries = filled(1, 0, 3)
        append_documents(
            entries.view(np.uint8),
            told.fields,
            [(files[0].fileno(), told.paths[0]), (-1, Path()), (files[1].fileno(), told.paths[2])],
            (lines.data, lines.offsets),
            (lines.data, lines.offsets),
            indexes_of(indexes),
            (0,) * 4,
            AFTER_ONE,
            True,
            told.rooms,
        )
    told.last, told.paths[1] = entries[-1].copy(), written
    data, offsets, wrong = told.read("text", [0, 1, 2])
    assert wrong is None
    assert data.tobytes() == written.read_bytes() == b"a\n\nlong enough to be more than the room that there is\n"
    assert offsets.tolist() == [0, 2, 3, 54]


def test_entries_of_another_size_are_refused(tmp_path: Path) -> None:
    record = Record(tmp_path, 1)
    with pytest.raises(ValueError, match="found entries of 48 bytes for 2 documents, expected 48 for each"):
        record.append([b"a", b"b"], [b"", b""], [0, 1], filled(1, 0, 1))
    with pytest.raises(ValueError, match="index: found 1, expected one of 1 values"):
        record.append([b"a", b"b"], [b""], [0, 1], filled(1, 0, 2))
    record.fields = (record.fields[0], 44, *record.fields[2:])
    with pytest.raises(ValueError, match="found entries of 48 bytes"):
        record.append([b"a"], [b""], [0], filled(1, 0, 1))


# The record of a job.


def opened(folder: Path, count: int | None = None) -> Spool:
    folder.mkdir(exist_ok=True)
    return Spool(Folder.open(folder), texts=True, count=count)


def test_a_record_is_not_written_through_a_room_of_nothing(tmp_path: Path) -> None:
    record = Record(tmp_path, 1, 0)
    with pytest.raises(ValueError, match="room: found none, expected some bytes"):
        record.append([b"a"], [b"b"], [0], filled(1, 0, 1))
    assert all(path.read_bytes() == b"" for path in record.paths)


def test_some_of_names_and_texts_are_put_on_record_packed_or_not(tmp_path: Path) -> None:
    names, texts = ["a", "b", "c"], ["one", "two", "three"]
    ways = {"lists": (names, texts), "packed": tuple(Texts.pack(map(str.encode, each)) for each in (names, texts))}
    ways["mixed"] = ways["packed"][0], ways["lists"][1]
    for way, (own_names, own_texts) in ways.items():
        spool = opened(tmp_path / way)
        spool.append([3, 4], np.zeros(2, dtype=np.uint64), own_names, own_texts, None, indexes_of([0, 2]))
        ids = np.array([4, 3, 2, 5], dtype=np.uint64)
        assert spool.names(ids) == ["c", "a", None, None]
        assert spool.texts(ids) == ["three", "one", None, None]
        spool.close()
    files = {way: [(tmp_path / way / name).read_bytes() for name in (NAME_BYTES, TEXT_BYTES, INDEX)] for way in ways}
    assert files["lists"] == files["packed"] == files["mixed"]


def test_numbers_below_the_first_and_far_above_are_nobodys(tmp_path: Path) -> None:
    for first, second in ((3, 4), (3, 9)):  # that follow one another, and that do not
        spool = opened(tmp_path / f"{second}")
        spool.append([first, second], np.zeros(2, dtype=np.uint64), ["a", "b"], ["", ""])
        spool.close()
        spool = opened(tmp_path / f"{second}", 2)
        asked = np.array([0, 2, first, second, second + 1, 2**63, 2**64 - 1], dtype=np.uint64)
        assert spool.names(asked) == [None, None, "a", "b", None, None, None]
        spool.close()


def test_names_are_read_later_as_they_were_when_they_were_asked_for(tmp_path: Path) -> None:
    spool = opened(tmp_path / "r")
    spool.append([0, 1], np.zeros(2, dtype=np.uint64), ["a", "b"], ["", ""])
    read = spool.names_later(np.array([1, 0, 1], dtype=np.uint64))
    assert spool.names_later(np.array([2], dtype=np.uint64)) is None
    spool.append([2], np.zeros(1, dtype=np.uint64), ["c"], [""])
    assert read is not None
    assert [*read()] == ["b", "a", "b"]
    spool.close()


def test_a_record_that_became_shorter_or_changed_is_refused(tmp_path: Path) -> None:
    spool = opened(tmp_path / "r")
    ids = np.arange(2, dtype=np.uint64)
    spool.append(ids, np.zeros(2, dtype=np.uint64), ["a", "b"], ["one", "two"])
    (tmp_path / "r" / TEXT_BYTES).write_bytes(b"onetwx")
    with pytest.raises(CorruptStore, match="text of document 1, checksum"):
        spool.texts(ids)
    entries = np.fromfile(tmp_path / "r" / INDEX, dtype=entry_of(1))
    entries["text_end"] = [3, 2]
    whole = (tmp_path / "r" / INDEX).read_bytes()
    with (tmp_path / "r" / INDEX).open("r+b") as file:
        file.write(entries.tobytes())
    told = "index: document 1, where its text lies: found a place before others or behind all, expected one behind"
    with pytest.raises(CorruptStore, match=f"{told} those before it, in 6 bytes"):
        spool.texts(ids)
    with (tmp_path / "r" / INDEX).open("r+b") as file:
        file.write(whole)
    os.truncate(tmp_path / "r" / TEXT_BYTES, 5)
    with pytest.raises(JobError, match=r"texts: found less than the 6 bytes that were written; --force begins again"):
        spool.texts(ids)
    os.truncate(tmp_path / "r" / INDEX, 50)
    with pytest.raises(JobError, match=r"index: found less than the 96 bytes that were written; --force begins again"):
        spool.names(ids)
    spool.close()


def begun(patch: pytest.MonkeyPatch, least: int) -> list[tuple[int, int]]:
    """What of files begins to go to the disk, from where to where; so much at least at a time."""
    found: list[tuple[int, int]] = []

    def noted(fd: int, start: int, size: int) -> None:
        found.append((start, start + size))
        begin_to_sync(fd, start, size)

    patch.setattr(files, "begin_to_sync", noted)
    patch.setattr(files, "_BEGUN_BYTES", least)
    return found


def test_what_is_appended_goes_to_the_disk_where_it_is_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"before")
    found = begun(monkeypatch, 10)
    with closing(Folder.open(tmp_path)) as folder, closing(AppendFile(folder, "a", 6)) as file:
        for data in (b"123456789", b"0", b"", b"x" * 9, b"y" * 21):
            file.write(data)
            file.begin_to_sync()
    assert found == [(6, 16), (16, 46)]
    assert (tmp_path / "a").read_bytes() == b"before1234567890" + b"x" * 9 + b"y" * 21


@pytest.mark.parametrize("threads", [1, 2])
def test_the_results_of_a_job_go_to_the_disk_while_it_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 100)
    source = write_jsonl(tmp_path / "in.jsonl", [f"{i} {i + 1} x{i} y{i} {i * i} z{i} words" for i in range(1000)])
    found = begun(monkeypatch, 1)
    dedup([source], tmp_path / "kept", threads=threads)
    ends = [0, *(end for _, end in found)]
    assert len(found) == 10
    assert [start for start, _ in found] == ends[:-1]
    assert ends[-1] == (tmp_path / "kept").stat().st_size
