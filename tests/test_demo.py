"""The demo ends as it says, is short, and what it tells to type at its end runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

MAX_LINES = 60  # with what `make demo` says before it, where everything is installed


@pytest.mark.slow
def test_the_demo_is_short_and_says_how_to_go_on(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "demo.py")]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) < MAX_LINES
    typed = re.findall(r"^\$ fpstore (\w+)", done.stdout, re.M)
    assert typed[0] == "build"
    assert typed[-2:] == ["dedup", "add"]
    assert re.search(r"added 1 of 6 rows", done.stdout)

    # With a fpstore of these tests, wherever that is installed.
    script = tmp_path / "fpstore"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m fpstore "$@"\n')
    script.chmod(0o755)
    for line in lines[-3:]:
        assert re.match(r" *\S*/fpstore ", line), line
        own = re.sub(r"^ *\S*/fpstore ", "./fpstore ", line)
        gone = subprocess.run(["bash", "-c", own], cwd=tmp_path, env=os.environ, capture_output=True, text=True)
        assert gone.returncode == 0, f"{line}\n{gone.stderr}"
    assert gone.stdout  # the last one probes with what it has built
    assert (tmp_path / "kept.jsonl").stat().st_size > 0
