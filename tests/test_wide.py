"""Stores of wide fingerprints, 128 and 256 bits: exact against brute force, sound or refused."""

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore._answers import Answers
from fpstore._codec import page_checksums
from fpstore._codes import CodeIndex, code_keys, pattern_count
from fpstore._probe import WantedIds
from fpstore._single_codes import SingleCodes
from fpstore._view import SegmentView
from fpstore.codes.layout import CodesRecord, CodesSummary, CodeTableRecord, is_in_order, mask_words, tag_bits, top_of
from fpstore.codes.reader import CodesSegment
from fpstore.codes.sorting import ROWS_AT_ONCE, Spool, groups_of, in_order
from fpstore.errors import CorruptStore, PlanError, StoreClosed, TooManyMatches
from fpstore.fingerprints import as_bytes, as_code, as_codes, as_hexadecimal
from fpstore.format import HEADER_BYTES, PAGE_BYTES, Footer
from fpstore.plans import wide as planner
from fpstore.plans.plan import Plan, TablePlan
from fpstore.plans.planner import MIN_PLANNED_KEYS
from fpstore.query.matches import Matches

WIDTHS = {128: 9, 256: 31}
Rows = list[tuple[int, int | None]]


def numbers_of(codes: Any) -> list[int]:
    return [int.from_bytes(row.tobytes(), "big") for row in as_bytes(codes)]


def codes_of(store: fpstore.Store) -> CodesSegment:
    (segment,) = store._segments
    assert isinstance(segment, CodesSegment)
    return segment


def near(rows: Rows, query: int, distance: int) -> list[tuple[int, int, int | None]]:
    """What a probe must find, by looking at everything."""
    found = {((key ^ query).bit_count(), key, id) for key, id in rows}
    return sorted((row for row in found if row[0] <= distance), key=lambda row: (row[0], row[1], row[2] or 0))


def found_by(store: fpstore.Store, query: int, distance: int | None = None) -> list[tuple[int, int, int | None]]:
    return [(match.distance, match.fingerprint, match.id) for match in store.probe(query, max_distance=distance)]


def flipped(number: int, bits: list[int]) -> int:
    for bit in bits:
        number ^= 1 << bit
    return number


@st.composite
def cases(draw: Any) -> tuple[int, list[int], list[int]]:
    """Bits, fingerprints that are near each other in every way, and queries near them."""
    bits = draw(st.sampled_from(sorted(WIDTHS)))
    any_code = st.integers(0, (1 << bits) - 1)
    centers = draw(st.lists(any_code, min_size=1, max_size=4))
    errors = st.one_of(
        st.lists(st.integers(0, bits - 1), max_size=WIDTHS[bits] + 2),
        st.lists(st.integers(0, 23), max_size=24),  # all in one band
        st.lists(st.integers(bits - 24, bits - 1), max_size=24),
    )
    near_one = st.builds(flipped, st.sampled_from(centers), errors)
    stored = draw(st.lists(st.one_of(near_one, st.sampled_from(centers), any_code), max_size=60))
    queries = draw(st.lists(st.one_of(near_one, any_code), min_size=1, max_size=5))
    return bits, stored, queries


@settings(deadline=None, max_examples=40)
@given(case=cases(), with_ids=st.booleans(), data=st.data())
def test_every_answer_is_that_of_brute_force(
    case: tuple[int, list[int], list[int]], with_ids: bool, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bits, stored, queries = case
    ids = data.draw(st.lists(st.integers(0, 5), min_size=len(stored), max_size=len(stored)))
    rows: Rows = [(key, id if with_ids else None) for key, id in zip(stored, ids, strict=True)]
    path = tmp_path_factory.mktemp("wide") / "s"
    plan = data.draw(
        st.sampled_from(["balanced", "size", "speed", "flips-2:4,4" if bits == 128 else "flips-4:7,7,7,7"])
    )
    with fpstore.build(
        path, stored, ids=ids if with_ids else None, bits=bits, max_distance=WIDTHS[bits], plan=plan
    ) as s:
        distance = data.draw(st.integers(0, WIDTHS[bits]))
        for query in queries:
            assert found_by(s, query, distance) == near(rows, query, distance)
            assert s.contains_near(query, max_distance=distance) == bool(near(rows, query, distance))
        together = s.probe_many(queries, threads=2)
        expected = [(i, *row) for i, query in enumerate(queries) for row in near(rows, query, WIDTHS[bits])]
        assert [(m.query, m.distance, m.fingerprint, m.id) for m in together] == expected
        assert [tuple(row) for part in s.rows(batch=7) for row in part] == sorted(
            set(rows), key=lambda row: (row[0], row[1] or 0)
        )
        assert (s.count(), s.count("rows")) == (len(set(stored)), len(set(rows)))
        s.verify()


def many(bits: int, count: int, kind: str, seed: int = 1) -> Any:
    """Enough codes that tables are searched: random, in clusters, with a prefix that all share, each many times."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 1 << 64, size=(count, bits // 64), dtype=np.uint64)
    if kind == "clusters":
        codes = codes[random.integers(0, max(1, count // 30), count)]
        for _ in range(WIDTHS[bits] - 2):
            bit = random.integers(0, bits, count)
            codes[np.arange(count), bit // 64] ^= np.uint64(1) << (bit % 64).astype(np.uint64)
    elif kind == "prefix":
        codes[:, 0] = np.uint64(0x0123456789ABCDEF)
    elif kind == "repeats":
        codes = codes[random.integers(0, count // 2, count)]
    return codes


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("kind", ["random", "clusters", "prefix", "repeats"])
def test_a_store_that_is_searched_by_its_tables_is_exact(bits: int, kind: str, tmp_path: Path) -> None:
    codes, random = many(bits, 40_000, kind), np.random.default_rng(2)
    ids = random.integers(0, 10_000, len(codes)).astype(np.uint64)
    with fpstore.build(tmp_path / "s", codes, ids=ids, bits=bits, max_distance=WIDTHS[bits]) as store:
        methods = set()
        for number in range(25):
            query = codes[random.integers(len(codes))].copy() if number % 5 else many(bits, 1, "random", number)[0]
            for bit in random.choice(bits, number % (WIDTHS[bits] + 1), replace=False):
                query[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
            distances = np.bitwise_count(codes ^ query).sum(axis=1)
            close = np.flatnonzero(distances <= WIDTHS[bits])
            rows: Rows = list(zip(numbers_of(codes[close]), ids[close].tolist(), strict=True))
            asked = numbers_of(query[np.newaxis])[0]
            assert found_by(store, asked) == near(rows, asked, WIDTHS[bits])
            methods.add(store.probe(query).method)
        assert "probe" in methods
        store.verify()


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_the_tables_and_a_scan_find_the_same(bits: int, tmp_path: Path) -> None:
    codes = many(bits, 30_000, "clusters")
    with fpstore.build(tmp_path / "s", codes, bits=bits, max_distance=WIDTHS[bits]) as store:
        index = codes_of(store).codes
        searched = index.search(codes[:300], WIDTHS[bits])
        scanned = index.search(codes[:300], WIDTHS[bits], scan=True)
        assert not searched[3]
        assert scanned[3]
        assert all(np.array_equal(one, other) for one, other in zip(searched[:3], scanned[:3], strict=True))


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_a_scan_finds_a_code_that_is_near_alone_wherever_its_errors_are(bits: int, tmp_path: Path) -> None:
    """All errors in one word, as many as may be or one more, of one code among those that are scanned together."""
    distance = 20
    far = np.random.default_rng(bits).integers(0, 1 << 64, size=(8, bits // 64), dtype=np.uint64)
    far = far[np.argsort(far[:, 0])]
    with fpstore.build(tmp_path / "s", far, ids=None, bits=bits) as store:
        index = codes_of(store).codes
        for word in range(bits // 64):
            for errors in (distance, distance + 1):
                asked = far.copy()
                asked[:, word] ^= np.uint64((1 << errors) - 1)
                found = index.search(asked, distance, scan=True)
                assert found[1].tolist() == [*range(8)] * (errors == distance)


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_of_codes_that_are_scanned_together_each_has_its_own_distance(bits: int, tmp_path: Path) -> None:
    """However many of them are near, and where those that are kept become nearer from one to the next."""
    codes = np.unique(many(bits, 3000, "clusters"), axis=0)
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits) as store:
        index = codes_of(store).codes
        for asked in (codes[1234:1235], ~codes[7:8]):
            apart = np.bitwise_count(codes ^ asked).sum(axis=1, dtype=np.int64)
            order = np.argsort(apart, kind="stable")
            for distance in (0, 20, bits // 2, bits):
                within = order[apart[order] <= distance]
                for keep in (0, 1, 10, 2000):
                    found = index.search(asked, distance, scan=True, keep=keep)
                    kept = within[: keep or None]
                    assert (found[1].tolist(), found[2].tolist()) == (kept.tolist(), apart[kept].tolist())


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("seen", [(0, 0), (5, 21), (40, 130), (1, 128)])
def test_codes_in_pages_that_are_known_and_in_others_are_all_compared_once(
    bits: int, seen: tuple[int, int], tmp_path: Path
) -> None:
    """And damage in one of the others is found."""
    codes = np.unique(many(bits, 140 * PAGE_BYTES // (bits // 8), "random"), axis=0)
    fpstore.build(tmp_path / "s", codes, ids=None, bits=bits).close()
    asked = ~codes[99:100]
    apart = np.bitwise_count(codes ^ asked).sum(axis=1, dtype=np.int64)
    order = np.argsort(apart, kind="stable")[:50]
    with fpstore.open(tmp_path / "s") as store:
        segment = codes_of(store)
        path, offset = segment.path, segment.record.codes_offset
        segment.view.check(offset + PAGE_BYTES * seen[0], offset + PAGE_BYTES * seen[1], "codes")
        for _ in range(2):  # all are known the second time
            found = segment.codes.search(asked, bits, scan=True, keep=50)
            assert (found[1].tolist(), found[2].tolist()) == (order.tolist(), apart[order].tolist())
    data = path.read_bytes()
    for page in {2, 22, 39, 129, 131, 138} - set(range(seen[0], seen[1] + 1)):
        spoilt = bytearray(data)
        spoilt[offset + PAGE_BYTES * page] ^= 1
        path.write_bytes(spoilt)
        with fpstore.open(tmp_path / "s") as store:
            segment = codes_of(store)
            segment.view.check(offset + PAGE_BYTES * seen[0], offset + PAGE_BYTES * seen[1], "codes")
            with pytest.raises(CorruptStore, match="checksum"):
                segment.codes.search(asked, 0, scan=True)


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_a_match_that_one_table_alone_catches_is_found_whichever_that_is(bits: int, tmp_path: Path) -> None:
    """Of as many errors as may be, one more than its flips in every other band, and its own in its highest bits."""
    codes = many(bits, 30_000, "random")
    with fpstore.build(tmp_path / "s", codes, bits=bits, max_distance=WIDTHS[bits]) as store:
        places = [[at for at in reversed(range(bits)) if mask >> at & 1] for mask in store.plan.bands]
        for index, number in enumerate(numbers_of(codes[:: len(codes) // len(places)])[: len(places)]):
            flips = [table.flips + (other != index) for other, table in enumerate(store.plan.tables)]
            errors = [at for own, count in zip(places, flips, strict=True) for at in own[:count]]
            assert len(errors) == WIDTHS[bits]
            found = store.probe(flipped(number, errors))
            assert found.method == "probe"
            assert number in [match.fingerprint for match in found]


def test_where_a_scan_costs_less_all_codes_are_read(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "few", many(256, 200, "random"), bits=256, max_distance=31) as store:
        assert store.probe(0).method == "scan"
    # In each table all codes share a slot with the query.
    codes = np.zeros((50_000, 4), dtype=np.uint64)
    codes[:, 3] = np.arange(50_000)
    with fpstore.build(tmp_path / "alike", codes, bits=256, max_distance=31) as store:
        found = store.probe(0)
        assert (found.method, len(found)) == ("scan", 50_000)


# --- What is given and what comes out ---


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_fingerprints_come_in_every_form_and_are_the_same(bits: int) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    codes = many(bits, 9, "random")
    stored = [row.tobytes() for row in as_bytes(codes)]
    forms: list[Any] = [
        codes,
        codes.view(np.int64),
        as_bytes(codes),
        as_bytes(codes).view(f"V{bits // 8}").ravel(),
        stored,
        (bytearray(each) for each in stored),
        numbers_of(codes),
        np.array(stored, dtype=object),
        pyarrow.array(stored, pyarrow.binary(bits // 8)),
        pyarrow.chunked_array(
            [pyarrow.array(stored[:4], pyarrow.binary(bits // 8)), pyarrow.array(stored[4:], pyarrow.binary(bits // 8))]
        ),
        pyarrow.array(stored),
        pyarrow.table({"hash": pyarrow.array([b"?" * (bits // 8), *stored], pyarrow.binary(bits // 8)).slice(1)}),
        np.asfortranarray(codes),
    ]
    for form in forms:
        assert np.array_equal(as_codes(form, "fingerprints", bits), codes)
    assert as_hexadecimal(codes) == [each.hex() for each in stored]
    for one in (stored[0], numbers_of(codes)[0], codes[0], as_bytes(codes)[0], np.void(stored[0])):
        assert np.array_equal(as_code(one, "fingerprint", bits), codes[:1])
    nothings: list[Any] = [[], np.empty(0), np.empty((0, 3)), pyarrow.array([], pyarrow.binary(bits // 8))]
    for nothing in nothings:
        assert as_codes(nothing, "fingerprints", bits).shape == (0, bits // 64)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("text", TypeError, "found a str, expected fingerprints of 128 bits: uint64[n, 2], or 16 bytes each"),
        (5, TypeError, "found a int, "),
        ([b"short"], ValueError, "item 0: found 5 bytes, expected 16"),
        ([1 << 128], ValueError, "item 0: found an integer below 0 or of more bits, expected one of 128 bits"),
        ([-1], ValueError, "item 0: found an integer below 0 or of more bits"),
        (["00"], TypeError, "item 0: found '00', a str, expected"),
        (np.zeros((3, 4), np.uint64), ValueError, "found uint64 of shape (3, 4), expected"),
        (np.zeros(3, np.uint64), ValueError, "found uint64 of shape (3,), expected"),
        (np.zeros((3, 2), np.uint32), TypeError, "found dtype uint32, expected"),
        (np.zeros(3, "V8"), ValueError, "found 8 bytes each, expected 16"),
        (np.array([b"x" * 16]), TypeError, "found dtype |S16, expected"),
        (np.ma.masked_array(np.zeros((1, 2), np.uint64), mask=True), ValueError, "found 2 nulls"),
    ],
)
def test_what_is_no_wide_fingerprint_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        as_codes(given, "fingerprints", 128)
    assert str(caught.value).startswith(("fingerprints: ", "fingerprints, "))
    assert message in str(caught.value)


def test_arrow_of_another_type_or_with_nulls_is_refused() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    refused: list[tuple[Any, type[Exception], str]] = [
        (pyarrow.array([1, 2]), TypeError, "found type int64, expected"),
        (pyarrow.array([b"x" * 8], pyarrow.binary(8)), TypeError, "found type fixed_size_binary"),
        (pyarrow.array([b"x" * 8]), ValueError, "item 0: found 8 bytes, expected 16"),
        (pyarrow.array([b"x" * 16, None]), ValueError, "found 1 nulls"),
    ]
    for values, error, message in refused:
        with pytest.raises(error, match=rf"^fingerprints.*: {message}|^fingerprints, {message}"):
            as_codes(values, "fingerprints", 128)


def test_answers_speak_arrow_pandas_and_polars(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    codes = many(256, 5, "random")
    stored = sorted(row.tobytes() for row in as_bytes(codes))
    with fpstore.build(tmp_path / "s", codes, bits=256, max_distance=31) as store:
        (rows,) = store.rows()
        assert rows.fingerprint.shape == (5, 4)
        table = pyarrow.table(rows)
        assert table.schema.field("fingerprint").type == pyarrow.binary(32)
        assert table["fingerprint"].to_pylist() == stored
        for package, values in (("pandas", "tolist"), ("polars", "to_list")):
            if find_spec(package):
                assert getattr(getattr(rows, f"to_{package}")()["fingerprint"], values)() == stored
        found = store.probe(table["fingerprint"][2].as_py())
        assert f"0x{stored[2].hex()}" in repr(found)
        assert pickle.loads(pickle.dumps(found)) == found
        assert found[0].fingerprint == int.from_bytes(stored[2], "big")
        assert store.probe(1).to_arrow().schema == found.to_arrow().schema
        assert np.array_equal(store.probe_many(table["fingerprint"]).fingerprint, rows.fingerprint)


def test_a_stream_of_pairs_makes_the_store_that_arrays_make(tmp_path: Path) -> None:
    codes, ids = many(128, 1000, "repeats"), np.arange(5, 1005, dtype=np.uint64)
    parts = ((codes[i : i + 100], ids[i : i + 100]) for i in range(0, 1000, 100))
    with (
        fpstore.build(tmp_path / "a", codes, ids=ids, bits=128) as one,
        fpstore.build(tmp_path / "b", parts, bits=128) as two,
    ):
        assert one._segments[0].path.read_bytes() == two._segments[0].path.read_bytes()
        assert one.max_id() == 1004
        assert [row.id for row in one.lookup([7, 5000, 5])] == [5, 7]
        assert [row.fingerprint for row in one.lookup([7])] == numbers_of(codes[2:3])
    with fpstore.build(tmp_path / "c", iter([codes[:600], codes[600:]]), bits=128) as three:
        assert three.lookup([999])[0].fingerprint == numbers_of(codes)[999]
    with fpstore.build(tmp_path / "d", iter([codes]), ids=None, bits=128) as four:
        assert four.id_type is None


@pytest.mark.parametrize(
    ("stream", "ids", "message"),
    [
        ([(1, 2, 3)], "row", "the stream yields (1, 2, 3), expected pairs of arrays"),
        (
            [np.zeros((1, 2), np.uint64), (1, 2)],
            "row",
            "the stream yields (1, 2) after arrays, expected arrays of fingerprints",
        ),
        ([([1], [2])], None, "the stream yields pairs of fingerprints and ids, expected no ids"),
        ([[1]], np.zeros(1, np.uint64), 'ids of a stream: found a ndarray, expected "row" or None'),
    ],
)
def test_a_stream_that_is_no_stream_of_codes_is_refused(
    stream: list[Any], ids: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError) as caught:
        fpstore.build(tmp_path / "s", iter(stream), ids=ids, bits=128)
    assert message in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_ids_that_do_not_go_with_codes_are_refused(tmp_path: Path) -> None:
    for ids, message in (([1], "1 ids for 2 fingerprints: expected one for each"), ("rows", "ids: found 'rows'")):
        with pytest.raises(ValueError, match=rf"^{message}"):
            fpstore.build(tmp_path / "s", [1, 2], ids=ids, bits=128)


# --- Sorting ---


@pytest.mark.parametrize("shared", [0, 1, 2, 3])
def test_rows_are_sorted_however_many_words_they_share(
    shared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.codes.sorting.ROWS_AT_ONCE", 64)
    random = np.random.default_rng(shared)
    rows = random.integers(0, 3, size=(1000, 3), dtype=np.uint64) << np.uint64(40)
    rows[:, :shared] = 7
    spool = Spool(tmp_path, 3)
    for first in range(0, 1000, 90):
        spool.add(rows[first : first + 90])
    found = np.concatenate(list(in_order(spool, tmp_path, 1 << 20)))
    assert np.array_equal(found, np.unique(rows, axis=0))
    spool.close()


def test_groups_say_of_each_code_how_many_ids_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.codes.sorting.ROWS_AT_ONCE", 3)
    codes = np.array([[1, 1]] * 7 + [[1, 2]] + [[2, 0]] * 4, dtype=np.uint64)
    ids = np.array([6, 5, 4, 3, 2, 1, 1, 9, 3, 2, 1, 0], dtype=np.uint64)
    groups = groups_of(iter([(codes, ids)]), 2, True, tmp_path, 1 << 20, lambda count: None)
    assert np.concatenate(list(groups.codes())).tolist() == [[1, 1], [1, 2], [2, 0]]
    assert np.concatenate(list(groups.counts())).tolist() == [6, 1, 4]
    assert np.concatenate(list(groups.ids())).tolist() == [1, 2, 3, 4, 5, 6, 9, 0, 1, 2, 3]
    assert (groups.least, groups.most) == (0, 9)
    groups.close()
    with pytest.raises(ValueError, match=r"^the stream has no ids: expected"):
        groups_of(iter([(codes, None)]), 2, True, tmp_path, 1 << 20, lambda count: None)
    assert ROWS_AT_ONCE == 1 << 18


# --- The kernel ---


def test_keys_are_the_bits_of_a_mask_in_their_order() -> None:
    codes, random = many(256, 200, "random"), np.random.default_rng(3)
    for count in (1, 13, 48):
        bits = sorted(random.choice(256, count, replace=False).tolist(), reverse=True)
        mask = mask_words(sum(1 << bit for bit in bits), 256)
        expected = [int("".join(str(number >> bit & 1) for bit in bits), 2) for number in numbers_of(codes)]
        assert code_keys(codes, mask).tolist() == expected
    with pytest.raises(ValueError, match=r"^codes of 4 words and a mask of 2$"):
        code_keys(codes, mask_words(1, 128))


def test_patterns_are_counted_up_to_the_most() -> None:
    assert [pattern_count(10, flips, 1000) for flips in (0, 1, 2, 3)] == [1, 11, 56, 176]
    assert pattern_count(3, 9, 1000) == 8
    assert pattern_count(30, 15, 10_000) == 1 << 40


def test_the_kernel_refuses_what_would_read_elsewhere(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", many(128, 100, "random"), bits=128) as store:
        index: CodeIndex = codes_of(store).codes
        refused: list[tuple[Callable[[], object], str]] = [
            (lambda: index.search(np.zeros((1, 4), np.uint64), 3), "queries of 4 words: expected 2"),
            (lambda: index.gather(np.array([100], np.uint64)), "rank 100: the segment has 100 codes"),
            (lambda: index.read(3, 101), "ranks 3 to 101: the segment has 100"),
        ]
        for call, message in refused:
            with pytest.raises(ValueError, match=rf"^{message}$"):
                call()
        column = codes_of(store).ids
        assert column is not None
        with pytest.raises(ValueError, match=r"^ids 0 to 101, room 5: the segment has 100$"):
            column.find_ranks(WantedIds(np.array([1], np.uint64)), 0, 101, 5)


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("start_bytes", [4, 8])
@pytest.mark.parametrize("rank_bits", [9, 16, 23, 24, 25, 31, 32, 33, 40, 47, 48])
def test_the_kernel_reads_ranks_and_starts_of_any_width(bits: int, start_bytes: int, rank_bits: int) -> None:
    """Those of stores that no test has the room for, too: ranks of 48 bits, starts of 8 bytes."""
    random, tag_bits = np.random.default_rng(rank_bits), 8 - rank_bits % 3
    codes = np.unique(many(bits, 500, "random", rank_bits), axis=0)
    masks = [((1 << 64) - 1) << (64 * word) for word in range(bits // 64)]
    data, tables = bytearray(64) + codes.astype("<u8").tobytes(), []
    for number, mask in enumerate(masks):
        slot_bits = 4 + number % 2
        used = mask_words(top_of(mask, slot_bits + tag_bits), bits)
        keys = code_keys(codes, used)
        order = np.lexsort((np.arange(len(codes)), keys))
        starts = np.searchsorted(keys[order] >> np.uint64(tag_bits), np.arange((1 << slot_bits) + 1))
        data += bytes(-len(data) % 64)
        starts_offset = len(data)
        data += starts.astype(f"<u{start_bytes}").tobytes()
        data += bytes(-len(data) % 64)
        packed = 0
        for at, rank in enumerate(order.tolist()):
            tag = int(keys[rank]) & ((1 << tag_bits) - 1)
            packed |= (rank << tag_bits | tag) << (at * (rank_bits + tag_bits))
        tables.append(
            SimpleNamespace(
                used_mask=used,
                slot_bits=slot_bits,
                tag_bits=tag_bits,
                flips=number % 2,
                in_order=False,
                starts_offset=starts_offset,
                entries_offset=len(data),
            )
        )
        data += packed.to_bytes(-(-len(codes) * (rank_bits + tag_bits) // 8), "little")
    sums = page_checksums(data).astype("<u4").tobytes()
    roots_offset, roots = len(data) + len(sums), page_checksums(sums).astype("<u4").tobytes()
    whole = bytes(data) + sums + roots + bytes(64)
    view = SegmentView(whole, len(data), roots_offset, roots_offset + len(roots), ())
    record = SimpleNamespace(
        words=bits // 64, key_count=len(codes), rank_bits=rank_bits, start_bytes=start_bytes, codes_offset=64
    )
    index = CodeIndex(view, record, tables)
    queries = codes[random.integers(0, len(codes), 40)]
    queries[::3, 0] ^= np.uint64(1)
    query, rank, _, scanned = index.search(queries, WIDTHS[bits])
    expected = []
    for number, asked in enumerate(queries):
        apart = codes ^ asked
        caught = np.zeros(len(codes), dtype=bool)
        for table in tables:
            caught |= np.bitwise_count(apart & table.used_mask).sum(axis=1) <= table.flips
        near_by = np.bitwise_count(apart).sum(axis=1)
        expected += [(number, at) for at in np.flatnonzero((near_by <= WIDTHS[bits]) & caught).tolist()]
    assert not scanned
    assert sorted(zip(query.tolist(), rank.tolist(), strict=True)) == expected
    assert len(expected) >= len(queries)


def test_more_matches_than_asked_for_are_too_many(tmp_path: Path) -> None:
    codes = np.zeros((300, 2), dtype=np.uint64)
    codes[:, 1] = np.arange(300)
    with fpstore.build(tmp_path / "s", codes, bits=128, max_distance=9) as store:
        store.max_matches = 100
        with pytest.raises(TooManyMatches):
            store.probe_many([0, 1])
        with pytest.raises(TooManyMatches, match=r"^200 ids: found more than 100 rows"):
            store.lookup(np.arange(200, dtype=np.uint64))


# --- One query in one call ---


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("with_ids", [False, True])
def test_one_query_in_one_call_has_the_answer_of_a_batch(bits: int, with_ids: bool, tmp_path: Path) -> None:
    """Of several segments that have codes, and rows, in common."""
    codes, random = many(bits, 600, "clusters"), np.random.default_rng(4)
    options: dict[str, Any] = {"bits": bits, "max_distance": WIDTHS[bits], "id_type": "uint64" if with_ids else None}
    with fpstore.create(tmp_path / "s", **options) as store:
        for first in (0, 150, 400):
            own = codes[first : first + 200]
            store.add(own, ids=random.integers(0, 3, len(own), dtype=np.uint64) if with_ids else None)
            store._flush()
        assert len(store._segments) > 1
        answers = 0
        for number in numbers_of(codes[::7]):
            asked = flipped(number, random.choice(bits, random.integers(0, 12), replace=False).tolist())
            row = as_code(asked, "query", bits)
            for distance in (None, 0, 5, WIDTHS[bits]):
                expected = store.probe_many(row, max_distance=distance, threads=1)
                for form in (asked, asked.to_bytes(bits // 8, "big"), row[0]):
                    own = store._latest.single.probe(None, form, distance, False)
                    assert own == expected
                    assert own.method == expected.method
                    assert store._latest.single.contains(None, form, distance) is (len(expected) > 0)
                answers += len(expected)
        assert answers > 86  # those that were asked


def test_what_one_call_does_not_answer_is_answered_in_the_general_way(tmp_path: Path) -> None:
    codes = many(128, 5000, "random")
    with fpstore.build(tmp_path / "s", codes, bits=128, max_distance=9) as store:
        single, number = store._latest.single, numbers_of(codes)[7]
        assert len(single.probe(None, number, None, False)) == 1
        for fingerprint, distance, signed in (
            (number, None, True),
            (-1, None, False),
            (1 << 128, None, False),
            (True, None, False),
            (bytes(15), None, False),
            (codes[7].astype(np.int64), None, False),
            (codes[7:8], None, False),
            (np.repeat(codes[7], 2)[::2], None, False),
            (codes[7][:1], None, False),
            (number, 10, False),
            (number, -1, False),
            (number, 3.0, False),
            (number, 1 << 70, False),
        ):
            assert single.probe(None, fingerprint, distance, signed) is None
            assert signed or single.contains(None, fingerprint, distance) is None
        assert len(store.probe(number, max_distance=128)) == 5000
        assert store.contains_near(number, max_distance=128)
        store.close()
        assert single.probe(None, number, None, False) is None
    with fpstore.build(tmp_path / "t", [5] * 5000, bits=128, ids=np.arange(5000)) as store:
        assert store._latest.single.probe(None, 5, None, False) is None
        assert len(store.probe(5)) == 5000
    with fpstore.open(tmp_path / "t", mode="w") as store:
        store.add([6], ids=[1])
        assert store._latest.single.probe(None, 5, None, False) is None
        assert len(store.probe(6, max_distance=0)) == 1
        assert store.contains_near(6, max_distance=0)


def test_codes_of_another_width_are_refused_for_single_queries(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [5], bits=128) as store:
        segment = codes_of(store)
        with pytest.raises(ValueError, match=r"^codes of 2 words: expected 4$"):
            SingleCodes([(segment.codes, segment.ids)], 256, 3, 3, Answers(Matches, None, True, False, 4))


# --- Plans ---


def test_pdq_has_eleven_bands_and_is_proven() -> None:
    plan = planner.choose_wide(10**7, 31, "balanced", 256)
    assert plan.name == "spread-11:1,2,2,2,2,2,2,2,2,2,2"
    plan.prove()
    one_less = tuple(
        TablePlan(table.prefix_mask, max(0, table.flips - (i == 0))) for i, table in enumerate(plan.tables)
    )
    with pytest.raises(
        PlanError, match=r"would miss matches at distance 31: no table catches errors in bits [0-9a-f]{64} "
    ):
        Plan("one flip less", 31, plan.bands, one_less, bits=256).prove()


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("k", [0, 1, 3, 9, 31])
def test_every_aim_is_served_at_every_distance_and_faster_ones_take_no_longer(bits: int, k: int) -> None:
    for n in (0, 10**4, 10**7, 10**9):
        plans = [planner.choose_wide(n, k, aim, bits) for aim in ("size", "balanced", "speed")]
        size, balanced, speed = (planner.predict_wide(plan, max(n, MIN_PLANNED_KEYS)) for plan in plans)
        assert size.file_bytes <= min(balanced.file_bytes, speed.file_bytes)
        assert speed.nanoseconds <= balanced.nanoseconds
        assert {name for each in fpstore.predict(n=n, max_distance=k, bits=bits) for name in each.picked_by} == {
            "size",
            "balanced",
            "speed",
        }


def test_a_wide_plan_that_cannot_be_is_refused(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"max_distance": 65}, ValueError, "max_distance: found 65, expected an integer from 0 to 64"),
        ({"plan": "flips-2:1,1", "max_distance": 9}, PlanError, "plan flips-2:1,1 would miss"),
        ({"max_bytes": 3.0}, PlanError, "plan for n = "),
        ({"codec": "rice"}, ValueError, "codec: found 'rice', expected 'raw', or none: fingerprints of 256"),
        ({"codec": "gap"}, ValueError, "codec: found 'gap', expected 'raw', or none: fingerprints of 256"),
        ({"recipe": "text-1"}, fpstore.RecipeError, "recipe: found text-1, which makes fingerprints of 64 bits"),
    ]
    for arguments, error, message in refused:
        with pytest.raises(error, match=rf"^{message}"):
            fpstore.build(tmp_path / "s", [5], bits=256, **arguments)
    for call, message in (
        (lambda: planner.choose_wide(10, 3, "best", 256), "aim: found 'best'"),
        (lambda: planner.choose_wide(10, 65, "size", 256), "max_distance: found 65, expected 0 to 64"),
        (lambda: fpstore.predict(n=10**13 + 1, bits=256), "n: found 10000000000001, expected 0 to 10000000000000"),
    ):
        with pytest.raises(ValueError, match=rf"^{message}"):
            call()


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_what_is_predicted_is_what_is_built(bits: int, tmp_path: Path) -> None:
    codes = many(bits, 200_000, "random")
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=WIDTHS[bits]) as store:
        predicted = planner.predict_wide(store.plan, len(codes)).file_bytes
        assert abs(store._segments[0].file_bytes / predicted - 1) < 0.02


def test_a_shuffled_plan_is_as_exact(tmp_path: Path) -> None:
    codes = many(256, 30_000, "clusters")
    with fpstore.build(tmp_path / "s", codes, bits=256, max_distance=31, shuffle=7) as store:
        assert not any(table.in_order for table in codes_of(store).tables)
        index = codes_of(store).codes
        one, other = (index.search(codes[:50], 31, scan=scan) for scan in (False, True))
        assert all(np.array_equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))
        store.verify()


# --- The file ---


def built(path: Path, bits: int = 128, count: int = 60) -> Path:
    """A small store, and in it the file of its segment."""
    codes = many(bits, count, "repeats")
    with fpstore.build(path, codes, ids=np.arange(count) % 50, bits=bits, max_distance=WIDTHS[bits]) as store:
        return Path(store._segments[0].path)


def test_a_small_file_has_the_bytes_worked_through_in_the_format(tmp_path: Path) -> None:
    plan = Plan.named("flips-2:0,1", max_distance=2, bits=128)
    codes = [5 << 64 | 1, 5 << 64 | 7, 1 << 127]
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=128, max_distance=2, plan=plan) as store:
        data = store._segments[0].path.read_bytes()
    assert data[:16].hex() == "465053544f52450a0300000004000000"
    assert data[0x40:0x60].hex() == "05000000000000000100000000000000" + "05000000000000000700000000000000"
    assert data[0x60:0x70].hex() == "00000000000000800000000000000000"
    assert data[0x80:0x88].hex() == "0000000003000000"  # starts of table 0, which is in order
    assert data[0xC0:0xC8].hex() == "0000000003000000"  # starts of table 1
    # Entries of 2 bits of rank over 8 of tag, all tags 0: ranks 0, 1, 2 in 10 bits each, the rank above its tag.
    assert int.from_bytes(data[0x100:0x104], "little") == 0 << 8 | (1 << 8) << 10 | (2 << 8) << 20
    record, table = CodesRecord(128, 2, 3, 0x40), len(data)
    assert data[0x140 : 0x140 + 128] == record.pack()
    assert Footer.unpack(data[-64:], table).summary_offset == 0x140
    first = CodeTableRecord(((1 << 64) - 1) << 64, 0, 0, 0, 0x80, 0, 128, 3)
    second = CodeTableRecord((1 << 64) - 1, 0, 8, 1, 0xC0, 0x100, 128, 3)
    assert data[0x1C0 : 0x1C0 + 192] == first.pack()
    assert data[0x280 : 0x280 + 192] == second.pack()
    assert second.pack()[:34].hex() == "0" * 16 + "f" * 16 + "0" * 32 + "0008"


def test_the_same_codes_in_any_order_are_the_same_bytes(tmp_path: Path) -> None:
    codes = many(256, 500, "repeats")
    ids = np.arange(500, dtype=np.uint64) % np.uint64(9)
    order = np.random.default_rng(1).permutation(500)
    files = []
    for name, own in (("a", slice(None)), ("b", order)):
        with fpstore.build(tmp_path / name, codes[own], ids=ids[own], bits=256, max_distance=31) as store:
            files.append(store._segments[0].path.read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_every_changed_byte_is_found_or_refused(bits: int, tmp_path: Path) -> None:
    path = built(tmp_path / "s", bits)
    data = path.read_bytes()
    step = 7 if bits == 128 else 13
    for at in range(0, len(data), step):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises((CorruptStore, fpstore.UnsupportedVersion)), fpstore.open(tmp_path / "s") as store:
            store.verify()
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptStore):
            fpstore.open(tmp_path / "s")
    path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store:
        store.verify()


def sealed_again(data: bytearray) -> bytes:
    """The file with checksums that hold, whatever was written in it."""
    from fpstore._codec import crc32c, page_checksums

    footer = Footer.unpack(bytes(data[-64:]), len(data))
    sums = page_checksums(bytes(data[: footer.checksums_offset])).astype("<u4").tobytes()
    roots = page_checksums(sums).astype("<u4").tobytes()
    data[footer.checksums_offset : footer.roots_offset] = sums
    data[footer.roots_offset : footer.footer_offset] = roots
    data[footer.footer_offset :] = Footer(
        footer.file_bytes, footer.summary_offset, footer.checksums_offset, footer.roots_offset, crc32c(roots)
    ).pack()
    return bytes(data)


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_a_strangers_bytes_under_sound_checksums_never_crash_a_search(bits: int, tmp_path: Path) -> None:
    path = built(tmp_path / "s", bits, 5000)
    data, random = path.read_bytes(), np.random.default_rng(bits)
    queries = many(bits, 20, "random")
    place = fpstore.disk.Place(fpstore.disk.Folder.open(path.parent), path.name)
    refused = 0
    for _ in range(150):
        changed = bytearray(data)
        for at in random.integers(HEADER_BYTES, len(data) - 64, int(random.integers(1, 40))):
            changed[at] = random.integers(256)
        path.write_bytes(sealed_again(changed))
        try:
            segment = CodesSegment(place)
        except CorruptStore:
            refused += 1
            continue
        try:
            for search in (False, True):
                segment.codes.search(queries, WIDTHS[bits], scan=search)
            for rows in segment.rows():
                assert rows[0].shape[1] == bits // 64
        except CorruptStore:
            refused += 1
        finally:
            segment.close()
    assert refused
    place.folder.close()


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_starts_that_lie_under_sound_checksums_are_refused_in_pages_that_were_read_or_not(
    bits: int, warm: bool, tmp_path: Path
) -> None:
    path = built(tmp_path / "s", bits, 5000)
    data = path.read_bytes()
    place = fpstore.disk.Place(fpstore.disk.Folder.open(path.parent), path.name)
    segment = CodesSegment(place)
    record, table = segment.record, segment.tables[1]
    code = next(iter(segment.rows()))[0][:1]
    segment.close()
    slot = int(code_keys(code, table.used_mask)[0]) >> table.tag_bits
    at = table.starts_offset + record.start_bytes * slot
    (end,) = np.frombuffer(data, f"<u{record.start_bytes}", 1, at + record.start_bytes).tolist()
    for start, follows in ((end + 1, end), (record.key_count + 1, record.key_count + 1)):
        changed = bytearray(data)
        changed[at : at + 2 * record.start_bytes] = np.array([start, follows], f"<u{record.start_bytes}").tobytes()
        path.write_bytes(sealed_again(changed))
        segment = CodesSegment(place)
        if warm:
            segment.view.warm(0, segment.view.page_count)
        with pytest.raises(CorruptStore, match="runs backwards"):
            segment.codes.search(code, 0)
        segment.close()
    place.folder.close()


def test_verify_names_what_is_wrong_under_sound_checksums(tmp_path: Path) -> None:
    path = built(tmp_path / "s", 128, 3000)
    data = path.read_bytes()
    place = fpstore.disk.Place(fpstore.disk.Folder.open(path.parent), path.name)
    segment = CodesSegment(place)
    record, table = segment.record, segment.tables[1]
    with fpstore.open(tmp_path / "s") as store:
        plan = store.plan
    segment.close()
    starts = f"<u{record.start_bytes}"
    changes: list[tuple[int, bytes, str]] = [
        (record.codes_offset, b"\xff" * 16, "codes, rank 1"),
        (table.starts_offset, np.array([1], starts).tobytes(), "table 1 starts"),
        (table.starts_offset + 4 * 9, np.array([9999], starts).tobytes(), "table 1 starts, slot"),
        (table.entries_offset, b"\xff" * 4, "table 1, entr"),
        (table.entries_offset, b"\0" * 40, "table 1, entry"),
        (record.groups_offset, b"\0", "id groups, the first bit"),
    ]
    from fpstore.codes.verify import verify_codes

    for offset, written, where in changes:
        changed = bytearray(data)
        changed[offset : offset + len(written)] = written
        path.write_bytes(sealed_again(changed))
        segment = CodesSegment(place)
        with pytest.raises(CorruptStore) as caught:
            verify_codes(segment, plan)
        assert any(where in each.region for each in caught.value.damage), caught.value.damage
        segment.close()
    place.folder.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key_bits": 192}, "codes record, key_bits: found 192, expected one of 128, 256"),
        ({"key_count": 1 << 48}, "codes record, key_count: "),
        ({"table_count": 0}, "codes record, table_count: found 0, expected 1..1024"),
        ({"codes_offset": 0}, "codes record, codes_offset: found 0"),
        ({"id_kind": 3}, "codes record, id_kind: found 3, expected 0..2"),
    ],
)
def test_a_codes_record_with_a_wrong_number_is_refused(changes: dict[str, int], message: str) -> None:
    from dataclasses import replace

    record = replace(CodesRecord(256, 11, 1000, 64), **changes)
    with pytest.raises(CorruptStore) as caught:
        CodesRecord.unpack(record.pack())
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix_mask": 0}, "table 3, prefix bits: found 0, expected 1..256"),
        ({"slot_bits": 24}, "table 3, slot_bits: found 24, expected 0..23"),
        ({"tag_bits": 3}, "table 3, tag_bits: found 3, expected 8"),
        ({"flips": 24}, "table 3, flips: found 24, expected 0..23"),
        ({"starts_offset": 0}, "table 3, starts_offset: found 0"),
        ({"entries_offset": 65}, "table 3, entries_offset: found 65"),
    ],
)
def test_a_table_record_of_codes_with_a_wrong_number_is_refused(changes: dict[str, int], message: str) -> None:
    from dataclasses import replace

    record = CodesRecord(256, 11, 1000, 64)
    table = replace(CodeTableRecord((1 << 23) - 1, 6, 8, 2, 128, 192, 256, 1000), **changes)
    with pytest.raises(CorruptStore) as caught:
        CodeTableRecord.unpack(table.pack(), 3, record)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_bytes_of_records_of_codes_that_say_nothing_are_zeros(bits: int) -> None:
    record = CodesRecord(bits, 11, 1000, 64)
    table = CodeTableRecord((1 << 23) - 1, 6, 8, 2, 128, 192, bits, 1000)
    assert CodeTableRecord.unpack(table.pack(), 3, record) == table
    for data, empty, unpack in (
        (record.pack(), [*range(32, 40), *range(96, 128)], CodesRecord.unpack),
        (
            table.pack(),
            [*range(bits // 8, 32), 34, 35, *range(56, 192)],
            lambda changed: CodeTableRecord.unpack(changed, 3, record),
        ),
    ):
        for at in empty:
            assert data[at] == 0
            with pytest.raises(CorruptStore, match=r"bytes \d+\.\.\d+: found "):
                unpack(data[:at] + b"\1" + data[at + 1 :])


def test_masks_are_told_by_their_bits() -> None:
    assert is_in_order(0xFF << 120, 128)
    assert not is_in_order(0xFF << 119, 128)
    assert top_of(0b101100, 2) == 0b101000
    assert tag_bits(23, 19, 10**7, False) == 4
    assert tag_bits(23, 6, 10**7, False) == 8
    assert tag_bits(23, 6, 10**7, True) == 0
    assert CodesSummary.__mro__[1].__name__ == "Summary"


# --- A store ---


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("flushed", [False, True])
def test_the_nearest_are_found_however_far_they_are(bits: int, flushed: bool, tmp_path: Path) -> None:
    numbers = numbers_of(many(bits, 400, "clusters"))
    with fpstore.create(tmp_path / "s", bits=bits, max_distance=WIDTHS[bits]) as store:
        store.add(numbers, ids=np.arange(400) % 7)
        if flushed:
            store._flush()
        store.remove(fingerprints=numbers[:50])
        rows: Rows = [(key, i % 7) for i, key in enumerate(numbers) if key not in numbers[:50]]
        for query in (numbers[3], numbers[77], 5, (1 << bits) - 1):
            for count, most in ((1, None), (10, None), (3, WIDTHS[bits]), (400, bits)):
                found = [(m.distance, m.fingerprint, m.id) for m in store.nearest(query, count, max_distance=most)]
                assert found == near(rows, query, bits if most is None else most)[:count]


def test_a_wide_store_is_opened_copied_pickled_and_closed_as_any(tmp_path: Path) -> None:
    codes = many(256, 100, "random")
    with fpstore.build(tmp_path / "s", codes, bits=256, max_distance=31) as store:
        assert isinstance(store, fpstore.Store)
        assert (store.bits, store.max_distance, store.codec, store.kind, store.id_type) == (
            256,
            31,
            "raw",
            "hamming",
            "uint64",
        )
        assert store.stats(largest_slots=3).segments[0].codec == "raw"
        store.copy(tmp_path / "copy")
        with pickle.loads(pickle.dumps(store)) as again:
            assert found_by(again, numbers_of(codes)[3]) == found_by(store, numbers_of(codes)[3])
    for call in (lambda: store.probe(1), lambda: store.probe_many([1]), lambda: store.contains_near(1), store.verify):
        with pytest.raises(StoreClosed):
            call()
    with fpstore.open(tmp_path / "copy", warm=True) as copied:
        assert copied.verify().fingerprint_count == 100
        assert copied.identity != store.identity
        assert len(copied.probe(codes[5])) == 1
        assert copied.probe(codes[5], max_distance=256).method == "scan"
        assert len(copied.probe(codes[5], max_distance=256)) == 100
    with fpstore.build(tmp_path / "s", [7], bits=64, force=True) as narrow:
        assert narrow.probe(7).fingerprint.tolist() == [7]
    with fpstore.build(tmp_path / "s", [7], bits=128, force=True) as wide:
        assert wide.probe(7).fingerprint.tolist() == [[0, 7]]


def test_a_reader_goes_over_to_what_replaces_a_wide_store(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [1], bits=128) as store:
        fpstore.build(tmp_path / "s", [1, 2], bits=128, force=True).close()
        assert store.count() == 2


def test_wide_fingerprints_are_not_laid_out_in_blocks(tmp_path: Path) -> None:
    for call in (
        lambda: fpstore.build(tmp_path / "s", [5], bits=256, layout="blocks"),
        lambda: fpstore.predict(n=10, bits=128, layout="blocks"),
    ):
        with pytest.raises(ValueError, match=r"^layout: found 'blocks' with \d+ bits, expected 'slots'"):
            call()


@pytest.mark.parametrize("bits", [72, 96, 192, 248])
def test_fingerprints_between_two_widths_are_searched_with_zeros_above_them(bits: int, tmp_path: Path) -> None:
    width, source = 128 if bits < 128 else 256, np.random.default_rng(bits)
    numbers = [int.from_bytes(source.bytes(bits // 8), "big") for _ in range(300)]
    numbers += [flipped(numbers[i], sorted(source.choice(bits, 5, replace=False).tolist())) for i in range(100)]
    with fpstore.build(tmp_path / "s", numbers, bits=width, max_distance=9) as store:
        rows: Rows = list(zip(numbers, range(400), strict=True))
        for query in numbers[:100:9]:
            assert found_by(store, query) == near(rows, query, 9)
