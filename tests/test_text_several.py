"""Texts are given as several of them, in an order: what would give letters, keys or names of columns is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import fpstore
from fpstore import text


class Frame(list[str]):
    """What pandas and polars have: a table, which gives something else than its rows."""

    columns = ("text",)


TEXTS = ["one two three four", "five six seven eight"]
NO_TEXTS = {
    "str": "one",
    "bytes": b"one",
    "dict": dict.fromkeys(TEXTS, 1),
    "set": set(TEXTS),
    "frame": Frame(TEXTS),
    "arrow": pa.table({"text": TEXTS}),
    "batch": pa.RecordBatch.from_pydict({"text": TEXTS}),
}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[Any], Any]]]:
    path = tmp_path_factory.mktemp("texts") / "s.fpstore"
    with fpstore.create(path, id_type=None, recipe=text.DEFAULT_RECIPE) as store:
        yield calls_of(store)


def calls_of(store: fpstore.Store) -> dict[str, Callable[[Any], Any]]:
    return {
        "fingerprint_many": text.fingerprint_many,
        "Recipe.fingerprint_many": text.DEFAULT_RECIPE.fingerprint_many,
        "dedup": text.dedup,
        "learn_idf": lambda texts: text.learn_idf(texts, text.DEFAULT_RECIPE),
        "Store.fingerprint_many": store.fingerprint_many,
        "Store.add_texts": store.add_texts,
        "Store.add_texts_if_new": store.add_texts_if_new,
    }


@pytest.mark.parametrize("name", NO_TEXTS)
def test_what_gives_something_else_than_texts_is_refused(calls: dict[str, Callable[[Any], Any]], name: str) -> None:
    for call in calls.values():
        with pytest.raises(TypeError, match=r"^texts: found .*, expected "):
            call(NO_TEXTS[name])


def test_lists_tuples_and_generators_are_texts() -> None:
    expected = text.fingerprint_many(TEXTS).tolist()
    for texts in (TEXTS, tuple(TEXTS), iter(TEXTS)):
        assert text.fingerprint_many(texts).tolist() == expected
