"""The lock of the one writer: on both files, for this process and others, whatever is removed or put in their place."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from catalogs import in_a_fork

from fpstore.disk import CATALOG_NAME, Folder
from fpstore.errors import CorruptStore, StoreChanged, StoreLocked
from fpstore.living import locks
from fpstore.living.locks import WRITER_LOCK_NAME, AWriter, find_writer, lock_writer


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / CATALOG_NAME).write_bytes(b"a catalog")
    with Folder.open(tmp_path) as folder:
        yield folder


def test_there_is_one_writer_until_it_lets_another(folder: Folder) -> None:
    writer = lock_writer(folder)
    lock = folder.path / WRITER_LOCK_NAME
    assert lock.read_text() == f"{os.getpid()}\n"
    with pytest.raises(StoreLocked, match=f"^{folder.path}: this process has it open for writing already$"):
        lock_writer(folder)
    assert lock.read_text() == f"{os.getpid()}\n"
    writer.release()
    assert lock.read_text() == ""
    lock_writer(folder).release()
    writer.release()


def test_what_somebody_else_wrote_into_the_lock_file_stays(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a number\n")
    os.link(tmp_path / "notes.txt", folder.path / WRITER_LOCK_NAME)
    writer = lock_writer(folder)
    with pytest.raises(StoreLocked):
        lock_writer(folder)
    writer.release()
    assert (tmp_path / "notes.txt").read_text() == "not a number\n"


def test_another_process_is_told_the_writers_number(folder: Folder) -> None:
    writer, number = lock_writer(folder), os.getpid()

    def in_child() -> None:
        with pytest.raises(StoreLocked, match=f"^{folder.path}: process {number} is writing to this store$"):
            lock_writer(folder)

    in_a_fork(in_child)
    writer.release()


@pytest.mark.parametrize("recreated", [False, True])
def test_a_lock_file_that_was_removed_lets_nobody_in(recreated: bool, folder: Folder) -> None:
    writer = lock_writer(folder)
    folder.unlink(WRITER_LOCK_NAME)
    if recreated:
        (folder.path / WRITER_LOCK_NAME).write_text("")

    def in_child() -> None:
        with pytest.raises(StoreLocked, match=f"^{folder.path}: another process is writing to this store$"):
            lock_writer(folder)

    in_a_fork(in_child)
    with pytest.raises(StoreLocked, match="this process has it open for writing already"):
        lock_writer(folder)
    with pytest.raises(StoreChanged, match=r"writer\.lock: another file is there, or none; .* nothing was written"):
        writer.check()
    writer.release()
    lock_writer(folder).release()


def test_a_store_without_a_catalog_yet_has_one_writer_too(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        writer = lock_writer(folder)
        with pytest.raises(StoreLocked):
            lock_writer(folder)
        writer.check()
        writer.release()


def test_a_fork_does_not_hold_its_parents_lock(folder: Folder) -> None:
    writer = lock_writer(folder)
    inherited = [file.fileno() for file, _ in writer._held.values()]
    assert len(inherited) == 2

    def in_child() -> None:
        for fd in inherited:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)
        writer.release()
        with pytest.raises(StoreLocked):
            lock_writer(folder)

    in_a_fork(in_child)
    writer.check()
    writer.release()


@pytest.mark.parametrize("name", [CATALOG_NAME, WRITER_LOCK_NAME])
def test_what_is_no_file_is_refused_and_what_it_leads_to_stays(name: str, folder: Folder) -> None:
    (folder.path / "precious").write_text("kept")
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to("precious")
    with pytest.raises(CorruptStore, match=f"{name}: file: found what is not a regular file"):
        lock_writer(folder)
    assert (folder.path / "precious").read_text() == "kept"
    assert not locks._locks


def test_a_writer_notices_that_another_folder_or_catalog_came_in_the_place_of_its_own(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    (live / CATALOG_NAME).touch()
    with Folder.open(live) as folder:
        writer = lock_writer(folder)
        writer.check()
        writer.check_catalog()
        live.rename(tmp_path / "old")
        for check in (writer.check, writer.check_catalog):
            with pytest.raises(
                StoreChanged, match=f"^{live}: another folder is there, or none; expected the store that"
            ):
                check()
        live.mkdir()
        with pytest.raises(StoreChanged, match=f"^{live}: another folder"):
            writer.check()
        live.rmdir()
        (tmp_path / "old").rename(live)
        writer.check()
        (live / "new").touch()
        (live / "new").rename(live / CATALOG_NAME)
        for check in (writer.check, writer.check_catalog):
            with pytest.raises(StoreChanged, match=rf"^{live}/catalog\.mdb: another file is there, or none"):
                check()
        writer.release()


def test_a_file_that_is_replaced_again_and_again_is_given_up(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    identity_of, calls = Folder.identity_of, []

    def replaced(self: Folder, name: str) -> object:
        calls.append(name)
        return identity_of(self, name) if name == WRITER_LOCK_NAME else None

    monkeypatch.setattr(Folder, "identity_of", replaced)
    with pytest.raises(StoreChanged, match=rf"catalog\.mdb: another file came in its place {locks.MAX_ATTEMPTS} times"):
        lock_writer(folder)
    assert calls.count(CATALOG_NAME) == locks.MAX_ATTEMPTS


# --- A catalog that is replaced ---


def test_the_lock_goes_with_the_catalog_that_takes_the_place_of_the_old_one(folder: Folder) -> None:
    writer = lock_writer(folder)
    (folder.path / "new").write_bytes(b"another")
    writer.move_catalog("new")
    assert (folder.path / CATALOG_NAME).read_bytes() == b"another"
    writer.check()
    folder.unlink(WRITER_LOCK_NAME)
    with pytest.raises(StoreLocked):
        lock_writer(folder)
    writer.release()
    lock_writer(folder).release()


def test_a_rename_that_is_not_durable_holds_every_later_commit_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: Folder) -> None:
        raise OSError(5, "Input/output error", "folder")

    writer = lock_writer(folder)
    (folder.path / "new").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "sync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.move_catalog("new")
        for check in (writer.check, writer.check_catalog):
            with pytest.raises(OSError, match="Input/output error"):
                check()
    writer.check()
    writer.check_catalog()
    writer.release()


def test_a_replacement_that_fails_or_is_somebodys_leaves_the_old_catalog_and_its_lock(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(5, "Input/output error")

    writer = lock_writer(folder)
    (folder.path / "new").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "rename", fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.move_catalog("new")
    other = os.open(folder.path / "new", os.O_RDWR)
    assert locks._try_lock(other, CATALOG_NAME)
    with pytest.raises(StoreLocked):
        writer.move_catalog("new")
    os.close(other)
    writer.check()
    assert (folder.path / CATALOG_NAME).read_bytes() == b"a catalog"
    writer.release()


def test_the_bytes_that_are_locked_are_those_of_the_format_page(folder: Folder) -> None:
    def locked(kind: str) -> set[tuple[int, int]]:
        """The first and the last byte of each lock of this kind on the catalog's file, as the kernel tells."""
        inode = (folder.path / CATALOG_NAME).stat().st_ino
        found = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return {
            (int(words[-2]), int(words[-1]))
            for words in found
            if words[1] == "OFDLCK" and words[3] == kind and words[-3].endswith(f":{inode}")
        }

    writer = lock_writer(folder)
    assert locked("WRITE") == {(2**62 + 3, 2**62 + 3)}
    writer.release()
    fd = folder.open_file(CATALOG_NAME)
    for transaction in range(7):
        locks.enter(fd, transaction)
        assert locked("READ") == {(2**62 + transaction % 3,) * 2}
        locks.leaving(fd, transaction)()
    assert locked("READ") == locked("WRITE") == set()
    os.close(fd)


# --- Who writes just now ---


def test_the_writer_of_the_moment_is_found_by_its_own_process_and_by_others(folder: Folder) -> None:
    assert find_writer(folder) is None
    writer, number = lock_writer(folder), os.getpid()
    assert find_writer(folder) == AWriter(number)

    def in_child() -> None:
        assert find_writer(folder) == AWriter(number)

    in_a_fork(in_child)
    assert find_writer(folder) == AWriter(number)
    writer.release()
    assert find_writer(folder) is None


def test_a_number_that_a_dead_writer_left_is_no_writer(folder: Folder) -> None:
    (folder.path / WRITER_LOCK_NAME).write_text("4711\n")
    assert find_writer(folder) is None


def test_a_writer_whose_number_is_gone_is_one_all_the_same(folder: Folder) -> None:
    writer = lock_writer(folder)
    folder.unlink(WRITER_LOCK_NAME)
    assert find_writer(folder) == AWriter(None)
    (folder.path / WRITER_LOCK_NAME).symlink_to("/etc/passwd")
    assert find_writer(folder) == AWriter(None)
    folder.unlink(WRITER_LOCK_NAME)
    writer.release()


def test_one_who_only_keeps_writers_out_is_no_writer(folder: Folder, tmp_path: Path) -> None:
    with locks.no_writer(folder):
        assert find_writer(folder) is None
    folder.unlink(CATALOG_NAME)
    assert find_writer(folder) is None
