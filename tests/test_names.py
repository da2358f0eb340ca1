"""Files of names: written, read, found, merged and sorted as a plain model says, and hostile bytes refused."""

import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fpstore import _names
from fpstore import format as layout
from fpstore._codec import crc32c, page_checksums
from fpstore.errors import CorruptStore, UnsupportedVersion
from fpstore.format import Footer
from fpstore.names import reader as readers
from fpstore.names.column import NO_NAMES, Named, Names, as_names, gathered, joined, to_column
from fpstore.names.layout import KIND_NAMES, NamesRecord
from fpstore.names.merging import NameSorter, merged_names
from fpstore.names.reader import NamesReader
from fpstore.names.writer import NamesWriter
from fpstore.segment.entry import names_name, segment_of

LONGEST = _names.MAX_NAME_BYTES
PARTS = st.sampled_from([b"", b"a", b"ab", b"http://example.org/", b"\0", b"\n", b"\xff", b"0", b"x" * 300])
NAMES = st.lists(PARTS, max_size=5).map(b"".join) | st.binary(max_size=12)
NAME_SETS = st.sets(NAMES, max_size=60)


def column(values: Sequence[bytes]) -> Names:
    return as_names([*values], False, "names")


def values_of(names: Names) -> list[bytes]:
    return [names.at(i) for i in range(names.size)]


def named(pairs: dict[bytes, int]) -> Named:
    ordered = sorted(pairs)
    return Named(column(ordered), np.array([pairs[name] for name in ordered], dtype=np.uint64))


def write(folder: Path, pairs: dict[bytes, int], *, step: int = 1 << 20, name: str = "n.fpnames") -> Path:
    path, whole = folder / name, named(pairs)
    path.unlink(missing_ok=True)
    with NamesWriter(path, folder) as writer:
        for start in range(0, len(pairs), step):
            end = min(start + step, len(pairs))
            writer.add(Named(whole.names.part(start, end), whole.handles[start:end]))
        told = writer.finish()
    assert told.file_bytes == path.stat().st_size
    return path


def verify_names(path: Path) -> int:
    with closing(NamesReader(path)) as reader:
        readers.verify_names(reader)
        return reader.count


def resealed(data: bytes) -> bytes:
    """A file with other bytes below its checksums, and checksums that hold."""
    footer = Footer.unpack(data[-layout.FOOTER_BYTES :], len(data))
    covered = data[: footer.checksums_offset]
    sums = page_checksums(covered).astype("<u4").tobytes()
    roots = page_checksums(sums).astype("<u4").tobytes()
    return covered + sums + roots + Footer.locate(footer.summary_offset, 1, crc32c(roots)).pack()


def read_everything(path: Path) -> None:
    with closing(NamesReader(path)) as reader:
        count = min(reader.count, 100)
        names = gathered(reader.chunks()).names
        reader.find(names)
        reader.find(column([b"", b"m", b"\xff" * 20]))
        reader.ranks(np.array([0, 1, 5, 1 << 63, (1 << 64) - 1], dtype=np.uint64))
        ranks = np.arange(count)
        reader.ranks(reader.handles(ranks))
        reader.names(ranks)


HANDLES = st.sampled_from(["in turn", "scattered", "large"])


def handles_for(how: str, names: set[bytes]) -> dict[bytes, int]:
    ordered = sorted(names)
    if how == "in turn":
        return {name: 7 + i for i, name in enumerate(ordered)}
    numbers = np.random.default_rng(len(names)).permutation(len(names)).tolist()
    scale = 1 if how == "scattered" else (1 << 64) // (len(names) + 1)
    return {
        name: int(number) ** 2 * scale % (1 << 64) if how == "scattered" else number * scale
        for name, number in zip(ordered, numbers, strict=True)
    }


@pytest.mark.slow
@given(NAME_SETS, HANDLES, st.integers(1, 30))
@example(set(), "in turn", 1)
@example({b""}, "scattered", 1)
@example({b"x" * LONGEST, b"x" * (LONGEST - 1), b"y"}, "large", 1)
@example({b"n%06d" % i for i in range(5000)}, "scattered", 700)
@settings(max_examples=120, deadline=None)
def test_a_file_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, names: set[bytes], how: str, step: int
) -> None:
    pairs = handles_for(how, names)
    path = write(tmp_path_factory.mktemp("names"), pairs, step=step)
    assert verify_names(path) == len(names)
    ordered = sorted(names)
    with closing(NamesReader(path)) as reader:
        ranks = np.arange(len(names))
        assert values_of(gathered(reader.chunks()).names) == ordered
        assert values_of(reader.names(ranks[::-1].copy())) == ordered[::-1]
        assert reader.handles(ranks).tolist() == [pairs[name] for name in ordered]
        asked = [
            *ordered,
            b"no such name",
            b"",
            b"\xff\xff",
            *(name[:-1] for name in ordered),
            *(n + b"a" for n in ordered),
        ]
        known = {name: rank for rank, name in enumerate(ordered)}
        assert reader.find(column([n[:LONGEST] for n in asked])).tolist() == [known.get(n[:LONGEST], -1) for n in asked]
        by_handle = {handle: known[name] for name, handle in pairs.items()}
        numbers = [
            *by_handle,
            *((h + 1) % (1 << 64) for h in by_handle),
            *(max(h - 1, 0) for h in by_handle),
            0,
            1 << 63,
        ]
        assert reader.ranks(np.array(numbers, dtype=np.uint64)).tolist() == [by_handle.get(h, -1) for h in numbers]


def test_a_block_ends_after_so_many_names_and_after_so_many_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, {b"%06d" % i: i for i in range(5000)})
    with closing(NamesReader(path)) as reader:
        assert [chunk.names.size for chunk in reader.chunks()] == [2048, 2048, 904]
    path = write(tmp_path, {b"%04d" % i + bytes(60000): i for i in range(9)})
    with closing(NamesReader(path)) as reader:
        assert [chunk.names.size for chunk in reader.chunks()] == [5, 4]


def test_the_bytes_do_not_depend_on_how_names_come(tmp_path: Path) -> None:
    pairs = {b"http://example.org/%d/%d" % (i % 7, i): i * i for i in range(6000)}
    one = write(tmp_path, pairs).read_bytes()
    assert write(tmp_path, pairs, step=17).read_bytes() == one


def test_shared_beginnings_and_common_parts_are_left_out(tmp_path: Path) -> None:
    pairs = {b"https://www.example.org/articles/2024/%08d.html" % (37 * i): i for i in range(20000)}
    path = write(tmp_path, pairs)
    with closing(NamesReader(path)) as reader:
        assert reader.record.blocks_bytes < reader.record.data_bytes / 4


@pytest.mark.parametrize(
    ("names", "handles", "told"),
    [
        ([b"b", b"a"], [1, 2], "do not increase"),
        ([b"a", b"a"], [1, 2], "do not increase"),
        ([b"a", b"b", b"c"], [3, 3, 3], "one handle"),
        ([b"a", b"b", b"c"], [3, 9, 3], "one handle"),
    ],
)
def test_what_a_writer_cannot_write_is_refused_and_leaves_nothing(
    tmp_path: Path, names: list[bytes], handles: list[int], told: str
) -> None:
    with NamesWriter(tmp_path / "n.fpnames", tmp_path) as writer:
        writer.add(Named(column(names), np.array(handles, dtype=np.uint64)))
        with pytest.raises(ValueError, match=told):
            writer.finish()
    assert os.listdir(tmp_path) == []


def small_file(tmp_path: Path) -> Path:
    return write(tmp_path, {b"http://a.example/%d" % (i * 7919): (i * 31) % 101 + 5 for i in range(70)})


@pytest.mark.slow
def test_every_changed_byte_and_every_cut_is_found(tmp_path: Path) -> None:
    path = small_file(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(CorruptStore):
            verify_names(path)
    for end in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:end])
        with pytest.raises(CorruptStore):
            verify_names(path)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_hostile_bytes_under_right_checksums_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "hostile.fpnames"
    if not (folder / "sound.fpnames").exists():
        os.rename(small_file(folder), folder / "sound.fpnames")
    data = bytearray((folder / "sound.fpnames").read_bytes())
    end = Footer.unpack(bytes(data[-layout.FOOTER_BYTES :]), len(data)).checksums_offset
    for at, value in changes:
        data[at % end] = value
    path.write_bytes(resealed(bytes(data)))
    try:
        read_everything(path)
    except (CorruptStore, UnsupportedVersion):
        return


@pytest.mark.parametrize("field", range(8))
@pytest.mark.parametrize("value", [0, 1, 71, 1 << 31, (1 << 64) - 1])
def test_a_record_with_a_number_that_cannot_be_is_refused(tmp_path: Path, field: int, value: int) -> None:
    path = small_file(tmp_path)
    data = bytearray(path.read_bytes())
    footer = Footer.unpack(bytes(data[-layout.FOOTER_BYTES :]), len(data))
    kind, at = ("<Q", 8 * field) if field < 6 else ("<I", 48 + 4 * (field - 6))
    (found,) = struct.unpack_from(kind, data, footer.summary_offset + at)
    wanted = value if kind == "<Q" else value & 0xFFFFFFFF
    if field == 1 or found == wanted:  # how many bytes the names have is for verify to find out
        wanted = (1 << 63) if kind == "<Q" else 65
    struct.pack_into(kind, data, footer.summary_offset + at, wanted)
    path.write_bytes(resealed(bytes(data)))
    with pytest.raises(CorruptStore):
        verify_names(path)


def test_a_record_with_bytes_after_its_fields_is_refused(tmp_path: Path) -> None:
    path = small_file(tmp_path)
    data = bytearray(path.read_bytes())
    footer = Footer.unpack(bytes(data[-layout.FOOTER_BYTES :]), len(data))
    data[footer.summary_offset + 100] = 1
    path.write_bytes(resealed(bytes(data)))
    with pytest.raises(CorruptStore, match="zeros after"):
        NamesReader(path)


def test_a_segment_is_no_file_of_names(tmp_path: Path) -> None:
    path = small_file(tmp_path)
    data = bytearray(path.read_bytes())
    assert struct.unpack_from("<I", data, 12)[0] == KIND_NAMES
    struct.pack_into("<I", data, 12, layout.KIND_SEGMENT)
    path.write_bytes(resealed(bytes(data)))
    with pytest.raises(CorruptStore, match="kind: found 1, expected 2"):
        NamesReader(path)


def test_a_small_file_has_the_bytes_worked_through_in_the_format(tmp_path: Path) -> None:
    path = write(tmp_path, {b"a": 9, b"ab": 5, b"b": 7})
    data = path.read_bytes()
    block = data[64 : 64 + 27]
    # 3 names, the first of which has 1 byte; one symbol, of 1 byte; one group, of 8 bytes.
    assert block[:6] == bytes([3, 0, 1, 0, 0]) + b"a"
    assert block[6:15] == bytes([1, 0, 0, 0, 0, 0, 0, 0]) + b"b"
    assert block[15:19] == bytes([8, 0, 0, 0])
    # a: all of the first name; ab: 1 byte of it and the symbol 0; b: nothing of the one before.
    assert block[19:] == bytes([1, 0]) + bytes([1, 1, 0]) + bytes([0, 1, 0])
    with closing(NamesReader(path)) as reader:
        assert reader.record == NamesRecord(3, 4, 1, 27, 5, 9, 3, 2)
        offset = reader.record.handles_offset
        assert data[offset : offset + 2] == (4 | 0 << 3 | 2 << 6).to_bytes(2, "little")  # 9, 5, 7 less 5
        offset = reader.record.order_offset
        assert data[offset] == 1 | 2 << 2 | 0 << 4  # of 5, 7 and 9


def test_a_name_whose_bits_are_not_in_the_filter_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, {b"a": 9, b"ab": 5, b"b": 7})
    data = bytearray(path.read_bytes())
    with closing(NamesReader(path)) as reader:
        offset = reader.record.filter_offset
    expected = bytearray(64)
    for name in (b"a", b"ab", b"b"):
        bits = siphash_1_3(name) * 0x9E3779B97F4A7C15
        for _ in range(7):
            expected[(bits & 511) >> 3] |= 1 << (bits & 7)
            bits >>= 9
    assert data[offset : offset + 64] == expected
    data[offset : offset + 64] = bytes(64)
    path.write_bytes(resealed(bytes(data)))
    with closing(NamesReader(path)) as reader:
        assert reader.find(column([b"a", b"ab", b"b"])).tolist() == [-1, -1, -1]
        with pytest.raises(ValueError, match="1 hashes of 2 names"):
            reader.find(column([b"a", b"b"]), _names.hashes(*column([b"a"])))
    with pytest.raises(CorruptStore, match="not found by name"):
        verify_names(path)


def test_looks_into_a_file_are_counted_and_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is not there is told by the filter, almost always; one that is there is looked for in its block."""
    path, advised = write(tmp_path, {b"%05d" % i: i for i in range(3000)}), [0] * 0
    with closing(NamesReader(path)) as reader:

        class Told:
            def madvise(self, advice: int) -> None:
                advised.append(advice)

        monkeypatch.setattr(reader, "_map", Told())
        new = column([b"new %d" % i for i in range(100_000)])
        assert (reader.find(new) == -1).all()
        assert reader._names.looked < 200
        monkeypatch.setattr(reader, "_looks_held", before := reader._names.looked)
        advised.clear()
        for _ in range(readers.FORGOTTEN_LOOKS - 1):
            assert reader.find(column([b"00007"])).tolist() == [7]
        assert reader._names.looked == before + readers.FORGOTTEN_LOOKS - 1
        assert advised == []
        reader.find(column([b"00009"]))
        assert advised == [mmap.MADV_DONTNEED]
        monkeypatch.undo()
        assert reader.find(column([b"02999"])).tolist() == [2999]


def test_what_was_read_in_order_is_let_go_of(tmp_path: Path) -> None:
    """A merge of many files holds nothing of those whose turn it is not."""
    rng = np.random.default_rng(14)
    path = write(tmp_path, {rng.bytes(40): int(rng.integers(0, 1 << 40)) for _ in range(50_000)})

    def resident() -> int:
        with open("/proc/self/smaps") as lines:
            own = re.search(rf"{re.escape(str(path))}$.*?^Rss: +(\d+) kB", lines.read(), re.DOTALL | re.MULTILINE)
        assert own is not None
        return int(own[1]) << 10

    with closing(NamesReader(path)) as reader:
        assert reader.record.blocks_bytes > 1_800_000
        assert [resident() for _ in reader.chunks()] == [0] * reader.record.block_count


def siphash_1_3(data: bytes) -> int:
    """With key words of 0; https://131002.net/siphash/siphash.pdf, with 1 and 3 rounds."""
    mask = (1 << 64) - 1
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & mask

    def mix() -> None:
        v[0] = (v[0] + v[1]) & mask
        v[2] = (v[2] + v[3]) & mask
        v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[1]) & mask
        v[0] = (v[0] + v[3]) & mask
        v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
        v[2] = rotate(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix()
        v[0] ^= word
    v[2] ^= 255
    for _ in range(3):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


# --- Merging and sorting ---


@pytest.mark.slow
@given(st.lists(st.dictionaries(NAMES, st.integers(0, 1 << 20), max_size=30), max_size=5), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_sources_are_merged_as_a_plain_model_merges_them(sources: list[dict[bytes, int]], step: int) -> None:
    handles: dict[bytes, int] = {}
    for source in sources:
        for name, handle in source.items():
            handles.setdefault(name, handle)
    chunks = [in_steps(named({name: handles[name] for name in source}), step) for source in sources]
    found = gathered(merged_names(chunks, once=True))
    assert values_of(found.names) == sorted(handles)
    assert found.handles.tolist() == [handles[name] for name in sorted(handles)]


def in_steps(whole: Named, step: int) -> Iterator[Named]:
    for start in range(0, whole.names.size, step):
        end = min(start + step, whole.names.size)
        yield Named(whole.names.part(start, end), whole.handles[start:end])


def test_one_name_with_two_handles_is_damage() -> None:
    for step in (1, 2):
        chunks = [in_steps(named({b"a": 1, b"b": 2}), step), in_steps(named({b"b": 3}), step)]
        with pytest.raises(CorruptStore, match="names: found two handles of one name, expected one"):
            list(merged_names(chunks, once=True))


@pytest.mark.slow
@given(st.lists(NAMES, max_size=200), st.integers(100, 20000))
@settings(max_examples=100, deadline=None)
def test_names_are_sorted_whatever_is_spilled(
    tmp_path_factory: pytest.TempPathFactory, names: list[bytes], memory: int
) -> None:
    sorter = NameSorter(tmp_path_factory.getbasetemp(), memory)
    for start in range(0, len(names), 7):
        part = names[start : start + 7]
        sorter.add(column(part), np.arange(start, start + len(part), dtype=np.uint64))
    expected = sorted((name, i) for i, name in enumerate(names))
    for _ in range(2):  # read again
        found = gathered(sorter.chunks())
        pairs = zip(values_of(found.names), found.handles.tolist(), strict=True)
        assert [*pairs] == expected
    sorter.close()


def test_many_runs_are_merged_in_rounds(tmp_path: Path) -> None:
    sorter, names = NameSorter(tmp_path, 300), [b"%d" % (i * 7919 % 1000) for i in range(1000)]
    for i, name in enumerate(names):
        sorter.add(column([name]), np.array([i], dtype=np.uint64))
    assert values_of(gathered(sorter.chunks()).names) == sorted(names)
    sorter.close()


# --- In memory ---


@pytest.mark.parametrize(
    "names",
    [
        [],
        [b"x"],
        [b"a\0", b"a", b"a\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0\0", b"", b"\0", b"a", b"a\0\0\0\0\0\0\0"],
        [b"p" * n + b"%d" % (n % 7) for n in range(200, 0, -1)],
        [b"p" * (n % 40) + bytes([n * 91 % 256, n * 37 % 256]) * (n % 3) for n in range(2000)],
        [b"same"] * 50 + [b"same and more"] * 50 + [b"same"] * 20,
        [b"http://host%d.example/%d" % (n * 31 % 17, n * 7919 % 1009) for n in range(3000)],
        [b"%d" % (n * 7919 % 3001) for n in range(6000)],
        [b"\0" * (n * 5 % 12) + b"a" * (n % 2) for n in range(3000)],
    ],
)
def test_names_are_sorted_by_their_bytes_and_equal_ones_stay_in_their_order(names: list[bytes]) -> None:
    expected = sorted(range(len(names)), key=lambda i: (names[i], i))
    assert _names.sort_order(*column(names)).tolist() == expected


@pytest.mark.slow
@given(st.lists(NAMES, max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_names_are_sorted(names: list[bytes]) -> None:
    assert _names.sort_order(*column(names)).tolist() == sorted(range(len(names)), key=lambda i: (names[i], i))


# --- What callers give ---


@pytest.mark.slow
@given(st.lists(st.text(max_size=10), max_size=20))
def test_text_comes_back(values: list[str]) -> None:
    assert to_column(as_names(values, True, "ids"), True).tolist() == values
    assert to_column(as_names(np.array(values, dtype=np.dtypes.StringDType()), True, "ids"), True).tolist() == values


def test_arrays_series_and_arrow_give_names() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    values = ["a", "", "\0", "é\n"]
    for given_values in (
        values,
        (*values,),
        iter(values),
        np.array(values, dtype=object),
        pyarrow.array(values),
        pyarrow.chunked_array([values[:1], values[1:]]),
        pyarrow.table({"id": values}),
    ):
        assert to_column(as_names(given_values, True, "ids"), True).tolist() == values
    raw = [b"a", b"", b"\xff\0b"]
    assert to_column(as_names(pyarrow.array(raw), False, "ids"), False).tolist() == raw
    with pytest.raises(ValueError, match="found 1 nulls, expected strings"):
        as_names(pyarrow.array(["a", None]), True, "ids")


@pytest.mark.parametrize(
    ("values", "text", "error", "told"),
    [
        (["a", 5], True, TypeError, "ids, item 1: found a int, expected a str"),
        (["a", b"b"], True, TypeError, "ids, item 1: found a bytes, expected a str"),
        (["a"], False, TypeError, "ids, item 0: found a str, expected bytes"),
        (["ok", "\ud800"], True, ValueError, "ids, item 1: found half of a surrogate pair, expected text"),
        (["x" * (LONGEST + 1)], True, ValueError, "ids, item 0: found 65537 bytes, expected at most 65536"),
        ("abc", True, TypeError, "ids: found one str, expected several of them"),
        ({"a"}, True, TypeError, "ids: found a set, expected several strings"),
        (5, True, TypeError, "ids: found a int, expected several strings"),
        (np.array([["a"]]), True, ValueError, "ids: found 2 dimensions, expected 1"),
        (np.array([1, 2]), True, TypeError, "ids, item 0: found a int, expected a str"),
    ],
)
def test_what_no_store_takes_is_refused(values: object, text: bool, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as raised:
        as_names(values, text, "ids")
    assert str(raised.value) == told


def test_a_name_that_is_no_text_is_damage() -> None:
    with pytest.raises(CorruptStore, match="that is no UTF-8, expected text"):
        to_column(column([b"\xff"]), True)


def test_columns_are_parted_joined_and_ranked() -> None:
    names = column([b"b", b"", b"ccc", b"b"])
    assert values_of(names.part(1, 3)) == [b"", b"ccc"]
    assert values_of(names.part(2, 2)) == []
    assert values_of(joined([names, NO_NAMES, names.part(1, 3)])) == [b"b", b"", b"ccc", b"b", b"", b"ccc"]
    assert values_of(joined([])) == []
    assert names.ranks().tolist() == [1, 0, 2, 1]
    # Up to the one with which they have so many bytes, and two for each.
    assert [names.upto(0, most, 2) for most in (1, 3, 4, 5, 6, 100)] == [1, 1, 2, 2, 3, 4]
    assert [names.upto(2, most, 1) for most in (1, 4, 5, 7)] == [3, 3, 4, 4]
    with pytest.raises(IndexError):
        names.take(np.array([4]))


def test_the_kernels_refuse_ends_that_are_not_those_of_names() -> None:
    data = np.zeros(4, dtype=np.uint8)
    for ends in ([5], [3], [2, 1, 4], [-1, 4]):
        with pytest.raises(ValueError, match="their ends are not those of names"):
            _names.hashes(data, np.array(ends))


def test_files_of_names_are_called_as_their_segments() -> None:
    assert names_name("00000012.fpseg") == "00000012.fpnames"
    assert names_name("00000012.fpseg.0123456789abcdef.new") == "00000012.fpnames.0123456789abcdef.new"
    assert segment_of("00000012.fpnames") == "00000012.fpseg"
