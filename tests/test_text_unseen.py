"""What recipes do not see, as docs/choosing-a-recipe.md says, and that it is said."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from helpers import FINGERPRINTING
from outcome import Command

from fpstore.text import compare, recipes
from fpstore.text.short import Lengths, is_few

OPINION = "My opinion of this hotel where we stayed last week with our three children "
OF_WORDS = [name for name in FINGERPRINTING if name not in ("multilingual", "exact", "zh")]


def distance(name: str, one: str, other: str) -> int:
    return compare(one, other, recipes()[name]).distance


def row_of(words: list[str], count: int, seed: int) -> str:
    return " ".join(random.Random(seed).choices(words, k=count))


def formula(seed: int) -> str:
    signs = random.Random(seed).choices("+-*/<>=&|^%", k=39)
    return " ".join(f"x{number} {sign}" for number, sign in enumerate(signs))


def animals(seed: int) -> str:
    return "poem " + "".join(chr(code) for code in random.Random(seed).choices(range(0x1F400, 0x1F4FD), k=200))


@pytest.mark.parametrize("name", OF_WORDS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (OPINION + "★★★★★", OPINION + "★☆☆☆☆"),
        ("if (a < b) return x + 1; else return x - 1;", "if (a > b) return x - 1; else return x + 1;"),
        (formula(1), formula(2)),
        (animals(1), animals(2)),
    ],
    ids=["stars", "code", "formulas", "emoji"],
)
def test_texts_that_differ_in_signs_only_are_one_but_by_characters(name: str, one: str, other: str) -> None:
    found = compare(one, other, recipes()[name])
    assert (found.distance, found.jaccard, found.cosine) == (0, 1.0, 1.0)
    assert distance("multilingual", one, other) > 0
    assert distance("exact", one, other) > 10


@pytest.mark.parametrize(
    ("words", "count"),
    [([*"0123456789"], 3000), ([*"01"], 500), (["yes", "no"], 500), ([*"ACGT"], 1000)],
    ids=["digits", "bits", "answers", "DNA"],
)
def test_texts_of_few_different_words_are_one_but_by_equality(words: list[str], count: int) -> None:
    texts = [row_of(words, count, seed) for seed in range(100)]
    assert len(set(recipes()["text-1"].fingerprint_many(texts).tolist())) == 1
    assert compare(texts[0], texts[1], recipes()["text-1"]).jaccard == 1.0
    assert len(set(recipes()["exact"].fingerprint_many(texts).tolist())) == 100


def changed(first: int, last: int, seed: int) -> tuple[str, str]:
    source = random.Random(seed)
    letters = [chr(source.randint(first, last)) for _ in range(600)]
    text = "".join(letters)
    letters[300] = chr(first if ord(letters[300]) != first else last)
    return text, "".join(letters)


# Their letters, and whether each is a token.
SCRIPTS = {
    "Javanese": (0xA98F, 0xA9B2, False),
    "Balinese": (0x1B13, 0x1B33, False),
    "Tibetan": (0x0F49, 0x0F6C, False),
    "Tangut": (0x17000, 0x187F7, False),
    "Yi": (0xA000, 0xA48C, False),
    "Nushu": (0x1B170, 0x1B2FB, False),
    "Khitan": (0x18B00, 0x18CD5, False),
    "hieroglyphs": (0x13000, 0x1342E, False),
    "cuneiform": (0x12000, 0x12399, False),
    "emoji": (0x1F400, 0x1F4FD, False),
    "Braille": (0x2801, 0x28FF, False),
    "Chinese": (0x4E00, 0x9F00, True),
    "Japanese": (0x3042, 0x3093, True),
    "Thai": (0x0E01, 0x0E2E, True),
    "Lao": (0x0EA7, 0x0EAE, True),
    "Khmer": (0x1780, 0x17A2, True),
    "Burmese": (0x1000, 0x1020, True),
    "Tai Le": (0x1950, 0x196D, True),
    "Ahom": (0x11700, 0x1171A, True),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_changed_letter_is_found_in_scripts_of_letters_and_not_in_runs(script: str) -> None:
    first, last, is_found = SCRIPTS[script]
    pairs = [changed(first, last, seed) for seed in range(20)]
    found = {name: sum(distance(name, one, other) <= 6 for one, other in pairs) for name in ("multilingual", "text-1")}
    assert found["multilingual"] == 20
    assert (found["text-1"] == 20) if is_found else (found["text-1"] <= 4)


def test_titles_and_articles_in_a_large_frame_are_not_seen() -> None:
    pytest.importorskip("resiliparse", reason="reads HTML")
    recipe = recipes()["text-1"]
    pages = [f"<html><head><title>{word} of {word}</title></head><body><p>{OPINION}</p></body></html>" for word in "ab"]
    assert recipe.text_of(pages[0]) == recipe.text_of(pages[1])
    menu = "".join(f'<li><a href="/{number}">entry{number}</a></li>' for number in range(1000))
    articles = [" ".join(f"{prefix}word{number}" for number in range(60)) for prefix in ("one", "other")]
    framed = [
        f"<html><body><nav><ul>{menu}</ul></nav><article><p>{article}.</p></article></body></html>"
        for article in articles
    ]
    distances = {}
    for name in ("text-1", "web-en"):
        texts = [recipes()[name].text_of(page) for page in framed]
        distances[name] = distance(name, *texts)
    assert distances["text-1"] <= 6
    assert distances["web-en"] > 6


def test_pages_that_are_nearly_all_frame_are_told_of(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("resiliparse", reason="reads HTML")
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, entries in (("a", 1000), ("b", 1000), ("c", 300)):
        menu = "".join(f'<li><a href="/{number}">entry{number}</a></li>' for number in range(entries))
        article = " ".join(f"{name}word{number}" for number in range(60))
        page = f"<html><body><nav><ul>{menu}</ul></nav><article><p>{article}.</p></article></body></html>"
        (folder / f"{name}.html").write_text(page)
    counted = "2 pages with a main text of under a tenth of what is visible, near all others of that frame"
    kept = tmp_path / "kept.jsonl"
    assert command("dedup", folder, "-o", kept).err.count(counted) == 1
    assert "under a tenth" not in command("dedup", folder, "-o", kept, "--recipe", "web-en", "--force").err


def prose(seed: int, count: int = 300) -> str:
    """Words of a vocabulary in which some are much more common than others."""
    source = random.Random(seed)
    return ", ".join(f"word{int(1.5 ** source.uniform(0, 24))}" for _ in range(count))


def warning_of(name: str, texts: list[str]) -> str:
    recipe = recipes()[name]
    lengths = Lengths(recipe)
    lengths.see(texts, recipe.measure_many(texts))
    again = Lengths(recipe)
    again.go_on(lengths.state)
    assert again.warning == lengths.warning
    return lengths.warning or ""


ROWS = {
    "bits": ([*"01"], 500),
    "digits": ([*"0123456789"], 1000),
    "answers": (["yes", "no"], 100),
    "DNA": ([*"ACGT"], 300),
    "grades": ([*"12345"], 100),
}


@pytest.mark.parametrize("name", [name for name in FINGERPRINTING if name != "exact"])
def test_texts_of_few_different_words_are_told_of_and_prose_is_not(name: str) -> None:
    for case, (words, count) in ROWS.items():
        texts = [row_of(words, count, seed) for seed in range(9)] + [prose(1)]
        sampled = " looked at" * (name in ("web-en", "pypi-simhash"))
        told = f"9 of 10 texts{sampled} have few different shingles for their length"
        # Where many of a hundred such texts are kept apart, they are not told of: shingles of four words, or of
        # five characters, or letters without what is between them.
        if case in ("bits", "answers") or name in ("text-1", "zh", "simhash-1", "web-en"):
            assert told in warning_of(name, texts), case
            assert f"recipe {name} takes such texts for each other, recipe exact does not" in warning_of(name, texts)
    assert "few different" not in warning_of(name, [prose(seed) for seed in range(10)])
    assert "few different" not in warning_of(name, [row_of([*"01"], 9, 1)])


def test_by_equality_no_text_is_taken_for_another() -> None:
    assert warning_of("exact", [row_of([*"01"], 500, seed) for seed in range(9)]) == ""


@pytest.mark.parametrize(("few", "others", "is_told"), [(1, 9, True), (1, 10, False), (2, 18, True)])
def test_one_text_in_ten_of_few_different_words_or_of_signs_is_told_of(few: int, others: int, is_told: bool) -> None:
    rest = [prose(seed) for seed in range(others)]
    found = warning_of("text-1", rest + [row_of([*"01"], 500, seed) for seed in range(few)])
    assert (f"{few} of {few + others} texts have few different shingles" in found) is is_told
    found = warning_of("text-1", rest + [formula(seed) for seed in range(few)])
    assert (f"{few} of {few + others} texts have over a fifth of what is visible in no token" in found) is is_told


def test_few_is_less_than_the_power_of_three_quarters() -> None:
    distinct = np.array([0, 1, 7, 8, 9, 1, 8, 9])
    counts = np.array([16, 16, 16, 16, 16, 18, 18, 18])
    assert is_few(counts, distinct).tolist() == [False] * 5 + [True, True, False]
    assert is_few(np.array([10_000, 10_000]), np.array([999, 1001])).tolist() == [True, False]


@pytest.mark.parametrize("name", FINGERPRINTING)
def test_texts_of_signs_are_told_of_by_recipes_of_words_and_prose_is_not(name: str) -> None:
    sees = name in ("multilingual", "exact", "pypi-simhash")
    for texts in ([formula(seed) for seed in range(9)], [animals(seed) for seed in range(9)]):
        told = "9 of 9 texts have over a fifth of what is visible in no token, such as operators or emoji:"
        advice = f"recipe {name} does not see it, recipe multilingual does"
        assert (f"{told} {advice}" in warning_of(name, texts)) is not sees
    assert "no token" not in warning_of(name, [prose(seed) for seed in range(10)])


def test_a_job_says_once_what_it_does_not_see(command: Command, tmp_path: Path) -> None:
    corpus = tmp_path / "a.jsonl"
    texts = [row_of([*"01"], 500, seed) for seed in range(10)] + [formula(seed) for seed in range(10)]
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for arguments in (
        ("fingerprint", corpus),
        ("build", tmp_path / "s.fpstore", corpus),
        ("dedup", corpus, "-o", tmp_path / "kept.jsonl"),
        ("cluster", corpus, "-o", tmp_path / "clusters.tsv"),
    ):
        said = command(*arguments).err
        assert said.count("10 of 20 texts have few different shingles") == 1
        assert said.count("10 of 20 texts have over a fifth of what is visible in no token") == 1
    said = command("compare", "--text", texts[0], "--text", texts[1]).err
    assert "2 of 2 texts have few different shingles" in said
    assert "multilingual" in command("compare", "--text", texts[-1], "--text", texts[-2]).err
