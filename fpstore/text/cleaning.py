"""Owns the step from HTML to its text, which Resiliparse does (extra `html`), and the limits that keep it safe.

- A byte order mark tells what the bytes of a page are. Else they are UTF-8 if they can be; else of the charset that
  the server named, or that of the `meta` tag, or Resiliparse guesses. What does not decode becomes U+FFFD, as browsers
  do it. A page is no text, and refused, where that is so of more than one character in MAX_DAMAGED.
- `main` is the main content without navigation, boilerplate and comment forms; `all` is every visible text;
  `main-or-all` is the main content where that has MIN_MAIN characters and MIN_SHARE of those that are visible, else
  all: what is left of a gallery, an index or a form is not what tells it from others. A page taken whole whose main
  content is some, but under one in FRAME of it, is told of: with another of the same frame it has a Jaccard similarity
  of 0.82 or so, whatever its main content says. `main` tells such pages apart.
- A page whose elements nest deeper than MAX_DEPTH has all of its text taken, as the search for the main content takes
  time in the square of the depth. 441 real pages stayed below 100.
- A page without any text is the `stand_in` of its bytes, to those who compare pages.
- A page of more than MAX_HTML_BYTES is refused: its tree takes up to 140 times its size of memory.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from functools import cache
from typing import Any, NamedTuple

from fpstore.text.packages import need_series

HTML_CHOICES = ("main", "main-or-all", "all")
MAX_HTML_BYTES = 16 << 20
MAX_DEPTH = 256
MAX_DAMAGED = 100
MIN_MAIN = 250
# In hundredths. Two pages of which so much is main, with a Jaccard similarity of 0.82 there, have 0.51 of all that is
# visible, if they have nothing else in common: 0.45 m of 2 m / 0.75 - 0.45 m.
MIN_SHARE = 75
# Of two pages with nothing else in common than a share f of each: f / (2 - f) is 0.82 for 0.90. Of 441 crawled pages 5
# are so, and 86 of the first 3,000 of a manual in 14 releases, most of them the same page again.
FRAME = 10

# Tags that a text of words hardly has, but a page has in its first characters.
_TAGS = re.compile(
    r"<(?:!doctype html|html|body|br|p|/(?:title|style|script|head|body|div|p|span|a|b|i|em|strong|li|td|tr|h[1-6]))"
    r"(?:[\s/][^<>]*)?>",
    re.IGNORECASE,
)
LOOKED_AT_CHARACTERS = 4096

_BLANKS = " \t\n\r"
_STAND_IN_BITS = 128

_SURROGATES = re.compile("[\ud800-\udfff]")
# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Pages have none of these. What is packed, a picture say, has many, whatever charset it is taken for.
_CONTROLS = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")
# Selectors of what lies this deep. Parsing one takes time in its length, and few pages need the second.
_DEEP = " ".join(["*"] * 48)
_DEEPER = " ".join(["*"] * MAX_DEPTH)


class Visible(NamedTuple):
    """The text of a page, and whether nearly all of it is frame: the main content is some, but under one in FRAME."""

    text: str
    is_frame: bool


def text_of_html(html: str | bytes, what: str, charset: str | None = None) -> str:
    """The text of a page, as visible has it."""
    return visible(html, what, charset).text


def visible(html: str | bytes, what: str, charset: str | None = None) -> Visible:
    """What a page shows; what: one of HTML_CHOICES. charset: the one that its server named.

    Raises ValueError for more than MAX_HTML_BYTES bytes, or as many characters, and for bytes that are no text.
    """
    _expect_size(html)
    page = html if isinstance(html, str) else characters(html, charset)[0]
    parse, extract = _resiliparse()
    try:
        tree = parse(page)
    except UnicodeEncodeError:
        tree = parse(without_surrogates(page))
    if what == "all" or (page.count("<") >= MAX_DEPTH and _is_deep(tree)):
        return Visible(str(extract(tree, main_content=False)), False)
    main = str(extract(tree, main_content=True))
    if what == "main":
        return Visible(main, False)
    every = str(extract(tree, main_content=False))
    found, of_all = _solid(main), _solid(every)
    if found < MIN_MAIN or found * 100 < of_all * MIN_SHARE:
        return Visible(every, 0 < found * FRAME < of_all)
    return Visible(main, False)


def stand_in(page: str | bytes) -> str:
    """White space that tells the bytes of a page without text: no recipe has a token of it, and no other page has it.

    So such a page is near those only that have the same bytes.
    """
    data = page if isinstance(page, bytes) else page.encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.blake2b(data, digest_size=_STAND_IN_BITS // 8).digest(), "big")
    return "".join(_BLANKS[number >> shift & 3] for shift in range(0, _STAND_IN_BITS, 2))


def is_stand_in(text: str) -> bool:
    """Whether a text without tokens is what stands in for a page."""
    return 2 * len(text) == _STAND_IN_BITS and not text.strip(_BLANKS)


def _solid(text: str) -> int:
    """How many characters it has, white space aside: `all` has some around everything that is left out."""
    return len("".join(text.split()))


def has_tags(text: str) -> bool:
    """Whether there are tags of HTML near the beginning of a text: it may be a page that nobody called one."""
    beginning = text[:LOOKED_AT_CHARACTERS]
    return "<" in beginning and _TAGS.search(beginning) is not None


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair, which packages refuse."""
    return _SURROGATES.sub("\ufffd", text)


def characters(html: bytes, charset: str | None = None) -> tuple[str, int]:
    """The characters of a page, by the rule of the module, and how many of them are damaged.

    Raises ValueError for more than MAX_HTML_BYTES bytes, and for what is no text.
    """
    _expect_size(html)
    text, damaged = _decode(html, charset)
    if "\0" in text:
        damaged += len(_CONTROLS.findall(text))
    if damaged * MAX_DAMAGED > len(text):
        raise ValueError(f"html: found {damaged} of {len(text)} characters damaged, expected a page of text")
    return text, damaged


def _decode(html: bytes, charset: str | None) -> tuple[str, int]:
    encoding = need_series("resiliparse.parse.encoding", "resiliparse", "html", "reading HTML")
    for mark, codec in _MARKS:
        if html.startswith(mark):
            return _decode_by(codec, html[len(mark) :])
    named = charset and encoding.map_encoding_to_html5(charset, fallback_utf8=False)
    # UTF-16 without a mark can be read as UTF-8, with a NUL beside each letter.
    if not named or b"\0" not in html:
        try:
            return html.decode("utf-8"), 0
        except UnicodeDecodeError:
            pass
    return _decode_by(named or encoding.detect_encoding(html, from_html_meta=True), html)


def _decode_by(codec: str, data: bytes) -> tuple[str, int]:
    try:
        return data.decode(codec), 0
    except UnicodeDecodeError:
        text = data.decode(codec, "replace")
        return text, text.count("\ufffd")


def _expect_size(html: str | bytes) -> None:
    if len(html) > MAX_HTML_BYTES:
        raise ValueError(f"html: found {len(html)} bytes, expected at most {MAX_HTML_BYTES}")


def _is_deep(tree: Any) -> bool:
    """Whether MAX_DEPTH elements stand within each other."""
    body = tree.body
    return body is not None and all(body.query_selector(selector) is not None for selector in (_DEEP, _DEEPER))


@cache
def _resiliparse() -> tuple[Any, Any]:
    tree = need_series("resiliparse.parse.html", "resiliparse", "html", "reading HTML")
    extract = need_series("resiliparse.extract.html2text", "resiliparse", "html", "reading HTML")
    return tree.HTMLTree.parse, extract.extract_plain_text
