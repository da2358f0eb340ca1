"""What `--confirm` measures: exact, of a bounded number of kept documents, and never alike for want of tokens."""

import json
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jobs_model import lines_of, write_jsonl
from outcome import Command

import fpstore
from fpstore.jobs import JobError, Summary, corpus, dedup
from fpstore.jobs.spool import Spool
from fpstore.query import leaders
from fpstore.query.leaders import MOST_LOOKED_AT
from fpstore.text import Recipe, load_recipe, recipes
from fpstore.text._alike import common_counts, common_products
from fpstore.text.confirm import Checker, Confirm, Rooms
from fpstore.text.held import Features, Room
from fpstore.text.measures import Share, cosine, jaccard

UNIT = 1 << 16  # of a weight
hashes = st.one_of(st.integers(0, 12), st.integers(0, 2**64 - 1), st.sampled_from([2**63, 2**64 - 1]))
# The largest are those of a shingle that occurs 2^32 times.
weights = st.one_of(st.integers(1, 5 * UNIT), st.integers(1, 2**48))
bags = st.dictionaries(hashes, weights, min_size=1, max_size=12)
Bag = dict[int, int]


def features(bag: Bag) -> Features:
    keys = sorted(bag)
    return Features(np.array(keys, dtype=np.uint64), np.array([bag[key] / UNIT for key in keys]))


def product(one: Bag, other: Bag) -> int:
    return sum(weight * other.get(key, 0) for key, weight in one.items())


# --- The compiled core ---


@given(bags, st.lists(st.one_of(bags, st.just({})), max_size=5))
def test_what_is_common_is_that_of_dictionaries(document: Bag, others: list[Bag]) -> None:
    columns = [features(other) for other in others]
    assert common_counts(features(document), columns) == [len(document.keys() & other.keys()) for other in others]
    assert common_products(features(document), columns) == [product(document, other) for other in others]
    assert common_counts(features({}), columns) == common_products(features({}), columns) == [0] * len(others)


@pytest.mark.parametrize("size", [7, 8, 9, 16, 63, 200])
@pytest.mark.parametrize("space", [1.0, 1.5, 4.0, 40.0])
def test_what_is_common_of_many_is_that_of_sets(size: int, space: float) -> None:
    """Runs of several registers, which share most hashes or few, and of which the one may end long before the other."""
    rng = np.random.default_rng(size)
    values = rng.integers(0, 2**64, int(space * size), dtype=np.uint64, endpoint=False)
    ones = np.ones(size)
    documents = [Features(np.sort(rng.choice(values, size, replace=False)), ones) for _ in range(20)]
    documents += [Features(each.hashes[: size // 2], ones[: size // 2]) for each in documents[:5]]
    documents += [Features(each.hashes[size // 2 :], ones[size // 2 :]) for each in documents[:5]]
    for document in documents[::5]:
        expected = [len(set(document.hashes.tolist()) & set(other.hashes.tolist())) for other in documents]
        assert common_counts(document, documents) == expected


def test_a_hash_without_its_weight_is_refused() -> None:
    keys, none = np.array([1], dtype=np.uint64), np.empty(0)
    for call in (common_counts, common_products):
        with pytest.raises(ValueError, match="found 1 hashes with 0 weights"):
            call(features({1: UNIT}), [Features(keys, none)])


# --- The measures ---


@given(bags, bags, st.integers(0, 100))
@example({1: UNIT, 2: UNIT}, {1: UNIT, 2: UNIT}, 100)
def test_measures_and_what_they_decide_are_exact(one: Bag, other: Bag, percent: int) -> None:
    least = Fraction(percent, 100)
    (found,) = jaccard(features(one), [features(other)])
    exact = Fraction(len(one.keys() & other.keys()), len(one.keys() | other.keys()))
    assert (float(found), found.reaches(least)) == (float(exact), exact >= least)
    (found,) = cosine(features(one), [features(other)])
    square = Fraction(product(one, other) ** 2, product(one, one) * product(other, other))
    assert found.reaches(least) is (square >= least**2)
    with localcontext(prec=60):
        root = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
        assert abs(Decimal(float(found)) - root) <= Decimal(math.ulp(1.0)) / 2
    assert (float(found) == 1.0) or one != other


def test_a_share_just_at_the_least_is_enough() -> None:
    assert Share(7, 10, False).reaches(Fraction("0.7"))
    assert not Share(7 * 10**20 - 1, 10**21, False).reaches(Fraction("0.7"))
    assert Share(49, 100, True).reaches(Fraction("0.7"))
    assert not Share(49 * 10**30 - 1, 10**32, True).reaches(Fraction("0.7"))


def test_the_cosine_by_logarithms_is_within_what_the_docs_say_of_the_one_that_is_not_rounded() -> None:
    recipe = Recipe("log", shingle=1, weights="log")
    rng = np.random.default_rng(7)
    worst = 0.0
    for _ in range(200):
        one, other = ({f"w{i}": int(rng.integers(1, 50)) for i in rng.permutation(12)[:8]} for _ in range(2))
        texts = [" ".join(f"{word} " * count for word, count in bag.items()) for bag in (one, other)]
        (found,) = cosine(recipe.features(texts[0]), [recipe.features(texts[1])])
        exact = [{word: 1 + math.log(count) for word, count in bag.items()} for bag in (one, other)]
        dot = sum(weight * exact[1].get(word, 0) for word, weight in exact[0].items())
        norms = [sum(weight * weight for weight in bag.values()) for bag in exact]
        worst = max(worst, abs(float(found) - dot / math.sqrt(norms[0] * norms[1])))
    assert worst < 1.6e-5


# --- Kept documents ---


class Kept:
    """Texts of kept documents by their ids, and which were asked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.asked: list[int] = []

    def __call__(self, kept_ids: list[int]) -> list[str]:
        self.asked += kept_ids
        return [self.texts[kept_id] for kept_id in kept_ids]


WORDS = Recipe("words", shingle=1)


def test_the_first_that_is_alike_is_found_and_no_more_are_looked_at_than_it_takes() -> None:
    kept = Kept([f"word{i} other{i}" for i in range(30)] + ["a b c"] + ["a b c d"] * 20)
    checker = Checker(Confirm.parse("jaccard>=0.7"), WORDS, kept)
    found = checker.first_alike("a b c d", list(range(51)))
    assert (found.place, found.measure, found.refused) == (30, 0.75, 30)
    assert max(kept.asked) < 40
    kept.asked.clear()
    assert checker.first_alike("a b c d", [3, 30]) == (1, 0.75, 1)
    assert kept.asked == []  # their features are still held
    assert checker.first_alike("e", [3, 30])[::2] == (None, 2)


def test_features_of_kept_documents_are_let_go_of_and_made_again() -> None:
    kept = Kept([f"a{i} b{i} c{i} d{i}" for i in range(3)])
    checker = Checker(Confirm.parse("cosine>=0.5"), WORDS, kept, rooms=Rooms(features=Room(100)))  # of six shingles
    for _ in range(2):
        for number in range(3):
            assert checker.first_alike(kept.texts[number], [0, 1, 2]).place == number
    assert len(kept.asked) > 6


@pytest.mark.parametrize("name", ["text-1", "web-en", "pypi-simhash", "exact", "simhash-1"])
@pytest.mark.parametrize("typed", ["jaccard>=0.5", "cosine>=0", "jaccard>=0"])
def test_a_document_without_tokens_is_alike_an_equal_one_only(name: str, typed: str) -> None:
    recipe = recipes()[name]
    silent = [text for text in ("", "!", "?", " ", "\u2014\u2014") if not recipe.measure_many([text])[1][0]]
    kept = Kept([*silent, "some words here"])
    checker = Checker(Confirm.parse(typed), recipe, kept)
    every = list(range(len(kept.texts)))
    assert [checker.first_alike(text, every).place for text in silent] == list(range(len(silent)))
    other = "\t" if name == "exact" else "\u2026 "
    assert checker.first_alike(other, every)[::2] == (None, len(every))
    assert checker.first_alike("some words here", every).place == len(silent)


# --- Whole jobs ---


def one_fingerprint(folder: Path, count: int) -> tuple[Path, Recipe]:
    """Documents that differ in all words but one, which is repeated so often that it decides the fingerprint."""
    documents = ["i " * 400 + " ".join(f"w{i}x{j}" for j in range(20)) for i in range(count)]
    recipe = recipes()["web-en"]
    assert len(set(recipe.fingerprint_many(documents).tolist())) == 1
    return write_jsonl(folder / "in.jsonl", documents), recipe


@pytest.mark.parametrize("name", ["minhash-128", "text-1"])
def test_texts_that_were_kept_last_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    documents = [" ".join(f"{which}{i}" for i in range(60)) for which in "abc"]
    source = write_jsonl(tmp_path / "in.jsonl", [*documents, documents[1] + " more", documents[0] + " more"])
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 2)
    read: list[int] = []
    monkeypatch.setattr(Spool, "packed_texts", lambda spool, ids: read.extend(ids.tolist()))
    summary = dedup([source], tmp_path / "out.jsonl", recipe=recipes()[name], threads=1)
    assert (summary.documents, summary.results, summary.refused) == (5, 3, 0)
    assert read == []


@pytest.mark.slow
def test_of_many_documents_with_one_fingerprint_a_bounded_number_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, recipe = one_fingerprint(tmp_path, 700)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 256)  # some of them are stored, others come with the document
    read: list[int] = []
    made = Checker._of_kept

    def counted(checker: Checker, ids: Sequence[int]) -> list[Features]:
        read.extend(ids)
        return made(checker, ids)

    monkeypatch.setattr(Checker, "_of_kept", counted)

    def job(out: Path) -> Summary:
        return dedup([source], out, recipe=recipe, max_distance=3, confirm="jaccard>=0.8")

    found = job(tmp_path / "kept")
    # Document i is near all i before it.
    expected = sum(min(i, MOST_LOOKED_AT) for i in range(700))
    assert (found.results, found.refused, found.cut_short) == (700, expected, 700 - MOST_LOOKED_AT - 1)
    # Those near no more than are looked at are compared in C, and are asked for none of them.
    assert len(read) == expected - sum(range(MOST_LOOKED_AT + 1))
    assert set(read) == set(range(MOST_LOOKED_AT))  # of one distance and fingerprint those of the least ids


@pytest.mark.slow
@pytest.mark.parametrize("in_store", [False, True])
def test_one_that_is_alike_is_found_up_to_the_bound_and_not_behind_it(tmp_path: Path, in_store: bool) -> None:
    source, recipe = one_fingerprint(tmp_path, MOST_LOOKED_AT + 1)
    lines = lines_of(source)
    # One word more than the first, and than those on both sides of the bound.
    near = [f"{json.loads(lines[place])['text']} more" for place in (0, MOST_LOOKED_AT - 1, MOST_LOOKED_AT)]
    assert set(recipe.fingerprint_many(near).tolist()) == set(recipe.fingerprint_many(near[:1]).tolist())
    copies = [json.dumps({"id": place, "text": text}) for place, text in enumerate(near)]
    source.write_text("\n".join(lines + copies) + "\n")
    store = tmp_path / "s.fpstore" if in_store else None
    found = dedup([source], tmp_path / "kept", recipe=recipe, max_distance=3, confirm="jaccard>=0.8", store=store)
    assert [json.loads(line)["id"] for line in lines_of(tmp_path / "kept")][-2:] == [MOST_LOOKED_AT, 2]
    assert (found.documents - found.results, found.cut_short) == (2, 1)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.sampled_from(["", "!", "?", " ", "...", "a b", "a b c"]), max_size=12), st.integers(0, 16))
def test_confirmed_or_not_documents_without_tokens_go_by_equality(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], k: int
) -> None:
    folder = tmp_path_factory.mktemp("confirm")
    source = write_jsonl(folder / "in.jsonl", documents)
    silent = {text for text in documents if not any(map(str.isalnum, text))}
    for typed in (None, "jaccard>=0", "cosine>=0.3"):
        dedup([source], folder / "kept", max_distance=k, confirm=typed, force=True)
        kept = [json.loads(line)["text"] for line in lines_of(folder / "kept")]
        assert sorted(text for text in kept if text in silent) == sorted(silent)


# --- The defaults ---


def near_and_like(folder: Path) -> Path:
    """One document, one that is near it and too little like it, and one that is like it."""
    words = [f"word{i}" for i in range(60)]
    documents = [" ".join(words), " ".join(words[:53] + [f"x48y{i}" for i in range(7)]), " ".join([*words, "more"])]
    keys = recipes()["text-1"].fingerprint_many(documents)
    assert max(np.bitwise_count(keys[0] ^ keys[1:])) <= 6
    return write_jsonl(folder / "in.jsonl", documents)


def test_a_match_is_confirmed_unless_it_is_said_not_to_be(command: Command, tmp_path: Path) -> None:
    source = near_and_like(tmp_path)
    found = dedup([source], tmp_path / "1")
    assert (found.results, found.refused, found.confirm) == (2, 1, "jaccard>=0.82")
    found = dedup([source], tmp_path / "2", confirm=None)
    assert (found.results, found.refused, found.confirm) == (1, 0, None)
    for typed, kept in (("none", 1), ("jaccard>=0.7", 1), ("default", 2)):
        outcome = command("dedup", source, "-o", tmp_path / f"{kept}{typed[:4]}", "--confirm", typed)
        assert f": 3 documents, kept {kept}, dropped {3 - kept}" in outcome.err


def test_a_store_has_its_own_k_and_is_confirmed_where_it_has_the_texts(command: Command, tmp_path: Path) -> None:
    source, store, bare = near_and_like(tmp_path), tmp_path / "s.fpstore", tmp_path / "bare.fpstore"
    assert dedup([source], tmp_path / "1", store=store).confirm == "jaccard>=0.82"
    with fpstore.open(store) as opened:
        assert opened.max_distance == 6
    found = dedup([source], tmp_path / "2", store=store)
    assert (found.results, found.confirm) == (0, "jaccard>=0.82")
    assert command("build", bare, source).status == 0  # with documents, without their texts
    outcome = command("dedup", source, "-o", tmp_path / "3", "--store", bare)
    assert f"fpstore: {bare} lacks the texts of documents" in outcome.err
    assert "3 documents, kept 0, dropped 3, passed over" in outcome.err
    with fpstore.open(store, "w") as opened:  # another way into it
        opened.add([1, 2], ids=["100", "101"])
    with pytest.raises(JobError, match=r"found 2 documents without their texts, .* or --confirm none"):
        dedup([source], tmp_path / "4", store=store)
    assert dedup([source], tmp_path / "4", store=store, confirm=None).results == 0


@pytest.mark.parametrize("name", ["text-1", "simhash-1", "minhash-128"])
def test_texts_without_tokens_are_compared_behind_one_that_fills_what_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    small, long = Rooms(Room(8), Room(8)), "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: small)
    monkeypatch.setattr("fpstore.jobs.kept.ROOMS", small)
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 1)
    source = write_jsonl(tmp_path / "in.jsonl", [long, f"{long} z", *["!!!"] * 4, f"{long} z", "!!!"])
    summary = dedup([source], tmp_path / "out.jsonl", recipe=load_recipe(name), threads=1)
    assert (summary.documents, summary.results) == (8, 2)
