"""What every answer is: columns that nobody changes, rows, slices, and what others get of them."""

# mypy: disable-error-code="comparison-overlap"

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from helpers import LAST
from hypothesis import given
from hypothesis import strategies as st

import fpstore
from fpstore import Addition, Additions, Match, Matches, Pair, Pairs, Row, Rows
from fpstore.progress import UNITS, told
from fpstore.query.tables import ROWS_SHOWN
from fpstore.types import Array

NEAR = [5, 4, 7, 1 << 63, LAST, (1 << 63) + 1]


def u64(values: Any) -> Array:
    return np.array(values, dtype=np.uint64)


def matches_of(count: int, ids: bool = True) -> Matches:
    numbers = np.arange(count)
    distance = (numbers % 4).astype(np.uint16)
    return Matches(numbers // 2, u64(numbers) << np.uint64(60), distance, u64(numbers) if ids else None, "stream")


def additions_of(count: int, ids: bool = True) -> Additions:
    numbers = np.arange(count)
    distance = (numbers % 4).astype(np.uint16)
    return Additions(numbers % 3 == 0, u64(numbers) << np.uint64(60), distance, u64(numbers) if ids else None)


def pairs_of(count: int) -> Pairs:
    return Pairs(u64(range(count)), u64(range(count)) << np.uint64(60), np.arange(count, dtype=np.uint8) % 4)


def rows_of(count: int, ids: bool = True) -> Rows:
    return Rows(u64(range(count)) << np.uint64(60), u64(range(count)) if ids else None)


KINDS: dict[str, Callable[[int], Any]] = {
    "matches": matches_of,
    "matches without ids": lambda count: matches_of(count, ids=False),
    "additions": additions_of,
    "additions without ids": lambda count: additions_of(count, ids=False),
    "pairs": pairs_of,
    "rows": rows_of,
    "rows without ids": lambda count: rows_of(count, ids=False),
    "signed matches": lambda count: matches_of(count).signed(),
    "signed additions": lambda count: additions_of(count).signed(),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def columns_of(table: Any) -> dict[str, Array]:
    return dict(table._present())


# --- Rows ---


def test_each_kind_of_table_has_records_of_its_own() -> None:
    assert list(matches_of(2)) == [Match(0, 0, 0, 0), Match(0, 1 << 60, 1, 1)]
    assert list(rows_of(2)) == [Row(0, 0), Row(1 << 60, 1)]
    assert list(rows_of(1, ids=False)) == [Row(0, None)]
    assert list(pairs_of(2)) == [Pair(0, 0, 0), Pair(1, 1 << 60, 1)]
    assert list(additions_of(2)) == [Addition(True, None), Addition(False, Match(1, 1 << 60, 1, 1))]
    assert [type(row) for row in (rows_of(1)[0], pairs_of(1)[0], additions_of(1)[0], matches_of(1)[0])] == [
        Row,
        Pair,
        Addition,
        Match,
    ]
    assert all(type(field) is int for match in matches_of(3) for field in match)


@every_kind
@given(count=st.integers(0, 12), data=st.data())
def test_slices_and_rows_are_those_of_the_columns(kind: str, count: int, data: st.DataObject) -> None:
    table = KINDS[kind](count)
    rows = list(table)
    bound = st.none() | st.integers(-15, 15)
    part = slice(data.draw(bound), data.draw(bound), data.draw(st.none() | st.sampled_from([-3, -1, 1, 2])))
    taken = table[part]
    assert type(taken) is type(table)
    assert list(taken) == rows[part]
    assert list(taken[1:]) == rows[part][1:]
    for name, column in columns_of(taken).items():
        assert np.array_equal(column, getattr(table, name)[part])
        assert column.dtype == getattr(table, name).dtype
    assert [table[i] for i in range(-count, count)] == rows + rows
    assert (len(taken), len(table)) == (len(rows[part]), count)


@every_kind
@pytest.mark.parametrize("row", [3, -4, np.int64(3)])
def test_a_row_that_is_not_there_is_refused(kind: str, row: int) -> None:
    with pytest.raises(IndexError, match=rf"^\w+: found row {row}, expected one of 3$"):
        KINDS[kind](3)[row]


@pytest.mark.parametrize("row", ["fingerprint", 1.0, [1], None])
def test_what_is_no_row_is_a_type_error(row: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^Rows: found a {type(row).__name__}, expected the number of a row, or a sli"
    ):
        rows_of(3)[row]


def test_the_arrays_that_a_table_is_made_of_stay_as_their_owner_has_them() -> None:
    numbers, distance = u64(range(3)), np.zeros(3, dtype=np.uint16)
    Rows(numbers, None)
    Pairs(numbers, numbers, distance)
    Matches(np.arange(3), numbers, distance, numbers, "stream")
    Additions(mine := np.zeros(3, dtype=bool), numbers, distance, None)
    for array in (numbers, distance, mine):
        assert array.flags.writeable


@every_kind
def test_one_array_of_all_columns_is_refused_as_it_would_round(kind: str) -> None:
    """numpy makes float64 of rows that hold int64 beside uint64."""
    for count in (0, 3):
        for asks in (np.asarray, np.array):
            with pytest.raises(
                TypeError, match=r"^\w+: found one array asked for, expected a column, such as \.\w+, or to"
            ):
                asks(KINDS[kind](count))


@every_kind
def test_columns_cannot_be_changed(kind: str) -> None:
    table = KINDS[kind](3)
    for name, column in columns_of(table).items():
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
        with pytest.raises(AttributeError):
            setattr(table, name, column)


@every_kind
def test_tables_are_equal_where_kind_and_columns_are(kind: str) -> None:
    table = KINDS[kind](3)
    assert table == KINDS[kind](3)
    assert table != KINDS[kind](2)
    assert table != table[::-1]
    others = [other for name, make in KINDS.items() if name != kind for other in [make(3)]]
    assert all(table != other for other in [*others, list(table), None])
    with pytest.raises(TypeError, match="unhashable"):
        hash(table)


@every_kind
def test_a_pickled_table_is_the_same(kind: str) -> None:
    table = KINDS[kind](5)[1:]
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert list(again) == list(table)
    assert not any(column.flags.writeable for column in columns_of(again).values())


def test_how_it_was_found_stays_with_a_slice() -> None:
    assert (matches_of(3)[1:].method, pickle.loads(pickle.dumps(matches_of(1))).method) == ("stream", "stream")


# --- Shown ---


def test_a_table_is_shown_with_its_first_rows() -> None:
    assert repr(matches_of(3)).split("\n") == [
        "<Matches: 3 rows, 2 queries with a match>",
        "query         fingerprint  distance  id",
        "    0  0x0000000000000000         0   0",
        "    0  0x1000000000000000         1   1",
        "    1  0x2000000000000000         2   2",
    ]
    assert repr(additions_of(2)).split("\n") == [
        "<Additions: 1 of 2 stored>",
        "stored   match_fingerprint  match_distance  match_id",
        "  True                                              ",
        " False  0x1000000000000000               1         1",
    ]
    assert repr(matches_of(0)) == "<Matches: 0 rows, 0 queries with a match>"
    assert repr(rows_of(ROWS_SHOWN + 7)).endswith("\n... and 7 more")
    assert repr(rows_of(9).signed()).split("\n")[-1].split() == [str(-(1 << 63)), "8"]


@every_kind
def test_a_notebook_gets_a_table(kind: str) -> None:
    for count in (0, 2, ROWS_SHOWN + 1):
        table = KINDS[kind](count)
        page = table._repr_html_()
        assert page.count("<tr>") == 1 + min(count, ROWS_SHOWN)
        assert [name for name in columns_of(table) if f"<th>{name}</th>" not in page] == []
        assert ("and 1 more" in page) == (count > ROWS_SHOWN)


# --- For others ---


@every_kind
def test_arrow_has_the_same_types_for_every_answer(kind: str) -> None:
    empty, table = KINDS[kind](0), KINDS[kind](4)
    assert empty.schema == table.schema == empty.to_arrow().schema == table.to_arrow().schema
    assert pyarrow.schema(empty) == table.schema
    assert pyarrow.table(table) == table.to_arrow()
    assert [table.schema.field(name).type for name in table.schema.names if "distance" in name] in (
        [],
        [pyarrow.uint16()],
    )


@every_kind
def test_arrow_has_the_values_and_nulls_where_there_is_none(kind: str) -> None:
    table = KINDS[kind](4)
    rows = table.to_arrow().to_pylist()
    for index, row in enumerate(rows):
        for name, column in columns_of(table).items():
            none = isinstance(table, Additions) and name != "stored" and table.stored[index]
            assert row[name] == (None if none else column.tolist()[index])


@pytest.mark.parametrize("name", ["schema", "to_arrow", "__arrow_c_schema__", "__arrow_c_stream__"])
def test_arrow_without_pyarrow_names_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^Arrow needs pyarrow: pip install 'fpstore\[arrow\]'$"):
        getattr(rows_of(1), name)()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"^to_{package} needs {package}: pip install {package}$"):
        getattr(rows_of(1), f"to_{package}")()


# --- Of a store ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s.fpstore", NEAR, ids=[LAST, 1, 2, 3, 4, 5]).close()
    return tmp_path / "s.fpstore"


def everything(store: fpstore.Store) -> list[Any]:
    """Each answer of a store, with rows and without."""
    answers: list[Any] = [
        store.probe(5),
        store.probe(1 << 40),
        store.probe_many(NEAR),
        store.probe_many([]),
        store.nearest_many(NEAR),
        store.nearest_many([]),
        *store.rows(),
        *store.pairs(),
    ]
    if store.mode == "w":
        answers += [store.add_if_new(some, ids=some) for some in ([6], [6, 1 << 30], [])]
    return answers


@pytest.mark.parametrize("mode", ["r", "w"])
def test_signed_is_the_same_bits_in_all_that_comes_out(folder: Path, tmp_path: Path, mode: Any) -> None:
    fpstore.build(tmp_path / "t.fpstore", NEAR, ids=[LAST, 1, 2, 3, 4, 5]).close()
    with fpstore.open(folder, mode) as store, fpstore.open(tmp_path / "t.fpstore", mode, signed=True) as other:
        for plain, signed in zip(everything(store), everything(other), strict=True):
            assert type(plain) is type(signed)
            assert plain.signed() == signed
            for name, column in columns_of(plain).items():
                found = columns_of(signed)[name]
                assert found.dtype == (np.int64 if column.dtype == np.uint64 else column.dtype)
                assert np.array_equal(found.astype(column.dtype), column)
            assert all(-(1 << 63) <= field < 1 << 63 for row in signed for field in row if isinstance(field, int))
        with pickle.loads(pickle.dumps(other)) as again:
            assert again.probe(-1)[0] == Match(0, -1, 0, 4)


def test_signed_fingerprints_of_texts_are_found_again(tmp_path: Path) -> None:
    texts = [f"text number {i} of a few that are long enough to be told apart by their words" for i in range(40)]
    fpstore.create(tmp_path / "s", recipe="multilingual", id_type=None).close()
    with fpstore.open(tmp_path / "s", "w", signed=True) as store:
        found = store.fingerprint_many(texts)
        assert (found.dtype, bool((found < 0).any())) == (np.int64, True)
        store.add(found)
        assert [store.fingerprint(text) for text in texts] == found.tolist()
        assert all(store.probe(key, max_distance=0)[0].fingerprint == key for key in found.tolist())


def test_types_are_the_same_for_every_answer_of_a_store(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        schemas: dict[type, Any] = {}
        for answer in everything(store):
            assert schemas.setdefault(type(answer), answer.schema) == answer.schema
        assert set(schemas) == {Matches, Rows, Pairs, Additions}


def test_rows_come_in_batches_of_at_most_so_many(folder: Path) -> None:
    with fpstore.open(folder) as store:
        (whole,) = store.rows()
        for batch in (1, 2, 5, 7):
            parts = list(store.rows(batch=batch))
            assert [len(part) for part in parts[:-1]] == [batch] * (len(parts) - 1)
            assert [row for part in parts for row in part] == list(whole)
        wrongs: list[tuple[Any, type[Exception]]] = [(0, ValueError), (1.5, TypeError)]
        for wrong, error in wrongs:
            with pytest.raises(error, match=r"^batch: found"):
                store.rows(batch=wrong)


# --- Progress ---


def test_progress_says_its_unit_for_each_phase() -> None:
    found: list[fpstore.Progress] = []
    tell = told(found.append)
    assert tell is not None
    for phase in UNITS:
        tell(phase, 1, None)
    tell("table 2 of 3: sorting", 5, 10)
    assert found == [
        *((phase, 1, None, unit) for phase, unit in UNITS.items()),
        ("table 2 of 3: sorting", 5, 10, "keys"),
    ]
    assert told(None) is None
