from collections.abc import Callable, Sequence
from typing import Any

from fpstore._codes import CodeIndex
from fpstore._probe import IdColumn
from fpstore._reaches import Reaches
from fpstore._watch import Watch

class SingleCodes:
    def __init__(
        self,
        parts: Sequence[tuple[CodeIndex, IdColumn | None]],
        bits: int,
        with_ids: bool,
        named: bool,
        distance: int,
        most: int,
        made: Callable[..., Any],
    ) -> None: ...
    reaches: dict[tuple[int, ...], Reaches]
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
    def probe(self, watch: Watch | None, fingerprint: object, max_distance: object, signed: bool) -> Any: ...
    def contains(self, watch: Watch | None, fingerprint: object, max_distance: object) -> bool | None: ...
