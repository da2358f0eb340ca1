"""One query of some hundred slots, which the wide kernels search in a way of its own, in pages that are all sound."""

from collections.abc import Iterator

import numpy as np
import pytest

import fpstore
from fpstore.store import Store
from fpstore.types import Keys

SIZE = 30_000
KINDS = ("even", "crowded", "piled", "bands", "one")


def keys_of(kind: str) -> Keys:
    """Keys that are spread evenly; of some slots that have many, or of few; of one slot of a table; around one key, so
    that a query's blocks are more than are kept together."""
    source = np.random.default_rng(18)
    keys = source.integers(0, 2**64, SIZE, dtype=np.uint64)
    if kind == "even":
        return np.unique(keys)
    errors = 3 if kind == "one" else 7
    flips = [np.uint64(1) << source.integers(0, 64, SIZE, dtype=np.uint64) for _ in range(errors)]
    centers = {"crowded": 40, "piled": 3, "bands": 2, "one": 1}[kind]
    near = keys[source.integers(0, centers, SIZE)] ^ np.bitwise_xor.reduce(flips)
    if kind == "bands":  # of which a table has one slot with nearly all, and the others do not
        near = keys & np.uint64(2**43 - 1) | keys[0] & ~np.uint64(2**43 - 1)
    if kind == "one":
        near = np.concatenate([near, near ^ np.roll(flips[0], 1), near ^ np.roll(flips[1], 1)])
    return np.unique(np.concatenate([near, keys[: SIZE // 10]]))


@pytest.fixture(scope="module", params=[(kind, codec) for kind in KINDS for codec in ("gap", "xor")])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Keys]]:
    kind, codec = request.param
    keys = keys_of(kind)
    folder = tmp_path_factory.mktemp(kind)
    with fpstore.build(folder / "s", keys, max_distance=8, plan="flips-3:2,2,2", codec=codec, ids=None) as store:
        store._warm()
        yield store, keys


def queries_of(keys: Keys) -> list[int]:
    """Keys with none, some and too many bits inverted, and others."""
    source = np.random.default_rng(81)
    asked = []
    for errors in (0, 1, 5, 7, 8, 8, 8, 9, 12):
        for key in keys[source.integers(0, len(keys), 6)].tolist():
            inverted = source.choice(64, errors, replace=False).tolist()
            asked.append(key ^ sum(1 << bit for bit in inverted))
    asked += [*source.integers(0, 2**64, 6, dtype=np.uint64).tolist(), 0, 2**64 - 1]
    return asked if len(keys) < 40_000 else asked[::12]


@pytest.mark.parametrize("distance", [5, 6, 7, 8])
def test_all_within_the_distance_is_found(store: tuple[Store, Keys], distance: int) -> None:
    own, keys = store
    for query in queries_of(keys):
        apart = np.bitwise_count(keys ^ np.uint64(query))
        near = np.flatnonzero(apart <= distance)
        order = near[np.lexsort((keys[near], apart[near]))]
        found = own.probe(query, max_distance=distance)
        assert np.array_equal(found.fingerprint, keys[order])
        assert np.array_equal(found.distance, apart[order])
        assert own.contains_near(query, max_distance=distance) is bool(len(near))


@pytest.mark.parametrize("count", [1, 3])
def test_the_nearest_are_those_of_brute_force(store: tuple[Store, Keys], count: int) -> None:
    own, keys = store
    for _ in range(2):  # the second time it is known how far they are
        for query in queries_of(keys):
            apart = np.bitwise_count(keys ^ np.uint64(query))
            order = np.lexsort((keys, apart))[:count]
            found = own.nearest(query, count)
            assert found.fingerprint.tolist() == keys[order].tolist()
            assert found.distance.tolist() == apart[order].tolist()
