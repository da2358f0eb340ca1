"""Counts the rooms that a build, a probe and an addition enter on their way through the package.

    python tools/ways.py

A room is a folder of fpstore/, or a module that stands in none. An entry is a call from one room to a function of
another, as it happens: a chunk that is asked of a generator in another room is one too.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import fpstore

PACKAGE = Path(fpstore.__file__).parent


def room_of(frame: FrameType | None) -> str | None:
    """The room that a frame's function stands in; None outside the package."""
    path = Path(frame.f_code.co_filename) if frame else Path()
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py") if path.is_relative_to(PACKAGE) else None


def entries(work: Callable[[], object]) -> Counter[str]:
    """How often each room is entered from another one while work runs."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        room = room_of(frame)
        if event != "call" or room is None:
            return
        caller = frame.f_back
        while caller is not None and room_of(caller) is None:
            caller = caller.f_back
        found[room] += room_of(caller) != room

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return +found


def main() -> int:
    """Print the ways."""
    keys = np.random.default_rng(1).integers(0, 1 << 64, 1000, dtype=np.uint64)
    with tempfile.TemporaryDirectory() as folder:
        fpstore.build(f"{folder}/warm", keys).close()  # so that no import is counted
        ways = {"build": entries(lambda: fpstore.build(f"{folder}/store", keys).close())}
        with fpstore.open(f"{folder}/store", "w") as store:
            store.add([1], ids=[2])
            store.probe(1)
            ways["probe"] = entries(lambda: store.probe(5))
            ways["add"] = entries(lambda: store.add([7], ids=[8]))
    for name, found in ways.items():
        rooms = ", ".join(f"{room} {count}" for room, count in found.most_common())
        print(f"{name}: {len(found)} rooms, {found.total()} entries ({rooms})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
