"""A folder of tasks is of one job with its options: who has others is told which, and what is advised then helps."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command, Outcome

import fpstore
from fpstore import jobs
from fpstore.cluster.tasks import HELD
from fpstore.errors import JobError
from fpstore.jobs import measure_rank, runs

TEXTS = [f"the quick brown fox number {number % 7} jumps over {number} lazy dogs" for number in range(40)]
SIGNED = ["dedup", "{in}", "-o", "{out}", "--recipe", "minhash-128"]
# A command, and others, each with what a rank of them is told that comes to the folder of the first.
OTHERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "dedup": (
        ["dedup", "{in}", "-o", "{out}"],
        {
            "-k 2": "max_distance 6, expected 2",
            "--keep longest": 'keep "first", expected "longest"',
            "--confirm none": 'confirm "jaccard>=0.82", expected none',
            "--confirm jaccard>=0.5": 'confirm "jaccard>=0.82", expected "jaccard>=0.5"',
            "--recipe code": 'recipe name "text-1", expected "code"',
            "--text-column text": 'text_column none, expected "text"',
            "--html": "html false, expected true",
            "--store {new}": "store none, expected",
            "--shards": "shards false, expected true",
        },
    ),
    "dedup of signatures": (
        SIGNED,
        {
            "--bands 8 --rows-per-band 16": "bands 16, expected 8",
            "--min-similarity 0.9": "min_similarity none, expected 0.9",
        },
    ),
    "cluster": (
        ["cluster", "{in}", "-o", "{out}"],
        {"-k 2": "max_distance 6, expected 2", "--update-center -k 6": 'confirm "jaccard>=0.82", expected none'},
    ),
    "components": (["cluster", "{in}", "-o", "{out}", "--components"], {"-k 2": "max_distance 3, expected 2"}),
    "document-pairs": (["document-pairs", "{in}", "-o", "{out}"], {"-k 2": "max_distance 3, expected 2"}),
    "fingerprint": (
        ["fingerprint", "{in}"],
        {"--recipe code": 'recipe name "text-1", expected "code"', "--html": "html false, expected true"},
    ),
    "probe": (["probe", "{store}", "--input", "{hex}"], {"-k 2": "max_distance 3, expected 2"}),
    "pairs": (
        ["pairs", "{store}"],
        {"-k 2": "max_distance 3, expected 2", "--of ids": 'of "fingerprints", expected "ids"'},
    ),
    "components of a store": (
        ["cluster", "{store}", "-o", "{out}", "--components"],
        {"-k 2": "max_distance 3, expected 2"},
    ),
    "pairs of signatures": (["pairs", "{signed}"], {"--min-similarity 0.9": "min_similarity none, expected 0.9"}),
    "build": (
        ["build", "{new}", "{hex}"],
        {
            "-k 2": "max_distance 3, expected 2",
            "--plan size": 'plan "balanced", expected "size"',
            "--codec raw": 'codec "gap", expected "raw"',
            "--recipe code": "recipe none, expected {",
            "--ids none": "ids true, expected false",
            "--ids from:5": "first_id 0, expected 5",
            "--skip-bad": "skip_bad false, expected true",
            "--layout blocks": "block_bytes 0, expected",
        },
    ),
}


@pytest.fixture(autouse=True)
def held() -> Iterator[None]:
    yield
    HELD.let_go()


def write_inputs(folder: Path, texts: list[str] = TEXTS) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for number in range(3):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts[number::3])
        (folder / "in" / f"{number}.jsonl").write_text(lines)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """What commands are asked of."""
    named = {name: tmp_path / name for name in ("in", "out", "store", "hex", "new", "signed")}
    write_inputs(tmp_path)
    keys = np.arange(50, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    fpstore.build(named["store"], np.concatenate([keys, keys ^ np.uint64(1)]), max_distance=3).close()
    named["hex"] = tmp_path / "a.hex"
    named["hex"].write_text("".join(f"{key:016x}\n" for key in keys.tolist()))
    return named


def asked_of(places: dict[str, Path], line: list[str]) -> list[str]:
    return [each.format_map({name: str(path) for name, path in places.items()}) for each in line]


@pytest.mark.parametrize(("name", "option"), [(name, option) for name, (_, own) in OTHERS.items() for option in own])
def test_a_rank_and_a_job_of_other_options_are_told_what_the_folder_has(
    command: Command, tmp_path: Path, places: dict[str, Path], name: str, option: str
) -> None:
    line, others = OTHERS[name]
    if "{signed}" in line:
        assert command("build", places["signed"], places["in"], "--recipe", "minhash-128").status == 0
    folder = ["--folder", str(tmp_path / "f"), "--world-size", "2"]

    def do(*more: str) -> Outcome:
        return command(*asked_of(places, line), *more)

    own = asked_of(places, option.split())
    assert do(*folder, "--rank", "0").status == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "f").iterdir()}
    told = re.compile(rf"{tmp_path}/f: found a job, of [a-z -]*, that has {re.escape(others[option])}")
    for rank in (["--rank", "0"], ["--rank", "1"], []):
        if not rank and (option.startswith("--ids from") or (line[0] == "dedup" and "--shards" in option)):
            continue  # who makes all tables that are left counts from where it is told; another result
        outcome = do(*own, *folder, *rank)
        assert outcome.status != 0, rank
        assert told.search(outcome.err.replace(", these pairs", "").replace(", these queries", "")), outcome.err
        assert outcome.out == ""
    assert {path.name: path.read_bytes() for path in (tmp_path / "f").iterdir()} == before
    assert not places["new"].exists()
    assert do(*folder, "--rank", "1").status == 0
    assert do(*folder).status == 0


def test_a_rank_of_another_number_of_tasks_is_told_what_they_are_cut_for(
    command: Command, tmp_path: Path, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.cluster.pairing.task_count", lambda seconds, workers, asked: workers)
    ask = ["pairs", places["store"], "--folder", tmp_path / "f"]
    assert command(*ask, "--world-size", "3", "--rank", "0").status == 0
    outcome = command(*ask, "--workers", "2")
    told = r"that has tasks 3, expected 2, as is asked for here: ask as it does, with its world_size \(--world-size\), "
    assert re.search(told, outcome.err)
    assert command(*ask, "--world-size", "3").status == 0


def test_a_rank_of_a_job_without_such_an_option_is_refused(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"job": "components", "keep": "longest"}, "keep: found it with job 'components', expected none"),
        ({"job": "dedup", "update_center": True}, "update_center: found it with job 'dedup', expected none"),
        ({"job": "fingerprint", "max_distance": 2}, "max_distance: found it with job 'fingerprint', expected none"),
        ({"job": "document-pairs", "store": tmp_path / "s"}, "store: found it with job 'document-pairs'"),
        ({"job": "cluster", "shards": True}, "shards: found it with job 'cluster', expected none"),
    ]
    for options, told in wrong:
        with pytest.raises(ValueError, match=re.escape(told)):
            measure_rank([tmp_path / "in"], folder=tmp_path / "f", rank=0, world_size=2, **options)
    assert not (tmp_path / "f").exists()


def test_a_record_that_nobody_wrote_is_another_job(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    asked: dict[str, Any] = {"folder": tmp_path / "f", "rank": 0, "world_size": 2}
    measure_rank([tmp_path / "in"], **asked)
    record = (tmp_path / "f" / "job").read_text().split("\n")
    for options in ("", "x", "[" * 100_000, "5"):
        (tmp_path / "f" / "job").write_text("\n".join([*record[:3], options]))
        with pytest.raises(JobError, match=r"does not tell its options, .*; expected one that does: remove the folder"):
            measure_rank([tmp_path / "in"], **asked)
        with pytest.raises(JobError, match="does not tell its options"):
            jobs.dedup([tmp_path / "in"], tmp_path / "out", folder=tmp_path / "f")
    # As an earlier fpstore wrote it; and the advice helps.
    (tmp_path / "f" / "job").write_text("\n".join(record[:3]))
    with pytest.raises(JobError, match="does not tell its options, as an earlier fpstore began it, or it was changed"):
        measure_rank([tmp_path / "in"], **asked)
    shutil.rmtree(tmp_path / "f")
    measure_rank([tmp_path / "in"], **asked)


# --- Inputs that have changed: what is advised helps ---

REMOVED = "remove the folder, or name another; a job that was begun with it: --force begins again"


def test_a_rank_of_changed_inputs_goes_on_as_it_is_advised(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    asked: dict[str, Any] = {"folder": tmp_path / "f", "world_size": 2, "shards": True, "output": tmp_path / "out"}
    given: dict[str, Any] = {"folder": tmp_path / "f", "world_size": 2, "shards": True}
    for rank in (0, 1):
        measure_rank([tmp_path / "in"], rank=rank, **asked)
    assert jobs.dedup([tmp_path / "in"], tmp_path / "out", **given).detail["tasks_left"]
    write_inputs(tmp_path, [*TEXTS, "another text of some words"])
    with pytest.raises(JobError, match=REMOVED):
        measure_rank([tmp_path / "in"], rank=0, **asked)
    told = rf"; remove {tmp_path}/f, where they were measured, or name another folder, and --force begins again$"
    with pytest.raises(JobError, match=told):
        jobs.dedup([tmp_path / "in"], tmp_path / "out", **given)
    shutil.rmtree(tmp_path / "f")
    with pytest.raises(JobError, match=r"that has decided by \w+, expected one by .*; the job: --force begins again$"):
        measure_rank([tmp_path / "in"], rank=0, **asked)
    assert jobs.dedup([tmp_path / "in"], tmp_path / "out", force=True, **given).detail["tasks_left"]
    for rank in (0, 1):
        measure_rank([tmp_path / "in"], rank=rank, **asked)
    jobs.dedup([tmp_path / "in"], tmp_path / "out", **given)
    jobs.dedup([tmp_path / "in"], tmp_path / "one", shards=True)
    for path in (tmp_path / "one").glob("*.jsonl"):
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("names_another", [False, True])
def test_a_job_of_changed_inputs_goes_on_as_it_is_advised(tmp_path: Path, *, names_another: bool) -> None:
    write_inputs(tmp_path)
    measure_rank([tmp_path / "in"], folder=tmp_path / "f", rank=0, world_size=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.jobs.corpus.BATCH_DOCUMENTS", 1)
        patch.setattr(runs.FirstRun, "commit_last", None)
        with pytest.raises(TypeError):
            jobs.dedup([tmp_path / "in"], tmp_path / "out", folder=tmp_path / "f")
    write_inputs(tmp_path, ["others", *TEXTS])
    told = rf"; remove {tmp_path}/f, where they were measured, or name another folder, and --force begins again$"
    with pytest.raises(JobError, match=told):
        jobs.dedup([tmp_path / "in"], tmp_path / "out", folder=tmp_path / "f")
    if names_another:
        jobs.dedup([tmp_path / "in"], tmp_path / "out", folder=tmp_path / "g", force=True)
    else:
        shutil.rmtree(tmp_path / "f")
        jobs.dedup([tmp_path / "in"], tmp_path / "out", folder=tmp_path / "f", force=True)
    jobs.dedup([tmp_path / "in"], tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "out").read_bytes()


def test_fingerprints_of_changed_inputs_are_asked_for_once_more_as_it_is_advised(
    command: Command, tmp_path: Path
) -> None:
    write_inputs(tmp_path)
    folder = tmp_path / "f"
    measure_rank([tmp_path / "in"], folder=folder, rank=0, world_size=1, job="fingerprint", confirm=None)
    source = tmp_path / "in" / "0.jsonl"
    was = source.stat()
    source.write_bytes(source.read_bytes().replace(b"quick", b"slick"))
    os.utime(source, ns=(was.st_atime_ns, was.st_mtime_ns))
    outcome = command("fingerprint", tmp_path / "in", "--folder", folder)
    told = (
        f"has changed meanwhile; remove {folder}, where they were measured, or name another folder, and ask once more"
    )
    assert told in outcome.err
    shutil.rmtree(folder)
    again = command("fingerprint", tmp_path / "in", "--folder", folder)
    assert (again.status, again.out) == (0, command("fingerprint", tmp_path / "in").out)
