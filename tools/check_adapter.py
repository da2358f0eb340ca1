"""Runs datasketch's own tests of MinHashLSH, unchanged, against fpstore.adapters.datasketch.

    python tools/check_adapter.py PATH/test/test_lsh.py

The file is not in datasketch's packages: it is test/test_lsh.py of its repository. Left out are the tests whose names
end in redis, which are about where its storage is.
"""

import argparse
import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from pathlib import Path

import datasketch.lsh

from fpstore.adapters.datasketch import MinHashLSH


def tests_in(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for each in suite:
        yield from tests_in(each)


def loaded(path: Path) -> types.ModuleType:
    """The file as a module whose MinHashLSH is ours; its import of a stand-in for redis needs none."""
    sys.modules["mockredis"] = types.ModuleType("mockredis")
    datasketch.lsh.MinHashLSH = MinHashLSH
    spec = importlib.util.spec_from_file_location("tests_of_datasketch", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    every = [*tests_in(unittest.defaultTestLoader.loadTestsFromModule(loaded(parser.parse_args().file)))]
    own = [test for test in every if "redis" not in test.id()]
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(own))
    print(f"datasketch {datasketch.__version__}: {len(own)} of {len(every)} tests are about behaviour")
    print(f"{result.testsRun - len(result.failures) - len(result.errors)} of {len(own)} pass")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
