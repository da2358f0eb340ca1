from collections.abc import Sequence
from typing import Any

MOST_RADII: int

class Reaches:
    radii: tuple[int, ...]
    lookups: list[Any] | None
    whole: bool
    read: bool
    scanned: int
    def __init__(
        self,
        radii: Sequence[int],
        shares: Sequence[float],
        whole: bool,
        lookups: list[Any] | None = None,
        scanned: int = 0,
    ) -> None: ...
    def following(self, at: int) -> int: ...
    def tell(self, distance: int, times: int = 1) -> None: ...
