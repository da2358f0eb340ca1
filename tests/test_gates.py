"""The gates: a writer waits for readers that its third commit would overtake, for no others, and for no dead ones."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore.disk import CATALOG_NAME, Folder
from fpstore.errors import StoreChanged, StoreLocked
from fpstore.file_locks import is_free
from fpstore.living import changes, environment, locks
from fpstore.living.environment import MAP_BYTES, Environment, Transaction
from fpstore.living.header import HeaderFile

NAME = CATALOG_NAME
DATABASE = b"words"
ROWS = 200
ROOT = Path(__file__).parent.parent


def value(commit: int) -> bytes:
    return b"%08d" % commit * 25


def fill(make: Any, transaction: Transaction) -> None:
    database = make(DATABASE)
    for row in range(ROWS):
        transaction.put(b"%08d" % row, value(0), db=database)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.open(tmp_path) as folder:
        environment.create(folder, NAME, MAP_BYTES, fill)
        yield folder


@pytest.fixture
def shared(folder: Folder) -> Iterator[Environment]:
    shared = environment.share(folder, NAME)
    yield shared
    environment.give_back(shared)


def commit(shared: Environment, number: int) -> None:
    """Write all rows anew."""

    def work(transaction: Transaction) -> None:
        database = shared.database(DATABASE, transaction)
        for row in range(ROWS):
            transaction.put(b"%08d" % row, value(number), db=database)

    shared.run(work, write=True)


READER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from fpstore.disk import Folder
from fpstore.living import environment, locks

folder = Folder.open(Path(sys.argv[1]))
shared = environment.share(folder, locks.CATALOG_NAME)

def rows(transaction):
    with transaction.cursor(db=shared.database(b"words", transaction)) as cursor:
        return [int(bytes(value)[:8]) for _, value in cursor]

def say(*words):
    print(*words, flush=True)
"""
# Reads in its transaction, waits to be told, and reads again: how many rows there are, and of which commits.
LONG_READER = """
def work(transaction):
    for _ in range(2):
        found = rows(transaction)
        say(len(found), *sorted(set(found)))
        sys.stdin.readline()

shared.run(work)
"""
COUNT_ROWS = "found = shared.run(rows)\nsay(len(found), *sorted(set(found)))\n"


def python(code: str, folder: Folder, *command: str, **options: Any) -> subprocess.Popen[str]:
    """A process that runs READER and code, in this tree's package."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    call = [*command, sys.executable, "-c", READER + code, str(folder.path)]
    return subprocess.Popen(call, **pipes | {"cwd": ROOT} | options)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@contextmanager
def long_reader(folder: Folder, code: str = "", commits: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A process inside a transaction, which has read the rows of that commit once."""
    process = python(code + LONG_READER, folder)
    try:
        assert line_of(process) == f"{ROWS} {commits}\n"
        yield process
    finally:
        end(process)


def again(process: subprocess.Popen[str]) -> str:
    """What a long reader reads the second time."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return line_of(process)


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_writer_waits_for_a_reader_at_the_third_commit_and_no_earlier(
    before: int, folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, before + 1):
        commit(shared, number)
    monkeypatch.setattr(locks, "GATE_WAIT_S", 0.05)
    with long_reader(folder, commits=before) as reader:
        commit(shared, before + 1)
        commit(shared, before + 2)
        stamp = shared.stamp()
        for _ in range(2):
            with pytest.raises(
                StoreLocked, match=r"catalog\.mdb: a reader has been inside for \d+ s, two commits behind"
            ):
                commit(shared, before + 3)
        assert shared.stamp() == stamp
        assert again(reader) == f"{ROWS} {before}\n"
        monkeypatch.setattr(locks, "GATE_WAIT_S", 60.0)
        assert reader.stdin is not None
        reader.stdin.write("\n")  # it leaves
        reader.stdin.flush()
        commit(shared, before + 3)


def test_a_writer_goes_on_when_the_reader_leaves(
    folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    with long_reader(folder) as reader:
        commit(shared, 1)
        commit(shared, 2)

        def leave(_seconds: float) -> None:
            looks.append(again(reader) if len(looks) < 1 else "")
            time.sleep(0.01)
            end(reader)

        class Clock:
            monotonic = time.monotonic
            sleep = staticmethod(leave)

        monkeypatch.setattr(locks, "time", Clock)
        commit(shared, 3)
    assert looks[0] == f"{ROWS} 0\n"


@pytest.mark.slow
def test_without_gates_a_long_reader_is_given_other_pages(folder: Folder, shared: Environment) -> None:
    # What the gates are for: the reader takes none. Two commits still leave it what it had, as LMDB promises.
    with long_reader(folder, "locks.enter = lambda fd, transaction: None\n") as reader:
        commit(shared, 1)
        commit(shared, 2)
        assert again(reader) == f"{ROWS} 0\n"
    with long_reader(folder, "locks.enter = lambda fd, transaction: None\n", commits=2) as reader:
        for number in range(3, 9):
            commit(shared, number)
        assert again(reader) != f"{ROWS} 2\n"


@pytest.mark.slow
def test_a_reader_that_is_killed_in_its_transaction_is_in_nobodys_way(folder: Folder, shared: Environment) -> None:
    sizes = []
    for number in range(1, 41):
        killed = python("shared.run(lambda transaction: os.kill(os.getpid(), signal.SIGKILL))", folder)
        assert killed.wait(timeout=60) == -signal.SIGKILL
        killed.communicate()
        commit(shared, number)
        sizes.append((folder.path / NAME).stat().st_blocks)
    assert sizes[-1] == sizes[3]


@pytest.mark.slow
def test_a_reader_whom_commits_overtake_before_it_begins_looks_again(
    folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared.run(lambda transaction: transaction.id()) == 1
    enter, entered = locks.enter, []

    def overtaken(fd: int, transaction: int) -> None:
        entered.append(transaction)
        if len(entered) <= 4:
            code = "shared.run(lambda t: t.put(b'00000000', b'%08d' % int(sys.argv[2]) * 25, "
            code += "db=shared.database(b'words', t)), write=True)"
            for number in range((1, 2, 1, 2)[len(entered) - 1]):
                subprocess.run(
                    [sys.executable, "-c", READER + code, folder.path, f"{len(entered)}{number}"], check=True
                )
        enter(fd, transaction)

    monkeypatch.setattr(locks, "enter", overtaken)

    def read(transaction: Transaction) -> tuple[int, bytes]:
        database = shared.database(DATABASE, transaction)
        return transaction.id(), transaction.get(b"00000000", db=database, default=b"")

    number, found = shared.run(read)
    assert len(entered) == 5
    assert number == entered[-1] == 1 + 1 + 2 + 1 + 2
    assert found[:8] == b"%08d" % 41
    fd = folder.open_file(NAME)
    assert all(is_free(fd, locks._EXCLUSIVE[gate]) for gate in range(3))
    os.close(fd)


def test_a_meta_page_that_is_written_anew_while_lmdb_reads_it_is_noticed(
    shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    says, calls = HeaderFile.still_says, []

    def torn(self: HeaderFile, header: Any) -> bool:
        calls.append(header.transaction)
        return len(calls) > 3 and says(self, header._replace(meta=bytes(len(header.meta)))) is False

    monkeypatch.setattr(HeaderFile, "still_says", torn)
    assert shared.run(lambda transaction: transaction.id()) == 1
    assert calls == [1] * 4
    monkeypatch.setattr(HeaderFile, "still_says", lambda *_args: False)
    monkeypatch.setattr(environment, "MAX_LOOKS", 3)
    with pytest.raises(OSError, match="overtaken by 3 commits"):
        shared.run(lambda transaction: transaction.id())


def test_a_second_writer_that_came_in_all_the_same_is_noticed(
    folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_writes(*_args: object) -> None:
        code = "shared.run(lambda t: t.put(b'other', b'x', db=shared.database(b'words', t)), write=True)"
        subprocess.run([sys.executable, "-c", READER + code, folder.path], check=True)

    with monkeypatch.context() as patch:
        patch.setattr(locks, "wait_for_overtaken", another_writes)
        with pytest.raises(StoreChanged, match="found transaction 3, expected 2: another wrote"):
            commit(shared, 1)
    assert shared.run(lambda transaction: transaction.id()) == 2


def test_a_lock_that_the_system_refuses_is_an_error_that_names_the_file(
    folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(OSError, match="No locks available") as caught:
        shared.run(lambda transaction: None)
    assert caught.value.filename == str(folder.path / NAME)


def test_pages_are_checked_and_a_log_is_decoded_when_the_writer_need_not_wait_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a long log either takes seconds.
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add(np.arange(3, dtype=np.uint64), ids=np.arange(3, dtype=np.uint64))
        store.remove(ids=[1])
    file = os.open(tmp_path / "s" / NAME, os.O_RDONLY)
    done = []

    def watched(module: Any, name: str) -> None:
        real = getattr(module, name)

        def called(*args: Any, **named: Any) -> Any:
            free = [is_free(file, locks._EXCLUSIVE[gate]) for gate in range(3)]
            done.append((name, free))
            return real(*args, **named)

        monkeypatch.setattr(module, name, called)

    watched(environment, "verify")
    watched(changes, "decode_change")
    with fpstore.open(tmp_path / "s") as store:
        ids = next(store.rows()).id
        assert ids is not None
        assert sorted(ids.tolist()) == [0, 2]
    assert done == [("verify", [True] * 3)] + [("decode_change", [True] * 3)] * 2
    os.close(file)


def test_pages_are_checked_of_one_snapshot_though_commits_come_meanwhile(
    folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter, calls = locks.enter, []

    def overtaken(fd: int, transaction: int) -> None:
        enter(fd, transaction)
        calls.append(transaction)
        if len(calls) == 1:
            code = "shared.run(lambda t: t.put(b'00000000', b'x', db=shared.database(b'words', t)), write=True)"
            subprocess.run([sys.executable, "-c", READER + code, folder.path], check=True)

    monkeypatch.setattr(locks, "enter", overtaken)
    assert shared.run(lambda transaction: transaction.id()) == 2
    assert calls == [1, 2, 2]


# --- Readers who may not write, and containers ---


# Becomes a user who may write nothing of the store. Only then: the interpreter may lie where this user cannot go.
AS_NOBODY = """
import lmdb, tempfile
with tempfile.TemporaryDirectory() as scratch:
    lmdb.open(scratch).close()  # what it imports when it is first used
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
"""


def let_all_read(folder: Folder) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    folder.path.chmod(0o755)
    (folder.path / NAME).chmod(0o644)


def reads_beside_a_writer(reader: subprocess.Popen[str], shared: Environment) -> None:
    """Have a long reader, which has begun, read on while two commits come and a third one has to wait."""
    assert line_of(reader) == f"{ROWS} 0\n"
    commit(shared, 1)
    commit(shared, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "GATE_WAIT_S", 0.05)
        with pytest.raises(StoreLocked):
            commit(shared, 3)
    assert again(reader) == f"{ROWS} 0\n"
    end(reader)
    commit(shared, 3)


REFUSED = """
try:
    os.open(locks.CATALOG_NAME, os.O_RDWR, dir_fd=folder.fd)
    say("could write")
except OSError:
    pass
"""


# READER opened the file as root, who may write; here it is opened anew. The folder stays open: others lead to it.
OPENED_LATER = f"""
environment.give_back(shared)
{AS_NOBODY}
shared = environment.share(folder, locks.CATALOG_NAME)
{REFUSED}
"""


def test_a_reader_who_may_not_write_reads_beside_a_writer(folder: Folder, shared: Environment) -> None:
    let_all_read(folder)
    lock = locks.lock_writer(folder)
    reads_beside_a_writer(python(OPENED_LATER + LONG_READER, folder), shared)
    counted = python(OPENED_LATER + COUNT_ROWS, folder)
    assert line_of(counted) == f"{ROWS} 3\n"
    counted.communicate()
    lock.release()


def needs(*command: str) -> None:
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"not allowed here: {' '.join(command)}")


@pytest.mark.slow
def test_a_reader_on_a_read_only_mount_reads_beside_a_writer(folder: Folder, shared: Environment) -> None:
    needs("unshare", "--mount")
    lock = locks.lock_writer(folder)
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    mounted = ["unshare", "--mount", "sh", "-c", script, str(folder.path)]
    reads_beside_a_writer(python(REFUSED + LONG_READER, folder, *mounted), shared)
    counted = python(REFUSED + COUNT_ROWS, folder, *mounted)
    assert line_of(counted) == f"{ROWS} 3\n"
    counted.communicate()
    lock.release()


WRITE = """
lock = locks.lock_writer(folder)
def write(number):
    shared.run(lambda t: [t.put(b"%08d" % row, b"%08d" % number * 25, db=shared.database(b"words", t))
                          for row in range(200)], write=True)
say(os.getpid(), "writes")
for line in sys.stdin:
    write(int(line))
    say("written")
"""


@pytest.mark.slow
def test_processes_of_equal_numbers_read_and_write_one_store(folder: Folder) -> None:
    container = ("unshare", "--pid", "--fork")
    needs(*container)
    own_number = "say(os.getpid(), 'reads')\n"
    writer = python(WRITE, folder, *container)
    assert line_of(writer) == "1 writes\n"
    readers = [python(own_number + LONG_READER, folder, *container) for _ in range(2)]
    second = python("lock = locks.lock_writer(folder)", folder, *container, stderr=subprocess.PIPE)
    assert "StoreLocked" in second.communicate()[1]
    for reader in readers:
        assert line_of(reader) == "1 reads\n"
        assert line_of(reader) == f"{ROWS} 0\n"
    assert writer.stdin is not None
    for number in (1, 2, 3):
        writer.stdin.write(f"{number}\n")
        writer.stdin.flush()
        if number < 3:
            assert line_of(writer) == "written\n"
    # The third waits for both.
    for reader in readers:
        assert again(reader) == f"{ROWS} 0\n"
        reader.communicate("\n")
    assert line_of(writer) == "written\n"
    writer.communicate()


# --- A file in place of the catalog's ---


def refill(number: int) -> Any:
    def work(make: Any, transaction: Transaction) -> None:
        database = make(DATABASE)
        for row in range(ROWS):
            transaction.put(b"%08d" % row, value(number), db=database)

    return work


@pytest.mark.slow
def test_a_catalog_that_grew_is_put_in_its_place_anew_and_small(folder: Folder, shared: Environment) -> None:
    lock = locks.lock_writer(folder)
    shared.run(lambda transaction: None, write=True, more_bytes=64 * MAP_BYTES)
    for number in (1, 2):
        commit(shared, number)
    before = shared.file_identity
    with long_reader(folder, commits=2) as reader:
        environment.replace(folder, lock, MAP_BYTES, refill(3))
        assert not shared.is_at(folder, NAME)
        own = environment.share(folder, NAME)
        assert own.file_identity != before
        # Nobody waits for those who read the old one.
        for number in range(4, 9):
            commit(own, number)
            lock.check()
        assert again(reader) == f"{ROWS} 2\n"
        environment.give_back(own)
    counted = python(COUNT_ROWS, folder)
    assert line_of(counted) == f"{ROWS} 8\n"
    counted.communicate()
    assert (folder.path / NAME).stat().st_size == MAP_BYTES
    assert folder.names() == [NAME, locks.WRITER_LOCK_NAME]
    lock.release()


def test_a_catalog_that_is_not_the_writers_is_not_replaced(folder: Folder, shared: Environment) -> None:
    lock = locks.lock_writer(folder)
    folder.rename(NAME, "own")
    (folder.path / NAME).write_bytes(b"another")
    with pytest.raises(StoreChanged, match=r"catalog\.mdb: another file is there"):
        environment.replace(folder, lock, MAP_BYTES, refill(1))
    assert (folder.path / NAME).read_bytes() == b"another"
    assert folder.names() == [NAME, "own", locks.WRITER_LOCK_NAME]
    lock.release()


def test_a_replacement_that_fails_leaves_the_catalog_as_it_was(folder: Folder, shared: Environment) -> None:
    lock = locks.lock_writer(folder)

    def fail(make: Any, transaction: Transaction) -> None:
        refill(1)(make, transaction)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        environment.replace(folder, lock, MAP_BYTES, fail)
    (folder.path / f"{NAME}.new").write_bytes(b"of a process that died")
    assert shared.is_at(folder, NAME)
    environment.replace(folder, lock, MAP_BYTES, refill(2))
    assert not shared.is_at(folder, NAME)
    assert folder.names() == [NAME, locks.WRITER_LOCK_NAME]
    lock.check()
    lock.release()


OPENS_FOR_WRITING = """
own = Folder.identity_of
def late(self, name):
    if name == locks.CATALOG_NAME:
        Folder.identity_of = own
        say("has it open")
        sys.stdin.readline()
    return own(self, name)
Folder.identity_of = late
try:
    locks.lock_writer(folder)
    say("writes")
except Exception as error:
    say(type(error).__name__)
"""


def test_one_who_waited_for_a_lock_that_has_moved_on_does_not_write(folder: Folder, shared: Environment) -> None:
    # It got the lock of the old file, which nobody holds any more when the new one has its name.
    opener = python(OPENS_FOR_WRITING, folder)
    assert line_of(opener) == "has it open\n"
    folder.unlink(locks.WRITER_LOCK_NAME)
    environment.create(folder, "new", MAP_BYTES, refill(1))
    folder.rename("new", NAME)
    lock = locks.lock_writer(folder)
    assert again(opener) == "StoreLocked\n"
    opener.communicate()
    lock.check()
    lock.release()
