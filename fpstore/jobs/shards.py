"""Owns kept documents in shards: of each file of the inputs one, of its name and format, which tasks write.

Who decides writes down what is kept, a bit for each document that was read; the tasks read the files again. A shard has
its name when all of it is there. That all are there _SUCCESS tells, the job's result, a line of JSON for each; where a
job begins again, it goes before the first of them is replaced.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

import fpstore
from fpstore._codec import crc32c
from fpstore.cluster.engines import Engine
from fpstore.cluster.made import marks_of
from fpstore.cluster.parts import Maker, Part, is_half_written, sweep, whole_file, write_runs
from fpstore.cluster.tasks import OfModule, expect_version
from fpstore.cluster.work import MOST_TASKS, claim, do_left, name_of
from fpstore.disk import Folder, sync_folder, unnamed
from fpstore.errors import JobError, no_folder
from fpstore.inputs import BadInput, Row
from fpstore.inputs.portions import PLAIN_RATE, size_of
from fpstore.inputs.remote import stamp_of
from fpstore.jobs.batches import Batch
from fpstore.jobs.changed import changed
from fpstore.jobs.corpus import Corpus, Inputs
from fpstore.jobs.each import MARKER, RESERVED, EachFile, Shard
from fpstore.jobs.files import look, read_json, write_json
from fpstore.jobs.forms import form_of_shard
from fpstore.jobs.journal import Job
from fpstore.jobs.keeping import Keeping
from fpstore.jobs.rows import json_line
from fpstore.progress import OnProgress
from fpstore.text import Recipe
from fpstore.text.packed import packed, taken
from fpstore.types import Array, Counts, Keys

_FORMAT = "fpstore.shard/1"
# So many bytes of the inputs, at least, are one task.
TASK_BYTES = 32 << 20
# Of some documents that follow one another in a file: its number, how many were read, how many were not passed over,
# and the mark of those that are kept. Then there is a bit for each, and the checksum of
# all of it.
_HEAD = struct.Struct("<IIIQ")
_SEAL = struct.Struct("<I")
# No columns: what a task leaves tells of its shards alone.
_COLUMNS = 1
_READ_BYTES = 1 << 20
_WORK = "shards"
# What is told of a shard.
_TOLD: dict[str, type] = {"shard": str, "documents": int, "kept": int, "bytes": int, "crc32c": str}
_ABOUT = "the shards of this job"
# Of shards that were there when the job was begun, what each looked like.
_THERE = "there.json"
_NOTHING = "expected nothing; move it away, or name another folder"


class Sharding:
    """The form of kept documents in shards: what is kept is written down, and in the end what became of each file."""

    head = b""
    refuses_packed = False

    def __init__(self, output: Path, files: EachFile) -> None:
        self._output = output
        self._shards = files.shards()
        self._told: bytes = b""

    def fault_of(self, name: str, row: Row) -> BadInput | None:
        """None: what was read has room in a file of its kind."""

    def pack(self, part: BinaryIO, out: BinaryIO) -> None:
        """Write what the result tells, once the shards are there."""
        out.write(self._told)

    def lines_of(self, batch: Batch) -> None:
        """As of Keeping: no lines of the inputs are written here."""

    def lines(
        self, batch: Batch, which: Sequence[int] | Counts, *, is_first: bool, added: Sequence[Sequence[Any]] = ()
    ) -> bytes:
        """What is written down of the documents of a batch; which: the indexes of those that are kept."""
        kept = np.zeros(len(batch.names), dtype=bool)
        kept[which] = True
        marks = marks_of(packed(taken(batch.texts, which)))
        data, first, at = [], 0, 0
        for number, good in batch.read:
            bits = np.zeros(len(good), dtype=bool)
            end = first + int(np.count_nonzero(good))
            bits[good] = kept[first:end]
            own = marks[at : at + int(np.count_nonzero(bits))]
            record = _HEAD.pack(number, len(bits), end - first, _mark_of(own)) + np.packbits(bits).tobytes()
            data += [record, _SEAL.pack(crc32c(record))]
            first, at = end, at + len(own)
        return b"".join(data)

    # --- The shards ---

    def begin(self, job: Job, *, force: bool) -> None:
        """Refuse a folder that holds something else than what this job may replace, and write down what that is."""
        names = {shard.name for shard in self._shards}
        places = {str(parent) for name in names for parent in Path(name).parents}
        replaced = None
        for folder, folders, files in os.walk(self._output, onerror=_raise):
            within = Path(folder).relative_to(self._output)
            if folder == str(self._output):
                folders[:] = [name for name in folders if name not in RESERVED]
                files = [name for name in files if name not in RESERVED]
            for name in folders:
                own, path = str(within / name), Path(folder, name)
                if own in names or (own in places and path.is_symlink()):
                    raise _there(path, f"it is no folder of this job, {_NOTHING}")
            for name in files:
                path = Path(folder, name)
                if not (is_half_written(name) or (str(within / name) in names and _size_at(path) is not None)):
                    raise _there(path, f"it is no shard of this job, {_NOTHING}")
                replaced = replaced or path
        if replaced is not None and not force:
            raise _there(replaced, "--force replaces shards")
        there = {shard.name: look([self._output / shard.name])[0] for shard in self._shards}
        write_json(job.work_folder, _THERE, {name: found for name, found in there.items() if found is not None})

    def _expect_as_begun(self, job: Job) -> None:
        """FileExistsError for what has come, or has changed, where the first shard is to be written."""
        there = read_json(job.work_folder, _THERE) or {}
        for shard in self._shards:
            path = self._output / shard.name
            if (found := look([path])[0]) is not None and found != there.get(shard.name):
                told = "has come, or has changed, while the job was at work; move it away and run the job again"
                raise FileExistsError(errno.EEXIST, f"{told}, without --force", str(path))

    def write(self, job: Job, corpus: Corpus, engine: Engine, progress: OnProgress | None) -> None:
        """Have tasks write all shards that are not there yet."""
        tasks = self.prepare(job, corpus)
        with job.subfolder(_WORK) as folder:
            told = {task.maker.task: self._told_of(task, folder, reads=True) for task in tasks}
            left = [task for task in tasks if told[task.maker.task] is None]
            seconds = (corpus.total_bytes or 0) / PLAIN_RATE
            do_left(engine, tasks, left, seconds, progress, "shards")
            lines = []
            for task in tasks:
                found = told[task.maker.task] or self._told_of(task, folder)
                if found is None:
                    raise JobError(f"{task}: found other shards than it wrote; run it again", path=self._output)
                lines += [json_line({"format": _FORMAT, **each}) for each in found]
            for place in sorted({path.parent for path in self.places}):
                with Folder.open(place) as home:
                    sweep(home)
        self._told = b"".join(lines)

    def prepare(self, job: Job, corpus: Corpus) -> list[ShardTask]:
        """The tasks of all shards, for which there is place."""
        decided = job.files[0]
        shards = _found(decided.path, decided.view(), self._shards)
        if _WORK not in job.work_folder.names():
            self._expect_as_begun(job)
        _make_folders(self._output, shards)
        job.withdraw()
        job.subfolder(_WORK).close()
        job.work_folder.sync_owed()  # before the first shard has its name: without this it would be somebody's
        return self._tasks(job.id, decided.path, corpus, shards, job.work_folder)

    def left_of(self, job: str, decided: Path, data: bytes, corpus: Corpus, work: Folder) -> list[ShardTask]:
        """The same, for others than the job that has prepared them. data: what is written down in `decided`."""
        return self._tasks(job, decided, corpus, _found(decided, memoryview(data), self._shards), work)

    def unwritten(self, tasks: Sequence[ShardTask], work: Folder) -> list[ShardTask]:
        """Those of the tasks whose shards are not there as they were written."""
        with work.inside(_WORK) as folder:
            return [task for task in tasks if self._told_of(task, folder, reads=True) is None]

    @property
    def places(self) -> list[Path]:
        """Where the shards are."""
        return [self._output / shard.name for shard in self._shards]

    def _tasks(self, job: str, decided: Path, corpus: Corpus, shards: list[Shard], work: Folder) -> list[ShardTask]:
        sizes = [size_of(source) for source in corpus.sources]
        most = max(TASK_BYTES, sum(sizes) // MOST_TASKS)
        lots: list[list[Shard]] = []
        held = most
        for shard, own in zip(shards, sizes, strict=True):
            if held >= most:
                lots.append([])
                held = 0
            lots[-1].append(shard)
            held += own
        name = name_of([fpstore.__version__, "shards", job, [[shard.name for shard in lot] for lot in lots]])
        with work.inside(_WORK) as folder:
            claim(folder, name, _ABOUT, {}, "--force begins again")
        about = fpstore.__version__, folder.path.absolute(), self._output, decided
        return [
            ShardTask(
                Maker(name, number),
                *about,
                tuple(lot),
                tuple(corpus.alone(shard.number) for shard in lot),
                corpus.recipe,
            )
            for number, lot in enumerate(lots)
        ]

    def _told_of(self, task: ShardTask, folder: Folder, *, reads: bool = False) -> list[dict[str, Any]] | None:
        """What a task has told of its shards, if these are there as it left them; reads: every byte of them.

        Of what was just written the size has to do: nobody had time for it, and it may be in memory alone.
        """
        try:
            part = Part.open(folder, task.maker, _COLUMNS)
        except FileNotFoundError:
            return None
        with closing(part):
            told = _told_in(part.told)
            if told is None or [each["shard"] for each in told] != [shard.name for shard in task.shards]:
                raise part.untold()
        if all(_is_as_told(self._output / each["shard"], each, reads=reads) for each in told):
            return told
        folder.unlink(task.maker.name)
        return None

    def expect_whole(self, looks: Sequence[list[int] | None], told_of: bytes | None = None) -> None:
        """JobError where a shard is not as a finished job has left it; looks: of each, as its record has them.

        told_of: what tells of the shards, where that has yet to get its name.
        """
        marker = self._output / MARKER
        if told_of is None:
            told_of = marker.read_bytes() if marker.exists() else b""  # the job says that it went
        told = _told_in([_json_of(line) for line in told_of.splitlines()])
        if told is None:
            found_no = "found no list of shards with their checksums, expected that of a job that this fpstore ended"
            raise JobError(f"{found_no}; --force begins again", path=marker)
        for each in told:
            path, size = self._output / each["shard"], each["bytes"]
            if (found := _size_at(path)) != size:
                what = "nothing" if found is None else f"{found} bytes"
                expected = f"expected {size} bytes, as the job left it that is done; --force begins again"
                raise JobError(f"found {what}, {expected}", path=path)
        before = dict(zip(self.places, looks, strict=False))
        for each in told:
            path = self._output / each["shard"]
            # One that a task wrote again, late, has the same bytes, of another time.
            if look([path])[0] != before.get(path) and not _is_as_told(path, each, reads=True):
                expected = "expected those that the job left that is done; --force begins again"
                raise JobError(f"found other bytes, {expected}", path=path)


@dataclass(frozen=True)
class ShardTask(OfModule):
    """Some shards. version: of the fpstore that cut it; decided: the file in which what is kept is written down."""

    maker: Maker
    version: str
    folder: Path
    output: Path
    decided: Path
    shards: tuple[Shard, ...]
    inputs: tuple[Inputs, ...]
    recipe: Recipe

    def __str__(self) -> str:
        others = len(self.shards) - 1
        return f"task {self.maker.task}, shard {self.shards[0].name}{f' and {others} more' if others else ''}"

    def do(self) -> int:
        """Write the shards, and then the part that tells of them; how many documents they have."""
        expect_version(self, self.version)
        told = [self._write(shard, inputs) for shard, inputs in zip(self.shards, self.inputs, strict=True)]
        with Folder.open(self.folder) as folder, whole_file(folder, self.maker.name) as file:
            write_runs(file, self.maker, _COLUMNS, [], told)
        return sum(shard.kept for shard in self.shards)

    def _write(self, shard: Shard, inputs: Inputs) -> dict[str, Any]:
        corpus = Corpus(inputs, self.recipe, 0, 1, all_columns=True)
        place = self.output / shard.name
        keeping = Keeping(place, corpus, form=form_of_shard(place))
        with Folder.open(place.parent) as folder, whole_file(folder, place.name) as file:
            if keeping.pack is None:
                self._fill(file, keeping, corpus, shard)
            else:
                with unnamed(place.parent) as part:
                    self._fill(part, keeping, corpus, shard)
                    part.seek(0)
                    keeping.pack(part, file)  # type: ignore[arg-type]
            file.flush()
            length = os.fstat(file.fileno()).st_size
            digest = _digest_of(file.fileno())
        told = {"shard": shard.name, "documents": shard.documents, "kept": shard.kept}
        return {**told, "bytes": length, "crc32c": digest}

    def _fill(self, file: IO[bytes], keeping: Keeping, corpus: Corpus, shard: Shard) -> None:
        """Write the kept documents."""
        decided = _Decided(self.decided, shard)
        file.write(keeping.head)
        is_first = not keeping.head
        path = corpus.sources[0]
        if shard.kept:
            self._expect_same(path, shard)
            for batch in corpus.batches():
                which = decided.take(batch)
                if which is None:
                    raise _changed(path)
                lines = keeping.lines(batch, which, is_first=is_first)
                file.write(lines if isinstance(lines, bytes) else lines.data)
                is_first = is_first and not len(lines)
            if not decided.is_at_end:
                raise _changed(path)
            self._expect_same(path, shard)

    def _expect_same(self, path: str, shard: Shard) -> None:
        if stamp_of(path) != shard.stamp:
            raise _changed(path)


def _told_in(told: object) -> list[dict[str, Any]] | None:
    """What is told of shards, one by one; None where it is something else."""
    if not isinstance(told, list):
        return None
    are_so = (
        isinstance(each, dict) and all(type(each.get(name)) is kind for name, kind in _TOLD.items()) for each in told
    )
    return told if all(are_so) else None


def _json_of(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class _Decided:
    """What is written down of one file, which is taken as its documents are read."""

    def __init__(self, path: Path, shard: Shard) -> None:
        within = shard.within
        with path.open("rb") as file:
            file.seek(within[0])
            self._records = _records(path, file.read(within[1] - within[0]), shard.number + 1)
        self._bits = np.empty(0, dtype=bool)
        self._marks = np.empty(0, dtype=np.uint64)
        self._due: deque[tuple[int, int]] = deque()

    def take(self, batch: Batch) -> Counts | None:
        """The indexes of the kept documents of a batch; None where those are others than who decided has read."""
        good = np.concatenate([np.empty(0, dtype=bool), *(own for _, own in batch.read)])
        while len(self._bits) < len(good):
            record = next(self._records, None)
            if record is None:
                return None
            self._due.append((int(np.count_nonzero(record.bits)), record.mark))
            self._bits = np.concatenate([self._bits, record.bits])
        bits, self._bits = np.split(self._bits, [len(good)])
        which = np.flatnonzero(bits[good])
        self._marks = np.concatenate([self._marks, marks_of(packed(taken(batch.texts, which)))])
        return which if len(which) == np.count_nonzero(bits) and self._are_same() else None

    def _are_same(self) -> bool:
        """Whether the kept documents that were read are those of who decided, record by record."""
        while self._due and len(self._marks) >= self._due[0][0]:
            count, mark = self._due.popleft()
            own, self._marks = np.split(self._marks, [count])
            if _mark_of(own) != mark:
                return False
        return True

    @property
    def is_at_end(self) -> bool:
        """Whether all that is written down was taken."""
        return not (len(self._bits) or self._due or next(self._records, None))


class _Record(NamedTuple):
    """What is written down of some documents of a file. start, end: where; bits: which are kept of all read."""

    number: int
    documents: int
    mark: int
    bits: Array
    start: int
    end: int


def _records(path: Path, data: bytes | memoryview, files: int) -> Iterator[_Record]:
    start = 0
    while start < len(data):
        first = start + _HEAD.size
        number, count, good, mark = _HEAD.unpack_from(data, start) if first <= len(data) else (0, 0, 0, 0)
        last, end = first + -(-count // 8), first + -(-count // 8) + _SEAL.size
        is_one = 0 < count <= 8 * (len(data) - first) and number < files and end <= len(data)
        if not is_one or _SEAL.pack(crc32c(data[start:last])) != data[last:end]:
            raise JobError(f"{path}, byte {start}: found no record of what is kept, expected one; --force begins again")
        bits = np.unpackbits(np.frombuffer(data[first:last], dtype=np.uint8), count=count).astype(bool)
        yield _Record(number, good, mark, bits, start, end)
        start = end


def _found(path: Path, data: memoryview, shards: Sequence[Shard]) -> list[Shard]:
    """The shards with what is written down of them."""
    found = list(shards)
    for record in _records(path, data, len(found)):
        one = found[record.number]
        within = one.within[0] if one.within[1] else record.start, record.end
        found[record.number] = replace(
            one,
            within=within,
            documents=one.documents + record.documents,
            kept=one.kept + int(np.count_nonzero(record.bits)),
        )
    return found


def _mark_of(marks: Keys) -> int:
    """That of some kept documents, in order."""
    return int.from_bytes(hashlib.blake2b(marks.astype("<u8").tobytes(), digest_size=8).digest(), "little")


def make_output(path: Path) -> None:
    """The folder of the shards, where there is none, durably. NotADirectoryError, FileNotFoundError for its own folder.

    One that is there may have been made by a job that was killed before that.
    """
    try:
        path.mkdir()
        sync_folder(path.parent)
    except FileExistsError:
        if not path.is_dir():
            told = "found a file, expected a folder for shards, or nothing"
            raise NotADirectoryError(errno.ENOTDIR, told, str(path)) from None
        with suppress(PermissionError):  # where somebody else made it
            sync_folder(path.parent)
    except FileNotFoundError:
        raise no_folder("the shards would lie in a folder", path) from None


def _make_folders(output: Path, shards: Sequence[Shard]) -> None:
    """Those of the shards, durably. FileExistsError for a link, which would lead shards elsewhere."""
    for place in sorted({(output / shard.name).parent for shard in shards}):
        place.mkdir(parents=True, exist_ok=True)
        while place != output:
            if place.is_symlink():
                raise _there(place, "it is a link, expected a folder; remove it, or name another folder for the shards")
            place = place.parent
            sync_folder(place)


def _size_at(path: Path) -> int | None:
    """Of a file; None where there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _is_as_told(path: Path, told: dict[str, Any], *, reads: bool) -> bool:
    """Whether a shard has the size that is told of it, and, where it is read, the bytes."""
    if _size_at(path) != told["bytes"]:
        return False
    if not reads:
        return True
    with path.open("rb") as file:
        return bool(_digest_of(file.fileno()) == told["crc32c"])


def _digest_of(fd: int) -> str:
    """The CRC-32C of all bytes of a file, as 8 digits."""
    found, at = 0, 0
    while data := os.pread(fd, _READ_BYTES, at):
        found, at = crc32c(data, found), at + len(data)
    return f"{found:08x}"


def _there(path: Path, told: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, f"already there; {told}", str(path))


def _raise(error: OSError) -> None:
    raise error


def _changed(path: str) -> JobError:
    return changed("found other documents than those that were decided about, expected the same: it has changed", path)
