"""Compressed input: read as it is, streamed, and an error wherever it is damaged or cut short."""

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, blocks, compressed, delimited, documents, read, text
from fpstore.inputs.blocks import Columns, Document
from fpstore.inputs.compressed import Lines, LongLine, open_stream

DATA = b"".join(b"%016x\n" % random.Random(line).getrandbits(64) for line in range(5000))


def skippable(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


PACKED = {
    "one gzip member": (".gz", gzip.compress(DATA)),
    "two gzip members": (".gz", gzip.compress(DATA[:999]) + gzip.compress(DATA[999:])),
    "one zstd frame": (".zst", zstandard.compress(DATA)),
    "two zstd frames": (".zst", zstandard.compress(DATA[:999]) + zstandard.compress(DATA[999:])),
    "zstd after a skippable frame": (".zst", skippable(b"x" * 3000) + zstandard.compress(DATA)),
    "one bzip2 stream": (".bz2", bz2.compress(DATA)),
    "two bzip2 streams": (".bz2", bz2.compress(DATA[:999]) + bz2.compress(DATA[999:])),
    "one xz stream": (".xz", lzma.compress(DATA)),
    "two xz streams": (".xz", lzma.compress(DATA[:999]) + bytes(8) + lzma.compress(DATA[999:]) + bytes(4)),
}


def whole(path: Path | str, **options: Any) -> bytes:
    with open_stream(str(path), None, **options) as stream:
        return stream.reader.read()


@pytest.mark.parametrize(("suffix", "packed"), PACKED.values(), ids=PACKED)
def test_compressed_data_is_read_as_it_is_by_suffix_and_by_first_bytes(
    tmp_path: Path, suffix: str, packed: bytes
) -> None:
    for name in (f"a{suffix}", f"a{suffix.upper()}", "a.bin"):
        path = tmp_path / name
        path.write_bytes(packed)
        assert whole(path) == DATA


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "packed"), PACKED.values(), ids=PACKED)
def test_compressed_data_that_is_cut_anywhere_is_an_error(tmp_path: Path, suffix: Any, packed: Any) -> None:
    path = tmp_path / f"a{suffix}"
    members = {len(pack(DATA[:999])) for pack in (gzip.compress, zstandard.compress, bz2.compress, lzma.compress)}
    members.add(len(skippable(b"x" * 3000)))
    first_xz = lzma.compress(DATA[:999])
    near = {cut + step for cut in members for step in range(-20, 20)}
    for size in sorted({*range(64), *range(64, len(packed), 997), *range(len(packed) - 64, len(packed)), *near}):
        if size >= len(packed):
            continue
        path.write_bytes(packed[:size])
        if size in members and packed[size : size + 2] in (b"\x1f\x8b", b"BZ"):
            assert whole(path) == DATA[:999]  # a whole file in its own right
        elif suffix == ".xz" and not packed[size:].strip(b"\0"):
            assert whole(path) == DATA  # only the padding is cut
        elif packed.startswith(first_xz) and size - len(first_xz) in range(9):
            assert whole(path) == DATA[:999]
        elif suffix == ".zst" and size in members and packed[size : size + 2] == b"\x28\xb5":
            assert whole(path) in (DATA[:999], b"")
        else:
            with pytest.raises(BadInput, match=rf"a\{suffix}: found "):
                whole(path)


@pytest.mark.parametrize(("suffix", "packed"), PACKED.values(), ids=PACKED)
def test_damaged_compressed_data_never_reads_as_something_else(tmp_path: Path, suffix: str, packed: bytes) -> None:
    source = random.Random(9)
    path = tmp_path / f"a{suffix}"
    # zstandard.compress writes no checksum, so of zstd only the header is damaged here.
    where = range(10, len(packed)) if suffix != ".zst" else range(4)
    for offset in (source.choice(where) for _ in range(10 if suffix == ".bz2" else 50)):
        damaged = bytearray(packed)
        damaged[offset] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        try:
            assert whole(path) == DATA
        except BadInput as error:
            assert f"a{suffix}: found" in str(error)  # noqa: PT017


def test_garbage_after_compressed_data_is_an_error(tmp_path: Path) -> None:
    for kind, suffix, data in (("bzip2", "bz2", bz2.compress(DATA)), ("xz", "xz", lzma.compress(DATA))):
        (tmp_path / f"a.{suffix}").write_bytes(data + b"garbage" * 4)
        with pytest.raises(BadInput, match=f"damaged {kind} data"):
            whole(tmp_path / f"a.{suffix}")
    (tmp_path / "a.gz").write_bytes(gzip.compress(DATA) + b"garbage")
    with pytest.raises(BadInput, match="damaged gzip data"):
        whole(tmp_path / "a.gz")
    (tmp_path / "a.zst").write_bytes(zstandard.compress(DATA) + b"garbage")
    with pytest.raises(BadInput, match="damaged zstd data"):
        whole(tmp_path / "a.zst")


@pytest.mark.parametrize("data", [b"", b"\x1f", b"plain text\n", zstandard.compress(b"x")])
def test_a_suffix_that_the_first_bytes_contradict_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.hex.gz").write_bytes(data)
    with pytest.raises(BadInput, match=r"a\.hex\.gz: found first bytes .*, expected gzip data"):
        whole(tmp_path / "a.hex.gz")


def test_first_bytes_are_not_asked_where_they_can_be_anything(tmp_path: Path) -> None:
    packed = gzip.compress(DATA)
    (tmp_path / "a.u64").write_bytes(packed)
    assert whole(tmp_path / "a.u64", by_magic=False) == packed
    (tmp_path / "a.u64.gz").write_bytes(packed)
    assert whole(tmp_path / "a.u64.gz", by_magic=False) == DATA


def test_a_text_that_begins_as_bzip2_does_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"BZh9 is how it begins")
    assert whole(tmp_path / "a") == b"BZh9 is how it begins"
    (tmp_path / "a").write_bytes(bz2.compress(b""))
    assert whole(tmp_path / "a") == b""


def test_the_windows_of_public_dumps_are_read(tmp_path: Path) -> None:
    # As `zstd --long=31` writes it: no size, a window of 2 GiB (exponent 21 above 10), and here one raw block.
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([21 << 3]) + ((5 << 3) | 1).to_bytes(3, "little") + b"hello"
    (tmp_path / "a.zst").write_bytes(frame)
    assert whole(tmp_path / "a.zst") == b"hello"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_text_with_a_mark_of_utf_16_or_32_becomes_utf_8(tmp_path: Path, codec: str, pack: Any) -> None:
    data = "\ufeffone\n日本 \U0001f600\n".encode(codec)
    (tmp_path / "a").write_bytes(pack(data))
    assert whole(tmp_path / "a", is_text=True) == "one\n日本 \U0001f600\n".encode()
    assert whole(tmp_path / "a") == data
    (tmp_path / "a").write_bytes(pack(data[:-1]))
    with pytest.raises(BadInput, match=r"a: found bytes that are no UTF-(16|32), expected UTF-(16|32), as the first"):
        whole(tmp_path / "a", is_text=True)


@pytest.mark.parametrize("size", range(6))
def test_a_file_shorter_than_the_marks_of_compression_is_read_whole(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"12345"[:size])
    assert whole(tmp_path / "a") == b"12345"[:size]


def test_bytes_are_told_as_they_are_stored(tmp_path: Path) -> None:
    for name, data in (("a.gz", gzip.compress(DATA)), ("a.zst", zstandard.compress(DATA)), ("a", DATA)):
        (tmp_path / name).write_bytes(data)
        told: list[Any] = []
        with open_stream(str(tmp_path / name), told.append) as stream:
            stream.reader.read()
        assert sum(told) == len(data)


def test_a_pipe_that_gives_one_byte_at_a_time_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    packed = gzip.compress(b"hello\n")

    def feed() -> None:
        with open(path, "wb", buffering=0) as pipe:
            for byte in packed:
                pipe.write(bytes([byte]))

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert whole(path) == b"hello\n"
    feeder.join()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_standard_input_is_read_compressed_or_not(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[..., Any] | type[bytes]
) -> None:
    buffer = io.BytesIO(pack(DATA))
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=buffer))
    assert whole("-") == DATA
    assert not buffer.closed


def test_lines_are_counted_and_lose_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\nthree")
    with open_stream(str(tmp_path / "a"), None) as stream:
        lines = Lines(stream)
        assert list(lines) == [b"one\n", b"\xef\xbb\xbftwo\n", b"three"]
        assert lines.number == 3


@pytest.mark.parametrize("end", [b"", b"\n", b'\n{"text": "the last"}\n'])
@pytest.mark.parametrize("suffix", ["hex", "csv", "tsv", "jsonl"])
def test_a_line_longer_than_the_limit_is_an_error_or_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, end: bytes
) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 1000)
    path = tmp_path / f"a.{suffix}.gz"
    path.write_bytes(gzip.compress(b"\n" + b"1" * 1_000_000 + end))
    columns: dict[str, Any] = {"hex": {}, "jsonl": {"text_column": "text"}}
    column = columns.get(suffix, {"text_column": 0, "header": False})
    with pytest.raises(BadInput, match=r"line 2: found more than 1000 bytes, expected the end of the line"):
        list(read([path], batch=1, **column))
    if suffix == "hex":
        return
    found = documents([path], skip_bad=True, is_part=True, **column)
    last = {"jsonl": ["the last"], "csv": ['{"text": "the last"}'], "tsv": ['{"text": "the last"}']}[suffix]
    assert [text for _, text in found] == (last if len(end) > 1 else [])
    assert found.skipped == {"line over the limit": 1}
    assert found.seen.rows == 1 + (len(end) > 1)


def test_the_line_after_one_that_is_too_long_has_its_own_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "a").write_bytes(b"one\n" + b"x" * 5_000_000 + b"\nthree\n")
    with open_stream(str(tmp_path / "a"), None) as stream:
        lines = Lines(stream)
        assert (next(lines), lines.number) == (b"one\n", 1)
        with pytest.raises(LongLine):
            next(lines)
        assert lines.number == 2
        assert (next(lines), lines.number) == (b"three\n", 3)
        assert list(lines) == []
        assert lines.number == 3


def test_a_line_as_long_as_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 1000)
    line = b"1" * 999 + b"\n"
    (tmp_path / "a").write_bytes(line + line)
    with open_stream(str(tmp_path / "a"), None) as stream:
        assert list(compressed.Lines(stream)) == [line, line]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("more", range(-2, 3))
def test_the_end_of_a_line_counts_and_the_line_after_one_over_the_limit_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, end: bytes
) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 16)
    long = b"x" * (16 + more) + end
    (tmp_path / "a").write_bytes(long + (b"two\nthree" if end else b""))
    held = []
    with open_stream(str(tmp_path / "a"), None) as stream:
        lines = Lines(stream)
        while True:
            try:
                held.append(next(lines))
            except LongLine as error:
                held.append(b"line %d" % (error.line or 0))
            except StopIteration:
                break
    assert held == [long if len(long) <= 16 else b"line 1"] + ([b"two\n", b"three"] if end else [])
    assert lines.number == len(held)


# Of lines of documents: how the text of one is written, without its end.
WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "jsonl": lambda text: b'{"text":"%b"}' % text,
    "odd.jsonl": lambda text: b'{"text":"%b","x":NaN}' % text if text[0] % 2 else b'{"\\u0078":1,"text":"%b"}' % text,
    "csv": lambda text: text,
    "tsv": lambda text: text,
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITTEN)
@given(
    lines=st.lists(
        st.tuples(st.one_of(st.integers(-2, 2), st.integers(3, 70)), st.sampled_from([b"\n", b"\r\n"])),
        min_size=1,
        max_size=6,
    ),
    is_closed=st.booleans(),
    block=st.integers(4, 64),
    buffer=st.sampled_from([1, 7, 64, 65, 1 << 20]),
)
@example(lines=[(9, b"\n"), (-1, b"\n"), (9, b"\n"), (2, b"\r\n")], is_closed=True, block=64, buffer=64)
@example(lines=[(-1, b"\r\n"), (-2, b"\n"), (0, b"\n"), (9, b"\n")], is_closed=False, block=9, buffer=7)
def test_lines_about_the_limit_are_those_between_line_feeds(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    lines: list[tuple[int, bytes]],
    is_closed: bool,
    block: int,
    buffer: int,
) -> None:
    limit = 64
    data, expected, long = b"", [], 0
    for number, (less, end) in enumerate(lines, 1):
        end = end if is_closed or number < len(lines) else b""
        written = WRITTEN[suffix](text := b"%d" % number)
        written = WRITTEN[suffix](text := text + b"x" * max(0, limit - less - len(written + end)))
        data += written + end
        if len(written + end) > limit:
            long += 1
        elif b"NaN" not in written:
            expected.append((number, text.decode()))
    path = tmp_path_factory.mktemp("lines") / f"in.{suffix}"
    path.write_bytes(data)
    column: dict[str, Any] = {"text_column": 0, "header": False} if suffix[-3:] in ("csv", "tsv") else {}
    for in_columns in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            for module in (compressed, blocks, delimited):
                patch.setattr(module, "MAX_LINE_BYTES", limit)
            patch.setattr(blocks, "BLOCK_BYTES", block)
            patch.setattr(compressed, "_BUFFER_BYTES", buffer)
            with closing(documents([path], skip_bad=True, is_part=True, all_columns=True, **column)) as every:
                found = list(in_rows(every.in_columns()) if in_columns else every.with_rows())
        assert [(name, text) for name, text, _ in found] == [(f"{path}:{number}", text) for number, text in expected]
        assert every.skipped.get("line over the limit", 0) == long
        assert sum(every.skipped.values()) == len(lines) - len(expected)
        assert every.seen.rows == len(lines)


def in_rows(every: Iterator[Columns | Document]) -> Iterator[Document]:
    for one in every:
        yield from zip(one.names, one.texts, one.rows, strict=True) if isinstance(one, Columns) else [one]


def test_a_whole_stream_over_its_limit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with open_stream(str(tmp_path / "a"), None) as stream:
        assert stream.whole(5) == b"12345"
    with open_stream(str(tmp_path / "a"), None) as stream, pytest.raises(BadInput, match="more than 4 bytes"):
        stream.whole(4)


def test_zstd_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.zst").write_bytes(zstandard.compress(DATA))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r"reading \.zst needs zstandard: pip install 'fpstore\[zstd\]'"):
        whole(tmp_path / "a.zst")


def test_a_damaged_stream_is_an_error_even_where_bad_lines_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.hex.gz").write_bytes(gzip.compress(DATA)[:-10])
    with pytest.raises(BadInput, match="damaged gzip data"):
        list(read([tmp_path / "a.hex.gz"], skip_bad=True))


def test_a_plain_file_is_read_without_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    for name, data in (("0.txt", b""), ("1.txt", b"some words"), ("2.txt", b"a" * 3_000_000)):
        path = tmp_path / name
        path.write_bytes(data)
        assert compressed.plain_file(str(path), len(data)) == data
    monkeypatch.setattr(text, "open_stream", None)  # which is not asked for any of them
    found = documents([str(tmp_path)], on_bytes=counted.append)
    assert [len(one) for _, one in found] == [0, 10, 3_000_000]
    assert sum(counted) == 3_000_010


def test_a_file_of_which_there_is_more_to_say_is_read_as_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, suffix, large = tmp_path / "packed.txt", tmp_path / "named.txt.gz", tmp_path / "large.txt"
    packed.write_bytes(gzip.compress(b"some words"))
    suffix.write_bytes(b"no gzip")
    large.write_bytes(b"some words")
    os.mkfifo(tmp_path / "pipe")
    for path in (packed, suffix, tmp_path / "pipe", tmp_path, "-", "memory://some"):
        assert compressed.plain_file(str(path), 100) is None
    assert compressed.plain_file(str(large), 9) is None
    assert [one for _, one in documents([str(packed)])] == ["some words"]
    with pytest.raises(BadInput, match="expected gzip data"):
        list(documents([str(suffix)], format="text"))
    with pytest.raises(FileNotFoundError) as raised:
        compressed.plain_file(str(tmp_path / "none"), 9)
    assert raised.value.filename == str(tmp_path / "none")
    status = os.stat(large)
    grown = os.stat_result((*status[:6], 4, *status[7:]))  # of before there was more
    monkeypatch.setattr(os, "stat", lambda path: grown)
    assert compressed.plain_file(str(large), 9) is None


@pytest.mark.parametrize("become", [os.mkdir, os.mkfifo])
def test_a_file_that_has_become_something_else_is_read_as_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, become: Callable[[Path], None]
) -> None:
    """Nobody waits for whoever writes to a pipe."""
    path, own = tmp_path / "a.txt", os.open
    path.write_bytes(b"some words")

    def late(name: str, flags: int) -> int:
        path.unlink()
        become(path)
        return own(name, flags)

    monkeypatch.setattr(compressed.os, "open", late)  # type: ignore[attr-defined]
    assert compressed.plain_file(str(path), 100) is None


def test_an_error_of_the_system_while_reading_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words")

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(compressed.os, "read", broken)  # type: ignore[attr-defined]
    monkeypatch.setattr(compressed._Bounded, "readinto", broken)
    with pytest.raises(OSError, match="Input/output error") as raised:
        compressed.plain_file(str(path), 100)
    assert (raised.value.errno, raised.value.filename) == (errno.EIO, str(path))
    with pytest.raises(OSError, match="Input/output error") as raised:
        whole(path, within=(0, 5))
    assert (raised.value.errno, raised.value.filename) == (errno.EIO, str(path))
