"""The records of the log: what is read back is what was written, and nothing else reads as it."""

import dataclasses
import struct

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from fpstore.living import changes
from fpstore.living.changes import (
    ADDED,
    FINGERPRINTS_REMOVED,
    IDS_REMOVED,
    ROWS_REMOVED,
    Change,
    RemovedBefore,
    Waiting,
)
from fpstore.names.column import as_names
from fpstore.types import Keys

NUMBER = 7
KEYS = np.array([5, 2**64 - 1, 0], dtype=np.uint64)
IDS = np.array([1, 2, 2**63], dtype=np.uint64)
ADDITION = Change(NUMBER, ADDED, (KEYS, IDS))
MANY = np.arange(100, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
RISING = np.array([*range(40), *range(41, 101)], dtype=np.uint64)
RISING_ADDITION = Change(NUMBER, ADDED, (MANY, RISING))
ADDITION_OF_NAMES = Change(NUMBER, ADDED, (KEYS, IDS), as_names([b"a", b"", b"\xff\0z"], False, "names"))


def sealed(
    kind: int, columns: int, words: int, rest: bytes, place: bytes = b"changes" + changes.key_of(NUMBER)
) -> bytes:
    """A record with the right checksum around any content."""
    body = struct.pack("<HHQ", kind, columns, words) + rest
    return struct.pack("<I", crc32c(body, crc32c(place))) + body


@pytest.mark.parametrize(
    ("kind", "columns", "with_ids"),
    [
        (ADDED, (KEYS, IDS), True),
        (ADDED, (MANY, RISING), True),
        (ADDED, (MANY, RISING[::-1]), True),
        (ROWS_REMOVED, (MANY, RISING), True),
        (ADDED, (KEYS,), False),
        (FINGERPRINTS_REMOVED, (KEYS,), True),
        (FINGERPRINTS_REMOVED, (KEYS,), False),
        (IDS_REMOVED, (IDS,), True),
        (ROWS_REMOVED, (KEYS, IDS), True),
    ],
)
def test_a_change_read_back_is_the_change_written(
    kind: int, columns: tuple[Keys, Keys] | tuple[Keys], with_ids: bool
) -> None:
    change = changes.decode_change(changes.encode_change(Change(NUMBER, kind, columns)), NUMBER, with_ids)
    assert (change.number, change.kind, len(change.columns)) == (NUMBER, kind, len(columns))
    for found, written in zip(change.columns, columns, strict=True):
        np.testing.assert_array_equal(found, written)
    ids = columns[-1] if with_ids and kind != FINGERPRINTS_REMOVED else None
    np.testing.assert_array_equal(change.ids, ids)


def test_the_record_is_what_the_format_page_shows() -> None:
    body = struct.pack("<HHQ", 1, 2, 3) + KEYS.tobytes() + IDS.tobytes()
    place = b"changes" + bytes([0, 0, 0, 0, 0, 0, 0, 7])
    assert changes.encode_change(ADDITION) == struct.pack("<I", crc32c(place + body)) + body


def test_an_addition_of_names_read_back_is_the_one_written() -> None:
    change = changes.decode_change(changes.encode_change(ADDITION_OF_NAMES), NUMBER, 2)
    assert (change.number, change.kind, len(change.columns)) == (NUMBER, ADDED, 2)
    for found, written in zip(change.columns, ADDITION_OF_NAMES.columns, strict=True):
        np.testing.assert_array_equal(found, written)
    assert change.names is not None
    assert [change.names.at(i) for i in range(3)] == [b"a", b"", b"\xff\0z"]


@pytest.mark.parametrize("with_names", [False, True])
def test_an_addition_of_signatures_is_a_column_for_each_band(with_names: bool) -> None:
    bands = tuple(KEYS + np.uint64(band) for band in range(3))
    words = (KEYS * np.uint64(3), KEYS * np.uint64(5))
    names = ADDITION_OF_NAMES.names if with_names else None
    change = Change(NUMBER, ADDED, (*bands, IDS, *words), names, bands=3, words=2)
    again = changes.decode_change(changes.encode_change(change), NUMBER, 1 + with_names, 3, 2)
    assert [*map(list, again.columns)] == [*map(list, change.columns)]
    assert again.fingerprints.tolist() == [int(band[row]) for row in range(3) for band in bands]
    assert again.ids is not None
    assert again.sketches is not None
    assert again.ids.tolist() == np.repeat(IDS, 3).tolist()
    assert again.sketches.tolist() == np.stack(words, axis=1).tolist()
    assert again.row_count == 9
    assert changes.largest_id([again]) == 2**63
    with pytest.raises(ValueError, match="columns"):
        changes.decode_change(changes.encode_change(change), NUMBER, 1 + with_names, 3, 1)
    bare = Change(NUMBER, ADDED, bands, bands=3)
    again = changes.decode_change(changes.encode_change(bare), NUMBER, 0, 3, 0)
    assert again.ids is None
    assert again.sketches is None
    many = Change(NUMBER, ADDED, tuple(np.zeros(5000, dtype=np.uint64) for _ in range(6)), bands=3, words=2)
    parts = [*changes.records_of(many)]
    assert [part.number for part in parts] == [*range(NUMBER, NUMBER + len(parts))]
    assert sum(part.row_count for part in parts) == 15000
    assert all(part.bands == 3 and part.words == 2 and part.size_bytes <= 8 * changes.RECORD_WORDS for part in parts)


@pytest.mark.parametrize(
    ("ends", "data"),
    [([1, 0, 4], b"a..."), ([1, 1, 5], b"a..."), ([1, 1, -1], b"a..."), ([1, 1, 1 << 62], b"a..."), ([4, 1, 1], b"")],
)
def test_names_that_contradict_their_ends_are_refused(ends: list[int], data: bytes) -> None:
    columns = KEYS.tobytes() + IDS.tobytes() + np.array(ends, dtype=np.int64).tobytes()
    with pytest.raises(ValueError, match="ends"):
        changes.decode_change(sealed(ADDED, 3, 3, columns + data), NUMBER, 2)


def test_ids_that_rise_take_a_bit_or_none_each() -> None:
    """As the format page shows: the fingerprints, the first id, the bits of a step, the steps."""
    place, body = b"changes" + changes.key_of(NUMBER), struct.pack("<HHQ", 5, 1, 100) + MANY.tobytes()
    body += struct.pack("<QQQQ", 0, 1, 1 << 39, 0)
    assert changes.encode_change(RISING_ADDITION) == struct.pack("<I", crc32c(place + body)) + body
    without_gaps = dataclasses.replace(RISING_ADDITION, columns=(MANY, np.arange(100, dtype=np.uint64)))
    assert len(changes.encode_change(without_gaps)) == 16 + 800 + 16


@pytest.mark.parametrize(
    "change",
    [
        dataclasses.replace(RISING_ADDITION, bands=2, columns=(MANY, MANY, RISING)),
        dataclasses.replace(RISING_ADDITION, words=1, columns=(MANY, RISING, RISING)),
        dataclasses.replace(RISING_ADDITION, columns=(RISING,)),
        dataclasses.replace(RISING_ADDITION, kind=ROWS_REMOVED),
    ],
)
def test_columns_that_are_not_the_ids_of_fingerprints_are_kept_as_they_are(change: Change) -> None:
    assert len(changes.encode_change(change)) == 16 + 800 * len(change.columns)


@pytest.mark.parametrize(("change", "id_columns"), [(ADDITION, 1), (ADDITION_OF_NAMES, 2), (RISING_ADDITION, 1)])
def test_every_flipped_bit_and_every_truncation_is_noticed(change: Change, id_columns: int) -> None:
    record = changes.encode_change(change)
    damaged = [record[:length] for length in range(len(record))]
    for index in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[index // 8] ^= 1 << index % 8
        damaged.append(bytes(flipped))
    for bad in damaged:
        with pytest.raises(ValueError, match=f"a record: found {len(bad)} bytes of another checksum"):
            changes.decode_change(bad, NUMBER, id_columns)


def test_a_record_in_another_place_is_refused() -> None:
    record = changes.encode_change(ADDITION)
    with pytest.raises(ValueError, match="of another checksum"):
        changes.decode_change(record, NUMBER + 1, True)
    with pytest.raises(ValueError, match="of another checksum"):
        changes.decode_removed(record, NUMBER)


@pytest.mark.parametrize(
    ("kind", "columns", "words", "rest"),
    [
        (0, 1, 1, bytes(8)),
        (5, 2, 1, bytes(32)),
        (5, 1, 1, bytes(9)),
        (5, 1, 2, bytes(8)),
        (5, 0, 2, bytes(8)),
        (6, 1, 1, bytes(8)),
        (ROWS_REMOVED, 1, 1, bytes(8)),
        (ROWS_REMOVED, 3, 1, bytes(24)),
        (ADDED, 0, 1, b""),
        (ADDED, 3, 1, bytes(24)),
        (IDS_REMOVED, 2, 1, bytes(16)),
        (ADDED, 1, 2, bytes(8)),
        (ADDED, 1, 1, bytes(9)),
        (ADDED, 2, 2**63, bytes(16)),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(kind: int, columns: int, words: int, rest: bytes) -> None:
    with pytest.raises(
        ValueError, match=f"a record of kind {kind}, {columns} columns of {words}, {16 + len(rest)} bytes"
    ):
        changes.decode_change(sealed(kind, columns, words, rest), NUMBER, True)


@pytest.mark.parametrize(
    ("change", "with_ids", "found"),
    [
        (ADDITION, False, "kind 1 has 2 columns, expected 1"),
        (RISING_ADDITION, False, "kind 5, 1 columns of 100, 848 bytes"),
        (Change(NUMBER, ADDED, (KEYS,)), True, "kind 1 has 1 columns, expected 2"),
        (Change(NUMBER, IDS_REMOVED, (IDS,)), False, "kind 3 has 1 columns, expected 1"),
        (Change(NUMBER, ROWS_REMOVED, (KEYS, IDS)), False, "kind 4 has 2 columns, expected 2"),
    ],
)
def test_a_change_of_a_store_of_the_other_sort_is_refused(change: Change, with_ids: bool, found: str) -> None:
    with pytest.raises(ValueError, match=f"(change {NUMBER}|a record) of {found}"):
        changes.decode_change(changes.encode_change(change), NUMBER, with_ids)


@pytest.mark.parametrize(
    ("kind", "columns"), [(FINGERPRINTS_REMOVED, (KEYS,)), (IDS_REMOVED, (KEYS,)), (ROWS_REMOVED, (KEYS, IDS))]
)
def test_removals_read_back_are_those_written(kind: int, columns: tuple[Keys, ...]) -> None:
    removed = changes.decode_removed(changes.encode_removed(RemovedBefore(kind, columns, KEYS[::-1]), 3), 3)
    assert (removed.kind, len(removed.columns)) == (kind, len(columns))
    for found, written in zip((*removed.columns, removed.numbers), (*columns, KEYS[::-1]), strict=True):
        np.testing.assert_array_equal(found, written)


def test_the_largest_id_is_that_of_what_is_added() -> None:
    added = [Change(1, ADDED, (KEYS, IDS)), Change(2, ADDED, (KEYS[:1], IDS[:1]))]
    removed = [Change(3, IDS_REMOVED, (KEYS,)), Change(4, ROWS_REMOVED, (IDS, KEYS)), Change(5, ADDED, (KEYS,))]
    assert changes.largest_id([*added, *removed]) == 2**63
    assert changes.largest_id(added[1:]) == 1
    assert changes.largest_id([*removed, Change(6, ADDED, (KEYS[:0], IDS[:0]))]) is None


@pytest.mark.parametrize("rows", [1, 2])
def test_a_copied_change_is_the_same_with_columns_of_its_own(rows: int) -> None:
    columns = KEYS[:rows].copy(), IDS[:rows].copy()
    change = Change(5, ADDED, columns, bands=1, words=0)
    copied = change.copied()
    columns[0][:] = columns[1][:] = 0
    assert [column.tolist() for column in copied.columns] == [KEYS[:rows].tolist(), IDS[:rows].tolist()]
    rest = [field.name for field in dataclasses.fields(Change) if field.name != "columns"]
    assert [getattr(copied, name) for name in rest] == [getattr(change, name) for name in rest]


def test_what_waits_is_kept_in_its_order_and_its_rows_are_counted() -> None:
    records = [Change(number, ADDED, (np.arange(number, dtype=np.uint64),)) for number in range(1, 5)]
    waiting = Waiting(records[:1])
    waiting.add(records[1:3], 2 + 3)
    waiting.add(records[3:], 4)
    assert waiting.changes == records
    assert waiting.row_count == 1 + 2 + 3 + 4
    assert (Waiting().changes, Waiting().row_count) == ([], 0)


def test_removals_that_are_none_are_refused() -> None:
    place = b"removals" + changes.key_of(3)
    with pytest.raises(ValueError, match="removals record 3: found additions, expected removals"):
        changes.decode_removed(sealed(ADDED, 2, 1, bytes(16), place), 3)
    with pytest.raises(ValueError, match="a record of kind 2, 1 columns of 1, 24 bytes"):
        changes.decode_removed(sealed(FINGERPRINTS_REMOVED, 1, 1, bytes(8), place), 3)
    with pytest.raises(ValueError, match="a record of kind 4, 2 columns of 1, 32 bytes"):
        changes.decode_removed(sealed(ROWS_REMOVED, 2, 1, bytes(16), place), 3)


@given(st.integers(0, 20_000), st.sampled_from([1, 2]))
def test_a_change_is_split_into_records_of_bounded_size(rows: int, column_count: int) -> None:
    columns = [np.arange(rows, dtype=np.uint64) + np.uint64(i) for i in range(column_count)]
    parts = list(changes.split(ADDED, columns, 10))
    assert [part.number for part in parts] == list(range(10, 10 + len(parts)))
    assert all(0 < column_count * len(part.columns[0]) <= changes.RECORD_WORDS for part in parts)
    for i, column in enumerate(columns):
        joined = np.concatenate([np.empty(0, dtype=np.uint64), *(part.columns[i] for part in parts)])
        np.testing.assert_array_equal(joined, column)
