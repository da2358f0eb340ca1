"""The gate over compilers: what it builds, and that a step which fails is told apart from one that passes."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import gate

TOOLS = gate.ROOT / "tools"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> gate.Build:
    monkeypatch.setattr(gate, "FOLDER", tmp_path)
    made = gate.Build("gcc", "-O1")
    made.folder.mkdir()
    return made


def test_every_compiler_builds_at_every_level() -> None:
    names = [build.name for build in gate.every_build()]
    assert sorted(names) == sorted(f"{compiler}-O{level}" for compiler in ("gcc", "clang") for level in range(4))


def test_the_test_files_of_every_choice_exist() -> None:
    for names in (gate.WHOLE_TESTS, gate.KERNEL_TESTS, gate.REDUCED_TESTS):
        assert all(any((TOOLS.parent / "tests").glob(f"test_{name}.py")) for name in names)


def test_a_step_runs_with_the_builds_compiler_and_package(build: gate.Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O3")
    code = "import os; print(*[os.environ.get(n) for n in ('CC', 'FPSTORE_OPTIMIZE', 'PYTHONPATH', 'CFLAGS', 'MORE')])"
    assert gate.run(build, "step", "-c", code, MORE="1").split() == ["gcc", "-O1", str(build.folder), "None", "1"]


def test_a_step_that_fails_is_named_with_the_end_of_what_it_said(build: gate.Build) -> None:
    with pytest.raises(gate.Failed, match=r"^step ended with status 3, see .*step\.log\nso it was$"):
        gate.run(build, "step", "-c", "print('so it was'); raise SystemExit(3)")


def test_another_build_than_the_one_made_is_refused(build: gate.Build) -> None:
    gate.check_imported(build, build.folder / "fpstore" / "_codec.so")
    with pytest.raises(gate.Failed, match=r"^the tests would import /elsewhere/_codec\.so$"):
        gate.check_imported(build, Path("/elsewhere/_codec.so"))


def test_no_build_at_all_is_a_failure() -> None:
    command = [sys.executable, str(TOOLS / "gate.py"), "--reduced", "--builds", "clang-O3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "no build to make\n")


def test_a_build_that_is_none_is_refused() -> None:
    command = [sys.executable, str(TOOLS / "gate.py"), "--builds", "gcc-O1,gcc-O9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "gcc-O9" in done.stderr.splitlines()[-1]
