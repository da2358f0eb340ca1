"""Names in memory: found by name and by handle, in generations of which a thread writes the older ones."""

import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_names import NAME_SETS, NAMES, column, siphash_1_3, values_of

from fpstore._names import NameEncoder, hashes, split
from fpstore._names_pending import NameFilter, PendingNames, first_places, hashed
from fpstore.names.column import Names, gathered
from fpstore.names.pending import LogNames, parts_of
from fpstore.names.reader import NamesReader, verify_names
from fpstore.names.writer import NamesWriter


def put(pending: PendingNames, names: list[bytes], handles: list[int]) -> None:
    own = column(names)
    pending.add(*own, np.array(handles, dtype=np.uint64), hashed(*own))


def found_in(pending: PendingNames, names: list[bytes]) -> list[int | None]:
    """The handle of each, None for those that are not there."""
    own, handles, known = column(names), np.zeros(len(names), dtype=np.uint64), np.zeros(len(names), dtype=np.uint8)
    pending.find(*own, hashed(*own), handles, known)
    return [int(handle) if there else None for handle, there in zip(handles, known, strict=True)]


@given(st.lists(NAMES, max_size=30))
def test_a_name_has_the_hash_of_files_and_one_that_only_this_process_knows(names: list[bytes]) -> None:
    plain, keyed = hashes(*column(names)), hashed(*column(names))
    assert plain.tolist() == [siphash_1_3(name) for name in names]
    assert len({*keyed.tolist()}) == len({*names}) == len({*plain.tolist()})
    assert not set(plain.tolist()) & set(keyed.tolist())


@pytest.mark.slow
@given(st.lists(NAMES, max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_names_are_known_by_the_first_that_is_equal(names: list[bytes]) -> None:
    assert first_places(*column(names), hashed(*column(names))).tolist() == [names.index(name) for name in names]


def test_equal_names_are_known_by_the_first_of_them_whatever_shares_a_hash() -> None:
    names = [b"%d" % (n * 7919 % 150) for n in range(1000)]
    expected = [names.index(name) for name in names]
    assert first_places(*column(names), hashed(*column(names))).tolist() == expected
    assert first_places(*column(names), np.full(1000, 5 << 32, dtype=np.uint64)).tolist() == expected
    with pytest.raises(ValueError, match="2 hashes of 1 names"):
        first_places(*column([b"a"]), np.zeros(2, dtype=np.uint64))


def test_a_handle_below_others_is_found_whether_it_was_asked_for_before_or_not() -> None:
    pending = PendingNames()
    for first in (500, 100, 900, 300):
        put(pending, [b"%d" % (first + i) for i in range(100)], [*range(first, first + 100)])
        if first == 100:
            assert pending.entries(np.array([550, 950], dtype=np.uint64)).tolist() == [50, -1]
    assert pending.entries(np.array([500, 199, 999, 300, 299], dtype=np.uint64)).tolist() == [0, 199, 299, 300, -1]
    with pytest.raises(ValueError, match="handle 350 and its name do not belong together"):
        put(pending, [b"other"], [350])


@pytest.mark.slow
@given(st.lists(NAME_SETS, max_size=4))
@settings(max_examples=100, deadline=None)
def test_pending_names_are_found_by_name_and_by_handle(batches: list[set[bytes]]) -> None:
    pending, handles = PendingNames(), dict[bytes, int]()
    for batch in batches:
        for name in sorted(batch):
            handles.setdefault(name, 3 * len(handles))
        put(pending, sorted(batch), [handles[name] for name in sorted(batch)])
    assert pending.count == len(handles)
    assert pending.data_bytes == sum(map(len, handles))
    assert pending.last_handle == max(handles.values(), default=-1)
    asked = [*handles, b"not there", b"a" * 40]
    assert found_in(pending, asked) == [handles.get(name) for name in asked]
    numbers = np.array([*handles.values(), 1], dtype=np.uint64)
    entries = pending.entries(numbers)
    assert entries[-1] == -1
    assert values_of(Names(*pending.read(entries[:-1]))) == [*handles]


@pytest.mark.slow
@given(st.lists(st.tuples(NAME_SETS, st.booleans(), st.booleans()), max_size=6))
@settings(max_examples=150, deadline=None)
def test_names_that_are_known_to_be_new_are_found_as_others(batches: list[tuple[set[bytes], bool, bool]]) -> None:
    """Whether somebody asks between the additions or not, and whatever way they came by."""
    pending, handles = PendingNames(), dict[bytes, int]()
    for batch, as_new, asked in batches:
        names = sorted(batch - {*handles}) if as_new else sorted(batch)
        first = len(handles)
        handles |= {name: first + i for i, name in enumerate(sorted(batch - {*handles}))}
        if as_new:
            pending.add_new(*column(names), first, hashed(*column(names)))
        else:
            put(pending, names, [handles[name] for name in names])
        if asked:
            assert found_in(pending, [*batch, b"not there"]) == [*(handles[name] for name in batch), None]
    assert found_in(pending, [*handles]) == [*handles.values()]
    assert (pending.first_handle, pending.last_handle) == (0, len(handles) - 1)
    entries = pending.entries(np.arange(len(handles), dtype=np.uint64))
    assert values_of(Names(*pending.read(entries))) == [*handles]
    data, ends, numbers = pending.still()
    assert values_of(Names(data, ends)) == [*handles]
    assert numbers.tolist() == [*handles.values()]


def test_names_that_cannot_be_new_are_refused() -> None:
    pending, two = PendingNames(), np.zeros(2, dtype=np.uint64)
    own = column([b"a", b"b"])
    pending.add_new(*own, 5, hashed(*own))
    pending.add_new(*column([]), 7, two[:0])
    with pytest.raises(ValueError, match="handle 6: expected one above 6"):
        pending.add_new(*column([b"c", b"d"]), 6, two)
    with pytest.raises(ValueError, match="1 hashes of 2 names"):
        pending.add_new(*own, 7, two[:1])
    assert found_in(pending, [b"a", b"b", b"c"]) == [5, 6, None]
    pending.still()
    with pytest.raises(ValueError, match="names that are being written: expected no more of them"):
        pending.add_new(*column([b"c", b"d"]), 7, two)


def test_many_names_are_found_though_the_table_grew() -> None:
    names = [b"name %d" % i for i in range(5000)]
    pending = PendingNames()
    for start in range(0, 5000, 700):
        put(pending, names[start : start + 700], [*range(start, min(start + 700, 5000))])
    assert found_in(pending, names) == [*range(5000)]
    assert found_in(pending, [name + b"0" for name in names[600:]]) == [None] * 4400
    new = PendingNames()
    for start in range(0, 5000, 700):
        own = column(names[start : start + 700])
        new.add_new(*own, start, hashed(*own))
        if start == 2100:
            assert found_in(new, names) == [*range(2800), *[None] * 2200]
    assert found_in(new, names) == [*range(5000)]


def test_a_handle_and_a_name_that_belong_to_others_are_refused_in_memory() -> None:
    pending = PendingNames()
    put(pending, [b"a", b"b"], [1, 2])
    for name, handle in ((b"a", 2), (b"a", 3), (b"c", 1)):
        with pytest.raises(ValueError, match="do not belong together"):
            put(pending, [name], [handle])
    own, two = column([b"x", b"y"]), np.zeros(2, dtype=np.uint64)
    with pytest.raises(ValueError, match="1 handles for 2 names"):
        pending.add(*own, two[:1], two)
    with pytest.raises(ValueError, match="1 hashes of 2 names"):
        pending.add(*own, two, two[:1])
    with pytest.raises(ValueError, match="2 handles, 1 known, for 2 names"):
        pending.find(*own, two, two, np.zeros(1, dtype=np.uint8))
    with pytest.raises(ValueError, match="0 hashes of 2 names"):
        pending.find(*own, two[:0], two, np.zeros(2, dtype=np.uint8))
    with pytest.raises(IndexError, match="entry 2: there are 2 names"):
        pending.read(np.array([2]))


def test_what_is_being_written_takes_no_more_names_and_stays_where_it_is() -> None:
    pending = PendingNames()
    put(pending, [b"b", b"", b"a"], [7, 8, 9])
    data, ends, handles = pending.still()
    assert (data.tobytes(), ends.tolist(), handles.tolist()) == (b"ba", [1, 1, 2], [7, 8, 9])
    with pytest.raises(ValueError, match="names that are being written: expected no more of them"):
        put(pending, [b"c"], [10])
    (part,) = parts_of(pending)
    found = part()
    assert (found.counts.tolist(), found.handles.tolist(), found.name_bytes) == ([3], [8, 9, 7], 2)
    assert found.hashes.tolist() == [siphash_1_3(name) for name in (b"", b"a", b"b")]
    assert parts_of(PendingNames()) == []


@pytest.mark.slow
@given(st.lists(NAMES, max_size=300, unique=True), st.integers(1, 50), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_parts_of_names_follow_one_another_whatever_they_are(names: list[bytes], size: int, most: int) -> None:
    pending = PendingNames()
    put(pending, names, [*range(7, 7 + len(names))])
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("fpstore.names.pending.PART_NAMES", size)
        patch.setattr("fpstore.names.pending.MAX_PARTS", most)
        parts = [part() for part in parts_of(pending)]
        assert len(parts) <= min(most, -(-len(names) // size))
        with NamesWriter(Path(folder, "n.fpnames"), Path(folder)) as writer:
            for part in parts:
                writer.add_coded(part)
            writer.finish()
        with closing(NamesReader(Path(folder, "n.fpnames"))) as reader:
            verify_names(reader)
            found = gathered(reader.chunks())
    assert values_of(found.names) == sorted(names)
    assert [int(handle) - 7 for handle in found.handles] == [names.index(name) for name in sorted(names)]


def test_parts_of_names_are_about_as_large() -> None:
    pending = PendingNames()
    names = [b"http://www.example.org/%d" % (n * 7919 % 100_003) for n in range(100_000)]
    put(pending, names, [*range(100_000)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.names.pending.PART_NAMES", 1 << 14)
        sizes = [len(part().handles) for part in parts_of(pending)]
    assert len(sizes) == 7
    assert sum(sizes) == 100_000
    assert max(sizes) < 2 * min(sizes)


def test_what_cannot_be_parts_or_blocks_is_refused() -> None:
    names, one = column([b"a", b"b", b"a"]), column([b"b"])
    handles = np.arange(3, dtype=np.uint64)
    assert [part.tolist() for part in split(*names, *one)] == [[0, 2], [1]]
    with pytest.raises(ValueError, match=r"3 names, 256 bounds: expected fewer than 2\^32, and at most 255"):
        split(*names, *column([b"%03d" % n for n in range(256)]))
    with pytest.raises(ValueError, match="names of which two are equal"):
        NameEncoder().sorted_blocks(*names, handles, np.arange(3, dtype=np.uint32))
    for order, given_handles in (([3], handles), ([0], handles[1:])):
        with pytest.raises(IndexError, match="handles of 3 names, or an index that is not among these"):
            NameEncoder().sorted_blocks(*names, given_handles, np.array(order, dtype=np.uint32))


def filled(log: LogNames, names: list[bytes], first: int) -> None:
    log.add(column(names), np.arange(first, first + len(names), dtype=np.uint64), hashed(*column(names)))


def test_each_generation_has_all_names_of_its_own_changes() -> None:
    log = LogNames.none()
    filled(log, [b"a", b"b"], 0)
    later = log.divided(5)
    later.add(column([b"b", b"c"]), np.array([1, 2], dtype=np.uint64), hashed(*column([b"b", b"c"])))
    assert (log.data_bytes, later.data_bytes) == (2, 4)
    handles, known = later.find(column([b"c", b"d", b"a", b"b"]), hashed(*column([b"c", b"d", b"a", b"b"])))
    assert known.tolist() == [True, False, True, True]
    assert handles[known].tolist() == [2, 0, 1]
    rest = later.since(5)
    assert rest is not None
    assert found_in(rest.generations[0].names, [b"a", b"b", b"c"]) == [None, 1, 2]
    assert len(rest.generations) == 1


def test_a_flush_takes_away_its_own_generations_alone() -> None:
    log = LogNames.none()
    filled(log, [b"a"], 0)
    log = log.divided(3)
    filled(log, [b"b"], 1)
    log = log.divided(7)
    filled(log, [b"c"], 2)
    left = log.since(3)
    assert left is not None
    assert [generation.end for generation in left.generations] == [7, None]
    assert left.find(column([b"a", b"b", b"c"]), hashed(*column([b"a", b"b", b"c"])))[1].tolist() == [
        False,
        True,
        True,
    ]


def test_names_of_changes_in_the_middle_of_a_generation_are_no_generation() -> None:
    log = LogNames.none().divided(5).divided(9)
    assert [log.since(change) is None for change in (4, 5, 6, 9, 10)] == [True, False, True, False, True]


def test_only_what_has_just_these_names_is_written_as_it_is() -> None:
    log, three = LogNames.none(), np.arange(3, dtype=np.uint64)
    assert log.all_of(three[:0]) is None
    filled(log, [b"a", b"b", b"c"], 0)
    assert log.all_of(three) is log.generations[0].names
    assert log.divided(1).all_of(three) is log.generations[0].names
    assert log.all_of(three[:2]) is None
    later = log.divided(1)
    filled(later, [b"d"], 3)
    assert later.all_of(np.arange(4, dtype=np.uint64)) is None


def test_a_filter_lacks_no_name_that_came_and_tells_nearly_all_others() -> None:
    rng = np.random.default_rng(5)
    came, others = rng.integers(0, 1 << 64, (2, 20_000), dtype=np.uint64)
    names = NameFilter(len(came))
    for first in range(0, len(came), 7000):
        own = came[first : first + 7000]
        found = np.zeros(len(own), dtype=np.uint8)
        assert names.put(own, found, 0) == len(own)
        assert found.sum() < 20
        assert names.put(own, found, 0) == len(own)
        assert found.all()
        found = np.zeros(len(came), dtype=np.uint8)
        names.find(came, found)
        assert found[: first + 7000].all()
        assert found[first + 7000 :].sum() < 20
    assert 19_980 < names.count <= names.most == 20_000
    found = np.zeros(len(others), dtype=np.uint8)
    names.find(others, found)
    assert found.sum() < 20
    found[:] = 1
    names.find(others, found)
    assert found.all()


def test_a_filter_takes_as_many_names_as_it_has_room_for_and_equal_ones_once() -> None:
    names, hashes = NameFilter(3), np.array([1, 1, 2, 3, 2, 4, 1], dtype=np.uint64) << np.uint64(40)
    came = np.zeros(7, dtype=np.uint8)
    assert names.put(hashes, came, 1) == 5
    assert (came.tolist(), names.count) == ([0, 0, 0, 0, 1, 0, 0], 3)
    assert names.put(hashes, came, 6) == 7
    assert came.tolist() == [0, 0, 0, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="2 hashes, 1 that may have come"):
        names.find(hashes[:2], came[:1])
    with pytest.raises(ValueError, match="2 hashes, 1 that may have come"):
        names.put(hashes[:2], came[:1], 0)


def test_names_in_memory_tell_their_least_handle_and_their_largest() -> None:
    pending = PendingNames()
    assert (pending.first_handle, pending.last_handle) == (0, -1)
    put(pending, [b"a", b"b"], [7, 9])
    put(pending, [b"c", b"a"], [5, 7])
    assert (pending.first_handle, pending.last_handle) == (5, 9)
