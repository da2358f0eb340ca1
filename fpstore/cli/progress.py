"""The progress bar: on standard error, if that is a terminal, tqdm is installed and the work takes over a second.

By --progress also where that is no terminal, by --no-progress never.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from fpstore import OnProgress, Progress
from fpstore.cli.common import common

if TYPE_CHECKING:
    from tqdm import tqdm

SHOWN_AFTER_SECONDS = 1.0
SHORT = {"bytes": "B"}  # so that a bar says MB/s


class _Bars:
    """One bar for each phase of a piece of work, gone when the next begins."""

    def __init__(self, new_bar: "Callable[..., tqdm[NoReturn]]") -> None:
        self._new_bar = new_bar
        self._shown_from = monotonic() + SHOWN_AFTER_SECONDS
        self._phase: str | None = None
        self._bar: tqdm[NoReturn] | None = None

    def __call__(self, progress: Progress) -> None:
        """So much of the phase is done."""
        phase, done, total, unit = progress
        bar = self._bar
        if bar is None or phase != self._phase:
            self.close()
            self._phase = phase
            delay = max(0.0, self._shown_from - monotonic())
            shown = SHORT.get(unit, f" {unit}")
            bar = self._bar = self._new_bar(
                desc=phase,
                total=total,
                delay=delay,
                leave=False,
                unit=shown,
                unit_scale=True,
                file=sys.stderr,
            )
        bar.update(done - bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress_bar(*, results_follow: bool = True) -> Iterator[OnProgress | None]:
    """What to tell of progress, or None where nobody would see it.

    results_follow: whether results are printed after the work, not during it: lines and a bar on one terminal
    would write over each other. ImportError where it was asked for, and there is no tqdm.
    """
    asked = common().progress
    seen = sys.stderr.isatty() and (results_follow or not sys.stdout.isatty())
    bars = _bars(expected=asked is True) if asked or (asked is None and seen) else None
    try:
        yield bars
    finally:
        if bars is not None:
            bars.close()


def _bars(*, expected: bool) -> _Bars | None:
    from fpstore.text.packages import need

    try:
        return _Bars(need("tqdm", "progress", "--progress").tqdm)
    except ImportError:
        if expected:
            raise
        return None
