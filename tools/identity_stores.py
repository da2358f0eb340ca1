"""The stores to whose files tools/check_identity.py does things, and what each of them holds.

Beside the store `live` lie `older` and `newer`, copies of it of other moments, `other`, another store, `noted`, one of
which a job is not finished, and `victim`, a folder that is none of theirs.
"""

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fpstore
from fpstore import jobs
from fpstore.living.sizes import LivingSizes
from fpstore.living.writer import Writer
from fpstore.text import DEFAULT_RECIPE
from fpstore.types import Array

Rows = frozenset[tuple[int, int]]
# Nothing is merged that nobody asks for, so that the stores have several segments each.
SIZES = LivingSizes(growth=0)
STORES = ("live", "older", "newer", "other")
VICTIM_FILES = ("notes.txt", "00000001.fpseg", "00000009.fpseg", "catalog.mdb")


def some_rows(seed: int, count: int) -> list[tuple[int, int]]:
    """Rows far from one another: random fingerprints, and ids that tell the seed."""
    keys = np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64).tolist()
    return [(key, 1000 * seed + index) for index, key in enumerate(keys)]


def given(rows: list[tuple[int, int]]) -> dict[str, Array]:
    """Rows as the arguments of Store.add."""
    keys, ids = ([row[column] for row in rows] for column in (0, 1))
    return {"fingerprints": np.array(keys, dtype=np.uint64), "ids": np.array(ids, dtype=np.uint64)}


@dataclass(frozen=True)
class World:
    """The folder of one case. Everything in it lies under stores/, so that the parent of the stores can be renamed.

    identity: what stands for IDENTITY in command lines, the digits in the names of what live writes.
    """

    folder: Path
    identity: str

    @property
    def stores(self) -> Path:
        return self.folder / "stores"

    def __getattr__(self, name: str) -> Path:
        """live, older, newer, other, victim, gone: what has that name among the stores."""
        return self.stores / name

    def run(self, command: str) -> None:
        """A command line of the shell, among the stores."""
        command = command.replace("IDENTITY", self.identity)
        subprocess.run(["/bin/sh", "-c", command], cwd=self.stores, check=True, capture_output=True)


def documents(first: int, count: int) -> str:
    """Lines of documents that are not like one another."""
    numbers = range(first, first + count)
    texts = [f"document {n} has words {n * 7919} of its own {n * 104729} and more" for n in numbers]
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def _keep(store: Path, first: int) -> Rows:
    """Let a job keep some documents in the store; the rows that it has added."""
    before = _rows(store)
    corpus = store.with_name(f"documents-{first}.jsonl")
    corpus.write_text(documents(first, 4))
    merge = Writer._start_merge
    Writer._start_merge = lambda *_: None  # type: ignore[method-assign]
    jobs.dedup([corpus], corpus.with_name("kept.jsonl"), store=store)
    Writer._start_merge = merge  # type: ignore[method-assign]
    for path in corpus.parent.glob("*kept.jsonl*"):
        path.unlink()
    corpus.unlink()
    return _rows(store) - before


def _leave_note(folder: Path, store: Path) -> None:
    """Make a store of which a job is not finished, and never will be."""

    def killed(*_progress: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    shutil.copytree(folder / "other", store)
    corpus = folder / "documents-130.jsonl"
    corpus.write_text(documents(130, 4))
    if not (child := os.fork()):
        jobs.dedup([corpus], folder / "noted-kept.jsonl", store=store, progress=killed)
        os._exit(1)
    os.waitpid(child, 0)


def _rows(path: Path) -> Rows:
    with fpstore.open(path) as store:
        parts = [
            (keys.tolist(), ids.tolist())
            for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
            if ids is not None
        ]
    return frozenset(row for keys, ids in parts for row in zip(keys, ids, strict=True))


def make_template(folder: Path) -> dict[str, Rows]:
    """The stores before anything was done to them; what each of them holds."""
    folder.mkdir()
    models: dict[str, Rows] = {}
    path = folder / "live"
    rows = [some_rows(seed, 30) for seed in range(1, 8)]
    fpstore.create(path, plan="flips-2:1,1", recipe=DEFAULT_RECIPE).close()
    with fpstore.Store(path, "w", sizes=SIZES) as store:
        for part in rows[:2]:
            store.add(**given(part))
            store._flush()
        store.add(**given(rows[2][:10]))
        store.remove(ids=given(rows[0][:3])["ids"])
        store.remove(**given(rows[0][3:5]))
    kept = _keep(path, 100)
    models["older"] = frozenset(rows[0][5:] + rows[1] + rows[2][:10]) | kept
    shutil.copytree(path, folder / "older")
    with fpstore.Store(path, "w", sizes=SIZES) as store:
        store.add(**given(rows[2][10:]))
        store._flush()
        store.add(**given(rows[3]))
        store._flush()
        store.upsert(**given(rows[4][:10]))
    kept |= _keep(path, 110)
    models["live"] = frozenset(rows[0][5:] + rows[1] + rows[2] + rows[3] + rows[4][:10]) | kept
    shutil.copytree(path, folder / "newer")
    with fpstore.Store(folder / "newer", "w", sizes=SIZES) as store:
        store.add(**given(rows[4][10:]))
        store.compact()
        store.add(**given(rows[5][:10]))
    models["newer"] = frozenset(rows[0][5:] + rows[1] + rows[2] + rows[3] + rows[4] + rows[5][:10]) | kept
    fpstore.create(folder / "other", plan="flips-2:1,1", recipe=DEFAULT_RECIPE).close()
    with fpstore.Store(folder / "other", "w", sizes=SIZES) as store:
        for part in (rows[6][:10], rows[6][10:20]):
            store.add(**given(part))
            store._flush()
        store.add(**given(rows[6][20:]))
    models["other"] = frozenset(rows[6]) | _keep(folder / "other", 120)
    shutil.rmtree(folder / "live.documents", ignore_errors=True)
    shutil.rmtree(folder / "other.documents", ignore_errors=True)
    _leave_note(folder, folder / "noted")
    victim = folder / "victim"
    (victim / "segments").mkdir(parents=True)
    for name in VICTIM_FILES:
        (victim / name).write_bytes(b"a file of somebody's own, which no store may touch\n")
    # His folder of segments looks like one of a store.
    for segment in (folder / "other" / "segments").iterdir():
        shutil.copy(segment, victim / "segments" / segment.name)
        shutil.copy(segment, victim / "segments" / f"0000000{9 - int(segment.name[:8])}.fpseg")
    return models
