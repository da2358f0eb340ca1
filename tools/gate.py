"""Builds the compiled core with every compiler at every level of optimisation, and runs its tests on each build.

    python tools/gate.py [--reduced] [--builds gcc-O1,clang-O3] [--jobs 2]

One build alone may hide a wrong answer: gcc 12 made one at -O1 of code that was right at -O0, -O2 and -O3. Each
build is a copy of the tree in build/gate, named for its compiler and level. Its tests run three times, on the machine's
own instructions, without AVX-512, and on portable ones (once on a machine that has no others). A compiler that is not
installed is named and skipped. --reduced: gcc at -O1 and four test files, for every change; those run on a build at -O0
too, that of tools/check_packages.py. Exit status 1 if a build or a test failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from arguments import names_among, parse_count

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "gate"
PARTS = ("fpstore", "tests", "tools", "setup.py", "pyproject.toml", "README.md", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "build")
COMPILERS = ("gcc", "clang")
LEVELS = ("-O0", "-O1", "-O2", "-O3")
REDUCED = (("gcc", "-O1"),)
# Test files, as tests/test_*.py: of what is compiled, and of the store, which uses all of it.
WHOLE_TESTS = (
    "codec",
    "joins",
    "merge_kernels",
    "pairs",
    "pending",
    "permutation",
    "probe",
    "segment*",
    "sort",
    "store*",
    "text*",
)
KERNEL_TESTS = ("codec", "joins", "merge_kernels", "pending", "probe", "sort", "store_batch", "text_simhash")
REDUCED_TESTS = ("codec", "joins", "pairs", "store_batch")
REDUCED_CHOICE = ("-k", "not 23-flips")  # the largest tiles take as long as all else
NARROWER = {"without AVX-512": "FPSTORE_NARROW", "portable": "FPSTORE_PORTABLE"}
# Which build the tests would import: another one may be installed.
WHICH = "import fpstore._codec; print(fpstore._codec.__file__)"


@dataclass(frozen=True)
class Build:
    """One way to compile the core."""

    compiler: str
    level: str

    @property
    def name(self) -> str:
        return self.compiler + self.level

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def environment(self) -> dict[str, str]:
        """Ours, with what chooses the compiler; children of the tests import this build too."""
        chosen = {"CC": self.compiler, "FPSTORE_OPTIMIZE": self.level, "PYTHONPATH": os.fspath(self.folder)}
        return {name: value for name, value in os.environ.items() if name != "CFLAGS"} | chosen


class Failed(Exception):
    """A step ended with another status than 0; says which, and where its output is."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reduced", action="store_true", help="gcc at -O1, four test files")
    names = sorted({build.name for build in [*every_build(), *(Build(*way) for way in REDUCED)]})
    parser.add_argument("--builds", type=names_among(names), help="only these, such as gcc-O1,clang-O3")
    parser.add_argument(
        "--jobs", type=parse_count, default=len(os.sched_getaffinity(0)), help="builds at once; default: cores"
    )
    arguments = parser.parse_args()
    wanted = [Build(*way) for way in REDUCED] if arguments.reduced else every_build()
    if arguments.builds is not None:
        wanted = [build for build in wanted if build.name in arguments.builds]
    found = [build for build in wanted if shutil.which(build.compiler)]
    for compiler in sorted({build.compiler for build in wanted if build not in found}):
        print(f"{compiler}: not installed, skipped", flush=True)
    if not found:
        print("no build to make")
        return 1
    make_source()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        passed = list(pool.map(lambda build: passes(build, reduced=arguments.reduced), found))
    print(f"{sum(passed)} of {len(found)} builds pass")
    return int(not all(passed))


def every_build() -> list[Build]:
    return [Build(compiler, level) for level in LEVELS for compiler in COMPILERS]


def make_source() -> None:
    """The tree with every .pyx turned into C, once for all builds, and with the objects that it has already."""
    source = FOLDER / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=LEFT_OUT)
        else:
            shutil.copy2(ROOT / part, source / part)
    if (ROOT / "build" / "native").exists():
        shutil.copytree(ROOT / "build" / "native", source / "build" / "native")
    make_c = "import setup; setup.make_c(setup.compiled_modules())"
    subprocess.run([sys.executable, "-c", make_c], cwd=source, check=True, stdout=subprocess.PIPE)


def passes(build: Build, *, reduced: bool) -> bool:
    """Build and test; say how it went in one line, and show the end of what failed."""
    steps = []
    try:
        began = time.monotonic()
        compile_core(build)
        steps.append(f"built in {time.monotonic() - began:.0f} s")
        if reduced:
            steps.append(tested(build, REDUCED_TESTS, *REDUCED_CHOICE))
        else:
            steps.append(tested(build, WHOLE_TESTS))
            steps += [f"{what} {tested(build, KERNEL_TESTS, **{name: '1'})}" for what, name in narrower()]
    except Failed as error:
        print(f"{build.name}: FAILED: {error}", flush=True)
        return False
    print(f"{build.name}: {', '.join(steps)}", flush=True)
    return True


def narrower() -> list[tuple[str, str]]:
    """The other instruction sets of this machine; elsewhere all code is the portable one."""
    return list(NARROWER.items()) if os.uname().machine == "x86_64" else []


def compile_core(build: Build) -> None:
    shutil.rmtree(build.folder, ignore_errors=True)
    shutil.copytree(FOLDER / "source", build.folder)
    run(build, "build", "setup.py", "--quiet", "build_ext", "--inplace")
    check_imported(build, Path(run(build, "import", "-c", WHICH).strip()))


def check_imported(build: Build, imported: Path) -> None:
    if not imported.is_relative_to(build.folder):
        raise Failed(f"the tests would import {imported}")


def tested(build: Build, names: tuple[str, ...], *options: str, **variables: str) -> str:
    files = [os.fspath(file) for name in names for file in sorted(build.folder.glob(f"tests/test_{name}.py"))]
    log = "tests" + "".join(f" {name}" for name in variables)
    output = run(build, log, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *options, *files, **variables)
    counts = re.findall(r"^(\d+ passed.*)$", output, re.MULTILINE)
    return counts[-1] if counts else "all passed"


def run(build: Build, log: str, *command: str, **variables: str) -> str:
    """Run Python in the build's folder; its output stays in a file there."""
    path = build.folder / f"{log}.log"
    with open(path, "w+", encoding="utf-8", errors="replace") as output:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=build.folder,
            env=build.environment | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output.seek(0)
        said = output.read()
    if done.returncode:
        end = "\n".join(said.splitlines()[-30:])
        raise Failed(f"{log} ended with status {done.returncode}, see {path}\n{end}")
    return said


if __name__ == "__main__":
    sys.exit(main())
