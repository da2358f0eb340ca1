"""The coprocess: a line asked is a line answered, at once, in order, whatever the line, to programs in any language."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import uniform
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome import Command, running
from pages import ROOT
from test_cli_streams import run_with_closed

import fpstore
from fpstore import StoreChanged
from fpstore.serve import forms, lines
from fpstore.serve.kinds import of_fingerprints
from fpstore.serve.lines import Rows, adding, answer_lines, blocks_of, probing
from fpstore.text import Recipe, recipes

BASE = 0x9F3A5C0012AB44DE
RECIPE = recipes()["multilingual"]
FPSTORE = (sys.executable, "-m", "fpstore")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s.fpstore", [BASE, BASE ^ 0b11, BASE ^ 0b1000, 5], ids=[10, 9, 2**64 - 1, 3]).close()
    return tmp_path / "s.fpstore"


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for questions that change nothing."""
    path = tmp_path_factory.mktemp("lines") / "s.fpstore"
    fpstore.build(path, [BASE, 5], ids=[10, 3]).close()
    return path


def asked(ask: lines.Ask, *typed: object, recipe: Recipe | None = None) -> list[Any]:
    """The answers to lines: text, or what becomes JSON."""
    written = [line if isinstance(line, str) else json.dumps(line) for line in typed]
    found: list[str] = []
    read = BytesIO("".join(f"{line}\n" for line in written).encode("utf-8", "surrogateescape")).read
    answer_lines(read, found.append, lambda: None, recipe, ask)
    answers = [json.loads(line) for line in "".join(found).splitlines()]
    assert [answer["line"] for answer in answers] == list(range(len(typed)))
    return answers


def message(answer: dict[str, Any]) -> str:
    assert answer["format"] == "fpstore.error/1"
    return str(answer["error"]["message"])


# --- What is answered ---


def test_each_line_is_answered_by_all_that_is_near_it(store: Path) -> None:
    with fpstore.open(store) as opened:
        near, tagged, far = asked(
            probing(opened, None), f"{BASE:016x}", {"fingerprint": f"{BASE ^ 1:x}", "id": "q7"}, "0xffff0000"
        )
    assert near == {
        "format": "fpstore.probe-line/1",
        "line": 0,
        "query_fingerprint": f"{BASE:016x}",
        "matches": [
            {"fingerprint": f"{BASE:016x}", "distance": 0, "id": "10"},
            {"fingerprint": f"{BASE ^ 0b1000:016x}", "distance": 1, "id": str(2**64 - 1)},
            {"fingerprint": f"{BASE ^ 0b11:016x}", "distance": 2, "id": "9"},
        ],
    }
    assert (tagged["query_id"], [match["distance"] for match in tagged["matches"]]) == ("q7", [1, 1, 2])
    assert (far["query_fingerprint"], far["matches"]) == ("00000000ffff0000", [])


def test_ids_of_a_store_without_them_are_null(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [BASE], ids=None) as opened:
        (answer,) = asked(probing(opened, 0), f"{BASE:x}")
    assert answer["matches"] == [{"fingerprint": f"{BASE:016x}", "distance": 0, "id": None}]


def test_each_line_is_added_if_it_is_new_and_told_what_it_is_near(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as opened:
        first, second, third = asked(
            adding(opened, None, None),
            {"fingerprint": f"{BASE:x}", "id": "17"},
            {"fingerprint": f"{BASE ^ 1:x}", "id": 18},
            {"fingerprint": "0", "id": str(2**64 - 1)},
        )
        assert [(row.fingerprint, row.id) for rows in opened.rows() for row in rows] == [(0, 2**64 - 1), (BASE, 17)]
    near = {"match_fingerprint": f"{BASE:016x}", "match_distance": 1, "match_id": "17"}
    nothing = dict.fromkeys(near)
    assert first == {
        "format": "fpstore.add-line/1",
        "line": 0,
        "id": "17",
        "fingerprint": f"{BASE:016x}",
        "stored": True,
        **nothing,
    }
    assert (second["stored"], {name: second[name] for name in near}) == (False, near)
    assert (third["stored"], third["id"]) == (True, str(2**64 - 1))


def test_lines_can_be_numbered_for_ids(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s") as opened:
        ask = adding(opened, 0, 100)
        answers = asked(ask, "5", "no", "6", {"fingerprint": "7", "id": "1"})
        assert [answer.get("id") for answer in answers] == ["100", None, "102", None]
        assert "id: found one, expected none, as --ids numbers the lines" in message(answers[3])
        assert sorted(row.id or 0 for rows in opened.rows() for row in rows) == [100, 102]
    with fpstore.open(tmp_path / "s", "w") as opened:
        (last, over) = asked(adding(opened, 0, 2**64 - 1), "a", "b")
    assert last["id"] == str(2**64 - 1)
    assert "id: found 18446744073709551616, expected at most 18446744073709551615" in message(over)


def test_a_store_without_ids_takes_lines_without(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", id_type=None) as opened:
        stored, refused = asked(adding(opened, None, None), "5", {"fingerprint": "ff00", "id": "1"})
        assert opened.count() == 1
    assert (stored["stored"], stored["id"]) == (True, None)
    assert "expected none: the store has no ids" in message(refused)


def test_texts_are_asked_by_the_recipe(tmp_path: Path) -> None:
    text = "a text of some words, \ud800 with half of a pair in it"
    with fpstore.create(tmp_path / "s", recipe=RECIPE) as opened:
        (stored,) = asked(adding(opened, None, None), {"text": text, "id": "4"}, recipe=RECIPE)
        (found,) = asked(probing(opened, 0), {"text": text}, recipe=RECIPE)
    assert stored["fingerprint"] == found["query_fingerprint"] == f"{RECIPE.fingerprint(text):016x}"
    assert [match["id"] for match in found["matches"]] == ["4"]


# --- Lines that are at fault ---

EXPECTED = "1 to 16 hexadecimal digits (64 bits)"
BAD = {
    "": f"fingerprint: found '', expected {EXPECTED}",
    "xyz": f"fingerprint: found 'xyz', expected {EXPECTED}",
    "12345678901234567": f"fingerprint: found '12345678901234567', expected {EXPECTED}",
    "[1]": f"fingerprint: found '[1]', expected {EXPECTED}",
    "\udcff\udcfe": f"fingerprint: found '\ufffd\ufffd', expected {EXPECTED}",
    '{"fingerprint": 5}': f"fingerprint: found 5, expected {EXPECTED}",
    '{"fingerprint": [5]}': f"fingerprint: found [5], expected {EXPECTED}",
    '{"fingerprint": ""}': f"fingerprint: found '', expected {EXPECTED}",
    '{"fingerprint": null}': "line: found neither, expected a fingerprint or a text",
    "{}": "line: found neither, expected a fingerprint or a text",
    '{"fingerprint": "1", "text": "a"}': "line: found fingerprint and text, expected a fingerprint or a text",
    '{"fingerprint": "1", "k": 2}': "line: found a field 'k', expected fingerprint, text, id",
    '{"text": "a"}': "text: found one, expected a fingerprint: the store has no recipe for texts",
    '{"fingerprint": "1"': "line: found no JSON (",
    '{"fingerprint": NaN}': "line: found no JSON (NaN is no JSON number), expected an object",
    '{"id": "1", "fingerprint": "1", "id": "2"}': "line: found no JSON (found 'id' twice in an object",
    '{"a":' * 100_000: "line: found no JSON (maximum recursion depth exceeded",
    '{"fingerprint": "\udcff"}': "line: found no JSON ('utf-8' codec can't decode",
}
# What the end of the input cuts may have been longer: in a store of names, of numbers, or without ids.
CUT = {
    "9f3a5c00": "found '9f3a5c00' with no line feed behind it, expected one, or 16 digits",
    "": None,
    " ": "found '', expected",
    "0x9f3a5c00": "found '0x9f3a5c00' with no line feed behind it",
    "9f3a5c0012ab44d": "found '9f3a5c0012ab44d' with no line feed behind it",
    "9f3a5c0012ab44de": "",
    "0x9f3a5c0012ab44de": "",
    "0x9f3a5c0012ab44": "found '0x9f3a5c0012ab44' with no line feed behind it",
    '{"fingerprint": "9f3a"}': "",
    '{"fingerprint": "9f3a"': "line: found no JSON (",
}
BAD_IDS = {
    '{"fingerprint": "1"}': "id: found none, expected one, as the store has ids",
    '{"fingerprint": "1", "id": "x"}': "id: found 'x', expected a decimal number from -2**63 to 2**64 - 1",
    '{"fingerprint": "1", "id": 1.5}': "id: found 1.5, expected a decimal number",
    '{"fingerprint": "1", "id": 1e400}': "id: found inf, expected a decimal number",
    '{"fingerprint": "1", "id": true}': "id: found True, expected a decimal number",
    '{"fingerprint": "1", "id": ["1"]}': "id: found ['1'], expected a decimal number",
    '{"fingerprint": "1", "id": "18446744073709551616"}': "id: found '18446744073709551616', expected a decimal number",
    '{"fingerprint": "1", "id": 9007199254740993}': "id: found the number 9007199254740993, expected a string, as many",
}


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_line_is_answered_by_its_error_and_the_next_goes_on(unchanged: Path, bad: str) -> None:
    with fpstore.open(unchanged) as opened:
        before, error, after = asked(probing(opened, 0), "5", bad, "5")
    assert message(error).startswith(BAD[bad])
    assert error["error"]["type"] == "BadInput"
    assert [match["id"] for match in before["matches"]] == [match["id"] for match in after["matches"]] == ["3"]


@pytest.mark.parametrize("cut", CUT, ids=range(len(CUT)))
def test_a_line_that_its_writer_did_not_end_is_not_taken_for_another(tmp_path: Path, cut: str) -> None:
    told = CUT[cut]
    with fpstore.create(tmp_path / "s", id_type=None) as opened:
        found: list[str] = []
        read = BytesIO(f"ffff000000000000\n{cut}".encode()).read
        answer_lines(read, found.append, lambda: None, None, adding(opened, 0, None))
        first, *rest = map(json.loads, found)
        assert first["stored"]
        assert [("error" in answer) for answer in rest] == ([] if told is None else [told != ""])
        assert all((told or "") in message(answer) for answer in rest if "error" in answer)
        assert opened.count() == (2 if told == "" else 1)


@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes"])
def test_an_id_that_may_have_been_rounded_is_refused_whatever_ids_are(tmp_path: Path, id_type: Any) -> None:
    with fpstore.create(tmp_path / "s", id_type=id_type) as opened:
        for number in (2**53 + 1, -(2**53) - 1, 2**64 - 1, 2**64, 10**400):
            (answer,) = asked(adding(opened, 0, None), json.dumps({"fingerprint": "5", "id": number}))
            assert message(answer).endswith("expected a string, as many programs round numbers above 2^53")
            with pytest.raises(fpstore.BadInput, match="ids, item 1: found the number"):
                forms.ids_of([1, number], id_type)
        assert opened.count() == 0
        exact = [1, 2**53, str(2**53 + 1)]
        assert [str(each.decode() if isinstance(each, bytes) else each) for each in forms.ids_of(exact, id_type)] == [
            str(each) for each in exact
        ]
        column = np.array([2**64 - 1], dtype=np.uint64)  # of Arrow, which rounds nothing
        assert str(forms.ids_of(column, id_type)[0]).strip("b'") == str(2**64 - 1)


@pytest.mark.parametrize("id_type", ["string", "bytes"])
@pytest.mark.parametrize("half", ["\ud800", "a\udbff", "\ud800\ud800"])
def test_half_a_character_is_no_name(tmp_path: Path, id_type: Any, half: str) -> None:
    with pytest.raises(fpstore.BadInput, match=r"ids, item 1: found '.*', expected text of at most 65536 bytes"):
        forms.ids_of(["good", half], id_type)


@pytest.mark.parametrize("bad", BAD_IDS, ids=range(len(BAD_IDS)))
def test_a_bad_id_costs_its_line_alone(tmp_path: Path, bad: str) -> None:
    with fpstore.create(tmp_path / "s") as opened:
        before, error, after = asked(
            adding(opened, 0, None), {"fingerprint": "5", "id": "1"}, bad, {"fingerprint": "6", "id": "2"}
        )
        assert message(error).startswith(BAD_IDS[bad])
        assert (before["stored"], after["stored"], opened.count()) == (True, True, 2)


def test_a_line_with_too_many_matches_is_an_error_and_never_a_shorter_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_MATCHES", 5)
    with fpstore.build(tmp_path / "s", [5] * 6 + [1 << 40] * 3) as opened:
        many, few, most = asked(probing(opened, 0), "5", f"{1 << 40:x}", f"{1 << 40:x}")
    assert many["error"]["type"] == "TooManyMatches"
    assert "1 queries: found more than 6 matches, expected at most 5" in message(many)
    assert [len(answer["matches"]) for answer in (few, most)] == [3, 3]


def test_what_is_wrong_with_the_store_ends_it() -> None:
    def ask(rows: Rows) -> list[str]:
        raise StoreChanged("another store lies there")

    with pytest.raises(StoreChanged):
        asked(ask, "1", "2")

    class Broken:
        def fingerprint_many(self, texts: list[str], *, threads: int) -> object:
            raise MemoryError

    with pytest.raises(MemoryError):
        asked(ask, {"text": "a"}, recipe=Broken())  # type: ignore[arg-type]


# --- Lines as they come ---


@given(st.lists(st.binary(max_size=12)), st.integers(1, 7))
@settings(max_examples=100)
def test_lines_are_those_that_were_written_however_they_come(pieces: list[bytes], size: int) -> None:
    data = b"\n".join(pieces)
    source = BytesIO(data)
    found = [line for block in blocks_of(lambda most: source.read(size)) for line in block]
    assert found == [*BytesIO(data)]


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("end", [b"", b"\nafter"])
def test_a_line_over_the_limit_is_one_error_and_is_not_held(
    monkeypatch: pytest.MonkeyPatch, size: int, end: bytes
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    source = BytesIO(b"before\n" + b"x" * 50 + end)
    found = [line for block in blocks_of(lambda most: source.read(size)) for line in block]
    assert found == [b"before\n", None, *([b"after"] if end else [])]
    with pytest.raises(fpstore.BadInput, match="line: found more than 10 bytes, expected at most so many"):
        lines.read_line(None, None, of_fingerprints(64))


def test_lines_that_came_together_are_answered_as_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    keys = np.repeat(uniform(40, rng), 5) ^ (np.uint64(1) << rng.integers(0, 64, 200, dtype=np.uint64))
    rows = [{"fingerprint": f"{key:x}", "id": str(number)} for number, key in enumerate(keys.tolist())]
    with fpstore.create(tmp_path / "a") as one, fpstore.create(tmp_path / "b") as other:
        together = asked(adding(one, None, None), *rows)
        ask = adding(other, None, None)
        alone = [{**asked(ask, row)[0], "line": number} for number, row in enumerate(rows)]
        assert together == alone
        assert 0 < one.count() < 200


def test_objects_are_written_in_the_words_of_the_tables() -> None:
    matches = fpstore.Matches(
        np.zeros(1, np.int64), np.ones(1, np.uint64), np.zeros(1, np.uint16), np.ones(1, np.uint64)
    )
    (found,) = forms.matches_of(matches, 64, with_query=True)
    assert tuple(json.loads(found)) == matches.NAMES
    none = fpstore.Additions(np.ones(1, bool), np.zeros(1, np.uint64), np.zeros(1, np.uint16), None)
    (became,) = forms.additions_of(none, 64)
    assert tuple(json.loads(f"{{{became}}}")) == none.NAMES


def test_ids_are_strings_whatever_they_are() -> None:
    assert [*forms.cells_of(None, 2)] == ["null", "null"]
    assert [*forms.cells_of(np.array([0, 2**64 - 1], dtype=np.uint64), 2)] == ['"0"', f'"{2**64 - 1}"']
    assert [*forms.cells_of(np.array([-1], dtype=np.int64), 1)] == ['"-1"']
    names = ['a "name"\n', "ünï", b"\xff/", ""]
    cells = [*forms.cells_of(np.array(names, dtype=object), 4)]
    assert [json.loads(cell) for cell in cells] == ['a "name"\n', "ünï", "\udcff/", ""]
    assert all(map(str.isascii, cells))


# --- The commands ---


def test_the_commands_answer_a_file_of_lines(command: Command, store: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('5\n{"fingerprint": "77777777", "id": "8"}')
    outcome = command("probe", store, "--input", tmp_path / "lines", "--unbuffered", "-k", 0)
    assert (outcome.status, outcome.err) == (0, "")
    assert [len(json.loads(line)["matches"]) for line in outcome.lines] == [1, 0]
    outcome = command("add", store, tmp_path / "lines", "--if-new", "--unbuffered", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert ["error" in json.loads(line) for line in outcome.lines] == [True, False]
    outcome = command("add", store, tmp_path / "lines", "--if-new", "--unbuffered", "--ids", "from:50", "-k", 0)
    assert [json.loads(line).get("match_id") for line in outcome.lines] == ["3", None]


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_lines_that_are_packed_are_refused(
    command: Command, unchanged: Path, tmp_path: Path, packed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.packed"
    path.write_bytes(packed(b"5\n"))
    for name, source_path in ((path, path), ("standard input", "-")):
        with open(path) as source:
            monkeypatch.setattr("sys.stdin", source)
            outcome = command("probe", unchanged, "--input", source_path, "--unbuffered")
        assert (outcome.status, outcome.out) == (1, "")
        assert f"{name}: found bytes packed by " in outcome.err
    path.write_bytes(b"5\n" + packed(b"5\n"))  # no mark at its beginning: lines, of which some are bad
    assert command("probe", unchanged, "--input", path, "--unbuffered").status == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("probe", "STORE", "--unbuffered"), "--unbuffered goes with --input"),
        (
            ("probe", "STORE", "5", "--unbuffered"),
            "--unbuffered goes with --input",
        ),
        (
            ("probe", "STORE", "5", "--input", "-", "--unbuffered"),
            "--unbuffered goes without a FINGERPRINT or --text",
        ),
        (("probe", "STORE", "--input", "-", "--unbuffered", "--header"), "--header goes without --unbuffered"),
        (("probe", "STORE", "--input", "-", "--unbuffered", "--format", "hex"), "--format goes without --unbuffered"),
        (("probe", "STORE", "--input", "-", "--unbuffered", "--idf", "x"), "found no recipe for texts in the store"),
        (("add", "STORE", "-", "--unbuffered"), "--unbuffered goes with --if-new"),
        (
            ("add", "STORE", "-", "x", "--if-new", "--unbuffered"),
            "--unbuffered: found 2 INPUTs, expected one, such as -",
        ),
        (("add", "STORE", "-", "--if-new", "--unbuffered", "--signed"), "--signed goes without --unbuffered"),
        (
            ("add", "STORE", "-", "--if-new", "--unbuffered", "--id-column", "x"),
            "--id-column goes without --unbuffered",
        ),
    ],
)
def test_what_a_coprocess_has_no_use_for_is_refused(
    command: Command, unchanged: Path, arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        outcome = command(*(unchanged if each == "STORE" else each for each in arguments))
    assert (outcome.status, outcome.out) == (2, "")
    assert told in outcome.err


@pytest.mark.slow
def test_standard_input_that_is_closed_is_one_line(store: Path) -> None:
    done = run_with_closed((0,), "probe", store, "--input", "-", "--unbuffered")
    assert done == (1, "", "fpstore: standard input: closed, expected an open one\n")


# --- Processes ---


class Asking:
    """A coprocess that is asked a line at a time."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def ask(self, line: object) -> dict[str, Any]:
        written = line if isinstance(line, str) else json.dumps(line)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{written}\n".encode())
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=120)


@pytest.fixture
def probe(store: Path) -> Iterator[Asking]:
    with running(*FPSTORE, "probe", store, "--input", "-", "--unbuffered", stdin=subprocess.PIPE) as process:
        yield Asking(process)


@pytest.mark.slow
def test_a_line_is_answered_before_the_next_is_asked_and_by_what_others_have_written(
    store: Path, probe: Asking
) -> None:
    assert probe.ask("ff00000000")["matches"] == []
    with fpstore.open(store, "w") as writer:
        writer.add([0xFF00000000], ids=[77])
        assert [match["id"] for match in probe.ask("ff00000000")["matches"]] == ["77"]
        writer.remove(ids=[77])
        assert probe.ask("ff00000000")["matches"] == []
        writer.add([0xFF00000000], ids=[78])
        writer.compact()
        assert [match["id"] for match in probe.ask({"fingerprint": "ff00000000"})["matches"]] == ["78"]
    assert probe.end() == 0


@pytest.mark.slow
def test_an_addition_is_durable_when_it_is_answered(store: Path) -> None:
    with running(*FPSTORE, "add", store, "-", "--if-new", "--unbuffered", stdin=subprocess.PIPE) as process:
        asking = Asking(process)
        assert [asking.ask({"fingerprint": f"{key << 32:x}", "id": str(key)})["stored"] for key in (255, 255 << 9)]
        with fpstore.open(store) as reader:  # beside it
            assert len(reader.probe(255 << 32, max_distance=0)) == 1
        process.kill()
        process.wait()
    with fpstore.open(store) as reader:
        assert sorted(match.id or 0 for match in reader.probe_many([255 << 32, 255 << 41], max_distance=0)) == [
            255,
            255 << 9,
        ]


@pytest.mark.slow
def test_a_reader_that_leaves_and_ctrl_c_end_it(probe: Asking) -> None:
    assert probe.ask("5")["line"] == 0
    probe.process.send_signal(signal.SIGINT)
    assert probe.process.wait(timeout=120) == 130


@pytest.mark.slow
def test_a_closed_output_ends_it_with_141(store: Path) -> None:
    with running(*FPSTORE, "probe", store, "--input", "-", "--unbuffered", stdin=subprocess.PIPE) as process:
        assert Asking(process).ask("5")["line"] == 0
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"5\n")
        process.stdin.flush()
        assert process.wait(timeout=120) == 141


@pytest.mark.slow
def test_a_store_that_is_replaced_ends_it_with_status_4(store: Path, probe: Asking) -> None:
    assert probe.ask("5")["matches"]
    store.rename(store.with_name("aside"))
    fpstore.build(store, [5]).close()
    time.sleep(0.2)  # a reader looks where its path leads ten times a second
    with pytest.raises(json.JSONDecodeError):
        probe.ask("5")
    assert probe.process.wait(timeout=120) == 4


# --- Clients in other languages, as they stand in examples/ ---


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which examples find the command of this tree."""
    script = tmp_path / "fpstore-command"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fpstore "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "FPSTORE_COMMAND": str(script)}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="no node to run the client in JavaScript")
def test_a_client_in_javascript_asks(store: Path, environment: dict[str, str]) -> None:
    client = ["node", str(ROOT / "examples" / "probe.mjs"), str(store)]
    done = subprocess.run(
        [*client, f"{BASE:x}", "oops", "5"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line.split("\t")[2:] for line in done.stdout.splitlines()] == [
        ["0", "10"],
        ["1", str(2**64 - 1)],
        ["2", "9"],
        ["0", "3"],
    ]
    assert done.stderr == f"oops: fingerprint: found 'oops', expected {EXPECTED}\n"
    client[2] = str(store / "nosuch")
    done = subprocess.run([*client, "5"], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


@pytest.mark.slow
def test_a_client_in_bash_asks(store: Path, environment: dict[str, str]) -> None:
    rows = f"{BASE:x} 17\nff0000000000 18\nff0000000001 19\nzz 20\nff 21\n"
    client = [str(ROOT / "examples" / "add_if_new.sh"), str(store)]
    done = subprocess.run(client, env=environment, input=rows, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "18\n21\n"), done.stderr
    assert done.stderr.startswith("zz 20: {")
    with fpstore.open(store) as opened:
        assert opened.count() == 6
