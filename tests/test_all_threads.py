"""Every processor that this process may use works by default, and how many do changes no answer."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FINGERPRINTING

import fpstore
from fpstore import Store, inputs, jobs, platforms, text
from fpstore.text import Recipe, recipes
from fpstore.threads import thread_count

TEXTS = [f"word{number % 7} of the {number} texts of which some are near {number // 3}" for number in range(300)]
WITH_THREADS: list[Callable[..., Any]] = [
    found
    for place in (fpstore, text, jobs, inputs, Store, Recipe)
    for name, found in inspect.getmembers(place, inspect.isroutine)
    if not name.startswith("_") and "threads" in inspect.signature(found).parameters
]


@pytest.mark.parametrize("call", WITH_THREADS, ids=lambda call: call.__qualname__)
def test_whoever_takes_threads_takes_all_by_default_and_by_name(call: Callable[..., Any]) -> None:
    threads = inspect.signature(call).parameters["threads"]
    assert threads.default is None
    assert threads.kind is inspect.Parameter.KEYWORD_ONLY


def test_there_are_some_that_take_threads() -> None:
    assert {call.__name__ for call in WITH_THREADS} >= {
        "build",
        "probe_many",
        "nearest_many",
        "fingerprint_many",
        "dedup",
    }


def test_all_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thread_count(None) == platforms.processor_count() == len(os.sched_getaffinity(0))
    one = {min(os.sched_getaffinity(0))}
    bound = f"import os; os.sched_setaffinity(0, {one})"
    code = f"{bound}; from fpstore.threads import thread_count; print(thread_count(None))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count(None) == 1


@pytest.mark.parametrize("name", [name for name in FINGERPRINTING if name != "zh"])
def test_fingerprints_are_those_of_one_thread(name: str) -> None:
    recipe = recipes()[name]
    once = recipe.measure_many(TEXTS, threads=1)
    for threads in (2, 3, 16, None):
        again = recipe.measure_many(TEXTS, threads=threads)
        assert all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in zip(once, again, strict=True))


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_what_is_no_number_of_threads_is_refused(tmp_path: Path, threads: Any) -> None:
    (tmp_path / "a.txt").write_text("one two three")
    for call in (
        lambda: recipes()["text-1"].measure_many(["one"], threads=threads),
        lambda: text.fingerprint_many(["one"], threads=threads),
        lambda: list(inputs.read([tmp_path / "a.txt"], threads=threads)),
    ):
        with pytest.raises(ValueError, match=r"threads: found .*, expected a positive integer or None"):
            call()
