"""Samples of what has ids: files of names, records of the log, and each file of whole stores with ids of any type.

A damaged file of names, and any damaged file of a store, raises CorruptStore or answers as before: never a wrong name.
"""

import functools
import shutil
import struct
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from crash_signed import create, opened, signatures_of
from damage import PLAN, WORDS, FileSample, Sample, edited, exact, make_sample
from helpers import CODECS, resealed, uniform
from id_types import SIGNED
from living import writer_of

import fpstore
from fpstore._codec import crc32c
from fpstore.errors import CorruptStore
from fpstore.format import FOOTER_BYTES, Footer
from fpstore.living import changes
from fpstore.living.sizes import LivingSizes
from fpstore.living.state import NAMED
from fpstore.names.column import Named, Names, as_names, gathered
from fpstore.names.layout import FIELD_BYTES, NamesRecord
from fpstore.names.reader import NamesReader, verify_names
from fpstore.names.writer import NamesWriter
from fpstore.types import IdType, Keys

# The number of the change in a record of the log.
NUMBER = 7
# A store is changed, too, after each so many damages to it, in a copy: that costs more than to ask it.
CHANGED_EACH = 5
ID_TYPES: tuple[IdType | None, ...] = ("uint64", "string", "bytes", None, SIGNED)
Row = tuple[int, Any]


def id_of(id_type: IdType | None, number: int) -> Any:
    """An id of a type: names begin alike, and some with others; those of bytes are no UTF-8."""
    if id_type in ("uint64", None, SIGNED):
        return 3 * number if id_type else None
    name = f"http://example.org/{'a' * (number % 5)}/{number * 7919 % 1009}"
    return name if id_type == "string" else b"\xff\0" + name.encode()


def values_of(names: Names) -> list[bytes]:
    return [names.at(i) for i in range(names.size)]


def raw(names: Names) -> list[Any]:
    return [names.data.tobytes(), *exact(names.ends)]


def asked(questions: Sequence[Callable[[], Any]], expected: Sequence[Any] | None) -> list[Any]:
    """What comes of each question; CorruptStore where one was refused and no other had another answer than expected."""
    refused, answer = None, []
    for number, ask in enumerate(questions):
        try:
            answer.append(ask())
        except CorruptStore as error:
            if expected is None:
                raise
            refused = error.with_traceback(None)
            answer.append(expected[number])
    try:
        if refused is not None and answer == expected:
            raise refused
        return answer
    finally:
        refused = None  # it has this frame, whose answers would stay until the next collection


# --- A file of names ---


@dataclass
class NamesSample(FileSample):
    """A file of names, each of which is looked for by name and by handle."""

    names: list[bytes] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)

    @functools.cached_property
    def questioned(self) -> tuple[Names, Names, Keys]:
        """Names that are there, some that are not, and handles."""
        absent = [name + b"." for name in self.names[::9]] + [b"", b"\xff" * 20]
        known, unknown = (as_names(names, False, "names") for names in (self.names, absent))
        return known, unknown, np.array([*self.handles[::3], 0, 1 << 63], dtype=np.uint64)

    def answer_of(self, path: Path) -> Any:
        known, absent, handles = self.questioned
        ranks = np.arange(known.size)
        with closing(NamesReader(path)) as reader:
            questions: list[Callable[[], Any]] = [
                lambda: exact(reader.find(known)),
                lambda: exact(reader.find(absent)),
                lambda: exact(reader.ranks(handles)),
                lambda: exact(reader.handles(ranks)) if reader.count == len(ranks) else reader.count,
                lambda: raw(reader.names(ranks)) if reader.count == len(ranks) else reader.count,
                lambda: raw(gathered(reader.chunks()).names),
            ]
            return asked(questions, self.answer)

    def read_everything(self, path: Path) -> None:
        with closing(NamesReader(path)) as reader:
            ranks = np.arange(min(reader.count, 200))
            attempts: list[Callable[[], Any]] = [
                lambda: reader.names(ranks[::-1].copy()),
                lambda: reader.ranks(reader.handles(ranks)),
                lambda: reader.find(gathered(reader.chunks()).names),
                lambda: verify_names(reader),
            ]
            for attempt in attempts:
                with suppress(CorruptStore):
                    attempt()

    def repaired(self, rng: np.random.Generator) -> bytes:
        data = self.data
        footer = Footer.unpack(data[-FOOTER_BYTES:], len(data))
        record = NamesRecord.unpack(data[footer.summary_offset : footer.checksums_offset], footer)
        starts = [record.blocks_offset, record.directory_offset, record.filter_offset]
        starts += [record.handles_offset, record.order_offset, footer.summary_offset]
        ends = [*starts[1:], footer.summary_offset + FIELD_BYTES]
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            region = int(rng.integers(0, len(starts)))
            if starts[region] == ends[region]:
                continue
            at = int(rng.integers(starts[region], ends[region]))
            edit_at(changed, at, at - (at - starts[region]) % 8, rng)
        return resealed(changed[: footer.checksums_offset] + data[footer.checksums_offset :])


def edit_at(changed: bytearray, at: int, word_at: int, rng: np.random.Generator) -> None:
    """Another bit, byte, word or run of bytes at a place of a file, or of a record."""
    kind = int(rng.integers(0, 4))
    if kind == 0:
        changed[at] ^= 1 << int(rng.integers(0, 8))
    elif kind == 1:
        changed[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF]))
    elif kind == 2 and word_at + 8 <= len(changed):
        struct.pack_into("<Q", changed, word_at, WORDS[int(rng.integers(0, len(WORDS)))])
    else:
        run = len(changed[at : at + int(rng.integers(1, 32))])
        changed[at : at + run] = rng.integers(0, 256, run, dtype=np.uint8).tobytes()


def names_sample(folder: Path, in_turn: bool) -> NamesSample:
    """Names in three blocks, with a filter of two pages. in_turn: their handles are in their order, as in a build."""
    names = sorted({id_of("bytes", number) + b"/%d" % (number // 1009) for number in range(4500)})
    handles = np.arange(5, 5 + len(names)) if in_turn else np.random.default_rng(3).permutation(9000)[: len(names)]
    path = folder / f"names-{'in-turn' if in_turn else 'scattered'}"
    with NamesWriter(path, folder) as writer:
        writer.add(Named(as_names(names, False, "names"), handles.astype(np.uint64)))
        writer.finish()
    sample = NamesSample(path.name, path.read_bytes(), names=names, handles=handles.tolist())
    sample.answer = sample.answer_of(path)
    path.unlink()
    return sample


# --- A record of the log ---


@dataclass
class RecordSample(FileSample):
    """The record of an addition of names in the log."""

    def answer_of(self, path: Path) -> Any:
        try:
            change = changes.decode_change(path.read_bytes(), NUMBER, 2)
        except ValueError as error:
            raise CorruptStore.by(error, "record") from None
        names = None if change.names is None else values_of(change.names)
        return [change.number, change.kind, [column.tolist() for column in change.columns], names]

    def read_everything(self, path: Path) -> None:
        """There is no other way into it."""

    def repaired(self, rng: np.random.Generator) -> bytes:
        changed = bytearray(self.data)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(4, len(changed)))
            edit_at(changed, at, max(8, at - at % 8), rng)
        del changed[len(self.data) :]
        place = b"changes" + changes.key_of(NUMBER)
        return struct.pack("<I", crc32c(bytes(changed[4:]), crc32c(place))) + bytes(changed[4:])


def record_sample(_folder: Path) -> RecordSample:
    names = as_names([id_of("bytes", number) for number in range(12)] + [b""], False, "names")
    keys = uniform(names.size, np.random.default_rng(4))

    def record(number: int) -> bytes:
        columns = keys, np.arange(20, 20 + names.size, dtype=np.uint64)
        return changes.encode_change(changes.Change(number, changes.ADDED, columns, names))

    others = [("the record of another change", record(NUMBER + 1)), ("nothing", b"")]
    sample = RecordSample("record", record(NUMBER), others=others)
    sample.answer = [
        NUMBER,
        changes.ADDED,
        [keys.tolist(), list(range(20, 20 + names.size))],
        values_of(names),
    ]
    return sample


# --- Each file of a store ---


@dataclass
class StoreSample(Sample):
    """A file of a store, of which all that it holds is asked in every way, and which is gone on with.

    root: of a whole store, file: in it. changed: its rows after _change.
    """

    root: Path = Path()
    file: str = ""
    id_type: IdType | None = None
    rows: list[Row] = field(default_factory=list)
    changed: list[Row] = field(default_factory=list)
    turn: int = 0

    def place(self, folder: Path, what: str) -> Path:
        root = folder / f"{self.name.replace('/', '-')}-{what}"
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return root / self.file

    def answer_of(self, path: Path) -> Any:
        root = path.parents[self.file.count("/")]
        self.turn += 1
        if self.turn % CHANGED_EACH:
            return self._asked(root)
        try:
            answer = self._asked(root)
        except CorruptStore:
            answer = self.answer
        rows = self._change(root) if answer == self.answer else self.changed
        return self._asked(root) if rows == self.changed else ["changed", rows]

    def _asked(self, root: Path) -> list[Any]:
        with opened(root) as store:
            return asked(self.questions(store), self.answer)

    def questions(self, store: Any) -> list[Callable[[], Any]]:
        keys = np.array(sorted({key for key, _ in self.rows}), dtype=np.uint64)
        near = keys ^ np.uint64(1 << 5)
        absent = [id_of(self.id_type, number) for number in (1_000_001, 1_000_002)]
        ids = [number for _, number in self.rows]
        asked: list[Callable[[], Any]] = [
            lambda: table(store.probe_many(near)),
            lambda: [table(store.probe(key)) for key in keys.tolist()[::9]],
            lambda: table(store.nearest_many(near, 2)),
            lambda: sorted(row for rows in store.rows() for row in table(rows)),
            lambda: [store.contains_near(key) for key in near.tolist()[::5]],
            lambda: store.verify() and None,
        ]
        if self.id_type is not None:
            asked += [
                lambda: table(store.lookup(ids)),
                lambda: [table(store.lookup([one])) for one in ids[::7]],
                lambda: table(store.lookup(absent)),
            ]
        return asked

    def _change(self, root: Path) -> list[Row]:
        """The rows of a copy of it that somebody goes on with, with ids that it has and with new ones."""
        copy = root.with_name(f"{root.name}-changed")
        shutil.copytree(root, copy)
        try:
            with warnings.catch_warnings(), changing(copy, growth=0) as store:
                warnings.simplefilter("ignore")
                go_on(store, self.rows)
                store.compact()
                return sorted(row for rows in store.rows() for row in table(rows))
        finally:
            shutil.rmtree(copy)

    def count(self, mode: str, edits: int) -> int:
        return len(self.places) if mode in ("bits", "truncations") else super().count(mode, edits)

    @functools.cached_property
    def places(self) -> list[int]:
        """Which bytes are damaged: those beside others that are not zeros. Nothing else of a catalog is ever read."""
        used = np.frombuffer(self.data, dtype=np.uint8) != 0
        return np.flatnonzero(np.convolve(used, np.ones(17), "same") > 0).tolist()

    def bits(self, index: int) -> tuple[str, bytes]:
        at = self.places[index]
        byte = (self.data[at] ^ (1 << index % 8)) if index % 3 else (0 if self.data[at] else 0xFF)
        return f"byte {at} set to {byte:#04x}", self.data[:at] + bytes([byte]) + self.data[at + 1 :]

    def cut(self, index: int) -> tuple[str, bytes]:
        return super().cut(self.places[index])

    def edited(self, rng: np.random.Generator) -> bytes:
        used = self.places[-1] + 1
        return edited(self.data[:used], rng) + self.data[used:]


class SignedSample(StoreSample):
    """A file of a store of signatures, used as one of fingerprints: what is found is what is equal."""

    def questions(self, store: Any) -> list[Callable[[], Any]]:
        """What a store of signatures is asked, beside what one of fingerprints is too."""
        keys = np.array(sorted({key for key, _ in self.rows}), dtype=np.uint64)
        ids = [number for _, number in self.rows]
        signatures = signatures_of(keys)

        def similar(found: Any) -> list[Any]:
            return [tuple(row) for row in found]

        return [
            lambda: table(store.probe_many(keys, max_distance=0)),
            lambda: [similar(store.probe(each)) for each in signatures[::9]],
            lambda: sorted(row for rows in store.rows() for row in table(rows)),
            lambda: [store.contains_near(each, min_similarity=0.5) for each in signatures[::5] ^ 1],
            lambda: table(store.lookup(ids)),
            lambda: [table(store.lookup([one])) for one in ids[::7]],
            lambda: table(store.lookup([1_000_001, 1_000_002])),
            lambda: sorted(row for pairs in store.pairs() for row in similar(pairs)),
            lambda: store.count(),
            lambda: store.verify() and None,
        ]


def changing(path: Path, growth: int) -> Any:
    """As writer_of, of a store of either kind."""
    try:
        return writer_of(path, growth=growth)
    except fpstore.WrongKind:
        rows = 1 << 16
        sizes = {"small_rows": 1, "growth": growth, "max_pending_rows": 4 * rows, "batch_rows": rows}
        return opened(path, "w", sizes=LivingSizes(flush_rows=rows, **sizes))


def table(rows: Any) -> list[Any]:
    """Matches or rows as lists of tuples."""
    columns = [rows.fingerprint.tolist(), *([] if rows.id is None else [rows.id.tolist()])]
    if isinstance(rows, fpstore.Matches):
        columns = [rows.query.tolist(), rows.distance.tolist(), *columns]
    elif rows.id is None:
        columns.append([None] * len(rows))
    return list(zip(*columns, strict=True))


def row_arguments(rows: list[Row]) -> dict[str, Any]:
    ids = [number for _, number in rows]
    return {"fingerprints": np.array([key for key, _ in rows], dtype=np.uint64), "ids": None if None in ids else ids}


def go_on(store: Any, rows: list[Row]) -> list[Row]:
    """Give some ids of the store new fingerprints, and add new ones; the rows that were given."""
    new = [(index + 1, number) for index, (_, number) in enumerate(rows[::4])]
    new += [(1 << 40 | number, id_of(store.id_type, number)) for number in range(2000, 2010)]
    store.add(**row_arguments(new))
    return new


def make_store(root: Path, id_type: IdType | None, seed: int) -> tuple[list[Row], Path]:
    """A store of two segments, the first with names that it took over from two, and a log; and a later copy of it."""
    keys = uniform(100, np.random.default_rng(seed)).tolist()
    rows: list[Row] = [(key, id_of(id_type, 100 * seed + number)) for number, key in enumerate(keys)]
    rows += [(key ^ 1 << 33, number) for key, number in rows[:30:3]]
    first, later = root.with_name(f"{root.name}-first"), root.with_name(f"{root.name}-later")
    create(first, id_type, "flips-2:1,1")
    with changing(first, growth=1000) as store:
        for part in (rows[:30], rows[30:50]):
            store.add(**row_arguments(part))
            store._flush()
            store.wait()
        assert sum(len(part.names) for part in store._latest.parts) == (2 if id_type in NAMED else 0)
    held = {*rows}
    with changing(first, growth=0) as store:
        store.add(**row_arguments(rows[50:75]))
        store._flush()
        store.add(**row_arguments(rows[75:]))
        if id_type == SIGNED:  # which has no removal by what is stored
            store.remove(ids=[rows[3][1]])
            held = {row for row in held if row[1] != rows[3][1]}
        else:
            store.remove(fingerprints=[rows[3][0]])
            held -= {rows[3]}
        if id_type is not None:
            moved = [(key ^ 1 << 50, number) for key, number in rows[60:65]]
            store.upsert(**row_arguments(moved))
            store.remove(ids=[rows[4][1], rows[76][1]])
            held = {row for row in held if row[1] not in {rows[4][1], rows[76][1], *(number for _, number in moved)}}
            held |= {*moved}
            if id_type != SIGNED:
                store.remove(**row_arguments(rows[7:9]))
                held -= {*rows[7:9]}
        assert sorted(row for part in store.rows() for row in table(part)) == sorted(held)
        store.copy(root)  # whose catalog has no page that nothing uses
    with changing(shutil.copytree(root, later), growth=0) as store:
        go_on(store, rows)
        store.upsert(**row_arguments(rows[50:52])) if id_type else store.remove(fingerprints=[rows[50][0]])
    return sorted(held), later


def store_samples(folder: Path, id_type: IdType | None) -> list[StoreSample]:
    """A sample for each file of a store."""
    name = id_type or "none"
    root, foreign = folder / f"store-{name}", folder / f"foreign-{name}"
    rows, later = make_store(root, id_type, 1)
    make_store(foreign, id_type, 2)
    with changing(shutil.copytree(root, folder / f"changed-{name}"), growth=0) as store:
        changed = sorted({*rows, *go_on(store, rows)})
    samples = []
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.name != "writer.lock"):
        file = path.relative_to(root).as_posix()
        kind = SignedSample if id_type == SIGNED else StoreSample
        sample = kind(f"{name} {file}", path.read_bytes(), root=root, file=file, id_type=id_type, rows=rows)
        sample.changed = changed
        with opened(root) as store:
            sample.answer = [ask() for ask in sample.questions(store)]
        others = {f"another store's {other}": foreign / other for other in (file, *files_like(foreign, file))}
        others |= {f"its own {other}": root / other for other in files_like(root, file) if other != file}
        others |= {f"that of a later moment, {file}": later / file}
        whole = {what: place.read_bytes() for what, place in others.items() if place.exists()}
        sample.others = [(f"replaced by {what}", data) for what, data in whole.items()]
        sample.others += [("replaced by nothing", b""), ("replaced by zeros", bytes(len(sample.data)))]
        if file == "catalog.mdb":
            with opened(later) as store:
                sample.also = [[ask() for ask in sample.questions(store)]]
        samples.append(sample)
    return samples


def files_like(root: Path, file: str) -> list[str]:
    """The files of a store that may be taken for one of its segments, or for its names."""
    return sorted(path.relative_to(root).as_posix() for path in (root / "segments").iterdir()) if "/" in file else []


# All samples: of one file each, and of each file of a store.
FILES: dict[str, Callable[[Path], Sample]] = {
    "names in turn": functools.partial(names_sample, in_turn=True),
    "names": functools.partial(names_sample, in_turn=False),
    "record of the log": record_sample,
}
for _codec in CODECS:
    FILES[f"segment {_codec}"] = functools.partial(make_sample, codec=_codec, with_ids=False)
    FILES[f"segment {_codec} with ids"] = functools.partial(make_sample, codec=_codec, with_ids=True)
_BLOCKS = replace(PLAN, block_bytes=80)
FILES["segment gap in blocks"] = functools.partial(make_sample, codec="gap", with_ids=False, plan=_BLOCKS)
FILES["segment rice in blocks with ids"] = functools.partial(make_sample, codec="rice", with_ids=True, plan=_BLOCKS)
STORES = {f"store {id_type or 'none'}": functools.partial(store_samples, id_type=id_type) for id_type in ID_TYPES}


def samples_of(what: str, folder: Path) -> Sequence[Sample]:
    """The samples of one of FILES or STORES, made in folder."""
    return STORES[what](folder) if what in STORES else [FILES[what](folder)]
