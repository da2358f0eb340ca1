"""Owns the lines of tabs that jobs and commands write."""

# What would end a line or a field, or speak to a terminal.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
_ESCAPES = str.maketrans({code: chr(code).encode("unicode_escape").decode() for code in _CONTROLS} | {"\\": "\\\\"})


def row(*values: object) -> bytes:
    """Values as a line; a text is escaped as by field()."""
    fields = [field(value) if isinstance(value, str) else str(value) for value in values]
    # The name of a file can hold bytes that are no UTF-8; they go out as they came in.
    return "\t".join(fields).encode("utf-8", "surrogateescape") + b"\n"


def field(value: str) -> str:
    """A text as a field of a line: control characters and backslashes are escaped by a backslash."""
    # None of the escaped characters but the backslash is printable; looking is four times as fast as translating.
    return value if value.isprintable() and "\\" not in value else value.translate(_ESCAPES)
