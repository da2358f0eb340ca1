"""Texts in memory are deduplicated as documents are: as jobs do it, and as plain Python decides."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import documents_reference as plain
from plain_recipe import tokens_of

from fpstore import jobs
from fpstore.living.memory import Memory
from fpstore.minhash import sign
from fpstore.minhash.making import kept_of
from fpstore.query.leaders import MOST_LOOKED_AT, Leaders
from fpstore.text import DEFAULT_RECIPE, Deduplicated, Recipe, dedup, deduplication, recipes
from fpstore.text.confirm import CONFIRMED_DISTANCE, DEFAULT_CONFIRM

SHORT = Recipe("short", shingle=1, weights="presence")
RECIPES = (DEFAULT_RECIPE, SHORT, recipes()["simhash-1"])
TOLD = "the quick brown fox jumps over the lazy dog while nine other animals look on and say nothing of it"
LONG = TOLD.split()
WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "!", "--"]), max_size=4).map(" ".join)
# A long text with a word in another's place: many are near each other, some by the fingerprint alone.
ALTERED = st.tuples(st.integers(0, len(LONG) - 1), st.sampled_from(["x", "y", ""])).map(
    lambda change: " ".join(change[1] if place == change[0] else word for place, word in enumerate(LONG))
)
TEXTS = st.lists(st.one_of(WORDS, ALTERED), max_size=20)


def by_name(found: Deduplicated) -> list[tuple[int, int]]:
    return list(zip(found.duplicate_of.tolist(), found.distance.tolist(), strict=True))


def of_plain(
    texts: list[str], recipe: Recipe, distance: int, keep: str, confirm: tuple[str, float] | None
) -> list[tuple[int, int]]:
    def alike(one: str, other: str) -> tuple[float, bool]:
        assert confirm is not None
        empty = not tokens_of(recipe, one) or not tokens_of(recipe, other)
        found = float(one == other) if empty else plain.measure(confirm[0], recipe, one, other)
        return found, found >= confirm[1]

    documents = [plain.Document(str(place), text) for place, text in enumerate(texts)]
    lengths = [len(text) for text in texts]
    order = list(range(len(texts))) if keep == "first" else plain.ordered(lengths, largest=True)
    verdicts = plain.dedup(
        documents, distance, recipe, plain.Seen(), order=order, alike=None if confirm is None else alike
    )
    return [(place, 0) if found is None else (int(found.kept), found.distance) for place, found in enumerate(verdicts)]


@pytest.mark.slow
@settings(max_examples=100)
@given(
    TEXTS,
    st.sampled_from(RECIPES),
    st.integers(0, 8),
    st.sampled_from(["first", "longest"]),
    st.sampled_from([None, ("jaccard", 0.5), ("jaccard", 0.82), ("cosine", 0.9)]),
)
def test_texts_are_decided_as_plain_python_decides(
    texts: list[str], recipe: Recipe, distance: int, keep: str, confirm: tuple[str, float] | None
) -> None:
    typed = None if confirm is None else f"{confirm[0]}>={confirm[1]}"
    found = dedup(texts, recipe=recipe, max_distance=distance, keep=keep, confirm=typed)  # type: ignore[arg-type]
    assert by_name(found) == of_plain(texts, recipe, distance, keep, confirm)
    assert found.kept.tolist() == [place for place, (kept, _) in enumerate(by_name(found)) if kept == place]
    types = [str(column.dtype) for column in (found.kept, found.duplicate_of, found.distance)]
    assert types == ["int64", "int64", "uint16"]


@pytest.mark.slow
@settings(max_examples=25)
@given(TEXTS.filter(bool), st.sampled_from(["first", "longest"]), st.sampled_from(["default", None, "cosine>=0.9"]))
def test_texts_are_decided_as_the_job_decides(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], keep: str, confirm: str | None
) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    (folder / "in.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
    )
    inputs = jobs.Inputs([folder / "in.jsonl"], id_column="id")
    jobs.dedup(inputs, folder / "out.jsonl", tag=True, keep=keep, confirm=confirm)
    rows = list(map(json.loads, (folder / "out.jsonl").read_text().splitlines()))
    told = [(row["id"], 0) if row["kept"] else (int(row["duplicate_of"]), row["distance"]) for row in rows]
    assert by_name(dedup(texts, keep=keep, confirm=confirm)) == told  # type: ignore[arg-type]


def test_by_default_what_is_near_has_to_be_alike() -> None:
    one, other = " ".join(LONG), " ".join([*LONG[:-1], "them"])
    assert by_name(dedup([one, other, one])) == [(0, 0), (0, by_name(dedup([one, other, one]))[1][1]), (0, 0)]
    assert DEFAULT_CONFIRM == "jaccard>=0.82"
    assert CONFIRMED_DISTANCE == 6
    assert by_name(dedup([one, other], confirm="jaccard>=1.0")) == [(0, 0), (1, 0)]
    assert by_name(dedup(["!", "?", "!"])) == by_name(dedup(["!", "?", "!"], recipe=SHORT)) == [(0, 0), (1, 0), (0, 0)]


def test_bytes_are_utf_8_and_nothing_is_nothing() -> None:
    texts: list[str | bytes] = [b"caf\xc3\xa9 au lait", "caf\u00e9 au lait", b"\xff one", "\ufffd one"]
    found = dedup(iter(texts))
    assert found.kept.tolist() == [0, 2]
    none = dedup([])
    assert [len(column) for column in (none.kept, none.duplicate_of, none.distance)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("texts", "options", "error", "told"),
    [
        ("one", {}, TypeError, "texts: found one str, expected several of them"),
        ([1], {}, TypeError, "texts, item 0: found a int, expected a text"),
        ([], {"recipe": "text-1"}, TypeError, "recipe: found 'text-1'"),
        ([], {"keep": "max:n"}, ValueError, "keep: found 'max:n', expected first or longest"),
        ([], {"confirm": "much"}, ValueError, "confirm: found 'much', expected jaccard"),
        ([], {"confirm": "none"}, ValueError, "confirm: found 'none', .* from 0 to 1, or None$"),
        ([], {"max_distance": -1}, ValueError, "max_distance: found -1, expected an integer from 0"),
    ],
)
def test_what_is_no_text_or_no_choice_is_refused(
    texts: Any, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        dedup(texts, **options)


def test_of_many_texts_that_are_near_and_not_alike_each_is_kept() -> None:
    """More than are looked at, and more rows than the memory begins with."""
    count = 3 * MOST_LOOKED_AT
    texts = [f"{place}" for place in range(count)]
    near = Recipe("near", shingle=1, tokens="words", normalisation="none", hash="xxh3")
    assert dedup(texts, recipe=near, confirm="jaccard>=0.9").kept.tolist() == list(range(count))


def test_leaders_that_look_on_take_the_nearest_where_nothing_else_is_known() -> None:
    leaders = Leaders(Memory(3, 10), 3, 0)
    leaders.looks_on = True
    assert leaders.decide(np.array([0, 15, 7], dtype=np.uint64))["id"].tolist() == [0, 1, 1]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.integers(0, 255), max_size=60), st.integers(1, 5), st.integers(0, 3))
def test_rows_in_memory_are_found_as_brute_force_finds_them(keys: list[int], count: int, distance: int) -> None:
    memory = Memory(3, len(keys))
    for start in range(0, len(keys), 7):
        piece = np.array(keys[start : start + 7], dtype=np.uint64)
        memory.add(piece, ids=np.arange(start, start + len(piece), dtype=np.uint64))
    found = memory.nearest_many(np.array([0, 255], dtype=np.uint64), count, max_distance=distance)
    expected = []
    for query, asked in enumerate((0, 255)):
        near = sorted(((asked ^ key).bit_count(), key, place) for place, key in enumerate(keys))
        expected += [(query, key, bits, place) for bits, key, place in near if bits <= distance][:count]
    assert [tuple(match) for match in found] == expected


@pytest.mark.parametrize("characters", [0, 1, 40, 90])
def test_pieces_of_few_characters_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch, characters: int) -> None:
    texts = [f"one two three four five six seven {i % 4}{' eight' * (i % 3)}" for i in range(40)] + ["", "x" * 100]
    whole = dedup(texts)
    decided: list[int] = []
    decide = Leaders._decide_piece

    def counted(leaders: Leaders, keys: Any, *rest: Any) -> None:
        decided.append(len(keys))
        decide(leaders, keys, *rest)

    monkeypatch.setattr(Leaders, "_decide_piece", counted)
    monkeypatch.setattr(deduplication, "_PIECE_CHARACTERS", characters)
    found = dedup(texts)
    assert sum(decided) == len(texts)
    assert max(decided) <= max(1, characters // 30 + 1)
    assert found.duplicate_of.tolist() == whole.duplicate_of.tolist()


SIGNED = Recipe("signed", sketch="minhash", values=16, permutations="fpstore", shingle=1, weights="presence")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    TEXTS.filter(bool),
    st.sampled_from(["first", "longest"]),
    st.sampled_from(["jaccard>=0.6", None, "cosine>=0.9"]),
    st.sampled_from([None, 0.5]),
)
def test_texts_are_decided_by_signatures_as_the_job_decides(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], keep: str, confirm: str | None, least: float | None
) -> None:
    folder = tmp_path_factory.mktemp("signed")
    asked: dict[str, Any] = {
        "recipe": SIGNED,
        "bands": 4,
        "rows_per_band": 2,
        "min_similarity": least,
        "keep": keep,
        "confirm": confirm,
    }
    rows = [{"id": str(place), "text": text} for place, text in enumerate(texts)]
    jobs.dedup(jobs.Inputs([rows], id_column="id"), folder / "all.jsonl", tag=True, **asked)
    told = [json.loads(line) for line in (folder / "all.jsonl").read_text().splitlines()]
    found = dedup(texts, **asked)
    assert found.similarity is not None
    for place, row in enumerate(told):
        assert found.duplicate_of[place] == (place if row["kept"] else int(row["duplicate_of"]))
        assert row["kept"] == (place in found.kept)
        assert row["kept"] or found.similarity[place] == np.float32(row["similarity"])


def test_signatures_that_differ_in_more_values_than_a_byte_counts_are_as_far_as_they_are() -> None:
    recipe = Recipe("wide", sketch="minhash", values=1024, permutations="fpstore", shingle=1, weights="presence")
    words = [f"w{number}" for number in range(400)]
    texts = [" ".join(words), " ".join(words[:130] + [f"x{number}" for number in range(270)])]
    found = dedup(texts, recipe=recipe, bands=512, rows_per_band=2, confirm=None)
    one, other = sign(texts, recipe)
    kept = kept_of(1024)
    expected = float(kept.similarity(kept.sketches(one[None]), kept.sketches(other[None]))[0])
    assert found.duplicate_of.tolist() == [0, 0]
    assert found.distance[1] > 255
    assert found.similarity is not None
    assert found.similarity[1] == np.float32(expected)
    assert expected < 0.3


def test_what_says_nothing_about_what_the_recipe_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance: found 3 with recipe signed, which makes signatures"):
        dedup(["a"], recipe=SIGNED, max_distance=3)
    with pytest.raises(ValueError, match="bands: found 4 with recipe text-1, which makes fingerprints"):
        dedup(["a"], bands=4)
    with pytest.raises(ValueError, match="bands \\* rows_per_band: found 128, expected at most 16"):
        dedup(["a"], recipe=SIGNED)
    with pytest.raises(ValueError, match="min_similarity: found 2, expected a number from 0 to 1"):
        dedup(["a"], recipe=recipes()["minhash-128"], min_similarity=2)
