"""Owns the formats that hold documents: `jsonl` and `json`, objects with a text, `text` and `html`, one a file."""

from __future__ import annotations

import importlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

from fpstore.inputs.columns import ASK_FINGERPRINT, ASK_IDS, ASK_TEXT, FINGERPRINT_NAMES, ID_NAME, id_field, with_ids
from fpstore.inputs.compressed import Lines, LongLine, Stream, display_name, open_stream, plain_file
from fpstore.inputs.decoding import EXPECTED_TEXT, text_of
from fpstore.inputs.endings import is_begun_json, may_be_cut
from fpstore.inputs.errors import BLANK, BadInput, Faults, about, cut, shown
from fpstore.inputs.items import first_of, items_of
from fpstore.inputs.layout import JSON_OBJECTS
from fpstore.inputs.meant import expect_text
from fpstore.inputs.pages import Page
from fpstore.inputs.records import Group, Records, Request
from fpstore.inputs.sources import Input, Source, is_stream

DEFAULT_FIELD = "text"
FORMATS_OF_FIELDS = frozenset(("jsonl", "json"))
_CALLED_ID = frozenset(("id", "ID", "Id", "iD"))
MAX_DOCUMENT_BYTES = 256 << 20
# Where the first line of JSON lines begins a list of objects.
_OF_OBJECTS = re.compile(rb"\s*\[\s*(?:\{|$)")
_A_LIST = "a JSON object; a list of them is of --format json (format='json')"
MISSING = object()
BOTH = object()
# A character that is written by its number, and whether the string that it stands in is a key.
_ESCAPED = re.compile(rb'\\u[^"]*"(\s*:)?')


def read_jsonl(path: str, request: Request) -> Iterator[Records]:
    """One JSON object a line; the value is one of its fields, and so is the id where it is asked for."""
    with open_stream(path, request.on_bytes, is_text=True, within=request.within) as stream:
        yield from _read_objects(stream, "line", _numbered(Lines(stream)), request)


def read_json(path: str, request: Request) -> Iterator[Records]:
    """An array of such objects; or objects, each in a line of its own; or one object over several lines."""
    with open_stream(path, request.on_bytes, is_text=True) as stream:
        first, blank_lines = first_of(stream)
        if first == b"[":
            yield from _read_objects(stream, "item", enumerate(items_of(stream, first), 1), request)
            return
        line = first + stream.line(blank_lines + 1)
        if not _is_whole(line):
            rest = stream.whole(MAX_DOCUMENT_BYTES)
            if rest and _is_whole(line + rest):
                yield from _read_objects(stream, "item", [(1, line + rest)], request)
                return
            stream = replace(stream, reader=io.BufferedReader(io.BytesIO(rest)))
        yield from _read_objects(stream, "line", _numbered(Lines(stream, line, blank_lines)), request)


def read_rows(
    lines: Iterable[tuple[int, bytes | BadInput]], name: str, request: Request, unit: str = "row"
) -> Iterator[Records]:
    """The same of rows that are no file: each with its number, as a line of JSON, or what is wrong with it."""
    yield from _read_objects(Stream(name, io.BufferedReader(io.BytesIO()), None), unit, lines, request)


def read_rest(stream: Stream, number: int, request: Request, *, is_begun: bool) -> Iterator[Records]:
    """The lines of a stream of JSON lines, behind the first so many; is_begun: whether one of these was not blank."""
    yield from _read_objects(stream, "line", _numbered(Lines(stream, number=number)), request, is_begun=is_begun)


def fields_of(path: str) -> list[str] | None:
    """The names of the fields of the first object of a file of JSON, none where it does not begin with one.

    None for a file without anything in it.
    """
    try:
        with open_stream(path, None, is_text=True) as stream:
            first, _ = first_of(stream)
            if not first:
                return None
            item = next(items_of(stream, first), b"") if first == b"[" else first + stream.line(1)
        record = _load_json(item)
    except (ValueError, RecursionError):
        return []  # reading says what is wrong
    return list(record) if isinstance(record, dict) else []


def first_fields(one: Input) -> tuple[Source | None, list[str] | None]:
    """The first file of JSON objects in which there is something, and the fields of its first object.

    Without fields where all are empty, and None for both where there is no such file, or only a stream.
    """
    source = None
    if not is_stream(one.path) and not FORMATS_OF_FIELDS.isdisjoint(one.kinds):
        for source in one.files(Faults(True)):
            names = fields_of(source.path) if source.format in FORMATS_OF_FIELDS else None
            if names is not None:
                return source, names
    return source, None


def read_text(paths: Iterable[str], request: Request) -> Iterator[Records]:
    """Each file as one document.

    One of more than MAX_DOCUMENT_BYTES, whose compressed data is damaged, or that is no text, is a bad row.
    """
    return _read_files(paths, request, request.html)


def read_html(paths: Iterable[str], request: Request) -> Iterator[Records]:
    """As read_text, for pages."""
    return _read_files(paths, request, True)


def _read_objects(
    stream: Stream,
    unit: str,
    objects: Iterable[tuple[int, bytes | BadInput]],
    request: Request,
    *,
    is_begun: bool = False,
) -> Iterator[Records]:
    """What objects of JSON hold, each with its number; unit: what that counts. is_begun: whether some came before."""
    load = json_loader()
    field = request.value_column or request.json_field
    if field is None:
        field = ID_NAME if request.asked.of_ids else DEFAULT_FIELD
    fields: list[str | int] = []
    keys: dict[str, bytes] = {}
    id_name: str | None = None
    asks_ids = request.asked.ids == "auto" and request.asked.id is None and not request.asked.of_ids
    may_be_fingerprints = request.takes_fingerprints and request.value_column is None
    group = Group(stream.name, unit, request)
    group.layout = JSON_OBJECTS
    for place, line in objects:
        if isinstance(line, BadInput):
            group.meet(line)
            continue
        if not line.strip() and unit == "line":
            # Nobody writes an object so, a null neither, and no reader of JSON lines makes a row of it.
            if is_begun:
                request.faults.pass_over(BLANK)
            continue
        expected = _A_LIST if unit == "line" and place == 1 and _OF_OBJECTS.match(line) else "a JSON object"
        is_begun = True
        try:
            record = load(line)
        except (ValueError, RecursionError) as error:
            why = cut(str(error).partition("\n")[0])
            ends = may_be_cut(line) if unit == "line" and is_begun_json(line) else ""
            group.refuse(place, f"{_shown(line)} ({why})", f"{expected}{ends}")
            continue
        if not isinstance(record, dict):
            group.refuse(place, _shown(line), expected)
            continue
        if not fields:
            where = f"{stream.name}, {unit} {place}"
            with about(stream.name, place):
                names = list(record)
                id_name = None if request.asked.of_ids else id_field(names, where, request.asked, request.decided)
            group.with_ids = id_name is not None
            fields = [field] if id_name is None else [field, id_name]
            keys = keys_of(fields)
        if asks_ids and id_name is None and not _CALLED_ID.isdisjoint(record):
            told = f"none, as in the object before; {ASK_IDS} says whether ids are a field or row numbers"
            group.refuse(place, f"a field called {ID_NAME}", told)
            continue
        twice = named_twice(line, keys)
        if twice is not None:
            group.refuse(place, f"field {twice} twice", "it once")
            continue
        values = [field_of(record, name) for name in fields]
        if BOTH in values:
            name = fields[values.index(BOTH)]
            group.refuse(place, f"{name} as a field, and as a path to one", "one of the two")
            continue
        if any(value is MISSING for value in values):
            found = f"fields {cut(', '.join(record)) or 'none'}"
            missing = fields[values.index(MISSING)]
            if missing == DEFAULT_FIELD and may_be_fingerprints and _has_fingerprint(record):
                # Every line behind it would be bad in the same way, and all of the source be passed over.
                told = f"one named {missing}, or {ASK_FINGERPRINT} or {ASK_TEXT}"
                where = f"{stream.name}, {unit} {place}"
                raise BadInput(f"{where}: found {found}, expected {told}", source=stream.name, line=place)
            group.refuse(
                place, found, f"one named {missing}" + (f", or {ASK_TEXT}" if missing == DEFAULT_FIELD else "")
            )
            continue
        may_be_fingerprints = False
        group.add(place, values[0], values[-1], len(line), line if unit == "line" else _on_one_line(line))
        if group.is_full:
            yield group.take()
    yield group.take()


def _has_fingerprint(record: dict[str, Any]) -> bool:
    return any(name.lower() in FINGERPRINT_NAMES for name in record)


def _numbered(lines: Lines) -> Iterator[tuple[int, bytes | LongLine]]:
    while True:
        try:
            line: bytes | LongLine = next(lines)
        except StopIteration:
            return
        except LongLine as error:
            line = error
        yield lines.number, line


def _shown(line: bytes) -> str:
    return shown(line[:1000].strip().decode("utf-8", "replace"))


def _on_one_line(item: bytes) -> bytes:
    """A value of JSON without the ends of lines, which are only between its parts."""
    return item.replace(b"\n", b" ").replace(b"\r", b" ")


def _is_whole(line: bytes) -> bool:
    """Whether a line, or several, are a value of JSON."""
    try:
        _load_json(line)
    except (ValueError, RecursionError):
        return False
    return True


def _read_files(paths: Iterable[str], request: Request, html: bool) -> Iterator[Records]:
    group = Group("", "", request)
    for path in paths:
        name = display_name(path)
        with about(name):
            with_ids(request.asked, request.decided, False, name)
        try:
            data = _data_of(path, name, request)
        except BadInput as error:
            group.meet(error)
            continue
        try:
            document = Page(data, None) if html else text_of(data)
        except ValueError as error:
            told = f"{name}: found {error}, expected {EXPECTED_TEXT}"
            group.meet(BadInput(told, "file without text", source=name))
            continue
        if isinstance(document, str):
            expect_text(document, path, name, request)
        group.add(name, document, None, len(data))
        if group.is_full:
            yield group.take()
    yield group.take()


def _data_of(path: str, name: str, request: Request) -> bytes:
    """All that a file holds."""
    with about(name):
        data = plain_file(path, MAX_DOCUMENT_BYTES)
        if data is not None:
            if request.on_bytes is not None:
                request.on_bytes(len(data))
            return data
        with open_stream(path, request.on_bytes) as stream:
            return stream.whole(MAX_DOCUMENT_BYTES)


def field_of(record: dict[str, Any], name: str | int) -> Any:
    """The value of a field: that of the whole name, or that which its parts between dots lead to; BOTH, or MISSING."""
    value: Any = record
    for part in str(name).split("."):
        if not isinstance(value, dict) or part not in value:
            return record.get(str(name), MISSING)
        value = value[part]
    return BOTH if name in record and "." in str(name) else value


def keys_of(fields: Iterable[str | int]) -> dict[str, bytes]:
    """The keys that these fields and paths go by, and each as JSON."""
    every = sorted({key for name in fields for key in (str(name), *str(name).split("."))})
    return {key: json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass") for key in every}


def named_twice(line: bytes, keys: dict[str, bytes]) -> str | None:
    """The first of the keys that an object of a line of JSON has twice, None where there is none; keys: as JSON, too.

    Readers of JSON take the last and say nothing. Most lines have each key once, which is seen without reading again.
    """
    is_once = all(line.count(key) <= 1 for key in keys.values())
    if is_once and (b"\\u" not in line or not any(match[1] for match in _ESCAPED.finditer(line))):
        return None
    twice: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        twice.extend(key for key in keys if names.count(key) > 1)
        return dict(pairs)

    json.loads(line.decode("utf-8"), object_pairs_hook=look)
    return twice[0] if twice else None


def json_loader() -> Callable[[bytes], object]:
    """What reads a line of JSON: msgspec where it is installed, with the same outcome as without."""
    try:
        msgspec = importlib.import_module("msgspec")
    except ModuleNotFoundError:
        return _load_json
    decode: Callable[[bytes], object] = msgspec.json.Decoder().decode

    def load(line: bytes) -> object:
        try:
            return decode(line)
        except (msgspec.MsgspecError, RecursionError):
            # msgspec refuses a few lines that json takes, such as those with half of a surrogate pair.
            return _load_json(line)

    return load


def _load_json(line: bytes) -> object:
    return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
