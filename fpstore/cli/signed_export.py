"""How export writes a store of signatures: each id, and what is kept of its signature."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from fpstore import OnProgress, Progress
from fpstore.cli.columns import quoted, written_ids

if TYPE_CHECKING:
    from fpstore.minhash import Documents, MinHashStore

    Batches = Iterator[Documents]


class Export:
    """All documents of a store; done: how many were written."""

    def __init__(self, store: "MinHashStore", signed: bool) -> None:
        self.done = 0
        self._store, self._signed = store, signed

    def write(self, format: str, file: BinaryIO, bar: OnProgress | None) -> None:
        """Write them in a format of WRITERS."""
        documents = self._store.rows()  # refused before anything is written
        WRITERS[format](self, file, self._batches(documents, bar))

    def _batches(self, documents: "Batches", bar: OnProgress | None) -> "Batches":
        for found in documents:
            yield found
            self.done += len(found)
            if bar is not None:
                bar(Progress("writing", self.done, None, "documents"))

    def csv(self, file: BinaryIO, batches: "Batches") -> None:
        """Lines of two columns, with a header."""
        file.write(b"id,sketch\n")
        for found in batches:
            numbers = self._store.id_type == "uint64"
            ids = written_ids(found.id, self._signed, False) if numbers else quoted(found.id.tolist())
            file.write("".join(map("{},{}\n".format, ids, _hexadecimal(found))).encode())

    def jsonl(self, file: BinaryIO, batches: "Batches") -> None:
        """An object for each."""
        for found in batches:
            ids = written_ids(found.id, self._signed, True)
            file.write("".join(map('{{"id": {}, "sketch": "{}"}}\n'.format, ids, _hexadecimal(found))).encode())

    def parquet(self, file: BinaryIO, batches: "Batches") -> None:
        """A table of two columns; what is kept is binary."""
        from fpstore.text.packages import need

        arrow = need("pyarrow", "arrow", "writing Parquet")
        tables = need("pyarrow.parquet", "arrow", "writing Parquet")
        number = arrow.int64() if self._signed else arrow.uint64()
        kind = {"string": arrow.string(), "bytes": arrow.binary()}.get(str(self._store.id_type), number)
        schema = arrow.schema([arrow.field("id", kind), arrow.field("sketch", arrow.binary())])
        with tables.ParquetWriter(file, schema) as writer:
            for found in batches:
                ids: Any = found.id.view("int64") if self._signed and found.id.dtype.kind == "u" else found.id
                assert found.sketch is not None
                columns = [arrow.array(ids.tolist(), kind), arrow.array(found.sketch.tolist(), arrow.binary())]
                writer.write_batch(arrow.record_batch(columns, schema=schema))


def expect_format(format: str) -> None:
    """UsageError for a format that has no place for what is kept of signatures."""
    if format not in WRITERS:
        raise click.UsageError(f"format {format} holds fingerprints: expected {', '.join(WRITERS)} for signatures")


def _hexadecimal(found: "Documents") -> list[str]:
    assert found.sketch is not None
    return [each.hex() for each in found.sketch.tolist()]


WRITERS: "dict[str, Callable[[Export, BinaryIO, Batches], None]]" = {
    "csv": Export.csv,
    "jsonl": Export.jsonl,
    "parquet": Export.parquet,
}
