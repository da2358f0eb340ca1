from collections.abc import Iterator, Sequence

from fpstore.types import Array, Counts, Ids, Keys

class PendingIndex:
    capacity: int
    count: int
    indexed: int
    searched: int
    with_ids: bool
    bits: int
    def __init__(
        self,
        masks: Sequence[int],
        flips: Sequence[int],
        *,
        with_ids: bool,
        capacity: int,
        bits: int = 64,
        max_distance: int = 64,
    ) -> None: ...
    @property
    def ready_bytes(self) -> int: ...
    def append(self, keys: Keys, ids: Ids | None, position: int, live_since: int = 0) -> None: ...
    def grown(self, capacity: int, first: int = 0, *, indexed: bool = True) -> PendingIndex: ...
    def follow(self, source: PendingIndex, first: int) -> None: ...
    def rows_before(self, position: int) -> int: ...
    def search(
        self, queries: Keys, distance: int, end: int, most: int = 0
    ) -> tuple[Counts, Keys, Array, Ids | None, Keys]: ...
    def nearest(
        self,
        queries: Keys,
        distance: int,
        end: int,
        keep: int = 1,
        after_bits: Array | None = None,
        after_fingerprints: Keys | None = None,
    ) -> tuple[Counts, Keys, Array, Array]: ...
    def least_ids(self, entries: Array, end: int) -> Ids: ...
    def walk(self, entries: Array, end: int, room: int) -> Iterator[tuple[Counts, Ids | None, Keys]]: ...
    def rows(self, first: int, end: int) -> tuple[Keys, Ids | None, Keys]: ...
