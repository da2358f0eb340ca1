"""What is told of clusters: how many of which size, the documents with their clusters, the words of each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jobs_model import interrupt, lines_of, write_jsonl
from outcome import Command

from fpstore import JobError
from fpstore.disk import Folder
from fpstore.jobs import Inputs, Summary, cluster, components, corpus, sizes, topics
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.sizes import sizes_in, sizes_of
from fpstore.jobs.topics import Topics, words_of

CATS = "the cat sat on a mat and looked at us all day"
DOGS = "a dog ran after me in the park and barked at us"
TEXTS = [CATS, DOGS, CATS, "something that is alone here", CATS, DOGS]
LABELS = [0, 1, 0, 2, 0, 1]

METHODS = pytest.mark.parametrize("method", [cluster, components])
Method = Callable[..., Summary]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 2)


# --- Sizes ---


def test_sizes_are_said_and_in_the_summary(command: Command, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    for method in ((), ("--components",)):
        arguments = ("-o", tmp_path / "out", "--summary", tmp_path / "s.json", "--force")
        outcome = command("cluster", source, *arguments, *method)
        assert outcome.err.splitlines()[-4:] == [
            "fpstore: 1 cluster of 1 document",
            "fpstore: 1 cluster of 2 documents",
            "fpstore: 1 cluster of 3-4 documents",
            "fpstore: the largest clusters (documents): 0 (3), 1 (2)",
        ]
        record = json.loads((tmp_path / "s.json").read_text())
        assert record["sizes"] == [
            {"least": 1, "most": 1, "clusters": 1, "documents": 1},
            {"least": 2, "most": 2, "clusters": 1, "documents": 2},
            {"least": 3, "most": 4, "clusters": 1, "documents": 3},
        ]
        assert record["largest"] == [{"cluster": 0, "documents": 3}, {"cluster": 1, "documents": 2}]


def test_of_a_standing_store_the_documents_of_the_job_are_counted(tmp_path: Path) -> None:
    for number in range(2):
        source = write_jsonl(tmp_path / f"{number}.jsonl", TEXTS[number:])
        found = cluster([source], tmp_path / f"out{number}", store=tmp_path / "s.fpstore")
    assert found.detail["largest"] == [{"cluster": 0, "documents": 2}, {"cluster": 1, "documents": 2}]


@pytest.mark.parametrize("at_once", [1, 3, 1 << 16])
def test_sizes_in_a_file_are_those_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_once: int) -> None:
    monkeypatch.setattr(sizes, "_AT_ONCE", at_once)
    rng = np.random.default_rng(3)
    folder = Folder.open(tmp_path)
    for labels in (rng.integers(0, 9, 50), np.array([], dtype=int), np.array([5]), np.array([1 << 40, 7, 7])):
        known, found = sizes_of(labels.astype(np.uint64)), sizes_in(labels.astype(np.uint64), folder, "sizes")
        assert (found.numbers.tolist(), found.counts.tolist()) == (known.numbers.tolist(), known.counts.tolist())
        assert found.told() == known.told()
    assert sizes_of(np.array([], dtype=np.uint64)).told() == {"sizes": [], "largest": []}


# --- Documents with their clusters ---


@METHODS
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_annotated_documents_have_all_their_columns(tmp_path: Path, method: Method, suffix: str) -> None:
    rows = [{"text": text, "note": f"n{i}"} for i, text in enumerate(TEXTS)]
    source = tmp_path / f"in{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), source)
    elif suffix == ".csv":
        source.write_text("text,note\n" + "".join(f'"{row["text"]}",{row["note"]}\r\n' for row in rows))
    else:
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    method(Inputs([source], text_column="text"), tmp_path / f"out{suffix}", annotate=True)
    expected = [row | {"cluster": label, "cluster_distance": 0} for row, label in zip(rows, LABELS, strict=True)]
    out = tmp_path / f"out{suffix}"
    if suffix == ".parquet":
        assert pq.read_table(out).to_pylist() == expected
        assert pq.read_schema(out).types[2:] == [pa.uint64(), pa.uint16()]
    elif suffix == ".csv":
        lines = [f'"{row["text"]}",{row["note"]},{row["cluster"]},0\r\n' for row in expected]
        assert out.read_bytes().decode() == "text,note,cluster,cluster_distance\n" + "".join(lines)
    else:
        assert [json.loads(line) for line in lines_of(out)] == expected


@METHODS
def test_a_document_that_has_a_cluster_already_is_refused(tmp_path: Path, method: Method) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(f'{{"text": "{CATS}", "cluster": 1}}\n')
    with pytest.raises(ValueError, match=r"in.jsonl:1: found a field cluster, expected none of that name"):
        method([source], tmp_path / "out.jsonl", annotate=True)


# --- Words ---


@METHODS
def test_words_tell_a_cluster_from_the_rest(tmp_path: Path, method: Method) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    method([source], tmp_path / "out", topics=tmp_path / "topics.tsv")
    rows = [line.split("\t") for line in lines_of(tmp_path / "topics.tsv")]
    assert [row[:2] for row in rows] == [["0", "3"], ["1", "2"]]
    # "the", "a", "and", "at", "us" are in both; what only one has comes first, by the alphabet.
    assert rows[1][2].split() == ["after", "barked", "dog", "in", "me", "park", "ran", "a", "and", "at"]
    assert rows[0][2].split()[:7] == ["all", "cat", "day", "looked", "mat", "on", "sat"]


def test_words_are_runs_of_letters_and_digits_that_are_not_long() -> None:
    assert words_of("A_b c2 \u00c9t\u00e9, x-y! " + "z" * 41) == {"a", "b", "c2", "\u00e9t\u00e9", "x", "y"}


def test_words_that_all_documents_have_tell_nothing() -> None:
    found = Topics({7: 2})
    found.see([7, 7], ["same words", "same words"])
    assert list(found.told()) == [(7, 2, "")]


def test_beyond_its_bounds_the_rarest_words_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MOST_WORDS", 40)
    monkeypatch.setattr(topics, "MOST_WORDS_OF_A_CLUSTER", 6)
    found = Topics({0: 20})
    most = 0
    for number in range(20):
        found.see([0, 1], [f"always often{number % 2} rare{number}", f"other{number} common"])
        most = max(most, len(found._of[0]))
        assert len(found._all) <= 40
    assert most <= 6
    ((_, _, words),) = found.told()
    assert words.split()[0] == "always"
    again = Topics({0: 20})
    for number in range(20):
        again.see([0, 1], [f"rare{number} often{number % 2} always", f"common other{number}"])
    assert list(again.told()) == list(found.told())


@METHODS
def test_what_reads_twice_takes_no_standard_input(tmp_path: Path, method: Method) -> None:
    sources = Inputs(["-"], format="jsonl")
    with pytest.raises(ValueError, match="standard input: found topics, which reads the inputs twice; expected files"):
        method(sources, tmp_path / "out", topics=tmp_path / "topics")
    if method is components:
        with pytest.raises(ValueError, match="standard input: found annotate, which reads the inputs twice"):
            method(sources, tmp_path / "out", annotate=True)


@METHODS
@pytest.mark.parametrize("change", ["edit", "add", "cut"])
def test_inputs_that_changed_between_two_readings_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: Method, change: str
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    again = Corpus.again

    def late(own: Corpus, *arguments: Any) -> Any:
        texts = {"edit": [*TEXTS[:-1], "other"], "add": [*TEXTS, "x"], "cut": TEXTS[:-1]}[change]
        write_jsonl(source, texts)
        return again(own, *arguments)

    monkeypatch.setattr(Corpus, "again", late)
    with pytest.raises(JobError, match="the inputs have changed since they were first read; --force begins again"):
        method([source], tmp_path / "out", topics=tmp_path / "topics")


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_job_with_topics_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: Method, after: int) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    options: dict[str, Any] = {"annotate": True}
    method([source], tmp_path / "expected.csv", topics=tmp_path / "expected-topics", **options)
    options |= {"topics": tmp_path / "topics"}
    interrupt(monkeypatch, lambda: method([source], tmp_path / "out.csv", **options), after)
    found = method([source], tmp_path / "out.csv", **options)
    for name, expected in (("out.csv", "expected.csv"), ("topics", "expected-topics")):
        assert (tmp_path / name).read_bytes() == (tmp_path / expected).read_bytes()
    assert found.detail["largest"][0] == {"cluster": 0, "documents": 3}


def test_topics_are_no_standard_output(command: Command, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    outcome = command("cluster", source, "--topics", "-")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--topics -: found standard output, expected a file" in outcome.err
