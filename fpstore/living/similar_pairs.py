"""Every two documents of one state of a store that share a band, each pair once, with how many bands and how similar.

A *bucket* is the rows of one key that several ids have. Buckets are gone through in the order of their keys, so band by
band. Two ids are told where they meet first: at the least key that both have. To know that, the keys of the ids that
are in any bucket are held beside, in files without a name, where all fits that does not fit in memory.

A share of the pairs is those of some buckets. Whoever finds one holds all of that beside.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fpstore.building.spill import MIN_MEMORY_BYTES, PairSorter
from fpstore.disk import naming
from fpstore.living.named import names_in
from fpstore.living.similar import id_similarities
from fpstore.living.snapshot import Snapshot
from fpstore.merging import begins
from fpstore.query.similar import SimilarPairs
from fpstore.sketches.bands import Banding
from fpstore.types import Array, Counts, Ids, Keys

# Of two large sides so many ids each are met at once; the pairs of small buckets are made together, so many at a time.
SIDE = 256
PAIRS_AT_ONCE = SIDE * SIDE
# Of the rows of buckets so many are looked at together, or all of one key.
ROWS_AT_ONCE = 1 << 15


class Met(NamedTuple):
    """Pairs of ids that share a band: uint64[m] both, first < second, in how many bands, and the work before, of 1."""

    first: Ids
    second: Ids
    shared_bands: Array
    share: float


class Part(NamedTuple):
    """One of so many, from 0 on, into which all buckets are cut, of about as many pairs of rows."""

    number: int
    among: int


WHOLE = Part(0, 1)


def similar_pairs(
    snapshot: Snapshot, memory_bytes: int, least: float | None, *, estimated: bool = True, part: Part = WHOLE
) -> Iterator[tuple[SimilarPairs, float]]:
    """Pairs of ids, each once, whose similarity is `least` or more, with the share of the work that lies before them.

    In handles where ids are names. estimated: with their similarities, if there are sketches. part: of the buckets.
    """
    for met in pairs_that_share(snapshot, memory_bytes, part):
        if not estimated or snapshot.settings.kept is None:
            similarity = np.full(len(met.first), np.nan, dtype=np.float32)
        else:
            similarity = id_similarities(snapshot, met.first, met.second)
        found = SimilarPairs(met.first, met.second, similarity, met.shared_bands)
        if least is not None:
            kept = similarity >= least
            found = SimilarPairs(met.first[kept], met.second[kept], similarity[kept], met.shared_bands[kept])
        yield found, met.share


def named_similar_pairs(snapshot: Snapshot, found: SimilarPairs) -> SimilarPairs:
    """Pairs of names for pairs of handles, the smaller name first."""
    first, second = names_in(snapshot, found.first_id), names_in(snapshot, found.second_id)
    swapped = (second < first).astype(bool)
    return SimilarPairs(
        np.where(swapped, second, first),
        np.where(swapped, first, second),
        found.similarity,
        found.shared_bands,
    )


def pairs_that_share(snapshot: Snapshot, memory_bytes: int, part: Part = WHOLE) -> Iterator[Met]:
    """Each two ids that share a band, once, whichever parts there are: the two are told where they meet first."""
    minhash = snapshot.settings.minhash
    assert minhash is not None
    banding = minhash.banding(snapshot.settings.bits)
    with ExitStack() as stack:
        buckets = stack.enter_context(closing(_Buckets(Path(tempfile.gettempdir()), banding, memory_bytes)))
        for keys, ids in snapshot.rows():
            assert ids is not None
            buckets.add(keys, ids)
        buckets.finish()
        yield from buckets.pairs(part)


class _Buckets:
    """The rows of keys that several ids have, and the keys of each of these ids."""

    def __init__(self, scratch: Path, banding: Banding, memory_bytes: int) -> None:
        self._banding, self._scratch = banding, scratch
        self._files = ExitStack()
        self._keys, self._ids = _Column(scratch, self._files), _Column(scratch, self._files)
        self._by_id = PairSorter(scratch, max(memory_bytes // 2, MIN_MEMORY_BYTES))
        self._documents: _Documents | None = None
        self._held: tuple[Keys, Ids] = (_NONE, _NONE)
        self._before = _NONE  # the key before the row that is held

    def close(self) -> None:
        """Let go of the files."""
        self._files.close()

    def add(self, keys: Keys, ids: Ids) -> None:
        """Rows in order, each once; the last is held until it is known what follows."""
        keys, ids = np.concatenate([self._held[0], keys]), np.concatenate([self._held[1], ids])
        self._take(np.concatenate([self._before, keys]), ids, len(self._before))
        self._held = keys[-1:].copy(), ids[-1:].copy()
        self._before = keys[-2:-1].copy()

    def _take(self, keys: Keys, ids: Ids, first: int) -> None:
        """All but the last row of those from `first` on; the one before is known already."""
        same = keys[1:] == keys[:-1]
        shared = np.concatenate([[False], same])[first:-1] | same[first:]
        keys, ids = keys[first:-1][shared], ids[:-1][shared]
        self._keys.append(keys)
        self._ids.append(ids)
        self._by_id.add(ids, keys)

    def finish(self) -> None:
        """There are no more."""
        if len(self._held[0]):  # a row of another key, for the last one's sake
            self.add(self._held[0] ^ np.uint64(1), self._held[1])
        pairs = self._by_id.finish()
        try:
            self._documents = _Documents(self._scratch, self._files, self._banding, pairs.chunks())
        finally:
            pairs.close()

    def pairs(self, part: Part = WHOLE) -> Iterator[Met]:
        """All pairs that are told in a part of the buckets."""
        keys, ids = self._keys.all(), self._ids.all()
        count = len(keys)
        for at, end in _stretches(keys) if part == WHOLE else _of_part(keys, part):
            own_keys, own_ids = np.array(keys[at:end]), np.array(ids[at:end])
            for first, second in _small_buckets(own_keys):
                met = self._meeting(own_keys, own_ids, first, second)
                if len(met[0]):
                    yield Met(*met, at / count)
            for start, size in _large_buckets(own_keys):
                for met in self._squares(int(own_keys[start]), own_ids[start : start + size]):
                    if len(met[0]):
                        yield Met(*met, at / count)

    def _meeting(self, keys: Keys, ids: Ids, first: Counts, second: Counts) -> tuple[Ids, Ids, Array]:
        """Of pairs of rows of one key each those whose ids have no lesser key in common."""
        assert self._documents is not None
        rows, place = np.unique(np.concatenate([first, second]), return_inverse=True)
        own = self._documents.keys_of(ids[rows])
        one, other = place[: len(first)], place[len(first) :]
        if own.simple:
            shared = own.keys[one] == own.keys[other]
            shared &= own.keys[one] != self._documents.nothing
            new = shared.argmax(axis=1) == self._banding.of(keys[first])
            bands = np.count_nonzero(shared, axis=1).astype(np.uint16)
        else:
            new, bands = np.zeros(len(first), dtype=bool), np.zeros(len(first), dtype=np.uint16)
            sets = [{*each.tolist()} for each in own.groups(self._documents.nothing)]
            for index, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
                both = sets[a] & sets[b]
                new[index] = min(both) == int(keys[first[index]])
                bands[index] = len({*self._banding.of(np.array([*both], dtype=np.uint64)).tolist()})
        left, right = ids[first[new]], ids[second[new]]
        return np.minimum(left, right), np.maximum(left, right), bands[new]

    def _squares(self, key: int, ids: Ids) -> Iterator[tuple[Ids, Ids, Array]]:
        """As _meeting, of all pairs of ids of a key that has very many."""
        assert self._documents is not None
        band = int(self._banding.of(np.array([key], dtype=np.uint64))[0])
        for row in range(0, len(ids), SIDE):
            left = self._documents.keys_of(ids[row : row + SIDE])
            for column in range(row, len(ids), SIDE):
                right = self._documents.keys_of(ids[column : column + SIDE])
                one, other = np.indices((len(left.sizes), len(right.sizes))).reshape(2, -1)
                if row == column:
                    one, other = one[one < other], other[one < other]
                if not (left.simple and right.simple):
                    own = slice(row, None)
                    keys = np.full(len(ids) - row, key, dtype=np.uint64)
                    yield self._meeting(keys, ids[own], one, other + (column - row))
                    continue
                bands = np.zeros((len(left.sizes), len(right.sizes)), dtype=np.uint16)
                before = np.zeros(bands.shape, dtype=bool)
                for index, nothing in enumerate(self.nothing):
                    if index == band and before.all():
                        break
                    there = left.keys[:, index] != nothing
                    same = (left.keys[:, index, None] == right.keys[None, :, index]) & there[:, None]
                    bands += same
                    if index < band:
                        before |= same
                new = ~before[one, other]
                one, other = one[new], other[new]
                yield ids[row + one], ids[column + other], bands[one, other]

    @property
    def nothing(self) -> Keys:
        """As of _Documents."""
        assert self._documents is not None
        return self._documents.nothing


class _Own(NamedTuple):
    """The keys of some ids: uint64[n, bands]; of one id, sizes[i] rows from first[i] on. simple: each has one."""

    keys: Keys
    first: Counts
    sizes: Counts
    simple: bool

    def groups(self, nothing: Keys) -> list[Keys]:
        """Of each id all of its keys; nothing: what stands in each column where there is none."""
        are_keys = self.keys != nothing
        rows = [
            slice(start, start + size) for start, size in zip(self.first.tolist(), self.sizes.tolist(), strict=True)
        ]
        return [self.keys[own][are_keys[own]] for own in rows]


class _Documents:
    """The keys of ids, a row for each id with a column for each band; of an id with several signatures some rows.

    nothing: what stands in each column where the id has no key: 0, and 2^64 - 1 in that of band 0. No key of the band
    is that, as 0 is of band 0, and 2^64 - 1 of the last one, or of none where there is one band.
    """

    def __init__(self, scratch: Path, files: ExitStack, banding: Banding, rows: Iterator[tuple[Ids, Keys]]) -> None:
        """rows: ids and keys, in order, each once."""
        self._banding = banding
        self.nothing = np.zeros(banding.bands, dtype=np.uint64)
        self.nothing[0] = (1 << 64) - 1
        self._ids = _Column(scratch, files)
        self._keys = _Column(scratch, files, banding.bands)
        held: tuple[Ids, Keys] = (_NONE, _NONE)
        for ids, keys in rows:
            ids, keys = np.concatenate([held[0], ids]), np.concatenate([held[1], keys])
            end = int(ids.searchsorted(ids[-1]))  # more of the last id may come
            self._append(ids[:end], keys[:end])
            held = ids[end:], keys[end:]
        self._append(*held)

    def _append(self, ids: Ids, keys: Keys) -> None:
        if not len(ids):
            return
        bands = self._banding.of(keys)
        fresh = begins(ids)
        starts = np.flatnonzero(fresh | begins(bands))
        which = np.arange(len(ids)) - np.repeat(starts, np.diff(starts, append=len(ids)))
        of = np.cumsum(fresh) - 1
        rows = np.zeros(of[-1] + 1, dtype=np.int64)
        np.maximum.at(rows, of, which + 1)
        table = np.broadcast_to(self.nothing, (int(rows.sum()), self._banding.bands)).copy()
        table[(np.cumsum(rows) - rows)[of] + which, bands] = keys
        self._ids.append(np.repeat(ids[fresh], rows))
        self._keys.append(table)

    def keys_of(self, ids: Ids) -> _Own:
        """Those of ids, all of which are there."""
        held = self._ids.all()
        first, end = held.searchsorted(ids), held.searchsorted(ids, side="right")
        count = end - first
        starts = np.cumsum(count) - count
        rows = np.repeat(first - starts, count) + np.arange(int(count.sum()))
        return _Own(self._keys.all()[rows], starts, count, bool((count == 1).all()))


class _Column:
    """Words in a file without a name: appended, then read wherever they lie. width: of a row of them."""

    def __init__(self, scratch: Path, files: ExitStack, width: int = 0) -> None:
        with naming(scratch):
            self._file = files.enter_context(tempfile.TemporaryFile(dir=scratch))  # noqa: SIM115
        self._scratch, self._width, self._count = scratch, width, 0
        self._mapped: Keys | None = None

    def append(self, rows: Keys) -> None:
        """Some more."""
        with naming(self._scratch):
            self._file.write(np.ascontiguousarray(rows).tobytes())
        self._count += len(rows)

    def all(self) -> Keys:
        """All of them: uint64[n], or uint64[n, width]. Nothing is appended from then on."""
        if self._mapped is None:
            shape = (self._count, self._width) if self._width else (self._count,)
            with naming(self._scratch):
                self._file.flush()
            self._mapped = (
                np.memmap(self._file, dtype=np.uint64, mode="r", shape=shape)
                if self._count
                else np.empty(shape, dtype=np.uint64)
            )
        return self._mapped


def _stretches(keys: Keys) -> Iterator[tuple[int, int]]:
    """Where the rows begin and end that are looked at together: of all buckets in them, all rows."""
    count, at = len(keys), 0
    while at < count:
        end = min(at + ROWS_AT_ONCE, count)
        if end < count:
            last = int(keys.searchsorted(keys[end - 1]))
            end = last if last > at else int(keys.searchsorted(keys[at], side="right"))
        yield at, end
        at = end


def _of_part(keys: Keys, part: Part) -> Iterator[tuple[int, int]]:
    """Those of them that are of a part: by the pairs of rows before the middle of each."""
    stretches = list(_stretches(keys))
    sizes = (_buckets(np.array(keys[at:end]))[1] for at, end in stretches)
    pairs = [int((own * (own - 1) // 2).sum()) for own in sizes]
    total, before = sum(pairs), 0
    for stretch, own in zip(stretches, pairs, strict=True):
        if (2 * before + own) * part.among // (2 * total) == part.number:
            yield stretch
        before += own


def _small_buckets(keys: Keys) -> Iterator[tuple[Counts, Counts]]:
    """All pairs of rows of one key, the first before the second, PAIRS_AT_ONCE at most at a time: int64[m] both."""
    first, sizes = _buckets(keys)
    few = sizes * (sizes - 1) // 2 <= PAIRS_AT_ONCE
    first, sizes = first[few], sizes[few]
    ends, at = np.cumsum(sizes * (sizes - 1) // 2), 0
    while at < len(first):
        before = int(ends[at - 1]) if at else 0
        end = max(at + 1, int(ends.searchsorted(before + PAIRS_AT_ONCE, side="right")))
        yield _all_pairs(first[at:end], sizes[at:end])
        at = end


def _large_buckets(keys: Keys) -> list[tuple[int, int]]:
    """Where the others begin, and how many rows each has."""
    first, sizes = _buckets(keys)
    many = sizes * (sizes - 1) // 2 > PAIRS_AT_ONCE
    return [*zip(first[many].tolist(), sizes[many].tolist(), strict=True)]


def _buckets(keys: Keys) -> tuple[Counts, Counts]:
    first = np.flatnonzero(begins(keys))
    return first, np.diff(first, append=len(keys))


def _all_pairs(first: Counts, sizes: Counts) -> tuple[Counts, Counts]:
    """The pairs of rows of groups, of which each begins there and has so many rows."""
    # Of each row all rows after it in its group.
    after = np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(size - 1, -1, -1) for size in sizes.tolist())])
    rows = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    left = np.repeat(rows, after)
    within = np.arange(len(left)) - np.repeat(np.cumsum(after) - after, after)
    return left, left + 1 + within


_NONE: Keys = np.empty(0, dtype=np.uint64)
