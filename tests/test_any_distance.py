"""Stores for any distance up to all bits, and those that are one table: what brute force finds, whatever is asked."""

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome import Command

import fpstore
from fpstore.errors import PlanError, StoreWarning
from fpstore.format import CODECS
from fpstore.living import radius
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.plans.reach import faster_plan, reads_all
from fpstore.query import pairs
from fpstore.query.ways import single_ways
from fpstore.types import Keys

Row = tuple[int, int]  # fingerprint, id


def u64(values: Any) -> Keys:
    return np.array(values, dtype=np.uint64)


def some_keys(source: np.random.Generator, count: int, bits: int) -> list[int]:
    """Some near one of them, some in few slots, some anywhere."""
    most = (1 << bits) - 1
    base = int(source.integers(0, 1 << 63)) & most

    def near() -> int:
        return base ^ sum(1 << int(bit) for bit in source.choice(bits, int(source.integers(bits)), replace=False))

    def anywhere() -> int:
        return int(source.integers(0, 1 << 63)) & most

    def low() -> int:
        return int(source.integers(0, 256))

    kinds = [anywhere, near, low]
    return [kinds[int(source.integers(3))]() for _ in range(count)]


def near_rows(rows: list[Row], query: int, distance: int) -> list[tuple[int, int, int]]:
    """(distance, fingerprint, id), in the order of answers."""
    found = sorted(((query ^ key).bit_count(), key, id) for key, id in rows)
    return [row for row in found if row[0] <= distance]


plans_of_any_distance = st.sampled_from([*planner.AIMS, "scan", "flips-1", "flips-2", "flips-3", "flips-5"])


def plan_name(name: str, distance: int) -> str:
    """The most even flips of so many bands."""
    kind, _, bands = name.partition("-")
    if kind != "flips":
        return name
    count = min(int(bands), distance + 1)
    least, more = divmod(distance + 1 - count, count)
    return f"flips-{count}:{','.join(str(least + (index < more)) for index in range(count))}"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    bits=st.sampled_from([16, 24, 40, 64]),
    share=st.floats(0.26, 1),
    name=plans_of_any_distance,
    codec=st.sampled_from(CODECS),
    layout=st.sampled_from(["slots", "blocks"]),
    data=st.data(),
)
def test_a_store_of_any_distance_answers_as_brute_force_does(
    bits: int, share: float, name: str, codec: Any, layout: Any, data: st.DataObject
) -> None:
    """Two segments, pending rows and removed ones, at distances within the store's."""
    distance = min(bits, max(17 if bits > 16 else 5, round(share * bits)))
    source = np.random.default_rng(data.draw(st.integers(0, 999)))
    keys = some_keys(source, data.draw(st.integers(1, 120)), bits)
    rows = list(zip(keys, range(len(keys)), strict=True))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Small stores are looked up, large ones read: here both happen.
        patch.setattr(planner, "SCAN_CALL_NS", data.draw(st.sampled_from([0.0, 3000.0])))
        patch.setattr(pairs, "MANY_FLIPS", data.draw(st.sampled_from([0, 1 << 12])))
        options: Any = {"plan": plan_name(name, distance), "max_distance": distance, "codec": codec, "bits": bits}
        with fpstore.create(Path(folder) / "s", layout=layout, **options) as store:
            for part in range(3):
                own = rows[part::3]
                if own:
                    store.add(u64([key for key, _ in own]), ids=u64([id for _, id in own]))
                if part < 2:
                    store._flush()
            gone = rows[::4]
            store.remove(ids=[id for _, id in gone])
            live = [row for row in rows if row not in gone]
            queries = [*keys[:3], *some_keys(source, 3, bits)]
            for asked in (distance, distance - 1, distance // 2, 1, 0):
                expected = [(i, *row) for i, query in enumerate(queries) for row in near_rows(live, query, asked)]
                found = store.probe_many(u64(queries), max_distance=asked)
                assert [(row.query, row.distance, row.fingerprint, row.id) for row in found] == expected
                one = store.probe(queries[0], max_distance=asked)
                assert [(row.distance, row.fingerprint, row.id) for row in one] == near_rows(live, queries[0], asked)
                assert store.contains_near(queries[-1], max_distance=asked) is (
                    len(near_rows(live, queries[-1], asked)) > 0
                )
                few = store.nearest(queries[0], 3, max_distance=asked)
                assert [(row.distance, row.fingerprint, row.id) for row in few] == near_rows(live, queries[0], asked)[
                    :3
                ]
                distinct = sorted({key for key, _ in live})
                two = {(a, b) for a in distinct for b in distinct if a < b and (a ^ b).bit_count() <= asked}
                met = [(pair.first, pair.second) for batch in store.pairs(max_distance=asked) for pair in batch]
                assert (set(met), len(met)) == (two, len(two))
            new = some_keys(source, 5, bits)
            kept = [key for key, _ in live]
            for index, addition in enumerate(store.add_if_new(u64(new), ids=1000 + np.arange(5))):
                is_near = any((new[index] ^ key).bit_count() <= distance for key in kept)
                assert addition.stored is not is_near
                if not is_near:
                    kept.append(new[index])


@pytest.mark.parametrize("bits", [16, 40, 64])
def test_a_scan_is_one_table_that_is_read_however_far_is_asked(tmp_path: Path, bits: int) -> None:
    keys = np.unique(np.random.default_rng(3).integers(0, 1 << (bits - 1), 20_000, dtype=np.uint64))
    with fpstore.build(tmp_path / "s", keys, plan="scan", max_distance=bits // 2, bits=bits) as store:
        assert (store.plan.name, len(store.plan.tables), reads_all(store.plan)) == ("scan", 1, True)
        (segment,) = store._segments
        assert single_ways([segment], store.plan)[0] == -1
        for distance in (bits // 2 - 1, bits // 2):
            near = np.bitwise_count(keys ^ keys[7]) <= distance
            found = store.probe(int(keys[7]), max_distance=distance)
            assert (found.method, sorted(found.fingerprint.tolist())) == ("scan", keys[near].tolist())
            assert found == store.probe_many(keys[7:8], max_distance=distance)
        # What lies so near is found sooner by looking it up.
        assert store.probe(int(keys[7]), max_distance=0).method == "probe"
        again = Plan.from_json(store.plan.to_json())
        again.prove()
        assert again == store.plan


def test_a_single_query_that_reads_all_keys_is_one_call(tmp_path: Path) -> None:
    keys = np.unique(np.random.default_rng(4).integers(0, 1 << 63, 5000, dtype=np.uint64))
    with fpstore.build(tmp_path / "s", keys, plan="scan", max_distance=30, ids=None) as store:
        single, query = store._latest.single, int(keys[3]) ^ 0xFF
        found = single.probe(None, query, None, False)
        assert found.method == "scan"
        assert len(found) == int((np.bitwise_count(keys ^ np.uint64(query)) <= 30).sum())
        assert single.contains(None, query, 30)
        assert not single.contains(None, int(~keys[3]), 4)
        assert single.each(u64([query, query]), 30, False) == 2 * len(found)
        assert single.each(u64([query]), 30, True) == 1
        assert single.probe(None, query, 31, False) is None
        assert store.probe(query, max_distance=30) == found


def test_a_scan_with_keys_that_are_not_all_there_is_left_to_who_names_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = (1 << 64) - 1
    with fpstore.build(tmp_path / "s", np.arange(5000), plan="scan", max_distance=30) as store:
        assert len(store._latest.single.probe(None, far, None, False)) == 0
        (segment,) = store._segments
        monkeypatch.setattr(type(segment), "key_count", 5001)
    with fpstore.open(tmp_path / "s") as store:
        assert store._latest.single.probe(None, far, None, False) is None
        with pytest.raises(fpstore.CorruptStore, match="5000 keys"):
            store.probe(far)


def test_tables_are_looked_up_with_no_more_flips_than_errors(tmp_path: Path) -> None:
    from fpstore.plans.reach import reaching

    plan = Plan.named("flips-3:3,3,2", max_distance=10)
    assert reaching(plan, 10, 10**6) is plan
    least = 0.0
    for distance, total in enumerate([0, 0, 0, 1, 2, 3, 4, 5, 6, 7]):
        narrow = reaching(plan, distance, 10**6)
        assert narrow is not None
        assert sum(table.flips for table in narrow.tables) == total
        assert all(own.flips <= table.flips for own, table in zip(narrow.tables, plan.tables, strict=True))
        narrow.prove()
        assert least <= planner.predict(narrow, 10**6).nanoseconds < planner.predict(plan, 10**6).nanoseconds
        least = planner.predict(narrow, 10**6).nanoseconds
    alone = Plan.named("flips-1:2", max_distance=2)
    narrower = [reaching(alone, distance, 10**6 + 1) for distance in (0, 1, 2)]
    assert [narrow.tables[0].flips for narrow in narrower if narrow is not None] == [0, 1, 2]


def test_what_is_too_tangled_to_prove_is_looked_up_as_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from fpstore.plans.reach import reaching

    def refuse(self: Plan) -> int | None:
        raise PlanError("too tangled")

    plan = Plan.named("flips-3:3,3,2", max_distance=10)
    monkeypatch.setattr(Plan, "missed", refuse)
    for distance, flips in ((9, (3, 3, 2)), (2, (2, 2, 2))):
        narrow = reaching(plan, distance, 10**6 + 9)
        assert narrow is not None
        assert tuple(table.flips for table in narrow.tables) == flips


@pytest.mark.parametrize("name", ["scan", "flips-2:8,7", "flips-5:3,3,2,2,2"])
def test_pairs_are_the_same_where_all_keys_are_one_window(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.unique(u64(some_keys(np.random.default_rng(6), 300, 64)))
    near = np.bitwise_count(keys[:, None] ^ keys[None, :]) <= 16
    expected = {(int(keys[a]), int(keys[b])) for a, b in zip(*np.nonzero(near), strict=True) if a < b}
    assert len(expected) > 100
    with fpstore.build(tmp_path / "s", keys, plan=name, max_distance=16) as store:
        for many in (0, 1 << 12):
            monkeypatch.setattr(pairs, "MANY_FLIPS", many)
            met = [(pair.first, pair.second) for batch in store.pairs() for pair in batch]
            assert (set(met), len(met)) == (expected, len(expected))


def test_a_store_that_outgrew_its_scan_says_so_once_and_in_its_stats(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 63, 600_000, dtype=np.uint64))
    few = planner.choose(12_000, 12, "balanced")
    assert few.name == "scan"
    path = tmp_path / "s"
    with fpstore.build(path, keys[:12_000], max_distance=12, ids=None) as store:
        assert store.plan == few
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.probe_many(keys[:3])
        assert store.stats().segments[0].warnings == ()
    with fpstore.build(path, keys, max_distance=12, plan=few, ids=None, force=True) as store:
        monkeypatch.setattr(radius, "_told", False)
        with pytest.warns(StoreWarning, match=r"^plan scan: a query of these [0-9,]+ fingerprints takes some") as told:
            _ = store.probe(int(keys[5])), store.probe_many(keys[:2])
        assert len(told) == 1
        assert told[0].filename == __file__
        better = faster_plan(store.plan, 12, len(keys), "balanced")
        assert better is not None
        assert f"for so many {better.plan.name}" in str(told[0].message)
        assert store.stats().segments[0].warnings == (str(told[0].message),)
        assert str(told[0].message) in store.report().segments[0].warnings
    assert "plan scan: a query of these" in command("stats", path).out
    # Which it does.
    with fpstore.build(tmp_path / "t", keys, max_distance=12, ids=None) as other:
        assert other.plan.name == better.plan.name
        assert other.stats().segments[0].warnings == ()


def test_the_command_line_builds_and_asks_at_any_distance(command: Command, tmp_path: Path) -> None:
    given = tmp_path / "keys.txt"
    given.write_text("".join(f"{key:016x}\n" for key in (0, (1 << 20) - 1, (1 << 40) - 1)))
    made = command("build", tmp_path / "s", given, "-k", "40", "--plan", "scan", "--format", "hex")
    assert made.status == 0
    assert "scan, 1 table" in command("stats", tmp_path / "s").out
    for distance, count in ((19, 1), (20, 2), (40, 3)):
        found = command("probe", tmp_path / "s", "0", "-k", str(distance))
        assert (found.status, len(found.lines), found.err) == (0, count, "")
    assert command("pairs", tmp_path / "s", "--count").out == "3\n"
    refused = command("build", tmp_path / "t", given, "-k", "65", "--format", "hex")
    assert (refused.status, "65" in refused.err) == (2, True)
    assert not (tmp_path / "t").exists()


def test_plan_shows_the_scan_and_the_aims_that_pick_it(command: Command) -> None:
    rows = command("plan", "-k", "16", "--n", "1e6").lines[1:]
    (scan,) = [row for row in rows if row.startswith("scan ")]
    assert scan.endswith("size, balanced")
    (row,) = [row for row in command("plan", "-k", "30", "--n", "1e6").lines[1:] if row.startswith("scan ")]
    assert row.endswith("size, balanced, speed")
    choices = json.loads(command("plan", "-k", "30", "--n", "1e6", "--json").out)["choices"]
    assert [(choice["plan"], choice["method"], choice["picked_by"]) for choice in choices] == [
        ("scan", "scan", ["size", "balanced", "speed"])
    ]
