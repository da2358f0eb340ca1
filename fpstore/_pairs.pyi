from fpstore._view import SegmentView
from fpstore.types import Array, Keys

class Windows:
    keys: Keys
    def __init__(self, keys: Keys, window_bits: int, first_window: int, count: int) -> None: ...

class Join:
    done: bool
    def __init__(
        self, view: SegmentView, table: int, left: Keys | Windows, right: Windows, distance: int, flips: int
    ) -> None: ...
    def count(self) -> int: ...
    def next(self, room: int = ...) -> Array: ...
