"""The catalog among threads, processes and forks: one writer, any number of readers."""

# mypy: disable-error-code="attr-defined, union-attr"

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
from catalogs import SETTINGS, entry, in_a_fork, published_once, run_python, wait_for

from fpstore.errors import CorruptStore, StoreClosed, StoreLocked
from fpstore.living import environment
from fpstore.living.catalog import Catalog, create_catalog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return published_once(tmp_path)


def test_a_second_writer_is_told_who_the_first_is(folder: Path) -> None:
    with Catalog.open(folder, writable=True), pytest.raises(StoreLocked, match="this process has it open for writing"):
        Catalog.open(folder, writable=True)
    code = "c = Catalog.open(Path(sys.argv[1]), writable=True); print('open', flush=True); time.sleep(60)"
    process = run_python(code, folder)
    assert process.stdout.readline() == "open\n"
    with pytest.raises(StoreLocked, match=f"{folder}: process {process.pid} is writing to this store"):
        Catalog.open(folder, writable=True)
    process.kill()
    process.communicate()
    Catalog.open(folder, writable=True).close()


def test_a_lock_whose_holder_wrote_no_number_is_still_a_lock(folder: Path) -> None:
    code = "c = Catalog.open(Path(sys.argv[1]), writable=True); print('open', flush=True); time.sleep(60)"
    process = run_python(code, folder)
    assert process.stdout.readline() == "open\n"
    os.truncate(folder / "writer.lock", 0)
    with pytest.raises(StoreLocked, match="another process is writing"):
        Catalog.open(folder, writable=True)
    process.kill()
    process.communicate()


def test_a_writer_that_cannot_write_to_its_lock_leaves_it_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    catalog = Catalog.open(folder, writable=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        catalog.close()
    Catalog.open(folder, writable=True).close()


def test_creating_waits_for_nobody(folder: Path) -> None:
    with Catalog.open(folder, writable=True), pytest.raises(StoreLocked, match="this process has it open"):
        create_catalog(folder, SETTINGS)


def test_opening_that_fails_gives_the_lock_back(folder: Path) -> None:
    (folder / "catalog.mdb").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CorruptStore, match="the file's size: found 0"):
            Catalog.open(folder, writable=True)


def test_the_lock_is_given_back_where_the_environment_cannot_be_had(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: object, _name: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(environment, "share", fail)
        with pytest.raises(OSError, match="Too many open files"):
            Catalog.open(folder, writable=True)
    Catalog.open(folder, writable=True).close()


def test_readers_and_the_writer_share_one_environment_in_a_process(folder: Path) -> None:
    with Catalog.open(folder) as first:
        with Catalog.open(folder, writable=True) as writer, Catalog.open(folder) as second:
            writer.publish(segments=())
            assert first.state() == second.state() == writer.state()
            assert len(environment._environments) == 1
        assert first.state().generation == 2
    assert environment._environments == {}


def test_threads_may_read_while_another_publishes(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        failures, done = [], threading.Event()

        def read() -> None:
            last = 0
            while not done.is_set():
                state = catalog.state()
                if state.generation < last or len(state.segments) != 1:
                    failures.append(state)
                last = state.generation

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(2, 60):
            catalog.publish(segments=(entry(number),))
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.slow
def test_readers_in_other_processes_see_whole_states_while_one_publishes(folder: Path) -> None:
    code = """
last = 0
for _ in range(60):
    with Catalog.open(Path(sys.argv[1])) as catalog:
        for _ in range(5):
            state = catalog.state()
            assert state.generation >= last and state.segments[0].crc == state.generation, state
            last = state.generation
"""
    readers = [run_python(code, folder) for _ in range(2)]
    with Catalog.open(folder, writable=True) as catalog:
        number = 1
        while any(reader.poll() is None for reader in readers):
            number += 1
            catalog.publish(segments=(entry(number),))
    for reader in readers:
        wait_for(reader)


def test_a_catalog_is_closed_to_a_fork_but_the_fork_can_open_its_own(folder: Path) -> None:
    with Catalog.open(folder) as catalog:

        def use() -> None:
            with pytest.raises(StoreClosed, match="opened before a fork, open it again in the child"):
                catalog.state()
            catalog.close()
            with Catalog.open(folder, writable=True) as own:
                own.publish(segments=())

        in_a_fork(use)
        assert catalog.state().generation == 2


def test_a_fork_does_not_take_the_writers_lock_with_it(folder: Path) -> None:
    catalog = Catalog.open(folder, writable=True)
    receive, send = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(receive, 1)
        os._exit(0)
    assert catalog.publish(segments=()).generation == 2

    def refused() -> None:
        with pytest.raises(StoreLocked):
            Catalog.open(folder, writable=True)

    in_a_fork(refused)
    catalog.close()
    # Closed here, while the child that was forked under the lock lives on.
    Catalog.open(folder, writable=True).close()
    os.write(send, b"x")
    os.waitpid(pid, 0)
    os.close(receive)
    os.close(send)


def test_a_writer_that_dies_frees_the_lock_though_its_fork_lives_on(folder: Path) -> None:
    code = """
catalog = Catalog.open(Path(sys.argv[1]), writable=True)
if not os.fork():
    print(os.getpid(), flush=True)
    time.sleep(60)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = run_python(code, folder)
    child = int(process.stdout.readline())
    process.wait(timeout=60)
    Catalog.open(folder, writable=True).close()
    os.kill(child, signal.SIGKILL)
    process.stdout.close()


def test_a_closed_catalog_says_so(folder: Path) -> None:
    catalog = Catalog.open(folder)
    catalog.close()
    catalog.close()
    with pytest.raises(StoreClosed, match="the catalog was closed"):
        catalog.state()


def test_a_catalog_that_nobody_closed_is_a_warning(folder: Path) -> None:
    catalog = Catalog.open(folder)
    with pytest.warns(ResourceWarning, match=r"<Catalog .*catalog\.mdb> was never closed"):
        catalog.__del__()
    catalog.close()
