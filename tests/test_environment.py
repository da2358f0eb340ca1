"""LMDB as this process has it: one environment for a file, transactions that find room, and one writer."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from catalogs import in_a_fork

from fpstore.disk import Folder
from fpstore.errors import CorruptStore, StoreChanged
from fpstore.living import environment, header
from fpstore.living.environment import MAP_BYTES, Environment, Transaction

DATABASE = b"words"


def fill(make: Any, transaction: Transaction) -> None:
    transaction.put(b"first", b"1", db=make(DATABASE))


NAME = "catalog.mdb"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.open(tmp_path) as folder:
        environment.create(folder, NAME, MAP_BYTES, fill)
        yield folder


@pytest.fixture
def path(folder: Folder) -> Path:
    return folder.path / NAME


@pytest.fixture
def shared(folder: Folder) -> Iterator[Environment]:
    shared = environment.share(folder, NAME)
    yield shared
    environment.give_back(shared)


def put(shared: Environment, key: bytes, value: bytes, more_bytes: int = 0) -> None:
    def work(transaction: Transaction) -> None:
        transaction.put(key, value, db=shared.database(DATABASE, transaction))

    shared.run(work, write=True, more_bytes=more_bytes)


def get(shared: Environment, key: bytes) -> bytes | None:
    return shared.run(lambda transaction: transaction.get(key, db=shared.database(DATABASE, transaction)))


# --- A file ---


def test_what_was_made_is_there_and_nothing_but_one_private_file(folder: Folder, shared: Environment) -> None:
    assert get(shared, b"first") == b"1"
    environment.create(folder, "other.mdb", MAP_BYTES, fill)
    assert folder.names() == [NAME, "other.mdb"]
    for name in folder.names():
        status = (folder.path / name).stat()
        assert (status.st_size, stat.S_IMODE(status.st_mode)) == (MAP_BYTES, 0o600)


def test_what_is_made_has_the_mode_of_its_folder_and_is_made_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with Folder.open(tmp_path) as folder:
        environment.create(folder, NAME, MAP_BYTES, fill)
        assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o640
        with pytest.raises(FileExistsError):
            environment.create(folder, NAME, MAP_BYTES, fill)


def test_a_creation_that_does_not_fit_its_map_is_an_error_of_the_system(folder: Folder) -> None:
    def too_much(make: Any, transaction: Transaction) -> None:
        transaction.put(b"much", bytes(MAP_BYTES), db=make(DATABASE))

    with pytest.raises((OSError, CorruptStore), match=r"small\.mdb"):
        environment.create(folder, "small.mdb", MAP_BYTES, too_much)


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 1), (MAP_BYTES, 1), (MAP_BYTES + 1, 2)])
def test_maps_are_whole(size: int, expected: int) -> None:
    assert environment.whole_maps(size) == expected * MAP_BYTES


# --- One environment for a file ---


def test_a_file_has_one_environment_under_every_name(folder: Folder, shared: Environment) -> None:
    (folder.path / "hard").hardlink_to(folder.path / NAME)
    (folder.path.parent / "link").symlink_to(folder.path)
    with Folder.open(folder.path.parent / "link") as link:
        for place, name in ((folder, NAME), (folder, "hard"), (link, NAME)):
            again = environment.share(place, name)
            assert again is shared
            environment.give_back(again)
    assert get(shared, b"first") == b"1"


def test_a_link_in_place_of_the_file_is_refused(folder: Folder) -> None:
    (folder.path / "link").symlink_to(NAME)
    with pytest.raises(CorruptStore, match="link: file: found what is not a regular file"):
        environment.share(folder, "link")


def test_it_knows_whether_a_name_still_leads_to_its_file(folder: Folder, shared: Environment) -> None:
    assert shared.is_at(folder, NAME)
    folder.rename(NAME, "moved")
    assert not shared.is_at(folder, NAME)
    environment.create(folder, NAME, MAP_BYTES, fill)
    assert not shared.is_at(folder, NAME)
    assert shared.is_at(folder, "moved")


def test_it_stays_with_its_file_though_another_takes_the_name(folder: Folder, shared: Environment) -> None:
    folder.unlink(NAME)
    environment.create(folder, NAME, MAP_BYTES, lambda make, transaction: make(DATABASE))
    put(shared, b"second", b"2")
    assert (get(shared, b"first"), get(shared, b"second")) == (b"1", b"2")
    other = environment.share(folder, NAME)
    assert other is not shared
    assert (get(other, b"first"), get(other, b"second")) == (None, None)
    environment.give_back(other)


def test_without_names_of_open_files_the_path_must_lead_to_the_very_file(
    folder: Folder, shared: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "OPEN_FILES", "/nowhere")
    put(shared, b"second", b"2")
    assert get(shared, b"second") == b"2"
    with shared.lock:
        shared.close()
    folder.rename(NAME, "moved")
    environment.create(folder, NAME, MAP_BYTES, fill)
    with pytest.raises(StoreChanged, match="another file is there, expected the one that was opened"):
        get(shared, b"first")


def test_the_last_use_closes_it_and_the_next_opens_another(folder: Folder, path: Path) -> None:
    first = environment.share(folder, NAME)
    second = environment.share(folder, NAME)
    environment.give_back(first)
    assert get(second, b"first") == b"1"
    environment.give_back(second)
    # LMDB refuses a file that this process has open already.
    with lmdb.open(os.fspath(path), subdir=False, readonly=True, max_dbs=2) as opened, opened.begin() as transaction:
        assert transaction.get(b"first", db=opened.open_db(DATABASE, txn=transaction, create=False)) == b"1"
    third = environment.share(folder, NAME)
    assert third is not first
    environment.give_back(third)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder, pytest.raises(FileNotFoundError):
        environment.share(folder, NAME)


def test_parent_and_fork_each_have_their_own(folder: Folder, shared: Environment) -> None:
    assert get(shared, b"first") == b"1"

    def in_child() -> None:
        own = environment.share(folder, NAME)
        assert own is not shared
        put(own, b"second", b"2")
        environment.give_back(own)

    in_a_fork(in_child)
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


def test_another_processs_growth_is_followed(folder: Folder, shared: Environment) -> None:
    assert get(shared, b"first") == b"1"

    def in_child() -> None:
        put(environment.share(folder, NAME), b"much", bytes(5 * MAP_BYTES))

    in_a_fork(in_child)
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


@pytest.mark.parametrize("use", ["read", "write", "stamp"])
def test_a_header_half_written_by_a_commit_is_read_again(
    path: Path, shared: Environment, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    good = path.read_bytes()[:8192]
    half = bytearray(good)
    half[4096 + header.META.size - 8] ^= 4  # the transaction of the second meta page
    overwrite(path, half)
    monkeypatch.setattr(time, "sleep", lambda _seconds: overwrite(path, good))
    if use == "write":
        put(shared, b"second", b"2")
    elif use == "stamp":
        assert shared.stamp() is not None
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
