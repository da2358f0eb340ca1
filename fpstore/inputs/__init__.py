"""Owns the readers of input: files of many formats, streamed as batches of fingerprints or as documents."""

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
