from fpstore._pending import PendingIndex
from fpstore._watch import MappedWords

def moved(text: bytes, around: tuple[bytes, bytes, bytes], transaction: int) -> tuple[int, int | None] | None: ...

class Places:
    def __init__(self, state: bytes, state_checksum: int, records: int, changes: bytes) -> None: ...

class Tail:
    words: MappedWords
    next_page: int
    ready_pages: int
    wanted_pages: int
    def __init__(self, words: MappedWords, page_bytes: int) -> None: ...
    def follow(
        self,
        places: Places,
        transaction: int,
        around: tuple[bytes, bytes, bytes],
        first_change: int,
        next_change: int,
        pending: PendingIndex,
        live_since: int,
    ) -> tuple[int, int | None] | None: ...
