"""The store as users hold it: exact answers with their ids, and its life from open to close."""

# mypy: disable-error-code="arg-type, assignment, call-arg, misc, union-attr, var-annotated"

import gc
import json
import pickle
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogs import in_a_fork
from helpers import (
    CODECS,
    KINDS,
    LAST,
    brute_force,
    distinct,
    fingerprint_array,
    queries_near,
    scattered_flips,
    uniform,
    write_segment,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fpstore
from fpstore import PlanError, StoreClosed
from fpstore.living.catalog import create_catalog
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings
from fpstore.living.stats import moment_of
from fpstore.plans import families as plans
from fpstore.plans.plan import Plan
from fpstore.query.matches import Matches
from fpstore.segment.entry import SegmentEntry
from fpstore.segment.reader import Segment
from fpstore.segment.report import Report
from fpstore.store import Store
from fpstore.text import recipes
from fpstore.types import Keys

COUNT = 500


def some(count: int = COUNT, seed: int = 1) -> Keys:
    return uniform(count, np.random.default_rng(seed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of some(), with row numbers."""
    fpstore.build(tmp_path / "s", some(), plan="paper-4").close()
    return tmp_path / "s"


def segment_path(folder: Path) -> Path:
    (path,) = (folder / "segments").iterdir()
    return path


def columns(matches: Matches) -> tuple[NDArray[np.int64], Keys, NDArray[np.uint16]]:
    return matches.query, matches.fingerprint, matches.distance


def expected_rows(fingerprints: Keys, ids: Keys, queries: Keys, k: int) -> list[tuple[int, ...]]:
    """What a probe has to answer, as sorted tuples (query, distance, fingerprint, id)."""
    ids_of = {}
    for fingerprint, number in zip(fingerprints.tolist(), ids.tolist(), strict=True):
        ids_of.setdefault(fingerprint, set()).add(number)
    found = (column.tolist() for column in brute_force(distinct(fingerprints), queries, k))
    return sorted((q, d, f, number) for q, f, d in zip(*found, strict=True) for number in ids_of[f])


def rows(matches: Matches) -> list[tuple[int, ...]]:
    return [(match.query, match.distance, match.fingerprint, match.id) for match in matches]


# --- Exact answers ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ids", ["many", None])
def test_a_probe_answers_what_brute_force_answers(tmp_path: Path, kind: str, ids: str | None) -> None:
    rng = np.random.default_rng(3)
    fingerprints = KINDS[kind](3000, rng)
    numbers = rng.choice(uniform(300, rng), len(fingerprints))
    queries = queries_near(distinct(fingerprints), 3, 300, rng)
    with fpstore.build(tmp_path / "s", fingerprints, ids=numbers if ids else None) as store:
        store.verify()
        for k in range(4):
            found = store.probe_many(queries, max_distance=k)
            assert [column.dtype for column in columns(found)] == [np.int64, np.uint64, np.uint16]
            if ids:
                assert found.id.dtype == np.uint64
                assert rows(found) == expected_rows(fingerprints, numbers, queries, k)
            else:
                assert found.id is None
                for column, expected in zip(
                    columns(found), brute_force(distinct(fingerprints), queries, k), strict=True
                ):
                    np.testing.assert_array_equal(column, expected)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, LAST) | st.integers(0, 40), st.integers(0, LAST) | st.integers(0, 3))),
    st.lists(st.integers(0, LAST) | st.integers(0, 40), min_size=1, max_size=20),
    st.sampled_from(CODECS),
    st.integers(0, 1 << 32),
)
def test_any_pairs_are_found_again(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], queries: list[int], codec: str, seed: int
) -> None:
    fingerprints, ids = (fingerprint_array([pair[i] for pair in pairs]) for i in (0, 1))
    plan = scattered_flips(2, 3, np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("any") / "s"
    with fpstore.build(path, fingerprints, ids=ids, plan=plan, codec=codec) as store:
        store.verify()
        assert rows(store.probe_many(queries)) == expected_rows(fingerprints, ids, fingerprint_array(queries), 3)


def test_one_two_and_many_threads_give_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshot, "slice_queries", 64)
    fingerprints = KINDS["clustered"](5000, np.random.default_rng(4))
    ids = np.arange(5000, dtype=np.uint64) // 2
    queries = queries_near(fingerprints, 3, 1000, np.random.default_rng(5))
    with fpstore.build(tmp_path / "s", fingerprints, ids=ids) as store:
        answers = [rows(store.probe_many(queries, threads=threads)) for threads in (1, 2, 7, None)]
    assert answers[0] == expected_rows(fingerprints, ids, queries, 3)
    assert answers[1:] == answers[:1] * 3


def test_a_probe_of_one_is_a_probe_of_many_with_one(tmp_path: Path) -> None:
    fingerprints = KINDS["clustered"](2000, np.random.default_rng(6))
    with fpstore.build(tmp_path / "s", fingerprints) as store:
        for query in (*fingerprints[:50].tolist(), 0, LAST, np.uint64(LAST)):
            for k in (None, 0, 2):
                assert rows(store.probe(query, max_distance=k)) == rows(store.probe_many([query], max_distance=k))


def test_contains_near_says_whether_a_probe_finds_something(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    fingerprints = KINDS["clustered"](2000, rng)
    with fpstore.build(tmp_path / "s", fingerprints) as store:
        for query in queries_near(fingerprints, 3, 200, rng).tolist():
            for k in (None, 0, 1, 2, 3):
                assert store.contains_near(query, max_distance=k) is (len(store.probe(query, max_distance=k)) > 0)


@pytest.mark.parametrize("ids", ["row", None])
def test_an_empty_store_answers_nothing(tmp_path: Path, ids: str | None) -> None:
    with fpstore.build(tmp_path / "s", [], ids=ids) as store:
        store.verify()
        assert store.count() == 0
        assert len(store.probe(0)) == len(store.probe_many([0, LAST])) == 0
        assert not store.contains_near(0)
        assert store.stats(largest_slots=3).fingerprint_count == 0
        assert store.report().to_json()["fingerprint_count"] == 0
        assert (list(store.pairs()), store.count_pairs()) == ([], 0)


@pytest.mark.parametrize("key", [0, 12345, LAST])
def test_a_store_of_one_fingerprint_finds_it(tmp_path: Path, key: int) -> None:
    with fpstore.build(tmp_path / "s", [key] * 3, ids=[LAST, 0, LAST]) as store:
        store.verify()
        assert rows(store.probe(key ^ 0b111)) == [(0, 3, key, 0), (0, 3, key, LAST)]
        assert rows(store.probe(key ^ 0b1111)) == []
        assert store.contains_near(key)


def test_no_queries_get_no_matches_of_the_right_types(folder: Path, tmp_path: Path) -> None:
    with fpstore.open(folder) as store, fpstore.build(tmp_path / "without", some(), ids=None) as without:
        for found in (store.probe_many([]), store.probe_many(np.empty(0, dtype=np.uint64), threads=2)):
            assert [column.dtype for column in columns(found)] == [np.int64, np.uint64, np.uint16]
            assert (len(found), found.id.dtype) == (0, np.uint64)
        assert without.probe_many([]).id is None


@pytest.mark.parametrize("ids", ["row", None])
def test_row_numbers_go_on_across_the_pieces_of_a_stream(tmp_path: Path, ids: str | None) -> None:
    with fpstore.build(tmp_path / "s", iter([[5, 9], [], np.array([5, 7])]), ids=ids) as store:
        found = store.probe(5, max_distance=0)
        assert found.fingerprint.tolist() == ([5, 5] if ids else [5])
        assert (found.id.tolist() if ids else found.id) == ([0, 2] if ids else None)


def test_a_pair_that_comes_twice_is_stored_once(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [5, 5, 5], ids=[1, 1, 2]) as store:
        assert store.probe(5).id.tolist() == [1, 2]


def test_a_fingerprint_whose_ids_are_gone_has_no_rows_but_is_near(tmp_path: Path) -> None:
    # No build writes one; a merge that drops removed ids will.
    plan = plans.paper("paper-4")
    (tmp_path / "segments").mkdir()
    path = tmp_path / "segments" / "00000001.fpseg"
    fingerprints = fingerprint_array([0, 1, 2, LAST])
    write_segment(path, fingerprints, plan, pairs=(fingerprint_array([1, 1, LAST]), fingerprint_array([7, 8, 9])))
    segment = Segment(path)
    entry = SegmentEntry(path.name, segment.file_bytes, 4, 3, segment.footer_crc)
    segment.close()
    create_catalog(tmp_path, Settings(3, plan.to_json(), "gap", "uint64"), (entry,))
    with fpstore.open(tmp_path) as store:
        assert rows(store.probe_many([LAST, 0, 2], max_distance=1)) == [(0, 0, LAST, 9), (1, 1, 1, 7), (1, 1, 1, 8)]
        assert store.contains_near(2, max_distance=0)
        store.verify()


# --- How far a store answers ---


def test_pairs_above_the_plans_distance_name_what_to_rebuild(folder: Path) -> None:
    with fpstore.open(folder) as store:
        for ask in (store.pairs, store.count_pairs):
            with pytest.raises(PlanError, match="build the store with max_distance=9"):
                ask(max_distance=9)


@pytest.mark.parametrize("k", [-1, True, 1.0, "3"])
def test_a_distance_that_is_none_is_refused(folder: Path, k: Any) -> None:
    with fpstore.open(folder) as store, pytest.raises(ValueError, match="expected an integer from 0 to 64"):
        store.probe(1, max_distance=k)


def test_a_plan_for_more_than_was_asked_answers_more(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [0b1111], max_distance=2, plan=plans.choose(5, 4)) as store:
        assert store.max_distance == 2
        assert len(store.probe(0)) == 0
        assert len(store.probe(0, max_distance=4)) == 1


@pytest.mark.parametrize("k", [0, 1, 5, 8])
@pytest.mark.parametrize("aim", ["size", "balanced", "speed"])
def test_a_store_for_another_distance_is_exact(tmp_path: Path, k: int, aim: str) -> None:
    rng = np.random.default_rng(k)
    fingerprints = distinct(KINDS["clustered"](1000, rng))
    queries = queries_near(fingerprints, k, 100, rng)
    with fpstore.build(tmp_path / "s", fingerprints, ids=None, max_distance=k, plan=aim) as store:
        for column, expected in zip(
            columns(store.probe_many(queries)), brute_force(fingerprints, queries, k), strict=True
        ):
            np.testing.assert_array_equal(column, expected)


def test_numbers_may_be_numpys(tmp_path: Path) -> None:
    one = np.int64(1)
    with fpstore.build(tmp_path / "s", [0, 1], ids=None, max_distance=np.int64(3), memory=np.int64(1 << 27)) as store:
        assert type(store.max_distance) is int
        assert len(store.probe_many([0], max_distance=one, threads=one)) == 2
        assert store.count_pairs(max_distance=np.uint8(0), memory=np.int64(1 << 27)) == 0


def test_queries_and_threads_are_checked(folder: Path) -> None:
    with fpstore.open(folder) as store:
        with pytest.raises(TypeError, match=r"^fingerprint: found '5', a str, expected an integer$"):
            store.probe("5")
        with pytest.raises(ValueError, match=r"^fingerprint: found 18446744073709551616, expected integers of 64"):
            store.contains_near(1 << 64)
        with pytest.raises(TypeError, match=r"^fingerprints: found dtype float64"):
            store.probe_many(np.array([np.nan]))
        for threads in (0, -1, True, 1.5):
            with pytest.raises(ValueError, match="expected a positive integer or None"):
                store.probe_many([1], threads=threads)


# --- What a store tells of itself ---


def test_a_store_knows_its_settings_and_its_size(tmp_path: Path) -> None:
    recipe = recipes()["words-4"]
    with fpstore.build(tmp_path / "s", some(), max_distance=2, plan="paper-10", codec="rice", recipe=recipe) as store:
        assert (store.path, store.max_distance, store.codec, store._settings.ids, store.recipe) == (
            tmp_path / "s",
            2,
            "rice",
            True,
            recipe,
        )
        assert store.plan.tables == plans.paper("paper-10").tables
        assert store.count() == COUNT
        assert repr(store) == f"<fpstore.Store '{tmp_path}/s': open for reading, max_distance 2, plan paper-10>"
    assert repr(store) == f"<fpstore.Store '{tmp_path}/s': closed>"


def test_stats_account_for_every_byte(folder: Path) -> None:
    with fpstore.open(str(folder)) as store:
        stats = store.stats()
    record = stats.to_json()
    assert json.loads(json.dumps(record)) | {"segments": ()} == record | {"segments": ()}
    (segment,) = record.pop("segments")
    assert (stats.plan, Plan.from_json(record["plan"])) == (plans.paper("paper-4"), plans.paper("paper-4"))
    settings = {"max_distance": 3, "bits": 64, "plan": stats.plan.to_json(), "codec": "gap", "minhash": None}
    settings |= {"id_type": "uint64", "recipe": None, "kind": "hamming"}
    counts = {"fingerprint_count": COUNT, "pending_count": 0, "removal_count": 0, "segment_count": 1}
    own = {"path": str(folder), "identity": record["identity"]}
    own |= {"spikes": None, "has_writer": False, "writer_pid": None}
    folder_bytes = {"segments": segment["total_bytes"], "catalog": (folder / "catalog.mdb").stat().st_size}
    folder_bytes |= {"names": 0, "sketches": 0, "jobs": 0, "aside": 0, "other": 0}
    sizes = {f"{kind}_bytes": size for kind, size in folder_bytes.items()}
    sizes["total_bytes"] = sum(folder_bytes.values())
    assert datetime.fromisoformat(record.pop("written_at")) == stats.written_at.replace(
        microsecond=stats.written_at.microsecond // 1000 * 1000
    )
    assert record == own | counts | settings | sizes
    assert segment["total_bytes"] == segment_path(folder).stat().st_size
    parts = ("payload", "directory", "fences", "ids", "rest")
    assert sum(segment[f"{part}_bytes"] for part in parts) == segment["total_bytes"]
    assert [table["prefix_bits"] for table in segment["tables"]] == [16] * 4


def test_a_time_that_no_calendar_has_is_the_last_or_the_first() -> None:
    assert [moment_of(seconds).year for seconds in (0, -1e300, 1e300, 1e12, -62_135_596_800)] == [
        1970,
        1,
        9999,
        9999,
        1,
    ]


def test_stats_name_the_fullest_slots_on_request(tmp_path: Path) -> None:
    crowd = fingerprint_array(range(700)) + np.uint64(0xABCD << 48)
    with fpstore.build(tmp_path / "s", np.concatenate([some(2000), crowd]), plan="paper-4") as store:
        assert "largest_slots" not in store.stats().segments[0].tables[0]
        tables = store.stats(largest_slots=2).segments[0].tables
    assert [len(table["largest_slots"]) for table in tables] == [2] * 4
    first, second = tables[0]["largest_slots"]
    assert first["key_count"] >= 700 > second["key_count"]
    assert (0xABCD << 48) & int(first["mask"], 16) == int(first["value"], 16)


def test_a_report_covers_the_segment(folder: Path) -> None:
    phases = set()
    with fpstore.open(folder) as store:
        report = store.report(progress=lambda progress: phases.add(progress.phase))
    assert isinstance(report, Report)
    assert report.to_json()["bytes"]["total"] == segment_path(folder).stat().st_size
    assert phases == {"report", "layouts", "spikes"}


def test_verify_says_how_far_it_is(folder: Path) -> None:
    phases = set()
    with fpstore.open(folder) as store:
        store.verify(progress=lambda progress: phases.add(progress.phase))
    assert "verify checksums" in phases


# --- Open and closed ---


def test_a_store_opens_for_reading_or_for_writing(folder: Path) -> None:
    for mode in ("a", "rb", None):
        with pytest.raises(ValueError, match=f'mode: found {mode!r}, expected "r" or "w"'):
            fpstore.open(folder, mode)
    with pytest.raises(ValueError, match=r'durability: found .never., expected "commit" or "batch"'):
        fpstore.open(folder, "w", durability="never")


def test_a_store_that_is_not_there_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fpstore.open(tmp_path / "none")


def every_use(store: Store) -> list[Callable[..., Any]]:
    return [
        lambda: store.probe(1),
        lambda: store.probe_many([1]),
        lambda: store.contains_near(1),
        lambda: list(store.pairs()),
        lambda: store.count_pairs(),
        lambda: store.verify(),
        lambda: store.report(),
        lambda: store.stats(largest_slots=1),
        lambda: list(store.rows()),
        lambda: store.count(),
        lambda: store._refresh(),
    ]


def test_every_use_of_a_closed_store_is_refused_with_its_path(folder: Path) -> None:
    store = fpstore.open(folder)
    store.close()
    store.close()
    for use in every_use(store):
        with pytest.raises(StoreClosed, match=f"^{folder}: the store is closed$"):
            use()


def test_the_with_statement_closes_even_after_an_error(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), fpstore.open(folder) as store:
        _ = 1 / 0
    with pytest.raises(StoreClosed):
        store.probe(1)


def test_closing_unmaps_the_segment(folder: Path) -> None:
    def mapped() -> bool:
        with open("/proc/self/maps") as maps:
            return str(segment_path(folder)) in maps.read()

    store = fpstore.open(folder)
    store.probe(1)
    assert mapped()
    store.close()
    assert not mapped()


def test_a_store_that_nobody_closes_is_a_resource_warning(folder: Path) -> None:
    stores_left = [fpstore.open(folder)]
    with pytest.warns(ResourceWarning, match=r"open for reading, max_distance 3, plan paper-4> was never closed"):
        stores_left.clear()
    # Warnings are errors here: one that was closed gives none.
    fpstore.open(folder).close()


def test_a_store_that_outlives_the_modules_ends_without_a_word(folder: Path) -> None:
    """At the end of the interpreter their names are None; a store that a package holds is ended after that."""
    program = f"""
import fpstore, fpstore.base, fpstore.living.catalog
store = fpstore.open({str(folder)!r})
fpstore.base.forks = fpstore.living.catalog.forks = None
del store
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert ended.stderr == b""


def test_rows_that_wait_are_kept_where_the_program_ends_without_closing(tmp_path: Path) -> None:
    """Also where something else than the program's own names holds the writer, until modules are taken apart."""
    path = tmp_path / "left.fpstore"
    program = f"""
import collections, os, sys
import fpstore
store = fpstore.create({str(path)!r}, id_type=None) and fpstore.open({str(path)!r}, "w", durability="batch")
store.add([1, 2, 3])
collections.kept = os.kept = sys.kept = [store]
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert ended.stderr == b""
    with fpstore.open(path) as store:
        assert store.count() == 3


def test_a_store_that_does_not_open_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(fpstore.NotAStore):
            fpstore.open(tmp_path)
        gc.collect()


def test_a_fork_is_told_to_open_the_store_again(folder: Path) -> None:
    def child() -> None:
        for use in every_use(store):
            with pytest.raises(StoreClosed, match="the store was opened before a fork; open it again here"):
                use()
        with fpstore.open(folder) as own:
            assert own.contains_near(int(some()[0]))
        store.close()

    with fpstore.open(folder) as store:
        in_a_fork(child)
        assert store.contains_near(int(some()[0]))


@pytest.mark.slow
def test_a_fork_can_close_a_store_that_another_thread_was_probing(tmp_path: Path) -> None:
    fingerprints = KINDS["one_prefix"](1 << 17, np.random.default_rng(1))
    with fpstore.build(tmp_path / "s", fingerprints, ids=None, plan="paper-4") as store:
        view = store._segments[0].view
        worker = threading.Thread(target=store.probe_many, args=(fingerprints[:2000],), kwargs={"threads": 1})
        worker.start()
        while not view.users:
            time.sleep(0)
        in_a_fork(store.close)
        worker.join()


def test_a_pickled_store_opens_the_same_path(folder: Path) -> None:
    with fpstore.open(folder) as store, pickle.loads(pickle.dumps(store)) as copy:
        assert (copy.path, rows(copy.probe(int(some()[3])))) == (store.path, rows(store.probe(int(some()[3]))))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_closing_waits_for_a_probe_in_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    # One prefix for all: each query looks at every key, so that the probe takes a while.
    monkeypatch.setattr(Snapshot, "slice_queries", 64)
    fingerprints = distinct(KINDS["one_prefix"](1 << 18, np.random.default_rng(1)))
    queries = fingerprints[:512]
    expected = brute_force(fingerprints, queries, 3)
    store = fpstore.build(tmp_path / "s", fingerprints, ids=None, plan="paper-4")
    view = store._segments[0].view
    outcome = []

    def probe() -> None:
        try:
            outcome.append(store.probe_many(queries, threads=threads))
        except StoreClosed as error:
            outcome.append(error)

    worker = threading.Thread(target=probe)
    worker.start()
    while not view.users:
        time.sleep(0)
    store.close()
    assert view.users == 0
    worker.join()
    (found,) = outcome
    # Whole or an error: what was still to be searched is refused.
    if not isinstance(found, StoreClosed):
        for column, wanted in zip(columns(found), expected, strict=True):
            np.testing.assert_array_equal(column, wanted)


@pytest.mark.slow
def test_many_threads_may_use_and_close_a_store_at_once(tmp_path: Path) -> None:
    fingerprints = KINDS["clustered"](20_000, np.random.default_rng(2))
    with fpstore.build(tmp_path / "first", fingerprints, plan="paper-4") as store:
        expected = rows(store.probe_many(fingerprints[:300]))
    for _ in range(20):
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        store = fpstore.build(tmp_path / "s", fingerprints, plan="paper-4")
        wrong = []

        def work(store: fpstore.Store = store, wrong: Any = wrong) -> None:
            try:
                while True:
                    if rows(store.probe_many(fingerprints[:300], threads=2)) != expected:
                        wrong.append("an answer")
                    store.verify()
                    store.stats(largest_slots=2)
                    store.report()
                    store.count_pairs()
            except StoreClosed:
                pass
            except BaseException as error:
                wrong.append(repr(error))

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        time.sleep(0.03)
        for closer in [threading.Thread(target=store.close) for _ in range(2)]:
            closer.start()
            workers.append(closer)
        for worker in workers:
            worker.join()
        assert wrong == []
