"""The kernels beside plain twins in C (tests/native): decoding, sorting, searches, joins; by every instruction set."""

import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import kernels

OWN = Path(__file__).parent / "native"
# What of the kernels the twins are for, and what that needs.
PARTS = {
    "platform",
    "crc32c",
    "permute",
    "sort",
    "merge",
    "source",
    "view",
    "decode",
    "encode",
    "match",
    "search",
    "several",
    "scan",
    "pairs",
    "names",
    "ids",
    "json",
    "distinct",
    "listed",
    "interpreter",
}
ROUNDS = 400
SETS = {"": "2", "FPSTORE_NARROW": "1", "FPSTORE_PORTABLE": "0"}


def compiler() -> list[str]:
    """CC of the environment, or gcc, with the flags of the environment."""
    command = shlex.split(os.environ.get("CC") or "gcc")
    if shutil.which(command[0]) is None:
        pytest.skip(f"the compiler {command[0]} is not installed")
    return [*command, *shlex.split(os.environ.get("CFLAGS", ""))]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    command = compiler()
    # Optimised a little: the twins take most of the time.
    level = os.environ.get("FPSTORE_OPTIMIZE") or "-O1"
    native = kernels.sources(kernels.machine_of(command)).items()
    sources = {source: flags for source, flags in native if source.stem.partition("_")[0] in PARTS}
    sources |= {source: ["-Wextra", f"-I{kernels.NATIVE}"] for source in sorted(OWN.glob("*.c"))}

    def compiled(job: tuple[Path, list[str]]) -> Path:
        source, flags = job
        made = folder / f"{source.stem}.o"
        options = [*shlex.split(level), "-Werror", *kernels.FLAGS, *flags]
        subprocess.run([*command, *options, "-c", source, "-o", made], check=True)
        return made

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, sources.items()))
    subprocess.run(
        [*command, *shlex.split(os.environ.get("LDFLAGS", "")), *objects, "-o", folder / "plain"], check=True
    )
    return folder / "plain"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 1_000_000])
def test_every_set_of_kernels_does_what_the_plain_twins_do(program: Path, seed: int) -> None:
    done = subprocess.run([program, str(ROUNDS), str(seed)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{ROUNDS} rounds" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETS)
def test_the_sets_that_are_left_out_are_not_run(program: Path, setting: str) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FPSTORE_")}
    environment = plain | {setting: "1"} if setting else plain
    said = subprocess.run([program, "1", "1"], capture_output=True, text=True, check=True, env=environment).stdout
    assert said.startswith("sets 0..")
    assert said[len("sets 0..")] <= SETS[setting]
