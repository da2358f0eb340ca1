"""Owns the format `warc`: archived pages, and texts that were made of archived pages (WET).

A document is a response of status 200 whose content is HTML, a resource that is HTML, or a conversion. FastWARC
(extra `warc`) reads the records. A response whose encodings cannot be undone, or a document of more than
MAX_DOCUMENT_BYTES before or after that, is a bad record. What is no document is passed over and counted by its reason.
An archive that ends inside a record is damaged.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from fpstore.inputs.bodies import body_of, charset, header, media_type
from fpstore.inputs.columns import with_ids
from fpstore.inputs.compressed import open_stream
from fpstore.inputs.decoding import text_of
from fpstore.inputs.errors import DAMAGED, BadInput, Faults, cut
from fpstore.inputs.pages import Page
from fpstore.inputs.records import Group, Records, Request
from fpstore.inputs.text import MAX_DOCUMENT_BYTES
from fpstore.text.cleaning import MAX_HTML_BYTES, characters
from fpstore.text.packages import need

# Servers and crawlers spell XHTML in several ways.
_HTML_TYPES = frozenset(
    ("text/html", "application/xhtml+xml", "application/xhtml", "text/xhtml", "text/xhtml+xml", "application/html")
)
_OK = 200
_END_OF_RECORD = b"\r\n\r\n"
# Each response has a reader of its own, so that what is wrong in it cannot harm the next.
_HEAD = (
    b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
)


class _PassedOverError(Exception):
    """A record holds no document; its message is the reason."""


def read_warc(path: str, request: Request) -> Iterator[Records]:
    """The documents of an archive; places are the number of the record and what it is of (WARC-Target-URI)."""
    warc = need("fastwarc.warc", "warc", "reading WARC")
    kinds = warc.WarcRecordType
    wanted = (kinds.response, kinds.resource, kinds.conversion)
    with open_stream(path, request.on_bytes) as stream:
        with_ids(request.asked, request.decided, False, stream.name)
        group = Group(stream.name, "record", request)
        tail = _Tail(stream.reader)
        try:
            for number, record in enumerate(warc.ArchiveIterator(tail, parse_http=False), start=1):
                if record.record_type not in wanted:
                    request.faults.pass_over("record of another kind")
                    continue
                place = f"{number}:{''.join(record.headers.get('WARC-Target-URI', '').split())}".rstrip(":")
                size = record.content_length
                if size > MAX_DOCUMENT_BYTES:
                    group.refuse(place, f"{size} bytes", f"at most {MAX_DOCUMENT_BYTES}")
                    continue
                record.freeze()
                if record.content_length != size:
                    raise BadInput(
                        f"{stream.name}, record {cut(place)}: found {record.content_length} bytes, expected {size}"
                    )
                try:
                    document = _document(warc, record, request)
                except _PassedOverError as reason:
                    request.faults.pass_over(str(reason))
                    continue
                except (OSError, RuntimeError, ValueError) as error:
                    group.refuse(place, f"damaged content ({cut(error)})", "what its HTTP headers say")
                    continue
                group.add(place, document, None, size)
                if group.is_full:
                    yield group.take()
        except OSError as error:
            if tail.error is not None:
                raise tail.error from None
            if error.errno is not None:
                raise
            raise BadInput(f"{stream.name}: found a damaged archive ({cut(error)}), expected WARC records") from error
        if tail.last not in (b"", _END_OF_RECORD):
            raise BadInput(f"{stream.name}: found the end of the file inside a record, expected whole WARC records")
        yield group.take()


def _document(warc: Any, record: Any, request: Request) -> Page | str:
    """The document of a record. Raises _PassedOverError for one that holds none, ValueError for damage."""
    block = record.reader.read()
    if record.record_type == warc.WarcRecordType.response:
        return _page(warc, block, "WARC-Truncated" in record.headers, request)
    content_type = record.headers.get("Content-Type", "")
    is_html = media_type(content_type) in _HTML_TYPES
    if not is_html and record.record_type != warc.WarcRecordType.conversion:
        raise _PassedOverError("record of another media type")
    if not block.strip():
        raise _PassedOverError("record without content")
    if is_html:
        return _characters(block, charset(content_type), request)
    try:
        return text_of(block)
    except ValueError as error:
        raise _PassedOverError("record without text") from error


def _page(warc: Any, block: bytes, is_cut: bool, request: Request) -> Page:
    """The page of a response; raises as _document does."""
    response = warc.WarcRecord.from_reader(io.BytesIO(_HEAD % len(block) + block + _END_OF_RECORD))
    response.parse_http(auto_decode="none")
    if response.http_headers is None or response.http_headers.status_code is None:
        raise _PassedOverError("record of another kind")
    if response.http_headers.status_code != _OK:
        raise _PassedOverError("response of another status")
    headers = response.http_headers.astuples()
    content_type = header(headers, "content-type")
    if media_type(content_type) not in _HTML_TYPES:
        raise _PassedOverError("response of another media type" if content_type else "response without media type")
    body = body_of(headers, response.reader.read(), MAX_DOCUMENT_BYTES, is_cut=is_cut)
    if not body.strip():
        raise _PassedOverError("response without content")
    return _characters(body, charset(content_type), request)


def _characters(markup: bytes, charset: str | None, request: Request) -> Page:
    """A page with its characters; raises as _document does. One that is too large is left as it is, for the recipe."""
    page = Page(markup, charset)
    if len(markup) > MAX_HTML_BYTES:
        return page
    try:
        return Page(_characters_of(page, request.faults), None)
    except ValueError as error:
        raise _PassedOverError("page without text") from error


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


def _characters_of(page: Page, faults: Faults) -> str:
    """The characters of a page; faults hear of one that is read in spite of some damage. ValueError for no text."""
    if isinstance(page.markup, str):
        return page.markup
    text, damaged = characters(page.markup, page.charset)
    if damaged:
        faults.notes[DAMAGED] += 1
    return text
