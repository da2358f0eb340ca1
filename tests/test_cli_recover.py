"""`fpstore recover`: what it makes, what it says of the loss, and its exit status."""

from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.format import PAGE_BYTES


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fingerprints = np.random.default_rng(1).integers(0, 1 << 64, 5000, dtype=np.uint64)
    fpstore.build(tmp_path / "s.fpstore", fingerprints).close()
    return tmp_path / "s.fpstore"


def damage(store: Path, name: str) -> Path:
    """Flip a byte in the second page of a region."""
    (path,) = (store / "segments").iterdir()
    with fpstore.open(store) as opened:
        offset = next(r.offset for r in opened._segments[0].regions() if r.name == name)
    data = bytearray(path.read_bytes())
    data[offset // PAGE_BYTES * PAGE_BYTES + PAGE_BYTES + 5] ^= 1
    path.write_bytes(data)
    return path


def test_a_damaged_table_costs_nothing_and_the_damage_is_told(command: Command, store: Path, tmp_path: Path) -> None:
    path = damage(store, "payload")
    new = tmp_path / "new.fpstore"
    outcome = command("recover", store, new)
    assert (outcome.status, outcome.out) == (0, "")
    damaged, made, lost = outcome.err.splitlines()
    told = "table 0 payload, 1 page from byte 4096, checksum: found another, expected the one recorded"
    assert damaged == f"{path}: {told}"
    assert made == f"{new}: 5000 fingerprints in 5000 rows"
    assert lost == f"{new}: nothing is lost"
    assert command("verify", new).status == 0


def test_what_is_lost_is_named_and_is_status_3(command: Command, store: Path, tmp_path: Path) -> None:
    damage(store, "id values")
    outcome = command("recover", store, tmp_path / "new.fpstore")
    found = fpstore.recover(store, tmp_path / "other.fpstore")
    assert outcome.status == 3
    assert outcome.lines == [f"{fingerprint:016x}\tlost" for fingerprint in found.without_ids]
    lost = len(found.without_ids)
    assert outcome.err.splitlines()[-1] == f"{tmp_path}/new.fpstore: lost: {lost} fingerprints, {lost} ids"
    assert 0 < lost < 5000


def test_what_cannot_be_known_is_said(command: Command, store: Path, tmp_path: Path) -> None:
    (store / "catalog.mdb").unlink()
    outcome = command("recover", store, tmp_path / "new.fpstore")
    assert outcome.status == 3
    assert f"{store}: not known: the catalog is gone: " in outcome.err
    assert outcome.err.splitlines()[-1] == f"{tmp_path}/new.fpstore: lost: what is not known"


def test_a_place_that_is_taken_is_status_2(command: Command, store: Path, tmp_path: Path) -> None:
    outcome = command("recover", store, tmp_path)
    assert (outcome.status, outcome.err) == (2, f"fpstore: {tmp_path}: already there\n")
