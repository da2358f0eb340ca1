"""What the pages promise of the store as a whole, and no other test shows."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import uniform, write_segment

import fpstore
from fpstore import CorruptStore
from fpstore.living.removals import Removals
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.segment.reader import Segment

SOME = uniform(2_000, np.random.default_rng(1))


def test_a_page_that_changes_after_its_first_use_is_found_by_verify_and_by_opening_anew(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s.fpstore", SOME, codec="raw") as store:
        before = store.probe_many(SOME, max_distance=0)
        assert len(before) == len(SOME)
        (path,) = (tmp_path / "s.fpstore" / "segments").iterdir()
        with path.open("r+b") as file:
            file.seek(4096)
            byte = file.read(1)[0]
            file.seek(4096)
            file.write(bytes([byte ^ 1]))
        with pytest.raises(CorruptStore, match="checksum"):
            store.verify()
    with fpstore.open(tmp_path / "s.fpstore") as store, pytest.raises(CorruptStore, match="byte 4096"):
        store.probe_many(SOME, max_distance=0)


def test_a_segment_is_never_written_to_again(tmp_path: Path) -> None:
    first: dict[str, bytes] = {}
    with fpstore.create(tmp_path / "s.fpstore") as store:
        steps: list[Callable[[], object]] = [
            lambda: store.add(SOME[:1000], ids=np.arange(1000)),
            store._flush,
            lambda: store.add_if_new(SOME[1000:], ids=np.arange(1000, 2000)),
            lambda: store.remove(ids=np.arange(0, 2000, 7)),
            store._flush,
            store.compact,
            lambda: store.remove(fingerprints=SOME[::3]),
            store.compact,
        ]
        for step in steps:
            step()
            store.wait()  # a file that is still being made is no segment
            for segment in store._segments:
                found = segment.path.read_bytes()
                assert found == first.setdefault(segment.path.name, found)
    assert len(first) >= 3


def test_threads_that_test_and_add_store_one_of_what_is_near(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s.fpstore", id_type=None) as store:

        def work(bit: int) -> None:
            near = SOME[:600] ^ np.uint64(1 << bit)
            for first in range(0, len(near), 50):
                store.add_if_new(near[first : first + 50], max_distance=3)

        workers = [threading.Thread(target=work, args=(bit,)) for bit in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        stored = np.concatenate([rows.fingerprint for rows in store.rows()])
    assert len(stored) == 600
    distances = np.bitwise_count(stored[:, None] ^ SOME[None, :600])
    assert (distances.min(axis=0) == 1).all()


@pytest.mark.parametrize("bits", [511, 512, 513, 1024, 1025])
def test_started_bits_of_the_groups_have_a_sample(tmp_path: Path, bits: int) -> None:
    # The first of 7 fingerprints has all ids but six: a 1 and its ids as zeros, then a 1 and a 0 for each other one.
    fingerprints = np.concatenate([np.zeros(bits - 13, dtype=np.uint64), np.arange(1, 7, dtype=np.uint64)])
    ids = np.arange(len(fingerprints), dtype=np.uint64)
    path = write_segment(tmp_path / "x", fingerprints, plans.flips(2, (1, 1), 3), pairs=(fingerprints, ids))
    segment = Segment(path)
    record = segment.record
    assert record.key_count + record.id_count == bits
    first_bits = ("1" + "0" * (bits - 13) + "10" * 6)[:bits]
    expected = [first_bits[: 512 * i].count("1") for i in range(-(-bits // 512))] + [7]
    found = np.frombuffer(segment.read(record.samples_offset, 8 * len(expected)), dtype="<u8")
    assert found.tolist() == expected
    segment.close()


def test_an_unused_writer_lock_is_empty(tmp_path: Path) -> None:
    lock = tmp_path / "s.fpstore" / "writer.lock"
    with fpstore.create(tmp_path / "s.fpstore"):
        assert lock.read_text().strip() == str(os.getpid())
    assert lock.read_text() == ""


def test_the_default_plan_for_a_distance_of_three_has_two_or_three_tables() -> None:
    assert [len(planner.choose(10**n, 3, "balanced").tables) for n in range(13)] == [3] * 9 + [2] * 4


MEASURE_PENDING = """
import numpy as np
from fpstore.living.removals import Removals
from fpstore._pending import PendingIndex
from fpstore.plans import families as plans

def resident():
    with open("/proc/self/smaps_rollup") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Rss:"))

count = 1 << 21  # so that a large page more or less, 2 MiB, is a byte a row
keys, ids = np.random.default_rng(1).integers(0, 1 << 64, count, dtype=np.uint64), np.arange(count, dtype=np.uint64)
tables = plans.flips(3, (1, 0, 0), 3).tables
before = resident()
index = PendingIndex([t.prefix_mask for t in tables], [t.flips for t in tables], with_ids=True, capacity=count)
index.append(keys, ids, 1, 0)
added = (resident() - before) / count
index.search(keys[:1], 3, count)
print(added, (resident() - before) / count)
"""


def test_what_pending_rows_take_is_what_the_page_says() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE_PENDING], capture_output=True, text=True, check=True)
    added, searched = map(float, done.stdout.split())
    assert 23 < added < 28  # 24 bytes a row, in pages, and what is the same for any number of rows
    assert 71 < searched < 80  # 72 of them
    removed = Removals.of(()).with_ids(SOME, 5).with_fingerprints(SOME[:100], 6)
    blocks = removed.records_before(7)
    assert sum(block.columns[0].nbytes + block.numbers.nbytes for block in blocks) == 16 * (len(SOME) + 100)
    pairs = Removals.of(()).with_rows(SOME, SOME, 5)._rows.runs
    assert sum(column.nbytes for run in pairs for column in run) == 24 * len(SOME)
