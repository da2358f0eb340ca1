"""A store knows itself: whatever its path, files or moment become, nothing is lost, and the error says why."""

# mypy: disable-error-code="arg-type, attr-defined, union-attr"

import contextlib
import dataclasses
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from living import MORE, SOME, ids_from, store_of_some

import fpstore
from fpstore import CorruptStore, NotAStore, StoreChanged
from fpstore.living import reader as readers
from fpstore.living.catalog import Catalog
from fpstore.living.records import Log
from fpstore.living.sizes import LivingSizes
from fpstore.living.writer import Writer
from fpstore.types import Ids, Keys

Row = tuple[int, int]

OFTEN = readers.LOOK_SECONDS


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """SOME, with row numbers."""
    return store_of_some(tmp_path / "live")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Another store: MORE, in three segments and pending."""
    path = tmp_path / "new"
    fpstore.build(path, MORE[:100], ids=ids_from(0, 100), plan="paper-4").close()
    with pytest.MonkeyPatch.context() as unmerged, fpstore.open(path, "w") as store:
        unmerged.setattr(Writer, "_start_merge", lambda *_: None)
        for first in (100, 175):
            store.add(MORE[first : first + 75], ids=ids_from(first, 75))
            store._flush()
        store.add(MORE[250:], ids=ids_from(250, 50))
    return path


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers look at every call where their path leads, so that no test waits for that."""
    monkeypatch.setattr(readers, "LOOK_SECONDS", 0.0)


def rows_of(path: Path) -> set[Row]:
    with fpstore.open(path) as store:
        store.verify()
        return {
            row
            for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows())
            for row in zip(keys.tolist(), ids.tolist(), strict=True)
        }


def rows(keys: Keys, ids: Ids) -> set[Row]:
    return set(zip(keys.tolist(), ids.tolist(), strict=True))


SOME_ROWS = rows(SOME, ids_from(0, 300))
MORE_ROWS = rows(MORE, ids_from(0, 300))


def tree(path: Path) -> dict[str, bytes | str]:
    """Every file under path with its bytes, and every link; not the lock, which says who writes."""
    return {
        each.relative_to(path).as_posix(): os.readlink(each) if each.is_symlink() else each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_symlink() or (each.is_file() and not each.name.endswith("lock"))
    }


def swap(live: Path, new: Path) -> None:
    """A deploy."""
    live.rename(live.with_name("old"))
    new.rename(live)


# --- A store replaced under whoever has it open ---

CHANGES: dict[str, Callable[[fpstore.Store], Any]] = {
    "add": lambda store: store.add([1], ids=[1]),
    "add a segment": lambda store: store.add(MORE, ids=ids_from(0, 300)),
    "add_if_new": lambda store: store.add_if_new([1], ids=[1]),
    "upsert": lambda store: store.upsert([1], ids=[1]),
    "remove": lambda store: store.remove(ids=[1]),
    "remove a pair": lambda store: store.remove(fingerprints=[1], ids=[1]),
    "flush": lambda store: store._flush(),
    "compact": lambda store: store.compact(),
    "sync": lambda store: store.sync(),
    "close": lambda store: store.close(),
}


@pytest.mark.parametrize("durability", ["commit", "batch"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_writer_whose_store_was_replaced_says_so_and_changes_neither(
    live: Path, new: Path, name: str, durability: str
) -> None:
    store = fpstore.Store(live, "w", durability, LivingSizes(flush_rows=200))
    store.add(MORE[:10], ids=ids_from(1000, 10))
    store.sync()
    store.remove(fingerprints=SOME[:5])  # so that compact has something to do
    if durability == "batch" and name == "sync":
        store.add([77], ids=[77])
    before = tree(live), tree(new)
    swap(live, new)
    if name == "sync" and durability == "commit":
        store.sync()  # which has nothing to write
    elif durability == "batch" and name in ("add", "add_if_new"):
        CHANGES[name](store)  # which waits
    else:
        with pytest.raises(StoreChanged, match=f"^{live}: found another folder, expected the folder that was opened"):
            CHANGES[name](store)
    if name != "close":
        for _ in range(2):
            with pytest.raises(StoreChanged):
                store._flush()
        with pytest.raises(StoreChanged):
            store.probe(1)
        store.close()
    assert (tree(live.with_name("old")), tree(live)) == before
    assert rows_of(live) == MORE_ROWS
    expected = {row for row in SOME_ROWS if row[0] not in SOME[:5].tolist()} | rows(MORE[:10], ids_from(1000, 10))
    assert rows_of(live.with_name("old")) == expected


def test_what_went_wrong_in_a_with_block_is_told_before_what_closing_says(live: Path, new: Path) -> None:
    def lose(error: Exception | None) -> None:
        with fpstore.Store(live, "w", "batch") as store:
            store.add(MORE[:10], ids=ids_from(1000, 10))
            swap(live, new)
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError) as caught:
        lose(ZeroDivisionError())
    (note,) = caught.value.__notes__
    assert note.startswith(f"closing the store: {live}: found another folder")
    shutil.rmtree(live)
    live.with_name("old").rename(live)
    shutil.copytree(live, new)
    with pytest.raises(StoreChanged):
        lose(None)


@pytest.mark.parametrize("what", ["another store", "a copy of its files", "nothing", "a file", "a folder", "a link"])
def test_a_reader_whose_path_leads_elsewhere_says_so_at_every_call(live: Path, new: Path, what: str) -> None:
    with fpstore.open(live) as store:
        assert store.contains_near(int(SOME[0]))
        live.rename(live.with_name("old"))
        if what == "another store":
            new.rename(live)
        elif what == "a copy of its files":
            shutil.copytree(live.with_name("old"), live)
        elif what == "a file":
            live.write_text("mine")
        elif what == "a folder":
            live.mkdir()
        elif what == "a link":
            live.symlink_to(new)
        found = "nothing" if what == "nothing" else "another folder"
        for call in (lambda: store.probe(1), store._refresh, lambda: store.probe_many([1]), lambda: store.count()):
            with pytest.raises(StoreChanged, match=f"^{live}: found {found}, expected .*; open the store again$"):
                call()


def test_a_reader_looks_where_its_path_leads_ten_times_a_second(
    live: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert OFTEN == 0.1
    monkeypatch.setattr(readers, "LOOK_SECONDS", OFTEN)
    with fpstore.open(live) as store, fpstore.open(live) as other:
        other.probe(1)  # and looks again in a tenth of a second, the one below in an hour
        monkeypatch.setattr(readers, "LOOK_SECONDS", 3600.0)
        store.probe(1)
        swap(live, new)
        store.probe(1)
        with pytest.raises(StoreChanged):
            probe_for_ten_seconds(other)


def probe_for_ten_seconds(store: fpstore.Store) -> None:
    for _ in range(200):
        store.probe(1)
        time.sleep(0.05)


def test_a_store_that_was_moved_and_came_back_is_the_same(live: Path) -> None:
    with fpstore.open(live, "w") as store, fpstore.open(live) as reader:
        live.rename(live.with_name("old"))
        live.with_name("old").rename(live)
        store.add([1], ids=[1])
        assert reader.contains_near(1, max_distance=0)


def test_a_link_to_a_store_is_followed_once(live: Path, new: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("live")
    with fpstore.open(tmp_path / "current") as reader, fpstore.open(tmp_path / "current", "w") as writer:
        writer.add([1], ids=[1])
        assert reader.contains_near(1, max_distance=0)
        (tmp_path / "next").symlink_to("new")
        (tmp_path / "next").rename(tmp_path / "current")
        with pytest.raises(StoreChanged):
            reader.probe(1)
        with pytest.raises(StoreChanged):
            writer.add([2], ids=[2])
    assert rows_of(live) == SOME_ROWS | {(1, 1)}
    assert rows_of(new) == MORE_ROWS


@pytest.mark.parametrize("up", ["live", "../here/live", "./live", "there/../live"])
def test_a_relative_path_is_that_of_the_folder_it_was_opened_in(
    live: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, up: str
) -> None:
    for folder, store in (("here", live), ("there", new)):
        (tmp_path / folder).mkdir()
        store.rename(tmp_path / folder / "live")
    (tmp_path / "here" / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with fpstore.open(up, "w") as writer, fpstore.open(up) as reader:
        assert (writer.path.is_absolute(), reader.path.is_absolute()) == (True, True)
        before = tree(tmp_path / "there")
        monkeypatch.chdir(tmp_path / "there")
        writer.add([1], ids=[1])
        writer._flush()
        writer.compact()
        assert reader.contains_near(1, max_distance=0)
    assert tree(tmp_path / "there") == before
    assert rows_of(tmp_path / "here" / "live") == SOME_ROWS | {(1, 1)}


@pytest.mark.parametrize("how", ["renamed over", "written over", "gone"])
def test_a_catalog_replaced_under_a_writer_is_left_as_it_is(live: Path, new: Path, how: str) -> None:
    store = fpstore.open(live, "w")
    before = tree(live)
    if how == "renamed over":
        shutil.copyfile(new / "catalog.mdb", live / "other")
        (live / "other").rename(live / "catalog.mdb")
    elif how == "written over":
        (live / "catalog.mdb").write_bytes((new / "catalog.mdb").read_bytes())
    else:
        (live / "catalog.mdb").unlink()
    for _ in range(2):
        with pytest.raises((StoreChanged, CorruptStore)):
            store.add([1], ids=[1])
    with contextlib.suppress(CorruptStore):
        store.close()
    segments = {name: data for name, data in before.items() if name.startswith("segments/")}
    assert {name: data for name, data in tree(live).items() if name.startswith("segments/")} == segments
    if how != "gone":
        assert (live / "catalog.mdb").read_bytes() == (new / "catalog.mdb").read_bytes()


def test_a_catalog_moved_away_with_a_link_in_its_place_is_not_written_to(live: Path) -> None:
    with fpstore.open(live, "w") as store:
        (live / "catalog.mdb").rename(live / "x")
        (live / "catalog.mdb").symlink_to(live / "x")
        before = tree(live)
        with pytest.raises(StoreChanged, match=r"found another catalog\.mdb or none"):
            store.add([1], ids=[1])
    assert tree(live) == before


@pytest.mark.parametrize("name", ["flush", "compact"])
def test_a_folder_of_segments_replaced_under_a_writer_is_left_as_it_is(live: Path, new: Path, name: str) -> None:
    aside = live.with_name("x")
    with fpstore.open(live, "w") as store:
        store.add(MORE[:10], ids=ids_from(5000, 10))
        (live / "segments").rename(aside)
        (new / "segments").rename(live / "segments")
        aside.rename(new / "segments")
        before = tree(live.parent)
        with pytest.raises(StoreChanged, match="found another folder segments or none"):
            CHANGES[name](store)
    assert tree(live.parent) == before
    (live / "segments").rename(aside)
    (new / "segments").rename(live / "segments")
    aside.rename(new / "segments")
    assert rows_of(live) == SOME_ROWS | rows(MORE[:10], ids_from(5000, 10))
    assert rows_of(new) == MORE_ROWS


def test_a_folder_of_segments_replaced_under_a_reader_is_noticed(live: Path) -> None:
    with fpstore.open(live) as store:
        shutil.copytree(live / "segments", live / "x")
        (live / "segments").rename(live / "y")
        (live / "x").rename(live / "segments")
        with pytest.raises(StoreChanged, match="found another folder segments or none"):
            store.probe(1)


def test_a_segment_replaced_under_a_writer_is_not_merged_for_its_name(live: Path, new: Path) -> None:
    name = "segments/00000001.fpseg"
    sound = (live / name).read_bytes()
    with fpstore.open(live, "w") as store:
        store.add(MORE[:10], ids=ids_from(5000, 10))
        shutil.copy(new / name, live / "x")
        (live / "x").rename(live / name)
        with pytest.raises(CorruptStore, match=r"segment: found .*, which the catalog names"):
            store.compact()
    (live / name).write_bytes(sound)
    assert rows_of(live) == SOME_ROWS | rows(MORE[:10], ids_from(5000, 10))


def test_an_earlier_catalog_put_back_under_a_reader_and_a_writer_is_noticed(live: Path) -> None:
    early = (live / "catalog.mdb").read_bytes()
    with fpstore.open(live, "w") as store:
        store.add([1], ids=[1])
    reader, writer = fpstore.open(live), fpstore.open(live, "w")
    (live / "catalog.mdb").write_bytes(early.ljust((live / "catalog.mdb").stat().st_size, b"\0"))
    with pytest.raises(StoreChanged, match=r"found the catalog of an earlier moment \(generation 1, "):
        reader._refresh()
    for _ in range(2):
        with pytest.raises(StoreChanged, match="found the state of another writer, expected what this one left"):
            writer.add([2], ids=[2])
    reader.close()
    writer.close()
    assert rows_of(live) == SOME_ROWS


def test_the_state_of_an_earlier_moment_is_told_from_a_later_one(live: Path) -> None:
    with fpstore.open(live) as reader, Catalog.open(live) as catalog:
        state = catalog.state()
        for name, found in (("generation", 0), ("next_change", 0), ("transaction", 0), ("origin", "0" * 32)):
            later = object.__new__(type(state))
            later.__dict__.update(vars(state), **{name: found})
            assert later.follows(state) is False
            assert state.follows(state) is True
            reader._living.snapshot = dataclasses.replace(reader._living.snapshot, state=state)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Catalog, "read", lambda *_: Log(later, (), None))  # noqa: B023
                reader._living._stamp = None
                expected = f"store {'0' * 32}, expected" if name == "origin" else f"an earlier moment .*{name} 0"
                with pytest.raises(StoreChanged, match=f"^{live}: found the catalog of {expected}"):
                    reader.probe(1)
            reader._living._catalog._changed = None


def test_two_writers_never_write_to_one_store(live: Path) -> None:
    # As where the lock of the first was removed, or where locks mean nothing.
    with fpstore.open(live, "w") as store, Catalog.open(live) as other:
        other._writer_lock, lock = store._living._catalog._writer_lock, other._writer_lock
        other.publish()
        other._writer_lock = lock
        for name in ("add", "flush", "compact"):
            with pytest.raises(StoreChanged, match="found the state of another writer"):
                CHANGES[name](store)
    assert rows_of(live) == SOME_ROWS


def test_a_build_in_place_gives_the_store_another_identity_and_readers_follow(live: Path) -> None:
    with fpstore.open(live) as reader:
        before = reader.identity
        fpstore.build(live, MORE, ids=ids_from(0, 300), force=True).close()
        assert reader.contains_near(int(MORE[0]), max_distance=0)
        assert reader.identity != before
        assert len(reader.identity) == 32


# --- Nothing is removed that this store did not make ---


def moved_on(live: Path) -> None:
    """Later moments of the store: more segments, of which none stays."""
    for number in range(3):
        with fpstore.open(live, "w") as store:
            store.add(MORE[100 * number : 100 * number + 100], ids=ids_from(1000 + 100 * number, 100))
            store.compact()


def every_bytes(path: Path) -> set[bytes | str]:
    """What all files of segments hold, with or without a name, wherever they are."""
    return {data for name, data in tree(path).items() if ".fpseg" in name}


def quietly(path: Path) -> Exception | None:
    """Open the store for writing and close it; the error, if any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fpstore.open(path, "w").close()
        except fpstore.Error as error:
            return error
    return None


def test_a_catalog_of_one_moment_with_segments_of_another_loses_none(live: Path, tmp_path: Path) -> None:
    shutil.copytree(live, tmp_path / "early")
    moved_on(live)
    shutil.copytree(live, tmp_path / "late")
    for catalog, segments in (("early", "late"), ("late", "early")):
        mixed = tmp_path / f"{catalog} with {segments}"
        shutil.copytree(tmp_path / segments, mixed)
        shutil.copyfile(tmp_path / catalog / "catalog.mdb", mixed / "catalog.mdb")
        before = every_bytes(mixed)
        assert isinstance(quietly(mixed), CorruptStore)
        assert every_bytes(mixed) == before
        # The right catalog helps.
        shutil.copyfile(tmp_path / segments / "catalog.mdb", mixed / "catalog.mdb")
        assert quietly(mixed) is None
        assert rows_of(mixed) == rows_of(tmp_path / segments)


def test_an_older_catalog_that_opens_sets_later_segments_aside(live: Path, tmp_path: Path) -> None:
    shutil.copytree(live, tmp_path / "early")
    with pytest.MonkeyPatch.context() as unmerged, fpstore.open(live, "w") as store:
        unmerged.setattr(Writer, "_start_merge", lambda *_: None)
        store.add(MORE, ids=ids_from(1000, 300))
        store._flush()
    later = (live / "segments" / "00000002.fpseg").read_bytes()
    late = rows_of(live)
    catalog = (live / "catalog.mdb").read_bytes()
    shutil.copyfile(tmp_path / "early" / "catalog.mdb", live / "catalog.mdb")
    with pytest.warns(UserWarning, match=f"^{live}: found segments that its catalog never named, 00000002.fpseg"):
        fpstore.open(live, "w").close()
    assert rows_of(live) == SOME_ROWS
    assert (live / "aside" / "00000002.fpseg").read_bytes() == later
    (live / "aside" / "00000002.fpseg").rename(live / "segments" / "00000002.fpseg")
    (live / "catalog.mdb").write_bytes(catalog)
    assert rows_of(live) == late


def test_two_folders_merged_into_one_lose_no_segment(live: Path, new: Path) -> None:
    before = every_bytes(live) | {
        data for name, data in tree(new).items() if "/00000001" not in name and "fpseg" in name
    }
    shutil.copytree(live, new, dirs_exist_ok=True)  # cp -r live/. new/
    assert quietly(new) is None
    assert rows_of(new) == SOME_ROWS
    assert every_bytes(new) == before


def test_a_build_by_force_removes_only_what_the_store_made(live: Path) -> None:
    (live / "segments" / "00000007.fpseg").write_bytes(b"mine")
    with pytest.warns(UserWarning, match="00000007"):
        fpstore.build(live, MORE, ids=ids_from(0, 300), force=True).close()
    assert rows_of(live) == MORE_ROWS
    assert {each.name for each in (live / "segments").iterdir()} == {"00000002.fpseg"}
    assert (live / "aside" / "00000007.fpseg").read_bytes() == b"mine"


def test_a_build_by_force_that_fails_removes_nothing_that_another_catalog_needs(live: Path, tmp_path: Path) -> None:
    shutil.copytree(live, tmp_path / "restored")
    with fpstore.open(live, "w") as store:
        store.add(MORE, ids=ids_from(300, 300))
        store.compact()  # this catalog says that the first segment is to go
    shutil.copy(live / "catalog.mdb", tmp_path / "restored" / "catalog.mdb")
    before = tree(tmp_path / "restored" / "segments")

    def parts() -> Any:
        yield MORE
        raise fpstore.Error("the input ends in the middle")

    with pytest.raises(fpstore.Error, match="in the middle"):
        fpstore.build(tmp_path / "restored", parts(), force=True)
    assert tree(tmp_path / "restored" / "segments") == before


@pytest.mark.slow
def test_a_copy_of_a_live_store_by_the_file_system_loses_no_segment_when_it_is_opened(
    live: Path, tmp_path: Path
) -> None:
    done = threading.Event()

    def write() -> None:
        with fpstore.Store(live, "w", sizes=LivingSizes(flush_rows=30)) as store:
            first = 1000
            while not done.is_set():
                store.add(MORE[:20] ^ np.uint64(first), ids=ids_from(first, 20))
                first += 20

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(20):
            copy = tmp_path / f"copy-{number}"
            for _ in range(50):  # a name that goes meanwhile ends a copytree
                shutil.rmtree(copy, ignore_errors=True)
                try:
                    shutil.copytree(live, copy)
                except shutil.Error:
                    continue
                break
            before = every_bytes(copy)
            quietly(copy)
            with_a_mark = {data for name, data in tree(copy).items() if name.endswith(".new")}
            lost = before - every_bytes(copy) - with_a_mark
            # What went is what the store had merged, or never finished; all that it knows is there.
            if quietly(copy) is None:
                assert rows_of(copy) >= SOME_ROWS
            else:
                assert not lost
    finally:
        done.set()
        writer.join()


def test_a_segment_has_its_name_only_once_the_catalog_has_said_so(live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    announce = Catalog.announce

    def watched(self: Catalog, entry: Any) -> Any:
        seen.append(sorted(each.name for each in (live / "segments").iterdir()))
        state = announce(self, entry)
        seen.append([stray.name for stray in state.strays])
        return state

    monkeypatch.setattr(Catalog, "announce", watched)
    with fpstore.open(live, "w") as store:
        store.add([1], ids=[1])
        store.compact()
        mark = store.identity[:16]
    assert seen[:2] == [["00000001.fpseg", f"00000002.fpseg.{mark}.new"], ["00000002.fpseg"]]


# --- Links and files that are missing or another's ---


@pytest.mark.parametrize("mode", ["r", "w", "force"])
@pytest.mark.parametrize("name", ["segments", "catalog.mdb", "segments/00000001.fpseg", "writer.lock", "aside"])
def test_a_link_inside_a_store_is_refused_and_what_it_leads_to_left_alone(
    live: Path, tmp_path: Path, name: str, mode: str
) -> None:
    if name == "aside":
        (live / "segments" / "00000009.fpseg").write_bytes(b"strange")
        (tmp_path / "mine").mkdir()
    else:
        (live / name).rename(tmp_path / "mine")
        if name == "segments":
            (tmp_path / "mine" / "00000009.fpseg").write_bytes(b"mine")
    (live / name).symlink_to(tmp_path / "mine")
    before = tree(tmp_path / "mine") if (tmp_path / "mine").is_dir() else (tmp_path / "mine").read_bytes()
    harmless = {("writer.lock", "r"), ("aside", "r"), ("segments/00000001.fpseg", "force")}
    if (name, mode) in harmless:
        fpstore.open(live).close() if mode == "r" else None
    else:
        with pytest.raises(
            CorruptStore, match=f"{live / name}: (folder: found something else|file: found what is not)"
        ):
            fpstore.build(live, MORE, force=True) if mode == "force" else fpstore.open(live, mode)
    assert before == (tree(tmp_path / "mine") if (tmp_path / "mine").is_dir() else (tmp_path / "mine").read_bytes())


def test_the_folder_of_the_segments_missing_is_named(live: Path) -> None:
    shutil.rmtree(live / "segments")
    for mode in ("r", "w"):
        with pytest.raises(CorruptStore, match=f"^{live}/segments: segments: found no folder, expected that"):
            fpstore.open(live, mode)
    assert not (live / "segments").exists()


def test_an_empty_store_whose_folder_of_segments_was_left_out_is_whole(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    (tmp_path / "s" / "segments").rmdir()
    with fpstore.open(tmp_path / "s") as store:
        assert store.count() == 0
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([1], ids=[1])
        store._flush()
    assert rows_of(tmp_path / "s") == {(1, 1)}


def test_a_catalog_that_is_gone_is_damage_and_a_folder_of_something_else_is_no_store(
    live: Path, tmp_path: Path
) -> None:
    (live / "catalog.mdb").unlink()
    with pytest.raises(CorruptStore, match=r"found no catalog\.mdb, expected it beside segments"):
        fpstore.open(live)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "file", "link", "pipe"):
        for mode in ("r", "w"):
            with pytest.raises(NotAStore, match=f"^{tmp_path / name}: found "):
                fpstore.open(tmp_path / name, mode)
    assert list((tmp_path / "empty").iterdir()) == []
    for name in ("absent", "absent/store", "file/store"):
        with pytest.raises((FileNotFoundError, NotADirectoryError, NotAStore)):
            fpstore.open(tmp_path / name)


# --- Identity ---


def test_a_copy_has_an_identity_of_its_own_and_the_same_segments(live: Path, tmp_path: Path) -> None:
    with fpstore.open(live) as store:
        store.copy(tmp_path / "copy")
        with fpstore.open(tmp_path / "copy") as copy:
            assert store.identity != copy.identity
            assert store._segments[0].path.read_bytes() == copy._segments[0].path.read_bytes()


# --- Forks ---


@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_store_closes_at_once_in_a_child_whatever_threads_held(live: Path, mode: str) -> None:
    store = fpstore.open(live, mode)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with store._lock, store._living._lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if not pid:
        try:
            store.close()
            store.close()
            fpstore.open(live).close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    deadline = threading.Event()
    for _ in range(1000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        deadline.wait(0.02)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        status = 9
    go.set()
    thread.join()
    assert status == 0
    store.probe(1)
    store.close()
