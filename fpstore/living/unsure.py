"""Whether a writer knows what its catalog says: not from before it is written until the writer has followed."""


class Unsure:
    """Around what changes the catalog, as a context, inside another too; what fails there leaves the mark."""

    __slots__ = ("_depth", "marked")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """It is known what the catalog says."""
        self.marked = False
        self._depth = 0

    def __enter__(self) -> None:
        self.marked = True
        self._depth += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._depth -= 1
        if kind is None and not self._depth:
            self.marked = False
