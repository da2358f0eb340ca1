"""Fingerprints whose lowest byte comes first: each format and width is read so, and what has no order is refused."""

import base64
import json
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome import Command

import fpstore
from fpstore import cluster
from fpstore.cli import columns
from fpstore.inputs import BadInput, parse_fingerprint, read
from fpstore.inputs.cells import FingerprintColumn
from fpstore.text import DEFAULT_RECIPE
from fpstore.types import BYTE_ORDERS

WIDTHS = (*range(16, 65, 8), 128, 256)
LITTLE: dict[str, Any] = {"byte_order": "little"}


def numbers_of(values: Any) -> list[int]:
    """Fingerprints as batches have them, as Python's numbers."""
    rows = values.reshape(len(values), -1).tolist()
    return [sum(word << 64 * at for at, word in enumerate(reversed(row))) for row in rows]


def read_numbers(path: Path, bits: int, **options: Any) -> list[int]:
    return [number for batch in read([path], bits=bits, **options) for number in numbers_of(batch.fingerprints)]


def some(bits: int) -> list[int]:
    """Numbers that are others with their bytes turned, some with zeros at one end."""
    return [1, (1 << bits) - 2, 0xAB << bits - 8, *(((1 << bits) // each) | 1 for each in (3, 7, 11))]


def packed_of(numbers: list[int], bits: int) -> list[bytes]:
    return [number.to_bytes(bits // 8, "little") for number in numbers]


def write_hex(folder: Path, packed: list[bytes]) -> Path:
    (folder / "a.hex").write_text("".join(f"{each.hex()}\n" for each in packed))
    return folder / "a.hex"


def write_marked(folder: Path, packed: list[bytes]) -> Path:
    (folder / "a.hex").write_text("".join(f"0x{each.hex().upper()}\n" for each in packed))
    return folder / "a.hex"


def write_ids(folder: Path, packed: list[bytes]) -> Path:
    lines = (f"{'0x' * (row % 2)}{each.hex()}\t{row}\n" for row, each in enumerate(packed))
    (folder / "a.hex").write_text("".join(lines))
    return folder / "a.hex"


def write_csv(folder: Path, packed: list[bytes]) -> Path:
    (folder / "a.csv").write_text("".join(f"{each}\n" for each in ["hash", *(each.hex() for each in packed)]))
    return folder / "a.csv"


def write_tsv(folder: Path, packed: list[bytes]) -> Path:
    lines = (f"{row}\t{'0X' * (row % 2)}{each.hex()}\n" for row, each in enumerate(packed))
    (folder / "a.tsv").write_text("id\thash\n" + "".join(lines))
    return folder / "a.tsv"


def write_jsonl(folder: Path, packed: list[bytes]) -> Path:
    (folder / "a.jsonl").write_text("".join(json.dumps({"hash": each.hex()}) + "\n" for each in packed))
    return folder / "a.jsonl"


def write_parquet(folder: Path, column: Any) -> Path:
    pq.write_table(pa.table({"hash": column}), folder / "a.parquet")
    return folder / "a.parquet"


def write_strings(folder: Path, packed: list[bytes]) -> Path:
    return write_parquet(folder, pa.array([each.hex() for each in packed]))


def write_binary(folder: Path, packed: list[bytes]) -> Path:
    return write_parquet(folder, pa.array(packed, pa.binary()))


def write_fixed(folder: Path, packed: list[bytes]) -> Path:
    return write_parquet(folder, pa.array(packed, pa.binary(len(packed[0]))))


def write_base64(folder: Path, packed: list[bytes]) -> Path:
    (folder / "a.csv").write_text("".join(f"{base64.b64encode(each).decode()}\n" for each in packed))
    return folder / "a.csv"


def write_rows(folder: Path, packed: list[bytes]) -> Path:
    np.save(folder / "a.npy", np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), -1))
    return folder / "a.npy"


def write_uuids(folder: Path, packed: list[bytes]) -> Path:
    (folder / "a.csv").write_text("".join(f"{uuid.UUID(bytes=each)}\n" for each in packed))
    return folder / "a.csv"


ANY_WIDTH = (
    write_hex,
    write_marked,
    write_ids,
    write_csv,
    write_tsv,
    write_jsonl,
    write_strings,
    write_binary,
    write_fixed,
    write_base64,
)
WRITTEN = [(bits, write) for bits in WIDTHS for write in ANY_WIDTH]
WRITTEN += [(128, write_rows), (256, write_rows), (128, write_uuids)]


@pytest.mark.parametrize(("bits", "write"), WRITTEN, ids=[f"{bits} {write.__name__}" for bits, write in WRITTEN])
def test_fingerprints_are_read_with_the_lowest_byte_first(tmp_path: Path, bits: int, write: Any) -> None:
    numbers = some(bits)
    path = write(tmp_path, packed_of(numbers, bits))
    way: dict[str, Any] = {"fingerprint_format": "base64"} if write is write_base64 else {}
    if write in (write_base64, write_uuids):
        way |= {"header": False}
    assert read_numbers(path, bits, **LITTLE, **way, batch=4) == numbers
    turned = [int.from_bytes(number.to_bytes(bits // 8, "little"), "big") for number in numbers]
    assert read_numbers(path, bits, byte_order="big", **way) == turned


@given(st.sampled_from(WIDTHS), st.data())
def test_what_is_written_with_the_lowest_byte_first_is_the_number(bits: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=1, max_size=5))
    written = [number.to_bytes(bits // 8, "little").hex() for number in numbers]
    marked = [f"0x{each}" if data.draw(st.booleans()) else each.upper() for each in written]
    for column in (written, marked):
        values, bad = FingerprintColumn(bits=bits, order="little").parse(column)
        assert (numbers_of(values), bad) == (numbers, {})
    assert [parse_fingerprint(each, bits=bits, byte_order="little") for each in marked] == numbers


@pytest.mark.parametrize("said", ["auto", "hex"])
@pytest.mark.parametrize("bits", [16, 64, 128, 256])
def test_fewer_digits_do_not_tell_which_byte_is_missing(tmp_path: Path, bits: int, said: str) -> None:
    digits = bits // 4
    whole = "ab" * (bits // 8)
    expected = (
        rf"expected {digits} hexadecimal digits \({bits} bits\), after 0x or not, with byte_order \(--byte-order\)"
    )
    for cut in (whole[1:], f"0x{whole[2:]}", f"{whole}0", "0x1", "5", "-1", "zz", ""):
        (tmp_path / "a.csv").write_text(f'id,hash\n1,{whole}\n2,"{cut}"\n')
        with pytest.raises(BadInput, match=f"line 3: found '{cut[:38]}.*{expected} little"):
            read_numbers(tmp_path / "a.csv", bits, fingerprint_format=said, **LITTLE)
        reader = read([tmp_path / "a.csv"], bits=bits, fingerprint_format=said, skip_bad=True, **LITTLE)
        assert [numbers_of(batch.fingerprints) for batch in reader] == [[int(whole, 16)]]
        assert reader.skipped == {"bad line": 1}
        with pytest.raises(BadInput, match=expected):
            parse_fingerprint(cut, bits=bits, byte_order="little")
    (tmp_path / "a.hex").write_text(f"{whole}\n{whole[2:]}\n")
    with pytest.raises(BadInput, match=f"line 2: found '{whole[2:38]}.*{expected} little"):
        read_numbers(tmp_path / "a.hex", bits, fingerprint_format=said, **LITTLE)


@pytest.mark.parametrize("bits", [64, 128])
def test_a_number_among_strings_is_bad_and_told_what_was_expected(tmp_path: Path, bits: int) -> None:
    whole = "0f" * (bits // 8)
    (tmp_path / "a.csv").write_text(f"hash\n{whole}\n18446744073709551615\n")
    with pytest.raises(BadInput, match=r"line 3: found '18446744073709551615', expected .*\(--byte-order\) little"):
        read_numbers(tmp_path / "a.csv", bits, **LITTLE)
    (tmp_path / "a.jsonl").write_text(f'{{"hash": "{whole}"}}\n{{"hash": 7}}\n')
    told = r"line 2: found 7, expected hexadecimal, base64 or bytes with byte_order \(--byte-order\) little: numbers"
    with pytest.raises(BadInput, match=told):
        read_numbers(tmp_path / "a.jsonl", bits, **LITTLE)
    assert read_numbers(tmp_path / "a.jsonl", bits, skip_bad=True, **LITTLE) == [int(whole, 16)]


def test_a_value_of_another_form_is_told_which() -> None:
    column = FingerprintColumn(bits=64, order="little")
    told = column.parse(["ab" * 16, base64.b64encode(bytes(8)).decode(), b"1234567"])[1]
    assert told[0].endswith("little; it has 128 bits")
    assert told[1].endswith("little; or fingerprint_format (--fingerprint-format) base64")
    assert told[2] == "8 bytes (64 bits)"
    said = FingerprintColumn("base64", 64, "little")
    assert said.parse(["ab" * 8, 7])[1].keys() == {0, 1}


@pytest.mark.parametrize(
    ("bits", "name", "options", "told"),
    [
        (
            64,
            "a.npy",
            {},
            r"a\.npy: found numbers \(format npy\), expected hexadecimal, base64 or bytes with byte_order",
        ),
        (
            64,
            "a.u64",
            {},
            r"a\.u64: found numbers \(format u64\), expected hexadecimal, base64 or bytes with byte_order",
        ),
        (128, "words.npy", {}, r"words\.npy: found uint64\[n, 2\], expected hexadecimal, base64 or bytes with"),
        (64, "a.parquet", {}, r"a\.parquet, column hash: found uint64, expected hexadecimal, base64 or bytes"),
        (64, "d.parquet", {}, r"d\.parquet, column hash: found decimal128\(20, 0\), expected hexadecimal, base64"),
        (
            64,
            "a.txt",
            {},
            r"a\.txt: found texts \(format text\), expected fingerprints with byte_order \(--byte-order\)",
        ),
        (64, "a.hex", {"fingerprint_format": "decimal"}, r"byte_order \(--byte-order\): found little with decimal"),
    ],
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_what_has_no_order_of_bytes_is_refused(
    tmp_path: Path, bits: int, name: str, options: dict[str, Any], told: str, skip_bad: bool
) -> None:
    np.save(tmp_path / "a.npy", np.array([5], dtype=np.uint64))
    np.save(tmp_path / "words.npy", np.array([[5, 6]], dtype=np.uint64))
    (tmp_path / "a.u64").write_bytes(bytes(8))
    pq.write_table(pa.table({"hash": pa.array([5], pa.uint64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"hash": pa.array([5], pa.decimal128(20, 0))}), tmp_path / "d.parquet")
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "a.hex").write_text("00000000000000ff\n")
    with pytest.raises(ValueError, match=told) as caught:
        list(read([tmp_path / name], bits=bits, skip_bad=skip_bad, **options, **LITTLE))
    assert not isinstance(caught.value, BadInput)  # what was asked is wrong, not what is there
    assert "byte_order (--byte-order)" in str(caught.value)
    list(read([tmp_path / name], bits=bits, **({} if name == "a.hex" else options)))


def test_no_other_order_is_known(tmp_path: Path) -> None:
    assert columns.ORDERS == BYTE_ORDERS
    (tmp_path / "a.hex").write_text("00000000000000ff\n")
    told = r"^byte_order \(--byte-order\): found 'middle', expected big or little$"
    with pytest.raises(ValueError, match=told):
        read([tmp_path / "a.hex"], byte_order="middle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=told):
        parse_fingerprint("00000000000000ff", byte_order="middle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="found little with decimal numbers"):
        parse_fingerprint("5", decimal=True, byte_order="little")


@pytest.mark.parametrize("bits", [24, 128])
def test_tasks_read_the_order_that_was_asked_for(tmp_path: Path, bits: int) -> None:
    numbers = sorted(some(bits))
    path = write_hex(tmp_path, packed_of(numbers, bits))
    asked: dict[str, Any] = {"bits": bits, "max_distance": 3, "workers": 1}
    with cluster.build(tmp_path / "s", [path], **asked, **LITTLE) as store:
        found = [row.fingerprint for rows in store.rows() for row in rows]
    assert found == numbers
    with cluster.build(tmp_path / "t", [path], **asked) as store:
        assert [row.fingerprint for rows in store.rows() for row in rows] != numbers
    pq.write_table(pa.table({"hash": pa.array([5], pa.uint64())}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="found uint64, expected hexadecimal, base64 or bytes with byte_order"):
        cluster.build(tmp_path / "u", [tmp_path / "a.parquet"], **asked, **LITTLE)
    assert not (tmp_path / "u").exists()
    (share,) = read([path], bits=bits, **LITTLE).shares(100)
    assert share.request(False, 10).byte_order == "little"
    assert asdict(share)["byte_order"] == "little"  # and so a job of another order has another name


@pytest.mark.parametrize("bits", [64, 128])
def test_the_commands_read_little_and_print_big(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = sorted(some(bits))
    path = write_hex(tmp_path, packed_of(numbers, bits)).name
    big = [f"{number:0{bits // 4}x}" for number in numbers]
    typed = [each.hex() for each in packed_of(numbers, bits)]
    little = ("--byte-order", "little")
    assert command("build", "s.fpstore", path, "--bits", bits, "-k", "0", *little).status == 0
    assert command("export", "s.fpstore", "-", "--format", "hex", "--no-ids").out.split() == big
    for name in ("probe", "nearest"):
        for asked in (["--input", path], typed):
            lines = command(name, "s.fpstore", *asked, *little).out.splitlines()
            assert [line.split("\t")[:2] for line in lines] == [[each, each] for each in big]
    again = command("add", "s.fpstore", path, *little, "--ids", "from:100", "--if-new", "-k", "0")
    assert [line.split("\t")[1] for line in again.out.splitlines()] == big
    assert command("remove", "s.fpstore", typed[0], *little).status == 0
    (tmp_path / "some.hex").write_text(f"{typed[1]}\n{typed[2]}\n")
    assert command("remove", "s.fpstore", "--input", "some.hex", *little).status == 0
    assert command("export", "s.fpstore", "-", "--format", "hex", "--no-ids").out.split() == big[3:]


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        (
            "probe s.fpstore 5 --byte-order little",
            2,
            "found '5', expected 16 hexadecimal digits (64 bits), after 0x or",
        ),
        ("nearest s.fpstore 5 --byte-order little --decimal", 2, "--byte-order goes without --decimal: numbers have"),
        ("remove s.fpstore --id 5 --byte-order little", 2, "--byte-order goes with a FINGERPRINT or --input"),
        ("probe s.fpstore --text one --byte-order big", 2, "--byte-order goes with a FINGERPRINT or --input"),
        ("build t.fpstore a.npy --byte-order little", 2, "a.npy: found numbers (format npy), expected hexadecimal"),
        ("build t.fpstore a.npy --byte-order little --workers 2", 2, "a.npy: found numbers (format npy), expected"),
        (
            "add s.fpstore a.txt --byte-order little --ids row",
            2,
            "a.txt: found texts (format text), expected fingerprints with",
        ),
        ("build t.fpstore a.hex --byte-order little", 1, "line 1: found '5', expected 16 hexadecimal digits (64 bits)"),
        ("build t.fpstore a.hex --byte-order middle", 2, "'middle' is not one of 'big', 'little'"),
    ],
)
def test_a_command_refuses_an_order_of_what_has_none(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, status: int, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([5]))
    Path("a.txt").write_text("one")
    Path("a.hex").write_text("5\n")
    fpstore.create("s.fpstore", recipe=DEFAULT_RECIPE).close()
    outcome = command(*line.split())
    assert (outcome.status, outcome.out) == (status, "")
    assert told in outcome.err
    assert "--decimal" not in outcome.err or "--decimal" in line
    assert not Path("t.fpstore").exists()
