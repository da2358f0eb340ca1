"""What may be there after a crash: the states that a list of operations passes through, and what a folder holds.

A state is the rows of each store, None for a store that is not there. It knows nothing of how stores work.
"""

# mypy: disable-error-code="union-attr"

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from crash_signed import opened
from id_types import SIGNED, fingerprints_of, ids_of, numbered

import fpstore

Row = tuple[int, int]
State = dict[str, frozenset[Row] | None]
Operation = dict[str, Any]

K = 3
FILES = {"catalog.mdb", "writer.lock", "segments"}
# After these nothing waits to be durable, with durability "batch" too; nor after an addition of many rows.
DURABLE = {"create", "build", "copy", "close", "remove", "remove_rows", "upsert", "flush", "compact", "sync"}


class Broken(Exception):
    """A promise that did not hold."""


# --- Operations ---


def random_rows(rng: np.random.Generator, most: int) -> dict[str, list[int]]:
    """Fingerprints near a few places: many are near one another, and some are equal. Of an odd number ids may rise."""
    count = int(rng.integers(1, most + 1))
    places = rng.integers(0, 40, count).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        places ^= np.uint64(1) << rng.integers(0, 64, count).astype(np.uint64)
    ids = rng.integers(0, 60, count)
    if count % 2 and count < 60:  # below 60, as others are: higher ones are the harness's own
        ids = ids[0] % (60 - count) + np.arange(count)
    return {"keys": places.tolist(), "ids": ids.tolist()}


def random_operations(seed: int, count: int, store: str) -> list[Operation]:
    """Operations on one store, which may be there already: some `count`."""
    rng = np.random.default_rng(seed)
    kinds = ["add"] * 8 + ["add_if_new"] * 6 + ["remove"] * 4 + ["remove_rows"] * 2 + ["upsert"] * 4
    kinds += ["flush", "flush", "compact", "sync", "close"]
    operations = [{"kind": "create", "store": store}]
    for kind in rng.choice(kinds, count).tolist():
        operation: Operation = {"kind": kind, "store": store}
        if kind == "add_if_new" and rng.integers(2):  # a row at a time
            operations += [operation | random_rows(rng, 1) for _ in range(4)]
            continue
        if kind == "add":
            operation |= random_rows(rng, 60)
        elif kind in ("add_if_new", "upsert"):
            operation |= random_rows(rng, 30)
        elif kind == "remove_rows":
            operation |= some_of(rng, operations)
        elif kind == "remove":
            rows = random_rows(rng, 6)
            what = "ids" if rng.integers(2) else "fingerprints"
            operation |= {"what": what, "keys": rows["ids" if what == "ids" else "keys"]}
        operations.append(operation)
    return operations


def some_of(rng: np.random.Generator, operations: list[Operation]) -> dict[str, list[int]]:
    """Some of the rows that operations gave, most of which are there, and one that nobody gave."""
    given = [row for each in operations for row in zip(each.get("keys", ()), each.get("ids", ()), strict=False)]
    chosen = [given[index] for index in rng.integers(0, len(given), 6)] if given else []
    rows = [*chosen, (3, 3)]
    return {"keys": [key for key, _ in rows], "ids": [number for _, number in rows]}


def fixed_operations(short: bool) -> list[Operation]:
    """Every kind of operation, with flushes and merges in between; short: each once.

    room: a build sorts so many rows at a time, spills them, and writes its segment past the system's cache.
    """
    rng = np.random.default_rng(9)

    def one(kind: str, most: int = 0, store: str = "a", **more: object) -> Operation:
        return {"kind": kind, "store": store, **(random_rows(rng, most) if most else {}), **more}

    some = [one("create"), one("add", 20), one("add_if_new", 20), one("remove", what="ids", keys=[3, 5, 7])]
    some += [one("upsert", 15), one("remove_rows") | some_of(rng, some)]
    some += [one("flush"), one("add", 20), one("compact"), one("copy", store="b", source="a")]
    if short:
        return [*some, one("build", 30, room=4), one("build", 500, store="c")]
    some += [one("add", 30), one("add", 45), one("add_if_new", 30), one("flush"), one("add", 100)]
    some += [one("upsert", 40), one("remove_rows") | some_of(rng, some), one("upsert", 10)]
    some += [one("remove", what="fingerprints", keys=random_rows(rng, 20)["keys"]), one("add", 30), one("add", 30)]
    some += [one("compact"), one("remove", what="ids", keys=list(range(50))), one("compact"), one("close")]
    some += [one("add", 5), one("build", 60, room=16), one("add", 10)]
    return [*some, one("build", 500, store="c"), one("add", 5, store="b")]


def by_fingerprints(operation: Operation) -> bool:
    """Whether it removes fingerprints."""
    return operation["kind"] == "remove_rows" or operation.get("what") == "fingerprints"


def after(state: State, operation: Operation, k: int = K) -> State:
    """The state that an operation leads to; k: within which distance what is added is not new."""
    name, kind = operation["store"], operation["kind"]
    rows = state.get(name) or frozenset()
    given = list(zip(operation.get("keys", ()), operation.get("ids", ()), strict=False))
    if kind == "create":
        return {**state, name: rows}
    if kind == "copy":
        return {**state, name: state[operation["source"]]}
    if kind == "build":
        return {**state, name: frozenset(given)}
    if kind == "add":
        return {**state, name: rows | frozenset(given)}
    if kind == "add_if_new":
        chosen = [row for row, new in zip(given, newness(rows, operation["keys"], k), strict=True) if new]
        return {**state, name: rows | frozenset(chosen)}
    if kind == "upsert":
        last = {number: key for key, number in given}
        return {
            **state,
            name: frozenset(row for row in rows if row[1] not in last) | {*zip(last.values(), last, strict=True)},
        }
    if kind == "remove_rows":
        return {**state, name: rows - {*given}}
    if kind == "remove":
        gone, column = set(operation["keys"]), int(operation["what"] == "ids")
        return {**state, name: frozenset(row for row in rows if row[column] not in gone)}
    return state


def newness(rows: frozenset[Row], keys: list[int], k: int = K) -> list[bool]:
    """Which of keys are near none that is stored, nor near an earlier one of them which then was."""
    stored = np.array([key for key, _ in rows], dtype=np.uint64)
    new: list[bool] = []
    for key in np.array(keys, dtype=np.uint64):
        new.append(not bool((np.bitwise_count(stored ^ key) <= k).any()))
        if new[-1]:
            stored = np.append(stored, key)
    return new


# --- What a journal allows ---


@dataclass
class Passage:
    """The operations, and the states before each and after the last."""

    operations: list[Operation]
    states: list[State] = field(default_factory=list)
    durability: str = "commit"
    id_type: str = "uint64"

    def __post_init__(self) -> None:
        self.states = self.states or [{}]
        self._k = 0 if self.id_type == SIGNED else K
        if self.id_type == SIGNED:  # which removes by ids alone
            self.operations = [each for each in self.operations if not by_fingerprints(each)]
        for operation in self.operations:
            self.states.append(after(self.states[-1], operation, self._k))

    def allowed(self, journal: bytes) -> list[State]:
        """The states that may be found when the process ended after writing this; Broken if it is not as it must be."""
        done = begun = durable = 0
        for line in journal.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            note = json.loads(line)
            index = note.get("done", note.get("begin"))
            begun += "begin" in note
            if "done" in note:
                done = index + 1
                self._check_stored(index, note.get("stored"))
                if self._makes_durable(self.operations[index]):
                    durable = done
            if "seen" in note:
                self._check_seen(note["failed"], note["seen"])
        return self.states[durable if self.durability == "batch" else done : max(begun, done) + 1]

    def _makes_durable(self, operation: Operation) -> bool:
        return operation["kind"] in DURABLE

    def _check_stored(self, index: int, stored: list[bool] | None) -> None:
        """What add_if_new said is what it does, unless it was done before an error was raised."""
        operation = self.operations[index]
        if stored is not None and any(stored):
            expected = newness(self.states[index][operation["store"]] or frozenset(), operation["keys"], self._k)
            if stored != expected:
                raise Broken(f"operation {index}, add_if_new, stored {stored}, expected {expected}")

    def _check_seen(self, index: int, seen: list[list[int]] | None) -> None:
        """After an error the writer holds the state before the operation or the one after it."""
        rows = None if seen is None else frozenset((key, number) for key, number in seen)
        name = self.operations[index]["store"]
        if rows not in [state.get(name) for state in self.states[index : index + 2]]:
            raise Broken(f"after the error of operation {index} the writer sees {name} with {rows}")


# --- What a folder holds ---


def inspect(folder: Path, names: list[str]) -> State:
    """What the stores in a folder hold; Broken where one is damaged, unusable or untidy."""
    try:
        return {name: inspect_store(folder / name) for name in names}
    except (fpstore.Error, OSError) as error:
        raise Broken(f"{type(error).__name__}: {error}") from error


def inspect_store(path: Path) -> frozenset[Row] | None:
    """The rows of a store, by a writer; None where there is none."""
    if not path.exists():
        return None
    with opened(path, "w") as store:
        store.verify()
        rows = rows_of(store)
        named = [file.path.name for part in store._latest.parts for file in part.beside]
        left = {one.name for one in (path / "segments").iterdir()} ^ {*named, *(s.path.name for s in store._segments)}
        left |= {one.name for one in path.iterdir()} - FILES
        if left:
            raise Broken(f"{path.name}: what is no part of the store, or is missing: {sorted(left)}")
        keys = sorted({key for key, _ in rows})
        found = store.probe_many(fingerprints_of(getattr(store, "bits", 64) > 64, keys), max_distance=0)
        if {*numbered(store.id_type, found)} != rows:
            raise Broken(f"{path.name}: probes find other rows than reading all")
        ids = ids_of(store.id_type, sorted({number for _, number in rows}))
        if sorted(numbered(store.id_type, store.lookup(ids))) != sorted(rows):
            raise Broken(f"{path.name}: looking up all ids finds other rows than reading all")
        # It can be written to, in the log and in a segment.
        mark = (next(key for key in range(len(rows) + 1) if key not in keys), 99)
        store.add([mark[0]], ids=ids_of(store.id_type, [mark[1]]))
        store._flush()
        if rows_of(store) != rows | {mark}:
            raise Broken(f"{path.name}: an addition after the crash is not as it should be")
        store.remove(ids=ids_of(store.id_type, [mark[1]]))
    with opened(path) as store:
        if rows_of(store) != rows:
            raise Broken(f"{path.name}: a reader sees other rows than the writer did")
    return rows


def rows_of(store: Any) -> frozenset[Row]:
    found = [row for rows in store.rows() for row in numbered(store.id_type, rows)]
    if len(found) != len(set(found)):
        raise Broken(f"{store.path.name}: a row is there twice")
    return frozenset(found)


def names_in(allowed: list[State]) -> list[str]:
    """The stores that there may be."""
    return sorted({name for state in allowed for name in state})


def judge(found: State, allowed: list[State]) -> State:
    """The state that was found; Broken unless it is one of the allowed."""
    if found not in [{name: state.get(name) for name in found} for state in allowed]:
        raise Broken(f"not a state that may be there: {explain(found, allowed)}")
    return found


def explain(found: State, allowed: list[State]) -> str:
    """How what was found differs from the first and the last of what is allowed."""
    said = []
    for which, state in (("first", allowed[0]), ("last", allowed[-1])):
        for name, rows in found.items():
            wanted = state.get(name)
            if rows != wanted:
                if rows is None or wanted is None:
                    how = f"{'not' if rows is None else 'wrongly'} there"
                else:
                    how = f"{len(wanted - rows)} rows lost, {len(rows - wanted)} too many"
                said.append(f"against the {which}, {name}: {how}")
    return "; ".join(said)
