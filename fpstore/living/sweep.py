"""Removes segments that nobody needs: replaced ones, and those that a writer left when it died."""

from collections.abc import Collection
from pathlib import Path

from fpstore.living.catalog import Catalog


def sweep_segments(folder: Path, catalog: Catalog, kept: Collection[str] = ()) -> None:
    """Remove the segments of the store in folder that the catalog does not name, except those in kept."""
    live = {entry.name for entry in catalog.state().segments}
    for path in (folder / "segments").glob("*.fpseg"):
        if path.name not in live and path.name not in kept:
            path.unlink(missing_ok=True)
