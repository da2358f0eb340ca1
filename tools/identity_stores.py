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
from typing import Any

import numpy as np
from crash_signed import create, opened
from id_types import SIGNED, ids_of, numbered

import fpstore
from fpstore import jobs
from fpstore.living.sizes import LivingSizes
from fpstore.living.state import NAMED
from fpstore.living.writer import Writer
from fpstore.text import DEFAULT_RECIPE
from fpstore.types import IdType

# A fingerprint and its id: the number that stands for it (tools/id_types.py), the name that a job gave, or None.
Row = tuple[int, Any]
Rows = frozenset[Row]
# Nothing is merged that nobody asks for, so that the stores have several segments each.
SIZES = LivingSizes(growth=0)
STORES = ("live", "older", "newer", "other")
PLAN = "flips-2:1,1"
VICTIM_FILES = ("notes.txt", "00000001.fpseg", "00000009.fpseg", "catalog.mdb")


def some_rows(seed: int, count: int) -> list[Row]:
    """Rows far from one another: random fingerprints, and numbers of ids that tell the seed."""
    keys = np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64).tolist()
    return [(key, 1000 * seed + index) for index, key in enumerate(keys)]


def given(rows: list[Row], id_type: IdType | None) -> dict[str, Any]:
    """Rows as the arguments of Store.add, of a store with such ids."""
    keys, numbers = ([row[column] for row in rows] for column in (0, 1))
    return {"fingerprints": np.array(keys, dtype=np.uint64), "ids": ids_of(id_type, numbers)}


def held(rows: list[Row], id_type: IdType | None) -> Rows:
    """Rows as a store with such ids has them."""
    return frozenset(rows if id_type else [(key, None) for key, _ in rows])


def by_id(rows: list[Row], id_type: IdType | None) -> dict[str, Any]:
    """What Store.remove takes to remove these rows: their ids, and where there are none their fingerprints."""
    arguments = given(rows, id_type)
    return {"ids": arguments["ids"]} if id_type else {"fingerprints": arguments["fingerprints"]}


def serves_jobs(id_type: IdType | None) -> bool:
    """Whether jobs can keep documents in a store with such ids."""
    return id_type in ("uint64", "string")


def rows_of(store: fpstore.Store) -> list[Row]:
    """All that a store holds, in order."""
    return [row for rows in store.rows() for row in numbered(store.id_type, rows)]


@dataclass(frozen=True)
class World:
    """The folder of one case. Everything in it lies under stores/, so that the parent of the stores can be renamed.

    identity: what stands for IDENTITY in command lines, the digits in the names of what live writes.
    id_type: what the ids of all stores are.
    """

    folder: Path
    identity: str
    id_type: IdType | None

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


def _keep(store: Path, first: int, id_type: IdType | None) -> Rows:
    """Let a job keep some documents in the store, if its ids are such; the rows that it has added."""
    if not serves_jobs(id_type):
        return frozenset()
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
    with opened(path) as store:
        return frozenset(rows_of(store))


def make_template(folder: Path, id_type: IdType | None) -> dict[str, Rows]:
    """The stores before anything was done to them; what each of them holds."""

    def add(store: fpstore.Store, part: list[Row]) -> None:
        store.add(**given(part, id_type))

    folder.mkdir()
    models: dict[str, Rows] = {}
    path = folder / "live"
    rows = [some_rows(seed, 30) for seed in range(1, 8)]
    create(path, id_type, PLAN, DEFAULT_RECIPE)
    with opened(path, "w", sizes=SIZES) as store:
        for part in rows[:2]:
            add(store, part)
            store._flush()
        add(store, rows[2][:10])
        store.remove(**by_id(rows[0][:3], id_type))
        store.remove(**(by_id if id_type in (None, SIGNED) else given)(rows[0][3:5], id_type))
    kept = _keep(path, 100, id_type)
    models["older"] = held(rows[0][5:] + rows[1] + rows[2][:10], id_type) | kept
    shutil.copytree(path, folder / "older")
    with opened(path, "w", sizes=SIZES) as store:
        add(store, rows[2][10:])
        store._flush()
        add(store, rows[3])
        store._flush()
        (store.upsert if id_type else store.add)(**given(rows[4][:10], id_type))
    kept |= _keep(path, 110, id_type)
    models["live"] = held(rows[0][5:] + rows[1] + rows[2] + rows[3] + rows[4][:10], id_type) | kept
    shutil.copytree(path, folder / "newer")
    with opened(folder / "newer", "w", sizes=SIZES) as store:
        add(store, rows[4][10:])
        store.compact()
        add(store, rows[5][:10])
    if id_type in NAMED:
        # Of names there are files that a segment took over from others.
        with fpstore.Store(folder / "newer", "w", sizes=LivingSizes(growth=1000)) as store:
            store._flush()
            store.wait()
            add(store, rows[5][10:12])
    models["newer"] = held(sum(rows[1:5], rows[0][5:]) + rows[5][: 12 if id_type in NAMED else 10], id_type) | kept
    create(folder / "other", id_type, PLAN, DEFAULT_RECIPE)
    with opened(folder / "other", "w", sizes=SIZES) as store:
        for part in (rows[6][:10], rows[6][10:20]):
            add(store, part)
            store._flush()
        add(store, rows[6][20:])
    models["other"] = held(rows[6], id_type) | _keep(folder / "other", 120, id_type)
    shutil.rmtree(folder / "live.documents", ignore_errors=True)
    shutil.rmtree(folder / "other.documents", ignore_errors=True)
    if serves_jobs(id_type):
        _leave_note(folder, folder / "noted")
    victim = folder / "victim"
    (victim / "segments").mkdir(parents=True)
    for name in VICTIM_FILES:
        (victim / name).write_bytes(b"a file of somebody's own, which no store may touch\n")
    # His folder of segments looks like one of a store.
    for file in (folder / "other" / "segments").iterdir():
        shutil.copy(file, victim / "segments" / file.name)
        shutil.copy(file, victim / "segments" / f"0000000{9 - int(file.stem)}{file.suffix}")
    return models
