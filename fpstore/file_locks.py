"""Owns locks of open files, as Linux has them for parts of a file and for the whole of one (open file descriptions)."""

import fcntl
import os
import struct

# struct flock of Linux: kind, whence, start, length, process.
FLOCK = struct.Struct("hhqqi4x")
# What the kernel answers first when it is asked whether a lock could be had.
_FREE = struct.pack("h", fcntl.F_UNLCK)


def lock_file(fd: int, kind: int, *, wait: bool) -> bool:
    """Take or change the lock of the whole of an open file that is no store's: F_RDLCK or F_WRLCK; whether it is had.

    One that is not had changes nothing.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(fd: int) -> bool:
    """Whether somebody else has a lock of an open file; takes none, so that nobody is refused one meanwhile."""
    return not is_free(fd, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def is_free(fd: int, request: bytes) -> bool:
    """Whether the lock of request, a FLOCK, could be had."""
    return fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request)[:2] == _FREE
