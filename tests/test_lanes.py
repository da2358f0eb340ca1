"""The fast lane of tests, `make test-fast`: what is marked slow is left out, and something of every room is left."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Each of these is one long search, many commands, other systems, or a program to be compiled, beside tests of the same
# code elsewhere.
ALL_SLOW = {
    "test_bench_dropping.py",
    "test_cluster_engines.py",
    "test_cluster_local.py",
    "test_cluster_speculation.py",
    "test_demo.py",
    "test_identity_cases.py",
    "test_lanes.py",
    "test_living_model.py",
    "test_native_plain.py",
    "test_nursery.py",
    "test_readers.py",
    "test_workers.py",
}
# Skipped whole where the packages of make test-clients are not installed.
OF_CLIENTS = {"test_image_peers.py", "test_minhash_peers.py"}


@pytest.mark.slow
def test_every_file_of_tests_but_long_searches_has_some_that_are_not_slow() -> None:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:xdist",
        TESTS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=TESTS.parent)
    left = set(re.findall(r"tests/(test_\w+\.py)", done.stdout))
    assert {path.name for path in TESTS.glob("test_*.py")} - left - OF_CLIENTS == ALL_SLOW
