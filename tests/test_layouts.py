"""The report sets slots and blocks side by side: each has the bytes that a store in it has."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import helpers
import numpy as np
import pytest

import fpstore
from fpstore import format as layout
from fpstore import minhash
from fpstore.errors import CorruptStore
from fpstore.plans import families as plans
from fpstore.plans.planner import predict, saving
from fpstore.segment.layouts import LayoutCost, layout_costs, layouts_text
from fpstore.segment.reader import Segment
from fpstore.segment.report import Sizes
from fpstore.types import Keys

PLAN = plans.flips(2, (1, 1), 3)


def table_bytes(segment: Segment) -> int:
    sizes = Sizes.of(segment)
    return sizes.payload + sizes.directory + sizes.fences


def costs(fingerprints: Keys, block_bytes: int, codec: str = "gap") -> tuple[tuple[LayoutCost, LayoutCost], int]:
    """What is said of both layouts, and the bytes that the segment has."""
    plan = replace(PLAN, block_bytes=block_bytes)
    with helpers.segment_of(fingerprints, plan, codec=codec) as segment:
        return layout_costs(segment, plan), table_bytes(segment)


@pytest.mark.parametrize("codec", layout.CODECS)
@pytest.mark.parametrize("kind", ["uniform", "clustered", "one_prefix"])
def test_each_layout_has_the_bytes_that_it_would_have(kind: str, codec: str) -> None:
    fingerprints = helpers.distinct(helpers.KINDS[kind](5000, np.random.default_rng(5)))
    in_slots, slot_bytes = costs(fingerprints, 0, codec)
    in_blocks, block_bytes = costs(fingerprints, layout.BLOCK_BYTES, codec)
    for found in (in_slots, in_blocks):
        assert [cost.bytes for cost in found] == [slot_bytes, block_bytes]
        assert [cost.layout for cost in found] == ["slots", "blocks"]
        assert [cost.block_bytes for cost in found] == [0, layout.BLOCK_BYTES]
    assert [[cost.is_own for cost in found] for found in (in_slots, in_blocks)] == [[True, False], [False, True]]
    assert [replace(cost, is_own=True) for cost in in_slots] == [replace(cost, is_own=True) for cost in in_blocks]


def test_what_a_query_costs_is_what_the_planner_says_of_such_keys() -> None:
    fingerprints = helpers.distinct(helpers.clustered(5000, np.random.default_rng(6)))
    with helpers.segment_of(fingerprints, PLAN) as segment:
        bits = sum(table.payload_bits for table in segment.tables) / (2 * len(fingerprints))
        found = layout_costs(segment, PLAN)
    for cost in found:
        plan = replace(PLAN, block_bytes=cost.block_bytes)
        told = predict(plan, len(fingerprints), saving(len(fingerprints), bits))
        assert (cost.block_decodes, cost.nanoseconds) == (told.block_decodes, told.nanoseconds)


def test_no_keys_take_no_bytes() -> None:
    found, _ = costs(np.empty(0, dtype=np.uint64), 0)
    assert [(cost.layout, cost.block_decodes) for cost in found][1] == ("blocks", 0)
    assert [cost.bytes - cost.directory_bytes for cost in found] == [0, 0]
    assert layouts_text(found, 0)[2].split()[:3] == ["slots", "*", f"{found[0].bytes}"]
    assert layouts_text((), 0) == []


def test_a_report_has_both_layouts_of_each_segment(tmp_path: Path) -> None:
    keys = helpers.uniform(3000, np.random.default_rng(7))
    phases = []
    with fpstore.build(tmp_path / "s", keys, plan="size", layout="blocks", block_bytes=256) as store:
        report = store.report(progress=lambda progress: phases.append((progress.phase, progress.done, progress.total)))
    (segment,) = report.to_json()["segments"]
    slots, blocks = segment["layouts"]
    assert (slots["layout"], slots["is_own"], blocks["block_bytes"], blocks["is_own"]) == ("slots", False, 256, True)
    part = segment["bytes"]
    assert blocks["bytes"] == part["payload"] + part["directory"] + part["fences"]
    assert blocks["directory_bytes"] == part["fences"]
    total = 2 * len(store.plan.tables) * 3000
    assert [phase for phase in phases if phase[0] == "layouts"][-1] == ("layouts", total, total)
    lines = report.to_text().splitlines()
    (row,) = [line for line in lines if line.startswith("blocks of 256 bytes *")]
    assert row.split()[5] == f"{blocks['bytes']:,}"
    assert any(line.startswith("slots  ") for line in lines)


def test_a_store_of_signatures_has_slots_only_and_nothing_beside_them(tmp_path: Path) -> None:
    with minhash.build(tmp_path / "m", np.arange(640, dtype=np.uint32).reshape(5, 128)) as store:
        assert [segment["layouts"] for segment in store.report().to_json()["segments"]] == [[]]


def test_keys_that_do_not_decode_are_told() -> None:
    with helpers.segment_of(helpers.distinct(helpers.uniform(3000, np.random.default_rng(8))), PLAN) as segment:
        path = segment.path
        data = bytearray(path.read_bytes())
        data[segment.tables[0].payload_offset + 5000] ^= 0xFF
        path.write_bytes(data)
        damaged = Segment(path)
        with closing(damaged), pytest.raises(CorruptStore):
            layout_costs(damaged, PLAN)
