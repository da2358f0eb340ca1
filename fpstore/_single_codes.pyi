from collections.abc import Sequence
from typing import Any

from fpstore._answers import Answers
from fpstore._codes import CodeIndex
from fpstore._probe import IdColumn
from fpstore._reaches import Reaches
from fpstore._watch import Watch

class SingleCodes:
    def __init__(
        self,
        parts: Sequence[tuple[CodeIndex, IdColumn | None]],
        bits: int,
        distance: int,
        most: int,
        answers: Answers,
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
