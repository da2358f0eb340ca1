"""Pairs of wide fingerprints: those of brute force, in the memory that is said."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from test_wide import WIDTHS, numbers_of

import fpstore
from fpstore.living.wide import PAIRED_CODES
from fpstore.types import Paired

BOTH = pytest.mark.parametrize("bits", sorted(WIDTHS))
APART = 8


def crowded(bits: int, count: int, bit_count: int) -> Any:
    """Distinct codes that differ in so many of their last bits at most."""
    codes = np.repeat(np.random.default_rng(3).integers(0, 1 << 64, (1, bits // 64), dtype=np.uint64), count, axis=0)
    codes[:, -1] ^= np.random.default_rng(4).permutation(1 << bit_count)[:count].astype(np.uint64)
    return codes


@BOTH
@pytest.mark.parametrize("memory", ["1GiB", "256KiB"])
def test_pairs_are_those_of_brute_force_however_many_are_searched_for_together(
    bits: int, memory: str, tmp_path: Path
) -> None:
    gone, codes = [3, 180, 1001], crowded(bits, 200, 12)
    ids = np.arange(200, dtype=np.uint64)
    stored = np.concatenate([codes, codes[50:70]])
    ids = np.concatenate([ids, np.arange(1000, 1020, dtype=np.uint64)])
    with fpstore.create(tmp_path / "s", bits=bits, max_distance=APART) as store:
        store.add(stored[:150], ids=ids[:150])
        store.compact()
        store.add(stored[150:], ids=ids[150:])
        store.remove(ids=gone)
        rows = [(key, id) for key, id in zip(numbers_of(stored), ids.tolist(), strict=True) if id not in gone]
        keys = sorted({key for key, _ in rows})
        expected = {
            (one, other, far)
            for at, one in enumerate(keys)
            for other in keys[at + 1 :]
            if (far := (one ^ other).bit_count()) <= APART
        }
        found = [tuple(pair) for some in store.pairs(memory=memory) for pair in some]
        assert (len(found), {(min(a, b), max(a, b), far) for a, b, far in found}) == (len(expected), expected)
        assert store.count_pairs(memory=memory) == len(expected)
        of_ids = {
            (min(a, b), max(a, b), far)
            for key, a in rows
            for other, b in rows
            if a < b and (far := (key ^ other).bit_count()) <= APART
        }
        found = [tuple(pair) for some in store.pairs(memory=memory, of="ids") for pair in some]
        assert (len(found), {(min(a, b), max(a, b), far) for a, b, far in found}) == (len(of_ids), of_ids)
        assert store.count_pairs(memory=memory, of="ids") == len(of_ids)


@BOTH
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("of", ["fingerprints", "ids"])
def test_pairs_take_no_more_memory_than_is_said(bits: int, flushed: bool, of: Any, tmp_path: Path) -> None:
    memory, codes = 4 << 20, crowded(bits, 3000, 12)  # each is near most others: 128 at once took 30 MB and more
    with fpstore.create(tmp_path / "s", bits=bits, max_distance=APART) as store:
        store.add(codes, ids=np.arange(3000, dtype=np.uint64))
        if flushed:
            store.compact()
        store.remove(ids=[5])
        pairs, count = store.pairs(memory=memory, of=of), 0
        next(pairs)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for found in pairs:
                count += len(found)
                if count > 100_000:
                    break
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        pairs.close()  # type: ignore[attr-defined]
        assert count > 100_000
        assert peak < memory, peak / memory


@BOTH
def test_more_near_one_than_fit_the_budget_are_refused_and_more_is_enough(bits: int, tmp_path: Path) -> None:
    codes = crowded(bits, 1 + PAIRED_CODES, 8)
    with fpstore.build(tmp_path / "s", codes, bits=bits, max_distance=APART) as store:
        for of in get_args(Paired):
            message = (
                r"^[0-9a-f]+: more than \d+ rows are within 8 bits of it; finding its pairs needs a memory budget of"
            )
            with pytest.raises(ValueError, match=message + r" more than 9999 bytes$"):
                store.count_pairs(memory=9999, of=of)
            assert store.count_pairs(memory=99_999, of=of) == PAIRED_CODES * (PAIRED_CODES + 1) // 2
