"""A merged segment is the one that a build of the live content would write, whatever was stored and removed when."""

# mypy: disable-error-code="no-any-return"

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from helpers import CODECS, LAST, ArrayKeys, clustered, distinct, segment_of, uniform, write_segment
from hypothesis import given
from hypothesis import strategies as st

import fpstore
from fpstore.errors import CorruptStore
from fpstore.format import Region
from fpstore.living import live as lives
from fpstore.living import merge
from fpstore.living.live import Live
from fpstore.living.merge import live_pairs, merge_segments, pass_count
from fpstore.living.removals import Removals
from fpstore.merging import Columns
from fpstore.plans import families as plans
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.segment.reader import Segment
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Ids, Keys

ONE = plans.flips(1, (1,), 1)
HALVES = plans.flips(2, (1, 1), 3)
THIRDS = plans.flips(3, (1, 0, 0), 3)
SCATTERED = plans.flips((0x5555555555555555, 0xAAAAAAAAAAAAAAAA), (2, 0), 3)  # table 0 is no identity
PLANS = (ONE, HALVES, THIRDS, SCATTERED, plans.paper("paper-4"))
NAME = "00000009.fpseg"
NONE = Removals.none()

# Few of each, so that they meet; a pair's id is of no meaning in a store without ids.
FINGERPRINTS = st.one_of(st.integers(0, 5), st.sampled_from([1 << 32, 1 << 63, LAST - 1, LAST]))
IDS = st.one_of(st.integers(0, 12), st.sampled_from([LAST - 1, LAST]))
PAIRS = st.sets(st.tuples(FINGERPRINTS, IDS), max_size=25)
REMOVALS = st.lists(st.tuples(st.booleans(), st.one_of(FINGERPRINTS, IDS)), max_size=4)


@dataclass
class History:
    """Segments with their positions, and removals, at positions of their own."""

    plan: Plan
    codec: str
    with_ids: bool
    segments: list[tuple[set[tuple[int, int]], int]] = field(default_factory=list)
    fingerprints: dict[int, int] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)

    def live(self) -> set[tuple[int, int]]:
        return {
            (fingerprint, id)
            for pairs, position in self.segments
            for fingerprint, id in pairs
            if self.fingerprints.get(fingerprint, -1) < position
            and (not self.with_ids or self.ids.get(id, -1) < position)
        }

    def removals(self) -> Removals:
        removals = Removals.none()
        for value, position in self.fingerprints.items():
            removals = removals.with_fingerprints(u64([value]), position)
        for value, position in self.ids.items():
            removals = removals.with_ids(u64([value]), position)
        return removals

    @contextmanager
    def inputs(self, folder: Path) -> Iterator[list[Live]]:
        with ExitStack() as stack:
            inputs = []
            for index, (pairs, position) in enumerate(self.segments):
                segment = Segment(self.write(folder / f"{index:08d}.fpseg", pairs))
                stack.callback(segment.close)
                inputs.append(Live(segment, position, self.removals()))
            yield inputs

    def write(self, path: Path, pairs: set[tuple[int, int]]) -> Path:
        path.unlink(missing_ok=True)
        fingerprints, ids = columns(pairs)
        with_ids = (fingerprints, ids) if self.with_ids else None
        return write_segment(path, fingerprints, self.plan, codec=self.codec, pairs=with_ids)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History(draw(st.sampled_from(PLANS)), draw(st.sampled_from(CODECS)), draw(st.booleans()))
    position = 0
    for _ in range(draw(st.integers(1, 5))):
        position += draw(st.integers(1, 3))
        history.segments.append((draw(PAIRS), position))
        for of_ids, value in draw(REMOVALS):
            position += 1
            (history.ids if of_ids else history.fingerprints)[value] = position
    return history


def u64(values: object) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def columns(pairs: set[tuple[int, int]]) -> tuple[Keys, Ids]:
    table = u64(sorted(pairs)).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def pairs_of(stream: Iterator[Columns], plan: Plan) -> list[tuple[int, int]] | list[int]:
    """What live_pairs yields, with fingerprints for keys; every chunk of the right kind, and all in order."""
    chunks = list(stream)
    first = Permutation(plan.tables[0].prefix_mask)
    items: list[tuple[int, int]] = []
    for keys, *ids in chunks:
        assert len(keys)
        assert keys.dtype == np.uint64
        items += zip(keys.tolist(), ids[0].tolist() if ids else [0] * len(keys), strict=True)
    assert items == sorted(set(items))
    fingerprints = first.invert(u64([key for key, _ in items])).tolist()
    if any(len(chunk) == 1 for chunk in chunks):
        return fingerprints
    return list(zip(fingerprints, [id for _, id in items], strict=True))


def in_small_pieces(patch: pytest.MonkeyPatch, size: int) -> None:
    """Keys and ids are read so many at a time."""
    read = Segment.keys

    def keys(self: Segment, table: int) -> Iterator[Keys]:
        for chunk in read(self, table):
            yield from (chunk[first : first + size] for first in range(0, len(chunk), size))

    patch.setattr(Segment, "keys", keys)
    for module in (lives, merge):
        patch.setattr(module, "CHUNK_KEYS", size)


@pytest.mark.slow
@given(histories(), st.sampled_from([1, 2, 3, 1 << 17]), st.sampled_from([0, 5, 1 << 22]))
def test_a_merge_writes_what_a_build_of_the_live_content_writes(
    tmp_path_factory: pytest.TempPathFactory, history: History, size: int, held: int
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    with pytest.MonkeyPatch.context() as patch, history.inputs(folder) as inputs:
        in_small_pieces(patch, size)
        patch.setattr(merge, "HELD_NUMBERS", held)
        live, path = history.live(), folder / NAME
        found = pairs_of(live_pairs(inputs), history.plan)
        assert sorted(found) == (sorted(live) if history.with_ids and found else sorted({key for key, _ in live}))
        entry = merge_segments(path, inputs, history.codec, history.plan, history.with_ids)
    if not live:
        assert entry is None
        assert not path.exists()
        return
    assert entry is not None
    expected = history.write(folder / "expected", live).read_bytes()
    assert path.read_bytes() == expected
    keys, ids = len({key for key, _ in live}), len(live) if history.with_ids else 0
    assert (entry.name, entry.file_bytes, entry.key_count, entry.id_count) == (NAME, len(expected), keys, ids)
    assert entry.crc == int.from_bytes(expected[-4:], "little")
    last_removal = max([0, *history.fingerprints.values(), *history.ids.values()])
    assert entry.position == max(last_removal + 1, history.segments[-1][1])


def large_history(with_ids: bool, plan: Plan) -> tuple[list[tuple[Keys, Ids, int]], Removals, tuple[Keys, Ids]]:
    """Segments of several chunks that overlap, two of them out of balance; removals; and what lives, by numpy."""
    rng = np.random.default_rng(4)
    pool = np.concatenate([uniform(160_000, rng), np.arange(1 << 40, (1 << 40) + 30_000, dtype=np.uint64)])
    parts = []
    for position, count in ((1, 250_000), (10, 220_000), (20, 300), (30, 100_000)):
        ids = rng.integers(1 << 50, (1 << 50) + 500_000, count, dtype=np.uint64)
        parts.append((rng.choice(pool, count), ids, position))
    # One fingerprint has ids for several chunks, in two segments.
    many = np.arange(150_000, dtype=np.uint64)
    parts.append((np.full(len(many), pool[7]), many, 31))
    parts.append((np.full(len(many), pool[7]), many * np.uint64(2), 32))
    gone, gone_ids = rng.choice(pool, 30_000), rng.integers(1 << 50, (1 << 50) + 500_000, 40_000, dtype=np.uint64)
    removals = Removals.none().with_fingerprints(gone, 15).with_ids(gone_ids, 25)
    kept = []
    for fingerprints, ids, position in parts:
        lives = np.full(len(ids), True)
        if position <= 15:
            lives &= ~np.isin(fingerprints, gone)
        if position <= 25 and with_ids:
            lives &= ~np.isin(ids, gone_ids)
        kept.append((fingerprints[lives], ids[lives]))
    fingerprints, ids = (np.concatenate(column) for column in zip(*kept, strict=True))
    return parts, removals, each_once(fingerprints, ids)


def each_once(fingerprints: Keys, ids: Ids) -> tuple[Keys, Ids]:
    order = np.lexsort((ids, fingerprints))
    fingerprints, ids = fingerprints[order], ids[order]
    first = np.append(True, (fingerprints[1:] != fingerprints[:-1]) | (ids[1:] != ids[:-1]))
    return fingerprints[first], ids[first]


@pytest.mark.slow
@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize(("plan", "held"), [(HALVES, 0), (SCATTERED, 1 << 22)], ids=["halves", "scattered"])
def test_segments_of_several_chunks_are_merged(
    with_ids: bool, plan: Plan, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, removals, live = large_history(with_ids, plan)
    monkeypatch.setattr(merge, "HELD_NUMBERS", held)
    with ExitStack() as stack:
        inputs = []
        for fingerprints, ids, position in parts:
            pairs = each_once(fingerprints, ids) if with_ids else None
            segment = stack.enter_context(segment_of(fingerprints, plan, pairs=pairs))
            inputs.append(Live(segment, position, removals))
        merge_segments(tmp_path / NAME, inputs, "gap", plan, with_ids)
    expected = write_segment(tmp_path / "expected", live[0], plan, pairs=live if with_ids else None)
    assert (tmp_path / NAME).read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("ids", ["row", None])
def test_a_merge_of_two_stores_is_the_store_of_both(ids: str | None, tmp_path: Path) -> None:
    fingerprints = clustered(3000, np.random.default_rng(5))
    rows = np.arange(len(fingerprints), dtype=np.uint64)
    with ExitStack() as stack:
        paths = []
        for name, part in (("a", slice(0, 2000)), ("b", slice(1000, 3000)), ("both", slice(0, 3000))):
            given_ids = rows[part] if ids else None
            stack.enter_context(fpstore.build(tmp_path / name, fingerprints[part], ids=given_ids, plan=HALVES))
            paths.append(tmp_path / name / "segments" / "00000001.fpseg")
        inputs = [Live(Segment(path), 1, NONE) for path in paths[:2]]
        for one in inputs:
            stack.callback(one.segment.close)
        merge_segments(tmp_path / NAME, inputs, "gap", HALVES, ids is not None)
    assert (tmp_path / NAME).read_bytes() == paths[2].read_bytes()


def test_pending_rows_are_merged_in(tmp_path: Path) -> None:
    history = History(SCATTERED, "gap", True, [({(5, 1), (6, 2)}, 1), ({(6, 2), (7, 1)}, 2)], {6: 5})
    extra = [(5, 1), (6, 2), (6, 3), (9, 9)]
    keys = Permutation(SCATTERED.tables[0].prefix_mask).apply(u64([key for key, _ in extra]))
    order = np.argsort(keys, kind="stable")
    rows = keys[order], u64([id for _, id in extra])[order]
    with history.inputs(tmp_path) as inputs:
        found = pairs_of(live_pairs(inputs, rows), SCATTERED)
        assert sorted(found) == [(5, 1), (6, 2), (6, 3), (7, 1), (9, 9)]
        assert sorted(pairs_of(live_pairs([], rows), SCATTERED)) == extra
        assert list(live_pairs([])) == []
        assert list(live_pairs([], (u64([]), u64([])))) == []


def test_keys_are_all_there_is_where_there_are_no_ids(tmp_path: Path) -> None:
    history = History(HALVES, "gap", False, [({(5, 0), (6, 0)}, 1)])
    with history.inputs(tmp_path) as inputs:
        ((keys,),) = live_pairs(inputs, (u64([4, 6]),))
        assert keys.tolist() == [4, 5, 6]


def sample(with_ids: bool = True) -> History:
    rng = np.random.default_rng(6)
    parts = [uniform(3000, rng) for _ in range(2)]
    segments = [({(key, i % 2000) for i, key in enumerate(part.tolist())}, 1 + i) for i, part in enumerate(parts)]
    segments[0][0].update((key, 5000) for key, _ in list(segments[0][0])[:100])
    return History(HALVES, "gap", with_ids, segments, {int(parts[0][3]): 4}, {17: 5})


@pytest.mark.parametrize("held", [0, 1 << 22])
@pytest.mark.parametrize("with_ids", [False, True])
def test_progress_adds_up_and_what_it_raises_leaves_no_file(
    with_ids: bool, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "HELD_NUMBERS", held)
    history, path = sample(with_ids), tmp_path / NAME
    with history.inputs(tmp_path) as inputs:
        before = sorted(tmp_path.iterdir())
        all_keys = sum(one.segment.key_count for one in inputs)

        def merged(advance: Callable[[int], None]) -> None:
            merge_segments(path, inputs, "gap", HALVES, with_ids, advance=advance)

        def stopping_after(count: int) -> Callable[[int], None]:
            def advance(keys: int) -> None:
                if next(calls) == count:
                    raise KeyboardInterrupt

            calls = itertools.count()
            return advance

        steps: list[int] = []
        merged(steps.append)
        assert sum(steps) == pass_count(HALVES, with_ids) * all_keys
        path.unlink()
        for count in range(len(steps)):
            with pytest.raises(KeyboardInterrupt):
                merged(stopping_after(count))
            assert sorted(tmp_path.iterdir()) == before
        steps.clear()
        list(live_pairs(inputs, advance=steps.append))
        assert sum(steps) == all_keys


def region_of(segment: Segment, name: str, table: int | None) -> Region:
    return next(region for region in segment.regions() if (region.name, region.table) == (name, table))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "table"),
    [("payload", 0), ("payload", 1), ("directory", 0), ("directory", 1), ("id groups", None), ("id values", None)],
)
@pytest.mark.parametrize("index", [0, 1])
def test_a_damaged_segment_is_named_and_nothing_is_left(
    name: str, table: int | None, index: int, tmp_path: Path
) -> None:
    # Regions of some pages, so that damage to one does not keep the file from opening.
    history = sample()
    for pairs, _ in history.segments:
        keys = [key for key, _ in pairs]
        pairs.update((key, 10_000 + i) for key in keys for i in range(8))
    with history.inputs(tmp_path) as inputs:
        path = inputs[index].segment.path
        region = region_of(inputs[index].segment, name, table)
    data = bytearray(path.read_bytes())
    data[region.offset + region.bytes // 2] ^= 4
    path.write_bytes(data)
    inputs = [Live(Segment(tmp_path / f"{i:08d}.fpseg"), 1, history.removals()) for i in range(2)]
    with pytest.raises(CorruptStore, match=rf"^{path}: .*page at byte"):
        merge_segments(tmp_path / NAME, inputs, "gap", HALVES, True)
    assert not (tmp_path / NAME).exists()
    if table != 1:
        with pytest.raises(CorruptStore, match=rf"^{path}: .*page at byte"):
            list(live_pairs(inputs))
    for one in inputs:
        one.segment.close()


def write_tables(path: Path, *tables: list[int]) -> Path:
    """A segment whose tables need not be of the same fingerprints."""
    with SegmentWriter(path, "gap", 0) as writer:
        for plan, fingerprints in zip(HALVES.tables, tables, strict=True):
            keys = np.sort(Permutation(plan.prefix_mask).apply(u64(fingerprints)))
            writer.add_table(plan, ArrayKeys(keys))
        writer.finish()
    return path


def test_tables_that_differ_are_corruption(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "00000001.fpseg", [1, 2, 3], [1, 2, 4])
    other = write_tables(tmp_path / "00000002.fpseg", [1, 4], [1, 4])
    inputs = [Live(Segment(path), 1, NONE), Live(Segment(other), 1, NONE)]
    for gone in (3, 1 << 40):
        # 3 is at the end of table 0 and missing from table 1, as one between the others and as one above all.
        removals = Removals.none().with_fingerprints(u64([gone, 3]), 2)
        with pytest.raises(CorruptStore, match=rf"^{path}: table 1: found another set of fingerprints"):
            merge_segments(tmp_path / NAME, [one.masked_by(removals) for one in inputs], "gap", HALVES, False)
    write_tables(tmp_path / "00000003.fpseg", [1, 9], [1, 2])
    above = [Live(Segment(tmp_path / "00000003.fpseg"), 1, NONE.with_fingerprints(u64([9]), 2))]
    with pytest.raises(CorruptStore, match=r"00000003\.fpseg: table 1: found another set of fingerprints"):
        merge_segments(tmp_path / NAME, above, "gap", HALVES, False)
    expected = rf"^{path}, {other}, table 1 of all: found 3 fingerprints, expected 4, as in table 0"
    with pytest.raises(CorruptStore, match=expected):
        merge_segments(tmp_path / NAME, inputs, "gap", HALVES, False)
    assert not (tmp_path / NAME).exists()
    for one in (*inputs, *above):
        one.segment.close()


def test_segments_that_are_not_alike_are_refused(tmp_path: Path) -> None:
    stored = distinct(uniform(50, np.random.default_rng(7)))
    pairs, path = (stored, stored), tmp_path / NAME
    with (
        segment_of(stored, HALVES) as halves,
        segment_of(stored, THIRDS) as thirds,
        segment_of(stored, HALVES, pairs=pairs) as with_ids,
    ):
        one, other, another = (Live(segment, 1, NONE) for segment in (halves, thirds, with_ids))
        for inputs in ([one, other], [other]):
            with pytest.raises(ValueError, match="its tables are not those of the plan"):
                merge_segments(path, inputs, "gap", HALVES, False)
        with pytest.raises(ValueError, match="has ids, expected none"):
            merge_segments(path, [one, another], "gap", HALVES, False)
        with pytest.raises(ValueError, match="has no ids, expected ids"):
            merge_segments(path, [one, another], "gap", HALVES, True)
        for inputs, what in (([one, other], "tables are not those"), ([another, one], "has no ids")):
            with pytest.raises(ValueError, match=what):
                list(live_pairs(inputs))
        assert not path.exists()
        path.write_bytes(b"kept")
        with pytest.raises(FileExistsError):
            merge_segments(path, [one], "gap", HALVES, False)
        assert path.read_bytes() == b"kept"


def test_fingerprints_without_ids_are_not_in_the_merge(tmp_path: Path) -> None:
    stored = u64([3, 5, 7, 9])
    with segment_of(stored, HALVES, pairs=(u64([5, 5, 9]), u64([1, 2, 1]))) as segment:
        entry = merge_segments(tmp_path / NAME, [Live(segment, 1, NONE)], "gap", HALVES, True)
    assert entry is not None
    assert (entry.key_count, entry.id_count) == (2, 3)
    assert Segment(tmp_path / NAME).key_count == 2


@pytest.mark.parametrize(
    ("held", "read"),
    [
        (6000, [(0, 2), (1, 1)]),  # to count what lives; then each table, and the ids were kept
        (5999, [(0, 4), (1, 2)]),
    ],
)
def test_what_is_merged_is_held_until_it_is_written_where_it_is_no_more_than_that(
    held: int, read: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = uniform(6000, np.random.default_rng(9))
    rows = stored, np.arange(6000, dtype=np.uint64)
    tables: list[int] = []
    real = Segment.keys

    def keys(self: Segment, table: int) -> Iterator[Keys]:
        tables.append(table)
        return real(self, table)

    with ExitStack() as stack:
        parts = [(stored[i::2].copy(), rows[1][i::2].copy()) for i in range(2)]
        some = [segment_of(part[0], HALVES, pairs=part) for part in parts]
        inputs = [Live(stack.enter_context(each), 1, NONE) for each in some]
        monkeypatch.setattr(merge, "HELD_NUMBERS", held)
        monkeypatch.setattr(Segment, "keys", keys)
        merge_segments(tmp_path / NAME, inputs, "gap", HALVES, True)
    assert [(table, tables.count(table)) for table in range(2)] == [(table, 2 * times) for table, times in read]
    expected = write_segment(tmp_path / "expected", stored, HALVES, pairs=rows)
    assert (tmp_path / NAME).read_bytes() == expected.read_bytes()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "HELD_NUMBERS", 1 << 16)  # of what is merged, which is never more
    rng = np.random.default_rng(8)
    peaks = []
    for count in (300_000, 600_000):
        stored = uniform(count, rng)
        pairs = (np.concatenate([stored, np.full(count, stored[0])]), np.arange(2 * count, dtype=np.uint64))
        with segment_of(stored, HALVES, pairs=pairs) as a, segment_of(stored, HALVES, pairs=pairs) as b:
            tracemalloc.start()
            parts = [Live(segment, 1, NONE) for segment in (a, b)]
            merge_segments(tmp_path / f"{count:08d}.fpseg", parts, "gap", HALVES, True)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert max(peaks) < 24 << 20
    assert peaks[1] < peaks[0] + (2 << 20)
