"""`fpstore cluster STORE`: clusters of what a store has."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import connected, leader_follower, lines_of, write_jsonl
from outcome import Command

import fpstore
from fpstore.jobs import cluster, cluster_store, components, stored

TempFactory = pytest.TempPathFactory

near = st.sets(st.integers(0, 9), max_size=4).map(lambda bits: sum(1 << 7 * bit % 64 for bit in bits))
METHODS: dict[str, dict[str, Any]] = {
    "leaders": {},
    "centers": {"update_center": True},
    "components": {"components": True},
}


def clusters_of(keys: list[int], k: int, method: str) -> list[tuple[int, int]]:
    """What the model says."""
    return connected(keys, k) if method == "components" else leader_follower(keys, k, update_center=method == "centers")


def rows_of(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in lines_of(path)]


@pytest.mark.slow
@given(st.lists(st.tuples(near, st.integers(0, 30)), max_size=40), st.integers(0, 6), st.sampled_from([*METHODS]))
@settings(max_examples=25)
def test_rows_come_in_the_order_of_their_ids_then_of_the_fingerprints(
    tmp_path_factory: TempFactory, rows: list[tuple[int, int]], k: int, method: str
) -> None:
    folder = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch, fpstore.create(folder / "s", max_distance=3) as store:
        patch.setattr(stored, "BATCH_DOCUMENTS", 7)
        patch.setattr(stored, "_AT_ONCE", 5)
        for key, number in rows:
            store.add([key], ids=[number])
        found = cluster_store(folder / "s", folder / "out", max_distance=k, **METHODS[method])
    ordered = sorted({(number, key) for key, number in rows})
    expected = clusters_of([key for _, key in ordered], k, method)
    told = [
        [str(label), str(number), f"{key:016x}", str(distance)]
        for (number, key), (label, distance) in zip(ordered, expected, strict=True)
    ]
    assert rows_of(folder / "out") == told
    assert (found.documents, found.clusters) == (len(ordered), len({label for label, _ in expected}))


@pytest.mark.parametrize("method", METHODS)
def test_clusters_of_a_store_are_those_of_its_documents(command: Command, tmp_path: Path, method: str) -> None:
    texts = [f"{'a b c d e f g'[: 5 + number % 5]} {number % 4}" for number in range(30)]
    source = write_jsonl(tmp_path / "in.jsonl", texts)
    assert command("build", tmp_path / "s.fpstore", source, "--ids", "row", "-k", 3).status == 0
    found = cluster_store(tmp_path / "s.fpstore", tmp_path / "bare", max_distance=6, **METHODS[method])
    if method == "components":
        expected = components([source], tmp_path / "out", max_distance=6)
    else:
        expected = cluster([source], tmp_path / "out", max_distance=6, confirm=None, update_center=method == "centers")
    assert [(row[0], row[3]) for row in rows_of(tmp_path / "bare")] == [
        (row[0], row[2]) for row in rows_of(tmp_path / "out")
    ]
    assert found.detail == expected.detail
    assert found.new == expected.new == found.clusters


def test_lines_have_ids_where_there_are_some(command: Command, tmp_path: Path) -> None:
    keys = np.array([2**63 + 1, 7, 6], dtype=np.uint64)
    fpstore.build(tmp_path / "ids", keys, ids=np.array([2**64 - 1, 5, 2], dtype=np.uint64), max_distance=1).close()
    fpstore.build(tmp_path / "bare", keys, ids=None, max_distance=1).close()
    outcome = command("cluster", tmp_path / "bare")
    assert outcome.lines == ["0\t0000000000000006\t0", "0\t0000000000000007\t1", "1\t8000000000000001\t0"]
    assert "3 rows, clusters 2, passed over 0" in outcome.err
    assert outcome.err.splitlines()[-3:] == [
        "fpstore: 1 cluster of 1 row",
        "fpstore: 1 cluster of 2 rows",
        "fpstore: the largest clusters (rows): 0 (2)",
    ]
    for suffix in (".jsonl", ".parquet", ".csv"):
        assert command("cluster", tmp_path / "ids", "-o", tmp_path / f"out{suffix}").status == 0
    told = [json.loads(line) for line in lines_of(tmp_path / "out.jsonl")]
    says = {"format": "fpstore.cluster-rows/1"}
    first = {**says, "cluster": 0, "id": "2", "fingerprint": "0000000000000006", "distance": 0}
    assert told[0] == first
    assert told[2]["id"] == str(2**64 - 1)
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [2, 5, 2**64 - 1]
    assert lines_of(tmp_path / "out.csv")[0] == "cluster,id,fingerprint,distance"


def test_a_store_goes_alone_and_without_the_options_of_texts(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2]).close()
    source = write_jsonl(tmp_path / "in.jsonl", ["a"])
    outcome = command("cluster", tmp_path / "s", source)
    assert outcome.status == 2
    assert f"{tmp_path / 's'}: found a store among 2 inputs, expected it alone" in outcome.err
    for option in (("--annotate",), ("--topics", "t"), ("--recipe", "zh"), ("--store", "x"), ("--id-column", "id")):
        outcome = command("cluster", tmp_path / "s", *option)
        assert (outcome.status, outcome.out) == (2, "")
        assert f"{option[0]} goes with texts: found fingerprints" in outcome.err


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2]).close()
    with pytest.raises(ValueError, match="update_center and components: found both, expected one of the two"):
        cluster_store(tmp_path / "s", tmp_path / "out", update_center=True, components=True)
    with pytest.raises(ValueError, match="found a place inside the store"):
        cluster_store(tmp_path / "s", tmp_path / "s" / "out")
    with pytest.raises(FileNotFoundError):
        cluster_store(tmp_path / "t", tmp_path / "out")
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileExistsError):
        cluster_store(tmp_path / "s", tmp_path / "out")
    assert cluster_store(tmp_path / "s", tmp_path / "out", force=True).clusters == 1
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["out", "s"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_sixty_five_bytes_for_each_row_are_in_memory(tmp_path: Path, method: str) -> None:
    peaks, counts = [], (70_000, 110_000)  # more than a batch of them, which takes its room once
    for count in counts:
        keys = np.random.default_rng(1).integers(0, 1 << 64, count, dtype=np.uint64)
        fpstore.build(tmp_path / f"s{count}", keys).close()
        tracemalloc.start()
        try:
            cluster_store(tmp_path / f"s{count}", tmp_path / f"out{count}", **METHODS[method])
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # 26 are the rows'; from 50,000 to 250,000 rows a batch, too, gets its room, and both together are the 65.
    assert peaks[1] - peaks[0] < 32 * (counts[1] - counts[0])
