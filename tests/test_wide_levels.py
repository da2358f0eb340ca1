"""Levels that tables of wide fingerprints leave out by what ranks tell: nothing is missed, and nothing told twice."""

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore.codes.reader import CodesSegment
from fpstore.errors import CorruptStore
from fpstore.plans import families
from fpstore.plans import wide as planner

WIDTHS = {128: 9, 256: 31}
GUIDE_AFTER, GUIDE_READ_AFTER = 64, 1024  # native/codes.h


def uniform(bits: int, count: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 1 << 64, size=(count, bits // 64), dtype=np.uint64)


def segment_of(store: fpstore.Store) -> CodesSegment:
    (segment,) = store._segments
    assert isinstance(segment, CodesSegment)
    return segment


def inverted(code: Any, bits: int, places: Any) -> Any:
    """The code with these bits, counted from the most significant one, inverted."""
    changed = code.copy()
    for place in places:
        changed[place // 64] ^= np.uint64(1) << np.uint64(63 - place % 64)
    return changed


def places_of(mask: int, bits: int) -> list[int]:
    return [place for place in range(bits) if mask >> (bits - 1 - place) & 1]


def expect_as_scanned(store: fpstore.Store, queries: Any, distance: int, may_read_all: bool = False) -> int:
    """How many matches the tables find, which are those of a scan; may_read_all: also where crowded ones read all."""
    index = segment_of(store).codes
    one, other = (index.search(queries, distance, scan=scan) for scan in (False, True))
    assert may_read_all or not one[3]
    assert all(np.array_equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))
    return len(one[0])


@settings(deadline=None, max_examples=200)
@given(data=st.data(), bits=st.sampled_from(sorted(WIDTHS)), band_count=st.integers(2, 16))
def test_a_table_looks_on_the_level_of_every_code_within_the_distance(data: Any, bits: int, band_count: int) -> None:
    k = WIDTHS[bits]
    plan = planner.flips_over(min(band_count, k + 1), k, bits)
    first, *others = plan.tables
    reaches = planner._reaches(plan)[1:]
    if max(table.flips for table in plan.tables) >= planner.MAX_LEVELS:
        assert reaches == [None] * len(others)
        return
    distance = data.draw(st.integers(0, k))
    if distance <= first.flips:
        return  # the first table catches all
    in_first = data.draw(st.integers(first.flips + 1, distance))
    errors = [0] * len(others)
    for index in data.draw(st.lists(st.integers(0, len(others) - 1), max_size=distance - in_first)):
        errors[index] += 1
    assert any(
        count <= table.flips and in_first <= distance + reach[count]
        for count, table, reach in zip(errors, others, reaches, strict=True)
        if reach is not None
    )


def test_fewer_slots_are_looked_at_for_less_than_the_plans_distance() -> None:
    plan = planner.flips_over(12, 31, 256)
    found = [planner.predict_wide(plan, 10**6, distance) for distance in range(32)]
    for before, after in itertools.pairwise(found):
        assert before.probes <= after.probes
        assert before.nanoseconds <= after.nanoseconds
    assert found[31] == planner.predict_wide(plan, 10**6)
    # By hand: 9 levels are looked on for 8 errors, of 9 tables the lowest, which is a slot each; 13 for 12, of which
    # one is the next of a table.
    assert [table.flips for table in plan.tables] == [1] * 4 + [2] * 8
    assert found[8].probes == 9
    assert found[12].probes == 12 + found[8].slot_bits
    # Where bands share bits every table is looked up.
    shared = families.choose(5, 3, 256)
    assert planner.predict_wide(shared, 10**6, 0).probes == planner.predict_wide(shared, 10**6).probes


def test_each_level_is_the_only_one_that_catches_some_code() -> None:
    """Of 31 errors, so many in the first band that all lower levels of a table, and all other tables, miss."""
    plan = planner.flips_over(11, 31, 256)
    reaches = planner._reaches(plan)[1:]
    for index, reach in enumerate(reaches):
        assert reach is not None
        for level, most in enumerate(reach):
            in_first = 31 + most
            if not plan.tables[0].flips < in_first <= 31:
                continue
            # One more than the levels that are looked on in every other table, and just this many in its own.
            looked = [sum(31 + each >= in_first for each in other) for other in reaches if other is not None]
            errors = [level if other == index else count for other, count in enumerate(looked)]
            assert in_first + sum(errors) == 31


@pytest.mark.parametrize(
    ("bits", "plan"), [(128, "balanced"), (256, "balanced"), (256, "spread-11"), (256, "spread-14")]
)
def test_errors_in_the_first_band_are_found_whatever_ranks_tell(bits: int, plan: str, tmp_path: Path) -> None:
    """With every count of errors in the first band, and the others dealt to many bands or to few."""
    k, codes, random = WIDTHS[bits], uniform(bits, 40_000), np.random.default_rng(3)
    chosen: Any = planner.flips_over(int(plan[7:]), k, bits) if plan.startswith("spread-") else plan
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=k, plan=chosen) as store:
        places = [places_of(table.prefix_mask, bits) for table in store.plan.tables]
        queries: list[Any] = []
        for in_first in range(min(k, len(places[0])) + 1):
            for start in range(len(places)):
                errors = list(places[0][:in_first])
                left, own = k - in_first, [list(random.permutation(each)) for each in places[1:]]
                own = own[start:] + own[:start]
                while left > 0:  # dealt to the bands by turns, or as many as there are to one
                    for each in own if start % 2 else own[:2]:
                        if left > 0 and each:
                            errors.append(each.pop())
                            left -= 1
                queries.append(inverted(codes[len(queries) * 37 % len(codes)], bits, errors))
        index = segment_of(store).codes
        assert len(queries) > 40
        assert not index.is_guided
        for distance in (k, k - 1, k // 2, 1, 0):
            assert expect_as_scanned(store, np.stack(queries), distance) >= (len(queries) if distance == k else 0)
        for _ in range(1 + GUIDE_AFTER // len(queries)):
            expect_as_scanned(store, np.stack(queries), k)
        assert index.is_guided
        for distance in (k, k - 1, k // 2, 1, 0):
            expect_as_scanned(store, np.stack(queries), distance)


@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_codes_that_share_much_are_found_by_what_ranks_tell(bits: int, tmp_path: Path) -> None:
    """Slots of the first table that are empty, or hold most codes."""
    codes, random = uniform(bits, 40_000), np.random.default_rng(4)
    codes[: len(codes) // 2, 0] >>= np.uint64(12)
    codes[: len(codes) // 4, 0] |= np.uint64(0xFFF) << np.uint64(52)
    codes[-100:, 0] = np.uint64(0x7FFF_FFFF_FFFF_FFFF) + random.integers(0, 2, 100).astype(np.uint64)
    queries = codes[:: len(codes) // 150].copy()
    for number, query in enumerate(queries):
        errors = random.choice(bits, number % (WIDTHS[bits] + 1), replace=False)
        queries[number] = inverted(query, bits, errors)
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=WIDTHS[bits]) as store:
        for _ in range(2):
            assert expect_as_scanned(store, queries, WIDTHS[bits]) >= len(queries)
        assert segment_of(store).codes.is_guided
        for distance in (WIDTHS[bits], WIDTHS[bits] // 2, 1):
            expect_as_scanned(store, queries, distance)


@pytest.mark.parametrize("band_count", [11, 12, 14])
def test_whichever_tables_are_crowded_what_they_leave_out_is_found_by_others(band_count: int, tmp_path: Path) -> None:
    """Each table in turn has most codes in one slot, and so look those tables on most levels that have the fewest."""
    plan, random = planner.flips_over(band_count, 31, 256), np.random.default_rng(5)
    codes, center = uniform(256, 24_000), uniform(256, 1, seed=6)[0]
    every = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    masks = [
        np.array([table.prefix_mask >> 64 * word & int(every) for word in (3, 2, 1, 0)], dtype=np.uint64)
        for table in plan.tables
    ]
    for number, mask in enumerate(masks[1:]):  # of the last tables the most
        shared = random.permutation(len(codes))[: 30 * (number + 1)]
        codes[shared] = codes[shared] & ~mask | center & mask
    near = codes[random.permutation(len(codes))[: 31 * len(masks)]]
    for code, mask in zip(near[::2], itertools.cycle(masks[1:]), strict=False):
        code[:] = code & ~mask | center & mask
    codes[: len(near)] = near
    queries: list[Any] = []
    places = [list(random.permutation(places_of(table.prefix_mask, 256))) for table in plan.tables]
    for number, code in enumerate(near):
        in_first, start = number % 32, number // 32
        errors, left = places[0][:in_first], 31 - in_first
        own = places[1 + start :] + places[1 : 1 + start]
        for step in range(left):  # dealt to all tables by turns, or to few
            band = own[step % len(own)] if number % 3 else own[step // len(places[-1])]
            errors = [*errors, band[(step // len(own) if number % 3 else step) % len(band)]]
        queries.append(inverted(code, 256, errors))
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=256, max_distance=31, plan=plan) as store:
        for distance in (31, 30, 16, 3, 31):
            assert expect_as_scanned(store, np.stack(queries), distance) >= (len(queries) if distance == 31 else 0)
        assert segment_of(store).codes.is_guided


@settings(deadline=None, max_examples=15)
@given(data=st.data(), seed=st.integers(0, 1 << 32), band_count=st.integers(3, 6))
def test_the_levels_that_cost_least_find_all_whatever_is_crowded(data: Any, seed: int, band_count: int) -> None:
    """Any tables, the first too, have a slot of few or many codes; errors are many in some bands, none in others."""
    # Slots are large enough that to look at those of one level more costs less than to read all codes.
    plan = replace(planner.flips_over(band_count, 9, 128), slot_keys=6)
    random, count = np.random.default_rng(seed), 20_000
    codes, center = uniform(128, count, seed), uniform(128, 1, seed + 1)[0]
    places = [places_of(table.prefix_mask, 128) for table in plan.tables]
    masks = [inverted(np.zeros(2, dtype=np.uint64), 128, each) for each in places]
    crowds = [data.draw(st.sampled_from([0, 20, 200, 2000])) for _ in masks]
    for mask, crowd in zip(masks, crowds, strict=True):
        shared = random.permutation(count)[:crowd]
        codes[shared] = codes[shared] & ~mask | center & mask
    queries: list[Any] = []
    for number in range(150):
        weights = random.random(band_count) ** 4 + 1e-9
        errors = [0] * band_count
        for band in random.choice(band_count, 9 - number % 2, p=weights / weights.sum()):
            errors[band] += 1
        code, own = codes[number * 7], random.random(band_count) < 0.6
        for mask, is_center in zip(masks, own, strict=True):
            if is_center:
                code[:] = code & ~mask | center & mask
        wrong = [place for each, many in zip(places, errors, strict=True) for place in random.permutation(each)[:many]]
        queries.append(inverted(code, 128, wrong))
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"ids": None, "bits": 128, "max_distance": 9, "plan": plan}
        with fpstore.build(Path(folder) / "s", codes, **options) as store:
            for distance in (9, 8, 5, 0, 9):
                # Where a tenth of all codes has one slot, to read all of them is what costs least.
                found = expect_as_scanned(store, np.stack(queries), distance, may_read_all=max(crowds) == 2000)
                assert found >= (150 if distance == 9 else 0)
            assert segment_of(store).codes.is_guided


def test_a_distance_that_no_levels_reach_reads_all_codes(tmp_path: Path) -> None:
    """One error more in each band than any table looks for."""
    plan, codes = planner.flips_over(6, 9, 128), uniform(128, 30_000)
    highest = max(table.flips for table in plan.tables) + 1
    wrong = [place for table in plan.tables for place in places_of(table.prefix_mask, 128)[: highest + 1]]
    queries = np.stack([inverted(code, 128, wrong) for code in codes[:20]])
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=128, max_distance=9, plan=plan) as store:
        query, _, _, scanned = segment_of(store).codes.search(queries, len(wrong))
        assert scanned
        assert set(query.tolist()) == set(range(20))
        assert not segment_of(store).codes.search(queries, len(wrong) - 1)[3]


@pytest.mark.slow
def test_a_code_whose_slot_begins_within_a_range_of_ranks_is_found(tmp_path: Path) -> None:
    """Of more codes than there are ranges: those whose slot differs most from that of the first of their range."""
    count, k = (1 << 18) + 10_000, WIDTHS[128]
    codes = uniform(128, count)
    codes = codes[np.argsort(codes[:, 0])]
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=128, max_distance=k) as store:
        first = segment_of(store).tables[0]
        slots = codes[:, 0] >> np.uint64(64 - first.slot_bits)
        differ = np.bitwise_count(slots[1::2] ^ slots[:-1:2][: len(slots[1::2])])
        chosen = codes[1::2][np.argsort(differ, kind="stable")[-64:]]
        places = [places_of(table.prefix_mask, 128) for table in store.plan.tables]
        queries: list[Any] = []
        for number, code in enumerate(chosen):
            for in_first in range(min(k, first.slot_bits) + 1):
                errors = list(places[0][:in_first])
                own = [list(each) for each in places[1:]]
                own = own[number % len(own) :] + own[: number % len(own)]
                while len(errors) < k:
                    errors += [each.pop() for each in own if each][: k - len(errors)]
                queries.append(inverted(code, 128, errors))
        asked, index = np.stack(queries), segment_of(store).codes
        for _ in range(2):
            query, rank, _, _ = index.search(asked, k)
            found = {*zip(query.tolist(), rank.tolist(), strict=True)}
            ranks = np.argsort(differ, kind="stable")[-64:] * 2 + 1
            each = len(asked) // len(chosen)
            assert all((at, int(ranks[at // each])) in found for at in range(len(asked)))
        assert index.is_guided


@pytest.mark.slow
@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_what_codes_of_one_slot_tell_of_their_ranks_leaves_no_match_out(bits: int, tmp_path: Path) -> None:
    """Of two codes in a range of ranks and in one slot, the second, where they differ most in the bits below."""
    count, k = (1 << 18) + 10_000, WIDTHS[bits]
    codes = uniform(bits, count)
    codes = codes[np.argsort(codes[:, 0])]
    fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=k).close()
    with fpstore.open(tmp_path / "s", warm=True) as store:
        first, first_bits = segment_of(store).tables[0], store.plan.tables[0].prefix_bits
        assert first_bits > first.slot_bits
        keys = (codes[: count // 2 * 2, 0] >> np.uint64(64 - first_bits)).reshape(-1, 2)
        differ = np.bitwise_count(keys[:, 0] ^ keys[:, 1]).astype(int)
        below = np.uint64(first_bits - first.slot_bits)
        differ[keys[:, 0] >> below != keys[:, 1] >> below] = 0
        chosen = codes[1::2][np.argsort(differ, kind="stable")[-64:]]
        places = [places_of(table.prefix_mask, bits) for table in store.plan.tables]
        queries: list[Any] = []
        for number, code in enumerate(chosen):
            for in_first in range(min(k, first_bits) + 1):
                below_first = places[0][first.slot_bits :] + places[0][: first.slot_bits]
                errors = (places[0] if number % 2 else below_first)[:in_first]
                own = [list(each) for each in places[1:]]
                own = own[number % len(own) :] + own[: number % len(own)]
                if number % 4 < 2:  # two tables have one error each
                    errors += [each.pop() for each in own[:2]][: k - len(errors)]
                    own = own[2:]
                while len(errors) < k:
                    errors += [each.pop() for each in own if each][: k - len(errors)]
                queries.append(inverted(code, bits, errors))
        asked, index = np.stack(queries), segment_of(store).codes
        for _ in range(2 + GUIDE_READ_AFTER // len(asked)):
            one = index.search(asked, k)
        assert index.is_guided
        assert not one[3]
        assert set(one[0].tolist()) == set(range(len(asked)))
        few = asked[:: len(asked) // 40].copy()
        for distance in (k, k - 1, k // 2):
            expect_as_scanned(store, few, distance)


@pytest.mark.parametrize(("plan", "distance", "options"), [("balanced", 31, {"shuffle": 7}), ("choose-5", 3, {})])
def test_tables_that_share_bits_or_are_in_no_order_look_on_all_levels(
    plan: str, distance: int, options: dict[str, Any], tmp_path: Path
) -> None:
    codes = uniform(256, 30_000)
    queries = np.stack([inverted(code, 256, range(distance)) for code in codes[:100]])
    settings: dict[str, Any] = {"bits": 256, "max_distance": distance, "ids": None, "plan": plan, **options}
    with fpstore.build(tmp_path / "s", codes, **settings) as store:
        for _ in range(2):
            assert expect_as_scanned(store, queries, distance) == len(queries)
        assert not segment_of(store).codes.is_guided
        if not options:
            assert planner._reaches(store.plan) == [None] * len(store.plan.tables)


def test_a_damaged_page_that_ranks_would_be_told_of_harms_only_who_needs_it(tmp_path: Path) -> None:
    """The starts of the first table are read whole once, but a search goes on without them."""
    codes = uniform(256, 60_000)
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=256, max_distance=31) as store:
        segment = segment_of(store)
        path, table = Path(segment.path), segment.tables[0]
    data = bytearray(path.read_bytes())
    pages = range(-(-table.starts_offset // 4096), (table.starts_offset + table.starts_bytes) // 4096)
    data[pages[-1] * 4096 + 100] ^= 1  # of slots whose first bits are ones
    path.write_bytes(data)
    low = codes[codes[:, 0] < np.uint64(1) << np.uint64(61)][:200]
    with fpstore.open(tmp_path / "s") as store:
        index = segment_of(store).codes
        for query in low:
            try:
                assert len(index.search(query[np.newaxis], 2)[0]) == 1
            except CorruptStore:  # one of its flips leads there
                continue
        assert not index.is_guided


def test_a_damaged_page_is_found_when_all_others_are_known_to_be_sound(tmp_path: Path) -> None:
    codes = uniform(256, 60_000)
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=256, max_distance=31) as store:
        path, record = Path(segment_of(store).path), segment_of(store).record
    data = bytearray(path.read_bytes())
    data[record.codes_offset + 32 * 30_000] ^= 1
    path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store:
        store._warm()
        with pytest.raises(CorruptStore, match="page at byte"):
            segment_of(store).codes.search(codes[:2000], 31)


@pytest.mark.parametrize(("bits", "distance"), [(128, 9), (256, 31)])
def test_in_pages_that_were_all_read_the_tables_find_what_a_scan_does(bits: int, distance: int, tmp_path: Path) -> None:
    """There starts are read eight at a time, with AVX-512, and slots that have no entries are left out."""
    codes, random = uniform(bits, 60_000), np.random.default_rng(bits)
    queries = codes[:100].copy()
    for number, query in enumerate(queries):
        queries[number] = inverted(query, bits, random.choice(bits, number % (distance + 1), replace=False))
    with fpstore.build(tmp_path / "s", codes, ids=None, bits=bits, max_distance=distance) as store:
        store._warm()
        assert expect_as_scanned(store, queries, distance) >= len(queries)
