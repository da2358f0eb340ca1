"""How a store of signatures is built: documents in any order and of any number, in a stated budget."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore.arrays import parse_memory
from fpstore.building.rows import Build
from fpstore.creation import Content, make_store
from fpstore.disk import Place
from fpstore.living.state import Settings
from fpstore.names.column import Names
from fpstore.names.rows import NamedRows
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.entry import NamesEntry, SegmentEntry, SketchesEntry, names_name, sketches_name
from fpstore.sketches.bands import rows_of
from fpstore.sketches.pending import in_order
from fpstore.sketches.spool import Piece, Spool
from fpstore.sketches.writer import SketchesWriter
from fpstore.types import Ids, Keys

# Of the budget of a build, one part in so many sorts documents by their ids.
ORDER_SHARE = 4
LEAST_MEMORY = 64 << 20


class Given(NamedTuple):
    """Documents as a caller gives them: the keys of their bands, their sketches, and ids, if there are any."""

    keys: Keys
    sketches: Keys | None
    ids: Ids | Names | None


def build_documents(
    path: Path,
    documents: Callable[[], Iterator[Given]],
    settings: Settings,
    *,
    memory: str | int,
    threads: int,
    progress: Tell | None,
    mode: int | None,
    force: bool,
) -> None:
    """Write the store of these documents at path, as creation.make_store does.

    Raises ValueError for a bad budget, FileExistsError where path exists, unless force and it is a store.
    """
    budget = parse_memory(memory)
    order = budget // ORDER_SHARE
    left = max(budget - order, min(budget, LEAST_MEMORY))
    plan = Plan.from_json(settings.plan)
    report = progress or (lambda phase, done, total: None)

    def build(rows: Iterator[object]) -> Build:
        return Build(
            rows,
            "row" if settings.ids else None,
            max_distance=0,
            bits=settings.bits,
            plan=plan,
            codec=settings.codec,
            memory=left,
            threads=threads,
            shuffle=None,
        )

    build(iter(()))  # which looks at the budget, before anything is read

    def write(at: Place, scratch: Path, position: int) -> Content:
        with Spool(scratch, settings.bands, settings.words, order) as spool:
            source = _Source(at, spool, settings, documents(), order)
            try:
                written = build(source.rows()).write(at, scratch, report, position)
                entry = source.beside(written.entry)
            except BaseException:
                for name in (names_name(at.name), sketches_name(at.name)):
                    at.folder.unlink(name, missing_ok=True)
                raise
        if not entry.key_count:  # which has no sketches, so no file of them
            for name in entry.made:
                at.folder.unlink(name)
            return Content(settings)
        return Content(settings, entry, written.max_id)

    make_store(path, write, mode, force=force)


class _Source:
    """The rows of documents; the files beside the segment are there when they have been read."""

    def __init__(self, at: Place, spool: Spool, settings: Settings, documents: Iterator[Given], memory: int) -> None:
        self._at, self._spool, self._settings, self._documents = at, spool, settings, documents
        self._memory_bytes = memory
        self._names: NamesEntry | None = None
        self._sketches: SketchesEntry | None = None

    def beside(self, entry: SegmentEntry) -> SegmentEntry:
        """The segment's entry with what lies beside it."""
        names = () if self._names is None else (replace(self._names, number=entry.number),)
        return replace(entry, names=names, sketches=self._sketches)

    def rows(self) -> Iterator[object]:
        """Keys, with ids where there are any."""
        kept = self._settings.kept
        if kept is None or not self._settings.ids:
            yield from self._rows_of(self._pieces())
            return
        writer = SketchesWriter(Place(self._at.folder, sketches_name(self._at.name)), self._at.folder.reach, kept)
        with writer:
            held: tuple[Ids, Keys] = (np.empty(0, np.uint64), np.empty((0, kept.words), np.uint64))
            for piece in self._pieces():
                assert piece.handles is not None
                held = (np.concatenate([held[0], piece.handles]), np.concatenate([held[1], piece.sketches]))
                # More of the last id may come.
                end = int(held[0].searchsorted(held[0][-1]))
                writer.add(*in_order(held[0][:end], held[1][:end]))
                held = (held[0][end:], held[1][end:])
                yield from self._rows_of(iter([piece]))
            if not len(held[0]):
                return  # no document, so no file
            writer.add(*in_order(*held))
            file = writer.finish()
            self._sketches = SketchesEntry(file.file_bytes, file.crc)

    @staticmethod
    def _rows_of(pieces: Iterator[Piece]) -> Iterator[object]:
        for piece in pieces:
            keys, ids = rows_of(piece.keys, piece.handles)
            yield keys if ids is None else (keys, ids)

    def _pieces(self) -> Iterator[Piece]:
        settings, spool = self._settings, self._spool
        if settings.named:
            text = settings.id_type == "string"
            named = NamedRows.of(self._numbered(), text, self._memory_bytes)
            yield from spool.by_number(named.with_handles(Place(self._at.folder, names_name(self._at.name))))
            assert named.file is not None
            self._names = NamesEntry(0, named.file.file_bytes, named.file.crc)
            return
        for keys, sketches, ids in self._documents:
            spool.add(keys, sketches)
            if ids is not None:
                assert not isinstance(ids, Names)
                spool.add_handles(ids)
        yield from spool.by_handle() if settings.ids else spool.in_turn()

    def _numbered(self) -> Iterator[tuple[Keys, Names]]:
        """The number of each document with its name."""
        for keys, sketches, names in self._documents:
            numbers = self._spool.add(keys, sketches)
            assert isinstance(names, Names)
            yield np.arange(numbers.start, numbers.stop, dtype=np.uint64), names
