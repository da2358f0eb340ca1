"""The stages that batches of a job pass: each in order, by threads that take the batches by turns."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest
from helpers import InterruptedAt

from fpstore import threads as threads_module
from fpstore.jobs import passing as passing_module
from fpstore.jobs.passing import OverError, Passing, Stage, Turn

STAGES = ("reading", "measuring", "deciding", "writing")
_SECONDS = 30


class _Failed(Exception):
    pass


def _fail() -> None:
    raise _Failed


class Way:
    """The way of `count` batches: what was done, stage by stage, in the order in which it was.

    at: what is called as a batch comes to a stage, by the names of both.
    """

    def __init__(self, count: int, at: Mapping[tuple[str, int], Callable[[], object]] | None = None) -> None:
        self.passing = Passing()
        self.done: dict[str, list[int]] = {stage: [] for stage in STAGES}
        self.by: list[int] = []  # of each batch, in order, the thread that wrote it
        self.at_work = 0
        self._count, self._at = count, at or {}

    def work(self, turn: Turn) -> bool:
        self.at_work += 1
        try:
            return self._pass(turn)
        finally:
            self.at_work -= 1

    def _pass(self, turn: Turn) -> bool:
        with turn.at(self.passing.reading):
            number = len(self.done["reading"])
            if number == self._count:
                return False
            self._do("reading", number)
        self._do("measuring", number)
        with turn.at(self.passing.deciding):
            self._do("deciding", number)
        with turn.at(self.passing.writing):
            self._do("writing", number)
            self.by.append(threading.get_ident())
        return True

    def _do(self, stage: str, number: int) -> None:
        self._at.get((stage, number), int)()
        self.done[stage].append(number)

    def go(self, threads: int, done: Callable[[], object] = int) -> None:
        self.passing.go(self.work, threads, done)


def fail(name: str) -> Callable[[], None]:
    def work() -> None:
        raise _Failed(name)

    return work


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_batches_come_to_each_stage_in_their_order(threads: int) -> None:
    """Though some take longer to be measured than those behind them."""
    way = Way(40, {("measuring", number): lambda: time.sleep(0.003) for number in range(0, 40, 3)})
    way.go(threads)
    for stage in ("reading", "deciding", "writing"):
        assert way.done[stage] == [*range(40)]
    assert sorted(way.done["measuring"]) == [*range(40)]
    way.passing.wait_for_writes()


@pytest.mark.parametrize("stage", ["reading", "deciding", "writing"])
def test_one_batch_at_a_time_is_at_a_stage(stage: str) -> None:
    at_it, most = 0, 0

    def come() -> None:
        nonlocal at_it, most
        at_it += 1
        most = max(most, at_it)
        time.sleep(0.002)
        at_it -= 1

    Way(12, {(stage, number): come for number in range(12)}).go(3)
    assert most == 1


@pytest.mark.parametrize("threads", [2, 3])
def test_batches_are_measured_beside_each_other(threads: int) -> None:
    barrier = threading.Barrier(threads)
    way = Way(threads, {("measuring", number): lambda: barrier.wait(_SECONDS) for number in range(threads)})
    way.go(threads)
    assert len({*way.by}) == threads


@pytest.mark.parametrize("before", ["reading", "measuring", "deciding"])
def test_one_batch_is_at_a_stage_while_the_next_is_at_the_one_before(before: str) -> None:
    """So none of them waits for a batch that is farther on."""
    is_there, may_go = threading.Event(), threading.Event()

    def stay() -> None:
        is_there.set()
        assert may_go.wait(_SECONDS)

    def go_on() -> None:
        assert is_there.wait(_SECONDS)
        may_go.set()

    after = STAGES[STAGES.index(before) + 1]
    way = Way(2, {(after, 0): stay, (before, 1): go_on})
    way.go(2)
    assert way.done["writing"] == [0, 1]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("stage", STAGES)
def test_nothing_passes_behind_a_batch_that_fails_and_all_before_it_do(stage: str, threads: int) -> None:
    slow = {("writing", number): lambda: time.sleep(0.01) for number in range(4)}
    way = Way(9, {**slow, (stage, 4): fail("the fifth")})
    with pytest.raises(_Failed, match="the fifth"):
        way.go(threads)
    assert way.at_work == 0
    assert way.done["writing"] == [0, 1, 2, 3]
    assert 4 not in way.done[stage]
    assert way.done["deciding"][:4] == [0, 1, 2, 3]
    if stage != "writing":
        assert way.done["deciding"] == [0, 1, 2, 3]


@pytest.mark.parametrize("at", [{}, {("measuring", 1): _fail}])
def test_threads_wait_awake_for_each_other_while_they_take_batches_alone(
    at: dict[tuple[str, int], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever calls once in a while, by threads of his own, would wait for the one that did so last."""
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(passing_module, "begin", lambda: told.append(("begin", threading.get_ident())))
    monkeypatch.setattr(passing_module, "end", lambda: told.append(("end", threading.get_ident())))
    with suppress(_Failed):
        Way(5, at).go(2)
    begun, ended = ([who for what, who in told if what == asked] for asked in ("begin", "end"))
    assert len(begun) == 2
    assert sorted(begun) == sorted(ended)


def test_a_batch_that_fails_at_a_stage_does_not_pass_it() -> None:
    """So that none behind it does before anybody has heard of it."""
    passing = Passing()
    with pytest.raises(_Failed), Turn(passing, 0).at(passing.writing):
        raise _Failed
    assert passing.writing.passed == 0


@pytest.mark.parametrize("stage", STAGES[1:])
def test_the_error_of_the_first_batch_is_raised_though_one_behind_it_has_failed_before(stage: str) -> None:
    has_failed = threading.Event()

    def fail_first() -> None:
        has_failed.set()
        raise _Failed("the third")

    def fail_then() -> None:
        assert has_failed.wait(_SECONDS)
        raise _Failed("the second")

    way = Way(5, {("measuring", 2): fail_first, (stage, 1): fail_then})
    with pytest.raises(_Failed, match="the second"):
        way.go(2)
    assert way.done["writing"] == [0]


@pytest.mark.parametrize("stage", STAGES)
def test_nobody_waits_for_a_thread_that_could_not_say_that_it_failed(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, end, is_late = threading.get_ident(), Passing._end, threading.Event()

    def lack_memory(passing: Passing, number: int, error: BaseException | None = None) -> None:
        if threading.get_ident() != own:
            raise MemoryError
        end(passing, number, error)

    def fail_elsewhere() -> None:
        time.sleep(0.001)  # so that the other comes to something
        if threading.get_ident() != own:
            raise _Failed

    def let_go() -> None:
        is_late.set()
        end(way.passing, -1)

    monkeypatch.setattr(Passing, "_end", lack_memory)
    way = Way(10_000, {(stage, number): fail_elsewhere for number in range(10_000)})
    timer = threading.Timer(5, let_go)
    timer.start()
    with pytest.raises(MemoryError):
        way.go(2)
    timer.cancel()
    assert (way.at_work, is_late.is_set()) == (0, False)


def test_what_is_raised_holds_no_batch_of_others() -> None:
    way = Way(3, {("reading", 1): fail("the second")})
    with pytest.raises(_Failed):
        way.go(2)
    assert way.passing._ends == {}


def test_who_is_interrupted_holds_no_batch_of_others() -> None:
    own, has_failed = threading.get_ident(), threading.Event()

    def come() -> None:
        if threading.get_ident() == own:
            assert has_failed.wait(_SECONDS)
            raise KeyboardInterrupt
        has_failed.set()
        raise _Failed

    way = Way(3, {("measuring", number): come for number in range(3)})
    with pytest.raises(KeyboardInterrupt):
        way.go(2)
    assert way.passing._ends == {}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_caller_is_told_of_what_it_has_done_alone(threads: int) -> None:
    told: list[int] = []
    way = Way(30)
    way.go(threads, lambda: told.append(threading.get_ident()))
    own = threading.get_ident()
    assert {*told} <= {own}
    assert len(told) == way.by.count(own)


def test_what_the_caller_raises_when_it_is_told_ends_all() -> None:
    way = Way(10_000)
    with pytest.raises(_Failed, match="told"):
        way.go(2, fail("told"))
    assert len(way.done["writing"]) < 10_000


def test_without_a_thread_to_give_the_caller_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads_module, "start_new_thread", refuse)
    way = Way(5)
    way.go(3)
    assert way.by == [threading.get_ident()] * 5


def test_who_decides_waits_for_all_before_to_be_written() -> None:
    written: list[list[int]] = []

    def wait() -> None:
        way.passing.wait_for_writes()
        written.append(way.done["writing"][:])

    slow = {("writing", number): lambda: time.sleep(0.01) for number in range(6)}
    way = Way(6, {**slow, **{("deciding", number): wait for number in (0, 3, 5)}})
    way.go(2)
    assert written == [[], [0, 1, 2], [0, 1, 2, 3, 4]]


def test_who_waits_for_what_is_not_written_has_no_error_of_its_own() -> None:
    over: list[bool] = []

    def wait() -> None:
        try:
            way.passing.wait_for_writes()
        except OverError:
            over.append(True)
            raise

    def fail_late() -> None:
        time.sleep(0.02)
        raise _Failed("not written")

    way = Way(3, {("writing", 0): fail_late, ("deciding", 1): wait})
    with pytest.raises(_Failed, match="not written"):
        way.go(2)
    assert over == [True]


def test_all_who_wait_are_woken_at_once() -> None:
    """And not when they look again by themselves."""
    stage, woken = Stage(), list[bool]()

    def wait() -> None:
        stage.wait(1, lambda: False)
        woken.append(True)

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for each in waiting:
        each.start()
    while len(stage._waiters._waiting) < 3:
        time.sleep(0.001)
    held = [*stage._waiters._waiting]
    stage.passes(0)
    assert all(each.is_set() for each in held)
    for each in waiting:
        each.join(_SECONDS)
    assert woken == [True] * 3


# --- Ctrl-C ---


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("moments", [(0.1,), (0.1, 0.15, 0.3)])
def test_who_is_interrupted_ends_when_nobody_is_at_work_any_more(stage: str, moments: tuple[float, ...]) -> None:
    """Wherever the others are, and however often; what they are at they finish, and nothing more."""
    own, at_it = threading.get_ident(), list[int]()

    def stay() -> None:
        if threading.get_ident() == own:
            time.sleep(0.005)  # so that the other comes to something
        else:
            at_it.append(1)
            time.sleep(0.5)
            at_it.pop()

    def interrupt() -> None:
        began = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            os.kill(os.getpid(), signal.SIGINT)

    way = Way(1000, {(stage, number): stay for number in range(1000)})
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    left: list[int] | None = None
    try:
        way.go(2)
    except KeyboardInterrupt:
        left = [*at_it, way.at_work]
    while interrupting.is_alive():
        with suppress(KeyboardInterrupt):
            interrupting.join(0.1)
    assert left == [0]
    assert len(way.done["writing"]) < 100
    assert way.done["writing"] == [*range(len(way.done["writing"]))]


# All that leads batches.
NAMES = (
    *("take_all", "take_each", "_end", "wake", "wait", "wait_until", "passes", "at", "is_over", "work", "map"),
    *("_await", "_drop", "_begin"),
)


def test_a_second_ctrl_c_before_the_others_heard_of_the_first_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, end, is_late = threading.get_ident(), Passing._end, threading.Event()

    def interrupt() -> None:
        if threading.get_ident() == own:
            while not way.passing.deciding._waiters._waiting and not is_late.is_set():
                time.sleep(0.001)
            raise KeyboardInterrupt

    def interrupted(passing: Passing, number: int, error: BaseException | None = None) -> None:
        if threading.get_ident() == own:
            raise KeyboardInterrupt
        end(passing, number, error)

    def let_go() -> None:
        is_late.set()
        end(way.passing, -1)

    monkeypatch.setattr(Passing, "_end", interrupted)
    way = Way(10_000, {("deciding", number): interrupt for number in range(10_000)})
    timer = threading.Timer(5, let_go)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        way.go(2)
    timer.cancel()
    assert (way.at_work, is_late.is_set()) == (0, False)


@pytest.mark.parametrize("fails", [False, True])
def test_a_ctrl_c_at_any_call_leaves_nobody_at_work(fails: bool) -> None:
    moment, is_whole = 0, False
    while not is_whole:
        way = Way(6, {("deciding", 4): fail("the fifth")} if fails else {})
        try:
            with InterruptedAt(NAMES, moment):
                way.go(2)
            is_whole = True
        except _Failed:
            is_whole = True
        except KeyboardInterrupt:
            pass
        assert way.at_work == 0
        for stage in ("reading", "deciding", "writing"):
            assert way.done[stage] == [*range(len(way.done[stage]))]
        moment += 1
    assert moment > 20
