"""A process that ends with a writer that nobody closed."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import fpstore
from fpstore.living.sizes import LivingSizes
fpstore.create(sys.argv[1]).close()
store = fpstore.Store(Path(sys.argv[1]), "w", durability=sys.argv[2], sizes=LivingSizes(flush_rows=5, max_pending_rows=10))
for i in range(30):
    store.add(np.arange(3, dtype=np.uint64) + np.uint64(i), ids=np.arange(3, dtype=np.uint64))
"""


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_a_process_ends_while_its_writer_flushes(tmp_path: Path, durability: str) -> None:
    for number in range(3):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / str(number)), durability]
        subprocess.run(command, check=True, timeout=60)
