"""From HTML to text: what is left, how bytes are decoded, and what hostile pages cost."""

import sys

import pytest

from fpstore.text import Recipe, cleaning, packages, recipes
from fpstore.text.cleaning import MAX_DEPTH, characters, has_tags, text_of_html

MAIN, ALL = Recipe("main"), Recipe("all", html="all")
PAGE = "<html><body><nav>Menu Home</nav><article><p>Hello <b>bold</b> world</p></article><script>x()</script>"


def test_main_leaves_boilerplate_out_and_all_keeps_it() -> None:
    assert MAIN.text_of(PAGE).split() == ["Hello", "bold", "world"]
    assert ALL.text_of(PAGE).split() == ["Menu", "Home", "Hello", "bold", "world"]


@pytest.mark.parametrize(
    ("main_words", "other_words", "has_all"),
    [
        (20, 10, True),  # 100 characters of main text
        (49, 10, True),
        (50, 10, False),
        (60, 20, False),
        (60, 21, True),  # under three quarters of what is visible
        (300, 100, False),
        (300, 101, True),
    ],
)
def test_all_is_taken_where_little_is_main(main_words: int, other_words: int, has_all: bool) -> None:
    page = f"<nav>{'menus ' * other_words}</nav><article><p>{'words ' * main_words}</p></article>"
    found = Recipe("some", html="main-or-all").text_of(page).split()
    assert found.count("words") == main_words
    assert found.count("menus") == (other_words if has_all else 0)


@pytest.mark.parametrize(
    ("html", "charset", "text"),
    [
        ("<p>café".encode(), None, "<p>café"),
        ("<p>café".encode(), "latin1", "<p>café"),
        ("\ufeff<p>日本".encode(), "gbk", "<p>日本"),
        ("\ufeff<p>日本".encode("utf-16-le"), "latin1", "<p>日本"),
        ("\ufeff<p>日本".encode("utf-16-be"), None, "<p>日本"),
        ("<p>中文".encode("gbk"), "GB2312", "<p>中文"),
        ("<p>日本".encode("shift_jis"), "Shift_JIS", "<p>日本"),
        ("<meta charset=gbk><p>中文".encode("gbk"), None, "<meta charset=gbk><p>中文"),
        ("<meta charset=gbk><p>中文".encode("gbk"), "no-such-charset", "<meta charset=gbk><p>中文"),
        (b"<p>caf\xe9", "iso-8859-1", "<p>café"),
        ("\ufeff<p>日本".encode("utf-32-le"), "latin1", "<p>日本"),
        ("\ufeff<p>日本".encode("utf-32-be"), None, "<p>日本"),
        ("<p>one".encode("utf-16-le"), "UTF-16LE", "<p>one"),
        (b"<p>one", "utf-16", "<p>one"),
        (b"", None, ""),
    ],
)
def test_bytes_are_decoded_by_what_says_their_charset(html: bytes, charset: str | None, text: str) -> None:
    assert characters(html, charset) == (text, 0)


def test_a_page_with_little_damage_is_read_and_the_damage_counted() -> None:
    page = b"<meta charset=utf-8>" + b"x" * 377 + b"\xff\xfe\0"
    assert characters(page) == (page[:-3].decode() + "\ufffd\ufffd\0", 3)
    assert characters(page, "utf-8")[1] == 3


@pytest.mark.parametrize(
    "data",
    [
        b"<meta charset=utf-8>" + b"x" * 200 + b"\xff\xfe\0",
        b"\0",
        bytes(range(256)) * 10,
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        "<p>one".encode("utf-16-le"),
    ],
)
def test_what_is_no_text_is_no_page(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"html: found \d+ of \d+ characters damaged, expected a page of text"):
        characters(data)
    with pytest.raises(ValueError, match="characters damaged"):
        text_of_html(data, "main")


@pytest.mark.parametrize("html", ["", " ", "\0", "no tags at all", "<", "<!--", "<script>", "<html", "&#0;&#xD800;"])
@pytest.mark.parametrize("recipe", [MAIN, ALL], ids=["main", "all"])
def test_whatever_is_no_page_has_some_text(recipe: Recipe, html: str) -> None:
    assert isinstance(recipe.text_of(html), str)
    if html != "\0":
        assert recipe.text_of(html.encode()) == recipe.text_of(html)


@pytest.mark.parametrize("recipe", [MAIN, ALL], ids=["main", "all"])
def test_half_of_a_surrogate_pair_is_the_replacement_character(recipe: Recipe) -> None:
    assert recipe.text_of("<p>a\ud83db") == "a\ufffdb"


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["div", "article", "b", "span", "table", "ul", "blockquote", "svg", "font"])
@pytest.mark.parametrize("close", [True, False])
def test_deep_pages_cost_no_more_than_long_ones(tag: str, close: bool) -> None:
    # Without the limit 100,000 of `div` take minutes.
    page = f"<{tag}>" * 100_000 + "<p>hello world deep</p>" + f"</{tag}>" * 100_000 * close
    assert "deep" in MAIN.text_of(page)


def test_a_page_that_is_too_deep_has_all_of_its_text() -> None:
    shallow = "<div>" * 10 + PAGE
    assert "Menu" not in text_of_html(shallow, "main")
    assert "Menu" in text_of_html("<div>" * MAX_DEPTH + PAGE, "main")


def test_a_page_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MAX_HTML_BYTES", 100)
    assert MAIN.text_of("<p>" + "x" * 97) == "x" * 97
    for html in ("<p>" + "x" * 98, b"<p>" + b"x" * 98):
        with pytest.raises(ValueError, match="html: found 101 bytes, expected at most 100"):
            MAIN.text_of(html)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for cached in (packages.need_series, cleaning._resiliparse):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "resiliparse.parse.html", None)
    with pytest.raises(ImportError, match=r"reading HTML needs resiliparse: pip install 'fpstore\[html\]'"):
        recipes()["web-en"].text_of("<p>x")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<!DOCTYPE html>\n<title>", True),
        ("<html lang='en'>", True),
        ("words and <b>bold</b> ones", True),
        ("one<br/>two", True),
        ("one<BR>two", True),
        ("<p class='x'>one", True),
        (f"{'x' * 4000}<p>", True),
        (f"{'x' * 4096}<p>", False),
        ("", False),
        ("a < b and b > c", False),
        ("<https://example.org> and <me@example.org>", False),
        ("<?xml version='1.0'?><record><id>1</id></record>", False),
        ("vector<pair<int, int>> x; #include <body.h>", False),
        ("I <3 you </3", False),
    ],
)
def test_tags_of_html_are_told_from_other_signs(text: str, found: bool) -> None:
    assert has_tags(text) == found
