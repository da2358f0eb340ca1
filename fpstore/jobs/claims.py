"""Owns the folder RESULT.job of each result of a job: whose it is, and that one process at a time works in it.

It is known to be a job's by its mark. A folder of that name without one is somebody's, and is left alone. What a
result is to be lies in it, on the result's own file system, until all is done.
"""

import errno
import fcntl
import io
import json
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from fpstore.closing import close_all
from fpstore.disk import NEW_SUFFIX, FileIdentity, Folder, naming, write_all
from fpstore.errors import JobError, no_folder
from fpstore.file_locks import lock_file
from fpstore.inputs import BadInput
from fpstore.jobs.files import AppendFile, files_of_jobs, look, read_json, write_json
from fpstore.jobs.forms import Pack
from fpstore.ledger import parse_json
from fpstore.notes import JOURNAL, MARK, can_go_on

SUFFIX = ".job"
# What lies in the folder of a result. The journal and work are in that of the first; in the others is whose they are.
OWNER = "owner.json"
PART = "part"
PACKED = "packed"  # what is made of the part in the end, of a result that is compressed or Parquet
WORK = "work"
RECORD = ("record.json", "record.json" + NEW_SUFFIX)  # of a finished job, before it gets its name
_PRIVATE = 0o700
_PACK_BYTES = 1 << 20
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def folder_of(result: Path) -> Path:
    """The folder of a result."""
    return result.with_name(result.name + SUFFIX)


def expect_result(path: Path) -> None:
    """Raise ValueError or OSError for what can never be a result: anything but a file, or nothing in a folder."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise no_folder("the file would lie in a folder", path) from None
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        advice = "a result is a file that gets its name when it is whole; -o - writes to standard output, and another "
        advice += "option is left away where its result is not wanted"
        raise ValueError(f"{path}: found {kind}, expected a regular file or nothing: {advice}")


# All that are there.
_claims: "WeakSet[Claim]" = WeakSet()


class Claim:
    """The folder of one result, locked until close."""

    def __init__(self, result: Path) -> None:
        """Make it, or take what a job left. Raises JobError for a folder of somebody else, and while it is in use."""
        self.result = result
        self.path = folder_of(result)
        self.parent = Folder.open(result.parent)
        self._lock_fd, self._owner = -1, os.getpid()
        try:
            while not self._take():  # it went while this waited for its turn
                pass
        except BaseException:
            self.parent.close()
            raise
        _claims.add(self)

    def _take(self) -> bool:
        name = self.path.name
        try:
            os.mkdir(name, _PRIVATE, dir_fd=self.parent.fd)
            os.chmod(name, _PRIVATE, dir_fd=self.parent.fd)  # a umask may have left nothing of that
            self.is_new = True
        except FileExistsError:
            self.is_new = False
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        try:
            with files_of_jobs():
                self.folder = self.parent.inside(name)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            owner = os.stat(name, dir_fd=self.parent.fd, follow_symlinks=False).st_uid
            if owner == os.geteuid():
                raise
            told = f"{error.strerror}: it is of a job of user {owner}, who can go on with it; or name another result"
            raise PermissionError(error.errno, told, str(self.path)) from None
        try:
            if self._lock() and self.parent.identity_of(name) == self.folder.identity:
                return True
        except BaseException:
            self._let_go()
            raise
        self._let_go()
        return False

    def _lock(self) -> bool:
        """Lock its mark, which says that a job made it; False where another process removed that meanwhile."""
        if MARK not in self.folder.names() and self.folder.names():
            raise JobError("found a folder that no job made, expected nothing; move it away", path=self.path)
        with files_of_jobs():
            self._lock_fd = self.folder.open_file(MARK, os.O_RDWR | os.O_CREAT)
        if not lock_file(self._lock_fd, fcntl.F_WRLCK, wait=False):
            who = "this process is at this job already" if self._is_own() else "another process is at this job"
            raise JobError(who, path=self.path)
        status = os.fstat(self._lock_fd)
        if self.folder.identity_of(MARK) != FileIdentity(status.st_dev, status.st_ino):
            return False
        with naming(self.path / MARK):
            if status.st_size == 0 and self.folder.names() == [MARK]:
                mark = {"made by": "a job of fpstore", "identity": secrets.token_hex(16)}
                write_all(self._lock_fd, memoryview(json.dumps(mark).encode()))
            elif not _is_mark(os.pread(self._lock_fd, 1 << 10, 0)):
                raise JobError("found a folder that no job made, expected nothing; move it away", path=self.path)
        return True

    def _is_own(self) -> bool:
        """Whether this very process has the lock, as another of its threads does."""
        return any(
            claim._lock_fd >= 0 and claim._owner == os.getpid() and os.path.sameopenfile(claim._lock_fd, self._lock_fd)
            for claim in list(_claims)
        )

    def _let_go(self) -> None:
        fd, self._lock_fd = self._lock_fd, -1  # as Folder.close
        try:
            try:
                if fd >= 0 and self._owner == os.getpid():  # which a child that was forked meanwhile would go on having
                    lock_file(fd, fcntl.F_UNLCK, wait=False)
            finally:
                if fd >= 0:
                    os.close(fd)
        finally:
            self.folder.close()

    def close(self) -> None:
        """Let others have it."""
        close_all(self._let_go, self.parent.close)

    def __del__(self) -> None:
        # Of a job that was interrupted before anybody had it; None where the interpreter ends.
        if getattr(self, "_lock_fd", -1) >= 0 and os is not None and self._owner == os.getpid():
            self._let_go()

    # --- Whose it is ---

    def begin(self) -> None:
        """Have it be there when a journal is, before which its parent's names are synced; and no trace of jobs in it.

        Whoever made it may have been killed before any of that was on the disk.
        """
        with naming(self.path / MARK):
            os.fsync(self._lock_fd)
        self.folder.sync()  # before other names: without its mark it would be somebody's
        self.parent.sync_later()
        self.forget()

    def read_journal(self) -> dict[str, Any] | None:
        """The journal of the job whose first result this is."""
        journal = read_json(self.folder, JOURNAL)
        if journal is not None and not _is_journal(journal):
            raise JobError("found no journal of a job, expected one; --force begins again", path=self.path / JOURNAL)
        return journal

    def owner(self) -> tuple[str, str] | None:
        """Folder and identity of the job that this is another result of."""
        record = read_json(self.folder, OWNER)
        return None if record is None else (str(record.get("folder")), str(record.get("job")))

    def own(self, folder: Path, job: str) -> None:
        """Say durably of which job this is another result."""
        write_json(self.folder, OWNER, {"folder": str(folder), "job": job})

    def expect_unused(self) -> None:
        """Raise JobError where an interrupted job would lose what it has written to its part."""
        owner = self.owner()
        if owner is not None and can_go_on(*owner):
            used = f"it is a result of the interrupted job {owner[0]}"
        elif self.folder.identity_of(JOURNAL) is not None:
            used = "a job was interrupted here"
        else:
            return
        raise JobError(f"{used}; run that to its end, or give it up by --force", path=self.path)

    # --- What becomes of it ---

    def forget(self) -> None:
        """Remove what jobs wrote here, the journal first: without a journal there is no job."""
        for name in (JOURNAL, JOURNAL + NEW_SUFFIX, OWNER, OWNER + NEW_SUFFIX, PART, PACKED, *RECORD):
            self.folder.unlink(name, missing_ok=True)
        self.remove_work()

    def remove_work(self) -> None:
        """Remove what was needed until the end."""
        shutil.rmtree(WORK, ignore_errors=True, dir_fd=self.folder.fd)

    def pack(self, pack: Pack) -> AppendFile:
        """Make the file of the part, which is whole. What pack says is wrong with it is a BadInput with its path."""
        self.forget_packed()
        packed = AppendFile(self.folder, PACKED, 0, by_umask=True, is_read=False)
        try:
            with os.fdopen(self.folder.open_file(PART), "rb") as part, naming(self.path / PACKED):
                out = io.BufferedWriter(packed.writer(), _PACK_BYTES)
                pack(part, out)
                out.flush()
        except BaseException as error:
            packed.close()
            self.forget_packed()  # the part may need its room
            if isinstance(error, BadInput):
                raise type(error)(f"{self.result}: {error}") from None
            raise
        return packed

    def forget_packed(self) -> None:
        """Remove what was being made of the part."""
        self.folder.unlink(PACKED, missing_ok=True)

    def publish(self, part: str, length: int, *, replaces: list[int] | None) -> None:
        """Give the file `part`, of this length, the name of the result, unless a run before this one did.

        Who calls this makes the name durable. replaces: what a file that is there looks like if it may go. Raises
        FileExistsError for another, JobError, and ValueError as expect_result does.
        """
        name = self.result.name
        if self.folder.identity_of(part) is not None:
            expect_result(self.result)
            if (found := look([self.result])[0]) is not None and found != replaces:
                told = "appeared while the job was at work"
                if replaces is not None:
                    told = "has changed since --force was given"
                told = f"{told}; move it away and run the job again, without --force"
                raise FileExistsError(errno.EEXIST, told, str(self.result))
            self.folder.rename(part, name, to=self.parent)
            return
        size = os.lstat(self.result).st_size if self.parent.identity_of(name) is not None else "nothing"
        if size != length:
            raise JobError(f"found {size}, expected a result of {length} bytes; --force begins again", path=self.result)

    def withdraw(self, replaces: list[int] | None) -> None:
        """Take the result away, if it is the one that may go: it is not to tell of what is replaced before it is."""
        if replaces is not None and look([self.result])[0] == replaces:
            self.parent.unlink(self.result.name)
            self.parent.sync()

    def remove(self) -> None:
        """Remove the folder, or what of it is a job's where somebody keeps other things in it."""
        self.forget()
        self.folder.unlink(MARK, missing_ok=True)
        with suppress(OSError):
            os.rmdir(self.path.name, dir_fd=self.parent.fd)


def _is_journal(record: dict[str, Any]) -> bool:
    """Whether the record has what a journal has, each of its kind."""
    kinds = {"job": str, "identity": dict, "inputs": list, "state": dict, "lengths": list, "replaces": list}
    return (
        all(type(record.get(name)) is kind for name, kind in kinds.items())
        and all(type(look) is list and len(look) > 1 for look in record["inputs"])
        and all(type(length) is int and 0 <= length < 2**63 for length in record["lengths"])
    )


def _is_mark(data: bytes) -> bool:
    try:
        mark = parse_json(data)
        return bool(mark["made by"] == "a job of fpstore") and len(mark["identity"]) == 32
    except (LookupError, TypeError, ValueError):
        return False
