"""Owns what several texts are, wherever a call takes them."""

from collections.abc import Mapping, Set


def expect_several(texts: object) -> None:
    """Raise TypeError for what gives, when it is gone through, something else than the texts in their order.

    One text gives its letters, a mapping its keys, a table the names of its columns, a set no order.
    """
    found = type(texts).__name__
    if isinstance(texts, str | bytes):
        raise TypeError(f"texts: found one {found}, expected several of them")
    if not hasattr(texts, "__iter__") and not hasattr(texts, "__getitem__"):
        raise TypeError(f"texts: found {texts!r:.40}, a {found}, expected several of them")
    if isinstance(texts, Mapping | Set):
        raise TypeError(f"texts: found a {found}, which has no order of texts, expected a list of them")
    if any(hasattr(texts, name) for name in ("columns", "column_names", "__dataframe__")):
        raise TypeError(f"texts: found a table, a {found}, expected one of its columns")
