"""Some of the cases of tools/check_identity.py, and mistakes that it must find."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from helpers import in_memory
from id_types import SIGNED

TOOL = Path(__file__).parent.parent / "tools" / "check_identity.py"


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, TOOL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=in_memory())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id_type", "every"), [("uint64", 61), ("string", 107), ("bytes", 311), ("none", 311), (SIGNED, 211)]
)
def test_nothing_acknowledged_is_lost_whatever_is_done_to_the_files(id_type: str, every: int) -> None:
    done = run_tool("--id-type", id_type, "--every", str(every))
    assert done.returncode == 0, done.stdout + done.stderr
    cases, _, rest = done.stdout.splitlines()[-1].partition(" cases of ")
    assert int(cases) > 9000 // every
    assert int(rest.partition(" damages")[0]) > 25
    assert done.stdout.endswith(" 0 findings\n")


@pytest.mark.slow
@pytest.mark.parametrize("id_type", ["uint64", "string", SIGNED])
@pytest.mark.parametrize(
    ("mistake", "cases", "finding"),
    [
        ("path", "^replaced by another store, a deploy / the writer / compact", "though the store is not there"),
        ("links", "aside is a link to the victim's folder / nobody / - / open to write", "outside the store, "),
        ("sweep", "^mv -n of a newer copy.s segments into it / nobody / - / open to write", "are gone: 0000000"),
    ],
)
def test_a_mistake_that_is_planted_is_found(id_type: str, mistake: str, cases: str, finding: str) -> None:
    done = run_tool("--id-type", id_type, "--match", cases, "--plant", mistake)
    assert done.returncode == 1, done.stdout + done.stderr
    assert finding in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes", "none", SIGNED])
def test_every_damage_is_played_with_each_holder_and_each_call(id_type: str) -> None:
    names = run_tool("--id-type", id_type, "--list").stdout.splitlines()
    assert len(names) == len(set(names)) > 9000
    assert len({tuple(name.split(" / ")[1:]) for name in names}) > 40
    for suffix, types in ((".fpnames", ("string", "bytes")), (".fpsketch", (SIGNED,))):
        beside = {name.split(" / ")[0] for name in names if suffix in name}
        assert len(beside) > 20 if id_type in types else not beside
