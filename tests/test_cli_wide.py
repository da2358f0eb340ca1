"""Wide fingerprints on the command line: what is served is as of any store, what is not there yet is refused."""

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
    assert "flips-11:1,2,2,2,2,2,2,2,2,2,2" in command("plan", "--n", "1e7", "-k", "31", "--bits", "256").out


def test_commands_refuse_what_is_not_there_yet_for_wide_fingerprints(tmp_path: Path, command: Command) -> None:
    store, given = tmp_path / "s.fpstore", tmp_path / "a.hex"
    given.write_text("0" * 32 + "\n")
    assert command("build", store, given, "--bits", "128").status == 0
    (tmp_path / "a.csv").write_text("x\n")
    told = "not there yet for fingerprints of 128 bits"
    refused: list[tuple[str, tuple[object, ...]]] = [
        (f"format csv: {told}, expected hex or npy", ("build", tmp_path / "t", tmp_path / "a.csv", "--bits", "128")),
        (f"--skip-bad: {told}", ("build", tmp_path / "t", given, "--bits", "128", "--skip-bad")),
        (f"--signed: {told}", ("probe", store, "0" * 32, "--signed")),
        (f"--unbuffered: {told}", ("probe", store, "--input", given, "--unbuffered")),
        ("expected 32 hexadecimal digits (128 bits)", ("probe", store, "00")),
        (f"format csv: {told}", ("export", store, tmp_path / "o.csv")),
        (f"pairs: {told}", ("pairs", store)),
        (f"recover: {told}", ("recover", store, tmp_path / "t")),
        (f"a look into segments: {told}", ("inspect", store, "1")),
        (f"report: {told}", ("report", store)),
    ]
    for message, arguments in refused:
        outcome = command(*arguments)
        assert message in outcome.err, (arguments, outcome.err)
        assert outcome.status in (1, 2)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("12\n", (), "a.hex, line 1: found '12', expected 32 hexadecimal digits (128 bits)"),
        ("g" * 32 + "\n", (), "a.hex, line 1: found "),
        ("0" * 32 + "\tx\n", (), "a.hex, line 1: found id 'x', expected a decimal number from 0 to 2**64 - 1"),
        ("0" * 32 + "\n", ("--ids", "column"), "a.hex, line 1: found no tab, expected a fingerprint, a tab and an id"),
        ("0" * 32 + "\n\n" + "1" * 32 + "\n", (), "a.hex, line 2: found a blank line before others"),
        ("0" * 32 + "\n" + "1" * 32 + "\t7\n", (), "a.hex, line 2: found a tab, expected none, as in the first line"),
        ("0" * 32 + "\n" + "1" * 32 + "\t7\n", ("--ids", "none"), "a.hex, line 2: found a tab, expected none"),
        ("0" * 32 + "\t7\n" + "1" * 32 + "\n", ("--ids", "row"), "a.hex, line 2: found no tab, expected a fingerprint"),
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
        (np.zeros(4, np.uint64), (), "found uint64 of shape [4], expected uint64[n, 2] or uint8[n, 16]"),
        (np.zeros((4, 2), np.uint64), ("--ids", "column"), "found no ids in a .npy file"),
        (None, (), "found no array ("),
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
    assert (outcome.status, "found bytes behind the array, expected those of its header" in outcome.err) == (1, True)


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
