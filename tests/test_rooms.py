"""Rooms for keys: who has one after whom, and that their memory is there before it is written to."""

# mypy: disable-error-code="arg-type, list-item"

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import resident, uniform

from fpstore._sort import GrowingKeys
from fpstore.building import rooms, spill
from fpstore.building.rooms import Readiness
from fpstore.building.spill import KeySorter

STRIPE, AHEAD = 10, 40


class Room:
    """Notes who asked for which of its keys. The other thread, when it begins, waits until it may go on."""

    def __init__(self, count: int = 1000) -> None:
        self.count, self.main = count, threading.get_ident()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.own: list[int] = []
        self.others: list[int] = []

    def __len__(self) -> int:
        return self.count

    def populate(self, first: int, end: int) -> None:
        assert end - first == STRIPE
        if threading.get_ident() == self.main:
            self.own.append(first)
        else:
            self.begun.set()
            assert self.go_on.wait(60)
            self.others.append(first)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(rooms, "STRIPE_KEYS", STRIPE)
        patch.setattr(rooms, "AHEAD_KEYS", AHEAD)
        yield


def test_memory_is_there_before_it_is_written_to() -> None:
    room = GrowingKeys(1 << 26)  # so much is from the system, and not what was given back; the heap may keep 64 MiB
    address = np.asarray(room).ctypes.data
    assert not any(resident(address + 4096, 8 * len(room) - 8192))
    room.populate(1 << 20, 3 << 20)
    held = resident(address + (1 << 23) + 4096, (1 << 24) - 8192)
    if not any(held):
        pytest.skip("no Linux of 5.14 or later")
    assert all(held)


@pytest.mark.parametrize(("first", "end"), [(0, 11), (6, 5), (11, 11)])
def test_memory_that_there_is_no_room_for_is_refused(first: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"keys {first} to {end}: there is room for 10"):
        GrowingKeys(10).populate(first, end)
    GrowingKeys(10).populate(10, 10)


def test_another_thread_asks_for_what_is_written_next_and_for_each_stripe_once() -> None:
    readiness, both = Readiness(), [Room(), Room()]
    for room in both:
        room.go_on.set()
    for end in (0, 3, 57, 58, 990, 1000):
        readiness.come_to(both, end)
        readiness._line.wait()
        for room in both:
            assert sorted(room.own + room.others) == list(range(0, min(end + AHEAD, 1000) // STRIPE * STRIPE, STRIPE))
    assert both[0].others


def test_who_comes_up_with_the_other_thread_asks_for_the_rest_that_it_needs() -> None:
    readiness, room = Readiness(), Room()
    readiness.come_to([room], 0)
    assert room.begun.wait(60)
    readiness.come_to([room], 95)
    assert room.own == list(range(STRIPE, 95, STRIPE))
    room.go_on.set()
    readiness._line.wait()
    assert room.others == [0, *range(100, 130, STRIPE)]


def test_who_changes_a_room_waits_and_forgets_what_is_left_to_ask_for() -> None:
    readiness, room = Readiness(), Room()
    readiness.come_to([room], 0)
    assert room.begun.wait(60)
    threading.Timer(0.05, room.go_on.set).start()
    readiness.wait()
    assert room.others == [0]
    assert room.own == []


def test_a_room_that_is_soon_full_is_left_to_who_fills_it() -> None:
    readiness, room = Readiness(), Room(AHEAD - 1)
    readiness.come_to([room], 5)
    readiness.wait()
    assert room.own == room.others == []


def test_a_room_grows_when_nobody_is_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []

    class Looking(Readiness):
        def come_to(self, rooms: Any, end: int) -> None:
            looked_at.extend(np.asarray(room) for room in rooms)

        def wait(self) -> None:
            looked_at.clear()

    monkeypatch.setattr(spill, "Readiness", Looking)
    keys = uniform(100_000, np.random.default_rng(1))
    sorter = KeySorter(tmp_path, 1 << 20, threads=2)
    for start in range(0, len(keys), 999):
        sorter.add(keys[start : start + 999])
        assert looked_at
    np.testing.assert_array_equal(np.concatenate([chunk.copy() for chunk in sorter.finish().chunks()]), np.sort(keys))
    assert not looked_at


@pytest.mark.parametrize("expected", [0, 300_000])
def test_keys_are_those_that_one_thread_sorts(tmp_path: Path, expected: int) -> None:
    keys = uniform(300_000, np.random.default_rng(2))
    for threads in (1, 2):
        sorter = KeySorter(tmp_path, 1 << 20, expected, threads=threads)
        for start in range(0, len(keys), 9999):
            sorter.add(keys[start : start + 9999])
        found = np.concatenate([chunk.copy() for chunk in sorter.finish().chunks()])
        np.testing.assert_array_equal(found, np.sort(keys))
