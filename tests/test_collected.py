"""Stores that are closed at odd moments: by the garbage collector in any thread, and by a signal's handler."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fpstore
from fpstore import Store
from fpstore.living import environment as environments
from fpstore.living.environment import Environment

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


class Knot:
    """Garbage that only the collector finds, with a store in it."""

    def __init__(self, store: Store) -> None:
        self.knot, self.store = self, store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fpstore.create(tmp_path / "s").close()
    return tmp_path / "s"


@pytest.fixture
def refused() -> Iterator[list[Any]]:
    """What was raised where nobody hears it."""
    found: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = found.append
    yield found
    sys.unraisablehook = before


@pytest.mark.parametrize("is_older", [False, True])
def test_what_waits_in_a_store_that_the_collector_closes_is_written(
    path: Path, refused: list[Any], is_older: bool
) -> None:
    reader = fpstore.open(path)
    knot = Knot(fpstore.open(path, "w", durability="batch"))
    reader.close()
    del reader
    knot.store.add([5, 6], ids=[1, 2])
    if is_older:
        gc.collect()
    del knot
    gc.collect()
    assert not refused
    with fpstore.open(path, "w") as store:
        assert store.count() == 2


def test_while_the_collector_closes_a_store_it_can_be_opened(
    path: Path, refused: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    knot = Knot(fpstore.open(path))
    counted: list[int] = []
    close = Store.close

    def late(store: Store, **how: Any) -> None:
        monkeypatch.undo()
        opening = threading.Thread(target=lambda: counted.append(fpstore.open(path).count()))
        opening.start()
        opening.join()
        close(store, **how)

    monkeypatch.setattr(Store, "close", late)
    del knot
    gc.collect()
    gc.collect()
    assert counted == [0]
    assert not refused


def test_the_collector_may_close_a_store_while_its_thread_opens_one(
    path: Path, tmp_path: Path, refused: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fpstore.create(tmp_path / "other").close()
    begin = Environment.__init__
    knots = [Knot(fpstore.open(path))]

    def collected(environment: Environment, path: Path, fd: int) -> None:
        knots.clear()
        gc.collect()
        begin(environment, path, fd)

    monkeypatch.setattr(Environment, "__init__", collected)
    counted: list[int] = []
    opening = threading.Thread(target=lambda: counted.append(fpstore.open(tmp_path / "other").count()), daemon=True)
    opening.start()
    opening.join(60)
    assert counted == [0]
    assert not knots
    assert not refused
    assert not environments._left


SIGNALLED = """
import os, signal, sys
import fpstore
from fpstore.living import environment
store = fpstore.open(sys.argv[1], "w", durability="batch")
store.add([5, 6], ids=[1, 2])
signal.signal(signal.SIGUSR1, lambda *_: store.close())
check = environment._check_pages
def signalled(*how):
    os.kill(os.getpid(), signal.SIGUSR1)
    return check(*how)
environment._check_pages = signalled
store._living._catalog._environment.close()
store.close()
print("closed")
"""


def test_a_handler_may_close_a_store_that_is_being_closed(path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", SIGNALLED, os.fspath(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.stdout, told.returncode) == ("closed\n", 0), told.stderr
    with fpstore.open(path) as store:
        assert store.count() == 2


@pytest.mark.slow
@pytest.mark.parametrize("call", ["probe", "probe_many", "follow", "pairs", "add", "add_many", "compact"])
def test_a_handler_closes_a_store_in_the_midst_of_a_call_or_is_told_that_it_cannot(tmp_path: Path, call: str) -> None:
    command = [sys.executable, str(Path(__file__).parent / "closings.py"), os.fspath(tmp_path), call, "40"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert told.returncode == 0, told.stderr
    # Of so many moments some are within what closing waits for, and some are not.
    assert " closed" in told.stdout
    assert " refused" in told.stdout


def test_a_store_cannot_be_closed_where_its_thread_holds_what_closing_waits_for(path: Path) -> None:
    told = "found a call that came in the midst of another of this thread to the same store, expected one when"
    for mode in ("r", "w"):
        store = fpstore.open(path, mode)
        living = store._living
        assert living._catalog._shared is not None
        for lock in (living._lock, living._catalog._shared.lock, store._lock, store._team(2)._lock):
            with lock, pytest.raises(RuntimeError, match=told):
                store.close()
        assert store.count() == 0
        # Another thread waits until the call has ended.
        closing = threading.Thread(target=store.close)
        with living._lock:
            closing.start()
            closing.join(0.05)
            assert closing.is_alive()
        closing.join(60)
        assert not closing.is_alive()
        store.close()


def test_a_reader_is_not_asked_in_the_midst_of_its_own_look(path: Path) -> None:
    with fpstore.open(path) as store, fpstore.open(path, "w") as writer:
        for count in (1, 2, 3):  # behind the first it follows the log in its own call
            writer.add([5], ids=[count])
            with store._living._lock, pytest.raises(RuntimeError, match="in the midst of another of this thread"):
                store.probe(5)
            assert len(store.probe(5)) == count


def test_what_the_collector_closes_in_the_midst_of_a_call_is_closed_after_it(path: Path, refused: list[Any]) -> None:
    reader = fpstore.open(path)
    knot = Knot(fpstore.open(path, "w", durability="batch"))
    knot.store.add([5, 6], ids=[1, 2])
    shared = reader._living._catalog._environment
    assert shared is knot.store._living._catalog._environment
    with shared.lock:
        del knot
        gc.collect()
    for _ in range(600):
        try:
            with fpstore.open(path, "w") as store:
                assert store.count() == 2
            break
        except fpstore.StoreLocked:
            time.sleep(0.1)
    else:
        pytest.fail("it was never closed")
    assert not refused
    reader.close()
