"""What every test file shares: how hypothesis searches, and the command line as a function."""

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from outcome import Command, Outcome

import fpstore
from fpstore.cli import main
from fpstore.errors import CorruptStore, Damage, Wrong
from fpstore.jobs import corpus
from fpstore.living import radius

# By default the examples are the same each time, so that a failure is the change's and not the day's.
# HYPOTHESIS_PROFILE=explore looks at new ones; what it prints on a failure replays it.
settings.register_profile("ci", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Processes that tests start import the build that is under test, also where another one is installed.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [os.fspath(Path(fpstore.__file__).parent.parent), os.environ.get("PYTHONPATH")])
)

# Shells start what runs in the background deaf to Ctrl-C, and so would be the processes that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Half a million objects that all tests are made of are not looked through again by each collection: 0.2 s."""
    gc.collect()
    gc.freeze()


def _whole(kind: Any) -> None:
    """Have each error of a kind, wherever a test meets it, tell where, what was found and what was expected."""
    made = kind.__init__

    def checked(self: Any, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        told = (self.region if kind is Damage else self.where, self.found, self.expected)
        assert all(isinstance(part, str) and part.strip() for part in told), told
        assert not self.found.startswith("found "), told  # which the message says

    kind.__init__ = checked


for kind in (CorruptStore, Damage, Wrong):
    _whole(kind)


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said once a process, of distances that a plan is not for, is said in the tests that ask for it alone."""
    monkeypatch.setattr(radius, "_told", True)


@pytest.fixture(autouse=True)
def commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs commit each batch, so that a few documents are enough for a test to interrupt them in many places."""
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 1)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `fpstore` in this process: command("probe", store, ...) -> Outcome."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Outcome(status, *capsys.readouterr())

    return run
