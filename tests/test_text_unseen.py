"""What recipes do not see, as docs/choosing-a-recipe.md says."""

import random

import pytest

from fpstore.text import compare, recipes

OPINION = "My opinion of this hotel where we stayed last week with our three children "
OF_WORDS = [name for name in recipes() if name not in ("multilingual", "exact", "zh")]


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
