"""What living stores of wide fingerprints have of their own; what all stores have, tests/test_living_model.py tries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import writer_of
from test_wide import WIDTHS, many, numbers_of

import fpstore
from fpstore._codes import near
from fpstore.codes.pending import PendingCodes
from fpstore.codes.reader import open_segment
from fpstore.errors import TooManyMatches
from fpstore.fingerprints import as_strings, columns_of, distinct, of_columns, of_strings
from fpstore.living import changes
from fpstore.living.changes import ADDED, FINGERPRINTS_REMOVED, IDS_REMOVED, ROWS_REMOVED, Change, RemovedBefore
from fpstore.living.removals import Removals
from fpstore.query.additions import NEW, in_turn

BOTH = pytest.mark.parametrize("bits", sorted(WIDTHS))


@BOTH
def test_a_store_that_was_merged_has_the_bytes_of_one_that_was_built(bits: int, tmp_path: Path) -> None:
    codes, ids = many(bits, 3000, "repeats"), np.arange(3000, dtype=np.uint64) % np.uint64(700)
    with fpstore.create(tmp_path / "s", bits=bits, max_distance=WIDTHS[bits]) as store:
        plan = store.plan
    with writer_of(tmp_path / "s", flush_rows=400) as store:
        for start in range(0, 3000, 90):
            store.add(codes[start : start + 90], ids=ids[start : start + 90])
        store.add(codes[:5] ^ np.uint64(1), ids=[9] * 5)
        store.remove(fingerprints=codes[:5] ^ np.uint64(1), ids=[9] * 5)
        store.compact()
        (merged,) = (segment.path.read_bytes() for segment in store._segments)
    with fpstore.build(tmp_path / "t", codes, ids=ids, bits=bits, max_distance=WIDTHS[bits], plan=plan) as built:
        assert built._segments[0].path.read_bytes() == merged
    with writer_of(tmp_path / "s") as store:
        store.remove(fingerprints=codes)
        store.compact()
        assert (store.count(), store._segments) == (0, ())


@BOTH
@pytest.mark.parametrize("kind", [ADDED, FINGERPRINTS_REMOVED, IDS_REMOVED, ROWS_REMOVED])
def test_a_change_of_codes_has_a_column_for_each_word(bits: int, kind: int) -> None:
    width = bits // 64
    codes, ids = many(bits, 5, "random"), np.arange(5, dtype=np.uint64)
    of_codes, of_ids = () if kind == IDS_REMOVED else columns_of(codes), () if kind == FINGERPRINTS_REMOVED else (ids,)
    change = Change(7, kind, (*of_codes, *of_ids), width=width)
    record = changes.encode_change(change)
    found = changes.decode_change(record, 7, 1, width=width)
    assert [column.tolist() for column in found.columns] == [column.tolist() for column in change.columns]
    if of_codes:
        assert np.array_equal(found.fingerprints, codes)
    if of_ids:
        assert found.own_ids is not None or kind == ROWS_REMOVED
    if kind != IDS_REMOVED:  # of which there is one column whatever the width
        with pytest.raises(ValueError, match=r"columns"):
            changes.decode_change(record, 7, 1)
    if kind != ADDED:
        removed = RemovedBefore(kind, change.columns, ids)
        again = changes.decode_removed(changes.encode_removed(removed, 3), 3, width)
        assert [column.tolist() for column in again.columns] == [column.tolist() for column in change.columns]
        masks = Removals.of([again])
        (block,) = masks.records_before(10)
        assert [column.tolist() for column in block.columns] == sorted_columns(again.columns)


def sorted_columns(columns: Any) -> Any:
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return [list(column) for column in zip(*rows, strict=True)]


@BOTH
def test_columns_and_strings_are_the_codes_again_and_in_order(bits: int) -> None:
    codes = np.concatenate([many(bits, 50, "random"), np.zeros((1, bits // 64), np.uint64), many(bits, 9, "prefix")])
    codes[5, -1] = 0  # a string that ends with zeros
    assert np.array_equal(of_columns(columns_of(codes)), codes)
    assert np.array_equal(of_strings(as_strings(codes)), codes)
    found, place = distinct(np.concatenate([codes, codes]))
    assert numbers_of(found) == sorted(set(numbers_of(codes)))
    assert np.array_equal(found[place], np.concatenate([codes, codes]))


@BOTH
def test_what_waits_is_compared_with_every_query(bits: int) -> None:
    codes, queries = many(bits, 2000, "clusters"), many(bits, 2000, "clusters")[:40]
    apart = np.bitwise_count(codes[None] ^ queries[:, None]).sum(axis=2)
    for distance in (0, WIDTHS[bits], bits):
        query, index, found = near(codes, queries, distance)
        asked, at = (each.tolist() for each in np.nonzero(apart <= distance))
        rows = sorted((q, int(apart[q, i]), i) for q, i in zip(asked, at, strict=True))
        assert list(zip(query.tolist(), found.tolist(), index.tolist(), strict=True)) == rows
    with pytest.raises(TooManyMatches):
        near(codes, queries, bits, most=100)
    for wrong in (codes[:, :1].copy(), np.zeros((2, 3), np.uint64)):
        with pytest.raises(ValueError, match=r"queries of \d words among codes of \d"):
            near(codes, wrong, 3)


def test_rows_that_cannot_wait_are_refused() -> None:
    pending, code = PendingCodes(2, with_ids=False, capacity=2), np.zeros((1, 2), np.uint64)
    pending.append(code, None, 5)
    refused: list[tuple[Any, str]] = [
        ((np.zeros((2, 2), np.uint64), None, 6), "2 rows more than 1: there is room for 2"),
        ((code, None, 4), "position: found 4, expected 5 or later"),
        ((code, np.zeros(1, np.uint64), 6), r"rows of \(2,\) words, ids: found other ones"),
        ((np.zeros((1, 4), np.uint64), None, 6), r"rows of \(4,\) words, no ids: found other ones"),
    ]
    for rows, message in refused:
        with pytest.raises(ValueError, match=message):
            pending.append(*rows)
    assert (pending.count, pending.rows_before(5), pending.rows_before(6)) == (1, 0, 1)
    assert pending.grown(9, 1).count == 0


@BOTH
def test_codes_of_a_batch_go_to_the_nearest_before_them(bits: int) -> None:
    keys = many(bits, 60, "repeats", 3) ^ (np.arange(60, dtype=np.uint64) % np.uint64(4))[:, None]
    ties = columns_of(keys)
    rows, distances = in_turn(keys, WIDTHS[bits], np.empty(0, np.int64), np.empty(0, np.uint16), ties)
    leaders: list[int] = []
    numbers = numbers_of(keys)
    for index, key in enumerate(numbers):
        near_ones = [((key ^ numbers[other]).bit_count(), numbers[other], other) for other in leaders]
        best = min((each for each in near_ones if each[0] <= WIDTHS[bits]), default=None)
        if best is None:
            leaders.append(index)
            assert (rows[index], distances[index]) == (NEW, 0)
        else:
            assert (rows[index], distances[index]) == (best[2], best[0])
    assert 1 < len(leaders) < 60


def test_a_segment_is_opened_as_what_its_header_says(tmp_path: Path) -> None:
    for bits in (64, 128):
        with fpstore.build(tmp_path / str(bits), [5], bits=bits) as store:
            path = store._segments[0].path
            with fpstore.disk.Folder.open(path.parent) as folder:
                segment = open_segment(fpstore.disk.Place(folder, path.name))
                assert type(segment) is type(store._segments[0])
                segment.close()


def test_a_reader_sees_what_a_writer_adds_and_names_of_codes_are_built(tmp_path: Path) -> None:
    numbers = numbers_of(many(256, 30, "random"))
    names = [f"photo {i % 11}.jpg" for i in range(30)]
    built: Any = fpstore.build
    opened: Any = fpstore.open
    with built(tmp_path / "s", numbers, ids=names, id_type="string", bits=256, max_distance=31) as reader:
        assert {(row.fingerprint, row.id) for rows in reader.rows() for row in rows} == set(
            zip(numbers, names, strict=True)
        )
        with opened(tmp_path / "s", "w") as writer:
            assert writer.add_if_new([numbers[3] ^ 1], ids=["copy"])[0].match.id == names[3]
            writer.add([numbers[3] ^ 1], ids=["copy"])
            assert [match.id for match in reader.probe(numbers[3])] == [names[3], "copy"]
            writer.remove(ids=["copy"])
            assert len(reader.probe(numbers[3])) == 1
        reader.verify()
