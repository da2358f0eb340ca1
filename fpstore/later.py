"""Owns the file of what a job has kept that has ended, and that its store of signatures is yet to get: in jobs/.

Under one name such a store has one document, and where that came again its signatures are several: which bands are of
which nothing tells, so one of them could not be taken out again. So a job stores nothing under names before it ends.
It lays all of it down then, and once its note is gone it counts: who opens the store for writing stores it.
"""

import os
import shutil
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from fpstore._codec import crc32c
from fpstore.disk import NEW_SUFFIX, Folder, naming
from fpstore.errors import CorruptStore
from fpstore.ledger import LATER, LATER_END, LATER_HEAD, read_later
from fpstore.notes import PIECE_BYTES, stored_since
from fpstore.types import Keys


def put_later(record: Folder, documents: int, shape: tuple[int, int], rows: BinaryIO) -> None:
    """Lay down durably, as a whole, what counts once the note of its job is gone.

    documents: how many the record had before. shape: the keys and the words of each. rows: uint64[n, keys + words].
    """
    width = 8 * sum(shape)
    fd = record.open_file(LATER + NEW_SUFFIX, os.O_RDWR | os.O_CREAT)
    with os.fdopen(fd, "r+b") as file, naming(record.path / LATER):
        file.truncate(0)
        count = os.fstat(rows.fileno()).st_size // width
        file.write(LATER_HEAD.pack(documents, count, *shape))
        shutil.copyfileobj(rows, file, PIECE_BYTES)
        file.seek(0)
        crc = 0
        while piece := file.read(PIECE_BYTES):
            crc = crc32c(piece, crc)
        file.write(LATER_END.pack(crc))
        file.flush()
        os.fsync(fd)
    record.rename(LATER + NEW_SUFFIX, LATER)
    record.sync()


def has_later(record: Folder) -> bool:
    """Whether there is something that counts, or will."""
    return record.identity_of(LATER) is not None


def drop_later(record: Folder) -> None:
    """It was stored, or its job will never end; durable when this returns."""
    if has_later(record):
        record.unlink(LATER)
        record.sync()


def later_documents(record: Folder, shape: tuple[int, int]) -> Iterator[tuple[list[bytes], Keys, Keys]]:
    """Some at a time: names, keys, uint64[n, keys], and sketches, uint64[n, words]. CorruptStore for what has changed.

    shape: what the store has.
    """
    path, width = record.path / LATER, 8 * sum(shape)
    with os.fdopen(record.open_file(LATER), "rb") as file, naming(path):
        found = read_later(file, path)
        if (found.keys, found.words) != shape:
            raise CorruptStore("documents of a job", f"{found.keys} keys and {found.words} words", shape, path=path)
        left = found.document_count
        for _, given in stored_since(record, found.documents, 0, named=True):
            names = [bytes(name) for name in given[:left]]
            rows = np.frombuffer(file.read(width * len(names)), dtype="<u8").reshape(len(names), sum(shape))
            left -= len(names)
            yield names, rows[:, : shape[0]].astype(np.uint64), rows[:, shape[0] :].astype(np.uint64)
    if left:
        raise CorruptStore(
            "documents of a job", f"names of {found.document_count - left}", f"of {found.document_count}", path=path
        )
