"""What a catalog says of a segment: what its file must be, and up to which change it is resolved."""

import dataclasses
import functools
import re

from fpstore.checks import canonical_json, expect, expect_integer, fields_of

# A segment's number has eight digits.
MAX_SEGMENT = 10**8 - 1
_NAME = re.compile(r"[0-9]{8}\.fpseg", re.ASCII)


def segment_name(number: int) -> str:
    """The name of the segment of this number, 1 to 10^8 - 1."""
    return f"{number:08d}.fpseg"


def unpublished_name(name: str, identity: str) -> str:
    """What the segment of that name is called until the store of this identity has said that it is its own."""
    return f"{name}.{identity[:16]}.new"


def is_segment_name(name: str) -> bool:
    """Whether a segment that is part of a store may be called that."""
    return _NAME.fullmatch(name) is not None


def is_unpublished_name(name: str, identity: str) -> bool:
    """Whether it is what unpublished_name makes of some segment's name, for this store."""
    return is_segment_name(name[:14]) and name == unpublished_name(name[:14], identity)


@dataclasses.dataclass(frozen=True)
class SegmentEntry:
    """A live segment, and what its file must be: its size, its counts and the checksum of its footer.

    position: the changes of lower numbers are resolved in it; removals of this number or a higher one apply to it.
    ValueError for what cannot be.
    """

    name: str
    file_bytes: int
    key_count: int
    id_count: int
    crc: int
    position: int = 1

    def __post_init__(self) -> None:
        # Joined to a folder later, so it must not be able to name anything but a file in it.
        named = isinstance(self.name, str) and is_segment_name(self.name)
        expect("segment name", self.name, named, "8 digits and .fpseg")
        expect_integer("file_bytes", self.file_bytes, 0, 2**63 - 1)
        expect_integer("key_count", self.key_count, 0, 2**63 - 1)
        expect_integer("id_count", self.id_count, 0, 2**63 - 1)
        expect_integer("crc", self.crc, 0, 2**32 - 1)
        expect_integer("position", self.position, 1, 2**63 - 1)

    @property
    def number(self) -> int:
        """The number that the name is made of."""
        return int(self.name[:8])

    @functools.cached_property
    def text(self) -> str:
        """As JSON; made once, as it is written with every change."""
        return canonical_json(fields_of(self))
