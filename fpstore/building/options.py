"""How a segment is built from rows: by which plan, in which code, in how much memory."""

from dataclasses import dataclass

from fpstore.format import CODECS
from fpstore.plans.choice import PlanChoice
from fpstore.segment.listing import Listing

MIN_MEMORY = 64 << 20


@dataclass(frozen=True)
class BuildOptions:
    """Everything but the rows. ValueError for what cannot be.

    with_ids: whether every row has an id. memory_bytes: the budget, above which rows are sorted through spill files.
    threads: how many may work at once. listing: as of SegmentWriter.
    """

    choice: PlanChoice
    codec: str
    with_ids: bool
    memory_bytes: int
    threads: int = 1
    listing: Listing | None = None

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise ValueError(f"codec: found {self.codec!r}, expected one of {', '.join(CODECS)}")
        if self.memory_bytes < MIN_MEMORY:
            raise ValueError(f"memory: found {self.memory_bytes} bytes, expected {MIN_MEMORY >> 20}MiB or more")
