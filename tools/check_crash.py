"""Kills, starves and cuts the power of processes that write to stores, and checks that nothing acknowledged is lost.

    python tools/check_crash.py [--kill ROUNDS] [--faults [--call N] [--way WAY]] [--power WRITERS] [--short]
                                [--part I/N] [--seed 0] [--json] [--plant NAME]
                                [--id-type uint64|string|bytes|minhash|wide] [--layout slots|blocks]

--kill: a writer doing random operations is killed with -9 a random moment after one of them has begun; its store is
checked, and the next writer goes on from there, five times before a new store is begun.
--faults: a fixed script, in which one numbered call that changes the folder fails, or all from one on, with EIO, with
ENOSPC, having done what it should all the same, or by writing less; or at which the process is killed. Once for every
call and every way. With --short: a shorter script, and for each call one way, in turns. With --way: only that way, as
"kill", before and after each call.
--power: the calls of writers are recorded, the first doing a fixed script (with --short: the shorter one), the others
random operations, and replayed on a disk that loses power at every one of them, under way, and then loses of what was
not synced: all; the names or the contents; each change alone; all but one; the start or the end of one; pieces.

--part I/N, of --faults and --power: only every Nth call, from the Ith on, 0 being the first.

After each: the store opens, verifies, and holds exactly the state before or after the operation under way, all that
was acknowledged in it; no file is left over; it can be written to. After an error, too, in the same process.
Needs gcc, for tools/fault/shim.c. Exit status 1 if anything did not hold.
--plant makes a mistake first, to see it found: exit status 0 if it is.
"""

import argparse
import contextlib
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import crash_child
from arguments import parse_whole
from crash_model import Broken, Passage, Row, State, fixed_operations, judge, names_in, random_operations
from crash_replay import Tree, cuts, digest, losses, read_trace, read_tree, write_tree
from id_types import ID_TYPES, SIGNED, WIDE

from fpstore.types import Layout

TOOLS = Path(__file__).parent
KILLS_PER_STORE = 5
OPERATIONS = 150
# When a writer is killed, in operations of the length that they have had on this machine, after one has begun.
LONGEST_DELAY = 1.5
# Random operations of a recorded process.
RECORDED_OPERATIONS = 40
# action, errno, from then on, and whether the process then closes its stores before the fault is gone
WAYS = (
    ("fail", errno.EIO, False, False),
    ("fail", errno.EIO, True, True),
    ("fail", errno.ENOSPC, False, False),
    ("fail", errno.ENOSPC, True, False),
    ("late", errno.EIO, False, False),
    ("late", errno.EIO, True, False),
    ("short", 0, False, False),
    ("short", 0, True, False),
    ("kill-before", 0, False, False),
    ("kill-after", 0, False, False),
)


def build_shim(folder: Path) -> Path:
    """The library of fault/shim.c, compiled in folder."""
    path = folder / "shim.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", path, TOOLS / "fault" / "shim.c", "-ldl", "-lpthread"], check=True)
    return path


class Children:
    """Runs requests in children of crash_child under the library, one after the other, in a folder of their own."""

    def __init__(
        self, home: Path, shim: Path, plant: str | None, id_type: str = "uint64", layout: str = "slots"
    ) -> None:
        self.id_type, self.layout = id_type, layout
        self.home = home
        self.folder = home / "stores"
        self.trace = home / "trace"
        self._journal = home / "journal"
        self._errors = (home / "errors").open("w+")
        self._plant = plant
        environment = os.environ | {"LD_PRELOAD": os.fspath(shim), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, TOOLS / "crash_child.py"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._errors.close()

    def clear(self) -> None:
        """Begin with an empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def run(self, passage: Passage, **request: object) -> bytes:
        """The journal of a child that did the operations; Broken unless it ended well, or was killed as asked."""
        return self._ask({"operations": passage.operations, "durability": passage.durability, **request})

    def check(self, folder: Path, allowed: list[State]) -> State:
        """What the stores in folder hold; Broken unless it is one of the allowed states, and they are sound."""
        return judge(self.look(folder, names_in(allowed)), allowed)

    def look(self, folder: Path, names: list[str]) -> State:
        """What the stores with these names in folder hold; Broken unless they are sound."""
        said = json.loads(self._ask({"inspect": names, "folder": os.fspath(folder)}) if names else '{"found": {}}')
        if "broken" in said:
            raise Broken(said["broken"])
        return {name: None if rows is None else frozenset(map(tuple, rows)) for name, rows in said["found"].items()}

    def _ask(self, request: dict[str, Any]) -> bytes:
        for path in (self._journal, self.trace):
            path.unlink(missing_ok=True)
        usual = {
            "folder": os.fspath(self.folder),
            "journal": os.fspath(self._journal),
            "inspect": None,
            "trace": None,
            "watched": True,
            "at": 0,
            "action": "none",
            "errno": 0,
            "forever": False,
            "reopen": False,
            "settled": False,
            "plant": self._plant,
            "id_type": self.id_type,
            "layout": self.layout,
            "kill": None,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._errors.truncate(0)
        self._process.stdin.write(json.dumps(usual | request) + "\n")
        self._process.stdin.flush()
        status = json.loads(self._process.stdout.readline())
        journal = self._journal.read_bytes() if self._journal.exists() else b""
        killed = status == -9 and ("kill" in str(request.get("action")) or request.get("kill") is not None)
        if status != 0 and not killed:
            said = Path(self._errors.name).read_text().strip("\0\n")
            raise Broken(f"ended with {'a hang' if status == crash_child.HUNG else f'status {status}'}: {said[-3000:]}")
        return journal


class Enough(Exception):
    """A planted mistake was found."""


class Findings:
    """What did not hold, and how often what was tried. first_only: one finding ends everything, by Enough."""

    def __init__(self, first_only: bool) -> None:
        self._first_only = first_only
        self.counts: Counter[str] = Counter()
        self.found: list[dict[str, Any]] = []

    def add(self, case: dict[str, Any], error: Broken) -> None:
        """What did not hold, in which case."""
        self.found.append({**case, "problem": str(error)})
        print(f"FAILED {case}: {error}", file=sys.stderr, flush=True)
        if self._first_only:
            raise Enough


def check_kills(children: Children, rounds: int, seed: int, findings: Findings) -> None:
    """Random kills: rounds of them, in chains over one store."""
    state: State = {}
    for number in range(rounds):
        rng = random.Random(f"{seed} {number}")
        if number % KILLS_PER_STORE == 0:
            children.clear()
            state = {}
        operations = random_operations(seed * 1_000_003 + number, OPERATIONS, "a")
        passage = Passage(operations, [state], rng.choice(["commit", "commit", "batch"]), children.id_type)
        kill = {"operation": rng.randrange(OPERATIONS), "delay": round(rng.uniform(0, LONGEST_DELAY), 3)}
        case = {"harness": "kill", "seed": seed, "round": number, **kill}
        try:
            journal = children.run(passage, watched=False, kill=kill)
            findings.counts["kill: rounds"] += 1
            findings.counts["kill: operations acknowledged"] += journal.count(b'"done"')
            findings.counts["kill: in the middle of an operation"] += journal.count(b'"begin"') > journal.count(
                b'"done"'
            )
            state = children.check(children.folder, passage.allowed(journal))
        except Broken as error:
            findings.add(case, error)
            children.clear()
            state = {}


def check_faults(children: Children, short: bool, calls: slice, way: str | None, findings: Findings) -> None:
    """These of the numbered calls of the fixed script, in every way, or those of one kind; short: in one way."""
    passage = Passage(fixed_operations(short), id_type=children.id_type)
    children.clear()
    journal = children.run(passage, trace=os.fspath(children.trace), settled=True)
    kinds = {event.index: event.kind for event in read_trace(children.trace) if event.kind != "M"}
    children.check(children.folder, passage.allowed(journal))
    call_count = json.loads(journal.splitlines()[-1])["calls"]
    findings.counts["faults: calls of the script"] = call_count
    stores = Stores(children)
    for at in range(1, call_count + 1)[calls]:
        for action, error_number, forever, reopen in ways(at, kinds.get(at), short, way):
            case = {"harness": "faults", "call": at, "kind": kinds.get(at), "action": action}
            case |= {"errno": errno.errorcode.get(error_number), "forever": forever}
            fault = {"at": at, "action": action, "errno": error_number, "forever": forever, "reopen": reopen}
            children.clear()
            try:
                journal = children.run(passage, settled=True, **fault)
                findings.counts[f"faults: {action}"] += 1
                findings.counts["faults: errors raised"] += journal.count(b'"error"')
                stores.check(read_tree(children.folder), passage.allowed(journal))
            except Broken as error:
                findings.add(case, error)
    findings.counts["faults: different stores looked at"] = stores.looked_at


def ways(at: int, kind: str | None, short: bool, only: str | None) -> Iterator[tuple[str, int, bool, bool]]:
    """How a call of this kind is struck. only: all the ways that begin with this, short or not."""
    possible = [way for way in WAYS if (way[0] != "short" or kind == "W") and way[0].startswith(only or "")]
    yield from possible[at % len(possible) :][:1] if short and only is None else possible


def check_power(children: Children, writers: int, short: bool, calls: slice, seed: int, findings: Findings) -> None:
    """All states that losses lists of a disk that lost power, at these calls of the writers."""
    for number in range(writers):
        operations = random_operations(seed * 1_000_003 + number, RECORDED_OPERATIONS, "a")
        passage = Passage(operations if number else fixed_operations(short), id_type=children.id_type)
        children.clear()
        inode = children.folder.stat().st_ino
        children.run(passage, trace=os.fspath(children.trace), settled=not number)
        events = read_trace(children.trace)
        findings.counts["power: calls recorded"] += len(events)
        stores = Stores(children)
        chosen = range(len(events) + 1)[calls]
        findings.counts["power: calls cut at"] += len(chosen)
        for event, disk in cuts(events, inode):
            if event not in chosen:
                continue
            allowed = passage.allowed(disk.journal)
            for loss, keeps in losses(disk, random.Random(f"{seed} {number} {event}")):
                findings.counts["power: states"] += 1
                try:
                    stores.check(disk.cut(keeps), allowed)
                except Broken as error:
                    case = {"harness": "power", "seed": seed, "writer": number, "event": event, "loss": loss}
                    findings.add(case, error)
        findings.counts["power: different stores looked at"] += stores.looked_at


class Stores:
    """What stores hold that are given as trees; each different one is looked at once."""

    def __init__(self, children: Children) -> None:
        self.looked_at = 0
        self._children = children
        self._known: dict[tuple[str, bytes], frozenset[Row] | None] = {}
        self._broken: dict[tuple[str, bytes], Broken] = {}

    def check(self, tree: Tree, allowed: list[State]) -> None:
        """Broken unless the stores are sound and their state is an allowed one."""
        judge({name: self._rows(name, tree) for name in names_in(allowed)}, allowed)

    def _rows(self, name: str, tree: Tree) -> frozenset[Row] | None:
        if name not in tree:
            return None
        only = {name: tree[name]}
        key = (name, digest(only))
        if key in self._broken:
            raise self._broken[key]
        if key not in self._known:
            self.looked_at += 1
            target = self._children.home / "after"
            write_tree(only, target)
            try:
                self._known[key] = self._children.look(target, [name])[name]
            except Broken as error:
                self._broken[key] = error
                raise
            finally:
                shutil.rmtree(target)
        return self._known[key]


def part(text: str) -> slice:
    """Which calls "1/3" says: of each three the second. Raises ValueError."""
    first, _, step = text.partition("/")
    if not 0 <= int(first) < int(step):
        raise ValueError(text)
    return slice(int(first), None, int(step))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kill", type=parse_whole, default=0, metavar="ROUNDS", help="random kills")
    parser.add_argument("--faults", action="store_true", help="every call of a script fails, or is the last")
    parser.add_argument(
        "--call", type=parse_whole, metavar="N", help="only this call of the script, to see a finding again"
    )
    parser.add_argument(
        "--way",
        choices=("fail", "late", "short", "kill", "kill-before", "kill-after"),
        help="faults: only those of this kind, at each call all of them",
    )
    parser.add_argument(
        "--power", type=parse_whole, default=0, metavar="WRITERS", help="power cuts at every call of writers"
    )
    parser.add_argument("--short", action="store_true", help="a shorter script; faults: each call in one way")
    told = "faults and power: only every Nth call, from the Ith on, 0 being the first"
    parser.add_argument("--part", type=part, default=slice(None), metavar="I/N", help=told)
    parser.add_argument("--seed", type=parse_whole, default=0, help="which random numbers")
    parser.add_argument("--json", action="store_true", help="the counts and findings as JSON")
    parser.add_argument("--plant", choices=sorted(crash_child.PLANTS), help="make this mistake first")
    told = "what the ids of the stores are; minhash: stores of signatures; wide: fingerprints of 256 bits"
    parser.add_argument("--id-type", choices=(*ID_TYPES, SIGNED, WIDE), default="uint64", help=told)
    parser.add_argument("--layout", choices=get_args(Layout), default="slots", help="of the stores with fingerprints")
    options = parser.parse_args(arguments)
    if not (options.kill or options.faults or options.power):
        parser.error("expected --kill, --faults or --power")
    started = time.monotonic()
    findings = Findings(first_only=options.plant is not None)
    with tempfile.TemporaryDirectory(prefix="fpstore-crash-") as name:
        home = Path(name).resolve()
        children = Children(home, build_shim(home), options.plant, options.id_type, options.layout)
        with children, contextlib.suppress(Enough):
            check_kills(children, options.kill, options.seed, findings)
            if options.faults:
                only = options.part if options.call is None else slice(options.call - 1, options.call)
                check_faults(children, options.short, only, options.way, findings)
            check_power(children, options.power, options.short, options.part, options.seed, findings)
    seconds = round(time.monotonic() - started)
    if options.json:
        result = {"tool": "check_crash", "counts": findings.counts, "findings": findings.found, "seconds": seconds}
        print(json.dumps(result, indent=2))
    else:
        for what, count in findings.counts.items():
            print(f"{what}: {count}")
        print(f"{len(findings.found)} findings in {seconds} s")
    return int(bool(findings.found) != bool(options.plant))


if __name__ == "__main__":
    sys.exit(main())
