"""The planner: predictions are the arithmetic they claim to be, and each aim gets what it promises."""

from dataclasses import replace
from itertools import combinations, pairwise
from math import comb, inf, log2, nan

import helpers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore._probe import blocks_decoded
from fpstore.errors import PlanError
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.considered import MAX_TABLES_CONSIDERED, considered
from fpstore.plans.plan import Plan, TablePlan
from fpstore.plans.planner import choose, predict, slot_bits, table_of_choices

ALL_64 = (1 << 64) - 1
SIZES = (0, 1, 2, 10**4, 10**6, 10**7, 10**9, 10**11)
DISTANCES = range(9)


def one_table(prefix_bits: int, flips: int, slot_keys: int = 24) -> Plan:
    """A plan of one table on top bits; what it would miss does not matter to its costs."""
    prefix = ALL_64 & ~(ALL_64 >> prefix_bits)
    bands = (prefix, ALL_64 ^ prefix) if prefix != ALL_64 else (prefix,)
    return Plan("one", flips, bands, (TablePlan(prefix, flips),), slot_keys)


def patterns(bits: int, flips: int) -> list[int]:
    return [sum(1 << i for i in ones) for j in range(flips + 1) for ones in combinations(range(bits), j)]


def entropy_bits(n: int) -> float:
    return 64 - log2(n) + 1.4427


# --- predictions ---


@given(st.integers(0, 10**13), st.integers(1, 128))
def test_slots_are_as_many_as_keep_the_average_at_slot_keys(n: int, slot_keys: int) -> None:
    s = slot_bits(n, slot_keys)
    assert 0 <= s <= 40
    assert s == 0 or n >= slot_keys << s
    assert s == 40 or n < slot_keys << (s + 1)


def test_no_store_has_more_than_two_to_the_40_slots() -> None:
    assert slot_bits(1 << 60, 1) == 40


def test_probes_are_counted_as_in_the_design() -> None:
    assert predict(plans.flips(2, (1, 1), 3), 10**7).probes == 66
    assert predict(plans.flips(3, (1, 0, 0), 3), 10**7).probes == 25
    assert predict(plans.paper("paper-10"), 10**7).probes == 10


@pytest.mark.parametrize("flips", [0, 1, 2, 3])
@pytest.mark.parametrize("prefix_bits", [5, 8, 9, 12])
def test_block_decodes_are_the_slots_that_hold_a_probed_prefix(prefix_bits: int, flips: int) -> None:
    n = 24 << 8
    s = slot_bits(n, 24)
    assert s == 8
    low_bits = max(0, prefix_bits - s)
    spread = max(0, s - prefix_bits)
    query = 0b101101110010 >> (12 - prefix_bits)
    probed = {query ^ pattern for pattern in patterns(prefix_bits, flips)}
    slots = {prefix >> low_bits << spread | i for prefix in probed for i in range(1 << spread)}
    prediction = predict(one_table(prefix_bits, flips), n)
    assert prediction.block_decodes == len(slots)
    assert prediction.probes == len(probed)
    assert prediction.candidates == pytest.approx(len(probed) * n / 2**prefix_bits)


@pytest.mark.parametrize("flips", [0, 1, 2, 3])
@pytest.mark.parametrize("prefix_bits", [3, 5, 7, 9])
def test_keys_decoded_run_from_a_slots_start_to_the_last_probed_prefix(prefix_bits: int, flips: int) -> None:
    n = 24 << 5
    low_bits = max(0, prefix_bits - 5)
    spread = max(0, 5 - prefix_bits)
    total = 0.0
    for query in range(1 << prefix_bits):
        furthest: dict[int, int] = {}
        for pattern in patterns(prefix_bits, flips):
            slot, low = divmod(query ^ pattern, 1 << low_bits)
            furthest[slot] = max(furthest.get(slot, 0), low + 1)
        total += sum(furthest.values()) * (24 / 2**low_bits) * 2**spread
    prediction = predict(one_table(prefix_bits, flips), n)
    assert prediction.keys_decoded == pytest.approx(total / 2**prefix_bits)


def test_time_is_the_query_its_tables_its_blocks_and_its_keys() -> None:
    n = 24 << 10  # 10 slot bits, 24 keys a slot
    scattered = predict(one_table(10, 0), n)
    assert scattered.lookup_nanoseconds == pytest.approx(50 + 60 + 16 + 1.4 * 24)
    run = predict(one_table(5, 0), n)  # 32 neighbours
    assert run.lookup_nanoseconds == pytest.approx(50 + 60 + 16 * 32 + 1.4 * 24 * 32)


def test_blocks_that_the_cache_does_not_hold_take_longer() -> None:
    n = 24 << 20  # 20 slot bits, 24 keys a slot
    for prefix_bits, blocks in ((20, 1), (18, 4)):
        found = predict(one_table(prefix_bits, 0), n)
        far = 1 - (32 << 20) / found.file_bytes
        assert 0.7 < far < 0.8
        assert found.lookup_nanoseconds == pytest.approx(50 + 60 + (16 + 33 * far + 1.4 * 24) * blocks)


def test_a_scan_of_blocks_takes_what_they_take_to_decode() -> None:
    slots, blocks = planner.scan_nanoseconds(10**6), planner.scan_nanoseconds(10**6, 1, 1024)
    assert blocks - slots == pytest.approx((4.3 - 1.6) * 10**6)
    assert planner.in_blocks(predict(plans.scan(40), 10**6)).nanoseconds == blocks


def test_predicted_bytes_are_those_of_the_layout() -> None:
    n = 10**7
    slots = 2**18  # 38 keys each
    table_bits = n * (64 - log2(n) + 1.44 + 0.12) + 256 * -(-slots // 12)
    table_bytes = table_bits / 8 * (1 + 4 / 4096)
    prediction = predict(plans.flips(2, (1, 1), 3), n)
    assert prediction.slot_bits == 18
    assert prediction.file_bytes == pytest.approx(2 * table_bytes, rel=1e-4)
    assert prediction.bytes_per_key == prediction.file_bytes / n


def test_bits_saved_come_off_the_code_of_every_table() -> None:
    plan, n = plans.flips(3, (1, 0, 0), 3), 10**7
    uniform, skewed = predict(plan, n), predict(plan, n, 2.0)
    assert uniform.file_bytes - skewed.file_bytes == pytest.approx(3 * n * 2 / 8 * (1 + 4 / 4096), abs=3)
    assert (skewed.slot_bits, skewed.block_decodes) == (uniform.slot_bits, uniform.block_decodes)


def test_a_table_saves_what_its_code_takes_less_than_that_of_uniform_keys() -> None:
    assert planner.saving(10**7, entropy_bits(10**7) + 0.12 - 3) == pytest.approx(3, abs=0.01)
    assert planner.saving(10**7, 64) < -20
    assert planner.saving(0, 0) == 0


def test_no_code_takes_less_than_nothing() -> None:
    plan = plans.flips(1, (3,), 3)
    assert 0 < predict(plan, 10**7, 60).file_bytes == predict(plan, 10**7, 70).file_bytes


@given(st.integers(0, 10**13), st.integers(0, 8), st.data())
def test_predictions_are_finite_and_never_negative(n: int, k: int, data: st.DataObject) -> None:
    band_count = data.draw(st.integers(1, k + 1))
    plan = plans.flips(band_count, (k - band_count + 1, *(0,) * (band_count - 1)), k)
    found = predict(plan, n)
    assert found.file_bytes > 0
    assert found.probes >= len(plan.tables)
    assert found.block_decodes >= len(plan.tables)
    assert 0 <= found.bytes_per_key < inf
    assert 0 <= found.keys_decoded < inf
    assert 0 <= found.candidates < inf
    assert 0 < found.nanoseconds < inf


@pytest.mark.parametrize("n", [-1, 10**13 + 1])
def test_counts_that_no_store_holds_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"n: found {n}, expected 0 to 10000000000000 fingerprints"):
        predict(plans.paper("paper-4"), n)
    with pytest.raises(ValueError, match=f"n: found {n}"):
        choose(n, 3, "size")
    with pytest.raises(ValueError, match=f"n: found {n}"):
        table_of_choices(n, 3)


# --- choices ---


def test_ten_million_keys_at_distance_three_get_the_plans_of_the_design() -> None:
    assert choose(10**7, 3, "size").name == "flips-2:1,1"
    balanced = choose(10**7, 3, "balanced")
    assert balanced.name == "flips-3:1,0,0"
    assert predict(balanced, 10**7).bytes_per_key <= 17
    speed = predict(choose(10**7, 3, "speed"), 10**7)
    assert [choose(10**digits, 3, "speed").name for digits in (6, 7, 8)] == ["paper-4", "parts-2:2", "parts-2:2"]
    assert speed.bytes_per_key <= 80
    assert speed.nanoseconds < 0.75 * predict(balanced, 10**7).nanoseconds


@pytest.mark.slow
@pytest.mark.parametrize("aim", [*planner.AIMS, 20, 200.0])
@pytest.mark.parametrize("k", DISTANCES)
def test_every_size_and_distance_gets_a_plan_that_proves_itself(k: int, aim: str | float) -> None:
    for n in SIZES:
        plan = choose(n, k, aim)
        plan.prove()
        assert plan.max_distance == k


@pytest.mark.parametrize("aim", [*planner.AIMS, 20])
def test_the_same_question_always_gets_the_same_plan(aim: str | float) -> None:
    assert len({choose(10**8, 3, aim) for _ in range(5)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("k", DISTANCES)
def test_aims_are_ordered_by_size_and_by_time(k: int) -> None:
    for n in SIZES[4:]:
        size, balanced, speed = (predict(choose(n, k, aim), n) for aim in planner.AIMS)
        assert size.file_bytes <= balanced.file_bytes
        assert balanced.nanoseconds <= size.nanoseconds
        assert speed.nanoseconds <= 1.1 * balanced.nanoseconds
        assert len(balanced.plan.tables) <= len(size.plan.tables) + 1
        assert size.nanoseconds <= 32 * 1.1 * min(
            each.nanoseconds for each in planner._candidates(n, k, planner.SMALL) if each.bytes_per_key <= 80
        )


@pytest.mark.slow
@pytest.mark.parametrize("k", DISTANCES)
@pytest.mark.parametrize("n", [0, 100, 9999, 10**6, 8 * 10**9])
def test_each_aim_picks_what_the_readme_says(n: int, k: int) -> None:
    planned = max(n, 10**6)
    small, middle, fast = (
        planner._candidates(planned, k, slots) for slots in (planner.SMALL, planner.MIDDLE, planner.FAST)
    )
    size, balanced = choose(n, k, "size"), choose(n, k, "balanced")
    few = [each.nanoseconds for each in middle if len(each.plan.tables) <= len(size.tables) + 1]
    assert predict(balanced, planned).nanoseconds == min(few)
    assert size.slot_keys >= 24
    assert balanced.slot_keys >= 12
    for aim, limit in (("speed", 80), (200, 200)):
        most_bytes = max(limit * n, 1 << 16)
        every = small + middle + fast
        within = [each for each in every if predict(each.plan, n).file_bytes <= most_bytes]
        nearly = 1.1 * min(each.nanoseconds for each in within)
        picked = choose(n, k, aim)
        smallest = min(each.file_bytes for each in within if each.nanoseconds <= nearly)
        assert predict(picked, planned).file_bytes == smallest
        assert predict(picked, n).file_bytes <= most_bytes


def test_a_file_of_up_to_64_kib_is_within_every_limit() -> None:
    assert predict(choose(2000, 3, 1), 2000).file_bytes <= 1 << 16
    with pytest.raises(PlanError, match=r"takes 6\.66 bytes per key, expected 1$"):
        choose(10**4, 3, 1)


@pytest.mark.parametrize("n", SIZES[4:])
def test_size_at_distance_three_is_two_tables(n: int) -> None:
    assert choose(n, 3, "size").name == "flips-2:1,1"


@pytest.mark.parametrize("k", DISTANCES)
def test_a_chosen_plan_with_one_table_left_out_misses_something(k: int) -> None:
    for n in SIZES[4:]:
        for plan in {choice.plan for choice in table_of_choices(n, k)}:
            for index in range(len(plan.tables) if len(plan.tables) > 1 else 0):
                short = replace(plan, tables=plan.tables[:index] + plan.tables[index + 1 :])
                errors = short.missed()
                assert errors is not None
                assert errors.bit_count() == k
                assert all((errors & table.prefix_mask).bit_count() > table.flips for table in short.tables)


def _small_and_middle(n: int, k: int) -> tuple[planner.Prediction, list[planner.Prediction]]:
    small = planner._candidates(n, k, planner.SMALL)
    return planner._smallest(n, small), planner._candidates(n, k, planner.MIDDLE) + small


@pytest.mark.slow
@pytest.mark.parametrize(("aim", "excess"), [("size", 0.03), ("balanced", 0.03), ("speed", 0.08)])
@settings(max_examples=40)
@given(n=st.integers(10**6, 10**11), k=st.integers(0, 8))
def test_a_file_stays_as_near_to_the_entropy_bound_as_its_aim_promises(aim: str, excess: float, n: int, k: int) -> None:
    plan = choose(n, k, aim)
    if aim == "balanced" and plan == choose(n, k, "speed"):
        # It takes fewer bytes than one within this of its own tables, of which there is one more.
        plain = planner._balanced(n, *_small_and_middle(n, k))
        assert predict(plan, n).file_bytes <= predict(plain.plan, n).file_bytes
        plan = plain.plan
    bound_bits = len(plan.tables) * entropy_bits(n) * n
    # A thousandth for the few bytes that do not grow with n.
    assert 8 * predict(plan, n).file_bytes <= bound_bits * (1 + excess + 0.001)


def test_slots_have_24_keys_or_more_where_the_aim_is_bytes_and_6_where_it_is_speed() -> None:
    assert choose(10**7, 3, "size").slot_keys == 24
    # 12 where they keep within 3 % of the bound.
    assert [choose(n, 3, "balanced").slot_keys for n in (10**6, 10**7, 10**8)] == [16, 20, 12]
    assert choose(10**7, 3, "speed").slot_keys == 6


def test_slots_of_23_keys_serve_where_those_of_24_are_twice_as_large() -> None:
    # 2^22 slots of 10^8 keys have 23.8 each, 2^21 of them 47.7.
    size = choose(10**8, 3, "size")
    assert (size.name, size.slot_keys, slot_bits(10**8, size.slot_keys)) == ("flips-2:1,1", 23, 22)
    of_24 = predict(replace(size, slot_keys=24), 10**8)
    assert of_24.slot_bits == 21
    found = predict(size, 10**8)
    assert found.file_bytes / of_24.file_bytes < of_24.nanoseconds / found.nanoseconds
    assert choose((23 << 22) - 1, 3, "size").slot_keys == choose(24 << 22, 3, "size").slot_keys == 24


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5, 8])
def test_aims_are_monotone_where_slots_of_23_keys_serve(k: int) -> None:
    for bits in range(17, 33):
        n = 47 << bits - 1
        predictions = [predict(choose(n, k, aim), n) for aim in planner.AIMS]
        for one, other in pairwise(predictions):
            assert one.file_bytes <= other.file_bytes
            assert one.nanoseconds >= other.nanoseconds


def test_few_keys_get_the_plan_of_a_million() -> None:
    for aim in planner.AIMS:
        assert {choose(n, 3, aim) for n in (0, 1, 1000, 10**6)} == {choose(10**6, 3, aim)}


def test_a_byte_budget_is_kept_and_more_bytes_never_cost_time() -> None:
    previous = inf
    for budget in (6, 11, 12, 17, 25, 60, 100, 1000):
        found = predict(choose(10**7, 3, budget), 10**7)
        assert found.bytes_per_key <= budget
        assert found.nanoseconds <= 1.1 * previous
        previous = found.nanoseconds


def test_a_byte_budget_that_no_plan_keeps_is_refused_with_what_it_takes() -> None:
    with pytest.raises(PlanError, match=r"plan for n = 10000000, k = 3: takes 5\.\d\d bytes per key, expected 5$"):
        choose(10**7, 3, 5)


@pytest.mark.parametrize("aim", ["", "fast", "Size", "x" * 10**6, 0, -1.0, inf, nan])
def test_an_unknown_aim_is_refused_with_what_is_known(aim: str | float) -> None:
    with pytest.raises(ValueError, match=r"aim: found .*, expected size, balanced, speed or a number") as refusal:
        choose(10**6, 3, aim)
    assert len(str(refusal.value)) < 150


@pytest.mark.parametrize("k", [-1, 65])
def test_distances_out_of_range_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"max_distance: found {k}, expected 0 to 64"):
        choose(10**6, k, "size")
    with pytest.raises(ValueError, match=f"max_distance: found {k}, expected 0 to 64"):
        table_of_choices(10**6, k)


@pytest.mark.parametrize("bits", [16, 40, 64])
def test_a_distance_up_to_all_bits_gets_plans_and_none_beyond(bits: int) -> None:
    for k in range(17, bits + 1, 3):
        for n in (1000, 60_000):
            for aim in planner.AIMS:
                plan = choose(n, k, aim, bits)
                assert (plan.max_distance, plan.bits, plan.missed()) == (k, bits, None)
    with pytest.raises(ValueError, match=f"expected 0 to {bits}"):
        choose(1000, bits + 1, "size", bits)


# Fewer keys than LEAST_SCANNED fit a file that is within every limit, and any plan is as fast as another.
GRID_COUNTS = (10**4, 10**5, 10**6, 10**7, 10**9, 10**13)
GRID_DISTANCES = (0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 64)


@pytest.mark.parametrize("bits", [16, 40, 64])
def test_every_aim_is_monotone_over_the_whole_grid(bits: int) -> None:
    """Bytes rise from size to the other aims, time falls; and no larger distance is served better by its own plan."""
    picked: dict[tuple[int, str], list[planner.Prediction]] = {}
    for n in GRID_COUNTS:
        for k in GRID_DISTANCES:
            if n > 1 << bits or k > bits:
                continue
            size, balanced, speed = found = [predict(choose(n, k, aim, bits), n) for aim in planner.AIMS]
            assert size.file_bytes <= balanced.file_bytes <= speed.file_bytes, (n, k)
            assert speed.nanoseconds <= balanced.nanoseconds <= size.nanoseconds, (n, k)
            for aim, prediction in zip(planner.AIMS, found, strict=True):
                for smaller in picked.setdefault((n, aim), []):
                    worse = prediction.file_bytes < smaller.file_bytes and prediction.nanoseconds <= smaller.nanoseconds
                    assert not worse, (n, k, aim, smaller.plan)
                picked[n, aim].append(prediction)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 5, 6, 8, 10, 12])
def test_no_aim_takes_fewer_bytes_than_the_one_before_for_any_number_of_keys(k: int) -> None:
    """Small slots of two tables may be both smaller and faster than large ones of three."""
    for eighths in range(32, 97):
        n = int(10 ** (eighths / 8))
        size, balanced, speed = (predict(choose(n, k, aim), n) for aim in planner.AIMS)
        assert size.file_bytes <= balanced.file_bytes <= speed.file_bytes, n
        assert speed.nanoseconds <= balanced.nanoseconds <= size.nanoseconds, n


def test_a_balanced_plan_is_the_fast_one_where_that_is_smaller_too() -> None:
    assert choose(562341325, 5, "balanced") == choose(562341325, 5, "speed")


@pytest.mark.parametrize(
    ("bits", "k", "n"), [(64, 2, 10**8), (60, 10, 5 * 10**7), (64, 16, 379995129), (63, 9, 189462305)]
)
def test_where_larger_slots_are_faster_a_balanced_plan_has_them(bits: int, k: int, n: int) -> None:
    """There are as many times fewer of them in memory, and both are within what balanced plans promise."""
    balanced, speed = (predict(choose(n, k, aim, bits), n) for aim in ("balanced", "speed"))
    assert balanced.plan.tables == speed.plan.tables
    assert balanced.file_bytes <= speed.file_bytes


@pytest.mark.parametrize("n", [10**10, 10**12, 10**13])
def test_a_smaller_distance_takes_no_more_bytes_where_the_fewest_are_asked_for(n: int) -> None:
    sizes = [predict(choose(n, k, "size"), n).file_bytes for k in range(4)]
    assert sizes[2] <= max(sizes[1], sizes[3])


def test_a_scan_is_picked_where_it_takes_less_for_its_bytes() -> None:
    """And looking up where that does: the distances and sizes at which they change places."""
    for k, most in ((10, 32_000), (12, 125_000), (14, 305_000), (16, 1_170_000)):  # as README has it
        for n, name in ((0.95 * most, "scan"), (1.05 * most, "flips-3:")):
            assert choose(int(n), k, "balanced").name.startswith(name)
    assert choose(10**4, 3, "balanced").name == "flips-3:1,0,0"
    for aim in planner.AIMS:
        assert choose(10**6, 30, aim).name == "scan"
        assert predict(choose(10**6, 30, aim), 10**6).method == "scan"


def test_a_store_of_few_keys_has_tables_for_those_that_come() -> None:
    few, some = (choose(n, 12, "balanced") for n in (planner.LEAST_SCANNED - 1, planner.LEAST_SCANNED))
    assert (len(few.tables), some.name) == (3, "scan")
    assert predict(few, 10**7).nanoseconds < predict(some, 10**7).nanoseconds / 20


def test_the_scan_costs_what_reading_all_keys_does_however_far() -> None:
    for k in (12, 30, 64):
        found = predict(plans.scan(k), 10**6)
        assert (found.method, found.nanoseconds) == ("scan", planner.scan_nanoseconds(10**6))
        assert found.file_bytes == predict(plans.flips(1, (k,), k), 10**6).file_bytes
    near = predict(plans.scan(2), 10**6)
    assert (near.method, near.nanoseconds) == ("probe", predict(plans.flips(1, (2,), 2), 10**6).nanoseconds)


@pytest.mark.parametrize("k", DISTANCES)
@pytest.mark.parametrize("n", SIZES)
def test_choices_are_sorted_by_size_and_each_is_faster_than_all_before_or_the_papers(n: int, k: int) -> None:
    choices = table_of_choices(n, k)
    assert all(one.file_bytes <= next_one.file_bytes for one, next_one in pairwise(choices))
    fastest = inf
    for choice in choices:
        assert choice.nanoseconds < fastest or choice.plan.name.startswith("paper-")
        fastest = min(fastest, choice.nanoseconds)
    assert len({(choice.plan.name, choice.plan.slot_keys) for choice in choices}) == len(choices)


def test_choices_at_distance_three_include_the_four_plans_of_the_paper() -> None:
    assert set(plans.PAPER_NAMES) <= {choice.plan.name for choice in table_of_choices(10**7, 3)}
    assert not any(choice.plan.name in plans.PAPER_NAMES for choice in table_of_choices(10**7, 2))


def test_flips_are_spread_in_every_useful_way() -> None:
    spread = {plan.name for plan in considered(10**7, 4, 64, 24) if plan.name.startswith("flips-")}
    assert spread == {
        "flips-1:4",
        "flips-2:3,0",
        "flips-2:2,1",
        "flips-3:2,0,0",
        "flips-3:1,1,0",
        "flips-4:1,0,0,0",
        "flips-5:0,0,0,0,0",
    }


def test_parts_are_considered_that_no_other_family_has() -> None:
    parts = {plan.name: len(plan.tables) for plan in considered(10**7, 3, 64, 24) if plan.name.startswith("parts-")}
    assert parts == {
        **{f"parts-2:{bands}": 2 * (bands + 1) for bands in range(2, 7)},
        **{f"parts-3:{bands}": bands + 3 for bands in range(2, 7)},
    }
    others = [(k, bits) for k in range(13) for bits in (16, 32, 48, 64) if (k, bits) != (3, 64)]
    assert not any(plan.name.startswith("parts-") for each in others for plan in considered(10**4, *each, 24))


def test_more_tables_than_are_worth_it_are_never_considered() -> None:
    for k in DISTANCES:
        counts = [len(plan.tables) for plan in considered(10**11, k, 64, 24)]
        assert max(counts) <= MAX_TABLES_CONSIDERED
        assert comb(k + 1, k) in counts


# --- blocks ---


@pytest.mark.parametrize("name", ["flips-2:1,1", "paper-10"])
@pytest.mark.parametrize("block_bytes", [256, 1024])
def test_costs_of_blocks_are_those_of_a_segment_in_blocks(name: str, block_bytes: int) -> None:
    rng = np.random.default_rng(3)
    stored = helpers.distinct(helpers.uniform(60_000, rng))
    plan = replace(plans.named(name, 3), block_bytes=block_bytes)
    told, queries = predict(plan, len(stored)), helpers.uniform(200, rng)
    with helpers.segment_of(stored, plan) as segment:
        directory = sum(region.bytes for region in segment.regions() if region.name == "fences")
        decoded = blocks_decoded(segment.view, queries, 3) / len(queries)
        assert told.file_bytes == pytest.approx(segment.file_bytes, rel=0.01)
        assert told.directory_bytes == pytest.approx(directory, rel=0.01)
        assert told.block_decodes == pytest.approx(decoded, rel=0.1)


def test_of_directories_that_leave_the_cache_each_block_and_each_table_is_dearer() -> None:
    """As searches of them wait for memory."""
    plan = replace(plans.named("flips-2:1,1", 3), block_bytes=1024)
    for n, is_near in ((5_000_000, True), (10**8, False)):
        found = predict(plan, n)
        share = max(0.0, 1 - planner.NEAR_BYTES / found.directory_bytes)
        assert (share == 0) == is_near
        of_file = 1 - planner.CACHE_BYTES / found.file_bytes
        ranges = 2 * (1 + slot_bits(n, plan.slot_keys))
        decodes = ranges * (1 + n / 2**32 / planner._block_keys(n, plan, planner._code_bits(n, 64)))
        block_ns = 16 + 50 + 75 * share + 33 * of_file
        expected = 50 + 2 * (60 + 75 + 105 * share) + block_ns * decodes + 1.4 * found.keys_decoded
        assert found.lookup_nanoseconds == pytest.approx(expected)


def test_blocks_cost_what_they_do_under_the_same_plan() -> None:
    for each in planner.choices(10**6, 3):
        other = planner.in_blocks(each)
        assert replace(other.plan, block_bytes=0) == each.plan
        assert (other.n, other.probes, other.picked_by) == (each.n, each.probes, each.picked_by)
    nothing = predict(replace(plans.paper("paper-4"), block_bytes=1024), 0)
    assert (nothing.directory_bytes, nothing.block_decodes) == (0, 0)
