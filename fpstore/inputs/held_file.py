"""Owns a file that was read, held open for who reads parts of it again: the same, whatever becomes of its name."""

from __future__ import annotations

import os
import weakref


class HeldFile:
    """Open for as long as anybody has this."""

    def __init__(self, fd: int) -> None:
        """fd: its own from now on."""
        self._fd = fd
        weakref.finalize(self, os.close, fd)

    @classmethod
    def of(cls, fd: int) -> HeldFile | None:
        """The file of a descriptor that somebody else closes; None where the process may open no more."""
        try:
            return cls(os.dup(fd))
        except OSError:
            return None

    def fileno(self) -> int:
        """Its descriptor, to read at any place: where others read in it moves."""
        return self._fd
