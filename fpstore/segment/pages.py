"""Which pages of a segment do not have their checksums, read anew whoever has checked them before.

Names every region that a damaged page holds bytes of, as nobody can tell which of these bytes are wrong.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fpstore import format as layout
from fpstore._codec import crc32c, page_checksums
from fpstore.errors import CorruptStore, Damage
from fpstore.format import Footer, Region
from fpstore.progress import Tell
from fpstore.segment.reader import Segment

# Bytes whose checksums fill one page of checksums: a step.
STEP_BYTES = layout.PAGE_BYTES // layout.CRC_BYTES * layout.PAGE_BYTES


def check_ahead(segment: Segment, tables: range) -> None:
    """Check every page of these tables and of the ids, those excepted that were checked before. Raises CorruptStore."""
    for region in segment.regions():
        if region.table in tables or region.name in ("codes", "id groups", "id values"):
            for start in range(region.offset, region.offset + region.bytes, STEP_BYTES):
                end = min(start + STEP_BYTES, region.offset + region.bytes)
                with segment.naming, near(segment, start, end):
                    segment.view.check(start, end, region_name(region))


class HasRegions(Protocol):
    """A segment, sound or not."""

    def regions(self) -> tuple[Region, ...]:
        """Every byte of it, in order."""
        ...


@dataclass(frozen=True)
class PageDamage:
    """What is wrong, in the order of the file, and the bytes [start, end) that cannot be trusted for it."""

    damage: tuple[Damage, ...]
    stretches: tuple[tuple[int, int], ...]

    def spares(self, region: Region) -> bool:
        """Whether no byte of the region lies in a damaged page."""
        end = region.offset + region.bytes
        return not any(start < end and region.offset < stop for start, stop in self.stretches)


def fault(where: str, found: object, expected: object) -> CorruptStore:
    """The error to raise for damage to one place."""
    error = CorruptStore(where, found, expected)
    error.damage = (Damage("", where, str(found), str(expected)),)
    return error


def region_name(region: Region) -> str:
    """What a region is called in a message."""
    return region.name if region.table is None else f"table {region.table} {region.name}"


def regions_in(segment: HasRegions, start: int, end: int) -> list[str]:
    """The regions that bytes [start, end) belong to; padding only where there is nothing else."""
    inside = [r for r in segment.regions() if r.offset < end and start < r.offset + r.bytes]
    return [region_name(region) for region in inside if region.name != "padding"] or ["padding"]


def check_pages(segment: Segment, advance: Tell) -> PageDamage:
    """Compare every page with its checksum. CorruptStore where the file has another end than it had.

    advance gets the phase "verify checksums", in bytes.
    """
    size = segment.size_now()
    if size != segment.file_bytes:
        raise fault("file", f"{size} bytes", f"{segment.file_bytes} as when it was opened")
    footer = Footer.unpack(segment.read(segment.footer.footer_offset, layout.FOOTER_BYTES), size)
    roots = segment.read(footer.roots_offset, footer.footer_offset - footer.roots_offset)
    if crc32c(roots) != footer.roots_crc:
        raise fault("roots, checksum", f"{crc32c(roots):#010x}", f"{footer.roots_crc:#010x}")
    damage: list[Damage] = []
    stretches: list[tuple[int, int]] = []
    run: list[tuple[int, int, int]] = []  # of damaged pages: where, found, expected
    for step, root in enumerate(np.frombuffer(roots, dtype="<u4").tolist()):
        offset = footer.checksums_offset + step * layout.PAGE_BYTES
        sums = segment.read(offset, min(layout.PAGE_BYTES, footer.roots_offset - offset))
        start = step * STEP_BYTES
        end = min(start + STEP_BYTES, footer.checksums_offset)
        if crc32c(sums) != root:
            where = f"checksums, page at byte {offset}, checksum"
            damage.append(Damage("", where, f"{crc32c(sums):#010x}", f"{root:#010x}"))
            stretches.append((start, end))  # there may be damage in it, or none
            continue
        with near(segment, start, end):
            found = page_checksums(segment.read(start, end - start))
        expected = np.frombuffer(sums, dtype="<u4")
        for page in np.flatnonzero(found != expected).tolist():
            here = start + page * layout.PAGE_BYTES
            if run and (here != run[-1][0] + layout.PAGE_BYTES or _begins_in(segment, here, run[0][0])):
                damage.append(_run_damage(segment, run))
                run = []
            run.append((here, int(found[page]), int(expected[page])))
            stretches.append((here, min(here + layout.PAGE_BYTES, end)))
        advance("verify checksums", end, footer.checksums_offset)
    if run:
        damage.append(_run_damage(segment, run))
    return PageDamage(tuple(damage), tuple(stretches))


def _begins_in(segment: Segment, offset: int, first: int) -> bool:
    """Whether a page begins in another region than the first of a run."""
    return regions_in(segment, offset, offset + 1) != regions_in(segment, first, first + 1)


def _run_damage(segment: Segment, run: list[tuple[int, int, int]]) -> Damage:
    first, found, expected = run[0]
    end = min(run[-1][0] + layout.PAGE_BYTES, segment.footer.checksums_offset)
    which = f"page at byte {first}" if len(run) == 1 else f"{len(run)} pages from byte {first}"
    names = " and ".join(regions_in(segment, first, end))
    return Damage("", f"{names}, {which}, checksum", f"{found:#010x}", f"{expected:#010x}")


@contextmanager
def near(segment: Segment, start: int, end: int) -> Iterator[None]:
    """Bytes [start, end) are read once, now.

    The segment is mapped for random access, which would read a cold file page by page; and the pages touched would
    count as this process's memory.
    """
    start = start // mmap.PAGESIZE * mmap.PAGESIZE
    if start < end:
        segment.read_ahead(start, end)
    yield
    if start < end:
        segment.forget(start, end)
