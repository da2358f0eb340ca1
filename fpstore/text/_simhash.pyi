from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.float64]
Columns = tuple[Hashes, npt.NDArray[np.uint32], npt.NDArray[np.bool_], npt.NDArray[np.uint32], Weights]

SEED_BITS: dict[str, int]

class Idf:
    def __init__(self, hashes: Hashes, weights: Weights, unseen: float) -> None: ...

def measure(
    texts: Sequence[str | bytes],
    *,
    normalisation: str = "nfkc-casefold",
    tokens: str = "words",
    shingle: int = 4,
    weights: str = "frequency",
    idf: Idf | None = None,
    hash: str = "xxh3",
    seed: int = 0,
    tie: str = "clear",
    sketch: str = "simhash",
    dense_shingle: int = 0,
    threads: int = 1,
) -> Columns: ...
def normalised(text: str | bytes, normalisation: str = "nfkc-casefold") -> str: ...
def tokens_of(text: str | bytes, *, normalisation: str = "nfkc-casefold", tokens: str = "words") -> list[str]: ...
def hash_of(data: bytes | bytearray | memoryview, hash: str = "xxh3", seed: int = 0) -> int: ...
