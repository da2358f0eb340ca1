"""The one writer of a service: changes that wait go together, none is lost, and each is told what it came to."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import fingerprint_array, uniform

import fpstore
from fpstore import PlanError, Store, StoreClosed
from fpstore.serve import writing
from fpstore.serve.held import Held
from fpstore.serve.writing import Change, Writing, make


class Spied:
    """A store whose calls are counted; the first waits until it may go on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = store.path
        self.calls: list[tuple[str, int]] = []
        self.entered, self.leave = threading.Event(), threading.Event()

    def __getattr__(self, kind: str) -> Any:
        method = getattr(self._store, kind)
        if kind not in ("add", "add_if_new", "remove", "upsert"):
            return method

        def call(*, fingerprints: Any = None, ids: Any = None, **options: Any) -> Any:
            self.calls.append((kind, len(ids if fingerprints is None else fingerprints)))
            self.entered.set()
            assert self.leave.wait(60)
            return method(fingerprints=fingerprints, ids=ids, **options)

        return call


def change(kind: str, keys: list[int] | None, ids: list[int] | None, distance: int | None = None) -> Change:
    return Change(
        kind,
        None if keys is None else fingerprint_array(keys),
        None if ids is None else fingerprint_array(ids),
        distance,
    )


@pytest.fixture
def spied(tmp_path: Path) -> Spied:
    return Spied(fpstore.create(tmp_path / "s"))


def test_changes_that_wait_go_together_and_in_order(spied: Spied) -> None:
    service = Writing(spied)  # type: ignore[arg-type]
    first = service.submit(change("add", [1], [1]))
    assert spied.entered.wait(60)
    changes = [
        change("add", [2], [2]),
        change("add", [3, 4], [3, 4]),
        change("add_if_new", [1 << 20], [5], 0),
        change("add_if_new", [1 << 20, 1 << 30], [6, 7], 0),
        change("add_if_new", [1 << 40], [8], 1),
        change("remove", None, [2]),
        change("remove", [4], [4]),
        change("upsert", [50], [50]),
        change("upsert", [51, 52], [50, 52]),
    ]
    waiting = [service.submit(each) for each in changes]
    spied.leave.set()
    service.close()
    assert spied.calls == [
        ("add", 1),
        ("add", 3),
        ("add_if_new", 3),
        ("add_if_new", 1),
        ("remove", 1),
        ("remove", 1),
        ("upsert", 3),
    ]
    assert first.done()
    assert [future.result().stored.tolist() for future in waiting[2:5]] == [[True], [False, True], [True]]
    assert waiting[3].result().match_id.tolist()[0] == 5
    with fpstore.open(spied.path) as store:
        rows = sorted((row.id or 0, row.fingerprint) for rows in store.rows() for row in rows)
    assert rows == [(1, 1), (3, 3), (5, 1 << 20), (7, 1 << 30), (8, 1 << 40), (50, 51), (52, 52)]
    with pytest.raises(StoreClosed, match=r"s: the service is ending"):
        service.submit(changes[0])


def test_a_group_has_so_many_rows_and_one_alone_may_have_more(spied: Spied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 3)
    service = Writing(spied)  # type: ignore[arg-type]
    service.submit(change("add", [1], [1]))
    assert spied.entered.wait(60)
    for size in (2, 1, 1, 5, 1):
        service.submit(change("add", list(range(size)), list(range(size))))
    spied.leave.set()
    service.close()
    assert [rows for _, rows in spied.calls] == [1, 3, 1, 5, 1]


def test_together_they_come_to_what_they_do_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    keys = np.repeat(uniform(30, rng), 10) ^ (np.uint64(1) << rng.integers(0, 64, 300, dtype=np.uint64))
    parts = [slice(start, start + 7) for start in range(0, 300, 7)]
    ids = np.arange(300, dtype=np.uint64)
    with fpstore.create(tmp_path / "a") as one, fpstore.create(tmp_path / "b") as other:
        alone = [one.add_if_new(keys[part], ids=ids[part]) for part in parts]
        group = [Change("add_if_new", keys[part], ids[part]) for part in parts]
        make(Held(other), group)
        assert [each.done.result() for each in group] == alone
        assert one.count() == other.count() < 300


def test_what_one_did_wrong_is_told_to_that_one(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        group = [change("add", [1], [1]), change("add", [2, 3], [2]), change("add", [4], [4])]
        make(Held(store), group)
        assert [each.done.exception() is None for each in group] == [True, False, True]
        with pytest.raises(ValueError, match="1 ids for 2 fingerprints"):
            group[1].done.result()
        assert store.count() == 2
        group = [change("add_if_new", [9], [9], 60), change("add_if_new", [10], [10], 60)]
        make(Held(store), group)
        assert [type(each.done.exception()) for each in group] == [PlanError] * 2
        assert store.count() == 2


def test_a_change_that_nobody_waits_for_is_not_made(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        group = [change("add", [1], [1]), change("add", [2], [2])]
        assert group[0].done.cancel()
        make(Held(store), group)
        alone = change("add", [3], [3])
        assert alone.done.cancel()
        make(Held(store), [alone])
        assert [row.id for rows in store.rows() for row in rows] == [2]


def test_what_goes_wrong_is_told_to_all_of_a_group_and_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Writing(fpstore.create(tmp_path / "s"))
    with monkeypatch.context() as patch:

        def fail(*arguments: object, **options: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(Store, "add", fail)
        with pytest.raises(OSError, match="No space left"):
            service.submit(change("add", [1], [1])).result(60)
    service.submit(change("add", [2], [2])).result(60)
    service.close()
    with fpstore.open(tmp_path / "s") as store:
        assert store.count() == 1
