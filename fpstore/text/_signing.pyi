from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.text._simhash import Idf

Words = npt.NDArray[np.uint64]
Signatures = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]

MOST_VALUES: int

class Permutations:
    dtype: np.dtype[Any]
    def __init__(self, kind: str, factors: Words, terms: Words) -> None: ...

def sign(
    texts: Sequence[str | bytes],
    permutations: Permutations,
    *,
    normalisation: str = "nfkc-casefold",
    tokens: str = "words",
    shingle: int = 4,
    weights: str = "presence",
    idf: Idf | None = None,
    hash: str = "xxh3",
    seed: int = 0,
    tie: str = "clear",
    sketch: str = "minhash",
    dense_shingle: int = 0,
    threads: int = 1,
    keeps: bool = False,
) -> tuple[Signatures, npt.NDArray[np.uint32], list[tuple[Words, Words]]]: ...
def sign_hashes(hashes: Words, ends: Words, permutations: Permutations) -> Signatures: ...
