"""Owns how a name stands in a line of text: one way to write it, and the way back, which loses nothing.

What would end a line or a cell, speak to a terminal or turn the order of what is shown is written with a backslash, and
so is a backslash. `\\xNN` is a byte, `\\uNNNN` and `\\UNNNNNNNN` a character; bytes that are no UTF-8 are `\\xNN` too.
Names of bytes and of text are written alike, but a name of text is never a byte above 0x7F.
"""

import json
import re

# C0, DEL and C1; what ends a line elsewhere; marks that turn the order of characters around; the mark of byte order.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SURROGATES = range(0xD800, 0xE000)
_BYTES = range(0xDC80, 0xDD00)  # bytes that are no UTF-8, as surrogateescape has them
_ODD = [*_CONTROLS, *_DIRECTIONS, 0xFEFF, *_SURROGATES]

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
_WRITTEN = str.maketrans(
    {code: f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" for code in _ODD}
    | {code: f"\\x{code - 0xDC00:02x}" for code in _BYTES}
    | {ord(character): written for character, written in _SHORT.items()}
)
_IN_JSON = str.maketrans({code: f"\\u{code:04x}" for code in _ODD if code > 0x20 and code != 0x7F} | {0x7F: "\\u007f"})
_READ = {written[1]: character.encode() for character, written in _SHORT.items()}
_ESCAPE = re.compile(r"\\(?:([tnr\\])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|)")
MAX_CODE = 0x10FFFF


def escaped(name: str | bytes) -> str:
    """The name as it stands in a line, in which it is one cell, in printable characters."""
    text = name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
    # Looking is four times as fast as translating. None of the odd characters but the backslash is printable.
    return text if text.isprintable() and "\\" not in text else text.translate(_WRITTEN)


def unescaped(written: str) -> bytes:
    """The bytes of the name that stands in a line so; those of a name of text are its UTF-8.

    Halves of surrogate pairs are bytes that are no UTF-8. ValueError for a backslash that begins nothing of the above,
    and for what is no character.
    """
    parts, at = [], 0
    for match in _ESCAPE.finditer(written):
        parts += [written[at : match.start()].encode("utf-8", "surrogateescape"), _bytes_of(match)]
        at = match.end()
    return b"".join([*parts, written[at:].encode("utf-8", "surrogateescape")])


def cells_read(cells: list[str]) -> list[str]:
    """Cells as they stand in lines, read; bytes that are no UTF-8 are halves of surrogate pairs. ValueError."""
    return [unescaped(cell).decode("utf-8", "surrogateescape") if "\\" in cell else cell for cell in cells]


def _bytes_of(match: re.Match[str]) -> bytes:
    short, byte, *characters = match.groups()
    if short is not None:
        return _READ[short]
    if byte is not None:
        return bytes.fromhex(byte)
    code = next((int(each, 16) for each in characters if each is not None), None)
    if code is None or code > MAX_CODE or code in _SURROGATES:
        raise ValueError(f"found {match.string[match.start() :][:10]}, expected {EXPECTED_ESCAPE}")
    return chr(code).encode()


EXPECTED_ESCAPE = r"\\ for a backslash, or \t, \n, \r, \xNN, \uNNNN or \UNNNNNNNN"


def json_of(value: object) -> str:
    """A value as JSON in which characters are themselves, but for those that are escaped in lines, too."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else text.translate(_IN_JSON)
