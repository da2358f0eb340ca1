"""Owns the formats that hold documents: `jsonl`, one object a line, and `text`, one document a file.

Text is UTF-8; what is not becomes the replacement character, save in JSON, where it is a bad line.
"""

from __future__ import annotations

import codecs
import importlib
import json
import os
from collections.abc import Callable, Iterator
from typing import NoReturn

from fpstore.inputs.compressed import Lines, display_name, open_stream
from fpstore.inputs.errors import BadInput, shown
from fpstore.inputs.records import Group, Records, Request

DEFAULT_FIELD = "text"
MAX_DOCUMENT_BYTES = 256 << 20


def read_jsonl(path: str, request: Request) -> Iterator[Records]:
    """One JSON object a line; the value is one of its fields, and so is the id where it is asked for."""
    load = _json_loader()
    field = DEFAULT_FIELD if request.value_column is None else request.value_column
    fields = [field] if request.ids_column is None else [field, request.ids_column]
    with open_stream(path, request.on_bytes) as stream:
        group = Group(stream.name, "line", request)
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
            missing = [name for name in fields if name not in record]
            if missing:
                found = f"fields {', '.join(record)[:200] or 'none'}"
                group.refuse(place, found, f"one named {missing[0]}")
                continue
            group.add(place, record[field], record[fields[-1]], len(line))
            if group.is_full:
                yield group.take()
        yield group.take()


def read_text(path: str, request: Request) -> Iterator[Records]:
    """A file as one document; a directory as one for each file under it, in sorted order.

    Links under a directory are not followed. A document of more than MAX_DOCUMENT_BYTES, or
    whose compressed data is damaged, is a bad row.
    """
    group = Group(display_name(path), "", request)
    for file in _walk(path) if os.path.isdir(path) else [path]:
        try:
            with open_stream(file, request.on_bytes) as stream:
                data = stream.whole(MAX_DOCUMENT_BYTES)
        except BadInput as error:
            group.meet(error)
            continue
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        group.add(file, text, None, len(data))
        if group.is_full:
            yield group.take()
    yield group.take()


def _walk(directory: str) -> Iterator[str]:
    """Every regular file under directory, in the order of its path, names compared by code point."""

    def fail(error: OSError) -> NoReturn:
        # A directory that cannot be listed would be a shorter answer.
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
            # It refuses a few lines that json takes, such as half of a surrogate pair.
            return _load_json(line)

    return load


def _load_json(line: bytes) -> object:
    return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
