"""A recipe of signatures makes no fingerprints: whoever is given one for these says so, before anything is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from outcome import Command

import fpstore
from fpstore import minhash, text
from fpstore.errors import RecipeError
from fpstore.living.catalog import create_catalog
from fpstore.living.state import Settings
from fpstore.origin import metadata_of
from fpstore.plans import families as plans
from fpstore.text import Recipe, recipes

PRESET = recipes()["minhash-128"]
TOLD = (
    "recipe minhash-128: found sketch minhash, which makes signatures and no fingerprints, expected simhash or"
    " minhash-1bit"
)
ROWS: list[dict[str, Any]] = [{"text": "one two three four"}]


def arrow_column() -> Any:
    field = pa.field("fingerprint", pa.uint64(), metadata=metadata_of(PRESET.to_json()))
    return pa.table([pa.array([1], pa.uint64())], pa.schema([field]))


def wanted_path(folder: Path) -> Path:
    (folder / "in.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    return folder / "in.jsonl"


CALLS: dict[str, Callable[[Path], Any]] = {
    "fingerprint": lambda folder: PRESET.fingerprint("one"),
    "fingerprint_many": lambda folder: PRESET.fingerprint_many(["one"]),
    "fingerprint_many of none": lambda folder: PRESET.fingerprint_many([]),
    "text.fingerprint": lambda folder: text.fingerprint("one", PRESET),
    "text.fingerprint_many": lambda folder: text.fingerprint_many(["one"], PRESET),
    "text.compare": lambda folder: text.compare("one", "two", PRESET),
    "create": lambda folder: fpstore.create(folder / "s", recipe=PRESET),
    "create by name": lambda folder: fpstore.create(folder / "s", recipe="minhash-128"),
    "build": lambda folder: fpstore.build(folder / "s", [1], recipe=PRESET),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_recipe_of_signatures_is_taken_for_no_fingerprints(name: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=TOLD):
        CALLS[name](tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"in.jsonl"}


def test_fingerprints_that_are_said_to_be_by_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=TOLD):
        fpstore.build(tmp_path / "s", arrow_column(), ids=None)


def test_a_store_whose_record_is_of_one_takes_no_texts(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    plan = plans.paper("paper-4").to_json()
    create_catalog(tmp_path, Settings(3, plan, "gap", None, recipe=PRESET.to_json()), ())
    with fpstore.open(tmp_path) as store:
        calls: list[Callable[[], Any]] = [
            lambda: store.recipe,
            lambda: store.fingerprint("one"),
            lambda: store.probe_text("one"),
        ]
        for call in calls:
            with pytest.raises(RecipeError, match=f"^{tmp_path}: {TOLD}"):
                call()


@pytest.mark.parametrize(
    "arguments",
    [
        ("fingerprint", "in.jsonl"),
        ("compare", "--text", "one", "--text", "two"),
        ("learn-idf", "in.jsonl", "-o", "model.idf"),
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("by", ["name", "file"])
def test_what_makes_fingerprints_takes_none(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], by: str
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted_path(tmp_path)
    Path("r.json").write_text(json.dumps(PRESET.to_json()))
    outcome = command(*arguments, "--recipe", "minhash-128" if by == "name" else "r.json")
    assert outcome.status == 2
    assert TOLD in outcome.err
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "r.json"}


def test_its_record_is_read_and_printed_as_that_of_any_other(command: Command) -> None:
    record = json.loads(command("recipe", "minhash-128").out)
    assert record.pop("format") == "fpstore.recipe/1"
    assert Recipe.from_json(record) == PRESET
    # What a record does not say is what all others mean, too.
    assert not {"values", "permutations"} & {*record}
    other = Recipe.from_json(record | {"values": 256, "permutations": "datasketch-legacy"})
    assert (other.values, other.permutations) == (256, "datasketch-legacy")
    assert Recipe.from_json(other.to_json()) == other
    # Which shingles a text has is decided neither by how many values there are nor by their permutations.
    assert other.steps() == PRESET.steps()


def test_what_is_no_signature_is_refused_with_what_is_wanted(tmp_path: Path) -> None:
    with minhash.create(tmp_path / "s", recipe=PRESET) as store:
        for ask in (store.probe, store.contains_near):
            with pytest.raises(TypeError, match=r"found a str, expected .* signature\(text\) .* probe_text\(text\)$"):
                ask("one two three")
            with pytest.raises(ValueError, match="signature: found 2 dimensions, expected 1"):
                ask(store.signature_many(["one two three"]))
        assert not store.contains_near(store.signature("one two three"))
        assert not len(store.probe_text("one two three"))
