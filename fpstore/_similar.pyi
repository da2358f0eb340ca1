from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from fpstore._pending import PendingIndex
from fpstore._probe import IdColumn
from fpstore._view import SegmentView
from fpstore.types import Array, Counts, Ids, Keys

class _Record(Protocol):
    @property
    def count(self) -> int: ...
    @property
    def words(self) -> int: ...

class _Room(Protocol):
    @property
    def left(self) -> int: ...
    def take(self, rows: int) -> None: ...

def band_hashes(signatures: Array, bands: int, rows_per_band: int) -> Keys: ...
def band_keys(hashes: Keys, bases: Keys, sizes: Keys) -> Keys: ...

class SketchShape:
    def __init__(self, values: int, bits: int, estimates: Array) -> None: ...
    def sketches(self, signatures: Array) -> Keys: ...
    def similarity(self, one: Keys, other: Keys) -> Array: ...

class BandSegments:
    def __init__(
        self,
        segments: Iterable[tuple[SegmentView, IdColumn | None, int, AbstractContextManager[None]]],
        files: Iterable[tuple[SegmentView, _Record, int, AbstractContextManager[None], Callable[[Ids], Counts] | None]],
    ) -> None: ...

class Candidates:
    def __init__(
        self,
        segments: BandSegments,
        shape: SketchShape | None,
        pending: PendingIndex,
        pending_end: int,
        alive: Callable[[Keys, Ids | None, Keys], Array | None] | None,
        masked: Callable[[Ids, int], Array] | None,
        logged: Callable[[Ids], tuple[Counts, Keys]] | None,
    ) -> None: ...
    def find(
        self, keys: Keys, sketches: Keys | None, least: float | None, first_query: int, room: _Room | None
    ) -> tuple[Counts, Ids | None, Array, Array]: ...
    def similarities(self, sketches: Keys, ids: Ids) -> Array: ...
