"""The formats that hold nothing but fingerprints: npy, u64, hex."""

# mypy: disable-error-code="union-attr"

import gzip
import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, read

U64 = np.array([0, 1, 2**63, 2**64 - 1, 0x1F8B08, 5], dtype=np.uint64)


def rows(*sources: str | Path, **options: Any) -> tuple[list[int], list[int], int]:
    """Fingerprints and ids of all batches as lists, and how many rows were skipped."""
    reader = read(list(sources), **options)
    fingerprints, ids = [], []
    for batch in reader:
        fingerprints += batch.fingerprints.tolist()
        ids += batch.ids.tolist()
    return fingerprints, ids, sum(reader.skipped.values())


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize("batch", [1, 2, 5, 6, 7, 1000])
def test_npy_is_read_in_batches_with_rows_numbered_from_0(tmp_path: Path, batch: int) -> None:
    np.save(tmp_path / "a.npy", U64)
    assert rows(tmp_path / "a.npy", batch=batch) == (U64.tolist(), list(range(6)), 0)


@pytest.mark.parametrize("dtype", ["|u1", "<u2", ">u4", ">u8", "<i1", ">i2", "<i8"])
def test_npy_of_other_integers_is_widened(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", np.array([0, 100, 127], dtype=dtype))
    assert rows(tmp_path / "a.npy")[0] == [0, 100, 127]


def test_a_negative_number_in_npy_is_its_64_bits_and_of_fewer_bits_a_bad_row(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([3, 4, -5, 6], dtype=np.int64))
    assert rows(tmp_path / "a.npy")[0] == [3, 4, 2**64 - 5, 6]
    np.save(tmp_path / "a.npy", np.array([3, 4, -5, 6], dtype=np.int32))
    with pytest.raises(BadInput, match=r"a\.npy, row 2: found -5, expected integers of 64 bits where some are below"):
        rows(tmp_path / "a.npy")
    assert rows(tmp_path / "a.npy", skip_bad=True) == ([3, 4, 6], [0, 1, 3], 1)


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros(3), r"float64\[3\]"),
        (np.array([np.nan]), r"float64\[1\]"),
        (np.zeros(3, dtype=bool), r"bool\[3\]"),
        (np.zeros(3, dtype="S8"), r"\|S8\[3\]"),
        (np.zeros(3, dtype=complex), r"complex128\[3\]"),
        (np.zeros((2, 2), dtype=np.uint64), r"uint64\[2, 2\]"),
        (np.zeros((2, 2), dtype=np.uint64, order="F"), r"uint64\[2, 2\] in Fortran order"),
        (np.uint64(5), r"uint64\[\]"),
        (np.zeros(1, dtype=[("a", "<u8")]), r"\[\('a', '<u8'\)\]\[1\]"),
        (np.array([None]), r"object\[1\]"),
    ],
)
def test_npy_of_anything_but_a_row_of_integers_is_refused_with_its_type(tmp_path: Path, array: Any, found: str) -> None:
    (tmp_path / "a.npy").write_bytes(npy(array, allow_pickle=True))
    with pytest.raises(BadInput, match=rf"a\.npy: found {found}, expected uint64\[n\]"):
        rows(tmp_path / "a.npy", skip_bad=True)


@pytest.mark.slow
def test_every_truncation_of_npy_is_refused_compressed_or_not(tmp_path: Path) -> None:
    data = npy(U64)
    for size in range(len(data)):
        (tmp_path / "a.npy").write_bytes(data[:size])
        (tmp_path / "a.npy.gz").write_bytes(gzip.compress(data[:size]))
        for name in ("a.npy", "a.npy.gz"):
            with pytest.raises(BadInput, match=name):
                rows(tmp_path / name, batch=2)


def test_npy_that_is_longer_than_its_header_says_is_refused_compressed_or_not(tmp_path: Path) -> None:
    data = npy(U64) + bytes(8)
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(BadInput, match=rf"a\.npy: found {len(data)} bytes, expected {len(data) - 8} by its header"):
        rows(tmp_path / "a.npy")
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(data))
    with pytest.raises(BadInput, match="found more than 6 items, expected 6 by its header"):
        rows(tmp_path / "a.npy.gz")


def test_npy_that_is_shorter_than_its_header_says_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    data = npy(np.zeros(10**6, dtype=np.uint64))[:-8]
    (tmp_path / "a.npy").write_bytes(data)
    told: list[Any] = []
    with pytest.raises(BadInput, match=r"a\.npy: found 8000120 bytes, expected 8000128 by its header"):
        rows(tmp_path / "a.npy", on_bytes=told.append)
    assert sum(told) <= (1 << 20) + 10  # what is looked at to tell compression
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(data))
    with pytest.raises(BadInput, match="found 999999 items, expected 1000000 by its header"):
        rows(tmp_path / "a.npy.gz")


def header(text: bytes, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not numpy at all",
        header(b"{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }", b"\x03\x00") + bytes(8),
        header(b"{'descr': '<u8', 'fortran_order': False, 'shape': (9**99999,), }"),
        header(b"{'descr': '<u8'}"),
        header(b"__import__('os').system('true')"),
        header(b"\xff" * 100),
        header(b" " * 60_000),
    ],
)
def test_npy_with_a_wrong_header_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(BadInput, match=r"a\.npy: found no numpy header"):
        rows(tmp_path / "a.npy")


def test_npy_with_a_negative_count_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(header(b"{'descr': '<u8', 'fortran_order': False, 'shape': (-1,), }"))
    with pytest.raises(BadInput, match="found -1 items in its header"):
        rows(tmp_path / "a.npy")


def test_npy_of_version_2_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, U64, version=(2, 0))
    assert rows(tmp_path / "a.npy")[0] == U64.tolist()


@pytest.mark.parametrize("batch", [1, 4, 6, 1000])
def test_u64_is_read_as_little_endian(tmp_path: Path, batch: int) -> None:
    (tmp_path / "a.u64").write_bytes(b"".join(int(value).to_bytes(8, "little") for value in U64))
    assert rows(tmp_path / "a.u64", batch=batch) == (U64.tolist(), list(range(6)), 0)


OTHER_KINDS = {
    ".npy": (npy(U64), "a .npy file"),
    "parquet": (b"PAR1" + bytes(60), "Parquet data"),
    "arrow": (b"ARROW1\0\0" + bytes(56), "Arrow data"),
    "gzip": (gzip.compress(bytes(1 << 12))[:24], "gzip data"),
    "zstandard": (b"\x28\xb5\x2f\xfd" + bytes(60), "Zstandard data"),
    "xz": (lzma.compress(bytes(64)), "xz data"),
    "json lines": (b'{"text": "one two three"}\n' * 8, "text"),
    "other letters": ("\u0451\u0436 \u0438\n".encode() * 900, "text"),
    "csv": (b"id,text\r\n1,a\tb\r\n" * 8, "text"),
}


@pytest.mark.parametrize(("data", "kind"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_what_begins_as_another_kind_of_file_is_never_read_as_u64(tmp_path: Path, data: bytes, kind: str) -> None:
    data = data[: len(data) // 8 * 8]
    for name in ("a.bin", "a.u64"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=rf"{name}: found {kind}, expected raw fingerprints of 8 bytes; its own"):
            rows(tmp_path / name, format="u64")


@pytest.mark.parametrize(
    "data", [b"", b'{"a": 1}', b"a" * 24, b"a" * 39 + b"\0", b"\x1f\x8b\x08\xff" + bytes(4), b"\x93NUMPX\1\0"]
)
def test_what_only_looks_a_little_like_another_kind_is_u64(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.u64").write_bytes(data)
    assert rows(tmp_path / "a.u64")[0] == np.frombuffer(data, dtype="<u8").tolist()


def test_u64_of_a_broken_size_is_refused_with_the_offset_of_what_is_over(tmp_path: Path) -> None:
    (tmp_path / "a.u64").write_bytes(bytes(21))
    with pytest.raises(BadInput, match=r"a\.u64, offset 16: found 5 bytes, expected 8 for each fingerprint"):
        rows(tmp_path / "a.u64")
    (tmp_path / "a.u64.gz").write_bytes(gzip.compress(bytes(21)))
    with pytest.raises(BadInput, match=r"a\.u64\.gz, offset 16: found 5 bytes, expected 8 for each fingerprint"):
        rows(tmp_path / "a.u64.gz", batch=1)


def test_u64_that_begins_like_a_gzip_file_is_read_as_it_is(tmp_path: Path) -> None:
    value = int.from_bytes(b"\x1f\x8b\x08\0\0\0\0\0", "little")
    (tmp_path / "a.u64").write_bytes(value.to_bytes(8, "little") * 3)
    assert rows(tmp_path / "a.u64")[0] == [value] * 3


@pytest.mark.parametrize("name", ["a.u64", "a.hex", "a.csv", "a.tsv", "a.jsonl"])
def test_an_empty_file_has_no_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert rows(tmp_path / name) == ([], [], 0)


def test_an_empty_npy_has_no_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", U64[:0])
    assert rows(tmp_path / "a.npy") == ([], [], 0)


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=40),
    st.sampled_from(["{:016x}", "{:016X}", "0x{:016x}", "0x{:x}", " {:016x} "]),
    st.sampled_from(["\n", "\r\n", " \n"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 1000]),
)
def test_hex_lines_are_read_however_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], form: str, end: str, last: bool, mark: bool, batch: int
) -> None:
    text = end.join(form.format(value) for value in values) + (end if last else "")
    path = tmp_path_factory.mktemp("hex") / "a.hex"
    path.write_bytes(b"\xef\xbb\xbf" * mark + text.encode())
    assert rows(path, batch=batch) == (values, list(range(len(values))), 0)


def test_hex_of_many_blocks_keeps_rows_and_line_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 2**64, 30_000, dtype=np.uint64, endpoint=False).tolist()
    lines = [f"{value:016x}" for value in values]
    (tmp_path / "a.hex").write_text("\n".join(lines))
    assert rows(tmp_path / "a.hex", batch=100) == (values, list(range(30_000)), 0)
    lines[20_000] = "wrong"
    lines[25_000] = ""
    (tmp_path / "a.hex").write_text("\n".join(lines))
    with pytest.raises(BadInput, match=r"a\.hex, line 20001: found 'wrong', expected 16 hexadecimal digits"):
        rows(tmp_path / "a.hex", batch=100)
    fingerprints, ids, skipped = rows(tmp_path / "a.hex", batch=100, skip_bad=True)
    assert fingerprints == values[:20_000] + values[20_001:25_000] + values[25_001:]
    assert ids == [row for row in range(30_000) if row not in (20_000, 25_000)]
    assert skipped == 2


def test_lines_of_hex_are_hexadecimal_with_a_prefix_or_without(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text("1234567890123456\n00000000000000ff\n0x10\n")
    assert rows(tmp_path / "a.hex")[0] == [0x1234567890123456, 255, 16]


@pytest.mark.parametrize("line", ["7", "12345678901234567", "-5"])
def test_a_decimal_number_in_hex_is_refused_unless_it_is_said(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.hex").write_text(f"0x10\n{line}\n")
    with pytest.raises(BadInput, match=r"line 2: found .*, expected hexadecimal, .* or fingerprint_format"):
        rows(tmp_path / "a.hex")
    (tmp_path / "a.hex").write_text(f"{line}\n1234567890123456\n" * 5)
    expected = [int(line) % 2**64, 1234567890123456] * 5
    assert rows(tmp_path / "a.hex", fingerprint_format="decimal", batch=3)[0] == expected


def test_hexadecimal_that_is_said_may_have_fewer_digits(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text("7\nff\n1234567890123456\n")
    assert rows(tmp_path / "a.hex", fingerprint_format="hex")[0] == [7, 255, 0x1234567890123456]


def test_a_line_of_one_block_that_differs_in_its_middle_is_not_read_as_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text("0x0123456789abcdef\n1x0123456789abcdef\n")
    with pytest.raises(BadInput, match=r"line 2: found '1x0123456789abcdef'"):
        rows(tmp_path / "a.hex")
    (tmp_path / "a.hex").write_text("0123456789abcdef\r\n0123456789abcdef0\n")
    with pytest.raises(BadInput, match=r"line 2: found '0123456789abcdef0'"):
        rows(tmp_path / "a.hex")


def test_binary_data_read_as_hex_is_refused_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_bytes(bytes(range(256)) * 1000)
    with pytest.raises(BadInput, match=r"a\.hex, line 1: found .* expected 16 hexadecimal") as caught:
        rows(tmp_path / "a.hex")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_hex_with_ids_after_a_tab(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text("00000000000000ff\t7\n0x10\t 18446744073709551615\n")
    for ids in ("auto", "column"):
        assert rows(tmp_path / "a.hex", ids=ids) == ([255, 16], [7, 2**64 - 1], 0)
    assert rows(tmp_path / "a.hex", ids="row") == ([255, 16], [0, 1], 0)
    assert next(read([tmp_path / "a.hex"], ids=None)).ids is None
    (tmp_path / "a.hex").write_text("00000000000000ff\n")
    with pytest.raises(BadInput, match=r"line 1: found no tab, expected a fingerprint, a tab and an id, or ids"):
        rows(tmp_path / "a.hex", ids="column")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("00000000000000ff", "line 2: found '00000000000000ff', expected a fingerprint, a tab and an id"),
        ("00000000000000ff\tx", r"line 2: found id 'x', expected a decimal number from -2\*\*63 to 2\*\*64 - 1"),
        ("f\t5", "line 2: found 'f', expected 16 hexadecimal digits"),
    ],
)
def test_a_bad_line_of_hex_with_ids_is_named_or_counted(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.hex").write_text(f"0x1\t1\n{line}\n0x3\t3\n")
    with pytest.raises(BadInput, match=message):
        rows(tmp_path / "a.hex")
    assert rows(tmp_path / "a.hex", skip_bad=True) == ([1, 3], [1, 3], 1)


def test_a_tab_in_a_line_of_hex_is_bad_where_the_first_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text("00000000000000ff\n00000000000000ff\t7\n")
    with pytest.raises(BadInput, match=r"line 2: found '00000000000000ff\\t7'"):
        rows(tmp_path / "a.hex")


def test_without_ids_there_are_none(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", U64)
    assert [batch.ids for batch in read([tmp_path / "a.npy"], ids=None)] == [None]


def test_batches_can_be_written_to(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", U64)
    U64.astype("<u8").tofile(tmp_path / "a.u64")
    for name in ("a.npy", "a.u64"):
        for batch in read([tmp_path / name]):
            assert batch.fingerprints.flags.writeable
            assert batch.fingerprints.dtype == np.dtype(np.uint64)


@pytest.mark.parametrize(
    "header", [b"{'descr': '<u8', 'fortran_order': False, 'shape': (3,", b"{'descr': '<u8", b"(" * 500, b"[1, 2"]
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_npy_header_that_is_never_closed_is_a_bad_input(tmp_path: Path, header: bytes, version: int) -> None:
    length = len(header).to_bytes(2 * version, "little")
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + header)
    with pytest.raises(BadInput, match=r"a\.npy: found no numpy header \(.*\), expected a \.npy file"):
        rows(tmp_path / "a.npy")
