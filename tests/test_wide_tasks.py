"""Wide stores by tasks: the rows are those of one process, whatever is pending, removed, named or far away."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome import Command
from test_wide import many, numbers_of

import fpstore
from fpstore import cluster
from fpstore.cluster import shares
from fpstore.living import wide

WIDTHS = {128: 9, 256: 31}


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [(m.query, m.distance, m.fingerprint, m.id) for part in found for m in part]


@pytest.mark.slow
@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("ids", ["numbers", "names", "none"])
def test_tasks_find_what_probe_many_finds(bits: int, ids: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "RUN_ROWS", 40)
    codes = many(bits, 900, "clusters")
    path = tmp_path / "s"
    own: Any = {"numbers": np.arange(900) % 500, "none": None, "names": [f"n{i % 500:04}" for i in range(900)]}[ids]
    id_type: Any = {"numbers": "uint64", "names": "string", "none": None}[ids]
    with fpstore.create(path, bits=bits, max_distance=WIDTHS[bits], id_type=id_type) as store:
        store.add(codes[:400], **({} if own is None else {"ids": own[:400]}))
        store._flush()
        store.add(codes[400:], **({} if own is None else {"ids": own[400:]}))
        store.remove(fingerprints=numbers_of(codes[:20]))
        queries = np.concatenate([codes[::9], codes[:30], codes[5:6], many(bits, 3, "random", 9)])
        for distance in (None, 0, WIDTHS[bits] + 5):
            expected = rows([store.probe_many(queries, max_distance=distance)])
            with cluster.probe(path, queries, max_distance=distance, workers=1, tasks=5) as answer:
                assert rows(answer) == expected
            assert expected
        assert rows(cluster.probe(path, queries[:0])) == []


@pytest.mark.slow
@pytest.mark.parametrize("bits", sorted(WIDTHS))
@pytest.mark.parametrize("named", [False, True])
def test_tasks_find_every_pair_of_a_wide_store_once_and_in_order(
    bits: int, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wide, "PAIRED_CODES", 50)
    monkeypatch.setattr("fpstore.cluster.runs.RUN_ROWS", 40)
    codes, path = many(bits, 600, "clusters"), tmp_path / "s"
    ids: Any = [f"n{i % 400:04}" for i in range(600)] if named else np.arange(600) % 400
    distance = {128: 9, 256: 62}[bits]
    with fpstore.create(path, bits=bits, max_distance=distance, id_type="string" if named else "uint64") as store:
        store.add(codes[:350], ids=ids[:350])
        store._flush()
        store.add(codes[350:], ids=ids[350:])
        store.remove(fingerprints=numbers_of(codes[:9]))
        expected = sorted(tuple(pair) for part in store.pairs() for pair in part)
        with cluster.pairs(path, workers=1, tasks=4) as found:
            assert [tuple(pair) for part in found for pair in part] == expected
        of_ids = sorted(tuple(pair) for part in store.pairs(of="ids") for pair in part)
        with cluster.pairs(path, of="ids", workers=1, tasks=4) as found:
            assert sorted(tuple(pair) for part in found for pair in part) == of_ids
        assert len(expected) > 100
        assert len(of_ids) > 100


def test_pairs_of_an_empty_wide_store_are_none(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", bits=128).close()
    with cluster.pairs(tmp_path / "s", workers=1) as found:
        assert list(found) == []


def test_a_command_has_workers_probe_a_wide_store(tmp_path: Path, command: Command) -> None:
    codes = many(256, 300, "clusters")
    fpstore.build(tmp_path / "s", codes, bits=256, max_distance=31).close()
    source = tmp_path / "q.hex"
    source.write_text("".join(f"{number:064x}\n" for number in numbers_of(codes[::7])))
    alone = command("probe", tmp_path / "s", "--input", source)
    shared = command("probe", tmp_path / "s", "--input", source, "--workers", "2")
    assert alone.status == shared.status == 0
    assert shared.lines == alone.lines
    assert len(alone.lines) > 40
    pairs = command("pairs", tmp_path / "s", "--workers", "2")
    assert pairs.lines == sorted(command("pairs", tmp_path / "s").lines)
