"""Keys of one piece that are many at a time compared in C are near each other as a plain loop has it."""

import os
import subprocess
import sys
from random import Random

import numpy as np
import pytest

from fpstore._turns import DONE, NEW, Turns


@pytest.mark.parametrize("distance", [0, 1, 6, 8, 9, 20])
def test_of_many_keys_those_are_near_that_differ_in_few_bits_wherever_these_are(distance: int) -> None:
    """So many that they are compared many at a time, and not parted, of few different halves, lower and upper ones."""
    random = Random(distance)
    halves = [random.getrandbits(32) for _ in range(12)]

    def some() -> int:
        half = random.choice(halves)
        for bit in random.sample(range(32), random.choice([0, 1, distance // 2, distance, distance + 1])):
            half ^= 1 << bit
        return half

    keys = np.array([some() << 32 | some() for _ in range(500)], dtype=np.uint64)
    apart = np.bitwise_count(keys[:, np.newaxis] ^ keys[np.newaxis, :])
    np.fill_diagonal(apart, 64)
    near = apart <= distance
    assert 0 < near.any(axis=1).sum() < len(keys)
    nothing = np.empty(0, dtype=np.int64)
    turns = Turns(keys, distance, nothing, nothing.astype(np.uint16), [keys])
    assert turns.is_near.tolist() == near.any(axis=1).tolist()
    leads: list[int] = []
    expected = []
    for key in range(len(keys)):
        found = sorted((apart[key, each], keys[each], each) for each in leads if near[key, each])
        expected.append(found[0][2] if found else NEW)
        if not found:
            leads.append(key)
    assert turns.run() == DONE
    assert turns.rows.tolist() == expected


# Keys of which some are near others, by bits anywhere, also just too far away: so many that they are parted by their
# bands; and such as are alike in nearly all of these, which are not.
PARTED = """
import numpy as np
from fpstore._turns import Turns
rng = np.random.default_rng(5)
none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)
for count in (511, 512, 513, 700, 3000):
    for distance in (0, 1, 3, 6, 8, 9, 11, 12):
        for bits in (64, 9):
            keys = rng.integers(0, 1 << bits, count, dtype=np.uint64)
            for at in range(1, count, 3):
                apart = rng.choice(64, int(rng.integers(0, distance + 2)), replace=False)
                flips = np.uint64(sum(1 << bit for bit in apart.tolist()))
                keys[at] = keys[rng.integers(0, at)] ^ flips
            rng.shuffle(keys)
            apart = np.bitwise_count(keys[:, None] ^ keys[None, :]) <= distance
            turns = Turns(keys, distance, *none, [])
            assert turns.is_near.tolist() == (apart.sum(axis=1) > 1).tolist(), (count, distance, bits)
            turns.run()
            leaders = turns.rows < 0
            before = np.tril(apart, -1)[:, leaders].any(axis=1)
            assert (leaders == ~before).all(), (count, distance, bits)
"""


@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE", "NONE"])
def test_of_so_many_keys_that_they_are_parted_none_that_is_near_is_missed(setting: str) -> None:
    subprocess.run([sys.executable, "-c", PARTED], check=True, env=os.environ | {setting: "1"})
