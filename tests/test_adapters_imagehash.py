"""An index of images by their hashes answers as brute force does, and says what is wrong.

tests/test_image_peers.py asks it with the hashes of imagehash itself.
"""

import gc
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore.adapters.imagehash import Found, ImageIndex
from fpstore.types import Array

Images = dict[str, int]


class Hash(NamedTuple):
    """As much of imagehash's as an index asks for."""

    hash: Array


def image(number: int, bits: int = 64) -> Hash:
    return Hash(np.array([number >> at & 1 for at in reversed(range(bits))], dtype=bool).reshape(-1, 1))


def near(images: Images, number: int, distance: int) -> list[Found]:
    found = [((own ^ number).bit_count(), own, name) for name, own in images.items()]
    return [Found(far, name) for far, _, name in sorted(found) if far <= distance]


def hang_together(images: Images, distance: int) -> set[frozenset[str]]:
    """The connected components of two and more, by looking at all pairs until nothing changes."""
    groups = [{name} for name in images]
    for one, other in itertools.combinations(images, 2):
        if (images[one] ^ images[other]).bit_count() <= distance:
            own, others = (next(group for group in groups if name in group) for name in (one, other))
            if own is not others:
                own |= others
                groups.remove(others)
    return {frozenset(group) for group in groups if len(group) > 1}


@st.composite
def collections(draw: Any) -> tuple[int, Images, list[int]]:
    bits = draw(st.sampled_from([14, 16, 42, 48, 63, 64]))
    centers = draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=1, max_size=3))
    flips = st.lists(st.integers(0, bits - 1), max_size=9).map(lambda at: sum({1 << each for each in at}))
    hashes = st.builds(lambda center, flip: center ^ flip, st.sampled_from(centers), flips)
    images = {f"{number:02}.jpg": own for number, own in enumerate(draw(st.lists(hashes, max_size=20)))}
    return bits, images, draw(st.lists(hashes, min_size=1, max_size=4))


@settings(deadline=None, max_examples=25)
@given(case=collections(), distance=st.integers(0, 8), gone=st.integers(0, 19))
def test_every_answer_is_that_of_brute_force(case: tuple[int, Images, list[int]], distance: int, gone: int) -> None:
    bits, images, queries = case
    with ImageIndex(bits=bits, max_distance=8) as index:
        index.add_all((image(own, bits), name) for name, own in images.items())
        if gone < len(images):
            del images[f"{gone:02}.jpg"]
            index.remove(f"{gone:02}.jpg")
        for query in queries:
            assert index.query(image(query, bits), max_distance=distance) == near(images, query, distance)
            assert index.query(f"{query:0{-(-bits // 4)}x}") == near(images, query, 8)
            assert index.nearest(image(query, bits), 3) == near(images, query, bits)[:3]
        groups = index.groups(max_distance=distance)
        assert {frozenset(group) for group in groups} == hang_together(images, distance)
        assert [len(group) for group in groups] == sorted(map(len, groups), reverse=True)
        assert (len(index), {*index}) == (len(images), {*images})
        assert all(name in index for name in images)


@pytest.mark.parametrize("bits", [100, 128, 256])
def test_wide_hashes_are_built_at_once_and_asked(tmp_path: Path, bits: int) -> None:
    draw = random.Random(bits)
    stored = [draw.getrandbits(bits) for _ in range(300)]
    stored += [own ^ 1 << draw.randrange(bits) for own in stored[:100]]
    images = [(image(own, bits), number) for number, own in enumerate(stored)]
    with ImageIndex.build(tmp_path / "s", images, bits=bits, id_type="uint64", max_distance=9) as index:
        assert (index.store.bits, index.max_distance) == (128 if bits <= 128 else 256, 9)
        for query in stored[:20]:
            expected = sorted(
                (far, own, at) for at, own in enumerate(stored) if (far := (own ^ query).bit_count()) <= 9
            )
            assert index.query(image(query, bits)) == [Found(far, at) for far, _, at in expected]
    with ImageIndex.open(tmp_path / "s", bits=bits) as index:
        assert index.query(images[3][0])[0] == Found(0, 3)


def test_wide_hashes_come_and_go() -> None:
    draw = random.Random(5)
    images = {f"{number}.png": draw.getrandbits(256) for number in range(50)}
    images["near"] = images["3.png"] ^ 1 << 200
    with ImageIndex(bits=256, max_distance=20) as index:
        index.add_all((image(own, 256), name) for name, own in images.items())
        assert index.query(image(images["3.png"], 256)) == near(images, images["3.png"], 20)
        assert [{*group} for group in index.groups()] == [{"3.png", "near"}]
        index.remove("near")
        assert index.query(image(images["3.png"], 256)) == [Found(0, "3.png")]


def test_an_index_goes_on_where_it_was(tmp_path: Path) -> None:
    with ImageIndex(tmp_path / "s", max_distance=10) as index:
        index.add(image(1), "a")
        with ImageIndex.open(tmp_path / "s") as reader:
            index.add(image(3), "b")
            assert reader.query(image(1)) == [Found(0, "a"), Found(1, "b")]
            with pytest.raises(fpstore.ReadOnly):
                reader.add(image(1), "c")
    with ImageIndex(tmp_path / "s", max_distance=10) as again:
        assert [*again] == ["a", "b"]
        assert again
    others: list[dict[str, Any]] = [
        {"max_distance": 8},
        {"max_distance": 10, "bits": 32},
        {"max_distance": 10, "id_type": "uint64"},
    ]
    for other in others:
        with pytest.raises(ValueError, match=r"found .*, expected"):
            ImageIndex(tmp_path / "s", **other)


def test_a_name_may_have_several_hashes_and_a_hash_several_names() -> None:
    with ImageIndex() as index:
        index.add_all([(image(1), "a"), (image(1), "b"), (image(1 << 40), "a"), (image(1 << 40), "c")])
        assert index.query(image(1)) == [Found(0, "a"), Found(0, "b"), Found(2, "a"), Found(2, "c")]
        assert index.groups(max_distance=1) == [["a", "b"], ["a", "c"]]
        assert index.groups() == [["a", "b", "c"]]
        index.add(image(1 << 20), "a")
        assert len(index) == 5
        index.remove("a")
        assert {*index} == {"b", "c"}
        assert "a" not in index
        with pytest.raises(ValueError, match="name: found 'a', which is not there, expected one that is"):
            index.remove("a")


def test_images_that_are_near_the_same_one_are_in_one_group() -> None:
    with ImageIndex() as index:
        index.add_all((image(number), str(number)) for number in (1, 2, 3, 12, 13))
        assert index.groups(max_distance=1) == [["1", "2", "3"], ["12", "13"]]


def test_an_index_without_images_answers_nothing() -> None:
    with ImageIndex() as index:
        index.add_all([])
        assert (index.query(image(0)), index.nearest(image(0)), index.groups(), len(index)) == ([], [], [], 0)
        assert index


def test_names_are_of_the_type_that_was_said() -> None:
    with ImageIndex(id_type="uint64") as index:
        index.add(image(1), 2**64 - 1)
        assert index.query(image(1)) == [Found(0, 2**64 - 1)]
        with pytest.raises(TypeError, match="key: found 'a', expected an integer"):
            index.add(image(1), "a")
    with ImageIndex(id_type="bytes") as index:
        index.add(image(1), ("album", 3))
        assert index.query(image(1)) == [Found(0, ("album", 3))]


@pytest.mark.parametrize(
    ("hash", "error", "message"),
    [
        (image(1, 63), ValueError, "hash: found 63 bits, expected 64, as the index has"),
        (image(1, 256), ValueError, "hash: found 256 bits, expected 64"),
        ("1" * 15, ValueError, "hash: found '1+', expected 16 hexadecimal digits, 64 bits"),
        ("0x" + "1" * 14, ValueError, "hash: found '0x1+', expected 16 hexadecimal digits"),
        (" " + "1" * 15, ValueError, "hash: found ' 1+', expected 16 hexadecimal digits"),
        (5, TypeError, "hash: found a int, expected an ImageHash, or its hexadecimal digits"),
        (Hash(np.ones(64)), TypeError, "hash: found bits of the type float64, expected bool"),
        (type("Parts", (), {"segment_hashes": []})(), TypeError, "found that of many parts, expected one ImageHash"),
    ],
)
def test_what_is_no_such_hash_is_refused_and_nothing_is_stored(hash: Any, error: type, message: str) -> None:
    with ImageIndex() as index:
        for ask in (index.query, index.nearest, lambda own: index.add_all([(image(1), "a"), (own, "b")])):
            with pytest.raises(error, match=message):
                ask(hash)
        assert len(index) == 0


def test_a_hash_of_fewer_bits_than_its_digits_hold_has_no_more(tmp_path: Path) -> None:
    with ImageIndex(bits=42) as index:
        index.add("3" + "f" * 10, "a")
        assert index.query(image(2**42 - 1, 42)) == [Found(0, "a")]
        with pytest.raises(ValueError, match="expected 11 hexadecimal digits, 42 bits"):
            index.add("4" + "f" * 10, "b")


def test_bits_that_no_store_has_are_refused(tmp_path: Path) -> None:
    for bits in (0, 257, 1024):
        with pytest.raises(ValueError, match=f"bits: found {bits}, expected 1"):
            ImageIndex(tmp_path / "s", bits=bits)
    with pytest.raises(TypeError, match=r"bits: found 8\.0"):
        ImageIndex(tmp_path / "s", bits=8.0)  # type: ignore[arg-type]
    ImageIndex(tmp_path / "s", bits=30).close()
    with pytest.raises(ValueError, match="s: found a store of 32 bits, expected 48"):
        ImageIndex.open(tmp_path / "s", bits=42)
    fpstore.build(tmp_path / "t", [1], ids=None).close()
    with pytest.raises(fpstore.WrongKind, match="t: found no ids, expected a store that has names of images"):
        ImageIndex.open(tmp_path / "t")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_an_index_without_a_path_is_gone_with_its_object(temporary: Path) -> None:
    index = ImageIndex()
    assert [path.name[:8] for path in temporary.iterdir()] == ["fpstore-"]
    del index
    gc.collect()
    assert not [*temporary.iterdir()]
    with ImageIndex() as held:
        if (child := os.fork()) == 0:
            held.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert len([*temporary.iterdir()]) == 1
    with pytest.raises(ValueError, match="plan"):
        ImageIndex(plan="none")
    assert not [*temporary.iterdir()]


def test_nothing_of_imagehash_is_imported() -> None:
    code = "import sys, fpstore.adapters.imagehash; assert not {'imagehash', 'PIL', 'faiss'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
