"""Opens a store whatever its kind is, for the commands that ask nothing of what it keeps: its catalog says the kind."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpstore.types import Mode


def opened_store(path: str, mode: "Mode" = "r") -> Any:
    """The store at path, a Store or a MinHashStore. Raises what fpstore.open does, but for WrongKind."""
    from fpstore.minhash.making import open_any

    return open_any(path, mode)
