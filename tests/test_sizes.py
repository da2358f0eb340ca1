"""When the store does by itself what it does: the sizes a writer goes by."""

from dataclasses import fields

import pytest

from fpstore.living.sizes import LivingSizes
from fpstore.query.additions import PIECE_ROWS


def test_the_sizes_of_a_store_are_those_of_the_docs() -> None:
    sizes = LivingSizes()
    assert (sizes.flush_rows, sizes.max_pending_rows, sizes.deferred_rows) == (1_048_576, 4 * 1_048_576, 65_536)
    assert (sizes.growth, sizes.keys_per_removal, sizes.min_removals, sizes.max_removals) == (3, 8, 65_536, 4_194_304)
    assert sizes.piece_rows == PIECE_ROWS == 256
    assert sizes.names_growth == 32
    assert (sizes.flush_name_bytes, sizes.max_name_bytes) == (24 << 20, 48 << 20)


@pytest.mark.parametrize(
    ("key_counts", "first"),
    [
        ([], 0),
        ([5], 1),
        ([300, 100], 2),  # together the smaller ones are no more than a third
        ([299, 100], 0),
        ([301, 100], 2),
        ([1000, 300, 20, 10], 2),
        ([1000, 300, 29, 10], 0),
        ([10, 10, 10], 0),
        ([10_000, 10, 10, 10], 1),
        ([10_000, 3000, 300, 34], 0),
        ([10_000, 3000, 300, 33], 4),
    ],
)
def test_a_segment_is_due_when_the_smaller_ones_are_more_than_a_third(key_counts: list[int], first: int) -> None:
    assert LivingSizes().first_due(key_counts) == first


def test_without_growth_nothing_is_due() -> None:
    assert LivingSizes(growth=0).first_due([1, 1, 1]) == 3


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


def test_by_default_files_of_names_are_due_when_there_are_thirty_two_of_one_size() -> None:
    assert LivingSizes().due_names([400_000] * 31) == []
    assert LivingSizes().due_names([400_000] * 32) == [*range(32)]


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
