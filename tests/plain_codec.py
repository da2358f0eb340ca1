"""The slow, plain twin of the compiled codec: docs/format.md word by word, on bitarray and Python's ints.

It trusts its input. Tests compare the compiled core with it; speed and hostile bytes are not its business.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bitarray import bitarray
from bitarray.util import ba2int, int2ba

from fpstore.format import (
    DIRECTORY_LINE_BYTES,
    FENCE_BYTES,
    GROUP_SLOTS,
    KEY_BITS,
    MAX_BLOCK_BITS,
    MAX_BLOCK_KEYS,
    MAX_RICE_QUOTIENT,
    RICE_DELTA_BITS,
)
from fpstore.huffman import SYMBOL_COUNT, canonical_codes, code_lengths

NO_CODE = (0,) * SYMBOL_COUNT


@dataclass(frozen=True)
class PlainTable:
    """A coded table and what its record says of it; payload is a little-endian bitarray of payload_bits."""

    codec: str
    slot_bits: int
    payload: bitarray
    directory: bytes
    fences: bytes
    code_lengths: tuple[int, ...]
    rice_bits: int
    bits: int = KEY_BITS
    block_bytes: int = 0


def encode_table(
    keys: Iterable[int], codec: str, slot_bits: int, bits: int = KEY_BITS, block_bytes: int = 0
) -> PlainTable:
    """Code sorted distinct keys of so many bits with `codec`, a name: gap, xor, rice or raw."""
    if block_bytes:
        return encode_blocks([int(key) for key in keys], codec, slot_bits, bits, block_bytes)
    slots = split_slots([int(key) for key in keys], slot_bits, bits)
    deltas = [slot_deltas(slot, codec, slot_bits, keys, bits) for slot, keys in enumerate(slots)]
    lengths, rice_bits = NO_CODE, 0
    if codec in ("gap", "xor"):
        lengths = code_lengths(symbol_counts(deltas))
    elif codec == "rice":
        rice_bits = choose_rice_bits([delta for slot in deltas for delta in slot])
    coder = Coder(codec, lengths, rice_bits, bits)

    payload = empty_bits()
    directory, fences = bytearray(), bytearray()
    for group_start in range(0, len(slots), GROUP_SLOTS):
        group = range(group_start, min(group_start + GROUP_SLOTS, len(slots)))
        codes = {slot: [coder.encode(delta) for delta in deltas[slot]] for slot in group}
        large = [slot for slot in group if is_large(codes[slot])]
        for slot in large:
            for start in range(0, len(codes[slot]), MAX_BLOCK_KEYS):
                block = join(codes[slot][start : start + MAX_BLOCK_KEYS])
                last_key = slots[slot][start : start + MAX_BLOCK_KEYS][-1]
                fences += int_bytes(last_key, 8) + int_bytes(len(payload) | len(block) << 48, 8)
                payload += block
        base = len(payload)
        ends = []
        for slot in group:
            if slot not in large:
                payload += join(codes[slot])
            ends.append(len(payload) - base)
        ends += ends[-1:] * (GROUP_SLOTS - len(ends))
        flags = sum(1 << slot - group_start for slot in large)
        directory += int_bytes(base | flags << 48, 8) + b"".join(int_bytes(end, 2) for end in ends)
    return PlainTable(codec, slot_bits, payload, bytes(directory), bytes(fences), lengths, rice_bits, bits)


def encode_blocks(keys: Sequence[int], codec: str, slot_bits: int, bits: int, block_bytes: int) -> PlainTable:
    """The same as a table of blocks: each as many keys as fit, the first as it is."""
    deltas = slot_deltas(0, codec, 0, keys, bits)
    lengths = code_lengths(symbol_counts([deltas])) if codec in ("gap", "xor") else NO_CODE
    rice_bits = choose_rice_bits(deltas) if codec == "rice" else 0
    coder = Coder(codec, lengths, rice_bits, bits)
    blocks: list[tuple[int, bitarray]] = []
    for key, delta in zip(keys, deltas, strict=True):
        code = coder.encode(delta)
        if blocks and len(blocks[-1][1]) + len(code) <= 8 * block_bytes:
            blocks[-1] = key, blocks[-1][1] + code
        else:
            blocks.append((key, field(key, bits)))
    payload, fences = empty_bits(), bytearray()
    for last_key, block in blocks:
        fences += int_bytes(last_key, 8) + int_bytes(len(payload) | len(block) << 48, 8)
        payload += block
    return PlainTable(codec, slot_bits, payload, b"", bytes(fences), lengths, rice_bits, bits, block_bytes)


def decode_blocks(table: PlainTable) -> list[int]:
    """The keys of a coded table of blocks, in order."""
    coder = Coder(table.codec, table.code_lengths, table.rice_bits, table.bits)
    keys: list[int] = []
    for start in range(0, len(table.fences), FENCE_BYTES):
        where = int_of(table.fences[start + 8 : start + FENCE_BYTES])
        block = table.payload[where & (1 << 48) - 1 :][: where >> 48]
        keys.append(field_at(block, 0, table.bits))
        for delta in coder.decode(block[table.bits :]):
            step = {"xor": keys[-1] ^ delta, "raw": delta}
            keys.append(step.get(table.codec, keys[-1] + delta))
    return keys


def decode_table(table: PlainTable) -> list[int]:
    """The keys of a coded table, in order."""
    if table.block_bytes:
        return decode_blocks(table)
    coder = Coder(table.codec, table.code_lengths, table.rice_bits, table.bits)
    fences = [
        (int_of(table.fences[start : start + 8]), int_of(table.fences[start + 8 : start + FENCE_BYTES]))
        for start in range(0, len(table.fences), FENCE_BYTES)
    ]
    keys: list[int] = []
    for slot in range(1 << table.slot_bits):
        line_start = slot // GROUP_SLOTS * DIRECTORY_LINE_BYTES
        line = table.directory[line_start : line_start + DIRECTORY_LINE_BYTES]
        base, flags = int_of(line[:8]) & (1 << 48) - 1, int_of(line[:8]) >> 48
        ends = [0, *(int_of(line[at : at + 2]) for at in range(8, DIRECTORY_LINE_BYTES, 2))]
        index = slot % GROUP_SLOTS
        blocks = [table.payload[base + ends[index] : base + ends[index + 1]]]
        if flags >> index & 1:
            blocks = [
                table.payload[where & (1 << 48) - 1 :][: where >> 48]
                for last_key, where in fences
                if slot_of(last_key, table.slot_bits, table.bits) == slot
            ]
        previous = slot_start(slot, table.slot_bits, table.bits)
        for block in blocks:
            for delta in coder.decode(block):
                previous = {"gap": previous + delta, "rice": previous + delta, "xor": previous ^ delta}.get(
                    table.codec, delta
                )
                keys.append(previous)
    return keys


class Coder:
    """The code of one delta under one codec."""

    def __init__(self, codec: str, lengths: Sequence[int], rice_bits: int, bits: int = KEY_BITS) -> None:
        self.codec = codec
        self.bits = bits
        self.rice_bits = rice_bits
        words = canonical_codes(lengths)
        # int2ba writes the most significant bit first when told so, and the stream takes bits in that order.
        self.words = {
            symbol: bitarray(int2ba(words[symbol], length, endian="big").to01(), endian="little")
            for symbol, length in enumerate(lengths)
            if length
        }
        self.symbols = {word.to01(): symbol for symbol, word in self.words.items()}

    def encode(self, delta: int) -> bitarray:
        """The bits of one delta; of `raw` the delta is the key itself."""
        if self.codec == "raw":
            return field(delta, self.bits)
        if self.codec == "rice":
            quotient = delta >> self.rice_bits
            if quotient >= MAX_RICE_QUOTIENT:
                return field(0, MAX_RICE_QUOTIENT) + field(delta, RICE_DELTA_BITS)
            return field(1 << quotient, quotient + 1) + field(delta % (1 << self.rice_bits), self.rice_bits)
        symbol = delta.bit_length()
        below_leading = max(0, symbol - 1)
        return self.words[symbol] + field(delta % (1 << below_leading), below_leading)

    def decode(self, block: bitarray) -> Iterator[int]:
        """The deltas in one block: it ends at its end bit."""
        at = 0
        while at < len(block):
            if self.codec == "raw":
                width, high = self.bits, 0
            elif self.codec == "rice":
                quotient = block.find(1, at, at + MAX_RICE_QUOTIENT) - at
                escaped = quotient < 0
                at += MAX_RICE_QUOTIENT if escaped else quotient + 1
                width = RICE_DELTA_BITS if escaped else self.rice_bits
                high = 0 if escaped else quotient << self.rice_bits
            else:
                word_end = at + 1
                while block[at:word_end].to01() not in self.symbols:
                    word_end += 1
                symbol = self.symbols[block[at:word_end].to01()]
                at = word_end
                width = max(0, symbol - 1)
                high = 1 << width if symbol else 0
            yield high | field_at(block, at, width)
            at += width


def split_slots(keys: Sequence[int], slot_bits: int, bits: int = KEY_BITS) -> list[list[int]]:
    """The keys of each of the 2**slot_bits slots."""
    slots: list[list[int]] = [[] for _ in range(1 << slot_bits)]
    for key in keys:
        slots[slot_of(key, slot_bits, bits)].append(key)
    return slots


def slot_of(key: int, slot_bits: int, bits: int = KEY_BITS) -> int:
    return key >> bits - slot_bits


def slot_start(slot: int, slot_bits: int, bits: int = KEY_BITS) -> int:
    """The lowest key that lies in a slot."""
    return slot << bits - slot_bits


def slot_deltas(slot: int, codec: str, slot_bits: int, keys: Sequence[int], bits: int = KEY_BITS) -> list[int]:
    """What is coded for each key of a slot: its delta to the key before it, and of `raw` the key."""
    if codec == "raw":
        return list(keys)
    steps = pairwise([slot_start(slot, slot_bits, bits), *keys])
    return [key ^ previous if codec == "xor" else key - previous for previous, key in steps]


def symbol_counts(deltas: Iterable[Iterable[int]]) -> list[int]:
    """How often each bit length 0..64 occurs among the deltas."""
    counts = [0] * SYMBOL_COUNT
    for slot in deltas:
        for delta in slot:
            counts[delta.bit_length()] += 1
    return counts


def choose_rice_bits(deltas: Sequence[int]) -> int:
    """floor(log2(mean delta * ln 2)), in integers so that every machine agrees: 45426 is ln 2 * 2**16."""
    if not deltas:
        return 0
    mean = sum(deltas) // len(deltas)
    scaled = mean * 45426 >> 16
    return max(0, scaled.bit_length() - 1)


def is_large(codes: Sequence[bitarray]) -> bool:
    """Whether a slot of keys with these codes is cut into blocks with fences."""
    return len(codes) > MAX_BLOCK_KEYS or sum(map(len, codes)) > MAX_BLOCK_BITS


def packed(width: int, values: Iterable[int]) -> bytes:
    """Fixed-width fields one after the other, lowest bit first, and zeros to the next byte."""
    return join([field(int(value), width) for value in values]).tobytes()


def unpacked(width: int, count: int, data: bytes) -> list[int]:
    """The first `count` values of packed(width, values)."""
    bits = bitarray(endian="little")
    bits.frombytes(data)
    return [field_at(bits, index * width, width) for index in range(count)]


def extract(fingerprint: int, mask: int) -> int:
    """The bits of fingerprint that mask selects, moved together at the low end in their order."""
    gathered, width = 0, 0
    for position in range(KEY_BITS):
        if mask >> position & 1:
            gathered |= (fingerprint >> position & 1) << width
            width += 1
    return gathered


def deposit(gathered: int, mask: int) -> int:
    """The inverse of extract: zeros where mask is zero."""
    fingerprint, width = 0, 0
    for position in range(KEY_BITS):
        if mask >> position & 1:
            fingerprint |= (gathered >> width & 1) << position
            width += 1
    return fingerprint


def permute(fingerprint: int, prefix_mask: int, bits: int = KEY_BITS) -> int:
    """The key of a fingerprint: its prefix bits above its other bits."""
    tail_mask = ~prefix_mask & (1 << bits) - 1
    return extract(fingerprint, prefix_mask) << tail_mask.bit_count() | extract(fingerprint, tail_mask)


def unpermute(key: int, prefix_mask: int, bits: int = KEY_BITS) -> int:
    """The fingerprint of a key: the inverse of permute."""
    tail_mask = ~prefix_mask & (1 << bits) - 1
    return deposit(key >> tail_mask.bit_count(), prefix_mask) | deposit(key, tail_mask)


def crc32c(data: bytes, value: int = 0) -> int:
    """CRC-32C bit by bit: the Castagnoli polynomial 0x1EDC6F41, reflected, inverted before and after."""
    crc = value ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def empty_bits() -> bitarray:
    return bitarray(endian="little")


def join(codes: Iterable[bitarray]) -> bitarray:
    bits = empty_bits()
    for code in codes:
        bits += code
    return bits


def field(value: int, width: int) -> bitarray:
    """The `width` bits of value, lowest first."""
    return int2ba(value, width, endian="little") if width else empty_bits()


def field_at(bits: bitarray, start: int, width: int) -> int:
    """The value of the `width` bits from start."""
    return ba2int(bits[start : start + width]) if width else 0


def int_bytes(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def int_of(data: bytes) -> int:
    return int.from_bytes(data, "little")
