"""Owns the batch job: searches cut into tasks that processes do, on one machine or many, which give one answer."""

from fpstore.cluster.pairing import pairs
from fpstore.cluster.probing import Answer, probe, probe_rank

__all__ = ["Answer", "pairs", "probe", "probe_rank"]
