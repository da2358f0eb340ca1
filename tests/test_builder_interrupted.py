"""What an interrupted build leaves: the store that was there, or nothing; and who clears up after a killed one."""

# mypy: disable-error-code="attr-defined, return, union-attr"

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform

import fpstore
from fpstore import creation
from fpstore.building import spill
from fpstore.types import Keys

COUNT = 300


def some(count: int = COUNT, seed: int = 1) -> Keys:
    return uniform(count, np.random.default_rng(seed))


def segment_bytes(path: Path) -> bytes:
    (segment,) = (path / "segments").iterdir()
    return segment.read_bytes()


class Boom(Exception):
    pass


def failing(error: Any) -> Iterator[Keys]:
    yield some(50, 3)
    yield some(50, 4)
    raise error


@pytest.mark.parametrize("error", [Boom("x"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_exception_in_the_stream_passes_through_and_nothing_is_left(tmp_path: Path, error: Any) -> None:
    with pytest.raises(type(error)):
        fpstore.build(tmp_path / "s", failing(error))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [Boom("x"), KeyboardInterrupt()])
def test_an_exception_while_replacing_leaves_the_old_store(tmp_path: Path, error: Boom | KeyboardInterrupt) -> None:
    fpstore.build(tmp_path / "s", some()).close()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(type(error)):
        fpstore.build(tmp_path / "s", failing(error), force=True)
    assert sorted(tmp_path.rglob("*")) == before
    with fpstore.open(tmp_path / "s") as store:
        store.verify()
        assert store.count() == COUNT
    fpstore.build(tmp_path / "s", some(seed=2), force=True).close()


def every_phase(path: Path, **options: Any) -> list[str]:
    phases = []
    fpstore.build(path, some(), progress=lambda progress: phases.append(progress.phase), **options).close()
    return list(dict.fromkeys(phases))


@pytest.mark.parametrize("force", [False, True])
def test_an_interruption_in_any_phase_leaves_what_was_there(tmp_path: Path, force: bool) -> None:
    phases = every_phase(tmp_path / "phases", plan="paper-4")
    assert {"reading", "sorting", "ids", "table 1 of 4", "table 4 of 4: sorting", "table 4 of 4"} <= set(phases)
    folder = tmp_path / "here"
    folder.mkdir()
    if force:
        fpstore.build(folder / "s", some(seed=2)).close()
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*.fpseg")}

    for stop_at in phases:

        def progress(progress: fpstore.Progress, stop_at: str = stop_at) -> None:
            if progress.phase == stop_at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fpstore.build(folder / "s", some(), plan="paper-4", progress=progress, force=force)
        assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*.fpseg")} == before
        assert [path.name for path in folder.iterdir()] == (["s"] if force else [])


def test_a_replacement_that_cannot_be_published_leaves_the_old_store_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpstore.build(tmp_path / "s", some()).close()

    def fail(*_args: object, **_kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(creation.Catalog, "publish", fail)
        with pytest.raises(OSError, match="No space left"):
            fpstore.build(tmp_path / "s", some(seed=2), force=True)
    assert [path.name for path in (tmp_path / "s" / "segments").iterdir()] == ["00000001.fpseg"]
    with fpstore.open(tmp_path / "s") as store:
        store.verify()


KILLED = """
import os, signal, sys
import numpy as np
import fpstore

def progress(progress):
    phase, done, total, _ = progress
    if phase == "table 1 of 3":
        os.kill(os.getpid(), signal.SIGKILL)

fpstore.build(sys.argv[1], np.arange(1000, dtype=np.uint64), plan="flips-3:1,0,0", progress=progress, force=True)
"""


def kill_a_build(path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    assert run.returncode == -signal.SIGKILL, run.stderr


def test_a_folder_that_takes_no_store_is_told_by_the_name_of_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(name: str, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(PermissionError) as caught:
        fpstore.build(tmp_path / "s", some())
    assert caught.value.filename == str(tmp_path / "s")


@pytest.mark.slow
def test_what_a_killed_build_left_is_swept_by_the_next(tmp_path: Path) -> None:
    kill_a_build(tmp_path / "s")
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".s.building-")
    fpstore.build(tmp_path / "other", some()).close()
    assert left.exists()
    fpstore.build(tmp_path / "s", some()).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "s"]


@pytest.mark.slow
def test_a_killed_replacement_leaves_the_old_store_and_the_next_sweeps_its_file(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some()).close()
    kill_a_build(tmp_path / "s")
    segments = tmp_path / "s" / "segments"
    assert [path.name[:15] for path in sorted(segments.iterdir())] == ["00000001.fpseg", "00000002.fpseg."]
    with fpstore.open(tmp_path / "s") as store:
        store.verify()
        assert store.count() == COUNT
    with fpstore.build(tmp_path / "s", some(seed=2), force=True) as store:
        store.verify()
        assert [path.name for path in segments.iterdir()] == [store._segments[0].path.name]


LONG_SORT = """
import _thread, hashlib, signal, sys, threading
import numpy as np
import fpstore
from fpstore.building import spill

def long_sort(*columns):
    # Stands for the sort of 10^8 pairs: compiled, without the lock, deaf to signals, for half a minute or so.
    print("sorting", flush=True)
    if len(sys.argv) > 2:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 26)

spill.sort_pairs = long_sort
spill.QUICK_ITEMS = 100
try:
    fpstore.build(sys.argv[1], np.arange(1000, dtype=np.uint64), force=True)
except KeyboardInterrupt:
    # Late where the sort has ended: then no other thread is at work.
    print("interrupted", "at once" if _thread._count() else "late", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
def test_ctrl_c_does_not_wait_for_a_long_sort_and_leaves_what_was_there(tmp_path: Path, force: bool) -> None:
    if force:
        fpstore.build(tmp_path / "s", some()).close()
    before = sorted(tmp_path.rglob("*"))
    command = [sys.executable, "-c", LONG_SORT, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "sorting\n"
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted at once\n"
            assert sorted(tmp_path.rglob("*")) == before
            assert child.wait(5) == 0
        finally:
            child.kill()


@pytest.mark.slow
def test_ctrl_c_is_heard_where_it_does_not_wake_the_waiting_thread(tmp_path: Path) -> None:
    # As when it comes just before the main thread falls asleep; here the sorting thread gets it.
    command = [sys.executable, "-c", LONG_SORT, str(tmp_path / "s"), "to the sorting thread"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "sorting\n"
            assert child.stdout.readline() == "interrupted at once\n"
            assert child.wait(5) == 0
        finally:
            child.kill()


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_an_error_in_a_long_sort_passes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_main_thread: bool
) -> None:
    def fail(*_columns: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(spill, "QUICK_ITEMS", 0)
    monkeypatch.setattr(spill, "sort_pairs", fail)
    if in_main_thread:
        with pytest.raises(MemoryError, match="no room"):
            fpstore.build(tmp_path / "s", some())
    else:
        with ThreadPoolExecutor(1) as pool, pytest.raises(MemoryError, match="no room"):
            pool.submit(fpstore.build, tmp_path / "s", some()).result()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ids", ["row", None])
def test_a_long_sort_gives_the_same_bytes_as_a_quick_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str | None
) -> None:
    fpstore.build(tmp_path / "quick", some(), ids=ids).close()
    monkeypatch.setattr(spill, "QUICK_ITEMS", 0)
    fpstore.build(tmp_path / "long", some(), ids=ids).close()
    assert segment_bytes(tmp_path / "long") == segment_bytes(tmp_path / "quick")


def test_a_build_under_way_is_not_swept_by_another_of_the_same_name(tmp_path: Path) -> None:
    with creation.scratch_store(tmp_path / "s") as (_, first, _):
        with creation.scratch_store(tmp_path / "s") as (_, second, _):
            assert first.path.is_dir()
            assert second.path.is_dir()
        assert first.path.is_dir()
        assert not second.path.exists()
    assert list(tmp_path.iterdir()) == []


def test_only_what_a_build_of_this_name_left_is_swept(tmp_path: Path) -> None:
    others = [tmp_path / name for name in (".x*.building-1", ".y.building-1", "s.building-1", ".s.build")]
    for other in others:
        other.mkdir()
    (tmp_path / ".s.building-file").write_text("mine")
    (tmp_path / ".s.building-link").symlink_to(others[0])
    before = sorted(tmp_path.iterdir())
    (tmp_path / ".s.building-gone").mkdir()
    with fpstore.build(tmp_path / "s", some()):
        assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "s"])
    with fpstore.build(tmp_path / "*", some()):
        assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "s", tmp_path / "*"])


def test_a_build_works_and_sweeps_nothing_where_folders_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _kind: int) -> None:
        raise OSError(9, "Bad file descriptor")

    (tmp_path / ".s.building-old").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(creation.fcntl, "flock", refuse)
        with creation.scratch_store(tmp_path / "s") as (_, folder, _):
            assert folder.path.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [".s.building-old"]


def test_a_store_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> Iterator[None]:
    def stream() -> Iterator[Keys]:
        yield some()
        fpstore.build(tmp_path / "s", some(50, 2)).close()

    with pytest.raises(FileExistsError, match="appeared while a store was made for this place"):
        fpstore.build(tmp_path / "s", stream())
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    with fpstore.open(tmp_path / "s") as store:
        assert store.count() == 50
