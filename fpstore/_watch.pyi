from fpstore._view import MappedWords

class Watch:
    def __init__(self, *, sure: bool) -> None: ...
    def confirm(
        self,
        words: MappedWords,
        stamp: tuple[int, int] | None,
        seconds: float,
        places: tuple[tuple[int | None, bytes, tuple[int, int]], ...] = (),
        again: float = 0.0,
    ) -> None: ...
    def end(self) -> None: ...
    def holds(self) -> bool: ...
