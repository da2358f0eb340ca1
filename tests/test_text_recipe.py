"""The recipe: every composition equal to its plain twin, its edges, its record."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import plain_hashes
import plain_recipe
import pytest
from helpers import FINGERPRINTING
from hypothesis import example, given
from hypothesis import strategies as st

from fpstore import text as fptext
from fpstore.errors import CorruptStore, RecipeError, UnsupportedVersion
from fpstore.text import DEFAULT_RECIPE, Recipe, recipes
from fpstore.text._sums import xxh3
from fpstore.text.idf import Learner

WORDS = ["a", "The", "of", "running", "Größe", "我来到北京清华大学", "T恤", "don't", "İ", "ΑΣ", "\x1f", "3.14", "\0"]
WORDY = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
TEXTS = st.text(max_size=200) | WORDY
OLDER = recipes()["web-en"]
PRESETS = [recipes()[name] for name in FINGERPRINTING]
OF_SETS = {"weights": "presence", "sketch": "minhash-1bit"}
SIGNING = {"weights": "presence", "sketch": "minhash"}
# Of these other tools take more bits than a recipe has of them.
OF_TOOLS = ("md5", "sha1", "sha256", "md5-first", "blake2b", "murmur3")
PLAIN_TOKENS = ("words", "mixed", "characters", "letters", "chinese")


@st.composite
def some_recipes(draw: st.DrawFn) -> Recipe:
    tokens = draw(st.sampled_from([*PLAIN_TOKENS, "whole"]))
    words = tokens in ("words", "chinese")
    hash = draw(st.sampled_from(plain_hashes.NAMES))
    sketch = draw(st.sampled_from(["simhash", "minhash-1bit"]))
    of_sets = sketch == "minhash-1bit"
    is_widened = of_sets or hash not in OF_TOOLS
    return Recipe(
        "drawn",
        normalisation=draw(st.sampled_from(["nfkc-casefold", "nfkc", "lower", "none"])),
        tokens=tokens,
        stop_words=draw(st.sampled_from(["", "en", "zh"])) if words else "",
        stemming=draw(st.sampled_from(["", "english", "german"])) if words else "",
        shingle=1 if tokens == "whole" else draw(st.sampled_from([1, 2, 3, 4, 64])),
        dense_shingle=draw(st.sampled_from([1, 2, 5, 64])) if tokens == "mixed" else 0,
        weights="presence" if of_sets else draw(st.sampled_from(["frequency", "capped", "log", "presence"])),
        sketch=sketch,
        hash=hash,
        seed=draw(st.integers(0, (1 << plain_hashes.SEEDED.get(hash, 0)) - 1)),
        tie="clear" if of_sets else draw(st.sampled_from(["clear", "set"])),
        bits=draw(st.sampled_from([64, 64, 128, 256])) if is_widened else 64,
    )


def assert_as_twin(recipe: Recipe, text: str) -> None:
    assert recipe.fingerprint(text) == plain_recipe.fingerprint_of(recipe, text)
    expected = plain_recipe.features_of(recipe, text)
    hashes, weights = recipe.features(text)
    assert hashes.tolist() == list(expected)
    assert (weights * plain_recipe.ONE).tolist() == list(expected.values())
    measured = recipe.measure_many([text])
    assert measured.token_counts.tolist() == [len(plain_recipe.tokens_of(recipe, text))]
    assert measured.distinct_counts.tolist() == [plain_recipe.distinct_of(recipe, text)]
    assert measured.unseen.tolist() == [plain_recipe.unseen_of(recipe, text)]


@pytest.mark.slow
@given(some_recipes(), TEXTS)
def test_every_composition_equals_the_plain_twin(recipe: Recipe, text: str) -> None:
    assert_as_twin(recipe, text)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=FINGERPRINTING)
@given(text=TEXTS)
@example(text="ﬁne ＦＵＬＬ width ① ²³ ǅ ß ẞ İstanbul Σίσυφος")
@example(text="\ud800 lone \udfff surrogates \ud83d here")
@example(text="nul\0between\0words and_under_scores 日本語 テキスト 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀𠀁")
def test_every_preset_equals_the_plain_twin(preset: Any, text: Any) -> None:
    assert_as_twin(preset, text)


def test_weights_of_an_idf_model_equal_the_plain_twin() -> None:
    recipe = Recipe("words", shingle=1)
    learner = Learner(recipe)
    for text in ("the cat", "the dog", "the cat and the dog"):
        learner.see(text)
    assert_as_twin(recipe.with_model(learner.model()), "the the cat saw a bird")


@pytest.mark.parametrize("tokens", PLAIN_TOKENS)
@given(data=st.binary(max_size=60) | st.text(max_size=30).map(lambda text: text.encode("utf-8", "ignore")))
@example(data="中文".encode()[:-1] + b"\xff\xc0\x80")
def test_bytes_are_utf8_and_what_is_not_becomes_the_replacement_character(tokens: str, data: bytes) -> None:
    dense = 5 * (tokens == "mixed")
    steps: Any
    for steps in ({}, OF_SETS):
        recipe = Recipe("bytes", tokens=tokens, shingle=2, dense_shingle=dense, **steps)
        assert recipe.fingerprint(data) == recipe.fingerprint(data.decode("utf-8", "replace"))


@pytest.mark.parametrize("preset", PRESETS, ids=FINGERPRINTING)
def test_batch_and_threads_change_nothing(preset: Recipe) -> None:
    texts = [f"{number} 我来到北京 the quick brown fox {'jumps over ' * (number % 40)}" for number in range(300)]
    one_by_one = [preset.fingerprint(text) for text in texts]
    assert preset.fingerprint_many(texts).tolist() == one_by_one
    assert preset.fingerprint_many(texts, threads=3).tolist() == one_by_one
    assert preset.fingerprint_many([]).tolist() == []


@pytest.mark.parametrize("text", ["", " ", "\0", "... --- !!!", "\ud800", "\u200b\ufeff"])
def test_a_text_without_words_has_a_fingerprint_of_its_bytes_but_by_the_hashes_of_other_tools(text: str) -> None:
    bare = text.replace("\ud800", "\ufffd").encode()
    for name in ("text-1", "simhash-1", "web-en", "words-4", "zh", "code"):
        assert recipes()[name].fingerprint(text) == recipes()[name].fingerprint(bare) == xxh3(bare)
    assert Recipe("other", hash="md5").fingerprint(text) == 0


def test_equal_texts_are_one_exact_fingerprint_and_other_texts_another() -> None:
    exact = recipes()["exact"]
    assert exact.fingerprint("A  text,\n\tas it is ") == exact.fingerprint("a text, as it IS")
    assert exact.fingerprint("a text, as it is") != exact.fingerprint("a text as it is")
    assert exact.fingerprint("!!!") not in (0, exact.fingerprint("!!"))


@given(st.lists(st.text(max_size=60), max_size=20))
def test_fingerprint_many_equals_fingerprint_of_each(texts: list[str]) -> None:
    many = fptext.fingerprint_many(texts)
    assert many.dtype == np.uint64
    assert many.tolist() == [fptext.fingerprint(text) for text in texts]


@pytest.mark.parametrize("tokens", ["words", "chinese"])
@pytest.mark.parametrize("wrong", [bytearray(b"x"), None, 7])
def test_what_is_no_text_is_a_type_error(tokens: str, wrong: Any) -> None:
    recipe = Recipe("any", tokens=tokens)
    with pytest.raises(TypeError, match="expected str or bytes"):
        recipe.fingerprint(wrong)
    with pytest.raises(TypeError, match="expected str or bytes"):
        recipe.fingerprint_many(["fine", wrong])
    with pytest.raises(TypeError, match="expected str or bytes"):
        recipe.features(wrong)


@pytest.mark.parametrize("text", ["four words of text", b"bytes"])
def test_one_text_in_place_of_a_sequence_is_a_type_error(text: Any) -> None:
    with pytest.raises(TypeError, match="found one"):
        fptext.fingerprint_many(text)


def test_the_record_of_the_default() -> None:
    assert DEFAULT_RECIPE.to_json() == {
        "name": "text-1",
        "version": 2,
        "html": "main-or-all",
        "normalisation": "nfkc-casefold",
        "tokens": "mixed",
        "stop_words": "",
        "stemming": "",
        "shingle": 2,
        "weights": "presence",
        "idf": "",
        "hash": "xxh3",
        "sketch": "minhash-1bit",
        "dense_shingle": 4,
    }


def test_a_field_that_came_later_is_in_the_record_only_where_it_differs() -> None:
    changed = dataclasses.replace(OLDER, seed=42, tie="set")
    assert changed.to_json() == OLDER.to_json() | {"seed": 42, "tie": "set"}
    assert Recipe.from_json(changed.to_json()) == changed
    assert Recipe.from_json(OLDER.to_json() | {"seed": 0, "tie": "clear", "sketch": "simhash"}) == OLDER
    assert dataclasses.replace(OLDER, seed=42) != OLDER != dataclasses.replace(OLDER, tie="set")


@given(some_recipes())
def test_a_recipe_survives_json(recipe: Recipe) -> None:
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


def test_a_recipe_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT_RECIPE.shingle = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "recipe name: found an empty string"),
        ({"name": 4}, "recipe name: found 4, expected str"),
        ({"version": True}, "recipe version: found True, expected int"),
        ({"html": "body"}, "recipe html: found 'body', expected main or main-or-all or all"),
        ({"normalisation": "nfc"}, "recipe normalisation: found 'nfc', expected nfkc-casefold or nfkc or lower"),
        ({"tokens": None}, "recipe tokens: found None, expected str"),
        (
            {"tokens": "lines"},
            "recipe tokens: found 'lines', expected words or mixed or characters or letters or chinese",
        ),
        ({"shingle": 0}, r"recipe shingle: found 0, expected 1\.\.64 tokens"),
        ({"shingle": 65}, r"recipe shingle: found 65, expected 1\.\.64 tokens"),
        ({"shingle": 4.0}, r"recipe shingle: found 4\.0, expected int"),
        ({"tokens": "whole"}, "recipe shingle: found 2, expected 1 for tokens whole"),
        ({"tokens": "characters", "stop_words": "en"}, "stop_words: found 'en', expected none for tokens characters"),
        ({"tokens": "letters", "stemming": "english"}, "stemming: found 'english', expected none for tokens letters"),
        ({"weights": "tf"}, "recipe weights: found 'tf', expected frequency or capped or log or presence or idf"),
        ({"idf": "0" * 64}, "recipe idf: found '0+', expected none for weights frequency"),
        ({"weights": "idf", "idf": "0" * 63}, "recipe idf: found '0+', expected 64 hexadecimal digits"),
        ({"weights": "idf", "idf": "X" * 64}, "recipe idf: found 'X+', expected 64 hexadecimal digits"),
        ({"seed": 1.0}, r"recipe seed: found 1\.0, expected int"),
        ({"seed": True}, "recipe seed: found True, expected int"),
        ({"seed": -1}, r"recipe seed: found -1, expected 0\.\.2\*\*64 - 1 for hash xxh3"),
        ({"seed": 1 << 64}, r"recipe seed: found 18446744073709551616, expected 0\.\.2\*\*64 - 1 for hash xxh3"),
        ({"seed": 1 << 32, "hash": "murmur3"}, r"found 4294967296, expected 0\.\.2\*\*32 - 1 for hash murmur3"),
        ({"seed": 42, "hash": "md5"}, "recipe seed: found 42, expected 0 for hash md5"),
        ({"tie": "one"}, "recipe tie: found 'one', expected clear or set"),
        ({"sketch": "other"}, "recipe sketch: found 'other', expected simhash or minhash-1bit or minhash"),
        ({"sketch": "minhash"}, "recipe weights: found 'frequency', expected presence for sketch minhash"),
        ({**SIGNING, "tie": "set"}, "recipe tie: found 'set', expected clear for sketch minhash"),
        ({**SIGNING, "values": 0}, r"recipe values: found 0, expected 1\.\.1024"),
        ({**SIGNING, "values": 1025}, r"recipe values: found 1025, expected 1\.\.1024"),
        ({**SIGNING, "values": "128"}, "recipe values: found '128', expected int"),
        ({**SIGNING, "values": True}, "recipe values: found True, expected int"),
        ({"values": 64}, "recipe values: found 64, expected 128 for sketch simhash"),
        ({**OF_SETS, "values": 64}, "recipe values: found 64, expected 128 for sketch minhash-1bit"),
        (
            {**SIGNING, "permutations": "other"},
            "permutations: found 'other', expected fpstore or datasketch-affine32 or datasketch-affine64 or"
            " datasketch-legacy or rensa",
        ),
        (
            {**SIGNING, "permutations": "rensa"},
            "recipe hash: found 'xxh3', expected fxhash for permutations rensa, which have no other",
        ),
        ({"permutations": "rensa", "hash": "fxhash"}, "found 'rensa', expected 'fpstore' for sketch simhash"),
        (
            {**SIGNING, "permutations": "rensa", "hash": "fxhash", "seed": 1 << 64},
            r"seed: found 18446744073709551616, expected 0\.\.2\*\*64 - 1 for permutations rensa",
        ),
        ({**SIGNING, "hash": "fxhash", "seed": 1}, "recipe seed: found 1, expected 0 for hash fxhash"),
        ({"permutations": "datasketch-legacy"}, "found 'datasketch-legacy', expected 'fpstore' for sketch simhash"),
        (
            {**SIGNING, "permutations": "datasketch-affine64", "seed": 1 << 32},
            r"recipe seed: found 4294967296, expected 0\.\.2\*\*32 - 1 for permutations datasketch-affine64",
        ),
        ({**SIGNING, "hash": "sha1", "seed": 1}, "recipe seed: found 1, expected 0 for hash sha1"),
        ({"sketch": "minhash-1bit"}, "weights: found 'frequency', expected presence for sketch minhash-1bit"),
        ({**OF_SETS, "tie": "set"}, "recipe tie: found 'set', expected clear for sketch minhash-1bit"),
        ({"dense_shingle": 5}, "recipe dense_shingle: found 5, expected 0 for tokens words"),
        ({"tokens": "mixed"}, r"recipe dense_shingle: found 0, expected 1\.\.64 for tokens mixed"),
        ({"tokens": "mixed", "dense_shingle": 65}, r"dense_shingle: found 65, expected 1\.\.64 for tokens mixed"),
        ({"dense_shingle": "5"}, "recipe dense_shingle: found '5', expected int"),
        ({"tokens": "mixed", "dense_shingle": 5, "stop_words": "en"}, "found 'en', expected none for tokens mixed"),
        ({"hash": "md4"}, "recipe hash: found 'md4', expected xxh3 or xxh64 or md5 or sha1 or sha256"),
    ],
)
def test_a_wrong_value_of_a_field_is_refused_by_name(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**(OLDER.to_json() | change))
    with pytest.raises(ValueError, match=message):
        Recipe.from_json(OLDER.to_json() | change)


def test_a_missing_field_and_an_unknown_one_are_refused() -> None:
    record = DEFAULT_RECIPE.to_json()
    with pytest.raises(ValueError, match=r"expected name, version, html, .* hash, and where they differ seed, tie"):
        Recipe.from_json(record | {"stemmer": "snowball"})
    del record["hash"]
    with pytest.raises(ValueError, match="expected name, version, html, normalisation"):
        Recipe.from_json(record)


@pytest.mark.parametrize("record", [None, [], "words-4", 1])
def test_a_record_that_is_no_object_is_refused(record: Any) -> None:
    with pytest.raises(ValueError, match="expected an object"):
        Recipe.from_json(record)


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (1, "made by an older fpstore; build again"),
        (0, "made by an older fpstore; build again"),
        (3, "made by a newer fpstore$"),
    ],
)
def test_another_version_is_unsupported_whatever_its_fields(version: int, advice: str) -> None:
    with pytest.raises(UnsupportedVersion, match=f"found {version}, expected 2; {advice}"):
        Recipe.from_json({"version": version, "something": "else"})
    with pytest.raises(UnsupportedVersion, match=f"found {version}, expected 2; {advice}"):
        Recipe("other", version=version)


def test_names_of_presets_are_their_own() -> None:
    assert all(preset.name == name for name, preset in recipes().items())
    assert recipes()[DEFAULT_RECIPE.name] is DEFAULT_RECIPE


# --- Asked for by name or file ---


def test_a_recipe_is_loaded_by_its_name_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(Recipe("own", shingle=3).to_json()))
    assert fptext.load_recipe("words-4") == recipes()["words-4"]
    assert fptext.load_recipe(tmp_path / "own.json") == Recipe("own", shingle=3)
    recipes().clear()
    assert "words-4" in recipes()


def test_a_model_is_learned_of_texts_and_loaded_with_a_recipe(tmp_path: Path) -> None:
    texts = [f"this is the text of number {number}" for number in range(20)]
    model = fptext.learn_idf(iter(texts), recipes()["simhash-1"])
    learner = Learner(recipes()["simhash-1"])
    for text in texts:
        learner.see(text)
    assert model.to_bytes() == learner.model().to_bytes()
    (tmp_path / "m.idf").write_bytes(model.to_bytes())
    loaded = fptext.load_recipe("simhash-1", idf=tmp_path / "m.idf")
    assert loaded == recipes()["simhash-1"].with_model(model)
    assert loaded.fingerprint(texts[3]) == recipes()["simhash-1"].with_model(model).fingerprint(texts[3])
    with pytest.raises(TypeError, match="texts: found one str"):
        fptext.learn_idf("one text", DEFAULT_RECIPE)
    with pytest.raises(TypeError, match="expected a Recipe"):
        fptext.learn_idf(texts, "words-4")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "error", "said"),
    [
        (None, RecipeError, "^recipe: found '.*none.json', expected one of text-1, .* or a JSON file$"),
        ("{", RecipeError, "^.*none.json: found no JSON"),
        ('{"name": "a", "name": "b"}', RecipeError, "none.json: found no JSON .found 'name' twice in an object"),
        ("[]", RecipeError, "^.*none.json: recipe: found list, expected an object"),
        (json.dumps(DEFAULT_RECIPE.to_json() | {"version": 1}), UnsupportedVersion, "^.*none.json: recipe version"),
        (
            json.dumps(recipes()["simhash-1"].to_json() | {"weights": "idf"}),
            RecipeError,
            "its weights are idf, expected --idf",
        ),
    ],
)
def test_what_is_no_recipe_is_refused_with_its_file(
    tmp_path: Path, record: str | None, error: type[Exception], said: str
) -> None:
    if record is not None:
        (tmp_path / "none.json").write_text(record)
    with pytest.raises(error, match=said):
        fptext.load_recipe(tmp_path / "none.json")


def test_a_model_of_other_steps_or_none_is_refused_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "m.idf").write_bytes(fptext.learn_idf(["one two three"], recipes()["words-4"]).to_bytes())
    with pytest.raises(RecipeError, match=f"^{tmp_path}/m.idf: idf model: found"):
        fptext.load_recipe("simhash-1", idf=tmp_path / "m.idf")
    (tmp_path / "m.idf").write_bytes(b"nothing")
    with pytest.raises(CorruptStore):
        fptext.load_recipe("simhash-1", idf=tmp_path / "m.idf")


def test_texts_are_any_iterable_of_them_and_threads_are_all_by_default() -> None:
    texts = [f"text number {number} of some" for number in range(300)]
    expected = [DEFAULT_RECIPE.fingerprint(text) for text in texts]
    for threads in (None, 1, 3):
        assert fptext.fingerprint_many(iter(texts), threads=threads).tolist() == expected
    with pytest.raises(TypeError, match="texts: found one bytes"):
        fptext.fingerprint_many(b"one")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="positional"):
        fptext.fingerprint_many(texts, DEFAULT_RECIPE, 2)  # type: ignore[call-arg]


@given(
    st.lists(st.sampled_from(["a", "B", "ab ", " ", "\n\t", "\x7f", "\0", "0" * 61, "é", "e\u0301", "中"]), max_size=60)
)
def test_characters_are_the_same_tokens_wherever_a_block_of_them_ends(parts: list[str]) -> None:
    text = "".join(parts)
    for recipe in (Recipe("one", tokens="characters", shingle=1, weights="log"), recipes()["multilingual"]):
        assert recipe.measure_many([text]).token_counts.tolist() == [len(plain_recipe.tokens_of(recipe, text))]
        assert recipe.features(text).hashes.tolist() == sorted(plain_recipe.features_of(recipe, text))


SIGNS = ["a", "B_9", "ab ", " ", "\n", "\x7f", "\0", "x" * 61, "+", "(=", "…", "é", "e\u0301", "=\u0338", "\u0301"]
MORE_SIGNS = [
    "中",
    "。",
    "क्षि",
    "ไทย",
    "😀",
    "👩\u200d🔬",
    "\u3000",
    "①",
    "𠀀",
    "\u0378",
    "\ud800",
    "\x1f",
    "한",
    "ﬁ",
    "½",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text-1", "code", "web-en", "simhash-1"])
@given(parts=st.lists(st.sampled_from([*SIGNS, *MORE_SIGNS]), max_size=90), times=st.sampled_from([1, 1, 40]))
def test_what_is_in_no_token_is_counted_wherever_a_block_of_it_ends(name: str, parts: list[str], times: int) -> None:
    recipe, text = recipes()[name], "".join(parts) * times
    measured = recipe.measure_many([text])
    assert measured.unseen.tolist() == [plain_recipe.unseen_of(recipe, text)]
    assert measured.distinct_counts.tolist() == [plain_recipe.distinct_of(recipe, text)]
