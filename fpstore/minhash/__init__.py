"""MinHash: signatures of texts, the similarity that two of them estimate, and stores in which like ones are found."""

from fpstore.minhash.making import build, create, open
from fpstore.minhash.signing import sign, similarity
from fpstore.minhash.store import MinHashStore

__all__ = ["MinHashStore", "build", "create", "open", "sign", "similarity"]
