"""MinHash signatures: stores of them, in which documents that share a band of their signatures are found."""

from fpstore.minhash.making import build, create, open
from fpstore.minhash.store import MinHashStore

__all__ = ["MinHashStore", "build", "create", "open"]
