"""The catalog's file damaged, or somebody else's: nothing goes unnoticed or ends the process."""

# mypy: disable-error-code="attr-defined, no-any-return"

import errno
import multiprocessing
import os
import struct
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import lmdb
import pytest
from catalogs import (
    META,
    OTHER_SETTINGS,
    PAGE,
    entry,
    lmdb_error,
    published_once,
    read_metas,
    run_python,
    wait_for,
    write_metas,
)
from lmdb import DiskError, Error

from fpstore._codec import crc32c
from fpstore.errors import CorruptStore, NotAStore, UnsupportedVersion
from fpstore.living import environment, header
from fpstore.living import state as records
from fpstore.living.catalog import Catalog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return published_once(tmp_path)


# --- What is not a store, and other people's files ---


def test_a_missing_folder_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Catalog.open(tmp_path / "absent")


def test_what_is_not_a_store_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match=r"found no catalog\.mdb, expected a folder that fpstore made"):
        Catalog.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotAStore, match="file: found a file, expected the folder of a store"):
        Catalog.open(tmp_path / "file")


@pytest.mark.parametrize("name", ["catalog.mdb", "writer.lock"])
def test_links_and_pipes_in_place_of_files_are_refused(name: str, folder: Path) -> None:
    target = folder / "target"
    for make in (lambda path: path.symlink_to(target), os.mkfifo):
        with Catalog.open(folder):
            (folder / name).replace(target)
        make(folder / name)
        with pytest.raises(CorruptStore, match=f"{name}: file: found what is not a regular file"):
            Catalog.open(folder, writable=True)
        target.replace(folder / name)


def test_a_file_that_another_user_of_lmdb_has_open_in_this_process_is_busy(folder: Path) -> None:
    with (
        lmdb.open(str(folder / "catalog.mdb"), subdir=False),
        pytest.raises(OSError, match="already open in this process") as caught,
    ):
        Catalog.open(folder)
    assert caught.value.errno == errno.EBUSY


def test_the_environment_does_not_choose_the_format_of_a_new_catalog(tmp_path: Path) -> None:
    code = "create_catalog(Path(sys.argv[1]), Settings(max_distance=3, plan={}, codec='gap', id_type='uint64'))"
    wait_for(run_python(code, tmp_path, env=os.environ | {"LMDB_DEFAULT_LIB_VERSION": "1"}))
    with Catalog.open(tmp_path) as catalog:
        assert catalog.state().generation == 1


@pytest.mark.parametrize(
    ("kind", "code", "free_blocks", "number", "message"),
    [
        (lmdb.DiskError, errno.ENOSPC, 10**9, errno.ENOSPC, "No space left on device"),
        (lmdb.Error, errno.EIO, 0, errno.ENOSPC, "No space left on device"),
        (lmdb.Error, errno.EIO, 10**9, errno.EIO, "Input/output error"),
        (lmdb.Error, errno.EACCES, 0, errno.EACCES, "Permission denied"),
    ],
)
def test_lmdb_errors_become_the_systems(
    kind: type[DiskError] | type[Error],
    code: int,
    free_blocks: int,
    number: int,
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Room:
        f_bavail = free_blocks
        f_frsize = 4096

    def fail(_transaction: Any) -> None:
        raise lmdb_error(kind, code)

    monkeypatch.setattr(environment.os, "fstatvfs", lambda _fd: Room)
    with Catalog.open(folder) as catalog, pytest.raises(OSError, match=message) as caught:
        catalog._environment.run(fail)
    assert (caught.value.errno, caught.value.filename) == (number, str(folder / "catalog.mdb"))


def test_what_lmdb_finds_damaged_is_a_corrupt_store(folder: Path) -> None:
    def fail(_transaction: Any) -> None:
        raise lmdb_error(lmdb.CorruptedError, -30796)

    with (
        Catalog.open(folder) as catalog,
        pytest.raises(CorruptStore, match=r"pages: found what LMDB refuses \(mdb_txn_commit"),
    ):
        catalog._environment.run(fail)


def test_a_newer_record_is_an_unsupported_version_and_names_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, Catalog.open(folder, writable=True) as catalog:
        patch.setattr(records, "RECORD_VERSION", 11)
        with pytest.raises(
            UnsupportedVersion,
            match=r"catalog\.mdb: the version of the state: found 10, expected 11; made by an older fpstore",
        ):
            catalog.state()


def change_database(folder: Path, change: Callable[..., Any]) -> None:
    """Change the catalog through LMDB itself: change(transaction, database of changes)."""
    with lmdb.open(str(folder / "catalog.mdb"), subdir=False, max_dbs=4) as other:
        database = other.open_db(b"changes")
        with other.begin(write=True) as transaction:
            change(transaction, database)


def test_a_state_that_is_missing_is_damage_not_an_empty_store(folder: Path) -> None:
    change_database(folder, lambda transaction, _: transaction.delete(b"state"))
    with pytest.raises(CorruptStore, match="the number of records: found 2, expected 3"):
        Catalog.open(folder)
    change_database(folder, lambda transaction, _: transaction.put(b"other", b"x"))
    with pytest.raises(CorruptStore, match="the state: found 0 bytes of another checksum"):
        Catalog.open(folder)
    change_database(folder, lambda transaction, database: transaction.drop(database))
    with pytest.raises(CorruptStore, match="MDB_NOTFOUND"):
        Catalog.open(folder)


def test_a_state_in_a_database_of_its_own_is_of_an_older_version(folder: Path) -> None:
    """Up to version 9 it was."""
    with Catalog.open(folder) as catalog:
        text = records.encode(catalog.state(), 0)[4:].replace(b'"version":10}', b'"version":9}')
    with lmdb.open(str(folder / "catalog.mdb"), subdir=False, max_dbs=4) as other:
        with other.begin(write=True) as transaction:
            transaction.delete(b"state")
        database = other.open_db(b"state")
        with other.begin(write=True) as transaction:
            record = struct.pack("<I", crc32c(b"\x05state\x05state" + text)) + text
            transaction.put(b"state", record, db=database)
    expected = r"catalog\.mdb: the version of the state: found 9, expected 10; made by an older fpstore"
    for writable in (False, True):
        with pytest.raises(UnsupportedVersion, match=expected):
            Catalog.open(folder, writable)


def test_a_state_as_long_as_what_is_kept_of_a_database_is_damage(folder: Path) -> None:
    change_database(folder, lambda transaction, _: transaction.put(b"state", bytes(environment.DATABASE_BYTES)))
    with pytest.raises(CorruptStore, match="pages: found what LMDB refuses"):
        Catalog.open(folder)


# --- Damage ---


# Where the fields of a meta page lie in META.
NUMBER, FLAGS, MAGIC, FORMAT, ADDRESS, PAGE_BYTES, FREE_ROOT, MAIN_ROOT, LAST_PAGE, TRANSACTION = (
    0, 2, 4, 5, 6, 8, 15, 23, 24, 25,
)  # fmt: skip


@pytest.mark.parametrize(
    ("page", "field", "value", "message"),
    [
        (1, NUMBER, 0, "meta page 1, number: found 0, expected 1"),
        (0, FLAGS, 2, "meta page 0, flags: found 2, expected 8"),
        (1, MAGIC, 1, "meta page 1, magic: found 1, expected 3203383518"),
        (0, FORMAT, 3, "meta page 0, format: found 3, expected 1"),
        (0, ADDRESS, 4096, "meta page 0, fixed address: found 4096, expected 0"),
        (0, PAGE_BYTES, 512, "the page size: found 512, expected 4096, 8192"),
        (1, PAGE_BYTES, 8192, "meta page 1, page size: found 8192, expected 4096"),
        (0, LAST_PAGE, 64, "last page: found 64, expected 1..63 in 262144 bytes"),
        (1, FREE_ROOT, 60, "meta page 1: a root: found 60, expected a page up to"),
        (1, MAIN_ROOT, 1, "meta page 1: a root: found 1, expected a page up to"),
        (0, TRANSACTION, 3, r"the pair of transactions: found \[3, 1\]"),
        (0, TRANSACTION, 4, r"the pair of transactions: found \[4, 1\]"),
        (1, TRANSACTION, 2, r"the pair of transactions: found \[0, 2\]"),
    ],
)
def test_a_header_that_lmdb_would_trust_is_checked_first(
    page: int, field: int, value: int, message: str, folder: Path
) -> None:
    metas = read_metas(folder)
    metas[page][field] = value
    write_metas(folder, metas)
    with pytest.raises(CorruptStore, match=rf"catalog\.mdb: .*{message}"):
        Catalog.open(folder)


def test_the_even_transactions_are_those_of_the_first_meta_page(folder: Path) -> None:
    metas = read_metas(folder)
    assert (metas[0][TRANSACTION] % 2, metas[1][TRANSACTION] % 2) == (0, 1)
    metas[0][TRANSACTION], metas[1][TRANSACTION] = 1, 2
    write_metas(folder, metas)
    with pytest.raises(CorruptStore, match=r"the pair of transactions: found \[1, 2\], expected an even number and an"):
        Catalog.open(folder)


@pytest.mark.parametrize("field", [FREE_ROOT, MAIN_ROOT])
def test_a_root_behind_the_last_page_is_refused(field: int, folder: Path) -> None:
    metas = read_metas(folder)
    metas[1][field] = metas[1][LAST_PAGE] + 1
    write_metas(folder, metas)
    with pytest.raises(
        CorruptStore, match=f"a root: found {metas[1][field]}, expected a page up to {metas[1][LAST_PAGE]}"
    ):
        Catalog.open(folder)


def test_a_header_damaged_while_it_is_open_is_noticed_at_the_next_use(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        catalog.state()
        metas = read_metas(folder)
        metas[0][6] = 4096
        write_metas(folder, metas)
        with pytest.raises(CorruptStore, match="meta page 0, fixed address: found 4096, expected 0"):
            catalog.state()


def test_a_meta_page_half_written_by_a_commit_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = read_metas(folder)
    bad = [[*good[0][:-1], 6], good[1]]
    write_metas(folder, bad)
    monkeypatch.setattr(header.time, "sleep", lambda _seconds: write_metas(folder, good))
    with Catalog.open(folder) as catalog:
        assert catalog.state().generation == 1


def test_the_older_meta_page_may_have_the_roots_of_a_commit_that_failed(folder: Path) -> None:
    # Of a commit that fails in writing its meta page LMDB takes the rest back, but not these.
    metas = read_metas(folder)
    metas[0][FREE_ROOT] = metas[0][MAIN_ROOT] = metas[1][LAST_PAGE] + 1
    write_metas(folder, metas)
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.publish(segments=()).generation == 2
    with Catalog.open(folder) as catalog:
        assert catalog.state().generation == 2


def test_pages_larger_than_the_file_are_refused(folder: Path) -> None:
    os.truncate(folder / "catalog.mdb", 3 * PAGE)
    metas = read_metas(folder)
    metas[0][PAGE_BYTES] = 8192
    write_metas(folder, metas)
    with pytest.raises(CorruptStore, match="the file's size: found 12288, expected two pages of 8192 or more"):
        Catalog.open(folder)


def test_a_leaf_made_to_look_like_a_branch_does_not_end_the_process(folder: Path) -> None:
    # Inside LMDB this is a failed assertion.
    root = max(read_metas(folder), key=lambda meta: meta[TRANSACTION])[MAIN_ROOT]
    with open(folder / "catalog.mdb", "r+b") as file:
        file.seek(root * PAGE + 10)
        file.write(struct.pack("<H", 1))
    with pytest.raises(CorruptStore, match=r"catalog\.mdb: pages: found what LMDB does not write \(main DB"):
        Catalog.open(folder)


def test_pages_that_cannot_be_checked_are_a_corrupt_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(_path: str, subdir: bool) -> None:
        raise environment.VerifyError("unsupported")

    monkeypatch.setattr(environment, "verify", give_up)
    with pytest.raises(CorruptStore, match=r"catalog\.mdb: pages: found what LMDB does not write \(unsupported"):
        Catalog.open(folder)


def test_a_file_cut_short_while_it_is_open_is_noticed_at_the_next_use(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        os.truncate(folder / "catalog.mdb", 2 * PAGE)
        with pytest.raises(CorruptStore, match=r"last page: found 2, expected 1\.\.1 in 8192 bytes"):
            catalog.state()


def outcomes_of_damage(folder: str, part: int, parts: int) -> dict[str, int]:
    """In a process of its own: open a copy of the catalog under every damage of this part of them, and count."""
    header.time.sleep = lambda _seconds: None
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


@pytest.mark.slow
def test_no_flipped_byte_and_no_truncation_ends_the_process_or_changes_the_state(folder: Path) -> None:
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
