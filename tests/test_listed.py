"""What two documents have in common, by hashes as they come: the counts of plain sets, whatever differs and where."""

import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from helpers import fingerprint_array as u64

from fpstore._turns import DONE, NEW, Turns

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
