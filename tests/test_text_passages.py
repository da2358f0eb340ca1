"""Passages in which two texts differ: what is told by them is what the shingles of both texts say."""

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs_model import lines_of, write_jsonl

from fpstore.jobs import dedup
from fpstore.text import Recipe, confirm, load_recipe
from fpstore.text._passages import apart
from fpstore.text.confirm import Rooms
from fpstore.text.held import HeldHashes, KeptHashes, Room
from fpstore.text.packed import Texts, offsets_of
from fpstore.text.passages import replaced, tells_apart

# Marks, what NFKC composes and parts, letters that are tokens by themselves, and joiners, wherever they may stand.
BITS = [
    "a",
    "B",
    "x1",
    "_",
    "-",
    ".",
    "é",
    "e\u0301",
    "\u0301",
    "\u00a8",
    "\ufb01",
    "\u00bd",
    "ß",
    "ς",
    "\u200d",
    "\u00a0",
    "\u3000",
    "\t",
    "\n",
    "漢",
    "字",
    "か\u3099",
    "ก",
    "ำ",
    "\U0001f600",
    "각",
    "\u1100\u1161",
    "9",
]
RECIPES = [
    Recipe("own", tokens=tokens, shingle=shingle, normalisation=normalisation, dense_shingle=dense)
    for tokens, dense in (("words", 0), ("mixed", 5))
    for shingle in (1, 3)
    for normalisation in ("nfkc-casefold", "none")
]


def texts_of(values: list[str]) -> Texts:
    return Texts.pack(value.encode() for value in values)


def some_text(rng: Random, words: int) -> list[str]:
    return [
        "".join(rng.choice(BITS) for _ in range(rng.randrange(1, 4))) if rng.random() < 0.4 else f"w{rng.randrange(60)}"
        for _ in range(words)
    ]


def changed(rng: Random, words: list[str], count: int) -> list[str]:
    """A copy in which at so many places words are others, have gone, or have come."""
    copy = list(words)
    for _ in range(count):
        at, some = rng.randrange(len(copy) + 1), rng.randrange(0, 3)
        copy[at : at + rng.randrange(0, 3)] = some_text(rng, some)
    return copy


def expect_told(recipe: Recipe, one: list[str], other: list[str]) -> int:
    """Compare what is told of pairs with the shingles of whole texts, in their order; of how many it is."""
    indexes = np.arange(len(one))
    found = replaced(recipe, texts_of(one), indexes, texts_of(other), indexes)
    kept, others = (recipe.measure_and_keep(texts_of(each), threads=1)[1] for each in (one, other))
    for at, start, middle, end in zip(*(column.tolist() for column in found[:4]), strict=True):
        gone, come = found.hashes[start:middle].tolist(), found.hashes[middle:end].tolist()
        whole = Counter(kept.hashes[kept.offsets[at] : kept.offsets[at + 1]].tolist())
        assert not Counter(gone) - whole, (one[at], other[at])
        expected = Counter(others.hashes[others.offsets[at] : others.offsets[at + 1]].tolist())
        assert whole - Counter(gone) + Counter(come) == expected, (one[at], other[at])
    return len(found.which)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: f"{each.tokens}-{each.shingle}-{each.normalisation}")
def test_what_texts_have_in_place_of_each_others_shingles_is_told(recipe: Recipe) -> None:
    assert tells_apart(recipe)
    rng = Random(1)
    one, other = list[str](), list[str]()
    for count in range(8):
        for _ in range(60):
            words = some_text(rng, rng.randrange(100, 400))
            one.append(" ".join(words))
            other.append(" ".join(changed(rng, words, count)))
    assert expect_told(recipe, one, other) > len(one) // 3
    # Any bytes may go, or come twice, wherever that leaves UTF-8.
    for at, text in enumerate(one):
        first = rng.randrange(len(text))
        other[at] = (
            text[:first] + rng.choice(["", text[first : first + 9], " ", "x"]) + text[first + rng.randrange(9) :]
        )
    assert expect_told(recipe, one, other) > len(one) // 3


@given(st.lists(st.sampled_from([*BITS, " ", " a", " b "]), min_size=60, max_size=200), st.data())
def test_whatever_is_told_of_a_text_and_a_copy_is_right(bits: list[str], data: st.DataObject) -> None:
    copy = list(bits)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(copy) - 1))
        copy[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from([*BITS, " "]), max_size=2))
    expect_told(data.draw(st.sampled_from(RECIPES)), ["".join(bits)], ["".join(copy)])


def found_apart(one: str, other: str, tokens: int = 3) -> list[tuple[str, str]] | None:
    """The passages of both, None where they are not told."""
    own, others, only = texts_of([one]), texts_of([other]), np.zeros(1, dtype=np.int64)
    data, ends, counts = apart(own.data, own.offsets, only, others.data, others.offsets, only, tokens)
    found = [data[start:end].tobytes().decode() for start, end in itertools.pairwise(ends)]
    (count,) = counts.tolist()
    return None if count < 0 else list(zip(found[:count], found[count:], strict=True))


def test_a_passage_has_as_many_tokens_around_as_a_shingle_may_have_beside_what_differs() -> None:
    words = [f"w{at}" for at in range(100)]
    text = " ".join(words)
    assert found_apart(text, text) == []
    other = " ".join([*words[:50], "new", *words[51:]])
    assert found_apart(text, other) == [(" w47 w48 w49 w50 w51 w52", " w47 w48 w49 new w51 w52")]
    # With nothing before it, or behind it, there are none to be taken along.
    assert found_apart(text, " ".join(["new", *words[1:]])) == [("w0 w1 w2", "new w1 w2")]
    assert found_apart(text, " ".join([*words[:-1], "new"])) == [(" w96 w97 w98 w99", " w96 w97 w98 new")]
    assert found_apart(f"- {text}", f"+ {text}") is None  # with fewer tokens than a shingle has
    without_first = " ".join(["-", *words[1:]])
    assert found_apart(text, without_first) is found_apart(without_first, text) is None  # so of one of both
    for sign in "@[`{/:_":  # next to letters and digits, and no tokens, or not for sure
        signs = " ".join([sign] * 3)
        one, two = (f"{signs} {each} {signs}" for each in "xy")
        found = found_apart(" ".join([*words[:50], one, *words[50:]]), " ".join([*words[:50], two, *words[50:]]))
        assert found == [(f" w47 w48 w49 {one} w50 w51", f" w47 w48 w49 {two} w50 w51")]
    # Those that are near each other are one passage.
    near = " ".join([*words[:50], "new", *words[51:54], "x", *words[55:]])
    assert len(found_apart(text, near) or []) == 1
    assert len(found_apart(text, " ".join([*words[:30], "new", *words[31:70], "x", *words[71:]])) or []) == 2


def test_texts_that_differ_in_much_are_not_told_of() -> None:
    words = [f"w{at}" for at in range(400)]
    text = " ".join(words)

    def renewed(step: int, end: int = 400) -> str:
        return " ".join("new" if at % step == 2 and at < end else word for at, word in enumerate(words))

    assert found_apart(text, " ".join(words[::-1])) is None
    assert found_apart(text, renewed(3)) is None
    assert len(found_apart(" ".join(words * 9), " ".join([*renewed(20, 320).split(), *words * 8])) or []) == 16
    assert found_apart(" ".join(words * 9), " ".join([*renewed(20, 340).split(), *words * 8])) is None  # more
    long = "x" * 5000
    assert found_apart(" ".join([*words * 40, long, *words * 40]), " ".join(words * 80)) is None  # too long
    assert found_apart("字" * 400, "字" * 200 + "x" + "字" * 200) is None  # without spaces
    assert found_apart("a b", "a c") is None
    assert found_apart("", "a") is None
    assert found_apart("- " * 300 + "x", "- " * 300 + "y") is None  # which has too few tokens


def test_what_strangers_write_to_be_alike_everywhere_is_left_soon() -> None:
    assert found_apart("a b " * 5000, "a b " * 2000 + "b a a " * 200 + "a b " * 2000, 40) is None


def test_recipes_whose_tokens_depend_on_what_is_around_are_not_told_by_passages() -> None:
    for name in ("zh", "exact", "multilingual", "pypi-simhash", "minhash-128"):
        assert not tells_apart(load_recipe(name))
    for changes in ({"normalisation": "lower"}, {"stop_words": "en"}, {"stemming": "english"}):
        assert not tells_apart(replace(load_recipe("web-en"), **changes))  # type: ignore[arg-type]
    assert tells_apart(load_recipe("text-1"))
    assert tells_apart(load_recipe("web-en"))


def test_values_that_are_not_there_are_refused() -> None:
    own = texts_of(["a b", "c"])
    first, none = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    good = own.data, own.offsets, first

    def refused(match: str, *changes: tuple[int, Any]) -> None:
        given: list[Any] = [*good, *good, 3]
        for at, value in changes:
            given[at] = value
        with pytest.raises(ValueError, match=match):
            apart(*given)

    refused("found 0 others, expected one of each of 1 texts", (5, none))
    refused("tokens: found 1, expected at least 2", (6, 1))
    for at in (2, 5):
        refused("index: found 2, expected one of 2 values", (at, first + 2))
        refused("index: found -1, expected one of 2 values", (at, first - 1))
    for at in (1, 4):
        refused("value 0: found one from 0 to 9, expected it in 4 bytes", (at, offsets_of([9, 1])))
        refused("value 0: found one from -1 to 1, expected it in 4 bytes", (at, np.array([-1, 1, 2])))
    assert apart(*good[:2], none, *good[:2], none, 3)[2].tolist() == []


@pytest.mark.parametrize("room", [0, 1 << 26])
def test_a_job_decides_by_passages_as_by_the_shingles_of_whole_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    rng = Random(3)
    texts = [some_text(rng, 300)]
    for at in range(400):
        count = rng.choice([0, 1, 1, 1, 2, 20])
        texts.append(some_text(rng, 300) if at % 3 == 0 else changed(rng, rng.choice(texts), count))
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_BYTES", 1 << 16)
    monkeypatch.setattr(confirm, "_ROOMS", Rooms(Room(room), Room(room)))
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(room), Room(room)))
    source = write_jsonl(tmp_path / "all.jsonl", [" ".join(words) for words in texts])
    made: list[int] = []
    many = Recipe.features_many

    def counted(self: Recipe, texts: Any, **options: Any) -> Any:
        made.append(len(texts))
        return many(self, texts, **options)

    monkeypatch.setattr(Recipe, "features_many", counted)

    def results(name: str) -> tuple[list[str], str]:
        made.clear()
        dropped = tmp_path / f"{name}.tsv"
        dedup([source], tmp_path / f"{name}.jsonl", dropped=dropped, max_distance=12)
        return lines_of(tmp_path / f"{name}.jsonl"), dropped.read_text()

    by_passages, few = results("by-passages"), sum(made)
    monkeypatch.setattr(confirm, "tells_apart", lambda recipe: False)
    assert results("by-shingles") == by_passages
    assert few < sum(made) / 2 or room


@pytest.fixture
def checkers(monkeypatch: pytest.MonkeyPatch) -> list[confirm.Checker]:
    """Those that jobs make from now on."""
    made: list[confirm.Checker] = []
    init = confirm.Checker.__init__

    def told(self: confirm.Checker, *given: Any, **options: Any) -> None:
        init(self, *given, **options)
        made.append(self)

    monkeypatch.setattr(confirm.Checker, "__init__", told)
    return made


@pytest.mark.parametrize(("spaced", "stays"), [(True, True), (False, False)])
def test_hashes_of_long_texts_stay_where_most_texts_are_told_by_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkers: list[confirm.Checker], spaced: bool, stays: bool
) -> None:
    """Of texts without spaces none is: the last documents are held then, which are more often asked for."""
    rng = Random(5)
    texts = [some_text(rng, 300) for _ in range(60)]
    copies = [changed(rng, words, 1) for words in texts]
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_BYTES", 1 << 14)
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(1 << 12), Room(1 << 14)))
    source = write_jsonl(tmp_path / "all.jsonl", [(" " if spaced else "").join(each) for each in [*texts, *copies]])
    recipe = Recipe("own", tokens="mixed", shingle=3, dense_shingle=5)
    dedup([source], tmp_path / "kept.jsonl", recipe=recipe, max_distance=12)
    assert [each._hashes.stays for each in checkers] == [stays]
    assert checkers[0]._told + checkers[0]._whole > 30


@pytest.mark.parametrize(("words", "stays"), [(300, True), (100, False)])
def test_of_long_texts_that_are_told_by_passages_so_many_hashes_are_held_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkers: list[confirm.Checker], words: int, stays: bool
) -> None:
    """Of short ones as many as there is room for."""
    rng = Random(6)
    texts = [some_text(rng, words) for _ in range(60)]
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_BYTES", 1 << 12)
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(1 << 12), Room(1 << 20)))
    monkeypatch.setattr("fpstore.text.held._OF_LONG", 1 << 15)
    source = write_jsonl(tmp_path / "all.jsonl", [" ".join(each) for each in [*texts, *texts]])
    result = dedup([source], tmp_path / "kept.jsonl")
    assert result.results == 60
    held = [each._hashes.have(np.arange(60, dtype=np.uint64)) for each in checkers]
    assert [bool(each[:6].all()) for each in held] == [True]
    assert [bool(each.all()) for each in held] == [not stays]


@pytest.mark.parametrize("batches_before", [0, 3])
def test_long_texts_are_held_behind_those_that_there_is_no_room_for(batches_before: int) -> None:
    """A text that alone takes more than may be held, in the first batch or later, is one that is not held."""
    held, first = HeldHashes(Room(64 << 20)), 0
    held.stays = True
    for counts in [[300] * 10] * batches_before + [[2_500_000]] + [[300] * 10] * 1000:
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        hashes = np.arange(offsets[-1] + 1, dtype=np.uint64)
        held.add(first, KeptHashes(hashes, offsets, are_features=False), np.arange(len(counts)))
        first += len(counts)
    own = held.have(np.arange(first, dtype=np.uint64))
    assert own[10 * batches_before + 1 :].sum() == (16 << 20) // 8 // 3000 * 10
    assert not own[: 10 * batches_before + 1].any()
