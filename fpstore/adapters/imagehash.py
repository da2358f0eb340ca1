"""Hashes of images with their names, over a store on disk: imagehash's ImageHash in, names out.

imagehash need not be installed: what is given is asked for its bits alone.
"""

from collections.abc import Hashable, Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

import fpstore
from fpstore import Store
from fpstore.adapters.keys import keys_for
from fpstore.adapters.scratch import end_with, placed
from fpstore.arrays import as_count
from fpstore.checks import shown
from fpstore.errors import PathLike, WrongKind
from fpstore.types import Array, Durability, IdType, Mode

__all__ = ["Found", "ImageIndex"]

# The widths of stores. A hash is stored in the least of them that it fits, with zeros, so that distances stay: before
# it, or behind it in a wide one, whose first table would else have one slot for all.
WIDTHS: tuple[int, ...] = (*range(16, 65, 8), 128, 256)
# What a hash of this kind keeps apart: two images of one motif differ in so many of 64 bits at most, mostly.
MAX_DISTANCE = 8


class Found(NamedTuple):
    """One image that is near: in how many bits it differs, and its name."""

    distance: int
    name: Hashable


class ImageIndex:
    """An index of images by their hashes, over a store at `path`. Every name whose hash is near is found, no other.

    A hash is imagehash's ImageHash, or what str() makes of one; all of them have `bits` bits, as average_hash, phash,
    dhash and whash have 64, and 256 with hash_size=16. Names are strings, or what id_type says.
    """

    def __init__(
        self,
        path: PathLike | None = None,
        *,
        bits: int = 64,
        max_distance: int = MAX_DISTANCE,
        id_type: IdType = "string",
        durability: Durability = "commit",
        **settings: Any,
    ) -> None:
        """Open the store at path for writing, or make it; without a path one that is gone with this object.

        bits: of a hash, 1 to 256. max_distance: how far searches go that do not say it. id_type: "string", "uint64" for
        integers from 0 on, "bytes" for keys of any plain type. settings: of fpstore.create, such as plan. Raises
        ValueError, also for a store that was made with other settings, and what fpstore.create raises.
        """
        width = _width(bits)
        with placed(path) as (place, folder):
            store = fpstore.create(
                place,
                exist_ok=True,
                bits=width,
                max_distance=max_distance,
                id_type=id_type,
                durability=durability if folder is None else "batch",
                **settings,
            )
        self._take(store, bits, folder)

    @classmethod
    def open(
        cls, path: PathLike, mode: Mode = "r", *, bits: int | None = None, durability: Durability = "commit"
    ) -> Self:
        """The index at path; mode: "r", beside a writer, or "w". bits: of a hash, where the store's are more.

        Raises WrongKind for a store without ids, ValueError for bits that it was not made for, and what fpstore.open
        raises.
        """
        made = cls.__new__(cls)
        store = fpstore.open(path, mode, durability=durability)
        try:
            if store.id_type is None:
                raise WrongKind("found no ids, expected a store that has names of images", path=store.path)
            own = store.bits if bits is None else bits
            if _width(own) != store.bits:
                raise ValueError(f"{store.path}: found a store of {store.bits} bits, expected {_width(own)}")
        except BaseException:
            store.close()
            raise
        made._take(store, own, None)
        return made

    @classmethod
    def build(
        cls,
        path: PathLike,
        images: Iterable[tuple[Any, Hashable]],
        *,
        bits: int = 64,
        max_distance: int = MAX_DISTANCE,
        id_type: IdType = "string",
        **settings: Any,
    ) -> Self:
        """Build the index of all images, (hash, name) each, at once, and open it for reading; takes memory for them.

        settings: of fpstore.build, such as plan and force. Raises as that, and ValueError for another hash.
        """
        hashes, ids = _columns(images, bits, id_type)
        built = fpstore.build(
            path, hashes, ids=ids, bits=_width(bits), max_distance=max_distance, id_type=id_type, **settings
        )
        made = cls.__new__(cls)
        made._take(built, bits, None)
        return made

    def _take(self, store: Store, bits: int, folder: str | None) -> None:
        assert store.id_type is not None
        self._store, self.bits, self._id_type = store, bits, store.id_type
        self._names = keys_for(store.id_type)
        self._end = end_with(self, store, folder)

    def close(self) -> None:
        """Close the store. One without a path is removed."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def store(self) -> Store:
        """The store beneath, which takes arrays, and tells pairs and more."""
        return self._store

    @property
    def max_distance(self) -> int:
        """How far searches go that do not say it."""
        return self._store.max_distance

    # --- Searching ---

    def fingerprint(self, hash: Any) -> int:
        """A hash as the store has it, a number: the first bit is the highest of the hash. TypeError, ValueError."""
        return _number(hash, self.bits)

    def query(self, hash: Any, *, max_distance: int | None = None) -> list[Found]:
        """All images within max_distance, the nearest first, equally near ones by their hashes and names."""
        return self._found(self._store.probe(self.fingerprint(hash), max_distance=max_distance))

    def nearest(self, hash: Any, count: int = 1, *, max_distance: int | None = None) -> list[Found]:
        """The count images that are nearest, however far, or within max_distance."""
        return self._found(self._store.nearest(self.fingerprint(hash), count, max_distance=max_distance))

    def groups(self, *, max_distance: int | None = None) -> list[list[Hashable]]:
        """Names of images that hang together, each near another of its group: the largest group first.

        An image that nothing is near is in none. Groups are the connected components, so two of one group may be far
        from each other. Takes memory for all hashes and names.
        """
        rows = [*self._store.rows()]
        if not rows:
            return []
        hashes = _whole([row.fingerprint for row in rows])
        values, row_values = np.unique(hashes, axis=0 if hashes.ndim == 2 else None, return_inverse=True)
        place = {_key(value): at for at, value in enumerate(values)}
        roots = [*range(len(values))]
        for pairs in self._store.pairs(max_distance=max_distance):
            for one, other in zip(pairs.first, pairs.second, strict=True):
                _unite(roots, place[_key(one)], place[_key(other)])
        names = (name for row in rows for name in self._names.keys(_ids(row)))
        members: dict[int, dict[Hashable, None]] = {}  # a name is once in a group, however many hashes it has
        for name, at in zip(names, row_values.reshape(-1).tolist(), strict=True):
            members.setdefault(_root(roots, at), {})[name] = None
        return sorted(([*own] for own in members.values() if len(own) > 1), key=len, reverse=True)

    def __contains__(self, name: Hashable) -> bool:
        return len(self._store.lookup(self._names.ids([name]))) > 0

    def __len__(self) -> int:
        return self._store.count("rows")

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Hashable]:
        """The names, once for each hash that they have, in the order of the hashes."""
        for row in self._store.rows():
            yield from self._names.keys(_ids(row))

    def _found(self, matches: fpstore.Matches) -> list[Found]:
        assert matches.id is not None
        names = self._names.keys(matches.id) if len(matches) else []
        return [Found(distance, name) for distance, name in zip(matches.distance.tolist(), names, strict=True)]

    # --- Changing ---

    def add(self, hash: Any, name: Hashable) -> None:
        """Store an image; durable when it returns, unless durability is "batch". A name may have several hashes."""
        self.add_all([(hash, name)])

    def add_all(self, images: Iterable[tuple[Any, Hashable]]) -> None:
        """Store images, (hash, name) each: all of them, or none. One write for all, so this is far faster than add."""
        hashes, ids = _columns(images, self.bits, self._id_type)
        if len(hashes):
            self._store.add(hashes, ids=ids)

    def remove(self, name: Hashable) -> None:
        """Remove an image with all its hashes. ValueError where it is not there."""
        if name not in self:
            raise ValueError(f"name: found {shown(name)}, which is not there, expected one that is")
        self._store.remove(ids=self._names.ids([name]))


def _width(bits: int) -> int:
    """The bits of the store for hashes of so many bits. TypeError, ValueError where there is none."""
    count = as_count(bits, "bits")
    if count > WIDTHS[-1]:
        raise ValueError(f"bits: found {count}, expected 1 to {WIDTHS[-1]}")
    return next(width for width in WIDTHS if count <= width)


def _zeros_behind(bits: int) -> int:
    width = _width(bits)
    return width - bits if width > 64 else 0


def _columns(images: Iterable[tuple[Any, Hashable]], bits: int, id_type: IdType) -> tuple[list[int], object]:
    """Hashes as numbers, and names as a store takes them."""
    hashes: list[int] = []
    names: list[Hashable] = []
    for hash, name in images:
        hashes.append(_number(hash, bits))
        names.append(name)
    return hashes, keys_for(id_type).ids(names)


def _number(hash: Any, bits: int) -> int:
    """A hash as it is stored, its first bit the highest. TypeError for what is none, ValueError for another size."""
    if isinstance(hash, str):
        digits = -(-bits // 4)
        if len(hash) != digits or not set(hash) <= set("0123456789abcdefABCDEF") or int(hash, 16) >> bits:
            raise ValueError(f"hash: found {shown(hash)}, expected {digits} hexadecimal digits, {bits} bits")
        return int(hash, 16) << _zeros_behind(bits)
    if hasattr(hash, "segment_hashes"):
        raise TypeError("hash: found that of many parts, expected one ImageHash, as each of its segment_hashes is")
    if not hasattr(hash, "hash"):
        raise TypeError(f"hash: found a {type(hash).__name__}, expected an ImageHash, or its hexadecimal digits")
    values = np.asarray(hash.hash)
    if values.dtype != np.bool_:
        raise TypeError(f"hash: found bits of the type {values.dtype}, expected bool")
    if values.size != bits:
        raise ValueError(f"hash: found {values.size} bits, expected {bits}, as the index has")
    packed: bytes = np.packbits(values).tobytes()
    return int.from_bytes(packed, "big") >> (-bits % 8) << _zeros_behind(bits)


def _ids(rows: fpstore.Rows) -> Array:
    assert rows.id is not None
    return rows.id


def _whole(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _key(value: Any) -> Hashable:
    """A fingerprint of one word, or of several, as a key."""
    return tuple(value.tolist()) if value.ndim else int(value)


def _root(roots: list[int], at: int) -> int:
    while roots[at] != at:
        roots[at] = roots[roots[at]]
        at = roots[at]
    return at


def _unite(roots: list[int], one: int, other: int) -> None:
    first, second = sorted((_root(roots, one), _root(roots, other)))
    roots[second] = first
