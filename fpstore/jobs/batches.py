"""Owns what passes from the documents of a corpus to who decides: places between them, and batches of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from fpstore.cluster.made import Made
from fpstore.inputs import Row
from fpstore.jobs.parts import Part
from fpstore.text.held import KeptHashes
from fpstore.text.shared import Page, Shown
from fpstore.types import Array


@dataclass(frozen=True, slots=True)
class Place:
    """Between two documents: how many sources are done, how many documents of the next.

    skipped: what was passed over in the former, how many by reason. notes: what was read in spite of some damage.
    digests: of the documents of each source that is done, and of those that were read of the next.
    """

    source: int = 0
    document: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    digests: Sequence[str] = ()


# Before all documents.
START = Place()


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that follow each other, as columns; rows: all that the inputs have of each.

    digests: of that, uint8[n, 16]. end: the place behind them. skipped, notes: as in Place, from the first source on.
    hashes: of the shingles of the texts, for recipe.features_of, where they were measured and kept. settles: whether
    there is enough behind the last that did, or the end, for a commit. made: what others have measured. read: of what
    was read for it, stretch by stretch, the number of the source, and which documents of these are here: bool[n].
    """

    names: Sequence[str]
    texts: Sequence[str]
    rows: Sequence[Row]
    digests: Array
    text_bytes: int
    end: Place
    skipped: Mapping[str, int]
    notes: Mapping[str, int]
    hashes: KeptHashes | None = None
    settles: bool = True
    made: Made | None = None
    read: Sequence[tuple[int, Array]] = ()

    @classmethod
    def of_parts(
        cls,
        held: list[Part],
        read: list[tuple[int, Array]],
        end: Place,
        skipped: Mapping[str, int],
        notes: Mapping[str, int],
        *,
        settles: bool = True,
    ) -> Self:
        """The documents of all parts; held is empty then, as both would take twice the memory, and so is read."""
        whole = Part.join(held)
        columns = whole.names, whole.texts, whole.rows, whole.digests, whole.text_bytes
        of, made = tuple(read), whole.made
        held.clear()
        read.clear()
        return cls(*columns, end, skipped, notes, settles=settles, made=made, read=of)


class Handed(Protocol):
    """What others have made of the documents of a source, in the order in which these are read."""

    are_some: bool

    def show(self, pages: Sequence[Page]) -> Callable[[], Shown]:
        """What the next pages show, or what is wrong with them."""

    def made(self, texts: Sequence[str]) -> Made:
        """What was measured of the next texts, at least one."""

    def expect_end(self, *, of_texts: bool) -> None:
        """JobError where others met more than was read of the source; of_texts: of the texts, too, all being asked."""

    def close(self) -> None:
        """Nothing more is read of the source."""
