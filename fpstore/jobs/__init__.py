"""Owns the jobs over whole corpora: they stream, write files, and go on where they were interrupted."""

from fpstore.errors import JobError
from fpstore.jobs.cluster import cluster
from fpstore.jobs.corpus import Sources
from fpstore.jobs.dedup import dedup
from fpstore.jobs.graph import components, document_pairs
from fpstore.jobs.leaders import MOST_LOOKED_AT
from fpstore.jobs.summary import Summary

__all__ = ["MOST_LOOKED_AT", "JobError", "Sources", "Summary", "cluster", "components", "dedup", "document_pairs"]
