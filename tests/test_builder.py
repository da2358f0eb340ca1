"""Building: what is refused at the door or is there already, and that the bytes depend on the input alone."""

# mypy: disable-error-code="arg-type, func-returns-value, index, var-annotated"

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import KINDS, LAST, brute_force, distinct, fingerprint_array, scattered_choose, scattered_flips, uniform
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore import PlanError, RecipeError, StoreLocked
from fpstore.building import options as build_options
from fpstore.building import rows, runs, spill
from fpstore.building.options import BuildOptions
from fpstore.building.permuted import permuted_tables
from fpstore.building.runs import runs_of
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.choice import PlanChoice
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan, TablePlan
from fpstore.segment.writer import SegmentWriter
from fpstore.types import Keys

COUNT = 300
MEMORY = 64 << 20


def some(count: int = COUNT, seed: int = 1) -> Keys:
    return uniform(count, np.random.default_rng(seed))


def segment_bytes(path: Path) -> bytes:
    (segment,) = (path / "segments").iterdir()
    return segment.read_bytes()


def small_budgets(patch: Any) -> None:
    """Budgets of little more than a sorter's least, so that some ten thousand keys spill."""
    patch.setattr(build_options, "MIN_MEMORY", 1)
    patch.setattr(rows, "OTHER_MEMORY", 0)
    patch.setattr(rows, "MIN_SORTER_MEMORY", 1 << 10)
    patch.setattr(spill, "MIN_MEMORY_BYTES", 1 << 10)
    patch.setattr(spill, "RESERVE_BYTES", 0)
    patch.setattr(spill, "MIN_PIECE_BYTES", 64)
    patch.setattr(runs, "GROUP_KEYS", 3)


def as_stream(*columns: object, size: int) -> Iterator[tuple[Keys, Keys]]:
    for start in range(0, len(columns[0]), size):
        parts = tuple(column[start : start + size] for column in columns)
        yield parts if len(parts) == 2 else parts[0]


# --- What is refused before anything is read or written ---


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_distance": -1}, ValueError, "max_distance: found -1, expected an integer from 0 to 64"),
        ({"max_distance": 65}, ValueError, "max_distance: found 65, expected an integer from 0 to 64"),
        ({"max_distance": True}, ValueError, "max_distance: found True, expected an integer"),
        ({"max_distance": 2.0}, ValueError, r"max_distance: found 2\.0, expected an integer"),
        ({"codec": "zip"}, ValueError, "codec: found 'zip', expected one of gap, xor, rice, raw"),
        ({"plan": "papers-4"}, PlanError, "papers-4.*expected one of"),
        ({"plan": None}, ValueError, "plan: found None, expected size, balanced, speed, a name or a Plan"),
        ({"plan": -5.0}, ValueError, r"plan: found -5\.0, expected"),
        ({"plan": float("nan")}, ValueError, "plan: found nan, expected"),
        ({"plan": True}, ValueError, "plan: found True, expected"),
        ({"plan": "12"}, PlanError, "12.*expected one of"),
        ({"max_bytes": -5.0}, ValueError, r"max_bytes: found -5\.0, expected a number of bytes per fingerprint"),
        ({"max_bytes": float("nan")}, ValueError, "max_bytes: found nan, expected a number"),
        ({"max_bytes": True}, ValueError, "max_bytes: found True, expected a number"),
        ({"max_bytes": "12"}, ValueError, "max_bytes: found '12', expected a number"),
        ({"plan": "size", "max_bytes": 12}, ValueError, "plan and max_bytes: found 'size' and 12, expected one"),
        ({"recipe": {"a": 1}}, TypeError, "recipe: found a dict, expected a Recipe, the name of one or None"),
        ({"recipe": "web"}, RecipeError, "recipe: found 'web', expected a Recipe or one of text-1, words-4, "),
        ({"plan": "paper-4", "max_distance": 4}, PlanError, "paper-4"),
        (
            {"plan": plans.choose(4, 2), "max_distance": 3},
            PlanError,
            "plan choose-4, max_distance: found 2, expected 3 or more",
        ),
        ({"plan": plans.choose(4, 3, 32)}, PlanError, "bits: found 32, expected 64"),
        ({"memory": "64 parsecs"}, ValueError, "memory: found '64 parsecs', expected"),
        ({"memory": 0}, ValueError, "memory: found 0, expected"),
        ({"memory": MEMORY - 1}, ValueError, "memory: found 67108863 bytes, expected 64MiB or more"),
        ({"threads": 0}, ValueError, "threads: found 0, expected a positive integer or None"),
        ({"threads": True}, ValueError, "threads: found True, expected"),
        ({"ids": "rows"}, ValueError, "ids: found 'rows', expected an array, \"row\" or None"),
        ({"ids": [1, 2]}, ValueError, "2 ids for 300 fingerprints: expected one for each"),
        ({"ids": np.zeros(COUNT)}, TypeError, "ids: found dtype float64"),
        ({"ids": np.zeros((COUNT, 1), dtype=np.uint64)}, ValueError, "ids: found 2 dimensions"),
        ({"ids": [1 << 64] * COUNT}, ValueError, "ids, item 0: found 18446744073709551616"),
    ],
)
def test_a_wrong_argument_is_refused_and_nothing_is_written(
    tmp_path: Path, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        fpstore.build(tmp_path / "s", some(), **options)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_could_miss_is_refused_with_what_it_misses(tmp_path: Path) -> None:
    whole = plans.paper("paper-4")
    with pytest.raises(
        PlanError, match=r"would miss matches at distance 3: no table catches errors in bits 8000800080000000"
    ):
        fpstore.build(tmp_path / "s", some(), plan=Plan("three", 3, whole.bands, whole.tables[:3]))
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_a_plan_may_take_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"bytes per key, expected 0\.5"):
        fpstore.build(tmp_path / "s", some(20_000), max_bytes=0.5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "bad", [np.zeros(3), np.array([np.nan]), [1.5], "abc", [-1 - (1 << 63)], np.zeros((2, 2), np.uint64)]
)
@pytest.mark.parametrize("stream", [False, True])
def test_bad_fingerprints_are_refused_and_nothing_is_left(tmp_path: Path, bad: Any, stream: bool) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^fingerprints[:,] "):
        fpstore.build(tmp_path / "s", iter([some(), bad]) if stream else bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ("rows", ValueError, "ids of a stream: found 'rows', expected \"row\" or None, or pairs in it"),
        (np.arange(3), TypeError, "ids of a stream: found a ndarray, expected"),
        ([1], TypeError, "ids of a stream: found a list, expected"),
    ],
)
def test_ids_that_a_stream_cannot_have_are_refused_before_it_is_read(
    tmp_path: Path, ids: Any, error: type[TypeError] | type[ValueError], message: str
) -> None:
    stream = iter([some()])
    with pytest.raises(error, match=message):
        fpstore.build(tmp_path / "s", stream, ids=ids)
    assert len(list(stream)) == 1


@pytest.mark.parametrize("item", [some(2), (some(2),), (some(2), None), (some(2), "row"), [1, 2]])
def test_a_stream_of_pairs_that_yields_something_else_is_refused(tmp_path: Path, item: Any) -> None:
    with pytest.raises(TypeError, match=r"^the stream yields .*, expected pairs of arrays: \(fingerprints, ids\)$"):
        fpstore.build(tmp_path / "s", iter([(some(2), some(2)), item]))
    assert list(tmp_path.iterdir()) == []


def test_a_stream_of_arrays_that_yields_a_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^the stream yields .* after arrays, expected arrays of fingerprints$"):
        fpstore.build(tmp_path / "s", iter([some(2), (some(2), some(2))]))
    assert list(tmp_path.iterdir()) == []


def test_pairs_for_a_store_without_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the stream yields pairs of fingerprints and ids, expected no ids"):
        fpstore.build(tmp_path / "s", iter([(some(2), some(2))]), ids=None)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_whose_ids_are_fewer_than_its_fingerprints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 ids for 2 fingerprints: expected one for each"):
        fpstore.build(tmp_path / "s", iter([([1, 2], [1])]))


def test_a_source_without_ids_for_a_store_with_ids_is_refused(tmp_path: Path) -> None:
    options = BuildOptions(PlanChoice(3, "size"), "gap", True, MEMORY)
    with pytest.raises(ValueError, match=r"^the stream has no ids: expected \(fingerprints, ids\) pairs$"):
        rows.write_segment(tmp_path / "s", tmp_path, iter([(some(), None)]), options, lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="the store's folder would lie in one that is not there"):
        fpstore.build(tmp_path / "none" / "s", some())
    assert list(tmp_path.iterdir()) == []


# --- What is there already ---


@pytest.mark.parametrize("name", ["folder", "file", "link"])
def test_force_is_not_advised_where_it_would_not_help(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError, match="already there; and no store, expected nothing"):
        fpstore.build(tmp_path / name, some())


def test_an_existing_store_is_refused_without_force_and_unread(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some()).close()
    stream = iter([some()])
    for fingerprints in (stream, some(seed=2)):
        with pytest.raises(FileExistsError, match=r"already there; --force \(force=True\) replaces a store"):
            fpstore.build(tmp_path / "s", fingerprints)
    assert len(list(stream)) == 1
    with fpstore.open(tmp_path / "s") as store:
        assert store.count() == COUNT


def test_force_replaces_a_store_with_all_its_settings(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some(), recipe="exact").close()
    with fpstore.build(
        tmp_path / "s", some(50, 2), ids=None, max_distance=2, plan="size", codec="xor", force=True
    ) as store:
        assert (store.count(), store.max_distance, store.codec, store._settings.ids, store.recipe) == (
            50,
            2,
            "xor",
            False,
            None,
        )
        store.verify()
    assert [path.name for path in (tmp_path / "s" / "segments").iterdir()] == ["00000002.fpseg"]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_force_without_a_store_builds_one(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", some(), force=True) as store:
        assert store.count() == COUNT


@pytest.mark.parametrize("kind", ["empty folder", "folder", "file", "dangling link"])
def test_what_is_no_store_is_refused_even_with_force_and_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("mine")
    elif kind == "dangling link":
        path.symlink_to("none")
    else:
        path.mkdir()
        if kind == "folder":
            (path / "segments").mkdir()
            (path / "segments" / "00000001.fpseg").write_text("mine")
    before = [(each, each.is_file() and each.read_bytes()) for each in sorted(tmp_path.rglob("*"))]
    with pytest.raises((fpstore.CorruptStore, fpstore.NotAStore, FileNotFoundError)):
        fpstore.build(path, some(), force=True)
    with pytest.raises(FileExistsError):
        fpstore.build(path, some())
    assert [(each, each.is_file() and each.read_bytes()) for each in sorted(tmp_path.rglob("*"))] == before


def test_a_store_that_another_process_writes_to_is_locked(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some()).close()
    lock = os.open(tmp_path / "s" / "writer.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked):
            fpstore.build(tmp_path / "s", some(), force=True)
    finally:
        os.close(lock)


def test_a_store_open_for_reading_answers_from_the_one_that_replaced_it(tmp_path: Path) -> None:
    old, new = some(), some(seed=2)
    with fpstore.build(tmp_path / "s", old) as store:
        pairs = store.rows()
        first = next(pairs).fingerprint
        fpstore.build(tmp_path / "s", new, max_distance=2, ids=None, plan="paper-10", force=True).close()
        assert store.probe(int(new[7])).fingerprint.tolist()[:1] == [new[7]]
        assert (store.max_distance, store._settings.ids, store.plan.name, store.count()) == (
            2,
            False,
            "paper-10",
            len(np.unique(new)),
        )
        store.verify()
        # What was begun before goes on from the state of then.
        assert np.array_equal(np.concatenate([first, *(keys for keys, _ in pairs)]), np.unique(old))


# --- The same input and settings give the same bytes ---


@pytest.mark.slow
@pytest.mark.parametrize("ids", ["row", "pairs", None])
@pytest.mark.parametrize("plan", ["paper-4", "size"])
def test_other_budgets_and_other_pieces_of_the_input_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: Any, plan: Any
) -> None:
    rng = np.random.default_rng(5)
    fingerprints = KINDS["duplicate_heavy"](20_000, rng)
    numbers = rng.integers(0, 1 << 20, len(fingerprints), dtype=np.uint64)
    columns = (fingerprints, numbers) if ids == "pairs" else (fingerprints,)
    arrays = numbers if ids == "pairs" else ids
    fpstore.build(tmp_path / "whole", fingerprints, ids=arrays, plan=plan).close()
    fpstore.build(
        tmp_path / "stream", as_stream(*columns, size=777), ids=None if ids is None else "row", plan=plan
    ).close()
    whole = segment_bytes(tmp_path / "whole")
    assert segment_bytes(tmp_path / "stream") == whole

    merged_runs = []
    small_budgets(monkeypatch)
    monkeypatch.setattr(spill, "runs_of", lambda *call: (merged_runs.append(len(call[1]) - 1), runs_of(*call))[1])
    for memory in (12 << 10, 40 << 10):
        path = tmp_path / str(memory)
        with fpstore.build(
            path, as_stream(*columns, size=1000), ids=None if ids is None else "row", plan=plan, memory=memory
        ) as store:
            store.verify()
        assert segment_bytes(path) == whole
    assert max(merged_runs) > 2


def test_a_budget_far_below_the_input_spills_and_gives_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints, ids = some(1_000_000), some(1_000_000, 2)
    fpstore.build(tmp_path / "in-memory", fingerprints, ids=ids, plan="size").close()
    merged_runs = []
    monkeypatch.setattr(spill, "runs_of", lambda *call: (merged_runs.append(len(call[1]) - 1), runs_of(*call))[1])
    stream = as_stream(fingerprints, ids, size=100_000)
    fpstore.build(tmp_path / "spilled", stream, plan="size", memory="64MiB").close()
    assert set(merged_runs) == {1}  # and the last one in memory
    assert segment_bytes(tmp_path / "spilled") == segment_bytes(tmp_path / "in-memory")


def test_what_table_0_takes_of_the_budget_is_not_there_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets, real = [], permuted_tables

    def noted(keys0: Any, in_memory: Any, tables: Any, directory: Path, memory_bytes: int, *rest: int) -> Any:
        budgets.append(memory_bytes)
        return real(keys0, in_memory, tables, directory, memory_bytes, *rest)

    monkeypatch.setattr(rows, "permuted_tables", noted)
    monkeypatch.setattr(rows, "MIN_SORTER_MEMORY", 1)
    for name, ids, item_bytes in (("bare", None, 8), ("ids", "row", 16)):
        fpstore.build(tmp_path / name, some(), ids=ids, plan="paper-4", memory=MEMORY).close()
        assert budgets.pop() == MEMORY - rows.OTHER_MEMORY - item_bytes * COUNT


@pytest.mark.parametrize(("copies", "begun"), [(1, 1), (4, 2)])
def test_keys_are_counted_by_the_pass_that_chooses_a_code_and_laid_out_anew_where_they_are_far_fewer_than_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: int, begun: int
) -> None:
    fingerprints = np.random.default_rng(3).permutation(np.tile(some(20_000), copies))
    fpstore.build(tmp_path / "whole", fingerprints, ids=None, plan="paper-4").close()
    small_budgets(monkeypatch)
    writers, told = [], []

    def noted(*arguments: Any, **more: Any) -> Any:
        writers.append(arguments)
        return SegmentWriter(*arguments, **more)

    monkeypatch.setattr(rows, "SegmentWriter", noted)
    fpstore.build(
        tmp_path / "streamed",
        as_stream(fingerprints, size=9000),
        ids=None,
        plan="paper-4",
        memory=40 << 10,
        progress=lambda each: told.append(each[:3]),
    ).close()
    assert segment_bytes(tmp_path / "streamed") == segment_bytes(tmp_path / "whole")
    assert len(writers) == begun
    ends = [done == total for phase, done, total in told if phase.startswith("table") and "sorting" not in phase]
    assert ends[-1]
    assert sum(ends) >= 4  # of each table


@pytest.mark.parametrize("ids", [None, "row"])
def test_a_segment_is_written_past_the_cache_where_its_rows_are_more_than_the_budget_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str | None
) -> None:
    fingerprints, past = some(20_000), []

    def noted(*arguments: Any, **more: Any) -> Any:
        past.append(more["uncached"])
        return SegmentWriter(*arguments, **more)

    small_budgets(monkeypatch)
    monkeypatch.setattr(rows, "SegmentWriter", noted)
    for name, memory in (("within", 1 << 20), ("beyond", 90 << 10)):
        rows_of = as_stream(fingerprints, size=9000)
        fpstore.build(tmp_path / name, rows_of, ids=ids, plan="paper-4", memory=memory).close()
    assert past == [False, True]
    assert segment_bytes(tmp_path / "beyond") == segment_bytes(tmp_path / "within")


@pytest.mark.parametrize("ids", [None, "row"])
def test_keys_that_did_not_fit_are_let_go_of_when_table_0_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str | None
) -> None:
    fingerprints = some(140_000)
    small_budgets(monkeypatch)
    monkeypatch.setattr(runs, "GROUP_KEYS", 128)
    monkeypatch.setattr(spill, "CHUNK_BYTES", 1 << 14)
    left: list[tuple[int, ...]] = []
    real: Any = permuted_tables

    def noted(keys0: Any, in_memory: Any, tables: Any, directory: Path, memory_bytes: int, *rest: Any) -> Any:
        assert in_memory is None
        threads, bits, stored, lender = rest
        held = keys0 if ids is None else keys0._pairs

        def again() -> Any:
            taken = held.memory_bytes
            keys = stored()
            left.append((taken, held.memory_bytes, held.count, memory_bytes))
            assert keys.count == len(fingerprints)
            return keys

        return real(keys0, in_memory, tables, directory, memory_bytes, threads, bits, again, lender)

    monkeypatch.setattr(rows, "permuted_tables", noted)
    with fpstore.build(
        tmp_path / "s", as_stream(fingerprints, size=9000), ids=ids, plan="paper-4", memory=1 << 20
    ) as store:
        store.verify()
    ((before, after, count, budget),) = left
    # Pairs are needed for the ids. Keys are not, so the other tables have the whole budget.
    assert (after, count) == ((0, 0) if ids is None else (before, len(fingerprints)))
    assert (before > 1 << 19) == (ids is None)
    assert budget == (1 << 20) - after


def test_the_order_of_the_input_does_not_matter_without_row_numbers(tmp_path: Path) -> None:
    fingerprints = some()
    order = np.random.default_rng(7).permutation(COUNT)
    ids = np.arange(COUNT, dtype=np.uint64) % 9
    fpstore.build(tmp_path / "a", fingerprints, ids=ids).close()
    fpstore.build(tmp_path / "b", fingerprints[order], ids=ids[order]).close()
    assert segment_bytes(tmp_path / "a") == segment_bytes(tmp_path / "b")


@pytest.mark.parametrize("ids", ["row", None])
@pytest.mark.parametrize("plan", ["paper-4", "size"])
def test_any_number_of_threads_gives_the_same_bytes(tmp_path: Path, ids: str | None, plan: str) -> None:
    fingerprints = KINDS["duplicate_heavy"](20_000, np.random.default_rng(5))
    for threads in (1, 2, 3):
        fpstore.build(tmp_path / str(threads), fingerprints, ids=ids, plan=plan, threads=threads).close()
    assert segment_bytes(tmp_path / "2") == segment_bytes(tmp_path / "3") == segment_bytes(tmp_path / "1")


# --- Plans whose table 0 is not the fingerprints in their own order ---


@settings(max_examples=25)
@given(st.integers(0, 1 << 32), st.sampled_from(["choose", "flips", "moved"]), st.sampled_from(["gap", "rice"]))
def test_any_plan_is_built_and_probed_with_its_ids(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str, codec: str
) -> None:
    rng = np.random.default_rng(seed)
    if kind == "choose":
        plan = scattered_choose(5, 3, rng)
    elif kind == "flips":
        plan = scattered_flips(2, 3, rng)
    else:
        whole = plans.paper("paper-4")
        plan = Plan("moved", 3, whole.bands, whole.tables[1:] + whole.tables[:1])
    fingerprints = KINDS["clustered"](400, rng)
    ids = rng.integers(0, 50, 400, dtype=np.uint64)
    expected = {}
    for fingerprint, number in zip(fingerprints.tolist(), ids.tolist(), strict=True):
        expected.setdefault(fingerprint, set()).add(number)
    path = tmp_path_factory.mktemp("plan") / "s"
    with fpstore.build(path, fingerprints, ids=ids, plan=plan, codec=codec) as store:
        store.verify()
        assert store.plan == plan
        found = store.probe_many(fingerprints[:100])
        answer = [(match.query, match.distance, match.fingerprint, match.id) for match in found]
    columns = zip(
        *(column.tolist() for column in brute_force(distinct(fingerprints), fingerprints[:100], 3)), strict=True
    )
    assert answer == sorted((q, d, f, number) for q, f, d in columns for number in expected[f])


@pytest.mark.slow
@pytest.mark.parametrize("k", range(9))
def test_every_plan_that_the_planner_chooses_begins_with_the_fingerprints_in_their_own_order(k: Any) -> None:
    # The build sorts the input before it knows how many distinct fingerprints there are.
    for n in (0, 1000, 10**6, 10**8, 10**10):
        for aim in (*planner.AIMS, 100.0):
            assert Permutation(planner.choose(n, k, aim).tables[0].prefix_mask).is_identity


def test_a_table_of_the_identity_may_have_any_prefix(tmp_path: Path) -> None:
    plan = Plan("one", 3, (LAST,), (TablePlan(LAST, 3),))
    with fpstore.build(tmp_path / "s", fingerprint_array([0, 7, LAST]), plan=plan) as store:
        assert store.probe(0).fingerprint.tolist() == [0, 7]


def test_progress_never_goes_back_within_a_phase(tmp_path: Path) -> None:
    seen = {}

    def progress(told: fpstore.Progress) -> None:
        phase, done, total, unit = told
        assert unit in ("rows", "keys", "ids")
        assert done >= seen.get(phase, 0)
        assert total is None or done <= total
        seen[phase] = done

    fpstore.build(tmp_path / "s", iter([some(), some(seed=2)]), plan="paper-4", progress=progress).close()
    assert seen["reading"] == 2 * COUNT
    assert [seen[f"table {i} of 4"] for i in (1, 2, 3, 4)] == [2 * 2 * COUNT] * 4


def test_a_store_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", some()).close()
    assert {path.stat().st_mode & 0o077 for path in [tmp_path / "s", *Path(tmp_path / "s").rglob("*")]} == {0}
