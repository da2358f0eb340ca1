"""What the index of a record has of names and texts, plainly: the twin of fpstore.jobs._appending."""

import struct
from collections.abc import Sequence
from typing import Any

from fpstore._codec import crc32c


def sealed(entries: Any, names: Sequence[bytes], texts: Sequence[bytes]) -> Any:
    """Entries, from the first of an index on, with the ends and the checksums of these names and texts filled in."""
    whole = b""
    for at, entry in enumerate(entries):
        for column, values in (("name", names), ("text", texts)):
            so_far = b"".join(values[: at + 1])
            entry[f"{column}_end"], entry[f"{column}_crc"] = len(so_far), crc32c(so_far)
        own = entry.tobytes()[:-4]
        entry["crc"] = crc32c(whole + own)
        whole += own + struct.pack("<I", entry["crc"])
    return entries
