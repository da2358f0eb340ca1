"""Bad input of commands whose work is shared out: one line of the driver, the one that a process alone prints."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import always_tasks
from outcome import Command

import fpstore
from fpstore import minhash
from fpstore.cluster import Shards, measuring
from fpstore.cluster.pairing import PairsTask
from fpstore.cluster.searching import ProbeTask
from fpstore.jobs import sharing

TEXTS = [f"one two three four five six {number % 7} seven eight {number % 3}" for number in range(40)]
# What is asked of each command: {in} is an input, {store} a store and {to} a place of its own for what comes out.
ASKED = {
    "probe": "probe {store} --input {in}",
    "pairs": "pairs {store}",
    "components": "cluster {store} --components -o {to}/o.tsv",
    "build": "build {to}/new.fpstore {in}",
    "fingerprint": "fingerprint {in}",
    "dedup": "dedup {in} -o {to}/o.jsonl",
    "cluster": "cluster {in} -o {to}/o.tsv",
    "document-pairs": "document-pairs {in} -o {to}/o.tsv",
}
OF_STORES = ("probe", "pairs", "components")
OF_FINGERPRINTS = ("probe", "build")
OF_CORPORA = ("fingerprint", "dedup", "cluster", "document-pairs")
# A fault by what it is: which commands meet it, what is given in place of an input or store, further options, and what
# is told.
FAULTS: dict[str, tuple[tuple[str, ...], dict[str, str], str, str]] = {
    "an input that is not there": (
        (*OF_FINGERPRINTS, *OF_CORPORA),
        {"in": "none.npy"},
        "",
        "none.npy: No such file or",
    ),
    "a store that is not there": (OF_STORES, {"store": "none.fpstore"}, "", "none.fpstore: No such file or directory"),
    "a list with a missing store": (("probe",), {"store": "web.shards.json"}, "", "away.fpstore: No such file or"),
    "a list where one store is taken": (
        ("components",),
        {"store": "web.shards.json"},
        "",
        "found a list of stores, expected",
    ),
    "a folder that is no store": (("probe", "pairs"), {"store": "folder"}, "", "folder: "),
    "a column that is not there": (
        OF_FINGERPRINTS,
        {"in": "rows.csv"},
        "--fingerprint-column nothing",
        "rows.csv, line 1: found columns ",
    ),
    "a column of fingerprints that has words": (
        OF_FINGERPRINTS,
        {"in": "rows.csv"},
        "--fingerprint-column word",
        "rows.csv, line 2: ",
    ),
    "a column of texts that has numbers": (
        OF_CORPORA,
        {"in": "texts.jsonl"},
        "--text-column number",
        "texts.jsonl, line 1",
    ),
    "a column of Parquet of another type": (OF_CORPORA, {"in": "t.parquet"}, "--text-column number", "t.parquet"),
    "fingerprints of another type": (OF_FINGERPRINTS, {"in": "floats.npy"}, "", "floats.npy: "),
    "fingerprints of another width": (("probe",), {"in": "wide.npy"}, "", "wide.npy"),
    "fingerprints by another recipe": (("probe",), {"in": "said.parquet", "store": "t.fpstore"}, "", "recipe"),
    "texts where no recipe is": (
        ("probe",),
        {"in": "texts.jsonl"},
        "",
        "found no recipe for texts in the store, expected",
    ),
    "a standing store of another recipe": (
        ("dedup", "cluster"),
        {"in": "texts.jsonl"},
        "--store t.fpstore --recipe web-en",
        "t.fpstore: found recipe text-1, expected web-en: the store's is the one to use",
    ),
    "a standing store without a recipe": (
        ("dedup", "cluster"),
        {"in": "texts.jsonl"},
        "--store s.fpstore",
        "s.fpstore: found no recipe for texts in the store",
    ),
    "a standing store of another kind": (
        ("dedup", "cluster"),
        {"in": "texts.jsonl"},
        "--store m.fpstore --max-distance 3",
        "",
    ),
    "a bad line": (OF_CORPORA, {"in": "bad.jsonl"}, "", "bad.jsonl, line 12: found"),
    "a store as an input": (("probe", "build", "dedup", "fingerprint"), {"in": "s.fpstore"}, "", "s.fpstore"),
}
MEETINGS = [(fault, name) for fault, (names, *_) in FAULTS.items() for name in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pyarrow
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("bad")
    (folder / "folder").mkdir()
    keys = np.arange(90, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    fpstore.build(folder / "s.fpstore", keys).close()
    fpstore.build(folder / "away.fpstore", keys).close()
    Shards.write(folder / "web.shards.json", [folder / "s.fpstore", folder / "away.fpstore"])
    (folder / "away.fpstore").rename(folder / "moved.fpstore")
    for name, recipe in (("t.fpstore", "text-1"), ("web.fpstore", "web-en")):
        with fpstore.create(folder / name, recipe=recipe) as store:
            store.add_texts(TEXTS[:9], ids=range(9))
    minhash.create(folder / "m.fpstore", recipe="minhash-128").close()
    np.save(folder / "q.npy", keys)
    np.save(folder / "floats.npy", keys.astype(np.float32))
    np.save(folder / "wide.npy", np.zeros((5, 2), dtype=np.uint64))
    (folder / "rows.csv").write_text("word,number,id\nred,1,1\ngreen,2,2\n")
    rows = [json.dumps({"text": text, "number": number}) for number, text in enumerate(TEXTS)]
    (folder / "texts.jsonl").write_text("\n".join(rows))
    rows[11] = "{"
    (folder / "bad.jsonl").write_text("\n".join(rows))
    parquet.write_table(pyarrow.table({"text": TEXTS, "number": [1.5] * len(TEXTS)}), folder / "t.parquet")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Tasks of about so many bytes as a few documents have."""
    monkeypatch.setattr(sharing, "TASK_SECONDS", 300 / 100e6)
    always_tasks(monkeypatch)
    monkeypatch.chdir(folder)


def line_of(name: str, to: Path, given: dict[str, str], more: str) -> list[str]:
    """The words of a command line; given: what stands in place of what is good."""
    to.mkdir()
    good = {"in": "q.npy" if name in OF_FINGERPRINTS else "texts.jsonl", "store": "s.fpstore"}
    return f"{ASKED[name]} {more}".format(**good | given, to=to).split()


def expect_one_line(outcome: Any, told: str) -> None:
    assert outcome.status in (1, 2, 3, 4)
    assert outcome.out == ""
    assert outcome.err.startswith("fpstore: ")
    assert outcome.err.count("\n") == 1
    assert told in outcome.err


@pytest.mark.parametrize(("fault", "name"), MEETINGS, ids=[f"{name}: {fault}" for fault, name in MEETINGS])
def test_bad_input_is_one_line_with_workers_as_without(
    command: Command, folder: Path, tmp_path: Path, fault: str, name: str
) -> None:
    _, given, more, told = FAULTS[fault]
    if fault == "fingerprints by another recipe":
        command("export", "web.fpstore", "said.parquet", "--force")
    one = command(*line_of(name, tmp_path / "a", given, more))
    two = command(*line_of(name, tmp_path / "b", given, more), "--workers", "2")
    expect_one_line(two, told)
    said = [re.sub(rf"{tmp_path}/[ab]/", "", outcome.err) for outcome in (one, two)]
    assert (one.status, said[0]) == (two.status, said[1])


@pytest.mark.parametrize("engine", ["ray", "spark"])
@pytest.mark.parametrize("name", ASKED)
def test_an_engine_that_is_not_installed_is_one_line_that_says_what_to_install(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, engine: str
) -> None:
    package, shown = {"ray": ("ray", "Ray"), "spark": ("pyspark", "PySpark")}[engine]
    monkeypatch.setitem(sys.modules, package, None)
    outcome = command(*line_of(name, tmp_path / "a", {}, f"--engine {engine} --folder {tmp_path / 'f'}"))
    assert outcome == (1, "", f"fpstore: engine {engine} needs {shown}: pip install 'fpstore[{engine}]'\n")
    assert not [path for path in (tmp_path / "a").iterdir() if path.suffix != ".job"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--engine dask", "'dask'"),
        ("--workers 0", "--workers"),
        ("--address 10.0.0.1", "--address goes with --engine ray or spark"),
        ("--rank 0", "--rank goes with --world-size"),
        ("--rank 0 --world-size 2", "--world-size goes with --folder"),
        ("--rank 2 --world-size 2 --folder {folder}", "rank: found 2, expected 0 to 1, as world_size is 2"),
        ("--rank 0 --world-size 2 --folder {folder} --workers 2", "--workers goes without --rank"),
        ("--folder {somebodys}", "found a file that is no job's, expected an empty folder, or parts of job"),
        ("--folder {store}", "store"),
    ],
)
@pytest.mark.parametrize("name", ASKED)
def test_who_is_to_do_tasks_is_one_line_where_there_is_no_such(
    command: Command, tmp_path: Path, name: str, options: str, told: str
) -> None:
    if name == "build" and "--rank" in options:
        return  # which has no ranks
    (tmp_path / "somebodys").mkdir()
    (tmp_path / "somebodys" / "letter.txt").write_text("mine")
    places = {"folder": tmp_path / "f", "somebodys": tmp_path / "somebodys", "store": "s.fpstore"}
    outcome = command(*line_of(name, tmp_path / "a", {}, options.format(**places)))
    expect_one_line(outcome, told)
    assert [path.name for path in (tmp_path / "somebodys").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(("name", "kind"), [("probe", ProbeTask), ("pairs", PairsTask), ("components", PairsTask)])
def test_a_store_that_changes_under_a_command_is_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: Any
) -> None:
    path = tmp_path / "own.fpstore"
    fpstore.build(path, np.arange(50, dtype=np.uint64)).close()
    do: Callable[..., int] = kind.do

    def change(task: Any) -> int:
        with fpstore.open(path, "w") as store:
            store.add([1 << 50], ids=[999])
        return do(task)

    monkeypatch.setattr(kind, "do", change)
    outcome = command(*line_of(name, tmp_path / "a", {"store": str(path)}, "--workers 2"))
    expect_one_line(outcome, f"{path}: found store ")
    assert "which the job began with; run it again while nobody writes" in outcome.err
    assert outcome.status == 4


@pytest.mark.parametrize("name", OF_CORPORA)
def test_an_input_that_changes_under_a_command_is_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = measuring._texts_of

    def others(every: Any) -> Any:
        """What a task reads that comes before, or after, the change."""
        for texts in real(every):
            yield [str(text).replace("seven", "sieben") for text in texts]

    monkeypatch.setattr(measuring, "_texts_of", others)
    outcome = command(*line_of(name, tmp_path / "a", {}, f"--workers 2 --folder {tmp_path / 'f'}"))
    told = "texts.jsonl: found other documents than those that a task has measured, expected the same"
    assert told in outcome.err
    assert outcome.err.splitlines()[-1].startswith("fpstore: ")
    assert (outcome.status, outcome.out) == (1, "")
