"""Owns the coprocess: each line that is asked is answered by one line, at once and in order.

A line that cannot be read is answered by one with an error, and the next goes on. What is wrong with the store, and
not with a line, ends it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpstore.inputs import BadInput
from fpstore.inputs.cells import BITS, MAX_VALUE
from fpstore.serve import forms
from fpstore.serve.kinds import Kind, kind_of, of_fingerprints
from fpstore.text import Recipe
from fpstore.types import Array, Ids

# What is read at once: as many lines as wait are answered together.
READ_BYTES = 1 << 16
MAX_LINE_BYTES = 16 << 20
# Of the answer to one line, and of the names in it before they are written.
MAX_MATCHES = 100_000
MAX_ANSWER_BYTES = 32 << 20
FIELDS = ("fingerprint", "text", "id")

# The next bytes that there are, at most so many, as soon as there are some; empty at the end.
Read = Callable[[int], bytes]
# The answer to each of some rows.
Ask = Callable[["Rows"], list[str]]


@dataclass(frozen=True)
class Rows:
    """Lines that could be read. ids: as they stand there, None where a line has none; numbers: of the lines."""

    fingerprints: Array
    ids: list[object]
    numbers: list[int]

    def single(self, index: int) -> "Rows":
        """One of them."""
        own = slice(index, index + 1)
        return Rows(self.fingerprints[own], self.ids[own], self.numbers[own])


def answer_lines(
    read: Read,
    write: Callable[[str], object],
    flush: Callable[[], object],
    recipe: Recipe | None,
    ask: Ask,
    kind: Kind | None = None,
) -> None:
    """Answer every line that is read, until the end. recipe: that of texts, None where there is none.

    kind: that of the store; fingerprints of 64 bits by default.

    Answers are written one by one, and flushed when all lines that had come have theirs.
    """
    number = 0
    for lines in blocks_of(read):
        for answer in answers(lines, number, recipe, ask, kind or of_fingerprints(BITS)):
            write(answer)
        flush()
        number += len(lines)


def blocks_of(read: Read) -> Iterator[list[bytes | None]]:
    """The lines that have come, each with its line feed and as soon as that has; None for one of over MAX_LINE_BYTES.

    The last may have none.
    """
    rest, too_long = bytearray(), False
    while data := read(READ_BYTES):
        *ended, last = data.split(b"\n")
        lines: list[bytes | None] = []
        for end in ended:
            lines.append(None if too_long or len(rest) + len(end) > MAX_LINE_BYTES else bytes(rest) + end + b"\n")
            rest.clear()
            too_long = False
        rest += last
        if len(rest) > MAX_LINE_BYTES:
            rest.clear()
            too_long = True
        if lines:
            yield lines
    if rest or too_long:
        yield [None if too_long else bytes(rest)]


def answers(lines: Sequence[bytes | None], first: int, recipe: Recipe | None, ask: Ask, kind: Kind) -> Iterator[str]:
    """The answer to each of some lines, the first of which has that number."""
    refused: dict[int, str] = {}
    keys: list[Array] = []
    ids: list[object] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, first):
        try:
            key, one_id = read_line(line, recipe, kind)
        except Exception as error:
            refused[number] = _refusal(number, error)
        else:
            keys.append(key)
            ids.append(one_id)
            numbers.append(number)
    found = _asked(Rows(np.concatenate(keys), ids, numbers), ask) if numbers else iter(())
    for number in range(first, first + len(lines)):
        yield refused[number] if number in refused else next(found)


def read_line(line: bytes | None, recipe: Recipe | None, kind: Kind) -> tuple[Array, object]:
    """The fingerprint that a line asks about, uint64[1], or a signature, and the id in it. BadInput."""
    if line is None:
        raise BadInput(f"line: found more than {MAX_LINE_BYTES} bytes, expected at most so many")
    is_whole = line.endswith(b"\n")
    line = line.strip()
    if not line.startswith(b"{"):
        digits = line.decode("utf-8", "replace")
        key, whole = kind.fingerprints([digits], "fingerprint"), kind.digits
        # Nothing can have been cut off of one with all digits.
        if not is_whole and len(digits.lower().removeprefix("0x")) < whole:
            expected = f"one, or {whole} digits: who wrote it may have ended in the middle"
            raise BadInput(f"fingerprint: found {digits!r} with no line feed behind it, expected {expected}")
        return key, None
    record = forms.object_of(line, "line", FIELDS)
    named = [name for name in ("fingerprint", "text") if record.get(name) is not None]
    if len(named) != 1:
        raise BadInput(f"line: found {' and '.join(named) or 'neither'}, expected a fingerprint or a text")
    if "fingerprint" in named:
        return kind.fingerprints([record["fingerprint"]], "fingerprint"), record.get("id")
    if recipe is None:
        raise BadInput("text: found one, expected a fingerprint: the store has no recipe for texts")
    return kind.sketches(recipe, forms.texts_of([record["text"]], "text")), record.get("id")


def probing(store: Any, nearness: float | None) -> Ask:
    """Answers with all that is near each line.

    nearness: the max_distance of a store of fingerprints, the min_similarity of one of signatures. Raises what is wrong
    with it.
    """
    kind = _kind_that_takes(store, nearness)
    asked = {kind.parameter: nearness}
    store.max_matches, store.max_name_bytes = MAX_MATCHES, MAX_ANSWER_BYTES

    def ask(rows: Rows) -> list[str]:
        matches = store.probe_many(rows.fingerprints, threads=1, **asked)
        ends = np.searchsorted(matches.query, np.arange(len(rows.numbers) + 1)).tolist()
        found = forms.bounded(kind.matches(matches, with_query=False), MAX_ANSWER_BYTES)
        answers = []
        for index, (key, one_id) in enumerate(zip(rows.fingerprints, rows.ids, strict=True)):
            near = forms.SEPARATOR.join(found[ends[index] : ends[index + 1]])
            tag = "" if one_id is None else f'"query_id": {json.dumps(one_id)}'
            told = (kind.told(key).format("query_"), tag, f'"matches": [{near}]')
            answers.append(", ".join(filter(None, told)))
        return [_line("probe-line", number, answer) for number, answer in zip(rows.numbers, answers, strict=True)]

    return ask


def adding(store: Any, nearness: float | None, first_id: int | None) -> Ask:
    """Adds what is near nothing that came before, and answers with what became of each line.

    nearness: as of probing. first_id: ids are the numbers of the lines, from there on; None: they are in the lines.
    """
    kind = _kind_that_takes(store, nearness)
    kind.expect_bounded(store, nearness)
    asked = {kind.parameter: nearness}
    store.max_name_bytes = MAX_ANSWER_BYTES

    def ids_of(rows: Rows) -> Ids | None:
        if first_id is not None:
            if any(one_id is not None for one_id in rows.ids):
                raise BadInput("id: found one, expected none, as --ids numbers the lines")
            if first_id + rows.numbers[-1] > MAX_VALUE:
                raise BadInput(f"id: found {first_id + rows.numbers[-1]}, expected at most {MAX_VALUE}")
            return np.array([first_id + number for number in rows.numbers], dtype=np.uint64)
        if store.id_type is None:
            if any(one_id is not None for one_id in rows.ids):
                raise BadInput("id: found one, expected none: the store has no ids")
            return None
        if None in rows.ids:
            raise BadInput("id: found none, expected one, as the store has ids")
        return forms.ids_of(rows.ids, store.id_type, "id")

    def ask(rows: Rows) -> list[str]:
        ids = ids_of(rows)
        found = store.add_if_new(rows.fingerprints, ids=ids, **asked)
        cells = forms.cells_of(ids, len(rows.numbers))
        answers = zip(rows.numbers, cells, rows.fingerprints, kind.additions(found), strict=True)
        return [
            _line("add-line", number, ", ".join(filter(None, (f'"id": {cell}', kind.told(key).format(""), became))))
            for number, cell, key, became in answers
        ]

    return ask


def _kind_that_takes(store: Any, nearness: float | None) -> Kind:
    kind = kind_of(store)
    kind.expect_takes(store, nearness)
    return kind


def _asked(rows: Rows, ask: Ask) -> Iterator[str]:
    """The answers to rows: of all together, and one by one where that is refused, to find whose fault it is."""
    try:
        yield from ask(rows)
        return
    except Exception as error:
        if not forms.is_of_the_request(error):
            raise
        if len(rows.numbers) == 1:
            yield _refusal(rows.numbers[0], error)
            return
    for index in range(len(rows.numbers)):
        yield from _asked(rows.single(index), ask)


def _refusal(number: int, error: Exception) -> str:
    """The answer to a line that is at fault; what is not about the line is raised."""
    if not forms.is_of_the_request(error):
        raise error
    return _line("error", number, f'"error": {json.dumps(forms.error_of(error))}')


def _line(kind: str, number: int, fields: str) -> str:
    return f'{{"format": "fpstore.{kind}/1", "line": {number}, {fields}}}\n'
