import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.float64]

TIES: dict[str, int]

def simhash_of(hashes: Hashes, weights: Weights, tie: str = "clear") -> int: ...
def xxh3(data: bytes | bytearray | memoryview) -> int: ...
def xxh64(data: bytes | bytearray | memoryview) -> int: ...
