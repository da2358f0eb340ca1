"""Lines of JSON, read by blocks of them, are what reading them line by line gives."""

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, Documents, Row, blocks, compressed, documents
from fpstore.inputs import text as text_inputs
from fpstore.inputs._lines import LineReader
from fpstore.inputs.blocks import Columns, Document
from fpstore.inputs.errors import WITHOUT_TEXT
from fpstore.text import cleaning, shared
from fpstore.workers import Workers

# Documents one by one, what was passed over and noted, how many rows there were, and the message that it ended with.
Outcome = tuple[list[Document], dict[str, int], dict[str, int], int, str | None]


def flat(every: Iterator[Columns | Document]) -> Iterator[Document]:
    for one in every:
        if isinstance(one, Columns):
            yield from zip(one.names, one.texts, one.rows, strict=True)
        else:
            yield one


def outcome(found: Documents, every: Iterator[Document]) -> Outcome:
    held, told = [], None
    with closing(found):
        try:
            for document in every:
                held.extend([document])
        except BadInput as error:
            told = f"{error} ({error.reason}, {error.source}, {error.line})"
    return held, dict(found.skipped), dict(found.notes), found.seen.rows, told


def both(path: Path, **options: Any) -> tuple[Outcome, Outcome]:
    """What reading line by line gives, and by blocks."""
    plain, fast = (documents([path], all_columns=True, is_part=True, **options) for _ in range(2))
    return outcome(plain, iter(plain.with_rows())), outcome(fast, flat(fast.in_columns()))


def expect_same(path: Path, **options: Any) -> Outcome:
    """The same where bad lines are passed over. Else blocks tell of the first of them, and of documents before it.

    Of several lines that were read together, the other way may tell of one with another fault first.
    """
    plain, fast = both(path, skip_bad=True, **options)
    assert fast == plain
    plain_stopped, fast_stopped = both(path, **options)
    if fast_stopped[4] != plain_stopped[4]:
        assert fast_stopped[4] is not None
        line = re.search(r"line (\d+):", fast_stopped[4])
        assert line is not None
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            lines = file.read().split(b"\n")
        with opener(path, "wb") as file:
            file.write(b"\n".join(lines[: int(line[1])]))
        plain_stopped, _ = both(path, **options)
    assert fast_stopped[4] == plain_stopped[4]
    assert fast_stopped[0] == plain[0][: len(fast_stopped[0])]
    return fast


PLAIN = b'{"id": 7, "text": "some words"}'
ODD = (
    b"",
    b" \t\r",
    b"\x0b\x0c",
    b"{}",
    b"[]",
    b"null",
    b"{",
    b'{"text": "a"',
    b'{"text": "a"} x',
    b'{"text": "a"}}',
    b'{"text": "a",}',
    b'{"text" "a"}',
    b'{text: "a"}',
    b"{'text': 'a'}",
    b'{"text": null}',
    b'{"text": 7}',
    b'{"text": ["a"]}',
    b'{"Text": "a"}',
    b'{"text": "a", "text": "b"}',
    b'{"text": "a", "t\\u0065xt": "b"}',
    b'{"te\\u0078t": "a"}',
    b'{"te\\u0078": "a"}',
    b'{"te\\u0078ts": "a"}',
    b'{"text": "a", "more": {"text": "b"}}',
    b'{"text": "a", "more": {"text": "b", "text": "c"}}',
    b'{"text": "a", "more": [{"id": 1}, {"id": 2, "id": 3}]}',
    b'{"text": "the key \\"text\\" in a text", "id": "\\"text\\""}',
    b'{"text": "a", "n": NaN}',
    b'{"text": "a", "n": -Infinity}',
    b'{"text": "a", "n": 01}',
    b'{"text": "a", "n": 1.}',
    b'{"text": "a", "n": .5}',
    b'{"text": "a", "n": +1}',
    b'{"text": "a", "n": -}',
    b'{"text": "a", "n": 1e}',
    b'{"text": "a", "n": -0.5e+10, "m": [1E5, 0, -0, 1e400, 12345678901234567890123]}',
    b'{"text": "a", "n": ' + b"9" * 5000 + b"}",
    b'{"text": "a", "n": tru}',
    b'{"text": "a", "n": true, "m": false, "o": null}',
    b'{"text": "half \\ud800 of a pair"}',
    b'{"text": "half \\udc00\\ud800 of a pair"}',
    b'{"text": "a pair \\ud83d\\ude00 and \\u00e9 \\u20AC \\u0000"}',
    b'{"text": "a pair \\ud83d\\u0041"}',
    b'{"text": "\\u12G4"}',
    b'{"text": "\\u12',
    b'{"text": "\\x41"}',
    b'{"text": "\\"\\\\\\/\\b\\f\\n\\r\\t"}',
    b'{"text": "tab\there"}',
    b'{"text": "nul\0here"}',
    b'{"text": "\x7f"}',
    b'{"text": "\xff"}',
    b'{"text": "\xc0\x80 \xc1\xbf"}',
    b'{"text": "\xe0\x9f\xbf"}',
    b'{"text": "\xed\xa0\x80"}',
    b'{"text": "\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"}',
    b'{"text": "\xf0\x8f\xbf\xbf"}',
    b'{"text": "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"}',
    b'{"text": "\xf4\x90\x80\x80"}',
    b'{"text": "\xf5\x80\x80\x80"}',
    b'{"text": "\xe2\x82"}',
    '{"text": "größe \u4e2d\u6587 \U0001f600"}'.encode(),
    b'\xef\xbb\xbf{"text": "marked"}',
    b'{"text": "<p>tags</p>"}',
    b'{"text": "a < b"}',
    b'{"text": "' + b"x" * 5000 + b'<p>"}',
    b'{"text": "deep", "more": ' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"text": "deeper", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"id": -0, "text": "a"}',
    b'{"id": -12, "text": "a"}',
    b'{"id": 1.5, "text": "a"}',
    b'{"id": true, "text": "a"}',
    b'{"id": "", "text": "a"}',
    b'{"id": "with \\u0041", "text": "a"}',
    b'{"id": "' + "ä".encode() * 9000 + b'", "text": "a"}',
    b'{"id": "' + b"a" * 10_001 + b'", "text": "a"}',
    b'{"id": 123456789012345678901234567890, "text": "a"}',
    b'{"id": [1], "text": "a"}',
    b'{"text": "a", "id": 1, "id": 2}',
    b'{"id": "http:\\/\\/example.org\\/1", "text": "a"}',
    b'{"id": "\\u00e9 \\ud83d\\ude00 \\"\\\\\\n \\u0000", "text": "a"}',
    b'{"id": "half \\ud83d", "text": "a"}',
    b'{"id": "' + b"\\u0041" * 1667 + b'", "text": "a"}',
    b'{"id": "' + b"\\u0041" * 10_001 + b'", "text": "a"}',
    b'{"id": 1234567890123456789, "text": "a"}',
    b'{"id": 9999999999999999999, "text": "a"}',
    b'{"id": 18446744073709551615, "text": "a"}',
    b'{"id": -999999999999999999, "text": "a"}',
    b'{"id": -9223372036854775809, "text": "a"}',
    b'{"\\u0069d": "b", "text": "a"}',
    b'{"\\u0069d": "b", "id": "c", "text": "a"}',
    b'{"gr\\u00f6\\u00DFe": "b", "text": "a"}',
    b'{"gr\\u00f6\\u00DFe": "b", "gr\xc3\xb6\\u00dfe": "c", "text": "a"}',
    b'{"te\\u0078": 1, "tex\\u0074s": 2, "te\\/xt": 3, "\\ud83d\\ude00": 4, "text": "a"}',
    b'{"half \\ud83d": 1, "text": "a"}',
    b'  { "id" : 1 ,\t"text" : "spaces" }  \r',
    b'{"text": "\\ud83d\\ude00\\ud83d\\ude00", "more": {"a": [{"b": "\\u00e9"}, [], {}]}}',
)

# The same with tags of HTML, which are noted of each text once.
TAGGED = tuple(odd.replace(b'"a"', b'"<p>a</p>"') for odd in ODD if b'"a"' in odd)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"id_column": "id"}, {"text_column": "id"}, {"text_column": "größe"}])
@pytest.mark.parametrize("packing", ["jsonl", "jsonl.gz"])
def test_each_odd_line_is_what_it_is_read_alone(tmp_path: Path, options: dict[str, str], packing: str) -> None:
    for number, odd in enumerate(ODD + TAGGED):
        for end in (b"", b"\n"):
            path = tmp_path / f"{number}.{packing}"
            data = PLAIN + b"\n" + odd + b"\n" + PLAIN + b"\r\n\n" + odd + end
            path.write_bytes(gzip.compress(data) if packing.endswith("gz") else data)
            expect_same(path, **options)


def test_a_text_with_tags_is_noted_once_whoever_reads_its_line(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    deep = b"[" * 80 + b"]" * 80
    path.write_bytes(b"".join(b'{"text": "<p>page</p>", "more": %b}\n' % more for more in (b"1", deep, b"2", deep)))
    with closing(documents([path], all_columns=True, is_part=True)) as found:
        assert [text for _, text, _ in flat(found.in_columns())] == ["<p>page</p>"] * 4
    assert list(found.notes.values()) == [4]


KEYS = ["text", "größe", "a", "\U0001f600 k"]
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def written(data: Any, text: str) -> str:
    """A text as JSON may have it, each character in one of the ways that there are."""
    ways = []
    for character in text:
        units = character.encode("utf-16-be").hex()
        numbers = "".join("\\u" + units[place : place + 4] for place in range(0, len(units), 4))
        own = [numbers, numbers.upper().replace("\\U", "\\u"), SHORT.get(character, numbers)]
        if character >= " " and character not in '"\\':
            own += [character] * 3
        ways.append(data.draw(st.sampled_from(own)))
    return '"' + "".join(ways) + '"'


@pytest.mark.slow
@given(st.data(), st.sampled_from(KEYS))
def test_keys_and_names_say_the_same_however_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, data: Any, field: str
) -> None:
    near = st.sampled_from([*KEYS, "id", "tex", "texts", "größ", "größen", "i", "\U0001f600", ""])
    lines = []
    for _ in range(data.draw(st.integers(1, 4))):
        keys = [*data.draw(st.lists(near, max_size=3, unique=data.draw(st.booleans()))), field, "id"]
        values = [data.draw(st.one_of(near, st.text('a"\\/\n\té\U0001f600', max_size=4))) for _ in keys]
        pairs = [f"{written(data, key)}: {written(data, value)}" for key, value in zip(keys, values, strict=True)]
        lines.append("{" + ", ".join(pairs) + "}\n")
    path = tmp_path_factory.mktemp("keys") / "in.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    expect_same(path, text_column=field, id_column="id")


def test_keys_and_names_with_escapes_need_no_other_reader() -> None:
    reader = LineReader("größe".encode(), b"id", b"in")
    line = rb'{"\u0069\u0064": "http:\/\/\u00e9", "gr\u00f6\u00dfe": "a", "\u0074": 1, "gr\u00f6\u00dfen": "b"}'
    assert not reader.read(line, 0, True)
    (texts, _), (names, _), (lines, _), _, _ = reader.take()
    assert (texts.tobytes(), names.tobytes().decode(), lines.tobytes()) == (b"a", "http://é", line)


def is_read_in_c(line: bytes) -> bool:
    reader = LineReader(b"text", b"id", b"in")
    return not reader.read(line + b"\n", 0, True) and reader.count == 1


def test_few_lines_are_left_to_the_reader_of_single_lines() -> None:
    reader = LineReader(b"text", b"id", b"in")
    data = b"\n".join([PLAIN, *ODD, PLAIN, b""])
    at = others = 0
    while reader.read(data, at, True):
        end = data.find(b"\n", reader.at) + 1
        reader.passed(1, end - reader.at)
        at, others = reader.at, others + 1
    (_, text_ends), (names, _), _, may_have_tags, numbers = reader.take()
    good = [b"-12", b"7", b"1"]
    assert all(name in names.tobytes() for name in good)
    assert len(may_have_tags) + others + reader.blank == reader.number == len(ODD) + 2
    assert len(may_have_tags) == len(text_ends) - 1 >= 4
    assert [data.split(b"\n")[number - 1] for number in numbers.tolist()] == [
        line for line in [PLAIN, *ODD, PLAIN] if is_read_in_c(line)
    ]
    assert [each.tolist() for each in reader.take()[3:]] == [[], []]


@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from(ODD + TAGGED),
            st.dictionaries(
                st.one_of(st.sampled_from(["text", "id", "more"]), st.text(max_size=3)),
                st.recursive(
                    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
                    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
                    max_leaves=4,
                ),
                max_size=4,
            ).flatmap(
                lambda record: st.booleans().map(
                    lambda ascii: json.dumps(record, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
                )
            ),
            st.text(max_size=40).map(
                lambda text: json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", "surrogatepass")
            ),
            st.binary(max_size=30),
        ),
        max_size=12,
    ),
    block=st.integers(3, 200),
    named=st.booleans(),
    cut=st.integers(0, 3),
    html=st.booleans(),
)
@example(lines=[b'\xef\xbb\xbf{"text": "a"}', b'\xef\xbb\xbf{"text": "a"}'], block=3, named=False, cut=0, html=False)
def test_any_lines_in_blocks_of_any_size_are_what_they_are_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int, named: bool, cut: int, html: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "in.jsonl"
    data = b"\n".join(lines)
    path.write_bytes(data[: max(0, len(data) - cut)])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BLOCK_BYTES", "PAGES_BLOCK_BYTES"):
            patch.setattr(blocks, name, block)
        patch.setattr(blocks, "LONG_BYTES", 0)
        expect_same(path, html=html, **({"id_column": "id"} if named else {}))


@given(st.data(), st.integers(0, 6))
def test_changed_bytes_are_read_as_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, data: Any, changes: int
) -> None:
    held = bytearray(data.draw(st.sampled_from(ODD)) + b"\n" + PLAIN + b"\n")
    for _ in range(changes):
        held[data.draw(st.integers(0, min(len(held), 200) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("lines") / "in.jsonl"
    path.write_bytes(held)
    expect_same(path)


def test_the_first_blocks_are_small_and_each_is_twice_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = b'{"text": "%s"}\n' % (b"a" * 87)
    (tmp_path / "in.jsonl").write_bytes(line * 400)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 80 * len(line))

    def sizes(least: int) -> list[int]:
        monkeypatch.setattr(blocks, "LONG_BYTES", least)
        with closing(documents([tmp_path / "in.jsonl"])) as found:
            return [len(one) for one in found.in_columns()]

    assert sizes(400 * len(line)) == [10, 20, 40, 80, 80, 80, 80, 10]
    assert sizes(400 * len(line) + 1) == [80, 80, 80, 80, 80]  # of a short file


@pytest.mark.parametrize("extra", range(-2, 3))
@pytest.mark.parametrize("first", [b"", PLAIN + b"\n", b"\n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [b"", b"\n", b"\n\n" + PLAIN, b"\nbad\n" + PLAIN + b"\n" + b"y" * 300 + b"\n" + PLAIN])
def test_a_line_over_the_limit_is_one_line_by_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: int, first: bytes, last: bytes
) -> None:
    monkeypatch.setattr(blocks, "MAX_LINE_BYTES", 128)
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 128)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(blocks, "LONG_BYTES", 150)
    path = tmp_path / "in.jsonl"
    path.write_bytes(first + b'{"text": "' + b"x" * (128 - 12 + extra) + b'"}' + last)
    expect_same(path)


@pytest.mark.parametrize(
    ("bad", "calls"),
    [
        ([1], range(1, 30)),  # of twice the bytes each, up to 8,192
        ([0, 1], range(1, 30)),
        ([0, 0, 0, 1], range(1, 30)),
        ([0, 0, 0, 0, 1], range(1000, 1001)),  # each alone
        ([0] * 50 + [1, 1], range(192, 193)),  # the second of two with the line after it
    ],
)
def test_lines_that_go_elsewhere_go_together_where_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: list[int], calls: range
) -> None:
    seen = []

    def read_rows(lines: Iterator[tuple[int, bytes]], *rest: Any) -> Any:
        seen.append(list(lines))
        return text_inputs.read_rows(seen[-1], *rest)

    monkeypatch.setattr(blocks, "read_rows", read_rows)
    monkeypatch.setattr(blocks, "TOGETHER_BYTES", 8192)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(b"bad\n" if bad[line % len(bad)] else PLAIN + b"\n" for line in range(5000)))
    with closing(documents([path], all_columns=True, skip_bad=True, is_part=True)) as found:
        good = [name for name, _, _ in flat(found.in_columns())]
    assert good == [f"{path}:{line + 1}" for line in range(5000) if not bad[line % len(bad)]]
    assert dict(found.skipped) == {"bad line": 5000 - len(good)}
    assert len(seen) in calls
    assert all(sum(len(line) for _, line in lines[:-1]) <= 8192 for lines in seen)


def test_a_file_that_is_cut_short_ends_with_the_same_error(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(PLAIN + b"\n" for _ in range(50_000)), 1)[:-2000])
    plain, fast = both(path)
    assert fast[4] == plain[4] != None  # noqa: E711
    assert plain[0] == fast[0][: len(plain[0])]


def test_lines_are_read_in_blocks_only_where_that_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": {"text": "x"}, "text": "<p>y</p>"}\n')
    for options, packed in (({}, True), ({"html": True}, True), ({"text_column": "a.text"}, False)):
        with closing(documents([path], all_columns=True, **options)) as found:
            assert isinstance(next(iter(found.in_columns())), Columns) == packed
    other = tmp_path / "in\udcff.jsonl"
    other.write_bytes(path.read_bytes())
    expect_same(other)


def test_what_is_taken_is_what_was_read_since() -> None:
    reader = LineReader(b"text", None, b"in")
    for text in ("one", "two"):
        assert not reader.read(json.dumps({"text": text}).encode() + b"\n", 0, False)
        (texts, offsets), (names, _), _, tags, numbers = reader.take()
        assert (texts.tobytes(), offsets.tolist(), tags.tolist()) == (text.encode(), [0, 3], [False])
        assert numbers.tolist() == [reader.number]
        assert names.tobytes() == b"in:%d" % reader.number
    assert not reader.read(b'{"text"', 0, False)
    assert (reader.at, reader.count, reader.number) == (0, 0, 2)
    with pytest.raises(ValueError, match="found 9, expected a place in a block of 1 bytes"):
        reader.read(b"x", 9, True)
    reader.add(b"three", b"name", b"line")
    (texts, _), _, _, _, numbers = reader.take()
    assert (texts.tobytes(), numbers.tolist()) == (b"three", [0])


def test_rows_of_blocks_are_lines_as_they_were_read(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "a"}\r\n {"text": "b"}')
    with closing(documents([path], all_columns=True)) as found:
        rows: list[Row] = [row for _, _, row in flat(found.in_columns())]
    assert [row.data for row in rows] == [b'{"text": "a"}\r\n', b' {"text": "b"}']
    assert np.array_equal([row.layout.format for row in rows], ["jsonl"] * 2)


# --- Pages ---


def page(words: str, **more: Any) -> bytes:
    return json.dumps({"id": f"n {words[:4]}", "text": f"<html><p>{words}</p></html>", **more}).encode()


# Of each kind that there is a note of, and lines that go to the reader of single lines.
PAGES = [page("some words"), page(""), page("of \u00e9", id="half \ud800"), page("half \ud800"), page("\u00e9", id=7)]
PAGES += [b"bad", b'{"text": 1}', b""]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("block", [3, 100, 1 << 20])
def test_pages_in_blocks_show_what_they_show_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, named: bool
) -> None:
    monkeypatch.setattr(blocks, "PAGES_BLOCK_BYTES", block)
    monkeypatch.setattr(cleaning, "MAX_HTML_BYTES", 300)
    path = tmp_path / "in.jsonl"
    framed = page(f"x</p></main><nav>{'all around ' * 12}</nav><main><p>")
    lines = [*PAGES, page("too long " * 60), framed, *PAGES, page("last")]
    path.write_bytes(b"\n".join(lines))
    names = {"id_column": "id"} if named else {}
    found = expect_same(path, html=True, **names)
    assert found[1] == {"bad line": 5 + 2 * named, "blank line": 2}
    assert found[2][WITHOUT_TEXT] == 2
    assert len(found[0]) == len(lines) - 7 - 2 * named
    # A page that is none is told by its line, and those before it were given.
    path.write_bytes(b"\n".join([PAGES[0], b"", PAGES[1], page("too long " * 60), PAGES[0]]))
    assert len(expect_same(path, html=True, **names)[0]) == 3
    _, fast = both(path, html=True, **names)
    assert fast[4] is not None
    assert re.fullmatch(
        rf"{path}, line 4: html: found \d+ bytes, expected at most 300 \(bad line, {path}, 4\)", fast[4]
    )


def test_what_packages_show_need_not_be_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "visible", lambda page, what: cleaning.Visible("half \ud800", False))
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join([PAGES[0], PAGES[1]]))
    assert [text for _, text, _ in expect_same(path, html=True)[0]] == ["half \ud800"] * 2


def test_pages_are_asked_for_in_their_order_though_some_are_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join(PAGES * 3))
    asked: list[str] = []

    def show(pages: Sequence[shared.Page]) -> Callable[[], shared.Shown]:
        asked.extend(str(markup) for markup, _ in pages)
        return shared.shown_of(pages, "all", Workers(1))

    request: dict[str, Any] = {"all_columns": True, "is_part": True, "skip_bad": True, "html": True, "show": show}
    with closing(documents([path], **request)) as found:
        given = [row.data for _, _, row in flat(found.in_columns())]
    good = PAGES[:5] * 3
    assert given == [line + b"\n" for line in good]
    assert asked == [json.loads(line)["text"] for line in good]


def test_lines_that_fill_their_block_are_taken_as_a_part_of_it_and_all_others_copied() -> None:
    line, other = b'{"text": "%s"}\n' % (b"a" * 3000), b'{"text": "%s"}\n' % (b"b" * 3000)
    odd = b'{"text": 5}\n'

    def taken(block: bytes, ahead: bytes = b"") -> tuple[bytes, list[int], bool]:
        """The lines that are taken, where each ends, and whether they are a part of the block."""
        reader, held = LineReader(b"text", None, b"s"), np.frombuffer(block, dtype=np.uint8)
        if ahead:
            assert not reader.read(ahead, 0, True)
        at = 0
        while reader.read(held, at, True):
            reader.passed(1, len(odd))
            at = reader.at
        _, _, (data, offsets), _, _ = reader.take()
        is_part = np.shares_memory(data, held)
        assert (reader.taken_at >= 0) == is_part
        assert not is_part or block[reader.taken_at :].startswith(data.tobytes())
        return data.tobytes(), offsets.tolist(), is_part

    ends = [at * len(line) for at in range(31)]
    assert taken(line * 30) == (line * 30, ends, True)
    assert taken(b"\n" + line * 30 + b"\n\n") == (line * 30, ends, True)
    assert taken(odd + line * 30) == (line * 30, ends, True)
    assert taken(line * 10) == (line * 10, ends[:11], False)  # few
    assert taken(line * 30 + b"\n" * 32 * len(line)) == (line * 30, ends, False)  # of a block with more beside them
    assert taken(line * 20 + odd + other * 10) == (line * 20 + other * 10, ends, False)
    assert taken(line * 20 + b"\n" + other * 10) == (line * 20 + other * 10, ends, False)
    assert taken(other * 20, ahead=line * 10) == (line * 10 + other * 20, ends, False)
    assert taken(other * 10, ahead=line * 20) == (line * 20 + other * 10, ends, False)


def test_lines_stay_as_they_are_while_more_blocks_of_their_file_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are a part of the block, so that each block has memory of its own, with what was left of the one before."""
    lines = [b'{"text": "%d %s"}\n' % (i, b"a" * (37 * i % 7000)) for i in range(300)]
    (tmp_path / "in.jsonl").write_bytes(b"".join(lines))
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200_000)
    with closing(documents([tmp_path / "in.jsonl"])) as found:
        held = [one for one in found.in_columns() if isinstance(one, Columns)]
    assert len(held) > 4
    assert [row.data for one in held for row in one.rows] == lines
    assert all(one.rows.file is None for one in held), "of short files none is held open"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_lines_that_are_a_part_of_a_block_tell_where_the_file_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: bytes
) -> None:
    lines = [b'{"text": "%d %s"}\n' % (i, b"a" * (37 * i % 7000)) for i in range(300)]
    lines[150] = b'{"text": 5}\n'  # so that those of its block are copied
    data = mark + b"".join(lines)
    (tmp_path / "in.jsonl").write_bytes(data)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200_000)
    monkeypatch.setattr(blocks, "LONG_BYTES", 1)
    with closing(documents([tmp_path / "in.jsonl"], skip_bad=True)) as found:
        held = [one.rows for one in found.in_columns() if isinstance(one, Columns)]
    placed = [rows for rows in held if rows.file is not None]
    assert len({rows.file for rows in placed}) == 1
    assert 3 < len(placed) < len(held) - 1
    for rows in placed:
        parts: list[Any] = [rows, rows[2:5], rows[3:][1:]]
        for part in parts:
            own = part.offsets + part.begin
            assert part.file is rows.file
            assert [data[own[i] : own[i + 1]] for i in range(len(part))] == [row.data for row in part]
        assert rows.take(np.arange(2)).file is None, "these are copied"


def test_a_file_that_was_opened_is_read_though_its_name_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = tmp_path / "in.jsonl", compressed.open_stream
    path.write_bytes(b'{"text": "a"}\n' * 3)

    @contextmanager
    def opened_and_gone(*given: Any, **options: Any) -> Iterator[compressed.Stream]:
        with opened(*given, **options) as stream:
            path.unlink()
            yield stream

    monkeypatch.setattr(blocks, "open_stream", opened_and_gone)
    with closing(documents([path])) as found:
        assert [len(one) for one in found.in_columns()] == [3]


@pytest.mark.parametrize("size", [10, 5000])
def test_what_was_taken_stays_as_it_is_while_more_is_read(size: int) -> None:
    """Small values are copied, and the memory of many large ones is given away."""
    lines = LineReader(b"text", None, b"s")
    taken, expected = [], []
    for turn in range(3):
        texts = [f"{turn}{i:04d}".encode() * (size // 5) for i in range(40)]
        block = b"".join(b'{"text": "%s"}\n' % text for text in texts)
        assert not lines.read(block, 0, True)
        assert lines.count == 40
        (data, offsets), _, (rows, row_offsets), _, _ = lines.take()
        taken.append((data, offsets, rows, row_offsets))
        expected.append((b"".join(texts), block))
        assert lines.count == 0
    for (data, offsets, rows, row_offsets), (text, block) in zip(taken, expected, strict=True):
        assert (data.tobytes(), rows.tobytes()) == (text, block)
        assert (offsets[-1], row_offsets[-1]) == (len(text), len(block))
