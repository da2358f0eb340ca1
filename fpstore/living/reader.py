"""One who reads a store while others may write to it: follows what the catalog says, and changes nothing."""

import threading
from pathlib import Path

from fpstore.errors import StoreClosed
from fpstore.living.catalog import Catalog
from fpstore.living.opening import open_snapshot
from fpstore.living.snapshot import Snapshot


class Reader:
    """Reads the store in folder. Safe to use from several threads.

    snapshot: what the store was when it was last looked at.
    """

    def __init__(self, folder: Path) -> None:
        """Open it. Raises FileNotFoundError, CorruptStore, UnsupportedVersion."""
        self.folder = folder
        self._lock = threading.Lock()
        self._closed = False
        self._catalog = Catalog.open(folder)
        self._stamp: tuple[int, int] | None = None  # of the snapshot, once that is sure
        try:
            self.snapshot = open_snapshot(folder, self._catalog)
        except BaseException:
            self._catalog.close()
            raise

    def newest(self) -> Snapshot:
        """What the store is now."""
        stamp = self._catalog.stamp()
        if stamp is None or stamp != self._stamp:
            with self._lock:
                if self._closed:
                    raise StoreClosed(f"{self.folder}: the store is closed")
                self.snapshot = open_snapshot(self.folder, self._catalog, self.snapshot)
                # The file may show a commit that is not through yet: then LMDB still reads the state before it.
                arrived = stamp is not None and self.snapshot.state.transaction >= max(stamp)
                self._stamp = stamp if arrived else None
        return self.snapshot

    def close(self) -> None:
        """Give the catalog back; the segments of the snapshot are the caller's to close."""
        with self._lock:
            self._closed = True
        self._catalog.close()
