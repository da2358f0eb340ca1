"""A document that equals a kept one is dropped for it, however many others with its fingerprint come before that."""

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import interrupt, lines_of

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import documents_reference as plain

import fpstore
from fpstore.jobs import Inputs, Summary, cluster, corpus, dedup, kept, runs
from fpstore.query import equals, leaders
from fpstore.query.equals import Equals
from fpstore.text import Recipe, deduplication
from fpstore.text import dedup as dedup_texts
from fpstore.text.confirm import Checker, Confirm
from fpstore.text.recipe import Measured

# The repeated word decides every bit of these, so all have one fingerprint; no two are alike.
WORDS = Recipe("words", shingle=1, weights="frequency")
APART = [f"Word{i} b b b" for i in range(12)]
CONFIRM = "jaccard>=0.8"
LOOKED_AT = 2


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are looked at, and few are decided at a time."""
    for module in (leaders, kept):
        monkeypatch.setattr(module, "MOST_LOOKED_AT", LOOKED_AT)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 5)
    for name in (corpus, runs):
        monkeypatch.setattr(name, "BATCH_DOCUMENTS", 7)


def named(folder: Path, name: str, documents: Sequence[str], first: int = 0) -> Inputs:
    path = folder / f"{name}.jsonl"
    lines = (json.dumps({"id": f"d{first + i}", "text": text}) + "\n" for i, text in enumerate(documents))
    path.write_text("".join(lines))
    return Inputs([path], id_column="id")


def job(inputs: Inputs, folder: Path, name: str, **options: Any) -> Summary:
    given: dict[str, Any] = {"recipe": WORDS, "max_distance": 3, "confirm": CONFIRM}
    return dedup(inputs, folder / f"kept-{name}.jsonl", dropped=folder / f"dropped-{name}", **given | options)


def reasons(folder: Path, name: str) -> list[list[str]]:
    return [line.split("\t") for line in lines_of(folder / f"dropped-{name}")]


def test_the_documents_here_have_one_fingerprint() -> None:
    assert len(set(WORDS.fingerprint_many(APART).tolist())) == 1


@pytest.mark.parametrize("way", ["alone", "names", "numbers"])
@pytest.mark.usefixtures("few")
def test_an_equal_document_is_dropped_behind_any_number_of_others(tmp_path: Path, way: str) -> None:
    store = None if way == "alone" else tmp_path / "s.fpstore"
    if way == "numbers":
        fpstore.create(tmp_path / "s.fpstore", recipe=WORDS).close()
    found = job(named(tmp_path, "in", APART + APART), tmp_path, "1", store=store)
    assert (found.results, found.documents, found.cut_short) == (12, 24, 12 - LOOKED_AT - 1)
    assert reasons(tmp_path, "1") == [[f"d{12 + i}", f"d{i}", "0", "1.0000"] for i in range(12)]
    if store is None:
        return
    # And so are the same inputs a second time, by a job that finds all of them in the store.
    found = job(named(tmp_path, "in", APART + APART), tmp_path, "2", store=store)
    assert (found.results, found.cut_short) == (0, 0)
    assert reasons(tmp_path, "2") == [[f"d{i}", f"d{i % 12}", "0", "1.0000"] for i in range(24)]


@pytest.mark.usefixtures("few")
def test_other_cases_and_orders_of_the_same_words_are_equal_and_what_is_only_alike_is_not(tmp_path: Path) -> None:
    documents = [f"{text} {' '.join(f'x{i}y{j}' for j in range(8))}" for i, text in enumerate(APART)]
    heavy = [text.replace("b b b", "b " * 40) for text in documents]
    assert len(set(WORDS.fingerprint_many(heavy).tolist())) == 1
    again = [" ".join(reversed(heavy[9].upper().split())), f"{heavy[9]} more"]
    found = job(named(tmp_path, "in", heavy + again), tmp_path, "1")
    assert reasons(tmp_path, "1") == [["d12", "d9", "0", "1.0000"]]
    assert (found.results, found.cut_short) == (13, 13 - LOOKED_AT - 1)


@pytest.mark.parametrize("id_type", ["string", "uint64"])
@pytest.mark.usefixtures("few")
def test_a_document_that_was_removed_is_not_found_behind_the_bound(tmp_path: Path, id_type: Any) -> None:
    store = tmp_path / "s.fpstore"
    fpstore.create(store, id_type=id_type, recipe=WORDS).close()
    job(named(tmp_path, "in", APART), tmp_path, "1", store=store)
    with fpstore.open(store, "w") as opened:
        opened.remove(ids=["d9", "d11"] if id_type == "string" else [9, 11])
    found = job(named(tmp_path, "in", APART), tmp_path, "2", store=store)
    assert found.results == 2
    assert lines_of(tmp_path / "kept-2.jsonl") == [json.dumps({"id": f"d{i}", "text": APART[i]}) for i in (9, 11)]
    assert job(named(tmp_path, "in", APART), tmp_path, "3", store=store).results == 0


@pytest.mark.slow
@pytest.mark.parametrize("in_store", [False, True])
@pytest.mark.usefixtures("few")
def test_an_interrupted_job_finds_what_it_kept_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_store: bool
) -> None:
    inputs = named(tmp_path, "in", [*APART, *APART[::-1]])
    expected = job(inputs, tmp_path, "whole")
    for after in (1, 2, 3):
        store = tmp_path / f"{after}.fpstore" if in_store else None
        name = str(after)

        def work(name: str = name, store: Path | None = store) -> Summary:
            return job(inputs, tmp_path, name, store=store)

        interrupt(monkeypatch, work, after)
        found = work()
        assert (found.results, found.refused, found.cut_short) == (12, expected.refused, expected.cut_short)
        assert reasons(tmp_path, name) == reasons(tmp_path, "whole")


@pytest.mark.parametrize("in_store", [False, True])
@pytest.mark.usefixtures("few")
def test_members_that_equal_a_leader_join_it(tmp_path: Path, in_store: bool) -> None:
    store = tmp_path / "s.fpstore" if in_store else None
    options: dict[str, Any] = {"recipe": WORDS, "max_distance": 3, "confirm": CONFIRM, "store": store}
    found = cluster(named(tmp_path, "in", [*APART, *APART]), tmp_path / "1", **options)
    assert (found.results, found.cut_short) == (12, 12 - LOOKED_AT - 1)
    assert [line.split("\t")[0] for line in lines_of(tmp_path / "1")] == [*map(str, range(12))] * 2
    if in_store:
        cluster(named(tmp_path, "again", APART), tmp_path / "2", **options)
        assert [line.split("\t")[0] for line in lines_of(tmp_path / "2")] == [*map(str, range(12))]


@pytest.mark.parametrize("keep", ["longest", "max:id"])
@pytest.mark.usefixtures("few")
def test_whatever_is_kept_an_equal_one_is_dropped(tmp_path: Path, keep: str) -> None:
    found = job(named(tmp_path, "in", [*APART, *APART]), tmp_path, "1", keep=keep)
    assert (found.results, found.documents) == (12, 24)


@pytest.mark.slow
def test_by_the_bound_as_it_is_the_same_input_is_dropped_a_second_time(tmp_path: Path) -> None:
    """The repro of a user, small: 200 documents of one fingerprint, which is more than 64, twice."""
    documents = [f"Word{i} b b b" for i in range(200)]
    store = tmp_path / "s.fpstore"
    assert job(named(tmp_path, "in", documents), tmp_path, "1", store=store).results == 200
    assert job(named(tmp_path, "in", documents), tmp_path, "2", store=store).results == 0
    found = dedup_texts(documents * 2, recipe=WORDS, confirm=CONFIRM)
    assert found.duplicate_of.tolist() == [*range(200)] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_dropped_document_may_be_kept_the_second_time_and_is_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is near its reason by one bit, and those that are kept later have its very fingerprint."""
    words = [f"w{i}" for i in range(20)]
    documents = [" ".join(words), " ".join([*words, "x"]), *APART[:3]]

    def given(recipe: Recipe, texts: Sequence[str], *_: object) -> Measured:
        keys = [1 if text == documents[0] else 0 for text in texts]
        return deduplication.measured_apart(recipe, texts, 1)._replace(fingerprints=np.array(keys, dtype=np.uint64))

    monkeypatch.setattr(corpus, "begin_to_measure_apart", lambda *own, keeps: lambda: (given(*own), None))
    store, inputs = tmp_path / "s.fpstore", named(tmp_path, "in", documents)
    found = job(inputs, tmp_path, "1", store=store)
    assert (found.results, found.cut_short, reasons(tmp_path, "1")[0][:3]) == (4, 1, ["d1", "d0", "1"])
    found = job(inputs, tmp_path, "2", store=store)
    assert (found.results, found.cut_short) == (1, 1)
    assert [line[0] for line in reasons(tmp_path, "2")] == ["d0", "d2", "d3", "d4"]


# --- Against plain Python ---


@pytest.mark.slow
@settings(max_examples=80)
@given(
    st.lists(st.sampled_from(["a", "A", "a b", "b a", "a c", "b c", "c", "a b c", "!", "?", ""]), max_size=40),
    st.sampled_from([("jaccard", 0.9), ("jaccard", 0.5), ("cosine", 0.8)]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 4, 256]),
    st.integers(0, 3),
)
def test_crowds_are_decided_as_plain_python_decides(
    texts: list[str], confirm: tuple[str, float], looked_at: int, piece: int, bits: int
) -> None:
    """Fingerprints of a few bits, so that there are crowds, and others near them."""
    recipe = Recipe("words", shingle=1)
    fingerprints, plain_fingerprint = deduplication.measured_apart, plain.fingerprint
    mask = (1 << bits) - 1

    def few_bits(*arguments: Any) -> Measured:
        measured = fingerprints(*arguments)
        measured.fingerprints[:] &= mask
        return measured

    seen = plain.Seen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaders, "MOST_LOOKED_AT", looked_at)
        patch.setattr(leaders, "PIECE_ROWS", piece)
        patch.setattr(equals, "_MIN_RECENT", 3)
        patch.setattr(deduplication, "measured_apart", few_bits)
        patch.setattr(plain, "fingerprint", lambda recipe, text: plain_fingerprint(recipe, text) & mask)
        found = dedup_texts(texts, recipe=recipe, max_distance=2, confirm=f"{confirm[0]}>={confirm[1]}")
        verdicts = plain.dedup(
            [plain.Document(str(place), text) for place, text in enumerate(texts)],
            2,
            recipe,
            seen,
            order=range(len(texts)),
            alike=lambda one, other: (
                measure := plain.measure(confirm[0], recipe, one, other),
                measure >= confirm[1],
            ),
            looked_at=looked_at,
        )
    expected = [place if told is None else int(told.kept) for place, told in enumerate(verdicts)]
    assert found.duplicate_of.tolist() == expected
    kept_texts = [texts[place] for place in found.kept.tolist()]
    assert len(set(kept_texts)) == len(kept_texts)


# --- Marks ---


def test_what_says_nothing_is_marked_by_its_bytes() -> None:
    checker = Checker(Confirm("jaccard", 0.8), WORDS, lambda ids: [["!", "?", "a b", "B a"][i] for i in ids])

    def mark(text: str) -> int:
        return checker.mark(WORDS.features(text), lambda: text)

    one, other, same, also = checker.marks_of([0, 1, 2, 3])
    assert one != other
    assert same == also == mark("b A")
    assert [mark(text) for text in ("!", "?")] == [one, other]
    # With other weights texts are no equals, though a Jaccard does not tell them apart.
    assert mark("a b b") != same


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 2**63, 2**64 - 1])), max_size=60), st.integers(1, 9))
def test_marks_are_those_of_a_dictionary(added: list[tuple[int, int]], recent: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equals, "_MIN_RECENT", recent)
        held, expected = Equals(), dict[int, list[int]]()
        for leader, (fingerprint, mark) in enumerate(added):
            held.add(mark, leader)
            held.learn(fingerprint)
            expected.setdefault(mark, []).append(leader)
            assert {each: held.find(each) for each in expected} == expected
    assert held.find(7) == []
    known = {fingerprint for fingerprint, _ in added}
    assert [held.knows(fingerprint) for fingerprint in range(6)] == [each in known for each in range(6)]


def test_marks_of_many_leaders_take_few_bytes() -> None:
    held, marks = Equals(), random.Random(1)
    for leader in range(20_000):
        held.add(marks.getrandbits(64), leader)
    # Most of them lie in the two columns of eight bytes.
    assert len(held._ids) == len(held._marks) > 20_000 * 3 / 4
