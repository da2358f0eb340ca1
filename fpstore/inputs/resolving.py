"""Owns what is told of inputs before they are read: of which kind each is, and what it cannot give."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fpstore.errors import PathLike, RecipeError
from fpstore.inputs import remote
from fpstore.inputs.cells import ASK_ORDER, ASK_WAY, EXPECTED_BYTES, MAX_VALUE, WAYS, WIDE_BITS, expect_byte_order
from fpstore.inputs.columns import ASK_FINGERPRINT, ASK_HEADER, ASK_TEXT, FINGERPRINT_NAMES
from fpstore.inputs.compressed import SUFFIXES, display_name
from fpstore.inputs.delimited import DIALECTS
from fpstore.inputs.errors import AS_A_TABLE, BadInput
from fpstore.inputs.records import Request
from fpstore.inputs.sources import FORMATS, Input, Source, inputs_of, is_stream
from fpstore.inputs.text import DEFAULT_FIELD, FORMATS_OF_FIELDS, first_fields

TABLES = (*DIALECTS, "parquet")
OF_DOCUMENTS = ("text", "html", "warc")  # these hold nothing but texts, and have no columns
OF_PIECES = ("hex", "npy", "u64")  # these hold nothing but numbers


def resolve(
    sources: Sequence[PathLike], format: str, request: Request, *, of_documents: bool = False
) -> tuple[list[Input], Request]:
    """The sources with their formats, and the request with the field of fingerprints of JSON objects that have no text.

    Every mistake is told here that can be told without reading more than the first of such objects.
    """
    if format not in FORMATS:
        raise ValueError(f"format: found {format!r}, expected one of {', '.join(FORMATS)}")
    if request.rows < 1:
        raise ValueError(f"batch: found {request.rows}, expected at least 1")
    request.asked.check()
    if request.fingerprint_format not in WAYS:
        raise ValueError(f"fingerprint_format: found {request.fingerprint_format!r}, expected {', '.join(WAYS)}")
    expect_byte_order(request.byte_order, request.fingerprint_format)
    if request.first_id and request.asked.ids != "row":
        raise ValueError(f"first_id: found {request.first_id} with ids {request.asked.ids!r}, expected ids 'row'")
    request.check_id_type()
    if not 0 <= request.first_id <= MAX_VALUE:
        raise ValueError(f"first_id: found {request.first_id}, expected 0 to 2**64 - 1")
    resolved = inputs_of(sources, format)
    kinds = kinds_of(resolved)
    if request.asked.header is not None and not any(kind.format in DIALECTS for kind in kinds):
        formats = ", ".join(dict.fromkeys(kind.format for kind in kinds)) or "none"
        raise ValueError(f"{ASK_HEADER}: found it with format {formats}, expected csv or tsv")
    if request.value_column is None and not of_documents and not request.asked.of_ids:
        request = _with_field_of_fingerprints(resolved, request)
    if format == "auto":
        request = replace(request, first_texts=frozenset(kind.path for kind in kinds if kind.format == "text"))
    # Documents have no columns: the one of the texts is for the tables beside them.
    is_beside = request.reads_texts and any(kind.format not in OF_DOCUMENTS for kind in kinds)
    for kind in kinds:
        _check(kind, request, takes_column=is_beside)
    return resolved, request


def _with_field_of_fingerprints(inputs: list[Input], request: Request) -> Request:
    """The request, for JSON objects of which the first has no text but a fingerprint by its name.

    BadInput where it has both. A stream is not looked at: its objects have texts unless something else is said, and
    reading refuses it where they have fingerprints instead.
    """
    empty: list[str] = []
    for one in inputs:
        source, names = first_fields(one)
        if source is not None and names is None:
            empty.append(one.path)
        called = [name for name in names or () if name.lower() in FINGERPRINT_NAMES]
        if source is None or names is None or not called or request.json_field is not None:
            continue
        if len(called) > 1 or DEFAULT_FIELD in names:
            name, found = display_name(source.path), f"found fields {', '.join(names)}"
            raise BadInput(f"{name}: {found}; expected {ASK_FINGERPRINT} or {ASK_TEXT}", source=name)
        request = replace(request, json_field=called[0])
    return replace(request, empty=frozenset(empty))


def telling_of(inputs: list[Input], request: Request) -> list[Source]:
    """As kinds_of, without files of JSON in which there is nothing: these are neither texts nor fingerprints."""
    kinds = [(one, Source(path, format)) for one in inputs for format, path in one.kinds.items()]
    return [kind for one, kind in kinds if kind.format not in FORMATS_OF_FIELDS or one.path not in request.empty]


def kinds_of(inputs: list[Input]) -> list[Source]:
    """A file of each format that an input has: what is said of it holds for the others."""
    return [Source(path, format) for one in inputs for format, path in one.kinds.items()]


def _check(source: Source, request: Request, *, takes_column: bool) -> None:
    """Refuse what the format of a source cannot give."""
    name, format = display_name(source.path), source.format
    stem_suffix = os.path.splitext(remote.naming_part(source.path))[1].lower()
    if format == "parquet" and (is_stream(source.path) or stem_suffix in SUFFIXES):
        raise ValueError(f"{name}: found a stream, expected a plain file for format parquet")
    no_columns = OF_PIECES if takes_column else (*OF_PIECES, *OF_DOCUMENTS)
    if format in no_columns and request.value_column is not None:
        raise ValueError(f"{name}: found column {request.value_column!r}, expected none for format {format}")
    asked = request.asked
    if asked.of_ids and format in ("hex", *OF_DOCUMENTS):
        raise ValueError(f"{name}: found format {format}, expected one that can hold nothing but ids, or a table")
    if format in OF_PIECES and asked.id is not None and not asked.of_ids:
        raise ValueError(f"{name}: found id_column {asked.id!r}, expected none for format {format}")
    if request.id_type != "uint64" and (format == "hex" or (asked.of_ids and format in ("npy", "u64"))):
        way = f", or to read lines {AS_A_TABLE}" if format == "hex" and not asked.of_ids else ""
        raise ValueError(
            f"{name}: found ids that are names, which format {format} does not hold; expected a table{way}"
        )
    if format in ("npy", "u64", *OF_DOCUMENTS) and (asked.id is not None or asked.ids == "column"):
        others = "row, none or from:N" if request.id_type == "uint64" else "auto (no --ids and no --id-column)"
        raise ValueError(f"{name}: found ids of a column, expected ids (--ids) {others} for format {format}")
    if request.fingerprint_format != "auto" and (holds_texts(source, request) or format in ("npy", "u64")):
        raise ValueError(f"{name}: found {ASK_WAY}, expected none for format {format}: no strings are read as numbers")
    if request.byte_order == "little":
        of_numbers = format == "u64" or (format == "npy" and request.bits not in WIDE_BITS)
        if of_numbers or holds_texts(source, request):
            expected = EXPECTED_BYTES if of_numbers else f"fingerprints with {ASK_ORDER} little"
            what = "numbers" if of_numbers else "texts"
            raise ValueError(f"{name}: found {what} (format {format}), expected {expected}")
    if format in FORMATS_OF_FIELDS and (isinstance(request.value_column, int) or isinstance(asked.id, int)):
        raise ValueError(f"{name}: found a column number, expected the name of a field for format {format}")
    if request.html and not holds_texts(source, request):
        raise ValueError(f"{name}: found html for fingerprints of format {format}, expected texts")


def holds_texts(source: Source, request: Request) -> bool:
    """Whether the values of a source are texts rather than fingerprints."""
    if request.asked.of_ids:
        return False
    if source.format in FORMATS_OF_FIELDS:
        return request.asked.fingerprint is None and request.json_field is None
    return source.format in OF_DOCUMENTS or request.reads_texts


def expect_texts(inputs: list[Input], request: Request) -> None:
    """RecipeError for fingerprints that come ready, where the recipe makes signatures of texts."""
    ready = next((kind for kind in telling_of(inputs, request) if not holds_texts(kind, request)), None)
    if ready is not None:
        found = f"found fingerprints (format {ready.format}), expected texts"
        told = f"recipe {request.recipe.name} makes signatures of them (--text-column)"
        raise RecipeError(f"{display_name(ready.path)}: {found}: {told}")


def expect_one_kind(inputs: list[Input], request: Request) -> None:
    """Refuse texts beside ready-made fingerprints: nobody knows whether these were made by the same recipe."""
    kinds = telling_of(inputs, request)
    texts = [kind for kind in kinds if holds_texts(kind, request)]
    others = [kind for kind in kinds if not holds_texts(kind, request)]
    if texts and others:
        text, other = display_name(texts[0].path), display_name(others[0].path)
        found = f"found texts (format {texts[0].format}), and fingerprints in {other} (format {others[0].format})"
        expected = "only one of the two in all sources, or text_column (--text-column) for texts in columns"
        raise ValueError(f"{text}: {found}; expected {expected}")


def has_columns(source: str | Path, format: str = "auto") -> bool:
    """Whether any file of a source holds rows of columns or fields, and not whole documents. Errors as of read."""
    return any(kind.format not in OF_DOCUMENTS for kind in kinds_of(inputs_of([source], format)))


def has_header(source: str | Path, format: str = "auto") -> bool:
    """Whether any file of a source is CSV or TSV, of which a header can be said. Errors as of read."""
    return any(kind.format in DIALECTS for kind in kinds_of(inputs_of([source], format)))
