"""`fpstore compare`: two texts, of files or typed, as lines and as JSON."""

import io
import json
import sys
from pathlib import Path

import pytest
from outcome import Command

from fpstore.text import Recipe, compare, recipes
from fpstore.text.idf import Learner

ONE = "one two three four five six seven eight nine ten"
OTHER = "one two three four five six seven eight nine eleven"

BY_DEFAULT = "(by default: at most 6, and jaccard>=0.82)"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "a.txt").write_text(ONE)
    (tmp_path / "b.md").write_text(OTHER)
    return tmp_path / "a.txt", tmp_path / "b.md"


def test_two_files_are_compared_and_what_only_one_has_is_named(command: Command, files: tuple[Path, Path]) -> None:
    outcome = command("compare", *files)
    found = compare(ONE, OTHER)
    assert outcome.status == 0
    assert outcome.lines == [
        f"{found.first:016x}  {files[0]}: 9 distinct shingles of 10 tokens",
        f"{found.second:016x}  {files[1]}: 9 distinct shingles of 10 tokens",
        f"distance  {found.distance}  (not near: more than 3)",
        "jaccard   0.8000  (8 shingles in both)",
        "cosine    0.8889",
        f"dedup     keeps both  {BY_DEFAULT}",
        f"only in {files[0]}: 1 shingle",
        "  1.00  nine ten",
        f"only in {files[1]}: 1 shingle",
        "  1.00  nine eleven",
    ]
    assert outcome.err.startswith("fpstore: warning: 2 of 2 texts have fewer than 35 tokens")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (" ".join(f"word{number}" for number in range(60)), " ".join(f"word{number}" for number in range(2, 60))),
        (" ".join(f"word{number}" for number in range(60)), " ".join(f"word{number}" for number in range(14, 60))),
        ("one two", "one, two"),
        ("... !", "... !"),
        ("... !", "... ?"),
    ],
)
@pytest.mark.parametrize("recipe", ["text-1", "pypi-simhash"])
def test_what_dedup_makes_of_two_texts_is_said(
    command: Command, tmp_path: Path, one: str, other: str, recipe: str
) -> None:
    corpus, kept = tmp_path / "a.jsonl", tmp_path / "kept.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in (one, other)))
    drops = "dropped 1" in command("dedup", corpus, "-o", kept, "--recipe", recipe).err
    told = "drops the second" if drops else "keeps both"
    said = command("compare", "--text", one, "--text", other, "--recipe", recipe).out
    assert f"dedup     {told}  {BY_DEFAULT}" in said


def test_as_json_it_is_what_the_library_says_with_the_names(command: Command, files: tuple[Path, Path]) -> None:
    outcome = command("compare", *files, "--json", "--recipe", "words-4", "-k", "40", "--count", "2")
    record = json.loads(outcome.out)
    assert record.pop("format") == "fpstore.compare/1"
    assert [record.pop(f"{which}_name") for which in ("first", "second")] == list(map(str, files))
    assert record == compare(ONE, OTHER, recipes()["words-4"], max_distance=40, shown=2).to_json()
    assert record["near"]


def test_texts_are_typed_or_come_after_a_file(command: Command, files: tuple[Path, Path]) -> None:
    typed = command("compare", "--text", ONE, "--text", OTHER)
    assert [line.replace("--text", "x") for line in typed.lines[:2]] == [
        line.replace(str(file), "x") for line, file in zip(command("compare", *files).lines[:2], files, strict=True)
    ]
    assert [line for line in typed.lines if line.startswith("only")] == [
        "only in the first: 1 shingle",
        "only in the second: 1 shingle",
    ]
    mixed = command("compare", files[1], "--text", ONE, "--json")
    assert [json.loads(mixed.out)[f"{which}_name"] for which in ("first", "second")] == [str(files[1]), "--text"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ((), "0 FILEs and 0 of --text"),
        (("a.txt",), "1 FILE and 0 of --text"),
        (("a.txt", "--text", "b", "--text", "c"), "1 FILE and 2 of --text"),
        (("a.txt", "a.txt", "a.txt"), "3 FILEs and 0 of --text"),
    ],
)
def test_another_number_of_texts_than_two_is_refused(command: Command, typed: tuple[str, ...], found: str) -> None:
    outcome = command("compare", *typed)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"fpstore: found {found}, expected two texts in all")


def test_equal_texts_and_texts_without_features_are_said(command: Command, files: tuple[Path, Path]) -> None:
    lines = command("compare", files[0], files[0]).lines
    assert lines[2:] == [
        "distance  0  (near: at most 3)",
        "jaccard   1.0000  (9 shingles in both)",
        "cosine    1.0000",
        f"dedup     drops the second  {BY_DEFAULT}",
        "the texts are equal",
    ]
    assert command("compare", "--text", "One, two", "--text", "one two").lines[-1] == (
        "the texts differ, but not in their shingles"
    )
    none = command("compare", "--text", "", "--text", "!")
    assert none.lines[-3:-1] == ["jaccard   0.0000  (0 shingles in both)", "cosine    0.0000"]
    assert none.err.startswith("fpstore: warning: neither text has a single token by recipe text-1")
    one = command("compare", "--text", "", "--text", ONE)
    assert one.lines[3:5] == ["jaccard   0.0000  (0 shingles in both)", "cosine    0.0000"]
    assert one.err.startswith("fpstore: warning: one of the texts has not a single token")


def test_long_lists_say_how_many_more_there_are(command: Command) -> None:
    lines = command("compare", "--text", ONE, "--text", "none of it", "--count", "2").lines
    assert lines[6:9] == [
        "only in the first: 9 shingles; 2 of them, by weight (--count)",
        "  1.00  one two",
        "  1.00  two three",
    ]
    assert [
        line for line in command("compare", "--text", ONE, "--text", "", "--count", "0").lines if "  1." in line
    ] == []


def test_files_come_in_by_the_doors_of_fingerprint(
    command: Command, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.html").write_text(f"<html><body><p>{ONE}</p></body></html>")
    (tmp_path / "utf16.txt").write_bytes(ONE.encode("utf-16"))
    (tmp_path / "one.jsonl").write_text(json.dumps({"body": {"is": ONE}}) + "\n")
    for name, options in (("page.html", ()), ("utf16.txt", ()), ("one.jsonl", ("--text-column", "body.is"))):
        assert command("compare", files[0], tmp_path / name, *options).lines[-1:] == ["the texts are equal"], name
    assert "expected" in command("compare", *files, "--text-column", "body").err
    assert command("compare", "--html", "--text", f"<p>{ONE}", "--text", f"<b>{ONE}").lines[2].startswith("distance  0")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ONE.encode())))
    assert command("compare", files[0], "-").lines[-1] == "the texts are equal"


def test_what_is_no_text_or_not_one_document_is_named(
    command: Command, files: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "two.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n')
    (tmp_path / "none.jsonl").write_text("")
    (tmp_path / "data.txt").write_bytes(b"\0\1\2")
    for name, status, told in (
        ("two.jsonl", 2, "found more than one document, expected one"),
        ("none.jsonl", 2, "found no document, expected one"),
        ("data.txt", 1, ""),
        ("missing.txt", 1, "No such file"),
        ("x.npy", 1, "No such file"),
    ):
        outcome = command("compare", files[0], tmp_path / name)
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (status, "", 1), name
        assert str(tmp_path / name) in outcome.err
        assert told in outcome.err
    assert "found it more than once" in command("compare", "-", "/dev/stdin").err


def test_shingles_are_weighed_by_a_model(command: Command, files: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = Recipe("words", shingle=1)
    learner = Learner(recipe)
    for text in (ONE, OTHER, ONE):
        learner.see(text)
    (tmp_path / "m.idf").write_bytes(learner.model().to_bytes())
    (tmp_path / "r.json").write_text(json.dumps(recipe.to_json()))
    outcome = command("compare", *files, "--recipe", tmp_path / "r.json", "--idf", tmp_path / "m.idf", "--json")
    assert json.loads(outcome.out)["cosine"] == compare(ONE, OTHER, recipe.with_model(learner.model())).cosine


def test_a_name_or_a_shingle_cannot_start_a_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a\nb.txt").write_text("\x1b[31mred \u2028 x")
    outcome = command("compare", tmp_path / "a\nb.txt", "--text", "y", "--recipe", "multilingual")
    assert outcome.status == 0
    assert "\x1b" not in outcome.out
    assert f"{tmp_path}/a\\nb.txt" in outcome.lines[0]


def test_by_signatures_there_is_an_estimate_and_what_bands_are_shared(
    command: Command, files: tuple[Path, Path]
) -> None:
    recipe = ["--recipe", "minhash-128"]
    found = compare(ONE, OTHER, recipes()["minhash-128"], bands=64, rows_per_band=2)
    assert found.shared_bands
    outcome = command("compare", *files, *recipe, "--bands", "64", "--rows-per-band", "2")
    near = f"near: {found.shared_bands} of 64 bands of 2 values shared"
    assert outcome.lines[:5] == [
        f"{files[0]}: {found.first_count} distinct shingles of 10 tokens",
        f"{files[1]}: {found.second_count} distinct shingles of 10 tokens",
        f"estimate  {found.similarity:.4f}  ({near})",
        f"jaccard   {found.jaccard:.4f}  ({found.common_count} shingles in both)",
        f"cosine    {found.cosine:.4f}",
    ]
    assert outcome.lines[5].endswith("(by default: one of 16 bands of 8, and jaccard>=0.82)")
    assert "fingerprint" not in outcome.out + outcome.err
    less = command("compare", *files, *recipe, "--bands", "64", "--rows-per-band", "2", "--min-similarity", "0.99")
    assert less.lines[2].endswith(f"(not {near}, less than 0.99)")
    assert (
        "(not near: 0 of 16 bands of 8 values shared)" in command("compare", "--text", "a", "--text", "b", *recipe).out
    )
    short = command("compare", *files, *recipe)
    assert "2 of 2 texts have fewer than 16 tokens, too few for recipe minhash-128 and 16 bands of 8" in short.err
    told = json.loads(command("compare", *files, *recipe, "--json").out)
    assert (told["format"], told["bands"], told["min_similarity"]) == ("fpstore.compare/1", 16, None)
