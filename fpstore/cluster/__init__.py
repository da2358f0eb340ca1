"""Owns the batch job: searches and builds cut into tasks that processes do, on one machine or many, as one answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpstore.cluster.building import build, build_rank
    from fpstore.cluster.fingerprinting import Fingerprinted, fingerprint
    from fpstore.cluster.joining import components
    from fpstore.cluster.pairing import pairs, pairs_rank
    from fpstore.cluster.probing import Answer, probe, probe_rank
    from fpstore.cluster.shards import Shards
    from fpstore.cluster.similar import similar_pairs, similar_pairs_rank

__all__ = [
    "Answer",
    "Fingerprinted",
    "Shards",
    "build",
    "build_rank",
    "components",
    "fingerprint",
    "pairs",
    "pairs_rank",
    "probe",
    "probe_rank",
    "similar_pairs",
    "similar_pairs_rank",
]

# By what is asked for: a worker that does tasks imports what these need, and no more.
_HOME_OF = {
    "Answer": "probing",
    "Fingerprinted": "fingerprinting",
    "Shards": "shards",
    "build": "building",
    "build_rank": "building",
    "components": "joining",
    "fingerprint": "fingerprinting",
    "pairs": "pairing",
    "pairs_rank": "pairing",
    "probe": "probing",
    "probe_rank": "probing",
    "similar_pairs": "similar",
    "similar_pairs_rank": "similar",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fpstore.cluster' has no attribute {name!r}")
    found = getattr(import_module(f"fpstore.cluster.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
