"""The ids of a segment come back to their fingerprints: one each, many, or none for some."""

from collections.abc import Callable

import numpy as np
import pytest
from helpers import LAST, distinct, fingerprint_array, ids_by_rank, segment_of, uniform

from fpstore import plan as plans
from fpstore.errors import CorruptStore
from fpstore.format import ID_KIND_MANY, ID_KIND_NONE, ID_KIND_ONE
from fpstore.types import Ids, Keys

HALVES = plans.flips(2, (1, 1), 3)
STORED = distinct(uniform(700, np.random.default_rng(0)))


def one_each(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored, rng.permutation(len(stored)).astype(np.uint64)


def one_each_from_a_million(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored, np.arange(len(stored), dtype=np.uint64) + np.uint64(1_000_000)


def one_each_anywhere(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    ids = uniform(len(stored), rng)
    ids[0], ids[-1] = 0, LAST
    return stored, ids


def all_the_same_id(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored, np.full(len(stored), 77, dtype=np.uint64)


def many_each(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    fingerprints = np.concatenate([stored, rng.choice(stored, 5 * len(stored))])
    return fingerprints, rng.integers(0, 1 << 40, len(fingerprints), dtype=np.uint64)


def none_for_some(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    fingerprints = rng.choice(stored, 2 * len(stored))
    return fingerprints, np.arange(len(fingerprints), dtype=np.uint64)


def all_to_one(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return np.full(5000, stored[len(stored) // 2]), np.arange(5000, dtype=np.uint64) * np.uint64(3)


def as_many_ids_as_fingerprints_but_not_one_each(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return np.concatenate([stored[1:], stored[-1:]]), np.arange(len(stored), dtype=np.uint64)


def no_ids_at_all(stored: Keys, rng: np.random.Generator) -> tuple[Keys, Ids]:
    return stored[:0], stored[:0]


ONE = (one_each, one_each_from_a_million, one_each_anywhere, all_the_same_id)
MANY = (many_each, none_for_some, all_to_one, as_many_ids_as_fingerprints_but_not_one_each, no_ids_at_all)
SCATTERED = plans.flips((0x5555555555555555, 0xAAAAAAAAAAAAAAAA), (2, 0), 3)  # table 0 is no identity


@pytest.mark.parametrize("make_pairs", [*ONE, *MANY])
@pytest.mark.parametrize("slot_bits", [0, 5])
@pytest.mark.parametrize("plan", [HALVES, SCATTERED], ids=["halves", "scattered"])
def test_ids_come_back_to_their_fingerprints(
    make_pairs: Callable[[Keys, np.random.Generator], tuple[Keys, Ids]], slot_bits: int, plan: plans.Plan
) -> None:
    rng = np.random.default_rng(2)
    pairs = make_pairs(STORED, rng)
    expected: dict[int, list[int]] = {fingerprint: [] for fingerprint in STORED.tolist()}
    for fingerprint, document in zip(*(column.tolist() for column in pairs), strict=True):
        expected[fingerprint].append(document)
    with segment_of(STORED, plan, slot_bits=slot_bits, pairs=pairs) as segment:
        assert segment.record.id_kind == (ID_KIND_ONE if make_pairs in ONE else ID_KIND_MANY)
        assert segment.record.id_count == len(pairs[1])
        assert segment.ids is not None
        asked = rng.permutation(np.concatenate([STORED, STORED[:50], np.repeat(STORED[:3], 3)]))
        counts, ids = segment.ids.lookup(asked)
        assert (counts.dtype, ids.dtype) == (np.int64, np.uint64)
        found = np.split(ids, np.cumsum(counts)[:-1])
        assert [part.tolist() for part in found] == [sorted(expected[key]) for key in asked.tolist()]
        by_rank = [column.tolist() for column in ids_by_rank(STORED, plan, pairs)]
        assert [column.tolist() for column in segment.ids.read(0, segment.key_count)] == by_rank
        counts, ids = segment.ids.read(10, 20)
        assert counts.tolist() == by_rank[0][10:20]
        first = sum(by_rank[0][:10])
        assert ids.tolist() == by_rank[1][first : first + int(counts.sum())]


def test_a_segment_without_ids_has_no_id_column() -> None:
    with segment_of(STORED, HALVES) as segment:
        assert segment.ids is None
        assert segment.record.id_kind == ID_KIND_NONE


def test_ids_of_ranks_that_there_are_not_are_refused() -> None:
    with segment_of(STORED, HALVES, pairs=(STORED, STORED)) as segment:
        assert segment.ids is not None
        for first, end in ((0, len(STORED) + 1), (5, 4), (len(STORED) + 1, len(STORED) + 1)):
            with pytest.raises(ValueError, match=f"ranks {first} to {end}: the segment has {len(STORED)}"):
                segment.ids.read(first, end)


def test_ids_of_a_fingerprint_that_is_not_stored_are_corruption() -> None:
    # lookup is asked for what a probe found; what table 0 does not hold means that the tables differ.
    strangers = fingerprint_array([int(STORED[0]) ^ 1, 0, LAST])
    for slot_bits in (0, 5):
        with segment_of(STORED, HALVES, slot_bits=slot_bits, pairs=(STORED, STORED)) as segment:
            assert segment.ids is not None
            assert [len(column) for column in segment.ids.lookup(strangers[:0])] == [0, 0]
            for index in range(3):
                with pytest.raises(CorruptStore, match="ids: a directory entry or an id points outside"):
                    segment.ids.lookup(strangers[index : index + 1])
