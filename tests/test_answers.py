"""Answers of single queries: their columns are made when they are asked for, and are those of any other answer."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers import fingerprint_array

import fpstore
from fpstore._answers import Answers
from fpstore._pending import PendingIndex
from fpstore._single import Segments, Single
from fpstore.origin import Made
from fpstore.query.matches import Matches

ROWS = [0b0000, 0b0001, 0b0011, 0b1111 << 60]


@pytest.mark.parametrize("ids", [None, [7, 5, 2**64 - 1, 1]])
@pytest.mark.parametrize("signed", [False, True])
def test_the_columns_are_those_of_a_batch(tmp_path: Path, ids: list[int] | None, signed: bool) -> None:
    with fpstore.build(tmp_path / "s", ROWS, ids=ids) as store:
        for asked, many in ((0, 3), (15 << 60, 1), (7 << 30, 0)):
            alone, batch = store.probe(asked, max_distance=2), store.probe_many([asked], max_distance=2)
            alone = alone.signed() if signed else alone
            batch = batch.signed() if signed else batch
            assert len(alone) == many  # before its columns are made
            assert alone == batch
            assert len(alone) == many
            assert list(alone) == list(batch)
            assert alone.method == batch.method
            assert all(column is None or not column.flags.writeable for column in alone._columns)
            assert pickle.loads(pickle.dumps(store.probe(asked, max_distance=2))) == store.probe(asked, max_distance=2)


def test_the_columns_are_made_once(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", ROWS) as store:
        found = store.probe(0)
        assert found.fingerprint is found.fingerprint
        assert found._columns is found._columns


def test_an_answer_that_nobody_has_any_more_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", ROWS, ids=[7, 5, 9, 1]) as store:
        expected = store.nearest_many([0])
        store.nearest(0)
        found = store.nearest(0)
        fingerprints, number = found.fingerprint, id(found)
        found.method, found._recipe = "other", Made({"some": "recipe"}, 64)
        del found
        again = store.nearest(ROWS[3])
        assert id(again) == number  # or there is nothing to test
        assert len(again) == 1
        assert again == store.nearest_many([ROWS[3]])
        assert again.method in ("probe", "scan")
        assert again._recipe == expected._recipe
        assert fingerprints.tolist() == [0]


def test_an_answer_that_somebody_has_stays_as_it_is(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", ROWS, ids=[7, 5, 9, 1]) as store:
        found = [store.nearest(asked) for asked in ROWS]
        assert [list(each) for each in found] == [list(store.nearest_many([asked])) for asked in ROWS]


def test_an_answer_of_a_kind_with_more_than_columns_is_another_each_time() -> None:
    class Noted(Matches):
        pass

    pending = PendingIndex([0xFF << 56], [0], with_ids=False, capacity=4)
    pending.append(fingerprint_array([5]), None, 1)
    single = Single(Segments(()), pending, 1, 3, 3, None, Answers(Noted, None, False, False))
    found = single.probe(None, 5, 0, False)
    assert len(found) == 1
    found.note = "mine"
    del found
    assert not hasattr(single.probe(None, 5, 0, False), "note")


def test_an_answer_of_another_kind_by_now_leaves_that_to_no_other(tmp_path: Path) -> None:
    class Mine(Matches):
        __slots__ = ()

    with fpstore.build(tmp_path / "s", ROWS, ids=None) as store:
        store.nearest(0)
        found = store.nearest(0)
        found.__class__ = Mine
        del found
        assert type(store.nearest(0)) is Matches


def test_an_answer_of_wide_codes_has_rows_of_words(tmp_path: Path) -> None:
    codes = np.arange(8, dtype=np.uint64).reshape(2, 4)
    with fpstore.build(tmp_path / "s", codes, bits=256, max_distance=3) as store:
        found = store.probe(codes[1], max_distance=0)
        assert len(found) == 1
        assert found.fingerprint.tolist() == [codes[1].tolist()]
        assert found.distance.tolist() == [0]


def test_a_table_that_has_no_columns_yet_says_so() -> None:
    with pytest.raises(AttributeError, match="_columns"):
        len(Matches.__new__(Matches))


def test_columns_that_are_none_at_all_are_an_error_and_no_crash() -> None:
    table = Matches.__new__(Matches)
    table._columns = ()  # type: ignore[assignment]
    with pytest.raises(IndexError):
        len(table)


def test_what_makes_answers_has_to_fit() -> None:
    with pytest.raises(TypeError, match="expected a table of columns"):
        Answers(list, None, True, False)
    with pytest.raises(TypeError, match="of 5 words"):
        Answers(Matches, None, True, False, 5)
    pending = PendingIndex([1], [0], with_ids=False, capacity=4)
    with pytest.raises(ValueError, match=r"^answers of 0 words, ids True: expected 0, False$"):
        Single(Segments(()), pending, 0, 3, 3, None, Answers(Matches, None, True, False))
