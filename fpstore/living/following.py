"""How a reader follows a store to which only rows were added: without LMDB, and without a call of the system.

What it cannot be sure of it leaves to the general way, which finds out what the catalog says and how it is damaged.
"""

import threading

from fpstore._following import Following
from fpstore._tail import Places
from fpstore.living.catalog import Catalog
from fpstore.living.records import CHANGES, MAIN_RECORDS
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import KEY, PLACE_CHECKSUM

PLACES = Places(KEY, PLACE_CHECKSUM, MAIN_RECORDS, CHANGES)


def following(lock: threading.RLock, catalog: Catalog, snapshot: Snapshot) -> Following:
    """What a reader knows of a catalog, which shows that it was this snapshot. lock: the reader's."""
    return Following(lock, catalog.watch, PLACES, snapshot)


def begin(known: Following, catalog: Catalog) -> None:
    """Follow what is added from the snapshot on, where that is rows whose ids are numbers, or none. Needs the lock."""
    snapshot: Snapshot = known.snapshot
    if not (snapshot.settings.flushes_late or snapshot.settings.is_wide):
        known.begin(catalog.tail, snapshot.state.bytes_around, snapshot.removals.last_position)
