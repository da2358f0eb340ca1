"""Which prefixes the keys of a segment have, where that is noted: searches pass over others and find all the same."""

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
from fpstore.living.writer import Writer
from fpstore.plans import families as plans
from fpstore.segment import reader
from fpstore.segment.reader import Segment
from fpstore.types import Keys

BITS = 30
# A table with a flip and two without, each of 1,024 prefixes, of which some 600 keys have less than half.
THIRDS = plans.flips(3, (1, 0, 0), 3, BITS)
KEYS = distinct(uniform(600, np.random.default_rng(5)) >> np.uint64(64 - BITS))
QUERIES = queries_near(KEYS, 3, 500, np.random.default_rng(6), BITS)
PLANS = {
    "one flip in one table": THIRDS,
    "two flips": plans.flips(3, (2, 1, 1), 6, BITS),
    "a table of few bits": plans.flips((0b11 << 28, (1 << 28) - 1), (0, 3), 4, BITS),
    "bits from all over": plans.spread(3, (1, 1, 1), 5, BITS),
}


def noted(segment: Segment, *tables: int) -> Segment:
    """The segment with the prefixes of these tables noted."""
    for table in tables:
        segment.view.note_prefixes(table, segment.keys(table))
    return segment


@pytest.mark.parametrize("codec", ["gap", "xor", "rice", "raw"])
@pytest.mark.parametrize("slot_bits", [0, 4, 10, 13])
@pytest.mark.parametrize("name", PLANS)
def test_where_prefixes_are_noted_all_that_is_near_is_found(name: str, slot_bits: int, codec: str) -> None:
    """Slots have several prefixes, or one each, or a prefix has several slots."""
    plan = PLANS[name]
    if max(table.prefix_mask.bit_count() for table in plan.tables) > 20:
        slot_bits = min(slot_bits, 10)
    with segment_of(KEYS, plan, codec=codec, slot_bits=slot_bits) as segment:
        tables = [index for index, table in enumerate(plan.tables) if table.prefix_mask.bit_count() <= 20]
        noted(segment, *tables)
        assert sorted(segment.view.prefixes) == tables
        for distance in range(plan.max_distance + 1):
            assert search_differences(segment, KEYS, QUERIES, distance) == 0
            one = nearest(segment.view, QUERIES, distance)
            first = [search(segment.view, query, distance) for query in QUERIES[:50].reshape(-1, 1)]
            assert [len(found[0]) > 0 for found in first] == np.isin(np.arange(50), one[0]).tolist()
            expected = [(int(found[1][0]), int(found[2][0])) for found in first if len(found[0])]
            assert list(zip(one[1].tolist(), one[2].tolist(), strict=True))[: len(expected)] == expected


def test_probes_of_a_prefix_that_no_key_has_are_passed_over() -> None:
    """Slots have a prefix each, and only what a key has is decoded; or several, some of which are decoded in vain."""
    with segment_of(KEYS, THIRDS, slot_bits=10) as segment:
        prefixes = {table: {*(segment_keys(segment, table) >> 20).tolist()} for table in range(3)}
        queries = uniform(300, np.random.default_rng(7)) >> np.uint64(64 - BITS)
        decoded = blocks_decoded(segment.view, queries, 3)
        noted(segment, 0)
        assert blocks_decoded(segment.view, queries, 3) == decoded
        own = [query for query in queries.tolist() if query >> 20 not in prefixes[0]]
        assert len(own) > 100
        # Of the query's own prefix there is nothing to read either, and of the tables that are not noted there is.
        expected = sum((own_query >> 20) ^ (1 << bit) in prefixes[0] for own_query in own for bit in range(10))
        expected += sum((own_query >> 10 & 1023) in prefixes[1] for own_query in own)
        expected += sum((own_query & 1023) in prefixes[2] for own_query in own)
        assert blocks_decoded(segment.view, np.array(own, dtype=np.uint64), 3) == expected
    # Slots of many prefixes: what is decoded for others' sake is passed over.
    with segment_of(KEYS, THIRDS, slot_bits=3) as segment:
        before = blocks_decoded(segment.view, queries, 3)
        noted(segment, 0)
        flips = [int(key) ^ 1 << (BITS - 1 - bit) for key in queries for bit in range(3)]
        missed = sum(key >> 20 not in prefixes[0] for key in flips)
        assert missed > 100
        assert blocks_decoded(segment.view, queries, 3) == before - missed


def segment_keys(segment: Segment, table: int) -> Keys:
    return np.concatenate([keys.copy() for keys in segment.keys(table)])


def test_prefixes_are_noted_of_tables_with_flips_where_neither_all_nor_few_occur() -> None:
    def tables(count: int) -> list[int]:
        keys = np.arange(count, dtype=np.uint64) << np.uint64(BITS - 14)
        with segment_of(keys, THIRDS) as segment:
            segment.note_prefixes()
            return sorted(segment.view.prefixes)

    most, least = 1024, 1024 // reader.NOTED_BITS
    assert [tables(count) for count in (least - 1, least, most, most + 1)] == [[], [0], [0], []]
    blocks = plans.flips(3, (1, 0, 0), 3, BITS)
    object.__setattr__(blocks, "block_bytes", 64)
    with segment_of(KEYS, blocks) as segment:
        segment.note_prefixes()
        assert segment.view.prefixes == {}


@pytest.mark.parametrize("bits", [62, 64])
def test_prefixes_of_more_bits_than_an_int_of_c_has_are_noted(bits: int) -> None:
    """In memory that is there once it is written to."""
    plan = plans.flips(2, (1, 1), 3, bits)
    keys = distinct(uniform(200, np.random.default_rng(10)) >> np.uint64(64 - bits))
    with segment_of(keys, plan) as segment:
        noted(segment, 0)
        assert len(segment.view.prefixes[0]) == (1 << bits // 2) // 64 + 1
        assert search_differences(segment, keys, queries_near(keys, 3, 200, np.random.default_rng(11), bits), 3) == 0


def test_prefixes_that_take_more_memory_than_a_bound_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reader.MAX_NOTED_PREFIXES == 8 * (8 << 20)  # bits of 8 MiB
    for most, tables in ((1023, []), (1024, [0])):
        monkeypatch.setattr(reader, "MAX_NOTED_PREFIXES", most)
        with segment_of(KEYS, THIRDS) as segment:
            segment.note_prefixes()
            assert sorted(segment.view.prefixes) == tables


def test_of_a_damaged_table_nothing_is_noted_and_the_search_says_so(tmp_path: Path) -> None:
    plan = plans.flips(3, (1, 0, 0), 3, 40)
    keys = distinct(uniform(5000, np.random.default_rng(9)) >> np.uint64(24))
    path = write_segment(tmp_path / "x.fpseg", keys, plan)
    data = bytearray(path.read_bytes())
    data[2 * PAGE_BYTES] ^= 1  # in the payload of table 0
    path.write_bytes(data)
    segment = Segment(path)
    segment.note_prefixes()
    assert segment.view.prefixes == {}
    with pytest.raises(CorruptStore, match=f"page at byte {2 * PAGE_BYTES}"):
        search(segment.view, keys, 3)
    segment.close()


def test_without_memory_nothing_is_noted_and_searches_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_arguments: object, **_given: object) -> None:
        raise MemoryError

    with segment_of(KEYS, THIRDS) as segment, monkeypatch.context() as patched:
        patched.setattr(np, "zeros", none_left)
        segment.note_prefixes()
        assert segment.view.prefixes == {}
        patched.undo()
        assert len(search(segment.view, KEYS[:10], 0)[0]) == 10


def test_what_cannot_be_noted_is_refused() -> None:
    def failing(keys: Keys) -> Iterator[Keys]:
        yield keys[:10]
        raise KeyError("in the midst")

    with segment_of(KEYS, THIRDS) as segment:
        for table in (-1, 3):
            with pytest.raises(ValueError, match=f"table {table}: expected one of 3 tables, and not one of "):
                noted(segment, table)
        with pytest.raises(KeyError):
            segment.view.note_prefixes(1, failing(segment_keys(segment, 1)))
        assert segment.view.prefixes == {}
        noted(segment, 1)
        with pytest.raises(ValueError, match=r"table 1: expected one of 3 tables, and not one of \[1\]"):
            noted(segment, 1)
        assert search_differences(segment, KEYS, QUERIES, 3) == 0


@pytest.mark.parametrize("tests", [True, False])
def test_a_writer_that_tests_batches_notes_prefixes_of_the_segments_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: bool
) -> None:
    """Who only adds would read them in vain. What comes later is found to be near what is there, and stored once."""
    monkeypatch.setattr(reader, "NOTED_BITS", 1 << 20)
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
        found = [sorted(part.segment.view.prefixes) for part in store._living.snapshot.parts]
        assert found == [[0] if tests else []] * len(found)
        assert found
        assert not store.add_if_new(keys ^ np.uint64(1 << 63 | 1), ids=ids).stored.any()
        assert sorted(rows_of(store)) == sorted(zip(keys.tolist(), ids.tolist(), strict=True))
