"""Opens a store whatever its kind is, for the commands that ask nothing of what it keeps: its catalog says the kind."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fpstore.cli.failures import say
from fpstore.cli.values import decimal_size

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.types import Mode


def opened_store(path: str, mode: "Mode" = "r") -> Any:
    """The store at path, a Store or a MinHashStore. Raises what fpstore.open does, but for WrongKind."""
    from fpstore.minhash.making import open_any

    return _told(path, open_any(path, mode))


def _told(path: str, store: Any) -> Any:
    """The store, of which is said what went of earlier states of it."""
    mirror = store._mirror
    if mirror is not None and mirror.outdated:
        what = "mirror of an earlier state" if mirror.outdated == 1 else "mirrors of earlier states"
        say(f"{path}: removed {mirror.outdated} {what}, {decimal_size(mirror.outdated_bytes)}")
    return store


def opened_to_ask(path: str) -> Any:
    """The store at path, as opened_store; or, of a list of stores, all of them as one, a fpstore.cluster.Shards."""
    if not is_listing(path):
        return opened_store(path)
    from fpstore.cluster import Shards

    many = Shards(path)
    for shard, store in zip(many.shards, many.stores, strict=True):
        _told(shard.store, store)
    return many


def is_listing(path: str) -> bool:
    """Whether it is the path of a list of stores, by its name."""
    from fpstore.errors import LIST_ENDING

    return path.endswith(LIST_ENDING)


def stores_of(path: str) -> tuple[list[str], int | None]:
    """The path of a store; or those of a list, each of which is as it is listed, and how many fingerprints all have."""
    if not is_listing(path):
        return [path], None
    from fpstore.cluster import Shards

    home = Path(os.path.realpath(path)).parent
    with Shards(path) as listed:
        places = [os.fspath(shard.place(home)) for shard in listed.shards]
        return places, sum(shard.fingerprints for shard in listed.shards)


def size_of(store: Any) -> int:
    """Bytes of all files of a store, as stats says them."""
    return int(store.stats().total_bytes)


def opened_of_fingerprints(path: str, command: str, instead: str) -> "Store":
    """The store of fingerprints at path. WrongKind for one of signatures, for which the command has no meaning.

    instead: what does something of that kind.
    """
    import fpstore

    try:
        return cast("Store", _told(path, fpstore.open(path)))
    except fpstore.WrongKind:
        told = f"found signatures, expected fingerprints: {command} goes by their distance; {instead}"
        raise fpstore.WrongKind(told, path=path) from None
