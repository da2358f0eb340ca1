"""Stores of fewer than 64 bits on the command line and for programs: how their fingerprints are written and read."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome import Command

import fpstore
from fpstore.inputs import BadInput, parse_fingerprint, read
from fpstore.inputs.cells import FingerprintColumn
from fpstore.serve import forms
from fpstore.serve.kinds import kind_of
from fpstore.serve.lines import answer_lines, probing


@pytest.fixture
def store(tmp_path: Path, command: Command) -> Path:
    (tmp_path / "a.hex").write_text("00ff12\n00FF13\nabcdef\n0x1\n")
    made = command("build", tmp_path / "s.fpstore", tmp_path / "a.hex", "--bits", "24")
    assert made.status == 0, made.err
    return tmp_path / "s.fpstore"


def test_fingerprints_are_written_with_the_digits_of_their_bits(store: Path, command: Command) -> None:
    assert command("probe", store, "ff12", "-k", "1").out == "00ff12\t00ff12\t0\t0\n00ff12\t00ff13\t1\t1\n"
    (line,) = command("probe", "--json", store, "abcdef").out.splitlines()
    assert (json.loads(line)["query_fingerprint"], json.loads(line)["fingerprint"]) == ("abcdef", "abcdef")
    assert command("lookup", store, "3").out == "3\t000001\n"
    assert command("pairs", store).out == "00ff12\t00ff13\t1\n"
    assert command("nearest", store, "--decimal", "65298").out == "00ff12\t00ff12\t0\t0\n"
    assert command("probe", store, "--signed", "ff12", "-k", "0").out == "65298\t65298\t0\t0\n"
    assert command("remove", store, "abcdef").status == 0
    assert command("probe", store, "abcdef").out == ""


@pytest.mark.parametrize("suffix", ["hex", "csv", "jsonl", "npy", "parquet"])
def test_what_a_narrow_store_exports_builds_it_again(
    store: Path, command: Command, tmp_path: Path, suffix: str
) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"out.{suffix}"
    assert command("export", store, output, "--no-ids").status == 0
    assert command("build", tmp_path / "t.fpstore", output, "--bits", "24", "--ids", "none").status == 0
    with fpstore.open(tmp_path / "t.fpstore") as built, fpstore.open(store) as first:
        assert built.bits == 24
        assert [row.fingerprint for rows in built.rows() for row in rows] == [
            row.fingerprint for rows in first.rows() for row in rows
        ]


@pytest.mark.parametrize("typed", ["1000000", "0x1000000", "00000000000000ff"])
def test_a_typed_fingerprint_of_more_bits_is_refused(store: Path, command: Command, typed: str) -> None:
    outcome = command("probe", store, typed)
    assert outcome.status == 2
    assert f"found '{typed}', expected 1 to 6 hexadecimal digits (24 bits)" in outcome.err


def test_a_file_of_wider_fingerprints_is_refused(store: Path, command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.array([1, 1 << 24], dtype=np.uint64))
    outcome = command("probe", store, "--input", tmp_path / "wide.npy")
    assert (outcome.status, "row 1: found 16777216, expected a fingerprint of 24 bits" in outcome.err) == (1, True)
    (tmp_path / "wide.hex").write_text("0000000000ff12aa\n")
    outcome = command("build", tmp_path / "t", tmp_path / "wide.hex", "--bits", "24")
    assert (outcome.status, "expected 6 hexadecimal digits (24 bits), or 0x and up to 6" in outcome.err) == (1, True)
    outcome = command("build", tmp_path / "t", tmp_path / "wide.hex", "--bits", "12")
    assert "bits: found 12, expected a multiple of 8 from 16 to 64, or 128 or 256" in outcome.err


def test_create_and_plan_take_bits(command: Command, tmp_path: Path) -> None:
    made = json.loads(command("create", "--json", tmp_path / "s.fpstore", "--bits", "40").out)
    assert (made["bits"], made["plan"]["bits"]) == (40, 40)
    assert json.loads(command("stats", "--json", tmp_path / "s.fpstore").out)["bits"] == 40
    planned = [json.loads(command("plan", "--json", "--n", "1e6", "--bits", str(bits)).out) for bits in (40, 64)]
    narrow, wide = (min(each["bytes_per_key"] for each in found["choices"]) for found in planned)
    assert wide - narrow >= 3  # 24 bits of every key of one table or more
    like = json.loads(command("plan", "--json", "--n", "1e6", "--like", tmp_path / "s.fpstore").out)
    assert like["choices"] == planned[0]["choices"]
    assert "of texts by recipe" in command("plan", "--n", "1e6").err
    assert "of texts by recipe" not in command("plan", "--n", "1e6", "--bits", "40").err


@pytest.mark.parametrize("bits", range(16, 65, 8))
def test_what_is_written_of_any_width_is_read(bits: int) -> None:
    digits, most = bits // 4, (1 << bits) - 1
    column = FingerprintColumn(bits=bits)
    written = [f"{most:x}", f"{1:0{digits}x}", hex(most), "0x1", bytes([255]) * (bits // 8)]
    values, bad = column.parse(written)
    assert (values.tolist(), bad) == ([most, 1, most, 1, most], {})
    assert FingerprintColumn.of_hex_lines(bits).parse(["f" * digits, "1" * digits])[0].tolist() == [
        most,
        int("1" * digits, 16),
    ]
    assert parse_fingerprint("f" * digits, bits=bits) == most
    with pytest.raises(BadInput, match=f"expected 1 to {digits} hexadecimal digits"):
        parse_fingerprint("1" + "0" * digits, bits=bits)
    either = FingerprintColumn(bits=bits)
    assert not either.decide(["1" * digits])
    decimal = FingerprintColumn("decimal", bits)
    assert decimal.parse([str(most)])[0].tolist() == [most]
    assert 0 in decimal.parse([str(most + 1)])[1]
    if bits < 64:
        values, bad = FingerprintColumn(bits=bits).parse(np.array([most, most + 1], dtype=np.uint64))
        assert (values.tolist(), bad) == ([most, 0], {1: f"a fingerprint of {bits} bits"})
        assert 0 in decimal.parse(["-1"])[1]
        assert 0 in FingerprintColumn(bits=bits).parse([b"\0" * 8])[1]


@pytest.mark.parametrize("bits", [0, 8, 20, 72])
def test_inputs_of_bits_that_no_fingerprint_has_are_refused(bits: int, tmp_path: Path) -> None:
    hint = "; 72 bits are kept as 128, with zeros below them" if bits == 72 else ""
    with pytest.raises(
        ValueError, match=f"^bits: found {bits}, expected a multiple of 8 from 16 to 64, or 128 or 256{hint}$"
    ):
        read([tmp_path / "none.hex"], bits=bits)


def test_lines_and_bodies_have_the_digits_of_the_store(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", [0xFF12, 0xFF13], bits=24) as store:
        found: list[str] = []
        parts = iter([b"ff12\n", b'{"fingerprint": "00ff13"}\n', b"1ff12\n", b"00ff12", b""])
        answer_lines(lambda size: next(parts), found.append, lambda: None, None, probing(store, 0), kind_of(store))
        told = [json.loads(line) for line in found]
        assert [line["query_fingerprint"] for line in told] == ["00ff12", "00ff13", "01ff12", "00ff12"]
        assert [match["fingerprint"] for match in told[1]["matches"]] == ["00ff13"]
        matches = store.probe(0xFF12)
        assert json.loads(next(forms.matches_of(matches, 24, with_query=True)))["fingerprint"] == "00ff12"
        rows = next(store.rows())
        assert json.loads(next(forms.rows_of(rows, 24)))["fingerprint"] == "00ff12"
    with pytest.raises(BadInput, match=r"expected 1 to 6 hexadecimal digits \(24 bits\)"):
        forms.fingerprints_of(["1000000"], 24)
