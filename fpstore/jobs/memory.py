"""Owns what becomes of memory that a job lets go of, batch by batch: it stays with the process, for the next batch."""

from contextlib import suppress

import numpy as np

# As much as the C library of Linux (glibc) keeps by itself, but for its own mark of it.
_MOST_BYTES = (32 << 20) - (1 << 16)


def keep_memory() -> None:
    """Have the C library keep up to 64 MiB that were let go of, which each batch would have to be given anew.

    It learns by what is let go of: blocks of up to 32 MiB, and twice as much in all, are kept from then on where one of
    that size came and went, as in any process that has one. Nothing of this one is looked at, so that it takes none.
    With a library that does not learn so nothing happens, nor where the process may not have so much.
    """
    with suppress(MemoryError):
        np.empty(_MOST_BYTES, dtype=np.uint8)
