"""What is left of a catalog's bytes is what LMDB reads of them, whatever of the rest is damaged, and never more."""

from pathlib import Path

import numpy as np
import pytest
from catalogs import PAGE, SETTINGS, entry

from fpstore.living import changes
from fpstore.living.catalog import Catalog, create_catalog
from fpstore.living.changes import ADDED, FINGERPRINTS_REMOVED, ROWS_REMOVED, Change, RemovedBefore
from fpstore.living.remains import Remains, read_remains


def numbers(count: int, first: int = 0) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.uint64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog with a log and older removals, of large records and small ones."""
    create_catalog(tmp_path, SETTINGS, (entry(1),))
    with Catalog.open(tmp_path, writable=True) as catalog:
        catalog.append([Change(1, ADDED, (numbers(5), numbers(5)))])
        removed = [RemovedBefore(FINGERPRINTS_REMOVED, (numbers(n),), numbers(n)) for n in (4000, 3)]
        catalog.publish(segments=(entry(1), entry(2)), first_change=2, removed=removed)
        for number in range(2, 9):
            columns = numbers(3000 if number % 2 else 7, number), numbers(3000 if number % 2 else 7)
            catalog.append([Change(number, ADDED, columns)])
        catalog.append([Change(9, ROWS_REMOVED, (numbers(10), numbers(10)))])
    return tmp_path


def columns_of(remains: Remains) -> list[list[list[int]]]:
    return [[column.tolist() for column in change.columns] for change in remains.changes]


def test_a_sound_catalog_is_read_as_lmdb_reads_it(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        log = catalog.read()
    remains = read_remains((folder / "catalog.mdb").read_bytes())
    assert remains.state == log.state
    assert remains.state is not None
    assert remains.state.transaction == log.state.transaction
    assert (remains.is_newest, remains.changes_lost, remains.removals_lost) == (True, 0, 0)
    assert [change.number for change in remains.changes] == list(range(2, 10))
    assert columns_of(remains) == [[column.tolist() for column in change.columns] for change in log.changes]
    assert log.removed is not None
    assert [block.columns[0].tolist() for block in remains.removed] == [
        block.columns[0].tolist() for block in log.removed
    ]


def test_what_a_damaged_page_spares_is_read(folder: Path) -> None:
    data = (folder / "catalog.mdb").read_bytes()
    whole = read_remains(data)
    rng = np.random.default_rng(1)
    lost = set()
    for start in range(0, len(data), PAGE):
        noise = rng.integers(0, 256, PAGE, dtype=np.uint8).tobytes()
        remains = read_remains(data[:start] + noise + data[start + PAGE :])
        assert remains.state is not None
        if remains.state == whole.state:
            assert remains.is_newest
            assert len(remains.changes) + remains.changes_lost == 8
            assert len(remains.removed) + remains.removals_lost == 2
            right = {change.number: [c.tolist() for c in change.columns] for change in whole.changes}
            for change in remains.changes:
                assert [column.tolist() for column in change.columns] == right[change.number]
            lost.add((remains.changes_lost, remains.removals_lost))
        else:
            assert not remains.is_newest
    assert {(0, 0), (1, 0), (0, 1)} <= lost


def test_a_state_of_a_commit_that_failed_is_none(folder: Path) -> None:
    # Only the header tells that a transaction is through.
    with Catalog.open(folder) as catalog:
        before = catalog.state()
    path = folder / "catalog.mdb"
    headers = path.read_bytes()[: 2 * PAGE]
    with Catalog.open(folder, writable=True) as catalog:
        catalog.append([Change(10, ADDED, (numbers(3), numbers(3)))])
    data = path.read_bytes()
    later = read_remains(data).state
    assert later is not None
    assert later.next_change == before.next_change + 1
    remains = read_remains(headers + data[2 * PAGE :])
    assert remains.state is None or remains.state.next_change <= before.next_change
    # Where both headers are gone nobody knows which was the last.
    gone = read_remains(bytes(2 * PAGE) + data[2 * PAGE :])
    assert (gone.state, gone.is_newest) == (later, False)


def test_removals_of_which_it_is_not_sure_which_are_the_last_are_lost(folder: Path) -> None:
    data = bytearray((folder / "catalog.mdb").read_bytes())
    found = changes.encode_removed(RemovedBefore(FINGERPRINTS_REMOVED, (numbers(3),), numbers(3)), 1)
    at = data.index(found)
    page = at // PAGE * PAGE
    assert read_remains(bytes(data)).removals_lost == 0
    # A copy of the page with other content for the same index, which no tree leads to; and the page itself unreached.
    other = changes.encode_removed(RemovedBefore(FINGERPRINTS_REMOVED, (numbers(3, 50),), numbers(3)), 1)
    free = next(p for p in range(len(data) - PAGE, 0, -PAGE) if not any(data[p : p + PAGE]))
    copied = bytearray(data[page : page + PAGE])
    copied[at - page : at - page + len(other)] = other
    copied[:8] = (free // PAGE).to_bytes(8, "little")
    data[free : free + PAGE] = copied
    assert read_remains(bytes(data)).removals_lost == 0
    data[: 2 * PAGE] = bytes(2 * PAGE)
    assert read_remains(bytes(data)).removals_lost >= 1


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_read_without_another_error(folder: Path, seed: int) -> None:
    data = bytearray((folder / "catalog.mdb").read_bytes())
    rng = np.random.default_rng(seed)
    used = 40 * PAGE
    for offset in rng.integers(0, used, 300):
        data[offset] = int(rng.choice([0, 1, 2, 0x7F, 0xFF, int(rng.integers(0, 256))]))
    read_remains(bytes(data))
    read_remains(rng.integers(0, 256, int(rng.integers(0, 5 * PAGE)), dtype=np.uint8).tobytes())
    read_remains(bytes(data[: int(rng.integers(0, len(data)))]))
