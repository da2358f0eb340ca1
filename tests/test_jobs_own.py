"""The fingerprints of a job without a standing store: in memory, in its record, and in a store where they are many."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jobs_model import interrupt, lines_of, write_jsonl

from fpstore import jobs, threads
from fpstore.jobs import corpus, own, standing
from fpstore.jobs.journal import Job
from fpstore.jobs.own import OwnKeys
from fpstore.jobs.runs import FirstRun
from fpstore.query import leaders
from fpstore.text import DEFAULT_RECIPE, load_recipe
from fpstore.text.confirm import Checker
from fpstore.text.deduplication import begin_to_measure_apart

NEAR: dict[str, Any] = {"max_distance": 11}
DOCUMENTS = [f"{i % 9} {i % 4} {i // 12} {i // 9} x{i // 9} a b c d e" for i in range(60)]
# Of these each is near several that are not alike.
DOCUMENTS += [f"document number {i} of this file" for i in range(60)]


def in_a_store(patch: pytest.MonkeyPatch) -> None:
    """As jobs with fingerprints of more bits do it, or within a larger distance."""
    patch.setattr(standing, "fits_memory", lambda settings: False)


@pytest.mark.parametrize("held", [1, 10, 1000])
@pytest.mark.parametrize("confirm", [None, "jaccard>=0.4"])
@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_what_is_decided_does_not_depend_on_where_fingerprints_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, confirm: str | None, held: int
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(leaders, "PIECE_ROWS", 5)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return getattr(jobs, job)([source], tmp_path / name, confirm=confirm, **NEAR)

    with monkeypatch.context() as patch:
        in_a_store(patch)
        whole = run("whole")
    assert 1 < whole.results < len(DOCUMENTS)
    monkeypatch.setattr(own, "MOST_HELD", held)
    spilled = []
    settle = OwnKeys.settle

    def settled(rows: OwnKeys) -> None:
        settle(rows)
        spilled.append(rows.spilled)

    monkeypatch.setattr(OwnKeys, "settle", settled)
    found = run("own")
    assert bool(spilled[-1]) is (held < whole.results)
    assert (found.results, found.refused) == (whole.results, whole.refused)
    assert lines_of(tmp_path / "own") == lines_of(tmp_path / "whole")


@pytest.mark.parametrize("held", [1, 5])
@pytest.mark.parametrize("job", ["dedup", "cluster"])
def test_a_job_of_its_own_goes_on_wherever_its_fingerprints_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, job: str
) -> None:
    """Interrupted behind a commit, and when some have gone to the store of which no commit tells yet."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(own, "MOST_HELD", held)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return getattr(jobs, job)([source], tmp_path / name, confirm="jaccard>=0.4", **NEAR)

    whole = run("whole")
    settle = OwnKeys.settle
    for stops in (1, 2):
        spills = 0

        def spill(rows: OwnKeys, stops: int = stops) -> None:
            nonlocal spills
            before = rows.spilled
            settle(rows)
            spills += rows.spilled > before
            if spills == stops:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(OwnKeys, "settle", spill)
            with pytest.raises(KeyboardInterrupt):
                run(f"stopped-{stops}")
        found = run(f"stopped-{stops}")
        assert (found.results, found.refused) == (whole.results, whole.refused)
        assert lines_of(tmp_path / f"stopped-{stops}") == lines_of(tmp_path / "whole")
    for after in (1, 3):
        interrupt(monkeypatch, partial(run, f"after-{after}"), after)
        run(f"after-{after}")
        assert lines_of(tmp_path / f"after-{after}") == lines_of(tmp_path / "whole")


def test_equal_ones_behind_more_than_are_looked_at_are_found_in_both_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their fingerprints are all alike, as each has one shingle many times and another once."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 5)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(own, "MOST_HELD", 20)
    documents = [f"{'same ' * 12}w{i}" for i in range(80)]
    source = write_jsonl(tmp_path / "in.jsonl", documents + documents)
    one = DEFAULT_RECIPE
    found = jobs.dedup([source], tmp_path / "kept", recipe=one, confirm="jaccard>=1", max_distance=11)
    assert (found.documents, found.results) == (160, 80)


def test_a_job_that_an_earlier_version_began_goes_on_with_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return jobs.dedup([source], tmp_path / name, **NEAR)

    run("whole")
    with monkeypatch.context() as patch:
        in_a_store(patch)
        interrupt(monkeypatch, partial(run, "begun"), 2)
    run("begun")
    assert lines_of(tmp_path / "begun") == lines_of(tmp_path / "whole")


# --- Commits behind what is done ---


class _Failed(Exception):
    """What ends a job in these tests."""


def after_each_write(patch: pytest.MonkeyPatch, seen: Callable[[int], None]) -> None:
    """Have a function called after each write of a batch, with how many there were."""
    told, count = FirstRun._told, 0

    def tell(run: FirstRun, *given: Any) -> Callable[[], None]:
        write = told(run, *given)

        def write_more() -> None:
            nonlocal count
            write()
            count += 1
            seen(count)

        return write_more

    patch.setattr(FirstRun, "_told", tell)


def test_what_is_written_while_a_commit_is_under_way_is_not_told_of_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which waits for the next batch to be written, by one thread, and then is the last that is done."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        return jobs.dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", threads=1, **NEAR)

    run("whole")
    written = threading.Event()
    commit = Job.commit

    def wait(job: Job, *given: Any, **more: Any) -> None:
        assert written.wait(30)
        commit(job, *given, **more)

    def fail(count: int) -> None:
        if count == 2:
            written.set()
            raise _Failed

    with monkeypatch.context() as patch:
        patch.setattr(Job, "commit", wait)
        after_each_write(patch, fail)
        with pytest.raises(_Failed):
            run("begun")
    assert run("begun").documents == len(DOCUMENTS)
    for name in ("{}", "{}.tsv"):
        assert lines_of(tmp_path / name.format("begun")) == lines_of(tmp_path / name.format("whole"))


@pytest.mark.parametrize("standing_store", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_a_write_that_fails_behind_is_told_before_what_comes_later_and_nothing_is_committed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing_store: bool, refused: bool
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def run(name: str) -> Any:
        given = NEAR | ({"store": tmp_path / f"{name}.fpstore"} if standing_store else {})
        return jobs.dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", threads=2, **given)

    run("whole")
    commit, decide, commits = Job.commit, FirstRun._decide, 0

    def noted(job: Job, *given: Any, **more: Any) -> None:
        nonlocal commits
        commit(job, *given, **more)
        commits += 1

    def fail(count: int) -> None:
        if count == 3:
            time.sleep(0.2)
            raise _Failed("the third")

    def decide_few(run: FirstRun, *given: Any, **more: Any) -> Any:
        if run._tally.documents >= 21:
            raise LookupError("the fourth")
        return decide(run, *given, **more)

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Job, "commit", noted)
        patch.setattr(FirstRun, "_decide", decide_few)
        if refused:
            patch.setattr(threads, "start_new_thread", refuse)
        after_each_write(patch, fail)
        with pytest.raises(_Failed, match="the third"):
            run("begun")
    assert commits == 2
    assert run("begun").documents == len(DOCUMENTS)
    for name in ("{}", "{}.tsv"):
        assert lines_of(tmp_path / name.format("begun")) == lines_of(tmp_path / name.format("whole"))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_batch_is_written_by_who_decided_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """By as many threads as the job has, as long as there are batches for them."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 1)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    decided, written, all_begun = list[int](), list[int](), threading.Barrier(count)
    firsts = iter(range(count))
    decide, begin_to_measure = FirstRun._decide, begin_to_measure_apart

    def decide_too(run: FirstRun, *given: Any) -> Any:
        decided.append(threading.get_ident())
        return decide(run, *given)

    def begin(*given: Any, **keeps: Any) -> Callable[[], Any]:
        measure = begin_to_measure(*given, **keeps)

        def measured() -> Any:
            if next(firsts, None) is not None:
                all_begun.wait(30)
            return measure()

        return measured

    monkeypatch.setattr(FirstRun, "_decide", decide_too)
    monkeypatch.setattr("fpstore.jobs.corpus.begin_to_measure_apart", begin)
    after_each_write(monkeypatch, lambda _: written.append(threading.get_ident()))
    jobs.dedup([source], tmp_path / "kept", threads=count, **NEAR)
    assert written == decided
    assert len({*written}) == count


def test_what_was_measured_is_told_of_in_the_order_of_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though some take longer: what the warning says, and the journal, follows from where texts are looked at."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 1)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    begun, seen = list[int](), list[int]()
    see, begin_to_measure = corpus.Corpus.see, begin_to_measure_apart

    def begin(*given: Any, **keeps: Any) -> Callable[[], Any]:
        measure, number = begin_to_measure(*given, **keeps), len(begun)
        begun.append(number)

        def measured() -> Any:
            time.sleep(0.005 if number % 2 == 0 else 0)
            return measure()

        return measured

    def see_too(self: corpus.Corpus, batch: Any, found: Any) -> None:
        seen.append(batch.end.document)
        see(self, batch, found)

    monkeypatch.setattr("fpstore.jobs.corpus.begin_to_measure_apart", begin)
    monkeypatch.setattr(corpus.Corpus, "see", see_too)
    jobs.dedup([source], tmp_path / "kept", threads=2, **NEAR)
    assert seen[: len(DOCUMENTS)] == [*range(1, len(DOCUMENTS) + 1)]


def test_a_standing_store_is_committed_to_before_what_comes_next_is_decided_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    events: list[str] = []
    commit, decide = Job.commit, FirstRun._decide

    def committed(job: Job, *given: Any, **more: Any) -> None:
        time.sleep(0.01)
        commit(job, *given, **more)
        events.append("committed")

    def decided(run: FirstRun, *given: Any) -> Any:
        events.append("decided")
        return decide(run, *given)

    monkeypatch.setattr(Job, "commit", committed)
    monkeypatch.setattr(FirstRun, "_decide", decided)
    jobs.dedup([source], tmp_path / "kept", store=tmp_path / "store.fpstore", threads=2, **NEAR)
    assert events[:-1] == ["decided", "committed"] * (len(DOCUMENTS) // 7 + 1)


def slow_commits(patch: pytest.MonkeyPatch, seconds: float) -> list[str]:
    """What happens to commits, which take a while."""
    events: list[str] = []
    commit, commit_behind = Job.commit, Job.commit_behind

    def slow(job: Job, *given: Any, **more: Any) -> None:
        time.sleep(seconds)
        commit(job, *given, **more)
        events.append("done")

    def begun(job: Job, *given: Any) -> None:
        commit_behind(job, *given)
        events.append("begun")

    patch.setattr(Job, "commit", slow)
    patch.setattr(Job, "commit_behind", begun)
    return events


@pytest.mark.parametrize("failure", [_Failed, KeyboardInterrupt])
def test_a_job_that_fails_ends_when_its_commit_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    events = slow_commits(monkeypatch, 0.4)
    decide = FirstRun._decide

    def fail(run: FirstRun, *given: Any, **more: Any) -> Any:
        if events:
            raise failure
        return decide(run, *given, **more)

    monkeypatch.setattr(FirstRun, "_decide", fail)
    with pytest.raises(failure):
        jobs.dedup([source], tmp_path / "kept", **NEAR)
    # Of two threads one may decide about the second batch while the other begins to commit the first.
    assert (events[0], events[-1]) == ("begun", "done")
    assert events.count("begun") == events.count("done")


@pytest.mark.parametrize(("moments", "goes_on"), [((0.1,), False), ((0.1, 0.3), True), ((0.1, 0.3, 0.5), True)])
def test_a_job_that_is_interrupted_ends_when_nobody_writes_to_it_any_more(
    tmp_path: Path, moments: tuple[float, ...], goes_on: bool
) -> None:
    """In the last wait, and again while what is behind is waited for: its files and its claim go then."""
    written: list[bool] = []
    job = Job([tmp_path / "kept"], {"job": "x"}, [], force=False)

    def write() -> None:
        time.sleep(1)
        job.files[0].write(b"line\n")
        written.append(job.files[0]._fd >= 0)

    def interrupt() -> None:
        began = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)

    def run() -> None:
        with job, job.behind(int):
            job.commit_behind({}, write)
            interrupting.start()
            while goes_on:
                time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        run()
    while interrupting.is_alive():  # which finds nobody who waits, where the job has not
        with suppress(KeyboardInterrupt):
            interrupting.join(0.1)
    assert written == [True]


def test_what_a_commit_raises_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)

    def fail(job: Job, *_: Any, **__: Any) -> None:
        raise _Failed

    monkeypatch.setattr(Job, "commit", fail)
    with pytest.raises(_Failed):
        jobs.dedup([source], tmp_path / "kept", **NEAR)
    assert not (tmp_path / "kept").exists()


def test_fingerprints_go_to_the_store_when_their_commit_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    monkeypatch.setattr(own, "MOST_HELD", 1)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    events = slow_commits(monkeypatch, 0.02)
    settle = OwnKeys.settle

    def settled(rows: OwnKeys) -> None:
        if rows.is_full:
            events.append("settled")
        settle(rows)

    monkeypatch.setattr(OwnKeys, "settle", settled)
    jobs.dedup([source], tmp_path / "kept", **NEAR)
    before = [events[:at] for at, event in enumerate(events) if event == "settled"]
    assert len(before) > 2
    assert all(some.count("begun") == some.count("done") for some in before)


def test_without_a_thread_to_give_a_commit_is_made_when_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    monkeypatch.setattr(threads, "start_new_thread", refuse)
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    assert jobs.dedup([source], tmp_path / "kept", threads=1, **NEAR).documents == len(DOCUMENTS)
    assert not (tmp_path / "kept.job").exists()


# --- Who measures and who compares ---


@pytest.mark.parametrize(
    ("recipe", "threads", "confirm", "keep", "measures", "compares"),
    [
        ("text-1", 2, "jaccard>=0.5", "first", 1, 1),
        ("text-1", 3, "jaccard>=0.5", "first", 1, 3),
        ("text-1", 9, "jaccard>=0.5", "first", 2, 9),
        ("text-1", 2, None, "first", 1, None),
        ("text-1", 2, "jaccard>=0.5", "longest", 2, 2),
        ("minhash-128", 2, "jaccard>=0.5", "first", 1, 1),
        ("text-1", 1, "jaccard>=0.5", "first", 1, 1),
    ],
)
def test_of_two_threads_each_measures_and_compares_a_batch_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    threads: int,
    confirm: str | None,
    keep: str,
    measures: int,
    compares: int | None,
) -> None:
    measuring, comparing = set[int](), set[int]()

    def measured(own: Any, texts: Any, count: int, *others: Any, **keeps: Any) -> Any:
        measuring.add(count)
        return begin_to_measure_apart(own, texts, count, *others, **keeps)

    def checker(check: Any, own: Any, texts: Any, count: int, *rooms: Any) -> Any:
        comparing.add(count)
        return Checker(check, own, texts, count, *rooms)

    monkeypatch.setattr("fpstore.jobs.corpus.begin_to_measure_apart", measured)
    monkeypatch.setattr("fpstore.jobs.kept.Checker", checker)
    source = write_jsonl(tmp_path / "in.jsonl", [f"word{number} of some text" for number in range(20)])
    options: dict[str, Any] = {"recipe": load_recipe(recipe), "confirm": confirm, "keep": keep, "threads": threads}
    jobs.dedup([source], tmp_path / "out.jsonl", **options)
    assert (measuring, comparing) == ({measures}, set() if compares is None else {compares})


def test_rows_are_read_by_their_caller_alone() -> None:
    assert corpus.Corpus([[{"text": "a b"}]], DEFAULT_RECIPE, 6, 2).passing_threads == 1
