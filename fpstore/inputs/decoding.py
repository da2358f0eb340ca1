"""Owns the step from the bytes of a text to its characters.

A byte order mark decides: of UTF-8, UTF-16 or UTF-32. Without one a text is UTF-8. What is neither, and what holds a
NUL, is no text: it is refused, never read with replacement characters, as two unlike files would become alike by that.
"""

from __future__ import annotations

import codecs

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MARK_BYTES = 4

EXPECTED_TEXT = "a text in UTF-8, or with a byte order mark"
# Files that can begin as a text does.
_DATA = ((b"PAR1", "Parquet"), (b"%PDF-", "PDF"), (b"SQLite format 3", "SQLite"), (b"PK\x03\x04", "zip"))


def marked(head: bytes) -> str | None:
    """The codec that the first MARK_BYTES bytes are the mark of, None without a mark."""
    return next((codec for mark, codec in _MARKS if head.startswith(mark)), None)


def text_of(data: bytes) -> str:
    """The characters of a text, by the rule of the module; its message says what was found instead.

    Raises ValueError for what is no text.
    """
    for magic, kind in _DATA:
        if data.startswith(magic):
            raise ValueError(f"{kind} data")
    codec = marked(data[:MARK_BYTES]) or "utf-8"
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        name = codec.removesuffix("-sig").upper()
        raise ValueError(f"bytes that are no {name} (at offset {error.start})") from error
    nul = text.find("\0")
    if nul >= 0:
        raise ValueError(f"a NUL character (at character {nul})")
    return text
