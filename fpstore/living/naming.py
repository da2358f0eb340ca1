"""From names to handles and back, in one state of a store; and the file of names beside a segment that is being made.

A handle is the number by which the engine knows a name. It is given when the name comes to the store and stays the
name's as long as the log or any file has it, whether a row lives or not; so one handle never has two names, and one
name never two handles.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fpstore._names import hashes
from fpstore._names_pending import NameFilter, first_places, give_back_memory, hashed
from fpstore.codes.reader import open_segment
from fpstore.disk import Place
from fpstore.errors import CorruptStore, Damage
from fpstore.living.changes import Told
from fpstore.living.live import Live
from fpstore.living.state import MAX_NUMBER, expect_left
from fpstore.names.column import Named, Names, joined
from fpstore.names.merging import NameSorter, merged_names
from fpstore.names.pending import LogNames, parts_of
from fpstore.names.reader import NamesReader, verify_names
from fpstore.names.writer import Coded, NamesFile, NamesWriter
from fpstore.segment.entry import NamesEntry, SegmentEntry, names_name
from fpstore.segment.reader import Segment
from fpstore.threads import Threads
from fpstore.types import Array, Ids, Keys

# For sorting the names of a flush, which fit into half of it.
SORT_MEMORY = 48 << 20
# Of a flush, so that who adds, and waits for it at last, waits half as long where there are two processors.
FLUSH_THREADS = 2
# Of names that were given handles so many are told in memory, in 24 bits each, 48 MiB at most. In two filters, as each
# name is looked for in all, and few names should take little.
FILTER_NAMES = (1 << 20, (1 << 24) - (1 << 20))
# One name of so many that may have come before is seldom: the filters err for fewer than that.
SELDOM = 64
# Of the numbers of names of files, the indexes of those that are to be merged.
Due = Callable[[Sequence[int]], Sequence[int]]


@dataclass(frozen=True, eq=False)
class StoreNames:
    """The names of one state: those of the files, and those of the log."""

    files: tuple[NamesReader, ...]
    pending: LogNames

    def of(self, handles: Ids) -> Names:
        """The name of each handle. CorruptStore where one has none."""
        if not len(handles):
            return joined([])
        if len(handles) == 1:  # a single probe should not pay for every file
            return self._of_one(handles)
        left, parts, places = np.arange(len(handles)), [], []
        for generation, _ in self.pending.generations:
            entries = generation.entries(handles[left])
            found = entries >= 0
            parts.append(Names(*generation.read(entries[found])))
            places.append(left[found])
            left = left[~found]
        for file in self.files:
            if not len(left):
                break
            ranks = file.ranks(handles[left])
            found = ranks >= 0
            # In their order they are read quickest.
            order = np.argsort(ranks[found], kind="stable")
            parts.append(file.names(ranks[found][order]))
            places.append(left[found][order])
            left = left[~found]
        if len(left):
            raise self._nameless(handles[left])
        back = np.empty(len(handles), dtype=np.int64)
        back[np.concatenate(places)] = np.arange(len(handles))
        return joined(parts).take(back)

    def _of_one(self, handles: Ids) -> Names:
        for generation, _ in self.pending.generations:
            entries = generation.entries(handles)
            if entries[0] >= 0:
                return Names(*generation.read(entries))
        handle = int(handles[0])
        for file in self.files:
            if file.record.handle_base <= handle <= file.record.handle_last:
                ranks = file.ranks(handles)
                if ranks[0] >= 0:
                    return file.names(ranks)
        raise self._nameless(handles)

    def _nameless(self, handles: Ids) -> CorruptStore:
        path = self.files[0].path.parent if self.files else None
        return CorruptStore("names", f"none for handle {handles[0]}", "one in a file or the log", path=path)

    def handles(self, names: Names) -> tuple[Ids, Array]:
        """The handle of each name, uint64[n], and whether it has one, bool[n]."""
        return self.handles_by(names, hashed(*names))

    def handles_by(
        self, names: Names, keyed: Keys, given: "GivenNames | None" = None, *, seldom: bool = False
    ) -> tuple[Ids, Array]:
        """As handles, where the hashes of the names are known; given: their writer's, which has looked at them.

        seldom: of _find_in, for files that hold other names than given.
        """
        covered = [given is not None and given.covers(*file.span) for file in self.files]
        handles, known = self.pending.find(names, keyed)
        others = [file for file, is_covered in zip(self.files, covered, strict=True) if not is_covered]
        _find_in(others, names, handles, known, ~known, seldom)
        if given is not None and given.came.any():
            own = [file for file, is_covered in zip(self.files, covered, strict=True) if is_covered]
            _find_in(own, names, handles, known, given.came & ~known, given.came_seldom)
        return handles, known


def _find_in(
    files: Sequence[NamesReader], names: Names, handles: Ids, known: Array, asked: Array, seldom: bool = False
) -> None:
    """Fill in the handles of those of names that are asked for, bool[n], and are in the files, and that they are.

    seldom: what is asked now and then should not come to hold the filters of all files.
    """
    at = np.flatnonzero(asked)
    if not files or not len(at):
        return
    left = names if len(at) == names.size else names.take(at)
    plain = hashes(*left)
    for file in files:
        if not len(at):
            break
        ranks = file.find(left, plain)
        found = ranks >= 0
        if found.any():
            handles[at[found]] = file.handles(ranks[found])
            known[at[found]] = True
            more = np.flatnonzero(~found)
            at, left, plain = at[more], left.take(more), plain[more]
        if seldom:
            file.forget()


class GivenNames:
    """The names that one writer has given handles: one look in memory says of nearly all that are new that they are.

    It never lacks one of them. As handles are given one after the other, a file all of whose handles lie between the
    first of these and the end has no other names.
    """

    def __init__(self, sizes: Sequence[int] = FILTER_NAMES) -> None:
        """sizes: how many names each filter takes; beyond all of them the files are asked."""
        self._sizes = [*sizes]
        self._filters: list[NameFilter] = []
        self._first: int | None = None
        self._end = MAX_NUMBER + 1
        # Which of the names that were looked at last may have come before, bool[n].
        self.came: Array = np.empty(0, dtype=bool)
        # Whether these are few, of all that were looked at since some may have.
        self.came_seldom = False
        self._since = 0

    def covers(self, least: int, most: int) -> bool:
        """Whether all names with handles from the least to the largest are among these."""
        return self._first is not None and self._first <= least and most < self._end

    def handles(self, store: StoreNames | None, names: Names, max_id: int | None) -> tuple[Ids, Told]:
        """The handle of each name, a new one for those that have none; and what is known of them.

        max_id: the largest handle that was ever given. Error where there are no more numbers.
        """
        assert store is not None
        next_handle = 0 if max_id is None else max_id + 1
        if self._first is None:
            self._first = next_handle
        keyed = hashed(*names)
        self._look(keyed, next_handle)
        if self._has_all(store, next_handle):
            if not self.came.any():
                expect_left("handles of names", next_handle + names.size - 1, MAX_NUMBER)
                first = np.uint64(next_handle)
                return np.arange(names.size, dtype=np.uint64) + first, Told(keyed, True)
            handles, known = self._of_those_that_came(store, names, keyed)
        else:
            handles, known = store.handles_by(names, keyed, self)
        new = np.flatnonzero(~known)
        if len(new):
            first_at = first_places(*names.take(new), keyed[new])
            numbers = (np.cumsum(first_at == np.arange(len(first_at))) - 1)[first_at]
            expect_left("handles of names", next_handle + int(numbers.max()), MAX_NUMBER)
            handles[new] = numbers.astype(np.uint64) + np.uint64(next_handle)
        return handles, Told(keyed, False)

    def _of_those_that_came(self, store: StoreNames, names: Names, keyed: Keys) -> tuple[Ids, Array]:
        """As handles_by, where those that may have come are all that can have a handle."""
        handles, known = np.zeros(names.size, dtype=np.uint64), np.zeros(names.size, dtype=bool)
        at = np.flatnonzero(self.came)
        handles[at], known[at] = store.handles_by(names.take(at), keyed[at], seldom=self.came_seldom)
        return handles, known

    def _has_all(self, store: StoreNames, next_handle: int) -> bool:
        """Whether all names of the store are among these, and those that were looked at last.

        Where none of these may have come then, all are new, and no two equal, as the second would have come before.
        """
        if self._end <= next_handle:
            return False
        spans = (*(file.span for file in store.files), *store.pending.spans)
        return all(self.covers(least, most) for least, most in spans)

    def _look(self, keyed: Keys, next_handle: int) -> None:
        """Find out which names, by keyed hashes, may have come before, and take the others.

        Handles from next_handle on are theirs; where there is no room these and later ones are not covered.
        """
        came = np.zeros(len(keyed), dtype=np.uint8)
        for part in self._filters[:-1]:
            part.find(keyed, came)
        start = self._filters[-1].put(keyed, came, 0) if self._filters else 0
        while start < len(keyed):
            if self._filters:
                self._filters[-1].find(keyed[start:], came[start:])
            if len(self._filters) == len(self._sizes):
                self._end = min(self._end, next_handle)
                break
            self._filters.append(NameFilter(self._sizes[len(self._filters)]))
            start = self._filters[-1].put(keyed, came, start)
        self.came = came.view(bool)
        self._since += len(keyed)
        if few := int(np.count_nonzero(self.came)):
            self.came_seldom, self._since = few * SELDOM <= self._since, 0


# --- Files ---


def write_names(at: Place, rows: Callable[[], SegmentEntry], handles: Ids, store: StoreNames) -> SegmentEntry:
    """Write a file of names of these handles with a segment there, which rows writes; the entry of it, which says so.

    Where it fails neither of the two files is left.
    """
    distinct = handles if (handles[1:] > handles[:-1]).all() else np.unique(handles)
    whole = store.pending.all_of(distinct)
    try:
        if whole is not None:
            entry = _at_once(at, rows, parts_of(whole))
            give_back_memory()  # or a merge beside would come on top of what each thread keeps, some 50 MiB
            return entry
        entry = rows()
    except BaseException:
        at.folder.unlink(at.name, missing_ok=True)
        raise

    def named() -> Iterator[Named]:
        sorter = NameSorter(at.folder.reach, SORT_MEMORY)
        try:
            # The names of rows that were removed since take room, too.
            step = max(1, SORT_MEMORY // 4 * len(distinct) // max(1, store.pending.data_bytes))
            for start in range(0, len(distinct), step):
                own = distinct[start : start + step]
                sorter.add(store.of(own), own)
            yield from sorter.chunks()
        finally:
            sorter.close()

    return _written(at, entry, named())


def _at_once(at: Place, rows: Callable[[], SegmentEntry], parts: Sequence[Callable[[], Coded]]) -> SegmentEntry:
    """The segment and its file of names, made by some threads; the caller removes the segment where this fails."""
    entries: list[SegmentEntry] = []
    work = [lambda: entries.append(rows()), *parts]
    give_back_memory()  # of flushes and merges before: each thread would keep its own, some 100 MiB together
    with contextlib.closing(Threads(min(FLUSH_THREADS, len(work)))) as threads:
        _, *coded = threads.map(lambda each: each(), work)
    with NamesWriter(Place(at.folder, names_name(at.name)), at.folder.reach) as writer:
        for part in coded:
            assert part is not None
            writer.add_coded(part)
        return _with_names(entries[0], writer.finish(), ())


def merge_names(at: Place, entry: SegmentEntry, parts: Sequence[Live], due: Due | None) -> SegmentEntry:
    """As write_names, where the segment was merged of parts: it takes over their files of names, or writes them anew.

    Anew, in one file: those with a name that no row in the segment has any more, without that, and those that are due;
    due: of the numbers of names of some files the indexes of those; None: all, where they are several.
    """
    files = sorted((file for part in parts for file in part.names), key=lambda file: file.path.name)
    anew = set(due([file.count for file in files]) if due else range(len(files) if len(files) > 1 else 0))
    masks: list[Array | None] = [None] * len(files)
    if any(len(part.removals.since(part.position)) for part in parts):
        with contextlib.closing(open_segment(at)) as segment:
            masks = [None if mask.all() else mask for mask in _with_rows(segment, files)]
        anew |= {index for index, mask in enumerate(masks) if mask is not None}
    kept = [_entry_of(file) for index, file in enumerate(files) if index not in anew]
    chunks = [_kept(files[index].chunks(), masks[index]) for index in sorted(anew)]
    if all(mask is not None and not mask.any() for mask in (masks[index] for index in anew)):
        return replace(entry, names=tuple(kept))
    return _written(at, entry, merged_names(chunks, once=True), kept)


def keep_names(at: Place, entry: SegmentEntry, file: NamesReader) -> SegmentEntry:
    """As write_names, of those names of the file that have a row in the segment."""
    with contextlib.closing(open_segment(at)) as segment:
        (mask,) = _with_rows(segment, [file])
    return _written(at, entry, _kept(file.chunks(), mask))


def names_damage(part: Live) -> list[Damage]:
    """What is wrong with the names of a segment, every byte of which is read: at most one place."""
    try:
        for file in part.names:
            verify_names(file)
        for file, mask in zip(part.names, _with_rows(part.segment, part.names), strict=True):
            if not mask.all():
                rank = int(np.argmin(mask))
                raise CorruptStore("names", f"no row of the name of rank {rank}", "one", path=file.path)
    except CorruptStore as error:
        return [error.in_file(part.names[0].path)]
    return []


def _written(at: Place, entry: SegmentEntry, named: Iterator[Named], kept: Sequence[NamesEntry] = ()) -> SegmentEntry:
    """Write a file of these names; the entry with that one and those that are kept."""
    try:
        with NamesWriter(Place(at.folder, names_name(at.name)), at.folder.reach) as writer:
            for chunk in named:
                writer.add(chunk)
            return _with_names(entry, writer.finish(), kept)
    except BaseException:
        at.folder.unlink(at.name, missing_ok=True)
        raise


def _with_names(entry: SegmentEntry, file: NamesFile, kept: Sequence[NamesEntry]) -> SegmentEntry:
    return replace(entry, names=(*kept, NamesEntry(entry.number, file.file_bytes, file.crc)))


def _with_rows(segment: Segment, files: Sequence[NamesReader]) -> list[Array]:
    """Which names of each file have a row in the segment: bool[n]. CorruptStore for a row without a name."""
    masks = [np.zeros(file.count, dtype=bool) for file in files]
    for _, ids in segment.id_rows():
        named = np.zeros(len(ids), dtype=bool)
        for file, mask in zip(files, masks, strict=True):
            ranks = file.ranks(ids)
            mask[ranks[ranks >= 0]] = True
            named |= ranks >= 0
        if not named.all():
            raise CorruptStore("names", f"none for handle {ids[~named][0]}", "one", path=files[0].path)
    return masks


def _entry_of(file: NamesReader) -> NamesEntry:
    return NamesEntry(int(file.path.name[:8]), file.file_bytes, file.footer_crc)


def _kept(chunks: Iterator[Named], mask: Array | None) -> Iterator[Named]:
    """Those of the mask, by rank; None: all."""
    if mask is None:
        yield from chunks
        return
    first = 0
    for names, handles in chunks:
        own = mask[first : first + names.size]
        first += names.size
        if own.all():
            yield Named(names, handles)
        elif own.any():
            yield Named(names.take(np.flatnonzero(own)), handles[own])
