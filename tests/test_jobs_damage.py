"""Damage to a store that jobs keep something in: whatever file it is in, it is told, or changes nothing."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_model import write_jsonl

import fpstore
from fpstore import ledger, notes
from fpstore.jobs import cluster, dedup
from fpstore.text import DEFAULT_RECIPE

FIRST = ["a b c d e", "x", "fox dog", "", "y z", "!", "the last of all", "one of many more words"]
SECOND = ["a b c d e", "x y", "fox dog cat", "y z", "new", "one of many more words here"]
# What the engine writes; the tests of damage to a store are for these.
ENGINE = {"catalog.mdb", "writer.lock", "readers.lock"}


def _dedup(source: Path, out: Path, store: Path) -> list[Path]:
    dropped = out.with_suffix(".tsv")
    dedup([source], out, dropped=dropped, store=store, confirm="jaccard>=0.5")
    return [out, dropped]


def _plain_dedup(source: Path, out: Path, store: Path) -> list[Path]:
    dropped = out.with_suffix(".tsv")
    dedup([source], out, dropped=dropped, store=store, confirm=None)
    return [out, dropped]


def _numbers(source: Path, out: Path, store: Path) -> list[Path]:
    if not store.exists():
        fpstore.create(store, recipe=DEFAULT_RECIPE).close()
    return _dedup(source, out, store)


def _cluster(update_center: bool) -> Callable[[Path, Path, Path], list[Path]]:
    def job(source: Path, out: Path, store: Path) -> list[Path]:
        cluster([source], out, store=store, max_distance=8, update_center=update_center)
        return [out]

    return job


JOBS: dict[str, Callable[[Path, Path, Path], list[Path]]] = {
    "names and texts": _dedup,
    "names": _plain_dedup,
    "numbers and texts": _numbers,
    "leaders": _cluster(False),
    "centers": _cluster(True),
}


def files_in(store: Path) -> Iterator[Path]:
    """Every file of a store, as its folder has them."""
    return (path for path in sorted(store.rglob("*")) if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("kind", JOBS)
def test_a_changed_bit_in_any_file_of_a_store_is_an_error_or_changes_nothing(tmp_path: Path, kind: str) -> None:
    first, second = write_jsonl(tmp_path / "1.jsonl", FIRST), write_jsonl(tmp_path / "2.jsonl", SECOND)
    store = tmp_path / "s.fpstore"
    JOBS[kind](first, tmp_path / "out1.jsonl", store)
    with fpstore.open(store, "w") as opened:
        opened.compact()

    def day(number: int) -> list[bytes]:
        """What the second day tells on a copy of the store."""
        copy, folder = tmp_path / f"s{number}", tmp_path / f"{number}"
        shutil.copytree(store, copy)
        folder.mkdir()
        found = [path.read_bytes() for path in JOBS[kind](second, folder / "out.jsonl", copy)]
        shutil.rmtree(copy)
        shutil.rmtree(folder)
        return found

    expected, number, random = day(0), 0, np.random.default_rng(7)
    kept = {path.name for path in files_in(store) if path.parent.name == notes.JOBS}
    assert (
        kept
        == {
            "names and texts": {ledger.INDEX, ledger.NAME_BYTES, ledger.TEXT_BYTES, ledger.SETTINGS},
            "names": set(),
            "numbers and texts": {ledger.INDEX, ledger.NAME_BYTES, ledger.TEXT_BYTES, ledger.SETTINGS},
            "leaders": {ledger.INDEX, ledger.NAME_BYTES, ledger.TEXT_BYTES, ledger.SETTINGS},
            "centers": {ledger.SETTINGS, ledger.VOTES},
        }[kind]
    )
    for path in files_in(store):
        data = path.read_bytes()
        places = random.choice(len(data), min(len(data), 12), replace=False).tolist() if data else []
        for at in [*places, *([len(data) - 1] if data else [])]:
            number += 1
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :])
            told = _told(store)
            assert told or path.name in ENGINE, f"verify calls {path} sound, byte {at} was changed"
            with contextlib.suppress(fpstore.Error, ValueError):  # the latter: another recipe, by its name
                assert day(number) == expected, f"{path}, byte {at}"
        path.write_bytes(data)
    assert not _told(store)


def _told(store: Path) -> Any:
    """What verify says is wrong."""
    try:
        with fpstore.open(store) as opened:
            opened.verify()
    except (fpstore.Error, ValueError) as error:
        return error
    return None


@pytest.mark.parametrize("update_center", [False, True])
def test_every_byte_of_what_jobs_keep_is_checked(tmp_path: Path, update_center: bool) -> None:
    first, store = write_jsonl(tmp_path / "1.jsonl", FIRST), tmp_path / "s.fpstore"
    job = _cluster(True) if update_center else _dedup
    job(first, tmp_path / "out1", store)
    with fpstore.open(store, "w") as opened:
        opened.compact()
    for path in files_in(store / notes.JOBS):
        data = path.read_bytes()
        for at in range(0, len(data), 1 if len(data) < 1000 else 13):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
            assert isinstance(_told(store), fpstore.CorruptStore), f"{path.name}, byte {at}"
        for damaged in (data[:-1], data[: len(data) - 30]):
            path.write_bytes(damaged)
            assert _told(store), f"{path.name} of {len(damaged)} bytes"
        path.write_bytes(data)
    assert _told(store) is None


@pytest.mark.parametrize("name", [ledger.SETTINGS, ledger.NOTE])
def test_what_is_damaged_in_what_jobs_keep_is_said_once(tmp_path: Path, name: str) -> None:
    store = tmp_path / "s.fpstore"
    _dedup(write_jsonl(tmp_path / "1.jsonl", FIRST), tmp_path / "out1", store)
    (store / notes.JOBS / name).write_bytes(b"{}")
    error = _told(store)
    assert isinstance(error, fpstore.CorruptStore)
    assert error.where == "a record of jobs"
    assert error.found.startswith("no ")
    assert error.expected.startswith(("a JSON object", "one, or nothing"))
