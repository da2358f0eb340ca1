"""What a run of the command line leaves, and the type of the fixture that runs it."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """The exit status, standard output and standard error of one command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Outcome]
