"""Owns the formats that hold documents: `jsonl`, one object a line, `text` and `html`, one document a file.

Text is UTF-8; what is not becomes the replacement character, except in JSON, where it is a bad line.
"""

from __future__ import annotations

import codecs
import importlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from fpstore.inputs.compressed import Lines, display_name, open_stream
from fpstore.inputs.errors import BadInput, shown
from fpstore.inputs.records import Group, Layout, Page, Records, Request

DEFAULT_FIELD = "text"
MAX_DOCUMENT_BYTES = 256 << 20
_MISSING = object()
_JSON_LINES = Layout("jsonl")


def read_jsonl(path: str, request: Request) -> Iterator[Records]:
    """One JSON object a line; the value is one of its fields, and so is the id where it is asked for."""
    load = _json_loader()
    field = DEFAULT_FIELD if request.value_column is None else request.value_column
    fields = [field] if request.ids_column is None else [field, request.ids_column]
    with open_stream(path, request.on_bytes) as stream:
        group = Group(stream.name, "line", request)
        group.layout = _JSON_LINES
        for place, line in enumerate(Lines(stream), start=1):
            if not line.strip():
                continue
            try:
                record = load(line)
            except (ValueError, RecursionError) as error:
                found = f"{shown(line.strip().decode('utf-8', 'replace'))} ({str(error).partition(chr(10))[0]})"
                group.refuse(place, found, "a JSON object")
                continue
            if not isinstance(record, dict):
                group.refuse(place, shown(line.strip().decode()), "a JSON object")
                continue
            values = [_field(record, name) for name in fields]
            if any(value is _MISSING for value in values):
                found = f"fields {', '.join(record)[:200] or 'none'}"
                group.refuse(place, found, f"one named {fields[values.index(_MISSING)]}")
                continue
            group.add(place, values[0], values[-1], len(line), line)
            if group.is_full:
                yield group.take()
        yield group.take()


def read_text(path: str, request: Request) -> Iterator[Records]:
    """A file as one document; a directory as one for each file under it, in sorted order.

    Links under a directory are not followed. A document of more than MAX_DOCUMENT_BYTES, or
    whose compressed data is damaged, is a bad row.
    """
    return _read_files(path, request, request.html)


def read_html(path: str, request: Request) -> Iterator[Records]:
    """As read_text, for pages."""
    return _read_files(path, request, True)


def _read_files(path: str, request: Request, html: bool) -> Iterator[Records]:
    group = Group(display_name(path), "", request)
    for file in _walk(path) if os.path.isdir(path) else [path]:
        try:
            with open_stream(file, request.on_bytes) as stream:
                data = stream.whole(MAX_DOCUMENT_BYTES)
        except BadInput as error:
            group.meet(error)
            continue
        document = Page(data, None) if html else data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        group.add(file, document, None, len(data))
        if group.is_full:
            yield group.take()
    yield group.take()


def _field(record: dict[str, Any], name: str | int) -> Any:
    """The value of a field: that of the whole name, else that which its parts between dots lead to."""
    if name in record:
        return record[name]
    value: Any = record
    for part in str(name).split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _walk(directory: str) -> Iterator[str]:
    """Every regular file under directory, in the order of its path, names compared by code point."""

    def fail(error: OSError) -> NoReturn:
        # To pass over a directory that cannot be listed would be a shorter answer.
        raise error

    for parent, children, files in os.walk(directory, onerror=fail):
        children.sort()
        for name in sorted(files):
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _json_loader() -> Callable[[bytes], object]:
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
