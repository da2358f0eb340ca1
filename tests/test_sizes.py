"""When the store does by itself what it does: the sizes a writer goes by."""

from dataclasses import fields

import pytest

from fpstore.living.sizes import LivingSizes


def test_the_sizes_of_a_store_are_those_of_the_docs() -> None:
    sizes = LivingSizes()
    assert (sizes.flush_rows, sizes.max_pending_rows, sizes.deferred_rows) == (131_072, 2 * 131_072, 65_536)
    assert (sizes.small_rows, sizes.small_segments, sizes.held_rows) == (1_048_576, 8, 2 * 1_048_576)
    assert (sizes.named_flush_rows, sizes.batch_rows) == (1_048_576, 1_048_576)
    assert (sizes.growth, sizes.growth_over) == (2, 3)
    assert (sizes.keys_per_removal, sizes.min_removals, sizes.max_removals) == (8, 65_536, 4_194_304)
    assert sizes.piece_rows == 1024
    assert sizes.names_growth == 64
    assert (sizes.flush_name_bytes, sizes.max_name_bytes) == (12 << 20, 24 << 20)


@pytest.mark.parametrize(
    ("key_counts", "first"),
    [
        ([], 0),
        ([5], 1),
        ([200, 200], 2),
        ([200, 150, 150], 3),  # together the smaller ones are no more than half as large again
        ([199, 150, 150], 0),
        ([201, 150, 150], 3),
        ([1000, 300, 20, 10], 4),
        ([1000, 300, 191, 150, 141], 1),
        ([1000, 700, 500, 301], 0),
        ([1000, 700, 500, 300], 4),
        ([10, 10, 10], 0),
        ([10_000, 10, 10, 10], 1),
        ([10_000, 8000, 7000, 5000, 2501], 0),
        ([10_000, 8000, 3900, 3000], 4),
    ],
)
def test_a_segment_is_due_when_the_smaller_ones_are_more_than_half_as_large_again(
    key_counts: list[int], first: int
) -> None:
    assert LivingSizes(small_rows=1).first_due(key_counts) == first


@pytest.mark.parametrize(
    ("key_counts", "first"),
    [
        ([33] * 3, 3),  # few
        ([100, 80, 79, 1], 0),
        ([100, 80, 19], 3),  # but for these it would be due
        ([9] * 4, 0),
        ([100, 9, 9, 9, 9], 1),
        ([71, 9, 9, 9, 9], 0),  # they are as small as it
        ([100, 38, 38, 38, 38], 0),
        ([1000, 130, 38, 38, 38, 38], 2),
        ([1000, 101, 38, 38, 38, 38], 1),
        ([168, 101, 38, 38, 38, 38], 0),
        ([1000, 99, 1], 1),  # together as many as a segment that is not small has
        ([1000, 98, 1], 3),
        ([200, 100, 98, 1], 4),
        ([104, 102, 100, 98, 1], 0),  # the larger three are due by themselves
        ([100], 1),
        ([99], 1),
    ],
)
def test_small_segments_are_due_when_they_are_many_or_have_many_rows(key_counts: list[int], first: int) -> None:
    assert LivingSizes(small_rows=100, small_segments=4).first_due(key_counts) == first


def test_segments_are_few_and_rows_are_written_few_times_however_many_come() -> None:
    """As flushes and merges of 1,600 times the rows of a flush leave them."""
    sizes, segments, written, most = LivingSizes(flush_rows=1, small_rows=8), [0] * 0, 0, 0
    for _ in range(1600):
        segments = sorted([*segments, 1], reverse=True)
        while (first := sizes.first_due(segments)) < len(segments):
            written += sum(segments[first:])
            segments = sorted([*segments[:first], sum(segments[first:])], reverse=True)
        most = max(most, len(segments))
    assert sum(segments) == 1600
    assert most <= 7 + 6
    assert written <= 5 * 1600


def test_a_store_with_names_flushes_later() -> None:
    sizes = LivingSizes(flush_rows=5, named_flush_rows=7, max_pending_rows=6)
    assert sizes.of(flushes_late=False) == sizes
    assert (sizes.of(flushes_late=True).flush_rows, sizes.of(flushes_late=True).max_pending_rows) == (7, 28)


def test_without_growth_nothing_is_due() -> None:
    assert LivingSizes(growth=0).first_due([1] * 9) == 9


@pytest.mark.parametrize(
    ("name_counts", "due"),
    [
        ([], []),
        ([8] * 7, []),
        ([8] * 8, [*range(8)]),
        ([8, 15, 63, 8, 8, 8, 63, 20], [*range(8)]),  # of two digits to the base 8
        ([7] * 7 + [8], []),
        ([64, 0, *[8] * 8, 1, 63, 512], [1, *range(2, 12)]),  # smaller ones go along
        ([1] * 9 + [64] * 8, [*range(17)]),
        ([1] * 9 + [64] * 7, [*range(9)]),
    ],
)
def test_files_of_names_are_due_when_there_are_so_many_of_one_size(name_counts: list[int], due: list[int]) -> None:
    assert LivingSizes(names_growth=8).due_names(name_counts) == due


def test_by_default_files_of_names_are_due_when_there_are_sixty_four_of_one_size() -> None:
    assert LivingSizes().due_names([200_000] * 63) == []
    assert LivingSizes().due_names([200_000] * 64) == [*range(64)]


def test_few_files_of_names_are_left_however_many_come() -> None:
    """As merges leave them: each name is in one file, and was written about as often as there are sizes."""
    sizes, files, written = LivingSizes(names_growth=4), [0] * 0, 0
    for _ in range(1000):
        files.append(100)
        written += 100
        while due := sizes.due_names(files):
            merged = sum(files[index] for index in due)
            files = [count for index, count in enumerate(files) if index not in due] + [merged]
            written += merged
    assert sum(files) == 100_000
    assert len(files) <= 3 * 6
    assert written <= 6 * 100_000


@pytest.mark.parametrize(
    ("keys", "limit"), [(0, 65_536), (8 * 65_536, 65_536), (8 * 65_537, 65_537), (8 << 22, 1 << 22), (1 << 40, 1 << 22)]
)
def test_the_limit_of_removals_is_a_share_of_the_keys_between_two_bounds(keys: int, limit: int) -> None:
    assert LivingSizes().removal_limit(keys) == limit


@pytest.mark.parametrize("name", [field.name for field in fields(LivingSizes)])
@pytest.mark.parametrize("value", [-1, 2**31, 1.5, "1"])
def test_what_is_no_size_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        LivingSizes(**{name: value})  # type: ignore[arg-type]


def test_additions_cannot_have_to_wait_for_a_flush_that_is_not_due() -> None:
    with pytest.raises(ValueError, match=r"^max_pending_rows: found 9, expected flush_rows, 10, or more$"):
        LivingSizes(flush_rows=10, max_pending_rows=9)
    LivingSizes(flush_rows=10, max_pending_rows=10)
