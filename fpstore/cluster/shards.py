"""A store of many stores in many places: a small file of JSON that lists them, asked as one, and only read.

    {"format": "fpstore.shards/1", "bits": 64, "ids": "uint64", "stores": [
      {"store": "2025/a.fpstore", "identity": "5f...", "fingerprints": 1000000},
      {"store": "s3://bucket/b.fpstore", "identity": "0c...", "fingerprints": 2000000}]}

A store is a path, from the folder of the file on, wherever a link to that lies, or a URL. Which rows lie in which is
nobody's rule: an answer is the union, in the order of `probe_many`, and a row that lies in several comes once, as one
that several segments have.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, overload

import numpy as np

import fpstore
from fpstore.arrays import as_keys, parse_memory
from fpstore.checks import expect, expect_integer, limited_list, named_fields, typed
from fpstore.cluster.shares import DISTANCE_BITS, ranked
from fpstore.disk import Folder, read_whole, replace_whole
from fpstore.errors import LIST_ENDING, CorruptStore, NotAStore, PathLike, PlanError, TooManyMatches, WrongKind
from fpstore.fingerprints import columns_of, of_columns, repeats
from fpstore.living.radius import tell_of_reach
from fpstore.living.state import Settings
from fpstore.living.stats import Stats
from fpstore.living.verified import Verified
from fpstore.living.wide_pairs import PAIRED_BYTES, PAIRED_COPIES, groups_of, held_pairs, too_many_near
from fpstore.merging import each_once
from fpstore.origin import Origin
from fpstore.query.id_pairs import IdPairs, id_pairs
from fpstore.query.matches import MAX_MATCHES, Matches, made
from fpstore.query.pairs import Pairs
from fpstore.query.tables import Rows, Table
from fpstore.store import Store
from fpstore.text import Recipe
from fpstore.threads import thread_count
from fpstore.types import Array, Keys, Mode, Paired

FORMAT = "fpstore.shards/1"
MAX_SHARDS, MAX_BYTES = 10_000, 1 << 24
# Rows whose pairs are looked for together.
_PAIRED_AT_ONCE = 1 << 14

_Table = TypeVar("_Table", bound=Table[Any])


@dataclass(frozen=True)
class Listed:
    """What a file says. bits, ids: those of every store."""

    bits: int
    ids: str | None
    shards: tuple["Shard", ...]


@dataclass(frozen=True)
class Shard:
    """One of the stores. store: its path or URL, as the file has it. identity: of the store, which says which it is."""

    store: str
    identity: str
    fingerprints: int

    @classmethod
    def of(cls, value: object, where: str) -> "Shard":
        """That of a file's JSON. ValueError for what is none."""
        fields = named_fields(where, value, {"store", "identity", "fingerprints"})
        store, identity = typed(f"{where}, store", fields["store"], str), typed(where, fields["identity"], str)
        expect(f"{where}, store", store, _is_place(store), "a path or a URL")
        expect_integer(f"{where}, fingerprints", fields["fingerprints"], 0, 2**63 - 1)
        return cls(store, identity, fields["fingerprints"])

    def place(self, folder: Path) -> PathLike:
        """Where it lies; folder: that of the file."""
        return self.store if "://" in self.store else folder / self.store


class Shards:
    """The stores that a file lists, open for reading; a context manager. Safe to use from several threads.

    path: of the file. shards: what it lists. bits, id_type, recipe, max_distance: as of a store; the last is the least
    of all.
    """

    kind: Literal["hamming"] = "hamming"
    mode: Mode = "r"

    def __init__(self, path: PathLike) -> None:
        """Open every store of the file. NotAStore for another file, and for a store that is not as listed.

        What fpstore.open raises of a store that is not there. ValueError for stores of several kinds.
        """
        self.path = Path(path).absolute()
        said = listed(self.path)
        home = Path(os.path.realpath(self.path)).parent
        self.shards = said.shards
        self._held = ExitStack()
        self._max_matches = MAX_MATCHES
        self.stores: tuple[Store, ...] = ()
        try:
            for shard in self.shards:
                store = self._held.enter_context(fpstore.open(shard.place(home)))
                self.stores += (store,)
                _expect(store, shard)
            _expect_alike(self.stores)
            self.bits, self.id_type = self.stores[0].bits, self.stores[0].id_type
            if (said.bits, said.ids) != (self.bits, self.id_type):
                told = f"found bits {said.bits} and ids {said.ids}, expected {self.bits} and {self.id_type}"
                raise NotAStore(f"{told}, as the stores have that are listed", path=self.path)
        except BaseException:
            self.close()
            raise
        self.max_distance = min(store.max_distance for store in self.stores)

    @staticmethod
    def write(path: PathLike, stores: Sequence[PathLike]) -> None:
        """Write the file of these stores, durably, in place of one that is there; its name ends in .shards.json.

        Paths are written as they are from the folder of the file on. Each store is opened: what __init__ raises.
        TypeError for one path in place of several, ValueError for a store that comes twice.
        """
        if isinstance(stores, str | bytes | os.PathLike):
            raise TypeError(
                f"stores: found one path, {str(os.fsdecode(stores))!r}, expected several, such as a list of them"
            )
        home = Path(path).absolute()
        if not os.path.basename(os.fspath(path)).endswith(LIST_ENDING):  # that of "web.shards.json/" is empty
            raise ValueError(f"{os.fspath(path)}: found a name without it, expected one that ends in {LIST_ENDING}")
        with ExitStack() as held:
            opened = [held.enter_context(fpstore.open(each)) for each in stores]
            _expect_alike(opened)
            real = Path(os.path.realpath(home.parent))
            shards = [_shown(store, each, real) for store, each in zip(opened, stores, strict=True)]
            if (twice := _twice(shard["identity"] for shard in shards)) is not None:
                raise ValueError(f"stores: found {os.fspath(stores[twice])} twice, expected each store once")
            record = {"format": FORMAT, "bits": opened[0].bits, "ids": opened[0].id_type, "stores": shards}
        with Folder.open(home.parent) as folder:
            replace_whole(folder, home.name, (json.dumps(record, indent=2) + "\n").encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all stores; may be called again."""
        self._held.close()

    def probe(self, fingerprint: int | bytes, *, max_distance: int | None = None) -> Matches:
        """What all stores have near a fingerprint, as Store.probe."""
        return self.probe_many([fingerprint], max_distance=max_distance)

    def probe_many(
        self, fingerprints: object, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """What all stores have near each of fingerprints, store after store, as one answer of Store.probe_many."""
        asked = self.max_distance if max_distance is None else max_distance
        for store in self.stores:
            distance = store._any_distance(asked)
        tell_of_reach([store._latest for store in self.stores], distance, 3)
        queries = self.stores[0]._keys(fingerprints)
        return self._near(queries, distance, thread_count(threads), self.max_matches)

    def _near(self, queries: Keys, distance: int, threads: int, most: int) -> Matches:
        """The same; TooManyMatches for more rows than most, of which no more than twice as many are held."""
        found: list[Matches] = []
        for store in self.stores:
            found.append(store._probe_many(queries, distance, threads, most))
            if sum(map(len, found)) > most:
                found = [together(found)]  # a row that several have is one
                if len(found[0]) > most:
                    raise TooManyMatches.found(len(queries), most, most, at_least=True)
        return self._out(together(found))

    def nearest_many(
        self, fingerprints: object, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """The count rows of all stores that are nearest to each of fingerprints, as Store.nearest_many."""
        asked = {"max_distance": max_distance, "threads": threads}
        queries = self.stores[0]._keys(fingerprints)
        found = self.stores[0].nearest_many(queries, count, **asked)
        for store in self.stores[1:]:
            both = together([found, store.nearest_many(queries, count, **asked)])
            before = np.arange(len(both)) - np.searchsorted(both.query, both.query)
            found = _taken(both, before < count)
        return self._out(found)

    def lookup(self, ids: object) -> Rows:
        """All rows of these ids in all stores, each once, as Store.lookup of all their rows."""
        given = as_keys(ids, "ids")
        found: list[tuple[Array, ...]] = []
        for store in self.stores:
            rows = store.lookup(given)
            assert rows.id is not None
            found.append((rows.id, *columns_of(rows.fingerprint)))
            if sum(len(each[0]) for each in found) > self.max_matches:
                found = [_each_once(found)]
                if len(found[0][0]) > self.max_matches:
                    raise TooManyMatches.of_ids(len(given), self.max_matches)
        numbers, *words = _each_once(found)
        return self._out(Rows(of_columns(tuple(words)), numbers))

    @overload
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["fingerprints"] = "fingerprints",
        memory: str | int = "1GiB",
        threads: int | None = None,
    ) -> Iterator[Pairs]: ...
    @overload
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Literal["ids"],
        memory: str | int = "1GiB",
        threads: int | None = None,
    ) -> Iterator[IdPairs]: ...
    def pairs(
        self,
        *,
        max_distance: int | None = None,
        of: Paired = "fingerprints",
        memory: str | int = "1GiB",
        threads: int | None = None,
    ) -> Iterator[Pairs] | Iterator[IdPairs]:
        """Every two fingerprints of all stores within max_distance, each pair once, as Store.pairs of all their rows.

        Some at a time, in no order. Each fingerprint is asked of every store, of the first alone that has it, so that
        a pair whose fingerprints lie in several stores, or in different ones, comes once. While nobody writes to them.
        of: "ids", in stores that have them, for every two rows of different ids instead, in whichever stores these lie.
        memory: the budget for rows held at once; ValueError where those near one fingerprint need more. threads: as of
        probe_many.
        ValueError for a distance that is above what a store was made for.
        """
        distance = self._paired_distance(max_distance, of)
        near = self._paired(distance, parse_memory(memory), thread_count(threads))
        return self._id_pairs(near) if of == "ids" else self._pairs(near)

    def _paired_distance(self, max_distance: int | None, of: Paired) -> int:
        """Within which pairs are looked for. ValueError for one that a store was not made for."""
        distance = self.max_distance if max_distance is None else max_distance
        for store in self.stores:
            try:
                distance = store._distance(distance)
            except PlanError as error:
                raise PlanError(str(error), path=store.path) from None
            store._expect_paired(of)
        return distance

    def _pairs(self, near: Iterator[tuple[Keys, Matches]]) -> Iterator[Pairs]:
        for keys, found in near:
            pairs = held_pairs(keys, found)
            first, second, distance = pairs.next()
            if len(first):
                yield self._out(Pairs(first, second, distance))

    def _id_pairs(self, near: Iterator[tuple[Keys, Matches]]) -> Iterator[IdPairs]:
        for keys, found in near:
            for groups in groups_of(keys, found):
                yield from (self._out(some) for some in id_pairs(groups) if len(some))

    def _paired(
        self, distance: int, memory_bytes: int, threads: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[Keys, Matches]]:
        """Every fingerprint once, some at a time, and all rows near these. part: which of how many parts of them."""
        own, count = part
        most = max(1, memory_bytes // (PAIRED_COPIES * self.bits // 8 + PAIRED_BYTES))
        for number, store in enumerate(self.stores):
            # Dealt in turn, of each store from another part on, so that no part has all of what is dear.
            for keys in islice(_distinct(store), (own - number) % count, None, count):
                for before in self.stores[:number]:
                    is_new = np.ones(len(keys), dtype=bool)
                    is_new[before.nearest_many(keys, max_distance=0, threads=threads).query] = False
                    keys = keys[is_new]
                if len(keys):
                    yield from self._halved(keys, distance, threads, most, memory_bytes)

    def _halved(
        self, keys: Keys, distance: int, threads: int, most: int, memory_bytes: int
    ) -> Iterator[tuple[Keys, Matches]]:
        """Keys and all rows near them, of half of the keys at a time where those are more than most."""
        try:
            found = self._near(keys, distance, threads, most)
        except TooManyMatches:
            if len(keys) == 1:
                raise too_many_near(keys, most, distance, memory_bytes) from None
        else:
            yield keys, found
            return
        middle = len(keys) // 2
        for half in (keys[:middle], keys[middle:]):
            yield from self._halved(half, distance, threads, most, memory_bytes)

    def _out(self, table: _Table) -> _Table:
        return table._of_store(self._settings.made_by)

    @property
    def recipe(self) -> Recipe | None:
        """That of every store."""
        return self.stores[0].recipe

    @property
    def identity(self) -> tuple[str, ...]:
        """Which stores they are, in their order."""
        return tuple(store.identity for store in self.stores)

    @property
    def max_matches(self) -> int:
        """How many rows an answer may have, for services."""
        return self._max_matches

    @max_matches.setter
    def max_matches(self, most: int) -> None:
        self._max_matches = most
        for store in self.stores:
            store.max_matches = most

    @property
    def _settings(self) -> Settings:
        return self.stores[0]._settings

    @property
    def _origin(self) -> Origin | None:
        return self.stores[0]._origin

    @property
    def _closed(self) -> bool:
        return any(store._closed for store in self.stores)

    def _difference(self) -> str | None:
        """How what lies at the paths differs from what is open, of the first store of which it does."""
        differences = ((store.path, store._difference()) for store in self.stores)
        return next((f"{path}: {how}" for path, how in differences if how is not None), None)

    def stats(self) -> tuple[Stats, ...]:
        """What each store holds and how, in their order."""
        return tuple(store.stats() for store in self.stores)

    def verify(self) -> Verified:
        """Read all of every store and check it; how much that was in all. What Store.verify raises, of the first."""
        found = [store.verify() for store in self.stores]
        return Verified(**{name: sum(getattr(each, name) for each in found) for name in Verified.__dataclass_fields__})


def together(found: Sequence[Matches]) -> Matches:
    """Answers to the same queries as one: their rows, each once, in the order of an answer."""
    if len(found) == 1:
        return found[0]
    parts: list[tuple[Any, ...]] = []
    for each in found:
        ranks = each.query.astype(np.uint64) << DISTANCE_BITS | each.distance.astype(np.uint64)
        parts.append((ranks, *columns_of(each.fingerprint), *([] if each.id is None else [each.id])))
    ranks, *words = _each_once(parts)
    ids = None if found[0].id is None else words.pop()
    query, distance = ranked(ranks)
    method = next((each.method for each in found if each.method != "probe"), "probe")
    return made(query, of_columns(tuple(words)), distance, ids, method)


def _each_once(parts: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Rows of several answers, each once, in the order of their columns."""
    return tuple(each_once([np.concatenate(column) for column in zip(*parts, strict=True)]))


def _distinct(store: Store) -> Iterator[Array]:
    """The fingerprints of a store, each once, some at a time."""
    last: Array | None = None
    for rows in store.rows(batch=_PAIRED_AT_ONCE):
        keys = rows.fingerprint
        fresh = ~repeats(keys)
        if last is not None:
            fresh[0] = bool((keys[:1] != last).any())
        last = keys[-1:]
        if fresh.any():
            yield keys[fresh]


def _taken(found: Matches, which: Array) -> Matches:
    """Some of the rows."""
    ids = None if found.id is None else found.id[which]
    return made(found.query[which], found.fingerprint[which], found.distance[which], ids, found.method)


def is_listing(path: PathLike) -> bool:
    """Whether a path is that of a list of stores, by its name."""
    return os.fspath(path).endswith(LIST_ENDING)


def listed(path: Path) -> Listed:
    """What a file lists, also by a link to it. NotAStore for what is no such file."""
    path = Path(os.path.realpath(path))
    with Folder.open(path.parent) as folder:
        try:
            data = read_whole(folder, path.name, MAX_BYTES)
        except CorruptStore as error:
            raise _no_list(path, error.line) from None
    if data is None:
        raise FileNotFoundError(2, os.strerror(2), str(path))
    try:
        record = named_fields("file", json.loads(data), {"format", "bits", "ids", "stores"})
        expect("format", record["format"], record["format"] == FORMAT, FORMAT)
        values = limited_list("stores", record["stores"], MAX_SHARDS)
        expect("stores", len(values), bool(values), "one or more")
        shards = tuple(Shard.of(value, f"store {number}") for number, value in enumerate(values))
        expect_integer("bits", record["bits"], 1, 2**16)
        expect("ids", record["ids"], record["ids"] in ("uint64", None), "uint64 or null")
    except (ValueError, TypeError, RecursionError) as error:
        raise _no_list(path, error) from None
    if (twice := _twice(shard.identity for shard in shards)) is not None:
        raise NotAStore(f"found {shards[twice].place(path.parent)} twice, expected each store once", path=path)
    return Listed(record["bits"], record["ids"], shards)


def _no_list(path: Path, why: object) -> NotAStore:
    told = f"found no list of stores ({why}), expected what fpstore.cluster.Shards.write makes"
    return NotAStore(told, path=path)


def _twice(identities: Iterable[str]) -> int | None:
    """The number of the first store that has come before it; None where none has."""
    seen: set[str] = set()
    for number, identity in enumerate(identities):
        if identity in seen:
            return number
        seen.add(identity)
    return None


def _is_place(store: str) -> bool:
    """Whether a file, or something elsewhere, can be called that."""
    try:
        return store != "" and b"\0" not in os.fsencode(store)
    except UnicodeEncodeError:
        return False


def _expect(store: Store, shard: Shard) -> None:
    found = store._latest.state.identity
    if found != shard.identity:
        told = f"found store {found}, expected {shard.identity}, which is listed: another has taken its place"
        raise NotAStore(f"{told}; write the list anew, if it is meant", path=store.path)
    count = _count(store)
    if count != shard.fingerprints:
        told = f"found {count} fingerprints, expected {shard.fingerprints}, as listed: write the list anew"
        raise NotAStore(told, path=store.path)


def _expect_alike(stores: Sequence[Store]) -> None:
    """WrongKind for a store that cannot be asked beside others, ValueError for one of another kind than the first."""
    if not stores:
        raise ValueError("stores: found none, expected one or more")
    for store in stores:
        if store.kind != "hamming" or store.id_type in ("string", "bytes"):
            told = "found signatures or names, expected fingerprints and numbers"
            raise WrongKind(f"{told}: ask such stores one by one", path=store.path)
        for what in ("bits", "id_type", "recipe"):
            own, first = (_setting(each, what) for each in (store, stores[0]))
            if own != first:
                told = f"{what}: found {own!s:.60}, expected {first!s:.60}, as of {stores[0].path}"
                raise ValueError(f"{store.path}: {told}")


def _setting(store: Store, what: str) -> object:
    return store._settings.recipe if what == "recipe" else getattr(store, what)


def _count(store: Store) -> int:
    """The fingerprints of all segments and of what is pending: one that several have is counted in each."""
    stats = store.stats()
    return sum(segment.fingerprint_count for segment in stats.segments) + stats.pending_count


def _shown(store: Store, given: PathLike, folder: Path) -> dict[str, Any]:
    place = os.fspath(given)
    if "://" not in place:
        path = Path(place)
        if ".." in path.parts:  # behind a link that is not the folder in which the link lies
            path = Path(os.path.realpath(path)) if path.name == ".." else Path(os.path.realpath(path.parent), path.name)
        place = os.path.relpath(os.path.abspath(path), folder)
    return {"store": place, "identity": store._latest.state.identity, "fingerprints": _count(store)}
