"""What the README and its two pages of commands and of Python tell to type does what they say, in its order."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from pages import ROOT, all_code, code_blocks
from test_inputs_warc import page

import fpstore
from fpstore import minhash
from fpstore.text import fingerprint

KNOWN = 0x9F3A5C0012AB44DE
README, COMMANDS, PYTHON = "README.md", "docs/command-line.md", "docs/python.md"
# Each block of code (page, section, which one of it), and the test that runs it: every line, but for those of NOT_RUN.
RUN = {
    (README, "In one minute", 0): "test_the_first_minute_goes_as_it_is_told",
    (README, "From the command line", 0): "test_the_commands_for_fingerprints_do_what_they_say",
    (README, "From Python", 0): "test_the_examples_in_python_do_what_they_say",
    (README, "From Python", 1): "test_the_examples_in_python_do_what_they_say",
    (COMMANDS, "Texts", 0): "test_the_commands_for_texts_do_what_they_say",
    (COMMANDS, "Short texts and whole corpora", 0): "test_the_commands_for_corpora_do_what_they_say",
    (COMMANDS, "Tab completion", 0): "test_tab_completes_a_subcommand",
    (PYTHON, "Texts", 0): "test_the_examples_in_python_do_what_they_say",
    (PYTHON, "Signatures of MinHash", 0): "test_the_examples_in_python_do_what_they_say",
}
NOT_RUN = {
    'make install && export PATH="$PWD/.venv/bin:$PATH" && cd "$(mktemp -d)"': (
        "it makes what the tests run in, as each target of make in .ci/run does"
    )
}
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
    (tmp_path / "pdq.hex").write_text("".join(f"{code.tobytes().hex()}\n" for code in some(400, 3).reshape(100, 4)))
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


def until_asked(command: str) -> str:
    """A command; a service is asked something, and ended."""
    if not command.startswith("fpstore serve "):
        return command
    socket = f"{command.removeprefix('fpstore serve ')}.sock"
    asked = f"curl --silent --fail --unix-socket {socket} http://localhost/healthz"
    return f"{command} & until {asked}; do sleep 0.1; done; kill $!; wait $!"


def lines_of(where: str, section: str) -> list[str]:
    """The commands of the first block of a section, without those of NOT_RUN."""
    lines = code_blocks(where, section)[0].splitlines()
    return [line for line in lines if line.strip() and line not in NOT_RUN]


def ids_in(folder: Path, store: str) -> set[str]:
    """The ids of all that is in a store; fails where one is there twice."""
    run(folder, [f"fpstore export {store} rows.csv --force"])
    ids = [line.split(",")[-1] for line in (folder / "rows.csv").read_text().splitlines()[1:]]
    assert len(ids) == len({*ids})
    return {*ids}


def test_every_block_of_code_is_run() -> None:
    blocks = [(where, section, code) for where in (README, COMMANDS, PYTHON) for section, code in all_code(where)]
    sections = [(where, section) for where, section, _ in blocks]
    places = [(*each, sections[:at].count(each)) for at, each in enumerate(sections)]
    assert places == list(RUN)
    assert all(callable(globals()[test]) for test in RUN.values())
    lines = {line for *_, code in blocks for line in code.splitlines()}
    assert set(NOT_RUN) <= lines


@pytest.mark.slow
def test_each_command_of_the_table_does_what_was_wanted(folder: Path) -> None:
    table = (ROOT / README).read_text().partition("| I have |")[2].partition("\n\n")[0]
    commands = [line.split("|")[-2].strip() for line in table.splitlines()[2:]]
    assert commands.pop() == "[From Python](#from-python)"
    assert all(command.startswith("`fpstore ") for command in commands)
    run(folder, [until_asked(command.strip("`")) for command in commands])
    kept = {json.loads(line)["id"] for line in (folder / "kept.jsonl").read_text().splitlines()}
    clusters = [line.split("\t") for line in (folder / "clusters.tsv").read_text().splitlines()]
    pairs = (folder / "pairs.tsv").read_text().splitlines()
    assert len(clusters) == 30
    assert len(kept) == len((folder / "new-kept.jsonl").read_text().splitlines()) == len({row[0] for row in clusters})
    assert len(pairs) >= 30 - len(kept)
    with fpstore.open(folder / "docs.fpstore") as store:
        assert store.contains_near(fingerprint(TEXT))
    with fpstore.open(folder / "backup.fpstore") as store:
        assert store.contains_near(KNOWN)
    with fpstore.open(folder / "images.fpstore") as images:
        assert images.contains_near(some(400, 3).reshape(100, 4)[17].tobytes())
    with minhash.open(folder / "pages.fpstore") as pages:
        assert pages.contains_near(pages.signature(TEXT))


@pytest.mark.slow
def test_the_first_minute_goes_as_it_is_told(folder: Path) -> None:
    run(folder, lines_of(README, "In one minute"))
    texts = sorted(path.name for path in (folder / "texts").iterdir())
    kept = [json.loads(line)["name"] for line in (folder / "kept.jsonl").read_text().splitlines()]
    dropped = [line.split("\t") for line in (folder / "dropped.tsv").read_text().splitlines()]
    assert sorted(name.rpartition("/")[2] for name in [*kept, *(row[0] for row in dropped)]) == texts
    assert {row[1] for row in dropped} <= {*kept}
    assert len(ids_in(folder, "texts.fpstore")) == len(texts)  # the addition added nothing
    with fpstore.open(folder / "texts.fpstore") as store:
        assert store.contains_near(fingerprint((folder / "texts" / "cp037.py").read_text()))


@pytest.mark.slow
def test_tab_completes_a_subcommand(folder: Path) -> None:
    asked = 'COMP_WORDS=(fpstore ver); COMP_CWORD=1; _fpstore_completion fpstore; test "${COMPREPLY[*]}" = verify'
    run(folder, ["\n".join([*lines_of(COMMANDS, "Tab completion"), asked])])


@pytest.mark.slow
def test_the_examples_in_python_do_what_they_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    run(folder, ["fpstore build docs.fpstore documents/ --format text --recipe multilingual"])
    names: dict[str, Any] = {"ids": np.arange(20_001, dtype=np.uint64)}
    for (where, section, at), test in RUN.items():
        if test == "test_the_examples_in_python_do_what_they_say":
            exec(compile(code_blocks(where, section)[at], where, "exec"), names)
    assert len(names["matches"]) >= 10_000
    assert not names["known"].stored.any()
    assert not names["told"].stored[0]
    assert [match.id for match in names["found"]] == [1000]
    assert ids_in(folder, "web.fpstore") == {*map(str, range(20_001))}
    assert ids_in(folder, "backup.fpstore") == ids_in(folder, "web.fpstore") - {"17", "18"}


@pytest.mark.slow
def test_the_commands_for_fingerprints_do_what_they_say(folder: Path) -> None:
    lines = lines_of(README, "From the command line")
    addition = next(line for line in lines if line.startswith("fpstore add "))
    run(folder, lines[: lines.index(addition) + 1])
    added = [line.split(",") for line in (folder / "new.csv").read_text().splitlines()[1:]]
    with fpstore.open(folder / "web.fpstore") as store:
        for doc, simhash in added:
            assert [match.id for match in store.probe(int(simhash, 16), max_distance=0)] == [int(doc)]
        assert store.contains_near(KNOWN, max_distance=0)
    run(folder, lines[lines.index(addition) + 1 :])
    with fpstore.open(folder / "backup.fpstore") as store:
        assert store.count() == 20_000 + len(added)
        assert not store.contains_near(KNOWN, max_distance=0)


@pytest.mark.slow
def test_the_commands_for_texts_do_what_they_say(folder: Path) -> None:
    run(folder, lines_of(COMMANDS, "Texts"))
    for name in ("docs.fpstore", "pages.fpstore"):
        with fpstore.open(folder / name) as store:
            assert store.contains_near(fingerprint(TEXT), max_distance=0)


@pytest.mark.slow
def test_the_commands_for_corpora_do_what_they_say(folder: Path) -> None:
    run(folder, lines_of(COMMANDS, "Short texts and whole corpora"))
    kept, dropped = ((folder / name).read_text().splitlines() for name in ("kept.jsonl", "dropped.tsv"))
    assert len(kept) + len(dropped) == len((folder / "clusters.tsv").read_text().splitlines()) == 30
    assert len((folder / "new-kept.jsonl").read_text().splitlines()) == len(kept)
    assert (folder / "pairs.tsv").read_text()


def test_beyond_k_a_search_is_answered_and_pairs_and_additions_are_not(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", id_type=None, max_distance=2) as store:
        store.add([0])
        assert len(store.probe(0xFF, max_distance=8)) == len(store.nearest(0xFF)) == 1
        for refused in (lambda: store.pairs(max_distance=3), lambda: store.add_if_new([7], max_distance=3)):
            with pytest.raises(fpstore.PlanError, match=r"^max_distance: found 3, expected at most 2"):
                refused()
