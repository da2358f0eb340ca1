"""What two documents have in common, by hashes as they come: the counts of plain sets, whatever differs and where."""

import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from helpers import fingerprint_array as u64

from fpstore._turns import ASK, DONE, NEED, NEW, Turns

# Lengths of documents, and how many places of a copy are changed: few, that are told one by one, and many.
LENGTHS, CHANGES = (0, 1, 7, 8, 9, 40, 300), (0, 1, 2, 5, 40)


def compared(documents: Sequence[Sequence[int]], part: int, whole: int) -> tuple[list[int], list[float], int]:
    """To which earlier one each document goes, and how alike they are; all are near each other."""
    query, bits = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16)
    turns = Turns(u64([0] * len(documents)), 3, query, bits, [])
    turns.compare(64, part, whole)
    counts = np.array([len(each) for each in documents], dtype=np.int64)
    hashes = u64([*(one for each in documents for one in each), 0])
    silent = np.zeros(len(documents), dtype=np.uint8)
    turns.give(np.arange(len(documents)), np.cumsum(counts) - counts, counts, hashes, silent, True)
    assert turns.run() == DONE
    return turns.rows.tolist(), turns.measures.tolist(), turns.refused


def expected(documents: Sequence[Sequence[int]], part: int, whole: int) -> tuple[list[int], list[float], int]:
    """The same by sets."""
    leaders: list[int] = []
    rows, measures, refused = [], [], 0
    for at, own in enumerate(documents):
        found = NEW, float("nan")
        for place, leader in enumerate(leaders[:64]):
            common, either = len({*own} & {*documents[leader]}), len({*own} | {*documents[leader]})
            if common * whole >= part * either:
                found = leader, common / either if either else float("nan")
                refused += place
                break
        else:
            refused += min(len(leaders), 64)
            leaders.append(at)
        rows.append(found[0])
        measures.append(found[1])
    return rows, measures, refused


def changed(rng: np.random.Generator, document: list[int], count: int, most: int) -> list[int]:
    """A copy in which at so many places some hashes are others, have gone, have come, or are those of another place."""
    copy = list(document)
    for _ in range(count):
        at, some, how = int(rng.integers(0, len(copy) + 1)), int(rng.integers(1, 5)), rng.integers(0, 4)
        if how == 0:
            copy[at : at + some] = rng.integers(0, most, some).tolist()
        elif how == 1:
            del copy[at : at + some]
        elif how == 2:
            copy[at:at] = rng.integers(0, most, some).tolist()
        else:
            other = int(rng.integers(0, len(copy) + 1))
            copy[at:at] = copy[other : other + some]
    return copy


@pytest.mark.parametrize("share", [(0, 1), (1, 2), (41, 50), (1, 1)])
@pytest.mark.parametrize("most", [9, 400, 1 << 62])
def test_documents_go_where_their_sets_send_them(share: tuple[int, int], most: int) -> None:
    rng = np.random.default_rng(most % 1000)
    for length in LENGTHS:
        document = rng.integers(0, most, length).tolist()
        for count in CHANGES:
            others = [changed(rng, document, count, most) for _ in range(6)]
            documents = [each for each in (document, *others, document) if each or share[0]]
            assert repr(compared(documents, *share)) == repr(expected(documents, *share)), (length, count)


@pytest.mark.parametrize("most", [50, 1 << 62])
def test_a_document_is_compared_with_many_that_have_little_of_it(most: int) -> None:
    rng = np.random.default_rng(3)
    documents = [rng.integers(0, most, int(rng.integers(1, 90))).tolist() for _ in range(60)]
    refused = 0
    for share in ((1, 9), (1, 3), (41, 50)):
        found = compared(documents, *share)
        assert repr(found) == repr(expected(documents, *share))
        refused += found[2]
    assert refused > 1000


def test_hashes_that_are_alike_in_all_but_a_few_bits_are_told_apart() -> None:
    for shift in (0, 20, 52):
        document = [one << shift for one in range(500)]
        others = document[::-1], [*document[:250], *range(250, 500)], [one + (1 << 63) for one in document]
        documents = [document, *others]
        for share in ((1, 3), (1, 1)):
            assert repr(compared(documents, *share)) == repr(expected(documents, *share))


def test_most_hashes_of_a_document_may_be_repeated() -> None:
    document = [3, 1, 2] * 100
    documents = [document, [1, 2, 3], document[:-1], [*document, 9], [4] * 300, [4]]
    found = compared(documents, 3, 4)
    assert found[0] == [NEW, 0, 0, 0, NEW, 4]
    assert found[1][1:4] == [1.0, 1.0, 0.75]


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["FPSTORE_NARROW", "FPSTORE_PORTABLE"])
def test_every_set_of_instructions_tells_the_same(setting: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", __file__]
    subprocess.run(command, check=True, env=os.environ | {setting: "1"})


def told(document: list[int], own: list[int], others: list[int], part: int, whole: int) -> tuple[bool, int, float]:
    """What becomes of a document that is near a row of which is told what it has in place of some hashes of it."""
    turns = Turns(u64([0]), 3, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint16), [])
    turns.compare(64, part, whole)
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    turns.give(one, none, len(document) * one, u64([*document, 0]), np.zeros(1, dtype=np.uint8), True)
    places = len(own) * one, len([*own, *others]) * one
    (is_told,) = turns.tell(none, none, none, *places, u64([*own, *others, 0])).tolist()
    assert not is_told or (turns.run() == DONE and not turns.knows(none)[0])
    return is_told, int(turns.rows[0]) if is_told else 0, float(turns.measures[0])


@pytest.mark.parametrize("share", [(0, 1), (1, 2), (41, 50), (1, 1)])
@pytest.mark.parametrize("most", [9, 400, 1 << 62])
def test_what_another_has_in_place_of_some_hashes_tells_what_both_have(share: tuple[int, int], most: int) -> None:
    rng = np.random.default_rng(most % 1001)
    seen = 0
    for length in LENGTHS[1:]:
        document = rng.integers(0, most, length).tolist()
        for count in range(0, 12, 2):
            at, end = sorted(rng.integers(0, length + 1, 2).tolist())
            others = changed(rng, document[at:end], count, most)
            other = [*document[:at], *others, *document[end:]]
            common, either = len({*document} & {*other}), len({*document} | {*other})
            is_told, row, measure = told(document, document[at:end], others, *share)
            seen += is_told
            if is_told:
                is_alike = common * share[1] >= share[0] * either
                assert repr((row, measure)) == repr((0, common / either) if is_alike else (NEW, float("nan")))
    assert seen > 30


def test_of_a_row_that_differs_in_many_hashes_or_of_a_silent_document_nothing_is_told() -> None:
    document = list(range(1, 1001))
    assert told(document, document[:32], list(range(2000, 2032)), 1, 2)[0]
    assert not told(document, document[:33], [], 1, 2)[0]
    assert not told(document, [], list(range(2000, 2033)), 1, 2)[0]
    assert told(document, document[:512], document[:512], 1, 2)[0]
    assert not told(document, document[:513], document[:512], 1, 2)[0]
    assert not told(document, document[:512], document[:513], 1, 2)[0]
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for silent, listed in ((1, True), (0, False)):
        turns = Turns(u64([0]), 3, none, np.zeros(1, dtype=np.uint16), [])
        turns.compare(64, 1, 2)
        assert turns.tell(none, none, none, none, none, u64([0])).tolist() == [False]  # whose features are not known
        turns.give(one, none, one, u64([5, 0]), np.full(1, silent, dtype=np.uint8), listed)
        assert turns.tell(none, none, none, none, none, u64([0])).tolist() == [False]
        assert turns.run() == (ASK if silent else NEED)


def test_what_is_told_of_rows_that_are_not_there_is_refused() -> None:
    turns = Turns(u64([0, 0]), 3, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint16), [])
    none, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    for row, key in ((0, 1), (1, 0), (-1, 0), (0, 2), (0, -1)):
        with pytest.raises(ValueError, match=f"found {row}, expected one that was found of key {key}"):
            turns.tell(one * row, one * key, none, none, none, u64([0]))
    for start, middle, end in ((-1, 0, 0), (1, 0, 1), (0, 1, 0), (0, 1, 2)):
        with pytest.raises(ValueError, match=f"row 0: found features at {start} to {middle} and {end}, expected"):
            turns.tell(none, none, one * start, one * middle, one * end, u64([0]))
    with pytest.raises(ValueError, match="found 1 keys and 1, 1 and 0 places, expected those of 1 rows"):
        turns.tell(none, none, none, none, none[:0], u64([0]))
