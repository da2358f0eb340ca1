"""A KeyboardInterrupt at any moment of a call: the process goes on with the store, for writing too."""

import contextlib
import fcntl
import gc
import itertools
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pytest
from interruptions import Moment, interrupted, interrupted_twice, moments
from jobs_model import write_jsonl

import fpstore
from fpstore import JobError, Store, jobs
from fpstore.disk import CATALOG_NAME, Folder
from fpstore.inspection import inspect_store
from fpstore.jobs import corpus, own
from fpstore.jobs.claims import Claim
from fpstore.jobs.files import AppendFile
from fpstore.living import environment as environments
from fpstore.remote.cache import Held
from fpstore.text import load_recipe

KEYS = np.random.default_rng(5).integers(0, 1 << 63, 600, dtype=np.uint64)
# Of each call so many moments are tried; all of them by hand, with a million.
TRIED = int(os.environ.get("FPSTORE_INTERRUPTIONS", "16"))
ADDED, LATER = 7, 9

# Opens the store at a path, does something with it and closes it; what it has opened it puts into the list.
Work: TypeAlias = Callable[[Path, list[Store]], None]


def read(path: Path, opened: list[Store]) -> None:
    with fpstore.open(path) as store:
        opened.append(store)
        assert [match.id for match in store.probe(int(KEYS[5]))] == [5]
        assert len(store.probe_many(KEYS[:3])) == 3


def add(path: Path, opened: list[Store]) -> None:
    with fpstore.open(path, "w") as store:
        opened.append(store)
        store.add([ADDED], ids=[1 << 40])
        store.sync()


def add_in_batches(path: Path, opened: list[Store]) -> None:
    with fpstore.open(path, "w", durability="batch") as store:
        opened.append(store)
        store.add([ADDED], ids=[1 << 40])
        store.add_if_new(np.array([1 << 62], dtype=np.uint64), ids=[1 << 41])


def compact(path: Path, opened: list[Store]) -> None:
    with fpstore.open(path, "w") as store:
        opened.append(store)
        store.add([ADDED], ids=[1 << 40])
        store.remove(ids=[3])
        store.compact()


def tried(work: Work, original: Path, folder: Path) -> Iterator[tuple[Path, int]]:
    """For each moment, or so many by chance, a copy of the store and the number of the moment."""
    shutil.copytree(original, folder / "first")
    numbers = moments(lambda: work(folder / "first", []))
    assert len(numbers) > 1000
    for number in Random(11).sample(numbers, min(TRIED, len(numbers))):
        path = folder / f"{number}"
        shutil.copytree(original, path)
        yield path, number
        shutil.rmtree(path)


@contextmanager
def leaving_some_open() -> Iterator[None]:
    """For what an interrupted call leaves to be collected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interrupted") / "o"
    fpstore.build(path, KEYS, ids="row").close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("work", [read, add, add_in_batches, compact])
def test_whoever_is_interrupted_goes_on_with_the_store(work: Work, original: Path, tmp_path: Path) -> None:
    with leaving_some_open():
        for path, number in tried(work, original, tmp_path):
            opened: list[Store] = []
            where = interrupted(partial(work, path, opened), number)
            if number % 2:
                for store in opened:
                    store.close()
            else:
                opened.clear()
            gc.collect()
            try:
                goes_on(path)
            except Exception as error:
                raise AssertionError(f"interrupted at {where}") from error


def goes_on(path: Path) -> None:
    with fpstore.open(path) as store:
        assert 5 in [match.id for match in store.probe(int(KEYS[5]))]
    with fpstore.open(path, "w") as store:
        store.add([LATER], ids=[1 << 42])
        store.verify()
    with fpstore.open(path) as store:
        assert 1 << 42 in [match.id for match in store.probe(LATER)]


def make_anew(path: Path) -> None:
    fpstore.build(path / "new", KEYS).close()


def make_a_copy(path: Path) -> None:
    with fpstore.open(path / "old") as store:
        store.copy(path / "new")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["in memory", "spilled", "of signatures", "standing"])
def test_a_job_that_is_interrupted_again_as_it_ends_can_be_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """All that it has locked is let go of by then, though nobody collects."""
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 10)
    monkeypatch.setattr(corpus, "COMMIT_DOCUMENTS", 10)
    monkeypatch.setattr(own, "MOST_HELD", 20 if kind == "spilled" else 1000)
    words = [" ".join(f"{word}{number // 2}" for word in "abcdefghij") for number in range(60)]
    source = write_jsonl(tmp_path / "in.jsonl", words)
    more: dict[str, Any] = {"recipe": load_recipe("minhash-128")} if kind == "of signatures" else {}

    def dedup(folder: Path, progress: Any = None) -> int:
        standing: dict[str, Any] = {"store": folder / "store"} if kind == "standing" else {}
        done = jobs.dedup([source], folder / "kept.jsonl", threads=1, progress=progress, **more, **standing)
        return done.documents

    def begun(number: int) -> tuple[Path, Moment | None, list[int]]:
        (folder := tmp_path / f"{number}").mkdir()

        def work(interrupt: Callable[[], NoReturn]) -> None:
            told = iter(range(4))
            dedup(folder, lambda progress: None if next(told, None) is not None else interrupt())

        return folder, *interrupted_twice(work, number)

    gc.collect()
    with leaving_some_open():
        gc.disable()
        try:
            *_, numbers = begun(0)
            assert len(numbers) > 100
            for number in Random(13).sample(numbers, min(TRIED, len(numbers))):
                folder, where, _ = begun(number)
                try:
                    assert dedup(folder) == len(words)
                except Exception as error:
                    raise AssertionError(f"interrupted at {where}") from error
        finally:
            gc.enable()


def _enters_or_leaves(moment: Moment) -> bool:
    return moment.by.startswith("creation.py") and moment.function.startswith("_GeneratorContextManager.__e")


@pytest.mark.slow
@pytest.mark.parametrize("work", [make_anew, make_a_copy])
def test_who_is_interrupted_as_a_store_is_made_leaves_no_lock_and_no_noise(
    work: Callable[[Path], None], original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it enters or leaves a context of a generator; what the interpreter cannot raise it prints."""
    noise: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", noise.append)

    def prepared(name: str) -> Path:
        (tmp_path / name).mkdir()
        shutil.copytree(original, tmp_path / name / "old")
        return tmp_path / name

    with leaving_some_open():
        numbers = moments(partial(work, prepared("first")), _enters_or_leaves)
        assert len(numbers) > 8
        for number in numbers:
            folder = prepared(str(number))
            where = interrupted(partial(work, folder), number)
            shutil.rmtree(folder / "new", ignore_errors=True)  # an error of here would wait for ever
            gc.collect()
            with Folder.open(folder) as parent:
                fcntl.flock(parent.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                work(folder)
                goes_on(folder / "old")
            except Exception as error:
                raise AssertionError(f"interrupted at {where}") from error
            assert not noise, (where, noise)
            assert {path.name for path in folder.iterdir()} <= {"old", "new"}, where
            shutil.rmtree(folder)


KINDS: dict[str, dict[str, Any]] = {
    "numbers": {},
    "names": {"id_type": "string"},
    "wide": {"bits": 128, "max_distance": 9},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_is_interrupted_as_it_follows_goes_on(kind: str, tmp_path: Path) -> None:
    """What it took in of some changes is in its memory already, and no snapshot tells of it."""
    path = tmp_path / "s"
    fpstore.create(path, **KINDS[kind]).close()
    numbers = itertools.count()

    def some() -> tuple[list[int], list[Any]]:
        own = [1 << 20 | next(numbers) << 24 for _ in range(3)]
        return own, [f"n{one:x}" if kind == "names" else one for one in own]

    def change(writer: Store) -> int:
        for _ in range(3):
            keys, ids = some()
            writer.add(keys, ids=ids)
        writer.remove(ids=ids[:1])
        keys, ids = some()
        writer.add(keys, ids=ids)
        return keys[0]

    with fpstore.open(path, "w") as writer, fpstore.open(path) as reader:
        change(writer)
        reader.count()
        key = change(writer)
        tried = moments(partial(reader.probe, key, max_distance=0))
        assert len(tried) > 50
        for number in Random(11).sample(tried, min(3 * TRIED, len(tried))):
            key = change(writer)
            where = interrupted(partial(reader.probe, key, max_distance=0), number)
            try:
                assert len(reader.probe(key, max_distance=0)) == 1
                key = change(writer)
                assert len(reader.probe(key, max_distance=0)) == 1
                assert reader.count("rows") == writer.count("rows")
            except Exception as error:
                raise AssertionError(f"interrupted at {where}") from error


def test_an_environment_is_closed_or_open_whenever_its_closing_is_interrupted(original: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(original, path)
    with Folder.open(path) as folder, leaving_some_open():

        def close() -> None:
            environment = environments.share(folder, CATALOG_NAME)
            environment.run(lambda transaction: transaction.id())
            environments.give_back(environment)

        for number in moments(close):
            interrupted(close, number)
            again = environments.share(folder, CATALOG_NAME)
            assert again.run(lambda transaction: transaction.id()) > 0
            environments.give_back(again)


def held_by(kind: str, folder: Folder) -> Folder | AppendFile | Claim | Held:
    """What holds files open, of each kind."""
    if kind == "folder":
        return folder.inside("own")
    if kind == "file":
        return AppendFile(folder, "lines", 0)
    return Claim(folder.path / "result") if kind == "claim" else Held(folder)


@pytest.mark.parametrize("kind", ["folder", "file", "claim", "mirror"])
def test_what_is_closed_again_after_an_interruption_leaves_the_files_of_others(kind: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    with Folder.open(tmp_path) as folder:

        def numbers() -> set[int]:
            return set(map(int, os.listdir("/proc/self/fd")))

        for number in moments(held_by(kind, folder).close):
            before = numbers()
            held = held_by(kind, folder)
            own = numbers() - before
            interrupted(held.close, number)
            others = [os.open(tmp_path, os.O_RDONLY) for _ in own]  # of the numbers that are free by now
            held.close()
            held.close()
            for other in others:
                os.close(other)
            assert numbers() == before


def test_a_claim_that_nobody_has_any_more_is_let_go_of(tmp_path: Path) -> None:
    """As that of a job that was interrupted before anybody had it."""
    claim: Claim | None = Claim(tmp_path / "kept.jsonl")
    with pytest.raises(JobError, match="this process is at this job already"):
        Claim(tmp_path / "kept.jsonl")
    assert claim is not None
    claim = None
    Claim(tmp_path / "kept.jsonl").close()


def test_what_a_refused_build_leaves_where_its_end_is_interrupted_goes_with_the_next_writer(tmp_path: Path) -> None:
    """Until then it is in no one's way, and the files are told with what it is."""
    fpstore.build(tmp_path / "old", KEYS).close()
    names = {str(path.relative_to(tmp_path / "old")) for path in (tmp_path / "old").rglob("*")}
    path, left = tmp_path / "store", 0

    def refused() -> None:
        with contextlib.suppress(ValueError):
            fpstore.build(path, [], force=True)

    def begun(work: Callable[[], Any]) -> Any:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(tmp_path / "old", path)
        return work()

    def ends(moment: Moment) -> bool:
        return moment.function.startswith(("remove_", "_replace", "Folder.unlink", "Folder.names"))

    with leaving_some_open():
        for number in begun(lambda: moments(refused, ends)):
            where = begun(partial(interrupted, refused, number))
            more = {str(each.relative_to(path)) for each in path.rglob("*")} - names
            left += len(more)
            told = {each["path"]: each["what"] for each in inspect_store(path).to_json()["files"]}
            assert all("was, when its writer died" in told[each] for each in more), (where, more)
            with fpstore.open(path) as store:
                store.verify()
            with fpstore.open(path, mode="w") as store:
                assert store.count() == len(KEYS), where
            assert {str(each.relative_to(path)) for each in path.rglob("*")} == names, where
    assert left > 0
