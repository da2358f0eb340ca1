"""Wide codes by every set of instructions: tables, scans and the nearest against brute force, in a process of each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Codes in clusters and alone, so many that tables are searched, and so few that what is read at once is not full. Each
# query has matches at all distances, up to the last one; with changes anywhere, in the first word and in the last one.
SCRIPT = """
import sys
import numpy as np
import fpstore
from fpstore._native import INSTRUCTION_SET
assert INSTRUCTION_SET != "wide"
rng = np.random.default_rng(29)
def changed(codes, most, first, bits):
    codes = codes.copy()
    for row in codes:
        for bit in rng.choice(np.arange(first, first + bits), rng.integers(0, most + 1), replace=False):
            row[bit // 64] ^= np.uint64(1) << np.uint64(63 - bit % 64)
    return codes
for bits, k, plan in ((128, 9, "size"), (128, 9, "speed"), (256, 31, "balanced"), (256, 31, "flips-4:7,7,7,7")):
    for count in (1, 3, 7, 8, 9, 17, 33, 20_000):
        codes = rng.integers(0, 2**64, (count, bits // 64), dtype=np.uint64)
        if count > 100:
            codes[18_500:] = changed(codes[rng.integers(0, 50, 1500)], k - 2, 0, bits)
        codes = np.unique(codes, axis=0)
        some = codes[rng.integers(0, len(codes), 40)]
        places = (0, bits), (0, 64), (bits - 64, 64)
        asked = np.concatenate([changed(some, k + 1, first, width) for first, width in places])
        path = f"{sys.argv[1]}/{bits}-{count}-{plan.partition(':')[0]}"
        with fpstore.build(path, codes, ids=None, bits=bits, max_distance=k, plan=plan) as store:
            (segment,) = store._segments
            apart = np.bitwise_count(asked[:, None] ^ codes).sum(axis=2, dtype=np.int64)
            for distance in (0, k // 2, k) if count > 100 else (0, k, bits // 2 + 3):
                for scan in (False, True):
                    found = segment.codes.search(asked, distance, scan=scan)
                    assert found[3] == scan or count < 100 or ":" in plan
                    queries, ranks = np.nonzero(apart <= distance)
                    order = np.lexsort((ranks, apart[queries, ranks], queries))
                    expected = queries[order], ranks[order], apart[queries, ranks][order]
                    assert all(np.array_equal(one, other) for one, other in zip(found[:3], expected, strict=True))
            for number in range(0, len(asked), 9):
                nearest = np.lexsort((np.arange(len(codes)), apart[number]))[:5]
                told = [match.distance for match in store.nearest(asked[number], 5)]
                assert told == apart[number][nearest].tolist()
"""


@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE"])
def test_every_set_of_instructions_finds_what_brute_force_does(setting: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], check=True, env=os.environ | {setting: "1"})
