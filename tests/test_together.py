"""Pairs of a store in several parts: those of brute force, found without a copy of what is stored."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from helpers import distinct
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_id_pairs import by_brute_force, found_pairs
from test_nearest import Row, play, u64

import fpstore
from fpstore._merge import AnyOrder, MergedKeys
from fpstore.living import together
from fpstore.living.writer import Writer
from fpstore.types import IdType

K = 3
PLANS = ["paper-4", "flips-2:1,1", "flips-3:1,0,0", "balanced", "size", "speed"]
near_one = st.integers(0, 63).flatmap(lambda bit: st.integers(0, 63).map(lambda other: (1 << bit) ^ (1 << other)))
keys = st.one_of(st.integers(0, 40), near_one, st.sampled_from([(1 << 64) - 1, 1 << 63, 7 << 40]))
rows = st.lists(st.tuples(keys, st.integers(0, 9)), max_size=10)
flushed = st.tuples(st.just("flush"), st.none())
removed = st.tuples(st.sampled_from(["remove fingerprints", "remove ids"]), st.lists(keys, max_size=4))
parts = st.lists(st.one_of(st.tuples(st.just("add"), rows), removed, flushed, flushed), max_size=30)


@contextmanager
def unmerged() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_start_merge", lambda *_: None)
        yield


def near(held: set[Row], k: int) -> set[tuple[int, int, int]]:
    stored = sorted({key for key, _ in held})
    pairs = ((one, other, (one ^ other).bit_count()) for one, other in combinations(stored, 2))
    return {pair for pair in pairs if pair[2] <= k}


@contextmanager
def gathered(least: int) -> Iterator[None]:
    """Windows of so many keys of each part come in no order, where there may be more than these tests have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "LEAST_GATHERED", least)
        yield


@pytest.mark.slow
@given(parts, st.sampled_from(PLANS), st.booleans(), st.integers(0, K), st.sampled_from([0, 8]))
def test_pairs_of_many_parts_are_those_of_brute_force(
    history: Sequence[tuple[str, object]], plan: str, with_ids: bool, k: int, least: int
) -> None:
    with TemporaryDirectory() as folder, unmerged(), gathered(least):
        path = Path(folder) / "s"
        fpstore.create(path, plan=plan, id_type="uint64" if with_ids else None).close()
        with fpstore.open(path, "w") as store:
            held = play(store, history, with_ids)
            found = [tuple(pair) for some in store.pairs(max_distance=k) for pair in some]
            expected = near(held, k)
            assert (len(found), set(found)) == (len(expected), expected)
            assert store.count_pairs(max_distance=k) == len(expected)
            if with_ids:
                of_ids = by_brute_force(held, k)
                assert found_pairs(store, k) == of_ids
                assert store.count_pairs(max_distance=k, of="ids") == of_ids.total()


def in_parts(path: Path, sizes: Sequence[int], plan: str, *, id_type: IdType | None = None) -> set[Row]:
    """Clustered keys in segments of these sizes, of which the last is pending; some of the first ones are removed."""
    rng = np.random.default_rng(5)
    centers = rng.integers(0, 1 << 62, sum(sizes) // 3, dtype=np.uint64)
    chosen = rng.choice(centers, sum(sizes)) ^ (np.uint64(1) << rng.integers(0, 64, sum(sizes), dtype=np.uint64))
    ids = np.arange(len(chosen), dtype=np.uint64) // np.uint64(2)
    fpstore.create(path, plan=plan, id_type=id_type).close()
    bounds = np.cumsum([0, *sizes]).tolist()
    with unmerged(), fpstore.open(path, "w") as store:
        for start, end in pairwise(bounds):
            if start:
                store._flush()
            given_ids = {None: None, "uint64": ids[start:end], "string": [f"n{i}" for i in ids[start:end].tolist()]}
            store.add(chosen[start:end], ids=given_ids[id_type])
        store.remove(fingerprints=chosen[:20])
        assert len(store._segments) == len(sizes) - 1
    gone = set(chosen[:20].tolist())
    return {row for row in zip(chosen.tolist(), ids.tolist(), strict=True) if row[0] not in gone}


@pytest.mark.slow
@pytest.mark.parametrize("memory", [9000, 60_000, "1GiB"])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("least", [0, 8])
def test_parts_of_any_size_are_read_in_the_same_chunks(
    tmp_path: Path, plan: str, memory: int | str, least: int
) -> None:
    """Their slots are of different widths, and chunks of a small budget lie within one slot of the smallest."""
    expected = near(in_parts(tmp_path / "s", [1200, 300, 5, 70, 40], plan), K)
    with fpstore.open(tmp_path / "s") as store, gathered(least):
        found = [tuple(pair) for some in store.pairs(memory=memory) for pair in some]
        assert (len(found), set(found)) == (len(expected), expected)
        assert store.count_pairs(memory=memory) == len(expected)


@pytest.mark.parametrize(
    ("of_window", "parts", "expected"), [(40, 5, True), (39, 5, False), (512, 2, True), (513, 2, False)]
)
def test_windows_of_many_keys_come_in_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_window: int, parts: int, expected: bool
) -> None:
    """Of eight keys of each part, and of no more than 512 in all; then what several parts have comes once still."""
    widths: list[int] = []

    class Merged(MergedKeys):
        def __init__(self, sources: object, least: int, room: object, into: object, order: AnyOrder) -> None:
            widths.append(order.width)

    rng, count = np.random.default_rng(2), of_window << 8
    keys = rng.permutation(distinct(rng.integers(0, 1 << 32, count + 99, dtype=np.uint64)))[:count]
    assert len(keys) == count
    keys[-3:] = keys[:3]
    fpstore.create(tmp_path / "s", plan="flips-4:0,0,0,0", id_type=None, bits=32).close()
    with unmerged(), fpstore.open(tmp_path / "s", "w") as store:
        for part in np.array_split(keys, parts):
            store._flush()
            store.add(part)
        assert len(store._segments) == parts - 1
        monkeypatch.setattr(together, "MergedKeys", Merged)
        found = store.count_pairs()
    assert widths == [24 * expected] * 4
    with fpstore.build(tmp_path / "one", keys, plan="flips-4:0,0,0,0", ids=None, bits=32) as store:
        assert found == store.count_pairs() > 0


def test_what_was_removed_while_pending_makes_no_pair(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add([1, 3, 3], ids=[1, 2, 3])
        store.remove(ids=[2])
        assert (store.count_pairs(), store.count_pairs(of="ids")) == (1, 1)
        store.remove(fingerprints=[3])
        assert (store.count_pairs(), store.count_pairs(of="ids")) == (0, 0)
        store.add([3], ids=[2])
        assert (store.count_pairs(), store.count_pairs(of="ids")) == (1, 1)


def test_pairs_of_names_are_those_of_all_parts(tmp_path: Path) -> None:
    held = in_parts(tmp_path / "s", [100, 50, 30], "paper-4", id_type="string")
    expected = {(*sorted([f"n{one}", f"n{other}"]), distance) for one, other, distance in by_brute_force(held, K)}
    with fpstore.open(tmp_path / "s") as store:
        found = [tuple(pair) for some in store.pairs(of="ids") for pair in some]
    assert {(str(one), str(other), distance) for one, other, distance in found} == expected


def test_ids_of_a_part_of_the_pairs_are_held_at_once(tmp_path: Path) -> None:
    held = in_parts(tmp_path / "s", [300, 200, 40], "paper-4", id_type="uint64")
    with fpstore.open(tmp_path / "s") as store:
        few = store.pairs(of="ids", memory=16_000)
        found = [tuple(pair) for some in few for pair in some]
    expected = by_brute_force(held, K)
    assert len(found) == expected.total()
    assert set(found) == set(expected)


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    plan=st.sampled_from(["flips-2:1,1", "flips-3:1,0,0", "speed", "balanced", "paper-4"]),
    form=st.sampled_from(["uniform", "one prefix", "few prefixes", "equal"]),
    removed=st.integers(0, 40),
    memory=st.integers(100, 1200),
    is_compacted=st.booleans(),
    bits=st.sampled_from([64, 64, 32, 16]),
)
@settings(max_examples=40)
@example(sizes=[20], plan="balanced", form="uniform", removed=10, memory=396, is_compacted=False, bits=64)
@example(sizes=[60], plan="flips-2:1,1", form="few prefixes", removed=0, memory=100, is_compacted=True, bits=64)
def test_a_refusal_names_a_budget_that_is_enough(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    plan: str,
    form: str,
    removed: int,
    memory: int,
    is_compacted: bool,
    bits: int,
) -> None:
    rng = np.random.default_rng(sum(sizes))
    path = tmp_path_factory.mktemp("pairs") / "s"
    fpstore.create(path, plan=plan if bits == 64 else "balanced", bits=bits).close()
    with fpstore.open(path, "w") as store:
        for number, size in enumerate(sizes):
            keys = rng.integers(0, 1 << 64, size, dtype=np.uint64)
            if form != "uniform":
                keys &= np.uint64(0xFFFF if form == "one prefix" else 0xF00000000000FFFF)
            keys >>= np.uint64(64 - bits if form == "uniform" else 0)
            keys &= np.uint64((1 << bits) - 1)
            if form == "equal":
                keys[:] = keys[0]
            store.add(keys, ids=np.arange(size, dtype=np.uint64) + np.uint64(100 * number))
            if number % 2 == 0:
                store.compact()
        store.remove(ids=np.arange(removed, dtype=np.uint64))
        if is_compacted:
            store.compact()
        expected = store.count_pairs()
        try:
            assert store.count_pairs(memory=memory) == expected
            needed = memory
        except ValueError as error:
            needed = int(str(error).rpartition("budget of ")[2].split()[0])
        assert needed >= memory
        assert store.count_pairs(memory=needed) == expected
        assert sum(map(len, store.pairs(memory=needed))) == expected


def test_ids_that_do_not_fit_the_budget_are_refused(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "one", u64([5] * 300), ids=np.arange(300)).close()
    fpstore.build(tmp_path / "two", u64([5] * 200 + [6] * 200), ids=np.arange(400)).close()
    for name, message in (("one", "found 1 fingerprints with 301 ids"), ("two", "found 2 fingerprints with 401 ids")):
        with fpstore.open(tmp_path / name, "w") as store:
            store.add([5], ids=[1000])
            with pytest.raises(ValueError, match=f"{name}: {message}, expected at most [0-9]+ with a memory budget"):
                store.count_pairs(of="ids", memory=301 * 48 - 1 if name == "one" else 401 * 48 - 1)
            assert store.count_pairs(of="ids", memory=401 * 48) > 0


@pytest.mark.slow
@given(
    parts=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=40), min_size=1, max_size=4),
    removed=st.integers(0, 30),
    memory=st.integers(300, 3000),
)
@settings(max_examples=40)
def test_a_refusal_of_ids_names_a_budget_that_is_enough(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]], removed: int, memory: int
) -> None:
    path = tmp_path_factory.mktemp("ids") / "s"
    fpstore.create(path).close()
    with unmerged(), fpstore.open(path, "w") as store:
        for number, fingerprints in enumerate(parts):
            store.add(fingerprints, ids=100 * number + np.arange(len(fingerprints)))
            if number < 3:
                store._flush()
        store.remove(ids=np.arange(removed))
        expected = store.count_pairs(of="ids")
        told: list[str] = []
        while True:
            try:
                assert store.count_pairs(of="ids", memory=memory) == expected
                break
            except ValueError as error:
                told.append("ids" if "with a memory budget" in str(error) else "fingerprints")
                (needed,) = re.findall(r"(?:one of|needs a memory budget of) (\d+) bytes", str(error))
                assert int(needed) > memory
                memory = int(needed)
        assert len(told) == len(set(told)), told  # once for the fingerprints, and once for their ids
        assert sum(map(len, store.pairs(of="ids", memory=memory))) == expected


def test_pairs_write_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "there is none"))
    in_parts(tmp_path / "s", [100, 50, 30], "paper-4", id_type="uint64")
    with fpstore.open(tmp_path / "s") as store:
        before = sorted(tmp_path.rglob("*"))
        for pairs in (store.pairs(), store.pairs(of="ids")):
            next(iter(pairs))
            assert sorted(tmp_path.rglob("*")) == before
        assert store.count_pairs() > 0
        assert store.count_pairs(of="ids") > 0


def test_a_process_killed_among_the_pairs_leaves_nothing(tmp_path: Path) -> None:
    in_parts(tmp_path / "s", [100, 50, 30], "paper-4")
    (tmp_path / "temporary").mkdir()
    script = (
        "import fpstore, sys, time; p = fpstore.open(sys.argv[1]).pairs(); next(p); print(flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "s")],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"\n"
        child.send_signal(signal.SIGKILL)
    assert list((tmp_path / "temporary").iterdir()) == []
