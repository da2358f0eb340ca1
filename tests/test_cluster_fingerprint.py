"""Fingerprints of texts by tasks are the lines of one process, and ranks do the tasks of all jobs over a corpus."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from engine_tasks import PROCESSES
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import always_tasks
from outcome import Command

import fpstore
from fpstore import cluster, jobs
from fpstore.cluster import engines
from fpstore.cluster.measuring import MeasureTask
from fpstore.errors import JobError
from fpstore.fingerprints import as_numbers
from fpstore.inputs import BadInput, documents
from fpstore.jobs import Inputs, measure_rank, sharing
from fpstore.text import DEFAULT_RECIPE, Recipe, load_recipe

RECIPES = {"1-bit": DEFAULT_RECIPE, "simhash-1": load_recipe("simhash-1")}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of about so many bytes as a few documents have."""
    monkeypatch.setattr(sharing, "TASK_SECONDS", 120 / 100e6)
    always_tasks(monkeypatch)


def some_corpus(folder: Path) -> list[Path]:
    """Lines, packed lines, pages and files; some are near others."""
    folder.mkdir()
    texts = [f"<p>a b c d e f {i % 23} g h i {i % 5} j k</p>" for i in range(60)]
    data = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (folder / "a.jsonl").write_text(data)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(data.encode()))
    for number in range(3):
        (folder / f"c{number}.html").write_text(f"<html><body><p>one two three four {number}</p></body></html>")
        (folder / f"d{number}.txt").write_text(f"one two three four five \\ {number}")
    return sorted(folder.iterdir())


def one_by_one(inputs: list[Path], recipe: Recipe) -> list[tuple[str, int]]:
    """Each text by itself."""
    return [(name, recipe.fingerprint(text)) for name, text in documents(inputs, recipe=recipe, skip_bad=True)]


def found_by(inputs: Any, recipe: Recipe, **who: Any) -> list[tuple[str, int]]:
    with cluster.fingerprint(inputs, recipe=recipe, **who) as every:
        rows = [row for names, keys in every for row in zip(names, as_numbers(keys), strict=True)]
    return [(str(name), int(key)) for name, key in rows]


# --- Fingerprints ---


@pytest.mark.parametrize("name", RECIPES)
def test_any_number_of_workers_finds_the_fingerprints_of_each_text_by_itself(tmp_path: Path, name: str) -> None:
    inputs, recipe = some_corpus(tmp_path / "in"), RECIPES[name]
    expected = one_by_one(inputs, recipe)
    assert len(expected) == 126
    for workers in (1, 2, 5):
        assert found_by(inputs, recipe, workers=workers) == expected


lines = st.lists(
    st.sampled_from(['{"text": "a b c"}', '{"text": "d e f g"}', '{"text": ""}', "{", "", "[1]"]), max_size=9
)


@settings(max_examples=15)
@given(st.lists(lines, min_size=1, max_size=4), st.integers(1, 300))
def test_bad_lines_are_passed_over_alike(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[str]], seconds: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    paths = [folder / f"{number}.jsonl" for number in range(len(shards))]
    for path, own in zip(paths, [*shards[:-1], [*shards[-1], '{"text": "good"}']], strict=True):
        path.write_text("".join(f"{line}\n" for line in own))
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "TASK_SECONDS", seconds / 100e6)
        for workers in (1, 2):
            with cluster.fingerprint(Inputs(paths, skip_bad=True), workers=workers) as every:
                rows = [row for names, keys in every for row in zip(names, as_numbers(keys), strict=True)]
            told.append((rows, every.skipped, every.notes, every.warning))
    assert told[0] == told[1]
    assert told[0][0] == one_by_one(paths, DEFAULT_RECIPE)


def test_the_command_prints_the_lines_of_one_process(command: Command, tmp_path: Path) -> None:
    inputs = some_corpus(tmp_path / "in")
    for more in ((), ("--json",), ("--html",), ("--recipe", "simhash-1"), ("--recipe", "text-1-256")):
        if more == ("--recipe", "text-1-256"):
            wide = tmp_path / "wide.json"
            wide.write_text(json.dumps(DEFAULT_RECIPE.to_json() | {"bits": 256}))
            more = ("--recipe", str(wide))
        one = command("fingerprint", *inputs, *more)
        assert one.status == 0
        assert len(one.lines) == 126
        assert command("fingerprint", *inputs, *more, "--workers", "2") == one


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", []),
        ("--workers 1", []),
        ("--workers 3", [("local", None, 3)]),
        ("--engine local", [("local", None, None)]),
        ("--engine ray --address a", [("ray", "a", None)]),
        ("--folder f", [("local", None, None)]),
    ],
)
def test_the_command_has_those_measure_whom_its_options_say(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, expected: list[Any]
) -> None:
    seen: list[Any] = []

    def named(*asked: Any) -> engines.Engine:
        seen.append(asked)
        return engines.engine_named("local", None, 1)

    monkeypatch.setattr(sharing, "engine_named", named)
    monkeypatch.chdir(tmp_path)
    inputs = some_corpus(tmp_path / "in")
    outcome = command("fingerprint", *inputs, *options.split())
    assert (outcome.status, len(outcome.lines)) == (0, 126)
    assert seen == expected


def test_a_bad_line_is_told_of_as_by_one_process(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "a b c d e f g"}\n' * 20 + "{\n" + '{"text": "h"}\n')
    one = command("fingerprint", source)
    two = command("fingerprint", source, "--workers", "2")
    assert (one.status, two.status) == (1, 1)
    assert f"{source}, line 21: found" in one.err
    assert one.err == two.err


def test_signatures_are_no_fingerprints(tmp_path: Path) -> None:
    inputs = some_corpus(tmp_path / "in")
    with pytest.raises(fpstore.RecipeError, match="minhash-128"):
        cluster.fingerprint(inputs, recipe=load_recipe("minhash-128"), workers=2)


def test_standard_input_and_rows_are_measured_here(tmp_path: Path) -> None:
    rows = [{"text": f"a b {i % 4} c"} for i in range(9)]
    inputs = [rows, *some_corpus(tmp_path / "in")]
    assert found_by(inputs, DEFAULT_RECIPE, workers=2) == found_by(inputs, DEFAULT_RECIPE, workers=1)


def test_what_was_done_in_a_folder_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, folder = some_corpus(tmp_path / "in"), tmp_path / "f"
    expected = found_by(inputs, DEFAULT_RECIPE, workers=1)
    assert found_by(inputs, DEFAULT_RECIPE, workers=2, folder=folder) == expected
    monkeypatch.setattr(MeasureTask, "_write", None)
    assert found_by(inputs, DEFAULT_RECIPE, workers=1, folder=folder) == expected
    parts = sorted(folder.glob("*.part"))
    assert len(parts) > 5
    # Half of one, as a power cut may leave it, is made again, and nothing else.
    parts[0].write_bytes(parts[0].read_bytes()[:-40])
    monkeypatch.undo()
    monkeypatch.setattr(sharing, "TASK_SECONDS", 120 / 100e6)
    always_tasks(monkeypatch)
    before = [path.stat().st_mtime_ns for path in parts]
    assert found_by(inputs, DEFAULT_RECIPE, workers=1, folder=folder) == expected
    assert [path.stat().st_mtime_ns == then for path, then in zip(parts, before, strict=True)].count(False) == 1
    with pytest.raises(JobError, match=rf"^{folder}: found those of job .*: of fingerprint of these inputs, these"):
        found_by(inputs[1:], DEFAULT_RECIPE, workers=2, folder=folder)


def test_a_folder_in_an_input_is_refused(tmp_path: Path) -> None:
    some_corpus(tmp_path / "in")
    told = (
        rf"^folder {tmp_path / 'in' / 'f'}: found a place in input {tmp_path / 'in'}, expected one beside the inputs$"
    )
    for ask in (
        lambda: cluster.fingerprint([tmp_path / "in"], folder=tmp_path / "in" / "f"),
        lambda: measure_rank([tmp_path / "in"], folder=tmp_path / "in" / "f", rank=0, world_size=1),
    ):
        with pytest.raises(ValueError, match=told):
            ask()
    assert not (tmp_path / "in" / "f").exists()


INTERRUPTED = """
import sys
from engine_tasks import SlowMeasure
from fpstore.jobs import sharing
from fpstore.cli import main
sharing.TASK_SECONDS, sharing.FEW_WORKERS, sharing.WORTH_SECONDS = 120 / 100e6, 0, -1.0
sharing.MeasureTask = SlowMeasure
sys.exit(main(["fingerprint", *sys.argv[2:], "--workers", "2", "--folder", sys.argv[1]]))
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_leaves_what_goes_on(tmp_path: Path) -> None:
    inputs, folder = some_corpus(tmp_path / "in"), tmp_path / "f"
    driver = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, folder, *inputs],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parent,
        env={**os.environ, PROCESSES: str(tmp_path)},
        text=True,
    )
    while driver.poll() is None and len(list(folder.glob("*.part"))) < 2:
        time.sleep(0.01)
    driver.send_signal(signal.SIGINT)
    assert driver.communicate(timeout=60)[1] == "fpstore: interrupted\n"
    assert driver.returncode == 130
    assert found_by(inputs, DEFAULT_RECIPE, workers=2, folder=folder) == one_by_one(inputs, DEFAULT_RECIPE)


# --- Ranks ---

RANKED = {
    "dedup": ("-o", "{out}", "--dropped", "{out}.tsv"),
    "dedup --keep longest": ("-o", "{out}"),
    "dedup --confirm none": ("-o", "{out}"),
    "dedup --recipe minhash-128": ("-o", "{out}"),
    "cluster": ("-o", "{out}"),
    "cluster --update-center": ("-o", "{out}"),
    "cluster --components": ("-o", "{out}"),
    "document-pairs": ("-o", "{out}"),
    "fingerprint": (),
}


@pytest.mark.parametrize("asked", RANKED)
def test_ranks_measure_all_and_the_job_writes_what_one_process_does(
    command: Command, tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, folder, (name, *options) = some_corpus(tmp_path / "in"), tmp_path / "f", asked.split()

    def line(out: str) -> list[Any]:
        (tmp_path / out).mkdir(exist_ok=True)
        own = [each.format(out=tmp_path / out / "o.jsonl") for each in RANKED[asked]]
        return [name, *inputs, *options, *own, "--html"]

    one = command(*line("one"))
    assert one.status == 0
    shared = [*line("two"), "--folder", folder, "--world-size", "2"]
    done = [command(*shared, "--rank", rank) for rank in ("1", "0", "1")]
    counts = [int(outcome.err.split("did ")[1].split()[0]) for outcome in done]
    assert [outcome.status for outcome in done] == [0, 0, 0]
    assert [outcome.out for outcome in done] == ["", "", ""]
    assert done[0].err == f"rank 1 of 2: did {counts[0]} tasks, whose parts are in {folder}\n"
    assert abs(counts[0] - counts[1]) < 2
    assert counts[2] == 0
    assert not list((tmp_path / "two").iterdir())
    monkeypatch.setattr(MeasureTask, "_write", None)
    two = command(*shared)
    assert (two.status, two.out) == (0, one.out)
    for path in (tmp_path / "one").iterdir():
        if not path.name.startswith("."):
            assert (tmp_path / "two" / path.name).read_bytes() == path.read_bytes(), path
    assert len(list(folder.glob("*.part"))) == counts[0] + counts[1]


def test_what_a_rank_has_not_done_the_job_does(tmp_path: Path) -> None:
    inputs, folder = some_corpus(tmp_path / "in"), tmp_path / "f"
    jobs.dedup(inputs, tmp_path / "one")
    assert measure_rank(inputs, folder=folder, rank=2, world_size=3) > 1
    jobs.dedup(inputs, tmp_path / "two", folder=folder, workers=1)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert not (tmp_path / "two.job").exists()


def test_parts_of_another_job_are_refused(tmp_path: Path) -> None:
    inputs, folder = some_corpus(tmp_path / "in"), tmp_path / "f"
    measure_rank(inputs, folder=folder, rank=0, world_size=3, confirm=None)
    told = 'of dedup of these inputs, that has confirm none, expected "jaccard>=0.82"'
    with pytest.raises(JobError, match=told):
        jobs.dedup(inputs, tmp_path / "two", folder=folder)
    told = "of dedup of these inputs, these tasks; remove the folder, or name another"
    (tmp_path / "in" / "a.jsonl").write_text("{\n")
    with pytest.raises(JobError, match=told):
        jobs.dedup(inputs, tmp_path / "two", folder=folder, confirm=None)
    shutil.rmtree(folder)
    with pytest.raises(BadInput, match=r"a\.jsonl, line 1: found"):
        jobs.dedup(inputs, tmp_path / "three", folder=folder)


KINDS: dict[str, tuple[Any, ...]] = {
    "dedup": ("dedup", "-o", "{out}"),
    "cluster": ("cluster", "-o", "{out}"),
    "components": ("cluster", "--components", "-o", "{out}"),
    "document-pairs": ("document-pairs", "-o", "{out}"),
    "fingerprint": ("fingerprint",),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_of_one_kind_of_job(command: Command, tmp_path: Path, kind: str) -> None:
    inputs = some_corpus(tmp_path / "in")
    folder, measured = tmp_path / "f", cast("Any", kind)
    confirm = "default" if kind in ("dedup", "cluster") else None
    measure_rank(inputs, folder=folder, rank=0, world_size=2, job=measured, confirm=confirm)
    for other, (name, *options) in KINDS.items():
        own = [each.format(out=tmp_path / f"{other}.jsonl") for each in options]
        outcome = command(name, *inputs, *own, "--folder", folder)
        if other == kind:
            assert outcome.status == 0
        else:
            assert outcome.status != 0
            assert f", of {kind} of these inputs, expected an empty folder" in outcome.err
            assert f": of {other} of these inputs, these tasks; remove the folder" in outcome.err


def test_what_is_no_job_is_not_measured_for(tmp_path: Path) -> None:
    kind: Any = "pairs"
    with pytest.raises(ValueError, match=r"^job: found 'pairs', expected dedup, cluster, components"):
        measure_rank([], folder=tmp_path / "f", rank=0, world_size=1, job=kind)


def test_a_folder_says_which_fpstore_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, folder = some_corpus(tmp_path / "in"), tmp_path / "f"
    measure_rank(inputs, folder=folder, rank=0, world_size=2)
    began = fpstore.__version__
    monkeypatch.setattr(fpstore, "__version__", "99.9")
    told = f"found a job that fpstore {began} began, expected one of this fpstore, 99.9: go on with that one, or remove"
    with pytest.raises(JobError, match=re.escape(told)):
        jobs.dedup(inputs, tmp_path / "out", folder=folder)


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (True, 2), ("0", 1)])
def test_a_rank_that_there_is_not_is_refused(tmp_path: Path, rank: Any, size: int) -> None:
    fpstore.build(tmp_path / "s", [5]).close()
    told = rf"^rank: found {rank!r}, expected 0 to {size - 1}, as world_size is {size}$"
    who = {"folder": tmp_path / "f", "rank": rank, "world_size": size}
    with pytest.raises(ValueError, match=told):
        measure_rank([], **who)
    with pytest.raises(ValueError, match=told):
        cluster.pairs_rank(tmp_path / "s", **who)


def test_ranks_find_the_pairs_and_components_of_one_process(command: Command, tmp_path: Path) -> None:
    keys = [(number * 0x9E3779B97F4A7C15) % 2**64 for number in range(200)]
    fpstore.build(tmp_path / "s", [*keys, *(key ^ 5 for key in keys[:40]), *keys[:9]]).close()
    for name, *more in (("pairs", "--of", "fingerprints"), ("pairs", "--of", "ids"), ("cluster", "--components")):
        folder = tmp_path / "-".join((name, *more))
        asked = (name, tmp_path / "s", *more)
        shared = (*asked, "--folder", folder, "--world-size", "2")
        done = [command(*shared, "--rank", rank) for rank in ("0", "1")]
        assert [outcome.status for outcome in done] == [0, 0]
        assert sum(int(outcome.err.split("did ")[1].split()[0]) for outcome in done) == len(list(folder.glob("*.part")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fpstore.cluster.pairing.PairsTask.run", None)
            outcome = command(*shared)
        assert sorted(outcome.lines) == sorted(command(*asked).lines)
        assert len(outcome.lines) >= 40
