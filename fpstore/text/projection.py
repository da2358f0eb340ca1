"""Owns the simhash of dense vectors: on which side of each of 64 hyperplanes a vector is (Charikar, STOC 2002).

Two vectors whose angle is a differ in a bit with the probability a / pi, where the planes are random. Bit b is set if
the inner product of vector and plane b is above 0, taken exactly: of the numbers as they are given, without rounding.
So no machine, no library and no order of adding changes a fingerprint. Sums in floating point decide where they are
farther from 0 than they can err, which is nearly always; the rest are done again in fractions.

Planes of a seed: of plane b the 32 * d bytes that SHAKE-256 makes of seed and b, each as 8 bytes, little-endian.
Component j is the number of ones in bytes 32 * j to 32 * j + 31, less 128: the sum of 256 fair coins, which is normal
but for steps of an eighth of its deviation. More dimensions leave the planes of fewer as they were.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import lru_cache
from operator import index

import numpy as np
import numpy.typing as npt

PLANES = 64
MAX_EXACT = 1 << 53  # the largest integer up to which float64 has every one
_COIN_BYTES = 32
_ROWS_AT_ONCE = 4096
_UNIT = 2.0**-53  # how much a rounding errs, as a part of what is rounded
_LEAST = 2.0**-1074
_TIES = ("clear", "set")

Floats = npt.NDArray[np.float64]


def simhash_of_projection(
    vectors: npt.ArrayLike, *, planes: npt.ArrayLike | None = None, seed: int | None = None, tie: str = "clear"
) -> npt.NDArray[np.uint64]:
    """The simhashes of vectors (numbers[n, d]), in their order: uint64[n].

    vectors: of floats of up to 64 bits, or integers of which no size is over 2**53; all finite. One of planes
    (numbers[64, d], of the same kinds; plane b is of bit b, the least significant first) and seed (0..2**64 - 1) says
    where the planes are. tie: what a bit is whose inner product is 0, `clear` or `set`; so a vector of zeros is 0, or
    2**64 - 1. Raises ValueError for other shapes, values, seeds and ties, and for both or none of planes and seed;
    TypeError for what is no number.
    """
    if tie not in _TIES:
        raise ValueError(f"tie: found {tie!r}, expected {' or '.join(_TIES)}")
    if (planes is None) == (seed is None):
        raise ValueError(f"planes and seed: found {'none' if seed is None else 'both'}, expected one of the two")
    rows = _numbers("vectors", vectors)
    if planes is not None:
        sides = _numbers("planes", planes)
    else:
        assert seed is not None
        sides = planes_of_seed(index(seed), rows.shape[1])
    if sides.shape != (PLANES, rows.shape[1]):
        raise ValueError(f"planes: found shape {sides.shape}, expected {(PLANES, rows.shape[1])}, as vectors have it")
    found = np.empty(len(rows), dtype=np.uint64)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        signs = _signs(some, sides)
        bits = signs >= 0 if tie == "set" else signs > 0
        found[first : first + len(some)] = np.packbits(bits, axis=1, bitorder="little").view("<u8")[:, 0]
    return found


@lru_cache(maxsize=4)
def planes_of_seed(seed: int, dimensions: int) -> Floats:
    """The planes of a seed (0..2**64 - 1), read-only: float64[64, dimensions]. ValueError for another seed."""
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed: found {seed}, expected 0..2**64 - 1")
    planes = np.empty((PLANES, dimensions))
    for plane in range(PLANES):
        named = seed.to_bytes(8, "little") + plane.to_bytes(8, "little")
        coins = np.frombuffer(hashlib.shake_256(named).digest(_COIN_BYTES * dimensions), dtype="<u8")
        planes[plane] = (
            np.bitwise_count(coins).reshape(dimensions, _COIN_BYTES // 8).sum(axis=1, dtype=np.int64) - 4 * _COIN_BYTES
        )
    planes.flags.writeable = False
    return planes


def _numbers(name: str, given: npt.ArrayLike) -> Floats:
    """A table of numbers as float64, which holds each as it is."""
    found = np.asarray(given)
    if found.dtype.kind not in "fiu" or found.dtype.itemsize > 8:
        raise TypeError(f"{name}: found dtype {found.dtype}, expected floats or integers of up to 64 bits")
    if found.ndim != 2:
        raise ValueError(f"{name}: found shape {found.shape}, expected two dimensions, a row for each")
    if found.dtype.kind in "iu" and found.size and not -MAX_EXACT <= int(found.min()) <= int(found.max()) <= MAX_EXACT:
        raise ValueError(f"{name}: found {int(found.min())}..{int(found.max())}, expected integers of up to 2**53")
    numbers = np.ascontiguousarray(found, dtype=np.float64)
    if not np.isfinite(numbers).all():
        place = np.argwhere(~np.isfinite(numbers))[0].tolist()
        raise ValueError(f"{name}: found {numbers[tuple(place)]} in row {place[0]}, expected finite numbers")
    return numbers


def _signs(rows: Floats, planes: Floats) -> Floats:
    """Numbers (float64[n, 64]) with the signs of the exact inner products of rows and planes."""
    dimensions = rows.shape[1]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        sums = rows @ planes.T
        # A sum of d products errs by d units of the sum of their sizes, in whatever order (Higham, Accuracy and
        # Stability of Numerical Algorithms, 3.1), and by a half of the least number for each that underflows.
        sizes = np.outer(np.abs(rows).sum(axis=1), np.abs(planes).max(axis=1, initial=0.0))
        known = np.abs(sums) > 2 * (dimensions + 2) * _UNIT * sizes + dimensions * _LEAST
    known[~rows.any(axis=1)] = True
    known[:, ~planes.any(axis=1)] = True
    for row, plane in np.argwhere(~known):
        sums[row, plane] = _exact_sign(rows[row], planes[plane])
    return sums


def _exact_sign(row: Floats, plane: Floats) -> int:
    shared = np.flatnonzero((row != 0) & (plane != 0))
    pairs = zip(row[shared].tolist(), plane[shared].tolist(), strict=True)
    total = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
    return (total > 0) - (total < 0)
