"""What is named here, in memory and within archives: one rule for suffixes, patterns and hidden files; its faults."""

import gzip
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from outcome import Command

from fpstore.inputs import BadInput, documents, remote

fsspec = pytest.importorskip("fsspec", reason="an optional package, which the tests bring")

LINE = json.dumps({"text": "one of them"}).encode() + b"\n"
NAMES = ("a.jsonl", "b.jsonl", ".h.jsonl", "d/c.jsonl", "d/.h/e.jsonl", "d/deep/f.jsonl", ".hd/g.jsonl")
# Pattern, and what it stands for.
PATTERNS = {
    "a.jsonl": ["a.jsonl"],
    "*.jsonl": ["a.jsonl", "b.jsonl"],
    ".*.jsonl": [".h.jsonl"],
    "**/*.jsonl": ["a.jsonl", "b.jsonl", "d/c.jsonl", "d/deep/f.jsonl"],
    "**": ["a.jsonl", "b.jsonl", "d/c.jsonl", "d/deep/f.jsonl"],
    "d/**": ["d/c.jsonl", "d/deep/f.jsonl"],
    "d": ["d/c.jsonl", "d/deep/f.jsonl"],
    "d/": ["d/c.jsonl", "d/deep/f.jsonl"],
    ".hd/*.jsonl": [".hd/g.jsonl"],
}
FORMS = ("{folder}/{inner}", "local://{folder}/{inner}", "memory://t/{inner}", "zip://{inner}::{folder}/z.zip")
CACHES = ("simplecache::memory://t/{inner}", "tar://{inner}::{folder}/t.tar", "zip://{inner}::memory://z.zip")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder, and the same in memory, in a zip here and there, and in a tar."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    folder = tmp_path / "t"
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as packed, tarfile.open(tmp_path / "t.tar", "w") as tar:
        for name in NAMES:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(LINE)
            packed.write(path, name)
            tar.add(path, name)
            memory.pipe(f"/t/{name}", LINE)
    memory.pipe("/z.zip", (tmp_path / "z.zip").read_bytes())
    yield tmp_path
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def url_of(form: str, folder: Path, inner: str) -> str:
    """One file or pattern by one form; archives lie beside the folder."""
    root = folder if "::" in form else folder / "t"
    return form.format(folder=root, inner=inner)


@pytest.mark.parametrize("inner", PATTERNS)
@pytest.mark.parametrize("form", [*FORMS, *CACHES])
def test_a_name_stands_for_the_same_files_wherever_they_lie(folder: Path, form: str, inner: str) -> None:
    found = [name.rsplit(":", 1)[0] for name, _ in documents([url_of(form, folder, inner)])]
    ends = [remote.naming_part(name) for name in found]
    assert len(ends) == len(PATTERNS[inner])
    assert [end.endswith(f"/{name}") for end, name in zip(sorted(ends), sorted(PATTERNS[inner]), strict=True)] == [
        True
    ] * len(ends)
    assert [name.partition(".zip")[1] for name in found] == [".zip" * (".zip" in form)] * len(found)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.csv", "x.parquet", "x.txt", "X.JSONL"])
def test_the_suffix_is_that_of_the_name_within_an_archive(tmp_path: Path, name: str) -> None:
    others = {".gz": gzip.compress(LINE), ".csv": b"text\none of them\n", ".txt": b"one of them"}
    data = others.get(Path(name).suffix, LINE)
    if name.endswith(".parquet"):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"text": ["one of them"]}), sink)
        data = sink.getvalue().to_pybytes()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as packed:
        packed.writestr(name, data)
    options: dict[str, Any] = {"text_column": "text"} if name.endswith((".csv", ".parquet")) else {}
    assert len(list(documents([f"zip://{name}::{tmp_path / 'z.zip'}"], **options))) == 1


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("zip://a.jsonl::{folder}/t.tar", "found BadZipFile: File is not a zip file, expected a file"),
        ("data://text/plain;base64,YQ==", "found IndexError"),
        ("dir:///tmp/x.jsonl", "found AttributeError"),
        ("reference://x", "found TypeError"),
        ("zip://a.jsonl::{folder}/none.zip", "No such file or directory"),
        ("zip://*.jsonl::{folder}/t", "Is a directory"),
    ],
)
def test_what_a_file_system_raises_is_told_by_the_url(folder: Path, command: Command, url: str, told: str) -> None:
    url = url.format(folder=folder)
    outcome = command("dedup", url, "-o", folder / "kept")
    assert outcome.status in (1, 2)
    assert outcome.err.startswith(f"fpstore: {url}: ")
    assert told in outcome.err


def test_what_goes_wrong_while_a_file_is_read_is_told_by_the_url(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as packed:
        packed.writestr("a.jsonl", LINE)
    data = (tmp_path / "z.zip").read_bytes()
    (tmp_path / "z.zip").write_bytes(data.replace(b"one of", b"two of"))
    url = f"zip://a.jsonl::{tmp_path / 'z.zip'}"
    with pytest.raises(BadInput, match="found BadZipFile: Bad CRC-32") as caught:
        list(documents([url]))
    assert str(caught.value).startswith(f"{url}: ")
    assert caught.value.source == url


def test_a_file_elsewhere_is_read_from_any_place(folder: Path) -> None:
    with remote.opened("memory://t/a.jsonl") as file:
        assert (file.seekable(), file.seek(2), file.tell()) == (True, 2, 2)
        assert file.read() == LINE[2:]


@pytest.mark.parametrize(
    ("matching", "read"),
    [
        (["b", "a", "a"], ["a", "b"]),
        (["d/", "d/a", "d/e/f", "d-1"], ["d-1", "d/"]),
        (["d/a", "d/e/f", "d/e"], ["d/a", "d/e"]),
        (["", "a", "b/c"], [""]),
        (["/x/y", "/x/y/z", "/x/yz"], ["/x/y", "/x/yz"]),
    ],
)
def test_what_lies_in_a_folder_that_is_matched_is_read_once(matching: list[str], read: list[str]) -> None:
    assert remote.outermost(matching) == read
