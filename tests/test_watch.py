"""The watch over a catalog: it holds only as long as nothing was committed, and nobody is to look."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from catalogs import in_a_fork

from fpstore._watch import MappedWords, Watch

HOUR = 3600.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "words"
    path.write_bytes(words_bytes())
    return path


def words_bytes() -> bytes:
    return np.array([7, 8, 9], dtype="<u8").tobytes() + bytes(4096)


def words_of(path: Path) -> MappedWords:
    with path.open("rb") as opened:
        return MappedWords(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), 0, 16)


def change(path: Path, offset: int, value: int) -> None:
    with path.open("r+b") as opened:
        opened.seek(offset)
        opened.write(value.to_bytes(8, "little"))


def test_it_does_not_hold_before_anything_was_confirmed() -> None:
    assert not Watch(sure=False).holds()


def test_over_what_no_other_changes_it_holds_until_it_is_ended() -> None:
    watch = Watch(sure=True)
    assert watch.holds()
    watch.end()
    assert not watch.holds()


@pytest.mark.parametrize(("offset", "holds"), [(0, False), (8, True), (16, False)])
def test_it_holds_as_long_as_both_words_are_as_they_were(file: Path, offset: int, holds: bool) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), HOUR)
    assert watch.holds()
    change(file, offset, 70)
    assert watch.holds() is holds
    watch.confirm(words, words.read(), HOUR)
    assert watch.holds()


def test_words_that_were_others_when_they_were_read_are_not_confirmed(file: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    before = words.read()
    change(file, 0, 70)
    watch.confirm(words, before, HOUR)
    assert not watch.holds()


def test_after_its_time_it_does_not_hold(file: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), 0.0)
    assert not watch.holds()
    watch.confirm(words, words.read(), -HOUR)
    assert not watch.holds()


def test_where_there_is_no_stamp_it_does_not_hold(file: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), HOUR)
    watch.confirm(words, None, HOUR)
    assert not watch.holds()


def test_ended_it_is_not_confirmed_any_more(file: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.end()
    watch.confirm(words, words.read(), HOUR)
    assert not watch.holds()


@pytest.mark.parametrize("sure", [False, True])
def test_after_a_fork_it_does_not_hold(file: Path, sure: bool) -> None:
    watch, words = Watch(sure=sure), words_of(file)
    watch.confirm(words, words.read(), HOUR)
    assert watch.holds()

    def ask() -> None:
        assert not watch.holds()

    in_a_fork(ask)
    assert watch.holds()


def test_over_a_file_that_was_cut_short_it_does_not_hold(file: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), HOUR)
    file.write_bytes(b"")
    assert not watch.holds()


def places_of(folder: Path, name: str = "words") -> tuple[tuple[int | None, bytes, tuple[int, int]], ...]:
    """Of a folder, by its path, and of a file in it."""
    there, file = folder.stat(), (folder / name).stat()
    return ((None, bytes(folder), (there.st_dev, there.st_ino)), (HELD[-1], name.encode(), (file.st_dev, file.st_ino)))


HELD: list[int] = []


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    HELD.append(os.open(tmp_path, os.O_RDONLY))
    yield tmp_path
    os.close(HELD.pop())


def test_after_its_time_it_holds_on_where_all_files_are_in_their_places(file: Path, held: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), 0.0, places_of(held), HOUR)
    assert watch.holds()
    file.rename(held / "other")
    assert watch.holds()  # for an hour more
    change(held / "other", 0, 70)
    assert not watch.holds()


@pytest.mark.parametrize("how", ["gone", "another file", "a link", "another folder"])
def test_after_its_time_it_does_not_hold_where_a_file_is_not_in_its_place(file: Path, held: Path, how: str) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), 0.0, places_of(held), 0.0)
    assert watch.holds()
    if how == "another folder":
        moved = held.rename(held.with_name(f"{held.name}-moved"))
        held.mkdir()
        assert not watch.holds()
        held.rmdir()
        moved.rename(held)
        assert watch.holds()
        return
    file.rename(held / "other")
    if how == "another file":
        file.write_bytes(words_bytes())
    elif how == "a link":
        file.symlink_to(held / "other")
    assert not watch.holds()


def test_after_its_time_it_does_not_hold_once_it_was_ended(file: Path, held: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    watch.confirm(words, words.read(), 0.0, places_of(held), 0.0)
    watch.end()
    assert not watch.holds()


def test_more_places_than_it_has_room_for_are_refused(file: Path, held: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    with pytest.raises(ValueError, match="6 places: expected at most 4"):
        watch.confirm(words, words.read(), 0.0, 3 * places_of(held), 0.0)


def test_what_the_words_are_is_told_only_where_the_rest_is_as_it_was(file: Path) -> None:
    watch, words = Watch(sure=False), words_of(file)
    assert (watch.overtaken(), Watch(sure=True).overtaken()) == (None, None)
    watch.confirm(words, words.read(), HOUR)
    assert watch.overtaken() == (7, 9)
    change(file, 0, 70)
    assert (watch.overtaken(), watch.holds()) == ((70, 9), False)
    watch.go_on((70, 9))
    assert watch.holds()
    change(file, 16, 90)
    watch.confirm(words, (70, 9), -HOUR)
    assert watch.overtaken() is None
    watch.confirm(words, (70, 9), HOUR)
    assert watch.overtaken() == (70, 90)
    watch.end()
    assert watch.overtaken() is None
