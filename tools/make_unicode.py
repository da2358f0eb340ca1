"""Writes the Unicode facts of fpstore.text.unicode from those of the running Python, which must have Unicode 14.

    python tools/make_unicode.py OUTPUT

Python 3.11 has Unicode 14. Another version is a change of every recipe.
"""

import argparse
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fpstore.text.unicode import UNICODE_VERSION, Column, pack

CODES = range(0x110000)
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)  # these are decomposed by arithmetic


def column(values: Sequence[int]) -> Column:
    return np.array(values, dtype=np.uint32)


def ranges(value_of: Callable[[str], int]) -> tuple[Column, Column]:
    """The ranges of code points with the same value other than 0, and the value of each."""
    bounds: list[int] = []
    values: list[int] = []
    for code in CODES:
        value = value_of(chr(code))
        if value and bounds and bounds[-1] == code - 1 and values[-1] == value:
            bounds[-1] = code
        elif value:
            bounds += [code, code]
            values.append(value)
    return column(bounds), column(values)


def changes(step: Callable[[str], str]) -> tuple[Column, Column, Column]:
    """The code points that step changes, how many each becomes, and which."""
    changed = [(code, step(chr(code))) for code in CODES if code not in SURROGATES and code not in HANGUL]
    changed = [(code, text) for code, text in changed if text != chr(code)]
    counts = [len(text) for _, text in changed]
    return column([code for code, _ in changed]), column(counts), column([ord(c) for _, text in changed for c in text])


def compositions() -> tuple[Column, Column, Column]:
    """The firsts, the seconds and what they become; in the order of what they become."""
    found = []
    for code in CODES:
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code):
                found.append((first, second, code))
    firsts, seconds, composed = zip(*found, strict=True)
    return column(firsts), column(seconds), column(composed)


def columns() -> dict[str, Column]:
    """What the running Python knows, as fpstore.text.unicode names it."""
    facts: dict[str, Column] = {}
    facts["word_ranges"], _ = ranges(lambda character: character.isalnum() or character == "_")
    facts["space_ranges"], _ = ranges(lambda character: character.isspace() or unicodedata.category(character) == "Cc")
    facts["combining_ranges"], facts["combining_classes"] = ranges(unicodedata.combining)
    for name, step in (
        ("decomposed", lambda text: unicodedata.normalize("NFKD", text)),
        ("folded", str.casefold),
    ):
        facts[f"{name}_codes"], facts[f"{name}_counts"], facts[f"{name}_points"] = changes(step)
    facts["composed_firsts"], facts["composed_seconds"], facts["composed_points"] = compositions()
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, expected {UNICODE_VERSION}")
    arguments.output.write_bytes(pack(columns()))


if __name__ == "__main__":
    main()
