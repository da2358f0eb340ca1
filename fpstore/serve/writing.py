"""Owns the one writer of a service: a thread that makes the changes that wait, those of a kind in one commit.

A change is acknowledged when it is durable, and not before. Changes are made in the order in which they came.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from fpstore import Store, StoreClosed
from fpstore.minhash import MinHashStore
from fpstore.serve.forms import is_of_the_request
from fpstore.serve.held import Held
from fpstore.serve.kinds import AnyStore, kind_of
from fpstore.types import Array, Ids

# Rows of changes that are made in one commit, unless one alone has more.
GROUP_ROWS = 1 << 16
# What comes to the same in one call as in several, one after the other.
TOGETHER = ("add", "add_if_new", "upsert")


@dataclass(frozen=True)
class Change:
    """Rows to add or to remove. kind: a method of the store; nearness: of add_if_new, by what of it is near."""

    kind: str
    fingerprints: Array | None
    ids: Ids | None
    nearness: float | None = None
    done: "Future[Any]" = field(default_factory=Future, compare=False)

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.ids if self.fingerprints is None else self.fingerprints)  # type: ignore[arg-type]

    def goes_with(self, other: "Change") -> bool:
        """Whether the two come to the same in one call as in two."""
        if self.kind not in TOGETHER:
            return False
        return (self.kind, self.nearness) == (other.kind, other.nearness)


class Writing:
    """Changes a store, opened for writing, from a thread of its own until it is closed; then the store is, too.

    name_bytes: how many bytes of names may be told of in one commit; of additions that come to more none is made.
    """

    def __init__(self, store: AnyStore, name_bytes: int | None = None) -> None:
        if isinstance(store, Store):
            store.max_name_bytes = name_bytes
        self._held = Held(store)
        self._waiting: deque[Change] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="fpstore-writer")
        self._thread.start()

    def submit(self, change: Change) -> "Future[Any]":
        """Have it made; done when it is durable. StoreClosed once close was called."""
        with self._wake:
            if self._closing:
                raise StoreClosed("the service is ending", path=self._held.path)
            self._waiting.append(change)
            self._wake.notify()
        return change.done

    def close(self) -> None:
        """Make what waits, and close the store."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._held.close()

    def _work(self) -> None:
        while group := self._next_group():
            make(self._held, group)

    def _next_group(self) -> list[Change]:
        """The next changes that go together, once there are some; none when closing."""
        with self._wake:
            while not self._waiting and not self._closing:
                self._wake.wait()
            group: list[Change] = []
            rows = 0
            while self._waiting:
                change = self._waiting[0]
                if group and not (change.goes_with(group[0]) and rows + change.rows <= GROUP_ROWS):
                    break
                rows += change.rows
                group.append(self._waiting.popleft())
            return group


def make(held: Held, group: Sequence[Change]) -> None:
    """Make changes that go together, in one call, and tell each what it came to."""
    group = [change for change in group if change.done.set_running_or_notify_cancel()]
    if group:
        _make(held, group)


def _make(held: Held, group: Sequence[Change]) -> None:
    try:
        results = held.ask(lambda store: _called(store, group))
    except BaseException as error:
        if len(group) > 1 and isinstance(error, Exception) and is_of_the_request(error):
            for change in group:  # nothing was changed, and it may be the fault of one
                _make(held, [change])
            return
        for change in group:
            change.done.set_exception(error)
    else:
        for change, result in zip(group, results, strict=True):
            change.done.set_result(result)


def _called(store: AnyStore, group: Sequence[Change]) -> list[Any]:
    first = group[0]
    arguments: dict[str, Any] = {kind_of(store).parameter: first.nearness} if first.kind == "add_if_new" else {}
    call: Callable[..., Any] = getattr(store, first.kind)
    rows = _joined([change.fingerprints for change in group])
    if not isinstance(store, MinHashStore):
        arguments["fingerprints"] = rows
    elif rows is not None:
        arguments["signatures"] = rows
    result = call(ids=_joined([change.ids for change in group]), **arguments)
    if first.kind != "add_if_new":
        return [result] * len(group)
    ends = np.cumsum([0, *(change.rows for change in group)]).tolist()
    return [result[start:end] for start, end in pairwise(ends)]


def _joined(columns: Sequence[Any]) -> Any:
    """Columns one after the other; None where there are none."""
    if columns[0] is None or len(columns) == 1:
        return columns[0]
    return np.concatenate(columns)
