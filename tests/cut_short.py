"""Uses a store while its segment file is cut short or replaced: an error, or the answer as before.

For tests/test_cut_short.py, which runs this in a process of its own: `cut_short.py WHAT FOLDER` prints what failed.
"""

import faulthandler
import mmap
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from helpers import one_prefix, uniform

import fpstore
from fpstore import CorruptStore, StoreWarning

COUNT = 6_000
MiB = 1 << 20
Cut = Callable[[Path], None]


def make_store(folder: Path) -> Path:
    """Tables, fences, groups of ids and values, of several pages each."""
    rng = np.random.default_rng(7)
    stored = np.concatenate([uniform(COUNT, rng), one_prefix(COUNT // 10, rng)])
    documents = np.concatenate([stored, stored[::3]])
    folder.parent.mkdir(exist_ok=True)
    fpstore.build(folder, documents, ids=np.arange(len(documents), dtype=np.uint64), plan="paper-4").close()
    return next((folder / "segments").iterdir())


def uses() -> dict[str, Callable[[fpstore.Store], Any]]:
    """Every way to an answer; what each returns can be compared."""
    queries = uniform(COUNT, np.random.default_rng(7))
    large = np.tile(queries, 20)
    return {
        "probe": lambda store: store.probe(int(queries[5])).id.tolist(),
        "contains_near": lambda store: store.contains_near(int(queries[6])),
        "probe_many": lambda store: [store.probe_many(queries[:500], threads=2).id.tolist()],
        "a large batch": lambda store: store.probe_many(large).id.tolist(),
        "pairs": lambda store: sorted(pair for pairs in store.pairs() for pair in pairs),
        "count_pairs": lambda store: store.count_pairs(),
        "verify": lambda store: store.verify(),
        "stats": lambda store: store.stats(largest_slots=3)["segments"][0]["tables"],
        "report": lambda store: str(store.report()),
    }


def cuts(size: int, other: bytes) -> dict[str, Cut]:
    """What happens to the file; each leaves another file than before."""
    sizes = {0, 1, 64, 4096, 10_000, size // 2, size // 2 // 4096 * 4096, size - 9000, size - 4096, size - 64, size - 1}
    at_all: dict[str, Cut] = {f"cut to {at} of {size}": partial(os.truncate, length=at) for at in sorted(sizes)}

    def cut_and_grow(path: Path) -> None:
        os.truncate(path, size // 3)
        os.truncate(path, size)

    return at_all | {"cut and grown": cut_and_grow, "overwritten": lambda path: path.write_bytes(other)}


def outcome(store: fpstore.Store, use: Callable[[fpstore.Store], Any], expected: Any) -> str:
    try:
        return "as before" if use(store) == expected else "ANOTHER ANSWER"
    except CorruptStore:
        return "CorruptStore"


def cut_under_every_use(folder: Path) -> Iterator[str]:
    """Each use, of pages used before and not, with each cut."""
    path = make_store(folder)
    whole = path.read_bytes()
    other = make_other(folder.parent / "other", len(whole))
    for name, use in uses().items():
        with fpstore.open(folder) as store:
            expected = use(store)
        for what, cut in cuts(len(whole), other).items():
            for warm in (False, True):
                with fpstore.open(folder) as store:
                    if warm:
                        use(store)
                    cut(path)
                    found = {outcome(store, use, expected) for _ in range(2)}
                    path.write_bytes(whole)
                    # Grown again, the file is no longer what was mapped; or it is, down to the last byte.
                    found.add(outcome(store, use, expected))
                if not found <= {"as before", "CorruptStore"} or (name == "verify" and "CorruptStore" not in found):
                    yield f"{name}, {what}, {'warm' if warm else 'cold'}: {found}"


def make_other(folder: Path, size: int) -> bytes:
    """A segment of other fingerprints, brought to the same size from its front, so that offsets differ."""
    stored = uniform(COUNT + 900, np.random.default_rng(8))
    fpstore.build(folder, stored, plan="paper-4").close()
    data = next((folder / "segments").iterdir()).read_bytes()
    return data[-size:].rjust(size, b"\1")


def replace_by_name(folder: Path) -> Iterator[str]:
    """Another file under the same name, or none: the one that was opened stays."""
    path = make_store(folder)
    whole = path.read_bytes()
    for name, use in uses().items():
        with fpstore.open(folder) as store:
            expected = use(store)
            (folder / "new").write_bytes(whole[:100])
            (folder / "new").rename(path)
            if (found := outcome(store, use, expected)) != "as before":
                yield f"{name}, another file: {found}"
            path.unlink()
            if (found := outcome(store, use, expected)) != "as before":
                yield f"{name}, no file: {found}"
        path.write_bytes(whole)


def cut_under_threads(folder: Path) -> Iterator[str]:
    """Threads at work while the file shrinks a page at a time; another store is none the worse."""
    path = make_store(folder)
    whole = path.read_bytes()
    shutil.copytree(folder, folder.parent / "copy")
    use = uses()["probe_many"]
    for round in range(10):
        with fpstore.open(folder) as store, fpstore.open(folder.parent / "copy") as copy:
            expected = use(copy)

            def work(store: fpstore.Store, limit: int, expected: Any = expected) -> str:
                for _ in range(limit):
                    if (found := outcome(store, use, expected)) != "as before":
                        return found
                return "as before"

            with ThreadPoolExecutor(6) as pool:
                cut = [pool.submit(work, store, 10_000) for _ in range(4)]
                whole_ones = [pool.submit(work, copy, 30) for _ in range(2)]
                for pages in range(len(whole) // 4096, 0, -1 - round):
                    os.truncate(path, pages * 4096)
                os.truncate(path, 0)
                found = [each.result() for each in cut], [each.result() for each in whole_ones]
            if found != (4 * ["CorruptStore"], 2 * ["as before"]):
                yield f"round {round}: {found}"
        path.write_bytes(whole)


def cut_in_a_child(folder: Path) -> Iterator[str]:
    """A forked child opens the store anew."""
    path = make_store(folder)
    use = uses()["probe_many"]
    with fpstore.open(folder):
        if (child := os.fork()) == 0:
            with fpstore.open(folder) as store:
                expected = use(store)
                os.truncate(path, 4096)
                os._exit(0 if outcome(store, use, expected) == "CorruptStore" else 1)
        if (status := os.waitpid(child, 0)[1]) != 0:
            yield f"status {status} of the child"


# Whose signal it is. Each of these ends with the handlers named in its own way.


def open_and_cut(folder: Path) -> fpstore.Store:
    """Our own signal, met once."""
    path = make_store(folder)
    store = fpstore.open(folder)
    os.truncate(path, 4096)
    assert outcome(store, uses()["probe_many"], None) == "CorruptStore"
    return store


def read_a_foreign_mapping(folder: Path) -> None:
    file = folder.parent / "foreign"
    file.write_bytes(bytes(8192))
    with open(file, "r+b") as opened:
        mapped = mmap.mmap(opened.fileno(), 0)
        os.truncate(file, 0)
        mapped[5000]


def foreign_fault(folder: Path) -> Iterator[str]:
    store = open_and_cut(folder)
    read_a_foreign_mapping(folder)
    yield f"survived; {store}"


def foreign_fault_after_faulthandler(folder: Path) -> Iterator[str]:
    faulthandler.enable()
    return foreign_fault(folder)


def foreign_fault_under_faulthandler(folder: Path) -> Iterator[str]:
    """faulthandler comes later than our handler, which then comes first again; many times over."""
    for turn in range(20):
        faulthandler.disable()
        make_store(folder / str(turn))
        fpstore.open(folder / str(turn)).close()
        faulthandler.enable()
    return foreign_fault(folder / "last")


def sent_signal(folder: Path) -> Iterator[str]:
    store = open_and_cut(folder)
    os.kill(os.getpid(), signal.SIGBUS)
    yield f"survived; {store}"


def sent_signal_to_python(folder: Path) -> Iterator[str]:
    heard: list[int] = []
    signal.signal(signal.SIGBUS, lambda number, _: heard.append(number))
    for turn in range(3):
        with open_and_cut(folder / str(turn)):
            os.kill(os.getpid(), signal.SIGBUS)
    if heard != 3 * [signal.SIGBUS]:
        yield f"heard {heard}"


def sent_signal_ignored(folder: Path) -> Iterator[str]:
    signal.signal(signal.SIGBUS, signal.SIG_IGN)
    for turn in range(3):
        with open_and_cut(folder / str(turn)):
            os.kill(os.getpid(), signal.SIGBUS)
    yield from ()


if __name__ == "__main__":
    warnings.simplefilter("ignore", StoreWarning)  # pairs may read what was cut from other tables
    home = Path(sys.argv[2])
    failures = list(globals()[sys.argv[1]](home / "store.fpstore"))
    print(*failures, sep="\n")
    sys.exit(bool(failures))
