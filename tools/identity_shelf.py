"""What lies in the folders of tools/check_identity.py: names and bytes, and the stores that these make."""

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from crash_signed import opened
from id_types import ids_of, numbered
from identity_stores import Row, Rows, rows_of

import fpstore
from fpstore.living.catalog import Catalog
from fpstore.segment.files import footer_crc


class Seen(NamedTuple):
    """One name: what it is, and what of it must stay."""

    kind: int
    mode: int
    inode: tuple[int, int]
    changed_ns: int
    digest: str


def look(folder: Path) -> dict[str, Seen]:
    """All names under a folder, links not followed."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            digest = ""
            if kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    digest = hashlib.blake2b(file.read(), digest_size=12).hexdigest()
            elif kind == stat.S_IFLNK:
                digest = os.readlink(path)
            inode = (status.st_dev, status.st_ino)
            found[os.path.relpath(path, folder)] = Seen(kind, status.st_mode, inode, status.st_mtime_ns, digest)
    return found


Entry = tuple[int, int]  # the size and the checksum by which a catalog knows a segment, or a file of names


class Shelf:
    """Catalogs, segments and files of names by what is in them; kept for all cases, as most are of the template."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._entries: dict[str, list[tuple[str, Entry]] | None] = {}
        self.strays: dict[str, set[Entry]] = {}
        self._segments: dict[str, Entry | None] = {}
        self.bytes: dict[str, bytes] = {}

    def catalog(self, path: Path, digest: str) -> list[tuple[str, Entry]] | None:
        """The names and marks of all files that this catalog has; None where it cannot be read."""
        if digest not in self._entries:
            self.bytes[digest] = path.read_bytes()
            self._entries[digest] = self._read(digest)
        return self._entries[digest]

    def _read(self, digest: str) -> list[tuple[str, Entry]] | None:
        folder = self._assembled(digest, {})
        try:
            with Catalog.open(folder) as catalog:
                state = catalog.state()
            self.strays[digest] = {(size, crc) for entry in state.strays for _, size, crc in entry.files}
            return [(name, (size, crc)) for entry in state.segments for name, size, crc in entry.files]
        except (fpstore.CorruptStore, fpstore.UnsupportedVersion, OSError):
            return None
        finally:
            shutil.rmtree(folder)

    def segment(self, path: Path, digest: str) -> Entry | None:
        """By what a catalog knows this file, if it is a segment, or has names."""
        if digest not in self._segments:
            fd = os.open(path, os.O_RDONLY)
            size, crc = footer_crc(fd)
            os.close(fd)
            self._segments[digest] = None if crc is None else (size, crc)
        return self._segments[digest]

    def _assembled(self, digest: str, segments: dict[str, Path]) -> Path:
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        (folder / "segments").mkdir()
        (folder / "catalog.mdb").write_bytes(self.bytes[digest])
        for name, path in segments.items():
            shutil.copy(path, folder / "segments" / name)
        return folder

    def rows(self, digest: str, pool: dict[Entry, Path]) -> Rows | str:
        """What the store of this catalog holds, with segments from wherever they lie; or what is wrong."""
        entries = self._entries[digest]
        if entries is None:
            return "its catalog cannot be read"
        missing = [name for name, mark in entries if mark not in pool]
        if missing:
            return f"files that its catalog names are nowhere: {', '.join(missing)}"
        folder = self._assembled(digest, {name: pool[mark] for name, mark in entries})
        try:
            with opened(folder) as store:
                store.verify()
                rows = rows_of(store)
                return _looked_up(store, rows) or frozenset(rows)
        except (fpstore.Error, OSError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(folder)


def _looked_up(store: fpstore.Store, rows: list[Row]) -> str:
    """What is wrong with what is found by id and by fingerprint, where a store gives these rows; empty if nothing."""
    keys = np.array(sorted({key for key, _ in rows}), dtype=np.uint64)
    if sorted(numbered(store.id_type, store.probe_many(keys, max_distance=0)), key=str) != sorted(rows, key=str):
        return "probes find other rows than reading all"
    if store.id_type is None:
        return ""
    ids = [table.id for table in store.rows() if table.id is not None]
    found = numbered(store.id_type, store.lookup(np.concatenate(ids))) if ids else []
    if sorted(found, key=str) != sorted(rows, key=str):
        return "looking up all ids finds other rows than reading all"
    unknown = [2**63 + row for row in range(3)]
    if len(store.lookup(ids_of(store.id_type, unknown))):
        return "ids that nobody gave are found"
    return ""
