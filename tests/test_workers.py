"""Work that processes share: the same answers in the same order, one clear error, and nobody left behind."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command

from fpstore import workers as module
from fpstore.inputs import read
from fpstore.jobs import Inputs, dedup
from fpstore.text import recipes, shared
from fpstore.text.packed import Texts
from fpstore.text.recipe import Recipe
from fpstore.workers import Workers

# Longer than any test may take.
SLEEP_SECONDS = 60


@pytest.fixture
def two() -> Iterator[Workers]:
    with Workers(2, start_after=0) as workers:
        yield workers


def process_of(_: object) -> int:
    return os.getpid()


def doubled(number: int) -> int:
    print("what is printed is no answer")
    if number < 0:
        raise ValueError(f"found {number}, expected more")
    return 2 * number


def ended(code: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL) if code < 0 else os._exit(code)


def never(_: object) -> object:
    return lambda: None  # cannot be pickled


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(gone: list[int]) -> list[int]:
    """Of processes those that are still there after a while."""
    end = time.monotonic() + 20
    while any(map(is_there, gone)) and time.monotonic() < end:
        time.sleep(0.01)
    return [each for each in gone if is_there(each)]


@pytest.mark.slow
def test_answers_are_in_the_order_of_the_items_and_of_others(two: Workers, capfd: pytest.CaptureFixture[str]) -> None:
    assert two.map(doubled, range(9)) == [2 * number for number in range(9)]
    processes = set(two.map(process_of, range(20)))
    assert os.getpid() not in processes
    assert len(processes) <= 2
    with pytest.raises(ValueError, match="found -1, expected more"):
        two.map(doubled, [1, -1])
    assert two.map(doubled, [4]) == [8]  # an error of the work ends nobody
    with pytest.raises(Exception, match="pickle"):
        two.map(never, [1])
    assert two.map(doubled, [5]) == [10]
    two.close()
    assert wait_for([*processes]) == []
    assert two.map(process_of, [1]) == [os.getpid()]
    assert capfd.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "found"), [(-1, "by signal 9"), (3, "with status 3")])
def test_a_worker_that_ends_is_one_clear_error(two: Workers, code: int, found: str) -> None:
    processes = set(two.map(process_of, range(8)))
    told = rf"^worker process \d+: found its end {found}, expected an answer$"
    with pytest.raises(ChildProcessError, match=told):
        two.map(ended, [code])
    with pytest.raises(ChildProcessError, match=told):
        two.map(doubled, range(20))  # one of the two is gone for good
    two.close()
    assert wait_for([*processes]) == []


@pytest.mark.slow
def test_small_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workers(2) as patient, Workers(1, start_after=0) as alone:
        assert set(patient.map(process_of, range(50))) == {os.getpid()} == set(alone.map(process_of, range(50)))
    monkeypatch.setattr(sys, "executable", "")  # of a program that has Python in it
    with Workers(2, start_after=0) as inside:
        assert inside.map(process_of, [1]) == [os.getpid()]


@pytest.mark.slow
def test_without_processes_to_give_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with Workers(2, start_after=0) as workers:
        assert workers.map(process_of, [1, 2]) == [os.getpid()] * 2


@pytest.mark.slow
def test_a_fork_does_its_own_work(two: Workers) -> None:
    theirs = set(two.map(process_of, range(8)))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        is_own = two.map(process_of, [1]) == [os.getpid()]
        two.close()
        os.write(writer, b"1" if is_own else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"
    os.close(reader)
    os.close(writer)
    assert set(two.map(process_of, range(8))) <= theirs  # which the fork has not ended


SLEEPING = """
import os, sys, time
sys.path.insert(0, {folder!r})
from test_workers import process_of
from fpstore.workers import Workers
with Workers(2, start_after=0) as workers:
    print(*set(workers.map(process_of, range(20))), flush=True)
    workers.map(time.sleep, [{seconds}] * 2)
"""


@pytest.mark.slow
def test_who_is_given_half_a_request_ends_without_a_word() -> None:
    request = pickle.dumps((doubled, 2), 5)
    for size in range(len(request)):
        ended = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:] = {sys.path!r}; from fpstore.workers import serve; serve()",
            ],
            input=request[:size],
            capture_output=True,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b""), size


def left_with_an_error(each: list[subprocess.Popen[bytes]]) -> None:
    with Workers(2, start_after=0) as workers:
        workers.map(process_of, [1, 2])
        each += [worker._process for worker in workers._workers]
        threading.Thread(target=suppressed, args=(workers,)).start()
        while not workers._idle.empty():
            time.sleep(0.001)
        raise KeyError


@pytest.mark.slow
def test_who_leaves_with_an_error_waits_for_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDING_SECONDS", 60.0)
    each: list[subprocess.Popen[bytes]] = []
    began = time.monotonic()
    with pytest.raises(KeyError):
        left_with_an_error(each)
    assert [process.returncode for process in each] == [-signal.SIGKILL] * 2
    assert time.monotonic() - began < 30


def suppressed(workers: Workers) -> None:
    with pytest.raises(ChildProcessError):
        workers.map(sleeping, [0, 0])


def sleeping(_: object) -> None:
    time.sleep(SLEEP_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "seconds"), [(signal.SIGINT, 100), (signal.SIGTERM, 1), (signal.SIGKILL, 1)])
def test_nobody_is_left_behind_by_one_who_was_told_to_stop(how: signal.Signals, seconds: int) -> None:
    code = SLEEPING.format(folder=str(Path(__file__).parent), seconds=seconds)
    asker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert asker.stdout is not None
    processes = [int(each) for each in asker.stdout.readline().split()]
    time.sleep(0.2)  # until both sleep
    os.killpg(asker.pid, how)  # as a terminal does, to all of its processes
    try:
        _, told = asker.communicate(timeout=60)
    finally:
        asker.kill()
    assert told.count("Traceback") <= 1
    assert "worker process" not in told
    assert asker.returncode == -how
    assert wait_for(processes) == []  # one whose asker was killed ends with its answer


# --- What is shared ---


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zh", "pypi-simhash", "text-1", "stemmed"])
@pytest.mark.parametrize("packed", [True, False])
def test_texts_are_measured_there_as_here(
    two: Workers, monkeypatch: pytest.MonkeyPatch, name: str, packed: bool
) -> None:
    monkeypatch.setattr(shared, "TEXTS_AT_ONCE", 100)
    recipe = Recipe("stemmed", stemming="english") if name == "stemmed" else recipes()[name]
    texts = ["", "words of one text", "中文分词 和 more", "…"] * 20 + ["long " * 100, "half \ud800" * (not packed)]
    given = Texts.pack(text.encode() for text in texts) if packed else texts
    for some in (given, given[:1], given[:0]):
        expected = recipe.measure_many(some)
        for found, column in zip(shared.measure_many(recipe, some, 2, two), expected, strict=True):
            assert np.asarray(found).tolist() == np.asarray(column).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["main", "main-or-all", "all"])
def test_pages_are_read_there_as_here(two: Workers, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(shared, "PAGES_AT_ONCE", 60)
    pages: list[shared.Page] = [(f"<html><body><p>Some text {i}</p>", None) for i in range(9)]
    pages += [(b"\xff\xfe", None), ("caf\xe9 au lait".encode("latin-1"), "latin-1"), ("<p></p>", None), ("", None)]
    pages += [(bytes(range(256)) * 9, None), (b"<p>" + b"word " * 400 + b"\xff", "utf-8"), ("\ud800 half", None)]
    with Workers(1) as alone:
        expected = [*shared.shown_of(pages, what, alone)]
    assert list(map(repr, shared.shown_of(pages, what, two))) == list(map(repr, expected))
    assert {type(each) for each in expected} == {shared.Shown, ValueError}
    assert [*shared.shown_of([], what, two)] == []


def corpus(folder: Path) -> Path:
    """Pages, of which some are near others, bad or without text."""
    path = folder / "pages.jsonl"
    pages = [f"<p>{' '.join(f'word{i * j % 71}' for j in range(60))}</p>" for i in range(60)]
    pages += [page.replace("word0", "other", 1) for page in pages[::3]] + ["<p></p>", "", "<br>"]
    lines = [json.dumps({"id": f"d{i}", "text": page}) for i, page in enumerate(pages)]
    lines[7] = '{"id": "bad"}'
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [None, "zh"])
def test_jobs_and_builds_give_the_same_with_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str | None
) -> None:
    monkeypatch.setattr(module, "START_AFTER_SECONDS", 0)
    monkeypatch.setattr(shared, "PAGES_AT_ONCE", 2000)
    monkeypatch.setattr(shared, "TEXTS_AT_ONCE", 2000)
    inputs = Inputs([corpus(tmp_path)], html=True, skip_bad=True)
    asked = count_asked(monkeypatch)
    found = []
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        folder.mkdir()
        kept, dropped = folder / "kept.jsonl", folder / "dropped"
        own = None if recipe is None else recipes()[recipe]
        summary = dedup(inputs, kept, dropped=dropped, threads=threads, recipe=own, keep="longest")
        options: dict[str, Any] = {"text_column": "text", "ids": None, "html": True, "skip_bad": True}
        with closing(read([tmp_path / "pages.jsonl"], recipe=own, threads=threads, **options)) as every:
            fingerprints = [batch.fingerprints.tolist() for batch in every]
        told = replace(summary, seconds=0.0)
        found.append((kept.read_bytes(), dropped.read_bytes(), told, fingerprints, dict(every.notes)))
        assert (asked == []) == (threads == 1)
    assert found[0] == found[1]
    assert found[0][2].skipped == {"bad line": 1}


def count_asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    asked: list[object] = []
    ask = module._Worker.ask

    def counted(worker: module._Worker, work: Callable[[Any], Any], item: Any) -> Any:
        asked.append(work)
        return ask(worker, work, item)

    monkeypatch.setattr(module._Worker, "ask", counted)
    return asked


@pytest.mark.slow
def test_a_job_whose_worker_is_killed_says_so_and_goes_on_later(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_AFTER_SECONDS", 0)
    source, kept = str(corpus(tmp_path)), str(tmp_path / "kept.jsonl")
    ask = module._Worker.ask

    def killed(worker: module._Worker, work: Callable[[Any], Any], item: Any) -> Any:
        worker.kill()
        return ask(worker, work, item)

    monkeypatch.setattr(module._Worker, "ask", killed)
    given = ["dedup", source, "--html", "--skip-bad", "-o", kept, "--threads", "2"]
    done = command(*given)
    assert done.status == 1
    assert re.fullmatch(r"fpstore: worker process \d+: found its end by signal 9, expected an answer\n", done.err)
    monkeypatch.undo()
    assert command(*given).status == 0
    assert len(Path(kept).read_bytes().splitlines()) > 40
