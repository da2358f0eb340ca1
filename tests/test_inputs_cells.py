"""Written fingerprints and ids: what is read, in which way, and what is refused."""

# mypy: disable-error-code="union-attr"

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, parse_fingerprint
from fpstore.inputs.cells import ASK_WAY, FingerprintColumn, parse_ids

U64 = st.integers(0, 2**64 - 1)


@given(U64)
def test_a_fingerprint_alone_is_hexadecimal_unless_it_is_said_to_be_decimal(value: int) -> None:
    for form in ("{:016x}", "{:x}", "{:X}", "0x{:x}", "  0X{:016X}\n"):
        assert parse_fingerprint(form.format(value)) == value
    assert parse_fingerprint(str(value), decimal=True) == value
    assert parse_fingerprint(f" {value - 2**64 if value >> 63 else value} ", decimal=True) == value


def test_decimal_digits_alone_are_hexadecimal() -> None:
    assert parse_fingerprint("1234567890123456") == 0x1234567890123456
    assert parse_fingerprint("12") == 0x12


@pytest.mark.parametrize("bits", [128, 256])
def test_a_wide_fingerprint_alone_has_all_its_digits_or_0x(bits: int) -> None:
    value, digits = (1 << bits - 9) + 5, bits // 4
    whole = f"{value:0{digits}x}"
    sent = FingerprintColumn.of_programs(bits)
    for written in (whole, whole.upper(), f"0x{whole}", f"0X{value:x}"):
        assert parse_fingerprint(written, bits=bits) == value
        found, bad = sent.parse([written])
        assert (int.from_bytes(found.astype(">u8").tobytes(), "big"), bad) == (value, {})
    for cut in (whole[:-1], whole[1:], whole[:16], "5", "0x", f"{whole}0", f"0x0{whole}"):
        with pytest.raises(BadInput, match=rf"expected {digits} hexadecimal digits .*, or 0x and up to {digits}"):
            parse_fingerprint(cut, bits=bits)
        assert sent.parse([cut])[1] == {0: f"{digits} hexadecimal digits ({bits} bits), or 0x and up to {digits}"}
        assert sent.parse([whole, cut])[1].keys() == {1}


@pytest.mark.parametrize(("bits", "digits"), [(64, 64), (64, 32), (128, 64), (256, 32), (256, 16)])
def test_what_has_the_digits_of_another_width_is_told_its_bits(bits: int, digits: int) -> None:
    column = FingerprintColumn(bits=bits)
    _, bad = column.parse(["f" * (bits // 4), "a" * digits])
    assert bad[1].endswith(f"; it has {4 * digits} bits")


@pytest.mark.parametrize("wrong", [5, None, b"5", 5.0])
def test_a_fingerprint_that_is_no_text_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^fingerprint: found .*, a \w+, expected a str"):
        parse_fingerprint(wrong)


@pytest.mark.parametrize("text", ["", "0x5", "ff", "18446744073709551616", "-9223372036854775809", "5.0", "٣"])
def test_what_is_no_decimal_number_of_64_bits_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^fingerprint: found .* expected a decimal number of 64 bits"):
        parse_fingerprint(text, decimal=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        "0x12345678901234567",
        "deadbeefdeadbeefd",
        "12345678901234567",
        "18446744073709551616",
        "000000000000000000001",
        "-1",
        "+1",
        "1_000",
        "1.0",
        "٣٤",
        "１２",
        "deadbeef deadbee",
        "nan",
        "12\n34",
    ],
)
def test_what_no_rule_reads_is_refused_with_what_was_found(text: str) -> None:
    with pytest.raises(BadInput, match=r"^fingerprint: found .* expected 1 to 16 hexadecimal digits"):
        parse_fingerprint(text)


def test_a_long_wrong_fingerprint_is_shown_shortened() -> None:
    with pytest.raises(BadInput) as caught:
        parse_fingerprint("z" * 100_000)
    assert len(str(caught.value)) < 200
    assert "zzz..." in str(caught.value)


@given(st.lists(U64, max_size=50), st.sampled_from(["{:016x}", "{:016X}", "0x{:x}", "0x{:016x}"]))
def test_a_column_of_hexadecimal_is_read_as_written(values: list[int], form: str) -> None:
    parsed, bad = FingerprintColumn().parse([form.format(value) for value in values])
    assert parsed.dtype == np.uint64
    assert parsed.tolist() == values
    assert bad == {}


@given(st.lists(U64, max_size=50), st.sampled_from([7, 2**64 - 1, -5]))
def test_a_column_of_decimal_is_read_as_written_where_one_of_them_is_not_of_16_digits(
    values: list[int], other: int
) -> None:
    written = [str(value) for value in [*values, other]]
    parsed, bad = FingerprintColumn().parse(written)
    assert parsed.tolist() == [*values, other % 2**64]
    assert bad == {}


@given(st.lists(U64, min_size=1, max_size=50))
def test_a_column_of_signed_decimals_is_the_same_bits(values: list[int]) -> None:
    signed = [value - 2**64 if value >> 63 else value for value in values]
    parsed, bad = FingerprintColumn("decimal").parse(list(map(str, signed)))
    assert (parsed.tolist(), bad) == (values, {})
    assert FingerprintColumn().parse(np.array(signed, dtype=np.int64))[0].tolist() == values


EITHER = "1234567890123456"


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ([EITHER, "deadbeefdeadbeef"], 0x1234567890123456),
        ([EITHER, "0x5"], 0x1234567890123456),
        ([EITHER, "0000000000000005"], 0x1234567890123456),  # nobody writes a decimal number so
        ([EITHER, "5"], 1234567890123456),
        ([EITHER, "-1234567890123456"], 1234567890123456),
        ([EITHER, 5], 1234567890123456),
        ([EITHER, "wrong", "17e", "5"], 1234567890123456),
        (["5", EITHER], 1234567890123456),
        (["deadbeefdeadbeef", EITHER], 0x1234567890123456),
    ],
)
def test_sixteen_digits_follow_the_first_value_that_tells(cells: list[object], value: int) -> None:
    together = FingerprintColumn().parse(cells)[0].tolist()
    assert together[cells.index(EITHER)] == value
    column = FingerprintColumn()
    assert [column.decide([cell]) for cell in cells][-1]
    assert column.parse([EITHER])[0].tolist() == [value]


def test_a_column_in_which_each_could_be_either_is_not_decided() -> None:
    column = FingerprintColumn()
    assert not column.decide([EITHER, EITHER])
    assert column.decide(["wrong", b"12345678"])
    assert column.parse([EITHER])[1] == {0: ASK_WAY}
    assert FingerprintColumn("hex").parse([EITHER])[0].tolist() == [0x1234567890123456]
    assert FingerprintColumn("decimal").parse([EITHER])[0].tolist() == [1234567890123456]


@pytest.mark.parametrize(
    ("first", "other"),
    [("5", "deadbeefdeadbeef"), ("5", "0x5"), ("5", "0000000000000005"), ("0x5", "5"), ("0x5", "-5"), ("0x5", 5)],
)
def test_a_column_does_not_mix_the_two(first: str, other: object) -> None:
    values, bad = FingerprintColumn().parse([first, other, first])
    assert values.tolist() == [5, 0, 5]
    assert list(bad) == [1]
    assert bad[1].endswith("as the values before it; or fingerprint_format (--fingerprint-format)")


def test_of_random_decimals_none_is_read_as_hexadecimal() -> None:
    """One in 2,030 has 16 digits."""
    values = np.random.default_rng(1).integers(0, 2**64, 40_000, dtype=np.uint64).tolist()
    sixteen = [value for value in values if len(str(value)) == 16]
    assert len(sixteen) > 5
    ordered = sixteen + values
    for way in ("auto", "decimal"):
        parsed, bad = FingerprintColumn(way).parse(list(map(str, ordered)))
        assert (parsed.tolist(), bad) == (ordered, {})


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ([Decimal(5), Decimal(2**64 - 1), Decimal(-5)], [5, 2**64 - 1, 2**64 - 5]),
        ([bytes(range(8)), b"\xff" * 8], [0x0001020304050607, 2**64 - 1]),
        ([5, -5, 2**64 - 1], [5, 2**64 - 5, 2**64 - 1]),
    ],
)
def test_numbers_and_bytes_are_their_bits(cells: Any, values: list[int]) -> None:
    parsed, bad = FingerprintColumn().parse(cells)
    assert (parsed.tolist(), bad) == (values, {})


@pytest.mark.parametrize(
    "wrong", [Decimal("1.5"), Decimal("NaN"), Decimal(2**64), b"1234567", b"1" * 16, "f" * 32, 1.0, float("nan")]
)
def test_other_widths_and_fractions_are_bad_and_the_width_is_said(wrong: object) -> None:
    for first in ("0x5", "5"):
        _, bad = FingerprintColumn().parse([first, wrong])
        assert list(bad) == [1]
        assert "64 bits" in bad[1]


@pytest.mark.parametrize(
    "wrong", [-(2**63) - 1, 2**64, True, None, 1.0, [1], "gggggggggggggggg", "é" * 16, "\ud800" * 16]
)
def test_a_bad_value_is_named_by_its_index_and_the_others_are_read(wrong: Any) -> None:
    values, bad = FingerprintColumn().parse(["0123456789abcdef", wrong, "0x5"])
    assert values.tolist() == [0x0123456789ABCDEF, 0, 5]
    assert list(bad) == [1]
    assert list(FingerprintColumn().parse([wrong])[1]) == [0]


def test_digits_at_full_speed_are_left_to_parse_where_the_file_is_not_known_to_be_hexadecimal() -> None:
    for way in ("auto", "decimal"):
        assert FingerprintColumn(way).parse_digits(b"1234567890123456") is None
    column = FingerprintColumn("hex")
    assert column.parse_digits(b"1234567890123456").tolist() == [0x1234567890123456]
    assert column.parse_digits(b"123456789012345 ") is None


@pytest.mark.parametrize("dtype", ["u1", "<u8", ">u8", "<i4", ">i8"])
def test_a_column_of_integers_is_widened(dtype: str) -> None:
    column = np.array([0, 1, 127], dtype=dtype)
    for parsed, bad in (FingerprintColumn().parse(column), parse_ids(column)):
        assert parsed.dtype == np.dtype(np.uint64)
        assert parsed.tolist() == [0, 1, 127]
        assert bad == {}


@pytest.mark.parametrize("dtype", ["i1", "<i2", ">i4"])
def test_a_negative_integer_of_fewer_bits_is_bad(dtype: str) -> None:
    values, bad = FingerprintColumn().parse(np.array([3, -1, 4], dtype=dtype))
    assert values.tolist() == [3, 0, 4]
    assert bad == {1: "integers of 64 bits where some are below 0"}


@given(st.lists(U64 | U64.map(str), max_size=30))
def test_ids_are_read_as_numbers_or_as_decimal_digits(ids: Any) -> None:
    values, bad = parse_ids(ids)
    assert values.tolist() == [int(value) for value in ids]
    assert bad == {}


def test_signed_ids_are_the_same_bits() -> None:
    for column in ([-5, 5], ["-5", "+5"], np.array([-5, 5])):
        assert parse_ids(column)[0].tolist() == [2**64 - 5, 5]


@pytest.mark.parametrize(
    "wrong", [-(2**63) - 1, 2**64, str(2**64), "-", "1_0", "", "0x5", "٣", None, True, 1.5, "9" * 21]
)
def test_a_bad_id_is_named_by_its_index_and_the_others_are_read(wrong: Any) -> None:
    values, bad = parse_ids(["5", wrong, 6])
    assert values.tolist() == [5, 0, 6]
    assert list(bad) == [1]
    assert list(parse_ids([wrong])[1]) == [0]
