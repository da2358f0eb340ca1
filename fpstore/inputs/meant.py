"""Owns what a file may hold that its suffix calls a text: fingerprints, JSON, a table, an archive of pages.

Read as one text it would be one row where many were meant, and nothing would be wrong with that row. So a list of
fingerprints is known by most of its lines: one that is cut, a header or a name beside each makes no text of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice

from fpstore.inputs.cells import ASK_WAY, BITS, WIDE_BITS, Width, width
from fpstore.inputs.columns import FINGERPRINT_NAMES, ID_NAME, TEXT_NAME
from fpstore.inputs.errors import BadInput
from fpstore.inputs.records import Request

ASK_FORMAT = "format (--format)"
_LINE = re.compile(r"\S[^\n]*")
_LONGEST = 100  # characters of a line that may be a fingerprint, without its id
_LONGEST_OBJECT = 1 << 20  # characters; of a longer line its ends tell
# Of all decimals of a list one has more bits than all but so many at least: years, prices and telephones do not.
_FEWER_BITS = 12
_LOOK_LINES, _FIRST_LINES = 64, 4  # of a table; where none of the first has a fingerprint, no others are looked at
_BETWEEN = re.compile(r"[\t,; |]+")  # cells
_NUMBER = re.compile(r"[-+]?[0-9]{1,20}")
_OBJECTS = re.compile(r"\[\s*\{\s*[\"}]")  # an array of objects begins so
_NAMES = re.compile(r"[\w.-]+(?:([,\t])[\w.-]+)+")
_KNOWN = frozenset((*FINGERPRINT_NAMES, ID_NAME, TEXT_NAME))


def expect_text(document: str, path: str, name: str, request: Request) -> None:
    """BadInput where a file that only its suffix calls a text may be meant for rows, and was named, or is a first one.

    Of the others of a folder it is noted: they are read as the first was.
    """
    if not request.first_texts:
        return
    found, meant = _other(document, request)
    if not found:
        return
    if path not in request.first_texts:
        request.faults.notes[f"text of {found}, read as one"] += 1
        return
    expected = f"{ASK_FORMAT} {meant}, or text, by which the whole file is one text"
    raise BadInput(f"{name}: found {found}, in a file of texts by its suffix; expected {expected}", source=name)


def _other(document: str, request: Request) -> tuple[str, str]:
    """What a text is made of, and the format that reads it so; empty for a text that is nothing else."""
    first = _LINE.search(document)
    if first is None:
        return "", ""
    if document.startswith("WARC/", first.start()):
        return "an archive of pages", "warc"
    if document[first.start()] == "{":
        return ("JSON objects, one a line", "jsonl") if _is_json_lines(document) else ("", "")
    if _OBJECTS.match(document, first.start()) is not None and document.rstrip().endswith("]"):
        return "an array of JSON objects", "json"
    separator = _separator(document, first)
    if separator:
        return f"a table with columns {first[0].strip()}", "csv" if separator == "," else "tsv"
    if request.takes_fingerprints and not request.reads_texts and request.recipe.sketch != "minhash":
        head = _head(document, min(request.bits, BITS) // 4)
        for bits in dict.fromkeys((request.bits, BITS, *WIDE_BITS)):
            of_other = "" if bits == request.bits else f" with --bits {bits}"
            way, is_named = _way(document, width(bits))
            if way and is_named and request.asked.ids is not None:
                told = f"nothing but {way} fingerprints of {bits} bits and names"
                columns = "--fingerprint-column 0, --id-column 1 and --id-type string"
                return told, f"tsv with {columns}{of_other.replace(' with', ' and')}"
            if way:
                meant = (
                    "hex" if way == "hexadecimal" else f"hex with {ASK_WAY} {'decimal' if way == 'decimal' else 'hex'}"
                )
                return f"nothing but {way} fingerprints of {bits} bits", f"{meant}{of_other}"
            if _are_rows(head, width(bits)):
                table = f"csv or tsv{of_other}, as a table, or hex, where a line is one"
                return f"fingerprints of {bits} bits in most lines", table
    return "", ""


def _separator(document: str, first: re.Match[str]) -> str:
    """What is between the cells of a table whose first line has names, one of which is known; empty for no such."""
    names = _NAMES.fullmatch(first[0].strip()) if first.end() - first.start() < _LONGEST else None
    if names is None or _KNOWN.isdisjoint(re.split(r"[,\t]", names[0].lower())):
        return ""
    separator = names[1]
    second = _LINE.search(document, first.end())
    return separator if second and second[0].count(separator) >= names[0].count(separator) else ""


def _is_json_lines(document: str) -> bool:
    """Whether its first two lines are objects of JSON, or its only one."""
    return all(_is_object(line) for line, _ in zip(_LINE.finditer(document), range(2), strict=False))


def _is_object(line: re.Match[str]) -> bool:
    if line.end() - line.start() > _LONGEST_OBJECT:
        document = line.string
        return document[line.start()] == "{" and document[line.end() - 9 : line.end()].rstrip().endswith("}")
    try:
        return isinstance(json.loads(line[0]), dict)
    except (ValueError, RecursionError):
        return False


def _way(document: str, of: Width) -> tuple[str, bool]:
    """How every line writes a fingerprint of this width, with an id after a tab or not, and whether one is a name.

    Empty where one does not. Hexadecimal of fewer digits has all of them in most lines.
    """
    found: set[str] = set()
    most = lines = short = 0
    is_named = False
    for line in _LINE.finditer(document):
        cell, _, id_cell = line[0].partition("\t")
        written = cell.strip()
        kind = of.kind(written) if len(written) < _LONGEST else "bad"
        lines += 1
        if kind != "hex" and len(written) < of.digits and written.isalnum() and of.said["hex"].fullmatch(written):
            short += 1
            most = max(most, int(written)) if kind == "decimal" else most
            found.add("letters" if kind == "bad" else kind)
        elif kind == "bad":
            return "", False
        else:
            most = max(most, int(written)) if kind == "decimal" else most
            found.add("long" if kind == "decimal" else kind)
        is_named = is_named or bool(id_cell.strip() and not _NUMBER.fullmatch(id_cell.strip()))
    if "hex" in found or "letters" in found:
        is_most = 2 * short < lines and "long" not in found
        return ("hexadecimal" if not short else "shortened hexadecimal") if is_most else "", is_named
    if "decimal" in found or "long" in found:
        return "decimal" if most >> max(0, of.bits - _FEWER_BITS) else "", is_named
    return "hexadecimal" if found else "", is_named


def _head(document: str, digits: int) -> list[tuple[str, str]]:
    """The first lines, of each how it begins and ends; none where none of the very first may have so many digits."""
    ends = ((line.start(), line.end()) for line in _LINE.finditer(document))
    head = [_ends(document, *place) for place in islice(ends, _FIRST_LINES)]
    run = _run(digits)
    if not any(run.search(begin) or run.search(end) for begin, end in head):
        return []
    return head + [_ends(document, *place) for place in islice(ends, _LOOK_LINES - _FIRST_LINES)]


def _ends(document: str, start: int, end: int) -> tuple[str, str]:
    return document[start : min(end, start + _LONGEST)], document[max(start, end - _LONGEST) : end].rstrip()


@cache
def _run(digits: int) -> re.Pattern[str]:
    return re.compile(rf"[0-9a-fA-F]{{{digits}}}")


@cache
def _whole(digits: int) -> re.Pattern[str]:
    """A fingerprint that no word is and no number of so many digits."""
    letter = "(?=[0-9a-fA-F]*[a-fA-F]|0)"
    return re.compile(rf"(?:0[xX])?{letter}[0-9a-fA-F]{{{digits}}}|[-+]?[0-9]{{{digits + 1},}}")


def _are_rows(head: Sequence[tuple[str, str]], of: Width) -> bool:
    """Whether most of some lines, two at least, begin or end with a fingerprint."""
    whole = _whole(of.digits)
    count = 0
    for begin, end in head:
        cells = (_BETWEEN.split(begin, 1)[0].strip("\"'"), _BETWEEN.split(end)[-1].strip("\"'"))
        count += any(whole.fullmatch(written) and of.kind(written) != "bad" for written in cells)
    return count > 1 and 2 * count > len(head)
