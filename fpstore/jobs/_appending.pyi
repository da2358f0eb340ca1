from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Values = tuple[Bytes, Offsets]

OF_INDEX: int
OF_VALUES: int

def append_lines(
    fd: int, path: Path, data: Bytes, offsets: Offsets, indexes: Offsets, length: int = 0, flags: int = 0
) -> int: ...
def append_bytes(fd: int, path: Path, data: bytes | Bytes, length: int = 0, flags: int = 0) -> None: ...
def append_documents(
    entries: Bytes,
    fields: Sequence[int],
    files: Sequence[tuple[int, Path]],
    names: Values,
    texts: Values,
    indexes: Offsets,
    before: Sequence[int],
    after_one: int,
    is_first: bool,
    rooms: Sequence[Bytes],
) -> tuple[int, int]: ...
def read_values(
    index: int,
    entries: int,
    fields: Sequence[int],
    rows: Offsets,
    values: int,
    value_bytes: int,
    begins: Offsets | None = None,
    last_entries: tuple[int, Bytes] | None = None,
    last_values: tuple[int, Bytes] | None = None,
) -> tuple[Any, Any, tuple[int, ...] | None]: ...
