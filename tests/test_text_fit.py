"""What a recipe is weak on: a shingle that decides alone, scripts that it does not cut, texts without tokens."""

import random
import re
import unicodedata
from collections import Counter
from pathlib import Path
from string import ascii_lowercase
from typing import Literal

import numpy as np
import pytest
from helpers import FINGERPRINTING
from hypothesis import given
from hypothesis import strategies as st
from outcome import Command

from fpstore.inputs import read
from fpstore.text import Recipe, recipes
from fpstore.text.cleaning import stand_in
from fpstore.text.presets import FOR_STORED
from fpstore.text.recipe import Measured
from fpstore.text.scripts import is_cut_badly
from fpstore.text.short import Lengths

Form = Literal["NFC", "NFD", "NFKC"]
FAR = 20
ENGLISH = "The quick brown fox jumps over the lazy dog, as it always does in the end. "
CHINESE = "敏捷的棕色狐狸跳过了懒狗，然后回家，第二天又来了一次。"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. "
HINDI = "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। "
THAI = "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์"
JAPANESE = "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。"


def text_of(seed: int, words: int, repeated: int, token: str = "i") -> str:
    """Words that no other seed has, and one token as often as is said, here and there."""
    source = random.Random(seed)
    found = ["".join(source.choices(ascii_lowercase, k=9)) for _ in range(words)] + [token] * repeated
    source.shuffle(found)
    return " ".join(found)


def distance_of(name: str, texts: list[str]) -> int:
    first, second = recipes()[name].fingerprint_many(texts).tolist()
    return int((first ^ second).bit_count())


@pytest.mark.parametrize("name", [name for name in FINGERPRINTING if name not in FOR_STORED])
def test_two_percent_of_one_token_makes_no_two_texts_alike(name: str) -> None:
    assert distance_of(name, [text_of(seed, 5_000, 100) for seed in (1, 2)]) > FAR
    # In a row, as what a cleaner left of a table: the pair of them is one shingle.
    assert distance_of(name, [text_of(seed, 5_000, 0) + " i" * 100 for seed in (1, 2)]) > FAR


@pytest.mark.slow
@pytest.mark.parametrize("name", FINGERPRINTING)
def test_the_texts_that_made_one_fingerprint_make_two_but_by_weights_frequency(name: str) -> None:
    texts = [text_of(seed, 40_000, 0) + " i" * 800 for seed in (1, 2)]
    assert (distance_of(name, texts) > FAR) is (name not in FOR_STORED)
    assert distance_of("web-en", texts) == 0


@given(st.integers(0, 1 << 30), st.integers(0, 4_000))
def test_a_shingle_of_growing_weight_makes_no_two_texts_alike(seed: int, repeated: int) -> None:
    # Two unrelated texts are 32 bits apart, give or take 4: of so many draws some are at 20, none at 10.
    texts = [text_of(2 * seed, 300, 0) + " i" * repeated, text_of(2 * seed + 1, 300, 0) + " i" * repeated]
    for name in ("text-1", "words-4", "code", "simhash-1"):
        assert distance_of(name, texts) > 10


@given(st.integers(0, 1 << 30), st.integers(9, 4_000))
def test_how_often_a_shingle_is_repeated_changes_no_bit(seed: int, repeated: int) -> None:
    text = text_of(seed, 100, 0)
    for name in ("text-1", "words-4", "multilingual", "code", "zh"):
        assert distance_of(name, [text + " i" * 9, text + " i" * repeated]) == 0


@given(st.integers(0, 1 << 30), st.floats(0, 8))
def test_a_shingle_that_outweighs_the_rest_is_noticed(seed: int, times: float) -> None:
    recipe = Recipe("words", shingle=1)
    others = 900
    text = text_of(seed, others, round(times * others**0.5))
    weights = sorted(Counter(text.split()).values())
    bound = 3 * sum(weight**2 for weight in weights[:-1]) ** 0.5
    noticed = bool(recipe.measure_many([text]).outweighed[0])
    # As the sums show it: sure where it is well over the bound, and never where it is well below.
    if weights[-1] > 1.4 * bound:
        assert noticed
    if weights[-1] < 0.6 * bound:
        assert not noticed


@pytest.mark.parametrize("name", ["web-en", "pypi-simhash", "simhash-1", "text-1", "exact"])
def test_ordinary_texts_have_no_shingle_that_outweighs_the_rest(name: str) -> None:
    texts = ["", "one", "one two", ENGLISH, CHINESE, RUSSIAN, *(text_of(seed, 200, 0) for seed in range(40))]
    assert not recipes()[name].measure_many(texts).outweighed.any()


def test_shingles_that_decide_alone_are_counted_and_said_once(command: Command, tmp_path: Path) -> None:
    corpus = tmp_path / "a.jsonl"
    lines = [text_of(1, 400, 0), text_of(2, 400, 0) + " i" * 200, text_of(3, 400, 0) + " i" * 200]
    corpus.write_text("".join(f'{{"text": "{line}"}}\n' for line in lines))
    told = "2 of 3 texts repeat one shingle so often that it decides their fingerprint by recipe web-en"
    for arguments in (
        ("fingerprint", corpus),
        ("build", tmp_path / "s.fpstore", corpus),
        ("dedup", corpus, "-o", tmp_path / "kept.jsonl"),
    ):
        assert "repeat one shingle" not in command(*arguments).err
        force = [] if arguments[0] == "fingerprint" else ["--force"]
        assert command(*arguments, "--recipe", "web-en", *force).err.count(told) == 1


@pytest.mark.parametrize(
    ("name", "text", "is_bad"),
    [
        ("web-en", ENGLISH, False),
        ("web-en", RUSSIAN, False),
        ("web-en", unicodedata.normalize("NFD", "Café déjà vu à l'été"), False),
        ("web-en", CHINESE, True),
        ("web-en", JAPANESE, True),
        ("web-en", THAI, True),
        ("web-en", HINDI, True),
        ("web-en", "", False),
        ("web-en", "... 42 !", False),
        ("zh", CHINESE, False),
        ("zh", "T恤 and 棕色狐狸跳过了懒狗", False),
        ("zh", ENGLISH, True),
        ("zh", RUSSIAN, True),
        ("zh", THAI, True),
        ("zh", "... 42 !", False),
        ("text-1", CHINESE, False),
        ("text-1", HINDI, False),
        ("multilingual", THAI, False),
    ],
)
def test_scripts_that_a_recipe_does_not_cut_are_seen(name: str, text: str, is_bad: bool) -> None:
    assert is_cut_badly(text, recipes()[name].tokens) is is_bad
    lengths = Lengths(recipes()[name], 0)
    lengths.see([text], recipes()[name].measure_many([text]))
    assert ("text-1 is" in (lengths.warning or "")) is is_bad


def test_a_few_texts_of_another_script_are_not_spoken_of_and_many_once(command: Command, tmp_path: Path) -> None:
    corpus = tmp_path / "a.jsonl"
    for bad, is_told in ((1, False), (2, True)):
        texts = [text_of(seed, 200, 0) for seed in range(18)] + [f"{number}{CHINESE * 90}" for number in range(bad)]
        corpus.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts), encoding="utf-8")
        told = f"{bad} of {18 + bad} texts are in scripts that part no words"
        assert (told in command("fingerprint", corpus, "--recipe", "web-en").err) is is_told


def test_later_texts_are_looked_at_here_and_there() -> None:
    lengths = Lengths(recipes()["web-en"], 0)
    nothing = np.zeros(6000)
    counts = nothing.astype("u4")
    measured = Measured(nothing.astype("u8"), counts + 9, nothing > 0, counts, nothing)
    lengths.see([ENGLISH] * 3000 + [CHINESE] * 3000, measured)
    assert lengths.looked_at == 1024 + 64 * (5999 // 64 - 1023 // 64)
    assert lengths.weak["cut_badly"] == 64 * (5999 // 64 - 2999 // 64)
    again = Lengths(recipes()["web-en"], 0)
    again.go_on(lengths.state)
    assert {**vars(again), "_last": None} == {**vars(lengths), "_last": None}  # which is for moments


@pytest.mark.parametrize("is_first", [True, False])
def test_a_share_of_texts_is_told_wherever_in_the_input_they_are(is_first: bool) -> None:
    some_of, more_of = [CHINESE] * 2000, [ENGLISH] * 8000
    texts = some_of + more_of if is_first else more_of + some_of
    recipe = recipes()["web-en"]
    lengths = Lengths(recipe, 0)
    for start in range(0, len(texts), 700):
        some = texts[start : start + 700]
        lengths.see(some, recipe.measure_many(some))
    found = re.search(r"about (\d+) of (\d+) texts, by a sample, are in scripts", lengths.warning or "")
    assert found is not None
    assert abs(int(found[1]) / int(found[2]) - 0.2) < 0.01


def test_no_more_texts_are_told_of_than_there_are() -> None:
    recipe, texts = recipes()["web-en"], [CHINESE] * 1030  # the last that is looked at stands for 64
    lengths = Lengths(recipe, 0)
    lengths.see(texts, recipe.measure_many(texts))
    assert lengths.looked_at == 1024 + 64
    assert "about 1030 of 1030 texts, by a sample, are in scripts" in (lengths.warning or "")


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
@pytest.mark.parametrize("text", ["第３回，ガイドの漢字①。Ｔ恤，café！", "豈更車賈滑：我们在２０２４年来到北京。"])
@pytest.mark.parametrize("name", ["text-1", "zh", "multilingual", "words-4", "code", "simhash-1"])
def test_forms_of_one_text_have_one_fingerprint(name: str, text: str, form: Form) -> None:
    assert recipes()[name].fingerprint(unicodedata.normalize(form, text)) == recipes()[name].fingerprint(text)


@pytest.mark.parametrize("name", FINGERPRINTING)
def test_a_stand_in_has_no_token_and_tells_pages_apart(name: str) -> None:
    pages: list[str | bytes] = ["<p>", "<p></p>", b"<p>", b"\xff", ""]
    found = [stand_in(page) for page in pages]
    assert len(set(found)) == len(pages) - 1  # the first and the third are one page
    assert found[0] == found[2]
    measured = recipes()[name].measure_many(found)
    assert not measured.token_counts.any()
    if recipes()[name].parts_empty:
        prints = measured.fingerprints.tolist()
        assert all((a ^ b).bit_count() > 10 for a in prints for b in prints if a != b)
        assert len(set(prints)) == len(pages) - 1


def test_pages_without_text_are_near_their_equals_only_and_counted(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("resiliparse", reason="reads HTML")
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, page in (("a", "<p><img src=a>"), ("b", "<p><img src=b>"), ("c", "<p><img src=a>"), ("d", ENGLISH * 9)):
        (folder / f"{name}.html").write_text(page)
    reader = read([folder])
    a, b, c, _ = [value for batch in reader for value in batch.fingerprints.tolist()]
    assert a == c
    assert (a ^ b).bit_count() > 10
    counted = "3 pages without text, near none but those of the same bytes"
    store = tmp_path / "s.fpstore"
    outcome = command("build", store, folder)
    assert outcome.err.count(counted) == 1
    assert "have no token" not in outcome.err
    assert "3 of 4 texts have no token for recipe pypi-simhash: they cannot be told from each other" in (
        command("build", tmp_path / "t.fpstore", folder, "--recipe", "pypi-simhash").err
    )
    assert command("probe", store, "--html", "--text", "<p><img src=b>").out == f"{b:016x}\t{b:016x}\t0\t1\n"
    outcome = command("dedup", folder, "-o", tmp_path / "kept.jsonl")
    assert outcome.err.count(counted) == 1
    assert "1 dropped" in outcome.err or "dropped 1" in outcome.err
