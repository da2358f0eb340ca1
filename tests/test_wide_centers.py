"""Clusters of wide fingerprints whose centers move: those of a plain loop, over days, and after an interruption."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from jobs_model import fingerprints, interrupt, leader_follower, lines_of, write_jsonl
from test_jobs_tomorrow import DAYS, joined, told

import fpstore
from fpstore import CorruptStore, jobs, ledger, notes
from fpstore._codec import crc32c
from fpstore.fingerprints import as_numbers
from fpstore.jobs import cluster, corpus
from fpstore.text import recipes

K = {128: 50, 256: 64}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 3)


@pytest.mark.parametrize("bits", K)
def test_members_join_the_bits_that_most_members_have(tmp_path: Path, bits: int) -> None:
    top = bits - 4
    keys = [0, 3 << top, 3 << top, 15 << top, 12 << top]  # after the third the center is 3 << top
    fpstore.build(tmp_path / "s", keys, bits=bits, max_distance=2).close()
    for update_center, distances in ((False, [0, 2, 2, 0, 2]), (True, [0, 2, 2, 2, 0])):
        jobs.cluster_store(tmp_path / "s", tmp_path / "out", update_center=update_center, force=True)
        told = [line.split("\t") for line in lines_of(tmp_path / "out")]
        assert [int(row[3]) for row in told] == distances
        assert [(int(row[0]), int(row[3])) for row in told] == leader_follower(keys, 2, update_center=update_center)


def day(folder: Path, number: int, bits: int) -> list[tuple[int, int]]:
    source, out = write_jsonl(folder / f"day{number}.jsonl", DAYS[number]), folder / f"out{number}"
    recipe = replace(recipes()["text-1"], name=f"wide-{bits}", bits=bits)
    cluster([source], out, recipe=recipe, store=folder / "s", max_distance=K[bits], update_center=True)
    return told(out)


@pytest.mark.parametrize("bits", K)
@pytest.mark.parametrize("id_type", ["uint64", "string"])
@pytest.mark.parametrize("after", [0, 2])
def test_clusters_over_three_days_are_those_of_a_plain_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bits: int, id_type: str, after: int
) -> None:
    recipe = replace(recipes()["text-1"], name=f"wide-{bits}", bits=bits)
    fpstore.create(tmp_path / "s", recipe=recipe, max_distance=K[bits], id_type=id_type).close()  # type: ignore[arg-type]
    found = []
    for number in range(len(DAYS)):
        if after and number:
            interrupt(monkeypatch, partial(day, tmp_path, number, bits), after)
        found.append(day(tmp_path, number, bits))
    keys = fingerprints(joined(DAYS), recipe)
    expected = leader_follower(keys, K[bits], update_center=True)
    assert joined(found) == expected
    assert (expected == leader_follower(keys, K[bits])) is (bits == 256)  # where no center moves far enough for these
    clusters = 1 + max(number for number, _ in expected)
    votes = tmp_path / "s" / notes.JOBS / ledger.VOTES
    each = 4 * bits + bits // 8
    data = votes.read_bytes()
    assert len(data) == each * clusters + 8
    assert int.from_bytes(data[-8:], "little") == crc32c(data[:-8])
    for number in range(clusters):
        members = [key for key, (own, _) in zip(keys, expected, strict=True) if own == number]
        record = data[each * number : each * (number + 1)]
        counts = [sum(2 * (key >> bit & 1) - 1 for key in members) for bit in range(bits)]
        assert np.frombuffer(record[: 4 * bits], "<i4").tolist() == counts
        assert as_numbers(np.frombuffer(record[4 * bits :], "<u8")[np.newaxis].astype(np.uint64)) == [members[0]]
    with fpstore.open(tmp_path / "s") as store:
        store.verify()
    votes.write_bytes(data[:5] + bytes([data[5] ^ 1]) + data[6:])
    with fpstore.open(tmp_path / "s") as store, pytest.raises(CorruptStore, match="clusters, checksum"):
        store.verify()
    votes.write_bytes(data[:-1])
    with (
        fpstore.open(tmp_path / "s") as store,
        pytest.raises(CorruptStore, match=f"expected 8 more than a multiple of {each}"),
    ):
        store.verify()
