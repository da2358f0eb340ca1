"""MinHash: signatures of texts, the similarity that two of them estimate, and stores in which like ones are found."""

from fpstore.minhash.making import build, create, open
from fpstore.minhash.signing import sign, similarity
from fpstore.minhash.store import MinHashStore
from fpstore.query.similar import (
    Document,
    Documents,
    SimilarAddition,
    SimilarAdditions,
    SimilarMatch,
    SimilarMatches,
    SimilarPair,
    SimilarPairs,
)

__all__ = [
    "Document",
    "Documents",
    "MinHashStore",
    "SimilarAddition",
    "SimilarAdditions",
    "SimilarMatch",
    "SimilarMatches",
    "SimilarPair",
    "SimilarPairs",
    "build",
    "create",
    "open",
    "sign",
    "similarity",
]
