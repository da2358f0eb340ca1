"""What the README tells to type does what it says, line by line and in its order."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard
from pages import code_blocks
from test_inputs_warc import page

import fpstore
from fpstore.text import fingerprint

KNOWN = 0x9F3A5C0012AB44DE
TEXT = " ".join(f"word{i}" for i in range(200))


def some(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader would have: the files that the README names, and `fpstore` on the path."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "fpstore"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m fpstore "$@"\n')
    script.chmod(0o755)
    np.save(tmp_path / "fingerprints.npy", np.append(some(20_000, 1), np.uint64(KNOWN)))
    rows = "".join(f"{100_000 + i},{key:016x}\n" for i, key in enumerate(some(50, 2).tolist()))
    (tmp_path / "new.csv").write_text("doc_id,simhash\n" + rows)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "one.txt").write_text(TEXT)
    (tmp_path / "draft.txt").write_text(TEXT)
    lines = "".join(json.dumps({"id": i, "text": f"{TEXT} and {i % 7} more {i % 7}"}) + "\n" for i in range(30))
    for name in ("crawl.jsonl", "new.jsonl"):
        (tmp_path / name).write_text(lines)
    (tmp_path / "crawl.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    (tmp_path / "crawl.warc.gz").write_bytes(gzip.compress(page(f"<p>{TEXT}")))
    return tmp_path


def run(folder: Path, lines: list[str]) -> None:
    """Each line by bash, in the folder; the test fails with what the first wrong one says."""
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for line in lines:
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def lines_of(number: int) -> list[str]:
    """The commands of one of the blocks under "From the command line"."""
    return [line for line in code_blocks("README.md", "From the command line")[number].splitlines() if line.strip()]


@pytest.mark.slow
def test_the_commands_for_fingerprints_do_what_they_say(folder: Path) -> None:
    lines = lines_of(0)
    (addition,) = [line for line in lines if line.startswith("fpstore add ")]
    run(folder, lines[: lines.index(addition) + 1])
    added = [line.split(",") for line in (folder / "new.csv").read_text().splitlines()[1:]]
    with fpstore.open(folder / "web.fps") as store:
        for doc, simhash in added:
            assert [match.id for match in store.probe(int(simhash, 16), max_distance=0)] == [int(doc)]
        assert store.contains_near(KNOWN, max_distance=0)
    run(folder, lines[lines.index(addition) + 1 :])
    with fpstore.open(folder / "backup.fps") as store:
        assert store.count() == 20_000 + len(added)
        assert not store.contains_near(KNOWN, max_distance=0)


@pytest.mark.slow
def test_the_commands_for_texts_do_what_they_say(folder: Path) -> None:
    run(folder, lines_of(1))
    for name in ("docs.fps", "pages.fps"):
        with fpstore.open(folder / name) as store:
            assert store.contains_near(fingerprint(TEXT), max_distance=0)


@pytest.mark.slow
def test_the_commands_for_corpora_do_what_they_say(folder: Path) -> None:
    run(folder, lines_of(2))
    kept, dropped = ((folder / name).read_text().splitlines() for name in ("kept.jsonl", "dropped.tsv"))
    assert len(kept) + len(dropped) == len((folder / "clusters.tsv").read_text().splitlines()) == 30
    assert len((folder / "new-kept.jsonl").read_text().splitlines()) == len(kept)
    assert (folder / "pairs.tsv").read_text()
