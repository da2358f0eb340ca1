"""All pairs of stored fingerprints within a distance, straight from the sorted tables of a segment.

A table catches the pairs whose prefixes differ in at most its number of flips; they stand in the same window of
neighbouring keys, or in windows that differ by a flip. Neighbours are compared as the table is decoded, part by part.
For flips, a chunk of windows is held, in a stated budget, and each compared with its partners. Each pair is found once:
by the first table that catches it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fpstore._merge import AnyOrder
from fpstore._pairs import Flips, Join, Neighbours, Windows
from fpstore._view import SegmentView
from fpstore.plans.planner import pattern_count
from fpstore.query.tables import Table, read_only
from fpstore.segment.reader import Segment
from fpstore.types import Array, Distances, Keys

# Of each key of a chunk: 8 for the key and 3 for where its window starts, and as much in the chunk's partner. Of each
# key of a window that is put together from parts: 8 there and here, and 4 for its fold.
BYTES_PER_CHUNK_KEY = 22
MAX_CHUNK_KEYS = (1 << 31) - 1
# Keys of a window on average, from so many to twice as many: more windows need more flips; in larger ones, more have
# over 4 keys, which takes a second step. 10^7 uniform keys, plan size: 0.38 s with 1.2, 0.33 with 2.4, 0.57 with 4.8.
WINDOW_KEYS = 1.5
MAX_WINDOW_BITS = 40
# Fewer flips are always worth it: to compare a window with its partner takes as long as with some 20 keys in a row.
MANY_FLIPS = 1 << 12
# Chunks are chosen by a counter for each possible one, which takes an eighth of the budget at most, or half a MiB.
MIN_COUNTER_BITS = 16
COUNTER_SHARE_BYTES = 8 * 8
# What a stretch takes of a thread: of each key to be read and compared with its neighbours, with a window that differs
# by a flip, and to be read again as the partner of a chunk. 3*10^6 uniform keys, distance 3, the plans balanced, size
# and speed: 0.07 to 0.11 s, of which this says 0.07 to 0.10.
# A table with one flip and windows of 22 bits: 17 ns a key, 22 in halves, 34 in eighths, which read 1.5 partners each:
# what tasks take more than one search is this, so that they are cut no finer than it takes to share the work.
NEIGHBOUR_NS, FLIP_NS, PARTNER_NS = 6.0, 0.5, 10.0

# Where keys of a window are in no order, those that are near do not stand side by side, so that they are looked at with
# others of fewer vectors: gathering takes more than it saves where more than one in so many is near.
KEYS_PER_NEAR = 32


class JoinedTable(Protocol):
    """What a join asks of a table."""

    @property
    def prefix_mask(self) -> int:
        """Which bits come to the top of its keys."""
        ...

    @property
    def flips(self) -> int:
        """In how many bits of the prefix those may differ which it catches."""
        ...

    @property
    def slot_bits(self) -> int:
        """Of how many top bits a slot is."""
        ...


class Joined(Protocol):
    """What pairs are looked for in: a segment, or all that lives in a store. path: names it in errors."""

    path: Path

    @property
    def key_count(self) -> int:
        """Distinct keys of a table, or more."""
        ...

    @property
    def tables(self) -> Sequence[JoinedTable]:
        """Those of the plan."""
        ...

    @property
    def view(self) -> SegmentView:
        """For the permutations of the tables."""
        ...

    def keys(
        self,
        table: int,
        first_slot: int = 0,
        end_slot: int | None = None,
        *,
        into: Callable[[], Keys] | None = None,
        order: AnyOrder | None = None,
    ) -> Iterator[Keys]:
        """The keys of a table, or of some of its slots, in order, each once, in chunks that are not empty.

        The room of a chunk may be used again once the next one is asked for. into: says where a chunk had best lie,
        which it then may, where there is room for it. order: leave to hand them on in another order, chunk by chunk as
        long as nobody ends it; such a chunk may be written to.
        """
        ...


class Stretch(NamedTuple):
    """Some of the windows of a table: those of the keys whose top `bits` bits are from first up to end, excluded."""

    table: int
    bits: int
    first: int
    end: int


# Of which stretches the pairs are looked for; None: of all tables.
Only = Sequence[Stretch] | None


class Pair(NamedTuple):
    """Two stored fingerprints within the distance asked for; first < second, as numbers without a sign."""

    first: int
    second: int
    distance: int


class Pairs(Table[Pair]):
    """Pairs as columns, each pair once, in no particular order."""

    __slots__ = ()

    NAMES = ("first", "second", "distance")
    FINGERPRINTS = ("first", "second")

    _columns: tuple[Array, Array, Distances]

    def __init__(self, first: Array, second: Array, distance: Array) -> None:
        # What joins find is of 8 bits.
        self._columns = read_only(first, second, distance.astype(np.uint16, copy=False))

    @property
    def first(self) -> Array:
        """uint64[m]: the smaller of the two, as a number without a sign."""
        return self._columns[0]

    @property
    def second(self) -> Array:
        """uint64[m]: the larger."""
        return self._columns[1]

    @property
    def distance(self) -> Distances:
        """uint16[m]: in how many bits they differ."""
        return self._columns[2]

    def _records(self, columns: Sequence[Any]) -> Iterator[Pair]:
        return map(Pair._make, zip(*columns, strict=True))


def segment_joins(segment: Joined, distance: int, memory_bytes: int, only: Only = None) -> Iterator[tuple[Join, float]]:
    """The joins that find every pair of the segment once, each with the share of the work that lies before it.

    only: some of the `stretches` that these are cut into. Each join has to be done before the next is asked for. Raises
    ValueError where one aligned range of keys that cannot be split further does not fit the budget.
    """
    if segment.key_count < 2:
        return
    own = [Stretch(index, 0, 0, 1) for index in range(len(segment.tables))] if only is None else only
    for number, stretch in enumerate(own):
        joins = _flip_joins if segment.tables[stretch.table].flips else _neighbour_joins
        for join, share in joins(segment, stretch, distance, memory_bytes):
            yield join, (number + share) / len(own)


def stretches(
    segment: Joined, distance: int, count: int, flipped: int | None = None
) -> Iterator[tuple[Stretch, float]]:
    """Every table cut into about so many stretches, each with what it takes, in nanoseconds of a thread.

    flipped: into how many one with flips is cut, as many by default: the more, the more keys are read once more.
    The joins of all of them find every pair once. What they take is that of keys spread evenly.
    """
    if segment.key_count < 2:
        return
    for index, table in enumerate(segment.tables):
        window_bits, masks, pieces = table.prefix_mask.bit_count(), [0], count
        if table.flips:
            window_bits, masks = window_flips(segment, index, distance)
            pieces = count if flipped is None else flipped
        bits = min((pieces - 1).bit_length(), window_bits, table.slot_bits, MIN_COUNTER_BITS)
        flips = _flips_of_chunks(masks, window_bits, bits, segment.view.bits)
        for chunk in range(1 << bits):
            met = [len(inside) for across, inside in flips.items() if _is_met_from(chunk, across)]
            each = NEIGHBOUR_NS + FLIP_NS * sum(met) + PARTNER_NS * len(met)
            yield Stretch(index, bits, chunk, chunk + 1), each * segment.key_count / (1 << bits)


def window_shape(segment: Joined, index: int, distance: int) -> tuple[int, int]:
    """How many top bits make a window in this table, and in how many of them joined windows differ at most.

    Where windows would be joined with most others, all keys are one window.
    """
    table, bits = segment.tables[index], segment.view.bits
    dense_bits = min(MAX_WINDOW_BITS, bits - 1, max(0, int(segment.key_count / WINDOW_KEYS).bit_length() - 1))
    window_bits = min(table.prefix_mask.bit_count(), dense_bits)
    flips = min(table.flips, distance, window_bits)
    if pattern_count(window_bits, flips) > max(MANY_FLIPS, (1 << window_bits) // 8):
        return 0, 0
    return window_bits, flips


def window_flips(segment: Joined, index: int, distance: int) -> tuple[int, list[int]]:
    """How many top bits make a window in this table, and the masks by which joined windows differ."""
    (window_bits, most), bits = window_shape(segment, index, distance), segment.view.bits
    flips = [
        sum(1 << (bits - 1 - place) for place in places)
        for count in range(most + 1)
        for places in combinations(range(window_bits), count)
    ]
    return window_bits, flips


def load_windows(segment: Segment, index: int, window_bits: int, chunk: int, split_bits: int) -> Windows:
    """The keys of a table whose top split_bits bits are chunk, with their windows."""
    parts = list(_parts_of(segment, Stretch(index, split_bits, chunk, chunk + 1)))
    windows = Windows(window_bits, split_bits, sum(len(part) for part in parts), bits=segment.view.bits)
    windows.begin(chunk)
    for part in parts:
        windows.append(part)
    return windows


def _parts_of(
    segment: Joined, stretch: Stretch, into: Callable[[], Keys] | None = None, order: AnyOrder | None = None
) -> Iterator[Keys]:
    """The keys of a stretch, in order, some at a time; into, order: of Joined.keys."""
    if stretch.bits == 0:
        return segment.keys(stretch.table, into=into, order=order)
    slots = 1 << (segment.tables[stretch.table].slot_bits - stretch.bits)
    return segment.keys(stretch.table, stretch.first * slots, stretch.end * slots, into=into, order=order)


def _neighbour_joins(
    segment: Joined, stretch: Stretch, distance: int, memory_bytes: int
) -> Iterator[tuple[Join, float]]:
    """Of a table without flips: every pair of keys that share the prefix."""
    index = stretch.table
    prefix_bits, done = segment.tables[index].prefix_mask.bit_count(), 0
    expected = segment.key_count * (stretch.end - stretch.first) / (1 << stretch.bits)
    order = AnyOrder(segment.view.bits - prefix_bits)
    parts = _parts_of(segment, stretch, order=order)
    for keys in _whole_windows(segment, index, parts, prefix_bits, distance, memory_bytes, order):
        if len(keys) > 1:
            join = Neighbours(segment.view, index, keys, distance, prefix_bits, any_order=order.width > 0)
            yield join, min(1.0, done / expected)
            if join.in_order or join.near_count > len(keys) // KEYS_PER_NEAR:
                order.end()
        done += len(keys)


def _flips_of_chunks(masks: Sequence[int], window_bits: int, split_bits: int, bits: int) -> dict[int, list[int]]:
    """The masks but the first, by what they do to a chunk's number: what they do to that of a window in the chunk."""
    chunk_bits = window_bits - split_bits
    flips: dict[int, list[int]] = {}
    for mask in masks[1:]:
        across, within = divmod(mask >> (bits - window_bits), 1 << chunk_bits)
        flips.setdefault(across, []).append((across > 0) << chunk_bits | within)
    return flips


def _is_met_from(chunk: int, across: int) -> bool:
    """Whether a chunk meets its partner, or itself; or the partner meets it."""
    return across == 0 or not chunk & (1 << (across.bit_length() - 1))


def _flip_joins(segment: Joined, stretch: Stretch, distance: int, memory_bytes: int) -> Iterator[tuple[Join, float]]:
    """Of a table with flips: the pairs within windows, then those with windows that differ by a flip."""
    index, bits = stretch.table, segment.view.bits
    window_bits, masks = window_flips(segment, index, distance)
    most_bits = _split_bits(segment, index, window_bits, memory_bytes)
    stretch = _coarsest(stretch)
    read = _chunks_read(stretch, _flips_of_chunks(masks, window_bits, stretch.bits, bits))
    split_bits, most_keys = _split(segment, index, read, most_bits, distance, memory_bytes)
    flips = _flips_of_chunks(masks, window_bits, split_bits, bits)
    windows = Windows(window_bits, split_bits, (1 + (split_bits > 0)) * most_keys, both=split_bits > 0, bits=bits)
    finer = split_bits - stretch.bits
    chunks = range(stretch.first << finer, stretch.end << finer)
    for chunk in chunks:
        share = (chunk - chunks.start) / len(chunks)
        windows.begin(chunk)
        done = 0
        for part in _parts_of(segment, Stretch(index, split_bits, chunk, chunk + 1), windows.rest):
            windows.append(part)
            keys = windows.whole(done)
            done += len(keys)
            yield Neighbours(segment.view, index, keys, distance, window_bits), share
        yield Neighbours(segment.view, index, windows.whole(done, ended=True), distance, window_bits), share
        yield Flips(segment.view, index, windows, distance, flips.get(0, [])), share
        for across, inside in flips.items():
            if across == 0 or not _is_met_from(chunk, across):
                continue
            windows.begin(chunk ^ across, second=True)
            partner = chunk ^ across
            for part in _parts_of(segment, Stretch(index, split_bits, partner, partner + 1), windows.rest):
                windows.append(part)
            yield Flips(segment.view, index, windows, distance, inside), share


def _coarsest(stretch: Stretch) -> Stretch:
    """The same windows as fewer chunks, which meet fewer partners: each of these is read once more."""
    table, bits, first, end = stretch
    while bits and not (first | end) & 1:
        bits, first, end = bits - 1, first >> 1, end >> 1
    return Stretch(table, bits, first, end)


def _chunks_read(stretch: Stretch, flips: dict[int, list[int]]) -> list[Stretch]:
    """The chunks of a stretch and the partners that these meet, each once."""
    own = range(stretch.first, stretch.end)
    partners = {chunk ^ across for across in flips for chunk in own if across and _is_met_from(chunk, across)}
    return [stretch._replace(first=chunk, end=chunk + 1) for chunk in sorted({*own, *partners})]


def _whole_windows(
    segment: Joined,
    index: int,
    parts: Iterator[Keys],
    window_bits: int,
    distance: int,
    memory_bytes: int,
    order: AnyOrder,
) -> Iterator[Keys]:
    """The parts cut anew, so that none ends within a window; one that ends with a part comes by itself, as a copy.

    Those for which there was leave not to be in order end with a window, and come before all others.
    """
    in_window = np.uint64((1 << (segment.view.bits - window_bits)) - 1)
    held: list[Keys] = []  # of one window, the last
    for part in parts:
        if order.width:
            yield part
            continue
        begin = int(np.searchsorted(part, held[0][0] | in_window, side="right")) if held else 0
        if begin:
            held.append(part[:begin].copy())
        if sum(map(len, held)) > memory_bytes // BYTES_PER_CHUNK_KEY:
            raise _no_room(segment, index, distance, memory_bytes)
        if begin == len(part):
            continue
        if held:
            yield np.concatenate(held)
        cut = int(np.searchsorted(part, part[-1] & ~in_window))
        if begin < cut:
            yield part[begin:cut]
        held = [part[cut:].copy()]
        if len(held[0]) > memory_bytes // BYTES_PER_CHUNK_KEY:
            raise _no_room(segment, index, distance, memory_bytes)
    if held:
        yield np.concatenate(held)


def _split(
    segment: Joined, index: int, read: Sequence[Stretch], most: int, distance: int, memory_bytes: int
) -> tuple[int, int]:
    """The fewest top bits that split what is read into chunks which fit the budget, and how many keys one has at most.

    read: chunks of the table, of the fewest bits that will do.
    """
    least = read[0].bits
    room = min(memory_bytes // BYTES_PER_CHUNK_KEY, MAX_CHUNK_KEYS)
    if segment.key_count <= room:
        return least, segment.key_count
    counts = np.zeros(1 << most, dtype=np.int64)
    shift = np.uint64(segment.view.bits - most)
    for keys in (keys for chunk in read for keys in _parts_of(segment, chunk)):
        places = (keys >> shift).astype(np.int64)
        here = np.bincount(places - places[0])  # of the few that these keys, which are sorted, reach
        counts[places[0] : places[0] + len(here)] += here
    for bits in range(least, most + 1):
        largest = int(counts.reshape(1 << bits, -1).sum(axis=1).max())
        if largest <= room:
            return bits, largest
    raise _no_room(segment, index, distance, memory_bytes)


def _split_bits(segment: Joined, index: int, window_bits: int, memory_bytes: int) -> int:
    """By how many top bits a table with flips can be split at most."""
    counters = max(MIN_COUNTER_BITS, (memory_bytes // COUNTER_SHARE_BYTES).bit_length() - 1)
    return min(window_bits, segment.tables[index].slot_bits, counters)


def _no_room(segment: Joined, first: int, distance: int, memory_bytes: int) -> ValueError:
    """What tells of the most keys that must be held together of any table, from the first on: what is enough for all.

    Reads these tables.
    """
    crowds = []
    for index, table in enumerate(segment.tables[first:], first):
        bits = table.prefix_mask.bit_count()
        if table.flips:
            bits = _split_bits(segment, index, window_shape(segment, index, distance)[0], memory_bytes)
        crowds.append((_largest(segment.keys(index), segment.view.bits - bits), index, bits))
    crowd, index, bits = max(crowds, key=lambda each: each[0])
    return ValueError(
        f"{segment.path.name}, table {index}: {crowd} keys share {bits} bits; "
        f"finding their pairs needs a memory budget of {crowd * BYTES_PER_CHUNK_KEY} bytes, not {memory_bytes}"
    )


def _largest(parts: Iterator[Keys], rest_bits: int) -> int:
    """How many keys in order share all bits but the last rest_bits, at most."""
    last, held, most = -1, 0, 0
    for part in parts:
        prefixes = part >> np.uint64(rest_bits) if rest_bits < 64 else np.zeros(len(part), dtype=np.uint64)
        starts = np.concatenate([[0], np.flatnonzero(prefixes[1:] != prefixes[:-1]) + 1])
        counts = np.diff(starts, append=len(part))
        counts[0] += held if int(prefixes[0]) == last else 0
        last, held, most = int(prefixes[-1]), int(counts[-1]), max(most, int(counts.max()))
    return most
