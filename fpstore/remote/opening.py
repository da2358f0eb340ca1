"""Which paths lead to a store elsewhere, and how that is opened: a store of this machine's, over a mirror."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from fpstore.base import _BaseStore
from fpstore.errors import PathLike, ReadOnly
from fpstore.inputs.remote import is_remote
from fpstore.remote.cache import url_of_mirror
from fpstore.remote.mirror import Mirror
from fpstore.remote.objects import expect_elsewhere

_Store = TypeVar("_Store", bound=_BaseStore)


class Elsewhere(NamedTuple):
    """Where a store lies that is no folder of this machine. cache, most_bytes: as for fpstore.open."""

    url: str
    cache: PathLike | None = None
    most_bytes: str | int | None = None


def located(path: PathLike, cache: PathLike | None = None, most_bytes: str | int | None = None) -> Elsewhere | None:
    """Where the store of that path lies, None for one of this machine.

    The path of a mirror is that of the store, in the cache that it is in. ValueError for `file://`, which is a path.
    """
    if isinstance(path, str) and is_remote(path):
        expect_elsewhere(path)
        return Elsewhere(path, cache, most_bytes)
    here = Path(path)
    url = url_of_mirror(here)
    return None if url is None else Elsewhere(url, cache or here.absolute().parent.parent, most_bytes)


def opened_elsewhere(make: Callable[[Path], _Store], place: Elsewhere, mode: str = "r") -> _Store:
    """The store that lies there, which `make` makes of the path of its mirror."""
    url = place.url
    if mode != "r":
        told = (
            'found mode "w" for a store elsewhere, expected "r": fpstore copy it here, write to that, and copy it back'
        )
        raise ReadOnly(f"{told} to a URL of its own", path=url)
    mirror = Mirror(*place)
    try:
        store = make(mirror.path)
    except BaseException:
        mirror.close()
        raise
    store._mirror = mirror
    try:
        mirror.attach(store._latest.parts)
    except BaseException:
        store.close()
        raise
    return store


def reopened(kind: type[_Store], url: str, signed: bool, cache: str, cache_bytes: int) -> _Store:
    """A store that was pickled, where the pickle is read."""
    return opened_elsewhere(lambda path: kind(path, signed=signed), Elsewhere(url, cache, cache_bytes))
