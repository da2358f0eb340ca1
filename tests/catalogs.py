"""What the tests of the catalog share: a catalog to work on, and other processes that use it."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from fpstore.living import header
from fpstore.living.catalog import create_catalog
from fpstore.living.state import Settings
from fpstore.segment.entry import SegmentEntry

SETTINGS = Settings(max_distance=3, plan={"name": "paper-4", "tables": [1, 2]}, codec="gap", id_type="uint64")
OTHER_SETTINGS = Settings(max_distance=2, plan={"name": "paper-10"}, codec="xor", id_type=None, recipe={"words": True})
META = header.META
PAGE = 4096


def entry(number: int) -> SegmentEntry:
    return SegmentEntry(f"{number:08d}.fpseg", 4096 * number, 10, 12, number)


def published_once(path: Path) -> Path:
    """A store's folder with a catalog published once."""
    create_catalog(path, SETTINGS, (entry(1),))
    return path


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Another process, with the names that the tests here use."""
    names = "import os, signal, sys, time\nfrom pathlib import Path\n"
    names += "from fpstore.living.catalog import *\nfrom fpstore.living.state import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", names + code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )


def wait_for(process: subprocess.Popen[str]) -> str:
    output: str
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output


def in_a_fork(action: Callable[..., Any]) -> None:
    """Run action in a fork of this process; assert that it returned, and did not wait for ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: that is the point
        pid = os.fork()
    if not pid:
        try:
            action()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.002)
    if ended == (0, 0):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert ended == (pid, 0)


def read_metas(folder: Path) -> list[list[int]]:
    data = (folder / "catalog.mdb").read_bytes()
    return [list(META.unpack_from(data, page * PAGE)) for page in (0, 1)]


def write_metas(folder: Path, metas: list[list[int]]) -> None:
    with open(folder / "catalog.mdb", "r+b") as file:
        for page, meta in enumerate(metas):
            file.seek(page * PAGE)
            file.write(META.pack(*meta))


def lmdb_error(kind: type[lmdb.Error], code: int) -> lmdb.Error:
    error = kind("mdb_txn_commit")
    error.code = code  # type: ignore[misc]
    return error
