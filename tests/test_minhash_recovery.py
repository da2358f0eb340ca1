"""A damaged store of signatures is recovered: what is sound is as it was, what is lost is told, nothing is made up."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minhashes import BANDS, ROWS, VALUES, Model, signatures

import fpstore
from fpstore import minhash

COUNT = 240


def found_by(store: minhash.MinHashStore, queries: Any) -> list[list[tuple[Any, float, int]]]:
    answer: list[list[tuple[Any, float, int]]] = [[] for _ in queries]
    for match in store.probe_many(queries):
        answer[match.query].append((match.id, match.similarity, match.shared_bands))
    return answer


def make(path: Path, id_type: Any, kept: bool = True) -> tuple[Any, Model]:
    """A store with two segments, a log and removals, and what it holds."""
    own, model = signatures(40, COUNT), Model()
    ids: list[Any] = [f"n{i}" for i in range(COUNT)] if id_type == "string" else [*range(COUNT)]
    made = minhash.create(path, values=VALUES, bands=BANDS, rows_per_band=ROWS, id_type=id_type, keep_signatures=kept)
    with made as store:
        for start, end in ((0, 200), (200, 220), (220, 240)):
            store.add(own[start:end], ids=ids[start:end])
            if end < COUNT:
                store._flush()
        store.remove(ids=ids[10:20])
        store.upsert(own[:3], ids=ids[50:53])
    model.add(own, ids)
    model.remove(ids[10:20])
    model.upsert(own[:3], ids[50:53])
    return own, model


@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_a_sound_store_is_recovered_whole(tmp_path: Path, id_type: str) -> None:
    own, model = make(tmp_path / "s", id_type)
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert (recovered.complete, recovered.damage) == (True, ())
    with minhash.open(tmp_path / "new", "w") as store:
        store.verify()
        assert found_by(store, own[:40]) == [model.similar(each) for each in own[:40]]
        assert store.count() == len(model.held)
        store.add(own[:1], ids=["later" if id_type == "string" else 10_000])
        store.compact()
        store.verify()


def test_without_signatures_rows_are_recovered(tmp_path: Path) -> None:
    own, model = make(tmp_path / "s", "uint64", kept=False)
    assert fpstore.recover(tmp_path / "s", tmp_path / "new").complete
    with minhash.open(tmp_path / "new") as store:
        found = [{(name, shared) for name, _, shared in rows} for rows in found_by(store, own[:40])]
        assert found == [{(name, shared) for name, _, shared in model.similar(each)} for each in own[:40]]


@pytest.mark.parametrize("id_type", ["uint64", "string"])
@pytest.mark.parametrize("what", ["page", "footer", "gone", "all gone"])
def test_ids_whose_sketches_are_lost_are_lost_and_all_others_as_they_were(
    tmp_path: Path, id_type: str, what: str
) -> None:
    own, model = make(tmp_path / "s", id_type)
    files = sorted((tmp_path / "s" / "segments").glob("*.fpsketch"))
    data = bytearray(files[0].read_bytes())
    if what == "page":
        data[5000] ^= 1
        files[0].write_bytes(data)
    elif what == "footer":
        files[0].write_bytes(data[:-1])
    else:
        for file in files if what == "all gone" else files[:1]:
            file.unlink()
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert recovered.ids_lost > 0
    assert any(".fpsketch" in str(damage) for damage in recovered.damage)
    with minhash.open(tmp_path / "new") as store:
        store.verify()
        there = {each.id for rows in store.rows() for each in rows}
        assert there < {*model.held}
        assert (len(there) > 30) == (what != "all gone")
        for query, rows in zip(own[:40], found_by(store, own[:40]), strict=True):
            assert rows == [row for row in model.similar(query) if row[0] in there]


def test_a_store_of_which_no_sketch_is_left_is_empty(tmp_path: Path) -> None:
    minhash.build(tmp_path / "s", signatures(41, 50), bands=BANDS, rows_per_band=ROWS).close()
    (tmp_path / "s" / "segments" / "00000001.fpsketch").unlink()
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert (recovered.ids_lost, recovered.rows) == (50 * BANDS, 0)
    with minhash.open(tmp_path / "new", "w") as store:
        assert store.count() == 0
        store.add(signatures(41, 50), ids=np.arange(50))
        store.verify()


def test_what_a_damaged_segment_lost_is_not_made_up(tmp_path: Path) -> None:
    own, model = make(tmp_path / "s", "uint64")
    path = tmp_path / "s" / "segments" / "00000001.fpseg"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert not recovered.complete
    with minhash.open(tmp_path / "new") as store:
        store.verify()
        for query, rows in zip(own[:40], found_by(store, own[:40]), strict=True):
            wanted = {name: (similarity, shared) for name, similarity, shared in model.similar(query)}
            for name, similarity, shared in rows:
                assert wanted[name][0] == similarity
                assert shared <= wanted[name][1]
