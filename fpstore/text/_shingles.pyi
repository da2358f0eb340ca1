from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fpstore.text._simhash import Columns, Hashes, Idf, Weights
from fpstore.text.held import HashesPart

Ends = npt.NDArray[np.int64]

def features_many(
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
) -> list[tuple[Hashes, Weights | None, Ends]]: ...
def measure_and_keep(
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
    bits: int = 64,
    threads: int = 1,
) -> tuple[Columns, list[HashesPart]]: ...
def features_of(
    hashes: Hashes,
    starts: Ends,
    counts: Ends,
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
) -> list[tuple[Hashes, Weights | None, Ends]]: ...
