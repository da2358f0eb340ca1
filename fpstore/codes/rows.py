"""From rows of wide codes, in any order and of any number, to a segment."""

from contextlib import closing
from pathlib import Path

from fpstore.arrays import parse_memory
from fpstore.building.options import BuildOptions
from fpstore.building.rows import OTHER_MEMORY, Written
from fpstore.codes.given import code_source, words_of
from fpstore.codes.sorting import groups_of
from fpstore.codes.writer import CodesWriter
from fpstore.disk import Place
from fpstore.plans.choice import EXPECTED_KEYS, PlanChoice
from fpstore.plans.plan import Plan
from fpstore.progress import Tell


class WideBuild:
    """A segment of wide codes to be built from what a caller gave. All arguments are checked when it is made.

    Raises ValueError, TypeError or PlanError; the arguments are those of fpstore.build.
    """

    def __init__(
        self,
        fingerprints: object,
        ids: object,
        *,
        max_distance: int,
        bits: int,
        plan: str | float | Plan,
        codec: str,
        memory: str | int,
        shuffle: int | None,
        block_bytes: int = 0,
    ) -> None:
        choice = PlanChoice(max_distance, plan, bits, block_bytes)
        self._options = BuildOptions(choice, codec, ids is not None, parse_memory(memory))
        self.max_distance, self._choice = choice.max_distance, choice.shuffled(shuffle, EXPECTED_KEYS)
        self._source = code_source(fingerprints, ids, choice.bits)
        self._with_ids = ids is not None

    def write(self, at: Path | Place, scratch: Path, progress: Tell, position: int = 1) -> Written:
        """Write the segment there, with spill files in scratch."""
        memory = self._options.memory_bytes - OTHER_MEMORY
        progress("reading", 0, None)

        def told(count: int) -> None:
            progress("reading", count, None)

        groups = groups_of(iter(self._source), words_of(self._choice.bits), self._with_ids, scratch, memory, told)
        with closing(groups):
            progress("sorting", groups.count, None)
            plan = self._choice.for_count(groups.count)
            with CodesWriter(at, groups, plan, scratch, memory) as writer:
                entry = writer.write(progress, position)
        return Written(plan, entry, groups.most if entry.id_count else None)
