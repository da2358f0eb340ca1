"""Candidates are those of datasketch's MinHashLSH, and so are the bands that a similarity chooses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minhashes import signatures

from fpstore import minhash
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
