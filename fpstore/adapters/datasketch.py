"""datasketch's MinHashLSH over a store on disk: the same calls, with the same answers.

The package need not be installed: what is given is asked for its hash values alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fpstore import minhash
from fpstore.adapters.keys import keys_for
from fpstore.adapters.scratch import end_with, placed
from fpstore.arrays import as_count, as_similarity
from fpstore.checks import shown
from fpstore.errors import PathLike, WrongKind
from fpstore.minhash import MinHashStore
from fpstore.minhash.buckets import add_all, band_of, bucket, buckets, keys_of
from fpstore.minhash.making import bands_for, expect_bands
from fpstore.types import Array, Durability, IdType, Mode

__all__ = ["MinHashLSH", "MinHashLSHDeletionSession", "MinHashLSHInsertionSession"]

# Documents that a session adds, or removes, at once, as in datasketch.
BUFFER_SIZE = 50_000
KEY_BYTES = 8
# Of a weighted MinHash each value is a pair: odd numbers without a pattern make one of it. They never change.
FIRST_FACTOR, SECOND_FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(32)


class MinHashLSH:
    """An index of MinHashes, with the calls of datasketch's, over a store of signatures at `path`.

    A minhash is datasketch's MinHash, LeanMinHash or WeightedMinHash, or an array of values, as fpstore.minhash.sign
    makes them. Keys may be strings, bytes, numbers, None, and tuples and frozensets of such; a key comes back as one
    that is equal to it. Every key that shares a band is found, and nothing else.
    """

    def __init__(
        self,
        threshold: float = 0.9,
        num_perm: int = 128,
        weights: tuple[float, float] = (0.5, 0.5),
        params: tuple[int, int] | None = None,
        *,
        path: PathLike | None = None,
        prepickle: bool = False,
        id_type: IdType = "bytes",
        durability: Durability = "commit",
    ) -> None:
        """Open the store at path for writing, or make it; without a path one that is gone with this object.

        threshold, num_perm, weights, params: as in datasketch. prepickle: keys of any other type are pickled, and
        unpickled when they are read, which runs what a stranger may have written. id_type: "string" or "uint64" where
        all keys are strings, or integers from 0 on, which takes less. Raises ValueError, also for a store that was made
        with other settings, and what fpstore.minhash.create raises.
        """
        threshold = as_similarity(threshold, "threshold")
        if as_count(num_perm, "num_perm") < 2:
            raise ValueError(f"num_perm: found {num_perm}, expected 2 or more")
        expect_bands(num_perm, 1, 1)  # before they are chosen, which takes days for more values than there may be
        if not isinstance(weights, tuple | list) or len(weights) != 2:
            raise TypeError(f"weights: found {shown(weights)}, expected two numbers from 0 to 1")
        if sum(as_similarity(weight, "weights") for weight in weights) != 1:
            raise ValueError(f"weights: found {weights}, expected two from 0 to 1 whose sum is 1")
        bands, rows = params if params is not None else bands_for(num_perm, threshold, weights)
        if bands < 2:
            raise ValueError(f"bands: found {bands}, expected 2 or more")
        with placed(path) as (place, folder):
            store = minhash.create(
                place,
                exist_ok=True,
                id_type=id_type,
                values=num_perm,
                bands=bands,
                rows_per_band=rows,
                bits=64,  # whoever asks this index gets no estimate: a document met by chance would show as one found
                durability=durability if folder is None else "batch",
            )
        self._take(store, prepickle, folder)

    @classmethod
    def open(
        cls, path: PathLike, mode: Mode = "r", *, prepickle: bool = False, durability: Durability = "commit"
    ) -> Self:
        """The index at path, with the settings that it was made with; mode: "r", beside a writer, or "w".

        Raises WrongKind for a store of signatures that has no ids or keeps no signatures, and what
        fpstore.minhash.open raises.
        """
        made = cls.__new__(cls)
        made._take(minhash.open(path, mode, durability=durability), prepickle, None)
        return made

    def _take(self, store: MinHashStore, prepickle: bool, folder: str | None) -> None:
        if store.id_type is None or store._settings.kept is None:
            store.close()
            raise WrongKind("found no ids, or no signatures, expected a store that has both", path=store.path)
        self._store, self._prepickle = store, prepickle
        self._end = end_with(self, store, folder)
        self._coded = keys_for(store.id_type, prepickle)
        self._scheme: str | None = None
        self._buffered: list[Array] = []
        self.h, self.b, self.r = store.values, store.bands, store.rows_per_band

    def close(self) -> None:
        """Close the store. One without a path is removed."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._store.mode == "w":
            self._store.sync()
        return _opened, (self._store.path, self._prepickle)

    @property
    def store(self) -> MinHashStore:
        """The store beneath, which tells similarities, pairs and more."""
        return self._store

    # --- Searching ---

    def query(self, minhash: Any) -> list[Hashable]:
        """The keys of all that share a band with this one, the most similar first."""
        found = self._store.probe(self._values(minhash, learn=False))
        assert found.id is not None
        return self._coded.keys(found.id)

    def add_to_query_buffer(self, minhash: Any) -> None:
        """Ask for this one too when collect_query_buffer is called."""
        self._buffered.append(self._values(minhash, learn=False))

    def collect_query_buffer(self) -> list[Hashable]:
        """The keys that share a band with each of those in the buffer, which is empty then."""
        asked, self._buffered = self._buffered, []
        found: set[Hashable] | None = None
        for values in asked:
            ids = self._store.probe(values).id
            assert ids is not None
            keys = {*self._coded.keys(ids)}
            found = keys if found is None else found & keys
        return [*(found or ())]

    def __contains__(self, key: Hashable) -> bool:
        return bool(self._known([key]))

    def is_empty(self) -> bool:
        """Whether there is no key."""
        return next(self._store.rows(batch=1), None) is None

    # --- Changing ---

    def insert(self, key: Hashable, minhash: Any, check_duplication: bool = True) -> None:
        """Add a key with its MinHash; durable when it returns, unless durability is "batch".

        ValueError for a key that is there; without check_duplication it has both.
        """
        values = self._values(minhash)
        if check_duplication:
            self._expect_new([key])
        self._store.add(values[None, :], ids=self._coded.ids([key]))

    def remove(self, key: Hashable) -> None:
        """Remove a key. ValueError where it is not there."""
        self._expect_known([key])
        self._store.remove(ids=self._coded.ids([key]))

    def insertion_session(self, buffer_size: int = BUFFER_SIZE) -> "MinHashLSHInsertionSession":
        """A context for inserting many at a time, which takes far less for each; they are found when it ends."""
        return MinHashLSHInsertionSession(self, buffer_size)

    def deletion_session(self, buffer_size: int = BUFFER_SIZE) -> "MinHashLSHDeletionSession":
        """A context for removing many at a time; they are gone when it ends."""
        return MinHashLSHDeletionSession(self, buffer_size)

    def merge(self, other: "MinHashLSH", check_overlap: bool = False) -> None:
        """Add all that another index holds. A key that is in both has the MinHashes of both.

        ValueError for an index with other settings, or whose MinHashes are of another scheme; with check_overlap, also
        for one that has a key of this one.
        """
        if type(self) is not type(other):
            raise ValueError(f"merge: found a {type(other).__name__}, expected a {type(self).__name__}")
        scheme = _one_scheme(self._scheme, other._scheme)
        if check_overlap:
            for keys in other._batches():
                self._expect_new(keys)
        add_all(self._store, other._store)
        self._scheme = scheme

    # --- What lies in it ---

    @property
    def keys(self) -> "KeysView":
        """The keys, and of each the bucket that it is in, for each band."""
        return KeysView(self)

    @property
    def hashtables(self) -> "list[BandView]":
        """The bands, each a mapping of its buckets to the keys in them."""
        return [BandView(self, band) for band in range(self.b)]

    @property
    def hashranges(self) -> list[tuple[int, int]]:
        """Which values each band has."""
        return [(band * self.r, (band + 1) * self.r) for band in range(self.b)]

    def get_counts(self) -> list[dict[bytes, int]]:
        """Of each band how many keys each bucket has. Reads the whole table; takes memory for all buckets."""
        found: list[dict[bytes, int]] = [{} for _ in range(self.b)]
        for band, keys, counts in buckets(self._store):
            found[band].update(zip(map(_name_of, keys.tolist()), counts.tolist(), strict=True))
        return found

    def get_subset_counts(self, *keys: Hashable) -> list[dict[bytes, int]]:
        """As get_counts, of these keys alone. Reads all rows once."""
        found: list[dict[bytes, int]] = [{} for _ in range(self.b)]
        for own in keys_of(self._store, self._coded.ids([*{*keys}])):
            for key in own:
                counts = found[band_of(self._store, key)]
                counts[_name_of(key)] = counts.get(_name_of(key), 0) + 1
        return found

    # --- Within ---

    def _values(self, minhash: Any, *, learn: bool = True) -> Array:
        """The values of a MinHash. ValueError for another number of them, or another scheme than those before."""
        values = np.asarray(getattr(minhash, "hashvalues", minhash))
        if values.ndim == 2 and values.shape[1] == 2:
            values = _of_pairs(values)
        if values.shape != (self.h,):
            raise ValueError(f"minhash: found values of the shape {values.shape}, expected {self.h} of them")
        scheme = _one_scheme(self._scheme, getattr(minhash, "scheme", None))
        if learn:
            self._scheme = scheme
        return values

    def _known(self, keys: list[Hashable]) -> list[Hashable]:
        """Those of keys that are there."""
        found = self._store.lookup(self._coded.ids(keys)).id
        return self._coded.keys(found) if len(found) else []

    def _expect_new(self, keys: list[Hashable]) -> None:
        if known := self._known(keys):
            raise ValueError(f"key: found {shown(known[0])}, which is there already, expected a new one")

    def _expect_known(self, keys: list[Hashable]) -> None:
        known = {*self._known(keys)}
        for key in keys:
            if key not in known:
                raise ValueError(f"key: found {shown(key)}, which is not there, expected one that is")

    def _batches(self) -> Iterator[list[Hashable]]:
        """All keys, each once, some at a time."""
        for documents in self._store.rows():
            yield [*dict.fromkeys(self._coded.keys(documents.id))]


class _Session(ABC):
    """Changes that wait until there are so many, or the context ends, also by an exception."""

    def __init__(self, lsh: MinHashLSH, buffer_size: int) -> None:
        if buffer_size < 1:
            raise ValueError(f"buffer_size: found {buffer_size}, expected 1 or more")
        self.lsh, self._most = lsh, buffer_size
        self._waiting: dict[Hashable, list[Array]] = {}
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Do what waits."""
        waiting, self._waiting, self._count = self._waiting, {}, 0
        if waiting:
            self._do(waiting)

    @abstractmethod
    def _do(self, waiting: dict[Hashable, list[Array]]) -> None: ...

    def _wait(self, key: Hashable, *values: Array) -> None:
        self._waiting.setdefault(key, []).extend(values)
        self._count += 1
        if self._count >= self._most:
            self.close()


class MinHashLSHInsertionSession(_Session):
    """Inserts many; made by MinHashLSH.insertion_session."""

    def insert(self, key: Hashable, minhash: Any, check_duplication: bool = True) -> None:
        """As of MinHashLSH, but for when it is found."""
        values = self.lsh._values(minhash)
        if check_duplication:
            if key in self._waiting:
                raise ValueError(f"key: found {shown(key)}, which is there already, expected a new one")
            self.lsh._expect_new([key])
        else:
            self.lsh._coded.ids([key])  # which refuses here what would be refused when it is too late
        self._wait(key, values)

    def _do(self, waiting: dict[Hashable, list[Array]]) -> None:
        keys = [key for key, own in waiting.items() for _ in own]
        values = np.stack([each for own in waiting.values() for each in own])
        self.lsh._store.add(values, ids=self.lsh._coded.ids(keys))


class MinHashLSHDeletionSession(_Session):
    """Removes many; made by MinHashLSH.deletion_session."""

    def remove(self, key: Hashable) -> None:
        """As of MinHashLSH, but for when it is gone."""
        if key in self._waiting:
            raise ValueError(f"key: found {shown(key)}, which is not there, expected one that is")
        self.lsh._expect_known([key])
        self._wait(key)

    def _do(self, waiting: dict[Hashable, list[Array]]) -> None:
        self.lsh._store.remove(ids=self.lsh._coded.ids([*waiting]))


class KeysView:
    """The keys of an index, as they are when they are asked for."""

    def __init__(self, lsh: MinHashLSH) -> None:
        self._lsh = lsh

    def __len__(self) -> int:
        return self._lsh._store.count()

    def __iter__(self) -> Iterator[Hashable]:
        last: list[Hashable] = []
        for keys in self._lsh._batches():
            yield from keys[1:] if keys[:1] == last else keys  # which may have gone on in the next batch
            last = keys[-1:]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._lsh

    def __getitem__(self, key: Hashable) -> list[bytes]:
        """The bucket of a key in each band; none where it is not there. Reads all rows."""
        own = keys_of(self._lsh._store, self._lsh._coded.ids([key]))
        return [_name_of(each) for each in own[0]] if own else []


class BandView:
    """The buckets of a band, as they are when they are asked for; each by the 8 bytes of its key."""

    def __init__(self, lsh: MinHashLSH, band: int) -> None:
        self._lsh, self._band = lsh, band

    def __len__(self) -> int:
        return sum(len(own.keys) for own in buckets(self._lsh._store, self._band))

    def __iter__(self) -> Iterator[bytes]:
        for _, keys, _ in buckets(self._lsh._store, self._band):
            yield from map(_name_of, keys.tolist())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, bytes) and bool(self.get(name))

    def __getitem__(self, name: bytes) -> set[Hashable]:
        return self.get(name)

    def get(self, name: bytes) -> set[Hashable]:
        """The keys in a bucket, none where there is no such bucket."""
        key = int.from_bytes(name, "big")
        if len(name) != KEY_BYTES or key >> self._bits or band_of(self._lsh._store, key) != self._band:
            return set()
        return {*self._lsh._coded.keys(bucket(self._lsh._store, key))}

    @property
    def _bits(self) -> int:
        return self._lsh._store._settings.bits


def _opened(path: Path, prepickle: bool) -> MinHashLSH:
    return MinHashLSH.open(path, prepickle=prepickle)


def _one_scheme(known: str | None, found: str | None) -> str | None:
    """That of MinHashes of which the one is known, if any is. ValueError where they differ."""
    if known is not None and found is not None and known != found:
        raise ValueError(f"minhash: found one of the scheme {found}, expected {known}, as those before")
    return known if found is None else found


def _of_pairs(values: Array) -> Array:
    """One value of each pair, uint64[n]: equal where both are, but for one in 2^64."""
    first, second = (np.ascontiguousarray(values[:, at]).astype(np.int64).view(np.uint64) for at in (0, 1))
    mixed = first * FIRST_FACTOR
    mixed ^= mixed >> SHIFT
    mixed = (mixed ^ second) * SECOND_FACTOR
    mixed ^= mixed >> SHIFT
    return mixed


def _name_of(key: int) -> bytes:
    return key.to_bytes(KEY_BYTES, "big")
