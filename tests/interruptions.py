"""Has a KeyboardInterrupt come at any moment at which the interpreter would raise one for a signal.

Python 3.11 looks whether there was a signal when a call has ended, when a function is entered, and when a loop begins
again. There it is raised, at the very instruction, by the interpreter's own means to trace.
"""

import contextlib
import dis
import itertools
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, NoReturn

import fpstore

LOOKS = {"CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME"}
# What enters and leaves contexts runs between two lines of a package that has any.
HOMES = str(Path(fpstore.__file__).parent), contextlib.__file__


class Moment(NamedTuple):
    """A place in the code at which the interpreter looks; by: the place of the package for which it is there."""

    file: str
    function: str
    line: int
    instruction: int
    by: str


@cache
def moments_of(code: CodeType) -> frozenset[int]:
    """The instructions before which an interruption is raised."""
    found = list(dis.get_instructions(code))
    return frozenset(after.offset for before, after in itertools.pairwise(found) if before.opname in LOOKS)


def _interrupt() -> None:
    raise KeyboardInterrupt


class _Interruption:
    """counts: whether moments count yet; until then those of calls that are under way are looked at, too."""

    def __init__(self, at: int, act: Callable[[], object] = _interrupt, counts: bool = True) -> None:
        self.at = at
        self.act = act
        self.counts = counts
        self.count = 0
        self.seen: dict[Moment, list[int]] = {}
        self.where: Moment | None = None

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        # What is raised in __del__ the interpreter tells and forgets.
        if not frame.f_code.co_filename.startswith(HOMES) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.look

    def look(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if event == "opcode" and self.counts and frame.f_lasti in moments_of(code):
            self.count += 1
            by: FrameType | None = frame
            while by is not None and by.f_code.co_filename == contextlib.__file__:
                by = by.f_back
            place = "" if by is None or by is frame else f"{Path(by.f_code.co_filename).name} {by.f_lineno}"
            moment = Moment(code.co_filename, code.co_qualname, frame.f_lineno or 0, frame.f_lasti, place)
            self.seen.setdefault(moment, []).append(self.count)
            if self.count == self.at:
                sys.settrace(None)
                self.where = moment
                self.act()
                return None
        return self.look


def moments(work: Callable[[], object], wanted: Callable[[Moment], bool] = lambda moment: True) -> list[int]:
    """The numbers of the moments of work, done once: of each wanted place in the code the first and the last."""
    counted = _Interruption(0)
    _traced(work, counted)
    seen = [numbers for moment, numbers in counted.seen.items() if wanted(moment)]
    return sorted({number for numbers in seen for number in (numbers[0], numbers[-1])})


def interrupted(work: Callable[[], object], at: int) -> Moment | None:
    """Do work and interrupt it at the moment of that number: where that was, None where it has ended before.

    Raises what work raises but for the interruption.
    """
    interruption = _Interruption(at)
    try:
        _traced(work, interruption)
    except KeyboardInterrupt:
        assert interruption.where is not None
    return interruption.where


def interrupted_twice(work: Callable[[Callable[[], NoReturn]], object], at: int) -> tuple[Moment | None, list[int]]:
    """Do work, which calls what it is given and is interrupted there, and once more as it ends, as interrupted does.

    Where that was, None where it had ended before, and the numbers of the moments up to it, as moments gives them.
    """
    interruption = _Interruption(at, counts=False)

    def first() -> NoReturn:
        interruption.counts = True
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        _traced(partial(work, first), interruption)
    seen = interruption.seen.values()
    return interruption.where, sorted({number for numbers in seen for number in (numbers[0], numbers[-1])})


def acting(work: Callable[[], object], at: int, act: Callable[[], object]) -> Moment | None:
    """Do work and, at the moment of that number, something else, as a signal's handler does; else as interrupted."""
    acted = _Interruption(at, act)
    _traced(work, acted)
    return acted.where


def _traced(work: Callable[[], object], interruption: _Interruption) -> None:
    before = sys.gettrace()
    sys.settrace(interruption.enter)
    try:
        work()
    finally:
        sys.settrace(before)
