"""The format warc: which records are documents, what HTTP did to them, and damage of every kind."""

import contextlib
import gzip
import sys
import zlib
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, documents, format_of, read, text, warc
from fpstore.text import DEFAULT, Recipe, fingerprint

HTML = "text/html; charset=utf-8"
HTTP = "application/http; msgtype=response"


def record(kind: str, block: bytes, content_type: str = HTTP, uri: str | None = "http://a.example/") -> bytes:
    target = f"WARC-Target-URI: {uri}\r\n" if uri else ""
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\n{target}Content-Type: {content_type}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def response(body: bytes, content_type: str = HTML, headers: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{headers}\r\n".encode() + body


def page(body: str, **options: Any) -> bytes:
    return record("response", response(body.encode(), **options))


def texts(path: Path, **options: Any) -> list[tuple[str, str]]:
    return list(documents([path], **options))


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(records))
    return path


def test_pages_and_conversions_are_documents_and_the_rest_is_not(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.warc",
        record("warcinfo", b"software: x\r\n", "application/warc-fields", None),
        record("request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "application/http; msgtype=request"),
        page("<p>one"),
        page("<p>moved", status="301 Moved Permanently"),
        page("\x89PNG", content_type="image/png"),
        record("response", b"no http at all"),
        record("conversion", "日本語 text".encode(), "text/plain", "http://a.example/a b"),
        record("resource", b"<p>three", "text/html", None),
        record("resource", b"plain", "text/plain"),
        record("revisit", b""),
        page("<p>four", content_type="application/xhtml+xml"),
    )
    assert texts(path) == [
        (f"{path}:3:http://a.example/", "one"),
        (f"{path}:7:http://a.example/ab", "日本語 text"),
        (f"{path}:8", "three"),
        (f"{path}:11:http://a.example/", "four"),
    ]
    reader = read([path])
    assert reader.recipe == DEFAULT
    batch = next(reader)
    assert batch.fingerprints.tolist() == [fingerprint(each) for each in ("one", "日本語 text", "three", "four")]
    assert batch.ids is not None
    assert batch.ids.tolist() == [0, 1, 2, 3]


def test_the_recipe_says_which_text_a_page_has(tmp_path: Path) -> None:
    path = write(tmp_path / "a.warc", page("<nav>menu</nav><p>one"))
    assert [each.split() for _, each in texts(path, recipe=Recipe("all", html="all"))] == [["menu", "one"]]
    assert [each for _, each in texts(path, recipe=Recipe("main"))] == ["one"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(b"<p>packed page", mtime=0), "Content-Encoding: gzip\r\n"),
        (zlib.compress(b"<p>packed page"), "Content-Encoding: deflate\r\n"),
        (b"9\r\n<p>packed\r\n5\r\n page\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n"),
    ],
)
def test_encodings_of_http_are_undone(tmp_path: Path, body: bytes, headers: str) -> None:
    path = write(tmp_path / "a.warc", record("response", response(body, headers=headers)))
    assert [each for _, each in texts(path)] == ["packed page"]


def test_the_charset_of_the_server_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path / "a.warc", record("response", response("<p>中文".encode("gbk"), "text/html; charset=gbk")))
    assert [each for _, each in texts(path)] == ["中文"]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a.warc.wet.gz", "a.wet", "a.warc.zst"])
def test_an_archive_is_known_by_its_suffix(name: str) -> None:
    assert format_of(name) == "warc"


def test_packed_archives_are_read_as_they_are(tmp_path: Path) -> None:
    """Each record a member of its own, as crawlers write them."""
    path = write(tmp_path / "a.warc.gz", gzip.compress(page("<p>one"), mtime=0), gzip.compress(page("<p>two"), mtime=0))
    assert [each for _, each in texts(path)] == ["one", "two"]


@pytest.mark.parametrize(
    "bad",
    [
        response(b"\x1f\x8b\x08 no gzip", headers="Content-Encoding: gzip\r\n"),
        response(b"zz\r\nno chunk", headers="Transfer-Encoding: chunked\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html" + b"x" * 1_000_000,
    ],
)
def test_a_damaged_response_is_named_or_counted_and_harms_no_other(tmp_path: Path, bad: bytes) -> None:
    path = write(tmp_path / "a.warc", page("<p>one"), record("response", bad), page("<p>two"))
    with pytest.raises(BadInput, match=r"a\.warc, record 2:http://a\.example/: found damaged content"):
        texts(path)
    found = documents([path], skip_bad=True)
    assert [each for _, each in found] == ["one", "two"]
    assert sum(found.skipped.values()) == 1
    reader = read([path], skip_bad=True)
    batch = next(reader)
    assert batch.ids is not None
    assert batch.ids.tolist() == [0, 2]


def test_a_document_that_is_too_large_is_a_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "MAX_DOCUMENT_BYTES", 1000)
    bomb = response(gzip.compress(b"<p>" + bytes(100_000), mtime=0), headers="Content-Encoding: gzip\r\n")
    path = write(
        tmp_path / "a.warc",
        record("conversion", b"x" * 1001, "text/plain"),
        record("response", bomb),
        record("conversion", b"x" * 1000, "text/plain"),
    )
    with pytest.raises(BadInput, match=r"record 1:http://a\.example/: found 1001 bytes, expected at most 1000"):
        texts(path)
    found = documents([path], skip_bad=True)
    assert [len(each) for _, each in found] == [1000]
    assert sum(found.skipped.values()) == 2
    path = write(tmp_path / "b.warc", record("response", bomb))
    with pytest.raises(BadInput, match=r"record 1:http://a\.example/: found damaged content \(more than 1000 bytes\)"):
        texts(path)


WHOLE = page("<p>one") + record("conversion", b"two", "text/plain")


@pytest.mark.slow
def test_an_archive_that_is_cut_short_is_never_a_shorter_one(tmp_path: Path) -> None:
    first = len(page("<p>one"))
    for length in range(len(WHOLE)):
        path = write(tmp_path / "a.warc", WHOLE[:length])
        if length in (0, first):
            assert len(texts(path)) == (length > 0)
            continue
        with pytest.raises(BadInput, match=r"a\.warc"):
            texts(path)
        packed = write(tmp_path / "b.warc.gz", gzip.compress(WHOLE, mtime=0)[: -length - 1])
        with pytest.raises(BadInput, match=r"b\.warc\.gz"):
            texts(packed)


@pytest.mark.parametrize(
    "data",
    [
        b"hello world\n" * 5,
        bytes(100),
        WHOLE + b"garbage\r\n\r\n" + WHOLE,
        WHOLE.replace(b"Length: 3\r", b"Length: 2\r") + WHOLE,
        WHOLE.replace(b"Length: 3\r", b"Length: x\r"),
        WHOLE.replace(b"Length: 3\r", b"Length: -3\r"),
        WHOLE.replace(b"Length: 3\r", b"Length: 99999999999999999999999\r"),
        WHOLE.replace(b"Length: 3\r", b"Length: 3000\r"),
        b"WARC/1.0\r\nWARC-Type: " + b"x" * 1_000_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadInput, match=r"a\.warc.*: found .*, expected"):
        texts(write(tmp_path / "a.warc", data))


@given(data=st.data())
def test_no_byte_of_an_archive_does_more_than_damage(data: st.DataObject, tmp_path_factory: Any) -> None:
    archive = bytearray(
        record("response", response(gzip.compress(b"<p>one", mtime=0), headers="Content-Encoding: gzip\r\n"))
        + record("response", response(b"3\r\ntwo\r\n0\r\n\r\n", headers="Transfer-Encoding: chunked\r\n"))
        + WHOLE
    )
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    path = write(tmp_path_factory.mktemp("fuzz") / "a.warc", bytes(archive))
    with contextlib.suppress(BadInput):
        texts(path, skip_bad=True)


def test_a_damaged_stream_is_told_as_such(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(WHOLE * 2000, mtime=0))
    packed[len(packed) // 2] ^= 255
    with pytest.raises(BadInput, match="found damaged gzip data"):
        texts(write(tmp_path / "a.warc.gz", bytes(packed)))


def test_an_archive_takes_no_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.warc", WHOLE)
    with pytest.raises(ValueError, match="found column 'body', expected none for format warc"):
        read([path], text_column="body")
    with pytest.raises(ValueError, match=r"found ids of a column, expected .* for format warc"):
        read([path], id_column="id")


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.warc", WHOLE)
    monkeypatch.setitem(sys.modules, "fastwarc.warc", None)
    with pytest.raises(ImportError, match=r"reading WARC needs fastwarc: pip install 'fpstore\[warc\]'"):
        texts(path)


def test_the_limit_is_that_of_other_documents() -> None:
    assert vars(warc)["MAX_DOCUMENT_BYTES"] == text.MAX_DOCUMENT_BYTES


def skipped_of(path: Path, **options: Any) -> tuple[list[str], dict[str, int]]:
    found = documents([path], **options)
    return [text for _, text in found], dict(found.skipped)


@pytest.mark.parametrize(
    "content_type",
    [
        "Text/HTML",
        "TEXT/HTML; Charset=UTF-8",
        "text/html;charset=utf-8",
        " text/html ; x=y",
        '"text/html"',
        "text/html, text/html",
        "text/html charset=utf-8",
        "Application/XHTML+XML",
        "application/xhtml",
        "text/html;",
    ],
)
def test_a_media_type_is_read_in_every_spelling(tmp_path: Path, content_type: str) -> None:
    path = write(
        tmp_path / "a.warc",
        page("<p>one", content_type=content_type),
        record("resource", b"<p>two", content_type),
    )
    assert skipped_of(path) == (["one", "two"], {})


def test_the_name_of_a_header_is_read_in_every_case(tmp_path: Path) -> None:
    for name in ("content-type", "CONTENT-TYPE"):
        block = f"HTTP/1.1 200 OK\r\n{name}: text/html\r\n\r\n<p>one".encode()
        assert skipped_of(write(tmp_path / "a.warc", record("response", block))) == (["one"], {})


def test_what_is_passed_over_is_counted_by_its_reason(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.warc",
        record("warcinfo", b"software: x\r\n", "application/warc-fields", None),
        record("request", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request"),
        record("response", b"no http at all"),
        page("<p>moved", status="301 Moved Permanently"),
        page("<p>gone", status="404 Not Found"),
        page("picture", content_type="image/png"),
        record("response", b"HTTP/1.1 200 OK\r\n\r\n<p>of no type"),
        page(" \r\n"),
        record("response", response(b"\x89PNG\r\n" + bytes(range(256)))),
        record("resource", b"plain", "text/plain"),
        record("conversion", b"caf\xe9", "text/plain"),
        record("conversion", b"", "text/plain"),
        page("<p>one"),
    )
    assert skipped_of(path) == (
        ["one"],
        {
            "record of another kind": 3,
            "response of another status": 2,
            "response of another media type": 1,
            "response without media type": 1,
            "response without content": 1,
            "page without text": 1,
            "record of another media type": 1,
            "record without text": 1,
            "record without content": 1,
        },
    )


def test_a_page_with_little_damage_is_read_and_noted(tmp_path: Path) -> None:
    body = b"<p>" + b"some words " * 100 + b"\xff"
    path = write(tmp_path / "a.warc", record("response", response(body)), page("<p>two"))
    found = documents([path])
    assert [len(each) for _, each in found] == [1101, 3]
    assert (found.skipped, found.notes) == ({}, {"page with damaged characters": 1})
    (tmp_path / "a.html").write_bytes(b"<meta charset=utf-8>" + body)
    reader = read([tmp_path / "a.html"])
    assert len(list(reader)) == 1
    assert reader.notes == {"page with damaged characters": 1}


PAGE = b"<p>" + b"some words of a page " * 50
PACKED = {
    "gzip": gzip.compress(PAGE, mtime=0),
    "x-gzip": gzip.compress(PAGE, mtime=0),
    "deflate": zlib.compress(PAGE),
    "br": brotli.compress(PAGE),
    "zstd": zstandard.compress(PAGE),
}


@pytest.mark.parametrize(("coding", "body"), PACKED.items(), ids=PACKED)
def test_a_packed_body_that_is_cut_anywhere_is_an_error(tmp_path: Path, coding: str, body: bytes) -> None:
    for spelling in (coding, coding.upper(), f" {coding} "):
        headers = f"Content-Encoding: {spelling}\r\n"
        path = write(tmp_path / "a.warc", record("response", response(body, headers=headers)))
        assert texts(path)[0][1] == PAGE[3:].decode().strip()
    for size in range(1, len(body)):
        path = write(tmp_path / "a.warc", record("response", response(body[:size], headers=headers)), page("<p>two"))
        with pytest.raises(BadInput, match=r"record 1:http://a\.example/: found damaged content \(.*\), expected what"):
            texts(path)
        assert skipped_of(path, skip_bad=True) == (["two"], {"bad record": 1})


def test_a_bare_deflate_body_is_read(tmp_path: Path) -> None:
    body = zlib.compress(PAGE, wbits=-15)
    path = write(tmp_path / "a.warc", record("response", response(body, headers="Content-Encoding: deflate\r\n")))
    assert len(texts(path)) == 1


def test_two_encodings_are_undone_in_their_order(tmp_path: Path) -> None:
    packed = gzip.compress(PAGE, mtime=0) + bytes(3)
    body = b"%x;name=value\r\n" % len(packed) + packed + b"\r\n0\r\n\r\n"
    headers = "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"
    path = write(tmp_path / "a.warc", record("response", response(body, headers=headers)))
    assert len(texts(path)) == 1


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Transfer-Encoding: chunked\r\n", b"9\r\n<p>packed\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"9\r\n<p>pac"),
        ("Transfer-Encoding: chunked\r\n", b"9"),
        ("Transfer-Encoding: chunked\r\n", b"-9\r\n<p>packed\r\n0\r\n\r\n"),
        ("Content-Encoding: gzip\r\n", gzip.compress(PAGE, mtime=0) + b"garbage"),
        ("Content-Encoding: gzip\r\n", b"plain"),
        ("Content-Encoding: deflate\r\n", b"plain"),
        ("Content-Encoding: br\r\n", b"plain"),
        ("Content-Encoding: zstd\r\n", b"plain"),
        ("Content-Length: 100\r\n", b"<p>one"),
    ],
)
def test_a_body_that_is_not_what_its_headers_say_is_damaged(tmp_path: Path, headers: str, body: bytes) -> None:
    path = write(tmp_path / "a.warc", record("response", response(body, headers=headers)))
    with pytest.raises(BadInput, match=r"record 1:http://a\.example/: found damaged content \(.*\), expected what its"):
        texts(path)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Encoding: gzip\r\n", b" <p>one"),
        ("Content-Encoding: deflate\r\n", b"<p>one"),
        ("Transfer-Encoding: chunked\r\n", b"<p>one"),
        ("Content-Encoding: identity\r\n", b"<p>one"),
        ("Content-Encoding: utf-8\r\n", b"<p>one"),
        ("Content-Length: 6\r\n", b"<p>one"),
        ("Content-Length: 3\r\n", b"<p>one"),
        ("Content-Length: many\r\n", b"<p>one"),
    ],
)
def test_a_body_that_the_crawler_had_unpacked_is_taken_as_it_stands(tmp_path: Path, headers: str, body: bytes) -> None:
    path = write(tmp_path / "a.warc", record("response", response(body, headers=headers)))
    assert [each for _, each in texts(path)] == ["one"]


def test_a_record_that_says_that_it_is_a_part_is_read(tmp_path: Path) -> None:
    block = record("response", response(b"<p>one", headers="Content-Length: 100\r\n"))
    path = write(tmp_path / "a.warc", block.replace(b"WARC-Type", b"WARC-Truncated: length\r\nWARC-Type"))
    assert [each for _, each in texts(path)] == ["one"]


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate"])
def test_a_body_that_unpacks_to_more_than_the_limit_is_a_bad_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coding: str
) -> None:
    monkeypatch.setattr(warc, "MAX_DOCUMENT_BYTES", 1000)
    body = PACKED[coding]
    path = write(tmp_path / "a.warc", record("response", response(body, headers=f"Content-Encoding: {coding}\r\n")))
    with pytest.raises(BadInput, match=r"damaged content \(more than 1000 bytes\)"):
        texts(path)


def test_a_message_cuts_a_long_name(tmp_path: Path) -> None:
    bad = record(
        "response", response(b"\x1f\x8b\x08", headers="Content-Encoding: gzip\r\n"), uri="http://a/" + "x" * 30_000
    )
    with pytest.raises(BadInput) as caught:
        texts(write(tmp_path / "a.warc", bad))
    assert len(str(caught.value)) < 1000
