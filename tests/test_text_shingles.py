"""Shingles by hashes that were kept are those of the texts, whatever repeats, and jobs read no text twice for them."""

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FINGERPRINTING
from hypothesis import given, settings
from hypothesis import strategies as st

from fpstore.jobs import Inputs, cluster, dedup
from fpstore.text import recipes, shared
from fpstore.text._shingles import features_of, measure_and_keep
from fpstore.text.confirm import Checker
from fpstore.text.held import KeptHashes, Sets
from fpstore.text.packed import Texts
from fpstore.text.recipe import Measured, Recipe
from fpstore.workers import Workers

KEEPING = [name for name in FINGERPRINTING if recipes()[name].keeps_hashes]
WORDS = st.sampled_from(["one", "two", "three", "\u4e2d\u6587", "\u00e9t\u00e9", ".", "1"])
TEXTS = st.lists(st.lists(WORDS, max_size=40).map(" ".join), max_size=8)
WEIGHTS: dict[str, Callable[[int], float]] = {
    "frequency": float,
    "presence": lambda _: 1.0,
    "capped": lambda count: float(min(count, 4)),
    "log": lambda count: 1 + math.log(count),
}


def columns_of(measured: Measured) -> list[list[Any]]:
    return [np.asarray(column).tolist() for column in measured]


def lists_of(sets: Sets) -> list[tuple[list[int], list[float]]]:
    return [(each.hashes.tolist(), each.weights.tolist()) for each in sets]


def by_hashes(recipe: Recipe, kept: KeptHashes, indexes: Any, threads: int = 1) -> Sets:
    starts = kept.offsets[indexes]
    return recipe.features_of(kept.hashes, starts, kept.offsets[indexes + 1] - starts, threads=threads)


@settings(max_examples=50)
@given(texts=TEXTS, data=st.data())
def test_hashes_that_are_kept_while_signing_are_the_features(texts: list[str], data: Any) -> None:
    recipe, threads = recipes()["minhash-128"], data.draw(st.integers(1, 2))
    signatures, counts, kept = recipe.sign_and_keep(texts, threads=threads)
    assert kept.are_features
    assert len(kept) == len(texts)
    expected = recipe.sign_counted(texts)
    assert (signatures.tolist(), counts.tolist()) == (expected[0].tolist(), expected[1].tolist())
    indexes = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)) if texts else []
    own = lists_of(recipe.features_many([texts[index] for index in indexes]))
    chosen = np.array(indexes, dtype=np.int64)
    assert lists_of(kept.sets(chosen)) == own == lists_of(by_hashes(recipe, kept, chosen, threads))


def test_many_words_that_repeat_or_do_not_are_put_in_order_while_signing() -> None:
    """Few shingles, and more than are ordered side by side; each without equal ones, and with some."""
    recipe = recipes()["minhash-128"]
    texts = [" ".join(f"w{i}" for i in range(count + 2)) for count in (*range(1, 70), 127, 128, 129, 5000)]
    texts += [f"{text} {text}" for text in texts] + ["a " * 90, "", "\u2026"]
    kept = recipe.sign_and_keep(texts)[2]
    for at, text in enumerate(texts):
        assert kept.sets(np.array([at])).hashes[kept.offsets[at] : kept.offsets[at + 1]].tolist() == sorted(
            recipe.features(text).hashes.tolist()
        )


@pytest.mark.parametrize("name", KEEPING)
@settings(max_examples=25)
@given(texts=TEXTS, data=st.data())
def test_shingles_by_kept_hashes_are_those_of_the_texts(name: str, texts: list[str], data: Any) -> None:
    recipe, threads = recipes()[name], data.draw(st.integers(1, 2))
    given_texts = data.draw(st.sampled_from([texts, Texts.pack(text.encode() for text in texts)]))
    measured, kept = recipe.measure_and_keep(given_texts, threads=threads)
    assert columns_of(measured) == columns_of(recipe.measure_many(texts))
    indexes = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)) if texts else []
    sets = by_hashes(recipe, kept, np.array(indexes, dtype=np.int64), threads)
    assert lists_of(sets) == lists_of(recipe.features_many([texts[index] for index in indexes]))


@pytest.mark.parametrize("name", KEEPING)
def test_shingles_of_a_long_text_are_counted_to_the_same(name: str) -> None:
    """Of texts up to 2^20 bytes all hashes are listed; those of longer ones are counted as they come."""
    rng, recipe = random.Random(7), recipes()[name]
    words = [f"w{rng.randrange(5000)}" for _ in range(260_000)]
    long = " ".join(words)
    texts = [long[:size] for size in ((1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1_300_000)]
    assert len(texts[-1]) == 1_300_000
    _, kept = recipe.measure_and_keep(texts)
    found = lists_of(recipe.features_many(texts))
    assert found == lists_of(by_hashes(recipe, kept, np.arange(4), 1))
    assert 1 < len(found[0][0]) <= len(found[-1][0])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_hashes_of_any_kind_are_put_in_order_and_counted(weights: str) -> None:
    numbers = np.random.default_rng(7)
    sets = [numbers.integers(0, 1 << 64, count, dtype=np.uint64) for count in (0, 1, 2, 63, 3000, 70_000)]
    sets += [np.arange(count, 0, -1, dtype=np.uint64) for count in (64, 65, 900)]  # all in one place
    sets += [
        np.repeat(numbers.integers(0, 1 << 64, 9, dtype=np.uint64), 40),
        np.full(700, (1 << 64) - 1, dtype=np.uint64),
    ]
    sets += [np.repeat(numbers.integers(0, 1 << 64, count, dtype=np.uint64), 3) for count in (100, 333)]
    sets += [numbers.choice(numbers.integers(0, 1 << 64, 50, dtype=np.uint64), 5000)]
    ends = np.cumsum([len(each) for each in sets]).astype(np.uint64)
    none = np.zeros(1, dtype=np.uint64)
    more = np.array([5, 5, 3, 0], dtype=np.uint64)
    parts = [(np.concatenate([*sets, none]), ends), (more, np.array([2, 2, 3], dtype=np.uint64))]
    sets += [np.array(own, dtype=np.uint64) for own in ([5, 5], [], [3])]
    kept = KeptHashes.join(parts, are_features=False)
    indexes = np.arange(len(sets), dtype=np.int64)[::-1].copy()
    starts = kept.offsets[indexes]
    counts_of = kept.offsets[indexes + 1] - starts
    for threads in (1, 2):
        found = Sets.join(features_of(kept.hashes, starts, counts_of, weights=weights, threads=threads))
        assert len(found) == len(sets)
        assert (found.weights is None) == (weights == "presence")  # which takes half the room
        for features, index in zip(found, indexes.tolist(), strict=True):
            hashes, counts = np.unique(sets[index], return_counts=True)
            assert np.array_equal(features.hashes, hashes)
            assert np.allclose(features.weights, [*map(WEIGHTS[weights], counts.tolist())], atol=1 / 65536)


def test_what_was_not_kept_is_refused() -> None:
    hashes = np.arange(4, dtype=np.uint64)
    one, two = np.array([1], dtype=np.int64), np.array([2, 1], dtype=np.int64)
    with pytest.raises(ValueError, match="found 1 starts and 2 counts, expected as many"):
        features_of(hashes, one, two)
    for start, count in ((-1, 1), (5, 0), (1, -1), (2, 3), (1, 1 << 62)):
        with pytest.raises(ValueError, match=f"text 0: found {count} hashes from {start} on, expected some of 4"):
            features_of(hashes, np.array([start]), np.array([count]))
    with pytest.raises(TypeError, match="texts: found one str, expected a sequence of them"):
        measure_and_keep("one text")
    with pytest.raises(ValueError, match="threads: found 0, expected at least 1"):
        measure_and_keep(["one text"], threads=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zh", "text-1", "stemmed"])
def test_workers_keep_the_same_hashes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(shared, "TEXTS_AT_ONCE", 100)
    recipe = Recipe("stemmed", stemming="english") if name == "stemmed" else recipes()[name]
    texts = ["", "words of one text", "\u4e2d\u6587\u5206\u8bcd \u548c more", "\u2026"] * 20
    indexes = np.array([9, 2, 0, 79], dtype=np.int64)
    with Workers(2, start_after=0) as two:
        measured, kept = shared.begin_to_measure_and_keep(recipe, texts, 2, two)()
    expected, own = recipe.measure_and_keep(texts, threads=1)
    assert columns_of(measured) == columns_of(expected)
    assert lists_of(by_hashes(recipe, kept, indexes)) == lists_of(by_hashes(recipe, own, indexes))


def corpus(folder: Path) -> Path:
    path = folder / "texts.jsonl"
    numbers = random.Random(7)
    texts = [[f"w{numbers.randrange(3000)}" for _ in range(60)] for _ in range(40)]
    for text in [list(text) for text in texts]:
        text[numbers.randrange(60)] = "other"
        texts += [text, text]
    path.write_text("".join(f'{{"id": {i}, "text": "{" ".join(text)}"}}\n' for i, text in enumerate(texts)))
    return path


@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_a_job_reads_no_text_twice_and_decides_as_if_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_DOCUMENTS", 50)
    read: list[int] = []
    sets_of = Checker.sets_of

    def counted(checker: Checker, texts: Sequence[str]) -> Sets:
        read.append(len(texts))
        return sets_of(checker, texts)

    monkeypatch.setattr(Checker, "sets_of", counted)
    found = []
    for keeps in (True, False):
        monkeypatch.setattr(Recipe, "keeps_hashes", keeps)
        folder = tmp_path / str(keeps)
        folder.mkdir()
        if job == "dedup":
            dedup(Inputs([corpus(tmp_path)]), folder / "kept.jsonl", dropped=folder / "dropped.tsv")
        else:
            cluster(Inputs([corpus(tmp_path)]), folder / "clusters.tsv")
        assert (read == []) is keeps
        found.append({path.name: path.read_bytes() for path in folder.glob("[!.]*")})
    assert found[0] == found[1]
    assert all(len(data) > 100 for data in found[0].values())


# Shingles of every size, from one byte on; and of texts in which, sooner or later, letters come that no space follows.
SIZES = """
import random
import numpy as np
from fpstore.text import recipes
from fpstore.text._sums import xxh3
rng = random.Random(5)
sizes = (*range(1, 24), 60, 130, 250)
words = ["".join(rng.choice("abcdefgh") for _ in range(size)) for size in sizes for _ in range(6)]
counts = (*range(1, 40), 63, 64, 65, 66, 130, 1019, 1020, 1021, 1022, 5000)
texts = [" ".join(rng.choices(some, k=count)) for some in (words, words[:60], words[:12]) for count in counts]
for name in ("text-1", "words-4"):
    recipe = recipes()[name]
    length = recipe.shingle
    every = recipe.measure_and_keep(texts)[1].sets(np.arange(len(texts)))
    for text, kept in zip(texts, every, strict=True):
        tokens = text.split()
        starts = range(max(1, len(tokens) - length + 1))
        assert kept.hashes.tolist() == [xxh3(" ".join(tokens[at : at + length]).encode()) for at in starts]
    for text, other in zip(texts, texts[::-1]):
        mixed = f"{text} \\u4e2d\\u6587\\u5b57\\u4e2d {other}"
        assert set(recipe.features(mixed).hashes.tolist()) == {found for found, _ in recipe.shingles(mixed)}
"""


@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE", "NONE"])
def test_shingles_of_every_size_have_the_hash_of_their_bytes(setting: str) -> None:
    subprocess.run([sys.executable, "-c", SIZES], check=True, env=os.environ | {setting: "1"})
