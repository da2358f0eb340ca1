"""What several tests share: segments built from arrays, sets of fingerprints of every kind, and brute force."""

# mypy: disable-error-code="call-overload"

import ctypes
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from fpstore import format as layout
from fpstore._codec import crc32c, page_checksums
from fpstore._probe import search
from fpstore._view import SegmentView, TableCursor
from fpstore.disk import Passage
from fpstore.format import TableRecord
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan, TablePlan
from fpstore.query import batch, ways
from fpstore.segment.reader import Segment
from fpstore.segment.table import EncodedTable, encode_table
from fpstore.segment.writer import SegmentWriter
from fpstore.text import recipes
from fpstore.types import Array, Bytes, Ids, Keys

LAST = (1 << 64) - 1
CODECS = layout.CODECS
FINGERPRINTING = [name for name, preset in recipes().items() if preset.sketch != "minhash"]  # names of recipes
CLUSTERED_SHARE = 0.4  # of the keys: copies of a base key with up to 6 flipped bits, Zipf cluster sizes


def resident(address: int, size: int) -> list[bool]:
    """Which pages of this process from an address on, whole ones, are in memory."""
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    held = (ctypes.c_ubyte * ((address + size - start) // mmap.PAGESIZE))()
    found = ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(held) * mmap.PAGESIZE), held)
    assert found == 0
    return [bool(byte & 1) for byte in held]


@dataclass(frozen=True)
class ArrayKeys:
    """Sorted distinct keys in an array, handed out in chunks."""

    keys: Keys
    chunk_keys: int = 1 << 16

    @property
    def count(self) -> int:
        return len(self.keys)

    def chunks(self) -> Iterator[Keys]:
        for start in range(0, len(self.keys), self.chunk_keys):
            yield self.keys[start : start + self.chunk_keys]


def fingerprint_array(values: Sequence[int]) -> Keys:
    return np.array(values, dtype=np.uint64)


def distinct(fingerprints: Keys) -> Keys:
    """Sorted, each once."""
    ordered = np.sort(fingerprints)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def write_segment(
    path: Path,
    fingerprints: Keys,
    plan: Plan,
    *,
    codec: str = "gap",
    slot_bits: int | None = None,
    pairs: tuple[Keys, Ids] | None = None,
) -> Path:
    """Write the segment of these fingerprints (any order, repeats allowed); pairs: fingerprints and their ids."""
    stored = distinct(fingerprints)
    s = planner.slot_bits(len(stored), plan.slot_keys) if slot_bits is None else slot_bits
    named = path.with_name("99999999.fpseg")  # as segments are; the tests' names say more
    with SegmentWriter(named, codec, s, plan.bits, plan.block_bytes) as writer:
        for index, table in enumerate(plan.tables):
            keys = np.sort(Permutation(table.prefix_mask, plan.bits).apply(stored))
            writer.add_table(table, ArrayKeys(keys), with_ranks=pairs is not None and index == 0)
        if pairs is not None:
            counts, ids = ids_by_rank(stored, plan, pairs)
            least, most = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
            writer.add_ids(len(ids), least, most, lambda: iter([counts]), lambda: iter([ids]))
        writer.finish()
    return named.rename(path)


def ids_by_rank(stored: Keys, plan: Plan, pairs: tuple[Keys, Ids]) -> tuple[Keys, Ids]:
    """How many ids each fingerprint has, and the ids, both in the order of table 0."""
    permutation = Permutation(plan.tables[0].prefix_mask, plan.bits)
    keys = permutation.apply(pairs[0])
    order = np.lexsort((pairs[1], keys))
    ranks = np.searchsorted(np.sort(permutation.apply(stored)), keys)
    return np.bincount(ranks, minlength=len(stored)).astype(np.uint64), pairs[1][order]


@contextmanager
def segment_of(
    fingerprints: Keys,
    plan: Plan,
    *,
    codec: str = "gap",
    slot_bits: int | None = None,
    pairs: tuple[Keys, Ids] | None = None,
) -> Iterator[Segment]:
    """A segment of these fingerprints, open for reading; its file goes with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.fpseg"
        segment = Segment(write_segment(path, fingerprints, plan, codec=codec, slot_bits=slot_bits, pairs=pairs))
        try:
            yield segment
        finally:
            segment.close()


def ask_by(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Have batches answered so, as Matches.method says: "probe", "stream", or "scan"."""
    costs = {each: 0.0 if each == method else float("inf") for each in ("stream", "scan")}
    monkeypatch.setattr(planner, "scan_nanoseconds", lambda n, query_count=1, block_bytes=0: costs["scan"])
    monkeypatch.setattr(ways, "streaming_nanoseconds", lambda segment, query_count, distance: costs["stream"])


def stream_by(patch: pytest.MonkeyPatch, streams: bool) -> None:
    """Have large batches cost less streamed than otherwise, or more; each piece of a stream as much as another."""
    patch.setattr(batch, "_table_nanoseconds", lambda *_: 1e-6 if streams else 1e18)


def resealed(data: bytes | bytearray) -> bytes:
    """The bytes of a segment file with every checksum made to hold; the footer's offsets have to be right."""
    footer = layout.Footer.unpack(bytes(data[-layout.FOOTER_BYTES :]), len(data))
    sums = page_checksums(bytes(data[: footer.checksums_offset])).astype("<u4").tobytes()
    roots = page_checksums(sums).astype("<u4").tobytes()
    located = layout.Footer(
        footer.file_bytes, footer.summary_offset, footer.checksums_offset, footer.roots_offset, crc32c(roots)
    )
    return bytes(data[: footer.checksums_offset]) + sums + roots + located.pack()


# Sets of fingerprints: (count, rng) -> uint64 array in no order, repeats and fewer than count where the kind says so.


def uniform(count: int, rng: np.random.Generator) -> Keys:
    return rng.integers(0, 1 << 64, count, dtype=np.uint64)


def clustered(count: int, rng: np.random.Generator) -> Keys:
    """Like the sets c6 and c7 of the benchmarks."""
    in_clusters = int(count * CLUSTERED_SHARE)
    sizes = np.minimum(rng.zipf(2.0, in_clusters), 1000)
    cluster_of = np.repeat(np.arange(in_clusters), sizes)[:in_clusters]
    copies = flipped(uniform(in_clusters, rng)[cluster_of], rng.integers(0, 7, in_clusters), rng)
    return np.concatenate([copies, uniform(count - in_clusters, rng)])


def duplicate_heavy(count: int, rng: np.random.Generator) -> Keys:
    """A tenth as many fingerprints as documents."""
    return rng.choice(clustered(count // 10 + 1, rng), count)


def all_equal(count: int, rng: np.random.Generator) -> Keys:
    return np.full(count, uniform(1, rng)[0])


def consecutive(count: int, rng: np.random.Generator) -> Keys:
    return np.arange(count, dtype=np.uint64) + rng.integers(0, 1 << 63, dtype=np.uint64)


def extreme(count: int, rng: np.random.Generator) -> Keys:
    """Both ends, the middle, single bits, all with a few flips, among uniform ones."""
    ends = [0, 1, LAST, LAST - 1, 1 << 63, (1 << 63) - 1, *(1 << bit for bit in range(64))]
    near = rng.choice(fingerprint_array(ends), count // 2)
    return np.concatenate(
        [
            fingerprint_array(ends[:6])[:count],
            flipped(near, rng.integers(0, 5, len(near)), rng),
            rng.integers(0, 1 << 12, count // 8, dtype=np.uint64),
            np.uint64(LAST) - rng.integers(0, 1 << 12, count // 8, dtype=np.uint64),
            uniform(count // 4, rng),
        ]
    )


def one_prefix(count: int, rng: np.random.Generator) -> Keys:
    """All with the same 40 bits on top: one slot holds the whole of a table that starts with those."""
    return uniform(1, rng) >> np.uint64(24) << np.uint64(24) | uniform(count, rng) >> np.uint64(40)


def one_suffix(count: int, rng: np.random.Generator) -> Keys:
    """All with the same 40 bits at the low end."""
    return uniform(1, rng) >> np.uint64(24) | uniform(count, rng) >> np.uint64(40) << np.uint64(40)


KINDS: dict[str, Callable[[int, np.random.Generator], Keys]] = {
    "uniform": uniform,
    "clustered": clustered,
    "duplicate_heavy": duplicate_heavy,
    "all_equal": all_equal,
    "consecutive": consecutive,
    "extreme": extreme,
    "one_prefix": one_prefix,
    "one_suffix": one_suffix,
}


def flipped(fingerprints: Keys, counts: np.ndarray, rng: np.random.Generator, bits: int = 64) -> Keys:
    """Each fingerprint of so many bits with counts[i] (0..bits) different bits inverted."""
    result = fingerprints.copy()
    most = int(counts.max()) if len(counts) else 0
    # A bit inverted already is drawn again, so that the count is exact.
    taken = np.zeros(len(result), dtype=np.uint64)
    for step in range(most):
        wanting = np.nonzero(counts > step)[0]
        while len(wanting):
            places = np.uint64(1) << rng.integers(0, bits, len(wanting), dtype=np.uint64)
            free = taken[wanting] & places == 0
            taken[wanting[free]] |= places[free]
            wanting = wanting[~free]
    return result ^ taken


def queries_near(stored: Keys, k: int, count: int, rng: np.random.Generator, bits: int = 64) -> Keys:
    """Stored fingerprints with 0 to k + 1 bits inverted, for the most part; uniform ones; both ends."""
    ends = fingerprint_array([0, LAST >> 64 - bits, 1 << bits - 1])
    strangers = uniform(max(1, count // 4), rng) >> np.uint64(64 - bits)
    if not len(stored):
        return np.concatenate([ends, strangers])
    bases = rng.choice(stored, max(1, count - len(strangers) - len(ends)))
    near = flipped(bases, rng.integers(0, min(bits, k + 1) + 1, len(bases)), rng, bits)
    return np.concatenate([near, strangers, ends])


Matches = tuple[np.ndarray, np.ndarray, np.ndarray]


def brute_force(stored: Keys, queries: Keys, k: int, block: int = 1 << 22) -> Matches:
    """Every (query index, fingerprint, distance) within k, ordered by (query, distance, fingerprint).

    stored: distinct, any order.
    """
    parts = []
    rows = max(1, block // max(1, len(stored)))
    for start in range(0, len(queries), rows):
        distances = np.bitwise_count(queries[start : start + rows, None] ^ stored[None, :])
        query, column = np.nonzero(distances <= k)
        parts.append((query + start, stored[column], distances[query, column]))
    nothing = (np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint16))
    query, fingerprint, distance = (np.concatenate(columns) for columns in zip(*(parts or [nothing]), strict=True))
    return in_order(query.astype(np.int64), fingerprint.astype(np.uint64), distance.astype(np.uint16))


def in_order(query: Array, fingerprint: Array, distance: Array) -> Matches:
    order = np.lexsort((fingerprint, distance, query))
    return query[order], fingerprint[order], distance[order]


def difference_count(found: Matches, expected: Matches) -> int:
    """Matches that only one of the two has, or has once too often; at least 1 if the order or a type differs."""
    if all(np.array_equal(*columns) for columns in zip(found, expected, strict=True)):
        return int([column.dtype for column in found] != [column.dtype for column in expected])
    rows = [np.rec.fromarrays(list(matches), names="query,fingerprint,distance") for matches in (found, expected)]
    union, sides = np.unique(np.concatenate(rows), return_inverse=True)
    counts = [np.bincount(side, minlength=len(union)) for side in np.split(sides, [len(rows[0])])]
    return max(1, int(np.abs(counts[0] - counts[1]).sum()))


def search_differences(segment: Segment, stored: Keys, queries: Keys, k: int) -> int:
    """How the segment's answer differs from brute force: 0 when it is exact."""
    return difference_count(search(segment.view, queries, k), brute_force(stored, queries, k))


# Plans.


def scattered_bands(count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """That many disjoint masks of random widths and positions, which cover every bit."""
    cuts = [0, *sorted(rng.choice(np.arange(1, 64), count - 1, replace=False).tolist()), 64]
    bits = rng.permutation(64).tolist()
    return tuple(sum(1 << bit for bit in bits[start:end]) for start, end in pairwise(cuts))


def scattered_choose(band_count: int, k: int, rng: np.random.Generator) -> Plan:
    """A table for each choice of band_count - k scattered bands."""
    bands = scattered_bands(band_count, rng)
    tables = tuple(TablePlan(sum(chosen)) for chosen in combinations(bands, band_count - k))
    return Plan(f"scattered-{band_count}", k, bands, tables)


def scattered_flips(band_count: int, k: int, rng: np.random.Generator) -> Plan:
    """A table for each scattered band, the flips dealt out at random; bands wide enough for theirs."""
    while True:
        bands = scattered_bands(band_count, rng)
        dealt = np.bincount(rng.integers(0, band_count, k - band_count + 1), minlength=band_count)
        if all(band.bit_count() >= flips for band, flips in zip(bands, dealt.tolist(), strict=True)):
            return plans.flips(bands, dealt.tolist(), k)


@cache
def product_plans() -> tuple[Plan, ...]:
    """Every family of plans that the product offers, with k from 0 to 8, and scattered ones."""
    rng = np.random.default_rng(1)
    found = [plans.paper(name) for name in plans.PAPER_NAMES]
    for k in range(9):
        for band_count in range(1, k + 2):
            share, rest = divmod(k - band_count + 1, band_count)
            if share < 3:
                found.append(plans.flips(band_count, [share + (i < rest) for i in range(band_count)], k))
        found += [plans.choose(band_count, k) for band_count in (k + 1, k + 2)]
    found += [plans.flips(2, (3, 0), 4), plans.flips(3, (0, 2, 0), 4), plans.choose(6, 2)]
    found += [plans.general(64, k, n, 6) for k, n in ((2, 1 << 10), (3, 1 << 14), (3, 1 << 20))]
    found += [planner.choose(10**6, k, aim) for k in range(9) for aim in planner.AIMS]
    found += [scattered_choose(bands, k, rng) for bands, k in ((4, 3), (5, 3), (3, 1))]
    found += [scattered_flips(bands, k, rng) for bands, k in ((1, 2), (2, 3), (3, 3), (3, 5))]
    return tuple({(plan.tables, plan.max_distance): plan for plan in found}.values())


# One table in memory, without a file around it.


@dataclass
class CodedTable:
    """What encode_table made of some keys, and its payload."""

    table: EncodedTable
    payload: bytes
    bits: int = layout.KEY_BITS

    def view(self, prefix_mask: int = 0, flips: int = 0) -> SegmentView:
        """The table as a view of memory that holds it and its checksums, and 64 bytes more."""
        record, data = self.image(prefix_mask, flips)
        return view_of_image(record, data)

    def image(self, prefix_mask: int = 0, flips: int = 0) -> tuple[TableRecord, bytearray]:
        """The regions of the table as they lie in a file, and the record that says where."""
        data = bytearray(layout.HEADER_BYTES)
        offsets = []
        for region in (self.payload, self.table.directory.tobytes(), self.table.fences.tobytes()):
            offsets.append(len(data))
            data += region
            data += bytes(layout.align64(len(data)) - len(data))
        record = TableRecord(
            prefix_mask,
            self.table.codec,
            self.table.slot_bits,
            self.table.rice_bits,
            flips,
            offsets[0],
            self.table.payload_bits,
            0 if self.table.block_bytes else offsets[1],
            offsets[2],
            len(self.table.fences) // layout.FENCE_BYTES,
            self.table.code_lengths,
            self.bits,
            self.table.block_bytes,
        )
        return record, data


def view_of_image(record: TableRecord, data: bytearray) -> SegmentView:
    """A view of these bytes and this one table, every checksum made to hold."""
    sums = page_checksums(data).astype("<u4").tobytes()
    roots = page_checksums(sums).astype("<u4").tobytes()
    roots_offset = len(data) + len(sums)
    whole = data + sums + roots + bytes(layout.FOOTER_BYTES)
    return SegmentView(whole, len(data), roots_offset, roots_offset + len(roots), (record,))


def coded_table(
    keys: Sequence[int] | Keys,
    codec: str,
    slot_bits: int,
    chunk_keys: int = 1 << 16,
    *,
    with_ranks: bool = False,
    bits: int = layout.KEY_BITS,
    block_bytes: int = 0,
) -> CodedTable:
    """Encode sorted distinct keys, pushed in chunks."""
    parts: list[Bytes] = []
    source = ArrayKeys(np.asarray(keys, dtype=np.uint64), chunk_keys)
    table = encode_table(
        source, codec, slot_bits, parts.append, with_ranks=with_ranks, bits=bits, block_bytes=block_bytes
    )
    return CodedTable(table, b"".join(part.tobytes() for part in parts), bits)


def keys_of(view: SegmentView, slot_bits: int, table: int = 0) -> Keys:
    """All the keys of a table."""
    cursor = TableCursor(view, table, 0, 1 << slot_bits)
    return np.concatenate([np.empty(0, dtype=np.uint64), *iter_until_empty(cursor.read)])


def iter_until_empty(read: Callable[[], Keys]) -> Iterator[Keys]:
    while len(chunk := read()):
        yield chunk


@st.composite
def key_sets(draw: st.DrawFn) -> list[int]:
    """Sorted distinct keys: anywhere, in clusters, in runs, at both ends; sometimes more than a block holds."""
    seed = st.integers(0, 2**32 - 1)
    many = st.tuples(seed, st.integers(0, 400), st.integers(0, 63)).map(
        lambda parts: set((uniform(parts[1], np.random.default_rng(parts[0])) >> np.uint64(parts[2])).tolist())
    )
    key = st.integers(0, LAST)
    near = st.tuples(key, st.sets(st.integers(0, 64), max_size=40)).map(
        lambda pair: {(pair[0] ^ (1 << bit)) & LAST for bit in pair[1]}
    )
    runs = st.tuples(key, st.integers(1, 300)).map(lambda pair: set(range(pair[0], min(sum(pair), LAST + 1))))
    ends = st.sets(st.sampled_from([0, 1, LAST - 1, LAST, 1 << 63, (1 << 63) - 1]))
    few = st.sets(key, max_size=10)
    parts = draw(st.lists(st.one_of(many, near, runs, ends, few), max_size=4))
    return sorted(set().union(*parts))


def in_memory() -> dict[str, str]:
    """The environment of a tool whose files may lie in memory, where nobody waits for a disk: on one, most of its time.

    For those that judge a power cut by what was written and synced, which they have recorded, and not by a disk.
    """
    memory, room = "/dev/shm", 1 << 30
    has_room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > room
    return {**os.environ, **({"TMPDIR": memory} if has_room else {})}


class Passed(Passage):
    """A passage that notes where it begins, what it is told, and where it ends."""

    made: list["Passed"]

    def __init__(self, fd: int, first: int, end: int) -> None:
        self.told: list[int] = []
        super().__init__(fd, first, end)
        self.made.append(self)

    def come_to(self, offset: int) -> None:
        self.told.append(offset)
        super().come_to(offset)


class InterruptedAt:
    """Raises what Ctrl-C does at that call of the caller, from 0 on, of what has such names; a context manager."""

    def __init__(self, names: Collection[str], moment: int) -> None:
        self._names, self._left = names, moment

    def __call__(self, frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in self._names:
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt

    def __enter__(self) -> None:
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
