"""Owns the step from HTML to its text, which Resiliparse does (extra `html`), and the limits that keep it safe.

- The bytes of a page are UTF-8 if they can be. Else their byte order mark tells, or the charset that the server named,
  or that of the `meta` tag, or Resiliparse guesses; what does not decode becomes U+FFFD.
- `main` is the main content without navigation, boilerplate and comment forms; `all` is every visible text.
- A page whose elements nest deeper than MAX_DEPTH has all of its text taken, as the search for the main content takes
  time in the square of the depth. 441 real pages stayed below 100.
- A page of more than MAX_HTML_BYTES is refused: its tree takes up to 140 times its size of memory.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import Any

from fpstore.text.packages import need_series

HTML_CHOICES = ("main", "all")
MAX_HTML_BYTES = 16 << 20
MAX_DEPTH = 256

_SURROGATES = re.compile("[\ud800-\udfff]")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Selectors of what lies this deep. Parsing one takes time in its length, and few pages need the second.
_DEEP = " ".join(["*"] * 48)
_DEEPER = " ".join(["*"] * MAX_DEPTH)


def text_of_html(html: str | bytes, what: str, charset: str | None = None) -> str:
    """The text of a page; what: one of HTML_CHOICES. charset: the one that its server named.

    Raises ValueError for more than MAX_HTML_BYTES bytes, or as many characters.
    """
    if len(html) > MAX_HTML_BYTES:
        raise ValueError(f"html: found {len(html)} bytes, expected at most {MAX_HTML_BYTES}")
    page = html if isinstance(html, str) else decode(html, charset)
    parse, extract = _resiliparse()
    try:
        tree = parse(page)
    except UnicodeEncodeError:
        tree = parse(without_surrogates(page))
    main = what == "main" and (page.count("<") < MAX_DEPTH or not _is_deep(tree))
    text: str = extract(tree, main_content=main)
    return text


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair, which packages refuse."""
    return _SURROGATES.sub("\ufffd", text)


def decode(html: bytes, charset: str | None = None) -> str:
    """The characters of a page, by the rule of the module."""
    encoding = need_series("resiliparse.parse.encoding", "resiliparse", "html", "reading HTML")
    for mark, codec in _MARKS:
        if html.startswith(mark):
            return html[len(mark) :].decode(codec, "replace")
    try:
        return html.decode("utf-8")
    except UnicodeDecodeError:
        named = charset and encoding.map_encoding_to_html5(charset, fallback_utf8=False)
        return html.decode(named or encoding.detect_encoding(html, from_html_meta=True), "replace")


def _is_deep(tree: Any) -> bool:
    """Whether MAX_DEPTH elements stand within each other."""
    body = tree.body
    return body is not None and all(body.query_selector(selector) is not None for selector in (_DEEP, _DEEPER))


@cache
def _resiliparse() -> tuple[Any, Any]:
    tree = need_series("resiliparse.parse.html", "resiliparse", "html", "reading HTML")
    extract = need_series("resiliparse.extract.html2text", "resiliparse", "html", "reading HTML")
    return tree.HTMLTree.parse, extract.extract_plain_text
