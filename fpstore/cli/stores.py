"""Opens a store whatever its kind is, for the commands that ask nothing of what it keeps: its catalog says the kind."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpstore import Store
    from fpstore.types import Mode


def opened_store(path: str, mode: "Mode" = "r") -> Any:
    """The store at path, a Store or a MinHashStore. Raises what fpstore.open does, but for WrongKind."""
    from fpstore.minhash.making import open_any

    return open_any(path, mode)


def size_of(store: Any) -> int:
    """Bytes of the segments of a store, and of the names and the sketches that lie beside them."""
    stats = store.stats()
    return int(stats.segments_bytes + stats.names_bytes + stats.sketches_bytes)


def opened_of_fingerprints(path: str, command: str, instead: str) -> "Store":
    """The store of fingerprints at path. WrongKind for one of signatures, for which the command has no meaning.

    instead: what does something of that kind.
    """
    import fpstore

    try:
        return fpstore.open(path)
    except fpstore.WrongKind:
        told = f"found signatures, expected fingerprints: {command} goes by their distance; {instead}"
        raise fpstore.WrongKind(told, path=path) from None
