"""Plants mistakes in a copy of the tree, one at a time, and names the test that catches each.

    python tools/check_mutants.py [-k NAME] [--jobs 2] [--json] [--all-tests]

The mistakes are listed in tools/mutants/, each with the tests that must fail with it and pass without it; those and
no others are run. --all-tests runs the fast lane instead, which tells what else notices a mistake. Mistakes in the
compiled core come last: each is compiled, which needs a C compiler, setuptools and Cython. Exit status 1 where one is
not caught, where the list is out of date, and where a named test fails without any mistake.
"""

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from arguments import parse_count
from mutants import MUTANTS
from mutants.record import Mutant

ROOT = Path(__file__).parent.parent
# What a copy has of the tree beside the files at its top: all that tests read, and the objects of the compiled core.
COPIED = ("fpstore", "tests", "tools", "docs", "examples", ".ci", "build/native")
IGNORED = shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache")
SECONDS = 600
# Without the tests that would only tell that a place of the list has changed.
FAST_LANE = ("-m", "not slow", "--ignore", "tests/test_mutants.py")
FAILED = re.compile(r"^FAILED (tests/[\w/]+\.py(?:::\w+)+)", re.M)
# What the library says where a kernel gives another answer at import than the known one.
KNOWN_ANSWER = "compute something wrong here"


class OutOfDateError(Exception):
    """The list of mistakes does not go with the tree."""


@dataclass(frozen=True)
class Outcome:
    """What came of a mistake. caught_by: the tests that failed; note: what is wrong, where not all did that should."""

    mutant: Mutant
    caught_by: tuple[str, ...]
    note: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        """Whether every test that had to fail has failed."""
        return bool(self.caught_by) and not self.note

    @property
    def verdict(self) -> str:
        """What to say of it in the table."""
        return f"caught by {', '.join(self.caught_by)}" if self.is_caught else f"NOT CAUGHT {self.note}".rstrip()


def place_of(text: str, old: str) -> tuple[int, int]:
    """Where old stands in text, whatever white space the two are written with. OutOfDateError unless it is once."""
    places = [index for index, character in enumerate(text) if not character.isspace()]
    bare, wanted = "".join(text[index] for index in places), "".join(old.split())
    if not wanted or bare.count(wanted) != 1:
        raise OutOfDateError(f"{bare.count(wanted) if wanted else 'no'} places with {old!r}, expected one")
    start = bare.index(wanted)
    return places[start], places[start + len(wanted) - 1] + 1


def planted(text: str, mutant: Mutant) -> str:
    """The text of the mutant's file with the mistake in it. OutOfDateError where the place is not there, or twice."""
    try:
        start, end = place_of(text, mutant.old)
    except OutOfDateError as error:
        raise OutOfDateError(f"the list is out of date: {mutant.name}, {mutant.file}: {error}") from None
    return text[:start] + mutant.new + text[end:]


def failed_tests(output: str) -> tuple[str, ...]:
    """The tests that pytest says have failed, each once, without parameters; those that had an error are none."""
    return tuple(dict.fromkeys(FAILED.findall(output)))


class Copy:
    """A copy of the tree, whose tests import its own package."""

    def __init__(self, folder: Path, tree: Path = ROOT) -> None:
        """Make the copy in folder; a compiled file is as fresh there as it was."""
        self.folder = folder
        for name in COPIED:
            if (tree / name).exists():
                shutil.copytree(tree / name, folder / name, ignore=IGNORED)
        for path in tree.iterdir():
            if path.is_file():
                shutil.copy2(path, folder / path.name)
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "ci"}
        # By their content: a mistake can be as long as what was there, and planted in the same second.
        self._python("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "fpstore")
        where = self._python("-c", "import fpstore; print(fpstore.__file__)").stdout.strip()
        if Path(where).resolve() != (folder / "fpstore" / "__init__.py").resolve():
            raise RuntimeError(f"the copy in {folder} imports {where}")

    def compile(self) -> None:
        """Bring the compiled core up to date."""
        done = self._python("setup.py", "--quiet", "build_ext", "--inplace")
        if done.returncode:
            raise RuntimeError(f"a mistake that does not compile: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def run_tests(self, arguments: Iterable[str], seconds: int = SECONDS) -> tuple[int, str]:
        """pytest's exit status, and what it said. The status is 124 where it takes too long."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", "-p", "no:cacheprovider", *arguments]
        child = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return 124, child.communicate()[0]
        return child.returncode, output

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)

    def try_one(self, mutant: Mutant, tests: Sequence[str]) -> Outcome:
        """Plant a mistake, run tests, and take it out again."""
        started = time.monotonic()
        path = self.folder / mutant.file
        text = path.read_text()
        try:
            path.write_text(planted(text, mutant))
            if mutant.is_compiled:
                self.compile()
            status, output = self.run_tests(tests)
        finally:
            path.write_text(text)  # newer than what was compiled of the other
        caught_by, note = failed_tests(output), ""
        if passed := [test for test in tests if test in mutant.tests and test.partition("[")[0] not in caught_by]:
            note = f"{', '.join(passed)}: no failure, the tests ended with status {status}: {output[-500:]}"
        if (
            mutant.at_import
            and status > 1
            and KNOWN_ANSWER in self._python("-c", "import fpstore._native, fpstore.text").stderr
        ):
            caught_by, note = ("the known answer at import",), ""
        return Outcome(mutant, caught_by, note, time.monotonic() - started)


def check_without(copy: Copy, mutants: Sequence[Mutant], jobs: int) -> str | None:
    """What is wrong with the tests that the mutants name, where there is no mistake; None if nothing is."""
    named = sorted({test for mutant in mutants for test in mutant.tests})
    at_once = ["-n", str(jobs)] if jobs > 1 and len(mutants) > 1 else []
    status, output = copy.run_tests([*named, *at_once], 10 * SECONDS)
    return None if status == 0 else f"without a mistake the named tests end with status {status}:\n{output}"


def check(mutants: Sequence[Mutant], jobs: int, all_tests: bool) -> Iterable[Outcome]:
    """The outcome of every mistake, as they come; those in the compiled core last, as they take its place."""
    ordered = sorted(mutants, key=lambda mutant: mutant.is_compiled)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch, ThreadPoolExecutor(jobs) as pool:
        first = Copy(Path(scratch, "0"))
        if any(mutant.is_compiled for mutant in mutants):
            first.compile()
        if problem := check_without(first, mutants, jobs):
            raise OutOfDateError(problem)
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in [first, *(Copy(Path(scratch, str(index)), first.folder) for index in range(1, jobs))]:
            copies.put(copy)

        def try_one(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return copy.try_one(mutant, FAST_LANE if all_tests else mutant.tests)
            finally:
                copies.put(copy)

        yield from pool.map(try_one, ordered)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="NAME", action="append", help="only mistakes with this in their name or file")
    parser.add_argument("--jobs", type=parse_count, default=2, help="copies to work in at once")
    parser.add_argument("--json", action="store_true", help="print all that is known of each mistake as JSON")
    parser.add_argument("--all-tests", action="store_true", help="run every test that is not slow, not those named")
    asked = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if not asked.k or any(part in f"{each.name} {each.file}" for part in asked.k)]
    if not chosen:
        parser.error(f"no mistake has {' or '.join(asked.k)} in its name or file")
    outcomes = []
    try:
        for mutant in chosen:
            planted((ROOT / mutant.file).read_text(), mutant)
        for outcome in check(chosen, asked.jobs, asked.all_tests):
            outcomes.append(outcome)
            if not asked.json:
                print(f"{outcome.mutant.name} ({outcome.mutant.file})\n    {outcome.verdict}", flush=True)
    except OutOfDateError as error:
        print(error, file=sys.stderr)
        return 1
    left = [outcome.mutant.name for outcome in outcomes if not outcome.is_caught]
    if asked.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        print(f"{len(outcomes)} mistakes planted, {len(left)} not caught{': ' * bool(left)}{', '.join(left)}")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
