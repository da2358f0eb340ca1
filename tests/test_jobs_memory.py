"""Memory that a job lets go of stays with the process."""

import os
import subprocess
import sys

import pytest

# How many pages the system gives for thirty arrays of 1 MiB, which were let go of before, ten times over.
ASKED = """
import resource, sys
import numpy as np
from fpstore.jobs.memory import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
def batch():
    held = [np.ones(1 << 20, dtype=np.uint8) for _ in range(30)]
batch(); batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(way: str) -> int:
    told = subprocess.run([sys.executable, "-c", ASKED, way], check=True, capture_output=True, text=True)
    return int(told.stdout)


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="of glibc, which learns what to keep")
def test_memory_that_is_let_go_of_is_kept_for_what_comes_next() -> None:
    assert pages("let go") > 10_000  # else the next line shows nothing
    assert pages("keep") < 1_000


LIMITED = """
import resource
from fpstore.jobs.memory import keep_memory
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (16 << 20), resource.RLIM_INFINITY))
keep_memory()
"""


def test_a_process_that_may_not_have_so_much_does_its_job_without() -> None:
    told = subprocess.run([sys.executable, "-c", LIMITED], check=False, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
