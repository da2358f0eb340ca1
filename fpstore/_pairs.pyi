from fpstore._view import SegmentView
from fpstore.types import Array, Keys

class Windows:
    keys: Keys
    def __init__(self, keys: Keys, window_bits: int, first_window: int, count: int) -> None: ...

class Join:
    done: bool
    position: int
    def __init__(
        self, view: SegmentView, table: int, left: Keys, right: Windows, distance: int, flips: int, *, symmetric: bool
    ) -> None: ...
    def count(self) -> int: ...
    def next(self, room: int = ...) -> Array: ...
