"""What the names of the public surface promise: texts by the store's recipe, counts, keywords, states."""

import dataclasses
import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import surface

import fpstore
import fpstore.cluster
import fpstore.minhash
import fpstore.text
from fpstore import RecipeError, Spikes, jobs, making, types
from fpstore import format as layout
from fpstore.living.catalog import create_catalog
from fpstore.living.sizes import LivingSizes
from fpstore.living.state import ID_TYPES, Settings
from fpstore.plans import families as plans
from fpstore.text import Comparison, recipes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "store", [1, 2, 1 << 40]).close()
    return tmp_path / "store"


# --- Texts ---


def test_a_text_is_asked_for_by_the_stores_own_recipe(tmp_path: Path) -> None:
    texts = [" ".join(f"{word}{number}" for word in ("one", "two", "three", "four", "five")) for number in range(50)]
    recipe = recipes()["multilingual"]
    with fpstore.create(tmp_path / "s", recipe="multilingual") as store:
        store.add_texts(texts, ids=list(range(50)))
        assert store.recipe == recipe
        assert store.fingerprint_many(texts).tolist() == [recipe.fingerprint(text) for text in texts]
        assert store.fingerprint(texts[3]) == recipe.fingerprint(texts[3]) != recipes()["web-en"].fingerprint(texts[3])
        assert all(next(iter(store.probe_text(text))).id == number for number, text in enumerate(texts))
        assert len(store.probe_text(texts[3], max_distance=0)) == 1
        found = store.add_texts_if_new([texts[4], "another text of its own"], ids=[100, 101], max_distance=0)
        assert found.stored.tolist() == [False, True]
        with pytest.raises(TypeError, match="texts: found one str, expected several of them"):
            store.fingerprint_many(texts[0])


def test_a_store_without_a_recipe_takes_no_texts(folder: Path) -> None:
    with fpstore.open(folder) as store:
        assert store.recipe is None
        for ask in (store.fingerprint, store.probe_text):
            with pytest.raises(RecipeError, match=f"^{folder}: found no recipe for texts in it, expected a store made"):
                ask("a text")


def test_a_record_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    plan = plans.paper("paper-4").to_json()
    create_catalog(tmp_path, Settings(3, plan, "gap", None, recipe={"a": 1}), ())
    with fpstore.open(tmp_path) as store, pytest.raises(RecipeError, match=f"^{tmp_path}: recipe"):
        store.recipe  # noqa: B018


# --- What the names of the surface promise ---


def test_ids_and_the_distance_are_said_by_name(folder: Path) -> None:
    with fpstore.open(folder) as store:
        calls: list[tuple[Callable[..., Any], Any]] = [
            (store.probe, 1),
            (store.probe_many, [1]),
            (store.contains_near, 1),
            (partial(store.nearest, 1), 1),
            (partial(store.nearest_many, [1]), 1),
            (store.add, [1]),
            (store.add_if_new, [1]),
            (partial(fpstore.build, folder), [1]),
        ]
        for call, given in calls:
            with pytest.raises(TypeError, match="positional"):
                call(given, 1)


def test_a_store_is_true_and_counts_when_it_is_asked_to(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        assert store
        assert (store.count(), store.count("rows")) == (0, 0)
        store.add([1, 1, 2], ids=[1, 2, 3])
        assert (store.count(), store.count("rows")) == (2, 3)
        store.compact()
        assert (store.count("fingerprints"), store.count("rows")) == (2, 3)
        store.remove(ids=[1])
        assert (store.count(), store.count("rows")) == (2, 2)
        with pytest.raises(ValueError, match="of: found 'ids', expected fingerprints or rows"):
            store.count("ids")  # type: ignore[arg-type]
    with fpstore.build(tmp_path / "t", [1, 2, 2], ids=None) as store:
        assert (store.count(), store.count("rows")) == (2, 2)


def test_rows_and_pairs_are_those_of_the_moment_of_the_call(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as store:
        store.add([1, 3], ids=[1, 3])
        rows, pairs = store.rows(), store.pairs()
        store.add([2], ids=[2])
        store.compact()
        assert [list(batch) for batch in rows] == [[(1, 1), (3, 3)]]
        assert [pair for batch in pairs for pair in batch] == [(1, 3, 1)]


def test_close_can_wait_for_merges_that_are_due(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    store = fpstore.Store(tmp_path / "s", "w", sizes=LivingSizes(flush_rows=100))
    for start in range(0, 1000, 50):
        store.add(list(range(start, start + 50)), ids=list(range(start, start + 50)))
    store.close(wait=True)
    store.close(wait=True)
    with fpstore.Store(tmp_path / "s", "w", sizes=LivingSizes(flush_rows=100)) as store:
        segments = len(store._segments)
        store.wait()
        assert len(store._segments) == segments


def test_a_store_is_made_empty_in_the_place_of_another_where_that_is_asked_for(folder: Path) -> None:
    """Its readers are told, as after a build by force; what is no store stays."""
    with pytest.raises(FileExistsError):
        fpstore.create(folder)
    with fpstore.open(folder) as reader:
        before = reader.identity
        with fpstore.create(folder, force=True, id_type=None, max_distance=2, codec="raw", recipe="words-4") as store:
            assert (store.count(), store.max_distance, store.id_type, store.codec) == (0, 2, None, "raw")
            assert (store.recipe, store.max_id(), store.identity != before) == (recipes()["words-4"], None, True)
            (picked,) = (each for each in fpstore.predict(n=10**7, max_distance=2) if each.plan == store.plan)
            assert "balanced" in picked.picked_by
            store.add([7])
    with fpstore.create(folder.with_name("new"), force=True) as store:
        assert (store.count(), store.kind) == (0, "hamming")
    (folder.with_name("file")).write_text("no store")
    with pytest.raises(fpstore.Error):
        fpstore.create(folder.with_name("file"), force=True)
    assert folder.with_name("file").read_text() == "no store"
    with pytest.raises(ValueError, match="exist_ok and force: found both"):
        fpstore.create(folder, force=True, exist_ok=True)


def test_an_empty_store_may_be_open_for_batches(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", durability="batch") as store:
        store.add([1], ids=[1])
        with fpstore.open(tmp_path / "s") as reader:
            assert reader.count() == 0
            store.sync()
            assert reader.count() == 1
    with pytest.raises(ValueError, match="durability: found 'never'"):
        fpstore.create(tmp_path / "t", durability="never")  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


# --- tests/surface.py, which mypy compares with the package ---


def parameters(of: Any) -> list[tuple[str, Any, Any]]:
    return [
        (name, each.kind, each.default)
        for name, each in inspect.signature(of).parameters.items()
        if name != "self" and each.kind is not each.VAR_KEYWORD
    ]


@pytest.mark.parametrize("name", surface.FUNCTIONS)
def test_a_function_takes_what_the_surface_says(name: str) -> None:
    assert parameters(getattr(fpstore, name)) == parameters(surface.FUNCTIONS[name].__call__)
    assert name in fpstore.__all__


@pytest.mark.parametrize("name", surface.JOBS)
def test_a_job_takes_what_the_surface_says(name: str) -> None:
    assert parameters(getattr(jobs, name)) == parameters(surface.JOBS[name].__call__)
    assert name in jobs.__all__


@pytest.mark.parametrize("name", surface.CLUSTER)
def test_a_function_of_cluster_takes_what_the_surface_says(name: str) -> None:
    assert parameters(getattr(fpstore.cluster, name)) == parameters(surface.CLUSTER[name].__call__)
    assert name in fpstore.cluster.__all__


@pytest.mark.parametrize("name", surface.TEXT_FUNCTIONS)
def test_a_function_of_texts_takes_what_the_surface_says(name: str) -> None:
    assert parameters(getattr(fpstore.text, name)) == parameters(surface.TEXT_FUNCTIONS[name].__call__)
    assert name in fpstore.text.__all__


@pytest.mark.parametrize("name", surface.MINHASH_FUNCTIONS)
def test_a_function_of_signatures_takes_what_the_surface_says(name: str) -> None:
    assert parameters(getattr(fpstore.minhash, name)) == parameters(surface.MINHASH_FUNCTIONS[name].__call__)
    assert name in fpstore.minhash.__all__


@pytest.mark.parametrize(
    ("record", "asked"),
    [(fpstore.Stats, surface.SomeStats), (Spikes, surface.SomeSpikes), (Comparison, surface.AComparison)],
)
def test_a_record_has_the_fields_that_the_surface_says(record: Any, asked: Any) -> None:
    named = {name for name, each in vars(asked).items() if isinstance(each, property)}
    found = {each.name for each in dataclasses.fields(record)} | {
        name for name, each in vars(record).items() if isinstance(each, property)
    }
    assert found - {"segments"} == named


@pytest.mark.parametrize("name", surface.CLASSES)
def test_a_class_has_the_methods_and_columns_that_the_surface_says(name: str) -> None:
    asked, found = surface.CLASSES[name], getattr(fpstore, name)
    kinds = [kind for kind in asked.__mro__ if kind.__module__ == "surface"]
    members = {member: each for kind in kinds for member, each in vars(kind).items()}
    methods = {member: each for member, each in members.items() if inspect.isfunction(each)}
    for member, method in methods.items():
        if member not in ("__init__", "__subclasshook__", "_no_init_or_replace_init"):
            assert parameters(getattr(found, member)) == parameters(method), member
    for member in (member for member, each in members.items() if isinstance(each, property)):
        assert isinstance(getattr(found, member), property), member
    assert name in fpstore.__all__
    known = {
        *members,
        *asked.__annotations__,
        "signed",
        "NAMES",
        "FINGERPRINTS",
        "identity",
        "max_matches",
        "max_name_bytes",
    }
    assert {member for member in dir(found) if not member.startswith("_")} - known == set()


def test_records_and_errors_are_those_of_the_surface() -> None:
    for name, fields in surface.RECORDS.items():
        assert getattr(fpstore, name)._fields == fields
        assert name in fpstore.__all__
    for name, base in surface.ERRORS.items():
        assert issubclass(getattr(fpstore, name), base)
        assert name in fpstore.__all__
    assert [name for name in fpstore.__all__ if not hasattr(fpstore, name)] == []


def test_the_names_of_settings_are_those_of_their_types() -> None:
    assert get_args(types.Codec) == layout.CODECS
    assert get_args(types.Mode) == making.MODES
    assert get_args(types.Durability) == making.DURABILITIES
    assert get_args(types.IdType) == ID_TYPES


def test_every_record_is_typed_and_has_plain_values_by_its_names(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2, 2], ids=[1, 2, 3]).close()
    with fpstore.open(tmp_path / "s") as store:
        records: list[Any] = [store.stats(), store.report(), store.verify(), fpstore.predict(n=1000)[0]]
    records.append(fpstore.recover(tmp_path / "s", tmp_path / "t"))
    assert [type(each).__name__ for each in records] == ["Stats", "Report", "Verified", "Prediction", "Recovered"]
    for record in records:
        types = get_type_hints(type(record))
        assert types
        assert Any not in types.values()
        told = json.dumps(record.to_json())  # TypeError for what is no plain value
        assert json.dumps(json.loads(told)) == told
    assert (records[2].fingerprint_count, records[2].to_json()["fingerprint_count"]) == (2, 2)
    assert records[4].to_json()["complete"] is True
