"""Sets the two layouts of tables side by side for the keys of a segment: what each takes, and what a query costs.

Bytes are counted: those of the layout that is there, and those of the other one by encoding every key once more. What a
query costs is the planner's model, for keys whose code is as short as these have it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as _replace
from typing import Any

from fpstore import format as layout
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.progress import Tell
from fpstore.segment.reader import Segment
from fpstore.segment.table import encode_table
from fpstore.types import Bytes, Keys, Layout


@dataclass(frozen=True)
class LayoutCost:
    """All tables of a segment in one layout, without checksums and padding.

    bytes: of payload, directories and fences; directory_bytes: of the last two. block_decodes: slots or blocks decoded
    for a query, nanoseconds: what one takes on one thread with everything in memory, both by the planner's model.
    """

    layout: Layout
    is_own: bool
    block_bytes: int
    bytes: int
    directory_bytes: int
    block_decodes: int
    nanoseconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name."""
        return asdict(self)


@dataclass(frozen=True)
class _Taken:
    """Of one table in one layout."""

    payload_bits: int
    directory_bytes: int


@dataclass(frozen=True)
class _TableKeys:
    segment: Segment
    index: int
    count: int

    def chunks(self) -> Iterator[Keys]:
        return self.segment.keys(self.index)


def layout_costs(segment: Segment, plan: Plan, progress: Tell | None = None) -> tuple[LayoutCost, LayoutCost]:
    """Slots, then blocks, for the tables of a segment, which has this plan.

    progress gets the phase "layouts" (keys, each table twice). Raises CorruptStore where a table does not decode.
    """
    own = segment.tables[0].block_bytes
    other = 0 if own else layout.BLOCK_BYTES
    count, total, done = segment.key_count, 2 * segment.key_count * len(segment.tables), 0

    def advance(keys: int) -> None:
        nonlocal done
        done += keys
        if progress:
            progress("layouts", done, total)

    taken: dict[int, list[_Taken]] = {own: [], other: []}
    with segment.naming:
        for index, record in enumerate(segment.tables):
            codec = layout.CODECS[record.codec]
            keys = _TableKeys(segment, index, count)
            encoded = encode_table(
                keys, codec, record.slot_bits, _drop, advance=advance, bits=record.key_bits, block_bytes=other
            )
            fences = layout.FENCE_BYTES * record.fence_count
            lines = 0 if own else layout.directory_bytes(record.slot_bits)
            taken[own].append(_Taken(record.payload_bits, fences + lines))
            size = len(encoded.fences) + (0 if other else len(encoded.directory))
            taken[other].append(_Taken(encoded.payload_bits, size))
    code_bits = sum(table.payload_bits for table in taken[0]) / (count * len(segment.tables)) if count else 0.0
    saved = planner.saving(count, code_bits, segment.bits)
    slots, blocks = (
        _cost(_replace(plan, block_bytes=block_bytes), count, saved, taken[block_bytes], block_bytes == own)
        for block_bytes in sorted(taken)
    )
    return slots, blocks


def layouts_text(costs: Sequence[LayoutCost], count: int) -> list[str]:
    """Lines of a table of the layouts, for a segment of so many keys."""
    header = f"{'layout':<22}{'bytes':>18}{'bytes a key':>13}{'directory bytes':>17}"
    lines = ["", header + f"{'decoded a query':>17}{'us':>9}"] if costs else []
    for cost in costs:
        name = f"blocks of {cost.block_bytes:,} bytes" if cost.block_bytes else "slots"
        each = f"{cost.bytes / count:.2f}" if count else "-"
        lines.append(
            f"{name + ' *' * cost.is_own:<22}{cost.bytes:>18,}{each:>13}{cost.directory_bytes:>17,}"
            f"{cost.block_decodes:>17,}{cost.nanoseconds / 1000:>9,.1f}"
        )
    return [*lines, "* as it is; what a query decodes and takes is the planner's model"] if costs else []


def _cost(plan: Plan, count: int, saved: float, taken: list[_Taken], is_own: bool) -> LayoutCost:
    told = planner.predict(plan, count, saved)
    directories = sum(table.directory_bytes for table in taken)
    payload = sum(-(-table.payload_bits // 8) for table in taken)
    return LayoutCost(
        layout="blocks" if plan.block_bytes else "slots",
        is_own=is_own,
        block_bytes=plan.block_bytes,
        bytes=payload + directories,
        directory_bytes=directories,
        block_decodes=told.block_decodes,
        nanoseconds=told.nanoseconds,
    )


def _drop(payload: Bytes) -> None:
    """Nobody wants the bytes themselves."""
