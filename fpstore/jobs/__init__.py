"""Owns the jobs over whole corpora: they stream, write files, and go on where they were interrupted."""

from fpstore.jobs.cluster import ClusterSummary, cluster
from fpstore.jobs.dedup import Summary, dedup
from fpstore.jobs.graph import GraphSummary, components, document_pairs
from fpstore.jobs.journal import JobError

__all__ = [
    "ClusterSummary",
    "GraphSummary",
    "JobError",
    "Summary",
    "cluster",
    "components",
    "dedup",
    "document_pairs",
]
