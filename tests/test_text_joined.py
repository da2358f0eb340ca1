"""Tokens of packages on their way to the compiled core."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fpstore.text._joined import joined


@given(st.lists(st.text(max_size=12), max_size=40))
@example(["a", "é", "日本", "𝔘", "", "mixed é日𝔘"])
def test_tokens_are_joined_as_utf8(found: list[str]) -> None:
    assert joined(found) == "".join(f"{token}\x1f" for token in found).encode()


def test_tokens_of_one_and_two_characters_are_joined_whatever_these_are() -> None:
    ends = ["\0", "a", "\x7f", "\x80", "\xff", "\u0100", "\u07ff", "\u0800", "中", "\ud7ff", "\ue000", "\uffff", "𝔘"]
    found = ends + [first + second for first in ends for second in ends]
    assert joined(found) == "".join(f"{token}\x1f" for token in found).encode()


@pytest.mark.parametrize("size", [1 << 15, 1 << 20, 3 << 20])
def test_many_and_long_tokens_are_joined_and_the_next_after_them(size: int) -> None:
    for found in (["文字"] * size, ["字" * size, "a" * size], ["é" * size], ["a", "𝔘b"]):
        assert joined(found) == "".join(f"{token}\x1f" for token in found).encode()


def test_half_of_a_surrogate_pair_is_joined_as_the_replacement_character() -> None:
    assert joined(["a\ud800", "\udfff"]) == "a\ufffd\x1f\ufffd\x1f".encode()


@pytest.mark.parametrize("wrong", [b"bytes", None, 7])
def test_what_is_no_str_is_not_joined(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"token: found {type(wrong).__name__}, expected str"):
        joined(["fine", wrong])  # type: ignore[list-item]
