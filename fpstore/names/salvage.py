"""What is left of names in damaged files: every sound block gives its own, with their handles."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.names.column import Named
from fpstore.names.reader import NamesReader


def salvaged_names(at: Path | Place, damage: list[Damage]) -> Iterator[Named]:
    """The names of the sound blocks of a file, in chunks; what is damaged is added to damage. Nothing is raised."""
    path = at.path if isinstance(at, Place) else at
    try:
        reader = NamesReader(at)
    except FileNotFoundError:
        damage.append(Damage(str(path), "names", "no file", "that of the names of a segment"))
        return
    except CorruptStore as error:
        damage.append(error.in_file(path))
        return
    with contextlib.closing(reader):
        before = len(damage)
        for index in range(reader.record.block_count):
            try:
                chunk = reader.block(index)
            except CorruptStore as error:
                damage.append(error.in_file(path))
            else:
                yield chunk
        if len(damage) == before:  # what finds a name has pages of its own: nothing is lost with them
            try:
                reader.check_pages()
            except CorruptStore as error:
                damage.append(error.in_file(path))
