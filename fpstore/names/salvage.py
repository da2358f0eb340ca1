"""What is left of names in damaged files: every sound block gives its own, with their handles."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.names.column import Named
from fpstore.names.layout import KIND_NAMES
from fpstore.names.reader import NamesReader
from fpstore.segment.remnant import Remnant

SEALED = "sealed"


class NamesRemnant(Remnant):
    """A file of names as it can be read."""

    HOLDS, KIND, TABLES = "names", KIND_NAMES, range(1, 2)


def salvaged_names(
    at: Place, damage: list[Damage], expected: tuple[int, int] | None = None, scratch: Path | None = None
) -> Iterator[Named]:
    """The names of the sound blocks of a file, in chunks; what is damaged is added to damage. Nothing is raised.

    expected, scratch: as of Remnant. A damaged file is copied to scratch, with checksums that hold for what is sound.
    """
    sealed = None
    try:
        with contextlib.closing(NamesRemnant(at, expected, scratch)) as remnant:
            found = remnant.damage(str(at.path))
            damage += found
            if found and scratch is not None:
                sealed = scratch / SEALED
                remnant.sealed(sealed)
        with contextlib.closing(NamesReader(at if sealed is None else sealed)) as reader:
            for index in range(reader.record.block_count):
                try:
                    chunk = reader.block(index)
                except CorruptStore as error:
                    damage.append(_of(at, error))
                else:
                    yield chunk
    except FileNotFoundError:
        damage.append(Damage(str(at.path), "names", "no file", "that of the names of a segment"))
    except CorruptStore as error:
        damage.append(_of(at, error))
    finally:
        if sealed is not None:
            sealed.unlink(missing_ok=True)


def _of(at: Place, error: CorruptStore) -> Damage:
    """What is damaged as one place of the file there, also where a copy of it was read."""
    return Damage(str(at.path), *error.args)
