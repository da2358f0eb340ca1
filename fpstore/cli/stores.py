"""Opens a store whatever its kind is, for the commands that ask nothing of what it keeps: its catalog says the kind."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpstore.types import Mode


def opened_store(path: str, mode: "Mode" = "r") -> Any:
    """The store at path, a Store or a MinHashStore. Raises what fpstore.open does, but for WrongKind."""
    import fpstore

    try:
        return fpstore.open(path, mode)
    except fpstore.WrongKind:
        from fpstore import minhash

        return minhash.open(path, mode)
