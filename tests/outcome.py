"""What a run of the command line leaves, the type of the fixture that runs it, and one in a process of its own."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """The exit status, standard output and standard error of one command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Outcome]


@contextmanager
def running(*command: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its outputs in pipes, which ends with the block at the latest."""
    arguments = [str(argument) for argument in command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()
