"""What is sound of a file of sketches that is damaged."""

import contextlib
from collections.abc import Iterator

from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.sketches.kept import Kept
from fpstore.sketches.reader import ROWS_AT_ONCE, SketchesReader
from fpstore.types import Ids, Keys


def salvaged_sketches(at: Place, kept: Kept, damage: list[Damage]) -> Iterator[tuple[Ids, Keys]]:
    """The sketches that can be read of a file of these, with their ids; what is wrong with it is added to damage."""
    try:
        reader = SketchesReader(at)
    except FileNotFoundError:
        damage.append(Damage(str(at.path), "sketches", "none", "the file that the catalog names"))
        return
    except CorruptStore as error:
        damage.append(error.in_file(at.path))
        return
    with contextlib.closing(reader):
        try:
            reader.check_pages()
        except CorruptStore as error:
            damage.append(error.in_file(at.path))
        record = reader.record
        if (record.values, record.bits, record.words) != (kept.values, kept.bits, kept.words):
            found = f"{record.bits} bits of {record.values} values"
            damage.append(Damage(str(at.path), "sketches", found, f"{kept.bits} of {kept.values}"))
            return
        for start in range(0, reader.count, ROWS_AT_ONCE):
            yield from _sound(reader, start, min(ROWS_AT_ONCE, reader.count - start))


def _sound(reader: SketchesReader, start: int, count: int) -> Iterator[tuple[Ids, Keys]]:
    """Those of so many that lie in sound pages."""
    try:
        yield reader.part(start, count)
    except CorruptStore:
        if count > 1:
            half = count // 2
            yield from _sound(reader, start, half)
            yield from _sound(reader, start + half, count - half)
