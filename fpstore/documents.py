"""How a store of signatures is built: documents in any order and of any number, in a stated budget.

They are read first, so that it is known how many there are when the bits of a key are chosen.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain, islice
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
from fpstore.segment.reader import Segment
from fpstore.sketches.bands import Banding, rows_of
from fpstore.sketches.pending import in_order
from fpstore.sketches.spool import Piece, Spool
from fpstore.sketches.writer import SketchesWriter
from fpstore.types import Ids, Keys

# Of the budget of a build, one part in so many sorts documents by their ids.
ORDER_SHARE = 4
LEAST_MEMORY = 64 << 20


class Given(NamedTuple):
    """Documents as a caller gives them: the hashes of their bands, their sketches, and ids, if there are any."""

    hashes: Keys
    sketches: Keys | None
    ids: Ids | Names | None


def build_documents(
    path: Path,
    documents: Callable[[], Iterator[Given]],
    settings: Settings,
    of_count: Callable[[int], Settings],
    *,
    memory: str | int,
    threads: int,
    progress: Tell | None,
    mode: int | None,
    force: bool,
) -> None:
    """Write the store of these documents at path, as creation.make_store does.

    settings: of any bits; of_count: those of so many documents, which differ in the bits of a key alone.
    Raises ValueError for a bad budget, FileExistsError where path exists, unless force and it is a store.
    """
    budget = parse_memory(memory)
    order = budget // ORDER_SHARE
    left = max(budget - order, min(budget, LEAST_MEMORY))
    report = progress or (lambda phase, done, total: None)

    def build(rows: Iterator[object], wanted: Settings) -> Build:
        return Build(
            rows,
            "row" if wanted.ids else None,
            max_distance=0,
            bits=wanted.bits,
            plan=Plan.from_json(wanted.plan),
            codec=wanted.codec,
            listing=wanted.listing,
            memory=left,
            threads=threads,
            shuffle=None,
        )

    build(iter(()), settings)  # which looks at the budget, before anything is read

    def write(at: Place, scratch: Path, position: int) -> Content:
        with (
            Spool(scratch, settings.bands, settings.words, order) as spool,
            _Source(at, spool, settings, order) as source,
        ):
            try:
                source.read(documents())
                wanted = of_count(spool.count)
                written = build(source.rows(wanted), wanted).write(at, scratch, report, position)
                entry = source.beside(written.entry)
            except BaseException:
                for name in (names_name(at.name), sketches_name(at.name)):
                    at.folder.unlink(name, missing_ok=True)
                raise
        if not entry.key_count:  # which has no sketches, so no file of them
            for name in (at.name, names_name(at.name)):  # as they are called till they are published
                at.folder.unlink(name, missing_ok=True)
            return Content(wanted)
        return Content(wanted, entry, written.max_id)

    make_store(path, write, mode, force=force)


class _Source:
    """The rows of documents; the files beside the segment are there when they have been read."""

    def __init__(self, at: Place, spool: Spool, settings: Settings, memory: int) -> None:
        self._at, self._spool, self._settings = at, spool, settings
        self._memory_bytes = memory
        self._named: NamedRows | None = None
        self._by_name: Iterator[tuple[Keys, Ids]] = iter(())
        self._names: NamesEntry | None = None
        self._sketches: SketchesWriter | None = None
        self._held = ExitStack()

    def __enter__(self) -> "_Source":
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def read(self, documents: Iterator[Given]) -> None:
        """Take all of them."""
        if self._settings.named:
            text = self._settings.id_type == "string"
            self._named = NamedRows.of(self._numbered(documents), text, self._memory_bytes)
            rows = self._named.with_handles(Place(self._at.folder, names_name(self._at.name)))
            # The first comes when all were read.
            self._by_name = chain([*islice(rows, 1)], rows)
            return
        for hashes, sketches, ids in documents:
            self._spool.add(hashes, sketches)
            if ids is not None:
                assert not isinstance(ids, Names)
                self._spool.add_handles(ids)

    def beside(self, entry: SegmentEntry) -> SegmentEntry:
        """The segment's entry, which is there, with what lies beside it."""
        names = () if self._names is None else (replace(self._names, number=entry.number),)
        if self._sketches is None:
            return replace(entry, names=names)
        with closing(Segment(self._at)) as segment:
            file = self._sketches.finish(segment)
        return replace(entry, names=names, sketches=SketchesEntry(file.file_bytes, file.crc))

    def rows(self, settings: Settings) -> Iterator[object]:
        """Keys of these settings, with ids where there are any."""
        assert settings.minhash is not None
        kept, banding = settings.kept, settings.minhash.banding(settings.bits)
        if kept is None or not settings.ids:
            for piece in self._pieces():
                yield _rows_of(piece, banding)
            return
        place = Place(self._at.folder, sketches_name(self._at.name))
        writer = self._held.enter_context(SketchesWriter(place, self._at.folder.reach, kept))
        held: tuple[Ids, Keys] = (np.empty(0, np.uint64), np.empty((0, kept.words), np.uint64))
        for piece in self._pieces():
            assert piece.handles is not None
            held = (np.concatenate([held[0], piece.handles]), np.concatenate([held[1], piece.sketches]))
            # More of the last id may come.
            end = int(held[0].searchsorted(held[0][-1]))
            writer.add(*in_order(held[0][:end], held[1][:end]))
            held = (held[0][end:], held[1][end:])
            yield _rows_of(piece, banding)
        if len(held[0]):  # else there is no document, so no file
            writer.add(*in_order(*held))
            self._sketches = writer

    def _pieces(self) -> Iterator[Piece]:
        spool, named = self._spool, self._named
        if named is None:
            yield from spool.by_handle() if self._settings.ids else spool.in_turn()
            return
        yield from spool.by_number(self._by_name)
        assert named.file is not None
        self._names = NamesEntry(0, named.file.file_bytes, named.file.crc)

    def _numbered(self, documents: Iterator[Given]) -> Iterator[tuple[Keys, Names]]:
        """The number of each document with its name."""
        for hashes, sketches, names in documents:
            numbers = self._spool.add(hashes, sketches)
            assert isinstance(names, Names)
            yield np.arange(numbers.start, numbers.stop, dtype=np.uint64), names


def _rows_of(piece: Piece, banding: Banding) -> object:
    keys, ids = rows_of(banding.keys_of(piece.hashes), piece.handles)
    return keys if ids is None else (keys, ids)
