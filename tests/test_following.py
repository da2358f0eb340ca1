"""What a reader knows: single queries take in the rows that came since by themselves, and answer from them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore.living.reader import Reader

ASKS: dict[str, Callable[[fpstore.Store, int], bool]] = {
    "probe": lambda store, key: len(store.probe(key)) > 0,
    "contains_near": lambda store, key: store.contains_near(key),
    "nearest": lambda store, key: store.nearest(key, count=1).distance.tolist() == [0],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with rows in a segment, of which some are removed."""
    path = tmp_path / "s"
    keys = np.random.default_rng(1).integers(0, 1 << 64, 5000, dtype=np.uint64)
    fpstore.build(path, keys, ids=np.arange(5000, dtype=np.uint64)).close()
    return path


def refuse(_: Reader) -> Any:
    raise AssertionError("the general way")


@pytest.mark.parametrize(
    ("ask", "removed"),
    [pytest.param(ask, removed, id=ask + " after a removal" * removed) for removed in (False, True) for ask in ASKS][
        :-1
    ],
)
def test_a_query_takes_in_what_came_since_and_answers_from_it(
    path: Path, ask: str, removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fpstore.open(path, "w") as writer, fpstore.open(path) as reader:
        if removed:
            writer.remove(ids=[3])
        assert reader.count("rows") == 5000 - removed
        assert not ASKS[ask](reader, 77)
        with monkeypatch.context() as patch:
            patch.setattr(Reader, "newest", refuse)
            for i in range(5):
                assert not ASKS[ask](reader, 77 << 8 * i)
                writer.add([77 << 8 * i, 1 << 60 | i], ids=[10**6 + i, 5])
                assert ASKS[ask](reader, 77 << 8 * i)
        assert reader._latest.state == writer._latest.state
        assert reader._latest.state.transaction == reader._living._catalog.state().transaction
        assert reader.count("rows") == writer.count("rows") == 5010 - removed
        assert reader.max_id() == 10**6 + 4
        assert list(map(list, reader.rows())) == list(map(list, writer.rows()))


def test_a_query_that_another_overtook_answers_from_the_newest_state(path: Path) -> None:
    with fpstore.open(path, "w") as writer, fpstore.open(path) as reader:
        assert not reader.contains_near(77)
        before = reader._latest.single
        writer.add([77], ids=[9])
        assert reader.contains_near(77)
        # As in a thread that was held up between the two.
        assert before.probe(reader._watch, 77, None, False).id.tolist() == [9]
        assert before.contains(reader._watch, 77, None)
        assert before.probe(None, 77, None, False).id.tolist() == []


OVERTAKEN: dict[str, tuple[dict[str, Any], Any, Any]] = {
    # What it is made with, a fingerprint that comes, and its id.
    "rows": ({}, 77, 9),
    "no ids": ({"id_type": None}, 77, None),
    "names": ({"id_type": "string"}, 77, "a"),
    "wide": ({"bits": 128}, 77, 9),
    "wide names": ({"bits": 128, "id_type": "string"}, 77, "a"),
}


@pytest.mark.parametrize("form", OVERTAKEN)
@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_query_that_another_overtook_does_not_answer_from_before(tmp_path: Path, form: str, change: str) -> None:
    own, key, row_id = OVERTAKEN[form]
    ids = None if row_id is None else [row_id]
    keys = np.array([[0, key]], dtype=np.uint64) if "bits" in own else np.array([key], dtype=np.uint64)
    with fpstore.create(tmp_path / "s", **own) as writer, fpstore.open(tmp_path / "s") as reader:
        if change == "remove":
            writer.add(keys, ids=ids)
        found = change == "remove"
        assert reader.contains_near(key) is found
        before = reader._latest.single
        writer.remove(fingerprints=keys) if change == "remove" else writer.add(keys, ids=ids)
        assert reader.contains_near(key) is not found
        # As in a thread that was held up between the two. None and True: it cannot tell, and the newest is asked.
        probed, contained = before.probe(reader._watch, key, None, False), before.contains(reader._watch, key, None)
        assert probed is None or len(probed) == 1 - found
        assert contained in (None, not found)
        first = before.first(reader._watch, key, 1, None, False)
        assert first is None or first is True or len(first) == 1 - found


def test_threads_that_ask_after_each_commit_miss_no_row(path: Path) -> None:
    missed: list[int] = []
    with fpstore.open(path, "w") as writer, fpstore.open(path) as reader:
        reader.probe(1)
        begin, done = threading.Barrier(4), threading.Barrier(4)

        def ask() -> None:
            for i in range(100):
                begin.wait()
                if reader.probe(1000 * i, max_distance=0).id.tolist() != [10**6 + i]:  # type: ignore[union-attr]
                    missed.append(i)
                if reader._latest.pending_end != i + 1 or reader._latest.state.max_id != 10**6 + i:
                    missed.append(i)
                done.wait()

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(100):
            writer.add([1000 * i], ids=[10**6 + i])
            begin.wait()
            done.wait()
        for thread in threads:
            thread.join()
    assert missed == []


def test_after_what_is_no_addition_it_begins_anew(path: Path) -> None:
    with fpstore.open(path, "w") as writer, fpstore.open(path) as reader:
        reader.probe(1)
        for step in (lambda: writer.remove(ids=[9]), writer._flush, writer.compact):
            writer.add([77], ids=[9])
            assert reader.probe(77).id.tolist() == [9]  # type: ignore[union-attr]
            step()  # type: ignore[no-untyped-call]
            assert len(reader.probe(77)) == len(writer.probe(77))
            writer.add([78], ids=[10])
            assert reader.probe(78, max_distance=0).id.tolist() == [10]  # type: ignore[union-attr]
            writer.remove(ids=[10])
            assert len(reader.probe(78, max_distance=0)) == 0
