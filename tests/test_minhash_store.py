"""Stores of MinHash signatures: every document that shares a band, whatever was added, removed, merged meanwhile."""

import pickle
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import plain_rensa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minhashes import BANDS, KEPT_BITS, ROWS, VALUES, Model, estimate, signatures
from outcome import Command
from pages import ROOT

import fpstore
from fpstore import minhash
from fpstore.base import Reading
from fpstore.living import crowd
from fpstore.living.sizes import LivingSizes
from fpstore.living.sketched import similar_in
from fpstore.living.state import Minhash, Settings
from fpstore.minhash.making import bands_for
from fpstore.minhash.store import MinHashStore
from fpstore.sketches.bands import Banding, documents_of, key_bits_for, rows_of
from fpstore.sketches.kept import Kept, bits_for
from fpstore.types import Array

SETTINGS: dict[str, Any] = {"bands": BANDS, "rows_per_band": ROWS}


def found_by(store: MinHashStore, queries: Any, least: float | None = None) -> list[list[tuple[Any, float, int]]]:
    answer: list[list[tuple[Any, float, int]]] = [[] for _ in queries]
    for match in store.probe_many(queries, min_similarity=least):
        answer[match.query].append((match.id, match.similarity, match.shared_bands))
    return answer


def expect_like(store: MinHashStore, model: Model, queries: Any, least: float | None = None) -> None:
    assert found_by(store, queries, least) == [model.similar(query, least) for query in queries]
    assert store.count() == len(model.held)


# --- What is computed of a signature ---

# Of three bands of four values, the multiples of 7,919 from 0 on; computed apart, one value at a time.
GOLDEN_KEYS = [
    ["2f7db9cce33ff80b", "80681c4f79d776c0", "b3bbb9ab32501a99"],
    ["0ecea444006fa173", "83bc203002343842", "f0cb5fc402ea2c72"],
]


def test_the_keys_of_bands_never_change() -> None:
    given_values = np.arange(24, dtype=np.uint32).reshape(2, 12) * 7919
    keys = Banding(3, 4, 64).keys(given_values)
    assert [[f"{key:016x}" for key in row] for row in keys.tolist()] == GOLDEN_KEYS
    assert np.array_equal(Banding(3, 4, 64).keys(given_values.astype(np.uint64)), keys)


@pytest.mark.parametrize(("bands", "rows"), [(1, 1), (1, 12), (3, 4), (12, 1), (5, 2)])
@pytest.mark.parametrize("bits", [16, 17, 40, 63, 64])
def test_each_band_has_its_own_range_of_keys(bands: int, rows: int, bits: int) -> None:
    banding = Banding(bands, rows, bits)
    keys = banding.keys(signatures(1, 500, values=12))
    assert np.array_equal(banding.of(keys), np.broadcast_to(np.arange(bands), keys.shape))
    bounds = [banding.first_key(band) for band in range(bands + 1)]
    assert bounds[0] == 0
    assert bounds[-1] == 1 << bits
    for band in range(bands):
        assert all(bounds[band] <= key < bounds[band + 1] for key in keys[:, band].tolist())


def test_keys_are_equal_just_where_the_values_of_a_band_are() -> None:
    own = signatures(2, 300)
    keys = Banding(BANDS, ROWS).keys(own)
    for band in range(BANDS):
        values = own[:, band * ROWS : (band + 1) * ROWS]
        same = (values[:, None] == values[None]).all(axis=2)
        assert np.array_equal(keys[:, band][:, None] == keys[:, band][None], same)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("values", [1, 5, 16, 64, 130])
def test_the_estimate_is_that_of_the_bits_kept_of_each_value(bits: int, values: int) -> None:
    own, kept = signatures(3, 40, values=values), Kept(values, bits)
    words = kept.sketches(own)
    assert words.shape == (40, -(-values * bits // 64))
    found = kept.similarity(np.repeat(words, 40, axis=0), np.tile(words, (40, 1))).reshape(40, 40)
    wanted = np.array([[estimate(one, other, bits) for other in own] for one in own], dtype=np.float32)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(("values", "bits"), [(1, 32), (16, 16), (64, 4), (128, 2), (144, 2), (256, 1), (4096, 1)])
def test_so_many_bits_are_kept_as_one_of_288_values_takes(values: int, bits: int) -> None:
    assert bits_for(values) == bits


def test_estimates_are_within_the_error_that_is_said() -> None:
    rng = np.random.default_rng(4)
    for bits, values in ((1, 256), (2, 128)):
        kept = Kept(values, bits)
        for similarity in (0.0, 0.3, 0.8, 1.0):
            one = rng.integers(0, 1 << 32, size=(4000, values), dtype=np.uint32)
            other = np.where(rng.random(one.shape) < similarity, one, rng.integers(0, 1 << 32, one.shape, np.uint32))
            found = kept.similarity(kept.sketches(one), kept.sketches(other))
            error = kept.standard_error(similarity)
            assert abs(found.mean() - similarity) <= (0.6 if similarity == 0 else 0.1) * error
            assert (np.abs(found - similarity) <= 4 * error + 1e-6).mean() >= 0.999


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=20), st.booleans())
def test_documents_of_rows_have_these_rows_and_no_others(documents: list[tuple[int, int]], with_ids: bool) -> None:
    banding = Banding(BANDS, ROWS)
    own = signatures(5, 61, kinds=30)[[which for _, which in documents]].reshape(-1, VALUES)
    ids = np.array([name for name, _ in documents], dtype=np.uint64) if with_ids else None
    rows = rows_of(banding.keys(own), ids)
    keys, made = documents_of(*rows, banding)
    again = rows_of(keys, made)
    columns = [[each for each in pair if each is not None] for pair in (rows, again)]
    assert {*zip(*columns[0], strict=True)} == {*zip(*columns[1], strict=True)}


@pytest.mark.parametrize(
    ("documents", "bands", "estimated", "with_ids", "most"),
    [
        (10**9, 16, True, True, 0.25),
        (10**7, 16, True, True, 0.25),
        (10**7, 16, False, True, 0.01),
        (10**7, 16, False, False, 1e-5 * 16),
        (10**9, 16, False, False, 1e-5 * 16),
        (10**6, 25, True, True, 0.25),
        (1, 1, True, True, 0.25),
        (10**18, 1024, False, False, 1e-5 * 1024),
        (10, 1024, True, True, 0.25),
    ],
)
def test_keys_have_the_fewest_bits_with_which_chance_is_as_small_as_wanted(
    documents: int, bands: int, estimated: bool, with_ids: bool, most: float
) -> None:
    bits = key_bits_for(documents, bands, estimated=estimated, with_ids=with_ids)
    assert 16 <= bits <= 64
    assert bits == 64 or bands * bands * documents / 2**bits <= most
    assert bits == 16 or bands * bands * documents / 2 ** (bits - 1) > most
    assert Banding(bands, 1, bits).by_chance(documents) == bands * bands * documents / 2**bits


def test_the_bits_of_keys_are_chosen_by_how_many_documents_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = signatures(6, 200)
    monkeypatch.setattr("fpstore.minhash.making.BUILT_FOR", 50)

    def bits_of(name: str, given_own: Any, **more: Any) -> int:
        with minhash.build(tmp_path / name, given_own, **SETTINGS, **more) as store:
            assert store.count() == 200
            return store.stats().bits

    # 4 bands: 16 * 200 documents / 2^bits is at most a quarter, a hundredth, or 10^-5 of 4 bands.
    assert bits_of("array", own) == bits_of("stream", iter(np.split(own, 8))) == 16
    assert bits_of("alone", own, keep_signatures=False) == 19
    assert bits_of("names", own, ids=[f"d{i}" for i in range(200)], id_type="string", keep_signatures=False) == 19
    assert bits_of("given", own, bits=41) == 41
    with minhash.build(tmp_path / "seen", own, ids=None, **SETTINGS) as store:
        assert store.stats().bits == 27
        assert all(len(store.probe(each)) for each in own)
    with minhash.build(tmp_path / "few", own[:3], **SETTINGS, keep_signatures=False) as store:
        assert store.stats().bits == 17  # for 50


def test_an_empty_store_is_made_for_a_billion_documents(tmp_path: Path) -> None:
    with minhash.create(tmp_path / "s") as store:
        assert store.stats().bits == 40
        store.add(signatures(1, 9, values=128), ids=range(9))
        store._flush()
        store.add(signatures(2, 5, values=128), ids=range(20, 25))
        told = store.stats().minhash
        assert told is not None
        assert told["by_chance"] == 16 * 16 * 14 / 2**40
    for kept, id_type, bits in ((False, "uint64", 45), (False, None, 51)):
        made: Any = {"keep_signatures": kept, "id_type": id_type}
        with minhash.create(tmp_path / f"{bits}", **made) as store:
            assert store.stats().bits == bits
    minhash.build(tmp_path / "built", signatures(1, 9, values=128)).close()
    with minhash.create(tmp_path / "built", exist_ok=True) as store:
        assert store.stats().bits == 34
    with pytest.raises(ValueError, match="bits: found 34, expected 40"):
        minhash.create(tmp_path / "built", exist_ok=True, bits=40)


# --- Answers ---


@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes"])
@pytest.mark.parametrize("flushed", [False, True])
def test_candidates_and_estimates_are_those_of_a_plain_model(tmp_path: Path, id_type: Any, flushed: bool) -> None:
    own = signatures(10, 90)
    numbers = np.random.default_rng(1).permutation(90)
    ids: Any = {"uint64": numbers * 3, "string": [f"d{i}" for i in numbers], "bytes": [b"d%d" % i for i in numbers]}[
        id_type
    ]
    model = Model()
    model.add(own, np.asarray(ids).tolist() if id_type == "uint64" else ids)
    with minhash.create(tmp_path / "s", id_type=id_type, values=VALUES, **SETTINGS) as store:
        store.add(own[:40], ids=ids[:40])
        if flushed:
            store._flush()
        store.add(own[40:], ids=ids[40:])
        if flushed:
            store._flush()
        expect_like(store, model, own)
        expect_like(store, model, own[:20], 0.5)
        store.verify()
    built = minhash.build(tmp_path / "b", own, ids=ids, id_type=id_type, **SETTINGS)
    with built, minhash.open(tmp_path / "s") as store:
        expect_like(built, model, own)
        assert built.probe_many(own) == store.probe_many(own)
        assert built.probe(own[7]) == store.probe_many(own[7:8])
        assert built.contains_near(own[7])
        assert not built.contains_near(signatures(99, 1)[0])
        built.verify()


@pytest.mark.parametrize("bits", [16, 33, 40, 55])
def test_keys_of_fewer_bits_take_less_and_find_all_that_shares_a_band(tmp_path: Path, bits: int) -> None:
    own, model = signatures(17, 400), Model()
    model.add(own, range(400))
    with (
        minhash.create(tmp_path / "s", values=VALUES, bits=bits, **SETTINGS) as store,
        minhash.build(tmp_path / "wide", own, bits=64, **SETTINGS) as wide,
    ):
        store.add(own[:200], ids=range(200))
        store._flush()
        store.add(own[200:], ids=range(200, 400))
        for query, found in zip(own[:60], found_by(store, own[:60]), strict=True):
            wanted = {row[0] for row in model.similar(query)}
            extra = [row for row in found if row[0] not in wanted]
            assert wanted <= {row[0] for row in found}
            assert not extra or bits == 16  # by chance: 16 in 65,536 for each document
        store.compact()
        store.verify()
        store.copy(tmp_path / "copy")
        sizes = [each.stats().segments_bytes for each in (store, wide)]
        assert sizes[0] < sizes[1]
    assert fpstore.recover(tmp_path / "copy", tmp_path / "again").complete
    with minhash.open(tmp_path / "again") as again, minhash.open(tmp_path / "copy") as copy:
        assert again.probe_many(own) == copy.probe_many(own)
        assert again.stats().bits == bits


def test_a_built_store_is_that_of_the_same_documents_in_any_order_and_cut(tmp_path: Path) -> None:
    own = signatures(11, 200)
    order = np.random.default_rng(2).permutation(200)
    pieces = ((own[order[start : start + 37]], order[start : start + 37]) for start in range(0, 200, 37))
    with (
        minhash.build(tmp_path / "a", own, **SETTINGS) as one,
        minhash.build(tmp_path / "b", pieces, **SETTINGS) as other,
        minhash.build(tmp_path / "c", iter([own[:150], own[150:]]), **SETTINGS) as third,
    ):
        assert one.probe_many(own) == other.probe_many(own) == third.probe_many(own)
    for name in ("00000001.fpseg", "00000001.fpsketch"):
        assert len({(tmp_path / each / "segments" / name).read_bytes() for each in "abc"}) == 1


def test_all_equal_and_none_alike(tmp_path: Path) -> None:
    same = np.broadcast_to(signatures(12, 1), (3000, VALUES))
    with minhash.build(tmp_path / "same", same, **SETTINGS) as store:
        found = store.probe(same[0])
        assert found.id is not None
        assert found.id.tolist() == [*range(3000)]
        assert (found.similarity == 1).all()
        assert (found.shared_bands == BANDS).all()
    apart = np.arange(3000 * VALUES, dtype=np.uint32).reshape(3000, VALUES)
    with minhash.build(tmp_path / "apart", apart, **SETTINGS) as store:
        found = store.probe_many(apart)
        assert found.query.tolist() == [*range(3000)] == found.id.tolist()  # type: ignore[union-attr]


def test_an_empty_store_has_no_document(tmp_path: Path) -> None:
    empty = np.empty((0, VALUES), dtype=np.uint32)
    making: dict[str, Callable[[Path], MinHashStore]] = {
        "built": lambda path: minhash.build(path, empty, **SETTINGS),
        "stream": lambda path: minhash.build(path, iter([]), **SETTINGS),
        "made": lambda path: minhash.create(path, values=VALUES, **SETTINGS),
    }
    for name, make in making.items():
        with make(tmp_path / name) as store:
            width = store.values
            query = np.zeros(width, dtype=np.uint32)
            assert len(store.probe(query)) == store.count() == len(store.probe_many(query[None][:0])) == 0
            assert [*store.rows()] == []
            assert len(store.lookup([1, 2])) == 0
            store.verify()


@settings(max_examples=60)
@given(st.data())
def test_a_living_store_answers_as_a_plain_model(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    own = signatures(13, 60)
    model, sizes = Model(), LivingSizes(flush_rows=48, named_flush_rows=96, max_pending_rows=96, piece_rows=3)
    named = data.draw(st.booleans())
    path = tmp_path_factory.mktemp("model") / "s"
    minhash.create(path, values=VALUES, id_type="string" if named else "uint64", **SETTINGS).close()
    store = MinHashStore(path, "w", sizes=sizes)
    batch = st.lists(st.tuples(st.integers(0, 59), st.integers(0, 12)), max_size=8)
    try:
        for _ in range(data.draw(st.integers(1, 12))):
            step = data.draw(st.sampled_from(["add", "new", "upsert", "remove", "flush", "compact", "open", "copy"]))
            rows = data.draw(batch)
            given_values = own[[which for which, _ in rows]].reshape(-1, VALUES)
            ids: list[Any] = [f"n{name}" if named else name for _, name in rows]
            if step == "add":
                store.add(given_values, ids=ids)
                model.add(given_values, ids)
            elif step == "upsert":
                store.upsert(given_values, ids=ids)
                model.upsert(given_values, ids)
            elif step == "remove":
                store.remove(ids=ids)
                model.remove(ids)
            elif step == "new":
                least = data.draw(st.sampled_from([None, 0.5]))
                became = model.add_if_new(given_values, ids, least)
                answer = store.add_if_new(given_values, ids=ids, min_similarity=least)
                told = [each.match and each.match[1:] for each in answer]
                assert [each.stored for each in answer] == [match is None for match in became]
                assert told == became
            elif step == "flush":
                store._flush()
            elif step == "compact":
                store.compact()
            elif step == "copy":
                store.copy(path.parent / "copy")
                store.close()
                path.rename(path.parent / "before")
                (path.parent / "copy").rename(path)
                (path.parent / "before").rename(path.parent.parent / f"{path.parent.name}-{len(model.held)}-{_}")
                store = MinHashStore(path, "w", sizes=sizes)
            else:
                store.close()
                store = MinHashStore(path, "w", sizes=sizes)
            expect_like(store, model, own[:20])
        store.verify()
        with minhash.open(path) as reader:
            expect_like(reader, model, own)
            held = sorted((each.id, each.sketch) for rows in reader.rows() for each in rows)
            kept = Kept(VALUES, KEPT_BITS)
            wanted = {
                (name, kept.sketches(np.array([each])).astype("<u8").tobytes())
                for name, versions in model.held.items()
                for each in versions
            }
            assert held == sorted(wanted)
            asked = sorted(model.held)[::2]
            looked_up = [(each.id, each.sketch) for each in reader.lookup(asked)]
            assert sorted(looked_up) == sorted(row for row in wanted if row[0] in asked)
            assert [name for name, _ in looked_up] == sorted(name for name, _ in looked_up)
    finally:
        store.close()


# --- Texts ---

TEXTS = [
    f"the quick brown fox number {i // 2} jumps over {'a' if i % 2 else 'the'} lazy dog of the house" for i in range(20)
]


def test_texts_become_the_signatures_of_the_stores_own_recipe(tmp_path: Path) -> None:
    recipe = fpstore.text.recipes()["minhash-128"]
    own = minhash.sign(TEXTS, recipe)
    with (
        minhash.create(tmp_path / "a", recipe="minhash-128", bands=32, rows_per_band=4) as store,
        minhash.build(tmp_path / "b", own, recipe=recipe, bands=32, rows_per_band=4) as built,
    ):
        assert (store.values, store.recipe) == (recipe.values, recipe)
        assert np.array_equal(store.signature_many(TEXTS), own)
        assert np.array_equal(built.signature(TEXTS[3]), own[3])
        store.add_texts(TEXTS[:10], ids=range(10))
        told = store.add_texts_if_new([*TEXTS[10:13], "of nothing that was said so far"], ids=range(10, 14))
        assert told.stored.tolist() == [False, False, False, True]
        assert {each.match.id for each in told if each.match} <= {*range(10)}
        assert store.probe_text(TEXTS[4])[0][:3] == (0, 4, 1.0)
        assert built.probe_text(TEXTS[4], min_similarity=0.5) == built.probe(own[4], min_similarity=0.5)
    with minhash.build(tmp_path / "c", own) as bare, pytest.raises(fpstore.RecipeError, match="found no recipe"):
        bare.signature("x")


def test_a_store_by_a_recipe_of_rensa_takes_what_rensa_made(tmp_path: Path) -> None:
    recipe = replace(
        fpstore.text.recipes()["minhash-128"], name="of-rensa", permutations="rensa", hash="fxhash", seed=42, shingle=1
    )
    with minhash.create(tmp_path / "s", recipe=recipe) as store:
        store.add_texts(TEXTS[:10], ids=range(10))
    with minhash.open(tmp_path / "s", "w") as store:
        assert store.recipe == recipe
        made = np.array([plain_rensa.later_signature(text.split(), 128, 42) for text in TEXTS], dtype=np.uint32)
        for text, own in zip(TEXTS, made, strict=True):
            assert store.probe(own) == store.probe_text(text)
        assert store.probe(made[4])[0][:3] == (0, 4, 1.0)
        store.add(made[10:], ids=range(10, 20))
        assert store.probe_text(TEXTS[16])[0][:3] == (0, 16, 1.0)


def test_a_recipe_that_makes_other_signatures_or_none_is_refused(tmp_path: Path) -> None:
    own = signatures(1, 3)
    with pytest.raises(fpstore.RecipeError, match="which makes fingerprints and no signatures, expected minhash"):
        minhash.create(tmp_path / "s", recipe="text-1")
    with pytest.raises(fpstore.RecipeError, match="recipe minhash-128: found 128 values, expected 16, as signatures"):
        minhash.build(tmp_path / "s", own, recipe="minhash-128", **SETTINGS)
    assert [*tmp_path.iterdir()] == []


# --- Pairs ---


def pairs_of(store: MinHashStore, least: float | None = None) -> dict[tuple[Any, Any], tuple[float, int]]:
    rows = [each for found in store.pairs(min_similarity=least) for each in found]
    assert len({row[:2] for row in rows}) == len(rows) == store.count_pairs(min_similarity=least)
    return {(row.first_id, row.second_id): (row.similarity, row.shared_bands) for row in rows}


@settings(max_examples=30)
@given(st.data())
def test_each_pair_that_shares_a_band_is_told_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    named = data.draw(st.booleans())
    versions = data.draw(st.booleans())  # some ids have several signatures
    count = data.draw(st.integers(0, 40))
    own, model = signatures(data.draw(st.integers(0, 99)), count, kinds=4), Model()
    numbers = [i // 2 if versions else i for i in range(count)]
    ids: list[Any] = [f"n{i}" for i in numbers] if named else numbers
    path = tmp_path_factory.mktemp("pairs") / "s"
    made = minhash.create(path, values=VALUES, id_type="string" if named else "uint64", **SETTINGS)
    with pytest.MonkeyPatch.context() as patch, made as store:
        patch.setattr("fpstore.living.similar_pairs.PAIRS_AT_ONCE", data.draw(st.sampled_from([4, 9, 10**6])))
        patch.setattr("fpstore.living.similar_pairs.SIDE", 3)
        patch.setattr("fpstore.living.similar_pairs.ROWS_AT_ONCE", data.draw(st.sampled_from([1, 7, 10**6])))
        patch.setattr("fpstore.living.live.CHUNK_KEYS", 5)
        for start in range(0, count, 13):
            store.add(own[start : start + 13], ids=ids[start : start + 13])
            if data.draw(st.booleans()):
                store._flush()
        model.add(own, ids)
        gone = ids[3:5]
        store.remove(ids=gone)
        model.remove(gone)
        assert pairs_of(store) == model.pairs()
        assert pairs_of(store, 0.5) == model.pairs(0.5)


@pytest.mark.parametrize("versions", [False, True])
@pytest.mark.parametrize("bands", [1, 2])
def test_pairs_of_the_first_key_of_all_and_of_the_last_are_told(bands: int, versions: bool, tmp_path: Path) -> None:
    banding, values = Banding(bands, 1, 16), np.arange(1 << 20, dtype=np.uint32)
    keys = banding.keys(np.repeat(values[:, None], bands, axis=1))
    low, high = int(np.flatnonzero(keys[:, 0] == 0)[0]), int(np.flatnonzero(keys[:, -1] == (1 << 16) - 1)[0])
    own = np.array([[low, 5], [low, 6], [7, high], [8, high]], dtype=np.uint32)
    own = own if bands == 2 else own[[0, 1, 2, 3], [0, 0, 1, 1]][:, None]
    ids = [0, 1, 2, 3]
    if versions:  # each has another signature, which it shares with one that nothing else has
        own, ids = np.concatenate([own, own + 900, own + 900])[: 3 * len(own)], [*ids, *ids, 10, 11, 12, 13]
        own[4:] += np.tile(np.arange(4, dtype=np.uint32), 2)[:, None]
    with minhash.build(tmp_path / "s", own, ids=ids, bands=bands, rows_per_band=1, bits=16) as store:
        told = {(row.first_id, row.second_id): row.shared_bands for rows in store.pairs() for row in rows}
    of_ids: dict[int, set[int]] = {}
    for number, row in zip(ids, banding.keys(own).tolist(), strict=True):
        of_ids.setdefault(number, set()).update(row)
    wanted = {
        (one, other): len({*banding.of(np.array([*both], dtype=np.uint64)).tolist()})
        for one in of_ids
        for other in of_ids
        if one < other and (both := of_ids[one] & of_ids[other])
    }
    assert {(0, 1), (2, 3)} <= wanted.keys()
    assert told == wanted


def test_pairs_without_signatures_are_the_same_and_nothing_is_estimated(tmp_path: Path) -> None:
    own, model = signatures(20, 100), Model()
    model.add(own, range(100))
    with minhash.build(tmp_path / "s", own, keep_signatures=False, **SETTINGS) as store:
        found = [each for rows in store.pairs() for each in rows]
        assert {row[:2] for row in found} == {*model.pairs()}
        assert np.isnan([row.similarity for row in found]).all()
        assert store.count_pairs() == len(found)
    with minhash.build(tmp_path / "n", own, ids=None, **SETTINGS) as store:
        with pytest.raises(ValueError, match="the store has no ids, expected one with ids, which pairs are of"):
            store.pairs()
        with pytest.raises(ValueError, match="the store has no ids, expected one with ids, which pairs are of"):
            store.count_pairs()


@pytest.mark.slow
def test_a_bucket_of_thousands_is_told_whole(tmp_path: Path) -> None:
    many = 4_000
    own = np.arange(many * VALUES, dtype=np.uint32).reshape(many, VALUES)
    own[:, ROWS : 2 * ROWS] = 7  # all share the second band
    own[: many // 2, :ROWS] = 5  # and half of them the first
    half = many // 2
    with minhash.build(tmp_path / "s", own, **SETTINGS) as store:
        assert len(store.probe(own[0])) == many
        assert store.count_pairs() == many * (many - 1) // 2
        seen, shared = np.zeros((many, many), dtype=bool), 0
        for rows in store.pairs():
            assert not seen[rows.first_id, rows.second_id].any()
            seen[rows.first_id, rows.second_id] = True
            shared += int(rows.shared_bands.sum())
        assert np.array_equal(seen, np.triu(np.ones((many, many), dtype=bool), 1))
        assert shared == many * (many - 1) // 2 + half * (half - 1) // 2


def test_matches_are_limited_and_not_the_bands_that_they_share(tmp_path: Path) -> None:
    own = np.repeat(signatures(30, 1), 130, axis=0)
    with minhash.build(tmp_path / "s", own, **SETTINGS) as store:
        store.max_matches = 130
        assert len(store.probe(own[0])) == len(store.probe_many(own[:1])) == 130
        store.max_matches = 129
        for queries in (own[:1], own[:2]):
            with pytest.raises(fpstore.TooManyMatches, match=r"found .* matches, expected at most 129 in one answer"):
                store.probe_many(queries)
        with pytest.raises(fpstore.TooManyMatches, match=r"^1 queries: found 130 matches, expected at most 129"):
            store.probe(own[0])
        assert not len(store.probe(signatures(31, 1)[0]))


def test_of_many_that_share_a_band_so_many_are_looked_at_together(tmp_path: Path) -> None:
    own = signatures(32, 200)
    own[:, :ROWS] = 7
    with minhash.build(tmp_path / "s", own, **SETTINGS) as store:
        told = r"^2 queries: found more than 300 rows of documents that share a band, expected at most 300; ask fewer"
        with pytest.raises(fpstore.TooManyMatches, match=told):
            store._answer(2, lambda some: store._in_bands(own[:2][some]), 0.99, 1, 300)
        assert len(store._answer(1, lambda some: store._in_bands(own[:1][some]), 0.99, 1, 300)) >= 1


@pytest.mark.parametrize("least", [None, 0.6])
@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes"])
def test_what_is_added_if_new_is_looked_for_in_parts(
    least: float | None, id_type: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many share a band with each, memory is bounded, and the answer is the same."""
    monkeypatch.setattr("fpstore.living.documents.MOST_FOUND", 50)
    monkeypatch.setattr("fpstore.minhash.store.CROWD_ROWS", 5)
    monkeypatch.setattr("fpstore.living.crowd.FIRST_ROWS", 2)
    monkeypatch.setattr("fpstore.living.crowd.MOST_ROWS", 7)
    own, model = signatures(33, 160, kinds=3), Model()
    own[::2, :ROWS] = 7
    own[90:120] = own[:30]
    numbers = [(i * 37) % 160 for i in range(160)]
    ids: list[Any] = numbers
    if id_type != "uint64":
        ids = [f"n{i}" if id_type == "string" else b"\xff%d" % i for i in numbers]
    with minhash.create(tmp_path / "s", values=VALUES, id_type=id_type, **SETTINGS) as store:
        for start, end in ((0, 40), (40, 80), (80, 100)):
            store.add(own[start:end], ids=ids[start:end])
            model.add(own[start:end], ids[start:end])
            if start < 80:
                store._flush()
        again, gone = slice(10, 30), ids[0:60:7]  # some ids have two signatures, in two segments and the log
        store.add(own[60:80], ids=ids[again])
        model.add(own[60:80], ids[again])
        store.remove(ids=gone)
        model.remove(gone)
        store.upsert(own[70:75], ids=ids[30:35])
        model.upsert(own[70:75], ids[30:35])
        for query in own:
            assert store.contains_near(query, min_similarity=least) == bool(model.similar(query, least))
        expected = model.add_if_new(own[100:], ids[100:], least)
        found = store.add_if_new(own[100:], ids=ids[100:], min_similarity=least)
        assert [row.match and tuple(row.match)[1:] for row in found] == expected
        expect_like(store, model, own[::7], least)


def test_of_very_many_that_are_equal_few_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of all that are as similar as can be is the answer, and those behind it are not read."""
    monkeypatch.setattr("fpstore.living.documents.MOST_FOUND", 50)
    monkeypatch.setattr("fpstore.living.crowd.FIRST_ROWS", 3)
    own = np.repeat(signatures(34, 1), 500, axis=0)
    seen = 0
    values = crowd._Run.ids

    def ids(run: crowd._Run, start: int, end: int) -> Array:
        nonlocal seen
        seen += end - start
        return values(run, start, end)

    monkeypatch.setattr(crowd._Run, "ids", ids)
    with minhash.build(tmp_path / "s", own, **SETTINGS) as built:
        assert len(built.probe(own[0])) == 500
    with minhash.open(tmp_path / "s", "w") as store:
        (answer,) = store.add_if_new(own[:1], ids=[1000])
        assert answer == (False, (0, 0, 1.0, BANDS))
        # Of each band the first three, the next six, and the ten places at which the first id is looked for.
        assert seen <= BANDS * (3 + 6 + 10)
        store.remove(ids=range(7))
        assert store.add_if_new(own[:1], ids=[1000])[0].match == (0, 7, 1.0, BANDS)
        assert not len(store.add_if_new(own[:0], ids=[]))


@pytest.mark.parametrize("with_ids", [True, False])
def test_without_signatures_very_many_are_looked_at_too(
    with_ids: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.living.documents.MOST_FOUND", 20)
    monkeypatch.setattr("fpstore.minhash.store.CROWD_ROWS", 5)
    own = np.repeat(signatures(35, 1), 90, axis=0)
    ids, id_type = (range(10, 100), "uint64") if with_ids else (None, None)
    kept: dict[str, Any] = {"id_type": id_type, "keep_signatures": False, **SETTINGS}
    with minhash.create(tmp_path / "s", values=VALUES, **kept) as store:
        store.add(own, ids=ids)
        store._flush()
        assert store.contains_near(own[0])
        assert not store.contains_near(signatures(36, 1)[0])
        (answer,) = store.add_if_new(own[:1], ids=[5] if with_ids else None)
        assert not answer.stored
        assert answer.match is not None
        assert answer.match.shared_bands == BANDS
        assert np.isnan(answer.match.similarity)
        assert answer.match.id == (10 if with_ids else None)


def test_sketches_of_another_shape_are_refused(tmp_path: Path) -> None:
    own, ids = signatures(37, 2), np.arange(2, dtype=np.uint64)
    with minhash.build(tmp_path / "s", own, **SETTINGS) as store, Reading(store) as snapshot:
        sketches = store._in_bands(own).sketches
        assert sketches is not None
        assert similar_in(snapshot).similarities(sketches[:1], ids)[0] == 1
        with pytest.raises(ValueError, match="expected one as the store keeps them"):
            similar_in(snapshot).similarities(sketches, ids)


# --- Without signatures, and without ids ---


def test_without_signatures_candidates_are_the_same_and_nothing_is_estimated(tmp_path: Path) -> None:
    own = signatures(14, 200)
    with (
        minhash.build(tmp_path / "with", own, **SETTINGS) as store,
        minhash.build(tmp_path / "without", own, keep_signatures=False, **SETTINGS) as bare,
    ):
        one, other = store.probe_many(own), bare.probe_many(own)
        assert {(a.query, a.id, a.shared_bands) for a in one} == {(a.query, a.id, a.shared_bands) for a in other}
        assert np.isnan(other.similarity).all()
        assert other.query.tolist() == sorted(other.query.tolist())
        assert bare.count() == 200
        for ask in (
            lambda: bare.probe(own[0], min_similarity=0.5),
            lambda: bare.lookup([1]),
            bare.rows,
        ):
            with pytest.raises(ValueError, match="found a store that keeps no signatures, expected one that does"):
                ask()


def test_without_ids_it_is_told_whether_one_was_seen(tmp_path: Path) -> None:
    own = signatures(15, 200)
    model = Model()
    became = model.add_if_new(own, [*range(200)])
    with minhash.create(tmp_path / "s", id_type=None, values=VALUES, **SETTINGS) as store:
        stored = store.add_if_new(own).stored
        assert stored.tolist() == [each is None for each in became]
        store._flush()
        assert all(map(store.contains_near, own))
        assert not store.contains_near(signatures(98, 1)[0])
        assert store.probe_many(own).id is None
        assert store.count() == stored.sum()
        with pytest.raises(ValueError, match="found no ids, so a key that several documents share is there once"):
            store.remove(ids=[1])
        with pytest.raises(ValueError, match="the store has no ids, expected one with ids, whose documents"):
            store.upsert(own[:1], ids=[1])
        with pytest.raises(ValueError, match="the store has no ids, expected signatures alone"):
            store.add(own[:1], ids=[1])
        store.copy(tmp_path / "copy")
    with minhash.open(tmp_path / "copy") as copy:
        assert copy.count() == stored.sum()


def overlapping(seed: int) -> Array:
    """Two signatures that share the first band alone, and a third that shares just that with both."""
    own = signatures(seed, 1).repeat(3, axis=0)
    own[:, ROWS:] = np.arange(3 * (VALUES - ROWS), dtype=np.uint32).reshape(3, -1)
    return own


def test_without_ids_a_key_of_several_documents_is_kept_once_so_none_of_them_can_be_removed(tmp_path: Path) -> None:
    own = overlapping(16)
    keys = Banding(BANDS, ROWS).keys(own)
    assert len(np.unique(keys[:2])) == 2 * BANDS - 1
    with minhash.create(tmp_path / "s", id_type=None, values=VALUES, bits=64, **SETTINGS) as store:
        store.add(own[:2])
        store.add(own[:2])
        store._flush()
        with Reading(store) as snapshot:
            held = np.concatenate([found for found, _ in snapshot.rows()])
        assert held.tolist() == np.unique(keys[:2]).tolist()
        # Without the keys of the first, what shares just its band with the second would be as good as never seen.
        assert store.contains_near(own[2])
        assert not set(keys[2].tolist()) & (set(held.tolist()) - set(keys[0].tolist()))
        told = (
            "found no ids, so a key that several documents share is there once, and to remove one would hide the "
            "others: expected a store with ids, which are what is removed; keep_signatures=False makes the smallest"
        )
        with pytest.raises(ValueError, match=re.escape(f"{store.path}: {told}")):
            store.remove(ids=[0])
        assert store.count() == 1
        assert store.contains_near(own[0])


def test_with_ids_and_no_signatures_what_is_removed_hides_no_other(tmp_path: Path) -> None:
    own = overlapping(17)
    with minhash.create(tmp_path / "s", keep_signatures=False, values=VALUES, **SETTINGS) as store:
        store.add(own[:2], ids=[0, 1])
        for flushed in (False, True):
            if flushed:
                store.add(own[:1], ids=[0])
                store._flush()
            store.remove(ids=[0])
            assert [(match.id, match.shared_bands) for match in store.probe(own[0])] == [(1, 1)]
            assert [(match.id, match.shared_bands) for match in store.probe(own[1])] == [(1, BANDS)]
            assert store.contains_near(own[2])
        store.remove(ids=[1])
        assert not any(map(store.contains_near, own))


# --- The commands ---


def test_commands_that_ask_nothing_of_the_kind_look_it_up(command: Command, tmp_path: Path) -> None:
    own = signatures(30, 40)
    minhash.build(tmp_path / "s", own, **SETTINGS).close()
    with minhash.open(tmp_path / "s", "w") as store:
        store.remove(ids=[1])
    path, copy = tmp_path / "s", tmp_path / "copy"
    asked: list[tuple[Any, ...]] = [
        ("stats", path, "signatures    16 values, 4 bands of 3, a key for each; 16 bits of each kept"),
        ("verify", path, "sound; checked"),
        ("report", path, "band keys"),
        ("copy", path, copy, "documents"),
        ("compact", path, "now 1 segment"),
    ]
    for name, *arguments, told in asked:
        outcome = command(name, *arguments)
        assert (outcome.status, told in outcome.out + outcome.err) == (0, True), outcome
    with minhash.open(copy) as copied, minhash.open(path) as store:
        assert copied.probe_many(own) == store.probe_many(own)
        assert copied.count() == 39
    outcome = command("probe", path, "1")
    assert outcome.status == 2
    assert "found a FINGERPRINT, expected --text or --input with texts: the store has signatures" in outcome.err


# --- What is refused ---


def test_stores_of_the_two_kinds_are_told_apart(tmp_path: Path) -> None:
    minhash.build(tmp_path / "minhash", signatures(16, 10), **SETTINGS).close()
    fpstore.build(tmp_path / "hamming", [1, 2, 3]).close()
    for mode in ("r", "w"):
        with pytest.raises(
            fpstore.WrongKind, match=r"found a store of kind minhash, expected hamming; fpstore\.minhash"
        ):
            fpstore.open(tmp_path / "minhash", mode)
        with pytest.raises(fpstore.WrongKind, match=r"found a store of kind hamming, expected minhash; fpstore\.open"):
            minhash.open(tmp_path / "hamming", mode)
    with fpstore.build(tmp_path / "minhash", [1], force=True) as one:
        assert one.kind == "hamming"
    with minhash.build(tmp_path / "hamming", signatures(16, 10), force=True, **SETTINGS) as other:
        assert other.kind == "minhash"


@pytest.mark.parametrize(
    ("given_values", "error", "message"),
    [
        (
            np.zeros((3, VALUES - 1), np.uint32),
            ValueError,
            r"found an array of shape \(3, 15\), expected signatures of 16",
        ),
        (np.zeros(VALUES, np.uint32), ValueError, r"found an array of shape \(16,\)"),
        (np.zeros((3, VALUES)), TypeError, "found dtype float64"),
        (np.full((3, VALUES), -1, np.int32), ValueError, "int32"),
    ],
)
def test_what_is_no_array_of_signatures_is_refused(
    tmp_path: Path, given_values: Any, error: type[Exception], message: str
) -> None:
    with (
        minhash.create(tmp_path / "s", values=VALUES, **SETTINGS) as store,
        pytest.raises(error, match=message),
    ):
        store.probe_many(given_values)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bands": 0}, "bands: found 0, expected an integer from 1 to 1024"),
        ({"rows_per_band": 0}, "rows_per_band: found 0, expected an integer from 1 to 4096"),
        ({"bands": 6}, r"bands \* rows_per_band: found 18, expected at most 16"),
        ({"values": 0}, "values: found 0, expected an integer from 1 to 4096"),
        ({"values": "x"}, "values: found 'x', expected an integer"),
        ({"min_similarity": 1.5}, "min_similarity: found 1.5, expected a number from 0 to 1"),
        ({"min_similarity": 0.5}, "min_similarity: found 4 bands of 3 values too, expected one of the two ways to say"),
        ({"bits": 12}, "bits: found 12, expected an integer from 16 to 64"),
        ({"id_type": "int"}, "id_type: found 'int', expected None or uint64, string, bytes"),
        ({"exist_ok": True, "force": True}, "exist_ok and force: found both"),
        ({"durability": "never"}, "durability: found 'never'"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minhash.create(tmp_path / "s", **{"values": VALUES, **SETTINGS, **wrong})
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("both", [{"bands": 16}, {"rows_per_band": 8}, {"bands": 16, "rows_per_band": 8}])
def test_the_usual_bands_beside_a_similarity_are_refused_as_any_others(tmp_path: Path, both: dict[str, Any]) -> None:
    own = np.zeros((1, 128), dtype=np.uint32)
    told = "min_similarity: found 16 bands of 8 values too, expected one of the two"
    with pytest.raises(ValueError, match=told):
        minhash.create(tmp_path / "s", min_similarity=0.5, **both)
    with pytest.raises(ValueError, match=told):
        minhash.build(tmp_path / "s", own, min_similarity=0.5, **both)
    assert [*tmp_path.iterdir()] == []
    with minhash.create(tmp_path / "s") as store:
        assert (store.bands, store.rows_per_band, store.values) == (16, 8, 128)


def test_a_store_that_is_there_is_taken_if_its_settings_are_those_asked_for(tmp_path: Path) -> None:
    minhash.create(tmp_path / "s", values=VALUES, **SETTINGS).close()
    with minhash.create(tmp_path / "s", exist_ok=True, values=VALUES, **SETTINGS) as store:
        assert (store.bands, store.rows_per_band, store.values, store.kind) == (BANDS, ROWS, VALUES, "minhash")
        assert repr(store).endswith("open for writing, 4 bands of 3 values>")
    with pytest.raises(ValueError, match="bands: found 4, expected 2"):
        minhash.create(tmp_path / "s", exist_ok=True, values=VALUES, bands=2, rows_per_band=ROWS)
    minhash.create(tmp_path / "s", exist_ok=True, values=VALUES, mode=0o600, **SETTINGS).close()
    with pytest.raises(ValueError, match="mode: found '0o700', expected '0o750'"):
        minhash.create(tmp_path / "s", exist_ok=True, values=VALUES, mode=0o640, **SETTINGS)
    with pytest.raises(FileExistsError):
        minhash.create(tmp_path / "s", values=VALUES, **SETTINGS)
    with minhash.open(tmp_path / "s") as store:
        with pickle.loads(pickle.dumps(store)) as again:
            assert again.values == VALUES
        with pytest.raises(fpstore.ReadOnly):
            store.add(signatures(1, 1), ids=[1])


def test_the_errors_of_the_page_of_the_design() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    whole = (0.8 * 0.2 / 128) ** 0.5
    numbers = [whole] + [
        Kept(values, bits).standard_error(0.8) for values, bits in ((128, 2), (128, 1), (128, 4), (288, 1))
    ]
    told = re.search(
        r"error\nof 128 whole values is (.+?)\. Two .+? have (.+?) in 32 .+? bit (.+?) in 16.+?bits (.+?) in 64"
        r".+? 288 values has (.+?) in 40",
        page,
        re.S,
    )
    assert told is not None
    assert [float(each) for each in told.groups()] == [round(number, 3) for number in numbers]
    assert [8 * Kept(128, bits).words for bits in (2, 1, 4)] + [8 * Kept(288, 1).words] == [32, 16, 64, 40]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sketch_bits": 3}, "sketch_bits: found 3, expected one of 0, 32"),
        ({"bands": 1025}, "bands: found 1025"),
        ({"values": 11}, r"bands \* rows_per_band: found 12, expected at most 11"),
        ({"values": None}, "values: found None"),
    ],
)
def test_a_record_of_settings_that_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"bands": BANDS, "rows_per_band": ROWS, "values": VALUES, "sketch_bits": 2}
    with pytest.raises(ValueError, match=message):
        Minhash(**fields | changed)
    with pytest.raises(ValueError, match="max_distance: found 1, expected 0, as bands must be equal"):
        Settings(1, {}, "gap", "uint64", minhash=Minhash(**fields))


def test_bands_are_chosen_by_the_similarity_that_is_asked_for() -> None:
    # Those of datasketch 1.6 and 2.0 for these numbers of values and thresholds.
    assert [bands_for(128, least) for least in (0.5, 0.8, 0.9)] == [(25, 5), (9, 13), (5, 25)]


def some(count: int) -> Array:
    return np.random.default_rng(count).integers(0, 1 << 32, (count, 128), dtype=np.uint32)


REFUSED: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "an array after pairs": (
        lambda path: minhash.build(path, iter([(some(2), [7, 8]), some(3)])),
        TypeError,
        "the stream yields array",
    ),
    "a pair after arrays": (
        lambda path: minhash.build(path, iter([some(3), (some(2), [7, 8])])),
        TypeError,
        "the stream yields .* after arrays, expected arrays of signatures",
    ),
    "pairs, for a store without ids": (
        lambda path: minhash.build(path, iter([(some(2), [7, 8])]), ids=None),
        TypeError,
        "the stream yields pairs, expected no ids: the store has none",
    ),
    "ids, for a store without": (
        lambda path: minhash.build(path, some(2), ids=[7, 8], id_type=None),
        ValueError,
        "ids: found some for a store without \\(id_type None\\), expected None",
    ),
    "a word for ids": (
        lambda path: minhash.build(path, some(2), ids="rows", id_type=None),
        ValueError,
        "ids: found 'rows', expected an array",
    ),
    "names that are not there": (
        lambda path: minhash.build(path, some(2), ids=None, id_type="string"),
        ValueError,
        "ids: found None, expected a name for each signature",
    ),
    "masked values": (
        lambda path: minhash.build(path, np.ma.masked_array(some(2), mask=some(2) % 2 == 0)),
        ValueError,
        "signatures: found [0-9]+ nulls",
    ),
    "more bands than values may be": (
        lambda path: minhash.create(path, bands=1024),
        ValueError,
        "bands \\* rows_per_band: found 8192, expected at most 4096 values",
    ),
    "bands that are no number": (
        lambda path: minhash.build(path, [], bands="a"),  # type: ignore[arg-type]
        ValueError,
        "bands: found 'a', expected an integer",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_go_together_is_refused_and_nothing_is_there(
    tmp_path: Path, call: Callable[[Path], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path / "s")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("none", [[], (), np.empty((0, 0)), np.empty((0, 128), dtype=np.uint32), iter([])])
def test_no_signatures_make_an_empty_store(tmp_path: Path, none: object) -> None:
    with minhash.build(tmp_path / "s", none) as store:
        assert (store.count(), store.values, store.id_type) == (0, 128, "uint64")


@pytest.mark.parametrize("similarity", [np.float32(0.5), np.float64(0.5), 0.5, 1, np.int64(1)])
def test_a_similarity_is_any_number_wherever_it_is_asked(tmp_path: Path, similarity: float) -> None:
    with minhash.create(tmp_path / "s", min_similarity=similarity) as store:
        store.add(some(2), ids=[1, 2])
        assert [match.id for match in store.probe(some(2)[0], min_similarity=similarity)] == [1]


@pytest.mark.parametrize("count", [3, 40])
def test_without_signatures_documents_are_in_the_order_of_their_ids(tmp_path: Path, count: int) -> None:
    own = np.ones((count, VALUES), dtype=np.uint32)
    ids = np.random.default_rng(8).integers(0, 1 << 64, count, dtype=np.uint64)
    with minhash.create(tmp_path / "s", values=VALUES, keep_signatures=False, **SETTINGS) as store:
        store.add(own, ids=ids)
        pending = [store.probe(own[0]).id, store.probe_many(own[:1]).id]
        store.compact()
        for found in (*pending, store.probe(own[0]).id):
            assert found is not None
            assert found.tolist() == sorted(ids.tolist())
        assert store.add_if_new(own[:1], ids=[7]).match_id.tolist() == [min(ids.tolist())]  # type: ignore[union-attr]


@pytest.mark.slow
def test_pairs_of_a_bucket_of_very_many_come_in_bounded_memory(tmp_path: Path) -> None:
    given = np.random.default_rng(1).integers(0, 1 << 32, (100_000, VALUES), dtype=np.uint32)
    given[:, :ROWS] = 7
    with minhash.build(tmp_path / "s", given, bands=BANDS, rows_per_band=ROWS) as store:
        tracemalloc.start()
        try:
            sizes = [len(pairs) for pairs in islice(store.pairs(), 64)]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sum(sizes) > 1_000_000
    assert peak < 64 << 20
