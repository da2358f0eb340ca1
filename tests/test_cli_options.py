"""Options of all subcommands: each is given once, and one that would do nothing for what was asked is refused."""

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore import cli, minhash
from fpstore.cli.subcommand import (
    ANY_TEXT,
    OF_BITS,
    OF_SIGNATURES,
    OF_TEXTS,
    SIGNED_FORMAT,
    SIGNED_NUMBERS,
    USES,
    WITH_IDS,
    Fact,
    Subcommand,
)
from fpstore.cli.values import ResultPath


def subcommand(name: str) -> click.Command:
    found = cli._fpstore.get_command(click.Context(cli._fpstore), name)
    assert found is not None
    return found


def options_of(name: str) -> dict[str, click.Option]:
    params = subcommand(name).params
    return {str(each.name): each for each in params if isinstance(each, click.Option)}


def typed(option: click.Option) -> list[str]:
    """The option with a value that it takes, written as most people do."""
    if option.is_flag:
        return [max(option.opts, key=len)]
    value = "1"
    if isinstance(option.type, click.Choice):
        value = str(option.type.choices[-1])
    elif option.name == "ids":
        value = "row"
    return [max(option.opts, key=len), value]


# Of every path that a command takes: what is read, what is a folder anyhow, and what is written as a file.
READ_OR_FOLDER = ("inputs", "files", "store", "stores", "destination", "new", "like", "idf_path", "token_file", "other")
WRITTEN = {
    ("cluster", "output"),
    ("cluster", "summary_path"),
    ("cluster", "topics"),
    ("dedup", "dropped"),
    ("dedup", "kept"),
    ("dedup", "summary_path"),
    ("document-pairs", "output"),
    ("document-pairs", "summary_path"),
    ("export", "output"),
    ("learn-idf", "output"),
}


def test_every_path_is_read_or_a_folder_or_written_as_a_file() -> None:
    every = {(name, each) for name in USES for each in subcommand(name).params if isinstance(each.type, click.Path)}
    written = {(name, str(each.name)) for name, each in every if isinstance(each.type, ResultPath)}
    assert written == WRITTEN
    assert {str(each.name) for name, each in every} - {name for _, name in WRITTEN} <= set(READ_OR_FOLDER)


@pytest.mark.parametrize("path", ["new/", "new//", "new/.", ".", "..", "there", "there/", "there/..", "there/x.csv/"])
@pytest.mark.parametrize("role", sorted(WRITTEN))
def test_a_path_that_only_a_folder_has_is_no_file_to_be_written(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, role: tuple[str, str], path: str
) -> None:
    name, parameter = role
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "in.jsonl").write_text('{"text": "a b c"}\n')
    fpstore.build("store", [5]).close()
    before = sorted(tmp_path.rglob("*"))
    arguments = [name, "store" if name == "export" else "in.jsonl"]
    if name == "dedup" and parameter != "kept":
        arguments += ["-o", "kept"]
    option = options_of(name).get(parameter)
    told = command(*arguments, *([] if option is None else option.opts[:1]), path)
    assert told.status == 2
    what = "a folder" if path == "there" else "a path that only a folder has"
    begin = path if option is None else f"{option.opts[0]} {path}"
    assert f"{begin}: found {what}, expected the path of a file" in told.err
    assert ("; with --shards it is a folder" in told.err) == (parameter == "kept")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_called_as_standard_output_is_does_not_stand_in_its_way(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").mkdir()
    (tmp_path / "in.jsonl").write_text('{"text": "a b c"}\n')
    fpstore.build("store", [5]).close()
    for arguments in (["dedup", "in.jsonl", "-o", "-"], ["export", "store", "-", "--format", "hex"]):
        told = command(*arguments)
        assert told.status == 0, told.err
        assert told.out


@pytest.mark.parametrize("options", [["--shards", "-o", "kept/"], ["-o", "kept/", "--shards"]])
def test_shards_are_written_to_a_path_of_a_folder(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"text": "a b c"}\n')
    told = command("dedup", "in.jsonl", *options)
    assert told.status == 0, told.err
    assert (tmp_path / "kept" / "in.jsonl").is_file()


def test_the_table_has_every_option_of_every_subcommand() -> None:
    assert list(USES) == list(cli.SUBCOMMANDS)
    for name, uses in USES.items():
        assert type(subcommand(name)) is Subcommand
        assert subcommand(name).name == name
        assert set(uses) == set(options_of(name)), name


EVERY = [(name, option) for name in USES for option in USES[name]]


@pytest.mark.parametrize(("name", "option"), EVERY, ids=[" ".join(each) for each in EVERY])
def test_an_option_is_given_once_unless_it_says_that_it_may_be_given_again(
    command: Command, name: str, option: str
) -> None:
    found = options_of(name)[option]
    outcome = command(name, *typed(found), *typed(found))
    assert found.multiple or (outcome.status, outcome.out) == (2, "")
    twice = f"{max(found.opts, key=len)}: found it twice, expected it once"
    assert (twice in outcome.err) == (not found.multiple)


def test_the_short_and_the_long_name_are_one_option(command: Command) -> None:
    outcome = command("probe", "s.fpstore", "5", "-k", "1", "--max-distance=2")
    assert outcome.status == 2
    assert "--max-distance: found it twice" in outcome.err


# What misses each fact, by the subcommand and the fact's reason; the option that needs it is added.
MISSING: dict[tuple[str, str], list[str]] = {
    ("build", "goes without --max-bytes"): ["new.fpstore", "a.npy", "--max-bytes", "30"],
    ("build", "goes with --engine"): ["new.fpstore", "a.npy", "--engine", "local"],
    ("build", OF_TEXTS.reason): ["new.fpstore", "a.npy"],
    ("build", OF_BITS.reason): ["new.fpstore", "a.txt", "--recipe", "minhash-128"],
    ("build", OF_SIGNATURES.reason): ["new.fpstore", "a.npy"],
    ("create", OF_BITS.reason): ["new.fpstore", "--recipe", "minhash-128"],
    ("create", OF_SIGNATURES.reason): ["new.fpstore"],
    ("add", OF_BITS.reason): ["m.fpstore", "a.txt", "--ids", "from:9", "--if-new"],
    ("add", OF_SIGNATURES.reason): ["s.fpstore", "a.npy", "--ids", "from:9", "--if-new"],
    ("remove", OF_BITS.reason): ["m.fpstore", "--input", "a.txt"],
    ("probe", OF_BITS.reason): ["m.fpstore", "--input", "a.txt"],
    ("probe", OF_SIGNATURES.reason): ["s.fpstore", "--text", "one"],
    ("pairs", OF_BITS.reason): ["m.fpstore"],
    ("pairs", OF_SIGNATURES.reason): ["s.fpstore"],
    ("export", OF_BITS.reason): ["m.fpstore", "out.csv"],
    ("create", "goes without --max-bytes"): ["new.fpstore", "--max-bytes", "30"],
    ("build", "goes with --layout blocks"): ["new.fpstore", "a.npy"],
    ("create", "goes with --layout blocks"): ["new.fpstore"],
    ("create", "goes without --exist-ok"): ["new.fpstore", "--exist-ok"],
    ("create", "goes with --recipe"): ["new.fpstore"],
    ("add", OF_TEXTS.reason): ["s.fpstore", "a.npy", "--ids", "from:9"],
    ("add", ANY_TEXT.reason): ["s.fpstore", "a.npy", "--ids", "from:9"],
    ("add", "goes with --if-new"): ["s.fpstore", "a.npy", "--ids", "from:9"],
    ("add", "goes without --json"): ["s.fpstore", "a.npy", "--ids", "from:9", "--if-new", "--json"],
    ("add", "goes without --if-new"): ["s.fpstore", "a.npy", "--ids", "from:9", "--if-new"],
    ("add", WITH_IDS.reason): ["bare.fpstore", "a.npy"],
    ("add", "goes without --unbuffered"): ["s.fpstore", "-", "--if-new", "--unbuffered"],
    ("lookup", "goes with --input"): ["s.fpstore", "5"],
    ("lookup", "goes without --json"): ["s.fpstore", "5", "--json"],
    ("remove", "goes with --input"): ["s.fpstore", "5"],
    ("remove", "goes with --id-input"): ["s.fpstore", "5"],
    ("remove", "goes with --input or --id-input"): ["s.fpstore", "5"],
    ("remove", OF_TEXTS.reason): ["s.fpstore", "--input", "a.npy"],
    ("remove", ANY_TEXT.reason): ["s.fpstore", "--input", "a.npy"],
    ("remove", "goes with a FINGERPRINT;"): ["s.fpstore", "--input", "a.npy"],
    ("remove", "goes with a FINGERPRINT or --input"): ["s.fpstore", "--id", "5"],
    ("remove", "goes without --decimal"): ["s.fpstore", "--decimal", "5"],
    ("probe", "goes with --input"): ["s.fpstore", "5"],
    ("probe", "goes with --text or --input"): ["s.fpstore", "5"],
    ("probe", OF_TEXTS.reason): ["s.fpstore", "--input", "a.npy"],
    ("probe", ANY_TEXT.reason): ["s.fpstore", "--input", "a.npy"],
    ("probe", "goes with a FINGERPRINT;"): ["s.fpstore", "--input", "a.npy"],
    ("probe", "goes with a FINGERPRINT or --input"): ["s.fpstore", "--text", "one"],
    ("probe", "goes without --decimal"): ["s.fpstore", "--decimal", "5"],
    ("probe", "goes without --json"): ["s.fpstore", "5", "--json"],
    ("probe", "goes without --unbuffered"): ["s.fpstore", "--input", "-", "--unbuffered"],
    ("probe", "goes without a FINGERPRINT"): ["s.fpstore", "5", "--input", "-"],
    ("probe", "goes with --engine"): ["s.fpstore", "--input", "a.npy", "--engine", "local"],
    ("probe", "goes with --folder"): ["s.fpstore", "--input", "a.npy"],
    ("probe", "goes with --world-size"): ["s.fpstore", "--input", "a.npy", "--folder", "f"],
    ("probe", "goes without --rank"): [
        "s.fpstore",
        "--input",
        "a.npy",
        "--folder",
        "f",
        "--world-size",
        "2",
        "--rank",
        "0",
    ],
    ("serve", "goes without --port"): ["s.fpstore", "--port", "0"],
    ("serve", "goes with --port"): ["s.fpstore", "--socket", "s"],
    ("nearest", "goes with --input"): ["s.fpstore", "5"],
    ("nearest", "goes with --text or --input"): ["s.fpstore", "5"],
    ("nearest", OF_TEXTS.reason): ["s.fpstore", "--input", "a.npy"],
    ("nearest", ANY_TEXT.reason): ["s.fpstore", "--input", "a.npy"],
    ("nearest", "goes with a FINGERPRINT;"): ["s.fpstore", "--input", "a.npy"],
    ("nearest", "goes with a FINGERPRINT or --input"): ["s.fpstore", "--text", "one"],
    ("nearest", "goes without --decimal"): ["s.fpstore", "--decimal", "5"],
    ("nearest", "goes without --json"): ["s.fpstore", "5", "--json"],
    ("pairs", "goes without --count"): ["s.fpstore", "--count"],
    ("pairs", "goes without --json"): ["s.fpstore", "--json"],
    ("pairs", "goes with --engine"): ["s.fpstore", "--workers", "2"],
    ("document-pairs", "goes with a file"): ["a.txt"],
    ("document-pairs", OF_BITS.reason): ["a.txt", "--recipe", "minhash-128"],
    ("document-pairs", OF_SIGNATURES.reason): ["a.txt"],
    ("dedup", OF_BITS.reason): ["a.txt", "-o", "k", "--recipe", "minhash-128"],
    ("dedup", OF_SIGNATURES.reason): ["a.txt", "-o", "k"],
    ("cluster", OF_BITS.reason): ["a.txt", "--recipe", "minhash-128"],
    ("cluster", OF_SIGNATURES.reason): ["a.txt"],
    ("dedup", "goes with a file"): ["a.txt", "-o", "-"],
    ("dedup", "goes with -o FILE"): ["a.txt", "-o", "-"],
    ("cluster", "goes with a file"): ["a.txt", "-o", "-"],
    ("cluster", "goes with -o FILE, or without"): ["a.txt", "--annotate"],
    ("cluster", OF_TEXTS.reason): ["s.fpstore"],
    ("cluster", "goes without --update-center"): ["a.txt", "--components"],
    ("document-pairs", "goes with --engine"): ["a.txt", "--engine", "local"],
    ("dedup", "goes with --engine"): ["a.txt", "-o", "k", "--engine", "local"],
    ("cluster", "goes with --engine"): ["a.txt", "--engine", "local"],
    ("fingerprint", "goes with --engine"): ["a.txt", "--engine", "local"],
    ("fingerprint", "goes with texts"): ["a.jsonl", "--features", "tokens"],
    ("fingerprint", "goes with --features"): ["a.txt"],
    ("compare", "goes with a FILE"): ["--text", "one", "--text", "two"],
    ("compare", OF_BITS.reason): ["--text", "one", "--text", "two", "--recipe", "minhash-128"],
    ("compare", OF_SIGNATURES.reason): ["--text", "one", "--text", "two"],
    ("inspect", "goes without --all"): ["s.fpstore", "--all"],
    ("export", WITH_IDS.reason): ["bare.fpstore", "out.csv"],
    ("export", SIGNED_FORMAT.reason): ["s.fpstore", "out.hex"],
    ("export", SIGNED_NUMBERS.reason): ["w.fpstore", "out.csv"],
    ("lookup", SIGNED_NUMBERS.reason): ["w.fpstore", "one"],
    ("pairs", SIGNED_NUMBERS.reason): ["w.fpstore"],
    ("probe", SIGNED_NUMBERS.reason): ["w.fpstore", "0x5"],
    ("nearest", SIGNED_NUMBERS.reason): ["w.fpstore", "0x5"],
    ("add", SIGNED_NUMBERS.reason): ["w.fpstore", "a.npy", "--if-new"],
    ("export", "goes with a file as OUT"): ["s.fpstore", "-", "--format", "hex"],
    ("export", "goes with a file: "): ["s.fpstore", "-", "--format", "hex"],
}
# Those who share work among ranks: what each is asked for.
RANKED = {
    "pairs": ["s.fpstore"],
    "document-pairs": ["a.txt"],
    "dedup": ["a.txt", "-o", "k"],
    "cluster": ["a.txt"],
    "fingerprint": ["a.txt"],
    "build": ["n.fpstore", "a.npy"],
}
for _name, _line in RANKED.items():
    MISSING[_name, "goes with --folder"] = _line
    MISSING[_name, "goes with --world-size"] = [*_line, "--folder", "f"]
    MISSING[_name, "goes without --rank"] = [*_line, "--folder", "f", "--world-size", "2", "--rank", "0"]
NEEDS = [(name, option, fact) for name in USES for option, facts in USES[name].items() for fact in facts]


def line_without(name: str, fact: Fact) -> list[str]:
    found = [line for (of, reason), line in MISSING.items() if of == name and fact.reason.startswith(reason)]
    return max(found, key=len) if fact.reason == "goes with --input or --id-input" else found[0]


@pytest.mark.parametrize(
    ("name", "option", "fact"), NEEDS, ids=[f"{name} {option}: {fact.reason[:24]}" for name, option, fact in NEEDS]
)
def test_an_option_that_would_do_nothing_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: str, fact: Fact
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([5]))
    Path("a.txt").write_text("one")
    Path("a.jsonl").write_text('{"tokens": ["one"]}\n')
    fpstore.build("s.fpstore", [5]).close()
    fpstore.build("bare.fpstore", [5], ids=None).close()
    minhash.create("m.fpstore", recipe="minhash-128").close()
    fpstore.create("w.fpstore", bits=128, id_type="string").close()
    there = sorted(path.name for path in tmp_path.iterdir())
    found = options_of(name)[option]
    outcome = command(name, *line_without(name, fact), *typed(found))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == f"fpstore: {max(found.opts, key=len)} {fact.reason} (see fpstore {name} --help)\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == there
    with fpstore.open("s.fpstore") as store:
        assert store.count() == 1


TEXT = " ".join(f"word{number}" for number in range(50))
ID_TYPES: tuple[Any, ...] = ("uint64", "string", None)


@pytest.mark.parametrize("id_type", ID_TYPES)
@pytest.mark.parametrize("bits", [64, 256, None])
def test_numbers_are_signed_or_that_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int | None, id_type: Any
) -> None:
    """Of every kind of store and every command; bits: None for signatures."""
    monkeypatch.chdir(tmp_path)
    ids: Any = {"uint64": [2**64 - 1, 2**63], "string": ["one", "two"], None: None}[id_type]
    if bits is None:
        with minhash.create("s.fpstore", recipe="minhash-128", id_type=id_type) as signed:
            signed.add_texts([TEXT, f"{TEXT} more"], ids=ids)
    else:
        with fpstore.create("s.fpstore", bits=bits, id_type=id_type) as store:
            store.add([(1 << bits) - 1, (1 << bits) - 2], ids=ids)
    asked = ["--text", TEXT] if bits is None else [f"{(1 << bits) - 1:x}"]
    lines: list[list[Any]] = [["probe", "s.fpstore", *asked], ["pairs", "s.fpstore"]]
    lines += [["export", "s.fpstore", "-", "--format", "csv"]]
    lines += [["lookup", "s.fpstore", str(ids[0])]] if ids else []
    lines += [["nearest", "s.fpstore", *asked]] if bits else []
    lines += [["pairs", "s.fpstore", "--of", "ids"]] if bits and ids else []
    answered = 0
    for line in lines:
        plain, with_sign = command(*line), command(*line, "--signed")
        if plain.status != 0:  # pairs of signatures without ids
            continue
        assert with_sign.status == 2 or with_sign.out != plain.out, line
        assert with_sign.status == 0 or SIGNED_NUMBERS.reason in with_sign.err
        answered += with_sign.status == 0
    assert (answered > 0) == (bits == 64 or id_type == "uint64")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "probe s.fpstore -5",
            "found -5, which looks like an option; expected -- before a number below 0, and --decimal",
        ),
        ("remove s.fpstore --decimal -12345", "found -12345, which looks like an option; expected -- before"),
        ("recipe -1", "found -1, which looks like an option; expected -- before a number below 0 (see"),
        ("probe s.fpstore --no", "No such option"),
        ("probe s.fpstore -x", "No such option"),
        (
            "add s.fpstore a.hex --id-type text",
            "--id-type: found it with add, expected it with build or create (see fpstore add --help)",
        ),
    ],
)
def test_a_number_that_looks_like_an_option_is_named(command: Command, line: str, said: str) -> None:
    outcome = command(*line.split())
    assert (outcome.status, outcome.out) == (2, "")
    assert said in outcome.err


def test_what_an_option_needs_may_be_there_though_not_in_every_input(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model is used by --text, whatever --input holds."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([5]))
    Path("a.txt").write_text("one two three")
    simhash = ("--recipe", "simhash-1")
    assert command("learn-idf", "a.txt", "-o", "a.idf", *simhash).status == 0
    assert command("build", "s.fpstore", "a.txt", "--idf", "a.idf", *simhash).status == 0
    assert command("probe", "s.fpstore", "--text", "one", "--input", "a.npy", "--idf", "a.idf").status == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "probe s.fpstore 00112233445566778899aabbccddeeff",
            "; it has 128 bits, and the store's fingerprints have 64 (",
        ),
        ("remove s.fpstore 0x12345678901234567", "; it has 68 bits, and"),
        ("remove s.fpstore 0x123456789012345678901", "; it has 84 bits, and the store's fingerprints have 64 ("),
        ("probe s.fpstore 12345678901234567890", "; or --decimal ("),
        ("probe s.fpstore -- -5", "; or --decimal ("),
        ("probe s.fpstore word", "; or --text for a text ("),
        ("remove s.fpstore word", "(64 bits) ("),
        ("probe s.fpstore --decimal 99999999999999999999", "expected a decimal number"),
    ],
)
def test_what_is_no_fingerprint_is_told_with_what_may_have_been_meant(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fpstore.build("s.fpstore", [5]).close()
    outcome = command(*line.split())
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("fpstore: fingerprint: found ")
    assert said in outcome.err


@pytest.mark.parametrize("name", ["build", "create"])
def test_a_plan_that_is_none_is_told_with_all_that_there_are(command: Command, tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "a.npy", np.array([5]))
    inputs = [tmp_path / "a.npy"] if name == "build" else []
    outcome = command(name, tmp_path / "s.fpstore", *inputs, "--plan", "nosuch")
    assert outcome.status == 2
    assert "plan: found 'nosuch', expected one of size, balanced, speed, paper-4, " in outcome.err
