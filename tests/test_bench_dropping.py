"""The bench of early dropping keeps what it says, and both of its ways count the same pairs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

TOOL = Path(__file__).parent.parent / "tools" / "bench_dropping.py"
BANDS = 16


@pytest.mark.slow
def test_both_ways_count_the_same_and_one_keeps_fewer_rows(tmp_path: Path) -> None:
    alone = [" ".join(f"w{text}x{word}" for word in range(30)) for text in range(5)]
    texts = [*alone, alone[0], alone[0], alone[1]]
    lines = "".join(json.dumps({"id": str(number), "text": text}) + "\n" for number, text in enumerate(texts))
    (tmp_path / "some.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    command = [sys.executable, TOOL, tmp_path, "--sets", "some", "--small", "--json", "--dir", tmp_path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (table,) = json.loads(done.stdout)["tables"]
    (row,) = table["rows"]
    assert (row["documents"], row["with a pair"], row["pairs"]) == (8, 5, 3 + 1)
    # Of the five that are equal to another all rows are kept, and of the three others none.
    assert (row["rows, dropped"], row["rows, all"]) == (5 * BANDS, 8 * BANDS)
