"""Inputs that fsspec reaches: `memory://` here, as `s3://` and the others are in the same way."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from jobs_model import interrupt, lines_of
from outcome import Command

import fpstore
from fpstore import JobError
from fpstore.inputs import documents, read, remote
from fpstore.jobs import Inputs, corpus, dedup

fsspec = pytest.importorskip("fsspec", reason="an optional package, which the tests bring")

TEXTS = ["one of them", "another", "the third", "one of them"]
LINES = "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(TEXTS)).encode()


@pytest.fixture
def files() -> Iterator[Any]:
    """A file system in memory, empty."""
    found = fsspec.filesystem("memory")
    found.store.clear()
    found.pseudo_dirs[:] = [""]
    yield found
    found.store.clear()
    found.pseudo_dirs[:] = [""]


def put(files: Any, path: str, data: bytes) -> str:
    """A file, and its URL."""
    files.pipe(path, data)
    return f"memory:/{path}"


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.jsonl.zst", "in.csv", "in.parquet", "in.txt"])
def test_documents_elsewhere_are_those_of_a_file_here(files: Any, tmp_path: Path, name: str) -> None:
    data = LINES
    if name.endswith(".gz"):
        data = gzip.compress(data)
    elif name.endswith(".zst"):
        data = zstandard.compress(data)
    elif name.endswith(".csv"):
        data = ("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS))).encode()
    elif name.endswith(".parquet"):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": range(4), "text": TEXTS}), sink)
        data = sink.getvalue().to_pybytes()
    elif name.endswith(".txt"):
        data = "\n".join(TEXTS).encode()
    (tmp_path / name).write_bytes(data)
    url = put(files, f"/bucket/{name}", data)
    options: dict[str, Any] = {} if name == "in.txt" else {"text_column": "text"}
    counts: list[int] = []
    found = documents([url], on_bytes=counts.append, **options)
    here = documents([tmp_path / name], **options)
    assert found.total_bytes == here.total_bytes == len(data)
    assert [(each.replace(url, "X"), text) for each, text in found] == [
        (each.replace(str(tmp_path / name), "X"), text) for each, text in here
    ]
    assert sum(counts) == len(data)


def test_fingerprints_elsewhere_are_read(files: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(5, dtype=np.uint64))
    url = put(files, "/a.npy", (tmp_path / "a.npy").read_bytes())
    raw = put(files, "/b.u64", np.arange(5, 9, dtype="<u8").tobytes())
    found = [key for batch in read([url, raw]) for key in batch.fingerprints.tolist()]
    assert found == list(range(9))


def test_a_folder_and_a_pattern_stand_for_their_files(files: Any, tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    for name in ("b/2.jsonl", "a.jsonl", "b-1.jsonl", ".hidden.jsonl", "_SUCCESS", "b/_temporary/x.jsonl", "b/1.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(LINES)
        put(files, f"/crawl/{name}", LINES)
    here, there = documents([folder]), documents(["memory://crawl"])
    expected = [name.replace(str(folder), "") for name, _ in here]
    assert [name.replace("memory:///crawl", "").replace("memory://crawl", "") for name, _ in there] == expected
    assert there.skipped == {"hidden file": 1, "marker of Spark": 2}
    matched = [name for name, _ in documents(["memory://crawl/b/?.jsonl"])]
    assert [name.rsplit("/", 1)[1] for name in matched] == [f"{i}.jsonl:{n}" for i in (1, 2) for n in (1, 2, 3, 4)]
    with pytest.raises(FileNotFoundError, match="no file matches this pattern"):
        documents(["memory://crawl/*.csv"])


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    source = tmp_path / "a b.jsonl"
    source.write_bytes(LINES)
    url = f"file://{str(source).replace(' ', '%20')}"
    assert [name for name, _ in documents([url])] == [name for name, _ in documents([source])]
    with pytest.raises(ValueError, match="file://other/x: found a file of other, expected one of this machine"):
        documents(["file://other/x"])
    assert remote.local_path("memory://x") == "memory://x"


def test_what_is_not_there_is_told_by_its_url(files: Any, command: Command, tmp_path: Path) -> None:
    outcome = command("dedup", "memory://no/such.jsonl", "-o", tmp_path / "kept")
    assert (outcome.status, outcome.err) == (1, "fpstore: memory://no/such.jsonl: No such file or directory\n")
    outcome = command("dedup", "nosuch://a.jsonl", "-o", tmp_path / "kept")
    assert (outcome.status, outcome.err.startswith("fpstore: nosuch://a.jsonl: Protocol not known")) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"reading s3:// needs fsspec: pip install 'fpstore\[fs\]'"):
        documents(["s3://bucket/a.jsonl"])


def test_a_missing_package_of_a_protocol_is_told_by_the_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(url: str) -> None:
        raise ImportError(f"Install the package of {url[:2]}")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    told = r"s3://bucket/a: Install the package of s3; expected the package of the protocol, beside fpstore\[fs\]"
    for opening in (documents, lambda urls: fpstore.open(urls[0])):
        with pytest.raises(ImportError, match=told):
            opening(["s3://bucket/a"])


def test_a_protocol_that_nobody_knows_is_told_by_the_url() -> None:
    for opening in (documents, lambda urls: fpstore.open(urls[0])):
        with pytest.raises(ValueError, match="nosuch://bucket/a: Protocol not known: nosuch"):
            opening(["nosuch://bucket/a"])


def test_a_file_of_this_machine_may_be_called_as_a_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "a.jsonl").write_bytes(LINES)
    assert len(list(documents(["s3://a.jsonl"]))) == 4


def test_a_job_reads_what_is_elsewhere_and_goes_on(files: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 2)
    urls = [put(files, "/a.jsonl", LINES), put(files, "/more/b.jsonl", LINES.replace(b"third", b"fourth"))]
    urls[1] = "memory://more"
    expected = dedup(urls, tmp_path / "expected", keep="longest")
    interrupt(monkeypatch, lambda: dedup(urls, tmp_path / "kept", keep="longest"), 3)
    found = dedup(urls, tmp_path / "kept", keep="longest")
    assert lines_of(tmp_path / "kept") == lines_of(tmp_path / "expected")
    assert (found.kept, found.documents) == (expected.kept, 8)
    assert dedup(urls, tmp_path / "kept", keep="longest").was_done
    interrupt(monkeypatch, lambda: dedup(urls, tmp_path / "kept2"), 3)
    put(files, "/a.jsonl", LINES.replace(b"another", b"changed"))
    with pytest.raises(JobError, match="has changed before the place where the interrupted job goes on"):
        dedup(urls, tmp_path / "kept2")


def test_a_store_is_built_of_what_is_elsewhere(files: Any, command: Command, tmp_path: Path) -> None:
    url = put(files, "/a.jsonl.gz", gzip.compress(LINES))
    assert command("build", tmp_path / "s", url).status == 0
    with fpstore.open(tmp_path / "s") as store:
        assert store.count("rows") == 4
    assert dedup(Inputs([url], id_column="id"), tmp_path / "kept", dropped=tmp_path / "dropped").dropped == 1
    assert lines_of(tmp_path / "dropped") == ["3\t0\t0\t1.0000"]
