"""Single queries in one call: they answer as a batch does in every state of a store; where they cannot, say nothing."""

# mypy: disable-error-code="arg-type, index, union-attr"

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from helpers import LAST, fingerprint_array, flipped, queries_near, uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from living import MORE, SOME, writer_of

import fpstore
import fpstore.minhash
from fpstore import CorruptStore, StoreClosed
from fpstore._answers import Answers
from fpstore._pending import PendingIndex
from fpstore._reaches import Reaches
from fpstore._single import Segments, Single
from fpstore._watch import Watch
from fpstore.living.sizes import LivingSizes
from fpstore.query.matches import Matches
from fpstore.store import Store

ALWAYS = Watch(sure=True)
ANSWERS = Answers(Matches, None, False, False)
# What a store has been through: rows in segments, rows pending, and what was removed of both.
STATES = (
    "empty",
    "pending",
    "one segment",
    "segments",
    "segments and pending",
    "the same rows in several places",
    "removed",
    "removed and added again",
)
ID_TYPES = (None, "uint64", "string", "bytes")
HALF = fingerprint_array([key ^ 0b11 for key in SOME[:50].tolist()])


def ids_for(first: int, count: int, id_type: str | None) -> Any:
    numbers = list(range(first, first + count))
    if id_type == "string":
        return [f"name {number % 40} of {number}" for number in numbers]
    if id_type == "bytes":
        return [b"%d" % number for number in numbers]
    return np.array(numbers, dtype=np.uint64) if id_type else None


def fill(store: fpstore.Store, state: str, id_type: str | None) -> None:
    def add(keys: Any, first: int) -> None:
        store.add(keys, ids=ids_for(first, len(keys), id_type))

    if state == "empty":
        return
    add(SOME, 0)
    if state != "pending":
        store._flush()
    if state in ("segments", "segments and pending"):
        for first in (0, 100):
            add(MORE[first : first + 100], 1000 + first)
            add(HALF, 1200 + first)
            store._flush()
    if state == "segments and pending":
        add(MORE[200:], 2000)
        add(SOME[:60], 3000)
    if state == "the same rows in several places":
        for _ in range(2):
            add(SOME[:100], 0)
            store._flush()
        add(SOME[:50], 0)
    if state.startswith("removed"):
        add(MORE, 1000)
        store.remove(fingerprints=SOME[:40])
        store.remove(fingerprints=MORE[:40])
        if id_type:
            store.remove(ids=ids_for(60, 20, id_type))
            store.remove(fingerprints=SOME[100:120], ids=ids_for(100, 20, id_type))
            store.remove(fingerprints=MORE[100:120], ids=ids_for(1100, 20, id_type))
    if state == "removed and added again":
        add(SOME[20:30], 20)
        add(HALF, 4000)


@pytest.fixture(params=ID_TYPES, ids=str)
def id_type(request: pytest.FixtureRequest) -> str | None:
    return str(request.param) if request.param else None


@pytest.fixture(params=STATES)
def path(tmp_path: Path, request: pytest.FixtureRequest, id_type: str | None) -> Path:
    """A store in one of the states."""
    path = tmp_path / "store"
    fpstore.create(path, id_type=id_type, plan="paper-4").close()
    with writer_of(path, growth=0) as store:
        fill(store, request.param, id_type)
    return path


def queries() -> list[int]:
    near = queries_near(np.concatenate([SOME, MORE]), 60, 3, np.random.default_rng(5)).tolist()
    far = uniform(10, np.random.default_rng(6)).tolist()
    return [*SOME[:130:3].tolist(), *MORE[:130:3].tolist(), *near, *far, 0, LAST]


@pytest.mark.parametrize("signed", [False, True])
def test_a_single_query_is_answered_as_in_a_batch(path: Path, signed: bool) -> None:
    asked = np.array(queries(), dtype=np.uint64)
    with fpstore.open(path, signed=signed) as store:
        for distance in (None, 0, 3):
            expected = store.probe_many(asked, max_distance=distance)
            for index, query in enumerate(asked.tolist()):
                one = store.probe(query, max_distance=distance)
                own = expected.query == index
                ids = None if expected.id is None else expected.id[own]
                nothing = np.zeros(int(own.sum()), dtype=np.int64)
                assert one == Matches(nothing, expected.fingerprint[own], expected.distance[own], ids)
                assert store.contains_near(query, max_distance=distance) is bool(own.any())


def test_what_is_common_is_answered_in_one_call(path: Path) -> None:
    with fpstore.open(path) as store:
        snapshot = store._latest
        for query in queries():
            found = snapshot.single.probe(ALWAYS, query, None, False)
            assert found == snapshot.search(np.array([query], dtype=np.uint64), store.max_distance)
            assert snapshot.single.contains(ALWAYS, query, None) is (len(found) > 0)
            assert snapshot.single.nearest(query, store.max_distance) == found[:1]
            assert snapshot.single.each(np.array([query], dtype=np.uint64), 3, False) is not None


@given(
    st.lists(st.tuples(st.sampled_from("afrpi"), st.integers(0, 4), st.integers(0, 2)), max_size=16),
    st.booleans(),
)
@settings(deadline=None, max_examples=8)
def test_any_history_is_answered_as_by_looking_at_all_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], with_ids: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "store"
    fpstore.create(path, id_type="uint64" if with_ids else None, plan="paper-4", max_distance=3).close()
    rows: set[tuple[int, int | None]] = set()
    with writer_of(path, growth=0) as store:
        for step, number, id in steps:
            key, own = number * 0x0101, id if with_ids else None
            ids = [id] if with_ids else None
            if step == "a":
                store.add([key], ids=ids)
                rows.add((key, own))
            elif step == "f":
                store._flush()
            elif step == "r":
                store.remove(fingerprints=[key])
                rows = {row for row in rows if row[0] != key}
            elif step == "p" and with_ids:
                store.remove(fingerprints=[key], ids=[id])
                rows.discard((key, id))
            elif step == "i" and with_ids:
                store.remove(ids=[id])
                rows = {row for row in rows if row[1] != id}
            query = key ^ 1
            near = sorted(((row[0] ^ query).bit_count(), *row) for row in rows if (row[0] ^ query).bit_count() <= 3)
            found = store.probe(query)
            ids_found = [None] * len(found) if found.id is None else found.id.tolist()
            assert list(zip(found.distance.tolist(), found.fingerprint.tolist(), ids_found, strict=True)) == near
            assert store.contains_near(query) is bool(near)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[fpstore.Store]:
    with fpstore.build(tmp_path / "store", [*SOME.tolist(), 5, LAST - 1], plan="paper-4") as store:
        yield store


@pytest.mark.parametrize(
    ("given_as", "key"),
    [
        (4, 4),
        (LAST, LAST),
        (-1, LAST),
        (-2, LAST - 1),
        (-(1 << 63), 1 << 63),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, 1 << 63),
        *((number, number) for place in (30, 60) for number in ((1 << place) - 1, 1 << place, 3 << place)),
    ],
)
def test_an_int_of_64_bits_with_a_sign_or_without_is_answered_in_one_call(
    store: fpstore.Store, given_as: int, key: int
) -> None:
    found = store._latest.single.probe(ALWAYS, given_as, None, False)
    assert found == store.probe_many([key])
    assert store.probe(given_as) == found
    least = min((key ^ row).bit_count() for row in [*SOME.tolist(), 5, LAST - 1])
    assert store.nearest(given_as).distance.tolist() == [least]


@pytest.mark.parametrize("odd", [True, 1.0, "1", None, b"\0" * 8, np.uint64(4), 1 << 64, 1 << 70, -(1 << 63) - 1])
def test_another_fingerprint_is_not_answered(store: fpstore.Store, odd: object) -> None:
    assert store._latest.single.probe(ALWAYS, odd, None, False) is None
    assert store._latest.single.contains(ALWAYS, odd, None) is None


@pytest.mark.parametrize("odd", [True, 1.0, "1", np.int64(1), 4, -1, 1 << 32, 1 << 64, -(1 << 64)])
def test_another_distance_is_not_answered(store: fpstore.Store, odd: object) -> None:
    assert store._latest.single.probe(ALWAYS, 5, odd, False) is None
    assert store._latest.single.contains(ALWAYS, 5, odd) is None


def test_of_numpy_it_is_answered_all_the_same(store: fpstore.Store) -> None:
    assert store.probe(np.uint64(4)) == store.probe(4)
    assert store.probe(np.int64(-1), max_distance=np.int32(1)) == store.probe(LAST, max_distance=1)
    assert store.contains_near(np.uint64(4))
    with pytest.raises(TypeError):
        store.probe(1.0)
    with pytest.raises(ValueError, match="expected integers of 64 bits"):
        store.contains_near(1 << 64)
    with pytest.raises(ValueError, match="max_distance"):
        store.contains_near(1, max_distance=65)


def test_a_distance_is_that_of_the_store_unless_another_is_asked_for() -> None:
    pending = PendingIndex([0xFF << 56], [0], with_ids=False, capacity=4)
    pending.append(fingerprint_array([0b111]), None, 1)
    single = Single(Segments(()), pending, 1, 2, 3, None, ANSWERS)
    for asked, found in ((None, 0), (2, 0), (3, 1)):
        assert len(single.probe(ALWAYS, 0, asked, False)) == found
        assert single.contains(ALWAYS, 0, asked) is bool(found)
    assert single.probe(ALWAYS, 0, 4, False) is None


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("count", [4096, 4097])
def test_very_many_rows_are_answered_in_the_general_way(tmp_path: Path, count: int, pending: bool) -> None:
    fpstore.create(tmp_path / "store", id_type="uint64", plan="paper-4").close()
    with writer_of(tmp_path / "store", growth=0) as store:
        store.add(np.full(count, 7, dtype=np.uint64), ids=np.arange(count))
        if not pending:
            store._flush()
        found = store._latest.single.probe(ALWAYS, 7, None, False)
        assert (found is None) is (count > 4096)
        assert store.probe(7).id.tolist() == list(range(count))
        assert store.contains_near(7)


@pytest.mark.parametrize("count", [64, 65])
def test_the_nearest_of_many_rows_is_found_in_the_general_way(tmp_path: Path, count: int) -> None:
    with fpstore.build(tmp_path / "store", np.full(count, 7), ids=range(3, 3 + count), plan="paper-4") as store:
        found = store._latest.single.nearest(6, 3)
        assert (found is None) is (count > 64)
        assert store.nearest(6) == store.probe(6)[:1]


def test_within_the_first_radius_that_has_so_many_the_first_rows_are_found(tmp_path: Path) -> None:
    base = 0x123456789ABCDEF0
    keys = [base ^ sum(1 << 5 * bit for bit in range(bits)) for bits in (2, 4, 5, 9)]

    def reach(radii: list[int], flips: list[Any]) -> Reaches:
        return Reaches(radii, [0.001] * len(radii), False, flips)

    with fpstore.build(tmp_path / "store", keys, ids=range(4), plan="flips-2:1,1") as store:
        single = store._latest.single

        def first(count: object, reaches: Reaches, max_distance: int | None = None, scanned: int | None = None) -> Any:
            return single.first(None, base, count, max_distance, False, reaches, scanned)

        own, both = reach([3], [(None,)]), reach([3, 5], [(None,), ((2, 2),)])
        assert [first(count, both).id.tolist() for count in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2]]
        assert [first(count, own) for count in (2, 3)] == [False, False]
        assert first(4, both) is False
        assert first(1, reach([], [])) is False
        # All keys only where they were read before, and are no more than may be.
        assert first(4, both, scanned=4) is False
        both.read = True
        assert first(4, both) is first(4, both, scanned=3) is False
        assert first(3, both, scanned=4).id.tolist() == [0, 1, 2]
        found = first(4, both, scanned=4)
        assert (found.id.tolist(), found.method) == ([0, 1, 2, 3], "scan")
        assert first(4, both, 8, scanned=4).id.tolist() == [0, 1, 2]
        # What is within the distance is all, where that is the last of the radii.
        whole = Reaches([5], [1.0], True, [((2, 2),)])
        assert first(4, whole, 5).id.tolist() == [0, 1, 2]
        # What is asked in another way, and of what nothing is remembered.
        assert first(0, both) is first(65, both) is first(True, both) is first("1", both) is first(1, both, 65) is None
        assert single.first(None, -1, 1, None, False, Reaches([], [], False)) is None
        assert single.first(None, base, 1, None, False) is None
        assert store.nearest(base, 4).id.tolist() == [0, 1, 2, 3]
        with (
            fpstore.build(tmp_path / "other", keys, ids=None) as other,
            pytest.raises(ValueError, match="a reach of other segments"),
        ):
            other._latest.single.first(None, base, 1, None, False, both)
        store.close()
        assert first(1, both) is None


@pytest.mark.parametrize("bits", [64, 128])
def test_the_first_rows_are_looked_for_once_it_is_sure_which_state_is_the_newest(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "store"
    with fpstore.build(path, [7, 70], bits=bits, ids=None) as store:
        assert store.nearest(7).distance.tolist() == [0]
        single = store._latest.single
        never = Watch(sure=False)
        assert single.first(never, 7, 1, None, False) is True
        assert single.first(ALWAYS, 7, 1, None, False).distance.tolist() == [0]
        # A wrong argument is told of first, and then it makes no difference.
        assert single.first(never, 7, 0, None, False) is single.first(never, "7", 1, None, False) is None
        # A state that nobody has looked at since is that which answers, and so once it was looked at.
        with fpstore.open(path, mode="w") as writer:
            writer.add([6])
            assert [store.nearest(6).distance.tolist() for _ in range(2)] == [[0], [0]]
            writer.remove(fingerprints=[6])
            assert [store.nearest(6).distance.tolist() for _ in range(2)] == [[1], [1]]


@pytest.mark.parametrize("bits", [64, 128])
def test_the_nearest_are_one_call_once_the_newest_state_was_asked(
    tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    with fpstore.build(path, [7, 70], bits=bits, ids=None) as store, fpstore.open(path, mode="w") as writer:
        for added, distance in (([], 1), ([6], 0)):
            writer.add(added)
            writer._flush()
            assert [store.nearest(6).distance.tolist() for _ in range(3)] == [[distance]] * 3
            with monkeypatch.context() as context:
                context.setattr(fpstore.Store, "_nearest_again", None)
                assert store.nearest(6).distance.tolist() == [distance]
            assert writer.nearest(6).distance.tolist() == [distance]


def ask_what_is_no_open_store() -> None:
    with pytest.raises(TypeError, match="found int, expected a store"):
        fpstore.Store.nearest(7, 5)
    with pytest.raises(TypeError, match="found Mock, expected a store"):
        fpstore.Store.nearest(Mock(spec=fpstore.Store), 5)  # which says that it is one
    with pytest.raises(AttributeError, match="_front"):
        fpstore.Store.__new__(fpstore.Store).nearest(5)


def test_what_is_no_open_store_has_no_nearest() -> None:
    """In a process of its own, which memory that is no store's would end."""
    program = "import test_single; test_single.ask_what_is_no_open_store()"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)


def test_stores_of_two_kinds_are_asked_in_turn(tmp_path: Path) -> None:
    class Own(fpstore.Store):
        """What users make of one."""

    fpstore.build(tmp_path / "s", [5, 9], ids=None).close()
    with fpstore.open(tmp_path / "s") as store, Own(tmp_path / "s") as own:
        for asked, expected in ((4, 5), (8, 9)):
            assert [each.nearest(asked).fingerprint.tolist() for each in (store, own)] == [[expected], [expected]]


def test_a_query_after_the_state_that_was_asked_has_ended_is_answered(tmp_path: Path) -> None:
    rows = uniform(3000, np.random.default_rng(3))
    with fpstore.build(tmp_path / "s", rows, ids=None) as store, fpstore.open(tmp_path / "s", mode="w") as writer:
        for count in range(1, 6):
            for asked in (rows[:20] ^ np.uint64(1)).tolist():
                expected = sorted(np.bitwise_count(rows ^ np.uint64(asked)).tolist())[:count]
                assert store.nearest(asked, count).distance.tolist() == expected
            new = uniform(50, np.random.default_rng(count + 100))
            rows = np.unique(np.append(rows, new))
            writer.add(new)
            writer._flush()
            writer.compact()


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 33, 64])
def test_rows_are_all_found_and_in_order_whether_they_are_few_or_not(tmp_path: Path, count: int, ids: bool) -> None:
    """Few take no memory of their own, and another way to be put in order."""
    rows = uniform(400, np.random.default_rng(count)).tolist()
    near = [rows[0] ^ (1 << bit) for bit in np.random.default_rng(1).permutation(64)[: count - 1].tolist()]
    keys, numbers = [*rows, *near], list(range(len(rows) + len(near)))
    for each in (keys, keys + 8 * keys[:1]):
        with fpstore.build(
            tmp_path / f"{len(each)}", each, ids=[*numbers, *range(1000, 1000 + len(each) - len(keys))] if ids else None
        ) as store:
            expected = sorted(
                ((key ^ rows[0]).bit_count(), key, id)
                for key, id in zip(each, [*numbers, *range(1000, 2000)], strict=False)
            )
            if not ids:
                expected = [(*row, None) for row in sorted({row[:2] for row in expected})]
            found = store.nearest(rows[0], count)
            again = [None] * len(found) if found.id is None else found.id.tolist()
            own = list(zip(found.distance.tolist(), found.fingerprint.tolist(), again, strict=True))
            assert own == expected[:count]
            probed = store.probe(rows[0], max_distance=1)
            assert len(probed) == sum(row[0] <= 1 for row in expected)
            assert probed[:count] == found[: len(probed)]


def test_while_one_looks_up_others_run(store: fpstore.Store) -> None:
    """Nobody is made to give way meanwhile: the other, who may go on, does so where a look-up lets it."""
    gate, ran = threading.Lock(), threading.Event()

    def go_on() -> None:
        gate.acquire()
        ran.set()

    gate.acquire()
    other = threading.Thread(target=go_on)
    other.start()
    time.sleep(0.2)
    ended = time.monotonic() + 20
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1000)
        gate.release()
        while not ran.is_set() and time.monotonic() < ended:
            store._latest.single.nearest(5, 3)
        assert ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        other.join()


def test_threads_that_search_at_once_find_each_its_own(path: Path) -> None:
    with fpstore.open(path) as store, ThreadPoolExecutor(2) as pool:
        single = store._latest.single
        lots = [np.tile(fingerprint_array(queries()[at::2]), 100) for at in range(2)]
        expected = [single.each(lot, 3, False) for lot in lots]
        for _ in range(3):
            assert list(pool.map(lambda lot: single.each(lot, 3, False), lots)) == expected


def test_radii_of_some_segments_are_looked_within_in_no_others(tmp_path: Path) -> None:
    base = 0x123456789ABCDEF0
    reaches = Reaches([3, 5], [0.001, 0.002], False, [(None,), ((2, 2),)])
    for _ in range(40):
        reaches.tell(3)
    with (
        fpstore.build(tmp_path / "one", [base ^ 0b111], ids=None, plan="flips-2:1,1") as one,
        fpstore.build(tmp_path / "other", [base ^ 0b1], ids=None, plan="flips-2:1,1") as other,
    ):
        assert one._latest.single.first(None, base, 1, None, False, reaches).distance.tolist() == [3]
        for _ in range(40):
            reaches.tell(5)  # so that it is looked for further, where nobody has looked
        with pytest.raises(ValueError, match="a reach of other segments"):
            other._latest.single.first(None, base, 1, None, False, reaches)
        assert one._latest.single.first(None, base, 1, None, False, reaches).distance.tolist() == [3]


def test_of_rows_that_were_removed_none_is_among_the_first(tmp_path: Path) -> None:
    base = 0x123456789ABCDEF0
    keys = [base ^ sum(1 << 5 * bit for bit in range(bits)) for bits in (2, 4, 5)]
    with fpstore.create(tmp_path / "store", plan="flips-2:1,1") as store:
        store.add(keys, ids=range(3))
        store._flush()
        store.remove(ids=[0])
        single = store._latest.single
        own, both = (Reaches([3, 4][:n], [0.001] * n, False, [(None,), ((2, 1),)][:n]) for n in (1, 2))
        own.read = True
        assert single.first(None, base, 1, None, False, own, 9) is False
        assert single.first(None, base, 1, None, False, both).id.tolist() == [1]
        assert store.nearest(base).id.tolist() == [1]


def in_segments(path: Path, parts: list[Any], id_type: str | None = None) -> fpstore.Store:
    """A store with a segment of each of these fingerprints, with ids from the number of the segment on."""
    fpstore.create(path, id_type=id_type, plan="paper-4").close()
    with Store(path, "w", "batch", LivingSizes(growth=0)) as store:
        for number, keys in enumerate(parts):
            store.add(keys, ids=None if id_type is None else np.arange(len(keys), dtype=np.uint64) + 1000 * number)
            store._flush()
    store = fpstore.open(path)
    assert len(store._segments) == len(parts)
    return store


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_every_segment_is_searched_however_many_are_under_way(tmp_path: Path, count: int) -> None:
    # Each has a near row of every query in it.
    parts = [SOME ^ np.uint64(1 << number) for number in range(count)]
    with in_segments(tmp_path / "store", parts) as store:
        single = store._latest.single
        for key in SOME[:20].tolist():
            found = single.probe(ALWAYS, key, None, False)
            assert found.fingerprint.tolist() == sorted(key ^ 1 << number for number in range(count))
        assert single.each(SOME[:20], 3, False) == 20 * count


def test_too_many_rows_of_several_segments_are_answered_in_the_general_way(tmp_path: Path) -> None:
    parts = [np.full(1000, SOME[number], dtype=np.uint64) ^ np.uint64(number) for number in (0, 0, 0, 0, 0, 1)]
    with in_segments(tmp_path / "store", parts, "uint64") as store:
        assert store._latest.single.probe(ALWAYS, int(SOME[0]), None, False) is None
        assert len(store.probe(int(SOME[0]))) == 5000
        assert len(store._latest.single.probe(ALWAYS, int(SOME[1]) ^ 1, None, False)) == 1000


@pytest.mark.parametrize("which", [0, 1, 2, 4])
def test_damage_in_one_of_several_segments_is_found_and_named(tmp_path: Path, which: int) -> None:
    in_segments(tmp_path / "store", [SOME ^ np.uint64(1 << number) for number in range(5)]).close()
    segment = sorted((tmp_path / "store" / "segments").iterdir())[which]
    data = bytearray(segment.read_bytes())
    data[4096:8192] = bytes(byte ^ 0xFF for byte in data[4096:8192])
    segment.write_bytes(data)
    with fpstore.open(tmp_path / "store") as store, pytest.raises(CorruptStore) as caught:
        [store.probe(key) for key in SOME.tolist()]
    assert caught.value.path == segment


def test_answers_without_rows_have_the_types_of_the_others(path: Path) -> None:
    for signed in (False, True):
        with fpstore.open(path, signed=signed) as store:
            none, many = store.probe(1 << 17), store.probe_many([1 << 17])
            assert len(none) == 0
            for name in none.NAMES:
                one, other = getattr(none, name), getattr(many, name)
                assert (one is None) is (other is None)
                assert one is None or one.dtype == other.dtype


def test_an_answer_cannot_be_written_to(store: fpstore.Store) -> None:
    for found in (store.probe(5), store.probe(1 << 17)):
        for column in (found.query, found.fingerprint, found.distance, found.id):
            assert not column.flags.writeable
            with pytest.raises(ValueError, match="WRITEABLE"):
                column.setflags(write=True)


def test_nothing_is_answered_once_the_store_is_closed(tmp_path: Path) -> None:
    store = fpstore.build(tmp_path / "store", SOME, plan="paper-4")
    single, watch = store._latest.single, store._watch
    store.probe(5)
    assert watch.holds()
    store.close()
    assert not watch.holds()
    assert single.probe(ALWAYS, 5, None, False) is None
    assert single.contains(ALWAYS, 5, None) is None
    assert single.each(SOME, 3, False) is None
    for ask in (store.probe, store.contains_near):
        with pytest.raises(StoreClosed):
            ask(5)


@pytest.mark.parametrize("ask", ["probe", "contains_near"])
def test_damage_is_found_and_named_as_in_a_batch(tmp_path: Path, ask: str) -> None:
    fpstore.build(tmp_path / "store", SOME, plan="paper-4").close()
    (segment,) = (tmp_path / "store" / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[4096:8192] = bytes(byte ^ 0xFF for byte in data[4096:8192])
    segment.write_bytes(data)
    with fpstore.open(tmp_path / "store") as store:
        with pytest.raises(CorruptStore) as caught:
            [getattr(store, ask)(key) for key in SOME.tolist()]
        assert caught.value.path == segment
        assert "page at byte" in str(caught.value)


def test_of_a_file_that_was_cut_short_nothing_is_answered(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "store", SOME, plan="paper-4") as store:
        single = store._latest.single
        assert single.probe(ALWAYS, 5, None, False) is not None
        (segment,) = (tmp_path / "store" / "segments").iterdir()
        os.truncate(segment, 4096)
        assert single.probe(ALWAYS, 5, None, False) is None
        assert single.contains(ALWAYS, 5, None) is None
        assert single.each(SOME, 3, False) is None
        with pytest.raises(CorruptStore, match="cut short"):
            store.probe(5)


def test_what_cannot_be_is_refused_when_it_is_made() -> None:
    pending = PendingIndex([1], [0], with_ids=False, capacity=4)
    with pytest.raises(ValueError, match="rows up to 1: there are 0"):
        Single(Segments(()), pending, 1, 3, 3, None, ANSWERS)


def test_a_query_of_no_segments_and_nothing_pending_finds_nothing() -> None:
    pending = PendingIndex([1], [0], with_ids=False, capacity=4)
    single = Single(Segments(()), pending, 0, 3, 3, None, ANSWERS)
    assert len(single.probe(ALWAYS, 1, None, False)) == 0
    assert single.contains(ALWAYS, 1, None) is False
    assert single.each(SOME, 3, True) == 0


# --- Pending rows that are not indexed yet ------------------------------------------------------------------


def pending_of(with_ids: bool, capacity: int = 20_000) -> PendingIndex:
    return PendingIndex([0xFFFF << 48, 0xFFFF << 32], [2, 0], with_ids=with_ids, capacity=capacity)


def single_of(index: PendingIndex, end: int) -> Single:
    return Single(Segments([]), index, end, 3, 3, None, Answers(Matches, None, index.with_ids, False))


def expect_answers(index: PendingIndex, twin: PendingIndex, end: int, asked: list[int]) -> None:
    """As in a batch, whose search of another index has all rows indexed."""
    single = single_of(index, end)
    for distance in (0, 2, 3):
        for key in asked:
            _, fingerprint, bits, ids, _ = twin.search(np.array([key], dtype=np.uint64), distance, end)
            ids = np.zeros(len(bits), dtype=np.uint64) if ids is None else ids
            rows = sorted({*zip(bits.tolist(), fingerprint.tolist(), ids.tolist(), strict=True)})
            found = single.probe(ALWAYS, key, distance, False)
            own = [0] * len(found) if found.id is None else found.id.tolist()
            assert list(zip(found.distance.tolist(), found.fingerprint.tolist(), own, strict=True)) == rows
            assert single.contains(ALWAYS, key, distance) is bool(rows)
            first = single.nearest(key, distance)
            assert first is None or first == found[:1]


@settings(max_examples=50)
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=8), st.integers(0, 2**32 - 1))
def test_rows_are_found_whether_they_are_indexed_or_compared(
    with_ids: bool, steps: list[tuple[int, bool]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    few = rng.choice(SOME, 12)
    index, twin = pending_of(with_ids), pending_of(with_ids)
    for position, (count, batch) in enumerate(steps):
        keys = flipped(rng.choice(few, count), rng.integers(0, 5, count), rng)
        ids = rng.integers(0, 3, count, dtype=np.uint64) if with_ids else None
        since = int(rng.integers(0, position + 1))
        for one in (index, twin):
            one.append(keys, ids, position, since)
        if batch:
            index.search(few[:1], 3, index.count)
    asked = few[:6].tolist()
    for end in {0, index.count // 2, index.count - 1, index.count} - {-1}:
        expect_answers(index, twin, end, asked)


def test_single_queries_index_a_few_rows_each_until_all_are() -> None:
    keys = uniform(20_000, np.random.default_rng(1))
    index = pending_of(False)
    index.append(keys, None, 1)
    single, before = single_of(index, len(keys)), 0
    assert (index.indexed, index.searched) == (0, 0)
    asked = 0
    while index.indexed < len(keys) and asked < 50:
        key = int(keys[(7919 * asked) % len(keys)])
        assert single.probe(ALWAYS, key, 3, False).fingerprint.tolist() == [key]
        assert 0 <= index.indexed - before <= 2048
        before, asked = index.indexed, asked + 1
    # Each row is compared some times at most before it is.
    assert (asked < 50, index.searched) == (True, len(keys))


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize(
    ("capacity", "count", "further"), [(30_000, 1000, 1000), (30_000, 9000, 4096), (1200, 1000, 200)]
)
def test_memory_for_as_many_rows_as_came_is_made_ready_by_queries_behind_the_first(
    with_ids: bool, capacity: int, count: int, further: int
) -> None:
    keys = uniform(count, np.random.default_rng(3))
    index = pending_of(with_ids, capacity)
    assert single_of(index, 0).probe(ALWAYS, int(keys[0]), 3, False).fingerprint.tolist() == []
    index.append(keys, keys if with_ids else None, 1)
    single, row_bytes = single_of(index, count), 24 if with_ids else 16
    found = [
        single.probe(ALWAYS, int(keys[0]), 3, False).fingerprint.tolist() and index.ready_bytes for _ in range(100)
    ]
    assert found[0] == 0
    begun = next(at for at, ready in enumerate(found) if ready)  # what is to be indexed goes first
    assert found[begun] <= (count + 1) * row_bytes + 3 * 4096
    assert np.diff(found[begun:]).max() in (0, 4096, 8192)
    assert 0 <= found[-1] - (count + 1 + further) * row_bytes < 4096
    single_rows = index.rows(0, count)
    assert single_rows[0].tolist() == keys.tolist()
    rest = uniform(capacity - count, np.random.default_rng(4))
    index.append(rest, rest if with_ids else None, 2)
    assert index.rows(count, capacity)[0].tolist() == rest.tolist()


def test_the_first_query_of_rows_indexes_none_until_very_many_were_compared() -> None:
    keys = uniform(20_000, np.random.default_rng(5))
    index = pending_of(False)
    indexed, behind = [], []
    for end in range(1000, 20_001, 1000):
        index.append(keys[end - 1000 : end], None, end)
        before = index.indexed
        assert single_of(index, end).probe(ALWAYS, int(keys[end - 1]), 3, False).fingerprint.tolist() == [keys[end - 1]]
        indexed.append(index.indexed - before)
        behind.append(end - index.indexed)
    # Comparisons of 1, 2, ... thousand rows pay for 2,048 of them when there were 8 times as many.
    assert indexed[:6] == [0, 0, 0, 0, 0, 2048]
    assert set(indexed) == {0, 2048}
    assert max(behind) < 10_000


def test_a_few_rows_are_indexed_after_some_queries() -> None:
    index = pending_of(True)
    index.append(SOME[:3], SOME[:3], 1)
    single = single_of(index, 3)
    found = [(single.probe(ALWAYS, int(SOME[0]), 0, False).id.tolist(), index.indexed) for _ in range(9)]
    assert found == [([int(SOME[0])], 0 if asked < 7 else 3) for asked in range(9)]
    assert index.grown(10, indexed=False).indexed == 0
    assert index.grown(10).indexed == 3


def test_threads_find_all_rows_while_others_index_them() -> None:
    keys = uniform(20_000, np.random.default_rng(2))
    for _ in range(3):
        index = pending_of(False)
        index.append(keys, None, 1)
        single = single_of(index, len(keys))

        def ask(first: int, index: PendingIndex = index, single: Single = single) -> bool:
            some = np.ascontiguousarray(keys[first::4][:200])
            if first == 3:
                return len(index.search(some, 0, len(keys))[0]) == len(some)
            return all(single.probe(ALWAYS, key, 0, False).fingerprint.tolist() == [key] for key in some.tolist())

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask, range(4)))


def test_a_thread_of_a_small_stack_asks_as_others_do(tmp_path: Path) -> None:
    """128 KiB, as musl gives: a search of some tables is larger."""
    program = """
import sys, threading, fpstore
store = fpstore.open(sys.argv[1])
threading.stack_size(1 << 17)
found = []
def ask():
    found.append((len(store.probe(5)), len(store.nearest(5)), store.contains_near(5), len(store.probe_many([5]))))
thread = threading.Thread(target=ask)
thread.start()
thread.join()
assert found == [(1, 1, True, 1)], found
"""
    keys = np.append(uniform(2000, np.random.default_rng(1)), np.uint64(5))
    fpstore.build(tmp_path / "s", keys, ids=None, plan="speed").close()
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "s")], check=True)


class Slotted:
    """A class of others with fields of its own."""

    __slots__ = ("a", "b")


class Whole:
    """One whose objects have all that objects may have."""

    __slots__ = ("__dict__", "__weakref__", "a")


OTHERS = [Slotted, Whole, dict, deque]


def ask_beside_others(folder: str) -> None:
    """Stores of all kinds in turn, which have their weak references at other places."""
    fpstore.build(f"{folder}/s", [5, 9], ids=None).close()
    with contextlib.ExitStack() as stack:
        open_ones = []
        for other in OTHERS:
            for bases in ((fpstore.Store, other), (other, fpstore.Store)):

                def made(own: Any, *arguments: Any) -> None:
                    fpstore.Store.__init__(own, *arguments)

                kind: Any = type("Own", bases, {"__init__": made, "__hash__": object.__hash__})
                open_ones.append(stack.enter_context(kind(Path(folder, "s"))))
        for _ in range(2):
            for store in open_ones:
                assert store.nearest(4).fingerprint.tolist() == [5]
                assert store.probe(9, max_distance=0).fingerprint.tolist() == [9]
                store.a = 1
                assert weakref.ref(store)() is store
                store.other = 2
                assert vars(store)["other"] == 2


def ask_one_that_others_refer_to(folder: str) -> None:
    """With more and more weak references to it, of all kinds."""

    class Own(weakref.ref):  # type: ignore[type-arg]
        pass

    with fpstore.build(f"{folder}/s", [5, 9], ids=None) as store:
        kept: list[object] = []
        for made in (weakref.proxy, weakref.ref, Own, lambda one: weakref.ref(one, kept.append)):
            for _ in range(5):
                kept.append(made(store))
                assert store.nearest(4).fingerprint.tolist() == [5]
        kept.clear()
        assert store.nearest(8).fingerprint.tolist() == [9]


def in_a_process(asked: str, folder: Path) -> None:
    """Which memory that is read for what it is not would end."""
    program = f"import test_single; test_single.{asked}({str(folder)!r})"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)


def test_stores_are_bases_beside_any_other(tmp_path: Path) -> None:
    in_a_process("ask_beside_others", tmp_path)


def test_a_store_that_others_refer_to_weakly_is_asked(tmp_path: Path) -> None:
    in_a_process("ask_one_that_others_refer_to", tmp_path)


class Own(fpstore.Store):
    """What users make of one."""


class OwnSlotted(Slotted, fpstore.Store):
    """One with fields."""


class OwnMinHash(Slotted, fpstore.minhash.MinHashStore):
    """One of documents."""


@pytest.mark.parametrize("kind", [fpstore.Store, Own, OwnSlotted, fpstore.minhash.MinHashStore, OwnMinHash])
@pytest.mark.parametrize(
    "made", [copy.copy, copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))], ids=["copy", "deep", "pickle"]
)
def test_a_copy_of_a_handle_is_open_for_itself(kind: Any, made: Callable[[Any], Any], tmp_path: Path) -> None:
    if issubclass(kind, fpstore.Store):
        fpstore.build(tmp_path / "s", [5, 9], ids=None).close()
    else:
        fpstore.minhash.build(tmp_path / "s", np.ones((1, 128), np.uint32), ids=[7]).close()
    with kind(tmp_path / "s") as store:
        again = made(store)
        reference = weakref.ref(again)
        assert type(again) is kind
        assert again.path == store.path
        store.close()
        with again:
            assert vars(again).keys() == vars(store).keys()
            assert again.count() == (2 if issubclass(kind, fpstore.Store) else 1)
            if issubclass(kind, fpstore.Store):
                assert again.nearest(8).fingerprint.tolist() == [9]
                with pytest.raises(fpstore.StoreClosed):
                    store.nearest(8)
        del again
        gc.collect()
        assert reference() is None  # nothing that it consists of refers to it
