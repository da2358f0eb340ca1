from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

def gather(data: Bytes, offsets: Offsets, indexes: npt.NDArray[Any]) -> Bytes: ...
def digests(names: Bytes, name_offsets: Offsets, values: Bytes, value_offsets: Offsets, seed: int) -> Bytes: ...
