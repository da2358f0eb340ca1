"""What a catalog says of a segment: what its file must be, and up to which change it is resolved."""

import dataclasses
import re
from collections.abc import Collection

from fpstore.checks import canonical_json, expect, expect_integer, fields_of, limited_list, named_fields, record_of
from fpstore.forks import cached_property

# A segment's number has eight digits.
MAX_SEGMENT = 10**8 - 1
# Of a segment; far more than there ever are.
MAX_NAMES_FILES = 10_000
_NAME = re.compile(r"[0-9]{8}\.fpseg", re.ASCII)
_ENDING, _NAMES_ENDING = ".fpseg", ".fpnames"


def segment_name(number: int) -> str:
    """The name of the segment of this number, 1 to 10^8 - 1."""
    return f"{number:08d}.fpseg"


def names_name(name: str) -> str:
    """What the file of names is called that is made with a segment, whether it is published or not."""
    return name.replace(_ENDING, _NAMES_ENDING, 1)


def segment_of(name: str) -> str:
    """With which segment a file of that name was made, or which segment it is: names_name the other way."""
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
class NamesEntry:
    """A file of names: the number of the segment that it was made with, its size and the checksum of its footer.

    ValueError for what cannot be.
    """

    number: int
    file_bytes: int
    crc: int

    def __post_init__(self) -> None:
        expect_integer("number of a file of names", self.number, 0, MAX_SEGMENT)
        expect_integer("file_bytes", self.file_bytes, 0, 2**63 - 1)
        expect_integer("crc", self.crc, 0, 2**32 - 1)

    @property
    def name(self) -> str:
        """What it is called."""
        return names_name(segment_name(self.number))


@dataclasses.dataclass(frozen=True)
class SegmentEntry:
    """A live segment, and what its file must be: its size, its counts and the checksum of its footer.

    position: the changes of lower numbers are resolved in it; removals of this number or a higher one apply to it.
    names: the files of names that are its own, the oldest first; a merge takes over those of its parts. ValueError for
    what cannot be.
    """

    name: str
    file_bytes: int
    key_count: int
    id_count: int
    crc: int
    position: int = 1
    names: tuple[NamesEntry, ...] = ()

    def __post_init__(self) -> None:
        # Joined to a folder later, so it must not be able to name anything but a file in it.
        named = isinstance(self.name, str) and is_segment_name(self.name)
        expect("segment name", self.name, named, "8 digits and .fpseg")
        expect_integer("file_bytes", self.file_bytes, 0, 2**63 - 1)
        expect_integer("key_count", self.key_count, 0, 2**63 - 1)
        expect_integer("id_count", self.id_count, 0, 2**63 - 1)
        expect_integer("crc", self.crc, 0, 2**32 - 1)
        expect_integer("position", self.position, 1, 2**63 - 1)
        numbers = [file.number for file in self.names]
        rising = numbers == sorted({*numbers}) and max(numbers, default=0) <= self.number
        expect("numbers of files of names", numbers, rising, f"rising ones up to {self.number}")

    @property
    def files(self) -> tuple[tuple[str, int, int], ...]:
        """Its files: of each the name, the size and the checksum of the footer."""
        names = ((file.name, file.file_bytes, file.crc) for file in self.names)
        return ((self.name, self.file_bytes, self.crc), *names)

    @property
    def made(self) -> tuple[str, ...]:
        """The names of those of its files that were made with it."""
        return (self.name, *(file.name for file in self.names if file.number == self.number))

    def without_names(self, kept: Collection[int]) -> "SegmentEntry":
        """This one without the files of names of these numbers."""
        return dataclasses.replace(self, names=tuple(file for file in self.names if file.number not in kept))

    @property
    def number(self) -> int:
        """The number that the name is made of."""
        return int(self.name[:8])

    @cached_property
    def text(self) -> str:
        """As JSON; made once, as it is written with every change."""
        return canonical_json(fields_of(self) | {"names": [fields_of(file) for file in self.names]})


def entry_of(value: object) -> SegmentEntry:
    """What SegmentEntry.text says, read back. ValueError."""
    fields = named_fields("SegmentEntry", value, {field.name for field in dataclasses.fields(SegmentEntry)})
    names = limited_list("names of a segment", fields["names"], MAX_NAMES_FILES)
    return SegmentEntry(**fields | {"names": tuple(record_of(NamesEntry, file) for file in names)})
