"""Owns the batch job: a search cut into tasks that processes do, on one machine or many, which give one answer."""

from fpstore.cluster.probing import Answer, probe, probe_rank

__all__ = ["Answer", "probe", "probe_rank"]
