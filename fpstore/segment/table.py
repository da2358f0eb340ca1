"""One table: sorted keys to payload, directory and fences, and the choice of its code.

Knows sorted keys, slots and codes; not where the bytes go (writer), nor what Hamming distance is (_probe).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fpstore._codec import Histogram, RiceCost, TableEncoder
from fpstore.format import CODEC_RICE, CODECS, KEY_BITS, MAX_RICE_BITS, SYMBOL_COUNT
from fpstore.huffman import canonical_codes, code_lengths
from fpstore.types import Array, Bytes, Keys, SortedKeys

# 1 / log2(e) in 16-bit fixed point: the best Rice parameter of geometric gaps is log2 of their mean times ln 2.
LN2_IN_65536THS = 45426
# Keys encoded before their payload is written: few enough for it to be in the second-level cache still.
PIECE_KEYS = 1 << 16


@dataclass(frozen=True)
class EncodedTable:
    """All there is of a table but its payload, which has been written."""

    codec: int
    slot_bits: int
    block_bytes: int
    rice_bits: int
    code_lengths: tuple[int, ...]
    payload_bits: int
    key_count: int
    directory: Bytes
    fences: Bytes
    ranks: Keys | None  # with_ranks: keys before each slot, or block, and their number


@dataclass(frozen=True)
class CodecCost:
    """Bits that a codec takes for a run of keys, without the code table."""

    codec: str
    bits: int


def rice_bits_for(gap_sum: int, count: int) -> int:
    """The Rice parameter for gaps of this sum: log2 of (mean * ln 2), rounded down."""
    mean = gap_sum // count if count else 0
    return min(MAX_RICE_BITS, max(0, (mean * LN2_IN_65536THS >> 16).bit_length() - 1))


def encode_table(
    keys: SortedKeys,
    codec: str,
    slot_bits: int,
    write: Callable[[Bytes], None],
    *,
    with_ranks: bool = False,
    advance: Callable[[int], None] | None = None,
    counted: Callable[[int], None] | None = None,
    bits: int = KEY_BITS,
    block_bytes: int = 0,
) -> EncodedTable:
    """Encode keys of so many bits in two passes, one to choose the code and one to write the payload through `write`.

    block_bytes: what a block has at most in a table of blocks; 0 for blocks of slots.
    advance is called with the number of keys done, twice for each key in all; counted, with how many there are, before
    anything is written. Raises ValueError when the keys are not strictly increasing, or one has more bits.
    """
    if codec not in CODECS:
        raise ValueError(f"codec: found {codec!r}, expected one of {', '.join(CODECS)}")
    codec_number = CODECS.index(codec)
    histogram = Histogram(0 if block_bytes else slot_bits, codec_number, bits=bits)  # blocks begin anywhere
    for chunk in keys.chunks():
        histogram.add(chunk)
        if advance:
            advance(len(chunk))
    if counted:
        counted(histogram.count)
    lengths = _code_lengths(histogram, codec)
    rice_bits = rice_bits_for(histogram.gap_sum, histogram.count) if codec_number == CODEC_RICE else 0
    encoder = TableEncoder(
        codec_number,
        slot_bits,
        rice_bits,
        np.array(lengths, dtype=np.uint8),
        np.array(canonical_codes(lengths), dtype=np.uint16),
        with_ranks=with_ranks,
        bits=bits,
        block_bytes=block_bytes,
    )
    for chunk in keys.chunks():
        for first in range(0, len(chunk), PIECE_KEYS):
            write(encoder.push(chunk[first : first + PIECE_KEYS]))
        if advance:
            advance(len(chunk))
    write(encoder.finish())
    return EncodedTable(
        codec_number,
        slot_bits,
        block_bytes,
        rice_bits,
        lengths,
        encoder.payload_bits,
        encoder.key_count,
        encoder.directory,
        encoder.fences,
        encoder.ranks,
    )


def codec_costs(keys: SortedKeys, slot_bits: int = 0, *, bits: int = KEY_BITS) -> tuple[CodecCost, ...]:
    """What each codec would take for these keys; slot_bits 0 codes them as one chain, before any block overhead."""
    histogram = Histogram(slot_bits, bits=bits)
    for chunk in keys.chunks():
        histogram.add(chunk)
    rice = RiceCost(slot_bits, rice_bits_for(histogram.gap_sum, histogram.count), bits=bits)
    for chunk in keys.chunks():
        rice.add(chunk)
    taken = {
        "gap": _coded_bits(histogram.gap),
        "xor": _coded_bits(histogram.xor),
        "rice": rice.bits,
        "raw": bits * histogram.count,
    }
    return tuple(CodecCost(codec, taken[codec]) for codec in CODECS)


def leading_bit_histogram(keys: SortedKeys, codec: str, slot_bits: int, *, bits: int = KEY_BITS) -> Array:
    """How often each bit length 0..64 of a delta occurs: int64[65]. bits: of a key."""
    histogram = Histogram(slot_bits, bits=bits)
    for chunk in keys.chunks():
        histogram.add(chunk)
    return np.array(histogram.xor if codec == "xor" else histogram.gap, dtype=np.int64)


def _code_lengths(histogram: Histogram, codec: str) -> tuple[int, ...]:
    if codec == "gap":
        return code_lengths(histogram.gap)
    if codec == "xor":
        return code_lengths(histogram.xor)
    return (0,) * SYMBOL_COUNT


def _coded_bits(counts: list[int]) -> int:
    lengths = code_lengths(counts)
    return sum(
        count * (length + max(0, symbol - 1))
        for symbol, (count, length) in enumerate(zip(counts, lengths, strict=True))
    )
