"""Golden values: what presets make of texts, for good.

A value that changes is another step, so it needs a new VERSION in fpstore/text/recipe.py: stores keep fingerprints that
were made by this one. Before a release it is said in docs/format.md instead, under Versions. A value was checked with
tests/plain_recipe.py, which shares no code with the recipes.
"""

import plain_recipe
import pytest
from helpers import FINGERPRINTING

from fpstore.text import Recipe, recipes
from fpstore.text.idf import Learner

TEXTS = (
    "",
    "the quick brown fox jumps over the lazy dog",
    "Ｆｕｌｌ－ｗｉｄｔｈ and ﬁne print, İstanbul to Straße, 42 times",
    "敏捷的棕色狐狸跳过了懒狗，然后回家。T恤 3.14",
    "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "def f(x): return x_1 + 2  # é\n\tpass\r\n",
    "to be or not to be that is the question " * 20,
)

GOLDEN = {
    "text-1": (
        "2d06800538d394c2",
        "1ad95a82107ee220",
        "89c3743cc3899bc2",
        "01d0ca078d09d2e6",
        "aebbbf8635cfeda0",
        "2fa47401feb369f2",
        "06326191ce310cb3",
    ),
    "words-4": (
        "2d06800538d394c2",
        "724fe63fc6264b4e",
        "a2b6e7f86d99f4b6",
        "c3012e0abe74e446",
        "95ea9cb80b7fd361",
        "ba78de0284515ce5",
        "7811ba19f8e76dc1",
    ),
    "multilingual": (
        "2d06800538d394c2",
        "3c8c12fcbffdf60e",
        "436d03df8e37be10",
        "543e8a37c39b25b9",
        "5464b044bc0c9de9",
        "6315e809196f464a",
        "35c4b584fb6c6626",
    ),
    "zh": (
        "2d06800538d394c2",
        "1ad95a82107ee220",
        "a9df177ed7099183",
        "0ec2ab8351e3278b",
        "b716eef403baf335",
        "2fa47401feb369f2",
        "06326191ce310cb3",
    ),
    "code": (
        "2d06800538d394c2",
        "c15eb4f7c454cc76",
        "0cbde8b7086d126c",
        "4184aa03bd49d0c2",
        "fb6b0adc5a82e6d4",
        "da4e09296e382dc5",
        "8185ff8f1e4dfe3b",
    ),
    "exact": (
        "2d06800538d394c2",
        "e4541a9cacf545aa",
        "41f21bf46b6627ba",
        "59e4f8430e8b4e86",
        "165be9494faab8b0",
        "33f570f1fbfc89a1",
        "984441b34df91521",
    ),
    "simhash-1": (
        "2d06800538d394c2",
        "12bf80024a210544",
        "3ec954f0af15ce2a",
        "644dee919d100069",
        "a97d8696c76d0b6e",
        "13c70f617acba8f2",
        "e0034ede5d3c21ef",
    ),
    "web-en": (
        "2d06800538d394c2",
        "12bf80024a210544",
        "1cea53f08d05ce36",
        "c20a810190340721",
        "a97d8696c76d0b6e",
        "13c70f617acba8f2",
        "62634ad66c3d20c7",
    ),
    "pypi-simhash": (
        "e9800998ecf8427e",
        "2c2a1290908a898a",
        "3129e8114a2834a9",
        "909d812859c4b5e5",
        "35b13a2c91b7c335",
        "06312eef082c1bc6",
        "8b3dfd984bfbcb4b",
    ),
}
ENGLISH = Recipe("english", stop_words="en", stemming="english", shingle=2, hash="xxh64", weights="capped")
GOLDEN_ENGLISH = "54a00160342e4807"
GOLDEN_MODEL = "42ecf14e2a0d7c2287b373715bd1dbfc1bf836ca2bbcfa52c52140983b5f97ae"
GOLDEN_IDF = "8212868318d29267"
PAGE = (
    "<!DOCTYPE html><html><head><title>A page</title></head><body><nav><a href=/>Home</a> <a href=/b>About</a></nav>"
    "<article><h1>The quick brown fox</h1><p>jumps over the lazy dog, and then it jumps over the lazy dog again; the"
    " dog does not mind at all.</p></article><footer>Copyright</footer></body></html>"
)
GOLDEN_MAIN = (
    "The quick brown fox\n"
    "\n"
    "jumps over the lazy dog, and then it jumps over the lazy dog again; the dog does not mind at all."
)
GOLDEN_ALL = (
    "Home About\n"
    "\n"
    "The quick brown fox\n"
    "\n"
    "jumps over the lazy dog, and then it jumps over the lazy dog again; the dog does not mind at all.\n"
    "\n"
    "Copyright"
)


def test_every_preset_has_golden_values() -> None:
    assert {*GOLDEN} == {*FINGERPRINTING}


@pytest.mark.parametrize("name", GOLDEN)
def test_presets_never_change(name: str) -> None:
    recipe = recipes()[name]
    assert tuple(f"{recipe.fingerprint(text):016x}" for text in TEXTS) == GOLDEN[name]
    assert tuple(f"{recipe.fingerprint(text.encode()):016x}" for text in TEXTS) == GOLDEN[name]
    assert tuple(f"{plain_recipe.fingerprint_of(recipe, text):016x}" for text in TEXTS) == GOLDEN[name]


@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "pypi-simhash"])
def test_a_text_without_tokens_has_the_hash_of_its_bytes_by_these(name: str) -> None:
    # XXH3 of nothing, and of two signs; `exact` takes any text as one token but one of white space.
    recipe, blank = recipes()[name], "  " if name in ("exact", "multilingual") else "?!"
    assert recipe.measure_many(["", blank]).token_counts.tolist() == [0, 0]
    expected = {"": 0x2D06800538D394C2, "  ": 0x6C7385F3B5168E8C, "?!": 0xA04B89A0095C83F5}
    assert [recipe.fingerprint(text) for text in ("", blank)] == [expected[""], expected[blank]]


def test_stop_words_and_stems_never_change() -> None:
    assert f"{ENGLISH.fingerprint('The cats are running, and ponies were eating apples'):016x}" == GOLDEN_ENGLISH


def test_weights_of_a_model_never_change() -> None:
    learner = Learner(Recipe("words", shingle=1))
    for text in TEXTS:
        learner.see(text)
    model = learner.model()
    assert model.checksum == GOLDEN_MODEL
    assert f"{Recipe('words', shingle=1).with_model(model).fingerprint(TEXTS[1]):016x}" == GOLDEN_IDF


def test_the_text_of_a_page_never_changes() -> None:
    assert Recipe("main").text_of(PAGE) == GOLDEN_MAIN
    assert Recipe("all", html="all").text_of(PAGE.encode()) == GOLDEN_ALL
