"""The simhash of dense vectors: the signs of exact inner products, by planes that are given or of a seed."""

import hashlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.text import simhash_of_projection
from fpstore.text.projection import planes_of_seed

GOLDEN = ["59c2803a2130833b", "01faa0dcf3838f56", "b6350f230de0648a"]


def by_numpy(vectors: Any, planes: Any) -> list[int]:
    """In plain numpy, where no sum is near 0."""
    bits = np.asarray(vectors, dtype=np.float64) @ np.asarray(planes, dtype=np.float64).T > 0
    return [sum(1 << bit for bit in range(64) if row[bit]) for row in bits]


def by_fractions(vectors: Any, planes: Any, tie: str) -> list[int]:
    found = []
    for vector in vectors:
        # Of equal planes one is enough.
        sum_of = {
            plane: sum(Fraction(a) * Fraction(b) for a, b in zip(vector, plane, strict=True))
            for plane in set(map(tuple, planes))
        }
        sums = [sum_of[tuple(plane)] for plane in planes]
        found.append(sum(1 << bit for bit in range(64) if sums[bit] > 0 or (sums[bit] == 0 and tie == "set")))
    return found


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint32])
@pytest.mark.parametrize("dimensions", [1, 3, 384])
def test_a_fingerprint_is_the_side_of_each_plane_that_plain_numpy_finds(dtype: Any, dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    vectors = (rng.normal(size=(50, dimensions)) * 40).clip(0 if dtype is np.uint32 else -100, 100).astype(dtype)
    vectors[vectors == 0] = 1
    planes = rng.normal(size=(64, dimensions))
    found = simhash_of_projection(vectors, planes=planes)
    assert found.dtype == np.uint64
    assert found.tolist() == by_numpy(vectors, planes)
    assert simhash_of_projection(vectors.tolist(), planes=planes.tolist()).tolist() == found.tolist()
    assert simhash_of_projection(vectors, seed=7).tolist() == by_numpy(vectors, planes_of_seed(7, dimensions))


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 1e-200, -1e-200, 5e-324, 1e300, -1e300, 2.0**53, 3.5])


@pytest.mark.parametrize("tie", ["clear", "set"])
@given(data=st.data(), dimensions=st.integers(0, 5))
def test_a_sum_near_zero_is_taken_exactly(tie: Any, data: Any, dimensions: Any) -> None:
    row = st.lists(NUMBERS, min_size=dimensions, max_size=dimensions)
    vectors = data.draw(st.lists(row, min_size=1, max_size=3))
    some = data.draw(st.lists(row, min_size=1, max_size=4))
    planes = [some[bit % len(some)] for bit in range(64)]
    tables = [np.array(rows, dtype=np.float64).reshape(len(rows), dimensions) for rows in (vectors, planes)]
    found = simhash_of_projection(tables[0], planes=tables[1], tie=tie)
    assert found.tolist() == by_fractions(vectors, planes, tie)


def test_a_sum_that_floating_point_gets_wrong_is_right() -> None:
    vector, plane = [1e16, 1.0, -1e16], [1.0, 1.0, 1.0]
    assert sum(np.multiply(vector, plane)) == 0
    assert simhash_of_projection([vector], planes=[plane] * 64).tolist() == [2**64 - 1]
    assert simhash_of_projection([[0.1, 0.2, -0.3]], planes=[plane] * 64).tolist() == by_fractions(
        [[0.1, 0.2, -0.3]], [plane] * 64, "clear"
    )


def test_planes_of_a_seed_are_what_the_rule_says() -> None:
    planes = planes_of_seed(42, 5)
    for plane in range(64):
        digest = hashlib.shake_256((42).to_bytes(8, "little") + plane.to_bytes(8, "little")).digest(160)
        ones = [int.from_bytes(digest[32 * j : 32 * j + 32], "big").bit_count() for j in range(5)]
        assert planes[plane].tolist() == [count - 128 for count in ones]
    assert not planes.flags.writeable
    assert np.array_equal(planes_of_seed(42, 3), planes[:, :3])
    assert not np.array_equal(planes_of_seed(43, 5), planes)


def test_golden_projections_never_change() -> None:
    vectors: list[list[float]] = [[1, 0, 0, 0], [0.5, -0.25, 0.125, 3], [-1, -2, -3, -4]]
    found = [f"{value:016x}" for value in simhash_of_projection(vectors, seed=42).tolist()]
    assert found == GOLDEN
    assert found == [f"{value:016x}" for value in by_fractions(vectors, planes_of_seed(42, 4).tolist(), "clear")]


def test_vectors_differ_in_as_many_bits_as_their_angle_says() -> None:
    # 2,000 pairs of 64 bits: the share of bits that differ is within five deviations of angle / pi.
    rng = np.random.default_rng(5)
    for angle in (0.1, 0.7, math.pi / 2):
        first = rng.normal(size=(2000, 64))
        other = rng.normal(size=(2000, 64))
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        other -= (other * first).sum(axis=1, keepdims=True) * first
        other /= np.linalg.norm(other, axis=1, keepdims=True)
        second = math.cos(angle) * first + math.sin(angle) * other
        bits = np.bitwise_count(simhash_of_projection(first, seed=1) ^ simhash_of_projection(second, seed=1)).sum()
        share, expected = int(bits) / (2000 * 64), angle / math.pi
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / (2000 * 64))


def test_more_rows_than_are_taken_at_once_are_each_as_alone() -> None:
    rows = np.random.default_rng(3).normal(size=(4097, 3))
    found = simhash_of_projection(rows, seed=9)
    assert found[[0, 4095, 4096]].tolist() == by_numpy(rows[[0, 4095, 4096]], planes_of_seed(9, 3))
    assert simhash_of_projection(np.empty((0, 3)), seed=9).tolist() == []


@pytest.mark.parametrize(
    ("vectors", "options", "message"),
    [
        ([[1.0]], {}, "planes and seed: found none, expected one of the two"),
        ([[1.0]], {"seed": 1, "planes": [[1.0]] * 64}, "planes and seed: found both, expected one of the two"),
        ([[1.0]], {"seed": 1, "tie": "one"}, "tie: found 'one', expected clear or set"),
        ([[1.0]], {"seed": -1}, r"seed: found -1, expected 0\.\.2\*\*64 - 1"),
        ([[1.0]], {"seed": 1 << 64}, r"seed: found 18446744073709551616, expected 0\.\.2\*\*64 - 1"),
        ([1.0, 2.0], {"seed": 1}, r"vectors: found shape \(2,\), expected two dimensions, a row for each"),
        ([[1.0]], {"planes": [[1.0]] * 63}, r"planes: found shape \(63, 1\), expected \(64, 1\), as vectors have it"),
        ([[1.0]], {"planes": [[1.0, 2.0]] * 64}, r"planes: found shape \(64, 2\), expected \(64, 1\)"),
        ([[1.0], [math.nan]], {"seed": 1}, "vectors: found nan in row 1, expected finite numbers"),
        ([[1.0, -math.inf]], {"seed": 1}, "vectors: found -inf in row 0, expected finite numbers"),
        ([[1.0]], {"planes": [[math.inf]] * 64}, "planes: found inf in row 0, expected finite numbers"),
        ([[2**53 + 1]], {"seed": 1}, r"vectors: found .*, expected integers of up to 2\*\*53"),
        ([[-(2**53) - 1]], {"seed": 1}, r"vectors: found .*, expected integers of up to 2\*\*53"),
    ],
)
def test_what_has_no_meaning_is_refused(vectors: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simhash_of_projection(vectors, **options)


@pytest.mark.parametrize("wrong", [[["a"]], [[None]], [[True]], np.zeros((1, 1), dtype=np.complex64)])
def test_what_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"vectors: found dtype .*, expected floats or integers of up to 64 bits"):
        simhash_of_projection(wrong, seed=1)


def test_a_seed_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(TypeError):
        simhash_of_projection([[1.0]], seed=1.5)  # type: ignore[arg-type]
