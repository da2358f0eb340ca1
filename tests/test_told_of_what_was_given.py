"""What is refused is told as it was given, and not as something that nobody gave."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from outcome import Command

import fpstore
from fpstore import minhash
from fpstore.text import fingerprint_many, recipes

PRESET = recipes()["minhash-128"]


@pytest.mark.parametrize("values", [np.array([5, -1]), pa.array([5, -1], pa.int64())])
def test_a_number_below_0_is_told_as_that_by_a_narrow_store(tmp_path: Path, values: object) -> None:
    with (
        fpstore.create(tmp_path / "s", bits=24, id_type=None) as store,
        pytest.raises(ValueError, match="item 1: found -1, expected"),
    ):
        store.add(values)


def test_a_plan_like_a_store_has_its_bits(command: Command, tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", np.arange(100, dtype=np.uint64), bits=24).close()
    with pytest.raises(ValueError, match="bits: found 40 with a store of 24, expected none"):
        fpstore.predict(like=tmp_path / "s", bits=40)
    assert fpstore.predict(like=tmp_path / "s", bits=24) == fpstore.predict(like=tmp_path / "s")
    outcome = command("plan", "--like", tmp_path / "s", "--bits", "40")
    assert (outcome.status, "bits: found 40 with a store of 24" in outcome.err) == (2, True)


@pytest.mark.parametrize("given", [None, 5])
def test_what_is_no_number_of_texts_is_named(given: object) -> None:
    told = f"texts: found {given}, a {type(given).__name__}, expected several of them"
    with pytest.raises(TypeError, match=told):
        minhash.sign(given, PRESET)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=told):
        fingerprint_many(given)  # type: ignore[arg-type]


def test_masked_values_are_no_values_of_signatures() -> None:
    one = PRESET.sign_many(["a b c d"])[0]
    masked = np.ma.MaskedArray(one, mask=one == one[0])
    for pair in ((one, masked), (masked, one)):
        with pytest.raises(ValueError, match=r"signatures: found \d+ nulls, expected none"):
            minhash.similarity(*pair)
    assert minhash.similarity(one, np.ma.MaskedArray(one)) == 1.0
