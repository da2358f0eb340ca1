"""Closes a store at any moment of a call to it, as a signal's handler of the same thread does; in a process of its own.

    python closings.py FOLDER CALL [EVERY]

Does the call of that name once for each moment of its code, or for so many by chance: each time the store is closed at
that moment, and what that comes to counted. Ends with status 1 where something waits for ever, and says where.
"""

import collections
import faulthandler
import gc
import os
import random
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from interruptions import HOMES, Moment, acting, moments

import fpstore
from fpstore import Store, StoreClosed
from fpstore.living.sizes import LivingSizes

KEYS = np.random.default_rng(5).integers(0, 1 << 63, 600, dtype=np.uint64)
SECONDS = 30
# Flushes and merges begin after a few rows.
SMALL = LivingSizes(flush_rows=40, max_pending_rows=80, small_segments=2)


def probe(store: Store) -> None:
    assert [match.id for match in store.probe(int(KEYS[5]))] == [5]


def probe_many(store: Store) -> None:
    assert len(store.probe_many(KEYS[:300], threads=2)) == 300


def follow(store: Store) -> None:
    """What a reader does where another has written."""
    with fpstore.open(store.path, "w") as writer:
        writer.add([1 << 20], ids=[1 << 40])
    assert len(store.probe(1 << 20)) == 1


def pairs(store: Store) -> None:
    assert list(store.pairs()) == []


def add(store: Store) -> None:
    store.add([1 << 20], ids=[1 << 40])
    store.sync()


def add_many(store: Store) -> None:
    for first in range(0, 120, 30):
        keys = np.arange(1 << 20, (1 << 20) + 30, dtype=np.uint64) << np.uint64(first // 30)
        store.add(keys, ids=np.arange(first, first + 30, dtype=np.uint64) + np.uint64(1 << 40))
    store.wait()


def compact(store: Store) -> None:
    store.remove(ids=[3])
    store.compact()


READS, WRITES = (probe, probe_many, follow, pairs), (add, add_many, compact)


def opened(path: Path, call: Callable[[Store], None]) -> Store:
    """The store, as the call needs it."""
    return Store(path, "w", durability="batch", sizes=SMALL) if call in WRITES else Store(path)


def tried(path: Path, call: Callable[[Store], None], number: int, found: "collections.Counter[str]") -> Moment | None:
    """Do the call, and close the store at the moment of that number."""
    store = opened(path, call)

    def close() -> None:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            store.close()
            found["closed"] += 1
        except RuntimeError as error:
            if "in the midst of another of this thread" not in str(error):
                raise
            found["refused"] += 1

    faulthandler.dump_traceback_later(SECONDS, exit=True)
    where = None
    try:
        where = acting(lambda: call(store), number, close)
        found["done"] += 1
    except StoreClosed:
        found["StoreClosed"] += 1
    store.close()
    # What was closed can be opened again, and has all that it had.
    with Store(path, "w") as again:
        assert again.count() >= len(KEYS) - 1
        again.verify()
    faulthandler.cancel_dump_traceback_later()
    return where


def main() -> None:
    folder, name, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    call = {each.__name__: each for each in (*READS, *WRITES)}[name]
    fpstore.build(folder / "first", KEYS, ids="row").close()
    with opened(copied(folder), call) as store:
        numbers = moments(lambda: call(store))
    found: collections.Counter[str] = collections.Counter()
    for number in random.Random(3).sample(numbers, min(most, len(numbers))):
        try:
            where = tried(copied(folder), call, number, found)
        except BaseException:
            print(f"moment {number}", file=sys.stderr)
            raise
        assert where is None or where.file.startswith(HOMES)
    gc.collect()
    print(*(f"{count} {outcome}" for outcome, count in sorted(found.items())), sep=", ")


def copied(folder: Path) -> Path:
    """A copy of the store."""
    path = folder / "s"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder / "first", path)
    return path


if __name__ == "__main__":
    warnings.simplefilter("ignore", ResourceWarning)
    main()
    os._exit(0)
