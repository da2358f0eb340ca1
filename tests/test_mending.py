"""Who reads everything reads damaged segments too, or is told before the first row."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import uniform

import fpstore
from fpstore import CorruptStore, StoreWarning

SOME = uniform(4000, np.random.default_rng(3))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of SOME, and a folder for temporary files that is looked at at the end."""
    fpstore.build(tmp_path / "s", SOME).close()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "s"


def flip(folder: Path, region: str, table: int | None = None, after: int = 4096) -> Path:
    """Damage a page of a region."""
    with fpstore.open(folder) as store:
        path = store._segments[0].path
        found = next(r for r in store._segments[0].regions() if (r.name, r.table) == (region, table))
    offset = found.offset + min(after, found.bytes - 1)
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    return path


def temporary(folder: Path) -> list[Path]:
    return list((folder.parent / "temporary").iterdir())


@pytest.mark.parametrize("table", [0, 1])
def test_all_is_read_though_a_page_of_a_table_is_damaged(folder: Path, table: int) -> None:
    with fpstore.open(folder) as store:
        expected = [list(batch) for batch in store.rows()]
        pairs = store.count_pairs()
    path = flip(folder, "payload", table)
    with fpstore.open(folder) as store:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert [list(batch) for batch in store.rows()] == expected
            assert store.count_pairs() == pairs
            assert store.count_pairs() == pairs
        # Once, however often it is read; rows need no other table than the first.
        (warning,) = told
        assert warning.category is StoreWarning
        assert str(warning.message).startswith(f"{path}: table {table} payload, page at byte ")
        assert str(warning.message).endswith("; read from its other tables")
        assert temporary(folder) == []


def test_what_no_table_has_is_an_error_before_the_first_row(folder: Path) -> None:
    path = flip(folder, "id values")
    with fpstore.open(folder) as store:
        rows = store.rows()
        with pytest.raises(CorruptStore, match=rf"^{path}: id values, page at byte \d+: .*; \d+ ids are lost, fps"):
            next(rows)
        with pytest.raises(CorruptStore, match=f"^{path}: "):
            store.count_pairs() and list(store.rows())
    flip(folder, "payload", 0)
    for table in (1, 2):
        flip(folder, "payload", table, 5000)
        flip(folder, "payload", table, 9000)
    flip(folder, "directory", 0, 0)
    with fpstore.open(folder) as store, pytest.raises(CorruptStore, match=r"\d+ fingerprints and \d+ ids are lost"):
        list(store.rows())
    assert temporary(folder) == []


def test_a_reader_that_stops_leaves_nothing(folder: Path) -> None:
    flip(folder, "payload", 0)
    with fpstore.open(folder) as store:
        rows = store.rows()
        with pytest.warns(StoreWarning, match="read from its other tables"):
            next(rows)
        assert len(temporary(folder)) == 1
        rows.close()  # type: ignore[attr-defined]
        assert temporary(folder) == []


def test_a_damaged_segment_whose_name_is_gone_is_named(folder: Path) -> None:
    path = flip(folder, "payload", 0)
    with fpstore.open(folder) as store:
        path.unlink()
        with pytest.raises(CorruptStore, match=f"^{path}: table 0 payload, page at byte "):
            list(store.rows())


def test_a_segment_under_whose_name_another_lies_is_not_read_from_that(folder: Path, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "other", SOME ^ np.uint64(1)).close()
    path = flip(folder, "payload", 0)
    (other,) = (tmp_path / "other" / "segments").iterdir()
    with fpstore.open(folder) as store:
        other.rename(path)
        with pytest.raises(CorruptStore, match=f"^{path}: table 0 payload, page at byte "):
            list(store.rows())
