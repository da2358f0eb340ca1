"""Plans: each family is as promised, and the proof agrees with trying every error pattern."""

import json
import random
import re
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import comb
from typing import cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fpstore.errors import PlanError
from fpstore.plans import families as plans
from fpstore.plans import proof
from fpstore.plans.plan import Plan, TablePlan

ALL_64 = (1 << 64) - 1


def catches(table: TablePlan, errors: int) -> bool:
    return (errors & table.prefix_mask).bit_count() <= table.flips


def escaping_patterns(plan: Plan) -> list[int]:
    """Every pattern of min(k, key_bits) errors that no table catches: slow, and plainly right."""
    error_count = min(plan.max_distance, plan.bits)
    patterns = (sum(1 << i for i in bits) for bits in combinations(range(plan.bits), error_count))
    return [errors for errors in patterns if not any(catches(table, errors) for table in plan.tables)]


def partitions(total: int, parts: int, most: int) -> list[tuple[int, ...]]:
    if parts == 0:
        return [()] if total == 0 else []
    return [
        (first, *rest)
        for first in range(min(total, most), -1, -1)
        for rest in partitions(total - first, parts - 1, first)
    ]


def named_plans() -> list[tuple[str, int]]:
    names = [(name, 3) for name in plans.PAPER_NAMES]
    for k in range(9):
        names += [(f"choose-{band_count}", k) for band_count in range(k + 1, k + 4)]
        names += [(f"general-{n}:{tau}", k) for n in (10**6, 10**8) for tau in (8, 12)]
        names += [(f"parts-{count}:{prefix}", k) for count in range(1, k + 2) for prefix in range(1, 5)]
        for band_count in range(1, k + 2):
            for counts in partitions(k - band_count + 1, band_count, k):
                names.append((f"flips-{band_count}:{','.join(map(str, counts))}", k))
    names += [("spread-1:3", 3), ("spread-2:1,1", 3), ("spread-4:0,0,0,0", 3), ("spread-5:0,1,1,1,1", 8)]
    return names


@st.composite
def small_plans(draw: st.DrawFn) -> Plan:
    """Any plan over few bits: random bands, random unions of them as prefixes, random flips, exact or not."""
    key_bits = draw(st.integers(4, 10))
    band_of_bit = draw(st.lists(st.integers(0, key_bits - 1), min_size=key_bits, max_size=key_bits))
    bands = tuple(
        sum(1 << i for i, of_bit in enumerate(band_of_bit) if of_bit == band) for band in sorted(set(band_of_bit))
    )
    tables = []
    for _ in range(draw(st.integers(1, 7))):
        prefix = sum(draw(st.lists(st.sampled_from(bands), min_size=1, unique=True)))
        tables.append(TablePlan(prefix, draw(st.integers(0, min(2, prefix.bit_count())))))
    return Plan("random", draw(st.integers(0, 4)), bands, tuple(tables), bits=key_bits)


# --- the proof ---


@given(small_plans())
def test_the_proof_agrees_with_trying_every_error_pattern(plan: Plan) -> None:
    escaping = escaping_patterns(plan)
    missed = plan.missed()
    assert (missed is None) == (not escaping)
    assert missed is None or missed in escaping


@pytest.mark.parametrize("seed", range(8))
def test_the_proof_agrees_with_trying_every_error_pattern_of_tangled_tables(seed: int) -> None:
    # Overlapping prefixes with different flips, which hypothesis draws too seldom to try the search.
    draw = random.Random(seed)
    bands = plans.even_bands(0x3FF, 7)
    for _ in range(250):
        prefixes = [sum(draw.sample(bands, draw.randint(1, 4))) for _ in range(draw.randint(3, 9))]
        tables = tuple(TablePlan(prefix, draw.randint(0, min(3, prefix.bit_count()))) for prefix in prefixes)
        plan = Plan(f"seed {seed}", draw.randint(2, 7), bands, tables, bits=10)
        assert plan.missed() in (list[int | None](escaping_patterns(plan)) or [None]), plan


@given(st.integers(4, 9), st.integers(1, 4), st.integers(0, 4))
def test_the_proof_agrees_with_trying_every_pattern_on_choices_with_one_table_left_out(
    key_bits: int, extra_bands: int, k: int
) -> None:
    plan = plans.choose(min(key_bits, k + extra_bands), k, key_bits) if k < key_bits else None
    assert plan is None or escaping_patterns(plan) == []
    if plan is not None and len(plan.tables) > 1:
        short = replace(plan, tables=plan.tables[1:])
        assert short.missed() in escaping_patterns(short)


@pytest.mark.parametrize(("name", "k"), named_plans())
def test_a_named_plan_proves_itself_and_keeps_its_name(name: str, k: int) -> None:
    plan = plans.named(name, k)
    plan.prove()
    assert (plan.name, plan.max_distance, plan.bits) == (name, k, 64)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "k"), named_plans())
def test_a_plan_with_one_table_left_out_is_refused_with_a_pattern_that_escapes(name: str, k: int) -> None:
    plan = plans.named(name, k)
    # A plan needs a table; and of hundreds, each of which takes 10 ms, only some are tried.
    for index in range(0, len(plan.tables), 1 + len(plan.tables) // 60) if len(plan.tables) > 1 else ():
        short = replace(plan, tables=plan.tables[:index] + plan.tables[index + 1 :])
        with pytest.raises(PlanError, match="would miss matches at distance") as refusal:
            short.prove()
        pattern = re.search(r"errors in bits ([0-9a-f]{16}) ", str(refusal.value))
        assert pattern is not None
        errors = int(pattern[1], 16)
        assert errors.bit_count() == k
        assert not any(catches(table, errors) for table in short.tables)


def test_the_refusal_counts_the_errors_on_each_band_in_one_line() -> None:
    bands = plans.even_bands(ALL_64, 4)
    plan = Plan("three of four", 3, bands, tuple(map(TablePlan, bands[:3])))
    with pytest.raises(PlanError) as refusal:
        plan.prove()
    assert str(refusal.value) == (
        "plan three of four would miss matches at distance 3: "
        "no table catches errors in bits 8000800080000000 (band 0: 1, band 1: 1, band 2: 1)"
    )


def test_a_prefix_with_as_many_flips_as_bits_catches_everything() -> None:
    bands = (0b11, 0b11111100)
    Plan("all flips", 4, bands, (TablePlan(0b11, 2),), bits=8).prove()
    assert Plan("all but one", 4, bands, (TablePlan(0b11, 1),), bits=8).missed() is not None


def test_more_errors_than_bits_are_all_the_bits() -> None:
    bands = (0b1100, 0b0011)
    assert Plan("short", 9, bands, tuple(map(TablePlan, bands)), bits=4).missed() == 0b1111


def test_a_proof_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "MAX_PROOF_VISITS", 20)
    with pytest.raises(PlanError, match="plan choose-8, tables: found no proof in 20 steps, expected fewer"):
        plans.choose(8, 5).prove()


# --- the paper's plans ---


@pytest.mark.parametrize(
    ("name", "table_count", "prefix_bits"),
    [
        ("paper-4", 4, {16}),
        ("paper-10", 10, {25, 26}),
        ("paper-16", 16, {28}),
        ("paper-20", 20, {31, 32, 33}),
    ],
)
def test_a_paper_plan_has_the_tables_and_prefixes_of_the_paper(
    name: str, table_count: int, prefix_bits: set[int]
) -> None:
    plan = plans.paper(name)
    assert len(set(plan.tables)) == table_count
    assert {table.prefix_bits for table in plan.tables} == prefix_bits
    assert {table.flips for table in plan.tables} == {0}


def test_the_bands_of_the_paper_plans_have_the_widths_of_the_paper() -> None:
    widths = {name: [band.bit_count() for band in plans.paper(name).bands] for name in plans.PAPER_NAMES}
    assert widths == {
        "paper-4": [16] * 4,
        "paper-10": [13, 13, 13, 13, 12],
        "paper-16": [4] * 16,
        "paper-20": [11, 11, 11, 11, 10, 10],
    }


@pytest.mark.parametrize(("name", "k"), named_plans())
def test_the_first_table_of_a_named_plan_leaves_the_bits_where_they_are(name: str, k: int) -> None:
    first = plans.named(name, k).tables[0]
    assert first.prefix_mask == ALL_64 & ~(ALL_64 >> first.prefix_bits)


def test_a_paper_plan_answers_smaller_distances_and_refuses_larger_ones() -> None:
    assert plans.named("paper-4", 2).max_distance == 2
    with pytest.raises(PlanError, match="paper-4 would miss matches at distance 4"):
        plans.named("paper-4", 4)


@pytest.mark.parametrize("k", range(9))
def test_choosing_bands_makes_a_table_for_each_choice(k: int) -> None:
    for band_count in range(k + 1, k + 4):
        assert len(set(plans.choose(band_count, k).tables)) == comb(band_count, k)


@pytest.mark.parametrize(
    ("parts", "prefix_bands", "k", "table_count", "prefix_bits"),
    [
        (2, 2, 3, 6, {21, 22}),  # two halves, one of which has an error at most: two of its three thirds have none
        (2, 3, 3, 8, {24}),
        (3, 2, 3, 5, {18, 19}),  # one error, none, none: 3 + 1 + 1 choices of two of seven bands
        (2, 2, 2, 4, {25, 26}),
        (3, 2, 5, 9, {14, 15}),
    ],
)
def test_parts_have_a_table_for_each_choice_of_bands_of_one_part(
    parts: int, prefix_bands: int, k: int, table_count: int, prefix_bits: set[int]
) -> None:
    plan = plans.named(f"parts-{parts}:{prefix_bands}", k)
    assert (len(set(plan.tables)), {table.flips for table in plan.tables}) == (table_count, {0})
    assert {table.prefix_bits for table in plan.tables} == prefix_bits
    assert plans.table_count_of_parts(parts, prefix_bands, k) == table_count
    with pytest.raises(PlanError, match="would miss"):
        replace(plan, max_distance=k + 1).prove()


@pytest.mark.parametrize("k", range(1, 9))
def test_one_part_is_a_choice_of_bands_and_parts_of_no_error_are_bands(k: int) -> None:
    for prefix_bands in range(1, 4):
        one, chosen = plans.parts(1, prefix_bands, k), plans.choose(prefix_bands + k, k)
        assert (one.bands, one.tables) == (chosen.bands, chosen.tables)
    each = plans.parts(k + 1, 1, k)
    assert [table.prefix_mask for table in each.tables] == list(each.bands)


@given(st.integers(6, 64), st.integers(1, 6), st.integers(1, 7), st.integers(1, 4))
def test_the_bands_of_parts_are_even_and_their_prefixes_long(
    key_bits: int, k: int, part_count: int, prefix_bands: int
) -> None:
    assume(part_count <= k + 1 and k + 1 + part_count * (prefix_bands - 1) <= key_bits)
    plan = plans.parts(part_count, prefix_bands, k, key_bits)
    widths = {band.bit_count() for band in plan.bands}
    assert sum(plan.bands) == (1 << key_bits) - 1
    assert len(plan.bands) == k + 1 + part_count * (prefix_bands - 1)
    assert widths <= {key_bits // len(plan.bands), -(-key_bits // len(plan.bands))}
    plan.prove()


@pytest.mark.parametrize(
    ("name", "k", "bits", "found"),
    [
        ("parts-0:2", 3, 64, "k = 3, expected 1 to k [+] 1 parts of 1 band or more, and of all at most 64"),
        ("parts-5:2", 3, 64, "k = 3, expected 1 to k [+] 1 parts of 1 band or more, and of all at most 64"),
        ("parts-2:0", 3, 64, "k = 3, expected 1 to k [+] 1 parts of 1 band or more, and of all at most 64"),
        ("parts-2:2", 3, 5, "k = 3, expected 1 to k [+] 1 parts of 1 band or more, and of all at most 5"),
        (f"parts-2:{10**19}", 3, 64, "k = 3, expected 1 to k [+] 1 parts of 1 band or more, and of all at most 64"),
        ("parts-2:20", 12, 64, "283360, expected 1 to 1024"),
    ],
)
def test_parts_that_cannot_be_are_refused(name: str, k: int, bits: int, found: str) -> None:
    with pytest.raises(PlanError, match=f"plan {name}.*: found {found}"):
        plans.named(name, k, bits)


def fewest_tables(key_bits: int, k: int, n: int, tau: int) -> float:
    """The paper's X by trying every choice of bands one by one, in bands of whole bits, wider ones first."""

    @cache
    def below(bits_left: int) -> float:
        if bits_left < key_bits and n < 2 ** (tau + key_bits - bits_left):
            return 1
        best = float("inf")
        for band_count in range(k + 1, bits_left + 1):
            width, wider = divmod(bits_left, band_count)
            widths = [width + (i < wider) for i in range(band_count)]
            choices = combinations(widths, band_count - k)
            best = min(best, sum(below(bits_left - sum(chosen)) for chosen in choices))
        return best

    return below(key_bits)


@given(st.integers(4, 13), st.integers(0, 3), st.integers(0, 13), st.integers(0, 1), st.integers(1, 6))
def test_the_general_rule_makes_as_few_tables_as_any_recursion_of_even_bands(
    key_bits: int, k: int, n_bits: int, fewer: int, tau: int
) -> None:
    n = (1 << min(n_bits, key_bits)) - fewer
    expected = fewest_tables(key_bits, k, n, tau)
    count = plans.general_table_count(key_bits, k, n, tau)
    assert (float("inf") if count is None else count) == expected
    assert plans.general_table_count(key_bits, k, cast(int, np.int64(n)), tau) == count
    if count is not None:
        plan = plans.general(key_bits, k, n, tau)
        assert len(plan.tables) == count
        assert all(n < 1 << (tau + table.prefix_bits) for table in plan.tables)
        plan.prove()


def test_the_general_rule_finds_the_paper_16_plan_for_two_to_the_34_keys() -> None:
    # Section 3.1.2, d = 34: a split in four has 16-bit prefixes and leaves 2^18 keys.
    assert len(plans.general(64, 3, 2**34, tau=19).tables) == 4
    assert plans.general_table_count(64, 3, 2**34, tau=10) == 10  # 5 bands, 25 bits: 2^9 keys left
    assert plans.general_table_count(64, 3, 2**34, tau=9) == 16  # 28 bits: 2^6 keys left
    assert {table.prefix_mask for table in plans.general(64, 3, 2**34, tau=9).tables} == {
        table.prefix_mask for table in plans.paper("paper-16").tables
    }


def test_the_general_rule_refuses_what_needs_too_many_tables() -> None:
    with pytest.raises(PlanError, match=r"general-1000000000000:1, k = 8: found \d+ tables, expected at most 1024"):
        plans.general(64, 8, 10**12, 1)
    with pytest.raises(PlanError, match="found endless tables, expected at most 1024"):
        plans.general(4, 3, 16, 1)


@pytest.mark.parametrize(
    ("key_bits", "k", "n", "tau", "what"),
    [
        (0, 3, 1, 6, "key_bits: found 0"),
        (1025, 3, 1, 6, "key_bits: found 1025"),
        (64, -1, 1, 6, "k: found -1"),
        (64, 3, -1, 6, "number of keys: found -1"),
        (64, 3, 2**64 + 1, 6, "number of keys: found 18446744073709551617"),
        (64, 3, 1, 0, "tau: found 0"),
        (64, 3, 1, 41, "tau: found 41"),
    ],
)
def test_the_general_rule_refuses_numbers_out_of_range(key_bits: int, k: int, n: int, tau: int, what: str) -> None:
    with pytest.raises(PlanError, match=what):
        plans.general(key_bits, k, n, tau)


# --- flips ---


@pytest.mark.parametrize("k", range(7))
@pytest.mark.parametrize("band_count", range(1, 5))
def test_flips_are_exact_just_when_they_add_up_to_the_pigeonhole_bound(k: int, band_count: int) -> None:
    for total in range(k + 2):
        for counts in partitions(total, band_count, k):
            if total >= k - band_count + 1:
                plans.flips(band_count, counts, k)
            else:
                with pytest.raises(PlanError, match="would miss matches"):
                    plans.flips(band_count, counts, k)


def test_flips_on_even_bands_put_wider_bands_first() -> None:
    plan = plans.flips(3, (1, 0, 0), 3)
    assert [table.prefix_bits for table in plan.tables] == [22, 21, 21]
    assert [table.flips for table in plan.tables] == [1, 0, 0]
    assert plan.bands[0] == ALL_64 & ~(ALL_64 >> 22)


def test_flips_take_bands_of_any_bits() -> None:
    masks = (0x5555555555555555, 0xAAAAAAAAAAAAAAAA)
    plan = plans.flips(masks, (1, 1), 3)
    assert plan.bands == masks
    assert plan.name == "flips-masks:1,1"
    assert plans.flips(iter(plans.even_bands(ALL_64, 2)), iter((1, 1)), 3) == plans.flips(2, (1, 1), 3)


def test_flips_want_a_number_for_each_band() -> None:
    with pytest.raises(PlanError, match="plan flips-2:1,1,1: found 3 flips, expected one for each of 2 bands"):
        plans.flips(2, (1, 1, 1), 3)


def test_flips_of_no_bands_are_refused() -> None:
    with pytest.raises(PlanError, match="number of bands: found 0, expected 1 to 64"):
        plans.flips((), (), 3)


def test_spread_bands_are_the_top_and_bits_from_all_over_below_it() -> None:
    assert [f"{mask:010b}" for mask in plans.spread_bands(3, 10)] == ["1111000000", "0000101010", "0000010101"]
    assert plans.spread_bands(1, 10) == (0b1111111111,)
    for bits, count in ((64, 4), (128, 5), (256, 11)):
        bands = plans.spread_bands(count, bits)
        assert [mask.bit_count() for mask in bands] == [
            mask.bit_count() for mask in plans.even_bands((1 << bits) - 1, count)
        ]
        assert sum(bands) == (1 << bits) - 1
        for other in bands[1:]:
            assert not other & other >> 1


def test_spread_bands_are_proven_and_want_a_number_of_flips_each() -> None:
    with pytest.raises(PlanError, match="plan spread-2:1,0 would miss matches at distance 3"):
        plans.spread(2, (1, 0), 3)
    with pytest.raises(PlanError, match="plan spread-2:1,1,1: found 3 flips, expected one for each of 2 bands"):
        plans.spread(2, (1, 1, 1), 3)
    with pytest.raises(PlanError, match="number of bands: found 0, expected 1 to 64"):
        plans.named("spread-0:1", 3)


# --- names ---


UNKNOWN_NAMES = """
paper-5 Paper-4 paper-4, choose choose- choose-05 choose--5 flips-3 flips-3: flips-3:1,,0 flips-03:1,0,0
flips-masks:1,1 spread-3 spread-masks:1,1 general-10 general-1e6:8 balanced
parts-2 parts-2: parts-2:2,1 parts-02:2
"""


@pytest.mark.parametrize("name", [*UNKNOWN_NAMES.split(), "", " ", "paper-4\n", "x" * 10**6])
def test_an_unknown_name_is_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(
        PlanError, match=r"plan: found '.*expected one of paper-4, paper-10, .*choose-.*parts-.*flips-.*spread-"
    ) as e:
        plans.named(name, 3)
    assert len(str(e.value)) < 250


@pytest.mark.parametrize("name", ["choose-3", "choose-65", "choose-0", f"choose-{10**19}"])
def test_choosing_from_too_few_or_too_many_bands_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=f"plan {name}: found k = 3, expected k < bands, at most 64 bands"):
        plans.named(name, 3)


def test_a_distance_below_zero_is_refused_by_every_family() -> None:
    for name in ("paper-4", "choose-4", "flips-2:1,1", "general-10:6"):
        with pytest.raises(PlanError, match=r"found (k = )?-1"):
            plans.named(name, -1)


def test_choosing_so_that_there_are_too_many_tables_is_refused() -> None:
    with pytest.raises(PlanError, match="number of tables: found 1832624140942590534, expected 1 to 1024"):
        plans.choose(64, 32)


def test_a_paper_plan_that_the_paper_does_not_have_is_refused() -> None:
    with pytest.raises(PlanError, match="plan: found 'paper-12', expected one of paper-4, "):
        plans.paper("paper-12")


@pytest.mark.parametrize("count", [0, 65])
def test_bands_without_bits_are_refused(count: int) -> None:
    with pytest.raises(PlanError, match=f"number of bands: found {count}, expected 1 to 64"):
        plans.even_bands(ALL_64, count)


@given(st.integers(1, ALL_64), st.data())
def test_even_bands_are_disjoint_cover_the_mask_and_differ_by_one_bit(mask: int, data: st.DataObject) -> None:
    bands = plans.even_bands(mask, data.draw(st.integers(1, mask.bit_count())))
    assert sum(bands) == mask
    assert sum(band.bit_count() for band in bands) == mask.bit_count()
    widths = [band.bit_count() for band in bands]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] - widths[-1] <= 1
    assert list(bands) == sorted(bands, reverse=True)


# --- sanity ---


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "plan name: found '', expected 1 to 200 printable characters"),
        ({"name": "two\nlines"}, "plan name: found 'two.nlines', expected 1 to 200"),
        ({"name": "x" * 201}, "plan name: found 'x{59}..., expected 1 to 200"),
        ({"bits": 0}, "bits: found 0, expected 1 to 256"),
        ({"bits": 257}, "bits: found 257, expected 1 to 256"),
        ({"max_distance": -1}, "max_distance: found -1, expected 0 to 256"),
        ({"max_distance": 1025}, "max_distance: found 1025, expected 0 to 256"),
        ({"slot_keys": 0}, "slot_keys: found 0, expected 1 to 128"),
        ({"slot_keys": 129}, "slot_keys: found 129, expected 1 to 128"),
        ({"bands": ()}, "number of bands: found 0, expected 1 to 64"),
        ({"bands": (1,) * 65}, "number of bands: found 65, expected 1 to 64"),
        ({"bands": (0, ALL_64)}, "band 0: found mask 0x0, expected some of 64 bits"),
        ({"bands": (1 << 64, ALL_64)}, "band 0: found mask 0x10000000000000000, expected some of 64 bits"),
        ({"bands": (-1,)}, "band 0: found mask -0x1, expected some of 64 bits"),
        ({"bands": (ALL_64, 6)}, "band 1: found bits 0x6 of an earlier band, expected disjoint bands"),
        ({"bands": (ALL_64 - 6,)}, "plan p: found bits 0x6 in no band, expected every bit in one"),
        ({"tables": ()}, "number of tables: found 0, expected 1 to 1024"),
        ({"tables": (TablePlan(ALL_64),) * 1025}, "number of tables: found 1025, expected 1 to 1024"),
        ({"tables": (TablePlan(0),)}, "table 0: found prefix mask 0x0, expected a union of bands"),
        ({"tables": (TablePlan(-1),)}, "table 0: found prefix mask -0x1, expected a union of bands"),
        (
            {"tables": (TablePlan(ALL_64), TablePlan(1))},
            "table 1: found prefix mask 0x1, expected a union of",
        ),
        ({"tables": (TablePlan(ALL_64, -1),)}, "table 0, flips: found -1, expected 0 to 64"),
        ({"tables": (TablePlan(ALL_64, 65),)}, "table 0, flips: found 65, expected 0 to 64"),
    ],
)
def test_a_senseless_plan_is_refused(changes: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {"name": "p", "max_distance": 0, "bands": (ALL_64,), "tables": (TablePlan(ALL_64),)}
    with pytest.raises(PlanError, match=message) as refusal:
        Plan(**{**fields, **changes})  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


# --- json ---


@given(small_plans())
def test_a_plan_comes_back_from_json_as_it_was(plan: Plan) -> None:
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(("name", "k"), named_plans()[:12])
def test_a_named_plan_comes_back_from_json_as_it_was(name: str, k: int) -> None:
    plan = replace(plans.named(name, k), slot_keys=6)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_json_holds_masks_as_hex_digits() -> None:
    assert plans.flips(2, (1, 0), 2).to_json() == {
        "name": "flips-2:1,0",
        "max_distance": 2,
        "bits": 64,
        "slot_keys": 24,
        "bands": ["ffffffff00000000", "00000000ffffffff"],
        "tables": [
            {"prefix_mask": "ffffffff00000000", "flips": 1},
            {"prefix_mask": "00000000ffffffff", "flips": 0},
        ],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": 1}, "plan: found the fields .*'extra'.*, expected bands, bits, max_distance, "),
        ({"name": 3}, "plan, name: found int, expected str"),
        ({"max_distance": "3"}, "plan, max_distance: found str, expected int"),
        ({"max_distance": True}, "plan, max_distance: found bool, expected int"),
        ({"max_distance": 3.0}, "plan, max_distance: found float, expected int"),
        ({"max_distance": 10**6000}, "max_distance: found an integer of 19932 bits, expected 0 to 256"),
        ({"max_distance": 10**70}, "expected 0 to 256"),
        ({"bits": None}, "plan, bits: found NoneType, expected int"),
        ({"bits": 1 << 40}, "bits: found 1099511627776, expected 1 to 256"),
        ({"slot_keys": []}, "plan, slot_keys: found list, expected int"),
        ({"bands": "ff"}, "plan, bands: found str, expected list"),
        ({"bands": ["0" * 16] * 65}, "plan, bands: found 65 items, expected at most 64"),
        ({"bands": [255]}, "plan, band 0: found int, expected str"),
        ({"bands": ["f" * 17]}, "plan, band 0: found 'f{17}', expected 16 lowercase hex digits"),
        ({"bands": ["F" * 16]}, "plan, band 0: found 'F{16}', expected 16 lowercase hex digits"),
        ({"bands": ["f" * 16 + "\n"]}, "plan, band 0: found .*, expected 16 lowercase hex digits"),
        ({"bands": ["f" * 10**6]}, r"plan, band 0: found 'f{59}\.\.\., expected 16 lowercase hex digits"),
        ({"bands": ["f" * 15 + "0"]}, "found bits 0xf in no band"),
        ({"tables": {}}, "plan, tables: found dict, expected list"),
        ({"tables": [None] * 1025}, "plan, tables: found 1025 items, expected at most 1024"),
        ({"tables": [None]}, "plan, table 0: found NoneType, expected dict"),
        ({"tables": [{}]}, "plan, table 0: found the fields none, expected flips, prefix_mask"),
        ({"tables": [{"prefix_mask": 1, "flips": 0}]}, "plan, table 0, prefix_mask: found int, expected str"),
        (
            {"tables": [{"prefix_mask": "f" * 16, "flips": "1"}]},
            "plan, table 0, flips: found str, expected int",
        ),
    ],
)
def test_json_that_is_no_plan_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message) as refusal:
        Plan.from_json(plans.flips(2, (1, 0), 2).to_json() | changes)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("value", [None, [], "plan", 3])
def test_json_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(PlanError, match=r"plan: found .*, expected dict"):
        Plan.from_json(value)


@pytest.mark.parametrize("field", ["name", "max_distance", "bits", "slot_keys", "bands", "tables"])
def test_json_without_one_of_its_fields_is_refused(field: str) -> None:
    value = plans.paper("paper-4").to_json()
    del value[field]
    with pytest.raises(PlanError, match=f"plan: found the fields .*, expected .*{field}"):
        Plan.from_json(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
)


@given(st.sampled_from(["name", "max_distance", "bits", "slot_keys", "bands", "tables"]), json_values)
def test_any_value_in_any_field_is_a_plan_or_a_plan_error(field: str, value: object) -> None:
    stored = plans.paper("paper-4").to_json() | {field: value}
    try:
        plan = Plan.from_json(stored)
    except PlanError:
        return
    assert plan.to_json() == stored
