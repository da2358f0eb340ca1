"""Written fingerprints and ids: what is read, in which way, and what is refused."""

# mypy: disable-error-code="union-attr"

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.inputs import BadInput, parse_fingerprint
from fpstore.inputs.cells import EXPECTED_CLEAR, FingerprintColumn, parse_ids

U64 = st.integers(0, 2**64 - 1)


@given(U64)
def test_every_fingerprint_is_read_back_from_all_three_ways_of_writing(value: int) -> None:
    assert parse_fingerprint(f"{value:016x}") == value
    assert parse_fingerprint(f"{value:016X}") == value
    assert parse_fingerprint(f"0x{value:x}") == value
    assert parse_fingerprint(f"  0X{value:016X}\n") == value
    if len(str(value)) != 16:
        assert parse_fingerprint(str(value)) == value


def test_sixteen_decimal_digits_alone_are_hexadecimal() -> None:
    assert parse_fingerprint("1234567890123456") == 0x1234567890123456
    assert parse_fingerprint(" 1234567890123456 ") == 0x1234567890123456
    assert parse_fingerprint("00001234567890123456") == 1234567890123456


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        "0x12345678901234567",
        "deadbeef",
        "deadbeefdeadbee",
        "deadbeefdeadbeefd",
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
    with pytest.raises(BadInput, match=r"^fingerprint: found .* expected 16 hexadecimal digits, 0x and up to 16"):
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


@given(st.lists(U64, min_size=1, max_size=50))
def test_a_column_of_decimal_is_read_as_written_where_one_of_them_is_not_of_16_digits(values: list[int]) -> None:
    written = [str(value) for value in [*values, 7]]
    parsed, bad = FingerprintColumn().parse(written)
    assert parsed.tolist() == [*values, 7]
    assert bad == {}


def test_sixteen_digits_follow_what_the_rest_of_the_file_is() -> None:
    either = "1234567890123456"
    assert FingerprintColumn().parse([either])[0].tolist() == [0x1234567890123456]
    assert FingerprintColumn().parse([either, "deadbeefdeadbeef"])[0].tolist()[0] == 0x1234567890123456
    assert FingerprintColumn().parse([either, "5"])[0].tolist() == [1234567890123456, 5]
    column = FingerprintColumn()
    column.parse(["5"])
    assert column.parse([either])[0].tolist() == [1234567890123456]
    column = FingerprintColumn()
    column.parse(["deadbeefdeadbeef"])
    assert column.parse([either, "0x5"])[0].tolist() == [0x1234567890123456, 5]


def test_sixteen_digits_in_a_file_that_mixes_both_are_refused() -> None:
    values, bad = FingerprintColumn().parse(["5", "deadbeefdeadbeef", "1234567890123456", "0x1234567890123456"])
    assert values.tolist() == [5, 0xDEADBEEFDEADBEEF, 0, 0x1234567890123456]
    assert bad == {2: EXPECTED_CLEAR}


@pytest.mark.parametrize("wrong", [-1, 2**64, True, None, 1.0, [1], "gggggggggggggggg", "é" * 16, "\ud800" * 16])
def test_a_bad_value_is_named_by_its_index_and_the_others_are_read(wrong: Any) -> None:
    values, bad = FingerprintColumn().parse(["0123456789abcdef", wrong, 5])
    assert values.tolist() == [0x0123456789ABCDEF, 0, 5]
    assert list(bad) == [1]
    assert list(FingerprintColumn().parse([wrong])[1]) == [0]


def test_digits_at_full_speed_are_left_to_parse_where_the_file_is_decimal() -> None:
    column = FingerprintColumn()
    assert column.parse_digits(b"1234567890123456").tolist() == [0x1234567890123456]
    column.parse(["5"])
    assert column.parse_digits(b"1234567890123456") is None
    assert FingerprintColumn().parse_digits(b"123456789012345 ") is None


@pytest.mark.parametrize("dtype", ["u1", "<u8", ">u8", "<i4", ">i8"])
def test_a_column_of_integers_is_widened(dtype: str) -> None:
    column = np.array([0, 1, 127], dtype=dtype)
    for parsed, bad in (FingerprintColumn().parse(column), parse_ids(column)):
        assert parsed.dtype == np.dtype(np.uint64)
        assert parsed.tolist() == [0, 1, 127]
        assert bad == {}


def test_a_negative_integer_is_bad() -> None:
    values, bad = FingerprintColumn().parse(np.array([3, -1, 4], dtype=np.int64))
    assert values.tolist() == [3, 0, 4]
    assert list(bad) == [1]


@given(st.lists(U64 | U64.map(str), max_size=30))
def test_ids_are_read_as_numbers_or_as_decimal_digits(ids: Any) -> None:
    values, bad = parse_ids(ids)
    assert values.tolist() == [int(value) for value in ids]
    assert bad == {}


@pytest.mark.parametrize("wrong", [-1, 2**64, str(2**64), "-1", "+1", "1_0", "", "0x5", "٣", None, True, 1.5, "9" * 21])
def test_a_bad_id_is_named_by_its_index_and_the_others_are_read(wrong: Any) -> None:
    values, bad = parse_ids(["5", wrong, 6])
    assert values.tolist() == [5, 0, 6]
    assert list(bad) == [1]
    assert list(parse_ids([wrong])[1]) == [0]
