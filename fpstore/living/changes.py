"""Changes of a living store as the catalog's log keeps them: additions and removals, numbered in their order.

Every record is columns of 64-bit words under a checksum that is bound to the record's place, so that one which was
damaged, moved or exchanged does not read as another.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fpstore._codec import crc32c
from fpstore._names import expect_names
from fpstore.errors import Wrong
from fpstore.fingerprints import of_columns
from fpstore.living import steps
from fpstore.names.column import Names
from fpstore.types import Ids, Keys

ADDED = 1
FINGERPRINTS_REMOVED = 2
IDS_REMOVED = 3
ROWS_REMOVED = 4
# In records only: an addition whose ids rise, which are kept as steps. It reads as one of kind ADDED.
RISING_ADDED = 5

# Which columns each kind of removal has: those of the fingerprints, one or one for each word, and that of the ids. An
# addition has those of the fingerprints, or one for the keys of each band of a signature; then, where the store has
# such, the ids, the words of the sketches, and where each name ends.
_HAS_FINGERPRINTS = {FINGERPRINTS_REMOVED: True, IDS_REMOVED: False, ROWS_REMOVED: True}
_HAS_IDS = {FINGERPRINTS_REMOVED: False, IDS_REMOVED: True, ROWS_REMOVED: True}
# Checksum, kind, number of columns, words in each.
_HEADER = struct.Struct("<IHHQ")
# Larger values take whole pages of LMDB each, with little lost; smaller ones need no long run of free pages.
RECORD_WORDS = 8000


class Told(NamedTuple):
    """What is known of names that are added. hashes: theirs, keyed, uint64[n].

    are_new: none is in the log or a file, no two are equal, and their handles follow one another, above all others.
    """

    hashes: Keys
    are_new: bool


@dataclass(frozen=True, eq=False)
class Change:
    """One addition or removal. number: its place in the order of all changes. columns: uint64[n] each.

    kind ADDED: fingerprints, and ids in a store with ids. FINGERPRINTS_REMOVED, IDS_REMOVED: those removed.
    ROWS_REMOVED: fingerprints and ids, of each fingerprint the one id.
    names: of the ids that were added, in a store with names. told: of these, where it is known.
    bands, words: of an addition of signatures, each of which has so many fingerprints, the keys of its bands, and so
    many words of a sketch, in columns of their own: those of the keys, that of the ids, those of the words.
    width: how many words a fingerprint has, with a column for each.
    """

    number: int
    kind: int
    columns: tuple[Keys, ...]
    names: Names | None = None
    told: Told | None = None
    bands: int = 1
    words: int = 0
    width: int = 1

    @property
    def size_bytes(self) -> int:
        """What its record takes, but for the header."""
        names = 0 if self.names is None else len(self.names.data) + 8 * self.names.size
        return 8 * sum(len(column) for column in self.columns) + names

    @property
    def fingerprints(self) -> Keys:
        """The fingerprints added or removed."""
        if self.bands == 1:
            return of_columns(self.columns[: self.width])
        return np.stack(self.columns[: self.bands], axis=1).ravel()

    @property
    def ids(self) -> Ids | None:
        """The ids added or removed, of each row; None where there are none."""
        ids = self.own_ids
        return ids if ids is None or self.bands == 1 else np.repeat(ids, self.bands)

    @property
    def own_ids(self) -> Ids | None:
        """The ids added or removed, of a signature once; None where there are none."""
        if self.kind == IDS_REMOVED:
            return self.columns[0]
        at = self.bands + self.width - 1
        return self.columns[at] if len(self.columns) > at + self.words else None

    @property
    def sketches(self) -> Keys | None:
        """The sketches added: uint64[n, words]; None where none are kept."""
        return np.stack(self.columns[-self.words :], axis=1) if self.words else None

    def copied(self) -> "Change":
        """This one with columns of its own."""
        # In a third of the time of dataclasses.replace, for a row at a time.
        own = object.__new__(Change)
        columns = tuple([column.copy() for column in self.columns])
        object.__setattr__(own, "__dict__", self.__dict__ | {"columns": columns})
        return own

    @property
    def row_count(self) -> int:
        """How many rows it adds or removes."""
        return self.bands * len(self.columns[0])


class Waiting:
    """Changes that are not in the log yet, in their order. row_count: of all of them together."""

    def __init__(self, records: Iterable[Change] = ()) -> None:
        self.changes = [*records]
        self.row_count = rows_of(self.changes)

    def add(self, records: Sequence[Change], row_count: int) -> None:
        """Those that follow, with so many rows."""
        self.changes += records
        self.row_count += row_count


def rows_of(records: Sequence[Change]) -> int:
    """How many rows they add or remove, all together."""
    return records[0].row_count if len(records) == 1 else sum(change.row_count for change in records)


@dataclass(frozen=True, eq=False)
class RemovedBefore:
    """Removals whose changes have left the log: of one kind, with the number of the change of each.

    columns: as those of the changes were.
    """

    kind: int
    columns: tuple[Keys, ...]
    numbers: Keys


class LogForm(NamedTuple):
    """What decode_change must know of a store. id_columns: of the ids of an addition: none, 1 where there are ids, 2
    where these are names. bands, words, width: as Change has them.
    """

    id_columns: int
    bands: int = 1
    words: int = 0
    width: int = 1


def split(
    kind: int,
    columns: Sequence[Keys],
    first_number: int,
    names: Names | None = None,
    bands: int = 1,
    words: int = 0,
    width: int = 1,
) -> Iterator[Change]:
    """Changes small enough for a record each, numbered from first_number on; one row at least is in each."""
    if names is not None:
        filled = names.ends + 8 * (len(columns) + 1) * np.arange(1, names.size + 1)
        start = before = 0
        while start < names.size:
            end = max(int(filled.searchsorted(before + 8 * RECORD_WORDS, side="right")), start + 1)
            own = tuple(column[start:end] for column in columns)
            yield Change(first_number, kind, own, names.part(start, end), bands=bands, words=words, width=width)
            first_number, start, before = first_number + 1, end, int(filled[end - 1])
        return
    rows = max(1, RECORD_WORDS // len(columns))
    if 0 < len(columns[0]) <= rows:  # a row at a time should not pay for slices
        yield Change(first_number, kind, tuple(columns), bands=bands, words=words, width=width)
        return
    for index, start in enumerate(range(0, len(columns[0]), rows)):
        own = tuple(column[start : start + rows] for column in columns)
        yield Change(first_number + index, kind, own, bands=bands, words=words, width=width)


def records_of(change: Change) -> Iterator[Change]:
    """A change of any size in changes small enough for a record each, numbered from its own number on."""
    if change.names is None and len(change.columns[0]) == 1:  # a row at a time should not pay for another change
        return iter((change,))
    form = change.bands, change.words, change.width
    return split(change.kind, change.columns, change.number, change.names, *form)


def key_of(number: int) -> bytes:
    """A record's key: keys are in the order of their numbers."""
    return number.to_bytes(8, "big")


def records_at(numbers: range, found: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The record of each number among keys and records, which are in order; empty where there is none."""
    for number, (key, record) in zip(numbers, itertools.chain(found, itertools.repeat((b"", b""))), strict=False):
        yield number, record if key == key_of(number) else b""


def encode_change(change: Change) -> bytes:
    """The record of a change."""
    place = b"changes" + key_of(change.number)
    if change.names is None:
        rising = _rising(change)
        return _encode(place, change.kind, change.columns) if rising is None else _encode(place, RISING_ADDED, *rising)
    columns = (*change.columns, change.names.ends.view(np.uint64))
    head = _HEADER.pack(0, change.kind, len(columns), len(columns[0]))[4:]
    arrays = (*columns, change.names.data)
    parts: list[Any] = [head, *(np.ascontiguousarray(part).data.cast("B") for part in arrays)]
    checksum = crc32c(place)
    for part in parts:
        checksum = crc32c(part, checksum)
    return b"".join([struct.pack("<I", checksum), *parts])


def decode_change(
    record: bytes, number: int, id_columns: int, bands: int = 1, words: int = 0, width: int = 1
) -> Change:
    """The change in a record of a log of this form. ValueError where it is not the one of this number."""
    most = bands + width - 1 + id_columns + words
    place = b"changes" + key_of(number)
    if id_columns == 1 and bands == 1 and not words and _kind(record) == RISING_ADDED:
        return Change(number, ADDED, _decode_rising(place, record, width), width=width)
    kind, columns, data = _decode(place, record, max(1 + width, most), width, named=id_columns == 2)
    expected = most if kind == ADDED else _removal_columns(kind, width)
    if len(columns) != expected or (_HAS_IDS.get(kind, False) and not id_columns):
        raise ValueError(f"change {number} of kind {kind} has {len(columns)} columns, expected {expected}")
    if kind != ADDED:
        return Change(number, kind, columns, width=width)
    if id_columns < 2:
        return Change(number, kind, columns, bands=bands, words=words, width=width)
    names = Names(np.frombuffer(data, dtype=np.uint8), columns[-1].view(np.int64))
    expect_names(*names)
    return Change(number, kind, columns[:-1], names, bands=bands, words=words, width=width)


def _removal_columns(kind: int, width: int) -> int:
    """How many columns a removal has, of fingerprints of so many words."""
    return _HAS_FINGERPRINTS[kind] * width + _HAS_IDS[kind]


def encode_removed(removed: RemovedBefore, index: int) -> bytes:
    """The record of removals that have left the log, the index-th of them."""
    return _encode(b"removals" + key_of(index), removed.kind, (*removed.columns, removed.numbers))


def decode_removed(record: bytes, index: int, width: int = 1) -> RemovedBefore:
    """The removals in a record, of fingerprints of so many words. ValueError where they are not those of this index."""
    kind, columns, _ = _decode(b"removals" + key_of(index), record, width + 2, width, kept=True)
    if kind == ADDED:
        raise Wrong(f"removals record {index}", "additions", "removals")
    return RemovedBefore(kind, columns[:-1], columns[-1])


def split_removed(kind: int, columns: Sequence[Keys], numbers: Keys) -> Iterator[RemovedBefore]:
    """Records of removals that leave the log."""
    rows = RECORD_WORDS // (len(columns) + 1)
    for start in range(0, len(numbers), rows):
        own = slice(start, start + rows)
        yield RemovedBefore(kind, tuple(column[own] for column in columns), numbers[own])


def largest_id(records: Iterable[Change]) -> int | None:
    """The largest id that these add; None where they add none."""
    largest = None
    for change in records:
        if change.kind == ADDED and (ids := change.own_ids) is not None and len(ids):
            most = int(ids.max() if len(ids) > 1 else ids[0])  # a single addition should not wait for the maximum
            if largest is None or most > largest:
                largest = most
    return largest


def _rising(change: Change) -> tuple[tuple[Keys, ...], Keys] | None:
    """The columns of fingerprints of an addition and, as words, its ids, where these rise; None for all others."""
    if change.kind != ADDED or change.bands > 1 or change.words or len(change.columns) != change.width + 1:
        return None
    words = steps.packed(change.columns[-1])
    return None if words is None else (change.columns[:-1], words)


def _encode(place: bytes, kind: int, columns: tuple[Keys, ...], *rest: Keys) -> bytes:
    """A record: these columns, what follows them, and the checksum of it all before it."""
    body = _HEADER.pack(0, kind, len(columns), len(columns[0]))[4:]
    body += b"".join(np.ascontiguousarray(part, dtype="<u8").tobytes() for part in (*columns, *rest))
    return struct.pack("<I", crc32c(body, crc32c(place))) + body


def _kind(record: bytes) -> int:
    """Which kind a record says it is; 0 where it is cut short."""
    return int(_HEADER.unpack_from(record)[1]) if len(record) >= _HEADER.size else 0


def _expect_sealed(place: bytes, record: bytes) -> None:
    if len(record) < _HEADER.size or struct.unpack_from("<I", record)[0] != crc32c(record[4:], crc32c(place)):
        raise Wrong("a record", f"{len(record)} bytes of another checksum", "those of its own")


def _decode_rising(place: bytes, record: bytes, width: int) -> tuple[Keys, ...]:
    """The columns of an addition whose ids are kept as steps."""
    _expect_sealed(place, record)
    _, kind, column_count, rows = _HEADER.unpack_from(record)
    words = (len(record) - _HEADER.size) // 8 - column_count * rows
    if column_count != width or len(record) % 8 or words < 0:
        raise ValueError(f"a record of kind {kind}, {column_count} columns of {rows}, {len(record)} bytes")
    whole = np.frombuffer(record, dtype="<u8", offset=_HEADER.size)
    columns = tuple(whole[i * rows : (i + 1) * rows] for i in range(width))
    return *columns, steps.unpacked(whole[width * rows :], rows)


def _decode(
    place: bytes, record: bytes, most: int, width: int, kept: bool = False, named: bool = False
) -> tuple[int, tuple[Keys, ...], bytes]:
    """Kind, columns and what follows these. kept: of removals that have left the log, with a column of numbers."""
    _expect_sealed(place, record)
    _, kind, column_count, words = _HEADER.unpack_from(record)
    allowed: Sequence[int] = range(1, most + 1) if kind == ADDED else ()
    if kind in _HAS_IDS:
        allowed = (_removal_columns(kind, width) + kept,)
    rest = len(record) - _HEADER.size - 8 * column_count * words
    fits = rest == 0 or (rest > 0 and column_count == most and named and kind == ADDED)
    if column_count not in allowed or column_count > most or not fits:
        raise ValueError(f"a record of kind {kind}, {column_count} columns of {words}, {len(record)} bytes")
    whole = np.frombuffer(record, dtype="<u8", offset=_HEADER.size, count=column_count * words)
    columns = tuple(whole[i * words : (i + 1) * words] for i in range(column_count))
    return kind, columns, record[len(record) - rest :]
