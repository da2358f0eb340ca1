"""From rows of wide codes, in any order and of any number, to a segment."""

from contextlib import closing
from pathlib import Path

from fpstore.building.options import BuildOptions
from fpstore.building.rows import OTHER_MEMORY, Write, Written, write_segment
from fpstore.building.sources import Source
from fpstore.codes.sorting import groups_of
from fpstore.codes.writer import CodesWriter, Encoder
from fpstore.disk import Place
from fpstore.fingerprints import words_of
from fpstore.format import WIDE_BITS
from fpstore.progress import Tell


def write_of(bits: int) -> Write:
    """What writes a segment of fingerprints of so many bits."""
    return write_codes if bits in WIDE_BITS else write_segment


def write_codes(
    at: Path | Place, scratch: Path, source: Source, options: BuildOptions, report: Tell, position: int = 1
) -> Written:
    """Write a segment of the source's rows there, as write_segment does of narrower fingerprints."""
    memory = options.memory_bytes - OTHER_MEMORY
    report("reading", 0, None)

    def told(count: int) -> None:
        report("reading", count, None)

    words = words_of(options.choice.bits)
    with closing(groups_of(iter(source), words, options.with_ids, scratch, memory, told)) as groups:
        report("sorting", groups.count, None)
        plan = options.choice.for_count(groups.count)
        with CodesWriter(at, groups, plan, Encoder(groups, plan, scratch, memory)) as writer:
            entry = writer.write(report, position)
    return Written(plan, entry, groups.most if entry.id_count else None)
