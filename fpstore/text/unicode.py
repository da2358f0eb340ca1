"""Owns the Unicode facts that recipes rest on, pinned to Unicode 14: what a word character is, NFKC, case folding.

They are read from `unicode14.bin` and not from the running Python, so that every Python gives the same fingerprints.
`tools/make_unicode.py` writes that file. A code point which Unicode 14 does not assign is no word character and stays
what it is.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.uint32]

UNICODE_VERSION = "14.0.0"

# Ranges are pairs of a first and a last code point, flat and increasing.
COLUMNS = (
    "word_ranges",  # `\w` of re: str.isalnum, or an underscore
    "space_ranges",  # str.isspace, or a control character (category Cc)
    "mark_ranges",  # what belongs to the character before it: categories Mn, Mc and Me, and the zero width joiners
    "dense_ranges",  # letters of scripts that do not part words: Han, kana, Thai, Lao, Khmer, Myanmar and the like
    "combining_ranges",
    "combining_classes",  # the canonical combining class of each of these ranges, 1..254
    "decomposed_codes",  # what NFKD changes, Hangul syllables aside, increasing
    "decomposed_counts",  # how many code points each becomes
    "decomposed_points",  # these, one after another
    "folded_codes",  # what str.casefold changes, increasing
    "folded_counts",
    "folded_points",
    "composed_firsts",  # pairs that NFC makes one code point of, Hangul aside
    "composed_seconds",
    "composed_points",
    "assigned_ranges",  # every code point that there is, surrogates and private ones too
)


def pack(columns: Mapping[str, Column]) -> bytes:
    """The bytes of a file with these columns, all of COLUMNS; unpack reads them."""
    parts = []
    for name in COLUMNS:
        # Neighbours are alike, so their differences compress better; these wrap around, as does their sum.
        differences = np.diff(columns[name].astype("<u4"), prepend=np.uint32(0))
        parts += [np.array([len(differences)], dtype="<u4").tobytes(), differences.astype("<u4").tobytes()]
    return zlib.compress(b"".join(parts), 9)


def unpack(packed: bytes) -> dict[str, Column]:
    """The columns that pack was given."""
    values = np.frombuffer(zlib.decompress(packed), dtype="<u4")
    columns, first = {}, 0
    for name in COLUMNS:
        last = first + 1 + int(values[first])
        columns[name] = np.cumsum(values[first + 1 : last], dtype=np.uint32)
        first = last
    return columns


def pinned() -> dict[str, Column]:
    """The columns of Unicode 14."""
    return unpack(Path(__file__).with_name("unicode14.bin").read_bytes())
