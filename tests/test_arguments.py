"""What is passed in the place of something else is a TypeError or ValueError that names what was expected."""

import inspect
import os
from collections import UserDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from outcome import Command

import fpstore
from fpstore import cluster, inputs, jobs, minhash, text

WRONG: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "a name for a recipe": (
        lambda _: text.fingerprint("a", "zh"),  # type: ignore[arg-type]
        TypeError,
        r"recipe: found 'zh', a str, expected a Recipe: fpstore.text.recipes\(\)\['zh'\]",
    ),
    "no recipe": (
        lambda _: text.fingerprint_many(["a"], 5),  # type: ignore[arg-type]
        TypeError,
        "recipe: found 5, a int, expected a Recipe$",
    ),
    "one path for several": (lambda path: jobs.dedup(path, "k"), TypeError, "inputs: found one str, expected a list"),
    "one table for several": (
        lambda _: jobs.dedup(pyarrow.table({"a.jsonl": ["one"]}), "k"),
        TypeError,
        r"inputs: found one Table, expected a list of paths, or of rows: \[rows\]$",
    ),
    "one table of another package": (
        lambda path: jobs.dedup(type("DataFrame", (list,), {"columns": ["text"]})([path]), "k"),
        TypeError,
        "inputs: found one DataFrame, expected a list of paths",
    ),
    "one mapping for several": (
        lambda path: jobs.cluster(jobs.Inputs({path: "one"}), "k"),
        TypeError,
        "inputs: found one dict, expected a list of paths",
    ),
    "one table for several files of documents": (
        lambda _: inputs.documents(pyarrow.table({"a.jsonl": ["one"]})),
        TypeError,
        "sources: found one Table, expected a list of paths$",
    ),
    "one mapping for several files of fingerprints": (
        lambda path: cluster.build("s", {path: "one"}),  # type: ignore[arg-type]
        TypeError,
        "sources: found one dict, expected a list of paths$",
    ),
    "one mapping for several in shards": (
        lambda path: jobs.dedup(UserDict({path: "one"}), "k", shards=True),
        TypeError,
        "inputs: found one UserDict, expected a list of paths",
    ),
    "no result": (
        lambda path: jobs.dedup([path], None),  # type: ignore[arg-type]
        TypeError,
        "output: found None, a NoneType, expected the path",
    ),
    "no result of clusters": (
        lambda path: jobs.cluster([path], 3),  # type: ignore[arg-type]
        TypeError,
        "output: found 3, a int, expected the path",
    ),
    "a place of topics that is none": (
        lambda path: jobs.components([path], "k", topics=b"t"),  # type: ignore[arg-type]
        TypeError,
        "topics: found b't', a bytes, expected the path",
    ),
    "a store that is none": (
        lambda path: jobs.cluster_store(5, "k"),  # type: ignore[arg-type]
        TypeError,
        "store: found 5, a int, expected the path",
    ),
    "a distance that is a text": (
        lambda path: jobs.dedup([path], "k", max_distance="3"),  # type: ignore[arg-type]
        TypeError,
        "max_distance: found '3', a str, expected a whole number",
    ),
    "a distance that is True": (
        lambda path: jobs.cluster([path], "k", max_distance=True),
        TypeError,
        "max_distance: found True, a bool, expected a whole number",
    ),
    "a distance below 0": (
        lambda path: jobs.dedup([path], "k", max_distance=-1),
        ValueError,
        "max_distance: found -1, expected 0 or more",
    ),
    "no threads": (
        lambda path: jobs.document_pairs([path], "k", threads=0),
        ValueError,
        "threads: found 0, expected a positive integer or None",
    ),
    "a measure that is a number": (
        lambda path: jobs.dedup([path], "k", confirm=0.8),  # type: ignore[arg-type]
        TypeError,
        "confirm: found 0.8, a float, expected jaccard>=0.8 as a str",
    ),
    "bad lines that are passed over by a word": (
        lambda path: jobs.dedup(jobs.Inputs([path], skip_bad="no"), "k"),  # type: ignore[arg-type]
        TypeError,
        "skip_bad: found 'no', a str, expected True or False",
    ),
    "pages by a number": (
        lambda path: jobs.cluster(jobs.Inputs([path], html=1), "k"),  # type: ignore[arg-type]
        TypeError,
        "html: found 1, a int, expected True or False",
    ),
    "a header by a number": (
        lambda path: jobs.dedup(jobs.Inputs([path], header=0), "k"),  # type: ignore[arg-type]
        TypeError,
        "header: found 0, a int, expected True or False",
    ),
    "a recipe of a job": (
        lambda path: jobs.dedup([path], "k", recipe="zh"),  # type: ignore[arg-type]
        TypeError,
        "recipe: found 'zh', a str, expected a fpstore.text.Recipe",
    ),
}


def flags() -> Iterator[tuple[Callable[..., object], str]]:
    """Each public function, and method of a store, that takes True or False, and the name of what it takes so."""
    public = [*vars(fpstore.Store).values(), *(getattr(fpstore, name) for name in fpstore.__all__)]
    own = [*vars(minhash.MinHashStore).values(), *(getattr(minhash, name) for name in minhash.__all__)]
    rest = [getattr(room, name) for room in (jobs, cluster) for name in room.__all__]
    readers = [inputs.read, inputs.read_ids, inputs.documents]
    for function in [*public, fpstore.Store.close, *own, *rest, *readers]:
        if inspect.isroutine(function) and not isinstance(function, classmethod | staticmethod):  # compiled ones, too
            for name, parameter in inspect.signature(function).parameters.items():
                if parameter.annotation in (bool, "bool"):
                    yield function, name


@pytest.mark.parametrize(("function", "name"), list(flags()))
def test_what_is_neither_true_nor_false_is_refused_before_anything_is_done(
    tmp_path: Path, function: Callable[..., object], name: str
) -> None:
    path = tmp_path / "s"
    store = fpstore.build(path, np.arange(9, dtype=np.uint64))
    arguments: dict[str, Any] = {
        "path": path,
        "fingerprints": [1],
        "signatures": [],
        "store": path,
        "inputs": [],
        "sources": [],
        "self": store,
        "folder": tmp_path / "f",
        "rank": 0,
        "world_size": 2,
    }
    arguments["output"] = tmp_path / "out"
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    named = {each.name: arguments[each.name] for each in required if each.kind is inspect.Parameter.KEYWORD_ONLY}
    others = [arguments[each.name] for each in required if each.name not in named]
    for value in ("no", 0, 2, None):
        told = f"^{name}: found {value!r}, a {type(value).__name__}, expected True or False$"
        with pytest.raises(TypeError, match=told):
            function(*others, **named, **{name: value})
    assert [each.name for each in tmp_path.iterdir()] == ["s"]
    assert store.count() == 9
    store.close()


def test_all_flags_are_found() -> None:
    found = {f"{function.__name__} {name}" for function, name in flags()}
    assert {"open warm", "open signed", "create force", "build force", "close wait", "dedup tag"} <= found
    assert len(found) == 31  # of a name that both kinds of stores have, one


@pytest.mark.parametrize(("call", "error", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], object], error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"text": "one"}\n')
    with pytest.raises(error, match=f"^{message}"):
        call("a.jsonl")
    assert os.listdir(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "--n", "1e30"), "found '1e30', expected a whole number"),
        (("plan", "--n", "-5"), "n"),
        (("plan", "--n", "1.5"), "found '1.5', expected a whole number"),
        (("plan", "--n", "9e19"), "n"),
        (("fingerprint", "a.txt", "--recipe", "nope.json"), "recipe: found 'nope.json', expected one of text-1"),
        (("probe", "s.fpstore", "5", "--idf", "none"), "--idf goes with --text or --input"),
        (("probe", "s.fpstore", "--input", "a.npy", "--idf", "none"), "--idf goes with texts: found fingerprints"),
        (("probe", "s.fpstore", "5", "--html"), "--html goes with --text or --input"),
        (("probe", "s.fpstore", "5", "--text-column", "x"), "--text-column goes with --input"),
        (("probe", "s.fpstore", "5", "--fingerprint-column", "x"), "--fingerprint-column goes with --input"),
        (("probe", "s.fpstore", "5", "--fingerprint-format", "hex"), "--fingerprint-format goes with --input"),
        (("probe", "s.fpstore", "5", "--format", "csv"), "--format goes with --input"),
        (("probe", "s.fpstore", "5", "--skip-bad"), "--skip-bad goes with --input"),
        (("probe", "s.fpstore", "5", "--json", "--header"), "--header goes without --json"),
        (("probe", "s.fpstore", "5", "--json", "--signed"), "--signed goes without --json"),
        (("probe", "s.fpstore", "--input", "a.npy", "--decimal"), "--decimal goes with a FINGERPRINT"),
        (("probe", "s.fpstore", "12345678901234567"), "expected 1 to 16 hexadecimal digits (64 bits); or --decimal"),
    ],
)
def test_a_wrong_command_line_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one")
    np.save("a.npy", np.array([5]))
    fpstore.build("s.fpstore", [5]).close()
    outcome = command(*arguments)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err
    assert "internal error" not in outcome.err


def test_decimal_fingerprints_are_probed_and_written_signed_where_that_is_said(
    command: Command, tmp_path: Path
) -> None:
    values = np.array([1234567890123456, 0x1234567890123456, 2**64 - 5], dtype=np.uint64)
    fpstore.build(tmp_path / "s.fpstore", values, ids=[1, 2, 2**64 - 1]).close()
    outcome = command("probe", tmp_path / "s.fpstore", "1234567890123456", "-k", "0")
    assert [line.split("\t")[3] for line in outcome.lines] == ["2"]
    typed = ("--decimal", "-k", "0", "--signed", "--header", "--", "1234567890123456", "-5")
    assert command("probe", tmp_path / "s.fpstore", *typed).lines == [
        "query_fingerprint\tfingerprint\tdistance\tid",
        "1234567890123456\t1234567890123456\t0\t1",
        "-5\t-5\t0\t-1",
    ]
