"""Traces of the keys of a segment, where they are noted: searches pass over slots without a near one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import distinct, queries_near, search_differences, segment_of, uniform, write_segment
from living import rows_of, writer_of

import fpstore
from fpstore._probe import blocks_decoded, nearest, search
from fpstore.errors import CorruptStore
from fpstore.format import PAGE_BYTES
from fpstore.living.sizes import LivingSizes
from fpstore.living.writer import Writer
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.segment import reader
from fpstore.segment.reader import Segment
from fpstore.types import Keys

BITS = 30
# A table with a flip and two without, each of 1,024 prefixes.
THIRDS = plans.flips(3, (1, 0, 0), 3, BITS)
KEYS = distinct(uniform(600, np.random.default_rng(5)) >> np.uint64(64 - BITS))
QUERIES = queries_near(KEYS, 3, 500, np.random.default_rng(6), BITS)
PLANS = {
    "one flip in one table": THIRDS,
    "one flip in each": plans.spread(3, (1, 1, 1), 5, BITS),
    "two flips": plans.flips(3, (2, 1, 1), 6, BITS),
    "traces of less than 16 bits": plans.flips(3, (1, 0, 0), 3, 18),
}
TRACED_KEYS = 256  # of a slot


def noted(segment: Segment, *tables: int) -> Segment:
    """The segment with the traces of these tables noted."""
    for table in tables:
        segment.view.note_traces(table, segment.key_count, segment.keys(table))
    return segment


def segment_keys(segment: Segment, table: int) -> Keys:
    return np.concatenate([keys.copy() for keys in segment.keys(table)])


@pytest.mark.parametrize("codec", ["gap", "xor", "rice", "raw"])
@pytest.mark.parametrize("slot_bits", [0, 3, 5, 6])
@pytest.mark.parametrize("name", PLANS)
def test_where_traces_are_noted_all_that_is_near_is_found(name: str, slot_bits: int, codec: str) -> None:
    """Slots of all keys, of hundreds, which have too many to compare, and of some."""
    plan = PLANS[name]
    keys = distinct(KEYS >> np.uint64(BITS - plan.bits))
    queries = queries_near(keys, 3, 500, np.random.default_rng(6), plan.bits)
    with segment_of(keys, plan, codec=codec, slot_bits=slot_bits) as segment:
        tables = [index for index, table in enumerate(plan.tables) if table.prefix_mask.bit_count() >= slot_bits]
        noted(segment, *tables)
        assert sorted(segment.view.traces) == tables
        assert tables
        for distance in range(plan.max_distance + 1):
            assert search_differences(segment, keys, queries, distance) == 0
            one = nearest(segment.view, queries, distance)
            first = [search(segment.view, query, distance) for query in queries[:50].reshape(-1, 1)]
            assert [len(found[0]) > 0 for found in first] == np.isin(np.arange(50), one[0]).tolist()
            expected = [(int(found[1][0]), int(found[2][0])) for found in first if len(found[0])]
            assert list(zip(one[1].tolist(), one[2].tolist(), strict=True))[: len(expected)] == expected


@pytest.mark.parametrize("distance", [0, 1, 2, 3])
def test_slots_of_which_no_key_is_near_are_passed_over(distance: int) -> None:
    """A flip takes an error, and those of the prefix; of the query's own slot one error may be in the prefix."""
    slot_bits, prefix_bits = 6, 10
    with segment_of(KEYS, THIRDS, slot_bits=slot_bits) as segment:
        queries = np.concatenate([QUERIES[:100], uniform(300, np.random.default_rng(7)) >> np.uint64(64 - BITS)])
        before = blocks_decoded(segment.view, queries, distance)
        noted(segment, 0)
        keys = Permutation(THIRDS.tables[0].prefix_mask, BITS).apply(KEYS)
        passed_over = looked_at = 0
        for query in Permutation(THIRDS.tables[0].prefix_mask, BITS).apply(queries).tolist():
            for flip in [0, *(1 << (BITS - 1 - bit) for bit in range(slot_bits))]:
                own = keys[keys >> np.uint64(BITS - slot_bits) == np.uint64((query ^ flip) >> (BITS - slot_bits))]
                wrong = (own ^ np.uint64(query ^ flip)) >> np.uint64(BITS - slot_bits - 16) & np.uint64(0xFFFF)
                near = np.bitwise_count(wrong) <= distance - (flip > 0)
                if flip:
                    near &= wrong >> np.uint64(16 - (prefix_bits - slot_bits)) == 0
                passed_over += len(own) > 0 and not near.any()
                looked_at += near.any()
        assert passed_over > 1000
        assert looked_at > 0
        assert blocks_decoded(segment.view, queries, distance) == before - passed_over


def test_a_slot_of_more_keys_than_are_compared_is_looked_at() -> None:
    """As its fences tell at once what hundreds of traces would."""
    keys = uniform(2000, np.random.default_rng(12)) >> np.uint64(4)
    far = keys[np.bitwise_count(keys >> np.uint64(44)) > 3]
    query = np.zeros(1, dtype=np.uint64)
    for count, looked_at in ((TRACED_KEYS, False), (TRACED_KEYS + 1, True)):
        with segment_of(far[:count], plans.flips(3, (1, 0, 0), 3, 64), slot_bits=4) as segment:
            before = blocks_decoded(segment.view, query, 3)
            noted(segment, 0)
            assert (blocks_decoded(segment.view, query, 3) == before) == looked_at
            assert len(search(segment.view, query, 3)[0]) == 0


def test_traces_are_noted_of_many_keys_of_tables_that_are_probed_with_one_flip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 600)

    def tables(plan: Plan, slot_bits: int = 6, count: int = 600) -> list[int]:
        with segment_of(KEYS[:count], plan, slot_bits=slot_bits) as segment:
            segment.note_traces(1 << 30)
            assert segment.traced_bytes == len(segment.view.traces) * (2 * (count + 1) + 4 * ((1 << slot_bits) + 1))
            return sorted(segment.view.traces)

    assert tables(THIRDS) == [0]
    assert tables(THIRDS, count=599) == []
    assert tables(THIRDS, slot_bits=10) == [0]
    assert tables(THIRDS, slot_bits=11) == []
    assert tables(PLANS["one flip in each"]) == [0, 1, 2]
    assert tables(PLANS["two flips"], slot_bits=3) == [1, 2]
    blocks = plans.flips(3, (1, 0, 0), 3, BITS)
    object.__setattr__(blocks, "block_bytes", 64)
    with segment_of(KEYS, blocks) as segment:
        segment.note_traces(1 << 30)
        assert segment.view.traces == {}


def test_traces_that_take_more_memory_than_is_given_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 1)
    size = 2 * (600 + 1) + 4 * ((1 << 6) + 1)
    for most, tables in ((size - 1, []), (size, [0]), (-1, [])):
        with segment_of(KEYS, THIRDS, slot_bits=6) as segment:
            segment.note_traces(most)
            assert sorted(segment.view.traces) == tables


def test_of_a_damaged_table_nothing_is_noted_and_the_search_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 1)
    plan = plans.flips(3, (1, 0, 0), 3, 40)
    keys = distinct(uniform(5000, np.random.default_rng(9)) >> np.uint64(24))
    path = write_segment(tmp_path / "x.fpseg", keys, plan)
    data = bytearray(path.read_bytes())
    data[2 * PAGE_BYTES] ^= 1  # in the payload of table 0
    path.write_bytes(data)
    segment = Segment(path)
    segment.note_traces(1 << 30)
    assert segment.view.traces == {}
    with pytest.raises(CorruptStore, match=f"page at byte {2 * PAGE_BYTES}"):
        search(segment.view, keys, 3)
    segment.close()


def test_without_memory_nothing_is_noted_and_searches_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_arguments: object, **_given: object) -> None:
        raise MemoryError

    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 1)
    with segment_of(KEYS, THIRDS, slot_bits=6) as segment, monkeypatch.context() as patched:
        patched.setattr(np, "zeros", none_left)
        segment.note_traces(1 << 30)
        assert segment.view.traces == {}
        patched.undo()
        assert len(search(segment.view, KEYS[:10], 0)[0]) == 10


def test_what_cannot_be_noted_is_refused() -> None:
    def failing(keys: Keys) -> Iterator[Keys]:
        yield keys[:10]
        raise KeyError("in the midst")

    with segment_of(KEYS, THIRDS, slot_bits=6) as segment:
        keys, count = segment_keys(segment, 1), segment.key_count
        for table in (-1, 3):
            with pytest.raises(ValueError, match=f"table {table}: expected one of 3 tables, and not one of "):
                segment.view.note_traces(table, count, [keys])
        with pytest.raises(KeyError):
            segment.view.note_traces(1, count, failing(keys))
        with pytest.raises(ValueError, match="table 1: found more than 599 keys"):
            segment.view.note_traces(1, count - 1, [keys[:10], keys[10:]])
        with pytest.raises(ValueError, match="table 1: found 599 keys, expected 600"):
            segment.view.note_traces(1, count, [keys[:-1]])
        with pytest.raises(ValueError, match="4294967296 keys: expected fewer than 2\\^32"):
            segment.view.note_traces(1, 1 << 32, [keys])
        wide = np.append(keys[:-1], keys[-1] + np.uint64(1 << BITS))
        for wrong in ([keys[::-1].copy()], [keys[:5], keys[4:-1]], [wide]):
            with pytest.raises(CorruptStore, match="table 1: found keys in no order, expected each larger than the"):
                segment.view.note_traces(1, count, wrong)
        assert segment.view.traces == {}
        noted(segment, 1)
        with pytest.raises(ValueError, match=r"table 1: expected one of 3 tables, and not one of \[1\]"):
            noted(segment, 1)
        assert search_differences(segment, KEYS, QUERIES, 3) == 0
    blocks = plans.flips(3, (1, 0, 0), 3, BITS)
    object.__setattr__(blocks, "block_bytes", 64)
    refused = pytest.raises(ValueError, match="table 0: found blocks, or several slots to a prefix, expected slots")
    for plan, slot_bits in ((THIRDS, 11), (blocks, 6)):
        with segment_of(KEYS, plan, slot_bits=slot_bits) as segment, refused:
            noted(segment, 0)


@pytest.mark.parametrize("tests", [True, False])
def test_a_writer_that_tests_batches_notes_traces_of_the_segments_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: bool
) -> None:
    """Who only adds would read them in vain. What comes later is found to be near what is there, and stored once."""
    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 1)
    path = tmp_path / "s"
    fpstore.create(path, plan="flips-3:1,0,0").close()
    keys, ids = uniform(900, np.random.default_rng(8)), np.arange(900, dtype=np.uint64)
    with writer_of(path, "commit", flush_rows=200, small_rows=200, batch_rows=1000) as store:
        assert isinstance(store._living, Writer)
        for first in range(0, 900, 300):
            rows = slice(first, first + 300)
            if tests:
                assert store.add_if_new(keys[rows], ids=ids[rows]).stored.all()
            else:
                store.add(keys[first : first + 150], ids=ids[first : first + 150])
                store.add(keys[first + 150 : first + 300], ids=ids[first + 150 : first + 300])
            store._flush()
        store.wait()
        found = [sorted(part.segment.view.traces) for part in store._living.snapshot.parts]
        assert found == [[0] if tests else []] * len(found)
        assert found
        assert not store.add_if_new(keys ^ np.uint64(1 << 63 | 1), ids=ids).stored.any()
        assert sorted(rows_of(store)) == sorted(zip(keys.tolist(), ids.tolist(), strict=True))


def test_the_traces_of_all_segments_of_a_writer_take_no_more_than_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of segments that are merged make room for those of what comes of them."""
    assert LivingSizes().traced_bytes == 64 << 20
    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 1)
    path = tmp_path / "s"
    with fpstore.create(path, plan="flips-3:1,0,0") as store:
        slot_bits = planner.slot_bits(900, store.plan.slot_keys)
    most = 2 * (900 + 1) + 4 * ((1 << slot_bits) + 1)
    keys, ids = uniform(1200, np.random.default_rng(8)), np.arange(1200, dtype=np.uint64)
    with writer_of(path, flush_rows=200, batch_rows=2000, growth=0, traced_bytes=most) as store:
        assert isinstance(store._living, Writer)

        def added(first: int) -> list[int]:
            rows = slice(first, first + 300)
            assert store.add_if_new(keys[rows], ids=ids[rows]).stored.all()
            store._flush()
            return [part.segment.traced_bytes for part in store._living.snapshot.parts]

        assert len([added(first) for first in (0, 300, 600)][-1]) == 3
        assert sum(part.segment.traced_bytes for part in store._living.snapshot.parts) <= most
        assert store._living.snapshot.parts[0].segment.traced_bytes
        store.compact()
        assert [part.segment.traced_bytes for part in store._living.snapshot.parts] == [most]
        assert added(900) == [most, 0]
        assert not store.add_if_new(keys ^ np.uint64(1), ids=ids).stored.any()


def test_traces_that_are_held_with_an_older_snapshot_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LEAST_TRACED_KEYS", 1)
    keys, ids = uniform(900, np.random.default_rng(8)), np.arange(900, dtype=np.uint64)
    path = tmp_path / "s"
    fpstore.create(path, plan="flips-3:1,0,0").close()

    def traced_bytes(store: fpstore.Store) -> int:
        assert isinstance(store._living, Writer)
        (part,) = store._living.snapshot.parts
        return part.segment.traced_bytes

    def after_one_goes(number: int) -> bool:
        store.remove(ids=[number])
        store.compact()
        return traced_bytes(store) > 0

    with writer_of(path) as store:
        store.add_if_new(keys, ids=ids)
        store.compact()
        most = traced_bytes(store)
    with writer_of(path, traced_bytes=most) as store:
        assert isinstance(store._living, Writer)
        store.add_if_new(keys[:9], ids=ids[:9])  # from here on it tests
        assert after_one_goes(0)
        held = store._living.snapshot
        assert after_one_goes(1)  # in place of that one
        assert not after_one_goes(2)
        del held
        assert after_one_goes(3)
