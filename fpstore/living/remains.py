"""What is left in a damaged catalog, read from the bytes of its file, page by page, with no help of LMDB.

Every record of the catalog has a checksum that is bound to its place, so it can be known again wherever it lies, also
in a page that nothing leads to. A record that was replaced may still lie there too: what the file's trees lead to
counts first, and of states the one of the last transaction.
"""

import contextlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from fpstore.living import changes
from fpstore.living.changes import Change, RemovedBefore
from fpstore.living.state import KEY, State, decode

T = TypeVar("T")

# LMDB 0.9, 64 bits, little-endian. A page: number, pad, flags, and where its free room begins and ends. A node: size of
# the value in two halves (of a branch, the page that it leads to, in three), flags, size of the key.
_PAGE = struct.Struct("<QHHHH")
_NODE = struct.Struct("<HHHH")
_IS_BRANCH, _IS_LEAF, _IS_META = 1, 2, 8
_IS_ELSEWHERE, _IS_DATABASE = 1, 2  # of a value: in pages of its own, whose first is named; a database
_PAGE_SIZES = (4096, 8192, 16384, 32768)
_MAGIC = 0xBEEFC0DE
# In a meta page: magic; page size; root of the main database; transaction. In a database's record: its root.
_MAGIC_AT, _SIZE_AT, _MAIN_ROOT_AT, _TRANSACTION_AT, _ROOT_AT = 16, 40, 128, 144, 40
_MAX_KEY = 511


@dataclass(frozen=True)
class Remains:
    """What was found. state: None where no record of it is left.

    is_newest: whether that state is surely the last one. changes, removed: those of the state that are left; lost: the
    numbers of changes that are not. removals_lost: how many records of older removals are not.
    """

    state: State | None
    is_newest: bool
    changes: tuple[Change, ...] = ()
    removed: tuple[RemovedBefore, ...] = ()
    changes_lost: int = 0
    removals_lost: int = 0


def read_remains(data: bytes) -> Remains:
    """What is left in a catalog of these bytes. UnsupportedVersion where its state is of another version."""
    file = _File(data)
    state = _newest_state(file)
    if state is None:
        return Remains(None, False)
    numbers = [n for n in file.numbers() if state.first_change <= n < state.next_change]
    form = state.settings.log_form
    decoders = [partial(changes.decode_change, number=n, **form._asdict()) for n in numbers]
    records = [file.first(changes.key_of(n), decoded) for n, decoded in zip(numbers, decoders, strict=True)]
    indexes = [i for i in file.numbers() if i < state.removal_records]
    blocks = [file.only(changes.key_of(i), partial(changes.decode_removed, index=i, width=form.width)) for i in indexes]
    kept = tuple(record for record in records if record is not None)
    removed = tuple(block for block in blocks if block is not None)
    is_newest = bool(file.transactions) and state.transaction >= max(file.transactions)
    lost = state.next_change - state.first_change - len(kept), state.removal_records - len(removed)
    return Remains(state, is_newest, kept, removed, *lost)


def _newest_state(file: "_File") -> State | None:
    states: list[State] = []
    for value in file.values(KEY):
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            states.append(decode(value, json.loads(value[4:])["transaction"]))
    if file.transactions:
        # Of a commit that failed there may be a state that never was one.
        last = max(file.transactions) + (len(file.transactions) == 1)
        states = [state for state in states if state.transaction <= last]
    return max(states, key=lambda state: state.transaction, default=None)


@dataclass
class _File:
    """All records of the file: by key, those that the trees lead to before the others."""

    data: bytes
    transactions: list[int] = field(default_factory=list)  # of the meta pages that are whole
    page_bytes: int = _PAGE_SIZES[0]
    _reached: dict[bytes, list[bytes]] = field(default_factory=dict)
    _found: dict[bytes, list[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        metas = [meta for size in _PAGE_SIZES for page in (0, 1) if (meta := self._meta(page, size)) is not None]
        for transaction, root, size in sorted(metas, reverse=True):
            self.page_bytes = size
            self.transactions.append(transaction)
            for name, flags, value in self._tree(root):
                if not flags & _IS_DATABASE:
                    self._reached.setdefault(name, []).append(value)
                elif len(value) >= _ROOT_AT + 8:
                    for key, _, record in self._tree(self._word(value, _ROOT_AT)):
                        self._reached.setdefault(key, []).append(record)
        for page in range(len(self.data) // self.page_bytes):
            for key, _, record in self._nodes(page):
                self._found.setdefault(key, []).append(record)

    def values(self, key: bytes) -> Sequence[bytes]:
        """All records of this key."""
        return [*self._reached.get(key, ()), *self._found.get(key, ())]

    def numbers(self) -> list[int]:
        """The numbers that there are records of, in order."""
        keys = {*self._reached, *self._found}
        return sorted(int.from_bytes(key, "big") for key in keys if len(key) == len(changes.key_of(0)))

    def first(self, key: bytes, decoded: Callable[[bytes], T]) -> T | None:
        """The first record of this key that is one."""
        for value in self.values(key):
            with contextlib.suppress(ValueError):
                return decoded(value)
        return None

    def only(self, key: bytes, decoded: Callable[[bytes], T]) -> T | None:
        """The record of this key: the one that is reached, else the only one that there is."""
        for values in (self._reached.get(key, ()), self._found.get(key, ())):
            whole = []
            for value in dict.fromkeys(values):
                with contextlib.suppress(ValueError):
                    whole.append(decoded(value))
            if whole and (len(whole) == 1 or values is self._reached.get(key)):
                return whole[0]
        return None

    def _word(self, data: bytes, offset: int) -> int:
        return int.from_bytes(data[offset : offset + 8], "little")

    def _meta(self, page: int, size: int) -> tuple[int, int, int] | None:
        """Transaction, root and page size of a meta page for pages of that size; None where it is not one."""
        meta = self.data[page * size : page * size + _TRANSACTION_AT + 8]
        if len(meta) < _TRANSACTION_AT + 8:
            return None
        number, _, flags, _, _ = _PAGE.unpack_from(meta)
        magic, stated = (int.from_bytes(meta[at : at + 4], "little") for at in (_MAGIC_AT, _SIZE_AT))
        if (number, flags, magic, stated) != (page, _IS_META, _MAGIC, size):
            return None
        return self._word(meta, _TRANSACTION_AT), self._word(meta, _MAIN_ROOT_AT), size

    def _tree(self, root: int) -> Iterator[tuple[bytes, int, bytes]]:
        """Key, flags and value of each record that a root leads to."""
        waiting, seen = [root], {root}
        while waiting:
            page = waiting.pop()
            yield from self._nodes(page)
            following = [child for child in self._children(page) if child not in seen]
            waiting += following
            seen.update(following)

    def _places(self, page: int, kind: int) -> Iterator[int]:
        """Where the nodes of a page lie, if it is of this kind."""
        start = page * self.page_bytes
        if not 0 <= start <= len(self.data) - self.page_bytes:
            return
        number, _, flags, lower, _ = _PAGE.unpack_from(self.data, start)
        if number != page or flags & ~0x10 != kind or lower > self.page_bytes:
            return
        for at in range(start + _PAGE.size, start + lower, 2):
            place = int.from_bytes(self.data[at : at + 2], "little")
            if place <= self.page_bytes - _NODE.size:
                yield start + place

    def _children(self, page: int) -> Iterator[int]:
        for at in self._places(page, _IS_BRANCH):
            low, middle, high, _ = _NODE.unpack_from(self.data, at)
            yield low | middle << 16 | high << 32

    def _nodes(self, page: int) -> Iterator[tuple[bytes, int, bytes]]:
        for at in self._places(page, _IS_LEAF):
            low, high, flags, key_bytes = _NODE.unpack_from(self.data, at)
            size, start = low | high << 16, at + _NODE.size + key_bytes
            if key_bytes > _MAX_KEY:
                continue
            if flags & _IS_ELSEWHERE:
                start = self._word(self.data, start) * self.page_bytes + _PAGE.size
            yield self.data[at + _NODE.size : at + _NODE.size + key_bytes], flags, self.data[start : start + size]
