"""Which files a store's folder has, what each is, and how many bytes of each kind there are."""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
from living import MORE, ids_from, store_of_some

import fpstore
from fpstore.disk import Folder
from fpstore.living import census as censuses
from fpstore.living.catalog import Catalog
from fpstore.living.census import KINDS, StoreFile, bytes_by_kind, census


def files_of(folder: Path, *, known: bool = True) -> dict[str, StoreFile]:
    with Folder.open(folder) as home, Catalog.open(folder) as catalog:
        return {file.path: file for file in census(home, catalog.state() if known else None)}


def test_every_file_is_told_and_counted_once(tmp_path: Path) -> None:
    folder = store_of_some(tmp_path / "s")
    with fpstore.open(folder, "w") as store:
        store.add(MORE, ids=ids_from(1000, 300))
        store._flush()
        identity = store.identity
    others = {
        "jobs/index": ("jobs", "what jobs go on with"),
        "jobs/unfinished.json": ("jobs", "a job that is not done"),
        "aside/00000009.fpseg": ("aside", "what the catalog never named"),
        "catalog.mdb.new": ("other", "a catalog that was not finished"),
        f"segments/00000007.fpseg.{identity[:16]}.new": (
            "other",
            "a segment that is being made, or was, when its writer died",
        ),
        "segments/00000008.fpseg": ("other", "a segment that the catalog does not name"),
        "segments/notes.txt": ("other", "no file of fpstore"),
        "mine/deep/deeper.txt": ("other", "no file of fpstore"),
    }
    for size, name in enumerate(others, 1):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    found = files_of(folder)
    live = ["segments/00000001.fpseg", "segments/00000002.fpseg"]
    expected = others | {
        "catalog.mdb": ("catalog", "settings, live segments, the log"),
        "writer.lock": ("other", "the writer's lock"),
        **dict.fromkeys(live, ("segments", "a live segment")),
    }
    assert {path: (file.kind, file.what) for path, file in found.items()} == expected
    assert all(file.size_bytes == (folder / path).stat().st_size for path, file in found.items())
    assert {files_of(folder, known=False)[path].what for path in live} == {"a segment"}
    with Folder.open(folder) as home, Catalog.open(folder) as catalog:
        sizes = bytes_by_kind(home, catalog.state())
    assert tuple(sizes) == KINDS
    assert sum(sizes.values()) == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with fpstore.open(folder) as store:
        stats = store.stats()
        assert stats.total_bytes == sum(sizes.values())
        assert {kind: getattr(stats, f"{kind}_bytes") for kind in KINDS} == sizes
        assert stats.segment_count == len(stats.segments) == 2


def test_a_segment_that_was_replaced_is_told_from_a_live_one(tmp_path: Path) -> None:
    folder = store_of_some(tmp_path / "s")
    with Folder.open(folder) as home, Catalog.open(folder) as catalog:
        state = catalog.state()
        replaced = dataclasses.replace(state, segments=(), strays=state.segments)
        found = {file.path: file.what for file in census(home, replaced)}
    assert found["segments/00000001.fpseg"] == "a segment that was replaced, to be removed"


def test_links_pipes_and_deep_folders_are_told_and_not_followed(tmp_path: Path) -> None:
    folder = store_of_some(tmp_path / "s")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "large").write_bytes(bytes(10_000))
    (folder / "link").symlink_to(tmp_path / "far")
    os.mkfifo(folder / "pipe")
    deep = folder / "/".join("d" * (censuses.MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(bytes(500))
    found = files_of(folder)
    assert found["link"].what == "a link, no file of fpstore"
    assert found["pipe"].what == "no regular file"
    assert [file.what for path, file in found.items() if path.startswith("d/")] == ["a folder that was not looked into"]
    assert not any("large" in path for path in found)


def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store_of_some(tmp_path / "s")
    (folder / "mine").mkdir()
    open_file = os.open

    def refuse(name: str, flags: int, **where: int) -> int:
        if name == "mine":  # what others than root are told
            raise PermissionError(13, "Permission denied", name)
        return open_file(name, flags, **where)

    with Folder.open(folder) as home:
        monkeypatch.setattr(os, "open", refuse)
        found = {file.path: file.what for file in census(home, None)}
    assert found["mine"] == "a folder that was not looked into"


def test_what_goes_meanwhile_is_left_out(tmp_path: Path) -> None:
    folder = store_of_some(tmp_path / "s")
    for name in ("gone", "zz"):
        (folder / name).mkdir()
        (folder / name / "x").write_bytes(b"x")
    (folder / "y").write_bytes(b"y")
    with Folder.open(folder) as home:
        found = []
        for file in census(home, None):
            found.append(file.path)
            if file.path == "catalog.mdb":
                shutil.rmtree(folder / "gone")
                (folder / "y").unlink()
    assert "gone/x" not in found
    assert found[-1] == "zz/x"
    assert "y" not in found


def test_nothing_is_left_open(tmp_path: Path) -> None:
    folder = store_of_some(tmp_path / "s")
    for number in range(20):
        (folder / f"f{number}").mkdir()
    with fpstore.open(folder) as store:
        for _ in range(5):
            store.stats()
        inside = len(os.listdir("/proc/self/fd"))
        store.stats()
        assert len(os.listdir("/proc/self/fd")) == inside
