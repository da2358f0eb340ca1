"""Hashes of kept documents on the disk: what is given is what was laid, and no text is cut again for it."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jobs_model import write_jsonl

from fpstore.disk import Folder
from fpstore.jobs import corpus, dedup
from fpstore.jobs import laid as laid_hashes
from fpstore.jobs.laid import LaidHashes
from fpstore.jobs.spool import Spool
from fpstore.text import Recipe, load_recipe
from fpstore.text.confirm import Checker, Confirm, Rooms
from fpstore.text.held import KeptHashes, Room, Sets

WORDS = ["天气", "北京", "图书馆", "学习", "我们", "今天", "明天", "喜欢", "音乐", "电影", "城市", "历史"]


def kept_of(every: list[list[int]], *, are_features: bool = False) -> KeptHashes:
    offsets = np.cumsum([0, *map(len, every)], dtype=np.int64)
    hashes = np.array([*(each for own in every for each in own), 0], dtype=np.uint64)
    return KeptHashes(hashes, offsets, are_features)


def given(laid: LaidHashes, ids: list[int]) -> list[list[int]]:
    column, starts, counts = laid.places(np.array(ids, dtype=np.uint64))
    return [column[start : start + count].tolist() for start, count in zip(starts, counts, strict=True)]


def has(laid: LaidHashes, ids: list[int]) -> list[bool]:
    found: list[bool] = laid.have(np.array(ids, dtype=np.uint64)).tolist()
    return found


def test_what_was_laid_is_given_in_any_order_and_takes_no_name(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        laid = LaidHashes(folder)
        assert has(laid, [0, 7]) == [False, False]
        laid.add(7, kept_of([[5, 3, 5], [9], [], [1, 2]]), np.array([0, 2, 3]))
        laid.add(10, kept_of([[4], [8, 8]]), np.array([1]))
        assert has(laid, [6, 7, 8, 9, 10, 11]) == [False, True, True, True, True, False]
        assert given(laid, [7, 8, 9, 10]) == [[5, 3, 5], [], [1, 2], [8, 8]]
        assert given(laid, [10, 8, 7]) == [[8, 8], [], [5, 3, 5]]
        assert given(laid, []) == []
        assert list(tmp_path.iterdir()) == []
        laid.close()


@pytest.mark.parametrize(("first", "are_features"), [(11, False), (9, True), (3, False)])
def test_documents_that_do_not_follow_the_last_one_begin_anew(tmp_path: Path, first: int, are_features: bool) -> None:
    with Folder.open(tmp_path) as folder:
        laid = LaidHashes(folder)
        laid.add(7, kept_of([[5, 3], [9]]), np.array([0, 1]))
        laid.add(first, kept_of([[6], [2]], are_features=are_features), np.array([0, 1]))
        assert laid.are_features is are_features
        assert has(laid, [7, 8, first, first + 1]) == [False, False, True, True]
        assert given(laid, [first + 1, first]) == [[2], [6]]
        laid.close()


class FullDisk:
    """A disk that takes so many bytes, and of the call that goes beyond them half."""

    def __init__(self, room: int, number: int = errno.ENOSPC) -> None:
        self.room, self.number, self.refused = room, number, 0

    def write_all(self, fd: int, data: memoryview) -> None:
        self.room -= len(data)
        if self.room >= 0:
            os.write(fd, data)
        else:
            self.refused += 1
            os.write(fd, data[: len(data) // 2])
            raise OSError(self.number, os.strerror(self.number))


def sizes_of(laid: LaidHashes) -> list[int]:
    return [os.fstat(file.fileno()).st_size for file in (laid._hashes, laid._entries)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("room", [0, 24, 39, 64, 80, 127])  # 24 bytes of hashes and 32 beside them, twice
def test_what_there_is_no_room_for_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, number: int
) -> None:
    disk = FullDisk(room, number)
    monkeypatch.setattr(laid_hashes, "write_all", disk.write_all)
    with Folder.open(tmp_path) as folder:
        laid = LaidHashes(folder)
        for first in (7, 9, 11, 0):
            laid.add(first, kept_of([[5, 3], [9]]), np.array([0, 1]))
        assert disk.refused == 1
        assert has(laid, [0, 1, 7, 8, 9, 10, 11, 12]) == [False] * 8
        assert given(laid, []) == []
        assert sizes_of(laid) == [0, 0]
        laid.close()


def test_as_much_room_as_is_taken_is_left_to_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [3, 3]  # of as many bytes as a hash has
    monkeypatch.setattr(os, "fstatvfs", lambda fd: SimpleNamespace(f_bavail=left.pop(), f_frsize=8))
    with Folder.open(tmp_path) as folder:
        laid = LaidHashes(folder)
        laid.add(7, kept_of([[5, 3], [9]]), np.array([0, 1]))
        assert given(laid, [7, 8]) == [[5, 3], [9]]
        for first in (9, 11):
            laid.add(first, kept_of([[5, 3], [9]]), np.array([0, 1]))
            assert has(laid, [7, 8, 9, 10, 11, 12]) == [False] * 6
            assert sizes_of(laid) == [0, 0]
        laid.close()


def test_a_disk_that_fails_otherwise_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laid_hashes, "write_all", FullDisk(0, errno.EIO).write_all)
    with Folder.open(tmp_path) as folder:
        laid = LaidHashes(folder)
        with pytest.raises(OSError, match="Input/output error") as raised:
            laid.add(7, kept_of([[5, 3], [9]]), np.array([0, 1]))
        assert raised.value.filename == str(tmp_path)
        laid.close()


@pytest.mark.parametrize("signs", [False, True])
def test_features_of_laid_hashes_are_those_of_the_texts(tmp_path: Path, signs: bool) -> None:
    asked: list[int] = []
    texts = ["a b c d e", "", "b a b a b a", "f g h i"]

    def read(ids: list[int]) -> Sequence[str]:
        asked.extend(ids)
        return [texts[each] for each in ids]

    recipe = load_recipe("minhash-128" if signs else "text-1")
    kept = recipe.sign_and_keep(texts)[2] if signs else recipe.measure_and_keep(texts)[1]
    with Folder.open(tmp_path) as folder:
        laid = LaidHashes(folder)
        checker = Checker(Confirm.parse("jaccard>=0.8"), recipe, read, 1, Rooms(Room(8), Room(8)), laid)
        checker.hold_hashes(1, kept, np.array([1, 2, 3]))
        found: dict[int, Any] = {}
        for places, sets in checker.sets_of_kept(np.array([0, 1, 2, 3], dtype=np.uint64)):
            found |= {place: checker.features_in(sets, at) for at, place in enumerate(places.tolist())}
        for place, text in enumerate(texts):
            assert found[place].hashes.tolist() == recipe.features(text).hashes.tolist()
            assert found[place].weights.tolist() == recipe.features(text).weights.tolist()
        laid.close()
    assert asked == [0]


def chinese(count: int) -> list[str]:
    """Texts, and then as many that differ from them in a word."""
    rng = np.random.default_rng(5)
    own = [[WORDS[at] for at in rng.integers(0, len(WORDS), 60)] for _ in range(count)]
    return ["".join(words) for words in own] + ["".join([*words[:30], "昨天", *words[31:]]) for words in own]


def test_no_kept_text_of_a_job_is_cut_again_and_no_result_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, recipe = write_jsonl(tmp_path / "in.jsonl", chinese(40)), load_recipe("zh")
    for name, value in (("BATCH_DOCUMENTS", 7), ("COMMIT_DOCUMENTS", 7)):
        monkeypatch.setattr(corpus, name, value)
    cut: list[int] = []
    many = Recipe.features_many

    def counted(self: Recipe, texts: Sequence[str], *, threads: int | None = None) -> Sets:
        cut.append(len(texts))
        return many(self, texts, threads=threads)

    monkeypatch.setattr(Recipe, "features_many", counted)
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(8), Room(8)))

    def results(name: str) -> list[bytes]:
        summary = dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", recipe=recipe, threads=1)
        assert (summary.documents, summary.results) == (80, 40)
        return [(tmp_path / each).read_bytes() for each in (name, f"{name}.tsv")]

    found = results("laid")
    assert cut == []
    monkeypatch.setattr(Spool, "lay_hashes", lambda self: None)
    assert results("cut") == found
    assert sum(cut) > 0


@pytest.mark.parametrize("room", [0, 5_000, 10_000])
def test_a_job_goes_on_where_the_disk_has_no_room_for_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    source, recipe = write_jsonl(tmp_path / "in.jsonl", chinese(40)), load_recipe("zh")
    for name, value in (("BATCH_DOCUMENTS", 7), ("COMMIT_DOCUMENTS", 7)):
        monkeypatch.setattr(corpus, name, value)
    monkeypatch.setattr("fpstore.jobs.kept.Rooms", lambda: Rooms(Room(8), Room(8)))
    disk, found = FullDisk(1 << 30), []
    monkeypatch.setattr(laid_hashes, "write_all", disk.write_all)
    for name in ("whole", "full"):
        dedup([source], tmp_path / name, dropped=tmp_path / f"{name}.tsv", recipe=recipe, threads=1)
        found.append([(tmp_path / each).read_bytes() for each in (name, f"{name}.tsv")])
        assert disk.refused == (name == "full")
        disk.room = room
    assert found[0] == found[1]
