"""LMDB as this process has it: one environment for a file, transactions that find room, and one writer."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from fpstore.errors import CorruptStore, StoreLocked
from fpstore.living import environment
from fpstore.living.environment import MAP_BYTES, Environment, Transaction

DATABASE = b"words"


def fill(make: Any, transaction: Transaction) -> None:
    transaction.put(b"first", b"1", db=make(DATABASE))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.mdb"
    environment.create(path, MAP_BYTES, fill)
    return path


@pytest.fixture
def shared(path: Path) -> Iterator[Environment]:
    shared = environment.share(path)
    yield shared
    environment.give_back(shared)


def put(shared: Environment, key: bytes, value: bytes, more_bytes: int = 0) -> None:
    def work(transaction: Transaction) -> None:
        transaction.put(key, value, db=shared.database(DATABASE, transaction))

    shared.run(work, write=True, more_bytes=more_bytes)


def get(shared: Environment, key: bytes) -> bytes | None:
    return shared.run(lambda transaction: transaction.get(key, db=shared.database(DATABASE, transaction)))


# --- A file ---


def test_what_was_made_is_there_and_nothing_but_one_private_file(path: Path, shared: Environment) -> None:
    assert get(shared, b"first") == b"1"
    environment.create(path.with_name("other.mdb"), MAP_BYTES, fill)
    assert not path.with_name("other.mdb-lock").exists()
    for name in ("catalog.mdb", "other.mdb"):
        status = path.with_name(name).stat()
        assert (status.st_size, stat.S_IMODE(status.st_mode)) == (MAP_BYTES, 0o600)


def test_a_creation_that_does_not_fit_its_map_is_an_error_of_the_system(tmp_path: Path) -> None:
    def too_much(make: Any, transaction: Transaction) -> None:
        transaction.put(b"much", bytes(MAP_BYTES), db=make(DATABASE))

    with pytest.raises((OSError, CorruptStore), match=r"small\.mdb"):
        environment.create(tmp_path / "small.mdb", MAP_BYTES, too_much)


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 1), (MAP_BYTES, 1), (MAP_BYTES + 1, 2)])
def test_maps_are_whole(size: int, expected: int) -> None:
    assert environment.whole_maps(size) == expected * MAP_BYTES


def test_only_a_plain_file_is_one_that_fpstore_made(tmp_path: Path) -> None:
    environment.expect_plain_file(tmp_path / "nothing")
    (tmp_path / "file").touch()
    environment.expect_plain_file(tmp_path / "file")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "link", tmp_path / "pipe", tmp_path):
        with pytest.raises(CorruptStore, match=f"{other}: not a regular file"):
            environment.expect_plain_file(other)


# --- One environment for a file ---


def test_a_file_has_one_environment_under_every_name(path: Path, shared: Environment) -> None:
    path.with_name("hard").hardlink_to(path)
    (path.parent / "link").symlink_to(path)
    for name in ("catalog.mdb", "hard", "link"):
        again = environment.share(path.with_name(name))
        assert again is shared
        environment.give_back(again)
    assert get(shared, b"first") == b"1"


def test_the_last_use_closes_it_and_the_next_opens_another(path: Path) -> None:
    first = environment.share(path)
    second = environment.share(path)
    environment.give_back(first)
    assert get(second, b"first") == b"1"
    environment.give_back(second)
    # LMDB refuses a file that this process has open already.
    with lmdb.open(os.fspath(path), subdir=False, readonly=True, max_dbs=2) as opened, opened.begin() as transaction:
        assert transaction.get(b"first", db=opened.open_db(DATABASE, txn=transaction, create=False)) == b"1"
    third = environment.share(path)
    assert third is not first
    environment.give_back(third)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        environment.share(tmp_path / "catalog.mdb")


def in_a_fork(work: Any) -> int:
    """The exit status of a fork that did work: 0 if it returned."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_parent_and_fork_each_have_their_own(path: Path, shared: Environment) -> None:
    assert get(shared, b"first") == b"1"

    def in_child() -> None:
        own = environment.share(path)
        assert own is not shared
        put(own, b"second", b"2")
        environment.give_back(own)

    assert in_a_fork(in_child) == 0
    assert get(shared, b"second") == b"2"
    put(shared, b"third", b"3")
    assert get(shared, b"third") == b"3"


# --- Transactions ---


def test_work_is_committed_and_its_result_returned_or_its_error_and_nothing_done(shared: Environment) -> None:
    put(shared, b"second", b"2")

    def failing(transaction: Transaction) -> None:
        transaction.put(b"third", b"3", db=shared.database(DATABASE, transaction))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shared.run(failing, write=True)
    assert (get(shared, b"second"), get(shared, b"third")) == (b"2", None)


def test_there_is_room_for_as_much_as_was_said_before_the_work_begins(path: Path, shared: Environment) -> None:
    value = bytes(3 * MAP_BYTES)
    calls = []

    def work(transaction: Transaction) -> None:
        calls.append(path.stat().st_size)
        transaction.put(b"much", value, db=shared.database(DATABASE, transaction))

    shared.run(work, write=True, more_bytes=len(value) + 4096)
    assert len(calls) == 1
    assert calls[0] >= len(value)
    assert calls[0] % MAP_BYTES == 0
    assert get(shared, b"much") == value


def test_work_that_needs_more_room_than_was_said_is_done_again_in_a_larger_map(path: Path, shared: Environment) -> None:
    value = bytes(3 * MAP_BYTES)
    sizes = []

    def work(transaction: Transaction) -> str:
        sizes.append(path.stat().st_size)
        transaction.put(b"much", value, db=shared.database(DATABASE, transaction))
        return "done"

    assert shared.run(work, write=True) == "done"
    assert sizes == [MAP_BYTES, 2 * MAP_BYTES, 4 * MAP_BYTES]
    assert get(shared, b"much") == value


def test_another_processs_growth_is_followed(path: Path, shared: Environment) -> None:
    assert get(shared, b"first") == b"1"

    def in_child() -> None:
        put(environment.share(path), b"much", bytes(5 * MAP_BYTES))

    assert in_a_fork(in_child) == 0
    assert get(shared, b"much") == bytes(5 * MAP_BYTES)


def test_work_that_never_finds_room_ends_in_an_error(path: Path, shared: Environment) -> None:
    calls = []

    def never(_transaction: Transaction) -> None:
        calls.append(path.stat().st_size)
        raise lmdb.MapFullError("never enough")

    with pytest.raises(OSError, match=f"no transaction after {environment.MAX_ATTEMPTS} attempts") as error:
        shared.run(never, write=True)
    assert error.value.errno == errno.EAGAIN
    assert calls == [MAP_BYTES << attempt for attempt in range(environment.MAX_ATTEMPTS)]
    assert get(shared, b"first") == b"1"


def listed_readers(path: Path) -> list[int]:
    """The numbers of the processes that LMDB has as readers."""
    code = "import lmdb, sys; print(lmdb.open(sys.argv[1], subdir=False, readonly=True).readers())"
    said = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout
    return [int(number) for number in re.findall(r"^ *([0-9]+) ", said, re.MULTILINE)]


def test_the_slots_of_readers_that_were_killed_are_freed(path: Path, shared: Environment) -> None:
    code = "import os, sys, pathlib; from fpstore.living import environment\n"
    code += "environment.share(pathlib.Path(sys.argv[1])).run(lambda transaction: os.kill(os.getpid(), 9))"
    # Open here all the while: whoever is the first to open it forgets all readers.
    assert get(shared, b"first") == b"1"
    for _ in range(2):
        killed = subprocess.run([sys.executable, "-c", code, path], check=False)
        assert killed.returncode == -signal.SIGKILL
    assert len(set(listed_readers(path)) - {os.getpid()}) == 2
    shared.free_dead_readers()
    assert set(listed_readers(path)) <= {os.getpid()}


@pytest.mark.parametrize("use", ["write", "stamp", "dead readers"])
def test_a_header_half_written_by_a_commit_is_read_again(
    path: Path, shared: Environment, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    good = path.read_bytes()[:8192]
    half = bytearray(good)
    half[4096 + environment._META.size - 8] ^= 4  # the transaction of the second meta page
    overwrite(path, half)
    monkeypatch.setattr(time, "sleep", lambda _seconds: overwrite(path, good))
    if use == "write":
        put(shared, b"second", b"2")
    elif use == "stamp":
        assert shared.stamp() is not None
    else:
        shared.free_dead_readers()
    assert get(shared, b"first") == b"1"


def overwrite(path: Path, head: bytes | bytearray) -> None:
    with path.open("r+b") as file:
        file.write(head)


def test_the_stamp_changes_with_each_commit_and_a_file_cut_short_has_none(path: Path, shared: Environment) -> None:
    stamps = [shared.stamp()]
    for number in range(3):
        assert shared.stamp() == stamps[-1]
        put(shared, b"n", b"%d" % number)
        stamps.append(shared.stamp())
    assert len(set(stamps)) == 4
    os.truncate(path, 0)
    assert shared.stamp() is None
    with pytest.raises(CorruptStore, match="the file's size"):
        get(shared, b"first")


# --- The one writer ---


def test_there_is_one_writer_until_it_lets_another(tmp_path: Path) -> None:
    writer = environment.lock_writer(tmp_path)
    lock = tmp_path / environment.WRITER_LOCK_NAME
    assert lock.read_text() == f"{os.getpid()}\n"
    with pytest.raises(StoreLocked, match=f"{tmp_path}: process {os.getpid()} is writing to this store"):
        environment.lock_writer(tmp_path)
    environment.unlock_writer(writer)
    assert lock.read_text() == ""
    environment.unlock_writer(environment.lock_writer(tmp_path))


def test_a_fork_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    writer = environment.lock_writer(tmp_path)

    def in_child() -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(writer)
        with pytest.raises(StoreLocked):
            environment.lock_writer(tmp_path)

    assert in_a_fork(in_child) == 0
    environment.unlock_writer(writer)


def test_a_lock_that_is_no_file_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / environment.WRITER_LOCK_NAME).symlink_to("precious")
    with pytest.raises(CorruptStore, match="not a regular file"):
        environment.lock_writer(tmp_path)
    assert (tmp_path / "precious").read_text() == "kept"
