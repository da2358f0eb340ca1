"""Work that processes share: the same answers in the same order, one clear error, and nobody left behind."""

import gzip
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rjieba
import zstandard
from outcome import Command

from fpstore import workers as module
from fpstore.awaited import Leash
from fpstore.inputs import BadInput, read, records
from fpstore.jobs import Inputs, cluster, dedup, document_pairs
from fpstore.jobs import corpus as jobs_corpus
from fpstore.nursery import Worker
from fpstore.text import recipes, shared, tokens
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
def test_workers_begin_what_their_leash_reaches(two: Workers) -> None:
    leash = Leash(3)
    begun = two.begin(doubled, range(8), leash)
    deadline = time.monotonic() + 20
    turns = begun._turns[:]
    while not all(turn.ended.is_set() for turn in turns[:3]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [turn.ended.is_set() for turn in turns] == [True] * 3 + [False] * 5
    leash.let_go()
    assert begun.results() == [2 * number for number in range(8)]


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

    def ask_both() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:  # one of the two is gone for good; the other may be the faster one
            two.map(doubled, range(20))

    with pytest.raises(ChildProcessError, match=told):
        ask_both()
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
    two.map(process_of, range(8))
    theirs = {worker.pid for worker in two._workers}
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


@pytest.mark.slow
def test_what_is_begun_is_done_before_anybody_asks_for_it(two: Workers) -> None:
    begun = two.begin(process_of, range(4))
    assert two.map(doubled, [5]) == [10]  # others go on meanwhile
    end = time.monotonic() + 20
    while not all(turn.ended.is_set() for turn in begun._turns) and time.monotonic() < end:
        time.sleep(0.001)
    two.close()
    assert os.getpid() not in begun.results()


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"start_after": 1e-9}, {"start_after": 0.0, "helps": True}])
def test_who_asks_works_until_the_first_worker_answers(how: dict[str, Any]) -> None:
    with Workers(2, **how) as workers:
        found = workers.map(process_once_slept, [0.02] * 200)
        assert found.count(os.getpid()) > 3  # a worker has to import this module first
        assert 1 < len(set(found)) <= 3
        assert os.getpid() not in workers.map(process_once_slept, [0.0] * 20)


def process_once_slept(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.slow
def test_a_worker_that_has_yet_to_import_is_not_waited_for() -> None:
    with Workers(2, start_after=1e-9) as workers:
        workers.begin(doubled, [], ready=partial(time.sleep, SLEEP_SECONDS))
        assert workers.map(doubled, [1]) == [2]
        assert workers.map(doubled, [2], ready=partial(time.sleep, SLEEP_SECONDS)) == [4]
        nursery, each = workers._nursery, workers._workers
        assert nursery is not None
    assert len(each) == 2
    assert nursery._process.returncode == -signal.SIGKILL
    assert [worker._told for worker in each] == ["found that it never began"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_begun_after_a_failure(tmp_path: Path, count: int) -> None:
    with Workers(count, start_after=0) as workers, pytest.raises(ValueError, match="found no path"):
        workers.map(left_a_mark, [*(str(tmp_path / str(number)) for number in range(5)), "", *[str(tmp_path)] * 5])
    marks = len(list(tmp_path.iterdir()))
    assert 5 <= marks <= 6 if count == 2 else marks == 5


def left_a_mark(path: str) -> None:
    if not path:
        raise ValueError("found no path, expected one")
    marked = Path(path) / "after" if Path(path).is_dir() else Path(path)
    time.sleep(0.2 * Path(path).is_dir())
    marked.touch()


@pytest.mark.slow
def test_without_threads_to_give_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        done = True

        def __init__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(module, "Background", Refused)
    with Workers(2, start_after=0) as workers:
        assert workers.map(process_of, [1, 2]) == [os.getpid()] * 2


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
                f"import sys; sys.path[:] = {sys.path!r}; from fpstore.nursery import serve; serve(0, 1)",
            ],
            input=request[:size],
            capture_output=True,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b""), size


def left_with_an_error(each: list[Worker]) -> None:
    with Workers(2, start_after=0) as workers:
        workers.map(process_of, [1, 2])
        each += workers._workers
        begun = workers.begin(sleeping, [0, 0])
        while not all(turn.begun.locked() for turn in begun._turns):
            time.sleep(0.001)
        raise KeyError


@pytest.mark.slow
def test_who_leaves_with_an_error_waits_for_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDING_SECONDS", 60.0)
    each: list[Worker] = []
    began = time.monotonic()
    with pytest.raises(KeyError):
        left_with_an_error(each)
    assert [worker._told for worker in each] == ["found its end by signal 9"] * 2
    assert time.monotonic() - began < 30


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


def added(word: str) -> list[bool]:
    rjieba.add_word(word, 10**9, "n")
    return [word in tokens._jieba()(word), tokens._jieba() == rjieba.cut]


@pytest.mark.slow
def test_a_worker_builds_no_second_dictionary_and_others_have_one_of_their_own(two: Workers) -> None:
    word = "\u9fa5\u9fa4\u9fa3"  # which no text has
    assert added(word) == [False, False]
    assert two.map(added, [word]) == [[True, True]]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["main", "main-or-all", "all"])
def test_pages_are_read_there_as_here(two: Workers, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(shared, "PAGES_AT_ONCE", 60)
    pages: list[shared.Page] = [(f"<html><body><p>Some text {i}</p>", None) for i in range(9)]
    pages += [(b"\xff\xfe", None), ("caf\xe9 au lait".encode("latin-1"), "latin-1"), ("<p></p>", None), ("", None)]
    pages += [(bytes(range(256)) * 9, None), (b"<p>" + b"word " * 400 + b"\xff", "utf-8"), ("\ud800 half", None)]
    with Workers(1) as alone:
        expected = shared.shown_of(pages, what, alone)()
    found = shared.shown_of(pages, what, two)()
    assert (list(found.texts), found.flags.tolist()) == (list(expected.texts), expected.flags.tolist())
    assert {0, shared.NO_PAGE, shared.EMPTY, shared.DAMAGED} <= {*expected.flags.tolist()}
    assert len(shared.shown_of([], what, two)()) == 0
    packed = shared.Pages.pack(str(markup).encode() for markup, _ in pages[:9])
    found = shared.shown_of(packed[2:8], what, two)()
    assert list(found.texts) == list(expected.texts)[2:8]


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
    monkeypatch.setattr(module, "HELP_AFTER_SECONDS", 0)
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
    ask = Worker.ask

    def counted(worker: Worker, work: Callable[[Any], Any], item: Any) -> Any:
        asked.append(work)
        return ask(worker, work, item)

    monkeypatch.setattr(Worker, "ask", counted)
    return asked


@pytest.mark.slow
def test_a_job_whose_worker_is_killed_says_so_and_goes_on_later(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELP_AFTER_SECONDS", 0)
    source, kept = str(corpus(tmp_path)), str(tmp_path / "kept.jsonl")
    ask = Worker.ask

    def killed(worker: Worker, work: Callable[[Any], Any], item: Any) -> Any:
        worker.kill()
        return ask(worker, work, item)

    monkeypatch.setattr(Worker, "ask", killed)
    given = ["dedup", source, "--html", "--skip-bad", "-o", kept, "--threads", "2"]
    done = command(*given)
    assert done.status == 1
    assert re.fullmatch(r"fpstore: worker process \d+: found its end by signal 9, expected an answer\n", done.err)
    monkeypatch.undo()
    assert command(*given).status == 0
    assert len(Path(kept).read_bytes().splitlines()) > 40


# --- What is read ahead ---


def pages_in(folder: Path, kind: str, lines: list[bytes]) -> Path:
    """The same documents in a file or folder of a kind."""
    if kind == "jsonl":
        (folder / "in.jsonl").write_bytes(b"\n".join(lines))
        return folder / "in.jsonl"
    if kind in ("gz", "zst"):
        pack = gzip.compress if kind == "gz" else zstandard.ZstdCompressor().compress
        (folder / f"in.jsonl.{kind}").write_bytes(pack(b"\n".join(lines)))
        return folder / f"in.jsonl.{kind}"
    texts = [record["text"] for line in lines if "text" in (record := json.loads(line))]
    if kind == "parquet":
        pq.write_table(pa.table({"text": texts}), folder / "in.parquet", row_group_size=20)
        return folder / "in.parquet"
    (folder / "in").mkdir()
    for number, text in enumerate(texts):
        (folder / "in" / f"{number:03}.html").write_text(text)
    return folder / "in"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "gz", "zst", "parquet", "folder"])
def test_all_jobs_give_the_same_with_workers_from_every_kind_of_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "HELP_AFTER_SECONDS", 0)
    monkeypatch.setattr(shared, "PAGES_AT_ONCE", 2000)
    monkeypatch.setattr(shared, "TEXTS_AT_ONCE", 2000)
    for reading in (records, jobs_corpus):  # groups of records, and batches, of a few documents
        monkeypatch.setattr(reading, "GROUP_BYTES" if reading is records else "BATCH_BYTES", 3000)
    lines = corpus(tmp_path).read_bytes().split(b"\n")
    path = pages_in(tmp_path, kind, lines)
    column = None if kind == "folder" else "text"
    inputs = Inputs([path], html=kind != "folder", skip_bad=True, text_column=column)
    asked = count_asked(monkeypatch)
    found = []
    for threads in (1, 2, 3):
        folder = tmp_path / str(threads)
        folder.mkdir()
        told = [
            dedup(inputs, folder / "kept.jsonl", dropped=folder / "dropped", recipe=recipes()["zh"], threads=threads),
            cluster(inputs, folder / "clusters", topics=folder / "topics", threads=threads),
            document_pairs(inputs, folder / "pairs", threads=threads),
        ]
        files = [each.read_bytes() for each in sorted(folder.glob("[a-z]*"))]
        found.append((files, [replace(summary, seconds=0.0) for summary in told]))
        assert (asked == []) == (threads == 1)
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert len(found[0][0]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", [b'{"id": "bad"}', b'{"text": "\\ud83d\\ude00 <p>', b"<p>"])
def test_a_bad_line_in_the_middle_is_told_as_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, bad: bytes
) -> None:
    """Though lines behind it were read already, and another of them is bad."""
    monkeypatch.setattr(module, "HELP_AFTER_SECONDS", 0)
    monkeypatch.setattr(records, "GROUP_BYTES", 3000)
    lines = corpus(tmp_path).read_bytes().split(b"\n")
    lines[7] = lines[8]
    lines[40:40] = [bad]
    lines[60:60] = [b"no JSON"]
    path = pages_in(tmp_path, "jsonl", lines)
    with pytest.raises(BadInput, match=rf"{path}, line 41: "):
        dedup(Inputs([path], html=True), tmp_path / "kept.jsonl", threads=threads)


@pytest.mark.slow
def test_a_live_input_is_not_read_ahead(tmp_path: Path) -> None:
    """Who writes to it may wait for an answer before going on."""
    pipe = tmp_path / "pages"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b'{"text": "<p>one page</p>"}\n')
    options: dict[str, Any] = {"format": "jsonl", "text_column": "text", "html": True, "batch": 1, "threads": 2}
    with closing(read([pipe], **options)) as every:
        assert len(next(every).fingerprints) == 1
    os.close(writer)
