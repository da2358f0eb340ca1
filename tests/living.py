"""What the tests of the living store share: keys, and ways to read what a store holds."""

import errno
import subprocess
import sys

import numpy as np
from helpers import uniform

import fpstore
from fpstore.living.sizes import LivingSizes

SOME = uniform(300, np.random.default_rng(1))
MORE = uniform(300, np.random.default_rng(2))


def store_of_some(path):
    """A store of SOME with row numbers."""
    fpstore.build(path, SOME, plan="paper-4").close()
    return path


def store_without_ids(path):
    """An empty one."""
    fpstore.create(path, ids=False, plan="paper-4").close()
    return path


def writer_of(path, durability="commit", **sizes):
    """The store at path, open for writing, with other sizes than a store has."""
    return fpstore.Store(path, "w", durability, LivingSizes(**sizes))


def rows_of(store):
    found = []
    for keys, ids in store.rows():
        found += zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True)
    return found


def keys_of(store):
    return [key for key, _ in rows_of(store)]


def ids_from(first, count):
    return np.arange(first, first + count, dtype=np.uint64)


def run_python(code, *arguments):
    code = f"import sys, numpy as np, fpstore\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def no_space(*_args, **_options):
    raise OSError(errno.ENOSPC, "No space left on device")
