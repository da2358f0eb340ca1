"""A child of a fork waits for no lock that another thread of its parent held."""

import functools
import importlib
import pkgutil
import subprocess
import sys
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from catalogs import in_a_fork

import fpstore
from fpstore.forks import cached_property


def modules() -> list[ModuleType]:
    """All of fpstore's, but adapters whose packages are not there."""
    found = []
    for module in pkgutil.walk_packages(fpstore.__path__, "fpstore."):
        with suppress(ImportError) if module.name.startswith("fpstore.adapters.") else nullcontext():
            if not module.name.endswith("__main__"):
                found.append(importlib.import_module(module.name))
    return found


def computed_once() -> list[functools.cached_property[Any]]:
    """The cached properties of all classes of fpstore."""
    kinds = {kind for module in modules() for kind in vars(module).values() if isinstance(kind, type)}
    own = {kind for kind in kinds if kind.__module__.startswith("fpstore.")}
    return [value for kind in own for value in vars(kind).values() if isinstance(value, functools.cached_property)]


class Empty:
    pass


def test_a_child_waits_for_no_value_that_another_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = threading.main_thread()
    begun = threading.Semaphore(0)
    done = threading.Event()

    def slow(_instance: object) -> int:
        if threading.current_thread() is not parent:
            begun.release()
            done.wait()
        return 1

    found = computed_once()
    assert len(found) > 10
    threads = []
    for value in found:
        monkeypatch.setattr(value, "func", slow)
        threads.append(threading.Thread(target=value.__get__, args=(Empty(),)))
        threads[-1].start()
        begun.acquire()
    try:
        in_a_fork(lambda: [value.__get__(Empty()) for value in found])
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_value_is_computed_once_and_the_first_one_is_kept() -> None:
    class Counted:
        def __init__(self) -> None:
            self.count = 0

        @cached_property
        def value(self) -> int:
            """How often it was computed."""
            self.count += 1
            return self.count

    one = Counted()
    assert (one.value, one.value, one.count) == (1, 1, 1)
    assert Counted.value.__doc__ == "How often it was computed."
    # As of two threads that compute it at the same time.
    assert type(one).__dict__["value"].__get__(one) == 1


def test_a_child_waits_for_no_import_that_another_thread_had_begun(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s.fpstore").close()
    program = f"""
import importlib.abc, os, sys, threading, time
import fpstore

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "fpstore.making":
            begun.set()
            time.sleep(0.3)

begun = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: fpstore.open)
thread.start()
begun.wait()
pid = os.fork()
if pid == 0:
    threading.Timer(10, os._exit, [3]).start()
    fpstore.open({str(tmp_path / "s.fpstore")!r}).close()
    os._exit(0)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == "0"
