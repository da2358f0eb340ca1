"""Owns the readers of input: files of many formats, streamed as batches of fingerprints or as documents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpstore.inputs.cells import parse_fingerprint
    from fpstore.inputs.errors import BadInput
    from fpstore.inputs.fields import Field, cells_of
    from fpstore.inputs.given import GivenDocuments, plain
    from fpstore.inputs.layout import DOCUMENTS, Layout, Row
    from fpstore.inputs.reader import DEFAULT_BATCH, Documents, Reader, documents, read, read_ids
    from fpstore.inputs.records import Batch
    from fpstore.inputs.resolving import has_columns, has_header
    from fpstore.inputs.sources import FORMATS, format_of
    from fpstore.inputs.text import MISSING

__all__ = [
    "DEFAULT_BATCH",
    "DOCUMENTS",
    "FORMATS",
    "MISSING",
    "BadInput",
    "Batch",
    "Documents",
    "Field",
    "GivenDocuments",
    "Layout",
    "Reader",
    "Row",
    "cells_of",
    "documents",
    "format_of",
    "has_columns",
    "has_header",
    "parse_fingerprint",
    "plain",
    "read",
    "read_ids",
]

# By what is asked for: who types one fingerprint does not wait for what reads texts.
_HOME_OF = {
    "BadInput": "errors",
    "Batch": "records",
    "DEFAULT_BATCH": "reader",
    "DOCUMENTS": "layout",
    "Documents": "reader",
    "FORMATS": "sources",
    "Field": "fields",
    "GivenDocuments": "given",
    "Layout": "layout",
    "MISSING": "text",
    "Reader": "reader",
    "Row": "layout",
    "cells_of": "fields",
    "documents": "reader",
    "format_of": "sources",
    "has_columns": "resolving",
    "has_header": "resolving",
    "parse_fingerprint": "cells",
    "plain": "given",
    "read": "reader",
    "read_ids": "reader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fpstore.inputs' has no attribute {name!r}")
    found = getattr(import_module(f"fpstore.inputs.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
