"""Builds the sdist and a wheel, installs each into a bare environment, and works with it there, far from the sources.

    python tools/check_packages.py

The wheel is installed where there is no compiler; the sdist is compiled, without optimisation, which is sooner done.
Tests of what is compiled run on that, as tools/gate.py runs them on other builds. Needs setuptools and what tests need
in the environment that runs it, as the extra `test` brings.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from zipfile import ZipFile

import gate

ROOT = Path(__file__).parent.parent
PIP = ("-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check")
PACKED = {".py", ".pyi", ".pyx", ".bin", ".typed"}  # .pyx: as the modules that they are compiled to
FINGERPRINTS = (0x9F3A5C0012AB44DE, 0x9F3A5C0012AB44DF, 0x0123456789ABCDEF)

IN_PYTHON = """
import pkgutil, sys
from importlib import import_module
import fpstore

assert fpstore.__file__.startswith(sys.prefix), fpstore.__file__
modules = [each.name for each in pkgutil.walk_packages(fpstore.__path__, "fpstore.") if "__main__" not in each.name]
for name in modules:
    try:
        import_module(name)
    except ImportError as error:  # of an adapter, which says what it needs
        assert name.startswith("fpstore.adapters."), name
        assert "pip install 'fpstore[" in str(error), error
first, second, _ = fingerprints = FINGERPRINTS
with fpstore.create("python.fpstore") as store:
    store.add(fingerprints, ids=[7, 8, 9])
with fpstore.open("python.fpstore") as store:
    found = [(match.fingerprint, match.distance, match.id) for match in store.probe(first)]
assert found == [(first, 0, 7), (second, 1, 8)], found
print(f"  {len(modules)} modules import; create, add and probe answer as they should")
"""


def main() -> int:
    """Run it; whatever fails is an exception."""
    with TemporaryDirectory(prefix="fpstore-packages-") as folder:
        scratch = Path(folder)
        say("the sdist")
        run(ROOT, sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", scratch / "sdist")
        (sdist,) = (scratch / "sdist").iterdir()
        say("a wheel of it, with what the tree has written and compiled already")
        tree = unpacked(sdist, scratch)
        run(tree, sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", scratch / "wheel", ".")
        (wheel,) = (scratch / "wheel").iterdir()
        check_wheel(wheel)

        bare = scratch / "bare-wheel"
        # What else a shell would find, a compiler among it, is not there.
        alone = {"PATH": str(bare / "bin"), "CC": "/bin/false"}
        say(f"{wheel.name}, where there is no compiler")
        install(bare, wheel, alone)
        work(scratch / "away-wheel", bare, alone)

        bare = scratch / "bare-sdist"
        say(f"{sdist.name}, compiled")
        install(bare, sdist, {"FPSTORE_OPTIMIZE": "-O0"})
        work(scratch / "away-sdist", bare, {})
        say("tests of what is compiled, on that")
        print(f"  {tested(tree, bare, scratch / 'tested')}", flush=True)
    return 0


def say(what: str, begun: float = perf_counter()) -> None:
    print(f"{perf_counter() - begun:4.0f} s  {what}", flush=True)


def run(where: Path, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints, in a folder, without the sources on the path of imports."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FPSTORE_"))}
    done = subprocess.run(
        [*map(str, command)], cwd=where, env={**given, **(environment or {})}, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: found status {done.returncode}, expected 0\n{done.stdout}")
    return done.stdout


def unpacked(sdist: Path, scratch: Path) -> Path:
    """The tree in an sdist, and what Cython has written, and what has been compiled, for it in ours.

    Whether the sdist is whole tells the other install, which has nothing of ours.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    tree = scratch / sdist.name.removesuffix(".tar.gz")
    if (ROOT / "build" / "native").exists():
        shutil.copytree(ROOT / "build" / "native", tree / "build" / "native")
        for path in [*ROOT.glob("fpstore/**/_*.pyx"), ROOT / "fpstore" / "_cyutility"]:
            if (written := path.with_suffix(".c")).exists():
                shutil.copy2(written, tree / written.relative_to(ROOT))
    return tree


def check_wheel(wheel: Path) -> None:
    """A wheel is of a platform, and has each module, compiled or not, and nothing else but what describes it."""
    assert not wheel.stem.endswith("none-any"), wheel.name
    names = [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]
    packed = {name.partition(".")[0] + ".pyx" if name.endswith(".so") else name for name in names}
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "fpstore").rglob("*") if path.suffix in PACKED}
    files.add("fpstore/_cyutility.pyx")  # which Cython writes
    assert packed == files, sorted(packed ^ files)


def install(bare: Path, package: Path, environment: Mapping[str, str]) -> None:
    """Make an environment with that package in it, and what it needs."""
    run(ROOT, sys.executable, "-m", "venv", bare)
    run(bare, bare / "bin" / "python", *PIP, "install", "--no-cache-dir", package, environment=environment)


def tested(tree: Path, bare: Path, away: Path) -> str:
    """How many tests pass on the package of an environment: those of an unpacked sdist, away from its sources."""
    for part in ("tests", "tools"):
        shutil.copytree(tree / part, away / part)
    shutil.copy2(tree / "pyproject.toml", away)
    (found,) = bare.glob("lib/python*/site-packages")
    # Of plugins of pytest that others may be installing just now, none is asked for.
    environment = {"PYTHONPATH": str(found), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    imported = run(away, sys.executable, "-c", gate.WHICH, environment=environment).strip()
    assert Path(imported).is_relative_to(found), imported
    files = [f"tests/test_{name}.py" for name in gate.REDUCED_TESTS]
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *gate.REDUCED_CHOICE, *files)
    return run(away, *command, environment=environment).strip().splitlines()[-1]


def work(away: Path, bare: Path, environment: Mapping[str, str]) -> None:
    """Store and find something, from Python and from the command line."""
    away.mkdir()

    def typed(name: str, *arguments: str) -> str:
        return run(away, bare / "bin" / name, *arguments, environment=environment)

    print(typed("python", "-c", IN_PYTHON.replace("FINGERPRINTS", repr(FINGERPRINTS))), end="")
    first, second, _ = written = [f"{fingerprint:016x}" for fingerprint in FINGERPRINTS]
    (away / "some.hex").write_text("".join(f"{each}\n" for each in written))
    version = typed("fpstore", "--version")
    typed("fpstore", "build", "some.fpstore", "some.hex")
    found = typed("fpstore", "probe", "some.fpstore", first)
    assert found == f"{first}\t{first}\t0\t0\n{first}\t{second}\t1\t1\n", found
    print(f"  {version.strip()}: build and probe answer as they should", flush=True)


if __name__ == "__main__":
    sys.exit(main())
