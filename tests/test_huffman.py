"""Code lengths are those of the smallest code within the limit, and one table of lengths gives one code."""

import itertools

import pytest
from bitarray.util import canonical_huffman
from hypothesis import given
from hypothesis import strategies as st

from fpstore.huffman import MAX_CODE_BITS, SYMBOL_COUNT, canonical_codes, check_lengths, code_lengths

FEW_COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=6)
SKEWED_COUNTS = st.lists(
    st.one_of(st.just(0), st.integers(1, 3), st.integers(0, 62).map(lambda power: 1 << power)),
    min_size=SYMBOL_COUNT,
    max_size=SYMBOL_COUNT,
)
FIBONACCI = [1, 1]
while len(FIBONACCI) < SYMBOL_COUNT:
    FIBONACCI.append(FIBONACCI[-1] + FIBONACCI[-2])


def filled(counts: list[int]) -> list[int]:
    """The 65 counts that start with these."""
    return counts + [0] * (SYMBOL_COUNT - len(counts))


def cost(counts: list[int], lengths: tuple[int, ...]) -> int:
    """Bits of all code words together."""
    return sum(count * length for count, length in zip(counts, lengths, strict=True))


def kraft_sum(lengths: tuple[int, ...], limit: int) -> int:
    """The Kraft sum in units of 2**-limit."""
    return sum(1 << limit >> length for length in lengths if length)


def cost_by_brute_force(counts: list[int], limit: int) -> int:
    """The cost of the best prefix code of at most limit bits, out of every list of lengths that there is."""
    occurring = [count for count in counts if count]
    choices = itertools.product(range(1, limit + 1), repeat=len(occurring))
    return min(
        sum(count * length for count, length in zip(occurring, lengths, strict=True))
        for lengths in choices
        if kraft_sum(lengths, limit) <= 1 << limit
    )


@given(FEW_COUNTS, st.integers(3, 5))
def test_no_code_within_the_limit_is_smaller(counts: list[int], limit: int) -> None:
    lengths = code_lengths(filled(counts), limit)
    assert cost(filled(counts), lengths) == cost_by_brute_force(counts, limit)


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=SYMBOL_COUNT))
def test_the_limit_costs_nothing_where_huffman_keeps_it(counts: list[int]) -> None:
    lengths = code_lengths(filled(counts), limit=64)
    codes, _, _ = canonical_huffman(dict(enumerate(counts)))
    assert cost(filled(counts), lengths) == sum(counts[symbol] * len(code) for symbol, code in codes.items())
    assert list(lengths[: len(counts)]) == [len(codes[symbol]) for symbol in range(len(counts))]


@pytest.mark.slow
@given(SKEWED_COUNTS, st.integers(7, MAX_CODE_BITS))
def test_every_table_of_lengths_passes_its_own_check(counts: list[int], limit: int) -> None:
    lengths = code_lengths(counts, limit)
    check_lengths(lengths, limit)
    assert [length > 0 for length in lengths] == [count > 0 for count in counts]
    if sum(length > 0 for length in lengths) > 1:
        assert kraft_sum(lengths, limit) == 1 << limit


@pytest.mark.slow
@given(SKEWED_COUNTS)
def test_a_rarer_symbol_never_has_a_shorter_code(counts: list[int]) -> None:
    pairs = zip(counts, code_lengths(counts), strict=True)
    by_count = sorted(pair for pair in pairs if pair[0])
    for (rare, long), (frequent, short) in itertools.pairwise(by_count):
        assert rare == frequent or long >= short


def test_a_code_that_huffman_makes_64_bits_long_is_limited_to_12() -> None:
    codes, _, _ = canonical_huffman(dict(enumerate(FIBONACCI)))
    assert max(map(len, codes.values())) == 64
    lengths = code_lengths(FIBONACCI)
    assert max(lengths) == 12
    assert kraft_sum(lengths, 12) == 4096


def test_65_symbols_fit_in_7_bits_as_63_codes_of_6_bits_and_2_of_7() -> None:
    lengths = code_lengths([1] * SYMBOL_COUNT, limit=7)
    assert sorted(lengths) == [6] * 63 + [7] * 2


def test_lengths_of_four_counts_are_those_made_by_hand() -> None:
    # 1 + 2 = 3, 3 + 4 = 7, 7 + 8 = 15; limited to 2 bits nothing is left but 2 bits each.
    assert code_lengths(filled([8, 4, 2, 1]))[:4] == (1, 2, 3, 3)
    assert code_lengths(filled([8, 4, 2, 1]), limit=2)[:4] == (2, 2, 2, 2)


def test_a_lone_symbol_has_length_1_and_the_code_word_0() -> None:
    lengths = code_lengths([0] * 64 + [5])
    assert lengths == (0,) * 64 + (1,)
    assert canonical_codes(lengths)[64] == 0
    check_lengths(lengths)


def test_no_symbol_has_no_length() -> None:
    assert code_lengths([0] * SYMBOL_COUNT) == (0,) * SYMBOL_COUNT
    check_lengths((0,) * SYMBOL_COUNT)


def test_counts_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^symbol counts: found 64, expected 65$"):
        code_lengths([1] * 64)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^count of symbol 2: found -1, expected 0 or more$"):
        code_lengths(filled([1, 1, -1]))


def test_more_symbols_than_the_limit_can_tell_apart_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^symbols that occur: found 65, expected at most 64 for 6 bits$"):
        code_lengths([1] * SYMBOL_COUNT, limit=6)


def test_code_words_are_canonical() -> None:
    # By (length, symbol): symbol 1 is 0, symbol 3 is 10, symbols 0 and 4 are 110 and 111.
    assert canonical_codes([3, 1, 0, 2, 3]) == [0b110, 0b0, 0, 0b10, 0b111]


@pytest.mark.slow
@given(SKEWED_COUNTS)
def test_no_code_word_begins_another(counts: list[int]) -> None:
    lengths = code_lengths(counts)
    codes = canonical_codes(lengths)
    words = [format(code, f"0{length}b") for code, length in zip(codes, lengths, strict=True) if length]
    words.sort()
    assert all(not after.startswith(before) for before, after in itertools.pairwise(words))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 1], r"^code lengths: found 2, expected 65$"),
        (filled([1, 13]), r"^code length of symbol 1: found 13, expected 0\.\.12$"),
        (filled([1, -1]), r"^code length of symbol 1: found -1, expected 0\.\.12$"),
        (filled([0, 2]), r"^code length of the only symbol: found 2, expected 1$"),
        (filled([1, 2]), r"^Kraft sum of the code lengths: found 3072/4096, expected 4096/4096$"),
        (filled([1, 1, 12]), r"^Kraft sum of the code lengths: found 4097/4096, expected 4096/4096$"),
    ],
)
def test_lengths_of_no_code_are_refused(lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_lengths(lengths)
