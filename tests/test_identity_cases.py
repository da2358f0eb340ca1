"""Some of the cases of tools/check_identity.py, and mistakes that it must find."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_identity.py"


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, TOOL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_whatever_is_done_to_the_files() -> None:
    done = run_tool("--every", "61")
    assert done.returncode == 0, done.stdout + done.stderr
    cases, _, rest = done.stdout.splitlines()[-1].partition(" cases of ")
    assert int(cases) > 120
    assert int(rest.partition(" damages")[0]) > 100
    assert done.stdout.endswith(" 0 findings\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "cases", "finding"),
    [
        ("path", "^replaced by another store, a deploy / the writer / compact", "though the store is not there"),
        ("links", "aside is a link to the victim's folder / nobody / - / open to write", "outside the store, "),
        ("sweep", "^mv -n of a newer copy.s segments into it / nobody / - / open to write", "are gone: 0000000"),
    ],
)
def test_a_mistake_that_is_planted_is_found(mistake: str, cases: str, finding: str) -> None:
    done = run_tool("--match", cases, "--plant", mistake)
    assert done.returncode == 1, done.stdout + done.stderr
    assert finding in done.stdout


@pytest.mark.slow
def test_every_damage_is_played_with_each_holder_and_each_call() -> None:
    names = run_tool("--list").stdout.splitlines()
    assert len(names) == len(set(names)) > 9000
    assert len({tuple(name.split(" / ")[1:]) for name in names}) > 40
