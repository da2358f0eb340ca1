"""The last bytes of files that jobs append to, in memory: what they are, what is read of them, and what is not."""

import os
from pathlib import Path

import numpy as np
import pytest

from fpstore.disk import Folder
from fpstore.errors import JobError
from fpstore.jobs import spool as spools
from fpstore.jobs.last import LastBytes
from fpstore.jobs.spool import Spool
from fpstore.ledger import INDEX, NAME_BYTES

COUNT = 300


def of(data: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.frombuffer(data, dtype=np.uint8)


@pytest.mark.parametrize("sizes", [[1] * 50, [3, 0, 7, 16, 1, 17, 40, 2, 8, 8, 9], [100], [8, 9]])
def test_the_last_bytes_are_those_of_the_file_and_stay_as_they_were_told(sizes: list[int]) -> None:
    whole, last = b"before", LastBytes(6, 16)
    told = [(last.told, whole)]
    for number, size in enumerate(sizes):
        last.add(of(bytes([number + 1]) * size))
        whole += bytes([number + 1]) * size
        told.append((last.told, whole))
    for (begin, found), expected in told:
        assert found.tobytes() == expected[begin:]
        assert min(8, len(expected) - 6) <= len(found) <= 16


@pytest.mark.parametrize("held", [1 << 20, 48 * 40, 0])
def test_names_are_read_of_memory_and_of_the_files_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(spools, "_ENTRIES_HELD", held)
    monkeypatch.setattr(spools, "_NAMES_HELD", held // 8)
    (tmp_path / "r").mkdir()
    spool = Spool(Folder.open(tmp_path / "r"), texts=False, count=0)
    names = [f"document {number}" * (number % 3) for number in range(COUNT)]
    later = []
    for at in range(0, COUNT, 20):
        ids = np.arange(at, at + 20, dtype=np.uint64)
        spool.append(ids, ids, names[at : at + 20], [""] * 20)
        later.append((at + 20, spool.names_later(np.arange(at + 20, dtype=np.uint64)[::-1].copy())))
    for count, read in later:
        assert read is not None
        assert [*read()] == names[:count][::-1]
    # What is in memory is not read, but where the record is asked at once, which is to be whole.
    os.truncate(tmp_path / "r" / NAME_BYTES, 0)
    os.truncate(tmp_path / "r" / INDEX, 0)
    last = np.array([COUNT - 1], dtype=np.uint64)
    read = spool.names_later(last)
    assert read is not None
    if held:
        assert [*read()] == names[-1:]
    else:
        with pytest.raises(JobError, match="found less than"):
            read()
    with pytest.raises(JobError, match="found less than"):
        spool.names(last)
    spool.close()
