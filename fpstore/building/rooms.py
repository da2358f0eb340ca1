"""Rooms for keys: lent from one sorter to the next, and given their memory by the system before they are written to."""

from collections import deque
from collections.abc import Sequence

from fpstore._sort import GrowingKeys
from fpstore.threads import Line, Piece

# Memory is asked for by so many keys, a large page of them, and so far ahead of who writes to it. A virtual machine
# may have to get each page from its host first, which takes 0.5 to 5 ms.
STRIPE_KEYS = 1 << 18
AHEAD_KEYS = 1 << 22


class Rooms:
    """Rooms for keys that sorters have one after the other: the system clears memory as often as it gives it."""

    def __init__(self) -> None:
        self._spare: list[GrowingKeys] = []

    def take(self, count: int) -> GrowingKeys:
        """One for so many keys."""
        room = self._spare.pop() if self._spare else GrowingKeys(0)
        room.resize(count)
        return room

    def give(self, room: GrowingKeys) -> None:
        """Keep one for whoever takes the next, if nobody looks at it any more."""
        if not room.is_viewed:
            self._spare.append(room)


class Readiness:
    """Another thread has the system give the memory of rooms, ahead of who fills them, side by side, from their front.

    Who fills them faster than that helps. While a stretch is asked for the rooms have to stay as they are: see wait.
    """

    def __init__(self) -> None:
        self._line = Line()
        self._piece: Piece | None = None
        self._stripes: deque[tuple[GrowingKeys, int]] = deque()
        self._asked = 0

    def come_to(self, rooms: Sequence[GrowingKeys], end: int) -> None:
        """The keys before end, an index, are about to be written."""
        until = min(end + AHEAD_KEYS, len(rooms[0]))
        if until < AHEAD_KEYS:
            return
        while self._asked + STRIPE_KEYS <= until:
            self._stripes.extend((room, self._asked) for room in rooms)
            self._asked += STRIPE_KEYS
        while self._ask(end):
            pass
        if self._stripes and (self._piece is None or self._piece.done):
            self._piece = self._line.give(self._ask_all)

    def wait(self) -> None:
        """Until nobody is at the rooms any more; what is left to ask for is forgotten."""
        self._stripes.clear()
        if self._piece is not None:
            self._piece.wait()

    def _ask_all(self) -> None:
        while self._ask(self._asked):
            pass

    def _ask(self, end: int) -> bool:
        """For the next stripe, if it begins before end; whether there was one. Two threads may be at it."""
        try:
            room, first = self._stripes.popleft()
        except IndexError:
            return False
        if first >= end:
            self._stripes.appendleft((room, first))
            return False
        room.populate(first, first + STRIPE_KEYS)
        return True
