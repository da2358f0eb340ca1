"""The answer of a probe: columns, records, and what it becomes for Arrow."""

import numpy as np
import pyarrow
from helpers import LAST, fingerprint_array

import fpstore
from fpstore.query.matches import Match, Matches


def matches(ids: bool = True) -> Matches:
    return Matches(
        np.array([0, 0, 7], dtype=np.int64),
        fingerprint_array([5, 5, LAST]),
        np.array([1, 1, 3], dtype=np.uint16),
        fingerprint_array([1, 2, LAST]) if ids else None,
    )


def test_matches_are_walked_as_records_of_plain_integers() -> None:
    assert list(matches()) == [Match(0, 5, 1, 1), Match(0, 5, 1, 2), Match(7, LAST, 3, LAST)]
    assert all(type(field) is int for match in matches() for field in match)
    assert len(matches()) == 3


def test_records_without_ids_have_none() -> None:
    assert [match.id for match in matches(ids=False)] == [None] * 3


def test_matches_can_be_walked_more_than_once() -> None:
    found = matches()
    assert list(found) == list(found)


def test_the_public_names_are_the_same_classes() -> None:
    assert (fpstore.Match, fpstore.Matches) == (Match, Matches)


def test_a_table_of_arrow_has_the_columns_and_their_types() -> None:
    table = matches().to_arrow()
    assert table.schema == pyarrow.schema(
        {
            "query": pyarrow.int64(),
            "fingerprint": pyarrow.uint64(),
            "distance": pyarrow.uint16(),
            "id": pyarrow.uint64(),
        }
    )
    assert table.to_pylist() == [match._asdict() for match in matches()]


def test_a_table_of_a_store_without_ids_has_no_such_column() -> None:
    assert matches(ids=False).to_arrow().column_names == ["query", "fingerprint", "distance"]
