"""Owns the Huffman code of a table: how long each symbol's code word is, and which word it gets.

The same counts always give the same lengths, and the lengths alone give the code words, so a table
stores 65 bytes and nothing else (docs/format.md section 3).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from bitarray.util import canonical_huffman

from fpstore.errors import Wrong

SYMBOL_COUNT = 65  # the bit length of a delta: 0 to 64
MAX_CODE_BITS = 12  # one look-up in 4,096 entries decodes a symbol, for about 0.02 bit per key


def code_lengths(counts: Sequence[int], limit: int = MAX_CODE_BITS) -> tuple[int, ...]:
    """The code length of each of the 65 symbols, 0 where its count is 0.

    No prefix code of at most `limit` bits is smaller. A lone symbol has length 1. Raises ValueError for
    another number of counts, for a negative one, and for more symbols than `limit` bits can tell apart.
    """
    if len(counts) != SYMBOL_COUNT:
        raise ValueError(f"symbol counts: found {len(counts)}, expected {SYMBOL_COUNT}")
    # In numeric order: among equal counts bitarray's lengths follow the order of insertion.
    occurring = {symbol: count for symbol, count in enumerate(counts) if count != 0}
    for symbol, count in occurring.items():
        if count < 0:
            raise ValueError(f"count of symbol {symbol}: found {count}, expected 0 or more")
    if len(occurring) > 1 << limit:
        raise ValueError(f"symbols that occur: found {len(occurring)}, expected at most {1 << limit} for {limit} bits")
    if not occurring:
        return (0,) * SYMBOL_COUNT
    lengths = _huffman_lengths(occurring)
    if max(lengths.values()) > limit:
        lengths = _package_merge_lengths(occurring, limit)
    return tuple(lengths.get(symbol, 0) for symbol in range(SYMBOL_COUNT))


def canonical_codes(lengths: Sequence[int]) -> list[int]:
    """The code word of each symbol, 0 where its length is 0; its highest bit is the first in the stream."""
    codes = [0] * len(lengths)
    code = 0
    length_before = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths) if length):
        code <<= length - length_before
        codes[symbol] = code
        code += 1
        length_before = length
    return codes


def check_lengths(lengths: Sequence[int], limit: int = MAX_CODE_BITS) -> None:
    """Raise ValueError unless these are the lengths of a complete code, of one lone symbol, or of none.

    A complete code gives every stream of bits a meaning; the code of a lone symbol, which has length 1,
    gives none to a 1 bit.
    """
    if len(lengths) != SYMBOL_COUNT:
        raise Wrong("code lengths", len(lengths), SYMBOL_COUNT)
    for symbol, length in enumerate(lengths):
        if not 0 <= length <= limit:
            raise Wrong(f"code length of symbol {symbol}", length, f"0..{limit}")
    occurring = [length for length in lengths if length]
    if not occurring or occurring == [1]:
        return
    if len(occurring) == 1:
        raise Wrong("code length of the only symbol", occurring[0], 1)
    whole = 1 << limit
    kraft = sum(whole >> length for length in occurring)
    if kraft != whole:
        raise Wrong("Kraft sum of the code lengths", f"{kraft}/{whole}", f"{whole}/{whole}")


def _huffman_lengths(counts: dict[int, int]) -> dict[int, int]:
    """Lengths without a limit."""
    codes, _, _ = canonical_huffman(Counter(counts))
    return {symbol: len(code) for symbol, code in codes.items()}


def _package_merge_lengths(counts: dict[int, int], limit: int) -> dict[int, int]:
    """The best lengths of at most `limit` bits for two symbols or more.

    Package-merge (Larmore and Hirschberg, JACM 1990). A coin is (weight, the symbols in it). Each of `limit` rounds
    pairs the coins of the round before, lightest first, and lays a fresh coin for each of the n symbols beside the
    pairs. The 2n - 2 lightest coins of the last round pay for the code: a symbol's length in bits is how often it
    occurs in them.
    """
    fresh = sorted(((count, (symbol,)) for symbol, count in counts.items()), key=_weight)
    coins: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(limit):
        # The sort is stable and the fresh coins come first, so equal weights have one order.
        coins = sorted([*fresh, *_pairs(coins)], key=_weight)
    lengths = dict.fromkeys(counts, 0)
    for _, symbols in coins[: 2 * len(counts) - 2]:
        for symbol in symbols:
            lengths[symbol] += 1
    return lengths


def _pairs(coins: list[tuple[int, tuple[int, ...]]]) -> Iterable[tuple[int, tuple[int, ...]]]:
    """Neighbours joined two by two; an odd one at the end is left out."""
    for light, heavy in zip(coins[0::2], coins[1::2], strict=False):
        yield light[0] + heavy[0], light[1] + heavy[1]


def _weight(coin: tuple[int, tuple[int, ...]]) -> int:
    return coin[0]
