"""Fingerprints that say by which recipe they were made are refused where others are, at each door alike."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from outcome import Command

import fpstore
from fpstore import RecipeError, jobs
from fpstore.errors import UnsupportedVersion
from fpstore.inputs import read
from fpstore.origin import KEY, metadata_of
from fpstore.text import Recipe, recipes

OWN, OTHER = recipes()["text-1"], recipes()["web-en"]
SAME_NAME = Recipe(**{**OWN.to_json(), "shingle": 3})  # type: ignore[arg-type]
KEYS = [3, 5, 1 << 63]


def table_of(recipe: Recipe | None, keys: list[int] = KEYS) -> pa.Table:
    """A table of one column, whose field says the recipe."""
    metadata = metadata_of(None if recipe is None else recipe.to_json())
    field = pa.field("fingerprint", pa.uint64(), metadata=metadata)
    return pa.table([pa.array(keys, pa.uint64())], schema=pa.schema([field]))


def parquet_of(path: Path, recipe: Recipe | None, keys: list[int] = KEYS) -> Path:
    ids = pa.array(range(len(keys)), pa.uint64())
    pyarrow.parquet.write_table(table_of(recipe, keys).append_column("id", ids), path)
    return path


class OnlyAStream:
    """What speaks Arrow by the one method that all have."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fpstore.create(tmp_path / "s", recipe=OWN).close()
    return tmp_path / "s"


# --- From Python ---

IDS = [7, 8, 9]
DOORS: dict[str, Callable[[fpstore.Store, Any], Any]] = {
    "add": lambda store, table: store.add(table, ids=IDS),
    "add_if_new": lambda store, table: store.add_if_new(table, ids=IDS),
    "upsert": lambda store, table: store.upsert(table, ids=IDS),
    "remove": lambda store, table: store.remove(fingerprints=table),
    "remove pairs": lambda store, table: store.remove(fingerprints=table, ids=IDS),
    "probe_many": lambda store, table: store.probe_many(table),
    "nearest_many": lambda store, table: store.nearest_many(table),
}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.to_batches()[0],
    "reader": lambda table: table.to_reader(),
    "stream": OnlyAStream,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_call_refuses_what_says_another_recipe(store: Path, door: str) -> None:
    told = ((OTHER, "web-en", "text-1"), (SAME_NAME, "with shingle 3", "with shingle 2"))
    with fpstore.open(store, "w") as opened:
        for made in FORMS.values():
            for recipe, found, expected in told:
                expected = f"^fingerprints: found .*{found}, expected .*{expected}, as {store}"
                with pytest.raises(RecipeError, match=expected):
                    DOORS[door](opened, made(table_of(recipe)))
        assert opened.count() == 0
        for made in FORMS.values():
            for known in (OWN, None):
                DOORS[door](opened, made(table_of(known)))


@pytest.mark.parametrize("id_type", ["string", "bytes"])
def test_a_store_of_names_refuses_it_too(tmp_path: Path, id_type: Any) -> None:
    names = [b"a", b"b", b"c"] if id_type == "bytes" else ["a", "b", "c"]
    with fpstore.create(tmp_path / "s", recipe=OWN, id_type=id_type) as store:
        for call in (store.add, store.add_if_new, store.upsert, store.remove):
            with pytest.raises(RecipeError, match="found fingerprints by recipe web-en"):
                call(fingerprints=table_of(OTHER), ids=names)
        store.add(table_of(OWN), ids=names)


def test_a_store_without_a_recipe_takes_any(tmp_path: Path) -> None:
    """Nothing that is known contradicts it."""
    with fpstore.create(tmp_path / "s") as store:
        store.add(table_of(OWN), ids=IDS)
        store.add(table_of(OTHER), ids=IDS)
        assert store.recipe is None


@pytest.mark.parametrize("id_type", ["uint64", "string"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_build_takes_the_recipe_that_its_columns_say(tmp_path: Path, is_stream: bool, id_type: Any) -> None:
    ids = IDS if id_type == "uint64" else ["a", "b", "c"]

    def made(name: str, *said: Recipe | None, **options: Any) -> Recipe | None:
        given = {"id_type": id_type, **options}
        if is_stream:
            pairs = iter([(table_of(each), ids) for each in said])
            with fpstore.build(tmp_path / name, pairs, **given) as store:
                return store.recipe
        with fpstore.build(tmp_path / name, table_of(said[-1]), ids=ids, **given) as store:
            return store.recipe

    assert made("a", None) is None
    assert made("b", None, OTHER) == OTHER
    assert made("c", OTHER, recipe=OTHER) == OTHER
    assert made("c", OWN, force=True) == OWN
    assert made("c", None, recipe="zh", force=True) == recipes()["zh"]
    with pytest.raises(RecipeError, match=r"found .* web-en, expected those by text-1, as recipe says"):
        made("d", OTHER, recipe="text-1")
    if is_stream:
        with pytest.raises(RecipeError, match=r"found .* text-1, expected those by web-en, as fingerprints says"):
            made("d", OTHER, None, OWN)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        (b"{", RecipeError, "fingerprints: found b'{' as its fpstore.recipe, expected a recipe as a JSON object"),
        (b"[1]", RecipeError, "expected a recipe as a JSON object"),
        (b"\xff" * 1000, RecipeError, "expected a recipe as a JSON object"),
        (b"[" * 100_000, RecipeError, "expected a recipe as a JSON object"),
        (b'{"a": 1}', RecipeError, "fingerprints: recipe"),
        (json.dumps({**OWN.to_json(), "version": 99}).encode(), UnsupportedVersion, "99"),
    ],
)
def test_what_is_no_recipe_is_taken_by_no_build(tmp_path: Path, said: bytes, error: type[Exception], told: str) -> None:
    field = pa.field("fingerprint", pa.uint64(), metadata={KEY: said})
    table = pa.table([pa.array(KEYS, pa.uint64())], schema=pa.schema([field]))
    with pytest.raises(error) as caught:
        fpstore.build(tmp_path / "s", table)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 500
    assert not (tmp_path / "s").exists()


# --- What goes out ---


def test_every_column_of_fingerprints_that_goes_out_says_the_recipe(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", recipe=OWN) as store, fpstore.create(tmp_path / "t") as bare:
        for opened in (store, bare):
            opened.add([1, 2, 3], ids=[1, 2, 3])
        for opened, recipe in ((store, OWN), (bare, None)):
            tables: dict[str, list[Any]] = {
                "fingerprint": [opened.probe(1), opened.nearest(1), opened.lookup([1]), next(opened.rows())],
                "first": [next(opened.pairs())],
                "second": [next(opened.pairs())],
                "match_fingerprint": [opened.add_if_new([1], ids=[1])],
            }
            for name, given in tables.items():
                for table in given:
                    for each in (table, table[:1], table[1:][:0], table.signed(), pickle.loads(pickle.dumps(table))):
                        for schema in (each.schema, each.to_arrow().schema, pa.schema(each)):
                            metadata = schema.field(name).metadata
                            assert metadata == metadata_of(None if recipe is None else recipe.to_json())
            assert pickle.loads(pickle.dumps(opened.probe(1))) == opened.probe(1)
        with pytest.raises(RecipeError, match="found fingerprints by recipe text-1"):
            fpstore.build(tmp_path / "u", next(store.rows()).to_arrow().select(["fingerprint"]), recipe=OTHER)


@pytest.mark.parametrize("bits", [16, 32, 64, 128])
def test_every_column_of_fingerprints_that_goes_out_says_its_bits(tmp_path: Path, bits: int) -> None:
    """As a file does that export writes; and each door refuses a column that says others."""
    one = np.array([[1, 2]], dtype=np.uint64) if bits == 128 else [1]
    expected = None if bits == 64 else {b"fpstore.bits": str(bits).encode()}
    with fpstore.create(tmp_path / "s", bits=bits, max_distance=2) as store:
        store.add(one, ids=[1])
        rows = next(store.rows())
        for table in (rows, store.probe_many(one), store.lookup([1]), store.add_if_new(one, ids=[2])):
            for each in (table, table[:0], table.signed(), pickle.loads(pickle.dumps(table))):
                names = [name for name in each.schema.names if name.endswith("fingerprint")]
                assert [each.to_arrow().schema.field(name).metadata for name in names] == [expected] * len(names)
                assert names
        out = rows.to_arrow().select(["fingerprint"])
    for other in (16, 32, 64, 128):
        with fpstore.create(tmp_path / f"of {other}", bits=other, max_distance=2) as others:
            for form in FORMS.values():
                for door in DOORS.values() if bits not in (64, other) else ():
                    with pytest.raises(ValueError, match=rf"found fingerprints of {bits} .* expected {other}$"):
                        door(others, form(out))
                if bits == other:
                    others.add(form(out), ids=[1])
            assert others.count() == (bits == other)


def test_wide_fingerprints_that_say_another_recipe_are_refused(tmp_path: Path) -> None:
    one, other = (replace(recipe, name=f"wide {recipe.name}", bits=128) for recipe in (OWN, OTHER))
    with fpstore.create(tmp_path / "s", recipe=one) as store, fpstore.create(tmp_path / "t", recipe=other) as others:
        store.add(np.array([[1, 2]], dtype=np.uint64), ids=[1])
        for form in FORMS.values():
            with pytest.raises(RecipeError, match="found fingerprints by recipe"):
                others.add(form(next(store.rows()).to_arrow().select(["fingerprint"])), ids=[1])


# --- On the command line ---

COMMANDS: dict[str, tuple[str, ...]] = {
    "add": ("add", "STORE", "FILE"),
    "add --if-new": ("add", "STORE", "FILE", "--if-new"),
    "add --upsert": ("add", "STORE", "FILE", "--upsert"),
    "probe": ("probe", "STORE", "--input", "FILE"),
    "nearest": ("nearest", "STORE", "--input", "FILE"),
    "remove": ("remove", "STORE", "--input", "FILE"),
    "remove --pairs": ("remove", "STORE", "--input", "FILE", "--pairs"),
    "build --recipe": ("build", "NEW", "FILE", "--recipe", "text-1"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_file_that_says_another_recipe(
    command: Command, store: Path, tmp_path: Path, name: str
) -> None:
    def run(file: Path) -> Any:
        places = {"STORE": store, "NEW": tmp_path / "new", "FILE": file}
        return command(*(places.get(word, word) for word in COMMANDS[name]))

    outcome = run(parquet_of(tmp_path / "other.parquet", OTHER))
    assert outcome.status == 2
    said_by = "recipe (--recipe)" if "--recipe" in COMMANDS[name] else store
    assert outcome.err.startswith(
        f"fpstore: {tmp_path / 'other.parquet'}, column fingerprint: found fingerprints by recipe web-en, expected"
        f" those by text-1, as {said_by} says; fingerprints of two recipes tell nothing of each other"
    )
    assert not (tmp_path / "new").exists()
    assert run(parquet_of(tmp_path / "own.parquet", OWN)).status == 0
    if "NEW" not in COMMANDS[name]:
        assert run(parquet_of(tmp_path / "silent.parquet", None)).status == 0


def test_an_exported_file_says_its_recipe_and_a_build_takes_it(command: Command, store: Path, tmp_path: Path) -> None:
    """With ids and without; what says nothing is taken as it was."""
    with fpstore.open(store, "w") as opened:
        opened.add(KEYS, ids=IDS)
    for number, options in enumerate([[], ["--no-ids"], ["--signed"]]):
        file, new = tmp_path / f"{number}.parquet", tmp_path / f"n{number}"
        assert command("export", store, file, *options).status == 0
        outcome = command("build", new, file)
        assert outcome.err.endswith(f", by recipe text-1, as {file}, column fingerprint says\n")
        with fpstore.open(new) as built:
            assert (built.recipe, built.count()) == (OWN, 3)
    assert command("export", store, tmp_path / "a.csv").status == 0
    outcome = command("build", tmp_path / "csv", tmp_path / "a.csv")
    assert "recipe" not in outcome.err
    with fpstore.open(tmp_path / "csv") as built:
        assert built.recipe is None


def test_a_build_says_of_which_files_nobody_knows_the_recipe(command: Command, tmp_path: Path) -> None:
    known, bare = parquet_of(tmp_path / "known.parquet", OWN), parquet_of(tmp_path / "bare.parquet", None)
    (tmp_path / "b.hex").write_text("00000000000000ff\n")
    told = f"the fingerprints of 2 files that say no recipe, such as {bare}, are taken for those by text-1; --recipe"
    outcome = command("build", tmp_path / "a", bare, known, tmp_path / "b.hex", "--ids", "row")
    assert (outcome.status, outcome.err.count(told)) == (0, 1)
    whole: list[list[str | Path]] = [[known], [bare], [known, bare, "--recipe", "text-1"]]
    for number, arguments in enumerate(whole):
        outcome = command("build", tmp_path / f"s{number}", *arguments)
        assert (outcome.status, "say no recipe" in outcome.err) == (0, False)


def test_the_rows_of_clusters_say_the_recipe_of_their_store(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", KEYS, recipe=OWN):
        pass
    jobs.cluster_store(tmp_path / "s", tmp_path / "c.parquet")
    field = pyarrow.parquet.read_schema(tmp_path / "c.parquet").field("fingerprint")
    assert field.metadata == metadata_of(OWN.to_json())


def test_files_of_two_recipes_make_no_store_and_are_added_to_none(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a row is stored, also where only the last of a folder says another; and in a store that says nothing."""
    folder = tmp_path / "parts"
    folder.mkdir()
    parquet_of(folder / "a.parquet", None)
    parquet_of(folder / "b.parquet", OWN)
    parquet_of(folder / "c.parquet", OTHER)
    told = f"{folder}/c.parquet, column fingerprint: found fingerprints by recipe web-en, expected those by text-1, as"
    outcome = command("build", tmp_path / "s", folder)
    assert (outcome.status, told in outcome.err) == (2, True)
    assert not (tmp_path / "s").exists()
    fpstore.create(tmp_path / "s").close()
    monkeypatch.setattr("fpstore.cli.add.BATCH_ROWS", 2)
    outcome = command("add", tmp_path / "s", folder)
    assert (outcome.status, f"{told} {folder}/b.parquet" in outcome.err) == (2, True)
    with fpstore.open(tmp_path / "s") as store:
        assert store.count() == 0
    (folder / "c.parquet").unlink()
    assert command("add", tmp_path / "s", folder).status == 0


def test_reading_compares_as_it_goes_too(tmp_path: Path) -> None:
    """A file may have changed since it was looked at; who reads without looking is told."""
    first, second = parquet_of(tmp_path / "a.parquet", OWN), parquet_of(tmp_path / "b.parquet", OTHER)
    with pytest.raises(RecipeError, match=r"b.parquet, column fingerprint: found fingerprints by recipe web-en"):
        list(read([first, second], batch=1))
    with pytest.raises(RecipeError, match=r"expected those by web-en, as recipe \(--recipe\) says"):
        list(read([first], recipe=OTHER))
    reader = read([first])
    assert np.concatenate([batch.fingerprints for batch in reader]).tolist() == KEYS
    assert reader.origin.record == OWN.to_json()


def test_a_table_of_texts_is_read_whatever_its_fingerprints_say(command: Command, store: Path, tmp_path: Path) -> None:
    texts = table_of(OTHER).append_column("text", pa.array(["one text", "another", "a third"]))
    pyarrow.parquet.write_table(texts, tmp_path / "t.parquet")
    arguments = ("--text-column", "text", "--ids", "row")
    assert command("add", store, tmp_path / "t.parquet", *arguments).status == 0
    with fpstore.open(store) as opened:
        assert opened.contains_near(OWN.fingerprint("one text"))
