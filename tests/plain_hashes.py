"""The hashes of recipes in the plainest Python: the packages and hashlib where they have them, else integers."""

import hashlib
from collections.abc import Callable

import plain_rensa
import xxhash

MASK = (1 << 64) - 1
FNV_START, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
SEEDED = {"xxh3": 64, "xxh64": 64, "murmur3": 32}


def number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def fnv1(data: bytes) -> int:
    value = FNV_START
    for byte in data:
        value = value * FNV_PRIME & MASK ^ byte
    return value


def fnv1a(data: bytes) -> int:
    value = FNV_START
    for byte in data:
        value = (value ^ byte) * FNV_PRIME & MASK
    return value


def rotated(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & MASK


def murmur3(data: bytes, seed: int = 0) -> int:
    return murmur3_words(data, seed)[0]


def murmur3_words(data: bytes, seed: int) -> tuple[int, int]:
    """Both words of MurmurHash3_x64_128."""
    one, two = 0x87C37B91114253D5, 0x4CF5AD432745937F
    first = second = seed
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        first ^= rotated(int.from_bytes(data[at : at + 8], "little") * one & MASK, 31) * two & MASK
        first = ((rotated(first, 27) + second) * 5 + 0x52DCE729) & MASK
        second ^= rotated(int.from_bytes(data[at + 8 : at + 16], "little") * two & MASK, 33) * one & MASK
        second = ((rotated(second, 31) + first) * 5 + 0x38495AB5) & MASK
    tail = data[whole:]
    second ^= rotated(int.from_bytes(tail[8:], "little") * two & MASK, 33) * one & MASK
    first ^= rotated(int.from_bytes(tail[:8], "little") * one & MASK, 31) * two & MASK
    first ^= len(data)
    second ^= len(data)
    first = (first + second) & MASK
    second = (second + first) & MASK
    first, second = mixed(first), mixed(second)
    first = (first + second) & MASK
    return first, (second + first) & MASK


def mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return value ^ value >> 33


UNSEEDED: dict[str, Callable[[bytes], int]] = {
    "md5": lambda data: number(hashlib.md5(data).digest()[-8:]),
    "md5-first": lambda data: number(hashlib.md5(data).digest()[:8]),
    "sha1": lambda data: int.from_bytes(hashlib.sha1(data).digest()[:8], "little"),
    "sha256": lambda data: number(hashlib.sha256(data).digest()[-8:]),
    "blake2b": lambda data: number(hashlib.blake2b(data, digest_size=8).digest()),
    "fnv1": fnv1,
    "fnv1a": fnv1a,
    "fxhash": plain_rensa.hashed,
}
WITH_SEED: dict[str, Callable[[bytes, int], int]] = {
    "xxh3": xxhash.xxh3_64_intdigest,
    "xxh64": xxhash.xxh64_intdigest,
    "murmur3": murmur3,
}
NAMES = (*WITH_SEED, *UNSEEDED)


def hash_value(name: str, data: bytes, seed: int = 0) -> int:
    """The hash of data that a recipe calls so."""
    if name in WITH_SEED:
        return WITH_SEED[name](data, seed)
    assert seed == 0
    return UNSEEDED[name](data)
