"""`fpstore cluster STORE --components` of signatures: the components of the pairs that the store has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import lines_of
from minhashes import BANDS, ROWS, VALUES, Model, signatures
from outcome import Command

import fpstore
from fpstore import minhash
from fpstore.jobs import cluster_store, stored

CUT: dict[str, Any] = {"values": VALUES, "bands": BANDS, "rows_per_band": ROWS}
NAMED: dict[str, Callable[[int], Any]] = {
    "uint64": lambda number: number << 59 | number,
    "string": lambda number: f"n{number * 7 % 32}",
    "bytes": lambda number: b"\xff%d" % (number * 7 % 32),
}


def components(model: Model, least: float | None) -> list[tuple[int, Any]]:
    """Number and id of each, in the order of the ids, by joining the pairs of the model one by one."""
    names = sorted(model.held)
    label = {name: name for name in names}
    for one, other in model.pairs(least):
        low, high = sorted((label[one], label[other]))
        label = {name: low if own == high else own for name, own in label.items()}
    numbers = {first: number for number, first in enumerate(sorted(set(label.values())))}
    return [(numbers[label[name]], name) for name in names]


def shown(name: Any) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)


@given(
    st.lists(st.integers(0, 31), max_size=40),
    st.integers(0, 9),
    st.sampled_from([*NAMED]),
    st.sampled_from([None, 0.3, 0.8]),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_components_are_those_of_the_pairs_of_a_plain_model(
    tmp_path_factory: pytest.TempPathFactory,
    numbers: list[int],
    seed: int,
    id_type: str,
    least: float | None,
    keeps: bool,
) -> None:
    folder, model = tmp_path_factory.mktemp("signed"), Model()
    least = least if keeps else None
    given, ids = signatures(seed, len(numbers)), [NAMED[id_type](number) for number in numbers]
    gone = sorted(set(ids))[::5]
    with minhash.create(folder / "s", id_type=id_type, keep_signatures=keeps, **CUT) as store:  # type: ignore[arg-type]
        half = len(ids) // 2
        for own in (slice(half), slice(half, None)):
            if ids[own]:
                store.add(given[own], ids=ids[own])
                model.add(given[own].tolist(), ids[own])
        if gone:
            store.remove(ids=gone)
            model.remove(gone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "_AT_ONCE", 5)
        found = cluster_store(folder / "s", folder / "out", components=True, min_similarity=least)
    expected = components(model, least)
    assert lines_of(folder / "out") == [f"{number}\t{shown(name)}" for number, name in expected]
    assert (found.documents, found.clusters) == (len(expected), len({number for number, _ in expected}))
    assert found.new == found.clusters


def test_results_have_the_ids_under_their_names(command: Command, tmp_path: Path) -> None:
    given = signatures(1, 3)
    given[1], given[2] = given[0], given[0] ^ 1
    minhash.build(tmp_path / "s", given, ids=[2**64 - 1, 2, 5], bands=BANDS, rows_per_band=ROWS).close()
    outcome = command("cluster", tmp_path / "s", "--components")
    assert outcome.lines == ["0\t2", "1\t5", f"0\t{2**64 - 1}"]
    assert "3 documents, clusters 2, passed over 0" in outcome.err
    for suffix in (".jsonl", ".parquet", ".csv"):
        assert command("cluster", tmp_path / "s", "--components", "-o", tmp_path / f"out{suffix}").status == 0
    told = [json.loads(line) for line in lines_of(tmp_path / "out.jsonl")]
    assert told[0] == {"format": "fpstore.cluster-ids/1", "cluster": 0, "id": "2"}
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"cluster": [0, 1, 0], "id": [2, 5, 2**64 - 1]}
    assert lines_of(tmp_path / "out.csv")[0] == "cluster,id"


def test_what_goes_with_the_other_kind_is_refused(tmp_path: Path) -> None:
    minhash.build(tmp_path / "s", signatures(1, 3), bands=BANDS, rows_per_band=ROWS).close()
    minhash.build(tmp_path / "bare", signatures(1, 3), ids=None, bands=BANDS, rows_per_band=ROWS).close()
    fpstore.build(tmp_path / "bits", [1, 2]).close()
    for update_center in (False, True):
        with pytest.raises(ValueError, match="found a store of signatures, expected components=True"):
            cluster_store(tmp_path / "s", tmp_path / "out", update_center=update_center)
    with pytest.raises(ValueError, match="max_distance: found a store of signatures, expected min_similarity"):
        cluster_store(tmp_path / "s", tmp_path / "out", components=True, max_distance=3)
    with pytest.raises(ValueError, match="min_similarity: found a store of fingerprints, expected max_distance"):
        cluster_store(tmp_path / "bits", tmp_path / "out", components=True, min_similarity=0.5)
    with pytest.raises(ValueError, match="the store has no ids, expected one with ids, which pairs are of"):
        cluster_store(tmp_path / "bare", tmp_path / "out", components=True)
    assert not (tmp_path / "out").exists()
