"""The catalog on disk: published whole, one writer, and no damage goes unnoticed or ends the process."""

import errno
import multiprocessing
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import lmdb
import pytest

from fpstore import environment
from fpstore import state as records
from fpstore.catalog import Catalog, SegmentEntry, Settings, create_catalog
from fpstore.errors import CorruptStore, StoreClosed, StoreLocked, UnsupportedVersion

SETTINGS = Settings(k=3, plan={"name": "paper-4", "tables": [1, 2]}, codec="gap", ids=True)
OTHER_SETTINGS = Settings(k=2, plan={"name": "paper-10"}, codec="xor", ids=False, recipe={"words": True})
META = environment._META
PAGE = 4096


def entry(number: int) -> SegmentEntry:
    return SegmentEntry(f"{number:08d}.fpseg", 4096 * number, 10, 12, number)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A store's folder with a catalog published once."""
    create_catalog(tmp_path, SETTINGS, (entry(1),))
    return tmp_path


def run_python(code: str, *arguments: object, **options) -> subprocess.Popen:
    """Another process, with the names that the tests here use."""
    names = "import os, signal, sys, time\nfrom pathlib import Path\nfrom fpstore.catalog import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", names + code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )


def wait_for(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output


# --- Creating and publishing ---


def test_a_new_catalog_says_what_it_was_made_with(folder):
    with Catalog.open(folder) as catalog:
        state = catalog.state()
    assert (state.settings, state.segments, state.generation, state.next_segment) == (SETTINGS, (entry(1),), 1, 2)


def test_a_catalog_without_segments_starts_at_number_one(tmp_path):
    create_catalog(tmp_path, SETTINGS)
    with Catalog.open(tmp_path) as catalog:
        assert (catalog.state().segments, catalog.state().next_segment) == ((), 1)


def test_its_files_are_private_and_nothing_else_is_left(folder):
    with Catalog.open(folder):
        assert sorted(path.name for path in folder.iterdir()) == ["catalog.mdb", "catalog.mdb-lock", "writer.lock"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_same_settings_and_segments_give_the_same_bytes(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        create_catalog(tmp_path / name, SETTINGS, (entry(1),))
    for name in ("catalog.mdb", "writer.lock"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_catalog_is_not_created_over_another(folder):
    before = (folder / "catalog.mdb").read_bytes()
    with pytest.raises(FileExistsError, match="there is a catalog already"):
        create_catalog(folder, OTHER_SETTINGS)
    assert (folder / "catalog.mdb").read_bytes() == before


def test_a_creation_that_fails_leaves_nothing_that_opens(tmp_path, monkeypatch):
    def fail(*_args):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with pytest.raises(OSError, match="Input/output error"):
            create_catalog(tmp_path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["writer.lock"]
    create_catalog(tmp_path, SETTINGS)


def test_a_creation_that_was_killed_does_not_hinder_the_next(tmp_path):
    (tmp_path / "catalog.mdb.new").write_bytes(b"half a file")
    (tmp_path / "catalog.mdb.new-lock").write_bytes(b"")
    with pytest.raises(CorruptStore, match=r"is not an fpstore store: it has no catalog\.mdb"):
        Catalog.open(tmp_path)
    create_catalog(tmp_path, SETTINGS)
    assert not list(tmp_path.glob("*.new*"))


def test_publishing_changes_what_is_given_and_keeps_the_rest(folder):
    with Catalog.open(folder, writable=True) as catalog:
        state = catalog.publish(segments=(entry(1), entry(2)))
        assert (state.settings, state.segments, state.generation) == (SETTINGS, (entry(1), entry(2)), 2)
        state = catalog.publish(settings=OTHER_SETTINGS)
        assert (state.settings, state.segments, state.generation) == (OTHER_SETTINGS, (entry(1), entry(2)), 3)
        state = catalog.publish(settings=SETTINGS, segments=())
        assert (state.settings, state.segments, state.generation) == (SETTINGS, (), 4)
        assert catalog.state() == state
    with Catalog.open(folder) as catalog:
        assert catalog.state() == state


def test_the_number_of_a_segment_is_never_given_again(folder):
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.publish(segments=(entry(9),)).next_segment == 10
        assert catalog.publish(segments=()).next_segment == 10
        assert catalog.publish(segments=(entry(3),)).next_segment == 10


def test_a_reader_sees_what_another_process_published(folder):
    with Catalog.open(folder) as reader:
        assert reader.state().generation == 1
        code = "with Catalog.open(Path(sys.argv[1]), writable=True) as c: c.publish(segments=())"
        wait_for(run_python(code, folder))
        assert (reader.state().generation, reader.state().segments) == (2, ())


def test_a_segment_named_twice_is_refused_and_nothing_is_published(folder):
    with Catalog.open(folder, writable=True) as catalog:
        with pytest.raises(ValueError, match="expected each of them once"):
            catalog.publish(segments=(entry(2), entry(2)))
        assert catalog.state().generation == 1


def test_publishing_needs_a_catalog_opened_for_writing(folder):
    with Catalog.open(folder) as catalog, pytest.raises(ValueError, match="opened for reading, expected writable=True"):
        catalog.publish(segments=())


def test_after_publishing_both_meta_pages_lead_to_the_new_state(folder):
    with Catalog.open(folder, writable=True) as catalog:
        published = catalog.publish(settings=OTHER_SETTINGS)
    metas = read_metas(folder)
    newest = max((0, 1), key=lambda page: metas[page][-1])
    # The one damage that the pair of numbers cannot show: the newer meta page made two transactions older.
    metas[newest][-1] -= 2
    write_metas(folder, metas)
    with Catalog.open(folder) as catalog:
        assert catalog.state() == published


def test_a_second_commit_that_fails_does_not_undo_the_first(folder, monkeypatch):
    run, calls = environment.Environment.run, []

    def fail_the_second_write(self, work, write=False, more_bytes=0):
        calls.append(write)
        if write and calls.count(True) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return run(self, work, write, more_bytes)

    with Catalog.open(folder, writable=True) as catalog:
        monkeypatch.setattr(environment.Environment, "run", fail_the_second_write)
        assert catalog.publish(segments=()).generation == 2
        assert catalog.state().generation == 2


def test_a_publisher_killed_at_any_moment_loses_nothing_it_reported(folder):
    code = """
with Catalog.open(Path(sys.argv[1]), writable=True) as catalog:
    while True:
        number = catalog.state().next_segment
        entry = SegmentEntry(f"{number:08d}.fpseg", number, number, number, number)
        print(catalog.publish(segments=(entry,)).generation, flush=True)
"""
    for seed in range(6):
        process = run_python(code, folder)
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.05))
        process.kill()
        reported = [line for line in process.communicate()[0].split("\n")[:-1] if line]
        with Catalog.open(folder, writable=True) as catalog:
            state = catalog.state()
        assert state.generation >= int(reported[-1]) if reported else True
        assert state.segments[0].crc == state.next_segment - 1 == state.generation


# --- The file grows ---


def test_a_record_larger_than_the_map_is_published(folder):
    settings = Settings(k=3, plan={}, codec="gap", ids=True, recipe={"text": "x" * 3_000_000})
    with Catalog.open(folder, writable=True) as catalog:
        catalog.publish(settings=settings)
        assert catalog.state().settings == settings
    with Catalog.open(folder) as catalog:
        assert catalog.state().settings == settings


def test_a_record_larger_than_the_first_map_is_created(tmp_path):
    settings = Settings(k=3, plan={}, codec="gap", ids=True, recipe={"text": "x" * 3_000_000})
    create_catalog(tmp_path, settings)
    with Catalog.open(tmp_path) as catalog:
        assert catalog.state().settings == settings


def test_a_map_that_fills_in_spite_of_all_is_grown_and_the_work_done_again(folder, monkeypatch):
    monkeypatch.setattr(environment.Environment, "_reserve", lambda *_args: None)
    settings = Settings(k=3, plan={}, codec="gap", ids=True, recipe={"text": "x" * 3_000_000})
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.publish(settings=settings) == catalog.state()
        assert (folder / "catalog.mdb").stat().st_size >= 4 << 20


def test_a_reader_follows_a_file_that_another_process_grew(folder):
    with Catalog.open(folder) as reader:
        code = """
settings = Settings(k=3, plan={}, codec="gap", ids=True, recipe={"text": "x" * 3_000_000})
with Catalog.open(Path(sys.argv[1]), writable=True) as catalog: catalog.publish(settings=settings)
"""
        wait_for(run_python(code, folder))
        assert reader.state().settings.recipe == {"text": "x" * 3_000_000}


def test_every_page_that_lmdb_counts_lies_inside_the_file(folder):
    with Catalog.open(folder, writable=True) as catalog:
        for size in (10, 100_000, 10, 900_000, 10):
            catalog.publish(settings=Settings(k=3, plan={"x": "x" * size}, codec="gap", ids=True))
            assert max(meta[-2] for meta in read_metas(folder)) < (folder / "catalog.mdb").stat().st_size // PAGE


def test_publishing_again_and_again_does_not_let_the_file_grow(folder):
    with Catalog.open(folder, writable=True) as catalog:
        for _ in range(100):
            catalog.publish(segments=(entry(1),))
    assert (folder / "catalog.mdb").stat().st_blocks * 512 < 20 * PAGE


def test_slots_of_killed_readers_are_freed(folder, monkeypatch):
    monkeypatch.setattr(environment, "READER_LIMIT", 1)
    code = """
from fpstore import environment
environment.READER_LIMIT = 1
catalog = Catalog.open(Path(sys.argv[1]))
catalog._environment.run(lambda transaction: os.kill(os.getpid(), signal.SIGKILL))
"""
    # While this process has it open, LMDB does not start the list of readers anew.
    with Catalog.open(folder) as catalog:
        for _ in range(2):
            process = run_python(code, folder)
            process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL
            assert catalog.state().generation == 1


def test_an_environment_that_lmdb_gave_up_is_opened_anew(folder):
    with Catalog.open(folder) as catalog:
        poisoned = [True]

        class Panicking:
            def begin(self, write):
                raise lmdb_error(lmdb.PanicError, -30795)

            def close(self):
                poisoned.clear()

        catalog._environment.close()
        catalog._environment._lmdb = Panicking()
        assert catalog.state().generation == 1
        assert not poisoned
        assert isinstance(catalog._environment._lmdb, lmdb.Environment)


def test_a_file_that_may_not_grow_keeps_the_old_state(folder):
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
settings = Settings(k=3, plan={}, codec="gap", ids=True, recipe={"text": "x" * 3_000_000})
with Catalog.open(Path(sys.argv[1]), writable=True) as catalog:
    try:
        catalog.publish(settings=settings)
    except OSError as error:
        print(error)
    print(catalog.publish(segments=()).generation)
"""
    assert wait_for(run_python(code, folder)) == f"[Errno {errno.EFBIG}] File too large\n2\n"
    with Catalog.open(folder) as catalog:
        assert (catalog.state().settings, catalog.state().segments) == (SETTINGS, ())


def test_giving_up_says_so(folder, monkeypatch):
    class Full:
        def begin(self, write):
            raise lmdb.ReadersFullError("mdb_txn_begin")

        def reader_check(self):
            return 0

    with Catalog.open(folder) as catalog:
        monkeypatch.setattr(environment.Environment, "_open", lambda _self: (Full(), None))
        with pytest.raises(OSError, match="no transaction after 8 attempts") as caught:
            catalog.state()
    assert caught.value.errno == errno.EAGAIN


# --- One writer, many readers, forks ---


def test_a_second_writer_is_told_who_the_first_is(folder):
    with Catalog.open(folder, writable=True), pytest.raises(StoreLocked, match=f"process {os.getpid()} is writing"):
        Catalog.open(folder, writable=True)
    code = "c = Catalog.open(Path(sys.argv[1]), writable=True); print('open', flush=True); time.sleep(60)"
    process = run_python(code, folder)
    assert process.stdout.readline() == "open\n"
    with pytest.raises(StoreLocked, match=f"{folder}: process {process.pid} is writing to this store"):
        Catalog.open(folder, writable=True)
    process.kill()
    process.communicate()
    Catalog.open(folder, writable=True).close()


def test_a_lock_whose_holder_wrote_no_number_is_still_a_lock(folder):
    writer = environment.lock_writer(folder)
    os.ftruncate(writer, 0)
    with pytest.raises(StoreLocked, match="process unknown is writing"):
        Catalog.open(folder, writable=True)
    environment.unlock_writer(writer)


def test_a_writer_that_cannot_write_to_its_lock_leaves_it_all_the_same(folder, monkeypatch):
    def fail(*_args):
        raise OSError(errno.EIO, "Input/output error")

    catalog = Catalog.open(folder, writable=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        catalog.close()
    Catalog.open(folder, writable=True).close()


def test_creating_waits_for_nobody(folder):
    with Catalog.open(folder, writable=True), pytest.raises(StoreLocked, match="is writing to this store"):
        create_catalog(folder, SETTINGS)


def test_opening_that_fails_gives_the_lock_back(folder):
    (folder / "catalog.mdb").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CorruptStore, match="the file's size is 0"):
            Catalog.open(folder, writable=True)


def test_the_lock_is_given_back_where_the_environment_cannot_be_had(folder, monkeypatch):
    def fail(_path):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(environment, "share", fail)
        with pytest.raises(OSError, match="Too many open files"):
            Catalog.open(folder, writable=True)
    Catalog.open(folder, writable=True).close()


def test_readers_and_the_writer_share_one_environment_in_a_process(folder):
    with Catalog.open(folder) as first:
        with Catalog.open(folder, writable=True) as writer, Catalog.open(folder) as second:
            writer.publish(segments=())
            assert first.state() == second.state() == writer.state()
            assert len(environment._environments) == 1
        assert first.state().generation == 2
    assert environment._environments == {}


def test_threads_may_read_while_another_publishes(folder):
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


def test_readers_in_other_processes_see_whole_states_while_one_publishes(folder):
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


def in_child(action) -> None:
    """Run action in a fork of this process; assert that it returned."""
    pid = os.fork()
    if not pid:
        try:
            action()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_catalog_is_closed_to_a_fork_but_the_fork_can_open_its_own(folder):
    with Catalog.open(folder) as catalog:

        def use() -> None:
            with pytest.raises(StoreClosed, match="opened before a fork, open it again in the child"):
                catalog.state()
            catalog.close()
            with Catalog.open(folder, writable=True) as own:
                own.publish(segments=())

        in_child(use)
        assert catalog.state().generation == 2


def test_a_fork_does_not_take_the_writers_lock_with_it(folder):
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

    in_child(refused)
    catalog.close()
    # Closed here, while the child that was forked under the lock lives on.
    Catalog.open(folder, writable=True).close()
    os.write(send, b"x")
    os.waitpid(pid, 0)
    os.close(receive)
    os.close(send)


def test_a_writer_that_dies_frees_the_lock_though_its_fork_lives_on(folder):
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


def test_a_closed_catalog_says_so(folder):
    catalog = Catalog.open(folder)
    catalog.close()
    catalog.close()
    with pytest.raises(StoreClosed, match="the catalog was closed"):
        catalog.state()


def test_a_catalog_that_nobody_closed_is_a_warning(folder):
    catalog = Catalog.open(folder)
    with pytest.warns(ResourceWarning, match=r"<Catalog .*catalog\.mdb> was never closed"):
        catalog.__del__()
    catalog.close()


@pytest.fixture
def read_only(monkeypatch):
    """As if this process could write to no file; access is what root would not feel."""
    monkeypatch.setattr(environment.os, "access", lambda path, mode: mode == os.R_OK)


def test_a_store_in_a_read_only_folder_can_be_read(folder, read_only):
    with Catalog.open(folder) as catalog:
        assert catalog.state().segments == (entry(1),)
    assert not (folder / "catalog.mdb-lock").exists()
    (folder / "writer.lock").unlink()
    with Catalog.open(folder) as catalog:
        assert catalog.state().segments == (entry(1),)


def test_a_reader_that_cannot_be_listed_does_not_read_beside_a_writer(folder, read_only):
    code = "c = Catalog.open(Path(sys.argv[1]), writable=True); print('open', flush=True); time.sleep(60)"
    with Catalog.open(folder) as catalog:
        process = run_python(code, folder)
        assert process.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"process {process.pid} is writing"):
            catalog.state()
        process.kill()
        process.communicate()
        assert catalog.state().generation == 1


# --- What is not a store, and other people's files ---


def test_a_missing_folder_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        Catalog.open(tmp_path / "absent")


def test_what_is_not_a_store_is_refused_by_name(tmp_path):
    with pytest.raises(CorruptStore, match=r"is not an fpstore store: it has no catalog\.mdb"):
        Catalog.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(CorruptStore, match="file is not an fpstore store: it is not a folder"):
        Catalog.open(tmp_path / "file")


@pytest.mark.parametrize("name", ["catalog.mdb", "catalog.mdb-lock", "writer.lock"])
def test_links_and_pipes_in_place_of_files_are_refused(name, folder):
    target = folder / "target"
    for make in (lambda path: path.symlink_to(target), os.mkfifo):
        with Catalog.open(folder):
            (folder / name).replace(target)
        make(folder / name)
        with pytest.raises(CorruptStore, match=f"{name}: not a regular file, expected one that fpstore made"):
            Catalog.open(folder, writable=True)
        target.replace(folder / name)


def test_a_file_that_another_user_of_lmdb_has_open_in_this_process_is_busy(folder):
    with (
        lmdb.open(str(folder / "catalog.mdb"), subdir=False),
        pytest.raises(OSError, match="already open in this process") as caught,
    ):
        Catalog.open(folder)
    assert caught.value.errno == errno.EBUSY


def test_the_environment_does_not_choose_the_format_of_a_new_catalog(tmp_path):
    code = "create_catalog(Path(sys.argv[1]), Settings(k=3, plan={}, codec='gap', ids=True))"
    wait_for(run_python(code, tmp_path, env=os.environ | {"LMDB_DEFAULT_LIB_VERSION": "1"}))
    with Catalog.open(tmp_path) as catalog:
        assert catalog.state().generation == 1


def lmdb_error(kind: type[lmdb.Error], code: int) -> lmdb.Error:
    error = kind("mdb_txn_commit")
    error.code = code
    return error


@pytest.mark.parametrize(
    ("kind", "code", "free_blocks", "number", "message"),
    [
        (lmdb.DiskError, errno.ENOSPC, 10**9, errno.ENOSPC, "No space left on device"),
        (lmdb.Error, errno.EIO, 0, errno.ENOSPC, "No space left on device"),
        (lmdb.Error, errno.EIO, 10**9, errno.EIO, "Input/output error"),
        (lmdb.Error, errno.EACCES, 0, errno.EACCES, "Permission denied"),
    ],
)
def test_lmdb_errors_become_the_systems(kind, code, free_blocks, number, message, folder, monkeypatch):
    class Room:
        f_bavail = free_blocks
        f_frsize = 4096

    def fail(_transaction):
        raise lmdb_error(kind, code)

    monkeypatch.setattr(environment.os, "statvfs", lambda _path: Room)
    with Catalog.open(folder) as catalog, pytest.raises(OSError, match=message) as caught:
        catalog._environment.run(fail)
    assert (caught.value.errno, caught.value.filename) == (number, str(folder / "catalog.mdb"))


def test_what_lmdb_finds_damaged_is_a_corrupt_store(folder):
    def fail(_transaction):
        raise lmdb_error(lmdb.CorruptedError, -30796)

    with Catalog.open(folder) as catalog, pytest.raises(CorruptStore, match=r"catalog\.mdb: mdb_txn_commit"):
        catalog._environment.run(fail)


def test_a_newer_record_is_an_unsupported_version_and_names_the_file(folder, monkeypatch):
    with monkeypatch.context() as patch, Catalog.open(folder, writable=True) as catalog:
        patch.setattr(records, "RECORD_VERSION", 3)
        with pytest.raises(UnsupportedVersion, match=r"catalog\.mdb: the state has version 2, expected 3"):
            catalog.state()


def change_database(folder: Path, change) -> None:
    """Change the catalog through LMDB itself: change(transaction, state database)."""
    with lmdb.open(str(folder / "catalog.mdb"), subdir=False, max_dbs=4) as other:
        database = other.open_db(b"state")
        with other.begin(write=True) as transaction:
            change(transaction, database)


def test_a_state_that_is_missing_is_damage_not_an_empty_store(folder):
    change_database(folder, lambda transaction, database: transaction.delete(b"state", db=database))
    with pytest.raises(CorruptStore, match="the number of records is 0, expected 1"):
        Catalog.open(folder)
    change_database(folder, lambda transaction, database: transaction.put(b"other", b"x", db=database))
    with pytest.raises(CorruptStore, match="the state, 0 bytes, does not match its checksum"):
        Catalog.open(folder)
    change_database(folder, lambda transaction, database: transaction.drop(database))
    with pytest.raises(CorruptStore, match="MDB_NOTFOUND"):
        Catalog.open(folder)


# --- Damage ---


def read_metas(folder: Path) -> list[list[int]]:
    data = (folder / "catalog.mdb").read_bytes()
    return [list(META.unpack_from(data, page * PAGE)) for page in (0, 1)]


def write_metas(folder: Path, metas: list[list[int]]) -> None:
    with open(folder / "catalog.mdb", "r+b") as file:
        for page, meta in enumerate(metas):
            file.seek(page * PAGE)
            file.write(META.pack(*meta))


# Where the fields of a meta page lie in META.
NUMBER, FLAGS, MAGIC, FORMAT, ADDRESS, PAGE_BYTES, FREE_ROOT, MAIN_ROOT, LAST_PAGE, TRANSACTION = (
    0, 2, 4, 5, 6, 8, 15, 23, 24, 25,
)  # fmt: skip


@pytest.mark.parametrize(
    ("page", "field", "value", "message"),
    [
        (1, NUMBER, 0, "meta page 1: its number is 0, expected 1"),
        (0, FLAGS, 2, "meta page 0: its flags is 2, expected 8"),
        (1, MAGIC, 1, "meta page 1: its magic is 1, expected 3203383518"),
        (0, FORMAT, 3, "meta page 0: its format is 3, expected 1"),
        (0, ADDRESS, 4096, "meta page 0: its fixed address is 4096, expected 0"),
        (0, PAGE_BYTES, 512, "the page size is 512, expected 4096, 8192"),
        (1, PAGE_BYTES, 8192, "meta page 1: its page size is 8192, expected 4096"),
        (0, LAST_PAGE, 64, "its last page is 64, expected 1..63 in 262144 bytes"),
        (1, FREE_ROOT, 60, "meta page 1: a root is 60, expected a page up to"),
        (1, MAIN_ROOT, 1, "meta page 1: a root is 1, expected a page up to"),
        (0, TRANSACTION, 3, r"the pair of transactions is \[3, 1\]"),
        (0, TRANSACTION, 4, r"the pair of transactions is \[4, 1\]"),
        (1, TRANSACTION, 2, r"the pair of transactions is \[0, 2\]"),
    ],
)
def test_a_header_that_lmdb_would_trust_is_checked_first(page, field, value, message, folder):
    metas = read_metas(folder)
    metas[page][field] = value
    write_metas(folder, metas)
    with pytest.raises(CorruptStore, match=rf"catalog\.mdb: .*{message}"):
        Catalog.open(folder)


def test_a_header_damaged_while_it_is_open_is_noticed_at_the_next_use(folder):
    with Catalog.open(folder) as catalog:
        catalog.state()
        metas = read_metas(folder)
        metas[0][6] = 4096
        write_metas(folder, metas)
        with pytest.raises(CorruptStore, match="meta page 0: its fixed address is 4096, expected 0"):
            catalog.state()


def test_a_meta_page_half_written_by_a_commit_is_read_again(folder, monkeypatch):
    good = read_metas(folder)
    bad = [[*good[0][:-1], 6], good[1]]
    write_metas(folder, bad)
    monkeypatch.setattr(environment.time, "sleep", lambda _seconds: write_metas(folder, good))
    with Catalog.open(folder) as catalog:
        assert catalog.state().generation == 1


def test_the_older_meta_page_may_have_the_roots_of_a_commit_that_failed(folder):
    # Of a commit that fails in writing its meta page LMDB takes the rest back, but not these.
    metas = read_metas(folder)
    metas[0][FREE_ROOT] = metas[0][MAIN_ROOT] = metas[1][LAST_PAGE] + 1
    write_metas(folder, metas)
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.publish(segments=()).generation == 2
    with Catalog.open(folder) as catalog:
        assert catalog.state().generation == 2


def test_pages_larger_than_the_file_are_refused(folder):
    os.truncate(folder / "catalog.mdb", 3 * PAGE)
    metas = read_metas(folder)
    metas[0][PAGE_BYTES] = 8192
    write_metas(folder, metas)
    with pytest.raises(CorruptStore, match="the file's size is 12288, expected two pages of 8192 or more"):
        Catalog.open(folder)


def test_a_leaf_made_to_look_like_a_branch_does_not_end_the_process(folder):
    # Inside LMDB this is a failed assertion.
    root = max(read_metas(folder), key=lambda meta: meta[TRANSACTION])[MAIN_ROOT]
    with open(folder / "catalog.mdb", "r+b") as file:
        file.seek(root * PAGE + 10)
        file.write(struct.pack("<H", 1))
    with pytest.raises(CorruptStore, match=r"catalog\.mdb: main DB"):
        Catalog.open(folder)


def test_pages_that_cannot_be_checked_are_a_corrupt_store(folder, monkeypatch):
    def give_up(_path, subdir):
        raise environment.VerifyError("unsupported")

    monkeypatch.setattr(environment, "verify", give_up)
    with pytest.raises(CorruptStore, match=r"catalog\.mdb: unsupported"):
        Catalog.open(folder)


def test_a_file_cut_short_while_it_is_open_is_noticed_at_the_next_use(folder):
    with Catalog.open(folder) as catalog:
        os.truncate(folder / "catalog.mdb", 2 * PAGE)
        with pytest.raises(CorruptStore, match=r"its last page is 3, expected 1\.\.1 in 8192 bytes"):
            catalog.state()


def outcomes_of_damage(folder: str, part: int, parts: int) -> dict[str, int]:
    """In a process of its own: open a copy of the catalog under every damage of this part of them, and count."""
    environment.time.sleep = lambda _seconds: None
    copy = Path(folder) / str(part)
    copy.mkdir()
    path = copy / "catalog.mdb"
    whole = (Path(folder) / "catalog.mdb").read_bytes()
    path.write_bytes(whole)
    with Catalog.open(copy) as catalog:
        expected = catalog.state()
    counts: Counter[str] = Counter()

    def observe() -> None:
        try:
            with Catalog.open(copy) as catalog:
                counts["same" if catalog.state() == expected else "different"] += 1
        except CorruptStore:
            counts["corrupt"] += 1

    with open(path, "r+b", buffering=0) as file:
        for offset in range(part, used_bytes(whole), parts):
            # In the empty middle of a page nothing is read: a sample of it is enough.
            if any(whole[max(0, offset - 16) : offset + 16]) or offset % 61 == 0:
                os.pwrite(file.fileno(), bytes([whole[offset] ^ 1 << offset % 8]), offset)
                observe()
                os.pwrite(file.fileno(), bytes([whole[offset] ^ 0xFF]), offset)
                observe()
                os.pwrite(file.fileno(), whole[offset : offset + 1], offset)
        cut = used_bytes(whole)
        for length in range(cut - part, -1, -parts):
            os.ftruncate(file.fileno(), length)
            observe()
    return counts


def used_bytes(whole: bytes) -> int:
    return (max(META.unpack_from(whole, page * PAGE)[LAST_PAGE] for page in (0, 1)) + 1) * PAGE


def test_no_flipped_byte_and_no_truncation_ends_the_process_or_changes_the_state(folder):
    with Catalog.open(folder, writable=True) as catalog:
        catalog.publish(settings=OTHER_SETTINGS, segments=(entry(2), entry(3)))
    cut = used_bytes((folder / "catalog.mdb").read_bytes())
    context = multiprocessing.get_context("spawn")
    # A process that dies breaks the pool, which raises here.
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        parts = [pool.submit(outcomes_of_damage, str(folder), part, 2) for part in range(2)]
        counts = sum((Counter(part.result()) for part in parts), Counter())
    assert set(counts) == {"same", "corrupt"}
    # Every length below that of the used pages is refused.
    assert counts["corrupt"] > cut
