"""Sweeping: what the catalog says is to go, goes; what it never named is set aside, and nothing else is touched."""

import dataclasses
import errno
import os
from pathlib import Path

import pytest

import fpstore
from fpstore import CorruptStore
from fpstore.disk import Folder
from fpstore.living.catalog import Catalog
from fpstore.living.sweep import sweep_segments


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s", [1, 2, 3]).close()
    return tmp_path / "s"


def names(folder: Path, of: str = "segments") -> set[str]:
    return {path.name for path in (folder / of).iterdir()} if (folder / of).exists() else set()


def unpublished(folder: Path, number: int) -> str:
    with fpstore.open(folder) as store:
        return f"{number:08d}.fpseg.{store.identity[:16]}.new"


def test_segments_without_a_name_go_and_those_that_are_being_written_stay(folder: Path) -> None:
    one, other, strange = unpublished(folder, 5), unpublished(folder, 6), f"00000007.fpseg.{'0' * 16}.new"
    for name in (one, other, strange, "00000007.txt"):
        (folder / "segments" / name).write_bytes(b"")
    with Catalog.open(folder, writable=True) as catalog:
        sweep_segments(catalog, {other})
        assert names(folder) == {"00000001.fpseg", other, strange, "00000007.txt"}
        sweep_segments(catalog)
        assert names(folder) == {"00000001.fpseg", strange, "00000007.txt"}
    assert names(folder, "aside") == set()


def test_a_segment_that_was_announced_goes_if_it_is_the_one_that_was_meant(folder: Path) -> None:
    whole = (folder / "segments" / "00000001.fpseg").read_bytes()
    with Catalog.open(folder, writable=True) as catalog:
        (entry,) = catalog.state().segments
        for number, bytes_there in ((2, whole), (3, whole[:-1]), (4, whole[:-1] + b"x"), (5, b"")):
            catalog.announce(dataclasses.replace(entry, name=f"{number:08d}.fpseg"))
            (folder / "segments" / f"{number:08d}.fpseg").write_bytes(bytes_there)
        with pytest.warns(UserWarning, match=r"never named, 00000003.fpseg, 00000004.fpseg, 00000005.fpseg; moved to"):
            sweep_segments(catalog)
    assert names(folder) == {"00000001.fpseg"}
    assert names(folder, "aside") == {"00000003.fpseg", "00000004.fpseg", "00000005.fpseg"}


def test_what_the_catalog_never_named_is_set_aside_under_a_free_name(folder: Path) -> None:
    for content in (b"one", b"other", b"third"):
        (folder / "segments" / "00000009.fpseg").write_bytes(content)
        with pytest.warns(UserWarning, match="found segments that its catalog never named") as warned:
            fpstore.open(folder, "w").close()
        assert len(warned) == 1
        assert "\n" not in str(warned[0].message)
    found = {name: (folder / "aside" / name).read_bytes() for name in names(folder, "aside")}
    assert found == {"00000009.fpseg": b"one", "00000009.fpseg.1": b"other", "00000009.fpseg.2": b"third"}


def test_a_link_is_set_aside_as_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (folder / "segments" / "00000009.fpseg").symlink_to(tmp_path / "mine")
    with pytest.warns(UserWarning, match="00000009"):
        fpstore.open(folder, "w").close()
    assert (folder / "aside" / "00000009.fpseg").is_symlink()
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_reader_moves_nothing(folder: Path) -> None:
    (folder / "segments" / "00000009.fpseg").write_bytes(b"one")
    fpstore.open(folder).close()
    assert names(folder) == {"00000001.fpseg", "00000009.fpseg"}


def test_a_file_that_has_the_name_of_the_next_segment_is_set_aside(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        (folder / "segments" / "00000002.fpseg").write_bytes(b"somebody's")
        store.add([9], ids=[9])
        with pytest.warns(UserWarning, match=r"00000002\.fpseg"):
            store._flush()
        store.verify()
    assert (folder / "aside" / "00000002.fpseg").read_bytes() == b"somebody's"


def test_what_was_removed_is_forgotten_when_that_is_durable(folder: Path) -> None:
    with fpstore.open(folder, "w") as store:
        for number in range(4):
            store.add([100 + number], ids=[number])
            store.compact()
            with Catalog.open(folder) as catalog:
                assert len(catalog.state().strays) <= 3


@pytest.mark.parametrize("name", ["aside", "catalog.mdb.new"])
def test_a_store_whose_sweep_would_fail_is_not_replaced(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").mkdir()
    (folder / name).symlink_to(tmp_path / "mine") if name == "aside" else (folder / name).mkdir()
    with pytest.raises((CorruptStore, OSError), match=name):
        fpstore.build(folder, [7], force=True)
    with fpstore.open(folder) as store:
        assert sorted(store.probe_many([1, 2, 3, 7], max_distance=0).fingerprint.tolist()) == [1, 2, 3]
    assert list((tmp_path / "mine").iterdir()) == []


def test_what_cannot_be_swept_at_the_end_is_left_to_the_next_writer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = folder / "catalog.mdb.new"
    store = fpstore.open(folder, "w")
    store.add([77], ids=[77])
    left.write_bytes(b"of a writer that died")

    def fail(self: Folder, name: str, **options: bool) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), name)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "unlink", fail)
        store.close()
    assert left.exists()
    with fpstore.open(folder, "w") as store:
        assert store.contains_near(77, max_distance=0)
    assert not left.exists()
