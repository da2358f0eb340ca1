"""Keys of bands that very many documents share: found by the samples of a segment's id groups, named, never cut."""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome import Command

import fpstore
from fpstore import minhash
from fpstore.segment import buckets
from fpstore.segment.buckets import CROWDED_IDS, largest_buckets
from fpstore.segment.reader import Segment

SETTINGS: dict[str, Any] = {"bands": 4, "rows_per_band": 4}


def segment_of(path: Path, sizes: list[int]) -> Path:
    """A segment in which key i * 10 has so many ids, the least of them i."""
    keys = np.repeat(np.arange(len(sizes), dtype=np.uint64) * np.uint64(10), sizes)
    ids = np.concatenate([index + 1000 * np.arange(size) for index, size in enumerate(sizes)]).astype(np.uint64)
    fpstore.build(path, keys, ids=ids, max_distance=0).close()
    return next((path / "segments").iterdir())


SIZES = st.one_of(st.integers(1, 3), st.sampled_from([510, 511, 512, 513, 1022, 1023, 1024, 1025, 2000, 4096]))


@settings(max_examples=25, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=9), st.integers(1, 4), st.sampled_from([1, 3, 1 << 16]))
def test_the_largest_buckets_are_those_of_a_count(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int, piece: int
) -> None:
    path = segment_of(tmp_path_factory.mktemp("buckets") / "s", sizes)
    with pytest.MonkeyPatch.context() as patch, closing(Segment(path)) as segment:
        patch.setattr(buckets, "PIECE_SAMPLES", piece)
        found, more = largest_buckets(segment, most)
    crowded = sorted((size for size in sizes if size >= CROWDED_IDS), reverse=True)
    assert [bucket.id_count for bucket in found] == crowded[:most]
    assert len({bucket.key for bucket in found}) == len(found)
    for bucket in found:
        assert (sizes[bucket.key // 10], bucket.least_id) == (bucket.id_count, bucket.key // 10)
    assert max(len(crowded) - most, 0) <= more <= sum(size >= CROWDED_IDS // 2 for size in sizes) - len(found)


def crowded(path: Path, id_type: Any = "uint64") -> None:
    """A store in which 1,500 documents share band 1, and 1,100 of these band 2; one of them was removed."""
    own = np.random.default_rng(3).integers(0, 1 << 32, size=(1600, 16), dtype=np.uint32)
    own[:1500, 4:8] = 7
    own[:1100, 8:12] = 8
    ids: Any = [f"page {index:04}" for index in range(1600)] if id_type == "string" else np.arange(1600)
    minhash.build(path, own, ids=None if id_type is None else ids, id_type=id_type or "uint64", **SETTINGS).close()
    if id_type is not None:
        with minhash.open(path, "w") as store:
            store.remove(ids=ids[:1])


@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_crowded_bands_are_named_by_stats_and_report(command: Command, tmp_path: Path, id_type: str) -> None:
    crowded(tmp_path / "s", id_type)
    first, second = ("page 0000", "page 0001") if id_type == "string" else ("0", "1")
    for name in ("stats", "report"):
        out = command(name, tmp_path / "s").out
        assert "warning: band 1: 1,500 documents share key" in out
        assert "warning: band 2: 1,100 documents share key" in out
        assert f"such as id {first}; a probe that has it reads them all" in out
        warnings = json.loads(command(name, tmp_path / "s", "--json").out)["segments"][0]["warnings"]
        assert [each.partition(":")[0] for each in warnings] == ["band 1", "band 2"]
    lines = command("stats", tmp_path / "s", "--spikes", 2).lines
    assert [line.partition("  ")[2].strip() for line in lines if ", of band" in line]
    with minhash.open(tmp_path / "s") as store:
        spikes = store.stats(spikes=2).spikes
        assert spikes is not None
        assert [(each.row_count, each.band) for each in spikes.largest] == [(1499, 1), (1099, 2)]
        assert {str(each.example_id) for each in spikes.largest} == {second}
        counted = Counter(key for keys, _ in store._latest.rows() for key in keys.tolist())
        assert [(each.fingerprint, each.row_count) for each in spikes.largest] == counted.most_common(2)
        told = store.report().to_json()["spikes"]["largest"]
        assert [(each["row_count"], each["band"], each["example_id"]) for each in told[:2]] == [
            (1499, 1, second),
            (1099, 2, second),
        ]


def test_more_than_are_named_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowded(tmp_path / "s")
    monkeypatch.setattr("fpstore.living.stats.NAMED", 1)
    with minhash.open(tmp_path / "s") as store:
        (segment,) = store.stats(largest_slots=1).segments
        assert [each[:7] for each in segment.warnings] == ["band 1:", "and 1 m"]
        assert segment.warnings[1] == "and 1 more keys of 512 documents or more"
        assert store.stats().segments[0].warnings == ()


def test_without_ids_no_document_shares_a_key(tmp_path: Path) -> None:
    crowded(tmp_path / "s", None)
    with minhash.open(tmp_path / "s") as store:
        assert store.stats(largest_slots=1, spikes=3).segments[0].warnings == ()
