"""Who has a store open while its files are damaged, and who comes then: the players of tools/check_identity.py.

Each is a process of its own that is forked, told what to do, and answers with what came of it. One that does not answer
in time hangs, and is ended.
"""

import contextlib
import io
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from crash_signed import build, opened
from id_types import SIGNED, ids_of, numbered
from identity_stores import PLAN, SIZES, Row, World, by_id, documents, given, rows_of, serves_jobs, some_rows

import fpstore
from fpstore import jobs
from fpstore.cli import main as command_line
from fpstore.types import IdType, Mode

ANSWER_SECONDS = 45.0
# Longer than a reader may take to notice that its path leads elsewhere.
NOTICE_SECONDS = 0.12
EARLY, HELD, NEW, BUILT = (some_rows(seed, 4) for seed in (21, 22, 23, 24))
DOCUMENTS = documents(0, 3)
REMOVED, LATE = some_rows(2, 30)[:3], some_rows(2, 30)[3:5]

Answer = dict[str, Any]


QUERIES = [some_rows(seed, 30)[number] for seed in (2, 3, 4, 5, 7) for number in (7, 9)]


def _probed(store: fpstore.Store) -> list[Row]:
    keys = given(QUERIES, None)["fingerprints"]
    return numbered(store.id_type, store.probe_many(keys, max_distance=0, threads=1))


def _looked_up(store: fpstore.Store) -> list[Row]:
    return numbered(store.id_type, store.lookup(ids_of(store.id_type, [number for _, number in QUERIES])))


# What is done with a store that is open. Those of READS answer with rows; the others change it.
READS: dict[str, Callable[[fpstore.Store, World], Any]] = {
    "rows": lambda store, world: rows_of(store),
    "probe": lambda store, world: _probed(store),
    "lookup": lambda store, world: _looked_up(store),
    "verify": lambda store, world: store.verify() and None,
    "copy": lambda store, world: store.copy(world.folder / "copied"),
    "len": lambda store, world: store.stats().pending_count,
}
CHANGES: dict[str, Callable[[fpstore.Store, World], Any]] = {
    "add": lambda store, world: store.add(**given(HELD, store.id_type)),
    "add_if_new": lambda store, world: _test_and_add(store),
    "upsert": lambda store, world: store.upsert(**given(HELD, store.id_type)),
    "remove": lambda store, world: store.remove(**by_id(LATE, store.id_type)),
    "remove pairs": lambda store, world: store.remove(**given(LATE, store.id_type)),
    "flush": lambda store, world: store._flush(),
    "compact": lambda store, world: store.compact(),
}


def _opened(mode: Mode, work: Callable[[fpstore.Store], Any]) -> Callable[[World], Any]:
    def call(world: World) -> Any:
        with opened(world.live, mode, sizes=SIZES if mode == "w" else None) as store:
            return work(store)

    return call


def _build(world: World) -> None:
    rows = given(BUILT, world.id_type)
    build(world.live, rows["fingerprints"], rows["ids"], world.id_type or "uint64", PLAN)


def _build_in_vain(world: World) -> None:
    def parts() -> Iterator[object]:
        yield given(BUILT, None)["fingerprints"]
        raise fpstore.Error("the input ends in the middle", path="input")

    fpstore.build(world.live, parts(), plan=PLAN, force=True).close()


def _copy(world: World) -> None:
    with opened(world.live) as store:
        store.copy(world.folder / "copied")


def _command(*arguments: str, of_numbers: tuple[str, ...] = ()) -> Callable[[World], Any]:
    """of_numbers: arguments more, where the ids of the stores are numbers."""

    def call(world: World) -> Answer:
        corpus = world.folder / "documents.jsonl"
        if not corpus.exists():
            corpus.write_text(DOCUMENTS)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            every = (*arguments, *(of_numbers if world.id_type == "uint64" else ()))
            status = command_line([argument.format(live=world.live, out=world.folder) for argument in every])
        return {"status": status, "said": said.getvalue()}

    return call


# What somebody who opens the path anew does with it.
def _test_and_add(store: fpstore.Store) -> None:
    rows = given(HELD, store.id_type)
    store.add_if_new(rows["fingerprints"], ids=rows["ids"])


NEWCOMERS: dict[str, Callable[[World], Any]] = {
    "open to read": _opened("r", rows_of),
    "open to write": _opened("w", rows_of),
    "open and add": _opened("w", lambda store: store.add(**given(NEW, store.id_type))),
    "open and flush": _opened("w", lambda store: store._flush()),
    "open and compact": _opened("w", lambda store: store.compact()),
    "open and remove": _opened("w", lambda store: store.remove(**by_id(REMOVED, store.id_type))),
    "build --force": _build,
    "build --force that fails": _build_in_vain,
    "copy": _copy,
    "fpstore verify": _command("verify", "{live}"),
    "fpstore stats": _command("stats", "{live}"),
    "fpstore compact": _command("compact", "{live}"),
    "fpstore add": _command("add", "{live}", "{out}/documents.jsonl", of_numbers=("--ids", "from:50000")),
    "dedup --store": _command("dedup", "{out}/documents.jsonl", "-o", "{out}/kept.jsonl", "--store", "{live}"),
}


def calls(table: Iterable[str], id_type: IdType | None) -> list[str]:
    """Those of READS, CHANGES or NEWCOMERS that stores with such ids have."""
    without = {"lookup", "upsert", "remove pairs"} if id_type is None else set()
    if id_type == SIGNED:  # nor is there a recipe by which a command could add texts
        without = {"remove pairs", "fpstore add"}
    return [what for what in table if what not in without and (what != "dedup --store" or serves_jobs(id_type))]


def attempt(call: Callable[[], Any]) -> Answer:
    """What came of a call: ok and what it gave, or the error; and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer: Answer = {"ok": True, "value": call()}
        except Exception as error:
            names = [kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException, Exception)]
            answer = {
                "ok": False,
                "error": type(error).__name__,
                "kinds": names,
                "said": str(error),
                "file": str(getattr(error, "filename", None) or getattr(error, "path", None) or ""),
            }
    value = answer.get("value")
    if isinstance(value, dict) and "status" in value and value["status"]:
        answer = {"ok": False, "error": f"status {value['status']}", "kinds": [], "said": value["said"], "file": ""}
    answer["warnings"] = [f"{each.category.__name__}: {each.message}" for each in caught]
    return answer


class Player:
    """A process that was forked and waits for what it is told, one line at a time; each is answered by one."""

    def __init__(self, play: Callable[[str], Answer]) -> None:
        """play: called in the process with each line."""
        told, self._tell = os.pipe()
        self._hear, said = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._tell)
            os.close(self._hear)
            _serve(play, told, said)
        os.close(told)
        os.close(said)

    def ask(self, what: str) -> Answer:
        """Tell it, and wait for the answer."""
        os.write(self._tell, what.encode() + b"\n")
        heard = b""
        deadline = time.monotonic() + ANSWER_SECONDS
        while not heard.endswith(b"\n"):
            ready = select.select([self._hear], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                os.kill(self.pid, signal.SIGKILL)
                return {
                    "ok": False,
                    "error": "HANG",
                    "kinds": [],
                    "said": f"no answer in {ANSWER_SECONDS} s",
                    "file": "",
                }
            piece = os.read(self._hear, 1 << 20)
            if not piece:
                status = os.waitpid(self.pid, 0)[1]
                self.pid = 0
                return {"ok": False, "error": "DIED", "kinds": [], "said": f"status {status}", "file": ""}
            heard += piece
        answer: Answer = json.loads(heard)
        return answer

    def end(self) -> None:
        """Let it go."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._tell, b"\n")  # closing is not enough, as who was forked later has the pipe too
        os.close(self._tell)
        os.close(self._hear)
        if self.pid:
            os.waitpid(self.pid, 0)


def _serve(play: Callable[[str], Answer], told: int, said: int) -> None:
    status = 1
    try:
        with os.fdopen(told) as lines, os.fdopen(said, "w") as answers:
            for line in lines:
                if line == "\n":
                    break
                print(json.dumps(play(line.rstrip("\n"))), file=answers, flush=True)
        status = 0
    except BrokenPipeError:
        status = 0
    finally:
        if status:
            sys.excepthook(*sys.exc_info())
        os._exit(status)


class Holder:
    """In a process of its own: has the store open, as a reader or as the writer, from before the damage on."""

    def __init__(self, world: World, mode: Any, *, relative: bool = False) -> None:
        self._world = world
        self._mode = mode
        self._relative = relative
        self._store: Any = None

    def __call__(self, what: str) -> Answer:
        return attempt(lambda: self._do(what))

    def _do(self, what: str) -> Any:
        if what == "open":
            path = self._world.live
            if self._relative:
                os.chdir(path.parent)
                path = Path(path.name)
            self._store = opened(path, self._mode, sizes=SIZES if self._mode == "w" else None)
            if self._mode == "w":
                self._store.add(**given(EARLY, self._world.id_type))
            return _probed(self._store)
        assert self._store is not None
        if what == "chdir":
            return os.chdir(self._world.folder / "elsewhere")
        if what == "close":
            return self._store.close()
        if what in NEWCOMERS:
            return NEWCOMERS[what](self._world)
        time.sleep(NOTICE_SECONDS)
        return (READS | CHANGES)[what](self._store, self._world)


def interrupted_job(world: World) -> Callable[[str], Answer]:
    """In a process of its own: a job that is killed when it has stored what it kept, and before it is done."""

    def play(_what: str) -> Answer:
        def killed(*_progress: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        corpus = world.folder / "documents.jsonl"
        corpus.write_text(DOCUMENTS)
        jobs.dedup([corpus], world.folder / "kept.jsonl", store=world.live, progress=killed)
        raise AssertionError("a job ended without a word of its progress")

    return play


def newcomer(world: World) -> Callable[[str], Answer]:
    """In a process of its own: opens the path anew."""
    return lambda what: attempt(lambda: NEWCOMERS[what](world))
