"""Folders held open: whatever happens to the path, it is this folder, and a link in it leads nowhere."""

import ctypes
import errno
import mmap
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers import resident

from fpstore import disk
from fpstore.disk import Folder, Passage, expect_outside_stores, naming, read_whole, replace_whole, unnamed, write_all
from fpstore.errors import CorruptStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    folder.mkdir(mode=0o700)
    return folder


def put(folder: Folder, name: str, data: bytes) -> None:
    fd = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, data)
    os.close(fd)


def read(folder: Folder, name: str) -> bytes:
    fd = folder.open_file(name)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_it_stays_the_same_folder_when_another_takes_its_name(path: Path, tmp_path: Path) -> None:
    with Folder.open(path) as folder:
        put(folder, "a", b"1")
        path.rename(tmp_path / "old")
        path.mkdir()
        assert not folder.is_at(path)
        assert folder.is_at(tmp_path / "old")
        put(folder, "b", b"2")
        folder.rename("b", "c")
        folder.unlink("a")
        folder.sync()
        assert folder.names() == ["c"]
    assert list(path.iterdir()) == []
    assert (tmp_path / "old" / "c").read_bytes() == b"2"


def test_a_relative_path_is_kept_absolute(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Folder.open(Path("one")) as folder:
        monkeypatch.chdir("/")
        assert folder.path == path
        put(folder, "a", b"1")
    assert (path / "a").read_bytes() == b"1"


def test_a_path_that_leads_nowhere_is_no_longer_its_own(path: Path) -> None:
    with Folder.open(path) as folder:
        assert folder.is_at(path)
        path.rmdir()
        assert not folder.is_at(path)
        path.write_bytes(b"")
        assert not folder.is_at(path / "under")
        path.unlink()
        path.symlink_to(path)
        assert not folder.is_at(path)


def test_the_path_itself_may_be_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with Folder.open(tmp_path / "link") as folder:
        assert folder.is_at(tmp_path / "link")
        assert folder.is_at(path)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT], ids=["read", "write", "create"])
def test_a_link_is_not_followed(path: Path, tmp_path: Path, flags: int) -> None:
    (tmp_path / "victim").write_bytes(b"kept")
    (path / "link").symlink_to(tmp_path / "victim")
    (path / "dangling").symlink_to(tmp_path / "none")
    with Folder.open(path) as folder:
        for name in ("link", "dangling"):
            with pytest.raises(CorruptStore, match=rf"{path}/{name}: file: found what is not a regular file"):
                folder.open_file(name, flags)
    assert (tmp_path / "victim").read_bytes() == b"kept"
    assert not (tmp_path / "none").exists()


def test_a_pipe_a_socket_and_a_folder_are_refused_at_once(path: Path) -> None:
    os.mkfifo(path / "pipe")
    (path / "folder").mkdir()
    with Folder.open(path) as folder:
        for name in ("pipe", "folder"):
            for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
                with pytest.raises(CorruptStore, match="not a regular file"):
                    folder.open_file(name, flags)


def test_a_folder_in_it_is_no_link_and_no_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (path / "link").symlink_to(tmp_path / "other")
    (path / "file").write_bytes(b"")
    with Folder.open(path) as folder:
        for name in ("link", "file"):
            with pytest.raises(CorruptStore, match=rf"{path}/{name}: folder: found something else, expected a folder"):
                folder.inside(name)
        with pytest.raises(FileNotFoundError, match=rf"{path}/none"):
            folder.inside("none")
        with folder.create("made") as made:
            assert made.path == path / "made"
        with pytest.raises(FileExistsError, match=rf"{path}/made"):
            folder.create("made")


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o770])
@pytest.mark.parametrize("umask", [0, 0o077, 0o777], ids=oct)
def test_what_is_made_has_the_mode_of_the_folder_whatever_the_umask(path: Path, mode: int, umask: int) -> None:
    path.chmod(mode)
    old = os.umask(umask)
    try:
        with Folder.open(path) as folder, folder.create("inner") as inner:
            put(folder, "a", b"1")
            put(inner, "b", b"2")
    finally:
        os.umask(old)
    assert stat.S_IMODE((path / "inner").stat().st_mode) == mode
    for name in ("a", "inner/b"):
        assert stat.S_IMODE((path / name).stat().st_mode) == mode & 0o666


def test_a_file_that_is_there_keeps_its_mode(path: Path) -> None:
    (path / "a").write_bytes(b"1")
    (path / "a").chmod(0o640)
    with Folder.open(path) as folder:
        os.close(folder.open_file("a", os.O_RDWR | os.O_CREAT))
    assert stat.S_IMODE((path / "a").stat().st_mode) == 0o640


def test_which_file_it_is(path: Path) -> None:
    with Folder.open(path) as folder:
        put(folder, "a", b"1")
        first = folder.identity_of("a")
        os.link(path / "a", path / "same")
        (path / "link").symlink_to("a")
        assert folder.identity_of("same") == first
        assert folder.identity_of("link") not in (first, None)
        assert folder.identity_of("none") is None
        folder.rename("a", "b")
        assert folder.identity_of("b") == first
        assert read(folder, "b") == b"1"


def test_a_file_goes_to_another_folder(path: Path) -> None:
    with Folder.open(path) as folder, folder.create("aside") as aside:
        put(folder, "a", b"1")
        folder.rename("a", "a.old", aside)
        assert aside.names() == ["a.old"]
        assert folder.names() == ["aside"]


def test_errors_of_the_system_name_the_file(path: Path) -> None:
    with Folder.open(path) as folder:
        for call in (folder.open_file, folder.unlink, lambda name: folder.rename(name, "other")):
            with pytest.raises(FileNotFoundError, match=str(path)):
                call("none")
        folder.unlink("none", missing_ok=True)
    with pytest.raises(FileNotFoundError, match=r"/none"):
        Folder.open(path / "none")
    folder.close()


def test_a_file_is_replaced_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Folder.open(path) as folder:
        assert read_whole(folder, "a") is None
        replace_whole(folder, "a", b"one that is longer")
        replace_whole(folder, "a", b"two")
        assert read_whole(folder, "a") == b"two"
        assert folder.names() == ["a"]
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda fd: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                replace_whole(folder, "a", b"three")
        assert read_whole(folder, "a") == b"two"
        replace_whole(folder, "a", b"4")  # over what that left
        assert read_whole(folder, "a") == b"4"
        os.symlink(path / "a", path / "b.new")
        with pytest.raises(CorruptStore, match="not a regular file"):
            replace_whole(folder, "b", b"5")
        assert read_whole(folder, "a") == b"4"


def test_a_file_is_on_the_disk_before_its_name_and_that_before_the_call_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[object] = []

    def noted(fd: int) -> None:
        status = os.fstat(fd)
        synced.append(os.listdir(path) if stat.S_ISDIR(status.st_mode) else status.st_size)

    monkeypatch.setattr(os, "fsync", noted)
    with Folder.open(path) as folder:
        replace_whole(folder, "a", b"four")
    assert synced == [4, ["a"]]


def test_a_place_inside_a_store_is_refused_through_links_too(tmp_path: Path) -> None:
    (tmp_path / "s" / "segments").mkdir(parents=True)
    (tmp_path / "s" / "catalog.mdb").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "s" / "segments")
    for inside in ("s/x", "s/segments/x", "s/none/x", "link/x"):
        with pytest.raises(ValueError, match=rf"{inside}: found a place inside the store {tmp_path}/s, expected"):
            expect_outside_stores(tmp_path / inside)
    for outside in ("s", "x", "link"):
        expect_outside_stores(tmp_path / outside)


@pytest.mark.parametrize("how", ["its path", "its reach"])
def test_a_file_without_a_name_never_has_one(path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Who is killed between making a file and removing its name leaves one that no sweep knows."""
    removed: list[object] = []

    def unlink(*args: object, **kwargs: object) -> None:
        removed.append(args)

    with Folder.open(path) as folder, monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with unnamed(path if how == "its path" else folder.reach) as file:
            assert file.write(b"1") == 1
            assert (folder.names(), removed) == ([], [])


def test_a_folder_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        unnamed(tmp_path / "none")
    assert error.value.filename == str(tmp_path / "none")


def test_an_error_in_a_folder_that_is_held_open_names_the_folder_and_no_descriptor(path: Path) -> None:
    with Folder.open(path) as folder, pytest.raises(OSError, match="No space left") as caught, naming(folder.reach):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)


def test_an_error_names_a_reach_that_leads_nowhere_as_it_is() -> None:
    nowhere = Path("/proc/self/fd/99999")
    with pytest.raises(OSError, match="gone") as caught, naming(nowhere):
        raise OSError(errno.EIO, "gone")
    assert caught.value.filename == str(nowhere)


@pytest.mark.parametrize("uncached", [False, True])
@pytest.mark.parametrize("offset", [None, 5])
def test_all_is_written_whichever_way_and_however_little_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncached: bool, offset: int | None
) -> None:
    data = bytes(range(256)) * 40
    wrote: list[tuple[Any, ...]] = []
    real = {name: getattr(os, name) for name in ("write", "pwrite", "pwritev")}

    def some(name: str, fd: int, data: Any, *rest: int) -> int:
        wrote.append((name, *rest))
        written: int = real[name](fd, [data[0][:999]] if name == "pwritev" else data[:999], *rest)
        return written

    for name in real:
        monkeypatch.setattr(os, name, partial(some, name))
    monkeypatch.setattr(disk, "UNCACHED", 1 << 30)  # what no system knows, and so refuses
    with (tmp_path / "a").open("w+b", buffering=0) as file:
        os.lseek(file.fileno(), 3, os.SEEK_SET)
        write_all(file.fileno(), memoryview(data), offset, uncached=uncached)
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 3 + (len(data) if offset is None else 0)
    place = 3 if offset is None else offset
    assert (tmp_path / "a").read_bytes() == bytes(place) + data
    asked = [told for told in wrote if told[0] == "pwritev"]
    assert asked == ([("pwritev", -1 if offset is None else offset, 1 << 30)] if uncached else [])
    assert len(wrote) - len(asked) == -(-len(data) // 999)


@pytest.mark.skipif(not disk.UNCACHED, reason="no Linux of 6.16 or later")
@pytest.mark.parametrize("offset", [None, 3])
def test_what_goes_past_the_cache_is_all_there(tmp_path: Path, offset: int | None) -> None:
    data = os.urandom(5_000_001)
    with (tmp_path / "a").open("w+b", buffering=0) as file:
        os.lseek(file.fileno(), 3, os.SEEK_SET)
        for at in range(0, len(data), 999_999):
            piece = memoryview(data)[at : at + 999_999]
            write_all(file.fileno(), piece, None if offset is None else offset + at, uncached=True)
        os.fsync(file.fileno())
    assert (tmp_path / "a").read_bytes() == bytes(3) + data


def test_an_error_of_the_disk_is_not_taken_for_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(disk, "UNCACHED", 1 << 30)
    monkeypatch.setattr(os, "pwritev", full)
    with (tmp_path / "a").open("w+b", buffering=0) as file, pytest.raises(OSError, match="full"):
        write_all(file.fileno(), memoryview(b"1"), uncached=True)


@pytest.mark.parametrize(
    ("system", "release", "flag"),
    [
        ("Linux", "6.18.44-x", 0x80),
        ("Linux", "6.16", 0x80),
        ("Linux", "7.0.1", 0x80),
        ("Linux", "6.15.9", 0),
        ("Linux", "5.99-old", 0),
        ("Linux", "new", 0),
        ("Darwin", "24.1.0", 0),
    ],
)
def test_which_system_can_write_past_its_cache(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, flag: int
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "a", release, "b", "c")))
    assert disk._uncached_flag() == flag


def test_a_passage_is_asked_for_ahead_once_and_let_go_of_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, at, length, how: advice.append((how, at, at + length)))
    monkeypatch.setattr(disk, "ADVISED_BYTES", 100)
    monkeypatch.setattr(disk, "AHEAD_BYTES", 250)
    passage = Passage(9, 50, 730)
    assert advice == [(os.POSIX_FADV_WILLNEED, at, at + 100) for at in (50, 150, 250)]
    advice.clear()
    passage.come_to(60)
    passage.come_to(60)
    assert (passage.offset, passage.end) == (60, 730)
    assert advice == [(os.POSIX_FADV_DONTNEED, 50, 60)]
    advice.clear()
    for offset in (500, 730):
        passage.come_to(offset)
    assert [told for told in advice if told[0] == os.POSIX_FADV_WILLNEED] == [
        (os.POSIX_FADV_WILLNEED, at, min(at + 100, 730)) for at in range(350, 730, 100)
    ]
    assert [told[1:] for told in advice if told[0] == os.POSIX_FADV_DONTNEED] == [(60, 500), (500, 730)]


def test_a_file_that_takes_no_advice_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(*advice: int) -> None:
        asked.append(advice[1])
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    passage = Passage(9, 0, 10)
    passage.come_to(10)
    assert asked == [0, 0]


def pages_in_cache(fd: int) -> list[bool]:
    """Which pages of a file the system's cache holds."""
    with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        try:
            return resident(ctypes.addressof(first), len(mapped))
        finally:
            del first


def test_what_was_passed_is_not_in_the_cache_any_more(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w+b", buffering=0) as file:
        file.write(bytes(64 * mmap.PAGESIZE))
        os.fsync(file.fileno())
        passage = Passage(file.fileno(), 0, 64 * mmap.PAGESIZE)
        assert os.pread(file.fileno(), 64 * mmap.PAGESIZE, 0) == bytes(64 * mmap.PAGESIZE)
        assert all(pages_in_cache(file.fileno()))
        passage.come_to(64 * mmap.PAGESIZE)
        held = pages_in_cache(file.fileno())
        if all(held):
            pytest.skip("a file system in memory keeps what it has")
        assert not any(held)
