from typing import Any

class Columns:
    _columns: tuple[Any, ...]
    _recipe: Any
    _method: str
    def __len__(self) -> int: ...

class Answers:
    def __init__(self, kind: type, recipe: Any, with_ids: bool, named: bool, words: int = 0) -> None: ...
