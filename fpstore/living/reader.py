"""One who reads a store while others may write to it: follows what the catalog says, and changes nothing."""

import contextlib
import dataclasses
import threading
import time
from pathlib import Path

from fpstore import forks
from fpstore.disk import Folder
from fpstore.errors import CorruptStore, StoreClosed
from fpstore.living.catalog import Catalog
from fpstore.living.following import begin, following
from fpstore.living.opening import open_snapshot
from fpstore.living.snapshot import Snapshot
from fpstore.threads import expect_outside, is_inside
from fpstore.types import Kind

# How long a reader may answer from a store whose path leads to another one by now.
LOOK_SECONDS = 0.1


class Reader:
    """Reads the store in folder. Safe to use from several threads.

    watch: over whether its snapshot is the newest. known: what has it.
    """

    def __init__(self, folder: Path, kind: Kind | None = None) -> None:
        """Open it; kind: what it must be. Raises FileNotFoundError, NotAStore, CorruptStore, WrongKind."""
        self.folder = folder
        self._fork = forks.generation
        self._lock = threading.RLock()
        self._closed = False
        self._catalog = Catalog.open(folder)
        self.watch = self._catalog.watch
        self._moved = False  # the catalog is in another file since the snapshot
        self._is_torn = False  # what is pending may have rows of a change that no snapshot tells of
        self._look_at = 0.0  # when to see again whether the path leads to this store
        try:
            self.known = following(self._lock, self._catalog, open_snapshot(self._catalog, kind=kind))
        except BaseException:
            self._catalog.close()
            raise

    @property
    def home(self) -> Folder:
        """The store's folder, held open."""
        return self._catalog.folder

    @property
    def snapshot(self) -> Snapshot:
        """What the store was when it was last looked at."""
        found: Snapshot = self.known.snapshot
        return found

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot) -> None:
        self.known.snapshot = snapshot

    def newest(self) -> Snapshot:
        """What the store is now. StoreChanged, from then on, where its path leads to something else."""
        if not self.watch.holds() and not self.known.follow(self.watch):
            stamp = self._catalog.stamp()
            expect_outside(is_inside(self._lock))
            with self._lock:
                if self._closed:
                    raise StoreClosed("the store is closed", path=self.folder)
                # After a commit there is time for that until it is due anyway, unless the catalog may have moved.
                known = self.known.stamp
                looks = stamp == known or known is None or time.monotonic() >= self._look_at
                if looks or not self._stays(stamp):
                    self._look(stamp)
                self._catalog.confirm(self.known.stamp, self._look_at - time.monotonic(), LOOK_SECONDS)
        return self.snapshot

    def _stays(self, stamp: tuple[int, int] | None) -> bool:
        """Read what is new in the file that is open; False where another may have taken its place."""
        with contextlib.suppress(CorruptStore):  # segments that it names may be gone, and those of the other there
            self._read(stamp)
            return not self.snapshot.state.moving
        return False

    def _look(self, stamp: tuple[int, int] | None) -> None:
        """Go on where the path leads, and read what is new there. The caller holds the lock."""
        self._look_at = time.monotonic() + LOOK_SECONDS
        if self._catalog.follow():
            # Another file counts its transactions anew; its generation is a later one.
            state = dataclasses.replace(self.snapshot.state, transaction=0)
            self.snapshot = dataclasses.replace(self.snapshot, state=state)
            stamp, self.known.stamp, self._moved = self._catalog.stamp(), None, True
            self._catalog.confirm(None, 0.0)
        if stamp is None or stamp != self.known.stamp:
            self._read(stamp)

    def _read(self, stamp: tuple[int, int] | None) -> None:
        """The snapshot of what the catalog says, which showed this stamp before. The caller holds the lock."""
        known = self.known
        if stamp is not None and not self._moved:
            if known.single is None:
                begin(known, self._catalog)
            if known.read(stamp):
                return
        # What a call took in that was interrupted is in the same index, and would be taken in twice.
        anew = self._moved or self._is_torn or known.is_torn
        self._is_torn = True
        self.snapshot = snapshot = open_snapshot(self._catalog, self.snapshot, moved=anew)
        self._moved = self._is_torn = False
        # The file may show a commit that is not through yet: then LMDB still reads the state before it.
        arrived = stamp is not None and snapshot.state.transaction >= max(stamp)
        known.stamp = stamp if arrived and not snapshot.state.moving else None
        begin(known, self._catalog)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is where closing it would wait for ever."""
        return is_inside(self._lock) or self._catalog.is_inside

    def close(self) -> None:
        """Give the catalog back; the segments of the snapshot are the caller's to close."""
        if self._fork == forks.generation:  # else a thread that is not here may hold it for ever
            with self._lock:
                self._closed = True
        self._catalog.close()
