"""The public surface of stores of signatures, written down by hand; what it says is what there is."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pytest
from surface import AnyPath, Column, Durability, IdType, Memory, Mode, Texts, Values
from test_surface import parameters

from fpstore import OnProgress, Stats, Verified, minhash
from fpstore.minhash import Documents, MinHashStore, SimilarAdditions, SimilarMatches, SimilarPairs
from fpstore.text import Recipe


class Build(Protocol):
    def __call__(
        self,
        path: AnyPath,
        signatures: Values,
        *,
        ids: Values = "row",
        id_type: IdType | None = "uint64",
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        keep_signatures: bool = True,
        bits: int | None = None,
        recipe: Recipe | str | None = None,
        memory: Memory = "2GiB",
        threads: int | None = None,
        progress: OnProgress | None = None,
        force: bool = False,
        mode: int | None = None,
    ) -> MinHashStore: ...


class Create(Protocol):
    def __call__(
        self,
        path: AnyPath,
        *,
        exist_ok: bool = False,
        id_type: IdType | None = "uint64",
        values: int | None = None,
        bands: int | None = None,
        rows_per_band: int | None = None,
        min_similarity: float | None = None,
        keep_signatures: bool = True,
        bits: int | None = None,
        recipe: Recipe | str | None = None,
        force: bool = False,
        durability: Durability = "commit",
        mode: int | None = None,
    ) -> MinHashStore: ...


class Open(Protocol):
    def __call__(
        self,
        path: AnyPath,
        mode: Mode = "r",
        *,
        durability: Durability = "commit",
        signed: bool = False,
        warm: bool = False,
        cache: AnyPath | None = None,
        cache_bytes: str | int | None = None,
    ) -> MinHashStore: ...


class AStore(Protocol):
    path: Path
    mode: Mode

    @property
    def kind(self) -> Literal["minhash"]: ...
    @property
    def id_type(self) -> IdType | None: ...
    @property
    def recipe(self) -> Recipe | None: ...
    @property
    def bands(self) -> int: ...
    @property
    def rows_per_band(self) -> int: ...
    @property
    def values(self) -> int: ...
    def close(self, *, wait: bool = False) -> None: ...
    def wait(self) -> None: ...
    def sync(self) -> None: ...
    def compact(self, *, progress: OnProgress | None = None) -> None: ...
    def copy(self, path: AnyPath, *, progress: OnProgress | None = None, mode: int | None = None) -> None: ...
    def verify(self, *, progress: OnProgress | None = None) -> Verified: ...
    def stats(self, *, largest_slots: int = 0, spikes: int = 0, progress: OnProgress | None = None) -> Stats: ...
    def max_id(self) -> int | None: ...
    def signature(self, text: str | bytes) -> Column: ...
    def signature_many(self, texts: Texts, *, threads: int | None = None) -> Column: ...
    def probe(self, signature: Values, *, min_similarity: float | None = None) -> SimilarMatches: ...
    def probe_many(
        self, signatures: Values, *, min_similarity: float | None = None, threads: int | None = None
    ) -> SimilarMatches: ...
    def probe_text(self, text: str | bytes, *, min_similarity: float | None = None) -> SimilarMatches: ...
    def contains_near(self, signature: Values, *, min_similarity: float | None = None) -> bool: ...
    def pairs(
        self, *, min_similarity: float | None = None, memory: Memory = "1GiB", progress: OnProgress | None = None
    ) -> Iterator[SimilarPairs]: ...
    def count_pairs(
        self, *, min_similarity: float | None = None, memory: Memory = "1GiB", progress: OnProgress | None = None
    ) -> int: ...
    def count(self) -> int: ...
    def rows(self, *, batch: int = 65_536) -> Iterator[Documents]: ...
    def lookup(self, ids: Values) -> Documents: ...
    def add(self, signatures: Values, *, ids: Values = None) -> object: ...
    def add_if_new(
        self, signatures: Values, *, ids: Values = None, min_similarity: float | None = None
    ) -> SimilarAdditions: ...
    def add_texts(self, texts: Texts, *, ids: Values = None) -> object: ...
    def add_texts_if_new(
        self, texts: Texts, *, ids: Values = None, min_similarity: float | None = None
    ) -> SimilarAdditions: ...
    def upsert(self, signatures: Values, *, ids: Values) -> None: ...
    def remove(self, *, ids: Values) -> object: ...


# What the type checker looks at.
build: Build = minhash.build
create: Create = minhash.create
open_: Open = minhash.open
store: Callable[[MinHashStore], AStore] = lambda one: one  # noqa: E731


@pytest.mark.parametrize(("name", "asked"), [("build", Build), ("create", Create), ("open", Open)])
def test_a_function_of_stores_takes_what_the_surface_says(name: str, asked: Any) -> None:
    assert parameters(getattr(minhash, name)) == parameters(asked.__call__)
    assert name in minhash.__all__


def test_a_store_has_the_methods_that_the_surface_says_and_no_others() -> None:
    asked = {name: each for name, each in vars(AStore).items() if not name.startswith("_")}
    found = {name for name in dir(MinHashStore) if not name.startswith("_")}
    assert found - {*asked} == {"codec", "identity", "layout", "max_matches", "report"}  # of every store, and for tests
    for name, each in asked.items():
        if inspect.isfunction(each):
            assert parameters(getattr(MinHashStore, name)) == parameters(each), name


@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes", None])
def test_tables_have_the_types_that_the_surface_says(tmp_path: Path, id_type: Any) -> None:
    own = np.arange(256, dtype=np.uint32).reshape(2, 128)
    own[1, :16] = own[0, :16]
    names: Any = {"uint64": [1, 2], "string": ["a", "b"], "bytes": [b"a", b"b"], None: None}[id_type]
    with minhash.create(tmp_path / "s", id_type=id_type) as one:
        one.add(own, ids=names)
        for found in (one.probe_many(own), one.probe_many(own[:0])):
            assert found.NAMES == ("query", "id", "similarity", "shared_bands")
            types = [found.query.dtype, found.similarity.dtype, found.shared_bands.dtype]
            assert types == [np.int64, np.float32, np.uint16]
            assert (found.id is None) == (id_type is None)
            assert found.id is None or found.id.dtype.kind == {"uint64": "u", "string": "T", "bytes": "O"}[id_type]
            assert found == found[:] and len(found.to_arrow()) == len(found)  # noqa: PT018
        added = one.add_if_new(own, ids=names)
        assert added.NAMES == ("stored", "match_id", "match_similarity", "match_shared_bands")
        assert [each.stored for each in added] == [False, False]
        assert "0 of 2 stored" in repr(added)
        if id_type is not None:
            (pairs,) = one.pairs()
            assert pairs.NAMES == ("first_id", "second_id", "similarity", "shared_bands")
            assert [(each.first_id, each.second_id, each.shared_bands) for each in pairs] == [(*names, 2)]
            documents = one.lookup(names)
            assert documents.id.tolist() == names
            assert {len(each.sketch or b"") for each in documents} == {32}
