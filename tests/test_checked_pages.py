"""A search believes no page that it has not checked: of directory lines, of fences, and of all that a block lies in.

Of a file all pages are checked but one, which is damaged: who uses that says so, in whatever way a block, a line or a
fence lies in it. Whether what it holds would decode is chance, and not asked.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from helpers import CODECS, distinct, resealed, uniform

import fpstore
from fpstore._probe import nearest, search, search_each
from fpstore.errors import CorruptStore
from fpstore.format import (
    FENCE,
    FENCE_BYTES,
    FOOTER_BYTES,
    GROUP_SLOTS,
    LINE,
    PAGE_BYTES,
    PAYLOAD_OFFSET_BITS,
    PAYLOAD_OFFSET_MASK,
    Footer,
    directory_bytes,
)
from fpstore.plans import families as plans
from fpstore.segment.reader import Segment
from fpstore.types import Keys

SLOT_BITS = 13
SLOT_KEYS = 12
LARGE_SLOT = 700
LARGE_KEYS = 60_000  # their fences have more than a page
OTHERS = 600
MOST_BITS = (1 << 16) - 1  # that a fence can give a block
IN_SLOTS = {"line", "fence", "first", "last", "first of a large slot", "last of a large slot"}
LONG = {"middle"}
IN_BLOCKS = {"fence", "first of a large slot", "last of a large slot"}


@dataclass
class Sample:
    """A store of one table and its keys: those of slots, with flips, or of blocks. One slot is large."""

    path: Path
    keys: Keys
    flips: int

    def __post_init__(self) -> None:
        (self.segment,) = (self.path / "segments").iterdir()
        self.data = self.segment.read_bytes()
        segment = Segment(self.segment)
        (self.table,) = segment.tables
        segment.close()
        footer = Footer.unpack(self.data[-FOOTER_BYTES:], len(self.data))
        self.new = {*range(1, footer.summary_offset // PAGE_BYTES)}  # the others are checked where a file is opened
        self.lines = np.frombuffer(
            self.data, LINE, -(-(1 << SLOT_BITS) // GROUP_SLOTS) * (not self.in_blocks), self.table.directory_offset
        )
        self.fences = np.frombuffer(self.data, FENCE, self.table.fence_count, self.table.fences_offset)

    @property
    def in_blocks(self) -> bool:
        return self.table.block_bytes > 0

    def pages(self, key: int) -> dict[str, set[int]]:
        """Pages that tell of the block in which a key would lie, and those of the block: what each is to it."""
        found: dict[str, set[int]] = {}
        group, index = divmod(key >> self.table.slot_shift, GROUP_SLOTS)
        large, kind = self.in_blocks, ""
        if not large:
            word, ends = int(self.lines["word"][group]), self.lines["ends"][group]
            found["line"] = {(self.table.directory_offset + LINE.itemsize * group) // PAGE_BYTES}
            large = bool(word >> (PAYLOAD_OFFSET_BITS + index) & 1)
            begin = word & int(PAYLOAD_OFFSET_MASK)
            start, end = begin + (int(ends[index - 1]) if index else 0), begin + int(ends[index])
        if large:
            fence = int(np.searchsorted(self.fences["last_key"], np.uint64(key)))
            if fence == len(self.fences):
                return found
            found["fence"] = {(self.table.fences_offset + FENCE_BYTES * fence) // PAGE_BYTES}
            word = int(self.fences["word"][fence])
            start, kind = word & int(PAYLOAD_OFFSET_MASK), " of a large slot"
            end = start + (word >> PAYLOAD_OFFSET_BITS)
        if end > start:
            first, last = ((8 * self.table.payload_offset + bit) // 8 // PAGE_BYTES for bit in (start, end - 1))
            found["first" + kind] = {first}
            found["last" + kind] = {last} - {first}
            found["middle"] = {*range(first + 1, last)}
        return found

    def targets(self, whats: set[str]) -> Iterator[tuple[str, int, int]]:
        """What a page is to a block, the page, and a query that needs it for that alone: of each kind two, or all."""
        left = dict.fromkeys(whats, 1 if whats == LONG else 2)
        taken: set[int] = set()
        rng = np.random.default_rng(6)
        large = self.keys[self.keys >> np.uint64(64 - SLOT_BITS) == LARGE_SLOT]
        some = rng.permutation(np.concatenate([rng.choice(large, 10_000), rng.choice(self.keys, 20_000)]))
        for key in (int(large[-1]), *some.tolist()):  # the first is in the last block of the large slot
            flips = [1 << (63 - bit) for bit in range(SLOT_BITS)] if self.flips else []
            query = key ^ flips[int(rng.integers(SLOT_BITS))] if self.flips else key
            own = self.pages(key)
            wanted = [(what, page) for what in own if left.get(what) for page in (own[what] & self.new) - taken]
            if not wanted:
                continue
            rest = [self.pages(slot) for slot in (query, *(query ^ flip for flip in flips)) if slot != key]
            ((what, page), *_) = wanted
            if not any(page in of[other] for of in (*rest, {**own, what: set()}) for other in of):
                left[what] -= 1
                taken.add(page)
                yield what, page, query
            if not any(left.values()):
                return
        raise AssertionError(f"not found: {left}")


def make(folder: Path, codec: str, flips: int, layout: str) -> Sample:
    rng = np.random.default_rng(31)
    near = uniform(LARGE_KEYS, rng) >> np.uint64(SLOT_BITS) | np.uint64(LARGE_SLOT << (64 - SLOT_BITS))
    keys = distinct(np.concatenate([uniform(SLOT_KEYS << SLOT_BITS, rng), near]))
    plan = replace(plans.flips(1, (flips,), flips), slot_keys=SLOT_KEYS)
    path = folder / f"{codec}-{flips}-{layout}"
    fpstore.build(path, keys, ids=None, max_distance=flips, plan=plan, codec=codec, layout=layout, threads=1).close()  # type: ignore[arg-type]
    sample = Sample(path, keys, flips)
    assert sample.in_blocks or sample.table.slot_bits == SLOT_BITS
    assert sample.in_blocks or directory_bytes(SLOT_BITS) > PAGE_BYTES
    return sample


def with_a_long_block(sample: Sample) -> Sample:
    """The last block of the large slot goes on over the blocks behind it, under checksums that hold."""
    data = bytearray(sample.data)
    at = sample.table.fences_offset + FENCE_BYTES * (sample.table.fence_count - 1) + 8
    start = int(sample.fences["word"][-1] & PAYLOAD_OFFSET_MASK)
    data[at : at + 8] = (start | MOST_BITS << PAYLOAD_OFFSET_BITS).to_bytes(8, "little")
    sample.segment.write_bytes(resealed(data))
    return Sample(sample.path, sample.keys, sample.flips)


def check(sample: Sample, whats: set[str]) -> None:
    """Damage one page after the other, and ask for what needs it, in each way; whats: what the pages are to blocks."""
    for _, page, query in sample.targets(whats):
        data = bytearray(sample.data)
        data[page * PAGE_BYTES + 1234] ^= 16
        sample.segment.write_bytes(data)
        message = f"page at byte {page * PAGE_BYTES}: found bytes of another checksum"
        segment = Segment(sample.segment)
        check_segment(sample, segment, query, message)
        segment.close()
        if whats != LONG:  # of which no catalog tells
            with fpstore.open(sample.path) as store:
                store._segments[0].view.warm(0, segment.view.page_count)
                with pytest.raises(CorruptStore, match=message):
                    store.probe(query, max_distance=sample.flips)
    sample.segment.write_bytes(sample.data)


def check_segment(sample: Sample, segment: Segment, query: int, message: str) -> None:
    view, distance = segment.view, sample.flips
    view.warm(0, view.page_count)
    assert view.pages_seen == view.page_count - 1
    some = sample.keys[:: len(sample.keys) // OTHERS]
    some = some[[answers(segment, key, distance) for key in some]]
    assert len(some) > OTHERS // 20
    others, one = np.resize(some, OTHERS), np.array([query], dtype=np.uint64)
    ways: list[Callable[[], object]] = [
        lambda: search(view, one, distance),
        lambda: search(view, one, distance, first_only=True),
        lambda: nearest(view, one, distance),
        lambda: search(view, np.concatenate([others, one]), distance),
        lambda: search(view, np.concatenate([others, one, others]), distance),
        lambda: search(view, np.concatenate([one, others]), distance),
        lambda: search_each(view, np.concatenate([others[:9], one]), distance),
    ]
    for traced in [False, True] if sample.flips else [False]:
        if traced:
            view.note_traces(0, len(sample.keys), iter([sample.keys]))
        for way in ways:
            with pytest.raises(CorruptStore, match=message):
                way()
        assert len(search(view, others, distance)[0]) == len(others)


def answers(segment: Segment, key: np.uint64, distance: int) -> bool:
    try:
        search(segment.view, np.array([key]), distance)
    except CorruptStore:
        return False
    return True


def check_all(folder: Path, codec: str) -> None:
    for flips in (0, 1):
        sample = make(folder, codec, flips, "slots")
        check(sample, IN_SLOTS)
        check(with_a_long_block(sample), LONG)
    check(make(folder, codec, 0, "blocks"), IN_BLOCKS)


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_is_checked_whatever_it_is_to_a_block(tmp_path: Path, codec: str) -> None:
    check_all(tmp_path, codec)


@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE"])
def test_it_is_by_every_instruction_set(tmp_path: Path, setting: str) -> None:
    program = "import sys, pathlib, test_checked_pages as t; t.check_all(pathlib.Path(sys.argv[1]), 'gap')"
    environment = os.environ | {setting: "1"}
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, env=environment, cwd=Path(__file__).parent)
