"""Owns the jobs over whole corpora: they stream, write files, and go on where they were interrupted."""

from fpstore.errors import JobError
from fpstore.jobs.cluster import cluster
from fpstore.jobs.corpus import Sources
from fpstore.jobs.dedup import dedup
from fpstore.jobs.graph import components, document_pairs
from fpstore.jobs.summary import Summary

__all__ = ["JobError", "Sources", "Summary", "cluster", "components", "dedup", "document_pairs"]
