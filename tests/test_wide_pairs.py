"""Pairs of wide fingerprints: those of brute force, in the memory that is said."""

import gc
import threading
import tracemalloc
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from test_wide import WIDTHS, numbers_of

import fpstore
from fpstore.errors import TooManyMatches
from fpstore.living.wide_pairs import PAIRED_CODES, Searches
from fpstore.threads import Threads
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


@BOTH
@pytest.mark.parametrize("memory", ["1GiB", "256KiB"])
@pytest.mark.parametrize("of", get_args(Paired))
def test_pairs_come_in_one_order_by_however_many_threads(bits: int, memory: str, of: Any, tmp_path: Path) -> None:
    codes = crowded(bits, 700, 14)
    with fpstore.create(tmp_path / "s", bits=bits, max_distance=4) as store:
        store.add(codes[:600], ids=np.arange(600, dtype=np.uint64))
        store.compact()
        store.add(codes[500:], ids=np.arange(500, 700, dtype=np.uint64) + np.uint64(300))
        store.remove(ids=[7, 850])
        one, three = (
            [tuple(each) for some in store.pairs(of=of, memory=memory, threads=n) for each in some] for n in (1, 3)
        )
        # Of rows those of one fingerprint come first of each lot, and these are smaller where memory is short.
        assert (
            (three if of == "fingerprints" else sorted(three)) == (one if of == "fingerprints" else sorted(one)) != []
        )
        for several in (3, 10**20):
            assert store.count_pairs(of=of, memory=memory, threads=several) == len(one)
        for bad in (0, "2", True):
            with pytest.raises(ValueError, match="threads: found"):
                store.pairs(threads=bad)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="threads: found"):
                store.count_pairs(threads=bad)  # type: ignore[arg-type]


class Held:
    """What a search made of some codes, with so many rows near them."""

    def __init__(self, codes: list[int], rows: int) -> None:
        self.codes, self.rows = codes, rows


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most", [1, 7, 100, 10_000])
def test_codes_are_searched_for_once_and_in_order_and_all_threads_together_hold_no_more_rows(
    threads: int, most: int
) -> None:
    near = np.random.default_rng(5).integers(0, most + 1, 1500)  # each code, of which some need all the room
    lock, held, peak, at_once = threading.Lock(), weakref.WeakSet[Held](), 0, 0

    def search(queries: Any, room: int) -> Held:
        nonlocal peak, at_once
        own = Held(queries[:, 0].tolist(), int(near[queries[:, 0].astype(int)].sum()))
        if own.rows > room:
            raise TooManyMatches("more", rows=room)
        with lock:
            held.add(own)
            peak, at_once = max(peak, sum(each.rows for each in held)), max(at_once, len(held))
        return own

    codes: list[int] = []
    with closing(Threads(threads)) as work:
        for found, before in Searches(search, most, work).each(np.arange(1500, dtype=np.uint64).reshape(-1, 1)):
            assert before == len(codes)
            codes += found.codes
            del found
    assert codes == list(range(1500))
    assert peak <= most
    assert at_once > 1 or threads == 1 or most < 2 * PAIRED_CODES
