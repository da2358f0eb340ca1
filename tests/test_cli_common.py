"""What every subcommand takes: --json, of which docs/json.md lists what is printed, --threads and --progress."""

import io
import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pytest
from outcome import Command, running
from pages import ROOT

import fpstore
from fpstore import cli, minhash, platforms
from fpstore.cli import progress
from fpstore.cli.common import Common, common, common_options
from fpstore.jobs.passing import Passing
from fpstore.serve import pages
from fpstore.text.loading import FORMAT

PAGE = ROOT / "docs/json.md"
COMMON = ("--json", "--threads", "--progress", "--no-progress")


def commands() -> dict[str, click.Command]:
    group, context = cli._fpstore, click.Context(cli._fpstore)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: each for name, each in found.items() if each is not None}


@pytest.mark.parametrize("name", commands())
def test_every_subcommand_has_the_three_options(name: str) -> None:
    options = [each for each in commands()[name].params if isinstance(each, click.Option)]
    written = [opt for option in options for opt in (*option.opts, *option.secondary_opts)]
    assert set(COMMON) <= set(written)
    assert len(written) == len(set(written))
    here = {str(each.name): each for each in options}
    for option in common_options():
        assert here[str(option.name)].to_info_dict() == option.to_info_dict()


def test_by_default_all_threads_work_and_standard_error_decides_about_progress(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def noted() -> Common:
        seen.append(common())
        return seen[-1]

    monkeypatch.setattr("fpstore.cli.recipe.common", noted)
    assert command("recipe").status == 0
    assert command("recipe", "--json", "--threads", "3", "--no-progress").status == 0
    assert seen == [Common(), Common(as_json=True, threads=3, progress=False)]


def test_what_is_asked_of_no_command_are_the_defaults() -> None:
    assert common() == Common(as_json=False, threads=None, progress=None)


def test_help_says_how_many_threads_all_are(command: Command) -> None:
    out = " ".join(command("build", "--help").out.split())
    assert f"one for each processor that this process may use: {platforms.processor_count()} here" in out


# --- JSON ---

SIGNED = "cluster signed.fpstore"
# Lines for each subcommand, in a folder such as world() makes; together they print all that it can.
LINES: dict[str, list[str]] = {
    "build": ["build new.fpstore more.npy", "build texts.fpstore a.jsonl"],
    "create": ["create new.fpstore", "create s.fpstore --exist-ok"],
    "add": [
        "add s.fpstore more.npy --ids from:9",
        "add s.fpstore more.npy --ids from:20 --if-new",
        "add s.fpstore lines.txt --ids from:30 --if-new --unbuffered",
    ],
    "remove": ["remove s.fpstore 5", "remove s.fpstore --id 1", "remove s.fpstore --id-input ids.csv"],
    "probe": ["probe s.fpstore 5 6", "probe s.fpstore --input lines.txt --unbuffered"],
    "nearest": ["nearest s.fpstore 5 6"],
    "lookup": ["lookup s.fpstore 0 1"],
    "pairs": ["pairs s.fpstore", "pairs s.fpstore --of ids", "pairs s.fpstore --count"],
    "document-pairs": ["document-pairs a.jsonl", "document-pairs a.jsonl -o p.tsv"],
    "dedup": ["dedup a.jsonl -o kept.jsonl"],
    "cluster": [
        "cluster a.jsonl",
        "cluster a.jsonl -o c.tsv",
        "cluster s.fpstore",
        "cluster bare.fpstore",
        SIGNED,
        f"{SIGNED} --components",
    ],
    "fingerprint": ["fingerprint a.jsonl", "fingerprint tokens.jsonl --features tokens"],
    "compare": ["compare --text one --text two", "compare --text one --text two --recipe minhash-128"],
    "recipe": ["recipe", "recipe exact"],
    "learn-idf": ["learn-idf a.jsonl --recipe simhash-1 -o m.idf"],
    "compact": ["compact s.fpstore"],
    "copy": ["copy s.fpstore t.fpstore"],
    "recover": ["recover s.fpstore t.fpstore"],
    "export": ["export s.fpstore out.csv"],
    "serve": [],  # it does not end: test_a_server_says_as_a_line_of_json_where_it_listens
    "plan": ["plan --n 5"],
    "report": ["report s.fpstore"],
    "stats": ["stats s.fpstore bare.fpstore"],
    "inspect": ["inspect s.fpstore", "inspect s.fpstore 1", "inspect s.fpstore 1 0", "inspect s.fpstore 1 0 0"],
    "verify": ["verify s.fpstore nothing.fpstore"],
}
TEXTS = (
    "one two three four five six seven",
    "one two three four five six seven",
    "what has nothing of the others in it",
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    fpstore.build("s.fpstore", [5, 6]).close()
    fpstore.build("bare.fpstore", [5, 6], ids=None).close()
    signatures = np.arange(128, dtype=np.uint64)
    minhash.build("signed.fpstore", np.stack([signatures, signatures]), ids=[5, 6]).close()
    np.save("more.npy", np.array([5, 7]))
    Path("a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    Path("tokens.jsonl").write_text('{"tokens": ["one"]}\n')
    Path("lines.txt").write_text("5\nword\n")
    Path("ids.csv").write_text("id\n0\n")
    return tmp_path


class Row(NamedTuple):
    """What is printed, or a row of the page, where a field with a ? may be missing: fields, in their order."""

    format: str
    fields: tuple[str, ...]

    def has(self, seen: "Row") -> bool:
        expected = tuple(name.removesuffix("?") for name in self.fields if name[-1] != "?" or name[:-1] in seen.fields)
        return (self.format, expected) == seen


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@cache
def listed(heading: str) -> list[list[str]]:
    """The cells of the rows under a heading of the page."""
    text = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [cells_of(line) for line in text.splitlines() if line.startswith("|")][2:]


def printed(out: str) -> Iterator[dict[str, Any]]:
    """The JSON of a command: one document, or lines."""
    try:
        yield json.loads(out)
    except ValueError:
        yield from map(json.loads, out.splitlines())


def row_of(record: dict[str, Any]) -> Row:
    (first, format), *others = record.items()
    assert first == "format"
    return Row(format, tuple(name for name, _ in others))


def rows_of(cells: list[str]) -> Row:
    return Row(cells[-2].strip("`"), tuple(re.findall(r"`(\w+\??)`", cells[-1])))


def compare(seen: list[Row], told: list[Row]) -> None:
    """Expect that every row that was seen is told, every told one was seen, and no field is optional for nothing."""
    assert [row for row in seen if not any(each.has(row) for each in told)] == []
    for each in told:
        own = [row.fields for row in seen if each.has(row)]
        assert own, each
        for name in each.fields:
            assert name[-1] != "?" or {name[:-1] in fields for fields in own} == {True, False}, name


def test_the_lines_are_of_every_subcommand() -> None:
    assert list(LINES) == list(commands())
    assert {cells[0].strip("`") for cells in listed("By command")} == set(LINES)


# Of the subcommands that end, those with many jobs among their lines slow.
ENDING = [
    pytest.param(name, marks=pytest.mark.slow if name in ("cluster", "document-pairs") else ())
    for name, lines in LINES.items()
    if lines
]


@pytest.mark.parametrize("name", ENDING)
def test_all_json_is_what_the_page_lists_in_place_of_standard_error(command: Command, world: Path, name: str) -> None:
    seen = []
    for line in LINES[name]:
        outcome = command(*shlex.split(line), "--json")
        assert outcome.status == (1 if name == "verify" else 0), outcome
        assert "internal error" not in outcome.err
        seen += [row_of(record) for record in printed(outcome.out)]
        if outcome.out.startswith("{\n"):  # beside a document there are warnings, and no counts once more
            assert [said for said in outcome.err.splitlines() if not said.startswith("fpstore: warning: ")] == []
    told = [rows_of(cells) for cells in listed("By command") if cells[0] == f"`{name}`"]
    compare(seen, told)


def test_ids_in_json_are_strings_and_fingerprints_hexadecimal(command: Command, world: Path) -> None:
    for line in (
        "lookup s.fpstore 0",
        "probe s.fpstore 5",
        "cluster s.fpstore",
        "add s.fpstore more.npy --ids row --if-new",
    ):
        for record in printed(command(*shlex.split(line.replace("--ids row", "--ids from:9")), "--json").out):
            found = {name: value for name, value in record.items() if name in ("id", "match_id")}
            assert found
            assert all(isinstance(value, str) for value in found.values())
            assert all(re.fullmatch("[0-9a-f]{16}", record[name]) for name in record if name.endswith("fingerprint"))


@pytest.mark.parametrize("id_type", ["string", "bytes"])
def test_ids_that_are_names_are_what_they_were_in_json_and_one_field_in_lines(
    command: Command, world: Path, id_type: Any
) -> None:
    names = ['a"b\\', "c\td\ne", "\u2028"]
    with fpstore.create("named.fpstore", id_type=id_type) as store:
        store.add([5, 5, 5], ids=names if id_type == "string" else [name.encode() for name in names])
    for line, field in (("probe named.fpstore 5", "id"), ("pairs named.fpstore --of ids", "first_id")):
        outcome = command(*shlex.split(line))
        columns = {len(each.split("\t")) for each in outcome.out.split("\n")[:-1]}
        assert columns == {4 if field == "id" else 3}
        found = {
            record[field] for record in map(json.loads, command(*shlex.split(line), "--json").out.split("\n")[:-1])
        }
        assert found <= set(names)
        assert len(found) >= 2


def test_the_counts_in_json_are_those_that_are_said(command: Command, world: Path) -> None:
    found = json.loads(command("build", "new.fpstore", "more.npy", "--json").out)
    assert (found["row_count"], found["file_count"], found["fingerprint_count"]) == (2, 1, 2)
    found = json.loads(command("add", "s.fpstore", "more.npy", "--ids", "from:9", "--json").out)
    assert (found["path"], found["row_count"]) == ("s.fpstore", 2)
    found = json.loads(command("remove", "s.fpstore", "5", "--json").out)
    assert (found["row_count"], found["asked"], found["asked_count"]) == (2, "fingerprints", 1)
    found = json.loads(command("compact", "s.fpstore", "--json").out)
    assert (found["merged"], found["before"]["removal_count"], found["after"]["segment_count"]) == (True, 1, 1)
    assert json.loads(command("compact", "s.fpstore", "--json").out)["merged"] is False
    found = json.loads(command("copy", "s.fpstore", "t.fpstore", "--json").out)
    assert (found["row_count"], found["is_exact"]) == (2, True)
    found = json.loads(command("export", "s.fpstore", "out.csv", "--json").out)
    assert (found["row_count"], found["file_format"]) == (2, "csv")
    assert found["size_bytes"] == Path("out.csv").stat().st_size
    found = json.loads(command("create", "e.fpstore", "--id-type", "none", "-k", "2", "--json").out)
    assert (found["is_empty"], found["id_type"], found["max_distance"]) == (True, None, 2)
    assert fpstore.Plan.from_json(found["plan"]).max_distance == 2
    found = json.loads(command("learn-idf", "a.jsonl", "--recipe", "simhash-1", "-o", "m.idf", "--json").out)
    assert found["document_count"] == 3


def test_bad_lines_that_were_passed_over_are_counted_in_json_and_told_too(command: Command, world: Path) -> None:
    Path("bad.txt").write_text(f"{5:016x}\nword\n")
    outcome = command("build", "new.fpstore", "bad.txt", "--format", "hex", "--skip-bad", "--json")
    assert sum(json.loads(outcome.out)["skipped"].values()) == 1
    assert outcome.err.startswith("fpstore: passed over: 1")


def test_the_summary_of_a_job_is_printed_as_it_is_written(command: Command, world: Path) -> None:
    out = command("dedup", "a.jsonl", "-o", "kept.jsonl", "--summary", "done.json", "--json").out
    assert json.loads(out) == json.loads(Path("done.json").read_text())
    assert json.loads(out)["kept"] == 2


def test_a_recipe_in_json_is_a_file_for_recipe_and_one_of_another_format_is_none(command: Command, world: Path) -> None:
    Path("mine.json").write_text(command("recipe", "exact", "--json").out)
    assert (
        command("fingerprint", "a.jsonl", "--recipe", "mine.json").out
        == command("fingerprint", "a.jsonl", "--recipe", "exact").out
    )
    record = json.loads(Path("mine.json").read_text())
    assert record["format"] == FORMAT
    Path("mine.json").write_text(json.dumps(record | {"format": "fpstore.stats/1"}))
    outcome = command("fingerprint", "a.jsonl", "--recipe", "mine.json")
    assert outcome.status == 2
    assert "mine.json: recipe: found a file of another format, expected fpstore.recipe/1" in outcome.err


def test_a_recovery_with_a_loss_says_it_in_json_and_by_its_status(command: Command, world: Path) -> None:
    next(Path("s.fpstore/segments").iterdir()).write_bytes(b"")
    outcome = command("recover", "s.fpstore", "t.fpstore", "--json")
    record = json.loads(outcome.out)
    assert (outcome.status, outcome.err) == (3, "")
    assert (record["complete"], record["lost_fingerprint_count"], record["lost_segment_count"]) == (False, 2, 1)
    assert record["damage"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dedup a.jsonl -o -", "--json goes with -o FILE"),
        ("cluster a.jsonl --annotate", "--json goes with -o FILE, or without --annotate"),
        ("cluster a.jsonl --annotate -o -", "--json goes with -o FILE, or without --annotate"),
        ("export s.fpstore - --format csv", "--json goes with a file as OUT"),
    ],
)
def test_where_standard_output_has_something_else_json_is_refused(
    command: Command, world: Path, line: str, said: str
) -> None:
    outcome = command(*shlex.split(line), "--json")
    assert (outcome.status, outcome.out) == (2, "")
    assert said in outcome.err


@pytest.mark.slow
def test_a_server_says_as_a_line_of_json_where_it_listens(world: Path) -> None:
    arguments = [sys.executable, "-m", "fpstore", "serve", "s.fpstore", "--json"]
    told = [rows_of(cells) for cells in listed("By command") if cells[0] == "`serve`"]
    for more, kind in ((["--port", "0"], "url"), (["--socket", "s.sock"], "socket")):
        with running(*arguments, *more) as process:
            assert process.stdout is not None
            record = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert [row_of(record)] == told
        assert [name for name in ("url", "socket") if record[name]] == [kind]


# The files that jobs write: the command, and which of them.
FILES = {
    "dedup a.jsonl -o kept.jsonl --dropped out.jsonl": "out.jsonl",
    "dedup a.jsonl -o kept.jsonl --dropped out.jsonl --confirm none": "out.jsonl",
    "document-pairs a.jsonl -o out.jsonl": "out.jsonl",
    "cluster a.jsonl -o out.jsonl": "out.jsonl",
    "cluster a.jsonl -o c.tsv --topics out.jsonl": "out.jsonl",
    "cluster s.fpstore -o out.jsonl": "out.jsonl",
    "cluster bare.fpstore -o out.jsonl": "out.jsonl",
    f"{SIGNED} -o out.jsonl": "out.jsonl",
    f"{SIGNED} --components -o out.jsonl": "out.jsonl",
    "dedup a.jsonl -o kept.jsonl --summary out.json": "out.json",
    "cluster a.jsonl -o c.tsv --summary out.json": "out.json",
    "document-pairs a.jsonl -o p.tsv --summary out.json": "out.json",
}


@pytest.mark.slow
def test_json_in_files_is_what_the_page_lists(
    command: Command, tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for line, name in FILES.items():
        assert command(*shlex.split(line), "--force").status == 0
        seen += [row_of(record) for record in printed(Path(name).read_text())]
    compare(seen, [rows_of(cells) for cells in listed("In files")])


def test_documents_themselves_say_no_format(command: Command, world: Path) -> None:
    command("dedup", "a.jsonl", "-o", "kept.jsonl")
    command("cluster", "a.jsonl", "-o", "labelled.jsonl", "--annotate")
    command("export", "s.fpstore", "out.jsonl")
    for name in ("kept.jsonl", "labelled.jsonl", "out.jsonl"):
        assert not any("format" in record for record in printed(Path(name).read_text()))


def test_json_over_http_is_what_the_page_lists() -> None:
    answers = [each.answer for each in pages._ALL if each.answer]
    formats = {json.loads(answer)["format"] for answer in answers} | {"fpstore.error/1", "fpstore.list-stats/1"}
    assert {cells[-2].strip("`") for cells in listed("Over HTTP")} == formats
    told = {rows_of(cells).format: rows_of(cells).fields for cells in listed("Over HTTP")}
    for answer in answers:
        record = json.loads(answer)
        if record["format"] != "fpstore.stats/1":
            assert tuple(record)[1:] == told[record["format"]]


# --- Threads ---


def same_of(out: str) -> str:
    """An output without what a clock says, and what is drawn anew for each store."""
    return re.sub(r'("(seconds|read_mb_per_second|identity|written_at)": )[^,\n]*|[\d.]+ s, \d+ MB/s', r"\1", out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDING)
def test_any_number_of_threads_gives_the_same(command: Command, world: Path, name: str) -> None:
    texts = [f"{text} {number} " * 20 for number in range(300) for text in TEXTS]
    Path("a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    clean = {path: path.read_bytes() for path in sorted(world.rglob("*")) if path.is_file()}
    seen: list[tuple[list[str], dict[str, bytes]]] = []
    for threads in ((), ("--threads", "1"), ("--threads", "2"), ("--threads", "5")):
        for path in sorted(world.rglob("*"), reverse=True):
            if path.is_dir() and not any(clean_path.is_relative_to(path) for clean_path in clean):
                path.rmdir()
            elif path.is_file() and path not in clean:
                path.unlink()
        for path, data in clean.items():
            path.write_bytes(data)
        outs = [same_of(command(*shlex.split(line), "--json", *threads).out) for line in LINES[name]]
        made = [path for path in world.rglob("*") if path.suffix in (".fpseg", ".tsv", ".jsonl", ".csv", ".idf")]
        seen.append((outs, {str(path): path.read_bytes() for path in made}))
    assert all(each == seen[0] for each in seen[1:])


def test_threads_are_a_positive_number(command: Command, world: Path) -> None:
    outcome = command("plan", "--n", "5", "--threads", "0")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--threads" in outcome.err


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("probe s.fpstore 5", "fpstore.store.Store.probe_many"),
        ("nearest s.fpstore 5", "fpstore.store.Store.nearest_many"),
        ("build new.fpstore a.jsonl", "fpstore.text.Recipe.measure_many"),
        ("build new.fpstore more.npy", "fpstore.build"),
        ("fingerprint a.jsonl", "fpstore.text.Recipe.measure_many"),
        ("dedup a.jsonl -o kept.jsonl", "fpstore.jobs.passing.Passing.go"),
    ],
)
def test_the_number_of_threads_reaches_the_work(
    command: Command, world: Path, monkeypatch: pytest.MonkeyPatch, line: str, where: str
) -> None:
    seen = []
    place, _, name = where.rpartition(".")
    owners: list[Any] = [fpstore, fpstore.Store, fpstore.text.Recipe, Passing]
    places = ["fpstore", "fpstore.store.Store", "fpstore.text.Recipe", "fpstore.jobs.passing.Passing"]
    owner = owners[places.index(place)]
    real = getattr(owner, name)

    def noted(*arguments: Any, **given: Any) -> Any:
        seen.append(given["threads"])
        return real(*arguments, **given)

    monkeypatch.setattr(owner, name, noted)
    assert command(*shlex.split(line), "--threads", "3").status == 0
    assert seen == [3]


# --- Progress ---


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


LONG = [name for name in LINES if name not in ("create", "compare", "recipe", "plan", "serve")]


IN_TIME = {
    "remove": "remove s.fpstore --id-input ids.csv",
    "probe": "probe s.fpstore --input more.npy",
    "nearest": "nearest s.fpstore --input more.npy",
    "lookup": "lookup s.fpstore --input ids.csv",
    "stats": "stats s.fpstore --spikes 1",
    "inspect": "inspect s.fpstore 1",
    "verify": "verify s.fpstore",
}


def shown_by(monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], *line: str) -> bool:
    """Whether a command shows progress on such a standard error."""
    with fpstore.open("s.fpstore", "w") as store:
        store.add([7], ids=[7])
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0)
    monkeypatch.setattr(sys, "stderr", stream())
    assert cli.main(line) == 0
    assert isinstance(sys.stderr, io.StringIO)
    return "\r" in sys.stderr.getvalue()


@pytest.mark.parametrize("name", LONG)
def test_every_command_that_can_take_long_shows_progress(
    world: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    line = shlex.split(IN_TIME.get(name, LINES[name][0]))
    assert shown_by(monkeypatch, io.StringIO, *line, "--progress")


@pytest.mark.parametrize("line", ["probe s.fpstore --input more.npy", "pairs s.fpstore"])
def test_what_is_done_by_tasks_shows_how_many_are_done(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    told = io.StringIO()
    monkeypatch.setattr(progress, "SHOWN_AFTER_SECONDS", 0)
    monkeypatch.setattr(sys, "stderr", told)
    assert cli.main([*line.split(), "--workers", "2", "--progress"]) == 0
    assert " tasks" in told.getvalue()


@pytest.mark.parametrize(
    ("options", "stream", "shown"),
    [
        (("--progress",), Terminal, True),
        (("--no-progress",), Terminal, False),
        (("--no-progress",), io.StringIO, False),
        ((), Terminal, True),
        ((), io.StringIO, False),
    ],
)
def test_progress_is_shown_where_it_is_asked_for_else_on_a_terminal(
    world: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], stream: type[io.StringIO], shown: bool
) -> None:
    assert shown_by(monkeypatch, stream, "verify", "s.fpstore", *options) == shown


def test_progress_that_is_asked_for_needs_tqdm(command: Command, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    outcome = command("verify", "s.fpstore", "--progress")
    assert outcome.status == 1
    assert outcome.err == "fpstore: --progress needs tqdm: pip install 'fpstore[progress]'\n"
    assert command("verify", "s.fpstore").status == 0
