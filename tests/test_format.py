"""Records pack to the bytes of docs/format.md and unpack from nothing else."""

# mypy: disable-error-code="arg-type, misc"

import struct
from collections.abc import Callable
from dataclasses import replace

import plain_codec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore import format as fmt
from fpstore.errors import CorruptStore, UnsupportedVersion
from fpstore.format import Footer, Header, Region, SegmentRecord, Summary, TableRecord

# 1,000 keys in 2**6 slots, and 1,500 ids of 20 bits from 7 on; rank_width: found 10, as 1,000 < 1,024.
LENGTHS = (0,) * 50 + (1, 2, 2) + (0,) * 12
TABLE_0 = TableRecord(
    prefix_mask=0xFFFF_FFFF_0000_0000,
    codec=fmt.CODEC_GAP,
    slot_bits=6,
    rice_bits=0,
    flips=1,
    payload_offset=64,
    payload_bits=50_001,  # 6,251 bytes: to 6,315
    directory_offset=6336,  # 64 slots in 6 lines, 192 bytes: to 6,528
    fences_offset=6528,
    fence_count=3,  # 48 bytes: to 6,576
    code_lengths=LENGTHS,
)
TABLE_1 = TableRecord(
    prefix_mask=0x0000_0000_FFFF_FFFF,
    codec=fmt.CODEC_RICE,
    slot_bits=0,
    rice_bits=53,
    flips=0,
    payload_offset=6592,
    payload_bits=56_000,  # 7,000 bytes: to 13,592
    directory_offset=13_632,  # 32 bytes: to 13,664
    fences_offset=13_696,
    fence_count=8,  # 128 bytes: to 13,824
    code_lengths=(0,) * 65,
)
SEGMENT = SegmentRecord(
    table_count=2,
    key_count=1000,
    id_count=1500,
    id_kind=fmt.ID_KIND_MANY,
    id_width=20,
    rank_width=10,
    id_base=7,
    ranks_offset=13_824,  # 65 ranks of 10 bits, 82 bytes: to 13,906
    groups_offset=13_952,  # 2,500 bits, 313 bytes: to 14,265
    samples_offset=14_272,  # 5 started 512s and the end, 48 bytes: to 14,320
    values_offset=14_336,  # 1,500 * 20 bits, 3,750 bytes: to 18,086
)
SUMMARY_OFFSET = 18_112  # 128 + 2 * 192 = 512 bytes: to 18,624, a multiple of 64
# 18,624 bytes are 5 pages; 5 checksums are 20 bytes, one page; its root is 4.
FOOTER = Footer(
    file_bytes=18_624 + 20 + 4 + 64,
    summary_offset=SUMMARY_OFFSET,
    checksums_offset=18_624,
    roots_offset=18_644,
    roots_crc=0xDEADBEEF,
)
SUMMARY = Summary(SEGMENT, (TABLE_0, TABLE_1))
RAW = replace(TABLE_1, codec=fmt.CODEC_RAW, rice_bits=0)
NO_ID_NUMBERS = dict.fromkeys(("id_count", "id_width", "rank_width", "id_base"), 0)
ID_OFFSETS = ("ranks_offset", "groups_offset", "samples_offset", "values_offset")
WITHOUT_IDS = replace(SEGMENT, id_kind=fmt.ID_KIND_NONE, **NO_ID_NUMBERS, **dict.fromkeys(ID_OFFSETS, 0))
ONE_ID_EACH = replace(SEGMENT, id_count=1000, id_kind=fmt.ID_KIND_ONE, groups_offset=0, samples_offset=0)


def with_byte(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + bytes([value]) + data[offset + 1 :]


def resealed(data: bytes) -> bytes:
    """These 64 bytes of a footer under a checksum that holds."""
    return data[:60] + plain_codec.crc32c(data[:60]).to_bytes(4, "little")


def refusal(unpack: Callable[[], object]) -> str:
    """The message of the CorruptStore that unpack raises."""
    with pytest.raises(CorruptStore) as caught:
        unpack()
    message = str(caught.value)
    assert "\n" not in message
    return message


def refuse_table(table: TableRecord, key_count: int = 1000, **changes: object) -> str:
    return refusal(lambda: TableRecord.unpack(replace(table, **changes).pack(), 3, key_count))


def refuse_summary(segment: SegmentRecord = SEGMENT, table_0: TableRecord = TABLE_0) -> str:
    data = Summary(segment, (table_0, TABLE_1)).pack()
    return refusal(lambda: Summary.unpack(data, FOOTER))


def test_the_header_is_the_magic_the_version_the_kind_and_zeros() -> None:
    data = Header().pack()
    assert data == b"FPSTORE\n" + bytes([3, 0, 0, 0, 1, 0, 0, 0]) + bytes(48)
    assert Header.unpack(data) == Header(kind=1)


def test_the_footer_has_its_fields_where_the_page_says() -> None:
    data = FOOTER.pack()
    assert struct.unpack("<QQQQII", data[:40]) == (18_712, 18_112, 18_624, 18_644, 0xDEADBEEF, 3)
    assert data[40:60] == bytes(12) + b"FPSTEND\n"
    assert data == resealed(data)
    assert Footer.unpack(data, 18_712) == FOOTER


def test_the_segment_record_has_its_fields_where_the_page_says() -> None:
    data = SEGMENT.pack()
    assert struct.unpack("<IIQQIIIIQQQQQ", data[:80]) == (
        *(64, 2, 1000, 1500, 2, 20, 10, 0, 7),
        *(13_824, 13_952, 14_272, 14_336),
    )
    assert data[80:] == bytes(48)
    assert SegmentRecord.unpack(data) == SEGMENT


def test_a_table_record_has_its_fields_where_the_page_says() -> None:
    data = TABLE_0.pack()
    assert data[:16] == bytes([0, 0, 0, 0, 255, 255, 255, 255, 0, 6, 0, 0, 1, 0, 0, 0])
    assert struct.unpack("<QQQQQ", data[16:56]) == (64, 50_001, 6336, 6528, 3)
    assert data[56:] == bytes(50) + bytes([1, 2, 2]) + bytes(12) + bytes(71)
    assert TableRecord.unpack(data, 0, 1000) == TABLE_0
    assert TABLE_1.pack()[8:12] == bytes([2, 0, 53, 0])


def test_the_summary_is_the_segment_record_and_the_table_records() -> None:
    data = SUMMARY.pack()
    assert data == SEGMENT.pack() + TABLE_0.pack() + TABLE_1.pack()
    assert Summary.unpack(data, FOOTER) == SUMMARY


def test_sizes_are_those_worked_out_beside_the_records() -> None:
    assert [fmt.align64(offset) for offset in (0, 1, 64, 65)] == [0, 64, 64, 128]
    assert [fmt.packed_bytes(10, 65), fmt.packed_bytes(20, 1500), fmt.packed_bytes(0, 9)] == [82, 3750, 0]
    assert [fmt.directory_bytes(slot_bits) for slot_bits in (0, 3, 4, 6)] == [32, 32, 64, 192]
    assert fmt.groups_bytes(1000, 1500) == 313
    assert [fmt.samples_bytes(500, id_count) for id_count in (0, 12, 13)] == [16, 16, 24]
    assert fmt.samples_bytes(0, 0) == 8
    assert [fmt.checksum_bytes(covered) for covered in (64, 4096, 4097)] == [4, 4, 8]


def test_the_footer_follows_from_where_the_summary_starts() -> None:
    assert Footer.locate(18_112, 2, 0xDEADBEEF) == FOOTER
    # 4096 * 1024 bytes have exactly one page of checksums, and 64 more have 4 bytes of a second.
    last = 4096 * 1024 - 512
    assert Footer.locate(last, 2, 0).file_bytes == 4096 * 1024 + 4096 + 4 + 64
    assert Footer.locate(last + 64, 2, 0).file_bytes == 4096 * 1024 + 64 + 4100 + 8 + 64


@given(st.integers(64, 1 << 50), st.integers(1, 1024))
def test_every_footer_that_follows_from_a_summary_opens(summary_offset: int, table_count: int) -> None:
    footer = Footer.locate(summary_offset, table_count, 5)
    assert Footer.unpack(footer.pack(), footer.file_bytes) == footer


def test_every_byte_of_the_file_is_in_one_region() -> None:
    assert SUMMARY.regions(FOOTER) == (
        Region("header", None, 0, 64),
        Region("payload", 0, 64, 6251),
        Region("padding", None, 6315, 21),
        Region("directory", 0, 6336, 192),
        Region("fences", 0, 6528, 48),
        Region("padding", None, 6576, 16),
        Region("payload", 1, 6592, 7000),
        Region("padding", None, 13_592, 40),
        Region("directory", 1, 13_632, 32),
        Region("padding", None, 13_664, 32),
        Region("fences", 1, 13_696, 128),
        Region("ranks", None, 13_824, 82),
        Region("padding", None, 13_906, 46),
        Region("id groups", None, 13_952, 313),
        Region("padding", None, 14_265, 7),
        Region("group samples", None, 14_272, 48),
        Region("padding", None, 14_320, 16),
        Region("id values", None, 14_336, 3750),
        Region("padding", None, 18_086, 26),
        Region("summary", None, 18_112, 512),
        Region("checksums", None, 18_624, 20),
        Region("roots", None, 18_644, 4),
        Region("footer", None, 18_648, 64),
    )


@pytest.mark.parametrize("segment", [WITHOUT_IDS, ONE_ID_EACH])
def test_absent_regions_are_not_listed_and_the_rest_covers_the_file(segment: SegmentRecord) -> None:
    tables = replace(TABLE_0, fence_count=0, fences_offset=0), TABLE_1
    regions = Summary.unpack(Summary(segment, tables).pack(), FOOTER).regions(FOOTER)
    names = [region.name for region in regions]
    assert names.count("fences") == 1
    assert ("ranks" in names, "id values" in names) == ((segment is ONE_ID_EACH,) * 2)
    assert not {"id groups", "group samples"} & set(names)
    starts = [region.offset for region in regions]
    assert [region.offset + region.bytes for region in regions] == [*starts[1:], 18_712]


def test_a_segment_of_no_key_with_ids_opens() -> None:
    table = replace(TABLE_0, slot_bits=0, payload_bits=0, directory_offset=64, fences_offset=0, fence_count=0)
    table = replace(table, code_lengths=(0,) * 65)
    segment = replace(ONE_ID_EACH, table_count=1, ranks_offset=128, values_offset=128)
    segment = replace(segment, key_count=0, **NO_ID_NUMBERS)
    footer = Footer.locate(128, 1, 0)
    summary = Summary.unpack(Summary(segment, (table,)).pack(), footer)
    assert [region.name for region in summary.regions(footer)] == [
        *("header", "directory", "padding", "summary", "checksums", "roots", "footer")
    ]


def test_a_summary_that_starts_between_two_multiples_of_64_has_zeros_after_it() -> None:
    footer = Footer.locate(SUMMARY_OFFSET + 1, 2, 0)
    assert footer.checksums_offset == 18_688
    data = SUMMARY.pack() + bytes(63)
    assert Summary.unpack(data, footer).regions(footer)[-4] == Region("padding", None, 18_625, 63)
    assert refusal(lambda: Summary.unpack(with_byte(data, 574, 1), footer)) == (
        f"summary, bytes 512..574: found {'00' * 62}01, expected zeros"
    )


def test_a_damaged_header_is_refused() -> None:
    for offset, value, message in (
        (0, 0x66, r"header, magic: found b'fPSTORE\n', expected b'FPSTORE\n'"),
        (12, 2, "header, kind: found 2, expected 1"),
        (20, 1, f"header, bytes 16..63: found {'00' * 4}01{'00' * 43}, expected zeros"),
    ):
        data = with_byte(Header().pack(), offset, value)
        assert refusal(lambda data=data: Header.unpack(data)) == message


def test_a_header_of_another_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedVersion, match=r"^header, version: found 4, expected 3; made by a newer fpstore$"):
        Header.unpack(with_byte(Header().pack(), 8, 4))


def test_a_footer_of_another_version_is_unsupported_when_its_checksum_holds() -> None:
    newer = with_byte(FOOTER.pack(), 36, 4)
    with pytest.raises(UnsupportedVersion, match=r"^footer, version: found 4, expected 3; made by a newer fpstore$"):
        Footer.unpack(resealed(newer), FOOTER.file_bytes)
    assert refusal(lambda: Footer.unpack(newer, FOOTER.file_bytes)).startswith("footer, checksum: found 0x")


def test_every_flipped_bit_of_a_footer_is_refused() -> None:
    data = FOOTER.pack()
    for bit in range(64 * 8):
        flipped = with_byte(data, bit // 8, data[bit // 8] ^ 1 << bit % 8)
        refusal(lambda flipped=flipped: Footer.unpack(flipped, FOOTER.file_bytes))


def test_a_footer_says_what_was_found_and_what_was_expected() -> None:
    data = FOOTER.pack()
    crc = int.from_bytes(data[60:], "little")
    assert refusal(lambda: Footer.unpack(data[:60] + bytes(4), 18_712)) == (
        f"footer, checksum: found 0x00000000, expected {crc:#010x}"
    )
    assert refusal(lambda: Footer.unpack(bytes(64), 18_712)) == (
        f"footer, magic: found {bytes(8)!r}, expected {b'FPSTEND' + bytes([10])!r}"
    )
    assert refusal(lambda: Footer.unpack(resealed(with_byte(data, 51, 9)), 18_712)) == (
        f"footer, bytes 40..51: found {'00' * 11}09, expected zeros"
    )
    assert refusal(lambda: Footer.unpack(data, 18_776)) == "footer, file_bytes: found 18712, expected 18776"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file_bytes": 18_711}, "footer, file_bytes: found 18711, expected 18712"),
        ({"checksums_offset": 18_625}, "footer, checksums_offset: found 18625, expected a multiple of 64"),
        ({"checksums_offset": 0}, "footer, checksums_offset: found 0, expected 64..18712"),
        ({"checksums_offset": 1 << 63}, f"footer, checksums_offset: found {1 << 63}, expected 64..18712"),
        ({"summary_offset": 63}, "footer, summary_offset: found 63, expected 64..18624"),
        ({"summary_offset": 18_625}, "footer, summary_offset: found 18625, expected 64..18624"),
        ({"summary_offset": 18_305}, "footer, summary_bytes: found 319, expected 320..196799"),
        ({"roots_offset": 18_640}, "footer, roots_offset: found 18640, expected 18644"),
        ({"checksums_offset": 18_560, "roots_offset": 18_580}, "footer, offset: found 18648, expected 18584"),
    ],
)
def test_a_footer_with_a_wrong_number_is_refused(changes: dict[str, int], message: str) -> None:
    data = replace(FOOTER, **changes).pack()
    assert refusal(lambda: Footer.unpack(data, FOOTER.file_bytes)) == message


def test_a_summary_longer_than_1024_tables_is_refused() -> None:
    footer = Footer.locate(64, 1025, 0)
    assert refusal(lambda: Footer.unpack(footer.pack(), footer.file_bytes)) == (
        "footer, summary_bytes: found 196928, expected 320..196799"
    )


def test_records_cut_short_are_refused_at_every_length() -> None:
    for length in range(64):
        expected = f"length: found {length}, expected 64"
        assert refusal(lambda n=length: Header.unpack(Header().pack()[:n])) == f"header, {expected}"
        assert refusal(lambda n=length: Footer.unpack(FOOTER.pack()[:n], 18_712)) == f"footer, {expected}"
    for length in range(128):
        message = refusal(lambda n=length: SegmentRecord.unpack(SEGMENT.pack()[:n]))
        assert message == f"segment record, length: found {length}, expected 128"
    for length in range(192):
        message = refusal(lambda n=length: TableRecord.unpack(TABLE_0.pack()[:n], 0, 1000))
        assert message == f"table 0, record length: found {length}, expected 192"
    for length in range(512):
        message = refusal(lambda n=length: Summary.unpack(SUMMARY.pack()[:n], FOOTER))
        assert message == f"summary, length: found {length}, expected 512"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table_count": 0}, "table_count: found 0, expected 1..1024"),
        ({"table_count": 1025}, "table_count: found 1025, expected 1..1024"),
        ({"id_kind": 3}, "id_kind: found 3, expected 0..2"),
        ({"rank_width": 11}, "rank_width: found 11, expected 10"),
        ({"key_count": 1024}, "rank_width: found 10, expected 11"),
        ({"id_kind": 0}, "rank_width: found 10, expected 0"),
        ({"id_kind": 0, "rank_width": 0}, "id_count: found 1500, expected 0"),
        ({"id_kind": 1}, "id_count: found 1500, expected 1000"),
        ({"id_width": 65}, "id_width: found 65, expected 0..64"),
        ({"id_count": 0}, "id_width: found 20, expected 0"),
        ({"id_count": 0, "id_width": 0}, "id_base: found 7, expected 0"),
        ({"id_base": (1 << 64) - 1}, f"id_base: found {2**64 - 1}, expected 0..{2**64 - 1 - 2**19}"),
        ({"ranks_offset": 0}, "ranks_offset: found 0, expected 64 or more"),
        ({"ranks_offset": 63}, "ranks_offset: found 63, expected 64 or more"),
        ({"values_offset": 65}, "values_offset: found 65, expected a multiple of 64"),
        ({"groups_offset": 0}, "groups_offset: found 0, expected 64 or more"),
        ({"samples_offset": 0}, "samples_offset: found 0, expected 64 or more"),
        ({"id_kind": 1, "id_count": 1000}, "groups_offset: found 13952, expected 0"),
        ({"id_kind": 1, "id_count": 1000, "groups_offset": 0}, "samples_offset: found 14272, expected 0"),
    ],
)
def test_a_segment_record_with_a_wrong_number_is_refused(changes: dict[str, int], message: str) -> None:
    data = replace(SEGMENT, **changes).pack()
    assert refusal(lambda: SegmentRecord.unpack(data)) == f"segment record, {message}"


def test_a_segment_record_without_ids_has_no_offset_of_any() -> None:
    for name in ID_OFFSETS:
        data = replace(WITHOUT_IDS, **{name: 64}).pack()
        message = refusal(lambda data=data: SegmentRecord.unpack(data))
        assert message == f"segment record, {name}: found 64, expected 0"


@pytest.mark.parametrize(("width", "base"), [(0, 2**64 - 1), (1, 2**64 - 2), (64, 2**63 - 1)])
def test_the_largest_id_that_a_width_promises_is_a_64_bit_number(width: int, base: int) -> None:
    largest = replace(SEGMENT, id_width=width, id_base=base)
    assert SegmentRecord.unpack(largest.pack()) == largest
    if base < 2**64 - 1:
        data = replace(largest, id_base=base + 1).pack()
        assert refusal(lambda: SegmentRecord.unpack(data)).endswith(f"expected 0..{base}")


@pytest.mark.parametrize("bits", range(16, 65, 8))
def test_a_segment_record_has_the_bits_of_its_keys(bits: int) -> None:
    record = replace(SEGMENT, key_bits=bits)
    assert record.pack()[:4] == bits.to_bytes(4, "little")
    assert SegmentRecord.unpack(record.pack()) == record


@pytest.mark.parametrize(
    ("found", "expected"), [(15, "16..64"), (8, "16..64"), (0, "16..64"), (72, "16..64"), (255, "16..64")]
)
def test_another_key_width_is_refused(found: int, expected: str) -> None:
    data = with_byte(SEGMENT.pack(), 0, found)
    assert (
        refusal(lambda: SegmentRecord.unpack(data)) == f"segment record, key_bits: found {found}, expected {expected}"
    )


def test_there_are_no_more_keys_than_their_bits_can_tell_apart() -> None:
    most = replace(WITHOUT_IDS, key_bits=16, key_count=1 << 16)
    assert SegmentRecord.unpack(most.pack()) == most
    data = replace(most, key_count=(1 << 16) + 1).pack()
    assert refusal(lambda: SegmentRecord.unpack(data)) == ("segment record, key_count: found 65537, expected 0..65536")


def test_a_table_of_narrow_keys_has_no_more_than_their_bits() -> None:
    lengths = (0,) * 15 + (1, 1) + (0,) * 48
    record = replace(
        TABLE_0, key_bits=16, prefix_mask=0xFF00, slot_bits=16, flips=8, payload_bits=9000, code_lengths=lengths
    )
    assert TableRecord.unpack(record.pack(), 0, 1000, 16) == record
    longer = (*(0,) * 16, 1, 1, *(0,) * 47)
    for changes, expected in (
        ({"prefix_mask": 0x10000}, "table 0, prefix_mask: found 0x10000, expected bits of a key of 16"),
        ({"slot_bits": 17}, "table 0, slot_bits: found 17, expected 0..16"),
        ({"flips": 17}, "table 0, flips: found 17, expected 0..16"),
        ({"code_lengths": longer}, "table 0, code_lengths: found symbol 17, expected 0..16"),
        ({"payload_bits": 27_001}, "table 0, payload_bits: found 27001, expected 1000..27000"),
    ):
        data = replace(record, **changes).pack()
        assert refusal(lambda data=data: TableRecord.unpack(data, 0, 1000, 16)) == expected
    raw = replace(RAW, key_bits=16, prefix_mask=0xFF00, slot_bits=0, payload_bits=16_000)
    assert TableRecord.unpack(raw.pack(), 0, 1000, 16) == raw
    data = replace(raw, payload_bits=64_000).pack()
    assert refusal(lambda: TableRecord.unpack(data, 0, 1000, 16)).endswith("found 64000, expected 16000")


def test_reserved_bytes_of_records_are_zero() -> None:
    for offset in [*range(36, 40), *range(96, 128)]:
        data = with_byte(SEGMENT.pack(), offset, 1)
        message = refusal(lambda data=data: SegmentRecord.unpack(data))
        assert message.startswith("segment record, bytes ")
        assert message.endswith(", expected zeros")
    for offset in [11, *range(121, 124), *range(128, 192)]:
        data = with_byte(TABLE_0.pack(), offset, 1)
        message = refusal(lambda data=data: TableRecord.unpack(data, 2, 1000))
        assert message.startswith("table 2, bytes ")
        assert message.endswith(", expected zeros")


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (TABLE_0, {"codec": 4}, "codec: found 4, expected 0..3"),
        (TABLE_0, {"slot_bits": 41}, "slot_bits: found 41, expected 0..40"),
        (TABLE_0, {"rice_bits": 1}, "rice_bits: found 1, expected 0"),
        (TABLE_1, {"rice_bits": 64}, "rice_bits: found 64, expected 0..63"),
        (TABLE_0, {"flips": 65}, "flips: found 65, expected 0..64"),
        (TABLE_0, {"payload_bits": 999}, "payload_bits: found 999, expected 1000..75000"),
        (TABLE_0, {"payload_bits": 75_001}, "payload_bits: found 75001, expected 1000..75000"),
        (TABLE_1, {"payload_bits": 53_999}, "payload_bits: found 53999, expected 54000..88000"),
        (TABLE_1, {"payload_bits": 88_001}, "payload_bits: found 88001, expected 54000..88000"),
        (RAW, {"payload_bits": 63_999}, "payload_bits: found 63999, expected 64000"),
        (TABLE_0, {"fence_count": 1001}, "fence_count: found 1001, expected 0..1000"),
        (TABLE_0, {"fence_count": 0}, "fences_offset: found 6528, expected 0"),
        (TABLE_0, {"fences_offset": 0}, "fences_offset: found 0, expected 64 or more"),
        (TABLE_0, {"payload_offset": 0}, "payload_offset: found 0, expected 64 or more"),
        (TABLE_0, {"payload_offset": 96}, "payload_offset: found 96, expected a multiple of 64"),
        (TABLE_0, {"directory_offset": 1}, "directory_offset: found 1, expected 64 or more"),
    ],
)
def test_a_table_record_with_a_wrong_number_is_refused(
    table: TableRecord, changes: dict[str, object], message: str
) -> None:
    assert refuse_table(table, **changes) == f"table 3, {message}"


def test_code_lengths_are_a_code_where_the_codec_has_one_and_zeros_elsewhere() -> None:
    zeros = (0,) * 63
    assert refuse_table(TABLE_0, code_lengths=(1, 2, *zeros)) == (
        "table 3, Kraft sum of the code lengths: found 3072/4096, expected 4096/4096"
    )
    assert refuse_table(TABLE_0, code_lengths=(0, 0, *zeros)) == (
        f"table 3, code_lengths: found {'00' * 65}, expected a code for codec gap and 1000 keys"
    )
    for table, codec in ((TABLE_1, "rice"), (RAW, "raw")):
        assert refuse_table(table, code_lengths=(1, 1, *zeros)) == (
            f"table 3, code_lengths: found 0101{'00' * 63}, expected zeros for codec {codec} and 1000 keys"
        )


def test_a_payload_that_a_directory_cannot_point_into_is_refused() -> None:
    bits = 1 << 48
    message = refuse_table(TABLE_0, key_count=bits // 2, payload_bits=bits)
    assert message == f"table 3, payload_bits: found {bits}, expected 0..{bits - 1}"


def test_a_table_of_no_key_has_no_code_and_no_payload() -> None:
    assert refuse_table(TABLE_0, key_count=0).endswith("expected zeros for codec gap and 0 keys")
    empty = {"code_lengths": (0,) * 65}
    assert refuse_table(TABLE_0, key_count=0, **empty) == "table 3, payload_bits: found 50001, expected 0"


def test_a_table_count_that_the_summary_does_not_hold_is_refused() -> None:
    assert refuse_summary(replace(SEGMENT, table_count=3)) == "summary, end: found 18624, expected 18816"


@pytest.mark.parametrize(
    ("changes", "found", "end", "before"),
    [
        ({"payload_offset": 128}, "directory, offset: found 6336", 6379, "table 0: payload"),
        ({"directory_offset": 6272}, "directory, offset: found 6272", 6315, "table 0: payload"),
        ({"fences_offset": 6400}, "fences, offset: found 6400", 6528, "table 0: directory"),
    ],
)
def test_regions_of_a_table_out_of_order_are_refused(
    changes: dict[str, int], found: str, end: int, before: str
) -> None:
    message = refuse_summary(table_0=replace(TABLE_0, **changes))
    assert message == f"table 0: {found}, expected {end} or more, after {before}"


def test_tables_that_overlap_are_refused() -> None:
    message = refuse_summary(table_0=replace(TABLE_0, fence_count=5))
    assert message == "table 1: payload, offset: found 6592, expected 6608 or more, after table 0: fences"


@pytest.mark.parametrize(
    ("changes", "found", "end", "before"),
    [
        ({"ranks_offset": 13_760}, "ranks, offset: found 13760", 13_824, "table 1: fences"),
        ({"groups_offset": 13_888}, "id groups, offset: found 13888", 13_906, "ranks"),
        ({"samples_offset": 14_208}, "group samples, offset: found 14208", 14_265, "id groups"),
        ({"values_offset": 14_272}, "id values, offset: found 14272", 14_320, "group samples"),
    ],
)
def test_ids_out_of_order_are_refused(changes: dict[str, int], found: str, end: int, before: str) -> None:
    message = refuse_summary(replace(SEGMENT, **changes))
    assert message == f"{found}, expected {end} or more, after {before}"


def test_regions_that_do_not_fit_before_the_summary_are_refused() -> None:
    # 2**40 slots are 91,625,968,982 lines of 12; 20 * 1,511 bits are 3,778 bytes.
    assert refuse_summary(table_0=replace(TABLE_0, slot_bits=40)) == (
        f"table 0: directory: found {91_625_968_982 * 32} bytes at 6336, expected at most 11776 before the summary"
    )
    assert refuse_summary(table_0=replace(TABLE_0, payload_offset=1 << 63)) == (
        f"table 0: payload: found 6251 bytes at {2**63}, expected at most {18_112 - 2**63} before the summary"
    )
    assert refuse_summary(replace(SEGMENT, id_count=1511)) == (
        "id values: found 3778 bytes at 14336, expected at most 3776 before the summary"
    )
    assert refuse_summary(replace(SEGMENT, id_count=2**64 - 1)) == (
        f"id groups: found {2**61 + 125} bytes at 13952, expected at most 4160 before the summary"
    )


@given(st.lists(st.tuples(st.integers(0, 511), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_summary_is_refused_or_stays_in_the_file(edits: list[tuple[int, int]]) -> None:
    data = SUMMARY.pack()
    for offset, value in edits:
        data = with_byte(data, offset, value)
    try:
        summary = Summary.unpack(data, FOOTER)
    except CorruptStore:
        return
    assert summary.pack() == data
    regions = summary.regions(FOOTER)
    assert sum(region.bytes for region in regions) == FOOTER.file_bytes
    assert min(region.bytes for region in regions) > 0


@given(st.binary(min_size=512, max_size=512))
def test_random_bytes_are_no_summary(data: bytes) -> None:
    refusal(lambda: Summary.unpack(data, FOOTER))
