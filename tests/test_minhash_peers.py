"""Candidates are those of datasketch's MinHashLSH, and so are the bands that a similarity chooses, and our index."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minhashes import signatures

from fpstore import minhash
from fpstore.adapters.datasketch import MinHashLSH
from fpstore.minhash.making import bands_for

datasketch: Any = pytest.importorskip("datasketch", reason="datasketch is not installed: make test-clients installs it")

VALUES = 128


def of_datasketch(own: Any, bands: int, rows: int) -> list[set[int]]:
    """What its index finds for each of the signatures, all of which are in it."""
    index = datasketch.MinHashLSH(num_perm=VALUES, params=(bands, rows))
    made = [datasketch.MinHash(num_perm=VALUES, hashvalues=values, scheme="affine32") for values in own]
    for number, each in enumerate(made):
        index.insert(number, each)
    return [set(index.query(each)) for each in made]


def found_by(store: minhash.MinHashStore, own: Any) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in own]
    for match in store.probe_many(own):
        found[match.query].add(match.id)
    return found


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("bands", "rows"), [(16, 8), (25, 5), (128, 1), (2, 64)])
def test_candidates_are_those_of_its_index(tmp_path: Path, bands: int, rows: int, kept: bool) -> None:
    own = signatures(1, 400, values=VALUES, kinds=20)
    made = minhash.build(tmp_path / "s", own, bands=bands, rows_per_band=rows, keep_signatures=kept, bits=64)
    with made as store:
        assert found_by(store, own) == of_datasketch(own, bands, rows)


@pytest.mark.parametrize("same", [True, False])
def test_candidates_of_copies_and_of_what_shares_nothing_are_too(tmp_path: Path, same: bool) -> None:
    own = np.arange(200 * VALUES, dtype=np.uint32).reshape(200, VALUES)
    own = np.broadcast_to(own[0], own.shape) if same else own
    with minhash.build(tmp_path / "s", own, bits=64) as store:
        assert found_by(store, own) == of_datasketch(own, 16, 8)


@pytest.mark.parametrize("least", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_the_bands_that_a_similarity_chooses_are_its(least: float) -> None:
    from datasketch.lsh import _optimal_param

    assert bands_for(VALUES, least) == tuple(_optimal_param(least, VALUES, 0.5, 0.5))


@pytest.mark.parametrize("values", [2, 16, 64, 100])
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.8), (0.7, 0.3)])
def test_the_bands_that_weights_choose_are_its(values: int, weights: tuple[float, float]) -> None:
    from datasketch.lsh import _optimal_param

    for least in (0.2, 0.5, 0.75):
        assert bands_for(values, least, weights) == tuple(_optimal_param(least, values, *weights))


def made(kind: str, seed: int) -> Any:
    """Something that an index of either takes, of which many share bands."""
    rng = np.random.default_rng(seed)
    if kind == "weighted":
        return datasketch.WeightedMinHashGenerator(8, 32).minhash(rng.integers(1, 4, size=8))
    own = datasketch.MinHash(num_perm=32, scheme=kind.removeprefix("lean "))
    own.update_batch([bytes([each]) for each in rng.integers(0, 6, size=8)])
    return datasketch.LeanMinHash(own) if kind.startswith("lean") else own


@pytest.mark.parametrize("kind", ["affine32", "affine64", "legacy", "lean affine32", "weighted"])
def test_our_index_answers_as_its(kind: str) -> None:
    own = [made(kind, seed) for seed in range(60)]
    theirs = datasketch.MinHashLSH(threshold=0.4, num_perm=32)
    with MinHashLSH(threshold=0.4, num_perm=32) as ours:
        assert (ours.b, ours.r) == (theirs.b, theirs.r)
        for index in (ours, theirs):
            with index.insertion_session() as session:
                for number, each in enumerate(own):
                    session.insert(number, each)
            for number in range(0, 60, 7):
                index.remove(number)
        assert [{*ours.query(each)} for each in own] == [{*theirs.query(each)} for each in own]
        assert [sorted(each.values()) for each in ours.get_counts()] == [
            sorted(each.values()) for each in theirs.get_counts()
        ]
