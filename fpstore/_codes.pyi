from collections.abc import Sequence
from typing import Any

from fpstore._view import SegmentView
from fpstore.types import Array, Counts, Ids, Keys

LIMITS: dict[str, int]

def code_keys(codes: Keys, mask: Keys) -> Keys: ...
def pattern_count(slot_bits: int, flips: int, most: int) -> int: ...
def near(codes: Keys, queries: Keys, distance: int, *, most: int = 0) -> tuple[Counts, Keys, Array]: ...
def near_first(
    codes: Keys, ids: Ids | None, queries: Keys, distance: int, keep: int, after: tuple[Array, Keys] | None = None
) -> tuple[Counts, Keys, Array]: ...

class CodeIndex:
    def __init__(self, view: SegmentView, record: Any, tables: Sequence[Any]) -> None: ...
    def search(
        self,
        queries: Keys,
        distance: int,
        *,
        first_only: bool = False,
        most: int = 0,
        scan: bool = False,
        keep: int = 0,
        after: tuple[Array, Keys] | None = None,
    ) -> tuple[Counts, Keys, Array, bool]: ...
    @property
    def is_guided(self) -> bool: ...
    def gather(self, ranks: Keys) -> Keys: ...
    def read(self, first: int, end: int) -> Keys: ...
