"""Jobs by a recipe of sketch minhash: near is what shares a band, the nearest has the largest estimated similarity."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import corpora, interrupt, jaccard, lines_of, texts, write_jsonl
from minhashes import estimate, shared

import fpstore
from fpstore import jobs, minhash
from fpstore.errors import JobError
from fpstore.inputs.errors import BadInput
from fpstore.jobs import Inputs, corpus, kept, runs, signed
from fpstore.ledger import NOTE
from fpstore.notes import JOBS
from fpstore.query import leaders, similar_leaders
from fpstore.text import DEFAULT_RECIPE, Recipe, recipes

BANDS, ROWS, BITS = 4, 2, 16
RECIPE = replace(recipes()["minhash-128"], name="small", values=16, shingle=1, dense_shingle=1)
CUT: dict[str, Any] = {"recipe": RECIPE, "bands": BANDS, "rows_per_band": ROWS}
TempFactory = pytest.TempPathFactory


class Plain:
    """The leaders of documents that come one by one, by a plain loop over all of them."""

    def __init__(
        self, least: float | None, confirm: float | None, looked_at: int = 64, recipe: Recipe = RECIPE
    ) -> None:
        self.least, self.confirm, self.looked_at, self.recipe = least, confirm, looked_at, recipe
        self.held: list[tuple[int, str, Sequence[int]]] = []
        self.cut_short = 0

    def near(self, signature: Sequence[int]) -> list[tuple[float, int, str]]:
        """Similarity, number and text of each that is near, the nearest first."""
        found = []
        for number, text, own in self.held:
            similarity = float(np.float32(estimate(signature, own, BITS)))
            if shared(signature, own, BANDS, ROWS) and (self.least is None or similarity >= self.least):
                found.append((similarity, number, text))
        return sorted(found, key=lambda each: (-each[0], each[1]))

    def decide(self, number: int, text: str) -> tuple[int, float, float] | None:
        """The number of its leader, the similarity, and how alike they are; None where it leads."""
        signature = self.recipe.sign_many([text])[0].tolist()
        near = self.near(signature)
        equal = [each for each in near[self.looked_at :] if each[2] == text]
        is_crowded = len(near) > self.looked_at and near[self.looked_at][0] == 1
        for similarity, other, kept_text in [*(equal if is_crowded else []), *near[: self.looked_at]]:
            alike = jaccard(text, kept_text, self.recipe)
            if self.confirm is None or alike >= self.confirm:
                return other, similarity, alike
        self.cut_short += len(near) > self.looked_at
        self.held.append((number, text, signature))
        return None


def lines_by(plain: Plain, documents: Sequence[str], order: Sequence[int], source: Path) -> list[str]:
    """What is written of those that are dropped."""
    found = {number: plain.decide(number, documents[number]) for number in order}
    lines = []
    for number in range(len(documents)):
        if (became := found[number]) is not None:
            other, similarity, alike = became
            measured = "" if plain.confirm is None else f"\t{alike:.4f}"
            lines.append(f"{source}:{number + 1}\t{source}:{other + 1}\t{similarity:.4f}{measured}")
    return lines


def clusters_by(plain: Plain, documents: Sequence[str], source: Path) -> list[str]:
    """What is written of each document."""
    numbers: dict[int, int] = {}
    lines = []
    for at, text in enumerate(documents):
        became = plain.decide(at, text)
        if became is None:
            numbers[at] = len(numbers)
        leader, similarity = (at, 1.0) if became is None else became[:2]
        lines.append(f"{numbers[leader]}\t{source}:{at + 1}\t{similarity:.4f}")
    return lines


@pytest.mark.slow
@given(
    corpora,
    st.sampled_from([None, 0.3, 0.7]),
    st.sampled_from([None, 0.5, 0.9]),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([1, 5, signed.MOST_HELD]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_dropped_is_what_a_plain_loop_drops(
    tmp_path_factory: TempFactory,
    documents: list[str],
    least: float | None,
    confirm: float | None,
    piece: int,
    longest: bool,
    held: int,
) -> None:
    folder = tmp_path_factory.mktemp("minhash")
    source = write_jsonl(folder / "in.jsonl", documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaders, "PIECE_ROWS", piece)
        patch.setattr(similar_leaders, "MOST_FOUND", 3)
        patch.setattr(signed, "MOST_HELD", held)
        for module in (corpus, runs):
            patch.setattr(module, "BATCH_DOCUMENTS", 4)
        found = jobs.dedup(
            [source],
            folder / "kept.jsonl",
            dropped=folder / "dropped",
            min_similarity=least,
            confirm=None if confirm is None else f"jaccard>={confirm}",
            keep="longest" if longest else "first",
            **CUT,
        )
    order = sorted(range(len(documents)), key=lambda at: -len(documents[at]) if longest else 0)
    lines = lines_by(Plain(least, confirm), documents, order, source)
    assert lines_of(folder / "dropped") == lines
    assert found.results == len(documents) - len(lines)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [3, 8192])
def test_results_are_the_same_whatever_threads_and_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, batch: int
) -> None:
    documents = [f"{i % 7} {i % 5} {i % 3} a b c" for i in range(60)]
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    for name in (corpus, runs):
        monkeypatch.setattr(name, "BATCH_DOCUMENTS", batch)
    jobs.dedup(
        [source], tmp_path / "kept", dropped=tmp_path / "dropped", confirm="jaccard>=0.7", threads=threads, **CUT
    )
    plain = Plain(None, 0.7)
    assert lines_of(tmp_path / "dropped") == lines_by(plain, documents, range(len(documents)), source)


def test_all_equal_and_all_in_one_bucket_are_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More are near than are found at once, so that fewer are looked up together."""
    monkeypatch.setattr(similar_leaders, "MOST_FOUND", 10)
    monkeypatch.setattr(minhash.MinHashStore, "max_matches", 50)
    documents = [f"{i % 40} a b c d e f g h" for i in range(80)]
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    found = jobs.dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", confirm="jaccard>=1", **CUT)
    assert (found.documents, found.results) == (80, 40)
    assert [line.split("\t")[2:] for line in lines_of(tmp_path / "dropped")] == [["1.0000", "1.0000"]] * 40


def test_more_near_ones_than_an_answer_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minhash.MinHashStore, "max_matches", 3)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 1)
    source = write_jsonl(tmp_path / "in.jsonl", [f"{i} a b c d e f g h" for i in range(20)])
    numbered(tmp_path / "s")
    with pytest.raises(fpstore.TooManyMatches):
        jobs.dedup([source], tmp_path / "kept", confirm="jaccard>=1", store=tmp_path / "s", **CUT)
    assert jobs.dedup([source], tmp_path / "kept", confirm="jaccard>=1", **CUT).results == 20


@pytest.mark.parametrize("held", [1, 10])
@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_a_job_of_its_own_goes_on_wherever_its_signatures_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, job: str
) -> None:
    """In memory and in its file, or in the store to which they went; interrupted behind its steps."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(signed, "MOST_HELD", held)
    documents = [f"{i % 9} {i % 4} {i // 12} {i // 9} x{i // 9}" for i in range(40)]
    source = write_jsonl(tmp_path / "in.jsonl", documents)

    def run(name: str) -> Any:
        return getattr(jobs, job)([source], tmp_path / name, confirm="jaccard>=0.6", **CUT)

    whole = run("whole")
    spills = 0
    settle = signed.OwnRows.settle

    def spill(rows: signed.OwnRows) -> None:
        nonlocal spills
        settle(rows)
        spills += rows.spilled > 0
        if stops and spills == stops:
            raise KeyboardInterrupt

    def begin(rows: signed.OwnRows, *given: Any) -> None:
        init(rows, *given)
        assert len(rows._memory) == rows.count - rows._store.count()  # each is in one place

    init = signed.OwnRows.__init__
    monkeypatch.setattr(signed.OwnRows, "__init__", begin)
    for stops in (1, 2):
        spills = 0
        with monkeypatch.context() as patch:
            patch.setattr(signed.OwnRows, "settle", spill)
            with pytest.raises(KeyboardInterrupt):
                run(f"stopped-{stops}")
        found = run(f"stopped-{stops}")
        assert (found.results, found.refused) == (whole.results, whole.refused)
        assert lines_of(tmp_path / f"stopped-{stops}") == lines_of(tmp_path / "whole")
    for after in (1, 3):
        interrupt(monkeypatch, partial(run, f"after-{after}"), after)
        run(f"after-{after}")
        assert lines_of(tmp_path / f"after-{after}") == lines_of(tmp_path / "whole")


def test_a_file_of_signatures_that_is_too_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", [f"x{i} y{i}" for i in range(30)])

    def run() -> Any:
        return jobs.dedup([source], tmp_path / "kept", **CUT)

    interrupt(monkeypatch, run, 2)
    (file,) = tmp_path.rglob("signed")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(JobError, match="found 100 bytes, the journal says"):
        run()


@pytest.mark.parametrize("way", ["alone", "numbers", "names"])
def test_an_equal_document_is_dropped_behind_any_number_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Their signatures are equal, as these have one value of which none of the words that differ has a smaller one."""
    for module in (leaders, kept, similar_leaders):
        monkeypatch.setattr(module, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 5)
    one = replace(RECIPE, values=1)
    words = [f"w{i}" for i in range(2000)]
    values = one.sign_many(words)[:, 0]
    least = words[int(values.argmin())]
    apart = [f"{least} {each}" for each in words[:12] if each != least]
    documents = apart + apart
    store = None if way == "alone" else tmp_path / "s.fpstore"
    if way == "numbers":
        minhash.create(tmp_path / "s.fpstore", recipe=one, bands=1, rows_per_band=1).close()
    asked: dict[str, Any] = {"recipe": one, "bands": 1, "rows_per_band": 1, "confirm": "jaccard>=0.9"}
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    found = jobs.dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", store=store, **asked)
    count = len(apart)
    assert (found.results, found.documents, found.cut_short) == (count, 2 * count, count - 3)
    reasons = [line.split("\t")[1:] for line in lines_of(tmp_path / "dropped")]
    assert reasons == [[f"{source}:{i + 1}", "1.0000", "1.0000"] for i in range(count)]
    if store is not None:
        again = jobs.dedup([source], tmp_path / "again", store=store, **asked)
        assert again.results == 0


@pytest.mark.parametrize("job", ["dedup", "cluster", "components", "document_pairs"])
@pytest.mark.parametrize("width", [None, 16])
def test_ids_that_are_bytes_are_refused_with_their_row(tmp_path: Path, job: str, width: int | None) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    of_bytes = pa.binary() if width is None else pa.binary(width)
    ids = pa.array([bytes([255, i] * 8) for i in range(3)], of_bytes)
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": ids, "text": ["a b c", "a b c", "x y z"]}), source)
    inputs = Inputs([source], id_column="id", text_column="text")
    with pytest.raises(BadInput, match=r"row 0: found id b'.*, expected a text of 1 to 10000 characters or a whole"):
        getattr(jobs, job)(inputs, tmp_path / "out", **CUT)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_stores_whose_ids_are_bytes_are_refused(tmp_path: Path, job: str) -> None:
    minhash.create(tmp_path / "s", id_type="bytes", **CUT).close()
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c", "a b c"])
    with pytest.raises(ValueError, match="found ids that are bytes, expected strings"):
        getattr(jobs, job)([source], tmp_path / "out", store=tmp_path / "s", **CUT)
    assert not (tmp_path / "out").exists()


# --- A standing store ---


def tagged(folder: Path, name: str, documents: Sequence[str], **asked: Any) -> tuple[list[str], Any]:
    source = write_jsonl(folder / f"{name}.jsonl", documents)
    found = jobs.dedup([source], folder / f"kept-{name}", dropped=folder / f"dropped-{name}", **asked)
    return [line.split("\t", 1)[1] for line in lines_of(folder / f"dropped-{name}")], found


def numbered(path: Path) -> None:
    """Make a store whose ids are numbers; those that dedup makes have names."""
    minhash.create(path, **CUT).close()


@pytest.mark.parametrize("by_number", [False, True])
@pytest.mark.parametrize("confirm", [None, "jaccard>=0.6"])
def test_tomorrow_goes_on_with_what_is_kept(tmp_path: Path, confirm: str | None, by_number: bool) -> None:
    documents = [f"{i % 9} {i % 4} a b c d" for i in range(50)]
    asked = {**CUT, "confirm": confirm}
    _, whole = tagged(tmp_path, "all", documents, **asked)
    store = tmp_path / "s.fpstore"
    if by_number:
        numbered(store)
    parts = [tagged(tmp_path, str(at), documents[at : at + 20], store=store, **asked)[1] for at in (0, 20, 40)]
    assert sum(part.results for part in parts) == whole.results
    kept_lines = [line for at in (0, 20, 40) for line in lines_of(tmp_path / f"kept-{at}")]
    told = [json.loads(line)["text"] for line in kept_lines]
    assert told == [json.loads(line)["text"] for line in lines_of(tmp_path / "kept-all")]
    with minhash.open(store) as opened:
        assert opened.count() == whole.results
        assert (opened.bands, opened.rows_per_band, opened.recipe) == (BANDS, ROWS, RECIPE)
    found = tagged(tmp_path, "last", documents[:5], store=store, confirm=confirm)[1]
    assert found.results == 0  # by the bands and the recipe of the store


@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize("confirm", [None, "jaccard>=0.6"])
@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupted_job_goes_on_or_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirm: str | None, after: int, clusters: bool
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    documents = [f"{i % 9} {i % 4} {i // 12} {i // 9} x{i // 9}" for i in range(40)]
    store, asked = tmp_path / "s.fpstore", {**CUT, "confirm": confirm}
    numbered(store)
    job: Callable[..., Any] = jobs.cluster if clusters else jobs.dedup

    def run(name: str, some: Sequence[str], **more: Any) -> Any:
        source = write_jsonl(tmp_path / f"{name}.jsonl", some)
        return job([source], tmp_path / f"out-{name}", **asked, **more)

    run("first", documents[:10], store=store)
    run("whole", documents)
    with minhash.open(store) as opened:
        before = opened.count()
    interrupt(monkeypatch, lambda: run("rest", documents[10:], store=store), after)
    with pytest.raises(JobError, match="is not finished"):
        minhash.open(store, "w")
    run("rest", documents[10:], store=store)
    with minhash.open(store) as opened:
        assert opened.count() > before
        assert opened.count() == run("again", documents).results
    interrupt(monkeypatch, lambda: run("other", [f"x{i} y{i} z{i}" for i in range(30)], store=store), after)
    (work,) = tmp_path.glob("out-other*.job")
    for path in sorted(work.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    work.rmdir()
    with pytest.warns(UserWarning, match="was undone"), minhash.open(store, "w") as opened:
        assert opened.count() == run("once more", documents).results


def test_a_job_that_lost_its_last_documents_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", [f"x{i} y{i}" for i in range(30)])
    numbered(tmp_path / "s")

    def run() -> Any:
        return jobs.dedup([source], tmp_path / "kept", store=tmp_path / "s", **CUT)

    interrupt(monkeypatch, run, 2)
    note = tmp_path / "s" / JOBS / NOTE
    note.rename(tmp_path / "note")
    with minhash.open(tmp_path / "s", "w") as store:
        store.remove(ids=[13])
    (tmp_path / "note").rename(note)
    with pytest.raises(JobError, match="lacks document 13, which the interrupted job stored last"):
        run()


def test_numbers_go_on_from_the_largest(tmp_path: Path) -> None:
    with minhash.create(tmp_path / "s", recipe=RECIPE, bands=BANDS, rows_per_band=ROWS) as store:
        store.add_texts(["a b c", "d e f"], ids=[5, 17])
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c", "new one"])
    found = jobs.dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", store=tmp_path / "s", recipe=RECIPE)
    assert (found.results, found.confirm) == (1, None)
    assert lines_of(tmp_path / "dropped") == [f"{source}:1\t{tmp_path / 's'}#5\t1.0000"]
    with minhash.open(tmp_path / "s") as store:
        assert store.lookup([18]).id.tolist() == [18]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "max_distance": ({"recipe": RECIPE, "max_distance": 3}, "max_distance: found 3 with recipe small"),
    "bands": ({"recipe": DEFAULT_RECIPE, "bands": 16}, "bands: found 16 with recipe text-1, which makes fingerprints"),
    "rows": ({"recipe": DEFAULT_RECIPE, "rows_per_band": 8}, "rows_per_band: found 8 with recipe text-1"),
    "similarity": ({"recipe": DEFAULT_RECIPE, "min_similarity": 0.5}, "min_similarity: found 0.5 with recipe text-1"),
    "too many": ({"recipe": RECIPE}, "bands \\* rows_per_band: found 128, expected at most 16"),
    "above 1": ({**CUT, "min_similarity": 1.5}, "min_similarity: found 1.5, expected a number from 0 to 1"),
}


@pytest.mark.parametrize("job", ["dedup", "cluster", "components", "document_pairs"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_the_recipe_is_refused(tmp_path: Path, job: str, name: str) -> None:
    asked, told = REFUSED[name]
    with pytest.raises(ValueError, match=told):
        getattr(jobs, job)([[{"text": "a"}]], tmp_path / "out", **asked)
    assert not [*tmp_path.iterdir()]


def test_stores_that_jobs_cannot_go_on_with_are_refused(tmp_path: Path) -> None:
    minhash.create(tmp_path / "bare", keep_signatures=False, **CUT).close()
    minhash.create(tmp_path / "sound", **CUT).close()
    fpstore.create(tmp_path / "bits", recipe=DEFAULT_RECIPE).close()
    for store, asked, told in (
        ("bare", {}, "found a store that keeps no signatures, expected one that does"),
        ("sound", {"bands": 2}, "found 2 bands of 2 values, expected 4 of 2, as the store has"),
        ("sound", {"max_distance": 3}, "max_distance: found 3 with recipe small"),
        ("sound", {"recipe": DEFAULT_RECIPE}, "found recipe small, expected text-1"),
        ("bits", {"min_similarity": 0.5}, "min_similarity: found 0.5 with recipe text-1"),
    ):
        given: dict[str, Any] = {"store": tmp_path / store, **asked}
        with pytest.raises(ValueError, match=told):
            jobs.dedup([[{"text": "a"}]], tmp_path / "out", **given)
    with pytest.raises(ValueError, match="update_center: found it with recipe small, which makes signatures"):
        jobs.cluster([[{"text": "a"}]], tmp_path / "out", update_center=True, **CUT)


# --- Clusters, components, pairs ---


@pytest.mark.slow
@given(corpora, st.sampled_from([None, 0.3, 0.7]), st.sampled_from([None, 0.5, 0.9]), st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_clusters_are_those_of_a_plain_loop(
    tmp_path_factory: TempFactory, documents: list[str], least: float | None, confirm: float | None, piece: int
) -> None:
    folder = tmp_path_factory.mktemp("clusters")
    source = write_jsonl(folder / "in.jsonl", documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaders, "PIECE_ROWS", piece)
        patch.setattr(corpus, "BATCH_DOCUMENTS", 4)
        check = None if confirm is None else f"jaccard>={confirm}"
        found = jobs.cluster([source], folder / "clusters", min_similarity=least, confirm=check, **CUT)
    expected = clusters_by(Plain(least, confirm), documents, source)
    assert lines_of(folder / "clusters") == expected
    assert found.clusters == len({line.split("\t")[0] for line in expected})


def test_clusters_are_what_dedup_keeps_and_drops(tmp_path: Path) -> None:
    documents = [f"{i % 9} {i % 4} a b c d" for i in range(30)]
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    jobs.cluster([source], tmp_path / "clusters", confirm="jaccard>=0.6", **CUT)
    expected = clusters_by(Plain(None, 0.6), documents, source)
    assert lines_of(tmp_path / "clusters") == expected
    jobs.cluster([source], tmp_path / "annotated.jsonl", confirm="jaccard>=0.6", annotate=True, **CUT)
    annotated = [json.loads(line) for line in lines_of(tmp_path / "annotated.jsonl")]
    assert [each["cluster"] for each in annotated] == [int(line.split("\t")[0]) for line in expected]
    assert all(0 <= each["cluster_similarity"] <= 1 for each in annotated)


@pytest.mark.slow
@given(st.lists(texts, max_size=14), st.sampled_from([None, 0.6]))
@settings(max_examples=30, deadline=None)
def test_pairs_and_components_are_those_of_all_pairs(
    tmp_path_factory: TempFactory, documents: list[str], least: float | None
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    source = write_jsonl(folder / "in.jsonl", documents)
    signed = [row.tolist() for row in RECIPE.sign_many(documents)]
    pairs, component = [], list(range(len(documents)))
    for one in range(len(documents)):
        for other in range(one + 1, len(documents)):
            similarity = float(np.float32(estimate(signed[one], signed[other], BITS)))
            if shared(signed[one], signed[other], BANDS, ROWS) and (least is None or similarity >= least):
                pairs.append(f"{source}:{one + 1}\t{source}:{other + 1}\t{similarity:.4f}")
                joined = {component[one], component[other]}
                component = [min(joined) if each in joined else each for each in component]
    asked = {**CUT, "min_similarity": least}
    assert jobs.document_pairs([source], folder / "pairs", **asked).results == len(pairs)
    assert sorted(lines_of(folder / "pairs")) == sorted(pairs)
    jobs.components([source], folder / "components", **asked)
    firsts = sorted(set(component))
    expected = []
    for at, first in enumerate(component):
        similarity = float(np.float32(estimate(signed[at], signed[first], BITS)))
        expected.append(f"{firsts.index(first)}\t{source}:{at + 1}\t{similarity:.4f}")
    assert lines_of(folder / "components") == expected


def test_signatures_of_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fpstore import _names

    monkeypatch.setattr(_names, "hashes", lambda data, ends: np.zeros(len(ends), dtype=np.uint64))
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c", "x y z", "a b c"])
    assert jobs.components([source], tmp_path / "out", **CUT).results == 2


# --- The news, as the textbooks have it ---


def page(title: str, words: Sequence[str]) -> str:
    menu = "".join(f"<li><a href='/{i}'>Section {i}</a></li>" for i in range(6))
    return (
        f"<html><head><title>{title}</title><style>p {{color: red}}</style></head><body><nav><ul>{menu}</ul></nav>"
        f"<article><h1>{title}</h1><p>{' '.join(words)}</p></article><footer>All rights reserved</footer></body></html>"
    )


def test_the_news_of_today_one_by_one_against_those_of_yesterday(tmp_path: Path) -> None:
    """Pages cleaned of HTML, three words in a row, 128 values in 16 bands of 8, a threshold of 0.8 (Leskovec, Rajaraman
    and Ullman, Mining of Massive Datasets, chapter 3)."""
    recipe = recipes()["minhash-128"]
    rng = np.random.default_rng(5)
    yesterday = [[f"word{n}" for n in rng.integers(0, 4000, 300)] for _ in range(40)]
    with minhash.create(tmp_path / "news", recipe=recipe, id_type="string") as store:
        cleaned = [recipe.text_of(page(f"Story {i}", words)) for i, words in enumerate(yesterday)]
        store.add_texts(cleaned, ids=[f"/yesterday/{i}" for i in range(len(yesterday))])
        for i in range(20):
            words = list(yesterday[i])
            for at in rng.integers(0, len(words), 4):  # some words of a known story are others
                words[int(at)] = "new"
            text = recipe.text_of(page(f"Story {i}", words))
            assert not {"Section", "color"} & {*text.split()}
            exact = jaccard(text, cleaned[i], recipe)
            assert exact >= 0.8
            (found,) = store.probe_text(text, min_similarity=0.7)
            assert found.id == f"/yesterday/{i}"
            assert abs(found.similarity - exact) <= 4 * math.sqrt(0.25 / 128)
            assert not store.add_texts_if_new([text], ids=[f"/today/{i}"], min_similarity=0.7).stored[0]
        other = [f"word{n}" for n in rng.integers(4000, 8000, 300)]
        new = recipe.text_of(page("Another story", other))
        assert len(store.probe_text(new, min_similarity=0.8)) == 0
        assert store.add_texts_if_new([new], ids=["/today/new"], min_similarity=0.8).stored[0]
        assert store.count() == len(yesterday) + 1


def test_the_news_of_two_days_as_jobs(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    stories = [[f"word{n}" for n in rng.integers(0, 4000, 200)] for _ in range(30)]
    for day in ("yesterday", "today"):
        (tmp_path / day).mkdir()
        for i, words in enumerate(stories):
            changed = [*words[:-2], "and", day] if i < 20 else [f"{day}{i}", *rng.permutation(words).tolist()]
            (tmp_path / day / f"{i}.html").write_text(page(f"Story {i}", changed))
    asked: dict[str, Any] = {"confirm": "jaccard>=0.8", "store": tmp_path / "news", "recipe": recipes()["minhash-128"]}
    first = jobs.dedup(Inputs([tmp_path / "yesterday"]), tmp_path / "kept-1", **asked)
    second = jobs.dedup(Inputs([tmp_path / "today"]), tmp_path / "kept-2", dropped=tmp_path / "dropped", **asked)
    assert (first.results, second.results) == (30, 10)
    for line in lines_of(tmp_path / "dropped"):
        name, known, similarity, measure = line.split("\t")
        assert (Path(name).name, Path(known).parent.name) == (Path(known).name, "yesterday")
        assert float(measure) >= 0.8
        assert float(similarity) >= 0.6


@pytest.mark.parametrize("by_number", [False, True])
def test_what_was_stored_after_the_last_commit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_number: bool
) -> None:
    """The job ends between the additions of a batch and its commit."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", [f"x{i} y{i}" for i in range(30)])
    if by_number:
        numbered(tmp_path / "s")

    def run() -> Any:
        return jobs.dedup([source], tmp_path / "kept", store=tmp_path / "s", **CUT)

    done = 0

    def stop(run: runs.FirstRun) -> None:
        nonlocal done
        done += 1
        if done == 3:
            raise KeyboardInterrupt
        commit(run)

    commit = runs.FirstRun._commit
    with monkeypatch.context() as patch:
        patch.setattr(runs.FirstRun, "_commit", stop)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert run().results == 30
    with minhash.open(tmp_path / "s") as store:
        assert store.count() == 30


@pytest.mark.parametrize(("similarity", "share"), [(0.82, 0.97), (0.9, 1.0), (0.5, 0.06)])
def test_two_documents_share_a_band_as_often_as_is_said(similarity: float, share: float) -> None:
    assert round(1 - (1 - similarity**8) ** 16, 2) == share


def test_documents_of_one_piece_are_near_from_the_least_similarity_on(tmp_path: Path) -> None:
    documents = [f"a b c d {i} {i + 1} {i * i}" for i in range(40)]
    signed = [row.tolist() for row in RECIPE.sign_many(documents)]
    pairs = [(i, j) for i in range(40) for j in range(i) if shared(signed[i], signed[j], BANDS, ROWS)]
    one, other = next((i, j) for i, j in pairs if 0 < estimate(signed[i], signed[j], BITS) < 0.7)
    source = write_jsonl(tmp_path / "in.jsonl", [documents[one], documents[other]])
    for least, kept_count in ((None, 1), (0.7, 2)):
        asked = {**CUT, "min_similarity": least, "confirm": None}
        assert jobs.dedup([source], tmp_path / f"kept-{kept_count}", **asked).results == kept_count
