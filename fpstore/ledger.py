"""Owns the bytes of what jobs keep in a store's folder, and that none of them changes unseen.

Each file has checksums (CRC-32C), which whoever reads it compares: JSON has its own among its fields, the index of
documents has one in each entry, which also says those of its name and its text, and votes end with one.
"""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fpstore._codec import crc32c, crc32c_many
from fpstore.disk import Folder, naming, read_whole
from fpstore.errors import CorruptStore, Damage, JobError
from fpstore.types import Array, Bytes, Counts

NOTE = "unfinished.json"
# The record: whose documents these are; of each where its name and its text end, after those before it; these.
SETTINGS = "settings.json"
INDEX = "index"
NAME_BYTES, TEXT_BYTES = "names", "texts"
# Of a store whose clusters have moving centers: the votes of their members, after the job that ended last; and after
# one that is about to end, which count once its note is gone.
VOTES, NEXT_VOTES = "votes", "votes.next"
# Of a store of signatures whose ids are names: what a job has kept that is about to end. How many documents the record
# had before these, how many they are, the keys of each, and the words of its sketch; these, and their checksum.
LATER = "signed.next"
LATER_HEAD, LATER_END = struct.Struct("<QQII"), struct.Struct("<Q")


# Of a document of the index. fingerprint: of so many words, where they are more, the most significant first.
# known: 1 where the store had the row before, which is not to be taken out with the document. name_crc, text_crc: of
# all names, and of all texts, up to the end of this one; crc: of all of the index before it.
def entry_of(words: int) -> Any:
    """The type of an entry of the index, whose fingerprints have so many words."""
    return np.dtype(
        [
            ("id", "<u8"),
            ("fingerprint", "<u8") if words == 1 else ("fingerprint", "<u8", (words,)),
            ("name_end", "<u8"),
            ("text_end", "<u8"),
            ("known", "<u4"),
            ("name_crc", "<u4"),
            ("text_crc", "<u4"),
            ("crc", "<u4"),
        ]
    )


ENTRY = entry_of(1)
MOST_WORDS = 4
_CRC_BYTES = 4
# What the checksum of bytes is that end with their own: the same for all.
AFTER_ONE = crc32c(struct.pack("<I", crc32c(b"")), crc32c(b""))


# Of a cluster: for each bit, how many more members have it than have not; and the fingerprint of the first.
def cluster_of(words: int) -> Any:
    """The type of the votes of a cluster, whose fingerprints have so many words."""
    return np.dtype([("votes", "<i4", (64 * words,)), ("leader", "<u8") if words == 1 else ("leader", "<u8", (words,))])


_VOTES_END = struct.Struct("<Q")
# Names or texts, one after the other, and where each begins: uint8[bytes], int64[n + 1].
Values = tuple[Bytes, Counts]
_CRC = "crc"
_PIECE_BYTES = 4 << 20


# --- JSON ---


def sealed(record: dict[str, Any]) -> bytes:
    """A record as JSON, with its checksum."""
    return json.dumps(record | {_CRC: _crc_of(record)}).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """What sealed was given. Raises ValueError for anything else."""
    record = parse_json(data)
    if not isinstance(record, dict):
        raise ValueError("found no JSON object, expected one")
    found = record.pop(_CRC, None)
    if found != _crc_of(record):
        raise ValueError(f"{_CRC}: found {found!r:.40}, expected {_crc_of(record)}")
    return record


def read_settings(record: Folder) -> dict[str, Any] | None:
    """What a record of documents says of itself, None where there is none. Raises JobError for anything else."""
    data = read_whole(record, SETTINGS)
    try:
        return None if data is None else unsealed(data)
    except ValueError as error:
        told = f"found no settings of a record of documents, expected a JSON object with its checksum ({error})"
        raise JobError(told, path=record.path / SETTINGS) from None


def entry_type(record: Folder) -> Any:
    """The type of the entries of a record's index, as its settings say; JobError where they say nothing possible."""
    words = (read_settings(record) or {}).get("words", 1)
    if type(words) is not int or not 1 <= words <= MOST_WORDS:
        raise JobError(f"found words {words!r:.40}, expected 1..{MOST_WORDS}", path=record.path / SETTINGS)
    return entry_of(words)


def parse_json(data: bytes | str) -> Any:
    """What JSON says. ValueError for what is none, and for what is nested deeper than Python follows."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _crc_of(record: dict[str, Any]) -> int:
    return crc32c(json.dumps(record, sort_keys=True).encode())


# --- The index ---


def fields_of(entry: Any, *names: str) -> tuple[int, ...]:
    """The size of an entry of this type, and where these of its fields begin."""
    return entry.itemsize, *(entry.fields[name][1] for name in names)


def whole_entries(entries: Array, *, from_first: bool) -> Array:
    """Which entries are as they were written: bool[n]. from_first: whether the index begins with them."""
    whole: Array = _entry_crcs(entries, from_first=from_first) == entries["crc"]
    return whole


def _entry_crcs(entries: Array, *, from_first: bool) -> Array:
    """The checksums that entries have: uint32[n]."""
    size = entries.dtype.itemsize
    rows = np.ascontiguousarray(entries).view(np.uint8).reshape(len(entries), size)[:, : size - _CRC_BYTES]
    starts = np.arange(len(entries) + 1, dtype=np.int64) * (size - _CRC_BYTES)
    crcs = crc32c_many(np.ascontiguousarray(rows).reshape(-1), starts, AFTER_ONE, running=False)
    if from_first and len(entries):
        crcs[0] = crc32c(rows[0].tobytes())
    return crcs


def expect_index(entries: Array, path: Path) -> None:
    """Raise CorruptStore for an index, ENTRY[n], of which any byte has changed. One pass over it."""
    if len(entries):
        found = crc32c(entries.view(np.uint8)[:-4])
        expect_crc(f"{len(entries)} documents", found, int(entries["crc"][-1]), path)


def expect_value(where: str, value: memoryview, before: int, expected: int, path: Path) -> None:
    """Raise CorruptStore for names or texts that have changed; before: the checksum of all before them."""
    expect_crc(where, crc32c(value, before), expected, path)


def expect_crc(where: str, found: int, expected: int, path: Path) -> None:
    """Raise CorruptStore where a checksum is another one."""
    if found != expected:
        raise CorruptStore(f"{where}, checksum", f"{found:#010x}", f"{expected:#010x}", path=path)


# --- All of it ---


def damage_in(record: Folder, documents: int | None, words: int) -> list[Damage]:
    """What is wrong with what jobs keep, every byte of which is read. documents: how many count; None for all.

    words: of a fingerprint of the store.
    """
    damage: list[Damage] = []
    for check in (
        _check_settings,
        lambda folder: _check_record(folder, documents),
        *(_votes_check(name, words) for name in _VOTES),
        _check_later,
    ):
        try:
            check(record)
        except FileNotFoundError as error:
            damage.append(Damage(str(error.filename), "the file", "nothing", "one that its index tells of"))
        except (CorruptStore, JobError) as error:
            damage.append(damage_of(error, record))
    return damage


def damage_of(error: CorruptStore | JobError, folder: Folder) -> Damage:
    """The damaged place that an error is about, in a folder."""
    if isinstance(error, CorruptStore):
        return error.in_file(folder.path)
    # It says what was found and what was expected itself, where it says both.
    found, _, expected = str(error.args[0]).removeprefix("found ").partition(", expected ")
    return Damage(str(error.path or folder.path), "a record of jobs", found, expected or "what jobs write")


_VOTES = (VOTES, NEXT_VOTES)


def _check_settings(record: Folder) -> None:
    read_settings(record)


def _check_record(record: Folder, documents: int | None) -> None:
    try:
        fd = record.open_file(INDEX)
    except FileNotFoundError:
        if documents:
            raise
        return
    with os.fdopen(fd, "rb") as file, naming(record.path / INDEX):
        entry = entry_type(record)
        found, rest = divmod(os.fstat(fd).st_size, entry.itemsize)
        count = found if documents is None else documents
        if documents is None and rest:
            raise CorruptStore("index", f"{rest} bytes behind document {count - 1}", 0, path=record.path / INDEX)
        if found < count:
            raise CorruptStore("index", f"{found} documents", count, path=record.path / INDEX)
        file.seek(max(count - 1, 0) * entry.itemsize)
        last = np.frombuffer(file.read(entry.itemsize if count else 0), dtype=entry)
    if count:
        (own,) = last
        found_crc = _crc_of_file(record, INDEX, count * entry.itemsize - _CRC_BYTES)
        expect_crc(f"{count} documents", found_crc, int(own["crc"]), record.path / INDEX)
        for name, column in ((NAME_BYTES, "name"), (TEXT_BYTES, "text")):
            end, crc = int(own[f"{column}_end"]), int(own[f"{column}_crc"])
            expect_crc(f"the first {end} bytes", _crc_of_file(record, name, end), crc, record.path / name)


def _votes_check(name: str, words: int) -> Callable[[Folder], None]:
    def check(record: Folder) -> None:
        if record.identity_of(name) is not None:
            size = os.stat(name, dir_fd=record.fd, follow_symlinks=False).st_size
            expect_votes(record, name, size, words)

    return check


def end_of_votes(clusters: Array) -> bytes:
    """What is written behind the votes of these clusters, cluster_of(words)[n]."""
    return _VOTES_END.pack(crc32c(clusters.view(np.uint8)) if len(clusters) else 0)


def expect_votes(record: Folder, name: str, size: int, words: int) -> int:
    """Of how many clusters a file of votes of so many bytes is. Raises CorruptStore where it has changed."""
    path = record.path / name
    each: int = cluster_of(words).itemsize
    count, rest = divmod(size - _VOTES_END.size, each)
    if count < 0 or rest:
        expected = f"{_VOTES_END.size} more than a multiple of {each}: what moving centers take"
        raise CorruptStore("votes", f"{size} bytes", expected, path=path)
    fd = record.open_file(name)
    try:
        with naming(path):
            (expected_crc,) = _VOTES_END.unpack(os.pread(fd, _VOTES_END.size, size - _VOTES_END.size))
    finally:
        os.close(fd)
    expect_crc(f"{count} clusters", _crc_of_file(record, name, size - _VOTES_END.size), expected_crc, path)
    return count


def _crc_of_file(record: Folder, name: str, end: int) -> int:
    """The checksum of the first bytes of a file, up to end. CorruptStore where there are fewer."""
    crc = 0
    with os.fdopen(record.open_file(name), "rb") as file, naming(record.path / name):
        left = end
        while left:
            piece = file.read(min(_PIECE_BYTES, left))
            if not piece:
                raise CorruptStore(name, f"{end - left} bytes", f"at least {end}", path=record.path / name)
            crc = crc32c(piece, crc)
            left -= len(piece)
    return crc


# --- What is stored later ---


class Later(NamedTuple):
    """What the file of what is stored later says of itself."""

    documents: int
    document_count: int
    keys: int
    words: int


def read_later(file: BinaryIO, path: Path) -> Later:
    """What its head says; it is read up to there. Raises CorruptStore where any byte has changed."""
    size, crc = os.fstat(file.fileno()).st_size, 0
    left = size - LATER_END.size
    while left > 0 and (piece := file.read(min(_PIECE_BYTES, left))):
        crc, left = crc32c(piece, crc), left - len(piece)
    if left or size < LATER_HEAD.size + LATER_END.size:
        raise CorruptStore(LATER, f"{size} bytes", "a head and a checksum at least", path=path)
    expect_crc("documents of a job", crc, LATER_END.unpack(file.read(LATER_END.size))[0], path)
    file.seek(0)
    found = Later(*LATER_HEAD.unpack(file.read(LATER_HEAD.size)))
    expected = LATER_HEAD.size + 8 * (found.keys + found.words) * found.document_count + LATER_END.size
    if size != expected:
        raise CorruptStore(LATER, f"{size} bytes", expected, path=path)
    return found


def _check_later(record: Folder) -> None:
    if record.identity_of(LATER) is not None:
        with os.fdopen(record.open_file(LATER), "rb") as file, naming(record.path / LATER):
            read_later(file, record.path / LATER)
