"""A file that is cut while it is read is an error in every format, never a shorter input."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zstandard

from fpstore.inputs import BadInput, documents, portions, read
from fpstore.inputs.compressed import open_stream
from fpstore.jobs import Inputs, dedup
from fpstore.jobs.corpus import Corpus

KEYS = np.random.default_rng(1).integers(0, 1 << 64, 1 << 19, dtype=np.uint64)
LINES = b"".join(b"%016x\n" % key for key in KEYS.tolist()[: 1 << 17])
TEXTS = [f"the text {number} of many that are read one after the other " * 8 for number in range(10_000)]
OBJECTS = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in TEXTS)

# Formats of fingerprints and of texts, with a file of each that is read in parts (texts and pages are read at once).
FINGERPRINTS = {
    "hex": LINES,
    "u64": KEYS.tobytes(),
    "csv": b"fingerprint\n" + LINES,
    "tsv-plain": b"fingerprint\n" + LINES,
    "jsonl": b"".join(b'{"fingerprint": "%s"}\n' % line for line in LINES.split()),
}
DOCUMENTS = {
    "csv": b"text\n" + b"".join(text.encode() + b"\n" for text in TEXTS),
    "jsonl": OBJECTS,
    "warc": b"".join(
        b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: u\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
        % (len(text), text.encode())
        for text in TEXTS
    ),
}


def cutting(path: Path, size: int) -> Callable[[int], None]:
    """Told of bytes, leaves size of those of the file, once."""
    whole = path.stat().st_size

    def cut(_: int) -> None:
        if path.stat().st_size == whole:
            os.truncate(path, size)

    return cut


def told(path: Path | str, size: int, expected: int) -> str:
    return f"{path}: found its end after {size} bytes, expected {expected}, as there were when it was opened"


@pytest.mark.parametrize("format", FINGERPRINTS)
def test_fingerprints_of_a_file_that_is_cut_are_an_error(tmp_path: Path, format: str) -> None:
    path, data = tmp_path / "a", FINGERPRINTS[format]
    path.write_bytes(data)
    size = data.rindex(b"\n", 0, len(data) - len(data) // 8) + 1 if format != "u64" else len(data) // 16 * 8
    options: dict[str, Any] = {} if format in ("hex", "u64") else {"fingerprint_column": "fingerprint"}
    with pytest.raises(BadInput, match="it was cut while it was read") as caught:
        for _ in read([str(path)], format=format, on_bytes=cutting(path, size), **options):
            pass
    assert str(caught.value).startswith(told(path, size, len(data)))


@pytest.mark.parametrize("skip_bad", [False, True], ids=["strict", "skip-bad"])
@pytest.mark.parametrize("format", DOCUMENTS)
def test_texts_of_a_file_that_is_cut_are_an_error(tmp_path: Path, format: str, skip_bad: bool) -> None:
    path, data = tmp_path / "a", DOCUMENTS[format]
    path.write_bytes(data)
    size = data.rindex(b"\n" if format != "warc" else b"WARC/", 0, len(data) - len(data) // 8)
    size += format != "warc"
    column = "text" if format == "csv" else None
    options: dict[str, Any] = {"text_column": column, "skip_bad": skip_bad}
    with pytest.raises(BadInput) as caught:
        for _ in documents([str(path)], format=format, on_bytes=cutting(path, size), **options):
            pass
    assert str(caught.value).startswith(told(path, size, len(data)))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_packed_file_that_is_cut_between_two_members_is_an_error(tmp_path: Path, pack: Any) -> None:
    noise = random.Random(1)
    one = pack(b"".join(b"%016x\n" % noise.getrandbits(64) for _ in range(200_000)))
    path = tmp_path / "a.packed"
    path.write_bytes(one + one)
    with pytest.raises(BadInput) as caught:
        for _ in read([str(path)], format="hex", on_bytes=cutting(path, len(one))):
            pass
    assert str(caught.value).startswith(told(path, len(one), 2 * len(one)))


def test_a_stretch_of_a_file_that_is_cut_within_it_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(LINES)
    with open_stream(str(path), None, within=(17, 1700)) as stream:
        os.truncate(path, 170)
        with pytest.raises(BadInput) as caught:
            stream.whole(1 << 20)
    assert str(caught.value).startswith(told(path, 153, 1683))


def test_a_file_as_standard_input_is_counted_from_where_it_stands_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(LINES)
    for size in (len(LINES), 1 << 20, 170):
        path.write_bytes(LINES)
        with path.open("rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            file.readline()
            if size == len(LINES):
                with open_stream("-", None) as stream:
                    os.truncate(path, size)
                    assert stream.whole(1 << 30) == LINES[17:]
                continue
            with pytest.raises(BadInput, match="standard input: found its end after") as caught:
                _read_when_cut(path, size)
        assert f"expected {len(LINES) - 17}, as there were" in str(caught.value)


def _read_when_cut(path: Path, size: int) -> None:
    with open_stream("-", None) as stream:
        os.truncate(path, size)
        stream.whole(1 << 30)


class Bare:
    """Bytes that can be read, and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.readinto = io.BytesIO(data).readinto


def _in_tar(path: Path, held: contextlib.ExitStack) -> Any:
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("a")
        member.size = 34
        archive.addfile(member, io.BytesIO(LINES[:34]))
    return held.enter_context(held.enter_context(tarfile.open(path)).extractfile("a") or io.BytesIO())


def _of_file(pack: Callable[[bytes], bytes], opened: Callable[..., Any], *how: Any) -> Any:
    def open_in(path: Path, held: contextlib.ExitStack) -> Any:
        path.write_bytes(pack(LINES[:34]))
        return held.enter_context(opened(path, *how))

    return open_in


@pytest.mark.parametrize(
    "opened",
    [
        _of_file(gzip.compress, gzip.open),
        _of_file(bz2.compress, bz2.open),
        _of_file(lzma.compress, lzma.open),
        _of_file(zstandard.compress, zstandard.open),
        _in_tar,
        lambda path, held: Bare(LINES[:34]),
        lambda path, held: io.BytesIO(LINES[:34]),
        _of_file(bytes, open, "rb"),
        _of_file(bytes, open, "r+b"),
        _of_file(bytes, open, "rb", 0),
    ],
    ids=["gzip", "bz2", "lzma", "zstd", "tar", "bare", "bytes", "file", "random", "raw"],
)
def test_whatever_stands_in_the_place_of_standard_input_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Path, contextlib.ExitStack], Any]
) -> None:
    with contextlib.ExitStack() as held:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=opened(tmp_path / "a", held)))
        with open_stream("-", None) as stream:
            assert stream.whole(1 << 20) == LINES[:34]


def test_a_file_that_tells_another_size_than_it_has_is_read_to_its_end() -> None:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        pytest.skip("this system has no /sys with that file")
    assert path.stat().st_size != len(path.read_bytes())
    with open_stream(str(path), None) as stream:
        assert stream.whole(1 << 20) == path.read_bytes()


def test_what_is_added_to_a_file_while_it_is_read_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(LINES)
    with open_stream(str(path), None) as stream:
        first = stream.reader.read(17)
        with path.open("ab") as file:
            file.write(LINES[:17])
        assert first + stream.whole(1 << 30) == LINES + LINES[:17]


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"workers": 2}], ids=str)
def test_dedup_of_a_file_that_is_cut_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "kept.jsonl"
    path.write_bytes(OBJECTS * 4)
    cut, count = cutting(path, 3 * len(OBJECTS)), Corpus._count

    def count_and_cut(corpus: Corpus, size: int) -> None:
        cut(size)
        count(corpus, size)

    monkeypatch.setattr(Corpus, "_count", count_and_cut)
    with pytest.raises(BadInput, match="it was cut while it was read"):
        dedup(Inputs([path]), out, **options)
    assert not out.exists()


def test_where_a_file_is_cut_into_stretches_is_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(b'{"text": "%s"}\n' % (b"a" * length) for length in range(200))
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    every = []
    for piece in (2, 3, 7, 64, 1 << 16):
        monkeypatch.setattr(portions, "_LOOKED_AT_BYTES", piece)
        found = portions.portions_of(documents([str(path)]), 1e-9, 500)
        within = [portion.within or (0, 0) for portion in found]
        every.append(within)
        starts, ends = [start for start, _ in within], [end for _, end in within]
        assert len(starts) > 30
        assert (starts, ends[-1]) == ([0, *ends[:-1]], len(data))
        assert all(data[start - 1 : start + 1] == b"\n{" for start in starts[1:])
    assert all(each == every[0] for each in every)
