"""What docs/concurrency.md says of threads, processes, signals and the ends of things, where no other file shows it."""

import _thread
import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

import fpstore
from fpstore.living.snapshot import Snapshot

KEYS = np.random.default_rng(3).integers(0, 1 << 64, 2000, dtype=np.uint64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with fpstore.create(tmp_path / "s") as store:
        store.add(KEYS[:1000], ids=np.arange(1000))
    return tmp_path / "s"


def test_an_iterator_belongs_to_one_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    rows = Snapshot.rows

    def waiting(self: Snapshot) -> object:
        entered.set()
        leave.wait(60)
        return rows(self)

    monkeypatch.setattr(Snapshot, "rows", waiting)
    with fpstore.open(path) as store:
        batches = store.rows()
        thread = threading.Thread(target=next, args=(batches,))
        thread.start()
        entered.wait(60)
        with pytest.raises(ValueError, match="generator already executing"):
            next(batches)
        leave.set()
        thread.join()


def test_readers_and_a_writer_of_one_process_follow_each_other(path: Path) -> None:
    with fpstore.open(path, "w") as writer, fpstore.open(path) as first, fpstore.open(path) as second:
        writer.add(KEYS[1000:], ids=np.arange(1000, 2000))
        writer.compact()
        for store in (writer, first, second):
            assert store.count() == 2000
        first.close()
        writer.remove(ids=[1999])
        assert not second.contains_near(int(KEYS[1999]), max_distance=0)


def test_calls_from_coroutines_go_through_threads(path: Path) -> None:
    async def ask() -> list[bool]:
        with fpstore.open(path, "w") as store:
            near = [asyncio.to_thread(store.contains_near, int(key), max_distance=0) for key in KEYS[:50]]
            adding = asyncio.create_task(asyncio.to_thread(store.add, KEYS[1000:1100], ids=np.arange(1000, 1100)))
            found = await asyncio.gather(*near)
            await adding
            return [*found, store.contains_near(int(KEYS[1099]), max_distance=0)]

    assert all(asyncio.run(ask()))


def test_an_interrupted_batch_leaves_a_store_that_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Snapshot.search
    interrupted: list[bool] = []

    def interrupt(self: Snapshot, *arguments: object) -> object:
        if not interrupted:
            interrupted.append(True)
            _thread.interrupt_main()
        return search(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Snapshot, "search", interrupt)
    with fpstore.open(path) as store:
        with pytest.raises(KeyboardInterrupt):
            store.probe_many(KEYS, threads=1)
        assert len(store.probe_many(KEYS[:1000], max_distance=0, threads=1)) == 1000


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_what_was_added_before_an_exception_stays(path: Path, durability: str) -> None:
    def fail() -> None:
        with fpstore.open(path, "w", durability=durability) as store:
            store.add(KEYS[1000:], ids=np.arange(1000, 2000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with fpstore.open(path) as store:
        assert store.count() == 2000
