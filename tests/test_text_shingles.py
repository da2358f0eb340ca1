"""Shingles by hashes that were kept are those of the texts, whatever repeats, and jobs read no text twice for them."""

import math
import random
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
from fpstore.text.held import Sets
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


@pytest.mark.parametrize("name", KEEPING)
@settings(max_examples=25)
@given(texts=TEXTS, data=st.data())
def test_shingles_by_kept_hashes_are_those_of_the_texts(name: str, texts: list[str], data: Any) -> None:
    recipe, threads = recipes()[name], data.draw(st.integers(1, 2))
    given_texts = data.draw(st.sampled_from([texts, Texts.pack(text.encode() for text in texts)]))
    measured, kept = recipe.measure_and_keep(given_texts, threads=threads)
    assert columns_of(measured) == columns_of(recipe.measure_many(texts))
    indexes = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)) if texts else []
    sets = recipe.features_of(kept, np.array(indexes, dtype=np.int64), threads=threads)
    assert lists_of(sets) == lists_of(recipe.features_many([texts[index] for index in indexes]))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_hashes_of_any_kind_are_put_in_order_and_counted(weights: str) -> None:
    numbers = np.random.default_rng(7)
    sets = [numbers.integers(0, 1 << 64, count, dtype=np.uint64) for count in (0, 1, 2, 63, 3000, 70_000)]
    sets += [np.arange(count, 0, -1, dtype=np.uint64) for count in (64, 65, 900)]  # all in one place
    sets += [
        np.repeat(numbers.integers(0, 1 << 64, 9, dtype=np.uint64), 40),
        np.full(700, (1 << 64) - 1, dtype=np.uint64),
    ]
    sets += [numbers.choice(numbers.integers(0, 1 << 64, 50, dtype=np.uint64), 5000)]
    ends = np.cumsum([len(each) for each in sets]).astype(np.uint64)
    parts = [(np.concatenate(sets), ends), (np.array([5, 5, 3], dtype=np.uint64), np.array([2, 2, 3], dtype=np.uint64))]
    sets += [np.array(own, dtype=np.uint64) for own in ([5, 5], [], [3])]
    indexes = np.arange(len(sets), dtype=np.int64)[::-1].copy()
    for threads in (1, 2):
        found = Sets.join(features_of(parts, indexes, weights=weights, threads=threads))
        assert len(found) == len(sets)
        assert (found.weights is None) == (weights == "presence")  # which takes half the room
        for features, index in zip(found, indexes.tolist(), strict=True):
            hashes, counts = np.unique(sets[index], return_counts=True)
            assert np.array_equal(features.hashes, hashes)
            assert np.allclose(features.weights, [*map(WEIGHTS[weights], counts.tolist())], atol=1 / 65536)


def test_what_was_not_kept_is_refused() -> None:
    hashes = np.arange(4, dtype=np.uint64)
    for index in (-1, 2):
        with pytest.raises(IndexError, match=f"found index {index}, expected one of 2 texts"):
            features_of([(hashes, np.array([1, 4], dtype=np.uint64))], np.array([index], dtype=np.int64))
    for ends, told in (([1, 5], "found 5 after 1, expected at most 4"), ([3, 1], "found 1 after 3")):
        with pytest.raises(ValueError, match=told):
            features_of([(hashes, np.array(ends, dtype=np.uint64))], np.array([0], dtype=np.int64))
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
    assert lists_of(recipe.features_of(kept, indexes)) == lists_of(recipe.features_of(own, indexes))


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
