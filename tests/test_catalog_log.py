"""The catalog's log of changes: appended whole, read from where a reader is, cut when a segment has taken it up."""

# mypy: disable-error-code="union-attr"

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpstore._watch import MappedWords
from fpstore.errors import CorruptStore, StoreClosed
from fpstore.living import changes
from fpstore.living.catalog import Catalog, create_catalog
from fpstore.living.changes import ADDED, FINGERPRINTS_REMOVED, IDS_REMOVED, ROWS_REMOVED, Change, RemovedBefore
from fpstore.living.records import Log
from fpstore.living.state import Settings
from fpstore.segment.entry import SegmentEntry

SETTINGS = Settings(max_distance=3, plan={"name": "paper-4"}, codec="gap", id_type="uint64")


def words(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def added(number: int, *keys: int) -> Change:
    return Change(number, ADDED, (words(*keys), words(*(key + 1 for key in keys))))


def entry(number: int, position: int) -> SegmentEntry:
    return SegmentEntry(f"{number:08d}.fpseg", 4096, 10, 12, 99, position)


def shown(log: Log) -> list[tuple[int, int, list[list[int]]]]:
    return [(change.number, change.kind, [column.tolist() for column in change.columns]) for change in log.changes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_catalog(tmp_path, SETTINGS)
    return tmp_path


def test_what_is_appended_is_read_in_its_order(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.append([added(1, 5, 6), Change(2, IDS_REMOVED, (words(6),))]).next_change == 3
        assert catalog.append([Change(3, FINGERPRINTS_REMOVED, (words(9),))]).next_change == 4
        log = catalog.read()
    assert (log.state.first_change, log.state.next_change, log.state.generation, log.removed) == (1, 4, 1, ())
    assert shown(log) == [(1, 1, [[5, 6], [6, 7]]), (2, 3, [[6]]), (3, 2, [[9]])]


@pytest.mark.parametrize(("step", "pages"), [(1, 5), (3, 6), (-1, 7)])
def test_a_commit_of_a_thousand_rows_writes_so_many_pages(folder: Path, step: int, pages: int) -> None:
    """Those of the rows, of the changes, of the main database and of what is free, and the words of a meta page."""

    def written() -> int:
        return int(dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())["wchar"])

    ids = np.arange(1000, dtype=np.uint64)[:: 1 if step > 0 else -1] * np.uint64(abs(step))
    counts = []
    with Catalog.open(folder, writable=True) as catalog:
        for number in range(1, 20):
            before = written()
            catalog.append([Change(number, ADDED, (ids * np.uint64(0x9E3779B97F4A7C15), ids))])
            counts.append((written() - before) / 4096)
    assert [int(count) for count in counts[3:]] == [pages] * 16


def test_a_reader_reads_only_what_it_has_not(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        catalog.append([added(1, 5), added(2, 6)])
        log = catalog.read(generation=1, next_change=2)
        assert (log.removed, [change.number for change in log.changes]) == (None, [2])
        assert catalog.read(generation=1, next_change=3).changes == ()


def test_the_stamp_differs_whenever_the_catalog_does(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as writer, Catalog.open(folder) as reader:
        stamps = [reader.stamp(), reader.stamp()]
        writer.append([added(1, 5)])
        stamps += [reader.stamp(), reader.stamp()]
        writer.publish(segments=(entry(1, 1),))
        stamps += [reader.stamp(), writer.stamp()]
    assert stamps[0] == stamps[1] != stamps[2] == stamps[3] != stamps[4] == stamps[5]
    with pytest.raises(StoreClosed, match="the catalog was closed"):
        reader.stamp()


def test_publishing_cuts_the_log_and_keeps_removals(folder: Path) -> None:
    removed = [
        RemovedBefore(IDS_REMOVED, (words(6, 7),), words(2, 2)),
        RemovedBefore(FINGERPRINTS_REMOVED, (words(9),), words(3)),
        RemovedBefore(ROWS_REMOVED, (words(5, 5), words(6, 7)), words(2, 3)),
    ]
    with Catalog.open(folder, writable=True) as catalog:
        catalog.append(
            [added(1, 5), Change(2, IDS_REMOVED, (words(6, 7),)), Change(3, IDS_REMOVED, (words(9),)), added(4, 8)]
        )
        state = catalog.publish(segments=(entry(1, 4),), first_change=4, removed=removed)
        assert (state.first_change, state.next_change, state.removal_records, state.generation) == (4, 5, 3, 2)
        catalog.append([added(5, 9)])
        log = catalog.read(generation=1, next_change=3)
        assert [change.number for change in log.changes] == [4, 5]
        assert [(r.kind, [*map(list, r.columns)], r.numbers.tolist()) for r in log.removed] == [
            (3, [[6, 7]], [2, 2]),
            (2, [[9]], [3]),
            (4, [[5, 5], [6, 7]], [2, 3]),
        ]
        assert catalog.publish(segments=()).removal_records == 3
        assert catalog.publish(first_change=6, removed=()).removal_records == 0
        assert (catalog.read().changes, catalog.read().removed) == ((), ())


def test_a_catalog_may_begin_with_anothers_log(folder: Path, tmp_path: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        catalog.append([added(1, 5), added(2, 6)])
        catalog.publish(first_change=2, removed=[RemovedBefore(IDS_REMOVED, (words(6),), words(1))])
        log = catalog.read()
    (tmp_path / "copy").mkdir()
    create_catalog(tmp_path / "copy", SETTINGS, (entry(1, 2),), log)
    with Catalog.open(tmp_path / "copy", writable=True) as copy:
        found = copy.read()
        assert (found.state.first_change, found.state.next_change, found.state.removal_records) == (2, 3, 1)
        assert shown(found) == shown(log)
        copy.append([added(3, 7)])


def test_changes_out_of_their_order_are_refused(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        for records in ([added(2, 5)], [added(1, 5), added(3, 6)], [added(1, 5), added(1, 5)]):
            with pytest.raises(ValueError, match=r"the numbers: found \[.*\], expected the next ones"):
                catalog.append(records)
        assert catalog.read().changes == ()


def test_only_the_writer_appends(folder: Path) -> None:
    with Catalog.open(folder) as catalog, pytest.raises(ValueError, match="opened for reading, expected writable=True"):
        catalog.append([added(1, 5)])


def test_an_append_that_fails_leaves_the_log_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        catalog.append([added(1, 5)])
        with monkeypatch.context() as patch:
            patch.setattr(changes, "encode_change", lambda change: b"".join(()) if change.number == 2 else 1 / 0)
            with pytest.raises(ZeroDivisionError):
                catalog.append([added(2, 6), added(3, 7)])
        assert [change.number for change in catalog.read().changes] == [1]
        catalog.append([added(2, 8)])
        assert shown(catalog.read())[1] == (2, 1, [[8], [9]])


def test_a_long_log_outgrows_the_map_and_is_read_whole(folder: Path) -> None:
    keys = np.arange(4000, dtype=np.uint64)
    with Catalog.open(folder, writable=True) as catalog, Catalog.open(folder) as reader:
        for number in range(1, 61, 3):
            catalog.append([Change(number + i, ADDED, (keys, keys)) for i in range(3)])
            assert len(reader.read(1, number).changes) == 3
        assert sum(len(change.fingerprints) for change in reader.read().changes) == 240_000


def test_flushing_again_and_again_does_not_let_the_file_grow(folder: Path) -> None:
    keys = np.arange(4000, dtype=np.uint64)
    sizes = []
    with Catalog.open(folder, writable=True) as catalog:
        for number in range(1, 201, 10):
            catalog.append([Change(number + i, ADDED, (keys, keys)) for i in range(10)])
            catalog.publish(first_change=number + 10)
            sizes.append((folder / "catalog.mdb").stat().st_size)
    assert sizes[-1] == sizes[4]


@pytest.mark.parametrize(
    ("database", "number", "record", "message"),
    [
        (
            b"changes",
            2,
            changes.encode_change(added(2, 6))[:-1] + b"\1",
            "a record: found 32 bytes of another checksum",
        ),
        (b"changes", 2, changes.encode_change(added(1, 5)), "a record: found 32 bytes of another checksum"),
        (b"changes", 2, None, "the number of changes: found 1, expected 2"),
        (b"changes", 3, changes.encode_change(added(3, 6)), "the number of changes: found 3, expected 2"),
        (b"removals", 0, b"", "a record: found 0 bytes of another checksum"),
        (b"removals", 0, None, "the number of removals: found 0, expected 1"),
        (b"removals", 1, b"", "the number of removals: found 2, expected 1"),
    ],
)
def test_a_record_that_is_damaged_missing_or_too_many_is_noticed(
    folder: Path, database: bytes, number: int, record: bytes | None, message: str
) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        catalog.append([added(1, 5), added(2, 6)])
        state = catalog.publish(removed=[RemovedBefore(IDS_REMOVED, (words(6),), words(1))])

        def damage(transaction: Any) -> None:
            place = catalog._environment.database(database, transaction)
            if record is None:
                transaction.delete(changes.key_of(number), db=place)
            else:
                transaction.put(changes.key_of(number), record, db=place)
            catalog._replace(state, transaction)

        catalog._environment.run(damage, write=True)
        with pytest.raises(CorruptStore, match=rf"catalog\.mdb: {message}"):
            catalog.read()


def test_a_change_exchanged_for_another_is_noticed(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        state = catalog.append([added(1, 5), added(2, 6)])

        def exchange(transaction: Any) -> None:
            place = catalog._environment.database(b"changes", transaction)
            transaction.delete(changes.key_of(2), db=place)
            transaction.put(changes.key_of(3), changes.encode_change(added(3, 6)), db=place)
            catalog._replace(state, transaction)

        catalog._environment.run(exchange, write=True)
        with pytest.raises(CorruptStore, match="a record: found 0 bytes of another checksum"):
            catalog.read()


def test_what_another_process_appends_is_seen(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from fpstore.living.catalog import Catalog; from fpstore.living.changes import ADDED, Change\n"
        "keys = np.array([5], dtype=np.uint64)\n"
        "with Catalog.open(Path(sys.argv[1]), writable=True) as c: c.append([Change(1, ADDED, (keys, keys))])"
    )
    with Catalog.open(folder) as reader:
        before = reader.stamp()
        subprocess.run([sys.executable, "-c", code, os.fspath(folder)], check=True, timeout=60)
        assert reader.stamp() != before
        assert shown(reader.read()) == [(1, 1, [[5], [5]])]


def test_a_stamp_of_a_file_cut_short_is_none_and_reading_says_why(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        assert catalog.stamp() is not None
        os.truncate(folder / "catalog.mdb", 0)
        assert catalog.stamp() is None
        with pytest.raises(CorruptStore, match="the file's size: found 0"):
            catalog.read()


@pytest.mark.parametrize(("first", "second"), [(-8, 0), (0, 9), (4, 8), (16, 0), (0, 2**62)])
def test_words_outside_a_mapping_are_refused(first: int, second: int) -> None:
    with pytest.raises(ValueError, match=f"words at {first} and {second}: expected multiples of 8 within 16 bytes"):
        MappedWords(bytes(16), first, second)
    assert MappedWords(words(5, 6), 8, 0).read() == (6, 5)
