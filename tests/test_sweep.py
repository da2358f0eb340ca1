"""Sweeping: segments that the catalog does not name go, those that it names and those being written stay."""

from pathlib import Path

import fpstore
from fpstore.living.catalog import Catalog
from fpstore.living.sweep import sweep_segments


def test_segments_that_nobody_names_go_and_those_that_are_being_written_stay(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2, 3]).close()
    folder = tmp_path / "s" / "segments"
    (named,) = (path.name for path in folder.iterdir())
    for name in ("00000005.fpseg", "00000006.fpseg", "00000007.txt"):
        (folder / name).write_bytes(b"")
    with Catalog.open(tmp_path / "s") as catalog:
        sweep_segments(tmp_path / "s", catalog, {"00000006.fpseg"})
        assert {path.name for path in folder.iterdir()} == {named, "00000006.fpseg", "00000007.txt"}
        sweep_segments(tmp_path / "s", catalog)
        assert {path.name for path in folder.iterdir()} == {named, "00000007.txt"}
