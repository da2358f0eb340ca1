"""Owns the jobs over whole corpora: they stream, write files, and go on where they were interrupted."""

from fpstore.errors import JobError
from fpstore.jobs.cluster import cluster
from fpstore.jobs.corpus import Inputs
from fpstore.jobs.dedup import dedup
from fpstore.jobs.graph import components, document_pairs
from fpstore.jobs.sharing import measure_rank
from fpstore.jobs.stored import cluster_store
from fpstore.jobs.summary import ClusterSummary, DedupSummary, PairsSummary, Summary

__all__ = [
    "ClusterSummary",
    "DedupSummary",
    "Inputs",
    "JobError",
    "PairsSummary",
    "Summary",
    "cluster",
    "cluster_store",
    "components",
    "dedup",
    "document_pairs",
    "measure_rank",
]
