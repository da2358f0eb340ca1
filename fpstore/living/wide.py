"""One state of a store of wide codes: a segment that was built, and nothing beside it yet."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fpstore._pending import PendingIndex
from fpstore.codes.reader import CodesSegment
from fpstore.errors import CorruptStore
from fpstore.living.changes import Change
from fpstore.living.live import Live
from fpstore.living.records import Log
from fpstore.living.removals import Removals
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import State
from fpstore.plans.plan import Plan
from fpstore.types import Ids, Keys


@dataclass(frozen=True, eq=False)
class WideSnapshot(Snapshot):
    """A state of a store of wide codes. Its index of pending rows is empty, and stays so."""

    @property
    def codes(self) -> CodesSegment:
        """Its one segment."""
        segment = self.parts[0].segment
        assert isinstance(segment, CodesSegment)
        return segment

    def lookup(self, ids: Ids, most: int, go_on: Callable[[], None]) -> tuple[Keys, Ids]:
        """All rows of these ids (uint64[n], strictly increasing), by id, then code."""
        go_on()
        return self.codes.lookup(ids, most)

    def rows(self) -> Iterator[tuple[Keys, Ids | None]]:
        """Every code once for each id, in order: uint64[m, words], and uint64[m] or None."""
        return self.codes.rows()

    def extended(self, records: Sequence[Change], state: State) -> "Snapshot":
        """This one in that state. CorruptStore where there are changes."""
        if records:
            raise CorruptStore("catalog, log", f"{len(records)} changes", "none to wide codes", path=self.folder)
        return dataclasses.replace(self, state=state)


def wide_snapshot(folder: Path, log: Log, plan: Plan, parts: tuple[Live, ...], removals: Removals) -> WideSnapshot:
    """The snapshot of what a catalog says of a store of wide codes. CorruptStore unless it is one segment."""
    if len(parts) != 1 or log.changes or removals:
        found = f"{len(parts)} segments, {len(log.changes)} changes and {len(removals)} removals"
        raise CorruptStore("catalog", found, "one segment of wide codes, which nothing changes", path=folder)
    pending = PendingIndex([1], [0], with_ids=log.state.settings.ids, capacity=0)
    return WideSnapshot(folder, log.state, plan, parts, pending, 0, removals)
