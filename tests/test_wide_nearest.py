"""The nearest wide codes are those of brute force, in memory that grows with the answer alone."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from living import writer_of
from test_wide import WIDTHS, flipped, many, near, numbers_of

import fpstore
from fpstore._codes import CodeIndex, near_first
from fpstore.codes.reader import CodesSegment

BOTH = pytest.mark.parametrize("bits", sorted(WIDTHS))


def answers(store: fpstore.Store, query: int, count: int, distance: int) -> list[tuple[int, int, int | None]]:
    return [(m.distance, m.fingerprint, m.id) for m in store.nearest(query, count, max_distance=distance)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[Any]]:
    """Bits, and what is done to a store: rows near each other come, are flushed and go, and come again."""
    bits = draw(st.sampled_from(sorted(WIDTHS)))
    center = draw(st.integers(0, (1 << bits) - 1))
    code = st.builds(flipped, st.just(center), st.lists(st.integers(0, 5), max_size=3))
    rows = st.lists(st.tuples(code, st.integers(0, 4)), min_size=1, max_size=12)
    step = st.one_of(
        st.tuples(st.just("add"), rows),
        st.tuples(st.just("remove"), st.lists(code, min_size=1, max_size=3)),
        st.tuples(st.just("ids"), st.lists(st.integers(0, 4), min_size=1, max_size=2)),
        st.tuples(st.just("rows"), rows),
        st.tuples(st.just("flush"), st.none()),
    )
    return bits, [center, *draw(st.lists(step, min_size=1, max_size=12))]


@settings(deadline=None, max_examples=60)
@given(history=histories(), with_ids=st.booleans())
def test_the_nearest_rows_are_those_of_brute_force_whatever_was_removed(
    history: tuple[int, list[Any]], with_ids: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bits, (center, *steps) = history
    path = tmp_path_factory.mktemp("wide") / "s"
    fpstore.create(path, bits=bits, max_distance=WIDTHS[bits], id_type="uint64" if with_ids else None).close()
    truth: set[tuple[int, int | None]] = set()
    with writer_of(path) as store:
        for what, given_ in steps:
            if what in ("add", "rows"):
                codes = [code for code, _ in given_]
                ids = [id for _, id in given_] if with_ids else None
                rows = {(code, id if with_ids else None) for code, id in given_}
                if what == "add":
                    store.add(codes, ids=ids)
                    truth |= rows
                elif with_ids:
                    store.remove(fingerprints=codes, ids=ids)
                    truth -= rows
            elif what == "remove":
                store.remove(fingerprints=given_)
                truth = {row for row in truth if row[0] not in given_}
            elif what == "ids" and with_ids:
                store.remove(ids=given_)
                truth = {row for row in truth if row[1] not in given_}
            elif what == "flush":
                store._flush()
        for query in (center, flipped(center, [0, 7]), center ^ ((1 << bits) - 1)):
            for count, distance in ((1, 2), (1, bits), (3, 4), (7, bits), (100, bits)):
                expected = near([*truth], query, distance)
                assert answers(store, query, count, distance) == expected[:count]
                assert store.contains_near(query, max_distance=distance) == bool(expected)


@BOTH
@pytest.mark.parametrize("kind", ["random", "clusters", "prefix"])
def test_of_a_segment_the_first_of_each_query_are_kept_by_tables_and_by_a_scan(
    bits: int, kind: str, tmp_path: Path
) -> None:
    codes = many(bits, 20_000, kind)
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=WIDTHS[bits]) as store:
        (segment,) = store._segments
        assert isinstance(segment, CodesSegment)
        index: CodeIndex = segment.codes
        queries = codes[:40]
        for scan in (False, True):
            query, rank, apart, _ = index.search(queries, WIDTHS[bits], scan=scan)
            rows = list(zip(query.tolist(), apart.tolist(), rank.tolist(), strict=True))
            for keep in (1, 2, 5, 10**6):
                expected = [row for i in range(40) for row in [each for each in rows if each[0] == i][:keep]]
                found = index.search(queries, WIDTHS[bits], scan=scan, keep=keep)
                assert list(zip(found[0].tolist(), found[2].tolist(), found[1].tolist(), strict=True)) == expected
            # After the first of each, which is the code itself, come the others.
            firsts = [next(each for each in rows if each[0] == i) for i in range(40)]
            after = np.array([row[1] for row in firsts], np.uint16), np.array([row[2] for row in firsts], np.uint64)
            found = index.search(queries, WIDTHS[bits], scan=scan, keep=10**6, after=after)
            rest = [row for row in rows if row not in firsts]
            assert list(zip(found[0].tolist(), found[2].tolist(), found[1].tolist(), strict=True)) == rest


@BOTH
def test_bounds_that_are_not_of_the_queries_are_refused(bits: int, tmp_path: Path) -> None:
    codes = many(bits, 50, "random")
    none, far = np.zeros(2, np.uint16), np.array([0, 50], np.uint64)
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=WIDTHS[bits]) as store:
        index = store._segments[0].codes  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="2 distances and 2 ranks for 2 queries among 50 codes"):
            index.search(codes[:2], 3, keep=1, after=(none, far))
    with pytest.raises(ValueError, match="2 distances and 2 ranks for 3 queries among 50 codes"):
        near_first(codes, None, codes[:3], 3, 1, (none, far))
    with pytest.raises(ValueError, match="keep 0 of each query"):
        near_first(codes, None, codes[:3], 3, 0)
    with pytest.raises(ValueError, match="keep 1 of each query, ids of 50 codes"):
        near_first(codes, np.zeros(3, np.uint64), codes[:3], 3, 1)
    with pytest.raises(ValueError, match="queries of 1 words among codes"):
        near_first(codes, None, codes[:3, :1].copy(), 3, 1)
    assert len(near_first(codes[:0], None, codes[:3], 3, 1)[0]) == 0


@BOTH
@pytest.mark.parametrize("what", ["codes", "ids"])
def test_a_million_within_the_distance_take_no_memory(bits: int, what: str, tmp_path: Path) -> None:
    count = 10**6
    codes = np.zeros((count, bits // 64), dtype=np.uint64)
    if what == "codes":  # none is further than 20 bits
        codes[:, -1] = np.arange(count)
    fpstore.build(tmp_path / "s", codes, ids="row", bits=bits, max_distance=WIDTHS[bits], memory="256MiB").close()
    with fpstore.open(tmp_path / "s") as store:
        store.nearest(1, 3, max_distance=20)
        tracemalloc.start()
        found = answers(store, 0, 3, 20)
        nearest = answers(store, 0, 1, 20)
        batch = store.nearest_many([0] * 8, 3, max_distance=20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        first = [(0, 0, 0), (1, 1, 1), (1, 2, 2)] if what == "codes" else [(0, 0, 0), (0, 0, 1), (0, 0, 2)]
        assert (found, nearest, len(batch)) == (first, first[:1], 24)
        assert peak < 8 << 20  # a row of each took 40 bytes and more
        assert numbers_of(batch.fingerprint)[:3] == [row[1] for row in first]
