"""Large batches through the store: streamed where that costs less, with the same answer."""

# mypy: disable-error-code="misc"

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import KINDS, queries_near

import fpstore
from fpstore.query import batch
from fpstore.threads import Threads


def rows(matches: fpstore.Matches) -> list[tuple[int, int, int, int | None]]:
    return [tuple(match) for match in matches]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ids", ["row", None])
def test_a_streamed_batch_answers_as_a_probed_one(
    tmp_path: Path, ids: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    stored = KINDS["clustered"](20_000, rng)
    queries = queries_near(stored, 3, 3000, rng)
    with fpstore.build(tmp_path / "s.fps", stored, ids) as store:
        monkeypatch.setattr(batch, "streaming_nanoseconds", lambda segment, count: float("inf"))
        probed = store.probe_many(queries, threads=threads)
        monkeypatch.setattr(batch, "streaming_nanoseconds", lambda segment, count: 0.0)
        streamed = store.probe_many(queries, threads=threads)
    assert (probed.method, streamed.method) == ("probe", "stream")
    assert len(probed) > 3000
    assert rows(streamed) == rows(probed)


def test_small_batches_are_probed_and_huge_ones_streamed(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    stored = KINDS["uniform"](50_000, rng)
    with fpstore.build(tmp_path / "s.fps", stored, None) as store:
        assert store.probe_many(stored[:10]).method == "probe"
        assert store.probe_many(np.tile(stored, 10)).method == "stream"


def test_damage_is_named_by_a_streamed_batch_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = KINDS["uniform"](20_000, np.random.default_rng(5))
    fpstore.build(tmp_path / "s.fps", stored, None).close()
    (path,) = (tmp_path / "s.fps" / "segments").iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr(batch, "streaming_nanoseconds", lambda segment, count: 0.0)
    with fpstore.open(tmp_path / "s.fps") as store:
        for threads in (1, 2):
            with pytest.raises(fpstore.CorruptStore, match=path.name):
                store.probe_many(stored, threads=threads)


def test_batches_share_the_stores_threads_and_close_ends_them(tmp_path: Path) -> None:
    stored = KINDS["uniform"](5000, np.random.default_rng(6))
    before = threading.active_count()
    with fpstore.build(tmp_path / "s.fps", stored, None) as store:
        for _ in range(5):
            assert len(store.probe_many(stored, 0, threads=2)) == len(stored)
        assert threading.active_count() <= before + 1
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_batch_after_close_says_so(tmp_path: Path) -> None:
    stored = KINDS["uniform"](5000, np.random.default_rng(7))
    store = fpstore.build(tmp_path / "s.fps", stored, None)
    store.probe_many(stored, threads=2)
    store.close()
    with pytest.raises(fpstore.StoreClosed):
        store.probe_many(stored, threads=2)


def test_a_batch_that_close_overtakes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = KINDS["uniform"](5000, np.random.default_rng(8))
    store = fpstore.build(tmp_path / "s.fps", stored, None)
    team = store._team(2)

    def overtaken(count: int) -> Threads:
        store.close()
        return team

    monkeypatch.setattr(store, "_team", overtaken)
    with pytest.raises(fpstore.StoreClosed):
        store.probe_many(stored, threads=2)
