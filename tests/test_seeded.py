"""Stores whose bits are shuffled by a seed: as exact, with the same sizes, and nothing of the public order left."""

# mypy: disable-error-code="no-any-return, union-attr"

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import brute_force, fingerprint_array

import fpstore
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import MAX_NAME_LENGTH, Plan, TablePlan
from fpstore.types import Keys

PLANS: list[dict[str, Any]] = [
    {"max_bytes": 40.0},
    *({"plan": name} for name in ("size", "balanced", "speed", *plans.PAPER_NAMES, "flips-2:1,1")),
]


def some(seed: int, count: int = 3_000) -> Keys:
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 1 << 64, count // 10, dtype=np.uint64)
    bits = np.uint64(1) << rng.integers(0, 64, (2, count), dtype=np.uint64)
    return rng.choice(centres, count) ^ bits[0] ^ bits[1]


@pytest.mark.parametrize("name", plans.PAPER_NAMES)
def test_a_shuffled_plan_is_proven_and_as_large(name: str) -> None:
    plan = plans.paper(name)
    shuffled = plan.shuffled(5)
    shuffled.prove()
    assert [table.prefix_bits for table in shuffled.tables] == [table.prefix_bits for table in plan.tables]
    assert [table.flips for table in shuffled.tables] == [table.flips for table in plan.tables]
    assert shuffled.tables != plan.tables
    assert planner.predict(shuffled, 10**7).file_bytes == planner.predict(plan, 10**7).file_bytes


def test_a_seed_always_gives_the_same_plan_and_another_another() -> None:
    plan = plans.paper("paper-4")
    assert plan.shuffled(5) == plan.shuffled(5) != plan.shuffled(6)
    # Stays for ever: bit i goes to where the i-th smallest of the hashes of "5:0" to "5:63" comes from.
    assert f"{plan.shuffled(5).bands[3]:016x}" == "14a0130090072414"


def test_a_name_of_the_greatest_length_stays_one() -> None:
    plan = Plan("x" * MAX_NAME_LENGTH, 0, (2**64 - 1,), (TablePlan(2**64 - 1),))
    assert len(plan.shuffled(1).name) == MAX_NAME_LENGTH


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("as_stream", [False, True])
def test_a_seeded_store_is_exact(tmp_path: Path, plan: dict[str, Any], as_stream: bool) -> None:
    keys = some(1)
    queries = np.concatenate([some(1)[:50] ^ np.uint64(1 << 63), fingerprint_array([0, 2**64 - 1])])
    given = iter([keys[:1000], keys[1000:]]) if as_stream else keys
    with fpstore.build(tmp_path / "s", given, **plan, shuffle=7) as store:
        expected = [
            (index, (query ^ key).bit_count(), key, row)
            for index, query in enumerate(queries.tolist())
            for row, key in enumerate(keys.tolist())
            if (query ^ key).bit_count() <= 3
        ]
        found = [(match.query, match.distance, match.fingerprint, match.id) for match in store.probe_many(queries)]
        assert found == sorted(expected)
        assert store.plan.tables[0].prefix_mask != plans.even_bands(2**64 - 1, 2)[0]
        assert store.plan.name.endswith(" shuffled")
        store.verify()


def test_the_pairs_and_rows_of_a_seeded_store_are_those_of_any_other(tmp_path: Path) -> None:
    keys = some(2, 800)
    with (
        fpstore.build(tmp_path / "s", keys, shuffle=7) as seeded,
        fpstore.build(tmp_path / "t", keys) as plain,
    ):
        pairs = [sorted(pair for batch in store.pairs() for pair in batch) for store in (seeded, plain)]
        assert pairs[0] == pairs[1] != []
        rows = [
            sorted(
                (key, id)
                for one, other in ((rows.fingerprint, rows.id) for rows in store.rows())
                for key, id in zip(one.tolist(), other.tolist(), strict=True)
            )
            for store in (seeded, plain)
        ]
        assert rows[0] == rows[1]
        assert len(rows[0]) == len(keys)


def test_a_store_that_begins_empty_may_be_seeded_and_keeps_its_plan(tmp_path: Path) -> None:
    keys = np.unique(some(3, 500))
    with fpstore.create(tmp_path / "s", id_type=None, shuffle=2**100) as store:
        plan = store.plan
        store.add(keys[:200])
        store._flush()
        store.add(keys[200:])
        store.compact()
        found = store.probe_many(keys[:20])
    query, fingerprint, distance = brute_force(keys, keys[:20], 3)
    assert found.query.tolist() == query.tolist()
    assert sorted(found.fingerprint.tolist()) == sorted(fingerprint.tolist())
    assert found.distance.tolist() == distance.tolist()
    with fpstore.open(tmp_path / "s") as store:
        assert store.plan == plan


@pytest.mark.parametrize("seed", ["7", 1.5, b"x"])
def test_a_seed_that_is_no_integer_is_refused(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(ValueError, match=r"shuffle: found .*, expected an integer or None"):
        fpstore.build(tmp_path / "s", some(1), shuffle=seed)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("plan", ["flips-2:1,1", "flips-3:1,0,0", "flips-1:3", "paper-4"])
def test_probes_of_a_slot_that_holds_nearly_all_are_exact(tmp_path: Path, plan: str, seed: int | None) -> None:
    rng = np.random.default_rng(5)
    crowd = rng.integers(0, 1 << 31, 20_000, dtype=np.uint64) | np.uint64(0x5EED5EED << 32)
    keys = np.unique(np.concatenate([crowd, rng.integers(0, 1 << 64, 300, dtype=np.uint64)]))
    bits = np.uint64(1) << rng.integers(0, 64, (3, 200), dtype=np.uint64)
    queries = rng.choice(crowd, 200) ^ bits[0] ^ bits[1] ^ bits[2]
    with fpstore.build(tmp_path / "s", keys, ids=None, plan=plan, shuffle=seed) as store:
        found = store.probe_many(queries)
    query, fingerprint, distance = brute_force(keys, queries, 3)
    rows = sorted(zip(query.tolist(), distance.tolist(), fingerprint.tolist(), strict=True))
    assert list(zip(found.query.tolist(), found.distance.tolist(), found.fingerprint.tolist(), strict=True)) == rows
