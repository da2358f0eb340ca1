"""The compiled part of stores of signatures: keys and sketches against plain twins, and what it is not given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minhashes import BANDS, ROWS, VALUES, Model, signatures

from fpstore import minhash
from fpstore._similar import BandSegments, Candidates, SketchShape, band_hashes, band_keys
from fpstore._view import SegmentView
from fpstore.errors import CorruptStore, Naming, TooManyMatches
from fpstore.living.similar import candidates
from fpstore.living.sketched import similar_in
from fpstore.query.matches import Room
from fpstore.sketches.bands import Banding
from fpstore.sketches.kept import Kept
from fpstore.types import Array

WORD = (1 << 64) - 1
ESTIMATES = np.zeros(VALUES + 1, dtype=np.float32)


def plain_keys(signature: list[int], banding: Banding) -> list[int]:
    """The keys of a signature, as docs/format.md says it."""
    keys = []
    for band in range(banding.bands):
        h = (band + 1) * 0x9E3779B97F4A7C15 & WORD
        for value in signature[band * banding.rows_per_band : (band + 1) * banding.rows_per_band]:
            h = (h ^ value) * 0xFF51AFD7ED558CCD & WORD
            h ^= h >> 32
        h = h * 0xC4CEB9FE1A85EC53 & WORD
        h ^= h >> 33
        first, end = banding.first_key(band), banding.first_key(band + 1)
        size = end - first - (end - first > WORD)  # the one band that has all keys of 64 bits has one less
        keys.append(first + h % size)
    return keys


def plain_sketch(signature: list[int], bits: int) -> list[int]:
    """Some bits of each value, packed, as docs/format.md says it."""
    packed = sum(
        ((value * 0x9E3779B97F4A7C15 & WORD) >> (64 - bits)) << (bits * index) for index, value in enumerate(signature)
    )
    return [packed >> (64 * word) & WORD for word in range(-(-len(signature) * bits // 64))]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize(
    ("bands", "rows", "bits"),
    # Those of 8 bands of 8 rows are taken side by side; the keys of 16 bands are no numbers that take a division.
    [(1, 1, 64), (1, 7, 64), (4, 3, 16), (5, 2, 33), (12, 1, 64), (8, 8, 64), (16, 8, 64), (24, 8, 40), (12, 8, 64)],
)
def test_keys_are_those_of_the_page_of_the_format(dtype: Any, bands: int, rows: int, bits: int) -> None:
    top = int(np.iinfo(dtype).max)
    own = np.random.default_rng(bands).integers(0, top, size=(40, max(12, bands * rows)), dtype=dtype, endpoint=True)
    own[0], own[1] = 0, top
    banding = Banding(bands, rows, bits)
    assert banding.keys(own).tolist() == [plain_keys(each, banding) for each in own.tolist()]
    assert banding.keys(own[:, ::-1]).tolist() == [plain_keys(each[::-1], banding) for each in own.tolist()]


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("values", [1, 5, 64, 65, 130])
def test_sketches_are_those_of_the_page_of_the_format(dtype: Any, bits: int, values: int) -> None:
    own = np.random.default_rng(bits).integers(0, np.iinfo(dtype).max, size=(9, values), dtype=dtype, endpoint=True)
    assert Kept(values, bits).sketches(own).tolist() == [plain_sketch(each, bits) for each in own.tolist()]


def test_of_no_signatures_there_are_no_keys_and_no_sketches() -> None:
    none = np.empty((0, VALUES), dtype=np.uint32)
    assert Banding(BANDS, ROWS).keys(none).shape == (0, BANDS)
    assert Kept(VALUES, 16).sketches(none).shape == (0, VALUES // 4)


def stored(tmp_path: Path, own: Array, **settings: Any) -> minhash.MinHashStore:
    return minhash.build(tmp_path / "s", own, bands=BANDS, rows_per_band=ROWS, **settings)


def test_answers_of_many_segments_and_of_what_is_pending_are_those_of_one(tmp_path: Path) -> None:
    own, model = signatures(1, 400), Model()
    model.add(own, range(400))
    queries = own[::7]
    with minhash.create(tmp_path / "s", values=VALUES, bands=BANDS, rows_per_band=ROWS) as store:
        for start in range(0, 400, 50):
            store.add(own[start : start + 50], ids=np.arange(start, start + 50))
            if start < 350:
                store._flush()
        assert len(store._segments) > 1
        found = store.probe_many(queries)
        wanted = [(index, *row) for index, query in enumerate(queries) for row in model.similar(query)]
        assert [tuple(row) for row in found] == wanted
        one = [tuple(row) for query in queries for row in store.probe(query)]
        assert one == [(0, *row) for query in queries for row in model.similar(query)]


def test_a_key_that_thousands_have_is_answered_whole(tmp_path: Path) -> None:
    own = np.repeat(signatures(2, 1, values=VALUES), 3000, axis=0)
    own[:, -1] = np.arange(3000)  # a value that no band has
    with stored(tmp_path, own) as store:
        found = store.probe(own[7])
        assert sorted(found.id.tolist()) == list(range(3000))  # type: ignore[union-attr]
        assert (found.shared_bands == BANDS).all()
        assert (np.diff(found.similarity) <= 0).all()


def test_more_rows_than_room_are_refused_wherever_they_are(tmp_path: Path) -> None:
    own = np.repeat(signatures(3, 1), 50, axis=0)
    with minhash.create(tmp_path / "s", values=VALUES, bands=BANDS, rows_per_band=ROWS) as store:
        store.add(own, ids=np.arange(50))
        for _ in range(2):  # pending, then in a segment
            for most in (10, 49):
                with pytest.raises(TooManyMatches, match=f"found 50 matches, expected at most {most} in one answer"):
                    candidates(store._latest, store._cut(own[:1]), room=Room(1, most))
            assert len(candidates(store._latest, store._cut(own[:1]), room=Room(1, 50)).query) == 50
            store._flush()


def test_an_id_that_has_rows_and_no_sketch_is_damage(tmp_path: Path) -> None:
    own = np.arange(30 * VALUES, dtype=np.uint32).reshape(30, VALUES)
    with stored(tmp_path, own) as store:
        part = store._latest.parts[0]
        bare = BandSegments([(part.segment.view, part.segment.ids, part.position, part.segment.naming)], [])
        kept = store._minhash.kept
        assert kept is not None
        search = Candidates(bare, kept.shape, store._latest.pending, 0, None, None, None)
        signed = store._cut(own[5:6])
        with pytest.raises(CorruptStore, match="sketches: found none of id 5, expected one, as it has rows"):
            search.find(signed.keys[:, :], signed.sketches, None, 0, None)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: band_hashes(np.zeros((1, 5), np.uint32), 2, 3), r"shape \(1, 5\).*6\] or"),
        (lambda: band_hashes(np.zeros(5, np.uint32), 2, 1), r"shape \(5,\)"),
        (lambda: band_keys(np.zeros((1, 2), np.uint64), np.ones(2, np.uint64), np.ones(1, np.uint64)), "2 bases and 1"),
        (lambda: band_keys(np.zeros((1, 0), np.uint64), *2 * [np.zeros(0, np.uint64)]), "of 0 bands"),
        (lambda: band_keys(np.zeros((1, 2), np.uint64), *2 * [np.array([1, 0], np.uint64)]), "band 1: found no key"),
        (lambda: SketchShape(VALUES, 3, ESTIMATES), "3 bits of 16 values"),
        (lambda: SketchShape(0, 1, ESTIMATES[:1]), "1 bits of 0 values"),
        (lambda: SketchShape(VALUES, 2, ESTIMATES[1:]), "16 estimates"),
        (lambda: SketchShape(VALUES, 2, ESTIMATES).sketches(np.zeros((1, 17), np.uint32)), "found 17 values"),
        (lambda: SketchShape(VALUES, 8, ESTIMATES).similarity(*np.zeros((2, 1, 1), np.uint64)), "1 and 1 words"),
        (lambda: SketchShape(VALUES, 2, ESTIMATES).similarity(np.zeros((2, 1), np.uint64), np.zeros((1, 1), np.uint64)),
         "expected as many of 1"),
        (lambda: BandSegments([(SegmentView(bytes(64), 0, 0, 0, ()), None, 1, Naming("x"))], []), "without a table"),
    ],
)  # fmt: skip
def test_what_the_compiled_part_cannot_take_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask()


def test_keys_and_sketches_of_another_store_are_refused(tmp_path: Path) -> None:
    own = signatures(5, 10)
    with stored(tmp_path, own, bits=32) as store:
        signed, snapshot = store._cut(own), store._latest
        search = similar_in(snapshot)
        wide = np.full((1, BANDS), 1 << 32, dtype=np.uint64)
        with pytest.raises(ValueError, match="keys: found one of more bits, expected 32"):
            search.find(wide, None, None, 0, None)
        for sketches in (signed.sketches[:3], signed.sketches[:, :2].copy()):  # type: ignore[index]
            with pytest.raises(ValueError, match=r"10 queries of 4 bands: .* a sketch for each"):
                search.find(signed.keys, sketches, None, 0, None)
        part = snapshot.parts[0]
        assert part.sketches is not None
        own_file = part.sketches
        files = [(own_file.view, own_file.record, part.position, own_file.naming, own_file.places_of)]
        for shape in (None, Kept(VALUES, 2).shape):
            with pytest.raises(ValueError, match="a file of sketches, found one of other words"):
                Candidates(BandSegments([], files), shape, snapshot.pending, 0, None, None, None)
        with pytest.raises(ValueError, match="rows up to 1: there are 0"):
            Candidates(BandSegments([], []), None, snapshot.pending, 1, None, None, None)
