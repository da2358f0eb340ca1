"""Verifying wide codes: what a plain reading of the file by docs/format.md finds wrong is found, and nothing else."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers import resealed

import fpstore
from fpstore.codes.layout import top_of
from fpstore.codes.reader import CodesSegment
from fpstore.codes.verify import verify_codes
from fpstore.disk import Folder, Place
from fpstore.errors import CorruptStore
from fpstore.plans.plan import Plan

PLAN = {bits: replace(Plan.named("flips-3:1,2,1", max_distance=6, bits=bits), slot_keys=3) for bits in (128, 256)}
COUNT = 50


def codes_of(bits: int) -> np.ndarray:
    """Some share their first words, others all but the last bits."""
    random = np.random.default_rng(bits)
    codes = random.integers(0, 1 << 64, size=(COUNT, bits // 64), dtype=np.uint64)
    codes[: COUNT // 2, 0] = 7
    codes[::5] = codes[0]
    codes[::5, -1] = np.arange(COUNT // 5)
    return codes


def fields(data: bytes, offset: int, width: int, count: int) -> list[int]:
    """So many fields of so many bits, the lowest first."""
    number = int.from_bytes(data[offset : offset + (width * count + 7) // 8], "little")
    return [number >> (width * i) & ((1 << width) - 1) for i in range(count)]


def put(data: bytes, offset: int, width: int, index: int, value: int) -> bytes:
    """The same with another field."""
    first, last = offset + width * index // 8, offset + (width * (index + 1) + 7) // 8
    shift = width * index % 8
    number = int.from_bytes(data[first:last], "little") & ~(((1 << width) - 1) << shift) | value << shift
    return data[:first] + number.to_bytes(last - first, "little") + data[last:]


def is_sound(data: bytes, segment: CodesSegment) -> bool:
    """Whether codes and tables are what the format says, and zeros lie between them."""
    record, there = segment.record, bytearray(len(data))
    for region in segment.regions():
        there[region.offset : region.offset + region.bytes] = bytes([region.name != "padding"]) * region.bytes
    size = record.code_bytes
    rows = [data[record.codes_offset + i * size : record.codes_offset + (i + 1) * size] for i in range(COUNT)]
    codes = [int.from_bytes(np.frombuffer(row, "<u8").astype(">u8").tobytes(), "big") for row in rows]
    sound = all(one < other for one, other in pairwise(codes))
    for table in segment.tables:
        mask = top_of(table.prefix_mask, table.slot_bits + table.tag_bits)
        bits = [bit for bit in reversed(range(record.key_bits)) if mask >> bit & 1]
        keys = [int("".join(str(code >> bit & 1) for bit in bits), 2) for code in codes]
        entries = [*zip(keys, range(COUNT), strict=True)]
        if not table.in_order:
            found = fields(data, table.entries_offset, table.entry_bits, COUNT)
            end = table.entries_offset * 8 + table.entry_bits * COUNT
            sound = sound and (end % 8 == 0 or data[end // 8] >> end % 8 == 0)
            sound = sound and all(entry >> table.tag_bits < COUNT for entry in found)
            entries = [(keys[(entry >> table.tag_bits) % COUNT], entry >> table.tag_bits) for entry in found]
            tags = (1 << table.tag_bits) - 1
            sound = sound and all(key & tags == entry & tags for (key, _), entry in zip(entries, found, strict=True))
        slots = [key >> table.tag_bits for key, _ in entries]
        starts = fields(data, table.starts_offset, 8 * record.start_bytes, (1 << table.slot_bits) + 1)
        sound = sound and all(one < other for one, other in pairwise(entries))
        sound = sound and starts == [sum(own < slot for own in slots) for slot in range(len(starts))]
    return sound and not any(byte and not inside for byte, inside in zip(data, there, strict=True))


def changed_files(data: bytes, segment: CodesSegment) -> list[bytes]:
    """A bit inverted in some bytes of what the records point to; and codes, entries and starts that are moved."""
    random, record = np.random.default_rng(1), segment.record
    end = segment.footer.summary_offset
    found = [
        data[:at] + bytes([data[at] ^ 1 << int(random.integers(8))]) + data[at + 1 :]
        for at in range(record.codes_offset, end, 3 * record.words)
    ]
    moved = [(record.codes_offset, record.key_bits, COUNT)]
    for table in segment.tables:
        moved.append((table.starts_offset, 8 * record.start_bytes, (1 << table.slot_bits) + 1))
        if not table.in_order:
            moved.append((table.entries_offset, table.entry_bits, COUNT))
    for offset, width, count in moved:
        values = fields(data, offset, width, count)
        for i in range(count - 1):
            found.append(put(put(data, offset, width, i, values[i + 1]), offset, width, i + 1, values[i]))
            found.append(put(data, offset, width, i, values[i + 1]))
            found.append(put(data, offset, width, i + 1, min(values[i + 1] + 1, (1 << width) - 1)))
    return found


@pytest.mark.parametrize("bits", sorted(PLAN))
def test_verify_finds_just_what_the_format_does_not_allow(
    bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.codes.verify.PIECE_ENTRIES", 8)
    monkeypatch.setattr("fpstore.codes.reader.READ_CODES", 8)
    with fpstore.build(tmp_path / "s", codes_of(bits), ids=None, bits=bits, max_distance=6, plan=PLAN[bits]) as store:
        data = store._segments[0].path.read_bytes()
    path, verdicts = tmp_path / "00000001.fpseg", set()
    place = Place(Folder.open(tmp_path), path.name)
    path.write_bytes(data)
    segment = CodesSegment(place)
    assert is_sound(data, segment)
    for changed in changed_files(data, segment):
        path.write_bytes(resealed(changed))
        other, sound = CodesSegment(place), is_sound(changed, segment)
        try:
            verify_codes(other, PLAN[bits])
            found = True
        except CorruptStore:
            found = False
        assert found == sound
        verdicts.add(sound)
        other.close()
    assert verdicts == {True, False}
    path.write_bytes(data)
    other = CodesSegment(place)
    verify_codes(other, PLAN[bits])
    with pytest.raises(CorruptStore, match="flips"):
        verify_codes(other, replace(PLAN[bits], tables=PLAN[bits].tables[:1] + PLAN[bits].tables[2:] * 2))
    other.close()
    segment.close()
    place.folder.close()


@pytest.mark.parametrize("bits", sorted(PLAN))
@pytest.mark.parametrize("ids", [None, "row"])
@pytest.mark.parametrize("rank", [3, 7, 8, COUNT - 1])
def test_rows_are_in_order_or_are_told_to_be_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int, ids: str | None, rank: int
) -> None:
    monkeypatch.setattr("fpstore.codes.reader.READ_CODES", 8)
    with fpstore.build(tmp_path / "s", codes_of(bits), ids=ids, bits=bits, max_distance=6, plan=PLAN[bits]) as store:
        path = store._segments[0].path
    data, place = path.read_bytes(), Place(Folder.open(path.parent), path.name)
    segment = CodesSegment(place)
    offset, width = segment.record.codes_offset, bits
    values = fields(data, offset, width, COUNT)
    for found in (values[rank - 1], values[rank - 1] - 1):
        path.write_bytes(resealed(put(data, offset, width, rank, found)))
        other = CodesSegment(place)
        with pytest.raises(
            CorruptStore, match=rf"fpseg: codes, rank {rank}: found [0-9a-f]+, expected above [0-9a-f]+$"
        ):
            list(other.rows())
        other.close()
    segment.close()
    place.folder.close()
