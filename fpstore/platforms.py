"""Says where fpstore runs, for `import fpstore` and for the install, which runs this file before there is a package.

And on how many processors: what "all threads" means.
"""

import os
import sys

SUPPORTED = "64-bit little-endian Linux"


def refusal(system: str, largest_size: int, byte_order: str) -> str | None:
    """Why fpstore does not run on this platform, None where it does: sys.platform, sys.maxsize and sys.byteorder."""
    width = largest_size.bit_length() + 1
    if (system, width, byte_order) == ("linux", 64, "little"):
        return None
    found = f"{system}, {width} bits, {byte_order}-endian"
    return f"platform: found {found}, expected {SUPPORTED}, the only one that fpstore supports so far"


def expect_supported() -> None:
    """ImportError, with what is supported, on any other platform."""
    why = refusal(sys.platform, sys.maxsize, sys.byteorder)
    if why is not None:
        raise ImportError(why, name="fpstore")


def processor_count() -> int:
    """How many processors this process may use: those it is bound to (taskset, cpusets), not those that there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
