"""R-MinHash of rensa 0.4, and of 0.5, whose rule is another, in the plainest Python, from their sources."""

from collections.abc import Iterable, Iterator

WORD = (1 << 64) - 1
FIRST, SECOND, FOLD, LAST = 0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0xF1357AEA2E62A9C5


def rotated(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & WORD


def splitmix(state: int) -> Iterator[int]:
    while True:
        state = state + 0x9E3779B97F4A7C15 & WORD
        number = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & WORD
        number = (number ^ number >> 27) * 0x94D049BB133111EB & WORD
        yield number ^ number >> 31


def xoshiro(seed: int) -> Iterator[int]:
    """xoshiro256++, whose state is what SplitMix64 gives."""
    numbers = splitmix(seed)
    a, b, c, d = (next(numbers) for _ in range(4))
    while True:
        yield rotated(a + d & WORD, 23) + a & WORD
        shifted = b << 17 & WORD
        c, d = c ^ a, d ^ b
        b, a = b ^ c, a ^ d
        c, d = c ^ shifted, rotated(d, 45)


def folded(one: int, other: int) -> int:
    product = one * other
    return product & WORD ^ product >> 64


def hashed(data: bytes) -> int:
    """FxHash of rustc-hash 2, of bytes."""
    size, one, other = len(data), FIRST, SECOND

    def word(start: int, count: int) -> int:
        return int.from_bytes(data[start : start + count], "little")

    if size > 16:
        for start in range(0, size - 16, 16):
            one, other = other, folded(one ^ word(start, 8), FOLD ^ word(start + 8, 8))
    if size >= 8:
        one, other = one ^ word(size - 16 if size > 16 else 0, 8), other ^ word(size - 8, 8)
    elif size >= 4:
        one, other = one ^ word(0, 4), other ^ word(size - 4, 4)
    elif size:
        one, other = one ^ data[0], other ^ (data[-1] << 8 | data[size // 2])
    return rotated((folded(one, other) ^ size) * LAST & WORD, 26)


def pairs_of(values: int, seed: int) -> list[tuple[int, int]]:
    """Of each value the factor and the term."""
    numbers = xoshiro(seed)
    return [(next(numbers) | 1, next(numbers)) for _ in range(values)]


def signature(tokens: Iterable[str], values: int, seed: int) -> list[int]:
    hashes = [hashed(token.encode()) for token in tokens]
    return [min((a * each + b & WORD) >> 32 for each in hashes) for a, b in pairs_of(values, seed)]


def one_number(state: int) -> int:
    return next(splitmix(state))


def state_of(number: int) -> int:
    """Whose one_number this is."""
    number ^= number >> 31 ^ number >> 62
    number = number * pow(0x94D049BB133111EB, -1, 1 << 64) & WORD
    number ^= number >> 27 ^ number >> 54
    number = number * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & WORD
    number ^= number >> 30 ^ number >> 60
    return number - 0x9E3779B97F4A7C15 & WORD


BUCKETS, ROUND, FALLBACK = 0x6A09E667F3BCC909, 0x3C6EF372FE94F82B, 0xBB67AE8584CAA73B


def bucket(mixed: int, values: int) -> int:
    """Which of the values a number falls to, all as often: those whose product is below the rest are drawn again."""
    while (mixed & 0xFFFFFFFF) * values & 0xFFFFFFFF < (1 << 32) % values:
        mixed = one_number(mixed)
    return (mixed & 0xFFFFFFFF) * values >> 32


def later_signature(tokens: Iterable[str], values: int, seed: int) -> list[int]:
    """Of version 0.5, which is the second of its algorithm."""
    return later_signature_of_hashes((hashed(token.encode()) for token in tokens), values, seed)


def later_signature_of_hashes(hashes: Iterable[int], values: int, seed: int) -> list[int]:
    pairs = pairs_of(values, seed)
    least = [(1 << 32) - 1] * values
    for each in hashes:
        for number in range(3):
            mixed = one_number(each ^ pairs[0][1] ^ BUCKETS ^ number * ROUND & WORD)
            own = bucket(mixed, values)
            least[own] = min(least[own], number << 30 | mixed >> 34)
        mixed = one_number(each ^ pairs[0][0] ^ FALLBACK)
        least = [min(value, 3 << 30 | (a * mixed + b & WORD) >> 34) for value, (a, b) in zip(least, pairs, strict=True)]
    return least
