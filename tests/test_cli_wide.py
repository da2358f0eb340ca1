"""Wide fingerprints on the command line: what is served is as of any store, what is not there yet is refused."""

import base64
import json
import uuid
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from outcome import Command
from test_wide import many

import fpstore
from fpstore.fingerprints import as_bytes, as_hexadecimal


def test_commands_build_probe_and_export_wide_fingerprints(tmp_path: Path, command: Command) -> None:
    codes = many(256, 50, "random")
    written = as_hexadecimal(codes)
    (tmp_path / "a.hex").write_text("".join(f"{each}\t{i + 7}\n" for i, each in enumerate(written)))
    store = tmp_path / "s.fpstore"
    made = command("build", store, tmp_path / "a.hex", "--bits", "256", "-k", "31")
    assert made.status == 0, made.err
    query = f"{int(written[3], 16) ^ 5:064x}"
    assert command("probe", store, query).out == f"{query}\t{written[3]}\t2\t10\n"
    assert command("probe", store, "0x" + query.upper(), "-k", "1").out == ""
    assert command("lookup", store, "10").out == f"10\t{written[3]}\n"
    assert command("probe", store, "--input", tmp_path / "a.hex").out.count("\n") == 50
    assert command("verify", store).status == command("stats", store).status == 0
    assert command("export", store, tmp_path / "b.hex").status == 0
    assert sorted((tmp_path / "b.hex").read_text().splitlines()) == sorted(
        (tmp_path / "a.hex").read_text().splitlines()
    )
    np.save(tmp_path / "c.npy", codes)
    np.save(tmp_path / "d.npy", as_bytes(codes))
    for name in ("c.npy", "d.npy", "b.hex"):
        again = tmp_path / f"{name}.fpstore"
        made = command("build", again, tmp_path / name, "--bits", "256", "--ids", "none", "-k", "31")
        assert made.status == 0, made.err
        assert command("export", again, "-", "--format", "hex").out.splitlines() == sorted(written)
    assert command("build", tmp_path / "e", tmp_path / "c.npy", "--bits", "256", "--ids", "from:5").status == 0
    with fpstore.open(tmp_path / "e") as counted:
        assert [row.fingerprint for row in counted.lookup([5])] == [int(written[0], 16)]
    assert "spread-11:1,2,2,2,2,2,2,2,2,2,2" in command("plan", "--n", "1e7", "-k", "31", "--bits", "256").out


def test_every_format_that_holds_fingerprints_holds_wide_ones(tmp_path: Path, command: Command) -> None:
    written = as_hexadecimal(many(128, 30, "random"))
    uuids = [str(uuid.UUID(digits)) for digits in written]
    in_base64 = [base64.b64encode(bytes.fromhex(digits)).decode() for digits in written]
    numbers = [str(int(digits, 16)) for digits in written]
    expected = sorted(f"{digits}\t{i}" for i, digits in enumerate(written))
    forms: list[tuple[str, list[str], tuple[str, ...]]] = [
        ("uuid.csv", uuids, ()),
        ("decimal.tsv", numbers, ()),
        ("base64.csv", in_base64, ("--fingerprint-format", "base64")),
        ("hex.jsonl", written, ()),
    ]
    for name, values, options in forms:
        mark = "\t" if name.endswith("tsv") else ","
        lines = [f"id{mark}fingerprint", *(f"{i}{mark}{value}" for i, value in enumerate(values))]
        if name.endswith("jsonl"):
            lines = [json.dumps({"id": str(i), "fingerprint": value}) for i, value in enumerate(values)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        store = tmp_path / f"{name}.fpstore"
        made = command("build", store, tmp_path / name, "--bits", "128", "-k", "9", *options)
        assert made.status == 0, made.err
        assert sorted(command("export", store, "-", "--format", "hex").out.splitlines()) == expected
    for suffix in ("csv", "jsonl", *(["parquet"] if find_spec("pyarrow") else [])):
        assert command("export", store, tmp_path / f"o.{suffix}").status == 0
        again = tmp_path / f"{suffix}.fpstore"
        assert command("build", again, tmp_path / f"o.{suffix}", "--bits", "128", "-k", "9").status == 0
        assert sorted(command("export", again, "-", "--format", "hex").out.splitlines()) == expected
    assert command("export", store, tmp_path / "o.npy", "--no-ids").status == 0
    assert sorted(as_hexadecimal(np.load(tmp_path / "o.npy"))) == sorted(written)


def test_a_wide_store_lives_on_the_command_line(tmp_path: Path, command: Command) -> None:
    written = as_hexadecimal(many(256, 20, "random"))
    store, given = tmp_path / "s.fpstore", tmp_path / "a.hex"
    given.write_text("".join(f"{digits}\t{i}\n" for i, digits in enumerate(written)))
    assert command("create", store, "--bits", "256", "-k", "31").status == 0
    assert command("add", store, given).status == 0
    near_one = f"{int(written[4], 16) ^ 3:064x}"
    given.write_text(f"{near_one}\t99\n")
    assert command("add", store, given, "--if-new").out == f"99\t{near_one}\t{written[4]}\t2\t4\n"
    assert command("nearest", store, near_one).out == f"{near_one}\t{written[4]}\t2\t4\n"
    given.write_text(f"{near_one}\n")
    lines = command("probe", store, "--input", given, "--unbuffered").out
    assert json.loads(lines)["matches"] == [{"fingerprint": written[4], "distance": 2, "id": "4"}]
    assert "removed 1 row" in command("remove", store, written[4]).err
    assert "removed 1 row" in command("remove", store, "--pairs", written[5], "--id", "5").err
    assert "removed 1 row" in command("remove", store, "--id", "6").err
    assert command("compact", store).status == command("verify", store).status == 0
    assert command("add", store, given, "--ids", "from:200").status == 0
    given.write_text(f"{int(near_one, 16) ^ 8:064x}\n")
    assert command("add", store, given, "--ids", "from:300").status == 0
    pair = sorted([near_one, f"{int(near_one, 16) ^ 8:064x}"])
    assert command("pairs", store).out == f"{pair[0]}\t{pair[1]}\t1\n"
    assert command("pairs", store, "--of", "ids").out == "200\t300\t1\n"
    assert command("remove", store, "--id", "200", "--id", "300").status == 0
    left = [f"{digits}\t{i}" for i, digits in enumerate(written) if i not in (4, 5, 6)]
    assert sorted(command("export", store, "-", "--format", "hex").out.splitlines()) == sorted(left)


def test_commands_refuse_what_wide_fingerprints_do_not_have(tmp_path: Path, command: Command) -> None:
    store, given = tmp_path / "s.fpstore", tmp_path / "a.hex"
    given.write_text("0" * 32 + "\n")
    assert command("build", store, given, "--bits", "128").status == 0
    (tmp_path / "a.u64").write_bytes(bytes(16))
    u64 = "found format u64, of 64 bits each, expected npy, hex, a table or JSON lines for 128 bits"
    refused: list[tuple[str, tuple[object, ...]]] = [
        (u64, ("build", tmp_path / "t", tmp_path / "a.u64", "--bits", "128")),
        ("expected 32 hexadecimal digits (128 bits), or 0x and up to 32", ("probe", store, "0" * 33)),
        ("expected 32 hexadecimal digits (128 bits), or 0x and up to 32", ("probe", store, "0" * 31)),
        ("expected 32 hexadecimal digits (128 bits), or 0x and up to 32", ("nearest", store, "9f3a5c0012ab44de")),
        ("expected 32 hexadecimal digits (128 bits), or 0x and up to 32", ("remove", store, "0")),
        ("format u64 holds 64 bits each: found 128", ("export", store, tmp_path / "o.u64", "--no-ids")),
        ("codec: found 'gap', expected 'raw'", ("create", tmp_path / "t", "--bits", "128", "--codec", "gap")),
        ("codec: found 'gap', expected 'raw'", ("build", tmp_path / "t", given, "--bits", "128", "--codec", "gap")),
    ]
    for message, arguments in refused:
        outcome = command(*arguments)
        assert message in outcome.err, (arguments, outcome.err)
        assert outcome.status in (1, 2)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("12\n", (), "a.hex, line 1: found '12', expected hexadecimal"),
        ("g" * 32 + "\n", (), "a.hex, line 1: found "),
        ("0" * 32 + "\tx\n", (), "a.hex, line 1: found id 'x', expected a decimal number from -2**63 to 2**64 - 1"),
        ("0" * 32 + "\n", ("--ids", "column"), "a.hex, line 1: found no tab, expected a fingerprint, a tab and an id"),
        ("0" * 32 + "\n\n" + "1" * 32 + "\n", (), "a.hex, line 2: found '', expected 32"),
        ("0" * 32 + "\n" + "1" * 32 + "\t7\n", (), "7', expected 32 hexadecimal digits"),
        ("0" * 32 + "\n" + "1" * 32 + "\t7\n", ("--ids", "none"), "7', expected 32 hexadecimal digits"),
        ("0" * 32 + "\t7\n" + "1" * 32 + "\n", ("--ids", "row"), "1', expected a fingerprint, a tab and an id"),
    ],
)
def test_lines_that_are_no_wide_fingerprints_are_refused(
    text: str, options: tuple[str, ...], message: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "a.hex").write_text(text)
    outcome = command("build", tmp_path / "s", tmp_path / "a.hex", "--bits", "128", *options)
    assert outcome.status == 1
    assert message in outcome.err
    assert not (tmp_path / "s").exists()


def test_arrays_that_are_no_wide_fingerprints_are_refused(tmp_path: Path, command: Command) -> None:
    for array, options, message in (
        (np.zeros(4, np.uint64), (), "found uint64[4], expected uint64[n, 2] or uint8[n, 16]"),
        (np.zeros((4, 2), np.uint64), ("--ids", "column"), "found ids of a column, expected ids (--ids) row"),
        (None, (), "found no numpy header ("),
    ):
        np.save(tmp_path / "a.npy", np.zeros(1) if array is None else array)
        if array is None:
            (tmp_path / "a.npy").write_bytes(b"none")
        outcome = command("build", tmp_path / "s", tmp_path / "a.npy", "--bits", "128", *options)
        assert message in outcome.err, outcome.err


def test_an_array_with_bytes_behind_it_is_refused(tmp_path: Path, command: Command) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 2), np.uint64))
    with (tmp_path / "a.npy").open("ab") as file:
        file.write(b"more")
    outcome = command("build", tmp_path / "s", tmp_path / "a.npy", "--bits", "128")
    assert (outcome.status, "bytes, expected 192 by its header" in outcome.err) == (1, True)


def test_files_with_ids_and_without_are_not_mixed(tmp_path: Path, command: Command) -> None:
    (tmp_path / "a.hex").write_text("\n" + "0" * 32 + "\t1\n\n")
    (tmp_path / "b.hex").write_text("1" * 32 + "\n")
    np.save(tmp_path / "c.npy", np.zeros((4, 2), np.uint64))
    for second in ("b.hex", "c.npy"):
        for files in (("a.hex", second), (second, "a.hex")):
            outcome = command("build", tmp_path / "s", *(tmp_path / file for file in files), "--bits", "128")
            assert outcome.status == 1
            assert f"{files[1]}: found " in outcome.err
            assert "in the files before; expected ids (--ids)" in outcome.err
    outcome = command("build", tmp_path / "s", tmp_path / "a.hex", tmp_path / "b.hex", "--bits", "128", "--ids", "row")
    assert outcome.status == 0


def test_an_empty_input_is_said_to_be_empty(command: Command, tmp_path: Path) -> None:
    (tmp_path / "none.hex").write_text("")
    outcome = command("build", tmp_path / "s", tmp_path / "none.hex", "--bits", "256")
    assert (outcome.status, "holds nothing, as the input is empty" in outcome.err + outcome.out) == (0, True)
