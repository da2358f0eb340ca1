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
