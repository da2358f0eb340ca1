"""The tools' ids of every type: one for each number, and the number back."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from id_types import ID_TYPES, ids_of, numbered, numbers_of

import fpstore
from fpstore.types import IdType

NUMBERS = [*range(40), 2003, 50000, 2**63 + 5]


@pytest.mark.parametrize("id_type", ID_TYPES)
def test_numbers_become_ids_of_a_store_and_numbers_again(tmp_path: Path, id_type: IdType) -> None:
    ids = ids_of(id_type, NUMBERS)
    assert len({*map(str, ids)}) == len(NUMBERS)
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add(NUMBERS, ids=ids)
        rows = [row for part in store.rows() for row in numbered(id_type, part)]
        assert rows == [(number, number) for number in NUMBERS]
        assert numbered(id_type, store.lookup(ids_of(id_type, [7, 0]))) == [(0, 0), (7, 7)]


def test_a_name_that_is_of_no_number_stays_as_it_is() -> None:
    for name in ("name", "name8 ", "08", "8", "namename8", "a.jsonl:8"):
        assert numbers_of("string", [name]) == [name]
    assert numbers_of("string", ["name8", ""]) == [8, 0]


def test_a_store_without_ids_has_no_numbers(tmp_path: Path) -> None:
    assert ids_of(None, [1]) is None
    with fpstore.create(tmp_path / "s", id_type=None) as store:
        store.add([5, 3])
        assert [row for part in store.rows() for row in numbered(None, part)] == [(3, None), (5, None)]
