"""Values of an id column that several documents have: counted in every job, never passed over in silence."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs_model import interrupt
from outcome import Command

from fpstore import JobError, _names
from fpstore.disk import Folder
from fpstore.jobs import Inputs, Summary, cluster, components, corpus, dedup, document_pairs, repeats
from fpstore.types import Array

WORDS = ("fox", "dog", "cat", "owl", "hen", "ape", "eel", "bat", "cow")
NAMES = ("a", "b", "a", "\u00e4", "a", "b", "7", "\U0001f98a", "\U0001f98a")
REPEATED = len(NAMES) - len(set(NAMES))

JOBS: dict[str, Callable[..., Summary]] = {
    "dedup": dedup,
    "dedup --confirm none": lambda *arguments, **more: dedup(*arguments, confirm=None, **more),
    "dedup --keep longest": lambda *arguments, **more: dedup(*arguments, keep="longest", **more),
    "dedup --tag": lambda *arguments, **more: dedup(*arguments, tag=True, **more),
    "cluster": cluster,
    "cluster --update-center": lambda *arguments, **more: cluster(*arguments, update_center=True, **more),
    "cluster --components": components,
    "document-pairs": document_pairs,
}
EACH_JOB = pytest.mark.parametrize("name", JOBS)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 2)


def write_named(path: Path, names: Sequence[object] = NAMES) -> Path:
    rows = ({"url": name, "text": f"{word} " * 5} for name, word in zip(names, WORDS, strict=False))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def by_url(*sources: Path) -> Inputs:
    return Inputs(sources, id_column="url")


# --- Counted ---


@EACH_JOB
@pytest.mark.slow
def test_every_job_counts_documents_with_the_name_of_an_earlier_one(tmp_path: Path, name: str) -> None:
    source = write_named(tmp_path / "in.jsonl")
    for inputs, expected in ((by_url(source), REPEATED), (Inputs([source]), 0)):
        summary = JOBS[name](inputs, tmp_path / "out.jsonl", force=True)
        assert (summary.repeated_names, summary.to_json()["repeated_names"]) == (expected, expected)
        assert not summary.was_done
    assert JOBS[name](Inputs([source]), tmp_path / "out.jsonl").was_done
    JOBS[name](by_url(source), tmp_path / "out.jsonl", force=True)
    again = JOBS[name](by_url(source), tmp_path / "out.jsonl")
    assert (again.was_done, again.repeated_names) == (True, REPEATED)


@EACH_JOB
@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2, 4])
def test_an_interrupted_job_counts_each_document_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    source = write_named(tmp_path / "in.jsonl")
    interrupt(monkeypatch, lambda: JOBS[name](by_url(source), tmp_path / "out.jsonl"), after)
    with (tmp_path / "out.jsonl.job/work/name-hashes").open("ab") as file:
        file.write(b"written, and not committed")
    assert JOBS[name](by_url(source), tmp_path / "out.jsonl").repeated_names == REPEATED


def test_names_are_compared_over_inputs_of_all_kinds(tmp_path: Path) -> None:
    first, second, rows = write_named(tmp_path / "1.jsonl", ["a", 1]), tmp_path / "2.csv", [{"url": "1", "text": "x y"}]
    second.write_text("url,text\na,one two\n01,three\n1,four\n")
    assert (
        dedup(Inputs([first, second, rows], text_column="text", id_column="url"), tmp_path / "out.jsonl").repeated_names
        == 3
    )


def test_what_a_store_has_of_an_earlier_job_is_no_repeated_name(tmp_path: Path) -> None:
    for day, names in enumerate((["a", "b"], ["a", "a"])):
        source = write_named(tmp_path / f"{day}.jsonl", names)
        found = dedup(by_url(source), tmp_path / f"out{day}", store=tmp_path / "s.fpstore")
        assert found.repeated_names == day


def test_documents_that_were_passed_over_are_not_counted(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"url": "a", "text": "x"}\n{"url": "a"}\n{"url": "a", "text": "y"}\n')
    inputs = Inputs([source], id_column="url", skip_bad=True)
    assert dedup(inputs, tmp_path / "out.jsonl").repeated_names == 1


def test_paths_beside_names_are_names_too(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("1.txt", b"\xff.txt".decode(errors="surrogateescape")):
        (folder / name).write_text(name.encode(errors="replace").decode())
    source = write_named(tmp_path / "n.jsonl", [str(folder / "1.txt"), "a"])
    assert dedup(by_url(folder, source), tmp_path / "out.jsonl").repeated_names == 1


# --- Said ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("dedup",),
        ("dedup", "--keep", "longest"),
        ("cluster",),
        ("cluster", "--update-center"),
        ("cluster", "--components"),
        ("cluster", "--annotate"),
        ("document-pairs",),
    ],
)
def test_every_command_says_once_how_many_names_are_repeated(
    command: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    source, out, summary = write_named(tmp_path / "in.jsonl"), tmp_path / "out.jsonl", tmp_path / "s.json"
    name, *options = words
    arguments = (name, source, "-o", out, "--summary", summary, "--force", *options)
    told = (
        "fpstore: warning: --id-column: found 4 documents with the name of an earlier one, expected names that differ: "
    )
    outcome = command(*arguments, "--id-column", "url")
    assert (outcome.status, sum(line.startswith(told) for line in outcome.err.splitlines())) == (0, 1)
    assert json.loads(summary.read_text())["repeated_names"] == 4
    outcome = command(*arguments, "--id-column", "url", "--json")
    assert (outcome.status, outcome.err.count(told), json.loads(outcome.out)["repeated_names"]) == (0, 1, 4)
    outcome = command(*arguments)
    assert (outcome.status, "--id-column" in outcome.err) == (0, False)
    assert json.loads(summary.read_text())["repeated_names"] == 0


# --- Damage ---


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dedup", "dedup --keep longest", "cluster", "document-pairs"])
@pytest.mark.parametrize(("change", "expected"), [("bit", "found names of checksum"), ("cut", "the journal says")])
def test_a_changed_file_of_hashes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: str, expected: str
) -> None:
    source = write_named(tmp_path / "in.jsonl")
    interrupt(monkeypatch, lambda: JOBS[name](by_url(source), tmp_path / "out.jsonl"), 2)
    file = tmp_path / "out.jsonl.job/work/name-hashes"
    data = file.read_bytes()[:32]  # behind what the journal says may be hashes of the batch after it
    assert len(data) == 32
    file.write_bytes(data[:-1] if change == "cut" else data[:9] + bytes([data[9] ^ 1]) + data[10:])
    with pytest.raises(JobError, match=f"name-hashes: .*{expected}.*--force begins again"):
        JOBS[name](by_url(source), tmp_path / "out.jsonl")
    assert JOBS[name](by_url(source), tmp_path / "out.jsonl", force=True).repeated_names == REPEATED


# --- Hashes ---


@given(
    values=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1]), max_size=60),
    at_once=st.integers(1, 70),
)
def test_repeats_are_counted_as_plain_python_counts(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], at_once: int
) -> None:
    folder = Folder.open(tmp_path_factory.mktemp("runs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_AT_ONCE", at_once)
        found = repeats.repeats_in(np.array(values, dtype=np.uint64), folder)
    folder.close()
    assert found == sum(count - 1 for count in Counter(values).values())


@pytest.mark.parametrize("repeated", [1, 50, 1000])
def test_no_more_than_a_part_is_sorted_at_once_however_many_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeated: int
) -> None:
    held: list[int] = []
    distinct = repeats._distinct
    monkeypatch.setattr(repeats, "_AT_ONCE", 1000)

    def counted(part: Array) -> Array:
        held.append(len(part))
        return distinct(part)

    monkeypatch.setattr(repeats, "_distinct", counted)
    once = np.random.default_rng(5).integers(0, 2**64, 20_000 // repeated, dtype=np.uint64)
    with_folder = Folder.open(tmp_path)
    assert repeats.repeats_in(np.tile(once, repeated), with_folder) == 20_000 - len(once)
    assert max(held) < 1500
    with_folder.close()


texts = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=40)


@given(values=st.lists(texts, max_size=20), key=st.integers(0, 2**64 - 1))
def test_equal_texts_have_equal_hashes_and_others_have_others(values: list[str], key: int) -> None:
    found = _names.hashes_of(values, key).tolist()
    assert len(set(zip(values, found, strict=True))) == len(set(values)) == len(set(found))


def test_a_hash_is_that_of_the_utf8_and_goes_by_its_key() -> None:
    values = ["", "a", "abcdefgh", "\u00e4\U0001f98a", "x" * 60_000]
    encoded = [value.encode() for value in values]
    data, ends = np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum([len(each) for each in encoded])
    assert (_names.hashes_of(values, 0) == _names.hashes(data, ends)).all()
    assert (_names.hashes_of(values, 1) != _names.hashes_of(values, 0)).all()


def test_a_jobs_hashes_are_by_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_named(tmp_path / "in.jsonl")
    found: list[Any] = []
    for number in range(2):
        out = tmp_path / f"{number}.jsonl"
        interrupt(monkeypatch, lambda out=out: dedup(by_url(source), out), 1)  # type: ignore[misc]
        found.append((tmp_path / f"{number}.jsonl.job/work/name-hashes").read_bytes())
    assert found[0] != found[1]
