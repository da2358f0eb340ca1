"""`fpstore dedup`, `fpstore cluster` and `fpstore document-pairs`."""

import errno
import json
import os
from pathlib import Path

import pytest
from jobs_model import lines_of, write_jsonl
from outcome import Command

import fpstore
from fpstore.jobs.files import AppendFile
from fpstore.text import recipes

# Long enough that no warning of short texts is due.
TEXT = " ".join(f"word{i}" for i in range(400))
NEAR = TEXT.replace("word200 ", "other ")
OTHER = " ".join(f"thing{i}" for i in range(400))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", [TEXT, OTHER, NEAR, TEXT])


def test_dedup_keeps_one_and_says_how_many(command: Command, tmp_path: Path, source: Path) -> None:
    kept, dropped = tmp_path / "kept.jsonl", tmp_path / "dropped.tsv"
    outcome = command("dedup", source, "-o", kept, "--dropped", dropped)
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.startswith(f"{kept}: 4 documents, kept 2, dropped 2, refused matches 0, passed over 0 (")
    assert outcome.err.endswith(" MB/s)\n")
    assert lines_of(kept) == lines_of(source)[:2]
    assert [line.split("\t")[:2] for line in lines_of(dropped)] == [[f"{source}:{i}", f"{source}:1"] for i in (3, 4)]


def test_dedup_keeps_the_longest(command: Command, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [TEXT, NEAR + " and more"])
    assert command("dedup", source, "-o", tmp_path / "kept", "--keep", "longest").status == 0
    assert lines_of(tmp_path / "kept") == lines_of(source)[1:]


def test_dedup_confirms_and_counts_what_it_refused(command: Command, tmp_path: Path, source: Path) -> None:
    outcome = command("dedup", source, "-o", tmp_path / "kept", "--k", "8", "--confirm", "jaccard>=0.999")
    assert outcome.err.startswith(
        f"{tmp_path / 'kept'}: 4 documents, kept 3, dropped 1, refused matches 1, passed over 0 ("
    )


def test_dedup_against_a_store_drops_everything_the_second_time(command: Command, tmp_path: Path, source: Path) -> None:
    store = tmp_path / "seen.fpstore"
    arguments = ("--store", store, "--recipe", "multilingual", "--k", "6")
    assert command("dedup", source, "-o", tmp_path / "1", *arguments).status == 0
    with fpstore.open(store) as opened:
        assert (opened.max_distance, opened.recipe) == (6, recipes()["multilingual"])
    outcome = command("dedup", source, "-o", tmp_path / "2", "--store", store)  # recipe and k are those of the store
    assert f"{tmp_path / '2'}: 4 documents, kept 0, dropped 4" in outcome.err
    assert lines_of(tmp_path / "2") == []
    outcome = command("dedup", source, "-o", tmp_path / "3", "--store", store, "--recipe", "code")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "found recipe multilingual, expected code" in outcome.err


def test_dedup_warns_of_short_texts_and_counts_bad_lines(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a b"}\n{\n')
    outcome = command("dedup", source, "-o", tmp_path / "kept", "--skip-bad")
    assert outcome.status == 0
    said = outcome.err.splitlines()
    assert said[0] == "fpstore: passed over: 1 bad line"
    assert said[1].startswith("fpstore: warning: 1 of 1 texts have fewer than ")
    assert said[2].startswith(f"{tmp_path / 'kept'}: 1 document, kept 1, dropped 0, refused matches 0, passed over 1 (")


URL = "s3://bucket/deep/one"
PLACES: list[tuple[str, ...]] = [
    ("create", URL),
    ("build", URL, "in.jsonl"),
    ("build", "s3://one", "in.jsonl", "--ids", "row"),
    ("recover", "a.fpstore", URL),
    ("export", "a.fpstore", f"{URL}.csv"),
    ("learn-idf", "in.jsonl", "-o", URL),
    ("dedup", "in.jsonl", "-o", f"{URL}.jsonl"),
    ("dedup", "in.jsonl", "-o", "kept", "--dropped", f"{URL}.tsv"),
    ("dedup", "in.jsonl", "-o", "kept", "--store", URL),
    ("dedup", "in.jsonl", "-o", "kept", "--summary", f"{URL}.json"),
    ("cluster", "in.jsonl", "-o", f"{URL}.tsv"),
    ("cluster", "in.jsonl", "-o", "c.tsv", "--topics", f"{URL}.tsv"),
    ("document-pairs", "in.jsonl", "-o", "file:///no/such/pairs.tsv"),
]


@pytest.mark.parametrize("asked", PLACES)
def test_a_url_to_be_written_is_told_what_is_written_there(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"text": "one two three four five six"}\n')
    fpstore.build("a.fpstore", [1, 2]).close()
    before = sorted(tmp_path.iterdir())
    outcome = command(*asked)
    told = "that is not there; what is written lies on this machine, and fpstore copy puts a store at a URL"
    assert (outcome.status, told in outcome.err, outcome.err.count("\n")) == (1, True, 1), outcome.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("far", "fewer", "nearer"),
    [
        (("--k", "34"), "a smaller --k finds fewer", ("--k", "3")),
        (
            ("--recipe", "minhash-128", "--bands", "128", "--rows-per-band", "1"),
            "a larger --min-similarity finds fewer",
            ("--recipe", "minhash-128", "--bands", "128", "--rows-per-band", "1", "--min-similarity", "0.7"),
        ),
    ],
)
def test_documents_near_more_than_are_looked_at_are_told_with_what_finds_fewer(
    command: Command, tmp_path: Path, far: tuple[str, ...], fewer: str, nearer: tuple[str, ...]
) -> None:
    same = " ".join(f"same{number}" for number in range(40))
    texts = [f"{same} {' '.join(f'own{number}x{word}' for word in range(60))}" for number in range(80)]
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for job, output in (("dedup", "kept.jsonl"), ("cluster", "clusters.tsv")):
        outcome = command(job, source, "-o", tmp_path / output, *far)
        assert outcome.status == 0
        assert "near more than 64 others that were kept: only the nearest 64 were looked at" in outcome.err
        assert fewer in outcome.err
        outcome = command(job, source, "-o", tmp_path / output, "--force", *nearer)
        assert (outcome.status, "near more than" in outcome.err) == (0, False)


def test_dedup_reads_html_by_the_recipe(command: Command, tmp_path: Path) -> None:
    page = f"<html><head><title>t</title></head><body><p>{TEXT}</p></body></html>"
    source = tmp_path / "in.jsonl"
    source.write_text(
        "".join(json.dumps({"page": {"body": body}}) + "\n" for body in (page, page.replace("<p>", "<p >")))
    )
    outcome = command("dedup", source, "-o", tmp_path / "kept", "--html", "--text-column", "page.body")
    assert "2 documents, kept 1, dropped 1" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--confirm", "jaccard"), "expected jaccard>=0.8 or cosine>=0.9"),
        (("--k", "65"), "expected an integer from 0 to 64"),
        (("--keep", "last"), "expected first, longest, max:FIELD or min:FIELD"),
        (("--recipe", "nosuch"), "expected one of"),
        (("--store", "in.jsonl.d/x"), "would lie in one that is not there"),
    ],
)
def test_what_dedup_cannot_do_is_one_line(
    command: Command, tmp_path: Path, source: Path, arguments: tuple[str, str], message: str
) -> None:
    options = [argument.replace("in.jsonl", str(source)) for argument in arguments]
    outcome = command("dedup", source, "-o", tmp_path / "kept", *options)
    assert (outcome.status in (1, 2), outcome.out, outcome.err.count("\n")) == (True, "", 1)
    assert message in outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


def test_a_result_that_is_there_is_the_command_lines_fault(command: Command, tmp_path: Path, source: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    outcome = command("dedup", source, "-o", tmp_path / "kept")
    assert (outcome.status, outcome.err) == (2, f"fpstore: {tmp_path / 'kept'}: already there; --force replaces it\n")
    assert command("dedup", source, "-o", tmp_path / "kept", "--force").status == 0


@pytest.mark.parametrize("method", [(), ("--update-center",), ("--components",)])
def test_clusters_go_to_standard_output_or_to_a_file(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, source: Path, method: tuple[str, ...]
) -> None:
    from fpstore.cli import main

    assert main(["cluster", str(source), "-o", str(tmp_path / "out"), *method]) == 0
    refused = "" if method else ", refused matches 0"
    assert capfdbinary.readouterr().err.startswith(
        f"{tmp_path / 'out'}: 4 documents, clusters 2{refused}, passed over 0 (".encode()
    )
    assert main(["cluster", str(source), *method]) == 0
    printed = capfdbinary.readouterr()
    assert printed.out == (tmp_path / "out").read_bytes()
    assert printed.err.startswith(f"fpstore: 4 documents, clusters 2{refused}, passed over 0 (".encode())
    rows = [line.split("\t") for line in lines_of(tmp_path / "out")]
    assert [row[0] for row in rows] == ["0", "1", "0", "0"]
    assert [row[1] for row in rows] == [f"{source}:{i}" for i in (1, 2, 3, 4)]


def test_cluster_takes_one_method(command: Command, source: Path) -> None:
    assert command("cluster", source, "--components", "--update-center").status == 2


def test_pairs_of_texts_have_names(command: Command, tmp_path: Path, source: Path) -> None:
    outcome = command("document-pairs", source, "-o", tmp_path / "out")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.startswith(f"{tmp_path / 'out'}: 4 documents, pairs 3, passed over 0 (")
    rows = sorted(line.split("\t") for line in lines_of(tmp_path / "out"))
    assert [row[:2] for row in rows] == [[f"{source}:{i}", f"{source}:{j}"] for i, j in ((1, 3), (1, 4), (3, 4))]
    assert rows[1][2] == "0"


def test_pairs_reads_no_documents_and_document_pairs_no_store(command: Command, source: Path, tmp_path: Path) -> None:
    for arguments in ((source, "--text"), (source, "--recipe", "zh"), (source, source)):
        outcome = command("pairs", *arguments)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert command("create", tmp_path / "s.fpstore").status == 0
    outcome = command("document-pairs", tmp_path / "s.fpstore")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert command("document-pairs", source, "--count").status == 2


@pytest.mark.parametrize(
    "line", ["dedup in.jsonl -o kept.jsonl", "cluster in.jsonl -o kept.jsonl", "document-pairs in.jsonl -o kept.jsonl"]
)
def test_a_job_that_a_full_disk_ends_says_what_it_leaves_and_goes_on(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fpstore.jobs.corpus.BATCH_DOCUMENTS", 1)
    write_jsonl(tmp_path / "in.jsonl", ["one two", "one two", "three four", "three four"])
    synced = AppendFile.sync
    calls = 0

    def full(file: AppendFile) -> None:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.path))
        synced(file)

    with monkeypatch.context() as patch:
        patch.setattr(AppendFile, "sync", full)
        outcome = command(*line.split())
    assert outcome.status == 1
    *_, left, last = outcome.err.splitlines()
    assert left == "kept.jsonl.job: has what was done; the same command goes on with it, or remove it"
    assert last.endswith("No space left on device")
    assert not Path("kept.jsonl").exists()
    outcome = command(*line.split())
    assert outcome.status == 0
    assert "4 documents" in outcome.err
    assert not Path("kept.jsonl.job").exists()


@pytest.mark.parametrize("asked", [("dedup",), ("cluster",), ("cluster", "--components"), ("document-pairs",)])
def test_workers_change_nothing(command: Command, tmp_path: Path, source: Path, asked: tuple[str, ...]) -> None:
    name, *options = asked
    other = tmp_path / "more.jsonl"
    other.write_text('{"text": "the quick brown fox"}\n')
    for place, more in (("one", ()), ("two", ("--workers", "2")), ("three", ("--engine", "local"))):
        assert command(name, source, other, "-o", tmp_path / place, *options, *more).status == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()
    outcome = command(name, source, "-o", tmp_path / "four", *options, "--workers", "2", "--address", "there")
    assert outcome.status == 2
    assert "--address goes with --engine ray or spark" in outcome.err
