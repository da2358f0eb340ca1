"""The tool that counts the rooms on a way: it sees rooms, and only entries from another one."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import pytest
import ways

from fpstore.checks import expect
from fpstore.plans import families


def test_an_entry_is_a_call_from_another_room() -> None:
    def work() -> None:
        expect("a", 1, True, "it")
        families.even_bands(0b1100, 2)

    found = ways.entries(work)
    assert found == {"checks": 1, "plans": 1}


@pytest.mark.slow
def test_a_probe_enters_few_rooms_and_a_build_enters_creation() -> None:
    tool = Path(ways.__file__)
    lines = subprocess.run([sys.executable, tool], capture_output=True, text=True, check=True).stdout.splitlines()
    counts = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    assert counts.keys() == {"build", "probe", "add"}
    assert counts["probe"] < counts["build"]
    assert "creation" in lines[0]
