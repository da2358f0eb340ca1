from fpstore._view import SegmentView
from fpstore.types import Array, Counts, Keys

class Scanner:
    def search(
        self,
        view: SegmentView,
        queries: Keys,
        distance: int,
        first: int,
        end: int,
        *,
        keep: int = 0,
        most: int = 0,
        limits: Array | None = None,
        after_bits: Array | None = None,
        after_fingerprints: Keys | None = None,
        first_only: bool = False,
    ) -> tuple[Counts, Keys, Array, int]: ...
