"""`fpstore cluster STORE` of signatures: leaders of its ids, and the components of the pairs that it has."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import corpora, lines_of, write_jsonl
from minhashes import BANDS, ROWS, VALUES, Model, signatures
from outcome import Command

import fpstore
from fpstore import minhash
from fpstore.jobs import cluster, cluster_store, ids, signed, stored
from fpstore.minhash import leading
from fpstore.query import leaders as query_leaders
from fpstore.text import recipes

RECIPE = replace(recipes()["minhash-128"], name="small", values=16, shingle=1, dense_shingle=1)
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


def leaders(model: Model, least: float | None) -> list[tuple[int, Any, float]]:
    """Number, id, and similarity to the leader of each, in the order of the ids, by a plain loop over the pairs."""
    pairs, led, found = model.pairs(least), list[Any](), list[tuple[int, Any, float]]()
    for name in sorted(model.held):
        near = [(-pairs[one, name][0], number) for number, one in enumerate(led) if (one, name) in pairs]
        similarity, number = min(near, default=(-1.0, len(led)))
        led += [name] if not near else []
        found.append((number, name, -similarity))
    return found


def filled(path: Path, numbers: list[int], seed: int, id_type: str, **asked: Any) -> Model:
    """A store of two additions without some of their ids, and what it holds."""
    model, given = Model(), signatures(seed, len(numbers))
    ids = [NAMED[id_type](number) for number in numbers]
    gone = sorted(set(ids))[::5]
    with minhash.create(path, id_type=id_type, **CUT, **asked) as store:  # type: ignore[arg-type]
        half = len(ids) // 2
        for own in (slice(half), slice(half, None)):
            if ids[own]:
                store.add(given[own], ids=ids[own])
                model.add(given[own].tolist(), ids[own])
        if gone:
            store.remove(ids=gone)
            model.remove(gone)
    return model


many_numbers = st.lists(st.integers(0, 31), max_size=40)
some_least = st.sampled_from([None, 0.3, 0.8])


@given(many_numbers, st.integers(0, 9), st.sampled_from([*NAMED]), some_least, st.booleans())
@settings(max_examples=40, deadline=None)
def test_components_are_those_of_the_pairs_of_a_plain_model(
    tmp_path_factory: pytest.TempPathFactory,
    numbers: list[int],
    seed: int,
    id_type: str,
    least: float | None,
    keeps: bool,
) -> None:
    folder = tmp_path_factory.mktemp("signed")
    least = least if keeps else None
    model = filled(folder / "s", numbers, seed, id_type, keep_signatures=keeps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "_AT_ONCE", 5)
        found = cluster_store(folder / "s", folder / "out", components=True, min_similarity=least)
    expected = components(model, least)
    assert lines_of(folder / "out") == [f"{number}\t{shown(name)}" for number, name in expected]
    assert (found.documents, found.clusters) == (len(expected), len({number for number, _ in expected}))
    assert found.new == found.clusters


@given(
    many_numbers,
    st.integers(0, 9),
    st.sampled_from([*NAMED]),
    some_least,
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 5, signed.MOST_HELD]), st.integers(1, 3)),
)
@settings(max_examples=60, deadline=None)
def test_leaders_are_those_of_a_plain_loop_over_the_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    numbers: list[int],
    seed: int,
    id_type: str,
    least: float | None,
    sizes: tuple[int, int, int, int],
) -> None:
    """Ids with several signatures among them, in pieces of any size, some leaders in a store and others in memory."""
    folder = tmp_path_factory.mktemp("led")
    model = filled(folder / "s", numbers, seed, id_type)
    places = ((stored, "BATCH_DOCUMENTS"), (query_leaders, "PIECE_ROWS"), (signed, "MOST_HELD"), (ids, "_ROWS_AT_ONCE"))
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), size in zip(places, sizes, strict=True):
            patch.setattr(module, name, size)
        found = cluster_store(folder / "s", folder / "out", min_similarity=least)
    expected = leaders(model, least)
    told = [f"{number}\t{shown(name)}\t{similarity:.4f}" for number, name, similarity in expected]
    assert lines_of(folder / "out") == told
    assert (found.documents, found.clusters) == (len(expected), len({number for number, _, _ in expected}))


@given(corpora, some_least)
@settings(max_examples=20, deadline=None)
def test_clusters_of_a_store_are_those_of_its_documents(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], least: float | None
) -> None:
    folder = tmp_path_factory.mktemp("both")
    source, recipe = write_jsonl(folder / "in.jsonl", documents), RECIPE
    cut: dict[str, Any] = {"bands": BANDS, "rows_per_band": 2, "recipe": recipe}
    cluster([source], folder / "clusters", min_similarity=least, confirm=None, **cut)
    with minhash.create(folder / "s", bits=64, **cut) as store:
        store.add_texts(documents, ids=range(len(documents)))
    cluster_store(folder / "s", folder / "of store", min_similarity=least)
    told = [[cells[0], cells[2]] for cells in (line.split("\t") for line in lines_of(folder / "clusters"))]
    assert [[cells[0], cells[2]] for cells in (line.split("\t") for line in lines_of(folder / "of store"))] == told


def test_an_id_with_very_many_signatures_leads_none_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = signatures(1, 30, kinds=1)
    minhash.build(tmp_path / "s", given, ids=[1, 2] + [7] * 28, bands=BANDS, rows_per_band=ROWS).close()
    assert cluster_store(tmp_path / "s", tmp_path / "out").documents == 3
    monkeypatch.setattr(leading, "MOST_ROWS", 100)
    with pytest.raises(ValueError, match=r"/s: found \d+ signatures under id 7, expected one, or a few: upsert"):
        cluster_store(tmp_path / "s", tmp_path / "again")
    assert cluster_store(tmp_path / "s", tmp_path / "again", components=True).documents == 3
    with minhash.open(tmp_path / "s", "w") as store:
        store.upsert(given[:1], ids=[7])
    assert cluster_store(tmp_path / "s", tmp_path / "third").documents == 3


def test_what_is_interrupted_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = filled(tmp_path / "s", [*range(32)] * 2, 3, "string")
    monkeypatch.setattr(signed, "MOST_HELD", 2)
    monkeypatch.setattr(query_leaders, "PIECE_ROWS", 3)
    near, asked = ids.IdRows.near, 0

    def stop(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 4:
            raise KeyboardInterrupt
        return near(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ids.IdRows, "near", stop)
        with pytest.raises(KeyboardInterrupt):
            cluster_store(tmp_path / "s", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    cluster_store(tmp_path / "s", tmp_path / "out")
    told = [f"{number}\t{name}\t{similarity:.4f}" for number, name, similarity in leaders(model, None)]
    assert lines_of(tmp_path / "out") == told


@pytest.mark.slow
def test_a_bucket_of_very_many_ids_has_one_leader_in_little_memory(tmp_path: Path) -> None:
    """All pairs of one bucket would be 2 * 10^8."""
    given = np.repeat(signatures(1, 1), 20_000, axis=0)
    given[:, VALUES - 1] = np.random.default_rng(1).integers(0, 1 << 32, size=len(given))
    minhash.build(tmp_path / "s", given, bands=BANDS, rows_per_band=ROWS).close()
    found = cluster_store(tmp_path / "s", tmp_path / "out")
    assert (found.documents, found.clusters) == (20_000, 1)


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
    outcome = command("cluster", tmp_path / "s")
    assert outcome.lines == ["0\t2\t1.0000", "1\t5\t1.0000", f"0\t{2**64 - 1}\t1.0000"]
    for suffix in (".jsonl", ".parquet", ".csv"):
        assert command("cluster", tmp_path / "s", "-o", tmp_path / f"led{suffix}").status == 0
    told = [json.loads(line) for line in lines_of(tmp_path / "led.jsonl")]
    assert told[0] == {"format": "fpstore.cluster-ids/1", "cluster": 0, "id": "2", "similarity": 1.0}
    assert pq.read_schema(tmp_path / "led.parquet").field("similarity").type == "float"
    assert lines_of(tmp_path / "led.csv")[0] == "cluster,id,similarity"


def test_what_goes_with_the_other_kind_is_refused(tmp_path: Path) -> None:
    minhash.build(tmp_path / "s", signatures(1, 3), bands=BANDS, rows_per_band=ROWS).close()
    minhash.build(tmp_path / "bare", signatures(1, 3), ids=None, bands=BANDS, rows_per_band=ROWS).close()
    fpstore.build(tmp_path / "bits", [1, 2]).close()
    with pytest.raises(ValueError, match="update_center: found a store of signatures, expected one of fingerprints"):
        cluster_store(tmp_path / "s", tmp_path / "out", update_center=True)
    with pytest.raises(ValueError, match="max_distance: found a store of signatures, expected min_similarity"):
        cluster_store(tmp_path / "s", tmp_path / "out", components=True, max_distance=3)
    with pytest.raises(ValueError, match="min_similarity: found a store of fingerprints, expected max_distance"):
        cluster_store(tmp_path / "bits", tmp_path / "out", components=True, min_similarity=0.5)
    for of, what in ((True, "pairs"), (False, "clusters")):
        with pytest.raises(ValueError, match=f"the store has no ids, expected one with ids, which {what} are of"):
            cluster_store(tmp_path / "bare", tmp_path / "out", components=of)
    alone: dict[str, Any] = {"bands": BANDS, "rows_per_band": ROWS, "keep_signatures": False}
    minhash.build(tmp_path / "alone", signatures(1, 3), **alone).close()
    with pytest.raises(ValueError, match="found a store that keeps no signatures, expected one that does, or --compon"):
        cluster_store(tmp_path / "alone", tmp_path / "out")
    assert not (tmp_path / "out").exists()
