"""The pinned Unicode facts, and normalising and tokens that rest on them, against unicodedata, re and str."""

import hashlib
import random
import sys
import unicodedata
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plain_unicode import assigned, characters, mixed, normalise, words

from fpstore.text._simhash import normalised, tokens_of
from fpstore.text.unicode import COLUMNS, UNICODE_VERSION, pack, pinned, unpack

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import make_unicode

# Where the running Python has Unicode 14 it is the oracle of the twins themselves.
same_unicode = pytest.mark.skipif(
    unicodedata.unidata_version != UNICODE_VERSION,
    reason=f"unicodedata is of Unicode {unicodedata.unidata_version}, the facts are of {UNICODE_VERSION}",
)

NORMALISATIONS = ("none", "nfkc", "nfkc-casefold")
SURROGATES = range(0xD800, 0xE000)


def tokenise(text: str, tokens: str, normalisation: str) -> list[str]:
    """The plain twin of tokens_of."""
    text = normalise(text, normalisation)
    if tokens == "words":
        return words(text)
    if tokens == "mixed":
        return mixed(text)
    if tokens == "separated":
        return [token for token in text.split("\x1f") if token]
    return characters(text)


# As it is written: composed and not, with marks of many kinds, in scripts that fold, combine or have compatible forms.
TEXTS = [
    "Tiếng Việt: Cộng hòa xã hội chủ nghĩa Việt Nam",
    unicodedata.normalize("NFD", "Tiếng Việt: Cộng hòa xã hội chủ nghĩa Việt Nam"),
    "हिन्दी क़िला फ़र्क़ विद्यालय, ज़मीन क\u093c",
    unicodedata.normalize("NFD", "대한민국 한국어 닭"),
    "대한민국 가\u11a8 \u1100\u1161\u11a8 \uffa1\uffc2\uffa8 각\u11a8",
    "العَرَبِيَّة ﻻ ﷺ ﷲ مُحَمَّد",
    "中文，漢字 豈更車 ㍿ ㌀ ㋿ 𠀀𪘀 ｶﾞｷﾞｸﾞ ﾊﾟ",
    "Ｆｕｌｌ－ｗｉｄｔｈ　ＡＢＣ１２３ ﬁne ﬄuent ﬀ ½ ² Ⅷ ①",
    "İstanbul ISPARTA ıI i̇ Straße STRASSE ẞ ΌΣΟΣ ὈΔΥΣΣΕΎΣ ς σ ᾳ ᾼ ŉ ǰ ΐ",
    "e\u0301e\u0301\u0323 \u0301alone q\u0323\u0307 q\u0307\u0323 A\u030a\u0301 \u212b \u2126 \u1e9b\u0323",
    "a\u0315\u0300\u05ae\u0062 \u0f71\u0f72\u0f80 \u0344 \u0b47\u0b3e \u1b06 \U0001d15e \U000110a5\U000110ba",
    "नमस्ते dunia नमस्कार ไทย ภาษา தமிழ் ລາວ ខ្មែរ 𞤀𞤢 𐐀𐐨 Ꭰꭰ ა Ა",
    "soft\u00adhyphen zero\u200bwidth joiner\u200d \ufeff mark\u034f ligature\u2060 \u00a0\u3000\u2003x\u0085y\u001fz",
    "\ud800 lone \udfff surrogates \ud83d\ude00 here",
]


def write_database(folder: Path) -> None:
    """The three files that make_unicode reads, of what the running Python knows."""
    data, folded, excluded = [], [], []
    for code in range(0x110000):
        character = chr(code)
        category, bidirectional = unicodedata.category(character), unicodedata.bidirectional(character)
        if category == "Cn":
            continue
        parts = unicodedata.decomposition(character)
        numbers = ";".join(
            "1" * is_one for is_one in (character.isdecimal(), character.isdigit(), character.isnumeric())
        )
        data.append(
            f"{code:04X};{unicodedata.name(character, 'NAME')};{category};{unicodedata.combining(character)};"
            f"{bidirectional};{parts};{numbers};N;;;;;"
        )
        if character.casefold() != character:
            folded.append(f"{code:04X}; F; {' '.join(f'{ord(each):04X}' for each in character.casefold())}; # NAME")
        if parts and not parts.startswith("<") and unicodedata.normalize("NFC", character) != character:
            excluded.append(f"{code:04X} # NAME")
    for name, lines in (("UnicodeData", data), ("CaseFolding", folded), ("CompositionExclusions", excluded)):
        (folder / f"{name}.txt").write_text("\n".join(["# A comment", "", *lines]) + "\n")


@pytest.mark.slow
@same_unicode
def test_the_committed_file_is_what_the_tool_makes_of_what_this_python_knows(tmp_path: Path) -> None:
    write_database(tmp_path)
    made, kept = make_unicode.columns(tmp_path), pinned()
    for name in COLUMNS:
        assert np.array_equal(made[name], kept[name]), name


def test_the_twins_know_what_unicode_14_has() -> None:
    assert pinned()["assigned_ranges"].tolist() == [bound for run in assigned() for bound in (run[0], run[-1])]


@same_unicode
def test_the_twins_know_what_a_python_of_unicode_14_has() -> None:
    have = {code for run in assigned() for code in run}
    assert have == {code for code in range(0x110000) if unicodedata.category(chr(code)) != "Cn"}


# Letters, digits, an underscore, spaces and a control character; ideographs up to a last one; two marks of different
# classes, a letter with both that are not in order, and one whose composition is excluded; a ligature; a mark of two.
DATABASE = """
0020;SPACE;Zs;0;WS;;;;;N;;;;;
0009;TAB;Cc;0;S;;;;;N;;;;;
0031;ONE;Nd;0;EN;;1;1;1;N;;;;;
00B2;TWO;No;0;EN;<super> 0032;;2;2;N;;;;;
0041;A;Lu;0;L;;;;;N;;;;0061;
0061;a;Ll;0;L;;;;;N;;;0041;;0041
005F;LINE;Pc;0;ON;;;;;N;;;;;
2028;LINE;Zl;0;WS;;;;;N;;;;;
4E00;<CJK Ideograph, First>;Lo;0;L;;;;;N;;;;;
4E03;<CJK Ideograph, Last>;Lo;0;L;;;;;N;;;;;
0301;ABOVE;Mn;230;NSM;;;;;N;;;;;
0323;BELOW;Mn;220;NSM;;;;;N;;;;;
0344;BOTH;Mn;230;NSM;0301 0323;;;;N;;;;;
00C1;A ABOVE;Lu;0;L;0041 0301;;;;N;;;;00E1;
1EA1;a TWICE;Ll;0;L;00C1 0323;;;;N;;;;;
0958;EXCLUDED;Lo;0;L;0061 0323;;;;N;;;;;
FB00;LIGATURE;Ll;0;L;<compat> 0061 0061;;;;N;;;;;
"""
FOLDING = "# Folding\n0041; C; 0061; # A\n0041; T; 0131; # A\nFB00; F; 0061 0061; # LIGATURE\nFB00; S; 0061; # A\n"


@pytest.fixture
def small_database(tmp_path: Path) -> Path:
    for name, text in (("UnicodeData", DATABASE), ("CaseFolding", FOLDING), ("CompositionExclusions", "0958 # X\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    return tmp_path


def test_the_tool_reads_the_files_of_the_database(small_database: Path) -> None:
    made = {name: values.tolist() for name, values in make_unicode.columns(small_database).items()}
    words_at = [0x31, 0x41, 0x5F, 0x61, 0xB2, 0xC1, 0x958, 0x1EA1]
    assert made == {
        "word_ranges": [each for code in words_at for each in (code, code)] + [0x4E00, 0x4E03, 0xFB00, 0xFB00],
        "space_ranges": [0x9, 0x9, 0x20, 0x20, 0x2028, 0x2028],
        "mark_ranges": [0x301, 0x301, 0x323, 0x323, 0x344, 0x344],
        "dense_ranges": [0x4E00, 0x4E03],
        "combining_ranges": [0x301, 0x301, 0x323, 0x323, 0x344, 0x344],
        "combining_classes": [230, 220, 230],
        "decomposed_codes": [0xB2, 0xC1, 0x344, 0x958, 0x1EA1, 0xFB00],
        "decomposed_counts": [1, 2, 2, 2, 3, 2],
        "decomposed_points": [
            *(0x32, 0x41, 0x301, 0x323, 0x301, 0x61, 0x323),
            *(0x41, 0x323, 0x301, 0x61, 0x61),
        ],
        "folded_codes": [0x41, 0xFB00],
        "folded_counts": [1, 2],
        "folded_points": [0x61, 0x61, 0x61],
        "composed_firsts": [0x41, 0xC1],
        "composed_seconds": [0x301, 0x323],
        "composed_points": [0xC1, 0x1EA1],
        "assigned_ranges": [
            *(0x9, 0x9, 0x20, 0x20, 0x31, 0x31, 0x41, 0x41, 0x5F, 0x5F, 0x61, 0x61, 0xB2, 0xB2, 0xC1, 0xC1),
            *(0x301, 0x301, 0x323, 0x323, 0x344, 0x344, 0x958, 0x958, 0x1EA1, 0x1EA1, 0x2028, 0x2028),
            *(0x4E00, 0x4E03, 0xFB00, 0xFB00),
        ],
    }


def test_packed_columns_are_read_back() -> None:
    columns = {name: np.array([5, 2, 2**32 - 1, 0][:count], dtype=np.uint32) for count, name in enumerate(COLUMNS)}
    read = unpack(pack(columns))
    for name in COLUMNS:
        assert np.array_equal(read[name], columns[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_every_code_point_alone_is_normalised_as_unicodedata_does(normalisation: str) -> None:
    for code in range(0x110000):
        text = chr(code)
        assert normalised(text, normalisation) == normalise(text, normalisation), hex(code)


@pytest.mark.slow
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("tokens", ["words", "mixed", "characters", "separated"])
def test_every_code_point_between_two_letters_makes_the_tokens_that_re_finds(tokens: str, normalisation: str) -> None:
    for start in range(0, 0x110000, 0x100):
        text = "".join(f"a{chr(code)}b" for code in range(start, start + 0x100))
        found = tokens_of(text, tokens=tokens, normalisation=normalisation)
        assert found == tokenise(text, tokens, normalisation), hex(start)


# SHA-256 of what becomes of every code point, and of which are of words (w), white space (s) or neither.
EVERY_CODE_POINT = {
    "none": "2307661617a518ee589661dc1163e9d0e2f4dcd5d51f8d34bdd03cd91ffc048e",
    "nfkc": "9c8099c8581d5c7364d4350f85819bab895398481dda29806803d3b7434f977a",
    "nfkc-casefold": "e6af5501d945641a91e680070b8fee0ac4f24cc34ba4a0150b3d2de066f9d33c",
}
EVERY_KIND = "6383f63078b1ba003d5c0b9df533d243860db500316a2fba7ab20f246fca119e"


@pytest.mark.slow
@pytest.mark.parametrize(("normalisation", "expected"), EVERY_CODE_POINT.items())
def test_what_becomes_of_every_code_point_never_changes(normalisation: str, expected: str) -> None:
    found = "\0".join(normalised(chr(code), normalisation) for code in range(0x110000))
    assert hashlib.sha256(found.encode()).hexdigest() == expected


@pytest.mark.slow
def test_which_code_points_make_words_never_changes() -> None:
    kinds = []
    for character in map(chr, range(0x110000)):
        is_word = tokens_of(character, normalisation="none")
        is_solid = tokens_of(character, normalisation="none", tokens="characters")
        kinds.append("w" if is_word else "-" if is_solid else "s")
    assert hashlib.sha256("".join(kinds).encode()).hexdigest() == EVERY_KIND


def marks() -> st.SearchStrategy[str]:
    """Characters that combine, decompose or compose, and some that do not."""
    interesting = [
        chr(code)
        for code in range(0x30000)
        if code not in SURROGATES
        and (unicodedata.combining(chr(code)) or unicodedata.normalize("NFKD", chr(code)) != chr(code))
    ]
    hangul = [chr(code) for code in range(0x1100, 0x1200)]
    return st.sampled_from(interesting) | st.sampled_from(hangul) | st.sampled_from("aeiouAEIOU _,\x1f\t0é가각")


@given(st.lists(marks(), max_size=40).map("".join) | st.text(max_size=60), st.sampled_from(NORMALISATIONS))
def test_text_of_many_marks_is_normalised_as_unicodedata_does(text: str, normalisation: str) -> None:
    assert normalised(text, normalisation) == normalise(text, normalisation)
    for tokens in ("words", "mixed", "characters", "separated"):
        found = tokens_of(text, tokens=tokens, normalisation=normalisation)
        assert found == tokenise(text, tokens, normalisation)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_text_of_many_scripts_is_normalised_as_unicodedata_does(text: str, normalisation: str) -> None:
    # So long that pieces of it begin and end everywhere.
    for repeats in (1, 300):
        long = text * repeats
        assert normalised(long, normalisation) == normalise(long, normalisation)
        for tokens in ("words", "mixed", "characters", "separated"):
            found = tokens_of(long, tokens=tokens, normalisation=normalisation)
            assert found == tokenise(long, tokens, normalisation), tokens


@pytest.mark.parametrize("pad", range(4060, 4100))
@pytest.mark.parametrize("tail", ["e\u0301", "한\u11a8", "é", "\u00a0\u00a0x", "𝔘", " ", "\u0390"])
def test_what_lies_across_two_pieces_is_read_whole(pad: int, tail: str) -> None:
    text = "x" * pad + tail + "y end"
    for tokens in ("words", "characters"):
        assert tokens_of(text, tokens=tokens) == tokenise(text, tokens, "nfkc-casefold")


# Chinese and what lies about it: first and last letters, no letters, what joins or changes, and no UTF-8 at all.
CHINESE = [*"中一\u9fff\u4dff\u3400\ua000。、，Ａ豈か\u3099ば한\u11a8e\u0301Ä\u2019😀\x1f a", "文字", "Word_1"]
PIECES = [piece.encode() for piece in CHINESE] + [b"\xe4\xb7", b"\xe9\xbf", b"\xe5", b"\xb8\x80", b"\xff", b"\xe4a\x80"]


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.integers(0, 70), st.sampled_from(NORMALISATIONS))
def test_chinese_beside_anything_else_is_read_as_re_reads_it(pieces: list[bytes], pad: int, normalisation: str) -> None:
    data = b"x" * pad + b"".join(pieces)
    text = data.decode("utf-8", "replace")
    for tokens in ("words", "mixed", "separated"):
        found = tokens_of(data, tokens=tokens, normalisation=normalisation)
        assert found == tokenise(text, tokens, normalisation)


@pytest.mark.parametrize("odd", ["", "\u4dff", "\u3099", "\u0301", "。", "，", "e\u0301", "か\u3099"])
def test_long_chinese_is_read_whole_wherever_something_else_stands(odd: str) -> None:
    for before in range(70):
        text = "中文" * 40 + "\x1f" * (before % 3) + "字" * before + odd + "天地" * 700
        for tokens in ("words", "mixed", "separated"):
            assert tokens_of(text, tokens=tokens) == tokenise(text, tokens, "nfkc-casefold")


def test_a_long_run_of_marks_is_put_in_order() -> None:
    source = random.Random(15)
    marks = "".join(source.choices("\u0301\u0323\u0307\u0315\u05b0\u3099\u0345", k=5000))
    for text in (marks, "q" + marks, "Á" + marks + "e\u0301"):
        assert normalised(text, "nfkc") == normalise(text, "nfkc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u0378\u0c5d\U0001f6dd", "\u0378\u0c5d\U0001f6dd"),
        ("\U0001e030", "\U0001e030"),  # MODIFIER LETTER CYRILLIC SMALL A of Unicode 15, which NFKC changes there
        ("\u1c89", "\u1c89"),  # CYRILLIC CAPITAL LETTER TJE of Unicode 16, which folds there
    ],
)
def test_what_unicode_14_does_not_assign_stays_what_it_is(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize("point", ["\U0001e030", "\u1c89", "\U00011f04", "\U000323b0", "\u0378", "\ue000"])
def test_what_unicode_14_does_not_assign_is_no_word_character(point: str) -> None:
    assert tokens_of(f"a{point}b") == ["a", "b"]


BAD = [0x00, 0x41, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xA0, 0x9F, 0xED, 0xEF, 0xF0, 0x90, 0x8F, 0xF4, 0xF5, 0xFF]


@given(st.binary(max_size=40) | st.lists(st.sampled_from(BAD), max_size=12).map(bytes))
@example(b"\xed\xa0\x80\xed\xb0\x80")
@example("é中😀".encode()[:-1])
def test_bytes_that_are_no_utf8_are_read_as_python_replaces_them(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert normalised(data, "none") == text
    assert tokens_of(data, tokens="characters") == tokenise(text, "characters", "nfkc-casefold")


def test_every_short_sequence_of_telling_bytes_is_read_as_python_replaces_it() -> None:
    for first in BAD:
        for second in BAD:
            for rest in (b"", *(bytes([third]) for third in BAD), b"\x80\x80", b"\xbf\xe2", b"\x80\x80\x80"):
                data = bytes([first, second]) + rest
                assert normalised(data, "none") == data.decode("utf-8", "replace"), data


def test_bytes_and_str_are_read_alike() -> None:
    for text in TEXTS[:-1]:
        for tokens in ("words", "characters"):
            assert tokens_of(text.encode(), tokens=tokens) == tokens_of(text, tokens=tokens)


@pytest.mark.parametrize("odd", ["é", "\xad", "ÿ", "Ā", "\ud800", chr(0xDFFF), "\ue000", "\uffff", "😀", "\U0010ffff"])
def test_a_str_of_any_width_is_read_whatever_its_length(odd: str) -> None:
    for before in range(40):
        for after in (0, 1, 15, 16, 17, 33):
            text = "x" * before + odd + "y" * after + odd
            assert normalised(text, "none") == normalise(text, "none")


@pytest.mark.parametrize("wrong", ["nfc", "", None])
def test_an_unknown_normalisation_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="normalisation: found"):
        normalised("text", wrong)


def test_a_text_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="found bytearray, expected str or bytes"):
        tokens_of(cast(bytes, bytearray(b"text")))


def test_the_tool_refuses_files_of_another_unicode(small_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = small_database / "out.bin"
    monkeypatch.setattr(sys, "argv", ["make_unicode.py", str(small_database), str(output)])
    with pytest.raises(
        SystemExit, match=r"UnicodeData\.txt: found SHA-256 .*, expected 36018e.*, that of Unicode 14\.0\.0"
    ):
        make_unicode.main()
    assert not output.exists()


def test_the_tool_writes_what_is_read(small_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = small_database / "out.bin"
    hashes = {name: hashlib.sha256((small_database / name).read_bytes()).hexdigest() for name in make_unicode.SHA256}
    monkeypatch.setattr(make_unicode, "SHA256", hashes)
    monkeypatch.setattr(sys, "argv", ["make_unicode.py", str(small_database), str(output)])
    make_unicode.main()
    made, written = make_unicode.columns(small_database), unpack(output.read_bytes())
    assert all(np.array_equal(written[name], values) for name, values in made.items())
