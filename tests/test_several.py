"""A query that looks several segments up together finds what is in each of them, and only where these go together."""

# mypy: disable-error-code="arg-type, union-attr"

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import flipped

import fpstore
from fpstore._native import INSTRUCTION_SET
from fpstore._watch import Watch
from fpstore.format import DIRECTORY_LINE_BYTES, GROUP_SLOTS, PAGE_BYTES
from fpstore.living.sizes import LivingSizes
from fpstore.store import Store
from fpstore.types import Keys

ALWAYS = Watch(sure=True)
SIZES = {"even": [900] * 9, "uneven": [20_000, 6_000, 1_500, 300, 200], "shared": [700] * 5, "around": [25_000] * 3}
PLANS = ("paper-10", "parts-2:2", "paper-4", "flips-3:1,0,0", "flips-2:1,1")
MOST_SLOTS = 191  # of all, and of each
MOST_SLOTS_EACH = 28


def parts_of(kind: str) -> list[Keys]:
    """Keys of segments: spread evenly; of several sizes; half the same in all; around one, so that slots are large."""
    source = np.random.default_rng(61)
    sizes = SIZES[kind]
    if kind == "around":
        errors = [np.uint64(1) << source.integers(0, 64, (sum(sizes),), dtype=np.uint64) for _ in range(5)]
        keys = np.uint64(0x0123456789ABCDEF) ^ np.bitwise_xor.reduce(errors)
    else:
        keys = source.integers(0, 2**64, sum(sizes), dtype=np.uint64)
    parts = np.split(keys, np.cumsum(sizes)[:-1])
    if kind == "shared":
        parts = [np.concatenate([part, keys[:700]]) for part in parts]
    return parts


def in_segments(path: Path, parts: list[Keys], plan: str, codec: str = "gap", id_type: str | None = None) -> Store:
    fpstore.create(path, plan=plan, codec=codec, id_type=id_type).close()
    with Store(path, "w", "batch", LivingSizes(growth=0)) as store:
        for number, keys in enumerate(parts):
            store.add(keys, ids=None if id_type is None else np.arange(len(keys), dtype=np.uint64) + 100_000 * number)
            store._flush()
    store = fpstore.open(path)
    assert len(store._segments) == len(parts)
    return store


def slots_of(store: Store, number: int) -> int:
    """How many slots a query has in a segment; none where they cannot be named together."""
    slots = 0
    for table in store._segments[number].tables:
        bits = table.slot_bits
        if bits > table.prefix_mask.bit_count():
            return 0
        slots += 1 + bits * (table.flips > 0)
    return slots


def expected_together(store: Store) -> dict[int, int]:
    """Which segments go together: as many as fit, one after the other, where the machine has lanes for them."""
    found: dict[int, int] = {}
    first = 0
    while INSTRUCTION_SET == "wide" and first < len(store._segments):
        end, room = first, MOST_SLOTS
        while end < len(store._segments) and 0 < slots_of(store, end) <= min(room, MOST_SLOTS_EACH):
            room -= slots_of(store, end)
            end += 1
        if end - first > 1 or (end > first and slots_of(store, first) == len(store.plan.tables)):
            found[first] = end - first
        first = max(end, first + 1)
    return found


@pytest.fixture(
    scope="module", params=[f"{kind} {plan} {codec}" for kind in SIZES for plan in PLANS for codec in ("gap", "xor")]
)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Keys]]:
    kind, plan, codec = request.param.split()
    parts = parts_of(kind)
    with in_segments(tmp_path_factory.mktemp("several") / "store", parts, plan, codec) as store:
        yield store, np.unique(np.concatenate(parts))


def queries_of(keys: Keys) -> list[int]:
    source = np.random.default_rng(16)
    asked = np.repeat(keys[source.integers(0, len(keys), 40)], 2)
    asked = flipped(asked, source.integers(0, 6, len(asked)), source)
    return [*asked.tolist(), *source.integers(0, 2**64, 10, dtype=np.uint64).tolist(), 0, 2**64 - 1]


def test_segments_of_few_slots_are_looked_up_together(stored: tuple[Store, Keys]) -> None:
    store, _ = stored
    store.probe(0)
    assert store._latest.single.segments.together == expected_together(store)
    if INSTRUCTION_SET == "wide" and len(store.plan.tables) > 3:
        assert store._latest.single.segments.together == {0: len(store._segments)}


@pytest.mark.parametrize("warm", [False, True])
def test_what_is_in_any_of_them_is_found(stored: tuple[Store, Keys], warm: bool) -> None:
    store, keys = stored
    if warm:
        store._warm()
    for query in queries_of(keys):
        apart = np.bitwise_count(keys ^ np.uint64(query))
        for distance in (0, 2, 3):
            near = np.flatnonzero(apart <= distance)
            order = near[np.lexsort((keys[near], apart[near]))]
            found = store._latest.single.probe(ALWAYS, query, distance, False)
            assert found.fingerprint.tolist() == keys[order].tolist()
            assert found.distance.tolist() == apart[order].tolist()


@pytest.mark.parametrize("count", [1, 3])
def test_the_nearest_of_all_of_them_are_found(stored: tuple[Store, Keys], count: int) -> None:
    store, keys = stored
    for query in queries_of(keys)[::5]:
        apart = np.bitwise_count(keys ^ np.uint64(query))
        order = np.lexsort((keys, apart))[:count]
        for _ in range(2):  # the second time it is known how far they are
            assert store.nearest(query, count).fingerprint.tolist() == keys[order].tolist()


@pytest.mark.parametrize("kind", ["uneven", "shared"])
def test_each_row_has_the_id_that_its_own_segment_gave_it(tmp_path: Path, kind: str) -> None:
    parts = parts_of(kind)
    keys, ids = (
        np.concatenate(parts),
        np.concatenate([100_000 * i + np.arange(len(part)) for i, part in enumerate(parts)]),
    )
    with in_segments(tmp_path / "store", parts, "paper-10", id_type="uint64") as store:
        for query in queries_of(keys):
            apart = np.bitwise_count(keys ^ np.uint64(query))
            near = np.flatnonzero(apart <= 3)
            order = near[np.lexsort((ids[near], keys[near], apart[near]))]
            found = store._latest.single.probe(ALWAYS, query, None, False)
            assert found.fingerprint.tolist() == keys[order].tolist()
            assert found.id.tolist() == ids[order].tolist()


def test_rows_beyond_what_one_call_answers_are_those_of_all_segments(tmp_path: Path) -> None:
    keys = parts_of("even")[0]
    rows = [np.concatenate([np.full(1_500, keys[0]), keys]) for _ in range(3)]
    with in_segments(tmp_path / "store", rows, "paper-10", id_type="uint64") as store:
        assert store._latest.single.probe(ALWAYS, int(keys[0]), None, False) is None
        assert len(store.probe(int(keys[0]))) == 3 * 1_501


@pytest.mark.parametrize("page", range(2, 10))
def test_a_page_in_which_a_block_ends_is_checked_with_it(tmp_path: Path, page: int) -> None:
    parts = np.split(np.random.default_rng(7).integers(0, 2**64, 40_000, dtype=np.uint64), 2)
    in_segments(tmp_path / "store", parts, "paper-10").close()
    first_use = []
    for alone in (True, False):
        with fpstore.open(tmp_path / "store") as store:
            view, table = store._segments[0].view, store._segments[0].tables[0]
            begin, end = PAGE_BYTES * page, PAGE_BYTES * (page + 1)
            assert table.payload_offset < begin < end < table.payload_offset + table.payload_bits // 8
            for segment in store._segments:
                segment.view.warm(0, page if segment.view is view else segment.view.page_count)
            view.warm(page + 1, view.page_count)
            keys = np.sort(parts[0])  # as they lie in the first table: those before the page come first
            asked = 0
            while view.is_new(begin, end):
                key = int(keys[asked])
                asked += 1
                if alone:
                    store._latest.single.probe(ALWAYS, key, 0, False)
                else:
                    store.probe_many(np.array([key], dtype=np.uint64), max_distance=0, threads=1)
            first_use.append(asked)
    assert first_use[0] == first_use[1] > 1


@pytest.mark.parametrize("which", range(9))
def test_a_damaged_page_of_any_of_them_is_named(tmp_path: Path, which: int) -> None:
    parts = parts_of("even")
    in_segments(tmp_path / "store", parts, "paper-10").close()
    segment = sorted((tmp_path / "store" / "segments").iterdir())[which]
    data = bytearray(segment.read_bytes())
    data[4096 * 2 : 4096 * 3] = bytes(byte ^ 0xFF for byte in data[4096 * 2 : 4096 * 3])
    segment.write_bytes(data)
    with fpstore.open(tmp_path / "store") as store, pytest.raises(fpstore.CorruptStore) as caught:
        [store.probe(key) for key in np.concatenate(parts).tolist()]
    assert caught.value.path == segment


@pytest.mark.parametrize("which", range(3))
def test_a_directory_that_is_another_but_sound_one_is_not_believed(tmp_path: Path, which: int) -> None:
    parts = np.split(np.random.default_rng(5).integers(0, 2**64, 90_000, dtype=np.uint64), 3)
    with in_segments(tmp_path / "store", parts, "speed") as store:
        table = store._segments[which].tables[2]
    segment = sorted((tmp_path / "store" / "segments").iterdir())[which]
    data = bytearray(segment.read_bytes())
    page = -(-table.directory_offset // PAGE_BYTES) * PAGE_BYTES
    assert page + PAGE_BYTES < table.directory_offset + DIRECTORY_LINE_BYTES * (1 << table.slot_bits) // GROUP_SLOTS
    for line in range(page, page + PAGE_BYTES, 2 * DIRECTORY_LINE_BYTES):
        data[line + DIRECTORY_LINE_BYTES : line + 2 * DIRECTORY_LINE_BYTES] = data[line : line + DIRECTORY_LINE_BYTES]
    segment.write_bytes(data)
    with fpstore.open(tmp_path / "store") as store, pytest.raises(fpstore.CorruptStore) as caught:
        [store.probe(key) for key in parts[which][:1000].tolist()]
    assert caught.value.path == segment
