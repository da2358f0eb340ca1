"""Runs other packages' own tests, unchanged, against the adapters that have their shape, or stand behind them.

    python tools/check_adapter.py datasketch PATH/test/test_lsh.py
    python tools/check_adapter.py imagehash PATH
    python tools/check_adapter.py pybktree PATH/pybktree.py
    python tools/check_adapter.py threatexchange PATH/python-threatexchange

PATH: a checkout of the package's repository, as its tests are not in what is installed; the package is (make
test-clients). Left out is what is about its insides: where datasketch's storage is (redis), what a tree prints of its
nodes, and FAISS within an index. imagehash has no index: its differences and equalities are asked of one, up to 256
bits; what wide hashes differ in beyond 16 bits an index of them only confirms.
"""

import argparse
import doctest
import importlib
import importlib.util
import sys
import tempfile
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from arguments import parse_there

from fpstore.adapters.datasketch import MinHashLSH
from fpstore.adapters.imagehash import ImageIndex

# Of threatexchange's tests: what holds of any index, and what looks at FAISS within one.
PDQ_FILES = (
    "signal_type/tests/test_pdq_index.py",
    "signal_type/tests/test_pdq_index2.py",
    "tests/hashing/test_index_updates.py",
)
MOST, MOST_BITS = 16, 256
OF_FAISS = ("test_supports_pickling", "test_serialize_deserialize_index")


def tests_in(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for each in suite:
        yield from tests_in(each)


def loaded(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(package: str, every: list[unittest.TestCase], left_out: Callable[[str], bool]) -> bool:
    own = [test for test in every if not left_out(test.id())]
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(own))
    print(f"{package}: {len(own)} of {len(every)} tests are about behaviour")
    print(f"{result.testsRun - len(result.failures) - len(result.errors)} of {len(own)} pass")
    return bool(own) and result.wasSuccessful()


def check_datasketch(path: Path) -> bool:
    sys.modules["mockredis"] = types.ModuleType("mockredis")  # its import of a stand-in for redis needs none
    importlib.import_module("datasketch.lsh").MinHashLSH = MinHashLSH  # type: ignore[attr-defined]
    tests = unittest.defaultTestLoader.loadTestsFromModule(loaded(path, "tests_of_datasketch"))
    return run("datasketch", [*tests_in(tests)], lambda name: "redis" in name)


def difference(one: Any, other: Any) -> int | None:
    """In how many bits two ImageHashes differ, as an index of the one has it; None where it does not tell."""
    bits = one.hash.size
    if bits > MOST_BITS:
        return None
    with tempfile.TemporaryDirectory() as folder:
        index = ImageIndex.build(Path(folder, "s"), [(one, 0)], bits=bits, max_distance=MOST, id_type="uint64")
        with index:
            found = index.query(other) if bits > 64 else index.nearest(other)
    return found[0].distance if found else None  # further than it was built for


def check_imagehash(path: Path) -> bool:
    imagehash = importlib.import_module("imagehash")
    its = imagehash.ImageHash.__sub__

    def subtracted(one: Any, other: Any) -> int:
        found: int = its(one, other)  # raises where there is no difference
        asked = difference(one, other)
        if asked is None:
            assert one.hash.size > MOST_BITS or found > MOST
        return found if asked is None else asked

    imagehash.ImageHash.__sub__ = subtracted
    imagehash.ImageHash.__eq__ = lambda one, other: (
        other is not None and (one.hash.size == other.hash.size and one - other == 0)
    )
    imagehash.ImageHash.__ne__ = lambda one, other: other is not None and not one.__eq__(other)
    tests = unittest.defaultTestLoader.discover(str(path / "tests"), top_level_dir=str(path))
    return run("imagehash", [*tests_in(tests)], lambda _: False)


class Tree:
    """pybktree's BKTree, over an index."""

    def __init__(self, distance: Callable[[Any, Any], int], items: Any = ()) -> None:
        self.distance_func = distance
        self._index = ImageIndex(id_type="uint64")
        self._items: list[Any] = []
        for item in items:
            self.add(item)

    @staticmethod
    def _hash(item: Any) -> str:
        return f"{getattr(item, 'bits', item):016x}"

    def add(self, item: Any) -> None:
        self._index.add(self._hash(item), len(self._items))
        self._items.append(item)

    def find(self, item: Any, n: int) -> list[tuple[int, Any]]:
        return [
            (far, self._items[name])  # type: ignore[call-overload]
            for far, name in self._index.query(self._hash(item), max_distance=min(n, 64))
        ]

    def __iter__(self) -> Iterator[Any]:
        return iter([self._items[name] for name in self._index])  # type: ignore[call-overload]


def check_pybktree(path: Path) -> bool:
    module = loaded(path, "pybktree")
    named: dict[str, Any] = {**vars(module), "BKTree": Tree, "pybktree": module}
    tests = [*doctest.DocTestSuite(module, globs=named)]
    return run("pybktree", [test for each in tests for test in tests_in(each)], lambda name: "__repr__" in name)


def check_threatexchange(path: Path) -> bool:
    import pytest

    from fpstore.adapters.threatexchange import PDQIndex

    importlib.import_module("threatexchange.signal_type.pdq.pdq_index").PDQIndex = PDQIndex  # type: ignore[attr-defined]
    importlib.import_module("threatexchange.signal_type.pdq.pdq_index2").PDQIndex2 = PDQIndex  # type: ignore[attr-defined]
    files = [str(path / "threatexchange" / file) for file in PDQ_FILES]
    own = ["-p", "no:cacheprovider", "--import-mode=importlib", "-v", "-c", "/dev/null"]
    return pytest.main([*own, "-k", " and ".join(f"not {name}" for name in OF_FAISS), *files]) == 0


CHECKS = {
    "datasketch": check_datasketch,
    "imagehash": check_imagehash,
    "pybktree": check_pybktree,
    "threatexchange": check_threatexchange,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=sorted(CHECKS))
    parser.add_argument("path", type=parse_there)
    asked = parser.parse_args()
    return 0 if CHECKS[asked.package](Path(asked.path)) else 1


if __name__ == "__main__":
    sys.exit(main())
