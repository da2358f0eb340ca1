"""Owns what is said of the last thing in a file that does not end its line: that it may be cut, where that may be.

It may be where some bytes behind it would make it right, and only there: what is wrong already stays so, whatever
followed. That is asked of faults alone.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable

# What can stand behind the beginning of an escape, of which one makes it whole where any does.
_ESCAPE_RESTS = ("\\", *("0" * count for count in range(1, 9)))
_LITERAL = re.compile(r"-|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?")
_NUMBER = re.compile(r"(?:\.|(?:\.[0-9]+)?[eE][-+]?)")
_CODE = re.compile(r"\\?u?[0-9a-fA-F]{0,4}")


def has_end(line: str | bytes) -> bool:
    """Whether a line has its end, or all of it that matters: a CR of CR and LF."""
    return line.endswith(("\n", "\r")) if isinstance(line, str) else line.endswith((b"\n", b"\r"))


def may_be_cut(line: str | bytes) -> str:
    """What to say beside what is wrong with a line, or a record of several, where more behind it would mend that."""
    if has_end(line):
        return ""
    within = "record" if ("\n" in line if isinstance(line, str) else b"\n" in line) else "line"
    return f"; the file ends in this {within}, and may be cut"


def goes_on(value: object, rests: Iterable[str], is_right: Callable[[str], bool]) -> bool:
    """Whether a text with one of these behind it is right."""
    return isinstance(value, str) and any(is_right(value + rest) for rest in rests)


def is_begun_text(cell: str) -> bool:
    """Whether bytes that are no UTF-8, halves of surrogate pairs in a text, are those of a last character alone."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(cell.encode("utf-8", "surrogateescape"))
    except UnicodeError:
        return False
    return True


def is_begun_escape(cell: str, read: Callable[[str], object]) -> bool:
    """Whether a name in a line ends in the midst of an escape; read: raises ValueError for what is none."""

    def is_right(longer: str) -> bool:
        try:
            read(longer)
        except ValueError:
            return False
        return True

    return goes_on(cell, _ESCAPE_RESTS, is_right)


def is_begun_json(line: bytes) -> bool:
    """Whether what is no JSON is the beginning of an object of it."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(line).rstrip(" \t\r\n")
    except UnicodeError:
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        is_value, is_after = error.msg.startswith("Expecting value"), error.msg.startswith("Expecting ','")
        return text.lstrip().startswith("{") and (
            not rest
            or error.msg.startswith("Unterminated string")
            or (is_value and _LITERAL.fullmatch(rest) is not None)
            or (is_after and text[error.pos - 1].isdigit() and _NUMBER.fullmatch(rest) is not None)
            or (error.msg.startswith("Invalid \\u") and _CODE.fullmatch(rest) is not None)
        )
    except (ValueError, RecursionError):
        return False
    return True  # but for the last character
