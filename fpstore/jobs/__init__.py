"""Owns the jobs over whole corpora: they stream, write files, and go on where they were interrupted."""

from fpstore.jobs.dedup import Summary, dedup
from fpstore.jobs.journal import JobError

__all__ = ["JobError", "Summary", "dedup"]
