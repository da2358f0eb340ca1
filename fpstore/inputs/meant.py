"""Owns what a file may hold that its suffix calls a text: fingerprints, JSON lines, an archive of pages.

Read as one text it would be one row where many were meant, and nothing would be wrong with that row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from fpstore.inputs.cells import ASK_WAY, BITS, WIDE_BITS, Width, width
from fpstore.inputs.errors import BadInput
from fpstore.inputs.records import Request

ASK_FORMAT = "format (--format)"
_LINE = re.compile(r"\S[^\n]*")
_LONGEST = 100  # characters of a line that may be a fingerprint, without its id
_LONGEST_OBJECT = 1 << 20  # characters; of a longer line its ends tell
# Of all decimals of a list one has more bits than all but so many at least: years, prices and telephones do not.
_FEWER_BITS = 12


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
    if request.takes_fingerprints and not request.reads_texts and request.recipe.sketch != "minhash":
        for bits in dict.fromkeys((request.bits, BITS, *WIDE_BITS)):
            way = _way(document, width(bits))
            if way:
                of_other = "" if bits == request.bits else f" with --bits {bits}"
                meant = "hex" if way == "hexadecimal" else f"hex with {ASK_WAY} decimal"
                return f"nothing but {way} fingerprints of {bits} bits", f"{meant}{of_other}"
    return "", ""


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


def _way(document: str, of: Width) -> str:
    """How every line writes a fingerprint of this width, an id after a tab or not; empty where one does not."""
    found: set[str] = set()
    most = 0
    for written in _values(document):
        kind = of.kind(written) if len(written) < _LONGEST else "bad"
        if kind == "bad":
            return ""
        found.add(kind)
        most = max(most, int(written)) if kind == "decimal" else most
    if "hex" in found:
        return "" if "decimal" in found else "hexadecimal"
    if "decimal" in found:
        return "decimal" if most >> max(0, of.bits - _FEWER_BITS) else ""
    return "hexadecimal" if found else ""


def _values(document: str) -> Iterator[str]:
    return (line[0].partition("\t")[0].strip() for line in _LINE.finditer(document))
