"""Owns stores that a job makes for itself alone, and makes again whenever it goes on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import fpstore
from fpstore import Store
from fpstore.jobs.journal import Job


@contextmanager
def scratch_store(job: Job, name: str, max_distance: int, bits: int) -> Iterator[Store]:
    """An empty store in the job's folder, for writing, of fingerprints of so many bits; whatever is there goes."""
    path = job.work / name
    shutil.rmtree(path, ignore_errors=True)
    fpstore.create(path, max_distance=max_distance, bits=bits).close()
    with job.hold(fpstore.open(path, "w", durability="batch")) as store:
        yield store
