"""Pairs of rows: which documents are near or equal, each two once, whatever was added, removed and merged."""

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from living import ids_from, writer_of
from test_nearest import Row, histories, play, u64

import fpstore
from fpstore import StoreClosed
from fpstore.query import id_pairs

K = 3


@contextmanager
def small_squares(side: int = 2) -> Iterator[None]:
    """So that a few ids are many squares."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_pairs, "SIDE", side)
        patch.setattr(id_pairs, "PAIRS_AT_ONCE", side * side)
        yield


def by_brute_force(held: set[Row], k: int) -> Counter[tuple[int, int, int]]:
    """One for each two rows of different ids."""
    found: Counter[tuple[int, int, int]] = Counter()
    for (key, number), (other_key, other) in combinations(held, 2):
        assert number is not None
        assert other is not None
        apart = (key ^ other_key).bit_count()
        if apart <= k and number != other:
            found[min(number, other), max(number, other), apart] += 1
    return found


def found_pairs(store: fpstore.Store, k: int | None = None) -> Counter[tuple[int, int, int]]:
    pairs = (pair for some in store.pairs(max_distance=k, of="ids") for pair in some)
    return Counter((pair.first_id, pair.second_id, pair.distance) for pair in pairs)


@pytest.mark.slow
@given(histories, st.integers(0, K), st.integers(1, 3), st.booleans())
def test_pairs_of_ids_are_those_of_brute_force(
    history: Sequence[tuple[str, object]], k: int, side: int, compacted: bool
) -> None:
    """Equal fingerprints, ids that several fingerprints share, rows that are pending and rows that were removed."""
    with TemporaryDirectory() as folder, small_squares(side):
        path = Path(folder) / "s"
        fpstore.create(path, plan="paper-4").close()
        with writer_of(path, growth=0) as store:
            held = play(store, history, with_ids=True)
            if compacted:
                store.compact()
            expected = by_brute_force(held, k)
            assert found_pairs(store, k) == expected
            assert store.count_pairs(max_distance=k, of="ids") == expected.total()


@pytest.mark.parametrize("flips", ["paper-4", "flips-2:1,1"])
def test_large_groups_give_each_two_rows_once(tmp_path: Path, flips: str) -> None:
    """Groups of several squares, one long and one short, and two that share ids."""
    counts = {5: 700, 7: 300, 31 << 40: 1, 31 << 40 | 1: 70_000}
    keys = np.repeat(u64(list(counts)), list(counts.values()))
    ids = np.concatenate([np.arange(700), np.arange(650, 950), [2000], np.arange(3000, 73_000)]).astype(np.uint64)
    with fpstore.build(tmp_path / "s", keys, ids=ids, plan=flips) as store:
        only_small = store.count_pairs(of="ids", max_distance=0)
        assert only_small == sum(count * (count - 1) // 2 for count in counts.values())
        assert store.count_pairs(of="ids") - only_small == 700 * 300 - 50 + 70_000
    keep = ids < 3000
    with fpstore.build(tmp_path / "t", keys[keep], ids=ids[keep], plan=flips) as store:
        rows = zip(keys[keep].tolist(), ids[keep].tolist(), strict=True)
        found = found_pairs(store)
        assert found == by_brute_force(set(rows), K)
        assert max(len(some) for some in store.pairs(of="ids")) <= id_pairs.PAIRS_AT_ONCE


def test_ids_are_compared_without_a_sign_and_come_with_one_where_asked(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [4, 5], ids=np.array([-1, 3])).close()
    with fpstore.open(tmp_path / "s") as store:
        (some,) = store.pairs(of="ids")
        assert list(some) == [fpstore.IdPair(3, (1 << 64) - 1, 1)]
        dtypes = [each.dtype for each in (some.first_id, some.second_id, some.distance)]
        assert dtypes == [np.uint64, np.uint64, np.uint16]
        assert repr(some).splitlines()[-1].split() == ["3", str((1 << 64) - 1), "1"]
    with fpstore.open(tmp_path / "s", signed=True) as store:
        (some,) = store.pairs(of="ids")
        assert (some.first_id.dtype, list(some)) == (np.dtype(np.int64), [(3, -1, 1)])


@pytest.mark.slow
def test_however_many_share_a_fingerprint_few_pairs_are_held(tmp_path: Path) -> None:
    many = 300_000
    with fpstore.build(tmp_path / "s", np.repeat(u64([5, 6]), many), ids=ids_from(0, 2 * many)) as store:
        pairs = store.pairs(of="ids")
        next(pairs)
        tracemalloc.start()
        for _ in range(5):
            assert len(next(pairs)) > 0
        assert store.count_pairs(of="ids") == 2 * (many * (many - 1) // 2) + many * many
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # Some columns of 8 bytes for each of PAIRS_AT_ONCE pairs, and the decoder's; the pairs are 1.8e11.
    assert peak < 16 << 20


def test_what_is_no_kind_of_pair_and_a_store_without_ids_are_refused(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [1, 2], ids=None) as store:
        asks: list[Any] = [store.pairs, store.count_pairs]
        for ask in asks:
            with pytest.raises(ValueError, match="of: found 'rows', expected fingerprints or ids"):
                ask(of="rows")
            with pytest.raises(ValueError, match="has no ids; ask for pairs of fingerprints"):
                ask(of="ids")
        assert store.count_pairs(of="fingerprints") == 1


def test_pairs_of_ids_are_of_the_moment_of_the_call_and_end_with_the_store(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add([1, 1, 1], ids=[1, 2, 3])
        pairs = store.pairs(of="ids")
        store.add([1], ids=[4])
        assert sum(map(len, pairs)) == 3
    with small_squares(), fpstore.build(tmp_path / "t", np.repeat(u64([9]), 50)) as store:
        pairs = store.pairs(of="ids")
        next(pairs)
    with pytest.raises(StoreClosed):
        next(pairs)


def test_progress_of_pairs_of_ids_goes_up_to_a_thousand(tmp_path: Path) -> None:
    steps: list[fpstore.Progress] = []
    keys = np.repeat(np.arange(3000, dtype=np.uint64), 2)
    with fpstore.build(tmp_path / "s", keys) as store:
        store.count_pairs(of="ids", progress=steps.append)
        told = len(steps)
        assert sum(map(len, store.pairs(of="ids", progress=steps.append))) > 0
    for some in (steps[:told], steps[told:]):
        assert [step.done for step in some] == sorted(step.done for step in some)
        assert (some[0].done, {(step.phase, step.total) for step in some}) == (0, {("pairs", 1000)})
        assert some[-1].done < 1000
