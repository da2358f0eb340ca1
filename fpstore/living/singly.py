"""What a store is for its writer, rows that are added one at a time included, which the writer is told of later.

Decides when they may be, and how many: while nothing else is to be done for them than to test them and to hold them.
"""

import threading
from typing import Any, cast

from fpstore._singly import Singly
from fpstore._watch import Watch
from fpstore.living.changes import ADDED, RECORD_WORDS, Change, Waiting
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.query.additions import Additions, all_stored, of_one
from fpstore.query.matches import Matches
from fpstore.threads import Background


class Current:
    """The newest snapshot; what changes it, and all below, is for who holds the lock."""

    def __init__(self, lock: threading.RLock, watch: Watch, snapshot: Snapshot, defers: bool) -> None:
        """defers: what is added may wait."""
        self._defers = defers
        self.singly = Singly(lock, watch, snapshot, RECORD_WORDS // (1 + snapshot.settings.ids))

    @property
    def snapshot(self) -> Snapshot:
        """What the store is now."""
        return cast(Snapshot, self.singly.snapshot)

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot) -> None:
        self.singly.snapshot = snapshot

    def _take_single_rows(self, waiting: Waiting) -> None:
        """Have what was added singly wait, as one change; from then on nothing is."""
        if (rows := self.singly.take()) is not None:
            number = self.snapshot.state.next_change - 1
            columns = tuple(column for column in rows if column is not None)
            waiting.add([Change(number, ADDED, columns)], len(rows[0]))

    def _let_add(self, waiting: Waiting, sizes: LivingSizes, *jobs: Background[Any] | None) -> None:
        """Let rows be added singly, where they may wait, as many as need nothing else; none beside a flush or a merge.

        waiting: what waits already.
        """
        if not self._defers:
            return
        snapshot, settings = self.snapshot, self.snapshot.settings
        if settings.named or settings.is_wide or not all(job is None or job.went_well for job in jobs):
            return
        state, made_by = snapshot.state, settings.made_by
        logged = max(snapshot.pending_count, state.next_change - state.first_change)
        most = min(sizes.flush_rows - logged, sizes.deferred_rows - waiting.row_count) - 1
        single = snapshot.single.grown(snapshot.pending, snapshot.pending_end)
        stored = all_stored(settings.ids)._of_store(made_by)

        def made(matches: Matches) -> Additions:
            return of_one(matches)._of_store(made_by)

        since = state.next_change, snapshot.removals.last_position
        self.singly.begin(single, *since, most, stored, made)
