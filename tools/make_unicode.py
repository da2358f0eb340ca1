"""Writes the Unicode facts of fpstore.text.unicode from three files of the Unicode Character Database.

    python tools/make_unicode.py FOLDER OUTPUT

FOLDER holds UnicodeData.txt, CaseFolding.txt and CompositionExclusions.txt of Unicode 14, as they stay at
https://www.unicode.org/Public/14.0.0/ucd/ (and, the same bytes, under lib/unicore in the sources of Perl 5.36). No fact
is taken from the running Python. Another version of Unicode is a change of every recipe.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from arguments import parse_folder

from fpstore.text.unicode import UNICODE_VERSION, Column, pack

SHA256 = {
    "UnicodeData.txt": "36018e68657fdcb3485f636630ffe8c8532e01c977703d2803f5b89d6c5feafb",
    "CaseFolding.txt": "a566cd48687b2cd897e02501118b2413c14ae86d318f9abbbba97feb84189f0f",
    "CompositionExclusions.txt": "3360762fc3295cea54ab251c31df621d05ba4b94d46c60eaac29aa16d70ad1e0",
}

JOINERS = ("ZERO WIDTH NON-JOINER", "ZERO WIDTH JOINER")
# What names begin with in scripts that do not part words: Han, kana, and those whose lines break where a dictionary
# says so (class SA of UAX 14).
DENSE = (
    "CJK ", "IDEOGRAPHIC ", "BOPOMOFO ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA", "HENTAIGANA ", "THAI ", "LAO ",
    "KHMER ", "MYANMAR ", "TAI LE ", "NEW TAI LUE ", "TAI THAM ", "TAI VIET ", "AHOM ",
)  # fmt: skip


@dataclass(frozen=True)
class Character:
    """A line of UnicodeData.txt, as far as it is needed. parts: of its decomposition, which may be a compatible one."""

    name: str
    category: str
    combining: int
    bidirectional: str
    parts: tuple[int, ...]
    compatible: bool
    numeric: bool

    @property
    def is_word(self) -> bool:
        """As str.isalnum has it."""
        return self.category.startswith("L") or self.numeric

    @property
    def is_mark(self) -> bool:
        """What belongs to the character before it: a mark, or a zero width joiner or non-joiner."""
        return self.category.startswith("M") or self.name in JOINERS

    @property
    def is_dense(self) -> bool:
        """A letter of a script that does not part words."""
        return self.is_word and self.name.lstrip("<").upper().startswith(DENSE)

    @property
    def is_space(self) -> bool:
        """As str.isspace has it, or a control character."""
        return self.category in ("Zs", "Cc") or self.bidirectional in ("WS", "B", "S")


def lines(path: Path) -> Iterator[list[str]]:
    """The fields of each line, without comments."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if text := line.split("#", 1)[0].strip():
            yield [each.strip() for each in text.split(";")]


def characters(path: Path) -> dict[int, Character]:
    """What UnicodeData.txt says, by code point."""
    found: dict[int, Character] = {}
    first = 0
    for code, name, category, combining, bidirectional, decomposition, *numbers in lines(path):
        parts = decomposition.split()
        compatible = decomposition.startswith("<")
        points = tuple(int(part, 16) for part in parts[compatible:])
        one = Character(name, category, int(combining), bidirectional, points, compatible, any(numbers[:3]))
        last = int(code, 16)
        if not name.endswith(", Last>"):
            first = last
        found |= dict.fromkeys(range(first, last + 1), one)
    return found


def column(values: Sequence[int]) -> Column:
    return np.array(values, dtype=np.uint32)


def ranges(value_of: Mapping[int, int]) -> tuple[Column, Column]:
    """The ranges of code points with the same value other than 0, and the value of each."""
    bounds: list[int] = []
    values: list[int] = []
    for code in sorted(value_of):
        value = value_of[code]
        if value and bounds and bounds[-1] == code - 1 and values[-1] == value:
            bounds[-1] = code
        elif value:
            bounds += [code, code]
            values.append(value)
    return column(bounds), column(values)


def changes(becomes: Mapping[int, Sequence[int]]) -> tuple[Column, Column, Column]:
    """The code points that change, how many each becomes, and which."""
    codes = sorted(becomes)
    points = [point for code in codes for point in becomes[code]]
    return column(codes), column([len(becomes[code]) for code in codes]), column(points)


def decompositions(known: Mapping[int, Character]) -> dict[int, list[int]]:
    """What NFKD makes of each character that it changes, Hangul syllables aside: they have none in the file."""

    def whole(code: int) -> list[int]:
        parts = known[code].parts if code in known else ()
        return [point for part in parts for point in whole(part)] if parts else [code]

    found = {code: whole(code) for code, one in known.items() if one.parts}
    for points in found.values():
        _put_in_order(points, known)
    return found


def _put_in_order(points: list[int], known: Mapping[int, Character]) -> None:
    """Canonical order: the marks between two characters of class 0 by class, those of one class as they were."""
    classes = [known[point].combining if point in known else 0 for point in points]
    start = 0
    for end in [i for i, value in enumerate(classes) if value == 0] + [len(points)]:
        order = sorted(range(start, end), key=classes.__getitem__)
        points[start:end] = [points[i] for i in order]
        start = end + 1


def foldings(path: Path) -> dict[int, list[int]]:
    """What full case folding makes of each character that it changes."""
    return {
        int(code, 16): [int(point, 16) for point in points.split()]
        for code, status, points, *_ in lines(path)
        if status in ("C", "F")
    }


def compositions(known: Mapping[int, Character], excluded: set[int]) -> tuple[Column, Column, Column]:
    """The firsts, the seconds and what they become; in the order of what they become."""
    found = [
        (*one.parts, code)
        for code, one in sorted(known.items())
        if len(one.parts) == 2 and not one.compatible and code not in excluded
        # A mark, or what begins with one, is not composed either.
        if one.combining == 0 and known[one.parts[0]].combining == 0
    ]
    return column([one[0] for one in found]), column([one[1] for one in found]), column([one[2] for one in found])


def columns(folder: Path) -> dict[str, Column]:
    """What the files in folder say, as fpstore.text.unicode names it."""
    known = characters(folder / "UnicodeData.txt")
    excluded = {int(fields[0], 16) for fields in lines(folder / "CompositionExclusions.txt")}
    facts: dict[str, Column] = {}
    facts["word_ranges"], _ = ranges({code: one.is_word or code == ord("_") for code, one in known.items()})
    facts["space_ranges"], _ = ranges({code: one.is_space for code, one in known.items()})
    facts["mark_ranges"], _ = ranges({code: one.is_mark for code, one in known.items()})
    facts["dense_ranges"], _ = ranges({code: one.is_dense for code, one in known.items()})
    marks = {code: one.combining for code, one in known.items()}
    facts["combining_ranges"], facts["combining_classes"] = ranges(marks)
    for name, becomes in (
        ("decomposed", decompositions(known)),
        ("folded", foldings(folder / "CaseFolding.txt")),
    ):
        facts[f"{name}_codes"], facts[f"{name}_counts"], facts[f"{name}_points"] = changes(becomes)
    composed = compositions(known, excluded)
    facts["composed_firsts"], facts["composed_seconds"], facts["composed_points"] = composed
    facts["assigned_ranges"], _ = ranges(dict.fromkeys(known, 1))
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=parse_folder)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    for name, expected in SHA256.items():
        found = hashlib.sha256((arguments.folder / name).read_bytes()).hexdigest()
        if found != expected:
            sys.exit(f"{name}: found SHA-256 {found}, expected {expected}, that of Unicode {UNICODE_VERSION}")
    arguments.output.write_bytes(pack(columns(arguments.folder)))


if __name__ == "__main__":
    main()
