"""Ways to damage a file, and what may come of using it: an error, or the answer as before; of files, segments.

For tests/test_damage.py and, at full length, tools/check_damage.py; damage_named.py has the other kinds of files.
"""

import struct
import time
import tracemalloc
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from helpers import distinct, one_prefix, queries_near, resealed, uniform, write_segment

from fpstore._probe import search
from fpstore.errors import CorruptStore, UnsupportedVersion
from fpstore.format import CODEC_RICE, FOOTER_BYTES, GROUP_SLOTS, PAGE_BYTES, Footer, Summary
from fpstore.living.live import Live
from fpstore.living.merge import merge_segments
from fpstore.living.removals import Removals
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.segment.reader import Segment
from fpstore.types import Array, Keys

SECTOR_BYTES = 512
# The most that one use of a file may allocate: a multiple of its size, and what a search and a cursor take at most.
MEMORY_FACTOR = 64
MEMORY_BYTES = 16 << 20
SECONDS_FOR_ONE = 20
PLAN = plans.flips(2, (1, 1), 3)
SLOT_BITS = 5
WORDS = (0, 1, 64, 1 << 32, (1 << 48) - 1, (1 << 64) - 1)  # at the edges of what a field may hold
MODES = ("bits", "truncations", "edits", "repaired", "replaced")


@dataclass
class Sample(ABC):
    """A whole file, and how all that is asked of it is answered.

    others: files of other places that can stand in its place, each with a name that says which. also: other answers
    that are right then.
    """

    name: str
    data: bytes
    answer: Any = None
    others: list[tuple[str, bytes]] = field(default_factory=list)
    also: list[Any] = field(default_factory=list)

    def place(self, folder: Path, what: str) -> Path:
        """Where such a file is to be, for use; what: tells uses at one time apart."""
        return folder / f"{self.name}-{what}"

    @abstractmethod
    def answer_of(self, path: Path) -> Any:
        """All that is asked of it. CorruptStore where one of these was refused and the others were answered as ever."""

    def bits(self, index: int) -> tuple[str, bytes]:
        """The file with another byte, and which."""
        offset, what = divmod(index, 10)
        byte = (self.data[offset] ^ (1 << what)) if what < 8 else (0x00, 0xFF)[what - 8]
        return f"byte {offset} set to {byte:#04x}", self.data[:offset] + bytes([byte]) + self.data[offset + 1 :]

    def cut(self, index: int) -> tuple[str, bytes]:
        """The beginning of the file, and how much."""
        return f"cut to {index} bytes", self.data[:index]

    def edited(self, rng: np.random.Generator) -> bytes:
        """One random edit of several bytes."""
        return edited(self.data, rng)

    def count(self, mode: str, edits: int) -> int:
        """How many damaged files a mode has."""
        counts = {"bits": 10 * len(self.data), "truncations": len(self.data), "replaced": len(self.others)}
        return counts.get(mode, edits)


class FileSample(Sample):
    """A file by itself, whose checksums can be made to hold again."""

    @abstractmethod
    def read_everything(self, path: Path) -> None:
        """Every other way into it, whatever comes of it. CorruptStore or UnsupportedVersion."""

    @abstractmethod
    def repaired(self, rng: np.random.Generator) -> bytes:
        """An edit that knows the format, under checksums that hold."""


@dataclass
class SegmentSample(FileSample):
    """A segment file, and what is asked of it."""

    codec: str = ""
    queries: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    stored: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def answer_of(self, path: Path) -> list[list[Any]]:
        return answer_of(path, self)

    def read_everything(self, path: Path) -> None:
        read_everything(path, self)

    def repaired(self, rng: np.random.Generator) -> bytes:
        return edited_and_repaired(self, rng)


def make_sample(folder: Path, codec: str, with_ids: bool, count: int = 260, plan: Plan = PLAN) -> SegmentSample:
    """Some hundred fingerprints in 32 slots, among them one large slot, some with several ids."""
    rng = np.random.default_rng(11)
    # Rice keys of one prefix: 5,461 bits are more than 128 of them take, so the large slot has several fences.
    stored = distinct(np.concatenate([uniform(count // 2, rng), one_prefix(count // 2 + 60, rng)]))
    queries = queries_near(stored, PLAN.max_distance, 40, rng)
    documents = np.concatenate([stored, stored[::5]])
    pairs = (documents, np.arange(len(documents), dtype=np.uint64)) if with_ids else None
    path = write_segment(folder / f"{codec}-{with_ids}", stored, plan, codec=codec, slot_bits=SLOT_BITS, pairs=pairs)
    data = path.read_bytes()
    sample = SegmentSample(path.name, data, codec=codec, queries=queries, stored=stored)
    sample.answer = answer_of(path, sample)
    path.unlink()
    return sample


def exact(column: Array) -> list[Any]:
    """What of an array is compared: type, shape and bytes. A list of its numbers, traced, took half of the time."""
    return [column.dtype.str, column.shape, column.tobytes()]


def answer_of(path: Path, sample: SegmentSample) -> list[list[Any]]:
    """Open the file, probe it and read ids: everything that a store does with it."""
    segment = Segment(path)
    try:
        found = search(segment.view, sample.queries, PLAN.max_distance)
        columns = [*found]
        if segment.ids is not None:
            columns += segment.ids.lookup(found[1])
        return [exact(column) for column in columns]
    finally:
        segment.close()


def read_everything(path: Path, sample: SegmentSample) -> None:
    """Every other way into a file: all tables, all ids, one query, the first match only, another distance."""
    segment = Segment(path)
    try:
        attempts: list[Any] = [
            lambda: search(segment.view, sample.queries[:1], 0),
            lambda: search(segment.view, sample.queries, PLAN.max_distance, first_only=True),
            lambda: segment.ids and segment.ids.read(0, segment.key_count),
            lambda: segment.ids and segment.ids.lookup(sample.stored[:20]),
            lambda: merged(segment, path.with_name("00000009.fpseg"), sample),
        ]
        attempts += [lambda table=table: drain(segment, table) for table in range(len(segment.tables))]
        for attempt in attempts:
            try:
                attempt()
            except CorruptStore:
                continue
    finally:
        segment.close()


def drain(segment: Segment, table: int) -> None:
    for _ in segment.keys(table):
        pass


def merged(segment: Segment, path: Path, sample: SegmentSample) -> None:
    """Merge the segment with itself, one of its fingerprints removed; one with other tables is refused."""
    removals = Removals.none().with_fingerprints(sample.stored[3:4], 1)
    with_ids = segment.ids is not None
    if [table.prefix_mask for table in segment.tables] == [table.prefix_mask for table in PLAN.tables]:
        parts = [Live(segment, position, removals) for position in (1, 2)]
        merge_segments(path, parts, sample.codec, PLAN, with_ids)
        path.unlink()


# Edits: (the whole file, rng) -> other bytes.


def edited(data: bytes, rng: np.random.Generator) -> bytes:
    """One random edit of several bytes, of the kinds that disks and programs make."""
    changed = bytearray(data)
    size = len(data)
    kind = int(rng.integers(0, 8))
    at = int(rng.integers(0, size))
    if kind == 0:
        for offset in rng.integers(0, size, int(rng.integers(1, 9))):
            changed[offset] ^= int(rng.integers(1, 256))
    elif kind == 1:
        run = int(rng.integers(2, 200))
        changed[at : at + run] = rng.integers(0, 256, len(changed[at : at + run]), dtype=np.uint8).tobytes()
    elif kind == 2:
        start = at // SECTOR_BYTES * SECTOR_BYTES
        changed[start : start + SECTOR_BYTES] = bytes(len(changed[start : start + SECTOR_BYTES]))
    elif kind == 3:
        unit = SECTOR_BYTES if size < 2 * PAGE_BYTES or rng.integers(0, 2) else PAGE_BYTES
        first, second = (int(page) * unit for page in rng.integers(0, max(1, size // unit), 2))
        changed[first : first + unit], changed[second : second + unit] = (
            data[second : second + unit],
            data[first : first + unit],
        )
    elif kind == 4:
        run, to = int(rng.integers(1, 300)), int(rng.integers(0, size))
        piece = data[at : at + run]
        changed[to : to + len(piece)] = piece
    elif kind == 5:
        changed = changed[:at] + changed[at + int(rng.integers(1, 100)) :]
    elif kind == 6:
        changed[at:at] = data[at : at + int(rng.integers(1, 100))]
    else:
        keep = int(rng.integers(0, size))
        changed[keep:] = bytes(size - keep) if rng.integers(0, 2) else data[: size - keep]
    return bytes(changed)


def edited_and_repaired(sample: SegmentSample, rng: np.random.Generator) -> bytes:
    """An edit that knows the format, under checksums that hold; the footer keeps its offsets."""
    data = sample.data
    footer = Footer.unpack(data[-FOOTER_BYTES:], len(data))
    summary = Summary.unpack(data[footer.summary_offset : footer.checksums_offset], footer)
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        region = summary.regions(footer)[int(rng.integers(0, len(summary.regions(footer))))]
        if region.offset >= footer.checksums_offset:
            continue
        at = region.offset + int(rng.integers(0, region.bytes))
        kind = int(rng.integers(0, 7))
        if kind == 0:
            changed[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            changed[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF]))
        elif kind == 2:
            changed[at : at + 8] = struct.pack("<Q", WORDS[int(rng.integers(0, len(WORDS)))])
        elif kind == 3:
            run = int(rng.integers(1, 64))
            changed[at : at + run] = rng.integers(0, 256, run, dtype=np.uint8).tobytes()
        elif kind == 4:
            changed[at : at + 64] = bytes([int(rng.integers(0, 2)) * 0xFF]) * 64
        elif kind == 5:
            mangle_record(changed, footer, summary, rng)
        else:
            mangle_directory(changed, summary, rng)
    return resealed(changed[: footer.checksums_offset] + data[footer.checksums_offset :])


def mangle_record(changed: bytearray, footer: Footer, summary: Summary, rng: np.random.Generator) -> None:
    """A plausible number in a field of a record, or another complete code."""
    table = int(rng.integers(0, len(summary.tables)))
    start = footer.summary_offset + 128 + 192 * table
    choice = int(rng.integers(0, 9))
    number = int(rng.integers(0, 64))
    if choice == 0:
        changed[start + 9] = number % 12  # slot_bits
    elif choice == 1 and summary.tables[table].codec == CODEC_RICE:
        changed[start + 10] = number
    elif choice == 2:
        changed[start + 12] = number  # flips
    elif choice == 3:
        struct.pack_into("<Q", changed, start, int(rng.integers(0, 1 << 64, dtype=np.uint64)))  # prefix_mask
    elif choice == 4:
        lengths = [0] * 65  # a code of one bit for one symbol, or of one for two
        # Symbols 0 and 1 have no further bits: the most keys for the fewest bits.
        first, second = (int(symbol) for symbol in rng.integers(0, (2, 65)[int(rng.integers(0, 2))], 2))
        lengths[first] = lengths[second] = 1
        changed[start + 56 : start + 56 + 65] = bytes(lengths)
    elif choice == 5:
        struct.pack_into("<Q", changed, start + 24, max(0, summary.tables[table].payload_bits - number))
    elif choice == 6:
        if summary.tables[table].block_bytes:
            struct.pack_into("<I", changed, start + 124, 64 + number)  # block_bytes
        else:
            struct.pack_into("<Q", changed, start + 48, number)  # fence_count
    elif choice == 7:
        struct.pack_into("<Q", changed, footer.summary_offset + 8, summary.segment.key_count + number - 32)
    else:
        struct.pack_into("<Q", changed, footer.summary_offset + 40, int(rng.integers(0, 1 << 63)))  # id_base


def mangle_directory(changed: bytearray, summary: Summary, rng: np.random.Generator) -> None:
    """Longer blocks, blocks elsewhere in the payload, large slots that are not, and fences likewise."""
    record = summary.tables[int(rng.integers(0, len(summary.tables)))]
    groups = -(-(1 << record.slot_bits) // GROUP_SLOTS)
    line = record.directory_offset + 32 * int(rng.integers(0, groups))
    choice = int(rng.integers(0, 5))
    if choice == 0:
        struct.pack_into("<Q", changed, line, int(rng.integers(0, record.payload_bits + 2)))
    elif choice == 1:
        ends = np.sort(rng.integers(0, min(65535, record.payload_bits) + 1, GROUP_SLOTS)).tolist()
        struct.pack_into("<12H", changed, line + 8, *ends)
    elif choice == 2:
        changed[line + 6 + int(rng.integers(0, 2))] ^= 1 << int(rng.integers(0, 8))
    elif record.fence_count:
        fence = record.fences_offset + 16 * int(rng.integers(0, record.fence_count))
        if choice == 3:
            start = int(rng.integers(0, record.payload_bits))
            bits = int(rng.integers(0, min(65536, record.payload_bits - start + 2)))
            struct.pack_into("<Q", changed, fence + 8, start | bits << 48)
        else:
            struct.pack_into("<Q", changed, fence, int(rng.integers(0, 1 << 64, dtype=np.uint64)))


def damages(sample: Sample, mode: str, numbers: range) -> Iterator[tuple[str, bytes]]:
    """The damaged files of these numbers of a mode, each with a name that says what was done."""
    for index in numbers:
        if mode == "bits":
            yield sample.bits(index)
        elif mode == "truncations":
            yield sample.cut(index)
        elif mode == "edits":
            yield f"edit {index}", sample.edited(np.random.default_rng([1, index]))
        elif mode == "repaired":
            assert isinstance(sample, FileSample)
            yield f"repaired edit {index}", sample.repaired(np.random.default_rng([2, index]))
        else:
            yield sample.others[index]


def check_range(sample: Sample, mode: str, numbers: range, folder: Path) -> tuple[Counter[str], list[str]]:
    """Use each damaged file: how often each outcome was, and what failed."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    path = sample.place(folder, f"{mode}-{numbers.start}")
    tracing = tracemalloc.is_tracing()
    tracemalloc.start()
    for name, damaged in damages(sample, mode, numbers):
        path.write_bytes(damaged)
        limit = MEMORY_FACTOR * len(damaged) + MEMORY_BYTES
        tracemalloc.reset_peak()
        started = time.monotonic()
        try:
            outcome = use_damaged(path, sample, mode)
        except Exception as error:
            outcome = "another exception"
            failures.append(f"{name}: {type(error).__name__}: {error}")
        outcomes[outcome] += 1
        if outcome == "ANSWER CHANGED":
            failures.append(f"{name}: the answer changed and nothing was said")
        if (peak := tracemalloc.get_traced_memory()[1]) > limit:
            failures.append(f"{name}: {peak} bytes allocated, expected at most {limit}")
        if (elapsed := time.monotonic() - started) > SECONDS_FOR_ONE:
            failures.append(f"{name}: took {elapsed:.1f} s")
    if not tracing:
        tracemalloc.stop()
    path.unlink(missing_ok=True)
    return outcomes, failures


def use_damaged(path: Path, sample: Sample, mode: str) -> str:
    """What came of it, in words."""
    try:
        answer = sample.answer_of(path)
        outcome = "answer unchanged" if answer == sample.answer else "ANSWER CHANGED"
        if answer != sample.answer and (mode == "repaired" or (mode == "replaced" and answer in sample.also)):
            outcome = "another answer"
    except CorruptStore:
        outcome = "CorruptStore"
    except UnsupportedVersion:
        # Only a file whose checksums hold may claim to be newer.
        if mode != "repaired":
            raise
        outcome = "UnsupportedVersion"
    if mode == "repaired":
        try:
            assert isinstance(sample, FileSample)
            sample.read_everything(path)
        except (CorruptStore, UnsupportedVersion):
            return outcome
    return outcome
