from fpstore._view import SegmentView
from fpstore.types import Array, Keys

class Join:
    done: bool
    position: int
    def __init__(
        self, view: SegmentView, table: int, left: Keys, right: Keys, distance: int, window_bits: int, flips: int
    ) -> None: ...
    def count(self) -> int: ...
    def next(self, room: int = ...) -> Array: ...
