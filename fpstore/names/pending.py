"""Names that are in the log, in memory: in generations, of which the last alone grows and the others are being written.

So whoever writes a file of names reads them where they lie, without a copy, whatever is added meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from fpstore import _names
from fpstore._names_pending import PendingNames
from fpstore.names.column import Names
from fpstore.names.writer import Coded
from fpstore.types import Array, Ids, Keys

# Names are sorted and coded so many at a time, about, by as many threads as there are; more at once beyond MAX_PARTS.
PART_NAMES = 1 << 17
MAX_PARTS = 64
# Where a part ends is told by so many names of each.
SAMPLED = 64


class Generation(NamedTuple):
    """Names of the changes before `end`; None: of all that come."""

    names: PendingNames
    end: int | None


class LogNames(NamedTuple):
    """The names of the rows that are pending; generations: the oldest first, each with all names of its own rows."""

    generations: tuple[Generation, ...]

    @classmethod
    def none(cls) -> Self:
        """Without a name."""
        return cls((Generation(PendingNames(), None),))

    @property
    def data_bytes(self) -> int:
        """How many bytes the names have together."""
        return sum(generation.names.data_bytes for generation in self.generations)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The least handle and the largest of each generation with names."""
        held = [generation.names for generation in self.generations if generation.names.count]
        return [(names.first_handle, names.last_handle) for names in held]

    def add(self, names: Names, handles: Ids, hashes: Keys) -> None:
        """Take names with their handles, some of which may be there. ValueError where one has, or is, another's."""
        self.generations[-1].names.add(*names, handles, hashes)

    def add_new(self, names: Names, first_handle: int, hashes: Keys) -> None:
        """As add, of names that are known to be new, each once, with handles from first_handle on, above all others."""
        self.generations[-1].names.add_new(*names, first_handle, hashes)

    def find(self, names: Names, hashes: Keys) -> tuple[Ids, Array]:
        """The handle of each name, uint64[n], and whether it is there, bool[n]; hashes: theirs, keyed."""
        handles, known = np.zeros(names.size, dtype=np.uint64), np.zeros(names.size, dtype=np.uint8)
        for generation in self.generations:
            generation.names.find(*names, hashes, handles, known)
        return handles, known.view(bool)

    def divided(self, end: int) -> "LogNames":
        """The same, where what comes from change `end` on is a generation of its own."""
        last = Generation(self.generations[-1].names, end)
        return LogNames((*self.generations[:-1], last, Generation(PendingNames(), None)))

    def since(self, first_change: int) -> "LogNames | None":
        """Those of the changes from this one on; None where no generation begins there."""
        for index, generation in enumerate(self.generations):
            if generation.end == first_change:
                return LogNames(self.generations[index + 1 :])
        return None

    def all_of(self, handles: Ids) -> PendingNames | None:
        """What has the names of handles, distinct ones of pending rows, and no other; None where nothing has."""
        held = [generation.names for generation in self.generations if generation.names.count]
        return held[0] if len(held) == 1 and held[0].count == len(handles) else None


def parts_of(pending: PendingNames) -> list[Callable[[], Coded]]:
    """What codes all names, to which none is added any more, in parts, in their order, each part on its own."""
    data, ends, handles = pending.still()
    names = Names(data, ends)
    count = min(MAX_PARTS, -(-names.size // PART_NAMES))
    if count < 2:
        orders = [np.arange(names.size, dtype=np.uint32)]
    else:
        step = max(1, names.size // (SAMPLED * count))
        sample = names.take(np.arange(0, names.size, step))
        bounds = np.linspace(0, sample.size, count, endpoint=False).astype(np.int64)[1:]
        orders = _names.split(*names, *sample.take(_names.sort_order(*sample)[bounds]))
    return [partial(_coded, names, handles, order) for order in orders if len(order)]


def _coded(names: Names, handles: Keys, order: Array) -> Coded:
    return Coded(*_names.NameEncoder().sorted_blocks(*names, handles, order))
