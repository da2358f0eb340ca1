import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int64]

def apart(
    data: Bytes,
    offsets: Counts,
    indexes: Counts,
    others: Bytes,
    other_offsets: Counts,
    other_indexes: Counts,
    tokens: int,
) -> tuple[Bytes, Counts, Counts]: ...
