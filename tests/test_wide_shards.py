"""Lists of stores of wide fingerprints answer as one store of all of them, also by a link."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_wide import WIDTHS, numbers_of

import fpstore
from fpstore import cluster
from fpstore.cluster import Shards

K = 9


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for some in found for row in some]


@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("with_ids", [False, True])
def test_a_list_of_wide_stores_answers_as_one_store_of_all_of_them(tmp_path: Path, bits: int, with_ids: bool) -> None:
    codes = np.random.default_rng(1).integers(0, 1 << 64, (300, bits // 64), dtype=np.uint64)
    codes[100:200] = codes[:100]
    codes[100:200, -1] ^= np.uint64(0b1011)  # three bits apart, by the last word alone
    ids = np.arange(300, dtype=np.uint64) % np.uint64(70)
    given: dict[str, Any] = {"bits": bits, "max_distance": K}
    fpstore.build(tmp_path / "all", codes, ids=ids if with_ids else None, **given).close()
    stores = []
    for number, own in enumerate((slice(0, 120), slice(90, 210), slice(210, 300))):  # some rows lie in two
        stores.append(tmp_path / f"{number}")
        fpstore.build(stores[-1], codes[own], ids=ids[own] if with_ids else None, **given).close()
    path = tmp_path / "web.shards.json"
    Shards.write(path, stores)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "link.shards.json").symlink_to(path)
    queries = codes[::2]
    with fpstore.open(tmp_path / "all") as one:
        for place in (path, tmp_path / "linked" / "link.shards.json"):
            with Shards(place) as many:
                assert (many.bits, many.max_distance) == (bits, K)
                for distance in (None, 0, 2, 3, K):
                    expected = rows_of([one.probe_many(queries, max_distance=distance)])
                    assert rows_of([many.probe_many(queries, max_distance=distance)]) == expected
                for single in (numbers_of(codes)[5], codes[5].astype(">u8").tobytes()):
                    assert rows_of([many.probe(single)]) == rows_of([one.probe(single)]) != []
                assert many.verify().fingerprint_count == sum(each["fingerprints"] for each in _stores(path))
            with cluster.probe(place, queries, tasks=3, workers=1) as answer:
                assert rows_of(answer) == rows_of([one.probe_many(queries)])


def _stores(path: Path) -> list[dict[str, Any]]:
    import json

    found: list[dict[str, Any]] = json.loads(path.read_text())["stores"]
    return found


def test_the_answer_of_a_list_says_that_some_store_was_read_whole(tmp_path: Path) -> None:
    codes = np.arange(1200, dtype=np.uint64).reshape(-1, 2)
    fpstore.build(tmp_path / "near", codes[:1], bits=128, max_distance=K, plan="scan").close()
    fpstore.build(tmp_path / "far", codes[1:], bits=128, max_distance=K).close()
    methods = []
    for name in ("near", "far"):
        with fpstore.open(tmp_path / name) as store:
            methods.append(store.probe_many(codes[:3]).method)
    for order in (("near", "far"), ("far", "near")):
        Shards.write(tmp_path / "web.shards.json", [tmp_path / name for name in order])
        with Shards(tmp_path / "web.shards.json") as many:
            assert many.probe_many(codes[:3]).method == ("scan" if "scan" in methods else "probe")
    assert "scan" in methods
