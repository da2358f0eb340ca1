"""Tokens of packages on their way to the compiled core."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fpstore.text._joined import joined


@given(st.lists(st.text(max_size=12), max_size=40))
@example(["a", "é", "日本", "𝔘", "", "mixed é日𝔘"])
def test_tokens_are_joined_as_utf8(found: list[str]) -> None:
    assert joined(found) == "".join(f"{token}\x1f" for token in found).encode()


def test_half_of_a_surrogate_pair_is_joined_as_the_replacement_character() -> None:
    assert joined(["a\ud800", "\udfff"]) == "a\ufffd\x1f\ufffd\x1f".encode()


@pytest.mark.parametrize("wrong", [b"bytes", None, 7])
def test_what_is_no_str_is_not_joined(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"token: found {type(wrong).__name__}, expected str"):
        joined(["fine", wrong])  # type: ignore[list-item]
