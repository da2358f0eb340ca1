"""Owns the format `warc`: archived pages, and texts that were made of archived pages (WET).

A document is a response of status 200 whose content is HTML, a resource that is HTML, or a conversion. FastWARC
(extra `warc`) reads the records and undoes the encodings of HTTP; a response that it cannot undo, or a document of
more than MAX_DOCUMENT_BYTES before or after that, is a bad row. An archive that ends inside a record is damaged.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from fpstore.inputs.compressed import open_stream
from fpstore.inputs.errors import BadInput
from fpstore.inputs.records import Group, Page, Records, Request
from fpstore.inputs.text import MAX_DOCUMENT_BYTES
from fpstore.text import need

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_OK = 200
_END_OF_RECORD = b"\r\n\r\n"
# Each response has a reader of its own, so that what is wrong in it cannot harm the next.
_HEAD = (
    b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
)


def read_warc(path: str, request: Request) -> Iterator[Records]:
    """The documents of an archive; places are the number of the record and what it is of (WARC-Target-URI)."""
    warc = need("fastwarc.warc", "warc", "reading WARC")
    kinds = warc.WarcRecordType
    wanted = (kinds.response, kinds.resource, kinds.conversion)
    with open_stream(path, request.on_bytes) as stream:
        group = Group(stream.name, "record", request)
        tail = _Tail(stream.reader)
        try:
            for number, record in enumerate(warc.ArchiveIterator(tail, parse_http=False), start=1):
                if record.record_type not in wanted:
                    continue
                place = f"{number}:{''.join(record.headers.get('WARC-Target-URI', '').split())}".rstrip(":")
                size = record.content_length
                if size > MAX_DOCUMENT_BYTES:
                    group.refuse(place, f"{size} bytes", f"at most {MAX_DOCUMENT_BYTES}")
                    continue
                record.freeze()
                if record.content_length != size:
                    raise BadInput(
                        f"{stream.name}, record {place}: found {record.content_length} bytes, expected {size}"
                    )
                try:
                    document = _document(warc, record, kinds)
                except (OSError, RuntimeError, ValueError) as error:
                    group.refuse(place, f"damaged content ({error})", "what its HTTP headers say")
                    continue
                if document is not None:
                    group.add(place, document, None, size)
                    if group.is_full:
                        yield group.take()
        except OSError as error:
            if tail.error is not None:
                raise tail.error from None
            if error.errno is not None:
                raise
            raise BadInput(f"{stream.name}: found a damaged archive ({error}), expected WARC records") from error
        if tail.last not in (b"", _END_OF_RECORD):
            raise BadInput(f"{stream.name}: found the end of the file inside a record, expected whole WARC records")
        yield group.take()


def _document(warc: Any, record: Any, kinds: Any) -> Page | str | None:
    """The document of a record, None where it holds none."""
    block = record.reader.read()
    if record.record_type == kinds.response:
        return _page(warc, block)
    content_type = record.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type in _HTML_TYPES:
        return Page(block, None)
    return block.decode("utf-8", "replace") if record.record_type == kinds.conversion else None


def _page(warc: Any, block: bytes) -> Page | None:
    """The page of a response, None where it is something else. Raises OSError where its encoding is damaged."""
    alone = _HEAD % len(block) + block + _END_OF_RECORD
    response = warc.WarcRecord.from_reader(io.BytesIO(alone))
    response.parse_http(auto_decode="none")
    headers = response.http_headers
    if headers is None or headers.status_code != _OK or response.http_content_type not in _HTML_TYPES:
        return None
    response = warc.WarcRecord.from_reader(io.BytesIO(alone))
    response.parse_http(auto_decode="all")
    markup = response.reader.read(MAX_DOCUMENT_BYTES + 1)
    if len(markup) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"more than {MAX_DOCUMENT_BYTES} bytes")
    return Page(markup, response.http_charset)


class _Tail:
    """A stream that remembers the last bytes it gave, and what ended it."""

    def __init__(self, reader: io.BufferedReader) -> None:
        self._reader = reader
        self._position = 0
        self.last = b""
        self.error: BadInput | None = None

    def read(self, size: int) -> bytes:
        """The next bytes, at most size."""
        try:
            data = self._reader.read1(size)
        except BadInput as error:
            self.error = error
            raise
        self._position += len(data)
        if data:
            self.last = (self.last + data[-len(_END_OF_RECORD) :])[-len(_END_OF_RECORD) :]
        return data

    def tell(self) -> int:
        """How many bytes were given."""
        return self._position
