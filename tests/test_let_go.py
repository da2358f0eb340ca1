"""What a writer no longer needs is let go of: segments that were merged away, and rows that are in one."""

# mypy: disable-error-code="attr-defined"

import gc
import re
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform
from living import writer_of

import fpstore
from fpstore.living import renewal
from fpstore.living.writer import Writer
from fpstore.types import IdType

KEYS = uniform(2000, np.random.default_rng(14))
KINDS: list[IdType | None] = [None, "uint64", "string"]


def ids_of(kind: IdType | None, first: int, end: int) -> Any:
    if kind == "string":
        return [f"name {index}" for index in range(first, end)]
    return None if kind is None else np.arange(first, end, dtype=np.uint64)


def mapped_and_removed(path: Path) -> list[str]:
    """Files of the store that are mapped, though they are removed: they take memory, and room on the disk."""
    with open("/proc/self/maps") as maps:
        return re.findall(rf"{re.escape(str(path))}/(\S+) \(deleted\)", maps.read())


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_merged_away_are_not_mapped_any_more(tmp_path: Path, kind: IdType | None) -> None:
    path = tmp_path / "store"
    fpstore.create(path, id_type=kind).close()
    with writer_of(path, growth=1, names_growth=2) as store:
        for first in range(0, 2000, 500):
            store.add(KEYS[first : first + 500], ids=ids_of(kind, first, first + 500))
            store._flush()
            store.probe_many(KEYS[:first])
            store.wait()
            assert mapped_and_removed(path) == []
        store.add(KEYS[:1], ids=ids_of(kind, 2000, 2001))
        store.compact()
        assert mapped_and_removed(path) == []
        assert store.count() == 2000


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_does_not_hold_rows_that_are_flushed_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: IdType | None
) -> None:
    begun, go_on, merged = threading.Event(), threading.Event(), renewal.merge_segments
    states = []

    def slow(*arguments: Any, **options: Any) -> Any:
        states.append(weakref.ref(store._living.snapshot))
        begun.set()
        assert go_on.wait(60)
        return merged(*arguments, **options)

    path = tmp_path / "store"
    fpstore.create(path, id_type=kind).close()
    monkeypatch.setattr(renewal, "merge_segments", slow)
    with writer_of(path) as store:
        assert isinstance(store._living, Writer)
        for first in (0, 500):
            store.add(KEYS[first : first + 500], ids=ids_of(kind, first, first + 500))
            store._flush()
        assert begun.wait(60)
        store.add(KEYS[1000:1500], ids=ids_of(kind, 1000, 1500))
        states.append(weakref.ref(store._living.snapshot))
        merging = weakref.ref(store._living.snapshot.parts[0])
        store._flush()
        assert [state() for state in states] == [None, None]
        assert merging() is not None
        go_on.set()
        store.wait()
        assert merging() is None
        assert store.count() == 1500


def test_a_merge_holds_nothing_of_its_segments_while_it_merges_what_is_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, held = renewal.merge_names, list[int]()

    def pages_of(name: str) -> int:
        """Kilobytes in memory of the mapping that has fewer, of the merge's and that which was searched."""
        with open("/proc/self/smaps") as maps:
            found = re.findall(rf"/{name}$.*?^Rss: +(\d+) kB", maps.read(), re.DOTALL | re.MULTILINE)
        assert len(found) == 2
        return min(int(each) for each in found)

    def spied(at: Any, entry: Any, parts: Any, due: Any) -> Any:
        held.extend(pages_of(part.segment.path.name) for part in parts)
        return beside(at, entry, parts, due)

    gc.collect()  # stores of other tests, in cycles with errors, whose segments have the same names
    monkeypatch.setattr(renewal, "merge_names", spied)
    path = tmp_path / "store"
    fpstore.create(path, id_type="string").close()
    with writer_of(path) as store:
        for first in (0, 1000):
            store.add(KEYS[first : first + 1000], ids=ids_of("string", first, first + 1000))
            store._flush()
        store.probe_many(KEYS)
        store.compact()
        assert len(held) >= 2
        assert not any(held)
        assert store.count() == 2000
