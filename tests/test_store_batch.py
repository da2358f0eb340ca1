"""Large batches through the store: streamed where that costs less, with the same answer."""

# mypy: disable-error-code="misc"

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import KINDS, ask_by, queries_near

import fpstore
from fpstore.threads import Threads

METHODS = ("probe", "stream", "scan")


def rows(matches: fpstore.Matches) -> list[tuple[int, int, int, int | None]]:
    return [tuple(match) for match in matches]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ids", ["row", None])
def test_a_batch_that_is_streamed_or_scanned_answers_as_one_that_is_probed(
    tmp_path: Path, ids: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    stored = KINDS["clustered"](20_000, rng)
    queries = queries_near(stored, 3, 3000, rng)
    with fpstore.build(tmp_path / "s.fpstore", stored, ids=ids) as store:
        answers = []
        for method in METHODS:
            ask_by(monkeypatch, method)
            answers.append(store.probe_many(queries, threads=threads))
    assert [found.method for found in answers] == list(METHODS)
    assert len(answers[0]) > 3000
    assert rows(answers[0]) == rows(answers[1]) == rows(answers[2])


def test_small_batches_are_probed_and_huge_ones_streamed(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    stored = KINDS["uniform"](50_000, rng)
    with fpstore.build(tmp_path / "s.fpstore", stored, ids=None) as store:
        assert store.probe_many(stored[:10]).method == "probe"
        assert store.probe_many(np.tile(stored, 10)).method == "stream"


def test_damage_is_named_by_a_batch_that_is_streamed_or_scanned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = KINDS["uniform"](20_000, np.random.default_rng(5))
    fpstore.build(tmp_path / "s.fpstore", stored, ids=None).close()
    (path,) = (tmp_path / "s.fpstore" / "segments").iterdir()
    data = bytearray(path.read_bytes())
    data[10_000] ^= 1  # of table 0, which a scan reads
    path.write_bytes(data)
    for method in ("stream", "scan"):
        ask_by(monkeypatch, method)
        with fpstore.open(tmp_path / "s.fpstore") as store:
            for threads in (1, 2):
                with pytest.raises(fpstore.CorruptStore, match=path.name):
                    store.probe_many(stored, threads=threads)


def test_batches_share_the_stores_threads_and_close_ends_them(tmp_path: Path) -> None:
    stored = KINDS["uniform"](5000, np.random.default_rng(6))
    before = threading.active_count()
    with fpstore.build(tmp_path / "s.fpstore", stored, ids=None) as store:
        for _ in range(5):
            assert len(store.probe_many(stored, max_distance=0, threads=2)) == len(stored)
        assert threading.active_count() <= before + 1
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_batch_after_close_says_so(tmp_path: Path) -> None:
    stored = KINDS["uniform"](5000, np.random.default_rng(7))
    store = fpstore.build(tmp_path / "s.fpstore", stored, ids=None)
    store.probe_many(stored, threads=2)
    store.close()
    with pytest.raises(fpstore.StoreClosed):
        store.probe_many(stored, threads=2)


def test_a_batch_that_close_overtakes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = KINDS["uniform"](5000, np.random.default_rng(8))
    store = fpstore.build(tmp_path / "s.fpstore", stored, ids=None)
    team = store._team(2)

    def overtaken(count: int) -> Threads:
        store.close()
        return team

    monkeypatch.setattr(store, "_team", overtaken)
    with pytest.raises(fpstore.StoreClosed):
        store.probe_many(stored, threads=2)


# --- Answers that would be too large ---


def crowded(path: Path, ids: bool) -> fpstore.Store:
    """One fingerprint with 50 ids, or 50 fingerprints within 2 of each other without, half of each pending."""
    keys = np.array([7] * 50 if ids else [1 << bit for bit in range(50)], dtype=np.uint64)
    numbers = np.arange(50, dtype=np.uint64)
    fpstore.create(path, id_type="uint64" if ids else None, plan="paper-4").close()
    store = fpstore.open(path, "w")
    for half in (slice(0, 25), slice(25, 50)):
        store.add(keys[half], ids=numbers[half] if ids else None)
        if half.start == 0:
            store._flush()
    return store


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("ids", [True, False])
def test_more_rows_than_an_answer_may_have_are_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: bool, threads: int, method: str
) -> None:
    ask_by(monkeypatch, method)
    queries = np.full(2000, 0 if not ids else 7, dtype=np.uint64)
    crowded(tmp_path / "s.fpstore", ids).close()
    with fpstore.open(tmp_path / "s.fpstore") as store:  # who has written it has the rows in memory
        store.max_matches = 100_000
        found = store.probe_many(queries, threads=threads)
        assert (len(found), found.method) == (100_000, method)
        for most in (99_999, 50_000, 49_999, 10, 1):
            store.max_matches = most
            with pytest.raises(fpstore.TooManyMatches, match=r"^2000 queries: found more than \d") as told:
                store.probe_many(queries, threads=threads)
            found_more, expected = (
                int(number) for number in re.findall(r"than (\d+).* at most (\d+) in", str(told.value))[0]
            )
            assert found_more >= expected == most
        store.max_matches = 1
        assert len(store.probe(int(queries[0]))) == 50
        assert len(store.nearest_many(queries)) == 2000


def test_too_many_rows_are_refused_before_there_is_room_for_them(tmp_path: Path) -> None:
    with crowded(tmp_path / "s.fpstore", ids=True) as store:
        (segment,) = store._segments
        asked: list[int] = []

        def refuse(rows: int) -> None:
            asked.append(rows)
            raise fpstore.TooManyMatches(rows=rows)

        assert segment.ids is not None
        with pytest.raises(fpstore.TooManyMatches):
            segment.ids.lookup(np.full(10, 7, dtype=np.uint64), refuse)
        assert asked == [250]
        pending = store._latest.pending
        with pytest.raises(fpstore.TooManyMatches, match="2 queries: found 50 matches, expected at most 49"):
            pending.search(np.array([7, 7], dtype=np.uint64), 0, 25, 49)
        with pytest.raises(fpstore.TooManyMatches, match="2 queries: found more than 1 matches, expected at most 1"):
            pending.search(np.array([7, 7], dtype=np.uint64), 0, 25, 1)


def test_what_the_error_says_is_in_its_attribute() -> None:
    error = fpstore.TooManyMatches.found(3, 20, 10)
    assert error.rows == 20
    assert str(error) == (
        "3 queries: found 20 matches, expected at most 10 in one answer; "
        "ask fewer queries at once, or for what is nearer"
    )
