"""What a message advises works: each case does what is told to, word for word, and then it goes well."""

import io
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from outcome import Command

import fpstore
from fpstore import jobs
from fpstore.inputs import BadInput
from fpstore.text import DEFAULT_RECIPE, recipes

HEX = "123456789abcdef0"
DIGITS = "1234567890123456"
WORDS = " ".join(f"word{number}" for number in range(60))
FEWER_VALUES = json.dumps({**recipes()["minhash-128"].to_json(), "name": "fewer", "values": 64})
Make = Callable[[], object]


def write(**files: Any) -> Make:
    """Files, in folders where their names say so; `__` stands for a dot, `___` for a slash."""

    def make() -> None:
        for name, content in files.items():
            path = Path(name.replace("___", "/").replace("__", "."))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def table(**columns: Any) -> Make:
    return lambda: pq.write_table(pa.table(columns), "a.parquet")


def non_utf8() -> None:
    for number in range(2):
        Path(f"in{number}\udcff.txt").write_text(WORDS)


def named_non_utf8(text: str) -> Make:
    return lambda: Path("in\udcff.jsonl").write_text(text)


def half_a_pair() -> None:
    Path("a.jsonl").write_text('{"text": "one \\ud800"}\n')


def objects(*records: dict[str, object]) -> Make:
    return write(a__jsonl="".join(json.dumps(record) + "\n" for record in records))


def names_store() -> None:
    fpstore.build("names.fpstore", [5], ids=["x"], id_type="string").close()
    write(a__csv=f"fingerprint,id\n{HEX},\n")()


def interrupted() -> None:
    """A job that a bad line ended, and then another input."""
    Path("a.jsonl").write_text('{"text": "one"}\n')
    Path("b.jsonl").write_text("bad\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.jobs.corpus.BATCH_DOCUMENTS", 1)
        with pytest.raises(BadInput):
            jobs.dedup(["a.jsonl", "b.jsonl"], "k.jsonl")
    Path("a.jsonl").write_text('{"text": "other"}\n')
    Path("b.jsonl").write_text('{"text": "two"}\n')


WITH_BYTES = pa.array([b"\xff"], pa.binary())
# What is made, what is asked, what is said, and what then goes well, of each thing that is advised.
ADVICE: dict[str, tuple[Make, str, str, list[str]]] = {
    # --- Columns ---
    "a fingerprint column": (
        write(a__csv=f"a,b\n{HEX},2\n"),
        "build s a.csv",
        "or fingerprint_column (--fingerprint-column)",
        ["build s a.csv --fingerprint-column a"],
    ),
    "fingerprints or texts": (
        write(a__csv=f"hash,text\n{HEX},one\n"),
        "build s a.csv",
        "fingerprint_column (--fingerprint-column) or text_column (--text-column)",
        ["build s a.csv --fingerprint-column hash", "build t a.csv --text-column text"],
    ),
    "fingerprints or texts, of JSON": (
        objects({"hash": HEX, "text": "one"}),
        "build s a.jsonl",
        "fingerprint_column (--fingerprint-column) or text_column (--text-column)",
        ["build s a.jsonl --fingerprint-column hash", "build t a.jsonl --text-column text"],
    ),
    "a text column of JSON": (
        objects({"body": "one"}),
        "dedup a.jsonl -o k.jsonl",
        "or text_column (--text-column)",
        ["dedup a.jsonl -o k.jsonl --text-column body"],
    ),
    "a text column of a table": (
        write(a__csv="body,x\none,2\n"),
        "dedup a.csv -o k.jsonl",
        "text_column (--text-column) to name their column",
        ["dedup a.csv -o k.jsonl --text-column body"],
    ),
    "an id column": (
        write(a__csv=f"hash,key\n{HEX},2\n"),
        "add ids a.csv",
        "or id_column (--id-column)",
        ["add ids a.csv --id-column key"],
    ),
    "an id column of pairs": (
        write(a__csv=f"hash,key\n{HEX},2\n"),
        "remove ids --input a.csv --pairs",
        "or id_column (--id-column)",
        ["remove ids --input a.csv --pairs --id-column key"],
    ),
    "ids of rows": (
        write(a__csv=f"hash,id\n{HEX},x\n"),
        "build s a.csv",
        "ids (--ids) row",
        ["build s a.csv --ids row"],
    ),
    "ids of rows in a store with rows": (
        write(a__csv=f"hash,id\n{HEX},x\n"),
        "add ids a.csv",
        "ids (--ids) row (from:N in a store with rows)",
        ["add ids a.csv --ids from:1000000"],
    ),
    "ids that are names": (
        write(a__csv=f"hash,id\n{HEX},https://ex.org/0\n"),
        "build s a.csv",
        "or names as ids, in a store made with id_type (--id-type) string",
        ["build s a.csv --id-type string"],
    ),
    "names for a store of numbers": (
        write(a__csv=f"hash,id\n{HEX},https://ex.org/0\n"),
        "add ids a.csv",
        "or names as ids, in a store made with id_type (--id-type) string",
        ["create named --id-type string", "add named a.csv"],
    ),
    "which of two files has ids": (
        write(a__csv=f"hash,id\n{HEX},1\n", b__csv=f"hash\n{HEX}\n"),
        "build s a.csv b.csv",
        "ids (--ids) to say",
        ["build s a.csv b.csv --ids row"],
    ),
    "a header": (
        write(a__csv="id,body\n1,one\n"),
        "dedup a.csv -o k.jsonl --text-column 1",
        "header (--input-header or --no-input-header)",
        [f"dedup a.csv -o {no}.jsonl --text-column 1 --{no}input-header" for no in ("", "no-")],
    ),
    "a column is --id-column": (
        write(a__csv=f"hash,key\n{HEX},2\n"),
        "build s a.csv --ids key",
        "a column is --id-column",
        ["build s a.csv --id-column key"],
    ),
    # --- Formats ---
    "quotation marks in TSV": (
        write(a__tsv='text\tx\n"one"\t1\n'),
        "dedup a.tsv -o k.jsonl --text-column text",
        "format (--format) tsv-quoted, where such marks stand around cells, as pandas writes them, or tsv-plain",
        [f"dedup a.tsv -o {how}.jsonl --text-column text --format tsv-{how}" for how in ("quoted", "plain")],
    ),
    "tabs in CSV": (
        write(a__csv=f"id\thash\n1\t{HEX}\n"),
        "build s a.csv",
        "format (--format) tsv",
        ["build s a.csv --format tsv"],
    ),
    "commas in TSV": (
        write(a__tsv=f"id,hash\n1,{HEX}\n"),
        "build s a.tsv",
        "format (--format) csv",
        ["build s a.tsv --format csv"],
    ),
    "hexadecimal or decimal": (
        write(a__csv=f"hash\n{DIGITS}\n"),
        "build s a.csv",
        "fingerprint_format (--fingerprint-format) to say whether it is hex or decimal",
        [f"build {way} a.csv --fingerprint-format {way}" for way in ("hex", "decimal")],
    ),
    "few digits": (
        write(a__hex=f"{HEX}\nff\n"),
        "build s a.hex",
        "fingerprint_format (--fingerprint-format) hex, for fewer digits",
        ["build s a.hex --fingerprint-format hex"],
    ),
    "the bits of narrow hexadecimal": (
        write(a__csv="hash\ndeadbeef\n"),
        "build s a.csv",
        "; it has 32 bits; or fingerprint_format (--fingerprint-format) hex, for fewer digits",
        ["build s a.csv --bits 32", "build t a.csv --fingerprint-format hex"],
    ),
    "narrow hexadecimal with zeros in front": (
        write(a__csv="hash\n0012\n0034\n"),
        "build s a.csv",
        "fingerprint_format (--fingerprint-format) hex or decimal, for fewer digits",
        [f"build {way} a.csv --fingerprint-format {way}" for way in ("hex", "decimal")],
    ),
    "decimal lines": (
        write(a__hex="77\n78\n"),
        "build s a.hex",
        "fingerprint_format (--fingerprint-format) hex, for fewer digits, or decimal, where all are that",
        [f"build {way} a.hex --fingerprint-format {way}" for way in ("hex", "decimal")],
    ),
    "decimal lines among others": (
        write(a__hex=f"{HEX}\n77\n"),
        "build s a.hex",
        "fingerprint_format (--fingerprint-format) hex, for fewer digits, or",
        ["build s a.hex --fingerprint-format hex"],
    ),
    "decimal lines that are said to be hexadecimal": (
        write(a__txt="12345678901234567890\n77\n"),
        "build s a.txt --format hex",
        "expected hexadecimal, as format hex has it; or fingerprint_format (--fingerprint-format) decimal, where all",
        ["build s a.txt --format hex --fingerprint-format decimal"],
    ),
    "lines of fingerprints and names": (
        write(a__hex=f"{HEX}\tone\n{HEX}\ttwo\n"),
        "build s a.hex",
        "or ids (--ids) row (from:N in a store with rows), or names as ids, read as a table (--format tsv"
        " --no-input-header --fingerprint-column 0 --id-column 1), in a store made with id_type (--id-type) string",
        [
            "build s a.hex --ids row",
            "build t a.hex --format tsv --no-input-header --fingerprint-column 0 --id-column 1 --id-type string",
        ],
    ),
    "lines of fingerprints and names, in a store of names": (
        write(a__hex=f"{HEX}\tone\n"),
        "build s a.hex --id-type string",
        "format hex does not hold; expected a table, or to read lines as a table (--format tsv --no-input-header"
        " --fingerprint-column 0 --id-column 1)",
        ["build s a.hex --id-type string --format tsv --no-input-header --fingerprint-column 0 --id-column 1"],
    ),
    "a folder of one kind": (
        write(in___a="one", in___b="two"),
        "dedup in -o k.jsonl",
        "--format text: each is a text",
        ["dedup in -o k.jsonl --format text"],
    ),
    "a pattern for some files of a folder": (
        write(in___a__jsonl='{"text": "one"}', in___b__bin=b"\0\1"),
        "dedup in -o k.jsonl",
        "such as 'in/**/*.jsonl'",
        ["dedup 'in/**/*.jsonl' -o k.jsonl"],
    ),
    "a pattern for some files of a folder that looks like one": (
        write(**{"in[1]___a__jsonl": '{"text": "one"}', "in[1]___b__bin": b"\0\1"}),
        "dedup in[1] -o k.jsonl",
        "such as 'in[[]1]/**/*.jsonl'",
        ["dedup 'in[[]1]/**/*.jsonl' -o k.jsonl"],
    ),
    "a format of standard input": (
        write(a__csv="x"),
        "build s - --format auto",
        "expected one of npy, u64, hex",
        ["build s - --format hex"],
    ),
    "ids of what has none": (
        write(a__hex=HEX),
        "add ids a.hex",
        "ids (--ids) for row numbers",
        ["add ids a.hex --ids from:100"],
    ),
    "ids of an array": (
        lambda: np.save("a.npy", np.arange(3, dtype=np.uint64)),
        "add ids a.npy",
        "from:N for format npy",
        ["add ids a.npy --ids from:100"],
    ),
    "row numbers that are there": (
        write(a__csv=f"hash\n{HEX}\n"),
        "add ids a.csv --ids row",
        "from:N with an N above every id",
        ["add ids a.csv --ids from:100"],
    ),
    # --- Results ---
    "inputs of two kinds": (
        write(a__csv="text\none\n", b__jsonl='{"text": "two"}'),
        "dedup a.csv b.jsonl -o k.csv --text-column text",
        "-o NAME.jsonl can hold any",
        ["dedup a.csv b.jsonl -o k.jsonl --text-column text"],
    ),
    "lines that are no UTF-8": (
        write(a__csv=b"text,x\none,\xff\n"),
        "dedup a.csv -o k.jsonl --text-column text",
        "or -o NAME.csv, which has the lines as they stand",
        ["dedup a.csv -o k.csv --text-column text"],
    ),
    "lines of quoted TSV that are no UTF-8": (
        write(a__tsv=b'text\tx\n"one"\t\xff\n'),
        "dedup a.tsv -o k.jsonl --text-column text --format tsv-quoted",
        "or -o NAME.tsv, which has the lines as they stand",
        ["dedup a.tsv -o k.tsv --text-column text --format tsv-quoted"],
    ),
    "two columns of one name": (
        write(a__csv="text,x,x\none,2,3\n"),
        "dedup a.csv -o k.jsonl --text-column text",
        "or -o NAME of the same format",
        ["dedup a.csv -o k.csv --text-column text"],
    ),
    "bytes": (
        table(text=["one"], x=WITH_BYTES),
        "dedup a.parquet -o k.jsonl --text-column text",
        "or -o NAME.parquet",
        ["dedup a.parquet -o k.parquet --text-column text"],
    ),
    "values of two types": (
        objects({"text": "one", "x": 1}, {"text": "two", "x": "2"}),
        "dedup a.jsonl -o k.parquet",
        "write NAME.jsonl in its place",
        ["dedup a.jsonl -o k.jsonl"],
    ),
    "values of two types, far within": (
        objects({"text": "one", "x": [1]}, {"text": WORDS, "x": ["2"]}),
        "dedup a.jsonl -o k.parquet",
        "write NAME.jsonl in its place",
        ["dedup a.jsonl -o k.jsonl"],
    ),
    "objects without fields, and a store": (
        objects({"text": "one", "x": {}}, {"text": WORDS, "x": {}}),
        "dedup a.jsonl -o k.parquet --store new",
        "k.parquet.job: has what was done; remove it, as the same command would meet the same values",
        ["rm k.parquet.job", "dedup a.jsonl -o k.jsonl --store new"],
    ),
    "a field to keep by that no document has, and a store": (
        objects({"text": "one", "x": 1}, {"text": WORDS, "x": 2}),
        "dedup a.jsonl -o k.jsonl --store new --keep max:y",
        "k.jsonl.job: has what was done; remove it, as the same command would meet the same values",
        ["rm k.jsonl.job", "dedup a.jsonl -o k.jsonl --store new --keep max:x"],
    ),
    "half a pair in CSV": (
        half_a_pair,
        "dedup a.jsonl -o k.csv",
        "write NAME.jsonl in its place",
        ["dedup a.jsonl -o k.jsonl"],
    ),
    "half a pair in Parquet": (
        half_a_pair,
        "dedup a.jsonl -o k.parquet --store new",
        "write NAME.jsonl in its place",
        ["dedup a.jsonl -o k.jsonl --store new"],
    ),
    "a field twice in CSV": (
        write(a__jsonl='{"text": "one", "x": {"y": 1, "y": 2}}'),
        "dedup a.jsonl -o k.csv",
        "found 'y' twice in an object, expected it once for k.csv; write NAME.jsonl in its place",
        ["dedup a.jsonl -o k.jsonl"],
    ),
    "names in dropped Parquet": (
        non_utf8,
        "dedup in0\udcff.txt in1\udcff.txt -o k.jsonl --dropped d.parquet",
        "expected one for d.parquet; write NAME.jsonl in its place",
        ["dedup in0\udcff.txt in1\udcff.txt -o k.jsonl --dropped d.jsonl"],
    ),
    "names that are to be ids": (
        non_utf8,
        "dedup in0\udcff.txt in1\udcff.txt -o k.jsonl --store new",
        "expected one that a store takes; rename the file",
        ["mv in0\udcff.txt a.txt", "mv in1\udcff.txt b.txt", "dedup a.txt b.txt -o k.jsonl --store new"],
    ),
    "names of lines that are to be ids": (
        named_non_utf8('{"text": "one", "url": "u"}\n'),
        "dedup in\udcff.jsonl -o k.jsonl --store new",
        "or name the documents by a column (--id-column)",
        ["dedup in\udcff.jsonl -o k.jsonl --store new --id-column url"],
    ),
    "names in kept Parquet": (
        non_utf8,
        "dedup in0\udcff.txt -o k.parquet",
        "expected one for k.parquet; write NAME.jsonl in its place",
        ["dedup in0\udcff.txt -o k.jsonl"],
    ),
    "names of tags in Parquet": (
        named_non_utf8('{"text": "one"}\n' * 2),
        "dedup in\udcff.jsonl -o k.parquet --tag",
        "expected one for k.parquet; write NAME.jsonl in its place",
        ["dedup in\udcff.jsonl -o k.jsonl --tag"],
    ),
    "names in clusters": (
        non_utf8,
        "cluster in0\udcff.txt -o c.parquet",
        "expected one for c.parquet; write NAME.jsonl in its place",
        ["cluster in0\udcff.txt -o c.jsonl"],
    ),
    "names in components": (
        non_utf8,
        "cluster in0\udcff.txt -o c.parquet --components",
        "expected one for c.parquet; write NAME.jsonl in its place",
        ["cluster in0\udcff.txt -o c.jsonl --components"],
    ),
    "names in pairs": (
        non_utf8,
        "document-pairs in0\udcff.txt -o c.parquet",
        "expected one for c.parquet; write NAME.jsonl in its place",
        ["document-pairs in0\udcff.txt -o c.jsonl"],
    ),
    "fingerprints in base64": (
        write(a__csv="fp\nASNFZ4mrze8=\nASNFZ4mrze4=\n"),
        "build s a.csv",
        "or fingerprint_format (--fingerprint-format) base64",
        ["build s a.csv --fingerprint-format base64"],
    ),
    "fingerprints in base64, the lowest byte first": (
        write(a__csv="fp\nASNFZ4mrze8=\nASNFZ4mrze4=\n"),
        "build s a.csv --byte-order little",
        "with byte_order (--byte-order) little; or fingerprint_format (--fingerprint-format) base64",
        ["build s a.csv --byte-order little --fingerprint-format base64"],
    ),
    "bands that a signature of fewer values has not": (
        write(a__jsonl='{"text": "one two three four"}', r__json=FEWER_VALUES),
        "dedup a.jsonl -o k.jsonl --recipe r.json",
        "bands (--bands) and rows_per_band (--rows-per-band) say so",
        ["dedup a.jsonl -o k.jsonl --recipe r.json --bands 8 --rows-per-band 8"],
    ),
    # --- Jobs and files ---
    "a result that is there": (
        write(a__jsonl='{"text": "one"}', k__jsonl="x"),
        "dedup a.jsonl -o k.jsonl",
        "--force replaces it",
        ["dedup a.jsonl -o k.jsonl --force"],
    ),
    "an interrupted job whose input has changed": (
        interrupted,
        "dedup a.jsonl b.jsonl -o k.jsonl",
        "--force begins again",
        ["dedup a.jsonl b.jsonl -o k.jsonl --force"],
    ),
    "an interrupted job with other options": (
        interrupted,
        "dedup a.jsonl b.jsonl -o k.jsonl -k 2",
        "begin again with --force",
        ["dedup a.jsonl b.jsonl -o k.jsonl -k 2 --force"],
    ),
    "standard output and a store": (
        objects({"text": "one"}),
        "dedup a.jsonl -o - --store new",
        "expected a file (-o)",
        ["dedup a.jsonl -o k.jsonl --store new"],
    ),
    "a store that is there": (
        write(a__hex=HEX),
        "build ids a.hex",
        "force",
        ["build ids a.hex --force"],
    ),
    "an export that is there": (write(e__csv=""), "export ids e.csv", "--force", ["export ids e.csv --force"]),
    "an export without ids": (write(), "export ids e.u64", "or --no-ids", ["export ids e.u64 --no-ids"]),
    "an export of no suffix": (write(), "export ids e", "or --format", ["export ids e --format csv"]),
    "short texts": (
        objects({"text": "one two"}),
        "build s a.jsonl",
        "k = 6 finds more",
        ["build t a.jsonl -k 6", "dedup a.jsonl -o k.jsonl -k 6", "cluster a.jsonl -o k.tsv -k 6"],
    ),
    # --- What is typed ---
    "a decimal number": (
        write(),
        "probe ids 12345678901234567",
        "or --decimal",
        ["probe ids --decimal 12345678901234567"],
    ),
    "a number below 0": (
        write(),
        "probe ids -5",
        "-- before a number below 0, and --decimal before that",
        ["probe ids --decimal -- -5"],
    ),
    "a text": (write(), "probe texts words", "or --text for a text", ["probe texts --text words"]),
    "values of two types of --keep": (
        objects({"text": "one", "x": 1}, {"text": "two", "x": "2"}),
        "dedup a.jsonl -o k.jsonl --keep max:x",
        "expected numbers only, or texts only, for --keep",
        ["dedup a.jsonl -o k.jsonl --keep max:text"],
    ),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a store that has ids, and one of texts."""
    monkeypatch.chdir(tmp_path)
    fpstore.build("ids", np.arange(3, dtype=np.uint64)).close()
    fpstore.build("texts", np.arange(3, dtype=np.uint64), recipe=DEFAULT_RECIPE).close()


@pytest.mark.usefixtures("place")
@pytest.mark.filterwarnings("ignore:.*was undone")
@pytest.mark.parametrize(("make", "asked", "said", "then"), ADVICE.values(), ids=ADVICE)
def test_what_a_message_advises_goes_well(
    command: Command, monkeypatch: pytest.MonkeyPatch, make: Make, asked: str, said: str, then: list[str]
) -> None:
    make()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    outcome = command(*shlex.split(asked))
    assert outcome.status != 0 or "warning" in outcome.err
    assert said in outcome.err
    for line in then:
        if line.startswith("rm "):
            shutil.rmtree(line.removeprefix("rm "))
            continue
        if line.startswith("mv "):
            Path(line.split()[1]).rename(line.split()[2])
            continue
        outcome = command(*shlex.split(line))
        assert (outcome.status, "internal" in outcome.err) == (0, False), outcome.err


# Advice that would not be taken there, by commands that have no such option.
WITHOUT = {
    "remove of pairs with a bad id": (
        write(a__csv=f"hash,id\n{HEX},x\n"),
        "remove ids --input a.csv --pairs",
        "--ids",
    ),
    "remove of pairs without ids": (write(a__csv=f"hash,key\n{HEX},x\n"), "remove ids --input a.csv --pairs", "--ids"),
    "remove of pairs of lines without ids": (write(a__hex=HEX), "remove ids --input a.hex --pairs", "--ids"),
    "names": (
        write(a__csv=f"hash,key\n{HEX},x\n"),
        "build s a.csv --id-type string --ids column",
        "row numbers",
    ),
    "remove of ids of several columns": (write(a__csv="a,b\n1,2\n"), "remove ids --id-input a.csv", "--ids"),
    "lookup of ids of several columns": (write(a__csv="a,b\n1,2\n"), "lookup ids --input a.csv", "--ids"),
    "texts of several columns": (write(a__csv="a,b\n1,2\n"), "fingerprint a.csv", "--fingerprint-column"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("make", "asked", "unsaid"), WITHOUT.values(), ids=WITHOUT)
def test_no_message_advises_what_the_command_does_not_take(
    command: Command, make: Make, asked: str, unsaid: str
) -> None:
    make()
    outcome = command(*shlex.split(asked))
    assert outcome.status in (1, 2)
    assert unsaid not in outcome.err
    options = set(re.findall(r"--[a-z][a-z-]+", outcome.err)) - {"--help"}
    known = command(asked.split()[0], "--help").out
    assert all(option in known for option in options)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("form", ["kept.parquet", "kept.csv"])
def test_what_a_result_cannot_hold_is_a_bad_row_of_the_job(form: str) -> None:
    """Told when the document comes and not when all is done; passed over where bad rows are."""
    Path("a.jsonl").write_text('{"text": "one"}\n{"text": "two \\udcff"}\n{"text": "three \\u00e9"}\n')
    with pytest.raises(BadInput, match=r"a\.jsonl:2: found half of a surrogate pair, expected text for kept"):
        jobs.dedup(["a.jsonl"], form)
    summary = jobs.dedup(jobs.Inputs(["a.jsonl"], skip_bad=True), form)
    assert (summary.documents, dict(summary.skipped)) == (2, {"bad row": 1})
