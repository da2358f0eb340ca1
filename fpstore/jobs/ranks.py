"""Owns what processes that no engine starts write of a job in shards, and what the job leaves for them meanwhile.

They measure first, the job decides, they write, and the job ends. So it is called twice: it leaves the shards to them
when it has decided, and does what nobody has done the next time.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fpstore.cluster.local import run_here
from fpstore.cluster.work import claimed
from fpstore.disk import Folder
from fpstore.errors import JobError, PathLike
from fpstore.inputs.portions import PLAIN_RATE
from fpstore.jobs.changed import AGAIN
from fpstore.jobs.claims import PART, WORK, folder_of
from fpstore.jobs.corpus import Corpus
from fpstore.jobs.each import MARKER, EachFile
from fpstore.jobs.files import read_json, write_json
from fpstore.jobs.journal import Job
from fpstore.jobs.shards import Sharding

# In the job's own folder: which job it is, of what its ranks have measured, and how much is decided.
_LEFT = "left.json"
_FIELDS: dict[str, type] = {"job": str, "measured": str, "bytes": int}


class _LeftError(Exception):
    """Ends a call of a job that goes on when its ranks have written."""


class Leaving:
    """A context that the call of a job ends in which leaves shards to ranks. tasks: how many, 0 where it does not."""

    tasks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return isinstance(error, _LeftError)

    def leave(self, job: Job, corpus: Corpus, sharding: Sharding, folder: PathLike) -> None:
        """End the call, unless an earlier one has left them; all is decided, and durable.

        folder: where the ranks have measured.
        """
        if _LEFT in job.work_folder.names():
            return
        with Folder.open(Path(folder)) as home:
            measured = claimed(home)
        self.tasks = len(sharding.prepare(job, corpus))
        write_json(job.work_folder, _LEFT, {"job": job.id, "measured": measured, "bytes": job.files[0].length})
        raise _LeftError


def are_left(output: Path) -> bool:
    """Whether a job has decided about shards there, and left them to ranks."""
    return (folder_of(output.absolute() / MARKER) / WORK / _LEFT).exists()


def write_rank(output: Path, files: EachFile, corpus: Corpus, measured: str, own: int, count: int) -> int | None:
    """Write the shards of one rank of so many, which nobody has written; how many tasks that were.

    None where the job has yet to decide, or is done. measured: what ranks have measured, as their folder says. JobError
    for a job of something else.
    """
    home = folder_of(output / MARKER)
    sharding = Sharding(output, files)
    try:
        with Folder.open(home / WORK) as work:
            left = read_json(work, _LEFT)
            if left is None:
                return None
            _expect(left, measured, home)
            data = (home / PART).read_bytes()[: left["bytes"]]
            tasks = sharding.left_of(left["job"], home / PART, data, corpus, work)[own::count]
            tasks = sharding.unwritten(tasks, work)
            run_here(tasks, 1, (corpus.total_bytes or 0) / PLAIN_RATE)
            return len(tasks)
    except FileNotFoundError:
        if home.exists():
            raise
        return None  # the job is done, by whoever was quicker


def _expect(left: dict[str, Any], measured: str, home: Path) -> None:
    if any(type(left.get(name)) is not kind for name, kind in _FIELDS.items()):
        raise JobError(f"found no record of what is left to ranks, expected one; {AGAIN}", path=home)
    if left["measured"] != measured:
        told = f"found a job that has decided by {left['measured']:.40}, expected one by {measured}"
        raise JobError(f"{told}: of these inputs and options; the job: {AGAIN}", path=home)
