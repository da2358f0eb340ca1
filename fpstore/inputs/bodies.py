"""Owns what HTTP did to the body of a page: chunks and encodings are undone, and the end of it is looked for.

A body that ends inside its chunks, inside packed data, or before its Content-Length is damaged, not a shorter page.
Some archives hold bodies that the crawler had unpacked, under the headers of before: what begins with `<` where packed
data is said to be is taken as it stands.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from fpstore.inputs.errors import shown
from fpstore.text.packages import need

Headers = Sequence[tuple[str, str]]

_GZIP_MARK = b"\x1f\x8b"
_HEX = re.compile(rb"[0-9a-fA-F]{1,15}")
# What stands around a media type, also without the semicolon, or with one type twice.
_AFTER_TYPE = re.compile(r"[;,\s]")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)


def header(headers: Headers, name: str) -> str:
    """The first value that a header has, whatever the case of its name; empty without one."""
    return next((value.strip() for each, value in headers if each.lower() == name and value.strip()), "")


def media_type(value: str) -> str:
    """The media type of a Content-Type in lower case, without parameters and quotation marks; empty without one."""
    return _AFTER_TYPE.split(value.strip().strip("\"'").lower(), maxsplit=1)[0].strip("\"'")


def charset(value: str) -> str | None:
    """The charset of a Content-Type, None without one."""
    found = _CHARSET.search(value)
    return found[1] if found else None


def body_of(headers: Headers, body: bytes, limit: int, *, is_cut: bool) -> bytes:
    """The body without its encodings; limit: the most bytes of it. is_cut: the crawler said that it kept a part only.

    Raises ValueError for one that is damaged or cut, and for more than limit bytes; ImportError where the package for
    an encoding is missing.
    """
    codings = [*_codings(headers, "content-encoding"), *_codings(headers, "transfer-encoding")]
    if not codings and body and not is_cut:
        told = header(headers, "content-length")
        if told.isascii() and told.isdigit() and len(told) < 20 and len(body) < int(told):
            raise ValueError(f"{len(body)} bytes of {told}")
    for coding in reversed(codings):
        if body:
            try:
                body = _UNDO[coding](body, limit)
            except ValueError:
                if not body.lstrip().startswith(b"<"):
                    raise
    if len(body) > limit:
        raise ValueError(f"more than {limit} bytes")
    return body


def _codings(headers: Headers, name: str) -> list[str]:
    """Those of a header that change the body, in the order in which they were applied."""
    values = (value for each, value in headers if each.lower() == name)
    codings = (
        coding.strip().strip("\"'").lower().removeprefix("x-") for value in values for coding in value.split(",")
    )
    return [coding for coding in codings if coding in _UNDO]


def _dechunk(body: bytes, limit: int) -> bytes:
    chunks: list[bytes] = []
    position = 0
    while True:
        end = body.find(b"\n", position)
        if end < 0:
            raise ValueError("the end of the body inside its chunks")
        head = body[position:end].partition(b";")[0].strip()
        if not _HEX.fullmatch(head):
            raise ValueError(f"chunk header {shown(head)}")
        size, start = int(head, 16), end + 1
        if size == 0:
            return b"".join(chunks)
        if size > len(body) - start:
            raise ValueError("the end of the body inside its chunks")
        chunks.append(body[start : start + size])
        position = start + size
        position += 2 if body.startswith(b"\r\n", position) else body.startswith(b"\n", position)


def _gunzip(body: bytes, limit: int) -> bytes:
    unpacked = bytearray()
    while body:
        if not body.startswith(_GZIP_MARK) and not _GZIP_MARK.startswith(body):
            if unpacked and not body.strip(b"\0"):
                break
            raise ValueError(f"first bytes {body[:4].hex(' ')}, not of gzip")
        body = _inflate(body, 16 + zlib.MAX_WBITS, limit, unpacked)
    return bytes(unpacked)


def _inflate_either(body: bytes, limit: int) -> bytes:
    """Deflate as HTTP has it, within zlib's format; some servers send it bare."""
    is_zlib = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    unpacked = bytearray()
    _inflate(body, zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS, limit, unpacked)
    return bytes(unpacked)


def _inflate(body: bytes, window_bits: int, limit: int, unpacked: bytearray) -> bytes:
    """Append what the first stream in body holds, and return what is behind it."""
    stream = zlib.decompressobj(window_bits)
    try:
        unpacked += stream.decompress(body, limit - len(unpacked) + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(unpacked) > limit:
        raise ValueError(f"more than {limit} bytes")
    if not stream.eof:
        raise ValueError("the end of the body inside its packed data")
    return stream.unused_data


def _unbrotli(body: bytes, limit: int) -> bytes:
    streams = need("fastwarc.stream_io", "warc", "reading WARC")
    return _read(streams.BrotliReader(io.BytesIO(body)), limit)


def _unzstd(body: bytes, limit: int) -> bytes:
    zstandard = need("zstandard", "zstd", "reading pages packed by zstd")
    frame = zstandard.ZstdDecompressor().decompressobj()
    unpacked = bytearray()
    try:
        # In steps, so that no more than the limit is unpacked: as in inputs.compressed.
        for start in range(0, len(body), 1 << 10):
            unpacked += frame.decompress(body[start : start + (1 << 10)])
            if frame.eof or len(unpacked) > limit:
                break
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(unpacked) > limit:
        raise ValueError(f"more than {limit} bytes")
    if not frame.eof:
        raise ValueError("the end of the body inside its packed data")
    return bytes(unpacked)


def _read(reader: Any, limit: int) -> bytes:
    try:
        unpacked: bytes = reader.read(limit + 1)
    except (OSError, RuntimeError) as error:
        raise ValueError(str(error)) from error
    return unpacked


_UNDO: dict[str, Callable[[bytes, int], bytes]] = {
    "chunked": _dechunk,
    "gzip": _gunzip,
    "deflate": _inflate_either,
    "br": _unbrotli,
    "zstd": _unzstd,
}
