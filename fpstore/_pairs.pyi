from collections.abc import Sequence

from fpstore._view import SegmentView
from fpstore.types import Array, Keys

class Windows:
    def __init__(
        self, window_bits: int, split_bits: int, capacity: int, *, both: bool = ..., bits: int = 64
    ) -> None: ...
    def begin(self, chunk: int, *, second: bool = ...) -> None: ...
    def append(self, keys: Keys) -> None: ...
    def whole(self, first: int, *, ended: bool = ...) -> Keys: ...

class Join:
    done: bool
    def count(self) -> int: ...
    def next(self, room: int = ...) -> tuple[Keys, Keys, Array]: ...

class Neighbours(Join):
    def __init__(self, view: SegmentView, table: int, keys: Keys, distance: int, window_bits: int) -> None: ...

class Queries(Join):
    def __init__(
        self, view: SegmentView, table: int, queries: Keys, windows: Windows, distance: int, flips: int
    ) -> None: ...

class Flips(Join):
    def __init__(
        self, view: SegmentView, table: int, windows: Windows, distance: int, flips: Sequence[int]
    ) -> None: ...
