"""The idf model: what it counts, in bounded memory, its file, and which recipe takes it."""

import hashlib
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.errors import CorruptStore
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text import idf as module
from fpstore.text.idf import Learner
from fpstore.text.model import UNIT, IdfModel, read_model

WORDS = Recipe("words", shingle=1)


def learn(texts: list[str], most: int = module.MAX_SHINGLES, recipe: Recipe = WORDS) -> IdfModel:
    learner = Learner(recipe, most)
    for text in texts:
        learner.see(text)
    return learner.model()


def hash_of(word: str) -> int:
    return int(WORDS.features(word).hashes[0])


def weights_of(model: IdfModel) -> dict[int, int]:
    return dict(zip(model.hashes.tolist(), model.weights.tolist(), strict=True))


def weight(documents: int, count: int) -> int:
    return round(UNIT * math.log(1 + documents / count))


CORPORA = st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=8).map(" ".join), min_size=1, max_size=30)


@given(CORPORA)
def test_a_shingle_weighs_by_how_many_documents_have_it(texts: list[str]) -> None:
    model = learn(texts)
    counts = Counter(word for text in texts for word in set(text.split()))
    expected = {hash_of(word): weight(len(texts), count) for word, count in counts.items() if count > 1}
    assert weights_of(model) == expected
    assert (model.documents, model.uncounted, model.unseen) == (len(texts), 0, weight(len(texts), 1))
    assert (np.diff(model.hashes.astype(object)) > 0).all()


@given(CORPORA, st.integers(1, 12))
def test_batches_do_not_matter_while_the_bound_is_not_reached(texts: list[str], batch: int) -> None:
    whole = learn(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH_HASHES", batch)
        assert learn(texts).checksum == whole.checksum


def test_beyond_the_bound_a_count_is_too_large_by_at_most_what_is_said() -> None:
    source = random.Random(5)
    texts = [" ".join(f"w{min(int(source.paretovariate(0.4)), 5000)}" for _ in range(50)) for _ in range(400)]
    counts = Counter(hash_of(word) for text in texts for word in set(text.split()))
    assert len(counts) > 1000
    most = 200
    model = learn(texts, most)
    assert 0 < model.uncounted <= sum(counts.values()) / most
    assert len(model.hashes) <= most
    found = weights_of(model)
    for value, count in counts.items():
        if value in found:
            high = min(count + model.uncounted, 400)
            assert weight(400, high) <= found[value] <= weight(400, count)
        else:
            assert count <= model.uncounted + 1
    assert model.unseen == weight(400, model.uncounted + 1)


def test_memory_is_bounded_by_the_number_of_shingles() -> None:
    learner = Learner(WORDS, 100)
    for number in range(300):
        learner.see(" ".join(f"{number}-{word}" for word in range(40)) + " common")
        assert len(learner._hashes) <= 100
        assert learner._held_count < 200
    assert hash_of("common") in weights_of(learner.model())


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="found no documents to learn from"):
        Learner(WORDS).model()


def test_a_corpus_of_nothing_but_empty_texts_is_a_model() -> None:
    model = learn(["", "..."])
    assert IdfModel.from_bytes(model.to_bytes()).checksum == model.checksum
    assert WORDS.with_model(model).fingerprint("a") == hash_of("a")


def test_the_file_is_what_the_module_says(tmp_path: Path) -> None:
    model = learn(["a b", "a b c", "b"])
    data = model.to_bytes()
    (tmp_path / "m.idf").write_bytes(data)
    assert data.startswith(b"fpsidf1\n")
    assert data[-32:].hex() == model.checksum == hashlib.sha256(data[:-32]).hexdigest()
    read = read_model(tmp_path / "m.idf")
    assert (read.checksum, read.steps, read.documents) == (model.checksum, WORDS.steps(), 3)
    assert weights_of(read) == weights_of(model)


def test_every_changed_byte_and_every_cut_is_refused() -> None:
    data = learn(["a b", "a b c", "b"]).to_bytes()
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 1
        with pytest.raises(CorruptStore, match=r"idf model: found (first bytes|checksum)"):
            IdfModel.from_bytes(bytes(changed))
    for length in range(len(data)):
        found = "checksum" if length >= 8 else f"first bytes '{data[:length].hex(' ')}'"
        with pytest.raises(CorruptStore, match=f"idf model: found {found}"):
            IdfModel.from_bytes(data[:length])


def sealed(header: bytes, rest: bytes = b"") -> bytes:
    plain = b"fpsidf1\n" + len(header).to_bytes(4, "little") + header + rest
    return plain + hashlib.sha256(plain).digest()


HEADER = b'{"documents":1,"shingles":2,"steps":{},"uncounted":0,"unseen":1}'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sealed(b"{"), "found a header that is no JSON"),
        (sealed(b"\xff"), "found a header that is no JSON"),
        (sealed(b"[]"), "found header {}, expected {'steps'"),
        (sealed(b'{"documents":1.5}'), "found header {'documents': <class 'float'>}"),
        (sealed(HEADER), r"found bytes \d+, expected \d+"),
        (sealed(HEADER.replace(b":2", b":-9")), r"found bytes \d+, expected -\d+"),
        (sealed(HEADER, b"\2" + bytes(7) + b"\1" + bytes(7) + bytes(8)), "found order of hashes True, expected False"),
        (sealed(HEADER, bytes(24)), "found order of hashes True, expected False"),
    ],
)
def test_a_sealed_file_that_makes_no_sense_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptStore, match=message):
        IdfModel.from_bytes(data)


def test_a_recipe_pins_its_model_and_needs_it() -> None:
    model = learn(["a b", "a b c", "b"])
    recipe = WORDS.with_model(model)
    assert (recipe.weights, recipe.idf) == ("idf", model.checksum)
    stored = Recipe.from_json(recipe.to_json())
    assert stored == recipe
    with pytest.raises(ValueError, match=f"words: found no idf model, expected that of checksum {model.checksum}"):
        stored.fingerprint("a b")
    assert stored.with_model(model).fingerprint("a b c") == recipe.fingerprint("a b c")
    with pytest.raises(ValueError, match="recipe bare: found no idf model, expected that of checksum any"):
        Recipe("bare", weights="idf").features("a")


def test_another_model_and_one_of_other_steps_are_refused() -> None:
    model, other = learn(["a b", "a"]), learn(["b a", "b"])
    with pytest.raises(ValueError, match=f"found checksum {other.checksum}, expected {model.checksum}"):
        WORDS.with_model(model).with_model(other)
    with pytest.raises(ValueError, match="idf model: found shingle 1, expected 2"):
        replace(WORDS, shingle=2).with_model(model)
    with pytest.raises(ValueError, match="text-1: found sketch minhash-1bit, expected simhash, such as simhash-1"):
        DEFAULT_RECIPE.with_model(model)
    with pytest.raises(ValueError, match="idf model: found seed 0, expected 42, as the recipe has"):
        replace(WORDS, seed=42).with_model(model)
    seeded = Learner(replace(WORDS, seed=42))
    seeded.see("a b")
    with pytest.raises(ValueError, match="idf model: found seed 42, expected 0, as the recipe has"):
        WORDS.with_model(seeded.model())
    assert replace(WORDS, tie="set").with_model(model).tie == "set"
    with pytest.raises(ValueError, match="idf model: found version None, expected 2"):
        WORDS.with_model(IdfModel.from_bytes(sealed(HEADER.replace(b":2", b":0"))))


def test_a_model_of_other_weights_and_another_name_is_taken() -> None:
    model = learn(["a b", "a"], recipe=Recipe("other", shingle=1, weights="log"))
    assert WORDS.with_model(model).idf == model.checksum
