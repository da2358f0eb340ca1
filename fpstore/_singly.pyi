from collections.abc import Callable
from threading import RLock
from typing import Any

from fpstore._single import Single
from fpstore._watch import Watch
from fpstore.types import Ids, Keys

class Singly:
    snapshot: Any
    def __init__(self, lock: RLock, watch: Watch, snapshot: Any, room: int) -> None: ...
    def begin(
        self,
        single: Single,
        position: int,
        live_since: int,
        most: int,
        stored: Any,
        made: Callable[[Any], Any],
    ) -> None: ...
    def take(self) -> tuple[Keys, Ids | None] | None: ...
    def add(self, fingerprints: object, ids: object) -> bool: ...
    def add_if_new(self, fingerprints: object, ids: object, max_distance: object) -> Any: ...
