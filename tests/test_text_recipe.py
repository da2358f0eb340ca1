"""The recipe: equal to its plain twin, its edges, its record."""

import dataclasses
import json
import re
import unicodedata

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from fpstore import text as fptext
from fpstore.errors import UnsupportedVersion
from fpstore.text import DEFAULT, Recipe


def xxh(shingle):
    return xxhash.xxh64_intdigest(shingle.encode())


def twin(text, shingle=4):
    """The recipe in the plainest Python: re, the xxhash package, and ints."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    if not words:
        return 0
    count = max(len(words) - shingle, 0) + 1
    hashes = [xxh(" ".join(words[i : i + shingle])) for i in range(count)]
    sums = [sum(1 if h >> bit & 1 else -1 for h in hashes) for bit in range(64)]
    return sum(1 << bit for bit in range(64) if sums[bit] > 0)


WORDY = st.lists(st.text(min_size=1, max_size=8), max_size=40).map(" ".join)


@given(st.text(max_size=300) | WORDY, st.integers(1, 64))
@example("ﬁne ＦＵＬＬ width ① ²³ ǅ ß ẞ İstanbul Σίσυφος", 2)
@example("\ud800 lone \udfff surrogates \ud83d here", 1)
@example("nul\0between\0words and_under_scores 日本語 テキスト 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀𠀁", 3)
def test_fingerprint_equals_the_plain_twin_on_any_unicode_text(text, shingle):
    assert Recipe("any", shingle=shingle).fingerprint(text) == twin(text, shingle)


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=300), st.integers(1, 6))
def test_ascii_shortcut_equals_the_plain_twin(text, shingle):
    assert Recipe("any", shingle=shingle).fingerprint(text) == twin(text, shingle)


def test_every_character_of_unicode_is_a_word_character_exactly_when_re_says_so():
    for start in range(0, 0x110000, 0x1000):
        text = "".join(f"{chr(code)} " for code in range(start, start + 0x1000))
        assert Recipe("letters", shingle=1).fingerprint(text) == twin(text, 1), hex(start)


@pytest.mark.parametrize("shingle", [1, 2, 4, 64])
def test_words_longer_than_the_buffer_are_hashed_whole(shingle):
    rng = np.random.default_rng(7)
    sizes = [*rng.integers(1, 60_000, 70), 16_383, 16_384, 16_385, 8_192]
    text = " ".join("ab"[size & 1] * int(size) for size in sizes)
    assert Recipe("long", shingle=shingle).fingerprint(text) == twin(text, shingle)


@pytest.mark.parametrize("pad", range(16_370, 16_390))
def test_a_word_that_ends_where_the_buffer_does_is_hashed_whole(pad):
    text = "x" * pad + " é" + "𝄞日" * 3 + " one two three four"
    assert fptext.fingerprint(text) == twin(text)


def test_more_than_255_shingles_are_summed_without_overflow():
    text = " ".join(str(number) for number in range(3 * 255 + 3 + 1))
    assert fptext.fingerprint(text) == twin(text)
    assert fptext.fingerprint("same same same same " * 1000) == xxh("same same same same")


@pytest.mark.parametrize("text", ["", " ", "\0", "... --- !!!", "\ud800", "\u200b\ufeff"])
def test_a_text_without_words_has_the_fingerprint_zero(text):
    assert fptext.fingerprint(text) == 0


@pytest.mark.parametrize(("text", "shingle"), [("One", "one"), ("one, TWO", "one two"), ("a b c", "a b c")])
def test_a_text_with_fewer_than_four_words_is_one_shingle_of_all_of_them(text, shingle):
    assert fptext.fingerprint(text) == xxh(shingle)


def test_a_text_of_four_words_is_one_shingle():
    assert fptext.fingerprint("The quick brown fox!") == xxh("the quick brown fox")


def test_a_tie_leaves_the_bit_clear():
    one, two = (xxh(word) for word in ("one", "two"))
    assert Recipe("words", shingle=1).fingerprint("one two") == one & two


def test_a_shingle_that_occurs_twice_counts_twice():
    one, two = (xxh(word) for word in ("one", "two"))
    assert one != two
    assert Recipe("words", shingle=1).fingerprint("one two one") == one


# Golden values: a change of any of them is a change of the recipe, and needs a new version.
GOLDEN = {
    "the quick brown fox jumps over the lazy dog": "8308084834310113",
    "Ｆｕｌｌ－ｗｉｄｔｈ and ﬁne print, İstanbul to Straße, 42 times": "a493940838630522",
    "敏捷的棕色狐狸 跳过了 懒狗 然后 回家": "31b30a008c6290a0",
    "Съешь же ещё этих мягких французских булок, да выпей чаю": "b70572f13c3b38ad",
    "to be or not to be that is the question " * 20: "3134c2b079f5a592",
}


@pytest.mark.parametrize(("text", "expected"), GOLDEN.items())
def test_golden_fingerprints_never_change(text, expected):
    assert f"{fptext.fingerprint(text):016x}" == expected
    assert f"{twin(text):016x}" == expected


@given(st.lists(st.text(max_size=60), max_size=20))
def test_fingerprint_many_equals_fingerprint_of_each(texts):
    many = fptext.fingerprint_many(texts)
    assert many.dtype == np.uint64
    assert many.tolist() == [fptext.fingerprint(text) for text in texts]


@pytest.mark.parametrize("wrong", [b"bytes", None, 7])
def test_what_is_not_a_str_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="expected str"):
        fptext.fingerprint(wrong)
    with pytest.raises(TypeError, match="expected str"):
        fptext.fingerprint_many(["fine", wrong])


def test_one_str_in_place_of_a_sequence_is_a_type_error():
    with pytest.raises(TypeError, match="found one str"):
        fptext.fingerprint_many("four words of text")


def test_the_default_is_words_4_version_1():
    assert DEFAULT.to_json() == {
        "name": "words-4",
        "version": 1,
        "normalisation": "nfkc-casefold",
        "tokens": "words",
        "shingle": 4,
        "weights": "frequency",
        "hash": "xxh64",
    }


def test_a_recipe_survives_json():
    recipe = Recipe("mine", shingle=2)
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


def test_a_recipe_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT.shingle = 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "recipe name: found an empty string"),
        ({"name": 4}, "recipe name: found 4, expected str"),
        ({"version": 0}, "recipe version: found 0, expected 1"),
        ({"version": True}, "recipe version: found True, expected int"),
        ({"normalisation": "nfc"}, "recipe normalisation: found 'nfc', expected nfkc-casefold"),
        ({"tokens": None}, "recipe tokens: found None, expected str"),
        ({"shingle": 0}, r"recipe shingle: found 0, expected 1\.\.64 words"),
        ({"shingle": 65}, r"recipe shingle: found 65, expected 1\.\.64 words"),
        ({"shingle": 4.0}, r"recipe shingle: found 4\.0, expected int"),
        ({"weights": "idf"}, "recipe weights: found 'idf', expected frequency"),
        ({"hash": "md5"}, "recipe hash: found 'md5', expected xxh64"),
    ],
)
def test_a_wrong_value_of_a_field_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**(DEFAULT.to_json() | change))
    with pytest.raises(ValueError, match=message):
        Recipe.from_json(DEFAULT.to_json() | change)


def test_a_missing_field_and_an_unknown_one_are_refused():
    record = DEFAULT.to_json()
    with pytest.raises(ValueError, match="expected name, version, normalisation"):
        Recipe.from_json(record | {"stemmer": "snowball"})
    del record["hash"]
    with pytest.raises(ValueError, match="expected name, version, normalisation"):
        Recipe.from_json(record)


@pytest.mark.parametrize("record", [None, [], "words-4", 1])
def test_a_record_that_is_no_object_is_refused(record):
    with pytest.raises(ValueError, match="expected an object"):
        Recipe.from_json(record)


def test_a_newer_version_is_unsupported_whatever_its_fields():
    with pytest.raises(UnsupportedVersion, match="found 2, expected at most 1"):
        Recipe.from_json({"version": 2, "something": "new"})
    with pytest.raises(UnsupportedVersion, match="found 2, expected at most 1"):
        Recipe("future", version=2)
