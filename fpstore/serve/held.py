"""Owns a store, or a list of them, that a service holds open: where it was away and is back, it is opened anew.

A store that found its path to lead elsewhere says so for ever. One part of a service would then be cut off, while
another, which nobody asked in that moment, goes on: so each asks here, and all of them have one rule.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import fpstore
from fpstore import NotAStore, Store, StoreChanged, StoreClosed, minhash
from fpstore.serve.kinds import AnyStore, is_list

if TYPE_CHECKING:
    from fpstore.cluster import Shards

_Result = TypeVar("_Result")


class Held:
    """A store, and what takes its place. Safe to use from several threads.

    store: as it was opened; its owner may close it.
    """

    def __init__(self, store: "AnyStore | Shards") -> None:
        self.path = store.path
        self._store: Any = store
        self._identity = store.identity
        self._lock = threading.Lock()
        self._is_left = False  # closed, so that its place is free for the next writer
        self._is_closed = False

    def ask(self, work: Callable[[Any], _Result]) -> _Result:
        """What work does with the store. StoreChanged, before anything was changed, while it is not in its place."""
        store = self._store
        try:
            return work(store)
        except (StoreChanged, StoreClosed):
            again = self._anew(store)
            if again is None:
                raise
        return work(again)

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._is_closed = True
            self._store.close()

    def _anew(self, failed: Any) -> Any:
        """The store that is asked in place of one that failed; None where it was closed for good."""
        with self._lock:
            if self._store is not failed:
                return self._store
            if self._is_closed or (failed._closed and not self._is_left):
                return None
            how = None if self._is_left else failed._difference()
            if how is None:
                self._store = self._opened(failed)
                self._is_left = False
                return self._store
        raise StoreChanged(f"{how}; put it back, or start the service again", path=self.path)

    def _opened(self, failed: "AnyStore | Shards") -> Any:
        if failed.mode == "w":  # there is one writer; all that this one acknowledged is in the files
            self._is_left = True
            with contextlib.suppress(StoreChanged):
                failed.close()
        store = self._open_as(failed)
        if store.identity != self._identity:
            store.close()
            what = "a list of other stores" if is_list(failed) else "another store"
            raise StoreChanged(f"found {what}, expected the one that was opened there", path=self.path)
        store.max_matches = failed.max_matches
        if isinstance(failed, Store):
            store.max_name_bytes = failed.max_name_bytes
        failed.close()
        return store

    def _open_as(self, failed: "AnyStore | Shards") -> Any:
        if is_list(failed):
            from fpstore.cluster import Shards

            try:
                return Shards(self.path)
            except NotAStore as error:  # the list is another, or a store is not the one that is listed
                raise StoreChanged(str(error)) from None
        opening = minhash.open if isinstance(failed, minhash.MinHashStore) else fpstore.open
        return opening(self.path, failed.mode)
