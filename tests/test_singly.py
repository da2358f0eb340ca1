"""Rows tested and added one at a time with durability "batch": decided, found, masked and written as any other."""

# mypy: disable-error-code="arg-type, attr-defined, union-attr"

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from living import MORE, SOME, rows_of, store_of_some, writer_of

import fpstore
from fpstore import Addition, CorruptStore, Match, StoreClosed
from fpstore.living import renewal
from fpstore.living.live import alive
from fpstore.store import Store
from fpstore.types import Keys

FIRST = 1000  # an id that no row of SOME has


def writer_beside(path: Path, **sizes: int) -> Store:
    """The writer of a store of SOME, to which a first row of MORE was added, so that the next ones are added singly."""
    store = writer_of(store_of_some(path), "batch", **sizes)
    assert store.add_if_new([int(MORE[0])], ids=[FIRST]).stored.all()
    return store


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with writer_beside(tmp_path / "store") as store:
        yield store


def is_added(store: Store, row: int) -> bool:
    """Whether a row of MORE is added in one call, which it is where it can be."""
    found = store._singly.add_if_new([int(MORE[row])], [FIRST + row], None)
    assert found is None or found.stored.all()
    return found is not None


def rows_with(*rows: int) -> list[tuple[int, int | None]]:
    some = [(key, id) for id, key in enumerate(SOME.tolist())]
    return sorted([*some, *((int(MORE[row]), FIRST + row) for row in rows)])


def test_a_new_row_is_added_in_one_call_and_found_by_this_process(store: Store) -> None:
    for row in range(1, 9):
        assert is_added(store, row)
        assert store.probe(int(MORE[row])).id.tolist() == [FIRST + row]
    assert rows_of(store) == rows_with(*range(9))
    assert store.max_id() == FIRST + 8


def test_a_row_that_is_near_another_is_told_its_nearest(store: Store) -> None:
    assert is_added(store, 1)
    for key, id in ((int(SOME[5]), 5), (int(MORE[0]), FIRST), (int(MORE[1]), FIRST + 1)):
        found = store._singly.add_if_new((key ^ 0b101,), (7,), None)
        assert [*found] == [Addition(False, Match(0, key, 2, id))]
        assert store._singly.add_if_new([key ^ 0b101], [7], 1).stored.all()
    assert store.count("rows") == len(SOME) + 2 + 3


@given(
    st.lists(st.tuples(st.sampled_from("nnnnnaprfsc"), st.integers(0, 9), st.integers(0, 2)), max_size=24),
    st.booleans(),
)
@settings(deadline=None, max_examples=20)
def test_any_history_comes_to_what_a_plain_loop_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], with_ids: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "store"
    fpstore.create(path, id_type="uint64" if with_ids else None, plan="paper-4", max_distance=3).close()
    rows: set[tuple[int, int | None]] = set()
    store = writer_of(path, "batch", growth=0)
    for step, number, id in steps:
        key, own, ids = number * 0x11, id if with_ids else None, [id] if with_ids else None
        near = {row for row in rows if (row[0] ^ key).bit_count() <= 3}
        if step == "n":
            found = store.add_if_new([key], ids=ids)
            assert found.stored.tolist() == [not near]
            if near:
                distance, nearest, *_ = min(((row[0] ^ key).bit_count(), *row) for row in near)
                assert [found[0].match.distance, found[0].match.fingerprint] == [distance, nearest]
            else:
                rows.add((key, own))
        elif step == "a":
            store.add([key], ids=ids)
            rows.add((key, own))
        elif step == "p":
            assert {*store.probe(key).fingerprint.tolist()} == {row[0] for row in near}
        elif step == "r":
            store.remove(fingerprints=[key])
            rows = {row for row in rows if row[0] != key}
        elif step == "f":
            store._flush()
        elif step == "s":
            store.sync()
            with fpstore.open(path) as reader:
                assert rows_of(reader) == sorted(rows)
        else:
            store.close()
            store = writer_of(path, "batch", growth=0)
    assert rows_of(store) == sorted(rows)
    store.close()
    with fpstore.open(path) as reader:
        assert rows_of(reader) == sorted(rows)
        reader.verify()


@pytest.mark.parametrize(
    "given",
    [
        ([1, 2], [1, 2], None),
        ([], [], None),
        ([True], [1], None),
        ([1.0], [1], None),
        ([1 << 64], [1], None),
        ([-1 << 64], [1], None),
        ([1], [1 << 64], None),
        ([1], ["1"], None),
        ([1], [1, 2], None),
        ([1], None, None),
        (1, [1], None),
        ([1], [1], 4),
        ([1], [1], -1),
        ([1], [1], 1.0),
        (np.array([1], dtype=np.uint8), [1], None),
        (np.array([[1]], dtype=np.uint64), [1], None),
        (np.array([1, 2], dtype=np.uint64), [1], None),
        (np.array([1.0]), [1], None),
        (np.array(1, dtype=np.uint64), [1], None),
        (np.ma.masked_array([1], [True], dtype=np.uint64), [1], None),
        ({1}, {1}, None),
    ],
    ids=str,
)
def test_what_is_uncommon_is_left_to_the_general_way(store: Store, given: tuple[Any, Any, Any]) -> None:
    assert store._singly.add_if_new(*given) is None
    assert given[2] is not None or store._singly.add(*given[:2]) is False
    assert rows_of(store) == rows_with(0)


def test_a_row_is_added_in_one_call_whatever_it_is_near(store: Store) -> None:
    near = int(MORE[0]) ^ 1
    assert store._singly.add([near], [7])
    assert store._singly.add([int(MORE[0])], [FIRST])  # the row that is there already
    assert store.probe(near).fingerprint.tolist() == [near, int(MORE[0])]
    store.sync()
    with fpstore.open(store.path) as reader:
        assert rows_of(reader) == sorted([*rows_with(0), (near, 7)])


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_arrays_of_one_are_taken_too(store: Store, dtype: type) -> None:
    keys: Keys = np.array([MORE[1], MORE[2], 2**64 - 1], dtype=np.uint64).view(dtype)
    ids: Keys = np.arange(2000, 2003, dtype=dtype)
    assert store._singly.add_if_new(keys[:1], ids[:1], None).stored.all()
    assert store._singly.add(keys[1:2], ids[1:2])
    assert store._singly.add(keys[::2][1:], (7,))
    expected = [*rows_with(0), (int(MORE[1]), 2000), (int(MORE[2]), 2001), (2**64 - 1, 7)]
    assert rows_of(store) == sorted(expected)


def test_a_row_of_add_alone_lets_the_next_ones_be_added_in_one_call(tmp_path: Path) -> None:
    with writer_of(store_of_some(tmp_path / "store"), "batch") as store:
        store.add(MORE[:2], ids=[FIRST, FIRST + 1])
        assert not is_added(store, 2)
        store.add([int(MORE[2])], ids=[FIRST + 2])
        assert is_added(store, 3)
        assert rows_of(store) == rows_with(0, 1, 2, 3)


def test_ids_are_not_taken_by_a_store_without(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "bare", id_type=None).close()
    with writer_of(tmp_path / "bare", "batch") as store:
        store.add_if_new([1 << 20])
        assert store._singly.add_if_new([1 << 40], [1], None) is None
        assert store._singly.add_if_new([-1], None, None).stored.all()
        assert store.probe(-1).fingerprint.tolist() == [2**64 - 1]
        assert store.count() == 2


def test_narrow_fingerprints_have_no_more_bits(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "narrow", id_type=None, bits=32).close()
    with writer_of(tmp_path / "narrow", "batch") as store:
        store.add_if_new([1])
        assert store._singly.add_if_new([1 << 32], None, None) is None
        assert store._singly.add_if_new([(1 << 32) - 1], None, None).stored.all()


@pytest.mark.parametrize("kind", ["commit", "string", "wide"])
def test_other_stores_and_durabilities_go_the_general_way(tmp_path: Path, kind: str) -> None:
    id_type = "string" if kind == "string" else None
    options: dict[str, Any] = {"bits": 128, "max_distance": 9} if kind == "wide" else {}
    fpstore.create(tmp_path / "store", id_type=id_type, **options).close()
    with writer_of(tmp_path / "store", "commit" if kind == "commit" else "batch") as store:
        for row in range(3):
            assert store.add_if_new([1 << 9 * row], ids=["abc"[row]] if id_type else None).stored.all() == (row == 0)
        assert store._singly.add_if_new([1 << 50 | 7 << 9], None, None) is None


@pytest.mark.parametrize("ends", ["sync", "a removal", "another addition", "a flush", "compact", "close"])
def test_what_ends_a_batch_writes_them(tmp_path: Path, ends: str) -> None:
    """In their order: what was added after the removal of a fingerprint stays."""
    with writer_beside(tmp_path / "store") as store, fpstore.open(tmp_path / "store") as reader:
        assert is_added(store, 1)
        assert is_added(store, 2)
        assert rows_of(reader) == rows_with()
        expected = rows_with(0, 1, 2)
        if ends == "sync":
            store.sync()
        elif ends == "a removal":
            store.remove(fingerprints=MORE[1:2])
            expected = rows_with(0, 2)
        elif ends == "another addition":
            store.add(MORE[1:2], ids=[FIRST + 1])
            store.sync()
        elif ends == "a flush":
            store._flush()
        elif ends == "compact":
            store.compact()
        else:
            store.close()
        assert rows_of(reader) == expected
        assert reader._latest.state.max_id == FIRST + 2


def test_rows_that_wait_are_one_record_of_the_log(store: Store) -> None:
    for row in range(1, 100):
        assert is_added(store, row)
    first = store._latest.state.first_change
    store.sync()
    assert store._latest.state.next_change == first + 2  # that of the row before them, and theirs
    with fpstore.open(store.path) as reader:
        assert rows_of(reader) == rows_with(*range(100))


def test_what_was_removed_does_not_come_back_and_what_is_added_later_stays(store: Store) -> None:
    assert is_added(store, 1)
    store.remove(fingerprints=MORE[:2])
    assert store.add_if_new([int(MORE[0])], ids=[FIRST]).stored.all()
    assert is_added(store, 1)
    store.sync()
    with fpstore.open(store.path) as reader:
        assert rows_of(reader) == rows_of(store) == rows_with(0, 1)


def test_a_state_that_is_held_has_the_rows_of_its_time(store: Store) -> None:
    assert is_added(store, 1)
    rows = store.rows(batch=7)
    before = store._latest
    assert is_added(store, 2)
    assert sum(len(batch) for batch in rows) == before.row_count == len(SOME) + 2
    assert store._latest.row_count == len(SOME) + 3
    assert before.state.max_id == FIRST + 1


def test_a_state_of_some_of_the_rows_has_no_more(store: Store) -> None:
    """As one thread makes it while another adds."""
    before = store._latest
    for row in (1, 2, 3):
        assert is_added(store, row)
    some = before.with_single_rows(2, FIRST + 2)
    assert (some.pending_count, some.row_count, some.state.max_id) == (3, len(SOME) + 3, FIRST + 2)
    assert len(some.single.probe(None, int(MORE[3]), 0, False)) == 0


@pytest.mark.parametrize("bound", ["flush_rows", "deferred_rows"])
def test_what_is_due_is_done_after_so_many_rows(tmp_path: Path, bound: str) -> None:
    with writer_beside(tmp_path / "store", **{bound: 20}) as store, fpstore.open(tmp_path / "store") as reader:
        for row in range(1, 19):
            assert is_added(store, row)
        assert rows_of(reader) == rows_with()
        assert not is_added(store, 19)
        store.add_if_new([int(MORE[19])], ids=[FIRST + 19])
        store.wait()
        assert rows_of(reader) == rows_with(*range(20))
        assert len(store._latest.parts) == (2 if bound == "flush_rows" else 1)


def test_a_record_has_no_more_rows_than_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.living.singly.RECORD_WORDS", 8)
    with writer_beside(tmp_path / "store") as store:
        assert [is_added(store, row) for row in range(1, 6)] == [True] * 4 + [False]
        for row in range(5, 40):
            assert store.add_if_new([int(MORE[row])], ids=[FIRST + row]).stored.all()
        store.sync()
        assert rows_of(store) == rows_with(*range(40))


def test_a_pending_index_that_is_full_is_grown_in_the_general_way(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "store", id_type=None, max_distance=0).close()
    with writer_of(tmp_path / "store", "batch") as store:
        for key in range(1500):  # there is room for 1,024 at first
            assert store.add_if_new([key]).stored.all()
        assert store.count() == 1500


def test_none_is_added_while_a_flush_is_under_way_and_its_error_is_told_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def failing(*given: Any) -> Any:
        begun.set()
        go_on.wait()
        raise OSError("no room")

    monkeypatch.setattr(renewal, "segment_of_rows", failing)
    with writer_beside(tmp_path / "store") as store:
        assert is_added(store, 1)
        with store._expect_writer()._ready():
            store._expect_writer()._start_flush(1)
        try:
            assert begun.wait(60)
            store.add_if_new([int(MORE[2])], ids=[FIRST + 2])
            store.add_if_new([int(MORE[3])], ids=[FIRST + 3])
            assert not is_added(store, 4)
        finally:
            go_on.set()
        store._expect_writer()._flush_job.wait()
        monkeypatch.undo()
        assert not is_added(store, 4)
        with pytest.raises(OSError, match="no room"):
            store.add_if_new([int(MORE[4])], ids=[FIRST + 4])
        assert rows_of(store) == rows_with(0, 1, 2, 3)


def test_none_is_added_while_an_error_is_still_to_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush that fails just after the last addition was begun."""
    with writer_beside(tmp_path / "store") as store:
        writer = store._expect_writer()

        def failing(*given: Any) -> Any:
            raise OSError("no room")

        monkeypatch.setattr(renewal, "segment_of_rows", failing)
        with writer._ready():
            writer._start_flush(1)
        writer._flush_job.wait()
        writer._let_add(writer._deferred, writer.sizes, writer._flush_job)
        assert not is_added(store, 2)


def test_one_who_holds_the_lock_is_not_waited_for(store: Store) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store._expect_writer()._lock:
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert held.wait(60)
        assert not is_added(store, 1)
    finally:
        done.set()
        other.join()
    assert is_added(store, 1)


def test_threads_that_add_the_same_rows_store_each_once(store: Store) -> None:
    stored: list[int] = []

    def work() -> None:
        for row in range(1, 200):
            if store.add_if_new([int(MORE[row])], ids=[FIRST + row]).stored.all():
                stored.append(row)
            assert len(store.probe(int(MORE[row])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stored) == list(range(1, 200))
    store.sync()
    with fpstore.open(store.path) as reader:
        assert rows_of(reader) == rows_with(*range(200))


@pytest.mark.parametrize("what", ["sync", "add near it", "add far off"])
def test_what_is_done_in_the_midst_of_an_addition_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As by the handler of a signal: here by what tells whether a row that was found lives."""
    lives, key = alive, int(SOME[0]) ^ 1
    left = [what]

    def meanwhile(*given: Any) -> Any:
        now = left.pop() if left else None
        if now == "sync":
            store.sync()
        elif now == "add near it":
            store.add([key ^ 2], ids=[1])
        elif now == "add far off":
            store.add([int(MORE[5])], ids=[FIRST + 5])
        return lives(*given)

    monkeypatch.setattr("fpstore.living.snapshot.alive", meanwhile)
    with writer_of(store_of_some(tmp_path / "store"), "batch") as store:
        store.remove(fingerprints=SOME[:1])
        store.add([int(MORE[0])], ids=[FIRST])
        found = store.add_if_new([key], ids=[FIRST + 1])
        assert not left
        expected = rows_with(0, 5) if what == "add far off" else rows_with(0)
        expected.remove((int(SOME[0]), 0))
        expected += [(key ^ 2, 1)] * (what == "add near it")
        assert found.stored.all() == (what != "add near it")
        expected += [(key, FIRST + 1)] * bool(found.stored.all())
        assert sorted((row.fingerprint, row.id) for rows in store.rows() for row in rows) == sorted(expected)
    with fpstore.open(tmp_path / "store") as reader:
        assert sorted((row.fingerprint, row.id) for rows in reader.rows() for row in rows) == sorted(expected)


def closed(store: Store) -> None:
    store.close()


def gone(store: Store) -> None:
    store._expect_writer()._catalog.changed("it was moved away")


@pytest.mark.parametrize("how", [closed, gone])
def test_nothing_is_added_to_what_is_there_no_longer(tmp_path: Path, how: Callable[[Store], None]) -> None:
    store = writer_beside(tmp_path / "store")
    how(store)
    assert not is_added(store, 1)
    with pytest.raises((StoreClosed, fpstore.StoreChanged)):
        store.add_if_new([int(MORE[1])], ids=[FIRST + 1])
    store.close()


def test_a_child_adds_nothing(store: Store) -> None:
    child = os.fork()
    if not child:
        os._exit(is_added(store, 1))
    assert os.waitpid(child, 0)[1] == 0


def test_damage_is_found_and_named_in_the_general_way(tmp_path: Path) -> None:
    path = store_of_some(tmp_path / "store")
    (segment,) = (path / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[5000:-5000] = b"\xff" * len(data[5000:-5000])
    segment.write_bytes(data)
    with writer_of(path, "batch") as store:
        writer = store._expect_writer()
        writer._let_add(writer._deferred, writer.sizes)
        assert store._singly.add_if_new([int(MORE[0])], [FIRST], None) is None
        with pytest.raises(CorruptStore):
            store.add_if_new([int(MORE[0])], ids=[FIRST])


def test_rows_that_nobody_has_taken_are_not_passed_over(store: Store) -> None:
    snapshot = store._latest
    assert is_added(store, 1)
    with pytest.raises(ValueError, match="found 1 rows that nobody has taken, expected none"):
        store._singly.snapshot = snapshot
    writer = store._expect_writer()
    with pytest.raises(ValueError, match="found 1 rows that nobody has taken, expected none"):
        writer._let_add(writer._deferred, writer.sizes)
    assert rows_of(store) == rows_with(0, 1)


def test_answers_are_by_the_recipe_of_their_own_store_alone(tmp_path: Path) -> None:
    """They were by that of another store, to which a row was added before."""
    fpstore.create(tmp_path / "texts", id_type=None, recipe="text-1").close()
    fpstore.create(tmp_path / "bare", id_type=None).close()
    with writer_of(tmp_path / "texts", "batch") as texts, writer_of(tmp_path / "bare", "batch") as bare:
        for _ in range(2):
            texts.add_if_new([int(MORE[0])])
        own = [texts.add_if_new([int(key)]) for key in MORE[1:3]] + [texts.add_if_new([int(MORE[1])])]
        others = [bare.add_if_new([int(key)]) for key in MORE[1:3]] + [bare.add_if_new([int(MORE[1])])]
    assert [each._made_by is None for each in own] == [False] * 3
    assert [each._made_by is None for each in others] == [True] * 3


def test_signed_answers_are_signed(tmp_path: Path) -> None:
    path = store_of_some(tmp_path / "store")
    with fpstore.open(path, "w", durability="batch", signed=True) as store:
        for row in (0, 1, 1):
            found = store.add_if_new([int(MORE[row])], ids=[-row])
            assert {found.match_fingerprint.dtype, found.match_id.dtype} == {np.dtype(np.int64)}
        assert found.match_id.tolist() == [-1]
