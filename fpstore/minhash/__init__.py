"""MinHash: signatures of texts, and the Jaccard similarity that two of them estimate."""

from fpstore.minhash.signing import sign, similarity

__all__ = ["sign", "similarity"]
