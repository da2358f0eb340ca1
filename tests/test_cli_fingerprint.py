"""`fpstore fingerprint --features`: lists of tokens, pairs and objects of JSON lines, and what is refused."""

import io
import json
from pathlib import Path

import pytest
from outcome import Command

from fpstore.inputs import features as module
from fpstore.text import simhash_of_features


def written(path: Path, *values: object) -> Path:
    path.write_text("".join(json.dumps({"id": row, "page": {"f": value}}) + "\n" for row, value in enumerate(values)))
    return path


def test_tokens_pairs_and_objects_have_the_simhash_of_these_features(command: Command, tmp_path: Path) -> None:
    values: list[object] = [["a", "b", "a"], {"a": 2, "b": 1.5}, [["a", 2], "größe", ["b", -1.5]], [], {}]
    path = written(tmp_path / "a.jsonl", *values)
    features = [["a", "b", "a"], {"a": 2, "b": 1.5}, [("a", 2), ("größe", 1), ("b", -1.5)], [], {}]
    for options, steps in (
        ((), {}),
        (("--hash", "murmur3", "--seed", "42", "--tie", "set"), {"hash": "murmur3", "seed": 42, "tie": "set"}),
        (("--hash", "fnv1"), {"hash": "fnv1"}),
    ):
        outcome = command("fingerprint", path, "--features", "page.f", *options)
        expected = [simhash_of_features(each, **steps) for each in features]  # type: ignore[arg-type]
        assert outcome.lines == [f"{value:016x}\t{path}:{line}" for line, value in enumerate(expected, start=1)]
        assert outcome.err == ""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("word", f"found 'word', expected {module.EXPECTED}"),
        (None, f"found None, expected {module.EXPECTED}"),
        (7, f"found 7, expected {module.EXPECTED}"),
        ([["a", "1"]], "features: found ['a', '1'], expected str, bytes, or a pair of one and its weight"),
        (["a", 1], "features: found 1, expected str, bytes, or a pair of one and its weight"),
        ({"a": True}, "features: found ('a', True), expected str, bytes, or a pair of one and its weight"),
        ({"a": 1 << 1024}, "too large"),
        ({"a": 1 << 46}, "weights: found 70368744177664.0 in all, expected less than 2^46"),
    ],
)
def test_another_value_is_a_bad_line(command: Command, tmp_path: Path, value: object, message: str) -> None:
    path = written(tmp_path / "a.jsonl", ["fine"], value, ["fine too"])
    outcome = command("fingerprint", path, "--features", "page.f")
    assert outcome.status == 1
    assert f"{path}, line 2: " in outcome.err
    assert message in outcome.err
    outcome = command("fingerprint", path, "--features", "page.f", "--skip-bad")
    assert [line.split(":")[-1] for line in outcome.lines] == ["1", "3"]
    assert (outcome.status, outcome.err) == (0, "fpstore: passed over: 1 bad line\n")


def test_a_line_without_the_field_is_bad(command: Command, tmp_path: Path) -> None:
    outcome = command("fingerprint", written(tmp_path / "a.jsonl", ["a"]), "--features", "tokens")
    assert outcome.status == 1
    assert "line 1: found fields id, page, expected one named tokens" in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--features", "page.f", "--recipe", "zh"), "--recipe goes with texts: found --features too"),
        (("--features", "page.f", "--idf", "m.idf"), "--idf goes with texts: found --features too"),
        (("--features", "page.f", "--text-column", "t"), "--text-column goes with texts: found --features too"),
        (("--features", "page.f", "--html"), "--html goes with texts: found --features too"),
        (("--features", "page.f", "--format", "text"), "a.jsonl: found format text, expected jsonl for features"),
        (("--features", "page.f", "--hash", "md5", "--seed", "1"), "seed: found 1, expected 0 for hash md5"),
        (("--hash", "md5"), "--hash goes with --features: of texts, the recipe says it"),
        (("--seed", "1"), "--seed goes with --features: of texts, the recipe says it"),
        (("--tie", "set"), "--tie goes with --features: of texts, the recipe says it"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    command: Command, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = command("fingerprint", written(tmp_path / "a.jsonl", ["a"]), *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err


def test_features_are_of_json_lines_only(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    outcome = command("fingerprint", written(tmp_path / "a.jsonl", ["a"]), tmp_path / "a.txt", "--features", "page.f")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"{tmp_path}/a.txt: found format text, expected jsonl for features" in outcome.err
    path = written(tmp_path / "a.dat", ["a"])
    expected = f"{simhash_of_features(['a']):016x}\t{path}:1\n"
    assert command("fingerprint", path, "--features", "page.f", "--format", "jsonl").out == expected


def test_a_token_named_twice_in_an_object_is_a_bad_line(command: Command, tmp_path: Path) -> None:
    """Readers of JSON take the last weight, and say nothing."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": {"a": 1, "b": 2, "a": 3}}\n{"t": {"a": 1, "b": 2}, "x": {"c": 1, "c": 2}}\n')
    outcome = command("fingerprint", path, "--features", "t")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == f"fpstore: {path}, line 1: found token 'a' twice, expected it once\n"
    outcome = command("fingerprint", path, "--features", "t", "--skip-bad")
    assert outcome.status == 0
    assert [line.split("\t")[1] for line in outcome.lines] == [f"{path}:2"]


def test_files_of_features_are_named_as_those_of_texts_are(command: Command, tmp_path: Path) -> None:
    """Folders and patterns are looked through, and a file is read once."""
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.jsonl").write_text('{"t": ["x"]}\n')
    found = [str(tmp_path / "in" / f"{name}.jsonl:1") for name in ("a", "b")]
    for source in (tmp_path / "in", tmp_path / "in" / "*.jsonl"):
        outcome = command("fingerprint", source, "--features", "t")
        assert (outcome.status, [line.split("\t")[1] for line in outcome.lines]) == (0, found)
    one = tmp_path / "in" / "a.jsonl"
    for again in (one, tmp_path / "in"):
        outcome = command("fingerprint", one, again, "--features", "t")
        assert (outcome.status, outcome.out) == (2, "")
        assert "expected it once" in outcome.err


def test_features_of_standard_input_are_json_lines(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"t": ["x"]}\n')))
    outcome = command("fingerprint", "-", "--features", "t")
    assert (outcome.status, len(outcome.lines)) == (0, 1)
