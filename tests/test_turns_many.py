"""Keys of one piece that are many at a time compared in C are near each other as a plain loop has it."""

from random import Random

import numpy as np
import pytest

from fpstore._turns import DONE, NEW, Turns


@pytest.mark.parametrize("distance", [0, 1, 6, 8, 9, 20])
def test_of_many_keys_those_are_near_that_differ_in_few_bits_wherever_these_are(distance: int) -> None:
    """So many that they are compared many at a time, of few different lower halves, and as many of upper ones."""
    random = Random(distance)
    halves = [random.getrandbits(32) for _ in range(12)]

    def some() -> int:
        half = random.choice(halves)
        for bit in random.sample(range(32), random.choice([0, 1, distance // 2, distance, distance + 1])):
            half ^= 1 << bit
        return half

    keys = np.array([some() << 32 | some() for _ in range(700)], dtype=np.uint64)
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
