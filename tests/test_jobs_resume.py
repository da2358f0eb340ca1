"""A job that was interrupted: it goes on with the same command, and says what stands in its way."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import fingerprints, interrupt, lines_of, write_jsonl

import fpstore
from fpstore import ledger
from fpstore.disk import Folder
from fpstore.inputs import blocks
from fpstore.jobs import Inputs, JobError, cluster, components, corpus, dedup, document_pairs, journal, runs
from fpstore.jobs.claims import Claim
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.files import AppendFile, write_json
from fpstore.jobs.journal import Job
from fpstore.jobs.kept import Kept
from fpstore.jobs.settings import Settings
from fpstore.jobs.spool import Spool
from fpstore.jobs.standing import Workplace
from fpstore.notes import FIRST_NUMBER, JOURNAL, subfolder
from fpstore.text import DEFAULT_RECIPE, Recipe, load_recipe
from fpstore.text.confirm import Confirm
from fpstore.text.packed import Packed

TOOLS = Path(__file__).parent.parent / "tools"
DOCUMENTS = ["a b c d e", "x", "a b c d e", "", "y z", "!", "x", "y z", "", "last one of them"] * 2


def spool_at(path: Path, **options: Any) -> Spool:
    with Folder.open(path.parent) as parent:
        return Spool(subfolder(parent, path.name), **options)


def append_file(path: Path, length: int) -> AppendFile:
    with Folder.open(path.parent) as folder:
        return AppendFile(folder, path.name, length)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corpus, runs):
        monkeypatch.setattr(module, "BATCH_DOCUMENTS", 3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)


def without_run(summary: Any) -> tuple[Any, ...]:
    return summary.documents, summary.results, summary.skipped, summary.refused


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3, 6, 7])
@pytest.mark.parametrize("name", ["first", "longest", "store", "cluster", "centers", "components", "pairs"])
def test_an_interrupted_job_goes_on_to_the_same_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, name: str, after: int
) -> None:
    works: dict[str, Callable[[Path], Any]] = {
        "first": lambda out: dedup([source], out, dropped=f"{out}.tsv", confirm="cosine>=0.9"),
        "longest": lambda out: dedup([source], out, dropped=f"{out}.tsv", keep="longest", confirm="jaccard>=0.9"),
        "store": lambda out: dedup([source], out, dropped=f"{out}.tsv", store=f"{out}.fpstore"),
        "cluster": lambda out: cluster([source], out),
        "centers": lambda out: cluster([source], out, update_center=True),
        "components": lambda out: components([source], out),
        "pairs": lambda out: document_pairs([source], out),
    }
    work = works[name]
    expected = work(tmp_path / "whole")
    interrupt(monkeypatch, lambda: work(tmp_path / "out"), after)
    assert (tmp_path / "out.job").is_dir()
    assert not (tmp_path / "out").exists()
    assert without_run(work(tmp_path / "out")) == without_run(expected)
    for suffix in ("", ".tsv"):
        assert (tmp_path / f"whole{suffix}").exists() == (tmp_path / f"out{suffix}").exists()
        if (tmp_path / f"whole{suffix}").exists():
            assert (tmp_path / f"whole{suffix}").read_bytes() == (tmp_path / f"out{suffix}").read_bytes()
    assert not (tmp_path / "out.job").exists()


@pytest.mark.parametrize("begun", [1, 2, 4, 5])
@pytest.mark.parametrize("options", [{}, {"store": "s"}, {"recipe": "minhash-128"}], ids=["own", "store", "signatures"])
def test_what_was_done_since_the_last_commit_is_done_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any], begun: int
) -> None:
    """Several batches go into one commit."""
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 100)
    monkeypatch.setattr(corpus, "BATCH_BYTES", 20)
    monkeypatch.setattr(corpus, "COMMIT_BYTES", 50)
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 100)
    monkeypatch.setattr("fpstore.jobs.signed.MOST_HELD", 2)
    source = write_jsonl(tmp_path / "in.jsonl", [f"one more of {i % 11}" for i in range(30)])
    recipe = load_recipe(options.get("recipe", "text-1"))
    written, begun_batches = AppendFile.append_lines, list[int]()

    def run(name: str) -> Any:
        store = tmp_path / f"{name}.fpstore" if "store" in options else None
        return dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", recipe=recipe, store=store)

    def stop(self: AppendFile, *given: Any, **more: Any) -> Any:
        begun_batches.append(0)
        if len(begun_batches) == begun:
            raise KeyboardInterrupt
        return written(self, *given, **more)

    whole = run("whole")
    assert whole.results == 11
    with monkeypatch.context() as patch:
        patch.setattr(AppendFile, "append_lines", stop)
        with pytest.raises(KeyboardInterrupt):
            run("out")
    assert without_run(run("out")) == without_run(whole)
    for suffix in ("", ".tsv"):
        assert (tmp_path / f"whole{suffix}").read_bytes() == (tmp_path / f"out{suffix}").read_bytes()


def test_batches_are_committed_together_by_their_documents_and_their_bytes(
    monkeypatch: pytest.MonkeyPatch, source: Path
) -> None:
    """The last one always is."""
    every = Corpus([source], DEFAULT_RECIPE, 3, 1)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 7)
    told = [(len(batch.names), batch.settles) for batch in every.batches()]
    assert told == ([(3, False)] * 2 + [(3, True)]) * 2 + [(2, True)]
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 100)
    monkeypatch.setattr(corpus, "BATCH_BYTES", 9)
    monkeypatch.setattr(corpus, "COMMIT_BYTES", 20)
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 100)
    found = [(batch.text_bytes, batch.settles) for batch in every.batches()]
    since = 0
    for size, settles in found[:-1]:
        since += size
        assert settles is (since >= 20)
        since = 0 if settles else since
    assert found[-1][1]
    assert [settles for _, settles in found].count(False) >= 3


def test_the_first_batches_are_as_small_as_what_is_read_first_and_none_is_put_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line, source = json.dumps({"text": "a" * 86}) + "\n", tmp_path / "in.jsonl"
    source.write_text(line * 400)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 80 * len(line))
    monkeypatch.setattr(blocks, "LONG_BYTES", 400 * len(line))
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 1000)
    monkeypatch.setattr(corpus, "_ENOUGH_BYTES", 60 * 86)
    every = Corpus([source], DEFAULT_RECIPE, 3, 1)
    monkeypatch.setattr(corpus, "BATCH_BYTES", 80 * 86 + 1)
    monkeypatch.setattr(Packed, "join", lambda _: pytest.fail("some are put together"))
    assert [len(batch.names) for batch in every.batches()] == [10, 20, 40, 80, 80, 80, 80, 10]


def test_finished_input_is_not_worked_on_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    second = write_jsonl(tmp_path / "second.jsonl", ["q q q", "x"])
    interrupt(monkeypatch, lambda: dedup([source, second], tmp_path / "out"), 7)  # 21 documents: one of the second
    opened = []
    documents = fpstore.inputs.documents

    def opening(paths: list[str | Path], **options: Any) -> Any:
        opened.append(paths)
        return documents(paths, **options)

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "documents", opening)
        summary = dedup([source, second], tmp_path / "out")
    assert opened[1:] == [[str(second)]]  # the first call only looks at what there is
    assert summary.documents == 22
    assert summary.text_bytes == len("x")


def test_a_job_goes_on_only_with_the_same_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    interrupt(monkeypatch, lambda: dedup([source], out), 2)
    for options in ({"max_distance": 2}, {"keep": "longest"}, {"dropped": tmp_path / "d"}, {"confirm": "cosine>=0.5"}):
        with pytest.raises(ValueError, match="begin again with --force"):
            dedup([source], out, **options)
    with pytest.raises(ValueError, match="found job 'clusters by leaders'"):
        cluster([source], out)
    # The number of threads changes nothing.
    assert dedup([source], out, threads=2).documents == len(DOCUMENTS)


def test_a_job_does_not_go_on_with_other_inputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "inner").mkdir(parents=True)
    for number in range(5):
        (folder / "inner" / f"{number}.txt").write_text(f"text {number}")
    out = tmp_path / "out"
    interrupt(monkeypatch, lambda: dedup([folder], out), 1)
    (folder / "inner" / "2.txt").write_text("text 22")
    with pytest.raises(JobError, match=r"docs: has changed before the place where the interrupted job goes on"):
        dedup([folder], out)
    assert dedup([folder], out, force=True).documents == 5
    assert len(lines_of(out)) == 5


@pytest.mark.parametrize("in_folder", [False, True])
def test_an_input_of_the_same_size_and_another_time_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_folder: bool
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    source = write_jsonl(folder / "in.jsonl", ["a b", "c d", "e f"])
    second = write_jsonl(tmp_path / "second.jsonl", DOCUMENTS)
    changed = folder if in_folder else source
    given = Inputs([changed, second], format="jsonl" if not in_folder else "auto")
    interrupt(monkeypatch, lambda: dedup(given, tmp_path / "out"), 2)
    source.write_text(source.read_text().replace("c d", "c x"))
    os.utime(source, ns=(0, 0))
    with pytest.raises(JobError, match=f"{changed}: has changed before the place"):
        dedup(given, tmp_path / "out")


def test_bad_lines_of_all_inputs_are_counted_also_after_an_interruption(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = []
    for name, bad in (("one", 2), ("two", 1), ("three", 0)):
        path = write_jsonl(tmp_path / f"{name}.jsonl", [f"{name} {number}" for number in range(4)])
        path.write_text("no JSON\n" * bad + path.read_text())
        sources.append(path)
    given = Inputs(sources, skip_bad=True)
    assert dedup(given, tmp_path / "whole").skipped == {"bad line": 3}
    interrupt(monkeypatch, lambda: dedup(given, tmp_path / "out"), 2)
    assert dedup(given, tmp_path / "out").skipped == {"bad line": 3}


def test_refused_matches_are_counted_also_after_an_interruption(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = Recipe("words", shingle=1)
    alike = [f"a b c dd eee fox dog gnu cat owl {word}" for word in ("x", "y", "z")]
    source = write_jsonl(tmp_path / "in.jsonl", [*alike, "one that is near none of them", "nor is this, at all"])

    def work(out: Path) -> Any:
        return dedup([source], out, max_distance=16, confirm="jaccard>=1", recipe=words)

    expected = work(tmp_path / "whole")
    assert expected.refused >= 3
    interrupt(monkeypatch, lambda: work(tmp_path / "out"), 1)
    assert without_run(work(tmp_path / "out")) == without_run(expected)


def shards(folder: Path) -> Path:
    """A folder of documents in files of two formats, and a hidden one."""
    (folder / "b").mkdir(parents=True)
    write_jsonl(folder / "a.jsonl", DOCUMENTS[:3])
    write_jsonl(folder / "b" / "c.jsonl", DOCUMENTS[3:])
    (folder / "z.txt").write_text("the last of all documents, as a text of its own")
    (folder / ".hidden").touch()
    return folder


def test_a_job_over_a_folder_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = shards(tmp_path / "in")
    whole = dedup([folder], tmp_path / "whole")
    assert whole.documents == len(DOCUMENTS) + 1
    assert whole.skipped == {"hidden file": 1}
    for after in (1, 2, 3):
        out = tmp_path / f"out{after}"
        interrupt(monkeypatch, lambda out=out: dedup([folder], out), after)  # type: ignore[misc]
        assert without_run(dedup([folder], out)) == without_run(whole)
        assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    interrupt(monkeypatch, lambda: dedup([tmp_path / "in*"], tmp_path / "globbed"), 2)
    assert without_run(dedup([tmp_path / "in*"], tmp_path / "globbed")) == without_run(whole)


@pytest.mark.parametrize(
    ("change", "has_changed"),
    [
        (lambda folder: (folder / ".hidden2").write_text("x"), False),
        (lambda folder: (folder / "_SUCCESS").touch(), False),
        (lambda folder: (folder / "z.txt").write_text("x"), False),
        (lambda folder: (folder / "zz.txt").write_text("x"), False),
        (lambda folder: (folder / "A.txt").write_text("x"), True),
        (lambda folder: (folder / "a.jsonl").write_text('{"text": "x"}\n'), True),
        (lambda folder: (folder / "a.jsonl").unlink(), True),
    ],
)
def test_a_folder_has_changed_when_what_was_read_of_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Any, has_changed: bool
) -> None:
    folder = shards(tmp_path / "in")
    interrupt(monkeypatch, lambda: dedup([folder], tmp_path / "out"), 2)
    change(folder)
    if has_changed:
        with pytest.raises(JobError, match="has changed before the place where the interrupted job goes on"):
            dedup([folder], tmp_path / "out")
    else:
        dedup([folder], tmp_path / "out")


def test_a_pipe_is_not_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)

    def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(pipe.write_bytes, source.read_bytes())
            dedup([pipe], tmp_path / "out")

    interrupt(monkeypatch, work, 2)
    with pytest.raises(JobError, match="cannot be read again"):
        dedup([pipe], tmp_path / "out")
    with pytest.raises(ValueError, match="found keep longest, which reads the inputs twice; expected files"):
        dedup([pipe], tmp_path / "other", keep="longest")


@pytest.mark.slow
def test_what_was_read_from_standard_input_cannot_be_read_again(tmp_path: Path, source: Path) -> None:
    code = (
        "import os, signal; from fpstore.jobs import corpus, dedup, Inputs, journal\n"
        "corpus.BATCH_DOCUMENTS = corpus.COMMIT_DOCUMENTS = 3\n"
        "journal.Job.commit_last = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"dedup(Inputs(['-'], format='jsonl'), {str(tmp_path / 'out')!r})"
    )
    with source.open("rb") as lines:
        assert subprocess.run([sys.executable, "-c", code], stdin=lines, check=False).returncode == -signal.SIGKILL
    with pytest.raises(JobError, match="standard input, which cannot be read again"):
        dedup(Inputs(["-"], format="jsonl"), tmp_path / "out")


def test_force_begins_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    out, store = tmp_path / "out", tmp_path / "s.fpstore"
    interrupt(monkeypatch, lambda: dedup([source], out, store=store), 4)
    # What the first attempt had put into the store does not count as seen.
    assert dedup([source], out, store=store, max_distance=2, force=True).results == 6
    assert len(lines_of(out)) == 6


def test_a_job_that_never_ended_is_undone_when_its_folder_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store = tmp_path / "s.fpstore"
    dedup([write_jsonl(tmp_path / "0.jsonl", ["x"])], tmp_path / "0", store=store, confirm=None)
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "out", store=store, confirm=None), 4)
    other = write_jsonl(tmp_path / "other.jsonl", ["y z", "x"])
    with pytest.raises(JobError, match=r"the job .*out\.job is not finished"):
        dedup([other], tmp_path / "2", store=store, confirm=None)
    shutil.rmtree(tmp_path / "out.job")
    with pytest.warns(
        UserWarning, match=r"the job .*out\.job, which did not end and cannot go on, was undone: 5 documents"
    ):
        dedup([other], tmp_path / "2", dropped=tmp_path / "2d", store=store, confirm=None)
    assert lines_of(tmp_path / "2d") == [f"{other}:2\t{tmp_path / '0.jsonl'}:1\t0"]
    with fpstore.open(store) as opened:
        kept = [f"{tmp_path / '0.jsonl'}:1", f"{other}:1"]
        assert sorted(str(row.id) for rows in opened.rows() for row in rows) == kept


def put_out_of_sight(monkeypatch: pytest.MonkeyPatch, source: Path, store: Path, out: Path) -> Path:
    """Interrupt a job into store, and move its folder away; where it is then."""
    interrupt(monkeypatch, lambda: dedup([source], out, store=store), 4)
    return out.with_name(f"{out.name}.job").rename(out.with_name("aside"))


def test_a_store_that_another_job_has_used_since_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = tmp_path / "s.fpstore", tmp_path / "out"
    aside = put_out_of_sight(monkeypatch, source, store, out)
    with pytest.warns(UserWarning, match="which did not end and cannot go on, was undone"):
        dedup([source], tmp_path / "other", store=store)
    aside.rename(tmp_path / "out.job")
    with pytest.raises(JobError, match="used by another job since"):
        dedup([source], out, store=store)


def test_a_store_that_another_job_is_using_now_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    store, out = tmp_path / "s.fpstore", tmp_path / "out"
    aside = put_out_of_sight(monkeypatch, source, store, out)
    with pytest.warns(UserWarning, match="which did not end and cannot go on, was undone"):
        interrupt(monkeypatch, lambda: dedup([source], tmp_path / "other", store=store), 2)
    aside.rename(tmp_path / "out.job")
    with pytest.raises(JobError, match=r"the job .*other\.job is not finished, and only it may write here"):
        dedup([source], out, store=store)
    assert dedup([source], tmp_path / "other", store=store).results == 6


def test_a_child_that_was_forked_meanwhile_has_no_lock_of_a_job(tmp_path: Path) -> None:
    claim, (reading, writing) = Claim(tmp_path / "out"), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        claim.close()  # by which it takes nothing from its parent
        os.write(writing, b"closed")
        signal.pause()
    try:
        os.read(reading, 6)
        with pytest.raises(JobError, match="this process is at this job already"):
            Claim(tmp_path / "out")
        claim.close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)
    kept = Claim(tmp_path / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.pause()
    try:
        kept.close()
        Claim(tmp_path / "out").close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_one_process_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    """Which one it is, this or another, is told; in a child that was forked meanwhile it is another's."""
    with Job([tmp_path / "out"], {}, [], force=False):
        with pytest.raises(JobError, match="this process is at this job already"):
            dedup([source], tmp_path / "out")
        with ThreadPoolExecutor(1) as thread, pytest.raises(JobError, match="this process is at this job already"):
            thread.submit(dedup, [source], tmp_path / "out").result()
        told = in_a_child(lambda: dedup([source], tmp_path / "out"))
        assert told == f"{tmp_path / 'out'}.job: another process is at this job"
    assert not (tmp_path / "out.job").exists()
    assert dedup([source], tmp_path / "out").results == 6


def in_a_child(work: Callable[[], object], *, user: int | None = None) -> str:
    """What an error of it says in a forked child, which is of this user."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            if user is not None:
                os.seteuid(user)
            work()
        except BaseException as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        told = file.read().decode()
    os.waitpid(child, 0)
    return told


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root may")
def test_a_folder_of_a_job_of_another_user_is_told_as_what_it_is(tmp_path: Path, source: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:  # those that pytest made
            folder.chmod(0o755)
    (tmp_path / "out.job").mkdir(mode=0o700)
    told = in_a_child(lambda: dedup([source], tmp_path / "out"), user=65534)
    expected = "it is of a job of user 0, who can go on with it; or name another result"
    assert told == f"[Errno 13] Permission denied: {expected}: '{tmp_path / 'out'}.job'"
    os.chown(tmp_path / "out.job", 65534, -1)
    (tmp_path / "out.job").chmod(0)
    told = in_a_child(lambda: dedup([source], tmp_path / "out"), user=65534)
    assert told == f"[Errno 13] Permission denied: '{tmp_path / 'out'}.job'"


def test_files_that_were_cut_short_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path) -> None:
    interrupt(monkeypatch, lambda: dedup([source], tmp_path / "out"), 2)
    os.truncate(tmp_path / "out.job" / "part", 5)
    with pytest.raises(JobError, match="found 5 bytes, the journal says"):
        dedup([source], tmp_path / "out")


def test_a_spool_of_a_later_version_is_refused(tmp_path: Path) -> None:
    spool_at(tmp_path / "documents", texts=False).close()
    (tmp_path / "documents" / "settings.json").write_bytes(ledger.sealed({"version": 5, "texts": False}))
    with pytest.raises(JobError, match="found version 5, expected 4"):
        spool_at(tmp_path / "documents", texts=False)


def test_a_spool_finds_ids_with_gaps_between_them(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "documents", texts=True)
    assert spool.next_id == 0
    assert not spool.holds(np.array([0], dtype=np.uint64)).any()
    for ids in ([3, 4], [9], [1 << 63]):
        spool.append(ids, np.array(ids, dtype=np.uint64), [f"name {i}" for i in ids], [f"text {i}" for i in ids])
        asked = np.array([0, 3, 4, 5, 9, 1 << 63, (1 << 64) - 1], dtype=np.uint64)
        known = [i for i in (3, 4, 9, 1 << 63) if i <= ids[-1]]
        assert spool.names(asked) == [f"name {i}" if i in known else None for i in asked.tolist()]
        assert spool.texts(asked) == [f"text {i}" if i in known else None for i in asked.tolist()]
        assert spool.next_id == ids[-1] + 1
    spool.close()
    with pytest.raises(JobError, match="the journal says"):
        spool_at(tmp_path / "documents", texts=True, count=5)
    spool = spool_at(tmp_path / "documents", texts=True, count=2)
    assert spool.next_id == 5
    spool.close()


def test_a_text_that_is_lost_is_no_refusal(tmp_path: Path) -> None:
    keys = np.array(fingerprints(["a b"]), dtype=np.uint64)
    spool = spool_at(tmp_path / "documents", texts=True)
    fpstore.build(tmp_path / "s.fpstore", keys, ids=[7]).close()
    with fpstore.open(tmp_path / "s.fpstore", "w") as store:
        kept = Kept(Workplace(store, spool, 8), Settings(DEFAULT_RECIPE, 3), Confirm("jaccard", 0.5))
        with pytest.raises(JobError, match="found no text of document 7"):
            kept.decide_all(keys, ["name"], ["a b"])
    spool.close()


@pytest.mark.parametrize("documents", [DOCUMENTS[:-1], [*DOCUMENTS, "more"]])
def test_inputs_that_change_between_two_readings_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, documents: list[str]
) -> None:
    next_pass = runs.RankedRun._next_pass

    def change(run: runs.RankedRun, name: str) -> None:
        next_pass(run, name)
        write_jsonl(source, documents)

    monkeypatch.setattr(runs.RankedRun, "_next_pass", change)
    with pytest.raises(JobError, match="inputs have changed since they were measured"):
        dedup([source], tmp_path / "out", keep="longest")


def test_an_append_file_is_as_long_as_it_is_opened(tmp_path: Path) -> None:
    file = append_file(tmp_path / "f", 0)
    assert bytes(file.view()) == b""
    file.write(b"12345")
    file.close()
    file = append_file(tmp_path / "f", 3)
    file.write(b"x")
    assert bytes(file.view()) == b"123x"
    file.close()
    append_file(tmp_path / "f", 2).close()
    assert (tmp_path / "f").read_bytes() == b"12"


def test_what_the_journal_tells_of_is_in_the_file_when_it_does(tmp_path: Path) -> None:
    with Job([tmp_path / "out"], {}, [], force=False) as job:
        for count in (1, 2):
            job.files[0].write(b"line\n")
            job.commit({})
            assert (tmp_path / "out.job" / "part").read_bytes() == count * b"line\n"
            journal = json.loads((tmp_path / "out.job" / "journal.json").read_bytes())
            assert journal["lengths"] == [5 * count]


@pytest.mark.slow
def test_ctrl_c_leaves_a_job_that_goes_on(tmp_path: Path) -> None:
    # The journal is there from the first commit on, and much is left to do then.
    count, sooner = 40_000, "from fpstore.jobs import corpus; corpus.BATCH_DOCUMENTS = corpus.COMMIT_DOCUMENTS = 2048"
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"text": "document number {i} of this file"}}\n' for i in range(count)))
    called = f"import sys; {sooner}; from fpstore.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", called, "dedup", str(source), "-o", str(tmp_path / "kept")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    journal = tmp_path / "kept.job" / "journal.json"
    while not journal.exists() and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    left = f"{tmp_path / 'kept.job'}: has what was done; the same command goes on with it, or remove it\n"
    assert (child.returncode, said) == (130, f"{left}fpstore: interrupted\n")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{count} documents" in done.stderr
    assert not (tmp_path / "kept.job").exists()


def test_a_signal_between_the_first_journal_and_its_state_leaves_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def written_and_stopped(*arguments: Any) -> None:
        write_json(*arguments)
        raise KeyboardInterrupt

    def commit_first() -> None:
        with Job([tmp_path / "out"], {}, [], force=False) as job:
            monkeypatch.setattr(journal, "write_json", written_and_stopped)
            job.commit({"documents": 1})

    with pytest.raises(KeyboardInterrupt):
        commit_first()
    monkeypatch.undo()
    with Job([tmp_path / "out"], {}, [], force=False) as job:
        assert job.state == {"documents": 1}


@pytest.mark.slow
def test_no_kill_changes_a_result() -> None:
    command = [sys.executable, str(TOOLS / "check_jobs.py"), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1].split(", ")[1]) == (0, "0 wrong"), done.stdout + done.stderr


# --- What is on the disk ---


class Disk:
    """What a power cut leaves: files as they were when they were synced, names as when their folder was."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._files: dict[int, tuple[int, int]] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self.sync)

    def sync(self, fd: int) -> None:
        self._fsync(fd)
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(fd)}
        else:
            self._files[status.st_ino] = (status.st_size, status.st_mtime_ns)

    def names(self, folder: Path) -> set[str]:
        return set(self._names[folder.stat().st_ino])

    def expect(self, path: Path) -> None:
        """The file at path is there as it is, under its name, in folders that are there."""
        status = path.stat()
        if not path.is_dir() and status.st_size:  # what is empty is made again, as a file of no bytes
            assert self._files.get(status.st_ino) == (status.st_size, status.st_mtime_ns), f"content of {path}"
        assert self._names.get(path.parent.stat().st_ino, {}).get(path.name) == status.st_ino, f"name of {path}"
        if path.parent != self._root:
            self.expect(path.parent)


# What is made anew when a job goes on, what LMDB keeps itself, and locks.
NOT_KEPT = {"store", "votes", "sizes"}


def killed_before_the_first_commit(work: Callable[[], Any]) -> None:
    if (child := os.fork()) == 0:
        Job.commit = Job.commit_behind = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
        with suppress(BaseException):
            work()
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


# Of what is left of a run that was killed nothing may be on the disk yet, but for a store that it made.
@pytest.mark.parametrize(
    ("name", "killed"),
    [
        *((name, False) for name in ("first", "longest", "store", "cluster", "centers", "components", "pairs")),
        *((name, True) for name in ("first", "longest", "cluster", "centers", "components", "pairs")),
    ],
)
def test_what_a_journal_tells_of_is_on_the_disk_when_the_journal_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, name: str, killed: bool
) -> None:
    out, store = tmp_path / "out", tmp_path / "seen.fpstore"
    works: dict[str, Callable[[], Any]] = {
        # By one thread, as another would go on meanwhile.
        "first": lambda: dedup([source], out, dropped=f"{out}.tsv", confirm="cosine>=0.9", threads=1),
        "longest": lambda: dedup([source], out, keep="longest"),
        "store": lambda: dedup([source], out, store=store),
        "cluster": lambda: cluster([source], out),
        "centers": lambda: cluster([source], out, update_center=True),
        "components": lambda: components([source], out),
        "pairs": lambda: document_pairs([source], out),
    }
    if killed:
        killed_before_the_first_commit(works[name])
        assert (tmp_path / "out.job" / "job.json").exists()
    disk = Disk(tmp_path, monkeypatch)
    commit, spooled = Job.commit, store / "jobs"
    commits = 0

    def noted(job: Job, state: dict[str, Any], *beside: Any, **more: Any) -> None:
        nonlocal commits
        commit(job, state, *beside, **more)
        commits += 1
        paths = [path for top in (job.folder, spooled) for path in sorted(top.rglob("*"))]
        paths = [path for path in paths if not NOT_KEPT & {*path.relative_to(tmp_path).parts}]
        assert job.folder / "journal.json" in paths
        for path in [*paths, *(file.path for file in job.files)]:
            disk.expect(path)
        if name == "store":
            with fpstore.open(store) as reader:
                assert len(reader.stats().segments) or reader.stats().pending_count == state["next_id"] % FIRST_NUMBER

    def committed(job: Job, state: dict[str, Any], first: Callable[[], None]) -> None:
        """As it does, but nothing is written meanwhile."""
        first()
        job.commit(state)

    def told(folder: Folder, name: str, record: dict[str, Any]) -> None:
        """What the journal tells of is there by its names before the journal is."""
        if name == JOURNAL:
            claims = sorted(tmp_path.glob("*.job"))
            assert [(path / "owner.json").exists() for path in claims] == [path != Path(folder.path) for path in claims]
            for path in (path for claim in claims for path in claim.rglob("*")):
                if path.name != JOURNAL and not NOT_KEPT & {*path.relative_to(tmp_path).parts}:
                    disk.expect(path)
        write_json(folder, name, record)

    monkeypatch.setattr(Job, "commit", noted)
    monkeypatch.setattr(Job, "commit_behind", committed)
    monkeypatch.setattr(journal, "write_json", told)
    works[name]()
    assert commits > 5
    for path in {out, *tmp_path.glob("out.tsv")}:
        disk.expect(path)
    if name == "store":
        assert disk.names(spooled) == {"index", "names", "settings.json", "texts"}


def test_the_first_result_has_its_name_when_all_others_have_theirs_on_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    (tmp_path / "a").mkdir()
    out, dropped = tmp_path / "out", tmp_path / "a" / "dropped.tsv"
    disk = Disk(tmp_path, monkeypatch)
    publish, removed = Claim.publish, Claim.remove_work

    def named(claim: Claim, *given: Any, **more: Any) -> None:
        if claim.result == out:
            disk.expect(dropped)
        publish(claim, *given, **more)

    def ended(claim: Claim) -> None:
        if out.exists():
            for path in (out, dropped, tmp_path / ".out.done"):
                disk.expect(path)
        removed(claim)

    monkeypatch.setattr(Claim, "publish", named)
    monkeypatch.setattr(Claim, "remove_work", ended)
    with Folder.open(tmp_path) as folder:
        folder.sync()
    dedup([source], out, dropped=dropped)
    assert out.exists()
    assert dropped.exists()


@pytest.mark.parametrize(("suffix", "commits"), [("", 1), (".gz", 2)])
def test_a_short_job_commits_once_unless_its_results_are_packed_in_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str, commits: int
) -> None:
    """To pack takes long; else nothing lies between the commit behind the last batch and that of all."""
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    disk = Disk(tmp_path, monkeypatch)
    commit, states = Job.commit, list[dict[str, Any]]()

    def noted(job: Job, state: dict[str, Any], *beside: Any, **more: Any) -> None:
        states.append(state)
        commit(job, state, *beside, **more)
        for path in job.folder.rglob("*"):
            if not NOT_KEPT & {*path.relative_to(tmp_path).parts}:
                disk.expect(path)

    monkeypatch.setattr(Job, "commit", noted)
    assert dedup([source], tmp_path / f"out.jsonl{suffix}").documents == len(DOCUMENTS)
    assert len(states) == commits
    assert [state["tally"]["documents"] for state in states] == [len(DOCUMENTS)] * commits


def test_the_spool_names_no_document_whose_name_is_not_on_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    synced: list[str] = []
    sync = AppendFile.sync

    def noted(file: AppendFile) -> None:
        synced.append(file.path.name)
        sync(file)

    monkeypatch.setattr(AppendFile, "sync", noted)
    spool = spool_at(tmp_path / "spool", texts=True)
    spool.append([1], np.array([5], dtype=np.uint64), ["name"], ["text"])
    spool.sync()
    spool.sync()
    spool.close()
    assert synced == ["settings.json", *2 * ["names", "texts", "index"]]


def test_the_id_of_a_document_that_was_removed_is_not_given_again(tmp_path: Path) -> None:
    store = tmp_path / "seen.fpstore"
    fpstore.create(store, recipe=DEFAULT_RECIPE).close()
    first = write_jsonl(tmp_path / "first.jsonl", ["a b c d e", "one that goes again"])
    dedup([first], tmp_path / "one", store=store)
    with fpstore.open(store, "w") as opened:
        opened.remove(ids=[1])
    second = write_jsonl(tmp_path / "second.jsonl", ["one that comes later", "one that comes later"])
    dedup([second], tmp_path / "two", dropped=tmp_path / "dropped", store=store)
    with fpstore.open(store) as opened:
        assert sorted(row.id or 0 for rows in opened.rows() for row in rows) == [0, 2]
    (line,) = (tmp_path / "dropped").read_text().splitlines()
    assert line.split("\t")[:2] == [f"{second}:2", f"{second}:1"]


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    for number in ("7", -1, 2**64 + 1, None):
        record = {"version": 4, "texts": False, "store": None, "next_id": number}
        (tmp_path / "settings.json").write_bytes(ledger.sealed(record))
        with pytest.raises(JobError, match=r"found next_id .*, expected a number"):
            Spool(Folder.open(tmp_path), texts=False)


def test_a_standing_store_that_is_empty_may_get_texts_later(tmp_path: Path) -> None:
    store, empty = tmp_path / "seen.fpstore", write_jsonl(tmp_path / "in.jsonl", [])
    dedup([empty], tmp_path / "one", store=store, confirm=None)
    assert dedup([empty], tmp_path / "two", store=store, confirm="cosine>=0.9").documents == 0
    first = write_jsonl(tmp_path / "first.jsonl", ["a b c d e"])
    for result, results in (("three", 1), ("four", 0)):
        assert dedup([first], tmp_path / result, store=store, confirm="cosine>=0.9").results == results
