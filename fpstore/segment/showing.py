"""What a segment, one of its tables, and a slot hold, as plain values for people who look.

Of a segment that is sound, or of what can be read of one that is not. What is found to be damaged is noted, and what
follows shown as it lies.
"""

import dataclasses
import errno
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fpstore import format as layout
from fpstore._codec import crc32c
from fpstore.checks import hexadecimal
from fpstore.errors import CorruptStore, NotAStore, UnsupportedVersion
from fpstore.format import CODECS, Footer, Region
from fpstore.huffman import canonical_codes
from fpstore.plans.permutation import Permutation
from fpstore.progress import Tell
from fpstore.segment.pages import check_pages, region_name
from fpstore.segment.reader import Segment
from fpstore.segment.slots import SlotBlocks, slot_count, used_slots
from fpstore.segment.wreck import AnyWreck, Wreck

PIECE_BYTES = 1 << 20
ID_KINDS = ("none", "one for each key", "many for each key")

Fields = dict[str, Any]
# What is said of the store, and not of the machine, or of who has it open.
DAMAGE = (CorruptStore, NotAStore, UnsupportedVersion)


@dataclass
class Inspection:
    """What was seen. of: store, segment, table or slot. fields: plain values by name; a list, which may be cut, stands
    behind its length: `keys` behind `key_count`. damage: what is wrong, a sentence each.
    """

    of: str
    fields: Fields
    damage: list[str] = field(default_factory=list)

    def to_json(self) -> Fields:
        """Plain values, by name."""
        return {"of": self.of, **self.fields, "damage": self.damage}

    def put(self, name: str, rows: Iterable[Fields], count: int, most: int | None) -> None:
        """A list, of this name in the plural: its length, and the first rows of it."""
        self.fields[f"{name.removesuffix('s')}_count"] = count
        self.fields[name] = list(itertools.islice(rows, most))

    @contextmanager
    def noting(self) -> Iterator[None]:
        """A context in which what is found to be damaged is noted, and the rest of the block left out."""
        try:
            yield
        except DAMAGE as error:
            self.damage.append(told_damage(error))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EIO):
                raise
            self.damage.append(told_damage(error))


def show_segment(seen: Inspection, found: Segment | AnyWreck, most: int | None, tell: Tell) -> None:
    """The header, the records and the regions of a segment; reads all of its pages."""
    seen.fields |= {
        "header": header_fields(found.read(0, layout.HEADER_BYTES)),
        "footer": footer_fields(found.footer),
        "record": plain_fields(found.record),
    }
    tables = (_table_row(found, index) for index in range(len(found.tables)))
    seen.put("tables", tables, len(found.tables), most)
    spares: Callable[[int, int], bool] | None = found.is_sound if isinstance(found, AnyWreck) else None
    if isinstance(found, Segment):
        with seen.noting():
            pages = check_pages(found, tell)
            seen.damage += [f"{found.path}: {each.line}" for each in pages.damage]
            spares = partial(_spared, pages.stretches)

    regions = found.regions()
    rows = (_region_row(found, region, spares) for region in regions)
    seen.put("regions", rows, len(regions), most)


def show_table(seen: Inspection, found: Segment | Wreck, table: int, most: int | None) -> None:
    """A table: its permutation, its code, its regions and its slots. ValueError for one that is not there."""
    record = expect_table(found, table)
    regions = table_regions(found, table)
    words = canonical_codes(record.code_lengths)
    seen.fields |= {
        "table": table,
        "codec": CODECS[record.codec],
        **prefix_fields(record.prefix_mask, record.key_bits, record.flips),
        # Of the bits of a fingerprint, 0 the lowest: which come first in a key.
        "key_is_bits": _runs(record.prefix_mask, record.key_bits),
        "slot_bits": record.slot_bits,
        "block_bytes": record.block_bytes,
        "key_count": found.record.key_count,
        "rice_bits": record.rice_bits,
        "payload_bits": record.payload_bits,
        "fence_count": record.fence_count,
        "regions": places_of(regions),
        "code": {
            str(symbol): f"{words[symbol]:0{length}b}" for symbol, length in enumerate(record.code_lengths) if length
        },
    }
    for region in regions.values():
        with seen.noting():
            check_shown(found, region.offset, region.offset + region.bytes, region_name(region))
    shown: list[int] = []
    used, large, fullest = 0, 0, 0
    for slot, bits, is_large in used_slots(found, table):
        if most is None or used < most:
            shown.append(slot)
        used, large, fullest = used + 1, large + is_large, max(fullest, bits)
    blocks = used - large + record.fence_count
    large = 0 if record.block_bytes else large
    seen.fields |= {"block_count": blocks, "large_slot_count": large, "inline_bits_most": fullest}
    seen.put("used_slots", (_slot_row(found, table, slot, seen) for slot in shown), used, most)


def show_slot(seen: Inspection, found: Segment | Wreck, table: int, slot: int, most: int | None) -> None:
    """The keys of a slot: each with its code as bits, what was coded, its fingerprint and its ids.

    ValueError for a table or a slot that is not there.
    """
    record = expect_table(found, table)
    blocks = SlotBlocks(found, table, slot)
    seen.fields |= {
        "table": table,
        "slot": slot,
        "slot_count": slot_count(record),
        "codec": CODECS[record.codec],
        "lowest_key": hexadecimal(blocks.lowest_key, record.key_bits),
        "is_large": blocks.is_large,
    }
    line = record.directory_offset + slot // layout.GROUP_SLOTS * layout.DIRECTORY_LINE_BYTES
    if not record.block_bytes:
        with seen.noting():
            check_shown(found, line, line + layout.DIRECTORY_LINE_BYTES, f"table {table} directory")
    rows = (_block_row(found, table, blocks, index, seen) for index in range(len(blocks)))
    seen.put("blocks", rows, len(blocks), most)
    keys = _coded(found, table, blocks, seen)
    count = _key_count(blocks, seen)
    shown = list(itertools.islice(keys, most))
    seen.put("keys", _with_ids(found, shown, most, seen), count, most)


def plain_fields(record: Any) -> Fields:
    """The fields of a record, checksums as hex digits."""
    fields = {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    if "crc" in fields:
        fields["crc"] = f"{fields['crc']:08x}"
    if "id_kind" in fields:
        fields["id_kind"] = ID_KINDS[fields["id_kind"]]
    if "names" in fields:
        fields["names"] = [plain_fields(file) for file in fields["names"]]
    if fields.get("sketches") is not None:
        fields["sketches"] = plain_fields(fields["sketches"])
    return fields


def header_fields(data: bytes) -> Fields:
    """What the bytes of a header say, right or wrong."""
    return {
        "magic": data[:8].decode("latin-1").strip(),
        "version": int.from_bytes(data[8:12], "little"),
        "kind": int.from_bytes(data[12:16], "little"),
    }


def prefix_fields(mask: int, bits: int, flips: int) -> Fields:
    """Which of so many bits a table is probed by."""
    return {"prefix_mask": hexadecimal(mask, bits), "prefix_bits": mask.bit_count(), "flips": flips}


def table_regions(found: Segment | AnyWreck, table: int) -> dict[str, Region]:
    """The regions of a table, by name."""
    return {region.name: region for region in found.regions() if region.table == table}


def places_of(regions: dict[str, Region]) -> Fields:
    """Where regions lie, by name."""
    return {name: {"offset": each.offset, "size_bytes": each.bytes} for name, each in regions.items()}


def footer_fields(footer: Footer) -> Fields:
    """What a footer says."""
    return {**plain_fields(footer), "roots_crc": f"{footer.roots_crc:08x}"}


def told_damage(error: Exception) -> str:
    """An error in one sentence, with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)


def check_shown(found: Segment | AnyWreck, start: int, end: int, where: str) -> None:
    """CorruptStore where a page of these bytes has not its checksum."""
    if isinstance(found, Segment):
        with found.naming:
            found.view.check(start, end, where)
    elif start < end and not found.is_sound(start, end):
        raise CorruptStore(
            where, f"bytes {start} to {end} in a damaged page", "sound ones", note="they are shown as they lie"
        )


def expect_table(found: Segment | AnyWreck, table: int) -> layout.TableRecord:
    """The record of a table. ValueError for one that is not there."""
    if not 0 <= table < len(found.tables):
        raise ValueError(f"table: found {table}, expected 0..{len(found.tables) - 1}")
    return found.tables[table]


def _spared(stretches: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    return not any(first < end and start < last for first, last in stretches)


def _table_row(found: Segment | AnyWreck, index: int) -> Fields:
    record = found.tables[index]
    return {
        "table": index,
        **prefix_fields(record.prefix_mask, record.key_bits, record.flips),
        "slot_bits": record.slot_bits,
        "fence_count": record.fence_count,
        "size_bytes": sum(each.bytes for each in found.regions() if each.table == index),
    }


def _region_row(found: Segment | AnyWreck, region: Region, spares: Callable[[int, int], bool] | None) -> Fields:
    end = region.offset + region.bytes
    crc = 0
    for start in range(region.offset, end, PIECE_BYTES):
        crc = crc32c(found.read(start, min(PIECE_BYTES, end - start)), crc)
    return {
        "region": region_name(region),
        "offset": region.offset,
        "size_bytes": region.bytes,
        "crc32c": f"{crc:08x}",
        "pages": f"{region.offset // layout.PAGE_BYTES}..{(end - 1) // layout.PAGE_BYTES}",
        "sound": None if spares is None else bool(spares(region.offset, end)),
    }


def _slot_row(found: Segment | Wreck, table: int, slot: int, seen: Inspection) -> Fields:
    row: Fields = {"slot": slot, "block_count": None, "bits": None, "key_count": None}
    with seen.noting():
        blocks = SlotBlocks(found, table, slot)
        row |= {"block_count": len(blocks), "bits": _bits_of(blocks), "key_count": _key_count(blocks, seen)}
    return row


def _block_row(found: Segment | Wreck, table: int, blocks: SlotBlocks, index: int, seen: Inspection) -> Fields:
    row: Fields = {"block": index, "first_bit": None, "bits": None, "fence": None, "last_key": None}
    with seen.noting():
        block = blocks[index]
        last = None if block.last_key is None else hexadecimal(block.last_key, blocks.record.key_bits)
        row |= {"first_bit": block.first_bit, "bits": block.bits, "fence": block.fence, "last_key": last}
        start = blocks.record.payload_offset + block.first_bit // 8
        end = blocks.record.payload_offset - (-(block.first_bit + block.bits) // 8)
        check_shown(found, start, end, f"table {table} payload")
        if block.fence is not None:
            fence = blocks.record.fences_offset + block.fence * layout.FENCE_BYTES
            check_shown(found, fence, fence + layout.FENCE_BYTES, f"table {table} fences")
    return row


def _coded(found: Segment | Wreck, table: int, blocks: SlotBlocks, seen: Inspection) -> Iterator[Fields]:
    permutation = Permutation(found.tables[table].prefix_mask, found.tables[table].key_bits)
    for index in range(len(blocks)):
        with seen.noting():
            for key, delta, code in blocks.keys(index):
                fingerprint = int(permutation.invert(np.array([key], dtype=np.uint64))[0])
                keys = {
                    "key": hexadecimal(key, permutation.bits),
                    "fingerprint": hexadecimal(fingerprint, permutation.bits),
                }
                yield {"block": index, **keys, "delta": f"{delta:x}", "code": code}


def _with_ids(found: Segment | Wreck, keys: Sequence[Fields], most: int | None, seen: Inspection) -> Sequence[Fields]:
    """The same, each with the first ids of its fingerprint in this segment, where it has any and they can be read."""
    if isinstance(found, Segment) and found.ids is not None:
        for key in keys:
            key |= {"id_count": None, "ids": None}
            with seen.noting(), found.naming:
                firsts, counts = found.ids.ranges(np.array([int(key["fingerprint"], 16)], dtype=np.uint64))
                some = np.minimum(counts, counts if most is None else np.full_like(counts, most))
                ids = [str(each) for each in found.ids.values(firsts, some).tolist()]
                key |= {"id_count": int(counts[0]), "ids": ids}
    return keys


def _key_count(blocks: SlotBlocks, seen: Inspection) -> int:
    """How many keys a slot has: all blocks but the last are full."""
    count = 0
    with seen.noting():
        if len(blocks) == 1:
            count = sum(1 for _ in blocks.keys(0))
        elif len(blocks):
            count = (len(blocks) - 1) * layout.MAX_BLOCK_KEYS + sum(1 for _ in blocks.keys(len(blocks) - 1))
    return count


def _bits_of(blocks: SlotBlocks) -> int:
    """Of all its blocks; they follow each other."""
    if not len(blocks):
        return 0
    first, last = blocks[0], blocks[len(blocks) - 1]
    return last.first_bit + last.bits - first.first_bit


def _runs(mask: int, bits: int) -> str:
    """The bits of a key, from the highest on, as runs of bits of the fingerprint."""
    positions = range(bits - 1, -1, -1)
    order = [bit for bit in positions if mask >> bit & 1] + [bit for bit in positions if not mask >> bit & 1]
    runs: list[list[int]] = []
    for bit in order:
        if runs and runs[-1][-1] == bit + 1:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
