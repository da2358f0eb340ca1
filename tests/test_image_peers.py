"""Stores of hashes of images answer as the packages that they take the place of, and read what these write.

imagehash, FAISS, python-threatexchange and pybktree: make test-clients installs them.
"""

import io
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore.adapters import faiss as files
from fpstore.adapters.imagehash import Found, ImageIndex

LACKING = "installed by make test-clients"
faiss: Any = pytest.importorskip("faiss", reason=f"faiss: {LACKING}")
pybktree: Any = pytest.importorskip("pybktree", reason=f"pybktree: {LACKING}")
imagehash: Any = pytest.importorskip("imagehash", reason=f"imagehash: {LACKING}")
PIL: Any = pytest.importorskip("PIL.Image", reason=f"Pillow: {LACKING}")
pdq: Any = pytest.importorskip("threatexchange.signal_type.pdq.pdq_index", reason=f"threatexchange: {LACKING}")
from fpstore.adapters.threatexchange import PDQIndex  # noqa: E402

WIDTHS = {64: 10, 256: 31}


def near_codes(bits: int, count: int, seed: int = 1) -> Any:
    """uint8[count, bits / 8]: half of them near another one, at every distance up to a little more than is asked."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 256, size=(count, bits // 8), dtype=np.uint8)
    for at in range(count // 2, count):
        turned = random.choice(bits, size=at % (WIDTHS[bits] + 4), replace=False)
        flips = np.zeros(bits, dtype=np.uint8)
        flips[turned] = 1
        codes[at] = codes[at - count // 2] ^ np.packbits(flips)
    return codes


# --- FAISS ---


def flat(codes: Any) -> Any:
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    return index


def multi_hash(codes: Any) -> Any:
    """Exact up to the distance of WIDTHS: so many tables times one flip more than it has is above that."""
    tables, bits = {64: (4, 16), 256: (16, 16)}[8 * codes.shape[1]]
    index = faiss.IndexBinaryMultiHash(8 * codes.shape[1], tables, bits)
    index.nflip = WIDTHS[8 * codes.shape[1]] // tables
    index.add(codes)
    return index


def with_ids(make: Callable[[Any], Any], wrapper: str) -> Callable[[Any], Any]:
    def made(codes: Any) -> Any:
        inner = make(codes[:0])
        index = getattr(faiss, wrapper)(inner)
        index.add_with_ids(codes, 7 * np.arange(len(codes), dtype=np.int64) - 20)
        index.kept = inner
        return index

    return made


INDEXES = {
    "flat": flat,
    "multi-hash": multi_hash,
    "flat, ids": with_ids(flat, "IndexBinaryIDMap"),
    "flat, ids both ways": with_ids(flat, "IndexBinaryIDMap2"),
    "multi-hash, ids": with_ids(multi_hash, "IndexBinaryIDMap2"),
}


def answers(index: Any, queries: Any, distance: int) -> list[set[tuple[int, int]]]:
    """Of each query the ids within distance, as a store has them, and how far they are."""
    ends, far, ids = index.range_search(queries, distance + 1)
    rows = list(zip((int(id) % 2**64 for id in ids), map(int, far), strict=True))
    return [{*rows[start:end]} for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("kind", sorted(INDEXES))
def test_a_store_of_what_faiss_wrote_answers_as_the_index(tmp_path: Path, bits: int, kind: str) -> None:
    codes, queries = near_codes(bits, 2000), near_codes(bits, 60)
    index = INDEXES[kind](codes)
    faiss.write_index_binary(index, str(tmp_path / "codes.index"))
    found: list[set[tuple[int, int]]] = [set() for _ in queries]
    with files.build(tmp_path / "s", tmp_path / "codes.index", max_distance=WIDTHS[bits]) as store:
        words = queries.view(">u8").astype(np.uint64)
        for match in store.probe_many(words[:, 0] if bits == 64 else words):
            assert match.id is not None
            found[match.query].add((int(match.id), match.distance))
    assert found == answers(index, queries, WIDTHS[bits])
    assert sum(map(len, found)) > 60


# --- imagehash ---


def picture(seed: int) -> Any:
    values = np.random.default_rng(seed).integers(0, 256, size=(9, 9, 3), dtype=np.uint8)
    return PIL.fromarray(values).resize((96, 96))


HASHES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "average": (imagehash.average_hash, 64),
    "phash": (imagehash.phash, 64),
    "dhash": (imagehash.dhash, 64),
    "whash": (imagehash.whash, 64),
    "colorhash": (imagehash.colorhash, 42),
    "phash, 16 by 16": (lambda image: imagehash.phash(image, hash_size=16), 256),
}


@pytest.mark.parametrize("kind", sorted(HASHES))
def test_images_are_found_by_their_hashes_as_these_differ(tmp_path: Path, kind: str) -> None:
    make, bits = HASHES[kind]
    images = [picture(seed) for seed in range(20)]
    hashes = [make(own) for image in images for own in (image, image.resize((60, 60)), image.rotate(3))]
    assert {len(own) for own in hashes} == {bits}
    with ImageIndex.build(
        tmp_path / "s", zip(hashes, range(60), strict=True), bits=bits, id_type="uint64", max_distance=10
    ) as index:
        for query in hashes[::4]:
            near = sorted(
                (query - own, index.fingerprint(own), at) for at, own in enumerate(hashes) if query - own <= 10
            )
            assert index.query(query) == index.query(str(query)) == [Found(far, at) for far, _, at in near]


def test_a_hash_of_many_parts_is_refused() -> None:
    with ImageIndex() as index, pytest.raises(TypeError, match="expected one ImageHash, as each of its segment_hashes"):
        index.query(imagehash.crop_resistant_hash(picture(1)))


# --- pybktree ---


@pytest.mark.parametrize("distance", [0, 3, 8, 10])
def test_images_are_found_as_in_a_tree(distance: int) -> None:
    keys = [int.from_bytes(code.tobytes(), "big") for code in near_codes(64, 1500)]
    tree = pybktree.BKTree(pybktree.hamming_distance, keys)
    with ImageIndex(max_distance=10, id_type="uint64") as index:
        index.add_all((f"{key:016x}", key) for key in keys)
        for query in keys[:40] + [key ^ 1 << 9 for key in keys[-40:]]:
            found = index.query(f"{query:016x}", max_distance=distance)
            assert found == sorted({*tree.find(query, distance)})


# --- python-threatexchange ---


def signals(count: int, seed: int = 1) -> list[str]:
    return [code.tobytes().hex() for code in near_codes(256, count, seed)]


def told(matches: Any) -> list[tuple[int, Any]]:
    return sorted((match.similarity_info.distance, match.metadata) for match in matches)


def test_pdq_hashes_match_as_in_its_index() -> None:
    entries = [(hash, number) for number, hash in enumerate(signals(1500))]
    entries += [(hash, number + 5000) for hash, number in entries[::10]]
    its, ours = pdq.PDQIndex.build(entries), PDQIndex.build(entries)
    assert len(ours) == len(its) == 1650
    matched = 0
    for query in signals(1500)[::10] + signals(20, seed=2):
        found = ours.query(query)
        matched += len(found)
        assert told(found) == told(its.query(query))
        assert [match.similarity_info.distance for match in found] == sorted(far for far, _ in told(found))
        assert all(type(match) is pdq.IndexMatchUntyped for match in found)
        assert {type(match.similarity_info) for match in found} <= {type(pdq.SignalSimilarityInfoWithIntDistance(0))}
    assert matched > 150
    ours.dispose()
    assert (len(ours), ours.query(entries[0][0])) == (0, [])


@pytest.mark.parametrize("threshold", [0, 10, 31, 50])
def test_the_threshold_is_that_of_the_index(threshold: int) -> None:
    entries = [(hash, number) for number, hash in enumerate(signals(300))]
    index = PDQIndex(entries, threshold=threshold)
    for query in signals(300)[::20]:
        far = [((int(own, 16) ^ int(query, 16)).bit_count(), number) for own, number in entries]
        assert told(index.query(query)) == sorted(each for each in far if each[0] <= threshold)


@pytest.mark.parametrize("way", ["serialize", "pickle"])
def test_what_was_written_answers_as_before(way: str) -> None:
    entries = [(hash, {"number": number}) for number, hash in enumerate(signals(200))]
    index = PDQIndex(entries + entries[:5], threshold=20)
    if way == "pickle":
        again = pickle.loads(pickle.dumps(index))
    else:
        stream = io.BytesIO()
        index.serialize(stream)
        stream.seek(0)
        again = pdq.SignalTypeIndex.deserialize(stream)  # as services do, which know no class
    assert type(again) is PDQIndex
    assert (again.threshold, len(again)) == (20, 205)
    for hash, entry in entries[:10]:
        assert [match.metadata for match in again.query(hash)] == [match.metadata for match in index.query(hash)]
        assert again.query(hash)[0].metadata == entry
    empty = pickle.loads(pickle.dumps(PDQIndex()))
    assert (len(empty), empty.query(entries[0][0])) == (0, [])


def test_a_store_goes_with_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    index = PDQIndex.build((hash, None) for hash in signals(10))
    assert len([*tmp_path.iterdir()]) == 1
    del index
    assert not [*tmp_path.iterdir()]
    PDQIndex.build([])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("hash", ["", "0" * 63, "0" * 65, "0" * 63 + "g", "00 " * 21 + "0", 5, None])
def test_what_is_no_pdq_hash_is_refused_and_nothing_is_added(hash: Any) -> None:
    index = PDQIndex.build([("0" * 64, 0)])
    for ask in (index.query, lambda own: index.add_all([("1" * 64, 1), (own, 2)]), lambda own: index.add(own, 1)):
        with pytest.raises(ValueError, match=r"hash: found .*, expected 64 hexadecimal digits"):
            ask(hash)
    assert len(index) == 1
    assert PDQIndex.build([("A" * 64, 3)]).query("a" * 64)[0].metadata == 3


def test_hashes_are_added_to_those_that_are_there() -> None:
    entries = [(hash, number) for number, hash in enumerate(signals(400))]
    random.Random(1).shuffle(entries)
    its, ours = pdq.PDQIndex.build(entries[:200]), PDQIndex.build(entries[:200])
    for start in (200, 300):
        its.add_all(entries[start : start + 99])
        ours.add_all(entries[start : start + 99])
        its.add(*entries[start + 99])
        ours.add(*entries[start + 99])
        for query, _ in entries[::7]:
            assert told(ours.query(query)) == told(its.query(query))
    again = pickle.loads(pickle.dumps(ours))
    assert all(told(again.query(query)) == told(its.query(query)) for query, _ in entries[::7])


def test_what_the_store_refuses_to_add_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    index = PDQIndex.build([("0" * 64, 0)])

    def refuse(*given: Any, **named: Any) -> Any:
        raise fpstore.ReadOnly("writing: not there yet for fingerprints of 256 bits")

    monkeypatch.setattr(fpstore, "open", refuse)
    with pytest.raises(fpstore.ReadOnly, match="256 bits"):
        index.add("1" * 64, 1)
    assert (len(index), [match.metadata for match in index.query("0" * 64)]) == (1, [0])
