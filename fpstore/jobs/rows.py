"""Owns the lines of tabs that jobs write."""

_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


def row(*values: object) -> bytes:
    """Values as a line; what would end a field or a line in one of them is escaped by a backslash."""
    fields = [_field(value) if isinstance(value, str) else str(value) for value in values]
    # The name of a file can hold bytes that are no UTF-8; they go out as they came in.
    return "\t".join(fields).encode("utf-8", "surrogateescape") + b"\n"


def _field(value: str) -> str:
    # None of the escaped characters but the backslash is printable; looking is four times as fast as translating.
    return value if value.isprintable() and "\\" not in value else value.translate(_ESCAPES)
