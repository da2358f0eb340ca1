"""Ways to damage a segment file, and what may come of using it: an error, or the answer as before.

For tests/test_damage.py and, at full length, tools/check_damage.py.
"""

import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
from fpstore.segment.reader import Segment
from fpstore.types import Keys

SECTOR_BYTES = 512
# The most that one use of a file may allocate: a multiple of its size, and what a search and a cursor take at most.
MEMORY_FACTOR = 64
MEMORY_BYTES = 16 << 20
SECONDS_FOR_ONE = 20
PLAN = plans.flips(2, (1, 1), 3)
SLOT_BITS = 5
WORDS = (0, 1, 64, 1 << 32, (1 << 48) - 1, (1 << 64) - 1)  # at the edges of what a field may hold
MODES = ("bits", "truncations", "edits", "repaired")


@dataclass
class Sample:
    """A whole segment file, what is asked of it, and how it answers."""

    codec: str
    with_ids: bool
    data: bytes
    queries: Keys
    stored: Keys
    answer: list[list[int]]


def make_sample(folder: Path, codec: str, with_ids: bool, count: int = 260) -> Sample:
    """Some hundred fingerprints in 32 slots, among them one large slot, some with several ids."""
    rng = np.random.default_rng(11)
    # Rice keys of one prefix: 5,461 bits are more than 128 of them take, so the large slot has several fences.
    stored = distinct(np.concatenate([uniform(count // 2, rng), one_prefix(count // 2 + 60, rng)]))
    queries = queries_near(stored, PLAN.max_distance, 40, rng)
    documents = np.concatenate([stored, stored[::5]])
    pairs = (documents, np.arange(len(documents), dtype=np.uint64)) if with_ids else None
    path = write_segment(folder / f"{codec}-{with_ids}", stored, PLAN, codec=codec, slot_bits=SLOT_BITS, pairs=pairs)
    sample = Sample(codec, with_ids, path.read_bytes(), queries, stored, [])
    sample.answer = answer_of(path, sample)
    path.unlink()
    return sample


def answer_of(path: Path, sample: Sample) -> list[list[int]]:
    """Open the file, probe it and read ids: everything that a store does with it."""
    segment = Segment(path)
    try:
        found = search(segment.view, sample.queries, PLAN.max_distance)
        columns = [*found]
        if segment.ids is not None:
            columns += segment.ids.lookup(found[1])
        return [column.tolist() for column in columns]
    finally:
        segment.close()


def read_everything(path: Path, sample: Sample) -> None:
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


def merged(segment: Segment, path: Path, sample: Sample) -> None:
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


def edited_and_repaired(sample: Sample, rng: np.random.Generator) -> bytes:
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
    data = sample.data
    for index in numbers:
        if mode == "bits":
            offset, what = divmod(index, 10)
            byte = (data[offset] ^ (1 << what)) if what < 8 else (0x00, 0xFF)[what - 8]
            yield f"byte {offset} set to {byte:#04x}", data[:offset] + bytes([byte]) + data[offset + 1 :]
        elif mode == "truncations":
            yield f"cut to {index} bytes", data[:index]
        elif mode == "edits":
            yield f"edit {index}", edited(data, np.random.default_rng([1, index]))
        else:
            yield f"repaired edit {index}", edited_and_repaired(sample, np.random.default_rng([2, index]))


def damage_count(sample: Sample, mode: str, edits: int) -> int:
    """How many damaged files a mode has."""
    return {"bits": 10 * len(sample.data), "truncations": len(sample.data)}.get(mode, edits)


def check_range(sample: Sample, mode: str, numbers: range, folder: Path) -> tuple[Counter[str], list[str]]:
    """Use each damaged file: how often each outcome was, and what failed."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    path = folder / f"{sample.codec}-{sample.with_ids}-{mode}-{numbers.start}"
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
        answer = answer_of(path, sample)
        outcome = "answer unchanged" if answer == sample.answer else "ANSWER CHANGED"
        if mode == "repaired" and answer != sample.answer:
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
            read_everything(path, sample)
        except (CorruptStore, UnsupportedVersion):
            return outcome
    return outcome
