"""Frames deduplicated batch by batch: what a plain loop keeps, in the order of ids, whatever the batches are."""

import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import first_come, texts

from fpstore.cluster.leading import ADDED, Keyed, Told, decided
from fpstore.errors import RecipeError
from fpstore.jobs import dedup
from fpstore.text import DEFAULT_RECIPE, load_recipe

near = st.integers(0, (1 << 12) - 1).map(lambda few: few << 40 | 0xFF)


def told_of(keyed: Keyed, batches: list[Any], distance: int) -> list[Any]:
    """All batches with what became of their rows; the functions are sent as engines send them."""
    sent: Keyed = pickle.loads(pickle.dumps(keyed))
    told: Told = pickle.loads(pickle.dumps(decided(keyed, list(sent.all(batches)), distance)))
    return list(told.all(batches))


@settings(max_examples=40)
@given(st.lists(near, max_size=40), st.integers(0, 4), st.integers(1, 9), st.randoms(), st.booleans())
def test_a_frame_is_told_what_a_plain_loop_keeps(
    keys: list[int], distance: int, size: int, random: Any, signed: bool
) -> None:
    ids = sorted(random.sample(range(-50, 50) if signed else range((1 << 64) - 200, 1 << 64), len(keys)))
    verdicts = first_come(range(len(keys)), keys, distance)
    kept = [number for number, verdict in enumerate(verdicts) if verdict is None]
    expected = {}
    for number, verdict in enumerate(verdicts):
        leader = number if verdict is None else verdict[0]
        expected[ids[number]] = (kept.index(leader), ids[leader], verdict is not None)
    order = random.sample(range(len(keys)), len(keys))
    table = pyarrow.table(
        {
            "more": [f"row {ids[place]}" for place in order],
            "id": pyarrow.array([ids[place] for place in order], pyarrow.int64() if signed else pyarrow.uint64()),
            "fingerprint": pyarrow.array([keys[place] for place in order], pyarrow.uint64()),
        }
    )
    batches = table.to_batches(max_chunksize=size)
    for frame in (batches, [table]):
        found = (
            told_of(Keyed(), batches, distance)
            if frame is batches
            else [decided(Keyed(), [Keyed()(table)], distance)(table)]
        )
        rows = [row for batch in found for row in batch.to_pylist()]
        assert {row["id"]: tuple(row[name] for name in ADDED) for row in rows} == expected
        assert [row["more"] for row in rows] == table.column("more").to_pylist()
    assert all(isinstance(batch, pyarrow.RecordBatch) for batch in told_of(Keyed(), batches, distance))


@settings(max_examples=10)
@given(st.lists(texts, max_size=20))
def test_texts_are_decided_as_a_job_without_confirmation_decides(
    tmp_path_factory: pytest.TempPathFactory, own: list[str]
) -> None:
    table = pyarrow.table(
        {"id": pyarrow.array(range(len(own)), pyarrow.int64()), "text": pyarrow.array(own, pyarrow.string())}
    )
    (found,) = [decided(Keyed(text_column="text"), [Keyed(text_column="text")(table)], 3)(table)]
    out = tmp_path_factory.mktemp("frames") / "kept"
    dedup([table.to_pylist()], out, confirm=None, max_distance=3, recipe=DEFAULT_RECIPE)
    kept = [row["id"] for row in found.to_pylist() if not row["is_duplicate"]]
    assert kept == [json.loads(line)["id"] for line in out.read_text().splitlines()]


FRAME = {"id": pyarrow.array([1, 2]), "fingerprint": pyarrow.array([5, 6], pyarrow.uint64()), "text": ["a", "b"]}


@pytest.mark.parametrize(
    ("keyed", "frame", "told"),
    [
        ({}, {"key": FRAME["id"]}, "^columns: found key, expected one column id"),
        ({"fingerprint_column": "x"}, FRAME, "^columns: found id, fingerprint, text, expected one column x"),
        ({}, FRAME | {"cluster_id": FRAME["id"]}, "^columns: found cluster_id, expected none of that name"),
        ({}, FRAME | {"id": ["a", "b"]}, "^column id: found string, expected integers, by which rows are in order"),
        ({"text_column": "id"}, FRAME, "^column id: found int64, expected texts"),
        ({}, FRAME | {"fingerprint": ["a", "b"]}, "^column fingerprint: found string, expected integers of 64 bits"),
        ({}, FRAME | {"id": pyarrow.array([1, None])}, "^column id: found a null, expected a value in each row"),
        ({"text_column": "text"}, FRAME | {"text": ["a", None]}, "^column text: found a null"),
        ({}, FRAME | {"id": pyarrow.array([2, 2])}, "^column id: found 2 in two rows, expected ids that differ"),
    ],
)
def test_columns_that_are_not_as_they_have_to_be_are_refused(keyed: Any, frame: Any, told: str) -> None:
    own = Keyed(**keyed)
    with pytest.raises(ValueError, match=told):
        decided(own, [own(pyarrow.table(frame))], 3)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^fingerprint_column and text_column: found both"):
        Keyed(fingerprint_column="a", text_column="b")
    with pytest.raises(ValueError, match=r"^recipe: found one without text_column"):
        Keyed(recipe=DEFAULT_RECIPE)
    with pytest.raises(RecipeError, match="found sketch minhash"):
        Keyed(text_column="a", recipe=load_recipe("minhash-128"))
    with pytest.raises(ValueError, match=r"^recipe: found recipe .*, of 128 bits, expected one of 64"):
        Keyed(text_column="a", recipe=replace(DEFAULT_RECIPE, bits=128))


@pytest.mark.parametrize("first", [[], [1, 2]])
def test_a_row_that_was_not_there_is_refused(first: list[int]) -> None:
    frame = pyarrow.table(FRAME)
    told = decided(Keyed(), [Keyed()(frame.slice(0, len(first)))], 3)
    other = frame.set_column(0, "id", pyarrow.array([2, 7]))
    with pytest.raises(ValueError, match=r"^column id: found [27], which was not there when all were read"):
        told(other)
