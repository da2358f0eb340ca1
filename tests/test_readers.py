"""Readers beside a writer for a few seconds, by the tool that does it for longer."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_readers.py"


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, TOOL, "--readers", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_every_answer_beside_a_writer_is_right_for_a_state_of_its_time() -> None:
    done = run_tool("--seconds", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    operations, _, answers = done.stdout.splitlines()[-1].partition(" operations, ")
    assert int(operations) > 0
    assert int(answers.partition(" ")[0]) > 0
    assert done.stdout.endswith("0 wrong\n")


@pytest.mark.slow
def test_a_reader_that_never_moves_on_is_reported() -> None:
    done = run_tool("--seconds", "4", "--plant")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG read 0: " in done.stdout
    assert "read 1: " not in done.stdout
