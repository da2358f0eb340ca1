"""Owns what is said of inputs that have changed while a job was at work, or since then, and what helps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fpstore.errors import JobError, PathLike

AGAIN = "--force begins again"

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class InputsChangedError(JobError):
    """Inputs are not what they were. told: how, without what to do then."""

    def __init__(self, told: str, advice: str, *, path: PathLike | None) -> None:
        super().__init__(f"{told}; {advice}", path=path)
        self.told = told


def changed(told: str, path: PathLike | None = None) -> InputsChangedError:
    """The error that says so of inputs."""
    return InputsChangedError(told, AGAIN, path=path)


def changed_before(source: str) -> InputsChangedError:
    """The same of one that was read up to a place."""
    told = "has changed before the place where the interrupted job goes on"
    return changed(f"{told}, expected the same documents up to there", source)


def advised(job: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """A job with an argument folder: where others have measured there, what is left there is of the old inputs."""

    @wraps(job)
    def call(*args: _Given.args, **given: _Given.kwargs) -> _Made:
        folder: Any = given.get("folder")
        with advising(None if folder is None else f"{_removing(folder)}, and {AGAIN}"):
            return job(*args, **given)

    return call


@contextmanager
def advising(advice: str | None) -> Iterator[None]:
    """A context whose errors of changed inputs say that, in place of AGAIN."""
    try:
        yield
    except InputsChangedError as error:
        if advice is None:
            raise
        raise InputsChangedError(error.told, advice, path=error.path) from None


def once_more(folder: PathLike | None) -> str:
    """What helps where there is no --force."""
    return "ask once more" if folder is None else f"{_removing(folder)}, and ask once more"


def _removing(folder: PathLike) -> str:
    return f"remove {folder}, where they were measured, or name another folder"
