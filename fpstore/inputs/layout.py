"""Owns what is known of the columns of a source, and of one document in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of what documents are read from.

    format: `jsonl`, whose lines have fields of their own, `csv`, `tsv`, `tsv-quoted`, `tsv-escaped`, `parquet`, or
    `documents` with name and text.
    columns: their names in order; numbers where a table names none. header: the line with the names, b"" without one.
    schema: that of Arrow, of `parquet`. source: what messages call the file of a table, which is no part of it.
    """

    format: str
    columns: tuple[str, ...] = ()
    header: bytes = b""
    schema: Any = None
    source: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        """The kind of file that holds such rows: `tsv` with quotation marks is `tsv` too."""
        return kind_of(self.format)


def kind_of(format: str) -> str:
    """The kind of files of a format: those of `tsv` are one, whatever quotation marks are in them."""
    return format.partition("-")[0]


DOCUMENTS = Layout("documents", ("name", "text"))
JSON_OBJECTS = Layout("jsonl")


class Row(NamedTuple):
    """All that an input has of a document. data: the lines it was read from, or a batch of Arrow and the row in it."""

    layout: Layout
    data: bytes | tuple[Any, int] | None
