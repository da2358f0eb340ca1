"""What a catalog says of a segment: what its file must be, and up to which change it is resolved."""

import dataclasses
import functools
import re

from fpstore.checks import canonical_json, expect, expect_integer, fields_of

# A segment's number has eight digits.
MAX_SEGMENT = 10**8 - 1
_NAME = re.compile(r"[0-9]{8}\.fpseg", re.ASCII)
_ENDING, _NAMES_ENDING = ".fpseg", ".fpnames"


def segment_name(number: int) -> str:
    """The name of the segment of this number, 1 to 10^8 - 1."""
    return f"{number:08d}.fpseg"


def names_name(name: str) -> str:
    """What the file of names beside a segment is called, whether it is published or not."""
    return name.replace(_ENDING, _NAMES_ENDING, 1)


def segment_of(name: str) -> str:
    """Beside which segment a file of that name lies, or which segment it is: names_name the other way."""
    return name.replace(_NAMES_ENDING, _ENDING, 1)


def unpublished_name(name: str, identity: str) -> str:
    """What the segment of that name is called until the store of this identity has said that it is its own."""
    return f"{name}.{identity[:16]}.new"


def is_segment_name(name: str) -> bool:
    """Whether a segment that is part of a store may be called that."""
    return _NAME.fullmatch(name) is not None


def is_unpublished_name(name: str, identity: str) -> bool:
    """Whether it is what unpublished_name makes of some segment's name, or names_name of that, for this store."""
    name = segment_of(name)
    return is_segment_name(name[:14]) and name == unpublished_name(name[:14], identity)


@dataclasses.dataclass(frozen=True)
class SegmentEntry:
    """A live segment, and what its file must be: its size, its counts and the checksum of its footer.

    position: the changes of lower numbers are resolved in it; removals of this number or a higher one apply to it.
    names_bytes, names_crc: the size of the file of names beside it, and the checksum of its footer; 0 where there is
    none. ValueError for what cannot be.
    """

    name: str
    file_bytes: int
    key_count: int
    id_count: int
    crc: int
    position: int = 1
    names_bytes: int = 0
    names_crc: int = 0

    def __post_init__(self) -> None:
        # Joined to a folder later, so it must not be able to name anything but a file in it.
        named = isinstance(self.name, str) and is_segment_name(self.name)
        expect("segment name", self.name, named, "8 digits and .fpseg")
        expect_integer("file_bytes", self.file_bytes, 0, 2**63 - 1)
        expect_integer("key_count", self.key_count, 0, 2**63 - 1)
        expect_integer("id_count", self.id_count, 0, 2**63 - 1)
        expect_integer("crc", self.crc, 0, 2**32 - 1)
        expect_integer("position", self.position, 1, 2**63 - 1)
        expect_integer("names_bytes", self.names_bytes, 0, 2**63 - 1)
        expect_integer("names_crc", self.names_crc, 0, 2**32 - 1 if self.names_bytes else 0)

    @property
    def files(self) -> tuple[tuple[str, int, int], ...]:
        """Its files: of each the name, the size and the checksum of the footer."""
        segment = (self.name, self.file_bytes, self.crc)
        return (segment, (names_name(self.name), self.names_bytes, self.names_crc)) if self.names_bytes else (segment,)

    @property
    def number(self) -> int:
        """The number that the name is made of."""
        return int(self.name[:8])

    @functools.cached_property
    def text(self) -> str:
        """As JSON; made once, as it is written with every change."""
        return canonical_json(fields_of(self))
