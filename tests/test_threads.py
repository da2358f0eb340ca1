"""Work shared by threads: every item once, in order, and nothing begun after a failure."""

# mypy: disable-error-code="var-annotated"

import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import Any

import pytest
from helpers import InterruptedAt
from hypothesis import given
from hypothesis import strategies as st

from fpstore import threads as threads_module
from fpstore.awaited import Leash
from fpstore.threads import Background, Line, Piece, Threads, ahead, begun_ahead, is_unwanted, slices


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("items", [0, 1, 2, 1000])
def test_results_come_in_the_order_of_the_items(count: int, items: int) -> None:
    with closing(Threads(count)) as threads:
        assert threads.map(lambda item: item * item, range(items)) == [item * item for item in range(items)]


def test_results_come_in_that_order_also_where_a_later_item_is_done_first() -> None:
    later_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 1:
            later_is_done.set()
        assert later_is_done.wait(30)
        time.sleep(0.01 * (item == 0))  # for the other to hand in its result
        return item

    with closing(Threads(2)) as threads:
        assert threads.map(work, range(2)) == [0, 1]


def test_the_caller_and_the_helpers_work_at_once() -> None:
    # Three that wait for each other: with two at work, none would ever get past the barrier.
    barrier = threading.Barrier(3, timeout=30)
    with closing(Threads(3)) as threads:
        found = threads.map(lambda item: (barrier.wait(), threading.current_thread())[1], range(3))
    assert threading.current_thread() in found
    assert len(set(found)) == 3


def test_one_thread_starts_none() -> None:
    before = threading.active_count()
    with closing(Threads(1)) as threads:
        assert threads.map(lambda item: threading.active_count(), range(3)) == [before] * 3


@pytest.mark.parametrize("by_the_caller", [True, False])
def test_a_failure_is_raised_and_no_further_item_begun(by_the_caller: bool) -> None:
    caller = threading.current_thread()
    barrier = threading.Barrier(2, timeout=30)
    failed = threading.Event()
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item < 2:
            barrier.wait()  # now both threads are at work
        if (threading.current_thread() is caller) == by_the_caller:
            failed.set()
            raise LookupError(item)
        failed.wait(30)
        time.sleep(0.02)

    with closing(Threads(2)) as threads:
        with pytest.raises(LookupError):
            threads.map(work, range(1000))
        assert len(begun) < 100  # the other thread may begin some until the failure is known
        assert threads.map(lambda item: item, range(10)) == list(range(10))


def test_a_failure_of_the_caller_is_raised_when_no_thread_is_working_any_more() -> None:
    caller, barrier = threading.current_thread(), threading.Barrier(2, timeout=30)
    ended = threading.Event()

    def work(item: int) -> None:
        barrier.wait()  # now both threads are at work
        if threading.current_thread() is caller:
            raise LookupError(item)
        time.sleep(0.2)
        ended.set()

    with closing(Threads(2)) as threads:
        with pytest.raises(LookupError):
            threads.map(work, range(2))
        assert ended.is_set()


def test_a_call_whose_helpers_serve_another_is_done_by_its_caller_alone() -> None:
    occupied, release = threading.Barrier(3, timeout=30), threading.Event()
    with closing(Threads(2)) as threads:

        def occupy(item: int) -> None:
            occupied.wait()
            release.wait(30)

        other = threading.Thread(target=threads.map, args=(occupy, range(2)))
        other.start()
        occupied.wait()  # both threads of that call are at work
        assert set(threads.map(lambda item: threading.current_thread(), range(100))) == {threading.current_thread()}
        release.set()
        other.join()


def test_threads_that_were_closed_refuse() -> None:
    threads = Threads(2)
    threads.map(abs, range(10))
    threads.close()
    with pytest.raises(RuntimeError):
        threads.map(abs, range(10))


@given(count=st.integers(0, 50_000), threads=st.integers(1, 64), least=st.integers(1, 300), longer=st.integers(0, 5000))
def test_slices_are_the_range_cut(count: int, threads: int, least: int, longer: int) -> None:
    most = least + longer
    cut = slices(count, threads, most, least)
    assert [index for own in cut for index in range(own.start, own.stop)] == list(range(count))
    lengths = [own.stop - own.start for own in cut]
    assert all(least <= length <= most for length in lengths[:-1])
    assert lengths == sorted(lengths, reverse=True)


def test_one_thread_gets_slices_as_long_as_may_be() -> None:
    assert slices(2500, 1, 1000, 10) == [slice(0, 1000), slice(1000, 2000), slice(2000, 2500)]


# --- Work beside its caller ---


def test_work_in_the_background_returns_or_raises_what_it_came_to() -> None:
    caller = threading.get_ident()
    assert Background(threading.get_ident).result() != caller
    work = Background(lambda: [][0])
    for _ in range(2):
        with pytest.raises(IndexError):
            work.result()
    assert isinstance(work.take_error(), IndexError)
    assert work.take_error() is None
    assert work.done


def test_work_in_the_background_is_waited_for_by_any_number() -> None:
    go_on = threading.Event()
    work = Background(lambda: go_on.wait(60))
    assert not work.done
    waiting = [threading.Thread(target=work.wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    go_on.set()
    for thread in waiting:
        thread.join(60)
        assert not thread.is_alive()
    assert work.done
    assert work.result() is True


def test_work_that_has_ended_holds_nothing() -> None:
    class Held:
        pass

    held: Held | None = Held()
    gone = weakref.ref(held)
    work = Background(partial(id, held))
    fails = Background(partial(int, held))
    held = None
    assert work.result() > 0
    fails.wait()
    assert isinstance(fails.take_error(), TypeError)
    assert gone() is None


def test_a_keyboard_interrupt_in_the_background_is_the_works_own() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Background(interrupted).result()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_where_no_thread_can_be_started_the_work_has_failed(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(threads_module, "start_new_thread", refuse)
    work = Background(lambda: 1)
    assert work.done
    work.wait()
    with pytest.raises(MemoryError, match=r"^for a thread: "):
        work.result()


def test_a_thread_that_never_began_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is left where the memory goes out between the system's thread and the first step of ours.
    monkeypatch.setattr(threads_module, "start_new_thread", lambda run, arguments: None)
    work = Background(lambda: 1)
    with pytest.raises(MemoryError, match=r"^for a thread, which ended before it began$"):
        work.result()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_where_no_thread_can_be_started_the_caller_does_the_work(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_arguments: object) -> None:
        raise error

    with closing(Threads(4)) as threads:
        with monkeypatch.context() as patch:
            patch.setattr(threads_module, "start_new_thread", refuse)
            found = threads.map(lambda item: (item, threading.get_ident()), range(20))
        assert found == [(item, threading.get_ident()) for item in range(20)]
        assert threads.map(lambda item: item, range(20)) == list(range(20))


def test_a_thread_that_ends_before_it_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "start_new_thread", lambda work, arguments: 1)
    with closing(Threads(4)) as threads:
        assert threads.map(lambda item: item, range(20)) == list(range(20))


def test_what_comes_next_is_made_while_the_caller_has_what_came_before() -> None:
    begun = [threading.Event() for _ in range(4)]

    def items() -> Generator[int]:
        for index in range(3):
            begun[index].set()
            yield index
        begun[3].set()

    found = []
    for item in ahead(items()):
        assert begun[item + 1].wait(30)
        found.append(item)
    assert found == [0, 1, 2]


def test_what_fails_ahead_is_raised_in_its_turn() -> None:
    def items() -> Generator[str]:
        yield "first"
        raise OSError("the second")

    coming = ahead(items())
    assert next(coming) == "first"
    with pytest.raises(OSError, match="the second"):
        next(coming)


def test_who_wants_no_more_waits_for_what_is_being_made() -> None:
    going_on, made = threading.Event(), []

    def items() -> Generator[int]:
        yield 0
        going_on.wait(0.2)
        made.append(1)
        yield 1

    coming = ahead(items())
    next(coming)
    coming.close()
    assert made == [1]


def test_the_thread_of_what_failed_ahead_ends_though_the_error_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Background[Any]] = []

    class Seen(Background[Any]):
        def __init__(self, work: Callable[[], Any]) -> None:
            begun.append(self)
            super().__init__(work)

    def items() -> Generator[int]:
        yield 1
        raise ValueError("no more")

    monkeypatch.setattr(threads_module, "Background", Seen)
    with pytest.raises(ValueError, match="no more") as kept:
        list(ahead(items()))
    end = time.monotonic() + 10
    while not begun[0].done and time.monotonic() < end:
        time.sleep(0.001)
    assert len(begun) == 1
    assert begun[0].done
    assert kept.value.__traceback__ is not None  # which knows the frames, and all that they hold


# --- One item ahead ---


def items_in(where: list[str], count: int, error: Exception | None = None) -> Generator[int]:
    """Numbers; in where is told what was done, and by which thread."""
    try:
        for number in range(count):
            where.append(f"{number} in {threading.current_thread() is threading.main_thread()}")
            yield number
        if error is not None:
            raise error
    finally:
        where.append("closed")


def test_items_ahead_are_those_that_are_made_in_their_order_and_by_another_thread() -> None:
    where: list[str] = []
    assert list(ahead(items_in(where, 5))) == [0, 1, 2, 3, 4]
    assert where == [*(f"{number} in False" for number in range(5)), "closed"]


def test_an_error_ahead_is_raised_behind_the_items_before_it() -> None:
    every = ahead(items_in([], 2, LookupError("wrong")))
    assert [next(every), next(every)] == [0, 1]
    with pytest.raises(LookupError, match="wrong"):
        next(every)


def test_who_asks_for_no_more_items_ahead_has_them_closed() -> None:
    where: list[str] = []
    every = ahead(items_in(where, 5))
    assert next(every) == 0
    every.close()
    assert where in ([f"{number} in False" for number in range(2)] + ["closed"], ["0 in False", "closed"])


def test_items_are_made_where_there_is_no_thread_for_what_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads_module, "start_new_thread", refuse)
    where: list[str] = []
    assert list(ahead(items_in(where, 3))) == [0, 1, 2]
    assert where == [*(f"{number} in True" for number in range(3)), "closed"]


def test_an_item_comes_when_the_one_after_it_was_made() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            yield number
        raise ValueError("no more")

    found = begun_ahead(make())
    assert made == []
    assert [(next(found), list(made)) for _ in range(3)] == [(0, [0, 1]), (1, [0, 1, 2]), (2, [0, 1, 2])]
    with pytest.raises(ValueError, match="no more"):
        next(found)
    assert [(next(two), list(made)) for two in [begun_ahead(make(), 2)]] == [(0, [0, 1, 2, 0, 1, 2])]
    assert list(begun_ahead(iter([]))) == []
    assert list(begun_ahead(iter("ab"))) == ["a", "b"]


# --- A line ---


def test_what_a_line_is_given_is_done_in_its_order_by_one_other_thread() -> None:
    line, where = Line(), list[tuple[int, int]]()
    pieces = [line.give(partial(lambda at: where.append((at, threading.get_ident())), at)) for at in range(5)]
    for piece in pieces:
        piece.finish()
    assert [at for at, _ in where] == [0, 1, 2, 3, 4]
    (one,) = {ident for _, ident in where}
    assert one != threading.get_ident()
    assert all(piece.done for piece in pieces)


def test_what_fails_in_a_line_is_raised_where_it_is_finished_and_others_are_done() -> None:
    line, done = Line(), list[int]()
    failing, other = line.give(lambda: [][0]), line.give(lambda: done.append(1))
    failing.wait()
    with pytest.raises(IndexError):
        failing.finish()
    other.finish()
    assert done == [1]


@pytest.mark.parametrize("never_begins", [False, True])
def test_without_a_thread_a_piece_of_a_line_is_done_once_where_it_is_finished(
    monkeypatch: pytest.MonkeyPatch, never_begins: bool
) -> None:
    def refuse(*_: object) -> int:
        if never_begins:
            return 1
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads_module, "start_new_thread", refuse)
    line, done = Line(), list[int]()
    pieces = [line.give(partial(done.append, at)) for at in range(3)]
    pieces[0].wait()
    assert done == []
    for piece in pieces:
        piece.finish()
        piece.finish()
    assert done == [0, 1, 2]


@pytest.mark.parametrize("waits", ["piece", "line"])
def test_a_ctrl_c_that_comes_where_it_is_asked_whether_to_wait_does_not_end_the_waiting(
    waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, done = threading.Event(), []

    def work() -> None:
        assert go_on.wait(60)
        done.append(None)

    def is_done(piece: Piece) -> bool:
        if not go_on.is_set():
            go_on.set()
            raise KeyboardInterrupt
        return piece._turn.ended.is_set()

    line = Line()
    piece = line.give(work)
    monkeypatch.setattr(Piece, "done", property(is_done))
    with pytest.raises(KeyboardInterrupt):
        (piece if waits == "piece" else line).wait()
    assert done == [None]


def test_a_line_waits_for_what_nobody_has_hold_of() -> None:
    line, done = Line(), []

    def work(number: int) -> None:
        time.sleep(0.01)
        done.append(number)

    line.wait()  # nothing was given
    for number in range(3):
        line.give(partial(work, number))
    line.wait()
    assert done == [0, 1, 2]


def test_the_thread_of_a_line_ends_with_it() -> None:
    line = Line()
    line.give(lambda: None).finish()
    thread = line._thread
    assert thread is not None
    assert not thread.done
    del line
    thread.wait()
    assert thread.done


def test_a_line_ends_with_whoever_gave_it_their_own_work() -> None:
    class Owner:
        def __init__(self) -> None:
            self.line = Line()
            self.piece = self.line.give(self.work)

        def work(self) -> None:
            pass

    owner: Owner | None = Owner()
    assert owner is not None
    gone, thread = weakref.ref(owner), owner.line._thread
    owner.piece.wait()
    gc.disable()  # the collector would find it, some time
    try:
        owner = None
        assert gone() is None
    finally:
        gc.enable()
    assert thread is not None
    thread.wait()


def interrupted_after(*moments: float) -> threading.Thread:
    """What Ctrl-C does at these moments."""

    def interrupt() -> None:
        began = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


@pytest.mark.parametrize("moments", [(0.1,), (0.1, 0.2), (0.1, 0.45)])
def test_nobody_is_at_what_was_given_to_a_line_once_it_was_waited_for(moments: tuple[float, ...]) -> None:
    """However often the wait is interrupted, and though nobody has a piece to wait for."""
    line, done = Line(), list[int]()

    def work(at: int) -> None:
        time.sleep(0.2)
        done.append(at)

    for at in range(3):
        line.give(partial(work, at))
    interrupting = interrupted_after(*moments)
    with pytest.raises(KeyboardInterrupt):
        line.wait()
    while interrupting.is_alive():
        with suppress(KeyboardInterrupt):
            interrupting.join(0.1)
    assert done == [0, 1, 2]
    line.wait()


def test_a_line_without_work_or_without_a_thread_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads_module, "start_new_thread", refuse)
    line, done = Line(), list[int]()
    line.wait()
    piece = line.give(partial(done.append, 1))
    line.wait()
    assert done == []
    piece.finish()
    assert done == [1]


@pytest.mark.parametrize("moments", [(0.1,), (0.1, 0.2, 0.3), (0.1, 0.45)])
def test_a_call_that_is_interrupted_while_it_waits_ends_when_no_helper_is_at_work(moments: tuple[float, ...]) -> None:
    """However often: what the helpers use may go then."""
    at_work, done = set[int](), list[int]()

    def work(item: int) -> None:
        if item == 0:
            while len(at_work) < 2:
                time.sleep(0.001)
            return
        at_work.add(item)
        time.sleep(0.5)
        at_work.remove(item)
        done.append(item)

    with closing(Threads(3)) as threads:
        threads.map(time.sleep, [0.0, 0.001, 0.001])  # so that there are helpers
        interrupting = interrupted_after(*moments)
        left: set[int] | None = None
        try:
            threads.map(work, range(3))
        except KeyboardInterrupt:
            left = set(at_work)
        while interrupting.is_alive():
            with suppress(KeyboardInterrupt):
                interrupting.join(0.1)
    assert left == set()
    assert sorted(done) == [1, 2]


# All that a map calls.
NAMES = ("map", "_begin", "_drop", "_await", "withdraw", "take", "wait")


def test_a_ctrl_c_at_any_call_of_a_map_leaves_no_helper_at_work() -> None:
    """Between any two steps, also where the helpers are told what to do, and where it is looked who has begun."""
    at_work = set[int]()
    began = threading.Event()

    def work(item: int) -> None:
        if threading.current_thread() is threading.main_thread():
            began.wait(0.01)
            return
        at_work.add(item)
        began.set()
        time.sleep(0.003)
        at_work.discard(item)

    with closing(Threads(3)) as threads:
        threads.map(time.sleep, [0.0, 0.001, 0.001])
        for moment in range(10_000):
            began.clear()
            try:
                with InterruptedAt(NAMES, moment + 1):  # the call of map itself has begun nothing yet
                    threads.map(work, range(6))
                break
            except KeyboardInterrupt:
                assert at_work == set(), moment
    assert moment > 6


def test_who_helps_a_call_that_was_interrupted_is_told_so() -> None:
    told = list[bool]()

    def work(item: int) -> None:
        if item == 0:
            while not told:
                time.sleep(0.001)
            raise KeyboardInterrupt
        told.append(is_unwanted())
        began = time.monotonic()
        while not is_unwanted() and time.monotonic() < began + 20:
            time.sleep(0.001)
        told.append(is_unwanted())

    def nested(item: int) -> None:
        with closing(Threads(2)) as inner:
            inner.map(time.sleep, [0.0, 0.0]) if item == 0 else inner.map(work_inside, [0, 1])
        if item == 0:
            while not told:
                time.sleep(0.001)
            raise KeyboardInterrupt

    def work_inside(item: int) -> None:
        if item == 1:
            work(1)

    for ask in (work, nested):
        told.clear()
        with closing(Threads(2)) as threads, pytest.raises(KeyboardInterrupt):
            threads.map(ask, [0, 1])
        assert told == [False, True]
    assert not is_unwanted()


# --- How far ahead ---


def test_work_is_no_further_ahead_than_its_leash_is_long() -> None:
    leash, begun = Leash(2), list[int]()

    def work() -> None:
        for number in range(9):
            leash.wait(number)
            begun.append(number)

    working = Background(work)
    for reached in (None, 0, 3, 1):  # who needs them never goes back
        if reached is not None:
            leash.come_to(reached)
        end = 2 if not reached else 5
        deadline = time.monotonic() + 20
        while len(begun) < end and time.monotonic() < deadline:
            time.sleep(0.001)
        assert (begun, working.done) == (list(range(end)), False)
        assert [leash.reaches(number) for number in (end - 1, end)] == [True, False]
    leash.let_go()
    working.wait()
    assert begun == list(range(9))


def test_who_is_not_woken_by_a_leash_looks_again() -> None:
    """As a Ctrl-C may come between one who waits and what wakes it; and all who wait are woken."""
    leash, begun = Leash(0), SimpleQueue[int]()

    def work(number: int) -> None:
        leash.wait(number)
        begun.put(number)

    working = [Background(partial(work, number)) for number in (0, 0, 5)]
    leash._end = 1  # which nobody tells
    assert [begun.get(timeout=20) for _ in range(2)] == [0, 0]
    leash.come_to(6)
    assert begun.get(timeout=20) == 5
    for each in working:
        each.wait()


def test_who_waits_takes_no_lock_that_a_ctrl_c_leaves_locked() -> None:
    """Those of `threading` that are written in Python do: where it comes as they return, they are never let go of."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code.co_filename == threading.__file__:
            entered.append(frame.f_code.co_name)

    threads, line = Threads(2), Line()
    sys.setprofile(note)
    try:
        background = Background(lambda: time.sleep(0.02))
        piece = line.give(lambda: time.sleep(0.02))
        threads.map(lambda seconds: time.sleep(seconds), [0, 0.02])
        piece.finish()
        background.result()
    finally:
        sys.setprofile(None)
        threads.close()
        line.end()
    assert "__enter__" not in entered
