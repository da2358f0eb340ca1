"""Whom a store's files are for, changed for all that the store has made already, or left as it was."""

import os
import stat
from contextlib import ExitStack, suppress

from fpstore.disk import CATALOG_NAME, Folder
from fpstore.errors import CorruptStore
from fpstore.living.catalog import SEGMENTS, Catalog
from fpstore.living.locks import WRITER_LOCK_NAME
from fpstore.segment.entry import is_segment_name, segment_of


def change_mode(catalog: Catalog, mode: int | None, undo: ExitStack) -> None:
    """Let this mode, or where it is None that of the folder, hold for what the store has made already, too.

    Not for what somebody else has put there. undo: takes what lets all be as it was.
    """
    home = catalog.folder
    if home.identity_of(SEGMENTS) is None:
        undo.callback(_remove_empty, home, SEGMENTS)
    else:
        undo.callback(_put_back, catalog.segments, catalog.segments.mode)
    undo.callback(_put_back, home, home.mode)
    if mode is not None:
        home.set_mode(mode)
    segments = catalog.make_segments()
    if mode is None:
        return
    for folder in (home, segments):
        for name in folder.names():
            if name in (CATALOG_NAME, WRITER_LOCK_NAME) or is_segment_name(segment_of(name)):
                with suppress(CorruptStore):  # what is no file
                    fd = folder.open_file(name)
                    try:
                        found = os.fstat(fd)
                        if found.st_nlink == 1:  # or it may be anybody's file by another name
                            undo.callback(_put_back, folder, stat.S_IMODE(found.st_mode), name)
                            os.fchmod(fd, mode & 0o666)
                    finally:
                        os.close(fd)


def _put_back(folder: Folder, mode: int, name: str | None = None) -> None:
    """Give a folder, or a file in it, the mode that it had."""
    if name is None:
        if folder.mode != mode:  # or somebody who is not its owner may be told that he may not
            os.fchmod(folder.fd, mode)
        return
    with suppress(FileNotFoundError, CorruptStore):
        fd = folder.open_file(name)
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def _remove_empty(folder: Folder, name: str) -> None:
    with suppress(OSError):
        os.rmdir(name, dir_fd=folder.fd)
