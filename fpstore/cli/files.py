"""The files that commands write: there when all went well, and whole."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from fpstore.errors import no_folder


@contextmanager
def new_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    """A file for writing that appears at path, durable, when all went well.

    An error of the system that names no file, or the one with another name that grows, is about path.
    """
    if os.path.lexists(path):
        if not path.is_file():
            raise click.UsageError(f"{path}: found something else than a file, expected a file or nothing")
        if not force:
            raise FileExistsError(errno.EEXIST, "already there; --force replaces it", str(path))
    if not path.parent.is_dir():
        raise no_folder("the file would lie in a folder", path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary), temporary):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
