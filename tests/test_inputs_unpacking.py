"""Decompressors: each gives what was packed in steps that have room, or says that it is damaged or cut short."""

import gzip
import io
import random
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, compressed, unpacking
from fpstore.inputs.compressed import open_stream
from fpstore.inputs.unpacking import ROOM_BYTES, UNPACK, DamagedError
from fpstore.jobs import Inputs, dedup


def unpacked(kind: str, packed: bytes) -> Iterator[bytes]:
    """What a decompressor puts into the room that it has, step by step."""
    fill, room = UNPACK[kind](io.BufferedReader(io.BytesIO(packed), 1 << 10)), memoryview(bytearray(ROOM_BYTES))
    while count := fill(room):
        yield bytes(room[:count])


def frames_of(pieces: list[bytes], checksum: bool, with_size: bool, flush: bool) -> bytes:
    packed = b""
    for piece in pieces:
        compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=with_size)
        writer = compressor.compressobj(len(piece) if with_size else -1)
        for at in range(0, len(piece), 1000):
            packed += writer.compress(piece[at : at + 1000])
            packed += writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) if flush else b""
        packed += writer.flush()
    return packed


@given(
    kinds=st.lists(st.sampled_from("abcd"), min_size=1, max_size=4),
    size=st.sampled_from([0, 1, 255, 256, 70_000, 300_000]),
    checksum=st.booleans(),
    with_size=st.booleans(),
    flush=st.booleans(),
    skipped=st.booleans(),
)
def test_zstd_frames_of_every_form_are_followed_to_their_ends(
    kinds: list[str], size: int, checksum: bool, with_size: bool, flush: bool, skipped: bool
) -> None:
    source = random.Random(size)
    of = {"a": bytes(size), "b": source.randbytes(size), "c": b"words of a text " * (size // 16), "d": b""}
    pieces = [of[kind] for kind in kinds]
    packed = frames_of(pieces, checksum, with_size, flush)
    between = b"\x5f\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc" if skipped else b""
    packed += between + frames_of(pieces[:1], not checksum, False, not flush) + between
    assert b"".join(unpacked("zstd", packed)) == b"".join(pieces) + pieces[0]
    frames = unpacking._ZstdFrames(io.BufferedReader(io.BytesIO(packed)))
    steps = list(iter(frames.read, b""))
    assert b"".join(steps) == packed
    assert not frames.is_inside
    cut = unpacking._ZstdFrames(io.BufferedReader(io.BytesIO(packed[:-1])))
    assert b"".join(iter(cut.read, b"")) == packed[:-1]
    assert cut.is_inside


def test_what_is_packed_densely_is_taken_in_steps_that_have_room() -> None:
    bomb = bytes(64 << 20)
    for kind, packed in (("zstd", zstandard.ZstdCompressor(level=1).compress(bomb)), ("gzip", gzip.compress(bomb, 1))):
        assert len(packed) < 1 << 19
        assert sum(map(len, unpacked(kind, packed))) == len(bomb)
    # A block of one byte for 128 KiB, again and again: what is given to the package stands for no more than has room.
    run = (1 << 17 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([10 << 3]) + run * 99 + (1).to_bytes(3, "little")
    frames = unpacking._ZstdFrames(io.BufferedReader(io.BytesIO(frame)))
    assert max(map(len, iter(frames.read, b""))) <= 6 + 3 + (ROOM_BYTES >> 17) * len(run)
    assert b"".join(unpacked("zstd", frame)) == b"x" * (99 << 17)


def before_the_error(kind: str, packed: bytes) -> tuple[bytes, str]:
    """What is given before the error, and what that says."""
    held = bytearray()
    try:
        for step in unpacked(kind, packed):
            held += step
    except DamagedError as error:
        return bytes(held), str(error)
    raise AssertionError("no error")


@pytest.mark.parametrize("rest", [b"\x28", b"garb", b"x" * 5000, b"\x50\x2a\x4d\x18", b"\x5f\x2a\x4d\x18\x01\0\0\0"])
def test_what_is_no_frame_behind_one_is_an_error_behind_what_that_holds(rest: bytes) -> None:
    held, told = before_the_error("zstd", zstandard.compress(b"held") * 9 + rest)
    assert held == b"held" * 9
    assert "found damaged zstd data" in told or "found the end of the file inside a zstd frame" in told


def test_all_in_front_of_a_cut_is_given() -> None:
    data = random.Random(1).randbytes(3 << 20)
    for kind, packed in (("zstd", zstandard.compress(data)), ("gzip", gzip.compress(data))):
        held, told = before_the_error(kind, packed[: 2 << 20])
        assert "found the end of the file inside a zstd frame" in told or "the file ends inside of it" in told
        assert len(held) > (2 << 20) - (1 << 17)
        assert data.startswith(held)


def test_members_of_gzip_are_checked_and_may_have_zeros_behind_them() -> None:
    member = gzip.compress(b"member", mtime=0)
    assert b"".join(unpacked("gzip", member + bytes(70_000) + member * 999 + bytes(1))) == b"member" * 1000
    for at in (len(member) - 8, len(member) - 1):  # the checksum, the size
        wrong = bytearray(member)
        wrong[at] ^= 1
        with pytest.raises(DamagedError, match=r"found damaged gzip data \(.*\), expected a whole gzip file"):
            list(unpacked("gzip", member + wrong))
    with pytest.raises(DamagedError, match="damaged gzip data"):
        list(unpacked("gzip", member + zlib.compress(b"no member")))


def test_a_header_of_gzip_is_checked() -> None:
    """RFC 1952: 2.3.1: bit 1 of the flags says that two bytes of a checksum follow, and bits 5 to 7 must be 0."""
    member = gzip.compress(b"member", mtime=0)

    def flagged(flags: int, more: bytes = b"") -> bytes:
        return member[:3] + bytes([flags]) + member[4:10] + more + member[10:]

    checksum = zlib.crc32(flagged(2)[:10]) & 0xFFFF
    assert b"".join(unpacked("gzip", flagged(2, checksum.to_bytes(2, "little")))) == b"member"
    for wrong in (flagged(2, (checksum ^ 1).to_bytes(2, "little")), flagged(32), flagged(64), flagged(128)):
        with pytest.raises(DamagedError, match="damaged gzip data"):
            list(unpacked("gzip", wrong))


LINES = b"".join(b'{"text": "%032x"}\n' % random.Random(n).getrandbits(128) for n in range(9000))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("size", [1, 1000, 1 << 21])
def test_another_thread_gives_the_same_bytes_and_then_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Any, size: int
) -> None:
    monkeypatch.setattr(compressed, "_AHEAD_BYTES", size)
    path = tmp_path / "a"
    path.write_bytes(pack(LINES) + pack(LINES))
    with open_stream(str(path), None, reads_ahead=True) as stream:
        assert stream.reader.read() == LINES * 2
    path.write_bytes((pack(LINES) + pack(LINES))[:-1])
    for reads_ahead in (False, True):
        with open_stream(str(path), None, reads_ahead=reads_ahead) as stream:
            assert stream.reader.readline() == LINES[: LINES.index(b"\n") + 1]
            with pytest.raises(BadInput, match=r"a: found .*expected"):
                stream.reader.read()


def test_no_thread_is_at_a_stream_that_was_left(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(LINES * 40))
    read: list[str] = []
    with open_stream(str(path), lambda _: read.append(threading.current_thread().name), reads_ahead=True) as stream:
        stream.reader.readline()
        reader = stream.reader
    told = len(read)
    assert set(read[1:]) - {threading.main_thread().name}
    assert reader.raw._every.gi_frame is None  # type: ignore[attr-defined]
    reader.raw.close()  # as who holds the reader does, later
    assert len(read) == told


def test_a_job_by_more_than_two_threads_decompresses_in_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    made = compressed._Ahead.__init__

    def make(self: Any, raw: io.RawIOBase) -> None:
        asked.append(True)
        made(self, raw)

    monkeypatch.setattr(compressed._Ahead, "__init__", make)
    kept = []
    for suffix, pack in ((".jsonl.zst", zstandard.compress), (".jsonl.gz", gzip.compress), (".jsonl", bytes)):
        path = tmp_path / f"in{suffix}"
        path.write_bytes(pack(LINES))
        for threads in (1, 2, 3):  # of two each takes a batch through all, and is at work while the other unpacks
            asked.clear()
            out = tmp_path / f"{suffix[1:]}-{threads}.jsonl"
            dedup(Inputs([path]), out, threads=threads)
            assert asked == [True] * (threads > 2 and pack is not bytes)
            kept.append(out.read_bytes())
    assert set(kept) == {LINES}
