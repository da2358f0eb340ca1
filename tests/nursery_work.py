"""What workers do in tests of who forks them: a module that imports nothing with threads of its own."""

import os
import sys
import time
from pathlib import Path

from fpstore.cluster.tasks import OfModule


class Some(OfModule):
    """What is done by what this module imports."""


def doubled(number: int) -> int:
    return 2 * number


def process_of(_: object) -> int:
    return os.getpid()


def parent_of(_: object) -> int:
    return os.getppid()


def threads_of(_: object) -> int:
    return len(os.listdir(f"/proc/{os.getppid()}/task"))


def imported(name: str) -> bool:
    return name in sys.modules


def fail() -> None:
    raise ValueError("found nothing, expected what workers need")


def first_sleeps(path: str) -> None:
    if not Path(path).exists():
        Path(path).touch()
        time.sleep(60)


def ended(code: int) -> None:
    os._exit(code)


def refuse_forks(given: int) -> None:
    """All but so many."""
    fork, left = os.fork, [None] * given

    def refuse() -> int:
        if not left:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        left.pop()
        return fork()

    os.fork = refuse


def forget(module: str, name: str) -> None:
    delattr(sys.modules[module], name)
