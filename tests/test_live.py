"""What lives of a segment and of pending rows: a removal masks what was stored at its position or before, no more.

Each way of asking is held to that: what a probe finds, all rows, and a merge.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from helpers import segment_of

from fpstore.living import changes
from fpstore.living.catalog import Catalog, create_catalog
from fpstore.living.changes import Change
from fpstore.living.held import Replacement, published
from fpstore.living.live import Live, alive
from fpstore.living.merge import live_pairs, merge_segments
from fpstore.living.opening import open_snapshot
from fpstore.living.removals import Removals
from fpstore.living.sizes import LivingSizes
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.query.ways import Lookup
from fpstore.segment.reader import Segment
from fpstore.types import Array, Keys

PLAN = plans.flips(2, (1, 1), 3)
SCATTERED = plans.flips((0x5555555555555555, 0xAAAAAAAAAAAAAAAA), (2, 0), 3)  # table 0 is no identity
KEYS, IDS = [10, 20, 20, 30], [1, 2, 3, 2]
POSITION = 7
LAST = (1 << 64) - 1


def u64(values: object) -> Keys:
    return np.array(values, dtype=np.uint64)


def removed(fingerprints: list[int], ids: list[int], position: int, rows: Sequence[tuple[int, int]] = ()) -> Removals:
    removals = Removals.none().with_fingerprints(u64(fingerprints), position).with_ids(u64(ids), position)
    return removals.with_rows(u64([key for key, _ in rows]), u64([id for _, id in rows]), position)


# Removals of a fingerprint, of an id and of rows, from before the segment was made, at its position, and after.
ALL = [(10, 1), (20, 2), (20, 3), (30, 2)]
CASES = [
    (removed([20], [], POSITION - 1), ALL),
    (removed([20], [], POSITION), [(10, 1), (30, 2)]),
    (removed([20], [], POSITION + 1), [(10, 1), (30, 2)]),
    (removed([], [2], POSITION - 1), ALL),
    (removed([], [2], POSITION), [(10, 1), (20, 3)]),
    (removed([], [2], POSITION + 1), [(10, 1), (20, 3)]),
    (removed([10], [3], POSITION), [(20, 2), (30, 2)]),
    (removed([], [], POSITION - 1, [(20, 2)]), ALL),
    (removed([], [], POSITION, [(20, 2)]), [(10, 1), (20, 3), (30, 2)]),
    (removed([], [], POSITION + 1, [(20, 2)]), [(10, 1), (20, 3), (30, 2)]),
    (removed([], [], POSITION, [(20, 2), (20, 3), (10, 2)]), [(10, 1), (30, 2)]),
    (removed([30], [3], POSITION, [(20, 2)]), [(10, 1)]),
]


@pytest.fixture(params=[PLAN, SCATTERED], ids=["halves", "scattered"])
def segment(request: pytest.FixtureRequest) -> Iterator[Segment]:
    with segment_of(u64(sorted(set(KEYS))), request.param, pairs=(u64(KEYS), u64(IDS))) as made:
        yield made


@pytest.mark.parametrize(("gone", "left"), CASES)
def test_what_is_found_is_what_lives(segment: Segment, gone: Removals, left: list[tuple[int, int]]) -> None:
    live = Live(segment, POSITION, gone)
    query, found, distance, found_ids = live.search(u64([10, 20, 30]), Lookup(segment, 0))
    assert found_ids is not None
    assert list(zip(found.tolist(), found_ids.tolist(), strict=True)) == left
    assert [[10, 20, 30][i] for i in query.tolist()] == found.tolist()
    assert not distance.any()
    for key in KEYS:
        assert live.has_any(u64([key]), Lookup(segment, 0)) == (key in {key for key, _ in left})
    query, found, _, least = live.nearest(u64([10, 20, 30]), Lookup(segment, 0))
    first = {key: min(id for other, id in left if other == key) for key, _ in left}
    assert least is not None
    assert dict(zip(found.tolist(), least.tolist(), strict=True)) == first


@pytest.mark.parametrize(("gone", "left"), CASES)
def test_all_rows_are_what_lives(segment: Segment, gone: Removals, left: list[tuple[int, int]]) -> None:
    live = Live(segment, POSITION, gone)
    assert [row for _, *row in rows_in([live])] == [[id] for _, id in sorted_as(segment, left)]
    assert len(rows_in([live])) == len(left)


@pytest.mark.parametrize(("gone", "left"), CASES)
@pytest.mark.parametrize("asked", [[], [1], [2], [3], [2, 3], [0, 1, 2, 3, 1 << 40], [4, LAST]])
def test_what_is_looked_up_by_id_is_what_lives(
    segment: Segment, gone: Removals, left: list[tuple[int, int]], asked: list[int]
) -> None:
    found = [
        row
        for keys, ids in Live(segment, POSITION, gone).lookup(u64(asked))
        for row in zip(keys.tolist(), ids.tolist(), strict=True)
    ]
    assert found == sorted_as(segment, [row for row in left if row[1] in asked])


@pytest.mark.parametrize(("gone", "left"), CASES)
def test_what_is_merged_is_what_lives(
    segment: Segment, tmp_path: Path, gone: Removals, left: list[tuple[int, int]]
) -> None:
    plan = PLAN if segment.tables[0].prefix_mask == PLAN.tables[0].prefix_mask else SCATTERED
    live, path = Live(segment, POSITION, gone), tmp_path / "00000001.fpseg"
    entry = merge_segments(path, [live], "gap", plan, True)
    assert entry is not None
    assert entry.position == max(gone.last_position + 1, POSITION)
    with closing(Segment(path)) as merged:
        assert rows_in([Live(merged, 1, Removals.none())]) == rows_in([live])
    assert entry.id_count == len(left)


@pytest.mark.parametrize(("position", "lives"), [(POSITION - 1, True), (POSITION, False), (POSITION + 1, False)])
def test_a_segment_without_ids_is_masked_by_the_same_rule(tmp_path: Path, position: int, lives: bool) -> None:
    with segment_of(u64([10, 20]), PLAN) as bare:
        live = Live(bare, POSITION, removed([20], [], position))
        left = [10, 20] if lives else [10]
        assert live.search(u64([10, 20]), Lookup(bare, 0))[1].tolist() == left
        assert live.has_any(u64([20]), Lookup(bare, 0)) == lives
        assert [key for (key,) in rows_in([live])] == left
        entry = merge_segments(tmp_path / "00000001.fpseg", [live], "gap", PLAN, False)
        assert entry is not None
        assert entry.key_count == len(left)


def test_of_many_ids_those_that_were_removed_go_and_no_others() -> None:
    # Removed ids are looked for in a table of some 1,000 places first, where several of these ids come to each.
    keys, ids = np.arange(20_000, dtype=np.uint64), np.arange(20_000, dtype=np.uint64) + np.uint64(5)
    with segment_of(keys, PLAN, pairs=(keys, ids)) as segment:
        found = rows_in([Live(segment, POSITION, removed([], [7, 11, 19_999, 1 << 40], POSITION))])
    assert found == [(key, key + 5) for key in range(20_000) if key + 5 not in (7, 11, 19_999)]


def test_rows_have_positions_of_their_own() -> None:
    positions = u64([4, 5, 6, 5])
    kept = alive(removed([1], [], 5), u64([1, 1, 1, 2]), None, positions)
    assert listed(kept) == [False, False, True, True]
    kept = alive(removed([], [9], 5), u64([1, 1, 1, 2]), u64([9, 9, 9, 8]), positions)
    assert listed(kept) == [False, False, True, True]
    assert alive(removed([1], [9], 3), u64([1, 1, 1, 2]), u64([9, 9, 9, 8]), positions) is None
    assert alive(Removals.none(), u64([1]), None, 1) is None
    kept = alive(removed([], [], 5, [(1, 9)]), u64([1, 1, 1, 1]), u64([9, 9, 9, 8]), positions)
    assert listed(kept) == [False, False, True, True]


@pytest.fixture
def empty(tmp_path: Path) -> Snapshot:
    create_catalog(tmp_path, Settings(max_distance=3, plan=PLAN.to_json(), codec="gap", id_type="uint64"))
    with Catalog.open(tmp_path) as catalog:
        return open_snapshot(catalog)


@pytest.mark.parametrize(
    ("kind", "values"),
    [(changes.FINGERPRINTS_REMOVED, [20]), (changes.IDS_REMOVED, [2]), (changes.ROWS_REMOVED, [20, 2])],
)
@pytest.mark.parametrize(("history", "left"), [("-+", [10, 20]), ("+-", [10]), ("+-+", [10, 20]), ("+-+-", [10])])
def test_pending_rows_are_masked_by_later_removals_only(
    empty: Snapshot, kind: int, values: list[int], history: str, left: list[int]
) -> None:
    added, gone = (changes.ADDED, (u64([10, 20]), u64([1, 2]))), (kind, tuple(u64([value]) for value in values))
    records = [Change(number, *(added if what == "+" else gone)) for number, what in enumerate(history, start=1)]
    snapshot = empty.extended(records, empty.state)
    assert snapshot.search(u64([10, 20]), 0).fingerprint.tolist() == left
    assert [key for keys, _ in snapshot.rows() for key in keys.tolist()] == left
    assert sorted(set(snapshot.pending_rows()[0].tolist())) == left
    assert snapshot.contains(u64([20]), 0) == (20 in left)
    assert snapshot.key_count == len(left)
    assert snapshot.lookup(u64([1, 2, 3]), 9, lambda: None)[0].tolist() == left


def test_a_snapshots_segments_are_under_its_removals(empty: Snapshot) -> None:
    with segment_of(u64([10, 20]), PLAN, pairs=(u64([10, 20]), u64([1, 2]))) as made:
        following = Replacement((), (Live(made, 1, Removals.none()),), 1, empty.removals, None)
        before = published(empty, empty.state, following, LivingSizes())
        after = before.extended([Change(1, changes.FINGERPRINTS_REMOVED, (u64([20]),))], empty.state)
        assert before.search(u64([20]), 0).fingerprint.tolist() == [20]
        assert after.search(u64([20]), 0).fingerprint.tolist() == []
        assert [part.removals is snapshot.removals for snapshot in (before, after) for part in snapshot.parts] == [
            True,
            True,
        ]


def listed(mask: Array | None) -> list[bool] | None:
    return None if mask is None else mask.tolist()


def rows_in(parts: list[Live]) -> list[tuple[int, ...]]:
    """Keys of table 0, and ids where there are any."""
    found: list[tuple[int, ...]] = []
    for columns in live_pairs(parts):
        found += zip(*(column.tolist() for column in columns), strict=True)
    return found


def sorted_as(segment: Segment, rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rows in the order of a segment's table 0."""
    first = Permutation(segment.tables[0].prefix_mask)
    return sorted(rows, key=lambda row: (int(first.apply(u64([row[0]]))[0]), row[1]))
