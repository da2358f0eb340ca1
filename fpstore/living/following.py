"""How a reader follows a store to which only rows were added: without LMDB, and without a call of the system.

What it cannot be sure of it leaves to the general way, which finds out what the catalog says and how it is damaged.
"""

from fpstore._tail import Places
from fpstore.living.catalog import Catalog
from fpstore.living.records import CHANGES, MAIN_RECORDS
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import KEY, PLACE_CHECKSUM

PLACES = Places(KEY, PLACE_CHECKSUM, MAIN_RECORDS, CHANGES)


def follow(catalog: Catalog, before: Snapshot, transaction: int) -> Snapshot | None:
    """The snapshot of that transaction, the newest one, where all that came after `before` is rows; None for any other.

    The caller holds the lock under which `before` is followed.
    """
    state = before.state
    if state.settings.flushes_late or state.settings.is_wide or transaction <= state.transaction:
        return None
    found = catalog.tail.follow(
        PLACES,
        transaction,
        state.bytes_around,
        state.first_change,
        state.next_change,
        before.pending,
        before.removals.last_position,
    )
    return None if found is None else before.with_rows(before.pending, state.moved(*found, transaction))
