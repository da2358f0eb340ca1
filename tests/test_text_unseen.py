"""What recipes do not see, as docs/choosing-a-recipe.md says, and that it is said."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import FINGERPRINTING
from outcome import Command

from fpstore.text import compare, dedup, recipes, saturation
from fpstore.text.packed import Texts
from fpstore.text.recipe import Recipe
from fpstore.text.saturation import can_be_few, is_few
from fpstore.text.short import Lengths

OPINION = "My opinion of this hotel where we stayed last week with our three children "
OF_WORDS = [name for name in FINGERPRINTING if name not in ("multilingual", "exact", "zh")]


def distance(name: str, one: str, other: str) -> int:
    return int(compare(one, other, recipes()[name]).distance)


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


def page_of(name: str, entries: int, own: int) -> str:
    menu = "".join(f'<li><a href="/{number}">entry{number}</a></li>' for number in range(entries))
    article = " ".join(f"{name}word{number}" for number in range(own))
    return f"<html><body><nav><ul>{menu}</ul></nav><article><p>{article}.</p></article></body></html>"


def test_pages_that_are_nearly_all_frame_are_told_of_and_the_advice_keeps_them(
    command: Command, tmp_path: Path
) -> None:
    pytest.importorskip("resiliparse", reason="reads HTML")
    folder = tmp_path / "pages"
    folder.mkdir()
    # The main text of the last but one is of 19 letters, far under what is taken alone. The last has none.
    sizes = (("a", 1000, 60), ("b", 1000, 60), ("c", 300, 60), ("d", 1000, 12), ("e", 1000, 3))
    for name, entries, own in sizes:
        (folder / f"{name}.html").write_text(page_of(name, entries, own))
    (folder / "f.html").write_text(page_of("f", 1000, 0).replace("<article><p>.</p></article>", ""))
    counted = "4 pages with a main text of under a tenth of what is visible, near all others of that frame"
    kept = tmp_path / "kept.jsonl"
    found = command("dedup", folder, "-o", kept)
    assert found.err.count(counted) == 1
    assert "dropped 4" in found.err
    # As it is advised.
    recipe = tmp_path / "main.json"
    printed = command("recipe", "text-1").out
    recipe.write_text(json.dumps(json.loads(printed) | {"name": "main", "html": "main"}))
    assert '(not so by a recipe file with "html": "main"; fpstore recipe text-1 prints one to start from)' in found.err
    for name in ("web-en", str(recipe)):
        found = command("dedup", folder, "-o", kept, "--recipe", name, "--force")
        assert "under a tenth" not in found.err
        assert "dropped 0" in found.err


def test_a_page_without_a_main_text_of_its_own_is_not_told_of(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("resiliparse", reason="reads HTML")
    folder = tmp_path / "pages"
    folder.mkdir()
    links = "".join(f'<a href="/{number}">entry{number}</a> ' for number in range(400))
    for name in "ab":
        page = f"<html><body><div>{links}</div><div><span>{name}word of {name}</span><b>9.99</b></div></body></html>"
        (folder / f"{name}.html").write_text(page)
    found = command("dedup", folder, "-o", tmp_path / "kept.jsonl")
    assert "dropped 1" in found.err
    assert "under a tenth" not in found.err


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


def letters(count: int, seed: int) -> str:
    """DNA as words of three letters, each of which begins with the last two of the one before."""
    strand = "".join(random.Random(seed).choices("ACGT", k=count + 2))
    return " ".join(strand[at : at + 3] for at in range(count))


DIGITS, NUMBERS, MORE = [*"0123456789"], [str(number) for number in range(20)], [str(number) for number in range(30)]
CODES = ["sun", "cloud", "rain", "fog", "snow", "wind", "storm", "hail"]
# How many words, of which there are how many, and the recipe that is advised.
ROWS = {
    "bits": ([*"01"], 500, "exact"),
    "answers": (["yes", "no"], 100, "exact"),
    "DNA": ([*"ACGT"], 600, "exact"),
    "grades": ([*"12345"], 80, "words-4"),
    "codes": (CODES, 250, "words-4"),
    "digits": (DIGITS, 300, "words-4"),
    "many digits": (DIGITS, 30_000, "exact"),
    "numbers": (NUMBERS, 1200, "words-4"),
    "many numbers": (NUMBERS, 3400, "words-4"),
    "more numbers": (MORE, 4000, "words-4"),
}


@pytest.mark.parametrize("case", ROWS)
def test_texts_of_few_different_words_are_told_of_where_they_are_dropped_and_the_advice_keeps_them(case: str) -> None:
    words, count, advice = ROWS[case]
    texts = [row_of(words, count, seed) for seed in range(30)]
    assert len(dedup(texts).kept) < 5
    found = warning_of("text-1", [*texts[:9], prose(1)])
    share = int(found.split(" of 10 texts have few different shingles for their length")[0])
    assert share in (8, 9)
    assert f"recipe text-1 takes such texts for each other, recipe {advice} does not" in found
    assert len(dedup(texts, recipe=recipes()[advice]).kept) > 28


@pytest.mark.parametrize("name", ["text-1", "simhash-1", "web-en", "zh", "pypi-simhash", "multilingual"])
def test_rows_of_digits_are_told_of_by_the_recipes_that_drop_them(name: str) -> None:
    texts = [row_of(DIGITS, 600, seed) for seed in range(100)]
    drops = len(dedup(texts, recipe=recipes()[name]).kept) < 90
    assert drops is (name not in ("pypi-simhash", "multilingual"))
    assert ("100 of 100 texts have few different" in warning_of(name, texts)) is drops


@pytest.mark.parametrize("name", ["text-1", "multilingual", "words-4"])
def test_words_that_overlap_are_few_by_the_recipes_that_take_them_for_each_other(name: str) -> None:
    texts = [letters(800, seed) for seed in range(20)]
    is_told = name != "words-4"
    assert (len(dedup(texts, recipe=recipes()[name]).kept) < 5) is is_told
    found = warning_of(name, texts)
    assert ("20 of 20 texts have few" in found and "recipe words-4 does not" in found) is is_told


@pytest.mark.parametrize("name", [name for name in FINGERPRINTING if name != "exact"])
def test_texts_of_0_and_1_are_told_of_by_every_recipe_and_prose_is_not(name: str) -> None:
    texts = [row_of([*"01"], 500, seed) for seed in range(9)] + [prose(1)]
    told = "9 of 10 texts have few different shingles for their length, as rows of digits or of answers have: recipe"
    assert f"{told} {name} takes such texts for each other, recipe exact does not" in warning_of(name, texts)
    assert "few different" not in warning_of(name, [prose(seed) for seed in range(10)])
    assert "few different" not in warning_of(name, [row_of([*"01"], 9, seed) for seed in range(10)])


@pytest.mark.parametrize("count", [8, 16, 24])
def test_texts_are_few_from_where_unrelated_ones_are_alike(count: int) -> None:
    # Of D pairs, n tokens have the share p = 1 - exp(-n / D), and two texts the similarity p / (2 - p).
    words, pairs = [str(number) for number in range(count)], count**2
    for times, expected in ((1.6, 0), (3.2, 20)):
        texts = [row_of(words, round(times * pairs), seed) for seed in range(20)]
        assert abs(sum(is_few(recipes()["text-1"], text) for text in texts) - expected) <= 1


def own_words(count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return [f"own{source.randrange(10**9)}" for _ in range(count)]


@pytest.mark.parametrize("name", [name for name in FINGERPRINTING if name not in ("exact", "pypi-simhash", "web-en")])
def test_what_a_text_repeats_of_its_own_is_not_few(name: str) -> None:
    refrains = [" ".join(own_words(20, seed) * 15) for seed in range(3)]
    twice = [" ".join([prose(seed)] * 2) for seed in range(3)]
    chinese = [
        "".join(random.Random(seed).choices([chr(0x4E00 + at) for at in range(999)], k=2000)) * 2 for seed in "ab"
    ]
    for texts in (refrains, twice, chinese):
        assert not any(is_few(recipes()[name], text) for text in texts)


def test_long_texts_of_few_words_are_few_and_of_ever_more_words_are_not_looked_at_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = [row_of([f"value{number}" for number in range(count)], 9000, 1) for count in (10, 30, 60)]
    assert [is_few(recipes()["text-1"], text) for text in few] == [True] * 3
    monkeypatch.setattr(saturation, "_alike", None)  # is not called
    assert not is_few(recipes()["text-1"], " ".join(own_words(2000, 1)))


def test_only_texts_that_can_be_few_are_looked_at() -> None:
    texts = [row_of([*"01"], 17, 1), row_of([*"01"], 18, 1), " ".join(own_words(90, 1)), prose(1)]
    for name, expected in (("text-1", [False, True, False, False]), ("web-en", [False, True, True, True])):
        measured = recipes()[name].measure_many(texts)
        assert can_be_few(measured, np.arange(len(texts))).tolist() == expected


@pytest.mark.parametrize("name", ["text-1", "words-4", "multilingual", "simhash-1"])
def test_what_is_few_can_be_few(name: str) -> None:
    for words, count, _ in ROWS.values():
        texts = [row_of(words, length, seed) for seed, length in enumerate((18, 30, count // 2, count))]
        measured = recipes()[name].measure_many(texts)
        few = [at for at, text in enumerate(texts) if is_few(recipes()[name], text)]
        assert can_be_few(measured, np.array(few, dtype=np.int64)).all()


def test_halves_without_a_shingle_are_not_alike() -> None:
    assert not is_few(Recipe("words"), "one " + "." * 90 + " two")


def test_by_equality_no_text_is_taken_for_another() -> None:
    assert warning_of("exact", [row_of([*"01"], 500, seed) for seed in range(9)]) == ""


@pytest.mark.parametrize(("few", "others", "is_told"), [(1, 9, True), (1, 10, False), (2, 18, True)])
def test_one_text_in_ten_of_few_different_words_or_of_signs_is_told_of(few: int, others: int, is_told: bool) -> None:
    rest = [prose(seed) for seed in range(others)]
    found = warning_of("text-1", rest + [row_of([*"01"], 500, seed) for seed in range(few)])
    assert (f"{few} of {few + others} texts have few different shingles" in found) is is_told
    found = warning_of("text-1", rest + [formula(seed) for seed in range(few)])
    assert (f"{few} of {few + others} texts have over a fifth of what is visible in no token" in found) is is_told


@pytest.mark.parametrize("name", FINGERPRINTING)
def test_texts_of_signs_are_told_of_by_recipes_of_words_and_prose_is_not(name: str) -> None:
    sees = name in ("multilingual", "exact", "pypi-simhash")
    for texts in ([formula(seed) for seed in range(9)], [animals(seed) for seed in range(9)]):
        told = "9 of 9 texts have over a fifth of what is visible in no token, such as operators or emoji:"
        advice = f"recipe {name} does not see it, recipe multilingual does"
        assert (f"{told} {advice}" in warning_of(name, texts)) is not sees
    assert "no token" not in warning_of(name, [prose(seed) for seed in range(10)])


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_a_job_says_once_what_it_does_not_see(command: Command, tmp_path: Path) -> None:
    texts = [row_of([*"01"], 500, seed) for seed in range(10)] + [formula(seed) for seed in range(10)]
    corpus = write(tmp_path / "a.jsonl", texts)
    for arguments in (
        ("fingerprint", corpus),
        ("build", tmp_path / "s.fpstore", corpus),
        ("cluster", corpus, "-o", tmp_path / "clusters.tsv"),
    ):
        said = command(*arguments).err
        assert said.count("10 of 20 texts have few different shingles") == 1
        assert said.count("10 of 20 texts have over a fifth of what is visible in no token") == 1
    said = command("dedup", corpus, "-o", tmp_path / "kept.jsonl").err
    assert said.count("9 of 18 texts that were dropped for one that is not equal have few different shingles") == 1
    assert said.count("9 of 18 texts that were dropped for one that is not equal have over a fifth") == 1
    said = command("compare", "--text", texts[0], "--text", texts[1]).err
    assert "2 of 2 texts have few different shingles" in said
    assert "multilingual" in command("compare", "--text", texts[-1], "--text", texts[-2]).err


@pytest.mark.parametrize("options", [(), ("--keep", "longest"), ("--confirm", "none"), ("--tag",)])
def test_what_was_dropped_is_told_of_however_few_of_all_it_is(
    command: Command, tmp_path: Path, options: tuple[str, ...]
) -> None:
    others = [" ".join(own_words(40, seed)) for seed in range(300)]
    for weak, is_told in ((21, True), (20, False)):
        texts = others + [row_of([*"01"], 500, seed) for seed in range(weak)]
        corpus = write(tmp_path / f"{weak}.jsonl", texts)
        said = command("dedup", corpus, "-o", tmp_path / "kept.jsonl", "--force", *options).err
        told = f"{weak - 1} of {weak - 1} texts that were dropped for one that is not equal have few different"
        assert (told in said) is is_told
        assert ("few different" in said) is is_told


def test_what_was_dropped_before_an_interruption_is_told_of_at_the_end(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_DOCUMENTS", 8)
    corpus = write(tmp_path / "a.jsonl", [row_of([*"01"], 500, seed) for seed in range(30)])
    corpus.write_text(corpus.read_text() + "{bad\n")
    interrupted = command("dedup", corpus, "-o", tmp_path / "kept.jsonl")
    assert "few different" not in interrupted.err
    assert "kept.jsonl.job" in interrupted.err
    said = command("dedup", corpus, "-o", tmp_path / "kept.jsonl", "--skip-bad").err
    assert "29 of 29 texts that were dropped for one that is not equal have few different" in said


def test_of_dropped_texts_one_in_ten_is_worth_a_word() -> None:
    rows = [row_of([*"01"], 500, seed) for seed in range(40)]
    for others, is_told in ((360, True), (361, False)):
        lengths = Lengths(recipes()["text-1"], drops=True)
        lengths.texts = lengths.looked_at = 10_000
        dropped = rows + [prose(seed) for seed in range(others)]
        lengths.see_dropped(dropped, range(len(dropped)), lambda some: [None] * len(some))
        told = f"40 of {40 + others} texts that were dropped for one that is not equal have few different shingles"
        assert (told in (lengths.warning or "")) is is_told


@pytest.mark.parametrize("name", ["text-1", "web-en"])
def test_of_dropped_texts_the_same_is_told_however_they_are_given(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes()[name]
    texts = [
        row_of([*"01"], 500, 1),
        prose(2) + " \u4e2d\u6587",
        prose(1),
        row_of([*"01"], 9000, 2),
        "++ -- " * 40 + "a b c",
    ]
    texts = [text for text in texts for _ in range(5)]
    kept = [text if number % 5 == 0 else None if number % 5 == 1 else "another" for number, text in enumerate(texts)]
    places = [number for number in range(len(texts)) if number != 1]
    looked_at: list[int] = []
    look = saturation.few_among

    def counted(recipe: Recipe, texts: Sequence[str], indexes: Sequence[int]) -> list[int]:
        looked_at.extend(indexes)
        return look(recipe, texts, indexes)

    monkeypatch.setattr(saturation, "few_among", counted)
    found = []
    for given in (texts, Texts.pack(text.encode() for text in texts)):
        for is_known in (True, False):
            measured = recipe.measure_many(given)
            lengths = Lengths(recipe, drops=True)
            lengths.see(given, measured)
            told = measured if is_known else None
            looked_at.clear()
            lengths.see_dropped(given, places, lambda some: [kept[places[at]] for at in some], told)
            assert (looked_at == []) is is_known  # no text is looked at twice
            found.append(lengths.state)
    assert found[1:] == found[:1] * 3
    assert (found[0]["dropped"], found[0]["unequal"]) == (24, 19)
    assert found[0]["dropped_weak"]["few"] == 7


def test_dropped_texts_are_sampled_as_others_are() -> None:
    rows = [row_of([*"01"], 100, seed) for seed in range(40)]
    lengths = Lengths(recipes()["text-1"], drops=True)
    for _ in range(70):
        lengths.see_dropped(rows, range(len(rows)), lambda some: ["another"] * len(some))
        again = Lengths(recipes()["text-1"], drops=True)
        again.go_on(json.loads(json.dumps(lengths.state)))
        assert vars(again) == vars(lengths)
        lengths = again
    assert lengths.dropped == 2800
    assert lengths.unequal == lengths.dropped_weak["few"] == 1024 + 64 * (2799 // 64 - 1023 // 64)
    assert "about 2800 of 2800 texts that were dropped" in (lengths.warning or "")  # no more than there were


@pytest.mark.parametrize("kind", ["rows", "formulas"])
def test_copies_that_are_dropped_and_weak_texts_that_are_kept_are_nothing_to_tell_of(
    command: Command, tmp_path: Path, kind: str
) -> None:
    if kind == "rows":
        texts = [row_of([*"01"], 500, 1)] * 30
    else:
        texts = [f"{' '.join(own_words(20, seed))} {'+ - * / = ' * 30}" for seed in range(30)] * 2
    said = command("dedup", write(tmp_path / "a.jsonl", texts), "-o", tmp_path / "kept.jsonl").err
    assert "warning" not in said
    said = command("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "kept.jsonl", "--confirm", "none", "--force").err
    assert "dropped for one that is not equal" in said  # whether it is equal nobody knows


def test_a_text_is_told_of_once() -> None:
    # Rows of answers with commas have much in no token, and few words; the last are short for k = 3, too.
    for texts, told in (
        ([",".join(row_of([*"12345"], 480, seed).split()) for seed in range(9)], "few different"),
        (["... --- ..."] * 9, "have no token"),
        ([row_of([*"01"], 30, seed) for seed in range(20)], "few different"),
        (["a word or two +-*/+-*/+-*/"] * 9, "in no token"),
        (["x ++ y"] * 9, "in no token"),
    ):
        for name in ("text-1", "zh"):
            found = warning_of(name, texts)
            assert told in found
            assert len(re.findall(r"\d+ of \d+ texts", found)) == 1, found
