"""`fpstore.jobs.dedup`: which documents are kept, and what is written about the others."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import (
    Verdicts,
    corpora,
    cosine,
    fingerprints,
    first_come,
    jaccard,
    lines_of,
    shingle_weights,
    write_jsonl,
)

import fpstore
from fpstore.jobs import Inputs, JobError, corpus, dedup, kept, runs
from fpstore.query import leaders
from fpstore.text import DEFAULT_RECIPE, Recipe, recipes

TempFactory = pytest.TempPathFactory


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


def expect_results(folder: Path, source: Path, verdicts: Verdicts) -> None:
    """kept and dropped in folder are what the verdicts say."""
    lines = lines_of(source)
    assert lines_of(folder / "kept") == [line for line, found in zip(lines, verdicts, strict=True) if found is None]
    assert [line.split("\t")[:3] for line in lines_of(folder / "dropped")] == [
        [f"{source}:{i + 1}", f"{source}:{found[0] + 1}", str(found[1])] for i, found in enumerate(verdicts) if found
    ]


def rows_of(path: Path) -> list[tuple[Any, int]]:
    with fpstore.open(path) as store:
        return sorted((row.id, row.fingerprint) for rows in store.rows() for row in rows)


# --- Which are kept ---


@pytest.mark.slow
@given(corpora, st.integers(0, 8))
@settings(max_examples=50)
def test_the_first_is_kept_and_what_is_near_it_dropped(
    tmp_path_factory: TempFactory, documents: list[str], k: int
) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    source = write_jsonl(folder / "in.jsonl", documents)
    found = dedup([source], folder / "kept", dropped=folder / "dropped", max_distance=k, confirm=None)
    verdicts = first_come(range(len(documents)), fingerprints(documents), k)
    expect_results(folder, source, verdicts)
    assert (found.documents, found.results) == (len(documents), verdicts.count(None))
    assert (found.skipped, found.refused) == ({}, 0)
    assert sorted(path.name for path in folder.iterdir()) == [".kept.done", "dropped", "in.jsonl", "kept"]


@pytest.mark.slow
@given(corpora, st.integers(0, 8))
@settings(max_examples=50)
def test_the_longest_is_kept_as_if_it_came_first(tmp_path_factory: TempFactory, documents: list[str], k: int) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    source = write_jsonl(folder / "in.jsonl", documents)
    dedup([source], folder / "kept", dropped=folder / "dropped", max_distance=k, keep="longest", confirm=None)
    order = sorted(range(len(documents)), key=lambda i: (-len(documents[i]), i))
    expect_results(folder, source, first_come(order, fingerprints(documents), k))


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("keep", ["first", "longest"])
def test_the_size_of_a_batch_changes_nothing(tmp_path: Path, keep: str) -> None:
    documents = ["a b c", "a b d", "x", "", "a b c", "!", "x", "", "y y y y", "!", "y y y y y y", "a b", "z"] * 3
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", max_distance=8, keep=keep, confirm=None)
    order = sorted(range(len(documents)), key=lambda i: (-len(documents[i]) if keep == "longest" else 0, i))
    expect_results(tmp_path, source, first_come(order, fingerprints(documents), 8))


@pytest.mark.slow
@given(corpora, corpora, st.sampled_from(["first", "longest"]))
@settings(max_examples=50)
def test_a_standing_store_is_compared_with_and_extended(
    tmp_path_factory: TempFactory, earlier: list[str], documents: list[str], keep: str
) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    store = folder / "s.fpstore"
    before = write_jsonl(folder / "before.jsonl", earlier)
    dedup([before], folder / "earlier", store=store, max_distance=6, confirm=None)
    keys = fingerprints(earlier)
    kept = [i for i, found in enumerate(first_come(range(len(earlier)), keys, 6)) if found is None]
    known = [(keys[i], -1 - i) for i in kept]
    source = write_jsonl(folder / "in.jsonl", documents)
    dedup(
        [source], folder / "kept", dropped=folder / "dropped", store=store, keep=keep, confirm=None
    )  # k is the store's
    order = sorted(range(len(documents)), key=lambda i: (-len(documents[i]) if keep == "longest" else 0, i))
    verdicts = first_come(order, fingerprints(documents), 6, known)
    names = {-1 - i: f"{before}:{i + 1}" for i in kept} | {i: f"{source}:{i + 1}" for i in range(len(documents))}
    assert [line.split("\t") for line in lines_of(folder / "dropped")] == [
        [names[i], names[found[0]], str(found[1])] for i, found in enumerate(verdicts) if found
    ]
    new = [i for i in order if verdicts[i] is None]
    stored = [keys[i] for i in kept] + [fingerprints(documents)[i] for i in new]
    called = [names[-1 - i] for i in kept] + [names[i] for i in new]
    assert rows_of(store) == sorted(zip(called, stored, strict=True))
    # Once more: nothing of it is new.
    again = dedup([source], folder / "again", store=store, keep=keep, confirm=None)
    assert (again.results, again.documents) == (0, len(documents))


@pytest.mark.slow
@given(
    corpora,
    st.sampled_from([("jaccard", 0.5), ("jaccard", 1.0), ("cosine", 0.6)]),
    st.booleans(),
    st.sampled_from([1, 2, 64]),
)
@settings(max_examples=50)
def test_only_what_is_confirmed_is_dropped(
    tmp_path_factory: TempFactory, documents: list[str], confirm: tuple[str, float], in_store: bool, looked_at: int
) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    source = write_jsonl(folder / "in.jsonl", documents)
    (name, least), measure = confirm, {"jaccard": jaccard, "cosine": cosine}[confirm[0]]
    recipe = Recipe("words", shingle=1)

    def alike(one: int, other: int) -> bool:
        return measure(documents[one], documents[other], recipe) >= least

    def equal(one: int, other: int) -> bool:
        ours, theirs = (shingle_weights(documents[number], recipe) for number in (one, other))
        return ours == theirs if ours else documents[one] == documents[other]

    with pytest.MonkeyPatch.context() as patch:
        for module in (leaders, kept):
            patch.setattr(module, "MOST_LOOKED_AT", looked_at)
        patch.setattr(leaders, "PIECE_ROWS", 4)
        found = dedup(
            [source],
            folder / "kept",
            dropped=folder / "dropped",
            max_distance=16,
            recipe=recipe,
            confirm=f"{name}>={least}",
            store=folder / "s.fpstore" if in_store else None,
        )
    keys = fingerprints(documents, recipe)
    verdicts = first_come(range(len(documents)), keys, 16, alike=alike, looked_at=looked_at, equal=equal)
    expect_results(folder, source, verdicts)
    measures = [
        f"{measure(documents[i], documents[verdict[0]], recipe):.4f}" for i, verdict in enumerate(verdicts) if verdict
    ]
    assert [line.split("\t")[3] for line in lines_of(folder / "dropped")] == measures
    unconfirmed = first_come(range(len(documents)), fingerprints(documents, recipe), 16)
    assert (found.refused > 0) == (unconfirmed != verdicts)


def test_refused_matches_are_counted_each(tmp_path: Path) -> None:
    # All but one word the same: near each other, and not one equals another.
    documents = [f"a b c dd eee fox dog gnu cat owl {word}" for word in ("x", "y", "z")]
    recipe = Recipe("words", shingle=1)
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    found = dedup([source], tmp_path / "kept", max_distance=16, confirm="jaccard>=1", recipe=recipe)
    keys = fingerprints(documents, recipe)
    assert all((keys[i] ^ keys[j]).bit_count() <= 16 for i in range(3) for j in range(i))
    assert (found.results, found.refused) == (3, 3)


def test_a_later_job_confirms_against_what_an_earlier_one_kept(tmp_path: Path) -> None:
    store = tmp_path / "s.fpstore"
    dedup(
        [write_jsonl(tmp_path / "1.jsonl", ["a b c d e f"])],
        tmp_path / "1",
        store=store,
        max_distance=16,
        confirm="jaccard>=1",
    )
    source = write_jsonl(tmp_path / "2.jsonl", ["a b c d e f", "a b c d e g"])
    found = dedup([source], tmp_path / "2", store=store, confirm="jaccard>=1")
    assert (found.results, found.documents - found.results) == (1, 1)
    # Without --confirm the texts are written down all the same, for jobs to come.
    third = write_jsonl(tmp_path / "3.jsonl", ["something else entirely"])
    assert dedup([third], tmp_path / "3", store=store).results == 1
    assert dedup([third], tmp_path / "4", store=store, confirm="cosine>=0.9").results == 0


# --- Hostile documents ---


def test_documents_without_tokens_are_duplicates_only_of_equal_ones(tmp_path: Path) -> None:
    documents = ["", "!", "", "?", "!", " ", "word", "\u0000"]
    source = write_jsonl(tmp_path / "in.jsonl", documents)
    dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", confirm=None)
    assert [json.loads(line)["text"] for line in lines_of(tmp_path / "kept")] == ["", "!", "?", " ", "word", "\u0000"]
    assert lines_of(tmp_path / "dropped") == [f"{source}:3\t{source}:1\t0", f"{source}:5\t{source}:2\t0"]


@pytest.mark.slow
def test_equal_documents_are_one(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["the same four words"] * 20_000)
    found = dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", confirm=None)
    assert (found.results, found.documents - found.results) == (1, 19_999)
    assert {line.split("\t", 1)[1] for line in lines_of(tmp_path / "dropped")} == {f"{source}:1\t0"}


def test_half_of_a_surrogate_pair_passes(tmp_path: Path) -> None:
    line = '{"text": "\\ud800"}'
    (tmp_path / "in.jsonl").write_text(f"{line}\n{line}\n")
    found = dedup([tmp_path / "in.jsonl"], tmp_path / "kept", confirm="jaccard>=0.5")
    assert (found.results, lines_of(tmp_path / "kept")) == (1, [line])


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{\n{"text": 1}\n{"text": "b b"}\n')
    for keep in ("first", "longest"):
        found = dedup(Inputs([tmp_path / "in.jsonl"], skip_bad=True), tmp_path / keep, keep=keep)
        assert (found.documents, found.skipped) == (2, {"bad line": 2})


def test_a_bad_line_ends_a_job_that_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{\n')
    with pytest.raises(ValueError, match="line 2"):
        dedup([tmp_path / "in.jsonl"], tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


# --- What is written ---


def test_json_lines_stand_as_they_were(tmp_path: Path) -> None:
    lines = ['{"b":1, "text":"x y","a":[ ]}', '{"text" : "\\u00e9 z" }']
    with gzip.open(tmp_path / "in.jsonl.gz", "wt") as out:
        out.write("\n".join(lines))  # the last without its end
    dedup([tmp_path / "in.jsonl.gz"], tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == "".join(f"{line}\n" for line in lines).encode()


def test_other_documents_become_objects_with_name_and_text(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "é.txt").write_text("un café\nnoir")
    dedup([tmp_path / "docs"], tmp_path / "kept")
    expected = {"name": str(tmp_path / "docs" / "é.txt"), "text": "un café\nnoir"}
    assert [json.loads(line) for line in lines_of(tmp_path / "kept")] == [expected]
    assert "é" in (tmp_path / "kept").read_text()


def test_a_name_that_is_no_utf8_is_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in (b"\xff1.txt", b"\xff2\t.txt"):
        Path(folder.as_posix() + "/" + name.decode("utf-8", "surrogateescape")).write_text("equal texts")
    dedup([folder], tmp_path / "kept", dropped=tmp_path / "dropped.tsv", confirm=None)
    assert json.loads((tmp_path / "kept").read_text())["name"] == f"{folder}/\udcff1.txt"
    expected = f"{folder}/".encode() + b"\\xff2\\t.txt\t" + f"{folder}/".encode() + b"\\xff1.txt\t0\n"
    assert (tmp_path / "dropped.tsv").read_bytes() == expected


def test_dropped_are_json_lines_where_the_file_says_so(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a b", "a b"])
    row = {"format": "fpstore.dropped/1", "name": f"{source}:2", "kept": f"{source}:1", "distance": 0}
    dedup([source], tmp_path / "1", dropped=tmp_path / "1.jsonl", confirm=None)
    assert json.loads((tmp_path / "1.jsonl").read_text()) == row
    dedup([source], tmp_path / "2", dropped=tmp_path / "2.jsonl", confirm="cosine>=0.5")
    assert json.loads((tmp_path / "2.jsonl").read_text()) == row | {"measure": 1.0}


def test_a_document_of_another_way_into_the_store_goes_by_its_id(tmp_path: Path) -> None:
    store = tmp_path / "s.fpstore"
    keys = np.array(fingerprints(["a b c d"]), dtype=np.uint64)
    fpstore.build(store, keys, ids=[17], recipe=DEFAULT_RECIPE).close()
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c d", "x"])
    dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", store=store, confirm=None)
    assert lines_of(tmp_path / "dropped") == [f"{source}:1\t{store}#17\t0"]
    assert [document for document, _ in rows_of(store)] == [17, 18]
    with fpstore.open(store, "w") as opened:  # somebody else adds one
        opened.add([5], ids=[40])
    dedup(
        [write_jsonl(tmp_path / "more.jsonl", ["y y", "x"])],
        tmp_path / "2",
        dropped=tmp_path / "2d",
        store=store,
        confirm=None,
    )
    assert [document for document, _ in rows_of(store)] == [17, 18, 40, 41]
    assert lines_of(tmp_path / "2d") == [f"{tmp_path / 'more.jsonl'}:2\t{store}#18\t0"]


# --- What cannot be ---


def test_results_that_are_there_are_kept_unless_forced(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a"])
    (tmp_path / "dropped").write_text("mine")
    with pytest.raises(FileExistsError, match="force"):
        dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dropped", "in.jsonl"]
    dedup([source], tmp_path / "kept", dropped=tmp_path / "dropped", force=True)
    assert (tmp_path / "dropped").read_text() == ""
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="a folder, expected a file; with shards=True it is a folder"):
        dedup([source], tmp_path / "folder", force=True)


@pytest.mark.parametrize("confirm", ["jaccard", "jaccard>0.5", "dice>=0.5", "cosine>=1.5", "cosine>=1.2.3", ""])
def test_confirm_is_a_measure_and_a_number(tmp_path: Path, confirm: str) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a"])
    with pytest.raises(ValueError, match="a number from 0 to 1"):
        dedup([source], tmp_path / "kept", confirm=confirm)


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a"])
    (tmp_path / "docs").mkdir()
    with pytest.raises(ValueError, match="first, longest, max:FIELD or min:FIELD"):
        dedup([source], tmp_path / "kept", keep="last")
    for name in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        with pytest.raises(ValueError, match="reads the inputs twice"):
            dedup(Inputs([name], format="jsonl"), tmp_path / "kept", keep="longest")
    for dropped in ("kept", "kept.job", "kept.job/part", "docs/../kept", "other/kept"):
        (tmp_path / "other").symlink_to(tmp_path) if dropped.startswith("other") else None
        with pytest.raises(ValueError, match="another place that the job writes to"):
            dedup([source], tmp_path / "kept", dropped=tmp_path / dropped)
    for store in ("kept", "kept.job", "kept.job/store"):
        with pytest.raises(ValueError, match="another place that the job writes to"):
            dedup([source], tmp_path / "kept", store=tmp_path / store)
    dedup([source], tmp_path / "first", store=tmp_path / "s.fpstore")
    with pytest.raises(ValueError, match="another place that the job writes to"):
        dedup([source], tmp_path / "s.fpstore" / "jobs" / "texts", store=tmp_path / "s.fpstore", force=True)
    for place in (source, tmp_path / "docs" / "kept"):
        with pytest.raises(ValueError, match="also an input, or in one"):
            dedup([source, tmp_path / "docs"], place, force=True)
    with pytest.raises(ValueError, match="also an input, or in one"):
        dedup([tmp_path / "docs"], tmp_path / "kept", store=tmp_path / "docs" / "s.fpstore")
    (tmp_path / "kept.job").mkdir()
    (tmp_path / "kept.job" / "mine.txt").write_text("text")
    with pytest.raises(ValueError, match="also an input, or in one"):
        dedup([source, tmp_path / "kept.job"], tmp_path / "kept")


def test_a_store_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a"])
    keys = np.array([1], dtype=np.uint64)
    fpstore.build(tmp_path / "bare.fpstore", keys, ids=None, recipe=DEFAULT_RECIPE).close()
    fpstore.build(tmp_path / "norecipe.fpstore", keys).close()
    fpstore.build(tmp_path / "k3.fpstore", keys, recipe=DEFAULT_RECIPE).close()
    for store, options, match in (
        ("bare.fpstore", {}, "without ids"),
        ("norecipe.fpstore", {}, "no recipe"),
        ("k3.fpstore", {"max_distance": 4}, r"expected 0\.\.3"),
        ("k3.fpstore", {"max_distance": -1}, r"expected 0 or more"),
        ("k3.fpstore", {"recipe": recipes()["code"]}, "recipe text-1"),
    ):
        with pytest.raises(ValueError, match=match):
            dedup([source], tmp_path / "kept", store=tmp_path / store, **options)
    with pytest.raises(JobError, match="found 1 documents without their texts"):
        dedup([source], tmp_path / "kept", store=tmp_path / "k3.fpstore", confirm="jaccard>=0.8")
    fpstore.build(tmp_path / "full.fpstore", keys, ids=[(1 << 64) - 1], recipe=DEFAULT_RECIPE).close()
    with pytest.raises(ValueError, match="largest id"):
        dedup([source], tmp_path / "kept", store=tmp_path / "full.fpstore")


def test_names_alone_cannot_be_confirmed(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a", "b b b"])
    dedup([source], tmp_path / "1", store=tmp_path / "s.fpstore", confirm=None)
    with pytest.raises(JobError, match="found 2 documents without their texts"):
        dedup([source], tmp_path / "2", store=tmp_path / "s.fpstore", confirm="jaccard>=0.8")


def test_threads_are_the_processors_where_no_affinity_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c"])
    assert dedup([source], tmp_path / "kept").documents == 1
    with pytest.raises(ValueError, match="threads: found 0, expected a positive integer or None"):
        dedup([source], tmp_path / "other", threads=0)


def test_texts_without_tokens_go_by_equality_by_the_hashes_of_other_tools_too(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["!", "?", "!", "", "..."])
    for recipe in (recipes()["pypi-simhash"], Recipe("other", hash="md5")):
        for confirm in (None, "jaccard>=0.5"):
            assert dedup([source], tmp_path / "kept", recipe=recipe, confirm=confirm, force=True).kept == 4
