"""What makes bytes and names stay: whole writes, and folders that are synced."""

import os
from pathlib import Path


def write_all(fd: int, data: memoryview) -> None:
    """Write all of data, however many calls that takes."""
    while len(data):
        data = data[os.write(fd, data) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: what was created, renamed and removed there."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
