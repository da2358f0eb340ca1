"""`fpstore copy`."""

# mypy: disable-error-code="union-attr"

import os
from pathlib import Path

import numpy as np
import pytest
from helpers import uniform
from outcome import Command, Outcome

import fpstore

SOME = uniform(1000, np.random.default_rng(1))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """SOME with row numbers: half in a segment, half pending."""
    path = tmp_path / "s.fpstore"
    fpstore.build(path, SOME[:500]).close()
    with fpstore.open(path, "w") as opened:
        opened.add(SOME[500:], ids=np.arange(500, 1000, dtype=np.uint64))
    return path


def test_the_copy_holds_what_the_store_holds_while_another_writes(
    command: Command, store: Path, tmp_path: Path
) -> None:
    with fpstore.open(store, "w") as writer:
        outcome = command("copy", store, tmp_path / "t.fpstore")
        assert (outcome.status, outcome.out) == (0, "")
        assert outcome.err.startswith(f"{tmp_path / 't.fpstore'}: at most 1000 rows, ")
        writer.remove(fingerprints=SOME)
    with fpstore.open(tmp_path / "t.fpstore") as copied:
        copied.verify()
        assert copied.probe_many(SOME, max_distance=0).id.tolist() == list(range(1000))


def test_a_count_is_exact_or_said_to_be_the_most(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "s.fpstore"
    fpstore.build(path, SOME[:5]).close()
    assert command("copy", path, tmp_path / "one.fpstore").err.startswith(f"{tmp_path / 'one.fpstore'}: 5 rows, ")
    with fpstore.open(path, "w") as opened:
        opened.add(SOME[:5], ids=np.arange(5, dtype=np.uint64))  # all of them are there
    assert ": at most " in command("copy", path, tmp_path / "two.fpstore").err
    with fpstore.open(path, "w") as opened:
        opened.remove(ids=[0])
        opened.compact()
    assert ": 4 rows, " in command("copy", path, tmp_path / "three.fpstore").err
    with fpstore.open(path, "w") as opened:
        opened.remove(ids=[1])
    assert ": at most 4 rows, " in command("copy", path, tmp_path / "four.fpstore").err


def test_nothing_is_copied_to_where_something_is(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "t.fpstore").write_text("something")
    outcome = command("copy", store, tmp_path / "t.fpstore")
    assert outcome == Outcome(2, "", f"fpstore: {tmp_path / 't.fpstore'}: already there\n")
    assert (tmp_path / "t.fpstore").read_text() == "something"


def test_a_damaged_store_is_copied_from_its_other_tables_and_a_warning_names_the_segment(
    command: Command, store: Path, tmp_path: Path
) -> None:
    (segment,) = (store / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    outcome = command("copy", store, tmp_path / "t.fpstore")
    assert (outcome.status, outcome.err.count("\n")) == (0, 2)
    assert outcome.err.startswith(f"fpstore: warning: {segment}: ")
    with fpstore.open(tmp_path / "t.fpstore") as copy:
        copy.verify()
        assert copy.count() == 1000


def test_a_store_with_damage_in_all_tables_is_not_copied(command: Command, store: Path, tmp_path: Path) -> None:
    (segment,) = (store / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    with fpstore.open(store) as opened:
        regions = [region for region in opened._segments[0].regions() if region.name == "payload"]
    for region in regions:
        data[region.offset + 5] ^= 1
    segment.write_bytes(data)
    outcome = command("copy", store, tmp_path / "t.fpstore")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (3, "", 1)
    assert str(segment) in outcome.err
    assert os.listdir(tmp_path) == ["s.fpstore"]


def test_a_folder_that_is_not_there_is_named(command: Command, store: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "none", tmp_path / "t.fpstore"), (store, tmp_path / "none" / "t.fpstore")):
        outcome = command("copy", *arguments)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert str(tmp_path / "none") in outcome.err
    assert os.listdir(tmp_path) == ["s.fpstore"]
