"""FAISS's files of codes are read whole, and whatever else is in a file is refused before it costs memory.

tests/test_image_peers.py reads what FAISS itself writes.
"""

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fpstore
from fpstore import BadInput
from fpstore.adapters import faiss
from fpstore.format import WIDE_BITS
from fpstore.types import Array

WIDTHS = (16, 24, 32, 40, 48, 56, 64, *WIDE_BITS)


def head(kind: bytes, bits: int, count: int, code_bytes: int | None = None) -> bytes:
    return kind + struct.pack("<iiqBi", bits, bits // 8 if code_bytes is None else code_bytes, count, 1, 1)


def vector(items: bytes, count: int) -> bytes:
    return struct.pack("<Q", count) + items


def flat(codes: Array) -> bytes:
    return head(b"IBxF", 8 * codes.shape[1], len(codes)) + vector(codes.tobytes(), codes.size)


def mapped(inner: bytes, codes: Array, ids: list[int], kind: bytes = b"IBMp") -> bytes:
    stored = np.array(ids, dtype=np.int64).tobytes()
    return head(kind, 8 * codes.shape[1], len(codes)) + inner + vector(stored, len(ids))


def hashed(codes: Array, tables: int = 2) -> bytes:
    table = struct.pack("<iQ", 3, 5) + vector(b"1234567", 7)
    return (
        head(b"IBHm", 8 * codes.shape[1], len(codes))
        + flat(codes)
        + struct.pack("<iii", 16, tables, 1)
        + table * tables
    )


def some(bits: int, count: int = 5) -> Array:
    return np.random.default_rng(bits).integers(0, 256, size=(count, bits // 8), dtype=np.uint8)


def numbers(codes: Array) -> list[int]:
    return [int.from_bytes(code.tobytes(), "big") for code in codes]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("kind", ["flat", "hashed", "mapped", "mapped-2", "mapped-hashed"])
def test_the_codes_of_a_file_are_those_of_the_store(tmp_path: Path, bits: int, kind: str) -> None:
    codes, ids = some(bits), [7, -1, 0, 2**63 - 1, 3]
    inner = hashed(codes) if kind.endswith("hashed") else flat(codes)
    has_ids = kind.startswith("mapped")
    data = mapped(inner, codes, ids, b"IBM2" if kind == "mapped-2" else b"IBMp") if has_ids else inner
    file = written(tmp_path / "codes.index", data)
    found = faiss.read(file)
    assert (found.bits, found.count, found.has_ids) == (bits, 5, has_ids)
    wanted = [number % 2**64 for number in ids] if has_ids else [*range(5)]
    with faiss.build(tmp_path / "s", file, max_distance=3) as store:
        assert sorted((row.fingerprint, row.id) for rows in store.rows() for row in rows) == sorted(
            zip(numbers(codes), wanted, strict=True)
        )
        assert [match.id for match in store.probe(codes[1].tobytes(), max_distance=0)] == wanted[1:2]
    with faiss.build(tmp_path / "t", file, ids=None) as store:
        assert (store.id_type, store.count()) == (None, 5)


@pytest.mark.parametrize("bits", [64, 128])
def test_codes_are_read_some_at_a_time(tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = some(bits, 100)
    file = written(tmp_path / "f", mapped(flat(codes), codes, [*range(100, 200)]))
    monkeypatch.setattr(faiss, "PIECE_BYTES", 7 * bits // 8)
    pieces = [*faiss.read(file).pieces()]
    assert [len(ids) for _, ids in pieces] == [7] * 14 + [2]
    assert np.concatenate([ids for _, ids in pieces]).tolist() == [*range(100, 200)]
    whole = np.concatenate([own for own, _ in pieces])
    assert np.array_equal(whole.astype(">u8").view(np.uint8).reshape(100, -1), codes)


def test_an_index_without_codes_is_a_store_without_fingerprints(tmp_path: Path) -> None:
    with faiss.build(tmp_path / "s", written(tmp_path / "f", flat(some(64, 0)))) as store:
        assert store.count() == 0


@pytest.mark.parametrize("kind", ["flat", "mapped-hashed"])
def test_every_truncation_is_refused_and_every_byte_more(tmp_path: Path, kind: str) -> None:
    codes = some(64)
    data = flat(codes) if kind == "flat" else mapped(hashed(codes), codes, [*range(5)])
    for size in range(len(data)):
        with pytest.raises(BadInput, match=r"byte \d+, .*: found .*, expected"):
            faiss.read(written(tmp_path / "f", data[:size]))
    with pytest.raises(BadInput, match="the end: found 1, expected no byte behind the index"):
        faiss.read(written(tmp_path / "f", data + b"\0"))


@given(data=st.data())
def test_any_bytes_are_codes_that_are_there_or_refused(data: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    codes = some(64)
    whole = bytearray(mapped(hashed(codes), codes, [*range(5)]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    file = written(tmp_path_factory.mktemp("faiss") / "f", bytes(whole))
    try:
        found = faiss.read(file)
    except BadInput:
        return
    assert sum(len(ids) for _, ids in found.pieces()) == found.count == 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"IxF2" + bytes(60), r"byte 4, kind: found b'IxF2', expected one of FAISS's IBxF, IBHm, IBMp, IBM2"),
        (b"IB", "byte 0, kind: found 2 bytes more, expected 4"),
        (head(b"IBxF", 65, 0), "bits: found 65, expected a multiple of 8 above 0"),
        (head(b"IBxF", -8, 0), "bits: found -8, expected"),
        (head(b"IBxF", 64, 0, 9), "bytes of a code: found 9, expected 8"),
        (head(b"IBxF", 64, -1), "codes: found -1, expected 0 or more"),
        (head(b"IBxF", 64, 1 << 62) + vector(b"", 1 << 62), "bytes of codes: found 4611686018427387904, expected 368"),
        (
            head(b"IBxF", 64, 2) + vector(b"", 16),
            "bytes of codes: found 16, of which 0 are there, expected all of them",
        ),
        (head(b"IBMp", 64, 1) + flat(some(64, 2)), r"within: found \(64, 2\), expected \(64, 1\)"),
        (head(b"IBMp", 64, 1) + head(b"IBMp", 64, 1), "kind: found b'IBMp', expected one of FAISS's IBxF, IBHm"),
        (head(b"IBHm", 64, 1) + head(b"IBHm", 64, 1), "kind: found b'IBHm', expected one of FAISS's IBxF"),
        (hashed(some(64), 0)[:-12] + struct.pack("<iii", 1, -1, 1), "hash tables: found -1, expected 0 or more"),
        (hashed(some(64), 0)[:-12] + struct.pack("<iii", 1, 2**31 - 1, 1), "hash table: found 0 bytes more"),
        (hashed(some(64), 1)[:-15] + vector(b"", 2**64 - 1), "found 18446744073709551615, of which 0 are there"),
        (mapped(flat(some(64, 1)), some(64, 1), [1, 2]), "ids: found 2, expected 1"),
    ],
)
def test_what_is_no_index_of_codes_says_where_and_what(tmp_path: Path, data: bytes, message: str) -> None:
    file = written(tmp_path / "f", data)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=message) as raised:
            faiss.read(file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert str(raised.value).startswith(f"{file}: byte ")
    assert raised.value.source == str(file)


def test_a_file_that_gets_shorter_meanwhile_is_told(tmp_path: Path) -> None:
    file = written(tmp_path / "f", flat(some(64)))
    found = faiss.read(file)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInput, match="byte 33: found 39 bytes more, expected 40, as when it was opened"):
        list(found.pieces())


@pytest.mark.parametrize("bits", [8, 72, 96, 512])
def test_a_width_that_no_store_has_is_refused_by_the_engine(tmp_path: Path, bits: int) -> None:
    file = written(tmp_path / "f", flat(some(bits)))
    with pytest.raises(ValueError, match=f"bits: found {bits}, expected"):
        faiss.build(tmp_path / "s", file)
    assert not (tmp_path / "s").exists()


def test_other_ids_than_those_of_the_file_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "f", flat(some(64)))
    with pytest.raises(ValueError, match=r'ids: found \[1\], expected "stored" or None'):
        faiss.build(tmp_path / "s", file, ids=[1])  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        fpstore.adapters.faiss.build(tmp_path / "s", tmp_path / "nothing")
