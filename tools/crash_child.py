"""The process that check_crash kills, starves and records: does a list of operations on stores and says how each went.

Started under the library of fault/shim.c it reads a request a line, forks a child for each, and answers with how that
ended. The child writes a line to its journal, a file that outlives it, before and after each operation.
"""

# mypy: disable-error-code="union-attr"

import ctypes
import dataclasses
import gc
import importlib
import itertools
import json
import os
import secrets
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lmdb
from crash_model import Broken, inspect
from crash_signed import build, create, opened
from id_types import SIGNED, WIDE, fingerprints_of, ids_of, numbered

from fpstore import creation, disk
from fpstore.building import options, spill
from fpstore.building import rows as building
from fpstore.disk import Folder, Place
from fpstore.format import PAGE_BYTES
from fpstore.living import catalog, locks, steps, writer
from fpstore.living.catalog import Catalog
from fpstore.living.changes import Change
from fpstore.living.sizes import LivingSizes
from fpstore.living.state import State
from fpstore.segment import files
from fpstore.segment.entry import SegmentEntry, unpublished_name
from fpstore.types import IdType

ACTIONS = {"none": 0, "fail": 1, "short": 2, "kill-before": 3, "kill-after": 4, "late": 5}
# So small that flushes, merges and additions that wait for a flush happen all the time.
SIZES = LivingSizes(
    flush_rows=40,
    max_pending_rows=120,
    small_rows=150,
    small_segments=3,
    held_rows=300,
    deferred_rows=60,
    piece_rows=16,
    names_growth=2,
    min_removals=20,
    keys_per_removal=8,
)
# So few ids that rise are kept as steps.
STEP_IDS = 2
PIECE_BYTES = PAGE_BYTES
# What sorting a row with an id takes.
ROW_BYTES = 32
BUILD_BYTES = 2 << 30
# disk.UNCACHED, where the system has it.
RWF_DONTCACHE = 0x80
PLAN = "flips-2:1,1"
# Before one goes well, two may raise the errors of a flush and of a merge, and one its own.
ATTEMPTS = 4
HANG_S = 60.0
# How long the first operation, making a store, may take.
FIRST_OPERATION_S = 0.005


def nothing(*_: object) -> None:
    """What a planted mistake does instead."""


def unsynced_lmdb() -> None:
    lmdb_open = lmdb.open
    setattr(lmdb, "open", lambda *args, **kwargs: lmdb_open(*args, **{**kwargs, "sync": False}))  # noqa: B010


def unsynced(left_out: Callable[[Path], bool]) -> None:
    """The names in some folders are not made durable."""
    sync = Folder.sync
    setattr(Folder, "sync", lambda self: None if left_out(self.path) else sync(self))  # noqa: B010


def unsynced_uncached() -> None:
    """What is written past the system's cache is taken for durable."""
    sync = files.ChecksummedFile.sync
    setattr(files.ChecksummedFile, "sync", lambda self: None if self._uncached else sync(self))  # noqa: B010


def little_memory() -> None:
    """A build may have room for a few rows, and what it then writes goes past the cache, whatever the system can do.

    To the disk that the library pretends it is all the same.
    """
    for module, name, value in (
        (options, "MIN_MEMORY", 1),
        (building, "OTHER_MEMORY", 0),
        (spill, "MIN_MEMORY_BYTES", 1),
        (spill, "MIN_PIECE_BYTES", 64),
        (disk, "UNCACHED", RWF_DONTCACHE),
        (files, "UNCACHED", RWF_DONTCACHE),
    ):
        setattr(module, name, value)


def named_by(naming: Callable[[Catalog, Place, SegmentEntry, State], list[SegmentEntry]]) -> None:
    """Segments get their names in another way."""
    for module in (writer, creation):
        setattr(module, "name_segment", naming)  # noqa: B010


def name_unsynced(_: Catalog, place: Place, entry: SegmentEntry, announced: State) -> list[SegmentEntry]:
    place.folder.rename(place.name, entry.name)
    return list(announced.strays)


def name_first() -> None:
    """A segment gets its name before the catalog says that it is the store's."""
    announce = Catalog.announce

    def announced(self: Catalog, entry: SegmentEntry) -> State:
        self.segments.rename(unpublished_name(entry.name, self.state().identity), entry.name)
        self.segments.sync()
        return announce(self, entry)

    setattr(Catalog, "announce", announced)  # noqa: B010
    named_by(lambda catalog, place, entry, state: list(state.strays))


def ignored_errors() -> None:
    """A change that could not be written counts as written."""
    append = Catalog.append

    def ignoring(self: Catalog, records: Sequence[Change]) -> State:
        try:
            return append(self, records)
        except OSError:
            state = self.state()
            return dataclasses.replace(state, next_change=state.next_change + len(records))

    setattr(Catalog, "append", ignoring)  # noqa: B010


def write_once(fd: int, data: memoryview, offset: int | None = None, **_: bool) -> None:
    if offset is None:
        os.write(fd, data)
    else:
        os.pwrite(fd, data, offset)


# Mistakes to make on purpose, each of which a harness must find. "early" is made below: an operation is reported as
# done before it begins.
PLANTS: dict[str, Callable[[], None]] = {
    "early": nothing,
    "ignored-errors": ignored_errors,
    "no-find-out": lambda: setattr(writer.Writer, "_find_out", nothing),
    "write-once": lambda: setattr(files, "write_all", write_once),
    "no-segment-sync": lambda: setattr(files.ChecksummedFile, "sync", nothing),
    "no-uncached-sync": unsynced_uncached,
    "no-folder-sync": lambda: unsynced(lambda path: path.name == "segments"),
    "no-rename-sync": lambda: unsynced(lambda path: path.name == "stores"),
    "no-copy-sync": lambda: unsynced(lambda path: path.name == "segments" and ".building-" in path.parent.name),
    "no-name-sync": lambda: named_by(name_unsynced),
    "no-announcement": lambda: setattr(Catalog, "announce", lambda self, _: self.state()),
    "name-before-announcement": name_first,
    "no-catalog-sync": lambda: setattr(locks.WriterLock, "check", nothing),
    "no-lmdb-sync": unsynced_lmdb,
}


def arm(request: dict[str, Any], shim: ctypes.CDLL) -> None:
    """Have the library watch the folder, as the request says."""
    trace = os.open(request["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND) if request["trace"] else -1
    paths = [os.fsencode(request[name]) for name in ("folder", "journal")]
    action = ACTIONS[request["action"]]
    shim.fault_arm(*paths, trace, request["at"], action, request["errno"], int(request["forever"]))


def inspection(request: dict[str, Any]) -> None:
    """Write to the journal what the stores hold, or what is wrong with them; nothing is struck, nor synced."""
    arm(request, ctypes.CDLL(None))
    try:
        found = inspect(Path(request["folder"]), request["inspect"])
        said: dict[str, object] = {
            "found": {name: None if rows is None else sorted(rows) for name, rows in found.items()}
        }
    except Broken as error:
        said = {"broken": str(error)}
    Path(request["journal"]).write_text(json.dumps(said))


class Doer:
    """Does the operations of a request, each until it goes well, and writes the journal.

    told: a descriptor to which it writes in how many seconds it is to be killed, if it is.
    """

    def __init__(self, request: dict[str, Any], told: int) -> None:
        self.folder = Path(request["folder"])
        self.request = request
        self.told = told
        self.stores: dict[str, Any] = {}
        self.journal = os.open(request["journal"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.shim = ctypes.CDLL(None)

    def run(self) -> None:
        request = self.request
        # Every compaction puts the catalog into a new file.
        setattr(catalog, "MIN_COMPACTED_BYTES", 0)  # noqa: B010
        setattr(catalog, "MOSTLY_FREE", 0)  # noqa: B010
        # A segment is written a page at a time, so that some have several pieces.
        setattr(files, "WRITE_BYTES", PIECE_BYTES)  # noqa: B010
        setattr(steps, "MIN_IDS", STEP_IDS)  # noqa: B010
        little_memory()
        if request["settled"]:  # what has the same calls then has the same bytes
            numbers = itertools.count(1)
            setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")  # noqa: B010
        if request["plant"]:
            PLANTS[request["plant"]]()
        if request["watched"]:
            arm(request, self.shim)
        started = time.monotonic()
        for index, operation in enumerate(request["operations"]):
            self.note(begin=index)
            if request["kill"] and request["kill"]["operation"] == index:
                usual_s = (time.monotonic() - started) / index if index else FIRST_OPERATION_S
                os.write(self.told, struct.pack("d", usual_s * request["kill"]["delay"]))
            if request["plant"] == "early":
                self.note(done=index)
                time.sleep(0.02)  # long enough for kills to come in between on a fast machine too
            self.note(done=index, stored=self.persist(index, operation))
        self.settle()
        for store in self.stores.values():
            store.close()
        self.note(calls=int(self.shim.fault_calls()))

    def note(self, **line: object) -> None:
        os.write(self.journal, json.dumps(line).encode() + b"\n")

    def persist(self, index: int, operation: dict[str, Any]) -> list[bool] | None:
        """Do an operation until it goes well; what a writer holds after each error is noted."""
        for attempt in range(ATTEMPTS):
            try:
                return self.do(operation)
            except OSError as error:
                self.note(failed=index, error=repr(error))
                if self.request["forever"] and attempt == 0:
                    self.suffer(index, operation)
                rows = self.rows_seen(operation["store"])
                self.note(failed=index, seen=rows)
        raise RuntimeError(f"operation {index} fails though the fault is gone")

    def suffer(self, index: int, operation: dict[str, Any]) -> None:
        """The fault lasts: try once more, close everything if so asked, and only then let the fault be gone."""
        try:
            self.do(operation)
        except OSError as error:
            self.note(failed=index, error=repr(error))
        for name in list(self.stores) if self.request["reopen"] else ():
            try:
                self.stores.pop(name).close()
            except OSError as error:
                self.note(failed=index, error=repr(error))
        self.shim.fault_off()

    def rows_seen(self, name: str) -> list[list[int]] | None:
        """What a writer says that the store holds; None where there is no store, or none whole."""
        path = self.folder / name
        if name not in self.stores and not path.exists():
            return None
        store = self.writer(name)
        return [list(row) for rows in store.rows() for row in numbered(store.id_type, rows)]

    def writer(self, name: str) -> Any:
        if name not in self.stores:
            self.stores[name] = opened(self.folder / name, "w", self.request["durability"], SIZES)
        return self.stores[name]

    def do(self, operation: dict[str, Any]) -> list[bool] | None:
        name, kind = operation["store"], operation["kind"]
        path = self.folder / name
        id_type = self.request["id_type"]
        keys = fingerprints_of(id_type == WIDE, operation.get("keys", ()))
        numbers: IdType = "uint64" if id_type in (SIGNED, WIDE) else id_type
        ids = ids_of(numbers, operation.get("ids", ()))
        stored = None
        if kind == "create":
            if not path.exists():  # an error may have come after the store was there
                create(path, id_type, PLAN, layout=self.request["layout"])
                self.stores[name] = opened(path, "w", sizes=SIZES)
        elif kind == "build":
            if name in self.stores:
                self.stores.pop(name).close()
            room = operation.get("room")
            memory = spill.RESERVE_BYTES + room * ROW_BYTES if room else BUILD_BYTES
            build(path, keys, ids, id_type, PLAN, self.request["layout"], memory)
        elif kind == "copy":
            if not path.exists():
                self.writer(operation["source"]).copy(path)
        elif kind == "close":
            if name in self.stores:
                self.stores.pop(name).close()
        elif kind == "add":
            self.writer(name).add(keys, ids=ids)
        elif kind == "add_if_new":
            if len(keys) == 1 and id_type == "uint64":  # as who adds a row at a time gives it
                keys, ids = keys.tolist(), ids.tolist()
            stored = self.writer(name).add_if_new(keys, ids=ids).stored.tolist()
        elif kind == "upsert":
            self.writer(name).upsert(keys, ids=ids)
        elif kind == "remove_rows":
            self.writer(name).remove(fingerprints=keys, ids=ids)
        elif kind == "remove":
            what = operation["what"]
            self.writer(name).remove(**{what: ids_of(numbers, operation["keys"]) if what == "ids" else keys})
        else:
            getattr(self.writer(name), "_flush" if kind == "flush" else kind)()
        if self.request["settled"]:
            self.settle()
        return stored

    def settle(self) -> None:
        """Wait for flushes and merges, so that the calls have one order."""
        for store in self.stores.values():
            assert store._living is not None
            # A flush ends by beginning a merge.
            for name in ("_flush_job", "_merge_job"):
                if (job := getattr(store._living, name)) is not None:
                    job.wait()


def serve() -> None:
    """Answer requests until there are no more."""
    # What children would each import, and the pages that each would copy as the collector marks what is in them.
    importlib.import_module("numpy.ma")
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        heard, told = os.pipe()
        child = os.fork()
        if not child:
            try:
                inspection(request) if request["inspect"] else Doer(request, told).run()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(told)
        if request["kill"] and select.select([heard], [], [], HANG_S)[0] and (delay := os.read(heard, 8)):
            time.sleep(struct.unpack("d", delay)[0])
            os.kill(child, signal.SIGKILL)
        os.close(heard)
        deadline = time.monotonic() + HANG_S
        status = None
        while status is None:
            done, found = os.waitpid(child, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(found)
            elif time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                status = HUNG
            else:
                time.sleep(0.002)
        print(json.dumps(status), flush=True)


HUNG = 124

if __name__ == "__main__":
    serve()
