"""Ids that rise, as the log keeps those of an addition: the first, and how far each is from the one before, packed.

Ids that follow one another, as of rows that are counted, so take nothing but the first, and where some are missing a
bit or two each: 64 as they are.
"""

import numpy as np

from fpstore.errors import Wrong
from fpstore.types import Array, Ids

WORD_BITS = 64
# So many bits of each step: those that a word has a whole number of. Wider ones would save little of a word.
STEP_BITS = (0, 1, 2, 4, 8, 16)
# Fewer ids than that are not worth it: as they are, they fit into a page with others.
MIN_IDS = 64
# The words before the steps: the first id, and how many bits each step has.
HEAD_WORDS = 2


def packed(ids: Ids) -> Array | None:
    """Ids as words, uint64[words]; None where they do not rise, are few, or are too far from one another."""
    if len(ids) < MIN_IDS:
        return None
    if ids[-1] <= ids[0] or int(ids[-1] - ids[0]) >> STEP_BITS[-1] >= len(ids):
        return None
    steps = ids[1:] - ids[:-1]
    steps -= np.uint64(1)  # of ids that do not rise a large number
    most = int(steps.max()).bit_length()
    if most > STEP_BITS[-1]:
        return None
    bits = next(bits for bits in STEP_BITS if bits >= most)
    words = np.zeros(HEAD_WORDS + step_words(len(ids), bits), dtype=np.uint64)
    words[:HEAD_WORDS] = ids[0], bits
    if bits:
        padded = np.zeros((len(words) - HEAD_WORDS) * (WORD_BITS // bits), dtype=np.uint64)
        padded[: len(steps)] = steps
        np.bitwise_or.reduce(padded.reshape(-1, WORD_BITS // bits) << _shifts(bits), axis=1, out=words[HEAD_WORDS:])
    return words


def step_words(count: int, bits: int) -> int:
    """How many words the steps of so many ids take."""
    return -(-(count - 1) * bits // WORD_BITS)


def unpacked(words: Array, count: int) -> Ids:
    """The ids in words, uint64[count]. ValueError where these are not what packed makes of so many."""
    bits = int(words[1]) if len(words) >= HEAD_WORDS else -1
    if bits not in STEP_BITS or count < 1 or len(words) != HEAD_WORDS + step_words(count, bits):
        raise Wrong(f"{count} rising ids", f"{len(words)} words, {bits} bits each", "those that they take")
    ids = np.ones(count, dtype=np.uint64)
    ids[0] = words[0]
    if bits:
        steps = ((words[HEAD_WORDS:, None] >> _shifts(bits)) & np.uint64((1 << bits) - 1)).ravel()
        ids[1:] += steps[: count - 1]
    with np.errstate(over="ignore"):
        np.cumsum(ids, out=ids)
    if ids[-1] < words[0]:
        raise Wrong(f"{count} rising ids", f"ids up to {int(ids[-1])}, from {int(words[0])} on", "none above 2^64 - 1")
    return ids


def _shifts(bits: int) -> Array:
    return np.arange(0, WORD_BITS, bits, dtype=np.uint64)
