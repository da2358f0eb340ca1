from collections.abc import Callable, Sequence
from typing import Any

from fpstore._answers import Answers
from fpstore._pending import PendingIndex
from fpstore._probe import IdColumn
from fpstore._reaches import Reaches
from fpstore._view import SegmentView
from fpstore._watch import Watch
from fpstore.types import Array, Ids, Keys

class Segments:
    made_of: tuple[tuple[SegmentView, IdColumn | None, int, int], ...]
    reaches: dict[tuple[int, ...], Reaches]
    together: dict[int, int]
    def __init__(
        self,
        parts: Sequence[tuple[SegmentView, IdColumn | None, int, int]],
        flips: Sequence[Sequence[int] | None] | None = None,
    ) -> None: ...
    def looked_up(self, flips: tuple[Sequence[int] | None, ...]) -> Segments: ...

class Single:
    segments: Segments
    reaches: dict[tuple[int, ...], Reaches]
    def __init__(
        self,
        segments: Segments,
        pending: PendingIndex,
        pending_end: int,
        distance: int,
        most: int,
        alive: Callable[[Keys, Ids | None, Keys], Array | None] | None,
        answers: Answers,
        looks_up: int = 64,
        scans: int = 65,
    ) -> None: ...
    def probe(self, watch: Watch | None, fingerprint: object, max_distance: object, signed: bool) -> Any: ...
    def grown(self, pending: PendingIndex, pending_end: int) -> Single: ...
    def nearest(self, fingerprint: int, distance: int) -> Any: ...
    def first(
        self,
        watch: Watch | None,
        fingerprint: object,
        count: object,
        max_distance: object,
        signed: bool,
        reaches: Reaches | None = None,
        scanned: int | None = None,
    ) -> Any: ...
    def contains(self, watch: Watch | None, fingerprint: object, max_distance: object) -> bool | None: ...
    def each(self, queries: Keys, distance: int, first_only: bool) -> int | None: ...
