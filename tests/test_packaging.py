"""What is handed out is whole: the sdist is what git has, a wheel has every module, and half a build is none."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from pages import ROOT

import fpstore

# In git, and not in the sdist.
LEFT_OUT = {".gitignore": "says something to git alone"}
# Written by setuptools into every sdist.
METADATA = ("PKG-INFO", "setup.cfg", "fpstore.egg-info/")
# What lies about in a tree that was worked in.
GENERATED = (
    "fpstore/_codec.c",
    "fpstore/text/_simhash.c",
    "fpstore/_cyutility.c",
    "fpstore/_codec.cpython-311-x86_64-linux-gnu.so",
    "fpstore/__pycache__/store.cpython-311.pyc",
    "fpstore/native/decode.o",
    "build/native/0123/libfpstore.a",
    "tests/__pycache__/pages.cpython-311.pyc",
    "tests/.hypothesis/examples/0123",
    ".venv/bin/python",
    ".venv/lib/tools.py",
    "web.fpstore/catalog.mdb",
)


def files_of_git() -> list[str]:
    """Those that are in git, or would be after `git add .`; the tests of what is handed out are skipped elsewhere."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git, so nothing says which files there should be")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in {*names} - {""} if (ROOT / name).exists())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout in which somebody has worked."""
    root = tmp_path / "tree"
    for name in files_of_git():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / name)
    for name in GENERATED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("generated")
    # What an earlier sdist held.
    (root / "fpstore.egg-info").mkdir()
    (root / "fpstore.egg-info" / "SOURCES.txt").write_text("".join(f"{name}\n" for name in GENERATED))
    return root


def setup(tree: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `python setup.py ARGUMENTS` does in a tree."""
    command = [sys.executable, "setup.py", "--quiet", *arguments]
    return subprocess.run(command, cwd=tree, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.mark.slow
def test_the_sdist_has_what_git_has(tree: Path, tmp_path: Path) -> None:
    done = setup(tree, "sdist", "--dist-dir", str(tmp_path / "dist"))
    assert done.returncode == 0, done.stderr
    (packed,) = (tmp_path / "dist").iterdir()
    with tarfile.open(packed) as archive:
        names = [member.name.partition("/")[2] for member in archive if member.isfile()]
    assert sorted(name for name in names if not name.startswith(METADATA)) == [
        name for name in files_of_git() if name not in LEFT_OUT
    ]


@pytest.mark.slow
def test_a_wheel_has_every_module_and_what_it_reads(tree: Path, tmp_path: Path) -> None:
    done = setup(tree, "build_py", "--build-lib", str(tmp_path / "lib"))
    assert done.returncode == 0, done.stderr
    packed = {path.relative_to(tmp_path / "lib").as_posix() for path in (tmp_path / "lib").rglob("*") if path.is_file()}
    wanted = (".py", ".pyi", ".typed", ".bin")
    assert packed == {name for name in files_of_git() if name.startswith("fpstore/") and name.endswith(wanted)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("removed", "missing"),
    [
        ("_codec.pyx", "fpstore/_codec.pyx"),
        ("_codec.pyi", "fpstore/_codec.pyi"),
        ("_*.py[xi]", "fpstore/*.pyx"),
        ("_*.pyx", "fpstore/_answers.pyx, fpstore/_band_index.pyx"),
    ],
)
def test_a_source_that_is_missing_ends_the_build(tree: Path, removed: str, missing: str) -> None:
    for path in [*(tree / "fpstore").rglob(removed)]:
        path.unlink()
    done = setup(tree, "bdist_wheel", CC="/bin/false")
    assert done.returncode == 1
    assert done.stderr.startswith(f"setup.py: the sources are not whole: found no {missing}")
    assert not (tree / "dist").exists()


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["/bin/false", "no-such-compiler"])
def test_without_a_compiler_there_is_no_wheel(tree: Path, compiler: str) -> None:
    done = setup(tree, "bdist_wheel", CC=compiler)
    assert done.returncode == 1
    told = f"error: compiler: found no answer of '{compiler}', expected gcc or clang (CC says which)"
    assert done.stderr.strip().splitlines()[-1] == told
    assert not (tree / "dist").exists()


@pytest.mark.slow
def test_a_wheel_is_for_the_platform_that_compiled_it(tree: Path) -> None:
    asked = "import runpy, setuptools; setuptools.setup = lambda **given: print(len(given['ext_modules']));"
    command = [sys.executable, "-c", f"{asked} runpy.run_path('setup.py', run_name='__main__')"]
    done = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    assert int(done.stdout) == len([name for name in files_of_git() if name.endswith(".pyx")]) + 1  # what they share


def test_each_module_with_a_level_of_its_own_is_there() -> None:
    given = runpy.run_path(str(ROOT / "setup.py"))  # as a module, which runs nothing
    there = {name.removesuffix(".pyx").replace("/", ".") for name in files_of_git() if name.endswith(".pyx")}
    assert given["LOOPING"] | given["CALLED"] | given["OWN"] <= there
    assert not given["LOOPING"] & given["CALLED"]


def test_each_long_step_of_make_is_announced(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    asked = ["make", "--dry-run", f"VENV={venv}", "demo", "test", "lint", f"{venv}/.builders"]
    # A make that runs these tests would hand its own flags down.
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    lines = subprocess.run(asked, cwd=ROOT, env=alone, check=True, capture_output=True, text=True).stdout.splitlines()
    long = [at for at, line in enumerate(lines) if re.search(r" -m (venv|pip install) ", line)]
    assert len(long) == 5
    for at in long:
        assert lines[at - 1].startswith("echo "), lines[at]
        assert "--quiet --quiet" in lines[at] or " -m venv " in lines[at]


def test_ci_works_with_what_is_handed_out() -> None:
    assert "tools/check_packages.py" in (ROOT / ".ci" / "run").read_text()


def test_the_version_is_that_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == fpstore.__version__


def test_stores_in_examples_are_called_fpstore() -> None:
    # .fps is what chemfp's files of chemical fingerprints are called.
    other = re.compile(r"\w\.fps\b")
    read = [path for path in map(ROOT.joinpath, files_of_git()) if path.suffix != ".bin"]
    assert [str(path) for path in read if other.search(path.read_text())] == []
