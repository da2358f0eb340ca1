"""One query of some hundred slots, which the wide kernels search in a way of its own, in pages that are all sound."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from helpers import view_of_image

import fpstore
from fpstore._probe import search
from fpstore._view import SegmentView
from fpstore.errors import CorruptStore
from fpstore.format import GROUP_SLOTS, TableRecord
from fpstore.store import Store
from fpstore.types import Keys

SIZE = 30_000
KINDS = ("even", "crowded", "piled", "bands", "one")


def keys_of(kind: str) -> Keys:
    """Keys that are spread evenly; of some slots that have many, or of few; of one slot of a table; around one key, so
    that a query's blocks are more than are kept together."""
    source = np.random.default_rng(18)
    if kind == "even":  # whose tables have 67 slots each within two flips, which no vector's eight divide
        return np.unique(source.integers(0, 2**64, 2 * SIZE, dtype=np.uint64))
    keys = source.integers(0, 2**64, SIZE, dtype=np.uint64)
    errors = 3 if kind == "one" else 7
    flips = [np.uint64(1) << source.integers(0, 64, SIZE, dtype=np.uint64) for _ in range(errors)]
    centers = {"crowded": 40, "piled": 3, "bands": 2, "one": 1}[kind]
    near = keys[source.integers(0, centers, SIZE)] ^ np.bitwise_xor.reduce(flips)
    if kind == "bands":  # of which a table has one slot with nearly all, and the others do not
        near = keys & np.uint64(2**43 - 1) | keys[0] & ~np.uint64(2**43 - 1)
    if kind == "one":
        near = np.concatenate([near, near ^ np.roll(flips[0], 1), near ^ np.roll(flips[1], 1)])
    return np.unique(np.concatenate([near, keys[: SIZE // 10]]))


@pytest.fixture(scope="module", params=[f"{kind}-{codec}" for kind in KINDS for codec in ("gap", "xor")])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Keys]]:
    kind, codec = request.param.split("-")
    keys = keys_of(kind)
    folder = tmp_path_factory.mktemp(kind)
    with fpstore.build(folder / "s", keys, max_distance=8, plan="flips-3:2,2,2", codec=codec, ids=None) as store:
        store._warm()
        if kind == "even":
            assert [table.slot_bits for table in store._segments[0].tables] == [11, 11, 11]
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
    return asked if len(keys) < 70_000 else asked[::12]


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


def image_of(bits: int, ends: int | None = None) -> SegmentView:
    """Of 2,048 slots, the first of which has keys 256 and 512, of nine bits each: so much of them is its block."""
    lines = 2048 // GROUP_SLOTS + 1
    payload = bytearray(64)
    directory = len(payload)
    payload += struct.pack("<Q12H", 0, *[bits if ends is None else ends] * 12)
    payload += struct.pack("<Q12H", bits, *[0] * 12) * (lines - 1)
    payload += bytes(-len(payload) % 64)
    lengths = (0,) * 9 + (1,) + (0,) * 55
    view = view_of_image(TableRecord(0xFFFF << 48, 0, 11, 0, 2, 0, bits, directory, 0, 0, lengths), payload)
    view.warm(0, view.page_count)
    return view


def test_a_sound_image_is_searched() -> None:
    assert search(image_of(18), np.array([512], np.uint64), 0)[1].tolist() == [512]
    assert search(image_of(18), np.array([513 | 3 << 53], np.uint64), 3)[1].tolist() == [512]
    assert len(search(image_of(18), np.array([0], np.uint64), 0)[0]) == 0


@pytest.mark.parametrize("query", [0, 512])
@pytest.mark.parametrize("bits", [10, 17])
def test_a_key_that_goes_on_beyond_its_block_is_refused(bits: int, query: int) -> None:
    with pytest.raises(CorruptStore, match="probe: found a block that does not decode"):
        search(image_of(bits), np.array([query], np.uint64), 0)


def test_a_block_that_ends_behind_the_payload_is_refused() -> None:
    with pytest.raises(CorruptStore, match="probe: found a directory entry or an id that points outside its region"):
        search(image_of(18, 19), np.array([512], np.uint64), 2)
