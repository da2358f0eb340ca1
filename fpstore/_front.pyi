from typing import Any, Self

from fpstore._following import Following
from fpstore._singly import Singly
from fpstore._watch import Watch
from fpstore.query.matches import Matches

class Front:
    def __init__(self, store: object) -> None: ...
    def of(self, newest: Following | Singly, watch: Watch, signed: bool) -> Self: ...

class Fronted:
    _front: Front

def nearest(self: Any, fingerprint: int | bytes, count: int = 1, *, max_distance: int | None = None) -> Matches: ...
