"""Jobs whose documents others measure: the very results of one process, whatever becomes of the tasks."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_tasks import DEATHS, PROCESSES, DyingMeasure, SlowMeasure
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import always_tasks, interrupt, texts, write_jsonl
from test_workers import wait_for

import fpstore
from fpstore import nursery
from fpstore.cluster import local
from fpstore.cluster.made import (
    MAGIC,
    PAGES,
    TEXTS,
    Made,
    MadePart,
    MadeWriter,
    made_of,
    marks_of,
    marks_of_pages,
    shown_in,
)
from fpstore.cluster.measuring import MeasureTask
from fpstore.cluster.parts import Maker, write_footer
from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.inputs import BadInput, documents
from fpstore.inputs.portions import portions_of, read_portion
from fpstore.jobs import Inputs, cluster, components, corpus, dedup, document_pairs, helping, runs, sharing
from fpstore.jobs.corpus import Corpus
from fpstore.text import DEFAULT_RECIPE, load_recipe
from fpstore.text.packed import Passed, packed
from fpstore.text.shared import DAMAGED, EMPTY, FRAME, NO_PAGE, Page, Pages, Shown
from fpstore.threads import Background
from fpstore.types import Array
from fpstore.workers import Workers

RECIPES = {"1-bit": DEFAULT_RECIPE} | {name: load_recipe(name) for name in ("simhash-1", "minhash-128", "zh")}
ONE = "<html><body><p>a b c d {}</p></body></html>"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of about so many bytes as a few documents have; of HTML, and of Chinese, one each."""
    monkeypatch.setattr(sharing, "TASK_SECONDS", 120 / 100e6)
    always_tasks(monkeypatch)
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 5)


Work = Callable[..., Any]
WORKS: dict[str, Work] = {
    "first": lambda inputs, out, **how: dedup(inputs, out, dropped=f"{out}.tsv", **how),
    "longest": lambda inputs, out, **how: dedup(inputs, out, dropped=f"{out}.tsv", keep="longest", **how),
    "unconfirmed": lambda inputs, out, **how: dedup(inputs, out, dropped=f"{out}.tsv", confirm=None, **how),
    "tag": lambda inputs, out, **how: dedup(inputs, out, tag=True, **how),
    "cluster": lambda inputs, out, **how: cluster(inputs, out, topics=f"{out}.tsv", **how),
    "components": lambda inputs, out, **how: components(inputs, out, annotate=True, **how),
    "pairs": document_pairs,
}


def results_of(work: Work, inputs: Any, folder: Path, **how: Any) -> tuple[Any, ...]:
    """All files that a job leaves, by name, and what it counted."""
    folder.mkdir()
    summary = work(inputs, folder / "out", **how)
    found = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}
    return found, replace(summary, seconds=0.0)


def expect_same(work: Work, inputs: Any, folder: Path, **how: Any) -> tuple[Any, ...]:
    """What one process leaves, which others do not change."""
    expected = results_of(work, inputs, folder / "one", threads=1, **how)
    assert results_of(work, inputs, folder / "two", workers=2, **how) == expected
    return expected


# --- The results of one process ---

objects = texts.map(lambda text: json.dumps({"text": text}))
lines = st.lists(st.one_of(objects, st.just("{"), st.just("")), max_size=12)


@settings(max_examples=12)
@given(
    st.lists(lines, min_size=1, max_size=4),
    st.sampled_from(sorted(WORKS)),
    st.sampled_from(["1-bit", "simhash-1", "minhash-128"]),
    st.integers(1, 300),
)
def test_others_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[str]], name: str, by: str, seconds: int
) -> None:
    folder = tmp_path_factory.mktemp("shared")
    paths = [folder / f"{number}.jsonl" for number in range(len(shards))]
    for path, own in zip(paths, shards, strict=True):
        path.write_text("".join(f"{line}\n" for line in own))
    if not any(line.startswith('{"') for own in shards for line in own):
        paths[0].write_text('{"text": "a"}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "TASK_SECONDS", seconds / 100e6)
        expect_same(WORKS[name], Inputs(paths, skip_bad=True), folder, recipe=RECIPES[by])


def pages(count: int) -> list[str]:
    """Pages, of which some are equal, one shows nothing, and one is damaged."""
    made = [ONE.format(number % 7) for number in range(count)]
    return [*made, "<html></html>", "<p>\ufffd\x00 e f g h", "no page at all but a text of some words"]


@pytest.mark.parametrize("name", ["first", "longest", "cluster"])
@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "csv", "parquet", "folder", "mixed"])
def test_pages_of_every_form_show_the_same(tmp_path: Path, form: str, name: str) -> None:
    every = pages(20)
    source = tmp_path / f"in.{form}"
    how: dict[str, Any] = {"html": True, "text_column": "page", "id_column": "name"}
    named = [{"name": f"n{number % 21}", "page": page} for number, page in enumerate(every)]
    if form.startswith("jsonl"):
        data = "".join(json.dumps(row) + "\n" for row in named).encode()
        source.write_bytes(gzip.compress(data) if form.endswith("gz") else data)
    elif form == "csv":
        import csv

        with source.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["name", "page"])
            writer.writeheader()
            writer.writerows(named)
    elif form == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(named), source)
    else:
        how = {}
        for number, page in enumerate(every):
            path = source / str(number % 3) / f"{number}.{'html' if form == 'folder' or number % 2 else 'txt'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(page.encode() + b"\xff" * (number == 4))
    # Another file, as a whole too, so that there is something to share.
    other = write_jsonl(tmp_path / "other.jsonl", ["a b c d 1", "x y z"])
    if how:
        other.write_text("".join(json.dumps({"name": str(i), "page": page}) + "\n" for i, page in enumerate(every[:3])))
    expect_same(WORKS[name], Inputs([source, other], skip_bad=True, **how), tmp_path)


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_chinese_and_half_characters_are_the_same(tmp_path: Path, keep: str) -> None:
    own = ["他来到了网易杭研大厦", "他来到了网易杭研大厦了", "小明硕士毕业于中国科学院计算所", "\ud800 half", "", "!"]
    source = write_jsonl(tmp_path / "in.jsonl", own * 3)
    expect_same(dedup, [source], tmp_path, recipe=RECIPES["zh"], keep=keep)


def test_documents_that_a_result_cannot_hold_are_passed_over_alike(tmp_path: Path) -> None:
    own = [f"a b c {i % 5} d" + (" \ud800" if i % 4 == 1 else "") for i in range(30)]
    source = write_jsonl(tmp_path / "in.jsonl", own)

    def work(inputs: Any, out: Path, **how: Any) -> Any:
        return dedup(inputs, out.with_suffix(".csv"), **how)

    # Of pages, which come one by one and are held together.
    found = expect_same(work, Inputs([source], skip_bad=True, html=True), tmp_path)
    assert found[1].skipped == {"bad row": 8}


def test_a_standing_store_gets_the_same(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [f"a b c {i % 9} d e f" for i in range(40)])

    def work(inputs: Any, out: Path, **how: Any) -> Any:
        summary = dedup(inputs, out, store=out.with_name("s.fpstore"), **how)
        with fpstore.open(out.with_name("s.fpstore")) as store:
            rows = store.probe_many([0], max_distance=64).to_arrow().to_pylist()
        out.with_name("rows").write_text(str(sorted(rows, key=str)))
        shutil.rmtree(out.with_name("s.fpstore"))
        return summary

    expect_same(work, [source], tmp_path)


def test_rows_and_standard_input_are_measured_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": f"a b {i % 4} c"} for i in range(9)]
    source = write_jsonl(tmp_path / "in.jsonl", [f"a b {i % 5} c" for i in range(30)])
    expect_same(WORKS["first"], [rows, source, rows], tmp_path)


def test_one_portion_is_shared_out_piece_by_piece_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "Background", None)
    monkeypatch.setattr(sharing, "TASK_SECONDS", 1.0)
    expect_same(WORKS["first"], [write_jsonl(tmp_path / "in.jsonl", ["a b c", "d e f"])], tmp_path)


def test_nobody_is_asked_where_one_worker_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "engine_named", None)
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c", "d e f"] * 20)
    assert dedup([source], tmp_path / "out", workers=1).results == 2


def deciding(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each job decides by."""
    found: list[int] = []
    made: Callable[..., Any] = vars(runs)["kept_of"]

    def kept_of(workplace: Any, settings: Any, confirm: Any, threads: int, comparing: int) -> Any:
        found.append(threads)
        return made(workplace, settings, confirm, threads, comparing)

    monkeypatch.setattr(runs, "kept_of", kept_of)
    return found


def test_who_decides_has_the_processors_that_workers_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, found = some_source(tmp_path), deciding(monkeypatch)
    for workers, threads in ((2, 5), (5, 2), (2, 1)):
        dedup([source], tmp_path / f"{workers} {threads}", workers=workers, threads=threads)
    assert found == [3, 1, 1]
    dedup([source], tmp_path / "alone", threads=5)
    monkeypatch.setattr(sharing, "TASK_SECONDS", 1.0)  # one portion, which nobody measures beside this process
    dedup([source], tmp_path / "one", workers=2, threads=5)
    assert found[3:] == [5, 5]


def test_who_decides_has_all_processors_where_workers_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(local.Local):
        is_here = False

    monkeypatch.setattr(sharing, "engine_named", lambda name, address, workers: Elsewhere(address, workers))
    source, found = some_source(tmp_path), deciding(monkeypatch)
    dedup([source], tmp_path / "out", engine="ray", workers=2, threads=5)
    assert found == [5]


@pytest.fixture
def as_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works is chosen as it is for users; no tasks can be done."""
    monkeypatch.setattr(sharing, "FEW_WORKERS", corpus.FEW_WORKERS)
    monkeypatch.setattr(sharing, "WORTH_SECONDS", 2.5)
    monkeypatch.setattr(sharing, "Background", None)


@pytest.mark.parametrize("kind", ["pages", "zh", "1-bit"])
@pytest.mark.parametrize("workers", [2, corpus.FEW_WORKERS + 1])
def test_few_workers_and_small_work_get_no_tasks_and_write_the_same(
    tmp_path: Path, as_users: None, kind: str, workers: int
) -> None:
    held = [ONE.format(i % 7) for i in range(40)] if kind == "pages" else [f"天气 {i % 7} 好 a b" for i in range(40)]
    inputs = Inputs([write_jsonl(tmp_path / "in.jsonl", held)], html=kind == "pages")
    how = {} if kind == "pages" else {"recipe": RECIPES[kind]}
    expected = results_of(WORKS["first"], inputs, tmp_path / "one", threads=1, **how)
    assert results_of(WORKS["first"], inputs, tmp_path / "two", threads=1, workers=workers, **how) == expected


@pytest.mark.parametrize(
    ("workers", "count", "html", "is_worth"),
    [
        (corpus.FEW_WORKERS + 1, 30, True, True),
        (corpus.FEW_WORKERS, 30, True, False),
        (corpus.FEW_WORKERS + 1, 5, True, False),
        (corpus.FEW_WORKERS + 1, 600, False, False),  # threads of one process share that as well
    ],
)
def test_many_workers_get_tasks_of_what_threads_do_not_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, count: int, html: bool, is_worth: bool
) -> None:
    monkeypatch.setattr(sharing, "FEW_WORKERS", corpus.FEW_WORKERS)
    monkeypatch.setattr(sharing, "WORTH_SECONDS", 10 * 200 / 10e6)  # of ten pages
    path = write_jsonl(tmp_path / "in.jsonl", [ONE.format("x" * 200) for _ in range(count)])
    read = corpus.Corpus(Inputs([path], html=html), DEFAULT_RECIPE, 3, 1)
    tasks = sharing._Tasks(read, "dedup", {}, keeps=False, durable=False)
    with local.Local(None, workers) as engine:
        assert tasks.are_worth_it(engine) is is_worth
    another: Any = SimpleNamespace(workers=2, is_here=True)  # that the caller has asked for
    assert tasks.are_worth_it(another)


@pytest.mark.parametrize("long_bytes", [0, 1 << 40])
def test_workers_of_long_work_begin_at_once_and_the_job_helps_until_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_users: None, long_bytes: int
) -> None:
    made: list[tuple[Any, ...]] = []

    class Watched(Workers):
        def __init__(self, *given: Any, **named: Any) -> None:
            made.append((*given, named["helps"]))
            super().__init__(*given, **named)

        def bring(self, *given: Any) -> None:
            made.append(("brought",))
            super().bring(*given)

        def begin(self, *given: Any, **named: Any) -> Any:
            made.append(("begun",))
            return super().begin(*given, **named)

    monkeypatch.setattr(helping, "Workers", Watched)
    monkeypatch.setattr(helping, "LONG_BYTES", long_bytes)
    source = write_jsonl(tmp_path / "in.jsonl", [ONE.format(i % 7) for i in range(40)])
    expect_same(WORKS["first"], Inputs([source], html=True), tmp_path)
    is_long = long_bytes == 0
    # They import what they need before the first page is read.
    last = max(at for at, what in enumerate(made) if len(what) > 1)
    assert made[last] == (2, 0.0 if is_long else None, 3, is_long)
    assert made[last + 1] == ("brought" if is_long else "begun",)
    made.clear()
    dedup([source], tmp_path / "plain", threads=2)  # of which each of two threads does its own
    assert made[-1] == (1, None, 3, False)


@pytest.mark.parametrize("html", [False, True])
def test_workers_begun_for_nothing_end_with_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_users: None, html: bool
) -> None:
    made: list[Workers] = []

    class Watched(Workers):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(helping, "Workers", Watched)
    monkeypatch.setattr(helping, "LONG_BYTES", 0)
    source = write_jsonl(tmp_path / "in.jsonl", [ONE.format(1)])
    read = corpus.Corpus(Inputs([source], html=html), DEFAULT_RECIPE, 3, 2)
    with read.help_begun():
        assert [len(each._workers) for each in made] == [2] * html
        pids = [worker.pid for each in made for worker in each._workers]
    assert [each._nursery for each in made] == [None] * html
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_a_process_that_is_killed_beside_who_reads_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_users: None
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [ONE.format(i % 7) for i in range(40)])
    expected = results_of(WORKS["first"], Inputs([source], html=True), tmp_path / "one", threads=1)
    asked = nursery.Worker.ask
    killed: list[int] = []

    def ask(self: nursery.Worker, work: Any, item: Any) -> Any:
        if not killed:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return asked(self, work, item)

    monkeypatch.setattr(nursery.Worker, "ask", ask)
    monkeypatch.setattr("fpstore.workers.HELP_AFTER_SECONDS", 0.0)
    assert results_of(WORKS["first"], Inputs([source], html=True), tmp_path / "two", workers=2) == expected
    assert killed


# --- Portions ---


@given(
    st.lists(st.one_of(objects, st.just(""), st.just("[1]"), st.just(' {"text": "b"}')), max_size=20),
    st.integers(1, 200),
    st.booleans(),
)
def test_portions_have_the_documents_of_the_whole_in_order(
    tmp_path_factory: pytest.TempPathFactory, held: list[str], size: int, ends: bool
) -> None:
    path = tmp_path_factory.mktemp("portions") / "in.jsonl"
    path.write_text("\n".join(held) + ("\n" if ends else ""))
    whole = documents([path], skip_bad=True, is_part=True)
    cut = list(portions_of(whole, 0, size))
    expected = [text for _, text in whole]
    found = [read_portion(portion, DEFAULT_RECIPE, lambda pages: lambda: Shown.join([])) for portion in cut]
    assert [text for each in found for _, text in each] == expected
    stretches = [portion.within for portion in cut if portion.within is not None]
    assert not stretches or (stretches[0][0], stretches[-1][1]) == (0, path.stat().st_size)
    assert all(one[1] == other[0] for one, other in pairwise(stretches))


@pytest.mark.parametrize("marked", [False, True])
def test_what_is_no_plain_text_is_not_cut(tmp_path: Path, marked: bool) -> None:
    plain = '{"text": "a"}\n' * 9
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xff\xfe" + plain.encode("utf-16-le") if marked else gzip.compress(plain.encode()))
    assert [portion.within for portion in portions_of(documents([path]), 0, 10)] == [None]
    path.write_text("\ufeff" + plain)
    assert len(list(portions_of(documents([path]), 0, 10))) == 9


def test_a_stream_has_no_portions(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.jsonl")
    with pytest.raises(ValueError, match=r"in\.jsonl: found a stream, expected a file, which others can read"):
        list(portions_of(documents([tmp_path / "in.jsonl"]), 0, 10))


def test_small_files_are_read_together(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("a" * 40)
    cut = list(portions_of(documents([tmp_path]), 0, 100))
    assert [len(portion.files) for portion in cut] == [2] * 5
    assert [Path(source.path).name for portion in cut for source in portion.files] == [f"{i}.txt" for i in range(10)]


# --- What stands in the way ---


def some_source(folder: Path, count: int = 60) -> Path:
    return write_jsonl(folder / "in.jsonl", [f"a b {i % 17} c d {i % 5}" for i in range(count)])


def test_a_bad_line_is_told_of_as_by_one_process_and_passed_over_later(tmp_path: Path) -> None:
    source = some_source(tmp_path)
    held = source.read_text().splitlines()
    held[40] = "{"
    source.write_text("\n".join(held))
    told = []
    for name, workers in (("one", None), ("two", 2)):
        with pytest.raises(BadInput, match=r"in\.jsonl, line 41: found") as raised:
            dedup([source], tmp_path / name, workers=workers)
        state = json.loads((tmp_path / f"{name}.job" / "journal.json").read_text())["state"]
        del state["store"]  # a number of its own
        told.append((str(raised.value), state))
    assert told[0] == told[1]
    assert told[0][1]["place"][1] == 40
    for name, workers in (("one", None), ("two", 3)):
        dedup(Inputs([source], skip_bad=True), tmp_path / name, workers=workers)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("name", ["first", "longest", "cluster", "components", "pairs"])
@pytest.mark.parametrize("after", [1, 4, 9])
def test_an_interrupted_job_goes_on_with_others_and_other_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    source = some_source(tmp_path)
    expected = results_of(WORKS[name], [source], tmp_path / "one")[0]
    (tmp_path / "two").mkdir()
    out = tmp_path / "two" / "out"
    interrupt(monkeypatch, lambda: WORKS[name]([source], out, workers=2), after)
    WORKS[name]([source], out, workers=5)
    assert {path.name: path.read_bytes() for path in out.parent.iterdir() if path.name[0] != "."} == expected
    assert not (out.parent / "out.job").exists()


def test_what_was_handed_over_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_source(tmp_path)
    out = tmp_path / "out"
    seen = []

    class Watched(local.Local):
        def __call__(self, tasks: Sequence[Any], seconds: float, done: Any = None, leash: Any = None) -> None:
            seen.append(len(tasks))
            super().__call__(tasks, seconds, done, leash)

    monkeypatch.setattr(sharing, "engine_named", lambda name, address, workers: Watched(address, workers))
    interrupt(monkeypatch, lambda: dedup([source], out, workers=2), 12)
    (made,) = (tmp_path / "out.job" / "work").glob("made-*")
    assert len(list(made.glob("*.part"))) == seen[0]
    (made / "00003.part").unlink()
    (made / "00003.part.0123456789abcdef.new").write_text("half")
    # As a power cut leaves it, as nobody waited for the disk.
    for number, change in ((1, lambda data: data[:-9]), (4, lambda data: b""), (5, lambda data: bytes(9) + data[9:])):
        part = made / f"{number:05d}.part"
        part.write_bytes(change(part.read_bytes()))
    dedup([source], out, workers=2)
    assert seen[1:] == [4]


def test_what_was_made_of_other_inputs_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = some_source(tmp_path), tmp_path / "later.jsonl"
    write_jsonl(second, ["x y z 1", "x y z 2"] * 9)
    inputs = [first, second]
    interrupt(monkeypatch, lambda: dedup(inputs, tmp_path / "out", workers=2), 2)
    write_jsonl(second, ["p q r s", "x y z 2 t"] * 9)
    interrupt(monkeypatch, lambda: dedup(inputs, tmp_path / "out", workers=2), 2)
    assert len(list((tmp_path / "out.job" / "work").glob("made-*"))) == 1
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "own").touch()
    (tmp_path / "out.job" / "work" / "made-link").symlink_to(tmp_path / "elsewhere")
    dedup(inputs, tmp_path / "out", workers=2)
    assert os.listdir(tmp_path / "elsewhere") == ["own"]
    dedup(inputs, tmp_path / "one")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()


class Changing(local.Local):
    """Does all tasks, and then changes what they read: `change`."""

    change: Callable[[], object]

    def __call__(self, tasks: Sequence[Any], seconds: float, done: Any = None, leash: Any = None) -> None:
        super().__call__(tasks, seconds, done)
        type(self).change()


def changing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    class Own(Changing):
        pass

    Own.change = staticmethod(change)

    def done(work: Callable[[], None]) -> Background[None]:
        begun = Background(work)
        begun.wait()
        return begun

    monkeypatch.setattr(sharing, "Background", done)
    monkeypatch.setattr(sharing, "engine_named", lambda name, address, workers: Own(address, workers))


@pytest.mark.parametrize("html", [False, True])
def test_an_input_that_changes_meanwhile_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, html: bool
) -> None:
    source = some_source(tmp_path)
    data = source.read_text()
    lines = data.splitlines(keepends=True)
    for changed in (
        data.replace("a b 16", "a b 61"),
        data + '{"id": 1, "text": "one more"}\n',
        "".join(lines[:-1]),
        "".join(lines[: len(lines) // 2]),
        "".join(lines[1:]),
        "",
    ):
        source.write_text(data)
        changing(monkeypatch, partial(source.write_text, changed))
        with pytest.raises(JobError, match=r"in\.jsonl: found other documents than those that a task has measured"):
            dedup(Inputs([source], html=html), tmp_path / "out", workers=2, force=True)


@pytest.mark.parametrize("count", [0, 1, 59])
@pytest.mark.parametrize("name", WORKS)
def test_an_input_of_which_a_part_goes_meanwhile_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    first, second = write_jsonl(tmp_path / "first.jsonl", ["a", "b", "a"]), some_source(tmp_path)
    lines = second.read_text().splitlines(keepends=True)
    changing(monkeypatch, lambda: second.write_text("".join(lines[:count])) and None)
    with pytest.raises(JobError, match=r"in\.jsonl: found other documents than those that a task has measured"):
        WORKS[name]([first, second], tmp_path / "out", workers=2)


def test_a_part_that_goes_or_is_damaged_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_source(tmp_path)

    def part(number: int) -> Path:
        return sorted((tmp_path / "out.job" / "work").glob("made-*/*.part"))[number]

    def damage(how: Callable[[bytes], bytes]) -> None:
        part(1).write_bytes(how(part(1).read_bytes()))

    changing(monkeypatch, lambda: part(2).unlink())
    with pytest.raises(JobError, match=r"task 2, of .*in\.jsonl from byte \d+ on: found nothing that it made"):
        dedup([source], tmp_path / "out", workers=2)
    ways: list[Callable[[bytes], bytes]] = [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:3] + bytes([data[3] ^ 1]) + data[4:],
    ]
    for way in ways:
        changing(monkeypatch, partial(damage, way))
        with pytest.raises(JobError, match=r"00001\.part: .*remove the file, and its task makes it anew"):
            dedup([source], tmp_path / "out", workers=2, force=True)


def test_a_task_of_another_version_or_folder_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = some_source(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sharing, "MeasureTask", lambda maker, version, *rest: MeasureTask(maker, "0.0.1", *rest))
        told = rf"^task 0, of {source} from byte 0 on: found fpstore {fpstore.__version__}, expected 0\.0\.1, as at the"
        with pytest.raises(JobError, match=told):
            dedup([source], tmp_path / "out", workers=2)
    # Nothing was made yet, and the same command goes on.
    dedup([source], tmp_path / "out", workers=2)


def test_who_does_the_tasks_is_checked_before_anything_is_left(tmp_path: Path) -> None:
    source = some_source(tmp_path)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"workers": 0}, "^workers: found 0, expected 1 or more"),
        ({"engine": "slurm"}, "^engine: found 'slurm', expected one of local, ray, spark"),
        ({"workers": 2, "address": "there"}, "^address: found there, expected none"),
    ]
    for how, told in cases:
        with pytest.raises(ValueError, match=told):
            dedup([source], tmp_path / "out", **how)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]
    with pytest.raises(TypeError, match=r"^workers: found 'two', a str, expected an integer"):
        dedup([source], tmp_path / "out", workers="two")  # type: ignore[arg-type]


# --- What is handed over ---


def written(folder: Path, write: Callable[[MadeWriter], None]) -> MadePart:
    maker = Maker("job", 7)
    with (folder / maker.name).open("wb") as file:
        writer = MadeWriter(file, maker)
        write(writer)
        writer.end()
    with Folder.open(folder) as home:
        return MadePart.open(home, maker)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    texts, flags = ["a \ud800", "found é, expected a page", ""], [FRAME, NO_PAGE, EMPTY | DAMAGED]
    shown = Shown(Passed.pack(text.encode("utf-8", "surrogatepass") for text in texts), np.array(flags, dtype=np.uint8))
    given: list[Page] = [("<p>", None), (b"\xff", "latin-1"), ("", None)]
    own = ["a b c", "d e f g", ""]
    measured, kept = DEFAULT_RECIPE.measure_and_keep(own)

    def write(writer: MadeWriter) -> None:
        writer.pages(given, shown)
        writer.texts(own, measured, kept)
        writer.texts(own[:1], DEFAULT_RECIPE.measure_many(own[:1]), None)

    part = written(tmp_path, write)
    (of_pages,) = part.blocks(PAGES)
    assert of_pages[0].tolist() == marks_of_pages(given).tolist()
    for which in (slice(0, 3), slice(1, 2)):
        found = shown_in(of_pages, which)
        assert (list(found.texts), found.flags.tolist()) == (texts[which], flags[which])
    of_texts, unkept = part.blocks(TEXTS)
    part.close()
    assert of_texts[0].tolist() == marks_of(packed(own)).tolist()
    made = made_of(of_texts, slice(0, 3))
    for name in measured._fields:
        one, other = getattr(made.measured, name), getattr(measured, name)
        assert (one.tolist(), one.dtype) == (other.tolist(), other.dtype)
    assert made_of(unkept, slice(0, 1)).kept(are_features=False) is None
    both = Made.join([made[:1], made[1:]])
    taken = both.take(np.array([0, 2]))
    for few, indexes in ((made, [0, 1, 2]), (both, [0, 1, 2]), (taken, [0, 2])):
        kept_of = few.kept(are_features=False)
        assert kept_of is not None
        assert len(kept_of) == len(indexes)
        sets = DEFAULT_RECIPE.features_of(kept_of.hashes, kept_of.offsets[:-1], np.diff(kept_of.offsets))
        for place, index in enumerate(indexes):
            assert sets[place].hashes.tolist() == DEFAULT_RECIPE.features(own[index]).hashes.tolist()


def test_pages_differ_by_markup_kind_and_charset() -> None:
    pages: list[Page] = [("a", None), (b"a", None), (b"a", "x"), ("a", "x"), ("b", None)]
    marks = marks_of_pages(pages).tolist()
    assert len(set(marks)) == len(pages)
    # Packed or not, since which lines are read one by one depends on where a reader's blocks end.
    assert marks_of_pages(Pages.pack([b"b", b"a"])).tolist() == [marks[4], marks[0]]


SHAPES: list[list[list[int]]] = [
    [[1], [2], [1], [0]],
    [[-1], [-1], [-1], [17]],
    [[1, 1], [1], [1], [0]],
    [[9], [9], [9], [0]],
]
FOOTERS: list[Any] = [
    {"job": "job", "task": 7, "blocks": [["texts", 0, [["<u8", [1]]]]]},
    {"job": "job", "task": 7, "blocks": [["more", 0, [["<u8", [1]]]]]},
    {"job": "job", "task": 7},
    [],
]
for shapes in SHAPES:
    described = [list(each) for each in zip(("<u8", "|u1", "<i8", "|u1"), shapes, strict=True)]
    FOOTERS.append({"job": "job", "task": 7, "blocks": [["pages", 0, described]]})


@pytest.mark.parametrize("footer", FOOTERS)
def test_a_footer_that_is_no_task_s_is_refused(tmp_path: Path, footer: Any) -> None:
    def write(writer: MadeWriter) -> None:
        write_footer(writer._file, footer, MAGIC)
        vars(writer)["end"] = int  # that is all

    with pytest.raises(JobError, match=r"00007\.part: the footer: found"):
        written(tmp_path, write)


def hostile(kind: str, number: int, changed: Any) -> list[Any]:
    """The columns of a block of two values, of which one column is other."""
    columns: list[Any] = {
        TEXTS: [*np.zeros((2, 2), np.uint64), *np.zeros((4, 2)), np.array([1, 2]), np.zeros(3, np.uint64)],
        PAGES: [np.zeros(2), np.zeros(2), np.array([1, 2]), np.frombuffer("aé".encode(), np.uint8)],
    }[kind]
    columns[number] = np.array(changed)
    return columns


@pytest.mark.parametrize(
    ("kind", "number", "changed"),
    [
        (TEXTS, 3, [0, 2]),
        (TEXTS, 6, [-1, 4]),
        (TEXTS, 6, [1, 1]),
        (TEXTS, 6, [1, 3]),
        (TEXTS, 6, [3, 1 << 62]),
        (PAGES, 1, [0, 16]),
        (PAGES, 2, [2, 1]),
        (PAGES, 2, [-1, 4]),
        (PAGES, 2, [1 << 62, 3]),
        (PAGES, 2, [1, 1]),
        (PAGES, 3, [0xFF, 65, 65]),
    ],
)
def test_values_that_no_task_makes_are_refused_whatever_their_checksum(
    tmp_path: Path, kind: str, number: int, changed: list[int]
) -> None:
    types = {TEXTS: ("<u8", "<u8", "<u4", "|u1", "<u4", "<f8", "<i8", "<u8"), PAGES: ("<u8", "|u1", "<i8", "|u1")}[kind]

    def columns_of(columns: list[Any]) -> list[Array]:
        cast = [np.asarray(column).astype(given) for column, given in zip(columns, types, strict=True)]
        return [column.view(np.bool_) if kind == TEXTS and at == 3 else column for at, column in enumerate(cast)]

    def write(writer: MadeWriter) -> None:
        own = [column.dtype.str for column in columns_of(hostile(kind, 0, [0, 0]))]
        writer._block(kind, columns_of(hostile(kind, 0, [0, 0])), own)
        writer._block(kind, columns_of(hostile(kind, number, changed)), own)

    with closing(written(tmp_path, write)) as part:
        blocks = part.blocks(kind)
        next(blocks)
        with pytest.raises(JobError, match=r"00007\.part: a block at \d+: found values that are none, expected"):
            next(blocks)


def test_a_part_of_another_task_is_refused(tmp_path: Path) -> None:
    written(tmp_path, lambda writer: None).close()
    told = "found what task 7 of job 'job' made; expected task 7 of job other"
    with Folder.open(tmp_path) as home, pytest.raises(JobError, match=told):
        MadePart.open(home, Maker("other", 7))


def test_a_task_done_twice_leaves_the_same(tmp_path: Path) -> None:
    source = some_source(tmp_path)
    corpus_of = Corpus([source], DEFAULT_RECIPE, 6, 1)
    (first, *_) = corpus_of.portions(0, 0, 300)
    task = MeasureTask(Maker("job", 0), fpstore.__version__, tmp_path, first, DEFAULT_RECIPE, keeps=True, durable=True)
    assert task.do() > 0
    before = (tmp_path / "00000.part").read_bytes()
    task.do()
    assert (tmp_path / "00000.part").read_bytes() == before
    assert str(task) == f"task 0, of {source} from byte 0 on"


# --- Processes ---


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that are worth a process."""
    monkeypatch.setattr(local, "START_AFTER_SECONDS", -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["1-bit", "minhash-128"])
def test_processes_change_nothing(tmp_path: Path, long: None, by: str) -> None:
    expect_same(WORKS["first"], [some_source(tmp_path)], tmp_path, recipe=RECIPES[by])


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [local.TRIES - 1, 99])
def test_a_worker_that_is_killed_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: None, deaths: int
) -> None:
    source = some_source(tmp_path)
    dedup([source], tmp_path / "one")
    monkeypatch.setattr(sharing, "MeasureTask", DyingMeasure)
    (tmp_path / DEATHS).write_text(str(deaths))
    monkeypatch.setenv(DEATHS, str(tmp_path / DEATHS))
    if deaths > local.TRIES:
        with pytest.raises(JobError, match=rf"^task 1, of {source} from byte \d+ on: tried 3 times: worker process"):
            dedup([source], tmp_path / "two", workers=2)
        monkeypatch.undo()
    dedup([source], tmp_path / "two", workers=2)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


ENDED = """
import sys, time
from pathlib import Path
from fpstore.cluster import local
from fpstore.jobs import corpus, dedup, sharing
corpus.BATCH_DOCUMENTS, corpus.COMMIT_DOCUMENTS = 5, 1
local.START_AFTER_SECONDS = -1.0
sharing.TASK_SECONDS, sharing.FEW_WORKERS, sharing.WORTH_SECONDS = 120 / 100e6, 0, -1.0
sys.path.insert(0, {tests!r})
from engine_tasks import SlowMeasure
sharing.MeasureTask = SlowMeasure
dedup([{source!r}], {out!r}, workers=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whoever_ends_the_job_ends_the_processes_and_leaves_what_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    source, out = some_source(tmp_path), tmp_path / "out"
    code = ENDED.format(tests=str(Path(__file__).parent), source=str(source), out=str(out))
    work = tmp_path / "out.job" / "work"
    processes = tmp_path / "processes"
    processes.mkdir()
    given = {**os.environ, PROCESSES: str(processes)}
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, env=given) as caller:
        while len(list(work.glob("made-*/*.part"))) < 6:
            assert caller.poll() is None
            time.sleep(0.01)
        caller.send_signal(how)
        _, told = caller.communicate(timeout=60)
    assert caller.returncode == -how, told
    assert wait_for([int(path.name) for path in processes.iterdir()]) == []
    dedup([source], out, workers=2)
    dedup([source], tmp_path / "one")
    assert out.read_bytes() == (tmp_path / "one").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == [
        "in.jsonl",
        "one",
        "out",
        "processes",
    ]


class Late(local.Local):
    """That is under way a while after it was called."""

    def __call__(self, tasks: Sequence[Any], seconds: float, done: Any = None, leash: Any = None) -> None:
        time.sleep(0.3)
        super().__call__(tasks, seconds, done, leash)


@pytest.mark.slow
def test_a_job_that_ends_before_its_workers_have_begun_does_not_wait_for_all_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [f"a b c {number}" for number in range(400)])
    (tmp_path / "processes").mkdir()
    monkeypatch.setenv(PROCESSES, str(tmp_path / "processes"))
    monkeypatch.setattr(local, "START_AFTER_SECONDS", -1.0)
    monkeypatch.setattr(sharing, "MeasureTask", SlowMeasure)
    monkeypatch.setattr(sharing, "engine_named", lambda name, address, workers: Late(address, workers))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus.Corpus, "begun", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dedup([source], tmp_path / "out", workers=2, folder=tmp_path / "f")
    assert len(list((tmp_path / "f").glob("*.part"))) < 20  # of some hundred
