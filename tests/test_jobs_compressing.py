"""Results that are compressed while they grow: to the bytes that they would be in the end, and by nobody afterwards."""

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from jobs_model import write_jsonl

from fpstore import threads as threads_module
from fpstore.jobs import claims, corpus, dedup
from fpstore.jobs.claims import Claim
from fpstore.jobs.compressing import Compressing
from fpstore.jobs.files import AppendFile
from fpstore.jobs.forms import Compress
from fpstore.jobs.journal import Job

CHUNK = 1 << 16  # that shutil.copyfileobj asks for
DISTINCT = [f"{number * 7919 % 4001} and {number} of {number % 97} documents " * 3 for number in range(4000)]
TEXTS = [text for number, text in enumerate(DISTINCT) for _ in range(1 + number % 2)]


class _Failed(Exception):
    pass


@pytest.fixture
def claim(tmp_path: Path) -> Claim:
    claim = Claim(tmp_path / "kept.jsonl.zst")
    claim.begin()
    return claim


class Sizes:
    """What compresses in a test: it notes how large each piece is that it is given, and copies it."""

    def __init__(self, out: BinaryIO, seen: list[int]) -> None:
        self._out, self._seen = out, seen

    def __enter__(self) -> "Sizes":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, data: bytes) -> None:
        self._seen.append(len(data))
        self._out.write(data)


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not what() and time.monotonic() < end:
        time.sleep(0.001)
    assert what()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 200)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 900)


def test_pieces_are_as_large_as_in_the_end_however_the_part_grows(claim: Claim) -> None:
    seen: list[int] = []
    part = AppendFile(claim.folder, claims.PART, 0)
    work = Compressing(claim, Compress(lambda out: Sizes(out, seen)), part)
    work.begin()
    data = os.urandom(3 * CHUNK + 777)
    for end in (1, CHUNK - 1):
        part.write(data[part.length : end])
        work.go_on()
    time.sleep(0.02)
    assert seen == []  # as the piece is not whole
    for end in (CHUNK, CHUNK + 5, 3 * CHUNK - 1, len(data)):
        part.write(data[part.length : end])
        work.go_on()
    until(lambda: len(seen) == 3)  # while the last is still to come
    packed = work.finish()
    assert seen[:4] == [CHUNK, CHUNK, CHUNK, 777]
    assert packed.path.read_bytes() == data
    for each in (packed, part):
        each.close()
    claim.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_what_is_compressed_beside_is_what_one_thread_compresses_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    begun: list[Compressing] = []

    class Seen(Compressing):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            begun.append(self)

    monkeypatch.setattr("fpstore.jobs.journal.Compressing", Seen)
    for threads in (1, 2):
        results = [tmp_path / f"{name}-{threads}.jsonl{suffix}" for name in ("kept", "dropped")]
        dedup([source], results[0], dropped=results[1], threads=threads)
        assert len(begun) == 2 * (threads - 1)
    for name in ("kept", "dropped"):
        one, two = ((tmp_path / f"{name}-{threads}.jsonl{suffix}").read_bytes() for threads in (1, 2))
        assert one == two
        assert len(one) > 100


@pytest.mark.usefixtures("small")
def test_without_a_thread_a_result_is_compressed_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    dedup([source], tmp_path / "one.jsonl.zst", threads=1)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads_module, "start_new_thread", refuse)
    dedup([source], tmp_path / "two.jsonl.zst", threads=2)
    assert (tmp_path / "one.jsonl.zst").read_bytes() == (tmp_path / "two.jsonl.zst").read_bytes()


@pytest.mark.usefixtures("small")
def test_what_the_system_refused_for_a_moment_is_done_again_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    dedup([source], tmp_path / "one.jsonl.gz", threads=1)
    call, refused = Compress.__call__, threading.Event()

    def refuse(self: Compress, part: BinaryIO, out: BinaryIO) -> None:
        if not refused.is_set():
            refused.set()
            out.write(part.read(CHUNK))
            raise OSError(errno.ENOSPC, "no room for a moment")
        call(self, part, out)

    monkeypatch.setattr(Compress, "__call__", refuse)
    dedup([source], tmp_path / "kept.jsonl.gz", threads=2)
    assert (tmp_path / "kept.jsonl.gz").read_bytes() == (tmp_path / "one.jsonl.gz").read_bytes()
    monkeypatch.setattr(Compress, "__call__", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "for good")))
    with pytest.raises(OSError, match="for good"):
        dedup([source], tmp_path / "other.jsonl.gz", threads=2)
    assert claims.PACKED not in os.listdir(tmp_path / "other.jsonl.gz.job")  # the part may need its room


@pytest.mark.usefixtures("small")
def test_a_job_that_goes_on_lets_go_of_what_was_being_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, kept = write_jsonl(tmp_path / "in.jsonl", TEXTS), tmp_path / "kept.jsonl.gz"
    call = Compress.__call__
    monkeypatch.setattr(Compress, "__call__", lambda *_: (_ for _ in ()).throw(_Failed))
    with pytest.raises(_Failed):
        dedup([source], kept, threads=1)
    (tmp_path / "kept.jsonl.gz.job" / claims.PACKED).write_bytes(b"half")  # as a kill would leave it
    seen: list[bool] = []

    begin = Job._begin

    def began(self: Job, force: bool) -> None:
        begin(self, force)
        seen.append(claims.PACKED in os.listdir(tmp_path / "kept.jsonl.gz.job"))

    monkeypatch.setattr(Compress, "__call__", call)
    monkeypatch.setattr(Job, "_begin", began)
    dedup([source], kept, threads=1)
    assert seen == [False]


@pytest.mark.usefixtures("small")
def test_what_goes_wrong_beside_ends_the_job_which_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    dedup([source], tmp_path / "whole.jsonl.gz", threads=1)

    def fail(self: Compress, part: BinaryIO, out: BinaryIO) -> None:
        part.read(CHUNK)
        raise _Failed

    with monkeypatch.context() as patch:
        patch.setattr(Compress, "__call__", fail)
        with pytest.raises(_Failed):
            dedup([source], tmp_path / "kept.jsonl.gz", threads=2)
    assert not (tmp_path / "kept.jsonl.gz").exists()
    dedup([source], tmp_path / "kept.jsonl.gz", threads=2)
    assert (tmp_path / "kept.jsonl.gz").read_bytes() == (tmp_path / "whole.jsonl.gz").read_bytes()


@pytest.mark.usefixtures("small")
def test_an_interrupted_job_leaves_nobody_who_compresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    dedup([source], tmp_path / "whole.jsonl.zst", dropped=tmp_path / "whole.tsv.gz", threads=1)
    at_work: list[str] = []
    pack, close = Claim.pack, Compressing.close

    def packed(claim: Claim, work: Any) -> AppendFile:
        at_work.append("begun")
        try:
            return pack(claim, work)
        finally:
            at_work.append("ended")

    def interrupted(*_: object) -> None:
        until(lambda: len(at_work) == 2)
        raise KeyboardInterrupt

    def closed(self: Compressing) -> None:
        close(self)
        raise KeyboardInterrupt  # once more, while the first is being closed

    with monkeypatch.context() as patch:
        patch.setattr(Claim, "pack", packed)
        patch.setattr(Job, "commit_behind", interrupted)
        patch.setattr(Compressing, "close", closed)
        with pytest.raises(KeyboardInterrupt):
            dedup([source], tmp_path / "kept.jsonl.zst", dropped=tmp_path / "dropped.tsv.gz", threads=2)
        assert sorted(at_work) == ["begun"] * 2 + ["ended"] * 2
        assert not list(tmp_path.glob("*.job"))  # as nothing was committed
    dedup([source], tmp_path / "kept.jsonl.zst", dropped=tmp_path / "dropped.tsv.gz", threads=2)
    for own, whole in (("kept.jsonl.zst", "whole.jsonl.zst"), ("dropped.tsv.gz", "whole.tsv.gz")):
        assert (tmp_path / own).read_bytes() == (tmp_path / whole).read_bytes()


@pytest.mark.usefixtures("small")
def test_who_is_interrupted_between_two_that_compress_leaves_neither_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    begun: list[Compressing] = []
    begin, init = Compressing.begin, Job.__init__

    class Interrupted(dict[int, Compressing]):
        def popitem(self) -> tuple[int, Compressing]:
            super().popitem()
            raise KeyboardInterrupt  # as Python hears of one when a call returns

    def began(self: Compressing) -> None:
        begun.append(self)
        begin(self)

    def made(self: Job, *given: Any, **options: Any) -> None:
        init(self, *given, **options)
        self._compressing = Interrupted()

    def fail(*_: object) -> None:
        raise _Failed

    monkeypatch.setattr(Compressing, "begin", began)
    monkeypatch.setattr(Job, "__init__", made)
    monkeypatch.setattr(Job, "commit_behind", fail)
    with pytest.raises(KeyboardInterrupt):
        dedup([source], tmp_path / "kept.jsonl.zst", dropped=tmp_path / "dropped.tsv.gz", threads=2)
    assert len(begun) == 2
    assert all(each._work is not None and each._work.done for each in begun)


def test_who_is_interrupted_while_it_waits_closes_all_the_same(claim: Claim) -> None:
    part = AppendFile(claim.folder, claims.PART, 0)
    is_at_it, going_on = threading.Event(), threading.Event()

    class Slow(Sizes):
        def write(self, data: bytes) -> None:
            is_at_it.set()
            going_on.wait(10)

    work = Compressing(claim, Compress(lambda out: Slow(out, [])), part)
    part.write(os.urandom(CHUNK))
    work.begin()
    until(is_at_it.is_set)  # else it hears that nobody wants it before it begins, and nobody waits

    def interrupt() -> None:
        for _ in range(3):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)  # the last is heard before anybody ends
        going_on.set()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        work.close()
    assert going_on.is_set()  # and so it has waited for who was at it
    interrupting.join()
    part.close()
    claim.close()
