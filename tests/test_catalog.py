"""The catalog on disk: published whole, in a file that grows."""

# mypy: disable-error-code="assignment, no-any-return, union-attr"

import errno
import random
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from catalogs import (
    OTHER_SETTINGS,
    PAGE,
    SETTINGS,
    entry,
    lmdb_error,
    published_once,
    read_metas,
    run_python,
    wait_for,
    write_metas,
)

from fpstore.disk import Folder
from fpstore.errors import NotAStore
from fpstore.living import environment
from fpstore.living.catalog import Catalog, create_catalog
from fpstore.living.environment import Environment
from fpstore.living.state import Settings, State


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return published_once(tmp_path)


# --- Creating and publishing ---


def test_a_new_catalog_says_what_it_was_made_with(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        state = catalog.state()
    assert (state.settings, state.segments, state.generation, state.next_segment) == (SETTINGS, (entry(1),), 1, 2)


def test_a_catalog_without_segments_starts_at_number_one(tmp_path: Path) -> None:
    create_catalog(tmp_path, SETTINGS)
    with Catalog.open(tmp_path) as catalog:
        assert (catalog.state().segments, catalog.state().next_segment) == ((), 1)


def test_its_files_are_private_and_nothing_else_is_left(folder: Path) -> None:
    with Catalog.open(folder):
        assert sorted(path.name for path in folder.iterdir()) == ["catalog.mdb", "writer.lock"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_same_settings_and_segments_give_the_same_bytes_but_for_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.living.records.new_identity", lambda: "0f" * 16)
    for name in "ab":
        (tmp_path / name).mkdir()
        create_catalog(tmp_path / name, SETTINGS, (entry(1),))
    for name in ("catalog.mdb", "writer.lock"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_catalog_is_not_created_over_another(folder: Path) -> None:
    before = (folder / "catalog.mdb").read_bytes()
    with pytest.raises(FileExistsError, match="there is a catalog already"):
        create_catalog(folder, OTHER_SETTINGS)
    assert (folder / "catalog.mdb").read_bytes() == before


def test_a_creation_that_fails_leaves_nothing_that_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "rename", fail)
        with pytest.raises(OSError, match="Input/output error"):
            create_catalog(tmp_path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["writer.lock"]
    create_catalog(tmp_path, SETTINGS)


def test_a_creation_that_was_killed_does_not_hinder_the_next(tmp_path: Path) -> None:
    (tmp_path / "catalog.mdb.new").write_bytes(b"half a file")
    with pytest.raises(NotAStore, match=r"found no catalog\.mdb, expected a folder that fpstore made"):
        Catalog.open(tmp_path)
    create_catalog(tmp_path, SETTINGS)
    assert not list(tmp_path.glob("*.new*"))


def test_publishing_changes_what_is_given_and_keeps_the_rest(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        state = catalog.publish(segments=(entry(1), entry(2)))
        assert (state.settings, state.segments, state.generation) == (SETTINGS, (entry(1), entry(2)), 2)
        state = catalog.publish(settings=OTHER_SETTINGS)
        assert (state.settings, state.segments, state.generation) == (OTHER_SETTINGS, (entry(1), entry(2)), 3)
        state = catalog.publish(settings=SETTINGS, segments=())
        assert (state.settings, state.segments, state.generation) == (SETTINGS, (), 4)
        assert catalog.state() == state
    with Catalog.open(folder) as catalog:
        assert catalog.state() == state


def test_the_number_of_a_segment_is_never_given_again(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.publish(segments=(entry(9),)).next_segment == 10
        assert catalog.publish(segments=()).next_segment == 10
        assert catalog.publish(segments=(entry(3),)).next_segment == 10


def test_a_reader_sees_what_another_process_published(folder: Path) -> None:
    with Catalog.open(folder) as reader:
        assert reader.state().generation == 1
        code = "with Catalog.open(Path(sys.argv[1]), writable=True) as c: c.publish(segments=())"
        wait_for(run_python(code, folder))
        assert (reader.state().generation, reader.state().segments) == (2, ())


def test_a_segment_named_twice_is_refused_and_nothing_is_published(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        with pytest.raises(ValueError, match="expected each of them once"):
            catalog.publish(segments=(entry(2), entry(2)))
        assert catalog.state().generation == 1


def test_publishing_needs_a_catalog_opened_for_writing(folder: Path) -> None:
    with Catalog.open(folder) as catalog, pytest.raises(ValueError, match="opened for reading, expected writable=True"):
        catalog.publish(segments=())


def test_after_publishing_both_meta_pages_lead_to_the_new_state(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        published = catalog.publish(settings=OTHER_SETTINGS)
        catalog.repeat(published)
    metas = read_metas(folder)
    newest = max((0, 1), key=lambda page: metas[page][-1])
    # The one damage that the pair of numbers cannot show: the newer meta page made two transactions older.
    metas[newest][-1] -= 2
    write_metas(folder, metas)
    with Catalog.open(folder) as catalog:
        assert catalog.state() == published


def test_a_second_commit_that_fails_does_not_undo_the_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = environment.Environment.run, []

    def fail_the_second_write(
        self: Environment, work: Callable[..., Any], write: bool = False, more_bytes: int = 0
    ) -> State:
        calls.append(write)
        if write and calls.count(True) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return run(self, work, write, more_bytes)

    with Catalog.open(folder, writable=True) as catalog:
        monkeypatch.setattr(environment.Environment, "run", fail_the_second_write)
        published = catalog.publish(segments=())
        catalog.repeat(published)
        assert calls.count(True) == 2
        assert catalog.state() == published


@pytest.mark.slow
def test_a_publisher_killed_at_any_moment_loses_nothing_it_reported(folder: Path) -> None:
    code = """
with Catalog.open(Path(sys.argv[1]), writable=True) as catalog:
    while True:
        number = catalog.state().next_segment
        entry = SegmentEntry(f"{number:08d}.fpseg", number, number, number, number)
        print(catalog.publish(segments=(entry,)).generation, flush=True)
"""
    for seed in range(6):
        process = run_python(code, folder)
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.05))
        process.kill()
        reported = [line for line in process.communicate()[0].split("\n")[:-1] if line]
        with Catalog.open(folder, writable=True) as catalog:
            state = catalog.state()
        assert state.generation >= int(reported[-1]) if reported else True
        assert state.segments[0].crc == state.next_segment - 1 == state.generation


# --- The file grows ---


def test_a_record_larger_than_the_map_is_published(folder: Path) -> None:
    settings = Settings(max_distance=3, plan={}, codec="gap", id_type="uint64", recipe={"text": "x" * 3_000_000})
    with Catalog.open(folder, writable=True) as catalog:
        catalog.publish(settings=settings)
        assert catalog.state().settings == settings
    with Catalog.open(folder) as catalog:
        assert catalog.state().settings == settings


def test_a_record_larger_than_the_first_map_is_created(tmp_path: Path) -> None:
    settings = Settings(max_distance=3, plan={}, codec="gap", id_type="uint64", recipe={"text": "x" * 3_000_000})
    create_catalog(tmp_path, settings)
    with Catalog.open(tmp_path) as catalog:
        assert catalog.state().settings == settings


def test_a_map_that_fills_in_spite_of_all_is_grown_and_the_work_done_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.Environment, "_reserve", lambda *_args: None)
    settings = Settings(max_distance=3, plan={}, codec="gap", id_type="uint64", recipe={"text": "x" * 3_000_000})
    with Catalog.open(folder, writable=True) as catalog:
        assert catalog.publish(settings=settings) == catalog.state()
        assert (folder / "catalog.mdb").stat().st_size >= 4 << 20


def test_a_reader_follows_a_file_that_another_process_grew(folder: Path) -> None:
    with Catalog.open(folder) as reader:
        code = """
settings = Settings(max_distance=3, plan={}, codec="gap", id_type="uint64", recipe={"text": "x" * 3_000_000})
with Catalog.open(Path(sys.argv[1]), writable=True) as catalog: catalog.publish(settings=settings)
"""
        wait_for(run_python(code, folder))
        assert reader.state().settings.recipe == {"text": "x" * 3_000_000}


def test_every_page_that_lmdb_counts_lies_inside_the_file(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        for size in (10, 100_000, 10, 900_000, 10):
            catalog.publish(settings=Settings(max_distance=3, plan={"x": "x" * size}, codec="gap", id_type="uint64"))
            assert max(meta[-2] for meta in read_metas(folder)) < (folder / "catalog.mdb").stat().st_size // PAGE


def test_publishing_again_and_again_does_not_let_the_file_grow(folder: Path) -> None:
    with Catalog.open(folder, writable=True) as catalog:
        for _ in range(100):
            catalog.publish(segments=(entry(1),))
    assert (folder / "catalog.mdb").stat().st_blocks * 512 < 20 * PAGE


def test_an_environment_that_lmdb_gave_up_is_opened_anew(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        poisoned = [True]

        class Panicking:
            def begin(self) -> None:
                raise lmdb_error(lmdb.PanicError, -30795)

            def close(self) -> None:
                poisoned.clear()

        catalog._environment.close()
        catalog._environment._lmdb = Panicking()
        assert catalog.state().generation == 1
        assert not poisoned
        assert isinstance(catalog._environment._lmdb, lmdb.Environment)


def test_a_file_that_may_not_grow_keeps_the_old_state(folder: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
settings = Settings(max_distance=3, plan={}, codec="gap", id_type="uint64", recipe={"text": "x" * 3_000_000})
with Catalog.open(Path(sys.argv[1]), writable=True) as catalog:
    try:
        catalog.publish(settings=settings)
    except OSError as error:
        print(error)
    print(catalog.publish(segments=()).generation)
"""
    path = folder / "catalog.mdb"
    assert wait_for(run_python(code, folder)) == f"[Errno {errno.EFBIG}] File too large: '{path}'\n2\n"
    with Catalog.open(folder) as catalog:
        assert (catalog.state().settings, catalog.state().segments) == (SETTINGS, ())
