"""Rows that change: looked up by their ids, removed one by one, replaced in one step; and the largest id."""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from living import rows_of

import fpstore
from fpstore import CorruptStore, ReadOnly, StoreClosed, StoreLocked, TooManyMatches
from fpstore.living import live, snapshot
from fpstore.living.sizes import LivingSizes

LAST = (1 << 64) - 1


def u64(values: object) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def found(store: fpstore.Store, ids: object) -> list[tuple[int, int | None]]:
    return [(row.fingerprint, row.id) for row in store.lookup(ids)]


# --- lookup ---


@pytest.mark.parametrize("segments", [0, 1, 3])
@pytest.mark.parametrize("shuffle", [None, 5])
def test_ids_are_found_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segments: int, shuffle: int | None
) -> None:
    # More than a piece of the kernel has, and of the loops around it; groups that cross the samples of 512 bits.
    monkeypatch.setattr(live, "LOOKED_THROUGH", 3000)
    monkeypatch.setattr(snapshot, "PENDING_AT_ONCE", 700)
    rng = np.random.default_rng(1)
    keys = np.repeat(rng.integers(0, 1 << 64, 3000, dtype=np.uint64), rng.integers(1, 4, 3000))
    keys[:1500] = keys[0]
    ids = rng.integers(0, 20_000, len(keys), dtype=np.uint64)
    with fpstore.create(tmp_path / "s", shuffle=shuffle) as store:
        for part in np.array_split(np.arange(len(keys)), max(1, segments)):
            later = part[: len(part) // 5] if segments else part  # some of them are in a segment too
            store.add(keys[later], ids=ids[later])
            if segments:
                earlier = part[len(part) // 10 :]
                store._living._add_segment(keys[earlier], ids[earlier])  # type: ignore[union-attr]
        rows = sorted({(id, key) for key, id in zip(keys.tolist(), ids.tolist(), strict=True)})
        alone = [[id] for id in ids[::500].tolist()]
        for asked in (*alone, [LAST, 0], ids[:50].tolist() * 2, list(range(0, 25_000, 3)), list(range(20_000))):
            wanted = set(asked)
            answer = store.lookup(asked)
            assert isinstance(answer, fpstore.Rows)
            assert answer.id is not None
            pairs = list(zip(answer.id.tolist(), answer.fingerprint.tolist(), strict=True))
            assert pairs == [row for row in rows if row[0] in wanted]


@pytest.mark.parametrize("values", [[0, LAST], [LAST], [7], [1 << 63, (1 << 63) + 5]])
def test_ids_of_every_width_are_found(tmp_path: Path, values: list[int]) -> None:
    with fpstore.build(tmp_path / "s", list(range(1, len(values) + 1)), ids=values) as store:
        asked = sorted({near % (1 << 64) for value in values for near in (value - 1, value, value + 1)})
        assert [row.id for row in store.lookup(asked)] == sorted(values)
        assert found(store, []) == []


def test_a_fingerprint_in_a_crowded_slot_is_found_by_its_id(tmp_path: Path) -> None:
    keys = np.arange(10_000, dtype=np.uint64)  # one slot of many blocks
    with fpstore.build(tmp_path / "s", keys, ids=keys + np.uint64(5), plan="paper-4") as store:
        asked = u64([5, 132, 133, 134, 5000, 10_004])
        assert store.lookup(asked).fingerprint.tolist() == (asked - np.uint64(5)).tolist()
        assert store.lookup(keys + np.uint64(5)).fingerprint.tolist() == keys.tolist()


def test_a_look_up_reads_nothing_where_no_id_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.build(tmp_path / "s", [1, 2, 3], ids=[100, 101, 102]) as built:
        monkeypatch.setattr(live, "WantedIds", None)
        assert found(built, [0, 99, 104, LAST]) == []
        with pytest.raises(TypeError):
            built.lookup([101])


def test_more_rows_than_an_answer_may_have_are_an_error(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add(list(range(9)), ids=[1, 2, 3] * 3)
        store._flush()
        store.add([100], ids=[2])
        store.max_matches = 4
        assert len(store.lookup([2])) == 4
        with pytest.raises(TooManyMatches, match="2 ids: found more than 4 rows, expected at most 4") as caught:
            store.lookup([1, 2])
        assert caught.value.rows == 4


def test_what_a_look_up_cannot_do_is_refused(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "bare", id_type=None).close()
    with fpstore.open(tmp_path / "bare", "w") as bare:
        calls: list[Callable[[], Any]] = [
            lambda: bare.lookup([1]),
            lambda: bare.upsert([1], ids=[1]),
            lambda: bare.remove(ids=[1]),
            lambda: bare.remove(fingerprints=[1], ids=[1]),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="the store has no ids, expected"):
                call()
        assert bare.max_id() is None
        bare.add([5])
        assert bare.max_id() is None
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s") as store:
        with pytest.raises(ReadOnly):
            store.upsert([1], ids=[1])
        with pytest.raises(TypeError, match="ids, item 1: found 'x'"):
            store.lookup([-1, "x"])
    for call in (lambda: store.lookup([1]), store.max_id):
        with pytest.raises(StoreClosed):
            call()


def test_a_store_that_is_closed_meanwhile_ends_a_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.build(tmp_path / "s", list(range(10)), ids=list(range(10))):
        pass
    store = fpstore.open(tmp_path / "s")
    look_up = live.Live.lookup

    def closing(self: live.Live, ids: Any) -> Any:
        for rows in look_up(self, ids):
            store.close()
            yield rows

    monkeypatch.setattr(live.Live, "lookup", closing)
    with pytest.raises(StoreClosed):
        store.lookup([1])


def test_a_damaged_page_of_ids_is_an_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with fpstore.build(tmp_path / "s", rng.integers(0, 1 << 64, 20_000, dtype=np.uint64), ids="row") as store:
        (segment,) = store._segments
        (values,) = (region for region in segment.regions() if region.name == "id values")
    path = tmp_path / "s" / "segments" / "00000001.fpseg"
    data = bytearray(path.read_bytes())
    data[values.offset + values.bytes // 2] ^= 1
    path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store, pytest.raises(CorruptStore, match="ids, page at byte"):
        store.lookup([1])


def test_ids_come_out_signed_where_the_store_was_opened_so(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [LAST, 1], ids=[LAST, 5]).close()
    with fpstore.open(tmp_path / "s", signed=True) as store:
        assert found(store, np.array([-1, 5])) == [(1, 5), (-1, -1)]
        assert store.max_id() == -1
    with fpstore.open(tmp_path / "s") as store:
        assert store.max_id() == LAST


# --- remove ---


def test_removing_an_id_takes_its_rows_and_removing_a_pair_that_pair(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add([5, 6, 5], ids=[7, 7, 8])
        store.remove(ids=[7])
        assert rows_of(store) == [(5, 8)]
        store.add([5, 6], ids=[7, 7])
        store.remove(fingerprints=[5, 6], ids=[7, 8])
        assert rows_of(store) == [(5, 8), (6, 7)]
        store.remove(fingerprints=[5])
        assert rows_of(store) == [(6, 7)]


def test_pairs_are_removed_in_one_step_and_cost_what_they_are(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add([1] * 1000, ids=list(range(1000)))
        before = store._living.snapshot.state
        store.remove(fingerprints=[1, 1, 2], ids=[3, 4, 5])
        state = store._living.snapshot.state
        assert (state.next_change, len(store._living.snapshot.removals)) == (before.next_change + 1, 3)
        assert store.count("rows") == 998
        with pytest.raises(ValueError, match="1 ids for 2 fingerprints: expected one for each"):
            store.remove(fingerprints=[1, 2], ids=[2])
        store.remove(fingerprints=[], ids=[])
        assert store._living.snapshot.state.next_change == state.next_change


def test_removed_pairs_outlive_flushes_merges_and_openings(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    sizes = LivingSizes(flush_rows=4)
    rows = {(key, id) for key in range(20) for id in range(3)}
    for step in range(20):
        with fpstore.Store(tmp_path / "s", "w", sizes=sizes) as store:
            store.add([step] * 3, ids=[0, 1, 2])
            store.remove(fingerprints=[step, step // 2], ids=[1, 2])
            rows -= {(step, 1), (step // 2, 2)}
            if step % 3 == 0:
                store._flush()
            if step == 11:
                store.compact()
    with fpstore.open(tmp_path / "s") as store:
        assert rows_of(store) == sorted(rows)


# --- upsert ---


@pytest.mark.parametrize("flush", [False, True])
def test_an_upsert_replaces_all_rows_of_its_ids(tmp_path: Path, flush: bool) -> None:
    with fpstore.create(tmp_path / "s") as store, fpstore.open(tmp_path / "s") as reader:
        store.add([1, 2, 2, 3], ids=[7, 7, 8, 9])
        if flush:
            store._flush()
        store.upsert([5, 3, 6], ids=[7, 9, 10])
        assert rows_of(store) == rows_of(reader) == [(2, 8), (3, 9), (5, 7), (6, 10)]
        store.upsert([6], ids=[10])  # the largest id there is
        store.upsert([4], ids=[10])
        assert rows_of(reader) == [(2, 8), (3, 9), (4, 10), (5, 7)]
        store.compact()
        assert rows_of(reader) == [(2, 8), (3, 9), (4, 10), (5, 7)]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=12), st.integers(0, 12))
def test_an_upsert_is_that_of_its_rows_one_by_one(rows: list[tuple[int, int]], cut: int) -> None:
    def stored(parts: list[list[tuple[int, int]]]) -> object:
        with tempfile.TemporaryDirectory() as folder, fpstore.create(Path(folder) / "s") as store:
            store.add([1, 2, 3], ids=[1, 1, 2])
            for part in parts:
                store.upsert([key for key, _ in part], ids=[id for _, id in part])
            return rows_of(store)

    last = {1: {1, 2}, 2: {3}} | {id: {key} for key, id in rows}
    expected = sorted((key, id) for id, keys in last.items() for key in keys)
    assert stored([rows]) == stored([rows[:cut], rows[cut:]]) == stored([[row] for row in rows]) == expected


def test_an_upsert_is_durable_and_takes_what_waits_along(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w", durability="batch") as store, fpstore.open(tmp_path / "s") as reader:
        store.add([1], ids=[7])
        assert rows_of(reader) == []
        store.upsert([2], ids=[7])
        assert rows_of(reader) == [(2, 7)]
        store.upsert([], ids=[])
        with pytest.raises(ValueError, match="1 ids for 2 fingerprints"):
            store.upsert([1, 2], ids=[1])
        with pytest.raises(TypeError):
            store.upsert([1])  # type: ignore[call-arg]


def test_more_rows_than_one_step_takes_are_refused(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.Store(tmp_path / "s", "w", sizes=LivingSizes(batch_rows=3)) as store:
        store.upsert([1, 2, 3], ids=[1, 2, 3])
        with pytest.raises(ValueError, match="found 4 fingerprints to store in place of others, expected at most 3"):
            store.upsert([1, 2, 3, 4], ids=[1, 2, 3, 4])
        assert len(rows_of(store)) == 3


def test_an_upsert_of_new_ids_logs_no_removal(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.upsert([1, 2], ids=[4, 9])
        assert len(store._living.snapshot.removals) == 0
        store.upsert([3, 4, 5], ids=[9, 10, 6])
        assert store._living.snapshot.removals.ids_since(0).tolist() == [6, 9]
        assert rows_of(store) == [(1, 4), (3, 9), (4, 10), (5, 6)]


def test_what_the_page_says_of_rows(tmp_path: Path) -> None:
    changes: list[tuple[Callable[[fpstore.Store], None], list[tuple[int, int]]]] = [
        (lambda store: store.remove(ids=[7]), [(5, 8)]),
        (lambda store: store.remove(fingerprints=[5]), [(6, 7)]),
        (lambda store: store.remove(fingerprints=[5], ids=[7]), [(5, 8), (6, 7)]),
        (lambda store: store.upsert([9], ids=[7]), [(5, 8), (9, 7)]),
    ]
    for index, (change, left) in enumerate(changes):
        with fpstore.create(tmp_path / str(index)) as store:
            store.add([5, 6, 5], ids=[7, 7, 8])
            change(store)
            assert rows_of(store) == left


@pytest.mark.slow
def test_a_reader_sees_old_rows_or_new_ones(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    ids = list(range(50))
    done = threading.Event()

    def write() -> None:
        with fpstore.Store(tmp_path / "s", "w", sizes=LivingSizes(flush_rows=200)) as store:
            for key in range(1, 150):
                store.upsert([key] * len(ids), ids=ids)
        done.set()

    with fpstore.open(tmp_path / "s") as reader:
        thread = threading.Thread(target=write)
        thread.start()
        while not done.is_set():
            seen = [{row.fingerprint for row in answer} for answer in (reader.lookup(ids), *reader.rows())]
            assert all(len(keys) <= 1 for keys in seen)
            assert len(reader.lookup(ids)) in (0, len(ids))
        thread.join()
        assert rows_of(reader) == [(149, id) for id in ids]


# --- max_id ---


def test_the_largest_id_is_that_of_all_that_was_ever_stored(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fpstore.create(path).close()
    with fpstore.Store(path, "w", sizes=LivingSizes(flush_rows=100)) as store, fpstore.open(path) as reader:
        assert (store.max_id(), reader.max_id()) == (None, None)
        steps: list[tuple[Callable[[], object], int | None]] = [
            (lambda: store.add([1, 2], ids=[3, 0]), 3),
            (lambda: store.remove(ids=[3]), 3),
            (lambda: store.add([4], ids=[2]), 3),
            (lambda: store.add_if_new([LAST, 4], ids=[8, 9]), 8),
            (lambda: store.upsert([5], ids=[11]), 11),
            (store.compact, 11),
            (lambda: store.add(list(range(200)), ids=list(range(200, 400))), 399),  # a segment of its own
            (lambda: store.add(list(range(200)), ids=list(range(200))), 399),
            (lambda: store.remove(ids=list(range(500))), 399),
            (store.compact, 399),
        ]
        for step, expected in steps:
            step()
            assert (store.max_id(), reader.max_id()) == (expected, expected)
        store.copy(tmp_path / "copy")
    for folder in (path, tmp_path / "copy"):
        with fpstore.open(folder) as opened:
            assert opened.max_id() == 399
            assert opened.count() == 0


def test_an_addition_that_waits_counts_for_the_largest_id(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w", durability="batch") as store, fpstore.open(tmp_path / "s") as reader:
        store.add([1], ids=[7])
        assert (store.max_id(), reader.max_id()) == (7, None)
        store.sync()
        assert reader.max_id() == 7


def test_a_build_in_place_and_a_recovery_begin_with_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with fpstore.build(path, [1, 2], ids=[5, 90]) as built:
        assert built.max_id() == 90
        with fpstore.build(path, [1], ids=[4], force=True) as again:
            assert again.max_id() == 4
        assert built.max_id() == 4
    with fpstore.open(path, "w") as store:
        store.add([3, 4], ids=[6, 7])
        store.remove(ids=[7])
    fpstore.recover(path, tmp_path / "new")
    with fpstore.open(tmp_path / "new") as recovered:
        assert recovered.max_id() == 6
    with fpstore.build(tmp_path / "bare", [1], ids=None) as bare, fpstore.build(tmp_path / "e", [], ids=[]) as empty:
        assert (bare.max_id(), empty.max_id()) == (None, None)


# --- create ---

GIVEN = {"id_type": None, "max_distance": 2, "codec": "rice", "plan": "flips-2:1,0", "recipe": "web-en", "mode": 0o640}


def test_a_store_that_is_there_is_opened_where_it_is_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for count in range(2):
        with fpstore.create(path, exist_ok=True, **GIVEN) as store:  # type: ignore[arg-type]
            assert (store.mode, store.count()) == ("w", count)
            store.add([5])
    with pytest.raises(FileExistsError):
        fpstore.create(path, **GIVEN)  # type: ignore[arg-type]
    with fpstore.create(path, exist_ok=True, id_type=None, max_distance=2, codec="rice", plan="speed") as store:
        assert store.count() == 1  # no plan was named, no recipe and no mode given
        with pytest.raises(StoreLocked):
            fpstore.create(path, exist_ok=True, **GIVEN)  # type: ignore[arg-type]
    fpstore.build(tmp_path / "built", list(range(10)), plan="size").close()
    fpstore.create(tmp_path / "built", exist_ok=True).close()
    fpstore.create(tmp_path / "shuffled", shuffle=5).close()
    fpstore.create(tmp_path / "shuffled", exist_ok=True, shuffle=5).close()
    with pytest.raises(ValueError, match=r"plan: found 'flips-.*', expected 'flips-.* with the tables"):
        fpstore.create(tmp_path / "shuffled", exist_ok=True, shuffle=6)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"id_type": "uint64"}, "id_type: found None, expected 'uint64'"),
        ({"max_distance": 1}, "max_distance: found 2, expected 1"),
        ({"codec": "gap"}, "codec: found 'rice', expected 'gap'"),
        ({"plan": "paper-4"}, "plan: found 'flips-2:1,0', expected 'paper-4 with the tables that were given'"),
        ({"recipe": "zh"}, "recipe: found 'web-en', expected 'zh with the fields that were given'"),
        ({"mode": 0o600}, "mode: found '0o750', expected '0o700'"),
    ],
)
def test_a_store_with_other_settings_than_were_given_is_refused(
    tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    fpstore.create(tmp_path / "s", **GIVEN).close()  # type: ignore[arg-type]
    for _ in range(2):  # it is let go of
        with pytest.raises(ValueError, match=f"^{tmp_path / 's'}: {said}"):
            fpstore.create(tmp_path / "s", exist_ok=True, **(GIVEN | other))
    fpstore.create(tmp_path / "plain").close()
    with pytest.raises(ValueError, match="recipe: found None, expected 'zh with"):
        fpstore.create(tmp_path / "plain", exist_ok=True, recipe="zh")


def test_what_is_no_store_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        with pytest.raises(fpstore.NotAStore):
            fpstore.create(tmp_path / name, exist_ok=True)
